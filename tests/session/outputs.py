"""Every output of a `RefSession`: functions that return all values that a program can see.

The canary test runs them on rows with recognisable keys, and searches the values for these keys.
"""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Uuid, bindparam, delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session, joinedload, selectinload, with_polymorphic

from alfred_refs import RefError, RefSession
from tests.models import (
    Box,
    Cook,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Preference,
    Recipe,
    RecipeNote,
    recipe_tags,
)
from tests.shapes import world
from tests.shapes.run import run
from tests.shapes.table import TABLE

Output = Callable[[RefSession], Any]

OUTPUTS: dict[str, Output] = {}


def output(function: Output) -> Output:
    """Register an output by its function's name."""
    OUTPUTS[function.__name__] = function
    return function


def attributes(instances: Iterable[Any]) -> list[Any]:
    """Return the values of all column attributes of instances."""
    return [
        getattr(instance, attribute.key)
        for instance in instances
        for attribute in type(instance).__mapper__.column_attrs
    ]


def everything(session: Session) -> list[Any]:
    """Return an instance of every row."""
    people = with_polymorphic(Person, "*")
    classes = (Recipe, MealPlan, Preference, Order, OrderLine, RecipeNote, people, Box)
    return [instance for class_ in classes for instance in session.scalars(select(class_))]


def raised(does: Callable[[], object]) -> list[str]:
    """Return all texts of the exception that a call raises."""
    try:
        done = does()
    except Exception as error:  # noqa: BLE001  # any exception
        return raised_by(error)
    raise AssertionError(f"nothing was raised: {done!r}")


def raised_by(error: BaseException) -> list[str]:
    """Return all texts of an exception: message, arguments, driver fields and traceback."""
    orig = getattr(error, "orig", None)
    fields = public(getattr(orig, "diag", None))
    parts = [error, error.args, getattr(error, "params", None), orig, fields]
    return [*map(str, parts), *map(repr, parts), *traceback.format_exception(error)]


