"""What every store promises: the same tests for each."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import EllipsisType

import pytest

from alfred_refs import (
    ConversationExistsError,
    ConversationIdError,
    PostgresStore,
    RegistryStats,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Ref, parse_ref
from alfred_refs.store import Activity, Address, NewDraft, Store

CHAT = Address("chat-7", "ann")
TAKEN = Address("chat-7", "bob")


pytestmark = pytest.mark.tables


def new_keys(entity: str, count: int) -> list[EntityKey]:
    """Make keys that nobody has met."""
    return [(entity, uuid.uuid4()) for _ in range(count)]


@pytest.fixture
def store(any_store: Store) -> Store:
    """An empty store of each kind."""
    return any_store


def test_refs_are_numbered_from_one_in_the_order_of_the_keys(store: Store) -> None:
    """Each entity has numbers of its own, dense and in order."""
    recipes, orders = new_keys("recipe", 3), [("order", 5), ("order", 4)]

    entries = store.refer(CHAT, [recipes[0], *orders, *recipes[1:]])

    assert [str(entry.ref) for entry in entries] == [
        *("recipe_1", "order_1", "order_2"),
        *("recipe_2", "recipe_3"),
    ]
    assert [entry.key for entry in entries] == [recipes[0][1], 5, 4, recipes[1][1], recipes[2][1]]


def test_entities_come_one_after_the_other(store: Store) -> None:
    """Those that are new, and those that are not, take no number from each other."""
    store.refer(CHAT, [("user", 7), ("recipe", 7)])

    entries = store.refer(
        CHAT, [("order", 7), ("recipe", 8), ("meal", 7), ("user", 7), ("meal", 8)]
    )

    assert [str(entry.ref) for entry in entries] == [
        *("order_1", "recipe_2", "meal_1", "user_1", "meal_2")
    ]
    kept = {"meal_1": 7, "meal_2": 8, "order_1": 7, "recipe_1": 7, "recipe_2": 8, "user_1": 7}
    assert refs_in(store, CHAT) == kept
    assert [ref.number for ref in store.known(CHAT, Ref("meal", 1), 5)] == [1, 2]


def test_a_key_keeps_its_ref(store: Store) -> None:
    """The same key has the same ref, and only new ones take numbers."""
    first, second, third = new_keys("recipe", 3)
    store.refer(CHAT, [first, second])

    entries = store.refer(CHAT, [third, second, first])

    assert [entry.ref.number for entry in entries] == [3, 2, 1]


def test_an_entry_tells_whether_it_was_minted_just_now(store: Store) -> None:
    """It says so once, to the call that gave the number; entries are equal all the same."""
    first, second = new_keys("recipe", 2)
    minted = store.refer(CHAT, [first])

    entries = store.refer(CHAT, [first, second])

    assert [entry.minted for entry in [*minted, *entries]] == [True, False, True]
    assert entries[0] == minted[0]
    assert not store.resolve(CHAT, [minted[0].ref])[minted[0].ref].minted


def test_what_is_not_known_is_left_out(store: Store) -> None:
    """Resolving returns the refs that exist, and no others."""
    store.refer(CHAT, new_keys("recipe", 2))
    refs = [Ref("recipe", 2), Ref("recipe", 3), Ref("meal_plan", 1)]

    assert list(store.resolve(CHAT, refs)) == [Ref("recipe", 2)]


def test_the_refs_of_a_key_are_of_all_entities(store: Store) -> None:
    """In order, those of rows that are gone too; of another type it is another key."""
    uuid_, gone, other = (uuid.UUID(int=n) for n in (7, 8, 9))
    store.refer(CHAT, [("user", uuid_), ("meal", uuid_), ("meal", gone), ("box", str(uuid_))])
    store.refer(CHAT, [("order", 7), ("order", 8)])
    store.mark(CHAT, [("meal", gone)], "was deleted")
    store.refer(replace(CHAT, id="chat-8"), [("recipe", uuid_), ("recipe", other)])

    found = store.refs_of(CHAT, [gone, uuid_, other, str(uuid_), 8, "8"])

    assert {key: [str(ref) for ref in refs] for key, refs in found.items()} == {
        gone: ["meal_2"],
        uuid_: ["meal_1", "user_1"],
        str(uuid_): ["box_1"],
        8: ["order_2"],
    }
    assert store.refs_of(CHAT, [other]) == {}
    assert store.refs_of(replace(CHAT, id="chat-9"), [uuid_]) == {}


def test_nothing_is_known_of_a_conversation_that_was_not_begun(store: Store) -> None:
    """Asking does not begin a conversation."""
    assert store.resolve(CHAT, [Ref("recipe", 1)]) == {}
    assert (store.entities(CHAT), store.turn(CHAT)) == ({}, 0)
    assert (store.known(CHAT, Ref("recipe", 1), 5), refs_in(store, CHAT)) == ({}, {})
    assert store.refer(TAKEN, [("recipe", 1)])[0].ref.number == 1


def test_conversations_do_not_know_each_other(store: Store) -> None:
    """The same key has a ref of its own in each conversation."""
    keys = new_keys("recipe", 2)
    store.refer(CHAT, keys)

    [entry] = store.refer(Address("chat-8", "ann"), keys[1:])

    assert str(entry.ref) == "recipe_1"
    assert store.entities(Address("chat-8", "ann")) == {"recipe": 1}


USES: list[Callable[[Store], object]] = [
    lambda store: store.refer(TAKEN, [("recipe", 1)]),
    lambda store: store.refer(TAKEN, [("recipe", 2)]),
    lambda store: store.resolve(TAKEN, [Ref("recipe", 1)]),
    lambda store: store.resolve(TAKEN, [Ref("recipe", 9)]),
    lambda store: store.refs_of(TAKEN, [1]),
    lambda store: store.refs_of(TAKEN, [9]),
    lambda store: store.entities(TAKEN),
    lambda store: list(store.entries(TAKEN)),
    lambda store: store.begin_turn(TAKEN),
    lambda store: store.turn(TAKEN),
    lambda store: store.turn(Address("chat-7")),
]


def test_a_conversation_of_another_owner_is_not_known(store: Store) -> None:
    """Whatever another owner tries, it is refused as unknown, and nothing is changed."""
    store.refer(CHAT, [("recipe", 1)])

    for use in USES:
        with pytest.raises(UnknownConversationError, match="'chat-7' is not known here"):
            use(store)
        assert (store.entities(CHAT), store.turn(CHAT)) == ({"recipe": 1}, 0)


def test_another_owner_can_neither_list_nor_mark(store: Store) -> None:
    """Known refs are not offered to another owner, and rows are not called gone by one."""
    store.refer(CHAT, [("recipe", 1)])

    store.mark(TAKEN, [("recipe", 1)], "was deleted")

    assert store.known(TAKEN, Ref("recipe", 1), 5) == {}
    assert store.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].gone is None


def test_turns_are_counted_from_one(store: Store) -> None:
    """Beginning a turn begins the conversation, and never counts twice."""
    assert [store.begin_turn(CHAT), store.begin_turn(CHAT), store.turn(CHAT)] == [1, 2, 2]


def test_known_refs_are_the_nearest_in_number(store: Store) -> None:
    """An error can offer what a model most likely meant, and nothing that is gone."""
    keys = new_keys("recipe", 9)
    store.refer(CHAT, keys)
    store.mark(CHAT, [keys[4]], "was deleted")

    known = store.known(CHAT, Ref("recipe", 5), 4)

    assert [ref.number for ref in known] == [4, 6, 3, 7]


def test_a_row_that_is_gone_can_be_there_again(store: Store) -> None:
    """A mark says why there is no row, can be taken back, and never touches the mapping."""
    [key] = new_keys("recipe", 1)
    [entry] = store.refer(CHAT, [key])

    store.mark(CHAT, [key, ("recipe", 99)], "was never saved")
    gone = store.refer(CHAT, [key])
    store.mark(CHAT, [key], None)

    assert [(e.ref, e.gone) for e in gone] == [(entry.ref, "was never saved")]
    assert store.resolve(CHAT, [entry.ref])[entry.ref] == entry


def test_a_label_comes_with_a_new_key(store: Store) -> None:
    """What is known of a key that is not new stays as it is, whatever comes along."""
    one, two, three = new_keys("recipe", 3)

    first = store.refer(CHAT, [one, two], {one: "Soup", three: "Stew"})
    again = store.refer(CHAT, [two, one], {one: "Salad", two: "Salad"})

    assert [entry.label for entry in first] == ["Soup", None]
    assert [entry.label for entry in again] == [None, "Soup"]
    assert store.resolve(CHAT, [first[0].ref])[first[0].ref].label == "Soup"
    assert [entry.label for entry in store.entries(CHAT)] == ["Soup", None]


def test_a_label_can_be_changed_and_added(store: Store) -> None:
    """By keys that are known; others are skipped, and so is another owner."""
    one, two, three = new_keys("recipe", 3)
    store.refer(CHAT, [one, two], {one: "Soup"})

    store.label(CHAT, {one: "'; drop (x", two: "Stew", three: "Salad"})
    store.label(TAKEN, {one: "Stolen"})
    store.label(CHAT, {})

    assert [entry.label for entry in store.entries(CHAT)] == ["'; drop (x", "Stew"]


def test_labels_are_offered_of_the_last_rows_that_are_there(store: Store) -> None:
    """As many refs are looked at as are asked for; none of another entity, and no other owner."""
    keys = new_keys("recipe", 4)
    labels = dict(zip(keys, ["A", "B", "C", "D"], strict=True))
    store.refer(CHAT, [*keys, ("order", 7)], labels | {("order", 7): "O"})
    store.mark(CHAT, [keys[2]], "was deleted")

    last = store.labelled(CHAT, "recipe", 3)

    assert list(last.items()) == [(Ref("recipe", 4), "D"), (Ref("recipe", 2), "B")]
    assert store.labelled(CHAT, "meal_plan", 3) == {}
    assert store.labelled(TAKEN, "recipe", 3) == {}
    assert store.known(CHAT, Ref("recipe", 3), 2) == {Ref("recipe", 2): "B", Ref("recipe", 4): "D"}


def test_labels_that_several_rows_have_are_told(store: Store) -> None:
    """By entity, with the first and the last ref of rows that are there; none of another owner."""
    keys = [*new_keys("recipe", 6), ("order", 7), ("order", 8)]
    labels = dict(zip(keys, ["A", "B", "A", "A", "C", "C", "B", "A"], strict=True))
    store.refer(CHAT, keys, labels)
    store.mark(CHAT, [keys[4]], "was deleted")
    pairs = [("recipe", "A"), ("recipe", "B"), ("recipe", "C"), ("order", "A"), ("meal", "A")]

    assert store.namesakes(CHAT, pairs, 10) == {
        ("recipe", "A"): (Ref("recipe", 1), Ref("recipe", 4))
    }
    assert store.namesakes(CHAT, pairs, 4) == {
        ("recipe", "A"): (Ref("recipe", 3), Ref("recipe", 4))
    }
    assert store.namesakes(CHAT, pairs, 3) == {}
    assert store.namesakes(CHAT, [], 10) == {}
    assert store.namesakes(TAKEN, pairs, 10) == {}


def test_numbers_are_not_given_twice_after_rows_are_gone(store: Store) -> None:
    """A number once taken stays taken."""
    keys = new_keys("recipe", 2)
    store.refer(CHAT, keys)
    store.mark(CHAT, keys, "was deleted")

    assert store.refer(CHAT, new_keys("recipe", 1))[0].ref.number == 3


def test_nothing_to_do_is_done(store: Store) -> None:
    """Empty lists are answered without a conversation."""
    assert store.refer(CHAT, []) == []
    assert store.resolve(CHAT, []) == {}
    store.mark(CHAT, [], "was deleted")


FORK = Address("chat-8", "ann")
TEAM = Address("chat-9")
NOW = timedelta()
AGES = timedelta(days=30)


def refs_in(store: Store, address: Address) -> dict[str, object]:
    """Return the keys of all refs of a conversation."""
    return {str(entry.ref): entry.key for entry in store.entries(address)}


def begin(store: Store) -> list[EntityKey]:
    """Begin a conversation of three recipes, one labelled and one gone, and an order."""
    keys = [*new_keys("recipe", 3), ("order", 7)]
    store.begin_turn(CHAT)
    store.refer(CHAT, keys, {keys[0]: "Soup"})
    store.mark(CHAT, [keys[1]], "was deleted")
    return keys


def test_a_fork_has_the_same_refs_marks_turn_and_owner(store: Store) -> None:
    """A branch of a chat continues with what its model has seen."""
    begin(store)

    store.fork(CHAT, FORK.id)

    assert list(store.entries(FORK)) == list(store.entries(CHAT))
    assert [entry.gone for entry in store.entries(FORK)] == [None, None, "was deleted", None]
    assert [entry.label for entry in store.entries(FORK)] == [None, "Soup", None, None]
    assert store.turn(FORK) == 1
    with pytest.raises(UnknownConversationError):
        store.turn(Address(FORK.id, "bob"))


def test_a_fork_and_its_source_go_on_for_themselves(store: Store) -> None:
    """New numbers follow on the ones they share, and what happens in one is not in the other."""
    keys = begin(store)
    store.fork(CHAT, FORK.id)

    theirs, mine = new_keys("recipe", 1), new_keys("recipe", 1)
    numbers = [store.refer(FORK, theirs)[0].ref.number, store.refer(CHAT, mine)[0].ref.number]
    store.mark(FORK, [keys[0]], "was deleted")

    assert numbers == [4, 4]
    assert refs_in(store, FORK)["recipe_4"] == theirs[0][1]
    assert refs_in(store, CHAT)["recipe_4"] == mine[0][1]
    assert store.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].gone is None


def test_a_fork_can_be_forked(store: Store) -> None:
    """Branches of branches have what their parent had."""
    begin(store)
    store.fork(CHAT, FORK.id)
    store.refer(FORK, new_keys("recipe", 1))

    store.fork(FORK, "chat-9")

    assert refs_in(store, Address("chat-9", "ann")) == refs_in(store, FORK)
    assert len(refs_in(store, FORK)) == 5


def test_a_conversation_is_not_forked_onto_another(store: Store) -> None:
    """An id that is in use, by any owner or by itself, is refused, and nothing is changed."""
    begin(store)
    taken = [FORK, Address("chat-9", "bob"), CHAT]
    for address in taken[:2]:
        store.refer(address, new_keys("recipe", 1))

    for address in taken:
        before = refs_in(store, address)
        with pytest.raises(ConversationExistsError, match=f"'{address.id}' cannot be created"):
            store.fork(CHAT, address.id)
        assert refs_in(store, address) == before


USES_OF_WHOLE: list[Callable[[Store, Address], object]] = [
    lambda store, address: store.fork(address, FORK.id),
    lambda store, address: store.forget(address),
    lambda store, address: store.export(address),
]


def test_what_is_not_there_or_not_ones_own_is_unknown(store: Store) -> None:
    """A conversation not begun and one of another owner are refused alike, for operators too."""
    begin(store)
    with pytest.raises(UnknownConversationError) as none:
        store.describe("nonesuch")

    for use in USES_OF_WHOLE:
        for address in (TAKEN, Address("chat-99", "ann"), Address("chat-7")):
            with pytest.raises(UnknownConversationError) as caught:
                use(store, address)
            assert str(caught.value).replace(address.id, "nonesuch") == str(none.value)

    assert [info.id for info in store.conversations()] == ["chat-7"]
    assert len(refs_in(store, CHAT)) == 4


def test_a_forgotten_conversation_is_not_there(store: Store) -> None:
    """Neither its refs nor its turn nor itself are found, and no other is touched."""
    begin(store)
    store.fork(CHAT, FORK.id)

    store.forget(CHAT)

    assert store.resolve(CHAT, [Ref("recipe", 1)]) == {}
    assert (store.entities(CHAT), store.turn(CHAT), refs_in(store, CHAT)) == ({}, 0, {})
    assert store.known(CHAT, Ref("recipe", 1), 5) == {}
    assert [info.id for info in store.conversations()] == [FORK.id]
    with pytest.raises(UnknownConversationError):
        store.forget(CHAT)
    assert len(refs_in(store, FORK)) == 4


@pytest.mark.parametrize("address", [CHAT, TAKEN])
def test_numbers_go_on_after_a_conversation_was_forgotten(store: Store, address: Address) -> None:
    """An old ref is unknown, never another row's, whoever begins the conversation again."""
    keys = begin(store)
    store.forget(CHAT)

    [again, new] = store.refer(address, [keys[0], ("recipe", 99)])

    assert [str(again.ref), str(new.ref)] == ["recipe_4", "recipe_5"]
    assert store.resolve(address, [Ref("recipe", 1), Ref("order", 1)]) == {}
    assert store.entities(address) == {"recipe": 5}
    assert store.describe("chat-7").refs == {"recipe": 2}
    store.forget(address)
    assert store.refer(CHAT, keys[:1])[0].ref.number == 6


