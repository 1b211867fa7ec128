"""The drafts of a conversation: what they hold, what becomes of them, what is said of others."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from alfred_refs import (
    BadRefError,
    Conversation,
    DiscardedDraftError,
    Draft,
    DraftContentError,
    DraftRefError,
    GoneRefError,
    LabelError,
    RawKeyError,
    RefPolicy,
    RefRegistry,
    RefSession,
    SavedDraftError,
    SetupError,
    StaleDraftError,
    UnknownConversationError,
    UnknownDraftError,
    WrongEntityError,
)
from alfred_refs.store.memory import MemoryStore
from tests.models import MealPlan, Recipe

pytestmark = pytest.mark.usefixtures("one_base")

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
SOUP: dict[str, Any] = {"name": "Soup", "plans": [{"day": "2026-05-01"}]}


@pytest.fixture
def registry() -> RefRegistry:
    """A registry in memory that knows what recipes are called."""
    return RefRegistry(store=MemoryStore(), policy=RefPolicy(labels={Recipe: "name"}))


@pytest.fixture
def chat(registry: RefRegistry) -> Conversation:
    """A conversation in its second turn."""
    chat = registry.conversation("chat-7", owner="ann")
    chat.begin_turn()
    chat.begin_turn()
    return chat


def elsewhere(registry: RefRegistry) -> Conversation:
    """Return the conversation as another process has it."""
    return RefRegistry(store=registry._store).conversation("chat-7", owner="ann")


def save(chat: Conversation, ref: str, key: uuid.UUID = KEY) -> None:
    """Do what saving a draft does to the registry."""
    chat.reserve_keys({ref: key})
    chat.confirm_drafts([ref])


def test_a_draft_is_there_in_later_turns_and_other_processes(
    registry: RefRegistry, chat: Conversation
) -> None:
    """As it was generated, by a ref of its own, pending, and with what the class calls it."""
    draft = chat.draft(Recipe, SOUP)
    other = elsewhere(registry)
    other.begin_turn()

    assert draft == Draft("gen_recipe_1", "recipe", SOUP, "Soup", 2, 2, 1, "pending")
    assert list(other.drafts()) == other.read_drafts(["gen_recipe_1"]) == [draft]
    assert other.draft("recipe", {}).turn == 3
    assert chat.draft("recipe", {}).turn == 2
    with pytest.raises(FrozenInstanceError):
        draft.state = "saved"  # type: ignore[misc]
    assert hash(draft) == hash(other.read_drafts(["gen_recipe_1"])[0])


def test_a_draft_holds_a_copy(chat: Conversation) -> None:
    """What is done to the given content, or to what was read, does not reach the registry."""
    given: dict[str, Any] = {"plans": [{"day": "2026-05-01"}]}
    draft = chat.draft(Recipe, given)
    given["plans"].append({})
    draft.content["plans"].clear()

    assert chat.read_drafts([draft.ref])[0].content == {"plans": [{"day": "2026-05-01"}]}


@pytest.mark.parametrize(
    ("entity", "content", "label", "called"),
    [
        (Recipe, {"name": "Soup"}, "Dal", "Dal"),
        (Recipe, {"name": f"Soup\n of\x1b {KEY}"}, None, "Soup of <key>"),
        (Recipe, {"name": "Soup"}, f"Dal\n{KEY}", "Dal <key>"),
        (Recipe, {"name": None}, None, None),
        (Recipe, {"name": "Soup"}, "", None),
        (Recipe, {}, None, None),
        (MealPlan, {"day": "2026-05-01"}, None, None),
        ("thing_of_no_class", {"name": "Soup"}, None, None),
    ],
)
def test_a_draft_is_called_as_its_class_says(
    chat: Conversation, entity: Any, content: dict[str, Any], label: str | None, called: str
) -> None:
    """Or as was given; in one line, without keys, and not at all where nobody can say."""
    assert chat.draft(entity, content, label).label == called


def chat_with(label: Callable[[Any], str | None], model: type[Any]) -> Conversation:
    """Return a conversation in which a function says what rows of a class are called."""
    policy = RefPolicy(labels={model: label})
    return RefRegistry(store=MemoryStore(), policy=policy).conversation("chat-7")


def test_a_label_that_cannot_be_made_of_a_draft_is_none() -> None:
    """Where a value is not there yet; that is no fault of anybody."""
    chat = chat_with(lambda recipe: recipe.name.title(), Recipe)

    contents: list[dict[str, Any]] = [{"name": "soup"}, {"name": None}, {}]
    assert [chat.draft(Recipe, each).label for each in contents] == ["Soup", None, None]


def test_a_label_is_made_of_values_as_rows_have_them() -> None:
    """A date is one, in what is nested too; what is named by a ref alone is not known."""
    plans = chat_with(lambda plan: plan.day.strftime("%d %B"), MealPlan)
    recipes = chat_with(lambda recipe: str(recipe.plans[0].day.year), Recipe)

    drafts = [plans.draft(MealPlan, {"day": "2026-05-01"}), plans.draft(MealPlan, {})]
    assert [draft.label for draft in drafts] == ["01 May", None]
    assert plans.edit_draft("gen_meal_plan_2", {"day": "2026-05-02"}).label == "02 May"
    assert recipes.draft(Recipe, {"plans": [{"day": "2026-05-01"}]}).label == "2026"
    recipes.draft(MealPlan, {})
    assert recipes.draft(Recipe, {"plans": ["gen_meal_plan_1"]}).label is None


@pytest.mark.parametrize(
    ("label", "fact"),
    [
        (lambda plan: plan.day.nothing, "is a function that raised AttributeError"),
        (lambda plan: plan.day, "is a function that returned a date"),
        (lambda plan: plan.recipe_id, "is a function of 'recipe_id', which may hold keys"),
    ],
)
def test_a_function_that_makes_no_label_is_told(label: Callable[[Any], Any], fact: str) -> None:
    """As it is for rows."""
    chat = chat_with(label, MealPlan)
    chat.draft(MealPlan, {}, label="a plan")
    with pytest.raises(LabelError, match=fact):
        chat.draft(MealPlan, {"day": "2026-05-01"})
    with pytest.raises(LabelError, match=fact):
        chat.edit_draft("gen_meal_plan_1", {"day": "2026-05-01"})


def test_an_edit_replaces_what_a_draft_holds(chat: Conversation) -> None:
    """In the turn in which it is made, with the label of the new content, or else the old one."""
    draft = chat.draft(Recipe, SOUP)
    chat.begin_turn()

    edited = chat.edit_draft(draft.ref, {"name": "Dal"}, version=draft.version)
    again = chat.edit_draft(draft.ref, {"parent": None})
    named = chat.edit_draft(draft.ref, {"parent": None}, label="Dal Makhani")

    assert edited == Draft("gen_recipe_1", "recipe", {"name": "Dal"}, "Dal", 2, 3, 2, "pending")
    assert (again.label, again.version, again.content) == ("Dal", 3, {"parent": None})
    assert (named.label, list(chat.drafts())) == ("Dal Makhani", [named])


def test_an_edit_of_what_was_edited_meanwhile_is_refused(
    registry: RefRegistry, chat: Conversation
) -> None:
    """Nobody's work is undone by one who has not seen it."""
    draft = chat.draft(Recipe, SOUP)
    theirs = elsewhere(registry).edit_draft(draft.ref, {"name": "Dal"}, version=1)

    with pytest.raises(
        StaleDraftError, match=r"has version 2, but the edit is based on version 1"
    ):
        chat.edit_draft(draft.ref, {"name": "Stew"}, version=1)

    assert list(chat.drafts()) == [theirs]
    assert registry.counts.draft == 1


