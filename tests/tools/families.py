"""What deletes are tried on: classes that refer to one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Column, Engine, ForeignKey, Integer, Table, Text, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


@dataclass(frozen=True)
class Family:
    """A class, and one whose rows refer to it in one way.

    Attributes:
        top: the class.
        part: the one that refers.
        nullable: whether the reference may be null.
        effect: what becomes of referring rows, if all may be done.
    """

    top: type[Any]
    part: type[Any]
    effect: str


def family(
    name: str,
    effect: str,
    rule: str | None = None,
    *,
    nullable: bool = False,
    **options: Any,
) -> Family:
    """Declare two classes; without options of a relationship there is none."""
    key = Column(
        f"{name}_top_id", Integer, ForeignKey(f"{name}_tops.id", ondelete=rule), nullable=nullable
    )
    part = type(
        f"{name.title()}Part",
        (Base,),
        {
            "__tablename__": f"{name}_parts",
            "__ref_name__": f"{name}_part",
            "__ref_label__": "note",
            "id": Column(Integer, primary_key=True),
            "note": Column(Text),
            "top_id": key,
        },
    )
    top = type(
        f"{name.title()}Top",
        (Base,),
        {
            "__tablename__": f"{name}_tops",
            "__ref_name__": f"{name}_top",
            "id": Column(Integer, primary_key=True),
            "note": Column(Text),
            **({"parts": relationship(part, **options)} if options else {}),
        },
    )
    return Family(top, part, effect)


FAMILIES = {
    each.top.__tablename__.removesuffix("_tops"): each
    for each in (
        family("cascade", "delete", cascade="all, delete-orphan"),
        family("plain", "unlink by default", nullable=True, lazy="select"),
        family("needed", "stay", lazy="select"),
        family("nulled", "unlink", "SET NULL", nullable=True, lazy="select"),
        family("passive", "delete", "CASCADE", passive_deletes=True),
        family("both", "delete", "CASCADE", cascade="all, delete", passive_deletes=True),
        family("left", "unlink", "SET NULL", nullable=True, passive_deletes="all"),
        family("kept", "stay", passive_deletes="all"),
        family("bare", "stay"),
        family("barenull", "stay", nullable=True),
        family("gone", "delete", "CASCADE"),
        family("unset", "unlink", "SET NULL", nullable=True),
        family("reset", "unlink", "SET DEFAULT", nullable=True),
        family("unsettable", "stay", "SET NULL"),
        family("strict", "stay", "RESTRICT", nullable=True),
        family("firm", "unlink", "CASCADE", nullable=True, lazy="select"),
    )
}


def made(engine: Engine, each: Family) -> None:
    """Make the tables of a family, with two rows, of two parts and one."""
    make(engine, each.top, each.part)
    with Session(engine) as plain:
        plain.add_all([each.top(id=1, note="a"), each.top(id=2, note="b")])
        plain.flush()
        parts = [(1, 1), (2, 1), (3, 2)]
        plain.add_all([each.part(id=n, note=f"part {n}", top_id=top) for n, top in parts])
        plain.commit()


def make(engine: Engine, *models: type[Any]) -> None:
    """Make the tables of classes."""
    Base.metadata.create_all(engine, [cast(Table, model.__table__) for model in models])


def rows(engine: Engine, *models: type[Any]) -> list[dict[Any, Any]]:
    """Return all rows of some tables, by their keys."""
    tables = [cast(Table, model.__table__) for model in models]
    with Session(engine) as plain:
        return [
            {
                tuple(row)[: len(t.primary_key)]: tuple(row)
                for row in plain.execute(select(t).order_by(*t.primary_key))
            }
            for t in tables
        ]


def changes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> tuple[set[int], set[int]]:
    """Return the keys of rows that are gone, and of those that are not as they were."""
    there = before.keys() & after.keys()
    assert there == after.keys()
    gone = {key[0] for key in before.keys() - there}
    return gone, {key[0] for key in there if before[key] != after[key]}


def refs_of(session: RefSession, model: type[Any], keys: set[int]) -> set[str]:
    """Return the refs of rows, which may be gone."""
    assert session.conversation is not None
    return {*session.conversation.refer_all(model, sorted(keys))}


def delete(session: RefSession, toolset: Toolset, model: type[Any], note: str) -> dict[str, Any]:
    """Delete rows by their note."""
    asked = {
        "table": model.__tablename__,
        "filters": [{"field": "note", "op": "=", "value": note}],
        "expect": {"count": 1},
    }
    return toolset.call(session, "db_delete", asked)


class Den(Base):
    """Takes the part of a subclass along, or that of the base."""

    __tablename__ = "dens"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]


class Animal(Base):
    """Has a subclass in a table of its own."""

    __tablename__ = "animals"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    note: Mapped[str | None]
    den_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Bear(Animal):
    """In two tables, each of which refers to a den."""

    __tablename__ = "bears"
    __mapper_args__ = {"polymorphic_identity": "bear"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("animals.id", ondelete="CASCADE"), primary_key=True)
    winter_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Pair(Base):
    """Refers to one class twice."""

    __tablename__ = "pairs"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]
    one_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="SET NULL"))
    two_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="SET NULL"))
