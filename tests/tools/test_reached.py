"""What is changed with the rows of an update is held against the rights, told, and asked of."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, ForeignKeyConstraint, UniqueConstraint, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import Watcher, by, counted, save


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Label(Base):
    """Is referred to by a text that may change."""

    __tablename__ = "labels"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    note: Mapped[str | None]
    like_code: Mapped[str | None] = mapped_column(
        ForeignKey("labels.code", onupdate="CASCADE"), info={"ref": None}
    )


class Jar(Base):
    """Follows the text of its label, and is followed."""

    __tablename__ = "jars"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(
        ForeignKey("labels.code", onupdate="CASCADE"), unique=True, info={"ref": None}
    )
    note: Mapped[str | None]


class Lid(Base):
    """Follows a jar."""

    __tablename__ = "lids"

    id: Mapped[int] = mapped_column(primary_key=True)
    jar_code: Mapped[str] = mapped_column(
        ForeignKey("jars.code", onupdate="CASCADE"), info={"ref": None}
    )


class Print(Base):
    """Loses its label when that is another."""

    __tablename__ = "prints"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str | None] = mapped_column(
        ForeignKey("labels.code", onupdate="SET NULL"), info={"ref": None}
    )


class Keyed(Base):
    """Has the text as its key, of which refs are made."""

    __tablename__ = "keyed"

    code: Mapped[str] = mapped_column(
        ForeignKey("labels.code", onupdate="CASCADE"), primary_key=True
    )


ALL: list[type[Any]] = [Label, Jar, Lid, Print]


@pytest.fixture
def shelf(tables: Engine) -> Engine:
    """Two labels; what follows one of them, at any distance, itself too."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        for models in (
            [Label(id=1, code="a", like_code="a"), Label(id=2, code="z")],
            [Jar(id=1, code="a"), Print(id=1, code="a")],
            [Lid(id=1, jar_code="a")],
        ):
            plain.add_all(models)
            plain.flush()
        plain.commit()
    return tables


def change(session: RefSession, toolset: Toolset, **data: str) -> dict[str, Any]:
    """Change the first label."""
    filters = by("code", "a")
    asked = {"table": "labels", "filters": filters, "data": data, "expect": {"count": 1}}
    return toolset.call(session, "db_update", asked)


def codes(engine: Engine) -> list[str | None]:
    """Return what the rows have that follow the first label."""
    with Session(engine) as plain:
        return [
            plain.scalars(select(column)).one() for column in (Jar.code, Lid.jar_code, Print.code)
        ]


@pytest.mark.parametrize(
    ("fixed", "table", "ref"),
    [
        ([Jar], "jars", "jar"),
        ([Lid], "lids", "lid"),
        ([Lid.jar_code], "lids", "lid"),
        ([Print], "prints", "print"),
    ],
)
def test_what_is_changed_with_a_row_is_held(
    shelf: Engine, session: RefSession, fixed: list[Any], table: str, ref: str
) -> None:
    """At any distance, and only where the value is another."""
    toolset = Toolset(ALL, read_only=fixed)
    answer = change(session, toolset, note="x", code="a")
    assert (answer["count"], "updated_with" in answer) == (1, False)
    error = change(session, toolset, code="b")["error"]
    assert (error["code"], error["referring"]) == ("still_referenced", table)
    assert (error["refs"], codes(shelf)) == ([f"{ref}_1"], ["a", "a", "a"])


@pytest.mark.parametrize(
    ("models", "updated", "unlinked", "most"),
    [
        (ALL, ["jar_1", "lid_1"], ["print_1"], 4),
        ([Label, Lid], ["lid_1"], [], 2),
        ([Label], [], [], 1),
    ],
)
def test_what_is_changed_with_a_row_is_told(  # noqa: PLR0917  # what is told is two lists
    shelf: Engine,
    session: RefSession,
    models: list[type[Any]],
    updated: list[str],
    unlinked: list[str],
    most: int,
) -> None:
    """Through rows that no model may use, which are not named; each counts."""
    if most > 1:
        error = change(session, Toolset(models, max_written=most - 1), code="b")["error"]
        assert (error["code"], error["most"]) == ("too_many_rows", most - 1)
    answer = change(session, Toolset(models, max_written=most), code="b")
    assert (answer["rows"][0]["code"], answer["rows"][0]["like_code"]) == ("b", "b")
    assert answer.get("updated_with", []) == updated
    assert answer.get("unlinked", []) == unlinked
    assert codes(shelf) == ["b", "b", None]


def test_hooks_are_asked_of_what_follows(shelf: Engine, session: RefSession) -> None:
    """They may refuse it, and add to it; they see the rows afterwards."""
    refusing = Toolset(ALL, hooks={Jar: [Watcher("update")]})
    assert change(session, refusing, code="b")["error"]["code"] == "locked"
    assert codes(shelf) == ["a", "a", "a"]
    hooks = Watcher(note="changed by a hook")
    answer = change(session, Toolset(ALL, hooks={Jar: [hooks]}), code="b")
    assert answer["notes"] == ["asked", "told"]
    assert hooks.asked == [("update", ["jar_1"], [{"code": "b"}])]
    [(_, told)] = hooks.told
    assert [(row["code"], row["note"]) for row in told] == [("b", "changed by a hook")]


def test_a_key_that_refs_are_made_of_does_not_follow(shelf: Engine, session: RefSession) -> None:
    """Its ref would name nothing."""
    save(shelf, Keyed(code="a"))
    error = change(session, Toolset([Label, Keyed]), code="b")["error"]
    assert (error["code"], error["referring"]) == ("still_referenced", "keyed")
    assert codes(shelf) == ["a", "a", "a"]


# By the unit of work


class Part(Base):
    """Has the code of what it is of, which the database does not look after."""

    __tablename__ = "followers"
    __ref_name__ = "follower"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[int] = mapped_column(info={"ref": None})
    whole_code: Mapped[str | None] = mapped_column(info={"ref": None})

    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "whole_code"],
            ["wholes.tenant", "wholes.code"],
            deferrable=True,
            initially="DEFERRED",
        ),
    )


class Whole(Base):
    """Gives its parts the new code itself."""

    __tablename__ = "wholes"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[int]
    code: Mapped[str]

    parts: Mapped[list[Part]] = relationship(passive_updates=False)

    __table_args__ = (UniqueConstraint("tenant", "code"),)


def test_what_the_unit_of_work_changes_is_held_and_told(
    tables: Engine, session: RefSession
) -> None:
    """A relationship that does not leave it to the database."""
    Base.metadata.create_all(tables)
    save(tables, *(Whole(id=n, tenant=n, code="a", parts=[Part(id=n)]) for n in (1, 2)))
    asked = {"table": "wholes", "filters": by("code", "a"), "data": {"code": "b"}}
    refused = counted(Toolset([Whole, Part], read_only=[Part]), session, "db_update", asked)
    assert refused["error"]["refs"] == ["follower_1", "follower_2"]
    told = counted(Toolset([Whole, Part]), session, "db_update", asked)
    assert told["updated_with"] == ["follower_1", "follower_2"]
    with Session(tables) as plain:
        assert plain.scalars(select(Part.whole_code)).all() == ["b", "b"]