def test_numbers_that_were_forgotten_are_not_given_by_a_fork(store: Store) -> None:
    """A fork brings refs along: under an id of before they could be another row's."""
    begin(store)
    store.refer(FORK, new_keys("recipe", 1))
    store.forget(FORK)

    with pytest.raises(ConversationExistsError):
        store.fork(CHAT, FORK.id)

    assert store.refer(FORK, new_keys("recipe", 1))[0].ref.number == 2


def test_a_fork_may_have_an_id_that_forgot_other_entities(store: Store) -> None:
    """No number of before is another row's now: its refs are those of its source."""
    begin(store)
    store.refer(FORK, [("user", 7), ("menu", 8), ("task", 9)])
    store.forget(FORK)

    store.fork(CHAT, FORK.id)
    fork = refs_in(store, FORK)
    left = store.refer(FORK, [("task", 9), ("order", 8), ("user", 7), ("shelf", 6)])

    assert fork == refs_in(store, CHAT)
    assert [str(entry.ref) for entry in left] == ["task_2", "order_2", "user_2", "shelf_1"]
    assert refs_in(store, FORK) == fork | {str(entry.ref): entry.key for entry in left}


def test_a_fork_counts_on_from_numbers_that_its_source_has_forgotten(store: Store) -> None:
    """What was given in the chat before it branched is not given in a branch."""
    begin(store)
    store.forget(CHAT)
    store.begin_turn(CHAT)

    store.fork(CHAT, FORK.id)

    assert store.refer(FORK, new_keys("recipe", 1))[0].ref.number == 4


