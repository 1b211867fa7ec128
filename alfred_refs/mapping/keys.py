r"""Refs and keys: types, policy, keys in text and the marks that replace them.

The grammar of refs: `{entity}_{n}` for a saved row, `gen_{entity}_{n}` for a draft.

Text comes in and a parsed `Ref` goes out, and the other way round. Pure: nothing here knows
whether a ref exists.

Keys as values: what may be a key, how the registry stores it, how a cache looks it up.

A key is a `uuid.UUID`, an `int`, a `str`, or a tuple of these for a composite key. `encode` and
`decode` are inverse; the first byte says which kind follows, so that one `bytea` column holds
every kind in the least space: 17 bytes for a UUID, where its text takes 37.

What an application decides about refs, once, for all its conversations.

Find keys in text, and put something else in their place.

Text comes in, and text without UUIDs goes out: `name` says what stands for each, and what it does
not know becomes a placeholder. A UUID is recognised in any spelling: with dashes or without, in
capitals, in braces, as `UUID('...')` and as a URN. A longer run of hexadecimal digits is taken to
have a key in it, because where one would begin cannot be told. Numbers and other text are not
keys by their look. Pure: nothing is minted and nothing is asked.

Marks: what stands for keys inside a text that a model sees, and the way back, to the letter.

    see a508000d-9b55-40f0-8886-dbdd88bd2de2   <->   see <product_2>
    see A508000D9B5540F08886DBDD88BD2DE2       <->   see <product_2:HEX>
    see <product_2>                            <->   see <\product_2>

Text comes in and text goes out: `encode` puts a mark in the place of each key, in any spelling
that `guard` finds, and `decode` is its inverse whatever the text is. A key of one of four common
spellings is named as the UUID that it is; any other run of that many hexadecimal digits is named
as the text that it is, piece by piece, because a key may be in it. Text that merely looks like a
mark has a backslash put in, and taken out again. A text that was cut ends in a mark of that, which
stands for nothing. Pure: who has which ref is told by the caller.

Find keys in what is about to reach a model, or has: whole ones, split ones, cut ones.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DRAFT = "gen_"
"""What the refs of drafts begin with, and no name of an entity does."""

KEY = "key"
"""The entity of keys that stand in texts and have no other ref: no class has this name."""

_ENTITY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_NUMBERED = re.compile(r".*_[0-9]+", re.ASCII)
_REF = re.compile(r"(?P<draft>gen_)?(?P<entity>[a-z][a-z0-9_]*)_(?P<number>[1-9][0-9]{0,17})")

MAX_NUMBER = 2**31 - 1
"""Numbers are `integer` columns in the registry: two thousand million rows of one entity."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A parsed ref. Refs sort naturally: `recipe_2` before `recipe_10`."""

    entity: str
    number: int
    draft: bool = False

    def __str__(self) -> str:
        return f"{DRAFT if self.draft else ''}{self.entity}_{self.number}"


def parse_ref(text: str) -> Ref | None:
    """Return the ref that the text spells, or `None` if it spells none.

    The spelling is exact: lower case, no padding, no surrounding space.
    """
    match = _REF.fullmatch(text)
    if match is None or int(match["number"]) > MAX_NUMBER:
        return None
    return Ref(match["entity"], int(match["number"]), draft=match["draft"] is not None)


def draft_named(text: str) -> Ref | None:
    """Return the ref that the text spells, if it is a draft's."""
    ref = parse_ref(text) if text.startswith(DRAFT) else None
    return ref if ref is not None and ref.draft else None


def is_entity_name(text: str) -> bool:
    """Tell whether refs of an entity of this name can be told from all others.

    A name that starts with `gen_` would read as a draft's, and one that ends in `_` and digits
    as a ref.
    """
    return (
        _ENTITY.fullmatch(text) is not None
        and not text.startswith(DRAFT)
        and _NUMBERED.fullmatch(text) is None
    )


Key = uuid.UUID | int | str | tuple["Key", ...]

EntityKey = tuple[str, Key]
"""An entity's name and one of its keys."""

_UUID, _INTEGER, _STRING, _TUPLE = b"u", b"i", b"s", b"t"
_LENGTH_BYTES = 4


def token_of(key: Key) -> Any:
    """Return what a key is looked up by in memory.

    A UUID goes by its number: `UUID.__hash__` is a Python function, `int.__hash__` is not, and
    two look-ups are made for every row.
    """
    return key.int if isinstance(key, uuid.UUID) else key


def encode(key: Key) -> bytes:
    """Return the bytes that stand for the key in the registry.

    Raises:
        TypeError: the value is not of a type that keys have; the value is not repeated.
    """
    match key:
        case uuid.UUID():
            return _UUID + key.bytes
        case bool():
            raise TypeError("a key cannot be a bool")
        case int():
            return _INTEGER + key.to_bytes(key.bit_length() // 8 + 1, signed=True)
        case str():
            return _STRING + key.encode()
        case tuple():
            parts = map(encode, key)
            return _TUPLE + b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in parts)
        case _:
            raise TypeError(f"a key cannot be a {type(key).__name__}")


def decode(data: bytes) -> Key:
    """Return the key that `encode` made the bytes of."""
    kind, body = data[:1], data[1:]
    if kind == _UUID:
        return uuid.UUID(bytes=body)
    if kind == _INTEGER:
        return int.from_bytes(body, signed=True)
    if kind == _STRING:
        return body.decode()
    return tuple(decode(part) for part in _parts(body))


