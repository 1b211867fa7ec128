"""What an owned session flushes: new rows are the owner's, and others are not written."""

from __future__ import annotations

import itertools
import pickle
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.orm import Session

from alfred_refs import ForeignRowError, Ownership, RefSession, UnconfinedError
from tests.fix_owned import World
from tests.owned import (
    Animal,
    Cat,
    Dog,
    Ingredient,
    Jar,
    Line,
    Plan,
    Recipe,
    Remark,
    Secret,
    Shelf,
    User,
    recipe_links,
    recipe_tags,
)

NOBODY = uuid.uuid4()


# New rows


def test_new_rows_are_the_owners(ann: RefSession, world: World, plainly: Any) -> None:
    """The owner's column is stamped, in every class that has one, and in a subclass."""
    new: list[Any] = [
        Recipe(name="new"),
        Plan(),
        Dog(name="new"),
        Cat(name="new"),
        Shelf(room=2, place=2),
    ]
    ann.add_all(new)
    ann.commit()

    assert {each.user_id for each in new} == {world.users["ann"]}
    assert plainly(select(Recipe.user_id).where(Recipe.name == "new")) == [world.users["ann"]]
    assert set(plainly(select(Animal.user_id).where(Animal.name == "new"))) == {world.users["ann"]}


def test_flushing_new_rows_costs_no_statement_more(ann: RefSession, sent_owned: list[str]) -> None:
    """Without foreign keys there is nothing to ask; nor with those to rows of the same flush."""
    ann.add(Recipe(name="new", lines=[Line(text="new"), Line(text="newer")]))
    ann.flush()

    assert [sent.split()[0] for sent in sent_owned] == ["INSERT", "INSERT"]


def test_the_owner_may_be_given_and_no_other(ann: RefSession, world: World) -> None:
    """A new row of another owner is refused before anything is sent."""
    ann.add(Recipe(name="given", user_id=world.users["ann"]))
    ann.flush()
    ann.add(Recipe(name="another's", user_id=world.users["bob"]))

    with pytest.raises(ForeignRowError, match=r"a row in Recipe\.user_id cannot be used here"):
        ann.flush()
    assert ann.is_active


def test_an_owner_by_relationship_is_no_other(ann: RefSession, world: World) -> None:
    """The owner's column cannot be filled through a relationship with anybody else, or nobody."""
    with ann.unconfined():
        bob = ann.get(User, world.users["bob"])
    for other in (bob, None):
        ann.add(Recipe(name="another's", user=other))
        with pytest.raises((ForeignRowError, UnconfinedError)):
            ann.flush()
        ann.rollback()


def test_a_class_that_is_unknown_is_refused(ann: RefSession) -> None:
    """A row of a table that the ownership does not know cannot be made."""
    ann.add(Secret(text="new"))

    with pytest.raises(UnconfinedError, match="table 'secrets'"):
        ann.flush()


def test_open_rows_are_written_as_ever(ann: RefSession, world: World) -> None:
    """What is of no owner is not confined."""
    ann.add(Ingredient(name="pepper"))
    ann.get(Ingredient, world.salt).name = "Salt"
    ann.commit()

    assert set(ann.scalars(select(Ingredient.name))) == {"Salt", "pepper"}


# Changes of rows


@pytest.mark.parametrize("write", ["update", "delete"])
def test_rows_that_are_not_the_owners_are_not_written(
    ann: RefSession, world: World, plainly: Any, write: str
) -> None:
    """Neither a row of another owner, loaded unconfined, nor a shared one, which may be read."""
    kinds: list[tuple[Any, Any]] = [
        *((Recipe, world.recipes), (Line, world.lines), (Remark, world.remarks))
    ]
    for (class_, keys), who in itertools.product(kinds, ["bob", "all"]):
        with ann.unconfined():
            row = ann.get(class_, keys[who])
        if write == "update":
            setattr(row, "name" if class_ is Recipe else "text", "changed")
        else:
            ann.delete(row)

        with pytest.raises(ForeignRowError, match=f"a row of {class_.__name__} cannot be written"):
            ann.commit()
        ann.rollback()
        ann.expunge_all()
        assert plainly(select(func.count()).select_from(class_)) == [3]


