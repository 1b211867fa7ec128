"""`RefSession`: refs in, refs out, and everything else as in `Session`."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Delete,
    Engine,
    Sequence,
    String,
    Uuid,
    bindparam,
    cast,
    delete,
    event,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import (
    Session,
    aliased,
    joinedload,
    selectinload,
    sessionmaker,
    with_expression,
)

from alfred_refs import (
    BadRefError,
    Conversation,
    GoneRefError,
    RawKeyError,
    RefRegistry,
    RefSession,
    SetupError,
    UnknownDraftError,
    UnknownRefError,
    UntranslatableError,
    WrongEntityError,
)
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
    RecipeNote,
    recipe_tags,
)

pytestmark = pytest.mark.usefixtures("recipes")

DAY = dt.date(2026, 5, 1)
NOBODY = uuid.UUID("5ad1f00d-0000-4000-8000-000000000001")

other = aliased(Recipe)
cte = select(Recipe.id).where(Recipe.id.in_(["recipe_2", "recipe_3"])).cte()


def by_name(session: Session) -> dict[str, Recipe]:
    """Read all recipes in the order of their names."""
    found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    return {recipe.name: recipe for recipe in found}


@pytest.fixture
def known(session: RefSession, recipes: list[Recipe]) -> dict[str, Recipe]:
    """The recipes A to E, read and shown: they are `recipe_1` to `recipe_5`."""
    found = by_name(session)
    assert list(found) == [recipe.name for recipe in recipes]
    assert [r.id for r in found.values()] == [f"recipe_{n}" for n in range(1, 6)]
    return found


@pytest.fixture
def plan(
    session: RefSession,
    known: dict[str, Recipe],  # noqa: ARG001  # they take the first numbers
) -> MealPlan:
    """A saved meal plan of recipe A."""
    plan = MealPlan(recipe_id="recipe_1", instead_of="recipe_2", day=DAY)
    session.add(plan)
    session.commit()
    assert plan.id == "meal_plan_1"
    return plan


# Refs out: instances


def test_a_parameter_of_the_execution_takes_the_place_of_a_value(
    session: RefSession, known: dict[str, Recipe]
) -> None:
    """The statement's own ref is a default: it serves where there is none."""
    statement = select(Recipe).where(Recipe.id == bindparam("given", "recipe_1", Uuid()))

    assert session.scalars(statement, {"given": "recipe_2"}).one() is known["B"]
    assert session.scalars(statement).one() is known["A"]


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


# Refs in: statements


IN = [
    (lambda: select(Recipe).where(Recipe.id == "recipe_1"), "A"),
    (lambda: select(Recipe).where("recipe_1" == Recipe.id), "A"),  # type: ignore[arg-type]  # noqa: SIM300
    (lambda: select(Recipe).where(Recipe.id != "recipe_1"), "BCDE"),
    (lambda: select(Recipe).where(Recipe.id.in_(["recipe_1", "recipe_3"])), "AC"),
    (lambda: select(Recipe).where(Recipe.id.in_([])), ""),
    (lambda: select(Recipe).where(Recipe.id.not_in(["recipe_1", "recipe_3"])), "BDE"),
    (lambda: select(Recipe).where(~Recipe.id.in_(["recipe_1"])), "BCDE"),
    (lambda: select(Recipe).where(Recipe.id.is_distinct_from("recipe_1")), "BCDE"),
    (lambda: select(Recipe).filter_by(id="recipe_2"), "B"),
    (lambda: select(Recipe).where((Recipe.id == "recipe_2") | (Recipe.name == "E")), "BE"),
    (lambda: select(other).where(other.id == "recipe_2"), "B"),
    (lambda: select(Recipe).join(Recipe.plans).where(MealPlan.recipe_id == "recipe_1"), "A"),
    (lambda: select(Recipe).join(other, other.id == "recipe_1").where(other.id == Recipe.id), "A"),
    (
        lambda: select(Recipe).where(
            Recipe.id.in_(select(MealPlan.recipe_id).where(MealPlan.recipe_id == "recipe_1"))
        ),
        "A",
    ),
    (lambda: select(Recipe).where(Recipe.plans.any(MealPlan.recipe_id == "recipe_1")), "A"),
    (lambda: select(Recipe).join(cte, cte.c.id == Recipe.id).where(cte.c.id == "recipe_3"), "C"),
    (lambda: select(Recipe).where(Recipe.name == "recipe_1"), ""),
    (lambda: select(Recipe).where(Recipe.id.in_(["recipe_1"]), Recipe.name.in_(["A", "B"])), "A"),
]


