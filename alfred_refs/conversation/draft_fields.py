"""Draft content: JSON to column values, keys reserved for new rows, reconciliation with rows.

What a draft may hold: a JSON object, as it came, within limits.

Values of Python come in and text goes out, which `json.loads` reads as the same values. Nothing is
left out or changed to make it fit: what is no JSON is refused, and no error repeats it. Whether
the values suit the columns of a class is not asked here, but by those who know what columns take.
Pure.

Keys of rows that are not there yet: decided before the insert, as the insert would.

A primary key column comes in, with the number of keys that are wanted; keys that no row has go
out. A default of Python's is called, one of the database's is asked for, on the connection that
the rows will be inserted on.

Whether drafts are saved whose rows were to be inserted: the application's tables tell.

Drafts come in as the registry has them, and go out as they are: one that has a key reserved was
saved after all if the row is there, though it be discarded since. So it stands after a crash
between the row's commit and the registry's note of it, which is made up for here. A row that
cannot be looked for is not there.

What a class may have drafts of, and what they may hold: values, and related rows inside.

A class and a draft's content come in; a `Record` goes out, with values as columns have them in
Python and refs as text, or an error that names the field. The primary key is no field: it is
decided when the draft is saved. Pure.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    TextClause,
    func,
    inspect,
    literal,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Mapper, RelationshipDirection, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.errors import DraftContentError, SetupError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, LoadedAttributes, key_type_of, root_of
from alfred_refs.mapping.keys import EntityKey, Key, Ref, scrub
from alfred_refs.store import Address, DraftEntry, Store

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from alfred_refs.mapping.columns import Values


LONGEST = 256 * 1024
"""Bytes of JSON. A model that writes for an hour writes less, and a page of drafts must fit into
the memory of a process many times."""

DEEPEST = 50
"""Levels of objects and lists, far below those at which JSON libraries give up."""

_NAMED = 60  # characters of a field's name in an error


def to_text(content: Any) -> str:
    """Return content as JSON.

    Raises:
        DraftContentError: it is no JSON object, or too large.
    """
    if not isinstance(content, Mapping):
        raise DraftContentError(
            f"the content of a draft is of type {type(content).__name__}",
            "give an object: the names of fields, and their values",
        )
    plain = {_name(name): _plain(value, name, 2) for name, value in content.items()}
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise DraftContentError(
            "the content of a draft has an integer of thousands of digits", "give it as text"
        ) from None
    size = len(text.encode())
    if size > LONGEST:
        raise DraftContentError(
            f"the content of a draft has {size:,} bytes, and there is room for {LONGEST:,}",
            "make several drafts of it, or leave out what is no part of it",
        )
    return text


def _plain(value: Any, field: str, depth: int) -> Any:
    """Return a value of JSON's own types, all the way down."""
    if depth > DEEPEST:
        raise _invalid_content(
            field, f"values nested more than {DEEPEST} levels deep", "nest it less"
        )
    match value:
        case None | bool() | int():
            return value
        case str():
            return _text(value, field)
        case float():
            if not math.isfinite(value):
                raise _invalid_content(
                    field, "a number that is not finite", "give null in its place"
                )
            return value
        case Mapping():
            items = value.items()
            return {_name(name, field): _plain(each, field, depth + 1) for name, each in items}
        case list() | tuple():
            return [_plain(each, field, depth + 1) for each in value]
        case _:
            kind = type(value).__name__
            remedy = "give it as text, as its column takes it from a model, and a ref for a key"
            raise _invalid_content(field, f"a value of type {kind}, which JSON has not", remedy)


def _name(name: Any, field: str | None = None) -> str:
    if isinstance(name, str):
        return _text(name, name if field is None else field)
    raise DraftContentError(
        f"the content of a draft has a field whose name is of type {type(name).__name__}",
        "name fields by text",
    )


def _text(text: str, field: str) -> str:
    if "\0" in text:
        remedy = "take it out: no text of PostgreSQL can have one"
        raise _invalid_content(field, "a text with a NUL character", remedy)
    try:
        text.encode()
    except UnicodeEncodeError:
        remedy = "write the whole character"
        raise _invalid_content(field, "a text with half of a surrogate pair", remedy) from None
    return text


