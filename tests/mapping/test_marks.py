"""Keys in texts as marks, and back: whatever the text is, not a letter changes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, strategies as st

from alfred_refs.mapping.keys import (
    CutTextError,
    KeySpelling,
    Mark,
    cut_mark,
    decode_marks,
    encode_marks,
    find_keys,
    has_marks,
    head,
    keys_in,
    marks_in,
)
from tests.key_texts import texts

pytestmark = pytest.mark.once

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
DIGITS = uuid.UUID(int=int("12345678901234567890123456789012", 16))


class Book:
    """Gives each thing a ref, and tells what it was of."""

    def __init__(self) -> None:
        self.refs: dict[uuid.UUID | str, str] = {}

    def mark_of(self, spelt: KeySpelling) -> Mark:
        """Return a mark with a new number for what is new."""
        known = self.refs.setdefault(spelt.key or spelt.text, f"key_{len(self.refs) + 1}")
        return Mark(known, spelt.spelling)

    def text_of(self, mark: Mark) -> str:
        """Return what it was of."""
        things = {ref: thing for thing, ref in self.refs.items()}
        thing = things[mark.ref]
        return mark.spelling_of(thing) if isinstance(thing, uuid.UUID) else thing


keys = st.one_of(st.uuids(), st.sampled_from([KEY, DIGITS]))


@given(texts(keys))
def test_a_text_comes_back_to_the_letter(text: str) -> None:
    """Whatever stands in it, and beside it; and what is shown has no key."""
    book = Book()

    shown = encode_marks(text, book.mark_of)

    assert find_keys(shown) == []
    assert decode_marks(shown, book.text_of) == text
    assert [str(book.mark_of(each)) for each in keys_in(text)] == [str(m) for m in marks_in(shown)]


@given(texts(keys), st.integers(0, 100))
def test_a_head_has_no_part_of_a_key(text: str, most: int) -> None:
    """It ends before what would be cut through."""
    book, short = Book(), head(text, most)

    assert text.startswith(short)
    assert len(short) <= most
    assert list(keys_in(short)) == list(keys_in(text))[: len(list(keys_in(short)))]
    assert find_keys(encode_marks(short, book.mark_of)) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"see {KEY}.", "see <key_1>."),
        (KEY.hex, "<key_1:hex>"),
        (str(KEY).upper(), "<key_1:upper>"),
        (KEY.hex.upper(), "<key_1:HEX>"),
        (str(DIGITS).upper(), "<key_1>"),
        (str(KEY).title(), "<key_1>"),
        (f"{{{KEY}}}", "{<key_1>}"),
        (KEY.urn, "urn:uuid:<key_1>"),
        (repr(KEY), "UUID('<key_1>')"),
        ("0" * 450, "<key_1><key_1><key_2>"),
        (f"{KEY}{KEY}", "<key_1><key_1>"),
        ("a <key_1> b", "a <\\key_1> b"),
        ("<\\key_1:hex>", "<\\\\key_1:hex>"),
        ("<cut: 1 more characters>", "<\\cut: 1 more characters>"),
        ("<key> <b> <key_0> <Key_1> < key_1>", "<key> <b> <key_0> <Key_1> < key_1>"),
        (f"<{KEY.hex}_1>", "<<key_1:hex>_1>"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    """Each spelling by its mark; what stands around it stays."""
    assert encode_marks(text, Book().mark_of) == shown


def test_what_was_cut_is_not_decoded() -> None:
    """Neither looked through for marks; one that only looks so is text."""
    text = f"all of it…{cut_mark(12)}"

    for look in (lambda: marks_in(text), lambda: decode_marks(text, str)):
        with pytest.raises(CutTextError):
            look()
    assert decode_marks("<\\cut: 12 more characters>", str) == "<cut: 12 more characters>"
    assert [has_marks(each) for each in (text, "<\\key_1>", "a < b", "<b>")] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize(
    ("most", "shown"), [(0, ""), (4, "see "), (5, "see "), (39, "see "), (40, f"see {KEY}")]
)
def test_a_key_is_in_a_head_or_not(most: int, shown: str) -> None:
    """As a whole."""
    assert head(f"see {KEY} or not", most) == shown
