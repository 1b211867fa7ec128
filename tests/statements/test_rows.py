"""Rows of every kind with refs in place of keys, as a `RefSession` returns them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Text,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    text,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by, array
from sqlalchemy.orm import Bundle

from alfred_refs import RefSession, UntranslatableError
from tests.fix_session import TravelLog
from tests.models import Box, Cook, MealPlan, Order, Person, Preference, Recipe, RecipeNote

REFS = [f"recipe_{n}" for n in range(1, 6)]
BY_NAME = aggregate_order_by(Recipe.id, Recipe.name)


@pytest.fixture(autouse=True)
def rows(session: RefSession, recipes: list[Recipe]) -> None:
    """The recipes A to E are shown as `recipe_1` to `recipe_5`; there is a row of other tables."""
    keys = [recipe.id for recipe in recipes]
    with session.raw_keys():
        session.add_all(
            [
                Preference(favourites=keys[:2], device=keys[0]),
                MealPlan(recipe_id=keys[0]),
                RecipeNote(recipe_id=keys[2], note="salt"),
                Order(id=41, number=1),
                Cook(stars=2),
                Box(label="big"),
            ]
        )
        session.commit()
    assert session.scalars(select(Recipe.id).order_by(Recipe.name)).all() == REFS


FAVOURITES = func.unnest(select(Preference.favourites).scalar_subquery())
NOTES: Any = RecipeNote.__table__
NAMED = func.json_build_object("id", Recipe.id, "name", Recipe.name)

SHOWN: list[tuple[Callable[[], Any], Any]] = [
    (lambda: select(func.array_agg(BY_NAME)), REFS),
    (lambda: select(func.array_agg(Recipe.id.distinct()).filter(Recipe.name == "B")), REFS[1:2]),
    (lambda: select(func.array_agg(Preference.favourites)), [REFS[:2]]),
    (lambda: select(func.array_agg(Person.id)), ["person_1"]),
    (lambda: select(func.array_agg(Box.id)), ["box_1"]),
    (lambda: select(cast(Box.id, Text)), "box_1"),
    (lambda: select(func.array_agg(Recipe.parent_recipe_id)), [None] * 5),
    (lambda: select(func.array_agg(Recipe.id)).where(Recipe.name == "?"), None),
    (lambda: select(array([Recipe.id, Recipe.parent_recipe_id])).limit(1), ["recipe_1", None]),
    (lambda: select(func.unnest(Preference.favourites)).limit(1), "recipe_1"),
    (lambda: select(FAVOURITES.column_valued("f")).limit(1), "recipe_1"),
    (lambda: select(Preference.favourites[2]), "recipe_2"),
    (lambda: select(Preference.favourites[3]), None),
    (lambda: select(Preference.favourites[2:3]), ["recipe_2"]),
    (lambda: select(Preference.favourites.concat(Preference.favourites)), REFS[:2] * 2),
    (
        lambda: select(func.array_append(Preference.favourites, MealPlan.recipe_id)).join_from(
            Preference, MealPlan, text("true")
        ),
        [*REFS[:2], "recipe_1"],
    ),
    (lambda: select(func.cardinality(Preference.favourites)), 2),
    (lambda: select(cast(Recipe.id, Text)).where(Recipe.name == "B"), "recipe_2"),
    (lambda: select(func.max(cast(Recipe.id, Text))).where(Recipe.name == "B"), "recipe_2"),
    (lambda: select(type_coerce(Recipe.id, Text)).where(Recipe.name == "B"), "recipe_2"),
    (lambda: select(cast(Order.id, Text)), "order_1"),
    (lambda: select(cast(Preference.favourites, type_=Preference.favourites.type)), REFS[:2]),
    (lambda: select(NAMED).where(Recipe.name == "C"), {"id": "recipe_3", "name": "C"}),
    (lambda: select(func.json_build_object(text("'id'"), Order.id)), {"id": "order_1"}),
    (
        lambda: select(func.jsonb_build_object("a", func.jsonb_build_object("b", Order.id))),
        {"a": {"b": "order_1"}},
    ),
    (
        lambda: select(func.json_agg(aggregate_order_by(NAMED, Recipe.name))).where(
            Recipe.name < "C"
        ),
        [{"id": "recipe_1", "name": "A"}, {"id": "recipe_2", "name": "B"}],
    ),
    (
        lambda: select(
            func.coalesce(func.json_agg(NAMED).filter(Recipe.name == "?"), text("'[]'::json"))
        ),
        [],
    ),
    (
        lambda: select(func.json_build_array(Order.id, Order.number, array([Order.id]))),
        ["order_1", 1, ["order_1"]],
    ),
    (
        lambda: select(func.json_agg(func.json_build_array(Order.id, Order.number))),
        [["order_1", 1]],
    ),
    (lambda: select(func.json_agg(Preference.favourites)), [REFS[:2]]),
    (
        lambda: select(func.json_object_agg(Recipe.id, Recipe.name)).where(Recipe.name == "A"),
        {"recipe_1": "A"},
    ),
    (
        lambda: select(func.jsonb_object_agg(Recipe.name, Recipe.id)).where(Recipe.name == "A"),
        {"A": "recipe_1"},
    ),
    (lambda: select(func.to_jsonb(Recipe.id)).where(Recipe.name == "A"), "recipe_1"),
    (lambda: select(func.to_jsonb(Order.id)), "order_1"),
    (lambda: select(cast(func.json_agg(Order.id), JSONB)), ["order_1"]),
    (lambda: select(func.json_agg(Order.id, type_=JSON)), ["order_1"]),
    (lambda: select(func.jsonb_array_elements(func.jsonb_agg(Order.id))), "order_1"),
    (
        lambda: select(func.row_to_json(NOTES.table_valued())),
        {"recipe_id": "recipe_3", "note": "salt"},
    ),
    (
        lambda: select(func.json_agg(select(Order).subquery("o").table_valued())),
        [{"id": "order_1", "number": 1}],
    ),
    (
        lambda: select(select(func.json_agg(MealPlan.recipe_id)).scalar_subquery().label("plans")),
        ["recipe_1"],
    ),
    (lambda: union_all(select(cast(Order.id, Text)), select(cast(Order.id, Text))), "order_1"),
    (
        lambda: select(select(NAMED.label("x")).where(Recipe.name == "A").subquery().c.x),
        {"id": "recipe_1", "name": "A"},
    ),
]


def test_keys_in_lists_records_and_texts_are_shown_as_refs(
    session: RefSession, subtests: pytest.Subtests
) -> None:
    """However deeply a key is nested in a value, its ref takes its place."""
    for number, (statement, expected) in enumerate(SHOWN):
        with subtests.test(number=number):
            assert session.execute(statement()).scalars().first() == expected


def test_any_value_of_keys_is_shown_as_its_ref(session: RefSession) -> None:
    """A function that PostgreSQL has since 16."""
    if session.connection().dialect.server_version_info < (16,):  # type: ignore[operator]
        pytest.skip("this server has no any_value()")
    assert session.scalars(select(func.any_value(Person.id))).first() == "person_1"


def test_names_in_records_are_read_for_each_execution(session: RefSession) -> None:
    """Statements that differ in the names of fields have one shape, and are not mixed up."""
    for key, name in [("id", "name"), ("name", "id"), ("key", "key of")]:
        statement = select(func.json_build_object(key, Recipe.id, name, Recipe.name))
        found = session.scalars(statement.where(Recipe.name == "A")).one()
        assert found == {key: "recipe_1", name: "A"}
    with pytest.raises(UntranslatableError, match="name that is not text"):
        session.execute(
            select(func.json_build_object(bindparam("n", type_=Text), Order.id)), {"n": "id"}
        )


def test_bundles_come_out_as_rows_with_refs(session: RefSession) -> None:
    """Nested or single, a bundle is the row that it always was."""
    own: Bundle[Any] = Bundle("own", Recipe.id, Recipe.name)
    plan: Bundle[Any] = Bundle("plan", MealPlan.id, Bundle("of", MealPlan.recipe_id))
    row = session.execute(select(own, plan, Recipe.name).join(MealPlan.recipe)).one()

    assert row == (("recipe_1", "A"), ("meal_plan_1", ("recipe_1",)), "A")
    assert (row.own.id, row.plan.of.recipe_id) == ("recipe_1", "recipe_1")
    assert row.own._mapping == {"id": "recipe_1", "name": "A"}


def test_a_single_entity_bundle_is_shown_too(session: RefSession) -> None:
    """The rows of such a result are the bundles themselves."""
    bundle: Any = Bundle("own", Recipe.id, Recipe.name, single_entity=True)
    statement = select(bundle).order_by(Recipe.name)

    assert session.execute(statement).first() == (("recipe_1", "A"),)
    assert [row.id for row in session.scalars(statement)] == REFS
    assert [row.id for row in session.query(bundle).order_by(Recipe.name)] == REFS
    parts = session.execute(statement, execution_options={"yield_per": 2}).partitions()
    assert [len(part) for part in parts] == [2, 2, 1]


def test_a_chunk_of_any_kind_costs_one_round_trip(session: RefSession, store: TravelLog) -> None:
    """All new keys of a chunk are minted together, and nothing is sent when nothing is new."""
    store.trips.clear()
    statement = (
        select(
            MealPlan.id, func.json_build_object("order", Order.id), array([Person.id, Person.id])
        )
        .select_from(MealPlan)
        .join(Order, text("true"))
        .join(Person, text("true"))
    )
    for _ in range(2):
        assert session.execute(statement).one() == (
            "meal_plan_1",
            {"order": "order_1"},
            ["person_1", "person_1"],
        )
    assert store.trips == ["refer"]


def test_a_result_of_any_kind_keeps_its_manners(session: RefSession) -> None:
    """Names, mappings, partitions, uniqueness and freezing work on rewritten values."""
    statement = select(NAMED.label("named"), Recipe.id).order_by(Recipe.name)
    first = {"id": "recipe_1", "name": "A"}

    assert dict(session.execute(statement).mappings().all()[0]) == {
        "named": first,
        "id": "recipe_1",
    }
    assert session.execute(statement).scalars("named").first() == first
    assert session.execute(statement).columns("id", "named").first() == ("recipe_1", first)
    assert session.execute(statement).fetchone() == (first, "recipe_1")
    assert session.execute(statement).fetchmany(3)[2].id == "recipe_3"
    assert session.execute(statement).first()._mapping[Recipe.id] == "recipe_1"  # type: ignore[union-attr]
    assert session.execute(statement).unique(lambda row: row.id).first() == (first, "recipe_1")
    assert session.execute(statement).freeze()().first() == (first, "recipe_1")
    streamed = session.execute(statement, execution_options={"yield_per": 2})
    assert [[row.id for row in part] for part in streamed.partitions()] == [
        *(REFS[:2], REFS[2:4], REFS[4:])
    ]
    core = session.execute(select(Recipe.__table__.c.id), execution_options={"yield_per": 2})
    assert len(core.fetchmany(3)) == 3
    core.close()
    returned: Any = session.execute(
        insert(NOTES).values(recipe_id="recipe_1", note="x").returning(NOTES.c.recipe_id)
    )
    assert (returned.rowcount, returned.scalars().all()) == (1, ["recipe_1"])


def test_a_value_that_is_not_what_its_expression_promises_is_refused(session: RefSession) -> None:
    """A default that is no key, in a list of keys, does not come out as if it were one."""
    default: Any = literal_column("""'["none"]'::json""")
    statement = select(func.coalesce(func.json_agg(Recipe.id), default)).where(Recipe.name == "?")

    with pytest.raises(UntranslatableError, match=r"promises.*raw_keys\(\)"):
        session.execute(statement).all()
    assert json.dumps(session.scalar(select(func.json_agg(BY_NAME)))) == json.dumps(REFS)


@pytest.mark.parametrize("name", ["splice_horizontally", "splice_vertically"])
def test_results_with_refs_are_not_spliced(session: RefSession, name: str) -> None:
    """SQLAlchemy would put the rows of the cursors together, which have keys."""
    one, other = (session.execute(select(Recipe.__table__.c.id)) for _ in range(2))

    with pytest.raises(UntranslatableError, match="all"):
        getattr(one, name)(other)
