"""Filters on drafts: which drafts match, without a statement.

`DraftRecord` is the content of a draft, or of a row nested in one, by column. `matching_records`
evaluates bound filters on records as PostgreSQL evaluates the same filters on rows: null is
neither equal nor unequal to a value, `contains` works as `@>`, and `Pattern` as ILIKE.

>>> recipes = toolset.tables.by_name("recipes")
>>> soup = DraftRecord(recipes, {"name": "Onion soup"}, "gen_recipe_1", "gen_recipe_1")
>>> only = FilterClause(field="name", op="ilike", value="%soup%")
>>> bound = bind_filters(DbRead(table="recipes", filters=[only]), recipes)
>>> [record.name for record in matching_records([soup], bound)]
['gen_recipe_1']

The work of one call is limited: `WorkBudget` counts comparisons, and a pattern is matched in time
linear in the text.

Limits: a path through rows that are not part of the draft cannot be evaluated, and is refused.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alfred_refs.tools.errors import invalid_filter, invalid_value
from alfred_refs.tools.filters import COMPARISONS, Bound, BoundFilters, Clause, Group
from alfred_refs.tools.serialization import as_shown
from alfred_refs.tools.tables import ToolColumn, ToolTable, accept_value

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "contains": lambda has, operand: all(each in has for each in operand),
    "ilike": lambda has, operand: operand.matches(has),
}
_NULL_OPERATORS = frozenset({"in", "not_in", "is_null", "is_not_null"})  # handle null
_MAX_WORK = 500_000  # comparisons of JSON values in one call: about half a second
_VALUES_PER_STEP = 10  # values of an array or list compared in one step
_LIST_COST = 3  # steps to begin comparing a list


class WorkBudget:
    """Limits the work of filtering drafts in one call, and caches values."""

    def __init__(self) -> None:
        self._remaining = _MAX_WORK
        self._values: dict[tuple[str, str], Any] = {}
        self._operands: dict[int, Any] = {}

    def spend(self, amount: int, field: str) -> None:
        """Count work for a filter.

        Raises:
            ToolError: the call has used its budget.
        """
        self._remaining -= amount
        if self._remaining < 0:
            raise invalid_filter(
                field,
                "takes more comparisons in drafts than one call may make",
                "name fewer drafts, or give fewer values or patterns",
            )

    def value(self, record: DraftRecord, column: ToolColumn) -> Any:
        """Return a record's value of a column, converted for comparison once."""
        cache_key = record.name, column.name
        if cache_key not in self._values:
            self._values[cache_key] = comparable_value(record.value(column))
        return self._values[cache_key]

    def operand(self, clause: Clause) -> Any:
        """Return the value of a clause, converted for comparison once."""
        cache_key = id(clause)  # stable: the clause lives as long as the call
        if cache_key not in self._operands:
            operand = comparable_value(clause.value)
            if clause.op == "ilike":
                self.spend(len(operand), clause.field)
                operand = Pattern(operand)
            self._operands[cache_key] = operand
        return self._operands[cache_key]


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """The content of a draft, or of a row nested in one.

    Attributes:
        table: the table of the row that it will become.
        content: JSON values by attribute; by relationship, nested objects or refs of rows.
        name: its name in errors: the draft's ref, or a path from it.
        ref: the draft's ref; `None` for nested rows.
        saved_refs: refs of drafts that have been saved -> the refs of their rows.
    """

    table: ToolTable
    content: Mapping[str, Any]
    name: str
    ref: str | None = None
    saved_refs: Mapping[str, str] = field(default_factory=dict)

    def json_value(self, column: ToolColumn) -> Any:
        """Return the content of a column as JSON, with current refs of saved drafts."""
        if column.own and self.ref is not None:
            return self.ref
        value = self.content.get(column.name)
        if value is None and column.key is not None:
            value = self._related_ref(column.name)
        return self.current_refs(value) if column.key is not None else value

    def value(self, column: ToolColumn) -> Any:
        """Return the Python value of a column.

        Raises:
            ToolError: the content does not fit the column, for example after a migration.
        """
        json_value = self.json_value(column)
        if column.values.family == "opaque":
            return json_value
        return accept_value(column.values.accept, f"{self.name}.{column.name}", json_value)

    def current_refs(self, refs: Any) -> Any:
        """Replace the refs of saved drafts by the refs of their rows."""
        if isinstance(refs, list):
            return [self.current_refs(each) for each in refs]
        return self.saved_refs.get(refs, refs) if isinstance(refs, str) else refs

    def _related_ref(self, name: str) -> str | None:
        """Return the ref for a foreign key column, from the relationship that will write it."""
        names = (n for n, columns in self.table.references().items() if columns == [name])
        values = (self.content.get(each) for each in names)
        return next((each for each in values if isinstance(each, str)), None)

    def related_records(self, name: str) -> list[DraftRecord | str] | None:
        """Return related rows as records or refs; `None` if the content lacks the relationship."""
        if name not in self.content:
            return None if self._has_reference(name) else []
        content = self.content[name]
        items = content if isinstance(content, list) else [] if content is None else [content]
        path, target = f"{self.name}.{name}", self.table.targets[name]
        if not all(isinstance(each, dict | str) for each in items):
            raise invalid_value(path, "objects: values by column")
        return [
            self.current_refs(each)
            if isinstance(each, str)
            else DraftRecord(target, each, f"{path}[{n}]", saved_refs=self.saved_refs)
            for n, each in enumerate(items, start=1)
        ]

    def _has_reference(self, name: str) -> bool:
        """Return whether a many-to-one relationship is set, by its foreign key or directly.

        A nested row counts as referring to its outer row, although its content does not contain
        it.
        """
        names = self.table.references().get(name, ())
        nothing = None if self.ref is not None else ""
        return any(self.content.get(each, nothing) is not None for each in names)


