"""Telemetry of a registry: counts, events and log lines (public path).

`ObservedStore` wraps the store of a registry and measures each call; `Telemetry` counts calls of
the store, refs that are refused, and calls of tools. `registry.counts` returns the sums, listeners
of `RegistryEvents` get the events, and the logger `alfred_refs` the lines:

>>> from sqlalchemy import event
>>> operations = []
>>> @event.listens_for(registry, "round_trip")
... def note(trip):
...     operations.append(trip.operation)
>>> before = registry.counts.round_trips
>>> chat.begin_turn()
1
>>> operations, registry.counts.round_trips - before
(['begin_turn'], 1)

Contents:

- `Counts`: sums of this process since the registry was made;
- `RoundTrip`, `Refusal`, `StartedCall` and `ToolCall`: the frozen values that listeners get;
- log lines: DEBUG for each round trip and refusal of a ref, INFO for calls that are refused and
  for conversations that are forgotten or imported, WARNING for raw keys and for conversations of
  other owners, ERROR for listeners that raise.

No key is in any of them, at any level, not even as the text of a ref that was refused.

Limits:

- A call of the store counts as one round trip, by the promise of `Store`. Methods that read page
  by page, and methods for operators, are not counted.
- A listener that raises is logged and counted, and the work continues.
- There are no timers or exporters: `alfred_refs.integrations.opentelemetry` traces calls, and
  `docs/telemetry.md` shows metrics.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import wraps
from inspect import isfunction
from operator import attrgetter, itemgetter
from threading import get_ident
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeVar, cast

from sqlalchemy import event

from alfred_refs.errors import (
    BadRefError,
    DraftRefError,
    GoneRefError,
    RawKeyError,
    UnknownConversationError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.store.protocol import Store
from alfred_refs.store.values import Address

__all__ = ["Counts", "Refusal", "RegistryEvents", "RoundTrip", "StartedCall", "ToolCall"]


_ErrorT = TypeVar("_ErrorT", bound=BadRefError)

_log = logging.getLogger("alfred_refs")
# without a handler, Python prints warnings to stderr where logging is not configured
_log.addHandler(logging.NullHandler())

# error -> the field of `Counts`, and the reason of a `Refusal`
_REASONS: Mapping[type[BadRefError], str] = MappingProxyType(
    {
        UnknownRefError: "unknown",
        WrongEntityError: "wrong_entity",
        GoneRefError: "gone",
        DraftRefError: "draft",
        RawKeyError: "raw_key",
    }
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of this process since the registry was made.

    A forked process continues the counts of its parent.

    Attributes:
        minted: keys that got a ref.
        resolved: refs that were resolved to keys, from the cache or from the store.
        unknown: refs refused because they name nothing in their conversation.
        wrong_entity: refs refused because they name another kind of row.
        gone: refs refused because their row was deleted or never saved.
        draft: refs refused because they are a draft's.
        raw_key: keys that were passed as text where a ref is required.
        unknown_conversation: round trips refused because the conversation is another owner's.
        round_trips: calls of the store for one conversation, including those that failed. Lists
            that are read page by page are not included.
        failures: round trips that raised an error other than `UnknownConversationError`.
        seconds: total duration of the round trips.
        listener_failures: how often a listener raised.
        calls: calls of tools, including those that failed.
        refused_calls: calls that returned an error to the model.
        failed_calls: calls that raised an exception.
        call_seconds: total duration of the calls, with their round trips.

    Example:
        >>> before = registry.counts
        >>> session.get(Recipe, "recipe_1").name
        'Soup'
        >>> registry.counts.resolved - before.resolved
        1
    """

    minted: int
    resolved: int
    unknown: int
    wrong_entity: int
    gone: int
    draft: int
    raw_key: int
    unknown_conversation: int
    round_trips: int
    failures: int
    seconds: float
    listener_failures: int
    calls: int
    refused_calls: int
    failed_calls: int
    call_seconds: float


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One finished call of the store.

    Attributes:
        operation: the method of `Store` that was called, such as `"refer"` or `"resolve"`.
        conversation: the id of the conversation, `None` for none or several.
        refs: how many refs or keys were passed, by entity.
        minted: how many of them are new.
        seconds: its duration.
        error: the name of the exception's class, `None` if there was none.

    Example:
        >>> from sqlalchemy import event
        >>> trips = []
        >>> event.listen(registry, "round_trip", trips.append)
        >>> chat.begin_turn()
        1
        >>> [(trip.operation, trip.conversation, trip.error) for trip in trips]
        [('begin_turn', 'chat-7', None)]
    """

    operation: str
    conversation: str | None
    refs: Mapping[str, int]
    minted: int
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A ref or a conversation that was refused.

    Attributes:
        reason: the field of `Counts` that counts it: `"unknown"`, `"wrong_entity"`, `"gone"`,
            `"draft"`, `"raw_key"` or `"unknown_conversation"`.
        conversation: the id of the conversation.
        ref: the ref as it was passed; `None` if it may be a key.
        expected: the entity that was required, if one was.

    Example:
        >>> from sqlalchemy import event
        >>> refusals = []
        >>> event.listen(registry, "refusal", refusals.append)
        >>> only = [{"field": "id", "op": "=", "value": "recipe_9"}]
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes", "filters": only})
        >>> refusals
        [Refusal(reason='unknown', conversation='chat-7', ref='recipe_9', expected='recipe')]
    """

    reason: str
    conversation: str
    ref: str | None = None
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call of a tool by a model, when it begins.

    Attributes:
        tool: its name; `None` for a name that no tool has.
        conversation: the id of the conversation.
        table: the model's table that its arguments name; `None` if they name none.
        user: who acts, as text; `None` if that is not known.
        call_id: the framework's id of the call; `None` if it gave none.
        turn: the turn of the conversation; `None` where it would have to be looked up.

    Example:
        >>> from sqlalchemy import event
        >>> calls = []
        >>> event.listen(registry, "before_tool_call", calls.append)
        >>> asked = {"table": "recipes"}
        >>> answer = desk.call("chat-7", None, "db_read", asked, user="bob", call_id="call_1")
        >>> [(call.table, call.user, call.call_id) for call in calls]
        [('recipes', 'bob', 'call_1')]
    """

    tool: str | None
    conversation: str
    table: str | None = None
    user: str | None = None
    call_id: str | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(StartedCall):
    """A call of a tool by a model that is finished.

    Attributes:
        code: of the error that was returned to the model, `None` if there was none.
        rows: how many rows the answer is about; `None` if it is about none.
        seconds: its duration.
        error: the name of the exception's class, `None` if there was none.

    Example:
        >>> from sqlalchemy import event
        >>> calls = []
        >>> event.listen(registry, "tool_call", calls.append)
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes"})
        >>> [(call.tool, call.conversation, call.code, call.rows) for call in calls]
        [('db_read', 'chat-7', None, 2)]
    """

    code: str | None
    rows: int | None
    seconds: float
    error: str | None


class EventSource(event.EventTarget):
    """Target of SQLAlchemy events: `event.listen` takes a registry, or `RefRegistry` for all."""

    dispatch: event.dispatcher[EventSource]


class RegistryEvents(event.Events[EventSource]):
    """The events of a registry, for `event.listen(registry, name, listener)`.

    Listeners run in the thread that does the work, after the round trip and outside locks.
    They must be quick, and must not use the registry.

    Example:
        >>> from sqlalchemy import event
        >>> @event.listens_for(registry, "tool_call")
        ... def show(call):
        ...     print(call.tool, call.code)
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "meals"})
        db_read unknown_table
    """

    _target_class_doc = "registry"
    _dispatch_target = EventSource

    def round_trip(self, trip: RoundTrip) -> None:
        """Receive each call of the store after it returned or raised.

        Args:
            trip: the call, with its duration.
        """

    def refusal(self, refusal: Refusal) -> None:
        """Receive each ref and each conversation that was refused.

        Args:
            refusal: the ref, and why it was refused.
        """

    def before_tool_call(self, call: StartedCall) -> None:
        """Receive each call of a tool by a model before it is executed, in the same context."""

    def tool_call(self, call: ToolCall) -> None:
        """Receive each call of a tool by a model after it returned or raised.

        Args:
            call: the call, with its duration.
        """


class Telemetry:
    """Counts, events and log lines of one registry."""

    def __init__(self, dispatch: Any) -> None:
        self._dispatch = dispatch
        # thread -> its counts. Each thread writes to its own, so that no lock is needed, which
        # would stay locked in a process that is forked meanwhile.
        self._by_thread: dict[int, dict[str, Any]] = {}

    @property
    def counts(self) -> Counts:
        """The sums over all threads."""
        by_thread = list(self._by_thread.values())
        return Counts(**{name: sum(own[name] for own in by_thread) for name in _NAMES})

    def count(self, name: str, by: float = 1) -> None:
        """Add to one of the counts."""
        own = self._by_thread.get(get_ident())
        if own is None:
            own = self._by_thread[get_ident()] = dict.fromkeys(_NAMES, 0)
        own[name] += by

    def record_refusal(self, conversation: str, error: _ErrorT) -> _ErrorT:
        """Record that a ref is refused, and return the error to raise."""
        reason = next(_REASONS[cls] for cls in type(error).__mro__ if cls in _REASONS)
        if reason == "raw_key":
            _log.warning("a raw key was given where a ref is needed, in %r", conversation)
        else:
            _log.debug("a ref was refused in %r: %s", conversation, reason)
        self._refuse(Refusal(reason, conversation, error.ref, error.expected))
        return error

    def _refuse(self, refusal: Refusal) -> None:
        self.count(refusal.reason)
        self._dispatch_event("refusal", refusal)

    def record_round_trip(
        self,
        operation: str,
        conversation: str,
        entities: Callable[[], Iterable[str]],
        *,
        began: float,
        minted: int = 0,
        error: BaseException | None = None,
    ) -> None:
        """Record a round trip.

        Args:
            operation: the method of `Store` that was called.
            conversation: the id of the conversation.
            entities: returns the entity of each ref or key; called only if there is a listener, or
                if DEBUG is logged.
            began: when it began, by `time.perf_counter()`.
            minted: how many refs are new.
            error: the exception that it raised.
        """
        seconds = perf_counter() - began
        self.count("round_trips")
        self.count("seconds", seconds)
        self.count("minted", minted)
        if self._dispatch.round_trip or _log.isEnabledFor(logging.DEBUG):
            failed = None if error is None else type(error).__name__
            refs = dict(Counter(entities()))
            _log.debug(
                "%s in %r: %d refs, %d new, %.1f ms, %s",
                operation,
                conversation,
                sum(refs.values()),
                minted,
                seconds * 1_000,
                failed or "done",
            )
            trip = RoundTrip(operation, conversation, refs, minted, seconds, failed)
            self._dispatch_event("round_trip", trip)
        if isinstance(error, UnknownConversationError):
            _log.warning("conversation %r was requested by another owner", conversation)
            self._refuse(Refusal("unknown_conversation", conversation))
        elif error is not None:
            self.count("failures")

    @property
    def has_call_listeners(self) -> bool:
        """Whether anybody listens to calls of tools."""
        return bool(self._dispatch.before_tool_call or self._dispatch.tool_call)

    @contextmanager
    def calling(self, call: StartedCall) -> Iterator[Callable[[str | None, int | None], None]]:
        """Record a call of a tool at the beginning and the end of the `with`.

        Yields:
            a function to call with the code of the error, if one is returned to the model, and the
            number of rows.
        """
        answered: list[tuple[str | None, int | None]] = []
        began, failed = perf_counter(), None
        if self._dispatch.before_tool_call:
            self._dispatch_event("before_tool_call", call)
        try:
            yield lambda code, rows: answered.append((code, rows))
        except BaseException as error:
            failed = type(error).__name__
            self.count("failed_calls")
            raise
        finally:
            seconds = perf_counter() - began
            code, rows = answered[-1] if answered else (None, None)
            self.count("calls")
            self.count("call_seconds", seconds)
            if code is not None:
                self.count("refused_calls")
                more = {"tool": call.tool, "conversation": call.conversation, "code": code}
                _log.info("a call of %s was refused: %s", call.tool, code, extra=more)
            if self._dispatch.tool_call:
                given = {name: getattr(call, name) for name in _STARTED}
                ended = ToolCall(**given, code=code, rows=rows, seconds=seconds, error=failed)
                self._dispatch_event("tool_call", ended)

    def _dispatch_event(self, name: str, value: RoundTrip | Refusal | StartedCall) -> None:
        # a copy, because another thread may add a listener meanwhile
        listeners: tuple[Callable[[Any], object], ...] = tuple(getattr(self._dispatch, name))
        for listener in listeners:
            try:
                listener(value)
            except Exception as error:  # noqa: BLE001  # a listener must not break the work
                self.count("listener_failures")
                # Without its message, which may contain keys, and without the chained exceptions.
                raised = f"{type(error).__module__}.{type(error).__qualname__}"
                place = "".join(traceback.format_tb(error.__traceback__)).rstrip()
                message = "a listener to %r raised %s; the work goes on\n%s"
                _log.error(message, name, raised, place)


_NAMES = tuple(field.name for field in fields(Counts))
_STARTED = tuple(field.name for field in fields(StartedCall))


# The store

# operation -> the entity of each item of its second argument
_ENTITY_OF: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        **dict.fromkeys(["refer", "mark", "label"], itemgetter(0)),
        **dict.fromkeys(
            [
                *("resolve", "draft", "read_drafts", "discard_drafts", "reserve_keys"),
                *("confirm_drafts", "retain", "demote", "drop"),
            ],
            attrgetter("entity"),
        ),
        "edit_drafts": attrgetter("ref.entity"),
    }
)

# operation -> the line that is logged once it is done
_LOG_LINES: Mapping[str, str] = MappingProxyType(
    {
        "forget": "conversation %r was forgotten",
        "restore": "conversation %r was imported",
    }
)

# Passed on without measuring: they read page by page, or are for operators.
_NOT_MEASURED = frozenset(
    [
        *("create_tables", "drafts", "entries", "erase", "describe", "conversations"),
        *("count_conversations", "stats", "waiting", "is_on", "expire_calls", "prune_changes"),
    ]
)


class ObservedStore:
    """A store in front of another one: passes on each call, and records it in the telemetry.

    It has the methods of `Store`, generated from the protocol, so that any store can be observed;
    `observe` returns it as a `Store`. Arguments are passed by position.
    """

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    @property
    def is_async(self) -> bool:
        """See `Store.is_async`."""
        return self._store.is_async

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """Forget unused conversations, and log how many, even if the iteration stops early."""
        forgotten = 0
        try:
            for number in self._store.prune(unused_for, batch):
                forgotten += number
                yield number
        finally:
            _log.info("%d unused conversations were forgotten", forgotten)


def _forwarding_method(name: str) -> Callable[..., Any]:
    """Return the method of `ObservedStore` that only calls the store's."""

    def forward(self: ObservedStore, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._store, name)(*args, **kwargs)

    return forward


