"""Registry schema: tables, migrations.

The registry's tables. `alembic/` makes them; `alembic check` keeps the two the same.

Every key and index starts with the conversation, so that the tables can be partitioned by it.
A conversation that is forgotten leaves its counters behind: a digest, names of entities and
numbers, so that no number is ever given to another row or draft.
In the mappings, of which there are very many, two bytes stand for the entity: its kind, which the
conversation's counters name. A name of any length weighs nothing there.
There is no foreign key between them: PostgreSQL would check it for each row that is minted, and
the conversation's row is locked, hence present, while any is.

The registry's tables in a database, brought up to date by Alembic.

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

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    DateTime,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    NullPool,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    create_engine,
    func,
    inspect,
    make_url,
    text,
)
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from alfred_refs.errors import RegistryMigrationError, RegistryUnreachableError, SetupError

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import Script


metadata = MetaData()

conversations = Table(
    "alfred_refs_conversation",
    metadata,
    Column("conversation", Uuid, primary_key=True, comment="digest of the id"),
    Column("id", Text, nullable=False),
    Column("owner", Text, comment="null: a conversation without owner"),
    Column("turn", Integer, nullable=False, server_default=text("0")),
    Column("begun_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("used_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    comment="conversations; the row is the lock under which refs are numbered",
)

counters = Table(
    "alfred_refs_counter",
    metadata,
    Column("conversation", Uuid, primary_key=True),
    Column("entity", Text, primary_key=True),
    Column("last", Integer, nullable=False, comment="the highest number ever given"),
    Column(
        "forgotten",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="how many of the numbers have no mapping any more",
    ),
    Column(
        "left_at",
        DateTime(timezone=True),
        comment="when its conversation was forgotten; null: in use since",
    ),
    Column(
        "kind",
        SmallInteger,
        nullable=False,
        comment="what stands for the entity in this conversation's mappings; never changes",
    ),
    Column(
        "drafts",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="the highest number ever given to a draft",
    ),
    Column(
        "table_name",
        Text,
        comment="whose rows the refs are of, with its schema; null: not known",
    ),
    UniqueConstraint("conversation", "kind", name="alfred_refs_counter_kind"),
    comment="the highest number of each entity: never falls, so no number is given twice",
)

# The columns are in an order that leaves nothing to pad.
mappings = Table(
    "alfred_refs_mapping",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column("key", LargeBinary, nullable=False, comment="u, i, s or t, then the key's bytes"),
    Column("gone", Text, comment="why the row is not there; null: it may be"),
    Column("label", Text, comment="what people call the row; null: not known"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    UniqueConstraint("conversation", "kind", "key", name="alfred_refs_mapping_key"),
    comment="refs and their keys; conversation, kind, number and key never change",
)

# Few and large, where mappings are many and small. `json`, because `jsonb` would give back other
# values than it was given: 1e22 as an integer, and fields in another order.
drafts = Table(
    "alfred_refs_draft",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("turn", Integer, nullable=False, comment="in which it was generated"),
    Column("edited", Integer, nullable=False, comment="the turn of its last edit"),
    Column("version", Integer, nullable=False, comment="1, and one more with each edit"),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column("state", Text, nullable=False, comment="pending, saved or discarded"),
    Column("content", JSON, nullable=False, comment="what was generated; refs, never keys"),
    Column("label", Text, comment="what people are to call the row; null: not known"),
    Column("key", LargeBinary, comment="of its row, as in mappings; null: none is reserved"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    # of reserved ones alone: nobody reads by it, and a server without statistics would do so
    Index(
        "alfred_refs_draft_key",
        *("conversation", "kind", "key"),
        unique=True,
        postgresql_where=text("key IS NOT NULL"),
    ),
    comment="content that was generated; once reserved a key never changes",
)

# The order of fields in a snapshot is that in which a model saw them: hence `json`.
activity = Table(
    "alfred_refs_activity",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("first_turn", Integer, nullable=False, comment="of the first action"),
    Column("last_turn", Integer, nullable=False, comment="of the last action"),
    Column("seen_turn", Integer, comment="when a model was last shown the row; null: never"),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column(
        "demoted",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="left out of prompts until something is done with it again",
    ),
    Column("action", Text, nullable=False, comment="the last one"),
    Column("actor", Text, nullable=False, comment="model or user: who did it"),
    Column("reason", Text, comment="why the ref is retained; null: it is not"),
    Column("content", JSON, comment="what a model was shown of the row; refs, never keys"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    Index("alfred_refs_activity_turn", "conversation", "last_turn"),
    Index(
        "alfred_refs_activity_retained",
        *("conversation", "last_turn"),
        postgresql_where=text("reason IS NOT NULL"),
    ),
    Index(
        "alfred_refs_activity_seen",
        *("conversation", "seen_turn"),
        postgresql_where=text("content IS NOT NULL"),
    ),
    comment="what was done last with the rows of refs, and what a model saw of them",
)

steps = Table(
    "alfred_refs_step",
    metadata,
    Column("conversation", Uuid, primary_key=True),
    Column("turn", Integer, primary_key=True),
    Column("number", Integer, primary_key=True, comment="in its turn, from 1"),
    Column("content", JSON, nullable=False, comment="what a step did and noted; refs, never keys"),
    comment="what the steps of agents left, for some turns",
)


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
        return current_revision(connection)


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
        ours = current_revision(connection)
        revision = ours or revision_of_tables(connection)
        return None if revision is None else Current(revision, is_applications=ours is None)


def current_revision(connection: Connection, schema: str | None = None) -> str | None:
    """Return the revision of tables that are ours to migrate; `None`: there are none."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    options = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def revision_of_tables(connection: Connection, schema: str | None = None) -> str | None:
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
    revision = revision_of_tables(connection)
    if revision is not None and current_revision(connection) is None:
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
        raise _invalid_version_table() from None


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
        raise _invalid_version_table() from None
    # an @ that was not encoded: the rest of the password would pass for the host
    if "@" in f"{url.host}{url.database}":
        raise _invalid_version_table()
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise SetupError(
            f"the registry is kept in PostgreSQL, and the URL is one of {url.drivername!r}",
            "give a URL that starts with postgresql://",
        )
    return url.set(drivername=_PSYCOPG) if url.drivername in _BY_PSYCOPG else url


def _invalid_version_table() -> SetupError:
    return SetupError(
        "the database's URL cannot be read",
        "write postgresql://user:password@host:port/database, with @, : and / in user and "
        "password percent-encoded",
    )
