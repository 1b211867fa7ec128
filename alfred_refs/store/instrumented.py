"""A store in front of any other, which counts its round trips.

Each call is handed on as it is, and so is its answer or error; the registry's telemetry is told
how long it took and what it was about. A call is a round trip by the promise of `Store`; what
comes page by page, and what operators ask, is not counted.

```python
store = ObservedStore(MemoryStore(), telemetry)
store.refer(address, [("recipe", 1)])  # telemetry.counts.round_trips is 1, and so is minted
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import wraps
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from .protocol import Store
from .telemetry import Telemetry

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


def _counted(
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
            self._telemetry.travelled(name, conversation, about, began=began, error=error)
            raise
        new = minted(answer)
        self._telemetry.travelled(name, conversation, about, began=began, minted=new)
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

    refer = _counted(
        Store.refer, _of_keys, minted=lambda entries: sum(entry.minted for entry in entries)
    )
    resolve = _counted(Store.resolve, _of_refs)
    refs_of = _counted(Store.refs_of)
    known = _counted(Store.known)
    labelled = _counted(Store.labelled)
    namesakes = _counted(Store.namesakes)
    entities = _counted(Store.entities)
    mark = _counted(Store.mark, _of_keys)
    label = _counted(Store.label, _of_keys)
    draft = _counted(Store.draft, _of_refs)
    values_there = _counted(Store.values_there)
    read_drafts = _counted(Store.read_drafts, _of_refs)
    edit_drafts = _counted(Store.edit_drafts, _of_edits)
    discard_drafts = _counted(Store.discard_drafts, _of_refs)
    reserve_keys = _counted(Store.reserve_keys, _of_refs)
    confirm_drafts = _counted(Store.confirm_drafts, _of_refs)
    note = _counted(Store.note)
    activity = _counted(Store.activity)
    retain = _counted(Store.retain, _of_refs)
    demote = _counted(Store.demote, _of_refs)
    drop = _counted(Store.drop, _of_refs)
    add_step = _counted(Store.add_step)
    steps = _counted(Store.steps)
    begin_turn = _counted(Store.begin_turn)
    turn = _counted(Store.turn)
    touch = _counted(Store.touch)
    fork = _counted(Store.fork)
    forget = _counted(Store.forget, log="conversation %r was forgotten")
    export = _counted(Store.export)
    restore = _counted(Store.restore, log="conversation %r was imported")

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
