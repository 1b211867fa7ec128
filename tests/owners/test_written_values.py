"""What a write sends in the end is what the owner may write: values, parameters, defaults."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import ColumnDefault, delete, insert, literal, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm.exc import StaleDataError

from alfred_refs import ForeignRowError, RefSession, UnconfinedError
from tests.fix_owned import World
from tests.owned import Animal, Dog, Line, Plan, Recipe, recipe_links


def test_an_association_is_not_filled_by_a_select(ann: RefSession, world: World) -> None:
    """Its rows name others that cannot be looked at before."""
    rows = select(Recipe.id, literal(world.recipes["bob"]))
    with pytest.raises(UnconfinedError, match="INSERT from a SELECT"):
        ann.execute(insert(recipe_links).from_select(["from_id", "to_id"], rows))
    lines = select(Line.recipe_id, literal("new"))
    targets: list[Any] = [Line, Line.__table__]  # rows that belong by a relationship
    for target in targets:
        with pytest.raises(UnconfinedError, match="select the rows, then insert them"):
            ann.execute(insert(target).from_select(["recipe_id", "text"], lines))
    given = {"from_id": world.recipes["ann"], "to_id": world.recipes["bob"]}
    with pytest.raises(ForeignRowError):
        ann.execute(insert(recipe_links), [given])


@pytest.mark.usefixtures("world")
def test_a_row_in_bulk_without_what_decides_is_nobodys(ann: RefSession) -> None:
    """Refused, though its column may be null."""
    for write in (
        lambda: ann.bulk_insert_mappings(Line, [{"text": "x"}]),
        lambda: ann.bulk_save_objects([Line(text="x")]),
        lambda: ann.execute(insert(Line), [{"text": "x"}]),
    ):
        with pytest.raises(ForeignRowError):
            write()
        ann.rollback()


def test_a_subclass_is_updated_by_keys_in_each_of_its_tables(
    ann: RefSession, world: World, plainly: Callable[[Any], list[Any]]
) -> None:
    """The ORM makes one statement of the class and has it write the table of its base too."""
    mine, bobs = world.dogs["ann"], world.dogs["bob"]
    with pytest.raises(StaleDataError):
        ann.execute(update(Dog), [{"id": bobs, "name": "stolen"}])
    ann.rollback()
    with pytest.raises(UnconfinedError, match=r"owner's column animals\.user_id"):
        ann.execute(update(Dog), [{"id": mine, "user_id": world.users["bob"]}])
    ann.rollback()
    ann.execute(update(Dog), [{"id": mine, "name": "mine", "tricks": 3}])
    ann.commit()
    assert sorted(plainly(select(Animal.name).where(Animal.kind == "dog"))) == [
        "bob's dog",
        "mine",
    ]


def test_an_alias_is_written_as_its_table_is(
    ann: RefSession, world: World, plainly: Callable[[Any], list[Any]]
) -> None:
    """Confined to the owner's rows, and naming what the owner sees."""
    plans: Any = Plan.__table__.alias()
    ann.execute(update(plans).values(day=5))
    foreign = {"recipe_id": world.recipes["bob"]}
    for naming, parameters in ((update(plans).values(foreign), None), (update(plans), foreign)):
        with pytest.raises(ForeignRowError, match=r"plans\.recipe_id"):
            ann.execute(naming, parameters)
    with pytest.raises(UnconfinedError, match="owner's column"):
        ann.execute(update(plans).values(user_id=world.users["bob"]))
    connection = ann.get_transaction().connection(None)  # type: ignore[union-attr]
    with pytest.raises(ForeignRowError):
        connection.execute(update(plans).values(foreign))
    ann.commit()
    assert sorted(plainly(select(Plan.day))) == [1, 5]
    ann.execute(delete(plans))
    ann.commit()
    assert plainly(select(Plan.id)) == [world.plans["bob"]]


@pytest.mark.parametrize("name", ["user_id", "recipe_id"])
def test_an_attribute_that_is_set_to_an_expression_is_refused(
    ann: RefSession, world: World, name: str
) -> None:
    """It would say whose a row is, or name another, and cannot be checked."""
    plan = ann.get_one(Plan, world.plans["ann"])
    setattr(plan, name, select(Recipe.__table__.c.id).scalar_subquery())
    with pytest.raises(UnconfinedError, match=rf" Plan\.{name} cannot be confined"):
        ann.flush()


