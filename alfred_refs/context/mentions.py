"""Mentions in users' text, and names in replies: from names to refs and back.

**Mentions.** A user interface writes `@[label](entity:key)` for a row that the user picked from a
list. `mentions_in` finds them (pure), also in code; text that only looks like one, such as
`@[me](https://example.org)`, is left alone. `MentionedRows` looks the rows up in a session, hence
among those that its owner can see, and returns their refs.

>>> [mention] = mentions_in("cook @[Curry [hot]](recipe:1) now", {"recipe"})
>>> mention.label, mention.entity
('Curry [hot]', 'recipe')

**Names.** `Names` replaces refs in a reply by the labels of their rows. It works on a stream: the
result does not depend on the cuts between chunks. It buffers at most the length of the longest ref
and one character.

>>> names = Names(lambda refs: {"recipe_3": "Thai Curry"}, longest=20)
>>> [*names.of(["I put reci", "pe_3's sauce", " on the list."])]
['I put ', "Thai Curry's ", 'sauce on the ', 'list.']

A ref is replaced if it is a word: in prose, lists, code, emphasis and the text of links, before a
possessive, and with its underscores escaped as in Markdown. It is not replaced inside an address,
which a name would break:

- next to one of `/ # ? = & : .` and more text, as in `/recipes/recipe_3`, `app:recipe_3` and
  `recipe_3.pdf`; white space, brackets, quotes and signs that no URL has end an address;
- in the target of a Markdown link, from `](` to `)`, and in quotes after `=`, as in attributes of
  HTML.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from sqlalchemy import BigInteger, inspect, literal, or_, select
from sqlalchemy.orm import Mapper

from alfred_refs import sqla
from alfred_refs.conversation import Conversation, mask_keys
from alfred_refs.errors import MentionError, SetupError
from alfred_refs.mapping import EntityKey, Key, KeyColumn, parse_ref
from alfred_refs.session import RefSession
from alfred_refs.store import Activity
from alfred_refs.tools import Toolset

_BEGUN = re.compile(r"\(\s*+(?P<entity>[a-z][a-z0-9_]*+)\s*+:")
_TARGET = re.compile(_BEGUN.pattern + r"\s*+(?P<key>[^()\s]*+)\s*+\)")
_LONGEST = 300  # characters of a label: an interface shows a name
_MAX_INTEGER = 2**63
_NOT_SEEN = "names no row that can be seen"


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention in a text.

    Attributes:
        start: the position of its first character.
        end: the position after its last character.
        label: the label in it.
        entity: the entity in it.
        key: the key in it, as text, percent-decoded.
    """

    start: int
    end: int
    label: str
    entity: str
    key: str = field(repr=False)


def mentions_in(text: str, entities: Container[str]) -> list[Mention]:
    """Return the mentions in a text, in order.

    Args:
        text: the user's text.
        entities: the entities that may be mentioned. Brackets before any other name are text,
            such as a link.

    Raises:
        MentionError: a mention is not closed, or has no key.
    """
    found = []
    start = text.find("@[")
    while start >= 0:
        mention = _mention_at(text, start, entities)
        if mention is not None:
            found.append(mention)
        start = text.find("@[", start + 2 if mention is None else mention.end)
    return found


def _mention_at(text: str, start: int, entities: Container[str]) -> Mention | None:
    closed = _end_of_label(text, start + 2)
    begun = None if closed is None else _BEGUN.match(text, closed + 1)
    if closed is None or begun is None or begun["entity"] not in entities:
        return None
    label, entity = mask_keys(text[start + 2 : closed]), begun["entity"]
    target = _TARGET.match(text, closed + 1)
    if target is None:
        raise MentionError(label, entity, "is not closed, or has more than a key in it")
    if not target["key"]:
        raise MentionError(label, entity, "has no key")
    return Mention(start, target.end(), label, entity, unquote(target["key"]))


