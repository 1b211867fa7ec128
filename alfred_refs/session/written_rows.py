"""Which rows a session writes, to be kept for prompts: by objects, and by statements.

An object that was flushed comes in, or a statement with what it came to; out goes what was done
with each row, under the key that its ref names. Rows that have no ref of their own in a session,
as those whose primary key has several columns, are kept where a tool has shown theirs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
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
        mapper = _mapper_of(execution)
        if mapper is None or not (execution.is_update or execution.is_delete):
            return []
        names = [mapper.get_property_by_column(column).key for column in mapper.primary_key]
        given: Any = execution.parameters
        if isinstance(given, Sequence):  # by primary key
            found: Sequence[Any] = [
                [each[name] for name in names] for each in given if {*names} <= each.keys()
            ]
        else:
            statement: Any = execution.statement
            criterion = true() if statement.whereclause is None else statement.whereclause
            # of the class, not of its table: which kinds of rows there are is asked too
            rows = select(*(getattr(mapper.class_, name) for name in names)).where(criterion)
            schemas = {"schema_translate_map"} & execution.execution_options.keys()
            options = {name: execution.execution_options[name] for name in schemas}
            found = execution.session.execute(
                rows.limit(MOST),
                given,
                execution_options={**options, "raw_keys": True},
                bind_arguments=execution.bind_arguments,
            ).all()
        # where the table of a joined subclass has its own part of a row, the base's stays
        is_whole = mapper.local_table is root_of(mapper).local_table
        action: Action = "deleted" if execution.is_delete and is_whole else "updated"
        return self._done(action, mapper.class_, found[:MOST])

    def created(self, execution: ORMExecuteState, result: Result[Any]) -> list[Activity]:
        """Return the rows that a statement has inserted, where the database told which."""
        cursor, mapper = sqla.cursor_result_of(result), _mapper_of(execution)
        if not execution.is_insert or cursor is None or mapper is None:
            return []
        try:
            rows: Sequence[Any] = cursor.inserted_primary_key_rows or ()
        except InvalidRequestError:  # the database was not asked for them
            return []
        return self._done("created", mapper.class_, rows)

    def _done(
        self, action: Action, class_: type[Any], identities: Iterable[Sequence[Any]]
    ) -> list[Activity]:
        """Return what was done with rows, by the values of their primary key."""
        keys = self.entities.of_class(root_of(inspect(class_).mapper).class_)
        entity = keys.own or self._name_of(class_)
        if entity is None:
            return []
        known = (_key_of(keys, each) for each in identities if None not in each)
        is_met = keys.own is None  # by a tool, or it has no ref
        return [Activity((entity, key), action, shown=is_met) for key in known if key is not None]

    def _name_of(self, class_: type[Any]) -> str | None:
        try:
            return self.entities.name_of(class_)
        except (EntityNameError, KeyColumnError):  # no toolset has it
            return None


def _mapper_of(execution: ORMExecuteState) -> Mapper[Any] | None:
    """Return the mapper of what a statement writes to, be it a class or its table."""
    table = getattr(execution.statement, "table", None)
    if execution.bind_mapper is None and isinstance(table, Table):
        return sqla.mapper_of_table(table)
    return execution.bind_mapper


def _key_of(keys: ClassKeys, identity: Sequence[Any]) -> Key | None:
    """Return the key of a row; `None` where no ref can stand for it."""
    key = keys.key_of(identity)
    parts = key if isinstance(key, tuple) else (key,)
    return key if all(isinstance(part, uuid.UUID | int | str) for part in parts) else None
