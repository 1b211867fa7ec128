"""A bound toolset: a session for each call, in order where a model means that."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from alfred_refs import AsyncRefSession, Ownership, RefRegistry, RefSession, SetupError
from alfred_refs.errors import OwnershipError, UnknownConversationError
from alfred_refs.store.telemetry import ToolCall
from alfred_refs.tools import BoundToolset, Hooks, Toolset, Writing
from tests.fix_owned import World
from tests.owned import Line, Recipe as OwnedRecipe
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish

SOUP = {"table": "dishes", "filters": [{"field": "name", "op": "=", "value": "Soup"}]}


@pytest.fixture
def registry(tables: Engine) -> RefRegistry:
    """A registry in the database of the dishes."""
    registry = RefRegistry(tables)
    registry.create_tables()
    return registry


@pytest.fixture
def desk(toolset: Toolset, registry: RefRegistry, tables: Engine) -> BoundToolset:
    """The toolset, bound."""
    return toolset.bind(sessionmaker(tables, class_=RefSession), registry=registry)


@pytest.fixture
def aio_desk(toolset: Toolset, registry: RefRegistry, async_engine: AsyncEngine) -> BoundToolset:
    """The toolset, bound to asynchronous sessions."""
    sessions = async_sessionmaker(async_engine, class_=AsyncRefSession)
    return toolset.bind(sessions, registry=registry)


@pytest.mark.usefixtures("dishes")
def test_a_call_is_answered_as_value_and_text(desk: BoundToolset) -> None:
    """The same JSON, with letters as they are; and whether it failed."""
    created = desk.call("chat-7", None, "db_create", {"table": "cuisines", "data": {"name": "Öl"}})
    assert created.value["rows"] == [{"id": "cuisine_1", "name": "Öl"}]
    assert created.text == '{"table":"cuisines","rows":[{"id":"cuisine_1","name":"Öl"}],"count":1}'
    assert not created.failed
    again = desk.call("chat-7", None, "db_read", {"table": "cuisines", "order_by": "name"})
    assert [row["id"] for row in again.value["rows"]][-1] == "cuisine_1"
    refused = desk.call("chat-7", None, "db_read", {"table": "nope"})
    assert refused.failed
    assert refused.value["error"]["code"] == "unknown_table"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"table": "dishes"}', None),
        (b'{"table": "dishes"}', None),
        (None, "invalid_arguments"),
        ([], "invalid_arguments"),
        ("table: dishes", "invalid_arguments"),
        ("", "invalid_arguments"),
        (7, "invalid_arguments"),
    ],
)
def test_arguments_come_as_clients_give_them(
    desk: BoundToolset, arguments: Any, code: str | None
) -> None:
    """Text, bytes, nothing: what is no object of JSON is told."""
    answer = desk.call("chat-7", None, "db_read", arguments).value
    assert answer.get("error", {}).get("code") == code


def test_an_unknown_tool_is_told(desk: BoundToolset) -> None:
    """With the names of those that there are."""
    error = desk.call("chat-7", None, "db_drop", {}).value["error"]
    assert (error["code"], error["tool"]) == ("unknown_tool", "db_drop")
    listed = [each["function"]["name"] for each in desk.schemas("openai")]
    assert error["tools"] == listed
    reading = Toolset([Cuisine], read_only=[Cuisine]).bind(desk.sessions, registry=desk.registry)
    error = reading.call("chat-7", None, "db_drop", {}).value["error"]
    assert error["message"] == "there is no tool 'db_drop'; use one of 'db_read'"


@pytest.mark.usefixtures("dishes")
def test_parallel_calls_have_sessions_of_their_own(desk: BoundToolset) -> None:
    """Twenty threads see the same refs for the same rows."""
    with ThreadPoolExecutor(8) as pool:
        given = ("chat-7", None, "db_read", {"table": "dishes"})
        asked = [pool.submit(desk.call, *given) for _ in range(20)]
        answers = [each.result().value["rows"] for each in asked]
    names = [{row["id"]: row["name"] for row in rows} for rows in answers]
    assert len(names[0]) == 3
    assert names == [names[0]] * 20


class Slow(Hooks):
    """Writes that take their time, and note when they begin and end."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def before_write(self, write: Writing) -> None:
        """Begin."""
        name = write.records[0]["name"]
        self.noted.append(f"begin {name}")
        threading.Event().wait(0.02)
        self.noted.append(f"end {name}")


def create(name: str) -> dict[str, Any]:
    """The arguments of a new dish."""
    return {"table": "dishes", "data": {"name": name}}


def test_writes_of_a_conversation_follow_each_other(registry: RefRegistry, tables: Engine) -> None:
    """One ends before the next begins, while those of another conversation go on."""
    slow = Slow()
    toolset = Toolset(MODELS, hooks={Dish: [slow]})
    desk = toolset.bind(sessionmaker(tables, class_=RefSession), registry=registry)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: desk.call("chat-7", None, "db_create", create(str(n))), range(4)))
    pairs = list(zip(slow.noted[::2], slow.noted[1::2], strict=True))
    assert sorted(pairs) == [(f"begin {n}", f"end {n}") for n in range(4)]


