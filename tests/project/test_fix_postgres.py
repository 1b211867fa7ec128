"""The fixtures of `fix_postgres`: empty databases, whatever a test leaves behind."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, inspect, make_url, text

from tests.fix_postgres import DatabasePool, connected
from tests.postgres.provider import Provided

COLUMNS = text(
    "select table_schema, table_name, column_name, column_default, udt_name, is_nullable "
    "from information_schema.columns "
    "where table_schema not in ('pg_catalog', 'information_schema') order by 1, 2, 3"
)


def test_database_is_empty_and_its_own(engine: Engine, server: Provided) -> None:
    """A test's database has no tables, and is not the server's own."""
    assert inspect(engine).get_table_names() == []
    assert engine.url.database != server.url.database


def test_url_names_the_driver(database_url: str) -> None:
    """The URL says psycopg, because without a driver SQLAlchemy 2.0 takes psycopg2."""
    assert make_url(database_url).drivername == "postgresql+psycopg"


def test_server_allows_two_phase_commit(engine: Engine) -> None:
    """Two-phase commits, which PostgreSQL has switched off by default, are possible."""
    with engine.connect() as connection:
        assert int(connection.scalar(text("show max_prepared_transactions"))) > 0


LEFT = """
set work_mem = '1MB'; set search_path = pg_catalog; listen news; select pg_advisory_lock(1);
create temporary table left_behind (id int); prepare left_behind as select 1
"""

FOUND = """
select current_setting('work_mem'), current_setting('search_path'),
    current_setting('application_name'), (select count(*) from pg_prepared_statements),
    (select count(*) from pg_locks where locktype = 'advisory'), to_regclass('left_behind'),
    (select count(*) from pg_listening_channels())
"""


@pytest.mark.parametrize("end", ["commit", "rollback", "in a transaction", "in an error"])
def test_a_server_process_forgets_what_its_last_connection_did(
    empty: DatabasePool, end: str
) -> None:
    """The next connection, of another engine, has the process, and nothing else of the last."""
    with empty.lease() as url:
        with empty.engine(url) as engine, engine.connect() as connection:
            found = connection.execute(text(FOUND)).one()
            connection.commit()
            driver: Any = connection.connection.driver_connection
            process = driver.info.backend_pid
            driver.execute(LEFT)
            if end in {"commit", "rollback"}:
                getattr(driver, end)()
            elif end == "in an error":
                with pytest.raises(psycopg.Error):
                    driver.execute("select 1 / 0")
            connection.detach()
            driver.close()
        assert driver.closed
        with pytest.raises(psycopg.OperationalError):
            driver.execute("select 1")
        with empty.engine(url) as engine, engine.connect() as connection:
            assert connection.scalar(text("select pg_backend_pid()")) == process
            assert connection.execute(text(FOUND)).one() == found


def test_a_server_process_that_has_ended_is_not_used_again(empty: DatabasePool) -> None:
    """The next connection has another one."""
    with empty.lease() as url:
        with empty.engine(url) as engine, engine.connect() as connection:
            process = connection.scalar(text("select pg_backend_pid()"))
        with connected(url) as other:
            other.execute(
                text("select pg_terminate_backend(:process, 5000)"), {"process": process}
            )
        with empty.engine(url) as engine, engine.connect() as connection:
            assert connection.scalar(text("select pg_backend_pid()")) != process


@pytest.mark.parametrize(
    "left",
    [
        "create table own (id serial primary key, next int references own)",
        "create schema own; create table own.rows (id int); set search_path = own",
        "create view own as select * from recipes; create materialized view kept as select 1",
        "create type own as enum ('a'); alter table recipes add column own own",
        (
            "create function own() returns uuid language sql as 'select gen_random_uuid()'; "
            "alter table recipes alter id set default own()"
        ),
        (
            "create function own() returns trigger language plpgsql as 'begin return null; end'; "
            "create trigger own before insert on recipes for each row execute function own()"
        ),
        "alter table recipes alter name drop not null, alter name type varchar(9)",
        "alter table recipes enable row level security",
        "drop table recipes cascade",
        (
            "do $$ begin "
            "execute format('alter database %%I set work_mem = 64', current_database()); end $$"
        ),
    ],
)
def test_what_a_test_leaves_behind_no_other_finds(prepared: DatabasePool, left: str) -> None:
    """The next test finds the tables of the template, and nothing else."""
    with prepared.lease() as url, connected(url) as connection:
        made = connection.execute(COLUMNS).all()
        memory = connection.scalar(text("show work_mem"))
        connection.exec_driver_sql(left)
        connection.exec_driver_sql("reset search_path")
        connection.execute(text("create table beside as select 1 as x"))
    with prepared.lease() as url, connected(url) as connection:
        assert connection.execute(COLUMNS).all() == made
        assert connection.scalar(text("show work_mem")) == memory
        connection.execute(text("insert into recipes (id, name) values (gen_random_uuid(), 'x')"))
        assert connection.scalar(text("select count(*) from recipes")) == 1
        assert connection.scalar(text("select count(*) from pg_proc where proname = 'own'")) == 0
        assert connection.scalar(text("select count(*) from pg_class where relrowsecurity")) == 0