def _measuring_method(name: str) -> Callable[..., Any]:
    """Return the method of `ObservedStore` that calls the store's and records the round trip."""
    entity_of = _ENTITY_OF.get(name)
    log_line = _LOG_LINES.get(name)

    def measure(self: ObservedStore, address: Address, *args: Any, **kwargs: Any) -> Any:
        def entities() -> Iterable[str]:
            return map(entity_of, args[0]) if entity_of and args else ()

        record = self._telemetry.record_round_trip
        began = perf_counter()
        try:
            result = getattr(self._store, name)(address, *args, **kwargs)
        except BaseException as error:
            record(name, address.id, entities, began=began, error=error)
            raise
        minted = sum(entry.minted for entry in result) if name == "refer" else 0
        record(name, address.id, entities, began=began, minted=minted)
        if log_line is not None:
            _log.info(log_line, address.id)
        return result

    return measure


for _name, _method in vars(Store).items():
    if isfunction(_method) and not _name.startswith("_") and _name not in vars(ObservedStore):
        _make = _forwarding_method if _name in _NOT_MEASURED else _measuring_method
        setattr(ObservedStore, _name, wraps(_method)(_make(_name)))


def observe(store: Store, telemetry: Telemetry) -> Store:
    """Return a store that passes each call on to another one and records it in the telemetry."""
    # mypy does not see the generated methods
    return cast(Store, ObservedStore(store, telemetry))
