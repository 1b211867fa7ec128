"""A small shop of two customers, for the tests of integrations: six tables, and a toolset on them.

Each customer sees their own rows, and the goods that are everybody's. Keys are UUIDs, and integers
that no other number in the shop looks like, so that `keys_in` finds both in what a model was sent.
A write that says `CRASH` meets a fault of the program's, which tells all it knows.
"""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, Date, ForeignKey, Numeric, Text, Uuid, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Ownership
from alfred_refs.tools import Hooks, Toolset, Writing

ADA = uuid.UUID("5eed0000-0000-4000-8000-00000000ada0")
BOB = uuid.UUID("5eed0000-0000-4000-8000-00000000b0b0")
CRASH = "crash"

FIRST_KEY = 7_430_000_000  # keys that are integers begin here

ANOTHER_LINE = """
    INSERT INTO order_lines (id, order_id, product_id, position, quantity)
    SELECT gen_random_uuid(), order_id, product_id, 2, 1 FROM order_lines
"""


class Base(DeclarativeBase):
    """Declarative base of the shop."""


def uuid_key() -> Any:
    """Return a primary key that is a UUID."""
    return mapped_column(Uuid, primary_key=True, default=uuid.uuid4)


class Customer(Base):
    """A person, who is their own owner."""

    __tablename__ = "customers"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = uuid_key()
    name: Mapped[str] = mapped_column(Text)


class Address(Base):
    """Where things are sent."""

    __tablename__ = "addresses"
    __ref_label__ = "street"

    id: Mapped[uuid.UUID] = uuid_key()
    customer_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("customers.id"))
    street: Mapped[str] = mapped_column(Text)


class Category(Base):
    """A kind of goods; everybody's."""

    __tablename__ = "categories"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(Text, unique=True)


class Product(Base):
    """What is sold; everybody's."""

    __tablename__ = "products"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    category_id: Mapped[int] = mapped_column(ForeignKey("categories.id"))
    name: Mapped[str] = mapped_column(Text, unique=True)
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))


class Order(Base):
    """What a customer has ordered."""

    __tablename__ = "orders"
    __ref_label__ = "note"

    id: Mapped[uuid.UUID] = uuid_key()
    customer_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("customers.id"))
    placed: Mapped[dt.date] = mapped_column(Date)
    note: Mapped[str] = mapped_column(Text)

    lines: Mapped[list[OrderLine]] = relationship(
        back_populates="order", cascade="all, delete-orphan", order_by="OrderLine.position"
    )


class OrderLine(Base):
    """How many of a product."""

    __tablename__ = "order_lines"

    id: Mapped[uuid.UUID] = uuid_key()
    order_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("orders.id"))
    product_id: Mapped[int] = mapped_column(ForeignKey("products.id"))
    position: Mapped[int]
    quantity: Mapped[int]

    order: Mapped[Order] = relationship(back_populates="lines")
    product: Mapped[Product] = relationship()


MODELS = [Customer, Address, Category, Product, Order, OrderLine]


class OrderHooks(Hooks):
    """A fault of the program's: its text has a key, as that of a driver may."""

    def before_write(self, write: Writing) -> None:
        """Fail where a note asks for it."""
        if any(record.get("note") == CRASH for record in write.records):
            raise RuntimeError(f"could not reach the warehouse of {ADA}, product {FIRST_KEY + 11}")


def ownership() -> Ownership:
    """Return whose rows are whose."""
    return Ownership(
        {Customer: "id", Address: "customer_id", Order: "customer_id", OrderLine: "order"},
        open=[Category, Product],
    )


def toolset(owner: Ownership | None) -> Toolset:
    """Return tools on the shop: of one customer each, or of nobody."""
    return Toolset(
        MODELS,
        owner=owner,
        read_only=[Customer, Category, Product],
        hooks={Order: [OrderHooks()]},
        expect="optional",
    )


def stock(session: Session) -> None:
    """Add the rows: each customer has one order, of one line."""
    tea, cup = FIRST_KEY + 1, FIRST_KEY + 2
    session.add_all([Customer(id=ADA, name="Ada"), Customer(id=BOB, name="Bob")])
    session.add_all([Category(id=tea, name="tea"), Category(id=cup, name="cups")])
    session.flush()
    session.add_all(
        [
            Product(
                id=FIRST_KEY + 11, category_id=tea, name="Gyokuro 玉露", price=Decimal("24.90")
            ),
            Product(
                id=FIRST_KEY + 12, category_id=cup, name="Großer Becher", price=Decimal("8.00")
            ),
            Address(customer_id=ADA, street="Wollzeile 1"),
            Address(customer_id=BOB, street="Hohe Straße 2"),
        ]
    )
    session.flush()
    for customer, note in ((ADA, "for Ada"), (BOB, "for Bob")):
        line = OrderLine(product_id=FIRST_KEY + 11, position=1, quantity=2)
        day = dt.date(2026, 11, 24)
        session.add(Order(customer_id=customer, placed=day, note=note, lines=[line]))
    session.flush()


def keys_in(session: Session, *texts: str) -> list[str]:
    """Return the keys of the shop's rows that stand in texts, those of new rows too."""
    tables = Base.metadata.sorted_tables
    keys = {key for table in tables for key in session.scalars(select(table.c.id))}
    spelled = {form for key in keys for form in _spellings(key)}
    return sorted(form for form in spelled if any(form in text.lower() for text in texts))


def _spellings(key: uuid.UUID | int) -> tuple[str, ...]:
    return (str(key), key.hex) if isinstance(key, uuid.UUID) else (str(key),)
