"""An application's own Alembic environment beside the registry's migrations, or in their place.

Tests with `older` start from tables of several revisions, with rows in them; tests with `place`,
from tables in the application's schema and from tables in another one.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import CommandLine, Config
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, text
from sqlalchemy.exc import ProgrammingError

from alfred_refs import PostgresStore, RefRegistry, RegistryMigrationError
from alfred_refs.store import Address, NewDraft, schema
from alfred_refs.store.alembic import include_name
from tests.application import (
    BETWEEN,
    BY_ITSELF,
    BY_THE_COMMAND,
    IN_A_SCHEMA,
    Application,
    programs,
)
from tests.explain import client
from tests.fix_postgres import database_like
from tests.partitions import partition
from tests.store.revisions import NEWEST, REVISIONS

OURS = schema.Current(NEWEST, is_applications=False)
THEIRS = schema.Current(NEWEST, is_applications=True)

[BESIDE] = programs(BY_THE_COMMAND)
[LISTED, NAMED, CALL] = programs(BY_ITSELF)
[TAKE_OVER] = programs(BETWEEN)
# the opposite, as the page says
HAND_OVER = re.sub(
    r"alembic\.(upgrade|hand_over)\(",
    lambda call: f"alembic.{'hand_over' if call[1] == 'upgrade' else 'upgrade'}(",
    TAKE_OVER,
)
[LISTED_IN_SCHEMA, MAKE_SCHEMA] = programs(IN_A_SCHEMA)


@dataclass(frozen=True)
class Older:
    """What a database has at one of our revisions, after conversations went on in it."""

    revision: str
    tables: MetaData
    rows: Mapping[str, Sequence[Any]]
    exported: Any

    def fill(self, registry: Engine) -> None:
        """Write the rows into a database that has the tables."""
        with registry.begin() as connection:
            for table in self.tables.sorted_tables:
                if self.rows[table.name]:
                    connection.execute(table.insert(), self.rows[table.name])

    def check(self, registry: Engine) -> None:
        """Find every ref, mark, draft and counter as it was."""
        opened = RefRegistry(registry)
        assert opened.conversation("chat-7").export() == self.exported
        assert opened.conversation("chat-7").resolve_all(["recipe_1", "recipe_2"]) == [11, 12]
        assert opened.stats().left_counters == 1

    def go_on(self, registry: Engine) -> None:
        """Find all as it was, and mint: no number is given twice."""
        self.check(registry)
        opened = RefRegistry(registry)
        assert opened.conversation("chat-7").refer("recipe", 13) == "recipe_3"
        assert opened.conversation("chat-8").refer("recipe", 11) == "recipe_2"


def rows_of(connection: Connection, tables: MetaData) -> dict[str, list[Any]]:
    """Return all rows of tables, in an order that does not change."""
    return {
        table.name: sorted(map(dict, connection.execute(table.select()).mappings()), key=repr)
        for table in tables.sorted_tables
    }


def older_tables(url: str, revision: str) -> Older:
    """Let conversations go on in a database, and bring it down to a revision."""
    schema.migrate(url)
    engine = create_engine(url)
    chat, left = map(RefRegistry(engine).conversation, ("chat-7", "chat-8"))
    chat.refer_all("recipe", [11, 12])
    chat.refer("apple", 11)
    chat.note_gone([("apple", 11)], "was deleted")
    chat.begin_turn()
    left.refer("recipe", 11)
    left.forget()
    if revision >= "0004":  # before it there are no drafts
        draft = NewDraft("recipe", '{"title": "Dal"}')
        PostgresStore(engine).draft(Address("chat-7"), [draft])
    exported = chat.export()
    with schema.connect(url) as connection:
        command.downgrade(schema.configuration(connection), revision)
        tables = MetaData()
        tables.reflect(connection, only=lambda name, _: name != schema.VERSION_TABLE)
        rows = rows_of(connection, tables)
    engine.dispose()
    return Older(revision, tables, rows, exported)


@pytest.fixture(scope="module")
def makes(administration: Engine) -> Callable[[str], Older]:
    """Makes tables of a revision with rows in them, once each."""
    made: dict[str, Older] = {}

    def make(revision: str) -> Older:
        if revision not in made:
            with database_like(administration) as url:
                made[revision] = older_tables(url, revision)
        return made[revision]

    return make


def rewriting(after: str) -> list[str]:
    """Return the later revisions that rewrite rows."""
    later = schema.revisions()[REVISIONS.index(after) + 1 :]
    return [script.revision for script in later if script.module.rewrites_rows]


# What an environment may do depends on the later revisions that rewrite rows: of revisions with
# the same ones, the first stands for all. Each revision is migrated by `test_migrations`.
DISTINCT = {len(rewriting(each)): each for each in reversed(REVISIONS)}.values()


@pytest.fixture(params=sorted({*DISTINCT, NEWEST}))
def older(request: pytest.FixtureRequest, makes: Callable[[str], Older]) -> Older:
    """Tables and rows of an older revision, and of the newest."""
    return makes(request.param)


@dataclass(frozen=True)
class Place:
    """Where the registry's tables are in the application's database.

    Attributes:
        schema: of another name than the application's, or `None`.
        registry: the engine of the registry.
        beside: `env.py` where `alfred-refs migrate` makes the tables.
        listed: `env.py` where the environment does.
    """

    schema: str | None
    registry: Engine
    beside: str
    listed: str

    @property
    def url(self) -> str:
        """The URL for `alfred-refs migrate`."""
        return self.registry.url.render_as_string(hide_password=False)

    def revision(self, program: str, older: str = "0001", newer: str = NEWEST) -> str:
        """Return a program of the page, with other numbers, for the tables' schema."""
        program = re.sub(r'to="\d+"', f'to="{older}"', program)
        where = "" if self.schema is None else f', schema="{self.schema}"'
        return re.sub(r'\("\d+"(.*)\)', rf'("{newer}"\1{where})', program)


