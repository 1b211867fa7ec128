"""What it costs to ask for one row by its ref.

Each side makes the statement anew, as an application does, in a session that stays open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting
from benchmarks.table import Row

_CALLS = 100  # statements timed together: one is too short to be timed


def by_ref(setting: Setting) -> Figure:
    """Compare `where(id == ref)`, the ref known to this process, with `where(id == key)`."""
    refs = itertools.cycle(f"meal_plan_{n}" for n in range(1, len(setting.meal_plans) + 1))
    keys = itertools.cycle(setting.meal_plans)
    with (
        RefSession(setting.engine, conversation=setting.conversation) as ours,
        Session(setting.bare) as theirs,
    ):
        return side_by_side(
            lambda: _ask(ours, setting.ours.meal_plan, next(refs)),
            lambda: _ask(theirs, setting.twins.meal_plan, next(keys)),
            repetitions=setting.repetitions,
            calls=_CALLS,
        ).by_cpu()


def sent_if_cached(setting: Setting) -> Figure:
    """Count what is sent beside the query itself where the process knows the ref."""
    return _sent_beside(setting, setting.conversation)


def sent_if_not_cached(setting: Setting) -> Figure:
    """Count what is sent beside the query itself where the process has not met the ref."""
    registry = RefRegistry(setting.engine)
    registry.conversation("another").turn  # noqa: B018  # connects, which sends statements too
    return _sent_beside(setting, registry.conversation(setting.conversation.id))


ROWS = (
    Row("select … where id = ref, ref cached, against where id = key", 1.15, by_ref),
    Row("statements beside the query itself, ref cached", 0, sent_if_cached, unit=""),
    Row("the same, ref not cached", 1, sent_if_not_cached, unit=""),
)


def _ask(session: Session, meal_plan: type[Any], name: object) -> None:
    session.scalars(select(meal_plan).where(meal_plan.id == name)).one()


def _sent_beside(setting: Setting, conversation: Conversation) -> Figure:
    with _sent() as sent, RefSession(setting.engine, conversation=conversation) as session:
        _ask(session, setting.ours.meal_plan, "meal_plan_1")
    return Figure(len(sent) - 1, "count", "")


@contextmanager
def _sent() -> Iterator[list[str]]:
    """Yield the statements that any engine sends, growing as they are sent."""
    statements: list[str] = []

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    event.listen(Engine, "before_cursor_execute", note)
    yield statements
    event.remove(Engine, "before_cursor_execute", note)
