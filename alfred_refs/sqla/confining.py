"""A compiler that confines: no statement that it compiles reads or writes more.

Where a table comes to stand in a FROM is known for certain in one place only, the compiler: after
the ORM has put joins together, subqueries have correlated and options have been applied. So that
is where criteria are added: those of the tables of a FROM to its WHERE, those of the far side of
an outer join to its ON. A table that stands anywhere else is rendered as a subquery of the rows
that may be read. A FROM of any other kind is refused, as is text that may have one.

Leans on how a compiler puts a SELECT together (`_compose_select_body`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2s
from typing import Any, Protocol, cast

from sqlalchemy import ColumnElement, and_, literal_column, select
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import (
    AliasedReturnsRows,
    FromClause,
    FromGrouping,
    Join,
    SelectBase,
    TableClause,
    Values,
)

# What may stand in a statement as text: names, numbers and operators, so that nothing begins
# another SELECT, ends the statement, or hides what follows.
_HARMLESS = re.compile(r"(?:[\w\s.,:*+/<>=~!@#%^&|?-]|'[\w\s.,:*+/<>=~!@#%^&|?-]*')*")
_HARMFUL = re.compile(
    r"--|/\*|\b(select|table|from|union|intersect|except|join|into|values|returning|with|where"
    r"|using|set)\b",
    re.IGNORECASE,
)


_OURS = re.compile(r"alfred_owner_[0-9a-f]{8}_")  # what our aliases begin with
_LONGEST = 63  # bytes of a name


class Rules(Protocol):
    """What a confined statement may do, table by table; raises for one that it does not know."""

    def readable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return which rows may be read of a table, or an alias of one; `None`: all."""
        ...

    def writable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return which rows may be updated or deleted; `None`: all."""
        ...

    def check_update(self, table: FromClause, names: Collection[str]) -> None:
        """Refuse an update that sets columns, by their keys, which it must not."""
        ...

    def check_insert(self, statement: Any, *, nested: bool) -> None:
        """Refuse an insert whose rows cannot be checked."""
        ...

    def check_inserted(
        self, table: FromClause, rows: Iterable[Mapping[str, Any]], owner: Mapping[str, Any]
    ) -> None:
        """Refuse rows that are to be inserted, by their parameters and those of the owner."""
        ...

    def check_function(self, name: str) -> None:
        """Refuse a function that executes SQL."""
        ...

    def refuse(self, what: str) -> Exception:
        """Return the error that refuses what cannot be confined."""
        ...


def is_settled(table: FromClause) -> bool:
    """Tell whether a table is one that `settled` has returned."""
    return bool(vars(table).get("alfred_refs_settled"))


def settled(table: FromClause) -> Any:
    """Return an alias for use in a criterion, which says itself which of its rows are meant.

    Its name is no other's: of each table it is another, and a program may give none that begins
    as it does.
    """
    of = cast(TableClause, table)
    digest = blake2s(f"{of.schema}.{of.name}".encode(), digest_size=4).hexdigest()
    alias = table.alias(f"alfred_owner_{digest}_{of.name}"[:_LONGEST])
    vars(alias)["alfred_refs_settled"] = True
    return alias


def _table_of(from_: FromClause) -> TableClause | None:
    """Return the table that a FROM element is, or is an alias of."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = cast(FromClause, from_.element)
    return from_ if isinstance(from_, TableClause) else None


def _leaves(from_: FromClause) -> Iterator[FromClause]:
    """Yield the tables that a criterion on the rows of a FROM element confines exactly."""
    if isinstance(from_, FromGrouping):
        yield from _leaves(from_.element)
    elif isinstance(from_, Join):
        if not from_.full:
            yield from _leaves(from_.left)
            yield from () if from_.isouter else _leaves(from_.right)
    elif _table_of(from_) is not None:
        yield from_


def _is_known(from_: Any) -> bool:
    """Tell whether a FROM element is of a kind that is confined, as is all that is inside."""
    if isinstance(from_, FromGrouping | AliasedReturnsRows):
        return _is_known(from_.element)
    if isinstance(from_, Join):
        return _is_known(from_.left) and _is_known(from_.right)
    # each is confined where it is visited
    return isinstance(from_, TableClause | SelectBase | UpdateBase | Values | FunctionElement)


