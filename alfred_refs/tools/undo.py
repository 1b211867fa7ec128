"""Undo: the opposite of what calls have changed, as one call of its own.

The changes of the calls are folded into one for each row: its values before the first of them, and
after the last. Then the rows are locked and compared with what the calls have left:

>>> kept = toolset.bind(sessions, registry=registry, journal=True)
>>> only = [{"field": "id", "op": "=", "value": "recipe_1"}]
>>> given = {"table": "recipes", "filters": only, "expect": "Soup"}
>>> kept.call("chat-7", None, "db_delete", given).value["deleted_with"]
['line_1', 'line_2']
>>> kept.undo("chat-7", call=1, by="ann").summary
'Create 1 recipe, 2 lines.'

- Only the columns that the calls have written are compared and written. What others have changed
  in other columns stays.
- Deleted rows come back with their keys, so that their refs work again, and before the rows that
  refer to them.
- If a later change would be lost, nothing is undone, and the error names the rows.

Values are written as the text in which they are kept, in the type that the column has in the
database, so that custom types of the application take no part.

Limits: PostgreSQL only. Numbers of sequences are not given back, and what triggers write is left
to them; the time zone is UTC meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, not_, select, text, tuple_
from sqlalchemy.exc import IntegrityError

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.session import RefSession
from alfred_refs.store import ChangeEntry
from alfred_refs.tools.effects import Image, Recorder, images_of, is_left_out, ordered
from alfred_refs.tools.errors import ToolError, undo_conflict

_COLUMNS = text("""
    SELECT attname, format_type(atttypid, atttypmod), attgenerated <> '' FROM pg_attribute
    WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped""")


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """What was done to one row, by one or several calls.

    Attributes:
        table: of the row.
        key: its primary key, as text.
        before: its values before, or those that were changed; `None` for a new row.
        after: its values after; `None` for a row that was deleted.
        name: as a person knows it.
        ref: of the row; `None` if it has none.
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
        """Whether the row is as it was before."""
        return self.is_kept and self.before is None and self.after is None

    def then(self, later: ChangedRow) -> ChangedRow:
        """Return what this and a later change have done together."""
        before, after = self.before, later.after
        if later.before is not None and before is not None:
            kept_before = {n: v for n, v in before.items() if n in (self.after or ())}
            before = {**later.before, **kept_before} if self.after is not None else before
        if self.after is not None and after is not None:
            after = {**self.after, **after}
        kept = self.is_kept and later.is_kept
        return replace(self, before=before, after=after, name=later.name, is_kept=kept)