def _invalid_content(field: str, fact: str, remedy: str) -> DraftContentError:
    name = scrub(field[:_NAMED])
    return DraftContentError(f"field {name!r} of a draft has {fact}", remedy)


# what makes random UUIDs as Python does, without being asked
_RANDOM = ("gen_random_uuid()", "uuid_generate_v4()")

_identifiers = postgresql.dialect().identifier_preparer  # type: ignore[no-untyped-call]


def check_made(column: Column[Any], class_: type[Any]) -> None:
    """Check that the keys of a class's new rows can be decided before they are there.

    Raises:
        SetupError: they cannot.
    """
    if column.identity is not None and column.identity.always:
        raise SetupError(
            f"class {class_.__qualname__!r} cannot have drafts: its keys are GENERATED ALWAYS, "
            "and a draft's key is decided before its row is inserted",
            "make the column GENERATED BY DEFAULT: Identity(always=False)",
        )
    if _local(column) is None and _key_default(column) is None:
        raise SetupError(
            f"class {class_.__qualname__!r} cannot have drafts: nothing makes its keys",
            "give the primary key a default, or draft what its rows belong to, with them inside",
        )


def new_keys(
    connection: Connection, column: Column[Any], held: KeyColumn, count: int
) -> list[Key]:
    """Return keys for new rows, which no row has.

    Integers and texts are looked for in the table: a sequence may be behind rows that were
    inserted with numbers of their own.

    Args:
        connection: on which the rows will be inserted.
        column: their primary key.
        held: what it holds.
        count: how many.

    Raises:
        SetupError: the database makes none.
    """
    local = _local(column)
    if local is not None:
        return [local(held) for _ in range(count)]
    schemas = connection.get_execution_options().get("schema_translate_map") or {}
    schema = schemas.get(column.table.schema, column.table.schema)
    made_by: Any = _key_default(column, schema)
    asked = select(made_by).select_from(func.generate_series(1, literal(count)).table_valued("n"))
    keys: list[Key] = []
    while len(keys) < count:
        made = connection.scalars(asked).all()
        if None in made:
            raise SetupError(
                f"nothing makes the keys of {column.table} in the database",
                "give the primary key there the default that its column has in the mapping",
            )
        taken = set(connection.scalars(select(column).where(column.in_(made))))
        keys += [held.to_key(value) for value in made if value not in taken]
    return keys[:count]


def _local(column: Column[Any]) -> Callable[[KeyColumn], Key] | None:
    """Return what makes keys without the database."""
    default: Any = column.default
    if default is not None:
        # SQLAlchemy's wrapper gives the function a context, which it may ignore
        return (lambda held: held.to_key(default.arg(None))) if default.is_callable else None
    made = getattr(column.server_default, "arg", None)
    is_random = made is None or str(made).strip().lower() in _RANDOM
    if key_type_of(column.type) != "uuid" or not is_random or column.identity is not None:
        return None
    return lambda _: uuid.uuid4()


def _key_default(column: Column[Any], schema: str | None = None) -> ColumnElement[Any] | None:
    """Return what the database makes keys with, where the table is in that schema."""
    default: Any = column.default
    if default is not None and default.is_sequence:
        return default.next_value()  # type: ignore[no-any-return]
    if default is not None and default.is_clause_element:
        return default.arg  # type: ignore[no-any-return]
    made = getattr(column.server_default, "arg", None)
    if made is not None:
        is_text = isinstance(made, str | TextClause)
        return literal_column(str(made), column.type) if is_text else made
    if column.identity is not None or column is column.table.autoincrement_column:
        names = [name for name in (schema, column.table.name) if name is not None]
        table = ".".join(map(_identifiers.quote, names))
        return func.nextval(func.pg_get_serial_sequence(table, column.name), type_=column.type)
    return None


