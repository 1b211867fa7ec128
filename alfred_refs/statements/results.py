"""Refs out: rows, and information about written rows, with refs in place of keys.

`outputs_of` computes once for each cache key where keys are in the rows of a statement
(`Outputs`); `with_refs` is applied to each chunk of rows, so that all keys of a chunk get their
refs in one round trip. Keys may be nested in the value at one position (`mapping.lineage`):

    a key                        UUID("a508...")                ->  "recipe_1"
    an array of keys             [UUID("a508..."), None]        ->  ["recipe_1", None]
    a JSON object with a key     {"id": "a508...", "n": 2}      ->  {"id": "recipe_1", "n": 2}
    an unknown value like a key  "a508..."                      ->  "recipe_1", or raises

For one shape of values, `collect_keys` returns the keys to mint and `renderer` returns the
function that puts refs in. A value that is not of its shape raises, and so does a value of unknown
origin that may be a key, unless exactly one ref of that key is known. No error repeats a value.

Example:
    >>> from sqlalchemy import func
    >>> from alfred_refs import RefPolicy
    >>> entities = Entities(RefPolicy())
    >>> outputs = outputs_of(select(Recipe.name, Recipe.id), [], entities)
    >>> {position: column.name for position, column in outputs.columns.items()}
    {1: 'recipes.id'}
    >>> array = outputs_of(select(func.array_agg(Recipe.id)), [], entities).shapes[0]
    >>> keys = [uuid.uuid4(), None]
    >>> [(entity, key == keys[0]) for entity, key in collect_keys(array, [keys])]
    [('recipe', True)]

Instances are not rewritten: their key attributes render refs when they are read
(`session.attributes`). Here all is pure; keys are minted by the conversation that is passed in.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

from sqlalchemy import BindParameter, Executable, Null, Row, Select, Table
from sqlalchemy.orm import FromStatement
from sqlalchemy.schema import DefaultGenerator
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import CompoundSelect, ReturnsRows, TextualSelect

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, is_text_uuid, items_of, key_type_of
from alfred_refs.mapping.keys import EntityKey, Key, KeyType, spells_uuid, token_of
from alfred_refs.mapping.lineage import (
    UNKNOWN,
    ArrayShape,
    JsonObject,
    JsonPairs,
    KeyShape,
    Lineage,
    ParameterName,
    Series,
    SpelledKey,
    Unknown,
    as_json,
    is_null,
    names_in,
    unknowns_in,
    with_parts,
)
from alfred_refs.statements.dataflow import positions

Renderer = Callable[[Any], Any]
"""Takes a value with keys and returns it with refs."""


class RefSource(Protocol):
    """The part of a conversation that returns the refs of keys."""

    def make_room(self) -> bool:
        """Drop cached refs if there are too many: earlier chunks do not need theirs again."""
        ...

    def mint(self, pairs: Collection[EntityKey]) -> None:
        """Mint refs for the keys that have none."""
        ...

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """Return the cached refs of an entity, by the token of their key."""
        ...

    def cached_refs(self, key: Key) -> Collection[str]:
        """Return the cached refs of all entities with this key."""
        ...


# The rows of one cache key


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where keys are in the rows of all statements of one cache key.

    Attributes:
        columns: the positions that hold one key each, as its column has it.
        shapes: the positions that hold keys otherwise, or values of unknown origin.
        width: the number of positions; `None` if it is not known from the statement.
        other: the shape of every position, in rows of another width.
    """

    columns: Mapping[int, KeyColumn]
    shapes: Mapping[int, KeyShape] = field(default_factory=dict)
    width: int | None = None
    other: KeyShape = UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.columns or self.shapes or self.width is None)

    @property
    def has_unknown(self) -> bool:
        """Whether there may be values of unknown origin."""
        return self.width is None or any(
            True for shape in self.shapes.values() for _ in unknowns_in(shape)
        )

    def with_field_names(self, parameters: Sequence[BindParameter[Any]]) -> Outputs:
        """Return the outputs of one execution, whose parameters may name fields in JSON.

        Raises:
            UntranslatableError: such a name is not a string.
        """
        shapes = self.shapes.values()
        if not any(isinstance(name, ParameterName) for s in shapes for name in names_in(s)):
            return self

        def value_of(position: int) -> Any:
            return sqla.parameter_value(parameters[position])

        return replace(
            self, shapes={i: bind_field_names(s, value_of) for i, s in self.shapes.items()}
        )

    def with_key_types(self, key_types: Collection[KeyType]) -> Outputs:
        """Return the outputs if values of unknown origin can only be keys of these types."""
        shapes = {i: restrict_key_types(s, key_types) for i, s in self.shapes.items()}
        shapes = {i: shape for i, shape in shapes.items() if shape is not None}
        return replace(self, shapes=shapes, other=restrict_key_types(self.other, key_types))

    def for_rows(self, rows: Sequence[Any]) -> Outputs:
        """Return the outputs for rows: if their width is another one, each position is unknown."""
        if not rows or len(rows[0]) == self.width:
            return self
        return outputs_from([self.other] * len(rows[0]))


