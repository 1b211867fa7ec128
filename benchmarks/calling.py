"""What it costs to have a model's question answered by `db_read`.

Against a tool of the application's own on a plain session, which does the same and no more: so
many rows in order of their keys, the name of what each refers to, values as JSON has them, whether
there are more. Each side opens a session, answers one question, and closes the session.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession
from alfred_refs.store import Actor
from alfred_refs.tools import Toolset
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting, Tables, mapped_tables
from benchmarks.table import Row

_CALLS = 10  # answers timed together: one is too short to be timed


def read_by_tool(setting: Setting, *, rows: int) -> Figure:
    """Compare `db_read` of some rows with one label each with a tool written by hand."""
    tables = mapped_tables()
    policy = RefPolicy(labels={tables.recipe: "name"})
    conversation = RefRegistry(setting.engine, policy=policy).conversation("tools")
    toolset = Toolset([tables.meal_plan, tables.recipe], policy=policy)
    return side_by_side(
        partial(_ours, setting, conversation, toolset, rows),
        partial(_theirs, setting, setting.twins, rows),
        repetitions=setting.repetitions,
        calls=_CALLS,
    ).by_cpu()


def read_20_by_tool(setting: Setting) -> Figure:
    """Compare where the rows are few: what any call costs counts most."""
    return read_by_tool(setting, rows=20)


def read_100_by_tool(setting: Setting) -> Figure:
    """Compare where they are as many as one answer shows: what each row costs counts most."""
    return read_by_tool(setting, rows=100)


def read_by_bound_tool(setting: Setting, *, by: Actor | None = None) -> Figure:
    """Compare where a bound toolset opens the session, and both sides give JSON text."""
    tables = mapped_tables()
    policy = RefPolicy(labels={tables.recipe: "name"})
    desk = Toolset([tables.meal_plan, tables.recipe], policy=policy).bind(
        sessionmaker(setting.engine, class_=RefSession),
        registry=RefRegistry(setting.engine, policy=policy),
        by=by,
    )
    asked = {"table": "meal_plans", "limit": 20}
    return side_by_side(
        lambda: desk.call("tools", None, "db_read", asked).text,
        lambda: json.dumps(_theirs(setting, setting.twins, 20), ensure_ascii=False),
        repetitions=setting.repetitions,
        calls=_CALLS,
    ).by_cpu()


def read_and_keep_by_bound_tool(setting: Setting) -> Figure:
    """Compare where what the model is shown is kept for prompts, too."""
    return read_by_bound_tool(setting, by="model")


ROWS = (
    Row("db_read of 20 rows with a label each, against a tool by hand", 2.0, read_20_by_tool),
    Row("the same, of 100 rows", 2.0, read_100_by_tool),
    Row("the same, of 20 rows by a bound toolset, as JSON text", 2.0, read_by_bound_tool),
    Row("the same, kept for prompts", None, read_and_keep_by_bound_tool),
)


def _ours(setting: Setting, conversation: Conversation, toolset: Toolset, rows: int) -> object:
    with RefSession(setting.engine, conversation=conversation) as session:
        asked = {"table": "meal_plans", "limit": rows}
        return toolset.call(session, "db_read", asked)


def _theirs(setting: Setting, tables: Tables, rows: int) -> object:
    plan, recipe = tables.meal_plan, tables.recipe
    statement = select(plan, recipe).join(recipe, recipe.id == plan.recipe_id)
    with Session(setting.bare) as session:
        found = session.execute(statement.order_by(plan.id).limit(rows + 1)).all()
        shown = [_shown(*each) for each in found[:rows]]
    more = len(found) > rows
    return {"table": "meal_plans", "rows": shown, "count": len(shown), "more": more}


def _shown(plan: Any, recipe: Any) -> dict[str, Any]:
    return {
        "id": str(plan.id),
        "recipe_id": str(plan.recipe_id),
        "day": plan.day.isoformat(),
        "meal": plan.meal,
        "_recipe_id_label": recipe.name,
    }
