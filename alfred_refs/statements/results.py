"""Result rows: keys to refs, in rows and RETURNING.

Refs in place of the keys in one value, however deep they stand in it.

    shapes: a key                      UUID("a508…")                 -> "recipe_1"
    shapes: a list of keys             [UUID("a508…"), None]         -> ["recipe_1", None]
    shapes: a record with a key in it  {"id": "a508…", "n": 2}       -> {"id": "recipe_1", "n": 2}
    unknown, like a key                "a508…"                       -> "recipe_1", or an error

`collect_keys` finds the keys of a whole chunk, so that all of them have refs after one round trip,
and `shower` makes the function that puts the refs in. A value that is not what the statement said,
or may be a key and has not exactly one ref, raises; no error repeats it. Pure.

Refs out: which columns of a result hold keys, and the same rows with refs in place.

`outputs_of` reads a statement once; `with_refs` is applied to each chunk of rows and asks for the
refs of a whole chunk at once. A value of unknown origin that may be a key is refused: silently
raw is not an outcome.

What the result of a write tells of the rows beside those of RETURNING, with refs for keys.

The result of an insert or update by Core comes in, and goes out with its exits covered: the
primary keys of inserted rows, the defaults that the database filled in, the parameters that were
sent. The keys are minted when one of them is asked for, or at once where the session wants that:
later there may be no way to wait. Values of columns that the statement does not fill are looked
at one by one, and refused if they may be keys.
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
    names_in,
    unknowns_in,
    with_parts,
)
from alfred_refs.statements.dataflow import positions

RefsMet = Callable[[Key], Collection[str]]
"""Returns the refs of all entities that a key is known to have."""

_INNER_UUID = re.compile(
    r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_BINARY_UUID = 16  # bytes


def show_suspect(unknown: Unknown, refs_met: RefsMet, value: Any) -> Any:
    """Return a value that is no key, or its ref if exactly one is known.

    Raises:
        UntranslatableError: it may be a key.
    """
    show = partial(show_suspect, unknown, refs_met)
    match value:
        case list():
            return [show(item) for item in value]
        case tuple():
            return tuple(show(item) for item in value)
        case dict():
            return {show(name): show(item) for name, item in value.items()}
        case uuid.UUID():
            return _known_ref(refs_met, value)
        case str() if "uuid" in unknown.key_types and spells_uuid(value):
            return _known_ref(refs_met, uuid.UUID(value))
        case _ if _may_be_key(unknown, value):
            raise _of_unknown_origin()
        case _:
            return value


def _known_ref(cached_refs: RefsMet, key: uuid.UUID) -> Any:
    refs = cached_refs(key)
    if len(refs) != 1:
        raise _of_unknown_origin()
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
            is_uuid = len(text) == _BINARY_UUID or _INNER_UUID.search(text) is not None
            return unknown.within and is_uuid
        case None | bool() | float() | date() | time() | timedelta():
            return False
        case int():
            return "integer" in unknown.key_types
        case Decimal():  # a key cast to numeric has no decimal places, a price has
            return "integer" in unknown.key_types and value.as_tuple().exponent == 0
        case _:  # a range, a composite, whatever the driver makes
            pattern = _DIGIT if "integer" in unknown.key_types else _INNER_UUID
            return unknown.within and pattern.search(str(value)) is not None


def _of_unknown_origin() -> UntranslatableError:
    return UntranslatableError(
        "a statement without column information returns a value that may be a key",
        "give text() its columns by .columns(...), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


Show = Callable[[Any], Any]


class Referring(Protocol):
    """The part of a conversation that rows need."""

    def make_room(self) -> bool:
        """Let go of refs, if there are many: those read before are not to be expected any more."""
        ...

    def mint(self, pairs: Collection[EntityKey]) -> None:
        """Make sure that all these keys have refs."""
        ...

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """Return refs by the token of their key."""
        ...

    def cached_refs(self, key: Key) -> Collection[str]:
        """Return the refs of all entities with this key that were met so far."""
        ...


def collect_keys(shape: KeyShape, values: Iterable[Any]) -> list[EntityKey]:
    """Return the keys in values of one shape, as often as they stand there.

    Raises:
        UntranslatableError: a value is not what its shape says.
    """
    found: list[EntityKey] = []

    def noting(part: KeyColumn | SpelledKey | Unknown) -> Show:
        if isinstance(part, Unknown):
            return _same
        column = part if isinstance(part, KeyColumn) else part.column
        space = column.space
        if part == column and column.array:
            return lambda value: found.extend(
                (space, _key(column, item)) for item in items_of(value) if item is not None
            )
        return lambda value: found.append((space, _key(column, value)))

    note = _each_key(shape, noting)
    for value in values:
        if value is not None:
            note(value)
    return found


def shower(shape: KeyShape, conversation: Referring, listed: type[list[Any]] = list) -> Show:
    """Return the function that shows a value whose keys have been met with refs in their place.

    Args:
        shape: where keys stand in the value.
        conversation: in which its keys have been met.
        listed: the kind of list that an array column's value becomes.
    """

    def showing(part: KeyColumn | SpelledKey | Unknown) -> Show:
        if isinstance(part, Unknown):
            return partial(show_suspect, part, conversation.cached_refs)
        if isinstance(part, KeyColumn):
            return shower_of_column(part, conversation.refs_of(part.space), listed)
        column, refs = part.column, conversation.refs_of(part.column.space)
        return lambda value: refs[token_of(_key(column, value))]

    return _each_key(shape, showing)


def _each_key(shape: KeyShape, change: Callable[[KeyColumn | SpelledKey | Unknown], Show]) -> Show:
    """Return the function that changes the keys in a value, however deep they stand in it."""
    match shape:
        case KeyColumn() | SpelledKey() | Unknown():
            return change(shape)
        case ArrayShape():
            is_array = isinstance(shape.item, SpelledKey)
            return partial(_in_list, _each_key(shape.item, change), is_array)
        case Series():
            return partial(_in_series, [_each_key(item, change) for item in shape.items])
        case JsonObject():
            fields = {str(name): _each_key(part, change) for name, part in shape.fields}
            return partial(_in_object, fields, _each_key(shape.rest, change))
        case JsonPairs():
            parts = (shape.name, shape.value)
            return partial(_in_pairs, *(_each_key(part, change) for part in parts))
        case _:
            return _same


def bind_field_names(shape: KeyShape, values: Callable[[int], Any]) -> KeyShape:
    """Return the shape of one execution, in which the names of fields have values.

    Raises:
        UntranslatableError: a name is not text.
    """
    if isinstance(shape, JsonObject):
        fields = tuple((_name(name, values), part) for name, part in shape.fields)
        shape = JsonObject(fields, shape.rest)
    return with_parts(shape, partial(bind_field_names, values=values))


def _name(name: str | ParameterName, values: Callable[[int], Any]) -> str:
    text = values(name.place) if isinstance(name, ParameterName) else name
    if not isinstance(text, str):
        raise UntranslatableError(
            "a JSON object with keys in it has a name that is not text",
            "write the names of its fields as text in the statement",
        )
    return text


def restrict_key_types(shape: KeyShape, key_types: Collection[KeyType]) -> KeyShape:
    """Return the shape of values where keys of unknown origin can only have these types."""
    if isinstance(shape, Unknown):
        possible = tuple(t for t in shape.key_types if t in key_types)
        return Unknown(possible, shape.within and "uuid" in possible) if possible else None
    return with_parts(shape, partial(restrict_key_types, key_types=key_types))


# Keys


def shower_of_column(
    column: KeyColumn, refs: Mapping[Any, str], listed: type[list[Any]] = list
) -> Show:
    """Return the function that puts refs in place of the keys in a value of a column.

    Args:
        column: the column.
        refs: the refs of its keys, by their token.
        listed: the kind of list that an array becomes.
    """
    if column.array:
        return partial(_shown_items, refs=refs, token=column.token, listed=listed)
    if column.as_text:
        return lambda value: refs[uuid.UUID(value).int]
    if column.key_type == "uuid":
        return lambda value: refs[value.int]
    return refs.__getitem__


def _shown_items(
    values: Iterable[Any],
    refs: Mapping[Any, str],
    token: Callable[[Any], Any],
    listed: type[list[Any]],
) -> list[Any]:
    """Return an array with refs in place of keys, whatever its dimensions."""

    def shown(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return listed(map(shown, item))
        return None if item is None else refs[token(item)]

    return listed(map(shown, values))


def _key(column: KeyColumn, value: Any) -> Key:
    """Return the key that a value spells.

    Raises:
        UntranslatableError: it spells none of the column's type.
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
    raise _unexpected_value()


