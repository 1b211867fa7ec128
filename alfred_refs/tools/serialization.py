r"""Serialization of answers: JSON, keys replaced, texts and depth limited.

Everything that a model receives passes through `replace_keys` once. It takes rows, notes and
errors with stored texts, and returns JSON. Each key in a text or field name becomes a mark such as
`<recipe_1>` or, if the key has no ref that may be shown, `<key_1>`. An answer takes at most two
queries to the registry: one for existing refs, one to mint the others. An answer without keys
takes none. `decoding.decode_arguments` reverses this.

>>> with session.raw_keys():
...     key = session.scalar(select(Recipe.id).where(Recipe.name == "Soup"))
>>> answer = {"note": f"see {key}", "count": 1}
>>> replace_keys(answer, session.own_view, toolset.tables.shown)
{'note': 'see <recipe_1>', 'count': 1}

An integer beyond `MAX_INTEGER` becomes text, because many clients read JSON numbers as floats and
round it. A column of numbers accepts the text. Half of a surrogate pair, which JSON in a database
may contain and UTF-8 cannot encode, becomes an escape such as `\ud800`. In documents such texts
are ambiguous: `restore` replaces them by the stored value if the stored document has it.

Special values have types of their own: `Verbatim` is not searched for keys, `CutText` is the head
of a long text, `QuotedText` is shown in quotes, `KeyNumber` is an integer in a document that is a
key. To hooks they are ordinary strings and integers.

`places_in` reads which integers in a JSON column are keys: `info={"ref": Order}` declares all of
them, `info={"ref": {"order_id": Order, "lines": "products.id"}}` declares members of these names,
at any depth, single or in lists. To a session such a column is data.

A number is never searched for keys: columns of numbers show one that is not an exact JSON number
as `Verbatim`. In a text, 32 decimal digits and more are a number too, unless they are a key that
has a ref.

Limits: other integers are not searched, as any number might be a key. Values nested deeper than
`MAX_DEPTH_SHOWN` levels are replaced by a mark.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import JSON, Column, inspect

from alfred_refs.conversation import Conversation, SessionConversation
from alfred_refs.errors import KeyColumnError
from alfred_refs.mapping import (
    HIDDEN,
    KEY,
    Entities,
    Key,
    KeySpelling,
    Mark,
    ShownRef,
    Verbatim,
    column_named,
    cut_mark,
    encode_marks,
    escape_surrogates,
    head,
    key_spellings,
    key_table,
    primary_key,
)
from alfred_refs.mapping.columns import shown_number
from alfred_refs.tools.arguments import MAX_DEPTH, MAX_DIGITS

Places = Mapping[str | None, str]
"""The entity of the integers in members of each name; `None` is the key for all others."""


def places_in(column: Any, entities: Entities) -> Places:
    """Return the members of a column's JSON documents that hold integer keys, with their entities.

    Raises:
        KeyColumnError: the declared target is not a class or a single-column primary key.
    """
    declared = column.info.get("ref") if isinstance(column, Column) else None
    if declared is None or not isinstance(column.type, JSON):
        return {}
    targets = declared if isinstance(declared, Mapping) else {None: declared}
    entities_by_name = {
        name: _entity(column, target, entities) for name, target in targets.items()
    }
    return {name: entity for name, entity in entities_by_name.items() if entity is not None}


def _entity(column: Column[Any], target: Any, entities: Entities) -> str | None:
    """Return the entity of a declared target; `None` if its keys are not integers."""
    table = _table(column, target)
    keys = [] if table is None else primary_key(table)
    is_key = len(keys) == 1 and (
        not isinstance(target, str) or column_named(table, target) is keys[0]
    )
    if not is_key:
        raise KeyColumnError(
            f"column {column} declares keys of {target!r} in its documents, and that is no "
            "class or column whose values are a primary key",
            'give a mapped class, or "table.column" as a foreign key has it',
        )
    key_column = entities.key_column_of(table)
    return (
        key_column.entity if key_column is not None and key_column.key_type == "integer" else None
    )


def _table(column: Column[Any], target: Any) -> Any:
    if isinstance(target, str):
        return column.table.metadata.tables.get(target.rpartition(".")[0])
    mapper = inspect(target, raiseerr=False)
    return None if mapper is None else key_table(mapper)


class SameNameError(ValueError):
    """Two names of one object would become equal."""


def map_document(
    value: Any,
    places: Places,
    leaf: Callable[[Any, str | None], Any],
    name: Callable[[str], str] = str,
    entity: str | None = None,
) -> Any:
    """Return a document with its names and leaves replaced.

    Args:
        value: the JSON document.
        places: which integers are keys.
        leaf: receives each value that is not a list or object, and the entity of a key if it is an
            integer; returns the replacement.
        name: receives each name and returns the replacement.
        entity: the entity of integers at this level.

    Raises:
        SameNameError: two names of one object become equal.
    """
    if isinstance(value, dict):
        members = {
            name(key): map_document(each, places, leaf, name, places.get(key))
            for key, each in value.items()
        }
        if len(members) < len(value):
            raise SameNameError
        return members
    if isinstance(value, list):
        return [map_document(each, places, leaf, name, entity) for each in value]
    return leaf(value, entity or places.get(None))


_MIN_KEY_LENGTH = 32  # the hex digits of a UUID


MAX_DEPTH_SHOWN = MAX_DEPTH - 3
"""Levels of a value that are shown; a new row may be nested as deep."""

DEPTH_MARK = Verbatim("…<cut: nested deeper>")
"""The mark in place of values that are nested too deep."""


class CutText(str):
    """The head of a text that is too long.

    Attributes:
        more: the number of omitted characters.
    """

    __slots__ = ("more",)
    more: int

    def __new__(cls, text: str, more: int = 0) -> CutText:
        """Make one."""
        made = super().__new__(cls, text)
        made.more = more
        return made


class QuotedText(str):
    """A text in a JSON column that looks like a document; it is shown in quotes.

    Without quotes it would be stored as a document if the model wrote it back.
    """

    __slots__ = ()


class KeyNumber(int):
    """An integer in a document that is a key.

    Attributes:
        entity: the entity of the row.
    """

    entity: str = ""

    def __repr__(self) -> str:
        return HIDDEN  # error messages quote values by repr()


def key_number(value: Any, entity: str | None) -> Any:
    """Return a value of a document; an integer that is a key becomes a `KeyNumber`."""
    if entity is None or type(value) is not int:
        return value
    number = KeyNumber(value)
    number.entity = entity
    return number


def shorten_text(text: str, most: int) -> str:
    """Return a text, or its head if it is too long."""
    shortened = head(text, most)
    return text if shortened == text else CutText(shortened, len(text) - len(shortened))


def limit_depth(value: Any, levels: int = MAX_DEPTH_SHOWN) -> tuple[Any, bool]:
    """Remove parts of a value that are nested too deep; return whether any were removed.

    Loaded documents may be deeper than Python can recurse.
    """
    if not isinstance(value, Mapping | list | tuple):
        return value, False
    if not levels:
        return DEPTH_MARK, True
    if isinstance(value, Mapping):
        inside = {name: limit_depth(each, levels - 1) for name, each in value.items()}
        is_cut = any(cut for _, cut in inside.values())
        return ({name: each for name, (each, _) in inside.items()} if is_cut else value), is_cut
    elements = [limit_depth(each, levels - 1) for each in value]
    is_cut = any(cut for _, cut in elements)
    return ([each for each, _ in elements] if is_cut else value), is_cut


MAX_INTEGER = 2**53
"""The largest integer that is a JSON number: floats represent integers up to it exactly."""

_LONG_INTEGER = re.compile("-?([1-9][0-9]{15,})")
_ESCAPE = "\\ud"  # the beginning of an escaped surrogate


def is_number(value: int) -> bool:
    """Return whether an integer is shown as a JSON number; others are shown as text."""
    return -MAX_INTEGER <= value <= MAX_INTEGER


def integer_text(value: int) -> str:
    """Return the digits of an integer, even if it is too long for `str()`."""
    return str(Decimal(value))


def is_integer_text(value: Any) -> bool:
    """Return whether a value is a text that answers show for a large integer."""
    match = _LONG_INTEGER.fullmatch(value) if isinstance(value, str) else None
    return match is not None and (len(match[1]), match[1]) > (16, str(MAX_INTEGER))


def as_shown(value: Any) -> Any:
    """Return a document with values as in answers, for comparison."""
    return _as_shown(limit_depth(value)[0])


def _as_shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {_shown_leaf(name): _as_shown(each) for name, each in value.items()}
    return list(map(_as_shown, value)) if isinstance(value, list) else _shown_leaf(value)


def _shown_leaf(value: Any) -> Any:
    if type(value) is int and not is_number(value):
        return integer_text(value)
    return escape_surrogates(value) if isinstance(value, str) else value


def text_as_integers(value: Any) -> Any:
    """Return a document with large integers in place of their texts."""

    def leaf(each: Any, _: str | None) -> Any:
        return int(each) if is_integer_text(each) and len(each) <= MAX_DIGITS else each

    return map_document(value, {}, leaf)


def has_integer_text(value: Any) -> bool:
    """Return whether a document contains the text of a large integer."""
    return _any_text(value, is_integer_text)


def may_be_restored(value: Any) -> bool:
    """Return whether a document contains a text that answers may show for another value."""
    return _any_text(value, lambda text: is_integer_text(text) or _ESCAPE in text)


def _any_text(value: Any, condition: Callable[[str], bool]) -> bool:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return any(_any_text(each, condition) for each in inside)
    return isinstance(value, str) and condition(value)


def restore(value: Any, stored: Any) -> Any:
    """Replace texts in a document by the stored values that were shown as these texts.

    Args:
        value: the document from a model.
        stored: the document that it replaces.
    """
    stored, _ = limit_depth(stored)
    values: dict[str, Any] = {}

    def note(each: Any, _: str | None) -> None:
        shown = _shown_leaf(each)
        if shown is not each:
            values[shown] = each

    map_document(stored, {}, note)
    return _restored(value, stored, values) if values else value


def _restored(value: Any, stored: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        others = stored if isinstance(stored, dict) else {}
        return {name: _restored(each, others.get(name), values) for name, each in value.items()}
    if isinstance(value, list):
        items = stored[: len(value)] if isinstance(stored, list) else []
        return [_restored(each, item, values) for each, item in zip_longest(value, items)]
    # the stored document may contain both an integer and its text
    return values.get(value, value) if isinstance(value, str) and value != stored else value


def replace_keys(
    value: Any,
    conversation: Conversation | SessionConversation,
    entities: Container[str],
    longest: int | None = None,
) -> Any:
    """Return a value as JSON without keys: at most two round trips, none without keys.

    Args:
        value: a value of the types in rows, errors and results of hooks.
        conversation: the conversation of the refs.
        entities: the entities of refs that the model may see; other keys become `<key_1>` and so
            on.
        longest: the maximum number of characters of one text; `None` for no limit.
    """
    replacer = _KeyReplacer(longest)
    plain = replacer.collect(value)
    if not replacer.has_keys:
        return plain
    replacer.resolve(conversation, entities)
    return replacer.replace(plain)


def is_plain(value: Any) -> bool:
    """Return whether a value is sent unchanged: a short text, small integer, boolean or null."""
    kind = type(value)
    if kind is str:
        is_short = len(value) < _MIN_KEY_LENGTH and "<" not in value
        return is_short and (value.isascii() or escape_surrogates(value) is value)
    if kind is int:
        return is_number(value)
    return value is None or kind is bool


class _KeyReplacer:
    """Replaces the keys of one answer: collects all keys, resolves them, then replaces them."""

    def __init__(self, longest: int | None) -> None:
        self.has_keys = False
        self._longest = longest
        self._names: dict[str, str] = {}  # names without keys are the same in all rows
        self._texts: dict[int, str] = {}  # texts to be replaced, by id()
        self._spellings: dict[KeySpelling, None] = {}
        self._keys: dict[uuid.UUID, None] = {}
        self._numbers: dict[tuple[str, Key], None] = {}
        self._refs: Mapping[Key, str] = {}
        self._minted_refs: Mapping[tuple[str, Key], str] = {}

    def collect(self, value: Any) -> Any:
        """Return a value as JSON, with types that mark special texts, and collect its keys."""
        if is_plain(value):  # the common case
            return value
        if isinstance(value, dict):
            names = self._names
            return {
                names.get(name) or self._collect_name(name): (
                    each if is_plain(each) else self.collect(each)
                )
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.collect(each) for each in value]
        return self._collect_leaf(value)

    def _collect_name(self, name: Any) -> Any:
        if type(name) is str and is_plain(name):
            self._names[name] = name
            return name
        return self.collect(name if isinstance(name, uuid.UUID) else str(name))

    def _collect_leaf(self, value: Any) -> Any:
        if isinstance(value, ShownRef):
            return value[:]  # a model's argument is an ordinary string
        if isinstance(value, str):
            return self._collect_text(value)
        if isinstance(value, uuid.UUID | KeyNumber):
            self.has_keys = True
            if isinstance(value, KeyNumber):
                self._numbers[value.entity, int(value)] = None
            else:
                self._keys[value] = None
            return value
        if isinstance(value, int):
            return value if is_number(value) else integer_text(value)
        value = shown_number(value) if isinstance(value, Decimal) else value
        is_json = isinstance(value, float) and math.isfinite(value)
        return (
            value if is_json else self._collect_text(str(to_jsonable_python(value, fallback=str)))
        )

    def _collect_text(self, text: str) -> str:
        if isinstance(text, Verbatim):
            return str(text)  # a plain str, which replace() skips
        escaped = escape_surrogates(text)
        if escaped is not text:
            text = CutText(escaped, text.more) if isinstance(text, CutText) else escaped
        if self._longest is not None and not isinstance(text, CutText):
            text = shorten_text(text, self._longest)
        found = dict.fromkeys(key_spellings(text))
        if found or "<" in text or isinstance(text, CutText | QuotedText):
            self.has_keys = True
            self._texts[id(text)] = text
            self._spellings |= found
        return text

    def resolve(
        self, conversation: Conversation | SessionConversation, entities: Container[str]
    ) -> None:
        """Find or mint a ref for each key: at most two round trips."""
        candidates = dict.fromkeys(
            [*self._keys, *(k for s in self._spellings for k in _keys_of(s))]
        )
        self._refs = conversation.known_refs(candidates, entities)
        key_groups = [_keys_of(each) for each in self._spellings if not each.is_number]
        key_groups = [keys for keys in key_groups if not any(key in self._refs for key in keys)]
        others = [*((key,) for key in self._keys if key not in self._refs), *key_groups]
        new = [*self._numbers, *((KEY, keys[0]) for keys in others)]
        self._minted_refs = dict(zip(new, conversation.refer_pairs(new), strict=True))

    def replace(self, value: Any) -> Any:
        """Return a collected value with marks and refs in place of keys."""
        if isinstance(value, str):
            return self._replace_text(value)
        if isinstance(value, dict):
            return {self.replace(name): self.replace(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.replace(each) for each in value]
        if isinstance(value, uuid.UUID):  # from a hook; becomes a ref if one exists
            return self._refs.get(value) or str(Mark(self._minted_refs[KEY, value]))
        if isinstance(value, KeyNumber):
            return str(Mark(self._minted_refs[value.entity, int(value)]))
        return value

    def _replace_text(self, text: str) -> str:
        if id(text) not in self._texts:
            return text
        replaced = encode_marks(text, self._mark_of)
        if isinstance(text, QuotedText):
            return json.dumps(replaced, ensure_ascii=False)
        return f"{replaced}…{cut_mark(text.more)}" if isinstance(text, CutText) else replaced

    def _mark_of(self, spelt: KeySpelling) -> Mark | None:
        keys = _keys_of(spelt)
        if keys[0] in self._refs:
            return Mark(self._refs[keys[0]], spelt.spelling)
        if keys[-1] in self._refs:  # a text key with exactly this spelling
            return Mark(self._refs[keys[-1]])
        if spelt.is_number:
            return None
        return Mark(self._minted_refs[KEY, keys[0]], spelt.spelling)


def _keys_of(spelt: KeySpelling) -> tuple[Key, ...]:
    """Return the possible keys of a spelling: the UUID, and the text if rows have text keys."""
    return (spelt.text,) if spelt.key is None else (spelt.key, spelt.text)
