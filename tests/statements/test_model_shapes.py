"""Mapped classes of many shapes: refs in and out, whatever declares the attribute."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    MetaData,
    Table,
    Uuid,
    select,
    update,
)
from sqlalchemy.ext.associationproxy import AssociationProxy, association_proxy
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    WriteOnlyMapped,
    aliased,
    load_only,
    mapped_column,
    reconstructor,
    registry,
    relationship,
    sessionmaker,
    synonym,
    validates,
)

from alfred_refs import KeyColumnError, RefRegistry, RefSession
from tests.owned import key


class Base(DeclarativeBase):
    """Declarative base of these shapes."""

    metadata = MetaData()


class Task(Base):
    """Has its key under other names, a list in order, and methods that read keys."""

    __tablename__ = "tasks"

    task_key: Mapped[Any] = mapped_column("id", Uuid, primary_key=True, default=uuid.uuid4)
    after_key: Mapped[Any] = mapped_column("after_id", ForeignKey("tasks.id"), nullable=True)
    after = synonym("after_key")
    steps: Mapped[list[Step]] = relationship(
        order_by="Step.position", collection_class=ordering_list("position")
    )
    step_ids: AssociationProxy[list[Any]] = association_proxy("steps", "id")
    notes: WriteOnlyMapped[Note] = relationship()

    @hybrid_property
    def own(self) -> Any:
        """The key again."""
        return self.task_key

    @validates("after_key")
    def _checked(self, _: str, value: Any) -> Any:
        return value

    @reconstructor
    def _loaded(self) -> None:
        self.called = f"<{self.task_key}>"


class Step(Base):
    """Has a big integer key that the database makes, and loads one of its keys late."""

    __tablename__ = "steps"

    id: Mapped[Any] = mapped_column(BigInteger, Identity(), primary_key=True)
    position: Mapped[int | None]
    task_id: Mapped[Any] = mapped_column(ForeignKey("tasks.id"), deferred=True, nullable=True)


class Note(Base):
    """Belongs to a task."""

    __tablename__ = "notes"

    id: Mapped[Any] = key()
    task_id: Mapped[Any] = mapped_column(ForeignKey("tasks.id"), nullable=True)


class Page(Base):
    """Has a composite key, half of it another entity's."""

    __tablename__ = "pages"

    task_id: Mapped[Any] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    lines: Mapped[list[Line]] = relationship(cascade="all, delete-orphan")


class Line(Base):
    """Has a composite foreign key, as part of its own composite key."""

    __tablename__ = "lines"
    __table_args__ = (
        ForeignKeyConstraint(["task_id", "page"], ["pages.task_id", "pages.number"]),
    )

    task_id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    page: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


class Record(MappedAsDataclass, Base, kw_only=True):
    """Is a dataclass: its `repr()` reads attributes."""

    __tablename__ = "records"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default_factory=uuid.uuid4, init=False)
    before: Mapped[Any] = mapped_column(
        Uuid, ForeignKey("records.id"), default=None, nullable=True
    )


imperative = registry(metadata=Base.metadata)
things = Table(
    "imperative_things",
    Base.metadata,
    Column("id", Uuid, primary_key=True, default=uuid.uuid4, key="pkey"),
    Column("up", ForeignKey("imperative_things.pkey")),
)


class ImperativeThing:
    """Is mapped from outside."""

    ident: Any
    up: Any


imperative.map_imperatively(ImperativeThing, things, properties={"ident": things.c.pkey})


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """The engine, with these tables in its database."""
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def task(session: RefSession) -> Task:
    """A saved task of two steps, `task_1`."""
    task = Task(steps=[Step(), Step()])
    session.add(task)
    session.commit()
    assert task.task_key == "task_1"
    return task


def test_other_names_of_a_key_attribute_show_and_accept_refs(
    session: RefSession, task: Task
) -> None:
    """A renamed attribute, a synonym, a hybrid and a validated attribute are that attribute."""
    second: Any = Task(after="task_1")
    session.add(second)
    session.commit()
    statement: Any = select(Task.own, Task.after).where(Task.after == "task_1")

    assert (second.after, second.after_key, second.own) == ("task_1", "task_1", "task_2")
    assert session.execute(statement).all() == [("task_2", "task_1")]
    assert session.scalars(select(Task).filter_by(after="task_1")).all() == [second]
    assert session.get(Task, {"task_key": "task_1"}) is task
    second.after = "task_2"
    session.execute(update(Task).where(Task.task_key == "task_1").values(after_key="task_2"))
    session.commit()
    assert (second.after_key, task.after) == ("task_2", "task_2")


def test_what_the_program_reads_while_a_row_is_loaded_are_refs(
    session: RefSession, task: Task
) -> None:
    """A reconstructor runs before anything else can see the instance."""
    assert task.task_key == "task_1"
    session.expunge_all()

    assert session.get_one(Task, "task_1").called == "<task_1>"


def test_collections_and_proxies_of_keys_show_refs(session: RefSession, task: Task) -> None:
    """A list in order keeps its order, a proxy reads what the attribute shows."""
    assert list(task.step_ids) == ["step_1", "step_2"]
    task.steps.reverse()
    task.steps.insert(0, Step())
    task.steps.reorder()  # type: ignore[attr-defined]
    session.commit()

    assert [s.id for s in task.steps] == ["step_3", "step_2", "step_1"]
    assert [s.position for s in task.steps] == [0, 1, 2]
    has_step: Any = Task.step_ids == "step_2"
    assert session.scalars(select(Task).where(has_step)).all() == [task]


