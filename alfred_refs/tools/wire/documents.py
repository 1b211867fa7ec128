"""What texts and documents are made of, and which integers in documents are keys.

A column says so by `info={"ref": Order}`, all integers in its documents, or by `info={"ref":
{"order_id": Order, "lines": "products.id"}}`, those in members of these names, at any depth,
alone or in lists. To a session such a column is data. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import JSON, Column, inspect

from alfred_refs.errors import KeyColumnError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.foreign_keys import column_named, key_table, primary_key

Places = Mapping[str | None, str]
"""The entity of integers in members of a name; under `None`, of all others."""


def places_in(column: Any, entities: Entities) -> Places:
    """Return which integers in the documents of a column are keys.

    Raises:
        KeyColumnError: what is declared is no class or primary key of one column.
    """
    declared = column.info.get("ref") if isinstance(column, Column) else None
    if declared is None or not isinstance(column.type, JSON):
        return {}
    by_name = declared if isinstance(declared, Mapping) else {None: declared}
    found = {name: _entity(column, target, entities) for name, target in by_name.items()}
    return {name: entity for name, entity in found.items() if entity is not None}


def _entity(column: Column[Any], target: Any, entities: Entities) -> str | None:
    """Return the entity whose keys are declared, `None` where integers are none of its keys."""
    table = _table(column, target)
    keys = [] if table is None else primary_key(table)
    is_key = len(keys) == 1 and (
        not isinstance(target, str) or column_named(table, target) is keys[0]
    )
    if not is_key:
        raise KeyColumnError(
            f"column {column} declares keys of {target!r} in its documents, and that is no "
            "class or column whose values are a primary key",
            'give a mapped class, or "table.column" as a foreign key has it',
        )
    held = entities.key_column_of(table)
    return held.entity if held is not None and held.key_type == "integer" else None


def _table(column: Column[Any], target: Any) -> Any:
    if isinstance(target, str):
        return column.table.metadata.tables.get(target.rpartition(".")[0])
    mapper = inspect(target, raiseerr=False)
    return None if mapper is None else key_table(mapper)


class SameNameError(ValueError):
    """Two names in one object would become one."""


def mapped(
    value: Any,
    places: Places,
    leaf: Callable[[Any, str | None], Any],
    name: Callable[[str], str] = str,
    entity: str | None = None,
) -> Any:
    """Return a document with something else in the place of its names and leaves.

    Args:
        value: JSON.
        places: which integers are keys.
        leaf: is given each value that is no list or object, and whose key it is if an integer.
        name: is given each name.
        entity: of integers that stand here.

    Raises:
        SameNameError: two names in one object become one.
    """
    if isinstance(value, dict):
        found = {
            name(key): mapped(each, places, leaf, name, places.get(key))
            for key, each in value.items()
        }
        if len(found) < len(value):
            raise SameNameError
        return found
    if isinstance(value, list):
        return [mapped(each, places, leaf, name, entity) for each in value]
    return leaf(value, entity or places.get(None))
