"""A tracer of OpenTelemetry that keeps its spans, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Tracer, TracerProvider


class KeptSpan(NonRecordingSpan):
    """A span that keeps its attributes."""

    def __init__(
        self, name: str, attributes: Any, parent: trace.Span, on_end: Callable[[KeptSpan], None]
    ) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False))
        self._on_end = on_end
        self.name, self.attributes, self.parent = name, dict(attributes or {}), parent
        self.status: Any = None
        self.ended = False

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep it."""
        self.attributes[key] = value

    def set_status(self, status: Any, _: str | None = None) -> None:
        """Keep it."""
        self.status = status.status_code

    def end(self, _: int | None = None) -> None:
        """Note that it is over."""
        self.ended = True
        self._on_end(self)


class KeepingTracer(Tracer):
    """Makes spans, and keeps them."""

    def __init__(self, on_end: Callable[[KeptSpan], None]) -> None:
        self.spans: list[KeptSpan] = []
        self._on_end = on_end

    def start_span(self, name: str, context: Any = None, *_: Any, **more: Any) -> KeptSpan:
        """Make a span inside of the current one."""
        span = KeptSpan(
            name, more.get("attributes"), trace.get_current_span(context), self._on_end
        )
        self.spans.append(span)
        return span

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **more: Any) -> Iterator[KeptSpan]:  # type: ignore[override]
        """Make a span, and be in it."""
        span = self.start_span(name, *args, **more)
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield span
        finally:
            context.detach(token)


@dataclass
class Provider(TracerProvider):
    """Gives one tracer."""

    on_end: Callable[[KeptSpan], None] = lambda _: None
    tracer: KeepingTracer = field(init=False)

    def __post_init__(self) -> None:
        self.tracer = KeepingTracer(self.on_end)

    def get_tracer(self, *_: Any, **__: Any) -> KeepingTracer:
        """Give it."""
        return self.tracer
