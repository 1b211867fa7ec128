"""The catalog of a toolset: its tables, read from the mapping.

`ToolTables` has a `ToolTable` (`tables`) for each listed class and for each association table with
two listed ends. They are read once, when a toolset is made. A hidden or unlisted table or column
is refused with the same message as a missing one.

>>> [table.name for table in toolset.tables]
['recipes', 'lines']
>>> toolset.tables.by_name("users")
Traceback (most recent call last):
    ...
alfred_refs.tools.errors.ToolError: there is no table 'users'; use one of 'recipes', 'lines'
>>> toolset.tables.of_entity("line").name
'lines'

`permissions_of` reads the application's restrictions: verbs by class, and read-only attributes. If
a reference is read-only, so are its foreign key columns and the other relationships that write the
same secondary table.

Limits: rows whose primary key has lists, documents or values of the application's own classes
cannot be listed, nor can rows that are read from a union of tables and may be changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from sqlalchemy import Column, Table, inspect
from sqlalchemy.orm import MANYTOONE, ColumnProperty, Mapper
from sqlalchemy.sql.selectable import AliasedReturnsRows

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping import (
    ClassKeys,
    Entities,
    is_key_part,
    python_type_of,
    undecorated_type,
)
from alfred_refs.mapping.columns import values_of
from alfred_refs.owners import Ownership
from alfred_refs.session import check_init, refuse_pydantic_without_mixin
from alfred_refs.tools.errors import unknown_table
from alfred_refs.tools.serialization import places_in
from alfred_refs.tools.tables import (
    VERBS,
    Attributes,
    LinkEnd,
    ToolColumn,
    ToolTable,
    Verb,
    attribute_of,
    is_listed,
)


def permissions_of(
    models: Collection[type[Any]],
    read_only: Iterable[Any],
    verbs: Mapping[type[Any], Iterable[Verb]],
) -> tuple[Mapping[type[Any], frozenset[Verb]], Attributes]:
    """Return the verbs that a model may use on each class, and the read-only attributes.

    Args:
        models: the classes that it may use.
        read_only: classes and attributes that it may only read.
        verbs: the verbs by class.

    Returns:
        the verbs by class, for restricted classes, and the attributes that are not writable.

    Raises:
        SetupError: an entry does not belong to the models, or a class is restricted in two ways.
    """
    listed = list(read_only)
    classes = [each for each in listed if isinstance(each, type)]
    for said, given in (("read_only", classes), ("verbs", verbs)):
        for other in given:
            if other not in models:
                raise SetupError(
                    f"{said} lists {other!r}, which is not among the models", "add it to models"
                )
    permitted = {model: _check_verbs(model, each) for model, each in verbs.items()}
    for model in classes:
        if permitted.setdefault(model, frozenset()):
            raise SetupError(
                f"class {model.__qualname__!r} is in read_only, and verbs gives it some",
                "say it in one of the two",
            )
    attributes = [attribute_of(e, "read_only") for e in listed if not isinstance(e, type)]
    for mapper, name in attributes:
        if not any(inspect(model).mapper.isa(mapper) for model in models):
            raise SetupError(
                f"read_only lists {name!r} of {mapper.class_.__qualname__!r}, which is not among "
                "the models",
                "add it to models",
            )
    return permitted, {each for one in attributes for each in _with_foreign_keys(*one)}


def sharing_secondary(mapper: Mapper[Any], name: str) -> Iterator[tuple[Mapper[Any], str]]:
    """Yield the relationships that share a relationship's secondary table."""
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.secondary is not None:
        for other in mapper.registry.mappers:
            for each in other.relationships:
                if each.secondary is relationship.secondary:
                    yield other, each.key


def _check_verbs(model: type[Any], values: Iterable[Verb]) -> frozenset[Verb]:
    verbs = frozenset(values)
    if isinstance(values, str) or not verbs <= {*VERBS}:
        raise SetupError(
            f"verbs gives {values!r} to {model.__qualname__!r}",
            f"give a list of some of {', '.join(map(repr, VERBS))}",
        )
    return verbs


def _with_foreign_keys(mapper: Mapper[Any], name: str) -> Iterable[tuple[Mapper[Any], str]]:
    """Yield an attribute and the others that write the same values.

    For a many-to-one relationship these are its foreign key columns; for one with a secondary
    table, all relationships with that table.
    """
    yield mapper, name
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.direction is MANYTOONE:
        for column in relationship.local_columns:
            yield mapper, mapper.get_property_by_column(column).key
    yield from sharing_secondary(mapper, name)


