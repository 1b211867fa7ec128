"""What every store promises of calls and the rows that they changed: the same tests for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from alfred_refs import UnknownConversationError
from alfred_refs.store import Address, CallEntry, ChangeEntry, NewCall, NewDraft, Store

CHAT, OTHER = Address("chat-7", "ann"), Address("chat-8")
TAKEN = Address("chat-7", "bob")

ARGUMENTS = {"table": "recipes", "ids": ["recipe_1"], "note": "a\0b \ud83c", "big": 1e22}
DELETED = ChangeEntry(
    *(0, 1, "public.recipes", "recipe_1", "Soup", "deleted"),
    {"id": "7"},
    {"name": "Soup", "note": None, "text": "a\0b \ud83c"},
    None,
)
LINKED = ChangeEntry(
    *(0, 2, "public.lines", None, None, "updated"),
    {"order": "1", "line": "2"},
    {"recipe_id": "recipe_1"},
    {"recipe_id": None},
)
CREATED = ChangeEntry(0, 1, "recipes", "recipe_2", "Stew", "created", {"id": "8"}, None, {"a": ""})

WAITING = NewCall("db_delete", ARGUMENTS, "waiting", "model")
DONE = NewCall("db_update", {}, "done", "user")

pytestmark = pytest.mark.tables


@pytest.fixture
def store(any_store: Store) -> Store:
    """An empty store of each kind."""
    return any_store


def numbers(calls: Any) -> list[int]:
    """Return the numbers of calls."""
    return [call.number for call in calls]


def test_a_call_is_stored_as_it_was_given(store: Store) -> None:
    """With all its values, whatever characters and numbers are in them; it begins the chat."""
    new = NewCall(
        *("db_delete", ARGUMENTS, "waiting", "model", "ann", "call_1"),
        plan={"text": "Delete 1 recipe"},
        token="t",
        undoes=1,
        expires_in=timedelta(hours=1),
        seconds=0.25,
    )

    call = store.add_call(CHAT, new)

    assert call == CallEntry(
        *(1, 0, "db_delete", ARGUMENTS, "waiting", "model", "ann", "call_1"),
        *({"text": "Delete 1 recipe"}, "t", None, 1, None, None),
        *(call.asked_at, None, call.asked_at + timedelta(hours=1), 0.25),
    )
    assert call.asked_at.tzinfo is not None
    assert store.calls(CHAT) == [call]
    assert store.describe("chat-7").owner == "ann"


def test_calls_are_numbered_from_one_in_each_conversation(store: Store) -> None:
    """Of the turn that there is, or of the one that is given."""
    store.begin_turn(CHAT)
    added = [store.add_call(CHAT, DONE), store.add_call(CHAT, DONE, turn=7)]

    assert [(call.number, call.turn) for call in added] == [(1, 1), (2, 7)]
    assert store.add_call(OTHER, DONE).number == 1


def test_a_call_of_a_known_id_is_the_one_that_is_there(store: Store) -> None:
    """A framework that repeats a call stores it once, in each conversation."""
    first = store.add_call(CHAT, replace(WAITING, call_id="call_1"), [DELETED])

    again = store.add_call(CHAT, replace(DONE, call_id="call_1"), [CREATED])

    assert again == first
    assert store.add_call(CHAT, replace(DONE, call_id="call_2")).number == 2
    assert store.add_call(OTHER, replace(DONE, call_id="call_1")).tool == "db_update"
    assert (len(store.calls(CHAT)), len(store.changes(CHAT, [1, 2]))) == (2, 1)


def test_changes_are_those_of_their_calls_in_order(store: Store) -> None:
    """A call has as many as it made; the number of a new one does not count."""
    store.add_call(CHAT, DONE, [replace(LINKED, call=9), DELETED])
    store.add_call(CHAT, DONE)
    store.add_call(CHAT, DONE, [CREATED])

    assert store.changes(CHAT, [3, 1, 2, 8]) == [
        replace(DELETED, call=1),
        replace(LINKED, call=1),
        replace(CREATED, call=3),
    ]
    assert store.changes(CHAT, [2]) == store.changes(CHAT, []) == []


def test_calls_are_found_by_what_is_known_of_them(store: Store) -> None:
    """Each condition leaves some out; of more than the limit the last are returned."""
    store.add_call(CHAT, replace(WAITING, call_id="a"), turn=1)
    store.add_call(CHAT, DONE, [DELETED, LINKED], turn=1)
    store.add_call(CHAT, replace(DONE, state="doing"), [CREATED], turn=2)
    store.add_call(CHAT, DONE, [replace(DELETED, ref="recipe_10")], turn=2)

    assert numbers(store.calls(CHAT)) == [1, 2, 3, 4]
    assert numbers(store.calls(CHAT, numbers=[3, 1, 9])) == [1, 3]
    assert numbers(store.calls(CHAT, numbers=[])) == []
    assert numbers(store.calls(CHAT, call_id="a")) == [1]
    assert numbers(store.calls(CHAT, call_id="b")) == []
    assert numbers(store.calls(CHAT, turn=2)) == [3, 4]
    assert numbers(store.calls(CHAT, ref="recipe_1")) == [2]
    assert numbers(store.calls(CHAT, ref="recipe_3")) == []
    assert numbers(store.calls(CHAT, states=["waiting", "doing"])) == [1, 3]
    assert numbers(store.calls(CHAT, turn=2, states=["done"])) == [4]
    assert numbers(store.calls(CHAT, limit=2)) == [3, 4]
    assert numbers(store.calls(CHAT, limit=0)) == []
    assert (store.calls(OTHER), store.changes(OTHER, [1])) == ([], [])


def test_a_call_is_changed_in_the_state_that_is_expected(store: Store) -> None:
    """What is given is set, to nothing too; the rest stays. A decision is timed once."""
    asked = store.add_call(CHAT, replace(WAITING, plan={"a": 1}, token="t"))

    planned = store.update_call(CHAT, 1, expected="waiting", plan=None, token="u")
    assert planned == replace(asked, plan=None, token="u")
    assert store.update_call(CHAT, 1, expected="doing", state="done") is None
    assert store.update_call(CHAT, 2, expected="waiting", state="done") is None
    doing = store.update_call(
        CHAT, 1, expected="waiting", state="doing", decided_by="eve", reason="of course", turn=4
    )
    assert doing is not None
    assert doing.decided_at is not None
    assert doing == replace(
        *(planned,),
        state="doing",
        decided_by="eve",
        reason="of course",
        turn=4,
        decided_at=doing.decided_at,
    )
    done = store.update_call(
        *(CHAT, 1), expected="doing", changes=[DELETED], state="done", answer=[1], seconds=0.5
    )
    assert done == replace(doing, state="done", answer=[1], seconds=0.5)
    assert store.calls(CHAT) == [done]
    assert store.changes(CHAT, [1]) == [replace(DELETED, call=1)]


def test_a_call_that_is_to_wait_again_is_not_decided(store: Store) -> None:
    """What was found to be otherwise than planned is put before people once more."""
    asked = store.add_call(CHAT, WAITING)
    store.update_call(CHAT, 1, expected="waiting", state="doing")

    assert store.update_call(CHAT, 1, expected="doing", state="waiting") == asked
    done = store.add_call(CHAT, DONE)
    assert done.decided_at == done.asked_at


def test_a_call_that_was_rolled_back_is_reverted(store: Store) -> None:
    """It waits again, or is deleted if it has not waited; its changes are deleted."""
    asked = store.add_call(CHAT, replace(WAITING, token="t", call_id="a"))
    store.update_call(
        *(CHAT, 1), expected="waiting", changes=[DELETED], state="doing", decided_by="eve"
    )
    store.add_call(CHAT, replace(DONE, call_id="b"), [LINKED])
    store.add_call(CHAT, replace(DONE, state="doing", call_id="c"), [CREATED])
    for number in (1, 2, 3, 4):
        store.revert_call(TAKEN, number)
    assert [call.state for call in store.calls(CHAT)] == ["doing", "done", "doing"]

    for number in (1, 2, 3, 4):
        store.revert_call(CHAT, number)
        store.revert_call(OTHER, number)
    assert store.calls(CHAT, numbers=[1, 3]) == [asked]
    assert store.changes(CHAT, [1, 2, 3]) == [replace(LINKED, call=2)]
    assert store.add_call(CHAT, replace(DONE, call_id="c"), [CREATED]).number == 3


def test_a_call_that_waited_for_too_long_is_expired(store: Store) -> None:
    """It can neither be decided nor is it listed; what does not expire, waits."""
    store.add_call(CHAT, replace(WAITING, call_id="a", expires_in=timedelta()))
    store.add_call(CHAT, replace(WAITING, expires_in=timedelta(hours=1)))
    store.add_call(CHAT, replace(DONE, expires_in=timedelta()))

    assert [call.state for call in store.calls(CHAT)] == ["expired", "waiting", "done"]
    assert numbers(store.calls(CHAT, states=["waiting"])) == [2]
    assert numbers(store.calls(CHAT, states=["expired"])) == [1]
    assert [call.number for _, _, call in store.waiting()] == [2]
    assert store.add_call(CHAT, replace(WAITING, call_id="a")).state == "expired"
    assert store.update_call(CHAT, 1, expected="waiting", state="done") is None
    noted = store.update_call(CHAT, 1, expected="expired", reason="too late")
    assert noted is not None
    assert (noted.state, noted.reason) == ("expired", "too late")


def test_lists_of_calls_and_of_changed_rows_are_continued(store: Store) -> None:
    """Calls before a number, the last of them; of each call some places after another."""
    rows = [replace(DELETED, place=place) for place in (1, 2, 3, 4)]
    for _ in range(3):
        store.add_call(CHAT, DONE, rows)

    def places(calls: list[int], after: int, limit: int | None = None) -> list[tuple[int, int]]:
        return [(each.call, each.place) for each in store.changes(CHAT, calls, after, limit)]

    assert numbers(store.calls(CHAT, before=3)) == [1, 2]
    assert numbers(store.calls(CHAT, before=3, limit=1)) == [2]
    assert numbers(store.calls(CHAT, before=1)) == []
    assert places([1, 3], 1, 2) == [(1, 2), (1, 3), (3, 2), (3, 3)]
    assert (places([2], 3), places([2], 4), places([2], 0, 0)) == ([(2, 4)], [], [])


def test_what_waits_is_listed_over_all_conversations(store: Store) -> None:
    """The oldest first, with the conversation and its owner; of one owner, or of none."""
    for address in (CHAT, OTHER, CHAT):
        store.add_call(address, WAITING)
    store.add_call(OTHER, DONE)

    def listed(owner: Any = ..., limit: int | None = None) -> list[tuple[str, str | None, int]]:
        return [(id_, whose, call.number) for id_, whose, call in store.waiting(owner, limit)]

    assert listed() == [("chat-7", "ann", 1), ("chat-8", None, 1), ("chat-7", "ann", 2)]
    assert listed("ann") == [("chat-7", "ann", 1), ("chat-7", "ann", 2)]
    assert (listed(None), listed("bob")) == ([("chat-8", None, 1)], [])
    assert (listed(limit=1), listed("ann", 0)) == ([("chat-7", "ann", 1)], [])
    [first, (_, _, call), last] = store.waiting()
    after = (first[2].asked_at, first[0], first[2].number)
    assert [call.number for _, _, call in store.waiting(after=after)] == [1, 2]
    assert list(store.waiting("ann", 1, after)) == [last]
    assert list(store.waiting(after=(last[2].asked_at, last[0], last[2].number))) == []
    assert [call] == store.calls(OTHER, states=["waiting"])


USES: list[Callable[[Store], object]] = [
    lambda store: store.add_call(TAKEN, DONE, [DELETED]),
    lambda store: store.add_call(TAKEN, replace(DONE, call_id="call_1")),
    lambda store: store.calls(TAKEN),
    lambda store: store.calls(TAKEN, call_id="call_1"),
    lambda store: store.changes(TAKEN, [1]),
    lambda store: store.calls(Address("chat-7")),
]


def test_calls_of_another_owner_are_not_known(store: Store) -> None:
    """They are refused as unknown, or nothing is found; and nothing is changed."""
    call = store.add_call(CHAT, replace(WAITING, call_id="call_1"), [DELETED])

    for use in USES:
        with pytest.raises(UnknownConversationError, match="'chat-7' is not known here"):
            use(store)
    assert store.update_call(TAKEN, 1, expected="waiting", state="done") is None
    assert store.update_call(OTHER, 1, expected="waiting", changes=[CREATED]) is None
    assert store.waiting("bob") == []
    assert (store.calls(CHAT), store.changes(CHAT, [1])) == ([call], [replace(DELETED, call=1)])


def test_no_call_is_in_a_fork(store: Store) -> None:
    """What waits in one chat is decided there; what was done was done once."""
    store.add_call(CHAT, WAITING, [DELETED])

    store.fork(CHAT, "fork")

    fork = Address("fork", "ann")
    assert (store.calls(fork), store.changes(fork, [1])) == ([], [])
    assert store.add_call(fork, DONE).number == 1
    assert len(store.calls(CHAT)) == 1


def test_calls_are_forgotten_with_their_conversation(store: Store) -> None:
    """By one, and by age; nothing of them is left to whoever begins it again."""
    for forget in (lambda: store.forget(CHAT), lambda: list(store.prune(timedelta(), 2))):
        store.add_call(CHAT, WAITING, [DELETED])
        forget()
        assert (store.waiting(), store.calls(CHAT), store.changes(CHAT, [1])) == ([], [], [])
        assert store.add_call(TAKEN, DONE).number == 1
        store.forget(TAKEN)


def test_the_contents_of_old_calls_are_deleted(store: Store) -> None:
    """Of those that are decided, with the values of their rows; what was done stays."""
    decided = [
        store.add_call(CHAT, replace(WAITING, state="done", plan={}, answer=[]), [DELETED]),
        store.add_call(CHAT, replace(DONE, state="rejected", call_id="a")),
        store.add_call(OTHER, DONE, [LINKED, CREATED]),
    ]
    waiting = store.add_call(CHAT, WAITING, [CREATED])
    doing = store.add_call(CHAT, replace(WAITING, state="doing"))

    assert list(store.prune_changes(timedelta(days=1), 2)) == []
    assert sum(store.prune_changes(timedelta(), 2)) == 3
    assert list(store.prune_changes(timedelta(), 2)) == []
    empty = [replace(call, arguments=None, plan=None, answer=None) for call in decided]
    assert store.calls(CHAT) == [*empty[:2], waiting, doing]
    assert store.calls(OTHER) == empty[2:]
    assert store.changes(CHAT, [1, 3]) == [
        replace(DELETED, call=1, label=None, before=None),
        replace(CREATED, call=3),
    ]
    assert store.changes(OTHER, [1]) == [
        replace(CREATED, call=1, label=None, after=None),
        replace(LINKED, call=1, before=None, after=None),
    ]


def test_calls_that_waited_for_too_long_are_marked(store: Store) -> None:
    """As decided when they expired; the others go on waiting. Then their contents age too."""
    for _ in range(3):
        store.add_call(CHAT, replace(WAITING, expires_in=timedelta()))
    store.add_call(CHAT, replace(WAITING, expires_in=timedelta(hours=1)))
    store.add_call(OTHER, WAITING)

    assert list(store.prune_changes(timedelta(), 2)) == []
    assert sum(store.expire_calls(2)) == 3
    assert list(store.expire_calls(2)) == []
    calls = store.calls(CHAT)
    assert [call.state for call in calls] == [*["expired"] * 3, "waiting"]
    assert [call.decided_at for call in calls] == [*[c.expires_at for c in calls[:3]], None]
    assert sum(store.prune_changes(timedelta(), 2)) == 3


# contents of calls, and whether they name `recipe_1`
CONTENTS: list[tuple[Any, bool]] = [
    ({"ids": ["recipe_1"]}, True),
    ({"recipe_1": 1}, True),
    ({"note": "see\nrecipe_1, or\trecipe_2"}, True),
    ({"note": "\0recipe_1\0"}, True),
    ({"note": "<recipe_1> é"}, True),
    ({"note": "Ann\u2019s \ud83crecipe_1"}, True),
    ({"ids": ["recipe_10", "my_recipe_1", "recipe_1_2", "gen_recipe_1", "Recipe_1"]}, False),
    ({}, False),
]


def test_what_calls_have_of_a_row_is_erased(store: Store) -> None:
    """From calls that changed it, or that name it anywhere; others, and other owners', stay."""
    row, other = ("recipe", 7), ("recipe", 8)
    for address in (CHAT, OTHER):
        store.refer(address, [row, other] if address is CHAT else [other, row])
        store.add_call(address, replace(WAITING, arguments={}), [DELETED, LINKED])
        for contents, _ in CONTENTS:
            store.add_call(address, replace(DONE, arguments=contents))
            store.add_call(address, replace(DONE, answer=contents))
            store.add_call(address, replace(WAITING, arguments={}, plan=contents))
    before, elsewhere = store.calls(CHAT), store.calls(OTHER)

    assert sum(store.erase(row, None, 5)) == 2

    named = [True, *(named for _, named in CONTENTS for _ in range(3))]
    for call, was, is_named in zip(store.calls(CHAT), before, named, strict=True):
        state = "expired" if is_named and was.state == "waiting" else was.state
        kept = replace(was, arguments=None, plan=None, answer=None) if is_named else was
        assert call == replace(kept, state=state, decided_at=call.decided_at)
        assert (call.decided_at is None) is (state == "waiting")
    assert store.changes(CHAT, [1]) == [
        replace(DELETED, call=1, label=None, before=None),
        replace(LINKED, call=1),
    ]
    # there the row is recipe_2, which one of the contents names
    assert [
        c.number for c, was in zip(store.calls(OTHER), elsewhere, strict=True) if c != was
    ] == [*(8, 9, 10)]
    assert store.changes(OTHER, [1]) == [replace(DELETED, call=1), replace(LINKED, call=1)]


