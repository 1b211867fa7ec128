"""A conversation: what a ref is valid in.

It resolves and refers by its map (`refmap`), and keeps drafts (`draftmap`). Here it is taken as a
whole: it has turns, branches into others, is listed, moves to another registry, and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Table

from alfred_refs.mapping.entities import Entities
from alfred_refs.sqla import Awaited, Schemas, awaited, listed
from alfred_refs.store import Address, Store
from alfred_refs.store.telemetry import Telemetry

from .activity import ActivityMap
from .cache import Caches
from .entries import RefEntry
from .export import to_json
from .scrubbing import Unknown, scrubbed


class Conversation(ActivityMap):
    """One conversation of one owner, opened by `RefRegistry.conversation()`.

    Attributes:
        id: what the application calls it.
        owner: on whose behalf it is held, as text; `None` without one.
    """

    def __init__(
        self,
        address: Address,
        store: Store,
        entities: Entities,
        caches: Caches,
        *,
        telemetry: Telemetry,
        opened: Callable[[Address], Conversation],
        schemas: Schemas = frozenset(),
    ) -> None:
        super().__init__(address, store, entities, caches, telemetry, schemas=schemas)
        self._opened = opened

    def _under(self, schemas: Schemas) -> Conversation:
        """Return the conversation for those who read the same tables in other schemas.

        What one of the two has met the other asks the store for, which knows the tables.
        """
        return Conversation(
            *(self._address, self._store, self._entities, self._caches.under(schemas)),
            telemetry=self._telemetry,
            opened=self._opened,
            schemas=schemas,
        )

    @property
    def aio(self) -> AsyncConversation:
        """The same for those who await, as in `await chat.aio.resolve("recipe_1")`."""
        return AsyncConversation(self, is_async=self._store.is_async)

    @property
    def turn(self) -> int:
        """The number of the turn this object works in, from 1; 0 before the first.

        Asked of the store at first use and then kept, so that all work of a turn has one number
        however many turns begin meanwhile.
        """
        if self._turn is None:
            self._turn = self._store.turn(self._address)
        return self._turn

    def begin_turn(self) -> int:
        """Begin the next turn and return its number."""
        self._turn = self._store.begin_turn(self._address)
        return self._turn

    def fork(self, new_id: str) -> Conversation:
        """Make a conversation that goes on from here, for a branch of a chat, and open it.

        It has the same owner, refs, drafts and turn, and mints from then on for itself: the next
        new row may be `recipe_4` in both, and two different ones. A draft that is not saved yet
        may be saved in both, as two rows.

        Raises:
            UnknownConversationError: this conversation was not begun: it has neither refs nor
                turns.
            ConversationExistsError: the new id is taken, or was used before.
            ConversationIdError: it cannot identify a conversation.
        """
        new = Address(new_id, self.owner)
        self._settle_all()
        self._store.fork(self._address, new_id)
        return self._opened(new)

    def forget(self) -> None:
        """Remove the conversation with all its refs and drafts, for good.

        Its numbers stay taken: if the id is begun again, they go on, and a ref that a model
        remembers is unknown, never another row's. Sessions that are at work in it, and other
        processes, go on showing what they have met, until they open the conversation anew.

        Raises:
            UnknownConversationError: it was not begun, or is forgotten already.
        """
        self._store.forget(self._address)
        self._caches.forget()
        self._turn = None

    def export(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values, to be kept or moved.

        For trusted code: it holds keys, and is to be kept like a backup of the database.
        `RefRegistry.import_conversation()` takes it.

        Raises:
            UnknownConversationError: it was not begun.
        """
        return to_json(self._store.export(self._address))

    def scrub(self, value: Any, *, unknown: Unknown = "mask") -> Any:
        """Return a value without keys, for whatever is about to reach a model.

        Found are UUIDs in any spelling, split or cut ones too, and keys that are texts, as far as
        this process has met them; bare integers are no keys by their look. Of what is known the
        ref takes the place: at most one round trip.

            chat.scrub(["see A508000D-9B55-40F0-8886-DBDD88BD2DE2"])  # ['see recipe_1']

        Args:
            value: text or JSON values of any depth; dataclasses and models become such.
            unknown: what becomes of a key without ref: `"mask"` puts `<key>` in its place,
                `"refuse"` raises.

        Raises:
            KeyShownError: there is a key without ref, and it is to be refused.
        """
        return scrubbed(value, self._refs_held, self._texts(), unknown)

    def entries(
        self, entity: type[Any] | Table | str | None = None, *, keys: bool = False
    ) -> Iterator[RefEntry]:
        """Yield what is known of each ref, in natural order, read from the store page by page.

        Args:
            entity: of refs of this entity, mapped class or table only.
            keys: with their keys; for trusted code.
        """
        name = None if entity is None else self._entities.name_of(entity)
        for entry in self._store.entries(self._address, name):
            key = entry.key if keys else None
            ref = entry.ref
            yield RefEntry(str(ref), ref.entity, ref.number, entry.gone, entry.label, key)


class AsyncConversation(Awaited[Conversation]):
    """What a `Conversation` does, awaited; what it iterates over comes as a list."""

    async def turn(self) -> int:
        """Return `Conversation.turn`."""
        return await self.run(lambda: self.sync.turn)

    begin_turn = awaited(Conversation.begin_turn)
    resolve = awaited(Conversation.resolve)
    resolve_all = awaited(Conversation.resolve_all)
    refer = awaited(Conversation.refer)
    refer_all = awaited(Conversation.refer_all)
    scrub = awaited(Conversation.scrub)
    entries = listed(Conversation.entries)
    labels_of = awaited(Conversation.labels_of)

    draft = awaited(Conversation.draft)
    drafts = listed(Conversation.drafts)
    read_drafts = awaited(Conversation.read_drafts)
    edit_draft = awaited(Conversation.edit_draft)
    edit_drafts = awaited(Conversation.edit_drafts)
    discard_drafts = awaited(Conversation.discard_drafts)

    activity = awaited(Conversation.activity)
    retain = awaited(Conversation.retain)
    demote = awaited(Conversation.demote)
    drop = awaited(Conversation.drop)
    add_step = awaited(Conversation.add_step)
    steps = awaited(Conversation.steps)

    fork = awaited(Conversation.fork)
    forget = awaited(Conversation.forget)
    export = awaited(Conversation.export)
