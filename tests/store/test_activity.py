"""What every store promises of what was done with rows, and of steps: the same tests for each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Engine, text

from alfred_refs import PostgresStore, UnknownConversationError
from alfred_refs.mapping.keys import Ref
from alfred_refs.store import (
    KEPT_TURNS,
    Action,
    Activity,
    ActivityEntry,
    Address,
    StepEntry,
    Store,
)
from alfred_refs.store.memory import MemoryStore
from tests.profiles import examples

pytestmark = pytest.mark.tables

CHAT = Address("chat-7", "ann")
TAKEN = Address("chat-7", "bob")
SOUP, STEW, PLAN = (
    ("recipe", uuid.UUID(int=1)),
    ("recipe", uuid.UUID(int=2)),
    ("meal_plan", uuid.UUID(int=3)),
)
ONE, TWO = Ref("recipe", 1), Ref("recipe", 2)


@pytest.fixture
def store(any_store: Store) -> Store:
    """An empty store of each kind."""
    return any_store


def entry(store: Store, turns: int = KEPT_TURNS) -> ActivityEntry:
    """Return what is known of the only row."""
    [found] = store.activity(CHAT, turns).entries
    return found


def test_what_is_done_gives_a_row_its_ref_and_is_kept(store: Store) -> None:
    """The conversation is begun by it, and the label is told with the ref."""
    store.note(CHAT, [Activity(SOUP, "read", ["name", "id"], label="Soup")], "model")

    assert store.activity(CHAT, 1).refs == {"recipe": 1}
    assert entry(store) == ActivityEntry(
        ONE, None, "Soup", "read", "model", 0, 0, fields=["id", "name"]
    )


def test_a_deleted_row_gets_no_ref(store: Store) -> None:
    """Nobody knows it; one that has a ref is noted. Rows that were shown have theirs."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.note(CHAT, [Activity(SOUP, "deleted"), Activity(STEW, "deleted")], "user")
    store.note(CHAT, [Activity(PLAN, "read", shown=True)], "model")

    assert (entry(store).ref, entry(store).action, entry(store).actor) == (ONE, "deleted", "user")


def test_the_last_action_counts_and_the_first_turn_stays(store: Store) -> None:
    """The turn is that of the conversation, or the one that is given."""
    for action in ("read", "updated"):
        store.begin_turn(CHAT)
        store.note(CHAT, [Activity(SOUP, action)], "model")
    assert (entry(store).action, entry(store).first_turn, entry(store).last_turn) == (
        "updated",
        1,
        2,
    )
    store.note(CHAT, [Activity(SOUP, "deleted")], "model", turn=1)
    assert entry(store).last_turn == 1


# the action before, the next one, the turns in between, and whether the first is kept
REPEATED: list[tuple[Action, Action, int, bool]] = [
    ("read", "linked", 1, True),
    ("linked", "linked", 1, False),
    ("created", "read", 0, True),
    ("mentioned", "read", 0, True),
    ("updated", "read", 1, False),
    ("deleted", "read", 0, False),
    ("updated", "deleted", 0, False),
]


def test_some_actions_do_not_hide_the_one_before(store: Store) -> None:
    """A row shown in a foreign key is as it was; a read does not hide what was written."""
    for number, (before, after, turns, is_kept) in enumerate(REPEATED):
        address = replace(CHAT, id=f"chat-{number}")
        store.begin_turn(address)
        store.note(address, [Activity(SOUP, before)], "user")
        for _ in range(turns):
            store.begin_turn(address)
        store.note(address, [Activity(SOUP, after)], "model")

        expected = (before, "user", 1) if is_kept else (after, "model", 1 + turns)
        [entry] = store.activity(address, KEPT_TURNS).entries
        assert (entry.action, entry.actor, entry.last_turn) == expected


def test_the_names_of_fields_are_added_up(store: Store) -> None:
    """In any order; another action leaves them as they are."""
    store.note(CHAT, [Activity(SOUP, "read", ["name", "steps"])], "model")
    store.note(CHAT, [Activity(SOUP, "linked")], "model")
    store.note(CHAT, [Activity(SOUP, "updated", ["note", "name"])], "model")
    assert entry(store).fields == ["name", "note", "steps"]


def test_a_row_whose_ref_alone_was_shown_has_no_fields(store: Store) -> None:
    """That is another thing than not to know which."""
    store.note(CHAT, [Activity(SOUP, "read"), Activity(PLAN, "read", [])], "model")
    assert [each.fields for each in store.activity(CHAT, 1).entries] == [[], None]


