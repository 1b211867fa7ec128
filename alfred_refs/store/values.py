"""What goes into a store and comes out of it: plain values, the same for every store."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal

from alfred_refs.errors import ConversationIdError, EntityTableError
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import Ref

from .activity import ActivityEntry, StepEntry

Gone = Literal["was deleted", "was never saved"]
"""Why a ref has no row."""

DraftState = Literal["pending", "saved", "discarded"]
"""What has become of a draft."""

NO_LABELS: Mapping[EntityKey, str] = MappingProxyType({})

_LONGEST = 255

NOTED_EVERY = timedelta(hours=1)
"""How exactly a store knows when a conversation was last used: a write an hour costs nothing."""


def _unknown(_entity: str) -> None:
    """Stand for not knowing any table."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which conversation, and on whose behalf.

    Attributes:
        id: what the application calls the conversation.
        owner: the owner as text, `None` for a conversation without one.
        table_of: returns the table, with its schema, for whose rows an entity's refs are used;
            `None` where that is not known. It does not count when addresses are compared.

    Raises:
        ConversationIdError: they cannot be kept as they are.

    Example:
        >>> Address("chat-7", owner="ann") == Address("chat-7", owner="ben")
        False
        >>> Address("chat-7", owner="")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.ConversationIdError: a conversation's owner is empty, too long
            or has control characters; use 1 to 255 printable characters
    """

    id: str
    owner: str | None = None
    table_of: Callable[[str], str | None] = field(default=_unknown, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Let nothing in that would be refused, or changed, further down."""
        _check("id", self.id)
        if self.owner is not None:
            _check("owner", self.owner)

    def tables_of(self, entities: Iterable[str]) -> str:
        """Return the tables of entities as JSON, as far as they are known."""
        tables = {entity: self.table_of(entity) for entity in dict.fromkeys(entities)}
        return json.dumps(tables)

    def uses(self, entity: str, table: str | None) -> bool:
        """Tell whether an entity's refs are used for rows of a table, as far as both are known."""
        used = self.table_of(entity)
        return table is None or used is None or table == used

    def check_table(self, entity: str, table: str | None) -> None:
        """Check that refs are of the table for which they are used.

        Args:
            entity: whose refs.
            table: which they are of; `None` where that is not known.

        Raises:
            EntityTableError: they are of another: a key of it is another row's here.
        """
        used = self.table_of(entity)
        if table is not None and used is not None and used != table:
            raise EntityTableError(self.id, entity, table, used)

    @property
    def digest(self) -> uuid.UUID:
        """Sixteen bytes that stand for the id in every row and index of a store.

        A digest needs no look-up, unlike a number handed out by a sequence, and no room, unlike
        the id itself.
        """
        return uuid.UUID(bytes=blake2b(self.id.encode(), digest_size=16).digest())


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store knows of one ref.

    Attributes:
        ref: never a draft's.
        key: the same for ever.
        gone: why there is no row, `None` as long as there may be one.
        label: what people call the row, in one line; `None` where that is not known.
        minted: whether the call that returned it gave the ref its number, as far as the store
            tells; of the call and not of the ref, it does not count when entries are compared.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> soup = ("recipe", 4711)
        >>> [entry] = MemoryStore().refer(Address("chat-7"), [soup], {soup: "Soup"})
        >>> str(entry.ref), entry.label, entry.minted
        ('recipe_1', 'Soup', True)
    """

    ref: Ref
    key: Key = field(repr=False)
    gone: Gone | None = None
    label: str | None = None
    minted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class NewDraft:
    """Content to be kept as a draft.

    Attributes:
        entity: what kind of row it is to become.
        content: a JSON object, as text.
        label: what people are to call the row; `None` where that is not known.

    Example:
        >>> NewDraft("recipe", '{"name": "Curry"}', label="Curry")
        NewDraft(entity='recipe', label='Curry')
    """

    entity: str
    content: str = field(repr=False)
    label: str | None = None


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """Content that a draft is to have in place of what it has.

    Attributes:
        ref: which draft.
        content: a JSON object, as text.
        label: another label; `None`: as it was.
        version: which version was read. Another one is left as it is, unless it is the next and
            has this content already: a caller who was not told may ask again.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> store, address = MemoryStore(), Address("chat-7")
        >>> [draft] = store.draft(address, [NewDraft("recipe", '{"name": "Curry"}')])
        >>> edit = DraftEdit(draft.ref, '{"name": "Dal"}', version=1)
        >>> store.edit_drafts(address, [edit])[draft.ref].version
        2
    """

    ref: Ref
    content: str = field(repr=False)
    label: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """What a store knows of one draft.

    Attributes:
        ref: a draft's.
        content: a JSON object, as the text that was given.
        label: what people are to call the row; `None` where that is not known.
        turn: in which it was generated.
        edited: the turn of its last edit, or else that in which it was generated.
        version: 1, and one more with each edit.
        state: what has become of it.
        key: of the row that it is or will be saved as; `None` until one is reserved.
        row: the entry of that key, if it has one.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> new = NewDraft("recipe", '{"name": "Curry"}')
        >>> [draft] = MemoryStore().draft(Address("chat-7"), [new])
        >>> str(draft.ref), draft.state, draft.version
        ('gen_recipe_1', 'pending', 1)
    """

    ref: Ref
    content: str = field(repr=False)
    label: str | None
    turn: int
    edited: int
    version: int = 1
    state: DraftState = "pending"
    key: Key | None = field(default=None, repr=False)
    row: Entry | None = None


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """What is known of a conversation without looking into it.

    Attributes:
        id: what the application calls it.
        owner: on whose behalf it is held, as text; `None` without one.
        turn: the number of its last turn, 0 before the first.
        begun_at: when its first ref was minted or its first turn begun.
        used_at: when it was last used. Where nothing was minted and no turn begun since, it may
            have been used up to an hour later.
        refs: how many refs it has, by entity, in order; kept as they are minted, never counted.

    Example:
        >>> info = registry.describe("chat-7")
        >>> info.id, info.turn, info.refs
        ('chat-7', 0, {'line': 2, 'recipe': 2})
    """

    id: str
    owner: str | None
    turn: int
    begun_at: datetime
    used_at: datetime
    refs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RegistryStats:
    """What is kept for all conversations together.

    Attributes:
        conversations: how many there are.
        refs: how many refs they have, by entity, in order.
        gone: how many of these refs are of rows that are not there.
        left_counters: how many counters were left behind by conversations that were forgotten.
        drafts: how many drafts they have, by state, in order.
        table_bytes: what the tables take on disk; `None` where there is no disk.
        index_bytes: what their indexes take beside.

    Example:
        >>> stats = registry.stats()
        >>> stats.conversations, stats.refs, stats.gone
        (1, {'line': 2, 'recipe': 2}, 0)
    """

    conversations: int
    refs: Mapping[str, int]
    gone: int
    left_counters: int
    drafts: Mapping[str, int] = field(default_factory=dict)
    table_bytes: int | None = None
    index_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """One conversation, whole, as it was at one moment.

    Attributes:
        id: what the application called it.
        owner: on whose behalf it was held.
        turn: the number of its last turn.
        begun_at: when it was begun.
        last: the highest number ever given, by entity.
        entries: of all refs, in natural order.
        last_drafts: the highest number ever given to a draft, by entity.
        drafts: all of them, in natural order; their `row` is left out.
        tables: whose rows the refs are of, by entity, where that is known.
        activity: what was done with rows, in natural order; their `gone` and `label` are left out.
        steps: what steps left, in order.

    Example:
        >>> exported = PostgresStore(engine).export(Address("chat-7"))
        >>> [str(entry.ref) for entry in exported.entries], dict(exported.last)
        (['line_1', 'line_2', 'recipe_1', 'recipe_2'], {'line': 2, 'recipe': 2})
    """

    id: str
    owner: str | None
    turn: int
    begun_at: datetime
    last: Mapping[str, int]
    entries: Sequence[Entry]
    last_drafts: Mapping[str, int] = field(default_factory=dict)
    drafts: Sequence[DraftEntry] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    activity: Sequence[ActivityEntry] = ()
    steps: Sequence[StepEntry] = ()


def owner_text(owner: str | int | uuid.UUID | None) -> str | None:
    """Return an owner as conversations have it.

    Args:
        owner: the owner's key; `None` for none.

    Returns:
        its text, which has 1 to 255 printable characters; `None` for none.

    Raises:
        ConversationIdError: it cannot be kept as it is.

    Example:
        >>> owner_text(7), owner_text("ann"), owner_text(None)
        ('7', 'ann', None)
    """
    if owner is None:
        return None
    text = str(owner)
    _check("owner", text)
    return text


def _check(what: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ConversationIdError(
            f"a conversation's {what} is a {type(text).__name__}",
            "give text, such as str(id)",
        )
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise ConversationIdError(
            f"a conversation's {what} is empty, too long or has control characters",
            f"use 1 to {_LONGEST} printable characters",
        )
