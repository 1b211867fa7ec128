"""The whole API of SQLAlchemy's sessions, on a plain session and on one in a conversation.

Each use runs on both, with the same rows. The value or the exception with its class and text, the
warnings, the log, and the statements with their execution options must be equal, but for
`DIFFERENCES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
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
    session as session_module,
    sessionmaker,
)
from sqlalchemy.orm.events import AttributeEvents
from sqlalchemy.util import greenlet_spawn

from alfred_refs import AsyncRefSession, RefRegistry
from alfred_refs.store.memory import MemoryStore
from tests.session_api import (  # noqa: F401  # importing a module registers its uses
    asynchronous,
    events,
    instances,
    sessions,
    statements,
)
from tests.session_api.asynchronous import Blocking, blocking
from tests.session_api.differences import DIFFERENCES
from tests.session_api.mistakes import MISTAKES, REDACTED
from tests.session_api.world import (
    ASYNC_USES,
    COVERED,
    USES,
    A,
    B,
    Base,
    Use,
    World,
    fill,
    outcome,
    surface,
)

# a scoped session, and an asynchronous one on its second driver, pass on all uses in one way
SOME = dict(islice(USES.items(), 0, None, 5))

Made = Callable[[World], Any]
Different = dict[str, dict[str, tuple[Any, Any]]]


def world(engine: Any, name: str, *, active: bool, **kind: Any) -> World:
    """Return a world with a conversation in which both boxes have refs."""
    chat = RefRegistry(store=MemoryStore()).conversation(name)
    chat.refer_all("box", [A, B])
    return World(engine, chat, active, **kind)


def differences(plain: dict[str, Any], active: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the parts of two outcomes that differ; of `sent`, the statements of only one."""
    found = {what: (plain[what], active[what]) for what in plain if plain[what] != active[what]}
    if "sent" in found:
        one, other = found["sent"]
        found["sent"] = [x for x in one if x not in other], [x for x in other if x not in one]
    return found


def compared(
    uses: dict[str, Use], rows: Engine, engine: Any, made: Made, **kind: Any
) -> Different:
    """Run uses on both kinds of session, and return the differences."""
    different = {}
    for name, use in uses.items():
        outcomes: list[dict[str, Any]] = []
        for active in (
            True,
            False,
        ):  # first the active one, so that new keys have refs when the plain one is compared
            fill(rows)
            on = world(engine, name, active=active, **kind)
            outcomes.insert(0, asdict(outcome(on, made(on), use)))
        if found := differences(*outcomes):
            different[name] = found
    return different


@pytest.fixture
def rows(tables: Engine) -> Engine:
    """The engine, with the tables of the uses; `close_all_sessions()` closes no other test's."""
    vars(session_module)["_sessions"].clear()  # whose connections may be terminated
    Base.metadata.create_all(tables)
    return tables


def expected(uses: dict[str, Use], driver: str = "psycopg") -> Different:
    """Return the known differences of some uses."""
    some = [each for each in DIFFERENCES if each.use in uses and driver in each.drivers]
    return {each.use: each.what for each in some}


@pytest.mark.slow
def test_a_session_works_as_a_plain_one(rows: Engine) -> None:
    """Outcomes differ as listed in `DIFFERENCES`, and nowhere else."""
    assert compared(USES, rows, rows, lambda w: w.open()) == expected(USES)


@pytest.mark.once
@pytest.mark.slow
def test_mistakes_raise_as_on_a_plain_session(rows: Engine) -> None:
    """Classes and texts of errors are equal, but for the row that PostgreSQL quotes."""
    different = compared(MISTAKES, rows, rows, lambda w: w.open())
    plain, active = different.pop("after a failed flush")["value"]

    assert plain.replace(*REDACTED) == active
    assert different == {}


