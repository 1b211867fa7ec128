"""Short, typed refs in place of database keys, for language models that work on a database.

`RefSession` takes the place of SQLAlchemy's `Session`; a `RefRegistry` keeps the map between refs
and keys in PostgreSQL. The path of a statement:

    refs in ──criteria──▶ keys ──SQLAlchemy, untouched──▶ keys ──rows, instances──▶ refs out
                 │                                                    │
                 └──────────── Conversation ── Store ─────────────────┘

`session.py` has this path on one page. A conversation is what a ref is valid in and outlives
sessions, processes and machines; a session is one unit of work in it.
"""

from .conversation import Conversation as Conversation
from .errors import (
    BadRefError as BadRefError,
    ConversationIdError as ConversationIdError,
    DraftRefError as DraftRefError,
    EntityNameError as EntityNameError,
    GoneRefError as GoneRefError,
    KeyColumnError as KeyColumnError,
    KeyTypeError as KeyTypeError,
    RawKeyError as RawKeyError,
    RefError as RefError,
    RegistryFailedError as RegistryFailedError,
    RegistryTablesError as RegistryTablesError,
    RegistryUnreachableError as RegistryUnreachableError,
    SetupError as SetupError,
    UnknownConversationError as UnknownConversationError,
    UnknownRefError as UnknownRefError,
    UntranslatableError as UntranslatableError,
    WrongEntityError as WrongEntityError,
)
from .policy import RefPolicy as RefPolicy
from .registry import RefRegistry as RefRegistry
from .session import RefSession as RefSession
from .store import PostgresStore as PostgresStore, Store as Store

__all__ = [
    "BadRefError",
    "Conversation",
    "ConversationIdError",
    "DraftRefError",
    "EntityNameError",
    "GoneRefError",
    "KeyColumnError",
    "KeyTypeError",
    "PostgresStore",
    "RawKeyError",
    "RefError",
    "RefPolicy",
    "RefRegistry",
    "RefSession",
    "RegistryFailedError",
    "RegistryTablesError",
    "RegistryUnreachableError",
    "SetupError",
    "Store",
    "UnknownConversationError",
    "UnknownRefError",
    "UntranslatableError",
    "WrongEntityError",
]
