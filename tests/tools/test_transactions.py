"""A call leaves the session's transaction as it found it, and keeps to its time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import methodcaller
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, delete, event, func, insert, select, text
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.orm import Session

from alfred_refs import AsyncRefSession, Conversation, RefRegistry, RefSession, SetupError
from alfred_refs.tools import Hooks, Limits, Reading, ToolError, Toolset, Writing
from tests.profiles import examples
from tests.tools.conftest import MODELS, by, save
from tests.tools.models import Cuisine, Dish, Part


def names(engine: Engine) -> list[str]:
    """Return the names of the dishes that another connection sees."""
    with Session(engine) as plain:
        return sorted(name or "" for name in plain.scalars(select(Dish.name)))


def timeout_of(session: RefSession) -> str:
    """Return how long a statement may take now."""
    return str(session.connection().exec_driver_sql("SHOW statement_timeout").scalar())


def new(name: str) -> dict[str, Any]:
    """Return the arguments that create a dish."""
    return {"table": "dishes", "data": {"name": name}}


@pytest.fixture
def doomed(session: RefSession, conversation: Conversation, tables: Engine) -> str:
    """The ref of a draft with a child that names a row which is gone by now."""
    save(tables, Cuisine(name="Thai"))
    [cuisine] = session.scalars(select(Cuisine)).all()
    part = {"note": "rice", "cuisine_id": cuisine.id}
    draft = conversation.draft(Dish, {"name": "Doomed", "parts": [part]}).ref
    session.close()
    with Session(tables) as plain:
        plain.execute(delete(Cuisine))
        plain.commit()
    return draft


@contextmanager
def none(_: RefSession) -> Iterator[None]:
    """Leave the session in no transaction."""
    yield


@contextmanager
def begun(session: RefSession) -> Iterator[None]:
    """Have a transaction of the application's."""
    with session.begin():
        yield


@contextmanager
def queried(session: RefSession) -> Iterator[None]:
    """Have a transaction that a query has begun."""
    session.scalars(select(Cuisine)).all()
    yield
    session.commit()


@contextmanager
def nested(session: RefSession) -> Iterator[None]:
    """Have a savepoint of the application's."""
    with session.begin(), session.begin_nested():
        yield


State = Callable[[RefSession], AbstractContextManager[None]]
STATES = [none, begun, queried, nested]


@pytest.mark.parametrize("state", STATES)
def test_a_refused_call_does_not_swallow_the_next_ones(
    session: RefSession, toolset: Toolset, tables: Engine, doomed: str, state: State
) -> None:
    """What is looked up to tell why leaves no transaction open, of which the next is a part."""
    with state(session):
        found = session.get_transaction(), session.get_nested_transaction()
        arguments = {"table": "dishes", "from_draft": doomed}
        refused = toolset.call(session, "db_create", arguments)
        assert refused["error"]["code"] == "missing_reference"
        assert (session.get_transaction(), session.get_nested_transaction()) == found
        assert toolset.call(session, "db_create", new("Soup"))["count"] == 1
        assert (session.get_transaction(), session.get_nested_transaction()) == found
    session.close()

    assert names(tables) == ["Soup"]


def test_sessions_that_begin_nothing_by_themselves_do_too(
    conversation: Conversation, tables: Engine, toolset: Toolset, doomed: str
) -> None:
    """With `autobegin=False` what is looked up has a transaction, too."""
    with RefSession(tables, conversation=conversation, autobegin=False) as session:
        arguments = {"table": "dishes", "from_draft": doomed}
        refused = toolset.call(session, "db_create", arguments)
        assert refused["error"]["code"] == "missing_reference"
        assert toolset.call(session, "db_create", new("Soup"))["count"] == 1

    assert names(tables) == ["Soup"]


async def test_asynchronous_calls_do_too(
    aio: AsyncRefSession, tables: Engine, toolset: Toolset, doomed: str
) -> None:
    """The next call is a transaction of its own."""
    arguments = {"table": "dishes", "from_draft": doomed}
    refused = await toolset.call_async(aio, "db_create", arguments)
    assert refused["error"]["code"] == "missing_reference"
    assert not aio.in_transaction()
    await toolset.call_async(aio, "db_create", new("Soup"))

    assert names(tables) == ["Soup"]


class Doing(Hooks):
    """Does something with the session, before or after what is written."""

    def __init__(self, when: str, act: Callable[[RefSession], object]) -> None:
        self.when, self.act = when, act

    def before_write(self, write: Writing) -> None:
        """Do it, if that is when."""
        if self.when == "before":
            self.act(write.session)

    def after_write(self, write: Writing, _: list[dict[str, Any]]) -> None:
        """Do it, if that is when."""
        if self.when == "after":
            self.act(write.session)