def test_what_was_exported_can_be_restored(store: Store) -> None:
    """Another conversation, of another owner, has all that the first had."""
    begin(store)
    exported = store.export(CHAT)
    copy = Address("chat-9", "bob")

    store.restore(copy, exported)

    assert replace(store.export(copy), id="chat-7", owner="ann") == exported
    assert (exported.turn, exported.last) == (1, {"order": 1, "recipe": 3})
    assert [(str(entry.ref), entry.label) for entry in exported.entries] == [
        *(("order_1", None), ("recipe_1", "Soup"), ("recipe_2", None), ("recipe_3", None))
    ]
    assert store.describe("chat-9").refs == {"order": 1, "recipe": 3}
    assert store.refer(copy, new_keys("recipe", 1))[0].ref.number == 4


def test_a_conversation_that_was_forgotten_can_be_restored(store: Store) -> None:
    """Its refs are what they were, and numbers given after the export are not given again."""
    begin(store)
    exported = store.export(CHAT)
    before = refs_in(store, CHAT)
    store.refer(CHAT, new_keys("recipe", 2))
    store.forget(CHAT)

    store.restore(CHAT, exported)

    assert refs_in(store, CHAT) == before
    assert store.describe("chat-7").refs == {"order": 1, "recipe": 3}
    assert store.refer(CHAT, new_keys("recipe", 1))[0].ref.number == 6


