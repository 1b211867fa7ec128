"""`RefRegistry`: opens conversations, and shows all of them to operators.

An application has one registry, made from its engine:

>>> registry = RefRegistry(engine)
>>> registry.create_tables()
>>> chat = registry.conversation("chat-7")
>>> chat.refer_all(Recipe, [chat.resolve("recipe_1")])
['recipe_1']
>>> [info.id for info in registry.conversations()]
['chat-7']
>>> registry.stats().refs
{'line': 2, 'recipe': 2}
>>> registry.prune(timedelta(days=30))
0

All its conversations share the store, the policy, the mapped tables (`Entities`), and the events
and counts of `telemetry`. Each conversation that is in use has one set of caches.

Limits:

- Opening a conversation reads nothing, so an id of another owner is refused at its first use.
- A registry uses the engine's credentials and connect hooks, and connections of its own, so that
  minting is committed even if the application's transaction is rolled back.
- Methods for operators see the conversations of all owners; they open none of them, so they need
  neither mappings nor `pydantic`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqlalchemy import Engine

from alfred_refs import sqla
from alfred_refs.conversation.caches import CAPACITY, Caches
from alfred_refs.errors import RetentionError, SetupError
from alfred_refs.mapping.keys import RefPolicy
from alfred_refs.store import (
    Address,
    CallEntry,
    ConversationInfo,
    RegistryStats,
    Store,
    owner_text,
)
from alfred_refs.store.telemetry import Counts, EventSource, Telemetry, observe

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table
    from sqlalchemy.ext.asyncio import AsyncEngine

    from alfred_refs.conversation.conversation import Conversation
    from alfred_refs.mapping.entities import Entities
    from alfred_refs.mapping.keys import Key


class RefRegistry(EventSource):
    """Opens conversations, which share its store, policy and entities.

    Its work is counted in `counts`, and `sqlalchemy.event.listen` takes listeners for it:
    `telemetry.RegistryEvents` has the names.

    Args:
        bind: the engine of the database where the registry's tables are; usually the
            application's own. The registry uses its credentials and connect hooks, never its pool.
        store: another store, in place of `bind`.
        policy: which keys become refs, and the names of their entities.
        timeout: the seconds after which a call on `bind` that got no connection, or no answer,
            raises `RegistryBusyError`; 5 by default. Behind a pooler, sessions with open
            transactions may hold all connections that the registry waits for:
            `docs/poolers.md`.

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
        timeout: float | None = None,
    ) -> None:
        self._store = _store_for(bind, timeout) if store is None else store
        if bind is not None and store is not None:
            raise SetupError("RefRegistry got both bind and store", "give one of them")
        self._policy = policy or RefPolicy()
        self._telemetry = Telemetry(self.dispatch)
        self._observed = observe(self._store, self._telemetry)
        # kept as long as a conversation of that address is in use
        self._caches: WeakValueDictionary[Address, Caches] = WeakValueDictionary()
        self._opening = threading.Lock()
        self._schemas = sqla.schemas_of(bind)

    @property
    def metadata(self) -> MetaData:
        """The registry's tables, for an application's own Alembic environment.

        ```python
        context.configure(connection, target_metadata=[Base.metadata, registry.metadata])
        ```

        Autogenerate raises where it would damage them: `docs/registry.md` lists the cases, and the
        set-up for an application with a naming convention.

        Raises:
            SetupError: the store has no tables.
        """
        from alfred_refs.store import alembic  # noqa: F401, PLC0415  # registers comparators

        metadata: MetaData | None = getattr(self._store, "metadata", None)
        if metadata is None:
            raise SetupError(
                f"{type(self._store).__name__} has no tables", "leave it out of the migrations"
            )
        return metadata

    @property
    def aio(self) -> AsyncRegistry:
        """The same methods as coroutines, as in `await registry.aio.create_tables()`."""
        return AsyncRegistry(self, is_async=self._observed.is_async)

    @property
    def counts(self) -> Counts:
        """How often this process has minted, used and refused refs, and queried the store."""
        return self._telemetry.counts

    def create_tables(self) -> None:
        """Create the missing tables; `alfred-refs migrate` does so with Alembic.

        Raises:
            RegistryTablesError: the tables of an older version exist; they are not changed.
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
            id: the application's id for it: 1 to 255 printable characters.
            owner: the tenant or user it belongs to. Another owner cannot use it.

        Raises:
            ConversationIdError: the id cannot identify a conversation.
        """
        return self._open(Address(id, owner_text(owner)))

    def import_conversation(
        self,
        data: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002  # as everyone calls it
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
    ) -> Conversation:
        """Create a conversation from the result of `Conversation.export()`, and open it.

        Args:
            data: as it was exported; all of it is checked before anything is written.
            id: another id than the one in `data`. Calls that wait for a decision are expired in
                the copy.
            owner: another owner than the one in `data`; `None` for no owner.

        Raises:
            ExportFormatError: `data` is of another format, malformed, or of a newer version.
            ConversationExistsError: the id is in use, or was used before, unless by the
                conversation in `data` itself.
            ConversationIdError: the id cannot identify a conversation.
        """
        from alfred_refs.conversation.export import from_json, of_copy  # noqa: PLC0415  # loads pydantic

        exported = from_json(data)
        if owner is ...:
            owner = exported.owner
        new_id = exported.id if id is None else id
        if new_id != exported.id:
            exported = of_copy(exported)
        address = Address(new_id, owner_text(owner))
        self._observed.restore(address, exported)
        return self._open(address)

    def conversations(
        self,
        *,
        unused_for: timedelta | None = None,
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
        limit: int | None = None,
        search: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> Iterator[ConversationInfo]:
        """Iterate over the conversations of all owners, the last used first.

        For operators. The list is fixed when the first is requested, at 300 bytes of memory for
        each; they are read page by page, and one that is forgotten meanwhile may be missing.

            for info in registry.conversations(owner=user.id, limit=20):
                print(info.id, info.used_at)

        Args:
            unused_for: only those that were not used for this time.
            owner: only conversations of this owner; `None` for those without owner.
            limit: the largest number to return.
            search: only those whose id contains this text, in upper or lower case.
            after: the `used_at` and the id of the last one of a page, to read the next page.

        Raises:
            RetentionError: `unused_for` or `limit` is negative.
            ConversationIdError: the owner is invalid, or the id in `after`.
        """
        _check_age(unused_for)
        if limit is not None and limit < 0:
            raise RetentionError(f"a limit of {limit!r} conversations", "give at least 0")
        return self._store.conversations(
            unused_for, _owner_filter(owner), limit, search=search, after=after
        )

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
            ConversationIdError: the owner is invalid.
        """
        _check_age(unused_for)
        return self._store.count_conversations(unused_for, _owner_filter(owner))

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """Return facts about one conversation, of any owner. For operators.

        Args:
            id: the application's id for it.

        Raises:
            UnknownConversationError: no conversation has this id.
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
        """Forget all conversations that were not used for some time; return their number.

        For operators. It may run at any time, and several times at once: each batch is a short
        transaction, and conversations that are in use are skipped. A conversation that is used
        without minting may count as unused for up to an hour longer. At the end, the counters of
        conversations that were forgotten longer than `unused_for` ago are deleted, too.

        Args:
            unused_for: the least time; some hours or more, as use is recorded hourly.
            batch: how many conversations to forget in one transaction.
            progress: called after each batch with the number that it forgot.

        Raises:
            RetentionError: `unused_for` is negative, or `batch` is not positive.
        """
        _check_batch(batch, "conversations")
        _check_age(unused_for)
        return _sum_of(self._observed.prune(unused_for, batch), progress)

    def prune_history(
        self,
        older_than: timedelta,
        *,
        batch: int = 100,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Delete the contents of calls that were decided some time ago; return their number.

        For operators. It may run at any time, as `prune` may. First, calls that waited for too
        long are marked as expired. Then arguments, plans and answers are deleted, and the labels
        and values of the rows that the calls changed. Tool, refs, times and actors stay until the
        conversation is forgotten. Calls that wait for a decision, or whose outcome is not known,
        are left as they are.

            registry.prune_history(timedelta(days=30))  # 12

        Args:
            older_than: the least time since the decision.
            batch: how many calls to process in one transaction.
            progress: called after each batch with the number of its calls.

        Raises:
            RetentionError: `older_than` is negative, or `batch` is not positive.
        """
        _check_batch(batch, "calls")
        if older_than < timedelta():
            raise RetentionError(
                f"older_than is negative: {older_than!r}", "give the time since the decision"
            )
        _sum_of(self._observed.expire_calls(batch))
        return _sum_of(self._observed.prune_changes(older_than, batch), progress)

    def erase(self, entity: type[Any] | Table | str, key: Key, *, batch: int = 100) -> int:
        """Erase the content of a row from the conversations of all owners; return their number.

        For operators, once the row is deleted: a session that reads the row stores its label
        again. Erased are

        - its label, its values in the history, and the content of drafts that were saved as it;
        - the contents of calls that changed it or name it; calls that wait for a decision expire;
        - all content kept for prompts in the conversations that know it, as other rows may have
          shown it.

        Refs stay, and so do drafts that are not saved. Each batch is a short transaction, and
        waits for others that work in its conversations. Other processes keep cached labels as long
        as the conversation is in use there.

            registry.erase(Customer, customer_id)  # 3

        Args:
            entity: an entity, mapped class or table.
            key: of the row, as `Conversation.refer()` takes it.
            batch: how many conversations to process in one transaction.

        Raises:
            KeyTypeError: the class or table has keys of another type.
            RetentionError: `batch` is not positive.
        """
        from alfred_refs.conversation.refs import pairs_of  # noqa: PLC0415  # as for `_entities`

        _check_batch(batch, "conversations")
        [pair] = pairs_of(self._entities, entity, [key])
        table = self._entities.table_name_of(pair[0], self._schemas)
        count = sum(self._observed.erase(pair, table, batch))
        for caches in [*self._caches.values()]:
            caches.unlabel(pair)
        return count

    def waiting_calls(
        self,
        *,
        owner: str | int | uuid.UUID | EllipsisType | None = ...,
        limit: int | None = None,
        after: tuple[datetime, str, int] | None = None,
    ) -> Sequence[tuple[str, str | None, CallEntry]]:
        """Return the calls of all conversations that wait for a person, the oldest first.

        For operators: `BoundToolset.approvals` has their plans.

        Args:
            owner: as for `conversations`.
            limit: the largest number to return; `None` for all.
            after: `asked_at`, conversation and number of the last one of a page, to read the next
                page.

        Returns:
            the id of the conversation, its owner, and the call.
        """
        return self._observed.waiting(_owner_filter(owner), limit, after)

    def stats(self) -> RegistryStats:
        """Return counts over all conversations. For operators: it scans all refs."""
        return self._store.stats()

    @cached_property
    def _entities(self) -> Entities:
        """The mapped tables; made when the first conversation is opened."""
        from alfred_refs.mapping.entities import Entities  # noqa: PLC0415  # half of the package

        return Entities(self._policy)

    def _open(self, address: Address) -> Conversation:
        from alfred_refs.conversation.conversation import Conversation  # noqa: PLC0415  # as for `_entities`

        with self._opening:
            caches, entities = self._caches.setdefault(address, Caches(CAPACITY)), self._entities
        return Conversation(
            address,
            self._observed,
            entities,
            caches,
            telemetry=self._telemetry,
            open_conversation=self._open,
            schemas=self._schemas,
        )


class AsyncRegistry(sqla.AsyncFacade[RefRegistry]):
    """The methods of a `RefRegistry` as coroutines; iterators come as lists.

    Example:
        >>> import asyncio
        >>> asyncio.run(registry.aio.count_conversations())
        1
    """

    create_tables = sqla.async_method(RefRegistry.create_tables)
    import_conversation = sqla.async_method(RefRegistry.import_conversation)
    conversations = sqla.async_list_method(RefRegistry.conversations)
    count_conversations = sqla.async_method(RefRegistry.count_conversations)
    describe = sqla.async_method(RefRegistry.describe)
    erase = sqla.async_method(RefRegistry.erase)
    prune = sqla.async_method(RefRegistry.prune)
    prune_history = sqla.async_method(RefRegistry.prune_history)
    stats = sqla.async_method(RefRegistry.stats)


def _owner_filter(owner: str | int | uuid.UUID | EllipsisType | None) -> str | EllipsisType | None:
    return ... if owner is ... else owner_text(owner)


def _sum_of(batches: Iterator[int], progress: Callable[[int], object] | None = None) -> int:
    """Return the sum of the sizes of batches; report each."""
    total = 0
    for size in batches:
        total += size
        if progress is not None:
            progress(size)
    return total


def _check_batch(batch: int, of: str) -> None:
    if batch < 1:
        raise RetentionError(f"a batch of {batch!r} {of}", "give at least 1")


def _check_age(unused_for: timedelta | None) -> None:
    if unused_for is not None and unused_for < timedelta():
        raise RetentionError(
            f"unused_for is negative: {unused_for!r}", "give the time for which they were not used"
        )


def _store_for(bind: Any, timeout: float | None) -> Store:
    engine = getattr(bind, "sync_engine", bind)  # an AsyncEngine wraps one
    if isinstance(engine, Engine) and engine.dialect.name == "postgresql":
        from alfred_refs.store.postgres import PostgresStore  # noqa: PLC0415  # only where used

        return PostgresStore(engine) if timeout is None else PostgresStore(engine, timeout=timeout)
    kind = f"an engine for {engine.dialect.name}" if isinstance(engine, Engine) else repr(bind)
    raise SetupError(
        f"RefRegistry got {kind}, and its default store needs PostgreSQL",
        "give a PostgreSQL engine as bind, or, for tests and scripts, "
        "store=alfred_refs.testing.MemoryStore()",
    )
