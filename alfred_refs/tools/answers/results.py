"""From instances to the rows that a model sees: JSON values, with refs at every level.

Instances that a session loaded come in, and what of them is to be shown; dictionaries go out. The
ref of a row is always among its values. What is too long is cut and said to be; keys in texts are
still in them, until `texts` has looked at the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Select, String, Text, inspect, select
from sqlalchemy.orm import lazyload, load_only
from sqlalchemy.sql.base import ExecutableOption
from sqlalchemy.types import TypeEngine

from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.tools.errors import invalid_arguments, unknown_column
from alfred_refs.tools.tables.hooks import Row
from alfred_refs.tools.tables.table import ROW_REF, ToolColumn, ToolTable
from alfred_refs.tools.wire.texts import (
    DEEPEST_SHOWN,
    Cut,
    Verbatim,
    is_plain,
    shallow,
    shortened,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is shown of the rows of a table.

    Attributes:
        table: whose rows.
        columns: what is shown of each.
        children: by relationship, what is shown of the related rows.
    """

    table: ToolTable
    columns: Sequence[ToolColumn]
    children: Mapping[str, Shape] = field(default_factory=dict)

    def statement(self) -> Select[tuple[Any]]:
        """Return the statement that reads all rows, as the database has them now."""
        names = tuple(column.name for column in self.columns)
        return self.table.statement(names, self._statement)

    def _statement(self) -> Select[tuple[Any]]:
        model = self.table.model
        # the session may have read them before
        return (
            select(model).options(*self.loaders(model)).execution_options(populate_existing=True)
        )

    def loaders(self, entity: Any) -> list[ExecutableOption]:
        """Return the loader options that load the columns, and nothing else.

        Args:
            entity: the class, or an alias of it.
        """
        names = dict.fromkeys([*self.table.identity, *(c.name for c in self.columns)])
        return [load_only(*(getattr(entity, name) for name in names)), lazyload("*")]


def shape_of(table: ToolTable, names: Sequence[str] | None, include: Iterable[str] = ()) -> Shape:
    """Return what is shown of a table's rows.

    Args:
        table: whose rows.
        names: of columns, and of relationships whose rows are shown inside, which may be paths;
            `None` for all columns that are shown unless they are named.
        include: more paths of relationships.

    Raises:
        ToolError: a name is none that a model may use.
    """
    own = [c for c in (table.columns.get(n) for n in table.identity) if c is not None]
    paths = [path.split(".") for path in include]
    columns = dict.fromkeys(own)
    if names is None:
        columns |= dict.fromkeys(column for column in table.columns.values() if column.shown)
    for name in names or ():
        if name in table.columns:
            columns[table.columns[name]] = None
        elif not (name == ROW_REF and table.own is None):
            paths.append(name.split("."))
    return Shape(table, list(columns), _children(table, paths))


