"""Filters mean the same for a draft's content as for a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from alfred_refs import RefSession
from alfred_refs.tools import ToolError, Toolset
from alfred_refs.tools.arguments import DbRead
from alfred_refs.tools.filters import BoundFilters, bind_filters
from alfred_refs.tools.matching import DraftRecord, matching_records
from tests.tools.conftest import MODELS
from tests.tools.oracle import Filter
from tests.tools.test_filters import EACH_TIME, FILTERS, Kitchen, kitchen

__all__ = ["kitchen"]

TABLES = Toolset(MODELS).tables
Met = Callable[..., bool]


def bound(*filters: Filter, table: str = "dishes") -> BoundFilters:
    """Return filters bound to a table."""
    asked = DbRead.model_validate({"table": table, "filters": filters})
    return bind_filters(asked, TABLES.by_name(table))


@pytest.fixture
def is_met(session: RefSession) -> Met:
    """Tell whether the content of a draft meets a filter."""

    def is_met(filter_: Filter, table: str = "dishes", **content: Any) -> bool:
        record = DraftRecord(TABLES.by_name(table), content, "gen_dish_1", "gen_dish_1")
        return matching_records(session, [record], bound(filter_, table=table)) == [record]

    return is_met


def asked(field: str, op: str, value: Any = None) -> Filter:
    """Return a filter."""
    return {"field": field, "op": op, "value": value}


def is_found(kitchen: Kitchen, filter_: Filter, **content: Any) -> bool:
    """Tell whether the database finds a row with this content."""
    with kitchen.session.begin() as transaction:
        kitchen.toolset.call(kitchen.session, "db_create", {"table": "dishes", "data": content})
        read = {"table": "dishes", "filters": [filter_, asked("code", "is_null")]}
        rows = kitchen.toolset.call(kitchen.session, "db_read", read)["rows"]
        transaction.rollback()
    return bool(rows)


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
    matching = matching_records(kitchen.session, records, bound(*filters))
    met = [record.name for record in matching]
    kitchen.session.rollback()
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
    kitchen: Kitchen, is_met: Met, document: Any, part: Any, contains: bool
) -> None:
    """The operator `@>`."""
    filter_ = asked("extra", "contains", part)
    assert is_found(kitchen, filter_, extra=document) is contains
    assert is_met(filter_, extra=document) is contains


def test_values_are_compared_as_their_columns_have_them(is_met: Met) -> None:
    """Though JSON has no dates, times or decimals."""
    assert is_met(asked("cooked_on", "<", "2026-12-01"), cooked_on="2026-02-01")
    moment = asked("seen_at", "=", "2026-05-01T12:00:00+02:00")
    assert is_met(moment, seen_at="2026-05-01T10:00:00Z")
    assert is_met(asked("price", "=", 2.5), price="2.50")
    assert is_met(asked("cuisine_id", "is_null"), cuisine_id="")
    assert is_met(asked("photo", "is_not_null"), photo={"of": "an earlier class"})


def test_a_draft_has_its_ref_where_a_row_has_its_own(is_met: Met) -> None:
    """Also where the row is to have several key columns; what is nested has none."""
    for table, own in (("dishes", "id"), ("servings", "_ref")):
        assert is_met(asked(own, "=", "gen_dish_1"), table)
        assert is_met(asked(own, "in", ["dish_1", "gen_dish_1"]), table)
        assert is_met(asked(own, "!=", "dish_1"), table)
        assert not is_met(asked(own, "not_in", ["gen_dish_1"]), table)
    assert not is_met(asked("parts.id", "=", "gen_dish_1"), parts=[{}])


def test_a_path_leads_to_what_is_nested(is_met: Met) -> None:
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
def test_what_cannot_be_decided_of_a_draft_is_refused(
    is_met: Met, filter_: Filter, message: str
) -> None:
    """As of a row; and what the draft does not hold, or holds as no column has it any more."""
    parts: list[Any] = [{"position": []}]
    with pytest.raises(ToolError, match=message):
        is_met(filter_, cuisine_id="cuisine_1", spice="hot", parent=5, parts=parts)


def test_rows_that_a_draft_names_are_no_part_of_it(is_met: Met) -> None:
    """Beside new rows too: the database is not asked for them."""
    with pytest.raises(ToolError, match="'parts', which is not all part of the draft"):
        is_met(asked("parts.note", "=", "rice"), parts=[{"note": "rice"}, "part_1"])


def test_a_mistake_is_told_though_another_filter_decides(is_met: Met) -> None:
    """As the database does, which looks at all of them."""
    with pytest.raises(ToolError, match="no column 'nothing'"):
        is_met({"and": [asked("name", "=", "x"), asked("nothing", "is_null")]}, name="y")


@pytest.mark.parametrize(
    ("filter_", "content"),
    [
        (asked("name", "ilike", "STRASSE%"), {"name": "straße"}),
        (asked("name", "ilike", "%É_"), {"name": "Café!"}),
        (asked("name", "ilike", "%ı"), {"name": "I"}),  # noqa: RUF001  # another letter
        (asked("name", ">", "b"), {"name": "Z"}),
        (asked("name", "<", "é"), {"name": "f"}),
        (asked("name", "=", "e\u0301"), {"name": "é"}),
        (asked("extra", "contains", 2**60), {"extra": [2**60 + 1]}),
        (asked("price", "=", "0.10"), {"price": "0.1"}),
    ],
)
def test_texts_and_numbers_are_compared_as_in_the_table(
    kitchen: Kitchen, is_met: Met, filter_: Filter, content: dict[str, Any]
) -> None:
    """By the rules of the database: for case, order, accents and documents."""
    assert is_found(kitchen, filter_, **content) is is_met(filter_, **content)


@pytest.mark.parametrize(
    ("filter_", "value"),
    [
        (asked("servings", ">", 1), 2),
        (asked("price", "<", "3"), "2.50"),
        (asked("is_vegan", "=", True), True),
        (asked("cooked_on", ">", "2026-01-01"), "2026-05-01"),
        (asked("seen_at", ">", "2026-01-01T00:00:00Z"), "2026-05-01T00:00:00Z"),
        (asked("tags", "contains", ["x"]), ["x"]),
        (asked("extra", "contains", {"a": 1}), {"a": 1}),
        (asked("alike", "contains", ["dish_1"]), ["dish_1"]),
    ],
)
def test_values_have_their_types_after_a_draft_without_any(
    session: RefSession, filter_: Filter, value: Any
) -> None:
    """The first row of a list says the types, also where it has null."""
    table = TABLES.by_name("dishes")
    contents: list[dict[str, Any]] = [{}, {filter_["field"]: value}, {}]
    records = [DraftRecord(table, each, f"gen_dish_{n}") for n, each in enumerate(contents)]
    assert matching_records(session, records, bound(filter_)) == [records[1]]


def test_refs_alone_need_no_statement(session: RefSession) -> None:
    """A draft is usually named by its ref."""
    table = TABLES.by_name("dishes")
    records = [DraftRecord(table, {}, f"gen_dish_{n}", f"gen_dish_{n}") for n in range(3)]
    only = bound(asked("id", "in", ["gen_dish_0", "gen_dish_2"]), asked("id", "=", "gen_dish_2"))

    assert matching_records(session, records, only) == [records[2]]
    assert not session.in_transaction()


@pytest.mark.parametrize("nested", [True, False])
def test_a_call_compares_a_limited_number_of_values(session: RefSession, nested: bool) -> None:
    """One statement holds so many parameters, and no more."""
    table, content = TABLES.by_name("dishes"), {"name": "Dal"}
    filter_, most = asked("name", "=", "Dal"), 20_000 // 3
    if nested:
        filter_, most = asked("parts.note", "is_null"), (20_000 - 2) // 3

    def records(count: int) -> list[DraftRecord]:
        if nested:
            return [DraftRecord(table, {"parts": [{}] * count}, "gen_dish_1", "gen_dish_1")]
        return [DraftRecord(table, content, f"gen_dish_{n}") for n in range(count)]

    assert matching_records(session, records(most), bound(filter_)) == records(most)
    with pytest.raises(ToolError, match=r"compares more than 20,000 values.*name fewer drafts"):
        matching_records(session, records(most + 1), bound(filter_))


def test_values_in_long_lists_are_found(is_met: Met) -> None:
    """As many as there may be: they are looked for together."""
    document = [*range(20_000), "x", None, True]

    assert is_met(asked("extra", "contains", [*range(900), 1.0, None, True]), extra=document)
    assert not is_met(asked("extra", "contains", [*range(900), False]), extra=document)
