"""Refs that a program copies from attributes into columns of data are stored as keys."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import ARRAY, Engine, Text, event, insert, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, insert as upsert
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.ext.mutable import MutableDict
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, composite, mapped_column

from alfred_refs import AsyncRefSession, BadRefError, RefRegistry, RefSession, UntranslatableError
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset

KEY = uuid.UUID("a5080c0b-1111-4222-8333-444444444444")


@dataclass
class Source:
    """The value of a composite attribute."""

    kind: str
    name: Any


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Run(Base):
    """A row with a UUID, and columns of data."""

    __tablename__ = "copied_runs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str | None]
    details: Mapped[Any] = mapped_column(JSONB, nullable=True)
    tracked: Mapped[Any] = mapped_column(MutableDict.as_mutable(JSONB), nullable=True)
    tags: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    kind: Mapped[str | None]
    origin: Mapped[str | None]
    other: Mapped[uuid.UUID | None]
    source: Mapped[Source] = composite("kind", "origin")


class Order(Base):
    """A row with a number for a key."""

    __tablename__ = "copied_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    details: Mapped[Any] = mapped_column(JSONB, nullable=True)
    name: Mapped[str | None]


@pytest.fixture
def runs(engine: Engine) -> Engine:
    """A database with one run, and one order with the number 41."""
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Run(id=KEY), Order(id=41)])
        plain.commit()
    return engine


@pytest.fixture
def session(runs: Engine) -> Iterator[RefSession]:
    """A session with refs."""
    registry = RefRegistry(store=MemoryStore())
    with RefSession(runs, conversation=registry.conversation("chat")) as session:
        yield session


def stored(engine: Engine, column: str, table: str = "copied_runs") -> list[Any]:
    """Return the values of a column, of all rows that have one."""
    with engine.connect() as connection:
        return [
            *connection.scalars(text(f"select {column} from {table} where {column} is not null"))
        ]


VALUES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "name": (lambda ref: ref, str(KEY)),
    "details": (
        lambda ref: {"runs": [{"id": ref}, (str(ref),)], "n": 1, ref: "x"},
        {"runs": [{"id": str(KEY)}, [str(KEY)]], "n": 1, str(KEY): "x"},
    ),
    "tracked": (lambda ref: {"id": ref}, {"id": str(KEY)}),
    "tags": (lambda ref: ["a", ref], ["a", str(KEY)]),
    "origin": (lambda ref: f"{ref}", str(KEY)),
}


RUNS: Any = Run.__table__
Way = Callable[[RefSession, str, Any], object]
WAYS: dict[str, Way] = {
    "attribute": lambda s, name, value: setattr(s.scalars(select(Run)).one(), name, value),
    "constructor": lambda s, name, value: s.add(Run(**{name: value})),
    "merge": lambda s, name, value: s.merge(Run(**{name: value})),
    "insert": lambda s, name, value: s.execute(insert(Run).values({name: value})),
    "records": lambda s, name, value: s.execute(insert(Run), [{name: value}]),
    "many values": lambda s, name, value: s.execute(
        insert(RUNS).values([{"id": uuid.uuid4(), name: value}])
    ),
    "update": lambda s, name, value: s.execute(
        update(Run).where(Run.id == "run_1").values({name: value})
    ),
    "upsert": lambda s, name, value: s.execute(
        upsert(Run)
        .values({"id": "run_1", name: value})
        .on_conflict_do_update(index_elements=["id"], set_={name: value})
    ),
    "bulk mappings": lambda s, name, value: s.bulk_insert_mappings(Run, [{name: value}]),
    "bulk objects": lambda s, name, value: s.bulk_save_objects([Run(**{name: value})]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_copied_ref_is_stored_as_the_key(
    way: Way, name: str, session: RefSession, runs: Engine
) -> None:
    """Whole and as a leaf, whichever way it goes in; what the program has is not changed."""
    make, expected = VALUES[name]
    value = make(session.scalars(select(Run)).one().id)
    before = copy.deepcopy(value)

    way(session, name, value)
    session.commit()

    assert stored(runs, name) == [expected]
    assert value == before == make("run_1")


async def test_a_copied_ref_is_stored_as_the_key_by_asynchronous_sessions(runs: Engine) -> None:
    """By attributes, by a statement, and in a text of SQL."""
    registry = RefRegistry(store=MemoryStore())
    engine = create_async_engine(runs.url.set(drivername="postgresql+asyncpg"))
    async with AsyncRefSession(engine, conversation=registry.conversation("chat")) as session:
        run = (await session.scalars(select(Run))).one()
        ref = run.id
        run.details = {"run": [ref]}
        await session.execute(insert(Run).values(name=ref, tags=[ref]))
        await session.execute(text("update copied_runs set origin = :it"), {"it": ref})
        await session.commit()
    await engine.dispose()

    assert stored(runs, "details") == [{"run": [str(KEY)]}]
    assert stored(runs, "tags") == [[str(KEY)]]
    assert stored(runs, "origin") == [str(KEY)] * 2


def test_rows_come_with_refs_that_are_stored_as_keys_too(session: RefSession) -> None:
    """From a select of columns; what was stored is found again by them."""
    [ref] = session.scalars(select(Run.id))
    session.add(Run(name=ref))
    session.flush()

    assert session.scalars(select(Run.name).where(Run.name == ref)).all() == [str(KEY)]


def test_a_composite_of_data_takes_copied_refs(session: RefSession, runs: Engine) -> None:
    """Its columns are columns of data."""
    run = session.scalars(select(Run)).one()
    run.source = Source("run", run.id)
    session.commit()

    assert stored(runs, "origin") == [str(KEY)]


def test_a_document_that_tracks_changes_goes_on(session: RefSession, runs: Engine) -> None:
    """The attribute has another object, which is tracked as the first was."""
    run = session.scalars(select(Run)).one()
    run.tracked = {"a": run.id}
    session.flush()
    run.tracked["b"] = str(run.id)
    session.commit()

    assert stored(runs, "tracked") == [{"a": str(KEY), "b": str(KEY)}]


def test_a_number_is_stored_as_a_number_and_its_text_as_text(
    session: RefSession, runs: Engine
) -> None:
    """As on a plain session: `order.id` and `str(order.id)` are two values."""
    order: Any = session.scalars(select(Order)).one()
    order.details = {"id": order.id, "text": str(order.id)}
    order.name = order.id
    session.commit()

    assert stored(runs, "details", "copied_orders") == [{"id": 41, "text": "41"}]
    assert stored(runs, "name", "copied_orders") == ["41"]


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_number_is_text_in_a_list_of_texts(way: Way, session: RefSession, runs: Engine) -> None:
    """Drivers take no number there, and a document has one."""
    session.scalars(select(Run)).one().tags = []
    assert [*map(str, session.scalars(select(Run.id)))] == ["run_1"]

    way(session, "tags", ["a", session.scalars(select(Order.id)).one()])
    session.commit()

    assert [each for each in stored(runs, "tags") if each] == [["a", "41"]]


def test_listeners_of_flushes_store_keys(session: RefSession, runs: Engine) -> None:
    """An audit row that `before_flush` adds, and a document that it changes."""

    @event.listens_for(session, "before_flush")
    def audit(session: Session, *_: object) -> None:
        for run in session.dirty:
            session.add(Order(details={"changed": run.id}))
            run.tags = [run.id]

    session.scalars(select(Run)).one().kind = "changed"
    session.commit()

    assert stored(runs, "details", "copied_orders") == [{"changed": str(KEY)}]
    assert stored(runs, "tags") == [[str(KEY)]]


def test_text_is_data_though_it_looks_like_a_ref(session: RefSession, runs: Engine) -> None:
    """Written by hand, read from JSON, made by a program out of a ref, or sent by a model."""
    run = session.scalars(select(Run)).one()
    assert run.id == "run_1"
    run.name = "run_1"
    run.details = json.loads(json.dumps({"id": run.id}))
    run.origin = f"after {run.id}"
    session.commit()
    tools = Toolset([Run], expect="optional")
    shown = tools.call(session, "db_read", {"table": "copied_runs", "columns": ["id"]})
    ref = shown["rows"][0]["id"]
    filters = [{"field": "id", "op": "=", "value": ref}]
    tools.call(
        session, "db_update", {"table": "copied_runs", "filters": filters, "data": {"kind": ref}}
    )

    assert stored(runs, "name") == stored(runs, "kind") == ["run_1"]
    assert stored(runs, "details") == [{"id": "run_1"}]
    assert stored(runs, "origin") == ["after run_1"]


def test_a_ref_for_a_column_of_plain_uuids_stays_refused(session: RefSession) -> None:
    """It is no text, and nothing is known of what it holds."""
    run = session.scalars(select(Run)).one()
    run.other = run.id
    with pytest.raises(UntranslatableError, match="whose values have no refs"):
        session.flush()


def test_a_ref_of_another_conversation_is_refused(session: RefSession, runs: Engine) -> None:
    """It would be another row, or none; the session goes on."""
    other = RefRegistry(store=MemoryStore()).conversation("other")
    with RefSession(runs, conversation=other) as elsewhere:
        elsewhere.add(Run())
        elsewhere.flush()
        refs = elsewhere.scalars(select(Run.id)).all()
    run = session.get_one(Run, KEY)
    run.details = {"it": refs[1]}
    with pytest.raises(BadRefError):
        session.flush()
    session.rollback()
    assert session.get(Run, KEY) is run


def test_copies_and_pickles_of_refs_are_strings(session: RefSession) -> None:
    """They are equal to the text, hash alike, and a pickle needs nothing of this package."""
    ref: Any = session.scalars(select(Run)).one().id

    assert (ref, hash(ref), repr(ref), json.dumps(ref)) == (
        *("run_1", hash("run_1"), "'run_1'", '"run_1"'),
    )
    assert type(pickle.loads(pickle.dumps(ref))) is str  # noqa: S301
    assert copy.deepcopy([ref])[0] is ref
    assert str(str(ref)) == "run_1"
