"""Short, typed refs in place of database keys, for language models that work on a database.

`RefSession` takes the place of SQLAlchemy's `Session`, `AsyncRefSession` that of its
`AsyncSession`; a `RefRegistry` keeps the map between refs and keys in PostgreSQL. The path of a
statement:

    refs in ──criteria──▶ keys ──SQLAlchemy, untouched──▶ keys ──rows, instances──▶ refs out
                 │                                                    │
                 └──────────── Conversation ── Store ─────────────────┘

`session.py` has this path on one page. A conversation is what a ref is valid in and outlives
sessions, processes and machines; a session is one unit of work in it.
"""

from typing import TYPE_CHECKING, Any

from .conversation import Conversation as Conversation
from .entries import Draft as Draft, RefEntry as RefEntry
from .errors import (
    BadRefError as BadRefError,
    CircularDraftsError as CircularDraftsError,
    ConversationExistsError as ConversationExistsError,
    ConversationIdError as ConversationIdError,
    DiscardedDraftError as DiscardedDraftError,
    DraftContentError as DraftContentError,
    DraftKeyError as DraftKeyError,
    DraftRefError as DraftRefError,
    DraftTwiceError as DraftTwiceError,
    EntityNameError as EntityNameError,
    EntityTableError as EntityTableError,
    ExportFormatError as ExportFormatError,
    ForeignRowError as ForeignRowError,
    GoneRefError as GoneRefError,
    KeyColumnError as KeyColumnError,
    KeyTypeError as KeyTypeError,
    LabelError as LabelError,
    OwnershipError as OwnershipError,
    RawKeyError as RawKeyError,
    RefError as RefError,
    RefNotCarriedError as RefNotCarriedError,
    RegistryBusyError as RegistryBusyError,
    RegistryFailedError as RegistryFailedError,
    RegistryMigrationError as RegistryMigrationError,
    RegistryTablesError as RegistryTablesError,
    RegistryUnreachableError as RegistryUnreachableError,
    RetentionError as RetentionError,
    SavedDraftError as SavedDraftError,
    SetupError as SetupError,
    StaleDraftError as StaleDraftError,
    UnconfinedError as UnconfinedError,
    UnknownConversationError as UnknownConversationError,
    UnknownDraftError as UnknownDraftError,
    UnknownRefError as UnknownRefError,
    UntranslatableError as UntranslatableError,
    WrongEntityError as WrongEntityError,
)
from .owners import (
    Owner as Owner,
    Ownership as Ownership,
)
from .policy import RefPolicy as RefPolicy
from .registry import RefRegistry as RefRegistry
from .session import RefSession as RefSession
from .store import (
    ConversationInfo as ConversationInfo,
    PostgresStore as PostgresStore,
    RegistryStats as RegistryStats,
    Store as Store,
)

if TYPE_CHECKING:
    from .asyncio import AsyncRefSession as AsyncRefSession

__all__ = [
    "AsyncRefSession",
    "BadRefError",
    "CircularDraftsError",
    "Conversation",
    "ConversationExistsError",
    "ConversationIdError",
    "ConversationInfo",
    "DiscardedDraftError",
    "Draft",
    "DraftContentError",
    "DraftKeyError",
    "DraftRefError",
    "DraftTwiceError",
    "EntityNameError",
    "EntityTableError",
    "ExportFormatError",
    "ForeignRowError",
    "GoneRefError",
    "KeyColumnError",
    "KeyTypeError",
    "LabelError",
    "Owner",
    "Ownership",
    "OwnershipError",
    "PostgresStore",
    "RawKeyError",
    "RefEntry",
    "RefError",
    "RefNotCarriedError",
    "RefPolicy",
    "RefRegistry",
    "RefSession",
    "RegistryBusyError",
    "RegistryFailedError",
    "RegistryMigrationError",
    "RegistryStats",
    "RegistryTablesError",
    "RegistryUnreachableError",
    "RetentionError",
    "SavedDraftError",
    "SetupError",
    "StaleDraftError",
    "Store",
    "UnconfinedError",
    "UnknownConversationError",
    "UnknownDraftError",
    "UnknownRefError",
    "UntranslatableError",
    "WrongEntityError",
]


def __getattr__(name: str) -> Any:
    """Import `AsyncRefSession` when it is first asked for: SQLAlchemy's asyncio needs an extra."""
    if name == "AsyncRefSession":
        from .asyncio import AsyncRefSession  # noqa: PLC0415  # needs greenlet

        return AsyncRefSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