def test_a_call_that_names_a_draft_of_an_erased_row_is_erased(store: Store) -> None:
    """As long as the draft was saved as the row."""
    saved, pending = [
        draft.ref
        for draft in store.draft(CHAT, [NewDraft("recipe", "{}"), NewDraft("recipe", "{}")])
    ]
    store.reserve_keys(CHAT, {saved: 7, pending: 8})
    store.confirm_drafts(CHAT, [saved])
    for ref in (saved, pending):
        store.add_call(CHAT, replace(DONE, answer=str(ref)))

    assert [sum(store.erase(("recipe", key), None, 5)) for key in (7, 8)] == [1, 1]
    assert [call.answer for call in store.calls(CHAT)] == [None, str(pending)]


def test_calls_are_exported_and_restored(store: Store) -> None:
    """With what they changed; numbers go on after them. More than a page of them, too."""
    store.add_call(CHAT, replace(WAITING, call_id="a", plan=[1], expires_in=timedelta()))
    for _ in range(60):
        store.add_call(CHAT, DONE, [DELETED, LINKED])
    exported = store.export(CHAT)
    calls, changes = store.calls(CHAT), store.changes(CHAT, range(99))

    store.forget(CHAT)
    store.restore(CHAT, exported)
    store.restore(Address("copy"), exported)

    assert (exported.calls, exported.changes) == (calls, changes)
    assert len(changes) == 120
    for address in (CHAT, Address("copy")):
        assert store.calls(address) == calls
        assert store.changes(address, range(99)) == changes
        assert store.add_call(address, DONE).number == 62
    assert [call.state for call in store.calls(CHAT, numbers=[1])] == ["expired"]


def test_values_do_not_show_what_is_in_a_call() -> None:
    """A log of the values has no content and no key."""
    shown = f"{WAITING} {DELETED} {LINKED}"

    assert "Soup" not in shown
    assert "recipes'" in shown
    assert "'7'" not in shown
    assert "ids" not in shown
