"""What a model wants to store."""

from __future__ import annotations

from alfred_refs.tools.creating import deduplicate_records
from alfred_refs.tools.payload import Record


def test_the_last_of_the_same_wins() -> None:
    """It stands where the first stood, and what became one is told, counted from 1."""
    records: list[Record] = [{"a": 1, "n": 1}, {"a": 2, "n": 2}, {"a": 1, "n": 3}]
    assert deduplicate_records(records, ["a"]) == ([{"a": 1, "n": 3}, {"a": 2, "n": 2}], [[1, 3]])


def test_rows_without_a_value_are_not_the_same() -> None:
    """As in a unique constraint: two lines of which nobody knows the ingredient are two lines."""
    records: list[Record] = [{"a": 1, "b": None}, {"a": 1}, {"a": 1, "b": None}]
    assert deduplicate_records(records, ["a", "b"]) == (records, [])
