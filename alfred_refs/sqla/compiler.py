"""A compiler that adds an owner's criteria to every statement, and a dialect that uses it.

Where a table ends up in a FROM list is known in one place only, the compiler: after the ORM has
put joins together, subqueries have been correlated and loader options have been applied. So that
is where the criteria of `ConfinementRules` are added:

| a table | its criterion goes |
| --- | --- |
| in the FROM list of a SELECT | to the WHERE |
| on the nullable side of an outer join | to the ON |
| anywhere else | into a subquery that replaces the table |
| written by an UPDATE, a DELETE or the SET of an upsert | to the WHERE of that |

`confined_dialect` returns a copy of a dialect that compiles and executes by the rules, and
`set_dialect` puts it on a connection for as long as that works for an owned session. The compiled
cache has the dialect in its keys, so the same statement, compiled for a session without owner, is
another entry.

Example:
    >>> class SoupOnly:
    ...     def readable(self, table):
    ...         return table.c.name == "Soup" if "name" in table.c else None
    ...     refuse = ValueError
    >>> dialect = confined_dialect(engine.dialect, SoupOnly())
    >>> print(select(Recipe.servings).compile(dialect=dialect))
    SELECT recipes.servings FROM recipes WHERE recipes.name = %(name_1)s::VARCHAR
    >>> print(select(select(Recipe.name).suffix_with("FOR UPDATE").subquery()).compile(
    ...     dialect=dialect
    ... ))
    Traceback (most recent call last):
    ValueError: suffix_with()

Limits:

- SQL that is text to SQLAlchemy is refused, not parsed: `text()`, DDL, hints, suffixes, unknown
  kinds of FROM element, and text in operators, names or types that may have more than these in it.
- The rows of an INSERT are checked by the rules, from its parameters, not in SQL.
- The database's own rules (views, functions with their own rights, triggers) are not considered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2s
from typing import Any, Protocol, cast

from sqlalchemy import ColumnElement, Connection, and_, literal_column, select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import (
    AliasedReturnsRows,
    Exists,
    FromClause,
    FromGrouping,
    Join,
    SelectBase,
    TableClause,
    TableSample,
    Values,
)
from sqlalchemy.sql.util import surface_selectables_only

from alfred_refs.sqla.mappers import deannotated_table, mapper_of_table
from alfred_refs.sqla.statements import update_on_conflict, write_target

# Rules


class ConfinementRules(Protocol):
    """The rows that confined statements may read and write, by table; methods may raise."""

    def readable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return the criterion for the rows that may be read; `None`: all.

        Args:
            table: a table, or an alias of one.
        """
        ...

    def writable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return the criterion for the rows that may be updated or deleted; `None`: all."""
        ...

    def check_update(self, table: FromClause, names: Collection[str]) -> None:
        """Refuse an update of columns, by their keys, that must not be set."""
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
        """Refuse rows of an insert or update, given their parameters and the criteria's."""
        ...

    def check_function(self, name: str) -> None:
        """Refuse a function that executes SQL."""
        ...

    def check_cte(self, name: str) -> None:
        """Refuse a CTE that has the name of a table."""
        ...

    def refuse(self, what: str) -> Exception:
        """Return the error for a construct that cannot be confined."""
        ...


# FROM elements

# Names of our aliases. PostgreSQL folds an unquoted name to lower case.
_RESERVED_ALIAS = re.compile(r"alfred_owner_[0-9a-f]{8}_", re.IGNORECASE)
_MAX_IDENTIFIER = 63  # bytes of a name in PostgreSQL


def criterion_alias(table: FromClause) -> Any:
    """Return an alias of a table for use inside a criterion, which is not confined itself.

    Each table has a name of its own for it, and statements of the application may not use such a
    name for an alias: inside the criterion it would hide ours.
    """
    aliased = cast(TableClause, table)
    digest = blake2s(f"{aliased.schema}.{aliased.name}".encode(), digest_size=4).hexdigest()
    alias = table.alias(f"alfred_owner_{digest}_{aliased.name}"[:_MAX_IDENTIFIER])
    vars(alias)["alfred_refs_criterion"] = True
    return alias


def _is_criterion_alias(table: FromClause) -> bool:
    return bool(vars(table).get("alfred_refs_criterion"))


