r"""Keys in text: find them, replace them with refs, or mark them so that the text can come back.

One scanner finds whole keys: UUIDs with or without dashes, in capitals, in braces, as
`UUID('...')` and as URNs. A longer run of hexadecimal digits counts as one key, because where a
key would begin in it is unknown. A run of decimal digits is a number: it is replaced only if it is
known to be a key. One UUID in three million has decimal digits only. Three things are built on the
scanner:

- `redact_keys` replaces whole keys in error messages, labels and other short text.
- `encode_marks` and `decode_marks` are inverse functions: a model sees `<recipe_1>` in a stored
  text, and its marks are stored as the keys again, letter for letter.
- `search_keys` also finds keys that are split by markup or line ends, and keys that were cut;
  `replace_keys` replaces those too. They serve text that is about to reach a model.

>>> key = chat.resolve("recipe_1")
>>> redact_keys(f"Key (id)=({key}) is not present", {key: "recipe_1"}.get)
'Key (id)=(recipe_1) is not present'
>>> shown = encode_marks(f"see {key.hex}", lambda spelled: Mark("recipe_1", spelled.spelling))
>>> shown
'see <recipe_1:hex>'
>>> decode_marks(shown, lambda mark: mark.spelling_of(key)) == f"see {key.hex}"
True
>>> search_keys("please delete ..c69607bb")
[FoundKey(start=14, end=24, kind='cut')]

The kinds of key that `search_keys` returns:

- `whole`: a UUID in any spelling, as above.
- `split`: a UUID with Markdown, tags, escapes, line ends or invisible characters between its
  digits, `a508000d-**9b55**-40f0-8886-dbdd88bd2de2`, or with something else for a dash.
- `cut`: the beginning, the middle, the end or both ends of a UUID, `..c69607bb`,
  `a508000d-9b55[…]` or `a508…2de2`, which a model completes by inventing the rest.

All of it takes time linear to the length of any text: no pattern here can read the same characters
in several ways.

Limits: integers and words do not look like keys and are never found; neither are colours,
abbreviated commits and other short hexadecimal numbers, unless dots precede or follow them. Keys
in other digits or another encoding, full width or base64, are not found. The caller knows the refs
of keys: nothing here queries a database or mints a ref.
"""

from __future__ import annotations

import re
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

HIDDEN = "<key>"
"""The replacement for a key that has no ref."""

RefOf = Callable[[uuid.UUID], str | None]
"""Returns the ref of a key, `None` if it has none."""

# Scanner of whole keys

_DIGITS = 32  # of a UUID

# `UUID('...')` and `urn:uuid:...` are spellings as a whole; braces are left in the text.
_SPELLED = r"(?P<repr>(?ai:\bUUID\(['\"]))?(?:(?ai:\burn:uuid:))?(?P<key>{})(?(repr)['\"]\))"
_HEX = "[0-9A-Fa-f]"
# The usual form is searched first, so that digits before or after it are not taken for its own.
_USUAL = re.compile(
    _SPELLED.format("-".join(f"{_HEX}{{{digits}}}" for digits in (8, 4, 4, 4, 12)))
)
# PostgreSQL accepts dashes after every fourth digit, `uuid.UUID` anywhere.
_OTHER = re.compile(_SPELLED.format(f"{_HEX}(?:-?{_HEX}){{{_DIGITS - 1},}}"))
# Part of every match of the two, and of a key without dashes that lost one to four digits. It has
# no optional prefix, so it is quick to rule a text out, and the lookbehind ends most attempts that
# begin inside a run.
_FEWEST_DIGITS = _DIGITS - 4
_RUN = re.compile(f"{_HEX}-?{_HEX}-?{_HEX}(?<!{_HEX}{{4}})(?:-?{_HEX}){{{_FEWEST_DIGITS - 3}}}")


def _scan(text: str) -> Iterator[re.Match[str]]:
    """Yield a match for each whole key in a text, in order, with groups `repr` and `key`."""
    if len(text) < _DIGITS or _RUN.search(text) is None:
        return
    end = 0
    for match in _USUAL.finditer(text):
        if match.start() - end >= _DIGITS:
            yield from _others(text, end, match.start())
        yield match
        end = match.end()
    if len(text) - end >= _DIGITS:
        yield from _others(text, end, len(text))


