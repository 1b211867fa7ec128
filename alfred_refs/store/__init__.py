"""Where the map between refs and keys is kept.

`Store` is the protocol, `PostgresStore` keeps the map in a database for many processes, and
`MemoryStore` in this process for tests and scripts. Both pass the same contract tests.
"""

from .memory import MemoryStore as MemoryStore
from .postgres import PostgresStore as PostgresStore
from .protocol import (
    Address as Address,
    EntityKey as EntityKey,
    Entry as Entry,
    Gone as Gone,
    Store as Store,
)

__all__ = ["Address", "EntityKey", "Entry", "Gone", "MemoryStore", "PostgresStore", "Store"]
