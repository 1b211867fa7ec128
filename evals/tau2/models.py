"""The shop of tau2-bench as SQLAlchemy models; its own ids are codes that no model sees.

Order numbers are what customers say, and stay as they are.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from sqlalchemy import ARRAY, Double, ForeignKey, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

Key = Annotated[uuid.UUID, mapped_column(primary_key=True)]
Code = Annotated[str, mapped_column(unique=True)]
Document = Annotated[Any, mapped_column(JSONB)]
Items = Annotated[
    list[uuid.UUID] | None, mapped_column(ARRAY(Uuid), info={"ref": "items.id"}, nullable=True)
]
SomeMethod = Annotated[uuid.UUID | None, mapped_column(ForeignKey("payment_methods.id"))]


class Base(DeclarativeBase):
    """Declarative base of the shop."""

    type_annotation_map = {str: Text, float: Double}  # noqa: RUF012  # SQLAlchemy's name


class Product(Base):
    """What is sold, in variants."""

    __tablename__ = "products"
    __ref_label__ = "name"

    id: Mapped[Key]
    code: Mapped[Code]
    name: Mapped[str]

    items: Mapped[list[Item]] = relationship(back_populates="product")


class Item(Base):
    """A variant of a product."""

    __tablename__ = "items"

    id: Mapped[Key]
    code: Mapped[Code]
    product_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("products.id"))
    options: Mapped[Document]
    available: Mapped[bool]
    price: Mapped[float]

    product: Mapped[Product] = relationship(back_populates="items")


class User(Base):
    """A customer."""

    __tablename__ = "users"
    __ref_label__ = "email"

    id: Mapped[Key]
    code: Mapped[Code]
    first_name: Mapped[str]
    last_name: Mapped[str]
    email: Mapped[str]
    address: Mapped[Document]

    payment_methods: Mapped[list[PaymentMethod]] = relationship()
    orders: Mapped[list[Order]] = relationship(order_by="Order.place", back_populates="user")


class PaymentMethod(Base):
    """How a customer pays; of a gift card its balance."""

    __tablename__ = "payment_methods"
    __ref_label__ = "source"

    id: Mapped[Key]
    code: Mapped[Code]
    user_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("users.id"))
    source: Mapped[str]
    brand: Mapped[str | None]
    last_four: Mapped[str | None]
    balance: Mapped[float | None]


class Order(Base):
    """An order, with what was asked for since."""

    __tablename__ = "orders"
    __ref_label__ = "number"

    id: Mapped[Key]
    number: Mapped[Code]
    user_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("users.id"))
    place: Mapped[int]
    address: Mapped[Document]
    status: Mapped[str]
    cancel_reason: Mapped[str | None]
    exchange_items: Mapped[Items]
    exchange_new_items: Mapped[Items]
    exchange_payment_method_id: Mapped[SomeMethod]
    exchange_price_difference: Mapped[float | None]
    return_items: Mapped[Items]
    return_payment_method_id: Mapped[SomeMethod]

    user: Mapped[User] = relationship(back_populates="orders")
    items: Mapped[list[OrderItem]] = relationship(order_by="OrderItem.place")
    payment_history: Mapped[list[Payment]] = relationship(order_by="Payment.place")
    fulfillments: Mapped[list[Fulfillment]] = relationship(order_by="Fulfillment.place")


class _Part:
    """Stands in a list of an order's."""

    id: Mapped[Key] = mapped_column(default=uuid.uuid4)
    order_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("orders.id"), index=True)
    place: Mapped[int]


class OrderItem(_Part, Base):
    """A line of an order: an item at the price of then."""

    __tablename__ = "order_items"

    name: Mapped[str]
    product_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("products.id"))
    item_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("items.id"))
    price: Mapped[float]
    options: Mapped[Document]


class Payment(_Part, Base):
    """A payment or refund."""

    __tablename__ = "payments"

    transaction_type: Mapped[str]
    amount: Mapped[float]
    payment_method_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("payment_methods.id"))


class Fulfillment(_Part, Base):
    """What was sent together."""

    __tablename__ = "fulfillments"

    tracking_id: Mapped[list[str]] = mapped_column(ARRAY(Text))
    item_ids: Mapped[Items]
