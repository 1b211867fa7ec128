"""Conditions in words: what SQL is understood, and that the rest is told as it is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from alfred_refs.tools.rules import CheckCondition, condition_of

NAMES = {"status": "state", "rating": "rating", "item type": "item_type", "owner": None}


def said(sql: str) -> CheckCondition:
    """Return what a condition says."""
    return condition_of(sql, NAMES)


@pytest.mark.parametrize(
    "sql",
    [
        "status IN ('a', 'it''s')",
        "status in ('a','it''s')",
        "((status)::text = ANY (ARRAY['a'::text, 'it''s'::text]))",
        "status::text = ANY (ARRAY['a'::character varying, 'it''s'::character varying]::text[])",
        "status IS NULL OR status IN ('a', 'it''s')",
    ],
)
def test_choices_are_read(sql: str) -> None:
    """As they are declared, and as PostgreSQL writes them."""
    assert said(sql).choices(numeric=False) == ['"a"', '"it\'s"']


@pytest.mark.parametrize(
    "sql",
    [
        "status NOT IN ('a', 'b')",
        "status = 'a' OR status IN ('a', 'b')",
        "status IN ('a', lower('b'))",
        "lower(status) IN ('a', 'b')",
        "status IN ('a', owner)",
        "status <> ALL (ARRAY['a'::text, 'b'::text])",
        "status IN ('a', 'b') AND rating > 1",
        "status IN ('a', 'b') OR status IS NULL",
        "status IN (1, 2)",
        "status IN ('a', '0b0e1a5c-7f2a-4c4e-9d5b-3f1f5a8e1c11')",
    ],
)
def test_no_other_condition_is_taken_for_choices(sql: str) -> None:
    """Nor for limits: it is told as it is."""
    assert said(sql).choices(numeric=False) is None
    assert said(sql).limits(numeric=False) is None
    assert said(sql).text


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("rating BETWEEN 1 AND 5", "1 to 5"),
        ("rating >= 1 AND rating <= 5", "1 to 5"),
        ("((rating >= '-90'::integer) AND (rating <= 90))", "-90 to 90"),
        ("rating IS NULL OR rating > 0.5", "> 0.5"),
        ("rating > 0 and rating < 10 and rating <> 7", "> 0 and < 10 and not 7"),
        ("rating NOT BETWEEN 1 AND 5", None),
        ("rating > 0 OR rating < -5", None),
        ("NOT rating > 0", None),
        ("rating > rating - 1", None),
        ("abs(rating) > 0", None),
        ("rating + 1 > 0", None),
        ("0 < rating", None),
        ("now IS NULL OR rating > 0", None),
        ("rating >= now()", None),
        ("rating > $1", None),
    ],
)
def test_limits_are_read(sql: str, words: str | None) -> None:
    """Where one column is compared with values, and nothing else is said."""
    assert said(sql).limits(numeric=True) == words


def test_texts_are_compared_in_quotes() -> None:
    """As JSON has them, so that a model sees what is a value."""
    assert said("status <> ''").limits(numeric=False) == 'not ""'
    assert said("status >= 'a\nb'").limits(numeric=False) == '>= "a\\nb"'
    assert said("status > '\u2028'").limits(numeric=False) == '> "\\u2028"'


def test_other_conditions_are_told_as_sql() -> None:
    """In one line, with the names that a model knows, and without what says nothing."""
    sql = "(char_length((status)::character varying(9)) <= 40)\n OR (\"item type\" ~ '^\\d$')"
    condition = said(sql)

    assert condition.text == "(char_length(state) <= 40) OR (item_type ~ '^\\d$')"
    assert condition.columns == ("state", "item_type")
    assert len(said(f"status <> '{'x' * 500}'").text) == 200
    assert said("status <> '0b0e1a5c-7f2a-4c4e-9d5b-3f1f5a8e1c11'").text == "state <> '<key>'"


@pytest.mark.parametrize(
    "sql",
    [
        "owner > 0",
        "length(OWNER) > 0",
        '"owner" > status',
        "rating > 0 -- as the owner wants",
        "status <> E'\\'' || owner || ''",
        "status <> $$'$$ || owner || ''",
        "t.owner > 0",
    ],
)
def test_hidden_columns_are_noticed(sql: str) -> None:
    """Wherever the name stands, but for a value."""
    assert said(sql).is_hidden
    assert not said("status <> 'owner'").is_hidden
    assert not said("status <> $a$owner$a$").is_hidden


@given(st.text(alphabet="ab'\"$()[]:,= 1-\\\neE", max_size=30))
def test_any_text_is_told(sql: str) -> None:
    """Whatever stands in a constraint: it stays in its line, and nothing is raised."""
    condition = said(sql)

    assert condition.text.isprintable()
    assert condition.choices(numeric=False) is None
    condition.limits(numeric=True)
