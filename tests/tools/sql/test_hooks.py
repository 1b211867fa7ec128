"""Hooks have a say in reads, and none in SQL: their tables are not there for it."""

from __future__ import annotations

from typing import Any

import pytest

from alfred_refs.tools import Hooks, Reading
from tests.tools.sql.models import Order
from tests.tools.sql.world import World


class Narrowing(Hooks):
    """Shows late orders alone."""

    def before_read(self, read: Reading) -> None:
        """Leave out all others."""
        read.conditions.append(Order.note == "late")


class Masking(Hooks):
    """Shows no note."""

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
        """Cover them."""
        for row in rows:
            row["note"] = "***"


class Harmless(Narrowing, Masking):
    """Says that a model may see all of it."""

    sql = True


class Writes(Hooks):
    """Has no say in reads."""

    def before_write(self, write: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("hook", [Narrowing, Masking])
def test_a_table_whose_hooks_look_at_reads_is_in_no_from(world: World, hook: type[Hooks]) -> None:
    """Wherever it stands; the model is told what to use instead."""
    cases: list[str] = [
        "select note from orders",
        "select 1 from lines l join Orders o on o.id = l.order_id",
        "select 1 from lines natural join (products p cross join orders)",
        "select 1 from products, orders",
        "select (select count(*) from orders)",
        "select 1 where exists (select * from orders)",
        "select order_id from lines where order_id in (select id from orders)",
        "select name from products union all select note from orders",
        "with lines as (select * from orders) select note from lines",
        "with recursive a as (select id from orders union select id from a) select 1 from a",
    ]
    for sql in cases:
        told = world.ask(sql, tools=world.tools(hooks={Order: [Writes(), hook()]}))

        assert told == {
            "error": {
                "code": "no_sql",
                "message": "rows of table 'orders' are not there for SQL; read them with db_read",
                "table": "orders",
            }
        }


def test_no_other_error_and_no_description_offers_such_a_table(world: World) -> None:
    """A part of WITH may have its name, and refs to its rows are shown as everywhere."""
    toolset = world.tools(hooks={Order: [Narrowing()]})
    shadow = "with orders as (select order_id from lines) select min(order_id) from orders"
    near, part = (world.ask(sql, tools=toolset) for sql in ("select 1 from ordres", shadow))

    assert "'orders'" not in near["error"]["message"]
    assert part["rows"][0][0].startswith("order_")
    assert (
        "that db_read describes but 'orders', at most" in toolset.functions["db_query"].description
    )


def test_a_hook_may_say_that_it_hides_nothing(world: World) -> None:
    """As may one that has no say in reads, without a word."""
    for hook in (Harmless(), Writes()):
        toolset, sql = world.tools(hooks={Order: [hook]}), "select count(*) from orders"
        assert world.ask(sql, tools=toolset)["rows"] == world.ask(sql)["rows"]
        assert "describes, at most" in toolset.functions["db_query"].description
