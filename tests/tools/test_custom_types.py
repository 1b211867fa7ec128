"""Columns of custom types, enumerations and domains, and columns with dots in their names."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Date,
    DateTime,
    Engine,
    Float,
    ForeignKey,
    Integer,
    Numeric,
    String,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import Call
from tests.tools.models import custom

# SQLAlchemy 2.1 warns of operators of its own type
pytestmark = pytest.mark.filterwarnings("ignore:.*DOMAIN.*operator_classes")


class Status(enum.StrEnum):
    """Has members that are called otherwise than they are stored."""

    OPEN = "open"
    PAID = "paid"


class Elements(list[float]):
    """Compares as an array of NumPy does, which has no truth value."""

    def __eq__(self, other: object) -> Any:
        """Compare element by element."""
        raise ValueError("the truth value of an array is ambiguous")

    __ne__ = __eq__
    __hash__ = None


# times that get a zone; none but one of these types declares its Python type
Aware = custom(DateTime, shown=lambda value: value.replace(tzinfo=dt.UTC))
StatusText = custom(String(10), lambda value: Status(value).value, Status)
DeclaredStatus = custom(String(10), lambda value: Status(value).value, Status, python_type=Status)
Cents = custom(Integer, lambda value: int(value * 100), lambda value: Decimal(value) / 100)
Words = custom(Text, lambda value: value if isinstance(value, str) else " ".join(value), str.split)
Document = custom(Text, json.dumps, json.loads)
# these take lists alone; a tuple takes part in comparisons as it is
Joined = custom(Text, ",".join, lambda value: value.split(","))
Tupled = custom(Text, ",".join, lambda value: tuple(value.split(",")))
Unordered = custom(Text, ",".join, lambda value: frozenset(value.split(",")))
Vector = custom(ARRAY(Float), shown=Elements)  # as pgvector's


class Base(DeclarativeBase):
    """Declarative base of these tests."""


_metadata = Base.metadata
_name = DOMAIN("short_name", String(8), metadata=_metadata)
_count = DOMAIN("small_count", Integer, metadata=_metadata)


class Bill(Base):
    """Has a column of each type."""

    __tablename__ = "bills"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    at: Mapped[Any] = mapped_column(Aware, nullable=True)
    status: Mapped[Any] = mapped_column(StatusText, nullable=True)
    declared: Mapped[Any] = mapped_column(DeclaredStatus, nullable=True)
    cents: Mapped[Any] = mapped_column(Cents, nullable=True)
    words: Mapped[Any] = mapped_column(Words, nullable=True)
    document: Mapped[Any] = mapped_column(Document, nullable=True)
    joined: Mapped[Any] = mapped_column(Joined, nullable=True)
    vector: Mapped[Any] = mapped_column(Vector, nullable=True)
    tupled: Mapped[Any] = mapped_column(Tupled, nullable=True)
    unordered: Mapped[Any] = mapped_column(Unordered, nullable=True)
    name: Mapped[Any] = mapped_column(_name, nullable=True)
    counts: Mapped[Any] = mapped_column(ARRAY(_count), nullable=True)
    names: Mapped[Any] = mapped_column(ARRAY(_name), nullable=True)
    prices: Mapped[Any] = mapped_column(
        ARRAY(DOMAIN("price", Numeric(6, 2), metadata=_metadata)), nullable=True
    )
    days: Mapped[Any] = mapped_column(
        ARRAY(DOMAIN("open_day", Date, metadata=_metadata), dimensions=2), nullable=True
    )
    of_id: Mapped[Any] = mapped_column(
        DOMAIN("bill_key", Uuid, metadata=_metadata), info={"ref": "bills.id"}, nullable=True
    )

    items: Mapped[list[Item]] = relationship()


class Item(Base):
    """Has a column with a dot in its name, as a reflected table may."""

    __table__ = Table(
        "items",
        Base.metadata,
        Column("id", Uuid, primary_key=True, default=uuid.uuid4),
        Column("bill_id", Uuid, ForeignKey("bills.id")),
        Column("dot.ted", Text),
    )


@pytest.fixture
def call(tables: Engine, session: RefSession) -> Call:
    """Call a tool on bills and items."""
    Base.metadata.create_all(tables)
    toolset = Toolset([Bill, Item])
    return lambda tool, /, **arguments: toolset.call(session, tool, arguments)


def one(**filter_: Any) -> dict[str, Any]:
    """Return the arguments of a read by one column."""
    [(name, value)] = filter_.items()
    return {"table": "bills", "filters": [{"field": name, "op": "=", "value": value}]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "open"),
        ("declared", "paid"),
        ("cents", 12),
        ("words", "a b"),
        ("at", "2026-05-01T18:30:00Z"),
        ("name", "Ann"),
        ("document", {"a": [1, None]}),
        ("joined", ["x", "y"]),
        ("tupled", ["x", "y"]),
        ("unordered", ["x"]),
        ("counts", [1, 2]),
        ("prices", [1.25, None]),
        ("days", [["2026-05-01"], ["2026-05-02"]]),
        ("names", ["a,b", '"', "NULL", ""]),
    ],
)
def test_a_custom_type_takes_and_shows_what_it_is_made_of(
    call: Call, name: str, value: Any
) -> None:
    """Whether it declares a Python type or not; a value is written, found and shown again."""
    made = call("db_create", table="bills", data={name: value})["rows"]
    shown = value.split() if name == "words" else value

    assert [row[name] for row in made] == [shown]
    assert [row["id"] for row in call("db_read", **one(**{name: value}))["rows"]] == ["bill_1"]


def test_values_of_a_custom_type_are_shown_whole(call: Call, session: RefSession) -> None:
    """Though they are of another Python type than the one that is stored."""
    session.add(Bill(cents=Decimal("12.5"), status=Status.PAID, words=["x", "y"]))
    session.flush()

    [row] = call("db_read", table="bills")["rows"]
    assert (row["cents"], row["status"], row["words"]) == (12.5, "paid", ["x", "y"])


def test_the_choices_of_a_declared_enumeration_are_described() -> None:
    """By the texts that are stored, not the names of its members."""
    described = Toolset([Bill]).describe()

    assert 'declared?: "open" | "paid"' in described
    assert "status?: text" in described
    assert "name?: text" in described
    assert "counts?: [integer]" in described
    assert "of_id?: bill ref" in described


def test_a_value_that_a_custom_type_refuses_is_a_typed_error(call: Call) -> None:
    """Stored or compared; its own message is not shown, as it may be about anything."""
    for answer in (
        call("db_create", table="bills", data={"status": "gone"}),
        call("db_read", **one(status="gone")),
        call("db_create", table="bills", data={"declared": "OPEN"}),
        call("db_create", table="bills", data={"joined": "gone"}),  # one letter each
        call("db_create", table="bills", data={"joined": {"gone": 1}}),
    ):
        assert answer["error"]["code"] == "invalid_value"
        assert "gone" not in answer["error"]["message"]
    assert call("db_read", table="bills")["rows"] == []


def test_a_domain_is_like_its_base_type(call: Call) -> None:
    """Room, keys and operators too."""
    call("db_create", table="bills", data={"name": "Ann"})
    made = call("db_create", table="bills", data={"of_id": "bill_1"})

    assert made["rows"][0]["of_id"] == "bill_1"
    assert call("db_read", **one(of_id="bill_1"))["count"] == 1
    names = [{"field": "name", "op": "ilike", "value": "a%"}]
    assert call("db_read", table="bills", filters=names)["rows"][0]["id"] == "bill_1"
    refused = call("db_create", table="bills", data={"name": "too long a name"})
    assert refused["error"]["code"] == "invalid_value"


def test_a_name_with_a_dot_is_one_name(call: Call) -> None:
    """In filters, by itself and through a relationship, and in what is shown and sorted."""
    call("db_create", table="bills", data={})
    made = call("db_create", table="items", data={"dot.ted": "x", "bill_id": "bill_1"})
    assert made["rows"][0]["dot.ted"] == "x"

    here = [{"field": "dot.ted", "op": "=", "value": "x"}]
    asked = {"columns": ["dot.ted"], "order_by": "dot.ted"}
    assert call("db_read", table="items", filters=here, **asked)["rows"] == [
        {"id": "item_1", "dot.ted": "x"}
    ]
    there = [{"field": "items.dot.ted", "op": "=", "value": "x"}]
    assert call("db_read", table="bills", filters=there)["count"] == 1


def test_values_that_have_no_truth_value_are_expected(call: Call) -> None:
    """They are compared as they are shown."""
    call("db_create", table="bills", data={"name": "Ann", "vector": [1, 2]})
    given = one(id="bill_1")

    wrong = call("db_update", **given, expect={"vector": [1, 3]}, data={"name": "Bo"})
    right = call("db_update", **given, expect={"vector": [1, 2]}, data={"name": "Bo"})

    assert (wrong["error"]["code"], wrong["error"]["actual"]) == ("unexpected_row", [1.0, 2.0])
    assert [row["name"] for row in right["rows"]] == ["Bo"]
