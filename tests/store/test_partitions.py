"""The registry's tables hash-partitioned by conversation, by `examples/partitions.sql`."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
from alembic import command
from sqlalchemy import Engine, text

from alfred_refs import PostgresStore, RefRegistry
from alfred_refs.store import Address, schema
from alfred_refs.store.schema import metadata
from tests.explain import FILL, OF_ALL_CONVERSATIONS, Plan, client, run, statements
from tests.fix_postgres import connected, database_like
from tests.partitions import partition, recipe, recipe_of
from tests.store.revisions import REVISIONS
from tests.store.test_migrations import _application

PLANS = get_args(Plan)

OF_ONE = sorted(statements().keys() - OF_ALL_CONVERSATIONS)

# how many partitions of a table a statement may lock
FORKING = [
    *("fork_conversation", "fork_counter", "fork_mapping", "fork_draft"),
    *("fork_activity", "fork_step"),
]
LOCKS = dict.fromkeys(FORKING, 2)  # the old and the new

PART = re.compile(r"_16_\d+$")

# what the tables are made of, whether they are partitioned or not
MADE_OF = """
select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace and conrelid <> 0
union all select tablename, indexname, regexp_replace(indexdef, '^(.*) ON (ONLY )?', '\\1')
    from pg_indexes where schemaname = 'public'
union all select attrelid::regclass::text, attname, format_type(atttypid, atttypmod) || ' ' ||
        concat_ws('/', attnotnull, attstorage, col_description(attrelid, attnum),
                  pg_get_expr(adbin, adrelid), obj_description(attrelid))
    from pg_attribute join pg_class on attrelid = pg_class.oid
    left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attnum > 0
        and not attisdropped
order by 1, 2, 3
"""


@pytest.fixture(scope="module")
def registry(administration: Engine) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with a large registry, partitioned."""
    with database_like(administration) as url, client(url) as registry:
        schema.migrate(url)
        partition(url)
        registry.execute(FILL)
        registry.execute("analyze")
        yield registry


def made_of(url: str) -> list[tuple[Any, ...]]:
    """Return columns, constraints and indexes of the tables, with names and comments."""
    with client(url) as connection:
        return connection.execute(MADE_OF).fetchall()


def parts(names: set[str]) -> dict[str, int]:
    """Return how many partitions of each table are among the names."""
    tables = [PART.sub("", name) for name in names]
    assert set(tables) <= metadata.tables.keys()
    return {table: tables.count(table) for table in tables}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", OF_ONE)
def test_a_statement_uses_one_partition_of_a_table(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """Others are pruned before anything is read, by a plan for the values or a generic one.

    Planned for its values, it locks no other, which includes those that it inserts into.
    """
    done = run(registry, name, plan)

    assert set(parts({scan.relation for scan in done.scans}).values()) <= {1}
    if plan == "custom":
        assert max(parts(done.locked).values(), default=0) <= LOCKS.get(name, 1)


def test_the_recipe_partitions_every_table_of_the_registry() -> None:
    """A table that is added to the registry is added to the recipe, in each of its lists."""
    [named] = re.findall(r"array array\[(.*?)\]", recipe(), re.DOTALL)
    [locked] = re.findall(r"^lock (.*) in access exclusive mode;$", recipe(), re.MULTILINE)
    [analyzed] = re.findall(r"^analyze (.*);$", recipe(), re.MULTILINE)

    assert re.findall(r"'(\w+)'", named) == sorted(metadata.tables)
    assert locked == analyzed == ", ".join(sorted(metadata.tables))


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_partitioned_tables_are_migrated_like_others(revision: str, database_url: str) -> None:
    """Whatever revision was partitioned, Alembic brings it to the newest, and finds no drift."""
    schema.migrate(database_url)
    migrated = made_of(database_url)
    with schema.connect(database_url) as connection:
        config = schema.configuration(connection)
        command.downgrade(config, "base")
        command.upgrade(config, revision)
        connection.commit()
        partition(database_url, recipe_of(revision))
        command.upgrade(config, "head")
        command.check(config)
        assert made_of(database_url) == migrated
        command.downgrade(config, "base")


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [4, 32])
def test_refs_survive_each_partitioning(
    partitions: int, database_url: str, engine: Engine
) -> None:
    """A registry in use is partitioned, and again into more or fewer: nobody notices."""
    schema.migrate(database_url)
    before = made_of(database_url)
    conversations = [RefRegistry(engine).conversation(f"chat-{n}") for n in range(20)]
    refs = [conversation.refer_all("recipe", [1, 2, 3]) for conversation in conversations]
    partition(database_url)
    partition(database_url, recipe(partitions))

    assert made_of(database_url) == before
    fresh = RefRegistry(engine)
    assert [fresh.conversation(f"chat-{n}").resolve_all(refs[n]) for n in range(20)] == 20 * [
        [1, 2, 3]
    ]
    assert fresh.conversation("chat-7").refer_all("recipe", [4, 3]) == ["recipe_4", "recipe_3"]