async def test_tasks_write_in_the_order_of_their_calls(
    registry: RefRegistry, tables: Engine, async_engine: AsyncEngine
) -> None:
    """First come, first served: with sessions in threads, and with asynchronous ones."""
    for sessions in (
        sessionmaker(tables, class_=RefSession),
        async_sessionmaker(async_engine, class_=AsyncRefSession),
    ):
        slow = Slow()
        desk = Toolset(MODELS, hooks={Dish: [slow]}).bind(sessions, registry=registry)
        called = [desk.call_async("chat-7", None, "db_create", create(str(n))) for n in range(5)]
        answers = await asyncio.gather(*called)
        assert slow.noted == [f"{word} {n}" for n in range(5) for word in ("begin", "end")]
        assert [each.value["rows"][0]["name"] for each in answers] == list("01234")


@pytest.mark.slow
@pytest.mark.usefixtures("dishes")
async def test_asynchronous_sessions_answer_the_same(
    desk: BoundToolset, aio_desk: BoundToolset
) -> None:
    """To the letter; side by side too."""
    asked = {"table": "dishes", "order_by": "name", "columns": ["name", "parts", "cuisine"]}
    there = desk.call("chat-7", None, "db_read", asked)
    here = await aio_desk.call_async("chat-7", None, "db_read", asked)
    thread = await desk.call_async("chat-7", None, "db_read", asked)
    assert here.text == there.text == thread.text
    assert (desk.is_async, aio_desk.is_async) == (False, True)
    calls = [aio_desk.call_async("chat-7", None, "db_read", asked) for _ in range(20)]
    assert {each.text for each in await asyncio.gather(*calls)} == {here.text}


async def test_asynchronous_sessions_are_awaited(aio_desk: BoundToolset) -> None:
    """A plain call says so."""
    with pytest.raises(SetupError, match="await call_async"):
        aio_desk.call("chat-7", None, "db_read", {"table": "dishes"})


@pytest.mark.slow
async def test_a_cancelled_call_is_rolled_back_where_it_is_awaited(
    registry: RefRegistry, tables: Engine, async_engine: AsyncEngine
) -> None:
    """In a thread it goes on, and is committed."""
    begun, let_go = threading.Event(), threading.Event()

    class Waiting(Hooks):
        def before_write(self, write: Writing) -> None:
            begun.set()
            is_plain = isinstance(write.session.get_bind(), Engine)
            if is_plain and not write.session.mint_when_fetched:
                let_go.wait(5)
            else:
                write.session.execute(text("SELECT pg_sleep(1)"))

    tools = Toolset(MODELS, hooks={Dish: [Waiting()]})
    written = []
    for sessions in (
        sessionmaker(tables, class_=RefSession),
        async_sessionmaker(async_engine, class_=AsyncRefSession),
    ):
        begun.clear()
        desk = tools.bind(sessions, registry=registry)
        task = asyncio.create_task(desk.call_async("chat-7", None, "db_create", create("late")))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go.set()
        await desk.call_async("chat-7", None, "db_delete", SOUP)  # waits for its turn
        with Session(tables) as plain:
            written.append(plain.scalar(select(func.count()).select_from(Dish)))
    assert written == [1, 1]


def test_a_call_that_was_undone_is_made_again(desk: BoundToolset, tables: Engine) -> None:
    """Once: a deadlock and a serialization failure are nobody's fault."""
    states = iter(["40P01", "", "40001", "40001"])
    tried: list[str] = []

    def undo(connection: Any, _: Any, statement: str, *__: Any) -> None:
        if statement.startswith("INSERT INTO dishes"):
            tried.append(statement)
            if state := next(states):
                connection.exec_driver_sql(
                    f"DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '{state}'; END $$"
                )

    event.listen(tables, "before_cursor_execute", undo)
    try:
        answer = desk.call("chat-7", None, "db_create", create("again"))
        assert not answer.failed
        assert len(tried) == 2
        with pytest.raises(OperationalError):
            desk.call("chat-7", None, "db_create", create("never"))
    finally:
        event.remove(tables, "before_cursor_execute", undo)
    with Session(tables) as plain:
        assert plain.scalars(select(Dish.name)).all() == ["again"]


def test_what_makes_no_sessions_is_refused(
    toolset: Toolset, registry: RefRegistry, tables: Engine
) -> None:
    """Each with what to give instead."""
    sessions = sessionmaker(tables, class_=RefSession)
    wrong: list[tuple[Any, str]] = [
        (None, "makes no RefSession"),
        (tables, "makes no RefSession"),
        (sessionmaker(tables), "makes no RefSession"),
        (async_sessionmaker(class_=AsyncSession), "makes no RefSession"),
        (RefSession, "makes no RefSession"),
        (sessions(), "each call needs its own"),
        (AsyncRefSession(), "each call needs its own"),
        (scoped_session(sessions), "scoped.session_factory"),
    ]
    for given, told in wrong:
        with pytest.raises(SetupError, match=told):
            toolset.bind(given, registry=registry)
    with pytest.raises(SetupError, match="registry=registry"):
        toolset.bind(sessions, registry=None)  # type: ignore[arg-type]


@pytest.fixture
def owned_desk(owned_engine: Engine, ownership: Ownership) -> BoundToolset:
    """A toolset of owners, bound."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    toolset = Toolset([OwnedRecipe, Line], owner=ownership)
    return toolset.bind(sessionmaker(owned_engine, class_=RefSession), registry=registry)


def test_each_call_is_for_one_owner(owned_desk: BoundToolset, world: World) -> None:
    """Who sees her own rows and shared ones, in conversations of her own."""
    asked = {"table": "recipes", "order_by": "name"}
    for who in ("ann", "bob"):
        rows = owned_desk.call(f"of {who}", world.users[who], "db_read", asked).value["rows"]
        assert {row["name"] for row in rows} == {who, "all"}
    with pytest.raises(UnknownConversationError):
        owned_desk.call("of ann", world.users["bob"], "db_read", asked)


def test_owner_and_ownership_go_together(
    owned_desk: BoundToolset, desk: BoundToolset, world: World
) -> None:
    """One without the other is a mistake of the application's, never a wider answer."""
    with pytest.raises(SetupError, match="owner is missing"):
        owned_desk.call("chat-7", None, "db_read", {"table": "recipes"})
    with pytest.raises(SetupError, match="owner was given"):
        desk.call("chat-7", world.users["ann"], "db_read", {"table": "dishes"})
    with pytest.raises(OwnershipError):
        owned_desk.call("chat-7", object(), "db_read", {"table": "recipes"})


def test_what_comes_from_elsewhere_is_covered(
    desk: BoundToolset, dishes: dict[str, uuid.UUID]
) -> None:
    """Rows that have a ref by it, others are masked."""
    desk.call("chat-7", None, "db_read", SOUP)
    found = {"hit": f"see {dishes['Soup']}", "other": str(dishes["Curry"])}
    assert desk.cover("chat-7", None, found) == {"hit": "see dish_1", "other": "<key>"}
    covered = asyncio.run(desk.cover_async("chat-7", None, found))
    assert covered == desk.cover("chat-7", None, found)
    assert desk.conversation("chat-7", None).resolve("dish_1") == dishes["Soup"]


@pytest.mark.usefixtures("dishes")
def test_what_a_model_does_is_kept_for_prompts(
    desk: BoundToolset, toolset: Toolset, registry: RefRegistry, tables: Engine
) -> None:
    """As the model's; or not, where nobody wants it."""
    desk.call("chat-7", None, "db_read", SOUP)
    kept = desk.conversation("chat-7", None).activity().entries
    assert [(str(each.ref), each.action) for each in kept] == [("dish_1", "read")]
    quiet = toolset.bind(sessionmaker(tables, class_=RefSession), registry=registry, by=None)
    quiet.call("chat-8", None, "db_read", SOUP)
    assert list(quiet.conversation("chat-8", None).activity().entries) == []


@pytest.fixture
def heard(registry: RefRegistry) -> Iterator[list[ToolCall]]:
    """What listeners hear of calls."""
    calls: list[ToolCall] = []
    hear = calls.append
    event.listen(registry, "tool_call", hear)
    yield calls
    event.remove(registry, "tool_call", hear)


@pytest.mark.usefixtures("dishes")
def test_calls_are_counted_and_heard(
    desk: BoundToolset, registry: RefRegistry, heard: list[ToolCall], tables: Engine
) -> None:
    """By tool, with the code of a mistake, and how long they took."""
    desk.call("chat-7", None, "db_read", SOUP)
    desk.call("chat-7", None, "db_read", {"table": "nope"})
    desk.call("chat-7", None, "rm -rf", {})
    with tables.begin() as connection:
        connection.execute(text("ALTER TABLE dishes RENAME TO gone"))
    with pytest.raises(Exception, match="dishes"):
        desk.call("chat-7", None, "db_read", SOUP)
    told = [(each.tool, each.conversation, each.code, each.error) for each in heard]
    assert told == [
        ("db_read", "chat-7", None, None),
        ("db_read", "chat-7", "unknown_table", None),
        (None, "chat-7", "unknown_tool", None),
        ("db_read", "chat-7", None, "ProgrammingError"),
    ]
    counts = registry.counts
    assert (counts.calls, counts.refused_calls, counts.failed_calls) == (4, 2, 1)
    assert counts.call_seconds >= sum(each.seconds for each in heard) > 0


@pytest.mark.usefixtures("dishes")
def test_refs_that_were_met_are_not_asked_for_again(
    desk: BoundToolset, registry: RefRegistry
) -> None:
    """From call to call, though each has a session of its own."""
    asked = {"table": "dishes"}
    quiet = desk.toolset.bind(desk.sessions, registry=registry, by=None)
    quiet.call("chat-7", None, "db_read", asked)
    before = registry.counts.round_trips
    quiet.call("chat-7", None, "db_read", asked)
    assert registry.counts.round_trips == before
