"""Which key columns a name in an error may mean.

An error names columns and parameters as text: `Key (recipe_id)=(...)`, `{'recipe_id_1': ...}`.
What the metadata tells of them goes out: the `KeyColumn`, that it is data, or that it cannot be
told. Only tables that the application has used, and those beside them in their metadata, are
known. No I/O, and a mistake in the metadata is not raised here: an error is being worded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, Table
from sqlalchemy.exc import NoReferenceError

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.policy import KeyType

# `id_1`, `id_1_2` (a list), `id__0` and `id_m1` (many records) are parameters for a column `id`
_NUMBERED = re.compile(r"_[m_]?\d+$")

_FOREIGN_KEY_VIOLATION = "23503"


class Unsure(Enum):
    """What a name means if it is not a key column."""

    DATA = "data"
    UNKNOWN = "unknown"


Meaning = KeyColumn | Unsure


@dataclass(frozen=True, slots=True)
class Fault:
    """What a database error says of itself, field by field; `None` where it says nothing."""

    sqlstate: str | None = None
    schema: str | None = None
    table: str | None = None
    constraint: str | None = None


class Catalogue:
    """The application's columns by the names that errors have for them."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._tables = entities.met_tables()

    def has_keys_of(self, key_type: KeyType) -> bool:
        """Tell whether there may be keys of a type; without any table known there may."""
        if key_type not in self._entities.policy.key_types:
            return False
        columns = [column for table in self._tables for column in table.columns]
        meanings = map(self._meaning, columns)
        return not columns or any(
            m is Unsure.UNKNOWN or (isinstance(m, KeyColumn) and m.key_type == key_type)
            for m in meanings
        )

    def of_parameter(self, name: str | None, statement: str | None) -> Meaning:
        """Return what a parameter of a statement is compared with or stored in."""
        words = set(re.findall(r"\w+", statement or ""))
        tables = [table for table in self._tables if table.name in words]
        while name:
            columns = [
                c
                for table in tables
                for c in table.columns
                if name in (c.name, c.key, f"{table.name}_{c.name}")
            ]
            if columns:
                return _agreed([self._meaning(column) for column in columns])
            shorter = _NUMBERED.sub("", name)
            name = None if shorter == name else shorter
        return Unsure.UNKNOWN

    def of_detail(self, names: Sequence[str], fault: Fault) -> list[Meaning]:
        """Return what the columns are that a violated constraint has values for.

        A foreign key may be violated from either side: the columns are those of the table that
        has it, or those that it references.
        """
        found = [
            columns
            for table in self._tables
            if table.name == fault.table and table.schema in (None, fault.schema)
            for columns in _violated(table, names, fault)
        ]
        if not found:
            return [Unsure.UNKNOWN] * len(names)
        meanings = [[self._meaning(column) for column in columns] for columns in found]
        return [_agreed(list(one)) for one in zip(*meanings, strict=True)]

    def of_identity(self, path: str) -> list[Meaning] | None:
        """Return what the primary key of a class holds, named as in `<class 'path'>`."""
        classes = sqla.classes_called(path)
        if len(classes) != 1:
            return None
        try:
            identity = self._entities.of_class(classes[0]).identity
        except SetupError:
            return None
        return [column or Unsure.DATA for column in identity]

    def _meaning(self, column: Column[Any] | None) -> Meaning:
        if column is None:
            return Unsure.UNKNOWN
        try:
            # an import in the midst of an error may fail, and take the error's place
            if not self._entities.is_named(column):
                return Unsure.UNKNOWN
            return self._entities.of_column(column) or Unsure.DATA
        except SetupError:
            return Unsure.UNKNOWN


def _agreed(meanings: list[Meaning]) -> Meaning:
    """Return the one meaning of a name in several tables."""
    first, *others = meanings
    if isinstance(first, KeyColumn):
        same = all(
            isinstance(m, KeyColumn) and (m.space, m.key_type) == (first.space, first.key_type)
            for m in others
        )
        return first if same else Unsure.UNKNOWN
    return first if all(m is first for m in others) else Unsure.UNKNOWN


def _violated(table: Table, names: Sequence[str], fault: Fault) -> list[list[Column[Any] | None]]:
    """Return which columns of which tables an error about a table's constraint may name."""
    if fault.sqlstate != _FOREIGN_KEY_VIOLATION:
        columns = {column.name: column for column in table.columns}
        return [[columns.get(name) for name in names]]
    constraints = table.foreign_key_constraints
    named = [c for c in constraints if fault.constraint in (c.name, _default_name(c))]
    sides = [side for constraint in named or constraints for side in _sides(constraint)]
    return [list(side) for side in sides if [column.name for column in side] == list(names)]


def _default_name(constraint: ForeignKeyConstraint) -> str:
    """Return what PostgreSQL calls a foreign key that was given no name."""
    columns = "_".join(column.name for column in constraint.columns)
    return f"{constraint.table.name}_{columns}_fkey"


def _sides(constraint: ForeignKeyConstraint) -> list[list[Column[Any]]]:
    try:
        referenced = [element.column for element in constraint.elements]
    except NoReferenceError:
        referenced = []
    return [list(constraint.columns), referenced]
