"""Whose values an expression hands on, and whether it hands them on unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    BindParameter,
    Integer,
    String,
    Uuid,
    all_,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, array

from alfred_refs import RefPolicy
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.lineage import Lineage
from alfred_refs.statements.dataflow import (
    Flows,
    KeySource,
    ParameterSource,
    is_sent_alike,
    positions,
)
from tests.models import Box, MealPlan, Order, Preference, Recipe

flows = Flows(Entities(RefPolicy()).of_column)
x: Any = bindparam("x")
union = union_all(select(Recipe.id.label("i")), select(x.label("i"))).subquery()


def names(parameters: Any) -> list[str]:
    """Return the names of parameters."""
    return [parameter.key for parameter in parameters]


@pytest.mark.parametrize(
    ("element", "keys", "given"),
    [
        (Recipe.id, [("recipes.id", 0)], []),
        (x, [], [("x", 0)]),
        (func.coalesce(Recipe.id, x), [("recipes.id", 0)], [("x", 0)]),
        (case((Recipe.name == "n", x), else_=MealPlan.id), [("meal_plans.id", 0)], [("x", 0)]),
        (func.nullif(Recipe.id, x), [("recipes.id", 0)], []),
        (select(x).scalar_subquery(), [], [("x", 0)]),
        (union.c.i, [("recipes.id", 0)], [("x", 0)]),
        (func.max(Recipe.id).over(partition_by=x), [("recipes.id", 0)], []),
        (Preference.favourites, [("preferences.favourites", 1)], []),
        (Preference.favourites[1], [("preferences.favourites", 0)], []),
        (Preference.favourites[1:2], [("preferences.favourites", 1)], []),
        (all_(Preference.favourites), [("preferences.favourites", 0)], []),
        (all_(x), [], [("x", 1)]),
        (array([x]), [], [("x", -1)]),
        (func.array_agg(Recipe.id), [("recipes.id", 1)], []),
        (func.trim_array(Preference.favourites, 1), [("preferences.favourites", 1)], []),
        (func.array_sort(Preference.favourites), [("preferences.favourites", 1)], []),
        (func.array_agg(aggregate_order_by(Recipe.id, Recipe.name)), [("recipes.id", 1)], []),
        (func.COALESCE(Recipe.id, x), [("recipes.id", 0)], [("x", 0)]),
        (func.unnest(Preference.favourites), [("preferences.favourites", 0)], []),
        (
            func.array_append(Preference.favourites, x),
            [("preferences.favourites", 1)],
            [("x", -1)],
        ),
        (cast(Recipe.id, Uuid(as_uuid=False)), [("recipes.id", 0)], []),
        (Recipe.id == x, [], []),
    ],
)
def test_values_are_followed_through_what_only_hands_them_on(
    element: Any, keys: list[tuple[str, int]], given: list[tuple[str, int]]
) -> None:
    """Into lists and out of them; a condition decides, no more."""
    flow = flows.of(getattr(element, "__clause_element__", lambda: element)())

    assert [(held.column.name, held.depth) for held in flow.keys] == keys
    assert [(each.parameter.key, each.depth) for each in flow.parameters] == given
    assert (flow.data, flow.derived_keys, flow.derived_parameters) == ((), (), ())


@pytest.mark.parametrize(
    "element",
    [
        func.lower(cast(Recipe.id, String), x),
        cast(Recipe.id, String) + x,
        func.concat(Recipe.id, func.coalesce(x)),
        cast(func.coalesce(Recipe.id, x), Uuid(native_uuid=False)),
        select(func.replace(Recipe.id, x)).scalar_subquery(),
    ],
)
def test_what_is_made_of_values_is_none_of_them(element: Any) -> None:
    """The key and the parameter are remembered, as what it is made from."""
    flow = flows.of(element)

    assert (flow.keys, flow.parameters, flow.data) == ((), (), (None,))
    assert [column.name for column in flow.derived_keys] == ["recipes.id"]
    assert names(flow.derived_parameters) == ["x"]


def test_a_plain_column_is_data() -> None:
    """It is named, so that a message can name it."""
    flow = flows.of(func.coalesce(Recipe.name, x))

    assert [str(column) for column in flow.data] == ["recipes.name"]
    assert len(flow.parameters) == 1


@pytest.mark.parametrize(
    ("casts", "coerced", "fits"),
    [
        ((), None, True),
        ((Uuid(as_uuid=False),), None, True),
        ((Uuid(native_uuid=False),), None, False),
        ((String(),), None, False),
        ((), Uuid(), True),
        ((), Uuid(as_uuid=False), False),
        ((), String(), False),
    ],
)
def test_a_parameter_fits_if_a_key_in_its_place_arrives_unchanged(
    casts: tuple[Any, ...], coerced: Any, fits: bool
) -> None:
    """A cast may not write it otherwise, a coercion sends it as another type."""
    [held] = flows.of(Recipe.__table__.c.id).keys

    assert ParameterSource(x, casts=casts, coerced=coerced).fits(held) is fits
    assert not ParameterSource(x, depth=2).fits(held)


def test_keys_are_alike_if_one_may_stand_for_the_other() -> None:
    """Of one entity, in one form, at one depth; in whichever column."""

    def held(element: Any) -> KeySource:
        return flows.of(element.__clause_element__()).keys[0]

    assert held(MealPlan.recipe_id).is_like(held(MealPlan.instead_of))
    assert not held(MealPlan.recipe_id).is_like(held(MealPlan.id))
    assert not held(Recipe.id).is_like(held(Preference.favourites))


def test_types_are_sent_alike_if_the_database_holds_the_same() -> None:
    """Integers of any size; text only under its own type, which may cut it."""
    assert is_sent_alike(Integer(), Order.__table__.c.id.type)
    assert is_sent_alike(String(5), String(5))
    assert not is_sent_alike(String(5), String(9))
    assert not is_sent_alike(Box.__table__.c.id.type, Recipe.__table__.c.id.type)


def test_rows_are_read_position_by_position() -> None:
    """Of a tuple, a select and each select of a union; anything else has one position."""
    one, two = literal(1), literal(2)
    both = select(one, two).union(select(two, one))

    assert positions(tuple_(one, two)) == [[one], [two]]
    assert positions(select(one, two).scalar_subquery()) == [[one], [two]]
    assert [[e.value for e in at] for at in positions(both)] == [[1, 2], [2, 1]]
    assert positions(one) == [[one]]
    assert isinstance(positions(x)[0][0], BindParameter)


def counting(kind: type[Any]) -> Any:
    """Return an instance that counts the expressions it is asked for."""

    class Counting(kind):  # type: ignore[misc]  # either of the two
        calls = 0

        def of(self, element: Any) -> Any:
            self.calls += 1
            return super().of(element)

    return Counting(Entities(RefPolicy()).of_column)


# each uses a column twice; the last two make text of it
LEVELS: dict[str, Callable[[Any], Any]] = {
    "subquery": lambda c: select(func.coalesce(c, c).label("i")).subquery().c.i,
    "cte": lambda c: select(case((c.is_(None), c), else_=c).label("i")).cte().c.i,
    "lateral": lambda c: select(func.greatest(c, c, c).label("i")).lateral().c.i,
    "scalar": lambda c: func.coalesce(*(select(c).scalar_subquery() for _ in range(2))),
    "recursive": lambda c: recursive(select(func.coalesce(c, c).label("i"))),
    "array": lambda c: select(array([c, c])[1].label("i")).subquery().c.i,
    "concatenation": lambda c: select(c.concat(c).label("i")).subquery().c.i,
    "function": lambda c: select(func.concat_ws(c, c, c).label("i")).subquery().c.i,
}
OF_TEXT = ("concatenation", "function")


def recursive(start: Any) -> Any:
    """Return the column of a recursive CTE."""
    cte = start.cte(recursive=True)
    return cte.union_all(select(func.least(cte.c.i, cte.c.i))).c.i


def nested(level: Callable[[Any], Any], column: Any, levels: int) -> Any:
    """Return a column behind levels of subqueries, each of which uses the one below twice."""
    for _ in range(levels):
        column = level(column)
    return column


@pytest.mark.parametrize("kind", [Flows, Lineage])
@pytest.mark.parametrize(
    ("level", "column"),
    [
        pytest.param(level, column, id=f"{name}-{column}")
        for name, level in LEVELS.items()
        for column in (
            [Recipe.name] if name in OF_TEXT else [Recipe.id, Recipe.name, literal("a")]
        )
    ],
)
def test_a_column_that_each_level_uses_twice_is_derived_once(
    kind: type[Any], level: Callable[[Any], Any], column: Any
) -> None:
    """Each level adds the same number of steps, and the flow does not grow."""
    found, calls = {}, {}
    for levels in (2, 4, 6):
        asked = counting(kind)
        found[levels] = asked.of(nested(level, column, levels))
        calls[levels] = asked.calls
    assert calls[6] - calls[4] == calls[4] - calls[2] > 0
    assert found[2] == found[4] == found[6]


def test_a_parameter_has_the_casts_of_all_ways_that_lead_to_it() -> None:
    """Its one value must fit each of them."""
    short, long = String(5), String(50)
    [source] = flows.of(func.coalesce(cast(x, short), x, cast(cast(x, long), short))).parameters
    assert source.casts == (short, long)
    [key] = flows.of(case((Recipe.name == "n", Recipe.id), else_=Recipe.id)).keys
    assert key.column.name == "recipes.id"
