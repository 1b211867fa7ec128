"""What a mapping weighs, in this process and on the server's disk."""

from __future__ import annotations

import gc
import tracemalloc
import uuid

from sqlalchemy import Engine, create_engine

from alfred_refs import PostgresStore, RefRegistry
from benchmarks.growth import GROWN, results
from benchmarks.measure import Figure
from benchmarks.population import settle
from benchmarks.setting import Setting
from benchmarks.table import Row
from tests.postgres.server import embedded_server

_ENTITY = "recipe"

# How many mappings are cached: a dictionary has most room to spare just after it has grown.
_CACHED = (1_000, 5_000, 5_500)


def memory(setting: Setting) -> Figure:
    """Weigh cached mappings: key, ref and all that leads from the one to the other."""
    weights = {number: _cached(setting.registry, number) for number in _CACHED}
    worst = max(weights, key=weights.__getitem__)
    detail = ", ".join(f"{weight:.0f} B of {number:,}" for number, weight in weights.items())
    return Figure(weights[worst], "tracemalloc", f"{detail}; keys are UUIDs")


def disk(setting: Setting) -> Figure:
    """Weigh the mapping table, indexes and all, after as many were minted as a store mints."""
    mappings = max(setting.populated.mappings // 10, 1)
    # this is about pages, not about when they are on the disk: fsync is off
    with embedded_server() as url:
        engine = create_engine(url)
        store = PostgresStore(engine)
        store.create_tables()
        for address, keys in results(mappings):
            store.refer(address, keys)
        settle(engine)
        total, table = (
            _size(engine, f"pg_{size}_size") for size in ("total_relation", "relation")
        )
        engine.dispose()
    detail = (
        f"{table / mappings:.0f} B of it in the table; {mappings:,} mappings by the store: {GROWN}"
    )
    return Figure(total / mappings, "server", detail)


ROWS = (
    Row("memory of a cached mapping", 400, memory, unit="B"),
    Row("disk of a mapping, indexes included", 250, disk, unit="B"),
)


def _cached(registry: RefRegistry, number: int) -> float:
    """Return the bytes for each of so many mappings that were resolved and are cached."""
    name = f"cached-{number}"
    registry.conversation(name).refer_all(_ENTITY, [uuid.uuid4() for _ in range(number)])
    refs = range(1, number + 1)
    # another object, whose cache is empty: the first is gone
    conversation = registry.conversation(name)
    conversation.resolve(f"{_ENTITY}_1")
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    conversation.resolve_all(f"{_ENTITY}_{n}" for n in refs)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / number


def _size(engine: Engine, function: str) -> int:
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f"select {function}('alfred_refs_mapping')")
        return int(found.scalar_one())
