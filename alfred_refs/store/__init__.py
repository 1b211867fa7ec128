"""Where the map between refs and keys is kept.

`Store` is the protocol, `PostgresStore` keeps the map in a database for many processes, and
`MemoryStore` in this process for tests and scripts. Both pass the same contract tests.
Each is imported when it is first asked for: a process uses one of them.
"""

from .protocol import Store as Store
from .values import (
    NO_LABELS as NO_LABELS,
    NOTED_EVERY as NOTED_EVERY,
    Address as Address,
    ConversationInfo as ConversationInfo,
    DraftEdit as DraftEdit,
    DraftEntry as DraftEntry,
    DraftState as DraftState,
    Entry as Entry,
    Exported as Exported,
    Gone as Gone,
    NewDraft as NewDraft,
    RegistryStats as RegistryStats,
    owner_text as owner_text,
)

__all__ = [
    "NOTED_EVERY",
    "Address",
    "ConversationInfo",
    "DraftEdit",
    "DraftEntry",
    "DraftState",
    "Entry",
    "Exported",
    "Gone",
    "NewDraft",
    "RegistryStats",
    "Store",
    "owner_text",
]