def _others(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    for match in _OTHER.finditer(text, start, end):
        if not (match.end() - match.start() > _PIECE and is_number(match["key"])):
            yield match


def is_number(key: str) -> bool:
    """Return whether what looks like a key has decimal digits only: it is one only if known."""
    return key.isdigit()


def key_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each whole key in a text, without a prefix as of a URN."""
    for match in _scan(text):
        yield match.span("key")


def whole_keys(text: str) -> list[str]:
    """Return the whole keys in a text, in order, as they are spelled in it."""
    return [match["key"] for match in _scan(text)]


def redact_keys(text: str, ref_of: RefOf = lambda _: None) -> str:
    """Replace each whole key in a text with its ref, or with `HIDDEN` if it has no ref."""
    pieces, end = [], 0
    for match in _scan(text):
        digits = match["key"].replace("-", "")
        ref = ref_of(uuid.UUID(digits)) if len(digits) == _DIGITS else None
        if ref is None and is_number(match[0]):
            continue
        shown = HIDDEN if ref is None else ref
        pieces += [text[end : match.start()], repr(shown) if match["repr"] else shown]
        end = match.end()
    return "".join([*pieces, text[end:]]) if pieces else text


_SURROGATE = re.compile("[\ud800-\udfff]")


def escape_surrogates(text: str) -> str:
    r"""Escape lone surrogates, for example as `\ud800`, so that UTF-8 can encode the text."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode(errors="backslashreplace").decode()


def escape_invisible(text: str, keep: str = "") -> str:
    r"""Escape characters that are invisible or change a text's direction, for example as `\u202e`.

    Args:
        text: any text.
        keep: characters that are left as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store a text: without NUL and lone surrogates."""
    return "\0" not in text and (text.isascii() or _SURROGATE.search(text) is None)


KEY_MARGIN = 100
"""Characters after a cut in which a key that the cut goes through ends, in every spelling."""


def head(text: str, most: int) -> str:
    """Return the first characters of a text, at most so many; a key is never cut through."""
    if len(text) <= most:
        return text
    # no more of the text is searched: a text of megabytes may be one key after the other
    through = (start for start, end in key_spans(text[: most + KEY_MARGIN]) if start < most < end)
    return text[: next(through, most)]


# Known words


def words_in(text: str, words: Iterable[str], joiner: str = "") -> list[str]:
    """Select from many words the ones that a text may contain as whole words.

    Args:
        text: any text.
        words: of one or more characters.
        joiner: as of `WordReplacer`.
    """
    piece = _pieces(joiner)
    pieces = set(piece.findall(text))
    firsts = ((word, piece.match(word)) for word in words)
    return [w for w, first in firsts if first is not None and first[0] in pieces and w in text]


def _pieces(joiner: str) -> re.Pattern[str]:
    letter = rf"\w{re.escape(joiner)}"
    return re.compile(f"[{letter}]++|[^{letter}]")


# Pieces of known words → the pieces that may follow; under `""`, that a word ends here.
_Tree = dict[str, "_Tree"]


class WordReplacer:
    """Replaces known texts where they are whole words, of several at one place the longest.

    >>> WordReplacer({"SKU-1": "product_1"}, joiner="-").replace("SKU-1, SKU-10, x-SKU-1")
    'product_1, SKU-10, x-SKU-1'

    Args:
        shown: the texts, and their replacements.
        joiner: a character that is part of a word, as letters, digits and `_` are.
    """

    def __init__(self, shown: Mapping[str, str], joiner: str = "") -> None:
        self._shown = shown
        self._letter = re.compile(rf"[\w{re.escape(joiner)}]")
        self._pieces = _pieces(joiner)
        self._tree: _Tree = {}
        for text in filter(None, shown):
            node = self._tree
            for piece in self._pieces.findall(text):
                node = node.setdefault(piece, {})
            node[""] = {}

    def replace(self, text: str) -> str:
        """Return a text with replacements, in time linear to its length."""
        if not self._tree:
            return text
        pieces = [*self._pieces.findall(text), ""]
        replaced, start = [], 0
        while start < len(pieces):
            end = self._end(pieces, start)
            word = "".join(pieces[start:end])
            replaced.append(self._shown[word] if end > start else pieces[start])
            start = max(end, start + 1)
        return "".join(replaced)

    def _end(self, pieces: list[str], start: int) -> int:
        """Return the index after the longest word that begins at an index, or the index."""
        longest, node = start, self._tree.get(pieces[start])
        if node is not None and start > 0 and self._letter.match(pieces[start - 1]):
            return start
        end = start
        while node is not None:
            end += 1
            if "" in node and not self._letter.match(pieces[end]):
                longest = end
            node = node.get(pieces[end]) if pieces[end] else None
        return longest


# Marks: `<recipe_1>` in the place of a key


class Verbatim(str):
    """A text that is not searched for keys: a number, or a UUID of a column without keys."""

    __slots__ = ()


_PIECE = 200  # characters of a text that is registered as a key: its index has a size limit

# The suffix of a mark -> the spelling of the key.
_SPELLINGS: dict[str, Callable[[uuid.UUID], str]] = {
    "": str,
    "hex": lambda key: key.hex,
    "upper": lambda key: str(key).upper(),
    "HEX": lambda key: key.hex.upper(),
}

_MARK = re.compile(
    r"<(?P<escape>\\*)(?P<body>"
    r"(?P<ref>[a-z][a-z0-9_]*_[1-9][0-9]{0,17})(?::(?P<spelling>hex|upper|HEX))?"
    r"|cut: (?:[0-9]+ more [a-z]+|nested deeper))>"
)


@dataclass(frozen=True, slots=True)
class KeySpelling:
    """A key as a text spells it, or a piece of a longer run of digits.

    Attributes:
        text: the characters.
        key: the UUID, if it is spelled in one of the four common ways.
        spelling: which of them, as a mark writes it.
    """

    text: str
    key: uuid.UUID | None = None
    spelling: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it has decimal digits only, and so is a key only if it is known."""
        return is_number(self.text)


@dataclass(frozen=True, slots=True)
class Mark:
    """The replacement for a key in a text: its ref, and the spelling of the key."""

    ref: str
    spelling: str = ""

    def __str__(self) -> str:
        return f"<{self.ref}:{self.spelling}>" if self.spelling else f"<{self.ref}>"

    def spelling_of(self, key: uuid.UUID) -> str:
        """Return a key in the spelling that the mark records."""
        return _SPELLINGS[self.spelling](key)


class CutTextError(ValueError):
    """A text contains the mark of a cut, so it is not the whole text."""


def has_marks(text: str) -> bool:
    """Return whether a text has a mark, or something that looks like one."""
    return "<" in text and _MARK.search(text) is not None


def key_spellings(text: str) -> Iterator[KeySpelling]:
    """Yield what `encode_marks` would replace with marks, in order."""
    for start, end in key_spans(text):
        yield from _spellings_of(text[start:end])


def encode_marks(text: str, mark_of: Callable[[KeySpelling], Mark | None]) -> str:
    r"""Replace the keys in a text with marks.

    Text that looks like a mark already gets a backslash: `<product_2>` becomes `<\product_2>`.

    Args:
        text: any text.
        mark_of: returns the mark of a key; `None` if it is a number.
    """
    pieces, done = [], 0
    for start, end in key_spans(text):
        pieces.append(_escape_marks(text[done:start]))
        pieces += [str(mark_of(each) or each.text) for each in _spellings_of(text[start:end])]
        done = end
    return "".join([*pieces, _escape_marks(text[done:])])


def decode_marks(text: str, text_of: Callable[[Mark], str]) -> str:
    """Replace the marks in a text with texts of their keys.

    Raises:
        CutTextError: the text was cut.
    """

    def original(match: re.Match[str]) -> str:
        if match["escape"]:
            return f"<{match['escape'][1:]}{match['body']}>"
        return text_of(_mark_in(match))

    return _MARK.sub(original, text) if "<" in text else text


def marks_in(text: str) -> list[Mark]:
    """Return the marks in a text, in order.

    Raises:
        CutTextError: the text was cut.
    """
    matches = _MARK.finditer(text) if "<" in text else ()
    return [_mark_in(match) for match in matches if not match["escape"]]


def cut_mark(more: int) -> str:
    """Return the mark for so many characters that were cut off."""
    return f"<cut: {more} more characters>"


def _mark_in(match: re.Match[str]) -> Mark:
    if match["ref"] is None:
        raise CutTextError
    return Mark(match["ref"], match["spelling"] or "")


def _escape_marks(text: str) -> str:
    return _MARK.sub(r"<\\\g<escape>\g<body>>", text) if "<" in text else text


def _spellings_of(text: str) -> Iterator[KeySpelling]:
    """Yield a whole key as one of the common spellings, or else piece by piece."""
    try:
        key = uuid.UUID(text)
    except ValueError:  # a longer run of digits
        key = None
    for spelling, spell in _SPELLINGS.items():
        if key is not None and spell(key) == text:
            yield KeySpelling(text, key, spelling)
            return
    for start in range(0, len(text), _PIECE):
        yield KeySpelling(text[start : start + _PIECE])


# Search for split and cut keys
#
# All patterns below are deterministic: repeats are possessive or have a small upper bound, so
# no text can make them read a character more often than a fixed number of times.

# Characters without a form of their own: the categories Cc, without white space, Cf and Cs, and
# what Unicode has as Default_Ignorable_Code_Point, among it variation selectors, tag characters
# and fillers. Escape is in `_OPENING`.
_INVISIBLE = (
    "\x00-\x08\x0e-\x1a\x7f-\x84\x86-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890"
    "\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# White space other than the space: tabs, no-break spaces and more, and the blank of Braille.
_BLANK = "\t\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
_ENDING = "\n\v\f\r\x1c-\x1e\x85\u2028\u2029"  # a line
_OPENING = "_\\\\\x1b"  # a code, or else markup
_MARKUP = f"*`~{_INVISIBLE}{_OPENING}"  # Markdown, and what a program puts between letters

# Codes: a tag, a command to a terminal, or a character as JSON, Python, HTML, URLs and others
# escape it, once or several times. Their letters are not digits of a key.
_BACKSLASHES = r"\\{1,8}+"
_TAG = "<[^<>]*+>"
_CODE = (
    rf"{_TAG}"
    rf"|(?:\x1b|{_BACKSLASHES}(?:x1[Bb]|u001[Bb]|033|e))\[[0-9;:?]{{0,20}}+[A-Za-z]"
    rf"|(?:{_BACKSLASHES}x{_HEX}{{2}}){{1,4}}+|(?:{_BACKSLASHES}u{_HEX}{{4}}){{1,2}}+"
    rf"|{_BACKSLASHES}(?:[nrtv]|U{_HEX}{{8}}|[Nux]\{{[^{{}}]{{1,80}}+\}})"
    rf"|&(?:amp;){{0,3}}[#0-9A-Za-z]{{2,31}}+;|%u{_HEX}{{4}}|_x{_HEX}{{4}}_"
)
# One that may also be a separator and digits: `%9b55`, `\f00d`. Quoted-printable, `=0D`, has no
# printable characters other than `=`: a number in an assignment is not one.
_QUOTED = "=(?:0[9AD]|3D|[89A-F][0-9A-F])"
_BYTES = rf"(?:%(?:25){{0,3}}+{_HEX}{{2}}){{1,4}}+|(?:{_QUOTED}){{1,4}}+"
_UNCLEAR_CODE = rf"{_BYTES}|{_BACKSLASHES}(?:[abef]|[0-3][0-7]{{2}}|0)"

# With the marks of a quotation, a comment or a table. `=` is quoted-printable.
_LINE_END = rf"(?:=?(?:\r\n?+|[{_ENDING}]|(?:{_BACKSLASHES}r)?{_BACKSLASHES}n))[ \t>#|]{{0,12}}+"


def _piece_of(code: str) -> str:
    """Return the pattern of one piece between two digits, the most frequent ones first.

    The lookahead has the first characters of all pieces, so most attempts end after one look.
    """
    pieces = rf"[*`~{_INVISIBLE}{_BLANK}]|{_LINE_END}|{code}|[{_OPENING}]"
    return rf"(?=[<&%={_MARKUP}{_BLANK}{_ENDING}])(?:{pieces})"


_BETWEEN = rf"(?:{_piece_of(f'{_CODE}|{_BYTES}')}){{1,4}}+"

# The first digit of a run, if at least seven follow with at most markup between them. Decimal
# digits with nothing but white space and codes between them are numbers in columns.
_NUMBERS = rf"(?<=[0-9])(?:(?:(?![0-9])(?:\s|{_CODE}|{_BYTES}))*+[0-9]){{{_DIGITS - 1}}}"
_SEVEN_MORE = rf"(?=(?:(?:{_BETWEEN})?+{_HEX}){{7}})(?!{_NUMBERS})"
_FIRST_DIGIT = re.compile(rf"{_HEX}(?![ ,.:;\"'G-Zg-z])(?<!{_HEX}{{2}}){_SEVEN_MORE}")
_FIRST_RUN = re.compile(f"(?P<run>{_HEX}++)")
# One after a code that ends in a digit: `%3Da508000d`.
_ENDING_IN_DIGIT = (
    rf"%{_HEX}{{2}}",
    r"=0[9AD]",
    "=3D",
    "=[89A-F][0-9A-F]",
    rf"\\x{_HEX}{{2}}",
    rf"\\u{_HEX}{{4}}",
    rf"\\U{_HEX}{{8}}",
    r"\\[0-3][0-7]{2}",
    r"\\[abef0]",
)
_FIRST_AFTER_CODE = re.compile("|".join(f"{code}{_HEX}{_SEVEN_MORE}" for code in _ENDING_IN_DIGIT))
# A separator and the run of digits after it. In the place of a dash anything short may be, because
# five groups of 8, 4, 4, 4 and 12 digits are a UUID all the same. Unclear codes are read in both
# ways: as codes, then as separators and digits.
_NEXT_RUNS = tuple(
    re.compile(
        rf"(?:(?P<markup>(?:(?!{code})[{_MARKUP}]){{1,4}}+(?={_HEX}))"
        rf"|(?P<between>(?:{_piece_of(code)}){{1,4}}+(?={_HEX}))"
        rf"|(?:{code}|[\W{_MARKUP}]){{1,16}}+)(?P<run>{_HEX}++)"
    )
    for code in (f"{_CODE}|{_UNCLEAR_CODE}", _CODE)
)
_GROUP_ENDS = (8, 12, 16, 20, _DIGITS)
_ROOM = [min(end for end in _GROUP_ENDS if end > digits) - digits for digits in range(_DIGITS)]
_MOST_BREAKS = 2  # in a key without dashes: more are a list or a table of short numbers

# An ellipsis as the codes write it, after the first character of the code.
_ESCAPED_ELLIPSES = {
    r"\\": r"\\{0,7}+(?:u2026|u2025|u22ef|u\{2026\}|xe2\\{1,8}+x80\\{1,8}+xa6)",
    "&": "(?:amp;){0,3}(?:hellip|mldr|#8230|#x2026);",
    "%": "(?:25){0,3}e2%(?:25){0,3}80%(?:25){0,3}a6|u2026",
    "=": "e2=80=a6",
}
_ESCAPED = "|".join(f"{first}(?i:{rest})" for first, rest in _ESCAPED_ELLIPSES.items())
_ELLIPSIS = rf"(?:\.{{2,}}+|[…⋯‥]++|-?\*{{3,}}+(?:-\*{{3,}}+)*+|(?:{_ESCAPED}){{1,4}}+)"
_DOTS = rf"(?:[\[({{<]\s?{_ELLIPSIS}\s?[\])}}>]|{_ELLIPSIS})"
_ELLIPSES = re.compile(_DOTS)
# The beginning of an ellipsis without brackets and dash. Each alternative begins with a character,
# so the search is quick.
_DOTS_SIGN = re.compile(rf"\.\.|…|⋯|‥|\*\*\*|{_ESCAPED}")
_DOTS_HERE = re.compile(rf"(?s:.{{0,2}}?)(?P<dots>{_DOTS})")
# Not inside a word. Before that a code may be, as `\n` in a `repr()`.
_AFTER_CODE = "|".join(f"(?<={each})" for each in (r"\\[nrtv]", *_ENDING_IN_DIGIT))
_START = rf"(?:(?<![0-9A-Za-z])|{_AFTER_CODE})"
_GROUPS = rf"(?:-{_HEX}{{4}}){{0,3}}(?:-{_HEX}{{0,12}})?"
_FOURS = rf"{_HEX}{{4}}(?:-?{_HEX}{{4}}){{2,6}}(?:-?{_HEX}{{0,3}})-?"  # as PostgreSQL accepts it
# The digits before an ellipsis and after it: both, only the beginning, only the end.
_BEGINNING = re.compile(rf"{_START}(?:{_HEX}{{4,8}}{_GROUPS}|{_HEX}{{4,31}}-?|{_FOURS})\Z")
_ONLY_BEGINNING = re.compile(
    rf"(?<!#){_START}(?:{_HEX}{{8}}{_GROUPS}|{_HEX}{{6,31}}|{_FOURS}"
    # cut at both ends
    rf"|(?:{_HEX}{{5,7}}|{_HEX}{{1,4}}-{_HEX}{{4}})(?:-{_HEX}{{4}}){{1,3}}(?:-{_HEX}{{0,12}})?)\Z"
)
_REST = rf"(?:-{_HEX}{{1,31}}+){{0,5}}(?![0-9A-Za-z])(?:-(?!\*)(?={_DOTS}))?"
_END = re.compile(rf"-?(?:{_HEX}{{1,31}}-)?(?:{_HEX}{{4}}-){{0,5}}{_HEX}{{4,31}}{_REST}")
_ONLY_END = re.compile(
    rf"-?(?:(?:{_HEX}{{1,31}}-)?(?:{_HEX}{{4}}-){{0,5}}{_HEX}{{6,31}}{_REST}"
    rf"|{_HEX}{{1,8}}(?:-{_HEX}{{4}}){{2}}{_REST}"
    # with another ellipsis after it
    rf"|(?=(?:-?{_HEX}){{9}}){_HEX}{{1,8}}(?:-{_HEX}{{4}}){{0,3}}-{_HEX}{{1,12}}-?(?={_DOTS}))"
)
_LONGEST_BEGINNING = 40
_DIGITS_AND_DASH = "0123456789ABCDEFabcdef-"
# Most of a key, without an ellipsis: from its first group, up to its last one, or from the middle.
# Three groups of four digits are a serial number or a MAC address as well, so they need the
# version and the variant of RFC 9562 in their places.
_MOST = re.compile(
    rf"(?s:.{{0,9}}?)(?P<most>(?:(?<![0-9A-Za-z-])-?|{_AFTER_CODE})"
    rf"(?:{_HEX}{{8}}(?:-{_HEX}{{4}}){{2,3}}(?:-{_HEX}{{1,11}})?"
    rf"|(?:{_HEX}{{1,7}}-)?(?:{_HEX}{{4}}-){{2,3}}{_HEX}{{12}}"
    rf"|(?:{_HEX}{{1,7}}-)?{_HEX}{{4}}-[1-8]{_HEX}{{3}}-[89ABab]{_HEX}{{3}}(?:-{_HEX}{{1,11}})?)"
    r"-?(?![0-9A-Za-z-]))"
)
_MOST_SIGN = re.compile(f"-{_HEX}{{4}}(?=-)")  # behind the first group, of at most eight digits
# All but one to four digits of a key without dashes.
_MOST_DIGITS = re.compile(
    rf"{_HEX}{{{_FEWEST_DIGITS}}}(?<![0-9A-Za-z-]{_HEX}{{{_FEWEST_DIGITS}}})"
    rf"{_HEX}{{0,3}}+(?![0-9A-Za-z-])"
)
# Part of every key, whole, split or cut: it rules most texts out.
_LIKELY = re.compile(
    rf"{_HEX}(?![ ,.:;\"'G-Zg-z])(?:{_HEX}{{5}}|{_HEX}{{3}}(?=[\[({{<.…⋯‥*\\&%=-]){_DOTS}"
    rf"|(?:(?:-|{_BETWEEN})?+{_HEX}){{7}})"
)
_FEWEST = 6  # characters of the shortest match
_NOT_DIGITS = re.compile(r"[^0-9a-f]")
# What is not of a key in the two readings of a split one.
_CODES = (re.compile(f"{_CODE}|{_UNCLEAR_CODE}"), re.compile(_CODE))
_WORD = re.compile(r"\w")

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key in a text.

    Attributes:
        start: its offset.
        end: the offset after it.
        kind: `"whole"`, `"split"` or `"cut"`.
        text: its characters; not part of the `repr`.
    """

    start: int
    end: int
    kind: Literal["whole", "split", "cut"]
    text: str = field(repr=False)

    @property
    def key(self) -> uuid.UUID | None:
        """The UUID; `None` if it was cut or has more digits than a UUID."""
        if self.kind == "cut":
            return None
        readings = (_hex_digits(self.text, codes) for codes in _CODES)
        return next((uuid.UUID(each) for each in readings if len(each) == _DIGITS), None)

    @property
    def is_number(self) -> bool:
        """Whether it has decimal digits only, and so is a key only if it is known."""
        return is_number(self.text)

    @property
    def masked(self) -> str:
        """The first four characters: enough to find it again, too few to use it."""
        dots = _ELLIPSES.match(self.text)
        start = 0 if dots is None else dots.end()
        return f"{self.text[start : start + 4]}…"


def search_keys(text: str) -> list[FoundKey]:
    """Return the whole, split and cut keys in a text, in order, in time linear to its length."""
    if len(text) < _FEWEST or _LIKELY.search(text) is None:
        return []
    has_run = _RUN.search(text) is not None
    spans_of_whole = key_spans(text) if has_run else ()
    found = [FoundKey(start, end, "whole", text[start:end]) for start, end in spans_of_whole]
    for kind, sign, spans in _SEARCHES if has_run else _SEARCHES[:-1]:
        if sign.search(text) is None:
            continue
        found += [
            FoundKey(start, end, kind, text[start:end])
            for left, right in _between(found, len(text))
            for start, end in spans(text, left, right)
        ]
        found.sort(key=lambda each: each.start)
    return found


def replace_keys(text: str, ref_of: RefOf, known: Iterable[uuid.UUID] = ()) -> str:
    """Replace each whole, split or cut key in a text with its ref, or with `HIDDEN`.

    Args:
        text: any text.
        ref_of: returns the ref of a key.
        known: keys that a cut one may belong to. It gets a ref if exactly one of them fits.
    """
    found = search_keys(text)
    if not found:
        return text
    keys = _KeysByEnds(known if any(each.kind == "cut" for each in found) else ())
    pieces, end = [], 0
    for each in found:
        key = each.key if each.kind != "cut" else keys.only(each.text)
        ref = None if key is None else ref_of(key)
        if ref is None and each.is_number:
            continue
        shown = ref or HIDDEN
        before, after = text[end : each.start], text[each.end : each.end + 1]
        # next to a letter or a digit a ref would read as another ref
        is_ref = shown != HIDDEN
        pieces += [before, " " if is_ref and _WORD.search(before[-1:]) else "", shown]
        pieces.append(" " if is_ref and _WORD.search(after) else "")
        end = each.end
    return "".join([*pieces, text[end:]])


def _between(found: list[FoundKey], length: int) -> Iterator[_Span]:
    """Yield the parts of a text that are outside the keys and long enough for another key."""
    left = 0
    for start, end in [*((each.start, each.end) for each in found), (length, length)]:
        if start - left >= _FEWEST:
            yield left, start
        left = end


def _split_spans(text: str, left: int, right: int) -> Iterator[_Span]:
    """Yield the start and the end of each split key in a part of a text."""
    return _spans_from(_FIRST_DIGIT.finditer(text, left, right), text, left, right)


def _split_spans_after_code(text: str, left: int, right: int) -> Iterator[_Span]:
    """Yield the start and the end of each split key that follows a code's digits."""
    return _spans_from(_FIRST_AFTER_CODE.finditer(text, left, right), text, left, right)


def _spans_from(
    firsts: Iterator[re.Match[str]], text: str, left: int, right: int
) -> Iterator[_Span]:
    done = left
    for first in firsts:
        start = first.end() - 1
        if start < done:
            continue
        ends = (_end_of_split(text, start, right, next_run) for next_run in _NEXT_RUNS)
        end = next((end for end in ends if end is not None), None)
        if end is not None:
            yield start, end
            done = end


def _end_of_split(text: str, start: int, right: int, next_run: re.Pattern[str]) -> int | None:
    """Read a split key run by run, at most 32; return its end, or `None` for anything else.

    It has groups with something in the place of each dash, or no dashes and few breaks.
    """
    digits, breaks, is_grouped = 0, 0, True
    run = _FIRST_RUN.match(text, start, right)
    while run is not None:
        length = len(run["run"])
        is_grouped = is_grouped and length <= _ROOM[digits]
        digits += length
        if digits > _DIGITS or not (is_grouped or breaks <= _MOST_BREAKS):
            return None
        if digits == _DIGITS:
            return run.end()
        run = next_run.match(text, run.end(), right)
        if run is not None and run["markup"] is None:
            is_grouped = is_grouped and (run["between"] is not None or digits in _GROUP_ENDS)
            breaks += 1 if run["between"] is not None else _DIGITS
    return None


def _cut_spans(text: str, left: int, right: int) -> list[_Span]:
    """Return the start and the end of each key with an ellipsis in a part of a text."""
    spans: list[_Span] = []
    for dots, dots_end in _ellipses(text, left, right):
        done = spans[-1][1] if spans else left
        end = _END.match(text, dots_end, right)
        if spans and done == dots and end is not None:  # `a508…9b55…2de2`
            spans[-1] = spans[-1][0], end.end()
            continue
        window = text[max(done, dots - _LONGEST_BEGINNING) : dots]
        first = dots - len(window) + len(window.rstrip(_DIGITS_AND_DASH))
        beginning = _BEGINNING.search(text, first, dots)
        if beginning is None or end is None:
            beginning = _ONLY_BEGINNING.search(text, first, dots)
            end = None if beginning else _ONLY_END.match(text, dots_end, right)
        span = beginning.start() if beginning else dots, end.end() if end else dots_end
        if (beginning or end) and _has_digits_and_letters(text[slice(*span)]):
            spans.append(span)
    return spans


def _ellipses(text: str, left: int, right: int) -> Iterator[_Span]:
    """Yield the start and the end of each ellipsis in a part of a text."""
    done = left
    for sign in _DOTS_SIGN.finditer(text, left, right):
        if sign.start() >= done:
            # a bracket and a space, or a dash, may be before it
            match = _DOTS_HERE.match(text, max(done, sign.start() - 2), right)
            if match is not None:
                yield match.span("dots")
                done = match.end()


def _most_spans(text: str, left: int, right: int) -> Iterator[_Span]:
    """Yield the start and the end of most of a key with dashes in a part of a text."""
    done = left
    for sign in _MOST_SIGN.finditer(text, left, right):
        if sign.start() >= done:
            match = _MOST.match(text, max(done, sign.start() - 9), right)
            if match is not None and _has_digits_and_letters(match["most"]):
                yield match.span("most")
                done = match.end()


def _most_digits_spans(text: str, left: int, right: int) -> Iterator[_Span]:
    """Yield the start and the end of most of a key without dashes in a part of a text."""
    for match in _MOST_DIGITS.finditer(text, left, right):
        if _has_digits_and_letters(match[0]):
            yield match.span()


# The kind of a key, a pattern that matches in each, and a function that finds them.
_SEARCHES: tuple[
    tuple[Literal["split", "cut"], re.Pattern[str], Callable[[str, int, int], Iterable[_Span]]],
    ...,
] = (
    ("split", _FIRST_DIGIT, _split_spans),
    ("split", _FIRST_AFTER_CODE, _split_spans_after_code),
    ("cut", _DOTS_SIGN, _cut_spans),
    ("cut", _MOST_SIGN, _most_spans),
    ("cut", _MOST_DIGITS, _most_digits_spans),
)


def _has_digits_and_letters(text: str) -> bool:
    """Return whether a match can be a part of a key: others are numbers or words."""
    digits = _hex_digits(text)
    return not (digits.isdigit() or digits.isalpha())


def _hex_digits(text: str, codes: re.Pattern[str] = _CODES[0]) -> str:
    return _NOT_DIGITS.sub("", codes.sub("", text).lower())


class _KeysByEnds:
    """Keys in the order of their beginnings and of their ends, to find those that were cut."""

    def __init__(self, keys: Iterable[uuid.UUID]) -> None:
        self._digits = sorted(key.hex for key in keys)
        self._reversed = sorted(digits[::-1] for digits in self._digits)

    def only(self, cut: str) -> uuid.UUID | None:
        """Return the only key that begins and ends as a cut one does, if there is exactly one."""
        begin, *rest = map(_hex_digits, _ELLIPSES.split(cut))  # without dots it is a beginning
        end = "".join(rest)
        beginning = _with_prefix(self._digits, begin)
        ending = _with_prefix(self._reversed, end[::-1])
        if len(beginning) <= len(ending):
            fitting = (self._digits[i] for i in beginning if self._digits[i].endswith(end))
        else:
            candidates = (self._reversed[i][::-1] for i in ending)
            fitting = (digits for digits in candidates if digits.startswith(begin))
        first_two = [*islice(fitting, 2)]
        return uuid.UUID(first_two[0]) if len(first_two) == 1 else None


def _with_prefix(texts: list[str], prefix: str) -> range:
    """Return the indexes of the sorted texts of digits that start with a prefix."""
    return range(bisect_left(texts, prefix), bisect_left(texts, prefix + "g"))
