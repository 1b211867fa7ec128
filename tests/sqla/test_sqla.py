"""The behaviour of SQLAlchemy's internals that we lean on, pinned on both series."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import (
    BindParameter,
    Boolean,
    CheckConstraint,
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Enum,
    Executable,
    Integer,
    MetaData,
    Result,
    Table,
    Uuid,
    and_,
    bindparam,
    column,
    create_engine,
    delete,
    event,
    exists,
    false,
    func,
    insert,
    inspect,
    literal,
    not_,
    or_,
    select,
    text,
    true,
    union,
    update,
    values as sa_values,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError
from sqlalchemy.ext.declarative import AbstractConcreteBase
from sqlalchemy.orm import (
    Bundle,
    DeclarativeBase,
    InstrumentedAttribute,
    Mapped,
    ORMExecuteState,
    Session,
    UOWTransaction,
    aliased,
    configure_mappers,
    joinedload,
    lazyload,
    mapped_column,
    selectinload,
    subqueryload,
    with_expression,
    with_loader_criteria,
)
from sqlalchemy.util import greenlet_spawn

from alfred_refs import sqla
from alfred_refs.session.instances.attributes import boundary_of
from tests.mapping.test_lineage import Opaque
from tests.models import Base, Cook, Guest, MealPlan, Person, Recipe, devices, recipe_tags
from tests.session.test_collections import Drawer, Thing
from tests.statements.test_model_unions import Vehicle

ONE, TWO = uuid.uuid4(), uuid.uuid4()

other = aliased(Recipe)
STATEMENTS = {
    "select": lambda key: select(Recipe).where(Recipe.id == key, Recipe.name == "x"),
    "in": lambda key: select(Recipe).where(Recipe.id.in_([key])),
    "join": lambda key: select(Recipe).join(other, other.id == key),
    "cte": lambda key: select(select(Recipe.id).where(Recipe.id == key).cte()),
    "exists": lambda key: select(Recipe).where(Recipe.plans.any(MealPlan.recipe_id == key)),
    "update": lambda key: update(Recipe).where(Recipe.id == key).values(parent_recipe_id=key),
    "delete": lambda key: delete(Recipe).where(Recipe.id == key),
    "insert": lambda key: insert(MealPlan).values(recipe_id=key),
    "from select": lambda key: insert(MealPlan).from_select(
        ["recipe_id"], select(Recipe.id).where(Recipe.id == key)
    ),
}


@pytest.fixture(params=list(STATEMENTS))
def make(request: pytest.FixtureRequest) -> Any:
    """A statement of each kind with a key in it."""
    return STATEMENTS[request.param]


def values(statement: Executable) -> list[Any]:
    """Return the values of a statement's parameters."""
    return [sqla.parameter_value(p) for p in sqla.shape_of(statement)[1]]


def test_statements_that_differ_in_values_have_one_shape(make: Any) -> None:
    """The shape leaves the values out, and lists the parameters in one order."""
    (shape, one), (same, two) = sqla.shape_of(make(ONE)), sqla.shape_of(make(TWO))

    assert shape == same
    assert shape is not None
    assert [type(p.type) for p in one] == [type(p.type) for p in two]
    assert values(make(ONE)) != values(make(TWO))


def test_values_can_be_replaced_in_a_copy_of_the_same_shape(make: Any) -> None:
    """The copy has the new value in every place, the original is as it was."""
    statement = make(ONE)
    before = values(statement)
    replaced = {
        p.key: [TWO] if isinstance(sqla.parameter_value(p), list) else TWO
        for p in sqla.shape_of(statement)[1]
        if sqla.parameter_value(p) in (ONE, [ONE])
    }

    copy = sqla.with_values(statement, replaced)

    assert values(copy) == values(make(TWO))
    assert sqla.shape_of(copy)[0] == sqla.shape_of(statement)[0]
    assert values(statement) == before


same = Recipe.id == bindparam("wanted", ONE)
parts = select(Recipe.id).where(Recipe.id == bindparam("wanted", ONE)).subquery()
IN_WHERE: dict[str, Executable] = {
    "entity": select(Recipe).where(Recipe.id == ONE, Recipe.name == "x"),
    "other way round": select(Recipe).where(bindparam("wanted", ONE) == Recipe.id),
    "column": select(Recipe.name).where(Recipe.id != ONE).order_by(Recipe.name).limit(3),
    "table": select(recipe_tags).where(recipe_tags.c.recipe_id.in_([ONE, ONE])),
    "alias": select(other).where(other.id == ONE, other.parent_recipe_id == ONE),
    "and, or": select(Recipe).where(
        and_(Recipe.id == ONE, or_(Recipe.name == "x", and_(Recipe.id == ONE, ~(same)))),
    ),
    "twice": select(Recipe).where(same, Recipe.parent_recipe_id == same.right),
    "by one name": select(Recipe).where(same, Recipe.parent_recipe_id == bindparam("wanted", ONE)),
    "beside a subquery": select(Recipe).where(Recipe.id == ONE, Recipe.plans.any()),
    "beside a join": select(Recipe).join(other, other.name == "x").where(other.id == ONE),
    "subclass": select(Cook).where(Cook.id == str(ONE), Cook.mentor_id == str(ONE)),
    "loader": select(Recipe)
    .where(Recipe.id == ONE)
    .options(subqueryload(Recipe.plans), with_loader_criteria(MealPlan, MealPlan.day.is_(None))),
    "update": update(Recipe).where(Recipe.id == ONE).values(name="x"),
    "delete": delete(Recipe).where(Recipe.id == ONE),
}
ELSEWHERE: dict[str, Executable] = {
    "shown too": select(Recipe, same).where(same),
    "subquery": select(Recipe).where(Recipe.plans.any(MealPlan.recipe_id == ONE)),
    "subquery too": select(parts.c.id).where(parts.c.id == same.right, same),
    "on": select(Recipe).join(other, other.id == ONE).where(other.id == ONE),
    "having": select(Recipe.id).where(same).group_by(Recipe.id).having(same),
    "function": select(Recipe).where(Recipe.id == func.coalesce(None, ONE)),
    "values": update(Recipe).where(Recipe.id == ONE).values(parent_recipe_id=ONE),
    "union": union(select(Recipe.id).where(same), select(Recipe.id)),
    "loader": select(Recipe).where(same).options(
        with_loader_criteria(MealPlan, MealPlan.recipe_id == same.right)
    ),
    "insert": insert(MealPlan).values(recipe_id=ONE),
}  # fmt: skip


