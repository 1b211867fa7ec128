"""The grammar of refs."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from alfred_refs.mapping.keys import MAX_NUMBER, Ref, is_entity_name, parse_ref

entities = st.from_regex(r"[a-z][a-z0-9]{0,8}(_[a-z]{1,8}){0,2}", fullmatch=True).filter(
    is_entity_name
)


@given(st.builds(Ref, entities, st.integers(1, MAX_NUMBER), st.booleans()))
def test_parse_is_the_inverse_of_format(ref: Ref) -> None:
    """Every ref that can be written is read back as itself."""
    assert parse_ref(str(ref)) == ref


@pytest.mark.parametrize(
    "text",
    [
        *("", "recipe", "recipe_", "recipe_0", "recipe_01", "recipe_-1", "recipe_1 ", " recipe_1"),
        *("Recipe_1", "recipe-1", "recipe_1\n", "_1", "1", "recipe_²", "réc_1", "recipe_\u0661"),
        f"recipe_{MAX_NUMBER + 1}",
    ],
)
def test_a_text_that_is_not_exactly_a_ref_is_none(text: str) -> None:
    """Padding, case, spaces, other digits and numbers past the registry's are not read as refs."""
    assert parse_ref(text) is None


def test_a_draft_has_its_own_form() -> None:
    """A `gen_` ref is read as a draft's of the entity behind it."""
    assert parse_ref("gen_meal_plan_2") == Ref("meal_plan", 2, draft=True)


def test_refs_sort_naturally() -> None:
    """`recipe_2` comes before `recipe_10`."""
    refs = [Ref("recipe", 10), Ref("recipe", 2), Ref("meal_plan", 3)]

    assert [str(ref) for ref in sorted(refs)] == ["meal_plan_3", "recipe_2", "recipe_10"]


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        *(("recipe", True), ("meal_plan", True), ("table2", True), ("generator", True)),
        *(("gen_recipe", False), ("recipe_2", False), ("Recipe", False), ("", False)),
        *(("_recipe", False), ("2recipe", False), ("rez_ept_", True), ("r e", False)),
    ],
)
def test_entity_names_that_would_read_as_refs_or_drafts_are_refused(
    name: str, allowed: bool
) -> None:
    """A name starting with `gen_` or ending in `_` and digits could not be told from a ref."""
    assert is_entity_name(name) is allowed
