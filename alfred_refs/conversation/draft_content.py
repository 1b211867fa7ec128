"""The content of drafts: JSON that a model wrote, checked against a mapped class.

Content passes two checks:

1. `to_text`, for any entity: it is a JSON object within limits of size and depth. The text is what
   the registry stores, and `json.loads` reads it back without loss.
2. `parse_content`, for an entity with a mapped class: each field is a column attribute or a
   relationship of the class, and each value fits its column. The result is a `NewRow`: Python
   values as columns take them, refs as text, and related new rows as nested `NewRow`s.

>>> to_text({"name": "Soup", "servings": 2})
'{"name":"Soup","servings":2}'
>>> from alfred_refs import RefPolicy
>>> entities = Entities(RefPolicy())
>>> row = parse_content(Recipe, {"name": "Soup", "lines": [{"text": "leek"}]}, entities)
>>> row.values
{'name': 'Soup'}
>>> [line.values for line in row.related["lines"]]
[{'text': 'leek'}]
>>> parse_content(Recipe, {"nmae": "Soup"}, entities)
Traceback (most recent call last):
    ...
alfred_refs.errors.DraftContentError: 'nmae' is not a field of a draft of 'Recipe'; use one of ...

In a polymorphic hierarchy, the discriminator column is a field like any other: it decides the
class of the `NewRow`.

Limits:

- Content is never changed to make it fit: it is accepted as it is, or `DraftContentError` names
  the field. No error repeats a value.
- The primary key is not a field: it is decided when the draft is saved (`draft_rows`).
- Whether the refs in it exist is not checked here, and required columns may be missing: a draft
  may be incomplete until it is saved.
- Nothing here does I/O.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Column, Table, inspect
from sqlalchemy.orm import Mapper, RelationshipDirection, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.errors import DraftContentError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.labels import LoadedAttributes
from alfred_refs.mapping.text import redact_keys

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from alfred_refs.mapping.columns import Values

# JSON

MAX_BYTES = 256 * 1024
"""Bytes of JSON. A model that writes for an hour writes less, and a page of drafts must fit into
the memory of a process many times."""

MAX_DEPTH = 50
"""Levels of objects and lists: far fewer than those that JSON libraries can read."""

_MAX_NAME = 60  # characters of a field's name in an error
_MAX_PATH = 200  # characters of the path to a field in an error


def to_text(content: Any) -> str:
    """Return content as JSON text.

    Raises:
        DraftContentError: it is not a JSON object, or it is too large.
    """
    if not isinstance(content, Mapping):
        raise DraftContentError(
            f"the content of a draft is of type {type(content).__name__}",
            "give an object: the names of fields, and their values",
        )
    plain = {_plain_name(name): _plain(value, name, 2) for name, value in content.items()}
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # of `sys.set_int_max_str_digits`
        raise DraftContentError(
            "the content of a draft has an integer of thousands of digits", "give it as text"
        ) from None
    size = len(text.encode())
    if size > MAX_BYTES:
        raise DraftContentError(
            f"the content of a draft has {size:,} bytes, and the limit is {MAX_BYTES:,}",
            "split it into several drafts, or leave out what does not belong to it",
        )
    return text


def _plain(value: Any, field: str, depth: int) -> Any:
    """Return a value as JSON's own types, at all levels."""
    if depth > MAX_DEPTH:
        raise _invalid_content(
            field, f"values nested more than {MAX_DEPTH} levels deep", "nest it less"
        )
    match value:
        case None | bool() | int():
            return value
        case str():
            return _plain_text(value, field)
        case float():
            if not math.isfinite(value):
                raise _invalid_content(
                    field, "a number that is not finite", "give null in its place"
                )
            return value
        case Mapping():
            return {
                _plain_name(name, field): _plain(each, field, depth + 1)
                for name, each in value.items()
            }
        case list() | tuple():
            return [_plain(each, field, depth + 1) for each in value]
        case _:
            type_ = type(value).__name__
            remedy = "give it as text, as its column takes it from a model, and a ref for a key"
            raise _invalid_content(field, f"a value of type {type_}, which is not JSON", remedy)


def _plain_name(name: Any, field: str | None = None) -> str:
    if isinstance(name, str):
        return _plain_text(name, name if field is None else field)
    raise DraftContentError(
        f"the content of a draft has a field whose name is of type {type(name).__name__}",
        "name fields by text",
    )


