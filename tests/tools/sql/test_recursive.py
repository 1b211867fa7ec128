"""Parts of WITH that name themselves: what their columns hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ForeignKey, Text, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.tools import Toolset

WITH_TEXTS = RefPolicy(key_types=("uuid", "integer", "string"))


class Base(DeclarativeBase):
    """Declarative base of the places."""


class Place(Base):
    """A place in another, whose key is a text."""

    __tablename__ = "places"
    __ref_name__ = "place"

    code: Mapped[Any] = mapped_column(Text, primary_key=True)
    inside: Mapped[Any] = mapped_column(Text, ForeignKey("places.code"), nullable=True)
    name: Mapped[str]


@pytest.fixture
def session(database_url: str) -> Iterator[RefSession]:
    """A session on three places, each in the one before."""
    engine = create_engine(database_url)
    Base.metadata.create_all(engine)
    registry = RefRegistry(engine, policy=WITH_TEXTS)
    registry.create_tables()
    with Session(engine) as plain, plain.begin():
        for code, inside, name in (
            ("eu", None, "Europe"),
            ("at", "eu", "Austria"),
            ("w", "at", "Vienna"),
        ):
            plain.add(Place(code=code, inside=inside, name=name))
            plain.flush()
    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        yield session
    engine.dispose()


def _ask(session: RefSession, sql: str) -> Any:
    toolset = Toolset([Place], policy=WITH_TEXTS, sql=True)
    return toolset.call(session, "db_query", {"sql": sql})


def test_a_column_that_begins_with_null_does_not_go_on_with_refs(session: RefSession) -> None:
    """PostgreSQL takes NULL for a text, which a key may be; its column would hold both."""
    told = _ask(
        session,
        "with recursive found(inside, level) as (select null, 1 union all "
        "select p.inside, level + 1 from places p, found where level < 2) "
        "select inside from found",
    )

    assert told["error"]["code"] == "invalid_sql"
    assert "'found' begins with NULL where it goes on with refs" in told["error"]["message"]


def test_a_column_that_begins_with_refs_holds_refs(session: RefSession) -> None:
    """In the SELECT after the WITH they are compared with refs."""
    ref = _ask(session, "select code from places where name = 'Europe'")["rows"][0][0]
    told = _ask(
        session,
        "with recursive found(code, level) as (select code, 1 from places where inside is null "
        "union all select p.code, level + 1 from places p join found on p.inside = found.code) "
        f"select level from found where code <> '{ref}' order by level",
    )

    assert told["rows"] == [[2], [3]]


def test_refs_are_found_behind_null_in_unions_of_unions(session: RefSession) -> None:
    """Next to texts, which PostgreSQL cuts in a SELECT around them."""
    told = _ask(
        session,
        "select null, 'a' union (select null, 'b' union select code, name from places) order by 2",
    )

    assert told["rows"][0][1:] == ["Austria"]
    assert {str(ref).partition("_")[0] for ref, _ in told["rows"]} == {"place", "None"}


NESTED = (
    "select code from places where code = {ref} union select null",
    "(select null union select code from places) union select code from places where code = {ref}",
    (
        "select null union select code from places except select inside from places "
        "where inside <> {ref} order by 1"
    ),
)


@pytest.mark.parametrize("sql", NESTED)
def test_refs_behind_null_are_found_in_statements_that_compare_refs(
    session: RefSession, sql: str
) -> None:
    """Where refs are parameters, the session must know the type of each column that has keys."""
    ref = _ask(session, "select code from places where name = 'Europe'")["rows"][0][0]

    told = _ask(session, sql.format(ref=f"'{ref}'"))

    assert {str(row[0]).partition("_")[0] for row in told["rows"]} == {"place", "None"}
