"""Rows of an answer: instances to JSON, with related rows and labels.

`shape_of` turns the columns and paths that a model names into a `Shape`: the columns to show, and
for each relationship the shape of the related rows. `Relatives` loads the related rows, one
statement for each relationship of a level, in which PostgreSQL numbers the rows so that no more
are loaded than may be shown. `Rendering` makes one JSON object of each instance, within the
`Limits` of the toolset. `labels.put_labels` then adds the labels of the rows that refs name.

>>> shape = shape_of(toolset.tables.by_name("recipes"), ["name", "lines.text"])
>>> recipes = session.scalars(shape.statement(exactly=False).order_by(Recipe.name)).all()
>>> relatives = Relatives(session, Limits(rows=1))
>>> relatives.load(recipes, shape)
>>> rendering = Rendering(Limits(), lambda recipe, table: recipe.id, relatives.of)
>>> rendering.rows(recipes, shape, Room(characters=1_000))[0]
{'id': 'recipe_1', 'name': 'Soup', 'lines': [{'id': 'line_1', 'text': '4 tomatoes'}]}
>>> rendering.cut
['recipe_1.lines: 1 more rows']

Limits: related rows are never assigned to the instances, because the unit of work would treat a
partly loaded collection as complete. Keys inside texts are still there; `serialization` replaces
them in the complete answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    String,
    Text,
    and_,
    cast,
    column as sqlalchemy_column,
    func,
    inspect,
    or_,
    select,
    true,
    values,
)
from sqlalchemy.orm import (
    InstanceState,
    RelationshipProperty,
    Session,
    aliased,
    join,
    lazyload,
    load_only,
)
from sqlalchemy.orm.interfaces import LoaderOption
from sqlalchemy.sql import visitors
from sqlalchemy.sql.base import ExecutableOption
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.tools.errors import invalid_arguments, unknown_column
from alfred_refs.tools.exact import ExactTypes, ExactValues, exact_types, is_exact_on, select_exact
from alfred_refs.tools.filters import Visible
from alfred_refs.tools.hooks import Row
from alfred_refs.tools.serialization import (
    MAX_DEPTH_SHOWN,
    CutText,
    is_plain,
    limit_depth,
    shorten_text,
)
from alfred_refs.tools.tables import ROW_REF, ToolColumn, ToolTable, path_of

Paths = Collection[tuple[int, ...]]
"""Positions of items, each preceded by the positions of the items around it."""


def number_items(
    value: Any,
    names: Sequence[str],
    column: ToolColumn | None,
    paths: Paths | None = None,
    around: tuple[int, ...] = (),
) -> Any:
    """Return a document in which lists are objects that map positions to items.

    `{"days": ["a", "b"]}` becomes `{"days": {"1": "a", "2": "b"}}` for the names `["days"]`,
    because models count list items badly. A list directly inside another list stays a list,
    because an object would be stored if the model wrote it back.

    Args:
        value: the document.
        names: the names of nested lists, outermost first.
        column: the column that contains the document.
        paths: the items to keep; an item is kept as a whole if no path leads into it. `None` keeps
            all items.
        around: the path of the item, if the document is an item of a list.
    """
    if isinstance(value, list):
        numbered: dict[str, Any] = {}
        for n, each in enumerate(value, start=1):
            path = (*around, n)
            if paths is None or path in paths:
                inside = paths_inside(paths, path)
                numbered[str(n)] = (
                    each
                    if isinstance(each, list)
                    else number_items(each, names, column, inside, path)
                )
        return numbered
    if names and isinstance(value, dict) and names[0] in value:
        inner = number_items(value[names[0]], names[1:], column, paths, around)
        return {**value, names[0]: inner}
    return value if column is None else column.quoted(value)


def paths_inside(paths: Paths | None, around: tuple[int, ...]) -> Paths | None:
    """Return the paths to keep in a list inside an item; `None` keeps the whole list."""
    if paths is None or not around or any(each[:-1] == around for each in paths):
        return paths
    return None


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns and related rows of a table to show.

    Attributes:
        table: the table.
        columns: the columns to show.
        children: the shapes of related rows, by relationship.
        also: columns to load that are not shown.
    """

    table: ToolTable
    columns: Sequence[ToolColumn]
    children: Mapping[str, Shape] = field(default_factory=dict)
    also: Iterable[ToolColumn] = ()

    def statement(self, *, exactly: bool) -> Select[Any]:
        """Return the SELECT of all rows, refreshed from the database.

        Args:
            exactly: whether to also select the texts of `exact_types` for each row.
        """
        names = tuple(dict.fromkeys(column.name for column in (*self.columns, *self.also)))
        return self.table.statement((names, exactly), lambda: self._statement(exactly=exactly))

    def _statement(self, *, exactly: bool) -> Select[Any]:
        model = self.table.model
        # refresh instances that the session has loaded before
        return (
            select(model, *(self.exact_texts(model) if exactly else ()))
            .options(*self.loaders(model, exactly=exactly))
            .execution_options(populate_existing=True)
        )

    def exact_types(self) -> ExactTypes:
        """Return the columns that are loaded as texts, and their types."""
        return exact_types(self.table.model, (c.name for c in (*self.columns, *self.also)))

    def exact_texts(self, entity: Any) -> list[ColumnElement[Any]]:
        """Return the SQL expressions of these texts, for the class or an alias of it."""
        return [select_exact(getattr(entity, name)) for name in self.exact_types()]

    def loaders(self, entity: Any, *, exactly: bool) -> list[ExecutableOption]:
        """Return the loader options that load the columns, and nothing else.

        Args:
            entity: the class, or an alias of it.
            exactly: whether to leave out columns that are loaded as texts.
        """
        names = dict.fromkeys(
            [*self.table.identity, *(c.name for c in (*self.columns, *self.also))]
        )
        for name in self.exact_types() if exactly else ():
            del names[name]
        return [load_only(*(getattr(entity, name) for name in names)), lazyload("*")]


