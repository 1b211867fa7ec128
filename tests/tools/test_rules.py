"""The rules of the database: told before a row is written, and when one is broken."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Engine,
    Enum,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    func,
    inspect,
    text,
)
from sqlalchemy.dialects.postgresql import INT4RANGE, ExcludeConstraint, Range
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Hooks, Toolset, Writing
from alfred_refs.tools.rules import rules_named
from tests.models import Key
from tests.tools.conftest import Call
from tests.tools.models import Dish

LONG = "a_table_whose_name_is_so_long_that_postgresql_cuts_it"
EVEN = "a_table_with_a_name_as_long_as_its_column"


class Base(DeclarativeBase):
    """Declarative base of these tables, whose constraints have names by convention."""

    metadata = MetaData(
        naming_convention={
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        }
    )


class Plain(DeclarativeBase):
    """Declarative base of tables whose constraints have the names that PostgreSQL gives."""


class Mood(enum.Enum):
    """What is said by a type already."""

    GOOD = "good"
    BAD = "bad"


class Folded(TypeDecorator[str]):
    """Stores another text than it is given."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: object) -> Any:
        """Return it in small letters."""
        return value and value.lower()


class House(Base):
    """What rooms are in."""

    __tablename__ = "houses"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class Room(Base):
    """Has a rule of every kind."""

    __tablename__ = "rooms"
    __table_args__ = (
        CheckConstraint("stars BETWEEN 1 AND 5", name="stars"),
        CheckConstraint("char_length(name) <= 9 OR kind = 'suite'", name="short"),
        CheckConstraint("from_price <= to_price", name="prices"),
        CheckConstraint("secret <> 'no'", name="secret"),
        CheckConstraint("secret <> name", name="unlike"),
        CheckConstraint("code IN ('a', 'b')", name="code"),
        CheckConstraint("house_id <> 7", name="house"),
        UniqueConstraint("house_id", "number"),
        UniqueConstraint("secret", "door"),
        UniqueConstraint("secret"),
        Index("one_main", "house_id", unique=True, postgresql_where=text("is_main")),
        Index("one_secret", "door", "name", unique=True, postgresql_where=text("secret = 'x'")),
        Index("one_name", func.lower(text("name")), unique=True),
    )

    id: Mapped[Key]
    house_id: Mapped[int | None] = mapped_column(ForeignKey("houses.id"))
    number: Mapped[int | None]
    name: Mapped[str | None]
    kind: Mapped[str | None] = mapped_column(
        CheckConstraint("kind IN ('single', 'suite')", name="kind")
    )
    stars: Mapped[int | None]
    cheapest: Mapped[int | None] = mapped_column("from_price")
    dearest: Mapped[int | None] = mapped_column("to_price")
    door: Mapped[str | None] = mapped_column(String(3))
    code: Mapped[str | None] = mapped_column(Folded)
    mood: Mapped[Mood | None] = mapped_column(
        Enum(Mood, native_enum=False, create_constraint=True, name="mood")
    )
    is_main: Mapped[bool | None] = mapped_column(Boolean(create_constraint=True, name="main"))
    secret: Mapped[str | None]

    house: Mapped[House | None] = relationship()


class Stay(Plain):
    """Has rules without names, of which two have one column."""

    __tablename__ = LONG
    __table_args__ = (
        CheckConstraint("nights_of_stay > 0"),
        CheckConstraint("nights_of_stay < 100"),
        CheckConstraint("guests < nights_of_stay"),
        UniqueConstraint("guests", "nights_of_stay"),
        ExcludeConstraint(("days", "&&")),
    )

    id: Mapped[Key]
    guests: Mapped[int | None]
    nights_of_stay: Mapped[int | None]
    days: Mapped[Any] = mapped_column(INT4RANGE, nullable=True)


class Even(Plain):
    """Has names of which the one is as long as the other, and both are cut."""

    __tablename__ = EVEN

    id: Mapped[int] = mapped_column(primary_key=True)
    a_column_with_a_name_as_long_as_its_table: Mapped[int | None] = mapped_column(
        ForeignKey(f"{EVEN}.id"), unique=True
    )


ROOMS = """\
rooms
  id: room ref, read only
  house_id?: house ref
  number?: integer
  name?: text
  kind?: "single" | "suite"
  stars?: integer, 1 to 5
  cheapest?: integer
  dearest?: integer
  door?: text, at most 3 characters, unique
  code?: text
  mood?: "GOOD" | "BAD"
  is_main?: boolean
  unique: house_id where is_main
  unique together: house_id, number
  unique: lower(name)
  rule: char_length(name) <= 9 OR kind = 'suite'
  rule: cheapest <= dearest
  rule: code IN ('a', 'b')
  related: house (houses)"""


@pytest.fixture
def rooms(tables: Engine, session: RefSession) -> Call:
    """Call a tool on rooms, stays and houses with its arguments by name."""
    Base.metadata.create_all(tables)
    Plain.metadata.create_all(tables)
    toolset = Toolset([Room, House, Stay], hidden=[Room.secret])
    return lambda tool, /, **arguments: toolset.call(session, tool, arguments)


