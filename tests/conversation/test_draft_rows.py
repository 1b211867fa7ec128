"""Keys of rows that are not there yet, as the table's own defaults would make them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Identity,
    Integer,
    MetaData,
    Sequence,
    Table,
    Text,
    Uuid,
    cast,
    func,
    insert,
    select,
    text,
)

from alfred_refs import SetupError
from alfred_refs.conversation.draft_rows import check_new_keys, new_keys
from alfred_refs.mapping.key_columns import KeyColumn, key_type_of

metadata = MetaData(schema="New Keys")


def table(name: str, type_: Any, *arguments: Any, **options: Any) -> Table:
    """Return a table with a primary key and nothing else."""
    return Table(name, metadata, Column("Id", type_, *arguments, primary_key=True, **options))


SERIAL = table("Serial s", Integer)
MADE = [
    SERIAL,
    table("identity", BigInteger, Identity()),
    table("sequence", Integer, Sequence("Numbers of new keys", metadata=metadata)),
    table("uuids", Uuid),
    table("random", Uuid, server_default=text("gen_random_uuid()")),
    table("python", Uuid, default=lambda: uuid.UUID(int=uuid.uuid4().int)),
    table("expression", Uuid, default=func.gen_random_uuid()),
    table("text_default", Text, server_default=text("md5(random()::text)")),
    table("text_function", Text, server_default=func.md5(cast(func.random(), Text))),
]


@pytest.fixture
def database(engine: Engine) -> Iterator[Engine]:
    """An engine on a database with these tables."""
    with engine.begin() as connection:
        connection.exec_driver_sql('create schema "New Keys"')
        metadata.create_all(connection)
    yield engine
    with engine.begin() as connection:
        connection.exec_driver_sql('drop schema "New Keys" cascade')


def held(of: Table) -> KeyColumn:
    """Return what the primary key of a table holds."""
    key_type = key_type_of(of.c["Id"].type)
    assert key_type is not None
    return KeyColumn("x", "x", key_type)


@pytest.mark.tables
@pytest.mark.parametrize("of", MADE, ids=lambda t: t.name)
def test_keys_can_be_inserted(database: Engine, of: Table) -> None:
    """They are all different, and so are those made later."""
    check_new_keys(of.c["Id"], object)
    with database.begin() as connection:
        keys = [*new_keys(connection, of.c["Id"], held(of), 3)]
        keys += new_keys(connection, of.c["Id"], held(of), 2)
        connection.execute(insert(of), [{"Id": key} for key in keys])

        assert len(set(keys)) == len(connection.scalars(select(of.c["Id"])).all()) == 5


@pytest.mark.tables
def test_numbers_that_are_taken_are_passed_over(database: Engine) -> None:
    """Rows were inserted with their numbers, of which the sequence knows nothing."""
    with database.begin() as connection:
        connection.execute(insert(SERIAL), [{"Id": n} for n in (1, 2, 5, 7)])

        assert new_keys(connection, SERIAL.c["Id"], held(SERIAL), 3) == [3, 4, 6]
        assert new_keys(connection, SERIAL.c["Id"], held(SERIAL), 2) == [8, 9]  # and not 10


@pytest.mark.tables
def test_a_table_in_another_schema_has_its_own_numbers(database: Engine) -> None:
    """That of the connection's `schema_translate_map`."""
    elsewhere = Table(
        "Serial s", MetaData(schema="tenant"), Column("Id", Integer, primary_key=True)
    )
    with database.connect().execution_options(
        schema_translate_map={"tenant": "New Keys"}
    ) as connection:
        assert new_keys(connection, elsewhere.c["Id"], held(elsewhere), 2) == [1, 2]


@pytest.mark.tables
def test_a_database_without_the_default_is_told_of(database: Engine) -> None:
    """The mapping says that it makes keys, and it makes none."""
    with database.begin() as connection:
        connection.exec_driver_sql(
            'alter table "New Keys"."Serial s" alter "Id" drop default; '
            'drop sequence "New Keys"."Serial s_Id_seq"'
        )
        with pytest.raises(SetupError, match="has no default in the database"):
            new_keys(connection, SERIAL.c["Id"], held(SERIAL), 1)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("id", Integer, Identity(always=True), primary_key=True), "GENERATED ALWAYS"),
        (Column("id", Text, primary_key=True), "its primary key has no default"),
        (
            Column("id", Integer, primary_key=True, autoincrement=False),
            "its primary key has no default",
        ),
    ],
)
def test_keys_that_cannot_be_decided_are_told_of(column: Column[Any], said: str) -> None:
    """Before anything is drafted."""
    Table("undecided", MetaData(), column)
    with pytest.raises(SetupError, match=said):
        check_new_keys(column, object)
