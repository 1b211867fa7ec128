"""An owned session reads the owner's rows and shared ones, by whatever way, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    MetaData,
    Table,
    case,
    cast,
    column as named_column,
    delete,
    exists,
    extract,
    func,
    join,
    lambda_stmt,
    literal,
    literal_column,
    or_,
    select,
    table,
    text,
    true,
    tuple_,
    types as sqltypes,
    union,
    union_all,
    values,
)
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import (
    Bundle,
    aliased,
    contains_eager,
    defer,
    joinedload,
    selectin_polymorphic,
    selectinload,
    subqueryload,
    with_polymorphic,
)

from alfred_refs import Ownership, RefSession, UnconfinedError
from tests.fix_owned import World
from tests.owned import (
    Animal,
    Cat,
    Dog,
    Ingredient,
    Line,
    Plan,
    Recipe,
    Remark,
    Secret,
    Shelf,
    User,
    recipe_tags,
)

RECIPES: Any = Recipe.__table__
LINES: Any = Line.__table__
PLANS: Any = Plan.__table__

Other = aliased(Recipe)
Named = aliased(Recipe, name="alfred_owner_recipes")
Sub = aliased(Recipe, select(Recipe).subquery())
WithDogs = with_polymorphic(Animal, [Dog])
in_cte = select(Recipe.name, Recipe.id).cte()
in_subquery = select(Line.text, Line.recipe_id).subquery()
per_recipe = (
    select(Line.text.label("text")).where(Line.recipe_id == Recipe.id).lateral("per_recipe")
)
tree = select(Recipe.id, Recipe.name).where(Recipe.parent_id.is_(None)).cte(recursive=True)
tree = tree.union_all(select(Recipe.id, Recipe.name).join(tree, Recipe.parent_id == tree.c.id))

full = select(func.coalesce(Recipe.name, "-").label("name")).join(
    Plan, Plan.recipe_id == Recipe.id, full=True
)
removed = (
    delete(Remark)
    .where(Remark.line_id == Line.id, Line.text != "all")
    .returning(Line.text.label("text"))
    .cte()
)

HERS = ["ann"]
SEEN = ["all", "ann"]

READS: dict[str, tuple[Any, list[Any]]] = {
    "a column": (select(Recipe.name), SEEN),
    "what is never shared": (select(Plan.code), HERS),
    "the owner": (select(User.name), HERS),
    "by relationship": (select(Line.text), SEEN),
    "by two relationships": (select(Remark.text), SEEN),
    "open": (select(Ingredient.name), ["salt"]),
    "Core": (select(RECIPES.c.name), SEEN),
    "Core by alias": (select(RECIPES.alias().c.name), SEEN),
    "alias": (select(Other.name), SEEN),
    "alias by a name of ours": (select(Named.name), SEEN),
    "alias of alias": (select(RECIPES.alias().alias().c.name), SEEN),
    "alias of a subquery": (select(Sub.name), SEEN),
    "two aliases": (select(Other.name).join(Recipe, Other.name == Recipe.name), SEEN),
    "where only": (select(Plan.code).where(Plan.recipe_id == Recipe.id), HERS),
    "a foreign row named": (select(Recipe.name).where(Recipe.name == "bob"), []),
    "or true": (select(Recipe.name).where(or_(Recipe.name == "x", true())), SEEN),
    "or of two": (select(Recipe.name).where(Recipe.name == "ann", Recipe.name == "bob"), []),
    "inner join": (select(Line.text).join(Line.recipe), SEEN),
    "Core join": (select(LINES.c.text).join(RECIPES, RECIPES.c.id == LINES.c.recipe_id), SEEN),
    "outer join, near": (select(Recipe.name).outerjoin(Plan, true()), SEEN),
    "outer join, far": (select(func.coalesce(Plan.code, "-")).select_from(Recipe)
                        .outerjoin(Plan, true()), ["ann", "ann"]),
    "outer join of what is not there": (
        select(func.coalesce(Line.text, "-")).select_from(Ingredient)
        .outerjoin(Line, Line.text == "bob"), ["-"]),
    "nested outer join": (
        select(func.coalesce(Line.text, "-")).select_from(Ingredient)
        .outerjoin(Recipe.__table__.join(LINES, RECIPES.c.id == LINES.c.recipe_id),
                   RECIPES.c.name == "bob"), ["-"]),
    "full join": (select(func.coalesce(Plan.code, "-")).select_from(Recipe)
                  .join(Plan, Plan.recipe_id == Recipe.id, full=True), ["-", "ann"]),
    "full join of aliases": (
        select(func.coalesce(Other.name, "-")).select_from(Plan)
        .join(Other, Plan.recipe_id == Other.id, full=True), SEEN),
    "full join by relationship": (
        select(func.coalesce(Line.text, "-")).select_from(Plan)
        .join(Line, Plan.recipe_id == Line.recipe_id, full=True), SEEN),
    "full join under an outer one": (
        select(func.coalesce(Plan.code, "-")).select_from(Ingredient).outerjoin(
            RECIPES.join(PLANS, PLANS.c.recipe_id == RECIPES.c.id, full=True), true()),
        ["-", "ann"]),
    "full join in a subquery of the same tables": (
        select(full.subquery().c.name).join(Recipe, true()).join(Plan, true()), SEEN * 2),
    "delete in a select of the same tables": (
        select(removed.c.text).join(Line, true()).join(Remark, Remark.line_id == Line.id),
        HERS * 2),
    "in": (select(Plan.code).where(Plan.recipe_id.in_(select(Recipe.id))), HERS),
    "not in": (select(Ingredient.name).where(literal("bob").not_in(select(Recipe.name))),
               ["salt"]),
    "exists": (select(Ingredient.name).where(exists().where(Recipe.name == "bob")), []),
    "any": (select(Recipe.name).where(Recipe.lines.any(Line.text == "ann")), HERS),
    "any of a foreign row": (select(Recipe.name).where(~Recipe.lines.any(Line.text == "x")), SEEN),
    "has": (select(Line.text).where(Line.recipe.has(Recipe.name == "ann")), HERS),
    "scalar subquery": (select(select(func.count(Recipe.id)).scalar_subquery()), [2]),
    "correlated": (
        select(select(func.count(Line.id)).where(Line.recipe_id == Recipe.id).scalar_subquery())
        .select_from(Recipe), [1, 1]),
    "count": (select(func.count()).select_from(Recipe), [2]),
    "group by the primary key": (
        select(Recipe.name).outerjoin(Recipe.lines).group_by(Recipe.id), SEEN),
    "having": (select(Recipe.name).group_by(Recipe.name).having(func.count() > 0), SEEN),
    "distinct": (select(Recipe.name).distinct(), SEEN),
    "cte": (select(in_cte.c.name), SEEN),
    "recursive cte": (select(tree.c.name), SEEN),
    "cte twice": (select(in_cte.c.name).join(in_cte.alias(), true()), SEEN * 2),
    "subquery": (select(in_subquery.c.text), SEEN),
    "lateral": (select(per_recipe.c.text).select_from(Recipe).join(per_recipe, true()), SEEN),
    "union": (union(select(Recipe.name), select(Line.text)), SEEN),
    "union all": (union_all(select(Recipe.name), select(Plan.code)), [*SEEN, "ann"]),
    "union in a subquery": (
        select(union_all(select(Recipe.name), select(Plan.code)).subquery().c.name),
        [*SEEN, "ann"]),
    "joined inheritance": (select(Dog.name), ["ann's dog"]),
    "the subclass's table alone": (select(func.count(Dog.__table__.c.id)), [1]),
    "single-table inheritance": (select(Cat.name), ["ann's cat"]),
    "base class": (select(Animal.name), ["ann's cat", "ann's dog"]),
    "with_polymorphic": (select(WithDogs.name), ["ann's cat", "ann's dog"]),
    "bundle": (select(Bundle("b", Plan.code)), [("ann",)]),
    "lambda": (lambda_stmt(lambda: select(Recipe.name)), SEEN),
    "case": (select(case((Plan.day > 0, Plan.code))), HERS),
    "window": (select(func.row_number().over(order_by=Plan.code)), [1]),
    "values": (
        select(values(named_column("n", sqltypes.Integer), name="v").data([(1,)]).c.n), [1]),
    "table function": (select(func.unnest(literal([1, 2])).column_valued()), [1, 2]),
    "for update": (select(Plan.code).with_for_update(), HERS),
    "skip locked": (select(Plan.code).join(Recipe).with_for_update(of=Plan, skip_locked=True),
                    HERS),
    "tablesample": (select(aliased(Plan, PLANS.tablesample(100)).code), HERS),
    "rows as tuples": (select(Plan.code).where(tuple_(Plan.day, Plan.code) == (1, "ann")), HERS),
    "limit": (select(Recipe.name).order_by(Recipe.name.desc()).limit(1), HERS),
    "a harmless text": (select(Recipe.name).order_by(text("name desc")), SEEN),
    "a literal column": (select(literal_column("1")).select_from(Plan), [1]),
    "an operator": (select(Plan.code.op("||")("!")), ["ann!"]),
    "a text that would undo what stands beside it": (
        select(Recipe.name).where(text("name = 'x' or true")), SEEN),
    "an operator that would": (
        select(Recipe.name).where(Recipe.name.op("= 'x' or true or name =", precedence=100)("x")),
        SEEN),
    "a part of a date": (select(extract("year", func.now()) > 2000), [True]),
    "a cast": (select(cast(Plan.day, sqltypes.Text)), ["1"]),
    "a composite key": (select(Shelf.place), [0]),
    "an association table": (select(recipe_tags.c.recipe_id), []),
}  # fmt: skip


def test_a_statement_reads_the_owners_rows_and_shared_ones(
    ann: RefSession, sent_owned: list[str]
) -> None:
    """No row of another owner has a part in a result, and nothing but the statement is sent."""
    wrong: dict[str, Any] = {}
    for way, (statement, expected) in READS.items():
        sent_owned.clear()
        found = sorted(ann.scalars(statement).all(), key=str)
        if found != sorted(expected, key=str) or len(sent_owned) != 1:
            wrong[way] = found, [*sent_owned]
        ann.rollback()  # some delete in a CTE

    assert wrong == {}


def test_a_statement_is_compiled_once_for_all_owners(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """The owner is a parameter: sessions that take turns share SQLAlchemy's cache, and no row."""
    ann, bob = (
        RefSession(owned_engine, owner=ownership.of(world.users[who])) for who in ("ann", "bob")
    )
    compiled = set()
    with ann, bob:
        for day, (session, who) in enumerate(((ann, "ann"), (bob, "bob"), (ann, "ann"))):
            found = session.scalars(select(Plan.code).where(Plan.day != day + 2)).all()
            compiled.add(len(owned_engine._compiled_cache or ()))
            assert found == [who]
    assert len(compiled) == 1


