"""Values that go into a store and come out of it: frozen dataclasses, the same for every store.

A store takes and returns plain values, never rows or mapped instances. An `Address` identifies a
conversation, and checks the id and the owner that the application has chosen:

>>> address = Address("chat-7", owner="ann")
>>> address == Address("chat-7", owner="ben")
False

Every method of `Store` about one conversation takes an address first. The other values are:

- refs: `Entry` is a ref with its key and its label;
- drafts: `NewDraft` and `DraftEdit` go in, `DraftEntry` comes out;
- activity: `Activity` goes in, and `ActivityEntry`, in an `ActivityRecord`, comes out;
- steps of agents: text goes in, and `StepEntry` comes out;
- calls of tools: `NewCall` and `CallValues` go in, `CallEntry` comes out, and `ChangeEntry`, a row
  that a call changed, does both;
- conversations: `ConversationInfo` and `RegistryStats` are for operators, `Exported` is one
  conversation as a whole.

>>> from alfred_refs.testing import MemoryStore
>>> store = MemoryStore()
>>> [entry] = store.refer(address, [("recipe", 4711)], {("recipe", 4711): "Soup"})
>>> str(entry.ref), entry.label, entry.minted
('recipe_1', 'Soup', True)

Keys and contents are left out of every `repr`, so that logging a value shows no key.

Limits: nothing here checks that a ref exists, or that the content of a draft fits its table.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from alfred_refs.errors import ConversationIdError, EntityTableError
from alfred_refs.mapping.keys import EntityKey, Key, Ref

NOTED_EVERY = timedelta(hours=1)
"""How often the last use of a conversation is recorded: a write an hour costs nothing."""

KEPT_TURNS = 10
"""For how many turns steps, and the names of the fields that a model was shown, are kept."""

NO_LABELS: Mapping[EntityKey, str] = MappingProxyType({})

_LONGEST = 255

Gone = Literal["was deleted", "was never saved"]
"""Why a ref has no row."""

DraftState = Literal["pending", "saved", "discarded"]
"""The state of a draft."""

Action = Literal["read", "linked", "created", "updated", "deleted", "mentioned"]
"""What was done with a row last. `linked`: its ref was shown in a foreign key of another row."""

Actor = Literal["model", "user"]
"""Who did it: the model, by tools, or the user, in the application's own screens."""

CallState = Literal["waiting", "doing", "done", "rejected", "expired", "refused"]
"""The state of a call: it waits for a decision, is being executed, or was decided."""

ChangeAction = Literal["created", "updated", "deleted"]
"""What a call did with a row."""


# Addresses


def _table_unknown(_entity: str) -> None:
    """Return no table for any entity."""


@dataclass(frozen=True, slots=True)
class Address:
    """A conversation, and the owner on whose behalf it is used.

    Attributes:
        id: the id that the application chose for the conversation.
        owner: the owner as text, `None` for a conversation without one.
        table_of: returns the table, with its schema, whose rows the refs of an entity are used
            for; `None` if it is not known. It is not compared.

    Raises:
        ConversationIdError: the id or the owner is not 1 to 255 printable characters.

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
    table_of: Callable[[str], str | None] = field(
        default=_table_unknown, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Refuse text that a database or a driver would refuse or change."""
        _check_text("id", self.id)
        if self.owner is not None:
            _check_text("owner", self.owner)

    def tables_of(self, entities: Iterable[str]) -> str:
        """Return the tables of entities as a JSON object, with null for unknown ones.

        Args:
            entities: their names.
        """
        tables = {entity: self.table_of(entity) for entity in dict.fromkeys(entities)}
        return json.dumps(tables)

    def uses(self, entity: str, table: str | None) -> bool:
        """Return whether an entity's refs are for rows of a table, or that is not known.

        Args:
            entity: its name.
            table: the name of the table with its schema; `None` if it is not known.
        """
        used = self.table_of(entity)
        return table is None or used is None or table == used

    def check_table(self, entity: str, table: str | None) -> None:
        """Check that refs were minted for the table that they are used for.

        Args:
            entity: of the refs.
            table: the table that they were minted for; `None` if it is not known.

        Raises:
            EntityTableError: it is another table, where the same key is another row.
        """
        if not self.uses(entity, table):
            raise EntityTableError(self.id, entity, str(table), str(self.table_of(entity)))

    @property
    def digest(self) -> uuid.UUID:
        """Sixteen bytes that identify the conversation in every row and index of a store.

        Unlike a number from a sequence, a digest needs no look-up; unlike the id, little space.
        """
        return uuid.UUID(bytes=blake2b(self.id.encode(), digest_size=16).digest())