def outputs_of(
    statement: Executable,
    parameters: Sequence[BindParameter[Any]],
    entities: Entities,
    key_parameters: Mapping[str, KeyColumn] | None = None,
) -> Outputs:
    """Return where keys are in the rows of a statement.

    Args:
        statement: any; one that returns no rows has no outputs.
        parameters: its parameters, as `sqla.cache_key_of` returns them.
        entities: the application's entities, for the keys of a column.
        key_parameters: the parameters that are keys, by name.

    Raises:
        UntranslatableError: a result would show keys inside an expression.
    """
    if isinstance(statement, DefaultGenerator):  # the next value of a sequence is not a key yet
        return Outputs({}, width=1)
    if not isinstance(statement, ReturnsRows | FromStatement):
        return Outputs({})
    lineage = Lineage(entities.of_column, key_parameters, [p.key for p in parameters])
    at = list(_result_expressions(statement))
    shapes = [lineage.of_any(expressions) for expressions in at]
    if key_parameters:
        for expressions, shape in zip(at, shapes, strict=True):
            _check_types(expressions, shape)
    return outputs_from(shapes)


def outputs_from(shapes: Sequence[KeyShape]) -> Outputs:
    """Return the outputs of rows with these shapes at their positions."""
    columns = {i: s for i, s in enumerate(shapes) if isinstance(s, KeyColumn) and not s.array}
    others = {i: as_json(s) for i, s in enumerate(shapes) if s is not None and i not in columns}
    return Outputs(columns, others, len(shapes))


def _result_expressions(statement: Any) -> Iterator[Sequence[Any]]:
    """Yield the expressions at each position of a row: none for an entity, several in a union."""
    match statement:
        case CompoundSelect():
            yield from positions(statement)
        case Select() | FromStatement() | UpdateBase():
            yield from sqla.result_expressions(statement)
        case TextualSelect():
            yield from ([column] for column in statement.selected_columns)
        case _:
            yield from ([column] for column in statement.exported_columns)


def _check_types(expressions: Iterable[Any], shape: KeyShape) -> None:
    """Refuse a result that holds keys and has another type, by which it would be processed.

    SQLAlchemy takes the type of `coalesce(:x, Recipe.id)` from its first argument, a string.
    """
    if not isinstance(shape, KeyColumn):
        return
    for n, expression in enumerate(expressions):
        if isinstance(expression, BindParameter | Null):  # sent as the type of the column
            continue
        if n and is_null(expression):  # the first SELECT decides the type of a union
            continue
        type_ = getattr(expression.type, "item_type", expression.type)
        if key_type_of(type_) != shape.key_type or is_text_uuid(type_) != shape.as_text:
            raise UntranslatableError(
                f"a result shows keys of {shape.name} and is declared as another type",
                "put the key column before the refs in the expression, or select it separately",
            )


def bind_field_names(shape: KeyShape, values: Callable[[int], Any]) -> KeyShape:
    """Return a shape in which the names of JSON fields that are parameters have their values.

    Args:
        shape: any.
        values: returns the value of a parameter by its position in the cache key.

    Raises:
        UntranslatableError: a name is not a string.
    """
    if isinstance(shape, JsonObject):
        fields = tuple((_field_name(name, values), part) for name, part in shape.fields)
        shape = JsonObject(fields, shape.rest)
    return with_parts(shape, partial(bind_field_names, values=values))


def _field_name(name: str | ParameterName, values: Callable[[int], Any]) -> str:
    text = values(name.place) if isinstance(name, ParameterName) else name
    if not isinstance(text, str):
        raise UntranslatableError(
            "a JSON object with keys in it has a name that is not text",
            "write the names of its fields as text in the statement",
        )
    return text