def test_a_session_without_owner_compiles_as_ever(ann: RefSession, owned_engine: Engine) -> None:
    """The same statement in the same process is not confined elsewhere."""
    assert len(ann.scalars(select(Recipe.name)).all()) == 2

    with RefSession(owned_engine) as other:
        assert other.owner is None
        assert len(other.scalars(select(Recipe.name)).all()) == 3


# Entities and relationships


@pytest.mark.parametrize("load", [joinedload, selectinload, subqueryload])
def test_eager_loads_are_confined(ann: RefSession, world: World, load: Any, plainly: Any) -> None:
    """A child that is not the owner's is not loaded with its parent, however it is loaded."""
    with ann.unconfined():
        ann.add(Plan(user_id=world.users["bob"], recipe_id=world.recipes["ann"]))
        ann.commit()
    statement = select(Plan).options(load(Plan.recipe).options(load(Recipe.lines)))

    [plan] = ann.scalars(statement).unique().all()

    recipe: Any = plan.recipe
    assert (plan.code, recipe.name) == ("ann", "ann")
    assert [line.text for line in recipe.lines] == ["ann"]
    assert len(plainly(select(Plan.id))) == 3


def test_a_child_of_a_foreign_parent_has_none(ann: RefSession, world: World) -> None:
    """A relationship that leads to a row of another owner is empty, lazily and eagerly."""
    with RefSession(ann.get_bind()) as trusted:
        plan = trusted.get(Plan, world.plans["ann"])
        plan.recipe_id = world.recipes["bob"]
        trusted.commit()

    plan = ann.get(Plan, world.plans["ann"])

    assert plan.recipe is None
    ann.expunge_all()
    for load in (joinedload, selectinload):
        ann.expunge_all()
        statement = select(Plan).options(load(Plan.recipe))
        assert [plan.recipe for plan in ann.scalars(statement)] == [None]


