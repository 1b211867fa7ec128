"""Tool errors: code, message, data.

A model receives a `ToolError` if its call cannot be done and the model can correct it. The message
states the fact, then the remedy. It may quote the model's arguments and names of tables and
columns that the model may use, never a key.

Each code has a function below that builds the message:

>>> error = invalid_filter("day", "has no value for '='", "give one, or use 'is_null'")
>>> error.to_json()
{'error': {'code': 'invalid_filter', 'message': "the filter on 'day' has no value for '='; give
one, or use 'is_null'", 'field': 'day'}}

Codes of bad refs (`unknown_ref`, `wrong_entity`, ...) come from exceptions of the plugin: see
`faults`. All codes are listed in `docs/tool-errors.md`.

Functions that check arguments raise `ToolError`, or `BadRefError` for a ref that cannot be used;
the docstrings of this package mention that only where a caller would not expect it.

Limits: messages do not quote the database or the driver, because their texts may contain keys, or
values of rows that the model cannot see.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from alfred_refs.errors import BadRefError, DriftError, PositionError, RefError

_MAX_CONFLICTS = 20  # in one error


class ToolError(RefError):
    """A call of a tool that a model can correct from the message; nothing was changed.

    Hooks raise it to refuse a call.

    Args:
        code: the kind of error, in `snake_case`; `docs/tool-errors.md` lists the codes of this
            package.
        message: the fact, then the remedy, without keys.
        data: the values in the message, as JSON.

    Attributes:
        code: the same.
        message: the same.
        data: the same.

    Example:
        >>> class Locked(Hooks):
        ...     def before_write(self, write):
        ...         raise ToolError("locked", "recipes are locked; try again tomorrow")
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Locked()]})
        >>> toolset.call(session, "db_create", {"table": "recipes", "data": {"name": "Curry"}})
        {'error': {'code': 'locked', 'message': 'recipes are locked; try again tomorrow'}}
    """

    def __init__(self, code: str, message: str, **data: Any) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__()

    def _error_text(self) -> str:
        return self.message

    def in_row(self, number: int) -> ToolError:
        """Return the same error with the number of the row, for a call with several rows.

        Args:
            number: the position of the row in the call, from 1.
        """
        error = copy(self)
        error.message = f"row {number}: {self.message}"
        error.data = {**self.data, "row": number}
        error.args = (error.message,)
        return error

    def to_json(self) -> dict[str, Any]:
        """Return the error as the answer of a call."""
        return {"error": {"code": self.code, "message": self.message, **self.data}}


def invalid_arguments(
    fact: str, field: str | None = None, remedy: str = "look at its schema and call again"
) -> ToolError:
    """Report that the arguments do not match the tool's schema."""
    where, data = ("", {}) if field is None else (f" at {field!r}", {"field": field})
    message = f"the arguments do not fit the tool{where}: {fact}; {remedy}"
    return ToolError("invalid_arguments", message, **data)


def unknown_tool(tool: str, tools: Sequence[str]) -> ToolError:
    """Report that no tool has this name."""
    message = f"there is no tool {tool!r}; use one of {_quote_names(tools)}"
    return ToolError("unknown_tool", message, tool=tool, tools=[*tools])


def unknown_table(table: str, tables: Sequence[str]) -> ToolError:
    """Report that no table that the model may use has this name."""
    message = f"there is no table {table!r}; use one of {_quote_names(tables)}"
    return ToolError("unknown_table", message, table=table, tables=[*tables])


def unknown_column(
    table: str, column: str, columns: Sequence[str], *, is_read: bool = False
) -> ToolError:
    """Report that the column does not exist, or that the model may not use it here."""
    fact = f"table {table!r} has no column {column!r} to use here"
    if is_read:
        fact = f"{column!r} of table {table!r} can be read, and is not written here"
    remedy = f"use one of {_quote_names(columns)}" if columns else "leave it out: it has none"
    return ToolError(
        "unknown_column", f"{fact}; {remedy}", table=table, column=column, columns=[*columns]
    )


