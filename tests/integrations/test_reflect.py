"""Tools made of a database that no program has mapped: thirty tables, and what they are called."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import SetupError
from alfred_refs.integrations.reflect import Reflection, entity_names, reflect
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests.fix_postgres import DatabasePool, connected, database_pool
from tests.integrations.bare import KEYS, LEFT_OUT, TABLES, fill, make


@pytest.fixture(scope="module")
def bare_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with thirty tables and nothing of ours."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            make(connection)

    with database_pool(administration, prepare) as databases:
        yield databases


@pytest.fixture
def bare(bare_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on thirty tables with rows."""
    with bare_databases.engine() as engine:
        with engine.begin() as connection:
            fill(connection)
        yield engine


def found_in(engine: Engine, *tables: str, **options: Any) -> Reflection:
    """Return what is found in a database."""
    with engine.connect() as connection:
        return reflect(connection, tables, **options)


class Desk:
    """The tools on what is found, as a model calls them, and all that it was told."""

    def __init__(self, engine: Engine, found: Reflection) -> None:
        self.told = ""
        sessions = sessionmaker(engine, class_=RefSession)
        registry = RefRegistry(store=MemoryStore())
        self._bound = Toolset(found.models, expect="optional").bind(sessions, registry=registry)

    def __call__(self, tool: str, table: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return what it answers."""
        answer = self._bound.call("chat-7", None, tool, {"table": table, **arguments})
        self.told += answer.text
        return answer.value


@pytest.mark.slow
def test_tables_of_all_keys_are_found(bare: Engine) -> None:
    """Those with integer, UUID, text and composite keys; others are left out with a reason."""
    found = found_in(bare)

    assert {*found.models} | {*found.left_out} == {*TABLES}
    assert len(found.models) == 29
    assert found.left_out == LEFT_OUT
    assert found.labels["people"] == "first_name and last_name"
    assert found.labels["companies"] == "company_name"
    assert found.labels["products"] == "name"
    assert "stocks" not in found.labels


@pytest.mark.slow
def test_each_table_is_read_without_keys(bare: Engine) -> None:
    """Refs are named as rows are; labels stand beside them."""
    found = found_in(bare)
    desk = Desk(bare, found)
    read = {name: desk("db_read", name)["rows"] for name in found.models}

    assert read["people"][0]["id"] == "person_1"
    assert read["companies"][0] == {
        "id": "company_1",
        "company_name": "Tea & Co",
        "boss": "person_1",
        "_boss_label": "Ada Lovelace",
    }
    assert read["stocks"][0]["_ref"] == "stock_1"
    assert read["User"][0]["id"] == "user_1"
    assert [row["code"] for row in read["countries"]] == ["at"]
    assert [key for key in KEYS if key in desk.told] == []


@pytest.mark.slow
def test_foreign_keys_are_paths_both_ways(bare: Engine) -> None:
    """Named by their columns; to itself, twice to one table, and of several columns."""
    desk = Desk(bare, found_in(bare))

    def names(table: str, field: str, value: str) -> list[str]:
        wanted = [{"field": field, "op": "=", "value": value}]
        return [row["name"] for row in desk("db_read", table, filters=wanted)["rows"]]

    assert names("parts", "parent.name", "Lid") == ["Knob"]
    assert names("parts", "parts.name", "Knob") == ["Lid"]
    assert names("routes", "start.name", "Wien") == ["Wien-Graz"]
    assert names("places", "routes_by_end.name", "Wien-Graz") == ["Graz"]
    assert names("counts", "stock.product.name", "Cup") == ["first"]


@pytest.mark.slow
def test_rows_are_made_changed_and_deleted(bare: Engine) -> None:
    """UUIDs that the database does not make are made; what goes along is the database's word."""
    desk = Desk(bare, found_in(bare))
    desk("db_read", "people")
    made = desk("db_create", "notes", data={"title": "new", "person_id": "person_1"})
    changed = desk(
        "db_update",
        "notes",
        filters=[{"field": "id", "op": "=", "value": "note_1"}],
        data={"title": "newer"},
    )
    refused = desk(
        "db_delete", "people", filters=[{"field": "id", "op": "=", "value": "person_1"}]
    )
    gone = desk("db_delete", "people", filters=[{"field": "id", "op": "=", "value": "person_2"}])

    assert (made["rows"][0]["id"], changed["rows"][0]["title"]) == ("note_1", "newer")
    assert refused["error"]["code"] == "still_referenced"
    assert (gone["deleted"], gone["deleted_with"]) == (["person_2"], ["note_2"])


def test_some_tables_and_not_some_columns(bare: Engine) -> None:
    """What they refer to is mapped, and not listed; a name that is not there is told."""
    found = found_in(bare, "companies", hidden=["companies.company_name"])
    desk = Desk(bare, found)

    assert desk("db_read", "companies")["rows"] == [{"id": "company_1", "boss": "person_1"}]
    assert [*found.models] == ["companies"]
    assert found.labels == {}
    with pytest.raises(SetupError, match=r"no table 'company'; name one .* such as 'companies'"):
        found_in(bare, "company")
    for column in ("companies.nothing", "company_name", "people.first_name"):
        with pytest.raises(SetupError, match="there is no column"):
            found_in(bare, "companies", hidden=[column])
    with pytest.raises(SetupError, match=r"column 'companies.boss' has keys, which are refs"):
        found_in(bare, "companies", hidden=["companies.boss"])


def test_what_a_role_may_not_read_is_left_out(bare: Engine) -> None:
    """It is told, and not found out by a call that fails."""
    role = f"reader_{uuid.uuid4().hex}"
    with bare.connect() as connection:
        connection.execute(text(f"create role {role}"))
        connection.execute(text(f"grant select on people to {role}"))
        connection.execute(text(f"set role {role}"))
        found = reflect(connection)
        connection.execute(text("reset role"))
        connection.execute(text(f"drop owned by {role}; drop role {role}"))

    assert [*found.models] == ["people"]
    assert found.left_out["products"] == "this role may not read it"


def test_rows_are_called_what_one_of_the_table_is() -> None:
    """By rules that are right for most, and without a library that takes a second to load."""
    tables = "order_lines categories addresses boxes cases buses status staff news day"
    rows = "order_line category address box case bus status staff news day"

    assert [entity_names(name)[0] for name in tables.split()] == rows.split()
    assert entity_names("OrderLines")[0] == "order_line"


def test_names_that_cannot_be_refs_are_made_such(bare: Engine) -> None:
    """Each table has an entity of its own, however tables are called."""
    names = ["item", "items", "Items", "gen_item", "log_2024", "2024", "größe", "a b", "a-b"]
    columns = 'id int primary key, metadata text, "two words" int'
    with bare.begin() as connection:
        for name in names:
            connection.execute(text(f'create table "{name}" ({columns})'))
            connection.execute(text(f"insert into \"{name}\" values (7711, 'x', 2)"))
        found = reflect(connection, names)
    desk = Desk(bare, found)
    refs = {name: desk("db_read", name)["rows"][0]["id"] for name in names}

    assert found.left_out == {}
    assert len({*refs.values()}) == len(names)
    assert (refs["items"], refs["log_2024"]) == ("items_1", "log_2024_row_1")
    assert json.dumps(refs).count("7711") == 0


@pytest.mark.slow
def test_tables_of_migration_tools_are_left_out_unless_they_are_named(bare: Engine) -> None:
    """A model that may write could delete the revision; Alembic's table may have any name."""
    with bare.begin() as connection:
        for name in ("alembic_version", "versions_of_ours"):
            connection.execute(text(f"create table {name} (version_num varchar(32) primary key)"))
        connection.execute(text("create table django_migrations (id int primary key, app text)"))
    tables = ["alembic_version", "django_migrations", "versions_of_ours"]

    found = found_in(bare)
    assert {name: found.left_out.get(name) for name in tables} == dict.fromkeys(
        tables, "it is of a tool that migrates"
    )
    assert [name for name in tables if name in found.models] == []
    assert [*found_in(bare, "alembic_version").models] == ["alembic_version"]


def test_a_foreign_key_to_a_partitioned_table_is_not_repeated_for_its_partitions(
    bare: Engine,
) -> None:
    """PostgreSQL's catalogue has one for each; a ref would be of a partition, or of the table."""
    with bare.begin() as connection:
        guests = "create table guests (id int primary key, event_id int references events"
        connection.execute(text(f"{guests}, own int references events_1)"))
        connection.execute(text("insert into guests values (1, 81230010, 81230010)"))
    desk = Desk(bare, found_in(bare, "events", "events_1", "guests"))

    [row] = desk("db_read", "guests", columns=["event_id", "own", "event"])["rows"]
    assert (row["event_id"], row["own"], row["event"]["name"]) == (
        "event_1",
        "events_1_row_1",
        "opening",
    )


def test_columns_with_names_of_attributes_that_classes_have_get_other_names(bare: Engine) -> None:
    """So do rows that such a foreign key refers to, and the rows that refer by it."""
    with bare.begin() as connection:
        columns = '"__class__" text, "_sa_instance_state" int, self_id uuid references "__init__"'
        connection.execute(text(f'create table "__init__" (id uuid primary key, {columns})'))
        found = reflect(connection, ["__init__"], labels=["__init__.__class__"])
    data = {"x___class__": "a", "x__sa_instance_state": 1, "x_self": {"x___class__": "b"}}

    [row] = Desk(bare, found)("db_create", "__init__", data=data)["rows"]
    assert (row["x___class__"], row["self_id"], row["_self_id_label"]) == ("a", "init_2", "b")
