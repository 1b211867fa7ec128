"""Find keys in what is about to reach a model, or has: whole ones, split ones, cut ones.

Text comes in; out comes where a key is, and of which kind:

- `whole`: a UUID in any spelling: with dashes or without, in capitals, in braces, as a URN. A
  longer run of hexadecimal digits is taken to have one in it, as `guard` does.
- `split`: the same with Markdown, escapes, characters of no width or the end of a line between,
  `a508000d-**9b55**-40f0-8886-dbdd88bd2de2`, and with anything short in place of its dashes:
  others of typography, spaces, tags, `%2D`.
- `cut`: the beginning, the end or both of one that was shortened, `..c69607bb`, `a508000d-9b55…`
  or `a508…2de2`: what a model completes by inventing the rest.

Integers and words are no keys by their look; nor are shorter hexadecimal numbers, colours and
abbreviated commits, unless dots stand beside them. Pure.

```python
[each.kind for each in found_in("see ..c69607bb and A508000D9B5540F08886DBDD88BD2DE2")]
# ['cut', 'whole']
```
"""

from __future__ import annotations

import re
import uuid
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from . import guard

Kind = Literal["whole", "split", "cut"]

_HEX = "[0-9A-Fa-f]"
# what Markdown, a terminal or a cautious program puts between letters
_MARKUP = (
    "[*_`~\\\\\u0000\u00ad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_GAP = f"{_MARKUP}{{0,4}}"
# a tag, or a character as HTML, URLs and JSON write it: it may have letters that are no digits
_ENCODED = r"<[^<>]{0,40}>|&[#0-9A-Za-z]{2,8};|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
# what may stand for a dash: five groups of digits of these lengths are a UUID whatever it is
_DASH = rf"(?:{_ENCODED}|[\W_]){{1,16}}?"
_COLOUR = r"\x1b\[[0-9;]{0,8}m"  # of a terminal
# between two digits a line may end, be it a quoted one, and a tag or a colour begin
_BREAK = rf"(?:\r?\n[ \t>#|]{{0,12}}|<[^<>]{{0,40}}>|{_COLOUR}|{_GAP})"

_SPLIT = re.compile(
    rf"(?<!{_HEX})"
    + _DASH.join(f"{_HEX}(?:{_BREAK}{_HEX}){{{more}}}" for more in (7, 3, 3, 3, 11))
    + rf"(?!{_HEX})"
    + rf"|(?<!{_HEX}){_HEX}(?:{_GAP}{_HEX}){{31}}(?!{_HEX})"
)
_DOTS = r"(?:\.{2,}|[…⋯]|\[\.{3}\]|-?\*{3,}(?:-\*{3,})*)"
_GROUPS = rf"(?:-{_HEX}{{4}}){{0,3}}(?:-{_HEX}{{0,12}})?"
_CUT = re.compile(
    rf"(?<![0-9A-Za-z]){_HEX}{{4,8}}{_GROUPS}{_DOTS}-?(?:{_HEX}{{4}}-){{0,3}}{_HEX}{{4,12}}"
    r"(?![0-9A-Za-z])"  # both ends
    rf"|(?<![0-9A-Za-z#])(?:{_HEX}{{8}}{_GROUPS}|{_HEX}{{6,7}}){_DOTS}"  # its beginning
    rf"|{_DOTS}-?(?:{_HEX}{{1,12}}-)?(?:{_HEX}{{4}}-){{0,3}}{_HEX}{{6,12}}(?![0-9A-Za-z])"  # end
    # without dots, most of it
    rf"|(?<![0-9A-Za-z-]){_HEX}{{8}}(?:-{_HEX}{{4}}){{2,3}}(?:-{_HEX}{{1,11}})?(?![0-9A-Za-z-])"
    rf"|(?<![0-9A-Za-z-])(?:{_HEX}{{1,7}}-)?(?:{_HEX}{{4}}-){{2,3}}{_HEX}{{12}}(?![0-9A-Za-z-])"
)
# a look at this tells whether there is anything to find
_LIKELY = re.compile(
    rf"{_HEX}{{6}}|{_HEX}{{4}}{_DOTS}|{_HEX}{_MARKUP}+{_HEX}"
    rf"|{_HEX}{_GAP}-{_GAP}(?:\s{{1,8}}{_GAP})?{_HEX}"
)
_NUMBERS = re.compile(r"\d+(?:\s+\d+)+")  # in columns
_FEWEST = 6


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key in a text.

    Attributes:
        start: where it begins.
        end: where the text goes on.
        kind: how it is spelt.
        text: what stands there; not shown.
    """

    start: int
    end: int
    kind: Kind
    text: str = field(repr=False)

    @property
    def key(self) -> uuid.UUID | None:
        """The UUID, where all of it is there and nothing besides."""
        digits = _digits(self.text)
        return uuid.UUID(digits) if len(digits) == 32 and self.kind != "cut" else None  # noqa: PLR2004

    @property
    def masked(self) -> str:
        """Enough to find it in the text again, and not enough to use it."""
        return f"{self.text.lstrip('.…')[:4]}…"


def found_in(text: str) -> list[FoundKey]:
    """Return the keys in a text, in order."""
    if len(text) < _FEWEST or _LIKELY.search(text) is None:
        return []
    found = [FoundKey(start, end, "whole", text[start:end]) for start, end in guard.spans(text)]
    found += _beside(found, text, _SPLIT, "split")
    found += _beside(found, text, _CUT, "cut")
    return sorted(found, key=lambda each: each.start)


def _beside(
    found: list[FoundKey], text: str, pattern: re.Pattern[str], kind: Kind
) -> list[FoundKey]:
    """Return what a pattern finds where nothing was found yet."""
    taken = sorted((each.start, each.end) for each in found)
    return [
        FoundKey(*match.span(), kind, match[0])
        for match in pattern.finditer(text)
        if not _is_taken(taken, *match.span())
        if (_is_key_like(match[0]) if kind == "cut" else not _NUMBERS.fullmatch(match[0]))
    ]


def _is_taken(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    """Tell whether a stretch of a text meets one of several that do not meet each other."""
    after = bisect_left(taken, (end, 0))
    return after > 0 and taken[after - 1][1] > start


def _is_key_like(text: str) -> bool:
    """Tell whether a piece has digits and letters: others are numbers, or words."""
    digits = _digits(text)
    return not (digits.isdigit() or digits.isalpha())


def replaced(text: str, name: guard.Name, known: Iterable[uuid.UUID] = ()) -> str:
    """Return a text with a name, or `HIDDEN`, in the place of each key.

    Args:
        text: any.
        name: says what a UUID is called.
        known: those that a cut one may be of: it is named where exactly one fits.
    """
    found = found_in(text)
    keys = [*known] if any(each.kind == "cut" for each in found) else []
    pieces, end = [], 0
    for each in found:
        key = each.key if each.kind != "cut" else _whole_of(each.text, keys)
        shown = (None if key is None else name(key)) or guard.HIDDEN
        before, after = text[end : each.start], text[each.end : each.end + 1]
        # beside a letter or a digit a ref would be another one
        is_ref = shown != guard.HIDDEN
        pieces += [before, " " if is_ref and _WORD.search(before[-1:]) else "", shown]
        pieces.append(" " if is_ref and _WORD.search(after) else "")
        end = each.end
    return "".join([*pieces, text[end:]])


_WORD = re.compile(r"\w")


def _digits(text: str) -> str:
    return re.sub(r"[^0-9a-f]", "", re.sub(rf"{_ENCODED}|{_COLOUR}", "", text).lower())


def _whole_of(cut: str, keys: list[uuid.UUID]) -> uuid.UUID | None:
    """Return the key that a cut one is of, if exactly one begins and ends so."""
    begin, *rest = map(_digits, re.split(_DOTS, cut))  # without dots it is a beginning
    end = "".join(rest)
    fitting = [k for k in keys if k.hex.startswith(begin) and k.hex.endswith(end)]
    return fitting[0] if len(fitting) == 1 else None
