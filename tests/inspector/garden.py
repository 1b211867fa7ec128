"""Gardens of two gardeners, for the tests of the inspector: each sees their own beds.

`waiting` and `watered` are what a model does in them.
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Ownership
from alfred_refs.tools import BoundToolset, ToolAnswer, Toolset

ANN = uuid.UUID("6a7de000-0000-4000-8000-0000000000a1")
BEN = uuid.UUID("6a7de000-0000-4000-8000-0000000000b2")
ROSES = uuid.UUID("6a7de000-0000-4000-8000-000000000001")
HERBS = uuid.UUID("6a7de000-0000-4000-8000-000000000002")

CHAT, OTHER = "chat-ann", "chat-ben"

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">{{ 7654321*3 }}\'"&'


class Base(DeclarativeBase):
    """Declarative base of the gardens."""


class Bed(Base):
    """Where plants grow."""

    __tablename__ = "garden_beds"
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    gardener: Mapped[uuid.UUID]
    title: Mapped[str]
    note: Mapped[str | None]
    secret: Mapped[str] = mapped_column(default="buried treasure")

    plants: Mapped[list[Plant]] = relationship(cascade="all, delete-orphan", back_populates="bed")


class Plant(Base):
    """What grows in a bed."""

    __tablename__ = "garden_plants"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    bed_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("garden_beds.id"))
    name: Mapped[str]

    bed: Mapped[Bed] = relationship(back_populates="plants")


def toolset() -> Toolset:
    """Return the tools of the gardens."""
    return Toolset(
        [Bed, Plant],
        owner=Ownership({Bed: "gardener", Plant: "bed"}),
        hidden=[Bed.secret],
        consent={Bed: ["delete"]},
        expect="optional",
    )


def plant(session: Session) -> None:
    """Add a bed of each gardener."""
    roses = Bed(id=ROSES, gardener=ANN, title="Roses", plants=[Plant(name="Dog rose")])
    session.add_all([roses, Bed(id=HERBS, gardener=BEN, title="Herbs", plants=[])])


def titles(engine: Engine) -> list[str]:
    """Return the titles of all beds."""
    with Session(engine) as session:
        return sorted(session.scalars(select(Bed.title)))


def call(desk: BoundToolset, tool: str, arguments: Any, **options: Any) -> ToolAnswer:
    """Call a tool in Ann's conversation."""
    return desk.call(CHAT, ANN, tool, arguments, user="bob", **options)


def read(desk: BoundToolset, conversation: str = CHAT, owner: Any = ANN) -> None:
    """Begin a turn in which the model reads all beds."""
    desk.conversation(conversation, owner).begin_turn()
    desk.call(conversation, owner, "db_read", {"table": "garden_beds"})


def one(ref: str = "bed_1") -> dict[str, Any]:
    """Return the arguments that name one bed."""
    return {"table": "garden_beds", "filters": [{"field": "id", "op": "=", "value": ref}]}


def ask_to_delete(desk: BoundToolset, conversation: str = CHAT, owner: Any = ANN) -> int:
    """Have the model delete the first bed of an owner; return the number of the call."""
    read(desk, conversation, owner)
    answer = desk.call(conversation, owner, "db_delete", one(), user="bob")
    assert answer.pending is not None, answer.text
    return answer.pending


def update(desk: BoundToolset, **data: Any) -> ToolAnswer:
    """Have the model change Ann's bed."""
    return call(desk, "db_update", {**one(), "data": data})
