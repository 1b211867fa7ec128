"""What must not become of a list that is edited by position is found by the fuzz."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from alfred_refs import Conversation
from alfred_refs.tools import Toolset
from tests.tools.fuzz import lists
from tests.tools.fuzz.judge import Done, Judge, UnsureError
from tests.tools.fuzz.world import Place, spelt
from tests.tools.models import Cuisine, Dish, Part

KEYS = {name: str(uuid.UUID(int=n)) for n, name in enumerate(("korma", "soup", *"abcd"), start=1)}

Held = dict[str, tuple[int, str]]
"""What the parts of a dish hold: their positions and notes."""

BEFORE: Held = {"a": (1, "a"), "b": (2, "b"), "c": (3, "c")}
TAGS = ["hot", "mild"]


def rows(korma: Held, soup: Held, tags: list[str] = TAGS, name: str = "") -> dict[Place, Any]:
    """Return two dishes with their parts, as objects."""
    found: dict[Place, Any] = {}
    for dish, held in (("korma", korma), ("soup", soup)):
        parts = [
            SimpleNamespace(_ref=(KEYS[part],), position=position, note=note)
            for part, (position, note) in held.items()
        ]
        ref = (KEYS[dish],)
        data = {"name": name, "tags": tags} if dish == "korma" else {}
        here = SimpleNamespace(_ref=ref, extra=[[1]], parts=parts, **data)
        found["dishes", spelt(ref)] = here
        found |= {("parts", spelt(each._ref)): each for each in parts}
    return found


def digests(rows: dict[Place, Any]) -> dict[Place, str]:
    """Return what the columns of rows hold."""
    return {
        place: repr({name: has for name, has in vars(row).items() if name != "parts"})
        for place, row in rows.items()
    }


def found_of(
    conversation: Conversation, name: str, edits: list[Any], now: dict[Place, Any], **more: Any
) -> list[str]:
    """Return what is wrong with an answered edit, after which the rows are so."""
    row = conversation.refer(Dish, uuid.UUID(KEYS["korma"]))
    listed = now["dishes", spelt((KEYS["korma"],))]
    parts = [conversation.refer(Part, uuid.UUID(each._ref[0])) for each in listed.parts]
    items = {str(n): {"id": ref} for n, ref in enumerate(parts, start=1)}
    answer = {"table": "dishes", "row": row, "list": name, "items": items, **more}
    before = rows(BEFORE, {"d": (1, "d")})
    table = Toolset([Dish, Part, Cuisine]).tables.by_name("dishes")
    states = (digests(before), digests(now), before)
    done = Done("db_edit_list", {"edits": edits}, table, answer, *states, cut=False)
    return list(lists.wrongs(done, Judge(conversation, set()), now))


REMOVE, MOVE = {"action": "remove", "path": [1]}, {"action": "move", "path": [3], "to": 1}
ADD = {"action": "add", "path": [9], "data": {"note": "e"}}
SOUP: Held = {"d": (1, "d")}
DONE: Held = {"c": (1, "c"), "b": (2, "b")}
OTHER = "a list is not what the edits come to"
COLUMNS = "columns are changed that are not of the list"
ELSEWHERE = "rows are changed that are not of the list"


@pytest.mark.parametrize(
    ("now", "wrong"),
    [
        (rows(DONE, SOUP), []),
        (rows({"b": (1, "b"), "c": (2, "c")}, SOUP), [OTHER]),
        (rows(BEFORE, SOUP), [OTHER]),
        (rows({"c": (1, "c"), "b": (3, "b")}, SOUP), ["positions have gaps: [1, 3]"]),
        (rows({"c": (1, "c"), "b": (2, "x")}, SOUP), [f"{COLUMNS}: ['note']"]),
        (rows(DONE, {"d": (1, "x")}), [ELSEWHERE]),
        (rows(DONE, {}), [ELSEWHERE]),
        (rows(DONE, SOUP, name="x"), [ELSEWHERE]),
    ],
)
def test_a_list_of_rows_that_is_another_is_found(
    conversation: Conversation, now: dict[Place, Any], wrong: list[str]
) -> None:
    """And whatever is changed beside it."""
    assert found_of(conversation, "parts", [REMOVE, MOVE], now) == wrong


def test_an_array_that_is_another_is_found(conversation: Conversation) -> None:
    """And another column of the row."""
    edits = [REMOVE, {"action": "add", "path": [1], "data": "new"}]
    parts = (BEFORE, SOUP)
    assert found_of(conversation, "tags", edits, rows(*parts, ["new", "mild"])) == []
    assert found_of(conversation, "tags", edits, rows(*parts, ["mild", "new"])) == [OTHER]
    wrong = found_of(conversation, "tags", edits, rows(*parts, ["new", "mild"], "x"))
    assert wrong == [f"{COLUMNS}: ['name']"]
    with pytest.raises(UnsureError):
        found_of(conversation, "extra", [{"action": "remove", "path": [1, 1]}], rows(*parts))


def test_a_preview_that_changes_rows_is_found(conversation: Conversation) -> None:
    """Though it shows what it was to show."""
    now = rows(DONE, SOUP)
    [wrong] = found_of(conversation, "parts", [REMOVE, MOVE], now, preview=True)
    assert wrong == "rows changed by a preview, or an edit of a draft"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([REMOVE, MOVE], ["c", "b"]),
        ([{**REMOVE, "path": [2]}, {**ADD, "path": [2], "data": "x"}], ["a", "x", "c"]),
        ([{**ADD, "path": [4], "data": "x"}, {**ADD, "path": [4], "data": "y"}], [*"abcxy"]),
        ([{"action": "modify", "path": [3], "data": "x"}, MOVE], ["x", "a", "b"]),
    ],
)
def test_edits_are_read_anew(edits: list[Any], expected: list[str]) -> None:
    """In a slower way than the tools do them."""
    assert lists.expected([*"abc"], edits, None) == expected


SEEN = {"count": 2, "token": "t", "items": {"1": {"id": "a", "days": {"1": 5}}, "2": {"id": "b"}}}


@pytest.mark.parametrize(
    ("told", "part"),
    [
        ({}, True),
        ({"items": {}}, True),
        ({"items": {"2": {"id": "b"}}}, True),
        ({"items": {"1": {"id": "a", "days": {}}}}, True),
        ({"items": {"1": {"id": "a"}}}, False),
        ({"items": {"1": {"id": "b"}}}, False),
        ({"items": {"3": {"id": "b"}}}, False),
        ({"token": "u"}, False),
        ({"count": 3}, False),
    ],
)
def test_an_answer_has_some_of_the_items_and_all_of_each(told: Any, *, part: bool) -> None:
    """Those that another session sees."""
    assert lists.is_part({**SEEN, **told}, SEEN) is part
