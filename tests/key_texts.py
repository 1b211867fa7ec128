"""Hypothesis strategy for texts with keys in every spelling, and with look-alikes of key marks."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from hypothesis import strategies as st

SPELLINGS: list[Callable[[uuid.UUID], str]] = [
    str,
    lambda key: key.hex,
    lambda key: str(key).upper(),
    lambda key: key.hex.upper(),
    lambda key: str(key).title(),
    lambda key: f"{{{key}}}",
    lambda key: key.urn,
    repr,
    lambda key: "-".join(key.hex),
    lambda key: key.hex[:16] + "-" + key.hex[16:],
    lambda key: f"ab{key}cd",
    lambda key: f"ab{key.hex}cd",
    lambda key: str(key)[:-1],
    lambda key: key.hex * 9,
]

_SAID = [
    *("key_1", "key_2:hex", "recipe_12", "note_1", "order_1", "gen_note_1", "key_0", "key"),
    *("cut: 5 more characters", "cut: 1 more levels"),
]

# PostgreSQL's text has neither NUL nor lone surrogates
_LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


def _looks_like_a_mark(slashes: int, said: str, end: str) -> str:
    return "<" + "\\" * slashes + said + end


def texts(keys: st.SearchStrategy[uuid.UUID]) -> st.SearchStrategy[str]:
    """Generate texts that contain some of these keys."""
    piece = st.one_of(
        st.text(_LETTERS, max_size=20),
        st.text("<>\\:_0123456789abcdefABCDEF-kyxr", max_size=40),
        st.builds(lambda spell, key: spell(key), st.sampled_from(SPELLINGS), keys),
        st.builds(
            _looks_like_a_mark,
            st.integers(0, 3),
            st.sampled_from(_SAID),
            st.sampled_from([">", ">", "", ">>", "_1>"]),
        ),
    )
    return st.lists(piece, max_size=6).map("".join)