def ones(statement: Executable) -> list[Any]:
    """Return the parameters that hold the first key, as such or in a list."""
    held = {ONE: TWO, str(ONE): str(TWO)}
    found = sqla.shape_of(statement)[1]
    return [p for p in found if (v := p.effective_value) in [*held, [ONE, ONE]] and v is not None]


def holding(key: uuid.UUID, statement: Executable) -> dict[str, Any]:
    """Return another key, by the names of the parameters that hold the first."""
    kinds: dict[type[Any], Any] = {uuid.UUID: key, str: str(key), list: [key, key]}
    return {p.key: kinds[type(p.effective_value)] for p in ones(statement)}


def compiled(statement: Any) -> tuple[str, dict[str, Any]]:
    """Return the SQL and the parameters that a statement is sent as."""
    done = statement.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    return str(done), done.params


@pytest.mark.parametrize("name", IN_WHERE)
def test_a_quick_copy_is_sent_as_a_whole_one(name: str) -> None:
    """It has the same SQL and parameters, and the cache key that it would generate."""
    statement = IN_WHERE[name]
    before = compiled(statement)
    assert sqla.stand_in_where(statement, ones(statement))

    quick: Any = sqla.with_values_in_where(statement, holding(TWO, statement))

    assert (
        compiled(quick) == compiled(sqla.with_values(statement, holding(TWO, statement))) != before
    )
    assert sqla.shape_of(quick)[0] == sqla.shape_of(statement)[0]
    assert sorted(values(quick.where(Recipe.name == "")), key=str) == sorted(
        [*values(quick), ""], key=str
    )
    assert compiled(statement) == before


@pytest.mark.parametrize("name", IN_WHERE)
def test_quick_copies_are_compiled_once_and_sent_with_their_own_values(
    tables: Engine, name: str
) -> None:
    """What is compiled for the first copy serves the second, with the second's values."""
    sent: list[tuple[str, set[str]]] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        held = {key for key in (str(ONE), str(TWO)) if key in str(arguments[3])}
        sent.append((arguments[4].cache_hit.name, held))

    with Session(tables) as session:
        for key in (ONE, TWO):
            replaced = holding(key, IN_WHERE[name])
            session.execute(sqla.with_values_in_where(IN_WHERE[name], replaced))

    assert sent == [("CACHE_MISS", {str(ONE)}), ("CACHE_HIT", {str(TWO)})]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_statement_is_copied_whole_where_a_parameter_stands_elsewhere(name: str) -> None:
    """A quick copy would have the old value there."""
    assert ones(ELSEWHERE[name])
    assert not sqla.stand_in_where(ELSEWHERE[name], ones(ELSEWHERE[name]))


@pytest.mark.parametrize(
    "copied", [sqla.without_lambdas, lambda s: sqla.with_values(s, holding(TWO, s))]
)
def test_a_copy_keeps_the_options_of_the_statement(copied: Any) -> None:
    """They are the same objects: SQLAlchemy fails to copy `with_loader_criteria()`."""
    statement = IN_WHERE["loader"]

    assert copied(statement)._with_options == statement._with_options
    assert len(copied(statement)._with_options) == 2


def test_a_statement_that_is_not_cached_lists_its_parameters_too() -> None:
    """A custom element may forbid caching: there is no shape, and nothing is missed."""

    class Custom(ColumnElement[bool]):
        inherit_cache = False

    statement = select(Recipe).where(Recipe.name == "x", Custom())

    shape, parameters = sqla.shape_of(statement)
    assert (shape, [sqla.parameter_value(p) for p in parameters]) == (None, ["x"])


def test_elements_are_found_everywhere(make: Any) -> None:
    """Every parameter is met in a traversal, in subqueries and values too."""
    statement = make(ONE)
    met = {id(element) for element in sqla.elements_of(statement)}

    assert {id(p) for p in sqla.shape_of(statement)[1]} <= met


def test_values_of_a_write_are_listed_as_given() -> None:
    """By name, by attribute, in order, and in lists."""
    by_name = dict(sqla.values_of(insert(MealPlan).values(recipe_id=ONE)))
    ordered = dict(sqla.values_of(update(MealPlan).ordered_values((MealPlan.recipe_id, ONE))))
    many = sqla.many_values_of(insert(MealPlan).values([{"recipe_id": ONE}]))

    assert [sqla.parameter_value(v) for v in by_name.values()] == [ONE]
    assert [sqla.parameter_value(v) for v in ordered.values()] == [ONE]
    assert [[list(record.values()) for record in each] for each in many] == [[[ONE]]]
    assert list(sqla.values_of(select(Recipe))) == []


def test_lists_of_records_can_be_replaced_in_a_copy() -> None:
    """The original insert keeps its records."""
    statement = insert(MealPlan).values([{"recipe_id": ONE}])

    copy = sqla.with_many_values(statement, ([{"recipe_id": TWO}],))

    assert sqla.many_values_of(copy) == ([{"recipe_id": TWO}],)
    assert sqla.many_values_of(statement) != sqla.many_values_of(copy)


def test_returning_tells_entities_from_columns() -> None:
    """An entity stands at one position, a table at as many as it has columns."""
    orm = insert(MealPlan).returning(MealPlan, MealPlan.id)
    core = insert(recipe_tags).returning(recipe_tags)

    assert [len(elements) for elements in sqla.returned_by(orm)] == [0, 1]
    assert [elements[0].key for elements in sqla.returned_by(core)] == ["recipe_id", "tag"]


def test_the_class_of_a_table_is_found_whatever_its_base() -> None:
    """Of an inheritance hierarchy on one table it is the topmost."""
    assert sqla.mapper_of_table(Base.metadata.tables["people"]) is Person.__mapper__
    assert sqla.mapper_of_table(Base.metadata.tables["cooks"]) is Cook.__mapper__
    assert sqla.mapper_of_table(devices) is None
    assert Guest.__mapper__.local_table is Person.__table__


