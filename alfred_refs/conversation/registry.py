"""Registry: opens conversations.

The application's registry of refs: one for each application, made from its engine.

It opens conversations for the application, and tells operators about all of them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqlalchemy import Engine

from alfred_refs import sqla
from alfred_refs.conversation.refs import CAPACITY, Caches
from alfred_refs.errors import RetentionError, SetupError
from alfred_refs.mapping.keys import RefPolicy
from alfred_refs.store import Address, ConversationInfo, RegistryStats, Store, owner_text
from alfred_refs.store.telemetry import Counts, EventSource, ObservedStore, Telemetry

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table
    from sqlalchemy.ext.asyncio import AsyncEngine

    from alfred_refs.conversation.conversation import Conversation
    from alfred_refs.mapping.entities import Entities
    from alfred_refs.mapping.keys import Key


class RefRegistry(EventSource):
    """Opens conversations, and holds what they share: store, policy and knowledge of the tables.

    What it does is counted in `counts`, and heard by those who `sqlalchemy.event.listen` to it;
    `telemetry.RegistryEvents` has the names.

    Args:
        bind: the engine of the database where the registry's tables are; usually the
            application's own. The registry uses its credentials and connect hooks, never its pool.
        store: another place to keep the map in, in place of `bind`.
        policy: which keys become refs, and what their entities are called.

    Raises:
        SetupError: `bind` is not a PostgreSQL engine, or both or neither of `bind` and `store`
            are given.

    Example:
        >>> registry = RefRegistry(engine)
        >>> registry.create_tables()
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.scalars(select(Recipe.id)).all()
        ['recipe_1', 'recipe_2']
        >>> [info.id for info in registry.conversations()]
        ['chat-8', 'chat-7']
    """

    def __init__(
        self,
        bind: Engine | AsyncEngine | None = None,
        *,
        store: Store | None = None,
        policy: RefPolicy | None = None,
    ) -> None:
        self._store = _store_for(bind) if store is None else store
        if bind is not None and store is not None:
            raise SetupError("RefRegistry got both bind and store", "give one of them")
        self._policy = policy or RefPolicy()
        self._telemetry = Telemetry(self.dispatch)
        self._observed = ObservedStore(self._store, self._telemetry)
        # what this process has met, for as long as somebody uses the conversation
        self._caches: WeakValueDictionary[Address, Caches] = WeakValueDictionary()
        self._opening = threading.Lock()
        self._schemas = sqla.schemas_of(bind)

    @property
    def metadata(self) -> MetaData:
        """The registry's tables, to be listed in an application's own Alembic environment.

        ```python
        context.configure(connection, target_metadata=[Base.metadata, registry.metadata])
        ```

        Autogenerate is refused where it would harm them: `docs/registry.md` says when, and what
        to list where an application has a naming convention.

        Raises:
            SetupError: the store keeps no tables.
        """
        from alfred_refs.store import alembic  # noqa: F401, PLC0415  # tells Alembic what to refuse

        metadata: MetaData | None = getattr(self._store, "metadata", None)
        if metadata is None:
            raise SetupError(
                f"{type(self._store).__name__} keeps no tables", "leave it out of the migrations"
            )
        return metadata

    @property
    def aio(self) -> AsyncRegistry:
        """The same for those who await, as in `await registry.aio.create_tables()`."""
        return AsyncRegistry(self, is_async=self._observed.is_async)

    @property
    def counts(self) -> Counts:
        """How often this process has minted, used and refused refs, and asked the store."""
        return self._telemetry.counts

    def create_tables(self) -> None:
        """Create the tables that are missing; `alfred-refs migrate` does it by Alembic.

        Raises:
            RegistryTablesError: there are tables of an older version, which it does not change.
        """
        self._store.create_tables()

    def conversation(
        self,
        id: str,  # noqa: A002  # as everyone calls it
        *,
        owner: str | int | uuid.UUID | None = None,
    ) -> Conversation:
        """Open a conversation. Nothing is read before it is needed.

        Args:
            id: what the application calls it: 1 to 255 printable characters.
            owner: on whose behalf it is held. Another owner cannot use it.

        Raises:
            ConversationIdError: the id cannot identify a conversation.
        """
        return self._opened(Address(id, owner_text(owner)))

    def import_conversation(
        self,
        data: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002  # as everyone calls it
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
    ) -> Conversation:
        """Make a conversation of what `Conversation.export()` returned, and open it.

        Args:
            data: as it was exported; it is checked, whole, before anything is written.
            id: another id than the one in `data`.
            owner: another owner than the one in `data`; `None` is none.

        Raises:
            ExportFormatError: `data` is foreign, malformed, or of a newer version.
            ConversationExistsError: the id is taken, or was used before, unless by the
                conversation in `data` itself.
            ConversationIdError: the id cannot identify a conversation.
        """
        from alfred_refs.conversation.imports import from_json  # noqa: PLC0415  # loads pydantic

        exported = from_json(data)
        if owner is ...:
            owner = exported.owner
        new_id = exported.id if id is None else id
        address = Address(new_id, owner_text(owner))
        self._observed.restore(address, exported)
        return self._opened(address)

    def conversations(
        self,
        *,
        unused_for: timedelta | None = None,
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        """Iterate over conversations, the last used first, whoever their owners are.

        For operators. Which they are is decided when the first is asked for, and 300 bytes are
        held of each; they are read page by page, and one that is forgotten meanwhile may be left
        out.

            for info in registry.conversations(owner=user.id, limit=20):
                print(info.id, info.used_at)

        Args:
            unused_for: only those that were not used for so long.
            owner: only this owner's; `None`: only those without owner.
            limit: at most so many.

        Raises:
            RetentionError: `unused_for` or `limit` is negative.
            ConversationIdError: no conversation can have such an owner.
        """
        _check_age(unused_for)
        if limit is not None and limit < 0:
            raise RetentionError(f"a limit of {limit!r} conversations", "give at least 0")
        return self._store.conversations(unused_for, _whose(owner), limit)

    def count_conversations(
        self,
        *,
        unused_for: timedelta | None = None,
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
    ) -> int:
        """Return how many conversations there are. For operators.

        Args:
            unused_for: as for `conversations`.
            owner: as for `conversations`.

        Raises:
            RetentionError: `unused_for` is negative.
            ConversationIdError: no conversation can have such an owner.
        """
        _check_age(unused_for)
        return self._store.count_conversations(unused_for, _whose(owner))

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """Tell about one conversation, whoever its owner is. For operators.

        Args:
            id: what the application calls it.

        Raises:
            UnknownConversationError: there is none of this id.
            ConversationIdError: the id cannot identify a conversation.
        """
        return self._store.describe(Address(id).id)

    def prune(
        self,
        unused_for: timedelta,
        *,
        batch: int = 100,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Forget all conversations that were not used for so long; return how many they were.

        For operators. It may run beside everything else, itself included: each batch is a short
        transaction, and conversations that are being worked in are left out. A conversation that
        is used without anything new being minted may count as unused for an hour more than it
        is. In the end the numbers are given free that were left behind, longer ago than
        `unused_for`, by conversations that were forgotten.

        Args:
            unused_for: how long at least; not less than some hours, as use is exact to one.
            batch: how many conversations to forget in one transaction.
            progress: is called after each batch with the number it forgot.

        Raises:
            RetentionError: `unused_for` is negative, or `batch` is not positive.
        """
        _check_batch(batch)
        _check_age(unused_for)
        total = 0
        for forgotten in self._observed.prune(unused_for, batch):
            total += forgotten
            if progress is not None:
                progress(forgotten)
        return total

    def erase(self, entity: type[Any] | Table | str, key: Key, *, batch: int = 100) -> int:
        """Remove what conversations keep of a row, whoever's they are; return how many knew it.

        For operators, once the row is deleted: who reads it labels it again. What goes is its
        label, the content of drafts that were saved as it, and, in the conversations that know
        it, all that is kept for prompts, since it may have been shown inside of other rows. Refs
        stay, and so do drafts that are not saved. Each batch is a short transaction, and waits
        for those who work in its conversations; other processes keep labels that they have met
        until nobody in them has the conversation open.

            registry.erase(Customer, customer_id)  # 3

        Args:
            entity: an entity, mapped class or table.
            key: of the row, as `Conversation.refer()` takes it.
            batch: how many conversations to look after in one transaction.

        Raises:
            KeyTypeError: the class or table has keys of another type.
            RetentionError: `batch` is not positive.
        """
        from alfred_refs.conversation.refs import pairs_of  # noqa: PLC0415  # as for `_entities`

        _check_batch(batch)
        [pair] = pairs_of(self._entities, entity, [key])
        table = self._entities.table_name_of(pair[0], self._schemas)
        knew = sum(self._observed.erase(pair, table, batch))
        for caches in [*self._caches.values()]:
            caches.unlabel(pair)
        return knew

    def stats(self) -> RegistryStats:
        """Tell how much is kept for all conversations. For operators: all refs are looked at."""
        return self._store.stats()

    @cached_property
    def _entities(self) -> Entities:
        """What is known of the tables and statements: operators open no conversation."""
        from alfred_refs.mapping.entities import Entities  # noqa: PLC0415  # half of the package

        return Entities(self._policy)

    def _opened(self, address: Address) -> Conversation:
        from alfred_refs.conversation.conversation import Conversation  # noqa: PLC0415  # as for `_entities`

        with self._opening:
            caches, entities = self._caches.setdefault(address, Caches(CAPACITY)), self._entities
        return Conversation(
            *(address, self._observed, entities, caches),
            telemetry=self._telemetry,
            opened=self._opened,
            schemas=self._schemas,
        )


