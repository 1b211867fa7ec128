"""Whether rows that a model names are there, where a call has found nothing of them.

Refs come in with the keys that they name; nothing goes out if their rows are there, whatever else
keeps a call from finding them: a filter, an owner, an application's own criteria. Rows that are
gone raise `GoneRefError`, however they went, and the conversation learns it. Where the server may
hide a row, by row-level security or because it is a replica that lags behind, it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sqlalchemy import Table, and_, cast as sql_cast, func, inspect, or_, select, true
from sqlalchemy.dialects.postgresql import OID

from alfred_refs import sqla
from alfred_refs.keys import Key

from .calls import Call, key_in
from .filters import Keys
from .table import ToolTable

_RAW = {"raw_keys": True}  # keys are keys, though some may be text


def check_there(call: Call, named: Keys) -> list[str]:
    """Check that rows are there: one statement a table, and one more for a row that is not.

    Args:
        call: that has found nothing of them.
        named: the keys that refs name, by ref and the entity that was needed.

    Returns:
        notes on those that the server may hide.

    Raises:
        GoneRefError: one is not there.
    """
    notes = []
    of_table: dict[ToolTable, dict[str, Key]] = {}
    for (ref, entity), key in named.items():
        table = call.setting.tables.of_entity(entity)
        if table is not None and table.parts_of(key):
            of_table.setdefault(table, {})[ref] = key
    for table, keys in of_table.items():
        gone = _not_there(call, table, keys)
        if gone and _may_be_hidden(call, table):
            notes.append(f"{', '.join(map(repr, gone))}: the database may hide what these name")
        elif gone:
            if not call.session.in_nested_transaction():  # else the program may undo what it did
                pairs = [(table.entity, key) for key in gone.values()]
                call.conversation.note_gone(pairs, "was deleted")
            raise call.conversation.gone(next(iter(gone)), table.entity)
    return notes


def _not_there(call: Call, table: ToolTable, keys: Mapping[str, Key]) -> dict[str, Key]:
    """Return those keys whose rows are not there, by key alone: of whatever owner or class."""
    columns = inspect(table.model).mapper.primary_key
    met = or_(
        *(
            and_(*(c == part for c, part in zip(columns, table.parts_of(key), strict=True)))
            for key in keys.values()
        )
    )
    with sqla.lifted(call.session), call.session.no_autoflush:
        found = call.session.execute(select(*columns).where(met), execution_options=_RAW)
        there = {key_in(row, table) for row in found}
    return {ref: key for ref, key in keys.items() if key not in there}


def _may_be_hidden(call: Call, table: ToolTable) -> bool:
    """Tell whether the server may hide rows of a table, or not have them yet."""
    mapper = inspect(table.model).mapper
    dialect = call.session.get_bind(mapper).dialect
    name = dialect.identifier_preparer.format_table(cast(Table, mapper.primary_key[0].table))
    active = func.row_security_active(sql_cast(func.to_regclass(name), OID))
    may_be = or_(func.pg_is_in_recovery(), func.coalesce(active, true()))
    with sqla.lifted(call.session), call.session.no_autoflush:
        return bool(call.session.scalar(select(may_be), execution_options=_RAW))
