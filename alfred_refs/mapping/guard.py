"""Find keys in text, and put something else in their place.

Text comes in, and text without UUIDs goes out: `name` says what stands for each, and what it does
not know becomes a placeholder. A UUID is recognised in any spelling: with dashes or without, in
capitals, in braces, as `UUID('...')` and as a URN. A longer run of hexadecimal digits is taken to
have a key in it, because where one would begin cannot be told. Numbers and other text are not
keys by their look. Pure: nothing is minted and nothing is asked.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

HIDDEN = "<key>"
"""What stands for a key that has no ref."""

_DIGITS = 32  # of a UUID

# `UUID('...')` and `urn:uuid:...` are spellings of the whole; braces stay where they are
_SPELLED = r"(?P<repr>\bUUID\(['\"])?(?:\burn:uuid:)?(?P<key>{})(?(repr)['\"]\))"
_HEX = "[0-9a-f]"
_PATTERNS = [
    re.compile(_SPELLED.format(digits), re.IGNORECASE | re.ASCII)
    for digits in (
        # as everyone writes it, whatever stands beside it
        f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
        # PostgreSQL reads dashes elsewhere too, Python anywhere
        f"{_HEX}(?:-?{_HEX}){{{_DIGITS - 1},}}",
    )
]

# what the others have in common: one look tells that there is nothing to find
_RUN = re.compile(f"{_HEX}(?:-?{_HEX}){{{_DIGITS - 1}}}", re.IGNORECASE | re.ASCII)

Name = Callable[[uuid.UUID], str | None]
"""Says what a key is called, `None` if it has no name."""


def find_keys(text: str) -> list[str]:
    """Return what in the text spells a key, in order, as it is spelled there."""
    return [match["key"] for match in _matches(text)]


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where a key is spelled in the text, in order; prefixes are left out."""
    if len(text) >= _DIGITS and _RUN.search(text) is not None:
        yield from (match.span("key") for match in _matches(text))


def scrub(text: str, name: Name = lambda _: None) -> str:
    """Return the text with a name, or `HIDDEN`, in place of each key."""
    pieces, end = [], 0
    for match in _matches(text):
        shown = _shown(match["key"], name)
        pieces += [text[end : match.start()], repr(shown) if match["repr"] else shown]
        end = match.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _shown(spelled: str, name: Name) -> str:
    digits = spelled.replace("-", "")
    known = name(uuid.UUID(digits)) if len(digits) == _DIGITS else None
    return HIDDEN if known is None else known


def _matches(text: str) -> Iterator[re.Match[str]]:
    return _between(text, 0, len(text), _PATTERNS)


def _between(
    text: str, start: int, end: int, patterns: list[re.Pattern[str]]
) -> Iterator[re.Match[str]]:
    """Yield what the first pattern finds, and between its finds what the others do."""
    if not patterns or end - start < _DIGITS:
        return
    first, *others = patterns
    for match in first.finditer(text, start, end):
        yield from _between(text, start, match.start(), others)
        yield match
        start = match.end()
    yield from _between(text, start, end, others)
