"""The map of a conversation: from refs to keys and back, and what is wrong with a bad ref."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from alfred_refs import (
    BadRefError,
    Conversation,
    EntityNameError,
    GoneRefError,
    KeyTypeError,
    RawKeyError,
    RefRegistry,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.mapping.keys import ShownRef
from tests.conversation.conftest import elsewhere
from tests.models import Cook, MealPlan, Order, OrderLine, Person, Recipe, devices

KEYS = [uuid.UUID(int=n) for n in range(1, 21)]


@pytest.fixture
def chat(memory: RefRegistry) -> Conversation:
    """A conversation that knows three recipes and a meal plan."""
    chat = memory.conversation("chat-7")
    chat.refer_all(Recipe, KEYS[:3])
    chat.refer(MealPlan, KEYS[0])
    return chat


def test_refer_and_resolve_are_inverse(chat: Conversation) -> None:
    """In any order and more than once, with refs of type `str`: frameworks print subclasses."""
    refs = chat.refer_all(Recipe, [KEYS[2], KEYS[0], KEYS[2]])

    assert refs == ["recipe_3", "recipe_1", "recipe_3"]
    assert {type(ref) for ref in refs} == {ShownRef}
    assert chat.resolve_all(refs, Recipe) == [KEYS[2], KEYS[0], KEYS[2]]


def test_an_entity_is_a_class_a_table_or_a_name(chat: Conversation) -> None:
    """A subclass names the entity of its base."""
    assert chat.refer(Recipe.__table__, KEYS[0]) == "recipe_1"  # type: ignore[arg-type]
    assert chat.refer("recipe", KEYS[0]) == "recipe_1"
    assert chat.refer(Cook, KEYS[5]) == "person_1"


def test_keys_of_every_type_have_refs(chat: Conversation) -> None:
    """Integers and tuples are keys like UUIDs, and come back as they were."""
    assert chat.refer(Order, 12) == "order_1"
    assert chat.resolve(chat.refer("order_line", (12, 2))) == (12, 2)


@pytest.mark.parametrize("entity", [Person, Cook, Cook.__table__, Recipe])
def test_a_uuid_and_its_text_are_one_key(chat: Conversation, entity: Any) -> None:
    """Whichever the application has, the key has one ref."""
    ref = chat.refer(entity, KEYS[5])

    assert chat.refer(entity, str(KEYS[5]).upper()) == ref
    assert chat.refer_all(entity, [KEYS[5].hex, KEYS[5]]) == [ref, ref]


def test_a_resolved_key_is_what_the_column_has(chat: Conversation) -> None:
    """A column that shows UUIDs as text is given text; a plain name tells of no column."""
    key = str(KEYS[5])
    ref = chat.refer(Person, key)

    assert chat.resolve(ref, Person) == chat.resolve(ref, Cook) == key
    assert chat.resolve_all([ref, ref], Person.__table__) == [key, key]  # type: ignore[arg-type]
    assert chat.resolve(ref, "person") == chat.resolve(ref) == KEYS[5]
    assert chat.resolve("recipe_1", Recipe) == KEYS[0]


@pytest.mark.parametrize(
    ("entity", "key", "given"),
    [
        *((Recipe, "c69607bb", "str"), (Recipe, 77_001, "int"), (Order, "77001", "str")),
        *((Order, True, "bool"), (Order, KEYS[5], "UUID"), (Recipe, (KEYS[5],), "tuple")),
        *((Person, 1.5, "float"), (Person, "not a key", "str")),
    ],
)
def test_a_key_of_another_type_is_refused(
    chat: Conversation, entity: Any, key: Any, given: str
) -> None:
    """It would get a ref that no row has; the error tells the types and not the value."""
    with pytest.raises(KeyTypeError) as caught:
        chat.refer_all(entity, [key])

    assert caught.value.given == given
    assert str(key) not in str(caught.value)


@pytest.mark.parametrize("type_", [float, Decimal, Fraction])
def test_a_whole_number_of_any_type_is_an_integer(
    chat: Conversation, type_: Callable[[int], Any]
) -> None:
    """Data frames have integers of their own, which are numbers but no `int`."""
    assert chat.refer(Order, type_(77_001)) == chat.refer(Order, 77_001) == "order_1"
    assert chat.refer(OrderLine, (type_(12), 2)) == chat.refer(OrderLine, (12, 2))


@pytest.mark.slow
def test_a_key_under_a_plain_name_is_taken_as_it_is(chat: Conversation) -> None:
    """No column is known for a name, nor for a composite key."""
    assert [chat.refer("cup", key) for key in ("7", 7, "7")] == ["cup_1", "cup_2", "cup_1"]
    assert chat.refer(OrderLine, (12, 2)) == "order_line_1"
    assert chat.refer(devices, str(KEYS[5])) == chat.refer(devices, KEYS[5]) == "device_1"


def test_a_name_that_refs_cannot_be_made_of_is_refused(chat: Conversation) -> None:
    """A ref is minted only if it can be read again."""
    with pytest.raises(EntityNameError, match="'Foo Bar' is not lower-case snake_case"):
        chat.refer("Foo Bar", 1)
    with pytest.raises(EntityNameError):
        chat.resolve("recipe_1", "recipe_1")


def test_any_entity_is_resolved_where_none_is_asked_for(chat: Conversation) -> None:
    """The ref itself says which entity it names."""
    assert chat.resolve_all(["recipe_1", "meal_plan_1"]) == [KEYS[0], KEYS[0]]


def test_another_process_knows_the_same_refs(memory: RefRegistry, chat: Conversation) -> None:
    """A conversation opened anew has nothing in memory and asks the store."""
    again = elsewhere(memory).conversation(chat.id)

    assert again.resolve("recipe_3", Recipe) == KEYS[2]
    assert again.refer(Recipe, KEYS[3]) == "recipe_4"


KNOWN = "known: 'recipe_1', 'recipe_2', 'recipe_3'"


@pytest.mark.parametrize(
    ("ref", "error", "message"),
    [
        *(
            (ref, UnknownRefError, f"{ref!r} is not a known recipe; {KNOWN}")
            for ref in ("recipe_9", "hello", "meal_plan_2")
        ),
        *(
            (
                *(ref, UnknownRefError),
                f"{ref!r} is not a known recipe; did you mean 'recipe_2'? {KNOWN}",
            )
            for ref in ("recpie_2", "Recipe 2", "recipe_02")
        ),
        (
            *("meal_plan_1", WrongEntityError),
            f"'meal_plan_1' names entity 'meal_plan' where 'recipe' is needed; {KNOWN}",
        ),
        (
            *("gen_recipe_1", UnknownDraftError),
            (
                "'gen_recipe_1' is not a known draft of entity 'recipe'; no such draft is pending "
                "in this conversation; read the drafts, or generate one"
            ),
        ),
        (
            *(str(KEYS[0]), RawKeyError),
            f"a raw key was given as text where a ref is needed; give a ref; {KNOWN}",
        ),
    ],
)
def test_a_bad_ref_says_what_is_wrong_and_how_to_go_on(
    chat: Conversation, ref: str, error: type[BadRefError], message: str
) -> None:
    """From the message alone a model can choose a ref that works."""
    with pytest.raises(BadRefError) as caught:
        chat.resolve(ref, Recipe)

    assert (type(caught.value), str(caught.value)) == (error, message)


def test_a_name_like_no_other_is_told_what_there_is(memory: RefRegistry) -> None:
    """Some of each entity, where none is asked for."""
    chat = memory.conversation("chat-9")
    for entity, number in itertools.product(("recipe", "plan", "order"), range(5)):
        chat.refer(entity, number)
    with pytest.raises(UnknownRefError) as caught:
        chat.resolve("invoice_1")
    assert caught.value.known == tuple(
        f"{entity}_{n}" for entity in ("order", "plan", "recipe") for n in (1, 2, 3)
    )
    with pytest.raises(UnknownRefError, match="known: 'plan_1', 'plan_2'"):
        chat.resolve("plan_9")


def test_a_text_that_contains_a_key_is_not_repeated(chat: Conversation) -> None:
    """In any spelling, with anything around it: the error shows none of it."""
    around = [
        *(" {}", "{} ", "recipe_{}", "recipe {}", "id={}", "urn:uuid:{}", "{{{}}}", "'{}'\n"),
        *("{}_1", "gen_{}_1", "a{}", "{}f", "recipe_1 ({})"),
    ]
    spellings = [
        *("a508000d-9b55-40f0-8886-dbdd88bd2de2", "a508000d9b5540f08886dbdd88bd2de2"),
        *("A508000D-9B55-40F0-8886-DBDD88BD2DE2", "a508000d_9b55_40f0_8886_dbdd88bd2de2"),
    ]
    for text, key, entity in itertools.product(around, spellings, (Recipe, None)):
        with pytest.raises(RawKeyError) as caught:
            chat.resolve(text.format(key), entity)
        assert caught.value.ref is None
        assert key[:8] not in str(caught.value) + repr(vars(caught.value))


def test_a_text_is_quoted_as_a_plain_string(chat: Conversation) -> None:
    """A subclass of `str`, such as NumPy's, may have another `repr()`."""

    class Text(str):
        __slots__ = ()

        def __repr__(self) -> str:
            return f"Text({super().__repr__()})"

    with pytest.raises(UnknownRefError, match=r"^'recipe_99' is") as caught:
        chat.resolve(Text("recipe_99"), Recipe)

    assert type(caught.value.ref) is str


