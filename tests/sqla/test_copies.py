"""Copies of SQLAlchemy's statements with other values, pinned on both series."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    BindParameter,
    Engine,
    Executable,
    Uuid,
    and_,
    bindparam,
    delete,
    event,
    func,
    insert,
    literal,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.orm import Session, aliased, selectinload, subqueryload, with_loader_criteria

from alfred_refs import sqla
from tests.models import Cook, MealPlan, Recipe, recipe_tags
from tests.sqla.statements import ONE, STATEMENTS, TWO, other, values


@pytest.mark.parametrize("make", STATEMENTS.values(), ids=STATEMENTS)
def test_values_can_be_replaced_in_a_copy_of_the_same_shape(make: Any) -> None:
    """The copy has the new value in every place, the original is as it was."""
    statement = make(ONE)
    before = values(statement)
    replaced = {
        p.key: [TWO] if isinstance(sqla.parameter_value(p), list) else TWO
        for p in sqla.cache_key_of(statement)[1]
        if sqla.parameter_value(p) in (ONE, [ONE])
    }

    copy = sqla.with_values(statement, replaced)

    assert values(copy) == values(make(TWO))
    assert sqla.cache_key_of(copy)[0] == sqla.cache_key_of(statement)[0]
    assert values(statement) == before


same = Recipe.id == bindparam("wanted", ONE)
parts = select(Recipe.id).where(Recipe.id == bindparam("wanted", ONE)).subquery()
IN_WHERE: dict[str, Executable] = {
    "entity": select(Recipe).where(Recipe.id == ONE, Recipe.name == "x"),
    "other way round": select(Recipe).where(bindparam("wanted", ONE) == Recipe.id),
    "column": select(Recipe.name).where(Recipe.id != ONE).order_by(Recipe.name).limit(3),
    "table": select(recipe_tags).where(recipe_tags.c.recipe_id.in_([ONE, ONE])),
    "alias": select(other).where(other.id == ONE, other.parent_recipe_id == ONE),
    "and, or": select(Recipe).where(
        and_(Recipe.id == ONE, or_(Recipe.name == "x", and_(Recipe.id == ONE, ~(same))))
    ),
    "twice": select(Recipe).where(same, Recipe.parent_recipe_id == same.right),
    "by one name": select(Recipe).where(same, Recipe.parent_recipe_id == bindparam("wanted", ONE)),
    "beside a subquery": select(Recipe).where(Recipe.id == ONE, Recipe.plans.any()),
    "beside a join": select(Recipe).join(other, other.name == "x").where(other.id == ONE),
    "subclass": select(Cook).where(Cook.id == str(ONE), Cook.mentor_id == str(ONE)),
    "loader": select(Recipe)
    .where(Recipe.id == ONE)
    .options(subqueryload(Recipe.plans), with_loader_criteria(MealPlan, MealPlan.day.is_(None))),
    "update": update(Recipe).where(Recipe.id == ONE).values(name="x"),
    "delete": delete(Recipe).where(Recipe.id == ONE),
}
ELSEWHERE: dict[str, Executable] = {
    "shown too": select(Recipe, same).where(same),
    "subquery": select(Recipe).where(Recipe.plans.any(MealPlan.recipe_id == ONE)),
    "subquery too": select(parts.c.id).where(parts.c.id == same.right, same),
    "on": select(Recipe).join(other, other.id == ONE).where(other.id == ONE),
    "having": select(Recipe.id).where(same).group_by(Recipe.id).having(same),
    "function": select(Recipe).where(Recipe.id == func.coalesce(None, ONE)),
    "values": update(Recipe).where(Recipe.id == ONE).values(parent_recipe_id=ONE),
    "union": union(select(Recipe.id).where(same), select(Recipe.id)),
    "loader": select(Recipe).where(same).options(
        with_loader_criteria(MealPlan, MealPlan.recipe_id == same.right)
    ),
    "insert": insert(MealPlan).values(recipe_id=ONE),
}  # fmt: skip


def ones(statement: Executable) -> list[Any]:
    """Return the parameters that hold the first key, as such or in a list."""
    held = {ONE: TWO, str(ONE): str(TWO)}
    found = sqla.cache_key_of(statement)[1]
    return [p for p in found if (v := p.effective_value) in [*held, [ONE, ONE]] and v is not None]


def holding(key: uuid.UUID, statement: Executable) -> dict[str, Any]:
    """Return another key, by the names of the parameters that hold the first."""
    kinds: dict[type[Any], Any] = {uuid.UUID: key, str: str(key), list: [key, key]}
    return {p.key: kinds[type(p.effective_value)] for p in ones(statement)}


def compiled(statement: Any) -> tuple[str, dict[str, Any]]:
    """Return the SQL and the parameters that a statement is sent as."""
    done = statement.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    return str(done), done.params


@pytest.mark.parametrize("name", IN_WHERE)
def test_a_quick_copy_is_sent_as_a_whole_one(name: str) -> None:
    """It has the same SQL and parameters, and the cache key that it would generate."""
    statement = IN_WHERE[name]
    before = compiled(statement)
    assert sqla.all_in_where(statement, ones(statement))

    quick: Any = sqla.with_values_in_where(statement, holding(TWO, statement))

    assert (
        compiled(quick) == compiled(sqla.with_values(statement, holding(TWO, statement))) != before
    )
    assert sqla.cache_key_of(quick)[0] == sqla.cache_key_of(statement)[0]
    assert sorted(values(quick.where(Recipe.name == "")), key=str) == sorted(
        [*values(quick), ""], key=str
    )
    assert compiled(statement) == before


@pytest.mark.parametrize("name", IN_WHERE)
def test_quick_copies_are_compiled_once_and_sent_with_their_own_values(
    tables: Engine, name: str
) -> None:
    """What is compiled for the first copy serves the second, with the second's values."""
    sent: list[tuple[str, set[str]]] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        held = {key for key in (str(ONE), str(TWO)) if key in str(arguments[3])}
        sent.append((arguments[4].cache_hit.name, held))

    with Session(tables) as session:
        for key in (ONE, TWO):
            replaced = holding(key, IN_WHERE[name])
            session.execute(sqla.with_values_in_where(IN_WHERE[name], replaced))

    assert sent == [("CACHE_MISS", {str(ONE)}), ("CACHE_HIT", {str(TWO)})]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_statement_is_copied_whole_where_a_parameter_stands_elsewhere(name: str) -> None:
    """A quick copy would have the old value there."""
    assert ones(ELSEWHERE[name])
    assert not sqla.all_in_where(ELSEWHERE[name], ones(ELSEWHERE[name]))


