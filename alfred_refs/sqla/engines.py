"""Engines and compilation: pools, schemas, a dialect that adds criteria as it compiles.

Engines and their pools: how they end, what errors tell, and in which schemas they work.

What stands in a FROM: tables, their aliases, and what is joined or selected of them.

What SQLAlchemy renders as it is given: texts, names that must not be quoted, types.

Each is looked at here, so that nothing in it begins another SELECT, ends the statement, or hides
what follows. Names and types pass through a preparer and a compiler of types that go before those
of a dialect.

A compiler that confines: no statement that it compiles reads or writes more.

Where a table comes to stand in a FROM is known for certain in one place only, the compiler: after
the ORM has put joins together, subqueries have correlated and options have been applied. So that
is where criteria are added: those of the tables of a FROM to its WHERE, those of the far side of
an outer join to its ON. A table that stands anywhere else is rendered as a subquery of the rows
that may be read. A FROM of any other kind is refused, as is text that may have one.

Leans on how a compiler puts a SELECT together (`_compose_select_body`).

A dialect that confines whatever it compiles and executes, in the place of a connection's own.

A dialect and the rules come in; one that is the same in all but that goes out, and is put on a
connection for as long as that works for an owned session.

Leans on `Connection.dialect`, by which a connection compiles and executes, and on the compiled
cache having the dialect in its keys: the same statement, compiled for a session without owner, is
another entry.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2s
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Pool,
    QueuePool,
    and_,
    event,
    literal_column,
    select,
)
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.event.api import _event_key
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
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
from sqlalchemy.util.concurrency import await_only, in_greenlet

from alfred_refs.sqla.mappers import deannotated_table, mapper_of_table
from alfred_refs.sqla.statements import update_on_conflict

_T = TypeVar("_T")

Schemas = frozenset[tuple[str | None, str | None]]
"""A `schema_translate_map`, by its items."""


def root_of(engine: Engine) -> Engine:
    """Return the engine that owns the pool: `execution_options()` makes another on top of it."""
    return cast(Engine, getattr(engine, "_proxied", engine))


def can_wait(engine: Engine) -> bool:
    """Tell whether a connection of the engine can be used here: an asynchronous one is awaited.

    Leans on `in_greenlet`, which is true inside whatever the asyncio extension awaits.
    """
    return not engine.dialect.is_async or in_greenlet()


def wait_for(awaitable: Awaitable[_T]) -> _T:
    """Return what an awaitable comes to, from inside whatever the asyncio extension awaits.

    Leans on `await_only`, by which the dialects wait for their drivers.
    """
    return await_only(awaitable)


def on_disposal(engine: Engine, disposed: Callable[[Engine], None]) -> None:
    """Have a function called when an engine is disposed of; `event.remove` undoes it.

    Any listener sets `_has_events`, which makes every statement on the engine ask for listeners
    of its execution, those of plain sessions too. Disposal does not look at it.
    """
    had_events = "_has_events" in vars(engine)
    event.listen(engine, "engine_disposed", disposed)
    if not had_events:
        # and not False: what all engines have must still be seen
        vars(engine).pop("_has_events", None)


def prepend_error_listener(
    connection: Connection, hear: Callable[[ExceptionContext], None]
) -> None:
    """Have a function told of every error of an engine, before anybody else is.

    `event.listen` does not put listeners of this event first, though it takes `insert=True`; and
    `event.contains` goes by the `id()` of an engine, which may have been another's.
    """
    dialect = cast(Any, connection.dialect)
    if hear not in dialect.dispatch.handle_error:
        dialect._has_events = True
        _event_key(dialect, "handle_error", hear).base_listen(insert=True)


def connection_cache(connection: Connection) -> dict[Any, Any]:
    """Return what is kept with a connection of the driver: nothing yet, if that is a new one.

    So is `Connection.info`, which is the application's. Leans on what a pool records of each
    connection, the time it was made among it; one that is detached has no record.
    """
    pooled: Any = connection.connection
    record = pooled._connection_record or pooled
    made = getattr(record, "starttime", 0.0)
    kept = getattr(record, "alfred_refs", None)
    if kept is None or kept[0] != made:
        kept = record.alfred_refs = made, {}
    return cast("dict[Any, Any]", kept[1])


def parallel_pool(pool: Pool) -> Pool:
    """Return a new pool with the settings and hooks of another, that may connect beside it.

    Both connect by one dialect, which is initialised in the first connection that any of them
    makes. The others of a pool wait for that on the lock of its `connect` event
    (`_exec_once_mutex`); `recreate()` copies the hooks and not the lock, so here it is shared.
    """
    beside = pool.recreate()
    theirs, ours = (cast(Any, p.dispatch).connect.for_modify(p.dispatch) for p in (pool, beside))
    ours._exec_once_mutex = theirs._get_exec_once_mutex()
    return beside


def max_connections(bind: Any) -> int | None:
    """Return how many connections an engine has at most at a time; `None`: that is not known.

    Leans on `QueuePool._max_overflow`, which has no public name. A size of 0 is no limit.
    """
    pool = getattr(getattr(bind, "sync_engine", bind), "pool", None)
    if not isinstance(pool, QueuePool) or not pool.size() or pool._max_overflow < 0:
        return None
    return pool.size() + pool._max_overflow


def invalidate_pool(connection: Connection, error: BaseException) -> None:
    """Have the pool replace this connection and all that are as old, each when it is next used.

    Leans on `Pool._invalidate`: SQLAlchemy does the same when a statement of its own finds the
    connection cut.
    """
    connection.engine.pool._invalidate(connection.connection, error)
    connection.invalidate(error)


def driver_error_fields(error: DBAPIError) -> dict[str, Any]:
    """Return what a driver's exception says of a violated constraint, whichever driver it is of.

    Some have the fields in their `diag`, others in the exception itself.

    Returns:
        `sqlstate`, and as far as they are told `table_name`, `column_name`, `constraint_name`.
    """
    found: dict[str, Any] = {"sqlstate": None}
    each: BaseException | None = error.orig
    while each is not None:
        diagnosis: Any = getattr(each, "diag", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        found["sqlstate"] = found["sqlstate"] or state
        for name in ("table_name", "column_name", "constraint_name"):
            value = getattr(diagnosis, name, None)
            if value is not None:
                found.setdefault(name, value)
        each = each.__cause__
    return found


def schemas_in(options: Mapping[str, Any]) -> Schemas:
    """Return what execution options say of schemas.

    Leans on `_none`, under which the compiler notes what stands for `None`.
    """
    given: Mapping[str | None, str | None] = options.get("schema_translate_map") or {}
    return frozenset(item for item in given.items() if item[0] not in (item[1], "_none"))


def schemas_of(bind: Any) -> Schemas:
    """Return what an engine or a connection says of schemas, an asynchronous one too."""
    bind = getattr(bind, "sync_engine", getattr(bind, "sync_connection", bind))
    return frozenset() if bind is None else schemas_in(bind.get_execution_options())


def schemas_of_session(session: Session) -> Schemas:
    """Return what a session says of schemas, or else what its binds do, if all say the same.

    Leans on `Session.__binds`, which is public in SQLAlchemy 2.1, as is what its options say.
    """
    own = schemas_in(getattr(session, "execution_options", {}))
    if own:
        return own
    its = vars(session)
    several = its.get("binds", its.get("_Session__binds", {})).values()
    said = set(map(schemas_of, several if session.bind is None else [session.bind]))
    return said.pop() if len(said) == 1 else frozenset()


# what our aliases begin with; PostgreSQL folds a name without quotes
_OURS = re.compile(r"alfred_owner_[0-9a-f]{8}_", re.IGNORECASE)
_LONGEST = 63  # bytes of a name


def is_ours(name: str) -> bool:
    """Tell whether a name begins as those of `settled` do."""
    return bool(_OURS.match(name))


def is_settled(table: FromClause) -> bool:
    """Tell whether a table is one that `settled` has returned."""
    return bool(vars(table).get("alfred_refs_settled"))


def criterion_alias(table: FromClause) -> Any:
    """Return an alias for use in a criterion, which says itself which of its rows are meant.

    Its name is no other's: of each table it is another, and a program may give none that begins
    as it does.
    """
    of = cast(TableClause, table)
    digest = blake2s(f"{of.schema}.{of.name}".encode(), digest_size=4).hexdigest()
    alias = table.alias(f"alfred_owner_{digest}_{of.name}"[:_LONGEST])
    vars(alias)["alfred_refs_settled"] = True
    return alias


def table_of(from_: FromClause) -> TableClause | None:
    """Return the table that a FROM element is, or is an alias of."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = cast(FromClause, from_.element)
    return from_ if isinstance(from_, TableClause) else None