def test_content_that_cannot_be_kept_takes_no_number(chat: Conversation) -> None:
    """It is refused before the store is asked, and a draft that was to hold it is as it was."""
    with pytest.raises(DraftContentError, match="which is not JSON"):
        chat.draft(Recipe, {"recipe_id": KEY})
    draft = chat.draft(Recipe, SOUP)
    with pytest.raises(DraftContentError):
        chat.edit_draft(draft.ref, [])  # type: ignore[arg-type]

    assert (draft.ref, list(chat.drafts())) == ("gen_recipe_1", [draft])


def test_drafts_are_listed_by_entity_and_state(chat: Conversation) -> None:
    """Those that are pending, unless others are asked for."""
    for entity in (Recipe, Recipe, MealPlan, Recipe):
        chat.draft(entity, {})
    chat.discard_drafts(["gen_recipe_1"])
    save(chat, "gen_recipe_2")

    def refs(*arguments: Any) -> list[str]:
        return [draft.ref for draft in chat.drafts(*arguments)]

    assert refs() == ["gen_meal_plan_1", "gen_recipe_3"]
    assert refs(Recipe) == refs("recipe") == refs(Recipe.__table__) == ["gen_recipe_3"]
    assert refs(None, ["saved", "discarded"]) == ["gen_recipe_1", "gen_recipe_2"]
    with pytest.raises(SetupError, match=r"drafts cannot be 'gone'; give some of \('pending', "):
        chat.drafts(states=["gone"])  # type: ignore[list-item]