def _table_of(from_: FromClause) -> TableClause | None:
    """Return the table that a FROM element is, or is an alias of."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = cast(FromClause, from_.element)
    return from_ if isinstance(from_, TableClause) else None


def _inner_tables(from_: FromClause) -> Iterator[FromClause]:
    """Yield the tables of a FROM element whose rows are never NULL-extended by an outer join.

    A criterion on those may go to the WHERE of the SELECT.
    """
    if isinstance(from_, FromGrouping):
        yield from _inner_tables(from_.element)
    elif isinstance(from_, Join):
        if not from_.full:
            yield from _inner_tables(from_.left)
            yield from () if from_.isouter else _inner_tables(from_.right)
    elif _table_of(from_) is not None:
        yield from_


def _joined_elements(from_: Any) -> Iterator[Any]:
    """Yield the tables, aliases and subqueries that a FROM element is joined of."""
    if isinstance(from_, Join):
        yield from _joined_elements(from_.left)
        yield from _joined_elements(from_.right)
    elif isinstance(from_, FromGrouping):
        yield from _joined_elements(from_.element)
    else:
        yield from_


def _is_supported(from_: Any) -> bool:
    """Return whether a FROM element is of a kind that the compiler confines."""
    if isinstance(from_, FromGrouping | AliasedReturnsRows):
        return _is_supported(from_.element)
    if isinstance(from_, Join):
        return _is_supported(from_.left) and _is_supported(from_.right)
    # the elements inside these are confined when they are visited
    return isinstance(from_, TableClause | SelectBase | UpdateBase | Values | FunctionElement)


# Text that SQLAlchemy renders as it is: nothing in it may begin another SELECT, end the statement,
# or comment out what follows.

# names, numbers, operators and string literals
_HARMLESS = re.compile(r"(?:[\w\s.,:*+/<>=~!@#%^&|?-]|'[\w\s.,:*+/<>=~!@#%^&|?-]*')*")
_HARMFUL = re.compile(
    r"--|/\*|\b(select|table|from|union|intersect|except|join|into|values|returning|with|where"
    r"|using|set)\b",
    re.IGNORECASE,
)
# No dots: with a schema, a function's name would not be compared with those that execute SQL. The
# second form is the placeholder for a translated schema, which SQLAlchemy quotes when it fills it.
_NAME = re.compile(r"[\w$]*|__\[SCHEMA_[^\[\]]*\]")
# VARCHAR(5)[], INTERVAL DAY TO SECOND (3), "my type", geometry(POINT,4326)
_TYPE = re.compile(r"""(?:[\w\s.\[\]]|"(?:[^"]|"")*"|\([\w\s,.'-]*\))*""")
_NOT_IN_TYPE = re.compile(r"\b(from|where|union|intersect|except)\b", re.IGNORECASE)

_Refuse = Callable[[str], Exception]


class _CheckedNames:
    """Mixin before the class of a dialect's identifier preparer.

    Every name passes through `quote()`. SQLAlchemy renders a `quoted_name(..., quote=False)` as
    it is.
    """

    refuse: _Refuse

    def quote(self, ident: str, *rest: Any, **options: Any) -> Any:
        if getattr(ident, "quote", None) is False and not _NAME.fullmatch(ident):
            raise type(self).refuse("a name that must not be quoted, with more than a name in it,")
        return super().quote(ident, *rest, **options)  # type: ignore[misc]


class _CheckedTypes:
    """Mixin before the class of a dialect's type compiler.

    Every type passes through `process()`. SQLAlchemy renders lengths, collations and the fields of
    an INTERVAL as they are.
    """

    refuse: _Refuse

    def process(self, type_: Any, **options: Any) -> Any:
        text = super().process(type_, **options)  # type: ignore[misc]
        if not _TYPE.fullmatch(text) or _NOT_IN_TYPE.search(re.sub('"[^"]*"', "", text)):
            raise type(self).refuse(f"a {type(type_).__name__} with more than a type in it")
        return text


def _with_mixin(mixin: type[Any], original: Any, refuse: _Refuse) -> Any:
    """Return a twin of an object: the same state, with a mixin before its class.

    Args:
        mixin: `_CheckedNames` or `_CheckedTypes`.
        original: shares its `__dict__` with the twin.
        refuse: makes the error.
    """
    class_ = type(original)
    attributes = {"refuse": staticmethod(refuse)}
    twin: Any = object.__new__(type(class_.__name__, (mixin, class_), attributes))
    twin.__dict__ = vars(original)
    return twin


