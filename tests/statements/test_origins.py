"""Values that a statement does not tell of: the server says which column they are read from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    cast,
    column,
    create_engine,
    event,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Bundle

from alfred_refs import (
    AsyncRefSession,
    RefPolicy,
    RefRegistry,
    RefSession,
    UntranslatableError,
    sqla,
)
from alfred_refs.mapping.entities import Entities
from tests.fix_session import TravelLog
from tests.models import Base, Order, OrderLine, Preference, Recipe

REFS = [f"recipe_{n}" for n in range(1, 6)]


@pytest.fixture(autouse=True)
def only_our_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests' tables are none of this application's."""
    monkeypatch.setattr(sqla, "tables", lambda: iter(Base.metadata.tables.values()))


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine_of(request: pytest.FixtureRequest, tables: Engine) -> Iterator[Engine]:
    """An engine on the test's database with a driver that tells where values come from."""
    engine = create_engine(tables.url.set(drivername=f"postgresql+{request.param}"))
    yield engine
    engine.dispose()


@pytest.fixture
def talking(
    engine_of: Engine, registry: RefRegistry, recipes: list[Recipe]
) -> Iterator[RefSession]:
    """A session on that engine; the recipes have refs, and there is a row of other tables."""
    with RefSession(engine_of, conversation=registry.conversation("chat-7")) as session:
        with session.raw_keys():
            session.add_all(
                [
                    Preference(favourites=[recipe.id for recipe in recipes][:2]),
                    Order(id=41, number=1),
                ]
            )
            session.flush()
            session.add(OrderLine(order_id=41, position=3, note="x"))
            session.commit()
        assert session.scalars(select(Recipe.id).order_by(Recipe.name)).all() == REFS
        yield session


DESCRIBED: list[tuple[Callable[[], Any], Any]] = [
    (lambda: text("select id, name from recipes order by name"), ("recipe_1", "A")),
    (lambda: text("select name, r.id as x from recipes r where name = 'B'"), ("B", "recipe_2")),
    (lambda: text("with c as (table recipes) select id from c order by name"), "recipe_1"),
    (lambda: text("select i from (select id i, name from recipes) s order by name"), "recipe_1"),
    (lambda: text("select * from order_lines"), ("order_1", 3, "x")),
    (lambda: text("select number from orders"), 1),
    (lambda: text("select orders.id, favourites from orders, preferences"), ("order_1", REFS[:2])),
    (lambda: text("select id from recipes order by name").columns(column("id", Uuid)), "recipe_1"),
    (
        lambda: text("insert into recipes (name) values ('z') returning name, id"),
        ("z", "recipe_6"),
    ),
    (lambda: insert(Recipe).values(name="z").returning(text("id")), "recipe_7"),
    (lambda: select(literal_column("id")).select_from(Order.__table__), "order_1"),
    (lambda: select(literal_column("id, number")).select_from(Order.__table__), ("order_1", 1)),
    (lambda: select(text("orders.id"), Order.number).select_from(Order), ("order_1", 1)),
    (lambda: select(text("*")).select_from(Order.__table__), ("order_1", 1)),
    (lambda: text("select parent_recipe_id from recipes"), None),
    (lambda: text("select count(*) > 1 from recipes"), True),
    (lambda: text("select 1.5"), Decimal("1.5")),
    (lambda: text("select 12.00"), Decimal("12.00")),
    (lambda: text("select date '2026-05-01'"), date(2026, 5, 1)),
]


def test_the_server_describes_the_column_of_a_value(
    talking: RefSession, subtests: pytest.Subtests
) -> None:
    """Through aliases, joins, CTEs and subqueries, in reads and in RETURNING."""
    for statement, expected in ((statement(), expected) for statement, expected in DESCRIBED):
        with subtests.test(statement=str(statement)):
            row = talking.execute(statement).first()
            assert row is not None
            assert tuple(row) == (expected if isinstance(expected, tuple) else (expected,))


