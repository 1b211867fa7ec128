"""What a model is told of its statements: columns, rows, labels, caps, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession, SetupError
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Limits, Toolset
from alfred_refs.tools.call import transaction
from tests.row_status import hiding
from tests.tools.conftest import by
from tests.tools.sql.models import Category
from tests.tools.sql.world import ANN, MODELS, World

ACTIONS = ("read", "linked")


@pytest.fixture
def session(world: World) -> Iterator[RefSession]:
    """A session on behalf of ann."""
    with world.session() as session:
        yield session


def _ask(toolset: Toolset, session: RefSession, sql: str, **more: Any) -> Any:
    return toolset.call(session, "db_query", {"sql": sql, **more})


def test_rows_are_lists_under_columns(world: World) -> None:
    """In which each value is JSON as in db_read, also in an aggregate."""
    told = world.ask(
        "select id, made_on, seen_at, price, weight, active, status, tags, lasts "
        "from products where id = 'product_1'"
    )

    with world.session() as session:
        read = world.toolset.call(
            session, "db_read", {"table": "products", "filters": by("id", "product_1")}
        )
    assert told["columns"] == [
        *("id", "made_on", "seen_at", "price", "weight", "active", "status", "tags", "lasts")
    ]
    assert told["rows"] == [[read["rows"][0][name] for name in told["columns"]]]
    statuses = world.ask("select array_agg(distinct status order by status) from products")
    assert statuses["rows"] == [[["draft", "sold", "gone"]]]
    assert {name: told[name] for name in ("count", "more")} == {"count": 1, "more": False}


def test_more_says_that_rows_were_left_out(world: World, session: RefSession) -> None:
    """By the toolset's limit or the call's, and not by one that the statement has."""
    toolset = world.tools(limits=Limits(rows=3))
    every = _ask(toolset, session, "select name from products")
    fewer = _ask(toolset, session, "select name from products", limit=2)
    own = _ask(toolset, session, "select name from products limit 2")
    beyond = _ask(toolset, session, "select name from products limit 5")
    none = _ask(toolset, session, "select name from products", limit=0)
    many = _ask(toolset, session, "select name from products", limit=100)

    found = [(each["count"], each["more"]) for each in (every, fewer, own, beyond, none, many)]
    assert found == [(3, True), (2, True), (2, False), (3, True), (0, True), (3, True)]
    assert all(len(each["rows"]) == each["count"] for each in (every, beyond, many))


def test_long_texts_and_answers_are_cut(world: World, session: RefSession) -> None:
    """What is cut is told; one row at least is shown."""
    toolset = world.tools(limits=Limits(characters=10, text=4))
    told = _ask(toolset, session, "select 'abcdefgh' as a, name from products")

    assert (told["count"], told["more"]) == (1, True)
    assert told["rows"][0][0] == "abcd…<cut: 4 more characters>"
    assert "row 1, a: 4 more characters" in told["cut"]


def test_labels_are_told_of_refs_that_have_none_beside_them(
    world: World, session: RefSession
) -> None:
    """Once for each ref, in a legend; where a label was selected too, there is none to tell."""
    toolset = world.tools()
    alone = _ask(toolset, session, "select array_agg(id) from categories where name = 'Kind 1'")
    beside = _ask(toolset, session, "select id, name from categories")
    without = _ask(world.tools(labels="none"), session, "select id from categories")

    [[[ref]]] = alone["rows"]
    assert alone["labels"] == {ref: "Kind 1"}
    assert "labels" not in beside
    assert "labels" not in without


def test_a_statement_that_the_database_refuses_says_why(world: World) -> None:
    """In its words for mistakes of class 42, with the model's own names; else in ours."""
    grouped = world.ask("select p.name, max(stock) from products p")["error"]
    divided = world.ask("select 1 / (stock - stock) from products")["error"]
    converted = world.ask("select name::int from products")["error"]

    assert grouped["code"] == divided["code"] == converted["code"] == "invalid_sql"
    assert 'column "p.name" must appear in the GROUP BY' in grouped["message"]
    assert "division by zero; divide by nullif(x, 0)" in divided["message"]
    assert "a text cannot be converted to its type" in converted["message"]


