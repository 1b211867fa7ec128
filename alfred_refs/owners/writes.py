"""`WriteGuard`: access checks for everything that a session with an owner writes.

The compiler already limits UPDATE and DELETE to rows that the owner may write (`ownership`). This
module checks the values, which decide two questions:

1. **Who owns the row?** The owner's column of a new row is filled in. A value that the program
   sets must be the session's owner, and nothing moves a row to another owner.
2. **What does it refer to?** Each foreign key must name a row that the owner may read; one that
   decides who owns the row must name a row that the owner may write. All foreign keys of an
   operation are looked up together: one query for each target table.

An error is the same for a row of another owner and for one that does not exist.

A guard serves one operation. Where it is called from (`session.session`):

| operation | calls |
| --- | --- |
| flush | `before_flush`, and `after_flush` for what later listeners have changed |
| `bulk_save_objects` | `check_objects` |
| INSERT, UPDATE, DELETE | `confine`, which may change the statement or its parameters |
| `bulk_insert_mappings`, `bulk_update_mappings` | `confine_records` |
| any INSERT or UPDATE that is sent | `check_sent`, with defaults and `onupdate` values filled in |

>>> from alfred_refs import Ownership
>>> ownership = Ownership({Recipe: "user_id", Line: "recipe"})
>>> toast = chat.resolve("recipe_2")  # of another owner
>>> with sessions(conversation="chat-8", owner=ownership.of(ann)) as own:
...     own.add(Recipe(name="Stew"))
...     own.flush()
...     own.add(Line(recipe_id=toast, position=1, text="1 loaf"))
...     own.flush()
Traceback (most recent call last):
    ...
alfred_refs.errors.ForeignRowError: a row in Line.recipe_id cannot be used here; ...

Limits:

- A foreign key must be given as plain values, all of its columns together: an SQL expression
  raises `UnconfinedError`, as its value is not known before it is executed.
- Rows that triggers write are not seen.
- A row that is deleted between the check and the COMMIT is left to the constraint.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from weakref import WeakSet

from sqlalchemy import BindParameter, ClauseElement, Column, Table
from sqlalchemy.orm import (
    InstanceState,
    Mapper,
    ORMExecuteState,
    Session,
    UOWTransaction,
    attributes,
)

from alfred_refs import sqla
from alfred_refs.errors import ForeignRowError, UnconfinedError
from alfred_refs.owners.confinement import Confinement, attribute_of

State = InstanceState[Any]

Record = dict[str, Any]
"""The values of one row, by the keys of its columns; in bulk operations by attribute."""


class WriteGuard:
    """Checks what one operation of a session with an owner writes.

    Args:
        confinement: of the session.
        session: the session.
        only: in a flush inside `unconfined()`, the instances that were pending before; `None` for
            all.
    """

    def __init__(
        self, confinement: Confinement, session: Session, only: WeakSet[State] | None = None
    ) -> None:
        self._confinement = confinement
        self._session = session
        self._only = only
        self._foreign_keys = ForeignKeyCheck(confinement, session)
        self._checked: set[State] = set()  # instances whose rows may be written

    # Instances

    def before_flush(self) -> None:
        """Fill in the owner of new instances, and check all that are to be flushed.

        Raises:
            ForeignRowError: the owner may not write an instance, or not read a row that it names.
            UnconfinedError: the ownership does not know a class.
        """
        session = self._session
        new = self._select_guarded(map(sqla.state_of, session.new))
        persistent = self._select_guarded(map(sqla.state_of, (*session.dirty, *session.deleted)))
        for state in new:
            self._set_owner(state)
        self._check(new, persistent)

    def after_flush(self, flush: UOWTransaction) -> None:
        """Check the flush once it was sent: other `before_flush` listeners may have added to it.

        Raises:
            ForeignRowError: as for `before_flush`; the flush is rolled back.
        """
        saved, deleted = map(self._select_guarded, sqla.flushed_states(flush))
        self._confinement.owned_pending.clear()
        new = [state for state in saved if state.key is None]
        late = [state for state in saved if state.key is not None]
        for state in deleted:
            if state in self._checked:
                continue
            # its row is deleted, so a query cannot decide any more
            if self._confinement.known_access(self._session, state, writing=True) is False:
                raise self._foreign_row(state)
        self._check(new, late, are_sent=True)

    def check_objects(self, objects: Iterable[object]) -> None:
        """Do the same as `before_flush` for instances that are saved without a flush.

        Raises:
            ForeignRowError: as for `before_flush`.
        """
        states = [sqla.state_of(each) for each in objects]
        new = [state for state in states if state.key is None]
        for state in new:
            self._set_owner(state)
        self._check(new, [state for state in states if state.key is not None], are_sent=True)

    def _select_guarded(self, states: Iterable[State]) -> list[State]:
        only = self._only
        return [state for state in states if only is None or state in only]

    def _check(
        self, new: Sequence[State], persistent: Sequence[State], *, are_sent: bool = False
    ) -> None:
        unchecked = [state for state in persistent if state not in self._checked]
        foreign = self._confinement.inaccessible(self._session, unchecked, writing=True)
        if foreign:
            raise self._foreign_row(foreign[0])
        self._checked.update(persistent)
        for state in (*new, *persistent):
            self._check_owner(state)
            self._add_foreign_keys(state, are_sent=are_sent)
            self._check_association_rows(state)
        for state in new:
            self._add_identity(state)
        self._foreign_keys.check()

    def _set_owner(self, state: State) -> None:
        for name, column in self._owner_attributes(state):
            if state.dict.get(name) is None:
                attributes.set_attribute(state.obj(), name, self._confinement.owner_value(column))

    def _owner_attributes(self, state: State) -> Iterator[tuple[str, Any]]:
        for column in self._confinement.owner_columns(state.mapper.tables):
            yield attribute_of(state.mapper, column), column

    def _check_owner(self, state: State) -> None:
        """Check the owner in an instance. An attribute that is not loaded was not changed."""
        for name, column in self._owner_attributes(state):
            if name in state.dict and _has_changed(state, [name]):
                what = f"{state.class_.__name__}.{name}"
                self._confinement.check_owner(column, state.dict[name], what)

    def _add_foreign_keys(self, state: State, *, are_sent: bool) -> None:
        for table in state.mapper.tables:
            for columns, target in self._foreign_keys.of_table(table):
                names = sqla.attributes_of(state.mapper, columns)
                if _has_changed(state, names.values()):
                    values = _values_of(columns, names, state.dict)
                    what = f"{state.class_.__name__}.{next(iter(names.values()))}"
                    is_final = are_sent or state.key is not None
                    self._foreign_keys.add(target, values, what, is_final=is_final)

    def _check_association_rows(self, state: State) -> None:
        """Check the instances that were added to many-to-many relationships."""
        if not self._confinement.may_have_foreign:
            return
        for relationship in state.mapper.relationships:
            if relationship.secondary is not None and not relationship.viewonly:
                added = sqla.added_states(state, relationship.key)
                if self._confinement.inaccessible(self._session, added, writing=False):
                    what = f"{state.class_.__name__}.{relationship.key}"
                    raise ForeignRowError(what, named=True)

    def _add_identity(self, state: State) -> None:
        table = sqla.root_of(state.mapper).local_table
        if isinstance(table, Table):
            names = sqla.attributes_of(state.mapper, table.primary_key)
            self._foreign_keys.add_new(
                table, tuple(state.dict.get(names.get(c, "")) for c in table.primary_key)
            )

    def _foreign_row(self, state: State) -> ForeignRowError:
        [column, *more] = sqla.root_of(state.mapper).primary_key
        ref = None
        if not more and state.key is not None:
            ref = self._confinement.ref_of(column, state.key[1][0])
        return ForeignRowError(state.class_.__name__, ref)

    # Statements

    def confine(self, execution: ORMExecuteState) -> None:
        """Fill in the owner of the rows of an INSERT, and check the values of a statement.

        Raises:
            ForeignRowError: a value names another owner, or a row that the owner cannot read.
            UnconfinedError: a value is not known before it is executed.
        """
        statement: Any = execution.statement
        table = sqla.underlying_table(getattr(statement, "table", None))
        if table is None:
            return
        confinement = self._confinement
        if execution.is_insert:
            self._confine_insert(execution, _Target.of(statement, table))
        elif _is_evaluated_in_python(execution) and (
            confinement.may_have_foreign or confinement.ownership.is_shared(table)
        ):
            # the ORM would change instances by the criteria of the statement alone, of rows too
            # that the criteria of the owner leave as they are
            execution.update_execution_options(synchronize_session="fetch")
        is_from_select = execution.is_insert and statement.select is not None
        if not (execution.is_delete or is_from_select):  # refused when it is compiled
            target = _Target.of(execution.statement, table)
            given: Any = execution.parameters or {}
            rows: Iterable[Any] = [given] if isinstance(given, Mapping) else given
            self._add_records(target, _records(execution.statement, target, rows))
            if self._foreign_keys.any and execution.execution_options.get("autoflush", True):
                sqla.autoflush(execution.session)
            self._foreign_keys.check()
            confinement.statement_guard = self

    def check_sent(self, statement: Any, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Check the foreign keys of an INSERT or UPDATE as it is sent, with all its parameters.

        Foreign keys that `confine` has checked are not looked up again.

        Raises:
            ForeignRowError: a foreign key names a row that the owner cannot read.
            UnconfinedError: the value of a foreign key is not known.
        """
        table = sqla.underlying_table(statement.table)
        if table is None:
            return
        target = _Target(table, None)
        self._add_records(target, _records(statement, target, parameters))
        self._foreign_keys.check()

    def confine_records(
        self, mapper: Mapper[Any], records: Iterable[Record], *, new: bool
    ) -> list[Record]:
        """Return the records of a bulk operation, by attribute, with the owner if they are new.

        Raises:
            ForeignRowError: one names another owner, or a row that the owner cannot read.
        """
        target = _Target(cast(Table, mapper.local_table), mapper)
        confined = list(records)
        column = next(self._confinement.owner_columns(target.tables), None)
        if new and column is not None:
            confined = [self._with_owner(target, column, record) for record in confined]
        self._add_records(target, ((target.record(record), new) for record in confined))
        self._foreign_keys.check()
        return confined

    def _confine_insert(self, execution: ORMExecuteState, target: _Target) -> None:
        """Fill in the owner wherever an INSERT has its values."""
        # a joined subclass has it in the table of its base
        column = next(self._confinement.owner_columns(target.tables), None)
        statement: Any = execution.statement
        if column is None or statement.select is not None:
            return
        given, many = execution.parameters, sqla.many_values_of(statement)
        single = target.record(dict(sqla.values_of(statement)))
        owner = self._confinement.owner_value(column)
        if many:
            batches = [[target.record(row) for row in batch] for batch in many]
            for record in itertools.chain(*batches):
                self._check_record_owner(column, record)
            owned = tuple([{**record, column.key: owner} for record in batch] for batch in batches)
            execution.statement = sqla.with_many_values(statement, owned)
        elif column.key in single or not given:
            self._check_record_owner(column, single)
            # under the name that values() has for it, so that the value is replaced
            names = (n for n, _ in sqla.values_of(statement) if target.key(n) == column.key)
            execution.statement = sqla.with_value(statement, next(names, column), owner)
        elif isinstance(given, Mapping):
            execution.parameters = self._with_owner(target, column, given)
        else:
            execution.parameters = [self._with_owner(target, column, row) for row in given]

    def _with_owner(self, target: _Target, column: Column[Any], row: Mapping[str, Any]) -> Record:
        """Return the parameters of one row with its owner."""
        self._check_record_owner(column, target.record(row))
        return {**row, target.name(column): self._confinement.owner_value(column)}

    def _check_record_owner(self, column: Column[Any], record: Record) -> None:
        given = record.get(column.key)
        # a parameter without a value is filled by the parameters of the execution
        value = given if getattr(given, "required", False) else _plain_value(given, {})
        if value is not None:
            self._confinement.check_owner(column, value, str(column))

    def _add_records(self, target: _Target, records: Iterable[tuple[Record, bool]]) -> None:
        """Add the foreign keys of records, each with whether its row is new."""
        foreign_keys = [
            (columns, referred)
            for table in target.tables
            for columns, referred in self._foreign_keys.of_table(table)
            # rows of one instance in the tables of a joined hierarchy are inserted together
            if not (
                referred.decides
                and referred.table in target.tables
                and referred.table is not table
            )
        ]
        for record, is_new in records if foreign_keys else ():
            for columns, referred in foreign_keys:
                self._add_record(record, columns, referred, is_new=is_new)

    def _add_record(
        self,
        record: Record,
        columns: Sequence[Column[Any]],
        target: ForeignKeyTarget,
        *,
        is_new: bool,
    ) -> None:
        names = {column: column.key for column in columns}
        what = ", ".join(map(str, names))
        is_given = not record.keys().isdisjoint(names.values())
        values = _values_of(columns, names, record)
        if is_given and (values is None or any(isinstance(v, ClauseElement) for v in values)):
            raise UnconfinedError(
                f"the foreign key {what}",
                "give the key itself, and all columns of a foreign key that has several",
            )
        self._foreign_keys.add(target, values, what, is_final=is_given or is_new)


