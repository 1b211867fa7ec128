"""Run workers, inject faults, and compare logs and databases afterwards.

In: a server that can crash, a directory for the workers' logs, a duration, a number of workers.
Out: a `Verdict`. Workers end when their pipe closes, so none survives the campaign's process.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, NullPool, Select, Table, and_, create_engine, select, text
from sqlalchemy.exc import OperationalError

from alfred_refs import PostgresStore
from alfred_refs.mapping.keys import decode
from alfred_refs.store.schema import conversations, counters, mappings
from tests.faults.verdict import Kept, Place, Verdict, verdict_on
from tests.faults.worker import Task
from tests.models import Base, Recipe
from tests.postgres.server import ROOT, CrashingServer

# database of the registry -> its conversations; "data" has the application's tables too
REGISTRIES = {"data": ("fault-1", "fault-2"), "registry": ("fault-3", "fault-4")}

DRIVERS = ("psycopg", "psycopg_async", "psycopg2", "psycopg", "asyncpg")

# every third worker has short timeouts
OPTIONS = ("", "", "-c statement_timeout=150 -c lock_timeout=100")

CUT = """
select count(pg_terminate_backend(pid)) from (
    select pid from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()
    order by random() limit 2
)
"""

# mean seconds between two faults of a kind
KILLED, CUT_OFF, HELD, CRASHED = 1.6, 0.4, 0.7, 5.0

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Running:
    """A worker process.

    Attributes:
        process: the process.
        log: its log.
    """

    process: subprocess.Popen[bytes]
    log: Path

    def has_succeeded_since(self, moment: float) -> bool:
        """Return whether it received a ref after a moment."""
        return any(line["what"] == "given" and line["at"] > moment for line in lines_of(self.log))

    @property
    def last_lines(self) -> str:
        """The end of its log."""
        return f"{self.log.name}: {lines_of(self.log)[-2:]}"


class Campaign:
    """Runs workers and injects faults.

    Args:
        server: used by nobody else; the campaign creates its databases.
        directory: for the workers' logs.
        workers: number of processes.
        seed: of the faults.
        store: name of a store in `broken`; empty for the real store.
        haste: factor by which faults are more frequent.
    """

    def __init__(
        self,
        server: CrashingServer,
        directory: Path,
        *,
        workers: int = 6,
        seed: int = 0,
        store: str = "",
        haste: float = 1,
    ) -> None:
        self._server = server
        self._directory = directory
        self._random = random.Random(seed)  # noqa: S311  # choices, not secrets
        self._store = store
        self._haste = haste
        self._done: Counter[str] = Counter()
        self._begun = time.time()
        self._make_databases()
        self._workers = [self._start() for _ in range(workers)]

    def run(self, seconds: float) -> Verdict:
        """Inject faults for some seconds, let the workers recover, and return the verdict."""
        self._wait_for_all(since=self._begun)
        due = {fault: self._later(mean) for fault, mean in self._faults().items()}
        until = time.time() + seconds
        while due[fault := min(due, key=lambda fault: due[fault])] < until:
            time.sleep(max(0.0, due[fault] - time.time()))
            fault()
            due[fault] = self._later(self._faults()[fault])
        silent, stuck = self._end()
        verdict = verdict_on(list(self._lines()), self._kept())
        verdict.done = {**self._done, **verdict.done}
        verdict.count("workers that did not recover", silent)
        verdict.count("workers that hung", stuck)
        server_log = (self._server.directory / "log").read_text(errors="replace")
        verdict.count(
            "deadlocks", (line for line in server_log.splitlines() if "deadlock det" in line)
        )
        return verdict

    def _faults(self) -> Mapping[Callable[[], None], float]:
        return {self._kill: KILLED, self._cut: CUT_OFF, self._hold: HELD, self._crash: CRASHED}

    def _later(self, mean: float) -> float:
        return time.time() + self._random.uniform(0.5, 1.5) * mean / self._haste

    def _kill(self) -> None:
        victim = self._random.randrange(len(self._workers))
        self._workers[victim].process.kill()
        self._wait(self._workers[victim])
        self._workers[victim] = self._start()
        self._done["workers killed"] += 1

    def _cut(self) -> None:
        self._done["connections cut"] += self._ask("data", CUT) or 0

    def _hold(self) -> None:
        """Hold locks on the rows of all conversations."""
        locked = f"with locked as (select 1 from {conversations} for update) "
        for database in REGISTRIES:
            self._ask(
                database, f"{locked} select pg_sleep(0.1) from (select count(*) from locked)"
            )
        self._done["locks held"] += 1

    def _crash(self) -> None:
        self._server.crash()
        time.sleep(self._random.random() / 3)
        self._server.start()
        self._done["servers crashed"] += 1

    def _start(self) -> Running:
        number = self._done["workers"]
        self._done["workers"] += 1
        registry = list(REGISTRIES)[number % len(REGISTRIES)]
        # broken stores work with this driver only
        driver = "psycopg" if self._store else DRIVERS[number % len(DRIVERS)]
        log = self._directory / f"worker-{number}"
        task = Task(
            data=self._url("data"),
            registry=self._url(registry),
            conversations=REGISTRIES[registry],
            log=str(log),
            seed=number,
            begun=self._begun,
            driver=driver,
            options=OPTIONS[number % len(OPTIONS)],
            store=self._store,
        )
        command = [sys.executable, "-m", "tests.faults.worker", task.written()]
        return Running(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE), log)

    def _wait_for_all(self, since: float) -> list[Running]:
        """Wait until all workers have received a ref; return those that have not."""
        silent, patience = list(self._workers), time.time() + PATIENCE
        while silent and time.time() < patience:
            time.sleep(0.2)
            silent = [worker for worker in silent if not worker.has_succeeded_since(since)]
        return silent

    def _end(self) -> tuple[list[str], list[str]]:
        """Let workers recover, and end them; return those that did not recover or end."""
        silent = self._wait_for_all(since=time.time())
        for worker in self._workers:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
        stuck = [worker for worker in self._workers if not self._wait(worker)]
        return [worker.last_lines for worker in silent], [worker.last_lines for worker in stuck]

    def _wait(self, worker: Running) -> bool:
        """Wait for a worker to end; kill it, and return False, after a timeout."""
        try:
            worker.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
            return False
        finally:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
        return True

    def _lines(self) -> list[dict[str, Any]]:
        return [line for log in self._directory.iterdir() for line in lines_of(log)]

    def _make_databases(self) -> None:
        engine = create_engine(self._server.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for name in REGISTRIES:
                connection.execute(text(f"create database {name}"))
                # with this default, a crash loses the last commits
                connection.execute(text(f"alter database {name} set synchronous_commit = off"))
        for name in REGISTRIES:
            engine = create_engine(self._url(name), poolclass=NullPool)
            Base.metadata.create_all(engine)
            PostgresStore(engine).create_tables()

    def _url(self, database: str) -> str:
        return self._server.url.set(database=database).render_as_string(hide_password=False)

    def _ask(self, database: str, question: str) -> Any:
        """Return the result of a query, or None while the server is down."""
        try:
            with self._connect(database) as connection:
                return connection.scalar(text(question))
        except OperationalError:
            return None

    def _kept(self) -> Kept:
        keys: dict[Place, list[tuple[int, Any]]] = {}
        last: dict[Place, int] = {}
        numbered = select(conversations.c.id, counters.c.entity, *mappings.c["number", "key"])
        counted = select(conversations.c.id, *counters.c["entity", "last"])
        for name in REGISTRIES:
            with self._connect(name) as connection:
                for id_, entity, number, key in connection.execute(
                    _joined(numbered, mappings).join(counters, _same_entity)
                ):
                    keys.setdefault((id_, entity), []).append((number, plain(decode(key))))
                for id_, entity, number in connection.execute(_joined(counted, counters)):
                    last[id_, entity] = number
        with self._connect("data") as connection:
            rows = connection.execute(select(Recipe.name, Recipe.id))
            return Kept(keys, last, {name: key.hex for name, key in rows})

    def _connect(self, database: str) -> Connection:
        # report workers that never release a lock, instead of waiting for them
        patient = {"options": f"-c lock_timeout={int(PATIENCE)}s"}
        engine = create_engine(self._url(database), poolclass=NullPool, connect_args=patient)
        return engine.connect()


_same_entity = and_(
    counters.c.conversation == mappings.c.conversation, counters.c.kind == mappings.c.kind
)


def _joined(query: Select[Any], table: Table) -> Select[Any]:
    """Join a query with the conversations, for their ids."""
    return query.join_from(
        conversations, table, conversations.c.conversation == table.c.conversation
    )


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return a worker's log, without an unfinished last line."""
    if not log.exists():
        return []
    return [
        json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"
    ]


def plain(key: object) -> object:
    """Return a key in the form of the logs."""
    return key.hex if isinstance(key, uuid.UUID) else key