def restrict_key_types(shape: KeyShape, key_types: Collection[KeyType]) -> KeyShape:
    """Return a shape in which values of unknown origin can only be keys of these types."""
    if isinstance(shape, Unknown):
        possible = tuple(t for t in shape.key_types if t in key_types)
        return Unknown(possible, shape.within and "uuid" in possible) if possible else None
    return with_parts(shape, partial(restrict_key_types, key_types=key_types))


# A chunk of rows


def with_refs(
    rows: Sequence[Any],
    outputs: Outputs,
    conversation: RefSource,
    more: Callable[[], Collection[EntityKey]] = tuple,
) -> Sequence[Sequence[Any]]:
    """Return rows with refs in place of keys; mints new refs in one round trip.

    Args:
        rows: a chunk of rows.
        outputs: where keys are in them.
        conversation: mints and returns the refs.
        more: returns other keys to mint in the same round trip, before the keys of the rows.

    Raises:
        UntranslatableError: a value of unknown origin may be a key.
    """
    conversation.make_room()
    outputs = outputs.for_rows(rows)
    shapes: dict[int, KeyShape] = {**outputs.columns, **outputs.shapes}
    positions = sorted(shapes)
    new = {
        pair: None
        for position in positions
        for pair in _new_keys(rows, position, shapes[position], conversation)
    }
    conversation.mint([*more(), *new])
    renderers = [(position, renderer(shapes[position], conversation)) for position in positions]
    return [_render_row(row, renderers) for row in rows]


def _render_row(row: Any, renderers: Sequence[tuple[int, Renderer]]) -> tuple[Any, ...]:
    values = list(row)
    for position, render in renderers:
        if values[position] is not None:
            values[position] = render(values[position])
    return tuple(values)


def _new_keys(
    rows: Sequence[Any], position: int, shape: KeyShape, conversation: RefSource
) -> Iterable[EntityKey]:
    """Return the keys at a position of rows that may have no ref yet."""
    values = [row[position] for row in rows]
    if not isinstance(shape, KeyColumn):
        return collect_keys(shape, values)
    refs, token = conversation.refs_of(shape.space), shape.token
    new = (value for value in values if value is not None and token(value) not in refs)
    return ((shape.space, shape.to_key(value)) for value in new)


def write_info_with_refs(
    statement: Executable, conversation: RefSource, entities: Entities, name: str, value: Any
) -> Any:
    """Return information about written rows with refs in place of keys: at most one round trip.

    Values of columns that are not in the statement's table are of unknown origin.

    Args:
        statement: the executed statement.
        conversation: mints and returns the refs.
        entities: the application's entities, for the keys of a column.
        name: the attribute or method of the result, such as `inserted_primary_key_rows`.
        value: its value.

    Raises:
        UntranslatableError: a value of unknown origin may be a key.
    """
    if value is None:
        return None
    target = getattr(statement, "table", None)
    table = target if isinstance(target, Table) else None
    shape = restrict_key_types(
        _shape_of_write_info(table, entities, name, value), entities.key_types_in_use()
    )
    conversation.mint(dict.fromkeys(collect_keys(shape, [value])))
    return renderer(shape, conversation)(value)


def _shape_of_write_info(
    table: Table | None, entities: Entities, name: str, value: Any
) -> KeyShape:
    columns = {} if table is None else {c.key: as_json(entities.of_column(c)) for c in table.c}
    if name == "lastrowid":
        primary = [] if table is None else list(table.primary_key)
        return columns[primary[0].key] if len(primary) == 1 else UNKNOWN
    if name.startswith("last_"):  # last_inserted_params(), last_updated_params()
        record = JsonObject(tuple(columns.items()), UNKNOWN)
        return ArrayShape(record) if isinstance(value, list) else record
    if isinstance(value, list):
        return ArrayShape(_shape_of_row(columns, next(iter(value), ())))
    return _shape_of_row(columns, value)


def _shape_of_row(columns: dict[str, KeyShape], row: Any) -> KeyShape:
    names: Sequence[str] = getattr(row, "_fields", ())
    return Series(tuple(columns.get(name, UNKNOWN) for name in names))


# Values of one shape