def test_discarded_drafts_are_kept_and_not_used(chat: Conversation) -> None:
    """They are listed if asked for, discarding them again changes nothing, the rest is refused."""
    drafts = [chat.draft(Recipe, {"name": name}) for name in ("Soup", "Stew")]
    ref = drafts[0].ref

    [discarded] = chat.discard_drafts([ref])

    assert (discarded.state, discarded.content) == ("discarded", {"name": "Soup"})
    assert chat.discard_drafts([ref]) == list(chat.drafts(states=["discarded"])) == [discarded]
    uses: list[Callable[[], object]] = [
        lambda: chat.read_drafts([drafts[1].ref, ref]),
        lambda: chat.edit_draft(ref, {}),
        lambda: chat.reserve_keys({ref: KEY}),
        lambda: chat.resolve(ref),
        lambda: chat.resolve(ref, Recipe),
    ]
    for use in uses:
        with pytest.raises(
            DiscardedDraftError, match=r"pending: 'gen_recipe_2' \(\"Stew\"\)"
        ) as caught:
            use()
        assert (caught.value.ref, caught.value.known) == (ref, ("gen_recipe_2",))


@pytest.mark.parametrize(
    "ref", ["gen_recipe_9", "gen_order_1", "recipe_1", "GEN_recipe_1", "", "x"]
)
def test_what_is_no_draft_is_told_with_those_that_are(chat: Conversation, ref: str) -> None:
    """Of the entity, or else of any; labels cannot pass for refs; none is of another chat."""
    chat.refer("recipe", KEY)
    chat.draft("recipe", {}, label="a', 'gen_recipe_7' (\"b")
    chat._open(type(chat._address)("chat-8", "ann")).draft("recipe", {}, label="Secret")
    uses: list[Callable[[], object]] = [
        lambda: chat.read_drafts(["gen_recipe_1", ref]),
        lambda: chat.edit_draft(ref, {}),
        lambda: chat.discard_drafts(["gen_recipe_1", ref]),
        lambda: chat.reserve_keys({"gen_recipe_1": KEY, ref: KEY}),
    ]
    first = "'gen_recipe_1' (\"" + r"a\', \'gen_recipe_7\' (\"b" + '")'
    meant = f"did you mean {first}? " if ref.lower() == "gen_recipe_1" else ""
    for use in uses:
        with pytest.raises(UnknownDraftError) as caught:
            use()
        assert str(caught.value) == f"{ref!r} is not a known draft; {meant}pending: {first}"
    assert [draft.state for draft in chat.drafts()] == ["pending"]


def test_a_key_in_the_place_of_a_draft_is_not_repeated(chat: Conversation) -> None:
    """It is called what it is."""
    with pytest.raises(RawKeyError, match="a raw key was given"):
        chat.read_drafts([str(KEY)])


def test_a_draft_of_another_entity_is_refused(chat: Conversation) -> None:
    """Where it matters which."""
    chat.draft(MealPlan, {})
    chat.draft(Recipe, {})

    with pytest.raises(WrongEntityError, match="names entity 'meal_plan' where 'recipe'"):
        chat.read_drafts(["gen_recipe_1", "gen_meal_plan_1"], Recipe)
    assert [each.ref for each in chat.read_drafts(["gen_recipe_1"], Recipe)] == ["gen_recipe_1"]


