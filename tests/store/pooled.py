"""A process that uses one conversation behind PgBouncer: `python -m tests.store.pooled ...`.

In: a driver of `docs/poolers.md`, the pooler's address, and a number. It mints the forty keys that
follow the number, ten at a time, and resolves their refs.
"""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy.util import greenlet_spawn

from alfred_refs import RefRegistry
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Address
from tests.pooler import run_program


def use(registry: RefRegistry, first: int) -> None:
    """Mint and resolve."""
    store, address = registry._store, Address("chat-7")
    for start in range(first, first + 40, 10):
        keys: list[EntityKey] = [("recipe", start + number) for number in range(10)]
        entries = store.refer(address, keys)
        found = store.resolve(address, [entry.ref for entry in entries])
        assert [("recipe", found[entry.ref].key) for entry in entries] == keys


if __name__ == "__main__":
    _, driver, address, first = sys.argv
    names = run_program(driver, address)
    if hasattr(names["engine"], "sync_engine"):
        asyncio.run(greenlet_spawn(use, names["registry"], int(first)))
    else:
        use(names["registry"], int(first))