def spells_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in any of the spellings that Python reads."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _parts(data: bytes) -> Iterator[bytes]:
    while data:
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
        yield data[_LENGTH_BYTES:end]
        data = data[end:]


KeyType = Literal["uuid", "integer", "string"]


@dataclass(frozen=True, slots=True)
class RefPolicy:
    """Which keys become refs, and what their entities and rows are called.

    Attributes:
        key_types: the types of key that become refs. Strings are left out by default: they are
            often readable names already, such as a country code.
        exclude: mapped classes, tables by name (`"countries"`) and columns by name
            (`"recipes.legacy_id"`) or attribute whose keys stay as they are.
        names: entity names by mapped class or table name, for classes that cannot carry a
            `__ref_name__` of their own.
        labels: by mapped class, the attribute that says what people call a row, or a function of
            an instance as far as it is loaded; for classes that cannot carry a `__ref_label__`
            of their own, or are to have another one. `None`: no label.

    Example:
        >>> policy = RefPolicy(names={Recipe: "dish"}, exclude=(User,))
        >>> registry = RefRegistry(engine, policy=policy)
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.execute(select(Recipe.id, Recipe.user_id)).first()
        ('dish_1', 1)
    """

    key_types: tuple[KeyType, ...] = ("uuid", "integer")
    exclude: tuple[Any, ...] = ()
    names: Mapping[type[Any] | str, str] = field(default_factory=dict)
    labels: Mapping[type[Any], str | Callable[[Any], str | None] | None] = field(
        default_factory=dict
    )


HIDDEN = "<key>"
"""What stands for a key that has no ref."""

_DIGITS = 32  # of a UUID

# `UUID('...')` and `urn:uuid:...` are spellings of the whole; braces stay where they are
_SPELLED = r"(?P<repr>\bUUID\(['\"])?(?:\burn:uuid:)?(?P<key>{})(?(repr)['\"]\))"
_LOWER_HEX = "[0-9a-f]"
_PATTERNS = [
    re.compile(_SPELLED.format(digits), re.IGNORECASE | re.ASCII)
    for digits in (
        # as everyone writes it, whatever stands beside it
        f"{_LOWER_HEX}{{8}}-{_LOWER_HEX}{{4}}-{_LOWER_HEX}{{4}}-{_LOWER_HEX}{{4}}-{_LOWER_HEX}{{12}}",
        # PostgreSQL reads dashes elsewhere too, Python anywhere
        f"{_LOWER_HEX}(?:-?{_LOWER_HEX}){{{_DIGITS - 1},}}",
    )
]

# what the others have in common: one look tells that there is nothing to find
_RUN = re.compile(f"{_LOWER_HEX}(?:-?{_LOWER_HEX}){{{_DIGITS - 1}}}", re.IGNORECASE | re.ASCII)

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
        shown = _replace_uuid(match["key"], name)
        pieces += [text[end : match.start()], repr(shown) if match["repr"] else shown]
        end = match.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _replace_uuid(spelled: str, name: Name) -> str:
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
class KeySpelling:
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

    def spelling_of(self, key: uuid.UUID) -> str:
        """Return a key in the spelling that is meant."""
        return _SPELLINGS[self.spelling](key)


class CutTextError(ValueError):
    """A text bears the mark of a cut: it is not all that there is."""


def has_marks(text: str) -> bool:
    """Tell whether there is a mark in a text, or what looks like one."""
    return "<" in text and _MARK.search(text) is not None


def keys_in(text: str) -> Iterator[KeySpelling]:
    """Yield what `encode` puts marks in the place of, in order."""
    for start, end in spans(text):
        yield from _spellings(text[start:end])


def encode_marks(text: str, mark_of: Callable[[KeySpelling], Mark]) -> str:
    """Return a text with marks in the place of keys."""
    pieces, done = [], 0
    for start, end in spans(text):
        pieces.append(_escape_marks(text[done:start]))
        pieces += [str(mark_of(each)) for each in _spellings(text[start:end])]
        done = end
    return "".join([*pieces, _escape_marks(text[done:])])


def decode_marks(text: str, text_of: Callable[[Mark], str]) -> str:
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
    through = (start for start, end in spans(text) if start < most < end)
    return text[: next(through, most)]


def cut_mark(more: int) -> str:
    """Return what stands for so many characters that are not shown."""
    return f"<cut: {more} more characters>"


def _mark(match: re.Match[str]) -> Mark:
    if match["ref"] is None:
        raise CutTextError
    return Mark(match["ref"], match["spelling"] or "")


def _escape_marks(text: str) -> str:
    return _MARK.sub(r"<\\\g<escape>\g<said>>", text) if "<" in text else text


def _spellings(text: str) -> Iterator[KeySpelling]:
    """Yield a key as one of the common spellings, or else its letters, piece by piece."""
    key = _key(text)
    for spelling, spell in _SPELLINGS.items():
        if key is not None and spell(key) == text:
            yield KeySpelling(text, key, spelling)
            return
    for start in range(0, len(text), _PIECE):
        yield KeySpelling(text[start : start + _PIECE])


def _key(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


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
    found = [FoundKey(start, end, "whole", text[start:end]) for start, end in spans(text)]
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


def replace_keys(text: str, name: Name, known: Iterable[uuid.UUID] = ()) -> str:
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
        shown = (None if key is None else name(key)) or HIDDEN
        before, after = text[end : each.start], text[each.end : each.end + 1]
        # beside a letter or a digit a ref would be another one
        is_ref = shown != HIDDEN
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