def _end_of_label(text: str, start: int) -> int | None:
    """Return the position of the bracket that closes a label, which may contain brackets."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST)):
        if text[place] == "[":
            depth += 1
        elif text[place] == "]":
            depth -= 1
        if depth == 0:
            return place
    return None


# the type of the key -> the function that parses it
_TYPES: Mapping[str, Callable[[str], Key]] = {"uuid": uuid.UUID, "integer": int, "string": str}


class MentionedRows:
    """The mentioned rows of one text, and the container of the entities that may be mentioned.

    Args:
        conversation: the conversation in which the rows get refs.
        session: looks the rows up.
        toolset: finds the class of an entity; by default, among all mapped classes of the process.
    """

    def __init__(
        self, conversation: Conversation, session: RefSession, toolset: Toolset | None
    ) -> None:
        view = session.own_view
        if view is None or view.id != conversation.id:
            raise SetupError(
                "a mention was looked up in a session of another conversation, or of none",
                "make the session with conversation=context.conversation",
            )
        self._view = view
        self._session = session
        self._toolset = toolset

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and self._mapper(entity) is not None

    def _mapper(self, entity: str) -> Mapper[Any] | None:
        """Return the mapper of an entity, if its primary key is one column with keys."""
        if self._toolset is not None:
            table = self._toolset.tables.of_entity(entity)
            mapper = None if table is None else sqla.root_of(inspect(table.model).mapper)
        else:
            primary = self._view.entities.primary_column_of(entity)
            mapper = None if primary is None else sqla.mapper_of_table(primary.table)
        if mapper is None or len(mapper.primary_key) != 1:
            return None
        return mapper if self._view.entities.of_column(mapper.primary_key[0]) else None

    def of(self, found: Sequence[Mention]) -> list[str]:
        """Return the ref of each row, and record the mentions.

        Each entity takes one statement. A toolset adds those of `Toolset.reread`, and the registry
        takes one round trip for uncached refs.

        Raises:
            MentionError: a row does not exist, or is not visible to the session.
        """
        labels: dict[EntityKey, str] = {}
        for entity in dict.fromkeys(each.entity for each in found):
            labels |= self._labels_of(entity, [each for each in found if each.entity == entity])
        pairs = [(each.entity, self._key(each)) for each in found]
        refs = self._view.refer_pairs(pairs)
        if self._toolset is not None and refs:  # its hooks may hide rows
            current = self._toolset.reread(self._session, dict.fromkeys(refs, ()), {})
            for ref, mention in zip(refs, found, strict=True):
                is_unreadable = ref in current.unreadable and mention.entity not in current.masked
                if ref not in current.rows and not is_unreadable:
                    raise MentionError(mention.label, mention.entity, _NOT_SEEN)
        distinct = dict.fromkeys(pairs)
        done = [Activity(pair, "mentioned", label=labels.get(pair)) for pair in distinct]
        self._view.note_activity(done, "user")
        return refs

    def _column(self, entity: str) -> KeyColumn:
        [primary] = cast("Mapper[Any]", self._mapper(entity)).primary_key
        return cast(KeyColumn, self._view.entities.of_column(primary))

    def _key(self, mention: Mention) -> Key:
        column = self._column(mention.entity)
        try:
            key = _TYPES[column.key_type](mention.key)
        except ValueError:
            raise MentionError(mention.label, mention.entity, "has a malformed key") from None
        # PostgreSQL raises an error for these, which aborts the transaction
        if (isinstance(key, str) and "\0" in key) or (
            isinstance(key, int) and not -_MAX_INTEGER <= key < _MAX_INTEGER
        ):
            raise MentionError(mention.label, mention.entity, _NOT_SEEN)
        return key

    def _labels_of(self, entity: str, found: Sequence[Mention]) -> dict[EntityKey, str]:
        """Return the labels of the mentioned rows of an entity.

        Raises:
            MentionError: a row does not exist, or is not visible to the session.
        """
        column = self._column(entity)
        wanted = {self._key(each): each for each in found}
        mapper = cast("Mapper[Any]", self._mapper(entity))
        label = self._view.entities.label_of(entity)
        own = mapper.get_property_by_column(mapper.primary_key[0]).key
        # no other columns: their values may be unreadable
        needed = set() if label is None else label.attributes(mapper)
        names = [own, *sorted(needed & {*mapper.column_attrs.keys()} - {own})]
        matches = or_(*(mapper.primary_key[0] == _literal(column, key) for key in wanted))

        def read(names: Sequence[str]) -> dict[Key, dict[str, Any]]:
            attributes = (getattr(mapper.class_, name) for name in names)
            found = self._session.execute(
                select(*attributes).where(matches),
                execution_options={"raw_keys": True},  # text keys must not be taken for refs
            )
            return {column.to_key(row[0]): dict(zip(names, row, strict=True)) for row in found}

        try:
            rows = read(names)
        except Exception as error:
            if not sqla.is_in_load(error):
                raise
            rows, label = read([own]), None  # the error may contain the stored value
        for key, mention in wanted.items():
            if key not in rows:
                raise MentionError(mention.label, entity, _NOT_SEEN)
        called = {
            (entity, key): None if label is None else label.of(row) for key, row in rows.items()
        }
        return {pair: text for pair, text in called.items() if text is not None}


def _literal(column: KeyColumn, key: Key) -> Any:
    """Return a key as a parameter; an integer may be too large for its column."""
    value = column.from_key(key)
    return literal(value, BigInteger()) if isinstance(value, int) else value


NamesOf = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns the names of known refs; called once for the new refs of a chunk."""

