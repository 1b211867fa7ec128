"""Mapped classes whose foreign keys refer to unique columns, not to primary keys."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import ARRAY, ForeignKey, Integer, Uuid, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession


class Base(DeclarativeBase):
    """Declarative base of these shapes."""


class Member(Base):
    """Has a handle and a number beside its primary key; either is unique."""

    __tablename__ = "members"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    handle_id: Mapped[Any] = mapped_column(Uuid, unique=True, nullable=True, default=uuid.uuid4)
    number: Mapped[Any] = mapped_column(Integer, unique=True, nullable=True)


class Post(Base):
    """References its author by the handle, and its editor by the number."""

    __tablename__ = "posts"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    author: Mapped[Any] = mapped_column(
        Uuid, ForeignKey("members.handle_id", deferrable=True, initially="DEFERRED"), nullable=True
    )
    editor: Mapped[Any] = mapped_column(Integer, ForeignKey("members.number"), nullable=True)
    member: Mapped[Member] = relationship(foreign_keys=[author])


class Series(Base):
    """Lists the handles of members, without a constraint."""

    __tablename__ = "serieses"
    __ref_name__ = "series"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    host: Mapped[Any] = mapped_column(Uuid, nullable=True, info={"ref": "members.handle_id"})


def titles(session: Session, criterion: Any) -> list[str]:
    """Return the titles of the posts that meet a criterion, in order."""
    return list(session.scalars(select(Post.title).where(criterion).order_by(Post.title)))


def refs_of_members(session: RefSession) -> list[str]:
    """Read all members, and return their refs in the order of their names."""
    return [member.id for member in session.scalars(select(Member).order_by(Member.name))]


class Other(DeclarativeBase):
    """Declarative base of rarer shapes."""


class Person(Other):
    """Has an address that is unique text."""

    __tablename__ = "persons"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    kind: Mapped[str] = mapped_column(default="person")
    email: Mapped[str] = mapped_column(unique=True)

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012


class Guard(Person):
    """Has a badge in a table of its own."""

    __tablename__ = "guards"

    id: Mapped[Any] = mapped_column(ForeignKey("persons.id"), primary_key=True)
    badge: Mapped[Any] = mapped_column(Uuid(as_uuid=False), unique=True)

    __mapper_args__ = {"polymorphic_identity": "guard"}  # noqa: RUF012


class Badge(Other):
    """Is known by the badge of its guard alone: its primary key is that foreign key."""

    __tablename__ = "badges"

    badge: Mapped[Any] = mapped_column(ForeignKey("guards.badge"), primary_key=True)
    colour: Mapped[str] = mapped_column(default="red")


class Device(Other):
    """Has a serial number that is declared to be an alternate key, and shown as one."""

    __tablename__ = "gadgets"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    serial: Mapped[Any] = mapped_column(
        Uuid, unique=True, default=uuid.uuid4, info={"ref": "gadgets.serial"}
    )


class Letter(Other):
    """References its sender by the address, and lists the badges of those who read it."""

    __tablename__ = "letters"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    sender: Mapped[Any] = mapped_column(ForeignKey("persons.email"))
    readers: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": "guards.badge"}, default=list)
