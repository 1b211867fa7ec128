"""What ways are tried on: two kinds of row, a session of either kind, and what comes of a way.

The rows have the same keys each time, so that a plain session's keys can be told as the refs that
an active one shows for them. Nothing else is made alike but addresses in memory and the names of
the classes of sessions.
"""

from __future__ import annotations

import itertools
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Engine, ForeignKey, event, select, text
from sqlalchemy.ext.asyncio import AsyncAttrs
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)
from sqlalchemy.util import IdentitySet

from alfred_refs import Conversation, RefSession

NEW = itertools.count()
"""The numbers of which new keys are made: they are the same in each trial."""

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
"""The keys of the boxes that are there."""


class Base(AsyncAttrs, DeclarativeBase):
    """Declarative base of these tests."""


class Box(Base):
    """Has keys that are refs."""

    __tablename__ = "whole_boxes"

    id: Mapped[uuid.UUID] = mapped_column(
        primary_key=True, default=lambda: uuid.UUID(int=next(NEW))
    )
    name: Mapped[str]
    things: Mapped[list[Thing]] = relationship(
        back_populates="box", cascade="all, delete-orphan", order_by="Thing.id"
    )


class Thing(Base):
    """Has a key that is data, and one that is a ref."""

    __tablename__ = "whole_things"

    id: Mapped[int] = mapped_column(primary_key=True, info={"ref": None})
    box_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("whole_boxes.id"))
    note: Mapped[str]
    box: Mapped[Box] = relationship(back_populates="things")


class Plain:
    """Is not mapped."""


BY_NAME = select(Box).order_by(Box.name)
THINGS = select(Thing).order_by(Thing.id)
NOTES = text("select note from whole_things where id = :x").columns(Thing.note)
IDS = select(Box.id).order_by(Box.name)
TOKEN = "a shard"  # noqa: S105  # of an identity


@dataclass
class World:
    """The rows, the conversation and the kind of session that a way is tried with.

    Attributes:
        engine: of the rows; for asynchronous sessions, an asynchronous one.
        chat: the conversation, which a plain session is not in.
        active: whether the session is in it.
        a: the identity of a box, as a session of the kind has it.
        b: that of another.
        log: what a way notes as it goes, for all to see.
        kinds: the classes of sessions.
        maker_of: makes factories of them.
        wrap: makes one that ways can use.
    """

    engine: Any
    chat: Conversation
    active: bool
    log: list[Any] = field(default_factory=list)
    kinds: tuple[Any, Any] = (Session, RefSession)
    maker_of: Any = sessionmaker
    wrap: Callable[[Any], Any] = lambda session: session
    _opened: list[Any] = field(default_factory=list)

    @property
    def a(self) -> Any:
        """The identity of a box."""
        return "box_1" if self.active else A

    @property
    def b(self) -> Any:
        """The identity of another."""
        return "box_2" if self.active else B

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that put a session of the kind into the conversation."""
        return {"conversation": self.chat} if self.active else {}

    @property
    def kind(self) -> Any:
        """The class of the session."""
        return self.kinds[self.active]

    @property
    def sync_engine(self) -> Engine:
        """The engine, or the one behind it."""
        return cast(Engine, getattr(self.engine, "sync_engine", self.engine))

    def made(self, *binds: Any, **options: Any) -> Any:
        """Return another session of the kind; it is closed in the end."""
        made = self.kind(*(binds or [self.engine]), **self.options, **options)
        self._opened.append(self.wrap(made))
        return self._opened[-1]

    def maker(self, **options: Any) -> Any:
        """Return a factory of sessions of the kind."""
        return self.maker_of(self.engine, class_=self.kind, **self.options, **options)

    def note(self, *seen: Any) -> None:
        """Note what is seen as it goes."""
        self.log.append(self.told(seen))

    def heard(self, session: Any) -> Any:
        """Return the session whose events are heard: of an asynchronous one, that behind it."""
        return getattr(session, "sync_session", session)

    def close(self) -> None:
        """Close the other sessions."""
        for session in self._opened:
            session.close()

    def told(self, value: Any) -> Any:
        """Return a value in words, with refs in place of the keys of a plain session."""
        if isinstance(value, Base):
            # not by its attributes: reading them may load
            return (
                f"{type(value).__name__} {value.__dict__.get('name', value.__dict__.get('note'))}"
            )
        if isinstance(value, Mapping):
            return {self.told(k): self.told(v) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str):
            each = [self.told(one) for one in value]
            return sorted(each) if isinstance(value, IdentitySet) else each
        if isinstance(value, uuid.UUID) and not self.active:
            return self.chat.refer("box", value)
        plain = isinstance(value, bool | int | float | None)
        return value if plain else self.words(value if isinstance(value, str) else repr(value))

    def words(self, text: str) -> str:
        """Return a text as it is in both kinds of session."""
        if not self.active:
            for key in map(uuid.UUID, set(_KEY.findall(text))):
                [ref] = self.chat.refer_all("box", [key])
                text = text.replace(repr(key), repr(ref)).replace(str(key), ref)
        return _ADDRESS.sub("…", text.replace("RefSession", "Session"))


_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS = re.compile(
    r"0x[0-9a-f]+|session '[0-9]+'|this is '[0-9]+'|at '[0-9]+'|oid in \([0-9]+\)|_sa_[0-9a-f]{32}"
)
_PARAMETER = re.compile(r"%\(\w+\)s|\$[0-9]+")

Way = Callable[[Any, World], Any]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a way.

    Attributes:
        error: the class of the exception; nothing if there was none.
        said: what it says, or what the way returned.
        seen: what the way noted.
        warned: the warnings.
        sent: the statements, each with the names of its execution options, the options of its
            connection and the `info` of that.
    """

    error: str
    said: Any
    seen: list[Any]
    warned: list[str]
    sent: list[tuple[Any, ...]]


def fill(engine: Engine) -> None:
    """Delete all rows, and insert those that each trial begins with."""
    global NEW  # noqa: PLW0603
    NEW = itertools.count(101)
    with Session(engine) as session, session.begin():
        session.execute(text("truncate whole_boxes, whole_things restart identity"))
        things = [Thing(note="x"), Thing(note="y")]
        session.add_all([Box(id=A, name="a", things=things), Box(id=B, name="b")])


def outcome(world: World, session: Any, way: Way) -> Outcome:
    """Try a way, and return its outcome."""
    with closing(session), _watched(world.sync_engine) as (sent, caught):
        try:
            error, said = "", world.told(way(session, world))
        except Exception as raised:  # noqa: BLE001  # whatever comes of it
            error, said = _raised(world, raised)
        finally:
            world.close()
    warned = [world.words(str(each.message)) for each in caught]
    return Outcome(error, said, world.log, warned, sent)


def _raised(world: World, error: Exception) -> tuple[str, str]:
    return f"{type(error).__module__}.{type(error).__qualname__}", world.words(str(error))


@contextmanager
def _watched(engine: Engine) -> Iterator[tuple[list[Any], list[warnings.WarningMessage]]]:
    """Yield the statements sent and the warnings given inside the `with`, as they grow."""
    sent: list[Any] = []

    def note(connection: Any, _: Any, statement: str, __: Any, context: Any, ___: Any) -> None:
        options = dict(connection.get_execution_options())
        named = _PARAMETER.sub("?", _ADDRESS.sub("…", statement))
        sent.append((named, sorted(context.execution_options), options, dict(connection.info)))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        event.listen(engine, "before_cursor_execute", note)
        try:
            yield sent, caught
        finally:
            event.remove(engine, "before_cursor_execute", note)
