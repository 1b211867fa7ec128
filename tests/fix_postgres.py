"""Fixtures: one PostgreSQL server per process, an empty database for each test.

Creating a database takes longer than most tests, so databases are pooled: each pool has a
template and hands out copies, which are emptied after the test and used again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import Connection, Engine, MetaData, create_engine, make_url

from alfred_refs import PostgresStore
from alfred_refs.store import schema
from tests.explain import client
from tests.models import Base
from tests.partitions import partition
from tests.postgres.backends import BETWEEN_TESTS, Backends
from tests.postgres.provider import Provided, postgres

SERVERS = pytest.StashKey[set[str]]()

CUT = f"""
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name <> '{BETWEEN_TESTS}'
"""

# equal in a copy and its template until a test changes the schema: copies keep object identifiers
CATALOGUE = """
select
    (select array_agg(row(attrelid, attname, atttypid, attnotnull, attidentity)::text
        order by attrelid, attnum)
     from pg_attribute where attrelid > 16383),
    (select array_agg(oid order by oid) from pg_attrdef),
    (select array_agg(row(oid, relname, relnamespace, relrowsecurity)::text order by oid)
     from pg_class where oid > 16383),
    (select array_agg(oid order by oid) from pg_constraint where oid > 16383),
    (select array_agg(row(oid, nspname)::text order by oid)
     from pg_namespace where nspname !~ '^pg_'),
    (select array_agg(oid order by oid) from pg_extension),
    (select array_agg(row(oid, tgenabled)::text order by oid) from pg_trigger),
    (select array_agg(oid order by oid) from pg_rewrite where oid > 16383),
    (select count(*) from pg_policy),
    (select count(*) from pg_proc),
    (select count(*) from pg_type),
    (select count(*) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
     where d.datname = current_database()),
    (select count(*) from pg_prepared_xacts where database = current_database())
"""

HIGHEST = """
select greatest(16383, (select max(oid) from pg_class), (select max(oid) from pg_type),
    (select max(oid) from pg_proc), (select max(oid) from pg_namespace))
"""

# objects created in a copy have higher identifiers than those of its template; CASCADE may have
# dropped an object before its turn comes
DROP = """
do $$
declare
    each record;
begin
    set local client_min_messages = error;
    for each in select nspname as name from pg_namespace
        where oid > {highest} and nspname !~ '^pg_'
    loop
        execute format('drop schema %I cascade', each.name);
    end loop;
    for each in select extname as name from pg_extension where oid > {highest} loop
        execute format('drop extension %I cascade', each.name);
    end loop;
    for each in select oid, case relkind when 'v' then 'view' when 'm' then 'materialized view'
            when 'f' then 'foreign table' when 'S' then 'sequence' else 'table' end as kind
        from pg_class
        where oid > {highest} and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
            and relnamespace = 'public'::regnamespace
        order by relkind = 'S'  -- most go with their tables
    loop
        if exists (select from pg_class where oid = each.oid) then
            execute format('drop %s %s cascade', each.kind, each.oid::regclass);
        end if;
    end loop;
    for each in select oid from pg_proc
        where oid > {highest} and pronamespace = 'public'::regnamespace
    loop
        if exists (select from pg_proc where oid = each.oid) then
            execute format('drop routine %s cascade', each.oid::regprocedure);
        end if;
    end loop;
    for each in select oid from pg_type
        where oid > {highest} and typnamespace = 'public'::regnamespace and typtype <> 'b'
    loop
        if exists (select from pg_type where oid = each.oid) then
            execute format('drop type %s cascade', each.oid::regtype);
        end if;
    end loop;
end $$
"""

EMPTY = """
do $$
declare
    each record;
begin
    for each in select oid::regclass as name from pg_class where relkind = 'r' and oid > 16383
        and relname <> 'alfred_refs_alembic_version'  -- the revision of the tables
        order by oid desc  -- tables were created after those that they refer to
    loop
        execute 'delete from ' || each.name;
    end loop;
    for each in select relname from pg_class where relkind = 'S' and oid > 16383 loop
        execute 'alter sequence ' || quote_ident(each.relname) || ' restart';
    end loop;
end $$
"""


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Provided]:
    """The PostgreSQL server that the whole run shares."""
    with postgres(os.environ) as provided:
        request.config.stash[SERVERS].add(f"{provided.backend}: {provided.version}")
        yield provided


@pytest.fixture(scope="session")
def administration(server: Provided) -> Iterator[Engine]:
    """An engine in autocommit mode, to create and drop databases."""
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@contextmanager
def database_like(administration: Engine, template: str = "template1") -> Iterator[str]:
    """Create a database, empty or a copy; yield its URL, password included; drop it."""
    name = f"test_{uuid.uuid4().hex}"
    # of more than a few tables, a copy of the files takes half as long as one by the WAL
    strategy = "wal_log" if template == "template1" else "file_copy"
    with administration.connect() as connection:
        connection.exec_driver_sql(
            f"create database {name} template {template} strategy {strategy}"
        )
    try:
        yield administration.url.set(database=name).render_as_string(hide_password=False)
    finally:
        with administration.connect() as connection:
            connection.exec_driver_sql(f"drop database {name} with (force)")


@pytest.fixture
def databases(
    request: pytest.FixtureRequest, prepared: DatabasePool, empty: DatabasePool
) -> DatabasePool:
    """The pool of the test's own database.

    It is empty unless the test uses the fixture `tables` or has the mark of that name.
    """
    has_tables = "tables" in request.fixturenames or request.node.get_closest_marker("tables")
    return prepared if has_tables else empty


@pytest.fixture
def database_url(databases: DatabasePool) -> Iterator[str]:
    """The URL, password included, of the test's own database."""
    with databases.lease() as url:
        yield url