def test_a_part_of_a_key_is_repeated(chat: Conversation) -> None:
    """It names no row, and who made it up must see what was wrong."""
    with pytest.raises(UnknownRefError, match="'c69607bb' is not a known recipe"):
        chat.resolve("c69607bb", Recipe)


def test_a_gone_row_is_shown_and_not_resolved(memory: RefRegistry, chat: Conversation) -> None:
    """To show its ref once more, here or in another process, does not bring the row back."""
    chat.note_gone([("recipe", KEYS[1])], "was deleted")

    for each in (chat, elsewhere(memory).conversation("chat-7")):
        assert each.refer(Recipe, KEYS[1]) == "recipe_2"
        with pytest.raises(GoneRefError) as caught:
            each.resolve("recipe_2", Recipe)
        assert str(caught.value) == (
            "'recipe_2' was deleted and cannot be used; known: 'recipe_1', 'recipe_3'"
        )


def test_why_a_row_is_gone_is_not_undone_by_one_that_was_not_saved(
    memory: RefRegistry, chat: Conversation
) -> None:
    """It was deleted, and an insert with its key has come to nothing."""
    chat.note_gone([("recipe", KEYS[1])], "was deleted")
    chat.note_gone([("recipe", KEYS[1])], "was never saved")

    for each in (chat, elsewhere(memory).conversation("chat-7")):
        with pytest.raises(GoneRefError, match="'recipe_2' was deleted"):
            each.resolve("recipe_2")


