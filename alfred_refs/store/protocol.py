"""Store protocol and its value types.

What was done with the rows of a conversation's refs, and what a model last saw of them.

For each ref a store keeps its last action, who did it, its first and last turn, why it is
retained, and a snapshot of its row: what a model was shown, in refs. The steps of an agent are
kept beside: what each did, and the note that it left to the next.

```python
store.note(address, [Activity(("recipe", key), "read", {"name": "Curry"})], "model")
store.activity(address, turns=3).entries[0].action  # 'read'
```

What goes into a store and comes out of it: plain values, the same for every store.

What every store promises.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from types import EllipsisType, MappingProxyType
from typing import Any, Literal, Protocol

from sqlalchemy import Column

from alfred_refs.errors import ConversationIdError, EntityTableError
from alfred_refs.mapping.keys import EntityKey, Key, Ref

Action = Literal["read", "linked", "created", "updated", "deleted", "mentioned"]
"""What was done with a row last; a draft, which has no row yet, was `generated`."""

Actor = Literal["model", "user"]
"""On whose behalf: the model's, by tools, or the user's, in the application's own screens."""

KEPT_TURNS = 10
"""For how many turns snapshots and steps are kept."""

INSIDE = "…"
"""Begins the name of a snapshot's field that has the refs of rows inside of it, or one, or none.

Names of fields come from tables, never from what is in them: no value can pass for such a field.
"""

LARGEST = 20_000
"""Characters of a snapshot, as JSON: what would make it longer begins it anew."""

# what a read of the same turn does not hide
_WRITTEN: frozenset[Action] = frozenset({"created", "updated", "mentioned"})


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that was done with a row.

    Attributes:
        key: of the row.
        action: what was done.
        seen: what the model was shown of the row, by field; `None` where it was not shown.
        heads: of texts and lists that were cut, what was shown; each gives way to what is known.
        label: what people call the row, for a ref that is new.
        shown: whether its ref was shown, so that it has one surely.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> store, address = MemoryStore(), Address("chat-7")
        >>> read = Activity(("recipe", 4711), "read", {"name": "Soup"})
        >>> store.note(address, [read], "model")
        >>> [entry.action for entry in store.activity(address, turns=3).entries]
        ['read']
    """

    key: EntityKey = field(repr=False)
    action: Action
    seen: Mapping[str, Any] | None = None
    heads: Mapping[str, Any] | None = None
    label: str | None = None
    shown: bool = False


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """What is known of one ref's row.

    Attributes:
        ref: never a draft's.
        gone: why there is no row, `None` as long as there may be one.
        label: what people call the row; `None` where that is not known.
        action: the last one.
        actor: who did it.
        first_turn: of the first action.
        last_turn: of the last one.
        reason: why the ref is retained beyond the window; `None` where it is not.
        demoted: whether it is to be left out though it is in the window.
        seen_turn: when the model last was shown the row; `None` where it never was.
        seen: what it was shown, by field; `None` where that is kept no more.

    Example:
        >>> asked = {"table": "recipes", "columns": ["name"]}
        >>> answer = desk.call("chat-7", None, "db_read", asked)
        >>> [entry, _] = chat.activity(turns=3).entries
        >>> str(entry.ref), entry.action, entry.actor, entry.seen
        ('recipe_1', 'read', 'model', {'id': 'recipe_1', 'name': 'Soup'})
    """

    ref: Ref
    gone: str | None
    label: str | None
    action: Action
    actor: Actor
    first_turn: int
    last_turn: int
    reason: str | None = None
    demoted: bool = False
    seen_turn: int | None = None
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ActivityRecord:
    """What is known of a conversation's rows at one moment.

    Attributes:
        turn: the current one.
        entries: of the last turns, and those that are retained, in natural order.
        refs: how many refs the conversation has, by entity.

    Example:
        >>> record = chat.activity(turns=3)
        >>> record.turn, list(record.entries), dict(record.refs)
        (0, [], {'recipe': 2, 'line': 2})
    """

    turn: int
    entries: Sequence[ActivityEntry]
    refs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepEntry:
    """What a step of an agent left.

    Attributes:
        turn: in which it was done.
        number: its number in the turn, from 1.
        content: a JSON object, as text: what was done, in refs, never keys.

    Example:
        >>> store = PostgresStore(engine)
        >>> step = store.add_step(Address("chat-7"), json_text({"note": "recipe_1 is a soup"}))
        >>> step.turn, step.number, step.content
        (0, 1, '{"note":"recipe_1 is a soup"}')
    """

    turn: int
    number: int
    content: str = field(repr=False)


def json_text(value: Any) -> str:
    """Return a value as JSON that a database takes: half of a surrogate pair as an escape.

    Args:
        value: JSON values.

    Returns:
        compact text, with letters as they are.

    Raises:
        ValueError: a number is not finite, or has thousands of digits.

    Example:
        >>> json_text({"name": "Crème", "servings": 2})
        '{"name":"Crème","servings":2}'
        >>> json_text(float("nan"))
        Traceback (most recent call last):
            ...
        ValueError: Out of range float values are not JSON compliant...
    """
    compact = partial(json.dumps, value, allow_nan=False, separators=(",", ":"))
    text = compact(ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which has no bytes of its own
        return compact()
    return text


def is_covered(known: Action, known_turn: int, new: Action, turn: int) -> bool:
    """Tell whether a row's last action stays what it is.

    A row that is shown because another refers to it is as it was. Reading a row does not hide that
    it was written or mentioned in the same turn.
    """
    if new == "linked":
        return known != "linked"
    return new == "read" and known in _WRITTEN and known_turn == turn


def merge_snapshots(
    known: Mapping[str, Any] | None,
    seen: Mapping[str, Any] | None,
    heads: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Return a snapshot with what was shown now: the newest value of each field, none lost."""
    if seen is None:
        return None if known is None else dict(known)
    whole = {**(known or {}), **seen}
    for name, head in (heads or {}).items():
        whole.setdefault(name, head)
    return whole


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
        alfred_refs.errors.ConversationIdError: a conversation's owner is empty, too long
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


