"""Calls in processes that end at any step, and processes that decide the same call at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, text

from alfred_refs import RefRegistry
from tests.forks import together
from tests.tools.conftest import by
from tests.tools.shop import processes
from tests.tools.shop.conftest import CHAT, DELETE, Rows

MOST_STEPS = 80

Stored = Callable[[], Rows]


@pytest.fixture
def url(shop: Engine, registry: RefRegistry) -> str:  # noqa: ARG001
    """The URL of the shop's database, where the order has a ref."""
    url = shop.url.render_as_string(hide_password=False)
    processes.bound(shop).call(*CHAT, "db_read", {"table": "stall_orders"})
    return url


def killed(function: Callable[..., None], *arguments: Any) -> bool:
    """Call a function in a process; return whether it has killed itself."""
    [ended] = together(_without_barrier, [(function, *arguments)])
    assert ended.code in (0, -signal.SIGKILL)
    return bool(ended.code)


def _without_barrier(_: Barrier, function: Callable[..., None], *arguments: Any) -> None:
    function(*arguments)


def named(shop: Engine, title: str) -> int:
    """Count the orders with a title."""
    with shop.connect() as connection:
        count = text("SELECT count(*) FROM stall_orders WHERE title = :title")
        return int(connection.execute(count, {"title": title}).scalar_one())


def test_a_call_that_dies_is_done_once(url: str, shop: Engine) -> None:
    """It is in the history if it was done, and does nothing if it is repeated then."""
    toolset, found = processes.bound(shop), []
    for step in range(1, MOST_STEPS):
        title = f"call {step}"
        given = {"table": "stall_orders", "data": {"title": title, "lines": [{"text": "a"}]}}
        was_killed = killed(processes.call, url, step, "db_create", given, title)
        found.append(named(shop, title))
        records = [r for r in toolset.history("chat-7", limit=1) if r.arguments == given]
        assert len(records) == found[-1]

        toolset.call(*CHAT, "db_create", given, call_id=title)
        assert named(shop, title) == 1
        assert len(toolset.history("chat-7", limit=MOST_STEPS)) == step
        if not was_killed:
            break
    assert not was_killed
    assert {*found[:-1]} == {0, 1}


def test_an_approval_that_dies_is_done_once(url: str, shop: Engine) -> None:
    """The call waits, or is done; whoever approves it then has it done once."""
    toolset, found = processes.bound(shop, lambda _: True), []
    for step in range(1, MOST_STEPS):
        title = f"approval {step}"
        given = {"table": "stall_orders", "data": {"title": title, "lines": [{"text": "a"}]}}
        number = toolset.call(*CHAT, "db_create", given).pending or 0
        was_killed = killed(processes.approve, url, step, number)
        found.append(named(shop, title))
        [record] = toolset.history("chat-7", limit=1)
        assert record.state == ("done" if found[-1] else "waiting")

        assert not toolset.approve(*CHAT, number, by="bob").failed
        assert named(shop, title) == 1
        [record] = toolset.history("chat-7", limit=1)
        assert (record.state, len(record.changes)) == ("done", 2)
        if not was_killed:
            break
    assert not was_killed
    assert {*found[:-1]} == {0, 1}


def test_an_undo_that_dies_is_done_once(url: str, shop: Engine, stored: Stored) -> None:
    """All of it is done and in the history, or nothing of it."""
    toolset, found = processes.bound(shop), []
    before = stored()
    for step in range(1, MOST_STEPS):
        assert not toolset.call(*CHAT, "db_delete", DELETE).failed
        deleted, number = stored(), toolset.history("chat-7", limit=1)[0].call
        was_killed = killed(processes.undo, url, step, number)
        assert stored() in (before, deleted)
        found.append(stored() == before)
        assert (toolset.history("chat-7", limit=1)[0].tool == "undo") is found[-1]

        refusal = toolset.undo("chat-7", call=number, by="bob").refusal
        assert (refusal is not None) is found[-1]
        assert stored() == before
        if not was_killed:
            break
    assert not was_killed
    assert {*found[:-1]} == {False, True}


@pytest.mark.parametrize("tool", ["db_create", "db_delete"])
def test_processes_that_approve_at_once(url: str, shop: Engine, tool: str) -> None:
    """One of them does it, and all get its answer."""
    toolset = processes.bound(shop, lambda _: True)
    for turn in range(3):
        title = f"together {turn}"
        given: Any = {"table": "stall_orders", "data": {"title": title}}
        number = toolset.call(*CHAT, "db_create", given).pending or 0
        if tool == "db_delete":
            [ref] = toolset.approve(*CHAT, number, by="ann").value["rows"]
            only = by("id", ref["id"])
            given = {"table": "stall_orders", "filters": only}
            number = toolset.call(*CHAT, "db_delete", given).pending or 0
        ended = together(processes.approve_together, [(url, number), (url, number)])
        first, second = (each.result for each in ended)
        assert first == second
        assert "error" not in first
        assert named(shop, title) == (tool == "db_create")
        [record] = toolset.history("chat-7", limit=1)
        assert (record.state, len(record.changes)) == ("done", 1)
