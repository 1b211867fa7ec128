"""Translation of exceptions into tool errors.

`fault_of` takes an exception that ended a call. It returns a `ToolError` if the model can correct
the call, and `None` if it is a mistake of the application or of this package; the exception is
then raised.

>>> recipes = toolset.tables.by_name("recipes")
>>> try:
...     session.get(Recipe, "recipe_9")
... except BadRefError as error:
...     fault = fault_of(error, "db_read", recipes, toolset.tables.entities)
>>> fault.code, fault.data["known"]
('unknown_ref', ['recipe_1', 'recipe_2'])
>>> fault_of(ValueError("a bug"), "db_read", recipes, toolset.tables.entities)

- Bad refs keep their message, without refs of entities that the model may not use.
- Errors of the database are recognised by SQLSTATE. The message is our own and names tables and
  columns; a violated constraint is described by `rules`.
- An exception by which the application refuses values is quoted in the answer: a `ValueError` or a
  failed `assert` in `@validates`, a setter, a constructor, a default, or a listener of the flush.
- A value that a type of the application cannot convert becomes an answer, and is logged.
- All other exceptions of the application's code are raised.
- A violated constraint on hidden columns is not the model's fault, so the exception is raised.

Limits: the driver's message is never quoted, so an SQLSTATE that is not listed has a generic
message.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.exc import DataError, DBAPIError, StatementError

from alfred_refs.errors import (
    BadRefError,
    CircularDraftsError,
    DiscardedDraftError,
    DraftContentError,
    DraftRefError,
    DriftError,
    ForeignRowError,
    GoneRefError,
    PositionError,
    RawKeyError,
    SavedDraftError,
    StaleDraftError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.mapping import KEY, parse_draft_ref, parse_ref
from alfred_refs.sqla import driver_error_fields, is_in_default, is_in_flush, is_in_load
from alfred_refs.tools.errors import (
    ToolError,
    check_failed,
    conflict,
    conflicting_edits,
    foreign_row,
    invalid_content,
    list_changed,
    missing_reference,
    missing_value,
    not_permitted,
    overlap,
    still_referenced,
    too_deep,
    too_slow,
    unknown_ref,
    unreadable_value,
)
from alfred_refs.tools.rules import Rule, rules_named
from alfred_refs.tools.tables import ToolTable

_log = logging.getLogger("alfred_refs.tools")

# the exception of a bad ref -> its code; the first match counts
_REF_CODES: Mapping[type[BadRefError], str] = {
    WrongEntityError: "wrong_entity",
    UnknownDraftError: "unknown_draft",
    DiscardedDraftError: "discarded_draft",
    SavedDraftError: "saved_draft",
    StaleDraftError: "stale_draft",
    CircularDraftsError: "circular_reference",
    DraftRefError: "draft_ref",
    GoneRefError: "gone_ref",
    RawKeyError: "raw_key",
    BadRefError: "unknown_ref",
}

# SQLSTATE of a refused value or an exceeded limit -> the fact
_FACTS: Mapping[str, str] = {
    "22000": "Python or the database has no such value, for example an infinite date",
    "22001": "a text is longer than its column",
    "22003": "a number is out of the range of its column",
    "22007": "a date or time is invalid",
    "22008": "a date or time is out of range",
    "22021": "a text has characters that the database cannot have",
    "22P05": "a text has characters that the database cannot have",
    "22025": "a pattern ends in its escape character",
    "54000": "a text is too long for an index on its column",
    "54001": "it is nested deeper than the database can follow",
    "54011": "it asks for more columns than the database can show at once",
    "54023": "it has more values than the database takes at once",
}

_CODE_REMEDY = "read the drafts, or generate one"  # models have no tool for this

_MARK = re.compile(r"<(\w+_\d+)>")  # a key in a text

_UNFIT: Mapping[str, Any] = {"sqlstate": "22023"}
_QUERY_CANCELED = "57014"
_DATA_EXCEPTION = "22000"
_INSUFFICIENT_PRIVILEGE = "42501"  # also for a row that row-level security refuses,
_POLICY_CHECK = "ExecWithCheckOptions"  # by this function of the server
_RAISE_EXCEPTION = "P0001"  # raised by a trigger; its message is not for models


# Exceptions by which the application refuses values; pydantic's errors are `ValueError`s too.
_REFUSALS = (ValueError, AssertionError)
# Exceptions of its types for values that they cannot convert.
_UNCONVERTIBLE = (*_REFUSALS, TypeError, LookupError, ArithmeticError, AttributeError)


@contextmanager
def refusing_values(table: str) -> Iterator[None]:
    """Raise a `ToolError` if the application refuses values while attributes are set."""
    try:
        yield
    except _REFUSALS as error:
        raise _refused_by_class(error, "db_create", table) from None


def _refused_by_class(error: BaseException, tool: str, table: str) -> ToolError:
    """Return the tool error for values that the application refuses, with its message."""
    code, fact = "invalid_value", f"a row of {table!r} cannot have these values"
    if tool == "db_delete":
        code, fact = "check_failed", f"a rule of {table!r} forbids this; the row is kept"
    return ToolError(code, f"{fact}: {error}" if str(error) else fact, table=table)


def fault_of(
    error: Exception,
    tool: str,
    table: ToolTable | None,
    listed_entities: Collection[str],
    *,
    time_limit: float | None = None,
) -> ToolError | None:
    """Return the tool error for an exception; `None` if the model cannot correct it.

    Args:
        error: the exception that ended a call.
        tool: the tool that was called.
        table: the table that was read or written, if known.
        listed_entities: the entities of all tables that the model may use; refs of others are
            removed.
        time_limit: the time limit of one statement in seconds, if the call took that long.
    """
    fault: ToolError | None = None
    match error:
        case ToolError():
            fault = error
        case BadRefError():
            fault = _ref_fault(without_unlisted(error, listed_entities), tool)
        case DraftContentError():
            fault = invalid_content(error.fact, error.remedy)
        case ForeignRowError():
            fault = _foreign_row_fault(error, table)
        case PositionError() | DriftError():
            fault = (
                list_changed(error) if isinstance(error, DriftError) else conflicting_edits(error)
            )
        case RecursionError() if table is not None:
            fault = too_deep(table.name)
        case DBAPIError():
            fault = _database_fault(error, tool, table, time_limit)
        case _ if table is not None:
            fault = _application_fault(error, tool, table)
    return fault


def is_unreadable(error: Exception) -> bool:
    """Return whether a type of the application could not read the value of a row."""
    return is_in_load(error) and isinstance(error, _UNCONVERTIBLE)


def _application_fault(error: Exception, tool: str, table: ToolTable) -> ToolError | None:
    """Return the tool error for an exception from code of the application's mapping."""
    orig = error.orig if isinstance(error, StatementError) else None
    if is_unreadable(error):
        _log.warning("a value of a row cannot be read", exc_info=error)
        return unreadable_value(table.name)
    if orig is not None and not is_in_default(orig) and isinstance(orig, _UNCONVERTIBLE):
        _log.warning("a value of a call cannot be stored", exc_info=error)
        return _database_refusal(_UNFIT, tool, table)
    refused = error if orig is None and is_in_flush(error) else orig
    return _refused_by_class(refused, tool, table.name) if isinstance(refused, _REFUSALS) else None