def test_lazy_loads_are_confined(ann: RefSession, world: World) -> None:
    """A collection has what the owner may read of it."""
    with RefSession(ann.get_bind()) as trusted:
        trusted.get(Recipe, world.recipes["bob"]).parent_id = world.recipes["all"]
        trusted.get(Recipe, world.recipes["ann"]).parent_id = world.recipes["all"]
        trusted.commit()

    shared: Any = ann.get(Recipe, world.recipes["all"])

    assert [line.text for line in shared.lines] == ["all"]
    children = ann.scalars(select(Recipe).where(Recipe.parent == shared)).all()
    assert [child.name for child in children] == ["ann"]


def test_joined_entities_fill_collections_of_what_may_be_read(ann: RefSession) -> None:
    """`contains_eager()` of a join has no foreign rows."""
    statement = select(Recipe).join(Recipe.lines).options(contains_eager(Recipe.lines))

    found = ann.scalars(statement).unique().all()

    assert sorted(line.text for recipe in found for line in recipe.lines) == SEEN


def test_polymorphic_loads_are_confined(ann: RefSession) -> None:
    """The rows of subclasses' tables are loaded for the owner's rows alone."""
    statement = select(Animal).options(selectin_polymorphic(Animal, [Dog, Cat]))

    assert sorted(animal.name for animal in ann.scalars(statement)) == ["ann's cat", "ann's dog"]
    assert [dog.tricks for dog in ann.scalars(select(Dog))] == [0]