@pytest.mark.slow
def test_minting_waits_while_the_tables_are_partitioned(database_url: str, engine: Engine) -> None:
    """Stores at work before, while and after: no error, no gap, no number twice."""
    schema.migrate(database_url)
    stop, failures = threading.Event(), []

    def mint() -> None:
        store = PostgresStore(engine)
        while not stop.is_set():
            try:
                [entry] = store.refer(Address("chat-7"), [("recipe", uuid.uuid4())])
                assert store.resolve(Address("chat-7"), [entry.ref]) == {entry.ref: entry}
                store.mark(Address("chat-7"), [("recipe", entry.key)], "was deleted")
            except Exception as error:  # noqa: BLE001  # shown by the assertion
                failures.append(error)

    threads = [threading.Thread(target=mint) for _ in range(4)]
    for thread in threads:
        thread.start()
    for partitions in (8, 16):
        partition_in_time(database_url, recipe(partitions))
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    with engine.connect() as connection:
        numbers = text(
            "select max(number), count(*), count(distinct key) from alfred_refs_mapping"
        )
        highest, count, distinct = connection.execute(numbers).one()
    assert highest == count == distinct


def partition_in_time(url: str, sql: str) -> None:
    """Run the recipe as the page says: again, if it could not have its locks in time."""
    for _ in range(20):
        try:
            return partition(url, sql)
        except psycopg.errors.LockNotAvailable:
            continue
    raise AssertionError("the tables were never free")


def test_partitioning_gives_way_to_a_transaction_that_holds_a_table(
    database_url: str, engine: Engine
) -> None:
    """It ends by its lock timeout, with everything as it was."""
    schema.migrate(database_url)
    before = made_of(database_url)
    with engine.connect() as holder:
        holder.execute(text("select * from alfred_refs_mapping"))
        with pytest.raises(psycopg.errors.LockNotAvailable, match="due to lock timeout"):
            partition(database_url)

    assert made_of(database_url) == before
    with connected(database_url) as connection:
        assert connection.scalar(text("select to_regclass('alfred_refs_mapping_new')")) is None


@pytest.mark.slow
def test_an_application_that_migrates_the_registry_is_not_offered_to_drop_partitions(
    database_url: str, engine: Engine, tmp_path: Path
) -> None:
    """Autogenerate sees the tables alone: the partitions are in a schema of their own."""
    with schema.connect(database_url) as connection:
        config = _application(tmp_path, connection, RefRegistry(engine))
        command.revision(config, autogenerate=True, rev_id="a1")
        command.upgrade(config, "head")
        connection.commit()
        partition(database_url)
        command.check(config)


def test_create_tables_takes_partitioned_ones_for_made(database_url: str, engine: Engine) -> None:
    """An application that makes the tables as it starts leaves partitioned ones as they are."""
    RefRegistry(engine).create_tables()
    partition(database_url)
    before = made_of(database_url)
    RefRegistry(engine).create_tables()

    assert made_of(database_url) == before