def fail(session: RefSession) -> None:
    """Send what PostgreSQL refuses, and go on as if that did not matter."""
    with suppress(DBAPIError):
        session.connection().exec_driver_sql("SELECT 1 / 0")


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", [none, begun])
def test_a_hook_may_not_end_the_transaction(
    session: RefSession, tables: Engine, how: str, when: str, state: State
) -> None:
    """The call would say that rows are there which are not, or could not be undone."""
    hook = Doing(when, methodcaller(how))
    toolset = Toolset(MODELS, hooks={Dish: [hook]}, expect="optional")
    with pytest.raises(SetupError, match="committed or rolled back inside"), state(session):
        toolset.call(session, "db_create", new("Soup"))

    assert not session.in_transaction()
    assert names(tables) == (["Soup"] if (how, when) == ("commit", "after") else [])


class Sleeping(Hooks):
    """Has a read take half a minute."""

    def before_read(self, read: Reading) -> None:
        """Add a condition that takes long."""
        read.conditions.append(func.pg_sleep(30).is_not(None))


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize("state", STATES)
def test_what_takes_too_long_is_stopped(session: RefSession, state: State) -> None:
    """The model is told, and the setting of the application's transaction is as it was."""
    toolset = Toolset(
        MODELS, hooks={Dish: [Sleeping()]}, limits=Limits(seconds=0.2), expect="optional"
    )

    @toolset.tool
    def sleep(session: RefSession) -> None:
        """Sleep for a second."""
        session.execute(select(func.pg_sleep(1)))

    with state(session):
        answers = [
            toolset.call(session, *call)
            for call in (("db_read", {"table": "dishes"}), ("sleep", {}))
        ]
        read = toolset.call(session, "db_read", {"table": "cuisines"})
        timeout = timeout_of(session)

    for answer in answers:
        assert answer["error"]["code"] == "too_slow"
        assert "longer than 0.2 seconds" in answer["error"]["message"]
    assert (read["count"], timeout) == (2, "0")


@pytest.mark.usefixtures("dishes")
def test_a_limit_below_a_millisecond_is_one(session: RefSession) -> None:
    """It is not rounded to 0, which is no limit to PostgreSQL."""

    class Slow(Hooks):
        def before_read(self, read: Reading) -> None:
            read.conditions.append(func.pg_sleep(0.2).is_not(None))

    toolset = Toolset(
        MODELS, hooks={Dish: [Slow()]}, limits=Limits(seconds=0.0001), expect="optional"
    )
    answer = toolset.call(session, "db_read", {"table": "dishes"})

    assert answer["error"]["code"] == "too_slow"


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize(("own", "expected"), [("50ms", "50ms"), ("1h", "2s"), ("0", "2s")])
def test_the_shorter_limit_counts(session: RefSession, own: str, expected: str) -> None:
    """The application's own stays, if it is shorter, and is there again after the call."""
    seen: list[Any] = []

    class Looking(Hooks):
        def before_read(self, read: Reading) -> None:
            if not read.nested:  # for the labels of dishes that dishes name
                seen.append(timeout_of(read.session))

    toolset = Toolset(
        MODELS, hooks={Dish: [Looking()]}, limits=Limits(seconds=2), expect="optional"
    )
    with session.begin():
        session.execute(text(f"SET LOCAL statement_timeout = '{own}'"))
        toolset.call(session, "db_read", {"table": "dishes"})
        seen.append(timeout_of(session))

    assert seen == [expected, own]


@pytest.mark.usefixtures("dishes")
def test_a_statement_that_somebody_else_stops_is_no_fault_of_the_models(
    session: RefSession,
) -> None:
    """It is raised: the model could do nothing about it."""

    class Stopping(Hooks):
        def before_read(self, read: Reading) -> None:
            read.session.execute(text("SET LOCAL statement_timeout = '20ms'"))
            read.conditions.append(func.pg_sleep(30).is_not(None))

    toolset = Toolset(MODELS, hooks={Dish: [Stopping()]}, expect="optional")

    with pytest.raises(DBAPIError):
        toolset.call(session, "db_read", {"table": "dishes"})
    assert not session.in_transaction()


KINDS = st.sampled_from(["right", "misnamed", "doubled", "unknown", "doomed", "part", "emptied"])


