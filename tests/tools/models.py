"""The tables that the tests of the tools work on: a column of every kind, and relations."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    DateTime,
    Enum,
    ForeignKey,
    LargeBinary,
    Numeric,
    SmallInteger,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from tests.models import Base, Key as Key


def custom(
    impl: Any,
    stored: Callable[[Any], Any] | None = None,
    shown: Callable[[Any], Any] | None = None,
    **more: Any,
) -> type[TypeDecorator[Any]]:
    """Return a type that is stored and shown by functions of a value, which are not given null."""
    methods: dict[str, Any] = {}
    for name, convert in (("process_bind_param", stored), ("process_result_value", shown)):
        if convert is not None:
            methods[name] = lambda _, value, __, f=convert: None if value is None else f(value)
    return type("Custom", (TypeDecorator,), {"impl": impl, "cache_ok": True, **methods, **more})


class Course(enum.Enum):
    """When a dish is eaten."""

    STARTER = "starter"
    MAIN = "main"


class Cuisine(Base):
    """What dishes refer to."""

    __tablename__ = "cuisines"
    __ref_label__ = "name"

    id: Mapped[Key]
    name: Mapped[str] = mapped_column(unique=True)


class Dish(Base):
    """Has columns of every kind, references, and rows that refer to it."""

    __tablename__ = "dishes"
    __ref_label__ = "name"
    __table_args__ = (CheckConstraint("servings > 0", name="dishes_served"),)

    id: Mapped[Key]
    name: Mapped[str | None]
    code: Mapped[str | None] = mapped_column(String(5), unique=True)
    servings: Mapped[int | None]
    rating: Mapped[float | None]
    price: Mapped[decimal.Decimal | None] = mapped_column(Numeric(8, 2))
    is_vegan: Mapped[bool | None]
    course: Mapped[Course | None] = mapped_column(Enum(Course, native_enum=False))
    cooked_on: Mapped[dt.date | None]
    seen_at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))
    spice: Mapped[int | None] = mapped_column(SmallInteger)
    tags: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True)
    extra: Mapped[Any] = mapped_column(JSONB, nullable=True)
    photo: Mapped[bytes | None] = mapped_column(LargeBinary)
    device: Mapped[uuid.UUID | None]
    cuisine_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("cuisines.id"), nullable=True)
    second_cuisine_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("cuisines.id"), nullable=True)
    parent_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("dishes.id"), nullable=True)
    alike: Mapped[Any] = mapped_column(ARRAY(Uuid), nullable=True, info={"ref": "dishes.id"})

    cuisine: Mapped[Cuisine | None] = relationship(foreign_keys=[cuisine_id])
    parent: Mapped[Dish | None] = relationship(remote_side="Dish.id")
    parts: Mapped[list[Part]] = relationship(
        back_populates="dish", cascade="all, delete-orphan", order_by="Part.position"
    )


class Part(Base):
    """A row that belongs to a dish, and goes with it."""

    __tablename__ = "parts"

    id: Mapped[Key]
    dish_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("dishes.id"))
    position: Mapped[int] = mapped_column(server_default="0")
    note: Mapped[str | None]
    cuisine_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("cuisines.id"), nullable=True)

    dish: Mapped[Dish] = relationship(back_populates="parts")


class Serving(Base):
    """Has a key of two columns, one of them a reference."""

    __tablename__ = "servings"
    __table_args__ = (UniqueConstraint("note"),)

    dish_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("dishes.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    note: Mapped[str | None]


class Secret(Base):
    """A table that no model may use."""

    __tablename__ = "secrets"

    id: Mapped[Key]
    text: Mapped[str]
