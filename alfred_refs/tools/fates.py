"""Whether rows that a model names are there, where a call has found nothing of them."""

from __future__ import annotations

from sqlalchemy import inspect

from alfred_refs.mapping.keys import Key
from alfred_refs.session.missing_rows import Fates, Identity
from alfred_refs.tools.query.filters import Keys
from alfred_refs.tools.tables.table import ToolTable

from .call import Call


def check_there(call: Call, named: Keys) -> list[str]:
    """Check that rows are there: one statement a table, and one more for a row that is not.

    Args:
        call: that has found nothing of them.
        named: the keys that refs name, by ref and the entity that was needed.

    Returns:
        notes on those that the server may hide.
    """
    sought: dict[ToolTable, dict[str, Key]] = {}
    for (ref, entity), key in named.items():
        table = call.setting.tables.of_entity(entity)
        if table is not None and table.parts_of(key):
            sought.setdefault(table, {})[ref] = key
    notes = []
    fates = Fates(call.session, call.conversation)
    for table, keys in sought.items():
        identity = Identity(inspect(table.model).mapper.primary_key, table.keys.identity)
        hidden = fates.check(table.entity, identity, keys)
        if hidden:
            notes.append(f"{', '.join(map(repr, hidden))}: the database may hide what these name")
    return notes
