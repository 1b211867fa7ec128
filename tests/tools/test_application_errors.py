"""What the application's own code raises inside a call: a refusal of values, or its mistake."""

from __future__ import annotations

import decimal
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import ForeignKey, String, create_engine, event
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
    validates,
)
from sqlalchemy.pool import StaticPool

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, ToolError, Toolset
from tests.tools.models import custom

raised: dict[str, Exception] = {}
"""The exception that each place of the application's code raises."""


def reach(place: str) -> None:
    """Raise what a test wants of a place."""
    if place in raised:
        raise raised[place]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


def _stored(value: str) -> str:
    reach("a type")
    return value


def _counted(context: Any) -> int:
    reach("a default")
    return len(context.get_current_parameters()["name"])


class Crate(Base):
    """Has code of the application at each step of a write."""

    __tablename__ = "crates"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    text: Mapped[Any] = mapped_column(custom(String, _stored), default="t")
    count: Mapped[int] = mapped_column(default=_counted, onupdate=_counted)
    within_id: Mapped[Any] = mapped_column(ForeignKey("crates.id"), nullable=True)
    crates: Mapped[list[Any]] = relationship("Crate")

    def __init__(self, **values: Any) -> None:
        reach("__init__")
        super().__init__(**values)

    @validates("name")
    def check(self, _: str, value: Any) -> Any:
        """Return the value."""
        reach("@validates")
        return value


def _listener(place: str) -> Callable[..., None]:
    return lambda *_: reach(place)


MAPPER_EVENTS = [
    f"{when}_{verb}" for when in ("before", "after") for verb in ("insert", "update", "delete")
]
SESSION_EVENTS = ["before_flush", "after_flush", "after_flush_postexec"]
CREATING = ["__init__", "@validates", "set", "before_attach", "a default"]
PLACES = [
    *(("db_create", each) for each in (*CREATING, "before_insert", "after_insert")),
    *(("db_update", each) for each in ("@validates", "set", "a default")),
    *(("db_update", each) for each in ("before_update", "after_update")),
    *(("db_delete", each) for each in ("before_delete", "after_delete")),
    *((f"db_{verb}", each) for verb in ("create", "update", "delete") for each in SESSION_EVENTS),
]


@pytest.fixture
def desk() -> Iterator[BoundToolset]:
    """The tools, with a row, and listeners of all kinds."""
    raised.clear()
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add(Crate(name="old"))
        plain.commit()
    sessions = sessionmaker(engine, class_=RefSession)
    targets: list[tuple[Any, str]] = [(Crate.name, "set")]
    targets += [(Crate, name) for name in MAPPER_EVENTS]
    targets += [(sessions, name) for name in (*SESSION_EVENTS, "before_attach", "after_commit")]
    listeners = [(target, name, _listener(name)) for target, name in targets]
    for each in listeners:
        event.listen(*each)
    tools = Toolset([Crate], expect="optional")
    desk = tools.bind(sessions, registry=RefRegistry(store=MemoryStore()))
    desk.call("chat-7", None, "db_read", {"table": "crates"})
    yield desk
    for each in listeners:
        event.remove(*each)
    engine.dispose()


OLD = [{"field": "name", "op": "=", "value": "old"}]
GIVEN: dict[str, dict[str, Any]] = {
    "db_create": {"data": {"name": "new"}},
    "db_update": {"filters": OLD, "data": {"name": "new"}},
    "db_delete": {"filters": OLD},
}


def call(desk: BoundToolset, tool: str) -> dict[str, Any]:
    """Write a row, and return the answer."""
    answer = desk.call("chat-7", None, tool, {"table": "crates", **GIVEN[tool]})
    assert isinstance(answer.value, dict)
    return answer.value


def names(desk: BoundToolset) -> list[str]:
    """Return the names of the rows that are there."""
    raised.clear()
    rows = desk.call("chat-7", None, "db_read", {"table": "crates"}).value["rows"]
    return [row["name"] for row in rows]


@pytest.mark.parametrize("error", [ValueError("not so"), AssertionError("not so")])
@pytest.mark.parametrize(("tool", "place"), PLACES)
def test_what_refuses_values_is_an_answer(
    desk: BoundToolset, tool: str, place: str, error: Exception
) -> None:
    """It is quoted, and nothing is written."""
    raised[place] = error

    answer = call(desk, tool)["error"]

    refused = "check_failed" if tool == "db_delete" else "invalid_value"
    assert (answer["code"], answer["table"]) == (refused, "crates")
    assert answer["message"].endswith(": not so")
    assert names(desk) == ["old"]


@pytest.mark.parametrize(
    "error", [AttributeError("a bug"), TypeError(), KeyError(), RuntimeError()]
)
@pytest.mark.parametrize(("tool", "place"), PLACES)
def test_what_else_the_application_raises_is_raised(
    desk: BoundToolset, tool: str, place: str, error: Exception
) -> None:
    """A bug is not the model's, and nothing is written."""
    raised[place] = error

    with pytest.raises((type(error), StatementError)) as caught:
        call(desk, tool)

    of_default = isinstance(caught.value, StatementError)
    assert of_default is (place == "a default")  # SQLAlchemy wraps it
    assert (caught.value.orig if of_default else caught.value) is error  # type: ignore[attr-defined]
    assert names(desk) == ["old"]


@pytest.mark.parametrize(
    "error", [ValueError(), TypeError(), KeyError(), AttributeError(), decimal.InvalidOperation()]
)
def test_what_a_type_cannot_convert_is_an_answer(
    desk: BoundToolset, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """The application gets the traceback in its log."""
    raised["a type"] = error

    with caplog.at_level(logging.WARNING, "alfred_refs.tools"):
        answer = call(desk, "db_create")["error"]

    assert answer["code"] == "invalid_value"
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert names(desk) == ["old"]


def test_a_refusal_of_a_row_inside_of_another_is_an_answer(desk: BoundToolset) -> None:
    """Of the constructor, and of the flush."""
    for place in ("__init__", "after_insert"):
        raised[place] = ValueError("not so")
        data = {"name": "new", "crates": [{"name": "inner"}]}
        answer = desk.call("chat-7", None, "db_create", {"table": "crates", "data": data})
        assert answer.value["error"]["code"] == "invalid_value"
        assert names(desk) == ["old"]


def test_a_tool_error_of_a_listener_is_the_answer(desk: BoundToolset) -> None:
    """So an application chooses the code."""
    raised["before_flush"] = ToolError("locked", "crates are counted today")

    assert call(desk, "db_update")["error"]["code"] == "locked"
    assert names(desk) == ["old"]


def test_a_refusal_shows_no_key(desk: BoundToolset) -> None:
    """Listeners of a flush work with keys."""
    key = uuid.uuid4()
    raised["before_update"] = ValueError(f"{key} is locked")

    assert str(key) not in str(call(desk, "db_update"))


def test_what_a_listener_raises_after_the_commit_is_raised(desk: BoundToolset) -> None:
    """The row is there, as after the same in a plain session."""
    raised["after_commit"] = error = ValueError("too late")

    with pytest.raises(ValueError, match="too late") as caught:
        call(desk, "db_update")

    assert caught.value is error
    assert names(desk) == ["new"]
