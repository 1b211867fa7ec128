"""Traces of tool calls for OpenTelemetry.

    from alfred_refs.integrations.opentelemetry import trace_calls

    trace_calls(registry)  # or RefRegistry, for all registries

Each tool call is a span that is open while the call runs. Spans of its statements, for example
from `opentelemetry-instrumentation-sqlalchemy`, are inside it:

    execute_tool db_update        table=orders, user=bob, rows=1
      SELECT orders
      UPDATE orders

Names and attributes follow the semantic conventions for generative AI, with two additions:

| attribute | value |
| --- | --- |
| `gen_ai.operation.name` | `execute_tool` |
| `gen_ai.tool.name` | the tool; the span is named by it, too |
| `gen_ai.tool.call.id` | the framework's id of the call |
| `gen_ai.conversation.id` | the id of the conversation |
| `db.collection.name` | the table, if the arguments name one that the model may use |
| `user.id` | the acting user |
| `error.type` | the code of the error in the answer, or the class of an exception |
| `alfred_refs.turn` | the turn, if it is known without a round trip |
| `alfred_refs.rows` | the number of rows of the answer |

Unknown values are left out. An exception has the status `ERROR`; a refused call does not, because
the model can correct it.

>>> trace_calls(registry)
>>> desk.call("chat-7", None, "db_read", {"table": "recipes"}).failed
False

Limits: spans do not contain arguments, answers or keys. Without an SDK of OpenTelemetry nothing is
traced. Metrics are in `docs/telemetry.md`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from alfred_refs.integrations.adapters import require

require("opentelemetry-api", "1.30", extra="opentelemetry")

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
from sqlalchemy import event

from alfred_refs.conversation import RefRegistry
from alfred_refs.store.telemetry import StartedCall, ToolCall

__all__ = ["trace_calls"]

_Open = tuple[tuple[Span, Token[Context]], ...]

_open: ContextVar[_Open] = ContextVar("alfred_refs_spans", default=())


def trace_calls(
    registry: RefRegistry | type[RefRegistry], tracer_provider: TracerProvider | None = None
) -> None:
    """Trace the tool calls of a registry from now on. Call it once.

    Args:
        registry: the registry of the calls; the class `RefRegistry` for all registries.
        tracer_provider: makes the spans; by default the global one.

    Example:
        >>> trace_calls(registry)
        >>> desk.call("chat-7", None, "db_read", {"table": "lines"}).failed
        False
    """
    tracer = trace.get_tracer("alfred_refs", tracer_provider=tracer_provider)

    def begin(call: StartedCall) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.conversation.id": call.conversation,
            "db.collection.name": call.table,
            "user.id": call.user,
            "alfred_refs.turn": call.turn,
        }
        span = tracer.start_span(
            f"execute_tool {call.tool or 'unknown'}",
            attributes={name: value for name, value in attributes.items() if value is not None},
        )
        token = context.attach(trace.set_span_in_context(span))
        _open.set((*_open.get(), (span, token)))

    def end(call: ToolCall) -> None:
        if not _open.get():  # the call began before tracing
            return
        *others, (span, token) = _open.get()
        _open.set(tuple(others))
        context.detach(token)
        if call.rows is not None:
            span.set_attribute("alfred_refs.rows", call.rows)
        problem = call.error or call.code
        if problem is not None:
            span.set_attribute("error.type", problem)
        if call.error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    event.listen(registry, "before_tool_call", begin)
    event.listen(registry, "tool_call", end)