class Store(Protocol):
    """The map of refs and keys, for all conversations.

    Every method is atomic, unless it says so, and takes no part in the caller's transaction;
    those that a session calls make one round trip. Where the conversation belongs to another
    owner, `known`, `labelled`, `namesakes`, `mark`, `label`, `edit_drafts` and `confirm_drafts`
    find nothing in it, `touch` does nothing, and all other methods that take an address raise
    `UnknownConversationError`.

    Example:
        >>> from alfred_refs.store import Address
        >>> from alfred_refs.testing import MemoryStore
        >>> store: Store = MemoryStore()
        >>> [entry] = store.refer(Address("chat-7"), [("recipe", 4711)])
        >>> entry.ref == store.refer(Address("chat-7"), [("recipe", 4711)])[0].ref
        True
    """

    @property
    def is_async(self) -> bool:
        """Whether methods are to be called inside of what `AsyncSession.run_sync` awaits."""
        ...

    def create_tables(self) -> None:
        """Create what the store needs and does not have yet."""

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """Return the entry of each key, in order; keys new to it get the next numbers.

        An entry is durable when it is returned, and a number once taken is never given again. The
        conversation is begun if it does not exist, and used. No key comes twice; only those that
        are new get the labels.
        """

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """Return the entries of the refs that are known; the others are left out.

        The conversation is used, which is noted where it was not within `NOTED_EVERY`: one round
        trip more, then. A store that can only be read does not note it.
        """

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        """Return the refs that keys have, of whatever entities, in order; the others are left out.

        Also those of rows that are gone. It does not count as a use of the conversation.
        """

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        """Return refs of the same entity whose rows are not gone, nearest in number first.

        Each with its label.
        """

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        """Return labels of rows that are not gone, the last first.

        At most `limit` refs are looked at, labelled or not.
        """

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        """Return the first and the last ref of those labels that several rows have.

        Rows that are gone do not count. The last `limit` refs of each entity are looked at.

        Args:
            address: of the conversation.
            labels: each after the entity of its rows.
            limit: refs of an entity.
        """

    def entities(self, address: Address) -> Mapping[str, int]:
        """Return the highest number of each entity that the conversation has refs of."""

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """Note that the rows of these keys are gone, or there again; skip unknown keys."""

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        """Note what the rows of these keys are called now; skip unknown keys."""

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        """Keep drafts, which get the next numbers of their entities, and return them in order.

        A draft is durable when it is returned. Its number is of a counter of its own, beside that
        of the entity's refs, and is never given again. The conversation is begun if it does not
        exist, and used; so it is by whatever else writes a draft. Without a turn, it is generated
        in the one that the conversation is in.
        """

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """Return the drafts that are known, whatever became of them; the others are left out."""

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        """Yield all drafts in these states, or those of one entity, in natural order.

        They are read page by page: what is written meanwhile may be there or not.
        """

    def values_there(
        self, address: Address, column: Column[Any], values: Sequence[Any]
    ) -> Collection[Any]:
        """Return which of these values a column of the application's tables has.

        None of them, where the store cannot see that table.
        """

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        """Give pending drafts other content, all or none, and return them without their rows.

        No draft comes twice, a key that is reserved for one stays, and the turn is as for `draft`.
        Nothing is returned where none was changed: one of them is not known, not pending, or of
        another version.
        """

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """Discard pending drafts, and return what `read_drafts` does then.

        None is discarded if one is not known or saved. One that is discarded already stays so.

        A draft whose key is reserved can be discarded, because a save that failed must not keep it
        for ever. If that save is under way and its row is committed all the same, the draft is
        saved: `confirm_drafts` says so, as the row is there. Nothing is lost, and no row comes
        about that no draft knows.
        """

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        """Set the key of each pending draft that has none; return what `read_drafts` does then.

        A key that was set never changes, so all who save a draft insert a row of one key, and the
        table lets one of them win. A crash between the commit of the row and `confirm_drafts`
        leaves a pending draft with a key: the table tells whether its row is there. So a key must
        be one that no other row can have, such as a new UUID or a sequence's next number.

        Raises:
            DraftKeyError: one of the keys is another draft's; none is set.
        """

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        """Note that the rows of these drafts are saved; skip those without key, and unknown ones.

        One that was discarded in between is saved. A row that "was never saved" is there after
        all: an earlier attempt had its key.
        """

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        """Note what was done with rows; those that have no ref get one, unless they are deleted.

        Of each row the last action is kept, but that it is shown beside another, or read in the
        turn in which it was written or mentioned: see `is_covered`. What the model was shown is
        merged with what is known, field by field; of a row that is deleted it is forgotten.

        Args:
            address: the conversation, which is begun if it does not exist, and used.
            done: no key twice.
            actor: on whose behalf.
            turn: in which; `None`: the one that the conversation is in.
        """

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        """Return what was done with rows in the last turns, and of all that are retained.

        Of very many the last are returned.

        Args:
            address: the conversation.
            turns: how many, with the one in which the caller works.
            turn: which one that is; `None`: the one that the conversation is in.
        """

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        """Note why refs are retained; skip those that are not known."""

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        """Leave refs out of prompts, until something is done with them again."""

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        """Forget what was done with the rows of refs; the refs stay known."""

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        """Keep what a step of an agent left, with the next number of its turn.

        Args:
            address: the conversation, which is begun if it does not exist, and used.
            content: a JSON object, as text.
            turn: in which it was done; `None`: the one that the conversation is in.
        """

    def steps(self, address: Address, turns: int, turn: int | None = None) -> Sequence[StepEntry]:
        """Return the steps of the last turns, in order; arguments as of `activity`."""

    def begin_turn(self, address: Address) -> int:
        """Begin the next turn and return its number, from 1; begin the conversation if need be.

        Snapshots and steps that are older than `KEPT_TURNS` are forgotten.
        """

    def turn(self, address: Address) -> int:
        """Return the number of the current turn, 0 before the first."""

    def touch(self, address: Address) -> None:
        """Note that the conversation is used, where it was not within `NOTED_EVERY`.

        It raises nothing where there is no such conversation, or where the store can only be
        read.
        """

    def fork(self, address: Address, new_id: str) -> None:
        """Make a conversation of the same owner with the same refs, marks, turn and counters.

        Drafts go along. One that is not saved loses the key that may be reserved for it: each of
        the two conversations may save it, as a row of its own.

        It is taken at one moment: what others mint at that time is in the fork with its counter,
        or neither.

        Raises:
            UnknownConversationError: there is nothing to fork.
            ConversationExistsError: the new id is taken, or numbers of it were given before its
                conversation was forgotten that now would name other rows.
        """

    def forget(self, address: Address) -> None:
        """Remove a conversation with its mappings and drafts; keep its counters.

        When the id is begun again, by whomever, its numbers go on from there: a ref from before
        is unknown, and never another row's.

        Raises:
            UnknownConversationError: there is nothing to forget.
        """

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """Forget the conversations that were not used for so long, and yield how many at a time.

        Each step is atomic on its own, and what was done stays done if the next is not asked for.
        A conversation that another process works in just then is left out. In the end the
        counters go that were left behind longer ago.

        Args:
            unused_for: not negative; by the store's clock.
            batch: how many conversations to forget in one step, at most.
        """

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        """Remove what is kept of a row beside its refs, in every conversation, whoever has it.

        That is its label, the content and label of drafts that were saved as it, and all activity
        and steps of the conversations that know it, where it may have been shown inside of other
        rows. Yielded is in how many at a time; steps and `batch` are as for `prune`, but a
        conversation that another process works in is waited for.

        Args:
            key: of the row, after its entity.
            table: whose row it is; refs of another table's rows are left alone.
            batch: how many conversations to look after in one step, at most.
        """

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        """Yield the entries of all refs, or of one entity's, in natural order.

        They are read page by page: what is minted meanwhile may be there or not.
        """

    def export(self, address: Address) -> Exported:
        """Return all that there is of a conversation. It does not count as used by that.

        Raises:
            UnknownConversationError: there is nothing to export.
        """

    def restore(self, address: Address, exported: Exported) -> None:
        """Make a conversation of what was exported, at another address or the same.

        If `exported` is of the same id, and the conversation was forgotten since, the numbers go
        on from the highest that was ever given.

        Args:
            address: what it is to be; its id and owner may be others than those in `exported`.
            exported: no number or key in it is repeated, and none is above its counter; so it is
                with its drafts.

        Raises:
            ConversationExistsError: as for `fork`.
        """

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """Tell about one conversation, whoever its owner is. It does not count as used by that.

        Raises:
            UnknownConversationError: there is none of this id.
        """

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        """Yield conversations, the last used first.

        Which they are is decided when the first is asked for; they are read page by page, and
        what is forgotten meanwhile may be there or not.

        Args:
            unused_for: only those that were not used for so long.
            owner: only those of this owner; `None`: of those without one; `...`: whoever has them.
            limit: not negative; at most so many.
        """

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        """Return how many `conversations` would yield without a limit."""

    def stats(self) -> RegistryStats:
        """Tell how much is kept for all conversations. This may take a while."""
