"""What history and plans of calls cost: the same writes with a journal and without one.

Each side opens a session, updates one column of so many rows by `db_update`, and commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting, mapped_tables
from benchmarks.table import Row

_CALLS = 5
_CHAT = "journaling"


def journal_1_row(setting: Setting) -> Figure:
    """Compare updates of one row with a journal and without."""
    return _compared(setting, rows=1, journaled=lambda desk, asked: desk.call(*asked).value)


def journal_100_rows(setting: Setting) -> Figure:
    """Compare updates of a hundred rows with a journal and without."""
    return _compared(setting, rows=100, journaled=lambda desk, asked: desk.call(*asked).value)


def plan_1_row(setting: Setting) -> Figure:
    """Compare a plan with the call that it is of, which keeps nothing."""
    return _compared(setting, rows=1, journaled=lambda desk, asked: desk.plan(*asked))


def bytes_of_a_change(setting: Setting) -> float:
    """Return the bytes that a change of one short text takes, with its part of the indexes."""
    size = text(
        "SELECT pg_total_relation_size('alfred_refs_change'), count(*) FROM alfred_refs_change"
    )
    desks = _desks(setting)
    for _ in range(20):
        _update(desks[0], 100, itertools.count(1), _called)
    with setting.engine.begin() as connection:
        whole, changes = connection.execute(size).one()
    return float(whole / changes)


ROWS = (
    Row("db_update of 1 row with a journal, against none", 1.05, journal_1_row),
    Row("the same, of 100 rows", 1.15, journal_100_rows),
    Row("the plan of an update of 1 row, against the update", None, plan_1_row),
)


def _called(desk: BoundToolset, asked: tuple[Any, ...]) -> object:
    return desk.call(*asked).value


def _desks(setting: Setting) -> list[BoundToolset]:
    """Return a desk with a journal, and one without."""
    tables = mapped_tables()
    registry = RefRegistry(setting.engine)
    toolset = Toolset([tables.meal_plan, tables.recipe], expect="optional")
    sessions = sessionmaker(setting.engine, class_=RefSession)
    desks = [toolset.bind(sessions, registry=registry, journal=each) for each in (True, None)]
    for desk in desks:
        desk.call(_CHAT, None, "db_read", {"table": "meal_plans", "limit": 100})
    return desks


def _compared(setting: Setting, *, rows: int, journaled: Callable[..., object]) -> Figure:
    with_it, without = _desks(setting)
    numbers = itertools.count(1)
    return side_by_side(
        partial(_update, with_it, rows, numbers, journaled),
        partial(_update, without, rows, numbers, _called),
        repetitions=setting.repetitions,
        calls=_CALLS,
    ).by_cpu()


def _update(desk: BoundToolset, rows: int, numbers: Any, call: Callable[..., object]) -> object:
    refs = [f"meal_plan_{n}" for n in range(1, rows + 1)]
    asked = {
        "table": "meal_plans",
        "filters": [{"field": "id", "op": "in", "value": refs}],
        "data": {"meal": f"meal {next(numbers)}"},
    }
    return call(desk, (_CHAT, None, "db_update", asked))
