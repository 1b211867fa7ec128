"""What every store promises."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from types import EllipsisType
from typing import Any, Protocol

from sqlalchemy import Column

from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import Ref

from .activity import Activity, ActivityRecord, Actor, StepEntry
from .values import (
    NO_LABELS,
    Address,
    ConversationInfo,
    DraftEdit,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    NewDraft,
    RegistryStats,
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
