r"""Patterns of ILIKE, decided of a text as PostgreSQL decides them, in time that grows with both.

A pattern consists of pieces between its `%`: the first begins the text, the last ends it, and each
of the others is looked for from where the one before ended. Where it is found first is as good as
anywhere later, so nothing is tried twice. `_` is any character, and `\` makes the next one itself.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ANY = None

Piece = Sequence[str | None]
"""Characters in small letters; `None` for any."""


def is_like(text: str, pattern: str) -> bool:
    """Tell whether a text fits a pattern, in any case.

    Args:
        text: any.
        pattern: does not end in a backslash that stands for nothing.
    """
    text = _small(text)
    first, *others = _pieces(_small(pattern))
    if not others:
        return len(text) == len(first) and _fits(text, first, 0)
    *between, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not _fits(text, first, 0) or not _fits(text, last, end):
        return False
    for piece in between:
        found = _find(text, piece, at, end)
        if found is None:
            return False
        at = found + len(piece)
    return True


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
    return [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]


def _fits(text: str, piece: Piece, at: int) -> bool:
    return all(char in (_ANY, text[n]) for n, char in enumerate(piece, start=at))


def _find(text: str, piece: Piece, start: int, end: int) -> int | None:
    """Return the first place of a piece in a part of a text."""
    if _ANY not in piece:
        found = text.find("".join(map(str, piece)), start, end)
        return None if found < 0 else found
    # a bit for each place in the piece up to which the text fits, all of them moved at once
    anywhere = sum(1 << n for n, char in enumerate(piece) if char is _ANY)
    places = dict.fromkeys(filter(None, piece), anywhere)
    for n, char in enumerate(piece):
        if char is not _ANY:
            places[char] |= 1 << n
    reached, whole = 0, 1 << (len(piece) - 1)
    for at in range(start, end):
        reached = (reached << 1 | 1) & places.get(text[at], anywhere)
        if reached & whole:
            return at - len(piece) + 1
    return None
