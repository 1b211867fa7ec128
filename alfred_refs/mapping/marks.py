r"""Marks: what stands for keys inside a text that a model sees, and the way back, to the letter.

    see a508000d-9b55-40f0-8886-dbdd88bd2de2   <->   see <product_2>
    see A508000D9B5540F08886DBDD88BD2DE2       <->   see <product_2:HEX>
    see <product_2>                            <->   see <\product_2>

Text comes in and text goes out: `encode` puts a mark in the place of each key, in any spelling
that `guard` finds, and `decode` is its inverse whatever the text is. A key of one of four common
spellings is named as the UUID that it is; any other run of that many hexadecimal digits is named
as the text that it is, piece by piece, because a key may be in it. Text that merely looks like a
mark has a backslash put in, and taken out again. A text that was cut ends in a mark of that, which
stands for nothing. Pure: who has which ref is told by the caller.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import guard

_PIECE = 200  # characters of a text that is kept as a key: an index has them all

# what a mark says of the spelling -> how it is spelt
_SPELLINGS: dict[str, Callable[[uuid.UUID], str]] = {
    "": str,
    "hex": lambda key: key.hex,
    "upper": lambda key: str(key).upper(),
    "HEX": lambda key: key.hex.upper(),
}

_MARK = re.compile(
    r"<(?P<escape>\\*)(?P<said>"
    r"(?P<ref>[a-z][a-z0-9_]*_[1-9][0-9]{0,17})(?::(?P<spelling>hex|upper|HEX))?"
    r"|cut: (?:[0-9]+ more [a-z]+|nested deeper))>"
)


@dataclass(frozen=True, slots=True)
class Spelt:
    """A key as it stands in a text, or a piece of what may have one in it.

    Attributes:
        text: the same letters.
        key: the UUID, where it is spelt in a common way.
        spelling: which one.
    """

    text: str
    key: uuid.UUID | None = None
    spelling: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands for a key: its ref, and how it is spelt."""

    ref: str
    spelling: str = ""

    def __str__(self) -> str:
        return f"<{self.ref}:{self.spelling}>" if self.spelling else f"<{self.ref}>"

    def spelt(self, key: uuid.UUID) -> str:
        """Return a key in the spelling that is meant."""
        return _SPELLINGS[self.spelling](key)


class CutTextError(ValueError):
    """A text bears the mark of a cut: it is not all that there is."""


def has_marks(text: str) -> bool:
    """Tell whether there is a mark in a text, or what looks like one."""
    return "<" in text and _MARK.search(text) is not None


def keys_in(text: str) -> Iterator[Spelt]:
    """Yield what `encode` puts marks in the place of, in order."""
    for start, end in guard.spans(text):
        yield from _spelt(text[start:end])


def encode(text: str, mark_of: Callable[[Spelt], Mark]) -> str:
    """Return a text with marks in the place of keys."""
    pieces, done = [], 0
    for start, end in guard.spans(text):
        pieces.append(_escaped(text[done:start]))
        pieces += [str(mark_of(each)) for each in _spelt(text[start:end])]
        done = end
    return "".join([*pieces, _escaped(text[done:])])


def decode(text: str, text_of: Callable[[Mark], str]) -> str:
    """Return a text with what marks stand for in their place.

    Raises:
        CutTextError: it was cut, and is not all that there was.
    """

    def stored(match: re.Match[str]) -> str:
        if match["escape"]:
            return f"<{match['escape'][1:]}{match['said']}>"
        return text_of(_mark(match))

    return _MARK.sub(stored, text) if "<" in text else text


def marks_in(text: str) -> list[Mark]:
    """Return the marks in a text, in order.

    Raises:
        CutTextError: it was cut, and is not all that there was.
    """
    found = _MARK.finditer(text) if "<" in text else ()
    return [_mark(match) for match in found if not match["escape"]]


def head(text: str, most: int) -> str:
    """Return at most so many characters of a text, and no key that would be cut through."""
    if len(text) <= most:
        return text
    through = (start for start, end in guard.spans(text) if start < most < end)
    return text[: next(through, most)]


def cut(more: int) -> str:
    """Return what stands for so many characters that are not shown."""
    return f"<cut: {more} more characters>"


def _mark(match: re.Match[str]) -> Mark:
    if match["ref"] is None:
        raise CutTextError
    return Mark(match["ref"], match["spelling"] or "")


def _escaped(text: str) -> str:
    return _MARK.sub(r"<\\\g<escape>\g<said>>", text) if "<" in text else text


def _spelt(text: str) -> Iterator[Spelt]:
    """Yield a key as one of the common spellings, or else its letters, piece by piece."""
    key = _key(text)
    for spelling, spell in _SPELLINGS.items():
        if key is not None and spell(key) == text:
            yield Spelt(text, key, spelling)
            return
    for start in range(0, len(text), _PIECE):
        yield Spelt(text[start : start + _PIECE])


def _key(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