def collect_keys(shape: KeyShape, values: Iterable[Any]) -> list[EntityKey]:
    """Return the keys in values of one shape, repeated ones included.

    Raises:
        UntranslatableError: a value is not of the shape.
    """
    keys: list[EntityKey] = []

    def collector(part: KeyColumn | SpelledKey | Unknown) -> Renderer:
        if isinstance(part, Unknown):
            return _same
        column = part if isinstance(part, KeyColumn) else part.column
        space = column.space
        if part == column and column.array:
            return lambda value: keys.extend(
                (space, _key(column, item)) for item in items_of(value) if item is not None
            )
        return lambda value: keys.append((space, _key(column, value)))

    collect = _for_each_key(shape, collector)
    for value in values:
        if value is not None:
            collect(value)
    return keys


def renderer(
    shape: KeyShape, conversation: RefSource, list_class: type[list[Any]] = list
) -> Renderer:
    """Return the function that replaces keys by refs in values of one shape.

    Args:
        shape: where keys are in a value.
        conversation: has cached refs of all keys in the values.
        list_class: the class of list that the value of an array column becomes.
    """

    def renderer_of_part(part: KeyColumn | SpelledKey | Unknown) -> Renderer:
        if isinstance(part, Unknown):
            return partial(render_unknown, part, conversation.cached_refs)
        if isinstance(part, KeyColumn):
            return renderer_of_column(part, conversation.refs_of(part.space), list_class)
        column, refs = part.column, conversation.refs_of(part.column.space)
        return lambda value: refs[token_of(_key(column, value))]

    return _for_each_key(shape, renderer_of_part)


def renderer_of_column(
    column: KeyColumn, refs: Mapping[Any, str], list_class: type[list[Any]] = list
) -> Renderer:
    """Return the function that replaces keys by refs in values of a column.

    The result is called for every row and attribute access: nothing is looked up twice.

    Args:
        column: the column.
        refs: the refs of its keys, by their token.
        list_class: the class of list that an array becomes.
    """
    if column.array:
        return partial(_render_array, refs=refs, token=column.token, list_class=list_class)
    if column.as_text:
        return lambda value: refs[uuid.UUID(value).int]
    if column.key_type == "uuid":
        return lambda value: refs[value.int]
    return refs.__getitem__


