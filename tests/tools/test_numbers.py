"""Numbers that a JSON client would round are texts, and these texts come back as the numbers."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from mcp import Client
from sqlalchemy import ARRAY, BigInteger, Engine, ForeignKey, Numeric, create_engine, select
from sqlalchemy.dialects.postgresql import JSONB, NUMRANGE
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.integrations.mcp import server_of
from alfred_refs.tools import BoundToolset, Toolset
from alfred_refs.tools.serialization import MAX_INTEGER, is_integer_text, is_plain, restore
from tests.tools.conftest import by, save

BIG = MAX_INTEGER + 1
"""The least integer that is no exact float."""

SHOWN = str(BIG)


class Base(DeclarativeBase):
    """Declarative base of the accounts."""


class Account(Base):
    """Has large numbers by columns of each type that may hold them."""

    __tablename__ = "accounts"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    name: Mapped[str]
    serial: Mapped[int | None] = mapped_column(BigInteger)
    price: Mapped[Decimal | None] = mapped_column(Numeric(8, 2))
    balance: Mapped[Decimal | None] = mapped_column(Numeric(30, 10))
    serials: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    document: Mapped[Any] = mapped_column(JSONB, nullable=True)
    wei: Mapped[Decimal | None] = mapped_column(Numeric(78, 0))
    rate: Mapped[Decimal | None] = mapped_column(Numeric(60, 40))
    weis: Mapped[list[Decimal] | None] = mapped_column(ARRAY(Numeric(78, 0)))
    span: Mapped[Any] = mapped_column(NUMRANGE, nullable=True)
    entries: Mapped[list[Entry]] = relationship(order_by="Entry.position")


class Entry(Base):
    """One of a list of rows in an account."""

    __tablename__ = "entries"

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    position: Mapped[int]
    serial: Mapped[int] = mapped_column(BigInteger)


class Token(Base):
    """Has a key of decimal digits."""

    __tablename__ = "tokens"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    text: Mapped[str]
    number: Mapped[Decimal] = mapped_column(Numeric)


@pytest.fixture
def accounts(database_url: str) -> Iterator[Engine]:
    """A database with one account, whose key is as large as its numbers."""
    engine = create_engine(database_url)
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    with Session(engine) as plain:
        entry = Entry(position=1, serial=-BIG)
        document = {"n": BIG, "list": [BIG, 1], "text": SHOWN}
        values = {"serial": BIG, "serials": [BIG, 1], "document": document}
        plain.add(Account(id=BIG, name="Ann", entries=[entry], **values))
        plain.commit()
    yield engine
    engine.dispose()


class Desk:
    """Calls a toolset as a client that reads JSON numbers as floats."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        toolset = Toolset([Account, Entry], expect="optional", sql=True, drafts=True)
        registry = RefRegistry(engine)
        self.bound: BoundToolset = toolset.bind(
            sessionmaker(engine, class_=RefSession), registry=registry
        )

    def __call__(self, tool: str, **arguments: Any) -> Any:
        """Return the answer to a call."""
        answer = self.bound.call("chat-7", None, tool, arguments)
        return json.loads(answer.text, parse_int=lambda digits: int(float(digits)))

    def stored(self) -> Account:
        """Return the account as it is stored."""
        with Session(self.engine) as plain:
            return plain.scalars(select(Account)).one()


@pytest.fixture
def desk(accounts: Engine) -> Desk:
    """The toolset of the accounts."""
    return Desk(accounts)


COLUMNS = ["serial", "serials", "document"]


ONLY = by("id", "account_1")
DOCUMENT = {"n": SHOWN, "list": [SHOWN, 1], "text": SHOWN}


def test_a_float_holds_each_integer_that_is_a_number() -> None:
    """And not the next one; texts begin there, on both sides of zero."""
    assert float(MAX_INTEGER) == MAX_INTEGER
    assert int(float(BIG)) != BIG
    assert [is_plain(each) for each in (MAX_INTEGER, -MAX_INTEGER, BIG, -BIG)] == [
        True,
        True,
        False,
        False,
    ]


