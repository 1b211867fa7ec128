"""`db_query`: its checked arguments to an answer with columns, rows, refs and labels.

1. The text is made a plan, or its shape has one (`plans`); its literals become parameters.
2. One statement reads the rows, and one row more than is shown, in a transaction that reads only.
3. Values become JSON, and the labels of refs are read: one statement a table.

>>> Querying(call, plans).answer(DbQuery(sql="select id, name from recipes limit 1"))
{'columns': ['id', 'name'], 'rows': [['recipe_1', 'Soup']], 'count': 1, 'more': False}
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from time import monotonic
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import Enum
from sqlalchemy.exc import DBAPIError

from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.column_types import values_of
from alfred_refs.tools.answers.label_lookup import Foreign, put_labels
from alfred_refs.tools.answers.results import size_of
from alfred_refs.tools.call import Call
from alfred_refs.tools.seen import Shown, kept
from alfred_refs.tools.transactions import transaction
from alfred_refs.tools.wire.arguments import DbQuery
from alfred_refs.tools.wire.texts import Cut, Verbatim, shallow, shortened

from .faults import fault_in
from .plans import MOST, Plan, Plans
from .refusing import no_refs, too_deep
from .values import Value


class Querying:
    """Answers statements of a model's for one call."""

    def __init__(self, call: Call, plans: Plans) -> None:
        self._call = call
        self._plans = plans
        self._limits = call.setting.limits
        self._cut: list[str] = []

    def answer(self, arguments: DbQuery) -> dict[str, Any]:
        """Return the answer to a statement."""
        session = self._call.session
        plan, literals = self._plans.of(arguments.sql, fenced=session.owner is not None)
        asked = self._limits.rows if arguments.limit is None else arguments.limit
        most = min(asked, self._limits.rows)
        with transaction(session, self._limits.seconds, only_reads=True):
            try:
                found = self._rows(plan, literals, most)
            except RecursionError:  # of SQLAlchemy's, which goes through it by itself
                raise too_deep() from None
            rows = self._shown(plan.values, found[:most])
            answer: dict[str, Any] = {
                "columns": [each.name for each in plan.values],
                "rows": rows,
                "count": len(rows),
                "more": len(rows) < len(found),
            }
            labels = self._labels(plan.values, rows)
        self._keep(plan.values, rows)
        if labels:
            answer["labels"] = labels
        if self._cut:
            answer["cut"] = self._cut
        return answer

    def _rows(self, plan: Plan, literals: Sequence[str], most: int) -> list[Any]:
        wanted = most + 1
        if plan.limit is not None:
            wanted = min(wanted, int(literals[plan.limit]))
        sent = {
            name: each.convert(literals[each.literal]) for name, each in plan.parameters.items()
        }
        begun = monotonic()
        try:
            return list(self._call.session.execute(plan.statement, {**sent, MOST: wanted}).all())
        except UntranslatableError:
            raise no_refs() from None
        except DBAPIError as error:
            seconds = self._limits.seconds
            slow = seconds if seconds is not None and monotonic() - begun >= seconds else None
            fault = fault_in(error, plan.names, slow)
            if fault is None:
                raise
            raise fault from None

    def _shown(self, values: Sequence[Value], found: Sequence[Any]) -> list[list[Any]]:
        """Return rows as JSON, as far as there is room, and one at least."""
        shown: list[list[Any]] = []
        room = self._limits.characters
        for n, row in enumerate(found, start=1):
            made = [
                self._value(value, each, f"row {n}, {value.name}")
                for value, each in zip(values, row, strict=True)
            ]
            room -= size_of(made)
            if room < 0 and shown:
                break
            shown.append(made)
        return shown

    def _value(self, value: Value, given: Any, place: str) -> Any:
        if given is None:
            return None
        if value.key is not None:
            if not all(isinstance(each, str | None) for each in _items(given)):
                raise no_refs()
            return given
        column = value.column
        if column is not None:
            if isinstance(given, list | dict):
                given, is_cut = shallow(given)
                self._note(place, "levels", is_cut=is_cut)
            given = column.show(given)
            if column.values.family == "uuid":
                return Verbatim(given)
        elif isinstance(value.type, Enum):
            given = values_of(value.type, None).show(given)
        else:
            given, is_cut = shallow(given)
            self._note(place, "levels", is_cut=is_cut)
            given = _plain(given)
        return self._short(given, place)

    def _note(self, place: str, what: str, *, is_cut: bool) -> None:
        if is_cut:
            self._cut.append(f"{place}: more {what}")

    def _short(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            short = shortened(value, self._limits.text)
            if isinstance(short, Cut):
                self._cut.append(f"{place}: {short.more} more characters")
            return short
        if isinstance(value, list):
            return [self._short(each, place) for each in value]
        if isinstance(value, dict):
            return {name: self._short(each, place) for name, each in value.items()}
        return value

    def _keep(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> None:
        """Keep for prompts which rows were shown: those of a table, and others beside them."""
        own = [t.columns[t.own] for t in self._call.setting.tables if t.own is not None]
        with self._call.session.activity() as seen:
            if seen is None:
                return
            shown: list[Shown] = [
                (ref, "read" if value.column in own else "linked", None, {})
                for place, value in enumerate(values)
                if value.key is not None
                for row in rows
                for ref in _items(row[place])
                if ref is not None
            ]
            seen.extend(kept(shown, self._call.conversation))

    def _labels(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
        """Return labels of the refs in rows, but of those that have them beside them."""
        if self._call.setting.labels == "none":
            return {}
        refs: dict[str, str] = {}
        for place, value in enumerate(values):
            key = value.key
            target = None if key is None else self._call.setting.tables.of_entity(key.entity)
            if key is None or target is None or target.keys.label is None:
                continue
            for row in rows:
                refs |= dict.fromkeys((each for each in _items(row[place]) if each), key.entity)
        if not refs:
            return {}
        few = list(refs.items())[: self._limits.related]
        keys = self._call.resolved(few)
        tables = self._call.setting.tables
        found = []
        for ref, entity in few:
            target = tables.of_entity(entity)
            if target is not None:
                found.append(Foreign({"ref": ref}, "ref", target, keys[ref, entity]))
        labels = put_labels(self._call.session, found, "legend")
        return {ref: label for ref, label in labels.items() if not _is_beside(ref, label, rows)}


def _is_beside(ref: str, label: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Tell whether each row with a ref has its label too."""
    return all(label in row for row in rows if any(ref in _items(each) for each in row))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> Any:
    """Return a computed value as JSON."""
    match value:
        case bool() | int() | str() | None:
            return value
        case Decimal() if value.is_finite():
            near = float(value)
            return near if Decimal(repr(near)) == value else str(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return to_jsonable_python(value, fallback=str)
