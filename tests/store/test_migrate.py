"""Which URLs the registry's tables are migrated by, and what is said of the others."""

from __future__ import annotations

import traceback

import pytest
from sqlalchemy import text

from alfred_refs.errors import RegistryUnreachableError, SetupError
from alfred_refs.store import schema


@pytest.mark.parametrize(
    ("given", "used"),
    [
        *((f"postgresql{driver}", "psycopg") for driver in ("", "+asyncpg", "+psycopg_async")),
        *(("postgres", "psycopg"), ("postgresql+psycopg2", "psycopg2")),
    ],
)
def test_url_without_blocking_driver_is_taken_as_psycopg(given: str, used: str) -> None:
    """Psycopg 3 connects where the URL names no driver, or one that only asyncio can use."""
    assert str(schema.postgres_url(f"{given}://db/app")) == f"postgresql+{used}://db/app"


@pytest.mark.parametrize(
    "given",
    [
        "me:hunter2",
        "postgresql://me:hunter2",
        "postgresql://me:h@hunter2@db/app",
        "postgresql://me:h@hunter2/@db/app",
        "postgresql+psycopg://me@/app?host=db&port=hunter2",
    ],
)
def test_malformed_url_is_not_repeated(given: str) -> None:
    """What is said of a URL that cannot be read shows no part of it: any may be the password."""
    with pytest.raises(SetupError, match=r"cannot be read; write postgresql://") as raised:
        schema.current(given)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_other_database_is_refused() -> None:
    """The registry is kept in PostgreSQL, and a URL of another database is refused as such."""
    with pytest.raises(SetupError, match="the URL is for 'mysql\\+pymysql'; give a URL that"):
        schema.migrate("mysql+pymysql://me:hunter2@db/app")


@pytest.mark.parametrize("driver", ["nonesuch", "pg8000"])
def test_driver_that_is_not_there_is_named(driver: str) -> None:
    """A driver that SQLAlchemy does not know, or that is not installed, is named."""
    with pytest.raises(SetupError, match=f"'postgresql\\+{driver}' cannot be loaded; pip install"):
        schema.current(f"postgresql+{driver}://me:hunter2@db/app")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "db..example"])
def test_unreachable_database_is_named(host: str) -> None:
    """A server that does not answer, or whose name is none, is a database out of reach."""
    with pytest.raises(RegistryUnreachableError, match="database 'app' cannot be reached"):
        schema.current(f"postgresql://me:hunter2@{host}/app")


def test_unknown_revision_is_refused(database_url: str) -> None:
    """A revision that the scripts do not have leaves the database as it was."""
    with pytest.raises(SetupError, match=r"brought to revision '9999'.*; install a version"):
        schema.migrate(database_url, "9999")
    assert schema.current(database_url) is None


def test_database_of_a_newer_version_is_refused(database_url: str) -> None:
    """A database whose revision the scripts do not have is not migrated."""
    schema.migrate(database_url)
    with schema.connect(database_url) as connection:
        connection.execute(text(f"update {schema.VERSION_TABLE} set version_num = '9999'"))
        connection.commit()
    with pytest.raises(SetupError, match=r"'9999'.*; install a version"):
        schema.migrate(database_url)
    assert schema.current(database_url) == schema.Current("9999", is_applications=False)


def test_missing_scripts_are_an_incomplete_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither a wheel nor a checkout has put the scripts, installing again helps."""
    monkeypatch.setattr(schema, "_PLACES", ())
    with pytest.raises(SetupError, match="scripts are missing; install alfred-refs again"):
        schema.scripts()
