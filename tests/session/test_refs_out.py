"""Refs out: instances and rows show refs where keys are, whatever the statement."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    Sequence,
    String,
    cast,
    func,
    insert,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.orm import Session, aliased, joinedload, selectinload, sessionmaker

from alfred_refs import Conversation, RefSession, UntranslatableError
from tests.fix_session import TravelLog
from tests.models import (
    Cook,
    Guest,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Preference,
    Recipe,
    recipe_tags,
)
from tests.session.conftest import DAY, by_name

pytestmark = pytest.mark.usefixtures("recipes")


def test_rows_are_numbered_in_the_order_they_were_loaded(session: RefSession) -> None:
    """Whichever key is looked at first, the numbers follow the order of loading."""
    found = list(by_name(session).values())

    assert found[3].id == "recipe_4"
    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]


def test_the_rows_own_keys_are_numbered_before_those_they_point_to(
    session: RefSession, tables: Engine, recipes: list[Recipe]
) -> None:
    """A list of rows reads 1, 2, 3 even where each row points to another of its kind."""
    with Session(tables) as plain:
        for recipe in plain.scalars(select(Recipe)):
            recipe.parent_recipe_id = recipes[-1].id
        plain.commit()

    found = list(by_name(session).values())

    assert [r.parent_recipe_id for r in found] == ["recipe_5"] * 5
    assert [r.id for r in found] == [f"recipe_{n}" for n in range(1, 6)]


def test_a_foreign_key_shows_a_ref_though_its_target_was_never_read(
    session: RefSession, tables: Engine, recipes: list[Recipe]
) -> None:
    """A child can be read before its parent, and the parent is found by that ref."""
    with Session(tables) as plain:
        plain.add(MealPlan(recipe_id=recipes[2].id))
        plain.commit()

    plan = session.scalars(select(MealPlan)).one()

    assert (plan.id, plan.recipe_id, plan.instead_of) == ("meal_plan_1", "recipe_1", None)
    assert session.get_one(Recipe, "recipe_1").name == "C"


def test_an_instance_keeps_its_key_underneath(
    session: RefSession, known: dict[str, Recipe], recipes: list[Recipe]
) -> None:
    """Identity map, flush and lazy loading work on the key that SQLAlchemy put there."""
    key = recipes[0].id

    assert known["A"].__dict__["id"] == key
    assert session.get(Recipe, "recipe_1") is known["A"]
    assert session.identity_map[(Recipe, (key,), None)] is known["A"]


def test_a_new_row_shows_its_ref_after_the_flush(session: RefSession) -> None:
    """Before it there is no key, hence no ref."""
    recipe = Recipe(name="new")
    session.add(recipe)

    assert recipe.id is None
    session.flush()
    assert recipe.id == "recipe_1"


def test_relationships_load_and_show_refs(plan: MealPlan, session: RefSession) -> None:
    """Lazy, joined and select-in loading never meet a ref, and what they load shows refs."""
    assert plan.recipe.name == "A"
    session.expunge_all()
    [joined] = session.scalars(select(MealPlan).options(joinedload(MealPlan.recipe)))
    session.expunge_all()
    [parent] = session.scalars(
        select(Recipe).where(Recipe.id == "recipe_1").options(selectinload(Recipe.plans))
    )

    assert (joined.recipe.id, joined.recipe_id) == ("recipe_1", "recipe_1")
    assert [(p.id, p.recipe_id) for p in parent.plans] == [("meal_plan_1", "recipe_1")]


def test_refresh_and_expiry_show_the_same_refs(
    session: RefSession, known: dict[str, Recipe]
) -> None:
    """A reloaded instance shows what it showed before."""
    session.commit()
    assert known["B"].id == "recipe_2"
    session.refresh(known["B"])
    session.expire(known["B"], ["id"])
    assert known["B"].id == "recipe_2"


def test_after_close_the_attributes_still_read_as_refs(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """A detached instance shows refs, also of keys that were not looked at before."""
    with sessions(conversation=conversation) as session:
        found = list(by_name(session).values())

    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]


def test_inherited_and_text_keys_show_refs(session: RefSession) -> None:
    """Joined and single-table subclasses share their base's entity, text UUIDs included."""
    session.add_all([Person(), Cook(stars=2), Guest()])
    session.commit()

    people = session.scalars(select(Person).order_by(Person.kind)).all()

    assert {(type(p).__name__, p.id) for p in people} == {
        *(("Cook", "person_1"), ("Guest", "person_2"), ("Person", "person_3")),
    }
    cook = session.scalars(select(Cook).where(Cook.id == "person_1")).one()
    assert cook is session.get(Cook, "person_1")