@pytest.mark.parametrize("write", [insert, update, delete])
def test_a_write_tells_its_table_and_its_class(write: Any) -> None:
    """By the class, by the table, and by a table where criteria name a class."""
    assert sqla.written_by(write(Recipe)) == (Recipe.__table__, Recipe.__mapper__)
    assert sqla.written_by(write(recipe_tags)) == (recipe_tags, None)
    if write is not insert:
        mixed = write(recipe_tags).where(recipe_tags.c.recipe_id == Recipe.id)
        assert sqla.written_by(mixed) == (recipe_tags, None)


def test_a_class_that_is_mapped_later_is_left_out() -> None:
    """The base of concrete classes has no mapper until all mappers are configured."""

    class Later(DeclarativeBase):
        pass

    class Animal(AbstractConcreteBase, Later):
        pass

    class Dog(Animal):
        __tablename__ = "dogs"
        id: Mapped[int] = mapped_column(primary_key=True)

    assert {mapper.class_ for mapper in sqla.mappers_of(Later.registry)} == {Dog}
    assert sqla.mapper_of_table(Base.metadata.tables["recipes"]) is Recipe.__mapper__
    configure_mappers()
    assert {mapper.class_ for mapper in sqla.mappers_of(Later.registry)} == {Animal, Dog}


def test_the_root_of_an_engine_owns_its_pool(engine: Engine) -> None:
    """An engine made by `execution_options` stands on another."""
    assert sqla.root_of(engine.execution_options(isolation_level="SERIALIZABLE")) is engine
    assert sqla.root_of(engine) is engine


async def test_an_awaitable_can_be_waited_for_in_synchronous_code() -> None:
    """Inside what the asyncio extension awaits: the event loop goes on meanwhile."""
    assert await greenlet_spawn(sqla.wait_for, asyncio.sleep(0, "done")) == "done"


def test_a_listener_for_disposal_costs_no_statement(engine: Engine) -> None:
    """It is called, and the engine goes on executing as if nobody listened."""
    disposed: list[Engine] = []

    def note(engine: Engine) -> None:
        disposed.append(engine)

    sqla.on_disposal(engine, note)

    assert engine._has_events is Engine._has_events
    assert "_has_events" not in vars(engine)
    engine.dispose()
    assert disposed == [engine]
    event.remove(engine, "engine_disposed", note)
    event.listen(engine, "before_execute", print)
    sqla.on_disposal(engine, print)
    assert engine._has_events


def test_a_pool_beside_another_waits_for_the_dialect(database_url: str) -> None:
    """Its first connection and the other's are made one after the other, hooks are run for both.

    Without the shared lock the second finds the initialisation begun and goes on without it.
    """
    engine = create_engine(database_url)
    beside = sqla.pool_beside(engine.pool)
    initialize, running, seen = engine.dialect.initialize, threading.Event(), []

    def slowly(connection: Connection) -> None:
        running.set()
        time.sleep(0.05)
        initialize(connection)
        running.clear()

    engine.dialect.initialize = slowly  # type: ignore[method-assign]
    other = threading.Thread(target=lambda: engine.connect().close())
    other.start()
    running.wait()
    event.listen(beside, "connect", lambda *_: seen.append(running.is_set()))
    beside.connect().close()
    other.join()

    assert seen == [False]
    assert type(beside) is type(engine.pool)
    beside.dispose()
    engine.dispose()


def test_a_pool_can_be_told_to_replace_its_connections(engine: Engine) -> None:
    """The connection that was lost and an idle one are not used again, a later one is."""
    connections = [engine.connect(), engine.connect()]
    lost, idle = (connection.connection.dbapi_connection for connection in connections)
    connections[1].close()
    sqla.invalidate_pool(connections[0], RuntimeError())
    assert connections[0].invalidated
    connections[0].close()

    with engine.connect() as one, engine.connect() as two:
        fresh = {id(each.connection.dbapi_connection) for each in (one, two)}
        assert fresh.isdisjoint({id(lost), id(idle)})
    with engine.connect() as again:
        assert id(again.connection.dbapi_connection) in fresh


def test_a_state_keeps_what_is_put_beside_the_row() -> None:
    """What stands in the state's dictionary is neither in the row nor pickled with it."""
    recipe = Recipe(name="x")
    state = sqla.state_of(recipe)
    state.alfred_refs_test = 1  # type: ignore[attr-defined]

    assert vars(recipe).keys() == {"_sa_instance_state", "name"}
    assert "alfred_refs_test" not in state.__getstate__()


class Taking:
    """Takes in what is loaded: all of it, or none."""

    def __init__(self, *classes: type[Any], refused: bool = False) -> None:
        self.classes = set(classes)
        self.loaded: list[sqla.There] = []
        self.chunks: list[int] = []
        self.sought: Callable[[], None] | None = None
        self.refused = refused
        self.seen: list[str] = []

    def hide(self, error: BaseException) -> None:
        """Note an exception, by its class's name."""
        self.seen.append(type(error).__name__)

    def not_flushed(self, error: Exception) -> None:
        """Know nothing better."""

    def identify(self, _: Session, __: Any, identity: Any, ___: Any) -> tuple[Any, Any]:
        """Take an identity as it is."""
        return None, identity

    def missed(self, *_: Any) -> None:
        """Look for nothing."""

    def enter(self, state: Any) -> None:
        """Take in an instance of another class than the `classes`."""
        assert state.class_ not in self.classes
        if self.refused:
            raise ValueError(state)
        state.alfred_refs = self
        self.loaded.append(state.obj)

    def executed(self, result: Any) -> None:
        """Take in what a statement came to."""

    def fetched(self, rows: Any) -> None:
        """Note how many instances there are after each chunk."""
        assert len(rows)
        self.chunks.append(len(self.loaded))


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("classes", [(), (Recipe,), (Recipe, MealPlan)])
def test_each_instance_that_a_load_makes_is_taken_in_once(
    tables: Engine, classes: tuple[type[Any], ...]
) -> None:
    """In the order of rows, those of eager loaders too; what is there already is not."""
    with Session(tables) as session:
        first, *others = session.scalars(select(Recipe).order_by(Recipe.name))
        session.add_all(MealPlan(recipe=recipe) for recipe in (first, others[0]))
        session.commit()
        session.expunge(others[0])
        taking = Taking(*classes)
        sqla.watch_loading(session, taking)
        plans = select(MealPlan).join(MealPlan.recipe).order_by(Recipe.name)
        [one, two] = session.scalars(plans.options(joinedload(MealPlan.recipe)))

        taken = [one, two, two.recipe]
        assert [there() for there in taking.loaded] == taken
        belong: list[Any] = [boundary_of(instance) for instance in taken]
        assert belong == [taking] * 3
        assert one.recipe is first
        assert boundary_of(first) is None


