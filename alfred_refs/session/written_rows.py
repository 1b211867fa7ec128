"""Which rows a session writes, to be kept for prompts: by objects, and by statements.

An object that was flushed comes in, or a statement with what it came to; out goes what was done
with each row, under the key that its ref names. Rows that have no ref of their own in a session,
as those whose primary key has several columns, are kept where a tool has shown theirs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Result, Table, inspect, select, true
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Mapper, ORMExecuteState

from alfred_refs import sqla
from alfred_refs.errors import EntityNameError, KeyColumnError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.naming import root_of
from alfred_refs.sqla import State
from alfred_refs.store import Action, Activity

from .activity import MOST

_UPSERTS = "on_conflict_do_nothing"  # a method of those inserts that may meet rows


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Tells what was done with rows.

    Attributes:
        entities: which the rows are of.
    """

    entities: Entities

    def of_states(self, action: Action, states: Iterable[State]) -> list[Activity]:
        """Return what was done with the rows of objects, which are called by their labels."""
        done = []
        for state in states:
            if state.key is not None:
                for each in self._done(action, state.class_, [state.key[1]]):
                    label = self.entities.label_of(each.key[0])
                    text = None if label is None else label.of(state.dict)
                    done.append(replace(each, label=text))
        return done

    def reached(self, execution: ORMExecuteState) -> list[Activity]:
        """Return the rows that a statement is about to change or delete: one more statement.

        Of very many rows the first.
        """
        written = _written_by(execution)
        if written is None or not (execution.is_update or execution.is_delete):
            return []
        given: Any = execution.parameters
        if isinstance(given, Sequence):  # by primary key
            found: Sequence[Sequence[Any]] = written.identities(given)
        else:
            statement: Any = execution.statement
            criterion = true() if statement.whereclause is None else statement.whereclause
            schemas = {"schema_translate_map"} & execution.execution_options.keys()
            options = {name: execution.execution_options[name] for name in schemas}
            found = execution.session.execute(
                select(*written.columns).where(criterion).limit(MOST),
                given,
                execution_options={**options, "raw_keys": True},
                bind_arguments=execution.bind_arguments,
            ).all()
        action: Action = "deleted" if execution.is_delete and written.is_whole else "updated"
        return self._done(action, written.of, found[:MOST])

    def created(self, execution: ORMExecuteState, result: Result[Any]) -> list[Activity]:
        """Return the rows that a statement has inserted, where it or the database tells which."""
        written, statement = _written_by(execution), execution.statement
        if not execution.is_insert or written is None:
            return []
        cursor, given = sqla.cursor_result_of(result), execution.parameters
        rows: Sequence[Any] = ()
        if cursor is not None:
            with suppress(InvalidRequestError):  # the database was not asked for them
                rows = cursor.inserted_primary_key_rows or ()
        # of the records of an upsert it is not told which have met a row
        if not rows and isinstance(given, Sequence) and not hasattr(statement, _UPSERTS):
            rows = written.identities(given)
        return self._done("created", written.of, rows[:MOST])

    def _done(
        self, action: Action, of: type[Any] | Table, identities: Iterable[Sequence[Any]]
    ) -> list[Activity]:
        """Return what was done with rows, by the values of their primary key."""
        keys = self._keys_of(of)
        entity = keys.own or self._name_of(of)
        if entity is None:
            return []
        known = (_key_of(keys, each) for each in identities if None not in each)
        is_met = keys.own is None  # by a tool, or it has no ref
        return [Activity((entity, key), action, shown=is_met) for key in known if key is not None]

    def _keys_of(self, of: type[Any] | Table) -> ClassKeys:
        """Return the keys of rows: those of a table alone are its own if its refs name them."""
        if not isinstance(of, Table):
            return self.entities.of_class(root_of(inspect(of).mapper).class_)
        held = tuple(self.entities.of_column(column) for column in of.primary_key)
        name = self._name_of(of)
        is_own = [None if each is None else each.space for each in held] == [name]
        return ClassKeys({}, {}, {}, held, name if is_own else None, {}, None)

    def _name_of(self, of: type[Any] | Table) -> str | None:
        try:
            return self.entities.name_of(of)
        except (EntityNameError, KeyColumnError):  # no toolset has it
            return None


@dataclass(frozen=True, slots=True)
class _Written:
    """What a statement writes to.

    Attributes:
        of: whose rows: of a class, or of a table without one.
        columns: their primary key.
        names: what records call it.
        is_whole: whether a row goes with what is deleted: from the table of a joined subclass
            goes a part of it, and the base's stays.
    """

    of: type[Any] | Table
    columns: Sequence[Any]
    names: Sequence[str]
    is_whole: bool = True

    def identities(self, records: Iterable[Mapping[str, Any]]) -> list[Sequence[Any]]:
        """Return the primary keys that records have, of those that have one."""
        names = self.names
        return [[each[name] for name in names] for each in records if {*names} <= each.keys()]


def _written_by(execution: ORMExecuteState) -> _Written | None:
    """Return what a statement writes to, be it a class or a table."""
    table, mapper = getattr(execution.statement, "table", None), execution.bind_mapper
    names = None if mapper is None else _attributes(mapper)
    if isinstance(table, Table) and mapper is None:
        names = [column.key for column in table.primary_key]
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            return _Written(table, [*table.primary_key], names)
    if mapper is None or names is None:
        return None
    # of the class, not of its table: which kinds of rows there are is asked too
    columns = [getattr(mapper.class_, name) for name in _attributes(mapper)]
    return _Written(
        mapper.class_, columns, names, mapper.local_table is root_of(mapper).local_table
    )


def _attributes(mapper: Mapper[Any]) -> list[str]:
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _key_of(keys: ClassKeys, identity: Sequence[Any]) -> Key | None:
    """Return the key of a row; `None` where no ref can stand for it."""
    key = keys.key_of(identity)
    parts = key if isinstance(key, tuple) else (key,)
    return key if all(isinstance(part, uuid.UUID | int | str) for part in parts) else None