def test_a_pending_draft_does_not_resolve(registry: RefRegistry, chat: Conversation) -> None:
    """Not with a key reserved either: its row may not be there. An unknown one is called so."""
    chat.draft(Recipe, SOUP)
    chat.reserve_keys({"gen_recipe_1": KEY})

    with pytest.raises(DraftRefError, match="a draft's ref where a saved recipe is needed; save"):
        chat.resolve("gen_recipe_1", Recipe)
    with pytest.raises(UnknownDraftError, match="a known draft of entity 'recipe'; pending: 'gen"):
        chat.resolve("gen_recipe_2", Recipe)
    assert registry.counts.draft == 2


def test_a_saved_draft_resolves_to_its_row_for_ever(
    registry: RefRegistry, chat: Conversation
) -> None:
    """In all processes, in any order with other refs; the row shows by a ref as any other."""
    chat.draft(Recipe, SOUP)
    save(chat, "gen_recipe_1")
    other = elsewhere(registry)

    assert chat.resolve("gen_recipe_1") == other.resolve("gen_recipe_1", "recipe") == KEY
    assert other.refer("recipe", KEY) == "recipe_1"
    for each in (chat, other, elsewhere(registry)):
        assert each.resolve_all(["recipe_1", "gen_recipe_1"], Recipe) == [KEY, KEY]
        assert each.refer("recipe", KEY) == "recipe_1"
        [draft] = each.read_drafts(["gen_recipe_1"])
        assert (draft.state, draft.saved, draft.key) == ("saved", "recipe_1", None)
    with pytest.raises(WrongEntityError, match="names entity 'recipe' where 'meal_plan'"):
        chat.resolve("gen_recipe_1", "meal_plan")


def test_a_saved_draft_is_asked_for_once(registry: RefRegistry, chat: Conversation) -> None:
    """As long as its row is known; and no answer is kept of one that is pending."""
    chat.draft(Recipe, SOUP)
    with pytest.raises(DraftRefError):
        chat.resolve("gen_recipe_1")
    save(chat, "gen_recipe_1")
    chat.refer("recipe", KEY)
    chat.resolve("gen_recipe_1")
    before = registry.counts.round_trips

    assert chat.resolve_all(["gen_recipe_1", "recipe_1", "gen_recipe_1"], Recipe) == 3 * [KEY]
    assert chat.resolve("gen_recipe_1") == KEY
    assert registry.counts.round_trips == before
    with pytest.raises(WrongEntityError):
        chat.resolve("gen_recipe_1", "meal_plan")
    chat.note_gone([("recipe", KEY)], "was deleted")
    with pytest.raises(GoneRefError):
        chat.resolve("gen_recipe_1")
    chat._store.mark(chat._address, [("recipe", KEY)], None)  # somebody has found it again
    assert chat.resolve("gen_recipe_1") == KEY


def test_a_saved_draft_has_a_ref_as_soon_as_it_is_read(chat: Conversation) -> None:
    """Though nobody has read its row yet."""
    chat.draft(Recipe, SOUP)
    save(chat, "gen_recipe_1")

    assert [draft.saved for draft in chat.drafts(states=["saved"])] == ["recipe_1"]
    assert chat.resolve("recipe_1") == KEY


def test_a_saved_draft_is_changed_by_its_row_alone(chat: Conversation) -> None:
    """Editing and discarding say which ref to use; nothing beside it is discarded."""
    for _ in range(2):
        chat.draft(Recipe, SOUP)
    save(chat, "gen_recipe_1")

    for use in (
        lambda: chat.edit_draft("gen_recipe_1", {}),
        lambda: chat.discard_drafts(["gen_recipe_2", "gen_recipe_1"]),
    ):
        with pytest.raises(SavedDraftError, match=r"was saved as 'recipe_1'.*use 'recipe_1'"):
            use()
    assert [draft.ref for draft in chat.drafts()] == ["gen_recipe_2"]