@pytest.mark.usefixtures("recipes")
def test_what_the_watcher_refuses_is_not_in_the_session(tables: Engine) -> None:
    """Who keeps the error keeps the instance too: the next load must not find it in the map."""
    with Session(tables) as session:
        sqla.watch_loading(session, Taking(refused=True))
        with pytest.raises(ValueError, match="InstanceState"):
            session.scalars(select(Recipe)).all()

        assert list(session.identity_map.values()) == []


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("classes", [(), (Recipe,)])
def test_a_watched_identity_map_is_as_one_that_is_not(
    tables: Engine, classes: tuple[type[Any], ...]
) -> None:
    """What a load puts in it and in the instance's state is the same, and is dropped the same."""
    with Session(tables) as watched, Session(tables) as other:
        sqla.watch_loading(watched, Taking(*classes))
        maps = [watched.identity_map, other.identity_map]
        found = [session.scalars(select(Recipe)).all() for session in (watched, other)]
        for states, instances in zip(maps, found, strict=True):
            assert list(states.values()) == instances
            assert all(sqla.state_of(i)._instance_dict() is states for i in instances)
        assert list(maps[0].keys()) == list(maps[1].keys())
        del found, instances, states
        assert [len(each) for each in maps] == [0, 0]
        watched.expunge_all()
        assert watched.identity_map is not maps[0]


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("loader", [joinedload, selectinload, subqueryload, lazyload, None])
def test_the_statements_of_the_orm_itself_are_told_from_the_programs(
    tables: Engine, loader: Any
) -> None:
    """By one look at what `is_column_load` and `is_relationship_load` look at."""
    told: list[tuple[bool, bool]] = []
    with Session(tables) as session:
        session.add(MealPlan(recipe=session.scalars(select(Recipe)).first()))
        session.commit()
        event.listen(session, "do_orm_execute", lambda each: told.append(_both_ways(each)))
        options = [] if loader is None else [loader(MealPlan.recipe).defer(Recipe.name)]
        [plan] = session.scalars(select(MealPlan).options(*options))
        _ = plan.recipe.name
        session.refresh(plan)
        session.execute(update(Recipe).values(name="x"))
        session.execute(text("select 1"))

    assert [ours for ours, _ in told] == [theirs for _, theirs in told]
    assert [theirs for _, theirs in told].count(False) == 3
    assert len(told) > 4


def _both_ways(execution: ORMExecuteState) -> tuple[bool, bool]:
    theirs = execution.is_column_load or execution.is_relationship_load
    return sqla.loads_by_itself(execution), theirs


@pytest.mark.parametrize("within", [False, True])
def test_an_eager_loader_loads_the_whole_for_a_chunk_of_rows(tables: Engine, within: bool) -> None:
    """Also where a listener invokes its statement, to which the size of chunks leaks."""

    def invoke(execution: ORMExecuteState) -> Result[Any]:
        sqla.load_whole(execution)
        return execution.invoke_statement()

    loader = selectinload(Recipe.plans)
    if within:  # a collection of one row each: the loader asks that rows be unique
        loader = loader.joinedload(MealPlan.recipe).joinedload(Recipe.plans)
    with Session(tables) as session:
        session.add_all([Recipe(name="Soup", plans=[MealPlan(), MealPlan()]) for _ in range(3)])
        session.commit()
        session.expunge_all()
        event.listen(session, "do_orm_execute", invoke, retval=True)
        chunks = select(Recipe).where(Recipe.name == "Soup").options(loader)
        read = session.scalars(chunks.execution_options(yield_per=2))

        assert [len(recipe.plans) for recipe in read] == [2, 2, 2]


def test_a_session_knows_that_it_is_in_a_flush(tables: Engine) -> None:
    """From `before_flush` to the end, an error included."""
    told: list[bool] = []

    def stop(session: Session, *_: object) -> None:
        told.append(sqla.is_flushing(session))
        raise ValueError("stop")

    with Session(tables) as session:
        event.listen(session, "before_flush", stop)
        session.add(Recipe(name="Soup"))
        with pytest.raises(ValueError, match="stop"):
            session.flush()
        told.append(sqla.is_flushing(session))

    assert told == [True, False]
    assert not sqla.is_flushing(None)


def test_what_waits_for_a_flush_is_sent_where_the_session_flushes_by_itself(
    tables: Engine,
) -> None:
    """As before a statement of the ORM: not inside `no_autoflush`, and not in a flush."""
    told: list[bool] = []

    def again(session: Session, *_: object) -> None:
        sqla.autoflush(session)
        told.append(bool(session.new))

    with Session(tables) as session:
        session.add(Recipe(name="Soup"))
        with session.no_autoflush:
            sqla.autoflush(session)
        told.append(bool(session.new))
        event.listen(session, "before_flush", again)
        sqla.autoflush(session)
        told.append(bool(session.new))

    assert told == [True, True, False]


def test_an_attribute_can_change_its_class_and_stay_itself() -> None:
    """SQLAlchemy's descriptor accepts a subclass without slots of its own."""

    class Other(InstrumentedAttribute[Any]):
        __slots__ = ()
        inherit_cache = True

    attribute: Any = Recipe.name
    before = type(attribute)
    attribute.__class__ = Other
    try:
        assert Recipe.name is attribute
        assert isinstance(Recipe.__dict__["name"], Other)
    finally:
        attribute.__class__ = before