def test_rows_of_the_owner_are_written(ann: RefSession, world: World, plainly: Any) -> None:
    """Updates and deletes of the owner's rows go as ever, by cascades too."""
    recipe = ann.get(Recipe, world.recipes["ann"])
    recipe.name = "changed"
    recipe.lines[0].text = "changed"
    ann.get(Dog, world.dogs["ann"]).tricks = 3
    ann.delete(ann.get(Cat, world.cats["ann"]))
    ann.delete(ann.get(Plan, world.plans["ann"]))
    ann.delete(ann.get(Remark, world.remarks["ann"]))
    ann.commit()
    ann.delete(recipe)
    ann.delete(ann.get(Dog, world.dogs["ann"]))
    ann.commit()

    assert sorted(plainly(select(Recipe.name))) == ["all", "bob"]
    assert sorted(plainly(select(Line.text))) == ["all", "bob"]
    assert sorted(plainly(select(Animal.name))) == ["bob's cat", "bob's dog"]


def test_updating_loaded_rows_costs_no_statement_more(
    ann: RefSession, world: World, sent_owned: list[str]
) -> None:
    """An instance tells whose it is, by its own column or by its parent in the session."""
    recipe = ann.get(Recipe, world.recipes["ann"])
    line = recipe.lines[0]
    sent_owned.clear()
    recipe.name = line.text = "changed"
    ann.flush()

    assert [sent.split()[0] for sent in sent_owned] == ["UPDATE", "UPDATE"]


def test_rows_whose_owner_is_not_loaded_are_asked_for_once_a_class(
    ann: RefSession, world: World, sent_owned: list[str]
) -> None:
    """One query for all instances of a class that do not tell by themselves."""
    lines = [Line(recipe_id=world.recipes["ann"], text=str(n)) for n in range(3)]
    ann.add_all(lines)
    ann.commit()
    ann.expunge_all()
    found = ann.scalars(select(Line).where(Line.text.in_(["0", "1", "2"]))).all()
    sent_owned.clear()
    for line in found:
        line.position = 7
    ann.flush()

    assert [sent.split()[0] for sent in sent_owned] == ["SELECT", "UPDATE"]


@pytest.mark.parametrize("value", ["bob", "nobody"])
def test_the_owners_column_cannot_be_changed(
    ann: RefSession, world: World, plainly: Any, value: str
) -> None:
    """A row can neither be given away nor be shared."""
    recipe = ann.get(Recipe, world.recipes["ann"])
    recipe.user_id = world.users["bob"] if value == "bob" else None

    with pytest.raises(ForeignRowError, match=r"Recipe\.user_id"):
        ann.commit()
    ann.rollback()
    assert len(plainly(select(Recipe.id).where(Recipe.user_id == world.users["ann"]))) == 1


def test_a_shared_row_cannot_be_taken(ann: RefSession, world: World) -> None:
    """Nor can one that may be read be made one's own."""
    ann.get(Recipe, world.recipes["all"]).user_id = world.users["ann"]

    with pytest.raises(ForeignRowError):
        ann.commit()


def test_an_attached_row_is_not_believed(
    ann: RefSession, world: World, owned_engine: Engine, plainly: Any
) -> None:
    """An instance that says that it is the owner's, and is not, changes nothing."""
    with Session(owned_engine) as trusted:
        forged = trusted.get(Recipe, world.recipes["bob"])
        assert forged is not None
        forged.user_id = world.users["ann"]
        trusted.expunge(forged)
    forged = pickle.loads(pickle.dumps(forged))  # noqa: S301  # our own
    ann.add(forged)
    forged.name = "changed"

    with pytest.raises(ForeignRowError):
        ann.commit()
    ann.rollback()
    assert plainly(select(Recipe.name).where(Recipe.id == world.recipes["bob"])) == ["bob"]