def test_what_the_orm_loads_by_itself_goes_by_keys(session: RefSession) -> None:
    """Where keys are text, the key of a refresh is not taken for a ref."""
    person, cook = Person(), Cook(stars=1)
    session.add_all([person, cook])
    session.commit()

    assert person.id == "person_1"
    session.refresh(person)
    session.expire(cook, ["stars"])
    assert (person.id, cook.id, cook.stars) == ("person_1", "person_2", 1)
    assert session.merge(Person(id="person_1")) is person
    session.expunge_all()
    merged = session.merge(Person(id="person_1", mentor_id="person_2"))
    session.commit()
    assert (merged.id, merged.mentor_id) == ("person_1", "person_2")
    session.expunge_all()
    loaded = session.get_one(Person, "person_1")
    assert session.get(Person, loaded.id) is loaded


def test_integer_and_composite_keys_show_refs(session: RefSession) -> None:
    """Of a composite key the foreign part is a ref and the number is a number."""
    order = Order(number=7)
    session.add(order)
    session.flush()
    assert order.id == "order_1"
    session.add(OrderLine(order_id="order_1", position=2, note="two"))
    session.commit()

    line = session.get_one(OrderLine, ("order_1", 2))

    assert (line.order_id, line.position, line.note) == ("order_1", 2, "two")
    assert session.get(OrderLine, {"order_id": "order_1", "position": 2}) is line


def test_arrays_of_keys_show_lists_of_refs(session: RefSession, known: dict[str, Recipe]) -> None:
    """A declared array is translated element by element, in and out."""
    preference = Preference(favourites=["recipe_2", "recipe_1"], last_seen="recipe_3")
    session.add(preference)
    session.commit()

    assert preference.favourites == ["recipe_2", "recipe_1"]
    assert preference.last_seen == known["C"].id
    preference.favourites = ["recipe_4"]
    session.commit()
    assert session.scalars(select(Preference.favourites)).one() == ["recipe_4"]


def test_uuids_that_are_no_keys_and_columns_left_raw_are_data(
    session: RefSession, recipes: list[Recipe]
) -> None:
    """Translation goes by column: a UUID is not a key because it looks like one."""
    device = uuid.uuid4()
    session.add(Preference(device=device, legacy_recipe_id=recipes[0].id))
    session.commit()

    [preference] = session.scalars(select(Preference))

    assert (preference.device, preference.legacy_recipe_id) == (device, recipes[0].id)
    assert session.execute(select(Preference.device)).scalar_one() == device


OUT = [
    (lambda: select(MealPlan.id, MealPlan.recipe_id), [("meal_plan_1", "recipe_1")]),
    (lambda: select(MealPlan.recipe_id.label("r")), [("recipe_1",)]),
    (lambda: select(aliased(MealPlan).instead_of), [("recipe_2",)]),
    (lambda: select(Recipe.name, MealPlan.id).join(MealPlan.recipe), [("A", "meal_plan_1")]),
    (lambda: select(MealPlan.__table__.c.recipe_id), [("recipe_1",)]),
    (lambda: select(select(MealPlan.recipe_id).subquery()), [("recipe_1",)]),
    (lambda: select(select(MealPlan.recipe_id.label("x")).cte().c.x), [("recipe_1",)]),
    (lambda: select(func.coalesce(MealPlan.instead_of, MealPlan.recipe_id)), [("recipe_2",)]),
    (lambda: select(select(MealPlan.recipe_id).scalar_subquery()), [("recipe_1",)]),
    (
        lambda: union_all(select(MealPlan.recipe_id), select(MealPlan.instead_of)),
        [("recipe_1",), ("recipe_2",)],
    ),
    (lambda: select(func.count(MealPlan.id), MealPlan.day), [(1, DAY)]),
    (lambda: select(MealPlan.id == "meal_plan_1"), [(True,)]),
    (
        lambda: text("select recipe_id from meal_plans").columns(MealPlan.recipe_id),
        [("recipe_1",)],
    ),
]


@pytest.mark.parametrize(("statement", "rows"), OUT)
@pytest.mark.usefixtures("plan")
def test_rows_show_refs_where_key_columns_stand(
    session: RefSession, statement: Callable[[], Any], rows: list[tuple[Any, ...]]
) -> None:
    """Column selects are translated by their columns, through labels, aliases and subqueries."""
    selected = statement()
    if "count" in str(selected):
        selected = selected.group_by(MealPlan.day)

    assert sorted(session.execute(selected).all()) == rows


