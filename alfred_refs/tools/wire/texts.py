"""The way out: whatever a model is told passes here once, and no key stands in it after that.

An answer comes in as rows, hooks and errors have made it, with texts as they are stored; JSON goes
out, in which each key in a text or in the name of a field is a mark (`mapping.marks`). The
registry is asked once which of them have refs, and once more to mint those that have none; an
answer without keys in its texts asks nothing. `intake` is the way back.

What is not text as it is stored is told by its type: `Verbatim` and `Cut` texts, and keys that are
numbers in documents. To hooks they are texts and numbers like others.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Container, Mapping
from decimal import Decimal
from typing import Any

from pydantic_core import to_jsonable_python

from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.column_types import shown_number
from alfred_refs.mapping.guard import HIDDEN
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.marks import Mark, Spelt, cut, encode, head, keys_in
from alfred_refs.mapping.refs import KEY

from .repair import DEEPEST

_FEWEST = 32  # letters that a key is spelt with


class Verbatim(str):
    """A text that a model sees as it is: a cursor, or a UUID of a column that has no keys."""

    __slots__ = ()


DEEPEST_SHOWN = DEEPEST - 3
"""Levels of a value that are shown: a new row among others is given with as many."""

MARK = Verbatim("…<cut: nested deeper>")
"""Stands in place of what is nested too deep to be shown."""


class Cut(str):
    """The head of a text that is too long.

    Attributes:
        more: how many characters are left out.
    """

    __slots__ = ("more",)
    more: int

    def __new__(cls, text: str, more: int = 0) -> Cut:
        """Make one."""
        made = super().__new__(cls, text)
        made.more = more
        return made


class KeyNumber(int):
    """An integer in a document that is a key.

    Attributes:
        entity: whose.
    """

    entity: str = ""

    def __repr__(self) -> str:
        return HIDDEN  # errors repeat values, in words too


def key_number(value: Any, entity: str | None) -> Any:
    """Return a value in a document, told apart if it is an integer and so a key of an entity."""
    if entity is None or type(value) is not int:
        return value
    found = KeyNumber(value)
    found.entity = entity
    return found


def shortened(text: str, most: int) -> str:
    """Return a text, or its head that tells how much is left out."""
    short = head(text, most)
    return text if short == text else Cut(short, len(text) - len(short))


def shallow(value: Any, levels: int = DEEPEST_SHOWN) -> tuple[Any, bool]:
    """Return a value without what is nested too deep, and whether something was.

    Documents come as their driver loads them, which may be deeper than any code goes through.
    """
    if not isinstance(value, Mapping | list | tuple):
        return value, False
    if not levels:
        return MARK, True
    if isinstance(value, Mapping):
        inside = {name: shallow(each, levels - 1) for name, each in value.items()}
        is_cut = any(cut for _, cut in inside.values())
        return ({name: each for name, (each, _) in inside.items()} if is_cut else value), is_cut
    elements = [shallow(each, levels - 1) for each in value]
    is_cut = any(cut for _, cut in elements)
    return ([each for each, _ in elements] if is_cut else value), is_cut


def without_keys(
    value: Any,
    conversation: SessionConversation,
    entities: Container[str],
    longest: int | None = None,
) -> Any:
    """Return a value as a model is told it: two round trips at most, none without keys.

    Args:
        value: of whatever types hooks may use.
        conversation: in which keys have refs.
        entities: of which a model may be shown refs; other keys are only told apart.
        longest: characters of a text, if not all of it is to be told.
    """
    outgoing = _Outgoing(longest)
    plain = outgoing.looked_at(value)
    if not outgoing.differs:
        return plain
    outgoing.name(conversation, entities)
    return outgoing.written(plain)


def is_plain(value: Any) -> bool:
    """Tell whether a value is surely told as it is: there is no room for a key in it."""
    kind = type(value)
    if kind is str:
        return len(value) < _FEWEST and "<" not in value
    return value is None or kind is int or kind is bool


class _Outgoing:
    """One answer: looked at as a whole, then written with the names of all its keys."""

    def __init__(self, longest: int | None) -> None:
        self.differs = False
        self._longest = longest
        self._names: dict[str, str] = {}  # that are told as they are: all rows have the same
        self._texts: dict[int, str] = {}  # that are not told as they are, by their identity
        self._spelt: dict[Spelt, None] = {}
        self._keys: dict[uuid.UUID, None] = {}
        self._numbers: dict[tuple[str, Key], None] = {}
        self._held: Mapping[Key, str] = {}
        self._minted: Mapping[tuple[str, Key], str] = {}

    def looked_at(self, value: Any) -> Any:
        """Return a value of JSON's types and those that are told apart, and note its keys."""
        if is_plain(value):  # the common way
            return value
        if isinstance(value, dict):
            names = self._names
            return {
                names.get(name) or self._name(name): (
                    each if is_plain(each) else self.looked_at(each)
                )
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.looked_at(each) for each in value]
        return self._leaf(value)

    def _name(self, name: Any) -> Any:
        if type(name) is str and is_plain(name):
            self._names[name] = name
            return name
        return self.looked_at(name if isinstance(name, uuid.UUID) else str(name))

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, uuid.UUID | KeyNumber):
            self.differs = True
            if isinstance(value, KeyNumber):
                self._numbers[value.entity, int(value)] = None
            else:
                self._keys[value] = None
            return value
        value = shown_number(value) if isinstance(value, Decimal) else value
        is_json = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        return value if is_json else self._text(str(to_jsonable_python(value, fallback=str)))

    def _text(self, text: str) -> str:
        if isinstance(text, Verbatim):
            return str(text)  # another object, which is not written again
        if self._longest is not None and not isinstance(text, Cut):
            text = shortened(text, self._longest)
        found = dict.fromkeys(keys_in(text))
        if found or "<" in text or isinstance(text, Cut):
            self.differs = True
            self._texts[id(text)] = text
            self._spelt |= found
        return text

    def name(self, conversation: SessionConversation, entities: Container[str]) -> None:
        """Give a ref to each key: at most two round trips."""
        sought = dict.fromkeys([*self._keys, *(k for s in self._spelt for k in _keys_of(s))])
        self._held = conversation.refs_held(sought, entities)
        spelt = [_keys_of(each) for each in self._spelt]
        spelt = [keys for keys in spelt if not any(key in self._held for key in keys)]
        others = [*((key,) for key in self._keys if key not in self._held), *spelt]
        new = [*self._numbers, *((KEY, keys[0]) for keys in others)]
        self._minted = dict(zip(new, conversation.refer_pairs(new), strict=True))

    def written(self, value: Any) -> Any:
        """Return a value that was looked at with what a model sees in the place of keys."""
        if isinstance(value, str):
            return self._written_text(value)
        if isinstance(value, dict):
            return {self.written(name): self.written(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.written(each) for each in value]
        if isinstance(value, uuid.UUID):  # of a hook: a ref, where it is one
            return self._held.get(value) or str(Mark(self._minted[KEY, value]))
        if isinstance(value, KeyNumber):
            return str(Mark(self._minted[value.entity, int(value)]))
        return value

    def _written_text(self, text: str) -> str:
        if id(text) not in self._texts:
            return text
        written = encode(text, self._mark_of)
        return f"{written}…{cut(text.more)}" if isinstance(text, Cut) else written

    def _mark_of(self, spelt: Spelt) -> Mark:
        keys = _keys_of(spelt)
        if keys[0] in self._held:
            return Mark(self._held[keys[0]], spelt.spelling)
        if keys[-1] in self._held:  # a row's key that is text, to the letter
            return Mark(self._held[keys[-1]])
        return Mark(self._minted[KEY, keys[0]], spelt.spelling)


def _keys_of(spelt: Spelt) -> tuple[Key, ...]:
    """Return what may be a key of a row: the UUID, and the text, if that is how rows have it."""
    return (spelt.text,) if spelt.key is None else (spelt.key, spelt.text)
