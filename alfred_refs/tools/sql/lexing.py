"""A text of SQL as a shape and its literals, before anything else looks at it.

    shape_of("select name from recipes where id = 'recipe_1' limit 5")
    Shape("select name from recipes where id = 'L0' limit 100010", ["recipe_1", "5"])

A text comes in; a text made anew goes out, of known kinds of tokens alone, in which each literal
is a marker that says which it is; equal literals are one. Texts that differ in literals have one
shape.
Whatever is long, deep or unknown raises here, so that no parser is given it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from .refusing import refused

LONGEST = 8_000  # characters of a text
_MOST_TOKENS = 2_000
_DEEPEST = 40  # brackets
_DEEPEST_SQUARE = 3

_OPERATORS = frozenset(
    (
        *("+", "-", "*", "/", "%", "^", "<", ">", "=", "<=", ">=", "<>", "!=", "||", "->"),
        *("->>", "#>", "#>>", "@>", "<@", "&&", "?", "~", "~*", "!~", "!~*", "~~", "!~~"),
        *("~~*", "!~~*"),
    )
)

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|--[^\r\n]*|/\*(?:(?!\*/|/\*)[\s\S])*\*/)
    |'(?P<string>(?:[^']|'')*)'
    |(?P<quoted>"(?:[^"\\]|"")+")
    |(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>::|[][(),.:;])
    |(?P<operator>(?:(?!--|/\*)[-+*/<>=~!@\#%^&|?])+)""",
    re.VERBOSE,
)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")

# words that begin a clause, and those after which something must stand
_AFTER = frozenset(
    (
        *("from", "where", "group", "order", "having", "limit", "offset", "fetch", "union"),
        *("intersect", "except", "join", "on", "using"),
    )
)
_OPEN = frozenset(
    (
        *("select", "by", "and", "or", "not", "where", "having", "on", "when", "then", "else"),
        *("between", "like", "ilike", "limit", "offset"),
    )
)
_ENDS_OF_TYPES = ("precision", "varying", "zone")
_NEVER_EMPTY = ("in", "on", "using", "exists", "any", "all", "filter")

_BEFORE_JOIN = [[each] for each in ("cross", "full", "inner", "left", "natural", "outer", "right")]

# kind of number -> what its marker begins with, and the greatest that is of it
_NUMBERS = (("1", 2**31), ("2", 2**63))
_NUMERIC = "3"
_UNIT = 100_000
KINDS = {1: "integer", 2: "bigint", 3: "numeric"}
"""What PostgreSQL takes a number for, by what its marker begins with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its literals.

    Attributes:
        text: with a marker for each.
        literals: what they are, each once.
    """

    text: str
    literals: Sequence[str]


def shape_of(text: str, types: Collection[str]) -> Shape:
    """Return the shape of a text.

    Args:
        text: as a model wrote it.
        types: words that a parser takes for a type, and looks at twice.

    Raises:
        ToolError: it is too long or too deep, or has what is not known here.
    """
    if len(text) > LONGEST:
        raise refused(f"the text has {len(text)} characters", f"write at most {LONGEST}")
    found = _UNSENDABLE.search(text)
    if found is not None:
        raise refused("the text has a control character", "leave it out")
    tokens = list(_tokens(text))
    if len(tokens) > _MOST_TOKENS:
        raise refused(f"the text has {len(tokens)} words and signs", "ask for less at once")
    while tokens and tokens[-1] == ("sign", ";"):
        tokens.pop()
    _check_start(tokens)
    _check_ends(tokens)
    _check_brackets(tokens, types)
    _check_conversions(tokens, types)
    return _marked(tokens)


def string_number(marker: str) -> int:
    """Return which literal the marker of a string stands for."""
    return int(marker.removeprefix("L"))


def number_of(marker: int) -> tuple[int, str]:
    """Return which literal the marker of a number stands for, and its type.

    Raises:
        ToolError: a parser has computed with it.
    """
    kind, rest = divmod(marker, _UNIT)
    index, rest = divmod(rest, 10)
    if rest or kind not in KINDS:
        raise refused("a number in this place is not known", "write it another way")
    return index, KINDS[kind]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place, before = 0, ("", "")
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise _unknown(text[place])
        kind, word = str(found.lastgroup), found[str(found.lastgroup)]
        end, begin, place = before, place, found.end()
        before = kind, word
        if kind == "space":
            continue
        touching = begin > 0 and end[0] not in ("", "space", "sign", "operator")
        if touching and kind in ("string", "name", "number", "quoted"):
            raise refused(
                f"{end[0]} and {kind} touch each other",
                "put a space between, and write texts as 'text' alone, without E, U& or B",
            )
        yield from _operators(word) if kind == "operator" else [(kind, word)]