# described


def test_rules_are_described() -> None:
    """Beside their columns or in lines of their own; none that is about a hidden column."""
    toolset = Toolset([Room, House], hidden=[Room.secret])

    assert toolset.describe(["rooms"]).partition("\n")[2] == ROOMS
    assert "secret" not in toolset.describe()


def test_what_is_only_read_has_no_rules_to_keep() -> None:
    """But of values that a filter may name there are no others."""
    toolset = Toolset([Room], read_only=[Room], hidden=[Room.secret])
    _, _, *lines = toolset.describe().split("\n")

    assert '  kind?: "single" | "suite"' in lines
    assert "  stars?: integer" in lines
    assert not [line for line in lines if "unique" in line or "rule" in line]


def test_rules_of_a_reflected_table_read_the_same(tables: Engine) -> None:
    """Though PostgreSQL writes them otherwise; a type of ours knows more of its values."""
    Base.metadata.create_all(tables)

    class Reflected(DeclarativeBase):
        """Declarative base of what is read from the database."""

    for name in ("houses", "rooms"):
        Table(name, Reflected.metadata, autoload_with=tables)

    class Again(Reflected):
        """The same rows."""

        __table__ = Reflected.metadata.tables["rooms"]
        __ref_name__ = "room"

        cheapest = __table__.c.from_price
        dearest = __table__.c.to_price

    class Houses(Reflected):
        """What rooms are in."""

        __table__ = Reflected.metadata.tables["houses"]
        __ref_name__ = "house"

    text = Toolset(
        [Again, Houses], hidden=[inspect(Again).attrs["secret"].class_attribute]
    ).describe(["rooms"])
    expected = ROOMS.replace("  code?: text\n", '  code?: "a" | "b"\n')
    expected = expected.replace("  rule: code IN ('a', 'b')\n", "").rpartition("\n")[0]

    def sorted_lines(lines: str) -> list[str]:
        """In one order: columns come in that of the mapping."""
        return sorted(lines.replace("(", "").replace(")", "").split("\n"))

    assert sorted_lines(text.partition("\n")[2]) == sorted_lines(expected)


# broken

MADE = "one of these rules: nights_of_stay: < 100; or nights_of_stay: > 0"


@pytest.mark.parametrize(
    ("data", "rule", "columns"),
    [
        ({"stars": 6}, "stars: 1 to 5", ["stars"]),
        ({"kind": "tent"}, 'kind: "single" | "suite"', ["kind"]),
        ({"cheapest": 2, "dearest": 1}, "cheapest <= dearest", ["cheapest", "dearest"]),
        (
            {"name": "a" * 10, "kind": "single"},
            "char_length(name) <= 9 OR kind = 'suite'",
            ["name", "kind"],
        ),
    ],
)
def test_a_broken_check_is_told_as_it_is_described(
    rooms: Call, data: dict[str, Any], rule: str, columns: list[str]
) -> None:
    """What it says, and of which columns; its name is no word for a model."""
    error = rooms("db_create", table="rooms", data=data)["error"]

    assert error == {
        "code": "check_failed",
        "message": f"a rule of table 'rooms' forbids these values: {rule}; nothing was changed; "
        "give values that keep to it",
        "table": "rooms",
        "rule": rule,
        "columns": columns,
    }
    assert rule.removeprefix(f"{columns[0]}: ") in ROOMS


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ({"nights_of_stay": 0}, MADE),
        ({"nights_of_stay": 100}, MADE),
        ({"nights_of_stay": 1, "guests": 1}, "guests < nights_of_stay"),
    ],
)
def test_a_name_that_postgresql_made_is_known(
    rooms: Call, data: dict[str, Any], rule: str
) -> None:
    """Cut and numbered; of several that it may be all are told."""
    error = rooms("db_create", table=LONG, data=data)["error"]

    assert (error["code"], error["rule"]) == ("check_failed", rule)


def test_all_names_are_known(tables: Engine) -> None:
    """Those that the database has, of whatever constraint, are found among those declared."""
    Base.metadata.create_all(tables)
    Plain.metadata.create_all(tables)
    toolset = Toolset([Room, House, Stay, Even, Dish])
    for name in toolset.tables.names:
        table = toolset.tables.by_name(name)
        with tables.connect() as connection:
            found = connection.exec_driver_sql(
                "select conname from pg_constraint where conrelid = %s::regclass "
                "and contype <> 'n' union select indexrelid::regclass::text from pg_index "
                "where indrelid = %s::regclass and indisunique",
                (name, name),
            )
            names = [each for (each,) in found]
        assert len(names) > 1
        assert [each for each in names if not rules_named(each, table)] == []


def test_a_check_that_nobody_declared_is_told_without_its_name(
    rooms: Call, tables: Engine
) -> None:
    """It has the database's words for columns in it, and hidden ones."""
    with tables.begin() as connection:
        connection.exec_driver_sql(
            "alter table rooms add constraint rooms_stars_unseen check (mod(stars, 2) = 0)"
        )
    error = rooms("db_create", table="rooms", data={"stars": 3})["error"]

    assert error == {
        "code": "check_failed",
        "message": "a rule of the database forbids these values; nothing was changed; give others",
        "table": "rooms",
        "rule": None,
        "columns": [],
    }