@pytest.mark.parametrize("address", [CHAT, Address("chat-9", "ann")])
def test_a_conversation_may_be_restored_where_other_entities_were_forgotten(
    store: Store, address: Address
) -> None:
    """Its refs are what they were, under its own id and under another, and numbers go on."""
    begin(store)
    exported = store.export(CHAT)
    before = refs_in(store, CHAT)
    store.forget(CHAT)
    store.refer(address, [("user", 7), ("zone", 8)])
    store.forget(address)

    store.restore(address, exported)
    restored = refs_in(store, address)
    minted = store.refer(address, [("zone", 8), ("order", 8), ("shelf", 7)])

    assert restored == before
    assert [str(entry.ref) for entry in minted] == ["zone_2", "order_2", "shelf_1"]
    assert refs_in(store, address) == before | {str(entry.ref): entry.key for entry in minted}


def test_a_conversation_is_not_restored_onto_another(store: Store) -> None:
    """Not where one is, nor where another's refs may be remembered."""
    begin(store)
    exported = store.export(CHAT)
    store.refer(FORK, new_keys("recipe", 1))
    before = refs_in(store, FORK)

    with pytest.raises(ConversationExistsError):
        store.restore(FORK, exported)
    assert refs_in(store, FORK) == before

    store.forget(FORK)
    with pytest.raises(ConversationExistsError):
        store.restore(FORK, exported)
    assert refs_in(store, FORK) == {}


