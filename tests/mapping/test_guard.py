"""Keys in text: found in every spelling, and nothing else is touched."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, strategies as st

from alfred_refs.mapping.keys import HIDDEN, find_keys, scrub

pytestmark = pytest.mark.once

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")

SPELLINGS = {
    "dashed": str(KEY),
    "digits": KEY.hex,
    "capitals": str(KEY).upper(),
    "repr": repr(KEY),
    "URN": KEY.urn,
    "fours": "-".join(KEY.hex[i : i + 4] for i in range(0, 32, 4)),
    "some dashes": "a508000d9b5540f0-8886dbdd88bd2de2",
}
SHOWN = {"repr": "'recipe_1'"}


def name(key: uuid.UUID) -> str | None:
    """Return the name of the one key that has one."""
    return "recipe_1" if key == KEY else None


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_found_in_every_spelling(spelling: str) -> None:
    """What is put in its place is the same for all."""
    text = f"Key ({SPELLINGS[spelling]}), again:{{{SPELLINGS[spelling]}}}."
    shown = SHOWN.get(spelling, "recipe_1")

    assert scrub(text, name) == f"Key ({shown}), again:{{{shown}}}."


def test_keys_are_listed_as_they_are_spelled() -> None:
    """In the order in which they stand in the text."""
    assert find_keys(f"{KEY.hex} and {KEY}, {KEY!r}") == [KEY.hex, str(KEY), str(KEY)]
    assert find_keys("recipe_1 of 2024-01-01") == []


def test_a_key_without_a_name_has_a_placeholder() -> None:
    """In a repr it is one of a text, so that the whole reads as a value."""
    other = uuid.uuid4()

    assert scrub(f"{other}", name) == HIDDEN
    assert scrub(f"[{other!r}]") == f"['{HIDDEN}']"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"cafe{KEY}cafe", "caferecipe_1cafe"),
        (f"2024-01-01-{KEY}-1.jpg", "2024-01-01-recipe_1-1.jpg"),
        (f"{KEY}{KEY}", "recipe_1recipe_1"),
        (f"{KEY.hex}{KEY}", "recipe_1recipe_1"),
        (f"{KEY.hex}{KEY.hex}", HIDDEN),
        (f"\\x{KEY.hex}", "\\xrecipe_1"),
        (f"UUID('{KEY}", "UUID('recipe_1"),
    ],
)
def test_a_key_is_found_whatever_stands_beside_it(text: str, shown: str) -> None:
    """Digits without a beginning are hidden as a whole."""
    assert scrub(text, name) == shown


@given(st.lists(st.text(), min_size=1), st.sampled_from(list(SPELLINGS.values())))
def test_no_text_shows_a_key_planted_in_it(pieces: list[str], spelled: str) -> None:
    """Neither the whole nor its beginning comes out."""
    shown = scrub(spelled.join(["", *pieces, ""])).lower()

    for known in SPELLINGS.values():
        assert known.lower() not in shown
    assert "a508000d" not in shown


@given(st.text(), st.text(st.sampled_from("0123456789abcdefABCDEF-'{}() "), max_size=31))
def test_text_without_keys_is_unchanged(anything: str, digits: str) -> None:
    """Whatever has too few digits for one."""
    assert scrub(anything) == anything
    assert scrub(digits) == digits


@given(st.text(), st.uuids())
def test_what_is_scrubbed_stays_as_it_is(text: str, key: uuid.UUID) -> None:
    """There is nothing left to be found in it."""
    once = scrub(f"{text}{key}{text}")

    assert scrub(once) == once
    assert find_keys(once) == []
