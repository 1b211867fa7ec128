"""History, approval and undo with owners, other sessions, and other isolation levels."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

import pytest
from sqlalchemy import DateTime, Engine, ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession, UnknownConversationError
from alfred_refs.context import Audience
from alfred_refs.owners import Ownership
from alfred_refs.tools import BoundToolset, Journal, Toolset
from tests.threads import at_once
from tests.tools.conftest import by, save
from tests.tools.shop.conftest import execute
from tests.tools.shop.random_shops import Backwards


class Base(DeclarativeBase):
    """The base of the tables."""


class FirmTask(Base):
    """A task of a firm."""

    __tablename__ = "firm_tasks"
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    firm: Mapped[int]
    due: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    code: Mapped[str | None] = mapped_column(Backwards)


class FirmStep(Base):
    """A step of a task; the task decides whose it is."""

    __tablename__ = "firm_steps"
    __ref_label__ = "text"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    text: Mapped[str]
    task_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("firm_tasks.id"))


Desks = Callable[..., BoundToolset]

CALL = ("chat-9", 1)
TASK = {"table": "firm_tasks", "filters": by("id", "firm_task_1")}
STEP = {"table": "firm_steps", "filters": by("id", "firm_step_1")}
TITLE = {**TASK, "data": {"title": "Sweep"}}


@pytest.fixture
def firms(engine: Engine) -> Engine:
    """An engine on a database with a task of firm 1, which has one step."""
    Base.metadata.create_all(engine)
    key, due = uuid.uuid4(), datetime(2026, 2, 3, tzinfo=UTC)
    task = FirmTask(id=key, title="Clean", firm=1, due=due)
    save(engine, task, FirmStep(text="floor", task_id=key))
    return engine


@pytest.fixture
def desk_of(firms: Engine) -> Desks:
    """Make a desk for firms, on the engine or on another."""
    registry = RefRegistry(firms)

    def make(engine: Engine = firms, **options: Any) -> BoundToolset:
        owner = Ownership({FirmTask: "firm"}, open=[FirmStep])
        toolset = Toolset([FirmTask, FirmStep], owner=owner, expect="optional", **options)
        sessions = sessionmaker(engine, class_=RefSession)
        journal = Journal(refusals=True)
        desk = toolset.bind(sessions, registry=registry, journal=journal)
        for table in ("firm_tasks", "firm_steps"):
            desk.call(*CALL, "db_read", {"table": table})
        return desk

    return make


def titles(engine: Engine) -> list[str]:
    """The titles of all tasks."""
    with Session(engine) as session:
        return [*session.scalars(select(FirmTask.title).order_by(FirmTask.title))]


def test_calls_of_an_owner_are_kept_and_undone(desk_of: Desks, firms: Engine) -> None:
    """The registry's statements are no part of what the owner's session is confined to."""
    desk = desk_of(consent={FirmTask: ["delete"]})
    assert not desk.call(*CALL, "db_update", TITLE).failed
    assert desk.call(*CALL, "db_delete", STEP).value["deleted"] == ["firm_step_1"]
    number = desk.call(*CALL, "db_delete", TASK).pending
    assert number == 3
    assert desk.approve(*CALL, number, by="ann").value["deleted"] == ["firm_task_1"]
    assert titles(firms) == []

    for call in (3, 2, 1):
        assert desk.undo(*CALL, call=call, by="ann").refusal is None
    assert titles(firms) == ["Clean"]


def test_a_row_that_belongs_to_another_owner_now(desk_of: Desks, firms: Engine) -> None:
    """It is neither changed back nor deleted."""
    desk = desk_of()
    desk.call(*CALL, "db_update", TITLE)
    desk.call(*CALL, "db_create", {"table": "firm_tasks", "data": {"title": "New"}})
    execute(firms, "UPDATE firm_tasks SET firm = 2")

    for call in (1, 2):
        refused = desk.undo(*CALL, call=call, by="ann").refusal
        assert refused is not None
        assert "belongs to somebody else" in refused["message"]
    assert titles(firms) == ["New", "Sweep"]


def test_prompts_say_what_waits_in_conversations_of_the_owner(
    desk_of: Desks, firms: Engine
) -> None:
    """A row that went to another owner is not named; another owner has neither call nor row."""
    desk = desk_of(consent={FirmTask: ["delete"]})
    desk.call(*CALL, "db_delete", STEP)
    assert desk.call(*CALL, "db_delete", TASK).pending == 2
    desk.call("chat-2", 2, "db_read", {"table": "firm_tasks"})
    names = dict.fromkeys(get_args(Audience), 'firm_task_1 "Clean"') | {"reply": '"Clean"'}
    for audience, name in names.items():
        waits = f'- call 2, db_delete: "Delete 1 firm task." ({name}): waits'
        assert waits in desk.context(*CALL).render(audience)
    for audience in names:
        assert "- call" not in desk.context("chat-2", 2).render(audience)
    with pytest.raises(UnknownConversationError):
        desk.context("chat-9", 2).render()

    execute(firms, "UPDATE firm_tasks SET firm = 2")
    execute(firms, "UPDATE firm_tasks SET title = 'Secret'")
    shown = desk.context(*CALL).render()
    assert waits in shown
    assert "not visible" in shown
    assert "Secret" not in shown


def test_times_in_sessions_of_other_time_zones(desk_of: Desks, firms: Engine) -> None:
    """Values are compared, not how a session writes them."""
    elsewhere = create_engine(firms.url, connect_args={"options": "-c TimeZone=Asia/Tokyo"})
    here, there = desk_of(), desk_of(elsewhere)
    new = {"title": "Paint", "due": "2026-04-05T06:07:08Z"}
    for first, second in ((here, there), (there, here)):
        first.call(*CALL, "db_create", {"table": "firm_tasks", "data": new})
        number = first.history(*CALL, limit=1)[0].call
        assert second.undo(*CALL, call=number, by="ann").refusal is None
        assert titles(firms) == ["Clean"]
        assert first.undo(*CALL, call=number + 1, by="ann").refusal is None
        assert second.undo(*CALL, call=number + 2, by="ann").refusal is None
    with elsewhere.connect() as connection:
        zone = connection.exec_driver_sql("SHOW TimeZone").scalar_one()
    elsewhere.dispose()
    assert zone == "Asia/Tokyo"


def test_a_plan_shows_values_of_custom_types(desk_of: Desks) -> None:
    """They are shown as the model gives them, not as they are stored."""
    new = {"title": "Paint", "code": "abc"}
    plan = desk_of().plan(*CALL, "db_create", {"table": "firm_tasks", "data": new})
    assert plan.rows[0].fields == new


def test_approvals_that_the_database_rolls_back(desk_of: Desks, firms: Engine) -> None:
    """An approval in REPEATABLE READ is repeated, and finds what the other has done."""
    strict = create_engine(firms.url, isolation_level="REPEATABLE READ")
    desk = desk_of(strict, consent={FirmTask: "all"})
    number = desk.call(*CALL, "db_update", TITLE).pending or 0
    first, second = at_once(
        *(partial(desk.approve, *CALL, number, by=by) for by in ("ann", "bob"))
    )
    strict.dispose()

    assert first.text == second.text
    assert titles(firms) == ["Sweep"]


def test_refusals_are_kept_in_the_conversation_of_the_owner(desk_of: Desks) -> None:
    """Another owner's conversation has none of them."""
    desk = desk_of()
    wrong = {**TITLE, "expect": "Cook"}
    assert desk.call(*CALL, "db_update", wrong).failed
    [record] = desk.history(*CALL)
    assert (record.state, record.arguments) == ("refused", wrong)
    assert desk.history("chat-10", 2) == []


