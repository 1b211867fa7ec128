"""The registry's tables, and how Alembic migrates them.

`metadata` has the tables; the scripts in `alembic/` create and change them, and `alembic check`
verifies that the two agree. `migrate` runs the scripts on a database, given its URL alone: no
`alembic.ini` is needed. The scripts are in `alembic/` of a checkout, and in `store/migrations` of
the wheel.

>>> sorted(metadata.tables)[:3]
['alfred_refs_activity', 'alfred_refs_call', 'alfred_refs_change']
>>> with engine.connect() as connection:
...     current_revision(connection) == revisions()[-1].revision
True

Reasons for the form of the tables:

- every primary key starts with the conversation, so that the tables can be partitioned by it;
- in the mappings, by far the largest table, two bytes identify the entity: its kind, which the
  conversation's counters map to a name;
- a conversation that is forgotten leaves its counters behind (a digest, names of entities and
  numbers), so that no number is ever assigned to another row or draft;
- foreign keys are left out: PostgreSQL would check them for each ref that is minted, and the row
  of the conversation is locked, hence present, meanwhile.

A migration is one transaction, and one process migrates at a time. The revision is stored in a
version table of the registry's own. If that is missing although the tables exist, an application's
own Alembic environment made them, and `migrate` refuses to change them.

Limits: no other tables are read or changed, and a URL, which may contain a password, is never
repeated in a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    URL,
    Boolean,
    Column,
    Connection,
    DateTime,
    Double,
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

# Tables. Comments are part of the schema: changing one takes a migration.

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

# The order of the columns leaves no padding between them on disk.
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

# Content is `json`, because `jsonb` does not keep the text: 1e22 becomes an integer, and
# fields in another order.
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
    # Only of reserved keys: nothing reads by this index, but a server without statistics would
    # choose it.
    Index(
        "alfred_refs_draft_key",
        "conversation",
        "kind",
        "key",
        unique=True,
        postgresql_where=text("key IS NOT NULL"),
    ),
    comment="content that was generated; once reserved a key never changes",
)

activity = Table(
    "alfred_refs_activity",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("first_turn", Integer, nullable=False, comment="of the first action"),
    Column("last_turn", Integer, nullable=False, comment="of the last action"),
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
    Column("fields", ARRAY(Text), comment="columns and relationships that a model was shown"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    Index("alfred_refs_activity_turn", "conversation", "last_turn"),
    Index(
        "alfred_refs_activity_retained",
        "conversation",
        "last_turn",
        postgresql_where=text("reason IS NOT NULL"),
    ),
    comment="what was done last with the rows of refs, and which fields a model saw",
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

# The order of the columns leaves no padding between them on disk.
calls = Table(
    "alfred_refs_call",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False, comment="1, 2, ... in the conversation"),
    Column("turn", Integer, nullable=False, comment="in which it was called"),
    Column("asked_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("decided_at", DateTime(timezone=True), comment="when it stopped waiting, or was done"),
    Column("expires_at", DateTime(timezone=True), comment="null: it waits for ever"),
    Column("seconds", Double, comment="how long it took"),
    Column("undoes", Integer, comment="the number of the call that it undoes"),
    Column("tool", Text, nullable=False),
    Column(
        "state",
        Text,
        nullable=False,
        comment="waiting, doing, done, rejected or expired; waiting is expired after expires_at",
    ),
    Column("actor", Text, nullable=False, comment="model or user: who called it"),
    Column("acting_user", Text, comment="on whose behalf; null: not known"),
    Column("call_id", Text, comment="the id that the framework gave it; null: none"),
    Column("decided_by", Text, comment="who decided; null: nobody"),
    Column("reason", Text, comment="why it was rejected"),
    Column("token", Text, comment="what binds a decision to the plan"),
    Column("arguments", JSON, comment="refs, never keys; null: deleted by age, or erased"),
    Column("plan", JSON, comment="what it would change; refs, never keys"),
    Column("answer", JSON, comment="what it returned; refs, never keys"),
    PrimaryKeyConstraint("conversation", "number"),
    Index(
        "alfred_refs_call_id",
        "conversation",
        "call_id",
        unique=True,
        postgresql_where=text("call_id IS NOT NULL"),
    ),
    # of all conversations, the oldest first
    Index("alfred_refs_call_waiting", "asked_at", postgresql_where=text("state = 'waiting'")),
    comment="calls of tools that changed rows, or wait for a decision",
)

changes = Table(
    "alfred_refs_change",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("call", Integer, nullable=False, comment="the number of the call"),
    Column("place", Integer, nullable=False, comment="in the call"),
    Column("table_name", Text, nullable=False, comment="of the row, with its schema"),
    Column("ref", Text, comment="of the row; null: it has none"),
    Column("label", Text, comment="what people called the row; null: not known, or deleted"),
    Column("action", Text, nullable=False, comment="created, updated or deleted"),
    Column("key", JSON, nullable=False, comment="the primary key of the row, by column"),
    Column("before", JSON, comment="values before the call; null: a new row, or deleted by age"),
    Column("after", JSON, comment="values after it; null: a deleted row, or deleted by age"),
    PrimaryKeyConstraint("conversation", "call", "place"),
    Index(
        "alfred_refs_change_ref",
        "conversation",
        "ref",
        postgresql_where=text("ref IS NOT NULL"),
    ),
    comment="rows that calls changed",
)

# Migrations

VERSION_TABLE = "alfred_refs_alembic_version"
"""The table with the registry's revision; `alembic_version` is the application's.