def test_a_fault_of_the_database_is_not_the_statement_s(world: World) -> None:
    """A policy that reads its own table: PostgreSQL's message has the table's name in it."""
    toolset = world.tools()
    recursive = "exists (select from products of_policy where of_policy.id = products.id)"
    with hiding(world.engine, "products", recursive) as hidden, world.session() as session:
        session.bind = hidden
        with pytest.raises(DBAPIError, match="infinite recursion"):
            _ask(toolset, session, "select name from products")


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select name ~* 'a' from products", "name ~* ... is not known"),
        ("select current_user", "CURRENT_USER is not known"),
        ("select ~stock from products", "~stock is not known"),
        ("select (name, stock + 12) from products", "(name, stock + ...) is not known"),
        ("select interval '1' day", "a unit behind the text of an INTERVAL is not known"),
        ("select * from lateral (select 1) x", "LATERAL (SELECT ...) AS x in FROM is not known"),
        ("select name from products fetch first 2 rows with ties", "WITH TIES is not known"),
        ("select name from products group by all", "ALL is not known"),
        ("select name::point from products", "there is no type POINT to use"),
        ("select 1 = 1 = 1", "what belongs together around ... = ..."),
        ("select stock from products where (stock = 'a", "a quote or a comment is not closed"),
        ("select case stock when 1 then end", "it cannot be read as SQL at 'end'"),
        ("select grouping(name) from products", "no function 'grouping' here; use one of 'lower'"),
        ("select lenght(name) from products", "no function 'lenght' here; use one of 'length';"),
        ("select div(1)", "div() is called with 1 arguments; write div(number, number)"),
        ("select concat('a')", "write concat(text, text, ...)"),
        ("select lag()", "write lag(value, [int], [value])"),
        ("select date('2026-05-01')", "'date' is a type and no function; convert with CAST"),
        ("select first_value(1)", "window function first_value requires an OVER clause"),
    ],
)
def test_errors_speak_of_the_text(world: World, sql: str, told: str) -> None:
    """Of what the model wrote, without its literals, and never of the parser's classes."""
    assert told in world.ask(sql)["error"]["message"] + ";"


def test_endless_statements_are_stopped(world: World, session: RefSession) -> None:
    """A recursion without end, and a product of all rows with all."""
    toolset = world.tools(limits=Limits(seconds=0.2))
    endless = (
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    )
    product = (
        "select count(*) from products, products b, products c, products d, products e, lines"
    )

    told = [_ask(toolset, session, sql)["error"]["code"] for sql in (endless, product)]

    assert told == ["too_slow", "too_slow"]
    assert not session.in_transaction()


def test_it_reads_only_and_leaves_the_session_as_it_was(world: World, session: RefSession) -> None:
    """Also in a transaction of the application's, which may write again after the call."""
    during: list[Any] = []

    def look(connection: Any, *_: Any) -> None:
        cursor = connection.connection.cursor()
        cursor.execute("select current_setting('transaction_read_only')")
        during.append((cursor.fetchone()[0], _setting(cursor)))

    def look_at(connection: Any, _: Any, statement: str, *__: Any) -> None:
        if "_t1" in statement:
            look(connection)

    event.listen(world.engine, "before_cursor_execute", look_at)
    with session.begin():
        with session.unconfined():
            connection = session.connection()
        look(connection)
        _ask(world.toolset, session, "select name from products limit 1")
        _ask(world.toolset, session, "select 1 / 0")
        look(connection)
    _ask(world.toolset, session, "select name from products limit 1")
    event.remove(world.engine, "before_cursor_execute", look_at)

    assert during == [("off", "0"), ("on", "10s"), ("off", "0"), ("on", "10s")]