def leaves_of(from_: FromClause) -> Iterator[FromClause]:
    """Yield the tables that a criterion on the rows of a FROM element confines exactly."""
    if isinstance(from_, FromGrouping):
        yield from leaves_of(from_.element)
    elif isinstance(from_, Join):
        if not from_.full:
            yield from leaves_of(from_.left)
            yield from () if from_.isouter else leaves_of(from_.right)
    elif table_of(from_) is not None:
        yield from_


def elements_in(from_: Any) -> Iterator[Any]:
    """Yield what a FROM element is joined of: tables, aliases and subqueries."""
    if isinstance(from_, Join):
        yield from elements_in(from_.left)
        yield from elements_in(from_.right)
    elif isinstance(from_, FromGrouping):
        yield from elements_in(from_.element)
    else:
        yield from_


def is_known(from_: Any) -> bool:
    """Tell whether a FROM element is of a kind that is confined, as is all that is inside."""
    if isinstance(from_, FromGrouping | AliasedReturnsRows):
        return is_known(from_.element)
    if isinstance(from_, Join):
        return is_known(from_.left) and is_known(from_.right)
    # each is confined where it is visited
    return isinstance(from_, TableClause | SelectBase | UpdateBase | Values | FunctionElement)


# names, numbers and operators
_HARMLESS = re.compile(r"(?:[\w\s.,:*+/<>=~!@#%^&|?-]|'[\w\s.,:*+/<>=~!@#%^&|?-]*')*")
_HARMFUL = re.compile(
    r"--|/\*|\b(select|table|from|union|intersect|except|join|into|values|returning|with|where"
    r"|using|set)\b",
    re.IGNORECASE,
)
# with a point it might be a function's that is known without; the other form is what SQLAlchemy
# puts in the place of a schema that is to be translated, and quotes then
_NAME = re.compile(r"[\w$]*|__\[SCHEMA_[^\[\]]*\]")
# as VARCHAR(5)[], INTERVAL DAY TO SECOND (3), "my type", geometry(POINT,4326)
_TYPE = re.compile(r"""(?:[\w\s.\[\]]|"(?:[^"]|"")*"|\([\w\s,.'-]*\))*""")
_NO_TYPE = re.compile(r"\b(from|where|union|intersect|except)\b", re.IGNORECASE)

