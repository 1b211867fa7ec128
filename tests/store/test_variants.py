"""Each driver, partitioned tables and an observed store: every method, as in memory."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, get_args

import pytest

from alfred_refs import RefError
from alfred_refs.mapping.keys import EntityKey, Ref
from alfred_refs.store import (
    Activity,
    Address,
    CallEntry,
    ChangeEntry,
    ConversationInfo,
    DraftEdit,
    DraftState,
    Exported,
    NewCall,
    NewDraft,
    RegistryStats,
    Store,
)
from alfred_refs.store.memory import MemoryStore
from tests.fix_store import Use
from tests.threads import failures

pytestmark = pytest.mark.tables

CHAT = Address("chat-7", "ann", {"recipe": "public.recipes"}.get)
MOVED = replace(CHAT, table_of={"recipe": "other.recipes"}.get)
TAKEN = Address("chat-7", "bob")
FORK, COPY = replace(CHAT, id="chat-8"), Address("chat-9")
SOUP, STEW = ("recipe", uuid.UUID(int=1)), ("recipe", uuid.UUID(int=2))
KEYS: list[EntityKey] = [
    *(SOUP, STEW, ("order", 7), ("order", -(2**62)), ("tag", "ключ"), ("tag", "")),
    ("line", (uuid.UUID(int=1), 7, "a")),
]
REFS = [Ref("recipe", 1), Ref("order", 2), Ref("line", 1), Ref("tag", 9)]
ONE, TWO, THREE, FOUR = (Ref("recipe", number, draft=True) for number in (1, 2, 3, 4))
CONTENT = '{"name": "Soup", "minutes": 1e22, "note": "\\ud83c"}'
ALL = get_args(DraftState)
PAST, FUTURE = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 2100))
ASKED = NewCall("db_delete", {"note": "\ud83c\0", "n": 1e22}, "waiting", "model", "ann", "call_1")
DONE = NewCall("undo", [], "done", "user", plan={}, token="t", answer=0, undoes=1, seconds=0.1)
CHANGED = [
    ChangeEntry(
        0, 2, "recipes", "recipe_1", None, "updated", {"id": "1"}, {"a": None}, {"a": "\0"}
    ),
    ChangeEntry(0, 1, "lines", None, "Soup", "created", {"a": "1", "b": "2"}, None, {"a": "1"}),
]

CALLS: list[Callable[[Store], object]] = [
    lambda store: store.create_tables(),
    lambda store: store.begin_turn(CHAT),
    # refs
    lambda store: store.refer(CHAT, KEYS, {SOUP: "Soup", STEW: "Soup"}),
    lambda store: store.refer(CHAT, [("recipe", uuid.UUID(int=3)), *reversed(KEYS)]),
    lambda store: store.refer(TAKEN, KEYS),
    lambda store: store.refer(MOVED, KEYS),
    lambda store: store.resolve(CHAT, REFS),
    lambda store: store.resolve(TAKEN, REFS),
    lambda store: store.resolve(MOVED, REFS),
    lambda store: store.refs_of(CHAT, [key for _, key in KEYS]),
    lambda store: store.known(CHAT, Ref("recipe", 2), 2),
    lambda store: store.labelled(CHAT, "recipe", 2),
    lambda store: store.namesakes(CHAT, [("recipe", "Soup")], 9),
    lambda store: store.mark(CHAT, [("order", 7), ("order", 8)], "was deleted"),
    lambda store: store.label(CHAT, {STEW: "'; drop (x"}),
    lambda store: store.entities(CHAT),
    lambda store: store.entries(CHAT),
    lambda store: store.entries(CHAT, "order"),
    lambda store: store.entries(CHAT, None, Ref("order", 1), 1),
    # drafts
    lambda store: store.draft(CHAT, [NewDraft("recipe", CONTENT, "Soup")] * 4),
    lambda store: store.draft(CHAT, [NewDraft("plan", "{}")], turn=7),
    lambda store: store.edit_drafts(CHAT, [DraftEdit(ONE, '{"a": 1}', "Dal", 1)]),
    lambda store: store.edit_drafts(CHAT, [DraftEdit(ONE, '{"a": 1}', "Dal", 1)]),
    lambda store: store.edit_drafts(CHAT, [DraftEdit(ONE, "{}", version=1), DraftEdit(TWO, "{}")]),
    lambda store: store.discard_drafts(CHAT, [TWO]),
    lambda store: store.reserve_keys(CHAT, {ONE: SOUP[1], TWO: 8, THREE: ("a", 7)}),
    lambda store: store.reserve_keys(CHAT, {FOUR: SOUP[1]}),
    lambda store: store.mark(CHAT, [SOUP], "was never saved"),
    lambda store: store.confirm_drafts(CHAT, [ONE, FOUR]),
    lambda store: store.mark(CHAT, [SOUP], "was never saved"),
    lambda store: store.read_drafts(CHAT, [ONE, TWO, THREE, Ref("recipe", 9, draft=True)]),
    lambda store: store.drafts(CHAT, None, ALL),
    lambda store: store.drafts(CHAT, "plan", ["pending"]),
    lambda store: store.drafts(CHAT, None, ALL, Ref("recipe", 2, draft=True)),
    # activity
    lambda store: store.note(CHAT, [Activity(SOUP, "read", ["b", "a"])], "model"),
    lambda store: store.note(CHAT, [Activity(SOUP, "read", [])], "model"),
    lambda store: store.note(CHAT, [Activity(("meal", 7), "created", label="Lunch")], "user", 1),
    lambda store: store.note(TAKEN, [Activity(SOUP, "read")], "model"),
    lambda store: store.retain(CHAT, [Ref("recipe", 1), Ref("tag", 1)], "liked", "user"),
    lambda store: store.demote(CHAT, [Ref("recipe", 1)]),
    lambda store: store.drop(CHAT, [Ref("meal", 1)]),
    lambda store: store.add_step(CHAT, CONTENT),
    lambda store: store.add_step(CHAT, "{}", turn=0),
    lambda store: store.steps(CHAT, 3),
    lambda store: store.activity(CHAT, 3),
    # calls
    lambda store: store.add_call(CHAT, ASKED, CHANGED),
    lambda store: store.add_call(CHAT, ASKED),
    lambda store: store.add_call(CHAT, DONE, turn=1),
    lambda store: store.add_call(CHAT, replace(DONE, state="doing"), CHANGED[1:]),
    lambda store: store.add_call(COPY, replace(ASKED, expires_in=timedelta())),
    lambda store: store.add_call(TAKEN, ASKED),
    lambda store: store.update_call(CHAT, 1, expected="waiting", plan={"a": [None]}),
    lambda store: store.update_call(
        *(CHAT, 3),
        expected="doing",
        changes=CHANGED[:1],
        state="done",
        answer={},
        seconds=1.0,
        turn=2,
        token=None,
    ),
    lambda store: store.update_call(CHAT, 3, expected="doing", state="rejected", reason="no"),
    lambda store: store.update_call(COPY, 1, expected="waiting", decided_by="eve"),
    lambda store: store.revert_call(CHAT, 1),
    lambda store: store.calls(CHAT),
    lambda store: store.calls(
        CHAT, numbers=[1, 2], call_id="call_1", turn=1, ref="recipe_1", states=["waiting"], limit=9
    ),
    lambda store: store.calls(CHAT, before=3, limit=1),
    lambda store: store.calls(COPY, states=["expired"]),
    lambda store: store.calls(TAKEN),
    lambda store: store.changes(CHAT, [3, 1]),
    lambda store: store.changes(CHAT, [3, 1], 1, 1),
    lambda store: store.waiting(),
    lambda store: store.waiting("bob", 3),
    lambda store: store.waiting(after=(PAST, CHAT.id, 1)),
    lambda store: store.forget(COPY),
    lambda store: store.add_call(CHAT, replace(ASKED, call_id="b", expires_in=timedelta())),
    lambda store: sum(store.expire_calls(1)),
    # turns and whole conversations
    lambda store: [store.begin_turn(CHAT) for _ in range(11)],
    lambda store: store.turn(CHAT),
    lambda store: store.touch(CHAT),
    lambda store: (store.activity(CHAT, 99), store.steps(CHAT, 99)),
    lambda store: store.fork(CHAT, FORK.id),
    lambda store: store.fork(CHAT, FORK.id),
    lambda store: store.export(FORK),
    lambda store: store.restore(COPY, store.export(CHAT)),
    lambda store: store.restore(COPY, store.export(CHAT)),
    lambda store: store.export(COPY),
    lambda store: store.describe(CHAT.id),
    # not in order: whether forking its source counts as use of that depends on the hour
    lambda store: sorted(store.conversations(timedelta(), limit=9), key=lambda info: info.id),
    lambda store: sorted(i.id for i in store.conversations(search="T-", after=(FUTURE, "x"))),
    lambda store: store.count_conversations(timedelta(), None),
    lambda store: store.stats(),
    lambda store: store.add_call(COPY, replace(DONE, state="rejected"), CHANGED),
    lambda store: store.add_call(COPY, replace(ASKED, plan="recipe_1"), CHANGED[:1]),
    lambda store: sum(store.erase(SOUP, "public.recipes", 2)),
    lambda store: sum(store.prune_changes(timedelta(), 1)),
    lambda store: store.export(COPY),
    lambda store: store.export(FORK),
    lambda store: store.forget(FORK),
    lambda store: store.restore(FORK, replace(store.export(CHAT), id=FORK.id)),
    lambda store: store.export(FORK),
    lambda store: store.forget(CHAT),
    lambda store: store.forget(CHAT),
    lambda store: store.refer(CHAT, KEYS),
    lambda store: sum(store.prune(timedelta(), 2)),
    lambda store: store.stats(),
]


class Recorder:
    """Calls the methods of a store, and records their names."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self.store, name)


