"""Patterns of ILIKE mean what they mean in PostgreSQL, and are soon decided."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Engine, literal, select

from alfred_refs.tools.matching import Pattern
from tests.profiles import examples
from tests.tools.test_filters import EACH_TIME

TEXTS = st.text(st.sampled_from("abAB%_\\ \n1é"), max_size=12)
PATTERNS = st.lists(
    st.sampled_from(["%", "%", "_", "a", "b", "A", "ab", "\\%", "\\_", "\\\\", "\\a", "\n", "é"]),
    max_size=10,
).map("".join)


@pytest.mark.slow
@settings(EACH_TIME, max_examples=examples(500))
@given(text=TEXTS, pattern=PATTERNS)
def test_a_pattern_means_what_it_does_in_postgresql(
    tables: Engine, text: str, pattern: str
) -> None:
    """Whatever there is of wildcards, escapes and letters."""
    with tables.connect() as connection:
        met = connection.scalar(select(literal(text).ilike(pattern)))
    assert Pattern(pattern).matches(text) is met


@pytest.mark.parametrize(
    ("text", "pattern", "is_met"),
    [
        ("", "", True),
        ("", "%", True),
        ("", "%%", True),
        ("", "_", False),
        ("ab", "a%b", True),
        ("a", "a%a", False),
        ("aba", "%a_", False),
        ("xaYb", "%A_b", True),
        ("aab", "%a_b%", True),
        ("ÀÉ", "àé", True),
        ("İ", "_", True),
        ("ΑΣ", "ας", False),
        ("50%", "50\\%", True),
        ("50a", "50\\%", False),
    ],
)
def test_a_pattern_is_met(text: str, pattern: str, is_met: bool) -> None:
    """Ends, pieces that overlap, letters, and wildcards that are data."""
    assert Pattern(pattern).matches(text) is is_met


@pytest.mark.once
@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 5_000 + "%b",
        "%a_" * 5_000 + "%b",
        "%" + "a" * 60_000 + "b%",
        "%" + "a_" * 5_000 + "b%",
        "%" * 10_000 + "b",
        "%_%" * 5_000 + "b",
        "%" + "aaaaaaa_b" * 2_000 + "%",
    ],
)
def test_a_pattern_is_soon_decided(pattern: str) -> None:
    """Of a text as long as a draft can be, however much of it nearly fits."""
    began = time.process_time()

    assert not Pattern(pattern).matches("a" * 250_000)
    assert time.process_time() - began < 5
