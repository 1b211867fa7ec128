"""Cursors that a model has changed, or made up: refused, and nothing else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from tests.tools.conftest import Call
from tests.tools.models import Dish, Part
from tests.tools.test_filters import EACH_TIME, Kitchen, kitchen

__all__ = ["kitchen"]

ASKED: dict[str, Any] = {"table": "dishes", "order_by": ["name", "price", "seen_at"], "limit": 1}
BY_NOTE: dict[str, Any] = {"table": "parts", "order_by": "note", "limit": 2}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("a\x00b"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def encoded(read: Any) -> str:
    """Return a cursor that has something in it."""
    return base64.urlsafe_b64encode(json.dumps(read).encode()).decode().rstrip("=")


def codes_of(kitchen: Kitchen, **changes: Any) -> str | None:
    """Return the code of the answer to a cursor with changes, `None` if there are rows."""
    cursor = kitchen.call("db_read", **ASKED)["cursor"]
    read = json.loads(base64.urlsafe_b64decode(f"{cursor}==")) | changes
    answer = kitchen.toolset.call(kitchen.session, "db_read", {**ASKED, "cursor": encoded(read)})
    return answer["error"]["code"] if "error" in answer else None


def test_a_cursor_with_anything_else_in_it_is_refused(kitchen: Kitchen) -> None:
    """Values that no column has, that no driver takes, and refs of no row of the table."""
    cases: list[dict[str, Any]] = [
        {"after": ["a\x00b", None, None]},
        {"after": ["\ud800", None, None]},
        {"after": ["a", 10**400, None]},
        {"after": ["a", float("nan"), None]},
        {"after": ["a", None, "0001-01-01T00:00:00+14:00"]},
        {"after": ["a", None, {"b": []}]},
        {"after": ["a"]},
        {"ref": "dish_1\x00"},
        {"ref": "dish_999"},
        {"ref": "cuisine_1"},
        {"ref": "gen_dish_1"},
        {"ref": "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a"},
        {"ref": ""},
        {"shown": -1},
        {"data": "\x00"},
    ]
    for changes in cases:
        assert codes_of(kitchen, **changes) == "invalid_cursor"


@pytest.mark.slow
@EACH_TIME
@given(
    name=st.sampled_from(["after", "ref", "shown", "drafts", "version", "question"]),
    value=VALUES | st.lists(VALUES, min_size=3, max_size=3),
)
def test_whatever_is_in_a_cursor_is_answered(kitchen: Kitchen, name: str, value: Any) -> None:
    """With rows, or that it is none."""
    assert codes_of(kitchen, **{name: value}) in (None, "invalid_cursor")


@pytest.mark.parametrize("read", ["[" * 100_000, "{}", "[]", "null", "\x00"])
@pytest.mark.usefixtures("dishes")
def test_what_is_no_cursor_is_refused(call: Call, read: str) -> None:
    """Though it has a cursor's letters."""
    cursor = base64.urlsafe_b64encode(read.encode()).decode()

    assert call("db_read", **{**ASKED, "cursor": cursor})["error"]["code"] == "invalid_cursor"


def parts(tables: Engine, notes: list[str]) -> None:
    """Save a dish with parts."""
    with Session(tables) as plain:
        plain.add(Dish(name="Dal", parts=[Part(note=note) for note in notes]))
        plain.commit()


def delete_part(call: Call, tables: Engine, ref: str, by_call: bool) -> None:
    """Delete a part, by a call or by somebody else."""
    if by_call:
        by_ref = [{"field": "id", "op": "=", "value": ref}]
        assert call("db_delete", table="parts", filters=by_ref)["count"] == 1
    else:
        with Session(tables) as plain:
            plain.execute(delete(Part).where(Part.note.startswith("b")))
            plain.commit()


@pytest.mark.parametrize("by_call", [True, False])
def test_a_read_goes_on_after_a_row_that_is_gone(
    call: Call, tables: Engine, by_call: bool
) -> None:
    """The last one of a page was deleted: the next page is as if it were there."""
    parts(tables, ["a", "b", "c", "d"])
    first = call("db_read", **BY_NOTE)
    delete_part(call, tables, first["rows"][1]["id"], by_call)
    second = call("db_read", **BY_NOTE, cursor=first["cursor"])

    assert [row["note"] for row in second["rows"]] == ["c", "d"]


@pytest.mark.parametrize("by_call", [True, False])
def test_a_row_that_is_gone_cannot_be_looked_up(call: Call, tables: Engine, by_call: bool) -> None:
    """Its values were too long for the cursor: the model is told why it has to start anew."""
    parts(tables, [letter * 300 for letter in "abcd"])
    first = call("db_read", **BY_NOTE)
    ref = first["rows"][1]["id"]
    delete_part(call, tables, ref, by_call)
    error = call("db_read", **BY_NOTE, cursor=first["cursor"])["error"]

    fact = f"{ref!r}, the row where the last answer ended, can no longer be found"
    assert error["code"] == "invalid_cursor"
    assert error["message"] == f"{fact}; read again from the start without cursor"


@pytest.mark.parametrize("note", ["a" * 300, "z" * 300])
def test_a_row_that_has_changed_cannot_be_looked_up(call: Call, tables: Engine, note: str) -> None:
    """Rows would be left out, or shown again; where the cursor has its values, it goes on."""
    parts(tables, [letter * 300 for letter in "bcde"])
    first = call("db_read", **BY_NOTE)
    ref = first["rows"][1]["id"]
    by_ref = [{"field": "id", "op": "=", "value": ref}]
    call("db_update", table="parts", filters=by_ref, data={"position": 7})
    assert call("db_read", **BY_NOTE, cursor=first["cursor"])["count"] == 2
    call("db_update", table="parts", filters=by_ref, data={"note": note})
    error = call("db_read", **BY_NOTE, cursor=first["cursor"])["error"]

    fact = f"{ref!r}, the row where the last answer ended, has changed since"
    assert error["message"] == f"{fact}; read again from the start without cursor"
    by_position = {**BY_NOTE, "order_by": "position"}
    page = call("db_read", **by_position)
    last = [{"field": "id", "op": "=", "value": page["rows"][1]["id"]}]
    call("db_update", table="parts", filters=last, data={"position": 9})
    assert "error" not in call("db_read", **by_position, cursor=page["cursor"])