def check_sent(
    confinement: Confinement,
    session: Session,
    statement: Any,
    parameters: Sequence[Mapping[str, Any]],
) -> None:
    """Check an INSERT or UPDATE as it is sent, by the guard of its statement if there is one.

    This sees what no other check sees: statements that mapper events execute on the session's
    connection, rows of association tables in a flush, defaults and `onupdate` values.

    Raises:
        ForeignRowError: as for `WriteGuard.check_sent`.
        UnconfinedError: as for `WriteGuard.check_sent`.
    """
    guard = confinement.statement_guard
    if not isinstance(guard, WriteGuard):
        guard = WriteGuard(confinement, session)
    guard.check_sent(statement, parameters)


# Foreign keys


@dataclass(frozen=True, slots=True)
class ForeignKeyTarget:
    """The columns that a foreign key refers to.

    Attributes:
        columns: they are of one table.
        decides: whether the row that it names decides who owns the referring row.
    """

    columns: tuple[Any, ...]
    decides: bool

    @property
    def table(self) -> Any:
        """The table that it refers to."""
        return self.columns[0].table


class ForeignKeyCheck:
    """Collects the foreign keys of rows that are to be written, and looks them up together."""

    def __init__(self, confinement: Confinement, session: Session) -> None:
        self._confinement = confinement
        self._session = session
        # target -> values -> their name in an error
        self._unchecked: dict[ForeignKeyTarget, dict[tuple[Any, ...], str]] = {}
        self._checked: dict[ForeignKeyTarget, set[tuple[Any, ...]]] = {}
        self._new: set[tuple[Table, tuple[Any, ...]]] = set()

    @property
    def any(self) -> bool:
        """Whether there is anything to look up."""
        return bool(self._unchecked)

    def of_table(self, table: Any) -> Iterator[tuple[Sequence[Any], ForeignKeyTarget]]:
        """Yield the foreign keys of a table: their columns and their targets.

        The relationship that decides who owns a row counts too, if it has no constraint in the
        database.
        """
        belonging = self._confinement.ownership.belonging_of(table)
        deciding = () if belonging is None else belonging.pairs
        foreign_keys = [
            tuple((element.parent, element.column) for element in constraint.elements)
            for constraint in table.foreign_key_constraints
        ]
        if deciding and all(set(each) != set(deciding) for each in foreign_keys):
            foreign_keys.append(deciding)
        for pairs in foreign_keys:
            columns, referred = zip(*pairs, strict=True)
            # the owner's column is checked by value
            if belonging is None or all(c is not belonging.column for c in columns):
                decides = set(pairs) == set(deciding)
                yield columns, ForeignKeyTarget(referred, decides=decides)

    def add(
        self,
        target: ForeignKeyTarget,
        values: tuple[Any, ...] | None,
        what: str,
        *,
        is_final: bool,
    ) -> None:
        """Add a foreign key of a row.

        Args:
            target: the columns that it refers to.
            values: of its columns; `None` if not all are given.
            what: its name in an error.
            is_final: whether all values are set; others may be filled in by the flush.

        Raises:
            ForeignRowError: it decides who owns the row, and is null.
            UnconfinedError: the ownership does not know its table, or a value is an expression.
        """
        if target.decides and is_final and (values is None or any(v is None for v in values)):
            raise ForeignRowError(what, named=True)
        if values is None:
            return
        if any(isinstance(value, ClauseElement) for value in values):
            raise UnconfinedError(f"the foreign key {what}", "give the key itself")
        if None in values or self._confinement.ownership.belonging_of(target.table) is None:
            return
        if values not in self._checked.get(target, ()):
            self._unchecked.setdefault(target, {}).setdefault(values, what)

    def add_new(self, table: Table, identity: tuple[Any, ...]) -> None:
        """Add a row that the same flush inserts, which foreign keys may name."""
        self._new.add((table, identity))

    def check(self) -> None:
        """Look up the rows that were added since the last check.

        Raises:
            ForeignRowError: a row is another owner's, or does not exist.
        """
        unchecked, self._unchecked = self._unchecked, {}
        look_up = partial(self._confinement.accessible_values, self._session)
        for target, whats in unchecked.items():
            unknown = [values for values in whats if not self._is_in_session(target, values)]
            accessible = (
                look_up(target.columns, unknown, writing=target.decides) if unknown else ()
            )
            for values in unknown:
                if values not in accessible:
                    [column, *more] = target.columns
                    ref = None if more else self._confinement.ref_of(column, values[0])
                    raise ForeignRowError(whats[values], ref, named=True)
            self._checked.setdefault(target, set()).update(whats)

    def _is_in_session(self, target: ForeignKeyTarget, values: tuple[Any, ...]) -> bool:
        """Return whether the session has the row, and it is certain that it is the owner's."""
        if set(target.columns) != set(target.table.primary_key):
            return False
        identity = dict(zip(target.columns, values, strict=True))
        key = tuple(identity[column] for column in target.table.primary_key)
        if (target.table, key) in self._new:
            return True
        mapper = sqla.mapper_of_table(target.table)
        if mapper is None:
            return False
        instance = self._session.identity_map.get(mapper.identity_key_from_primary_key(key))
        return instance is not None and self._confinement.is_certain(
            self._session, sqla.state_of(instance), writing=target.decides
        )


