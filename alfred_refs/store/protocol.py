"""What every store promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from alfred_refs.refs import Ref

from .values import (
    NO_LABELS,
    Address,
    ConversationInfo,
    EntityKey,
    Entry,
    Exported,
    Gone,
    RegistryStats,
)


class Store(Protocol):
    """The map of refs and keys, for all conversations.

    Every method is atomic, unless it says so, and takes no part in the caller's transaction;
    those that a session calls make one round trip. Where the conversation belongs to another
    owner, `known`, `labelled`, `mark` and `label` find nothing in it, `touch` does nothing, and
    all other methods that take an address raise `UnknownConversationError`.
    """

    def create_tables(self) -> None:
        """Create what the store needs and does not have yet."""
        ...

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """Return the entry of each key, in order; keys new to it get the next numbers.

        An entry is durable when it is returned, and a number once taken is never given again. The
        conversation is begun if it does not exist, and used.

        Args:
            address: the conversation.
            keys: without repetition.
            labels: of those keys that are new; what is known of others stays as it is.
        """
        ...

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """Return the entries of the refs that are known; the others are left out.

        The conversation is used, which is noted where it was not within `NOTED_EVERY`: one round
        trip more, then. A store that can only be read does not note it.
        """
        ...

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        """Return refs of the same entity whose rows are not gone, nearest in number first.

        Each with its label.
        """
        ...

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        """Return labels of rows that are not gone, the last first.

        Args:
            address: the conversation.
            entity: of whose refs.
            limit: how many refs to look at, labelled or not.
        """
        ...

    def entities(self, address: Address) -> Mapping[str, int]:
        """Return the highest number of each entity that the conversation has refs of."""
        ...

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """Note that the rows of these keys are gone, or there again; skip unknown keys."""
        ...

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        """Note what the rows of these keys are called now; skip unknown keys."""
        ...

    def begin_turn(self, address: Address) -> int:
        """Begin the next turn and return its number, from 1; begin the conversation if need be."""
        ...

    def turn(self, address: Address) -> int:
        """Return the number of the current turn, 0 before the first."""
        ...

    def touch(self, address: Address) -> None:
        """Note that the conversation is used, where it was not within `NOTED_EVERY`.

        It raises nothing where there is no such conversation, or where the store can only be
        read.
        """
        ...

    def fork(self, address: Address, new_id: str) -> None:
        """Make a conversation of the same owner with the same refs, marks, turn and counters.

        It is taken at one moment: what others mint at that time is in the fork with its counter,
        or neither.

        Raises:
            UnknownConversationError: there is nothing to fork.
            ConversationExistsError: the new id is taken, or numbers of it were given before its
                conversation was forgotten that now would name other rows.
        """
        ...

    def forget(self, address: Address) -> None:
        """Remove a conversation and its mappings; keep its counters.

        When the id is begun again, by whomever, its numbers go on from there: a ref from before
        is unknown, and never another row's.

        Raises:
            UnknownConversationError: there is nothing to forget.
        """
        ...

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """Forget the conversations that were not used for so long, and yield how many at a time.

        Each step is atomic on its own, and what was done stays done if the next is not asked for.
        A conversation that another process works in just then is left out. In the end the
        counters go that were left behind longer ago.

        Args:
            unused_for: not negative; by the store's clock.
            batch: how many conversations to forget in one step, at most.
        """
        ...

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        """Yield the entries of all refs, or of one entity's, in natural order.

        They are read page by page: what is minted meanwhile may be there or not.
        """
        ...

    def export(self, address: Address) -> Exported:
        """Return all that there is of a conversation. It does not count as used by that.

        Raises:
            UnknownConversationError: there is nothing to export.
        """
        ...

    def restore(self, address: Address, exported: Exported) -> None:
        """Make a conversation of what was exported, at another address or the same.

        If `exported` is of the same id, and the conversation was forgotten since, the numbers go
        on from the highest that was ever given.

        Args:
            address: what it is to be; its id and owner may be others than those in `exported`.
            exported: no number or key in it is repeated, and none is above its counter.

        Raises:
            ConversationExistsError: as for `fork`.
        """
        ...

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """Tell about one conversation, whoever its owner is. It does not count as used by that.

        Raises:
            UnknownConversationError: there is none of this id.
        """
        ...

    def conversations(self, unused_for: timedelta | None = None) -> Iterator[ConversationInfo]:
        """Yield all conversations, or those that were not used for so long, in any order.

        They are read page by page: what is begun or forgotten meanwhile may be there or not.
        """
        ...

    def stats(self) -> RegistryStats:
        """Tell how much is kept for all conversations. This may take a while."""
        ...