def _operators(run: str) -> Iterator[tuple[str, str]]:
    """Yield the operators of a run of signs, as PostgreSQL takes it: `<-1` is `<` and `-`."""
    rest = run.rstrip("+-") if run not in _OPERATORS else run
    if rest and rest not in _OPERATORS:
        raise refused(f"the operator {run!r} is not known", "put spaces between operators")
    if rest != run and set(rest) & set("~!@#%^&|?"):
        raise refused(f"the operator {run!r} is not known", "put spaces between operators")
    if rest:
        yield "operator", rest
    yield from (("operator", each) for each in run[len(rest) :])


def _unknown(sign: str) -> Exception:
    if sign in "'\"/":
        return refused("a quote or a comment is not closed", "close it; '' in a text is a quote")
    if sign == "$":
        return refused("'$' is used", "write values and texts out, as 'text'")
    return refused(f"{sign!r} is not known here", "put names with it in double quotes")


def _check_start(tokens: Sequence[tuple[str, str]]) -> None:
    if ("sign", ";") in tokens:
        raise refused("there is more than one statement", "ask for one at a time")
    words = [word.lower() for kind, word in tokens if (kind, word) != ("sign", "(")]
    if not words:
        raise refused("there is no statement", "write a SELECT")
    if words[0] not in ("select", "with"):
        raise refused(
            f"the statement begins with {words[0][:30]!r}",
            "write a SELECT; rows are changed with the other tools",
        )


def _check_ends(tokens: Sequence[tuple[str, str]]) -> None:
    """Check that nothing is left out after a comma or a word: a parser may pass over that."""
    words = [word.lower() if kind in ("name", "sign") else "" for kind, word in tokens]
    for before, word, after in zip(["", *words], words, [*words[1:], ")"], strict=False):
        is_end = after in _AFTER or after in (")", "]")
        is_open = word == "," or word in _OPEN
        is_empty = (word, after) == ("(", ")") and before in _NEVER_EMPTY
        if (is_open and is_end and (word, after) != ("by", "all")) or is_empty:
            raise refused(f"nothing stands between {word!r} and {after!r}", "write what is there")
        if word == "over" and after != "(":
            raise refused("OVER is without parentheses", "write OVER (...)")
        if word == "[" and (before in ("", "(", ",", "[") or before in _AFTER or before in _OPEN):
            raise refused("'[' begins a value", "write ARRAY[...]; names are in double quotes")


def _check_brackets(tokens: Sequence[tuple[str, str]], types: Collection[str]) -> None:
    """Check how deep brackets are, and that a parser need not try types in them over and over."""
    depth, square = 0, 0
    for n, (kind, word) in enumerate(tokens):
        if kind != "sign" or word not in "()[]":
            continue
        step = 1 if word in "([" else -1
        depth, square = depth + step, square + (step if word in "[]" else 0)
        if depth > _DEEPEST or square > _DEEPEST_SQUARE:
            raise refused("brackets are nested too deep", "use WITH for parts of the question")
        before = tokens[n - 1] if n else ("", "")
        if step == 1 and before[0] == "name" and before[1].lower() in types:
            after = tokens[n + 1] if n + 1 < len(tokens) else ("", "")
            is_array = before[1].lower() == "array" and word == "["
            if after[0] != "number" and after != ("sign", "]") and not is_array:
                raise refused(
                    f"{before[1]!r} is a type and no function",
                    "convert with CAST(x AS type), or put the name in double quotes",
                )


def _check_conversions(tokens: Sequence[tuple[str, str]], types: Collection[str]) -> None:
    """Check that no `date '2026-05-01'::text` is there: a parser may convert the text first."""
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        name = before[1].lower()
        is_type = name == ")" or name in _ENDS_OF_TYPES or name in types
        if (word[0], after) == ("string", ("sign", "::")) and is_type and name != "interval":
            raise refused(
                f"it is not certain what is converted after {before[1]!r}",
                "put it in parentheses: (DATE '2026-05-01')::text",
            )


def _marked(tokens: Sequence[tuple[str, str]]) -> Shape:
    """Return tokens as a text in which literals are markers."""
    literals: dict[tuple[str, str], int] = {}
    words = []
    for kind, word in tokens:
        if kind == "string":
            known = literals.setdefault((kind, word.replace("''", "'")), len(literals))
            words.append(f"'L{known}'")
        elif kind == "number":
            known = literals.setdefault((kind, word), len(literals))
            words.append(f"{_kind_of(word)}{known * 10:05d}")
        else:
            word = word.lower() if kind == "name" else word  # noqa: PLW2901
            # without a word before it, and without ON, a parser would take it for a comma
            words += ["inner"] if word == "join" and words[-1:] not in _BEFORE_JOIN else []
            words.append(word)
    return Shape(" ".join(words), [word for _, word in literals])


def _kind_of(number: str) -> str:
    if not number.isdigit():
        return _NUMERIC
    return next((kind for kind, most in _NUMBERS if int(number) < most), _NUMERIC)