def _same(value: Any) -> Any:
    return value


# Lists and records. On some drivers a JSON value that has no type in the statement is text.


def _document(value: Any, *kinds: type[Any]) -> Any:
    """Return a list or record, parsed if it is JSON text.

    Raises:
        UntranslatableError: it is none.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _unexpected_value() from None
    if value is None or isinstance(value, kinds):
        return value
    raise _unexpected_value()


def _as_it_came(value: Any, shown: Any) -> Any:
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown


def _in_list(change: Show, nested: bool, value: Any) -> Any:
    given = _document(value, list, tuple)
    if given is None:
        return value
    inside = partial(_in_list, change, nested)
    items = [
        None
        if item is None
        else (inside if nested and isinstance(item, list | tuple) else change)(item)
        for item in given
    ]
    return _as_it_came(value, tuple(items) if isinstance(given, tuple) else items)


def _in_series(change: Sequence[Show], value: Any) -> Any:
    given = _document(value, list, Row)
    if not given:
        return value
    if len(given) != len(change):
        raise _unexpected_value()
    parts = list(map(_render_part, change, given))
    return _as_it_came(value, parts) if isinstance(given, list) else sqla.row_like(given, parts)


def _in_object(change: Mapping[str, Show], rest: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    changed = {
        name: None if part is None else change.get(name, rest)(part)
        for name, part in fields.items()
    }
    return _as_it_came(value, changed)


def _in_pairs(name: Show, part: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    return _as_it_came(value, {name(n): _render_part(part, each) for n, each in fields.items()})


def _render_part(show: Show, value: Any) -> Any:
    return None if value is None else show(value)


def _unexpected_value() -> UntranslatableError:
    return UntranslatableError(
        "a value is not the key, list or record of keys that its expression promises",
        "select the key column itself, or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where keys stand in the rows of all statements of one shape.

    Attributes:
        columns: the positions that hold one key each, as its column has it.
        made: the positions that hold keys in another way, or values of unknown origin.
        width: the number of positions; `None` where the statement tells of none.
        other: what every position of rows of another width shows.
    """

    columns: Mapping[int, KeyColumn]
    made: Mapping[int, KeyShape] = field(default_factory=dict)
    width: int | None = None
    other: KeyShape = UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.columns or self.made or self.width is None)

    @property
    def unknown(self) -> bool:
        """Whether there may be values of unknown origin."""
        return self.width is None or any(
            True for shape in self.made.values() for _ in unknowns_in(shape)
        )

    def named(self, parameters: Sequence[BindParameter[Any]]) -> Outputs:
        """Return the outputs of one execution: names in JSON may be parameters.

        Raises:
            UntranslatableError: such a name is not text.
        """
        if not any(isinstance(n, ParameterName) for s in self.made.values() for n in names_in(s)):
            return self
        made = {
            position: bind_field_names(
                shape, lambda place: sqla.parameter_value(parameters[place])
            )
            for position, shape in self.made.items()
        }
        return replace(self, made=made)

    def limited(self, key_types: Collection[KeyType]) -> Outputs:
        """Return the same where all keys of unknown origin are of these types."""
        made = {
            position: restrict_key_types(shape, key_types) for position, shape in self.made.items()
        }
        made = {position: shape for position, shape in made.items() if shape is not None}
        return replace(self, made=made, other=restrict_key_types(self.other, key_types))

    def fitted(self, rows: Sequence[Any]) -> Outputs:
        """Return the outputs of these rows: all is unknown if the statement does not fit them."""
        if not rows or len(rows[0]) == self.width:
            return self
        return outputs_from([self.other] * len(rows[0]))