def attempted(does: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of a call, or the texts of its error."""
    try:
        return does(*arguments)
    except (InvalidRequestError, RefError) as error:
        return raised_by(error)


def refused(session: RefSession, statement: Any, parameters: Any = None) -> list[str]:
    """Return all texts of the exception that a statement raises, in a savepoint."""

    def execute() -> object:
        with session.begin_nested():
            return session.execute(statement, parameters)

    return raised(execute)


def public(thing: Any) -> dict[str, Any]:
    """Return the public attributes of a thing."""
    return {name: getattr(thing, name) for name in dir(thing) if not name.startswith("_")}


# Instances


@output
def instances(session: RefSession) -> Any:
    """After loading."""
    return attributes(everything(session))


@output
def instances_that_were_committed_expired_refreshed(session: RefSession) -> Any:
    """In each state of an instance."""
    found = everything(session)
    seen = []
    session.commit()
    seen += attributes(found)
    session.expire_all()
    seen += attributes(found)
    for instance in found:
        session.refresh(instance)
    seen += attributes(found)
    session.rollback()
    return seen + attributes(found)


@output
def instances_after_close(session: RefSession) -> Any:
    """Detached by `close()` or `expunge()`."""
    found = everything(session)
    session.expunge(found[0])
    session.close()
    return attributes(found)


@output
def instances_that_were_pickled(session: RefSession) -> Any:
    """Through `pickle` and `copy`."""
    found = everything(session)
    loaded = pickle.loads(pickle.dumps(found))  # noqa: S301  # we wrote it
    return attributes([*loaded, *map(copy.copy, found)])


@output
def instances_merged_into_another_session(session: RefSession) -> Any:
    """Of the same conversation."""
    with RefSession(session.bind, conversation=session.conversation) as other:
        return attributes([other.merge(instance) for instance in everything(session)])


@output
def instances_that_are_new(session: RefSession) -> Any:
    """After a flush, with keys from the server, from Python and from refs."""
    new = [
        Recipe(name="new", parent_recipe_id="recipe_1"),
        MealPlan(recipe_id="recipe_1"),
        Box(inside="box_1"),
        Cook(mentor_id="person_1"),
        OrderLine(order_id="order_1", position=9),
        Preference(favourites=["recipe_1"]),
    ]
    session.add_all(new)
    session.flush()
    return attributes(new)


@output
def relationships(session: RefSession) -> Any:
    """Lazy and eager."""
    options = (selectinload(Recipe.plans), joinedload(Recipe.parent))
    found = session.scalars(select(Recipe).options(*options)).all()
    lazy = [plan.recipe for plan in session.scalars(select(MealPlan))]
    return attributes([*(plan for recipe in found for plan in recipe.plans), *lazy])


@output
def reprs(session: RefSession) -> Any:
    """`repr` and `str`."""
    found = everything(session)
    favourites = [each.favourites for each in found if isinstance(each, Preference)]
    return [repr(found), repr(session), repr(session.conversation), repr(favourites)]


# Rows


@output
def rows_in_every_form(session: RefSession) -> Any:
    """Tuples, mappings, scalars, partitions, streams."""
    statement = select(MealPlan.id, MealPlan.recipe_id, Recipe).join(MealPlan.recipe)
    columns = select(MealPlan.id, MealPlan.recipe_id)
    streamed = columns.execution_options(yield_per=1)
    shown = [
        [row[:2] for row in session.execute(statement)],
        [dict(row) for row in session.execute(columns).mappings()],
        session.scalars(columns).all(),
        session.execute(columns).columns("recipe_id").all(),
        list(session.execute(streamed).partitions(2)),
        session.execute(columns).freeze()().all(),
        session.execute(columns).unique().all(),
        session.execute(columns).fetchmany(2),
        [row._asdict() for row in session.execute(columns)],
        session.scalar(columns),
        session.execute(select(MealPlan.__table__)).all(),
        session.query(MealPlan.id, MealPlan.recipe_id).all(),
    ]
    return [shown, repr(shown), json.dumps(shown, default=str)]


@output
def returning(session: RefSession) -> Any:
    """Of single and batched inserts, upserts, updates and deletes."""
    both = (MealPlan.id, MealPlan.recipe_id)
    many = [{"recipe_id": "recipe_1"}] * 1_500
    upsert = pg_insert(recipe_tags).values(recipe_id="recipe_1", tag="quick")
    upsert = upsert.on_conflict_do_update(
        index_elements=["recipe_id", "tag"], set_={"tag": "slow"}
    )
    return [
        session.execute(insert(MealPlan).values(recipe_id="recipe_1").returning(*both)).all(),
        session.execute(insert(MealPlan).returning(*both), many).all()[:10],
        attributes(session.scalars(insert(MealPlan).returning(MealPlan), many[:3])),
        session.execute(upsert.returning(recipe_tags.c.recipe_id)).all(),
        session.execute(update(MealPlan).values(instead_of="recipe_2").returning(*both)).all()[:9],
        session.execute(delete(MealPlan).returning(*both)).all()[:10],
    ]


@output
def results_of_writes(session: RefSession) -> Any:
    """Attributes of the result of an INSERT without RETURNING, and of an UPDATE."""
    recipes: Any = Recipe.__table__
    orders: Any = Order.__table__
    results: list[Any] = [
        session.execute(insert(recipes).values(name="x")),
        session.execute(
            insert(recipes).values(id=world.NEW, parent_recipe_id="recipe_1", name="y")
        ),
        session.execute(insert(orders).values(id=770_000_199, number=1)),
        session.execute(update(recipes).values(parent_recipe_id="recipe_1")),
    ]
    seen: list[Any] = []
    for result in results:
        for name in ("inserted_primary_key", "inserted_primary_key_rows", "returned_defaults"):
            seen += [attempted(getattr, result, name), repr(result)]
        for name in ("last_inserted_params", "last_updated_params"):
            seen += [attempted(lambda result, name: getattr(result, name)(), result, name)]
    return seen


@output
def bulk_operations(session: RefSession) -> Any:
    """Legacy bulk methods, which write keys into the mappings that they receive."""
    records: list[dict[str, Any]] = [{"recipe_id": "recipe_1"}]
    session.bulk_insert_mappings(MealPlan, records, return_defaults=True)
    plan = MealPlan(recipe_id="recipe_1")
    session.bulk_save_objects([plan], return_defaults=True)
    return [records, plan.id, plan.recipe_id]


@output
def every_shape(session: RefSession) -> Any:
    """The rows of all translated statements, and the errors of all refused ones."""
    return [
        attempted(lambda shape: run(shape, session, str, world.as_it_is).rows, shape)
        for shapes in TABLE.values()
        for shape in shapes
    ]


# Errors


@output
def violated_constraints(session: RefSession) -> Any:
    """Unique, foreign key, not null, check, by statement and by flush."""
    key = world.KEYS

    def add(*new: object) -> Callable[[], object]:
        def flush() -> None:
            with session.begin_nested():
                session.add_all(new)
                session.flush()

        return flush

    absent = world.NEW
    return [
        raised(add(Recipe(id=key["recipe_1"], name="again"))),
        raised(add(Order(id=key["order_1"], number=1))),
        raised(add(OrderLine(order_id="order_1", position=1))),
        raised(add(MealPlan(recipe_id=absent))),
        raised(add(MealPlan(id=key["meal_plan_1"]))),
        refused(session, insert(MealPlan).values(id=key["meal_plan_1"], recipe_id="recipe_1")),
        refused(session, insert(MealPlan), [{"recipe_id": absent}, {"recipe_id": "recipe_1"}]),
        refused(session, delete(Recipe).where(Recipe.id == "recipe_1")),
        refused(session, update(MealPlan).values(recipe_id=None)),
        refused(session, update(Order).where(Order.id == "order_1").values(id=key["order_2"])),
    ]


@output
def failed_statements(session: RefSession) -> Any:
    """Data errors, bad values, missing columns."""
    key = world.KEYS
    wrong = func.date_part("nonsense", func.now())
    return [
        refused(session, select(1 / func.nullif(0, 1)).where(Recipe.id == "recipe_1", wrong == 1)),
        refused(
            session,
            text("select no_such_column from recipes where id = :id").bindparams(
                bindparam("id", key["recipe_1"], Uuid)
            ),
        ),
        refused(session, select(Order).where(Order.id == "order_1", wrong == 1)),
        refused(session, select(Order).where(Order.id.in_(["order_1", "order_2"]), wrong == 1)),
        refused(session, select(Person).where(Person.id == "person_1", wrong == 1)),
        refused(session, select(Recipe).where(Recipe.id == bindparam("x", type_=Uuid)), {"x": 17}),
    ]


@output
def conflicts_in_the_session(session: RefSession) -> Any:
    """Two objects with one key, an object without a row, a stale update."""
    key = world.KEYS
    kept = everything(session)

    def twice() -> None:
        session.add(Recipe(id=key["recipe_1"], name="again"))
        session.flush()

    def attached_twice() -> None:
        with Session(session.bind) as plain:
            other = plain.get_one(Recipe, key["recipe_1"])
            plain.expunge(other)
        session.add(other)

    def gone() -> None:
        order = session.get_one(Order, "order_3")
        session.connection().execute(delete(Order).where(Order.id == key["order_3"]))
        order.number = 7
        session.flush()

    def deleted() -> object:
        order = session.get_one(Order, "order_3")
        session.connection().execute(delete(Order).where(Order.id == key["order_3"]))
        session.expire(order)
        return order.number

    said = []
    for does in (twice, attached_twice, gone, deleted):
        said += raised(does)
        session.rollback()
    return [said, len(kept)]
