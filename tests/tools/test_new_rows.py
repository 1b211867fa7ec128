"""New rows are saved as they are described; contradictions are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    attribute_keyed_dict,
    mapped_column,
    relationship,
)

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import by
from tests.tools.models import Dish, Part

Content = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Chest(Base):
    """Has drawers by their names, knobs, a lock, and keys that know it."""

    __tablename__ = "chests"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"))

    parts: Mapped[list[Chest]] = relationship()
    drawers: Mapped[dict[str, Drawer]] = relationship(
        collection_class=attribute_keyed_dict("name"), cascade="all, delete-orphan"
    )
    knobs: Mapped[list[Knob]] = relationship(back_populates="chest")
    screws: Mapped[list[Screw]] = relationship()
    lock: Mapped[Lock | None] = relationship()


class Drawer(Base):
    """Is told apart by its name."""

    __tablename__ = "drawers"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"))


class Knob(Base):
    """Knows its chest."""

    __tablename__ = "knobs"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"))

    chest: Mapped[Chest | None] = relationship(back_populates="knobs")


class Screw(Base):
    """Does not know its chest."""

    __tablename__ = "screws"

    id: Mapped[int] = mapped_column(primary_key=True)
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"))


class Lock(Base):
    """Is on one chest."""

    __tablename__ = "locks"

    id: Mapped[int] = mapped_column(primary_key=True)
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"))


class Sticker(Base):
    """Refers to a chest in a column that is left as it is."""

    __tablename__ = "stickers"

    id: Mapped[int] = mapped_column(primary_key=True)
    chest_id: Mapped[int | None] = mapped_column(ForeignKey("chests.id"), info={"ref": None})

    chest: Mapped[Chest | None] = relationship()


MODELS = (Chest, Drawer, Knob, Screw, Lock)


@pytest.fixture
def room(tables: Engine) -> Iterator[Engine]:
    """A chest, and one or two of all that chests have."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        chests = [Chest(name="oak"), Chest(name="elm")]
        drawers = [Drawer(name="socks", chest_id=1), Drawer(name="socks", chest_id=2)]
        plain.add_all(chests)
        plain.flush()
        plain.add_all([*drawers, Knob(chest_id=1), Screw(chest_id=1), Lock(chest_id=1)])
        plain.commit()
    yield tables
    Base.metadata.drop_all(tables)


def rows(engine: Engine) -> list[list[tuple[Any, ...]]]:
    """Return all that is saved."""
    with Session(engine) as plain:
        found = [plain.execute(select(*model.__table__.c)).all() for model in MODELS]
    return [sorted(map(tuple, each), key=str) for each in found]


def saved(session: RefSession, conversation: Conversation, *contents: Content) -> Content:
    """Return what comes of saving drafts of chests in one call, once all rows are known."""
    toolset = Toolset(MODELS)
    for model in MODELS:
        toolset.call(session, "db_read", {"table": model.__tablename__, "order_by": "id"})
    drafts = [conversation.draft(Chest, each).ref for each in contents]
    return toolset.call(session, "db_create", {"table": "chests", "from_draft": drafts})


# what drafts hold -> what the message names
CONTRADICTIONS: list[tuple[list[Content], list[str]]] = [
    (
        [{"drawers": [{"name": "pens"}, {"name": "pens"}]}],
        ["'gen_chest_1.drawers.1' and 'gen_chest_1.drawers.2' have the same key"],
    ),
    ([{"drawers": ["drawer_1", "drawer_2"]}], ["'drawer_1'", "'drawer_2'"]),
    ([{"drawers": [{}]}], ["'drawers'", "has no value for the key of the dictionary"]),
    (
        [{"knobs": ["knob_1"]}, {"knobs": ["knob_1"]}],
        ["'knob_1' in 'gen_chest_1.knobs'", "'knob_1' in 'gen_chest_2.knobs'"],
    ),
    (
        [{"screws": ["screw_1"]}, {"screws": ["screw_1"]}],
        ["'gen_chest_1.screws'", "'gen_chest_2.screws'"],
    ),
    ([{"lock": "lock_1"}, {"lock": "lock_1"}], ["'gen_chest_1.lock'", "'gen_chest_2.lock'"]),
    (
        [{"screws": ["screw_1"], "parts": [{"screws": ["screw_1"]}]}],
        ["'gen_chest_1.screws'", "'gen_chest_1.parts.1.screws'"],
    ),
]


@pytest.mark.parametrize(("contents", "named"), CONTRADICTIONS)
def test_what_cannot_all_be_saved_is_refused(
    room: Engine,
    session: RefSession,
    conversation: Conversation,
    contents: list[Content],
    named: list[str],
) -> None:
    """Both places are named, and nothing is changed: the last one had been saved."""
    before = rows(room)

    answer = saved(session, conversation, *contents)

    assert answer.get("error", {}).get("code") == "invalid_content", answer
    assert [each for each in named if each not in answer["error"]["message"]] == []
    session.commit()
    assert rows(room) == before


def test_what_is_said_twice_and_is_the_same_is_saved(
    room: Engine, session: RefSession, conversation: Conversation
) -> None:
    """A row may be named by each of its parents' places."""
    content = {"screws": ["screw_1"], "drawers": ["drawer_1", {"name": "pens"}]}

    answer = saved(
        session, conversation, content, {"knobs": ["knob_1", {"name": "round"}], "lock": "lock_1"}
    )

    session.commit()
    assert answer["saved"] == {"gen_chest_1": "chest_3", "gen_chest_2": "chest_4"}
    _, drawers, knobs, screws, locks = rows(room)
    assert [each[-1] for each in (*drawers, *knobs, *screws, *locks)] == [3, 2, 3, 4, 4, 3, 4]


