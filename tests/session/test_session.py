"""`RefSession`: which conversation it has, raw keys in one, and a plain session without."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from sqlalchemy import Engine, create_mock_engine, delete, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    BadRefError,
    RawKeyError,
    RefRegistry,
    RefSession,
    SetupError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from tests.models import MealPlan, Recipe
from tests.session.conftest import by_name

pytestmark = pytest.mark.usefixtures("recipes")
NOBODY = uuid.UUID("5ad1f00d-0000-4000-8000-000000000001")


def test_raw_keys_are_there_for_trusted_code(
    session: RefSession, known: dict[str, Recipe], recipes: list[Recipe]
) -> None:
    """Inside the `with` keys are shown and taken; outside nothing has changed."""
    key = recipes[0].id
    with session.raw_keys():
        assert known["A"].id == key
        assert session.get(Recipe, key) is known["A"]
        assert session.scalars(select(Recipe.id).order_by(Recipe.name)).first() == key
        assert key in set(session.scalars(text("select id from recipes")))
        known["B"].parent_recipe_id = key
    assert (known["A"].id, known["B"].parent_recipe_id) == ("recipe_1", "recipe_1")


def test_one_statement_can_ask_for_raw_keys(session: RefSession, recipes: list[Recipe]) -> None:
    """`execution_options(raw_keys=True)` leaves one statement's criteria and rows alone."""
    raw = select(Recipe.id).order_by(Recipe.name).execution_options(raw_keys=True)

    assert session.scalars(raw).first() == recipes[0].id
    every = session.scalars(text("select id from recipes"), execution_options={"raw_keys": True})
    assert sorted(every) == sorted(recipe.id for recipe in recipes)


def test_a_conversation_is_chosen_once(session: RefSession, registry: RefRegistry) -> None:
    """A session that changed its conversation would show instances in one and rows in another."""
    with pytest.raises(AttributeError):
        session.conversation = registry.conversation("late")  # type: ignore[misc]


def test_a_bind_may_be_a_mock(registry: RefRegistry) -> None:
    """Tests of applications have such binds, and `create_mock_engine` makes one."""
    mocked = create_mock_engine("postgresql://", lambda *_: None)
    for bind in (mocked, Mock()):
        one = RefSession(bind, conversation=registry.conversation("chat-7"))
        several = RefSession(binds={Recipe: bind}, conversation=registry.conversation("chat-7"))
        assert one.get_bind() is several.get_bind(Recipe) is bind


def test_without_conversation_it_is_a_plain_session(
    sessions: sessionmaker[RefSession], recipes: list[Recipe]
) -> None:
    """No conversation, no translation."""
    with sessions() as session:
        found = by_name(session)["A"]
        with session.raw_keys():
            assert found.id == recipes[0].id
        assert found.id == recipes[0].id
        assert session.get(Recipe, recipes[0].id) is found
        assert session.merge(Recipe(id=recipes[0].id, name="A")) is found


def test_a_plain_session_on_the_same_classes_is_untouched(
    tables: Engine, recipes: list[Recipe], known: dict[str, Recipe], sent: list[str]
) -> None:
    """It reads and writes keys, and sends the statements it always sent."""
    sent.clear()
    with Session(tables) as plain:
        found = by_name(plain)
        assert [r.id for r in found.values()] == [r.id for r in recipes]
        plain.add(MealPlan(recipe_id=found["A"].id))
        plain.commit()

    assert known["A"].id == "recipe_1"
    assert [statement.split()[0] for statement in sent] == ["SELECT", "INSERT"]


def test_two_conversations_in_one_thread_do_not_mix(
    sessions: sessionmaker[RefSession], registry: RefRegistry
) -> None:
    """Each session shows and takes the refs of its own conversation."""
    one, two = registry.conversation("one"), registry.conversation("two")
    with sessions(conversation=one) as first, sessions(conversation=two) as second:
        [e] = second.scalars(select(Recipe).where(Recipe.name == "E"))
        a = by_name(first)["A"]

        assert (a.id, e.id) == ("recipe_1", "recipe_1")
        assert first.get_one(Recipe, e.id).name == "A"
        assert second.get_one(Recipe, a.id).name == "E"


def test_a_conversation_can_be_named_where_the_registry_is_known(
    tables: Engine, registry: RefRegistry
) -> None:
    """`sessionmaker(..., registry=registry)` opens conversations by their id."""
    named = sessionmaker(tables, class_=RefSession, registry=registry)

    with named(conversation="chat-7") as session:
        assert by_name(session)["A"].id == "recipe_1"
    with pytest.raises(SetupError, match="registry="):
        RefSession(tables, conversation="chat-7")


BAD_REFS: dict[str, type[BadRefError]] = {
    "recipe_9": UnknownRefError,
    "meal_plan_1": WrongEntityError,
    "gen_recipe_1": UnknownDraftError,
    "hello": UnknownRefError,
    "": UnknownRefError,
    str(NOBODY): RawKeyError,
    NOBODY.hex: RawKeyError,
}


@pytest.mark.parametrize(
    "use",
    [
        lambda session, ref: session.get(Recipe, ref),
        lambda session, ref: session.scalars(select(Recipe).where(Recipe.id == ref)),
        lambda session, ref: session.scalars(
            select(Recipe).where(Recipe.id.in_(["recipe_1", ref]))
        ),
        lambda session, ref: session.execute(update(Recipe).values(parent_recipe_id=ref)),
        lambda session, ref: session.execute(
            delete(Recipe).where(Recipe.id.not_in(["recipe_1", ref]))
        ),
        lambda session, ref: session.execute(insert(MealPlan), [{"recipe_id": ref}]),
        lambda session, ref: session.bulk_insert_mappings(MealPlan, [{"recipe_id": ref}]),
        lambda session, ref: session.merge(Recipe(id=ref, name="x")),
    ],
)
@pytest.mark.usefixtures("plan")
def test_a_bad_ref_stops_the_statement(
    session: RefSession, sent: list[str], use: Callable[[RefSession, str], object]
) -> None:
    """One bad ref, and nothing is executed; the error never shows a key."""
    sent.clear()
    for ref, error in BAD_REFS.items():
        with pytest.raises(BadRefError) as caught:
            use(session, ref)

        assert (type(caught.value), sent) == (error, [])
        assert error is not RawKeyError or ref not in str(caught.value)