def _setting(cursor: Any) -> Any:
    cursor.execute("select current_setting('statement_timeout')")
    return cursor.fetchone()[0]


def test_a_write_that_came_through_would_be_refused(session: RefSession) -> None:
    """By PostgreSQL itself: the transaction of a call reads only."""
    with (
        pytest.raises(DBAPIError, match="read-only transaction"),
        transaction(session, None, only_reads=True),
        session.unconfined(),
    ):
        session.execute(text("delete from lines"))


def test_one_statement_is_sent(world: World) -> None:
    """Beside those of the transaction, where all refs are known."""
    world.ask("select id from products")
    with world.sent() as sent:
        world.ask("select id from products")

    assert [each.split()[0] for each in sent] == ["SELECT", "SELECT"]


def test_the_tool_is_there_on_request_alone(world: World, session: RefSession) -> None:
    """With a schema, as one that reads."""
    without = world.tools(sql=False)
    named = {each["name"]: each for each in world.toolset.schemas("mcp")}

    assert _ask(without, session, "select 1")["error"]["code"] == "unknown_tool"
    assert named["db_query"]["annotations"]["readOnlyHint"] is True
    assert [*named["db_query"]["inputSchema"]["properties"]] == ["sql", "limit"]
    assert world.toolset.reads("db_query")
    wrong = world.toolset.call(session, "db_query", {"query": "select 1"})
    assert wrong["error"]["code"] == "invalid_arguments"


def test_functions_of_the_application_may_be_called(world: World, session: RefSession) -> None:
    """Those that it names, with data alone; others are unknown as before."""
    own = {"md5": "text -> text", "to_hex": "int -> text"}
    toolset = world.tools(sql=own)

    told = _ask(toolset, session, "select to_hex(255), length(md5('a'))")
    assert told["rows"] == [["ff", 32]]
    assert "'md5'" in _ask(world.toolset, session, "select md5('a')")["error"]["message"]
    for wrong in (
        "select md5(id) from products",
        "select md5('a', 'b')",
        "select md6('a')",
        "select md5('a') within group (order by name) from products",
        "select md5('a') over () from products",
    ):
        assert _ask(toolset, session, wrong)["error"]["code"] == "invalid_sql"


@pytest.mark.parametrize(
    "own",
    [
        {"lower": "text -> text"},
        {"pg_sleep()": "int -> text"},
        {"public.f": "int -> int"},
        {"f": "int"},
        {"f": "int -> uuid"},
        {"f": "row -> text"},
    ],
)
def test_functions_that_are_none_are_refused(own: dict[str, str]) -> None:
    """When the toolset is made, with what to say."""
    with pytest.raises(SetupError, match=r"functions? .*of SQL"):
        Toolset(MODELS, sql=own)


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("goes_with @> array['{}']", "'{}' = any(goes_with)"),
        ("array['{}', 'product_1'] <@ goes_with || goes_with", None),
        ("goes_with && array['{}', null]", "'{}' = any(goes_with)"),
        ("id = any(array['{}', 'product_2'])", "id in ('{}', 'product_2')"),
        ("id <> all(array['{}', 'product_2'])", "id not in ('{}', 'product_2')"),
    ],
)
def test_a_list_of_texts_beside_refs_is_of_refs(
    world: World, condition: str, same: str | None
) -> None:
    """As the message says that is told of a list which is one text."""
    ref = world.ask("select unnest(goes_with) from products order by 1 limit 1")["rows"][0][0]
    asked = "select count(*), min(name) from products where "
    told = world.ask(asked + condition.format(ref))

    if same is None:
        assert told["error"]["code"] == "invalid_sql"
    else:
        assert told["rows"] == world.ask(asked + same.format(ref))["rows"]
    wrong = world.ask(asked + condition.format("order_1"))["error"]["code"]
    assert wrong in ("wrong_entity", "invalid_sql")


