"""Prompts with tables that cannot be read: a prompt is made, with the names of their rows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, delete, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    AsyncRefSession,
    BadRefError,
    Conversation,
    RefPolicy,
    RefRegistry,
    RefSession,
)
from alfred_refs.context import Context, Step
from alfred_refs.errors import MentionError
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from tests.context.conftest import Call
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish, Part
from tests.tools.test_unreadable_values import UNREADABLE, Shelf, store

Sessions = sessionmaker[RefSession]
Keys = dict[str, uuid.UUID]

CORRUPT = "UPDATE dishes SET course = 'BRUNCH' WHERE name = 'Soup'"


def status_of(context: Context, audience: Any = "act") -> dict[str, str]:
    """Return the status of each row of a prompt, by its name."""
    return {row.name: row.status for row in context.view(audience).active}


def read_all(call: Call, *tables: str) -> None:
    """Read tables, as the model does."""
    for table in tables:
        assert "error" not in call("db_read", table=table)


@pytest.mark.usefixtures("keys")
def test_rows_of_a_table_with_an_unreadable_value_are_named(
    context: Context, call: Call, tables: Engine
) -> None:
    """Rows of other tables have their values, and a prompt without values is as it was."""
    read_all(call, "dishes", "cuisines")
    with tables.begin() as connection:
        connection.execute(text(CORRUPT))
        connection.execute(text("DELETE FROM dishes WHERE name = 'Curry'"))
    assert call("db_read", table="dishes")["error"]["code"] == "unreadable_value"
    expected = {"Soup": "could not be read", "Korma": "could not be read"}
    expected |= {"Curry": "deleted since", "Thai": "read"}
    assert status_of(context) == expected
    rows = context.prompt(Step("write", "x")).parts["entities"]
    assert '"Soup" (could not be read)' in rows
    assert '- cuisine_1 "Thai" (read in turn 0)' in rows
    assert status_of(context, "think") == expected | {"Soup": "read", "Korma": "read"}
    assert '"Soup": dish, read' in context.render("reply")


def test_a_row_with_an_unreadable_value_is_mentioned(
    context: Context, session: RefSession, keys: Keys, tables: Engine
) -> None:
    """Only its key and its label are read."""
    with tables.begin() as connection:
        connection.execute(text(CORRUPT))
    assert context.heard(session, f"@[Soup](dish:{keys['Soup']})") == "dish_1"


class Nothing(Hooks):
    """Hides rows by a condition."""

    def before_read(self, read: Reading) -> None:
        """Add it."""
        read.conditions.append(read.model.name == "nothing")


BY_LEVEL = RefPolicy(labels={Shelf: "level"}, names={Shelf: "ledge"})


@pytest.mark.parametrize("value", ["high", "type"])
@pytest.mark.parametrize("hooks", [None, {}, {Shelf: [Nothing()]}])
def test_a_row_with_an_unreadable_label_is_mentioned_without_it(
    tables: Engine, value: str, hooks: dict[Any, Any] | None
) -> None:
    """With and without a toolset; but not a row that hooks may hide."""
    Shelf.metadata.create_all(tables)
    with Session(tables) as plain, plain.begin():
        shelf = Shelf(name="b")
        plain.add(shelf)
        plain.flush()
        mention = f"@[B](ledge:{shelf.id})"
    store(tables, "level", value)
    toolset = None if hooks is None else Toolset([Shelf], hooks=hooks, policy=BY_LEVEL)
    conversation = RefRegistry(store=MemoryStore(), policy=BY_LEVEL).conversation("c")
    sessions = sessionmaker(tables, class_=RefSession)
    context = Context(conversation, toolset=toolset, sessions=sessions)
    with sessions(conversation=conversation) as session:
        if hooks:
            with pytest.raises(MentionError, match="names no row that can be seen"):
                context.heard(session, mention)
        else:
            assert context.heard(session, mention) == "ledge_1"


class Failing(Hooks):
    """Adds a condition that the database cannot evaluate."""

    def __init__(self, condition: Any) -> None:
        self._condition = condition

    def before_read(self, read: Reading) -> None:
        """Add it."""
        read.conditions.append(self._condition)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("is_slow", "in_transaction"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_a_statement_that_fails_ends_the_read_of_its_table_alone(
    conversation: Conversation, sessions: Sessions, call: Call, is_slow: bool, in_transaction: bool
) -> None:
    """By a division by zero, or the time limit; what the application has written stays."""
    read_all(call, "dishes", "cuisines", "parts")
    fails = 1 / (func.length(Dish.name) - func.length(Dish.name)) > 0
    if is_slow:
        fails = func.pg_sleep(5).is_(None)
    limits = Limits(seconds=0.2 if is_slow else None)
    toolset = Toolset(MODELS, hooks={Dish: [Failing(fails)]}, limits=limits)
    fields = {"dish_1": ["servings"], "cuisine_1": ["name"], "part_1": ["note"]}
    with sessions(conversation=conversation) as session:
        if in_transaction:
            session.add(Cuisine(name="Greek"))
        current = toolset.reread(session, fields, {})
        assert session.in_transaction() is in_transaction
        session.commit()
        assert ("Greek" in session.scalars(select(Cuisine.name)).all()) is in_transaction
    assert current.unreadable == {"dish_1"}
    assert {*current.rows} == {"cuisine_1", "part_1"}


@pytest.mark.usefixtures("keys")
def test_a_table_whose_keys_cannot_be_read_either_is_left_out(
    conversation: Conversation, sessions: Sessions, call: Call, tables: Engine
) -> None:
    """It is not known then which of its rows are deleted."""
    read_all(call, "dishes", "cuisines")
    toolset = Toolset(MODELS, limits=Limits(seconds=0.2))
    context = Context(conversation, toolset=toolset, sessions=sessions)
    with Session(tables) as plain:
        plain.execute(delete(Part))
        plain.execute(text("LOCK TABLE dishes IN ACCESS EXCLUSIVE MODE"))
        assert {*status_of(context).items()} == {
            ("Thai", "read"),
            *((name, "could not be read") for name in ("Curry", "Korma", "Soup")),
        }


class Raising(Hooks):
    """Raises an error when it sees rows."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
        """Raise it."""
        if self._kind == "lost":
            read.session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        elif self._kind == "ref":
            read.session.get(Dish, "dish_99")
        raise ValueError("a mistake")


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("kind", "error"), [("lost", OperationalError), ("ref", BadRefError), ("bug", ValueError)]
)
def test_an_error_that_is_no_fault_of_a_row_is_raised(
    conversation: Conversation, sessions: Sessions, call: Call, kind: str, error: Any
) -> None:
    """A lost connection, and mistakes of hooks."""
    read_all(call, "dishes")
    toolset = Toolset(MODELS, hooks={Dish: [Raising(kind)]})
    with pytest.raises(error):
        Context(conversation, toolset=toolset, sessions=sessions).render("act")


