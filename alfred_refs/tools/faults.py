"""Whose fault an exception is: a model's, which it is told, or ours, which is raised.

An exception that came out of a call comes in; a `ToolError` goes out if the model can correct it
from a message, `None` if not. What the driver said is never repeated: the words are our own, and
tell of tables and columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Table, UniqueConstraint
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Mapper

from alfred_refs.errors import (
    BadRefError,
    DraftRefError,
    GoneRefError,
    RawKeyError,
    WrongEntityError,
)

from .errors import (
    CheckFailedError,
    ConflictError,
    MissingValueError,
    StillReferencedError,
    ToolError,
)

# the class of a bad ref -> its code; the first that fits
_REF_CODES: Mapping[type[BadRefError], str] = {
    WrongEntityError: "wrong_entity",
    DraftRefError: "draft_ref",
    GoneRefError: "gone_ref",
    RawKeyError: "raw_key",
    BadRefError: "unknown_ref",
}

# SQLSTATE of a value that the database refuses -> what is wrong with it
_REFUSED_VALUES: Mapping[str, str] = {
    "22001": "a text is longer than its column",
    "22003": "a number is greater or smaller than its column can have",
    "22007": "a date or time is none",
    "22008": "a date or time is beyond what the database can have",
    "22021": "a text has characters that the database cannot have",
    "22P05": "a text has characters that the database cannot have",
    "22025": "a pattern ends in its escape character",
}


def fault_of(error: Exception, table: Table | None) -> ToolError | None:
    """Return what a model is told of an exception; `None` if it is not the model's fault.

    Args:
        error: that ended a call.
        table: that was read or written.
    """
    if isinstance(error, ToolError):
        return error
    if isinstance(error, BadRefError):
        return _bad_ref(error)
    if isinstance(error, DBAPIError) and table is not None:
        return _refused(error, table)
    return None


def _bad_ref(error: BadRefError) -> ToolError:
    code = next(code for class_, code in _REF_CODES.items() if isinstance(error, class_))
    data: dict[str, Any] = {"ref": error.ref, "known": list(error.known)}
    data |= {"expected": error.expected} if error.expected is not None else {}
    data |= {"near": error.near} if error.near is not None else {}
    data |= {"labels": dict(error.labels)} if error.labels else {}
    return ToolError(code, _for_models(str(error), error), **data)


def _for_models(message: str, error: BadRefError) -> str:
    """Return the message without what only trusted code can do."""
    if isinstance(error, RawKeyError):
        return message.replace(", or use session.raw_keys() in trusted code", "")
    return message


def _refused(error: DBAPIError, table: Table) -> ToolError | None:
    """Return what a model is told of what the database refused."""
    said = _said(error)
    named = said.get("table_name")
    name = table.name if named is None else str(named)
    match said["sqlstate"]:
        case "23505" | "23P01":
            return ConflictError(name, _columns_of(said.get("constraint_name"), table))
        case "23502":
            column = said.get("column_name")
            return MissingValueError(name, [] if column is None else [str(column)])
        case "23503":
            return StillReferencedError(name)
        case "23514":
            return CheckFailedError(name, said.get("constraint_name"))
        case str(state) if state.startswith("22"):
            fact = _REFUSED_VALUES.get(state, "a value does not fit its column")
            return ToolError(
                "invalid_value", f"{fact}; nothing was changed; give another value", field=None
            )
    return None


def _said(error: DBAPIError) -> dict[str, Any]:
    """Return what a driver's exception says, field by field: in its `diag`, or by itself."""
    found: dict[str, Any] = {"sqlstate": None}
    each: BaseException | None = error.orig
    while each is not None:
        diagnosis: Any = getattr(each, "diag", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        found["sqlstate"] = found["sqlstate"] or state
        for name in ("table_name", "column_name", "constraint_name"):
            value = getattr(diagnosis, name, None)
            if value is not None:
                found.setdefault(name, value)
        each = each.__cause__
    return found


def _columns_of(constraint: str | None, table: Table) -> list[str]:
    """Return the columns of what is unique, by its name or that which PostgreSQL gives it."""
    if constraint is None:
        return []
    for columns in _unique(table):
        names = [column.name for column in columns]
        if constraint in (f"{table.name}_{'_'.join(names)}_key", f"{table.name}_pkey"):
            return names
    return next((names for name, names in _named(table) if name == constraint), [])


def _unique(table: Table) -> Iterable[list[Column[Any]]]:
    yield from ([*c.columns] for c in table.constraints if isinstance(c, UniqueConstraint))


def _named(table: Table) -> Iterable[tuple[str | None, list[str]]]:
    for constraint in table.constraints:
        if constraint.name is not None:
            yield str(constraint.name), [c.name for c in getattr(constraint, "columns", ())]
    for index in table.indexes:
        yield index.name, [column.name for column in index.columns]


def table_of(mapper: Mapper[Any]) -> Table | None:
    """Return the table that a class's rows are in."""
    return mapper.local_table if isinstance(mapper.local_table, Table) else None