class Rows(Protocol):
    """Where the rows of drafts are looked for."""

    def committed(self, pairs: Iterable[EntityKey]) -> bool:
        """Tell whether rows of these keys, if they are found, are there for good."""
        ...

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """Return those of these keys that rows have."""
        ...


class StoredRows:
    """Looks for rows where the registry's own tables are, if the application's are there too.

    A random UUID that is found there is the draft's. An integer might be that of a row in a copy
    of the database, so only a session, which knows where its rows are, looks for those.

    Args:
        address: the conversation for which they are looked for.
        store: asks the database.
        entities: say which tables the rows are in.
    """

    def __init__(self, address: Address, store: Store, entities: Entities) -> None:
        self._address = address
        self._store = store
        self._entities = entities

    def committed(self, _: Iterable[EntityKey]) -> bool:
        """See `Rows.committed`: they are looked for in a transaction of their own."""
        return True

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """See `Rows.there`: one round trip for each entity."""
        found: list[EntityKey] = []
        for entity, keys in by_entity(pairs).items():
            column = self._entities.primary_of(entity)
            held = None if column is None else self._entities.of_column(column)
            if column is not None and held is not None and held.key_type == "uuid":
                values = [held.from_key(key) for key in keys]
                there = self._store.values_there(self._address, column, values)
                found += [(entity, held.to_key(value)) for value in there]
        return found


def by_entity(pairs: Iterable[EntityKey]) -> dict[str, list[Key]]:
    """Return keys by their entities."""
    found: dict[str, list[Key]] = {}
    for entity, key in pairs:
        found.setdefault(entity, []).append(key)
    return found


def reconcile_drafts(
    drafts: Mapping[Ref, DraftEntry], rows: Rows, store: Store, address: Address
) -> Mapping[Ref, DraftEntry]:
    """Return drafts as they are: those whose rows are there are saved, which is noted."""
    doubtful = {
        (ref.entity, draft.key): ref
        for ref, draft in drafts.items()
        if draft.state != "saved" and draft.key is not None
    }
    there = rows.there(doubtful) if doubtful else []
    found = [doubtful[pair] for pair in there]
    if found and rows.committed(there):
        store.confirm_drafts(address, found)
    # without the row's entry: only of one that the store calls saved is it remembered
    return {**drafts, **{ref: replace(drafts[ref], state="saved", row=None) for ref in found}}


@dataclass(frozen=True, slots=True)
class NewRow:
    """A new row as a draft has it.

    Attributes:
        model: the class that it is an instance of.
        values: by column attribute; refs are text.
        related: by relationship, new rows inside, and rows named by their refs. One that a
            foreign key alone leads to is named by that, among the values.
    """

    model: type[Any]
    values: dict[str, Any]
    related: dict[str, list[NewRow | str]] = field(default_factory=dict)

    def inside(self) -> Iterator[NewRow]:
        """Yield the new rows inside, at any depth."""
        for rows in self.related.values():
            for row in rows:
                if isinstance(row, NewRow):
                    yield row
                    yield from row.inside()

    def refs(self, entities: Entities) -> Iterator[tuple[str, str]]:
        """Yield the refs in it, each with the entity that is needed."""
        keys = entities.of_class(self.model).all
        for name, value in self.values.items():
            if name in keys:
                texts = value if isinstance(value, list) else [value]
                yield from ((text, keys[name].entity) for text in texts if text is not None)
        for name, rows in self.related.items():
            target = _mapper(self.model).relationships[name].mapper.class_
            for row in rows:
                if isinstance(row, NewRow):
                    yield from row.refs(entities)
                else:
                    yield row, entities.name_of(target)


def model_of(entity: type[Any] | Table | str, entities: Entities) -> type[Any] | None:
    """Return the class that drafts of an entity become instances of; `None` if none is mapped."""
    if isinstance(entity, type):
        return entity
    table = entities.names.found_table_of(entities.name_of(entity))
    mapper = None if table is None else sqla.mapper_of_table(table)
    return None if mapper is None else root_of(mapper).class_


