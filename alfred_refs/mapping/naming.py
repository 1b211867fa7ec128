"""What entities are called: one name for each table whose keys become refs.

A table comes in, the name of its entity goes out: the snake_case name of the class mapped to it,
or what the class or the policy says instead; for a table that no class maps, the table's name in
the singular. Two tables with one name are refused when either is first used.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from sqlalchemy import Table
from sqlalchemy.orm import Mapper

from alfred_refs import sqla
from alfred_refs.errors import EntityNameError

from .policy import RefPolicy
from .refs import KEY, is_entity_name

_MALFORMED = "is not lower-case snake_case, starts with 'gen_' or ends in '_' and digits"
_REMEDY = "set __ref_name__ on the class, or RefPolicy(names={...})"


class EntityNames:
    """The names of the entities of one application, under one policy.

    A class is met with all classes of its declarative base, so that a clash is found at the first
    use of any of them and does not depend on which comes first.
    """

    def __init__(self, policy: RefPolicy) -> None:
        self._given = policy.names
        # a table that the application drops is forgotten, and its name is free
        self._names: WeakKeyDictionary[Table, str] = WeakKeyDictionary()
        self._tables: WeakValueDictionary[str, Table] = WeakValueDictionary()
        self._lock = threading.RLock()

    def checked(self, name: str) -> str:
        """Return a name that refs can be made of.

        Raises:
            EntityNameError: refs of this name could not be told from others.
        """
        if (wrong := _wrong(name)) is not None:
            raise EntityNameError(f"{name!r} {wrong}", _REMEDY)
        return name

    def of_table(self, table: Table) -> str:
        """Return the name of a table's entity.

        Raises:
            EntityNameError: two tables have the name, it is malformed, or there is none.
        """
        known = self._names.get(table)
        if known is None:
            with self._lock:
                self._meet_all(table)
                known = self._names[table]
        return known

    def has(self, table: Table) -> bool:
        """Tell whether a table's entity has a name that need not be made from the table's."""
        said = self._given_to(table.fullname) is not None
        return said or table in self._names or sqla.mapper_of_table(table) is not None

    def table_of(self, name: str) -> Table | None:
        """Return a table of the entity, if one has been met."""
        return self._tables.get(name)

    def found_table_of(self, name: str) -> Table | None:
        """Return a table of the entity: that of a class of this process, met or not.

        Raises:
            EntityNameError: none has been met, and classes of several bases may be meant.
        """
        if name not in self._tables:
            found = [
                mapper.local_table
                for mapper in sqla.mappers()
                if isinstance(mapper.local_table, Table)
                and self._name_of_class(mapper, mapper.local_table) == name
            ]
            described = {_key_space(table): _described(table) for table in found}
            if len(described) > 1:
                one, other, *_ = sorted(described.values())
                raise _clash(one, other, name)
            if found:
                with suppress(EntityNameError):  # whoever uses the class is told
                    self.of_table(found[0])
        return self._tables.get(name)

    def _meet_all(self, table: Table) -> None:
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            given = self._given_to(table.fullname)
            self._take(table, singular(table.name) if given is None else given)
            return
        before = WeakKeyDictionary(self._names), WeakValueDictionary(self._tables)
        try:
            for other in sorted(sqla.mappers_of(mapper.registry), key=_class_name):
                if isinstance(other.local_table, Table):
                    self._take(other.local_table, self._name_of_class(other, other.local_table))
        except EntityNameError:  # and so it is the next time
            self._names, self._tables = before
            raise

    def _name_of_class(self, mapper: Mapper[Any], table: Table) -> str:
        from pydantic.alias_generators import to_snake  # noqa: PLC0415  # slow to import

        class_ = root_of(mapper).class_
        given = self._given_to(class_, table.fullname)
        said = class_.__dict__.get("__ref_name__", to_snake(class_.__name__))
        return said if given is None else given

    def _given_to(self, *items: type[Any] | str) -> str | None:
        return next((self._given[item] for item in items if item in self._given), None)

    def _take(self, table: Table, name: str) -> None:
        if self._names.get(table, name) != name:
            raise EntityNameError(
                f"table {table.fullname!r} is mapped by classes of two entity names, "
                f"{self._names[table]!r} and {name!r}",
                _REMEDY,
            )
        if (wrong := _wrong(name)) is not None:
            raise EntityNameError(
                f"the entity name {name!r} of {_described(table)} {wrong}", _REMEDY
            )
        taken = self._tables.setdefault(name, table)
        if _key_space(taken) is not _key_space(table) and not _is_reflection(taken, table):
            raise _clash(_described(taken), _described(table), name)
        self._names[table] = name


def _wrong(name: str) -> str | None:
    """Return why no entity of the application can have a name; `None` if one can."""
    if name == KEY:
        return "is that of keys in texts"
    return None if is_entity_name(name) else _MALFORMED


def root_of(mapper: Mapper[Any]) -> Mapper[Any]:
    """Return the mapper whose keys identify the rows: the base, or a concrete class itself."""
    while mapper.inherits is not None and not mapper.concrete:
        mapper = mapper.inherits
    return mapper


def _clash(one: str, other: str, name: str) -> EntityNameError:
    return EntityNameError(f"{one} and {other} both have the entity name {name!r}", _REMEDY)


def _key_space(table: Table) -> object:
    """Return what the keys of a table are keys of: joined tables share the key of their base."""
    mapper = sqla.mapper_of_table(table)
    return table if mapper is None else root_of(mapper)


def _is_reflection(one: Table, other: Table) -> bool:
    """Tell whether two objects stand for one table of the database, at most one of them mapped."""
    mapped = [sqla.mapper_of_table(table) for table in (one, other)]
    return one.fullname == other.fullname and None in mapped


def _described(table: Table) -> str:
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        return f"table {table.fullname!r}"
    return f"class {_class_name(root_of(mapper))!r}"


def _class_name(mapper: Mapper[Any]) -> str:
    return f"{mapper.class_.__module__}.{mapper.class_.__qualname__}"


def singular(name: str) -> str:
    """Return what one of several is called, by the `inflect` library.

    Raises:
        EntityNameError: the library is not installed.
    """
    try:
        import inflect  # noqa: PLC0415  # of an extra, and slow to import
    except ImportError:
        raise EntityNameError(
            f"table {name!r} has no mapped class to be named by",
            "install alfred-refs[tables], or name it by RefPolicy(names={...})",
        ) from None
    return inflect.engine().singular_noun(name) or name
