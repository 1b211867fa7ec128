"""Filters mean the same for a draft's content as for a row."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from alfred_refs.tools import ToolError, Toolset, matching
from alfred_refs.tools.arguments import DbRead
from alfred_refs.tools.filters import BoundFilters, bind_filters
from alfred_refs.tools.matching import DraftRecord, matching_records
from tests.tools.conftest import MODELS
from tests.tools.oracle import Filter
from tests.tools.test_filters import EACH_TIME, FILTERS, Kitchen, kitchen

__all__ = ["kitchen"]

TABLES = Toolset(MODELS).tables


def bound(*filters: Filter, table: str = "dishes") -> BoundFilters:
    """Return filters bound to a table."""
    asked = DbRead.model_validate({"table": table, "filters": filters})
    return bind_filters(asked, TABLES.by_name(table))


def is_met(filter_: Filter, table: str = "dishes", **content: Any) -> bool:
    """Tell whether the content of a draft meets a filter."""
    record = DraftRecord(TABLES.by_name(table), content, "gen_dish_1", "gen_dish_1")
    return matching_records([record], bound(filter_, table=table)) == [record]


def asked(field: str, op: str, value: Any = None) -> Filter:
    """Return a filter."""
    return {"field": field, "op": op, "value": value}


@pytest.mark.slow
@EACH_TIME
@given(filters=st.lists(FILTERS, min_size=1, max_size=3))
def test_content_meets_what_the_database_finds(kitchen: Kitchen, filters: list[Filter]) -> None:
    """For all operators, groups and paths, null included."""
    table = kitchen.toolset.tables.by_name("dishes")
    paths = ["parts", "parts.dish", "cuisine", "parent.parts", "parent.parent"]
    columns = [*(name for name, column in table.columns.items() if column.shown), *paths]
    rows = kitchen.call("db_read", table="dishes", columns=columns)["rows"]
    found = kitchen.call("db_read", table="dishes", columns=["code"], filters=filters)["rows"]

    records = [DraftRecord(TABLES.by_name("dishes"), row, row["id"], row["id"]) for row in rows]
    met = [record.name for record in matching_records(records, bound(*filters))]
    assert sorted(met) == sorted(row["id"] for row in found)


@pytest.mark.parametrize(
    ("document", "part", "contains"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [2]}, True),
        ({"a": {"b": 1}}, {"a": {}}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ([1, [2, 3]], [[3]], True),
        ([1, 2], 2, True),
        ([1, [2]], 2, False),
        ([{"a": 1}], {"a": 1}, False),
        ([[1]], [1], False),
        ([1], [[]], False),
        ("x", "x", True),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
    ],
)
def test_documents_contain_what_they_contain_in_postgresql(
    kitchen: Kitchen, document: Any, part: Any, contains: bool
) -> None:
    """The operator `@>`."""
    filter_ = asked("extra", "contains", part)
    with kitchen.session.begin() as transaction:
        for tool, more in (
            ("db_create", {"data": {"extra": document}}),
            ("db_read", {"filters": [filter_, asked("code", "is_null")]}),
        ):
            answer = kitchen.toolset.call(kitchen.session, tool, {"table": "dishes", **more})
        transaction.rollback()

    assert bool(answer["rows"]) is contains
    assert is_met(filter_, extra=document) is contains


def test_values_are_compared_as_their_columns_have_them() -> None:
    """Though JSON has no dates, times or decimals."""
    assert is_met(asked("cooked_on", "<", "2026-12-01"), cooked_on="2026-02-01")
    moment = asked("seen_at", "=", "2026-05-01T12:00:00+02:00")
    assert is_met(moment, seen_at="2026-05-01T10:00:00Z")
    assert is_met(asked("price", "=", 2.5), price="2.50")
    assert is_met(asked("cuisine_id", "is_null"), cuisine_id="")


def test_a_draft_has_its_ref_where_a_row_has_its_own() -> None:
    """Also where the row is to have several key columns; what is nested has none."""
    for table, own in (("dishes", "id"), ("servings", "_ref")):
        assert is_met(asked(own, "=", "gen_dish_1"), table)
        assert is_met(asked(own, "in", ["dish_1", "gen_dish_1"]), table)
        assert is_met(asked(own, "!=", "dish_1"), table)
        assert not is_met(asked(own, "not_in", ["gen_dish_1"]), table)
    assert not is_met(asked("parts.id", "=", "gen_dish_1"), parts=[{}])


def test_a_path_leads_to_what_is_nested() -> None:
    """And to nothing where nothing is."""
    rice = asked("parts.note", "=", "rice")
    assert is_met(rice, parts=[{"note": "water"}, {"note": "rice"}])
    assert not is_met(rice, parts=[])
    assert not is_met(rice)
    thai = asked("cuisine.name", "=", "Thai")
    assert is_met(thai, cuisine={"name": "Thai"})
    assert not is_met(thai, cuisine=None)
    assert not is_met(thai, cuisine_id=None)
    assert is_met(asked("cuisine_id", "=", "cuisine_1"), cuisine="cuisine_1")
    assert is_met({"not": thai})


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (asked("nothing", "is_null"), "no column 'nothing'"),
        (asked("nothing.name", "=", "Thai"), "no column 'nothing'"),
        (asked("servings", "ilike", "%"), "cannot be 'ilike'"),
        (asked("servings", ">"), "compares by '>' with nothing"),
        (asked("cuisine.name", "=", "Thai"), "'cuisine', which is not all part of the draft"),
        (asked("parts.dish.name", "=", "Korma"), "'dish', which is not all part of the draft"),
        (asked("parts.parts.note", "=", "x"), "no column 'parts'"),
        (asked("spice", "=", 1), "for 'gen_dish_1.spice' does not fit"),
        (asked("parts.position", "=", 1), r"for 'gen_dish_1.parts\[1\].position' does not fit"),
        (asked("parent.name", "=", "x"), "for 'gen_dish_1.parent' does not fit"),
    ],
)
def test_what_cannot_be_decided_of_a_draft_is_refused(filter_: Filter, message: str) -> None:
    """As of a row; and what the draft does not hold, or holds as no column has it any more."""
    parts: list[Any] = [{"position": []}]
    with pytest.raises(ToolError, match=message):
        is_met(filter_, cuisine_id="cuisine_1", spice="hot", parent=5, parts=parts)


def test_a_mistake_is_told_though_another_filter_decides() -> None:
    """As the database does, which looks at all of them."""
    with pytest.raises(ToolError, match="no column 'nothing'"):
        is_met({"and": [asked("name", "=", "x"), asked("nothing", "is_null")]}, name="y")


@pytest.mark.parametrize(
    ("field", "op", "value", "content"),
    [
        ("extra", "contains", [[4_999]] * 200, {"extra": [[n] for n in range(5_000)]}),
        (
            "extra",
            "contains",
            {"a": [[4_999]] * 200},
            {"extra": {"a": [[n] for n in range(5_000)]}},
        ),
        ("tags", "contains", ["y"] * 900, {"tags": ["x"] * 20_000 + ["y"]}),
        ("name", "ilike", "%_" + "a" * 900 + "b%", {"name": "a" * 2_000_000}),
        ("name", "ilike", "%b%", {"name": "ä" * 3_000_000}),
        ("name", "ilike", "%a" * 2_000_000 + "%b", {"name": "a" * 2_000_000}),
    ],
)
def test_what_takes_long_is_not_decided(
    field: str, op: str, value: Any, content: dict[str, Any]
) -> None:
    """No statement's time ends what is compared here, so that it is counted."""
    with pytest.raises(ToolError, match="takes more comparisons in drafts") as caught:
        is_met(asked(field, op, value), **content)

    assert caught.value.code == "invalid_filter"
    assert f"the filter on {field!r}" in str(caught.value)