def _children(table: ToolTable, paths: Iterable[Sequence[str]]) -> dict[str, Shape]:
    within: dict[str, list[str]] = {}
    for name, *rest in paths:
        if name in table.columns:
            raise invalid_arguments(
                f"{name!r} is a column and leads to no rows", "columns", "name it without a path"
            )
        if name not in table.included:
            raise unknown_column(table.name, name, [*table.columns, *table.included])
        within.setdefault(name, []).extend([".".join(rest)] if rest else [])
    children = {}
    for name, rest in within.items():
        target = table.targets[name]
        columns = [each for each in rest if each in target.columns]
        beyond = [each for each in rest if each not in columns]
        children[name] = shape_of(target, columns or None, beyond)
    return children


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a call may show, and how long it may take.

    Attributes:
        rows: at most so many, and at most so many related ones in each.
        related: at most so many related rows in all.
        characters: of the texts of one result, about; rows beyond are left for the next read,
            and a write shows their refs alone.
        text: characters of one text.
        seconds: that one statement of a call may take; `None` for what the server allows. A
            `statement_timeout` of the application's that is shorter stays.
    """

    rows: int = 100
    related: int = 1_000
    characters: int = 100_000
    text: int = 20_000
    seconds: float | None = 10


@dataclass(frozen=True, slots=True)
class Related:
    """What one relationship of a row leads to.

    Attributes:
        rows: those that may be shown.
        total: how many there are.
    """

    rows: Sequence[Any] = ()
    total: int = 0


@dataclass(slots=True)
class Room:
    """How much the rows of one answer may still have, of all its tables.

    Attributes:
        characters: that are left.
        untouched: whether there is no row yet; the first is shown however long it is.
    """

    characters: int
    untouched: bool = True

    def take(
        self, entries: Iterable[T], render: Callable[[T], Row], noted: Sequence[list[Any]]
    ) -> list[Row]:
        """Return rows until there is enough text; no more than one is made for nothing.

        Args:
            entries: what the rows are of.
            render: makes a row.
            noted: what making rows adds to; what it adds for one that is not shown is taken out.
        """
        rows: list[Row] = []
        for each in entries if self.untouched or self.characters > 0 else ():
            before = [len(notes) for notes in noted]
            row = render(each)
            self.characters -= size_of(row)
            if self.characters < 0 and not self.untouched:
                for notes, length in zip(noted, before, strict=True):
                    del notes[length:]
                break
            self.untouched = False
            rows.append(row)
        return rows

    def fill(
        self,
        entries: Sequence[T],
        render: Callable[[T], Row],
        only_ref: Callable[[T], Row],
        noted: Sequence[list[Any]],
    ) -> list[Row]:
        """Return rows until there is enough text, and for the rest their refs.

        Args:
            entries: what the rows are of.
            render: makes a row.
            only_ref: makes a row that has nothing but its ref.
            noted: see `take`; the last are the places that are cut.
        """
        rows = self.take(entries, render, noted)
        rest = [only_ref(each) for each in entries[len(rows) :]]
        if rest:
            noted[-1].append(f"{len(rest)} more rows are shown by their refs alone")
        return rows + rest


RelatedOf = Callable[[Any, Shape], Related]
"""Tells what of a shape is inside of a row."""


@dataclass(slots=True)
class Rendering:
    """One result on its way to JSON.

    Attributes:
        limits: how much of it is shown.
        ref_of: gives the ref of a row that has several key columns.
        related_of: gives what is inside of a row.
        cut: where something was left out, as paths in the rows.
        shown: the rows with the instances and shapes that they are of, nested ones included.
        related: how many of them are nested.
    """

    limits: Limits
    ref_of: Callable[[Any, ToolTable], str]
    related_of: RelatedOf
    cut: list[str] = field(default_factory=list)
    shown: list[tuple[Row, Any, Shape]] = field(default_factory=list)
    related: int = 0

    def rows(self, instances: Sequence[Any], shape: Shape, room: Room) -> list[Row]:
        """Return rows as far as there is room, and the refs of the rest."""

        def only_ref(instance: Any) -> Row:
            own = shape.table.own
            ref = self.ref_of(instance, shape.table) if own is None else getattr(instance, own)
            return {shape.table.ref_field: ref}

        noted = (self.shown, self.cut)
        return room.fill(instances, lambda each: self.row(each, shape), only_ref, noted)

    def row(self, instance: Any, shape: Shape, path: str = "") -> Row:
        """Return one row."""
        own = shape.table.own
        ref = self.ref_of(instance, shape.table) if own is None else getattr(instance, own)
        row: Row = {ROW_REF: ref} if own is None else {}
        path = path or str(ref)
        for column in shape.columns:
            value = getattr(instance, column.name)
            row[column.name] = None if value is None else self.value(column, value, path)
        self.shown.append((row, instance, shape))
        for name, child in shape.children.items():
            related, is_list = self.related_of(instance, child), shape.table.is_list(name)
            show = self._rows if is_list else self._one
            row[name] = show(related, child, f"{path}.{name}")
        return row

    def value(self, column: ToolColumn, value: Any, path: str) -> Any:
        """Return what a row has in a column as JSON, cut where it is too long or too deep."""
        if isinstance(value, (list, dict)):  # a tuple: `list | dict` is made anew for each value
            value = without_depth(value, f"{path}.{column.name}", self.cut)
        shown = column.show(value)
        if is_plain(shown) and (shown.__class__ is not str or len(shown) <= self.limits.text):
            return shown
        return self.fitting(shown, column, f"{path}.{column.name}")

    def _one(self, related: Related, shape: Shape, path: str) -> Row | None:
        for each in related.rows:
            self.related += 1
            return self.row(each, shape, path)
        return None

    def _rows(self, related: Related, shape: Shape, path: str) -> list[Row]:
        rows: list[Row] = []
        for n, each in enumerate(related.rows, start=1):
            # looked at each time: there are others inside of each
            if self.related >= self.limits.related:
                break
            self.related += 1
            rows.append(self.row(each, shape, f"{path}[{n}]"))
        if len(rows) < related.total:
            self.cut.append(f"{path}: {related.total - len(rows)} more rows")
        return rows

    def fitting(self, value: Any, column: ToolColumn, path: str) -> Any:
        """Return a value of a column as JSON with no text in it that is too long."""
        if column.values.family == "uuid" and isinstance(value, str) and spells_uuid(value):
            return Verbatim(value)  # of a column that has no keys: data
        return value if column.values.family == "ref" else self._short(value, path)

    def _short(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            short = shortened(value, self.limits.text)
            if isinstance(short, Cut):
                self.cut.append(f"{path}: {short.more} more characters")
            return short
        if isinstance(value, list):
            return [self._short(each, path) for each in value]
        if isinstance(value, dict):
            return {name: self._short(each, f"{path}.{name}") for name, each in value.items()}
        return value


def without_depth(value: Any, path: str, cut: list[str]) -> Any:
    """Return a value without what is nested too deep, which is told in `cut`."""
    rest, is_cut = shallow(value)
    if is_cut:
        cut.append(f"{path}: more than {DEEPEST_SHOWN} levels")
    return rest


def castable(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return a type as a cast can name it: without collation."""
    return Text() if isinstance(type_, String) and type_.collation is not None else type_


def related_rows(related: Any) -> list[Any]:
    """Return the rows that an attribute of a relationship has, of whatever kind."""
    if related is None:
        return []
    if inspect(related, raiseerr=False) is not None:
        return [related]
    return list(related.values() if isinstance(related, Mapping) else related)


def without_refs(
    instances: Iterable[Any], shape: Shape, related_of: RelatedOf
) -> Iterator[tuple[ToolTable, Any]]:
    """Yield what is to be shown and has its own ref in no column, nested rows included."""
    for instance in instances:
        if shape.table.own is None:
            yield shape.table, instance
        for child in shape.children.values():
            yield from without_refs(related_of(instance, child).rows, child, related_of)


def size_of(value: Any) -> int:
    """Return about how many characters a JSON value has."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, list):
        return 2 + sum(map(size_of, value))
    if isinstance(value, dict):
        size = 2
        for name, each in value.items():  # the common way is written out: there are many
            size += len(name) + (len(each) + 6 if each.__class__ is str else size_of(each) + 4)
        return size
    return 6
