"""Two tables, sessions of both kinds, the outcome of a use, and the list of all uses.

Keys are the same in each run, so that the keys of a plain session can be replaced by the refs of
an active one. Memory addresses and names of session classes are replaced too, and nothing else.
"""

from __future__ import annotations

import inspect
import itertools
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import sqlalchemy
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

SERIES_2_1 = sqlalchemy.__version__ >= "2.1"

NEW = itertools.count()
"""Numbers for new keys, the same in each run."""

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
"""The keys of the two boxes that exist."""


class Base(AsyncAttrs, DeclarativeBase):
    """Declarative base of these tests."""


class Box(Base):
    """Its keys are shown as refs."""

    __tablename__ = "whole_boxes"

    id: Mapped[uuid.UUID] = mapped_column(
        primary_key=True, default=lambda: uuid.UUID(int=next(NEW))
    )
    name: Mapped[str]
    things: Mapped[list[Thing]] = relationship(
        back_populates="box", cascade="all, delete-orphan", order_by="Thing.id"
    )


class Thing(Base):
    """Its primary key stays raw; its foreign key is shown as a ref."""

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
    """The rows, the conversation and the kind of session that a use runs with.

    Attributes:
        engine: for asynchronous sessions, an asynchronous one.
        chat: the conversation of active sessions.
        active: whether sessions are in it.
        log: the notes of a use.
        kinds: the plain session class and the active one.
        maker_of: makes session factories.
        wrap: adapts a session to uses.
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
        """The key or ref of the first box."""
        return "box_1" if self.active else A

    @property
    def b(self) -> Any:
        """The key or ref of the second box."""
        return "box_2" if self.active else B

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that put an active session into the conversation."""
        return {"conversation": self.chat} if self.active else {}

    @property
    def kind(self) -> Any:
        """The class of the session."""
        return self.kinds[self.active]

    @property
    def sync_engine(self) -> Engine:
        """The engine, or the sync engine of an asynchronous one."""
        return cast(Engine, getattr(self.engine, "sync_engine", self.engine))

    def open(self, *binds: Any, **options: Any) -> Any:
        """Return another session of the kind, which is closed after the use."""
        made = self.kind(*(binds or [self.engine]), **self.options, **options)
        self._opened.append(self.wrap(made))
        return self._opened[-1]

    def maker(self, **options: Any) -> Any:
        """Return a factory of sessions of the kind."""
        return self.maker_of(self.engine, class_=self.kind, **self.options, **options)

    def note(self, *seen: Any) -> None:
        """Append values to the log."""
        self.log.append(self.comparable(seen))

    def sync(self, session: Any) -> Any:
        """Return the session that emits events: the sync session of an asynchronous one."""
        return getattr(session, "sync_session", session)

    def close(self) -> None:
        """Close the sessions that the use opened."""
        for session in self._opened:
            session.close()

    def comparable(self, value: Any) -> Any:
        """Return a value in a comparable form, with refs in place of a plain session's keys."""
        if isinstance(value, Base):
            # from `__dict__`: reading an attribute may load it
            return (
                f"{type(value).__name__} {value.__dict__.get('name', value.__dict__.get('note'))}"
            )
        if isinstance(value, Mapping):
            return {self.comparable(k): self.comparable(v) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str):
            each = [self.comparable(one) for one in value]
            return sorted(each) if isinstance(value, IdentitySet) else each
        if isinstance(value, uuid.UUID) and not self.active:
            return self.chat.refer("box", value)
        plain = isinstance(value, bool | int | float | None)
        return (
            value if plain else self.normalised(value if isinstance(value, str) else repr(value))
        )

    def normalised(self, text: str) -> str:
        """Return a text without memory addresses, with refs in place of a plain session's keys."""
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

Use = Callable[[Any, World], Any]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a use.

    Attributes:
        error: the class of the exception, or an empty string.
        value: the returned value, or the text of the exception.
        seen: the log.
        warned: the warnings.
        sent: the statements, each with the names of its execution options, the options of its
            connection and the `info` of that.
    """

    error: str
    value: Any
    seen: list[Any]
    warned: list[str]
    sent: list[tuple[Any, ...]]


def fill(engine: Engine) -> None:
    """Replace all rows by those that each use starts with."""
    global NEW  # noqa: PLW0603
    NEW = itertools.count(101)
    with Session(engine) as session, session.begin():
        # a fraction of the time of TRUNCATE, which makes new files
        session.execute(text("delete from whole_things"))
        session.execute(text("delete from whole_boxes"))
        session.execute(text("alter sequence whole_things_id_seq restart"))
        things = [Thing(note="x"), Thing(note="y")]
        session.add_all([Box(id=A, name="a", things=things), Box(id=B, name="b")])


def outcome(world: World, session: Any, use: Use) -> Outcome:
    """Run a use, and return its outcome."""
    with closing(session), _watched(world.sync_engine) as (sent, caught):
        try:
            error, value = "", world.comparable(use(session, world))
        except Exception as raised:  # noqa: BLE001  # compared
            error = f"{type(raised).__module__}.{type(raised).__qualname__}"
            value = world.normalised(str(raised))
        finally:
            world.close()
    warned = [world.normalised(str(each.message)) for each in caught]
    return Outcome(error, value, world.log, warned, sent)


@contextmanager
def _watched(engine: Engine) -> Iterator[tuple[list[Any], list[warnings.WarningMessage]]]:
    """Yield two lists that collect the statements and warnings inside the `with`."""
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


# Registration

USES: dict[str, Use] = {}
ASYNC_USES: dict[str, Use] = {}
COVERED: set[str] = set()


def covers(*names: str, since: bool = True) -> Callable[[Use], Use]:
    """Register a use by its name; a coroutine function is one of asynchronous sessions.

    Args:
        names: the methods, parameters and attributes that it covers, as `surface` spells them.
        since: whether this series of SQLAlchemy has them.
    """

    def register(function: Use) -> Use:
        if since:
            uses = ASYNC_USES if inspect.iscoroutinefunction(function) else USES
            name = function.__name__[1:].replace("_", " ")
            assert name not in uses
            uses[name] = function
            COVERED.update(names)
        return function

    return register


def surface(class_: type[Any], name: str | None = None) -> Iterator[str]:
    """Yield the public API of a class: `Class.method(parameter)`, `Class.attribute`."""
    name = name or class_.__name__
    yield from _parameters(name, class_.__init__)
    for attribute in (each for each in dir(class_) if not each.startswith("_")):
        found = getattr(class_, attribute)
        if inspect.isfunction(found) or inspect.ismethod(found):
            yield from _parameters(f"{name}.{attribute}", found)
        else:
            yield f"{name}.{attribute}"


def _parameters(name: str, function: Any) -> Iterator[str]:
    every = inspect.signature(function).parameters.values()
    named = [
        each.name
        for each in every
        if each.kind is not each.VAR_KEYWORD and not each.name.startswith("_")
    ]
    named = [each for each in named if each != "self"]
    yield from (f"{name}({each})" for each in named) if named else [f"{name}()"]