def test_what_is_evaluated_stays_so_where_nothing_is_shared(
    ann: RefSession, world: World, sent_owned: list[str]
) -> None:
    """The session may write all its instances of such a class: nothing need be fetched."""
    dog = ann.get_one(Dog, world.dogs["ann"])
    assert ann.execute(update(Dog).values(tricks=4).returning(Dog.tricks)).scalars().all() == [4]
    assert dog.tricks == 4
    ann.execute(update(Plan).values(day=3))
    assert "RETURNING" not in sent_owned[-1]
    ann.execute(update(Recipe).values(minutes=3))
    assert "RETURNING" in sent_owned[-1]


PLANS: Any = Plan.__table__
LINES: Any = Line.__table__
OVERRIDDEN: dict[str, Callable[[uuid.UUID, uuid.UUID], tuple[Any, Any]]] = {
    "insert": lambda a, b: (
        insert(Line).values(recipe_id=a, text="x"),
        {"id": uuid.uuid4(), "recipe_id": b},
    ),
    "of a table": lambda a, b: (
        insert(PLANS).values(recipe_id=a),
        {"id": uuid.uuid4(), "recipe_id": b},
    ),
    "of several": lambda a, b: (
        insert(Line).values(recipe_id=a, text="x"),
        [{"recipe_id": b}] * 2,
    ),
    "of a list": lambda a, b: (
        insert(PLANS).values([{"id": uuid.uuid4(), "recipe_id": a} for _ in range(2)]),
        {"recipe_id_m1": b},
    ),
    "an association": lambda a, b: (
        insert(recipe_links).values(to_id=a),
        {"from_id": a, "to_id": b},
    ),
    "update": lambda a, b: (update(LINES).values(recipe_id=a), {"recipe_id": b}),
}


def test_parameters_that_go_before_values_are_checked(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """SQLAlchemy lets them win: the row that is sent in the end must be one the owner may name."""
    before = plainly(select(Line.recipe_id).order_by(Line.id))
    for made in OVERRIDDEN.values():
        statement, parameters = made(world.recipes["ann"], world.recipes["bob"])
        with pytest.raises(ForeignRowError):
            ann.execute(statement, parameters)
        ann.commit()
        assert plainly(select(Line.recipe_id).order_by(Line.id)) == before
        own, parameters = made(world.recipes["ann"], world.recipes["ann"])
        ann.execute(own, parameters)
        ann.rollback()


NEW = [{"day": 7}, {"day": 8}]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (insert(Plan), "recipe_id"),
        (insert(Plan).values(NEW), "recipe_id"),
        (upsert(PLANS).values(NEW[:1]).on_conflict_do_nothing(), "recipe_id"),
        *((update(Plan).values(day=7), what) for what in ("recipe_id", "user_id")),
        *((None, what) for what in ("recipe_id", "user_id")),  # by a flush
    ],
)
def test_what_defaults_fill_in_is_looked_at(
    ann: RefSession, world: World, statement: Any, what: str
) -> None:
    """By `default` or `onupdate`: another's row is not named, and no row is given away."""
    ann.add(plan := Plan(code="mine", recipe_id=world.recipes["ann"]))
    ann.commit()
    bobs = {"recipe_id": world.recipes["bob"], "user_id": world.users["bob"]}[what]
    column = PLANS.c[what]
    is_update = statement is None or statement.is_update
    if statement is None:
        plan.day = 7
    ColumnDefault(lambda: bobs, for_update=is_update)._set_parent(column)
    try:
        with pytest.raises((ForeignRowError, UnconfinedError)):
            ann.flush() if statement is None else ann.execute(statement)
    finally:
        column.default = column.onupdate = None


@pytest.mark.usefixtures("world")
def test_text_after_the_criteria_is_refused(ann: RefSession) -> None:
    """It is outside of all parentheses: one word would undo the criteria."""
    statements: list[Any] = [
        select(Recipe.name).with_statement_hint("or true"),
        select(Recipe.name).suffix_with("or 1 = 1"),
        select(Recipe.name).suffix_with("for update"),
        select(select(Recipe.name).suffix_with("or true").subquery("x")),
        select(select(Recipe.name).cte("x").suffix_with("or true")),
    ]
    for statement in statements:
        with pytest.raises(UnconfinedError, match=r"a hint|suffix_with\(\)"):
            ann.execute(statement)
