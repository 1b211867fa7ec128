"""What a class may have drafts of, and what they may hold: values, and related rows inside.

A class and a draft's content come in; a `Record` goes out, with values as columns have them in
Python and refs as text, or an error that names the field. The primary key is no field: it is
decided when the draft is saved. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Column, Table, inspect
from sqlalchemy.orm import Mapper, RelationshipDirection, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.errors import DraftContentError, SetupError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.guard import scrub
from alfred_refs.mapping.labels import Loaded
from alfred_refs.mapping.naming import root_of

from .new_keys import check_made

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from alfred_refs.mapping.column_types import Values
    from alfred_refs.mapping.key_column import KeyColumn


@dataclass(frozen=True, slots=True)
class Record:
    """A new row as a draft has it.

    Attributes:
        model: the class that it is an instance of.
        values: by column attribute; refs are text.
        related: by relationship, new rows inside, and rows named by their refs. One that a
            foreign key alone leads to is named by that, among the values.
    """

    model: type[Any]
    values: dict[str, Any]
    related: dict[str, list[Record | str]] = field(default_factory=dict)

    def inside(self) -> Iterator[Record]:
        """Yield the new rows inside, at any depth."""
        for rows in self.related.values():
            for row in rows:
                if isinstance(row, Record):
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
                if isinstance(row, Record):
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
) -> Record:
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
    record = Record(mapper.class_, {})
    for name, given in content.items():
        where = f"{path}{name}"
        if name in values:
            record.values[name] = _accepted(values[name], given, where)
        elif name in mapper.relationships and not mapper.relationships[name].viewonly:
            relationship = mapper.relationships[name]
            rows = _related(relationship, given, entities, where)
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


def seen_by_labels(record: Record) -> dict[str, Any]:
    """Return a record as labels are made of it: values as of a row, and the new rows inside.

    Null in a column that needs a value is a value that is not there yet. Rows that are named by
    their refs are not loaded, and so is what relates to some.
    """
    mapper = _mapper(record.model)
    columns = ((each.key, each.columns[0]) for each in mapper.column_attrs)
    needed = {name for name, one in columns if isinstance(one, Column) and not one.nullable}
    seen = {n: each for n, each in record.values.items() if each is not None or n not in needed}
    for name, rows in record.related.items():
        inside = [each for each in rows if isinstance(each, Record)]
        if len(inside) == len(rows):
            made = [Loaded(_mapper(each.model), seen_by_labels(each)) for each in inside]
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
    said = mapper.polymorphic_map.get(_accepted(values, content[name], name))
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
    from alfred_refs.mapping.column_types import values_of  # noqa: PLC0415  # loads pydantic, for drafts alone

    return values_of(type_, key)


def _is_given(column: Any, mapper: Mapper[Any]) -> bool:
    """Tell whether a column's values are anybody's to give, and not made by the database."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    is_made = column.identity is not None and column.identity.always
    return not is_made and column is not mapper.version_id_col


def _accepted(values: Values, given: Any, where: str) -> Any:
    from alfred_refs.mapping.column_types import UnfitValueError  # noqa: PLC0415  # it is there: it made the values

    try:
        return values.accept_new(given)
    except UnfitValueError as error:
        raise DraftContentError(
            f"the value of field {_named(where)} of a draft does not fit",
            f"it takes {error.wanted}",
        ) from None


def _related(
    relationship: RelationshipProperty[Any], given: Any, entities: Entities, where: str
) -> list[Record | str]:
    """Return the rows that a relationship has: a list of them, or one."""
    if bool(relationship.uselist) is not isinstance(given, list) and given is not None:
        wanted = "a list of objects" if relationship.uselist else "one object"
        raise DraftContentError(
            f"field {_named(where)} of a draft has related rows", f"give {wanted}, or refs"
        )
    rows = given if isinstance(given, list) else [] if given is None else [given]
    model = relationship.mapper.class_
    related: list[Record | str] = []
    for row in rows:
        if isinstance(row, str):
            related.append(row)
        elif isinstance(row, Mapping):
            related.append(record_of(model, row, entities, f"{where}."))
        else:
            raise DraftContentError(
                f"field {_named(where)} of a draft has something else than related rows",
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
        f"{_named(where)} is no field of a draft of {mapper.class_.__name__!r}",
        f"use some of {usable}",
    )


def _named(where: str) -> str:
    return repr(scrub(where[:200]))
