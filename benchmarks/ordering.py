"""What it costs to edit lists by position, against statements written by hand.

A batch of twenty edits, a third each of what goes, comes and moves, in lists of ten, of a thousand
and of a hundred thousand rows. By hand each edit moves the rows behind it by an UPDATE of its own.
What is done by the ORM reads the whole list, and writes those rows alone that change.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, ForeignKey, MetaData, Table, Uuid, delete, event, insert, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs.positions import Add, Edit, EditableList, Move, Remove
from benchmarks.measure import Figure, side_by_side
from benchmarks.setting import Setting
from benchmarks.table import Row

_EDITS = 20


class _Base(DeclarativeBase):
    metadata = MetaData()


class _Board(_Base):
    __tablename__ = "bench_boards"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    cards: Mapped[list[_Card]] = relationship(
        order_by="_Card.position", cascade="all, delete-orphan"
    )


class _Card(_Base):
    __tablename__ = "bench_cards"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    board_id: Mapped[Any] = mapped_column(ForeignKey("bench_boards.id"), index=True)
    position: Mapped[int]
    title: Mapped[str]


def edited_short(setting: Setting) -> Figure:
    """Compare a batch in a list of ten rows."""
    return _edited(setting, 10)


def edited(setting: Setting) -> Figure:
    """Compare a batch in a list of as many rows as the tables have: a thousand."""
    return _edited(setting, len(setting.recipes))


def edited_long(setting: Setting) -> Figure:
    """Compare a batch in a list of a hundred times as many."""
    return _edited(setting, 100 * len(setting.recipes), repetitions=3)


def _edited(setting: Setting, length: int, repetitions: int | None = None) -> Figure:
    _Base.metadata.create_all(setting.engine)
    boards = [uuid.uuid4(), uuid.uuid4()]
    cards: Table = _Card.__table__  # type: ignore[assignment]
    with setting.engine.begin() as connection:
        for board in boards:
            connection.execute(insert(_Board), {"id": board})
            rows = [
                {"id": uuid.uuid4(), "board_id": board, "position": n, "title": "x"}
                for n in range(1, length + 1)
            ]
            connection.execute(insert(cards), rows)
    written = {"ours": 0, "by hand": 0}
    places = _places(length)
    figure = side_by_side(
        partial(_by_position, setting, boards[0], places, written),
        partial(_by_hand, setting, boards[1], places, cards, written),
        repetitions=min(setting.repetitions, repetitions or 20),
    ).by_clock()
    counts = "; ".join(f"{count:,} rows written {who}" for who, count in written.items())
    return Figure(figure.value, figure.by, f"{figure.detail}; {counts}", figure.spread)


def _places(length: int) -> Sequence[int]:
    """Return which items are edited, spread over the list: none twice."""
    count = min(_EDITS, length // 2)
    return [1 + n * length // count for n in range(count)] if count else [1]


def _by_position(
    setting: Setting, board: Any, places: Sequence[int], written: dict[str, int]
) -> None:
    edits: list[Edit] = []
    for number, place in enumerate(places):
        if number % 3 == 0:
            edits += [Remove([place]), Add([place], {"title": "new"})]
        elif number % 3 == 1:
            edits.append(Move([place], to=max(1, place - 2)))
    with Session(setting.engine) as session:
        counted = _counted(session.connection(), written, "ours")
        EditableList(_Board, "cards").apply(session, board, edits)
        session.commit()
        counted()


def _by_hand(
    setting: Setting, board: Any, places: Sequence[int], cards: Table, written: dict[str, int]
) -> None:
    position, own = cards.c.position, cards.c.board_id == board
    with setting.engine.begin() as connection:
        counted = _counted(connection, written, "by hand")
        for number, place in enumerate(places):
            if number % 3 == 0:
                connection.execute(delete(cards).where(own, position == place))
                behind = update(cards).where(own, position > place)
                connection.execute(behind.values(position=position - 1))
                behind = update(cards).where(own, position >= place)
                connection.execute(behind.values(position=position + 1))
                new = {"id": uuid.uuid4(), "board_id": board, "position": place, "title": "new"}
                connection.execute(insert(cards), new)
            elif number % 3 == 1:
                to = max(1, place - 2)
                moved = update(cards).where(own, position == place)
                connection.execute(moved.values(position=0))
                between = update(cards).where(own, position >= to, position < place)
                connection.execute(between.values(position=position + 1))
                connection.execute(update(cards).where(own, position == 0).values(position=to))
        counted()


def _counted(connection: Connection, written: dict[str, int], who: str) -> Any:
    """Count the rows that a connection writes until what is returned is called."""
    written[who] = 0

    def count(*arguments: Any) -> None:
        _, cursor, statement, *_ = arguments
        if statement.startswith(("UPDATE", "INSERT", "DELETE")):
            written[who] += max(cursor.rowcount, 0)

    event.listen(connection, "after_cursor_execute", count)
    return lambda: event.remove(connection, "after_cursor_execute", count)


ROWS = (
    Row("20 edits by position / by hand, in a list of 10", None, edited_short),
    Row("20 edits by position / by hand, in a list of 1,000", None, edited),
    Row("20 edits by position / by hand, in a list of 100,000", None, edited_long),
)