@pytest.mark.parametrize("table", [Recipe, Recipe.__table__])
@pytest.mark.usefixtures("recipes")
def test_rows_can_be_rewritten_in_chunks(tables: Engine, table: Any) -> None:
    """Results of the ORM and of Core go through the function, whole or in chunks of a size."""
    column = Recipe.name if table is Recipe else table.c.name
    statement = select(column).order_by(column)
    seen: list[int] = []

    def lower(rows: Any) -> list[tuple[Any, ...]]:
        seen.append(len(rows))
        return [(name.lower(),) for (name,) in rows]

    with Session(tables) as plain:
        whole = sqla.rewrite_rows(plain.execute(statement), partial(map, lower))
        assert [row._mapping[column] for row in whole] == list("abcde")
        parts = sqla.rewrite_rows(
            plain.execute(statement, execution_options={"yield_per": 2}), partial(map, lower)
        )
        assert [[row.name for row in part] for part in parts.partitions(2)] == [
            ["a", "b"],
            ["c", "d"],
            ["e"],
        ]
    assert seen == [5, 2, 2, 1]


def test_an_element_of_ones_own_has_no_parts() -> None:
    """They are found in its attributes, but not the element itself, which its comparator has."""
    parts = [Recipe.id, "x"]
    element = Opaque(parts)
    assert element.comparator.__clause_element__() is element

    key, parameter = sqla.hidden_in(element)

    assert (str(key), sqla.parameter_value(parameter)) == ("recipes.id", "x")  # type: ignore[arg-type]
    assert [sqla.is_opaque(e) for e in (element, Recipe.name == "x", None)] == [True, False, False]


def test_a_parameter_tells_which_instance_it_reads() -> None:
    """One that is compared with a relationship does, in a copy too; no other parameter has one."""
    recipe = Recipe(id=ONE)
    statement = select(MealPlan).where(MealPlan.recipe == recipe, MealPlan.instead_of == TWO)
    for each in (statement, sqla.with_values(statement, {"instead_of_1": ONE})):
        [first, second] = sqla.shape_of(each)[1]
        assert sqla.attribute_behind(first) == (sqla.state_of(recipe), "id")
        assert sqla.attribute_behind(second) is None
    assert sqla.attribute_behind(bindparam("x", callable_=lambda: ONE)) is None


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
        stem = sqla.stem_of(parameter)
        assert stem is not None
        for given in (made, parameter.key):
            assert sqla.may_be_named(given, stem)
            assert "other" in compiled.construct_params({given: "other"}).values()


def test_other_names_are_not_taken_for_made_ones() -> None:
    """Those that the program gives, of other parameters, and without a number."""
    assert sqla.stem_of(bindparam("id_1")) is None
    assert not sqla.may_be_named("other_1", "id")
    assert not sqla.may_be_named("id", "id")
    assert not sqla.may_be_named("%(7 other)s", "id")


def test_a_parameter_given_at_execution_has_no_value_yet() -> None:
    """`bindparam` without a value is listed with `None`."""
    statement = select(Recipe).where(Recipe.id == bindparam("wanted"))

    assert values(statement) == [None]
    assert isinstance(statement, ClauseElement)


def test_a_subquery_that_a_class_is_mapped_to_is_not_copied_without_need() -> None:
    """The ORM would select from the copy and from the original beside it, unjoined."""
    inner = aliased(Recipe, select(Recipe).where(Recipe.name != "x").subquery())
    statement = select(MealPlan.id, inner.name).join(inner, inner.id == MealPlan.recipe_id)
    statement = statement.where(inner.id == "recipe_1")
    [*_, parameter] = sqla.shape_of(statement)[1]

    copy = sqla.with_values(statement, {parameter.key: uuid.UUID(int=1)})

    assert str(copy) == str(statement)
    assert str(copy).count("FROM") == 2


def test_an_attribute_of_a_concrete_base_stands_for_a_column_of_the_union() -> None:
    """The ORM puts it there; any other attribute stands for its own column."""
    configure_mappers()
    attribute, plain = (c.__clause_element__() for c in (Vehicle.id, Recipe.id))

    found = sqla.selected_from_union(attribute)

    assert found is Vehicle.__mapper__.selectable.c["id"]
    assert len(found.base_columns) == 2
    assert sqla.selected_from_union(plain) is plain


def test_a_copy_can_send_a_parameter_as_another_type() -> None:
    """The copies of one shape have one shape again, and the original keeps its type."""
    statements = [select(Recipe).where(Recipe.id == literal(text)) for text in ("a", "b")]
    keys = [sqla.shape_of(statement)[1][0].key for statement in statements]

    one, two = (
        sqla.with_values(statement, {key: ONE}, {key: Uuid()})
        for statement, key in zip(statements, keys, strict=True)
    )

    assert sqla.shape_of(one)[0] == sqla.shape_of(two)[0] != sqla.shape_of(statements[0])[0]
    assert [str(p.type) for p in sqla.shape_of(one)[1]] == [str(Uuid())]
    assert [str(p.type) for p in sqla.shape_of(statements[0])[1]] == ["VARCHAR"]


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
    assert [p.value for p in sqla.shape_of(select(listed))[1]] == []
    assert {p.value for p in sqla.shape_of(upsert)[1]} >= {"set", "where", "index"}


def test_the_rows_of_a_values_construct_are_listed_by_position() -> None:
    """What is no expression is taken for a parameter that no statement lists."""
    listed = sa_values(column("x"), column("y"), name="v").data([(1, "a"), (func.now(), "b")])

    first, second = sqla.places_of(listed)

    assert [type(each).__name__ for each in first] == ["BindParameter", "now"]
    assert [sqla.parameter_value(each) for each in second] == ["a", "b"]


def test_the_end_of_an_upsert_can_be_replaced_in_a_copy() -> None:
    """Its SET is given, its criteria are rewritten; the original is as it was."""
    statement = (
        pg_insert(Recipe)
        .values(name="x")
        .on_conflict_do_update(
            index_elements=["id"], set_={"name": "old"}, where=Recipe.name == "old"
        )
    )
    before = str(statement)
    values = {name: literal("new") for name, _ in sqla.conflict_values_of(statement)}

    copy = sqla.with_conflict_values(statement, values, lambda _: Recipe.name == "new")

    found = {e.value for e in sqla.elements_of(copy) if isinstance(e, BindParameter)}
    assert found == {"x", "new"}
    assert str(statement) == before