class AsyncRegistry(sqla.AsyncFacade[RefRegistry]):
    """What a `RefRegistry` does, awaited; what it iterates over comes as a list."""

    create_tables = sqla.async_method(RefRegistry.create_tables)
    import_conversation = sqla.async_method(RefRegistry.import_conversation)
    conversations = sqla.async_list_method(RefRegistry.conversations)
    count_conversations = sqla.async_method(RefRegistry.count_conversations)
    describe = sqla.async_method(RefRegistry.describe)
    erase = sqla.async_method(RefRegistry.erase)
    prune = sqla.async_method(RefRegistry.prune)
    stats = sqla.async_method(RefRegistry.stats)


def _whose(owner: str | int | uuid.UUID | EllipsisType | None) -> str | EllipsisType | None:
    return ... if owner is ... else owner_text(owner)


def _check_batch(batch: int) -> None:
    if batch < 1:
        raise RetentionError(f"a batch of {batch!r} conversations", "give at least 1")


def _check_age(unused_for: timedelta | None) -> None:
    if unused_for is not None and unused_for < timedelta():
        raise RetentionError(
            f"unused_for is negative: {unused_for!r}", "give how long they were not used"
        )


def _store_for(bind: Any) -> Store:
    engine = getattr(bind, "sync_engine", bind)  # what an AsyncEngine stands on
    if isinstance(engine, Engine) and engine.dialect.name == "postgresql":
        from alfred_refs.store.postgres import PostgresStore  # noqa: PLC0415  # only where used

        return PostgresStore(engine)
    given = f"an engine for {engine.dialect.name}" if isinstance(engine, Engine) else repr(bind)
    raise SetupError(
        f"RefRegistry got {given}, and keeps its map in PostgreSQL",
        "give a PostgreSQL engine as bind, or, for tests and scripts, "
        "store=alfred_refs.testing.MemoryStore()",
    )