@pytest.mark.parametrize(("statement", "names"), IN)
@pytest.mark.usefixtures("plan")
def test_refs_in_criteria_select_the_rows_they_name(
    session: RefSession, statement: Callable[[], Any], names: str
) -> None:
    """A ref compared with a key column finds its row; text in another column is text."""
    found = session.scalars(statement()).all()

    assert sorted(recipe.name for recipe in found) == list(names)


@pytest.mark.usefixtures("known")
def test_keys_and_refs_can_stand_side_by_side(session: RefSession, recipes: list[Recipe]) -> None:
    """Trusted code may go on comparing with keys that it has."""
    statement = select(Recipe.name).where(Recipe.id.in_([recipes[0].id, "recipe_2"]))

    assert sorted(session.scalars(statement)) == ["A", "B"]


@pytest.mark.usefixtures("known")
def test_a_named_parameter_takes_a_ref(session: RefSession) -> None:
    """`bindparam` with a value given at execution is translated by its column."""
    statement = select(Recipe.name).where(
        Recipe.id == bindparam("wanted"), Recipe.name != bindparam("name")
    )

    assert session.scalars(statement, {"wanted": "recipe_3", "name": "recipe_3"}).all() == ["C"]


@pytest.mark.usefixtures("known")
def test_the_legacy_query_takes_refs(session: RefSession) -> None:
    """`Query.filter`, `filter_by` and `update` go the same way."""
    assert session.query(Recipe).filter_by(id="recipe_2").one().name == "B"
    assert session.query(Recipe).filter(Recipe.id == "recipe_2").update({"name": "b"}) == 1
    assert session.query(Recipe.name).filter(Recipe.id == "recipe_2").scalar() == "b"


@pytest.mark.usefixtures("known")
def test_a_core_table_takes_refs(session: RefSession) -> None:
    """Statements on tables are translated like those on classes."""
    session.execute(insert(recipe_tags).values(recipe_id="recipe_2", tag="quick"))
    session.execute(insert(recipe_tags), [{"recipe_id": "recipe_3", "tag": "recipe_3"}])
    found = session.execute(select(recipe_tags).where(recipe_tags.c.recipe_id == "recipe_3"))

    assert [dict(row) for row in found.mappings()] == [
        {"recipe_id": "recipe_3", "tag": "recipe_3"}
    ]


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


@pytest.mark.parametrize(
    "statement",
    [
        lambda: insert(MealPlan).values(recipe_id="recipe_1"),
        lambda: insert(MealPlan).values({"recipe_id": "recipe_1"}),
        lambda: insert(MealPlan).values({MealPlan.recipe_id: "recipe_1"}),
        lambda: insert(MealPlan).values([{"recipe_id": "recipe_1"}]),
        lambda: insert(MealPlan).values([{MealPlan.recipe_id: "recipe_1"}]),
        lambda: insert(MealPlan.__table__).values(recipe_id="recipe_1"),  # type: ignore[arg-type]
        lambda: pg_insert(MealPlan).values(recipe_id="recipe_1").on_conflict_do_nothing(),
        lambda: insert(MealPlan).from_select(
            ["recipe_id"], select(Recipe.id).where(Recipe.id == "recipe_1")
        ),
    ],
)
@pytest.mark.usefixtures("known")
def test_inserts_take_refs_and_return_them(
    session: RefSession, statement: Callable[[], Any]
) -> None:
    """However the values are given, the row has the key and RETURNING shows refs."""
    returned = session.execute(statement().returning(MealPlan.id, MealPlan.recipe_id))

    assert returned.all() == [("meal_plan_1", "recipe_1")]
    assert session.scalars(select(Recipe.name).join(MealPlan.recipe)).all() == ["A"]


@pytest.mark.usefixtures("known")
def test_many_records_are_inserted_with_refs(session: RefSession, store: TravelLog) -> None:
    """A list of parameters is translated together; returned objects show refs."""
    store.trips.clear()
    records = [{"recipe_id": f"recipe_{n}", "day": DAY} for n in (1, 2, 3)]
    plans = session.scalars(insert(MealPlan).returning(MealPlan), records).all()

    assert [p.recipe_id for p in plans] == ["recipe_1", "recipe_2", "recipe_3"]
    assert records[0] == {"recipe_id": "recipe_1", "day": DAY}
    assert store.trips == []


