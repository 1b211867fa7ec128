"""`Conversation.scrub`: refs in the place of keys, in whatever is about to reach a model."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from alfred_refs import ContextError, Conversation, KeyShownError
from tests.fix_session import TravelLog

KNOWN = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
OTHER = uuid.UUID("c69607bb-9b55-40f0-8886-dbdd88bd2de3")


@pytest.fixture
def chat(conversation: Conversation) -> Conversation:
    """A conversation that knows one recipe."""
    conversation.refer("recipe", KNOWN)
    return conversation


@dataclass
class Told:
    """Something of the application's own."""

    text: str
    number: int = 1


class Model(BaseModel):
    """The same in pydantic."""

    key: uuid.UUID
    rest: tuple[float, ...] = (1.5,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"see {KNOWN} and {OTHER}", "see recipe_1 and <key>"),
        ({"a": [{"b": str(KNOWN).upper()}], "n": 1e22}, {"a": [{"b": "recipe_1"}], "n": 1e22}),
        ({str(KNOWN): 1, f"x{OTHER}": None}, {"recipe_1": 1, "x<key>": None}),
        ((KNOWN, {KNOWN: OTHER}), ["recipe_1", {"recipe_1": "<key>"}]),
        (Told(f"{KNOWN}"), {"text": "recipe_1", "number": 1}),
        (Model(key=KNOWN), {"key": "recipe_1", "rest": [1.5]}),
        (7, 7),
        (None, None),
    ],
)
def test_refs_take_the_place_of_keys(chat: Conversation, value: Any, expected: Any) -> None:
    """At any depth, in names of fields too; nothing else changes."""
    assert chat.scrub(value) == expected


def test_a_cut_key_has_its_ref_where_one_fits(chat: Conversation) -> None:
    """Of the keys that stand whole beside it; else it is masked."""
    assert chat.scrub([f"{KNOWN}", "..88bd2de2", "a508000d…"]) == ["recipe_1"] * 3
    assert chat.scrub("..88bd2de2") == "<key>"


def test_a_key_that_is_text_is_found_where_it_stands_by_itself(chat: Conversation) -> None:
    """As far as this process has met it: nothing else tells it from a word."""
    chat.refer("product", "SKU-1")
    assert chat.scrub("SKU-1, SKU-10, xSKU-1") == "product_1, SKU-10, xSKU-1"


def test_a_key_that_looks_like_a_ref_is_taken_for_the_ref(chat: Conversation) -> None:
    """A ref that stands in a text is never made another one."""
    chat.refer("product", "recipe_1")
    assert chat.scrub("see recipe_1") == "see recipe_1"


def test_of_keys_that_are_texts_the_longest_is_found(chat: Conversation) -> None:
    """One may be the beginning of another."""
    for key in ("SKU", "SKU.1"):
        chat.refer("product", key)
    assert chat.scrub("SKU.1, SKU") == "product_2, product_1"


def test_fields_whose_names_are_masked_alike_are_all_there(chat: Conversation) -> None:
    """Nothing is lost."""
    keys = [uuid.uuid4() for _ in range(3)]
    value: dict[Any, Any] = {"<key>": 0, KNOWN: "a"}
    value |= {str(key): n for n, key in enumerate(keys)}
    assert chat.scrub(value) == {
        "<key>": 0,
        "<key> (2)": 0,
        "<key> (3)": 1,
        "<key> (4)": 2,
        "recipe_1": "a",
    }


class Kind(Enum):
    """Of the application's own."""

    KEY = str(KNOWN)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Kind.KEY, "recipe_1"),
        ({str(KNOWN)}, ["recipe_1"]),
        (MappingProxyType({"a": KNOWN}), {"a": "recipe_1"}),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 1)),
        (Decimal("1.50"), Decimal("1.50")),
    ],
)
def test_what_becomes_json_in_one_way_does(chat: Conversation, value: Any, expected: Any) -> None:
    """Whatever kind of container it is."""
    assert chat.scrub(value) == expected


@pytest.mark.parametrize("value", [object(), KNOWN.bytes, {(KNOWN, 1): 2}, range, {"a": [print]}])
def test_what_is_no_json_is_refused(chat: Conversation, value: Any) -> None:
    """Nobody could tell what a prompt would show of it."""
    with pytest.raises(ContextError, match="cannot be written as JSON"):
        chat.scrub(value)


def test_what_is_nested_too_deep_is_refused(chat: Conversation) -> None:
    """In words; what a model can read passes."""
    deep: Any = str(KNOWN)
    for _ in range(150):
        deep = [deep]
    assert "recipe_1" in repr(chat.scrub(deep))
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ContextError, match="more than 200 levels deep"):
        chat.scrub(deep)


def test_a_step_is_kept_without_keys(chat: Conversation) -> None:
    """Whoever keeps it; half of a surrogate pair, which has no UTF-8 form, is escaped."""
    left = {"note": f"see {KNOWN} \ud800 \0", "data": [{str(OTHER): "日本"}]}
    chat.add_step(left)
    [step] = chat.steps()
    assert json.loads(step.content) == {
        "note": "see recipe_1 \\ud800 \0",
        "data": [{"<key>": "日本"}],
    }
    for bad in (float("inf"), object()):
        with pytest.raises(ContextError, match="cannot be written as JSON"):
            chat.add_step({"data": bad})
    assert len(chat.steps()) == 1


def test_a_number_is_no_key(chat: Conversation) -> None:
    """Decimal digits alone are masked only if a row is known to have them as its key."""
    amount = "12345678901234567890123456789012"

    assert chat.scrub({"amount": amount}, unknown="refuse") == {"amount": amount}
    ref = chat.refer("recipe", uuid.UUID(amount))
    assert chat.scrub(f"see {amount}") == f"see {ref}"


def test_what_has_no_ref_can_be_refused(chat: Conversation) -> None:
    """With where it is, and without the key."""
    value = {"rows": [{"name": "ok"}, {"note": f"see {OTHER}"}]}
    with pytest.raises(KeyShownError) as caught:
        chat.scrub(value, unknown="refuse")
    assert (caught.value.place, caught.value.kind) == ("rows[1].note", "whole")
    assert str(OTHER) not in str(caught.value)
    assert chat.scrub({"id": str(KNOWN)}, unknown="refuse") == {"id": "recipe_1"}
    with pytest.raises(KeyShownError, match="the text shows a key"):
        chat.scrub(str(OTHER), unknown="refuse")


def test_the_registry_is_asked_once_or_not_at_all(chat: Conversation, store: TravelLog) -> None:
    """Nothing is minted."""
    store.trips.clear()
    chat.scrub({"a": "no key", "b": [1, 2.5, True]})
    assert store.trips == []
    chat.scrub([f"{KNOWN}", {"x": f"{OTHER}"}, f"{KNOWN}"])
    assert store.trips == ["refs_of"]