class ToolTables:
    """The tables of one toolset, by name.

    Args:
        models: mapped classes, or a mapping of names to classes.
        entities: the keys of the application's classes.
        read_only: classes and attributes that a model may only read.
        verbs: the verbs that a model may use, by class; all by default.
        hidden: mapped attributes that a model never sees.
        ownership: the owners of rows; their attributes are hidden too.
        watched: classes with read hooks. Association tables with such an end are left out, because
            their rows would show hidden rows.

    Attributes:
        has_documents: whether a table has a column of JSON.
        has_key_numbers: whether integers in documents are keys.

    Raises:
        SetupError: two classes have the same name, an entry is not a class or attribute of the
            models, or the ownership does not know a class.
    """

    def __init__(
        self,
        models: Iterable[type[Any]] | Mapping[str, type[Any]],
        entities: Entities,
        *,
        read_only: Iterable[Any] = (),
        verbs: Mapping[type[Any], Iterable[Verb]] | None = None,
        hidden: Iterable[Any] = (),
        ownership: Ownership | None = None,
        watched: Collection[type[Any]] = (),
    ) -> None:
        self._tables: dict[str, ToolTable] = {}
        self._of_tables: dict[Table, ToolTable | None] = {}
        pairs = _models_by_name(models)
        hidden_names = {attribute_of(each, "hidden") for each in hidden}
        permissions, fixed = permissions_of([model for _, model in pairs], read_only, verbs or {})
        fixed.update(other for each in hidden_names for other in sharing_secondary(*each))
        if ownership is not None:
            hidden_names |= _owner_attributes([model for _, model in pairs], entities, ownership)
        refused: list[SetupError] = []
        for name, model in pairs:
            if name in self._tables:
                raise SetupError(
                    f"classes {self._tables[name].model.__qualname__!r} and "
                    f"{model.__qualname__!r} are both table {name!r} to a model",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            try:
                self._tables[name] = _table(
                    name,
                    model,
                    entities,
                    verbs=permissions.get(model, frozenset(VERBS)),
                    fixed=fixed,
                    hidden=hidden_names,
                )
            except SetupError as error:
                refused.append(error)
        _raise_all([*refused, *_ambiguous_refs(self._tables.values())])
        self._by_model = {table.model: table for table in self._tables.values()}
        for table in self._tables.values():
            _check_lockable(table)
            self._connect(table, hidden_names)
        columns = [column for table in self for column in table.columns.values()]
        self.has_documents = any(column.values.family == "json" for column in columns)
        self.has_key_numbers = any(column.places for column in columns)
        for table in _association_tables(self, entities, ownership, watched):
            if table.name in self._tables:
                raise SetupError(
                    f"the association table {table.name!r} has the name of "
                    f"{self._tables[table.name].model.__qualname__!r}",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            self._tables[table.name] = self._by_model[table.model] = table
            for of, name in (each for end in table.ends for each in end.names):
                of.links[name] = table

    def __iter__(self) -> Any:
        return iter(self._tables.values())

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return list(self._tables)

    @property
    def entities(self) -> set[str]:
        """The entities whose refs only name rows of listed classes.

        If the base class of a hierarchy is not listed, a ref of its entity may name a row of any
        class.
        """
        roots = ((each, sqla.root_of(inspect(each.model).mapper).class_) for each in self)
        return {each.entity for each, root in roots if root in self._by_model and each.entity}

    def without_hidden(self, value: Any, table: ToolTable | None = None) -> Any:
        """Remove hidden attributes from JSON, such as an answer of another toolset.

        Args:
            value: JSON that may contain answers or arguments of tools: objects that name a table.
            table: the table of the rows, if known.
        """
        if isinstance(value, list | tuple):
            return [self.without_hidden(each, table) for each in value]
        if not isinstance(value, Mapping):
            return value
        # items of a list, by position
        if table is not None and all(str(each).isdigit() for each in value):
            return {place: self.without_hidden(each, table) for place, each in value.items()}
        if table is not None:
            return {
                name: self.without_hidden(each, table.targets.get(name))
                for name, each in value.items()
                if _COLUMN.sub(r"\1", str(name)) not in table.hidden
            }
        named, list_name = value.get("table"), str(value.get("list")).partition(".")[0]
        table = self._tables.get(named) if isinstance(named, str) else None
        within: dict[str, ToolTable | None] = dict.fromkeys(_ROWS, table)
        if table is not None:
            within["items"] = table.targets.get(list_name)
        return {
            name: self.without_hidden(each, within.get(name))
            for name, each in value.items()
            if not (name == "items" and table is not None and list_name in table.hidden)
        }

    @cached_property
    def shown(self) -> frozenset[str]:
        """The entities whose refs a model may see: of listed classes, or of keys in columns."""
        columns = [column for table in self for column in table.columns.values()]
        keys = {column.key.entity for column in columns if column.key is not None}
        places = {entity for column in columns for entity in column.places.values()}
        return frozenset({table.entity for table in self if table.entity} | keys | places)

    def by_name(self, name: str, verb: Verb | None = None) -> ToolTable:
        """Return a table, and check that a verb may be used on it.

        Raises:
            ToolError: the table does not exist, or the verb is not allowed.
        """
        table = self._tables.get(name)
        if table is None:
            raise unknown_table(name, self.names)
        if verb is not None:
            table.check(verb)
        return table

    def of_model(self, model: type[Any]) -> ToolTable | None:
        """Return the table of a class, or of the nearest class it inherits from.

        The rows of a concrete subclass are not rows of its base.
        """
        for class_ in model.__mro__:
            if class_ in self._by_model:
                return self._by_model[class_]
            mapper: Mapper[Any] | None = inspect(class_, raiseerr=False)
            if mapper is not None and mapper.concrete:
                break
        return None

    def of_table(self, table: Table) -> ToolTable | None:
        """Return the tool table for a table of the database.

        A table of an unlisted base class has the tool table of the first listed subclass.
        """
        if table not in self._of_tables:
            mapped = {inspect(each.model).local_table: each for each in self}
            mapper = None if table in mapped else sqla.mapper_of_table(table)
            found = None if mapper is None else self.of_model(mapper.class_)
            below = (each for each in self if table in inspect(each.model).mapper.tables)
            self._of_tables[table] = mapped.get(table, found or next(below, None))
        return self._of_tables[table]

    @cached_property
    def database_tables(self) -> Mapping[str, Table]:
        """The database tables of the application, by name with schema."""
        tables = [table for each in self for table in inspect(each.model).mapper.tables]
        metadata = {id(t.metadata): t.metadata for t in tables if isinstance(t, Table)}
        return {t.fullname: t for each in metadata.values() for t in each.tables.values()}

    def of_entity(self, entity: str) -> ToolTable | None:
        """Return the table of an entity."""
        return next((table for table in self if table.entity == entity), None)

    def _connect(self, table: ToolTable, hidden: Attributes) -> None:
        """Fill in the target tables of a table's relationships, and its subclasses' tables."""
        mapper: Mapper[Any] = inspect(table.model).mapper
        listed_tables = {inspect(each.model).local_table for each in self}
        for relationship in mapper.relationships:
            target = self.of_model(relationship.mapper.class_)
            if target is not None and not is_listed(mapper, relationship.key, hidden):
                table.targets[relationship.key] = target
            if (
                relationship.secondary in listed_tables
            ):  # a listed secondary table is written directly
                table.fixed.add(relationship.key)
        for each in mapper.self_and_descendants:
            if each.class_ in self._by_model and sqla.is_kind_of(each, mapper):
                table.kinds[each.class_] = self._by_model[each.class_]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a relationship with a secondary table.

    Attributes:
        table: the table of the rows at that side.
        name: the relationship, if the class at that side has it.
        columns: columns of the secondary table -> the referenced columns.
        is_writable: whether the model may change the relationship.
    """

    table: ToolTable
    name: str | None
    columns: Mapping[Any, Any]
    is_writable: bool


def _is_related(one: type[Any], other: type[Any]) -> bool:
    """Return whether two classes are equal, or one inherits from the other."""
    return issubclass(one, other) or issubclass(other, one)


_ENDS = 2


def _sides(table: ToolTable, name: str) -> Iterator[_Side]:
    relationship = table.relationship(name)
    is_writable = "update" in table.verbs and name not in table.fixed
    near = {there: here for here, there in relationship.synchronize_pairs}
    far = {there: here for here, there in relationship.secondary_synchronize_pairs or ()}
    yield _Side(table, name, near, is_writable)
    yield _Side(table.targets[name], None, far, is_writable=False)


def _association_tables(
    tables: ToolTables,
    entities: Entities,
    ownership: Ownership | None,
    watched: Collection[type[Any]],
) -> list[ToolTable]:
    """Return the tables of many-to-many relationships between listed classes.

    A table with a mapped class is left out, because the application may list the class. So is a
    table that a session with an owner cannot read.
    """
    sides: dict[Table, dict[frozenset[Any], list[_Side]]] = {}
    for table in tables:
        for name in table.targets:
            relationship = table.relationship(name)
            secondary = relationship.secondary
            if isinstance(secondary, Table) and not relationship.viewonly:
                for side in _sides(table, name):
                    of_table = sides.setdefault(secondary, {})
                    of_table.setdefault(frozenset(side.columns), []).append(side)
    found = []
    for secondary, of_table in sides.items():
        every = [side for same in of_table.values() for side in same]
        is_offered = (
            len(of_table) == _ENDS  # otherwise several relationships share parts of the table
            and sqla.mapper_of_table(secondary) is None
            and (ownership is None or ownership.knows_table(secondary))
            and not any(_is_related(side.table.model, each) for side in every for each in watched)
            and all(entities.of_column(column) for side in every for column in side.columns)
        )
        if is_offered:
            found.append(_association_table(secondary, [*of_table.values()], entities))
    return found


def _association_table(
    secondary: Table, sides: Sequence[Sequence[_Side]], entities: Entities
) -> ToolTable:
    key = [column for same in sides for column in same[0].columns]
    model = sqla.association_class(secondary, key)
    is_writable = any(side.is_writable for same in sides for side in same)
    verbs: frozenset[Verb] = frozenset({"create", "delete"} if is_writable else ())
    table = _table(str(secondary.name), model, entities, verbs=verbs, fixed=set(), hidden=set())
    ends = tuple(_end(same, inspect(model).mapper) for same in sides)
    return replace(table, ends=ends)


def _end(sides: Sequence[_Side], mapper: Mapper[Any]) -> LinkEnd:
    """Return the end of links that several relationships share."""
    # the base class, if subclasses have such relationships too
    side = min(sides, key=lambda each: len([*inspect(each.table.model).mapper.iterate_to_root()]))
    here = sqla.attributes_of(mapper, side.columns)
    there = sqla.attributes_of(inspect(side.table.model).mapper, side.columns.values())
    return LinkEnd(
        side.table,
        {here[column]: there[other] for column, other in side.columns.items()},
        tuple((each.table, each.name) for each in sides if each.name is not None),
        any(each.is_writable for each in sides),
    )


def _raise_all(errors: Sequence[SetupError]) -> None:
    """Raise the errors of several classes as one error.

    Raises:
        SetupError: `errors` is not empty; a single error is raised unchanged.
    """
    texts = dict.fromkeys(map(str, errors))  # a duplicate name is an error of both classes
    if len(texts) == 1:
        raise errors[0]
    if errors:
        lines = "".join(f"\n- {text}" for text in texts)
        raise SetupError(f"{len(texts)} classes cannot be used:{lines}\n", "correct each")


def _models_by_name(
    models: Iterable[type[Any]] | Mapping[str, type[Any]],
) -> list[tuple[str, type[Any]]]:
    pairs = []
    for name, model in (
        models.items() if isinstance(models, Mapping) else ((None, each) for each in models)
    ):
        mapper: Any = inspect(model, raiseerr=False)
        if not isinstance(mapper, Mapper):
            raise SetupError(f"models lists {model!r}, which is not mapped", "give mapped classes")
        of_table = getattr(mapper.local_table, "name", None)
        if not (name or of_table):
            raise SetupError(
                f"class {model.__qualname__!r} is mapped to a join, which has no name",
                "name it: Toolset(models={'name': Class, ...})",
            )
        pairs.append((name or str(of_table), model))
    return pairs


def _ambiguous_refs(tables: Iterable[ToolTable]) -> Iterator[SetupError]:
    """Yield an error for each class with refs that do not name the table of a row."""
    by_entity: dict[str, list[Mapper[Any]]] = {}
    for table in tables:
        mapper = inspect(table.model).mapper
        is_union = isinstance(mapper.selectable, AliasedReturnsRows) and any(
            each.concrete for each in mapper.self_and_descendants if each is not mapper
        )
        if is_union:
            yield SetupError(
                f"rows of {table.model.__qualname__!r} are read from the tables of its "
                "subclasses too, where other rows have the same keys",
                "list the subclasses instead",
            )
        else:
            by_entity.setdefault(table.entity, []).append(sqla.root_of(mapper))
    for entity, mappers in by_entity.items():
        others = [each for each in mappers if isinstance(each.local_table, Table)]
        for mapper in dict.fromkeys(mappers):
            if entity and others and mapper not in others:
                yield SetupError(
                    f"class {mapper.class_.__qualname__!r} is mapped to a join or a SELECT and "
                    f"shares refs such as '{entity}_1' with {others[0].class_.__qualname__!r}, so "
                    "that a ref does not name the table of its row",
                    "list one of them, or create a view and map it as a Table of its own",
                )


def _owner_attributes(
    models: Iterable[type[Any]], entities: Entities, ownership: Ownership
) -> set[tuple[Mapper[Any], str]]:
    """Return the attributes that contain the owner, except keys that name the rows."""
    attributes = set()
    for model in models:
        if not ownership.knows(model):
            raise SetupError(
                f"class {model.__qualname__!r} is in the toolset and unknown to its owner's rules",
                "say in the Ownership how its rows are owned, or list it in open=",
            )
        name = ownership.attribute(model)
        keys = entities.of_class(model)
        if name is not None and (name not in keys.primary or keys.own_entity is None):
            attributes.add((inspect(model).mapper, name))
    return attributes


def _check_lockable(table: ToolTable) -> None:
    """Check that rows that may be changed can be locked, unlike rows of a UNION.

    Raises:
        SetupError: they cannot.
    """
    changing = table.verbs & {"update", "delete"}
    if changing and isinstance(inspect(table.model).mapper.selectable, AliasedReturnsRows):
        raise SetupError(
            f"rows of {table.model.__qualname__!r} are read from several tables together, and "
            "cannot be locked to be changed",
            "map its base by AbstractConcreteBase, or let a model read and create such rows "
            "only: verbs={...: ['create']}",
        )


def _check_identity(mapper: Mapper[Any]) -> None:
    """Check that refs can name the rows of a class, by the types of its primary key.

    Raises:
        SetupError: they cannot.
    """
    for column in mapper.primary_key:
        kind = python_type_of(undecorated_type(column.type))
        if kind is None:  # the type does not declare one
            continue
        if not is_key_part(kind):
            raise SetupError(
                f"rows of {mapper.class_.__qualname__!r} are told apart by {column.key!r}, a "
                f"{kind.__name__}, by which refs cannot name rows",
                "leave the class out of models, or map it by another primary key",
            )


def _table(
    name: str,
    model: type[Any],
    entities: Entities,
    *,
    verbs: frozenset[Verb],
    fixed: Attributes,
    hidden: Attributes,
) -> ToolTable:
    mapper: Mapper[Any] = inspect(model).mapper
    _check_identity(mapper)
    if "create" in verbs and not sqla.is_association(mapper):
        check_init(model)
    keys = entities.of_class(model)
    refuse_pydantic_without_mixin(model, keys.all)
    identity = tuple(mapper.get_property_by_column(column).key for column in mapper.primary_key)
    repeated = {n: c for n, c in _inherited_attributes(mapper).items() if n not in identity}
    attributes = sorted(keys.attributes.values(), key=lambda each: each.key not in identity)
    parts = _own_parts(mapper, keys, repeated)
    hidden = {*hidden, *((mapper, name) for name in parts)}
    columns = {
        attribute.key: _column(
            attribute,
            mapper,
            entities,
            is_identity=attribute.key in identity,
            is_repeated=attribute.key in repeated,
            is_fixed=is_listed(mapper, attribute.key, fixed),
        )
        for attribute in attributes
        if not is_listed(mapper, attribute.key, hidden)
    }
    for each in mapper.self_and_descendants:
        if sqla.is_kind_of(each, mapper):
            _check_label(each, entities, hidden)
    named_by = set() if keys.label is None else keys.label.attributes(mapper)
    related = named_by & {*mapper.relationships.keys()}
    if related:
        raise SetupError(
            f"the label of {model.__qualname__!r} reads the relationship {min(related)!r}, and "
            "tools read only the columns of a row for its label",
            "read a column_property(select(...).scalar_subquery()) in place of it",
        )
    return ToolTable(
        name,
        model,
        keys,
        columns,
        identity,
        "" if sqla.is_association(mapper) else entities.name_of(model),
        verbs,
        {each.key for each in mapper.attrs if is_listed(mapper, each.key, fixed)},
        own_parts=(*parts,),
        generated=tuple(name for name in parts if not _has_default(parts[name])),
    )


def _check_label(mapper: Mapper[Any], entities: Entities, hidden: Attributes) -> None:
    """Check that the labels of a class show no hidden attribute.

    Raises:
        SetupError: they do.
    """
    label = entities.of_class(mapper.class_).label
    named_by = set() if label is None else label.attributes(mapper)
    kept_back = sorted(name for name in named_by if is_listed(mapper, name, hidden))
    if kept_back:
        raise SetupError(
            f"hidden lists {kept_back[0]!r} of {mapper.class_.__qualname__!r}, of which the label "
            "of its rows is made",
            "show it, or choose another label: __ref_label__ or RefPolicy(labels={...})",
        )


def _own_parts(
    mapper: Mapper[Any], keys: ClassKeys, repeated: Mapping[str, Column[Any]]
) -> dict[str, Column[Any]]:
    """Return the UUIDs in a composite key that reference no row, by attribute.

    A ref names a row by its whole key. A ref of such a part would look like another row of the
    same table.

    Args:
        mapper: the mapper of the class.
        keys: the keys of the class.
        repeated: the attributes of joined inheritance that repeat a key, with the base's columns.
    """
    if keys.own_entity is not None or sqla.is_association(mapper):
        return {}
    columns = {mapper.get_property_by_column(each).key: each for each in mapper.primary_key}
    return {
        name: column
        for name, column in {**columns, **repeated}.items()
        if name in keys.all
        and isinstance(column, Column)
        and not column.foreign_keys
        and "ref" not in column.info
    }


def _inherited_attributes(mapper: Mapper[Any]) -> dict[str, Column[Any]]:
    """Return the attributes whose values joined inheritance copies, with the columns of the base.

    These are keys of subclass tables. A flush writes them; setting another value would move half
    of the row.
    """
    equal = {
        column: other
        for each in mapper.iterate_to_root()
        if each.inherit_condition is not None
        for column, other in sqla.equalities_in(
            each.inherit_condition, cast(Table, each.local_table)
        )
    }
    names = sqla.attributes_of(mapper, equal)
    return {names[column]: _last(column, equal) for column in names}


def _last(column: Column[Any], equal: Mapping[Column[Any], Column[Any]]) -> Column[Any]:
    """Follow `equal` from a column to the base-most column that has the same value."""
    remaining = {**equal}
    while column in remaining:
        column = remaining.pop(column)
    return column


def _column(
    attribute: ColumnProperty[Any],
    mapper: Mapper[Any],
    entities: Entities,
    *,
    is_identity: bool,
    is_repeated: bool,
    is_fixed: bool,
) -> ToolColumn:
    keys = entities.of_class(mapper.class_)
    column, key = attribute.columns[0], keys.all.get(attribute.key)
    values = values_of(column.type, key)
    is_own = (is_identity or is_repeated) and keys.own_entity is not None
    # the model must not see generated values
    is_writable = not (is_own or is_repeated or is_fixed) and _is_application_value(column, mapper)
    is_writable = is_writable and values.family != "opaque"
    nullable = not isinstance(column, Column) or bool(column.nullable)
    if is_identity and sqla.is_association(mapper):
        nullable = False  # a link has two ends even if its table has no primary key
    return ToolColumn(
        attribute.key,
        values,
        key,
        shown=values.family != "opaque" and not attribute.deferred,
        creatable=is_writable,
        updatable=is_writable and not is_identity,
        required=is_writable and not nullable and not _has_default(column),
        nullable=nullable,
        own=is_own,
        doc=attribute.doc or (column.comment if isinstance(column, Column) else None),
        places=places_in(column, entities),
    )


def _is_application_value(column: Any, mapper: Mapper[Any]) -> bool:
    """Return whether the application, not the database or the mapper, writes a column."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    if column.identity is not None and column.identity.always:
        return False
    # the discriminator and the version counter
    return all(column is not each for each in (mapper.polymorphic_on, mapper.version_id_col))


def _has_default(column: Any) -> bool:
    """Return whether a column has a default for new rows."""
    defaults: Sequence[Any] = (column.default, column.server_default, column.identity)
    return any(each is not None for each in defaults) or (
        column.primary_key and column.autoincrement is True
    )


_ROWS = ("rows", "data", "totals")  # parts of answers and arguments that contain rows
_COLUMN = re.compile(r"^\w+\((\w+)\)$")  # the column in the name of a total