@pytest.mark.parametrize("at", ["here", "there"])
def test_a_saved_draft_whose_row_was_deleted_is_gone(
    registry: RefRegistry, chat: Conversation, at: str
) -> None:
    """As the ref of its row is, in the process that deleted it and in others."""
    chat.draft(Recipe, SOUP)
    save(chat, "gen_recipe_1")
    chat.resolve("gen_recipe_1")
    chat.refer("recipe", KEY)
    chat.note_gone([("recipe", KEY)], "was deleted")

    with pytest.raises(GoneRefError, match="'gen_recipe_1' was deleted and cannot be used"):
        (chat if at == "here" else elsewhere(registry)).resolve("gen_recipe_1")


def test_a_key_is_told_to_trusted_code_alone(chat: Conversation) -> None:
    """To who asks for keys, and never in print; that there is one is no secret."""
    chat.draft(Recipe, SOUP)
    reserved = chat.reserve_keys({"gen_recipe_1": KEY})["gen_recipe_1"]

    assert (reserved.key, reserved.reserved, reserved.state) == (KEY, True, "pending")
    assert [draft.key for draft in chat.drafts(keys=True)] == [KEY]
    assert chat.read_drafts(["gen_recipe_1"], keys=True)[0].key == KEY
    assert [(draft.key, draft.reserved) for draft in chat.drafts()] == [(None, True)]
    assert "a508000d" not in f"{reserved}{reserved!r}"
    assert chat.reserve_keys({"gen_recipe_1": uuid.uuid4()})["gen_recipe_1"].key == KEY


def test_each_use_of_a_draft_is_a_round_trip(registry: RefRegistry, chat: Conversation) -> None:
    """However many drafts it is about; two where something is looked at before."""
    for name in ("Soup", "Stew"):
        chat.draft(Recipe, {"name": name})
    both = ["gen_recipe_1", "gen_recipe_2"]
    uses: list[tuple[Callable[[], object], int]] = [
        (lambda: chat.draft(Recipe, SOUP), 1),
        (lambda: chat.read_drafts(both), 1),
        (lambda: chat.edit_draft(both[0], {}), 1),
        (lambda: chat.discard_drafts(both[1:]), 2),
        (lambda: chat.reserve_keys({both[0]: KEY}), 1),
        (lambda: chat.confirm_drafts(both[:1]), 1),
        (lambda: chat.resolve_all(both[:1] * 2), 1),
    ]
    for use, trips in uses:
        before = registry.counts.round_trips
        use()
        assert registry.counts.round_trips == before + trips


def test_what_was_forgotten_has_no_drafts(chat: Conversation) -> None:
    """Their refs are unknown, and never another draft's."""
    chat.draft(Recipe, SOUP)
    save(chat, "gen_recipe_1")
    chat.resolve("gen_recipe_1")
    chat.forget()

    with pytest.raises(UnknownDraftError, match="no such draft is pending"):
        chat.resolve("gen_recipe_1")
    assert chat.draft(Recipe, SOUP).ref == "gen_recipe_2"


def test_another_owner_has_none_of_the_drafts(registry: RefRegistry, chat: Conversation) -> None:
    """The conversation is unknown to them, whatever they try."""
    chat.draft(Recipe, SOUP)
    theirs = registry.conversation("chat-7", owner="bob")

    for use in (
        lambda: theirs.draft(Recipe, {}),
        lambda: list(theirs.drafts()),
        lambda: theirs.read_drafts(["gen_recipe_1"]),
        lambda: theirs.edit_draft("gen_recipe_1", {}),
        lambda: theirs.discard_drafts(["gen_recipe_1"]),
        lambda: theirs.resolve("gen_recipe_1"),
    ):
        with pytest.raises((UnknownConversationError, BadRefError)) as caught:
            use()
        assert isinstance(caught.value, UnknownConversationError)
    assert [draft.content for draft in chat.drafts()] == [SOUP]


@pytest.mark.tables
def test_a_session_takes_the_ref_of_a_saved_draft(tables: Engine, recipes: list[Recipe]) -> None:
    """Wherever it takes a ref, and shows the row by its own."""
    chat = RefRegistry(tables).conversation("chat-7")
    key: Any = recipes[0].id
    chat.draft(Recipe, SOUP)
    with RefSession(tables, conversation=chat) as session:
        assert session.get_one(Recipe, "gen_recipe_1").id == "gen_recipe_1"
        save(chat, "gen_recipe_1", key)

        found = session.get_one(Recipe, "gen_recipe_1")
        names = session.scalars(select(Recipe.name).where(Recipe.id.in_(["gen_recipe_1"])))
        child = Recipe(name="F", parent_recipe_id="gen_recipe_1")
        session.add(child)
        session.commit()

        assert (found.id, found.name, names.all()) == ("recipe_1", "A", ["A"])
        assert child.parent_recipe_id == "recipe_1"