def test_reads_show_large_integers_as_texts(desk: Desk) -> None:
    """In columns, lists, documents and rows inside of rows; keys of this size are refs."""
    [row] = desk("db_read", table="accounts", columns=[*COLUMNS, "entries"])["rows"]

    assert row["id"] == "account_1"
    assert (row["serial"], row["serials"], row["document"]) == (SHOWN, [SHOWN, 1], DOCUMENT)
    assert row["entries"][0]["serial"] == f"-{SHOWN}"


def test_totals_and_sql_show_large_integers_as_texts(desk: Desk) -> None:
    """Sums too, which may be larger than the column has room for."""
    asked = ["max(serial)", "sum(serial)", "count(*)"]
    totals = desk("db_read", table="accounts", columns=asked)["totals"]
    rows = desk("db_query", sql="select serial, document, sum(serial) from accounts group by 1, 2")

    assert totals == [{"max(serial)": SHOWN, "sum(serial)": SHOWN, "count(*)": 1}]
    assert rows["rows"][0][:2] == [SHOWN, DOCUMENT]
    assert rows["rows"][0][2] == SHOWN


@pytest.mark.parametrize(
    ("field", "op", "value"),
    [
        ("serial", "=", SHOWN),
        ("serial", "in", [SHOWN, 1]),
        ("serials", "contains", [SHOWN]),
        ("entries.serial", "=", f"-{SHOWN}"),
        ("document", "contains", {"list": [SHOWN]}),
        ("document", "contains", {"text": SHOWN}),
    ],
)
def test_filters_take_the_texts(desk: Desk, field: str, op: str, value: Any) -> None:
    """And find the row; in a document, one that has the integer or the text."""
    asked = {"field": field, "op": op, "value": value}

    assert desk("db_read", table="accounts", filters=[asked])["count"] == 1
    assert desk("db_read", table="accounts", filters=[{"not": asked}])["count"] == 0


def test_what_was_shown_is_written_back_unchanged(desk: Desk) -> None:
    """Integers in documents stay integers, and texts of digits next to them stay texts."""
    [row] = desk("db_read", table="accounts", columns=COLUMNS)["rows"]
    data = {name: row[name] for name in COLUMNS}
    before = desk.stored()
    answer = desk("db_update", table="accounts", filters=ONLY, data=data, expect=data)

    now = desk.stored()
    assert answer["rows"][0]["document"] == DOCUMENT
    assert (now.serial, now.serials) == (before.serial, before.serials)
    assert repr(now.document) == repr(before.document)


def test_expect_is_compared_with_what_was_shown(desk: Desk) -> None:
    """One digit less is another number, in a column and in a document."""
    other = str(BIG + 1)
    desk("db_read", table="accounts")
    for expect in ({"serial": other}, {"document": {**DOCUMENT, "n": other}}):
        error = desk(
            "db_update", table="accounts", filters=ONLY, data={"name": "B"}, expect=expect
        )
        assert error["error"]["code"] == "unexpected_row"


def test_a_new_document_has_the_texts_that_a_model_gives(desk: Desk) -> None:
    """A text of digits is more often a name of something than a number."""
    data = {"name": "Bob", "serial": SHOWN, "document": {"parcel": SHOWN}}
    row = desk("db_create", table="accounts", data={**data, "balance": "0.1"})["rows"][0]

    assert (row["serial"], row["document"]) == (SHOWN, {"parcel": SHOWN})
    texts = desk("db_query", sql="select jsonb_typeof(document->'parcel') from accounts")
    assert ["string"] in texts["rows"]


def test_lists_in_documents_keep_their_integers(desk: Desk) -> None:
    """The item that is edited and the others, with `expect` as they were shown."""
    desk("db_read", table="accounts")
    expected = {"table": "accounts", "row": "account_1", "list": "serials"}
    edit = {"action": "modify", "path": [1], "data": str(BIG + 1), "expect": SHOWN}
    answer = desk("db_edit_list", **expected, edits=[edit])
    assert answer["items"] == {"1": str(BIG + 1), "2": 1}

    items = [{"n": BIG, "label": "a"}, {"n": 1}]
    with Session(desk.engine) as plain:
        plain.scalars(select(Account)).one().document = items
        plain.commit()
    edits = [
        {
            "action": "modify",
            "path": [1],
            "data": {"n": SHOWN, "label": "b"},
            "expect": {"n": SHOWN},
        },
        {"action": "move", "path": [2], "to": 1},
    ]
    desk("db_edit_list", **{**expected, "list": "document"}, edits=edits)
    assert desk.stored().document == [{"n": 1}, {"n": BIG, "label": "b"}]


