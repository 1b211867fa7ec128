"""Spans of tool calls, with a tracer that keeps what it is given."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

import pytest
from mcp import Client
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.integrations.mcp import server_of
from alfred_refs.integrations.opentelemetry import trace_calls
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.tools import Hooks, Toolset
from tests.integrations.spans import KeepingTracer, KeptSpan, Provider
from tests.integrations.test_mcp_callers import named


class TraceBase(DeclarativeBase):
    """The base of the tables."""


class TracedNote(TraceBase):
    """A note."""

    __tablename__ = "traced_notes"
    __ref_label__ = "text"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    text: Mapped[str]


class Failing(Hooks):
    """Fails in the application's own code."""

    def before_write(self, _: Any) -> None:
        """Fail."""
        raise LookupError("the application's own")


@pytest.fixture
def notes(engine: Engine) -> RefRegistry:
    """A registry in a database with one note, whose calls are traced."""
    TraceBase.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(TracedNote(text="milk"))
    registry = RefRegistry(engine)
    registry.create_tables()
    return registry


@pytest.fixture
def tracer(notes: RefRegistry) -> KeepingTracer:
    """What the calls of the registry are traced with."""
    provider = Provider()
    trace_calls(notes, provider)
    return provider.tracer


READ = {"table": "traced_notes"}
RENAME = {
    "table": "traced_notes",
    "filters": [{"field": "id", "op": "=", "value": "traced_note_1"}],
    "data": {"text": "bread"},
}
OURS = {"gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": "chat-7"}


def test_statements_of_a_call_are_inside_its_span(
    engine: Engine, notes: RefRegistry, tracer: KeepingTracer, caplog: pytest.LogCaptureFixture
) -> None:
    """A span has what is known, no argument, and is over when the call is."""
    toolset = Toolset([TracedNote], expect="optional", consent={TracedNote: ["update"]})
    desk = toolset.bind(sessionmaker(engine, class_=RefSession), registry=notes)
    current = list[trace.Span]()
    event.listen(
        engine, "before_cursor_execute", lambda *_: current.append(trace.get_current_span())
    )
    desk.call("chat-7", None, "db_read", READ, begin_turn=True)
    assert current[-1] is tracer.spans[0]
    desk.call("chat-7", None, "db_update", RENAME, user="bob", call_id="call_1")
    desk.approve("chat-7", None, 1, by="ann")
    with caplog.at_level(logging.INFO, logger="alfred_refs"):
        desk.call("chat-7", None, "db_read", {"table": str(uuid.uuid4())})
    desk.call("chat-7", None, str(uuid.uuid4()), {})

    table = {"db.collection.name": "traced_notes"}
    who = {"user.id": "bob", "gen_ai.tool.call.id": "call_1"}
    assert [(span.name, span.attributes, span.status) for span in tracer.spans] == [
        (
            "execute_tool db_read",
            {
                **OURS,
                **table,
                "gen_ai.tool.name": "db_read",
                "alfred_refs.turn": 1,
                "alfred_refs.rows": 1,
            },
            None,
        ),
        (
            "execute_tool db_update",
            {**OURS, **table, **who, "gen_ai.tool.name": "db_update"},
            None,
        ),
        (
            "execute_tool db_update",
            {**OURS, **table, **who, "gen_ai.tool.name": "db_update", "alfred_refs.rows": 1},
            None,
        ),
        (
            "execute_tool db_read",
            {**OURS, "gen_ai.tool.name": "db_read", "error.type": "unknown_table"},
            None,
        ),
        ("execute_tool unknown", {**OURS, "error.type": "unknown_tool"}, None),
    ]
    assert all(span.ended and span.parent is trace.INVALID_SPAN for span in tracer.spans)
    assert trace.get_current_span() is trace.INVALID_SPAN
    [record] = caplog.records
    assert record.getMessage() == "a call of db_read was refused: unknown_table"
    assert record.__dict__["code"] == "unknown_table"


def test_an_exception_has_the_status_of_an_error(
    engine: Engine, notes: RefRegistry, tracer: KeepingTracer
) -> None:
    """It leaves the call, and its span is over."""
    toolset = Toolset([TracedNote], expect="optional", hooks={TracedNote: [Failing()]})
    desk = toolset.bind(sessionmaker(engine, class_=RefSession), registry=notes)
    with pytest.raises(LookupError):
        desk.call("chat-7", None, "db_create", {**READ, "data": {"text": "rice"}})
    [span] = tracer.spans
    assert (span.attributes["error.type"], span.status, span.ended) == (
        "LookupError",
        StatusCode.ERROR,
        True,
    )
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_concurrent_calls_have_spans_of_their_own(
    async_engine: AsyncEngine, notes: RefRegistry, tracer: KeepingTracer
) -> None:
    """Each is inside of the span of the task that awaits it."""
    desk = Toolset([TracedNote]).bind(
        async_sessionmaker(async_engine, class_=AsyncRefSession), registry=notes
    )

    async def ask(number: int) -> trace.Span:
        with tracer.start_as_current_span(f"agent {number}") as span:
            await desk.call_async(f"chat-{number}", None, "db_read", READ)
            assert trace.get_current_span() is span
            return span

    agents = await asyncio.gather(*map(ask, range(3)))
    calls = [span for span in tracer.spans if span.name == "execute_tool db_read"]
    assert {id(span.parent) for span in calls} == {id(agent) for agent in agents}


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_by_mcp_is_inside_the_span_of_its_request(
    engine: Engine,
    async_engine: AsyncEngine,
    notes: RefRegistry,
    tracer: KeepingTracer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_async: bool,
) -> None:
    """Its statements are inside of it, in a thread and awaited; it has user and conversation."""
    monkeypatch.setattr("mcp.shared._otel._tracer", tracer)
    sessions: Any = (
        async_sessionmaker(async_engine, class_=AsyncRefSession)
        if is_async
        else sessionmaker(engine, class_=RefSession)
    )
    used = async_engine.sync_engine if is_async else engine
    current = dict[str, trace.Span]()
    event.listen(
        used,
        "before_cursor_execute",
        lambda _c, _cursor, sql, *_: current.update({sql: trace.get_current_span()}),
    )
    server = server_of(Toolset([TracedNote]).bind(sessions, registry=notes), name="n", user="bob")
    async with Client(server) as client:
        await client.call_tool("db_read", READ, meta=named("chat-7"))

    [call] = [span for span in tracer.spans if span.name == "execute_tool db_read"]
    assert isinstance(call.parent, KeptSpan)
    assert (call.parent.name, call.parent.attributes["mcp.method.name"]) == (
        "tools/call db_read",
        "tools/call",
    )
    assert {name: call.attributes[name] for name in ("user.id", "gen_ai.conversation.id")} == {
        "user.id": "bob",
        "gen_ai.conversation.id": "chat-7",
    }
    selected = [span for sql, span in current.items() if "traced_notes" in sql]
    assert selected == [call]
    assert call.ended