def test_names_that_a_model_invents_are_not_remembered(chat: Conversation) -> None:
    """A long-lived process does not grow by what is asked for in vain."""
    before = len(chat._cache._keys), len(chat._cache._refs)
    for number in range(20):
        with pytest.raises(UnknownRefError):
            chat.resolve(f"junk{'x' * number}_1")
    assert not chat.has_cached([("junk", 1)])

    assert (len(chat._cache._keys), len(chat._cache._refs)) == before


def test_a_key_without_ref_leaves_no_trace_when_it_goes(chat: Conversation) -> None:
    """Rows that were never shown are never mentioned."""
    chat.note_gone([("recipe", KEYS[9])], "was never saved")

    assert chat.refer(Recipe, KEYS[9]) == "recipe_4"
    assert chat.resolve("recipe_4") == KEYS[9]


def test_one_bad_ref_refuses_the_list(chat: Conversation) -> None:
    """The error is about the first bad one, and none is resolved."""
    with pytest.raises(UnknownRefError, match="'recipe_8' is not"):
        chat.resolve_all(["recipe_1", "recipe_8", "recipe_9"], Recipe)


def test_a_ref_of_another_conversation_is_unknown(memory: RefRegistry, chat: Conversation) -> None:
    """Nothing of another conversation is offered."""
    chat.refer(Recipe, KEYS[0])

    with pytest.raises(UnknownRefError) as caught:
        memory.conversation("chat-8").resolve("recipe_1", Recipe)
    assert caught.value.known == ()


def test_many_known_refs_are_cut_to_the_nearest(chat: Conversation) -> None:
    """An error stays short: the ten nearest in number, in natural order."""
    chat.refer_all(Recipe, KEYS)

    with pytest.raises(UnknownRefError) as caught:
        chat.resolve("recipe_21", Recipe)
    assert caught.value.known == tuple(f"recipe_{n}" for n in range(11, 21))


def test_an_unknown_entity_is_guessed_by_its_spelling(chat: Conversation) -> None:
    """Where any entity will do, the one that is spelt most alike is offered."""
    with pytest.raises(UnknownRefError) as caught:
        chat.resolve("mealplan_1")
    assert (caught.value.near, caught.value.known) == ("meal_plan_1", ("meal_plan_1",))


@pytest.mark.slow
def test_the_names_of_a_key_outlive_its_row(conversation: Conversation) -> None:
    """By entity, and of the key's own type: a UUID has its number in common with an integer."""
    key = uuid.UUID(int=7)
    recipe, order = conversation.refer(Recipe, key), conversation.refer(Order, 7)
    assert conversation.refs_by_entity(key) == {"recipe": recipe}
    assert conversation.refs_by_entity(7) == {"order": order}

    conversation.note_gone([("recipe", key)], "was deleted")
    assert conversation.refs_by_entity(key) == {"recipe": recipe}
    assert conversation.refs_by_entity(uuid.UUID(int=8)) == {}


def test_keys_that_are_text_are_listed(conversation: Conversation) -> None:
    """Those met in this process."""
    conversation.refer("recipe", 7)
    conversation.refer("country", "Zubrowka")

    assert conversation.text_keys() == ["Zubrowka"]


def test_the_refs_met_for_a_key_are_of_that_key(conversation: Conversation) -> None:
    """A UUID and an integer that are looked up by one number are two keys."""
    conversation.refer_all("order", [41])
    conversation.refer_all("recipe", [uuid.UUID(int=41)])

    assert conversation.cached_refs(41) == ["order_1"]
    assert conversation.cached_refs(uuid.UUID(int=41)) == ["recipe_1"]
    assert conversation.cached_refs(42) == []