def _database_fault(
    error: DBAPIError, tool: str, table: ToolTable | None, slow: float | None
) -> ToolError | None:
    fields = driver_error_fields(error)
    if fields["sqlstate"] == _QUERY_CANCELED:
        return None if slow is None else too_slow(slow)
    if table is None:
        return None
    if fields["sqlstate"] is None and isinstance(error, DataError):
        fields["sqlstate"] = _DATA_EXCEPTION  # raised by the driver itself
    return _database_refusal(fields, tool, table)


def _foreign_row_fault(error: ForeignRowError, table: ToolTable | None) -> ToolError | None:
    """Return the tool error for a row of another owner.

    If the column is hidden from the model, the application has set the value, so the exception is
    raised.
    """
    column = error.what.rpartition(".")[2] if error.named else None
    if table is not None and column is not None:
        mapped = inspect(table.model).mapper.column_attrs
        if column in mapped and column not in table.columns:
            return None
    return foreign_row(error.ref, column)


def without_unlisted(error: BadRefError, listed_entities: Collection[str]) -> BadRefError:
    """Return an error without suggestions of refs whose entity the model may not use.

    If the model passed a ref of such an entity, the ref is reported as unknown.
    """
    suggestions = [*error.known, *([] if error.near is None else [error.near])]
    limited = error.offering([ref for ref in suggestions if _entity_in(ref) in listed_entities])
    entity = None if error.ref is None else _entity_in(error.ref)
    if error.ref is None or entity in (None, KEY, error.expected, *listed_entities):
        return limited
    known = {ref: limited.labels.get(ref) for ref in limited.known}
    unknown = UnknownRefError if parse_draft_ref(error.ref) is None else UnknownDraftError
    return unknown(error.ref, error.expected, known, limited.near)