@pytest.mark.parametrize("statement", ["select * from recipes order by name", "every"])
def test_entities_of_any_statement_show_refs(session: RefSession, statement: str) -> None:
    """`from_statement` gives instances, which show refs whatever the statement was."""
    chosen: Any = text(statement) if statement != "every" else union_all(select(Recipe))
    found = session.scalars(select(Recipe).from_statement(chosen)).all()

    assert sorted(recipe.id for recipe in found) == [f"recipe_{n}" for n in range(1, 6)]


def test_a_sequence_gives_its_next_value(session: RefSession) -> None:
    """A new number is nobody's key yet."""
    assert session.scalar(Sequence("orders_id_seq")) == 1
    assert session.scalar(select(Sequence("orders_id_seq").next_value())) == 2


@pytest.mark.usefixtures("plan")
def test_a_result_keeps_its_manners(session: RefSession) -> None:
    """Names, mappings by column, uniqueness, partitions and streaming work on translated rows."""
    statement = select(MealPlan.recipe_id, Recipe.name).join(MealPlan.recipe)

    assert session.execute(statement).one().recipe_id == "recipe_1"
    assert session.execute(statement).one()._mapping[MealPlan.recipe_id] == "recipe_1"
    assert session.execute(statement).mappings().one()["recipe_id"] == "recipe_1"
    ids = select(Recipe.id).order_by(Recipe.name)
    assert session.scalars(ids).unique().first() == "recipe_1"
    batches = session.execute(ids.execution_options(yield_per=2)).partitions()
    assert [[row.id for row in rows] for rows in batches] == [
        ["recipe_1", "recipe_2"],
        ["recipe_3", "recipe_4"],
        ["recipe_5"],
    ]
    core = session.execute(select(Recipe.__table__.c.id), execution_options={"yield_per": 2})
    assert len(core.fetchmany(3)) == 3
    core.close()
    returned = session.execute(
        insert(recipe_tags)
        .values(recipe_id="recipe_1", tag="x")
        .returning(recipe_tags.c.recipe_id)
    )
    assert (returned.rowcount, returned.scalars().all()) == (1, ["recipe_1"])  # type: ignore[attr-defined]
    assert session.scalar(ids) == "recipe_1"


@pytest.mark.parametrize(
    "statement",
    [
        lambda: select(func.concat(Recipe.id, "!")),
        lambda: select(cast(Recipe.id, String) + "!"),
        lambda: select(func.coalesce(MealPlan.recipe_id, MealPlan.id)),
        lambda: union_all(select(Recipe.id), select(MealPlan.id)),
        lambda: select(func.max(Order.id) + 1),
        lambda: select(func.sum(Order.id)),
        lambda: text("select array_agg(id) from recipes"),
        lambda: text("select id::text from recipes"),
        lambda: text("select json_build_object('id', id) from recipes"),
        lambda: select(literal_column("id::text")).select_from(Recipe.__table__),
        lambda: select(func.lower(literal_column("id::text"))).select_from(Recipe.__table__),
        lambda: select(func.coalesce(text("recipes.id"))).select_from(Recipe),
        lambda: select(func.gen_random_uuid()),
        lambda: union_all(
            union_all(select(Preference.device), select(Recipe.id)), select(Preference.device)
        ),
        lambda: select(Recipe).where(Recipe.id.like("recipe_1")),
    ],
)
@pytest.mark.filterwarnings("ignore:Type object .* does not include operator")
def test_what_would_show_a_key_is_refused_with_the_remedy(
    session: RefSession, statement: Callable[[], Any]
) -> None:
    """An expression over keys that cannot be rewritten never comes out raw."""
    session.add(Order(id=41, number=1))
    session.flush()

    with pytest.raises(UntranslatableError, match=r"raw_keys\(\)"):
        session.execute(statement()).all()


def test_keys_are_minted_once_a_result_and_never_when_not_looked_at(
    session: RefSession, store: TravelLog
) -> None:
    """Reading asks nothing of the store, looking at one key asks once for all."""
    found = by_name(session)
    assert store.trips == []
    for recipe in found.values():
        assert recipe.id is not None
        assert recipe.parent_recipe_id is None
    assert store.trips == ["refer"]
    assert session.execute(select(Recipe.id, Recipe.parent_recipe_id)).all()
    assert store.trips == ["refer"]