# Compilation


class _ConfiningCompiler:
    """Mixin before the class of a dialect's statement compiler.

    Overrides the visitor of each construct that has a FROM list, that writes, or that renders text
    as it is. What each does is pinned by `tests/owners/test_criteria.py` and, for generated
    statements, `tests/isolation`.
    """

    dialect: Any
    stack: list[Any]
    column_keys: Any
    compile_state: Any
    _covered: frozenset[FromClause] = frozenset()  # tables whose criteria are elsewhere
    _locked: frozenset[Any] = frozenset()  # FROM elements whose rows the current SELECT locks
    _locking_depth: int | None = None  # of the stack, at which a subquery locks its rows too
    _alias: FromClause | None = None  # the alias whose table is being rendered

    @property
    def _rules(self) -> ConfinementRules:
        return cast(ConfinementRules, self.dialect.confined_by)

    @contextmanager
    def _covering(
        self, tables: Iterable[FromClause], locked: frozenset[Any] = frozenset()
    ) -> Iterator[None]:
        """Render these tables as they are inside the `with`: their criteria are elsewhere."""
        outer = self._covered, self._locked
        self._covered, self._locked = frozenset(tables), locked
        try:
            yield
        finally:
            self._covered, self._locked = outer

    def _criteria(
        self, tables: Iterable[FromClause], locked: frozenset[Any]
    ) -> list[ColumnElement[bool]]:
        """Return the criteria of tables: rows that are locked must be writable."""
        rules = self._rules
        criteria = (
            (rules.writable if table in locked else rules.readable)(table)
            for table in tables
            if not _is_criterion_alias(table)
        )
        return [criterion for criterion in criteria if criterion is not None]

    # FROM

    def _check_supported(self, froms: Iterable[Any]) -> None:
        for from_ in froms:
            if not _is_supported(from_):
                raise self._rules.refuse(f"a {type(from_).__name__} in a FROM")

    # Private: `SQLCompiler._compose_select_body` has the final FROM list, after joins and
    # correlation, and renders the WHERE. No public step has both.
    def _compose_select_body(
        self, text: str, select: Any, state: Any, columns: Any, froms: Any, *rest: Any
    ) -> Any:
        self._check_supported(froms)
        if select._suffixes:  # rendered after the criteria, as hints are
            raise self._rules.refuse("suffix_with()")
        tables = [table for from_ in froms for table in _inner_tables(from_)]
        locked = self._locked_by(select, froms)
        criteria = self._criteria(tables, locked)
        if criteria:
            select = select._generate()
            select._where_criteria = _with_criteria(select._where_criteria, criteria)
        with self._covering(tables, locked):
            return super()._compose_select_body(  # type: ignore[misc]
                text, select, state, columns, froms, *rest
            )

    def _locked_by(self, select: Any, froms: Iterable[Any]) -> frozenset[Any]:
        """Return the FROM elements whose rows a SELECT locks.

        PostgreSQL applies FOR UPDATE on a subquery to the tables inside it, at any depth.
        """
        for_update = select._for_update_arg
        is_locked_by_outer = self._locking_depth == len(self.stack) - 1
        if is_locked_by_outer or (for_update is not None and not for_update.of):
            return frozenset(element for from_ in froms for element in _joined_elements(from_))
        of = () if for_update is None else for_update.of
        return frozenset(element for each in of for element in surface_selectables_only(each))

    def visit_join(self, join: Join, **options: Any) -> Any:
        nullable = list(_inner_tables(join.right)) if join.isouter and not join.full else []
        criteria = self._criteria(nullable, self._locked)
        if criteria:
            join = cast(Any, join)._clone()
            join.onclause = and_(*_with_criteria([cast(Any, join.onclause)], criteria))
        with self._covering([*self._covered, *nullable], self._locked):
            return super().visit_join(join, **options)  # type: ignore[misc]

    def visit_cte(self, cte: Any, *arguments: Any, **options: Any) -> Any:
        self._check_alias_name(cte)
        self._rules.check_cte(cte.name)
        if cte._suffixes:
            raise self._rules.refuse("suffix_with()")
        return super().visit_cte(cte, *arguments, **options)  # type: ignore[misc]

    def _check_alias_name(self, from_: Any) -> None:
        if _RESERVED_ALIAS.match(from_.name) and not _is_criterion_alias(from_):
            raise self._rules.refuse(f"an alias by the name {from_.name!r}")

    def visit_alias(self, alias: Any, **options: Any) -> Any:
        self._check_alias_name(alias)
        if _table_of(alias) is None:
            with self._locking_inside(alias):
                return super().visit_alias(alias, **options)  # type: ignore[misc]
        if self._alias is not None:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        self._alias = alias
        try:
            return super().visit_alias(alias, **options)  # type: ignore[misc]
        finally:
            self._alias = None

    @contextmanager
    def _locking_inside(self, from_: FromClause) -> Iterator[None]:
        """Lock the tables of the subquery that is rendered for a FROM element, if that is locked.

        Inside the `with`, the next SELECT on the stack is that subquery.
        """
        outer = self._locking_depth
        self._locking_depth = len(self.stack) if from_ in self._locked else None
        try:
            yield
        finally:
            self._locking_depth = outer

    def visit_tablesample(self, tablesample: TableSample, **options: Any) -> Any:
        if tablesample not in self._covered and self._rules.readable(tablesample) is not None:
            raise self._rules.refuse("a TABLESAMPLE in this place")
        return super().visit_tablesample(tablesample, **options)  # type: ignore[misc]

    def visit_table(self, table: TableClause, **options: Any) -> Any:
        text = super().visit_table(table, **options)  # type: ignore[misc]
        is_from = options.get("asfrom") or options.get("within_tstring")
        from_ = table if self._alias is None else self._alias
        if is_from and table.schema and not options.get("use_schema", True):
            # SQLAlchemy leaves schemas out inside ON CONFLICT, where the name may be another table
            raise self._rules.refuse(f"table {str(table)!r} in this place")
        if not is_from or options.get("iscrud") or _is_criterion_alias(from_):
            return text
        criterion = self._rules.readable(table)
        is_covered = from_ in self._covered
        ambiguous = options.get("ambiguous_table_name_map") or ()
        # Next to a table of the same name in a schema, SQLAlchemy renders this one with an alias.
        # A subquery, and so an EXISTS in its criterion, would not know it by that.
        is_renamed = from_ is table and not table.schema and table.name in ambiguous
        if is_renamed and (isinstance(criterion, Exists) or not (is_covered or criterion is None)):
            raise self._rules.refuse(f"table {table.name!r} without alias in this place")
        return text if is_covered or criterion is None else self._confined_subquery(table, text)

    def _confined_subquery(self, table: TableClause, text: str) -> str:
        """Render a subquery of the rows that may be read, where a criterion cannot be added."""
        if self._alias is None and getattr(table, "schema", None):
            raise self._rules.refuse(f"table {table.name!r} without alias in this place")
        alias, self._alias = self._alias, None
        covered, self._covered = self._covered, frozenset()
        try:
            rows: Any = select(literal_column("*")).select_from(table).correlate(None)
            with self._locking_inside(table if alias is None else alias):
                subquery = rows._compiler_dispatch(self, asfrom=True)
        finally:
            self._alias, self._covered = alias, covered
        return f"({subquery})" if alias is not None else f"({subquery}) AS {text}"

    # Writes

    def visit_update(self, update_stmt: Any, **options: Any) -> Any:
        table = _target_of(update_stmt)
        names = {*(self.column_keys or ()), *_keys(update_stmt._values or ())}
        names |= _keys(pair[0] for pair in getattr(update_stmt, "_ordered_values", None) or ())
        self._rules.check_update(table, names)
        if self.stack or options.get("visiting_cte") is not None:
            raise self._rules.refuse("an UPDATE inside another statement")
        with self._covering(_without_tables([table])):
            text = super().visit_update(  # type: ignore[misc]
                self._with_writable(update_stmt, table), **options
            )
        if self.compile_state.statement.table != table:  # replaced by the ORM
            raise self._rules.refuse(f"an UPDATE of {table.description!r}")
        return text

    def visit_delete(self, delete_stmt: Any, **options: Any) -> Any:
        table = _target_of(delete_stmt)
        with self._covering(_without_tables([table])):
            return super().visit_delete(  # type: ignore[misc]
                self._with_writable(delete_stmt, table), **options
            )

    def _with_writable(self, statement: Any, table: FromClause) -> Any:
        criterion = self._rules.writable(table)
        if criterion is None:
            return statement
        statement = statement._generate()
        statement._where_criteria = _with_criteria(statement._where_criteria, [criterion])
        return statement

    def update_from_clause(
        self, statement: Any, table: Any, others: Any, *rest: Any, **o: Any
    ) -> Any:
        self._check_supported(others)
        return super().update_from_clause(statement, table, others, *rest, **o)  # type: ignore[misc]

    def delete_extra_from_clause(
        self, statement: Any, table: Any, others: Any, *rest: Any, **o: Any
    ) -> Any:
        self._check_supported(others)
        return super().delete_extra_from_clause(  # type: ignore[misc]
            statement, table, others, *rest, **o
        )

    def visit_insert(self, insert_stmt: Any, **options: Any) -> Any:
        nested = bool(self.stack) or options.get("visiting_cte") is not None
        table = _target_of(insert_stmt)
        self._rules.check_insert(table, insert_stmt, nested=nested)
        conflict = update_on_conflict(insert_stmt)
        criterion = None if conflict is None else self._rules.writable(table)
        if criterion is not None:
            insert_stmt, conflict = insert_stmt._generate(), conflict._clone()
            where = conflict.update_whereclause
            criteria = _with_criteria([] if where is None else [where], [criterion])
            conflict.update_whereclause = and_(*criteria)
            insert_stmt._post_values_clause = conflict
        return super().visit_insert(insert_stmt, **options)  # type: ignore[misc]

    # Text

    def _check_text(self, text: str) -> None:
        if not _HARMLESS.fullmatch(text) or _HARMFUL.search(text):
            raise self._rules.refuse("text")

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
        if any(hint_texts):  # rendered after the criteria, outside all parentheses
            raise self._rules.refuse("a hint")
        return super().get_statement_hint_text(hint_texts)  # type: ignore[misc]