class MailBase(DeclarativeBase):
    """The base of classes with two tables."""


class Mail(MailBase):
    """A row of one table."""

    __tablename__ = "mails"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "mail"}  # noqa: RUF012
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    kind: Mapped[str]


class Reminder(Mail):
    """A row of two tables."""

    __tablename__ = "reminders"
    __mapper_args__ = {"polymorphic_identity": "reminder"}  # noqa: RUF012

    id: Mapped[uuid.UUID] = mapped_column(ForeignKey("mails.id"), primary_key=True)
    number: Mapped[int]


def test_a_row_of_two_tables_is_one_in_the_history(engine: Engine) -> None:
    """As it is in plans; undone, it is as before."""
    MailBase.metadata.create_all(engine)
    registry = RefRegistry(engine)
    registry.create_tables()
    desk = Toolset([Reminder]).bind(
        sessionmaker(engine, class_=RefSession), registry=registry, journal=True
    )
    desk.call(
        "chat-7", None, "db_create", {"table": "reminders", "data": {"title": "Pay", "number": 1}}
    )
    only = by("id", "mail_1")
    change = {"table": "reminders", "filters": only, "expect": "Pay"}
    desk.call("chat-7", None, "db_update", {**change, "data": {"title": "Pay!", "number": 2}})
    created, updated = desk.history("chat-7")
    for record in (created, updated):
        [row] = record.changes
        assert (row.ref, {*row.fields} - {"kind"}) == ("mail_1", {"title", "number"})
    desk.undo("chat-7", call=2, by="ann")
    [row] = desk.call("chat-7", None, "db_read", {"table": "reminders"}).value["rows"]
    assert (row["title"], row["number"]) == ("Pay", 1)
