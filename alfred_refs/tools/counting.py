"""`db_read` of totals: how many rows there are and what columns come to, in groups or in all.

A read that hooks have looked at comes in, with what refs in its filters name; an answer goes out,
whose groups have refs and labels as rows have. One statement, which has the conditions that rows
are read with.

>>> Counter(call).answer(reading, totals, keys)
{'table': 'orders', 'totals': [{'customer_id': 'customer_1', 'count(*)': 3}], 'more': False}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from alfred_refs.tools.answers.label_lookup import Foreign, key_in, referring
from alfred_refs.tools.answers.relatives import holds_everywhere
from alfred_refs.tools.answers.results import Rendering, Shape
from alfred_refs.tools.query.filters import Conditions, Keys
from alfred_refs.tools.query.statement import rows_asked_for
from alfred_refs.tools.query.totals import Totals
from alfred_refs.tools.tables.hooks import Reading, Row

from .call import Call
from .fates import check_there

_MORE = "there are more groups: order them, filter the rows, or raise limit"


class Counter:
    """Counts for one call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def answer(self, reading: Reading, totals: Totals, keys: Keys) -> dict[str, Any]:
        """Return the totals that a read asks for.

        Args:
            reading: as hooks have left it.
            totals: what it asks for.
            keys: that refs in its filters name.
        """
        most, asked = self._call.setting.limits.rows, reading.arguments.limit
        limit = most if asked is None else min(asked, most)
        found = self._found(reading, totals, keys, limit)
        if keys and not any(count for *_, count in found):
            reading.notes += check_there(self._call, keys)
        rendering = self._call.rendering([], shape := Shape(totals.table, totals.groups))
        places = iter(range(1, len(found) + 1))

        def render(entry: Sequence[Any]) -> Row:
            return _row(entry, totals, rendering, f"totals[{next(places)}]")

        rows = self._call.room().take(found[:limit], render, [rendering.cut])
        more = len(rows) < len(found)
        if more and asked is None:
            reading.notes.append(_MORE)
        answer = {"table": totals.table.name, "totals": rows, "more": more}
        return self._call.finished(answer, reading.notes, rendering, [*self._foreign(rows, shape)])

    def _found(
        self, reading: Reading, totals: Totals, keys: Keys, limit: int
    ) -> list[Sequence[Any]]:
        """Return groups, each with how many rows it has; one more than are shown, if there are."""
        if reading.empty or (reading.keys is not None and not reading.keys):
            nothing = [0 if each.column is None else None for each in totals.totals]
            return [] if totals.groups else [[*nothing, 0]]
        conditions = rows_asked_for(reading, totals.table, Conditions(keys))
        if reading.keys is not None:
            own = getattr(totals.table.model, totals.table.ref_field)
            conditions.append(own.in_(self._call.keys_given(reading.keys, totals.table)))
        statement = totals.statement(reading.arguments, conditions).limit(limit + 1)
        options = (each for each in reading.options if holds_everywhere(each))
        return list(self._call.session.execute(statement.options(*options)))

    def _foreign(self, rows: Sequence[Row], shape: Shape) -> Iterator[Foreign]:
        """Yield the refs of groups, whose labels can be read: their keys have just been met."""
        tables = self._call.setting.tables
        found = [
            Foreign(row, column.name, target)
            for column, _, target in referring(shape, tables)
            for row in rows
            if row[column.name] is not None
        ]
        keys = self._call.conversation.keys_held({each.ref for each in found}) if found else {}
        for each in found:
            if each.ref in keys:
                each.key = key_in(each.target, keys[each.ref])
                yield each


def _row(entry: Sequence[Any], totals: Totals, rendering: Rendering, path: str) -> Row:
    groups = zip(totals.groups, entry, strict=False)
    row = {c.name: None if v is None else rendering.value(c, v, path) for c, v in groups}
    asked = zip(totals.totals, entry[len(totals.groups) :], strict=False)
    return {**row, **{total.name: total.show(value) for total, value in asked}}
