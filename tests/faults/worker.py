"""One process that uses the registry until its standard input closes, or it is killed.

In: a JSON object with the fields of `Task`, as the only argument. Out: lines of JSON appended to
the log, each by one write after the event, so that a kill loses no ref that was returned. The
kinds, by `what`:

- `given`: a ref of a key was returned; `conversation`, `entity`, `key`, `ref`.
- `turn`: a turn began; `conversation`, `turn`.
- `saved` and `undone`: a row was committed or rolled back; `name`.
- `lost`: a ref that was returned is unknown, or has another key; `ref`, `error`.
- `failed`: the registry raised an error of the package; `error`, its class and SQLSTATE.
- `broke`: the registry raised any other error.
- `cut`: the application's own connection failed, and with it a transaction.
- `harmed`: a transaction of the application failed because of the registry.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Engine, create_engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.util import greenlet_spawn

from alfred_refs import BadRefError, Conversation, RefError, RefRegistry, RefSession
from alfred_refs.mapping.keys import Key
from tests.faults.broken import STORES
from tests.models import Recipe

ISOLATIONS: Sequence[dict[str, Any]] = (
    {},
    {"isolation_level": "SERIALIZABLE"},
    {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
)

# number of keys that all workers share at a time, and the seconds until they use others
SHARED, SECONDS = 30, 0.5


@dataclass(frozen=True, slots=True)
class Task:
    """The settings of a worker.

    Attributes:
        data: URL of the application's database, with the tests' tables.
        registry: URL of the registry's database.
        conversations: to work in.
        log: path of its log.
        seed: of its random choices.
        begun: start of the campaign, in seconds since the epoch.
        driver: of the registry's engine.
        options: for each of its connections, as `-c name=value`.
        store: the name of a store in `broken`; empty for the real one.
    """

    data: str
    registry: str
    conversations: Sequence[str]
    log: str
    seed: int
    begun: float
    driver: str = "psycopg"
    options: str = ""
    store: str = ""

    def written(self) -> str:
        """Return the worker's argument."""
        return json.dumps(asdict(self))