def test_many_refs_are_listed_in_natural_order(store: Store) -> None:
    """`recipe_2` is before `recipe_10`, across pages, and an entity can be asked for alone."""
    store.refer(CHAT, new_keys("recipe", 2500) + new_keys("meal_plan", 3))

    numbers = [(entry.ref.entity, entry.ref.number) for entry in store.entries(CHAT)]

    recipes = [("recipe", number) for number in range(1, 2501)]
    assert numbers == [("meal_plan", 1), ("meal_plan", 2), ("meal_plan", 3), *recipes]
    assert [str(entry.ref) for entry in store.entries(CHAT, "meal_plan")] == [
        *("meal_plan_1", "meal_plan_2", "meal_plan_3")
    ]
    assert list(store.entries(CHAT, "order")) == []


def test_a_list_of_refs_is_continued_after_a_ref(store: Store) -> None:
    """Of all entities or of one, with as many as are asked for; that ref may be unknown."""
    store.refer(CHAT, new_keys("recipe", 12) + new_keys("meal_plan", 3))

    def listed(entity: str | None, after: str | None, limit: int | None = None) -> list[str]:
        place = None if after is None else parse_ref(after)
        return [str(entry.ref) for entry in store.entries(CHAT, entity, place, limit)]

    assert listed(None, None, 4) == ["meal_plan_1", "meal_plan_2", "meal_plan_3", "recipe_1"]
    assert listed(None, "meal_plan_2", 2) == ["meal_plan_3", "recipe_1"]
    assert listed(None, "meal_plan_9", 1) == ["recipe_1"]
    assert listed("recipe", "recipe_9") == ["recipe_10", "recipe_11", "recipe_12"]
    assert listed("meal_plan", "recipe_1") == []
    assert (listed(None, "zoo_1"), listed(None, None, 0)) == ([], [])