def linked_elsewhere(table: str, name: str, links: str) -> ToolError:
    """Report that links between existing rows are written in another table (many-to-many)."""
    return ToolError(
        "linked_elsewhere",
        f"{name!r} of table {table!r} is not written here; to add to it or remove from it, create "
        f"and delete rows of {links!r}",
        table=table,
        column=name,
        links=links,
    )


def read_only_table(table: str, verbs: Sequence[str] = ()) -> ToolError:
    """Report that rows of a table cannot be written, or not by this verb."""
    message = f"table {table!r} can be read and not changed; read it, or change another table"
    if verbs:
        *past, last = ["read", *(f"{verb}d" for verb in verbs)]
        actions = f"{', '.join(past)} and {last}"
        message = (
            f"rows of table {table!r} can be {actions} only; do that, or change another table"
        )
    return ToolError("read_only_table", message, table=table, verbs=[*verbs])


def unknown_list(table: str, name: str, lists: Sequence[str]) -> ToolError:
    """Report that a table has no list of this name that the model may edit."""
    message = f"table {table!r} has no list {name!r} to edit by position"
    message += f"; use one of {_quote_names(lists)}" if lists else "; change its rows instead"
    return ToolError("unknown_list", message, table=table, list=name, lists=[*lists])


def unordered_list(name: str, fact: str, *, is_seen: bool) -> ToolError:
    """Report that the stored positions of a list are missing or ambiguous.

    `is_seen`: whether the list has no usable order even in a preview, which repairs it if
    possible.
    """
    remedy = "change its rows by their refs"
    if not is_seen:
        remedy = (
            "look at the list with preview and no edits, and give its token with the edits, "
            f"or {remedy}"
        )
    return ToolError("unordered_list", f"{fact}; {remedy}", list=name)


def fixed_item(name: str) -> ToolError:
    """Report that rows of a list cannot be moved to another row."""
    message = f"items of {name!r} cannot leave the row that they are in; move them inside it"
    return ToolError("fixed_item", message, list=name)


def hidden_items(name: str) -> ToolError:
    """Report that hooks hide rows of a list, so positions would differ from those in a read."""
    message = f"some items of {name!r} are not shown; change the others by their refs"
    return ToolError("hidden_items", message, list=name)


def conflicting_edits(error: PositionError) -> ToolError:
    """Report that edits of one list contradict each other, with all conflicts by position."""
    conflicts = [
        {"code": each.code, "edits": [*each.edits], "fact": each.fact}
        for each in error.conflicts[:_MAX_CONFLICTS]
    ]
    return ToolError("conflicting_edits", str(error), conflicts=conflicts)


def list_changed(error: DriftError) -> ToolError:
    """Report that a list has changed since the model received its token."""
    message = (
        f"the list {error.name!r} has changed since you were given that token; nothing was "
        "changed; look at it with preview and no edits, and choose positions anew"
    )
    return ToolError("list_changed", message, list=error.name)


def invalid_filter(field: str, fact: str, remedy: str) -> ToolError:
    """Report that a filter cannot be evaluated; filters are never ignored."""
    return ToolError("invalid_filter", f"the filter on {field!r} {fact}; {remedy}", field=field)


def missing_filter(tool: str) -> ToolError:
    """Report that a write without filters would touch every row of a table."""
    return ToolError(
        "missing_filter",
        f"{tool} needs at least one filter, so that it cannot touch every row; say which rows, "
        "for example by their refs",
    )


def invalid_value(field: str, wanted: str) -> ToolError:
    """Report that a column cannot have a value; the value is not repeated."""
    message = f"the value given for {field!r} does not fit; it takes {wanted}"
    return ToolError("invalid_value", message, field=field)


def missing_value(table: str, columns: Sequence[str], *, is_given: bool = True) -> ToolError:
    """Report that a new row lacks a required value, or that an update would remove one.

    `columns`: the missing columns that the model sees; `is_given`: whether the model can write
    them.
    """
    remedy = "give it and call again"
    if not is_given:
        remedy = "that is not for you to give, so such rows cannot be written with this tool"
    needed = _quote_names(columns) if columns else "a column"
    message = f"a row of {table!r} needs a value for {needed}; {remedy}"
    return ToolError("missing_value", message, table=table, columns=[*columns])