@pytest.mark.slow
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.tuples(st.lists(KINDS, min_size=2, max_size=8), st.sampled_from(STATES)))
def test_what_the_answers_told_is_what_is_there(
    tables: Engine,
    registry: RefRegistry,
    toolset: Toolset,
    doomed: str,
    case: tuple[list[str], State],
) -> None:
    """After any sequence of calls, refused and not, as another connection sees it."""
    with Session(tables) as plain:
        for model in (Part, Dish):
            plain.execute(delete(model))
        plain.commit()
    told: dict[str, str] = {}
    chat = registry.conversation("chat-7")
    with RefSession(tables, conversation=chat) as session, case[1](session):
        for place, kind in enumerate(case[0]):
            found = session.get_transaction(), session.get_nested_transaction()
            tool, arguments = call_of(kind, place, doomed, told)
            answer = toolset.call(session, tool, arguments)
            assert (session.get_transaction(), session.get_nested_transaction()) == found
            for row in answer.get("rows", []):
                told |= {row["id"]: row["name"]} if "name" in row else {}
            for ref in answer.get("deleted", []):
                del told[ref]

    assert names(tables) == sorted(told.values())


def call_of(
    kind: str, place: int, doomed: str, told: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return a call of a kind: most are refused, some only once they were sent."""
    last = next(iter(told), "dish_1")
    by_ref = by("id", last)
    same = [{"name": "One", "code": "c"}, {"name": "Two", "code": "c"}]
    rule = {"name": "None", "servings": 0}
    return {
        "right": ("db_create", new(f"Dish {place}")),
        "misnamed": ("db_create", {"table": "dishes", "data": {"nom": "Soup"}}),
        "doubled": ("db_create", {"table": "dishes", "data": same}),
        "unknown": ("db_update", {"table": "dishes", "filters": by_ref, "data": rule}),
        "doomed": ("db_create", {"table": "dishes", "from_draft": doomed}),
        "part": ("db_create", {"table": "parts", "data": {"dish_id": last, "note": "rice"}}),
        "emptied": ("db_delete", {"table": "dishes", "filters": by_ref}),
    }[kind]


BY_REF = {"filters": by("id", "dish_1")}
STATEMENTS: dict[str, tuple[int, dict[str, Any]]] = {
    # the first of each call sets the time limit; BEGIN and COMMIT are not among them
    "db_read": (3, {"columns": ["name", "cuisine_id"]}),
    "db_update": (4, {**BY_REF, "data": {"servings": 9}, "expect": "Soup"}),
    "db_create": (
        5,
        {"data": {"name": "Ragu", "parent_id": "dish_1", "_parent_id_label": "Soup"}},
    ),
    "db_delete": (7, {**BY_REF, "expect": "Soup"}),
}


@pytest.mark.parametrize("tool", STATEMENTS)
def test_a_call_sends_no_statement_twice(
    session: RefSession,
    conversation: Conversation,
    dishes: dict[str, uuid.UUID],
    sent: list[str],
    tool: str,
) -> None:
    """A write by ref locks the row, writes it and reads it back; the lock answers `expect`."""
    conversation.refer(Dish, dishes["Soup"])
    count, arguments = STATEMENTS[tool]
    answer = Toolset(MODELS).call(session, tool, {"table": "dishes", **arguments})

    assert ("error" in answer, len(sent)) == (False, count)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", [none, begun])
def test_what_has_failed_is_not_committed_as_if_it_had_not(
    session: RefSession, conversation: Conversation, tables: Engine, when: str, state: State
) -> None:
    """To commit it is to roll it back, and PostgreSQL says nothing; a draft would be lost."""
    draft = conversation.draft(Dish, {"name": "Soup"}).ref
    failing = Toolset(MODELS, hooks={Dish: [Doing(when, fail)]}, expect="optional")
    arguments = {"table": "dishes", "from_draft": draft}
    with pytest.raises(DBAPIError), state(session):
        failing.call(session, "db_create", arguments)
    session.rollback()

    assert names(tables) == []
    assert [each.state for each in conversation.drafts()] == ["pending"]
    assert Toolset(MODELS, expect="optional").call(session, "db_create", arguments)["count"] == 1
    assert names(tables) == ["Soup"]


async def test_what_has_failed_is_not_committed_by_a_driver_that_does_not_know_it(
    aio: AsyncRefSession, tables: Engine
) -> None:
    """Asyncpg does not know that its transaction is aborted: the server is asked."""
    failing = Toolset(MODELS, hooks={Dish: [Doing("after", fail)]}, expect="optional")
    with pytest.raises(DBAPIError):
        await failing.call_async(aio, "db_create", new("Soup"))

    assert names(tables) == []


def test_a_call_that_raised_leaves_nothing_to_be_saved(
    session: RefSession, toolset: Toolset, tables: Engine
) -> None:
    """A hook has caught the error of a flush: the row of the call would come with the next one."""

    class Swallowing(Hooks):
        def before_write(self, write: Writing) -> None:
            write.session.add(Dish(name="Bad", servings=-1))
            with suppress(DBAPIError):
                write.session.flush()

    with pytest.raises(InvalidRequestError):
        Toolset(MODELS, hooks={Dish: [Swallowing()]}, expect="optional").call(
            session, "db_create", new("Soup")
        )
    assert toolset.call(session, "db_create", new("Bread"))["count"] == 1
    session.commit()

    assert names(tables) == ["Bread"]


JOINING = ["conditional_savepoint", "rollback_only", "create_savepoint"]


@pytest.mark.parametrize("mode", JOINING)
def test_a_transaction_that_was_joined_outlives_a_refused_call(
    tables: Engine, conversation: Conversation, toolset: Toolset, mode: Any
) -> None:
    """A session on a connection that is in one: the application's rows are there, and its own."""
    with tables.connect() as connection, connection.begin() as outer:
        connection.execute(insert(Dish).values(name="Theirs"))
        with RefSession(
            connection, conversation=conversation, join_transaction_mode=mode
        ) as session:
            assert toolset.call(session, "db_create", new("Soup"))["count"] == 1
            bad = {"table": "dishes", "data": {"name": "Bad", "servings": 0}}
            assert toolset.call(session, "db_create", bad)["error"]["code"] == "check_failed"
            assert outer.is_active
            assert toolset.call(session, "db_create", new("Bread"))["count"] == 1
        assert names(tables) == []
        outer.commit()

    assert names(tables) == ["Bread", "Soup", "Theirs"]


def test_without_transactions_nothing_is_written(
    tables: Engine, conversation: Conversation, toolset: Toolset
) -> None:
    """In AUTOCOMMIT a call could be done by half; reading is all that it does there."""
    engine = tables.execution_options(isolation_level="AUTOCOMMIT")
    with RefSession(engine, conversation=conversation) as session:
        with pytest.raises(SetupError, match="AUTOCOMMIT"):
            toolset.call(session, "db_create", new("Soup"))
        assert toolset.call(session, "db_read", {"table": "dishes"})["count"] == 0

    assert names(tables) == []


# Refs of what was refused


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("state", STATES)
def test_rows_of_refused_calls_are_not_known(
    toolset: Toolset, session: RefSession, state: State, times: int
) -> None:
    """They were inserted, and undone as another table refused its row: they get no refs later."""
    alive: list[object] = []
    event.listen(session, "after_attach", lambda _, instance: alive.append(instance))
    with state(session):
        for number in range(times):
            also = [{"table": "dishes", "data": {"name": "Dal", "servings": -1}}]
            ghost = {"table": "cuisines", "data": {"name": f"Ghost {number}"}, "also": also}
            refused = toolset.call(session, "db_create", ghost)
            assert refused["error"]["code"] == "check_failed"
        real = {"table": "cuisines", "data": {"name": "Thai"}}
        [row] = toolset.call(session, "db_create", real)["rows"]
        wanted = {"table": "dishes", "data": {"name": "Dal", "cuisine_id": "Ghost 0"}}
        error = toolset.call(session, "db_create", wanted)["error"]

    assert alive
    assert (row["id"], error["known"]) == ("cuisine_1", ["cuisine_1"])
    assert "near" not in error


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("state", STATES)
def test_rows_that_a_hook_refuses_late_are_not_known(session: RefSession, state: State) -> None:
    """They were flushed, and are undone with the call: they get no refs with the next row."""
    alive: list[object] = []
    event.listen(session, "after_attach", lambda _, instance: alive.append(instance))

    class Refusing(Hooks):
        def before_write(self, write: Writing) -> None:
            write.session.add(Cuisine(name="Ghost"))
            write.session.flush()
            raise ToolError("locked", "these rows are locked; leave them")

    with state(session):
        refused = Toolset(MODELS, hooks={Dish: [Refusing()]}, expect="optional").call(
            session, "db_create", new("Soup")
        )
        real = {"table": "cuisines", "data": {"name": "Thai"}}
        [row] = Toolset(MODELS, expect="optional").call(session, "db_create", real)["rows"]

    assert alive
    assert (refused["error"]["code"], row["id"]) == ("locked", "cuisine_1")
