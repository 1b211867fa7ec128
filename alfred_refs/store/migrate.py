"""The registry's tables in a database, brought up to date by Alembic.

A URL comes in, a revision goes out; no `alembic.ini` is needed. The scripts are `alembic/` in a
checkout and `store/migrations` in the wheel. Nothing here touches other tables, or repeats a
URL, which may hold a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from alfred_refs.errors import RegistryMigrationError, RegistryUnreachableError, SetupError

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import Script

VERSION_TABLE = "alfred_refs_alembic_version"
"""Where the revision is noted: not `alembic_version`, which is the application's.

Tables are ours to migrate where it has one. Those that an application's own environment has made
from `registry.metadata` are the application's.
"""

_PACKAGE = Path(__file__).parent
# the wheel first: beside an installed package, `alembic` is the library
_PLACES = (_PACKAGE / "migrations", _PACKAGE.parent.parent / "alembic")

_PSYCOPG = "postgresql+psycopg"
# without a driver, or with one that only asyncio can wait for
_BY_PSYCOPG = {"postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg_async"}


def migrate(url: str | URL, revision: str = "head") -> str | None:
    """Create the registry's tables, or bring them up to `revision`.

    All is done in one transaction, and by one process at a time. Tables made by
    `RefRegistry.create_tables()` are taken over with what is in them. `postgresql://` without a
    driver is taken as psycopg 3. The revision that the tables are at now is returned.

    Raises:
        SetupError: the URL is not one of PostgreSQL, or there is no such revision.
        RegistryMigrationError: the application's own Alembic environment has made the tables.
        RegistryUnreachableError: the database cannot be reached.
    """
    from alembic import command  # noqa: PLC0415  # slow to import: not for who only connects
    from alembic.util import CommandError  # noqa: PLC0415

    with connect(url) as connection:
        try:
            command.upgrade(configuration(connection), revision)
        except CommandError as error:
            raise SetupError(
                f"the tables cannot be brought to revision {revision!r}: {error}",
                "install a version of alfred_refs that has the revision",
            ) from error
        return noted(connection)


@dataclass(frozen=True, slots=True)
class Current:
    """What a database has of the registry's tables.

    Attributes:
        revision: which of our revisions they are at.
        is_applications: whether the application's own Alembic environment migrates them; if not,
            `alfred-refs migrate` does.
    """

    revision: str
    is_applications: bool


def current(url: str | URL) -> Current | None:
    """Tell what the registry's tables are at, and who migrates them; `None`: there are none."""
    with connect(url) as connection:
        ours = noted(connection)
        revision = ours or made(connection)
        return None if revision is None else Current(revision, is_applications=ours is None)


def noted(connection: Connection, schema: str | None = None) -> str | None:
    """Return the revision of tables that are ours to migrate; `None`: there are none."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    options = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def made(connection: Connection, schema: str | None = None) -> str | None:
    """Return the revision that the tables themselves show, whoever has made them."""
    inspector = inspect(connection)
    for script in reversed(revisions()):
        table, column = script.module.adds
        if inspector.has_table(table, schema) and column in {
            found["name"] for found in inspector.get_columns(table, schema)
        }:
            return script.revision
    return None


def note_newest(connection: Connection) -> None:
    """Note that tables which were just made are ours to migrate."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    options = {"version_table": VERSION_TABLE}
    context = MigrationContext.configure(connection, opts=options)
    context.stamp(ScriptDirectory(str(scripts())), "head")


def check_ours(connection: Connection) -> None:
    """Refuse to migrate tables that the application's own Alembic environment has made."""
    revision = made(connection)
    if revision is not None and noted(connection) is None:
        raise RegistryMigrationError(
            "`alfred-refs migrate` did not make the registry's tables, which leaves them to the "
            "application's own Alembic environment",
            "upgrade that; or hand them over, by a revision of yours that calls "
            f"alfred_refs.store.alembic.hand_over({revision!r})",
        )


def revisions() -> list[Script]:
    """Return our revisions, the first one first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return [*ScriptDirectory(str(scripts())).walk_revisions()][::-1]


def configuration(connection: Connection) -> Config:
    """Return what Alembic's own commands need to work on `connection`."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    # the configuration's parser would interpolate a lone percent sign
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def scripts() -> Path:
    """Return the directory of the migration scripts."""
    for place in _PLACES:
        if (place / "env.py").is_file():
            return place
    raise SetupError("the migration scripts are missing", "install alfred-refs again")


@contextmanager
def connect(url: str | URL) -> Iterator[Connection]:
    """Connect to the database at `url` for as long as the `with` lasts.

    Raises:
        SetupError: the URL is not one of PostgreSQL, or its driver is not installed.
        RegistryUnreachableError: the database cannot be reached.
    """
    url = postgres_url(url)
    try:
        connection = engine_for(url, poolclass=NullPool).connect()
    # ValueError: what psycopg lets through for a host such as "db..example"
    except (DBAPIError, ValueError) as error:
        raise RegistryUnreachableError(url.database or "") from error
    with connection:
        yield connection


def engine_for(url: str | URL, **options: Any) -> Engine:
    """Return an engine on the database at `url`, which hides parameters.

    Raises:
        SetupError: the URL is not one of PostgreSQL, or its driver is not installed.
    """
    url = postgres_url(url)
    try:
        return create_engine(url, hide_parameters=True, **options)
    except (ImportError, NoSuchModuleError) as error:
        raise SetupError(
            f"the driver of {url.drivername!r} cannot be loaded",
            "pip install 'psycopg[binary]', and let the URL start with postgresql://",
        ) from error
    except ArgumentError:
        raise _malformed() from None


def postgres_url(url: str | URL) -> URL:
    """Return a URL with the driver that migrations connect with.

    That is the one it names, or psycopg 3 if it names none, or one that only asyncio can use.

    Raises:
        SetupError: it is not a URL of PostgreSQL; the message does not repeat it.
    """
    try:
        url = make_url(url)
    # ValueError: what follows the last colon is not a port, but perhaps a password
    except (ArgumentError, ValueError):
        raise _malformed() from None
    # an @ that was not encoded: the rest of the password would pass for the host
    if "@" in f"{url.host}{url.database}":
        raise _malformed()
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise SetupError(
            f"the registry is kept in PostgreSQL, and the URL is one of {url.drivername!r}",
            "give a URL that starts with postgresql://",
        )
    return url.set(drivername=_PSYCOPG) if url.drivername in _BY_PSYCOPG else url


def _malformed() -> SetupError:
    return SetupError(
        "the database's URL cannot be read",
        "write postgresql://user:password@host:port/database, with @, : and / in user and "
        "password percent-encoded",
    )
