"""What trusted code loads, writes and leaves behind in an owned session is looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from alfred_refs import ForeignRowError, Ownership, RefSession, sqla
from tests.fix_owned import World
from tests.owned import Line, Plan, Recipe

GIVES_AWAY = text("update recipes set user_id = :bob where user_id = :ann")


@pytest.mark.parametrize("quietly", [True, False])
def test_what_an_option_has_lifted_is_doubted(
    ann: RefSession, world: World, quietly: bool
) -> None:
    """As what `unconfined()` has: a later look-up of our own does not clear it."""
    unconfined = {"unconfined": True}
    foreign = ann.scalars(
        select(Recipe).where(Recipe.id == world.recipes["bob"]), execution_options=unconfined
    ).one()
    if quietly:
        with sqla.unconfined_lookup(ann):
            pass
    assert ann.get(Recipe, world.recipes["bob"]) is None
    foreign.name = "changed"
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_a_quiet_look_raises_no_doubt(ann: RefSession, world: World) -> None:
    """It loads no instance: nothing is to be asked about those that are there."""
    mine = ann.get_one(Recipe, world.recipes["ann"])
    with sqla.unconfined_lookup(ann):
        ann.execute(select(Recipe.__table__.c.id)).all()
    assert ann._confinement is not None
    assert not ann._confinement.may_have_foreign
    assert ann.get(Recipe, world.recipes["ann"]) is mine


@pytest.mark.filterwarnings("ignore:DELETE statement on table 'plans'")
def test_a_late_delete_of_a_foreign_row_is_seen(ann: RefSession, world: World) -> None:
    """A listener marks it once the flush has been looked at."""
    with ann.unconfined():
        foreign = ann.get_one(Plan, world.plans["bob"])

    def late(session: Session, *_: object) -> None:
        session.delete(foreign)

    event.listen(ann, "before_flush", late)
    ann.add(Recipe(name="new"))
    with pytest.raises(ForeignRowError):
        ann.flush()
    event.remove(ann, "before_flush", late)


@pytest.mark.parametrize("expire", [True, False])
@pytest.mark.parametrize("made", [Plan, lambda **values: Line(text="x", **values)])
def test_a_row_that_was_given_away_since_is_no_more_the_owners(
    owned_engine: Engine, world: World, ownership: Ownership, made: Any, *, expire: bool
) -> None:
    """Though the session has loaded it in an earlier transaction."""
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, owner=owner, expire_on_commit=expire) as session:
        recipe = session.get_one(Recipe, world.recipes["ann"])
        session.commit()
        with Session(owned_engine) as plain, plain.begin():
            plain.execute(GIVES_AWAY, {who: world.users[who] for who in ("ann", "bob")})
        session.add(made(recipe_id=world.recipes["ann"]))
        with pytest.raises(ForeignRowError):
            session.flush()
        del recipe  # it was in the session until here


def _by_option(session: RefSession, people: dict[str, Any]) -> Recipe:
    recipe = session.scalars(select(Recipe).where(Recipe.user_id == people["ann"])).one()
    session.execute(GIVES_AWAY, people, execution_options={"unconfined": True})
    return recipe


def _in_a_block(session: RefSession, people: dict[str, Any]) -> Recipe:
    recipe = session.scalars(select(Recipe).where(Recipe.user_id == people["ann"])).one()
    with session.unconfined():
        session.execute(GIVES_AWAY, people)
    return recipe


def _forged(session: RefSession, people: dict[str, Any]) -> Recipe:
    with Session(session.get_bind()) as plain:
        recipe = plain.scalars(select(Recipe).where(Recipe.user_id == people["bob"])).one()
    set_committed_value(recipe, "user_id", people["ann"])
    session.add(recipe)
    return recipe


@pytest.mark.parametrize("got", [_by_option, _in_a_block, _forged])
@pytest.mark.parametrize("made", [Plan, lambda **values: Line(text="x", **values)])
def test_an_instance_does_not_vouch_for_its_row(
    ann: RefSession, world: World, got: Callable[..., Recipe], made: Any
) -> None:
    """Trusted code may have given its row away, and nobody knows who has loaded it."""
    recipe = got(ann, {who: world.users[who] for who in ("ann", "bob")})
    ann.add(made(recipe=recipe))
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_what_waits_when_trusted_code_begins_is_the_owners(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """A query of trusted code flushes it, stamped and checked as ever."""
    ann.add(Recipe(name="private"))
    with ann.unconfined():
        assert ann.get(Recipe, world.recipes["bob"]) is not None
    ann.commit()
    assert plainly(select(Recipe.user_id).where(Recipe.name == "private")) == [world.users["ann"]]

    ann.add(Line(text="x", recipe_id=world.recipes["bob"]))
    with ann.unconfined(), pytest.raises(ForeignRowError):
        ann.scalars(select(Recipe)).all()
    ann.rollback()
    ann.add(Recipe(name="beside it"))
    with ann.unconfined():
        ann.add(Line(text="trusted", recipe_id=world.recipes["bob"]))
        ann.flush()
    ann.commit()
    assert plainly(select(Line.recipe_id).where(Line.text == "trusted")) == [world.recipes["bob"]]
