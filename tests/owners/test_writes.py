"""What statements of an owned session write: the owner's rows, stamped, and no others."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any, cast

import pytest
from sqlalchemy import (
    ColumnElement,
    FromClause,
    bindparam,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.schema import DDL, CreateTable

from alfred_refs import ForeignRowError, RefSession, UnconfinedError
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
    User,
    recipe_tags,
)

RECIPES: Any = Recipe.__table__
LINES: Any = Line.__table__
PLANS: Any = Plan.__table__
DOGS: Any = Dog.__table__
REMARKS: Any = Remark.__table__


def names(plainly: Any) -> list[str]:
    """Return the names of all recipes, whosever they are."""
    return sorted(plainly(select(Recipe.name)))


# Updates and deletes


def test_updates_and_deletes_reach_the_owners_rows_alone(ann: RefSession) -> None:
    """Neither rows of others nor shared ones, and reading another table adds none."""
    recipes, remarks = select(RECIPES.c.name), select(REMARKS.c.text)
    updates: list[Any] = [
        update(Recipe).values(name="x"),
        update(RECIPES).values(name="x"),
        update(Recipe).where(Recipe.minutes == 0).values({"name": "x"}),
        update(Recipe).where(Recipe.id == Line.recipe_id).values(name="x"),
        update(Recipe).where(exists().where(Line.recipe_id == Recipe.id)).values(name="x"),
        update(RECIPES).ordered_values((RECIPES.c.name, "x")),
        update(Recipe).values(name="x").returning(Recipe.id),
        update(Recipe).values(name="x").execution_options(synchronize_session=False),
    ]
    deletes: list[Any] = [
        delete(Remark),
        delete(REMARKS),
        delete(Remark).where(Remark.line_id == Line.id),
        delete(Remark).where(Remark.line_id.in_(select(Line.id))),
        delete(Remark).returning(Remark.id),
    ]
    for statement, rows, expected in [
        *((each, recipes, ["all", "bob", "x"]) for each in updates),
        *((each, remarks, ["all", "bob"]) for each in deletes),
    ]:
        ann.execute(statement)
        left = ann.scalars(rows, execution_options={"unconfined": True})
        assert (str(statement), sorted(left)) == (str(statement), expected)
        ann.rollback()


def test_subclasses_are_written_as_their_base_is_owned(ann: RefSession, plainly: Any) -> None:
    """The table of a joined subclass has no owner; its base's has."""
    ann.execute(update(DOGS).values(tricks=3))
    ann.execute(update(Cat).values(name="x"))
    ann.commit()

    assert sorted(plainly(select(DOGS.c.tricks))) == [0, 3]
    assert sorted(plainly(select(Animal.name).where(Animal.kind == "cat"))) == ["bob's cat", "x"]


def test_instances_of_shared_rows_stay_as_they_are(ann: RefSession, world: World) -> None:
    """An update changes the instances whose rows it has changed, and no others in the session."""
    shared = ann.get(Recipe, world.recipes["all"])
    own = ann.get(Recipe, world.recipes["ann"])

    for minutes, way in enumerate(("auto", "evaluate", "fetch"), start=7):
        options = {"synchronize_session": way}
        ann.execute(update(Recipe).values(minutes=minutes), execution_options=options)
        assert (shared.minutes, own.minutes) == (0, minutes)
    assert shared not in ann.dirty
    ann.execute(delete(Remark))
    ann.execute(delete(Line).where(Line.text != "x"))
    assert ann.get(Line, world.lines["all"]) is not None
    assert ann.get(Line, world.lines["ann"]) is None


def test_rows_read_by_another_table_are_confined(ann: RefSession, plainly: Any) -> None:
    """What an UPDATE ... FROM reads is what the owner may read."""
    other = RECIPES.alias()
    named = update(Plan).where(Plan.recipe_id == other.c.id)
    ann.execute(named.values(code=other.c.name + literal("!")))
    ann.execute(update(Plan).values(day=select(func.count(Recipe.id)).scalar_subquery()))
    ann.commit()

    assert sorted(plainly(select(Plan.code))) == ["ann!", "bob"]
    assert sorted(plainly(select(Plan.day))) == [1, 2]