REFUSED: list[Callable[[], Any]] = [
    lambda: text("select 1"),
    lambda: text("select max(id) from orders"),
    lambda: text("select id::text from orders"),
    lambda: text("select id + 1 from orders"),
    lambda: text("select json_build_object('id', id) from orders"),
    lambda: text("select gen_random_uuid()"),
    lambda: text("select 'see ' || gen_random_uuid()"),
    lambda: text("select uuid_send(gen_random_uuid())"),
    lambda: text("select convert_to(gen_random_uuid()::text, 'utf8')"),
    lambda: text("select 'see ' || replace(gen_random_uuid()::text, '-', '')"),
    lambda: text("insert into recipes (name) values ('z') returning id || '!'"),
    lambda: text("select r from recipes r"),
    lambda: text("select int4range(id, id + 1) from orders"),
    lambda: text("select id::numeric from orders"),
    lambda: text("select id from seen"),
    lambda: select(Recipe, literal_column("orders.id")).join_from(Recipe, Order, text("true")),
    lambda: select(Bundle("b", literal_column("orders.id")), Order.number),
    lambda: select(_each(literal_column("(select json_build_object('id', id) from orders)"))),
    lambda: select(_each(literal_column("(select json_build_object('id', id) from orders)")).c[1]),
]


def _each(document: Any) -> Any:
    """Take a document apart: what the second column shows, nothing but the document tells."""
    return func.json_each_text(document).table_valued("key", "value")


def test_a_value_of_unknown_origin_is_refused_if_it_may_be_a_key(
    talking: RefSession, subtests: pytest.Subtests
) -> None:
    """A computed value has no column, and a view that is not mapped no keys."""
    talking.execute(text("create view seen as select id from recipes where false or name = 'A'"))
    talking.execute(text("insert into recipes (id, name) values (gen_random_uuid(), 'A')"))

    for statement in (statement() for statement in REFUSED):
        refused = pytest.raises(UntranslatableError, match=r"columns\(\.\.\.\).*raw_keys")
        with subtests.test(statement=str(statement)), refused:
            talking.execute(statement).all()


def test_a_known_key_of_unknown_origin_is_shown_by_its_ref(talking: RefSession) -> None:
    """One that the conversation has shown already, whatever its spelling; no other."""
    talking.execute(text("create view seen as select id from recipes"))
    talking.execute(text("delete from recipes where name > 'A'"))

    for expression in ("max(id::text)::uuid", "max(id::text)"):
        assert talking.scalar(text(f"select {expression} from recipes")) == "recipe_1"
    record = "select json_build_object(max(id::text), array_agg(id)) from recipes"
    assert talking.scalar(text(record)) == {"recipe_1": ["recipe_1"]}
    assert talking.scalar(text("select id from seen")) == "recipe_1"


def test_a_key_of_two_entities_is_not_guessed(talking: RefSession, recipes: list[Recipe]) -> None:
    """A UUID that two rows have in common may be either's."""
    assert talking.conversation is not None
    talking.conversation.refer("other", recipes[0].id)

    with pytest.raises(UntranslatableError):
        talking.execute(text("select id::text from recipes")).all()


def test_a_table_is_looked_up_once_for_a_connection(
    talking: RefSession, engine_of: Engine, store: TravelLog
) -> None:
    """One question for all new tables of a statement, none for those met before."""
    sent: list[str] = []
    event.listen(engine_of, "before_cursor_execute", lambda *args: sent.append(args[2]))
    store.trips.clear()
    for names in (["recipes"], ["recipes"], ["recipes", "orders", "preferences"], ["orders"]):
        columns = ", ".join(f"{name}.id" for name in names)
        talking.execute(text(f"select {columns} from {', '.join(names)}")).all()
    talking.rollback()
    talking.execute(text("select id from recipes")).all()

    looked_up = [number for number, statement in enumerate(sent) if "pg_catalog" in statement]
    assert (looked_up, len(sent)) == ([1, 4], 7)
    assert store.trips == ["refer"]


def test_a_table_made_again_is_another(talking: RefSession) -> None:
    """It has a number of its own, so nothing that was known of the old one is taken for it."""
    talking.execute(text("create table recipe_notes_2 (recipe_id uuid)"))
    for _ in range(2):
        talking.execute(text("drop table recipe_notes cascade"))
        talking.execute(text("create table recipe_notes (note text, recipe_id uuid)"))
        talking.execute(text("insert into recipe_notes select 'n', id from recipes limit 1"))
        assert talking.execute(text("select * from recipe_notes")).one() == ("n", "recipe_1")


def test_a_table_of_another_schema_is_not_taken_for_ours(talking: RefSession) -> None:
    """Only the table that its name alone finds is the one that is mapped without a schema."""
    talking.execute(text("create schema archive"))
    talking.execute(text("create table archive.orders (id integer)"))
    talking.execute(text("insert into archive.orders values (41)"))

    with pytest.raises(UntranslatableError):
        talking.execute(text("select id from archive.orders")).all()


