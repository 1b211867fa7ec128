"""Values are compared as their column stores them, of drafts as of rows, with every driver."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import ARRAY, CHAR, Engine, Numeric, String
from sqlalchemy.dialects.postgresql import INTERVAL, REAL, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import AsyncRefSession, Conversation, DraftContentError
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Sample(Base):
    """Has columns that do not store every value as it is given."""

    __tablename__ = "samples"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[Any] = mapped_column(CHAR(5), nullable=True)
    sign: Mapped[Any] = mapped_column(CHAR, nullable=True)
    single: Mapped[Any] = mapped_column(REAL, nullable=True)
    price: Mapped[Any] = mapped_column(Numeric(8, 2), nullable=True)
    cost: Mapped[Any] = mapped_column(Numeric(8, 2, asdecimal=False), nullable=True)
    at: Mapped[Any] = mapped_column(TIMESTAMP(precision=3), nullable=True)
    lasts: Mapped[Any] = mapped_column(INTERVAL, nullable=True)
    codes: Mapped[Any] = mapped_column(ARRAY(CHAR(3)), nullable=True)
    singles: Mapped[Any] = mapped_column(ARRAY(REAL), nullable=True)
    prices: Mapped[Any] = mapped_column(ARRAY(Numeric(8, 2)), nullable=True)
    words: Mapped[Any] = mapped_column(ARRAY(String(3)), nullable=True)


CONTENT: dict[str, Any] = {
    "code": "ab",
    "sign": " ",
    "single": 123456789,
    "price": 10,
    "cost": 10,
    "at": "2026-05-01T18:30:00.123",
    "lasts": "PT0.1S",
    "codes": ["a", "bcd"],
    "singles": [0.1, 16777217],
    "prices": [10],
    "words": ["abc"],
}

# column, operator, value, and whether the content has it
ASKED: list[tuple[str, str, Any, bool]] = [
    ("code", "=", "ab  ", True),
    ("code", "=", "ab       ", True),
    ("code", "in", ["ab "], True),
    ("code", "=", "abcdef", False),
    ("code", "<", "abcdef", True),
    ("code", "ilike", "ab", False),
    ("code", "ilike", "AB%", True),
    ("code", "ilike", "ab   ", True),
    ("sign", "=", " ", True),
    ("sign", "ilike", "_", True),
    ("single", "=", 123456792, True),
    ("single", "in", [123456789], True),
    ("single", ">", 123456789, False),
    ("price", "=", 9.999, False),
    ("price", ">", 9.999, True),
    ("price", "in", [9.999], False),
    ("cost", "=", 9.999, False),
    ("cost", ">", 9.999, True),
    ("codes", "contains", ["a  "], True),
    ("codes", "=", ["a", "bcd"], True),
    ("singles", "contains", [16777216], True),
    ("singles", "=", [0.1, 16777217], True),
    ("lasts", "=", "PT0.1000000000S", True),
]

# column, operator and value that would be another one in a statement -> what is told
REFUSED: list[tuple[str, str, Any, str]] = [
    ("single", "<", 1e300, "a number"),
    ("single", ">", 1e-300, "a number"),
    ("prices", "contains", [9.999], "at most 2 decimals"),
    ("prices", "=", [9.999], "at most 2 decimals"),
    ("words", "contains", ["abcd"], "at most 3 characters"),
    ("codes", "contains", ["abcd"], "at most 3 characters"),
    ("at", ">", "2026-05-01T18:30:00.1234567", "at most 6 digits of a second"),
    ("at", "=", "2026-05-01T18:30:00.1234", "at most 3 digits of a second"),
    ("at", "in", ["2026-05-01T18:30:00.1234"], "at most 3 digits of a second"),
    ("lasts", "=", "PT0.1000001S", "at most 6 digits of a second"),
]


EVERY: list[tuple[str, str, Any, bool | str]] = [*ASKED, *REFUSED]


@pytest.fixture
def samples(tables: Engine) -> Iterator[None]:
    """One row that has the same as drafts."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        values = {"at": "2026-05-01 18:30:00.123", "lasts": "0.1", "prices": [Decimal(10)]}
        values["singles"] = [0.1, 16777217.0]
        plain.add(Sample(**CONTENT | values))
        plain.commit()
    yield
    Base.metadata.drop_all(tables)


@pytest.mark.usefixtures("samples")
async def test_drafts_are_compared_as_rows_are(aio: AsyncRefSession, chat: Conversation) -> None:
    """What SQL finds of rows is found of drafts; what a cast would change is refused for both."""
    draft = await aio.run_sync(lambda _: chat.draft(Sample, CONTENT).ref)
    toolset = Toolset([Sample])
    await toolset.call_async(aio, "db_read", {"table": "samples"})

    async def asked(column: str, op: str, value: Any, name: str) -> dict[str, Any]:
        filters = [
            {"field": "id", "op": "=", "value": name},
            {"field": column, "op": op, "value": value},
        ]
        return await toolset.call_async(aio, "db_read", {"table": "samples", "filters": filters})

    wrong = []
    for name in ("sample_1", draft):
        for column, op, value, wanted in EVERY:
            answer = await asked(column, op, value, name)
            found = answer["count"] if "count" in answer else answer["error"]["message"]
            is_right = found == wanted or (isinstance(wanted, str) and wanted in str(found))
            wrong += [] if is_right else [(name, column, op, value, answer)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    "content",
    [
        {"at": "2026-05-01T18:30:00.1234"},
        {"at": "2026-05-01T18:30:00.1230001"},
        {"lasts": "PT0.0000001S"},
        {"single": 1e39},
    ],
)
def test_what_a_column_would_round_is_no_content(
    conversation: Conversation, content: dict[str, Any]
) -> None:
    """Digits of a second that there is no room for, and numbers that would be none."""
    with pytest.raises(DraftContentError, match="does not fit"):
        conversation.draft(Sample, content)