def invalid_order(column: str, fact: str, columns: Sequence[str]) -> ToolError:
    """Report that rows cannot be ordered by a column."""
    message = (
        f"rows cannot be ordered by {column!r}, which {fact}; use one of {_quote_names(columns)}"
    )
    return ToolError("invalid_order", message, column=column, columns=[*columns])


def invalid_total(name: str, fact: str, remedy: str) -> ToolError:
    """Report that a total does not exist, or that a column cannot be grouped by."""
    return ToolError("invalid_total", f"{name!r} in columns {fact}; {remedy}", column=name)


def invalid_cursor(*, gone: str | None = None, changed: str | None = None) -> ToolError:
    """Report that a cursor belongs to another read, is damaged, or its row has changed."""
    message = (
        "the cursor does not belong to this read; give the cursor of the last answer with the "
        "same table, filters and order, or read again from the start without one"
    )
    if gone is not None or changed is not None:
        fate = "can no longer be found" if changed is None else "has changed since"
        fact = f"{gone or changed!r}, the row where the last answer ended, {fate}"
        message = f"{fact}; read again from the start without cursor"
    return ToolError("invalid_cursor", message)


def too_many_rows(tool: str, most: int, *, along: bool = False) -> ToolError:
    """Report that a write reaches more rows than one call may change."""
    fact = f"more than {most} rows match, and one {tool} changes at most {most}"
    remedy = "narrow the filters"
    if tool == "db_create":
        fact = f"more than {most} rows are given, and one {tool} makes at most {most}"
        remedy = "make several calls of it"
    if along:
        fact = f"more than {most} rows would be changed, with those that refer to them"
        remedy = "write those in calls of their own first"
    return ToolError("too_many_rows", f"{fact}; nothing was changed; {remedy}", most=most)


_LESS = (
    "fewer filters, none by a path or a pattern that begins with '%', or a smaller part of the "
    "rows"
)


def too_slow(seconds: float, less: str = _LESS) -> ToolError:
    """Report that a statement took longer than a call may, and was cancelled."""
    return ToolError(
        "too_slow",
        f"the call took longer than {seconds:g} seconds and was stopped; nothing was changed; "
        f"ask for less: {less}",
        seconds=seconds,
    )


def unreadable_value(table: str) -> ToolError:
    """Report that a column type of the application cannot read a stored value."""
    return ToolError(
        "unreadable_value",
        f"a row of {table!r}, or one read with it, has a value that the application cannot read; "
        "nothing was changed; leave its column or the row out",
        table=table,
    )


def invalid_sql(fact: str, remedy: str) -> ToolError:
    """Report that a SELECT by the model cannot be executed."""
    return ToolError("invalid_sql", f"the statement cannot be answered: {fact}; {remedy}")


def too_deep(table: str) -> ToolError:
    """Report that a document in a row is nested too deep to be read."""
    return ToolError(
        "too_deep",
        f"a document in a row of {table!r} is nested too deep to be read; nothing was changed; "
        "name the other columns in 'columns', or other rows",
        table=table,
    )


def mixed_drafts(tool: str, drafts: Sequence[str]) -> ToolError:
    """Report that a write names drafts although its filters may match rows too."""
    are = "is" if len(drafts) == 1 else "are"
    return ToolError(
        "mixed_drafts",
        f"the filters name {_quote_names(drafts)}, which {are} not saved, and may hit rows too; "
        f"nothing was changed; call {tool} for the drafts by their refs, and once more for the "
        "rows",
        drafts=[*drafts],
    )


def unexpected_row(ref: str, column: str, actual: Any, expected: Any) -> ToolError:
    """Report that a row does not have the value or label that the model expects."""
    return ToolError(
        "unexpected_row",
        f"{ref!r} was expected to have {column} {expected!r} and has {actual!r}; nothing was "
        "changed; read the row again and call with what it has now",
        ref=ref,
        column=column,
        actual=actual,
        expected=expected,
    )