def test_a_dictionary_collection_tells_what_its_keys_are_made_of() -> None:
    """Columns or an attribute are named; of any other function nothing is known."""
    configure_mappers()
    by_column, by_key, by_name, by_function = (
        sqla.new_collection(getattr(Drawer, name)).keyfunc
        for name in ("by_column", "by_key", "by_name", "by_function")
    )
    columns, mapper = Thing.__table__.c, Thing.__mapper__
    thing: Any = Thing(name="x")

    assert list(sqla.columns_of_keys(by_column, mapper) or []) == [columns["id"]]
    assert list(sqla.columns_of_keys(by_key, mapper) or []) == [columns["id"]]
    assert list(sqla.columns_of_keys(by_name, mapper) or []) == [columns["name"]]
    assert sqla.columns_of_keys(by_function, mapper) is None
    assert list(sqla.columns_by_getter(by_column, mapper) or []) == [columns["id"]]
    assert sqla.columns_by_getter(by_key, mapper) is None
    assert sqla.is_unpopulated(by_key(thing))
    assert sqla.is_unpopulated(by_column(thing))
    assert not sqla.is_unpopulated(by_name(thing))


def test_a_bundle_is_known_behind_the_element_that_stands_for_it() -> None:
    """A select keeps the bundle's columns, which remember it; other elements have none."""
    bundle: Bundle[Any] = Bundle("own", Recipe.id)
    [[element]] = sqla.returned_by(select(bundle))

    assert sqla.bundle_of(element) is bundle
    assert sqla.bundle_of(bundle) is bundle
    assert sqla.bundle_of(Recipe.__table__.c.id) is None


def test_an_unnamed_column_is_told_from_a_named_one() -> None:
    """The column of an expression without a label gets its name when it is compiled."""
    unnamed, named = select(func.max(Recipe.name), Recipe.name).subquery().c

    assert (sqla.is_unnamed(unnamed), sqla.is_unnamed(named)) == (True, False)


def test_an_ordered_aggregate_is_found_where_the_series_has_it() -> None:
    """Only SQLAlchemy 2.1 has the method; `within_group()` is another thing."""
    aggregate: Any = func.array_agg(Recipe.name)
    order = getattr(aggregate, "aggregate_order_by", None)

    assert order is None or sqla.ordered_aggregate(order(Recipe.name)) is aggregate
    assert sqla.ordered_aggregate(func.mode().within_group(Recipe.name)) is None


@pytest.mark.usefixtures("recipes")
def test_the_row_of_a_bundle_can_have_other_values(tables: Engine) -> None:
    """It keeps its names; of a single-entity bundle the rows come without a tuple around them."""
    bundle: Any = Bundle("own", Recipe.name, single_entity=True)
    seen: list[Any] = []

    def lower(rows: Any) -> list[tuple[Any, ...]]:
        seen.extend(rows)
        return [(sqla.row_like(row, [row.name.lower()]),) for (row,) in rows]

    with Session(tables) as plain:
        statement = select(bundle).where(Recipe.name == "A")
        result = sqla.rewrite_rows(plain.execute(statement), partial(map, lower))
        assert [row.name for row in result.scalars()] == ["a"]
    assert [[row.name for row in each] for each in seen] == [["A"]]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_the_place_of_each_value_is_told_by_the_driver(tables: Engine, driver: str) -> None:
    """Table and column by their numbers, zeros for what is computed."""
    engine = create_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    with engine.connect() as connection:
        [table] = connection.scalars(text("select 'recipes'::regclass::oid::int"))
        result = connection.execute(text("select name, id, 1 from recipes"))
        assert sqla.origins_of(result) == [(table, 2), (table, 1), (0, 0)]
        assert sqla.cursor_result_of(result) is result
    engine.dispose()
    lite = create_engine("sqlite://")
    with lite.connect() as connection:
        assert sqla.origins_of(connection.execute(text("select 1"))) == [(0, 0)]
    lite.dispose()


def test_the_tables_of_all_bases_are_found() -> None:
    """Those of classes and those beside them."""
    found = list(sqla.tables())

    assert Recipe.__table__ in found
    assert devices in found


def test_what_params_gives_a_statement_can_be_replaced() -> None:
    """Only 2.1 keeps it beside the statement."""
    statement = select(Recipe).where(Recipe.id == bindparam("x")).params(x=ONE)
    kept = sqla.params_of(statement)

    assert kept in ({"x": ONE}, {})
    if kept:
        assert sqla.params_of(sqla.with_params(statement, {"x": TWO})) == {"x": TWO}
        assert sqla.params_of(statement) == {"x": ONE}


def test_what_a_copy_leaves_as_it_was_is_known() -> None:
    """Criteria of options and of joined relationships, and the subquery of an alias."""
    alias = aliased(Recipe, select(Recipe).where(Recipe.name == "alias").subquery())
    statement = (
        select(Recipe)
        .join(Recipe.plans.and_(MealPlan.day == "join"))
        .join(alias, alias.id == Recipe.id)
        .options(
            with_loader_criteria(Recipe, Recipe.name == "criteria"),
            selectinload(Recipe.plans.and_(MealPlan.day == "loader")),
        )
    )

    found = {
        element.value
        for part in sqla.out_of_reach(statement)
        for element in sqla.elements_of(part)
        if isinstance(element, BindParameter)
    }
    assert found == {"join", "alias", "criteria", "loader"}


def test_a_listener_for_errors_can_come_first(engine: Engine) -> None:
    """It is listed once, before those that were there, and told of errors."""
    told: list[str] = []
    event.listen(engine, "handle_error", lambda _: told.append("other"))

    def hear(_: object) -> None:
        told.append("first")

    with engine.connect() as connection:
        sqla.listen_first(connection, hear)
        sqla.listen_first(connection, hear)
        with pytest.raises(DBAPIError):
            connection.execute(text("no statement"))

    assert told == ["first", "other"]


@pytest.fixture
def seen() -> list[str]:
    """The exceptions that were seen, by their class's name."""
    return []


@pytest.fixture
def taking() -> Taking:
    """What takes in recipes."""
    return Taking(Recipe)


