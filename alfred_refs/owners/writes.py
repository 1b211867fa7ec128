"""What statements of a session that has an owner write: inserts are stamped, references checked.

An execution comes in and leaves with the owner in each row that it inserts. Which rows an update
or a delete reaches is the compiler's part; here is what values say: another owner, or a foreign
key that names what the owner cannot see. What is not a plain value cannot be looked at, and is
refused where it would be a foreign key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, Column, Executable, Table
from sqlalchemy.orm import Mapper, ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.errors import UnconfinedError

from .confinement import Confinement
from .references import References, Target, changed_values

Record = dict[str, Any]
"""What one row is given, by the names of its columns."""


def confine_write(confinement: Confinement, execution: ORMExecuteState) -> None:
    """Have an insert, update or delete write what the owner may write.

    Raises:
        ForeignRowError: a value names another owner, or a row that the owner cannot see.
        UnconfinedError: what is written cannot be told.
    """
    statement = execution.statement
    table = sqla.table_behind(getattr(statement, "table", None))
    if table is None:
        return
    if execution.is_insert:
        _stamp(confinement, execution, _target(statement, table))
    elif _evaluates(execution) and (
        confinement.doubtful or confinement.ownership.is_shared(table)
    ):
        # as the database answers: an instance of a row that may only be read stays as it is
        execution.update_execution_options(synchronize_session="fetch")
    if not execution.is_delete:
        _check(confinement, execution, _target(execution.statement, table))


def check_sent(
    confinement: Confinement,
    session: Session,
    statement: Any,
    parameters: Sequence[Mapping[str, Any]],
) -> None:
    """Look at an insert or an update as it is sent: the last look, with all that fills it.

    It may have been executed on the session's connection itself, as events of mappers do; what a
    flush writes of an association is none of any instance; and parameters, defaults and what is
    done `onupdate` go before what the statement says. What `confine_write` has seen is not asked
    for again.

    Raises:
        ForeignRowError: a foreign key names a row that the owner cannot see.
        UnconfinedError: what it names cannot be told.
    """
    table = sqla.table_behind(statement.table)
    if table is None:
        return
    target = _Target(table, None)
    seen = confinement.seen
    references = seen if isinstance(seen, References) else References(confinement, session)
    _add_all(references, target, _records_of(statement, target, parameters))
    references.check()


def _evaluates(execution: ORMExecuteState) -> bool:
    """Tell whether the ORM goes by the criteria of the statement alone to update instances."""
    asked = execution.execution_options.get("synchronize_session", "auto")
    is_bulk = isinstance(execution.parameters, list)
    return execution.is_orm_statement and not is_bulk and asked in ("auto", "evaluate")


def confined_records(
    confinement: Confinement,
    session: Session,
    mapper: Mapper[Any],
    records: Iterable[Record],
    *,
    new: bool,
) -> list[Record]:
    """Return the records of a bulk operation, by the names of attributes, as they may be written.

    Raises:
        ForeignRowError: one names another owner, or a row that the owner cannot see.
    """
    target = _Target(cast(Table, mapper.local_table), mapper)
    given, column = list(records), next(confinement.owner_columns(target.tables), None)
    if new and column is not None:
        given = [_stamped(confinement, target, column, record) for record in given]
    references = References(confinement, session)
    _add_all(references, target, ((target.record(record), new) for record in given))
    references.check()
    return given


class _Target:
    """The table that a statement writes, those that its class is mapped to, and by which names."""

    def __init__(self, table: Table, mapper: Mapper[Any] | None) -> None:
        self.table = table
        self.tables: Sequence[Any] = [table] if mapper is None else mapper.tables
        # by each name that a value may be given under
        self.columns: dict[str, Column[Any]] = {column.key: column for column in table.columns}
        if mapper is not None:
            names = sqla.attributes_of(mapper, [c for t in self.tables for c in t.columns])
            self.columns |= {name: column for column, name in names.items()}
        self._names = {column: name for name, column in self.columns.items()}

    def record(self, given: Any) -> Record:
        """Return the values of one row by the keys of its columns."""
        if not isinstance(given, Mapping):
            given = dict(zip(self.table.columns.keys(), given, strict=False))
        return {self.key(name): value for name, value in given.items()}

    def sent(self, row: Mapping[str, Any], place: int) -> Record:
        """Return what the parameters have for one row of many, by the keys of its columns.

        That is what it is given, by `name_m0`, `name_m1`, and what defaults fill in: for the first
        row by the name alone.
        """
        keys = [column.key for column in self.table.columns]
        first = {key: row[key] for key in keys if key in row} if place == 0 else {}
        return first | {key: row[name] for key in keys if (name := f"{key}_m{place}") in row}

    def name(self, column: Column[Any]) -> str:
        """Return by which name a column is given in parameters: that of its attribute, if any."""
        return self._names[column]

    def key(self, name: Any) -> str:
        """Return the key of the column that a value is given for."""
        text = str(getattr(name, "key", name))
        column = self.columns.get(text)
        return text if column is None else column.key


def _target(statement: Executable, table: Table) -> _Target:
    _, mapper = sqla.written_by(statement)  # type: ignore[arg-type]
    return _Target(table, mapper)


def _stamp(confinement: Confinement, execution: ORMExecuteState, target: _Target) -> None:
    """Put the owner into each row of an insert; a joined subclass has it in its base's table."""
    column = next(confinement.owner_columns(target.tables), None)
    statement: Any = execution.statement
    if column is None or statement.select is not None:
        return
    given, many = execution.parameters, sqla.many_values_of(statement)
    single = target.record(dict(sqla.values_of(statement)))
    owner = confinement.owner_in(column)
    if many:
        batches = [[target.record(row) for row in batch] for batch in many]
        for record in itertools.chain(*batches):
            _check_owner(confinement, column, record)
        stamped = tuple([{**record, column.key: owner} for record in batch] for batch in batches)
        execution.statement = sqla.with_many_values(statement, stamped)
    elif column.key in single or not given:
        _check_owner(confinement, column, single)
        # by the name that it was given by, so that it stands in its place
        named = (name for name, _ in sqla.values_of(statement) if target.key(name) == column.key)
        execution.statement = sqla.with_value(statement, next(named, column), owner)
    elif isinstance(given, Mapping):
        execution.parameters = _stamped(confinement, target, column, given)
    else:
        execution.parameters = [_stamped(confinement, target, column, row) for row in given]


