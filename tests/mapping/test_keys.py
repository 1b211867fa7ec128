"""Keys as the registry stores them."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, strategies as st

from alfred_refs.mapping.keys import Key, decode, encode

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
    """A UUID is stored as its bytes and one that says so."""
    assert len(encode(uuid.uuid4())) == 17


@pytest.mark.parametrize("value", [None, True, 1.5, b"x", ["a"]])
def test_what_is_no_key_is_refused_without_being_repeated(value: object) -> None:
    """A value of another type raises, and the message names the type only."""
    with pytest.raises(TypeError, match="a key cannot be a"):
        encode(value)  # type: ignore[arg-type]
