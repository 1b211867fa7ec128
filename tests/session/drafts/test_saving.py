"""Adding the object of a draft saves it as a row, and what names the draft names the row."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import (
    BadRefError,
    CircularDraftsError,
    Conversation,
    DraftRefError,
    DraftTwiceError,
    RefRegistry,
    RefSession,
)
from tests.models import MealPlan, Recipe
from tests.session.drafts.rows_and_drafts import names, pending

pytestmark = pytest.mark.usefixtures("one_base")


def test_adding_the_object_saves_the_draft(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """Its row shows the ref of a row, the draft's ref names the same row for ever."""
    recipe = session.get_one(Recipe, soup)
    recipe.name = "Lentil soup"
    session.add(recipe)
    session.commit()

    assert recipe.id == "recipe_1"
    assert recipe.plans[0].recipe_id == "recipe_1"
    assert names(tables) == ["Lentil soup"]
    assert pending(conversation) == []
    [draft] = conversation.drafts(states=["saved"])
    assert (draft.ref, draft.saved) == (soup, "recipe_1")
    assert conversation.resolve(soup) == conversation.resolve("recipe_1")
    assert session.get(Recipe, soup) is recipe
    assert session.scalars(select(MealPlan.recipe_id).filter_by(recipe_id=soup)).all() == [
        "recipe_1"
    ]


def test_saving_is_two_round_trips(
    session: RefSession, registry: RefRegistry, conversation: Conversation
) -> None:
    """One to reserve keys, one to say that the rows are there, however many drafts there are."""
    for name in ("Soup", "Dal"):
        conversation.draft(Recipe, {"name": name})
    objects = [session.get_one(Recipe, ref) for ref in pending(conversation)]
    session.add_all(objects)
    before = registry.counts.round_trips
    session.commit()

    assert registry.counts.round_trips == before + 2


def test_drafts_of_one_name_are_two_rows(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """A draft is known by its ref: not by its name, nor by where it stands in a list."""
    with Session(tables) as plain:
        plain.add(Recipe(name="Soup"))
        plain.commit()
    refs = [conversation.draft(Recipe, {"name": "Soup"}).ref for _ in range(3)]

    first, second = (session.get_one(Recipe, ref) for ref in refs[:2])
    session.add_all([second, first])
    session.commit()

    assert names(tables) == 3 * ["Soup"]
    assert first.id != second.id
    assert session.get(Recipe, refs[0]) is first
    assert session.get(Recipe, refs[1]) is second
    assert pending(conversation) == refs[2:]


def test_an_object_of_the_programs_own_may_save_a_draft(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """It names the draft by its key; what the draft holds is not asked for."""
    session.add(Recipe(id=soup, name="Other"))
    session.commit()

    assert (names(tables), pending(conversation)) == (["Other"], [])


def test_rows_name_drafts_in_any_order(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """By foreign key, without a relationship between the objects, and in one table."""
    child = conversation.draft(Recipe, {"name": "Child", "parent": soup}).ref
    plan = MealPlan(recipe_id=child, instead_of=soup)
    grandchild = Recipe(name="Grandchild", parent_recipe_id=child)

    session.add_all([plan, grandchild, session.get_one(Recipe, child)])
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert names(tables) == ["Child", "Grandchild", "Soup"]
    one, two = session.get_one(Recipe, soup).id, session.get_one(Recipe, child).id
    assert (plan.recipe_id, plan.instead_of) == (two, one)
    assert session.get_one(Recipe, child).parent_recipe_id == one
    assert grandchild.parent_recipe_id == two


def test_a_row_that_is_there_may_name_a_draft(
    session: RefSession, recipes: list[Recipe], soup: str
) -> None:
    """The attribute shows the draft's ref until both are flushed."""
    recipe = session.scalars(select(Recipe).filter_by(name=recipes[0].name)).one()
    recipe.parent_recipe_id = soup
    assert recipe.parent_recipe_id == soup
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert recipe.parent_recipe_id == session.get_one(Recipe, soup).id


def test_a_draft_that_is_not_saved_cannot_be_named(
    session: RefSession, soup: str, tables: Engine
) -> None:
    """Nothing is sent then, and adding its object is what helps."""
    session.add(Recipe(name="Child", parent_recipe_id=soup))
    with pytest.raises(DraftRefError, match="a draft's ref where a saved recipe is needed; save"):
        session.flush()
    assert names(tables) == []
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert names(tables) == ["Child", "Soup"]


def test_one_bad_ref_leaves_all_as_it_was(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """Objects and drafts; what is mended is saved."""
    recipe = session.get_one(Recipe, soup)
    child = Recipe(name="Child", parent_recipe_id="recipe_9")
    session.add_all([recipe, child])
    with pytest.raises(BadRefError):
        session.flush()

    assert (recipe.id, pending(conversation)) == (soup, [soup])
    assert session.get(Recipe, soup) is recipe
    child.parent_recipe_id = soup
    session.commit()
    assert child.parent_recipe_id == recipe.id


def test_a_draft_of_the_flush_is_found_by_a_query(session: RefSession, soup: str) -> None:
    """What waits is flushed first, as before any query."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)

    assert session.scalars(select(Recipe).where(Recipe.id == soup)).one() is recipe
    assert session.scalars(select(Recipe).where(Recipe.id.in_([soup]))).one() is recipe
    assert session.get(Recipe, soup) is recipe
    session.rollback()
    session.add(session.get_one(Recipe, soup))
    with session.no_autoflush, pytest.raises(DraftRefError):
        session.scalars(select(Recipe).where(Recipe.id == soup))
    with pytest.raises(DraftRefError):
        session.scalars(
            select(Recipe).where(Recipe.id == soup), execution_options={"autoflush": False}
        )


def test_two_objects_of_one_draft_are_refused(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """In one flush, and in two of one transaction."""
    first = Recipe(id=soup, name="One")
    session.add_all([first, Recipe(id=soup, name="Two")])
    with pytest.raises(DraftTwiceError, match="'gen_recipe_1' would be saved as two rows"):
        session.flush()
    session.rollback()
    session.add(first)
    session.flush()
    session.add(Recipe(id=soup, name="Two"))
    with pytest.raises(DraftTwiceError):
        session.flush()
    session.rollback()

    assert (names(tables), pending(conversation)) == ([], [soup])


def test_drafts_that_name_each_other_are_refused(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """None could be inserted first; one that names itself can."""
    other = conversation.draft(Recipe, {"name": "Other", "parent_recipe_id": soup}).ref
    conversation.edit_draft(soup, {"name": "Soup", "parent_recipe_id": other})
    session.add_all([session.get(Recipe, soup), session.get(Recipe, other)])
    with pytest.raises(CircularDraftsError, match="name each other") as caught:
        session.flush()
    assert set(caught.value.refs) == {soup, other}
    session.rollback()

    conversation.edit_draft(soup, {"name": "Soup", "parent_recipe_id": soup})
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.commit()
    assert recipe.parent_recipe_id == recipe.id
    assert pending(conversation) == [other]