# Refs in: instances


@pytest.mark.usefixtures("known")
def test_constructors_take_refs(session: RefSession, store: TravelLog) -> None:
    """Refs in a new object are resolved at the flush, and read as refs before and after."""
    plan = MealPlan(recipe_id="recipe_2", instead_of="recipe_3")
    session.add(plan)
    assert (plan.recipe_id, plan.instead_of) == ("recipe_2", "recipe_3")
    session.commit()

    assert (plan.recipe_id, plan.recipe.name, plan.instead_of) == ("recipe_2", "B", "recipe_3")
    assert "resolve" not in store.trips


def test_many_new_objects_are_resolved_in_one_trip(
    sessions: sessionmaker[RefSession], registry: RefRegistry, store: TravelLog, tables: Engine
) -> None:
    """A process that has met none of the refs asks once for all objects of a flush."""
    with sessions(conversation=registry.conversation("chat-7")) as session:
        assert {recipe.id for recipe in by_name(session).values()} >= {"recipe_3"}
    store.trips.clear()
    fresh = RefRegistry(store=store).conversation("chat-7")
    with sessions(conversation=fresh) as session:
        session.add_all([MealPlan(recipe_id=f"recipe_{n}") for n in (1, 2, 3, 2)])
        session.commit()

    assert store.trips == ["resolve"]
    with Session(tables) as plain:
        assert len(plain.scalars(select(MealPlan)).all()) == 4


def test_attributes_take_refs(session: RefSession, plan: MealPlan) -> None:
    """Setting a ref on a loaded object changes its row, and its relationship follows."""
    plan.recipe_id = "recipe_4"

    assert plan.recipe_id == "recipe_4"
    session.commit()
    assert (plan.recipe_id, plan.recipe.name) == ("recipe_4", "D")
    plan.instead_of = None
    session.commit()
    assert plan.instead_of is None


def test_a_bad_ref_on_an_attribute_changes_nothing(session: RefSession, plan: MealPlan) -> None:
    """The object keeps what it had, and the session goes on."""
    with pytest.raises(UnknownRefError):
        plan.recipe_id = "recipe_9"

    assert plan.recipe_id == "recipe_1"
    assert plan not in session.dirty


@pytest.mark.usefixtures("known")
def test_a_bad_ref_in_a_new_object_stops_the_flush_and_loses_nothing(
    session: RefSession, sent: list[str]
) -> None:
    """Nothing is sent, the other objects stay pending, and a corrected ref is saved."""
    good, bad = MealPlan(recipe_id="recipe_1"), MealPlan(recipe_id="recipe_9")
    session.add_all([good, bad])
    sent.clear()
    with pytest.raises(UnknownRefError, match="'recipe_9' is not a known recipe"):
        session.commit()
    assert (sent, bad.recipe_id, good in session.new) == ([], "recipe_9", True)

    bad.recipe_id = "recipe_2"
    session.commit()
    assert (good.recipe_id, bad.recipe_id) == ("recipe_1", "recipe_2")


@pytest.mark.parametrize("end", [Session.rollback, Session.expunge_all])
@pytest.mark.usefixtures("known")
def test_a_new_object_that_was_given_up_does_not_trouble_the_next(
    session: RefSession, end: Callable[[Session], None]
) -> None:
    """After a refused flush and a rollback the session saves other objects, and later this one."""
    bad = MealPlan(recipe_id="recpie_1")
    session.add(bad)
    with pytest.raises(UnknownRefError):
        session.commit()
    end(session)
    good = MealPlan(recipe_id="recipe_1")
    session.add(good)
    session.commit()

    assert (good.recipe_id, bad.recipe_id) == ("recipe_1", "recpie_1")
    bad.recipe_id = "recipe_2"
    session.add(bad)
    session.commit()
    assert bad.recipe_id == "recipe_2"


