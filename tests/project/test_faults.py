"""Fault injection for a few seconds, and its verdict; `python3 run.py faults` runs longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.campaign import Campaign
from tests.faults.verdict import Kept, Verdict, verdict_on
from tests.postgres.server import crashing_server

HERE = ("fault-1", "order")


def given(key: int, ref: str) -> dict[str, Any]:
    """Return a log line: the worker received a ref."""
    return {"what": "given", "conversation": "fault-1", "entity": "order", "key": key, "ref": ref}


def turn(number: int) -> dict[str, Any]:
    """Return a log line: the worker began a turn."""
    return {"what": "turn", "conversation": "fault-1", "turn": number}


LINES = [
    given(71, "order_1"),
    given(72, "order_2"),
    given(71, "order_1"),
    turn(1),
    turn(2),
    {"what": "saved", "name": "kept", "key": "k"},
    {"what": "undone", "name": "rolled back"},
    {"what": "cut", "told": "server closed the connection"},
    {"what": "failed", "error": "RegistryUnreachableError"},
]
KEPT = Kept(keys={HERE: [(1, 71), (2, 72), (3, 73)]}, last={HERE: 3}, rows={"kept": "k"})


def wrong(verdict: Verdict) -> dict[str, int]:
    """Return the broken promises with their counts."""
    return {what: count for what, count in verdict.wrong.items() if count}


def test_a_registry_that_keeps_its_promises_is_found_good() -> None:
    """Refs that are in no log are fine, as workers are killed; so are typed errors."""
    verdict = verdict_on(LINES, KEPT)

    assert wrong(verdict) == {}
    assert verdict.is_good
    assert (verdict.done["refs handed out"], verdict.done["refs kept"]) == (3, 3)
    assert verdict.errors == {"RegistryUnreachableError": 1}


@pytest.mark.parametrize(
    ("lines", "kept", "found"),
    [
        ([given(74, "order_4")], {}, {"refs lost": 1}),
        ([given(73, "order_2")], {}, {"refs lost": 1, "refs of two keys": 1}),
        ([given(71, "order_3")], {}, {"refs lost": 1, "keys with two refs": 1}),
        ([{"what": "lost", "ref": "order_9"}], {}, {"refs lost": 1}),
        ([], {"keys": {HERE: [(1, 71), (2, 72), (4, 73)]}, "last": {HERE: 4}}, {"gaps": 1}),
        ([], {"keys": {HERE: [(1, 71), (2, 72), (2, 73)]}, "last": {HERE: 2}}, {"duplicates": 1}),
        ([], {"keys": {HERE: [(1, 71), (2, 72), (3, 71)]}}, {"duplicates": 1}),
        ([], {"last": {HERE: 2}}, {"counters beside the last number": 1}),
        ([turn(2)], {}, {"turns begun twice": 1}),
        ([{"what": "harmed", "told": "rolled back"}], {}, {"transactions harmed": 1}),
        ([], {"rows": {}}, {"transactions harmed": 1}),
        ([], {"rows": {"kept": "k", "rolled back": "r"}}, {"transactions harmed": 1}),
        ([{"what": "failed", "error": "RegistryFailedError 23505"}], {}, {"unexpected errors": 1}),
        ([{"what": "broke", "told": "KeyError"}], {}, {"untyped errors": 1}),
    ],
)
def test_a_broken_promise_is_found(
    lines: list[dict[str, Any]], kept: dict[str, Any], found: dict[str, int]
) -> None:
    """One line or row too many, too few or changed is enough."""
    verdict = verdict_on([*LINES, *lines], replace(KEPT, **kept))

    assert wrong(verdict) == found
    assert not verdict.is_good


@pytest.mark.slow
def test_nothing_is_lost_while_workers_are_killed_and_the_server_crashes(tmp_path: Path) -> None:
    """With several drivers, though `synchronous_commit` is off by default in these databases."""
    with crashing_server(durable=True) as server:
        campaign = Campaign(server, tmp_path, workers=3, haste=2)
        verdict = campaign.run(4)

    assert (wrong(verdict), verdict.examples) == ({}, [])
    assert verdict.done["refs handed out"] > 100
    assert verdict.done["servers crashed"] > 0
    assert verdict.done["workers killed"] > 0
    assert verdict.done["connections cut"] > 0
