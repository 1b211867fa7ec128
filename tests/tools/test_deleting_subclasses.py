"""Deletes of classes that inherit: which hooks, columns and tables count."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Hooks, Toolset, Writing
from tests.tools.conftest import counted
from tests.tools.families import Animal, Asked, Base, Bear, Den, Pair, delete, make, rows


class Beast(Base):
    """Has a subclass in a table of its own, and one in the same."""

    __tablename__ = "beasts"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "beast"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    note: Mapped[str | None]
    cage_id: Mapped[int | None] = mapped_column(ForeignKey("cages.id", ondelete="SET NULL"))


class Lion(Beast):
    """In two tables."""

    __tablename__ = "lions"
    __mapper_args__ = {"polymorphic_identity": "lion"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("beasts.id"), primary_key=True)
    roar: Mapped[str | None]


class Mouse(Beast):
    """In the table of its base."""

    __mapper_args__ = {"polymorphic_identity": "mouse"}  # noqa: RUF012


class Cage(Base):
    """What beasts are in."""

    __tablename__ = "cages"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]


ZOO = {"beasts": Beast, "lions": Lion, "mice": Mouse, "cages": Cage}


@pytest.fixture
def zoo(tables: Engine) -> Engine:
    """A beast, a lion and a mouse in a cage each."""
    make(tables, Cage, Beast, Lion)
    with Session(tables) as plain:
        plain.add_all([Cage(id=n, note=f"cage {n}") for n in (1, 2, 3)])
        plain.flush()
        plain.add_all(
            [
                Beast(id=1, note="a", cage_id=1),
                Lion(id=2, note="b", cage_id=2),
                Mouse(id=3, note="c", cage_id=3),
            ]
        )
        plain.commit()
    return tables


@pytest.mark.parametrize(("kind", "note", "cage"), [(Lion, "b", "cage 2"), (Mouse, "c", "cage 3")])
def test_rows_of_a_read_only_subclass_are_not_written(
    zoo: Engine, session: RefSession, kind: type[Beast], note: str, cage: str
) -> None:
    """Neither by the name of their base, nor because something that they refer to goes."""
    before = rows(zoo, Beast, Lion, Cage)
    toolset = Toolset(ZOO, read_only=[kind])
    filters = [{"field": "note", "op": "in", "value": ["a", note]}]
    changed = {"table": "beasts", "filters": filters, "data": {"note": "x"}}
    codes = [
        counted(toolset, session, "db_update", changed),
        counted(toolset, session, "db_delete", {"table": "beasts", "filters": filters}),
        delete(session, toolset, Cage, cage),
    ]

    assert [each["error"]["code"] for each in codes] == [
        "read_only_table",
        "read_only_table",
        "still_referenced",
    ]
    assert rows(zoo, Beast, Lion, Cage) == before
    assert delete(session, toolset, Cage, "cage 1")["unlinked"] == ["beast_1"]
    assert delete(session, toolset, Beast, "a")["count"] == 1


def test_a_subclass_has_its_own_hooks_and_columns(zoo: Engine, session: RefSession) -> None:
    """They hold where its rows are written by the name of the base."""
    hooks = Asked()
    toolset = Toolset(ZOO, hooks={Lion: [hooks]}, read_only=[Mouse.note])
    every = [{"field": "note", "op": "is_not_null"}]
    lions = [{"field": "note", "op": "=", "value": "b"}]
    changed = {"table": "beasts", "data": {"note": "x"}}

    lion: Any = session.scalars(select(Lion.id).where(Lion.note == "b")).one()  # a ref
    session.rollback()
    error = counted(toolset, session, "db_update", {**changed, "filters": every})["error"]
    assert (error["code"], error["table"]) == ("unknown_column", "mice")
    toolset.call(session, "db_update", {**changed, "filters": lions, "expect": {"count": 1}})
    assert [row[2] for row in rows(zoo, Beast)[0].values()] == ["a", "changed by a hook", "c"]
    assert hooks.seen == [("update", [lion], [{"note": "x"}])]
    delete(session, toolset, Beast, "changed by a hook")
    assert hooks.seen[1:] == [("delete", [lion], [])]


def test_what_a_hook_deletes_is_its_own(zoo: Engine, session: RefSession) -> None:
    """It is not taken for what goes along: the model may not do it, and is not told."""

    class Emptying(Hooks):
        def before_write(self, write: Writing) -> None:
            write.session.delete(write.session.scalars(select(Cage).filter_by(note="new")).one())

    with Session(zoo) as plain:
        plain.add(Cage(id=4, note="new"))
        plain.commit()
    toolset = Toolset(ZOO, hooks={Lion: [Emptying()]}, read_only=[Cage])
    answer = delete(session, toolset, Beast, "b")

    assert (answer["count"], "deleted_with" in answer) == (1, False)
    assert [*rows(zoo, Cage)[0]] == [(1,), (2,), (3,)]


class Wing(Base):
    """Has bears that go with it by the unit of work, and so as a whole."""

    __tablename__ = "wings"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    birds: Mapped[list[Bird]] = relationship(cascade="all, delete-orphan")


class Bird(Animal):
    """In two tables."""

    __tablename__ = "birds"
    __mapper_args__ = {"polymorphic_identity": "bird"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("animals.id"), primary_key=True)
    wing_id: Mapped[int | None] = mapped_column(ForeignKey("wings.id", ondelete="CASCADE"))


@pytest.mark.parametrize("listed", [True, False])
def test_the_database_does_not_tear_a_row_of_two_tables(
    tables: Engine, session: RefSession, listed: bool
) -> None:
    """It would take the part of the subclass alone: that keeps what it refers to."""
    make(tables, Den, Animal, Bear, Wing, Bird)
    with Session(tables) as plain:
        plain.add_all(
            [Den(id=1, note="winter"), Den(id=2, note="summer"), Wing(id=1, note="wing")]
        )
        plain.flush()
        plain.add_all([Bear(id=1, winter_id=1), Bear(id=2, den_id=2), Bird(id=3, wing_id=1)])
        plain.commit()
    before = rows(tables, Den, Animal, Bear)
    toolset = Toolset([Den, Wing, *([Animal, Bear, Bird] if listed else [])])

    error = delete(session, toolset, Den, "winter")["error"]
    assert (error["code"], rows(tables, Den, Animal, Bear)) == ("still_referenced", before)
    assert (error["referring"], error["refs"]) == (
        ("bears", ["animal_1"]) if listed else (None, [])
    )
    told = [delete(session, toolset, Den, "summer"), delete(session, toolset, Wing, "wing")]
    assert [each["count"] for each in told] == [1, 1]
    assert [len(each.get("deleted_with", [])) for each in told] == ([1, 1] if listed else [0, 0])
    assert [[*each] for each in rows(tables, Animal, Bear, Bird)] == [[(1,)], [(1,)], []]


class Thing(Base):
    """Has a subclass with keys of its own."""

    __tablename__ = "owned_things"

    id: Mapped[int] = mapped_column(primary_key=True)
    den_id: Mapped[int] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Gadget(Thing):
    """In one table, which is not that of its base."""

    __tablename__ = "gadgets"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    den_id: Mapped[int] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


def test_a_concrete_subclass_has_rows_of_its_own(tables: Engine, session: RefSession) -> None:
    """Though they have the keys of the base's."""
    make(tables, Den, Animal, Bear, Pair, Thing, Gadget)
    with Session(tables) as plain:
        plain.add(Den(id=1, note="a"))
        plain.flush()
        plain.add_all([Thing(id=1, den_id=1), Gadget(id=1, den_id=1)])
        plain.commit()

    error = delete(session, Toolset([Den, Thing, Gadget], read_only=[Gadget]), Den, "a")["error"]
    assert error["referring"] == "gadgets"
    assert len(delete(session, Toolset([Den, Thing, Gadget]), Den, "a")["deleted_with"]) == 2
