"""Tables of a shop, with the ways in which a database changes rows along with others."""

from __future__ import annotations

import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    DDL,
    JSON,
    Column,
    Computed,
    DateTime,
    ForeignKey,
    Identity,
    LargeBinary,
    Numeric,
    Table,
    UniqueConstraint,
    Uuid,
    event,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """The base of the tables."""


order_labels = Table(
    "stall_order_labels",
    Base.metadata,
    Column("order_id", ForeignKey("stall_orders.id")),
    Column("label_id", ForeignKey("stall_labels.id")),
)


class StallOrder(Base):
    """An order: a trigger writes its status in capitals."""

    __tablename__ = "stall_orders"
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    status: Mapped[str | None]
    total: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    doubled: Mapped[Decimal | None] = mapped_column(Numeric(12, 2), Computed("total * 2"))
    wanted_in: Mapped[Any] = mapped_column(INTERVAL, nullable=True)
    marks: Mapped[Any] = mapped_column(ARRAY(JSON), nullable=True)
    details: Mapped[Any] = mapped_column(JSON, nullable=True)
    after_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("stall_orders.id"))
    made_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())

    lines: Mapped[list[StallLine]] = relationship(
        back_populates="order", cascade="all, delete-orphan"
    )
    labels: Mapped[list[StallLabel]] = relationship(secondary=order_labels)
    photos: Mapped[list[StallPhoto]] = relationship(cascade="all, delete-orphan")


class StallLine(Base):
    """A line of an order: the unit of work deletes it with the order."""

    __tablename__ = "stall_lines"
    __ref_label__ = "text"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    order_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("stall_orders.id"))
    text: Mapped[str]

    order: Mapped[StallOrder] = relationship(back_populates="lines")


class StallRemark(Base):
    """A remark: the database deletes it with the order, and no relationship leads to it."""

    __tablename__ = "stall_remarks"

    order_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("stall_orders.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


class StallParcel(Base):
    """A parcel: the database takes the order away from it."""

    __tablename__ = "stall_parcels"
    __ref_label__ = "code"
    __table_args__ = (UniqueConstraint("code", deferrable=True, initially="DEFERRED"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    code: Mapped[str]
    order_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("stall_orders.id", ondelete="SET NULL")
    )


class StallLabel(Base):
    """A label of orders."""

    __tablename__ = "stall_labels"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class StallPhoto(Base):
    """A photo: its bytes are not kept."""

    __tablename__ = "stall_photos"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("stall_orders.id"))
    content: Mapped[bytes] = mapped_column(LargeBinary)


event.listen(
    StallOrder.__table__,
    "after_create",
    DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy's
        """
        CREATE OR REPLACE FUNCTION stall_capitals() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.status := upper(NEW.status); RETURN NEW; END$$;
        CREATE TRIGGER stall_capitals BEFORE INSERT OR UPDATE ON stall_orders
        FOR EACH ROW EXECUTE FUNCTION stall_capitals()
        """
    ).execute_if(dialect="postgresql"),
)
