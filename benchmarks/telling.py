"""What it costs to keep what a model does, and to tell it.

The same `db_read` in a session that says by whom, against one that does not: what is kept takes a
round trip more. What 50 rows at hand take to be told, in a conversation of many refs against one
that has no others. And how fast logs of prompts are searched for keys.
"""

from __future__ import annotations

import time
import uuid
from functools import partial

from sqlalchemy.orm import sessionmaker

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.mapping.text import search_keys
from alfred_refs.store import Actor
from alfred_refs.tools import Toolset
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting, mapped_tables
from benchmarks.table import Row

_CALLS = 10
_MANY = 100  # refs beside those that are told, for each row of the tables
_LINES = 20_000  # of a log


def kept(setting: Setting) -> Figure:
    """Compare a read of 20 rows that is kept with one that is not."""
    tables = mapped_tables()
    policy = RefPolicy(labels={tables.recipe: "name"})
    conversation = RefRegistry(setting.engine, policy=policy).conversation("kept")
    toolset = Toolset([tables.meal_plan, tables.recipe], policy=policy)
    return side_by_side(
        partial(_read, setting, conversation, toolset, "model"),
        partial(_read, setting, conversation, toolset, None),
        repetitions=setting.repetitions,
        calls=_CALLS,
    ).by_clock()


def told(setting: Setting) -> Figure:
    """Compare rendering 50 rows in a conversation of a hundred thousand refs with one of 50."""
    tables = mapped_tables()
    registry = RefRegistry(setting.engine)
    toolset = Toolset([tables.meal_plan, tables.recipe])
    sessions = sessionmaker(setting.engine, class_=RefSession)
    contexts = []
    for name, others in (("many", _MANY * len(setting.recipes)), ("few", 0)):
        conversation = registry.conversation(f"told-{name}-{uuid.uuid4().hex}")
        for start in range(0, others, 1_000):
            conversation.refer_all("other", range(start, start + 1_000))
        with RefSession(setting.engine, conversation=conversation, by="model") as session:
            toolset.call(session, "db_read", {"table": "meal_plans", "limit": 50})
        contexts.append(Context(conversation, toolset=toolset, sessions=sessions))
    many, few = contexts
    return side_by_side(
        many.render, few.render, repetitions=setting.repetitions, calls=_CALLS
    ).by_clock()


def audited(setting: Setting) -> Figure:
    """Measure how many megabytes of a log are searched in a minute, of the processor's time."""
    line = '{"rows": [{"id": "recipe_12", "name": "Butter Chicken", "minutes": 30}], "count": 1}'
    lines = [f"{number} {line} facade 2026-11-24T10:00:00" for number in range(_LINES)]
    size = sum(map(len, lines)) / 1e6
    rates = []
    for _ in range(max(3, setting.repetitions // 10)):
        begun = time.process_time()
        for each in lines:
            search_keys(each)
        rates.append(size / (time.process_time() - begun) * 60)
    rates.sort()
    middle = rates[len(rates) // 2]
    detail = f"{size:.1f} MB, without keys; it is to be 100 at least"
    return Figure(middle, "CPU", detail, (rates[0], rates[-1]))


ROWS = (
    Row("db_read of 20 rows that is kept for prompts, against one that is not", None, kept),
    Row("render 50 rows in a conversation of 100,000 refs, against one of 50", 1.1, told),
    Row("a log searched for keys, in a minute", None, audited, "MB"),
)


def _read(
    setting: Setting, conversation: Conversation, toolset: Toolset, by: Actor | None
) -> object:
    with RefSession(setting.engine, conversation=conversation, by=by) as session:
        return toolset.call(session, "db_read", {"table": "meal_plans", "limit": 20})