def test_a_row_that_says_another_parent_is_refused(
    room: Engine, session: RefSession, conversation: Conversation
) -> None:
    """Its own reference and a collection that has it cannot both be saved."""
    before = rows(room)
    conversation.draft(Knob, {"chest": {"name": "third", "knobs": [{"name": "deep"}]}})
    conversation.draft(Chest, {"knobs": ["gen_knob_1"]})

    answer = Toolset(MODELS).call(
        session,
        "db_create",
        {
            "table": "chests",
            "from_draft": "gen_chest_1",
            "also": [{"table": "knobs", "from_draft": "gen_knob_1"}],
        },
    )

    session.commit()
    assert answer["error"]["code"] == "invalid_content"
    assert (
        "'gen_knob_1' in 'gen_chest_1.knobs' and 'gen_knob_1.chest'" in answer["error"]["message"]
    )
    assert rows(room) == before


@pytest.mark.parametrize(
    ("chest", "chest_id"),
    [
        ("chest_1", None),
        ("chest_1", ""),
        ("chest_1", "chest_2"),
        (None, "chest_1"),
        ({"name": "new"}, "chest_1"),
    ],
)
def test_a_reference_is_not_said_in_two_ways(
    room: Engine,  # noqa: ARG001  # its tables
    session: RefSession,
    conversation: Conversation,
    chest: Any,
    chest_id: Any,
) -> None:
    """By its relationship and in its column: one was shown and the other saved."""
    toolset = Toolset(MODELS)
    toolset.call(session, "db_read", {"table": "chests", "order_by": "id"})
    data = {"chest": chest, "chest_id": chest_id}
    ref = conversation.draft(Knob, {}).ref
    stored = conversation.draft(Knob, data).ref
    one = by("id", ref)

    answers = [
        toolset.call(session, "db_update", {"table": "knobs", "filters": one, "data": data}),
        toolset.call(session, "db_create", {"table": "knobs", "from_draft": stored}),
    ]

    told = [(each["error"]["code"], each["error"]["field"]) for each in answers]
    assert told == [("invalid_value", "chest_id")] * 2


@pytest.mark.parametrize(
    ("chest", "chest_id", "saved_to"),
    [("chest_2", "chest_2", 2), (None, None, None), ({"name": "new"}, None, 3)],
)
def test_a_reference_that_is_said_twice_alike_is_saved(
    room: Engine,
    session: RefSession,
    conversation: Conversation,
    *,
    chest: Any,
    chest_id: Any,
    saved_to: int | None,
) -> None:
    """No value in the column is what a new row has there until it is saved."""
    toolset = Toolset(MODELS)
    toolset.call(session, "db_read", {"table": "chests", "order_by": "id"})
    ref = conversation.draft(Knob, {"chest": chest, "chest_id": chest_id}).ref

    toolset.call(session, "db_create", {"table": "knobs", "from_draft": ref})

    session.commit()
    assert rows(room)[2][-1][-1] == saved_to


def test_a_row_may_belong_to_several_by_different_columns(
    session: RefSession, conversation: Conversation, toolset: Toolset, tables: Engine
) -> None:
    """It has one parent by each of them."""
    content = {"name": "Dal", "cuisine": {"name": "Indian"}, "parent": {"name": "Soup"}}
    ref = conversation.draft(Dish, content).ref
    answer = toolset.call(session, "db_create", {"table": "dishes", "from_draft": ref})

    assert answer.get("count") == 1, answer
    with Session(tables) as plain:
        dal = plain.scalars(select(Dish).filter_by(name="Dal")).one()
        found = [each and each.name for each in (dal.cuisine, dal.parent)]
    assert found == ["Indian", "Soup"]


@pytest.mark.parametrize("data", [{"cuisine": None, "cuisine_id": ""}, {"cuisine": None}])
@pytest.mark.usefixtures("tables")
def test_no_row_is_the_same_however_it_is_said(
    session: RefSession, conversation: Conversation, toolset: Toolset, data: Content
) -> None:
    """By a relationship and in its column: null, or an empty text for a ref."""
    ref = conversation.draft(Dish, {"cuisine_id": None}).ref
    filters = by("id", ref)
    answer = toolset.call(
        session, "db_update", {"table": "dishes", "filters": filters, "data": data}
    )

    assert answer.get("count") == 1, answer


def test_a_reference_without_refs_is_said_by_its_relationship(
    room: Engine, session: RefSession, conversation: Conversation
) -> None:
    """The key goes into its column, where a ref would be no value."""
    content = {"chest": conversation.refer(Chest, 2)}
    ref = conversation.draft(Sticker, content).ref
    asked = {"table": "stickers", "from_draft": ref}
    answer = Toolset([Chest, Sticker]).call(session, "db_create", asked)

    assert answer.get("saved") == {ref: "sticker_1"}, answer
    with Session(room) as plain:
        assert plain.scalars(select(Sticker.chest_id)).all() == [2]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("is_draft", [False, True])
def test_a_new_row_inside_fills_a_foreign_key_that_is_required(
    session: RefSession, is_draft: bool
) -> None:
    """The key of the new row is known when both are saved; null inside fills nothing."""
    toolset = Toolset([Dish, Part])
    data: Content = {"note": "rice", "dish": {"name": "Dal"}}
    given: Content = {"table": "parts", "data": data}
    if is_draft:
        [draft] = toolset.call(session, "db_create", {**given, "draft": True})["rows"]
        given = {"table": "parts", "from_draft": draft["id"]}
    [part] = toolset.call(session, "db_create", given)["rows"]
    assert part["_dish_id_label"] == "Dal"

    given = {"table": "parts", "data": {"note": "rice", "dish": None}}
    error = toolset.call(session, "db_create", given)["error"]
    assert (error["code"], error["columns"]) == ("missing_value", ["dish_id"])
