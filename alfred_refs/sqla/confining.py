"""A compiler that confines: no statement that it compiles reads or writes more.

Where a table comes to stand in a FROM is known for certain in one place only, the compiler: after
the ORM has put joins together, subqueries have correlated and options have been applied. So that
is where criteria are added: those of the tables of a FROM to its WHERE, those of the far side of
an outer join to its ON. A table that stands anywhere else is rendered as a subquery of the rows
that may be read. A FROM of any other kind is refused, as is text that may have one.

Leans on how a compiler puts a SELECT together (`_compose_select_body`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from sqlalchemy import ColumnElement, and_, literal_column, select
from sqlalchemy.sql.elements import Grouping
from sqlalchemy.sql.selectable import (
    Exists,
    FromClause,
    Join,
    TableClause,
    TableSample,
)
from sqlalchemy.sql.util import surface_selectables_only

from .clauses import update_on_conflict
from .froms import elements_in, is_known, is_ours, is_settled, leaves_of, table_of
from .verbatim import is_harmless


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

    def check_insert(self, table: FromClause, statement: Any, *, nested: bool) -> None:
        """Refuse an insert whose rows cannot be checked."""
        ...

    def check_written(
        self,
        table: FromClause,
        rows: Iterable[Mapping[str, Any]],
        owner: Mapping[str, Any],
        *,
        is_new: bool,
    ) -> None:
        """Refuse rows that are written, by their parameters and those of the owner."""
        ...

    def check_function(self, name: str) -> None:
        """Refuse a function that executes SQL."""
        ...

    def check_cte(self, name: str) -> None:
        """Refuse a CTE that would stand for a table by its name."""
        ...

    def refuse(self, what: str) -> Exception:
        """Return the error that refuses what cannot be confined."""
        ...


class ConfiningCompiler:
    """Goes before a dialect's own compiler."""

    dialect: Any
    stack: list[Any]
    column_keys: Any
    compile_state: Any
    _charged: frozenset[FromClause] = frozenset()  # tables whose criteria stand elsewhere
    _locked: frozenset[Any] = frozenset()  # those of a FROM whose rows the select locks
    _locks: int | None = None  # the depth at which a subquery locks its rows, because it is one
    _alias: FromClause | None = None  # of the table that is being rendered

    @property
    def _rules(self) -> Rules:
        return cast(Rules, self.dialect.confined_by)

    @contextmanager
    def _charging(
        self, leaves: Iterable[FromClause], locked: frozenset[Any] = frozenset()
    ) -> Iterator[None]:
        """Have these tables rendered as they are inside the `with`, and all others confined."""
        before = self._charged, self._locked
        self._charged, self._locked = frozenset(leaves), locked
        try:
            yield
        finally:
            self._charged, self._locked = before

    def _criteria(
        self, leaves: Iterable[FromClause], locked: frozenset[Any]
    ) -> list[ColumnElement[bool]]:
        """Return which rows may be read; of those that are locked, which may be written."""
        rules = self._rules
        found = (
            (rules.writable if leaf in locked else rules.readable)(leaf)
            for leaf in leaves
            if not is_settled(leaf)
        )
        return [criterion for criterion in found if criterion is not None]

    def _locked_by(self, select: Any, froms: Iterable[Any]) -> frozenset[Any]:
        """Return the tables and subqueries of a FROM whose rows a select locks.

        A lock on a subquery is one on the tables in it, and on those of subqueries there.
        """
        given = select._for_update_arg
        if self._locks == len(self.stack) - 1 or (given is not None and not given.of):
            return frozenset(element for from_ in froms for element in elements_in(from_))
        named = () if given is None else given.of
        return frozenset(each for of in named for each in surface_selectables_only(of))

    # FROM

    def _check(self, froms: Iterable[Any]) -> None:
        for from_ in froms:
            if not is_known(from_):
                raise self._rules.refuse(f"a {type(from_).__name__} in a FROM")

    def _compose_select_body(
        self, text: str, select: Any, state: Any, columns: Any, froms: Any, *rest: Any
    ) -> Any:
        self._check(froms)
        if select._suffixes:  # they follow the criteria, as a hint does
            raise self._rules.refuse("suffix_with()")
        leaves = [leaf for from_ in froms for leaf in leaves_of(from_)]
        locked = self._locked_by(select, froms)
        criteria = self._criteria(leaves, locked)
        if criteria:
            select = select._generate()
            select._where_criteria = _both(select._where_criteria, criteria)
        with self._charging(leaves, locked):
            return super()._compose_select_body(  # type: ignore[misc]
                text, select, state, columns, froms, *rest
            )

    def visit_join(self, join: Join, **options: Any) -> Any:
        leaves = list(leaves_of(join.right)) if join.isouter and not join.full else []
        criteria = self._criteria(leaves, self._locked)
        if criteria:
            join = cast(Any, join)._clone()
            join.onclause = and_(*_both([cast(Any, join.onclause)], criteria))
        with self._charging([*self._charged, *leaves], self._locked):
            return super().visit_join(join, **options)  # type: ignore[misc]

    def visit_cte(self, cte: Any, *arguments: Any, **options: Any) -> Any:
        self._check_name(cte)
        self._rules.check_cte(cte.name)
        if cte._suffixes:
            raise self._rules.refuse("suffix_with()")
        return super().visit_cte(cte, *arguments, **options)  # type: ignore[misc]

    def _check_name(self, from_: Any) -> None:
        if is_ours(from_.name) and not is_settled(from_):
            raise self._rules.refuse(f"an alias by the name {from_.name!r}")

    def visit_alias(self, alias: Any, **options: Any) -> Any:
        self._check_name(alias)
        if table_of(alias) is None:
            return self._visit_subquery(alias, **options)
        if self._alias is not None:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        self._alias = alias
        try:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        finally:
            self._alias = None

    def _visit_subquery(self, alias: FromClause, **options: Any) -> Any:
        with self._locking(alias):
            return super().visit_alias(alias, **options)  # type: ignore[misc]

    @contextmanager
    def _locking(self, from_: FromClause) -> Iterator[None]:
        """Have the rows of a subquery locked that is rendered for this one, if its are."""
        before, self._locks = self._locks, len(self.stack) if from_ in self._locked else None
        try:
            yield
        finally:
            self._locks = before

    def visit_tablesample(self, tablesample: TableSample, **options: Any) -> Any:
        if tablesample not in self._charged and self._rules.readable(tablesample) is not None:
            raise self._rules.refuse("a TABLESAMPLE in this place")
        return super().visit_tablesample(tablesample, **options)  # type: ignore[misc]

    def visit_table(self, table: TableClause, **options: Any) -> Any:
        text = super().visit_table(table, **options)  # type: ignore[misc]
        rendered = options.get("asfrom") or options.get("within_tstring")
        leaf = table if self._alias is None else self._alias
        if rendered and table.schema and not options.get("use_schema", True):
            # SQLAlchemy leaves schemas out inside ON CONFLICT, which makes it another table
            raise self._rules.refuse(f"table {str(table)!r} in this place")
        if not rendered or options.get("iscrud") or is_settled(leaf):
            return text
        criterion = self._rules.readable(table)
        is_charged = leaf in self._charged
        renamed = options.get("ambiguous_table_name_map") or ()
        # SQLAlchemy gives it an alias, beside a table of its name in a schema, by which it is not
        # known in a subquery
        is_renamed = leaf is table and not table.schema and table.name in renamed
        if is_renamed and (isinstance(criterion, Exists) or not (is_charged or criterion is None)):
            raise self._rules.refuse(f"table {table.name!r} without alias in this place")
        return text if is_charged or criterion is None else self._subquery(table, text)

    def _subquery(self, table: TableClause, text: str) -> str:
        """Render a table where no criterion can stand beside it."""
        if self._alias is None and getattr(table, "schema", None):
            raise self._rules.refuse(f"table {table.name!r} without alias in this place")
        alias, self._alias = self._alias, None
        charged, self._charged = self._charged, frozenset()
        try:
            inner: Any = select(literal_column("*")).select_from(table).correlate(None)
            with self._locking(table if alias is None else alias):
                rows = inner._compiler_dispatch(self, asfrom=True)
        finally:
            self._alias, self._charged = alias, charged
        return f"({rows})" if alias is not None else f"({rows}) AS {text}"

    # Writes

    def visit_update(self, update_stmt: Any, **options: Any) -> Any:
        table = _written_by(update_stmt)
        names = {*(self.column_keys or ()), *_names(update_stmt._values or ())}
        names |= _names(pair[0] for pair in getattr(update_stmt, "_ordered_values", None) or ())
        self._rules.check_update(table, names)
        if self.stack or options.get("visiting_cte") is not None:
            raise self._rules.refuse("an UPDATE inside another statement")
        with self._charging(_aliases([table])):
            text = super().visit_update(  # type: ignore[misc]
                self._confined(update_stmt, table), **options
            )
        if self.compile_state.statement.table != table:  # the ORM has put another in its place
            raise self._rules.refuse(f"an UPDATE of {table.description!r}")
        return text

    def visit_delete(self, delete_stmt: Any, **options: Any) -> Any:
        table = delete_stmt.table
        with self._charging(_aliases([table])):
            return super().visit_delete(  # type: ignore[misc]
                self._confined(delete_stmt, table), **options
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

    def _confined(self, statement: Any, table: FromClause) -> Any:
        criterion = self._rules.writable(table)
        if criterion is None:
            return statement
        statement = statement._generate()
        statement._where_criteria = _both(statement._where_criteria, [criterion])
        return statement

    def visit_insert(self, insert_stmt: Any, **options: Any) -> Any:
        nested = bool(self.stack) or options.get("visiting_cte") is not None
        table = _written_by(insert_stmt)
        self._rules.check_insert(table, insert_stmt, nested=nested)
        conflict = update_on_conflict(insert_stmt)
        if conflict is not None:
            criterion = self._rules.writable(table)
            if criterion is not None:
                insert_stmt, conflict = insert_stmt._generate(), conflict._clone()
                before = conflict.update_whereclause
                both = and_(*_both([] if before is None else [before], [criterion]))
                conflict.update_whereclause = both
                insert_stmt._post_values_clause = conflict
        return super().visit_insert(insert_stmt, **options)  # type: ignore[misc]

    # What tells no tables

    def _check_text(self, text: str) -> str:
        if not is_harmless(text):
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
        if any(hint_texts):  # it would follow the criteria, outside of all parentheses
            raise self._rules.refuse("a hint")
        return super().get_statement_hint_text(hint_texts)  # type: ignore[misc]


class _Demanded(Grouping[bool]):
    """What a statement demands, in parentheses that stay.

    A `Grouping` passes for what is in it: by its operator, `and_()` would take the parentheses
    from another `and_()`, and a text with OR in there would undo what stands beside.
    """

    inherit_cache = True
    operator: Any = None


def _both(
    given: Iterable[ColumnElement[bool]], criteria: Iterable[ColumnElement[bool]]
) -> tuple[ColumnElement[bool], ...]:
    """Return what a statement demands, in parentheses, and criteria of ours.

    A text with OR in it, which SQLAlchemy puts beside others as it is, would undo them.
    """
    demanded = [*given]
    return (*([_Demanded(and_(*demanded))] if demanded else []), *criteria)


def _written_by(statement: Any) -> Any:
    """Return the table that an update or insert is of.

    The ORM makes one statement of a class and has it write each of the tables that a joined
    subclass is mapped to, which it notes in annotations.
    """
    noted = statement._annotations
    return noted.get("_emit_update_table", noted.get("_emit_insert_table", statement.table))


def _aliases(tables: Iterable[FromClause]) -> list[FromClause]:
    """Return those that are aliases: a table that is written is told by how it is rendered."""
    return [table for table in tables if not isinstance(table, TableClause)]


def _names(columns: Iterable[Any]) -> set[str]:
    return {getattr(column, "key", column) for column in columns}