def owner_text(owner: str | int | uuid.UUID | None) -> str | None:
    """Return an owner as text, as an `Address` has it.

    Args:
        owner: the owner's key; `None` for none.

    Returns:
        1 to 255 printable characters; `None` for none.

    Raises:
        ConversationIdError: its text is not of that form.

    Example:
        >>> owner_text(7), owner_text("ann"), owner_text(None)
        ('7', 'ann', None)
    """
    if owner is None:
        return None
    text = str(owner)
    _check_text("owner", text)
    return text


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ConversationIdError(
            f"a conversation's {name} is a {type(text).__name__}",
            "give text, such as str(id)",
        )
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise ConversationIdError(
            f"a conversation's {name} is empty, too long or has control characters",
            f"use 1 to {_LONGEST} printable characters",
        )


# Refs


@dataclass(frozen=True, slots=True)
class Entry:
    """A ref with its key.

    Attributes:
        ref: never a draft's.
        key: the row's key; a ref never gets another one.
        gone: why the row does not exist; `None` as long as it may.
        label: what people call the row, in one line; `None` if it is not known.
        minted: whether the ref was minted by the call that returned the entry, as far as the store
            reports it. It is not compared.

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


# Drafts


@dataclass(frozen=True, slots=True)
class NewDraft:
    """Content to store as a draft.

    Attributes:
        entity: of the row that it is to become.
        content: a JSON object, as text.
        label: what people are to call the row; `None` if it is not known.

    Example:
        >>> NewDraft("recipe", '{"name": "Curry"}', label="Curry")
        NewDraft(entity='recipe', label='Curry')
    """

    entity: str
    content: str = field(repr=False)
    label: str | None = None


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """New content for a draft.

    Attributes:
        ref: the ref of the draft.
        content: the new content, a JSON object as text.
        label: the new label; `None` does not change it.
        version: the version that was read; `None` for any. A draft with another version is not
            changed. An edit may be repeated after its connection was lost: if the draft has the
            next version and this content already, that is not an error.

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
    """A draft as it is stored.

    Attributes:
        ref: a draft's.
        content: a JSON object, as the text that was stored.
        label: what people are to call the row; `None` if it is not known.
        turn: the turn in which it was generated.
        edited: the turn of its last edit, or `turn` if it was not edited.
        version: 1, and one more with each edit.
        state: whether it is pending, saved or discarded.
        key: of the row that it is or will be saved as; `None` until one is reserved.
        row: the entry of that key, if the key has a ref.

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

    @property
    def name(self) -> str | None:
        """The label of the row that it was saved as, if that is known, or else its own."""
        row = self.row if self.state == "saved" else None
        return self.label if row is None or row.label is None else row.label


# Activity


@dataclass(frozen=True, slots=True)
class Activity:
    """An action on a row.

    Attributes:
        key: of the row.
        action: what was done.
        fields: the columns and relationships that the model was shown, by name; empty if it was
            shown the ref alone, `None` if nothing is known.
        label: what people call the row, for a ref that is new.
        shown: whether the row's ref was shown, so that it certainly has one.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> store, address = MemoryStore(), Address("chat-7")
        >>> read = Activity(("recipe", 4711), "read", ["name"])
        >>> store.note(address, [read], "model")
        >>> [entry.action for entry in store.activity(address, turns=3).entries]
        ['read']
    """

    key: EntityKey = field(repr=False)
    action: Action
    fields: Sequence[str] | None = None
    label: str | None = None
    shown: bool = False


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """The last action on the row of a ref, and which of its fields the model was shown.

    Attributes:
        ref: never a draft's.
        gone: why the row does not exist; `None` as long as it may.
        label: what people call the row; `None` if it is not known.
        action: the last one.
        actor: who did it.
        first_turn: the turn of the first action.
        last_turn: the turn of the last action.
        reason: why the ref is retained beyond the window; `None` if it is not.
        demoted: whether it is left out although it is in the window.
        fields: the columns and relationships that the model was shown, by name and in no order;
            `None` if that is not known.

    Example:
        >>> arguments = {"table": "recipes", "columns": ["name"]}
        >>> answer = desk.call("chat-7", None, "db_read", arguments)
        >>> [entry, _] = chat.activity(turns=3).entries
        >>> str(entry.ref), entry.action, entry.actor, sorted(entry.fields)
        ('recipe_1', 'read', 'model', ['id', 'name'])
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
    fields: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class ActivityRecord:
    """The activity of a conversation at one moment.

    Attributes:
        turn: the current turn.
        entries: of the last turns and of retained refs, in natural order.
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
    """A step of an agent, with its result and its note for the next step.

    Attributes:
        turn: the turn in which it was done.
        number: its number in the turn, from 1.
        content: a JSON object, as text; it contains refs, never keys.

    Example:
        >>> store = PostgresStore(engine)
        >>> step = store.add_step(Address("chat-7"), json_text({"note": "recipe_1 is a soup"}))
        >>> step.turn, step.number, step.content
        (0, 1, '{"note":"recipe_1 is a soup"}')
    """

    turn: int
    number: int
    content: str = field(repr=False)


# Calls


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call of a tool, to be stored.

    Attributes:
        tool: its name.
        arguments: JSON values; they contain refs, never keys.
        state: `"waiting"` for one that needs a decision, `"doing"` or `"done"` for others, and
            `"refused"` for one that returned an error.
        actor: who called it.
        user: the acting user as text; `None` if that is not known.
        call_id: the framework's id of the call. A conversation has one call of each id.
        plan: the changes that the call would make, as JSON values; `None` without one.
        token: what binds a decision to the plan; `None` without one.
        answer: the result of the call, as JSON values; `None` as long as it has none.
        undoes: the number of the call that it undoes; `None` if it undoes none.
        expires_in: how long it waits; `None` for as long as it takes.
        seconds: how long it took; `None` if that is not known.

    Example:
        >>> NewCall("db_delete", {"table": "recipes", "ids": ["recipe_1"]}, "waiting", "model")
        NewCall(tool='db_delete', state='waiting', actor='model', user=None, call_id=None, ...)
    """

    tool: str
    arguments: Any = field(repr=False)
    state: CallState
    actor: Actor
    user: str | None = None
    call_id: str | None = None
    plan: Any | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    answer: Any | None = field(default=None, repr=False)
    undoes: int | None = None
    expires_in: timedelta | None = None
    seconds: float | None = None


