"""One plan for all texts of a shape, and one compiled statement."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from alfred_refs.tools.sql.tool import PreparedQueries
from tests.tools.sql.world import World

FIRST = "select name, stock + 1 from products where id = 'product_1' and stock > 3 limit 2"
SECOND = (
    "SELECT  name,stock + 2 from Products -- again\nwhere id = 'product_2' and stock>4 LIMIT 3"
)


def test_texts_that_differ_in_literals_have_one_plan(world: World) -> None:
    """So have those that differ in spaces, comments and the case of names."""
    plans = PreparedQueries(world.toolset.tables)

    one, literals = plans.of(FIRST, fenced=True)
    other, others = plans.of(SECOND, fenced=True)

    assert one is other
    assert (literals, others) == (["1", "product_1", "3", "2"], ["2", "product_2", "4", "3"])


def test_a_session_with_an_owner_has_a_plan_of_its_own(world: World) -> None:
    """Its tables are fenced."""
    plans = PreparedQueries(world.toolset.tables)

    assert plans.of(FIRST, fenced=True)[0] is not plans.of(FIRST, fenced=False)[0]


def test_literals_by_which_a_statement_is_made_are_part_of_its_shape(world: World) -> None:
    """Positions, sizes of types, frames of windows; and which literals are the same."""
    plans = PreparedQueries(world.toolset.tables)

    def plan(sql: str) -> Any:
        return plans.of(sql, fenced=False)[0]

    assert plan("select name, code from products order by 1") is not plan(
        "select name, code from products order by 2"
    )
    assert plan("select price::numeric(9, 1) from products") is not plan(
        "select price::numeric(9, 2) from products"
    )
    assert plan("select 1, 1") is not plan("select 1, 2")
    assert plan("select 1, 3") is plan("select 4, 2")
    assert plan("select 1") is not plan("select 1.0")


def test_a_plan_is_compiled_once(world: World) -> None:
    """Two texts of a shape, in two sessions, find one entry of SQLAlchemy's compiled cache."""
    hits: list[str] = []

    def note(_: Any, __: Any, ___: Any, ____: Any, context: Any, _____: Any) -> None:
        if "LIMIT" in context.statement and "products" in context.statement:
            hits.append(context.cache_hit.name)

    world.ask(FIRST)
    event.listen(world.engine, "before_cursor_execute", note)
    world.ask(SECOND)
    world.ask(FIRST.replace("product_1", "product_5"))
    event.remove(world.engine, "before_cursor_execute", note)

    assert hits == ["CACHE_HIT", "CACHE_HIT"]


def test_nothing_of_a_text_is_sent(world: World) -> None:
    """Not a name and not a literal: they are parameters."""
    with world.sent() as sent:
        told = world.ask(
            "with zebra as (select name as giraffe from products as lion where name <> 'monkey') "
            'select tiger.giraffe as "an; elephant" from zebra as tiger limit 7'
        )

    assert told["columns"] == ["an; elephant"]
    animals = ("zebra", "giraffe", "lion", "monkey", "tiger", "elephant")
    assert [each for each in animals if each in "".join(sent)] == []
