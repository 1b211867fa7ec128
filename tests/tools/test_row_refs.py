"""Rows whose ref is in `_ref`: their key is of several columns, or another entity's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ColumnElement, Engine, ForeignKey, String, Uuid, bindparam, delete, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import RefPolicy, RefRegistry, RefSession, UntranslatableError
from alfred_refs.tools import Toolset
from tests.fix_session import TravelLog
from tests.models import Recipe, RecipeNote
from tests.tools.conftest import Call

WITH_TEXTS = RefPolicy(key_types=("uuid", "integer", "string"))


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Seat(Base):
    """Has a key of two UUIDs, each of which is a key by itself."""

    __tablename__ = "seats"

    hall: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    seat: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)


class Country(Base):
    """Has text keys."""

    __tablename__ = "countries"

    code: Mapped[Any] = mapped_column(String(2), primary_key=True)


class Tongue(Base):
    """Has a key of two texts, one of which is a key."""

    __tablename__ = "tongues"

    country: Mapped[Any] = mapped_column(ForeignKey("countries.code"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture
def saved(tables: Engine) -> Engine:
    """The engine, with some rows in these tables."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        recipes = [Recipe(name=name) for name in "AB"]
        plain.add_all([*recipes, *(Seat() for _ in range(3))])
        plain.add_all(Country(code=code) for code in ("ch", "de"))
        plain.flush()
        plain.add_all(RecipeNote(recipe_id=recipe.id, note=recipe.name) for recipe in recipes)
        plain.add_all(Tongue(country="ch", name=name) for name in ("de", "fr"))
        plain.commit()
    return tables


@pytest.fixture
def call(saved: Engine, session: RefSession) -> Call:
    """Call a tool on the tables whose keys are UUIDs, with its arguments by name."""
    del saved
    toolset = Toolset([Recipe, RecipeNote, Seat])
    return lambda tool, /, **arguments: toolset.call(session, tool, arguments)


@pytest.fixture
def call_with_texts(saved: Engine, store: TravelLog) -> Iterator[Call]:
    """Call a tool on the tables whose keys are texts."""
    registry = RefRegistry(store=store, policy=WITH_TEXTS)
    toolset = Toolset([Country, Tongue], policy=WITH_TEXTS)
    with RefSession(saved, conversation=registry.conversation("texts")) as session:
        yield lambda tool, /, **arguments: toolset.call(session, tool, arguments)


def clause(op: str, value: Any) -> dict[str, Any]:
    """Return a filter on the ref of rows."""
    return {"field": "_ref", "op": op, "value": value}


def test_a_row_is_named_by_its_ref_where_its_key_is_another_entitys(call: Call) -> None:
    """That one, and no other: in a read, an update and a delete."""
    call("db_read", table="recipe_notes", order_by="note")
    first = [clause("=", "recipe_note_1")]

    assert [
        row["note"] for row in call("db_read", table="recipe_notes", filters=first)["rows"]
    ] == ["A"]
    others = call("db_read", table="recipe_notes", filters=[clause("not_in", ["recipe_note_1"])])
    assert [row["note"] for row in others["rows"]] == ["B"]
    changed = call("db_update", table="recipe_notes", filters=first, data={"note": "C"})
    assert [(row["_ref"], row["note"]) for row in changed["rows"]] == [("recipe_note_1", "C")]
    deleted = call("db_delete", table="recipe_notes", filters=first)
    assert deleted["deleted"] == ["recipe_note_1"]
    assert call("db_read", table="recipe_notes")["count"] == 1


@pytest.mark.parametrize("op", ["=", "!="])
def test_a_key_of_less_than_a_row_names_none(call: Call, session: RefSession, op: str) -> None:
    """A ref of one column of the key, which no row shows, is refused: it would mean them all."""
    assert {*call("db_read", table="seats")["rows"][0]} == {"_ref"}
    part = str(session.scalars(select(Seat.seat)).first())

    answer = call("db_delete", table="seats", filters=[clause(op, part)])

    assert answer["error"]["code"] == "invalid_filter"
    assert call("db_read", table="seats")["count"] == 3


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("=", ["seat_1"]),
        ("=", None),
        ("=", 5),
        ("=", ""),
        ("in", "seat_1"),
        ("in", []),
        ("not_in", ["seat_1", 5]),
        ("in", ["seat_1", None]),
        ("in", ["seat_1", ["seat_4"]]),
    ],
)
def test_what_is_no_ref_is_refused_and_not_left_out(call: Call, op: str, value: Any) -> None:
    """One value that names no row refuses the filter, whatever stands beside it."""
    call("db_read", table="seats")

    answer = call("db_delete", table="seats", filters=[clause(op, value)])

    assert answer["error"]["code"] == "invalid_filter"
    assert call("db_read", table="seats")["count"] == 3


@pytest.mark.parametrize(("table", "name"), [("countries", "code"), ("tongues", "_ref")])
def test_rows_with_text_keys_are_read_page_by_page(
    call_with_texts: Call, table: str, name: str
) -> None:
    """A key that is text goes into the statement as it is, and is not taken for a ref."""
    first = call_with_texts("db_read", table=table, limit=1)
    second = call_with_texts("db_read", table=table, limit=1, cursor=first["cursor"])

    assert first["rows"][0][name] != second["rows"][0][name]
    assert second["more"] is False


@pytest.mark.parametrize(
    "criterion",
    [
        Country.code != ["country_1"],
        Country.code != ("country_1",),
        Country.code == ["country_1"],
        ~(Country.code == ["country_1"]),
        Country.code != bindparam("code", ["country_1"]),
        Tongue.country != ["country_1"],
    ],
)
def test_a_list_is_no_text_key(
    saved: Engine, store: TravelLog, sent: list[str], criterion: ColumnElement[bool]
) -> None:
    """Of what is sent as text PostgreSQL makes a text that is nobody's key, and not it are all."""
    registry = RefRegistry(store=store, policy=WITH_TEXTS)
    with RefSession(saved, conversation=registry.conversation("texts")) as session:
        codes = list(session.scalars(select(Country.code)))
        with pytest.raises(UntranslatableError, match="a list is given where one ref is needed"):
            session.execute(delete(Tongue).where(criterion))
        named = delete(Country).where(Country.code != bindparam("code"))
        with pytest.raises(UntranslatableError, match="a list is given where one ref is needed"):
            session.execute(named, {"code": ["country_1"]})
        assert [each for each in sent if "DELETE" in each] == []
        for is_one in (
            Country.code.in_(["country_1"]),
            Country.code.in_(bindparam("codes", ["country_1"], expanding=True)),
        ):
            assert list(session.scalars(select(Country.code).where(is_one))) == codes[:1]


def test_a_row_with_a_key_of_texts_is_named_by_its_ref(call_with_texts: Call) -> None:
    """As any other row is."""
    rows = call_with_texts("db_read", table="tongues")["rows"]
    assert [(row["_ref"], row["country"], row["name"]) for row in rows] == [
        ("tongue_1", "country_1", "de"),
        ("tongue_2", "country_1", "fr"),
    ]

    found = call_with_texts("db_read", table="tongues", filters=[clause("=", "tongue_2")])

    assert found["rows"] == rows[1:]
