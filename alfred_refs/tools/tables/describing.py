"""The tables of a toolset in a few words, for a prompt or a schema.

Tables come in; lines of text go out, a table's name and under it a line for each column. Only
what a model may use is there: what is hidden is not in the tables. Names and comments are texts of
the application's, and stay inside their line whatever they hold. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import inspect

from alfred_refs.mapping.column_types import Family, Values
from alfred_refs.mapping.labels import clean

from .conditions import quoted
from .lists import lists_of
from .permits import VERBS
from .rules import Rule, rules_of
from .table import ROW_REF, ToolColumn, ToolTable

MOST_CHOICES = 50
"""Choices of a column that are listed; more would crowd out the other columns."""

# family of values -> what a model calls them, where JSON schema has no word that is shorter
_WORDS: Mapping[Family, str] = {"text": "text", "json": "any JSON", "opaque": "raw data"}

_HOW_TO_READ = (
    "Under each table its columns. '*': a new row needs it. '?': may be null. '{entity} ref': a "
    "text such as '{entity}_1', as rows show it. 'related': where to find related rows, for "
    "'columns' and for paths in filters ('name.column')."
)
_HOW_TO_READ_LISTS = " 'lists': what db_edit_list edits by position."


def description_of(tables: Iterable[ToolTable]) -> str:
    """Return what a model needs to know to use tables; empty without tables."""
    listed = list(tables)
    if not listed:
        return ""
    lines = [_HOW_TO_READ.format(entity=listed[0].entity)]
    lines[0] += _HOW_TO_READ_LISTS if any(map(lists_of, listed)) else ""
    for table in listed:
        lines += _table(table)
    return "\n".join(lines)


def _table(table: ToolTable) -> Iterator[str]:
    yield "".join(
        [
            _name(table.name),
            _verbs(table),
            _comment(inspect(table.model).local_table.comment),
        ]
    )
    if table.own is None:
        yield f"  {ROW_REF}: {table.entity} ref, read only"
    rules = rules_of(table)
    beside: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.is_beside:
            beside.setdefault(rule.columns[0], []).append(rule)
    for column in table.columns.values():
        yield f"  {_column(column, table, beside.get(column.name, ()))}"
    if not table.read_only:
        yield from (f"  {rule.line}" for rule in rules if not rule.is_beside)
    if table.targets:
        yield "  related: " + ", ".join(
            f"{_name(name)} ({'many ' if table.relationship(name).uselist else ''}"
            f"{_name(target.name)})"
            for name, target in table.targets.items()
        )
    lists = lists_of(table)
    if lists:
        yield "  lists: " + ", ".join(map(_name, lists))


def _verbs(table: ToolTable) -> str:
    """Return what may not be done to rows of a table."""
    missing = [verb for verb in VERBS if verb not in table.verbs]
    if table.read_only:
        return " (read only)"
    return f" ({', '.join(f'no {verb}' for verb in missing)})" if missing else ""


def _column(column: ToolColumn, table: ToolTable, rules: Sequence[Rule]) -> str:
    needed = "*" if column.required and "create" in table.verbs else ""
    mark = "?" if column.nullable else needed
    chosen = [_choices(rule.choices) for rule in rules if rule.choices]
    said = chosen or [_kind(column)]
    if table.verbs - {"delete"}:
        said += [rule.words for rule in rules if rule.words]
    if "update" in table.verbs and column.creatable and not column.updatable:
        said.append("not changed later")
    elif table.verbs - {"delete"} and not (column.creatable or column.updatable):
        said.append("read only")
    if not column.shown:
        said.append("shown if named")
    return f"{_name(column.name)}{mark}: {', '.join(said)}{_comment(column.doc)}"


def _kind(column: ToolColumn) -> str:
    if column.key is None:
        return _words(column.values)
    ref = f"{column.key.entity} ref"
    return f"[{ref}]" if column.key.array else ref


def _words(values: Values) -> str:
    """Return what values a column has, in as few words as tell a model what to give."""
    if values.item is not None:
        return f"[{_words(values.item)}]"
    if values.longest is not None:
        return f"text, at most {values.longest} characters"
    if values.digits is not None and values.digits.decimals >= 0:
        decimals = values.digits.decimals
        return f"number, {decimals} decimal{'' if decimals == 1 else 's'}"
    if values.family == "choice":
        choices = values.schema["enum"]
        return _choices([quoted(choice) for choice in choices])
    known = _WORDS.get(values.family)
    return known or str(values.schema.get("format") or values.schema["type"])


def _choices(choices: Sequence[str]) -> str:
    shown = " | ".join(choices[:MOST_CHOICES])
    more = len(choices) - MOST_CHOICES
    return shown if more <= 0 else f"{shown} | {more} more"


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment(text: str | None) -> str:
    line = None if text is None else clean(text)
    return "" if line is None else f" - {line}"