def test_from_statement_is_confined(ann: RefSession) -> None:
    """Entities from a statement of columns are those that the owner may read."""
    statement = select(Recipe).from_statement(select(RECIPES).order_by(RECIPES.c.name))

    assert [recipe.name for recipe in ann.scalars(statement)] == SEEN


def test_legacy_queries_are_confined(ann: RefSession, world: World) -> None:
    """`Query` goes the same way."""
    query = ann.query(Recipe)

    assert query.count() == 2
    assert sorted(recipe.name for recipe in query) == SEEN
    assert query.filter_by(name="bob").first() is None
    assert query.filter(Recipe.id == world.recipes["bob"]).one_or_none() is None
    assert ann.query(query.exists()).scalar()


def test_streams_are_confined(ann: RefSession) -> None:
    """Rows that come in chunks are compiled as others are, and so is what loads beside them."""
    statement = select(Recipe).options(selectinload(Recipe.lines)).order_by(Recipe.name)

    found = ann.scalars(statement, execution_options={"yield_per": 1})

    assert [(r.name, [line.text for line in r.lines]) for r in found] == [
        ("all", ["all"]),
        ("ann", ["ann"]),
    ]


# One row


@pytest.mark.parametrize("who", ["ann", "bob", "all"])
def test_get_finds_what_may_be_read(ann: RefSession, world: World, who: str) -> None:
    """A row of another owner is as one that is not there, for every kind of belonging."""
    readable = who != "bob"

    assert (ann.get(Recipe, world.recipes[who]) is not None) is readable
    assert (ann.get(Line, world.lines[who]) is not None) is readable
    assert (ann.get(Remark, world.remarks[who]) is not None) is readable
    assert (ann.get(User, world.users[who]) is not None) is (who == "ann")
    assert (ann.get(Plan, world.plans[who]) is not None) is (who == "ann")
    assert (ann.get(Dog, world.dogs[who]) is not None) is (who == "ann")


