"""What every store promises of drafts: the same tests for each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from alfred_refs import ConversationExistsError, DraftKeyError, UnknownConversationError
from alfred_refs.mapping.keys import Key, Ref
from alfred_refs.store import Address, DraftEdit, DraftEntry, DraftState, NewDraft, Store
from tests.threads import at_once

pytestmark = pytest.mark.tables

CHAT = Address("chat-7", "ann")
TAKEN = Address("chat-7", "bob")
FORK = Address("chat-8", "ann")
KEY = uuid.UUID(int=7)
SOUP = NewDraft("recipe", '{"name": "Soup", "minutes": 1e22}', "Soup")
STEW = NewDraft("recipe", '{"name": "Stew"}')
PLAN = NewDraft("meal_plan", '{"recipe_id": "gen_recipe_1"}')
ALL: Sequence[DraftState] = ("pending", "saved", "discarded")

ONE, TWO, THREE = (Ref("recipe", number, draft=True) for number in (1, 2, 3))
FIRST_PLAN = Ref("meal_plan", 1, draft=True)


@pytest.fixture
def store(any_store: Store) -> Store:
    """An empty store of each kind."""
    return any_store


def refs_of(drafts: Sequence[DraftEntry]) -> list[str]:
    """Return the refs of drafts."""
    return [str(draft.ref) for draft in drafts]


def of(store: Store, address: Address = CHAT) -> dict[Ref, DraftEntry]:
    """Return all drafts of a conversation."""
    return {draft.ref: draft for draft in store.drafts(address, None, ALL)}


def edit(
    store: Store, address: Address, ref: Ref, content: str, turn: int | None = None, **more: Any
) -> DraftEntry | None:
    """Edit one draft, and return it if that was done."""
    return store.edit_drafts(address, [DraftEdit(ref, content, **more)], turn).get(ref)


def save(store: Store, ref: Ref, key: uuid.UUID = KEY, address: Address = CHAT) -> None:
    """Do what saving a draft does to the registry."""
    store.reserve_keys(address, {ref: key})
    store.confirm_drafts(address, [ref])


# Numbers


def test_drafts_are_numbered_from_one_beside_the_refs(store: Store) -> None:
    """Each entity has a counter of its own for drafts, dense and in order."""
    store.refer(CHAT, [("recipe", 1), ("recipe", 2)])

    drafts = store.draft(CHAT, [SOUP, PLAN, STEW])
    [again] = store.draft(CHAT, [SOUP])
    [ref] = store.refer(CHAT, [("recipe", 3)])

    assert refs_of(drafts) == ["gen_recipe_1", "gen_meal_plan_1", "gen_recipe_2"]
    assert (str(again.ref), str(ref.ref)) == ("gen_recipe_3", "recipe_3")


def test_refs_of_an_entity_may_come_after_its_drafts(store: Store) -> None:
    """A conversation whose first recipe is a draft mints, resolves and counts as any other."""
    store.draft(CHAT, [SOUP, PLAN])

    [entry] = store.refer(CHAT, [("recipe", KEY)])

    assert str(entry.ref) == "recipe_1"
    assert store.resolve(CHAT, [entry.ref]) == {entry.ref: entry}
    assert store.entities(CHAT) == {"recipe": 1}
    assert store.describe("chat-7").refs == {"recipe": 1}


def test_numbers_of_drafts_are_not_given_twice(store: Store) -> None:
    """Not after a draft is discarded, and not after the conversation is forgotten."""
    store.draft(CHAT, [SOUP, STEW])
    store.discard_drafts(CHAT, [ONE, TWO])
    [third] = store.draft(CHAT, [SOUP])
    store.forget(CHAT)

    [fourth] = store.draft(TAKEN, [SOUP])

    assert refs_of([third, fourth]) == ["gen_recipe_3", "gen_recipe_4"]
    assert store.read_drafts(TAKEN, [ONE, THREE]) == {}


def test_threads_that_draft_together_leave_no_gap(store: Store) -> None:
    """Eight threads draft and mint of one entity: each number is given once."""

    def work(number: int) -> list[str]:
        store.refer(CHAT, [("recipe", number)])
        return refs_of(store.draft(CHAT, [SOUP, STEW]))

    given = at_once(*(partial(work, number) for number in range(8)))

    assert sorted(ref for refs in given for ref in refs) == sorted(
        f"gen_recipe_{n}" for n in range(1, 17)
    )
    assert store.entities(CHAT) == {"recipe": 8}


# What is kept


def test_a_draft_comes_back_as_it_was(store: Store) -> None:
    """To the letter: numbers, the order of fields, and no label where none was given."""
    store.begin_turn(CHAT)
    store.begin_turn(CHAT)

    made = store.draft(CHAT, [SOUP, STEW])

    assert made[0] == DraftEntry(ONE, SOUP.content, "Soup", 2, 2)
    assert (made[0].version, made[0].state, made[0].key, made[0].row) == (1, "pending", None, None)
    assert made[1].label is None
    assert store.read_drafts(CHAT, [TWO, THREE, ONE]) == {ONE: made[0], TWO: made[1]}
    assert SOUP.content not in repr(made[0])


def test_a_draft_is_of_the_turn_that_is_told(store: Store) -> None:
    """Work of a turn is of that turn, whichever has begun meanwhile."""
    store.begin_turn(CHAT)
    store.begin_turn(CHAT)

    [draft] = store.draft(CHAT, [SOUP], 1)
    edited = edit(store, CHAT, ONE, "{}")
    again = edit(store, CHAT, ONE, "[]", turn=1)

    assert edited is not None
    assert again is not None
    assert (draft.turn, edited.turn, edited.edited, again.edited) == (1, 1, 2, 1)


def test_many_drafts_are_listed_in_natural_order(store: Store) -> None:
    """`gen_recipe_2` is before `gen_recipe_10`, across pages; by entity and by state too."""
    store.draft(CHAT, 60 * [PLAN, SOUP] + [NewDraft("meal", "{}"), NewDraft("meals", "{}")])
    store.discard_drafts(CHAT, [TWO])
    save(store, THREE)

    def listed(entity: str | None, *states: DraftState) -> list[tuple[str, int]]:
        found = store.drafts(CHAT, entity, states)
        return [(draft.ref.entity, draft.ref.number) for draft in found]

    of_recipes = [("recipe", n) for n in range(1, 61)]
    of_plans = [("meal_plan", n) for n in range(1, 61)]
    assert listed(None, *ALL) == [("meal", 1), *of_plans, ("meals", 1), *of_recipes]
    assert listed("recipe", "pending") == [of_recipes[0], *of_recipes[3:]]
    assert listed(None, "saved", "discarded") == [("recipe", 2), ("recipe", 3)]
    assert listed("order", *ALL) == listed(None) == []


def test_nothing_to_do_is_done_without_a_conversation(store: Store) -> None:
    """Asking begins none, and no drafts are drafted by nothing."""
    assert store.draft(CHAT, []) == []
    assert store.read_drafts(CHAT, [ONE]) == store.discard_drafts(CHAT, [ONE]) == of(store) == {}
    assert store.reserve_keys(CHAT, {ONE: KEY}) == {}
    assert edit(store, CHAT, ONE, "{}") is None
    store.confirm_drafts(CHAT, [ONE])
    assert list(store.conversations()) == []


USES: list[Callable[[Store], object]] = [
    lambda store: store.draft(TAKEN, [SOUP]),
    lambda store: store.read_drafts(TAKEN, [ONE]),
    lambda store: list(store.drafts(TAKEN, None, ALL)),
    lambda store: store.discard_drafts(TAKEN, [ONE]),
    lambda store: store.reserve_keys(TAKEN, {ONE: KEY}),
]


def test_drafts_of_another_owner_are_not_known(store: Store) -> None:
    """Whatever another owner tries, it is refused as unknown, and nothing is changed."""
    store.draft(CHAT, [SOUP])
    before = of(store)

    for use in USES:
        with pytest.raises(UnknownConversationError, match="'chat-7' is not known here"):
            use(store)
        assert of(store) == before


def test_another_owner_neither_edits_nor_confirms(store: Store) -> None:
    """These find nothing."""
    store.draft(CHAT, [SOUP])
    before = store.reserve_keys(CHAT, {ONE: KEY})

    assert edit(store, TAKEN, ONE, "{}") is None
    store.confirm_drafts(TAKEN, [ONE])

    assert of(store) == before


# Edited, discarded


def test_an_edit_replaces_the_content(store: Store) -> None:
    """All of it, with a label or with the one it had; of a known and pending draft alone."""
    store.draft(CHAT, [SOUP, STEW])
    store.discard_drafts(CHAT, [TWO])

    edited = edit(store, CHAT, ONE, '{"name": "Dal"}')
    named = edit(store, CHAT, ONE, '{"name": "Dal"}', label="Dal")

    assert edited == DraftEntry(ONE, '{"name": "Dal"}', "Soup", 0, 0, 2)
    assert named == replace(edited, label="Dal", version=3)
    assert of(store)[ONE] == named
    assert edit(store, CHAT, TWO, "{}") is None
    assert edit(store, CHAT, THREE, "{}") is None


def test_an_edit_of_another_version_changes_nothing(store: Store) -> None:
    """Of two edits with one version the first wins, and may be repeated by who was not told."""
    store.draft(CHAT, [SOUP])

    first = edit(store, CHAT, ONE, '{"a": 1}', label="A", version=1)
    second = edit(store, CHAT, ONE, '{"b": 1}', version=1)
    other = edit(store, CHAT, ONE, '{"a": 1}', label="B", version=1)
    repeated = edit(store, CHAT, ONE, '{"a": 1}', label="A", version=1)

    assert first is not None
    assert (first.version, second, other, repeated) == (2, None, None, first)
    assert edit(store, CHAT, ONE, '{"a": 1}', version=3) is None


def test_edits_are_done_all_or_none(store: Store) -> None:
    """One that is not known, not pending, or of another version prevents all."""
    store.draft(CHAT, [SOUP, STEW, PLAN])
    store.discard_drafts(CHAT, [TWO])
    before = of(store)
    good = DraftEdit(ONE, '{"name": "Dal"}', "Dal", 1)

    for bad in (
        DraftEdit(THREE, "{}"),
        DraftEdit(TWO, "{}"),
        DraftEdit(FIRST_PLAN, "{}", version=2),
    ):
        assert store.edit_drafts(CHAT, [good, bad]) == {}
        assert of(store) == before
    plan = DraftEdit(FIRST_PLAN, "{}", version=1)
    edited = store.edit_drafts(CHAT, [plan, good], 3)
    assert edited == {ref: of(store)[ref] for ref in (FIRST_PLAN, ONE)}
    assert edited == {
        FIRST_PLAN: DraftEntry(FIRST_PLAN, "{}", None, 0, 3, 2),
        ONE: DraftEntry(ONE, '{"name": "Dal"}', "Dal", 0, 3, 2),
    }
    assert store.edit_drafts(CHAT, []) == {}


def test_of_edits_at_once_with_one_version_one_wins(store: Store) -> None:
    """Eight threads have read the same: seven are told, and nothing that they did is there."""
    store.draft(CHAT, [SOUP])

    edits = (partial(edit, store, CHAT, ONE, f'{{"n": {n}}}', version=1) for n in range(8))
    came = at_once(*edits)

    [winner] = [edited for edited in came if edited is not None]
    assert of(store) == {ONE: winner}


def test_drafts_are_discarded_all_or_none(store: Store) -> None:
    """One that is not known or saved keeps the others; one that was discarded does not."""
    store.draft(CHAT, [SOUP, STEW, SOUP])
    save(store, THREE)

    for bad in (THREE, Ref("recipe", 4, draft=True), Ref("order", 1, draft=True)):
        told = store.discard_drafts(CHAT, [ONE, bad])
        assert told == store.read_drafts(CHAT, [ONE, bad])
        assert told[ONE].state == "pending"
    assert store.discard_drafts(CHAT, [ONE])[ONE].state == "discarded"
    told = store.discard_drafts(CHAT, [ONE, TWO])

    assert [told[ref].state for ref in (ONE, TWO)] == ["discarded", "discarded"]
    assert told[ONE].content == SOUP.content


# Saved


def test_a_key_is_reserved_once(store: Store) -> None:
    """The first one stays, whoever comes later, and an edit or a failed save keeps it."""
    store.draft(CHAT, [SOUP, STEW])

    first = store.reserve_keys(CHAT, {ONE: KEY, Ref("recipe", 9, draft=True): KEY})
    edit(store, CHAT, ONE, "{}")
    second = store.reserve_keys(CHAT, {ONE: uuid.UUID(int=8), TWO: uuid.UUID(int=9)})

    assert {ref: (draft.key, draft.state) for ref, draft in first.items()} == {
        ONE: (KEY, "pending")
    }
    assert [second[ref].key for ref in (ONE, TWO)] == [KEY, uuid.UUID(int=9)]
    assert second[ONE].content == "{}"


def test_a_reserved_key_comes_back_as_it_was(store: Store) -> None:
    """Keys of every type are kept without loss, and no entry shows its key."""
    keys: list[Key] = [KEY, 7, -(2**62), "8", "ключ", (KEY, 7)]
    refs = [draft.ref for draft in store.draft(CHAT, [SOUP] * len(keys))]

    reserved = store.reserve_keys(CHAT, dict(zip(refs, keys, strict=True)))

    drafts = [reserved[ref] for ref in refs]
    assert [(d.key, type(d.key)) for d in drafts] == [(key, type(key)) for key in keys]
    assert of(store) == reserved
    for draft in drafts:
        assert repr(draft.key) not in repr(replace(draft, ref=FIRST_PLAN))


def test_eight_that_save_a_draft_at_once_have_one_key(store: Store) -> None:
    """Each brings a key of its own, and all are told the same."""
    store.draft(CHAT, [SOUP])

    came = at_once(*(partial(store.reserve_keys, CHAT, {ONE: uuid.UUID(int=n)}) for n in range(8)))

    [key] = {reserved[ONE].key for reserved in came}
    assert of(store)[ONE].key == key


def test_a_key_is_reserved_for_one_draft(store: Store) -> None:
    """Two drafts with one key would become one row, and one of them be lost: neither gets it."""
    store.draft(CHAT, [SOUP, STEW, PLAN])
    store.reserve_keys(CHAT, {ONE: KEY})

    with pytest.raises(DraftKeyError, match="for 'gen_recipe_2' is reserved") as caught:
        store.reserve_keys(CHAT, {TWO: KEY})
    with pytest.raises(DraftKeyError):
        store.reserve_keys(CHAT, {TWO: KEY, FIRST_PLAN: KEY})

    assert "00000007" not in f"{caught.value!r}{caught.value.__cause__}"
    assert [draft.key for draft in of(store).values()] == [None, KEY, None]
    assert store.reserve_keys(CHAT, {FIRST_PLAN: KEY})[FIRST_PLAN].key == KEY


def test_a_saved_draft_has_its_row(store: Store) -> None:
    """With the ref that the key has, once it has one, and whether the row is gone."""
    store.draft(CHAT, [SOUP])
    save(store, ONE)
    assert (of(store)[ONE].state, of(store)[ONE].row) == ("saved", None)

    [entry] = store.refer(CHAT, [("recipe", KEY)], {("recipe", KEY): "Soup"})
    assert of(store)[ONE].row == entry
    store.mark(CHAT, [("recipe", KEY)], "was deleted")

    assert of(store)[ONE].row == replace(entry, gone="was deleted")
    assert store.read_drafts(CHAT, [ONE])[ONE].row == replace(entry, gone="was deleted")
    assert edit(store, CHAT, ONE, "{}") is None
    assert store.reserve_keys(CHAT, {ONE: uuid.UUID(int=9)})[ONE].key == KEY


@pytest.mark.parametrize("late", [False, True])
def test_a_row_that_was_never_saved_is_there_once_its_draft_is(store: Store, late: bool) -> None:
    """Somebody was rolled back with the same key, and said so before or after that."""
    row = ("recipe", KEY)
    store.draft(CHAT, [SOUP, STEW])
    [entry] = store.refer(CHAT, [row])
    if late:
        save(store, ONE)
    store.mark(CHAT, [row], "was never saved")
    assert store.resolve(CHAT, [entry.ref])[entry.ref].gone == (
        None if late else "was never saved"
    )
    save(store, ONE)

    assert of(store)[ONE].row == replace(entry, minted=False)
    store.mark(CHAT, [row], "was deleted")
    store.confirm_drafts(CHAT, [ONE])
    assert store.resolve(CHAT, [entry.ref])[entry.ref].gone == "was deleted"


def test_only_what_has_a_key_is_confirmed(store: Store) -> None:
    """Without a row there is nothing that the draft could be; unknown ones are skipped."""
    store.draft(CHAT, [SOUP])

    store.confirm_drafts(CHAT, [ONE, TWO])

    assert of(store)[ONE].state == "pending"


def test_a_draft_that_was_discarded_while_it_was_saved_is_saved(store: Store) -> None:
    """Its row is there: that it was to be discarded is overruled, and no row is without draft."""
    store.draft(CHAT, [SOUP, STEW])
    store.reserve_keys(CHAT, {ONE: KEY})
    store.discard_drafts(CHAT, [ONE, TWO])

    refused = store.reserve_keys(CHAT, {TWO: uuid.UUID(int=9)})
    store.confirm_drafts(CHAT, [ONE, TWO])

    assert (refused[TWO].state, refused[TWO].key) == ("discarded", None)
    assert [draft.state for draft in of(store).values()] == ["saved", "discarded"]


# Whole conversations


def test_a_fork_has_the_drafts_and_saves_them_for_itself(store: Store) -> None:
    """What is saved is one row for both; what is not is saved by each as a row of its own."""
    store.refer(FORK, [("user", 1)])
    store.forget(FORK)
    store.draft(CHAT, [SOUP, STEW, PLAN])
    save(store, ONE)
    store.reserve_keys(CHAT, {TWO: uuid.UUID(int=9)})

    store.fork(CHAT, FORK.id)
    [mine] = store.draft(CHAT, [SOUP])
    [theirs] = store.draft(FORK, [STEW])
    edit(store, FORK, TWO, "{}")

    kept = of(store)
    assert of(store, FORK) | {TWO: kept[TWO]} == kept | {THREE: theirs}
    assert refs_of([mine, theirs]) == ["gen_recipe_3", "gen_recipe_3"]
    assert (of(store, FORK)[ONE].key, of(store, FORK)[TWO].key) == (KEY, None)
    assert (kept[TWO].key, kept[TWO].content) == (uuid.UUID(int=9), STEW.content)


def test_numbers_of_drafts_that_were_forgotten_are_not_given_by_a_fork(store: Store) -> None:
    """Under an id of before they could be another draft's."""
    store.draft(CHAT, [SOUP])
    store.draft(FORK, [SOUP])
    store.forget(FORK)

    with pytest.raises(ConversationExistsError):
        store.fork(CHAT, FORK.id)

    assert refs_of(store.draft(FORK, [SOUP])) == ["gen_recipe_2"]


