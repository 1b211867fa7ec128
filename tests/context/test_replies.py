"""Names in place of refs, whatever stands around them and however the reply is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from alfred_refs.context.mentions import Names
from tests.profiles import examples

NAMES = {"recipe_3": "Thai Curry", "gen_meal_plan_12": "Monday <plan>"}
LONGEST = len("gen_meal_plan_2147483647")


def replies() -> Names:
    """Return what puts names into one reply."""
    return Names(lambda refs: {ref: NAMES[ref] for ref in refs if ref in NAMES}, LONGEST)


def whole(*chunks: str) -> str:
    """Return a reply with names."""
    return "".join(replies().of(chunks))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("recipe_3", "Thai Curry"),
        ("recipe_3's sauce, recipe_3.", "Thai Curry's sauce, Thai Curry."),
        ("**recipe_3** _recipe_3_ `recipe_3`", "**Thai Curry** _Thai Curry_ `Thai Curry`"),
        (r"recipe\_3 and Recipe_3", "Thai Curry and Thai Curry"),
        ("- recipe_3\n- gen_meal_plan_12", "- Thai Curry\n- Monday <plan>"),
        (
            "[recipe_3](https://a.b/recipe_3) recipe_3",
            "[Thai Curry](https://a.b/recipe_3) Thai Curry",
        ),
        ("gen_meal_plan_12; `gen_meal_plan_12`", "Monday <plan>; `Monday <plan>`"),
        (
            "(recipe_3): recipe_3, recipe_3; is it recipe_3? recipe_3...",
            "(Thai Curry): Thai Curry, Thai Curry; is it Thai Curry? Thai Curry...",
        ),
        ("|recipe_3|a/b|recipe_3|", "|Thai Curry|a/b|Thai Curry|"),
        ("at /a: recipe_3, at a/b→recipe_3", "at /a: Thai Curry, at a/b→Thai Curry"),
        ("[x](/a) recipe_3, [x](\nrecipe_3", "[x](/a) Thai Curry, [x](\nThai Curry"),
        (
            "<a href='/x'>recipe_3</a> a=\"x\" recipe_3",
            "<a href='/x'>Thai Curry</a> a=\"x\" Thai Curry",
        ),
        ('{"name": "recipe_3", "id":"recipe_3"}', '{"name": "Thai Curry", "id":"Thai Curry"}'),
        ("my_recipe_3 recipe_33 recipe_3a xrecipe_3", "my_recipe_3 recipe_33 recipe_3a xrecipe_3"),
        ("recipe_3を", "Thai Curryを"),
        ("recipe_03 recipe_3_", "recipe_03 Thai Curry_"),
    ],
)
def test_a_ref_that_stands_by_itself_becomes_a_name(said: str, shown: str) -> None:
    """In prose, Markdown and lists; no part of a longer word, and none of an address."""
    assert whole(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        *("[x](/r/recipe_3)", "[x](r/recipe_3)", "[x](#recipe_3)", "[x](app:recipe_3)"),
        *("[it](recipe_3)", "[x](<a b/recipe_3>)", '[x](/r "of recipe_3")', "![x](recipe_3)"),
        *(
            "www.app.io/r/recipe_3",
            "app.io?id=recipe_3&then",
            "/r?a=1,recipe_3",
            "a://b/c-recipe_3",
        ),
        *("/r/~recipe_3", "recipe_3.pdf", "recipe_3/edit", "recipe_3#top", "recipe_3?x=1"),
        *("<a href='/r/recipe_3'>", '<a href="recipe_3">', "<a href=recipe_3>", "<app:recipe_3>"),
        *("<a title='see recipe_3 now'>", r"/r/recipe\_3", "/r/Recipe_3"),
    ],
)
def test_a_ref_in_an_address_is_left(said: str) -> None:
    """A path, a query, a scheme, a file, the target of a link, an attribute of HTML."""
    assert whole(said) == said
    assert whole(*said) == said
    assert whole(f"{said}\n recipe_3") == f"{said}\n Thai Curry"


def test_what_is_not_known_is_shown_as_chosen() -> None:
    """As it is, or by a function of the application's."""
    assert whole("recipe_9") == "recipe_9"
    marked = Names(lambda _: {}, LONGEST, unknown=lambda ref: f"[{ref}?]")
    assert "".join(marked.of(["recipe_9!"])) == "[recipe_9?]!"


def test_each_ref_is_looked_up_once() -> None:
    """All new ones of a chunk together."""
    asked: list[Sequence[str]] = []

    def names_of(refs: Sequence[str]) -> dict[str, str]:
        asked.append(refs)
        return NAMES

    "".join(Names(names_of, LONGEST).of(["recipe_3 recipe_3 recipe_4 ", "recipe_3 recipe_5 "]))
    assert asked == [["recipe_3", "recipe_4"], ["recipe_5"]]


PIECES = st.sampled_from(
    [
        *("recipe_3", r"recipe\_3", "gen_meal_plan_12", "x" * 70, "_", " "),
        *("://", "](", ")", "/", ".", "#", "=", '="', '"', "<", "→"),
    ]
) | st.text(alphabet="recip_3\\ ()[]:/*'`abc.=\"\nü", max_size=20)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(PIECES, max_size=8), st.lists(st.integers(0, 200), max_size=6))
@example(["https:", "//x/", "recipe_3"], [6])
@example(["[a](", "recipe_3", ")"], [4, 12])
@example(["x" * 70, ":", "recipe_3"], [])
@example(["recipe_3", ".", "x"], [8, 9])
@example(['="', "recipe_3", '"', "recipe_3"], [1])
def test_however_a_reply_is_cut_it_is_the_same(pieces: list[str], places: list[int]) -> None:
    """Cut at some places, between all letters, or not at all."""
    text = "".join(pieces)
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    chunks = [text[start:end] for start, end in pairwise(cuts)]

    assert whole(*chunks) == whole(*text) == whole(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(PIECES, max_size=8))
def test_no_more_is_held_back_than_the_longest_ref_has(pieces: list[str]) -> None:
    """In the spelling that it has, with its underscores escaped and emphasised; and a sign."""
    names, given_out = replies(), 0
    text = "".join(pieces).replace("recipe_3", "other").replace(r"recipe\_3", "other")
    for taken_in, letter in enumerate(text, start=1):
        given_out += len(names.add(letter))
        assert taken_in - given_out <= 2 * LONGEST + 1


@pytest.mark.parametrize("unit", ["a", "_", "\\", "/a"])
def test_a_long_word_takes_linear_time(unit: str) -> None:
    """It is not searched again from each of its letters."""
    text = unit * 200_000

    assert whole(f"{text} recipe_3", "") == f"{text} Thai Curry"
