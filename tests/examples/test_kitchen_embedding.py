"""Tests for examples.kitchen.embedding."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from examples.kitchen.demo import ROOT
from examples.kitchen.embedding import DIMENSIONS, embed


def _likeness(one: str, other: str) -> float:
    """Return the cosine of two texts."""
    first, second = embed(one), embed(other)
    assert first is not None
    assert second is not None
    return sum(a * b for a, b in zip(first, second, strict=True))


@given(st.text())
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    """A text gives as many numbers as the column takes, of length 1, or none at all."""
    vector = embed(text)
    assert vector is None or len(vector) == DIMENSIONS
    assert vector is None or math.hypot(*vector) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "...", "some of the", None])
def test_a_text_without_words_has_no_vector(text: str | None) -> None:
    """Nothing, punctuation and words that any recipe has are near to nothing."""
    assert embed(text) is None


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("lentils", "lentil soup", "chocolate cake"),
        ("CRÈME brulee", "crème brûlée", "cream cheese"),
        ("pancake", "oat pancakes", "oat porridge"),
        ("something with beef", "beef stew", "something with fish"),
    ],
)
def test_texts_that_share_words_are_near(text: str, near: str, far: str) -> None:
    """Plurals, accents and case hardly part texts, and stop words do not bring them near."""
    assert _likeness(text, near) > _likeness(text, far) + 0.2


def test_a_short_text_weighs_as_much_as_a_long_one() -> None:
    """A name is not drowned in the description beside it."""
    vector = embed("risotto", "simmer slowly under constant stirring until the liquid is gone")
    name = embed("risotto")
    assert vector is not None
    assert name is not None
    cosine = sum(a * b for a, b in zip(vector, name, strict=True))
    assert cosine == pytest.approx(math.sqrt(0.5), abs=0.1)


def test_another_process_makes_the_same_vector() -> None:
    """It does not depend on Python's own hashes, which differ from process to process."""
    program = "from examples.kitchen.embedding import embed; print(embed('lentil soup'))"
    said = [
        subprocess.check_output(
            [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONHASHSEED": seed}, text=True
        )
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] == f"{embed('lentil soup')}\n"
