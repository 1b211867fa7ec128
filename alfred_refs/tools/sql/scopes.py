"""What names mean in a statement: tables of the toolset, parts of WITH, and their columns.

    scope.column("r", "name")     the column of what is called r in FROM, here or further out
    scope.relation("recipes")     a table of the toolset, or a part of WITH by that name

A table stands as a subquery of the columns that a model may see; nothing else of it can be named,
and no name of the model's is sent. Where the session has an owner the subquery is a fence: what
the model wrote is tried on the owner's rows alone. PostgreSQL is otherwise free to compute an
expression on a row before it leaves it out, and an error would tell of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from sqlalchemy import FromClause, Select, select

from alfred_refs.tools.errors import no_sql
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables

from .functions import Function
from .refusing import refused, unknown_name
from .values import Literals, Value


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT or a union of such, as it is built.

    Attributes:
        statement: of SQLAlchemy's, with columns c1, c2 and so on.
        values: what they are, by the names that a model knows them by.
        is_ended: whether it has an order or a limit of its own.
        limit: the literal that says how many rows it has at most.
    """

    statement: Any
    values: Sequence[Value]
    is_ended: bool = False
    limit: int | None = None

    def called(self, names: Sequence[str], name: str) -> Query:
        """Return the same rows, with other names for the first columns.

        Raises:
            ToolError: there are more names than columns.
        """
        if len(names) > len(self.values):
            raise refused(f"{name!r} has more names than columns", "give each column one name")
        first = [
            replace(value, name=each) for value, each in zip(self.values, names, strict=False)
        ]
        return replace(self, values=[*first, *self.values[len(names) :]])

    def of(self, from_: FromClause) -> list[Value]:
        """Return its columns where it stands in a FROM."""
        return [
            replace(each, element=from_.c[f"c{n}"], literal=None, number=None, weak=False)
            for n, each in enumerate(self.values, start=1)
        ]


@dataclass(slots=True)
class Building:
    """One statement that is being built.

    Attributes:
        tables: what a model may use.
        closed: names of those of which no SQL is answered.
        literals: of the text.
        named: all names in the text, or `None` where all columns are wanted.
        is_fenced: whether rows of others are in the tables.
        query: builds the SELECT that a node is, inside of a scope.
        makers: by the class of a node, what builds an expression of it.
        functions: that may be called, by name.
        names: what is sent for a name, with the name.
    """

    tables: ToolTables
    closed: Collection[str]
    literals: Literals
    named: Collection[str] | None
    is_fenced: bool
    query: Callable[[Any, Scope], Query]
    makers: Mapping[str, Callable[[Any, Scope], Value]]
    functions: Mapping[str, Function]
    names: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def alias(self, prefix: str, name: str) -> str:
        """Return a name to send for one of the model's."""
        sent = f"_{prefix}{next(self._numbers)}"
        self.names[sent] = name
        return sent

    def table(self, table: ToolTable, name: str) -> Source:
        """Return a table in a FROM."""
        columns = [each for each in table.columns.values() if self._is_wanted(each.name)]
        columns = columns or list(table.columns.values())[:1]
        attributes = [
            getattr(table.model, each.name).label(f"c{n}") for n, each in enumerate(columns, 1)
        ]
        rows = select(*attributes)
        alias = (_fenced(rows) if self.is_fenced else rows).subquery(self.alias("t", name))
        values = [
            Value(alias.c[f"c{n}"], each.name, each.key, each)
            for n, each in enumerate(columns, start=1)
        ]
        return Source(name, values, alias, list(table.columns))

    def _is_wanted(self, name: str) -> bool:
        return self.named is None or name.lower() in self.named