def matching_records(records: Iterable[DraftRecord], bound: BoundFilters) -> list[DraftRecord]:
    """Return the records that match all filters."""
    filters = [*bound.filters]
    if bound.or_filters:
        filters.append(Group("or", bound.or_filters))
    work = WorkBudget()
    # each filter is evaluated, to report an error in it even if an earlier one is false
    results = [(record, [_evaluate(each, record, work) for each in filters]) for record in records]
    return [record for record, evaluated in results if all(evaluated)]


def _evaluate(bound: Bound, record: DraftRecord, work: WorkBudget) -> bool | None:
    """Evaluate a filter; return `None` where SQL yields NULL."""
    if isinstance(bound, Clause):
        return _evaluate_path(bound, bound.relationships, record, work)
    parts = [_evaluate(each, record, work) for each in bound.parts]
    match bound.by:
        case "and":
            return _and(parts)
        case "or":
            return _not(_and([_not(each) for each in parts]))
        case "not":
            return _not(parts[0])


def _and(parts: Sequence[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _evaluate_path(
    clause: Clause, path: Sequence[str], record: DraftRecord, work: WorkBudget
) -> bool | None:
    work.spend(5, clause.field)
    if path:
        return _nested_match(clause, path, record, work)
    if clause.column is None:
        return (record.ref in clause.value) is (clause.op in ("=", "in"))
    return _evaluate_clause(clause, clause.column, record, work)


def _evaluate_clause(
    clause: Clause, column: ToolColumn, record: DraftRecord, work: WorkBudget
) -> bool | None:
    """Evaluate a clause on a record's value of a column."""
    operand, value = work.operand(clause), work.value(record, column)
    if clause.op in ("in", "not_in"):
        work.spend(len(operand) // _VALUES_PER_STEP, clause.field)
    if column.key is not None:
        operand = record.current_refs(operand)
    if value is None or operand is None or clause.op in _NULL_OPERATORS:
        return _compare_null(clause, operand, value)
    if clause.op == "contains" and column.values.family == "json":
        return _Containment(work, clause.field).contains(value, operand)
    work.spend(_cost(clause.op, value, operand), clause.field)
    return _COMPARISONS[clause.op](value, operand)


def _cost(op: str, value: Any, operand: Any) -> int:
    """Return the cost of a comparison."""
    if op == "contains":
        return int(len(value) * len(operand)) // _VALUES_PER_STEP
    return int(operand.cost(value)) if op == "ilike" else 0


def _nested_match(
    clause: Clause, path: Sequence[str], record: DraftRecord, work: WorkBudget
) -> bool:
    """Return whether a nested row matches the rest of a path."""
    name, *rest = path
    records = record.related_records(name)
    nested = [each for each in records or () if isinstance(each, DraftRecord)]
    if records is None or len(nested) < len(records):
        raise invalid_filter(
            clause.field,
            f"asks for {name!r}, which is not all part of the draft {record.name!r}",
            "leave it out, or read the draft by its ref alone",
        )
    return True in [_evaluate_path(clause, rest, each, work) for each in nested]


def _compare_null(clause: Clause, operand: Any, value: Any) -> bool | None:
    """Evaluate an operator for null, or a list that may contain null."""
    if clause.op in ("is_null", "is_not_null"):
        return (value is None) is operand
    if clause.op in ("in", "not_in"):
        is_in = _is_in(value, operand)
        return is_in if clause.op == "in" else _not(is_in)
    if operand is None:
        return (value is None) == (clause.op == "=")
    return None


def comparable_value(value: Any) -> Any:
    """Return a value that compares as in PostgreSQL: `timetz` is equal only in the same zone."""
    if isinstance(value, list):
        return [comparable_value(each) for each in value]
    if not isinstance(value, dt.time) or value.tzinfo is None:
        return value
    offset = value.utcoffset() or dt.timedelta()
    time_of_day = dt.timedelta(
        0, 60 * (60 * value.hour + value.minute) + value.second, value.microsecond
    )
    return time_of_day - offset, -offset


def _is_in(value: Any, values: Sequence[Any]) -> bool | None:
    """Return whether a value is in a list; `None` (unknown) for null and a list without null."""
    if value is None:
        return True if None in values else None
    return value in values


@dataclass(frozen=True, slots=True)
class _Containment:
    """Evaluates PostgreSQL's `@>` on JSON values.

    Attributes:
        work: counts the cost of comparisons.
        field: the field of the filter, for errors.
    """

    work: WorkBudget
    field: str

    def contains(self, document: Any, part: Any) -> bool:
        """Return whether a document contains another.

        A list contains a scalar element of it only at the top level.
        """
        if isinstance(document, list) and not isinstance(part, dict | list):
            return self._contains(document, [part])
        return self._contains(document, part)

    def _contains(self, document: Any, part: Any) -> bool:
        """Return whether a JSON value contains another of its kind."""
        self.work.spend(1, self.field)
        if isinstance(document, dict) and isinstance(part, dict):
            return all(n in document and self._contains(document[n], v) for n, v in part.items())
        if isinstance(document, list) and isinstance(part, list):
            return self._contains_all(document, part)
        return _typed(document) == _typed(part)

    def _contains_all(self, document: Sequence[Any], part: Sequence[Any]) -> bool:
        self.work.spend(_LIST_COST + (len(document) + len(part)) // _VALUES_PER_STEP, self.field)
        scalars = {_typed(each) for each in document if not _is_nested(each)}
        nested = [each for each in document if _is_nested(each)]
        return all(_typed(each) in scalars for each in part if not _is_nested(each)) and all(
            any(self._contains(each, item) for each in nested) for item in part if _is_nested(item)
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _typed(value: Any) -> tuple[bool, Any]:
    """Return a value with its type for comparison, because `True` equals 1 in Python."""
    return isinstance(value, bool), as_shown(value)


_ANY_CHARACTER = None

# how many fit into one step: the time that comparing two JSON values takes
_LETTERS_PER_STEP = 3  # compared in Python
_FAST_LETTERS_PER_STEP = 50  # compared in C
_PIECES_PER_STEP = 3


class Pattern:
    """An ILIKE pattern, parsed once for all texts.

    The pieces between its `%` are searched from left to right, each after the end of the previous
    piece. The first match of a piece suffices, so there is no backtracking.

    Args:
        pattern: the pattern; it must not end in a single backslash.
    """

    def __init__(self, pattern: str) -> None:
        self._length = len(pattern)
        self._first, *others = pieces = _pieces(_lower_case(pattern))
        self._count = len(pieces)
        self._is_plain = all(each.letters is not None for each in pieces)
        self._last = others.pop() if others else None
        self._between = others

    def matches(self, text: str) -> bool:
        """Return whether a text matches the pattern, ignoring case."""
        text, first, last = _lower_case(text), self._first, self._last
        if last is None:
            return len(text) == len(first) and first.matches_at(text, 0)
        at, end = len(first), len(text) - len(last)
        if at > end or not first.matches_at(text, 0) or not last.matches_at(text, end):
            return False
        for piece in self._between:
            place = piece.find(text, at, end)
            if place is None:
                return False
            at = place + len(piece)
        return True

    def cost(self, text: str) -> int:
        """Return the cost of matching a text, in comparisons of JSON values."""
        if text.isascii() and self._is_plain:
            return (
                len(text) // _FAST_LETTERS_PER_STEP
                + min(self._count, len(text)) // _PIECES_PER_STEP
            )
        wide = 1 + self._length // 1_000  # masks are long integers
        return len(text) * wide // _LETTERS_PER_STEP


class Piece:
    """The part of a pattern between two `%`.

    Args:
        characters: the characters in lower case; `None` for any character.

    Attributes:
        letters: the piece as text; `None` if it has a wildcard.
    """

    def __init__(self, characters: Sequence[str | None]) -> None:
        self._characters = characters
        letters = [char for char in characters if char is not _ANY_CHARACTER]
        self.letters = "".join(letters) if len(letters) == len(characters) else None
        self._anywhere, self._places = (
            (0, {}) if self.letters is not None else _bit_masks(characters)
        )

    def __len__(self) -> int:
        return len(self._characters)

    def matches_at(self, text: str, at: int) -> bool:
        """Return whether the piece matches a text at a position."""
        if self.letters is not None:
            return text.startswith(self.letters, at)
        return all(
            char in (_ANY_CHARACTER, text[n]) for n, char in enumerate(self._characters, start=at)
        )

    def find(self, text: str, start: int, end: int) -> int | None:
        """Return the first position of the piece in a part of a text."""
        if self.letters is not None:
            place = text.find(self.letters, start, end)
            return None if place < 0 else place
        anywhere, places = self._anywhere, self._places
        reached, whole = 0, 1 << (len(self) - 1)
        for at in range(start, end):
            reached = (reached << 1 | 1) & places.get(text[at], anywhere)
            if reached & whole:
                return at - len(self) + 1
        return None


def _lower_case(text: str) -> str:
    """Return a text in lower case, without characters whose lower case is longer."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _pieces(pattern: str) -> list[Piece]:
    pieces: list[list[str | None]] = [[]]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY_CHARACTER if part == "_" else part[-1])
    return [Piece(each) for each in [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]]


def _bit_masks(characters: Sequence[str | None]) -> tuple[int, Mapping[str, int]]:
    """Return the bits of wildcards, and of each character, by position in the piece.

    The search keeps its states in one integer and shifts it for each character (Shift-And
    algorithm).
    """
    anywhere = sum(1 << n for n, char in enumerate(characters) if char is _ANY_CHARACTER)
    places = dict.fromkeys(filter(None, characters), anywhere)
    for n, char in enumerate(characters):
        if char is not _ANY_CHARACTER:
            places[char] |= 1 << n
    return anywhere, places
