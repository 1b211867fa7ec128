"""Lists that are edited by position in a session that has an owner."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Ownership, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Of these tables alone."""


class Album(Base):
    """Has songs of several owners; those of nobody are shared."""

    __tablename__ = "albums"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None]

    songs: Mapped[list[Song]] = relationship(
        order_by="Song.position", cascade="all, delete-orphan"
    )


class Song(Base):
    """A song of an album."""

    __tablename__ = "songs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None]
    album_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("albums.id"))
    position: Mapped[int]


OWNERSHIP = Ownership({Album: "owner", Song: "owner"}, shared=[Album, Song])
TOOLSET = Toolset([Album, Song], owner=OWNERSHIP)

Editing = Callable[..., dict[str, Any]]


@pytest.fixture
def edit(engine: Engine) -> Iterator[Editing]:
    """Make an album with a song of each of some owners, and edit its list in Ann's session."""
    Base.metadata.create_all(engine)
    conversation = RefRegistry(store=MemoryStore()).conversation("chat", owner="ann")
    with RefSession(engine, conversation=conversation, owner=OWNERSHIP.of("ann")) as session:

        def edit(whose: str | None, songs: list[str | None], **asked: Any) -> dict[str, Any]:
            made = [Song(owner=each, position=n) for n, each in enumerate(songs, start=1)]
            with Session(engine) as plain:
                album = Album(owner=whose, songs=made)
                plain.add(album)
                plain.commit()
                ref = conversation.refer(Album, album.id)
            given = {"table": "albums", "row": ref, "list": "songs", **asked}
            return TOOLSET.call(session, "db_edit_list", given)

        yield edit


REMOVE = {"action": "remove", "path": [1]}


@pytest.mark.parametrize("asked", [{"edits": [REMOVE]}, {"edits": [REMOVE], "preview": True}])
def test_rows_that_are_only_read_are_named(
    edit: Editing, engine: Engine, asked: dict[str, Any]
) -> None:
    """Where they would be numbered anew; a preview does not show what comes to nothing."""
    error = edit("ann", ["ann", "ann", None, None], **asked)["error"]
    assert (error["code"], error["refs"]) == ("foreign_row", ["song_3", "song_4"])
    with Session(engine) as plain:
        assert sorted(plain.scalars(select(Song.position))) == [1, 2, 3, 4]
    assert edit("ann", [None, "ann"], edits=[{**REMOVE, "path": [2]}])["count"] == 1


def test_a_list_with_rows_that_are_not_seen_is_left(edit: Editing) -> None:
    """A model is not told to look at it again once it has."""
    for asked in ({"preview": True}, {"edits": [REMOVE], "token": "x"}):
        error = edit("ann", ["ann", "bob"], **asked)["error"]
        assert error["message"] == (
            "the list 'songs' has rows that its owner may not see; change its rows by their refs"
        )


@pytest.mark.parametrize("whose", ["bob", None])
def test_the_list_of_a_row_of_another_is_not_edited(edit: Editing, whose: str | None) -> None:
    """Nor that of a shared one."""
    assert edit(whose, ["ann"], edits=[REMOVE])["error"]["code"] == "foreign_row"
