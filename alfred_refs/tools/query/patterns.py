r"""Patterns of ILIKE, decided of a text as PostgreSQL decides them, in time that grows with both.

A pattern consists of pieces between its `%`: the first begins the text, the last ends it, and each
of the others is looked for from where the one before ended. Where it is found first is as good as
anywhere later, so nothing is tried twice. `_` is any character, and `\` makes the next one itself.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_ANY = None

# in the time in which two JSON values are compared, so many of these are
_LETTERS = 3  # one by one
_FAST_LETTERS = 50  # by C
_PIECES = 3


class Pattern:
    """A pattern, read once for all texts.

    Args:
        pattern: does not end in a backslash that stands for nothing.
    """

    def __init__(self, pattern: str) -> None:
        self._length = len(pattern)
        self._first, *others = pieces = _pieces(_small(pattern))
        self._count = len(pieces)
        self._is_plain = all(each.letters is not None for each in pieces)
        self._last = others.pop() if others else None
        self._between = others

    def fits(self, text: str) -> bool:
        """Tell whether a text fits the pattern, in any case."""
        text, first, last = _small(text), self._first, self._last
        if last is None:
            return len(text) == len(first) and first.stands(text, 0)
        at, end = len(first), len(text) - len(last)
        if at > end or not first.stands(text, 0) or not last.stands(text, end):
            return False
        for piece in self._between:
            found = piece.found(text, at, end)
            if found is None:
                return False
            at = found + len(piece)
        return True

    def cost(self, text: str) -> int:
        """Return how many comparisons of JSON values take as long as one of a text with this."""
        if text.isascii() and self._is_plain:
            return len(text) // _FAST_LETTERS + min(self._count, len(text)) // _PIECES
        wide = 1 + self._length // 1_000  # what is compared at once, where each may be any letter
        return len(text) * wide // _LETTERS


class Piece:
    """What stands between two `%` of a pattern.

    Args:
        characters: in small letters; `None` for any.

    Attributes:
        letters: the piece as a text; `None` if any letter may be in it.
    """

    def __init__(self, characters: Sequence[str | None]) -> None:
        self._characters = characters
        letters = [char for char in characters if char is not _ANY]
        self.letters = "".join(letters) if len(letters) == len(characters) else None
        self._anywhere, self._places = (0, {}) if self.letters is not None else _bits(characters)

    def __len__(self) -> int:
        return len(self._characters)

    def stands(self, text: str, at: int) -> bool:
        """Tell whether the piece stands at a place in a text."""
        if self.letters is not None:
            return text.startswith(self.letters, at)
        return all(char in (_ANY, text[n]) for n, char in enumerate(self._characters, start=at))

    def found(self, text: str, start: int, end: int) -> int | None:
        """Return the first place of the piece in a part of a text."""
        if self.letters is not None:
            found = text.find(self.letters, start, end)
            return None if found < 0 else found
        anywhere, places = self._anywhere, self._places
        reached, whole = 0, 1 << (len(self) - 1)
        for at in range(start, end):
            reached = (reached << 1 | 1) & places.get(text[at], anywhere)
            if reached & whole:
                return at - len(self) + 1
        return None


def _small(text: str) -> str:
    """Return a text in small letters, as many as there were: that of some is two."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _pieces(pattern: str) -> list[Piece]:
    pieces: list[list[str | None]] = [[]]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY if part == "_" else part[-1])
    return [Piece(each) for each in [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]]


def _bits(characters: Sequence[str | None]) -> tuple[int, Mapping[str, int]]:
    """Return where any letter may be, and where each may: a bit for each place.

    Those up to which a text fits are moved along it all at once.
    """
    anywhere = sum(1 << n for n, char in enumerate(characters) if char is _ANY)
    places = dict.fromkeys(filter(None, characters), anywhere)
    for n, char in enumerate(characters):
        if char is not _ANY:
            places[char] |= 1 << n
    return anywhere, places