If it has a row, `migrate` owns the tables. Otherwise the application's own Alembic environment has
created them from `registry.metadata`.
"""

_PACKAGE = Path(__file__).parent
# The wheel's first: next to an installed package, `alembic` is the library of that name.
_PLACES = (_PACKAGE / "migrations", _PACKAGE.parent.parent / "alembic")

_PSYCOPG = "postgresql+psycopg"
# URLs without a driver, or with an asynchronous one, are opened with psycopg.
_WITHOUT_SYNC_DRIVER = {"postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg_async"}


def migrate(url: str | URL, revision: str = "head") -> str | None:
    """Create the registry's tables, or upgrade them to `revision`; return their revision.

    It is one transaction, and waits for other processes that migrate. Tables that
    `RefRegistry.create_tables()` has made are upgraded with their rows. A URL without a driver
    means psycopg 3.

    Raises:
        SetupError: the URL is not one of PostgreSQL, or the revision is unknown.
        RegistryMigrationError: the application's own Alembic environment has made the tables.
        RegistryUnreachableError: the database cannot be reached.
    """
    from alembic import command  # noqa: PLC0415  # slow to import
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
    """The state of the registry's tables in a database.

    Attributes:
        revision: their revision, one of the registry's.
        is_applications: whether the application's own Alembic environment migrates them; if not,
            `alfred-refs migrate` does.
    """

    revision: str
    is_applications: bool


def current(url: str | URL) -> Current | None:
    """Return the state of the registry's tables, or `None` before they exist."""
    with connect(url) as connection:
        ours = current_revision(connection)
        revision = ours or revision_of_tables(connection)
        return None if revision is None else Current(revision, is_applications=ours is None)


def current_revision(connection: Connection, schema: str | None = None) -> str | None:
    """Return the revision in the version table; `None` if `migrate` does not own the tables."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    options = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def revision_of_tables(connection: Connection, schema: str | None = None) -> str | None:
    """Derive the revision from the columns that the tables have; `None` if there are none."""
    inspector = inspect(connection)
    for script in reversed(revisions()):
        table, column = script.module.adds
        if inspector.has_table(table, schema) and column in {
            found["name"] for found in inspector.get_columns(table, schema)
        }:
            return script.revision
    return None


def stamp_newest(connection: Connection) -> None:
    """Stamp tables that were just created with the newest revision."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    options = {"version_table": VERSION_TABLE}
    context = MigrationContext.configure(connection, opts=options)
    context.stamp(ScriptDirectory(str(scripts())), "head")


def check_ours(connection: Connection) -> None:
    """Raise `RegistryMigrationError` for tables of the application's own Alembic environment."""
    revision = revision_of_tables(connection)
    if revision is not None and current_revision(connection) is None:
        raise RegistryMigrationError(
            "`alfred-refs migrate` did not make the registry's tables, which leaves them to the "
            "application's own Alembic environment",
            "upgrade that; or hand them over, by a revision of yours that calls "
            f"alfred_refs.store.alembic.hand_over({revision!r})",
        )


def revisions() -> list[Script]:
    """Return the registry's revisions, the first one first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return [*ScriptDirectory(str(scripts())).walk_revisions()][::-1]


def configuration(connection: Connection) -> Config:
    """Return the configuration with which Alembic's commands run on `connection`."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    # the parser of the configuration interpolates percent signs
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
    """Connect to the database at `url`, and close the connection at the end of the `with`.

    Raises:
        SetupError: the URL is not one of PostgreSQL, or its driver is not installed.
        RegistryUnreachableError: the database cannot be reached.
    """
    url = postgres_url(url)
    try:
        connection = engine_for(url, poolclass=NullPool).connect()
    # psycopg does not catch the ValueError that Python raises for a host such as "db..example"
    except (DBAPIError, ValueError) as error:
        raise RegistryUnreachableError(url.database or "") from error
    with connection:
        yield connection


def engine_for(url: str | URL, **options: Any) -> Engine:
    """Create an engine for the database at `url`, with parameters hidden in logs.

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
        raise _invalid_url() from None


def postgres_url(url: str | URL) -> URL:
    """Return a URL with its synchronous driver, or else with psycopg 3.

    Raises:
        SetupError: it is not a URL of PostgreSQL. The message does not repeat it.
    """
    try:
        url = make_url(url)
    # ValueError: the text after the last colon is not a port, and may be a password
    except (ArgumentError, ValueError):
        raise _invalid_url() from None
    # with an @ that was not encoded, the rest of the password is parsed as the host
    if "@" in f"{url.host}{url.database}":
        raise _invalid_url()
    if url.get_backend_name() not in ("postgres", "postgresql"):
        raise SetupError(
            f"the registry needs PostgreSQL, but the URL is for {url.drivername!r}",
            "give a URL that starts with postgresql://",
        )
    return url.set(drivername=_PSYCOPG) if url.drivername in _WITHOUT_SYNC_DRIVER else url


def _invalid_url() -> SetupError:
    return SetupError(
        "the database's URL cannot be read",
        "write postgresql://user:password@host:port/database, with @, : and / in user and "
        "password percent-encoded",
    )
