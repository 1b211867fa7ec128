"""The words and values of an error, with refs in place of keys.

Text and parameters that have keys come in; copies go out in which every key reads as its ref, or
as `HIDDEN` where it has none, where it cannot be told which entity it is of, and where it cannot
be told whether it is a key. Hiding too much is a nuisance, hiding too little is not allowed.
Nothing is minted and nothing is asked: only what the conversation has met in this process.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from alfred_refs.mapping import guard
from alfred_refs.mapping.guard import HIDDEN
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import Key, spells_uuid
from alfred_refs.mapping.refs import parse_ref

from .columns import Catalogue, Fault, Meaning, Unsure

# Values that say no more than they print, and print no more than they are.
_PLAIN = (bool, float, Decimal, dt.date, dt.time, dt.timedelta, type(None))

# PostgreSQL begins each part but the first with a word, in the server's language
_PARTS = re.compile(r"^(?=[^\W\d_]+: {2})", re.MULTILINE)
# `Key (id, position)=(5, 2) already exists`
_DETAIL = re.compile(r"\((?P<names>[^=]*)\)=\((?P<values>.*)\)", re.DOTALL)
# the values of all columns, in the order that the database has them: not to be taken apart
_ROW = re.compile(r"(?P<said>contains|^[^\W\d_]+: {2}[^(]*) \(.*\)", re.DOTALL)
_ROW_VIOLATIONS = {"23502", "23514", "44000"}  # not null, check, check option
_ROW_LEFT_OUT = "(values left out: there may be keys among them)"
# a piece of the statement, which some drivers send with the values in it, and a caret under it
_EXCERPT = re.compile(r"\n(LINE \d+: )(.*)\n *\^")
_VALUE = re.compile(r"'|(?<![\w$])\d")
_NUMBER = re.compile(r"(?<![\w.$])\d+(?!\w|\.\d)")
_PLACE = re.compile(r"\b(?:LINE \d+:|line \d+ at )")
# SQLAlchemy's identity of an instance, and its complaint about a row that an insert returned
_IDENTITY = re.compile(r"\(<class '(?P<path>[^']+)'>, \((?P<values>.*?)\), (?:None|[^()]*)\)")
_SENTINEL = re.compile(r"(?<=result set to parameter sets; key )(.*)(?= was not found\. There)")


Say = Callable[[str], str]
"""Words a text anew."""


class Names(Protocol):
    """What keys are called: a conversation, or nothing at all."""

    def names_of(self, key: Key) -> Mapping[str, str]:
        """Return the refs of a key, by entity."""
        ...

    def texts(self) -> Iterable[str]:
        """Return the keys that are text."""
        ...


class Wording:
    """How one error, and all that belongs to it, is worded.

    Parameters go first: what they hold for a key is then hidden in the text too.
    """

    def __init__(self, names: Names, catalogue: Catalogue, fault: Fault) -> None:
        self._names = names
        self._catalogue = catalogue
        self._fault = fault
        self._numbers = catalogue.has_keys_of("integer")
        self._strings = catalogue.has_keys_of("string")
        self._given: dict[str, str] = {}  # keys of the statement, as text → what stands for them

    def ref(self, key: Key, entity: str | None = None) -> str:
        """Return what stands for a key; without an entity only if there is no doubt."""
        names = self._names.names_of(key)
        if entity is not None and entity in names:
            return names[entity]
        sure = len(names) == 1 and (entity is None or isinstance(key, uuid.UUID))
        return next(iter(names.values())) if sure else HIDDEN

    def _key(self, key: Key, meaning: Meaning) -> str:
        """Return what stands for a key of a column; an alternate key may be another row's."""
        if not isinstance(meaning, KeyColumn):
            return self.ref(key)
        return self.ref(key, meaning.entity) if meaning.by is None else HIDDEN

    def parameters(
        self, given: Any, statement: str | None, positions: Sequence[str] | None = None
    ) -> Any:
        """Return a copy of a statement's parameters, or of a list of them.

        Args:
            given: mappings by name, or sequences by position.
            statement: the SQL that they belong to.
            positions: their names in order, if they have no names themselves.
        """
        if isinstance(given, Mapping):
            return {
                name: self.value(value, self._catalogue.of_parameter(name, statement))
                for name, value in given.items()
            }
        if not isinstance(given, list | tuple):
            return None if given is None else HIDDEN
        if given and all(isinstance(one, Mapping | list | tuple) for one in given):
            return [self.parameters(one, statement, positions) for one in given]
        fits = positions is not None and len(positions) == len(given)
        names = positions if positions is not None and fits else [None] * len(given)
        meanings = [self._catalogue.of_parameter(name, statement) for name in names]
        return tuple(map(self.value, given, meanings))

    def value(self, value: Any, meaning: Meaning = Unsure.DATA) -> Any:
        """Return what stands for a value, as JSON would have it or as it is."""
        if isinstance(value, Mapping):
            return {self.value(k): self.value(v, meaning) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(element, meaning) for element in value]
        return self._single(value, meaning)

    def _single(self, value: Any, meaning: Meaning) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, uuid.UUID):
            return self._key(uuid.UUID(int=value.int), meaning)
        if isinstance(value, str):
            return self._text_value(value, meaning)
        if isinstance(value, int):
            return self._number(value, meaning)
        return f"<{type(value).__name__}>"

    def _number(self, value: int, meaning: Meaning) -> Any:
        if meaning is Unsure.DATA or (meaning is Unsure.UNKNOWN and not self._numbers):
            return value
        shown = self._key(value, meaning) if isinstance(meaning, KeyColumn) else HIDDEN
        return self._give(str(value), shown)

    def _give(self, key: str, shown: str) -> str:
        """Remember what stands for a key; of one that stands for two rows it cannot be told."""
        same = self._given.setdefault(key, shown) == shown
        self._given[key] = shown if same else HIDDEN
        return shown

    def _text_value(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            return self._key_text(value, meaning)
        if meaning is Unsure.UNKNOWN and self._strings and not spells_uuid(value):
            return HIDDEN
        return guard.scrub(value, self.ref)

    def _key_text(self, value: str, column: KeyColumn) -> str:
        """Return what stands for the text of a key; a ref stays one."""
        ref = parse_ref(value)
        if value == HIDDEN or (ref is not None and ref.entity == column.entity):
            return value
        if column.key_type == "uuid":
            return self._key(uuid.UUID(value), column) if spells_uuid(value) else HIDDEN
        if column.key_type == "integer":
            return self._key(int(value), column) if value.isdecimal() else HIDDEN
        return self._give(value, self._key(value, column))

    def sent(self, text: str) -> str:
        """Return what the database or its driver says."""
        text = _EXCERPT.sub(lambda piece: "" if _VALUE.search(piece[2]) else piece[0], text)
        return "".join(map(self._part, _PARTS.split(text)))

    def _part(self, text: str) -> str:
        if detail := _DETAIL.search(text):
            before, after = text[: detail.start()], text[detail.end() :]
            return self.free(before) + self._detail(detail) + self.free(after)
        if self._fault.sqlstate in _ROW_VIOLATIONS or "row contains (" in text:
            text = _ROW.sub(rf"\g<said> {_ROW_LEFT_OUT}", text)
        return self.free(text)

    def _detail(self, detail: re.Match[str]) -> str:
        names = detail["names"].split(", ")
        values = detail["values"].split(", ")
        meanings = self._catalogue.of_detail([name.strip('"') for name in names], self._fault)
        if len(values) != len(names):  # a value with a comma in it
            return f"({detail['names']})=({HIDDEN})"
        shown = map(self._detail_value, values, meanings)
        return f"({detail['names']})=({', '.join(shown)})"

    def _detail_value(self, value: str, meaning: Meaning) -> str:
        if value == "null":
            return value
        if meaning is Unsure.UNKNOWN and self._numbers and value.isdecimal():
            return HIDDEN
        return self._text_value(value, meaning)

    def free(self, text: str) -> str:
        """Return text in which a key is known by its look, or because it was met before."""
        text = guard.scrub(text, self.ref)
        for key in [*self._given, *self._names.texts()]:
            if key in text and not key.isdecimal():
                shown = self._given.get(key, HIDDEN).replace("\\", r"\\")
                text = re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", shown, text)
        return _NUMBER.sub(self._met_number, text) if self._numbers else text

    def met(self, number: int) -> int | str:
        """Return what stands for a number if it was a key of the statement, or else itself."""
        return self._given.get(str(number), number)

    def _met_number(self, number: re.Match[str]) -> str:
        """Hide a number that is a key, wherever it is not one of a line."""
        digits = number[0]
        place = _PLACE.search(number.string, max(0, number.start() - 5))
        if place is not None and place.start() <= number.start() < place.end():
            return digits
        known = digits in self._given or self._names.names_of(int(digits))
        return self._given.get(digits, HIDDEN) if known else digits

    def raised(self, text: str) -> str:
        """Return what SQLAlchemy says without the database, or anybody else."""
        text = guard.scrub(text, self.ref)
        return _SENTINEL.sub(self._sentinel, _IDENTITY.sub(self._identity, text))

    def _identity(self, identity: re.Match[str]) -> str:
        values = identity["values"].removesuffix(",").split(", ")
        meanings = self._catalogue.of_identity(identity["path"])
        if meanings is None or len(meanings) != len(values):
            meanings = [Unsure.UNKNOWN] * len(values)
        shown = map(self._identity_value, values, meanings)
        return f"({identity['path']}, ({', '.join(shown)}))"

    def _identity_value(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            return self._key_text(value.strip("'\""), meaning)
        return HIDDEN if meaning is Unsure.UNKNOWN else value

    def _sentinel(self, said: re.Match[str]) -> str:
        for number in _NUMBER.findall(said[0]):
            self._given.setdefault(number, HIDDEN)
        return HIDDEN