def test_integer_and_deferred_keys_are_translated(session: RefSession, task: Task) -> None:
    """A key loaded late, or left out by `load_only()`, shows its ref when it is read."""
    assert [step.id for step in task.steps] == ["step_1", "step_2"]
    session.expunge_all()
    statement = select(Step).where(Step.task_id == "task_1", Step.id == "step_2")
    step = session.scalars(statement).one()
    assert (step.id, step.task_id, type(step.__dict__["id"])) == ("step_2", "task_1", int)
    session.expunge_all()
    [only] = session.scalars(statement.options(load_only(Step.position)))
    assert (only.task_id, only.id) == ("task_1", "step_2")


def test_write_only_collections_are_translated(session: RefSession, task: Task) -> None:
    """Their statements take refs and give instances that show them."""
    task.notes.add_all([Note(), Note()])
    session.commit()
    notes = session.scalars(task.notes.select()).all()
    shown = [note.id for note in notes]

    assert shown == ["note_1", "note_2"]
    assert [note.task_id for note in notes] == ["task_1", "task_1"]
    found = session.scalars(task.notes.select().where(Note.id == "note_2")).all()
    assert found == [notes[1]]


def test_each_column_of_a_composite_key_shows_its_targets_ref(
    session: RefSession, task: Task
) -> None:
    """Foreign keys in it are refs, also where they reference a part of a composite key."""
    session.add(Page(task_id=task.task_key, number=3, lines=[Line(number=1)]))
    session.flush()
    session.add(Line(task_id="task_1", page=3, number=2))
    session.commit()
    line = session.get_one(Line, ("task_1", 3, 2))
    other = aliased(Line)
    found = session.scalars(select(other.number).where(other.task_id == "task_1")).all()

    assert (line.task_id, line.page, line.number) == ("task_1", 3, 2)
    assert sorted(found) == [1, 2]
    session.delete(session.get_one(Page, ("task_1", 3)))
    session.commit()
    assert session.get(Line, ("task_1", 3, 2)) is None


def test_dataclasses_show_refs(session: RefSession) -> None:
    """`repr()`, `asdict()` and `replace()` read attributes."""
    first = Record()
    session.add(first)
    session.commit()
    second = Record(before=first.id)
    session.add(second)
    session.commit()

    assert repr(second) == "Record(id='record_2', before='record_1')"
    assert dataclasses.asdict(second) == {"id": "record_2", "before": "record_1"}
    copy = dataclasses.replace(second)
    session.add(copy)
    session.commit()
    assert (copy.id, copy.before) == ("record_3", "record_1")


def test_imperative_mappings_and_column_keys_are_translated(session: RefSession) -> None:
    """The class may know nothing of the database, and a column may have a key of its own."""
    one, two = ImperativeThing(), ImperativeThing()
    session.add(one)
    session.commit()
    assert one.ident == "imperative_thing_1"
    two.up = one.ident
    session.add(two)
    session.commit()
    columns = select(things.c.pkey).where(things.c.up == "imperative_thing_1")

    assert (two.ident, two.up) == ("imperative_thing_2", "imperative_thing_1")
    assert session.scalars(columns).all() == ["imperative_thing_2"]


def test_a_foreign_key_to_a_part_of_a_pair_is_refused_where_it_is_met(session: RefSession) -> None:
    """A statement without the column runs; next to the primary key of its row it is data."""
    metadata = MetaData()
    columns = [Column(name, Uuid) for name in ("code", "kind")]
    targets = Table("coded", metadata, Column("id", Uuid, primary_key=True), *columns)
    columns = [Column(name, Uuid) for name in ("code", "kind", "part")]
    loose = Table(
        "by_code",
        metadata,
        Column("id", Uuid, primary_key=True),
        *columns,
        ForeignKeyConstraint(["id", "code"], ["coded.id", "coded.code"]),
        ForeignKeyConstraint(["kind", "part"], ["coded.kind", "coded.code"]),
    )
    session.connection().exec_driver_sql(
        "create table coded (id uuid); create table by_code (id uuid, code uuid)"
    )
    by_id = targets.c.id == loose.c.id

    assert session.execute(select(loose.c.id, loose.c.code).join(targets, by_id)).all() == []
    with pytest.raises(KeyColumnError, match=r"by_code\.part references coded\.code"):
        session.execute(select(loose.c.part))


def test_an_instance_shows_refs_of_the_session_it_joined_last(
    session: RefSession, task: Task, registry: RefRegistry, sessions: sessionmaker[RefSession]
) -> None:
    """In another conversation it has other refs; a plain session's copy has keys."""
    step = task.steps[0]
    assert (step.id, step.task_id) == ("step_1", "task_1")
    session.expunge_all()
    with sessions(conversation=registry.conversation("other")) as other:
        first = other.scalars(select(Step).where(Step.position == 1)).one()
        assert first.id == "step_1"
        merged = other.merge(step)
        assert (merged.id, merged.task_id) == ("step_2", "task_1")
        other.expunge_all()
        other.add(step)
        assert step.id == "step_2"
        other.expunge_all()
    with Session(session.get_bind()) as plain:
        assert isinstance(plain.merge(step).id, int)
        plain.expunge_all()
        plain.add(step)
        assert step.id == "step_2"