class _KeptParentheses(Grouping[bool]):
    """Parentheses that `and_()` does not remove.

    A plain `Grouping` has the operator of its element. `and_()` flattens an element that has the
    operator of the `and_()`, and an OR in a text would then apply to the criteria next to it.
    Pinned by `test_a_text_with_or_undoes_no_criterion`.
    """

    inherit_cache = True
    operator: Any = None


def _with_criteria(
    where: Iterable[ColumnElement[bool]], criteria: Iterable[ColumnElement[bool]]
) -> tuple[ColumnElement[bool], ...]:
    """Return the criteria of a statement, in parentheses, followed by ours."""
    own = [*where]
    return (*([_KeptParentheses(and_(*own))] if own else []), *criteria)


def _target_of(statement: Any) -> Any:
    """Return the table that an UPDATE, INSERT or DELETE writes.

    For a joined subclass the ORM executes one statement on the class for each of its tables, and
    names the table in an annotation.
    """
    annotations = statement._annotations
    table, _ = write_target(statement)
    return annotations.get("_emit_update_table", annotations.get("_emit_insert_table", table))


def _without_tables(froms: Iterable[FromClause]) -> list[FromClause]:
    """Return the aliases: `visit_table` recognises the table itself in a write by `iscrud`."""
    return [from_ for from_ in froms if not isinstance(from_, TableClause)]