@pytest.fixture
def watched(
    tables: Engine, recipes: list[Recipe], seen: list[str], taking: Taking
) -> Iterator[Session]:
    """A session whose exceptions and chunks are seen, on a database with recipes in it."""
    assert recipes
    taking.seen = seen
    with sqla.HookedSession(tables) as session:
        session._translation = taking
        sqla.watch_adding(session, taking.hide)
        sqla.watch_loading(session, taking)
        yield session


def raise_lookup_error(*_: object) -> None:
    """Stand for a listener that fails."""
    raise LookupError


def test_what_is_raised_while_a_session_executes_is_seen(
    watched: Session, seen: list[str]
) -> None:
    """The statement is refused by the database."""
    with pytest.raises(DBAPIError):
        watched.execute(text("no statement"))

    assert seen == ["ProgrammingError"]


def test_what_is_raised_while_a_session_flushes_is_seen(watched: Session, seen: list[str]) -> None:
    """A listener fails."""
    event.listen(watched, "before_flush", raise_lookup_error)
    watched.add(Recipe(name="F"))
    with pytest.raises(LookupError):
        watched.flush()

    assert seen == ["LookupError"]


def test_a_flush_without_work_is_not_gone_through(
    watched: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy asks for one before each statement, and for `_flush` only if there is work."""
    with monkeypatch.context() as patched:
        patched.setattr(watched, "_flush", raise_lookup_error)
        watched.flush()
        watched.add(Recipe(name="F"))
        with pytest.raises(LookupError):
            watched.flush()


@pytest.mark.parametrize(("size", "chunks"), [(None, [5]), (2, [2, 4, 5])])
def test_each_chunk_of_rows_is_told_of_once_it_is_made(
    watched: Session, taking: Taking, size: int | None, chunks: list[int]
) -> None:
    """All at once, or as the program streams them; before the program has the first of them."""
    result = watched.scalars(select(Recipe), execution_options={"yield_per": size})
    told = [list(taking.chunks) for _ in result]

    assert taking.chunks == chunks
    assert told[0] == chunks[:1]


def test_what_is_raised_while_rows_are_loaded_is_seen(watched: Session, seen: list[str]) -> None:
    """The statement was executed, and nothing was wrong with it."""
    event.listen(Recipe, "load", raise_lookup_error)
    try:
        result = watched.execute(select(Recipe))
        with pytest.raises(LookupError):
            result.all()
    finally:
        event.remove(Recipe, "load", raise_lookup_error)

    assert seen == ["LookupError"]


def test_what_is_raised_while_an_instance_is_added_is_seen(
    watched: Session, recipes: list[Recipe], seen: list[str]
) -> None:
    """Another one has its identity: be it added itself or by way of a relationship."""
    mine = watched.get(Recipe, recipes[0].id)
    plan = MealPlan()
    watched.add(plan)
    with watched.no_autoflush, pytest.raises(InvalidRequestError):
        watched.add(recipes[0])
    with watched.no_autoflush, pytest.raises(InvalidRequestError):
        plan.recipe = recipes[0]

    assert mine in watched
    assert seen == ["InvalidRequestError"] * 2


def test_an_identity_map_that_is_watched_is_not_kept_alive() -> None:
    """It goes with its session, without the garbage collector."""
    session = Session()
    sqla.watch_adding(session, lambda _: None)
    gone = weakref.ref(session.identity_map)
    session.expunge_all()

    assert gone() is None


def test_classes_are_found_by_what_their_repr_shows() -> None:
    """Which is all that an error says of them."""
    assert sqla.classes_called("tests.models.Recipe") == [Recipe]
    assert sqla.classes_called("tests.models.NoRecipe") == []


def test_the_expression_of_an_option_is_found() -> None:
    """`with_expression()` carries it, below another option too; other options carry none."""
    direct = with_expression(Recipe.name, Recipe.id)
    nested = joinedload(MealPlan.recipe).with_expression(Recipe.name, Recipe.id)

    assert [str(e) for e in sqla.expressions_of([direct])] == ["recipes.id"]
    assert [str(e) for e in sqla.expressions_of([nested])] == ["recipes.id"]
    assert list(sqla.expressions_of([joinedload(MealPlan.recipe)])) == []
    assert list(sqla.options_of(select(Recipe).options(direct))) == [direct]


def test_the_exits_of_a_result_can_be_covered(tables: Engine) -> None:
    """The result stays the same object; what another statement lacks is no exit of its own."""
    with tables.connect() as connection:
        written = connection.execute(insert(Recipe).values(name="x"))
        sqla.cover_exits(written, lambda name, value: (name, len(value)))
        assert written.inserted_primary_key == "inserted_primary_key_rows"
        read = connection.execute(select(Recipe.name))
        sqla.cover_exits(read, lambda *_: pytest.fail("nothing was asked"))
        sqla.new_primary_keys(read)
        assert read.scalars().all() == ["x"]


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_that_name_others_by_value_can_be_saved_after_them(
    tables: Engine, ordered: bool
) -> None:
    """The unit of work does not see to that, and goes by what it is told, cascades included."""
    one, two, three = (Recipe(id=uuid.uuid4(), name=name) for name in ("1", "2", "3"))
    two.parent_recipe_id, three.parent_recipe_id = one.id, two.id
    plan = MealPlan(recipe=three, instead_of=two.id)
    late = MealPlan(recipe_id=three.id)
    with Session(tables) as session:
        session.add_all([late, three, two, one])

        @event.listens_for(session, "before_flush")
        def order(_: Session, flush: UOWTransaction, __: object) -> None:
            named = [(one, two), (two, three), (two, plan), (three, late)]
            pairs = [(sqla.state_of(first), sqla.state_of(then)) for first, then in named]
            deleted = sqla.state_of(Recipe(name="in no session"))
            if ordered:
                sqla.save_in_order(flush, [*pairs, (deleted, pairs[0][0])])

        if ordered:
            session.commit()
            assert len(session.scalars(select(Recipe)).all()) == 3
        else:
            with pytest.raises(IntegrityError):
                session.commit()


def test_a_condition_that_nothing_meets_is_told() -> None:
    """Whatever it is made of, once `and_` and `or_` have left out what does not count."""
    one = column("a") == 1
    never = [
        false(),
        and_(true(), one, false()),
        or_(false(), and_(one, false())),
        and_(true(), not_(or_(true(), one))),
    ]

    assert all(map(sqla.is_false, never))
    assert not any(map(sqla.is_false, [true(), and_(true(), one), or_(false(), one), not_(one)]))


def test_a_key_parameter_has_its_value_whatever_was_compiled_before(engine: Engine) -> None:
    """To SQLAlchemy's cache of statements one with a callable is the same as one without."""
    plain = BindParameter(None, 1, type_=Integer(), unique=True)

    with engine.connect() as connection:
        assert connection.scalar(select(plain)) == 1
        assert connection.scalar(select(sqla.key_parameter(2, Integer()))) == 2
        engine.clear_compiled_cache()
        assert connection.scalar(select(sqla.key_parameter(2, Integer()))) == 2
        assert connection.scalar(select(plain)) == 1


def test_constraints_of_types_are_known() -> None:
    """Those that an `Enum` or a `Boolean` makes; not one that somebody wrote."""
    made: Column[Any] = Column("made", Enum("a", native_enum=False, create_constraint=True))
    either: Column[Any] = Column("either", Boolean(create_constraint=True))
    table = Table("t", MetaData(), made, either, CheckConstraint("either", name="own"))

    checks = [each for each in table.constraints if isinstance(each, CheckConstraint)]
    assert sorted(map(sqla.is_type_bound, checks)) == [False, True, True]
    assert [each.name for each in checks if not sqla.is_type_bound(each)] == ["own"]


def test_a_relationship_knows_what_changes_along() -> None:
    """The one of the other class, in both directions; there may be none."""
    of_recipe, of_plan = inspect(Recipe).relationships, inspect(MealPlan).relationships
    every = (of_recipe["plans"], of_plan["recipe"], of_recipe["parent"])

    assert [sqla.reverse_of(each) for each in every] == [["recipe"], ["plans"], []]


def test_a_weak_shape_is_equal_to_the_shape_until_its_classes_are_gone() -> None:
    """And to no other: the same statement on another class is another."""

    def declared() -> type[Any]:
        class Own(DeclarativeBase):
            pass

        class Thing(Own):
            __tablename__ = "things"

            id: Mapped[int] = mapped_column(primary_key=True)

        return Thing

    def shape(thing: Any) -> Any:
        some = select(thing).where(thing.id.in_([1]), exists(select(aliased(thing).id)))
        return sqla.shape_of(some)[0]

    first, second = declared(), declared()
    kept = {sqla.weakly(shape(first)): "first", sqla.weakly(shape(second)): "second"}
    assert [kept.get(shape(each)) for each in (first, second, declared())] == (
        ["first", "second", None]
    )

    there = weakref.ref(first)
    del first
    gc.collect()
    assert there() is None
    assert (len(kept), kept.get(shape(second)), kept.get(shape(declared()))) == (2, "second", None)
    assert None not in kept


def test_what_is_kept_with_a_class_goes_with_it_or_with_who_keeps_it() -> None:
    """It may lead to the class, and one keeper's is not another's."""

    class Keeper:
        pass

    class Own(DeclarativeBase):
        pass

    class Thing(Own):
        __tablename__ = "things"

        id: Mapped[int] = mapped_column(primary_key=True)

    one, other = Keeper(), Keeper()
    sqla.kept_with(Thing, one)["value"] = Thing
    value = sqla.kept_with(Thing, other)["value"] = Keeper()
    there = [weakref.ref(each) for each in (value, Thing)]
    assert sqla.kept_with(Thing, one) == {"value": Thing}

    del other, value
    assert there[0]() is None
    del Thing
    gc.collect()
    assert there[1]() is None


@pytest.mark.tables
@pytest.mark.filterwarnings("ignore:The Query.get")
def test_what_the_orm_looks_up_for_itself_is_told(engine: Engine) -> None:
    """The row of an identity, and the rows that a write is about to change; nothing else."""
    by_itself: list[bool] = []
    # of no keys of its own, but by the parameter's name and the class the same
    alike = select(Recipe).where(Recipe.id == bindparam("pk_1", type_=Uuid()))
    renamed = update(Recipe).values(name="B").execution_options(synchronize_session="fetch")
    with Session(engine) as session:

        @event.listens_for(session, "do_orm_execute")
        def note(execution: ORMExecuteState) -> None:
            by_itself.append(sqla.loads_by_itself(execution))

        key = uuid.uuid4()
        session.get(Recipe, key)
        session.query(Recipe).get(key)
        session.scalars(alike, {"pk_1": key})
        assert by_itself == [True, True, False]
        by_itself.clear()
        session.execute(renamed)
        session.execute(renamed.where(Recipe.id == key))
        session.scalars(select(Recipe.id))
        assert by_itself == [False, True, False, True, False]


@pytest.mark.tables
def test_what_a_listener_invokes_gets_no_argument_more(engine: Engine) -> None:
    """A `get_bind` as in SQLAlchemy's documentation takes no others than it has without."""

    class Routing(Session):
        def get_bind(self, mapper: Any = None, clause: Any = None) -> Engine:  # type: ignore[override]
            assert (mapper, clause) != (None, None)
            return engine

    seen: list[Any] = []

    def invoke(execution: ORMExecuteState) -> Any:
        return sqla.invoked(execution)

    with Routing() as session:
        event.listen(session, "do_orm_execute", invoke)
        event.listen(session, "do_orm_execute", lambda each: seen.append(each.bind_arguments))
        assert session.scalars(select(Recipe.name)).all() == []
        assert [sorted(each) for each in seen] == [["clause", "mapper"]]


def test_what_is_kept_with_a_connection_goes_when_it_is_made_anew(engine: Engine) -> None:
    """It is not in `info`, and stays while the pool has the connection."""
    with engine.connect() as connection:
        kept = sqla.kept_with_connection(connection)
        kept["x"] = 1
        assert connection.info == {}
    with engine.connect() as connection:
        assert sqla.kept_with_connection(connection) is kept
        connection.invalidate()
        connection.rollback()
        assert sqla.kept_with_connection(connection) == {}
        connection.detach()
        detached = sqla.kept_with_connection(connection)
        assert sqla.kept_with_connection(connection) is detached
        assert detached == {}
