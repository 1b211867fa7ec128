"""Telemetry: events, counters, the instrumented store (public path).

What a registry does, for those who watch over it: counts, events and log lines.

The store's round trips and the refs that are refused come in; numbers, frozen events and lines of
the logger `alfred_refs` go out. No key is in any of them, at any level: not even as the text of a
ref that was refused. Nothing here takes part in the work: a listener that raises is logged and
counted, and the work goes on.

A store in front of any other, which counts its round trips.

Each call is handed on as it is, and so is its answer or error; the registry's telemetry is told
how long it took and what it was about. A call is a round trip by the promise of `Store`; what
comes page by page, and what operators ask, is not counted.

```python
store = ObservedStore(MemoryStore(), telemetry)
store.refer(address, [("recipe", 1)])  # telemetry.counts.round_trips is 1, and so is minted
```
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
from threading import get_ident
from time import perf_counter
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

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

__all__ = ["Counts", "Refusal", "RegistryEvents", "RoundTrip", "ToolCall"]


_B = TypeVar("_B", bound=BadRefError)

_log = logging.getLogger("alfred_refs")
_log.addHandler(logging.NullHandler())  # nothing is printed where logging is not configured

# bad refs -> the field of `Counts`, and the reason of a `Refusal`
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
    """How often something happened in this process since the registry was made.

    A forked process goes on from the counts of its parent.

    Attributes:
        minted: keys that were given their ref.
        resolved: refs that were used and became keys, met before or not.
        unknown: refs refused because they name nothing in their conversation.
        wrong_entity: refs refused because they name another kind of row.
        gone: refs refused because their row was deleted or never saved.
        draft: refs refused because they are a draft's.
        raw_key: keys given as text where a ref is needed.
        unknown_conversation: round trips refused because the conversation is another owner's.
        round_trips: calls of the store for conversations, those that failed included; lists of
            conversations and refs, which come page by page, are not among them.
        failures: those that ended in an error other than `UnknownConversationError`.
        seconds: what all round trips took together.
        listener_failures: times that a listener raised.
        calls: calls of tools, whatever came of them.
        refused_calls: those that a model was told a mistake of.
        failed_calls: those that ended in an exception.
        call_seconds: what all calls took together, their round trips included.

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
    """One call of the store, when it is over.

    Attributes:
        operation: the method of `Store` that was called, such as `"refer"` or `"resolve"`.
        conversation: the id of the conversation that it was about, `None` for none or many.
        refs: how many refs or keys were asked about, by entity.
        minted: how many of them are new.
        seconds: how long it took.
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
    """Something that was given and cannot be used.

    Attributes:
        reason: the field of `Counts` that counts it: `"unknown"`, `"wrong_entity"`, `"gone"`,
            `"draft"`, `"raw_key"` or `"unknown_conversation"`.
        conversation: the id of the conversation.
        ref: the ref as it was given; `None` where it may be a key.
        expected: the entity that was needed, if one was.

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
class ToolCall:
    """One call of a tool by a model, when it is over.

    Attributes:
        tool: what was called; `None` where there is no tool of that name.
        conversation: the id of the conversation.
        code: of the mistake that the model was told, `None` if there was none.
        seconds: how long it took.
        error: the name of the exception's class, `None` if there was none.

    Example:
        >>> from sqlalchemy import event
        >>> calls = []
        >>> event.listen(registry, "tool_call", calls.append)
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes"})
        >>> [(call.tool, call.conversation, call.code, call.error) for call in calls]
        [('db_read', 'chat-7', None, None)]
    """

    tool: str | None
    conversation: str
    code: str | None
    seconds: float
    error: str | None


class EventSource(event.EventTarget):
    """What can be listened to, one or all: a registry or `RefRegistry`."""

    dispatch: event.dispatcher[EventSource]


class RegistryEvents(event.Events[EventSource]):
    """What `event.listen(registry, name, listener)` and `event.listens_for` take as a name.

    Listeners run in the thread that does the work, after the round trip and outside of locks.
    They must be quick, and must not use the registry.

    Example:
        >>> from sqlalchemy import event
        >>> @event.listens_for(registry, "tool_call")
        ... def hear(call):
        ...     print(call.tool, call.code)
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "meals"})
        db_read unknown_table
    """

    _target_class_doc = "registry"
    _dispatch_target = EventSource

    def round_trip(self, trip: RoundTrip) -> None:
        """Hear that the store was called, whether or not it answered."""

    def refusal(self, refusal: Refusal) -> None:
        """Hear that a ref or a conversation was refused."""

    def tool_call(self, call: ToolCall) -> None:
        """Hear that a model called a tool, whether or not it was answered."""