class CallValues(TypedDict, total=False):
    """The values of a call that `Store.update_call` sets; the others stay as they are.

    Example:
        >>> store, address = PostgresStore(engine), Address("chat-7")
        >>> call = store.add_call(address, NewCall("db_delete", {}, "waiting", "model"))
        >>> values: CallValues = {"state": "rejected", "decided_by": "ann"}
        >>> store.update_call(address, call.number, expected="waiting", **values).state
        'rejected'
    """

    state: CallState
    turn: int
    plan: Any | None
    token: str | None
    answer: Any | None
    decided_by: str | None
    reason: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A call of a tool as it is stored.

    Attributes:
        number: 1 for the conversation's first call, and one more for each one after it.
        turn: the turn in which it was called.
        tool: its name.
        arguments: JSON values; `None` once they were deleted by age or erased.
        state: a call that waited for too long is `"expired"`.
        actor: who called it.
        user: the acting user as text; `None` if that is not known.
        call_id: the framework's id of the call, if it gave one.
        plan: the changes that the call would make, as JSON values; `None` without one.
        token: what binds a decision to the plan; `None` without one.
        answer: the result of the call, as JSON values; `None` as long as it has none.
        undoes: the number of the call that it undoes; `None` if it undoes none.
        decided_by: who decided; `None` if nobody did.
        reason: why it was rejected, in the words of the person; `None` without a reason.
        asked_at: when it was stored.
        decided_at: when it stopped waiting, or else when it was done; `None` before that.
        expires_at: when it stops waiting without a decision; `None` if it does not.
        seconds: how long it took; `None` if that is not known.

    Example:
        >>> store = PostgresStore(engine)
        >>> new = NewCall("db_read", {"table": "recipes"}, "done", "model")
        >>> call = store.add_call(Address("chat-7"), new)
        >>> call.number, call.turn, call.state, call.arguments
        (1, 0, 'done', {'table': 'recipes'})
    """

    number: int
    turn: int
    tool: str
    arguments: Any | None = field(repr=False)
    state: CallState
    actor: Actor
    user: str | None
    call_id: str | None
    plan: Any | None = field(repr=False)
    token: str | None = field(repr=False)
    answer: Any | None = field(repr=False)
    undoes: int | None
    decided_by: str | None
    reason: str | None = field(repr=False)
    asked_at: datetime
    decided_at: datetime | None
    expires_at: datetime | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ChangeEntry:
    """A row that a call changed.

    Attributes:
        call: the number of the call; ignored in a change that is passed to the store.
        place: its place in the call, which no other change of the call has.
        table: its table, with its schema.
        ref: of the row; `None` without one.
        label: what people called the row; `None` if that is not known.
        action: how the call changed it.
        key: the row's primary key, by column.
        before: the row's values before the call, by column; `None` for a new row.
        after: the values after it; `None` for a deleted row.

    Example:
        >>> key, before = {"id": "7"}, {"name": "Soup"}
        >>> ChangeEntry(0, 1, "recipes", "recipe_1", "Soup", "deleted", key, before, None)
        ChangeEntry(call=0, place=1, table='recipes', ref='recipe_1', action='deleted')
    """

    call: int
    place: int
    table: str
    ref: str | None
    label: str | None = field(repr=False)
    action: ChangeAction
    key: Mapping[str, str | None] = field(repr=False)
    before: Mapping[str, str | None] | None = field(repr=False)
    after: Mapping[str, str | None] | None = field(repr=False)


def json_text(value: Any) -> str:
    """Return a value as JSON that PostgreSQL accepts: lone surrogates are escaped.

    Args:
        value: JSON values.

    Returns:
        compact text, with non-ASCII characters as they are.

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
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form
        return compact()
    return text


