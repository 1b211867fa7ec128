"""Databases beside the first, and one whose registry is very full.

The registry's tables are those of the package, indexes included, and the server fills them: one
conversation has a tenth of all mappings, one has ten, and the others have a hundred on average,
distributed exponentially, one after the other. The indexes are there from the start, so that
their pages are as full as splits leave them, and not as full as CREATE INDEX packs them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cached_property

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from sqlalchemy import Connection, Engine, create_engine, text

from alfred_refs import RefRegistry
from alfred_refs.store import Address

LARGEST, SMALL = "populated-0", "populated-1"

IN_SMALL = 10
_IN_OTHERS = 100  # on average
_AT_ONCE = 2_000  # conversations filled by one statement

# Two entities take turns in each conversation.
_FILL = text("""
    with opened as (
        select * from unnest(cast(:ids as text[]), cast(:digests as uuid[]), cast(:sizes as int[]))
        with ordinality as opened (id, conversation, size, position)
    ), begun as (
        insert into alfred_refs_conversation (conversation, id)
        select conversation, id from opened
    ), counted as (
        insert into alfred_refs_counter (conversation, entity, last, kind)
        select conversation, entity, last, kind
        from opened, lateral (values ('recipe', (size + 1) / 2, 1), ('meal_plan', size / 2, 2))
        as counters (entity, last, kind)
    )
    insert into alfred_refs_mapping (conversation, kind, number, key)
    select conversation, 1 + n % 2, n / 2 + 1,
        'u'::bytea || uuid_send(gen_random_uuid())
    from opened, generate_series(0, size - 1) as n
    order by position, n
""")


def new_database(engine: Engine, name: str) -> Engine:
    """Make a database with the registry's tables on an engine's server; return its engine."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    made = create_engine(engine.url.set(database=name))
    RefRegistry(made).create_tables()
    return made


class Populated:
    """The database with a very full registry, made when its engine is first asked for.

    Args:
        beside: an engine on the server where it is to be.
        mappings: how many the registry has.
        console: is shown how the filling gets on.
    """

    def __init__(self, beside: Engine, mappings: int, console: Console) -> None:
        self.mappings = mappings
        self._beside = beside
        self._console = console

    @cached_property
    def engine(self) -> Engine:
        """The database's engine."""
        engine = new_database(self._beside, "populated")
        with _progress(self._console) as progress, engine.connect() as connection:
            words = f"filling a registry with {self.mappings:,} mappings"
            task = progress.add_task(words, total=self.mappings)
            for first, sizes in _parts(self.mappings):
                _fill(connection, first, sizes)
                progress.advance(task, sum(sizes))
        settle(engine)
        return engine

    @property
    def largest(self) -> int:
        """How many mappings the largest conversation has."""
        return _largest_of(self.mappings)

    def dispose(self) -> None:
        """Close the engine, if it was made."""
        if "engine" in vars(self):
            self.engine.dispose()


def settle(engine: Engine) -> None:
    """Have the server do what it would else do later, beside what is being timed."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql("vacuum analyze")
        connection.exec_driver_sql("checkpoint")


def _parts(mappings: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the sizes of conversations, some at once, and the number of the first of them."""
    draw = random.Random(7)  # noqa: S311  # nothing is kept secret by it
    sizes = [_largest_of(mappings), IN_SMALL]
    left = mappings - sum(sizes)
    while left > 0:
        sizes.append(min(1 + int(draw.expovariate(1 / (_IN_OTHERS - 1))), left))
        left -= sizes[-1]
    # the largest alone: it has as many as a whole part
    yield 0, sizes[:1]
    for first in range(1, len(sizes), _AT_ONCE):
        yield first, sizes[first : first + _AT_ONCE]


def _fill(connection: Connection, first: int, sizes: Sequence[int]) -> None:
    addresses = [Address(f"populated-{first + n}") for n in range(len(sizes))]
    parameters = {
        "ids": [address.id for address in addresses],
        "digests": [address.digest for address in addresses],
        "sizes": sizes,
    }
    with connection.begin():
        connection.execute(_FILL, parameters)


def _largest_of(mappings: int) -> int:
    return max(mappings // 10, 2)


def _progress(console: Console) -> Progress:
    return Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console)
