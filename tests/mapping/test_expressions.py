"""What kind of thing an expression is."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import case, cast, distinct, func, null
from sqlalchemy.dialects.postgresql import JSON, aggregate_order_by

from alfred_refs.mapping.lineage import choices_of, is_document
from tests.models import MealPlan, Recipe

ids: list[Any] = [Recipe.__table__.c.id, MealPlan.__table__.c.id]
key, other = ids
name: Any = Recipe.__table__.c.name
document = func.json_build_object("id", key)


@pytest.mark.parametrize(
    ("element", "choices"),
    [
        (case((name == "a", key), else_=other), ids),
        (case({"a": key}, value=name, else_=null()), [key, null()]),
        (func.coalesce(*ids), ids),
        (func.COALESCE(*ids), ids),
        (func.pg_catalog.coalesce(*ids), ids),
        (func.elsewhere.coalesce(*ids), []),
        (func.nullif(*ids), [key]),
        (func.lag(key, 1, other), ids),
        (func.lower(name), []),
        (key.label("k"), [key]),
        (distinct(key), [key]),
        (aggregate_order_by(key, name), [key]),
        (key, []),
        (name == "a", []),
        (None, []),
    ],
)
def test_what_gives_an_expression_its_value(element: Any, choices: list[Any]) -> None:
    """It is one of several, or the one that is only wrapped; what makes another has none."""
    found = choices_of(element)

    assert len(found) == len(choices)
    assert all(a.compare(b) for a, b in zip(found, choices, strict=True))


def test_what_a_window_or_a_filter_is_over_gives_its_value() -> None:
    """Which rows are looked at makes no other value."""
    largest = func.max(key)

    assert list(choices_of(largest.over())) == [largest]
    assert list(choices_of(largest.filter(name == "a"))) == [largest]


@pytest.mark.parametrize(
    ("element", "is_one"),
    [
        (document, True),
        (document.label("d"), True),
        (cast(document, JSON), True),
        (func.coalesce(null(), document), True),
        (case((name == "a", document)), True),
        (func.elsewhere.json_build_object("id", key), False),
        (cast(name, JSON), False),
        (func.lower(name), False),
    ],
)
def test_a_document_is_known_by_what_makes_it(element: Any, is_one: bool) -> None:
    """Whatever it is wrapped in, or chosen from."""
    assert is_document(element) is is_one