def test_get_after_it_was_loaded_unconfined_finds_nothing(ann: RefSession, world: World) -> None:
    """An instance in the identity map is found only if its row is the owner's to read."""
    classes: list[Any] = [Recipe, Line, Remark, Dog]
    kinds = zip(classes, (world.recipes, world.lines, world.remarks, world.dogs), strict=True)
    rows: list[Any] = [(class_, keys["ann"], keys["bob"]) for class_, keys in kinds]
    rows.append((Shelf, (1, 0), (1, 1)))
    with ann.unconfined():
        kept = [ann.get(class_, key) for class_, *keys in rows for key in keys]
    assert all(kept)

    for class_, own, foreign in rows:
        assert ann.get(class_, own) is not None
        assert ann.get(class_, foreign) is None


def test_a_lazy_load_from_the_identity_map_is_confined(ann: RefSession, world: World) -> None:
    """A many-to-one that the identity map could answer is not answered with a foreign row."""
    with RefSession(ann.get_bind()) as trusted:
        trusted.get(Plan, world.plans["ann"]).recipe_id = world.recipes["bob"]
        trusted.commit()
    with ann.unconfined():
        foreign = ann.get(Recipe, world.recipes["bob"])

    assert foreign.name == "bob"
    assert ann.get(Plan, world.plans["ann"]).recipe is None


def test_a_foreign_row_cannot_be_refreshed(ann: RefSession, world: World) -> None:
    """An instance that was loaded unconfined is refreshed only unconfined."""
    with ann.unconfined():
        recipe = ann.get(Recipe, world.recipes["bob"])

    with pytest.raises(InvalidRequestError, match="Could not refresh"):
        ann.refresh(recipe)
    ann.expire(recipe)
    with pytest.raises(InvalidRequestError, match="has been deleted, or its row"):
        _ = recipe.name
    with ann.unconfined():
        ann.refresh(recipe)
        assert recipe.name == "bob"


def test_an_expired_foreign_row_is_not_found(ann: RefSession, world: World) -> None:
    """What is not loaded is asked for, within the owner's rows."""
    with ann.unconfined():
        foreign, own = (ann.get(Recipe, world.recipes[who]) for who in ("bob", "ann"))
    ann.expire(foreign)
    ann.expire(own)

    assert ann.get(Recipe, world.recipes["bob"]) is None
    assert ann.get(Recipe, world.recipes["ann"]) is own


def test_what_was_attached_is_not_believed(ann: RefSession, world: World) -> None:
    """An instance of another session is found by `get()` only if its row may be read."""
    with RefSession(ann.get_bind()) as trusted:
        lines = [trusted.get(Line, world.lines[who]) for who in ("ann", "bob")]
    ann.add_all(lines)

    assert ann.get(Line, world.lines["ann"]) is lines[0]
    assert ann.get(Line, world.lines["bob"]) is None


def test_reads_of_deferred_columns_are_confined(ann: RefSession) -> None:
    """Columns that are loaded later are loaded of the owner's rows alone."""
    statement = select(Recipe).options(defer(Recipe.minutes)).where(Recipe.name == "ann")

    assert ann.scalars(statement).one().minutes == 0


# What is refused

