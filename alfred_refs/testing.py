"""Support for an application's tests: a registry without a database.

    registry = RefRegistry(store=MemoryStore())

`MemoryStore` implements the complete `Store` protocol in memory. It is for tests and scripts: its
content is not shared between processes and not saved.
"""

from .store.memory import MemoryStore as MemoryStore

__all__ = ["MemoryStore"]
