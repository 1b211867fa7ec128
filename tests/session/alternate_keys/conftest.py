"""The tables of these classes, with rows, and a session in which text is a key."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import RefPolicy, RefRegistry, RefSession
from tests.fix_session import TravelLog
from tests.session.alternate_keys.models import Base, Guard, Member, Other, Person, Post


@pytest.fixture
def shapes(tables: Engine) -> Iterator[Engine]:
    """The engine, with the tables of these shapes in its database."""
    Base.metadata.create_all(tables)
    yield tables
    Base.metadata.drop_all(tables)


@pytest.fixture
def members(shapes: Engine) -> list[Member]:
    """Three members, the first of which has one post for each, as a plain session has them."""
    with Session(shapes, expire_on_commit=False) as plain:
        members = [Member(name=name, number=n) for n, name in enumerate("ABC", 7)]
        plain.add_all(members)
        plain.flush()
        plain.add_all(Post(title=m.name, author=m.handle_id, editor=m.number) for m in members)
        plain.commit()
    return members


@pytest.fixture
def guard(tables: Engine) -> Iterator[Guard]:
    """A guard, as a plain session has it, in tables of these shapes."""
    Other.metadata.create_all(tables)
    with Session(tables, expire_on_commit=False) as plain:
        guard = Guard(email="person_1", badge=str(uuid.uuid4()))
        plain.add_all([guard, Person(email="b@x")])
        plain.commit()
    yield guard
    Other.metadata.drop_all(tables)


@pytest.fixture
def strings(tables: Engine, store: TravelLog) -> Iterator[RefSession]:
    """A session in a conversation in which text is a key too."""
    policy = RefPolicy(key_types=("uuid", "string"))
    conversation = RefRegistry(store=store, policy=policy).conversation("chat-8")
    with RefSession(tables, conversation=conversation) as session:
        yield session
