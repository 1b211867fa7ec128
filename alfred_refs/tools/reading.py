"""Read rows for a model: its question in, an answer with rows, refs and labels out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select

from alfred_refs.errors import GoneRefError, SetupError, UnknownRefError

from .arguments import SEMANTIC, DbRead, FilterClause
from .calls import Call
from .cursors import Cursor, cursor_of, question_of
from .errors import InvalidCursorError, InvalidFilterError, NoSemanticSearchError
from .filters import Condition, Conditions, Keys, refs_of
from .hooks import Reading, Row
from .questions import GivenOrder, order_of, rows_asked_for, statement_of
from .results import Rendering, Shape, shape_of, size_of
from .tables import ToolTable

_LONGEST_IN_CURSOR = 200  # characters of one value: a model repeats the cursor letter by letter
_MOST_KEYS = 1_000  # that a hook may give: each is a part of the statement


class Reader:
    """Reads for one call.

    Args:
        call: that is answered.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._setting = call.setting

    def read(self, arguments: DbRead) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            ToolError: it cannot be answered.
            BadRefError: a ref in it cannot be used.
        """
        table = self._setting.tables.named(arguments.table)
        asked, semantic = _without_semantic(arguments)
        cursor = cursor_of(arguments)
        self._resolved(asked, table)
        reading = Reading(self._call.session, table.model, asked, semantic)
        for hooks in self._setting.hooks_of(table):
            hooks.before_read(reading)
        if semantic is not None and reading.keys is None and not reading.empty:
            raise NoSemanticSearchError(table.name)
        return self._answer(reading, table, arguments, cursor)

    def _answer(
        self, reading: Reading, table: ToolTable, question: DbRead, cursor: Cursor | None
    ) -> dict[str, Any]:
        asked, most = reading.arguments, self._setting.limits.rows
        limit = most if asked.limit is None else min(asked.limit, most)
        page = _Page(shape_of(table, asked.columns, reading.include), limit, cursor)
        instances, more = self._instances(reading, page)
        rendering = self._call.rendering(instances, page.shape)
        rows = self._rows(instances, page.shape, rendering)
        for hooks in self._setting.hooks_of(table):
            hooks.after_read(reading, rows)
        self._call.clean_rows(rows, page.shape)
        more = more or len(rows) < len(instances)
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        answer["more"] = more
        if more and rows:
            answer["cursor"] = str(self._next(reading, question, page, instances[: len(rows)]))
        return self._call.finished(answer, reading.notes, rendering)

    def _rows(self, instances: Sequence[Any], shape: Shape, rendering: Rendering) -> list[Row]:
        """Return rows until there is enough text, and one at least."""
        rows: list[Row] = []
        size = 0
        for instance in instances:
            before = len(rendering.shown)
            row = rendering.row(instance, shape)
            size += size_of(row)
            if rows and size > self._setting.limits.characters:
                del rendering.shown[before:]
                break
            rows.append(row)
        return rows

    def _instances(self, reading: Reading, page: _Page) -> tuple[list[Any], bool]:
        """Return the rows to show, and whether there are more."""
        if reading.empty:
            return [], False
        table, cursor = page.shape.table, page.cursor
        conditions = rows_asked_for(
            reading, table, Conditions(self._resolved(reading.arguments, table))
        )
        if reading.keys is not None:
            return self._in_given_order(reading, page, conditions)
        order = order_of(reading, table)
        if cursor is not None:
            conditions.append(order.beyond(cursor, self._key_at(cursor, table)))
        found = self._all(statement_of(table, conditions, order, page.limit), reading, page)
        return found[: page.limit], len(found) > page.limit

    def _in_given_order(
        self, reading: Reading, page: _Page, conditions: Sequence[Condition]
    ) -> tuple[list[Any], bool]:
        table = page.shape.table
        keys = self._keys_given(reading, table)
        if not keys:
            return [], False
        among = getattr(table.model, table.own or "").in_(keys)
        order = GivenOrder(table, keys)
        statement = statement_of(table, [*conditions, among], order, page.limit)
        found = self._all(statement.offset(page.start), reading, page)
        return found[: page.limit], len(found) > page.limit

    def _keys_given(self, reading: Reading, table: ToolTable) -> list[Any]:
        if table.own is None:
            raise SetupError(
                f"a hook gave keys of table {table.name!r}, whose rows have several key columns",
                "let the hook set conditions",
            )
        return self._call.keys_given(list(reading.keys or ())[:_MOST_KEYS], table)

    def _resolved(self, asked: DbRead, table: ToolTable) -> Keys:
        return self._call.resolved(refs_of([*asked.filters, *asked.or_filters], table))

    def _all(self, statement: Select[tuple[Any]], reading: Reading, page: _Page) -> list[Any]:
        # as the database has them: the session may have read them before
        fresh = statement.options(*page.shape.loaders(), *reading.options).execution_options(
            populate_existing=True
        )
        return list(self._call.session.scalars(fresh).unique())

    def _key_at(self, cursor: Cursor, table: ToolTable) -> Any:
        if cursor.ref is None:
            raise InvalidCursorError
        wanted = (cursor.ref, table.entity)
        try:
            return self._call.resolved([wanted])[wanted]
        except (GoneRefError, UnknownRefError):
            raise InvalidCursorError from None

    def _next(
        self, reading: Reading, question: DbRead, page: _Page, shown: Sequence[Any]
    ) -> Cursor:
        asked = question_of(question)
        if reading.keys is not None:
            return Cursor(question=asked, shown=page.start + len(shown))
        last, table = shown[-1], page.shape.table
        columns = order_of(reading, table).columns
        after = [column.values.show(getattr(last, column.name)) for column in columns]
        is_plain = all(map(self._is_plain, after))
        [ref] = self._call.refs_of([last], table)
        return Cursor(question=asked, after=after if is_plain else None, ref=ref)

    def _is_plain(self, value: Any) -> bool:
        """Tell whether a value may be in a cursor: it is short, and has no key in it."""
        text = value if isinstance(value, str) else ""
        return len(text) <= _LONGEST_IN_CURSOR and self._call.scrub(text) == text


@dataclass(frozen=True, slots=True)
class _Page:
    """What of the rows that a question asks for is shown.

    Attributes:
        shape: what of each.
        limit: how many.
        cursor: where the page before ended.
    """

    shape: Shape
    limit: int
    cursor: Cursor | None

    @property
    def start(self) -> int:
        """How many rows were shown before, where a hook gives the order."""
        return 0 if self.cursor is None else self.cursor.shown or 0


def _without_semantic(arguments: DbRead) -> tuple[DbRead, str | None]:
    """Take the search by meaning out of the filters."""
    found = [each for each in arguments.filters if _is_semantic(each)]
    if not found:
        return arguments, None
    [clause, *others] = found
    text = clause.value if isinstance(clause, FilterClause) else None
    if others or not isinstance(text, str) or not text.strip():
        raise InvalidFilterError(
            SEMANTIC, "needs one text to be similar to", "give it once, with the text as value"
        )
    rest = [each for each in arguments.filters if not _is_semantic(each)]
    return arguments.model_copy(update={"filters": rest}), text


def _is_semantic(given: object) -> bool:
    return isinstance(given, FilterClause) and given.field == SEMANTIC and given.op == "similar"