@dataclass(frozen=True, slots=True)
class Source:
    """What has a name in a FROM.

    Attributes:
        name: that a model knows it by.
        values: its columns.
        from_: what SQLAlchemy has of it.
        others: names of columns that it would have too, if the statement named them.
    """

    name: str
    values: Sequence[Value]
    from_: FromClause
    others: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """What its columns are called."""
        return [*self.others] or [value.name for value in self.values]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of WITH.

    Attributes:
        query: what it is.
        cte: what SQLAlchemy has of it.
    """

    query: Query
    cte: Any


@dataclass(slots=True)
class Scope:
    """What the names in one SELECT mean.

    Attributes:
        building: the statement.
        outer: the scope around it.
        parts: of WITH, by name.
        sources: in its FROM, by the order there.
        columns: that may be named without their table.
        subqueries: in its expressions, by their nodes.
    """

    building: Building
    outer: Scope | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    columns: Sequence[Value] = ()
    subqueries: dict[Any, Query] = field(default_factory=dict)

    def inner(self) -> Scope:
        """Return the scope of a SELECT inside of this one."""
        return Scope(self.building, self)

    def around(self) -> Scope:
        """Return the scope of a SELECT in the FROM of this one, which sees nothing beside it."""
        return Scope(self.building, self.outer, dict(self.all_parts()))

    def all_parts(self) -> Mapping[str, Part]:
        """Return the parts of WITH that may be named."""
        return {**(self.outer.all_parts() if self.outer else {}), **self.parts}

    def relation(self, name: str, alias: str) -> Source:
        """Return what a name in FROM means.

        Raises:
            ToolError: there is nothing of that name.
        """
        part = self.all_parts().get(name)
        if part is not None:
            from_ = part.cte.alias(self.building.alias("t", alias))
            return Source(alias, part.query.of(from_), from_)
        tables = {each.name: each for each in self.building.tables}
        found = _by_name(tables, name)
        if found is None:
            known = [each for each in tables if each not in self.building.closed]
            raise unknown_name("table", name, [*self.all_parts(), *known])
        if found.name in self.building.closed:
            raise no_sql(found.name)
        return self.building.table(found, alias)

    def column(self, table: str | None, name: str) -> Value:
        """Return the column that a name means, in this scope or the nearest around it.

        Raises:
            ToolError: there is none, or there are several.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(table, name)  # noqa: SLF001
            if len(found) > 1:
                raise refused(f"{name!r} is in several tables", "put the table's name before it")
            if found:
                return found[0]
            if table is not None and table in (each.name for each in scope.sources):
                break
            scope = scope.outer
        raise self._unknown(table, name)

    def _own(self, table: str | None, name: str) -> list[Value]:
        values = self._columns(table)
        same = [each for each in values if each.name == name]
        if same or name != name.lower():
            return same
        return [each for each in values if each.name.lower() == name]

    def _columns(self, table: str | None) -> Sequence[Value]:
        if table is None:
            return self.columns
        return [each for s in self.sources if s.name == table for each in s.values]

    def star(self, table: str | None) -> list[Value]:
        """Return the columns that `*` means.

        Raises:
            ToolError: there is no such table in FROM.
        """
        if not any(table in (None, each.name) for each in self.sources):
            raise self._unknown_table(table)
        return [e for e in self._columns(table) if e.column is None or e.column.shown]

    def _unknown(self, table: str | None, name: str) -> Exception:
        sources = [s for scope in self._scopes() for s in scope.sources]
        if table is not None:
            named = [each for each in sources if each.name == table]
            if not named:
                return self._unknown_table(table)
            return unknown_name("column", f"{table}.{name}", named[0].names)
        if name in (each.name for each in sources):
            return refused(f"{name!r} is a whole row", "name the columns that you want")
        return unknown_name("column", name, (each for source in sources for each in source.names))

    def _unknown_table(self, table: str | None) -> Exception:
        if table is None:
            return refused("'*' is selected without FROM", "name a table in FROM")
        names = [source.name for scope in self._scopes() for source in scope.sources]
        return unknown_name("table in FROM by the name", table, names)

    def _scopes(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


def _fenced(rows: Select[Any]) -> Select[Any]:
    """Return rows that PostgreSQL makes before it looks at any condition on them."""
    return rows.offset(0)


def _by_name(tables: Mapping[str, ToolTable], name: str) -> ToolTable | None:
    """Return the table of a name, which PostgreSQL would have folded."""
    if name in tables:
        return tables[name]
    folded = [table for each, table in tables.items() if each.lower() == name]
    return folded[0] if len(folded) == 1 else None
