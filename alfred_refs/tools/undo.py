"""Undo: revert the changes of calls, as a separate call.

The changes of the calls are folded into one for each row: its values before the first call and
after the last. Then the rows are locked and compared with their values after the last call:

>>> kept = toolset.bind(sessions, registry=registry, journal=True)
>>> only = [{"field": "id", "op": "=", "value": "recipe_1"}]
>>> given = {"table": "recipes", "filters": only, "expect": "Soup"}
>>> kept.call("chat-7", None, "db_delete", given).value["deleted_with"]
['line_1', 'line_2']
>>> kept.undo("chat-7", call=1, by="ann").summary
'Create 1 recipe, 2 lines.'

- Only the columns that the calls have written are compared and written. Changes by others in other
  columns stay.
- Deleted rows are restored with their keys, so that their refs work again, and before the rows
  that refer to them.
- If a later change would be lost, nothing is undone, and the error names the rows.

Values are written from their stored text, cast to the type of the column in the database, so
custom types of the application are not used.

Limits: PostgreSQL only. Sequences are not reset, and writes of triggers are not reverted; the time
zone is UTC during an undo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, ForeignKey, Table, not_, select, text, tuple_
from sqlalchemy.exc import DBAPIError

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.session import RefSession
from alfred_refs.store import ChangeEntry
from alfred_refs.tools.effects import Image, Recorder, images_of, is_left_out, ordered
from alfred_refs.tools.errors import undo_conflict
from alfred_refs.tools.plans import quoted

_COLUMNS = text("""
    SELECT attname, format_type(atttypid, atttypmod), attgenerated <> '' FROM pg_attribute
    WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped""")

# by SQLSTATE or its class
_REFUSALS: Final[Mapping[str, str]] = {
    "P0001": "a trigger of the database forbids it",
    "42501": "the database does not permit it",
    "22": "a value does not fit its column any more",
}


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """The change of one row by one or several calls.

    Attributes:
        table: the table of the row.
        key: its primary key, as text.
        before: its values before the change, at least of changed columns; `None` for a new row.
        after: its values after the change; `None` for a deleted row.
        name: its name for people.
        ref: the ref of the row; `None` if it has no ref.
        is_kept: whether its values are still kept.
    """

    table: Table
    key: Image
    before: Image | None
    after: Image | None
    name: str
    ref: str | None = None
    is_kept: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether the row existed neither before nor after."""
        return self.is_kept and self.before is None and self.after is None

    def then(self, later: ChangedRow) -> ChangedRow:
        """Combine this change with a later one."""
        before, after = self.before, later.after
        if later.before is not None and before is not None:
            kept_before = {n: v for n, v in before.items() if n in (self.after or ())}
            before = {**later.before, **kept_before} if self.after is not None else before
        if self.after is not None and after is not None:
            after = {**self.after, **after}
        kept = self.is_kept and later.is_kept
        return replace(self, before=before, after=after, name=later.name, is_kept=kept)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of one table that one statement reads or writes.

    Attributes:
        table: the table of the rows.
        rows: the rows, all with the same action and changed columns.
        key: the names of the columns that identify a row.
        where: the SQL condition that selects the rows.
        parameters: the parameters of `where`: a list of keys for each column.
    """

    table: Table
    rows: Sequence[ChangedRow]
    key: Sequence[str]
    where: str
    parameters: Mapping[str, Sequence[str | None]]

    def by_row(self, images: Iterable[Image]) -> dict[int, Image]:
        """Return the images of the rows, by `id()` of the row."""
        ids = {tuple(row.key.values()): id(row) for row in self.rows}
        # keys that are equal in the database may differ as text, such as `citext`
        found = ((ids.get(tuple(image[name] for name in self.key)), image) for image in images)
        return {number: image for number, image in found if number is not None}

    def referred(self, elements: Sequence[ForeignKey], image: Image) -> str:
        """Return the name of the row that an image of another table refers to."""
        values = {each.column.name: image[each.parent.name] for each in elements}
        after = (({**row.key, **(row.after or {})}, row.name) for row in self.rows)
        names = (name for has, name in after if values.items() <= has.items())
        return next(names, f"a row of {self.table.name}")


@dataclass(frozen=True, slots=True)
class _Given:
    """SQL for the new values of the rows of a batch.

    Attributes:
        names: the names of the columns.
        values: their expressions, in the types of the database.
        rows: the FROM element with the values, one row for each row of the batch.
        where: the condition that joins it to the rows of the table.
        parameters: a list for each column.
    """

    names: Sequence[str]
    values: Sequence[str]
    rows: str
    where: str
    parameters: Mapping[str, Sequence[str | None]]


class Undo:
    """Undoes changes, in the transaction of a call.

    Args:
        session: a session in a transaction; only its connection is used.
        recorder: the recorder of the call, which notes the changes.
        rows: the changes to undo; see `fold`.
    """

    def __init__(
        self, session: RefSession, recorder: Recorder, rows: Iterable[ChangedRow]
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._rows = [row for row in rows if not row.is_empty]
        self._columns: dict[Table, dict[str, str]] = {}
        self._generated: set[tuple[Table, str]] = set()
        self._conflicts: list[str] = []
        self._connection = self._connect()

    def _connect(self) -> Connection:
        """Return the connection to the database of the rows.

        Raises:
            ToolError: they are in several databases.
        """
        session = self._session
        mappers = (sqla.mapper_of_table(table) for table in {row.table for row in self._rows})
        with session.unconfined():
            found = {session.connection({"mapper": each}) for each in mappers if each is not None}
            if len(found) > 1:
                raise undo_conflict(["the rows are in several databases"])
            return found.pop() if found else session.connection()

    def run(self) -> None:
        """Undo the changes.

        Raises:
            ToolError: later changes would be lost, or a row cannot be restored.
        """
        if self._connection.dialect.name != "postgresql":
            raise SetupError("calls were to be undone on another database", "use PostgreSQL")
        with (
            sqla.unconfined_lookup(self._session),
            self._recorder.paused(),
            sqla.portable_texts(self._connection),
        ):
            self._check()
            if self._conflicts:
                raise undo_conflict([*dict.fromkeys(self._conflicts)])
            self._apply()

    # Checks

    def _check(self) -> None:
        """Lock the rows, and collect the conflicts with undoing their changes."""
        usable = [row for row in self._rows if self._is_usable(row)]
        images: dict[int, Image] = {}
        foreign: set[int] = set()
        for batch in self._batches(usable):
            found = self._read(batch, lock=True)
            self._recorder.note(self._connection, batch.table, found)
            images |= batch.by_row(found.values())
            foreign |= self._foreign(batch)
        for row in usable:
            image = images.get(id(row))
            if row.after is None:
                if image is not None:
                    self._conflicts.append(f"{row.name} exists again")
            elif image is None:
                self._conflicts.append(f"{row.name} does not exist any more")
            elif id(row) in foreign:
                self._conflicts.append(f"{row.name} belongs to somebody else now")
            else:
                for name, value in row.after.items():
                    if name in image and image[name] != value:
                        self._conflicts.append(f"{row.name}: {name} was changed since")
        self._check_references(usable)

    def _is_usable(self, row: ChangedRow) -> bool:
        """Return whether the kept values of a row suffice to undo its change."""
        columns = self._columns_of(row.table)
        missing = [n for n in {**(row.before or {}), **row.key} if n not in columns]
        lost = [name for name in columns if self._is_lost(row, name)]
        if not row.is_kept:
            self._conflicts.append(f"the values of {row.name} are not kept any more")
        elif missing:
            self._conflicts.append(f"{row.name} has no column {missing[0]!r} any more")
        elif lost:
            self._conflicts.append(f"{row.name} had a value of {lost[0]}, which is not kept")
        return row.is_kept and not missing and not lost

    def _is_lost(self, row: ChangedRow, name: str) -> bool:
        """Return whether a required value was not kept."""
        before, after = row.before, row.after
        if before is None or (row.table, name) in self._generated:
            return False
        if name not in before:
            return after is None
        column = row.table.columns.get(name)
        is_digest = column is not None and is_left_out(column)
        return (after is not None and name not in after) or (
            is_digest and before[name] is not None
        )

    def _foreign(self, batch: _Batch) -> set[int]:
        """Return the rows of a batch that belong to other owners, by `id()` of the row."""
        owner = self._session.owner
        if owner is None:
            return set()
        criterion = owner.ownership.criterion(batch.table, writing=True, owner=owner.value)
        if criterion is None:
            return set()
        statement = images_of(batch.table).statement.where(text(batch.where), not_(criterion))
        found = self._connection.execute(statement, batch.parameters)
        return {*batch.by_row(images_of(batch.table).images(found).values())}

    def _check_references(self, rows: Iterable[ChangedRow]) -> None:
        """Collect rows that refer to created rows, and would be deleted with them or block."""
        going = [row for row in rows if row.before is None]
        changed = {(row.table, *row.key.items()) for row in self._rows}
        for batch in self._batches(going):
            for table in batch.table.metadata.tables.values():
                for constraint in table.foreign_key_constraints:
                    if constraint.referred_table is not batch.table:
                        continue
                    elements, images = constraint.elements, images_of(table)
                    referred = select(*(e.column for e in elements)).where(text(batch.where))
                    ours = [element.parent for element in elements]
                    referring = images.statement.where(
                        (ours[0] if len(ours) == 1 else tuple_(*ours)).in_(referred)
                    )
                    found = images.images(self._connection.execute(referring, batch.parameters))
                    for image in found.values():
                        key = ((c.name, image.get(c.name)) for c in images.key)
                        if (table, *key) not in changed:
                            name = batch.referred(elements, image)
                            self._conflicts.append(f"a row of {table.name} refers to {name}")

    # Writes

    def _apply(self) -> None:
        """Write the rows: restored rows first, or deletions first if they collide."""
        self._connection.execute(text("SET CONSTRAINTS ALL DEFERRED"))
        steps = (
            (self._insert, self._update, self._delete),
            (self._delete, self._insert, self._update),
        )
        for first, *rest in steps:
            savepoint = self._connection.begin_nested()
            try:
                for step in (first, *rest):
                    step()
                self._connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            except DBAPIError as error:
                refusal = _refusal(error)
                if refusal is None:
                    raise
                savepoint.rollback()
                failure = undo_conflict([refusal])
            else:
                savepoint.commit()
                break
        else:
            raise failure
        self._check_done()

    def _check_done(self) -> None:
        """Check that triggers have not prevented writes, and that the owner owns restored rows."""
        for batch in self._batches(self._rows):
            found = self._read(batch)
            images, foreign = batch.by_row(found.values()), self._foreign(batch)
            for row in batch.rows:
                if row.before is None and id(row) in images:
                    raise undo_conflict([f"{row.name} does not go away"])
                if row.before is not None and id(row) in foreign:
                    raise undo_conflict([f"{row.name} would belong to somebody else now"])
                if row.after is None and id(row) not in images:
                    raise undo_conflict([f"{row.name} does not come back"])
            if batch.rows[0].after is None:
                self._recorder.note(self._connection, batch.table, found, new=True)

    def _insert(self) -> None:
        """Insert the deleted rows; references to rows that follow are set later."""
        order = ordered({row.table for row in self._rows})
        rows = [row for row in self._rows if row.after is None and row.before is not None]
        rows.sort(key=lambda row: order.index(row.table))
        later: list[tuple[_Batch, set[str]]] = []
        for batch in self._batches(rows):
            early = {
                element.parent.name
                for constraint in batch.table.foreign_key_constraints
                if constraint.referred_table in order
                and order.index(constraint.referred_table) >= order.index(batch.table)
                for element in constraint.elements
                if element.parent.nullable
            }
            early &= {*(batch.rows[0].before or ())}
            self._write_new(batch, early)
            postponed = [row for row in batch.rows if _has_value(row, early)]
            later += [(each, early) for each in self._batches(postponed)]
        for batch, early in later:
            self._write(batch, early)

    def _update(self) -> None:
        rows = [row for row in self._rows if row.before is not None and row.after is not None]
        for batch in self._batches(rows):
            self._write(batch, batch.rows[0].before or {})

    def _delete(self) -> None:
        order = ordered({row.table for row in self._rows})
        rows = [row for row in self._rows if row.before is None and row.after is not None]
        rows.sort(key=lambda row: -order.index(row.table))
        for batch in self._batches(rows):
            statement = f"DELETE FROM {self._name(batch.table)} WHERE {batch.where}"
            self._connection.execute(text(statement), batch.parameters)  # may be deleted already

    def _write_new(self, batch: _Batch, early: Collection[str]) -> None:
        given = self._given(batch, batch.rows[0].before or {}, without=early)
        self._send(
            batch,
            f"INSERT INTO {self._name(batch.table)} "
            f"({', '.join(given.names)}) OVERRIDING SYSTEM VALUE "
            f"SELECT {', '.join(given.values)} FROM {given.rows}",
            given.parameters,
        )

    def _write(self, batch: _Batch, names: Iterable[str]) -> None:
        given = self._given(batch, names)
        if not given.names:
            return
        pairs = zip(given.names, given.values, strict=True)
        self._send(
            batch,
            f"UPDATE {self._name(batch.table)} "
            f"SET {', '.join(f'{name} = {value}' for name, value in pairs)} "
            f"FROM {given.rows} WHERE {given.where}",
            given.parameters,
        )

    def _send(self, batch: _Batch, statement: str, parameters: Mapping[str, Any]) -> None:
        """Execute a statement that writes each row of a batch once."""
        name = self._name(batch.table)
        keys = ", ".join(f"CAST({name}.{_identifier(key)} AS TEXT)" for key in batch.key)
        done = self._connection.execute(text(f"{statement} RETURNING {keys}"), parameters)
        written = Counter(tuple(row) for row in done)
        missing = [row for row in batch.rows if written[tuple(row.key.values())] != 1]
        if missing:
            raise undo_conflict([f"{row.name} cannot be changed back" for row in missing])

    # SQL

    def _columns_of(self, table: Table) -> dict[str, str]:
        """Return the database types of a table's columns."""
        if table not in self._columns:
            name = self._name(table).replace("\\:", ":")
            found = self._connection.execute(_COLUMNS, {"name": name}).all()
            self._columns[table] = {name: type_.replace(":", "\\:") for name, type_, _ in found}
            self._generated |= {(table, name) for name, _, is_generated in found if is_generated}
        return self._columns[table]

    def _batches(self, rows: Iterable[ChangedRow]) -> Iterator[_Batch]:
        """Yield batches of rows for one statement each: same table, action and changed columns."""
        groups: dict[Any, list[ChangedRow]] = {}
        for row in rows:
            alike = (row.table, row.before and (*row.before,), row.after is None)
            groups.setdefault(alike, []).append(row)
        for (table, *_), changed in groups.items():
            key = [*changed[0].key]
            values = {f"key_{n}": [row.key[k] for row in changed] for n, k in enumerate(key)}
            arrays = ", ".join(f"CAST(:{name} AS TEXT[])" for name in values)
            given = f"unnest({arrays}) AS given ({', '.join(values)})"
            same = self._is_given(table, key)
            where = f"EXISTS (SELECT 1 FROM {given} WHERE {same})"
            if table.primary_key:  # this form can use an index
                name, types = self._name(table), self._columns_of(table)
                own = ", ".join(f"{name}.{_identifier(k)}" for k in key)
                typed = ", ".join(f"CAST(key_{n} AS {types[k]})" for n, k in enumerate(key))
                where = f"({own}) IN (SELECT {typed} FROM {given})"
            yield _Batch(table, changed, key, where, values)

    def _is_given(self, table: Table, key: Sequence[str]) -> str:
        """Return the SQL condition that joins the rows of a table to their keys."""
        name, types = self._name(table), self._columns_of(table)
        return " AND ".join(
            f"{name}.{_identifier(k)} = CAST(given.key_{n} AS {types[k]})"
            if table.primary_key  # not all types have an `=` operator
            else f"CAST({name}.{_identifier(k)} AS TEXT) IS NOT DISTINCT FROM given.key_{n}"
            for n, k in enumerate(key)
        )

    def _given(
        self,
        batch: _Batch,
        names: Iterable[str],
        *,
        without: Collection[str] = (),
    ) -> _Given:
        """Return SQL for the values of a batch before the changes, without generated columns.

        Args:
            batch: the rows.
            names: the names of the columns.
            without: the columns to set to null.
        """
        types = self._columns_of(batch.table)
        names = [name for name in names if (batch.table, name) not in self._generated]
        parameters: dict[str, Any] = dict(batch.parameters)
        for n, name in enumerate(names):
            values = [(row.before or {}).get(name) for row in batch.rows]
            parameters[f"value_{n}"] = [None] * len(values) if name in without else values
        arrays = ", ".join(f"CAST(:{name} AS TEXT[])" for name in parameters)
        return _Given(
            [_identifier(name) for name in names],
            [f"CAST(given.value_{n} AS {types[name]})" for n, name in enumerate(names)],
            f"unnest({arrays}) AS given({', '.join(parameters)})",
            self._is_given(batch.table, batch.key),
            parameters,
        )

    def _read(self, batch: _Batch, *, lock: bool = False) -> dict[tuple[Any, ...], Image]:
        images = images_of(batch.table)
        statement = images.statement.where(text(batch.where))
        if lock:
            statement = statement.with_for_update(of=batch.table)
        return images.images(self._connection.execute(statement, batch.parameters))

    def _name(self, table: Table) -> str:
        """Return the quoted name of a table, with the connection's `schema_translate_map`."""
        schemas = self._connection.get_execution_options().get("schema_translate_map") or {}
        schema = schemas.get(table.schema, table.schema)
        return ".".join(_identifier(each) for each in (schema, table.name) if each is not None)


