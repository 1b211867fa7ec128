"""SQLAlchemy's own errors and warnings show no key, nor do those of types."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    TypeDecorator,
    Uuid,
    delete,
    insert,
    select,
)
from sqlalchemy.exc import InvalidRequestError, SAWarning
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import ObjectDeletedError, StaleDataError
from sqlalchemy.schema import CreateTable

from alfred_refs import RefSession
from tests.session.redaction.kitchen import (
    CHEF,
    KNOWN,
    NO_CHEF,
    Chef,
    Course,
    Knife,
    Platter,
    Tool,
    knives,
    shows_no_key,
    tools,
)


def test_a_second_instance_of_a_row_is_refused_by_its_ref(session: RefSession) -> None:
    """Be it added itself or by way of a relationship."""
    mine = session.get(Platter, "platter_1")
    with RefSession(session.bind, conversation=session.conversation) as other:
        theirs = other.get(Platter, "platter_1")
        other.expunge_all()
    course = Course(position=1, note="")
    session.add(course)

    adds: list[Callable[[], object]] = [
        lambda: session.add(theirs),
        lambda: setattr(course, "dish", theirs),
    ]
    for add in adds:
        with pytest.raises(
            InvalidRequestError, match=r"key .*Platter.>, \(.platter_1.,\), None\) is already"
        ) as caught:
            add()
        assert shows_no_key(caught.value)
    assert mine in session
    session.close()
    again = session.get(Platter, "platter_1")
    with pytest.raises(
        InvalidRequestError, match=r"key .*Platter.>, \(.platter_1.,\), None\) is already"
    ) as caught:
        session.add(mine)
    assert again in session
    assert shows_no_key(caught.value)


@pytest.mark.parametrize("of", [Chef, Platter])
def test_a_warning_made_an_error_shows_no_key(session: RefSession, of: Any) -> None:
    """A new object has the key of one that is there."""
    key, ref = {Chef: (CHEF, "chef_1"), Platter: (KNOWN, "platter_1")}[of]
    there = session.get(of, ref)
    session.add(of(id=key))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            SAWarning, match=rf"identity key .*{of.__name__}.>, \(.{ref}.,\), None\) conflicts"
        ) as caught:
            session.flush()

    assert there in session
    assert shows_no_key(caught.value)


@pytest.mark.parametrize("load", ["all", "scalars", "get", "lazily", "query"])
def test_a_row_that_contradicts_itself_shows_no_key(
    kitchen: Engine, session: RefSession, load: str
) -> None:
    """It is found while the rows of a result are loaded."""
    with Session(kitchen) as plain:
        plain.execute(insert(tools).values(id=CHEF, kind="spoon"))
        plain.execute(insert(knives).values(id=CHEF))
        plain.commit()
    assert session.conversation is not None
    session.conversation.refer(Tool, CHEF)
    loads: dict[str, Callable[[], Any]] = {
        "all": lambda: session.execute(select(Knife)).all(),
        "scalars": lambda: session.scalars(select(Knife)).first(),
        "get": lambda: session.get(Knife, "tool_1"),
        "lazily": lambda: [*session.scalars(select(Knife)).partitions(1)],
        "query": lambda: session.query(Knife).all(),
    }

    with pytest.raises(InvalidRequestError, match=r"Tool.>, \(.tool_1.,\), None\)") as caught:
        loads[load]()
    assert shows_no_key(caught.value)


def test_rows_returned_that_match_no_record_show_no_key(session: RefSession) -> None:
    """SQLAlchemy looks each up by the key that was sent, and says which it missed."""

    class Shifted(TypeDecorator[int]):
        impl = Integer
        cache_ok = True

        @property
        def python_type(self) -> type[Any]:
            return int

        def process_result_value(self, value: Any, _: Any) -> Any:
            return value + 1

    knobs = Table("knobs", MetaData(), Column("id", Shifted, primary_key=True))
    session.connection().execute(CreateTable(knobs))
    with pytest.raises(InvalidRequestError, match="key <key> was not found") as caught:
        session.execute(
            insert(knobs).returning(knobs.c.id, sort_by_parameter_order=True),
            [{"id": NO_CHEF}, {"id": NO_CHEF + 2}],
        ).all()

    assert shows_no_key(caught.value)


FETCHES: list[Callable[[Any], Any]] = [
    lambda result: result.all(),
    lambda result: result.first(),
    lambda result: result.scalars().all(),
    lambda result: result.mappings().one(),
    lambda result: list(result.partitions(1)),
    lambda result: [*result],
]


@pytest.mark.parametrize("fetch", FETCHES)
@pytest.mark.parametrize("size", [None, 1])
def test_a_type_that_cannot_read_a_key_does_not_show_it(
    session: RefSession, fetch: Callable[[Any], Any], size: int | None
) -> None:
    """It raises while rows are fetched: of a table, and of a write."""

    class Picky(TypeDecorator[uuid.UUID]):
        impl = Uuid
        cache_ok = True

        @property
        def python_type(self) -> type[Any]:
            return uuid.UUID

        def process_result_value(self, value: Any, _: Any) -> Any:
            raise ValueError(f"{value} is not one of ours")

    knobs = Table("knobs", MetaData(), Column("id", Picky, primary_key=True), Column("n", Integer))
    session.connection().execute(CreateTable(knobs))
    for statement in (insert(knobs).values(id=KNOWN).returning(knobs.c.id), select(knobs.c.id)):
        is_read = statement.is_select
        options: Any = {} if size is None or not is_read else {"yield_per": size}
        result = session.execute(statement, execution_options=options)
        with pytest.raises(ValueError, match="is not one of ours") as caught:
            fetch(result)
        assert shows_no_key(caught.value)
        result.close()


def test_an_update_of_a_row_that_is_gone_says_so(kitchen: Engine, session: RefSession) -> None:
    """Errors without keys say what they always said, numbers included."""
    dish: Any = session.get(Platter, "platter_1")
    assert session.conversation is not None
    session.conversation.refer(Chef, 1)
    with Session(kitchen) as plain:
        plain.execute(delete(Platter).where(Platter.id == KNOWN))
        plain.commit()
    dish.name = "x"
    with pytest.raises(StaleDataError, match="expected to update 1 row") as stale:
        session.flush()
    assert shows_no_key(stale.value)

    session.rollback()
    with pytest.raises(ObjectDeletedError) as deleted:
        _ = dish.name
    assert shows_no_key(deleted.value)
