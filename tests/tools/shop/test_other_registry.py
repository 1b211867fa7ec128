"""Calls that are stored in another database than their rows, and whose COMMIT fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, Journal, Toolset
from tests.tools.shop.conftest import (
    CHAT,
    CREATE,
    DELETE,
    MODELS,
    UPDATE,
    WRITES,
    Rows,
    execute,
    lost_commits,
)
from tests.tools.shop.models import StallOrder

Stored = Callable[[], Rows]

FAILING = """
    CREATE SEQUENCE commits;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('commits') <= {failures} THEN
            RAISE EXCEPTION 'no' USING ERRCODE = '{state}';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE OR DELETE ON stall_orders
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()
"""


@pytest.fixture
def desk_of(shop: Engine) -> Callable[..., BoundToolset]:
    """Make tools whose registry is in memory, in a conversation that has read the orders."""

    def make(*, journal: bool | Journal = True, **options: Any) -> BoundToolset:
        toolset = Toolset(MODELS, expect="optional", **options)
        registry = RefRegistry(store=MemoryStore())
        sessions = sessionmaker(shop, class_=RefSession)
        desk = toolset.bind(sessions, registry=registry, journal=journal)
        desk.call(*CHAT, "db_read", {"table": "stall_orders"})
        return desk

    return make


@pytest.fixture
def fail(shop: Engine) -> Callable[..., None]:
    """Let the next commits of orders fail."""

    def fail(state: str, failures: int = 1) -> None:
        execute(shop, FAILING.format(state=state, failures=failures))

    return fail


@pytest.mark.parametrize("refusals", [True, False])
@WRITES
def test_a_call_whose_commit_fails_is_not_in_the_history(
    desk_of: Any, fail: Any, stored: Stored, *, tool: str, given: Any, refusals: bool
) -> None:
    """Except as a refused one, if the journal keeps those; repeated, it is done."""
    desk, before = desk_of(journal=Journal(refusals=refusals)), stored()
    fail("23514")

    assert desk.call(*CHAT, tool, given, call_id="a").value["error"]["code"] == "check_failed"
    assert stored() == before
    assert [each.state for each in desk.history(*CHAT)] == ["refused"] * refusals
    assert desk.changes(*CHAT) == []

    assert not desk.call(*CHAT, tool, given, call_id="a").failed
    assert desk.history(*CHAT)[-1].state == "done"
    assert stored() != before


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_call_that_was_rolled_back_is_repeated(
    desk_of: Any, fail: Any, shop: Engine, state: str
) -> None:
    """With an id of the framework too; it is in the history once."""
    desk = desk_of()
    fail(state)
    assert desk.call(*CHAT, "db_update", UPDATE, call_id="a").value["rows"]
    execute(shop, "ALTER SEQUENCE commits RESTART")
    assert desk.call(*CHAT, "db_create", CREATE).value["rows"]
    assert [each.state for each in desk.history(*CHAT)] == ["done", "done"]


def test_an_approved_call_whose_commit_fails_is_refused(
    desk_of: Any, fail: Any, stored: Stored
) -> None:
    """It has no changes, and the answer stays the same."""
    desk, before = desk_of(consent={StallOrder: ["delete"]}), stored()
    desk.call(*CHAT, "db_delete", DELETE)
    fail("23514")

    answer = desk.approve(*CHAT, 1, by="ann")
    assert answer.value["error"]["code"] == "check_failed"
    assert desk.approve(*CHAT, 1, by="bob").value == answer.value
    [record] = desk.history(*CHAT)
    assert (record.state, record.decided_by, record.changes) == ("refused", "ann", ())
    assert stored() == before


def test_an_approved_call_that_was_rolled_back_is_repeated(
    desk_of: Any, fail: Any, stored: Stored
) -> None:
    """The person does not see that; whoever approves it again gets the same answer."""
    desk = desk_of(consent={StallOrder: ["delete"]})
    desk.call(*CHAT, "db_delete", DELETE)
    fail("40001")

    answer = desk.approve(*CHAT, 1, by="ann")
    assert answer.value["deleted"] == ["stall_order_1"]
    assert stored()["stall_orders"] == []
    assert desk.approve(*CHAT, 1, by="eve") == answer
    [record] = desk.history(*CHAT)
    assert (record.state, record.decided_by) == ("done", "ann")


def test_an_approved_call_that_may_be_rolled_back_again_waits(desk_of: Any, fail: Any) -> None:
    """A second failure is raised, and the call waits for another decision."""
    desk = desk_of(consent={StallOrder: ["delete"]})
    desk.call(*CHAT, "db_delete", DELETE)
    fail("40001", failures=2)

    with pytest.raises(DBAPIError):
        desk.approve(*CHAT, 1, by="ann")
    [record] = desk.history(*CHAT)
    assert (record.state, record.decided_by, record.changes) == ("waiting", None, ())
    assert not desk.approve(*CHAT, 1, by="bob").failed


def test_an_undo_that_was_rolled_back_is_repeated(
    desk_of: Any, shop: Engine, stored: Stored
) -> None:
    """It is in the history once; it has checked constraints before its COMMIT."""
    desk, before = desk_of(), stored()
    desk.call(*CHAT, "db_delete", DELETE)

    class SerializationError(Exception):
        sqlstate = "40001"

    @event.listens_for(shop, "commit", once=True)
    def roll_back(_: object) -> None:
        raise OperationalError("COMMIT", {}, SerializationError())

    assert desk.undo(*CHAT, call=1, by="ann").refusal is None
    assert [each.state for each in desk.history(*CHAT)] == ["done", "done"]
    assert stored() == before


def test_an_approval_of_a_process_that_ends_at_the_commit_is_in_doubt(
    desk_of: Any, shop: Engine
) -> None:
    """Nothing is repeated."""
    desk = desk_of(journal=False, consent={StallOrder: ["delete"]})
    desk.call(*CHAT, "db_delete", DELETE)
    with lost_commits(shop):
        desk.approve(*CHAT, 1, by="ann")

    assert desk.history(*CHAT)[0].state == "doing"
    assert desk.approve(*CHAT, 1, by="ann").value["error"]["code"] == "in_doubt"


UNKNOWN = pytest.mark.parametrize("state", ["57P01", "40003", "08006"])


@UNKNOWN
def test_a_commit_whose_result_is_unknown_is_in_doubt(desk_of: Any, fail: Any, state: str) -> None:
    """The call is not done again by its id."""
    desk = desk_of()
    fail(state)

    with pytest.raises(DBAPIError):
        desk.call(*CHAT, "db_update", UPDATE, call_id="a")
    assert [each.state for each in desk.history(*CHAT)] == ["doing"]
    again = desk.call(*CHAT, "db_update", UPDATE, call_id="a")
    assert again.value["error"]["code"] == "in_doubt"


@UNKNOWN
def test_an_approval_whose_result_is_unknown_is_in_doubt(
    desk_of: Any, fail: Any, state: str
) -> None:
    """Nobody can approve the call again."""
    desk = desk_of(consent={StallOrder: ["delete"]})
    desk.call(*CHAT, "db_delete", DELETE)
    fail(state)

    with pytest.raises(DBAPIError):
        desk.approve(*CHAT, 1, by="ann")
    assert [each.state for each in desk.history(*CHAT)] == ["doing"]
    assert desk.approve(*CHAT, 1, by="ann").value["error"]["code"] == "in_doubt"