def _has_value(row: ChangedRow, names: Iterable[str]) -> bool:
    """Return whether one of some columns was not null before."""
    return any((row.before or {})[name] is not None for name in names)


def _identifier(name: str) -> str:
    """Return a quoted name for `text()`, which doubles percent signs if the driver requires it."""
    return '"' + name.replace('"', '""').replace(":", "\\:") + '"'


def fold(changes: Iterable[ChangeEntry], tables: Mapping[str, Table]) -> Iterator[ChangedRow]:
    """Combine the changes of calls to each row.

    Args:
        changes: the changes of the calls, in order.
        tables: the application's tables, by name.

    Raises:
        ToolError: a table does not exist any more.
    """
    rows: dict[tuple[str, str], ChangedRow] = {}
    for change in changes:
        table = tables.get(change.table)
        if table is None:
            raise undo_conflict([f"there is no table {change.table!r} any more"])
        name = " ".join(
            part
            for part in (
                f"a row of {table.name}" if change.ref is None else change.ref,
                None if change.label is None else quoted(change.label),
            )
            if part
        )
        is_kept = (change.before is not None or change.action == "created") and (
            change.after is not None or change.action == "deleted"
        )
        row = ChangedRow(table, change.key, change.before, change.after, name, change.ref, is_kept)
        key = (change.table, repr(sorted(change.key.items())))
        if key in rows and (rows[key].after is None) is (change.before is not None) and is_kept:
            raise undo_conflict([f"several rows of {table.name} are the same"])
        rows[key] = rows[key].then(row) if key in rows else row
    yield from rows.values()


def _refusal(error: DBAPIError) -> str | None:
    """Return why the database refuses a write; `None` if that is not because of the rows."""
    fields = sqla.driver_error_fields(error)
    state = str(fields["sqlstate"])
    if state.startswith("23"):
        table, name = fields.get("table_name"), fields.get("constraint_name")
        return f"a row of {table} would break the constraint {name}"
    return _REFUSALS.get(state, _REFUSALS.get(state[:2]))
