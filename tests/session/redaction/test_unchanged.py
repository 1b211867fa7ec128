"""Errors in which nothing has to be hidden have the text that SQLAlchemy gives them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Engine,
    Integer,
    NullPool,
    String,
    create_engine,
    insert,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Mapped, Session, mapped_column

from alfred_refs import Conversation, RefSession
from tests.session.redaction.kitchen import Base


class Shelf(Base):
    """No column has keys: its number is the program's own."""

    __tablename__ = "redaction_shelves"

    number: Mapped[int] = mapped_column(primary_key=True, info={"ref": None})
    name: Mapped[str] = mapped_column(unique=True)
    sizes: Mapped[Any] = mapped_column(ARRAY(Integer), nullable=True)
    notes: Mapped[Any] = mapped_column(JSON, nullable=True)
    code: Mapped[Any] = mapped_column(String(3), nullable=True)


def _twins(session: Session) -> None:
    session.get(Shelf, 1)
    with Session(session.bind) as other:
        twin = other.get(Shelf, 1)
        other.expunge_all()
    session.add(twin)


def _gone(session: Session) -> None:
    shelf: Any = session.get(Shelf, 1)
    session.expire(shelf)
    session.execute(text("delete from redaction_shelves where number = 1"))
    _ = shelf.name


def _stale(session: Session) -> None:
    shelf: Any = session.get(Shelf, 1)
    session.execute(text("delete from redaction_shelves"))
    shelf.code = "x"
    session.flush()


def _conflict(session: Session) -> None:
    session.get(Shelf, 1)
    session.add_all([Shelf(number=2, name="b"), Shelf(number=2, name="c")])
    session.flush()


def _sql(statement: str) -> Callable[[Session], object]:
    return lambda session: session.execute(text(statement))


def _row(**values: Any) -> Callable[[Session], object]:
    return lambda session: session.execute(insert(Shelf).values(number=2, **values))


CASES: dict[str, Callable[[Session], object]] = {
    "identity": _twins,
    "row that is gone": _gone,
    "stale row": _stale,
    "two new rows": _conflict,
    "not unique": _row(name="a", sizes=[1, 2], code=None),
    "row with a null": _row(name=None, code="abc"),
    "value too long": _row(name="b", code="abcd"),
    "tuple": lambda s: s.execute(insert(Shelf), {"number": 2, "name": "a", "sizes": (1, 2)}),
    "set": lambda s: s.execute(insert(Shelf), {"number": 2, "name": {"a"}}),
    "rows": lambda s: s.execute(insert(Shelf), [{"number": n, "name": "z"} for n in (3, 4)]),
    "document": _row(name="b", notes={"a": {1}}),
    "no parameter": lambda s: s.execute(select(Shelf).where(text("name = :a"))),
    "excerpt": _sql("select number, 'x' from redaction_shelves where number = 12 and nonsense"),
    "syntax": _sql("select 'a' 12"),
    "no result": lambda s: s.scalars(select(Shelf).where(Shelf.number == 7)).one(),
    "no row": lambda s: s.get_one(Shelf, 7),
    "unmapped": lambda s: s.add("x"),
}


def _error(session: Session, work: Callable[[Session], object]) -> str:
    """Return all that the errors of some work show."""
    with session:
        session.add(Shelf(number=1, name="a"))
        session.flush()
        with pytest.raises((SQLAlchemyError, TypeError)) as caught:
            work(session)
    shown, error = [], caught.value
    while error is not None:
        parts = (getattr(error, name, None) for name in ("statement", "params", "detail"))
        shown += [type(error).__name__, str(error), *map(repr, (error.args, *parts))]
        error = error.__cause__  # type: ignore[assignment]
    return re.sub("0x[0-9a-f]+", "an address", "\n".join(shown))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_an_error_without_keys_keeps_its_text(
    kitchen: Engine, conversation: Conversation, case: str, driver: str
) -> None:
    """To the letter: class, message, arguments, statement and parameters."""
    engine = create_engine(kitchen.url.set(drivername=f"postgresql+{driver}"), poolclass=NullPool)

    plain = _error(Session(engine), CASES[case])
    active = _error(RefSession(engine, conversation=conversation), CASES[case])

    assert active == plain