def _stamped(
    confinement: Confinement, target: _Target, column: Column[Any], row: Mapping[str, Any]
) -> Record:
    """Return parameters of one row with its owner, if they name none or the same."""
    _check_owner(confinement, column, target.record(row))
    return {**row, target.name(column): confinement.owner_in(column)}


def _check_owner(confinement: Confinement, column: Column[Any], record: Record) -> None:
    given = record.get(column.key)
    value = given if getattr(given, "required", False) else _value(given, {})
    if value is not None:
        confinement.check_owner(column, value, str(column))


def _value(value: Any, parameters: Mapping[str, Any]) -> Any:
    """Return a plain value, of a parameter too; an expression is as it is."""
    if isinstance(value, BindParameter):
        return parameters.get(value.key, sqla.parameter_value(value))
    return value


def _check(confinement: Confinement, execution: ORMExecuteState, target: _Target) -> None:
    """Refuse foreign keys that name what the owner cannot see."""
    references = References(confinement, execution.session)
    _add_all(references, target, _records(execution, target))
    if references.any and execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)
    references.check()
    confinement.seen = references


def _add_all(
    references: References, target: _Target, records: Iterable[tuple[Record, bool]]
) -> None:
    wanted = [
        (columns, named)
        for table in target.tables
        for columns, named in references.of_table(table)
        # the rows of one object in the tables of its class and its base are inserted together
        if not (named.decides and named.table in target.tables and named.table is not table)
    ]
    for record, is_whole in records if wanted else ():
        for columns, named in wanted:
            _add(references, record, columns, named, is_whole=is_whole)


def _add(
    references: References,
    record: Record,
    columns: Sequence[Column[Any]],
    target: Target,
    *,
    is_whole: bool,
) -> None:
    """Note what a row is to name, which must be plain values."""
    names = {column: column.key for column in columns}
    what = ", ".join(map(str, names))
    is_given = not record.keys().isdisjoint(names.values())
    values = changed_values(columns, names, record)
    if is_given and (values is None or any(isinstance(v, ClauseElement) for v in values)):
        raise UnconfinedError(
            f"what {what} is to name",
            "give the key itself, and all columns of a foreign key that has several",
        )
    references.add(target, values, what, is_final=is_given or is_whole)


def _records(execution: ORMExecuteState, target: _Target) -> Iterator[tuple[Record, bool]]:
    """Yield what each row of a statement is given, and what an upsert sets.

    With each goes whether the row is new, so that what it is not given is null.
    """
    given: Any = execution.parameters or {}
    rows: Iterable[Any] = [given] if isinstance(given, Mapping) else given
    return _records_of(execution.statement, target, rows)


def _records_of(
    statement: Any, target: _Target, rows: Iterable[Any]
) -> Iterator[tuple[Record, bool]]:
    many = [each for batch in sqla.many_values_of(statement) for each in batch]
    single = target.record(dict(sqla.values_of(statement)))
    # by the keys of columns, whatever attributes are called
    conflict = {str(getattr(n, "key", n)): v for n, v in sqla.conflict_values_of(statement)}
    # what it takes over from the row to be inserted is looked at there
    taken = {n: v for n, v in conflict.items() if not _is_excluded(v, statement)}
    for row in rows:
        for place, each in enumerate(many):
            yield _plain(target.record(each) | target.sent(row, place), row), statement.is_insert
        if not many:
            yield _plain(single | target.record(row), row), statement.is_insert
        if taken:
            yield _plain(taken, row), False


def _plain(record: Record, parameters: Mapping[str, Any]) -> Record:
    return {name: _value(value, parameters) for name, value in record.items()}


def _is_excluded(value: Any, statement: Any) -> bool:
    return getattr(value, "table", None) is getattr(statement, "excluded", statement)
