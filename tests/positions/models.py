"""Tables with lists: unique and other positions, lists of lists, arrays, JSON."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, ForeignKey, Integer, Text, UniqueConstraint, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """Of these tables alone."""


def _key() -> Any:
    return mapped_column(Uuid, primary_key=True, server_default=text("gen_random_uuid()"))


class Week(Base):
    """Has sessions in rows, notes in rows, tags in an array, and meals in JSON."""

    __tablename__ = "weeks"

    id: Mapped[Any] = _key()
    title: Mapped[str] = mapped_column(server_default="")
    tags: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True)
    meals: Mapped[Any] = mapped_column(JSONB, nullable=True)

    sessions: Mapped[list[Workout]] = relationship(
        back_populates="week", order_by="Workout.position", cascade="all, delete-orphan"
    )
    notes: Mapped[list[Note]] = relationship(
        order_by="Note.place", collection_class=ordering_list("place")
    )
    unordered: Mapped[list[Workout]] = relationship(viewonly=True)


class Workout(Base):
    """A session of a week, with a position that no two may have."""

    __tablename__ = "workouts"
    __table_args__ = (UniqueConstraint("week_id", "position"),)

    id: Mapped[Any] = _key()
    week_id: Mapped[Any] = mapped_column(ForeignKey("weeks.id"))
    position: Mapped[int]
    name: Mapped[str | None]
    version: Mapped[int] = mapped_column()

    week: Mapped[Week] = relationship(back_populates="sessions")
    exercises: Mapped[list[Exercise]] = relationship(
        order_by="Exercise.position", cascade="all, delete-orphan"
    )

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  # SQLAlchemy's name


class Exercise(Base):
    """An exercise, with sets in JSON."""

    __tablename__ = "exercises"
    __table_args__ = (UniqueConstraint("workout_id", "position"),)

    id: Mapped[Any] = _key()
    workout_id: Mapped[Any] = mapped_column(ForeignKey("workouts.id"))
    position: Mapped[int]
    name: Mapped[str | None]
    sets: Mapped[Any] = mapped_column(JSONB, nullable=True)


class Part(Base):
    """A part of another, with parts and documents of its own."""

    __tablename__ = "parts_in_parts"
    __table_args__ = (UniqueConstraint("parent_id", "position"),)

    id: Mapped[Any] = _key()
    parent_id: Mapped[Any] = mapped_column(ForeignKey("parts_in_parts.id"), nullable=True)
    position: Mapped[int]
    name: Mapped[str | None]
    notes: Mapped[Any] = mapped_column(JSONB, nullable=True)

    parts: Mapped[list[Part]] = relationship(
        order_by="Part.position", cascade="all, delete-orphan"
    )


class Board(Base):
    """Has cards of several owners."""

    __tablename__ = "boards"

    id: Mapped[Any] = _key()
    owner: Mapped[str | None]

    cards: Mapped[list[Card]] = relationship(
        order_by="Card.position", cascade="all, delete-orphan"
    )


class Card(Base):
    """A card of its own owner's."""

    __tablename__ = "cards"

    id: Mapped[Any] = _key()
    owner: Mapped[str]
    board_id: Mapped[Any] = mapped_column(ForeignKey("boards.id"))
    position: Mapped[int]
    title: Mapped[str | None]


class Note(Base):
    """A note, numbered from 0 by SQLAlchemy's list; without a week it is kept."""

    __tablename__ = "week_notes"

    id: Mapped[Any] = _key()
    week_id: Mapped[Any] = mapped_column(ForeignKey("weeks.id"), nullable=True)
    place: Mapped[int | None] = mapped_column(Integer)
    body: Mapped[str | None]
