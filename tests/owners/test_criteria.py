"""No statement gets round the owner's criteria: by names, locks, texts, hints or samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    Engine,
    Function,
    Integer,
    Numeric,
    String,
    and_,
    cast,
    collate,
    column,
    delete,
    exists,
    func,
    literal,
    literal_column,
    quoted_name,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import INTERVAL, insert as upsert
from sqlalchemy.orm import aliased

from alfred_refs import Ownership, RefSession, UnconfinedError
from alfred_refs.sqla import criterion_alias
from tests.fix_owned import World
from tests.owned import Ingredient, Line, Plan, Recipe


@pytest.mark.usefixtures("world")
def test_nobody_may_call_an_alias_as_ours_are(ann: RefSession) -> None:
    """It would stand for the criterion's own."""
    name = criterion_alias(Recipe.__table__).name
    for asked in (
        select(aliased(Recipe, name=quoted_name(name.upper(), quote=False))),
        select(aliased(Recipe, name=name)),
        select(Line).join(aliased(Recipe, name=name)),
        select(select(Recipe).subquery(name)),
        select(select(Recipe.id).cte(name)),
    ):
        with pytest.raises(UnconfinedError, match="alias by the name"):
            ann.execute(asked)


@pytest.mark.usefixtures("world")
def test_functions_that_execute_are_known_in_any_letters(ann: RefSession) -> None:
    """PostgreSQL folds their names."""
    executing = ("QUERY_TO_XML", "Table_To_Xml", "DBLINK_exec", "Set_Config", "crosstab5")
    for name in (*executing, "pg_stat_get_backend_activity", "PG_Read_File", "pg_anything_new"):
        with pytest.raises(UnconfinedError, match=name):
            ann.execute(select(getattr(func, name)("recipes")))
    assert ann.scalar(select(func.pg_typeof(1))) == "integer"


def test_rows_are_locked_that_may_be_written(ann: RefSession, world: World) -> None:
    """What is shared may be read by all: nobody keeps it from others. So with policies."""
    inner = select(Recipe.id, Recipe.name).subquery()
    alias = aliased(Recipe)
    for asked, found in {
        select(Recipe.name).with_for_update(): ["ann"],
        select(Recipe.name).with_for_update(read=True): ["ann"],
        select(inner.c.name).with_for_update(): ["ann"],
        select(inner.c.name, Line.id).join(Line).with_for_update(of=inner): ["ann"],
        select(Recipe.name).join(Line).with_for_update(of=Line): ["ann"],
        select(Recipe.name).outerjoin(Plan).with_for_update(of=Recipe): ["ann"],
        select(alias.name).join(Plan, true()).with_for_update(of=Plan): ["all", "ann"],
        select(alias.name)
        .join(Plan, Plan.day == alias.minutes, full=True)
        .where(alias.name.is_not(None))
        .with_for_update(of=alias): ["ann"],
        select(Recipe.name).where(exists(select(inner).where(inner.c.name == "all"))): [
            "all",
            "ann",
        ],
    }.items():
        assert sorted(ann.scalars(asked)) == found
    assert ann.get(Recipe, world.recipes["all"], with_for_update=True) is None
    assert ann.get(Recipe, world.recipes["all"]) is not None


def test_no_cte_stands_for_a_table(ann: RefSession, world: World) -> None:
    """The rows of some tables decide whose others are: a CTE would make all the owner's."""
    mine = {"user_id": literal(world.users["ann"]).label("user_id")}
    made = select(literal(world.recipes["bob"]).label("id"), mine["user_id"]).cte("recipes")
    for asked in (
        select(Line.text).add_cte(made),
        select(Line.text, made.c.id),
        update(Line).values(text="x").add_cte(made),
    ):
        with pytest.raises(UnconfinedError, match="a CTE with the name of table 'recipes'"):
            ann.execute(asked)
    folded = select(literal(world.recipes["bob"]).label("id"), mine["user_id"]).cte(
        quoted_name("RECIPES", quote=False)
    )
    with pytest.raises(UnconfinedError, match="'RECIPES' cannot be confined"):
        ann.execute(select(Line.text, folded.c.id))
    other = select(literal(1).label("id")).cte("ingredients")  # of no owner
    assert ann.scalars(select(other.c.id)).all() == [1]


