"""Sessions whose classes are in several databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import SetupError
from alfred_refs.tools import BoundToolset, Toolset
from tests.fix_postgres import DatabasePool
from tests.tools.shop.conftest import CHAT, UPDATE
from tests.tools.shop.models import Base, StallOrder, StallParcel


def desk_on(registry: RefRegistry, bind: Engine | None, binds: Any) -> BoundToolset:
    """Return tools whose conversation has read the orders."""
    sessions = sessionmaker(bind, class_=RefSession, binds=binds)
    toolset = Toolset([StallOrder, StallParcel], expect="optional", sql=True)
    desk = toolset.bind(sessions, registry=registry, journal=True)
    desk.call(*CHAT, "db_read", {"table": "stall_orders"})
    return desk


@pytest.mark.parametrize("default", [None, create_engine("sqlite://")])
def test_the_classes_decide_the_database(
    shop: Engine, registry: RefRegistry, default: Engine | None
) -> None:
    """Not the session's own bind, which it may have for other classes."""
    desk = desk_on(registry, default, {Base: shop})

    assert not desk.call(*CHAT, "db_update", UPDATE).failed
    assert desk.undo(*CHAT, call=1, by="ann").refusal is None
    for sql, rows in (("select status from stall_orders", [["OPEN"]]), ("select 1", [[1]])):
        assert desk.call(*CHAT, "db_query", {"sql": sql}).value["rows"] == rows


def test_a_statement_of_a_model_reads_one_database(shop: Engine, registry: RefRegistry) -> None:
    """The error does not come from PostgreSQL, which would not know one of the tables."""
    desk = desk_on(registry, None, {Base: shop, StallParcel: create_engine("sqlite://")})
    both = {"sql": "select title from stall_orders union select code from stall_parcels"}
    error = desk.call(*CHAT, "db_query", both).value["error"]
    assert "its tables are in several databases" in error["message"]


@pytest.mark.parametrize("twophase", [False, True])
def test_a_call_changes_one_database(
    shop: Engine, databases: DatabasePool, registry: RefRegistry, *, twophase: bool
) -> None:
    """Unless both commit together: after one COMMIT the other may fail."""
    with databases.engine() as other:
        desk = desk_on(registry, None, {Base: shop, StallParcel: other})
        desk.sessions.configure(twophase=twophase)
        also = [{"table": "stall_parcels", "data": {"code": "P2"}}]
        create = {"table": "stall_orders", "data": {"title": "Chair"}, "also": also}
        if twophase:
            assert not desk.call(*CHAT, "db_create", create).failed
            assert len(desk.history(*CHAT)) == 1
            undo = desk.undo(*CHAT, call=1, by="ann")
            assert "several databases" in str(undo.refusal)
        else:
            without = desk.toolset.bind(desk.sessions, registry=registry)
            for each in (desk, without):
                with pytest.raises(SetupError, match="several databases"):
                    each.call(*CHAT, "db_create", create)
            assert desk.history(*CHAT) == []
            counted = {"table": "stall_orders", "columns": ["count(*)"]}
            assert desk.call(*CHAT, "db_read", counted).value["totals"] == [{"count(*)": 1}]
