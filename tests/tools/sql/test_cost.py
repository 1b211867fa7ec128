"""What a statement costs is counted while it is built, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from alfred_refs import sqla
from alfred_refs.tools import Limits
from alfred_refs.tools.errors import ToolError
from alfred_refs.tools.sql.parsing import MAX_COST, CostBudget, parse_shape, query_shape
from alfred_refs.tools.sql.scopes import with_own
from alfred_refs.tools.sql.tool import PreparedQueries
from tests.tools.sql.world import World


def _doubled_stars(levels: int) -> str:
    sql = "select name from products"
    for n in range(levels):
        sql = f"select *, * from ({sql}) a{n}"
    return sql


def _doubled_parts(levels: int) -> str:
    parts = ["t0 as (select name as x from products)"]
    parts += [
        f"t{n} as (select a.x from t{n - 1} a join t{n - 1} b on a.x = b.x)"
        for n in range(1, levels)
    ]
    return f"with {', '.join(parts)} select count(*) from t{levels - 1}"


def _doubled_values(levels: int) -> str:
    sql = "select name as x from products"
    for n in range(levels):
        sql = f"select x || x as x from ({sql}) a{n}"
    return sql


@pytest.mark.parametrize(
    "sql",
    [
        _doubled_stars(12),
        _doubled_parts(10),
        _doubled_values(12),
        f"select stock + 1 + 2 + 3 from products group by {', '.join(['1'] * 400)}",
        f"select stock + 1 + 2 + 3 from products order by {', '.join(['1'] * 400)}",
        f"select {', '.join(['(select count(*) from lines)'] * 60)}",
    ],
)
def test_constructs_that_double_are_counted_as_often_as_they_are_sent(
    world: World, sql: str
) -> None:
    """Columns of `*`, parts of WITH, expressions behind a column, and positions."""
    error = world.ask(sql)["error"]

    assert error["code"] == "invalid_sql"
    assert f"costs more than {MAX_COST:,} units" in error["message"]


@pytest.mark.parametrize("double", [_doubled_stars, _doubled_parts, _doubled_values])
def test_few_levels_are_answered(world: World, double: Callable[[int], str]) -> None:
    """A limit for all statements is not one for those that people write."""
    assert "rows" in world.ask(double(4))


def test_values_that_are_computed_once_are_counted_once(world: World) -> None:
    """PostgreSQL does not merge a subquery with GROUP BY into the SELECT around it."""
    sql = "select name || name as x from products"
    for n in range(8):
        sql = f"select x || x as x from ({sql} group by 1) a{n}"

    assert "units" not in str(world.ask(sql).get("error"))


def test_a_part_of_with_is_walked_once_however_often_it_is_used(world: World) -> None:
    """The elements grow with the text, not by a factor for each part."""
    plans = PreparedQueries(world.toolset.tables)

    few, more = (
        len(list(sqla.elements_of(plans.of(_doubled_parts(n), fenced=True)[0].statement)))
        for n in (2, 4)
    )

    assert more < 2.5 * few


def test_subscripts_are_limited_before_the_parser_sees_them() -> None:
    """It infers the type of what is before each of them anew."""
    query_shape(f"select tags{'[1]' * 7} from products")
    with pytest.raises(ToolError, match="too many subscripts"):
        query_shape(f"select tags{'[1]' * 8} from products")


def test_python_stops_when_the_time_of_a_statement_is_over() -> None:
    """In the parser and in the builder."""
    shape = query_shape(f"select {'1 + ' * 200} 1")

    with pytest.raises(ToolError, match="took longer than 0 seconds"):
        parse_shape(shape, CostBudget(0))
    with pytest.raises(ToolError, match="took longer than 0 seconds"):
        CostBudget(0).spend(1)


def test_a_long_text_is_cut_by_postgresql(world: World) -> None:
    """No more of it is fetched than an answer shows, and its length is told."""
    sent: list[int] = []

    def note(*arguments: Any) -> None:
        rows = arguments[1].pgresult
        sent.extend(len(rows.get_value(0, 0) or b"") for _ in range(min(rows.ntuples, 1)))

    event.listen(world.engine, "after_cursor_execute", note)
    sql = f"select replace('{'a' * 100}', 'a', '{'z' * 90}')"
    told = world.ask(sql, tools=world.tools(limits=Limits(text=10)))
    event.remove(world.engine, "after_cursor_execute", note)

    assert told["rows"] == [["zzzzzzzzzz…<cut: 8990 more characters>"]]
    assert told["cut"] == ["row 1, replace: 8990 more characters"]
    assert max(sent) < 200


def test_a_long_list_is_cut_by_postgresql(world: World) -> None:
    """Lists of refs too."""
    told = world.ask(
        "select array_agg(id), array_agg(stock) from products",
        tools=world.tools(limits=Limits(related=2)),
    )

    assert [len(each) for each in told["rows"][0]] == [2, 2]
    assert told["cut"] == ["row 1, array_agg: more than 2 elements"] * 2


def test_a_document_with_a_long_text_is_cut_by_us(world: World) -> None:
    """Its members are texts as any other."""
    told = world.ask(
        f"select cast('[\"{'x' * 500}\"]' as jsonb)", tools=world.tools(limits=Limits(text=10))
    )

    assert told["rows"] == [[["xxxxxxxxxx…<cut: 490 more characters>"]]]


@pytest.mark.parametrize(
    "sql",
    [
        "select strpos({long}, 'a') from products",
        "select upper({long}) from products",
        "select count(*) from products where {long} like '%a%'",
        "select count(*) from products where name like {long}",
        "select cast({long} as jsonb) from products",
        "select cast({long} as numeric) from products",
        "select translate(name, {long}, 'b') from products",
        "select array_to_string(tags, {long}) from products",
        "select left(concat({long}, {long}), -1) from products",
        "select left(concat({long}, {long}), 2 + 1) from products",
        "select concat(concat({long}, {long}), 'a') from products",
        "select array_agg({long}) from products",
        "select string_agg({long}, ',') from products",
        (
            "with recursive t(x) as (select name || '' from products "
            "union all select x || x from t) select count(*) from t"
        ),
    ],
)
def test_long_texts_are_not_given_to_functions(world: World, sql: str) -> None:
    """PostgreSQL cannot be interrupted in a function, so its arguments are bounded."""
    long = f"replace(replace('{'q' * 99}', 'q', '{'z' * 99}'), 'z', '{'x' * 99}')"
    told = world.ask(sql.format(long=long))

    assert told["error"]["code"] == "invalid_sql"
    assert "a value is too long for a function" in told["error"]["message"]


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("select power(9.5, 1000000.5)", "out of range"),
        ("select 10.5 ^ 1000", "out of range"),
        ("select exp(5000.5)", "out of range"),
        (f"select strpos('a', '{'b' * 201}')", "at most 200"),
        (
            (
                "with recursive t(x) as (select 10.5 union all select x * x from t) "
                "select count(*) from t"
            ),
            "too long",
        ),
    ],
)
def test_large_powers_are_refused(world: World, sql: str, what: str) -> None:
    """Numbers of a hundred thousand digits take a second for each operation."""
    assert what in world.ask(sql)["error"]["message"]


def test_texts_that_are_not_long_are_given_to_functions(world: World) -> None:
    """Long ones with `left`, too."""
    told = world.ask(
        f"select length(replace('{'q' * 100}', 'q', '{'z' * 200}')), power(1.5, 2), "
        f"strpos(left(replace('{'q' * 100}', 'q', '{'z' * 200}'), 20000), 'z')"
    )

    assert told["rows"] == [[20_000, 2.25, 1]]


def test_expressions_are_not_nested_deeper_than_a_session_follows(world: World) -> None:
    """The flow of keys is found for each level: the time grows with their square."""
    few, many = (" || ".join(f"'a{n}'" for n in range(levels)) for levels in (50, 70))

    assert "rows" in world.ask(f"select {few}")
    assert "nested too deep" in world.ask(f"select {many}")["error"]["message"]


_LONG = f"replace(replace('{'q' * 99}', 'q', '{'z' * 99}'), 'z', '{'x' * 99}')"
_MANY = "(select array_agg(a.stock) from products a, products b, products c)"


@pytest.mark.parametrize(
    "sql",
    [
        f"select {_LONG} || 'a'",
        f"select {_MANY} || 1",
        f"select {_MANY} || {_MANY}",
        "select lower(left(x, 1000000)) from (select {_LONG} as x) t",
        "select lower(x) from (select lower('a') as x union all select {_LONG}) t",
        "select info @> cast({_LONG} as jsonb) from products",
        (
            "with recursive t(x) as (select array_agg(stock) from products "
            "union all select x || x from t) select count(*) from t"
        ),
    ],
)
def test_values_are_not_joined_or_searched_whatever_their_size(world: World, sql: str) -> None:
    """60 times `||` of a text of 10 MB took 44 seconds and 15 GB, and two lists never ended."""
    told = world.ask(sql.replace("{_LONG}", _LONG))

    assert "a value is too long for a function" in told["error"]["message"]


def test_the_pairs_of_items_that_two_lists_are_compared_by_are_bounded(world: World) -> None:
    """PostgreSQL compares each item with each, and cannot be interrupted."""
    told = world.ask(f"select count(*) from products where {_MANY} @> {_MANY}")

    assert "shorter lists" in told["error"]["message"]


@pytest.mark.parametrize(("listed", "told"), [(200, "error"), (20, "rows")])
def test_few_items_are_looked_for_in_a_list_of_any_length(
    world: World, listed: int, told: str
) -> None:
    """900 texts in a list of 200,000 took two seconds, in which PostgreSQL did not stop."""
    items = ", ".join(map(str, range(1000, 1000 + listed)))

    assert told in world.ask(f"select count(*) from products where {_MANY} @> array[{items}]")


def test_lists_that_are_not_long_are_joined_and_searched(world: World) -> None:
    """Refs too, and lists that a statement writes out have no limit."""
    told = world.ask(
        "select stock || array[1] = array[stock, 1], goes_with && goes_with, tags <@ tags, "
        f"{_MANY} @> array[1000] from products where cardinality(goes_with) > 0 limit 1"
    )

    assert told["rows"] == [[True, True, True, False]]


@pytest.mark.parametrize(
    "value",
    [
        "cast('1e20000' as numeric)",
        "cast('1e20000' as numeric) + 1",
        f"(select array_agg(left({_LONG}, 20000)) from products)",
        "(select array_agg(x) from (select array_agg(stock) as x from products) t, products)",
        f"(select info || info from (select cast('[{'1,' * 600}1]' as jsonb) info) t)",
    ],
)
def test_large_values_are_left_out_by_postgresql(world: World, value: str) -> None:
    """Only their length is fetched."""
    told = world.ask(f"select {value} as x", tools=world.tools(limits=Limits(characters=30)))

    assert told["rows"] == [[None]]
    assert told["cut"][0].startswith("row 1, x: ")
    assert told["cut"][0].endswith(
        " characters, which are not shown; ask for members of it, or for fewer rows and columns"
    )


def test_a_number_in_a_statement_has_few_digits(world: World) -> None:
    """One of six characters would have a hundred thousand."""
    assert world.ask("select 1e90")["rows"] == [[1e90]]
    assert "more than 100 digits" in world.ask("select 1e131071")["error"]["message"]


def test_numbers_of_any_size_cost_more_units(world: World) -> None:
    """PostgreSQL takes 20 ms to divide two of 100,000 digits; numbers of few digits are free."""
    few = ", ".join(["price * 1.5"] * 60)
    many = ", ".join(["cast(code as numeric) * cast(name as numeric)"] * 60)

    assert "rows" in world.ask(f"select {few} from products")
    assert "units" in world.ask(f"select {many} from products")["error"]["message"]


def test_lists_of_lists_of_refs_are_refused(world: World) -> None:
    """Of a list of refs the first are read; of a list of lists that could be any number."""
    assert "rows" in world.ask("select array_agg(id) from products")
    told = world.ask("select array_agg(goes_with) from products")

    assert "lists of lists of refs" in told["error"]["message"]


def test_the_size_of_a_list_is_computed_once_in_each_row(world: World) -> None:
    """A fence keeps PostgreSQL from computing it in each place that names it."""
    plans = PreparedQueries(world.toolset.tables)
    plan, _ = plans.of("select tags, info from products", fenced=True)
    statement = str(plan.statement.compile(world.engine))

    assert statement.lower().count(" as text)") == 2


def test_of_a_long_text_the_bytes_are_counted(world: World) -> None:
    """Their number is stored with the text, which is not read for it."""
    few, many = (
        f"replace(replace('{'q' * 99}', 'q', '{'z' * 99}'), 'z', '{'é' * n}')" for n in (5, 6)
    )
    told = world.ask(
        f"select {few} as few, {many} as many", tools=world.tools(limits=Limits(text=10))
    )

    assert told["cut"] == [
        f"row 1, few: {99 * 99 * 5 - 10} more characters",
        f"row 1, many: {99 * 99 * 6 * 2 - 10} more characters",
    ]


def test_values_of_any_size_are_read_a_few_times(world: World) -> None:
    """PostgreSQL decompresses a text of 10 MB in 10 ms, each time, and does not stop in a row."""
    few, many = (" and ".join(f"name > '{n}'" for n in range(times)) for times in (40, 80))

    assert "rows" in world.ask(f"select count(*) from products where {few}")
    told = world.ask(f"select count(*) from products where {many}")
    assert "units" in told["error"]["message"]
    cast = ", ".join(["cast(info as text), array_to_string(tags, '')"] * 8)
    assert "units" in world.ask(f"select {cast} from products")["error"]["message"]
    short = many.replace("name", "code")  # a varchar(20)
    assert "rows" in world.ask(f"select count(*) from products where {short}")


def test_documents_that_are_parsed_for_each_member_are_bounded(world: World) -> None:
    """`json` is a text; `jsonb` has an index of its members."""
    functions = with_own({"made": "text -> json", "madeb": "text -> jsonb"})
    plans = PreparedQueries(world.toolset.tables, functions)
    text, binary = (
        str(plans.of(f"select {each} ->> 'a' from products", fenced=True)[0].statement)
        for each in ("made(name)", "madeb(name)")
    )

    assert "longest_1000000" in text
    assert "longest_1000000" not in binary


def test_left_takes_a_million_characters(world: World) -> None:
    """It reads no more than it takes."""
    assert world.ask(f"select length(left({_LONG}, 1000000))")["rows"] == [[99 * 99 * 99]]
    assert "at most 1,000,000" in world.ask("select left('a', 1000001)")["error"]["message"]


def test_an_aggregate_is_ordered_by_what_it_makes_distinct(world: World) -> None:
    """PostgreSQL wants the same expression, in which the size of texts is bounded."""
    told = world.ask(
        "select array_agg(distinct name order by name), string_agg(distinct name, ',' order by "
        "name desc), array_agg(distinct category_id order by category_id) from products"
    )

    assert told["rows"][0][0] == sorted(told["rows"][0][0])
