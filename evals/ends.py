"""How a task must leave the kitchen, and which writes on the way hit another row than it means.

>>> end = End(changed={"recipes": {key: {"servings": 6}}})
>>> end.is_met(kitchen.rows, day.changes())
True
>>> end.strays(kitchen.rows, then, day.changes())   # what was written that the task does not mean
[Stray(table='recipes', key=UUID('…'))]

All rows are compared, with every column but new keys: a new row that another refers to goes by its
name there.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from evals.kitchen import Changes, Rows, Values

REFERENCES: Final = ("recipe_id", "ingredient_id", "parent_recipe_id", "user_id")

# what a new row has where nothing is said
_EMPTY: Final[Mapping[str, Values]] = {
    "recipes": {
        "parent_recipe_id": None,
        "description": None,
        "cuisine": None,
        "prep_minutes": None,
        "cook_minutes": None,
        "servings": None,
        "instructions": [],
        "tags": [],
    },
    "recipe_ingredients": {"ingredient_id": None, "quantity": None, "unit": None},
    "meal_plans": {"recipe_id": None, "notes": None},
    "shopping_list": {"ingredient_id": None, "quantity": None, "unit": None, "bought": False},
}


@dataclass(frozen=True, slots=True)
class Stray:
    """A row that was written and that the task does not mean, or that refers to such a row."""

    table: str
    key: uuid.UUID


@dataclass(frozen=True, slots=True)
class End:
    """What a task changes; all else stays.

    Attributes:
        changed: by table and key, the new values.
        removed: keys, by table.
        created: new rows, with their tables; a reference to a new row is its name.
    """

    changed: Mapping[str, Mapping[uuid.UUID, Values]] = field(default_factory=dict)
    removed: Mapping[str, Sequence[uuid.UUID]] = field(default_factory=dict)
    created: Sequence[tuple[str, Values]] = ()

    def is_met(self, before: Rows, changes: Changes) -> bool:
        """Tell whether the kitchen is as it must be."""
        wanted: dict[tuple[str, uuid.UUID], Values | None] = {
            (table, key): before[table][key] | values
            for table, rows in self.changed.items()
            for key, values in rows.items()
        }
        wanted |= {(table, key): None for table, keys in self.removed.items() for key in keys}
        kept = {at: row for at, row in changes.items() if at[1] in before[at[0]]}
        created = [(table, _EMPTY[table] | values) for table, values in self.created]
        return kept == wanted and _counted(_created(before, changes)) == _counted(created)

    def strays(self, before: Rows, then: Changes, now: Changes) -> list[Stray]:
        """Return the rows that have changed since then and are not meant to.

        A row that is put back as it was before is none.
        """
        return [
            Stray(*at)
            for at, row in now.items()
            if not (at in then and then[at] == row) and not self._is_meant(before, now, *at)
        ]

    def _is_meant(self, before: Rows, now: Changes, table: str, key: uuid.UUID) -> bool:
        row = now[table, key]
        if row is None:
            return key in self.removed.get(table, ())
        if key in before[table]:
            changed = self.changed.get(table, {}).get(key)
            return changed is not None and _referred(before[table][key] | changed) == _referred(
                row
            )
        new = _referred(_named(row, _new_names(before, now)))
        meant = [_EMPTY[of] | values for of, values in self.created if of == table]
        return any(new == _referred(values) for values in meant)


def _referred(row: Values) -> Values:
    return {name: row[name] for name in REFERENCES if name in row}


def _new(before: Rows, changes: Changes) -> Iterator[tuple[str, uuid.UUID, Values]]:
    for (table, key), row in changes.items():
        if row is not None and key not in before[table]:
            yield table, key, row


def _new_names(before: Rows, changes: Changes) -> dict[str, str]:
    return {
        str(key): f"new: {row['name']}"
        for table, key, row in _new(before, changes)
        if table == "recipes"
    }


def _named(row: Values, names: Mapping[str, str]) -> Values:
    return row | {name: names.get(value, value) for name, value in _referred(row).items()}


def _created(before: Rows, changes: Changes) -> Iterator[tuple[str, Values]]:
    names = _new_names(before, changes)
    for table, _, row in _new(before, changes):
        yield table, _named(row, names)


def _counted(rows: Iterable[tuple[str, Values]]) -> Counter[str]:
    return Counter(json.dumps(each, sort_keys=True) for each in rows)
