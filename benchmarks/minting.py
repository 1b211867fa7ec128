"""What it costs to mint, and whether it matters how many mappings there are.

Each time there are new keys, laid out beforehand, in a new conversation.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, event

from alfred_refs import RefRegistry
from alfred_refs.mapping.keys import encode
from benchmarks.measure import Figure, Side, side_by_side, times_called
from benchmarks.population import new_database
from benchmarks.setting import Setting
from benchmarks.table import Row

_ENTITY = "recipe"
_KEYS = 1_000
_FEW_KEYS = 100

_INSERT = "insert into bare_mapping (conversation, kind, number, key) "

# A parameter for each value. psycopg prepares both when it has seen them a few times.
_VALUES = f"{_INSERT} values {', '.join(['(%s, %s, %s, %s)'] * _KEYS)}"

# A parameter for each column, and for the conversation.
_ARRAYS = f"{_INSERT} select %s, * from unnest(%s::smallint[], %s::int[], %s::bytea[])"


def minted_against_values(setting: Setting) -> Figure:
    """Compare with `INSERT … VALUES (…), (…), …` and COMMIT."""
    runs = [list(chain.from_iterable(_rows())) for _ in _runs(setting)]
    return _against(setting, _VALUES, runs)


def minted_against_arrays(setting: Setting) -> Figure:
    """Compare with `INSERT … SELECT … FROM unnest(…)` and COMMIT."""
    columns = [[list(column) for column in zip(*_rows(), strict=True)] for _ in _runs(setting)]
    return _against(setting, _ARRAYS, [[each[0][0], *each[1:]] for each in columns])


def minted_in_round_trips(setting: Setting) -> Figure:
    """Count how often the client waits for the server, which says each time that it is ready."""
    engine = create_engine(setting.engine.url)
    connections: list[Any] = []
    event.listen(engine, "connect", lambda connection, _: connections.append(connection))
    conversation = RefRegistry(engine).conversation("traced")
    conversation.refer(_ENTITY, uuid.uuid4())  # connects
    protocol = connections[-1].pgconn
    with TemporaryDirectory() as directory:
        trace = Path(directory, "trace")
        with trace.open("w") as file:
            protocol.trace(file.fileno())
            conversation.refer_all(_ENTITY, _keys(_KEYS))
            protocol.untrace()
        counted = trace.read_text().count("ReadyForQuery")
    engine.dispose()
    return Figure(counted, "libpq's trace", "")


def minted_in_full_registry(setting: Setting) -> Figure:
    """Compare a registry of very many mappings with one that was empty."""
    full, empty = setting.populated.engine, new_database(setting.engine, "empty")
    sides = [_mint(RefRegistry(engine), setting, _FEW_KEYS) for engine in (full, empty)]
    figure = side_by_side(*sides, repetitions=setting.repetitions).by_clock()
    empty.dispose()
    return figure


ROWS = (
    Row(
        "mint 1,000 new refs, against one bare INSERT … VALUES of the same rows, and COMMIT",
        1.3,
        minted_against_values,
    ),
    Row("the same, against INSERT … SELECT FROM unnest() and COMMIT", None, minted_against_arrays),
    Row("round trips to mint 1,000 new refs", 1, minted_in_round_trips, unit=""),
)

FULL_ROWS = (
    Row(
        "mint 100 new refs in the full registry, against an empty one",
        1.3,
        minted_in_full_registry,
    ),
)


def _against(setting: Setting, statement: str, runs: Sequence[Sequence[object]]) -> Figure:
    """Compare with a statement on a table of the same columns, constraints and indexes."""
    with setting.bare.begin() as connection:
        connection.exec_driver_sql("drop table if exists bare_mapping")
        connection.exec_driver_sql(
            "create table bare_mapping (like alfred_refs_mapping including all)"
        )
    left = iter(runs)
    with closing(setting.bare.raw_connection()) as pooled:
        driver: Any = pooled.driver_connection

        def insert() -> None:
            driver.execute(statement, next(left))
            driver.commit()

        ours = _mint(setting.registry, setting, _KEYS)
        return side_by_side(ours, insert, repetitions=setting.repetitions).by_clock()


def _mint(registry: RefRegistry, setting: Setting, number: int) -> Side:
    left = iter([_keys(number) for _ in _runs(setting)])

    def mint() -> None:
        keys = next(left)
        registry.conversation(str(keys[0])).refer_all(_ENTITY, keys)

    return mint


def _runs(setting: Setting) -> Iterator[int]:
    return iter(range(times_called(setting.repetitions)))


def _rows() -> list[tuple[uuid.UUID, int, int, bytes]]:
    """Return what a new conversation's mappings are made of, keys as the registry has them."""
    conversation = uuid.uuid4()
    keys = enumerate(_keys(_KEYS), start=1)
    return [(conversation, 1, number, encode(key)) for number, key in keys]


def _keys(number: int) -> list[uuid.UUID]:
    return [uuid.uuid4() for _ in range(number)]