def test_merge_of_a_foreign_row_does_not_write_it(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """It is as if the row were not there: a new one with its key, which is taken."""
    ann.merge(Recipe(id=world.recipes["bob"], name="changed"))

    with pytest.raises(IntegrityError):
        ann.commit()
    ann.rollback()
    assert plainly(select(Recipe.name).where(Recipe.id == world.recipes["bob"])) == ["bob"]
    merged = ann.merge(Recipe(id=world.recipes["ann"], name="changed"))
    ann.commit()
    assert (merged.name, merged.user_id) == ("changed", world.users["ann"])


def test_merge_without_load_does_not_write_it_either(
    ann: RefSession, world: World, owned_engine: Engine
) -> None:
    """`load=False` asks nothing, and is found out at the flush."""
    with Session(owned_engine) as trusted:
        foreign = trusted.get(Recipe, world.recipes["bob"])
    assert foreign is not None
    merged = ann.merge(foreign, load=False)
    merged.name = "changed"

    with pytest.raises(ForeignRowError):
        ann.commit()


# Foreign keys


@pytest.mark.parametrize("who", ["ann", "all"])
def test_a_foreign_key_may_name_what_the_owner_sees(
    ann: RefSession, world: World, who: str
) -> None:
    """A row of the owner's, or a shared one."""
    ann.add(Plan(recipe_id=world.recipes[who]))
    ann.commit()

    assert ann.scalar(select(func.count()).select_from(Plan)) == 2


def test_a_foreign_key_to_anything_else_reads_as_to_nothing(ann: RefSession, world: World) -> None:
    """A row of another owner and one that is not there: the same error, and nothing is sent."""
    said = []
    for key in (world.recipes["bob"], NOBODY):
        ann.add(Plan(recipe_id=key))
        with pytest.raises(ForeignRowError) as caught:
            ann.flush()
        said.append(str(caught.value))
        ann.rollback()

    assert set(said) == {
        "a row in Plan.recipe_id cannot be used here; read the rows that can, and use one"
    }


def test_a_changed_foreign_key_is_looked_at(ann: RefSession, world: World) -> None:
    """An update is no way to name what an insert may not."""
    plan = ann.get(Plan, world.plans["ann"])
    plan.recipe_id = world.recipes["bob"]
    with pytest.raises(ForeignRowError):
        ann.flush()
    ann.rollback()
    plan.recipe_id = world.recipes["all"]
    ann.commit()


def test_a_self_reference_is_looked_at(ann: RefSession, world: World) -> None:
    """A parent of the same table may be new, shared or the owner's."""
    parent = Recipe(id=uuid.uuid4(), name="parent")
    ann.add_all([parent, Recipe(name="child", parent_id=parent.id)])
    ann.add(Recipe(name="child", parent_id=world.recipes["all"]))
    ann.commit()

    ann.add(Recipe(name="child", parent_id=world.recipes["bob"]))
    with pytest.raises(ForeignRowError):
        ann.flush()


@pytest.mark.parametrize("who", ["bob", "all"])
def test_a_row_cannot_be_put_under_a_parent_that_decides_otherwise(
    ann: RefSession, world: World, plainly: Any, who: str
) -> None:
    """What belongs to a shared row is shared, so that it is not for the owner to add to it."""
    ann.add(Line(recipe_id=world.recipes[who], text="new"))
    with pytest.raises(ForeignRowError, match=r"Line\.recipe_id"):
        ann.flush()
    ann.rollback()
    if who == "all":
        shared = ann.get(Recipe, world.recipes[who])
        shared.lines.append(Line(text="new"))
        with pytest.raises(ForeignRowError):
            ann.flush()
        ann.rollback()
    ann.get(Line, world.lines["ann"]).recipe_id = world.recipes[who]
    with pytest.raises(ForeignRowError):
        ann.flush()
    ann.rollback()
    assert plainly(select(func.count()).select_from(Line)) == [3]


def test_a_row_cannot_be_nobodys(ann: RefSession, world: World) -> None:
    """A row that belongs by its parent has one."""
    ann.add(Line(text="new"))
    with pytest.raises(ForeignRowError):
        ann.flush()
    ann.rollback()
    ann.get(Line, world.lines["ann"]).recipe_id = None
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_a_parent_by_relationship_is_looked_at(ann: RefSession, world: World) -> None:
    """The key is filled in by the flush, and looked at when it is: nothing is kept."""
    with ann.unconfined():
        foreign = ann.get(Recipe, world.recipes["bob"])
    ann.add(Plan(recipe=foreign))

    with pytest.raises(ForeignRowError):
        ann.commit()
    ann.rollback()
    with ann.unconfined():
        ann.refresh(foreign, ["id", "lines"])
    foreign.lines.append(Line(text="new"))
    with pytest.raises(ForeignRowError):
        ann.commit()


def test_foreign_keys_of_many_rows_are_asked_for_once_a_table(
    ann: RefSession, world: World, sent_owned: list[str]
) -> None:
    """One query for all rows that are named in a table."""
    shared = [world.recipes["all"], world.recipes["ann"]]
    ann.add_all(Plan(recipe_id=key) for key in shared * 3)
    ann.flush()

    assert [sent.split()[0] for sent in sent_owned] == ["SELECT", "INSERT"]


def test_a_foreign_key_of_several_columns_is_looked_at(ann: RefSession) -> None:
    """All its columns together name a row; if one is null it names none."""
    ann.add_all([Jar(room=1, place=0), Jar(room=1)])
    ann.commit()
    ann.add(Jar(room=1, place=1))

    with pytest.raises(ForeignRowError, match=r"Jar\.room"):
        ann.flush()


def test_links_to_what_the_owner_cannot_see_are_not_made(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """Rows of an association table are made between rows that the owner may read."""
    own = ann.get(Recipe, world.recipes["ann"])
    own.links += [ann.get(Recipe, world.recipes["all"]), Recipe(name="new")]
    own.tags.append(ann.get(Ingredient, world.salt))
    ann.commit()
    links = sorted([world.recipes["all"], own.links[-1].id])
    assert plainly(select(recipe_tags.c.ingredient_id)) == [world.salt]
    with ann.unconfined():
        foreign = ann.get(Recipe, world.recipes["bob"])
    own.links.append(foreign)

    with pytest.raises(ForeignRowError, match=r"Recipe\.links"):
        ann.commit()
    ann.rollback()
    assert sorted(plainly(select(recipe_links.c.to_id))) == links


# What listeners do


def test_what_a_later_listener_adds_is_looked_at(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """A `before_flush` of the application's comes after ours: the flush is rolled back."""

    @event.listens_for(ann, "before_flush")
    def add(session: Session, *_: object) -> None:
        session.add(Plan(user_id=world.users["ann"], recipe_id=world.recipes["bob"]))

    ann.add(Recipe(name="new"))
    with pytest.raises(ForeignRowError):
        ann.commit()
    ann.rollback()
    assert plainly(select(func.count()).select_from(Recipe)) == [3]


@pytest.mark.parametrize("other", ["bob", "all"])
def test_what_a_mapper_listener_changes_is_refused(
    ann: RefSession, world: World, plainly: Any, other: str
) -> None:
    """The owner of each row that is sent is looked at last of all, as a parameter."""

    def give_away(_mapper: object, _connection: object, recipe: Recipe) -> None:
        recipe.user_id = world.users["bob"] if other == "bob" else None

    event.listen(Recipe, "before_insert", give_away)
    try:
        ann.add(Recipe(name="new"))
        with pytest.raises(
            UnconfinedError, match="an INSERT of another owner's rows into 'recipes'"
        ):
            ann.commit()
    finally:
        event.remove(Recipe, "before_insert", give_away)
    ann.rollback()
    assert plainly(select(func.count()).select_from(Recipe)) == [3]


def test_the_last_wall_is_the_statement_itself(
    ann: RefSession, world: World, plainly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a foreign row were taken for the owner's, its UPDATE would reach no row."""
    with ann.unconfined():
        foreign = ann.get(Recipe, world.recipes["bob"])
    monkeypatch.setattr(type(ann._confinement), "inaccessible", lambda *_, **__: [])
    foreign.name = "changed"

    with pytest.raises(Exception, match="0 were matched"):
        ann.commit()
    ann.rollback()
    assert plainly(select(Recipe.name).where(Recipe.id == world.recipes["bob"])) == ["bob"]


# Unconfined


def test_trusted_code_writes_what_it_likes(ann: RefSession, world: World, plainly: Any) -> None:
    """Inside `unconfined()` nothing is stamped and nothing refused, if it is flushed inside."""
    with ann.unconfined():
        ann.add(Recipe(name="shared"))
        ann.add(Recipe(name="bob's", user_id=world.users["bob"]))
        ann.get(Recipe, world.recipes["bob"]).name = "changed"
        ann.commit()

    assert sorted(plainly(select(Recipe.name))) == ["all", "ann", "bob's", "changed", "shared"]
    ann.add(Plan(recipe_id=NOBODY))
    with pytest.raises(ForeignRowError):
        ann.flush()
    ann.rollback()
    with ann.unconfined():  # also after a flush that was refused
        ann.get(Recipe, world.recipes["bob"]).minutes = 5
        ann.commit()
    with ann.unconfined():
        ann.get(Recipe, world.recipes["bob"]).name = "again"
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_an_expired_own_row_is_written(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """After a commit the owner is not loaded: it is asked for."""
    with RefSession(owned_engine, owner=ownership.of(str(world.users["ann"]))) as session:
        recipe, line = (
            session.get(Recipe, world.recipes["ann"]),
            session.get(Line, world.lines["ann"]),
        )
        session.commit()
        recipe.minutes = line.position = 3
        session.commit()
        assert (recipe.minutes, line.position) == (3, 3)
        with pytest.raises(InvalidRequestError):
            session.refresh(Recipe(id=NOBODY))
