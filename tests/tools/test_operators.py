"""What a filter may ask of each SQL type: answered or refused, by each driver."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Engine,
    Enum,
    Float,
    Integer,
    Interval,
    LargeBinary,
    Numeric,
    PickleType,
    SmallInteger,
    String,
    Table,
    Text,
    Time,
    TypeDecorator,
    Unicode,
    Uuid,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeEngine, UserDefinedType

from alfred_refs import AsyncRefSession, Conversation, DraftContentError, RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.arguments import Operator
from tests.tools.models import Course


class Word(UserDefinedType[str]):
    """A type of PostgreSQL that SQLAlchemy does not know, with text in Python."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """Return what PostgreSQL calls it."""
        return self.name

    @property
    def python_type(self) -> type[str]:
        """Text."""
        return str


class AsText(TypeDecorator[str]):
    """Text in Python, whatever it is in the database."""

    impl = Integer
    cache_ok = True

    def __init__(self, impl: TypeEngine[Any]) -> None:
        super().__init__()
        self.impl = impl  # type: ignore[assignment]

    @property
    def python_type(self) -> type[str]:
        """Text."""
        return str

    def process_bind_param(self, value: Any, _: Any) -> Any:
        """Return it as the database has it."""
        is_number = isinstance(self.impl, Integer) and value is not None
        return int(value) if is_number and value.isascii() and value.isdigit() else None

    def process_result_value(self, value: Any, _: Any) -> str | None:
        """Return it as text."""
        return None if value is None else str(value)


class Loud(TypeDecorator[str]):
    """Text in capitals."""

    impl = String(5)
    cache_ok = True

    def process_bind_param(self, value: Any, _: Any) -> Any:
        """Return capitals."""
        return None if value is None else value.upper()


class Moment(TypeDecorator[dt.datetime]):
    """A time whose decoration changes nothing."""

    impl = DateTime(timezone=True)
    cache_ok = True


# every type that a mapping may have -> what a row has there, and texts beside that which may fit
TYPES: Mapping[str, tuple[TypeEngine[Any], Any]] = {
    "text": (Text(), "ab"),
    "string": (String(5), "ab"),
    "unicode": (Unicode(), "ab"),
    "char": (postgresql.CHAR(5), "ab"),
    "collated": (String(collation="C"), "ab"),
    "loud": (Loud(), "AB"),
    "integer": (Integer(), 5),
    "small": (SmallInteger(), 5),
    "big": (BigInteger(), 5),
    "numeric": (Numeric(8, 2), 5),
    "numeric as float": (Numeric(asdecimal=False), 5),
    "float": (Float(), 2.5),
    "real": (postgresql.REAL(), 2.5),
    "double": (Double(), 2.5),
    "float as decimal": (Float(asdecimal=True), 2.5),
    "boolean": (Boolean(), True),
    "date": (Date(), dt.date(2026, 5, 1)),
    "datetime": (DateTime(), dt.datetime(2026, 5, 1, 8, 0)),  # noqa: DTZ001
    "zoned datetime": (DateTime(timezone=True), dt.datetime(2026, 5, 1, 8, 0, tzinfo=dt.UTC)),
    "moment": (Moment(), dt.datetime(2026, 5, 1, 8, 0, tzinfo=dt.UTC)),
    "timestamp": (postgresql.TIMESTAMP(precision=0), dt.datetime(2026, 5, 1)),  # noqa: DTZ001
    "time": (Time(), dt.time(18, 30)),
    "zoned time": (Time(timezone=True), dt.time(18, 30, tzinfo=dt.UTC)),
    "interval": (Interval(), dt.timedelta(minutes=5)),
    "pg interval": (postgresql.INTERVAL(), dt.timedelta(minutes=5)),
    "enum": (Enum(Course), Course.MAIN),
    "enum of texts": (Enum("a", "b", name="letters"), "a"),
    "enum as text": (Enum(Course, native_enum=False), Course.MAIN),
    "uuid": (Uuid(), uuid.UUID(int=1)),
    "uuid as text": (Uuid(as_uuid=False), str(uuid.UUID(int=1))),
    "uuid in text": (Uuid(native_uuid=False), uuid.UUID(int=1)),
    "json": (JSON(), {"a": [1, "x"]}),
    "jsonb": (postgresql.JSONB(), {"a": [1, "x"]}),
    "bytes": (LargeBinary(), b"x"),
    "pickle": (PickleType(), {"a": 1}),
    "texts": (ARRAY(Text), ["a", "b"]),
    "short texts": (ARRAY(String(5)), ["a", "b"]),
    "integers": (ARRAY(Integer), [1, 2]),
    "numbers": (ARRAY(Numeric), [1, 2]),
    "floats": (ARRAY(Float), [1.5, 2.5]),
    "booleans": (ARRAY(Boolean), [True]),
    "dates": (ARRAY(Date), [dt.date(2026, 5, 1)]),
    "datetimes": (ARRAY(DateTime(timezone=True)), [dt.datetime(2026, 5, 1, tzinfo=dt.UTC)]),
    "times": (ARRAY(Time), [dt.time(18, 30)]),
    "intervals": (ARRAY(Interval), [dt.timedelta(minutes=5)]),
    "uuids": (ARRAY(Uuid), [uuid.UUID(int=1)]),
    "uuids as texts": (ARRAY(Uuid(as_uuid=False)), [str(uuid.UUID(int=1))]),
    "enums": (ARRAY(Enum(Course)), [Course.MAIN]),
    "enums as texts": (ARRAY(Enum(Course, native_enum=False)), [Course.MAIN]),
    "documents": (ARRAY(JSON), [{"a": 1}]),
    "binary documents": (ARRAY(postgresql.JSONB), [{"a": 1}]),
    "lists": (ARRAY(Integer, dimensions=2), [[1, 2], [3, 4]]),
    "lists of words": (ARRAY(Word("inet")), None),
    "inet": (postgresql.INET(), None),
    "cidr": (postgresql.CIDR(), None),
    "macaddr": (postgresql.MACADDR(), None),
    "money": (postgresql.MONEY(), None),
    "bit": (postgresql.BIT(3), None),
    "oid": (postgresql.OID(), None),
    "tsvector": (postgresql.TSVECTOR(), None),
    "int range": (postgresql.INT4RANGE(), None),
    "time range": (postgresql.TSTZRANGE(), None),
    "ranges": (postgresql.INT4MULTIRANGE(), None),
    "word inet": (Word("inet"), None),
    "word xml": (Word("xml"), None),
    "word point": (Word("point"), None),
    "word jsonpath": (Word("jsonpath"), None),
    "word text": (Word("text"), None),
    "integer as text": (AsText(Integer()), "5"),
    "uuid by text": (AsText(Uuid()), None),
    "enum by text": (AsText(Enum("a", "b", name="two")), None),
    "json by text": (AsText(JSON()), None),
    "bytes by text": (AsText(LargeBinary()), None),
}

VALUES: list[Any] = [
    *(None, "", "a", "%a_", "a\\", "MAIN", "x" * 300, "é\u2028", "10.0.0.1", "5", "1e400"),
    *(0, 5, -1, 2.5, 10**12, 10**40, 1e300, True, {}, {"a": 1}, [], [None]),
    *("2026-05-01", "2026-05-01T10:00:00+02:00", "0001-01-01T00:00:00+14:00", "9999-12-31"),
    *("18:30:00", "18:30:00+02:00", "23:59:59-12:00", "PT5M", "P9999999D"),
    str(uuid.UUID(int=1)),
]
OPERATORS = [each for each in get_args(Operator) if each != "similar"]


LISTS = [*([each] for each in VALUES), [["a"]], ["a", None], [1, 2], ["a", "b"]]
# one filter of each operator and value
ASKED = [
    {"field": "value", "op": op, "value": value}
    for op, value in [
        *itertools.product(OPERATORS, [*VALUES, ["a"]]),
        *itertools.product(["=", "!=", "in", "not_in", "contains"], LISTS),
    ]
]


def sample(name: str, answered: Collection[str], operators: Sequence[str]) -> Iterator[Any]:
    """Yield a tenth of the filters, then those of operators that are not answered yet.

    Of ten types that follow each other, each has another tenth. `answered` grows meanwhile.
    """
    yield from ASKED[[*TYPES].index(name) % 10 :: 10]
    yield from (each for each in ASKED if each["op"] in operators and each["op"] not in answered)


def mapped(type_: TypeEngine[Any]) -> type[Any]:
    """Return a class with one column of a type."""

    class Base(DeclarativeBase):
        pass

    class Thing(Base):
        __table__ = Table(
            "things",
            Base.metadata,
            Column("id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
            Column("value", type_),
        )

    return Thing


@pytest.fixture
def thing(tables: Engine, name: str) -> Iterator[type[Any]]:
    """A class with one column of a type, and two rows: one has nothing there."""
    type_, value = TYPES[name]
    thing = mapped(type_)
    thing.metadata.create_all(tables)
    rows = [{"id": uuid.uuid4()}, *([{"value": value}] if value is not None else [{}])]
    with tables.begin() as connection:
        for row in rows:
            connection.execute(thing.__table__.insert().values(**row))
    yield thing
    thing.metadata.drop_all(tables)


# of `MONEY`, which SQLAlchemy 2.1 does not know to be comparable
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Type object:DeprecationWarning")
@pytest.mark.parametrize("name", TYPES)
async def test_a_filter_is_answered_or_refused(
    aio: AsyncRefSession, thing: type[Any], name: str
) -> None:
    """Whatever the type, the operator and the value: no driver's error comes out of a call."""
    toolset = Toolset([thing])
    operators = toolset.tables.by_name("things").column("value").values.operators
    found = dict[str, int]()
    for each in sample(name, found, operators):
        answer = await toolset.call_async(aio, "db_read", {"table": "things", "filters": [each]})
        json.dumps(answer, allow_nan=False)
        if "error" not in answer:
            found[each["op"]] = max(found.get(each["op"], 0), answer["count"])

    assert sorted(found) == sorted(operators)
    assert found["is_null"] == (2 if TYPES[name][1] is None else 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Type object:DeprecationWarning")
@pytest.mark.parametrize("name", TYPES)
def test_drafts_and_rows_are_put_in_order_or_refused(
    session: RefSession, conversation: Conversation, thing: type[Any], name: str
) -> None:
    """Whatever the type, and what a draft has of it; a filter on drafts is decided or refused."""
    toolset = Toolset([thing])
    refs = []
    for each in [*VALUES, *([each] for each in VALUES)]:
        with suppress(DraftContentError):
            refs.append(conversation.draft(thing, {"value": each}).ref)
    toolset.call(session, "db_read", {"table": "things"})
    named = {"field": "id", "op": "in", "value": ["thing_1", "thing_2", *refs]}
    asked = {"table": "things", "filters": [named]}
    column = toolset.tables.by_name("things").column("value")

    for direction in ("asc", "desc"):
        answer = toolset.call(
            session, "db_read", {**asked, "order_by": "value", "order_dir": direction}
        )
        assert ("error" not in answer) is column.values.ordered
    decided = set[str]()
    for each in sample(name, decided, column.values.operators):
        answer = toolset.call(session, "db_read", {**asked, "filters": [named, each]})
        if "its column cannot have" in str(answer):  # so says the database; others have values
            of_one = [{**named, "op": "=", "value": ref} for ref in refs]
            answers = (
                toolset.call(session, "db_read", {**asked, "filters": [one, each]})
                for one in of_one
            )
            answer = next((one for one in answers if "error" not in one), answer)
        decided |= {each["op"]} if "error" not in answer else set()
    assert decided == {*column.values.operators}
