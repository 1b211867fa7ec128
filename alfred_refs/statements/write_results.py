"""What the result of a write tells of the rows beside those of RETURNING, with refs for keys.

The result of an insert or update by Core comes in, and goes out with its exits covered: the
primary keys of inserted rows, the defaults that the database filled in, the parameters that were
sent. The keys are minted when one of them is asked for, or at once where the session wants that:
later there may be no way to wait. Values of columns that the statement does not fill are looked
at one by one, and refused if they may be keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Executable, Result, Table

from alfred_refs import sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.shapes import UNKNOWN, JsonObject, KeyShape, Listed, Series, as_json

from .rendering import Referring, collect_keys, limited, shower


def cover(
    result: Result[Any],
    statement: Executable,
    entities: Entities,
    conversation: Referring,
    *,
    now: bool,
) -> None:
    """Have a result show refs at its exits.

    Args:
        result: of any statement; only the cursor's own result of a write has such exits.
        statement: what was executed.
        entities: which columns hold keys.
        conversation: in which its keys are met.
        now: meet the keys of new rows at once.
    """
    cursor = sqla.cursor_result_of(result)
    if cursor is None:
        return
    target = getattr(statement, "table", None)
    table = target if isinstance(target, Table) else None
    sqla.cover_exits(cursor, partial(_shown, table, entities, conversation))
    if now:
        sqla.new_primary_keys(cursor)


def _shown(
    table: Table | None, entities: Entities, conversation: Referring, name: str, value: Any
) -> Any:
    """Return the value of an exit with refs in place of its keys: at most one round trip."""
    if value is None:
        return None
    shape = limited(_exposed(table, entities, name, value), entities.key_types_held())
    conversation.meet(dict.fromkeys(collect_keys(shape, [value])))
    return shower(shape, conversation)(value)


def _exposed(table: Table | None, entities: Entities, name: str, value: Any) -> KeyShape:
    """Return what the value of an exit shows of keys."""
    columns = {} if table is None else {c.key: as_json(entities.of_column(c)) for c in table.c}
    if name == "lastrowid":
        primary = [] if table is None else list(table.primary_key)
        return columns[primary[0].key] if len(primary) == 1 else UNKNOWN
    if name.startswith("last_"):
        record = JsonObject(tuple(columns.items()), UNKNOWN)
        return Listed(record) if isinstance(value, list) else record
    if isinstance(value, list):
        return Listed(_row_of(columns, next(iter(value), ())))
    return _row_of(columns, value)


def _row_of(columns: dict[str, KeyShape], row: Any) -> KeyShape:
    names: Sequence[str] = getattr(row, "_fields", ())
    return Series(tuple(columns.get(name, UNKNOWN) for name in names))