# a possible ref; a character that joins words to an address; a character that ends an address
_PIECE = re.compile(
    r"(?P<word>[A-Za-z0-9_\\]+)|(?P<join>[/#?=&:.])|[\s<>()\[\]\"'`|]|[^\w\x00-\x7f]"
)
_UNFINISHED = re.compile(r"(?<![A-Za-z0-9_\\])([A-Za-z0-9_\\]++)[/#?=&:.]?\Z")
_GOES_ON = re.compile(r"[/#?=&:.]\w")
_MARKUP = "_\\"  # emphasis or an escape, at the ends of a word
# the beginning of a span that is an address as a whole -> the characters that end it
_STRETCHES = {"](": ")\n", '="': '"<>\n', "='": "'<>\n"}


class Names:
    """Replaces refs by names, chunk by chunk; one object for each reply.

    Args:
        names_of: looks names up; called once for each ref.
        longest: the number of characters of the longest possible ref.
        unknown: returns the text for an unknown ref; by default the ref.
    """

    def __init__(
        self, names_of: NamesOf, longest: int, unknown: Callable[[str], str] = str
    ) -> None:
        self._names_of = names_of
        self._longest = longest
        self._unknown = unknown
        self._known: dict[str, str] = {}
        self._held = ""
        self._before = ""  # the last character that was returned
        self._joined = False  # whether the next word continues an address
        self._until = ""  # the characters that end the current span
        self._in_word = False  # whether the last word continues and is too long for a ref

    def of(self, chunks: Iterable[str]) -> Iterator[str]:
        """Yield a reply with names, each part as soon as it is complete."""
        for chunk in chunks:
            if text := self.add(chunk):
                yield text
        if text := self.end():
            yield text

    def add(self, chunk: str) -> str:
        """Add a chunk, and return the text that is complete now."""
        text = self._held + chunk
        unfinished = _UNFINISHED.search(text)
        if unfinished is None:
            self._held = ""
            return self._named(text)
        if self._is_long(unfinished[1]):  # too long for a ref, so not buffered
            self._held, done = "", self._named(text)
            self._in_word = unfinished.end(1) == len(text)
            return done
        self._held = unfinished[0]
        return self._named(text[: unfinished.start()], unfinished[0])

    def end(self) -> str:
        """Return the rest."""
        text, self._held = self._held, ""
        return self._named(text)

    def _is_long(self, word: str) -> bool:
        core = word.strip(_MARKUP).replace("\\_", "_")
        return len(core) > self._longest or len(word) > 2 * self._longest

    def _named(self, text: str, after: str = "") -> str:
        """Replace the refs in a text that ends after a word."""
        refs = self._refs_in(text, after)
        self._look_up([ref for _, ref in refs])
        shown, end = [], 0
        for place, ref in refs:
            shown += [text[end : place.start()], self._word(place[0], ref)]
            end = place.end()
        return "".join([*shown, text[end:]])

    def _refs_in(self, text: str, after: str) -> list[tuple[re.Match[str], str]]:
        """Return the refs in a text that are not part of an address, and advance the state."""
        found, whole = [], text + after
        for piece in _PIECE.finditer(text):
            start = piece.start()
            if not piece["word"]:
                self._pass(piece, text[start - 1] if start else self._before)
                continue
            is_rest = self._in_word and start == 0
            is_address = self._until or self._joined or _GOES_ON.match(whole, piece.end())
            ref = None if is_rest or is_address else self._ref_of(piece[0])
            if ref is not None:
                found.append((piece, ref))
        if text:
            self._before, self._in_word = text[-1], False
        return found

    def _pass(self, sign: re.Match[str], before: str) -> None:
        """Advance the state over a character that is not part of a word."""
        if not self._until:
            self._until = _STRETCHES.get(before + sign[0], "")
        elif sign[0] in self._until:
            self._until = ""
        self._joined = sign["join"] is not None

    def _ref_of(self, word: str) -> str | None:
        """Return the ref in a word, which may be capitalised, escaped or emphasised."""
        text = word.strip(_MARKUP).replace("\\_", "_").lower()
        return None if self._is_long(word) or parse_ref(text) is None else text

    def _look_up(self, refs: Sequence[str]) -> None:
        new = [ref for ref in dict.fromkeys(refs) if ref not in self._known]
        if new:
            found = self._names_of(new)
            self._known |= {ref: found.get(ref) or self._unknown(ref) for ref in new}

    def _word(self, word: str, ref: str) -> str:
        name = self._known[ref]
        if name == ref:
            return word
        core = word.strip(_MARKUP)
        start = word.index(core)
        return word[:start] + name + word[start + len(core) :]
