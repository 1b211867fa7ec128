"""What a condition of the database says, in words for a model.

The SQL of a condition comes in, with what a model calls the columns; the words go out, with the
columns that they speak of. Only a few exact forms are understood: one column that has one of some
values, or is compared with values. Any other condition is told as its SQL, without casts. There is
no parser of SQL here: the text is cut into its names, literals and signs, no more. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from alfred_refs.mapping.guard import scrub
from alfred_refs.mapping.labels import clean

_TOKEN = re.compile(
    r"""
    (?P<odd>[eE]'(?:[^'\\]|''|\\.)*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<literal>'(?:[^']|'')*'|-?\d+(?:\.\d+)?)
    |(?P<cast>::\s*(?:\w+\.)?(?:"[^"]*"|\w+)(?:\s(?:varying|precision|with(?:out)?\stime\szone))?
        (?:\(\d+(?:,\s*\d+)?\))?(?:\[\])*)
    |(?P<name>"(?:[^"]|"")+"|[^\W\d][\w$]*)
    |(?P<space>\s+)
    |(?P<bracket>[()\[\]])
    |(?P<sign><=|>=|<>|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_AROUND_A_NAME = re.compile(r'(?<![\w"])\((\w+)\)')

# sign of a comparison -> how it is said before the value
_COMPARED: Final = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "<>": "not", "!=": "not"}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a condition says.

    Attributes:
        columns: the attributes that it names, each once.
        is_hidden: whether it names columns that a model does not know.
        text: its SQL in one short line, with the names that a model knows.
        words: its names, literals and signs, in order; keywords in capitals.
    """

    columns: tuple[str, ...]
    is_hidden: bool
    text: str
    words: tuple[str, ...]

    @property
    def has_literals(self) -> bool:
        """Whether there are values in it."""
        return any(re.match(r"[eE]?'|[$\d-]", word) for word in self.words)

    def choices(self, *, numeric: bool) -> list[str] | None:
        """Return the values of which the one column has one, as JSON; `None` if it says else."""
        match self._compared():
            case [_, "IN", *listed] | [_, "=", "ANY", "ARRAY", *listed]:
                literals = listed[::2]
                is_list = all(each == "," for each in listed[1::2]) and len(listed) % 2
                shown = [_shown(each, numeric=numeric) for each in literals]
                return None if not is_list or None in shown else [each or "" for each in shown]
        return None

    def limits(self, *, numeric: bool) -> str | None:
        """Return what the one column is compared with, in words; `None` if it says else."""
        words = self._compared()
        match words:
            case [name, "BETWEEN", least, "AND", most]:
                words = [name, ">=", least, "AND", name, "<=", most]
        told = [
            _comparison([*part], words[0], numeric=numeric)
            for is_and, part in groupby(words, lambda word: word == "AND")
            if not is_and
        ]
        match told:
            case [(">=", least), ("<=", most)]:
                return f"{least} to {most}"
        known = [f"{each[0]} {each[1]}" for each in told if each is not None]
        return " and ".join(known) if len(known) == len(told) else None

    def _compared(self) -> list[str]:
        """Return the words without 'IS NULL OR', which every condition means by itself."""
        words = list(self.words)
        if self.is_hidden or words[:1] != [*self.columns]:
            return [""]
        return words[4:] if words[1:4] == ["IS", "NULL", "OR"] else words


def condition_of(sql: str, names: Mapping[str, str | None]) -> Condition:
    """Return what a condition says.

    Args:
        sql: the condition.
        names: what the columns are called in it, in small letters -> what a model calls them;
            `None` for what it does not know.
    """
    columns: dict[str, None] = {}
    is_hidden, text, words = False, "", []
    for found in _TOKEN.finditer(sql):
        kind, token = found.lastgroup, found.group()
        said, column = token, token.strip('"').lower()
        if kind == "name" and column in names:
            name = names[column]
            is_hidden |= name is None
            said = name or ""
            columns |= {} if name is None else {name: None}
        elif kind == "name":
            said = token.upper() if token.upper() in _KEYWORDS else token
        text += "" if kind == "cast" else said
        words += [] if kind in ("cast", "space", "bracket") else [said]
    return Condition(tuple(columns), is_hidden, _line(text), tuple(words))


_KEYWORDS = frozenset(["AND", "OR", "NOT", "IN", "ANY", "ARRAY", "BETWEEN", "IS", "NULL"])


def _line(text: str) -> str:
    """Return SQL as one line, without brackets that say nothing."""
    before = None
    while text != before:
        before, text = text, _AROUND_A_NAME.sub(r"\1", text)
    return clean(text) or ""


def _comparison(words: Sequence[str], column: str, *, numeric: bool) -> tuple[str, str] | None:
    match words:
        case [name, sign, literal] if name == column and sign in _COMPARED:
            shown = _shown(literal, numeric=numeric)
            return None if shown is None else (_COMPARED[sign], shown)
    return None


def _shown(literal: str, *, numeric: bool) -> str | None:
    """Return a literal of SQL as JSON; `None` if it is none."""
    if re.fullmatch(r"-?\d+(\.\d+)?", literal):
        return literal if numeric else None
    if not literal.startswith("'"):
        return None
    value = literal[1:-1].replace("''", "'")
    if scrub(value) != value:
        return None  # there is a key in it
    return value if numeric else quoted(value)


def quoted(value: str) -> str:
    """Return a text in quotes, as JSON, that stays in its line."""
    return json.dumps(value, ensure_ascii=not value.isprintable())