def test_what_a_trigger_forbids_is_told_without_its_text(rooms: Call, tables: Engine) -> None:
    """It raises because of what a model gave; what it says is of the database."""
    with tables.begin() as connection:
        connection.exec_driver_sql(
            "create function refuse() returns trigger language plpgsql as "
            "$$ begin raise exception 'secret words'; end $$"
        )
        connection.exec_driver_sql(
            "create trigger refuse before insert on rooms for each row execute function refuse()"
        )
    error = rooms("db_create", table="rooms", data={"stars": 3})["error"]

    assert (error["code"], error["rule"], error["columns"]) == ("check_failed", None, [])
    assert "secret words" not in str(error)


class Secretive(Hooks):
    """Writes what no model sees."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def before_write(self, write: Writing) -> None:
        """Add it."""
        for record in write.records:
            record["secret"] = self.secret


def hooked(session: RefSession, tables: Engine, secret: str) -> Call:
    """Return what calls a tool on rooms that are given a secret."""
    Base.metadata.create_all(tables)
    toolset = Toolset([Room], hidden=[Room.secret], hooks={Room: [Secretive(secret)]})
    return lambda tool, /, **arguments: toolset.call(session, tool, arguments)


def test_a_check_of_hidden_columns_alone_is_not_told(session: RefSession, tables: Engine) -> None:
    """It is the application's own mistake, and raised."""
    call = hooked(session, tables, "no")

    with pytest.raises(IntegrityError):
        call("db_create", table="rooms", data={"name": "A"})


def test_a_check_of_hidden_columns_too_is_told_by_the_others(
    session: RefSession, tables: Engine
) -> None:
    """Neither its words nor its name are told, which may have hidden columns in them."""
    error = hooked(session, tables, "A")("db_create", table="rooms", data={"name": "A"})["error"]

    assert error["message"] == (
        "a rule of table 'rooms' on 'name' and on columns that are not shown forbids these "
        "values; nothing was changed; give others"
    )
    assert (error["rule"], error["columns"]) == (None, ["name"])


# conflicts


def test_a_conflict_names_the_columns_that_are_shown(session: RefSession, tables: Engine) -> None:
    """Of a rule on others too; where none is shown, that is what is said."""
    call = hooked(session, tables, "A")
    call("db_create", table="rooms", data={"door": "x"})
    same = hooked(session, tables, "A")("db_create", table="rooms", data={"door": "x"})["error"]
    hidden = call("db_create", table="rooms", data={"door": "y"})["error"]

    assert same["code"] == hidden["code"] == "conflict"
    assert hidden["columns"] == []
    assert hidden["message"] == (
        "a row of 'rooms' with values that are not shown, and that only one row may have is there "
        "already (maybe one that you cannot see), or two of this call are the same; nothing was "
        "changed; read the rows that there are and update one, or give other values"
    )


def test_a_conflict_of_rows_of_one_call_is_not_said_to_be_with_one_that_is_there(
    rooms: Call,
) -> None:
    """The database does not tell which it is."""
    twins = [{"name": "A"}, {"name": "A"}]
    error = rooms("db_create", table="houses", data=twins)["error"]

    assert error["message"] == (
        "a row of 'houses' with the same 'name' is there already (maybe one that you cannot see), "
        "or two of this call are the same; nothing was changed; read the rows that there are and "
        "update one, or give other values"
    )


def test_a_conflict_by_an_expression_names_its_column(rooms: Call) -> None:
    """And one of a partial index too."""
    rooms("db_create", table="rooms", data={"name": "Blue"})
    error = rooms("db_create", table="rooms", data={"name": "BLUE"})["error"]

    assert (error["code"], error["columns"]) == ("conflict", ["name"])
    assert "values that only one row may have (unique: lower(name)) is there" in error["message"]


def test_values_that_exclude_each_other_are_told(rooms: Call, session: RefSession) -> None:
    """In words of their own: they need not be the same."""

    class Long(Hooks):
        def before_write(self, write: Writing) -> None:
            """Write what no model can give."""
            for record in write.records:
                record["days"] = Range(1, 9)

    rooms("db_read", table="rooms")
    toolset = Toolset([Stay], hooks={Stay: [Long()]})
    first, second = (
        toolset.call(session, "db_create", {"table": LONG, "data": {"guests": n}}) for n in (1, 2)
    )

    assert first["count"] == 1
    assert second["error"]["message"] == (
        f"a row of '{LONG}' is there (maybe one that you cannot see) whose values in 'days' "
        "exclude the given ones, or two of this call exclude each other; nothing was changed; "
        "read the rows that there are, and give values that do not overlap with theirs"
    )
    assert (second["error"]["code"], second["error"]["columns"]) == ("conflict", ["days"])
