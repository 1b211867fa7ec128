"""Counting rows and adding up columns, in groups or in all, as rows are read."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    REAL,
    BigInteger,
    DateTime,
    Engine,
    Integer,
    Interval,
    Numeric,
    Text,
    Time,
    TypeDecorator,
    select,
    text,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    selectinload,
    sessionmaker,
    with_loader_criteria,
)

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from tests.tools.conftest import MODELS, Call, by
from tests.tools.models import Dish

Named = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Cents(TypeDecorator[Decimal]):
    """Money that is kept as another number."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> Any:  # noqa: ARG002
        """Return cents."""
        return None if value is None else int(value * 100)

    def process_result_value(self, value: Any, dialect: object) -> Any:  # noqa: ARG002
        """Return the whole."""
        return None if value is None else Decimal(value) / 100

    @property
    def python_type(self) -> type[Any]:
        """What the column has."""
        return Decimal


class Run(Base):
    """Has a column of every kind that can be added up, and one that cannot."""

    __tablename__ = "runs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(Text)
    big: Mapped[int | None] = mapped_column(BigInteger)
    near: Mapped[float | None] = mapped_column(REAL)
    exact: Mapped[Decimal | None] = mapped_column(Numeric(40, 20))
    took: Mapped[dt.timedelta | None] = mapped_column(Interval)
    at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))
    daily: Mapped[dt.time | None] = mapped_column(Time)
    price: Mapped[Decimal | None] = mapped_column(Cents)
    plain: Mapped[Any] = mapped_column(JSON, nullable=True)


