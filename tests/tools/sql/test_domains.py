"""Columns of domains: they have the functions and operators of the types below."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    CHAR,
    Date,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    create_engine,
)
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset

# SQLAlchemy 2.1 warns of operators of its own type
pytestmark = pytest.mark.filterwarnings("ignore:.*DOMAIN.*operator_classes")


class Base(DeclarativeBase):
    """Declarative base of the goods."""

    metadata = MetaData()


def _domain(name: str, type_: Any) -> Any:
    return DOMAIN(name, type_, metadata=Base.metadata)


_price = _domain("price", Numeric(6, 2))


class Good(Base):
    """Has domains alone, and one of a domain."""

    __tablename__ = "goods"

    id: Mapped[Any] = mapped_column(_domain("good_key", Integer), primary_key=True)
    name: Mapped[Any] = mapped_column(_domain("short_name", String(8)))
    code: Mapped[Any] = mapped_column(_domain("padded", CHAR(4)))
    price: Mapped[Any] = mapped_column(_domain("low_price", _price))
    stock: Mapped[Any] = mapped_column(_domain("small_count", Integer))
    made_on: Mapped[Any] = mapped_column(_domain("past_day", Date))
    prices: Mapped[Any] = mapped_column(ARRAY(_price))


@pytest.fixture
def session(database_url: str) -> Iterator[RefSession]:
    """A session on two goods."""
    engine: Engine = create_engine(database_url)
    Base.metadata.create_all(engine)
    registry = RefRegistry(engine)
    registry.create_tables()
    with Session(engine) as plain, plain.begin():
        for key, name, price in ((1, "cup", "2.50"), (2, "jug", "7.00")):
            money = Decimal(price)
            values = {"stock": key * 10, "made_on": dt.date(2026, 5, key)}
            plain.add(Good(id=key, name=name, code="a", price=money, prices=[money], **values))
    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        yield session
    engine.dispose()


@pytest.mark.parametrize(
    ("selected", "values"),
    [
        ("sum(stock), avg(stock), min(stock), max(stock)", [30, 15.0, 10, 20]),
        ("sum(price), max(price)", [9.5, 7.0]),
        ("sum(price * stock), sum(-stock)", [165.0, -30]),
        ("round(avg(price), 1), sum(abs(stock) % 7)", [4.8, 9]),
        ("min(made_on), max(made_on - date '2026-01-01')", ["2026-05-01", 121]),
        ("array_agg(name order by name), max(upper(name))", [["cup", "jug"], "JUG"]),
        ("sum(greatest(stock, 15)), max(coalesce(price, 0))", [35, 7.0]),
        ("count(*) filter (where price > 2.5 and made_on > '2026-05-01' and name = 'jug')", [1]),
        ("max(prices[1]), max(code)", [7.0, "a   "]),
        ("sum(stock) filter (where 7 = any(prices)), count(distinct id)", [20, 2]),
        ("sum((select sum(p) from (select unnest(prices) as p from goods) each))", [19.0]),
    ],
)
def test_a_domain_is_computed_with(session: RefSession, selected: str, values: list[Any]) -> None:
    """As its base type in aggregates, arithmetic, comparisons and lists."""
    toolset = Toolset([Good], sql=True)
    answer = toolset.call(session, "db_query", {"sql": f"select {selected} from goods"})
    assert answer.get("rows") == [values], answer


def test_columns_of_domains_are_shown_as_read(session: RefSession) -> None:
    """The cast to the base type changes no value."""
    toolset = Toolset([Good], sql=True)
    [read] = toolset.call(session, "db_read", {"table": "goods", "limit": 1})["rows"]
    answer = toolset.call(session, "db_query", {"sql": "select * from goods order by id limit 1"})
    assert dict(zip(answer["columns"], answer["rows"][0], strict=True)) == read