def shape_of(table: ToolTable, names: Sequence[str] | None, include: Iterable[str] = ()) -> Shape:
    """Return the shape for the names in a read.

    Args:
        table: the table.
        names: columns, and relationships (paths) to nest; `None` for all columns that are shown by
            default.
        include: more paths of relationships.

    Raises:
        ToolError: the model may not use one of the names.
    """
    own = [c for c in (table.columns.get(n) for n in table.identity) if c is not None]
    paths = [path_of(path, table) for path in include]
    columns = dict.fromkeys(own)
    if names is None:
        columns |= dict.fromkeys(column for column in table.columns.values() if column.shown)
    for name in names or ():
        if name in table.columns:
            columns[table.columns[name]] = None
        elif name != table.row_ref:
            paths.append(path_of(name, table))
    return Shape(table, list(columns), _children(table, paths))


def _children(table: ToolTable, paths: Iterable[Sequence[str]]) -> dict[str, Shape]:
    within: dict[str, list[str]] = {}
    for name, *rest in paths:
        if name in table.columns:
            raise invalid_arguments(
                f"{name!r} is a column and leads to no rows", "columns", "name it without a path"
            )
        if name not in table.includable:
            raise unknown_column(table.name, name, [*table.columns, *table.includable])
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
    """The limits of one call: size of the answer, and time of a statement.

    Attributes:
        rows: the maximum number of rows in an answer, and of related rows in each of them.
        related: the maximum number of related rows in the whole answer.
        characters: the approximate maximum of characters of text; the remaining rows are left for
            the next read, and a write shows only their refs.
        text: the maximum number of characters of one text; a longer one is cut.
        seconds: the time limit of one statement; `None` for the server's limit. A shorter
            `statement_timeout` of the application stays in effect.

    Example:
        >>> toolset = Toolset([Recipe], limits=Limits(rows=1))
        >>> answer = toolset.call(session, "db_read", {"table": "recipes"})
        >>> answer["count"], answer["more"]
        (1, True)
    """

    rows: int = 100
    related: int = 1_000
    characters: int = 100_000
    text: int = 20_000
    seconds: float | None = 10


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """The related rows of one row, through one relationship.

    Attributes:
        rows: the rows to show.
        total: the number of all related rows.
    """

    rows: Sequence[Any] = ()
    total: int = 0


