"""What SQLAlchemy's clauses are made of, pinned on both series."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    and_,
    column,
    delete,
    false,
    func,
    insert,
    inspect,
    not_,
    or_,
    select,
    true,
    update,
    values as sa_values,
)
from sqlalchemy.orm import (
    Bundle,
    DeclarativeBase,
    Mapped,
    column_property,
    configure_mappers,
    joinedload,
    mapped_column,
    with_expression,
    with_loader_criteria,
)

from alfred_refs import sqla
from tests.mapping.test_lineage import Opaque
from tests.models import MealPlan, Recipe, recipe_tags
from tests.sqla.statements import ONE
from tests.statements.test_model_unions import Vehicle


def test_values_of_a_write_are_listed_as_given() -> None:
    """By name, by attribute, in order, and in lists."""
    by_name = dict(sqla.values_of(insert(MealPlan).values(recipe_id=ONE)))
    ordered = dict(sqla.values_of(update(MealPlan).ordered_values((MealPlan.recipe_id, ONE))))
    many = sqla.many_values_of(insert(MealPlan).values([{"recipe_id": ONE}]))

    assert [sqla.parameter_value(v) for v in by_name.values()] == [ONE]
    assert [sqla.parameter_value(v) for v in ordered.values()] == [ONE]
    assert [[list(record.values()) for record in each] for each in many] == [[[ONE]]]
    assert list(sqla.values_of(select(Recipe))) == []


def test_returning_tells_entities_from_columns() -> None:
    """An entity stands at one position, a table at as many as it has columns."""
    orm = insert(MealPlan).returning(MealPlan, MealPlan.id)
    core = insert(recipe_tags).returning(recipe_tags)

    assert [len(elements) for elements in sqla.result_expressions(orm)] == [0, 1]
    assert [elements[0].key for elements in sqla.result_expressions(core)] == ["recipe_id", "tag"]


@pytest.mark.parametrize("write", [insert, update, delete])
def test_a_write_tells_its_table_and_its_class(write: Any) -> None:
    """By the class, by the table, and by a table where criteria name a class."""
    assert sqla.write_target(write(Recipe)) == (Recipe.__table__, Recipe.__mapper__)
    assert sqla.write_target(write(recipe_tags)) == (recipe_tags, None)
    if write is not insert:
        mixed = write(recipe_tags).where(recipe_tags.c.recipe_id == Recipe.id)
        assert sqla.write_target(mixed) == (recipe_tags, None)


def test_an_element_of_ones_own_has_no_parts() -> None:
    """They are found in its attributes, but not the element itself, which its comparator has."""
    parts = [Recipe.id, "x"]
    element = Opaque(parts)
    assert element.comparator.__clause_element__() is element

    key, parameter = sqla.opaque_parts(element)

    assert (str(key), sqla.parameter_value(parameter)) == ("recipes.id", "x")  # type: ignore[arg-type]
    assert [sqla.is_opaque(e) for e in (element, Recipe.name == "x", None)] == [True, False, False]


def test_an_attribute_of_a_concrete_base_stands_for_a_column_of_the_union() -> None:
    """The ORM puts it there; any other attribute stands for its own column."""
    configure_mappers()
    attribute, plain = (c.__clause_element__() for c in (Vehicle.id, Recipe.id))

    found = sqla.polymorphic_column(attribute)

    assert found is Vehicle.__mapper__.selectable.c["id"]
    assert len(found.base_columns) == 2
    assert sqla.polymorphic_column(plain) is plain


def test_the_rows_of_a_values_construct_are_listed_by_position() -> None:
    """What is no expression is taken for a parameter that no statement lists."""
    listed = sa_values(column("x"), column("y"), name="v").data([(1, "a"), (func.now(), "b")])

    first, second = sqla.expressions_by_position(listed)

    assert [type(each).__name__ for each in first] == ["BindParameter", "now"]
    assert [sqla.parameter_value(each) for each in second] == ["a", "b"]


def test_a_bundle_is_known_behind_the_element_that_stands_for_it() -> None:
    """A select keeps the bundle's columns, which remember it; other elements have none."""
    bundle: Bundle[Any] = Bundle("own", Recipe.id)
    [[element]] = sqla.result_expressions(select(bundle))

    assert sqla.bundle_of(element) is bundle
    assert sqla.bundle_of(bundle) is bundle
    assert sqla.bundle_of(Recipe.__table__.c.id) is None


def test_an_expression_leads_to_the_info_of_its_attribute() -> None:
    """A statement has the expression, not the attribute; a table's column has none."""

    class Local(DeclarativeBase):
        """Of this test."""

    class Box(Local):
        __tablename__ = "boxes"
        num: Mapped[int] = mapped_column(primary_key=True)
        twice: Mapped[int] = column_property(num * 2, info={"ref": None})

    [[column], [expression]] = sqla.result_expressions(select(Box.num, Box.twice))

    assert sqla.info_of(expression) == {"ref": None}
    assert sqla.info_of(column) == {}
    assert sqla.info_of(Box.__table__.c.num) == {}


def test_an_unnamed_column_is_told_from_a_named_one() -> None:
    """The column of an expression without a label gets its name when it is compiled."""
    unnamed, named = select(func.max(Recipe.name), Recipe.name).subquery().c

    assert (sqla.is_unnamed(unnamed), sqla.is_unnamed(named)) == (True, False)


def test_an_ordered_aggregate_is_found_where_the_series_has_it() -> None:
    """Only SQLAlchemy 2.1 has the method; `within_group()` is another thing."""
    aggregate: Any = func.array_agg(Recipe.name)
    order = getattr(aggregate, "aggregate_order_by", None)

    assert order is None or sqla.ordered_aggregate(order(Recipe.name)) is aggregate
    assert sqla.ordered_aggregate(func.mode().within_group(Recipe.name)) is None


def test_the_expression_of_an_option_is_found() -> None:
    """`with_expression()` carries it, below another option too; other options carry none."""
    direct = with_expression(Recipe.name, Recipe.id)
    nested = joinedload(MealPlan.recipe).with_expression(Recipe.name, Recipe.id)

    assert [str(e) for e in sqla.query_expressions([direct])] == ["recipes.id"]
    assert [str(e) for e in sqla.query_expressions([nested])] == ["recipes.id"]
    assert list(sqla.query_expressions([joinedload(MealPlan.recipe)])) == []
    assert list(sqla.options_of(select(Recipe).options(direct))) == [direct]


def test_a_condition_that_nothing_meets_is_told() -> None:
    """Whatever it is made of, once `and_` and `or_` have left out what does not count."""
    one = column("a") == 1
    never = [
        false(),
        and_(true(), one, false()),
        or_(false(), and_(one, false())),
        and_(true(), not_(or_(true(), one))),
    ]

    assert all(map(sqla.is_false, never))
    assert not any(map(sqla.is_false, [true(), and_(true(), one), or_(false(), one), not_(one)]))


def test_criteria_of_loader_options_are_those_of_a_class() -> None:
    """Given as an expression, by a function, and for a mixin; not those of another class."""
    mapper = inspect(Recipe)
    options = [
        with_loader_criteria(Recipe, Recipe.name != "hidden"),
        with_loader_criteria(Recipe, lambda class_: class_.name.is_not(None)),
        with_loader_criteria(MealPlan, MealPlan.recipe_id.is_(None)),
        joinedload(MealPlan.recipe),
    ]
    criteria = [str(each) for each in sqla.loader_criteria(options, mapper)]
    assert criteria == ["recipes.name != :name_1", "recipes.name IS NOT NULL"]