def _keys(columns: Iterable[Any]) -> set[str]:
    return {getattr(column, "key", column) for column in columns}


# Execution

# attributes of a connection
_PARAMETERS = "alfred_refs_owner"  # values of the criteria's bind parameters
_CHECK = "alfred_refs_check"  # the `WriteCheck`

WriteCheck = Callable[[Any, Sequence[Mapping[str, Any]]], None]
"""Raises to refuse an INSERT or UPDATE: takes the statement and its rows of parameters."""


class _ConfinedContext:
    """Mixin before the class of a dialect's execution context."""

    compiled: Any
    compiled_parameters: Any
    dialect: Any
    isddl: bool
    root_connection: Any
    execution_options: Mapping[str, Any]

    @classmethod
    def _init_compiled(cls, dialect: Any, connection: Any, *arguments: Any, **options: Any) -> Any:
        """Add the values of the criteria's bind parameters to each row of parameters.

        The compiler has added the criteria, so their bind parameters are not in the cache key of
        the statement, from which SQLAlchemy takes the values of its own. Before compilation, an
        INSERT would take the names for columns; now those without a bind parameter are ignored.
        """
        dbapi_connection, execution_options, compiled, parameters, *rest = arguments
        owner = vars(connection).get(_PARAMETERS, {})
        rows = [{**row, **owner} for row in parameters or [{}]]
        own = (dialect, connection, dbapi_connection, execution_options, compiled, rows)
        return super()._init_compiled(*own, *rest, **options)  # type: ignore[misc]

    def pre_exec(self) -> None:
        rules: ConfinementRules = self.dialect.confined_by
        if self.compiled is None or self.isddl:
            raise rules.refuse("DDL" if self.isddl else "a statement given as text")
        if self.compiled.isinsert or self.compiled.isupdate:
            table = self.compiled.compile_state.statement.table
            owner = vars(self.root_connection).get(_PARAMETERS, {})
            rules.check_written(
                table, self.compiled_parameters, owner, is_new=self.compiled.isinsert
            )
            if not self._is_of_flush or self._has_computed_references:
                vars(self.root_connection)[_CHECK](*self._statement_and_rows())
        super().pre_exec()  # type: ignore[misc]

    @property
    def _is_of_flush(self) -> bool:
        """Whether the unit of work executes the statement: then the instances were checked.

        The unit of work uses the compiled cache of the base mapper, a session that of the engine.
        """
        mapper = mapper_of_table(deannotated_table(self.compiled.compile_state.statement.table))
        cache = self.execution_options.get("compiled_cache")
        return mapper is not None and cache is mapper.base_mapper._compiled_cache

    @property
    def _has_computed_references(self) -> bool:
        """Whether a foreign key gets its value from a Python `default` or `onupdate`."""
        prefetch = (*self.compiled.insert_prefetch, *self.compiled.update_prefetch)
        return any(column.foreign_keys for column in prefetch)

    def _statement_and_rows(self) -> tuple[Any, list[dict[str, Any]]]:
        """Return the statement, and its rows of parameters by the keys of the bind parameters too.

        From the compiled cache comes the statement that was compiled first, with its own values.
        """
        names = {bind.key: name for bind, name in self.compiled.bind_names.items()}
        return self.compiled.compile_state.statement, [
            row | {key: row[name] for key, name in names.items() if name in row}
            for row in self.compiled_parameters
        ]


