"""Filters mean the same to a database and to Python, for every verb."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, selectinload

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS
from tests.tools.models import Course, Cuisine, Dish, Part
from tests.tools.oracle import Filter, holds

NAMES = [
    *("Korma", "korma", "O'Brien, %", 'say "hi"', "50%_off"),
    *("a\\b", "", "é漢", "recipe_1", None),
]
WORDS = ["rice", "sauce", "water", None]
NUMBERS = [0, 1, 2, 3, -7, None]
PRICES = ["0.50", "2.25", "10.00", None]
DAYS = ["2026-01-01", "2026-05-31", None]
TAGS: list[Any] = [["hot"], ["hot", "mild"], [], ["a,b", "it's"], None]


def _dishes(plain: Session) -> None:
    """Save two dozen dishes whose columns take each value, null among them, in turn."""
    cuisines = [*(Cuisine(name=name) for name in ("Indian", "Thai", "Greek")), None]
    dishes: list[Dish] = []
    for n in range(24):
        price, day = PRICES[n % 4], DAYS[n % 3]
        dish = Dish(
            name=NAMES[n % len(NAMES)],
            code=f"c{n}",
            servings=abs(number) + 1 if (number := NUMBERS[n % 6]) is not None else None,
            spice=NUMBERS[(n + 1) % 6],
            rating=NUMBERS[(n * 5 + 2) % 6],
            price=None if price is None else decimal.Decimal(price),
            is_vegan=[True, False, None][n % 3],
            course=[Course.STARTER, Course.MAIN, None][(n // 2) % 3],
            cooked_on=None if day is None else dt.date.fromisoformat(day),
            tags=TAGS[n % 5],
            cuisine=cuisines[n % 4],
            parent=dishes[n // 2] if n % 3 == 1 else None,
            parts=[Part(position=p, note=WORDS[(n + p) % 4]) for p in range(n % 4)],
        )
        for part in dish.parts:
            part.cuisine_id = None
        dishes.append(dish)
    plain.add_all(dishes)
    plain.flush()
    for n, dish in enumerate(dishes):
        dish.alike = None if n % 4 == 3 else [each.id for each in dishes[: n % 4]]
        for part in dish.parts:
            part.cuisine_id = dish.cuisine_id if part.position % 2 else None


def listed(values: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists of some of the values, one at least."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=3)


def compared(field: str, values: list[Any], *, ordered: bool) -> st.SearchStrategy[Filter]:
    """Clauses that compare a column with values."""
    some = st.sampled_from([value for value in values if value is not None])
    ways: list[tuple[list[str], st.SearchStrategy[Any]]] = [
        (["=", "!=", "neq"], st.sampled_from(values)),
        *(([op], some) for op in (">", "<", ">=", "<=") if ordered),
        (["in", "not_in"], listed(values)),
        (["is_null", "is_not_null"], st.sampled_from([None, True, False])),
    ]
    return st.one_of([st.builds(clause, st.just(field), st.sampled_from(o), v) for o, v in ways])


def clause(field: str, op: str, value: Any = None) -> Filter:
    """Return a filter."""
    return {"field": field, "op": op, "value": value}


PATTERNS = ["korma", "K%", "%a", "_orma", "%\\%%", "a\\\\b", "%'%", "", "%", "é_", "50%\\_off"]
CUISINES = ["cuisine_1", "cuisine_2", "cuisine_3", None]

CLAUSES = st.one_of(
    compared("name", NAMES, ordered=False),
    compared("servings", NUMBERS[:4], ordered=True),
    compared("spice", NUMBERS, ordered=True),
    compared("rating", [0, 1.0, 2.5, None], ordered=True),
    compared("price", [0.5, "2.25", 11, None], ordered=True),
    compared("is_vegan", [True, False, None], ordered=False),
    compared("course", ["STARTER", "MAIN", None], ordered=False),
    compared("cooked_on", DAYS, ordered=True),
    compared("cuisine_id", CUISINES, ordered=False),
    compared("id", ["dish_1", "dish_2", "dish_24", None], ordered=False),
    compared("parent_id", ["dish_1", "dish_3", None], ordered=False),
    compared("parts.note", WORDS, ordered=True),
    compared("parts.cuisine_id", CUISINES, ordered=False),
    compared("cuisine.name", ["Indian", "Thai", "it's"], ordered=False),
    compared("parent.parts.note", WORDS, ordered=False),
    compared("parent.parent.name", NAMES, ordered=False),
    compared("parts.dish.spice", NUMBERS, ordered=True),
    *(
        st.builds(clause, st.just(name), st.just("ilike"), st.sampled_from(PATTERNS))
        for name in ("name", "parent.name")
    ),
    st.builds(clause, st.just("tags"), st.just("contains"), listed(TAGS[1] + TAGS[3])),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    CLAUSES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"and": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"or": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"not": each}, inner),
    ),
    max_leaves=6,
)
EACH_TIME = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# what a model writes for a column -> what the column has
_CONVERTED: dict[str, Callable[[Any], Any]] = {
    "course": Course.__getitem__,
    "cooked_on": dt.date.fromisoformat,
    "price": lambda given: decimal.Decimal(str(given)),
}


class Kitchen:
    """The dishes as a plain session has them, and a session in which a model's tools work."""

    def __init__(self, engine: Engine, session: RefSession, rows: list[Dish]) -> None:
        self.toolset = Toolset(MODELS, expect="optional")
        self.session = session
        self.engine = engine
        self.rows = rows
        conversation = session.conversation
        assert conversation is not None
        self._conversation = conversation

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and undo what it did."""
        with self.session.begin() as transaction:
            answer = self.toolset.call(self.session, tool, arguments)
            assert "error" not in answer, answer
            transaction.rollback()
        return answer

    def value_of(self, name: str, given: Any) -> Any:
        """Return what a column has for what a model writes."""
        if isinstance(given, list):
            return [self.value_of(name, each) for each in given]
        if given is None:
            return None
        if name.endswith("id") or name == "alike":
            return self._conversation.resolve(given)
        convert = _CONVERTED.get(name)
        return given if convert is None else convert(given)

    def meant(self, *filters: Filter, either: list[Filter] | None = None) -> set[str]:
        """Return the codes of the dishes that filters mean."""
        all_of: list[Filter] = [*filters, *([{"or": either}] if either else [])]
        return {
            row.code or ""
            for row in self.rows
            if all(holds(each, row, self.value_of) is True for each in all_of)
        }


@pytest.fixture
def kitchen(tables: Engine, session: RefSession) -> Iterator[Kitchen]:
    """Two dozen dishes, all of which have refs."""
    with Session(tables, expire_on_commit=False) as plain:
        _dishes(plain)
        plain.commit()
        everything = select(Dish).options(
            selectinload(Dish.parts).selectinload(Part.dish),
            selectinload(Dish.cuisine),
            selectinload(Dish.parent).selectinload(Dish.parent).selectinload(Dish.parent),
        )
        rows = list(plain.scalars(everything.execution_options(populate_existing=True)))
        kitchen = Kitchen(tables, session, rows)
        kitchen.call("db_read", table="cuisines", order_by="name")
        kitchen.call("db_read", table="dishes", order_by="code")
        yield kitchen


@pytest.mark.slow
@EACH_TIME
@given(filters=st.lists(FILTERS, max_size=3), either=st.lists(FILTERS, max_size=3))
def test_a_read_finds_what_filters_mean(
    kitchen: Kitchen, filters: list[Filter], either: list[Filter]
) -> None:
    """For all operators, groups, paths and values: each row once, and no other."""
    answer = kitchen.call(
        "db_read", table="dishes", filters=filters, or_filters=either, columns=["code"]
    )
    codes = [row["code"] for row in answer["rows"]]

    assert sorted(codes) == sorted(kitchen.meant(*filters, either=either))


@pytest.mark.slow
@EACH_TIME
@given(filters=st.lists(FILTERS, min_size=1, max_size=2))
def test_an_update_changes_what_a_read_finds(kitchen: Kitchen, filters: list[Filter]) -> None:
    """The rows that the same filters mean, and no other, though the change may undo the match."""
    data = {"spice": 5, "name": "changed"}
    answer = kitchen.call("db_update", table="dishes", filters=filters, data=data)

    assert {row["code"] for row in answer["rows"]} == kitchen.meant(*filters)
    assert all(row["spice"] == 5 and row["name"] == "changed" for row in answer["rows"])


@pytest.mark.slow
@EACH_TIME
@given(filter_=CLAUSES)
def test_a_delete_deletes_what_a_read_finds(kitchen: Kitchen, filter_: Filter) -> None:
    """As far as rows are not referred to by others."""
    leaves = {"not": clause("code", "in", ["c0"])}
    childless: list[Filter] = [clause("parent_id", "is_not_null"), leaves, filter_]
    meant = kitchen.meant(*childless)
    asked = {"table": "dishes", "filters": childless}
    with kitchen.session.begin() as transaction:
        answer = kitchen.toolset.call(kitchen.session, "db_delete", asked)
        if "error" in answer:
            assert answer["error"]["code"] == "still_referenced"
        else:
            left = set(kitchen.session.scalars(select(Dish.code)))
            assert {row.code for row in kitchen.rows} - left == meant
            assert answer["count"] == len(meant)
        transaction.rollback()