def test_an_update_of_the_owners_column_is_refused(ann: RefSession, sent_owned: list[str]) -> None:
    """With any value: not even the owner's own is written."""
    given: list[tuple[Any, Any]] = [
        (update(Recipe).values(user_id=None), None),
        (update(RECIPES).values(user_id=uuid.uuid4()), None),
        (update(RECIPES).ordered_values((RECIPES.c.user_id, None)), None),
        (update(Recipe).values({Recipe.user_id: select(User.id).scalar_subquery()}), None),
        (update(User).values(id=uuid.uuid4()), None),
        (update(RECIPES).where(RECIPES.c.name == "x"), {"user_id": None}),
    ]
    for statement, parameters in given:
        with pytest.raises(UnconfinedError, match="an UPDATE of the owner's column"):
            ann.execute(statement, parameters)

    assert sent_owned == []


def test_foreign_keys_of_updates_are_looked_at(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """By `values()`, by parameters and by a parameter in `values()`."""
    bob, shared = world.recipes["bob"], world.recipes["all"]
    cases: list[tuple[Any, Any]] = [
        (update(Plan).values(recipe_id=bob), None),
        (update(PLANS).values(recipe_id=bob), None),
        (update(PLANS), {"recipe_id": bob}),
        (update(Plan).values(recipe_id=bindparam("r")), {"r": bob}),
        (update(Plan).values(recipe_id=uuid.uuid4()), None),
        (update(Line).values(recipe_id=shared), None),
        (update(Line).values(recipe_id=None), None),
    ]
    for statement, parameters in cases:
        with pytest.raises(ForeignRowError):
            ann.execute(statement, parameters)
    with pytest.raises(UnconfinedError, match=r"the foreign key plans\.recipe_id"):
        ann.execute(update(Plan).values(recipe_id=select(Recipe.id).limit(1).scalar_subquery()))
    ann.execute(update(Plan).values(recipe_id=shared))
    ann.commit()

    assert set(plainly(select(Plan.recipe_id))) == {shared, bob}


# Inserts


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        (insert(Recipe).values(name="new"), None),
        (insert(RECIPES).values(name="new"), None),
        (insert(Recipe), {"name": "new"}),
        (insert(Recipe), [{"name": "new"}]),
        (insert(RECIPES), [{"name": "new"}, {"name": "new"}]),
        (insert(Recipe), [{"name": "new"}, {"name": "new"}]),
        (insert(Recipe).values([{"name": "new"}, {"name": "new"}]), None),
        (insert(RECIPES).values([{"name": "new"}, {RECIPES.c.name: "new"}]), None),
        (insert(Recipe).values(name="new").returning(Recipe), None),
        (insert(Recipe).returning(Recipe.id), [{"name": "new"}, {"name": "new"}]),
        (insert(RECIPES).values((uuid.uuid4(), None, None, "new", 0)), None),
        (insert(RECIPES).values([(uuid.uuid4(), None, None, "new", 0)]), None),
        (insert(Recipe).values(name="new", user_id=None), None),
        (insert(Recipe).values(name=bindparam("n")), {"n": "new"}),
        (upsert(Recipe).values(name="new").on_conflict_do_nothing(), None),
        (insert(Recipe).from_select(["name"], select(literal("new"))), "refused"),
        (select(insert(Recipe).values(name="new").returning(Recipe.id).cte().c.id), "refused"),
    ],
    ids=str,
)
def test_inserted_rows_are_stamped(
    ann: RefSession, world: World, plainly: Any, statement: Any, parameters: Any
) -> None:
    """Values, parameters and lists of both get the owner, or the insert is refused."""
    if parameters == "refused":
        with pytest.raises(UnconfinedError, match="an INSERT"):
            ann.execute(statement)
        return
    ann.execute(statement, parameters)
    ann.commit()

    found = plainly(select(Recipe.user_id).where(Recipe.name == "new"))
    assert set(found) == {world.users["ann"]}