class Telemetry:
    """Counts for one registry, and tells those who listen to it."""

    def __init__(self, dispatch: Any) -> None:
        self._dispatch = dispatch
        # thread -> its own counts: no two write to the same, so none waits for a lock, which a
        # forked process could find locked for ever
        self._by_thread: dict[int, dict[str, Any]] = {}

    @property
    def counts(self) -> Counts:
        """What all threads have counted so far."""
        of_threads = list(self._by_thread.values())
        return Counts(**{name: sum(own[name] for own in of_threads) for name in _NAMES})

    def count(self, name: str, by: float = 1) -> None:
        """Add to one of the counts."""
        own = self._by_thread.get(get_ident())
        if own is None:
            own = self._by_thread[get_ident()] = dict.fromkeys(_NAMES, 0)
        own[name] += by

    def log(self, message: str, *values: object) -> None:
        """Write down what was done to whole conversations."""
        _log.info(message, *values)

    def refused(self, conversation: str, error: _B) -> _B:
        """Note that a ref is refused, and return the error to be raised."""
        reason = next(_REASONS[cls] for cls in type(error).__mro__ if cls in _REASONS)
        if reason == "raw_key":
            _log.warning("a raw key was given where a ref is needed, in %r", conversation)
        else:
            _log.debug("a ref was refused in %r: %s", conversation, reason)
        self._refuse(Refusal(reason, conversation, error.ref, error.expected))
        return error

    def _refuse(self, refusal: Refusal) -> None:
        self.count(refusal.reason)
        self._tell("refusal", refusal)

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
        """Note that a round trip is over.

        Args:
            operation: the method of `Store` that was called.
            conversation: the id of the conversation that it was about.
            entities: gives the entity of each ref or key that was asked about; it is called where
                somebody listens.
            began: when, by `time.perf_counter()`.
            minted: how many of them are new.
            error: what was raised in place of an answer.
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
                *(operation, conversation, sum(refs.values()), minted),
                *(seconds * 1_000, failed or "done"),
            )
            trip = RoundTrip(operation, conversation, refs, minted, seconds, failed)
            self._tell("round_trip", trip)
        if isinstance(error, UnknownConversationError):
            _log.warning(
                "conversation %r was asked for by an owner who has none such", conversation
            )
            self._refuse(Refusal("unknown_conversation", conversation))
        elif error is not None:
            self.count("failures")

    @contextmanager
    def calling(self, tool: str | None, conversation: str) -> Iterator[Callable[[str], None]]:
        """Note a call of a tool, when it is over.

        Args:
            tool: what is called; `None` where there is no such tool.
            conversation: the id of the conversation.

        Yields:
            what is called with the code of a mistake, if the model is told one.
        """
        codes: list[str] = []
        began, failed = perf_counter(), None
        try:
            yield codes.append
        except BaseException as error:
            failed = type(error).__name__
            self.count("failed_calls")
            raise
        finally:
            seconds = perf_counter() - began
            self.count("calls")
            self.count("call_seconds", seconds)
            self.count("refused_calls", len(codes))
            if self._dispatch.tool_call:
                code = codes[0] if codes else None
                self._tell("tool_call", ToolCall(tool, conversation, code, seconds, failed))

    def _tell(self, name: str, happened: RoundTrip | Refusal | ToolCall) -> None:
        # a copy: another thread may begin to listen
        listeners: tuple[Callable[[Any], object], ...] = tuple(getattr(self._dispatch, name))
        for listener in listeners:
            try:
                listener(happened)
            except Exception as error:  # noqa: BLE001  # whatever it is, the work goes on
                self.count("listener_failures")
                # its text, and that of what the program was handling, may have keys
                raised = f"{type(error).__module__}.{type(error).__qualname__}"
                place = "".join(traceback.format_tb(error.__traceback__)).rstrip()
                message = "a listener to %r raised %s; the work goes on\n%s"
                _log.error(message, name, raised, place)


_NAMES = tuple(field.name for field in fields(Counts))


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _of_keys(keys: Iterable[tuple[str, Any]]) -> Iterable[str]:
    return (entity for entity, _ in keys)


def _of_refs(refs: Iterable[Any]) -> Iterable[str]:
    return (each.entity for each in refs)


def _of_edits(edits: Iterable[Any]) -> Iterable[str]:
    return (edit.ref.entity for edit in edits)


def _of_none(*_: object) -> Iterable[str]:
    return ()


def _counting_method(
    method: Callable[Concatenate[Store, _P], _T],
    entities: Callable[..., Iterable[str]] = _of_none,
    *,
    minted: Callable[[_T], int] = lambda _: 0,
    log: str | None = None,
) -> Callable[Concatenate[ObservedStore, _P], _T]:
    """Hand a method on, and tell of each call; its arguments come by position.

    Args:
        method: of a conversation, whose address is the first argument.
        entities: returns the entity of each key or ref in the second argument.
        minted: counts in the answer which of them are new.
        log: what to write down of the conversation once it is done.
    """
    name = method.__name__

    @wraps(method)
    def counted(self: ObservedStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        conversation = cast(Any, args[0]).id

        def about() -> Iterable[str]:
            return entities(*args[1:2])

        began = perf_counter()
        try:
            answer: _T = getattr(self._store, name)(*args, **kwargs)
        except BaseException as error:
            self._telemetry.record_round_trip(name, conversation, about, began=began, error=error)
            raise
        new = minted(answer)
        self._telemetry.record_round_trip(name, conversation, about, began=began, minted=new)
        if log is not None:
            self._telemetry.log(log, conversation)
        return answer

    return counted


def _handed_on(
    method: Callable[Concatenate[Store, _P], _T],
) -> Callable[Concatenate[ObservedStore, _P], _T]:
    """Hand a method on, and count nothing."""

    @wraps(method)
    def handed_on(self: ObservedStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        answer: _T = getattr(self._store, method.__name__)(*args, **kwargs)
        return answer

    return handed_on


class ObservedStore:
    """A `Store` in front of another."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    @property
    def is_async(self) -> bool:
        """See `Store.is_async`."""
        return self._store.is_async

    refer = _counting_method(
        Store.refer, _of_keys, minted=lambda entries: sum(entry.minted for entry in entries)
    )
    resolve = _counting_method(Store.resolve, _of_refs)
    refs_of = _counting_method(Store.refs_of)
    known = _counting_method(Store.known)
    labelled = _counting_method(Store.labelled)
    namesakes = _counting_method(Store.namesakes)
    entities = _counting_method(Store.entities)
    mark = _counting_method(Store.mark, _of_keys)
    label = _counting_method(Store.label, _of_keys)
    draft = _counting_method(Store.draft, _of_refs)
    values_there = _counting_method(Store.values_there)
    read_drafts = _counting_method(Store.read_drafts, _of_refs)
    edit_drafts = _counting_method(Store.edit_drafts, _of_edits)
    discard_drafts = _counting_method(Store.discard_drafts, _of_refs)
    reserve_keys = _counting_method(Store.reserve_keys, _of_refs)
    confirm_drafts = _counting_method(Store.confirm_drafts, _of_refs)
    note = _counting_method(Store.note)
    activity = _counting_method(Store.activity)
    retain = _counting_method(Store.retain, _of_refs)
    demote = _counting_method(Store.demote, _of_refs)
    drop = _counting_method(Store.drop, _of_refs)
    add_step = _counting_method(Store.add_step)
    steps = _counting_method(Store.steps)
    begin_turn = _counting_method(Store.begin_turn)
    turn = _counting_method(Store.turn)
    touch = _counting_method(Store.touch)
    fork = _counting_method(Store.fork)
    forget = _counting_method(Store.forget, log="conversation %r was forgotten")
    export = _counting_method(Store.export)
    restore = _counting_method(Store.restore, log="conversation %r was imported")

    erase = _handed_on(Store.erase)
    create_tables = _handed_on(Store.create_tables)
    drafts = _handed_on(Store.drafts)
    entries = _handed_on(Store.entries)
    describe = _handed_on(Store.describe)
    conversations = _handed_on(Store.conversations)
    count_conversations = _handed_on(Store.count_conversations)
    stats = _handed_on(Store.stats)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """Forget what is not used, and write down how much was, also if it was stopped."""
        forgotten = 0
        try:
            for number in self._store.prune(unused_for, batch):
                forgotten += number
                yield number
        finally:
            self._telemetry.log("%d unused conversations were forgotten", forgotten)
