"""For the tests of applications: a registry without a database.

registry = RefRegistry(store=MemoryStore())
"""

from .store.memory import MemoryStore as MemoryStore

__all__ = ["MemoryStore"]