def test_rows_of_another_owner_are_not_inserted(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """The owner may be given, as it is; anybody else may not."""
    bob, own = world.users["bob"], world.users["ann"]
    cases: list[tuple[Any, Any]] = [
        (insert(Recipe).values(name="x", user_id=bob), None),
        (insert(Recipe), {"name": "x", "user_id": bob}),
        (insert(RECIPES), [{"name": "x"}, {"name": "x", "user_id": bob}]),
        (insert(Recipe).values([{"name": "x", "user_id": own}, {"name": "x", "user_id": bob}]),
         None),
        (insert(Recipe).values(name="x", user_id=bindparam("u")), {"u": bob}),
        (insert(User), {"id": uuid.uuid4(), "name": "x"}),
    ]  # fmt: skip
    for statement, parameters in cases:
        with pytest.raises((ForeignRowError, UnconfinedError)):
            ann.execute(statement, parameters)
    by_query = insert(Recipe).values(name="x", user_id=select(User.id).scalar_subquery())
    with pytest.raises(UnconfinedError, match=r"an expression for recipes\.user_id"):
        ann.execute(by_query)
    ann.execute(insert(Recipe).values(name="own", user_id=own))
    ann.commit()

    assert names(plainly) == ["all", "ann", "bob", "own"]


def test_foreign_keys_of_inserts_are_looked_at(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """Of owned tables and of open ones, and what decides whose a row is must be the owner's."""
    bob, shared, own = (world.recipes[who] for who in ("bob", "all", "ann"))
    tag = {"ingredient_id": world.salt}
    cases: list[tuple[Any, Any]] = [
        (insert(Plan).values(recipe_id=bob), None),
        (insert(Plan), [{"recipe_id": own}, {"recipe_id": bob}]),
        (insert(Plan).values([{"recipe_id": own}, {"recipe_id": bob}]), None),
        (insert(Recipe), {"name": "x", "parent_id": bob}),
        (insert(Line), {"text": "x", "recipe_id": bob}),
        (insert(Line), {"text": "x", "recipe_id": shared}),
        (insert(Line), {"text": "x"}),
        (insert(LINES).values(text="x"), None),
        (insert(recipe_tags), {"recipe_id": bob, **tag}),
        (insert(DOGS), {"id": world.cats["bob"]}),
        (insert(Jar), {"room": 1, "place": 1}),
    ]
    for statement, parameters in cases:
        with pytest.raises(ForeignRowError):
            ann.execute(statement, parameters)
    ann.execute(insert(Plan), [{"recipe_id": own}, {"recipe_id": shared}])
    ann.execute(insert(Line), {"text": "x", "recipe_id": own})
    ann.execute(insert(recipe_tags), {"recipe_id": own, **tag})
    ann.execute(insert(Dog), [{"name": "new"}])
    ann.execute(insert(Jar), {"room": 1, "place": 0})
    ann.commit()

    assert plainly(select(func.count()).select_from(Plan)) == [4]
    assert plainly(select(recipe_tags.c.recipe_id)) == [own]
    assert plainly(select(Dog.user_id).where(Dog.name == "new")) == [world.users["ann"]]


def test_a_parent_that_waits_for_the_flush_is_there(ann: RefSession) -> None:
    """What the statement would flush is flushed before its foreign keys are looked at."""
    parent = Recipe(id=uuid.uuid4(), name="parent")
    ann.add(parent)

    ann.execute(insert(Line), {"text": "x", "recipe_id": parent.id})

    assert ann.scalar(select(Line.text).where(Line.recipe_id == parent.id)) == "x"


def test_an_insert_asks_once_a_table(ann: RefSession, world: World, sent_owned: list[str]) -> None:
    """Foreign keys of a list of records are looked up together; without any, nothing is."""
    ann.execute(insert(Plan), [{"recipe_id": world.recipes["ann"]}] * 3)
    ann.execute(insert(Recipe), [{"name": "x"}] * 3)

    assert [sent.split()[0] for sent in sent_owned] == ["SELECT", "INSERT", "INSERT"]


# Upserts


def test_an_upsert_updates_the_owners_row_alone(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """A conflict with a row of another owner leaves that row as it is."""
    for code in ("ann", "bob", "new"):
        statement = upsert(Plan).values(code=code, day=5)
        ann.execute(
            statement.on_conflict_do_update(
                index_elements=["code"], set_={"day": statement.excluded.day}
            )
        )
    ann.commit()

    days = {code: plainly(select(Plan.day).where(Plan.code == code)) for code in ("ann", "bob")}
    assert days == {"ann": [5], "bob": [1]}
    assert plainly(select(Plan.user_id).where(Plan.code == "new")) == [world.users["ann"]]


def test_an_upsert_names_what_may_be_named(ann: RefSession, world: World) -> None:
    """What it sets is looked at as what an update sets is."""
    statement = upsert(Plan).values(code="ann")
    for values in ({"recipe_id": world.recipes["bob"]}, {"user_id": world.users["ann"]}):
        with pytest.raises((ForeignRowError, UnconfinedError)):
            ann.execute(statement.on_conflict_do_update(index_elements=["code"], set_=values))
    with pytest.raises(UnconfinedError, match="an upsert into 'lines'"):
        ann.execute(
            upsert(Line)
            .values(text="x", recipe_id=world.recipes["ann"])
            .on_conflict_do_update(index_elements=["id"], set_={"text": "x"})
        )
    ann.execute(
        statement.on_conflict_do_update(
            index_elements=["code"], set_={"recipe_id": world.recipes["all"]}, where=Plan.day == 1
        )
    )
    assert ann.scalar(select(Plan.recipe_id)) == world.recipes["all"]


# In bulk


def test_bulk_updates_by_primary_key_reach_the_owners_rows_alone(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """A row that is not the owner's is not matched, which SQLAlchemy tells."""
    ann.execute(update(Plan), [{"id": world.plans["ann"], "day": 4}])
    ann.bulk_update_mappings(Plan, [{"id": world.plans["ann"], "code": "x"}])
    ann.commit()
    for key in (world.plans["bob"], uuid.uuid4()):
        with pytest.raises(StaleDataError):
            ann.bulk_update_mappings(Plan, [{"id": key, "day": 6}])
        ann.rollback()
        own = {"id": world.plans["ann"], "day": 4}
        with suppress(StaleDataError):  # of several, not all drivers tell
            ann.execute(update(Plan), [{"id": key, "day": 6}, own])
        ann.rollback()
    with pytest.raises(UnconfinedError, match="an UPDATE of the owner's column"):
        ann.execute(update(Plan), [{"id": world.plans["ann"], "user_id": world.users["ann"]}])
    ann.rollback()
    with pytest.raises(ForeignRowError):
        ann.execute(update(Plan), [{"id": world.plans["ann"], "recipe_id": world.recipes["bob"]}])

    assert sorted(plainly(select(Plan.day))) == [1, 4]


def test_bulk_inserts_are_stamped_and_looked_at(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """`bulk_insert_mappings()` and `bulk_save_objects()` are as other ways to insert."""
    records: list[dict[str, Any]] = [
        {"code": "m"},
        {"code": "n", "recipe_id": world.recipes["all"]},
    ]
    ann.bulk_insert_mappings(Plan, records)
    ann.bulk_save_objects([Plan(code="o"), Plan(code="p", recipe_id=world.recipes["ann"])])
    ann.commit()

    wanted = select(Plan.user_id).where(Plan.code.in_(list("mnop")))
    assert plainly(wanted) == [world.users["ann"]] * 4
    refused = {"recipe_id": world.recipes["bob"]}, {"user_id": world.users["bob"]}
    record: dict[str, Any]
    for record in refused:
        with pytest.raises(ForeignRowError):
            ann.bulk_insert_mappings(Plan, [record])
        ann.rollback()
        with pytest.raises(ForeignRowError):
            ann.bulk_save_objects([Plan(**record)])
        ann.rollback()
    with pytest.raises(ForeignRowError):
        ann.bulk_update_mappings(
            Plan, [{"id": world.plans["ann"], "recipe_id": world.recipes["bob"]}]
        )


def test_bulk_saves_of_foreign_rows_are_refused(ann: RefSession, world: World) -> None:
    """An instance with an identity is updated only if its row is the owner's."""
    with ann.unconfined():
        foreign, own = (ann.get(Plan, world.plans[who]) for who in ("bob", "ann"))
    foreign.day = own.day = 8

    ann.bulk_save_objects([own])
    with pytest.raises(ForeignRowError):
        ann.bulk_save_objects([foreign])


# What is refused


class Elsewhere(FromClause):
    """A FROM of no kind that is known, as an application may have its own."""

    inherit_cache = False


def named_elsewhere() -> ColumnElement[Any]:
    """Return a column of it."""
    found: Any = column("name")
    found.table = Elsewhere()
    return cast("ColumnElement[Any]", found)


def test_writes_that_cannot_be_confined_are_refused(
    ann: RefSession, sent_owned: list[str]
) -> None:
    """Nothing is sent."""
    statements: list[Any] = [
        text("delete from recipes"),
        text("commit"),
        update(Secret).values(text="x"),
        delete(Secret),
        insert(Secret).values(text="x"),
        delete(Plan).where(exists().where(Secret.text == "x")),
        delete(Plan).where(exists(literal_column("1")).select_from(text("recipes r"))),
        insert(Ingredient).from_select(
            ["name"], select(literal_column("name")).select_from(text("recipes"))
        ),
        update(Plan).values(day=2).where(Plan.code == named_elsewhere()),
        delete(Plan).where(Plan.code == named_elsewhere()),
        select(update(Plan).values(day=2).returning(Plan.id).cte().c.id),
        update(Plan).values(code=text("(select name from recipes)")),
        DDL("drop table plans"),  # type: ignore[no-untyped-call]  # so in SQLAlchemy
        CreateTable(PLANS),
    ]
    for statement in statements:
        with pytest.raises(UnconfinedError):
            ann.execute(statement)

    assert sent_owned == []


def test_a_deleting_cte_is_confined(ann: RefSession, plainly: Any) -> None:
    """A DELETE inside a SELECT reaches the owner's rows alone."""
    deleted = delete(Remark).returning(Remark.text).cte()

    assert ann.scalars(select(deleted.c.text)).all() == ["ann"]
    ann.commit()
    assert sorted(plainly(select(Remark.text))) == ["all", "bob"]


def test_open_tables_are_written_as_ever(ann: RefSession, plainly: Any) -> None:
    """What is of no owner is not confined."""
    ann.execute(insert(Ingredient), [{"name": "pepper"}])
    ann.execute(update(Ingredient).values(name="x"))
    ann.execute(insert(Ingredient).from_select(["id", "name"], select(Recipe.id, Recipe.name)))
    ann.commit()

    assert sorted(plainly(select(Ingredient.name))) == ["all", "ann", "x", "x"]


def test_unconfined_writes_are_as_in_a_plain_session(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """For one statement, by its option."""
    unconfined = {"unconfined": True}
    ann.execute(insert(Recipe).values(name="shared"), execution_options=unconfined)
    ann.execute(
        update(Recipe).where(Recipe.id == world.recipes["bob"]).values(name="x"),
        execution_options=unconfined,
    )
    ann.commit()

    assert names(plainly) == ["all", "ann", "shared", "x"]
    assert plainly(select(Recipe.user_id).where(Recipe.name == "shared")) == [None]
    assert issubclass(UnconfinedError, SQLAlchemyError)