# Conversations


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation as operators see it, without its refs.

    Attributes:
        id: the id that the application chose.
        owner: the owner as text; `None` without one.
        turn: the number of its current turn, 0 before the first.
        begun_at: when its first ref was minted or its first turn begun.
        used_at: when it was last used. If nothing was minted and no turn begun since, it may have
            been used up to an hour later.
        refs: how many refs it has, by entity, in order. Minting maintains the numbers, so that no
            query counts.

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
    """Sizes of the registry: all conversations together.

    Attributes:
        conversations: how many there are.
        refs: how many refs they have, by entity, in order.
        gone: how many of these refs are of rows that do not exist.
        left_counters: how many counters forgotten conversations left behind.
        drafts: how many drafts they have, by state, in order.
        table_bytes: the size of the tables on disk; `None` if they are not on disk.
        index_bytes: the size of their indexes, which is not included in `table_bytes`.

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
    """One conversation as a whole, at one moment.

    Attributes:
        id: the id that the application chose.
        owner: the owner as text; `None` without one.
        turn: the number of its current turn.
        begun_at: when it was begun.
        last: the highest number ever assigned to a ref, by entity.
        entries: of all refs, in natural order.
        last_drafts: the highest number ever assigned to a draft, by entity.
        drafts: all of them, in natural order, without their `row`.
        tables: whose rows the refs are for, by entity, as far as it is known.
        activity: of all rows, in natural order, without `gone` and `label`.
        steps: all of them, in order.
        calls: all of them, in order.
        changes: the rows that they changed, in order of calls and places.

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
    calls: Sequence[CallEntry] = ()
    changes: Sequence[ChangeEntry] = ()