def unconfirmed_ref(rows: Mapping[str, tuple[str, str]]) -> ToolError:
    """Report that a write names rows without their labels; the error contains the labels.

    A ref with a wrong digit may name another row. Each row has its label and the field for it.
    """
    labels_shown = ", ".join(f"{ref!r} is {label!r}" for ref, (label, _) in rows.items())
    fields = dict.fromkeys(field for _, field in rows.values())
    by_ref = {ref: label for ref, (label, field) in rows.items() if field == f"expect.{ref}"}
    others = dict.fromkeys(field for ref, (_, field) in rows.items() if ref not in by_ref)
    needed = [f"{json.dumps(by_ref, ensure_ascii=False)} in 'expect'"] if by_ref else []
    needed += [f"the label in {_quote_names(others)}"] if others else []
    return ToolError(
        "unconfirmed_ref",
        f"{labels_shown}; nothing was changed; if you mean "
        f"{'that row' if len(rows) == 1 else 'these rows'}, say so: call again with "
        f"{' and '.join(needed)}",
        labels={ref: label for ref, (label, _) in rows.items()},
        fields=[*fields],
    )


def unconfirmed_count(table: str, count: int) -> ToolError:
    """Report that a write without refs does not state how many rows it reaches."""
    rows, them, all_of = (
        ("1 row", "it", "that row") if count == 1 else (f"{count} rows", "them", "all of them")
    )
    return ToolError(
        "unconfirmed_count",
        f"the filters match {rows} of {table!r} and do not name {them} by ref; nothing was "
        f"changed; if you mean {all_of}, call again with {{\"count\": {count}}} in 'expect'",
        table=table,
        count=count,
        fields=["expect"],
    )


def unexpected_count(table: str, actual: int, expected: int) -> ToolError:
    """Report that the filters of a write match a different number of rows than expected."""
    return ToolError(
        "unexpected_count",
        f"the filters were expected to match {expected} of {table!r} that can be changed, and "
        f"match {actual}; nothing was changed; read the rows, and call with filters that match "
        "those that you mean",
        table=table,
        actual=actual,
        expected=expected,
    )


def ambiguous_label(ref: str, other: str, label: str, field: str) -> ToolError:
    """Report that two rows have the same label, so it does not identify one of them."""
    return ToolError(
        "ambiguous_label",
        f"{ref!r} and {other!r} both have the label {label!r}; nothing was changed; instead of "
        f"it, give values by column in {field!r} that tell them apart",
        refs=[ref, other],
        label=label,
        fields=[field],
    )


def conflict(
    table: str, columns: Sequence[str], *, is_hidden: bool = False, rule: str | None = None
) -> ToolError:
    """Report that a unique constraint is violated by an existing row or another row of the call.

    `is_hidden`: whether hidden columns are part of it; `rule`: its description, if it does more
    than compare columns.
    """
    same = f"the same {_quote_names(columns)}"
    if rule is not None:
        same = f"values that only one row may have ({rule})"
    elif not columns:
        hidden = "are not shown, and that " if is_hidden else ""
        same = f"values that {hidden}only one row may have"
    return ToolError(
        "conflict",
        f"a row of {table!r} with {same} is there already (maybe one that you cannot see), or two "
        "of this call are the same; nothing was changed; read the rows that there are and update "
        "one, or give other values",
        table=table,
        columns=[*columns],
    )


def overlap(table: str, columns: Sequence[str]) -> ToolError:
    """Report that an exclusion constraint is violated."""
    among = f" in {_quote_names(columns)}" if columns else ""
    return ToolError(
        "conflict",
        f"a row of {table!r} is there (maybe one that you cannot see) whose values{among} exclude "
        "the given ones, or two of this call exclude each other; nothing was changed; read the "
        "rows that there are, and give values that do not overlap with theirs",
        table=table,
        columns=[*columns],
    )