class Worker:
    """Uses the registry at random."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._random = random.Random(task.seed)  # noqa: S311  # choices, not secrets
        self._log = os.open(task.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._own = 0
        self._given: dict[tuple[str, str], Key] = {}
        self._runner = asyncio.Runner()
        self._is_async = task.driver in {"asyncpg", "psycopg_async"}
        self._registry = RefRegistry(store=STORES[task.store](self._engine()))
        # open conversations, which cache refs; others are opened again each time
        self._kept = [self._registry.conversation(name) for name in task.conversations]
        # rows are compared in the end, so none may be lost by a crash
        data = create_engine(task.data, connect_args={"options": "-c synchronous_commit=on"})
        self._sessions = [
            sessionmaker(data.execution_options(**options), class_=RefSession)
            for options in ISOLATIONS
        ]

    def _engine(self) -> Engine:
        url = self._task.registry.replace("+psycopg:", f"+{self._task.driver}:")
        if self._task.driver == "asyncpg":
            # asyncpg has another parameter for settings
            pairs = (pair.split("=") for pair in self._task.options.split() if "=" in pair)
            arguments: dict[str, Any] = {"server_settings": dict(pairs)}
        else:
            arguments = {"options": self._task.options}
        if self._is_async:
            engine: AsyncEngine = create_async_engine(url, connect_args=arguments)
            return engine.sync_engine
        return create_engine(url, connect_args=arguments)

    def work(self) -> None:
        """Do one random thing, and log the outcome."""
        ways = [self._mint] * 6 + [self._resolve] * 3 + [self._turn, self._mark]
        if not self._is_async:
            ways += [self._save] * 3 + [self._read] * 2
        way = self._random.choice(ways)
        try:
            self._run(way)
        except RefError as error:
            sqlstate = getattr(error, "sqlstate", None)
            name = f"{type(error).__name__} {sqlstate or ''}".rstrip()
            self._write(what="failed", error=name, told=str(error))
        except Exception:  # noqa: BLE001  # the campaign counts them
            self._write(what="broke", told=traceback.format_exc())

    def _run(self, way: Callable[[], None]) -> None:
        if self._is_async:
            self._runner.run(greenlet_spawn(way))
        else:
            way()

    def _mint(self) -> None:
        conversation = self._conversation()
        entity = self._random.choice(["recipe", "order", "order_line"])
        keys = list(dict.fromkeys(self._key(entity) for _ in range(self._random.randint(1, 12))))
        refs = conversation.refer_all(entity, keys)
        self._note_given(conversation, entity, keys, refs)
        self._given |= {(conversation.id, ref): key for key, ref in zip(keys, refs, strict=True)}

    def _resolve(self) -> None:
        if not self._given:
            return
        conversation, ref = self._random.choice(list(self._given))
        try:
            key = self._registry.conversation(conversation).resolve(ref)
        except BadRefError as error:
            self._write(what="lost", ref=ref, error=type(error).__name__)
        else:
            if key != self._given[conversation, ref]:
                self._write(what="lost", ref=ref, error="another key")

    def _turn(self) -> None:
        conversation = self._conversation()
        self._write(what="turn", conversation=conversation.id, turn=conversation.begin_turn())

    def _mark(self) -> None:
        conversation = self._conversation()
        keys: list[Key] = [uuid.uuid5(uuid.NAMESPACE_URL, f"{n}") for n in range(12)]
        self._random.shuffle(keys)
        refs = conversation.refer_all("box", keys)
        self._note_given(conversation, "box", keys, refs)
        conversation.note_gone([("box", key) for key in keys], "was deleted")

    def _save(self) -> None:
        """Save a row or roll back, after reading its ref."""
        recipe = Recipe(name=uuid.UUID(int=self._random.getrandbits(128)).hex)
        name, is_saved = recipe.name, self._random.random() < 0.6
        session = self._sessions[self._random.randrange(2)](conversation=self._conversation())
        told: list[RefError] = []
        try:
            with session:
                session.add(recipe)
                session.flush()
                key = self._show(session, recipe, told)
                (session.commit if is_saved else session.rollback)()
        except (DBAPIError, RefError) as error:
            self._note_failure(error)
            return
        self._write(what="saved" if is_saved else "undone", name=name, key=key.hex)
        if told:
            raise told[0]

    def _show(self, session: RefSession, recipe: Recipe, told: list[RefError]) -> uuid.UUID:
        """Return a row's key after minting its ref; collect an error of the registry."""
        with session.raw_keys():
            key: uuid.UUID = recipe.id
        try:
            refs = [recipe.id]
        except RefError as error:
            told.append(error)
        else:
            assert session.conversation is not None
            self._note_given(session.conversation, "recipe", [key], refs)
        return key

    def _read(self) -> None:
        """Read rows in a transaction, read-only or not, that is never committed."""
        conversation = self._conversation()
        recent = select(Recipe).order_by(Recipe.name).limit(10)
        try:
            with self._random.choice(self._sessions)(conversation=conversation) as session:
                recipes = session.scalars(recent).all()
                with session.raw_keys():
                    keys = [recipe.id for recipe in recipes]
                refs = [recipe.id for recipe in recipes]
        except DBAPIError as error:
            self._note_failure(error)
        else:
            self._note_given(conversation, "recipe", keys, refs)

    def _note_failure(self, error: Exception) -> None:
        """Log a failed transaction of the application."""
        self._write(what="cut" if _is_outside(error) else "harmed", told=str(error))

    def _conversation(self) -> Conversation:
        if self._random.random() < 0.5:
            return self._random.choice(self._kept)
        return self._registry.conversation(self._random.choice(self._task.conversations))

    def _key(self, entity: str) -> Key:
        """Return a key that all workers currently share, or a private one."""
        if self._random.random() < 0.7:
            passed = int((time.time() - self._task.begun) / SECONDS)
            number = (passed + 1) * SHARED + self._random.randrange(SHARED)
        else:
            self._own += 1
            number = self._task.seed * 100_000 + 50_000 + self._own
        if entity == "recipe":
            return uuid.uuid5(uuid.NAMESPACE_OID, str(number))
        return number if entity == "order" else (number, number % 7)

    def _note_given(
        self, conversation: Conversation, entity: str, keys: Sequence[Key], refs: Sequence[str]
    ) -> None:
        lines = [
            {
                "what": "given",
                "conversation": conversation.id,
                "entity": entity,
                "key": key.hex if isinstance(key, uuid.UUID) else key,
                "ref": ref,
            }
            for key, ref in zip(keys, refs, strict=True)
        ]
        self._write_all(lines)

    def _write(self, **line: Any) -> None:
        self._write_all([line])

    def _write_all(self, lines: Sequence[dict[str, Any]]) -> None:
        now = time.time()
        text = "".join(json.dumps(line | {"at": now}) + "\n" for line in lines)
        os.write(self._log, text.encode())


def _is_outside(error: Exception) -> bool:
    """Return whether an injected fault or a concurrent transaction caused the failure."""
    if not isinstance(error, DBAPIError):
        return False
    sqlstate = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or sqlstate in {None, "40001", "57P01", "57P02", "57P03"}


def main(argument: str) -> None:
    """Work until standard input closes, which it does if the campaign dies too."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    logging.disable()  # warnings about activity that could not be recorded
    threading.Thread(target=wait_for_end, daemon=True).start()
    worker = Worker(Task(**json.loads(argument)))
    while not ended.is_set():
        worker.work()


if __name__ == "__main__":
    main(sys.argv[1])
