"""Arrays of keys: of several dimensions, of integers, and tracked for changes in place."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import ARRAY, Engine, Integer, Uuid, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.mutable import MutableList
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import RefSession, UnknownRefError


class Base(DeclarativeBase):
    """Declarative base of these shapes."""


class Tile(Base):
    """What the arrays hold keys of."""

    __tablename__ = "tiles"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)


class Stamp(Base):
    """The same with integers."""

    __tablename__ = "stamps"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)


class Board(Base):
    """Has an array of each kind, and JSON, which is data."""

    __tablename__ = "boards"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    grid: Mapped[Any] = mapped_column(
        ARRAY(Uuid, dimensions=2), info={"ref": "tiles.id"}, nullable=True
    )
    hand: Mapped[Any] = mapped_column(
        MutableList.as_mutable(ARRAY(Uuid)), info={"ref": Tile}, nullable=True
    )
    stamps: Mapped[Any] = mapped_column(ARRAY(Integer), info={"ref": Stamp}, nullable=True)
    data: Mapped[Any] = mapped_column(JSONB, nullable=True)


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """The engine, with these tables in its database."""
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def board(session: RefSession) -> Board:
    """A saved board, after two tiles and two stamps."""
    many: list[Any] = [Tile(), Tile(), Stamp(id=7), Stamp(id=8)]
    session.add_all(many)
    session.commit()
    assert [one.id for one in many] == ["tile_1", "tile_2", "stamp_1", "stamp_2"]
    board = Board()
    session.add(board)
    session.commit()
    return board


def test_an_array_of_arrays_is_translated_at_every_level(
    session: RefSession, board: Board
) -> None:
    """On new and loaded objects, in rows, values and comparisons."""
    grid = [["tile_1", "tile_2"], [None, "tile_1"]]
    board.grid = grid
    session.add(Board(grid=[["tile_2"]]))
    session.commit()

    assert board.grid == grid
    assert session.scalars(select(Board.grid).where(Board.grid == grid)).all() == [grid]
    assert session.scalars(select(Board.grid).where(Board.grid != grid)).all() == [[["tile_2"]]]
    shown: Any = board.grid
    with pytest.raises(TypeError, match="assign a new list"):
        shown[0].append("tile_2")
    with pytest.raises(UnknownRefError):
        board.grid = [["tile_1", "tile_9"]]


def test_an_array_that_tracks_changes_is_replaced_or_changed_before_it_is_saved(
    session: RefSession, board: Board
) -> None:
    """A ref appended to a new object's list is resolved; to a saved one's it is refused."""
    new = Board(hand=["tile_1"])
    session.add(new)
    new.hand.append("tile_2")
    session.commit()
    assert new.hand == ["tile_1", "tile_2"]

    board.hand = ["tile_2"]
    hands: list[Any] = [board.hand, new.hand]
    for hand in hands:
        with pytest.raises(TypeError, match="assign a new list"):
            hand.append("tile_1")
    session.commit()
    assert session.scalars(select(Board.hand).where(Board.id == board.id)).one() == ["tile_2"]


def test_arrays_of_integer_keys_show_refs(session: RefSession, board: Board) -> None:
    """An integer in such an array is a key, not a number."""
    board.stamps = ["stamp_2", "stamp_1"]
    session.commit()

    assert board.__dict__.get("stamps") is None
    assert board.stamps == ["stamp_2", "stamp_1"]
    assert board.__dict__["stamps"] == [8, 7]
    assert session.scalars(select(Board.stamps)).all() == [["stamp_2", "stamp_1"]]


def test_json_is_data(session: RefSession, board: Board) -> None:
    """A key or a ref inside a document comes out as it went in."""
    data = {"tile": str(uuid.uuid4()), "ref": "tile_1"}
    board.data = data
    session.commit()

    assert session.scalars(select(Board.data)).all() == [data]
    assert board.data == data