@pytest.fixture(params=[None, "refs"])
def place(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Place]:
    """The application's schema, and another one."""
    if request.param is None:
        yield Place(None, engine, BESIDE, LISTED)
        return
    with engine.begin() as connection:
        connection.execute(text("create schema refs"))
    query = {**engine.url.query, "options": "-csearch_path=refs"}
    registry = create_engine(engine.url.set(query=query))
    beside = BESIDE.replace("include_name=", "include_schemas=True, include_name=")
    yield Place("refs", registry, beside, LISTED_IN_SCHEMA)
    registry.dispose()


@pytest.fixture
def application(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application with an Alembic environment, which has no revision yet."""
    return Application(tmp_path, engine, monkeypatch)


def refused(attempt: Callable[[], object]) -> str:
    """Return what is said of an attempt."""
    with pytest.raises(RegistryMigrationError) as caught:
        attempt()
    return str(caught.value)


@pytest.fixture
def made_by_the_command(application: Application, older: Older, place: Place) -> None:
    """Tables that the command made, with rows, beside an environment that leaves them alone."""
    schema.migrate(place.url, older.revision)
    older.fill(place.registry)
    application.environment(place.beside)


@pytest.fixture
def made_by_itself(application: Application, older: Older, place: Place) -> None:
    """Tables that an environment made by autogenerate, at the time of an older version."""
    application.lists(older.tables, place.listed)
    with installed(older):
        application.autogenerate()
        application.check()
    older.fill(place.registry)
    assert schema.current(place.url) == schema.Current(older.revision, is_applications=True)


@contextmanager
def installed(older: Older) -> Iterator[None]:
    """Let the package have no later revisions than its version at that time."""
    known = schema.revisions()[: REVISIONS.index(older.revision) + 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alfred_refs.store.alembic.revisions", lambda: known)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("made_by_the_command")
def test_the_command_and_the_environment_leave_each_other_alone(
    application: Application, older: Older, place: Place
) -> None:
    """Autogenerate sees its own tables alone, before and after the registry's are migrated."""
    assert application.autogenerate() == ["create_table recipe", "create_index ix_recipe_title"]
    application.check()
    assert schema.current(place.url) == schema.Current(older.revision, is_applications=False)
    schema.migrate(place.url)
    application.check()
    assert schema.current(place.url) == OURS
    older.check(place.registry)
    command.downgrade(application.config, "base")
    older.go_on(place.registry)


@pytest.mark.slow
@pytest.mark.usefixtures("made_by_itself")
def test_the_environment_makes_and_changes_the_tables(
    application: Application, older: Older, place: Place
) -> None:
    """Tables that autogenerate made at any revision are brought to the newest, with their rows."""
    application.lists(RefRegistry(place.registry).metadata, place.listed)
    if rewriting(older.revision):
        newer = rewriting(older.revision)[-1]
        assert refused(application.check) == refused(application.autogenerate)
        assert refused(application.check) == (
            f"the registry's tables are at revision {older.revision!r}, and autogenerate cannot "
            f"rewrite their rows as revision {newer!r} does; write a revision of yours that "
            f"calls alfred_refs.store.alembic.upgrade({newer!r}), and upgrade to it first"
        )
        application.revision(place.revision(CALL, older.revision, newer))
        command.upgrade(application.config, "head")
        assert schema.current(place.url) == schema.Current(newer, is_applications=True)
    application.autogenerate()

    application.check()
    assert schema.current(place.url) == THEIRS
    older.go_on(place.registry)


@pytest.mark.usefixtures("made_by_itself")
def test_the_environment_undoes_what_it_called(
    application: Application, older: Older, place: Place
) -> None:
    """A downgrade gives back the tables with the same rows, and an upgrade after it the refs."""
    application.revision(place.revision(CALL, older.revision))
    command.upgrade(application.config, "head")
    older.check(place.registry)

    command.downgrade(application.config, "-1")
    assert schema.current(place.url) == schema.Current(older.revision, is_applications=True)
    with place.registry.connect() as connection:
        assert rows_of(connection, older.tables) == older.rows
    command.upgrade(application.config, "head")
    assert schema.current(place.url) == THEIRS
    older.go_on(place.registry)


@pytest.mark.slow
@pytest.mark.usefixtures("made_by_the_command")
def test_the_environment_takes_over_what_the_command_made(
    application: Application, older: Older, place: Place
) -> None:
    """Tables of any revision are the environment's after one of its own, and back again."""
    application.autogenerate()

    application.lists(RefRegistry(place.registry).metadata, place.listed)
    application.revision(place.revision(TAKE_OVER))
    command.upgrade(application.config, "head")

    application.check()
    assert schema.current(place.url) == THEIRS
    older.check(place.registry)
    command.downgrade(application.config, "-1")
    assert schema.current(place.url) == OURS
    assert schema.migrate(place.url) == NEWEST
    older.check(place.registry)
    command.upgrade(application.config, "head")
    application.check()
    older.go_on(place.registry)


def test_the_command_is_handed_what_the_environment_made(
    application: Application, older: Older, place: Place
) -> None:
    """Tables of any revision are the command's after one of the environment's, and back again."""
    application.lists(older.tables, place.listed)
    application.autogenerate()
    older.fill(place.registry)

    application.environment(place.beside)
    application.revision(place.revision(HAND_OVER))
    command.upgrade(application.config, "head")

    application.check()
    assert schema.current(place.url) == OURS
    assert schema.migrate(place.url) == NEWEST
    older.check(place.registry)
    application.check()
    command.downgrade(application.config, "-1")
    assert schema.current(place.url) == THEIRS
    application.lists(RefRegistry(place.registry).metadata, place.listed)
    command.upgrade(application.config, "head")
    older.go_on(place.registry)


@pytest.mark.parametrize("program", [TAKE_OVER, HAND_OVER])
def test_an_empty_database_gets_the_tables_by_the_same_revision(
    application: Application, place: Place, program: str
) -> None:
    """A revision that takes over or hands over makes them, where nobody has before."""
    application.environment(place.beside)
    application.revision(place.revision(program))
    command.upgrade(application.config, "head")

    is_applications = program is TAKE_OVER
    assert schema.current(place.url) == schema.Current(NEWEST, is_applications=is_applications)
    assert RefRegistry(place.registry).conversation("chat-7").refer("recipe", 1) == "recipe_1"


def test_revisions_work_offline(application: Application, place: Place) -> None:
    """What `alembic upgrade --sql` prints makes the tables, and leaves them to the command."""
    application.config.set_main_option("sqlalchemy.url", "postgresql+psycopg://")
    application.revision(place.revision(HAND_OVER))
    application.config.output_buffer = printed = io.StringIO()
    command.upgrade(application.config, "head", sql=True)

    with client(application.module.engine.url.render_as_string(hide_password=False)) as plain:
        plain.execute(printed.getvalue().encode())
    assert schema.current(place.url) == OURS
    assert schema.migrate(place.url) == NEWEST


def test_calls_run_the_statements_of_the_command(application: Application) -> None:
    """The same ones in the same order, up and down."""
    application.config.set_main_option("sqlalchemy.url", "postgresql+psycopg://")
    application.revision(CALL.replace("0003", NEWEST).replace("0001", "base"))
    ours = Config()
    ours.set_main_option("script_location", str(schema.scripts()))

    assert printed(application.config, command.upgrade, "head") == printed(
        ours, command.upgrade, "head"
    )
    assert printed(application.config, command.downgrade, "head:base") == printed(
        ours, command.downgrade, "head:base"
    )


def printed(config: Config, run: Callable[..., None], revision: str) -> list[str]:
    """Return the statements that `--sql` prints, but for those about the revision."""
    config.output_buffer = buffer = io.StringIO()
    run(config, revision, sql=True)
    statements = re.sub(r"--.*", "", buffer.getvalue()).split(";\n\n")
    return [each.strip() for each in statements if "alembic_version" not in each]


@pytest.mark.parametrize("is_listed", [False, True])
def test_an_asynchronous_environment_is_the_same(
    is_listed: bool, tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alembic's own template for asyncio needs the same arguments, and no more."""
    application = Application(tmp_path, engine, monkeypatch, template="async")
    url = engine.url.render_as_string(hide_password=False)
    application.config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    registry = application.module.registry = RefRegistry(engine)
    application.environment(async_environment(application, is_listed=is_listed))
    if not is_listed:
        schema.migrate(url)

    application.autogenerate()
    application.check()

    assert schema.current(url) == (THEIRS if is_listed else OURS)
    assert registry.conversation("chat-7").refer("recipe", 1) == "recipe_1"
    assert "recipe" in inspect(engine).get_table_names()


def async_environment(application: Application, *, is_listed: bool) -> str:
    """Return the template's `env.py`, with what the page says of one of the two ways."""
    program = (application.directory / "env.py").read_text()
    metadata = "[Base.metadata, registry.metadata]" if is_listed else "Base.metadata"
    imports = (
        "from alfred_refs.store.alembic import include_name\nfrom myapp import Base, registry\n"
    )
    program = program.replace(
        "\ntarget_metadata = None\n", f"\n{imports}target_metadata = {metadata}\n"
    )
    if not is_listed:
        program = program.replace(
            "(connection=connection,", "(connection=connection, include_name=include_name,"
        )
    assert (metadata in program, "=include_name" in program) == (True, not is_listed)
    return program


def test_names_are_by_the_applications_convention(
    application: Application, engine: Engine
) -> None:
    """Autogenerate finds no change, and an operation without a name takes the convention's."""
    names = {
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
    application.module.Base.metadata.naming_convention = names
    application.lists(RefRegistry(engine).metadata, NAMED)
    assert "create_table alfred_refs_mapping" in application.autogenerate()
    application.check()
    application.revision(
        "def upgrade():\n    op.create_unique_constraint(None, 'recipe', ['title'])\n"
    )
    command.upgrade(application.config, "head")

    [unique] = inspect(engine).get_unique_constraints("recipe")
    assert unique["name"] == "uq_recipe_title"
    assert RefRegistry(engine).conversation("chat-7").refer("recipe", 1) == "recipe_1"
    assert schema.current(engine.url.render_as_string(hide_password=False)) == THEIRS


@pytest.mark.slow
def test_a_generated_revision_makes_a_schema_by_one_more_line(
    application: Application, engine: Engine
) -> None:
    """It fails without; then the tables are there, and partitions are none of autogenerate's."""
    query = {**engine.url.query, "options": "-csearch_path=refs"}
    registry = create_engine(engine.url.set(query=query))
    url = registry.url.render_as_string(hide_password=False)
    with pytest.raises(ProgrammingError, match="no schema has been selected to create in"):
        schema.migrate(url)
    application.lists(RefRegistry(registry).metadata, LISTED_IN_SCHEMA)
    application.autogenerate(upgrade=False)
    with pytest.raises(ProgrammingError, match='schema "refs" does not exist'):
        command.upgrade(application.config, "head")
    [path] = (application.directory / "versions").glob("*.py")
    head = "def upgrade() -> None:\n"
    path.write_text(path.read_text().replace(head, f"{head}    {MAKE_SCHEMA}"))
    command.upgrade(application.config, "head")

    assert schema.current(url) == THEIRS
    partition(url)
    application.check()
    assert RefRegistry(registry).conversation("chat-7").refer("recipe", 1) == "recipe_1"
    registry.dispose()


def test_the_alembic_command_tells_a_refusal_on_one_line(
    database_url: str, engine: Engine, application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it does its own errors, without a traceback."""
    schema.migrate(database_url)
    application.lists(RefRegistry(engine).metadata)

    options = Namespace(cmd=(command.check, [], []), raiseerr=False)
    with pytest.raises(SystemExit):
        CommandLine().run_cmd(application.config, options)
    assert "FAILED: target_metadata has the registry's tables" in capsys.readouterr().out


def test_without_the_hook_autogenerate_would_drop_the_tables(
    database_url: str, application: Application
) -> None:
    """Each of our tables, and the one that has their revision: the hook is for that."""
    schema.migrate(database_url)
    application.environment(BESIDE.replace(", include_name=include_name", ""))
    dropped = application.autogenerate(upgrade=False)

    ours = [
        *("activity", "alembic_version", "call", "change", "conversation"),
        *("counter", "draft", "mapping", "step"),
    ]
    tables = sorted(step for step in dropped if step.startswith("drop_table"))
    assert tables == [f"drop_table alfred_refs_{name}" for name in ours]


def test_the_hook_goes_with_one_of_the_applications(
    database_url: str, engine: Engine, application: Application
) -> None:
    """A name is compared if both let it in; partitions are not."""
    schema.migrate(database_url)
    partition(database_url)
    with engine.begin() as connection:
        connection.execute(text("create table scratch (id int)"))
        connection.execute(text("create table other (id int)"))
    both = "lambda name, *rest: include_name(name, *rest) and name != 'scratch'"
    application.environment(
        BESIDE.replace("include_name=include_name", f"include_schemas=True, include_name={both}")
    )

    assert application.autogenerate() == [
        *("create_table recipe", "create_index ix_recipe_title", "drop_table other")
    ]
    application.check()


@pytest.mark.parametrize(
    ("name", "kind", "is_included"),
    [
        ("alfred_refs_mapping", "table", False),
        ("alfred_refs_alembic_version", "table", False),
        ("alfred_refs_of_a_later_version", "table", False),
        ("alfred_refs_partitions", "schema", False),
        ("alfred_refs", "schema", True),
        (None, "schema", True),
        ("recipe", "table", True),
        ("alfred_refs_id", "column", True),
        ("alfred_refs_id_fkey", "foreign_key_constraint", True),
    ],
)
def test_the_hook_leaves_out_tables_and_partitions_alone(
    name: str | None, kind: Any, is_included: bool
) -> None:
    """A column of the application's may be named after us; its schema may be none."""
    assert include_name(name, kind, {}) is is_included


def test_tables_of_the_command_are_not_listed(
    database_url: str, engine: Engine, application: Application
) -> None:
    """Autogenerate is refused with both remedies, and changes nothing."""
    schema.migrate(database_url)
    application.lists(RefRegistry(engine).metadata)

    assert refused(application.check) == refused(application.autogenerate)
    assert refused(application.check) == (
        "target_metadata has the registry's tables, and `alfred-refs migrate` made them; take "
        "registry.metadata out of target_metadata and give "
        "include_name=alfred_refs.store.alembic.include_name; or take the tables over, by a "
        f"revision that calls alfred_refs.store.alembic.upgrade({NEWEST!r})"
    )
    assert schema.current(database_url) == OURS


def test_tables_of_create_tables_are_the_commands(
    database_url: str, engine: Engine, application: Application
) -> None:
    """They are noted as made by us, so that an environment which lists them is told."""
    RefRegistry(engine).create_tables()
    assert schema.current(database_url) == OURS
    application.lists(RefRegistry(engine).metadata)
    assert "`alfred-refs migrate` made them" in refused(application.check)


def test_create_tables_leaves_the_environments_tables_to_it(
    database_url: str, engine: Engine, application: Application
) -> None:
    """An application that calls it as it starts does not become somebody else's."""
    application.lists(RefRegistry(engine).metadata)
    application.autogenerate()
    RefRegistry(engine).create_tables()
    assert schema.current(database_url) == THEIRS
    application.check()


def test_the_registrys_own_environment_is_not_refused(database_url: str) -> None:
    """It lists the tables, too, and may: they are left to it."""
    schema.migrate(database_url)
    with schema.connect(database_url) as connection:
        command.check(schema.configuration(connection))


def test_tables_are_not_listed_and_left_out(engine: Engine, application: Application) -> None:
    """Autogenerate would make the same tables again and again."""
    application.lists(RefRegistry(engine).metadata)
    program = (application.directory / "env.py").read_text()
    application.environment(
        "from alfred_refs.store.alembic import include_name\n"
        + program.replace("(connection,", "(connection, include_name=include_name,")
    )
    assert refused(application.check) == (
        "target_metadata has the registry's tables, and include_name leaves them out; take "
        "registry.metadata out of target_metadata if `alfred-refs migrate` makes the tables, and "
        "alfred_refs.store.alembic.include_name out of include_name if it does not"
    )


@pytest.mark.slow
def test_the_command_refuses_tables_of_the_environment(
    database_url: str, engine: Engine, application: Application, older: Older
) -> None:
    """It changes nothing, names the revision that they are at, and what hands them over."""
    application.lists(older.tables)
    application.autogenerate()

    assert refused(lambda: schema.migrate(database_url)) == (
        "`alfred-refs migrate` did not make the registry's tables, which leaves them to the "
        "application's own Alembic environment; upgrade that; or hand them over, by a revision of "
        f"yours that calls alfred_refs.store.alembic.hand_over({older.revision!r})"
    )
    assert schema.current(database_url) == schema.Current(older.revision, is_applications=True)
    assert not inspect(engine).has_table(schema.VERSION_TABLE)


@pytest.mark.parametrize(
    ("program", "number"), [(CALL, "head"), (TAKE_OVER, "head"), (HAND_OVER, "9999")]
)
def test_a_revision_is_called_by_its_number(
    application: Application, place: Place, program: str, number: str
) -> None:
    """`head` would be another one with each version."""
    application.environment(place.beside)
    application.revision(place.revision(program, newer=number))

    assert refused(lambda: command.upgrade(application.config, "head")) == (
        f"the registry's tables have no revision {number!r}; give one of "
        f"{', '.join(map(repr, REVISIONS))}, or install a version that has it"
    )


def test_a_downgrade_leads_down(application: Application) -> None:
    """One to a later revision is refused: it would do nothing."""
    application.environment(BESIDE)
    application.revision(
        "import alfred_refs.store.alembic\n\n\ndef upgrade():\n    "
        'alfred_refs.store.alembic.downgrade("0001", to="0002")\n'
    )
    assert refused(lambda: command.upgrade(application.config, "head")) == (
        "a downgrade from revision '0001' does not lead to '0002'; give the later one first"
    )


def test_the_columns_of_tables_show_their_revision(database_url: str) -> None:
    """Each script names a column that tables have from it on, and not before."""
    for revision in REVISIONS:
        schema.migrate(database_url, revision)
        with schema.connect(database_url) as connection:
            assert schema.revision_of_tables(connection) == revision


@pytest.mark.slow
def test_listing_the_tables_is_all_it_takes_to_be_refused() -> None:
    """An environment imports nothing more for it, and importing the package imports no Alembic."""
    program = (
        "import sys, sqlalchemy, alfred_refs\n"
        "engine = sqlalchemy.create_engine('postgresql+psycopg://')\n"
        "print('alembic' in sys.modules)\n"
        "alfred_refs.RefRegistry(engine).metadata\n"
        "print('alfred_refs.store.alembic' in sys.modules)\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed == "False\nTrue\n"
