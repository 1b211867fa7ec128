"""What every store promises."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, Protocol

from alfred_refs.keys import Key
from alfred_refs.refs import Ref

EntityKey = tuple[str, Key]
"""An entity's name and one of its keys."""

Gone = Literal["was deleted", "was never saved"]
"""Why a ref has no row."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which conversation, and on whose behalf.

    Attributes:
        id: what the application calls the conversation.
        owner: the owner as text, `None` for a conversation without one.
    """

    id: str
    owner: str | None = None

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
        minted: whether the call that returned it gave the ref its number, as far as the store
            tells; of the call and not of the ref, it does not count when entries are compared.
    """

    ref: Ref
    key: Key
    gone: Gone | None = None
    minted: bool = field(default=False, compare=False)


class Store(Protocol):
    """The map of refs and keys, for all conversations.

    Every method makes one round trip, is atomic and takes no part in the caller's transaction.
    Where the conversation belongs to another owner, `known` and `mark` find nothing in it and all
    other methods raise `UnknownConversationError`.
    """

    def create_tables(self) -> None:
        """Create what the store needs and does not have yet."""
        ...

    def refer(self, address: Address, keys: Sequence[EntityKey]) -> list[Entry]:
        """Return the entry of each key, in order; keys new to it get the next numbers.

        An entry is durable when it is returned, and a number once taken is never given again. The
        conversation is begun if it does not exist.

        Args:
            address: the conversation.
            keys: without repetition.
        """
        ...

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """Return the entries of the refs that are known; the others are left out."""
        ...

    def known(self, address: Address, near: Ref, limit: int) -> list[Ref]:
        """Return refs of the same entity whose rows are not gone, nearest in number first."""
        ...

    def entities(self, address: Address) -> Mapping[str, int]:
        """Return the highest number of each entity that the conversation has refs of."""
        ...

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """Note that the rows of these keys are gone, or there again; skip unknown keys."""
        ...

    def begin_turn(self, address: Address) -> int:
        """Begin the next turn and return its number, from 1; begin the conversation if need be."""
        ...

    def turn(self, address: Address) -> int:
        """Return the number of the current turn, 0 before the first."""
        ...