def test_every_conversation_can_be_described_and_listed(store: Store) -> None:
    """Operators see whose it is, how far it is and how many refs it has, whoever has it."""
    begin(store)
    store.begin_turn(Address("chat-8"))

    info = store.describe("chat-7")

    assert (info.id, info.owner, info.turn) == ("chat-7", "ann", 1)
    assert list(info.refs.items()) == [("order", 1), ("recipe", 3)]
    assert info.begun_at <= info.used_at
    assert info.begun_at.tzinfo is not None
    infos = sorted(store.conversations(), key=lambda each: each.id)
    assert infos == [info, store.describe("chat-8")]
    assert (infos[1].owner, infos[1].refs) == (None, {})
    with pytest.raises(UnknownConversationError):
        store.describe("chat-9")


def test_the_last_used_are_listed_first_of_an_owner_or_of_all(store: Store) -> None:
    """As many as are asked for; none is an owner too."""
    for id_, owner in (("a", "ann"), ("b", None), ("c", "ann"), ("d", "bob"), ("a", "ann")):
        store.begin_turn(Address(id_, owner))

    def listed(
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        age: timedelta | None = None,
    ) -> list[str]:
        return [info.id for info in store.conversations(age, owner, limit)]

    assert listed() == ["a", "d", "c", "b"]
    assert (listed("ann"), listed(None), listed("eve")) == (["a", "c"], ["b"], [])
    assert (listed(limit=2), listed("ann", 1), listed(limit=0)) == (["a", "d"], ["a"], [])
    assert (listed("ann", 9, NOW), listed("ann", 9, AGES)) == (["a", "c"], [])
    assert (listed(age=NOW), listed(age=AGES)) == (listed(), [])
    assert [store.count_conversations(None, owner) for owner in (..., "ann", None)] == [4, 2, 1]
    assert (store.count_conversations(NOW), store.count_conversations(AGES)) == (4, 0)


def test_a_list_of_conversations_is_searched_and_continued(store: Store) -> None:
    """By part of an id, in any case; after the last one of the page before."""
    for id_ in ("Talk_1", "talk-2", "other", "TALK_3"):
        store.begin_turn(Address(id_, "ann"))

    def listed(search: str | None, size: int = 2) -> list[str]:
        pages, after = [], None
        while page := [*store.conversations(None, "ann", size, search=search, after=after)]:
            pages += [info.id for info in page]
            after = (page[-1].used_at, page[-1].id)
        return pages

    assert listed(None) == ["TALK_3", "other", "talk-2", "Talk_1"]
    assert listed("talk") == ["TALK_3", "talk-2", "Talk_1"]
    assert listed("lk_", 1) == ["TALK_3", "Talk_1"]  # no wildcard
    assert (listed("%"), listed("\\")) == ([], [])