RAW_NAME = "(SELECT max(name) FROM recipes)"


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "asked",
    [
        lambda name: select(column(name)),
        lambda name: select(Recipe.name.label(name)),
        lambda name: select(aliased(Recipe, name=name).id),
        lambda name: select(select(Recipe.id).cte(name).c.id),
        lambda name: select(collate(Recipe.name, name)),
        lambda name: select(Function(name, 1)),
        lambda _: select(Function(quoted_name("pg_catalog.query_to_xml", quote=False), "x")),
        lambda _: select(literal("1", INTERVAL(fields="second FROM recipes"))),
        lambda _: select(cast(Recipe.name, INTERVAL(fields="second), (SELECT 1"))),
    ],
    ids=["column", "label", "alias", "cte", "collation", "function", "path", "bind", "cast"],
)
def test_what_is_rendered_as_it_is_names_no_tables(
    ann: RefSession, asked: Callable[[Any], Any]
) -> None:
    """Names that must not be quoted and arguments of types are text as any other."""
    with pytest.raises(UnconfinedError, match=r"with more than a (name|type) in it"):
        ann.execute(asked(quoted_name(RAW_NAME, quote=False)))


@pytest.mark.usefixtures("world")
def test_names_and_types_are_rendered_as_ever(ann: RefSession) -> None:
    """Those with nothing more in them."""
    ann.execute(
        select(
            Recipe.name.label(quoted_name("Name", quote=False)),
            Recipe.name.label('a "b" (c), d'),
            cast(Recipe.minutes, Numeric(8, 2)),
            cast("1", INTERVAL(fields="DAY TO SECOND", precision=3)),
            cast(func.now(), TIMESTAMP(timezone=True)),
            cast([1], ARRAY(Integer, dimensions=1)),
            cast(Recipe.name, String(5, collation="C")),
            collate(Recipe.name, "C"),
        )
    ).all()


@pytest.mark.usefixtures("world")
def test_a_sample_is_of_the_rows_that_may_be_read(ann: RefSession) -> None:
    """Where no criterion can stand beside it, it is refused."""
    sample = Recipe.__table__.tablesample(func.bernoulli(100))
    assert sorted(ann.scalars(select(sample.c.name))) == ["all", "ann"]
    with pytest.raises(UnconfinedError, match="a TABLESAMPLE in this place"):
        ann.execute(select(sample.c.name).join(Line, Line.recipe_id == sample.c.id, full=True))


@pytest.mark.usefixtures("world")
@pytest.mark.filterwarnings("ignore:.* cartesian product")
@pytest.mark.parametrize("harmless", [text("true OR true"), literal_column("true OR true")])
def test_a_text_with_or_undoes_no_criterion(
    ann: RefSession, plainly: Callable[[Any], list[Any]], harmless: Any
) -> None:
    """Alone or beside others, wherever criteria are added to what a statement demands."""
    for demanded in (harmless, and_(true() == true(), harmless)):
        for asked in (
            select(Plan.code).where(demanded),
            select(Plan.code).where(Plan.day > 0, demanded),
            select(Plan.code).select_from(Ingredient).outerjoin(Plan, demanded),
            select(Plan.code).select_from(Ingredient).join(Plan, demanded),
            select(Plan.code).select_from(Ingredient).join(Plan, demanded, full=True),
            update(Plan).where(demanded).values(day=7).returning(Plan.code),
            update(Plan).where(Ingredient.id.is_not(None), demanded).values(day=7)
            .returning(Plan.code),
        ):  # fmt: skip
            assert {"ann"} <= set(ann.scalars(asked)) <= {"ann", None}
        made = upsert(Plan).values(code="bob")
        for where in (demanded, and_(Plan.day > 0, demanded)):
            ann.execute(
                made.on_conflict_do_update(index_elements=["code"], set_={"day": 9}, where=where)
            )
        ann.commit()
        assert sorted(plainly(select(Plan.day))) == [1, 7]
        assert ann.scalars(delete(Plan).where(demanded).returning(Plan.code)).all() == ["ann"]
        ann.rollback()


def test_schemas_may_be_translated(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """SQLAlchemy writes them as names that are not quoted, which no program has chosen."""
    engine = owned_engine.execution_options(schema_translate_map={None: "public"})
    with RefSession(engine, owner=ownership.of(world.users["ann"])) as session:
        assert sorted(session.scalars(select(Recipe.name))) == ["all", "ann"]