def test_drafts_are_shown_and_saved_with_large_integers(desk: Desk) -> None:
    """Given as numbers or as texts, compared by filters and `expect`, and kept in documents."""
    data = {"name": "Draft", "serial": SHOWN, "document": {"n": BIG}}
    made = desk("db_create", table="accounts", data=data, draft=True)["rows"][0]
    assert (made["serial"], made["document"]) == (SHOWN, {"n": SHOWN})

    named = {"field": "id", "op": "=", "value": made["id"]}
    for column, op, value in (("serial", "=", SHOWN), ("document", "contains", {"n": SHOWN})):
        also = {"field": column, "op": op, "value": value}
        assert desk("db_read", table="accounts", filters=[named, also])["count"] == 1
    given = {"n": SHOWN, "more": 1}
    desk(
        "db_update",
        table="accounts",
        filters=[named],
        data={"document": given},
        expect={"serial": SHOWN, "document": {"n": SHOWN}},
    )
    desk("db_create", table="accounts", from_draft=made["id"], expect="Draft")
    kinds = desk(
        "db_query",
        sql="select serial, jsonb_typeof(document->'n') from accounts where name = 'Draft'",
    )
    assert kinds["rows"] == [[SHOWN, "number"]]


def test_prompts_and_mcp_show_the_texts(desk: Desk) -> None:
    """As answers do."""
    desk("db_read", table="accounts")
    prompt = Context(desk.bound.conversation("chat-7", None)).render("act")
    assert f'"serial": "{SHOWN}"' in prompt
    assert f'"n": "{SHOWN}"' in prompt

    async def read() -> Any:
        async with Client(server_of(desk.bound, name="accounts")) as client:
            asked = {"table": "accounts", "columns": ["serial"]}
            return (await client.call_tool("db_read", asked)).structured_content

    assert asyncio.run(read())["rows"] == [{"id": "account_1", "serial": SHOWN}]


def test_the_description_says_where_texts_may_be(desk: Desk) -> None:
    """A price of few digits is a number."""
    described = desk.bound.toolset.describe(["accounts"])

    assert "serial?: integer or string\n" in described
    assert "price?: number, 2 decimals\n" in described
    assert "balance?: number or string, 10 decimals\n" in described
    assert "serials?: [integer or string]\n" in described


@pytest.mark.parametrize(
    ("given", "stored", "restored"),
    [
        (SHOWN, BIG, BIG),
        (SHOWN, "text", SHOWN),
        ([SHOWN, "1"], ["1", BIG], [BIG, "1"]),
        ({"a": SHOWN, "b": SHOWN}, {"a": SHOWN, "b": BIG}, {"a": SHOWN, "b": BIG}),
        ({"moved": SHOWN}, {"n": [BIG]}, {"moved": BIG}),
        (["9" * 1_000], [10**1_000 - 1], [10**1_000 - 1]),
    ],
)
def test_integers_are_restored_from_the_stored_document(
    given: Any, stored: Any, restored: Any
) -> None:
    """Also at another place; a text that is stored there is a text."""
    assert repr(restore(given, stored)) == repr(restored)


def test_only_what_answers_write_is_the_text_of_an_integer() -> None:
    """No sign, zero or space that they do not write."""
    texts = [SHOWN, f"-{SHOWN}", f"+{SHOWN}", f"0{SHOWN}", f"{SHOWN} ", str(MAX_INTEGER), "1.0"]

    assert [each for each in texts if is_integer_text(each)] == [SHOWN, f"-{SHOWN}"]


# Numbers with as many digits as a key