Refuse = Callable[[str], Exception]


def is_harmless(text: str) -> bool:
    """Tell whether a text names no table, and ends nothing."""
    return bool(_HARMLESS.fullmatch(text)) and not _HARMFUL.search(text)


class CheckedNames:
    """Goes before a dialect's own identifier preparer.

    Leans on `quote()`, by which every name goes: one that says `quote=False` is left as it is.
    """

    refuse: Refuse

    def quote(self, ident: str, *rest: Any, **options: Any) -> Any:
        """Return a name as it is rendered."""
        if getattr(ident, "quote", None) is False and not _NAME.fullmatch(ident):
            raise type(self).refuse("a name that must not be quoted, with more than a name in it,")
        return super().quote(ident, *rest, **options)  # type: ignore[misc]


class CheckedTypes:
    """Goes before a dialect's own compiler of types.

    Leans on `process()`, by which every type goes: lengths and fields are left as they are.
    """

    refuse: Refuse

    def process(self, type_: Any, **options: Any) -> Any:
        """Return a type as it is rendered."""
        text = super().process(type_, **options)  # type: ignore[misc]
        if not _TYPE.fullmatch(text) or _NO_TYPE.search(re.sub('"[^"]*"', "", text)):
            raise type(self).refuse(f"a {type(type_).__name__} with more than a type in it")
        return text


def with_checked_names(kind: type[Any], original: Any, refuse: Refuse) -> Any:
    """Return an object that is the same in all but what goes before its class.

    Args:
        kind: `CheckedNames` or `CheckedTypes`.
        original: the object, with which it has one state.
        refuse: makes the error.
    """
    own = type(original)
    made: Any = object.__new__(type(own.__name__, (kind, own), {"refuse": staticmethod(refuse)}))
    made.__dict__ = vars(original)
    return made


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


class _RequiredCriteria(Grouping[bool]):
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
    return (*([_RequiredCriteria(and_(*demanded))] if demanded else []), *criteria)


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


_PARAMETERS = "alfred_refs_owner"  # of a connection: what its statements' criteria compare with
_CHECK = "alfred_refs_check"  # of a connection: looks at what a statement is about to write