class ConfiningCompiler:
    """Goes before a dialect's own compiler."""

    dialect: Any
    stack: list[Any]
    column_keys: Any
    _charged: frozenset[FromClause] = frozenset()  # tables whose criteria stand elsewhere
    _alias: FromClause | None = None  # of the table that is being rendered

    @property
    def _rules(self) -> Rules:
        return cast(Rules, self.dialect.confined_by)

    @contextmanager
    def _charging(self, leaves: Iterable[FromClause]) -> Iterator[None]:
        """Have these tables rendered as they are inside the `with`, and all others confined."""
        before, self._charged = self._charged, frozenset(leaves)
        try:
            yield
        finally:
            self._charged = before

    def _criteria(self, leaves: Iterable[FromClause]) -> list[ColumnElement[bool]]:
        found = (None if is_settled(leaf) else self._rules.readable(leaf) for leaf in leaves)
        return [criterion for criterion in found if criterion is not None]

    # FROM

    def _check(self, froms: Iterable[Any]) -> None:
        for from_ in froms:
            if not _is_known(from_):
                raise self._rules.refuse(f"a {type(from_).__name__} in a FROM")

    def _compose_select_body(
        self, text: str, select: Any, state: Any, columns: Any, froms: Any, *rest: Any
    ) -> Any:
        self._check(froms)
        leaves = [leaf for from_ in froms for leaf in _leaves(from_)]
        criteria = self._criteria(leaves)
        if criteria:
            select = select._generate()
            select._where_criteria = _both(select._where_criteria, criteria)
        with self._charging(leaves):
            return super()._compose_select_body(  # type: ignore[misc]
                text, select, state, columns, froms, *rest
            )

    def visit_join(self, join: Join, **options: Any) -> Any:
        leaves = list(_leaves(join.right)) if join.isouter and not join.full else []
        criteria = self._criteria(leaves)
        if criteria:
            join = cast(Any, join)._clone()
            join.onclause = and_(*_both([cast(Any, join.onclause)], criteria))
        with self._charging([*self._charged, *leaves]):
            return super().visit_join(join, **options)  # type: ignore[misc]

    def visit_cte(self, cte: Any, *arguments: Any, **options: Any) -> Any:
        self._check_name(cte)
        return super().visit_cte(cte, *arguments, **options)  # type: ignore[misc]

    def _check_name(self, from_: Any) -> None:
        if _OURS.match(from_.name) and not is_settled(from_):
            raise self._rules.refuse(f"an alias by the name {from_.name!r}")

    def visit_alias(self, alias: Any, **options: Any) -> Any:
        self._check_name(alias)
        if self._alias is not None or _table_of(alias) is None:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        self._alias = alias
        try:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        finally:
            self._alias = None

    def visit_table(self, table: TableClause, **options: Any) -> Any:
        text = super().visit_table(table, **options)  # type: ignore[misc]
        rendered = options.get("asfrom") or options.get("within_tstring")
        leaf = table if self._alias is None else self._alias
        if not rendered or options.get("iscrud") or leaf in self._charged or is_settled(leaf):
            return text
        return text if self._rules.readable(table) is None else self._subquery(table, text)

    def _subquery(self, table: TableClause, text: str) -> str:
        """Render a table where no criterion can stand beside it."""
        if self._alias is None and getattr(table, "schema", None):
            raise self._rules.refuse(f"table {table.name!r} without alias in this place")
        alias, self._alias = self._alias, None
        charged, self._charged = self._charged, frozenset()
        try:
            inner: Any = select(literal_column("*")).select_from(table).correlate(None)
            rows = inner._compiler_dispatch(self, asfrom=True)
        finally:
            self._alias, self._charged = alias, charged
        return f"({rows})" if alias is not None else f"({rows}) AS {text}"

    # Writes

    def visit_update(self, update_stmt: Any, **options: Any) -> Any:
        names = {*(self.column_keys or ()), *_names(update_stmt._values or ())}
        names |= _names(pair[0] for pair in getattr(update_stmt, "_ordered_values", None) or ())
        self._rules.check_update(update_stmt.table, names)
        if self.stack or options.get("visiting_cte") is not None:
            raise self._rules.refuse("an UPDATE inside another statement")
        with self._charging([]):
            return super().visit_update(  # type: ignore[misc]
                self._confined(update_stmt), **options
            )

    def visit_delete(self, delete_stmt: Any, **options: Any) -> Any:
        with self._charging([]):
            return super().visit_delete(  # type: ignore[misc]
                self._confined(delete_stmt), **options
            )

    def update_from_clause(
        self, statement: Any, table: Any, others: Any, *rest: Any, **o: Any
    ) -> Any:
        self._check(others)
        return super().update_from_clause(statement, table, others, *rest, **o)  # type: ignore[misc]

    def delete_extra_from_clause(
        self, statement: Any, table: Any, others: Any, *rest: Any, **o: Any
    ) -> Any:
        self._check(others)
        return super().delete_extra_from_clause(  # type: ignore[misc]
            statement, table, others, *rest, **o
        )

    def _confined(self, statement: Any) -> Any:
        criterion = self._rules.writable(statement.table)
        if criterion is None:
            return statement
        statement = statement._generate()
        statement._where_criteria = _both(statement._where_criteria, [criterion])
        return statement

    def visit_insert(self, insert_stmt: Any, **options: Any) -> Any:
        nested = bool(self.stack) or options.get("visiting_cte") is not None
        self._rules.check_insert(insert_stmt, nested=nested)
        conflict: Any = getattr(insert_stmt, "_post_values_clause", None)
        if hasattr(conflict, "update_values_to_set"):
            criterion = self._rules.writable(insert_stmt.table)
            if criterion is not None:
                insert_stmt, conflict = insert_stmt._generate(), conflict._clone()
                before = conflict.update_whereclause
                both = and_(*_both([] if before is None else [before], [criterion]))
                conflict.update_whereclause = both
                insert_stmt._post_values_clause = conflict
        return super().visit_insert(insert_stmt, **options)  # type: ignore[misc]

    # What tells no tables

    def _check_text(self, text: str) -> str:
        if not _HARMLESS.fullmatch(text) or _HARMFUL.search(text):
            raise self._rules.refuse("text")
        return text

    def visit_textclause(self, textclause: Any, **options: Any) -> Any:
        if not self.stack:
            raise self._rules.refuse("text()")
        self._check_text(textclause.text)
        return super().visit_textclause(textclause, **options)  # type: ignore[misc]

    def visit_textual_select(self, *_: Any, **__: Any) -> Any:
        raise self._rules.refuse("text()")

    def visit_tstring(self, *_: Any, **__: Any) -> Any:
        raise self._rules.refuse("tstring()")

    def visit_column(self, column: Any, *arguments: Any, **options: Any) -> Any:
        if column.is_literal:
            self._check_text(column.name)
        return super().visit_column(column, *arguments, **options)  # type: ignore[misc]

    def visit_custom_op_binary(self, element: Any, operator: Any, **options: Any) -> Any:
        self._check_text(operator.opstring)
        return super().visit_custom_op_binary(element, operator, **options)  # type: ignore[misc]

    def visit_custom_op_unary_operator(self, element: Any, operator: Any, **options: Any) -> Any:
        self._check_text(operator.opstring)
        return super().visit_custom_op_unary_operator(  # type: ignore[misc]
            element, operator, **options
        )

    def visit_custom_op_unary_modifier(self, element: Any, operator: Any, **options: Any) -> Any:
        self._check_text(operator.opstring)
        return super().visit_custom_op_unary_modifier(  # type: ignore[misc]
            element, operator, **options
        )

    def visit_function(self, func: Any, *arguments: Any, **options: Any) -> Any:
        self._rules.check_function(func.name)
        return super().visit_function(func, *arguments, **options)  # type: ignore[misc]

    def visit_extract(self, extract: Any, **options: Any) -> Any:
        self._check_text(extract.field)
        return super().visit_extract(extract, **options)  # type: ignore[misc]

    def get_statement_hint_text(self, hint_texts: Iterable[str]) -> Any:
        hints = [self._check_text(text) for text in hint_texts]
        return super().get_statement_hint_text(hints)  # type: ignore[misc]


def _both(
    given: Iterable[ColumnElement[bool]], criteria: Iterable[ColumnElement[bool]]
) -> tuple[ColumnElement[bool], ...]:
    """Return what a statement demands, in parentheses, and criteria of ours.

    A text with OR in it, which SQLAlchemy puts beside others as it is, would undo them.
    """
    demanded = [*given]
    return (*([Grouping(and_(*demanded))] if demanded else []), *criteria)


def _names(columns: Iterable[Any]) -> set[str]:
    return {getattr(column, "key", column) for column in columns}
