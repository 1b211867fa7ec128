"""Mentions in what a user wrote."""

from __future__ import annotations

import pytest

from alfred_refs import MentionError
from alfred_refs.context.mentions import mentions_in

ENTITIES = {"recipe", "meal_plan"}


def found(text: str) -> list[tuple[str, str, str, str]]:
    """Return what is found: where it stands, and what it is taken apart into."""
    return [
        (text[each.start : each.end], each.label, each.entity, each.key)
        for each in mentions_in(text, ENTITIES)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cook @[Curry](recipe:1)!", [("@[Curry](recipe:1)", "Curry", "recipe", "1")]),
        ("@[a](recipe:1)@[b](meal_plan:2)", [
            ("@[a](recipe:1)", "a", "recipe", "1"),
            ("@[b](meal_plan:2)", "b", "meal_plan", "2"),
        ]),
        ("`@[C [x]](recipe:1)`", [("@[C [x]](recipe:1)", "C [x]", "recipe", "1")]),
        ("@[a]( recipe : x%20y )", [("@[a]( recipe : x%20y )", "a", "recipe", "x y")]),
        ("```\n@[](recipe:1)\n```", [("@[](recipe:1)", "", "recipe", "1")]),
        ("@[me](https://a.b) @[x](unicorn:1) [y](recipe:1) @[z] (recipe:1) @[", []),
        ("@[@[a](recipe:1)", [("@[a](recipe:1)", "a", "recipe", "1")]),
    ],
)  # fmt: skip
def test_mentions_are_found_and_taken_apart(text: str, expected: list[tuple[str, ...]]) -> None:
    """Wherever they stand; what only looks like one is left."""
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("@[a](recipe:1", "@[a](recipe:)", "@[a](recipe:1 2)", "@[a](recipe:"),
        f"@[a](recipe:{' ' * 200_000}",
    ],
)
def test_a_mention_that_is_malformed_is_refused(text: str) -> None:
    """It names a row, and cannot be left as it is; its key is not repeated."""
    with pytest.raises(MentionError) as caught:
        mentions_in(text, ENTITIES)
    assert (caught.value.label, caught.value.entity) == ("a", "recipe")
    assert "1" not in str(caught.value)