def result_of(call: Callable[[Store], object], store: Any) -> object:
    """Return what a call returns, without times and sizes, or the text of its error."""
    try:
        result = call(store)
    except RefError as error:
        return f"{type(error).__name__}: {error}"
    return without_times(list(result) if isinstance(result, Iterator) else result)


def without_times(value: Any) -> Any:
    """Return a value with the times and sizes in it set to constants."""
    then = datetime(2026, 1, 1, tzinfo=UTC)
    if isinstance(value, list | tuple):
        return [without_times(each) for each in value]
    if isinstance(value, CallEntry):
        decided_at, expires_at = value.decided_at and then, value.expires_at and then
        return replace(value, asked_at=then, decided_at=decided_at, expires_at=expires_at)
    if isinstance(value, ConversationInfo):
        return replace(value, begun_at=then, used_at=then)
    if isinstance(value, Exported):
        calls = [without_times(call) for call in value.calls]
        return replace(value, begun_at=then, calls=calls)
    if isinstance(value, RegistryStats):
        return replace(value, table_bytes=None, index_bytes=None)
    return value


@pytest.mark.slow
def test_every_method_does_what_it_does_in_memory(variant: tuple[Store, Use[Any]]) -> None:
    """Whatever the driver: types of parameters and columns, rows, and errors by their codes."""
    store, use = variant
    memory, other = Recorder(MemoryStore()), Recorder(store)

    expected = [result_of(call, memory) for call in CALLS]
    actual = use(lambda _: [result_of(call, other) for call in CALLS])

    assert actual == expected
    methods = {name for name, each in vars(Store).items() if inspect.isfunction(each)}
    public = {name for name in methods if not name.startswith("_")}
    # there are no tables in memory, nor transactions
    assert other.names == public - {"values_there", "is_on", "lock_call"}