REFUSED: dict[str, Any] = {
    "text": text("select name from recipes"),
    "text in columns": select(text("(select name from recipes limit 1)")),
    "text in where": select(Plan.code).where(text("exists (select 1 from recipes)")),
    "text with a comment": select(Plan.code).where(text("day = 1 --")),
    "text with a union": select(Plan.code).where(text("day = 1 union table recipes")),
    "text with columns": text("select name from recipes").columns(Recipe.name),
    "text for entities": select(Recipe).from_statement(text("select * from recipes")),
    "text in a cte": select(text("select name from recipes").columns(Recipe.name).cte().c.name),
    "text as a table": select(literal_column("name")).select_from(text("recipes")),
    "text as a table in a subquery": select(
        select(literal_column("name")).select_from(text("recipes")).subquery()
    ),
    "text as a table in a union": union(
        select(Recipe.name), select(literal_column("name")).select_from(text("recipes"))
    ),
    "text as a table in exists": select(Recipe.name).where(
        exists(literal_column("1")).select_from(text("recipes r"))
    ),
    "text as a joined table": select(Recipe.name).select_from(
        join(RECIPES, text("recipes r"), true())
    ),
    "text as a table joined further in": select(Recipe.name).select_from(
        join(RECIPES, join(RECIPES.alias(), text("users u"), true()), true())
    ),
    "a literal column": select(literal_column("(select name from recipes limit 1)")),
    "an unbalanced quote": select(literal_column("'")).select_from(Plan),
    "a custom operator": select(Plan.code.op("= (select name from recipes) or")("x")),
    "a part of a date": select(extract("year from now()), (select name", func.now())),
    "a prefix": select(Plan.code).prefix_with("(select name from recipes),"),
    "a suffix": select(Plan.code).suffix_with("union select name from recipes"),
    "a hint": select(Plan.code).with_statement_hint("union select name from recipes"),
    "an unknown table": select(Secret.text),
    "an unknown table in where": select(Plan.code).where(exists().where(Secret.text == "x")),
    "an unknown table joined": select(Plan.code).outerjoin(Secret, true()),
    "a table by its name": select(table("recipes", named_column("name")).c.name),
    "a table of other metadata": select(
        Table("recipes", MetaData(), Column("name", sqltypes.Text)).c.name
    ),
}


def test_what_cannot_be_confined_is_refused(ann: RefSession, sent_owned: list[str]) -> None:
    """The error is raised before anything is sent, each time, and shows how to allow it."""
    for statement in [*REFUSED.values()] * 2:
        with pytest.raises(UnconfinedError, match=r"cannot be confined .*; "):
            ann.execute(statement)

    assert sent_owned == []


@pytest.mark.parametrize("way", ["text", "an unknown table", "text for entities"])
def test_trusted_code_asks_for_it(ann: RefSession, way: str) -> None:
    """An execution option lifts the walls for one statement, and for no other."""
    unconfined = {"unconfined": True}

    ann.execute(REFUSED[way], execution_options=unconfined).all()
    ann.execute(REFUSED[way].execution_options(**unconfined)).all()
    with ann.unconfined():
        ann.execute(REFUSED[way]).all()

    with pytest.raises(UnconfinedError):
        ann.execute(REFUSED[way])


def test_an_unknown_table_is_told_by_its_name(ann: RefSession) -> None:
    """The remedy names `open=`."""
    with pytest.raises(UnconfinedError) as caught:
        ann.scalars(select(Secret))

    assert str(caught.value) == (
        "table 'secrets' cannot be confined to the rows of the session's owner; list its class "
        "in Ownership(open=...) if its rows have no owner, or else in owned"
    )


def test_relationships_may_be_loaded_unconfined(ann: RefSession) -> None:
    """What an unconfined statement loads beside its rows is not confined either."""
    statement = select(Recipe).options(selectinload(Recipe.lines)).where(Recipe.name == "bob")

    [recipe] = ann.scalars(statement, execution_options={"unconfined": True})

    assert [line.text for line in recipe.lines] == ["bob"]