def _plain_text(text: str, field: str) -> str:
    if "\0" in text:
        remedy = "remove it: PostgreSQL cannot store it in text"
        raise _invalid_content(field, "a text with a NUL character", remedy)
    try:
        text.encode()
    except UnicodeEncodeError:
        remedy = "write the whole character"
        raise _invalid_content(field, "a text with half of a surrogate pair", remedy) from None
    return text


def _invalid_content(field: str, fact: str, remedy: str) -> DraftContentError:
    name = redact_keys(field[:_MAX_NAME])
    return DraftContentError(f"field {name!r} of a draft has {fact}", remedy)


# Rows of a mapped class


@dataclass(frozen=True, slots=True)
class NewRow:
    """A new row, as the content of a draft or of a tool call describes it.

    Attributes:
        model: the class that it becomes an instance of.
        values: by column attribute; refs are text.
        related: by relationship, nested new rows, and existing rows by their refs. A many-to-one
            relationship with a foreign key of one column is in `values` instead, as that column.
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
    table = entities.names.find_table_of(entities.name_of(entity))
    mapper = None if table is None else sqla.mapper_of_table(table)
    return None if mapper is None else sqla.root_of(mapper).class_


def parse_content(
    model: type[Any], content: Mapping[str, Any], entities: Entities, path: str = ""
) -> NewRow:
    """Return the row that content describes.

    Args:
        model: its class, or a base of that.
        content: JSON values by field.
        entities: the key columns of classes.
        path: the path to this content inside other content, for errors: `"lines."`.

    Raises:
        DraftContentError: the class does not have a field, or a value does not fit.
    """
    mapper = _mapper_of_content(_mapper(model), content)
    values = _fields(entities, mapper)
    row = NewRow(mapper.class_, {})
    for name, given in content.items():
        where = f"{path}{name}"
        if name in values:
            row.values[name] = _valid_value(values[name], given, where)
        elif name in mapper.relationships and not mapper.relationships[name].viewonly:
            relationship = mapper.relationships[name]
            rows = _related_rows(relationship, given, entities, where)
            foreign_key = _foreign_key(relationship, entities)
            if foreign_key is not None and rows and isinstance(rows[0], str):
                row.values[foreign_key] = rows[0]
            else:
                row.related[name] = rows
        else:
            related = [each.key for each in mapper.relationships if not each.viewonly]
            usable = ", ".join(map(repr, [*values, *related]))
            raise DraftContentError(
                f"{_shown_path(where)} is not a field of a draft of {mapper.class_.__name__!r}",
                f"use one of {usable}",
            )
    return row


def _fields(entities: Entities, mapper: Mapper[Any]) -> Mapping[str, Values]:
    """Return the column attributes that a draft may set, with their values; cached by class."""
    cache = sqla.class_cache(mapper.class_, entities)
    if "fields" not in cache:
        keys = entities.of_class(mapper.class_)
        own = keys.primary if keys.own_entity is not None else {}
        cache["fields"] = {
            attribute.key: _values_of(attribute.columns[0].type, keys.all.get(attribute.key))
            for attribute in keys.attributes.values()
            if attribute.key not in own and _is_settable(attribute.columns[0], mapper)
        }
    return cast("Mapping[str, Values]", cache["fields"])


def _is_settable(column: Any, mapper: Mapper[Any]) -> bool:
    """Return whether the application sets a column, and not the database or the ORM."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    is_generated = column.identity is not None and column.identity.always
    return not is_generated and column is not mapper.version_id_col


def _values_of(type_: TypeEngine[Any], key: KeyColumn | None = None) -> Values:
    from alfred_refs.mapping.columns import values_of  # noqa: PLC0415  # loads pydantic, which only drafts need

    return values_of(type_, key)


def _valid_value(values: Values, given: Any, where: str) -> Any:
    from alfred_refs.mapping.columns import UnfitValueError  # noqa: PLC0415  # as in `_values_of`

    try:
        return values.accept_new(given)
    except UnfitValueError as error:
        raise DraftContentError(
            f"the value of field {_shown_path(where)} of a draft does not fit",
            f"it takes {error.expected}",
        ) from None


