"""Values that types of the application cannot read, in rows that a call reads."""

from __future__ import annotations

import enum
import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from sqlalchemy import (
    JSON,
    Engine,
    Enum,
    ForeignKey,
    String,
    create_engine,
    select,
    text,
    update,
)
from sqlalchemy.ext.mutable import MutableList
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    reconstructor,
    relationship,
    sessionmaker,
)
from sqlalchemy.pool import StaticPool
from sqlalchemy.types import TypeDecorator

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.integrations.mcp import server_of
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, Toolset
from tests.tools.conftest import by


class Colour(enum.Enum):
    """Has one member only."""

    RED = "red"


class Level(TypeDecorator[int]):
    """Fails in the way that its value names."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: Any, _: Any) -> Any:
        """Read a number."""
        failures = {"type": TypeError, "attribute": AttributeError, "number": OverflowError}
        if value in failures:
            raise failures[value](f"{value} is not a level")
        return None if value is None else int(value)


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Shelf(Base):
    """Has columns whose values may not be readable."""

    __tablename__ = "unreadable_shelves"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    colour: Mapped[Any] = mapped_column(Enum(Colour), nullable=True)
    roles: Mapped[Any] = mapped_column(MutableList.as_mutable(JSON), nullable=True)
    level: Mapped[Any] = mapped_column(Level, nullable=True)
    parent_id: Mapped[Any] = mapped_column(ForeignKey("unreadable_shelves.id"), nullable=True)

    children: Mapped[list[Any]] = relationship("Shelf")

    @reconstructor
    def check(self) -> None:
        """Raise what has nothing to do with a value."""
        if self.name == "broken":
            raise RuntimeError("a fault of the application")


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine on a database with two rows."""
    of_any_thread = {"check_same_thread": False}
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args=of_any_thread)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Shelf(name="a"), Shelf(name="b")])
        session.commit()
    yield engine
    engine.dispose()


@pytest.fixture
def desk(engine: Engine) -> BoundToolset:
    """The tools on it."""
    sessions = sessionmaker(engine, class_=RefSession)
    return Toolset([Shelf], expect="optional").bind(
        sessions, registry=RefRegistry(store=MemoryStore())
    )


def store(engine: Engine, column: str, value: str) -> None:
    """Store a value beside the application."""
    with engine.begin() as connection:
        statement = f"update unreadable_shelves set {column} = :value where name = 'b'"
        connection.execute(text(statement), {"value": value})


UNREADABLE = [
    ("colour", "BLUE"),
    ("roles", '{"no": "list"}'),
    ("roles", "no json"),
    ("level", "high"),
    ("level", "type"),
    ("level", "attribute"),
    ("level", "number"),
]


@pytest.mark.parametrize(("column", "value"), UNREADABLE)
def test_a_value_that_cannot_be_read_is_an_answer(
    engine: Engine, desk: BoundToolset, caplog: pytest.LogCaptureFixture, column: str, value: str
) -> None:
    """Of reads and of writes; the application gets the traceback in its log."""
    store(engine, column, value)
    row = by("name", "b")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("db_read", {"filters": row}),
        ("db_update", {"filters": row, "data": {"name": "c"}, "expect": {"count": 1}}),
        ("db_delete", {"filters": row, "expect": {"count": 1}}),
    ]

    for tool, arguments in calls:
        with caplog.at_level(logging.WARNING, "alfred_refs.tools"):
            answer = desk.call("c", None, tool, {"table": "unreadable_shelves", **arguments})
        assert answer.value["error"]["code"] == "unreadable_value", tool
        assert "has a value that the application cannot read" in answer.text
        assert caplog.records[-1].exc_info is not None
    columns = {"table": "unreadable_shelves", "columns": ["name"]}
    names = desk.call("c", None, "db_read", {**columns, "order_by": "name"}).value["rows"]
    assert [each["name"] for each in names] == ["a", "b"]


def test_what_else_a_load_raises_is_raised(engine: Engine, desk: BoundToolset) -> None:
    """It is no value, so a model can do nothing about it."""
    store(engine, "name", "broken")

    with pytest.raises(RuntimeError, match="a fault of the application"):
        desk.call("c", None, "db_read", {"table": "unreadable_shelves"})


def test_a_plan_does_not_read_the_rows_that_its_rows_refer_to(engine: Engine) -> None:
    """Except for their labels; without a readable one, a row has its entity as its name."""
    store(engine, "level", "high")
    with Session(engine) as session, session.begin():
        key = session.scalars(select(Shelf.id).where(Shelf.name == "b")).one()
        session.execute(update(Shelf).where(Shelf.name == "a").values(parent_id=key))
    policy = RefPolicy(labels={Shelf: "level"})
    registry = RefRegistry(store=MemoryStore(), policy=policy)
    toolset = Toolset([Shelf], policy=policy, expect="optional", consent={Shelf: "all"})
    desk = toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry)
    only = {"table": "unreadable_shelves", "filters": [{"field": "name", "op": "=", "value": "a"}]}
    assert desk.call("c", None, "db_read", {**only, "columns": ["name"]}).value["count"] == 1

    change = {**only, "expect": {"count": 1}, "data": {"parent_id": None}}
    assert desk.call("c", None, "db_update", change).pending == 1
    [row] = desk.approvals("c")[0].plan.rows
    assert row.fields == {"parent_id": {"before": "a row (shelf)", "after": None}}
    assert desk.approve("c", None, 1, by="ann").value["count"] == 1


async def test_a_resource_of_a_row_that_cannot_be_read(engine: Engine, desk: BoundToolset) -> None:
    """It is there: the client gets the error of `db_read`; other rows are read."""
    store(engine, "colour", "BLUE")
    columns = {"table": "unreadable_shelves", "columns": ["name"], "order_by": "name"}
    await desk.call_async("c", None, "db_read", columns)
    async with Client(server_of(desk, lambda _: ("c", None), name="shelves")) as client:
        assert (await client.read_resource("refs://row/shelf_1")).contents
        with pytest.raises(MCPError, match="that the application cannot read"):
            await client.read_resource("refs://row/shelf_2")