def test_pruning_forgets_what_was_not_used_for_so_long(store: Store) -> None:
    """In batches, each of which tells how many it forgot; what was used since stays."""
    for number in range(5):
        store.refer(Address(f"chat-{number}"), new_keys("recipe", 2))

    assert list(store.prune(AGES, 2)) == []
    assert list(store.prune(NOW, 2)) == [2, 2, 1]
    assert list(store.conversations()) == []
    assert refs_in(store, Address("chat-1")) == {}


def test_pruning_leaves_numbers_behind_and_later_removes_them(store: Store) -> None:
    """Numbers are kept as long again as conversations are."""
    chats = [Address(f"chat-{number}") for number in range(5)]
    for chat in chats:
        store.refer(chat, [*new_keys("recipe", 2), ("order", 7)])
        store.forget(chat)

    assert list(store.prune(AGES, 2)) == []
    assert store.stats().left_counters == 10
    assert store.refer(chats[0], new_keys("recipe", 1))[0].ref.number == 3
    assert list(store.prune(NOW, 2)) == [1]
    assert store.stats().left_counters == 0
    assert store.refer(chats[1], new_keys("recipe", 1))[0].ref.number == 1


def test_what_is_kept_of_a_row_beside_its_refs_is_erased_everywhere(store: Store) -> None:
    """Its label, its draft and what prompts have, for whomever; other rows and tables stay."""
    row, other = ("recipe", uuid.uuid4()), ("recipe", uuid.uuid4())
    elsewhere = Address("chat-8", "bob", lambda _: "kitchen.recipes")
    alone = Address("chat-6")
    for address in (CHAT, TEAM, elsewhere):
        store.refer(address, [other, row], {row: "Ann's soup", other: "Stew"})
        store.note(address, [Activity(other, "read")], "model")
        store.add_step(address, '{"note": "Ann\'s soup"}')
    drafts = [NewDraft("recipe", '{"name": "Ann\'s soup"}', "Ann's soup")] * 2
    saved, pending = [entry.ref for entry in store.draft(alone, drafts)]
    store.reserve_keys(alone, {saved: row[1]})
    store.confirm_drafts(alone, [saved])

    assert sum(store.erase(row, "recipes", 2)) == 3
    for address in (CHAT, TEAM):
        labels = {entry.key: entry.label for entry in store.entries(address)}
        assert labels == {row[1]: None, other[1]: "Stew"}
        assert (store.activity(address, 9).entries, store.steps(address, 9)) == ([], [])
    assert {entry.label for entry in store.entries(elsewhere)} == {"Stew", "Ann's soup"}
    assert len(store.activity(elsewhere, 9).entries) == len(store.steps(elsewhere, 9)) == 1
    kept = store.read_drafts(alone, [saved, pending])
    assert (kept[saved].state, kept[saved].label, kept[saved].content) == ("saved", None, "{}")
    assert (kept[pending].label, kept[pending].content) == (drafts[1].label, drafts[1].content)
    assert list(store.erase(("recipe", uuid.uuid4()), None, 2)) == []


def test_the_stats_count_everything(store: Store) -> None:
    """Conversations, refs by entity, rows that are gone, and counters that were left."""
    begin(store)
    store.fork(CHAT, FORK.id)
    store.forget(FORK)
    store.refer(TEAM, new_keys("meal_plan", 2))

    stats = store.stats()

    counted = RegistryStats(2, {"meal_plan": 2, "order": 1, "recipe": 3}, 1, 2)
    assert replace(stats, table_bytes=None, index_bytes=None) == counted
    assert list(stats.refs) == ["meal_plan", "order", "recipe"]
    if isinstance(store, PostgresStore):
        assert (stats.table_bytes or 0) > 0
        assert (stats.index_bytes or 0) > 0


def test_an_id_or_owner_that_cannot_be_kept_is_refused(store: Store) -> None:
    """Wherever it comes in, before anything is sent."""
    begin(store)

    for text in ("", "x" * 10_000, "a\nb", "a\0b", "a\x7fb", "\ud800"):
        with pytest.raises(ConversationIdError, match="id is empty, too long or has control"):
            Address(text)
        with pytest.raises(ConversationIdError, match="owner is empty, too long or has control"):
            Address("chat-7", text)
        with pytest.raises(ConversationIdError):
            store.fork(CHAT, text)
        with pytest.raises(ConversationIdError):
            store.describe(text)
    with pytest.raises(ConversationIdError, match="id is a int; give text, such as str"):
        Address(7)  # type: ignore[arg-type]