def confined_dialect(dialect: Dialect, rules: ConfinementRules) -> Dialect:
    """Return a twin of a dialect that confines the statements that it compiles and executes.

    Both share one `__dict__`, and so their event listeners and all that either learns of the
    server.
    """
    class_: Any = type(dialect)
    compiler, context = class_.statement_compiler, class_.execution_ctx_cls
    names = _with_mixin(_CheckedNames, dialect.identifier_preparer, rules.refuse)
    types = _with_mixin(_CheckedTypes, dialect.type_compiler_instance, rules.refuse)
    attributes = {
        "statement_compiler": type(compiler.__name__, (_ConfiningCompiler, compiler), {}),
        "execution_ctx_cls": type(context.__name__, (_ConfinedContext, context), {}),
        "confined_by": rules,
        # data descriptors, so that they take precedence over the shared `__dict__`
        "identifier_preparer": property(lambda _: names),
        "type_compiler_instance": property(lambda _: types),
        # SQLAlchemy requires it in the `__dict__` of the dialect's own class
        "supports_statement_cache": class_.supports_statement_cache,
    }
    twin: Any = object.__new__(type(class_.__name__, (class_,), attributes))
    twin.__dict__ = vars(dialect)
    return cast(Dialect, twin)


def set_dialect(
    connection: Connection,
    dialect: Dialect,
    parameters: Mapping[str, Any] | None,
    check: WriteCheck | None = None,
) -> None:
    """Set the dialect by which a connection compiles and executes.

    Args:
        connection: must work for one session at a time.
        dialect: its own, or the `confined_dialect` of that.
        parameters: values of the bind parameters in criteria, by name; `None`: no criteria.
        check: called for each INSERT and UPDATE that is not part of a flush.
    """
    connection.dialect = dialect
    for name, value in ((_PARAMETERS, parameters), (_CHECK, check)):
        if value is None:
            vars(connection).pop(name, None)
        else:
            vars(connection)[name] = value
