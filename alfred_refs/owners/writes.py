"""Access checks for writes: flushes, bulk statements, foreign keys.

Whether foreign keys name rows that an owner may see: one query for each table that they name.

Values come in, each with the constraint that it falls under; nothing goes out, or an error that
reads the same for a row of somebody else's and for one that is not there. A row that decides whose
another is must be the owner's own: what belongs to a shared row is shared as well.

What a session that has an owner flushes: new rows are the owner's, others are not written.

New instances are stamped and all are looked at before anything is sent; what later listeners have
added or changed is looked at again when it is sent and not yet committed. Beneath that, every
statement of the flush is confined like any other: a row of somebody else's is never written.

What statements of a session that has an owner write: inserts are stamped, references checked.

An execution comes in and leaves with the owner in each row that it inserts. Which rows an update
or a delete reaches is the compiler's part; here is what values say: another owner, or a foreign
key that names what the owner cannot see. What is not a plain value cannot be looked at, and is
refused where it would be a foreign key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from weakref import WeakSet

from sqlalchemy import BindParameter, ClauseElement, Column, Executable, Table
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


@dataclass(frozen=True, slots=True)
class Target:
    """What a foreign key names: a row that `decides` whose another is must be the owner's own."""

    columns: tuple[Any, ...]
    decides: bool

    @property
    def table(self) -> Any:
        """The table that it names rows of."""
        return self.columns[0].table


class References:
    """What the foreign keys of rows that are about to be written name."""

    def __init__(self, confinement: Confinement, session: Session) -> None:
        self._confinement = confinement
        self._session = session
        self._wanted: dict[Target, dict[tuple[Any, ...], str]] = {}
        self._checked: dict[Target, set[tuple[Any, ...]]] = {}
        self._new: set[tuple[Table, tuple[Any, ...]]] = set()

    @property
    def any(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._wanted)

    def of_table(self, table: Any) -> Iterator[tuple[Sequence[Any], Target]]:
        """Yield the columns of a table that name other rows, with what they name.

        Those are its foreign keys, and what decides whose a row is: that may be a relationship
        without a foreign key in the database.
        """
        belonging = self._confinement.ownership.belonging_of(table)
        pairs = () if belonging is None else belonging.pairs
        found = [
            tuple((element.parent, element.column) for element in constraint.elements)
            for constraint in table.foreign_key_constraints
        ]
        if pairs and all(set(each) != set(pairs) for each in found):
            found.append(pairs)
        for each in found:
            columns, targets = zip(*each, strict=True)
            if belonging is None or all(c is not belonging.column for c in columns):  # stamped
                yield columns, Target(targets, decides=set(each) == set(pairs))

    def add(
        self, target: Target, values: tuple[Any, ...] | None, what: str, *, is_final: bool
    ) -> None:
        """Note that a row is to name another.

        Args:
            target: what it names.
            values: by which; `None` where it is not given all of them.
            what: names them in an error.
            is_final: whether nothing else is to be filled in before it is sent.

        Raises:
            ForeignRowError: a row that decides is not named: it would be nobody's.
            UnconfinedError: in a table that is unknown, or by an expression.
        """
        if target.decides and is_final and (values is None or any(v is None for v in values)):
            raise ForeignRowError(what, named=True)
        if values is None:
            return
        if any(isinstance(value, ClauseElement) for value in values):
            raise UnconfinedError(f"what {what} is to name", "give the key itself")
        if None in values or self._confinement.ownership.belonging_of(target.table) is None:
            return
        if values not in self._checked.get(target, ()):
            self._wanted.setdefault(target, {}).setdefault(values, what)

    def add_new(self, table: Table, identity: tuple[Any, ...]) -> None:
        """Note that a row is new in the same flush: others may name it."""
        self._new.add((table, identity))

    def check(self) -> None:
        """Look whether the owner may see what is named.

        Raises:
            ForeignRowError: one row is another's, or is not there.
        """
        wanted, self._wanted = self._wanted, {}
        ask = partial(self._confinement.ask, self._session)
        for target, values in wanted.items():
            unknown = [each for each in values if not self._is_there(target, each)]
            found = ask(target.columns, unknown, writing=target.decides) if unknown else ()
            for each in unknown:
                if each not in found:
                    [column, *more] = target.columns
                    ref = None if more else self._confinement.named(column, each[0])
                    raise ForeignRowError(values[each], ref, named=True)
            self._checked.setdefault(target, set()).update(values)

    def _is_there(self, target: Target, values: tuple[Any, ...]) -> bool:
        """Tell whether the session has the row, and it is known to be the owner's."""
        if set(target.columns) != set(target.table.primary_key):
            return False
        identity = dict(zip(target.columns, values, strict=True))
        key = tuple(identity[column] for column in target.table.primary_key)
        if (target.table, key) in self._new:
            return True
        mapper = sqla.mapper_of_table(target.table)
        if mapper is None:
            return False
        there = self._session.identity_map.get(mapper.identity_key_from_primary_key(key))
        return there is not None and self._confinement.is_known(
            self._session, sqla.state_of(there), writing=target.decides
        )


