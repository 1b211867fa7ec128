"""Run a shape with keys or with refs, and return its rows and all tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import Result, Row, orm, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import ResourceClosedError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Query, Session, aliased

from tests import models
from tests.models import Recipe
from tests.shapes.table import Shape
from tests.shapes.world import KEYS, NEW

_REF = re.compile(r'"((?:recipe|meal_plan|preference|person|box|order)_[0-9]+)"')

_NAMES = {
    **vars(sqlalchemy),
    **vars(orm),
    **vars(models),
    "aggregate_order_by": postgresql.aggregate_order_by,
    "pg_insert": postgresql.insert,
    "other": aliased(Recipe, name="other"),
    "new": NEW,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a shape.

    Attributes:
        rows: its rows; None for a statement without rows.
        tables: the rows of all tables afterwards, with keys.
    """

    rows: list[Any] | None
    tables: list[Any]


def with_keys(code: str) -> str:
    """Return the code with keys in place of refs."""
    return _REF.sub(r'keys["\1"]', code)


def run(
    shape: Shape, session: Session, spelling: Callable[[str], str], form: Callable[[Any], Any]
) -> Outcome:
    """Execute a shape, and roll back.

    Args:
        shape: to execute.
        session: a `RefSession` or a plain one.
        spelling: returns the code to run: `str` for refs, or `with_keys`.
        form: converts values to a comparable form, while the session is open.
    """
    statement, parameters = _read(shape, session, spelling)
    try:
        if isinstance(statement, Query):
            rows = [tuple(row) if isinstance(row, Row) else row for row in statement.all()]
            return _outcome(rows, session, form)
        return _outcome(_rows(session.execute(statement, parameters)), session, form)
    finally:
        session.rollback()


async def run_awaited(shape: Shape, session: AsyncSession, form: Callable[[Any], Any]) -> Outcome:
    """Execute a shape with refs, and read its rows outside of any awaited call."""
    statement, parameters = await session.run_sync(lambda sync: _read(shape, sync, str))
    try:
        if isinstance(statement, Query):
            return await session.run_sync(lambda sync: run(shape, sync, str, form))
        rows = _rows(await session.execute(statement, parameters))
        shown = None if rows is None else [form(row) for row in rows]
        return await session.run_sync(lambda sync: _outcome(shown, sync, lambda row: row))
    finally:
        await session.rollback()


def _read(shape: Shape, session: Session, spelling: Callable[[str], str]) -> tuple[Any, Any]:
    """Evaluate a shape: return its statement and parameters."""
    names = {**_NAMES, "session": session, "keys": KEYS, "ancestors_of": ancestors_of}
    code = (shape.code, shape.parameters or "None")
    statement, parameters = (eval(spelling(part), names) for part in code)  # noqa: S307  # our own
    return statement, parameters


def _outcome(rows: list[Any] | None, session: Session, form: Callable[[Any], Any]) -> Outcome:
    return Outcome(rows and sorted(map(form, rows), key=repr), _tables(session))


def _rows(result: Result[Any]) -> list[Any] | None:
    try:
        return [tuple(row) for row in result]
    except ResourceClosedError:  # a write without RETURNING
        return None


def _tables(session: Session) -> list[Any]:
    session.flush()
    connection = session.connection()
    tables = models.Base.metadata.sorted_tables
    return [sorted(map(repr, connection.execute(select(table)))) for table in tables]


def ancestors_of(recipe: Any) -> sqlalchemy.Select[Any]:
    """Select a recipe and its ancestors, by a recursive CTE."""
    found = (
        select(Recipe.id, Recipe.parent_recipe_id)
        .where(Recipe.id == recipe)
        .cte("found", recursive=True)
    )
    above = select(Recipe.id, Recipe.parent_recipe_id).join(
        found, found.c.parent_recipe_id == Recipe.id
    )
    return select(found.union_all(above))