def test_relationships_and_cascades_save_children(session: RefSession) -> None:
    """Children reach the database through their parent as in any session."""
    recipe = Recipe(name="new", plans=[MealPlan(day=DAY), MealPlan(day=DAY)])
    session.add(recipe)
    session.commit()

    assert {plan.recipe_id for plan in recipe.plans} == {recipe.id}
    session.delete(recipe)
    session.commit()
    assert session.scalars(select(func.count(MealPlan.id))).one() == 0


def test_merge_takes_refs(session: RefSession, known: dict[str, Recipe]) -> None:
    """A detached copy with refs is merged into the row they name."""
    merged = session.merge(Recipe(id="recipe_2", name="b", parent_recipe_id="recipe_1"))
    session.commit()

    assert merged is known["B"]
    assert (merged.id, merged.name, merged.parent_recipe_id) == ("recipe_2", "b", "recipe_1")


def test_merge_leaves_the_given_object_as_it_was(
    session: RefSession, known: dict[str, Recipe], tables: Engine, recipes: list[Recipe]
) -> None:
    """An object of another session goes on showing what it showed there."""
    with Session(tables) as plain:
        theirs = plain.get_one(Recipe, recipes[0].id)
        assert session.merge(theirs) is known["A"]
        assert theirs.id == recipes[0].id
    given = Recipe(id="recipe_2", parent_recipe_id="recipe_1")
    merged = session.merge(given)
    assert (given.id, given.parent_recipe_id) == ("recipe_2", "recipe_1")
    if hasattr(Session, "merge_all"):  # since SQLAlchemy 2.1
        assert session.merge_all([given, merged]) == [merged, merged]


@pytest.mark.usefixtures("known")
def test_an_identity_is_counted_by_sqlalchemy(session: RefSession) -> None:
    """Too many parts are an error as in any session; a row is as good as a tuple."""
    session.add(Order(id=1, number=7))
    session.flush()
    session.add(OrderLine(order_id=1, position=2))
    session.commit()
    [row] = session.execute(select(OrderLine.order_id, OrderLine.position)).all()

    assert session.get_one(OrderLine, row).position == 2
    assert session.get_one(OrderLine, ["order_1", 2]).position == 2
    for identity in (("recipe_1", "recipe_2"), ("recipe_1", None)):
        with pytest.raises(InvalidRequestError, match="Incorrect number of values"):
            session.get(Recipe, identity)


@pytest.mark.usefixtures("known")
def test_legacy_bulk_methods_take_refs_and_return_them(session: RefSession) -> None:
    """Mappings and objects are saved with keys; what comes back are refs."""
    records: list[dict[str, Any]] = [{"recipe_id": "recipe_1"}, {"recipe_id": "recipe_2"}]
    session.bulk_insert_mappings(MealPlan, records, return_defaults=True)
    assert [record["id"] for record in records] == ["meal_plan_1", "meal_plan_2"]
    session.bulk_update_mappings(MealPlan, [{"id": "meal_plan_1", "recipe_id": "recipe_3"}])
    plan = MealPlan(recipe_id="recipe_4")
    session.bulk_save_objects([plan], return_defaults=True)

    assert (plan.id, plan.recipe_id) == ("meal_plan_3", "recipe_4")
    rows = session.execute(select(MealPlan.id, MealPlan.recipe_id))
    assert sorted(map(tuple, rows)) == [
        ("meal_plan_1", "recipe_3"),
        ("meal_plan_2", "recipe_2"),
        ("meal_plan_3", "recipe_4"),
    ]
    with pytest.raises(UnknownRefError):
        session.bulk_insert_mappings(MealPlan, [{"recipe_id": "recipe_99"}])


# Refs out: rows


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

    assert session.execute(selected).all() == rows


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


# Raw keys and plain sessions


def test_raw_keys_are_there_for_trusted_code(
    session: RefSession, known: dict[str, Recipe], recipes: list[Recipe]
) -> None:
    """Inside the `with` keys are shown and taken; outside nothing has changed."""
    key = recipes[0].id
    with session.raw_keys():
        assert known["A"].id == key
        assert session.get(Recipe, key) is known["A"]
        assert session.scalars(select(Recipe.id).order_by(Recipe.name)).first() == key
        assert key in set(session.scalars(text("select id from recipes")))
        known["B"].parent_recipe_id = key
    assert (known["A"].id, known["B"].parent_recipe_id) == ("recipe_1", "recipe_1")