def test_all_conditions_on_all_drafts_are_counted_together() -> None:
    """Each by itself is decided."""
    table = TABLES.by_name("dishes")
    filters = [asked("name", "ilike", "%b%")] * 10
    records = [DraftRecord(table, {"name": "ä" * 100_000}, f"gen_dish_{n}") for n in range(10)]

    assert matching_records(records[:1], bound(*filters)) == []
    assert matching_records(records, bound(*filters[:1])) == []
    with pytest.raises(ToolError, match="name fewer drafts"):
        matching_records(records, bound(*filters))


def _noted(calls: list[str], called: Any, *given: Any) -> Any:
    calls.append(called.__name__)
    return called(*given)


@pytest.mark.parametrize(("op", "value"), [("ilike", "%b" * 30_000), ("in", ["b"] * 900)])
def test_what_is_compared_with_is_read_once(
    monkeypatch: pytest.MonkeyPatch, op: str, value: Any
) -> None:
    """However many rows there are in drafts."""
    read: list[str] = []
    for name in ("comparable_value", "Pattern"):
        monkeypatch.setattr(matching, name, partial(_noted, read, getattr(matching, name)))
    table = TABLES.by_name("dishes")
    records = [DraftRecord(table, {"name": None}, f"gen_dish_{n}") for n in range(2_000)]

    assert matching_records(records, bound(asked("name", op, value))) == []
    once = 1 if op == "ilike" else 1 + len(value)  # a list, and each of its values
    assert read.count("comparable_value") == len(records) + once
    assert read.count("Pattern") == (op == "ilike")


def test_values_in_long_lists_are_found() -> None:
    """As many as there may be: they are looked for together."""
    document = [*range(20_000), "x", None, True]

    assert is_met(asked("extra", "contains", [*range(900), 1.0, None, True]), extra=document)
    assert not is_met(asked("extra", "contains", [*range(900), False]), extra=document)
