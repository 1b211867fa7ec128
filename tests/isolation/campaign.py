"""Run random programs as random owners, and collect their outcomes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefError, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from tests.isolation import models
from tests.isolation.instances import Instances
from tests.isolation.judge import Spelling, made, run, verdict
from tests.isolation.models import ownership
from tests.isolation.programs import CLASSES, Program
from tests.isolation.queries import Entities, Queries
from tests.isolation.world import OWNERS, become, contents
from tests.isolation.writes import Inserts, Writes

_OWNERSHIP = ownership()
_IN_CONVERSATIONS = 0.15  # of all programs
_KEYS = Spelling()
_POLICIES = Spelling(way=lambda _: "fetch")


@dataclass(slots=True)
class Found:
    """The outcomes of programs.

    Attributes:
        done: number of programs by kind of outcome.
        kinds: number of programs by feature.
        wrong: the differences, each with the Python that was run.
        ways: number of differences by kind.
    """

    done: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)


class Maker(Protocol):
    """Generates random programs."""

    def __init__(self, chance: random.Random) -> None: ...

    def program(self) -> Program:
        """Return a program."""
        ...


Sessions = Callable[[Engine, int, Conversation | None], Session]


def owned(engine: Engine, owner: int, conversation: Conversation | None) -> Session:
    """Return an owned session."""
    return RefSession(engine, owner=_OWNERSHIP.of(owner), conversation=conversation)


class Refs:
    """A conversation of an owner, in which every row has a ref.

    Args:
        owner: of the conversation.
    """

    def __init__(self, owner: int) -> None:
        registry = RefRegistry(store=MemoryStore())
        self.conversation = registry.conversation("chat", owner=str(owner))
        self._refs: dict[tuple[str, int], str] = {}
        for name in CLASSES:
            if name not in ("Shelf", "Dog", "Cat"):
                numbers = range(1, 14)
                refs = self.conversation.refer_all(getattr(models, name), numbers)
                self._refs |= {(name, n): ref for n, ref in zip(numbers, refs, strict=True)}
        self._keys: dict[Any, int] = {ref: number for (_, number), ref in self._refs.items()}

    def ref(self, name: str, number: int) -> Any:
        """Return the ref of a row."""
        return self._refs[_BASES.get(name, name), number]

    def key(self, value: Any) -> Any:
        """Return the key of a ref; return any other value unchanged."""
        if not isinstance(value, str) or "_" not in value:
            return value
        if value in self._keys:
            return self._keys[value]
        known = {entry.ref for entry in self.conversation.entries()}
        return self.conversation.resolve(value) if value in known else value


_BASES = {"Dog": "Animal", "Cat": "Animal"}


def program_of(chance: random.Random) -> Program:
    """Return a program of a random kind."""
    kinds: list[type[Maker]] = [Queries, Entities, Writes, Inserts, Instances]
    return chance.choices(kinds, [4, 2, 2, 1.2, 1.2])[0](chance).program()


class Campaign:
    """Runs programs.

    Args:
        engine: of a database that `world.make()` has filled.
        seed: of all random choices.
        session: makes the sessions to judge.
    """

    def __init__(self, engine: Engine, seed: int, session: Sessions = owned) -> None:
        self._engine = engine
        self._seed = seed
        self._session = session
        self.found = Found()
        with engine.connect() as connection:
            self._before = contents(connection)

    def run(self, calls: int, first: int = 0) -> Found:
        """Run this many programs, from number `first` on."""
        for number in range(first, first + calls):
            self._run(number)
        return self.found

    def _run(self, number: int) -> None:
        chance = random.Random(f"{self._seed}-{number}")  # noqa: S311  # choices, not secrets
        owner = chance.choice([*OWNERS.values()])
        program = program_of(chance)
        try:
            names = made(program, _KEYS)
        except Exception as error:  # noqa: BLE001  # SQLAlchemy cannot build the statement
            self.found.done[f"not made: {type(error).__name__}: {str(error)[:50]}"] += 1
            return
        plain = Session(self._engine)
        become(plain, owner)
        theirs = run(program, plain, _POLICIES, names)
        refs = Refs(owner) if chance.random() < _IN_CONVERSATIONS else None
        if refs is None:
            # the same statement object again, as an application shares it between owners
            ours = run(program, self._session(self._engine, owner, None), _KEYS, names)
        else:
            session = self._session(self._engine, owner, refs.conversation)
            ours = run(program, session, Spelling(refs.ref, refs.key))
        what, wrong = verdict(program, ours, theirs, self._before)
        if refs is not None and isinstance(ours.error, RefError):
            # translation has tests of its own; this one is about ownership
            what, wrong = f"in a conversation: {type(ours.error).__name__}", None
        self._record(program, f"{self._seed}-{number} owner {owner}", what, wrong)

    def _record(self, program: Program, name: str, what: str, wrong: str | None) -> None:
        self.found.done[what] += 1
        self.found.kinds.update(program.kinds)
        if wrong is not None:
            self.found.ways[wrong[:70]] += 1
            self.found.wrong.append(" ".join(f"{name}: {wrong}: {program.source}".split()))
