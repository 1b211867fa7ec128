"""Refs and keys as values."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, strategies as st

from alfred_refs.mapping.keys import (
    MAX_NUMBER,
    Key,
    Ref,
    decode,
    encode,
    is_entity_name,
    parse_draft_ref,
    parse_ref,
)

entities = st.from_regex(r"[a-z][a-z0-9]{0,8}(_[a-z]{1,8}){0,2}", fullmatch=True).filter(
    is_entity_name
)


@given(st.builds(Ref, entities, st.integers(1, MAX_NUMBER), st.booleans()))
def test_parse_is_the_inverse_of_format(ref: Ref) -> None:
    """Every ref that can be written is read back as itself, and as a draft's if it is one."""
    assert parse_ref(str(ref)) == ref
    assert parse_draft_ref(str(ref)) == (ref if ref.draft else None)


@pytest.mark.parametrize(
    "text",
    [
        *("", "recipe", "recipe_", "recipe_0", "recipe_01", "recipe_-1", "recipe_1 ", " recipe_1"),
        *("Recipe_1", "recipe-1", "recipe_1\n", "_1", "1", "recipe_²", "réc_1", "recipe_\u0661"),
        f"recipe_{MAX_NUMBER + 1}",
    ],
)
def test_a_text_that_is_not_exactly_a_ref_is_none(text: str) -> None:
    """Padding, case, spaces, other digits and too large numbers are not read as refs."""
    assert parse_ref(text) is None


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
    """A name must not start with `gen_`, or end in `_` and digits."""
    assert is_entity_name(name) is allowed


simple: st.SearchStrategy[Key] = st.one_of(
    st.uuids(), st.integers(-(2**70), 2**70), st.text(max_size=40)
)
keys: st.SearchStrategy[Key] = st.one_of(
    simple, st.lists(simple, max_size=4).map(tuple), st.tuples(simple, st.tuples(simple))
)


@given(keys)
def test_decode_is_the_inverse_of_encode(key: Key) -> None:
    """A key of any type, composite included, comes back equal and of its own type."""
    decoded = decode(encode(key))

    assert (decoded, type(decoded)) == (key, type(key))


@given(keys, keys)
def test_two_keys_are_never_stored_alike(one: Key, other: Key) -> None:
    """Different keys have different bytes: `1`, `"1"` and `(1,)` are three keys."""
    assert (encode(one) == encode(other)) is (one == other)


def test_a_uuid_takes_seventeen_bytes() -> None:
    """Its own sixteen, and one for the type."""
    assert len(encode(uuid.uuid4())) == 17


@pytest.mark.parametrize("value", [None, True, 1.5, b"x", ["a"]])
def test_a_value_that_is_not_a_key_is_refused_without_repeating_it(value: object) -> None:
    """The message has its type only."""
    with pytest.raises(TypeError, match="a key cannot be a"):
        encode(value)  # type: ignore[arg-type]
