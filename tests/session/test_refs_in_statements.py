"""Refs in: statements take refs where keys are compared or written, and refuse bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, Uuid, bindparam, delete, event, insert, literal, select, update
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import sessionmaker, with_expression

from alfred_refs import RefRegistry, RefSession, UnknownRefError, UntranslatableError
from tests.fix_session import TravelLog
from tests.models import MealPlan, Recipe
from tests.session.conftest import DAY

pytestmark = pytest.mark.usefixtures("recipes")


def test_a_parameter_of_the_execution_takes_the_place_of_a_value(
    session: RefSession, known: dict[str, Recipe]
) -> None:
    """The statement's own ref is a default: it serves where there is none."""
    statement = select(Recipe).where(Recipe.id == bindparam("given", "recipe_1", Uuid()))

    assert session.scalars(statement, {"given": "recipe_2"}).one() is known["B"]
    assert session.scalars(statement).one() is known["A"]


@pytest.mark.usefixtures("known")
def test_keys_and_refs_can_stand_side_by_side(session: RefSession, recipes: list[Recipe]) -> None:
    """Trusted code may go on comparing with keys that it has."""
    statement = select(Recipe.name).where(Recipe.id.in_([recipes[0].id, "recipe_2"]))

    assert sorted(session.scalars(statement)) == ["A", "B"]


def test_update_and_delete_reach_the_rows_named_and_no_others(
    session: RefSession, plan: MealPlan
) -> None:
    """Criteria and values are translated, and objects in the session follow."""
    changed = session.execute(
        update(MealPlan).where(MealPlan.id == "meal_plan_1").values(recipe_id="recipe_3")
    )
    assert (changed.rowcount, plan.recipe_id) == (1, "recipe_3")  # type: ignore[attr-defined]
    session.execute(update(MealPlan).values({MealPlan.instead_of: "recipe_4"}))
    session.execute(update(Recipe), [{"id": "recipe_1", "parent_recipe_id": "recipe_2"}])
    session.execute(delete(MealPlan).where(MealPlan.recipe_id != "recipe_3"))

    assert session.execute(select(MealPlan.recipe_id, MealPlan.instead_of)).all() == [
        ("recipe_3", "recipe_4")
    ]
    assert session.scalars(
        select(Recipe.name).where(Recipe.parent_recipe_id == "recipe_2")
    ).all() == ["A"]


@pytest.mark.usefixtures("known")
def test_many_records_are_inserted_with_refs(session: RefSession, store: TravelLog) -> None:
    """A list of parameters is translated together; returned objects show refs."""
    store.trips.clear()
    records = [{"recipe_id": f"recipe_{n}", "day": DAY} for n in (1, 2, 3)]
    plans = session.scalars(insert(MealPlan).returning(MealPlan), records).all()

    assert [p.recipe_id for p in plans] == ["recipe_1", "recipe_2", "recipe_3"]
    assert records[0] == {"recipe_id": "recipe_1", "day": DAY}
    assert store.trips == []


def test_a_cached_ref_sends_no_extra_statement_and_another_one_exactly_one(
    session: RefSession,
    sessions: sessionmaker[RefSession],
    known: dict[str, Recipe],
    store: TravelLog,
    sent: list[str],
) -> None:
    """`where(id == ref)` costs one statement where the ref is cached, one trip more if not."""
    assert known["A"].id == "recipe_1"
    for conversation, trips in [
        (session.conversation, []),
        (RefRegistry(store=store).conversation("chat-7"), ["resolve"]),
    ]:
        with sessions(conversation=conversation) as other_session:
            store.trips.clear()
            sent.clear()
            other_session.scalars(
                select(Recipe).where(Recipe.id.in_(["recipe_1", "recipe_2"]))
            ).all()
            assert (len(sent), store.trips) == (1, trips)


@pytest.mark.parametrize("as_ref", [str, literal])
def test_the_compiled_cache_of_sqlalchemy_keeps_hitting(
    session: RefSession, known: dict[str, Recipe], tables: Engine, as_ref: Callable[[str], Any]
) -> None:
    """A statement with other refs has the same shape: it is compiled once."""
    hits: list[str] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        hits.append(arguments[4].cache_hit.name)

    for ref in [recipe.id for recipe in known.values()]:
        session.scalars(select(Recipe).where(Recipe.id == as_ref(ref))).one()

    assert hits == ["CACHE_MISS"] + ["CACHE_HIT"] * 4


@pytest.mark.usefixtures("known")
def test_an_identity_with_an_option_that_shows_a_key_is_refused(session: RefSession) -> None:
    """`get()` loads by keys on its own account, and takes options too."""
    option = with_expression(Recipe.name, Recipe.id)

    with pytest.raises(UntranslatableError, match="with_expression"):
        session.get(Recipe, "recipe_1", options=[option])


def test_a_ref_that_is_read_late_is_resolved_as_late(
    session: RefSession, recipes: list[Recipe], sent: list[str]
) -> None:
    """Once, by itself or in a list; a bad one is told of as any other, and nothing is sent."""
    found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    assert [each.id for each in found][:2] == ["recipe_1", "recipe_2"]
    given: list[Any] = [["recipe_1", "recipe_2"]]
    some: Any = bindparam("some", callable_=given.pop, expanding=True)
    two = select(Recipe.name).where(Recipe.id.in_(some)).order_by(Recipe.name)
    assert session.scalars(two).all() == ["A", "B"]

    sent.clear()
    bad: Any = bindparam("bad", type_=Uuid(), callable_=lambda: "recipe_99")
    with pytest.raises(UnknownRefError, match=r"^'recipe_99' is not a known recipe; ") as caught:
        session.scalars(select(Recipe).where(Recipe.id == bad))
    assert (caught.value.ref, sent) == ("recipe_99", [])
    assert len(session.scalars(select(Recipe)).all()) == len(recipes)


def _flushed(session: RefSession, value: Any) -> None:
    session.add(MealPlan(recipe_id=value, day=DAY))
    session.flush()


NO_KEYS: list[Callable[[RefSession, Any], Any]] = [
    lambda session, value: session.get(Recipe, value),
    lambda session, value: session.get(Recipe, {"id": value}),
    lambda session, value: session.scalars(select(Recipe).where(Recipe.id == value)),
    lambda session, value: session.scalars(select(Recipe).where(Recipe.id.in_([value]))),
    lambda session, value: session.execute(update(MealPlan).values(recipe_id=value)),
    lambda session, value: session.execute(insert(MealPlan), [{"recipe_id": value, "day": DAY}]),
    lambda session, value: session.merge(Recipe(id=value)),
    lambda session, value: session.bulk_save_objects([MealPlan(recipe_id=value, day=DAY)]),
    _flushed,
]


@pytest.mark.parametrize("value", [1, 1.5])
@pytest.mark.parametrize("give", NO_KEYS)
@pytest.mark.usefixtures("known")
def test_a_number_where_a_uuid_is_needed_is_a_bad_ref(
    session: RefSession, sent: list[str], give: Callable[[RefSession, Any], Any], value: object
) -> None:
    """As a model writes it that means `recipe_1`: nothing is sent, and what there is is told."""
    sent.clear()
    with pytest.raises(UnknownRefError, match=f"^'{value}' is not a known recipe; .*'recipe_1'"):
        give(session, value)
    assert [text for text in sent if "alfred_refs" not in text] == []


@pytest.mark.usefixtures("known")
def test_what_is_none_of_json_is_told_by_the_driver(session: RefSession) -> None:
    """As in any session: a program has made it, and no model."""
    with pytest.raises(ProgrammingError):
        session.get(Recipe, object())
