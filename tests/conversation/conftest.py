"""Fixtures of the tests of conversations."""

from __future__ import annotations

import pytest

from alfred_refs import RefRegistry
from alfred_refs.store.memory import MemoryStore


@pytest.fixture
def memory() -> RefRegistry:
    """A registry in memory, for one test."""
    return RefRegistry(store=MemoryStore())


def elsewhere(registry: RefRegistry) -> RefRegistry:
    """Return what another process has: the same store, and nothing in memory."""
    return RefRegistry(store=registry._store)
