"""The text itself as the judge: run on an owner's views, it must give the same rows.

    verdict = judge(world, "select id from products where id = 'product_1'")
    verdict.outcome      "same", "different", "refused: ...", or "error: ..."

Refs in the text are replaced by the keys, and keys in its rows by refs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic_core import to_jsonable_python
from sqlalchemy.exc import DBAPIError

from alfred_refs.tools.serialization import is_number
from tests.tools.sql.world import ANN, World

_REF = re.compile(r"'((?:product|category|order)_\d+)'")

_MARK = re.compile(r"<[a-z_]+_\d+>")

_ANY_REF = re.compile(
    r"(recipe|ingredient|meal_plan|recipe_ingredient|shopping_item|preferences)_\d+"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a statement.

    Attributes:
        outcome: in a word: "same", "different", "refused" (by us alone), "wrong" (by both), or
            "taken" (by us alone).
        told: what the model was told.
        expected: the rows that the text gives.
    """

    outcome: str
    told: dict[str, Any]
    expected: Sequence[Any] | str


def judge(world: World, sql: str, owner: int = ANN, *, in_order: bool = False) -> Verdict:
    """Return whether a statement gives the rows that its text gives."""
    told = world.ask(sql, owner)
    expected = _expected(world, sql, owner)
    if "error" in told:
        outcome = "wrong" if isinstance(expected, str) else "refused"
        return Verdict(outcome, told, expected)
    if isinstance(expected, str):
        return Verdict("taken", told, expected)
    found = told["rows"]
    columns, expected = expected[0], _with_refs(expected[1:], found, world, owner)
    same = found == expected if in_order else _sorted(found) == _sorted(expected)
    if told["more"]:  # the toolset's limit left out some
        same = len(found) < len(expected) and not _counts(found) - _counts(expected)
    same = same and told["columns"] == columns
    return Verdict("same" if same else "different", told, [columns, *expected])


def _expected(world: World, sql: str, owner: int) -> list[Any] | str:
    keys = world.keys[owner]
    text = _REF.sub(lambda found: f"'{keys.get(found[1], found[1])}'", sql)
    with world.engine.connect() as connection:
        connection.exec_driver_sql(
            f"set local search_path = seen_{owner}, public; set local statement_timeout = '5s'"
        )
        try:
            result = connection.exec_driver_sql(text.replace("%", "%%"))
            return [list(result.keys()), *(list(row) for row in result.all())]
        except DBAPIError as error:
            return f"{error.orig}".splitlines()[0]
        finally:
            connection.rollback()


def _with_refs(
    rows: Sequence[Any], found: Sequence[Any], world: World, owner: int
) -> list[list[Any]]:
    """Return rows as a model is told them: integers are keys where refs were found."""
    refs = {
        key if isinstance(key, UUID) else (ref.rpartition("_")[0], key): ref
        for ref, key in world.keys[owner].items()
    }
    with world.session(owner) as session:
        refs = marks_by_key(session.conversation, found) | refs
    columns = range(len(rows[0])) if rows else range(0)
    entities = [_entity([row[n] for row in found]) for n in columns]
    return [
        [_plain(each, refs, entity) for each, entity in zip(row, entities, strict=True)]
        for row in rows
    ]


def _entity(values: Sequence[Any]) -> str | None:
    """Return whose refs a column has that was found."""
    for value in values:
        for each in _items(value):
            match = re.fullmatch(r"(category|order)_\d+", each) if isinstance(each, str) else None
            if match:
                return match[1]
    return None


def refs_by_key(conversation: Any, told: Sequence[Any]) -> Mapping[Any, str]:
    """Return the refs in rows that a model was told, by the UUIDs that they stand for."""
    values = [each for row in told for value in row for each in _items(value)]
    found = {each for each in values if isinstance(each, str) and _ANY_REF.fullmatch(each)}
    refs = sorted(found)
    keys = dict(zip(conversation.resolve_all(refs), refs, strict=True))
    return marks_by_key(conversation, told) | keys


def marks_by_key(conversation: Any, told: Sequence[Any]) -> dict[Any, str]:
    """Return the marks of UUIDs that are the whole value of a column, by the UUIDs."""
    values = [each for row in told for value in row for each in _items(value)]
    marks = sorted({each for each in values if isinstance(each, str) and _MARK.fullmatch(each)})
    keys = conversation.resolve_all([mark.strip("<>") for mark in marks])
    return dict(zip(keys, marks, strict=True))


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def in_json(rows: Sequence[Any], refs: Mapping[Any, str]) -> list[list[Any]]:
    """Return rows as a model is told them, whose keys are UUIDs."""
    return [[_plain(each, refs, None) for each in row] for row in rows]


def _plain(value: Any, refs: Mapping[Any, str], entity: str | None) -> Any:
    if isinstance(value, Decimal):
        near = float(value) if value.is_finite() else 0.0
        return near if Decimal(repr(near)) == value else str(value)
    if isinstance(value, list):
        return [_plain(each, refs, entity) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, refs, None) for name, each in value.items()}
    if isinstance(value, UUID):
        return refs.get(value, str(value))
    if type(value) is int:
        shown = value if is_number(value) else str(value)
        return shown if entity is None else refs.get((entity, value), shown)
    return value if isinstance(value, bool | int | str) else to_jsonable_python(value)


def _sorted(rows: Sequence[Any]) -> list[str]:
    return sorted(map(repr, rows))


def _counts(rows: Sequence[Any]) -> Counter[str]:
    return Counter(map(repr, rows))