def outputs_of(
    statement: Executable,
    parameters: Sequence[BindParameter[Any]],
    entities: Entities,
    key_parameters: Mapping[str, KeyColumn] | None = None,
) -> Outputs:
    """Tell which positions of a statement's rows hold keys.

    Args:
        statement: any; one that returns no rows has no outputs.
        parameters: its parameters, as `sqla.cache_key_of` lists them.
        entities: which columns hold keys.
        key_parameters: those that stand for keys, by name.

    Raises:
        UntranslatableError: a result would show keys inside an expression.
    """
    if isinstance(statement, DefaultGenerator):  # a sequence's next value is nobody's key yet
        return Outputs({}, width=1)
    if not isinstance(statement, ReturnsRows | FromStatement):
        return Outputs({})
    lineage = Lineage(entities.of_column, key_parameters, [p.key for p in parameters])
    at = list(_elements(statement))
    shapes = [lineage.of_any(elements) for elements in at]
    if key_parameters:
        _check_types(zip(at, shapes, strict=True))
    return outputs_from(shapes)


def outputs_from(shapes: Sequence[KeyShape]) -> Outputs:
    """Return the outputs of rows whose positions show this."""
    plain = {i: s for i, s in enumerate(shapes) if isinstance(s, KeyColumn) and not s.array}
    made = {i: as_json(s) for i, s in enumerate(shapes) if s is not None and i not in plain}
    return Outputs(plain, made, len(shapes))


