"""Alembic environment: for the `alembic` command, and for `alfred_refs.store.schema`.

The database is the first of: `config.attributes["connection"]` (a `Connection`),
`config.attributes["url"]`, `-x url=URL`, `ALFRED_REFS_DATABASE_URL`, `DATABASE_URL`. Offline
(`--sql`) needs none. Tables that are not the registry's are neither read nor changed.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

from alembic import context
from alembic.util import CommandError
from sqlalchemy import URL, Connection, func, select

from alfred_refs.errors import SetupError
from alfred_refs.store import schema
from alfred_refs.store.schema import metadata

VARIABLES = ("ALFRED_REFS_DATABASE_URL", "DATABASE_URL")

# the advisory lock: the same number in every version of the package, and in no other program
LOCK = zlib.crc32(schema.VERSION_TABLE.encode())


def run() -> None:
    """Run the migrations, offline or on a database.

    Raises:
        CommandError: there is no database, or it cannot be used. The `alembic` command prints this
            on one line.
    """
    connection = context.config.attributes.get("connection")
    if context.is_offline_mode():
        offline()
    elif connection is not None:
        online(connection)
    else:
        try:
            with schema.connect(url()) as connection:
                online(connection)
        except SetupError as error:
            raise CommandError(str(error)) from error


def offline() -> None:
    """Print the SQL instead of executing it."""
    configure(dialect_name="postgresql", literal_binds=True, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        context.run_migrations()


def online(connection: Connection) -> None:
    """Migrate in one transaction on `connection`, one process at a time."""
    configure(connection=connection)
    with context.begin_transaction():
        # replicas that start at the same time all migrate: the second waits, and has nothing to do
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
        schema.check_ours(connection)
        context.run_migrations()


def configure(**where: Any) -> None:
    """Configure the context with `where`, for the registry's tables only."""
    context.configure(
        **where,
        target_metadata=metadata,
        version_table=schema.VERSION_TABLE,
        include_name=is_ours,
        compare_type=True,
        compare_server_default=True,
    )


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Return whether an object of the database is compared: of tables, only the registry's."""
    return kind != "table" or name in metadata.tables


def url() -> str | URL:
    """Return the URL from the configuration, the command line or the environment.

    Raises:
        SetupError: there is none.
    """
    candidates = [
        context.config.attributes.get("url"),
        context.get_x_argument(as_dictionary=True).get("url"),
        *map(os.environ.get, VARIABLES),
    ]
    for candidate in candidates:
        if candidate:
            return candidate
    raise SetupError(
        "there is no database to migrate",
        f"give -x url=URL, or set {' or '.join(VARIABLES)}",
    )


run()