LONG = [
    "12345678901234567890123456789012",  # as many digits as a UUID
    "1234567890123456789012345678901234567890",
    str(2**256 - 1),
]
RATE = f"0.{'3' * 40}"


@pytest.fixture
def long(desk: Desk) -> Desk:
    """The toolset, with an account for each long number."""
    with Session(desk.engine) as plain:
        for n, each in enumerate(LONG, start=1):
            amount = Decimal(each)
            values = {"wei": amount, "rate": Decimal(RATE), "weis": [amount]}
            document = {"text": each, each: Decimal(each) == 0}
            plain.add(Account(id=n, name=each, document=document, span=f"[1,{each}]", **values))
        plain.commit()
    return desk


def test_numbers_are_not_taken_for_keys(long: Desk) -> None:
    """In columns, lists, ranges, totals and what SQL makes of them."""
    asked = ["name", "wei", "rate", "weis", "span"]
    filters = [{"field": "wei", "op": "is_not_null"}]
    rows = long("db_read", table="accounts", columns=asked, filters=filters)["rows"]
    assert [
        (row["wei"], row["rate"], row["weis"], row["span"]["upper"], row["name"]) for row in rows
    ] == [(each, RATE, [each], each, each) for each in LONG]

    total = long("db_read", table="accounts", columns=["sum(wei)", "max(wei)"])["totals"]
    assert total == [{"sum(wei)": str(sum(map(int, LONG))), "max(wei)": LONG[-1]}]
    groups = long("db_read", table="accounts", columns=["wei", "count(*)"], filters=filters)
    assert {each["wei"] for each in groups["totals"]} == {*LONG}
    sql = "select wei, 0 - wei, weis, wei::text as t, rate from accounts where rate > 0 order by 1"
    assert long("db_query", sql=sql)["rows"] == [
        [each, f"-{each}", [each], each, RATE] for each in LONG
    ]


@pytest.mark.parametrize("number", LONG)
def test_long_numbers_are_taken_as_they_are_shown(long: Desk, number: str) -> None:
    """In filters, data, `expect` and drafts."""
    [row] = long("db_read", table="accounts", filters=by("wei", number))["rows"]
    only = by("id", row["id"])
    changed = long(
        "db_update",
        table="accounts",
        filters=only,
        data={"wei": "1", "document": {"was": number}},
        expect={"wei": number},
    )
    assert changed["rows"][0]["document"] == {"was": number}
    data = {"name": "Draft", "wei": number}
    draft = long("db_create", table="accounts", data=data, draft=True)["rows"][0]
    assert draft["wei"] == number
    saved = long("db_create", table="accounts", from_draft=draft["id"], expect="Draft")
    assert saved["rows"][0]["wei"] == number


def test_digits_in_a_text_are_covered_if_a_row_has_them_as_its_key(accounts: Engine) -> None:
    """Others are shown; a column of numbers shows them in any case."""
    key = uuid.UUID(LONG[0])
    with Session(accounts) as plain:
        token = Token(id=key, text=f"{key.hex} {LONG[0][::-1]}", number=Decimal(LONG[0]))
        plain.add(token)
        plain.commit()
    sessions = sessionmaker(accounts, class_=RefSession)
    desk = Toolset([Token]).bind(sessions, registry=RefRegistry(accounts))

    row = desk.call("chat-7", None, "db_read", {"table": "tokens"}).value["rows"][0]
    assert row == {"id": "token_1", "text": f"<token_1:hex> {LONG[0][::-1]}", "number": LONG[0]}


def test_sql_shows_a_text_that_is_a_key_as_its_mark(desk: Desk) -> None:
    """As `db_read` does; a number of as many digits is shown."""
    key = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
    save(desk.engine, Account(id=1, name=str(key)), Account(id=2, name=LONG[0]))

    asked = "select name, upper(name) from accounts where serial is null order by name desc"
    rows = desk("db_query", sql=asked)["rows"]
    assert rows == [["<key_1>", "<key_1:upper>"], [LONG[0], LONG[0]]]
    shown = desk("db_read", table="accounts", columns=["name"])["rows"]
    assert {row["name"] for row in shown} == {LONG[0], "<key_1>", "Ann"}