def _render_array(
    values: Iterable[Any],
    refs: Mapping[Any, str],
    token: Callable[[Any], Any],
    list_class: type[list[Any]],
) -> list[Any]:
    """Return an array of any dimensions with refs in place of keys."""

    def render(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return list_class(map(render, item))
        return None if item is None else refs[token(item)]

    return list_class(map(render, values))


def _key(column: KeyColumn, value: Any) -> Key:
    """Return the key of a value, in the form of its column or as text.

    Raises:
        UntranslatableError: it is not of the column's type.
    """
    try:
        if column.key_type == "uuid":
            return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
        if column.key_type == "integer" and isinstance(value, int | str):
            return int(value)
        if column.key_type == "string" and isinstance(value, str):
            return value
    except (ValueError, AttributeError, TypeError):
        pass
    raise _wrong_shape()


def _same(value: Any) -> Any:
    return value


def _wrong_shape() -> UntranslatableError:
    return UntranslatableError(
        "a value is not the key, list or record of keys that its expression promises",
        "select the key column itself, or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


# Keys in arrays and JSON. Where the statement does not declare JSON, some drivers return text.


def _for_each_key(
    shape: KeyShape, function: Callable[[KeyColumn | SpelledKey | Unknown], Renderer]
) -> Renderer:
    """Return the function that rewrites the keys in a value, however deeply nested.

    Args:
        shape: where keys are in the value.
        function: returns the function that rewrites one key.
    """
    match shape:
        case KeyColumn() | SpelledKey() | Unknown():
            return function(shape)
        case ArrayShape():
            is_array = isinstance(shape.item, SpelledKey)
            return partial(_in_list, _for_each_key(shape.item, function), is_array)
        case Series():
            return partial(_in_series, [_for_each_key(item, function) for item in shape.items])
        case JsonObject():
            fields = {str(name): _for_each_key(part, function) for name, part in shape.fields}
            return partial(_in_object, fields, _for_each_key(shape.rest, function))
        case JsonPairs():
            parts = (shape.name, shape.value)
            return partial(_in_pairs, *(_for_each_key(part, function) for part in parts))
        case _:
            return _same


def _in_list(rewrite: Renderer, nested: bool, value: Any) -> Any:
    """Rewrite the items of a list, or of an array of any dimensions (`nested`)."""
    document = _parse(value, list, tuple)
    if document is None:
        return value
    inside = partial(_in_list, rewrite, nested)
    items = [
        None
        if item is None
        else (inside if nested and isinstance(item, list | tuple) else rewrite)(item)
        for item in document
    ]
    return _as_received(value, tuple(items) if isinstance(document, tuple) else items)


def _in_series(rewrites: Sequence[Renderer], value: Any) -> Any:
    document = _parse(value, list, Row)
    if not document:
        return value
    if len(document) != len(rewrites):
        raise _wrong_shape()
    parts = list(map(_unless_null, rewrites, document))
    if isinstance(document, list):
        return _as_received(value, parts)
    return sqla.row_like(document, parts)


def _in_object(rewrites: Mapping[str, Renderer], rest: Renderer, value: Any) -> Any:
    document = _parse(value, dict)
    if document is None:
        return value
    fields = {
        name: _unless_null(rewrites.get(name, rest), part) for name, part in document.items()
    }
    return _as_received(value, fields)


def _in_pairs(name: Renderer, part: Renderer, value: Any) -> Any:
    document = _parse(value, dict)
    if document is None:
        return value
    pairs = {name(n): _unless_null(part, each) for n, each in document.items()}
    return _as_received(value, pairs)


def _unless_null(rewrite: Renderer, value: Any) -> Any:
    return None if value is None else rewrite(value)


def _parse(value: Any, *classes: type[Any]) -> Any:
    """Return a list or record, parsed if it is JSON text.

    Raises:
        UntranslatableError: it is of another class.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _wrong_shape() from None
    if value is None or isinstance(value, classes):
        return value
    raise _wrong_shape()


def _as_received(value: Any, rewritten: Any) -> Any:
    """Return a rewritten document as JSON text if it was received as that."""
    return json.dumps(rewritten, ensure_ascii=False) if isinstance(value, str) else rewritten


# Values of unknown origin

_INNER_UUID = re.compile(
    r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_UUID_BYTES = 16


def render_unknown(
    unknown: Unknown, cached_refs: Callable[[Key], Collection[str]], value: Any
) -> Any:
    """Return a value of unknown origin, or its ref if it is a UUID with exactly one.

    Raises:
        UntranslatableError: it may be another key.
    """
    render = partial(render_unknown, unknown, cached_refs)
    match value:
        case list():
            return [render(item) for item in value]
        case tuple():
            return tuple(render(item) for item in value)
        case dict():
            return {render(name): render(item) for name, item in value.items()}
        case uuid.UUID():
            return _only_ref(cached_refs, value)
        case str() if "uuid" in unknown.key_types and spells_uuid(value):
            return _only_ref(cached_refs, uuid.UUID(value))
        case _ if _may_be_key(unknown, value):
            raise _unknown_origin()
        case _:
            return value


def _only_ref(cached_refs: Callable[[Key], Collection[str]], key: uuid.UUID) -> Any:
    refs = cached_refs(key)
    if len(refs) != 1:
        raise _unknown_origin()
    return next(iter(refs))


def _may_be_key(unknown: Unknown, value: Any) -> bool:
    match value:
        case str():
            return (
                "string" in unknown.key_types
                or ("integer" in unknown.key_types and value.strip().lstrip("+-").isdecimal())
                or (unknown.within and _INNER_UUID.search(value) is not None)
            )
        case bytes() | bytearray() | memoryview():
            text = bytes(value).decode("latin-1")
            is_uuid = len(text) == _UUID_BYTES or _INNER_UUID.search(text) is not None
            return unknown.within and is_uuid
        case None | bool() | float() | date() | time() | timedelta():
            return False
        case int():
            return "integer" in unknown.key_types
        case Decimal():  # an integer key cast to numeric has no decimal places, a price has
            return "integer" in unknown.key_types and value.as_tuple().exponent == 0
        case _:  # a range, a composite, or another class of the driver
            pattern = _DIGIT if "integer" in unknown.key_types else _INNER_UUID
            return unknown.within and pattern.search(str(value)) is not None


def _unknown_origin() -> UntranslatableError:
    return UntranslatableError(
        "a statement without column information returns a value that may be a key",
        "give text() its columns by .columns(...), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )
