"""All of `Session` and what is round it, on a plain session and on one in a conversation.

Each way is tried on both, with the same rows. What comes of it must be the same: the value or the
exception, its class and its text, the warnings, what is seen on the way, and the statements with
their execution options. `OTHERWISE` has what cannot be the same, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import (
    AsyncAttrs,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)
from sqlalchemy.orm import (
    InstanceEvents,
    MapperEvents,
    ORMExecuteState,
    QueryEvents,
    Session,
    SessionEvents,
    scoped_session,
    sessionmaker,
)
from sqlalchemy.orm.events import AttributeEvents
from sqlalchemy.util import greenlet_spawn

from alfred_refs import AsyncRefSession, RefRegistry
from alfred_refs.store.memory import MemoryStore
from tests.ways import (  # noqa: F401  # they are noted as they are read
    awaited,
    events,
    instances,
    reading,
    sessions,
    writing,
)
from tests.ways.awaited import Awaiting, waited
from tests.ways.listed import AWAITED, TRIED, WAYS, surface
from tests.ways.mistakes import LEFT_OUT, MISTAKES
from tests.ways.otherwise import OTHERWISE
from tests.ways.world import A, B, Base, Way, World, fill, outcome

Made = Callable[[World], Any]
Different = dict[str, dict[str, tuple[Any, Any]]]


def world(engine: Any, name: str, *, active: bool, **kind: Any) -> World:
    """Return what a way is tried on, in a conversation that has shown what is there."""
    chat = RefRegistry(store=MemoryStore()).conversation(name)
    chat.refer_all("box", [A, B])
    return World(engine, chat, active, **kind)


def otherwise(plain: dict[str, Any], active: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what is not the same; of what is sent, what either does not send."""
    found = {what: (plain[what], active[what]) for what in plain if plain[what] != active[what]}
    if "sent" in found:
        one, other = found["sent"]
        found["sent"] = [x for x in one if x not in other], [x for x in other if x not in one]
    return found


def compared(
    ways: dict[str, Way], rows: Engine, engine: Any, made: Made, **kind: Any
) -> Different:
    """Try ways on both kinds of session, and return what is not the same."""
    different = {}
    for name, way in ways.items():
        outcomes: list[dict[str, Any]] = []
        for active in (True, False):  # so that what the active one shows has refs for the other
            fill(rows)
            on = world(engine, name, active=active, **kind)
            outcomes.insert(0, asdict(outcome(on, made(on), way)))
        if found := otherwise(*outcomes):
            different[name] = found
    return different


@pytest.fixture
def rows(tables: Engine) -> Engine:
    """The engine, with the tables of the ways."""
    Base.metadata.create_all(tables)
    return tables


def expected(ways: dict[str, Way], driver: str = "psycopg") -> Different:
    """Return what is to be otherwise of some ways."""
    some = [each for each in OTHERWISE if each.way in ways and driver in each.drivers]
    return {each.way: each.what for each in some}


@pytest.mark.slow
def test_a_session_has_the_ways_of_a_plain_one(rows: Engine) -> None:
    """Outcomes differ as `OTHERWISE` says, and nowhere else."""
    assert compared(WAYS, rows, rows, lambda w: w.made()) == expected(WAYS)


@pytest.mark.slow
def test_a_session_takes_mistakes_as_a_plain_one(rows: Engine) -> None:
    """Classes and texts of errors, to the letter but for values that the database repeats."""
    different = compared(MISTAKES, rows, rows, lambda w: w.made())
    plain, active = different.pop("after a failed flush")["said"]

    assert plain.replace(*LEFT_OUT) == active
    assert different == {}


@pytest.mark.slow
def test_a_scoped_session_has_the_ways_of_a_plain_one(rows: Engine) -> None:
    """The same ways, by way of the registry of the scope."""

    def scope(w: World) -> Any:
        return scoped_session(w.maker())

    ways = {name: each for name, each in WAYS.items() if not name.endswith("listened to")}
    assert compared(ways, rows, rows, scope) == expected(ways)


@pytest.mark.slow
async def test_an_asynchronous_session_has_the_ways_of_a_plain_one(
    rows: Engine, async_engine: AsyncEngine
) -> None:
    """The same ways as far as it has them, and its own, with each driver."""
    ways = WAYS | {name: waited(each) for name, each in AWAITED.items()}
    kind = {
        "kinds": (AsyncSession, AsyncRefSession),
        "maker_of": async_sessionmaker,
        "wrap": Awaiting,
    }

    def made(w: World) -> Any:
        return w.made()

    found = await greenlet_spawn(lambda: compared(ways, rows, async_engine, made, **kind))

    assert found == expected(ways, async_engine.driver)


_ROUND = [Session, sessionmaker, AsyncSession, async_sessionmaker, AsyncAttrs]
_EVENTS = [SessionEvents, MapperEvents, InstanceEvents, AttributeEvents, QueryEvents]


def test_all_that_sqlalchemy_has_is_tried() -> None:
    """Each public method, parameter and attribute of sessions, and each event, of this series."""
    every = {name for class_ in _ROUND for name in surface(class_)}
    every |= {f"{e.__name__}.{name}" for e in _EVENTS for name in events.events_of(e)}
    every |= {each for each in surface(ORMExecuteState) if "State(" not in each}
    alike = ["AsyncSession", "sessionmaker", "async_sessionmaker"]
    on_all = {f"{a}{each.removeprefix('Session')}" for a in alike for each in TRIED}

    assert every - TRIED - on_all == set()


@pytest.mark.slow
def test_all_events_are_told_of(rows: Engine) -> None:
    """Every event is heard by some way: a listener that is never called compares nothing."""
    told = set()
    for name in (each for each in WAYS if each.endswith(("listened to", "made meanwhile"))):
        fill(rows)
        on = world(rows, name, active=False)
        assert outcome(on, on.made(), WAYS[name]).error == ""
        told |= {seen[0] for seen in on.log if isinstance(seen[0], str)}

    every = {name for class_ in _EVENTS for name in events.events_of(class_)}
    assert every - told == set()


def test_nothing_is_said_to_be_tried_that_sqlalchemy_has_not() -> None:
    """A misspelt name would hide that nothing tries the right one."""
    every = {name for class_ in _ROUND for name in surface(class_)}
    said = {
        each for each in TRIED if each.split(".")[0].split("(")[0] in ("Session", "AsyncSession")
    }

    assert said - every - {"Session.close_all()", *_OF_INSTANCES} == set()


def test_a_scope_has_what_a_session_has() -> None:
    """Of both kinds: the ways of sessions are tried on one, and its own beside them."""
    own = {
        *("scoped_session(session_factory)", "scoped_session(scopefunc)"),
        *("scoped_session.remove()", "scoped_session.query_property(query_cls)"),
        "scoped_session.configure()",
    }
    every = {
        each.replace("scoped_session", "Session") for each in set(surface(scoped_session)) - own
    }
    assert every - TRIED == set()

    own = {each.replace("scoped_", "async_scoped_") for each in own}
    every = set(surface(async_scoped_session)) - own
    known = {f"Async{each}" for each in TRIED} | TRIED
    assert {
        each.replace("async_scoped_session", "AsyncSession") for each in every
    } - known == set()


_OF_INSTANCES = {
    # as the instance has them, or the class when there is none
    *("Session.autoflush", "Session.enable_baked_queries", "Session.identity_map"),
    *("Session.join_transaction_mode", "Session.merge_all(instances)"),
    *("Session.bind", "Session.binds", "AsyncSession.bind", "AsyncSession.binds"),
}