def test_of_old_turns_what_is_retained_is_told(store: Store) -> None:
    """Others are counted; a ref that is known can be retained, whatever was noted of it."""
    store.note(CHAT, [Activity(SOUP, "read"), Activity(STEW, "read")], "model")
    store.refer(CHAT, [PLAN])
    store.retain(CHAT, [ONE, Ref("meal_plan", 1), Ref("recipe", 9)], "the favourite", "user")
    for _ in range(3):
        store.begin_turn(CHAT)

    record = store.activity(CHAT, 3)
    assert [(str(each.ref), each.reason) for each in record.entries] == [
        ("meal_plan_1", "the favourite"),
        ("recipe_1", "the favourite"),
    ]
    assert (record.turn, record.refs) == (3, {"meal_plan": 1, "recipe": 2})
    assert len(store.activity(CHAT, 4).entries) == 3


def test_a_demoted_row_comes_back_when_something_is_done_with_it(store: Store) -> None:
    """To stand beside another is not enough; to be retained is."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.demote(CHAT, [ONE])
    store.note(CHAT, [Activity(SOUP, "linked")], "model")
    assert entry(store).demoted
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    assert not entry(store).demoted
    store.demote(CHAT, [ONE])
    store.retain(CHAT, [ONE], "why", "user")
    assert (entry(store).demoted, entry(store).reason) == (False, "why")
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    assert entry(store).reason == "why"


def test_what_is_dropped_is_forgotten_but_for_its_ref(store: Store) -> None:
    """The ref still names the row."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.drop(CHAT, [ONE, TWO])

    assert store.activity(CHAT, 3).entries == []
    assert store.resolve(CHAT, [ONE])[ONE].key == SOUP[1]


def test_a_row_that_is_gone_is_told_so(store: Store) -> None:
    """Whoever has deleted it: the mapping knows."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.mark(CHAT, [SOUP], "was deleted")
    assert entry(store).gone == "was deleted"


def test_the_fields_of_a_deleted_row_are_forgotten(store: Store) -> None:
    """A row that has its key later is another one."""
    store.note(CHAT, [Activity(SOUP, "read", ["name"])], "model")
    store.note(CHAT, [Activity(SOUP, "deleted", ["name"])], "model")
    assert entry(store).fields is None
    store.note(CHAT, [Activity(SOUP, "created", ["id"])], "model")
    assert entry(store).fields == ["id"]


def test_steps_are_numbered_in_their_turn(store: Store) -> None:
    """Those of the last turns are told, in order."""
    assert store.add_step(CHAT, '{"a": 1}') == StepEntry(0, 1, '{"a": 1}')
    store.begin_turn(CHAT)
    store.add_step(CHAT, '{"b": 1}')
    assert store.add_step(CHAT, "{}", turn=0).number == 2
    assert [(s.turn, s.number) for s in store.steps(CHAT, 2)] == [(0, 1), (0, 2), (1, 1)]
    assert [s.content for s in store.steps(CHAT, 1)] == ['{"b": 1}']


def test_windows_are_those_of_the_turn_that_is_worked_in(store: Store) -> None:
    """Others may have begun since: what an earlier one needs is still told to it."""
    store.begin_turn(CHAT)
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.add_step(CHAT, "{}")
    for _ in range(3):
        store.begin_turn(CHAT)
    assert (store.activity(CHAT, 1).entries, store.steps(CHAT, 1)) == ([], [])
    record = store.activity(CHAT, 1, turn=1)
    assert (record.turn, [entry.ref for entry in record.entries]) == (1, [ONE])
    assert [step.turn for step in store.steps(CHAT, 1, turn=1)] == [1]
    store.retain(CHAT, [ONE], "why", "user")
    assert len(store.activity(CHAT, 1, turn=1).entries) == 1


def test_old_steps_are_deleted_as_turns_pass(store: Store) -> None:
    """Those of the last turns stay."""
    store.begin_turn(CHAT)
    store.add_step(CHAT, "{}")
    for _ in range(KEPT_TURNS):
        store.begin_turn(CHAT)
    assert len(store.steps(CHAT, 99)) == 1
    store.begin_turn(CHAT)
    assert store.steps(CHAT, 99) == []


def test_old_fields_are_replaced(store: Store) -> None:
    """What a model saw long ago does not lengthen its prompts of today."""
    store.note(CHAT, [Activity(SOUP, "read", ["description"])], "model")
    for _ in range(KEPT_TURNS - 1):
        store.begin_turn(CHAT)
    store.note(CHAT, [Activity(SOUP, "read", ["name"])], "model")
    assert entry(store).fields == ["description", "name"]
    for _ in range(KEPT_TURNS):
        store.begin_turn(CHAT)
    store.note(CHAT, [Activity(SOUP, "read", ["size"])], "model")
    assert entry(store).fields == ["size"]


USES: list[Callable[[Store], object]] = [
    lambda store: store.note(TAKEN, [Activity(SOUP, "read")], "model"),
    lambda store: store.add_step(TAKEN, "{}"),
    lambda store: store.activity(TAKEN, 3),
    lambda store: store.steps(TAKEN, 3),
]


def test_another_owner_has_no_part_in_it(store: Store) -> None:
    """It is refused as an unknown conversation is."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    for use in USES:
        with pytest.raises(UnknownConversationError):
            use(store)


