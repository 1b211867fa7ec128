"""Tools in another database than PostgreSQL: the filters that it has, and related rows."""

from __future__ import annotations

import sqlite3
import uuid
from typing import Any

import pytest
from sqlalchemy import JSON, CheckConstraint, ForeignKey, StaticPool, create_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import SetupError
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset, Toolset
from tests.tools.conftest import by


class Base(DeclarativeBase):
    """A schema of its own."""


class Note(Base):
    """Has a document."""

    __tablename__ = "notes"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    document: Mapped[Any] = mapped_column(JSON, nullable=True)


class Page(Base):
    """A part of a note, which is named by two values."""

    __tablename__ = "pages"

    note_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("notes.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]

    note: Mapped[Note] = relationship(backref="pages")


class Ticket(Base):
    """Has constraints."""

    __tablename__ = "tickets"
    __table_args__ = (CheckConstraint("count > 0", name="some"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    code: Mapped[str] = mapped_column(unique=True)
    count: Mapped[int]


class NewerConnection(sqlite3.Connection):
    """A connection with the attribute of Python 3.12."""

    autocommit = -1  # `LEGACY_TRANSACTION_CONTROL`


@pytest.fixture
def desk() -> BoundToolset:
    """Tools on SQLite, with a document, a JSON null, the text "null", and none."""
    connect = {"factory": NewerConnection}
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args=connect)
    Base.metadata.create_all(engine)
    documents = {"full": {"a": 1}, "null": JSON.NULL, "text": "null"}
    with Session(engine) as plain, plain.begin():
        plain.add_all(Note(name=name, document=each) for name, each in documents.items())
        plain.add(Note(name="none"))
    sessions = sessionmaker(engine, class_=RefSession)
    return Toolset([Note, Page]).bind(sessions, registry=RefRegistry(store=MemoryStore()))


@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ({"field": "document", "op": "is_null"}, ["none", "null"]),
        ({"field": "document", "op": "is_not_null"}, ["full", "text"]),
        ({"field": "name", "op": "ilike", "value": "N%"}, ["none", "null"]),
    ],
)
def test_filters_find_what_they_say(
    desk: BoundToolset, filter_: dict[str, Any], names: list[str]
) -> None:
    """A JSON null is null, in SQLite too."""
    asked = {"table": "notes", "filters": [filter_], "columns": ["name"], "order_by": "name"}
    rows = desk.call("chat-7", None, "db_read", asked).value["rows"]
    assert [each["name"] for each in rows] == names


@pytest.mark.parametrize("tool", ["db_read", "db_delete"])
@pytest.mark.parametrize("group", [lambda each: each, lambda each: {"not": each}])
def test_containment_is_refused(desk: BoundToolset, tool: str, group: Any) -> None:
    """No exception of the driver leaves the call."""
    clause = {"field": "document", "op": "contains", "value": {"a": 1}}
    error = desk.call("chat-7", None, tool, {"table": "notes", "filters": [group(clause)]}).value
    assert error["error"]["code"] == "invalid_filter"
    assert "cannot be 'contains' in this database" in error["error"]["message"]
    asked = {"table": "notes", "or_filters": [clause]}
    assert desk.call("chat-7", None, "db_read", asked).failed


def test_a_person_decides_there_too(desk: BoundToolset) -> None:
    """A call is planned and approved; it cannot be undone, because values are not read back."""
    tools = Toolset([Note], consent={Note: ["delete"]}, expect="optional")
    careful = tools.bind(desk.sessions, registry=desk.registry, journal=True)
    only = {"filters": by("name", "full"), "expect": {"count": 1}}

    assert careful.call("chat-7", None, "db_delete", {"table": "notes", **only}).pending == 1
    [waiting] = careful.approvals("chat-7")
    assert waiting.plan.summary == "Delete 1 note."
    assert careful.approve("chat-7", None, 1, by="ann").value["count"] == 1
    with pytest.raises(SetupError, match="another database"):
        careful.undo("chat-7", call=1, by="ann")


def test_related_rows_are_made_and_read(desk: BoundToolset) -> None:
    """Of several rows together, by keys of one column and of two."""
    for name in ("a", "b"):
        pages = [{"number": n, "text": f"{name}{n}"} for n in (1, 2)]
        made = desk.call(
            "chat-7", None, "db_create", {"table": "notes", "data": {"name": name, "pages": pages}}
        )
        assert [page["text"] for page in made.value["rows"][0]["pages"]] == [
            f"{name}1",
            f"{name}2",
        ]

    asked = {"table": "notes", "columns": ["name", "pages"], "order_by": "name"}
    notes = desk.call("chat-7", None, "db_read", asked).value["rows"]
    asked = {"table": "pages", "columns": ["text", "note"], "order_by": "text"}
    pages = desk.call("chat-7", None, "db_read", asked).value["rows"]

    assert [(n["name"], len(n["pages"])) for n in notes if n["pages"]] == [("a", 2), ("b", 2)]
    found = [(page["text"], page["note"]["name"]) for page in pages]
    assert found == [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]


def test_constraints_are_told(desk: BoundToolset) -> None:
    """By the codes that PostgreSQL's errors have; nothing is changed."""
    toolset = Toolset([Note, Ticket])
    tickets = toolset.bind(desk.sessions, registry=desk.registry, by=None)

    def told(tool: str, **given: Any) -> Any:
        answer = tickets.call("chat-7", None, tool, {"table": "tickets", **given}).value
        return answer.get("error", {}).get("code")

    assert told("db_create", data={"code": "a", "count": 1}) is None
    assert told("db_create", data={"code": "a", "count": 2}) == "conflict"
    assert told("db_create", data={"code": "b", "count": 0}) == "check_failed"
    rows = tickets.call("chat-7", None, "db_read", {"table": "tickets"}).value["rows"]
    assert [(row["code"], row["count"]) for row in rows] == [("a", 1)]


def test_drafts_are_filtered(desk: BoundToolset) -> None:
    """By the database that will have their rows, nested rows included."""
    pages = [{"number": 1, "text": "one"}]
    data = [{"name": "first"}, {"name": "second", "pages": pages}]
    desk.call("chat-7", None, "db_create", {"table": "notes", "data": data, "draft": True})
    for only in (
        {"field": "name", "op": "ilike", "value": "SEC%"},
        {"field": "pages.text", "op": "=", "value": "one"},
        {"field": "pages.number", "op": ">", "value": 0},
    ):
        asked = {"table": "notes", "drafts": True, "filters": [only]}
        rows = desk.call("chat-7", None, "db_read", asked).value["rows"]
        assert [row["name"] for row in rows] == ["second"]
