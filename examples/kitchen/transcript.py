"""What a turn did, kept so that it can be shown and checked: each answer as both sides have it.

In go the instances that the application is about to answer a model with. They are read twice:
from the instances, as the model sees them, and from the database, by a plain session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from pydantic import BaseModel
from sqlalchemy import Engine, func, inspect, select
from sqlalchemy.orm import Session

from examples.kitchen.models import Base

Record = Mapping[str, str]
"""Text by the name of its field: what the model sees of a row, or what the database holds."""


class Exchange(BaseModel, frozen=True):
    """What the model asked for, and the answer on both sides, record by record."""

    asked: str
    model: list[Record]
    database: list[Record]


class Turn(BaseModel, frozen=True):
    """One message of the user's, and all the work it caused in one process."""

    number: int
    process: int
    point: str
    user: str
    exchanges: list[Exchange]

    def model_side(self) -> Iterator[str]:
        """Yield every text that the model saw or wrote."""
        yield self.user
        for exchange in self.exchanges:
            yield exchange.asked
            for record in exchange.model:
                yield from record
                yield from record.values()


class Transcript:
    """The exchanges of a turn, in order.

    Args:
        engine: The database, to be read without refs.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.exchanges: list[Exchange] = []

    def rows(self, asked: str, rows: Iterable[Base], *fields: str) -> None:
        """Answer with rows, of which the model sees these fields; dots lead to related rows."""
        shown = list(rows)
        with Session(self._engine) as plain:
            held = [plain.get_one(type(row), inspect(row).identity) for row in shown]
            database = [_record(row, fields) for row in held]
        self._add(asked, [_record(row, fields) for row in shown], database)

    def answer(self, asked: str, answer: Record, affected: type[Base]) -> None:
        """Answer in words, beside which stands how many rows there are of what was affected."""
        with Session(self._engine) as plain:
            count = plain.scalar(select(func.count()).select_from(affected))
        held = f"rows in {affected.__tablename__}: {count}"
        self._add(asked, [answer], [dict.fromkeys(answer, held)])

    def _add(self, asked: str, model: list[Record], database: list[Record]) -> None:
        self.exchanges.append(Exchange(asked=asked, model=model, database=database))


def _record(row: Base, fields: Iterable[str]) -> Record:
    return {field: str(attrgetter(field)(row)) for field in fields}