def test_another_owner_changes_nothing(store: Store) -> None:
    """Without a word, as in `mark`."""
    store.note(CHAT, [Activity(SOUP, "read")], "model")
    store.retain(TAKEN, [ONE], "mine", "user")
    store.demote(TAKEN, [ONE])
    store.drop(TAKEN, [ONE])
    assert (entry(store).reason, entry(store).demoted) == (None, False)


def test_forks_exports_and_imports_carry_it_and_forgetting_ends_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all that is of a conversation, on however many pages."""
    monkeypatch.setattr("alfred_refs.store.postgres_activity.PAGE", 1)
    fork, copy = Address("chat-8", "ann"), Address("chat-9", "ann")
    store.begin_turn(CHAT)
    store.note(CHAT, [Activity(PLAN, "read"), Activity(SOUP, "read", ["name"])], "model")
    store.retain(CHAT, [ONE], "good", "user")
    store.demote(CHAT, [Ref("meal_plan", 1)])
    store.add_step(CHAT, '{"a": 1}')
    before = store.activity(CHAT, 3), store.steps(CHAT, 3)

    store.fork(CHAT, fork.id)
    store.restore(copy, store.export(CHAT))
    assert (store.activity(fork, 3), store.steps(fork, 3)) == before
    assert (store.activity(copy, 3), store.steps(copy, 3)) == before

    store.forget(CHAT)
    store.begin_turn(CHAT)
    assert (store.activity(CHAT, 3).entries, store.steps(CHAT, 3)) == ([], [])
    assert store.activity(fork, 3) == before[0]


KEYS = st.sampled_from([SOUP, STEW, PLAN])
FIELDS = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
ACTIVITY = st.builds(
    Activity,
    KEYS,
    st.sampled_from(["read", "linked", "created", "updated", "deleted", "mentioned"]),
    st.none() | FIELDS,
)
DONE = st.lists(ACTIVITY, min_size=1, max_size=3, unique_by=lambda each: each.key)
REFS = st.lists(st.sampled_from([ONE, TWO, Ref("meal_plan", 1)]), max_size=2, unique=True)
WORK = st.one_of(
    st.tuples(st.just("note"), DONE, st.sampled_from(["model", "user"])),
    st.tuples(st.just("begin_turn")),
    st.tuples(st.just("retain"), REFS, st.just("why"), st.just("user")),
    st.tuples(st.just("demote"), REFS),
    st.tuples(st.just("drop"), REFS),
    st.tuples(st.just("mark"), st.lists(KEYS, max_size=2), st.sampled_from(["was deleted", None])),
)


def test_the_same_again_writes_nothing(engine: Engine) -> None:
    """A model reads the same rows in every step; each version of a row is a write."""
    store = PostgresStore(engine)
    read = [Activity(key, "read", ["b", "a"], shown=True) for key in (SOUP, STEW)]
    store.refer(CHAT, [SOUP, STEW])

    def versions() -> Sequence[Any]:
        with engine.connect() as connection:
            found = connection.execute(text("select number, xmin from alfred_refs_activity"))
            return sorted(map(tuple, found))

    store.note(CHAT, read, "model")
    before = versions()
    store.note(CHAT, [*reversed(read)], "model")
    assert versions() == before
    store.note(CHAT, [replace(read[0], fields=["c"])], "model")
    assert [old == new for old, new in zip(before, versions(), strict=True)] == [False, True]


def test_postgres_and_memory_agree_on_any_sequence(engine: Engine) -> None:
    """The rule is written twice, in SQL and in Python."""
    stores: list[Store] = [PostgresStore(engine), MemoryStore()]

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(WORK, max_size=12))
    def agree(work: list[tuple[Any, ...]]) -> None:
        address = Address(uuid.uuid4().hex)
        for name, *arguments in work:
            for store in stores:
                getattr(store, name)(address, *arguments)
        first, second = (store.activity(address, 3) for store in stores)
        assert first == second

    agree()