# Values of instances and statements


def _has_changed(state: State, names: Iterable[str]) -> bool:
    """Return whether an instance is new, or one of these attributes differs from its row."""
    return state.key is None or any(name in state.committed_state for name in names)


def _values_of(
    columns: Iterable[Any], names: Mapping[Any, str], values: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return the values of columns, by their names; `None` if one has no value."""
    keys = [names.get(column, "") for column in columns]
    return tuple(values[key] for key in keys) if all(key in values for key in keys) else None


class _Target:
    """The table that a statement writes, with the tables and attributes of its class."""

    def __init__(self, table: Table, mapper: Mapper[Any] | None) -> None:
        self.table = table
        self.tables: Sequence[Any] = [table] if mapper is None else mapper.tables
        # by each name under which values can be given: column keys and attributes
        self._columns: dict[str, Column[Any]] = {column.key: column for column in table.columns}
        if mapper is not None:
            names = sqla.attributes_of(mapper, [c for t in self.tables for c in t.columns])
            self._columns |= {name: column for column, name in names.items()}
        self._names = {column: name for name, column in self._columns.items()}

    @classmethod
    def of(cls, statement: Any, table: Table) -> _Target:
        """Return the target of a statement."""
        _, mapper = sqla.write_target(statement)
        return cls(table, mapper)

    def record(self, row: Any) -> Record:
        """Return the values of one row by the keys of its columns."""
        if not isinstance(row, Mapping):
            row = dict(zip(self.table.columns.keys(), row, strict=False))
        return {self.key(name): value for name, value in row.items()}

    def sent_values(self, parameters: Mapping[str, Any], position: int) -> Record:
        """Return the values of one row of a multi-row VALUES, by the keys of its columns.

        SQLAlchemy names their parameters `name_m0`, `name_m1`, ...; for defaults of the first row
        it uses the name alone.
        """
        keys = [column.key for column in self.table.columns]
        first = (
            {key: parameters[key] for key in keys if key in parameters} if position == 0 else {}
        )
        return first | {
            key: parameters[name] for key in keys if (name := f"{key}_m{position}") in parameters
        }

    def name(self, column: Column[Any]) -> str:
        """Return the name of a column in parameters: its attribute's, if it has one."""
        return self._names[column]

    def key(self, name: Any) -> str:
        """Return the key of the column with this name."""
        text = str(getattr(name, "key", name))
        column = self._columns.get(text)
        return text if column is None else column.key


def _is_evaluated_in_python(execution: ORMExecuteState) -> bool:
    """Return whether the ORM applies the statement's criteria to instances in Python."""
    strategy = execution.execution_options.get("synchronize_session", "auto")
    is_bulk = isinstance(execution.parameters, list)
    return execution.is_orm_statement and not is_bulk and strategy in ("auto", "evaluate")


def _records(
    statement: Any, target: _Target, rows: Iterable[Any]
) -> Iterator[tuple[Record, bool]]:
    """Yield the values of each row of a statement, and of the SET of an upsert.

    With each comes whether the row is new, so that a column without a value is null.
    """
    many = [each for batch in sqla.many_values_of(statement) for each in batch]
    single = target.record(dict(sqla.values_of(statement)))
    # ON CONFLICT DO UPDATE takes the keys of columns, and no attributes
    on_conflict = {str(getattr(n, "key", n)): v for n, v in sqla.conflict_values_of(statement)}
    # `excluded.name` is a value of the row to be inserted, which is checked as such
    excluded = getattr(statement, "excluded", statement)
    on_conflict = {
        n: v for n, v in on_conflict.items() if getattr(v, "table", None) is not excluded
    }
    for row in rows:
        for position, each in enumerate(many):
            record = target.record(each) | target.sent_values(row, position)
            yield _plain_record(record, row), statement.is_insert
        if not many:
            yield _plain_record(single | target.record(row), row), statement.is_insert
        if on_conflict:
            yield _plain_record(on_conflict, row), False


def _plain_record(record: Record, parameters: Mapping[str, Any]) -> Record:
    return {name: _plain_value(value, parameters) for name, value in record.items()}


def _plain_value(value: Any, parameters: Mapping[str, Any]) -> Any:
    """Return the value of a bind parameter; other expressions stay as they are."""
    if isinstance(value, BindParameter):
        return parameters.get(value.key, sqla.parameter_value(value))
    return value