@dataclass(slots=True)
class Room:
    """The space left for the rows of one answer, in all its tables.

    Attributes:
        characters: the number of characters left.
        is_empty: whether no row was added yet; the first row is shown at any length.
    """

    characters: int
    is_empty: bool = True

    def take(
        self, entries: Iterable[T], render: Callable[[T], R], logs: Sequence[list[Any]]
    ) -> list[R]:
        """Render rows until the space is used; at most one rendered row is discarded.

        Args:
            entries: the objects to make rows from.
            render: makes a row.
            logs: lists that rendering appends to; the entries of a discarded row are removed.
        """
        rows: list[R] = []
        for each in entries if self.is_empty or self.characters > 0 else ():
            before = [len(log) for log in logs]
            row = render(each)
            self.characters -= size_of(row)
            if self.characters < 0 and not self.is_empty:
                for log, length in zip(logs, before, strict=True):
                    del log[length:]
                break
            self.is_empty = False
            rows.append(row)
        return rows

    def fill(
        self,
        entries: Sequence[T],
        render: Callable[[T], Row],
        only_ref: Callable[[T], Row],
        logs: Sequence[list[Any]],
    ) -> list[Row]:
        """Return rows until the space is used, and only the refs of the others.

        Args:
            entries: the objects to make rows from.
            render: makes a row.
            only_ref: makes a row with only its ref.
            logs: see `take`; the last one lists the cut values.
        """
        rows = self.take(entries, render, logs)
        rest = [only_ref(each) for each in entries[len(rows) :]]
        if rest:
            logs[-1].append(f"{len(rest)} more rows are shown by their refs alone")
        return rows + rest


RelatedOf = Callable[[Any, Shape], RelatedRows]
"""Returns the related rows of an instance for a shape."""


ShownRow = tuple[Row, Any, Shape]
"""A row of an answer, its instance, and its shape."""


@dataclass(slots=True)
class Rendering:
    """Makes the JSON of one answer.

    Attributes:
        limits: the limits of the answer.
        ref_of: returns the ref of a row with a composite key.
        related_of: returns the related rows of an instance.
        exact: the values that instances cannot hold.
        cut: the paths of cut or omitted values.
        shown: the rows with their instances and shapes, including nested rows.
        related: the number of nested rows.
    """

    limits: Limits
    ref_of: Callable[[Any, ToolTable], str]
    related_of: RelatedOf
    exact: ExactValues = field(default_factory=ExactValues)
    cut: list[str] = field(default_factory=list)
    shown: list[ShownRow] = field(default_factory=list)
    related: int = 0

    def rows(self, instances: Sequence[Any], shape: Shape, room: Room) -> list[Row]:
        """Return rows until the space is used, and only the refs of the others."""

        def only_ref(instance: Any) -> Row:
            if shape.table.ends:
                return {name: getattr(instance, name) for name in shape.table.identity}
            own = shape.table.own
            ref = self.ref_of(instance, shape.table) if own is None else getattr(instance, own)
            return {shape.table.ref_field: ref}

        logs = (self.shown, self.cut)
        return room.fill(instances, lambda each: self.row(each, shape), only_ref, logs)

    def row(self, instance: Any, shape: Shape, path: str = "") -> Row:
        """Return one row."""
        own, table = shape.table.own, shape.table
        if table.ends:
            row, ref = Row(), table.name
        else:
            ref = self.ref_of(instance, table) if own is None else getattr(instance, own)
            row = {ROW_REF: ref} if own is None else {}
        path = path or str(ref)
        for column in shape.columns:
            value = self.exact.of(instance, column.name)
            row[column.name] = None if value is None else self.value(column, value, path)
        self.shown.append((row, instance, shape))
        for name, child in shape.children.items():
            related, is_list = self.related_of(instance, child), shape.table.is_list(name)
            show = self._related_rows if is_list else self._related_row
            row[name] = show(related, child, f"{path}.{name}")
        return row

    def value(self, column: ToolColumn, value: Any, path: str) -> Any:
        """Return a row's value of a column as JSON, cut if it is too long or too deep."""
        # a tuple: `list | dict` would be evaluated for each value
        if isinstance(value, (list, dict)):
            value = cut_depth(value, f"{path}.{column.name}", self.cut)
        json_value = column.show(value)
        if is_plain(json_value) and (
            json_value.__class__ is not str or len(json_value) <= self.limits.text
        ):
            return json_value
        return self.fit_value(json_value, column, f"{path}.{column.name}")

    def _related_row(self, related: RelatedRows, shape: Shape, path: str) -> Row | None:
        for each in related.rows:
            self.related += 1
            return self.row(each, shape, path)
        return None

    def _related_rows(self, related: RelatedRows, shape: Shape, path: str) -> list[Row]:
        rows: list[Row] = []
        for n, each in enumerate(related.rows, start=1):
            # checked for each row, because rendering a row may add nested rows
            if self.related >= self.limits.related:
                break
            self.related += 1
            rows.append(self.row(each, shape, f"{path}[{n}]"))
        if len(rows) < related.total:
            self.cut.append(f"{path}: {related.total - len(rows)} more rows")
        return rows

    def fit_value(self, value: Any, column: ToolColumn, path: str) -> Any:
        """Return a value of a column as JSON, with long texts cut."""
        if column.values.family == "ref":
            return value
        return shorten_texts(value, self.limits.text, path, self.cut)


