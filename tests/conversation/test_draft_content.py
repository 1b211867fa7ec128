"""What a draft may hold, and what is said of the rest."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from alfred_refs import DraftContentError
from alfred_refs.conversation.draft_content import MAX_BYTES, MAX_DEPTH, to_text

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.floats(allow_nan=False).filter(math.isfinite),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_json_comes_back_as_it_was(content: dict[str, Any]) -> None:
    """Types, order and letters, and its text is the same when it is written once more."""
    text = to_text(content)
    read = json.loads(text)

    assert (repr(read), to_text(read)) == (repr(content), text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["Soup"], "the content of a draft is of type list; give an object"),
        ("{}", "the content of a draft is of type str; give an object"),
        (None, "the content of a draft is of type NoneType; give an object"),
        ({1: "Soup"}, "has a field whose name is of type int; name fields by text"),
        ({"a": {None: 1}}, "has a field whose name is of type NoneType"),
        ({"rate": math.nan}, "field 'rate' of a draft has a number that is not finite; give null"),
        ({"rate": [-math.inf]}, "field 'rate' of a draft has a number that is not finite"),
        (
            {"name": "So\0up"},
            "field 'name' of a draft has a text with a NUL character; remove it",
        ),
        ({"a": [{"b\0": 1}]}, "field 'a' of a draft has a text with a NUL character"),
        ({"c\0": 1}, r"field 'c\\x00' of a draft has a text with a NUL character"),
        ({"name": "\ud83c"}, "field 'name' of a draft has a text with half of a surrogate pair"),
        (
            {"day": dt.date(2026, 1, 1)},
            "field 'day' of a draft has a value of type date, which is not JSON",
        ),
        (
            {"recipe_id": KEY},
            "field 'recipe_id' of a draft has a value of type UUID, .* and a ref for a key",
        ),
        ({"a": {1, 2}}, "field 'a' of a draft has a value of type set, which"),
        ({"a": b"x"}, "field 'a' of a draft has a value of type bytes, which"),
        (
            {"a": nested(MAX_DEPTH)},
            "field 'a' of a draft has values nested more than 50 levels deep",
        ),
        ({"a": 10**5000}, "an integer of thousands of digits; give it as text"),
        ({"a": "x" * MAX_BYTES}, "has 262,152 bytes, and the limit is 262,144; split it"),
        ({"a": "é" * (MAX_BYTES // 2)}, "has 262,152 bytes"),
        ({str(KEY): math.nan}, "field '<key>' of a draft has a number"),
    ],
)
def test_what_is_not_is_refused_in_words(content: Any, message: str) -> None:
    """The fact and the remedy, and none of the values."""
    with pytest.raises(DraftContentError, match=message) as caught:
        to_text(content)

    assert str(KEY) not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_is_at_the_limits_is_kept() -> None:
    """The last byte and the last level, and what goes round in a circle has none."""
    assert len(to_text({"a": "x" * (MAX_BYTES - 8)})) == MAX_BYTES
    assert json.loads(to_text({"a": nested(MAX_DEPTH - 1)})) == {"a": nested(MAX_DEPTH - 1)}
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(DraftContentError, match="50 levels"):
        to_text({"a": ring})


def test_what_is_given_is_copied_as_plain_values() -> None:
    """Tuples are lists, and enumerated texts texts, as JSON has them."""
    assert to_text({"a": (1, ("b",))}) == '{"a":[1,["b"]]}'