def still_referenced(
    table: str,
    referring: str | None,
    refs: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    *,
    verbs: Collection[str] | None = None,
    change: str = "deleted from",
) -> ToolError:
    """Report that other rows refer to a row, or to rows deleted with it, so it cannot change.

    Args:
        table: the table in which rows were to be deleted or changed.
        referring: the table of the referring rows; `None` if the model may not know it.
        refs: refs of some of the referring rows.
        labels: their labels, by ref.
        verbs: the verbs that the model may use on them; "update" if it may change their reference;
            `None` if unknown.
        change: the refused change, for the message, such as "deleted from".
    """
    others = "other rows" if referring is None else f"rows of {referring!r}"
    names = f" ({_quote_names(refs)})" if refs else ""
    remedy_by_verb = {"delete": "delete those", "update": "let those refer to something else"}
    remedies = [way for verb, way in remedy_by_verb.items() if verbs is None or verb in verbs]
    remedy = f"{', or '.join(remedies)}, first"
    if not remedies:
        remedy = "those are not yours to change, so leave the row as it is"
    return ToolError(
        "still_referenced",
        f"{others}{names} still refer to what would be {change} {table!r}, or would go with it; "
        f"nothing was changed; {remedy}",
        table=table,
        referring=referring,
        refs=[*refs],
        **({"labels": dict(labels)} if labels else {}),
    )


def circular_reference(tables: Sequence[str]) -> ToolError:
    """Report that rows cannot be deleted because they refer to each other, or to themselves."""
    return ToolError(
        "circular_reference",
        f"rows of {_quote_names(tables)} refer to each other in a circle, or to themselves; "
        "nothing was changed; set one of the references to null, then delete them",
        tables=[*tables],
    )


def missing_reference(table: str, columns: Sequence[str]) -> ToolError:
    """Report that a referenced row does not exist."""
    what = _quote_names(columns) if columns else "the row"
    return ToolError(
        "missing_reference",
        f"what {what} of {table!r} refers to is not there; nothing was changed; read what there "
        "is, and refer to that",
        table=table,
        columns=[*columns],
    )


def foreign_row(
    ref: str | None, column: str | None, refs: Sequence[str] = (), *, is_given: bool = False
) -> ToolError:
    """Report that a row belongs to another owner and cannot be changed or seen.

    The message is the same as for a missing row, unless the owner may read the rows (`refs`).
    `is_given`: whether the ref is an argument of a function tool, which may be read-only.
    """
    row = "a row" if ref is None else repr(ref)
    fact = "cannot be changed" if column is None else f"cannot be used in {column!r}"
    remedy = "read the rows that can, and use one"
    if refs:
        row, fact = _quote_names(refs), "can be read and not changed"
        remedy = "leave that as it is, or create a row of your own and change it"
    nothing = "nothing was changed"
    if is_given:
        fact, nothing, remedy = "cannot be used here", "nothing was done", "read rows, and use one"
    message, data = f"{row} {fact}; {nothing}; {remedy}", {"refs": [*refs]}
    return ToolError("foreign_row", message, ref=ref, column=column, **(data if refs else {}))


def check_failed(
    table: str, rule: str | None = None, columns: Sequence[str] = (), *, is_hidden: bool = False
) -> ToolError:
    """Report that a CHECK constraint forbids values. The name of the constraint is not shown.

    `rule`: its description; `None` if unknown. `is_hidden`: whether it has hidden columns too.
    """
    about = f" on {_quote_names(columns)}" if columns and rule is None else ""
    others = " and on columns that are not shown" if is_hidden else ""
    of = f"table {table!r}" if rule or about or others else "the database"
    words, remedy = "", "others"
    if rule is not None:
        words, remedy = f": {rule}", "values that keep to it"
    return ToolError(
        "check_failed",
        f"a rule of {of}{about}{others} forbids these values{words}; nothing was changed; give "
        f"{remedy}",
        table=table,
        rule=rule,
        columns=[*columns],
    )


def unknown_ref(ref: str, error: BadRefError) -> ToolError:
    """Report that a ref is in angle brackets, in which texts show keys.

    Args:
        ref: the ref, without brackets.
        error: the error for the text with brackets.
    """
    fact = f"refs are given without angle brackets, and {ref!r} has them"
    expected, near = error.expected, error.near
    remedy = "leave them out" if near is None else error.remedy
    if ref.startswith("key_"):
        fact = f"{ref!r} is a key in a text whose row is not known, and no ref"
        rows = "the rows" if expected is None else f"the {expected} rows"
        remedy = f"read {rows} that may have it: texts show its ref from then on"
    others = {"expected": expected, "near": near}
    data = {name: each for name, each in others.items() if each is not None}
    message = f"{fact}; {remedy}"
    return ToolError("unknown_ref", message, ref=ref, known=[*error.known], **data)