def _entity_in(text: str) -> str | None:
    ref = parse_ref(text)
    return None if ref is None else ref.entity


def _ref_fault(error: BadRefError, tool: str) -> ToolError:
    mark = _MARK.fullmatch(error.ref or "")
    if mark is not None:
        return unknown_ref(mark[1], error)
    code = next(code for class_, code in _REF_CODES.items() if isinstance(error, class_))
    data: dict[str, Any] = {"ref": error.ref, "known": list(error.known)}
    data |= {"expected": error.expected} if error.expected is not None else {}
    data |= {"near": error.near} if error.near is not None else {}
    data |= {"labels": dict(error.labels)} if error.labels else {}
    data |= {"saved": error.saved} if isinstance(error, SavedDraftError) else {}
    return ToolError(code, _message_for_model(str(error), error, tool), **data)


def _message_for_model(message: str, error: BadRefError, tool: str) -> str:
    """Return the message without remedies that only application code can use."""
    if isinstance(error, RawKeyError):
        _, _, known = message.rpartition("; ")
        return f"a database key cannot be used here; give a ref; {known}"
    remedy = "create the row with data" if tool == "db_create" else "use the ref of a row"
    return message.replace(_CODE_REMEDY, f"{remedy} instead")


def _database_refusal(fields: Mapping[str, Any], tool: str, table: ToolTable) -> ToolError | None:
    """Return the tool error for a database error, by its SQLSTATE."""
    state = str(fields["sqlstate"])
    if state.startswith(("22", "54")):
        return _refused_value(state)
    if state == _INSUFFICIENT_PRIVILEGE:
        is_policy = fields.get("source_function") == _POLICY_CHECK
        return not_permitted(table.name, tool, is_policy=is_policy)
    if state == _RAISE_EXCEPTION and tool != "db_read":
        return check_failed(table.name)
    referring = fields.get("table_name")
    if state in ("23503", "23001") and tool == "db_delete":
        return still_referenced(table.name, _name_of(referring, table))
    is_referred = state == "23503" and referring not in (None, *table.database_names)
    if tool == "db_update" and (is_referred or state == "23001"):
        known = _name_of(referring, table)
        return still_referenced(table.name, known, change="changed in")
    return _constraint_fault(
        state, fields.get("constraint_name"), fields.get("column_name"), table
    )


def _refused_value(state: str) -> ToolError:
    """Return the tool error for a refused value or an exceeded limit."""
    fact, remedy = "a value does not fit its column", "give another value"
    if state.startswith("54"):
        fact, remedy = "it is more than the database can do at once", "give less"
    if state == _DATA_EXCEPTION:
        remedy += ", or, if it is one that a row has, leave its column or the row out"
    message = f"{_FACTS.get(state, fact)}; nothing was changed; {remedy}"
    return ToolError("invalid_value", message, field=None)


def _name_of(referring: str | None, table: ToolTable) -> str | None:
    """Return the model's name for the table of the referring rows, or `None`."""
    near = {table.name: table, **{each.name: each for each in table.targets.values()}}
    names = {inspect(each.model).mapper.local_table.name: name for name, each in near.items()}
    return None if referring is None else names.get(referring)


def _constraint_fault(
    state: str, constraint: str | None, column: str | None, table: ToolTable
) -> ToolError | None:
    """Return the tool error for a constraint violation."""
    rules = rules_named(constraint, table)
    columns = [*dict.fromkeys(name for rule in rules for name in rule.columns)]
    is_hidden = any(rule.is_hidden for rule in rules)
    match state:
        case "23505":
            words = None if all(rule.is_simple for rule in rules) else _describe_rules(rules)
            return conflict(table.name, columns, is_hidden=is_hidden, rule=words)
        case "23P01":
            return overlap(table.name, columns)
        case "23502":
            attributes = inspect(table.model).mapper.columns.items()
            visible = [
                table.columns[name]
                for name, each in attributes
                if each.name == column and name in table.columns
            ]
            is_given = column is None or any(each.creatable for each in visible)
            return missing_value(table.name, [c.name for c in visible], is_given=is_given)
        case "23503":
            return missing_reference(table.name, columns)
        # the application sets values in hidden columns
        case "23514" if columns or not rules:
            return check_failed(table.name, _describe_rules(rules), columns, is_hidden=is_hidden)
    return None


def _describe_rules(rules: Sequence[Rule]) -> str | None:
    """Return the descriptions of the possibly violated rules; `None` if they have none."""
    words = [*filter(None, map(str, rules))]
    if len(words) < 2:  # noqa: PLR2004
        return words[0] if words else None
    return f"one of these rules: {'; or '.join(words)}"
