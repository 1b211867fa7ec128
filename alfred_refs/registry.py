"""The application's registry of refs: one for each application, made from its engine."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqlalchemy import Engine

from .cache import RefCache
from .conversation import Conversation
from .entities import Entities
from .errors import SetupError
from .observed import ObservedStore
from .plans import Plans
from .policy import RefPolicy
from .store import Address, PostgresStore, Store
from .telemetry import Counts, Observed, Telemetry

if TYPE_CHECKING:
    from sqlalchemy import MetaData
    from sqlalchemy.ext.asyncio import AsyncEngine


class RefRegistry(Observed):
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
        self._plans = Plans(Entities(policy or RefPolicy()))
        self._telemetry = Telemetry(self.dispatch)
        self._observed = ObservedStore(self._store, self._telemetry)
        self._caches: WeakValueDictionary[Address, RefCache] = WeakValueDictionary()

    @property
    def metadata(self) -> MetaData:
        """The registry's tables, to be listed in an application's own Alembic environment.

        Raises:
            SetupError: the store keeps no tables.
        """
        metadata: MetaData | None = getattr(self._store, "metadata", None)
        if metadata is None:
            raise SetupError(
                f"{type(self._store).__name__} keeps no tables", "leave it out of the migrations"
            )
        return metadata

    @property
    def counts(self) -> Counts:
        """How often this process has minted, used and refused refs, and asked the store."""
        return self._telemetry.counts

    def create_tables(self) -> None:
        """Create the tables that are missing; `alfred-refs migrate` does it by Alembic."""
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
        address = Address(id, None if owner is None else str(owner))
        cache = self._caches.setdefault(address, RefCache())
        return Conversation(address, self._observed, self._plans, cache, self._telemetry)


def _store_for(bind: Any) -> Store:
    engine = getattr(bind, "sync_engine", bind)  # what an AsyncEngine stands on
    if isinstance(engine, Engine) and engine.dialect.name == "postgresql":
        return PostgresStore(engine)
    given = f"an engine for {engine.dialect.name}" if isinstance(engine, Engine) else repr(bind)
    raise SetupError(
        f"RefRegistry got {given}, and keeps its map in PostgreSQL",
        "give a PostgreSQL engine as bind, or, for tests and scripts, "
        "store=alfred_refs.testing.MemoryStore()",
    )