def test_one_statement_can_ask_for_raw_keys(session: RefSession, recipes: list[Recipe]) -> None:
    """`execution_options(raw_keys=True)` leaves one statement's criteria and rows alone."""
    raw = select(Recipe.id).order_by(Recipe.name).execution_options(raw_keys=True)

    assert session.scalars(raw).first() == recipes[0].id
    every = session.scalars(text("select id from recipes"), execution_options={"raw_keys": True})
    assert sorted(every) == sorted(recipe.id for recipe in recipes)


def test_a_conversation_is_chosen_once(session: RefSession, registry: RefRegistry) -> None:
    """A session that changed its conversation would show instances in one and rows in another."""
    with pytest.raises(AttributeError):
        session.conversation = registry.conversation("late")  # type: ignore[misc]


def test_without_conversation_it_is_a_plain_session(
    sessions: sessionmaker[RefSession], recipes: list[Recipe]
) -> None:
    """No conversation, no translation."""
    with sessions() as session:
        found = by_name(session)["A"]
        with session.raw_keys():
            assert found.id == recipes[0].id
        assert found.id == recipes[0].id
        assert session.get(Recipe, recipes[0].id) is found
        assert session.merge(Recipe(id=recipes[0].id, name="A")) is found


def test_a_plain_session_on_the_same_classes_is_untouched(
    tables: Engine, recipes: list[Recipe], known: dict[str, Recipe], sent: list[str]
) -> None:
    """It reads and writes keys, and sends the statements it always sent."""
    sent.clear()
    with Session(tables) as plain:
        found = by_name(plain)
        assert [r.id for r in found.values()] == [r.id for r in recipes]
        plain.add(MealPlan(recipe_id=found["A"].id))
        plain.commit()

    assert known["A"].id == "recipe_1"
    assert [statement.split()[0] for statement in sent] == ["SELECT", "INSERT"]


def test_two_conversations_in_one_thread_do_not_mix(
    sessions: sessionmaker[RefSession], registry: RefRegistry
) -> None:
    """Each session shows and takes the refs of its own conversation."""
    one, two = registry.conversation("one"), registry.conversation("two")
    with sessions(conversation=one) as first, sessions(conversation=two) as second:
        [e] = second.scalars(select(Recipe).where(Recipe.name == "E"))
        a = by_name(first)["A"]

        assert (a.id, e.id) == ("recipe_1", "recipe_1")
        assert first.get_one(Recipe, e.id).name == "A"
        assert second.get_one(Recipe, a.id).name == "E"


def test_a_conversation_can_be_named_where_the_registry_is_known(
    tables: Engine, registry: RefRegistry
) -> None:
    """`sessionmaker(..., registry=registry)` opens conversations by their id."""
    named = sessionmaker(tables, class_=RefSession, registry=registry)

    with named(conversation="chat-7") as session:
        assert by_name(session)["A"].id == "recipe_1"
    with pytest.raises(SetupError, match="registry="):
        RefSession(tables, conversation="chat-7")


# Bad refs: nothing is executed


@pytest.mark.parametrize(
    ("ref", "error"),
    [
        ("recipe_9", UnknownRefError),
        ("meal_plan_1", WrongEntityError),
        ("gen_recipe_1", UnknownDraftError),
        ("hello", UnknownRefError),
        ("", UnknownRefError),
        (str(NOBODY), RawKeyError),
        (NOBODY.hex, RawKeyError),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda session, ref: session.get(Recipe, ref),
        lambda session, ref: session.scalars(select(Recipe).where(Recipe.id == ref)),
        lambda session, ref: session.scalars(
            select(Recipe).where(Recipe.id.in_(["recipe_1", ref]))
        ),
        lambda session, ref: session.execute(update(Recipe).values(parent_recipe_id=ref)),
        lambda session, ref: session.execute(
            delete(Recipe).where(Recipe.id.not_in(["recipe_1", ref]))
        ),
        lambda session, ref: session.execute(insert(MealPlan), [{"recipe_id": ref}]),
        lambda session, ref: session.merge(Recipe(id=ref, name="x")),
    ],
)
@pytest.mark.usefixtures("plan")
def test_a_bad_ref_stops_the_statement(  # two of them are parameters
    session: RefSession,
    sent: list[str],
    ref: str,
    error: type[BadRefError],
    use: Callable[[RefSession, str], object],
) -> None:
    """One bad ref, and nothing is executed; the error never shows a key."""
    sent.clear()

    with pytest.raises(BadRefError) as caught:
        use(session, ref)
    assert (type(caught.value), sent) == (error, [])
    assert error is not RawKeyError or ref not in str(caught.value)


