"""Tables whose rows have known keys, and what finds these keys in an exception."""

from __future__ import annotations

import pickle
import traceback
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import ARRAY, CheckConstraint, ForeignKey, Integer, Uuid
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import RefSession

KNOWN = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")  # platter_1
UNKNOWN = uuid.UUID("c69607bb-1f55-4d1e-9d6c-0f4c2f9d7a11")
CHEF = 918273645  # chef_1
NO_CHEF = 777000111
KEYS = (KNOWN, UNKNOWN, CHEF, NO_CHEF)


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Chef(Base):
    """Has integer keys."""

    __tablename__ = "chefs"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    name: Mapped[str | None]


class Platter(Base):
    """Can be wrong in every way."""

    __tablename__ = "platters"
    __table_args__ = (CheckConstraint("grade < 10"),)

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str | None]
    grade: Mapped[int | None]
    parent_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("platters.id"), nullable=True)
    chef_id: Mapped[Any] = mapped_column(
        Integer, ForeignKey("chefs.id", deferrable=True, initially="deferred"), nullable=True
    )
    sides: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": "platters.id"}, nullable=True)

    courses: Mapped[list[Course]] = relationship(back_populates="dish")


class Course(Base):
    """Has a composite key, and text that must be there."""

    __tablename__ = "courses"

    dish_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("platters.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    dish: Mapped[Platter] = relationship(back_populates="courses")


class Tool(Base):
    """The base of an inheritance whose rows can contradict themselves."""

    __tablename__ = "tools"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "tool"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str]


class Knife(Tool):
    """A joined subclass."""

    __tablename__ = "knives"
    __mapper_args__ = {"polymorphic_identity": "knife"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Integer, ForeignKey("tools.id"), primary_key=True)


class Spoon(Tool):
    """Another."""

    __mapper_args__ = {"polymorphic_identity": "spoon"}  # noqa: RUF012


platters, tools, knives = (Base.metadata.tables[name] for name in ("platters", "tools", "knives"))

REFUSE = """
create function refuse(id uuid, chef integer) returns boolean language plpgsql as $$
begin
  raise exception 'dish % is closed', id using
    detail = 'its chef is ' || chef, hint = 'ask ' || chef;
end $$
"""
TRIGGER = """
create function check_dish() returns trigger language plpgsql as $$
begin
  if new.name = 'refuse' then
    execute format('select refuse(%L, %s)', new.id, new.chef_id);
  elsif new.name = 'misspell' then
    execute format('select misspelt from platters where chef_id = %s', new.chef_id);
  end if;
  return new;
end $$;
create trigger check_dish before insert or update on platters
for each row execute function check_dish()
"""
Work = Callable[[Any], object]
Raised = Callable[[Work], Exception]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def everything(error: BaseException) -> str:
    """Return all that an exception says: what a log or a model might be shown."""
    said = traceback.format_exception(error)
    for one in chain(error):
        said += [str(one), repr(one), repr(vars(one)), str(getattr(one, "params", ""))]
        said += [str(getattr(one, "pgerror", ""))]
        if "_info" in vars(one):
            said += [repr(getattr(one.diag, n)) for n in dir(one.diag)]  # type: ignore[attr-defined]
    if isinstance(error, DBAPIError) and not type(error.orig).__module__.startswith("sqlalchemy"):
        said += [str(pickle.loads(pickle.dumps(error)))]  # noqa: S301
    # the one thing that is no text: numbers of lines and objects
    return "\n".join(said)


def shows_no_key(error: BaseException) -> bool:
    """Tell whether no key, nor the beginning of one, is anywhere in an exception."""
    said = everything(error).lower()
    shown = [key for key in KEYS if str(key)[:8] in said]
    assert shown == []
    return True


def sqlstate(error: Any) -> str | None:
    """Return the code of an error."""
    driver = getattr(error, "orig", error)
    return getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)


def flush(session: RefSession, *objects: Any) -> None:
    """Flush new objects."""
    session.add_all(objects)
    session.flush()
