"""Cache keys of statements, and the parameters that they list, pinned on both series."""

from __future__ import annotations

import gc
import sys
import weakref
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    column,
    exists,
    func,
    insert,
    select,
    values as sa_values,
)
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.orm import aliased

from alfred_refs import sqla
from tests.models import Recipe
from tests.sqla.statements import ONE, STATEMENTS, TWO, declared, values


@pytest.mark.parametrize("make", STATEMENTS.values(), ids=STATEMENTS)
def test_statements_that_differ_in_values_have_one_shape(make: Any) -> None:
    """The shape leaves the values out, and lists the parameters in one order."""
    (shape, one), (same, two) = sqla.cache_key_of(make(ONE)), sqla.cache_key_of(make(TWO))

    assert shape == same
    assert shape is not None
    assert [type(p.type) for p in one] == [type(p.type) for p in two]
    assert values(make(ONE)) != values(make(TWO))


def test_a_statement_that_is_not_cached_lists_its_parameters_too() -> None:
    """A custom element may forbid caching: there is no shape, and nothing is missed."""

    class Custom(ColumnElement[bool]):
        inherit_cache = False

    statement = select(Recipe).where(Recipe.name == "x", Custom())

    shape, parameters = sqla.cache_key_of(statement)
    assert (shape, [sqla.parameter_value(p) for p in parameters]) == (None, ["x"])


@pytest.mark.parametrize("make", STATEMENTS.values(), ids=STATEMENTS)
def test_elements_are_found_everywhere(make: Any) -> None:
    """Every parameter is met in a traversal, in subqueries and values too."""
    statement = make(ONE)
    met = {id(element) for element in sqla.elements_of(statement)}

    assert {id(p) for p in sqla.cache_key_of(statement)[1]} <= met


def test_what_a_traversal_passes_over_is_found() -> None:
    """Expressions in lists of records, in `values()`, and at the end of an upsert."""
    upsert = (
        pg_insert(Recipe)
        .values(name="x")
        .on_conflict_do_update(
            index_elements=["id"],
            set_={"name": func.lower("set")},
            where=Recipe.name == "where",
            index_where=Recipe.name == "index",
        )
    )
    listed = sa_values(column("x"), name="v").data([(func.lower("in values"),)])

    def texts(statement: Any) -> set[Any]:
        return {e.value for e in sqla.elements_of(statement) if isinstance(e, BindParameter)}

    assert texts(upsert) >= {"set", "where", "index"}
    assert texts(insert(Recipe).values([{"name": func.lower("in list")}])) == {"in list"}
    assert texts(select(listed)) == {"in values"}
    assert [p.value for p in sqla.cache_key_of(select(listed))[1]] == []
    assert {p.value for p in sqla.cache_key_of(upsert)[1]} >= {"set", "where", "index"}


@pytest.mark.slow
def test_a_weak_shape_is_equal_to_the_shape_until_its_classes_are_gone() -> None:
    """And to no other: the same statement on another class is another."""

    def shape(thing: Any) -> Any:
        some = select(thing).where(thing.id.in_([ONE]), exists(select(aliased(thing).id)))
        return sqla.cache_key_of(some)[0]

    first, second = declared(), declared()
    kept = {sqla.WeakCacheKey(shape(first)): "first", sqla.WeakCacheKey(shape(second)): "second"}
    assert [kept.get(shape(each)) for each in (first, second, declared())] == (
        ["first", "second", None]
    )

    there = weakref.ref(first)
    del first
    gc.collect()
    assert there() is None
    # one that is made now may be in the place of the one that is gone
    assert (len(kept), kept.get(shape(second))) == (2, "second")
    assert None not in kept


def test_looking_up_a_shape_calls_nothing_of_ours() -> None:
    """It is done for each statement, and compares each object in its shape."""
    shape, same = (sqla.cache_key_of(select(Recipe).where(Recipe.id == n))[0] for n in "ab")
    kept: dict[Any, str] = {sqla.WeakCacheKey(shape): "found"}
    called: list[str] = []

    def hear(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_globals["__name__"])

    sys.setprofile(hear)
    found = kept.get(same)
    sys.setprofile(None)
    assert found == "found"
    assert [name for name in called if name.startswith("alfred_refs")] == []


@pytest.mark.slow
def test_a_shape_whose_class_is_gone_is_compared_with_none() -> None:
    """Where another happens to have its hash, it says that it cannot be told."""

    class Thing:
        pass

    kept: dict[Any, str] = {sqla.WeakCacheKey((Thing, "a")): "gone"}
    other = _Hashed(hash((Thing, "a")))
    assert kept.get((Thing, "a")) == "gone"
    del Thing
    gc.collect()
    assert kept.get(("b",)) is None
    with pytest.raises(ReferenceError):
        kept.get(other)


class _Hashed(tuple[Any, ...]):
    """A shape that has come to the place of another."""

    __slots__ = ()

    def __new__(cls, number: int) -> _Hashed:
        return super().__new__(cls, (number, "a"))

    def __hash__(self) -> int:
        return int(self[0])
