"""What is told of parameters that read the attribute of an instance when they are executed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import BindParameter, bindparam, select
from sqlalchemy.orm import ColumnProperty, InstanceState

from alfred_refs import UntranslatableError, sqla
from tests.models import Guest, MealPlan, Recipe

ONE = uuid.uuid4()


def _reads(*variables: Any) -> Callable[[], Any]:
    """A callable as SQLAlchemy makes them: a function that reads variables of another."""

    def read() -> Any:
        return variables

    read.__module__ = "sqlalchemy.orm.relationships"
    return read


def _of_other_names(instance: object) -> Callable[[], Any]:
    it: InstanceState[Any] = sqla.state_of(instance)
    which: ColumnProperty[Any] = it.mapper.column_attrs["id"]

    def go() -> Any:
        return getattr(it.obj(), which.key)

    go.__module__ = "sqlalchemy.orm.elsewhere"
    return go


def test_each_way_to_compare_an_instance_tells_the_attribute() -> None:
    """It is the attribute that the foreign key refers to, or that has the foreign key."""
    recipe, plan = Recipe(id=ONE), MealPlan(id=ONE, recipe_id=ONE)
    criteria = [
        (MealPlan.recipe == recipe, recipe, "id"),
        (MealPlan.recipe != recipe, recipe, "id"),
        (Recipe.plans.contains(plan), plan, "recipe_id"),
    ]

    found = [sqla.instance_attribute_of(sqla.cache_key_of(select(c))[1][0]) for c, *_ in criteria]

    assert found == [(sqla.state_of(instance), name) for _, instance, name in criteria]


def test_what_sqlalchemy_calls_its_variables_does_not_matter() -> None:
    """They are known by what they are."""
    guest = Guest()
    parameter: BindParameter[Any] = bindparam("x", callable_=_of_other_names(guest))

    assert sqla.instance_attribute_of(parameter) == (sqla.state_of(guest), "id")


@pytest.mark.parametrize("read", [_reads(), partial(_reads(ONE))])
def test_a_callable_of_another_shape_is_refused(read: Callable[[], Any]) -> None:
    """One of SQLAlchemy's that does not tell the attribute: what it returns is a key."""
    with pytest.raises(UntranslatableError, match="compares a relationship with an instance"):
        sqla.instance_attribute_of(bindparam("x", callable_=read))


@pytest.mark.parametrize("read", [lambda: ONE, partial(str, ONE), ONE.__str__, [ONE].pop])
def test_a_callable_of_the_programs_reads_no_attribute(read: Callable[[], Any]) -> None:
    """What it returns may be a ref."""
    assert sqla.instance_attribute_of(bindparam("x", callable_=read)) is None