@pytest.mark.parametrize(
    "copied", [sqla.without_lambdas, lambda s: sqla.with_values(s, holding(TWO, s))]
)
def test_a_copy_keeps_the_options_of_the_statement(copied: Any) -> None:
    """They are the same objects: SQLAlchemy fails to copy `with_loader_criteria()`."""
    statement = IN_WHERE["loader"]

    assert copied(statement)._with_options == statement._with_options
    assert len(copied(statement)._with_options) == 2


def test_lists_of_records_can_be_replaced_in_a_copy() -> None:
    """The original insert keeps its records."""
    statement = insert(MealPlan).values([{"recipe_id": ONE}])

    copy = sqla.with_many_values(statement, ([{"recipe_id": TWO}],))

    assert sqla.many_values_of(copy) == ([{"recipe_id": TWO}],)
    assert sqla.many_values_of(statement) != sqla.many_values_of(copy)


def test_a_subquery_that_a_class_is_mapped_to_is_not_copied_without_need() -> None:
    """The ORM would select from the copy and from the original beside it, unjoined."""
    inner = aliased(Recipe, select(Recipe).where(Recipe.name != "x").subquery())
    statement = select(MealPlan.id, inner.name).join(inner, inner.id == MealPlan.recipe_id)
    statement = statement.where(inner.id == "recipe_1")
    [*_, parameter] = sqla.cache_key_of(statement)[1]

    copy = sqla.with_values(statement, {parameter.key: uuid.UUID(int=1)})

    assert str(copy) == str(statement)
    assert str(copy).count("FROM") == 2


def test_a_copy_can_send_a_parameter_as_another_type() -> None:
    """The copies of one shape have one shape again, and the original keeps its type."""
    statements = [select(Recipe).where(Recipe.id == literal(text)) for text in ("a", "b")]
    keys = [sqla.cache_key_of(statement)[1][0].key for statement in statements]

    one, two = (
        sqla.with_values(statement, {key: ONE}, {key: Uuid()})
        for statement, key in zip(statements, keys, strict=True)
    )

    assert (
        sqla.cache_key_of(one)[0]
        == sqla.cache_key_of(two)[0]
        != sqla.cache_key_of(statements[0])[0]
    )
    assert [str(p.type) for p in sqla.cache_key_of(one)[1]] == [str(Uuid())]
    assert [str(p.type) for p in sqla.cache_key_of(statements[0])[1]] == ["VARCHAR"]


def test_the_end_of_an_upsert_can_be_replaced_in_a_copy() -> None:
    """Its SET is given, its criteria are rewritten; the original is as it was."""
    statement = (
        pg_insert(Recipe)
        .values(name="x")
        .on_conflict_do_update(
            index_elements=["id"], set_={"name": "old"}, where=Recipe.name == "old"
        )
    )
    before = str(statement)
    values = {name: literal("new") for name, _ in sqla.conflict_values_of(statement)}

    copy = sqla.with_conflict_values(statement, values, lambda _: Recipe.name == "new")

    found = {e.value for e in sqla.elements_of(copy) if isinstance(e, BindParameter)}
    assert found == {"x", "new"}
    assert str(statement) == before


def test_what_params_gives_a_statement_can_be_replaced() -> None:
    """Only 2.1 keeps it beside the statement."""
    statement = select(Recipe).where(Recipe.id == bindparam("x")).params(x=ONE)
    kept = sqla.params_of(statement)

    assert kept in ({"x": ONE}, {})
    if kept:
        assert sqla.params_of(sqla.with_params(statement, {"x": TWO})) == {"x": TWO}
        assert sqla.params_of(statement) == {"x": ONE}


def test_what_a_copy_leaves_as_it_was_is_known() -> None:
    """Criteria of options and of joined relationships, and the subquery of an alias."""
    alias = aliased(Recipe, select(Recipe).where(Recipe.name == "alias").subquery())
    statement = (
        select(Recipe)
        .join(Recipe.plans.and_(MealPlan.day == "join"))
        .join(alias, alias.id == Recipe.id)
        .options(
            with_loader_criteria(Recipe, Recipe.name == "criteria"),
            selectinload(Recipe.plans.and_(MealPlan.day == "loader")),
        )
    )

    found = {
        element.value
        for part in sqla.unreachable_parts(statement)
        for element in sqla.elements_of(part)
        if isinstance(element, BindParameter)
    }
    assert found == {"join", "alias", "criteria", "loader"}