def test_a_forgotten_conversation_has_no_drafts(store: Store) -> None:
    """They go with it, and with the pruned one, and are no one else's."""
    for address in (CHAT, FORK):
        store.draft(address, [SOUP])
    store.forget(CHAT)
    assert of(store) == {}
    assert list(of(store, FORK)) == [ONE]

    assert list(store.prune(timedelta(), 10)) == [1]
    assert (of(store, FORK), store.stats().drafts) == ({}, {})
    assert store.draft(FORK, [SOUP])[0].ref.number == 1


def test_an_export_has_the_drafts(store: Store) -> None:
    """What is restored, under any id, is what there was: versions, keys, states and counters."""
    store.draft(CHAT, 55 * [SOUP] + [PLAN, STEW])
    store.refer(CHAT, [("order", 5)])
    edit(store, CHAT, TWO, "{}", turn=4)
    store.discard_drafts(CHAT, [TWO])
    store.reserve_keys(CHAT, {FIRST_PLAN: KEY})
    save(store, ONE)
    before = of(store)

    exported = store.export(CHAT)
    store.restore(Address("chat-9", "bob"), exported)

    assert exported.last == {"order": 1}
    assert exported.last_drafts == {"meal_plan": 1, "recipe": 56}
    assert replace(store.export(Address("chat-9", "bob")), id="chat-7", owner="ann") == exported
    assert of(store, Address("chat-9", "bob")) == before
    store.draft(CHAT, [SOUP])
    store.forget(CHAT)
    store.restore(CHAT, exported)
    assert of(store) == before
    assert refs_of(store.draft(CHAT, [SOUP, PLAN])) == ["gen_recipe_58", "gen_meal_plan_2"]
    assert store.entities(CHAT) == {"order": 1}


def test_the_stats_count_drafts_by_state(store: Store) -> None:
    """Those of all conversations; entities that have drafts alone have no refs."""
    store.draft(CHAT, [SOUP, STEW, SOUP])
    store.draft(FORK, [PLAN])
    store.discard_drafts(CHAT, [TWO])
    save(store, THREE)

    stats = store.stats()

    assert (stats.drafts, stats.refs) == ({"discarded": 1, "pending": 2, "saved": 1}, {})


def test_writing_a_draft_counts_as_use(store: Store) -> None:
    """So that what is being edited is not pruned as unused."""
    store.draft(CHAT, [SOUP])
    used = [store.describe("chat-7").used_at]

    for use in (
        lambda: edit(store, CHAT, ONE, "{}"),
        lambda: store.reserve_keys(CHAT, {ONE: KEY}),
        lambda: store.confirm_drafts(CHAT, [ONE]),
        lambda: store.discard_drafts(CHAT, []),
    ):
        use()
        used.append(store.describe("chat-7").used_at)

    assert sorted(set(used)) == used
