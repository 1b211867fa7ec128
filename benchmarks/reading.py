"""What it costs to read rows whose keys all have refs that this process knows.

Each side opens a session, reads every meal plan by the ORM, looks at what it is told to, and
closes the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from alfred_refs import RefSession
from benchmarks.measure import Figure, Side, side_by_side
from benchmarks.setting import Setting
from benchmarks.table import Row

_CALLS = 5  # reads timed together, so that what one leaves to the collector counts too

Look = Callable[[Sequence[Any]], object]
"""What is done with the meal plans that were read."""


def keys_shown(setting: Setting) -> Figure:
    """Compare reading and looking at both keys of each row."""
    return _compared(setting, _ours(setting, _at_keys), _theirs(setting, _at_keys))


def keys_unseen(setting: Setting) -> Figure:
    """Compare reading and looking at no key."""
    return _compared(setting, _ours(setting, len), _theirs(setting, len))


def remapped(setting: Setting) -> Figure:
    """Compare with what an application would write itself: dictionaries of refs by key."""
    meal_plans = {key: f"meal_plan_{n}" for n, key in enumerate(setting.meal_plans, 1)}
    recipes = {key: f"recipe_{n}" for n, key in enumerate(setting.recipes, 1)}

    def at_refs(plans: Sequence[Any]) -> object:
        return [(meal_plans[plan.id], recipes[plan.recipe_id]) for plan in plans]

    return _compared(setting, _ours(setting, _at_keys), _theirs(setting, at_refs))


def plain_session(setting: Setting) -> Figure:
    """Compare plain sessions: on the classes that a `RefSession` has changed, and on twins."""
    changed = _read(partial(Session, setting.engine), setting.ours.meal_plan, _at_keys)
    return _compared(setting, changed, _theirs(setting, _at_keys))


ROWS = (
    Row(
        "ORM read of rows with two keys each, refs known and shown, against keys", 1.25, keys_shown
    ),
    Row("the same, keys not looked at", 1.08, keys_unseen),
    Row("refs shown, against a dict remap written by hand", 1.0, remapped),
    Row("plain Session where the plugin is active, against where it is not", 1.02, plain_session),
)


def _ours(setting: Setting, look: Look) -> Side:
    opened = partial(RefSession, setting.engine, conversation=setting.conversation)
    return _read(opened, setting.ours.meal_plan, look)


def _theirs(setting: Setting, look: Look) -> Side:
    return _read(partial(Session, setting.bare), setting.twins.meal_plan, look)


def _read(opened: Callable[[], Session], meal_plan: type[Any], look: Look) -> Side:
    def read() -> None:
        with opened() as session:
            plans = session.scalars(select(meal_plan)).all()
            look(plans)

    return read


def _at_keys(plans: Sequence[Any]) -> object:
    return [(plan.id, plan.recipe_id) for plan in plans]


def _compared(setting: Setting, ours: Side, theirs: Side) -> Figure:
    return side_by_side(ours, theirs, repetitions=setting.repetitions, calls=_CALLS).by_cpu()