def shorten_texts(value: Any, most: int, path: str, cut: list[str]) -> Any:
    """Shorten long texts in a value, and add their paths to `cut`."""
    if isinstance(value, str):
        head = shorten_text(value, most)
        if isinstance(head, CutText):
            cut.append(f"{path}: {head.more} more characters")
        return head
    if isinstance(value, list):
        return [shorten_texts(each, most, path, cut) for each in value]
    if isinstance(value, dict):
        inside = value.items()
        return {name: shorten_texts(each, most, f"{path}.{name}", cut) for name, each in inside}
    return value


def cut_depth(value: Any, path: str, cut: list[str]) -> Any:
    """Remove parts of a value that are nested too deep, and add their paths to `cut`."""
    limited, is_cut = limit_depth(value)
    if is_cut:
        cut.append(f"{path}: more than {MAX_DEPTH_SHOWN} levels")
    return limited


def castable(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return a type for a CAST: without collation."""
    return Text() if isinstance(type_, String) and type_.collation is not None else type_


def related_rows(related: Any) -> list[Any]:
    """Return the rows in a relationship attribute: one, a list or a mapping."""
    if related is None:
        return []
    if inspect(related, raiseerr=False) is not None:
        return [related]
    return list(related.values() if isinstance(related, Mapping) else related)


def composite_key_rows(
    instances: Iterable[Any], shape: Shape, related_of: RelatedOf
) -> Iterator[tuple[ToolTable, Any]]:
    """Yield the rows that have no ref column (composite keys), including nested rows."""
    for instance in instances:
        if shape.table.row_ref is not None:
            yield shape.table, instance
        for child in shape.children.values():
            yield from composite_key_rows(related_of(instance, child).rows, child, related_of)


def size_of(value: Any) -> int:
    """Return the approximate number of characters of a JSON value."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, list):
        return 2 + sum(map(size_of, value))
    if isinstance(value, dict):
        size = 2
        for name, each in value.items():  # inlined for speed
            size += len(name) + (len(each) + 6 if each.__class__ is str else size_of(each) + 4)
        return size
    return 6


class Relatives:
    """Loads the related rows of one answer.

    Args:
        session: reads them.
        limits: the limits of the answer.
        exact: receives the values that instances cannot hold.
        options: the options of the statement that read the rows. Those that apply to every
            statement (`with_loader_criteria`) apply to related rows too; relationships that the
            application has loaded are shown as loaded.
        visible: returns the conditions for rows of a table that read hooks do not hide.
    """

    def __init__(
        self,
        session: Session,
        limits: Limits,
        exact: ExactValues | None = None,
        options: Iterable[ExecutableOption] = (),
        visible: Visible = lambda _table, _entity: (),
    ) -> None:
        self._session = session
        self._limits = limits
        self._exact = ExactValues() if exact is None else exact
        self._visible = visible
        self._options = [each for each in options if applies_everywhere(each)]
        # id(shape), parent -> its related rows
        self._related: dict[tuple[int, InstanceState[Any]], RelatedRows] = {}

    def of(self, instance: Any, shape: Shape) -> RelatedRows:
        """Return the related rows of an instance for a shape."""
        return self._related.get((id(shape), sqla.state_of(instance)), RelatedRows())

    def load(self, instances: Sequence[Any], shape: Shape) -> None:
        """Load the related rows of instances, at every level."""
        self._note_loaded(instances, shape)
        self._load(instances, shape)

    def _note_loaded(self, instances: Iterable[Any], shape: Shape) -> None:
        """Use related rows that the application's options have loaded; more may exist."""
        for instance in instances:
            state = sqla.state_of(instance)
            for name, child in shape.children.items():
                if name in state.dict and not self._visible(child.table, child.table.model):
                    rows = related_rows(state.dict[name])
                    shown = rows[: self._limits.rows]
                    self._related[id(child), state] = RelatedRows(shown, len(rows))
                    self._note_loaded(shown, child)

    def _load(self, instances: Sequence[Any], shape: Shape) -> None:
        for name, child in shape.children.items():
            states = dict.fromkeys(map(sqla.state_of, instances))
            waiting = [each for each in states if (id(child), each) not in self._related]
            if waiting:
                self._read_relationship(waiting, shape, name)
            inside = [row for each in instances for row in self.of(each, child).rows]
            self._load(inside, child)

    def _read_relationship(
        self, states: Sequence[InstanceState[Any]], shape: Shape, name: str
    ) -> None:
        """Read the related rows of one relationship: one statement."""
        child, relationship = shape.children[name], shape.table.relationship(name)
        mapper = inspect(shape.table.model).mapper
        keys = [mapper.primary_key_from_instance(each.obj()) for each in states]
        target = relationship.entity.entity
        conditions = self._visible(child.table, target)
        dialect = self._session.get_bind(mapper).dialect.name
        parents = _key_table(mapper.primary_key, keys, dialect)
        statement = _related_select(shape, name, parents, self._limits, conditions)
        exactly = is_exact_on(self._session, child.table.model)
        types = child.exact_types() if exactly else {}
        fresh = (
            statement.add_columns(*(child.exact_texts(target) if exactly else ()))
            .options(*child.loaders(target, exactly=exactly), *self._options)
            .execution_options(raw_keys=True, populate_existing=True)
        )
        for place, total, row, *texts in self._session.execute(fresh).unique():
            key = id(child), states[place - 1]
            before = self._related.get(key, RelatedRows())
            rows = before.rows if row is None else [*before.rows, row]
            self._related[key] = RelatedRows(rows, total)
            if row is not None:
                self._exact.add(row, types, texts)


def applies_everywhere(option: ExecutableOption) -> bool:
    """Return whether an option applies to every statement, like `with_loader_criteria()`."""
    is_path = isinstance(option, LoaderOption)
    return not is_path and bool(getattr(option, "propagate_to_loaders", False))


def _key_table(
    key_columns: Sequence[Column[Any]], keys: Sequence[Sequence[Any]], dialect: str
) -> FromClause:
    """Return keys as a table with `place`, from 1.

    It is `unnest` of one array parameter per column, or VALUES in databases without arrays.
    """
    types = [castable(each.type) for each in key_columns]
    if dialect != "postgresql":
        columns = [sqlalchemy_column(f"key_{n}", type_) for n, type_ in enumerate(types)]
        rows = [(place, *key) for place, key in enumerate(keys, start=1)]
        return values(sqlalchemy_column("place", Integer), *columns).data(rows).cte("given")
    arrays = [
        cast(list(parts), ARRAY(type_))
        for parts, type_ in zip(zip(*keys, strict=True), types, strict=True)
    ]
    columns = [sqlalchemy_column(f"key_{n}", type_) for n, type_ in enumerate(types)]
    unnested = func.unnest(*arrays).table_valued(*columns, with_ordinality="place")
    return unnested.render_derived(name="given")


def _related_select(
    shape: Shape,
    name: str,
    parents: FromClause,
    limits: Limits,
    conditions: Sequence[ColumnElement[bool]],
) -> Select[Any]:
    """Return the SELECT of the related rows of several parents.

    Each row has the place of its parent and the parent's number of related rows. If the limit is
    reached before a parent, that parent has one row with only the number.
    """
    child, relationship = shape.children[name], shape.table.relationship(name)
    target, names = relationship.entity.entity, child.table.identity
    numbered = _numbered_rows(shape, name, parents, conditions)
    place, number, total = numbered.c.place, numbered.c.number, numbered.c.total
    keys = [numbered.c[f"key_{n}"] for n, _ in enumerate(names)]
    in_all = func.row_number().over(order_by=[place, number]).label("in_all")
    most = max(limits.rows, 1) if relationship.uselist else 1
    candidates = select(place, total, number, *keys, in_all).where(number <= most).subquery()
    is_shown = candidates.c.in_all <= limits.related if relationship.uselist else true()
    is_row = [getattr(target, each) == candidates.c[f"key_{n}"] for n, each in enumerate(names)]
    return (
        select(candidates.c.place, candidates.c.total, target)
        .select_from(candidates)
        .outerjoin(target, and_(*is_row, is_shown))
        .where(or_(is_shown, candidates.c.number == 1))
        .order_by(candidates.c.in_all)
    )


def _numbered_rows(
    shape: Shape,
    name: str,
    parents: FromClause,
    conditions: Sequence[ColumnElement[bool]],
) -> FromClause:
    """Return the keys of related rows with their `number` and `total` in their parent."""
    child, relationship = shape.children[name], shape.table.relationship(name)
    # the parent is aliased, because the relationship's order_by names the child's columns
    parent, target = aliased(shape.table.model), relationship.entity.entity
    both = join(parent, target, getattr(parent, name))
    keys = [getattr(target, each) for each in child.table.identity]
    order = [*_order(relationship, both, inspect(parent).selectable), *keys]
    position = func.row_number().over(partition_by=parents.c.place, order_by=order)
    is_parent = [
        getattr(parent, each) == parents.c[f"key_{n}"]
        for n, each in enumerate(shape.table.identity)
    ]
    related = (
        select(parents.c.place, position.label("position"))
        .add_columns(*(each.label(f"key_{n}") for n, each in enumerate(keys)))
        .select_from(both)
        .join(parents, and_(*is_parent))
        .where(*conditions)
        .subquery()
    )
    # several rows of a secondary table may lead to the same row; its first position counts
    key_columns = [related.c[f"key_{n}"] for n, _ in enumerate(keys)]
    number = func.row_number().over(
        partition_by=related.c.place, order_by=func.min(related.c.position)
    )
    total = func.count().over(partition_by=related.c.place)
    return (
        select(related.c.place, *key_columns, number.label("number"), total.label("total"))
        .group_by(related.c.place, *key_columns)
        .subquery()
    )


def _order(
    relationship: RelationshipProperty[Any], both: FromClause, parent: FromClause
) -> list[ColumnElement[Any]]:
    """Return the ORDER BY of a relationship, for the tables as they are joined."""
    target = relationship.entity.selectable
    own = {*visitors.iterate(parent), *visitors.iterate(target)}
    others = [
        each
        for each in visitors.iterate(both)
        if isinstance(each, FromClause) and each not in own and each is not both
    ]

    def replace(element: Any, **_: Any) -> Any:
        if not isinstance(element, Column):
            return None
        # columns of the secondary table are not in the mapper's tables
        tables = [target] if element.table in relationship.mapper.tables else others
        replacements = (each.corresponding_column(element) for each in tables)
        return next((each for each in replacements if each is not None), None)

    return [
        visitors.replacement_traverse(each, {}, replace) for each in relationship.order_by or ()
    ]


def combine_answers(
    answers: Sequence[dict[str, Any]], saved: Mapping[str, str], notes: Sequence[str]
) -> dict[str, Any]:
    """Combine the answers for each table into one."""
    first, *others = answers
    answer = first | ({"saved": dict(saved)} if saved else {})
    answer |= {"also": others} if others else {}
    notes = [*notes, *first.get("notes", [])]
    return answer | ({"notes": notes} if notes else {})