# Gone rows


def test_a_deleted_row_is_gone_once_the_deletion_is_committed(
    session: RefSession, plan: MealPlan
) -> None:
    """Before the commit the ref can still be used; afterwards it says what happened."""
    assert plan.id == "meal_plan_1"
    session.delete(plan)
    session.rollback()
    assert session.get(MealPlan, "meal_plan_1") is plan

    session.delete(plan)
    session.commit()
    with pytest.raises(GoneRefError, match="'meal_plan_1' was deleted"):
        session.get(MealPlan, "meal_plan_1")


def test_rows_deleted_by_a_statement_are_gone(session: RefSession, plan: MealPlan) -> None:
    """A DELETE that names rows by ref notes which of them it deleted, not those it spared."""
    session.add(MealPlan(recipe_id="recipe_1"))
    session.flush()
    assert session.scalars(select(MealPlan.id).order_by(MealPlan.day)).all() == [
        *("meal_plan_1", "meal_plan_2"),
    ]
    session.commit()
    session.execute(
        delete(MealPlan).where(MealPlan.id.in_([plan.id, "meal_plan_2"]), MealPlan.day == DAY)
    )
    session.commit()

    with pytest.raises(GoneRefError, match="'meal_plan_1' was deleted"):
        session.get(MealPlan, "meal_plan_1")
    assert session.get(MealPlan, "meal_plan_2") is not None


def test_a_statements_deletion_that_is_rolled_back_is_forgotten(
    session: RefSession, plan: MealPlan
) -> None:
    """A savepoint or the whole rolled back: the row is there, and its ref works."""
    statement: Delete = delete(MealPlan).where(MealPlan.id == plan.id)
    with session.begin_nested() as savepoint:
        session.execute(statement)
        savepoint.rollback()
    session.commit()
    session.execute(statement)
    session.rollback()

    assert session.get(MealPlan, "meal_plan_1") is not None


@pytest.mark.parametrize("end", [Session.rollback, Session.close])
def test_a_row_that_was_rolled_back_was_never_saved(
    session: RefSession, sessions: sessionmaker[RefSession], end: Callable[[Session], None]
) -> None:
    """Its number stays taken, and its ref resolves to what happened."""
    lost = Recipe(name="lost")
    session.add(lost)
    session.flush()
    assert lost.id == "recipe_1"
    end(session)

    with sessions(conversation=session.conversation) as again:
        with pytest.raises(GoneRefError, match="'recipe_1' was never saved"):
            again.get(Recipe, "recipe_1")
        assert next(iter(by_name(again).values())).id == "recipe_2"


def test_a_row_rolled_back_to_a_savepoint_was_never_saved(session: RefSession) -> None:
    """What was flushed before the savepoint is saved, what came after it was not."""
    kept, lost = Recipe(name="kept"), Recipe(name="lost")
    session.add(kept)
    session.flush()
    with session.begin_nested() as savepoint:
        session.add(lost)
        session.flush()
        assert (kept.id, lost.id) == ("recipe_1", "recipe_2")
        savepoint.rollback()
    session.commit()

    assert session.get(Recipe, "recipe_1") is kept
    with pytest.raises(GoneRefError, match="'recipe_2' was never saved"):
        session.get(Recipe, "recipe_2")


def test_deleting_a_row_whose_key_is_anothers_leaves_the_other(
    session: RefSession, known: dict[str, Recipe]
) -> None:
    """A note's primary key is its recipe's: deleting the note does not make the recipe gone."""
    note = RecipeNote(recipe_id="recipe_1", note="salt")
    session.add(note)
    session.commit()
    assert session.get(RecipeNote, "recipe_1") is note
    session.delete(note)
    session.commit()
    session.execute(delete(RecipeNote).where(RecipeNote.recipe_id == "recipe_1"))
    session.commit()

    assert session.get(Recipe, "recipe_1") is known["A"]


# Cost


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
    session: RefSession,
    known: dict[str, Recipe],
    tables: Engine,
    as_ref: Callable[[str], Any],
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
