"""How much a write shows of its rows: as much as a read, and the refs of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Toolset, Writing
from alfred_refs.tools.hooks import Row
from alfred_refs.tools.tables import ToolColumn
from tests.tools.conftest import MODELS, by
from tests.tools.models import Dish

LIMITS = Limits(characters=1_000)
REFS = {f"dish_{n}" for n in range(1, 11)}


class Seen(Hooks):
    """Keeps the rows that hooks are given."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def after_write(self, write: Writing, rows: list[Row]) -> None:  # noqa: ARG002
        """Keep them."""
        self.rows = rows


def long(name: str) -> dict[str, Any]:
    """Return what is given of a dish, about a third of what is shown."""
    return {"name": name + "x" * 100}


def test_created_and_changed_rows_are_shown_as_far_as_there_is_room(session: RefSession) -> None:
    """The rest has its ref and nothing else, which is told, to hooks too."""
    seen = Seen()
    toolset = Toolset(MODELS, limits=LIMITS, hooks={Dish: [seen]}, expect="optional")
    rows = [long(str(n)) for n in range(10)]
    created = toolset.call(session, "db_create", {"table": "dishes", "data": rows})
    every = {"field": "id", "op": "in", "value": sorted(REFS)}
    asked = {"table": "dishes", "filters": [every], "data": {"servings": 2}}
    changed = toolset.call(session, "db_update", asked)

    for answer in (created, changed):
        assert {row["id"] for row in answer["rows"]} == REFS
        whole = [row for row in answer["rows"] if len(row) > 1]
        assert 1 < len(whole) < 5
        assert answer["rows"][: len(whole)] == whole
        assert answer["count"] == 10
        assert answer["cut"] == [f"{10 - len(whole)} more rows are shown by their refs alone"]
    assert seen.rows == changed["rows"]


def test_the_tables_of_a_call_share_what_is_shown(session: RefSession) -> None:
    """The first row is shown however long it is; the others are told by table."""
    toolset = Toolset(MODELS, limits=Limits(characters=10), expect="optional")
    also = {"table": "cuisines", "data": {"name": "Greek"}}
    data = [long("a"), long("b")]
    answer = toolset.call(session, "db_create", {"table": "dishes", "data": data, "also": [also]})

    assert [len(row) > 1 for row in answer["rows"]] == [True, False]
    assert answer["also"][0]["rows"] == [{"id": "cuisine_1"}]
    assert answer["also"][0]["cut"] == ["1 more rows are shown by their refs alone"]


def test_drafts_are_shown_as_far_as_there_is_room(
    session: RefSession, conversation: Conversation
) -> None:
    """When they are changed, and when they are saved; what is not shown is in no legend."""
    toolset = Toolset(MODELS, limits=LIMITS, labels="legend", expect="optional")
    drafts = [conversation.draft(Dish, long(str(n))).ref for n in range(10)]
    last = conversation.draft(Dish, {"name": "last", "parent_id": drafts[9]}).ref
    asked = {"table": "dishes", "filters": by("id", [*drafts, last], "in")}
    changed = toolset.call(session, "db_update", {**asked, "data": {"servings": 2}})
    given = {"table": "dishes", "from_draft": [*drafts, last]}
    saved = toolset.call(session, "db_create", given)
    again = toolset.call(session, "db_create", given)

    assert changed["rows"][-1] == {"id": last}
    assert changed["labels"] == {}
    assert saved["rows"][-1] == {"id": "dish_11"}
    assert again["rows"] == saved["rows"]
    for answer in (changed, saved, again):
        [told] = answer["cut"]
        assert told.endswith("more rows are shown by their refs alone")


def test_no_more_is_made_than_is_shown(
    session: RefSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But one row, whose length is not known before."""
    made: list[Any] = []
    toolset = Toolset(MODELS, limits=LIMITS, expect="optional")
    show = ToolColumn.show

    def noted(column: ToolColumn, value: Any) -> Any:
        made.append(value)
        return show(column, value)

    monkeypatch.setattr(ToolColumn, "show", noted)
    data = [long(str(n)) for n in range(10)]
    toolset.call(session, "db_create", {"table": "dishes", "data": data})

    assert 1 < len([value for value in made if isinstance(value, str) and "xxx" in value]) < 5


def test_rows_without_own_ref_are_shown_by_the_one_they_have(session: RefSession) -> None:
    """In the field that names them in filters."""
    toolset = Toolset(MODELS, limits=Limits(characters=10), expect="optional")
    toolset.call(session, "db_create", {"table": "dishes", "data": {"name": "Korma"}})
    data = [{"dish_id": "dish_1", "place": n} for n in range(3)]
    answer = toolset.call(session, "db_create", {"table": "servings", "data": data})

    assert answer["rows"][1:] == [{"_ref": "serving_2"}, {"_ref": "serving_3"}]


def test_a_read_tells_of_no_cut_in_a_row_that_it_leaves_for_the_next(session: RefSession) -> None:
    """What stands in `cut` is in the rows of the same answer."""
    toolset = Toolset(MODELS, limits=Limits(characters=1_000, text=400), expect="optional")
    rows = [{"name": f"{n} " + "x" * 600} for n in range(4)]
    toolset.call(session, "db_create", {"table": "dishes", "data": rows})
    asked = {"table": "dishes", "columns": ["name"], "order_by": "name"}
    first = toolset.call(session, "db_read", asked)
    second = toolset.call(session, "db_read", {**asked, "cursor": first["cursor"]})
    for answer in (first, second):
        assert len(answer["cut"]) == answer["count"] == 2
        assert all(
            cut.startswith(row["id"])
            for cut, row in zip(answer["cut"], answer["rows"], strict=True)
        )
