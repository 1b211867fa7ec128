"""What it costs to have a model's SQL answered by `db_query`, which never sends it.

Against the same text on a plain session, where nothing is parsed, confined or covered. Each side
opens a session, asks once, and closes it; then the way from a text to a statement alone, for a
shape that is known and for one that is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from sqlalchemy import text
from sqlalchemy.orm import Session

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.sql.tool import PreparedQueries
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting, mapped_tables
from benchmarks.table import Row

_CALLS = 10  # answers timed together: one is too short to be timed
_TIMES = 200

SQL = """
with n as (select recipe_id, count(*) as times from meal_plans group by recipe_id)
select r.name, n.times, rank() over (order by n.times desc) as place
from n join recipes r on r.id = n.recipe_id
where n.times >= 1 and r.name like '%' order by n.times desc, r.name limit 20
"""


def query_by_tool(setting: Setting) -> Figure:
    """Compare `db_query` of a shape that is known with its text on a plain session."""
    toolset = _toolset()
    conversation = RefRegistry(setting.engine).conversation("queries")

    def ours() -> object:
        with RefSession(setting.engine, conversation=conversation) as session:
            return toolset.call(session, "db_query", {"sql": SQL})

    def theirs() -> object:
        with Session(setting.bare) as session:
            return [list(row) for row in session.execute(text(SQL))]

    compared = side_by_side(ours, theirs, repetitions=setting.repetitions, calls=_CALLS)
    return compared.by_cpu()


def known_shape(_: Setting) -> Figure:
    """Measure the way from a text to a statement where its shape is known."""
    plans = PreparedQueries(_toolset().tables)
    plans.of(SQL, fenced=True)
    return _figure(lambda: plans.of(SQL, fenced=True), "a text of 300 characters")


def new_shape(_: Setting) -> Figure:
    """Measure the same where it is not: parsed, checked and built."""
    tables = _toolset().tables
    return _figure(lambda: PreparedQueries(tables).of(SQL, fenced=True), "the same")


ROWS = (
    Row("db_query of a known shape, against its text on a plain session", None, query_by_tool),
    Row("from its text to its statement, shape known", 1.0, known_shape, "ms"),
    Row("the same, shape not known", None, new_shape, "ms"),
)


def _toolset() -> Toolset:
    tables = mapped_tables()
    policy = RefPolicy()
    return Toolset([tables.meal_plan, tables.recipe], policy=policy, labels="none", sql=True)


def _figure(work: Callable[[], object], detail: str) -> Figure:
    taken = []
    for _ in range(_TIMES):
        begun = time.process_time()
        work()
        taken.append((time.process_time() - begun) * 1e3)
    return Figure(median(taken), "CPU", detail)
