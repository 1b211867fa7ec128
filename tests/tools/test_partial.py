"""What the unit of work does not find as it deletes goes by the rules of the database.

A relationship may find fewer rows than refer: by its own criteria, by its class, by what the
application adds to each statement, or because it has room for one. Classes that are not listed
are no listed ones, though they share a table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, event, select, text
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    ORMExecuteState,
    Session,
    mapped_column,
    relationship,
    with_loader_criteria,
)

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Toolset
from alfred_refs.tools.hooks import Writing
from tests.tools.conftest import by, save

FIRST = "00000000-0000-0000-0000-000000000001"


class Base(DeclarativeBase):
    """Declarative base of these tests."""


def key() -> Any:
    """Return a primary key."""
    return mapped_column(primary_key=True, default=uuid.uuid4)


class Shop(Base):
    """Is referred to in every way, each with both rules of the database."""

    __tablename__ = "stalls"

    id: Mapped[uuid.UUID] = key()

    cooks: Mapped[list[Cook]] = relationship(foreign_keys="Helper.cascade_id")
    tidy_cooks: Mapped[list[Cook]] = relationship(foreign_keys="Helper.null_id", cascade="all")


class Helper(Base):
    """Refers to a shop, whatever it is."""

    __tablename__ = "helpers"

    id: Mapped[uuid.UUID] = key()
    kind: Mapped[str]
    name: Mapped[str]
    cascade_id: Mapped[Any] = mapped_column(
        ForeignKey("stalls.id", ondelete="CASCADE"), nullable=True
    )
    null_id: Mapped[Any] = mapped_column(
        ForeignKey("stalls.id", ondelete="SET NULL"), nullable=True
    )
    boss_id: Mapped[Any] = mapped_column(ForeignKey("helpers.id"), nullable=True)

    boss: Mapped[Helper | None] = relationship(remote_side="Helper.id", back_populates="team")
    team: Mapped[list[Helper]] = relationship(back_populates="boss")

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "helper"}  # noqa: RUF012


class Cook(Helper):
    """What the relationships of a shop find."""

    __mapper_args__ = {"polymorphic_identity": "cook"}  # noqa: RUF012


class Guard(Helper):
    """Has a reference in a table of its own."""

    __tablename__ = "guards"

    id: Mapped[uuid.UUID] = mapped_column(ForeignKey("helpers.id"), primary_key=True)
    shop_id: Mapped[Any] = mapped_column(
        ForeignKey("stalls.id", ondelete="SET NULL"), nullable=True
    )

    __mapper_args__ = {"polymorphic_identity": "guard"}  # noqa: RUF012


class Plot(Base):
    """Has lists that find some of their rows."""

    __tablename__ = "plots"

    id: Mapped[uuid.UUID] = key()

    active: Mapped[list[Tree]] = relationship(
        primaryjoin="and_(Plot.id == Tree.cascade_id, Tree.alive)", foreign_keys="Tree.cascade_id"
    )
    tidy: Mapped[list[Tree]] = relationship(
        primaryjoin="and_(Plot.id == Tree.null_id, Tree.alive)",
        foreign_keys="Tree.null_id",
        cascade="all",
    )


class Tree(Base):
    """Is alive or not."""

    __tablename__ = "trees"

    id: Mapped[uuid.UUID] = key()
    name: Mapped[str]
    alive: Mapped[bool]
    cascade_id: Mapped[Any] = mapped_column(
        ForeignKey("plots.id", ondelete="CASCADE"), nullable=True
    )
    null_id: Mapped[Any] = mapped_column(
        ForeignKey("plots.id", ondelete="SET NULL"), nullable=True
    )


class Owner(Base):
    """Has one pass, though there may be more."""

    __tablename__ = "pass_owners"

    id: Mapped[uuid.UUID] = key()

    passed: Mapped[Pass | None] = relationship(cascade="all", uselist=False)
    notes: Mapped[list[Note]] = relationship()


class Pass(Base):
    """Loses its owner."""

    __tablename__ = "passes"

    id: Mapped[uuid.UUID] = key()
    name: Mapped[str]
    owner_id: Mapped[Any] = mapped_column(
        ForeignKey("pass_owners.id", ondelete="SET NULL"), nullable=True
    )


class Note(Base):
    """Is hidden by the application where it is old."""

    __tablename__ = "pass_notes"

    id: Mapped[uuid.UUID] = key()
    name: Mapped[str]
    old: Mapped[bool]
    owner_id: Mapped[Any] = mapped_column(
        ForeignKey("pass_owners.id", ondelete="CASCADE"), nullable=True
    )


class HidingSession(RefSession):
    """Hides old notes from each statement."""


@event.listens_for(HidingSession, "do_orm_execute")
def hide(execution: ORMExecuteState) -> None:
    """Add a criterion, as `docs/neighbours.md` has it."""
    if execution.is_select:
        criterion = with_loader_criteria(Note, ~Note.old)
        execution.statement = execution.statement.options(criterion)


@pytest.fixture
def engine_of_shops(tables: Engine) -> Iterator[Engine]:
    """An engine on a database with these tables."""
    Base.metadata.create_all(tables)
    yield tables
    Base.metadata.drop_all(tables)


def add(engine: Engine, parent: Any, *rows: Callable[[Any], Any]) -> None:
    """Save a row, and others that are made of its key."""
    with Session(engine) as plain:
        plain.add(parent)
        plain.flush()
        plain.add_all(row(parent.id) for row in rows)
        plain.commit()


def made_of(class_: Any, column: str, key: Any, **values: Any) -> Any:
    """Return a row that refers to another."""
    return class_(**values, **{column: key})


def cook_and_helper(column: str) -> list[Callable[[Any], Any]]:
    """Return what makes a cook, which is seen, and a helper, which is not."""
    return [partial(made_of, each, column, name=each.__name__) for each in (Cook, Helper)]


def trees(column: str) -> list[Callable[[Any], Any]]:
    """Return what makes a tree that is seen, and one that is not."""
    return [partial(made_of, Tree, column, name=f"alive {a}", alive=a) for a in (True, False)]


NOTES: list[Callable[[Any], Any]] = [
    partial(made_of, Note, "owner_id", name=f"old {o}", old=o) for o in (True, False)
]

# what is deleted -> its class, that of the others, what makes them, who goes
CASES: dict[str, tuple[Any, Any, list[Callable[[Any], Any]], set[str]]] = {
    "subclass, cascade below": (Shop, Helper, cook_and_helper("cascade_id"), {"Helper"}),
    "subclass, null below": (Shop, Helper, cook_and_helper("null_id"), {"Cook"}),
    "criteria, cascade below": (Plot, Tree, trees("cascade_id"), {"alive False"}),
    "criteria, null below": (Plot, Tree, trees("null_id"), {"alive True"}),
    "application, cascade below": (Owner, Note, NOTES, {"old True"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("verbs", [["update"], ["delete"], ["update", "delete"]])
def test_rows_that_a_relationship_does_not_find_are_told_as_what_they_become(
    engine_of_shops: Engine, conversation: Conversation, case: str, verbs: list[Any]
) -> None:
    """And held against what a model may do: both is needed here."""
    of, other, made, gone = CASES[case]
    add(engine_of_shops, of(), *made)
    toolset = Toolset([of, other], verbs={other: verbs})
    table = of.__tablename__
    with HidingSession(engine_of_shops, conversation=conversation) as session:
        [row] = toolset.call(session, "db_read", {"table": table})["rows"]
        asked = {"table": table, "filters": by("id", row["id"])}
        answer = toolset.call(session, "db_delete", asked)
        told = {name: answer.get(name, []) for name in ("deleted_with", "unlinked")}
        unlinked = {conversation.resolve(each) for each in told["unlinked"]}
    with Session(engine_of_shops) as plain:
        left = {each.id: each.name for each in plain.scalars(select(other))}
    if len(verbs) == 1:
        assert answer["error"]["code"] == "still_referenced"
        assert len(left) == 2
        return
    assert len(told["deleted_with"]) == len(told["unlinked"]) == 1
    assert set(left.values()) == {name(each) for each in made} - gone
    assert unlinked == set(left)


def name(make: Callable[[Any], Any]) -> str:
    """Return the name of what is made."""
    return str(make(None).name)


@pytest.mark.filterwarnings("ignore:Multiple rows returned with uselist=False")
def test_where_there_is_room_for_one_row_others_stay(
    engine_of_shops: Engine, session: RefSession, conversation: Conversation
) -> None:
    """The unit of work deletes the one that it finds."""
    add(engine_of_shops, Owner(), *[partial(made_of, Pass, "owner_id", name=n) for n in "abc"])
    toolset = Toolset([Owner, Pass])
    [row] = toolset.call(session, "db_read", {"table": "pass_owners"})["rows"]
    toolset.call(session, "db_read", {"table": "passes"})
    by_id = by("id", row["id"])
    answer = toolset.call(session, "db_delete", {"table": "pass_owners", "filters": by_id})
    assert (len(answer["deleted_with"]), len(answer["unlinked"])) == (1, 2)
    with Session(engine_of_shops) as plain:
        left = {each.id for each in plain.scalars(select(Pass))}
    assert {conversation.resolve(each) for each in answer["unlinked"]} == left


def test_a_base_that_is_not_listed_is_none_of_its_listed_subclasses(
    engine_of_shops: Engine, session: RefSession
) -> None:
    """Its rows keep their references, and are not named."""
    add(engine_of_shops, Cook(name="Ann"), lambda k: Helper(name="Bob", boss_id=k))
    toolset = Toolset([Cook])
    [row] = toolset.call(session, "db_read", {"table": "helpers"})["rows"]
    by_id = by("id", row["id"])
    error = toolset.call(session, "db_delete", {"table": "helpers", "filters": by_id})["error"]
    assert (error["code"], error["referring"], error["refs"]) == ("still_referenced", None, [])
    with Session(engine_of_shops) as plain:
        assert len(plain.scalars(select(Helper.boss_id).where(Helper.boss_id.is_not(None))).all())


@pytest.mark.parametrize("rights", [{"read_only": [Helper]}, {"verbs": {Helper: ["create"]}}])
def test_a_row_of_a_subclass_that_is_not_listed_goes_by_the_nearest_that_is(
    engine_of_shops: Engine, session: RefSession, rights: dict[str, Any]
) -> None:
    """Though its reference is in a table of its own."""
    add(engine_of_shops, Shop(), lambda k: Guard(name="Gus", shop_id=k))
    toolset = Toolset([Helper, Shop], **rights)
    [row] = toolset.call(session, "db_read", {"table": "stalls"})["rows"]
    [guard] = toolset.call(session, "db_read", {"table": "helpers"})["rows"]
    by_id = by("id", row["id"])
    error = toolset.call(session, "db_delete", {"table": "stalls", "filters": by_id})["error"]
    assert (error["code"], error["refs"]) == ("still_referenced", [guard["id"]])


class Noting(Hooks):
    """Notes what it is asked of."""

    def __init__(self, asked: list[tuple[str, str]]) -> None:
        self.asked = asked

    def before_write(self, write: Writing) -> None:
        """Note it."""
        self.asked.append((write.model.__name__, write.verb))


class Visit(Base):
    """Falls back to the first shop."""

    __tablename__ = "stall_visits"

    id: Mapped[uuid.UUID] = key()
    shop_id: Mapped[Any] = mapped_column(
        ForeignKey("stalls.id", ondelete="SET DEFAULT"), server_default=text(f"'{FIRST}'")
    )


@pytest.mark.parametrize("is_written", [True, False])
def test_what_falls_back_to_its_default_is_not_unlinked(
    engine_of_shops: Engine, session: RefSession, is_written: bool
) -> None:
    """It refers to something else then."""
    add(engine_of_shops, Shop(id=uuid.UUID(FIRST)))
    add(engine_of_shops, Shop(), lambda k: Visit(shop_id=k))
    asked = list[tuple[str, str]]()
    rights: dict[str, Any] = {} if is_written else {"read_only": [Visit.shop_id]}
    toolset = Toolset([Shop, Visit], hooks={Visit: [Noting(asked)]}, **rights)
    [visit] = toolset.call(session, "db_read", {"table": "stall_visits"})["rows"]
    by_id = by("id", visit["shop_id"])
    answer = toolset.call(session, "db_delete", {"table": "stalls", "filters": by_id})
    if not is_written:
        assert answer["error"]["code"] == "still_referenced"
        return
    assert (answer["updated_with"], "unlinked" in answer) == ([visit["id"]], False)
    assert asked == [("Visit", "update")]
    [after] = toolset.call(session, "db_read", {"table": "stall_visits"})["rows"]
    assert after["shop_id"] not in (None, visit["shop_id"])


# Orphans of what is saved


class Task(Base):
    """Has details of its own, which go when it lets go of them."""

    __tablename__ = "tasks_with_details"

    id: Mapped[uuid.UUID] = key()
    detail_id: Mapped[Any] = mapped_column(ForeignKey("task_details.id"), nullable=True)

    detail: Mapped[Detail | None] = relationship(
        cascade="all, delete-orphan", single_parent=True, back_populates="task"
    )


class Detail(Base):
    """Belongs to a task, and has bits."""

    __tablename__ = "task_details"

    id: Mapped[uuid.UUID] = key()
    text: Mapped[str]

    task: Mapped[Task | None] = relationship(back_populates="detail", uselist=False)
    bits: Mapped[list[Bit]] = relationship(cascade="all, delete-orphan")


class Bit(Base):
    """Goes with its detail, by the unit of work."""

    __tablename__ = "detail_bits"

    id: Mapped[uuid.UUID] = key()
    detail_id: Mapped[Any] = mapped_column(ForeignKey("task_details.id"))


class Audit(Base):
    """Goes with its detail, by the database."""

    __tablename__ = "detail_audits"

    id: Mapped[uuid.UUID] = key()
    detail_id: Mapped[Any] = mapped_column(ForeignKey("task_details.id", ondelete="CASCADE"))


TASKS = [Task, Detail, Bit, Audit]


def saved(
    engine: Engine, session: RefSession, conversation: Conversation, **rights: Any
) -> tuple[dict[str, Any], list[tuple[str, str]], dict[str, int]]:
    """Save a draft that takes a task from its details; return what came of it."""
    detail = Detail(id=uuid.uuid4(), text="old", bits=[Bit(), Bit()])
    save(engine, Task(detail=detail), Audit(detail_id=detail.id))
    asked = list[tuple[str, str]]()
    toolset = Toolset(TASKS, hooks={each: [Noting(asked)] for each in TASKS}, **rights)
    for each in TASKS:
        toolset.call(session, "db_read", {"table": each.__tablename__})
    draft = conversation.draft(Detail, {"text": "new", "task": "task_1"})
    answer = toolset.call(session, "db_create", {"table": "task_details", "from_draft": draft.ref})
    with Session(engine) as plain:
        left = {each.__name__: len(plain.scalars(select(each)).all()) for each in TASKS}
    return answer, asked, left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rights", "code"),
    [
        ({"verbs": {Detail: ["create", "update"]}}, "still_referenced"),
        ({"read_only": [Bit]}, "still_referenced"),
        ({"read_only": [Audit]}, "still_referenced"),
        ({"max_written": 3}, "too_many_rows"),
    ],
)
def test_what_a_draft_orphans_is_held(
    engine_of_shops: Engine,
    session: RefSession,
    conversation: Conversation,
    rights: dict[str, Any],
    code: str,
) -> None:
    """With all that would go along with it."""
    answer, _, left = saved(engine_of_shops, session, conversation, **rights)
    assert answer["error"]["code"] == code
    assert left == {"Task": 1, "Detail": 1, "Bit": 2, "Audit": 1}


@pytest.mark.slow
def test_what_a_draft_orphans_is_told(
    engine_of_shops: Engine, session: RefSession, conversation: Conversation
) -> None:
    """Once hooks were asked of it."""
    answer, asked, left = saved(engine_of_shops, session, conversation)
    assert left == {"Task": 1, "Detail": 1, "Bit": 0, "Audit": 0}
    assert answer["deleted_with"] == ["detail_1", "bit_1", "bit_2", "audit_1"]
    assert "unlinked" not in answer
    deleted = [each for each in asked if each[1] == "delete"]
    assert deleted == [("Detail", "delete"), ("Bit", "delete"), ("Audit", "delete")]
    assert asked.count(("Task", "update")) == 1
