"""What a turn did, kept so that it can be shown and checked: each answer as both sides have it.

In go the instances and the answers of tools that the application is about to answer a model with.
They are read twice: as the model sees them, and from the database, without refs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy import Engine, Table, func, inspect, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation
from examples.kitchen.models import Base

Record = Mapping[str, str]
"""Text by the name of its field: what the model sees of a row, or what the database holds."""


# what an answer of a tool has beside its rows
BESIDE: Final = ("saved", "deleted", "notes", "error")


class Exchange(BaseModel, frozen=True):
    """What the model asked for, and the answer on both sides, record by record.

    Attributes:
        asked: in words, or as the call of a tool.
        model: what the model sees, or as much of it as there is room for.
        database: what the database holds there.
        answer: the whole answer of a tool.
    """

    asked: str
    model: list[Record]
    database: list[Record]
    answer: dict[str, Any] = {}


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
            if exchange.answer:
                yield _text(exchange.answer)


class Transcript:
    """The exchanges of a turn, in order.

    Args:
        engine: The database, to be read without refs.
        conversation: Tells the keys of what tools answer.
    """

    def __init__(self, engine: Engine, conversation: Conversation) -> None:
        self._engine = engine
        self._conversation = conversation
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
        held = self._count(Base.metadata.tables[affected.__tablename__])
        self._add(asked, [answer], [dict.fromkeys(answer, held)])

    def call(self, asked: str, answer: Mapping[str, Any], *fields: str) -> None:
        """Answer as a tool does: with a list, or rows and drafts, of which these are shown."""
        model: list[Record] = []
        database: list[Record] = []
        for each in (answer, *answer.get("also", ())):
            table = Base.metadata.tables[each["table"]]
            for row in each.get("rows", ()):
                shown = [field for field in fields if field in row]
                model.append({field: _text(row[field]) for field in shown})
                database.append(self._held(table, row, shown))
        if "items" in answer:
            model.append({f"{n}": _text(item) for n, item in answer["items"].items()})
            database.append(self._list_held(answer))
        if beside := {name: _text(answer[name]) for name in BESIDE if name in answer}:
            held = self._count(Base.metadata.tables[answer["table"]])
            model.append(beside)
            database.append({**dict.fromkeys(beside, ""), next(iter(beside)): held})
        self._add(asked, model, database, dict(answer))

    def _held(self, table: Table, row: Mapping[str, Any], fields: Iterable[str]) -> Record:
        """Return what a table has where a tool shows a row; it has nothing of a draft."""
        if "_draft" in row:
            return {**dict.fromkeys(fields, ""), "id": f"no row; {self._count(table)}"}
        key = self._conversation.resolve(row["id"])
        with self._engine.connect() as connection:
            held = connection.execute(select(table).where(table.c.id == key)).mappings().one()
        return {field: str(held.get(field, "")) for field in fields}

    def _list_held(self, answer: Mapping[str, Any]) -> Record:
        """Return what a column has that is a list, by position: more than a preview shows."""
        table = Base.metadata.tables[answer["table"]]
        column, key = table.c[answer["list"]], self._conversation.resolve(answer["row"])
        with self._engine.connect() as connection:
            held = connection.scalar(select(column).where(table.c.id == key)) or ()
        return {str(n): _text(item) for n, item in enumerate(held, start=1)}

    def _count(self, table: Table) -> str:
        with self._engine.connect() as connection:
            count = connection.scalar(select(func.count()).select_from(table))
        return f"rows in {table.name}: {count}"

    def _add(
        self,
        asked: str,
        model: list[Record],
        database: list[Record],
        answer: dict[str, Any] | None = None,
    ) -> None:
        exchange = Exchange(asked=asked, model=model, database=database, answer=answer or {})
        self.exchanges.append(exchange)


def _record(row: Base, fields: Iterable[str]) -> Record:
    return {field: str(attrgetter(field)(row)) for field in fields}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