@pytest.mark.slow
def test_a_key_comes_back_with_its_type(variant: tuple[Store, Use[Any]]) -> None:
    """Keys of every type are stored without loss."""
    _, use = variant

    entries = use(lambda store: store.refer(CHAT, KEYS))
    resolved = use(lambda store: store.resolve(CHAT, [entry.ref for entry in entries]))

    keys = [resolved[entry.ref].key for entry in entries]
    assert [(key, type(key)) for key in keys] == [(key, type(key)) for _, key in KEYS]


# an event loop runs in one thread
@pytest.mark.parametrize(
    "variant", ["psycopg", "psycopg2", "partitioned", "observed"], indirect=True
)
def test_threads_minting_the_same_and_other_keys_leave_no_gap_and_no_duplicate(
    variant: tuple[Store, Use[Any]],
) -> None:
    """Eight threads mint overlapping batches of two entities: dense, one ref a key, no error."""
    store, _ = variant
    pool: list[EntityKey] = [
        *(("recipe", number) for number in range(60)),
        *(("plan", number) for number in range(40)),
    ]
    seen: dict[EntityKey, set[str]] = {key: set() for key in pool}

    def mint(offset: int) -> None:
        for step in range(12):
            batch = [pool[(offset * 7 + step * 11 + i) % len(pool)] for i in range(10)]
            for key, entry in zip(batch, store.refer(CHAT, batch), strict=True):
                seen[key].add(str(entry.ref))

    assert failures(*(partial(mint, number) for number in range(8))) == []
    store.refer(CHAT, pool)

    assert {len(refs) for refs in seen.values()} == {1}
    assert store.entities(CHAT) == {"recipe": 60, "plan": 40}
    assert sorted(ref for refs in seen.values() for ref in refs) == sorted(
        [f"recipe_{n}" for n in range(1, 61)] + [f"plan_{n}" for n in range(1, 41)]
    )