def test_it_works_with_other_drivers(world: World) -> None:
    """psycopg2 sends parameters as literals."""
    engine = create_engine(world.engine.url.set(drivername="postgresql+psycopg2"))
    sessions = sessionmaker(engine, class_=RefSession, registry=RefRegistry(world.engine))
    sql = "select name, price from products where made_on > '2026-02-01' and name like 'T%'"
    with sessions(conversation="chat-1", owner=world.ownership.of(ANN)) as session:
        told = _ask(world.toolset, session, sql)
    engine.dispose()

    assert told == world.ask(sql)


async def test_it_works_with_asynchronous_sessions(world: World) -> None:
    """The driver asyncpg takes values of the parameters' own types alone."""
    engine = create_async_engine(world.engine.url.set(drivername="postgresql+asyncpg"))
    sessions = async_sessionmaker(engine, class_=AsyncRefSession, registry=world.registry)
    sql = (
        "select id, price * 1.5, made_on + 7 from products where made_on > '2026-02-01' "
        "and stock > 1 and lasts > interval '1 day' and id <> 'product_3' and 'eco' = any(tags)"
    )
    owner = world.ownership.of(ANN)
    refused = "select p.name, max(stock) from products p"
    async with sessions(conversation="chat-1", owner=owner) as session:
        told = await world.toolset.call_async(session, "db_query", {"sql": sql})
        error = await world.toolset.call_async(session, "db_query", {"sql": refused})
    await engine.dispose()

    assert told["rows"]
    assert told == world.ask(sql)
    assert 'column "p.name" must appear' in error["error"]["message"]
    assert error == world.ask(refused)


def test_rows_that_are_shown_are_kept_for_prompts(world: World) -> None:
    """By their own refs as read, by others' columns as linked, and nothing that only looks so."""
    toolset = world.tools(limits=Limits(rows=2))
    chat = f"prompts-{ANN}"
    with world.sessions(conversation=chat, owner=world.ownership.of(ANN), by="model") as session:
        told = _ask(
            toolset,
            session,
            "select p.name, p.id, p.category_id, array[p.id, null] as pair, 'product_3' as text "
            "from (select * from products) p where p.category_id is not null order by p.name",
        )
        orders = _ask(toolset, session, "select array_agg(id) from orders")
        assert session.conversation is not None
        entries = session.conversation.activity().entries

    kept = {action: {str(e.ref) for e in entries if e.action == action} for action in ACTIONS}
    assert told["more"]
    assert kept["read"] == {row[1] for row in told["rows"]} == {"product_1", "product_2"}
    assert kept["linked"] == {*(row[2] for row in told["rows"]), *orders["rows"][0][0]}
    assert [entry.fields for entry in entries] == [[]] * len(entries)


def test_rows_that_went_say_so(world: World) -> None:
    """A ref that names no row any more is gone, as everywhere."""
    with Session(world.engine) as plain:
        plain.add(Category(id=900, name="short-lived"))
        plain.commit()
    with world.session() as session:
        chat = session.conversation
        assert chat is not None
        [ref] = chat.refer_all("category", [900])
    with Session(world.engine) as plain:
        plain.delete(plain.get_one(Category, 900))
        plain.commit()

    told = world.ask(f"select name from categories where id = '{ref}'")

    assert told["error"]["code"] == "gone_ref"


def test_a_database_of_another_kind_is_a_mistake_of_set_up() -> None:
    """SQL of PostgreSQL's is sent to PostgreSQL."""
    toolset = Toolset([Category], sql=True)
    registry = RefRegistry(store=MemoryStore())
    engine = create_engine("sqlite://")
    with (
        RefSession(engine, conversation=registry.conversation("chat-7")) as session,
        pytest.raises(SetupError, match="another database"),
    ):
        _ask(toolset, session, "select 1")
    engine.dispose()