def _check_types(results: Iterable[tuple[Sequence[Any], KeyShape]]) -> None:
    """Refuse results that are keys because a parameter is, and would be read as something else."""
    for elements, column in results:
        if isinstance(column, KeyColumn) and not all(_reads_as(e, column) for e in elements):
            raise UntranslatableError(
                f"a result shows keys of {column.name} and is declared as another type",
                "put the key column before the refs in the expression, or select it by itself",
            )


def _reads_as(element: Any, column: KeyColumn) -> bool:
    """Tell whether the values of an expression are read as those of a key column are."""
    if isinstance(element, BindParameter | Null):  # sent as the column's type
        return True
    type_ = getattr(element.type, "item_type", element.type)
    return key_type_of(type_) == column.key_type and is_text_uuid(type_) == column.as_text


def _elements(statement: Any) -> Iterator[Sequence[Any]]:
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


def with_refs(
    rows: Sequence[Any],
    outputs: Outputs,
    conversation: Referring,
    more: Callable[[], Collection[EntityKey]] = tuple,
) -> Sequence[Sequence[Any]]:
    """Return the rows with refs in place of keys, minting those that are new in one round trip.

    Args:
        rows: a chunk of rows.
        outputs: where keys are in them.
        conversation: in which the keys have refs.
        more: returns other keys to mint in the same round trip, before those of the rows.

    Raises:
        UntranslatableError: a value of unknown origin may be a key.
    """
    conversation.make_room()
    outputs = outputs.fitted(rows)
    shapes: dict[int, KeyShape] = {**outputs.columns, **outputs.made}
    positions = sorted(shapes)
    new = {
        pair: None
        for position in positions
        for pair in _new_keys(rows, position, shapes[position], conversation)
    }
    conversation.mint([*more(), *new])
    show = [(position, shower(shapes[position], conversation)) for position in positions]
    return [_render_row(row, show) for row in rows]


def _render_row(row: Any, show: Sequence[tuple[int, Callable[[Any], Any]]]) -> tuple[Any, ...]:
    values = list(row)
    for position, as_ref in show:
        if values[position] is not None:
            values[position] = as_ref(values[position])
    return tuple(values)


def _new_keys(
    rows: Sequence[Any], position: int, shape: KeyShape, conversation: Referring
) -> Iterable[EntityKey]:
    values = [row[position] for row in rows]
    if not isinstance(shape, KeyColumn):
        return collect_keys(shape, values)
    refs, token = conversation.refs_of(shape.space), shape.token
    new = (value for value in values if value is not None and token(value) not in refs)
    return ((shape.space, shape.to_key(value)) for value in new)


def exit_with_refs(
    statement: Executable, conversation: Referring, entities: Entities, name: str, value: Any
) -> Any:
    """Return a value of a cursor's result with refs in place of its keys: at most one round trip.

    Args:
        statement: what was executed.
        conversation: in which the keys have refs.
        entities: which columns hold keys.
        name: the attribute or method of the result, such as `inserted_primary_key_rows`.
        value: what it returned.
    """
    if value is None:
        return None
    target = getattr(statement, "table", None)
    table = target if isinstance(target, Table) else None
    shape = restrict_key_types(
        _shape_of_exit(table, entities, name, value), entities.key_types_in_use()
    )
    conversation.mint(dict.fromkeys(collect_keys(shape, [value])))
    return shower(shape, conversation)(value)


def _shape_of_exit(table: Table | None, entities: Entities, name: str, value: Any) -> KeyShape:
    """Return what the value of an exit shows of keys."""
    columns = {} if table is None else {c.key: as_json(entities.of_column(c)) for c in table.c}
    if name == "lastrowid":
        primary = [] if table is None else list(table.primary_key)
        return columns[primary[0].key] if len(primary) == 1 else UNKNOWN
    if name.startswith("last_"):
        record = JsonObject(tuple(columns.items()), UNKNOWN)
        return ArrayShape(record) if isinstance(value, list) else record
    if isinstance(value, list):
        return ArrayShape(_row_of(columns, next(iter(value), ())))
    return _row_of(columns, value)


def _row_of(columns: dict[str, KeyShape], row: Any) -> KeyShape:
    names: Sequence[str] = getattr(row, "_fields", ())
    return Series(tuple(columns.get(name, UNKNOWN) for name in names))
