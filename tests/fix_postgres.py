"""Fixtures: a PostgreSQL server for the session, an empty database for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import Connection, Engine, create_engine, make_url

from alfred_refs import PostgresStore
from alfred_refs.store import schema
from tests.explain import client
from tests.models import Base
from tests.partitions import partition
from tests.postgres.provider import Provided, postgres

SERVERS = pytest.StashKey[set[str]]()

BETWEEN_TESTS = "between tests"

CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)

# copies keep the object identifiers of their template
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

# what was made in a copy has a higher identifier than all that its template has; what goes along
# with something else is not there any more when its turn comes
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
        and relname <> 'alfred_refs_alembic_version'  -- says that the tables are as they were made
        order by oid desc  -- tables that refer to others were made after them
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
    """An engine that makes and drops databases, which is done outside a transaction."""
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@contextmanager
def database_like(administration: Engine, template: str = "template1") -> Iterator[str]:
    """Make a database, empty or a copy of another, yield its URL, password included, drop it."""
    name = f"test_{uuid.uuid4().hex}"
    with administration.connect() as connection:
        connection.exec_driver_sql(f"create database {name} template {template}")
    try:
        yield administration.url.set(database=name).render_as_string(hide_password=False)
    finally:
        with administration.connect() as connection:
            connection.exec_driver_sql(f"drop database {name} with (force)")


@pytest.fixture
def database_url(
    request: pytest.FixtureRequest, prepared: PreparedDatabases, empty: PreparedDatabases
) -> Iterator[str]:
    """The URL, password included, of a database that is the test's alone.

    It is empty, unless the test asks for `tables`, or is marked so.
    """
    has_tables = "tables" in request.fixturenames or request.node.get_closest_marker("tables")
    with (prepared if has_tables else empty).lent() as url:
        yield url


@pytest.fixture(scope="session")
def empty(administration: Engine) -> Iterator[PreparedDatabases]:
    """Databases with nothing."""
    with databases_prepared(administration, lambda _: None) as databases:
        yield databases


@pytest.fixture(scope="session")
def prepared(administration: Engine) -> Iterator[PreparedDatabases]:
    """Databases with the tests' and the registry's tables."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            Base.metadata.create_all(connection)
            PostgresStore(connection.engine).create_tables()

    with databases_prepared(administration, prepare) as databases:
        yield databases


@pytest.fixture(scope="session")
def partitioned_databases(administration: Engine) -> Iterator[PreparedDatabases]:
    """Databases with the registry's tables alone, partitioned as `docs/registry.md` tells how."""

    def prepare(url: str) -> None:
        schema.migrate(url)
        partition(url)

    with databases_prepared(administration, prepare) as databases:
        yield databases


@contextmanager
def databases_prepared(
    administration: Engine, prepare: Callable[[str], object]
) -> Iterator[PreparedDatabases]:
    """Yield databases that have what is made once, lent to one test after the other.

    Args:
        administration: where databases are made.
        prepare: makes the tables in the database of a URL, and leaves no row in them.
    """
    with ExitStack() as stack:
        template = stack.enter_context(database_like(administration))
        prepare(template)
        yield PreparedDatabases(administration, template, stack)


class PreparedDatabases:
    """Copies of a template, which are emptied and lent again: making one takes longer than a test.

    A test may leave anything behind: what it made is dropped. What else it did to the catalogue is
    found by comparing it with the template's; such a copy is dropped. Each copy keeps a connection
    of ours, named `BETWEEN_TESTS`: on a new one the same takes five times as long.
    """

    def __init__(self, administration: Engine, template: str, stack: ExitStack) -> None:
        """Take a template's URL, and what drops the copies in the end."""
        self._administration = administration
        self._template = str(make_url(template).database)
        self._stack = stack
        self._kept: dict[str, psycopg.Connection[Any]] = {}
        self._made: dict[str, ExitStack] = {}  # closed, it drops the copy
        self._free: list[str] = []
        with client(template) as connection:
            self._catalogue = catalogue(connection)
            self._drop = DROP.format(highest=connection.execute(HIGHEST).fetchone()[0])  # type: ignore[index]

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Yield the URL of a copy whose tables are empty."""
        url = self._free.pop() if self._free else self._copy()
        yield url
        if self._is_restored(url):
            self._free.append(url)
        else:
            self._made.pop(url).close()

    def _copy(self) -> str:
        made = self._stack.enter_context(ExitStack())
        url = made.enter_context(database_like(self._administration, self._template))
        self._made[url] = made
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
        except psycopg.OperationalError:  # the test has cut all connections
            kept = self._connect(url)
        try:
            if catalogue(kept) != self._catalogue:
                kept.execute(self._drop)
                kept.execute(f"alter database {make_url(url).database} reset all")
                if catalogue(kept) != self._catalogue:
                    return False
            kept.execute(EMPTY)
        except psycopg.Error:  # what is there cannot be dropped, or is locked
            return False
        return True


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Connect to a database, each statement a transaction of its own."""
    engine = create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def catalogue(connection: psycopg.Connection[Any]) -> tuple[Any, ...] | None:
    """Return what tells whether somebody changed more than rows."""
    return connection.execute(CATALOGUE).fetchone()


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on the test's own empty database."""
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the tests ran on."""
    terminalreporter.section("what the tests ran on")
    terminalreporter.line(f"SQLAlchemy {sqlalchemy.__version__}")
    servers: set[str] = config.stash[SERVERS]
    for server in sorted(servers):
        terminalreporter.line(server)


class ServersOfWorkers:
    """Hands on what the tests ran on from the processes that ran them, of `pytest-xdist`."""

    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a process says as it ends."""
        node.config.stash[SERVERS].update(getattr(node, "workeroutput", {}).get("servers", ()))


def pytest_configure(config: pytest.Config) -> None:
    """Listen to other processes, if there may be any."""
    config.stash[SERVERS] = set()
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(ServersOfWorkers())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that began this one."""
    if hasattr(session.config, "workeroutput"):
        servers: set[str] = session.config.stash[SERVERS]
        session.config.workeroutput["servers"] = sorted(servers)
