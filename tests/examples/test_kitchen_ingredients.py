"""Tests for examples.kitchen.ingredients."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from examples.kitchen.ingredients import IngredientLine, catalogue_name, parse_ingredient, singular


@pytest.mark.parametrize(
    ("line", "quantity", "unit", "name"),
    [
        ("600g Potatoes", "600", "g", "Potatoes"),
        ("1 tsp sugar", "1", "tsp", "sugar"),
        ("1/4 Cup of milk", "1/4", "cup", "milk"),
        ("2 tbsp. Italian parsley", "2", "tbsp", "Italian parsley"),
        ("1.5 liters of water", "1.5", "l", "water"),
        ("3 Potatoes", "3", None, "Potatoes"),
        ("28 oz can Chickpeas", "28", "oz", "can Chickpeas"),
    ],
)
def test_quantity_and_unit_come_before_the_name(
    line: str, quantity: str, unit: str | None, name: str
) -> None:
    """A quantity, a unit in any spelling and a name are told apart, with or without "of"."""
    assert parse_ingredient(line) == IngredientLine(quantity, unit, name)


@pytest.mark.parametrize(
    ("line", "quantity"),
    [
        ("½ tsp Cinnamon", "1/2"),
        ("1½ tsp Cinnamon", "1 1/2"),
        ("1 ½ tsp Cinnamon", "1 1/2"),
        ("1\N{FRACTION SLASH}2 tsp Cinnamon", "1/2"),
        ("4 1/2 tsp Cinnamon", "4 1/2"),
        ("2 and 1/4 tsp Cinnamon", "2 1/4"),
        (".5 tsp Cinnamon", ".5"),
    ],
)
def test_fractions_are_written_in_ascii(line: str, quantity: str) -> None:
    """A fraction comes out as digits and a slash, however it is typed."""
    assert parse_ingredient(line) == IngredientLine(quantity, "tsp", "Cinnamon")


@pytest.mark.parametrize(
    "line", ["2-3 onions", "2 \N{EN DASH} 3 onions", "2 to 3 onions", "Two or 3 onions"]
)
def test_ranges_have_one_spelling(line: str) -> None:
    """A range comes out as two numbers and a hyphen, however it is typed."""
    assert parse_ingredient(line) == IngredientLine("2-3", None, "onions")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A glass of brandy.", IngredientLine("1", "glass", "brandy")),
        ("half a tin (200g) of baked beans", IngredientLine("1/2", "tin", "baked beans")),
        ("A quarter of a pound of rice", IngredientLine("1/4", "lb", "rice")),
        ("½ an onion*", IngredientLine("1/2", None, "onion")),
        ("1 cup half and half", IngredientLine("1", "cup", "half and half")),
    ],
)
def test_numbers_may_be_words(line: str, expected: IngredientLine) -> None:
    """Number words are read as numbers, and articles after them are dropped."""
    assert parse_ingredient(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "500 g pasta (1 pound)",
        "~500g / 1 lb pasta",
        "500 g or 1lb of pasta",
        "pasta: 500g | 1 lb",
        "pasta *500 g*",
        "pasta (about 500 g)",
        "pasta, 500 g",
    ],
)
def test_one_measure_is_kept_wherever_it_stands(line: str) -> None:
    """The first of two measures is kept, before the name or after it."""
    assert parse_ingredient(line) == IngredientLine("500", "g", "pasta")


@pytest.mark.parametrize(
    "line",
    [
        "1 carrot (optional)",
        "1 carrot, optional",
        "1 carrot, peeled and diced",
        "1 carrot - any kind",
        "1 carrot to taste",
        "1 carrot for garnishing",
        "**1 carrot**",
    ],
)
def test_remarks_are_dropped(line: str) -> None:
    """Parentheses, what follows a comma or a dash, stock phrases and markup leave no trace."""
    assert parse_ingredient(line) == IngredientLine("1", None, "carrot")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("4 cloves", IngredientLine("4", None, "cloves")),
        ("4 cloves of garlic", IngredientLine("4", "clove", "garlic")),
        ("4 garlic cloves, minced", IngredientLine("4", "clove", "garlic")),
        ("garlic (4 large cloves)", IngredientLine("4", "clove", "garlic")),
        ("1 tsp ground cloves", IngredientLine("1", "tsp", "ground cloves")),
    ],
)
def test_a_unit_needs_something_to_measure(line: str, expected: IngredientLine) -> None:
    """A clove is a unit of garlic, and a spice where nothing is measured by it."""
    assert parse_ingredient(line) == expected


@pytest.mark.parametrize("line", ["Pinch salt", "a few pinches of salt", "Pinches of salt"])
def test_a_unit_may_stand_without_quantity(line: str) -> None:
    """A unit without a number is a unit, and the quantity stays unknown."""
    assert parse_ingredient(line) == IngredientLine(None, "pinch", "salt")


@pytest.mark.parametrize(
    "line",
    ["Olive oil", "Spices:", "Juice of 1/2 Lemon", "2-4% salt", "(spices)", "", "..."],
)
def test_a_line_not_understood_is_its_own_name(line: str) -> None:
    """What has no quantity and no unit keeps the whole line as its name."""
    assert parse_ingredient(line) == IngredientLine(None, None, line)


@given(st.text())
def test_every_text_parses(line: str) -> None:
    """No text raises, and none but a blank one loses its name."""
    assert bool(parse_ingredient(line).name) == bool(line.strip())


@given(st.from_regex(r"[\d ½/.,-]{0,8}(cups?|g)?[ of]*[a-z (),:]{0,12}", fullmatch=True))
def test_every_catalogue_name_is_its_own(line: str) -> None:
    """Normalising a normalised name changes nothing, so that it finds its own row."""
    name = catalogue_name(parse_ingredient(line).name)
    assert (name and catalogue_name(name)) == name


@pytest.mark.parametrize(
    "name", ["onion", "Onions", "ONION", "Small onion", "finely diced onions"]
)
def test_spellings_share_a_catalogue_name(name: str) -> None:
    """Case, number, size and cut make no difference to the catalogue."""
    assert catalogue_name(name) == "onion"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("All-Purpose Flour", "all purpose flour"),
        ("Salt & pepper", "salt and pepper"),
        ("Bay leaves", "bay leaf"),
        ("fresh or pickled beets", "pickled beet"),
    ],
)
def test_catalogue_names_are_plain(name: str, expected: str) -> None:
    """Hyphens, ampersands and dangling conjunctions are written out or dropped."""
    assert catalogue_name(name) == expected


@pytest.mark.parametrize(
    "name", ["Spices:", "Juice of 2 limes", "...", "", "as much bacon as you want"]
)
def test_what_names_no_ingredient_is_not_catalogued(name: str) -> None:
    """Headings, sentences, leftover numbers and bare punctuation have no catalogue name."""
    assert catalogue_name(name) is None


@pytest.mark.parametrize("noun", ["asparagus", "hummus", "molasses", "octopus", "rice", "cheese"])
def test_nouns_that_only_look_plural_stay(noun: str) -> None:
    """A singular that ends in s, and a noun without plural, are left alone."""
    assert singular(noun) == noun