def changed_values(
    columns: Iterable[Any], names: Mapping[Any, str], values: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return what a foreign key's columns have; `None` where one of them is not among the values.

    Args:
        columns: of the foreign key.
        names: of the columns among the values.
        values: by name.
    """
    found = [names.get(column, "") for column in columns]
    return tuple(values[n] for n in found) if all(n in values for n in found) else None


State = InstanceState[Any]


class OwnedFlush:
    """One flush of a session that has an owner; `only` some of it may be the owner's."""

    def __init__(
        self, confinement: Confinement, session: Session, only: WeakSet[State] | None = None
    ) -> None:
        self._confinement = confinement
        self._only = only
        self._session = session
        self._references = References(confinement, session)
        self._seen: set[State] = set()

    def begin(self) -> None:
        """Stamp what is new, and look at all that is to be flushed.

        Raises:
            ForeignRowError: something is not the owner's to write, or names what is not there for
                the owner.
            UnconfinedError: a class is unknown to the ownership.
        """
        session = self._session
        new = self._owned(map(sqla.state_of, session.new))
        there = self._owned(map(sqla.state_of, (*session.dirty, *session.deleted)))
        for state in new:
            self._stamp(state)
        self._look_at(new, there)

    def save(self, objects: Iterable[object]) -> None:
        """Stamp and look at instances that are saved in bulk, without a flush.

        Raises:
            ForeignRowError: as `begin()`.
        """
        states = [sqla.state_of(each) for each in objects]
        new = [state for state in states if state.key is None]
        for state in new:
            self._stamp(state)
        self._look_at(new, [state for state in states if state.key is not None], all_sent=True)

    def finish(self, flush: UOWTransaction) -> None:
        """Look at what was sent, after what later listeners have done.

        Raises:
            ForeignRowError: as `begin()`; the flush is rolled back.
        """
        saved, deleted = map(self._owned, sqla.flushed_states(flush))
        self._confinement.waiting.clear()
        new = [state for state in saved if state.key is None]
        late = [state for state in saved if state.key is not None]
        for state in deleted:
            if state not in self._seen:
                verdict = self._confinement.verdict(self._session, state, writing=True)
                if verdict is False:
                    raise self._foreign(state)
        self._look_at(new, late, all_sent=True)

    def _owned(self, states: Iterable[State]) -> list[State]:
        only = self._only
        return [state for state in states if only is None or state in only]

    def _look_at(
        self, new: Iterable[State], there: Iterable[State], *, all_sent: bool = False
    ) -> None:
        new, there = list(new), list(there)
        unseen = [state for state in there if state not in self._seen]
        hidden = self._confinement.hidden(self._session, unseen, writing=True)
        if hidden:
            raise self._foreign(hidden[0])
        self._seen.update(there)
        for state in (*new, *there):
            self._check_owner(state)
            self._add_references(state, all_sent=all_sent)
            self._check_links(state)
        for state in new:
            self._add_new(state)
        self._references.check()

    def _stamp(self, state: State) -> None:
        for name, column in self._owner_attributes(state):
            if state.dict.get(name) is None:
                owner = self._confinement.owner_in(column)
                attributes.set_attribute(state.obj(), name, owner)

    def _owner_attributes(self, state: State) -> Iterator[tuple[str, Any]]:
        for column in self._confinement.owner_columns(state.mapper.tables):
            yield attribute_of(state.mapper, column), column

    def _check_owner(self, state: State) -> None:
        """Refuse another owner than the session's; one that has not been loaded is not changed."""
        for name, column in self._owner_attributes(state):
            if name in state.dict and _is_changed(state, [name]):
                what = f"{state.class_.__name__}.{name}"
                self._confinement.check_owner(column, state.dict[name], what)

    def _add_references(self, state: State, *, all_sent: bool) -> None:
        for table in state.mapper.tables:
            for columns, target in self._references.of_table(table):
                names = sqla.attributes_of(state.mapper, columns)
                if _is_changed(state, names.values()):
                    values = changed_values(columns, names, state.dict)
                    what = f"{state.class_.__name__}.{next(iter(names.values()))}"
                    is_final = all_sent or state.key is not None
                    self._references.add(target, values, what, is_final=is_final)

    def _check_links(self, state: State) -> None:
        """Refuse rows of an association table to what the owner cannot see."""
        if not self._confinement.doubtful:
            return
        for relationship in state.mapper.relationships:
            if relationship.secondary is not None and not relationship.viewonly:
                added = sqla.added_states(state, relationship.key)
                if self._confinement.hidden(self._session, added, writing=False):
                    what = f"{state.class_.__name__}.{relationship.key}"
                    raise ForeignRowError(what, named=True)

    def _add_new(self, state: State) -> None:
        table = state.mapper.base_mapper.local_table
        if isinstance(table, Table):
            names = sqla.attributes_of(state.mapper, table.primary_key)
            self._references.add_new(
                table, tuple(state.dict.get(names.get(c, "")) for c in table.primary_key)
            )

    def _foreign(self, state: State) -> ForeignRowError:
        [column, *more] = state.mapper.base_mapper.primary_key
        ref = None
        if not more and state.key is not None:
            ref = self._confinement.named(column, state.key[1][0])
        return ForeignRowError(state.class_.__name__, ref)


def _is_changed(state: State, names: Iterable[str]) -> bool:
    """Tell whether any of these attributes is new, or has another value than was loaded."""
    return state.key is None or any(name in state.committed_state for name in names)


Record = dict[str, Any]
"""What one row is given, by the names of its columns."""


def confine_write(confinement: Confinement, execution: ORMExecuteState) -> None:
    """Have an insert, update or delete write what the owner may write.

    Raises:
        ForeignRowError: a value names another owner, or a row that the owner cannot see.
        UnconfinedError: what is written cannot be told.
    """
    statement = execution.statement
    table = sqla.underlying_table(getattr(statement, "table", None))
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
    table = sqla.underlying_table(statement.table)
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
        given = [_with_owner(confinement, target, column, record) for record in given]
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
    _, mapper = sqla.write_target(statement)  # type: ignore[arg-type]
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
        execution.parameters = _with_owner(confinement, target, column, given)
    else:
        execution.parameters = [_with_owner(confinement, target, column, row) for row in given]


def _with_owner(
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
