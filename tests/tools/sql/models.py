"""The tables of a shop with two owners: keys of both kinds, and values of every type."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, Enum, ForeignKey, Integer, Numeric, String, Text, Uuid
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import Ownership


class Base(DeclarativeBase):
    """Declarative base of the shop."""


class Status(enum.Enum):
    """Whether a product is sold."""

    draft = "draft"
    sold = "on sale"  # the database has the name
    gone = "gone"


class User(Base):
    """Whose rows are whose; no model sees it."""

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)


class Category(Base):
    """Of no owner, with integer keys; each may be in another."""

    __tablename__ = "categories"
    __ref_label__ = "name"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    name: Mapped[str]
    parent_id: Mapped[Any] = mapped_column(ForeignKey("categories.id"), nullable=True)


class Product(Base):
    """Owned, or shared by all, with values of all types, and some that are hidden."""

    __tablename__ = "products"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    category_id: Mapped[Any] = mapped_column(ForeignKey("categories.id"), nullable=True)
    replaces_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("products.id"), nullable=True)
    name: Mapped[str] = mapped_column(Text)
    code: Mapped[str | None] = mapped_column(String(20))
    price: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    weight: Mapped[float | None]
    stock: Mapped[int]
    active: Mapped[bool | None]
    status: Mapped[Status] = mapped_column(Enum(Status, name="status"))
    made_on: Mapped[dt.date | None]
    seen_at: Mapped[dt.datetime | None]
    lasts: Mapped[dt.timedelta | None] = mapped_column(INTERVAL)
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text))
    goes_with: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": "products.id"})
    info: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    device: Mapped[uuid.UUID | None]
    secret: Mapped[str] = mapped_column(Text)


class Order(Base):
    """Owned, with integer keys."""

    __tablename__ = "orders"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    placed_on: Mapped[dt.date]
    note: Mapped[str | None]

    lines: Mapped[list[Line]] = relationship(back_populates="order")


class Line(Base):
    """Owned by whom its order is; its key is of two columns."""

    __tablename__ = "lines"

    order_id: Mapped[Any] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("products.id"), nullable=True)
    quantity: Mapped[int]
    price: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))

    order: Mapped[Order] = relationship(back_populates="lines")


class Vault(Base):
    """Of no toolset."""

    __tablename__ = "vault"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


def ownership() -> Ownership:
    """Return how the rows belong."""
    return Ownership(
        {Product: "owner_id", Order: "owner_id", Line: "order"}, shared=[Product], open=[Category]
    )
