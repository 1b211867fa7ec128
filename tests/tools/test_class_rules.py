"""What the application's classes say to values: `@validates`, setters, constructors."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, validates

from alfred_refs import Ownership, RefPolicy, RefRegistry, RefSession, SetupError
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Box(Base):
    """Its constructor takes any attribute, and needs two."""

    __tablename__ = "chests"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    group: Mapped[uuid.UUID | None]
    things: Mapped[list[Thing]] = relationship(
        order_by="Thing.position", cascade="all, delete-orphan"
    )

    def __init__(self, name: str, group: uuid.UUID | None, **values: Any) -> None:
        super().__init__(name=name, group=group, **values)


class Thing(Base):
    """Its name is checked twice."""

    __tablename__ = "items"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    box_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("chests.id"))
    position: Mapped[int | None]
    name: Mapped[str]

    @validates("name")
    def check(self, _: str, name: str) -> str:
        """Refuse some names."""
        if name == "long":
            message = f"a name is shorter than {KEY}"
            raise ValueError(message)
        assert name != "odd"
        return name


class Closed(Base):
    """Its constructor needs what no model has."""

    __tablename__ = "closed"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)

    def __init__(self, session: Session, **values: Any) -> None:
        super().__init__(**values)
        del session


KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
TOOLS = Toolset([Box, Thing], expect="optional")


@pytest.fixture
def chat(tables: Engine) -> Iterator[RefSession]:
    """A session whose conversation knows a box with a thing."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        box = Box("A", None, things=[Thing(name="a", position=1)])
        plain.add(box)
        plain.commit()
        keys = {Box: box.id, Thing: box.things[0].id}
    conversation = RefRegistry(tables).conversation("chat-7")
    for model, key in keys.items():
        conversation.refer(model, key)
    with RefSession(tables, conversation=conversation) as session:
        yield session
    Base.metadata.drop_all(tables)


def edit(**edit: Any) -> tuple[str, dict[str, Any]]:
    """Return the edit of a list."""
    return "db_edit_list", {"table": "chests", "row": "box_1", "list": "things", "edits": [edit]}


BY_REF = [{"field": "id", "op": "=", "value": "thing_1"}]


@pytest.mark.parametrize("name", ["long", "odd"])
@pytest.mark.parametrize("kind", ["create", "nested", "update", "add", "modify", "draft"])
def test_a_value_that_the_class_refuses_is_told(
    chat: RefSession, tables: Engine, kind: str, name: str
) -> None:
    """With its message, without keys; nothing is written, and the session goes on."""
    data = {"name": name}
    tool, asked = {
        "create": ("db_create", {"table": "items", "data": data}),
        "nested": ("db_create", {"table": "chests", "data": {"name": "B", "things": [data]}}),
        "update": ("db_update", {"table": "items", "filters": BY_REF, "data": data}),
        "add": edit(action="add", path=[2], data=data),
        "modify": edit(action="modify", path=[1], data=data),
        "draft": ("db_create", {"table": "items", "from_draft": "gen_thing_1"}),
    }[kind]
    if kind == "draft":
        TOOLS.call(chat, "db_create", {"table": "items", "data": data, "draft": True})
    error = TOOLS.call(chat, tool, asked)["error"]
    fine = TOOLS.call(chat, "db_create", {"table": "items", "data": {"name": "b"}})

    table = "chests" if kind == "nested" else "items"
    assert (error["code"], error["table"]) == ("invalid_value", table)
    assert ("a name is shorter" in error["message"]) is (name == "long")
    assert str(KEY)[:8] not in error["message"]
    assert fine["count"] == 1
    with Session(tables) as plain:
        assert [each.name for each in plain.query(Thing).order_by(Thing.name)] == ["a", "b"]


def test_a_constructor_gets_none_for_an_attribute_that_the_model_does_not_give(
    tables: Engine, chat: RefSession
) -> None:
    """As for the column of an owner, which the flush fills in."""
    owner = uuid.uuid4()
    ownership = Ownership({Box: "group"})
    toolset = Toolset([Box], owner=ownership, expect="optional")
    conversation = RefRegistry(tables).conversation("chat-8", owner=owner)
    with RefSession(tables, conversation=conversation, owner=ownership.of(owner)) as session:
        answer = toolset.call(session, "db_create", {"table": "chests", "data": {"name": "B"}})

    assert answer["count"] == 1
    with Session(tables) as plain:
        assert plain.query(Box).filter_by(name="B").one().group == owner
    assert chat.is_active


def test_a_constructor_that_needs_something_else_is_the_applications_fault(
    chat: RefSession,
) -> None:
    """Though it takes any keyword argument."""
    with pytest.raises(SetupError, match="needs 'session'"):
        Toolset([Closed]).call(chat, "db_create", {"table": "closed", "data": {}})


@pytest.mark.parametrize(
    "label",
    [
        lambda box: ", ".join(thing.name for thing in box.things),
        lambda box: f"{box.name:>9} of {box.things[0].position:%d}" if box.name else "",
        lambda box: "" if box.name else box.things[0].name,
        lambda box: box.things[0].name if box.name.upper()[0] else None,
        lambda box: "No. " + box.name + str(1 + box.name * 2) + box.things[0].name,
        lambda box: box.things[0].name if len(box.name) > 0 else str(int(box.name)),
    ],
)
def test_a_label_of_related_rows_is_refused(label: Any) -> None:
    """The tools read only the columns of a row for its label."""
    with pytest.raises(SetupError, match="label of 'Box' reads the relationship 'things'"):
        Toolset([Box, Thing], policy=RefPolicy(labels={Box: label}))


@pytest.mark.parametrize(
    "label",
    [
        "name",
        lambda box: box.name,
        lambda box: "; ".join(sorted(box.name)) + str(1 / len(box.name)),
        lambda box: [box.name for _ in iter(lambda: box.name, None)],
    ],
)
def test_a_label_of_columns_is_not_refused(label: Any) -> None:
    """Also if the function fails on placeholder values."""
    Toolset([Box, Thing], policy=RefPolicy(labels={Box: label}))
