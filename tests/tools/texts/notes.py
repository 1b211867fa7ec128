"""Notes with keys in texts and documents, and the tools that read and write them."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import ARRAY, JSON, Engine, ForeignKey, Integer, Text, Uuid, delete, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset

Answer = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests alone."""


class Order(Base):
    """Has integer keys."""

    __tablename__ = "orders_of_notes"
    __ref_name__ = "order"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    name: Mapped[str | None]


class Note(Base):
    """Has texts and documents of every kind."""

    __tablename__ = "notes"
    __ref_label__ = "title"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    title: Mapped[str | None]
    tags: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True)
    extra: Mapped[Any] = mapped_column(JSONB, nullable=True)
    orders: Mapped[Any] = mapped_column(JSON, nullable=True, info={"ref": Order})
    basket: Mapped[Any] = mapped_column(
        JSONB, nullable=True, info={"ref": {"order_id": Order, "lines": "orders_of_notes.id"}}
    )
    devices: Mapped[Any] = mapped_column(ARRAY(Uuid), nullable=True)
    device: Mapped[Any] = mapped_column(Uuid, nullable=True)
    about_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("notes.id"), nullable=True)

    about: Mapped[Note | None] = relationship(remote_side="Note.id", back_populates="inside")
    inside: Mapped[list[Note]] = relationship(back_populates="about")


WRITTEN = ("title", "tags", "extra", "orders", "basket", "devices", "device", "about_id")
KEYS = [uuid.uuid5(uuid.NAMESPACE_URL, f"note {n}") for n in range(4)]
FIRST, SECOND, THIRD, OTHER = KEYS

toolset = Toolset([Note, Order], expect="optional")


def keep(engine: Engine, *notes: Note) -> None:
    """Have these notes in the table, and no others."""
    with Session(engine) as plain:
        plain.execute(delete(Note))
        for note in notes:
            plain.add(note)
            plain.flush()
        plain.commit()


def stored(engine: Engine) -> dict[Any, Answer]:
    """Return what the table has, by key."""
    with Session(engine) as plain:
        return {
            n.id: {name: getattr(n, name) for name in WRITTEN} for n in plain.scalars(select(Note))
        }


def by_id(ref: str) -> Answer:
    """Return the filter for a row."""
    return {"field": "id", "op": "=", "value": ref}


def done(session: RefSession, tool: str, /, tools: Toolset = toolset, **arguments: Any) -> Answer:
    """Call a tool that is to succeed."""
    answer = tools.call(session, tool, arguments)
    assert "error" not in answer, answer
    return answer


def read(session: RefSession, *filters: Answer, tools: Toolset = toolset) -> list[Answer]:
    """Return rows of notes as they are shown."""
    return list(done(session, "db_read", tools, table="notes", filters=[*filters])["rows"])


def refused(session: RefSession, **data: Any) -> Answer:
    """Return why the first note cannot have these values."""
    assert session.conversation is not None
    ref = session.conversation.refer(Note, FIRST)
    asked = {"table": "notes", "filters": [by_id(ref)], "data": data}
    return dict(toolset.call(session, "db_update", asked)["error"])


def chat_of(session: RefSession) -> Conversation:
    """Return the conversation of a session."""
    assert session.conversation is not None
    return session.conversation
