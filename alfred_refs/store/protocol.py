"""The `Store` protocol: the interface of the place where a registry keeps its map.

`PostgresStore` and `MemoryStore` implement it. Any other object with these methods can be passed
as `RefRegistry(store=...)`. The values that they take and return are in `values`.

>>> from alfred_refs.testing import MemoryStore
>>> store: Store = MemoryStore()
>>> address = Address("chat-7", owner="ann")
>>> [entry] = store.refer(address, [("recipe", 4711)])
>>> entry.ref == store.refer(address, [("recipe", 4711)])[0].ref
True
>>> list(store.resolve(address, [entry.ref])) == [entry.ref]
True
>>> store.resolve(Address("chat-7", owner="ben"), [entry.ref])
Traceback (most recent call last):
    ...
alfred_refs.errors.UnknownConversationError: ...

Rules for every store:

- each method is atomic and durable, except as its docstring describes;
- a method that a session calls makes one round trip: `telemetry` counts calls as round trips;
- a number is never assigned twice, not even after the conversation was forgotten;
- one owner never sees the conversation of another.

`tests/store/test_protocol.py` has the tests that every store must pass.

Limits: a store knows nothing of the application's transactions, except that calls may be added in
them. After a rollback in the application's tables, the session calls `mark`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Protocol, Unpack

from sqlalchemy import Column, Connection

from alfred_refs.mapping.keys import EntityKey, Key, Ref
from alfred_refs.store.values import (
    NO_LABELS,
    Activity,
    ActivityRecord,
    Actor,
    Address,
    CallEntry,
    CallState,
    CallValues,
    ChangeEntry,
    ConversationInfo,
    DraftEdit,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    NewCall,
    NewDraft,
    RegistryStats,
    StepEntry,
)


class Store(Protocol):
    """The map of refs and keys, for all conversations.

    Every method is atomic, except as its docstring describes, and takes no part in the caller's
    transaction. The methods that a session calls make one round trip.

    If the conversation belongs to another owner, `known`, `labelled`, `namesakes`, `mark`,
    `label`, `edit_drafts`, `confirm_drafts`, `update_call` and `lock_call` find nothing in it,
    `touch` and `revert_call` do nothing, and all other methods that take an address raise
    `UnknownConversationError`.

    Arguments have the same meaning in all methods, except as a docstring describes:

    - `address`: the conversation and its owner; `id`: of a conversation of any owner.
    - `refs`, `near`, `ref`: refs of the conversation; `keys`, `key`: rows by entity and key.
    - `entity`: its name; `column`, `values`: of the application's tables.
    - `labels`: by row; `gone`: why the row is missing, or `None`; `reason`: a text.
    - `turn`: a number, by default of the current turn; `turns`: a number of turns.
    - `limit`: the number of results at most; `batch`: of rows or conversations in a transaction.
    - `actor`: `"model"` or `"user"`; `owner`: its text; `unused_for`: since the last use.
    - `connection`: of the application, in a transaction; `new_id`: an id that was never used.

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
        """Whether methods must be called inside `AsyncSession.run_sync`."""
        ...

    def create_tables(self) -> None:
        """Create the tables that the store needs and does not have yet."""

    # Refs

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """Return the entry of each key, in order; mint refs for keys that have none.

        An entry is durable when it is returned, and its number is never assigned again. The
        conversation is begun if it does not exist, and counts as used.

        Args:
            address: of the conversation.
            keys: none of them twice.
            labels: of keys that are new; the others keep theirs.
        """

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """Return the entries of the refs that are known; leave out the others.

        The conversation counts as used. If its use was not recorded within `NOTED_EVERY`, it is
        now, which is one more round trip. A store that is read-only does not record it.
        """

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        """Return the refs of keys, of any entity, in order; leave out keys without refs.

        Refs of rows that are gone are included. The conversation does not count as used.
        """

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        """Return refs of the same entity with their labels, nearest in number first.

        Refs of rows that are gone are left out.
        """

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        """Return labelled refs of an entity whose rows exist, the last first.

        At most `limit` refs are read, with or without labels.
        """

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        """Return the first and the last ref of each label that several rows have.

        Rows that are gone do not count. The last `limit` refs of each entity are read.

        Args:
            address: of the conversation.
            labels: pairs of an entity and a label.
            limit: refs of an entity.
        """

    def entities(self, address: Address) -> Mapping[str, int]:
        """Return the highest number of each entity that the conversation has refs of."""

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """Record that the rows of these keys are missing, or exist again; skip unknown keys."""

    def label(self, address: Address, labels: Mapping[EntityKey, str | None]) -> None:
        """Set the labels of the refs of these keys, `None` to remove one; skip unknown keys."""

    # Drafts

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        """Store drafts, which get the next numbers of their entities, and return them in order.

        A draft is durable when it is returned. Drafts have counters of their own, separate from
        the counters of refs, and a number is never assigned again. The conversation is begun if it
        does not exist, and counts as used, here and in the other methods that write drafts.

        Args:
            address: of the conversation.
            new: their contents.
            turn: in which they were generated; `None`: the current one.
        """

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """Return the drafts that are known, in any state; leave out the others."""

    def drafts(
        self,
        address: Address,
        entity: str | None,
        states: Collection[DraftState],
        after: Ref | None = None,
    ) -> Iterator[DraftEntry]:
        """Yield all drafts in these states, or only of one entity, in natural order.

        They are read page by page: concurrent changes may or may not be included.

        Args:
            address: of the conversation.
            entity: only drafts of this entity; `None` for all.
            states: only drafts in one of these states.
            after: only drafts after this one, to continue a list.
        """

    def values_there(
        self, address: Address, column: Column[Any], values: Sequence[Any]
    ) -> Collection[Any]:
        """Return the values that exist in a column of the application's tables.

        Nothing is returned if the store cannot read that table.
        """

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        """Replace the content of pending drafts, all or none; return them without their rows.

        A reserved key stays. If one of the drafts is unknown, not pending or of another version,
        none is changed and nothing is returned.

        Args:
            address: of the conversation.
            edits: none of the drafts twice.
            turn: in which they are edited; `None`: the current one.
        """

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """Discard pending drafts, all or none; return them as `read_drafts` does.

        None is discarded if one is unknown or saved. A discarded one stays discarded.

        A draft with a reserved key can be discarded, because a save that failed must not keep it
        for ever. If that save is still running and commits its row, `confirm_drafts` makes the
        draft saved: no row exists that its draft does not know.
        """

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        """Set the key of each pending draft without one; return the drafts as `read_drafts` does.

        A key that is set never changes. All who save a draft at the same time insert a row of the
        same key, and the table's primary key lets one of them win. A crash between the commit of
        the row and `confirm_drafts` leaves a pending draft with a key; reading the table shows
        whether the row exists. So the key must be one that no other row can have, such as a new
        UUID or the next number of a sequence.

        Raises:
            DraftKeyError: one of the keys is another draft's; none is set.
        """

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        """Record that the rows of these drafts are saved; skip unknown ones and those without key.

        A draft that was discarded meanwhile becomes saved. A row marked "was never saved" is
        unmarked: an earlier attempt with the same key was rolled back.
        """

    # Activity

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        """Record actions on rows; mint refs for rows without one, unless they are deleted.

        A crash of the server right after the call may lose actions, if none of them minted a ref.

        The last action of each row is kept, with two exceptions: `linked` never replaces another
        action, and `read` does not replace a write or a mention of the same turn. The fields that
        the model was shown are merged with the fields known from before, and removed if the row is
        deleted.

        Args:
            address: of the conversation, which is begun if it does not exist, and counts as used.
            done: no key twice.
            actor: who did it.
            turn: in which; `None`: the current one.
        """

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        """Return the activity of the last turns, and of all refs that are retained.

        The number of entries is limited; the last ones are returned.

        Args:
            address: of the conversation.
            turns: how many, including the one in which the caller works.
            turn: the one in which the caller works; `None`: the current one.
        """

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        """Retain refs for a reason; skip unknown ones."""

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        """Leave refs out of prompts until the next action on their rows."""

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        """Delete the activity of refs; the refs stay known."""

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        """Store a step of an agent, with the next number of its turn.

        Args:
            address: of the conversation, which is begun if it does not exist, and counts as used.
            content: a JSON object, as text.
            turn: in which it was done; `None`: the current one.
        """

    def steps(self, address: Address, turns: int, turn: int | None = None) -> Sequence[StepEntry]:
        """Return the steps of the last turns, in order; arguments as for `activity`."""

    # Calls

    def add_call(
        self,
        address: Address,
        new: NewCall,
        changes: Sequence[ChangeEntry] = (),
        turn: int | None = None,
        connection: Connection | None = None,
    ) -> CallEntry:
        """Store a call with the rows that it changed, and return it with its number.

        The conversation is begun if it does not exist, and counts as used. If it has a call with
        this `call_id` already, that is returned, and nothing is stored.

        Args:
            address: of the conversation.
            new: the call.
            changes: in any order.
            turn: in which it was called; `None`: the current one.
            connection: a connection of the application for which `is_on` is true. The call is
                stored when its transaction commits; until then other calls of the conversation
                wait. `None`: it is stored when the method returns.

        Raises:
            ValueError: arguments, plan or answer are not JSON.
        """

    def update_call(
        self,
        address: Address,
        number: int,
        *,
        expected: CallState,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
        **values: Unpack[CallValues],
    ) -> CallEntry | None:
        """Change a call that is in an expected state; return it, or `None` if it is not.

        Of several that expect the same state at the same time, one changes it. `decided_at` is set
        when the call leaves its first state, `"waiting"` or `"doing"`.

        Args:
            address: of the conversation.
            number: of the call.
            expected: its state. A call that waited for too long is `"expired"`.
            changes: to add to those that the call has.
            connection: as for `add_call`.
            **values: what to set.
        """

    def lock_call(self, address: Address, number: int, connection: Connection) -> CallEntry | None:
        """Lock a call until the end of a transaction, and return it; `None` if it is unknown.

        Args:
            address: of the conversation.
            number: of the call.
            connection: as for `add_call`.
        """

    def revert_call(self, address: Address, number: int) -> None:
        """Remove the changes of a call that was `"doing"` and was rolled back.

        If it has waited for a decision, it waits again; otherwise it is deleted.

        Args:
            address: of the conversation.
            number: of the call; one in another state is not changed.
        """

    def calls(
        self,
        address: Address,
        *,
        numbers: Collection[int] | None = None,
        call_id: str | None = None,
        turn: int | None = None,
        ref: str | None = None,
        states: Collection[CallState] | None = None,
        before: int | None = None,
        limit: int = 1000,
    ) -> Sequence[CallEntry]:
        """Return calls in order; if there are more than the limit, the last ones.

        Args:
            address: of the conversation.
            numbers: only calls with these numbers.
            call_id: only the one to which the framework gave this id.
            turn: only calls of this turn.
            ref: only calls that changed this row.
            states: only calls in one of these states.
            before: only calls with lower numbers, to continue a list.
            limit: the largest number to return.
        """

    def changes(
        self, address: Address, calls: Collection[int], after: int = 0, limit: int | None = None
    ) -> Sequence[ChangeEntry]:
        """Return the rows that calls changed, in order of the calls and of their places.

        Args:
            address: of the conversation.
            calls: the numbers of the calls.
            after: of each call only the rows with higher places.
            limit: of each call only as many places after that; `None` for all.
        """

    def waiting(
        self,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        after: tuple[datetime, str, int] | None = None,
    ) -> Sequence[tuple[str, str | None, CallEntry]]:
        """Return the calls of all conversations that wait for a decision, the oldest first.

        Args:
            owner: as for `conversations`.
            limit: at most so many; not negative.
            after: only those after the call with this `asked_at`, conversation and number.

        Returns:
            the id of the conversation, its owner, and the call.
        """

    def is_on(self, connection: Connection) -> bool:
        """Return whether a connection is to the store's own database.

        Then calls can be stored in its transaction. It is found out once for each engine.
        """

    def expire_calls(self, batch: int) -> Iterator[int]:
        """Set the state of calls that waited for too long; yield the size of each batch.

        They are expired without it: it only removes them from the index of what waits. Batches
        are as for `prune`.
        """

    def prune_changes(self, older_than: timedelta, batch: int) -> Iterator[int]:
        """Delete the contents of calls that were decided long ago; yield the size of each batch.

        That is arguments, plan and answer, and of the rows that they changed label, before and
        after. Tool, time and actor of each call stay. Batches are as for `prune`.

        Args:
            older_than: not negative; by the store's clock.
            batch: calls of one batch, at most.
        """

    # Turns

    def begin_turn(self, address: Address) -> int:
        """Begin the next turn, and return its number, from 1; begin the conversation if needed.

        Steps older than `KEPT_TURNS` are deleted.
        """

    def turn(self, address: Address) -> int:
        """Return the number of the current turn, 0 before the first."""

    def touch(self, address: Address) -> None:
        """Record that the conversation is used, if that was not done within `NOTED_EVERY`.

        Nothing is raised for an unknown conversation, or by a read-only store.
        """

    # Whole conversations

    def fork(self, address: Address, new_id: str) -> None:
        """Copy a conversation, with its refs, marks, turn and counters, for the same owner.

        Drafts are copied. One that is not saved loses its reserved key, because each of the two
        conversations may save it, as a row of its own. Calls are not copied: each is decided, and
        undone, where it was made. The copy is of one moment: a ref that is minted at the same time
        is in it with its counter, or not at all.

        Raises:
            UnknownConversationError: the conversation does not exist.
            ConversationExistsError: the new id is taken; or it was used by a conversation that is
                now forgotten, whose refs would name other rows.
        """

    def forget(self, address: Address) -> None:
        """Delete a conversation with everything in it but its counters.

        If the id is begun again, by any owner, its numbers continue: a ref from before is unknown,
        and never names another row.

        Raises:
            UnknownConversationError: the conversation does not exist.
        """

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """Forget conversations that were not used for some time; yield the size of each batch.

        Each batch is a transaction, and stays forgotten if the iteration stops. A conversation
        that another process works in at that moment is skipped. In the end the counters are
        deleted that were left behind before that time.

        Args:
            unused_for: not negative; by the store's clock.
            batch: conversations of one batch, at most.
        """

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        """Delete all data of a row except its refs, in every conversation of every owner.

        That is its label, content and label of drafts that were saved as it, and all activity and
        steps of the conversations that know it, because other rows may have shown its fields. Of
        calls that changed it, or whose contents have its ref, it is arguments, plan and answer,
        and its own label, before and after; those that wait are expired.
        Yields how many conversations each batch changed. Batches are as for `prune`, but a
        conversation that another process works in is waited for.

        Args:
            key: of the row, after its entity.
            table: of the row; refs of another table's rows are left as they are.
            batch: conversations of one batch, at most.
        """

    def entries(
        self,
        address: Address,
        entity: str | None = None,
        after: Ref | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Yield the entries of all refs, or of one entity's, in natural order.

        They are read page by page: refs minted meanwhile may or may not be included.

        Args:
            address: of the conversation.
            entity: only refs of this entity; `None` for all.
            after: only refs after this one, to continue a list.
            limit: at most so many; not negative.
        """

    def export(self, address: Address) -> Exported:
        """Return a whole conversation, which does not count as used.

        Raises:
            UnknownConversationError: the conversation does not exist.
        """

    def restore(self, address: Address, exported: Exported) -> None:
        """Create a conversation from an export.

        If the export is of the same id, and that conversation was forgotten since, its numbers
        continue from the highest that was ever assigned.

        Args:
            address: of the new conversation; id and owner may differ from `exported`.
            exported: without repeated numbers or keys, and without numbers above their counters,
                for refs and for drafts.

        Raises:
            ConversationExistsError: as for `fork`.
        """

    # For operators

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """Return the info of one conversation of any owner. It does not count as used.

        Raises:
            UnknownConversationError: no conversation has this id.
        """

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        *,
        search: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> Iterator[ConversationInfo]:
        """Yield conversations, the last used first.

        They are selected when the first is requested, and read page by page; one that is forgotten
        meanwhile may or may not be included.

        Args:
            unused_for: only those that were not used for so long.
            owner: only conversations of this owner; `None`: without an owner; `...`: of any owner.
            limit: at most so many; not negative.
            search: only those whose id contains this text, in any case.
            after: only those after the conversation with this `used_at` and id, to continue a
                list.
        """

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        """Return how many `conversations` would yield without a limit."""

    def stats(self) -> RegistryStats:
        """Count all conversations, refs and drafts. This may take a while."""
