"""Fixtures: the tests' tables, a registry in the same database, sessions in one conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, PostgresStore, RefRegistry, RefSession, sqla
from alfred_refs.mapping.keys import EntityKey, Key, Ref
from alfred_refs.store import NO_LABELS, Address, DraftEntry, Entry, Gone
from tests.models import Base, Recipe


class TravelLog(PostgresStore):
    """A PostgreSQL store that records the name of each method that makes a round trip."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.trips: list[str] = []

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """Record the call."""
        self.trips.append("refer")
        return super().refer(address, keys, labels)

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """Record the call."""
        self.trips.append("resolve")
        return super().resolve(address, refs)

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        """Record the call."""
        self.trips.append("refs_of")
        return super().refs_of(address, keys)

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """Record the call."""
        self.trips.append("read_drafts")
        return super().read_drafts(address, refs)

    def label(self, address: Address, labels: Mapping[EntityKey, str | None]) -> None:
        """Record the call."""
        self.trips.append("label")
        super().label(address, labels)

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """Record the call."""
        self.trips.append("mark")
        super().mark(address, keys, gone)


@pytest.fixture
def one_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the declarative bases of other tests, as an application has only one."""
    monkeypatch.setattr(sqla, "mappers", lambda: sqla.mappers_of(Base.registry))


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """The engine, with the tests' and the registry's tables in its database."""
    return engine


@pytest.fixture
def store(tables: Engine) -> TravelLog:
    """A store in the test's database that records its round trips."""
    return TravelLog(tables)


@pytest.fixture
def registry(store: TravelLog) -> RefRegistry:
    """A registry over the store."""
    return RefRegistry(store=store)


@pytest.fixture
def conversation(registry: RefRegistry) -> Conversation:
    """The conversation that the session works in."""
    return registry.conversation("chat-7")


@pytest.fixture
def sessions(tables: Engine) -> sessionmaker[RefSession]:
    """A factory of sessions."""
    return sessionmaker(tables, class_=RefSession)


@pytest.fixture
def session(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> Iterator[RefSession]:
    """A session in the conversation."""
    with sessions(conversation=conversation) as session:
        yield session


@pytest.fixture
def recipes(tables: Engine) -> list[Recipe]:
    """Five saved recipes, A to E, from a plain session, so with their keys."""
    with Session(tables, expire_on_commit=False) as plain:
        recipes = [Recipe(name=name) for name in "ABCDE"]
        plain.add_all(recipes)
        plain.commit()
    return recipes


@pytest.fixture
def sent(tables: Engine) -> Iterator[list[str]]:
    """The statements sent through the application's engine, as they are sent."""
    statements: list[str] = []

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    event.listen(tables, "before_cursor_execute", note)
    yield statements
    event.remove(tables, "before_cursor_execute", note)