WriteCheck = Callable[[Any, Sequence[Mapping[str, Any]]], None]
"""Refuses a statement that writes, by its parameters too."""


class _Context:
    """Goes before a dialect's own execution context."""

    compiled: Any
    compiled_parameters: Any
    dialect: Any
    isddl: bool
    root_connection: Any
    execution_options: Mapping[str, Any]

    @property
    def _is_of_flush(self) -> bool:
        """Whether the ORM has made the statement of instances, which are looked at as such."""
        mapper = mapper_of_table(deannotated_table(self.compiled.compile_state.statement.table))
        cache = self.execution_options.get("compiled_cache")
        return mapper is not None and cache is mapper.base_mapper._compiled_cache

    @property
    def _fills_in_references(self) -> bool:
        """Whether a foreign key is filled in by its column's `default` or `onupdate`."""
        filled = (*self.compiled.insert_prefetch, *self.compiled.update_prefetch)
        return any(column.foreign_keys for column in filled)

    @classmethod
    def _init_compiled(cls, dialect: Any, connection: Any, *arguments: Any, **options: Any) -> Any:
        dbapi_connection, execution_options, compiled, parameters, *rest = arguments
        # once it is compiled, parameters that have no column are passed over
        owner = vars(connection).get(_PARAMETERS, {})
        given = [{**each, **owner} for each in parameters or [{}]]
        known = (dialect, connection, dbapi_connection, execution_options, compiled, given)
        return super()._init_compiled(*known, *rest, **options)  # type: ignore[misc]

    def _sent(self) -> tuple[Any, list[dict[str, Any]]]:
        """Return the statement and what it is executed with, by the keys of its parameters too.

        A statement that was compiled before is that one, with the values of that time.
        """
        names = {bind.key: name for bind, name in self.compiled.bind_names.items()}
        return self.compiled.compile_state.statement, [
            row | {key: row[name] for key, name in names.items() if name in row}
            for row in self.compiled_parameters
        ]

    def pre_exec(self) -> None:
        rules: Rules = self.dialect.confined_by
        if self.compiled is None or self.isddl:
            raise rules.refuse("DDL" if self.isddl else "a statement given as text")
        if self.compiled.isinsert or self.compiled.isupdate:
            table = self.compiled.compile_state.statement.table
            owner = vars(self.root_connection).get(_PARAMETERS, {})
            rules.check_written(
                table, self.compiled_parameters, owner, is_new=self.compiled.isinsert
            )
            if not self._is_of_flush or self._fills_in_references:
                vars(self.root_connection)[_CHECK](*self._sent())
        super().pre_exec()  # type: ignore[misc]


def confined_dialect(dialect: Dialect, rules: Rules) -> Dialect:
    """Return a dialect that is the same in all but that it confines what it compiles.

    Both have one state: what either learns of the server, and who listens, the other knows.
    """
    kind: Any = type(dialect)
    compiler, context = kind.statement_compiler, kind.execution_ctx_cls
    names = with_checked_names(CheckedNames, dialect.identifier_preparer, rules.refuse)
    types = with_checked_names(CheckedTypes, dialect.type_compiler_instance, rules.refuse)
    made = {
        "statement_compiler": type(compiler.__name__, (ConfiningCompiler, compiler), {}),
        "execution_ctx_cls": type(context.__name__, (_Context, context), {}),
        "confined_by": rules,
        # these are data descriptors, so that they go before what is in the state of both
        "identifier_preparer": property(lambda _: names),
        "type_compiler_instance": property(lambda _: types),
        # asked for by the class's own name
        "supports_statement_cache": kind.supports_statement_cache,
    }
    confined: Any = object.__new__(type(kind.__name__, (kind,), made))
    confined.__dict__ = vars(dialect)
    return cast(Dialect, confined)


def set_dialect(
    connection: Connection,
    dialect: Dialect,
    parameters: Mapping[str, Any] | None,
    check: WriteCheck | None = None,
) -> None:
    """Have a connection compile and execute by a dialect.

    Args:
        connection: which is at work for one session at a time.
        dialect: its own, or `confined_dialect()` of that.
        parameters: what the criteria compare with, by the parameters' names; `None`: nothing.
        check: looks at inserts and updates that are no part of a flush.
    """
    connection.dialect = dialect
    for name, value in ((_PARAMETERS, parameters), (_CHECK, check)):
        if value is None:
            vars(connection).pop(name, None)
        else:
            vars(connection)[name] = value
