"""Association tables: the owner's links are those between rows that the owner may read."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session, aliased, joinedload, selectinload

from alfred_refs import Ownership, RefRegistry, RefSession, UnconfinedError
from tests.fix_owned import World
from tests.owned import Recipe, recipe_links, recipe_tags

Scalars = Callable[[Any], list[Any]]


@pytest.fixture
def linked(owned_engine: Engine, world: World) -> dict[str, uuid.UUID]:
    """Each recipe has salt; ann's, bob's and the shared one are linked with each other."""
    keys = world.recipes
    pairs = [(a, b) for a in keys.values() for b in keys.values() if a != b]
    with Session(owned_engine) as session, session.begin():
        tags = [{"recipe_id": key, "ingredient_id": world.salt} for key in keys.values()]
        session.execute(insert(recipe_tags), tags)
        links = [{"from_id": a, "to_id": b} for a, b in pairs]
        session.execute(insert(recipe_links), links)
    return keys


ALIAS = aliased(recipe_tags)

READS: list[tuple[Any, Any]] = [
    (select(recipe_tags.c.recipe_id), ["all", "ann"]),
    (select(ALIAS.c.recipe_id), ["all", "ann"]),
    (select(recipe_tags.c.recipe_id).join_from(recipe_tags, Recipe), ["all", "ann"]),
    (select(recipe_links.c.from_id).distinct(), ["all", "ann"]),
    (
        select(recipe_links.c.to_id).where(recipe_links.c.from_id != recipe_links.c.to_id),
        ["all", "ann"],
    ),
    (select(recipe_tags.c.recipe_id).union(select(recipe_links.c.to_id)), ["all", "ann"]),
    (select(select(recipe_tags.c.recipe_id).subquery().c.recipe_id), ["all", "ann"]),
]


@pytest.mark.parametrize(("statement", "expected"), READS)
@pytest.mark.usefixtures("linked")
def test_links_of_others_are_not_read(
    ann: RefSession, world: World, statement: Any, expected: Any
) -> None:
    """Neither in a statement on the table nor in what is made of it."""
    names = {key: who for who, key in world.recipes.items()}
    assert sorted(names[key] for key in ann.scalars(statement)) == expected


@pytest.mark.usefixtures("linked")
def test_links_are_counted_without_those_of_others(ann: RefSession) -> None:
    """Also where the table is only joined."""
    assert ann.scalar(select(func.count()).select_from(recipe_links)) == 2
    joined = select(func.count(recipe_links.c.to_id)).select_from(Recipe)
    assert ann.scalar(joined.outerjoin(recipe_links, Recipe.id == recipe_links.c.from_id)) == 2


@pytest.mark.parametrize("option", [selectinload, joinedload])
@pytest.mark.usefixtures("linked")
def test_collections_are_loaded(ann: RefSession, world: World, option: Any) -> None:
    """By each strategy, and lazily: without the rows of others."""
    own = select(Recipe).where(Recipe.id == world.recipes["ann"])
    [recipe] = ann.scalars(own.options(option(Recipe.links), option(Recipe.tags))).unique()
    assert [each.name for each in recipe.links] == ["all"]
    assert [each.name for each in recipe.tags] == ["salt"]
    ann.expire(recipe)
    assert [each.name for each in recipe.links] == ["all"]


def test_links_of_others_are_not_written(
    ann: RefSession, linked: dict[str, uuid.UUID], plainly: Scalars
) -> None:
    """Neither deleted nor changed, nor are links between rows that only everybody may read."""
    ann.execute(delete(recipe_tags))
    ann.execute(delete(recipe_links))
    ann.commit()
    assert sorted(plainly(select(recipe_tags.c.recipe_id))) == sorted(
        [linked["all"], linked["bob"]]
    )
    kept = plainly(select(recipe_links.c.from_id))
    assert len(kept) == 4  # those with bob's
    moved = update(recipe_tags).where(recipe_tags.c.recipe_id == linked["bob"])
    result: Any = ann.execute(moved.values(ingredient_id=uuid.uuid4()))
    assert result.rowcount == 0


def test_an_upsert_cannot_take_a_link_of_another_owner(
    ann: RefSession, world: World, linked: dict[str, uuid.UUID], plainly: Scalars
) -> None:
    """ON CONFLICT may find a row by any unique key; DO NOTHING is allowed."""
    row = {"recipe_id": linked["ann"], "ingredient_id": world.salt}
    upsert = postgresql.insert(recipe_tags).values(row)
    taking = upsert.on_conflict_do_update(
        index_elements=["recipe_id", "ingredient_id"], set_={"recipe_id": linked["ann"]}
    )
    with pytest.raises(UnconfinedError, match="an upsert into 'recipe_tags'"):
        ann.execute(taking)
    ann.execute(upsert.on_conflict_do_nothing())
    ann.commit()
    assert len(plainly(select(recipe_tags.c.recipe_id))) == 3


def test_the_unit_of_work_writes_links_of_own_rows(
    ann: RefSession, linked: dict[str, uuid.UUID], plainly: Scalars
) -> None:
    """A link is removed and added, also one to a shared row."""
    recipe = ann.get_one(Recipe, linked["ann"])
    shared = ann.get_one(Recipe, linked["all"])
    recipe.links.remove(shared)
    recipe.tags.clear()
    ann.commit()
    own = select(recipe_links.c.to_id).where(recipe_links.c.from_id == linked["ann"])
    assert plainly(own) == [linked["bob"]]
    recipe.links.append(shared)
    ann.commit()
    assert sorted(plainly(own)) == sorted([linked["all"], linked["bob"]])


@pytest.mark.usefixtures("linked")
def test_no_ref_is_made_for_the_rows_of_others(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A conversation of ann's knows no recipe of bob's by a link."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    ann = world.users["ann"]
    chat = registry.conversation("chat-7", owner=ann)
    with RefSession(owned_engine, conversation=chat, owner=ownership.of(ann)) as session:
        session.execute(select(recipe_links)).all()
        session.execute(select(recipe_tags)).all()
    labels = sorted(entry.ref for entry in chat.entries())
    assert labels == ["ingredient_1", "recipe_1", "recipe_2"]
