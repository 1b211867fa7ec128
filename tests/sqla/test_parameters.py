"""What SQLAlchemy's bind parameters tell, and how it names them, pinned on both series."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    Engine,
    Integer,
    Uuid,
    bindparam,
    column,
    literal,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql

from alfred_refs import sqla
from tests.models import MealPlan, Recipe
from tests.sqla.statements import ONE, TWO, values


def test_a_parameter_tells_which_instance_it_reads() -> None:
    """One that is compared with a relationship does, in a copy too; no other parameter has one."""
    recipe = Recipe(id=ONE)
    statement = select(MealPlan).where(MealPlan.recipe == recipe, MealPlan.instead_of == TWO)
    for each in (statement, sqla.with_values(statement, {"instead_of_1": ONE})):
        [first, second] = sqla.cache_key_of(each)[1]
        assert sqla.instance_attribute_of(first) == (sqla.state_of(recipe), "id")
        assert sqla.instance_attribute_of(second) is None
    assert sqla.instance_attribute_of(bindparam("x", callable_=lambda: ONE)) is None


@pytest.mark.parametrize("length", [None, 6, 10])
@pytest.mark.parametrize("name", ["id", "a b", "x.y", "na%me", "(id)", "id_1", "i" * 30])
def test_a_made_name_is_known_by_what_it_is_made_of(name: str, length: int | None) -> None:
    """A value may be given by it as by the parameter's key, on both series, however long."""
    dialect: Any = postgresql.dialect
    for size in range(len(name), len(name) + (40 if len(name) == 30 else 1)):
        _check_made_names(name.ljust(size, "i"), dialect(label_length=length))


def _check_made_names(name: str, dialect: Any) -> None:
    held: ColumnElement[Any] = column(name, Uuid)
    statement = select(literal(1)).where(or_(*(held == ONE for _ in range(12))))
    compiled: Any = statement.compile(dialect=dialect)

    for parameter, made in compiled.bind_names.items():
        stem = sqla.anonymous_stem(parameter)
        assert stem is not None
        for given in (made, parameter.key):
            assert sqla.may_set_anonymous(given, stem)
            assert "other" in compiled.construct_params({given: "other"}).values()


def test_other_names_are_not_taken_for_made_ones() -> None:
    """Those that the program gives, of other parameters, and without a number."""
    assert sqla.anonymous_stem(bindparam("id_1")) is None
    assert not sqla.may_set_anonymous("other_1", "id")
    assert not sqla.may_set_anonymous("id", "id")
    assert not sqla.may_set_anonymous("%(7 other)s", "id")


def test_a_parameter_given_at_execution_has_no_value_yet() -> None:
    """`bindparam` without a value is listed with `None`."""
    statement = select(Recipe).where(Recipe.id == bindparam("wanted"))

    assert values(statement) == [None]
    assert isinstance(statement, ClauseElement)


def test_a_key_parameter_has_its_value_whatever_was_compiled_before(engine: Engine) -> None:
    """To SQLAlchemy's cache of statements one with a callable is the same as one without."""
    plain = BindParameter(None, 1, type_=Integer(), unique=True)

    with engine.connect() as connection:
        assert connection.scalar(select(plain)) == 1
        assert connection.scalar(select(sqla.key_parameter(2, Integer()))) == 2
        engine.clear_compiled_cache()
        assert connection.scalar(select(sqla.key_parameter(2, Integer()))) == 2
        assert connection.scalar(select(plain)) == 1