def test_of_two_tables_of_one_name_the_one_in_use_is_meant(
    talking: RefSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another base of the process may have a table of that name, which nobody has asked about."""
    both = Table("recipes", MetaData(), Column("id", Uuid)), Recipe.__table__
    new = text("insert into recipes (name) values ('z') returning id")
    monkeypatch.setattr(sqla, "tables", lambda: iter(both))
    assert talking.scalar(new) == "recipe_6"

    monkeypatch.setattr(sqla, "tables", lambda: iter([both[0], both[0]]))
    with pytest.raises(UntranslatableError):
        talking.scalar(new)


def test_streams_and_partitions_are_told_too(talking: RefSession) -> None:
    """A server-side cursor describes its columns before the first row."""
    statement = text("select id from recipes order by name")
    result = talking.execute(statement, execution_options={"yield_per": 2})

    assert [[row.id for row in part] for part in result.partitions(2)] == [
        REFS[:2],
        REFS[2:4],
        REFS[4:],
    ]


def test_an_integer_is_data_where_no_table_has_integer_keys(
    tables: Engine, store: TravelLog
) -> None:
    """Counting in SQL works as ever in an application with UUID keys only."""
    registry = RefRegistry(store=store, policy=RefPolicy(key_types=("uuid",)))
    with RefSession(tables, conversation=registry.conversation("chat-8")) as session:
        assert session.scalar(text("select 1")) == 1
        assert session.scalar(text("select '12'")) == "12"
        with pytest.raises(UntranslatableError):
            session.scalar(text("select gen_random_uuid()"))


def test_the_types_of_key_are_read_from_the_tables() -> None:
    """Primary keys, foreign keys and declared columns count, excluded and raw ones do not."""
    every = Entities(RefPolicy(key_types=("uuid", "integer", "string")))
    default = Entities(RefPolicy())
    without = Entities(RefPolicy(exclude=(Order,)))
    orders, recipes = Order.__table__, Recipe.__table__

    def of(entities: Entities, *tables: Any) -> set[str]:
        return set(entities.key_types_in(tables))

    assert of(every, orders, recipes) == {"integer", "uuid"}
    assert of(default, Preference.__table__) == {"uuid"}
    assert of(without, orders) == set()
    assert of(default, Table("words", MetaData(), *_word_columns())) == set()
    assert of(every, Table("words", MetaData(), *_word_columns())) == {"string"}


def _word_columns() -> list[Any]:
    return [
        Column("word", Text, primary_key=True),
        Column("n", Integer),
        Column("raw", Integer, primary_key=True, info={"ref": None}),
    ]


@pytest.mark.usefixtures("recipes")
async def test_json_that_a_driver_leaves_as_text_stays_text(aio: AsyncRefSession) -> None:
    """With asyncpg, unless the statement says what it is: refs are put in all the same."""
    named = func.json_build_object("id", Recipe.id, "name", Recipe.name)
    plain = await aio.scalar(select(named).where(Recipe.name == "A"))
    parsed = await aio.scalar(select(cast(named, JSON)).where(Recipe.name == "A"))

    assert parsed == {"id": "recipe_1", "name": "A"}
    assert (json.loads(plain) if isinstance(plain, str) else plain) == parsed


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.usefixtures("recipes")
async def test_an_async_session_is_told_by_psycopg_and_not_by_asyncpg(
    tables: Engine, registry: RefRegistry, driver: str
) -> None:
    """Without the server's word a key is shown only if it is known."""
    engine = create_async_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    conversation = registry.conversation("chat-7")
    async with AsyncRefSession(engine, conversation=conversation) as session:
        await session.execute(select(Recipe.name))  # there may be other tables of that name
        statement = text("select id, name from recipes order by name")
        if driver == "psycopg":
            assert (await session.execute(statement)).first() == ("recipe_1", "A")
        else:
            with pytest.raises(UntranslatableError):
                (await session.execute(statement)).all()
            assert await session.scalar(select(Recipe.id).where(Recipe.name == "A")) == "recipe_1"
            one = text("select id, name from recipes where name = 'A'")
            assert (await session.execute(one)).one() == ("recipe_1", "A")
    await engine.dispose()


def test_a_temporary_table_is_none_of_the_metadatas(talking: RefSession) -> None:
    """It may hide one of them, and have keys where that has data."""
    hiding = "create temp table recipes on commit drop as select id as name from public.recipes"
    talking.execute(text(hiding))
    names = talking.scalars(text("select name from recipes")).all()

    assert sorted(names) == REFS