class Undo:
    """Undoes changes, in the transaction of a call.

    Args:
        session: in a transaction; only its connection is used.
        recorder: of the call: it is told what is changed.
        rows: what is to be undone: see `fold`.
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

    def run(self) -> None:
        """Undo the changes.

        Raises:
            ToolError: later changes would be lost, or a row cannot come back.
        """
        with self._session.unconfined():
            connection = self._session.connection()
        if connection.dialect.name != "postgresql":
            raise SetupError("calls were to be undone on another database", "use PostgreSQL")
        with (
            sqla.unconfined_lookup(self._session),
            self._recorder.paused(),
            sqla.portable_texts(connection),
        ):
            self._check(connection)
            if self._conflicts:
                raise undo_conflict(self._conflicts)
            self._apply(connection)

    # Whether it may be done

    def _check(self, connection: Connection) -> None:
        """Lock the rows, and collect what stands against undoing their changes."""
        for row in self._rows:
            columns = self._columns_of(connection, row.table)
            missing = [n for n in {**(row.before or {}), **row.key} if n not in columns]
            lost = [name for name in columns if self._is_lost(row, name)]
            if not row.is_kept:
                self._conflicts.append(f"the values of {row.name} are not kept any more")
            elif missing:
                self._conflicts.append(f"{row.name} has no column {missing[0]!r} any more")
            elif lost:
                self._conflicts.append(f"{row.name} had a value of {lost[0]}, which is not kept")
            else:
                self._check_row(connection, row)
        self._check_references(connection)

    def _is_lost(self, row: ChangedRow, name: str) -> bool:
        """Return whether a value is needed that was not kept."""
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

    def _check_row(self, connection: Connection, row: ChangedRow) -> None:
        found = self._read(connection, row, lock=True)
        self._recorder.note(connection, row.table, found)
        image = next(iter(found.values()), None)
        if row.after is None:
            if image is not None:
                self._conflicts.append(f"{row.name} exists again")
        elif image is None:
            self._conflicts.append(f"{row.name} does not exist any more")
        elif not self._is_writable(connection, row):
            self._conflicts.append(f"{row.name} belongs to somebody else now")
        else:
            for name, value in row.after.items():
                if name in image and image[name] != value:
                    self._conflicts.append(f"{row.name}: {name} was changed since")

    def _is_writable(self, connection: Connection, row: ChangedRow) -> bool:
        owner = self._session.owner
        if owner is None:
            return True
        criterion = owner.ownership.criterion(row.table, writing=True, owner=owner.value)
        if criterion is None:
            return True
        where, parameters = self._criterion(connection, row)
        foreign = select(images_of(row.table).key[0]).where(text(where), not_(criterion))
        return connection.execute(foreign, parameters).first() is None

    def _check_references(self, connection: Connection) -> None:
        """Collect the rows that refer to rows which were new, and would go with them or block."""
        going = [row for row in self._rows if row.before is None]
        changed = {(row.table, *row.key.items()) for row in self._rows}
        for row in going:
            where, parameters = self._criterion(connection, row)
            for table in row.table.metadata.tables.values():
                for constraint in table.foreign_key_constraints:
                    if constraint.referred_table is not row.table:
                        continue
                    referred = select(*(e.column for e in constraint.elements)).where(text(where))
                    ours = [element.parent for element in constraint.elements]
                    images = images_of(table)
                    referring = images.statement.where(
                        (ours[0] if len(ours) == 1 else tuple_(*ours)).in_(referred)
                    )
                    found = images.images(connection.execute(referring, parameters))
                    for image in found.values():
                        key = ((c.name, image.get(c.name)) for c in images.key)
                        if (table, *key) not in changed:
                            self._conflicts.append(f"a row of {table.name} refers to {row.name}")
                            break

    # Doing it

    def _apply(self, connection: Connection) -> None:
        """Write the rows: those that come back first, or, where they collide, those that go."""
        connection.execute(text("SET CONSTRAINTS ALL DEFERRED"))
        steps = (
            (self._insert, self._update, self._delete),
            (self._delete, self._insert, self._update),
        )
        for first, *rest in steps:
            savepoint = connection.begin_nested()
            try:
                for step in (first, *rest):
                    step(connection)
                connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            except IntegrityError as error:
                savepoint.rollback()
                failure = error
            else:
                savepoint.commit()
                break
        else:
            raise _refused(failure) from None
        self._check_done(connection)

    def _check_done(self, connection: Connection) -> None:
        """Check that triggers have let rows come and go, and that they are the owner's."""
        for row in self._rows:
            if row.before is None and self._read(connection, row):
                raise undo_conflict([f"{row.name} does not go away"])
            if row.before is not None and not self._is_writable(connection, row):
                raise undo_conflict([f"{row.name} would belong to somebody else now"])
            if row.after is None:
                found = self._read(connection, row)
                self._recorder.note(connection, row.table, found, new=True)
                if not found:
                    raise undo_conflict([f"{row.name} does not come back"])

    def _insert(self, connection: Connection) -> None:
        """Insert the rows that were deleted; a reference that comes too early is set later."""
        order = ordered({row.table for row in self._rows})
        later: list[tuple[ChangedRow, Mapping[str, str | None]]] = []
        rows = [row for row in self._rows if row.after is None and row.before is not None]
        for row in sorted(rows, key=lambda row: order.index(row.table)):
            early = {
                element.parent.name
                for constraint in row.table.foreign_key_constraints
                if constraint.referred_table in order
                and order.index(constraint.referred_table) >= order.index(row.table)
                for element in constraint.elements
                if element.parent.nullable
            }
            values = dict(row.before or {})
            postponed = {n: v for n, v in values.items() if n in early and v is not None}
            if postponed:
                later.append((row, postponed))
            self._write_new(connection, row, {**values, **dict.fromkeys(postponed)})
        for row, given in later:
            self._write(connection, row, given)

    def _update(self, connection: Connection) -> None:
        for row in self._rows:
            if row.before is not None and row.after is not None:
                self._write(connection, row, row.before)

    def _delete(self, connection: Connection) -> None:
        order = ordered({row.table for row in self._rows})
        rows = [row for row in self._rows if row.before is None and row.after is not None]
        for row in sorted(rows, key=lambda row: -order.index(row.table)):
            where, parameters = self._criterion(connection, row)
            statement = f"DELETE FROM {self._name(connection, row.table)} WHERE {where}"
            connection.execute(text(statement), parameters)  # it may be gone with another

    def _write_new(
        self, connection: Connection, row: ChangedRow, values: Mapping[str, str | None]
    ) -> None:
        said, parameters = self._assigned(connection, row.table, values)
        listed = ", ".join(_quoted(name) for name in said)
        self._send(
            connection,
            row,
            f"INSERT INTO {self._name(connection, row.table)} ({listed}) OVERRIDING SYSTEM VALUE "
            f"VALUES ({', '.join(said.values())})",
            parameters,
        )

    def _write(
        self, connection: Connection, row: ChangedRow, values: Mapping[str, str | None]
    ) -> None:
        said, parameters = self._assigned(connection, row.table, values)
        if not said:
            return
        where, key = self._criterion(connection, row)
        changes = ", ".join(f"{_quoted(n)} = {sql}" for n, sql in said.items())
        self._send(
            connection,
            row,
            f"UPDATE {self._name(connection, row.table)} SET {changes} WHERE {where}",
            {**parameters, **key},
        )

    def _send(
        self,
        connection: Connection,
        row: ChangedRow,
        statement: str,
        parameters: Mapping[str, Any],
    ) -> None:
        """Send a statement that changes one row."""
        if connection.execute(text(statement), parameters).rowcount != 1:
            raise undo_conflict([f"{row.name} cannot be changed back"])

    # SQL

    def _columns_of(self, connection: Connection, table: Table) -> dict[str, str]:
        """Return the types of a table's columns, as the database has them."""
        if table not in self._columns:
            name = self._name(connection, table).replace("\\:", ":")
            found = connection.execute(_COLUMNS, {"name": name}).all()
            self._columns[table] = {name: type_.replace(":", "\\:") for name, type_, _ in found}
            self._generated |= {(table, name) for name, _, is_generated in found if is_generated}
        return self._columns[table]

    def _assigned(
        self, connection: Connection, table: Table, values: Mapping[str, str | None]
    ) -> tuple[dict[str, str], dict[str, str | None]]:
        """Return the SQL of values, by column, and their parameters, without generated ones."""
        types = self._columns_of(connection, table)
        given = [pair for pair in values.items() if (table, pair[0]) not in self._generated]
        said = {
            name: f"CAST(CAST(:value_{n} AS TEXT) AS {types[name]})"
            for n, (name, _) in enumerate(given)
        }
        return said, {f"value_{n}": value for n, (_, value) in enumerate(given)}

    def _criterion(
        self, connection: Connection, row: ChangedRow
    ) -> tuple[str, dict[str, str | None]]:
        """Return the criterion of a row's key, and its parameters."""
        types, name_of = self._columns_of(connection, row.table), self._name(connection, row.table)
        has_key = bool(row.table.primary_key)
        said = []
        for n, (name, value) in enumerate(row.key.items()):
            column = f"{name_of}.{_quoted(name)}"
            given = f"CAST(:key_{n} AS TEXT)"
            if value is None:
                said.append(f"{column} IS NULL")
            elif has_key:
                said.append(f"{column} = CAST({given} AS {types[name]})")
            else:  # not all types have an equality
                said.append(f"CAST({column} AS TEXT) = {given}")
        values: dict[str, str | None] = {
            f"key_{n}": value for n, value in enumerate(row.key.values()) if value is not None
        }
        return " AND ".join(said), values

    def _read(
        self, connection: Connection, row: ChangedRow, *, lock: bool = False
    ) -> dict[tuple[Any, ...], Image]:
        images = images_of(row.table)
        where, parameters = self._criterion(connection, row)
        statement = images.statement.where(text(where))
        if lock:
            statement = statement.with_for_update(of=row.table)
        return images.images(connection.execute(statement, parameters))

    def _name(self, connection: Connection, table: Table) -> str:
        """Return the quoted name of a table, under the connection's `schema_translate_map`."""
        schemas = connection.get_execution_options().get("schema_translate_map") or {}
        schema = schemas.get(table.schema, table.schema)
        return ".".join(_quoted(each) for each in (schema, table.name) if each is not None)


def _quoted(name: str) -> str:
    """Return a quoted name for `text`, which doubles percent signs where the driver wants that."""
    return '"' + name.replace('"', '""').replace(":", "\\:") + '"'


def fold(changes: Iterable[ChangeEntry], tables: Mapping[str, Table]) -> Iterator[ChangedRow]:
    """Yield what calls have done to each row together.

    Args:
        changes: of the calls, in order.
        tables: of the application, by name.

    Raises:
        ToolError: a table is not known any more.
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
                None if change.label is None else f'"{change.label}"',
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


def _refused(error: IntegrityError) -> ToolError:
    fields = sqla.driver_error_fields(error)
    table, name = fields.get("table_name"), fields.get("constraint_name")
    return undo_conflict([f"a row of {table} would break the constraint {name}"])
