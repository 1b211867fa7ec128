"""For the tests of an application: a registry without a database.

    registry = RefRegistry(store=MemoryStore())

`MemoryStore` satisfies the `Store` protocol in full and lives as long as the object. It is for
tests and scripts: its content is not shared between processes and not saved.
"""

from .store.memory import MemoryStore as MemoryStore

__all__ = ["MemoryStore"]