@pytest.mark.once
@pytest.mark.slow
def test_a_scoped_session_works_as_a_plain_one(rows: Engine) -> None:
    """Some of the uses, through a `scoped_session`."""

    def scope(w: World) -> Any:
        return scoped_session(w.maker())

    uses = {name: each for name, each in SOME.items() if not name.endswith("listened to")}
    assert compared(uses, rows, rows, scope) == expected(uses)


@pytest.mark.once
@pytest.mark.slow
async def test_an_asynchronous_session_works_as_a_plain_one(
    rows: Engine, async_engine: AsyncEngine
) -> None:
    """The same uses, some with psycopg, and those of `AsyncSession`, with each driver."""
    same = USES if async_engine.driver == "asyncpg" else SOME
    uses = same | {name: blocking(each) for name, each in ASYNC_USES.items()}
    kind = {
        "kinds": (AsyncSession, AsyncRefSession),
        "maker_of": async_sessionmaker,
        "wrap": Blocking,
    }

    def made(w: World) -> Any:
        return w.open()

    found = await greenlet_spawn(lambda: compared(uses, rows, async_engine, made, **kind))

    assert found == expected(uses, async_engine.driver)


_ROUND = [Session, sessionmaker, AsyncSession, async_sessionmaker, AsyncAttrs]
_EVENTS = [SessionEvents, MapperEvents, InstanceEvents, AttributeEvents, QueryEvents]


def test_the_whole_api_is_covered() -> None:
    """Each public method, parameter and attribute of sessions, and each event, of this series."""
    every = {name for class_ in _ROUND for name in surface(class_)}
    every |= {f"{e.__name__}.{name}" for e in _EVENTS for name in events.events_of(e)}
    every |= {each for each in surface(ORMExecuteState) if "State(" not in each}
    alike = ["AsyncSession", "sessionmaker", "async_sessionmaker"]
    on_all = {f"{a}{each.removeprefix('Session')}" for a in alike for each in COVERED}

    assert every - COVERED - on_all == set()


@pytest.mark.slow
def test_all_events_are_logged(rows: Engine) -> None:
    """Every event occurs in some use: a listener that is never called compares nothing."""
    logged = set()
    for name in (each for each in USES if each.endswith(("listened to", "made meanwhile"))):
        fill(rows)
        on = world(rows, name, active=False)
        assert outcome(on, on.open(), USES[name]).error == ""
        logged |= {seen[0] for seen in on.log if isinstance(seen[0], str)}

    every = {name for class_ in _EVENTS for name in events.events_of(class_)}
    assert every - logged == set()


def test_nothing_is_covered_that_does_not_exist() -> None:
    """A misspelt name would hide a gap."""
    every = {name for class_ in _ROUND for name in surface(class_)}
    named = {
        each for each in COVERED if each.split(".")[0].split("(")[0] in ("Session", "AsyncSession")
    }

    assert named - every - {"Session.close_all()", *_OF_INSTANCES} == set()


def test_a_scoped_session_has_no_api_of_its_own() -> None:
    """Of both kinds, beyond its own few methods, which are covered too."""
    own = {
        *("scoped_session(session_factory)", "scoped_session(scopefunc)"),
        *("scoped_session.remove()", "scoped_session.query_property(query_cls)"),
        "scoped_session.configure()",
    }
    every = {
        each.replace("scoped_session", "Session") for each in set(surface(scoped_session)) - own
    }
    assert every - COVERED == set()

    own = {each.replace("scoped_", "async_scoped_") for each in own}
    every = set(surface(async_scoped_session)) - own
    known = {f"Async{each}" for each in COVERED} | COVERED
    assert {
        each.replace("async_scoped_session", "AsyncSession") for each in every
    } - known == set()


_OF_INSTANCES = {
    # attributes of instances, or only of the class
    *("Session.autoflush", "Session.enable_baked_queries", "Session.identity_map"),
    *("Session.join_transaction_mode", "Session.merge_all(instances)"),
    *("Session.bind", "Session.binds", "AsyncSession.bind", "AsyncSession.binds"),
}