# A draft is saved once, whatever happens


def insert_draft(engine: Engine) -> uuid.UUID:
    """Do what a process does that dies before it can tell of the row: return the row's key."""
    chat = RefRegistry(engine).conversation("chat-7")
    [draft] = chat.reserve_keys({"gen_recipe_1": uuid.uuid4()}).values()
    with suppress(IntegrityError), engine.begin() as connection:
        connection.execute(insert(Recipe).values(id=draft.key, name="Soup"))
    assert isinstance(draft.key, uuid.UUID)
    return draft.key


def rows(engine: Engine) -> list[str]:
    """Return the keys of all recipes."""
    with Session(engine) as plain:
        return [str(key) for key in plain.scalars(select(Recipe.id))]


@pytest.mark.tables
def test_registries_that_save_a_draft_together_make_one_row(engine: Engine) -> None:
    """Eight bring a key each; all insert the same one, and all are told the same."""
    chat = RefRegistry(engine).conversation("chat-7")
    chat.draft(Recipe, SOUP)

    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: insert_draft(engine), range(8)))

    assert list(map(str, keys)) == rows(engine)
    assert [chat.resolve("gen_recipe_1")] == list(keys)


@pytest.mark.tables
def test_a_key_that_was_reserved_is_used_by_whoever_saves_next(engine: Engine) -> None:
    """The draft is pending until then: its row is not there."""
    chat = RefRegistry(engine).conversation("chat-7")
    chat.draft(Recipe, SOUP)
    [reserved] = chat.reserve_keys({"gen_recipe_1": KEY}).values()

    [left] = chat.drafts(keys=True)
    assert (left.reserved, left.content, left.key) == (True, SOUP, KEY)
    assert insert_draft(engine) == reserved.key
    assert (rows(engine), list(chat.drafts())) == ([str(KEY)], [])


@pytest.mark.tables
def test_a_row_that_was_committed_has_the_last_word(engine: Engine) -> None:
    """Though its draft was discarded meanwhile, and nobody was told of the row."""
    chat = RefRegistry(engine).conversation("chat-7")
    chat.draft(Recipe, SOUP)
    [reserved] = chat.reserve_keys({"gen_recipe_1": KEY}).values()
    chat.discard_drafts(["gen_recipe_1"])
    with engine.begin() as connection:
        connection.execute(insert(Recipe).values(id=reserved.key, name="Soup"))

    assert chat.read_drafts(["gen_recipe_1"])[0].saved == "recipe_1"
    assert list(chat.drafts(states=["discarded"])) == []


@pytest.mark.tables
@pytest.mark.parametrize("first", ["list", "read", "edit", "discard", "resolve", "fork"])
def test_a_row_of_which_nobody_was_told_is_found(engine: Engine, first: str) -> None:
    """The process that inserted it has died; whoever looks first finds it."""
    RefRegistry(engine).conversation("chat-7").draft(Recipe, SOUP)
    insert_draft(engine)
    chat = RefRegistry(engine).conversation("chat-7")

    match first:
        case "list":
            assert list(chat.drafts()) == []
        case "read":
            assert chat.read_drafts(["gen_recipe_1"])[0].saved == "recipe_1"
        case "edit":
            with pytest.raises(SavedDraftError, match="saved as 'recipe_1'"):
                chat.edit_draft("gen_recipe_1", {"name": "Dal"})
        case "discard":
            with pytest.raises(SavedDraftError, match="saved as 'recipe_1'"):
                chat.discard_drafts(["gen_recipe_1"])
        case "resolve":
            assert [str(chat.resolve("gen_recipe_1"))] == rows(engine)
        case "fork":
            assert list(chat.fork("chat-8").drafts()) == []

    [draft] = chat.drafts(states=["saved"])
    assert (draft.saved, [str(chat.resolve("gen_recipe_1"))]) == ("recipe_1", rows(engine))
