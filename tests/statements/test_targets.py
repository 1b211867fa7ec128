"""What a value stands for, and how keys take the place of the refs in it."""

from __future__ import annotations

import uuid
from collections import deque
from enum import Enum
from typing import Any

import pytest

from alfred_refs import UntranslatableError
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.statements.dataflow import InputTarget, Mixture, RawColumn, has_text
from alfred_refs.statements.inputs import swap_refs, takes_keys

ID = KeyColumn("orders.id", "order", "integer")
LIST = KeyColumn("users.orders", "order", "integer", array=True)
KEYS = {"order_1": 41, "order_2": 42}


class Spelt(str):
    """Text of a class of its own."""

    __slots__ = ()


class Colour(Enum):
    """No text."""

    RED = "order_1"


def swap(text: str, _: KeyColumn) -> Any:
    """Return the key of a ref."""
    return KEYS[text]


@pytest.mark.parametrize(
    ("value", "target", "result"),
    [
        ("order_1", ID, 41),
        (Spelt("order_1"), ID, 41),
        (7, ID, 7),
        (None, ID, None),
        (["order_1", 7, None], ID, [41, 7, None]),
        (deque(["order_1", "order_2"]), ID, [41, 42]),
        ({"order_1": 1}.keys(), ID, [41]),
        ({"order_1"}, ID, [41]),
        ([], ID, []),
        (["order_1", None], LIST, [41, None]),
        ([["order_1"], ["order_2"]], LIST, [[41], [42]]),
        (None, LIST, None),
        (
            [("order_1", 2, "order_2")],
            (ID, RawColumn("lines.position"), None),
            [(41, 2, "order_2")],
        ),
        ([["order_2", ["order_1"]]], (ID, LIST), [(42, [41])]),
        ("anything", None, "anything"),
        (5, RawColumn("lines.position"), 5),
        ("no ref", RawColumn("lines.position"), "no ref"),
        ([5, 6], Mixture(ID), [5, 6]),
    ],
)
def test_keys_take_the_place_of_refs(value: Any, target: InputTarget | None, result: Any) -> None:
    """One by one, in lists of any kind, and position by position in rows."""
    assert swap_refs(value, target, swap) == result


@pytest.mark.parametrize(
    ("value", "target", "fact"),
    [
        (b"order_1", ID, r"type bytes is given for a key in key column orders\.id"),
        (Colour.RED, ID, "type Colour is given for a key"),
        ({"order_1": 1}, ID, "type dict is given for a key"),
        ([["order_1"]], ID, "a list is given where one ref is needed"),
        ((text for text in ["order_1"]), ID, "as a generator, which can be read only once"),
        ("order_1", LIST, "a string is given where a list of refs is needed"),
        ([b"order_1"], LIST, "type bytes is given for a key"),
        ([("order_1",)], (ID, None), "a row of 2 columns is compared with something else"),
        ([("order_1", 2, 3)], (ID, None), "a row of 2 columns is compared with something else"),
        (["order_1"], (ID, None), "a row of 2 columns is compared with something else"),
        ("order_1", RawColumn("lines.position"), r"'order_1' is given for column lines\.position"),
        ([1, "gen_order_1"], RawColumn("lines.position"), "'gen_order_1' is given for column"),
        ("anything", Mixture(ID), r"combined with key column orders\.id other than by comparison"),
        ([1, ["x"]], Mixture(ID), "other than by comparison"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, target: InputTarget, fact: str) -> None:
    """The message says what was found and where, and nothing is swapped in part."""
    with pytest.raises(UntranslatableError, match=fact):
        swap_refs(value, target, swap)


def test_text_is_found_in_lists_and_mappings() -> None:
    """However deep; bytes and keys are no text."""
    assert has_text([1, (2, {"a": ["x"]})])
    assert not has_text([1, b"x", uuid.uuid4(), {"a": None}])


def test_keys_are_put_only_where_keys_are_meant() -> None:
    """Other targets only look at a value."""
    targets: list[InputTarget] = [ID, (ID, None), RawColumn("lines.position"), Mixture(ID)]

    assert list(map(takes_keys, targets)) == [True, True, False, False]