def check_draftable(model: type[Any], entities: Entities) -> None:
    """Check that rows of a class have keys that can be decided before they are there.

    Raises:
        SetupError: they have not.
    """
    column = entities.primary_of(entities.name_of(model))
    if column is None or entities.of_class(model).own is None:
        raise SetupError(
            f"class {model.__qualname__!r} cannot have drafts: its rows have no key of their "
            "own that could be decided before they are there",
            "draft what they belong to, with them inside",
        )
    check_made(column, model)


def record_of(
    model: type[Any], content: Mapping[str, Any], entities: Entities, path: str = ""
) -> NewRow:
    """Return the row that content is of.

    Args:
        model: its class, or one that this inherits from.
        content: JSON values by field.
        entities: say which fields hold keys.
        path: of the field that it stands in, for messages.

    Raises:
        DraftContentError: there is no such field, or a value does not fit.
    """
    mapper = _mapper_said(_mapper(model), content)
    values = _fields(entities, mapper)
    record = NewRow(mapper.class_, {})
    for name, given in content.items():
        where = f"{path}{name}"
        if name in values:
            record.values[name] = _validate_value(values[name], given, where)
        elif name in mapper.relationships and not mapper.relationships[name].viewonly:
            relationship = mapper.relationships[name]
            rows = _related_rows(relationship, given, entities, where)
            foreign = _foreign_key(relationship, entities)
            if foreign is not None and rows and isinstance(rows[0], str):
                record.values[foreign] = rows[0]
            else:
                record.related[name] = rows
        else:
            raise _unknown(where, mapper, values)
    return record