@pytest.mark.asyncio
async def test_asynchronous_sessions_read_on_after_a_failure(
    async_engine: AsyncEngine, chat: Conversation, toolset: Toolset
) -> None:
    """With each driver."""
    sessions = async_sessionmaker(async_engine, class_=AsyncRefSession)
    async with sessions(conversation=chat, by="model") as session:
        for table, name in (("dishes", "Soup"), ("cuisines", "Thai")):
            made = {"table": table, "data": {"name": name}}
            assert "error" not in await toolset.call_async(session, "db_create", made)
    async with async_engine.begin() as connection:
        await connection.execute(text(CORRUPT))
    context = Context(chat, toolset=toolset, sessions=sessions)
    view = await context.aio.view()
    status = {row.name: row.status for row in view.active}
    assert status == {"Soup": "could not be read", "Thai": "created"}


@pytest.mark.parametrize(("column", "value"), UNREADABLE)
def test_sqlite_reads_on_after_a_failure(column: str, value: str) -> None:
    """For each way in which a type fails."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Shelf.metadata.create_all(engine)
    with Session(engine) as plain, plain.begin():
        plain.add_all([Shelf(name="a"), Shelf(name="b")])
    desk = Toolset([Shelf]).bind(
        sessionmaker(engine, class_=RefSession), registry=RefRegistry(store=MemoryStore())
    )
    asked = {"table": "unreadable_shelves", "columns": ["name", column]}
    assert "error" not in desk.call("c", None, "db_read", asked).value
    store(engine, column, value)
    view = desk.context("c").view()
    assert {row.status for row in view.active} == {"could not be read"}
    engine.dispose()
