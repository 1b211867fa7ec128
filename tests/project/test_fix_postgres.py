"""The fixtures keep their promises."""

from __future__ import annotations

from sqlalchemy import Engine, inspect, make_url, text

from tests.postgres.provider import Provided


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