def with_class(model: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content that says which class it is of, where the table has rows of several."""
    mapper = _mapper(model)
    name = _discriminator(mapper)
    if name is None or name in content or mapper.inherits is None:
        return dict(content)
    values = _values_of(mapper.column_attrs[name].columns[0].type)
    return {name: values.show(mapper.polymorphic_identity), **content}


def seen_by_labels(record: NewRow) -> dict[str, Any]:
    """Return a record as labels are made of it: values as of a row, and the new rows inside.

    Null in a column that needs a value is a value that is not there yet. Rows that are named by
    their refs are not loaded, and so is what relates to some.
    """
    mapper = _mapper(record.model)
    columns = ((each.key, each.columns[0]) for each in mapper.column_attrs)
    needed = {name for name, one in columns if isinstance(one, Column) and not one.nullable}
    seen = {n: each for n, each in record.values.items() if each is not None or n not in needed}
    for name, rows in record.related.items():
        inside = [each for each in rows if isinstance(each, NewRow)]
        if len(inside) == len(rows):
            made = [LoadedAttributes(_mapper(each.model), seen_by_labels(each)) for each in inside]
            is_list = mapper.relationships[name].uselist
            seen[name] = made if is_list else next(iter(made), None)
    return seen


def class_of(model: type[Any], content: Mapping[str, Any]) -> type[Any]:
    """Return the class that content is of, among all whose rows are of one entity.

    Raises:
        DraftContentError: it says that it is of a class that there is not.
    """
    said: type[Any] = _mapper_said(_mapper(model).base_mapper, content).class_
    return said


def said_class(model: type[Any], content: Mapping[str, Any]) -> type[Any] | None:
    """Return the class that content says it is of, below another; `None` if it does not say.

    Raises:
        DraftContentError: it says that it is of a class that there is not.
    """
    mapper = _mapper(model)
    name = _discriminator(mapper)
    said = None if name is None else content.get(name)
    return None if said is None else _mapper_said(mapper, content).class_


def no_such_class(model: type[Any]) -> DraftContentError:
    """Return the error for content that says it is of a class that there is not."""
    name = _discriminator(_mapper(model))
    return DraftContentError(
        f"field {name!r} names no class of {model.__name__!r}",
        "give the discriminator of one, or leave it out",
    )


def _mapper(model: type[Any]) -> Mapper[Any]:
    mapper: Mapper[Any] = inspect(model).mapper
    return mapper


def _discriminator(mapper: Mapper[Any]) -> str | None:
    """Return the attribute that tells the class of a row."""
    if not isinstance(mapper.polymorphic_on, Column):
        return None
    return mapper.get_property_by_column(mapper.polymorphic_on).key


def _mapper_said(mapper: Mapper[Any], content: Mapping[str, Any]) -> Mapper[Any]:
    """Return the mapper of the class that content says it is of."""
    name = _discriminator(mapper)
    if name is None or content.get(name) is None:
        return mapper
    values = _values_of(mapper.column_attrs[name].columns[0].type)
    said = mapper.polymorphic_map.get(_validate_value(values, content[name], name))
    if said is None or not said.isa(mapper):
        raise no_such_class(mapper.class_)
    return said


def _fields(entities: Entities, mapper: Mapper[Any]) -> Mapping[str, Values]:
    """Return what the column attributes take that a draft may give: read once a class."""
    kept = entities.kept_with(mapper.class_)
    if "fields" not in kept:
        keys = entities.of_class(mapper.class_)
        own = keys.primary if keys.own is not None else {}
        kept["fields"] = {
            attribute.key: _values_of(attribute.columns[0].type, keys.all.get(attribute.key))
            for attribute in mapper.column_attrs
            if attribute.key not in own and _is_given(attribute.columns[0], mapper)
        }
    return cast("Mapping[str, Values]", kept["fields"])


def _values_of(type_: TypeEngine[Any], key: KeyColumn | None = None) -> Values:
    from alfred_refs.mapping.columns import values_of  # noqa: PLC0415  # loads pydantic, for drafts alone

    return values_of(type_, key)


def _is_given(column: Any, mapper: Mapper[Any]) -> bool:
    """Tell whether a column's values are anybody's to give, and not made by the database."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    is_made = column.identity is not None and column.identity.always
    return not is_made and column is not mapper.version_id_col


def _validate_value(values: Values, given: Any, where: str) -> Any:
    from alfred_refs.mapping.columns import UnfitValueError  # noqa: PLC0415  # it is there: it made the values

    try:
        return values.accept_new(given)
    except UnfitValueError as error:
        raise DraftContentError(
            f"the value of field {_field_name(where)} of a draft does not fit",
            f"it takes {error.wanted}",
        ) from None


def _related_rows(
    relationship: RelationshipProperty[Any], given: Any, entities: Entities, where: str
) -> list[NewRow | str]:
    """Return the rows that a relationship has: a list of them, or one."""
    if bool(relationship.uselist) is not isinstance(given, list) and given is not None:
        wanted = "a list of objects" if relationship.uselist else "one object"
        raise DraftContentError(
            f"field {_field_name(where)} of a draft has related rows", f"give {wanted}, or refs"
        )
    rows = given if isinstance(given, list) else [] if given is None else [given]
    model = relationship.mapper.class_
    related: list[NewRow | str] = []
    for row in rows:
        if isinstance(row, str):
            related.append(row)
        elif isinstance(row, Mapping):
            related.append(record_of(model, row, entities, f"{where}."))
        else:
            raise DraftContentError(
                f"field {_field_name(where)} of a draft has something else than related rows",
                "give an object for a new one, or the ref of one that is there",
            )
    return related


def _foreign_key(relationship: RelationshipProperty[Any], entities: Entities) -> str | None:
    """Return the attribute whose ref alone says which row a many-to-one relationship leads to."""
    local = [*relationship.local_columns]
    if relationship.direction is not RelationshipDirection.MANYTOONE or len(local) > 1:
        return None
    mapper = relationship.parent
    name = mapper.get_property_by_column(local[0]).key
    return name if name in entities.of_class(mapper.class_).all else None


def _unknown(where: str, mapper: Mapper[Any], values: Mapping[str, Values]) -> DraftContentError:
    related = [each.key for each in mapper.relationships if not each.viewonly]
    usable = ", ".join(map(repr, [*values, *related]))
    return DraftContentError(
        f"{_field_name(where)} is no field of a draft of {mapper.class_.__name__!r}",
        f"use some of {usable}",
    )


def _field_name(where: str) -> str:
    return repr(scrub(where[:200]))
