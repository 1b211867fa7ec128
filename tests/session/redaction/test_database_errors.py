"""Errors of the database say by refs what they said by keys, with each driver."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from sqlalchemy import Engine, String, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from tests.session.redaction.kitchen import (
    CHEF,
    KNOWN,
    NO_CHEF,
    UNKNOWN,
    Base,
    Chef,
    Course,
    Platter,
    Raised,
    Work,
    everything,
    flush,
    platters,
    shows_no_key,
    sqlstate,
)


def add_twice(session: RefSession) -> None:
    """Flush two objects with one composite key."""
    for note in "ab":
        flush(session, Course(dish_id="platter_1", position=3, note=note))
        session.expunge_all()


# what is done, the class and code of the error, and what it says
CASES: dict[str, tuple[Work, type[Exception], str, str]] = {
    "unique": (
        lambda s: flush(s, Platter(id=KNOWN, name="x")),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
    "composite": (
        add_twice,
        IntegrityError,
        "23505",
        'Key (dish_id, "position")=(platter_1, 3) already exists.',
    ),
    "foreign key": (
        lambda s: flush(s, Platter(parent_id=UNKNOWN)),
        IntegrityError,
        "23503",
        'Key (parent_id)=(<key>) is not present in table "platters".',
    ),
    "deferred foreign key": (
        lambda s: (s.add(Platter(chef_id=NO_CHEF)), s.commit()),
        IntegrityError,
        "23503",
        'Key (chef_id)=(<key>) is not present in table "chefs".',
    ),
    "the other side of a foreign key": (
        lambda s: (s.delete(s.get(Chef, "chef_1")), s.commit()),
        IntegrityError,
        "23503",
        'Key (id)=(chef_1) is still referenced from table "platters".',
    ),
    "not null": (
        lambda s: s.execute(insert(Course).values(dish_id="platter_1", position=1, note=None)),
        IntegrityError,
        "23502",
        "Failing row contains (values left out: there may be keys among them)",
    ),
    "check": (
        lambda s: flush(s, Platter(parent_id="platter_1", chef_id="chef_1", grade=12)),
        IntegrityError,
        "23514",
        "Failing row contains (values left out: there may be keys among them)",
    ),
    "update": (
        lambda s: s.execute(update(Platter).where(Platter.id == "platter_1").values(grade=12)),
        IntegrityError,
        "23514",
        "platters_grade_check",
    ),
    "text of SQL": (
        lambda s: s.execute(
            text(f"select '{KNOWN}'::uuid from platters where chef_id / 0 = {CHEF}")
        ),
        DBAPIError,
        "22012",
        "division by zero",
    ),
    "excerpt": (
        lambda s: s.execute(
            text("select no from platters where id = :a or chef_id = :b"), {"a": KNOWN, "b": CHEF}
        ),
        DBAPIError,
        "42703",
        'column "no" does not exist',
    ),
    "trigger": (
        lambda s: flush(s, Platter(id=UNKNOWN, name="refuse", chef_id="chef_1")),
        DBAPIError,
        "P0001",
        "dish <key> is closed",
    ),
    "trigger at an update": (
        lambda s: s.execute(
            update(Platter).where(Platter.id == "platter_1").values(name="refuse")
        ),
        DBAPIError,
        "P0001",
        "dish platter_1 is closed",
    ),
    "a statement that a trigger makes": (
        lambda s: flush(s, Platter(id=UNKNOWN, name="misspell", chef_id="chef_1")),
        DBAPIError,
        "42703",
        'column "misspelt" does not exist',
    ),
    "many": (
        lambda s: s.execute(
            insert(Platter), [{"id": KNOWN, "chef_id": CHEF, "sides": [UNKNOWN]}] * 20
        ),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
    "many without a result": (
        lambda s: s.connection().execute(
            insert(platters), [{"id": UNKNOWN, "chef_id": CHEF, "sides": [KNOWN]}] * 2
        ),
        IntegrityError,
        "23505",
        "Key (id)=(<key>) already exists.",
    ),
    "streaming": (
        lambda s: s.execute(
            select(Platter.name).where(func.refuse(Platter.id, Platter.chef_id)),
            execution_options={"yield_per": 1},
        ).all(),
        Exception,  # asyncpg's own
        "P0001",
        "dish platter_1 is closed",
    ),
    "the session's connection": (
        lambda s: s.connection().execute(insert(Platter).values(id=KNOWN, chef_id=CHEF)),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_of_the_database_shows_no_key(raised: Raised, case: str) -> None:
    """It keeps its class and code, and says by refs what it said by keys."""
    work, class_, code, said = CASES[case]

    error = raised(work)

    assert isinstance(error, class_)
    assert sqlstate(error) == code
    assert said in everything(error)
    assert shows_no_key(error)


def test_a_commit_by_a_with_shows_no_key(kitchen: Engine, conversation: Conversation) -> None:
    """The transaction commits there, and not the session."""
    session = RefSession(kitchen, conversation=conversation)
    with pytest.raises(IntegrityError) as caught, session, session.begin():
        session.add(Platter(chef_id=NO_CHEF))

    assert "Key (chef_id)=(<key>) is not present" in str(caught.value)
    assert shows_no_key(caught.value)


def test_psycopg_keeps_its_diagnosis(session: RefSession) -> None:
    """Names and codes are what they were, sentences have refs."""
    with pytest.raises(IntegrityError) as caught:
        flush(session, Platter(id=KNOWN))
    diagnosis = caught.value.orig.diag  # type: ignore[union-attr]

    assert diagnosis.sqlstate == "23505"
    assert diagnosis.constraint_name == "platters_pkey"
    assert diagnosis.message_detail == "Key (id)=(platter_1) already exists."
    assert shows_no_key(pickle.loads(pickle.dumps(caught.value)))  # noqa: S301


def test_merge_shows_no_key(session: RefSession) -> None:
    """It works on keys, and what it raises has refs."""
    session.add(Platter(id=KNOWN))
    with pytest.raises(IntegrityError, match=r"Key .id.=.platter_1.") as caught:
        session.merge(Platter(id="platter_1", name="x"))

    assert shows_no_key(caught.value)


def test_text_keys_are_hidden_on_request(kitchen: Engine) -> None:
    """They are known by their columns, and by having been met."""

    class Country(Base):
        __tablename__ = "countries"
        code: Mapped[Any] = mapped_column(String, primary_key=True)

    try:
        Base.metadata.create_all(kitchen)
        policy = RefPolicy(key_types=("uuid", "integer", "string"))
        conversation = RefRegistry(store=MemoryStore(), policy=policy).conversation("chat-7")
        conversation.refer(Country, "Zubrowka")
        with RefSession(kitchen, conversation=conversation) as session, session.raw_keys():
            flush(session, Country(code="Zubrowka"), Country(code="Genovia"))
            session.commit()
        with RefSession(kitchen, conversation=conversation) as session:
            for code, shown in (("Zubrowka", "country_1"), ("Genovia", "<key>")):
                with pytest.raises(IntegrityError) as caught:
                    session.connection().execute(insert(Country).values(code=code))
                assert f"Key (code)=({shown}) already exists." in str(caught.value)
                assert caught.value.params == {"code": shown}
                assert code not in everything(caught.value)
                session.rollback()
    finally:
        Base.metadata.remove(Base.metadata.tables["countries"])
        Base.registry._dispose_cls(Country)