@pytest.fixture(scope="session")
def empty(administration: Engine) -> Iterator[DatabasePool]:
    """Empty databases."""
    with database_pool(administration, lambda _: None) as databases:
        yield databases


@pytest.fixture(scope="session")
def prepared(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the tests' and the registry's tables."""
    with pool_with(Base.metadata, administration) as databases:
        yield databases


@pytest.fixture(scope="session")
def partitioned_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the registry's tables, partitioned by `examples/partitions.sql`."""

    def prepare(url: str) -> None:
        schema.migrate(url)
        partition(url)

    with database_pool(administration, prepare) as databases:
        yield databases


@contextmanager
def pool_with(metadata: MetaData, administration: Engine) -> Iterator[DatabasePool]:
    """Yield a pool of databases with some tables and those of the registry."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            metadata.create_all(connection)
            PostgresStore(connection.engine).create_tables()

    with database_pool(administration, prepare) as databases:
        yield databases


@contextmanager
def database_pool(
    administration: Engine, prepare: Callable[[str], object]
) -> Iterator[DatabasePool]:
    """Yield a pool of copies of a database.

    Args:
        administration: an engine to create databases with.
        prepare: creates the tables in the template with this URL, without rows.
    """
    with ExitStack() as stack:
        template = stack.enter_context(database_like(administration))
        prepare(template)
        yield DatabasePool(administration, template, stack)


class DatabasePool:
    """Copies of a template, each used by one test at a time and emptied afterwards.

    A test may leave anything behind. Objects that it created are dropped. If the catalogue then
    still differs from the template's, the copy is dropped. The pool keeps a connection to each
    copy, named `BETWEEN_TESTS`: with a new one, cleaning takes five times as long. It also keeps
    the server processes of `engine()` for the next test.
    """

    def __init__(self, administration: Engine, template: str, stack: ExitStack) -> None:
        """Take a template's URL, and the stack that drops the copies in the end."""
        self._administration = administration
        self._template = str(make_url(template).database)
        self._stack = stack
        self._kept: dict[str, psycopg.Connection[Any]] = {}
        self._made: dict[str, ExitStack] = {}  # copy -> closing this drops it
        self._backends: dict[str, Backends] = {}
        self._free: list[str] = []
        with client(template) as connection:
            self._catalogue = catalogue(connection)
            self._drop = DROP.format(highest=connection.execute(HIGHEST).fetchone()[0])  # type: ignore[index]

    @contextmanager
    def lease(self) -> Iterator[str]:
        """Yield the URL of a copy with empty tables."""
        url = self._free.pop() if self._free else self._copy()
        yield url
        if self._is_restored(url):
            self._free.append(url)
        else:
            self._made.pop(url).close()

    @contextmanager
    def engine(self, url: str | None = None) -> Iterator[Engine]:
        """Yield an engine on a copy that is leased, or else on one with empty tables."""
        with ExitStack() as stack:
            engine = self._backends[url or stack.enter_context(self.lease())].engine()
            stack.callback(engine.dispose)
            yield engine

    def _copy(self) -> str:
        made = self._stack.enter_context(ExitStack())
        url = made.enter_context(database_like(self._administration, self._template))
        self._made[url] = made
        self._backends[url] = Backends(url)
        made.callback(self._backends[url].close)
        self._connect(url)
        return url

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        self._kept[url] = kept = self._made[url].enter_context(client(url))
        kept.execute(f"set application_name = '{BETWEEN_TESTS}'; set lock_timeout = '5s'")
        return kept

    def _is_restored(self, url: str) -> bool:
        kept = self._kept[url]
        try:
            kept.execute(CUT)
        except psycopg.OperationalError:  # the test has terminated all connections
            kept = self._connect(url)
        try:
            if catalogue(kept) != self._catalogue:
                kept.execute(self._drop)
                kept.execute(f"alter database {make_url(url).database} reset all")
                if catalogue(kept) != self._catalogue:
                    return False
            kept.execute(EMPTY)
        except psycopg.Error:  # an object cannot be dropped, or is locked
            return False
        return True


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Connect to a database in autocommit mode."""
    engine = create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def catalogue(connection: psycopg.Connection[Any]) -> tuple[Any, ...] | None:
    """Return the parts of the catalogue that change with the schema."""
    return connection.execute(CATALOGUE).fetchone()


@pytest.fixture
def engine(databases: DatabasePool, database_url: str) -> Iterator[Engine]:
    """An engine on the test's own database."""
    with databases.engine(database_url) as engine:
        yield engine


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the versions that the tests ran on."""
    terminalreporter.section("what the tests ran on")
    terminalreporter.line(f"SQLAlchemy {sqlalchemy.__version__}")
    servers: set[str] = config.stash[SERVERS]
    for server in sorted(servers):
        terminalreporter.line(server)


class ServersOfWorkers:
    """Collects the servers of the worker processes of `pytest-xdist`."""

    def pytest_testnodedown(self, node: Any) -> None:
        """Add the servers of a worker that has finished."""
        node.config.stash[SERVERS].update(getattr(node, "workeroutput", {}).get("servers", ()))


def pytest_configure(config: pytest.Config) -> None:
    """Register the collector where `pytest-xdist` is installed."""
    config.stash[SERVERS] = set()
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(ServersOfWorkers())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's servers to the controller."""
    if hasattr(session.config, "workeroutput"):
        servers: set[str] = session.config.stash[SERVERS]
        session.config.workeroutput["servers"] = sorted(servers)