@pytest.fixture
def runs(tables: Engine, session: RefSession) -> Call:
    """Call `db_read` on three runs, one of them without values."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        at = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
        third = Decimal("0.33333333333333333333")
        plain.add(Run(name="a", big=2**62, near=0.1, exact=third, price=Decimal("1.50"), at=at))
        plain.add(Run(name="b", big=2**62, near=0.2, exact=third, daily=dt.time(7), plain={}))
        plain.add(Run(name="c"))
        plain.flush()
        plain.execute(text("update runs set took = '1 year 6 mons' where name = 'a'"))
        plain.execute(text("update runs set took = '6 mons' where name = 'b'"))
        plain.commit()
    toolset = Toolset([Run])

    def call(*columns: str, **arguments: Any) -> dict[str, Any]:
        asked = {"table": "runs", "columns": [*columns], **arguments}
        return toolset.call(session, "db_read", asked)

    return call


@pytest.mark.usefixtures("dishes")
def test_rows_are_counted_in_groups(call: Call) -> None:
    """Most of the first total first; a group has a ref with its label, null is one too."""
    call("db_create", table="dishes", data={"name": "Roti", "cuisine_id": None, "servings": 3})
    answer = call("db_read", table="dishes", columns=["cuisine_id", "count(*)", "sum(servings)"])

    assert answer["totals"] == [
        {"cuisine_id": None, "count(*)": 2, "sum(servings)": 3},
        *answer["totals"][1:],
    ]
    assert answer.keys() == {"table", "totals", "more"}
    others = {each["_cuisine_id_label"]: each for each in answer["totals"][1:]}
    assert {name: (each["count(*)"], each["sum(servings)"]) for name, each in others.items()} == {
        "Indian": (1, 4),
        "Thai": (1, 2),
    }
    assert {each["cuisine_id"] for each in others.values()} == {"cuisine_1", "cuisine_2"}


@pytest.mark.usefixtures("dishes")
def test_all_rows_are_one_group(call: Call) -> None:
    """Of no rows there are none, and no value of theirs."""
    columns = ["COUNT( * )", "avg(servings)", "max( servings )"]
    answer = call("db_read", table="dishes", columns=columns)
    named = {"field": "name", "op": "=", "value": "Pizza"}
    none = call("db_read", table="dishes", columns=columns, filters=[named])
    grouped = call("db_read", table="dishes", columns=["name", *columns], filters=[named])

    assert answer["totals"] == [{"count(*)": 3, "avg(servings)": 3.0, "max(servings)": 4}]
    assert none["totals"] == [{"count(*)": 0, "avg(servings)": None, "max(servings)": None}]
    assert grouped["totals"] == []


FILTERS: list[Named] = [
    {},
    {"filters": by("cuisine.name", "Thai")},
    {"filters": [{"not": {"field": "parts.note", "op": "=", "value": "rice"}}]},
    {
        "or_filters": [
            {"field": "servings", "op": ">", "value": 3},
            {"field": "name", "op": "is_null"},
        ]
    },
    {"filters": by("id", "dish_1", "!=")},
    {
        "filters": [
            {
                "or": [
                    {"field": "tags", "op": "contains", "value": ["hot"]},
                    {"and": [{"field": "servings", "op": "is_null"}]},
                ]
            }
        ]
    },
]


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize("asked", FILTERS)
def test_what_is_counted_is_what_is_read(call: Call, asked: Named) -> None:
    """By whatever filters, and in groups by a column of any kind that has one value a row."""
    rows = call("db_read", table="dishes")["rows"]
    rows = call("db_read", table="dishes", **asked)["rows"]
    grouped = [
        name for name in rows[0] if name not in ("id", "tags", "extra", "alike") and name[0] != "_"
    ]

    for name in grouped:
        answer = call("db_read", table="dishes", columns=[name, "count(*)"], **asked)
        counted = {each[name]: each["count(*)"] for each in answer["totals"]}
        assert counted == Counter(row[name] for row in rows)
    answer = call("db_read", table="dishes", columns=["count(*)"], **asked)
    assert answer["totals"] == [{"count(*)": len(rows)}]


@pytest.mark.parametrize(
    ("column", "function", "expected"),
    [
        ("big", "sum", str(2**63)),
        ("big", "avg", float(2**62)),
        ("near", "sum", pytest.approx(0.3)),
        ("near", "avg", pytest.approx(0.15)),
        ("near", "max", 0.2),
        ("exact", "sum", "0.66666666666666666666"),
        ("exact", "avg", 1 / 3),
        ("took", "sum", "P1Y360D"),
        ("took", "avg", "P362DT12H"),
        ("took", "min", "P180D"),
        ("took", "max", "P1Y180D"),
        ("at", "max", "2026-05-01T12:00:00Z"),
        ("daily", "min", "07:00:00"),
        ("price", "max", 1.5),
    ],
)
def test_values_are_added_up_as_exactly_as_they_are_kept(
    runs: Call, column: str, function: str, expected: Any
) -> None:
    """Nothing where there is no value; a sum is what the values of the rows come to."""
    name = f"{function}({column})"
    columns = ["name", name]
    assert runs(name)["totals"] == [{name: expected}]
    assert runs(*columns, order_by="name")["totals"][-1] == {"name": "c", name: None}


def test_durations_that_rows_show_alike_are_one_group(runs: Call, tables: Engine) -> None:
    """365 days are a year, which to PostgreSQL has 360."""
    with Session(tables) as plain:
        plain.execute(text("update runs set took = '1 year' where name = 'a'"))
        plain.execute(text("update runs set took = '365 days' where name = 'b'"))
        plain.commit()

    assert runs("took", "count(*)")["totals"] == [
        {"took": "P1Y", "count(*)": 2},
        {"took": None, "count(*)": 1},
    ]


@pytest.mark.usefixtures("dishes")
def test_groups_are_ordered_and_limited(call: Call) -> None:
    """By what is asked for; that there are more is told, and how to see them."""
    columns = ["name", "sum(servings)"]

    def names(**asked: Any) -> list[str]:
        answer = call("db_read", table="dishes", columns=columns, **asked)
        return [each["name"] for each in answer["totals"]]

    assert names() == ["Korma", "Curry", "Soup"]
    assert names(order_dir="asc") == ["Curry", "Korma", "Soup"]
    assert names(order_by="name", order_dir="desc") == ["Soup", "Korma", "Curry"]
    assert names(order_by=["SUM(servings)", "name"]) == ["Curry", "Korma", "Soup"]
    answer = call("db_read", table="dishes", columns=columns, limit=1)
    assert ([each["name"] for each in answer["totals"]], answer["more"]) == (["Korma"], True)
    assert "cursor" not in answer


def test_no_more_groups_are_shown_than_rows(session: RefSession) -> None:
    """A note says so where nobody has asked for fewer; what is long is cut."""
    toolset = Toolset(MODELS, limits=Limits(rows=1, text=4))
    data = [{"name": "Long soup"}, {"name": "Tea"}]
    toolset.call(session, "db_create", {"table": "dishes", "data": data})
    asked = {"table": "dishes", "columns": ["name", "count(*)"], "order_by": "name"}
    answer = toolset.call(session, "db_read", asked)

    assert answer["totals"][0]["name"].startswith("Long")
    assert (answer["more"], answer["cut"]) == (True, ["totals[1].name: 5 more characters"])
    assert answer["notes"] == [
        "there are more groups: order them, filter the rows, or raise limit"
    ]
    empty = toolset.call(session, "db_read", {**asked, "limit": 0})
    assert (empty["totals"], empty["more"]) == ([], True)


def test_what_is_no_total_is_told(call: Call, sent: list[str]) -> None:
    """With what there is instead; nothing is asked of the database."""
    cases: list[tuple[list[str], str]] = [
        (["median(servings)"], "'median(servings)' in columns is not a total; use 'count(*)', or"),
        (["count(name)"], "use 'count(*)', with a filter 'is_not_null'"),
        (["sum(nme)"], "table 'dishes' has no column 'nme' to use here; use one of 'servings'"),
        (["sum(*)"], "has no column '*'"),
        (["sum(cuisine_id)"], "is of refs, which are names; use one of 'servings', 'rating'"),
        (["max(id)"], "is of refs, which are names"),
        (["min(alike)"], "is of refs, which are names"),
        (["max(name)"], "is of values that are not numbers"),
        (["sum(cooked_on)"], "is of dates or times, not numbers"),
        (["sum(extra)"], "is of values that are not numbers"),
        (["id", "count(*)"], "'id' in columns is each row's own, so that every group is one row"),
        (["tags", "count(*)"], "has more than one value a row, or none that are compared"),
        (["extra", "count(*)"], "group by 'name'"),
        (["nme", "count(*)"], "table 'dishes' has no column 'nme'"),
        (["cuisine.name", "count(*)"], "leads to other rows; group by 'cuisine_id'"),
        (["parts", "count(*)"], "leads to other rows; count in table 'parts', or group by 'name'"),
    ]
    for columns, said in cases:
        error = call("db_read", table="dishes", columns=columns)["error"]

        assert said in error["message"]
        assert error["code"] in ("invalid_total", "unknown_column")
        assert sent == []


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"cursor": "abc"}, "invalid_arguments", "groups have no cursor"),
        ({"order_by": "servings"}, "invalid_order", "not among the columns that are asked for"),
        ({"order_by": "cuisine_id"}, "invalid_order", "holds refs; use one of 'count(*)'"),
        (
            {"order_by": ["count(*)"], "order_dir": ["asc", "asc"]},
            "invalid_arguments",
            "order_dir",
        ),
    ],
)
def test_what_groups_have_not_is_told(call: Call, asked: Named, code: str, said: str) -> None:
    """Order and pages are of groups, and not of the rows in them."""
    answer = call("db_read", table="dishes", columns=["cuisine_id", "count(*)"], **asked)

    assert answer["error"]["code"] == code
    assert said in answer["error"]["message"]


def test_an_order_of_one_total_is_not_ignored(call: Call) -> None:
    """It is checked as that of groups is."""
    asked = {"table": "dishes", "columns": ["count(*)"]}
    assert call("db_read", **asked, order_by="nope")["error"]["code"] == "invalid_order"
    assert call("db_read", **asked, order_by="count(*)")["totals"] == [{"count(*)": 0}]


def test_what_a_type_keeps_in_its_own_way_is_not_added_up(runs: Call) -> None:
    """Nobody knows what it would be then."""
    assert "only the application adds" in runs("sum(price)")["error"]["message"]


def test_rows_with_several_key_columns_are_grouped_by_one(call: Call) -> None:
    """But not by their ref."""
    call("db_create", table="dishes", data=[{"name": "A"}, {"name": "B"}])
    data = [{"dish_id": f"dish_{n}", "place": p} for n, p in ((1, 1), (1, 2), (2, 1))]
    call("db_create", table="servings", data=data)
    answer = call("db_read", table="servings", columns=["dish_id", "count(*)", "max(place)"])
    refused = call("db_read", table="servings", columns=["_ref", "count(*)"])

    assert answer["totals"] == [
        {"dish_id": "dish_1", "count(*)": 2, "max(place)": 2, "_dish_id_label": "A"},
        {"dish_id": "dish_2", "count(*)": 1, "max(place)": 1, "_dish_id_label": "B"},
    ]
    assert "each row's own" in refused["error"]["message"]


def test_drafts_are_not_counted(call: Call, conversation: Conversation) -> None:
    """One that a filter names is refused: it is to be saved first."""
    conversation.draft(Dish, {"name": "Dal"})
    named = {"field": "id", "op": "=", "value": "gen_dish_1"}
    answer = call("db_read", table="dishes", columns=["count(*)"])
    refused = call("db_read", table="dishes", columns=["count(*)"], filters=[named])

    assert answer["totals"] == [{"count(*)": 0}]
    assert refused["error"]["code"] == "draft_ref"
    assert "save the draft" in refused["error"]["message"]


def test_a_row_that_is_gone_is_told(call: Call, session: RefSession) -> None:
    """Where nothing is found of what filters name, as in reads of rows."""
    call("db_create", table="dishes", data={"name": "A"})
    session.rollback()
    session.execute(text("delete from dishes"))
    session.commit()
    named = {"field": "id", "op": "=", "value": "dish_1"}
    answer = call("db_read", table="dishes", columns=["count(*)"], filters=[named])

    assert answer["error"]["code"] == "gone_ref"


@pytest.mark.usefixtures("dishes")
def test_one_statement_counts(call: Call, sent: list[str]) -> None:
    """And one more reads the labels of groups."""
    call("db_read", table="dishes")  # mints refs
    sent.clear()
    call("db_read", table="dishes", columns=["count(*)", "name"])
    assert len([each for each in sent if "dishes" in each]) == 1
    sent.clear()
    call("db_read", table="dishes", columns=["count(*)", "cuisine_id"])
    assert [("dishes" in each, "FROM cuisines" in each) for each in sent if "FROM" in each] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.usefixtures("dishes")
def test_groups_are_linked_and_no_row_is_read(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """What a context of later turns shows of a count is what the groups refer to."""
    with sessions(conversation=conversation, by="model") as session:
        asked = {"table": "dishes", "columns": ["cuisine_id", "count(*)"]}
        Toolset(MODELS, labels="legend").call(session, "db_read", asked)

    acted = {str(each.ref): each.action for each in conversation.activity(3).entries}
    assert acted == {"cuisine_1": "linked", "cuisine_2": "linked"}


# what may be seen


def test_hidden_columns_are_in_no_total(session: RefSession) -> None:
    """They read as if they were not there."""
    toolset = Toolset(MODELS, hidden=[Dish.servings])
    for columns in (["sum(servings)"], ["servings", "count(*)"]):
        answer = toolset.call(session, "db_read", {"table": "dishes", "columns": columns})
        assert answer["error"]["code"] == "unknown_column"
        assert "servings" not in answer["error"]["columns"]


class Few(Hooks):
    """Hides rows and finds others, in all ways there are."""

    def before_read(self, read: Reading) -> None:
        """Answer as the first filter says."""
        way = read.semantic or ""
        if way == "keys":
            with Session(read.session.get_bind()) as plain:
                read.keys = list(plain.scalars(select(Dish.id).where(Dish.name != "Soup")))
        elif way == "none":
            read.keys = []
        elif way == "empty":
            read.answer_empty("nothing is here")
        elif way == "option":
            read.options += [
                with_loader_criteria(Dish, Dish.name != "Soup"),
                selectinload(Dish.parts),
            ]
            read.keys = list(read.session.scalars(select(Dish.id)))
        else:
            read.conditions.append(Dish.name != "Soup")
            read.or_conditions.append(Dish.name == "Curry")


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize("way", ["keys", "none", "empty", "option", None])
def test_what_hooks_hide_is_not_counted(session: RefSession, way: str | None) -> None:
    """Whether they add conditions, give keys or options, or answer with nothing."""
    toolset = Toolset(MODELS, hooks={Dish: [Few()]})
    asked: Named = {"table": "dishes"}
    if way is not None:
        asked["filters"] = by("_semantic", way, "similar")
    rows = toolset.call(session, "db_read", asked)
    counted = toolset.call(session, "db_read", {**asked, "columns": ["count(*)"]})

    assert counted["totals"] == [{"count(*)": rows["count"]}]
    assert rows["count"] == (0 if way in ("none", "empty") else 2)
    assert counted.get("notes") == rows.get("notes")


def test_a_hook_that_looks_at_rows_says_whether_they_are_counted(session: RefSession) -> None:
    """It may hide something of them: unless it says so, they are not."""

    class Looks(Hooks):
        def after_read(self, read: Reading, rows: list[Named]) -> None:  # noqa: ARG002
            """Hide all of them."""
            rows.clear()

    class Counts(Looks):
        totals = True

        def before_read(self, read: Reading) -> None:
            """Tell them apart."""
            read.notes.append(str(read.totals))

    asked = {"table": "dishes", "columns": ["count(*)"]}
    refused = Toolset(MODELS, hooks={Dish: [Looks()]}).call(session, "db_read", asked)
    answer = Toolset(MODELS, hooks={Dish: [Counts()]}).call(session, "db_read", asked)

    assert refused["error"]["code"] == "no_totals"
    assert (answer["totals"], answer["notes"]) == ([{"count(*)": 0}], ["True"])