def _related_rows(
    relationship: RelationshipProperty[Any], given: Any, entities: Entities, where: str
) -> list[NewRow | str]:
    """Return the rows that content gives for a relationship, to one row or to many."""
    if bool(relationship.uselist) is not isinstance(given, list) and given is not None:
        expected = "a list of objects" if relationship.uselist else "one object"
        raise DraftContentError(
            f"field {_shown_path(where)} of a draft has related rows", f"give {expected}, or refs"
        )
    rows = given if isinstance(given, list) else [] if given is None else [given]
    model = relationship.mapper.class_
    related: list[NewRow | str] = []
    for row in rows:
        if isinstance(row, str):
            related.append(row)
        elif isinstance(row, Mapping):
            related.append(parse_content(model, row, entities, f"{where}."))
        else:
            raise DraftContentError(
                f"field {_shown_path(where)} of a draft has a value that is not a related row",
                "give an object for a new row, or the ref of an existing one",
            )
    return related


def _foreign_key(relationship: RelationshipProperty[Any], entities: Entities) -> str | None:
    """Return the attribute of a many-to-one relationship's key, if it has one column."""
    local = [*relationship.local_columns]
    if relationship.direction is not RelationshipDirection.MANYTOONE or len(local) > 1:
        return None
    mapper = relationship.parent
    name = mapper.get_property_by_column(local[0]).key
    return name if name in entities.of_class(mapper.class_).all else None


def _shown_path(where: str) -> str:
    return repr(redact_keys(where[:_MAX_PATH]))


def label_attributes(row: NewRow) -> dict[str, Any]:
    """Return the attributes of a row from which its label is made, nested new rows included.

    A null in a NOT NULL column is left out: the value is not there yet. Existing rows that are
    related by their refs are not loaded, so a relationship to one is left out too.
    """
    mapper = _mapper(row.model)
    columns = ((each.key, each.columns[0]) for each in mapper.column_attrs)
    required = {name for name, one in columns if isinstance(one, Column) and not one.nullable}
    attributes = {
        name: value
        for name, value in row.values.items()
        if value is not None or name not in required
    }
    for name, rows in row.related.items():
        new = [each for each in rows if isinstance(each, NewRow)]
        if len(new) == len(rows):
            loaded = [
                LoadedAttributes(_mapper(each.model), label_attributes(each)) for each in new
            ]
            is_list = mapper.relationships[name].uselist
            attributes[name] = loaded if is_list else next(iter(loaded), None)
    return attributes


# Polymorphic classes


def with_discriminator(model: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content with the discriminator of a subclass, unless it has one already."""
    mapper = _mapper(model)
    name = _discriminator(mapper)
    if name is None or name in content or mapper.inherits is None:
        return dict(content)
    values = _values_of(mapper.column_attrs[name].columns[0].type)
    return {name: values.show(mapper.polymorphic_identity), **content}


def class_of(model: type[Any], content: Mapping[str, Any]) -> type[Any]:
    """Return the class of content: of all classes of the hierarchy of `model`.

    Raises:
        DraftContentError: its discriminator is of no class.
    """
    class_: type[Any] = _mapper_of_content(sqla.root_of(_mapper(model)), content).class_
    return class_


def explicit_class(model: type[Any], content: Mapping[str, Any]) -> type[Any] | None:
    """Return the subclass that the discriminator in content names; `None` without one.

    Raises:
        DraftContentError: its discriminator is of no class below `model`.
    """
    mapper = _mapper(model)
    name = _discriminator(mapper)
    value = None if name is None else content.get(name)
    return None if value is None else _mapper_of_content(mapper, content).class_


def unknown_class_error(model: type[Any]) -> DraftContentError:
    """Return the error for content with a discriminator that is of no class."""
    name = _discriminator(_mapper(model))
    return DraftContentError(
        f"field {name!r} names no class of {model.__name__!r}",
        "give the discriminator of one, or leave it out",
    )


def _mapper(model: type[Any]) -> Mapper[Any]:
    mapper: Mapper[Any] = inspect(model).mapper
    return mapper


def _discriminator(mapper: Mapper[Any]) -> str | None:
    """Return the attribute of the column that a mapper is polymorphic on."""
    if not isinstance(mapper.polymorphic_on, Column):
        return None
    return mapper.get_property_by_column(mapper.polymorphic_on).key


def _mapper_of_content(mapper: Mapper[Any], content: Mapping[str, Any]) -> Mapper[Any]:
    """Return the mapper of the class that the discriminator in content names, or `mapper`."""
    name = _discriminator(mapper)
    if name is None or content.get(name) is None:
        return mapper
    values = _values_of(mapper.column_attrs[name].columns[0].type)
    of_content = mapper.polymorphic_map.get(_valid_value(values, content[name], name))
    if of_content is None or not of_content.isa(mapper):
        raise unknown_class_error(mapper.class_)
    return of_content