def not_permitted(table: str, tool: str, *, is_policy: bool = False) -> ToolError:
    """Report that the database forbids a call.

    Args:
        table: the table.
        tool: the tool.
        is_policy: whether row-level security forbids the values of a row, and not a privilege the
            whole statement.
    """
    fact = f"the application lacks a privilege in the database for this {tool} of table {table!r}"
    remedy = "name other columns, or use another table"
    if is_policy:
        fact, remedy = f"the database forbids these values in table {table!r}", "give other values"
    elif tool not in ("db_read", "db_query"):
        remedy = "leave out columns that need no change, or tell the user"
    done = "" if tool in ("db_read", "db_query") else "; nothing was changed"
    return ToolError("not_permitted", f"{fact}{done}; {remedy}", table=table)


def invalid_content(fact: str, remedy: str) -> ToolError:
    """Report that the content of a draft, or of new rows, cannot be saved."""
    return ToolError("invalid_content", f"{fact}; {remedy}")


def no_semantic_search(table: str) -> ToolError:
    """Report that no hook implements semantic search in this table."""
    message = f"table {table!r} cannot be searched by meaning; filter by its columns"
    return ToolError("no_semantic_search", message, table=table)


def no_totals(table: str) -> ToolError:
    """Report that rows of a table cannot be counted, because hooks may hide rows or values."""
    message = f"rows of table {table!r} can be read, and not counted or added up; read them"
    return ToolError("no_totals", message, table=table)


def no_sql(table: str) -> ToolError:
    """Report that a table cannot be queried by SQL, because it has read hooks."""
    message = f"rows of table {table!r} are not there for SQL; read them with db_read"
    return ToolError("no_sql", message, table=table)


def plan_changed(
    summary: str, number: int | None = None, differences: Sequence[str] = ()
) -> ToolError:
    """Report that the effect of a call would differ from its plan.

    Args:
        summary: the summary of the current effect.
        number: the number of the call, if it waits for a person.
        differences: the differences between the two plans.
    """
    if number is None:
        message = f"the rows have changed since the call was planned; call again: {summary}"
        return ToolError("plan_changed", message)
    few = "; ".join(differences[:_MAX_CONFLICTS])
    message = "the call would not do what that plan says; look at the new plan"
    return ToolError("plan_changed", f"{message}: {few or summary}", call=number)


def unknown_call(number: Any) -> ToolError:
    """Report that no such call waits, or has waited, for a person."""
    fact = f"no call {number!r} of this conversation waits, or has waited, for a person"
    return ToolError("unknown_call", f"{fact}; use the number in the answer of the call")


def already_done(number: int, by: str | None) -> ToolError:
    """Report to a person who rejects a call that it was already done."""
    who = "it needed nobody" if by is None else f"{by} has approved it"
    return ToolError("already_done", f"call {number} was done: {who}; undo() takes it back")


def gone_ref(draft: str, row: str) -> ToolError:
    """Report that the row that a draft was saved as was deleted."""
    message = f"{draft!r} was saved as {row!r}, which was deleted since; nothing was created"
    remedy = "to create such a row again, give its values in 'data'"
    return ToolError("gone_ref", f"{message}; {remedy}", ref=draft)


def rejected(number: int, reason: str | None) -> ToolError:
    """Report that a person has not approved a call."""
    because = "" if not reason else f": {reason}"
    message = f"the call was not approved{because}; do not repeat it, ask the user what to do"
    return ToolError("rejected", message, call=number)


def in_doubt(number: int) -> ToolError:
    """Report that it is unknown whether a call was done, because its process ended early."""
    message = "it is not known whether the call was done; read the rows before you call again"
    return ToolError("in_doubt", message, call=number)


def undo_conflict(conflicts: Sequence[str]) -> ToolError:
    """Report that a call cannot be undone, because later changes would be lost."""
    few = "; ".join(conflicts[:_MAX_CONFLICTS])
    more = len(conflicts) - _MAX_CONFLICTS
    message = f"nothing was undone: {few}" + (f"; and {more} more" if more > 0 else "")
    return ToolError("undo_conflict", message, conflicts=[*conflicts[:_MAX_CONFLICTS]])


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
