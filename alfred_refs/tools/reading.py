"""Read rows for a model: its question in, an answer with rows, refs and labels out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any

from sqlalchemy import Select, and_, true
from sqlalchemy.orm import undefer

from alfred_refs import sqla
from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import SetupError
from alfred_refs.mapping.refs import parse_ref
from alfred_refs.tools.answers.results import Rendering, Shape, shape_of
from alfred_refs.tools.drafts.matching import Record, meeting
from alfred_refs.tools.drafts.merging import in_order
from alfred_refs.tools.drafts.rows import Drafted, DraftRows, drafted, number_of
from alfred_refs.tools.query.budget import check_budget
from alfred_refs.tools.query.cursors import Cursor, carried, cursor_of, question_of
from alfred_refs.tools.query.filters import Condition, Conditions, Keys, chosen_refs, refs_of
from alfred_refs.tools.query.grammar import check_filters, is_semantic
from alfred_refs.tools.query.statement import (
    GivenOrder,
    Order,
    order_of,
    rows_asked_for,
    statement_of,
)
from alfred_refs.tools.tables.hooks import Reading, Row
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import SEMANTIC, DbRead, FilterClause, OrGroup
from alfred_refs.tools.wire.texts import Verbatim

from .call import Call
from .errors import InvalidCursorError, InvalidFilterError, NoSemanticSearchError
from .fates import check_there

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
        drafts = self._drafts_named(asked, table)
        self._resolved(asked, table, drafts)
        reading = Reading(self._call.session, table.model, asked, semantic)
        for hooks in self._setting.hooks_of(table):
            hooks.before_read(reading)
            check_filters(reading.arguments, table)
        if semantic is not None and reading.keys is None and not reading.empty:
            raise NoSemanticSearchError(table.name)
        if reading.arguments is not asked:
            check_budget(reading.arguments, table, self._setting.max_written)
            drafts = self._drafts_named(reading.arguments, table)
        return self._answer(reading, table, arguments, cursor, drafts)

    def _answer(
        self,
        reading: Reading,
        table: ToolTable,
        question: DbRead,
        cursor: Cursor | None,
        drafts: Mapping[str, Draft],
    ) -> dict[str, Any]:
        asked, most = reading.arguments, self._setting.limits.rows
        limit = most if asked.limit is None else min(asked.limit, most)
        page = _Page(shape_of(table, asked.columns, reading.include), limit, cursor, drafts)
        instances, more = self._instances(reading, page)
        if not more and cursor is None:
            self._check_named(reading, page, instances)
        found = self._drafts(reading, page)
        entries = self._merged(reading, page, instances, found)
        rendering = self._call.rendering(
            _instances_of(entries[:limit]), page.shape, reading.options
        )
        draft_rows = DraftRows(
            self._call, rendering, found.labels, whole=reading.arguments.columns is None
        )
        shown = self._rows(entries[:limit], page.shape, rendering, draft_rows)
        rows = [row for entry, row in shown if not isinstance(entry, Record)]
        for hooks in self._setting.hooks_of(table):
            hooks.after_read(reading, rows)
        self._call.shorten(rows, page.shape, rendering.cut)
        for place, (entry, row) in enumerate(shown):
            if isinstance(entry, Record):
                rows.insert(place, row)
        more = more or len(shown) < len(entries)
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        answer["more"] = more
        if more and shown:
            cursor = self._next(reading, question, page, [entry for entry, _ in shown])
            answer["cursor"] = Verbatim(cursor)
        return self._call.finished(answer, reading.notes, rendering, draft_rows.foreign())

    def _rows(
        self, entries: Sequence[Any], shape: Shape, rendering: Rendering, drafts: DraftRows
    ) -> list[tuple[Any, Row]]:
        """Return rows until there is enough text, and one at least, with what they are of."""

        def render(entry: Any) -> Row:
            return (drafts if isinstance(entry, Record) else rendering).row(entry, shape)

        noted = (rendering.shown, drafts.shown, rendering.cut)
        rows = self._call.room().take(entries, render, noted)
        return list(zip(entries, rows, strict=False))

    def _drafts_named(self, asked: DbRead, table: ToolTable) -> Mapping[str, Draft]:
        """Return the drafts that filters name as rows of a table."""
        texts = chosen_refs([*asked.filters, *asked.or_filters], table)
        return self._call.drafts_named(texts, table.entity)

    def _drafts(self, reading: Reading, page: _Page) -> Drafted:
        """Return the drafts to show, on this page or a later one."""
        asked, table = reading.arguments, page.shape.table
        filters = [*asked.filters, *asked.or_filters]
        drafts = [*page.drafts.values()]
        if reading.semantic is not None and drafts:
            raise InvalidFilterError(SEMANTIC, "has no answer for drafts", "leave it out")
        if reading.empty or reading.keys is not None or not drafts:
            return Drafted()
        found = drafted(self._call, drafts, table, filters)
        either = [OrGroup(any_of=asked.or_filters)] if asked.or_filters else []
        met = meeting(found.records, [*asked.filters, *either])
        waiting = [each for each in met if number_of(each.name) not in page.drafts_shown]
        return Drafted(waiting, found.labels)

    def _merged(
        self, reading: Reading, page: _Page, instances: Sequence[Any], found: Drafted
    ) -> list[Any]:
        """Return rows and drafts in the order that is asked for."""
        if not found.records:
            return list(instances)
        order = order_of(reading, page.shape.table)
        ranks = partial(self._call.ranks, order.table)
        return in_order([*instances, *found.records], order.columns, ranks)

    def _instances(self, reading: Reading, page: _Page) -> tuple[list[Any], bool]:
        """Return the rows to show, and whether there are more."""
        if reading.empty:
            return [], False
        table, cursor = page.shape.table, page.cursor
        keys = self._resolved(reading.arguments, table, page.drafts)
        conditions = rows_asked_for(reading, table, Conditions(keys, page.drafts))
        if reading.keys is not None:
            return self._in_given_order(reading, page, conditions)
        order = order_of(reading, table)
        if sqla.is_false(and_(true(), *conditions)):  # drafts alone are asked for
            return [], False
        if cursor is not None and not (cursor.ref is None and cursor.drafts):
            conditions.append(self._beyond(cursor, order))
        statement = statement_of(table, conditions, order, page.limit)
        if page.drafts:  # to be put in order with the rows
            by = (getattr(table.model, column.name) for column in order.columns)
            statement = statement.options(*map(undefer, by))
        found = self._all(statement, reading, page)
        return found[: page.limit], len(found) > page.limit

    def _check_named(self, reading: Reading, page: _Page, found: Sequence[Any]) -> None:
        """Check that rows are there which are named and not found, or where nothing is found.

        Raises:
            GoneRefError: one is not.
        """
        asked, table = reading.arguments, page.shape.table
        if reading.keys is not None or reading.empty or not (asked.filters or asked.or_filters):
            return
        named = self._resolved(asked, table, page.drafts)
        if found:
            chosen = {*chosen_refs([*asked.filters, *asked.or_filters], table)}
            if not chosen:
                return
            chosen.difference_update(self._call.refs_of(found, table))
            named = {ref: key for ref, key in named.items() if ref[0] in chosen}
        if named:
            reading.notes += check_there(self._call, named)

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

    def _resolved(self, asked: DbRead, table: ToolTable, drafts: Collection[str]) -> Keys:
        filters = [*asked.filters, *asked.or_filters]
        return self._call.resolved(refs_of(filters, table, drafts))

    def _all(self, statement: Select[tuple[Any]], reading: Reading, page: _Page) -> list[Any]:
        # as the database has them: the session may have read them before
        loaders = page.shape.loaders(page.shape.table.model)
        fresh = statement.options(*loaders, *reading.options).execution_options(
            populate_existing=True
        )
        return list(self._call.session.scalars(fresh).unique())

    def _beyond(self, cursor: Cursor, order: Order) -> Condition:
        """Return that a row comes after the one where a read stopped, though that be gone by now.

        Raises:
            InvalidCursorError: it is not the cursor of this read, or needs what that row had.
        """
        ref = parse_ref(cursor.ref or "")
        known = [str(ref)] if ref is not None and ref.entity == order.table.entity else []
        keys = [*self._call.conversation.keys_held(known).values()]
        if not keys:
            raise InvalidCursorError
        beyond = order.beyond(cursor, keys[0])
        if cursor.after is None:
            row = self._call.session.execute(order.place(keys[0])).first()
            if row is None:
                raise InvalidCursorError(gone=str(ref))
            if order.seen(row[1:]) != cursor.seen:
                raise InvalidCursorError(changed=str(ref))
        return beyond

    def _next(
        self, reading: Reading, question: DbRead, page: _Page, entries: Sequence[Any]
    ) -> Cursor:
        asked = question_of(question)
        shown = _instances_of(entries)
        if reading.keys is not None:
            return Cursor(question=asked, shown=page.start + len(shown))
        drafts = [number_of(each.name) for each in entries if isinstance(each, Record)]
        drafts = [*page.drafts_shown, *drafts]
        if not shown:
            before = page.cursor or Cursor(question=asked)
            return before.model_copy(update={"drafts": drafts})
        last, table = shown[-1], page.shape.table
        order = order_of(reading, table)
        values = [(column.values, getattr(last, column.name)) for column in order.columns]
        [ref] = self._call.refs_of([last], table)
        if all(starmap(carried, values)):
            after = [of.show(value) for of, value in values]
            return Cursor(question=asked, after=after, ref=ref, drafts=drafts)
        seen = order.seen(value for _, value in values)
        return Cursor(question=asked, after=None, seen=seen, ref=ref, drafts=drafts)


@dataclass(frozen=True, slots=True)
class _Page:
    """What of the rows that a question asks for is shown.

    Attributes:
        shape: what of each.
        limit: how many.
        cursor: where the page before ended.
        drafts: that the question names as rows, by their refs.
    """

    shape: Shape
    limit: int
    cursor: Cursor | None
    drafts: Mapping[str, Draft]

    @property
    def start(self) -> int:
        """How many rows were shown before, where a hook gives the order."""
        return 0 if self.cursor is None else self.cursor.shown or 0

    @property
    def drafts_shown(self) -> Sequence[int]:
        """The numbers of the drafts that were shown before."""
        return () if self.cursor is None else self.cursor.drafts


def _instances_of(entries: Sequence[Any]) -> list[Any]:
    return [each for each in entries if not isinstance(each, Record)]


def _without_semantic(arguments: DbRead) -> tuple[DbRead, str | None]:
    """Take the search by meaning out of the filters."""
    found = [each for each in arguments.filters if is_semantic(each)]
    if not found:
        return arguments, None
    [clause, *others] = found
    text = clause.value if isinstance(clause, FilterClause) else None
    if others or not isinstance(text, str) or not text.strip():
        raise InvalidFilterError(
            SEMANTIC, "needs one text to be similar to", "give it once, with the text as value"
        )
    rest = [each for each in arguments.filters if not is_semantic(each)]
    return arguments.model_copy(update={"filters": rest}), text
