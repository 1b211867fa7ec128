"""What a draft is of, and what it refers to: classes that inherit, several keys, and circles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Column, Engine, ForeignKey, ForeignKeyConstraint, Table, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import CircularDraftsError, Conversation, DraftContentError, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Toolset
from tests.tools.models import Key

Content = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


LOANS = Table(
    "loans",
    Base.metadata,
    # no key: a row may be there twice
    Column("guest_id", ForeignKey("guests.id")),
    Column("item_id", ForeignKey("items.id")),
)


class Hall(Base):
    """Has seats."""

    __tablename__ = "halls"

    id: Mapped[int] = mapped_column(primary_key=True)


class Cellar(Hall):
    """A hall whose rows are in a table of their own."""

    __tablename__ = "cellars"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    depth: Mapped[int | None]


class Seat(Base):
    """Is known by its hall and place."""

    __tablename__ = "seats"

    hall_id: Mapped[int] = mapped_column(ForeignKey("halls.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)


class Guest(Base):
    """Has a seat, things of their own and things that are lent to them."""

    __tablename__ = "guests"
    __table_args__ = (
        ForeignKeyConstraint(["hall_id", "place"], ["seats.hall_id", "seats.place"]),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    pin: Mapped[str | None]
    hall_id: Mapped[int | None]
    place: Mapped[int | None]

    seat: Mapped[Seat | None] = relationship()
    items: Mapped[list[Item]] = relationship(back_populates="guest")
    lamps: Mapped[list[Lamp]] = relationship(overlaps="guest,items")
    lent: Mapped[list[Item]] = relationship(secondary=LOANS, back_populates="borrowers")


class Item(Base):
    """The base of a table of several classes."""

    __tablename__ = "items"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "item"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    guest_id: Mapped[int | None] = mapped_column(ForeignKey("guests.id"))

    guest: Mapped[Guest | None] = relationship(back_populates="items")
    borrowers: Mapped[list[Guest]] = relationship(secondary=LOANS, back_populates="lent")


class Lamp(Item):
    """A class that a model may use."""

    __mapper_args__ = {"polymorphic_identity": "lamp"}  # noqa: RUF012


class Safe(Item):
    """A class that no model may use."""

    __mapper_args__ = {"polymorphic_identity": "safe"}  # noqa: RUF012


NOT_YOURS = (
    "that is not for you to write; nothing was changed; leave it as it is, or create a row with "
    "values of your own"
)

TABLES = {"halls": Hall, "seats": Seat, "guests": Guest, "items": Item, "lamps": Lamp}


@pytest.fixture
def toolset(tables: Engine, session: RefSession) -> Iterator[Toolset]:
    """A toolset, in a conversation that knows two halls, a seat in each, and an item."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        plain.add_all([Hall(), Hall()])
        plain.flush()
        plain.add_all([Seat(hall_id=1, place=7), Seat(hall_id=2, place=8), Item()])
        plain.commit()
    toolset = Toolset(TABLES, hidden=[Guest.pin, Item.guest])
    for name in ("halls", "seats", "items"):
        toolset.call(session, "db_read", {"table": name})
    yield toolset
    session.rollback()
    Base.metadata.drop_all(tables)


def saved(toolset: Toolset, session: RefSession, table: str, draft: str) -> Content:
    """Return what comes of saving a draft."""
    return toolset.call(session, "db_create", {"table": table, "from_draft": draft})


# what a draft of a guest has -> what the message says of it
REFUSED: list[tuple[Content, str]] = [
    ({"lent": ["item_1", "item_1"]}, "'item_1' in 'gen_guest_1.lent' is given twice"),
    ({"items": ["item_1", "item_1"]}, "'item_1' in 'gen_guest_1.items' is given twice"),
    ({"seat": "seat_1", "place": 8}, "'gen_guest_1.place' contradicts 'seat_1'"),
    ({"seat": "seat_1", "hall_id": "hall_2"}, "'gen_guest_1.hall_id' contradicts"),
    ({"seat": "seat_1", "hall_id": None}, "'gen_guest_1.hall_id' contradicts"),
    ({"seat": {"hall_id": "hall_1", "place": 9}, "place": 8}, "contradicts 'gen_guest_1.seat'"),
    ({"pin": "1234"}, "'guests' holds something that is not for you to write"),
    ({"items": [{"guest": None, "guest_id": None}]}, "'items' holds something that is not"),
    ({"items": [{"kind": "safe"}]}, "'items' is of a kind that is not for you to write"),
]


@pytest.mark.parametrize(("content", "said"), REFUSED)
def test_what_would_not_be_stored_as_it_is_said_is_refused(
    toolset: Toolset, session: RefSession, conversation: Conversation, content: Content, said: str
) -> None:
    """A row twice in a list, a reference in two ways, what a model may not know by name."""
    ref = conversation.draft(Guest, content).ref

    answer = saved(toolset, session, "guests", ref)

    assert answer["error"]["code"] == "invalid_content"
    assert said in answer["error"]["message"]
    assert "pin" not in str(answer)
    assert conversation.read_drafts([ref])[0].content == content


@pytest.mark.parametrize(
    "content",
    [
        {"seat": "seat_1"},
        {"seat": "seat_1", "hall_id": "hall_1", "place": 7},
        {"seat": {"hall_id": "hall_1", "place": 9}, "hall_id": "hall_1"},
    ],
)
def test_a_reference_of_several_columns_is_saved(
    toolset: Toolset, session: RefSession, conversation: Conversation, content: Content
) -> None:
    """By the ref of a row, or an object, and in its columns too if they say the same."""
    ref = conversation.draft(Guest, content).ref

    [row] = saved(toolset, session, "guests", ref)["rows"]

    place = content["seat"]["place"] if isinstance(content["seat"], dict) else 7
    assert (row["hall_id"], row["place"]) == ("hall_1", place)


def test_a_row_of_several_key_columns_is_got_by_its_ref(
    toolset: Toolset,  # noqa: ARG001  # its rows
    session: RefSession,
) -> None:
    """One text can be nothing else."""
    seat = session.get(Seat, "seat_2")

    assert seat is not None
    assert (seat.hall_id, seat.place) == ("hall_2", 8)


def test_what_is_said_from_both_sides_is_saved_once(
    toolset: Toolset, session: RefSession, conversation: Conversation
) -> None:
    """Each of two drafts names the other as borrowed or borrower; that is one row between them."""
    conversation.draft(Item, {})
    conversation.draft(Guest, {})
    lent = ["gen_item_1", {"borrowers": ["gen_guest_1"]}]
    conversation.edit_draft("gen_guest_1", {"lent": lent})
    conversation.edit_draft("gen_item_1", {"borrowers": ["gen_guest_1"]})
    guests = {"table": "guests", "from_draft": "gen_guest_1"}
    items = {"table": "items", "from_draft": "gen_item_1", "also": [guests]}

    toolset.call(session, "db_create", items)

    assert sorted(map(tuple, session.connection().execute(select(LOANS)))) == [(1, 2), (1, 3)]


def test_a_draft_is_saved_as_what_it_is(
    toolset: Toolset, session: RefSession, conversation: Conversation
) -> None:
    """A draft of the base is none of a subclass; one of that is one of its base, too."""
    item, lamp = conversation.draft(Item, {}).ref, conversation.draft(Lamp, {}).ref
    guest = conversation.draft(Guest, {"lamps": [item]}).ref
    also = [{"table": "guests", "from_draft": guest}]
    both = {"table": "items", "from_draft": item, "also": also}

    refused = saved(toolset, session, "lamps", item)["error"]
    inside = toolset.call(session, "db_create", both)["error"]
    [row] = saved(toolset, session, "items", lamp)["rows"]

    assert (refused["code"], inside["code"]) == ("invalid_content", "invalid_content")
    assert "save it as a row of 'items'" in refused["message"]
    assert "'gen_item_1' in 'gen_guest_1.lamps' is a row of another kind" in inside["message"]
    assert row["kind"] == "lamp"
    with pytest.raises(DraftContentError, match="class 'Item', not of 'Lamp'"):
        session.get(Lamp, item)


@pytest.mark.usefixtures("toolset")
def test_drafts_and_mentions_of_a_concrete_subclass(
    session: RefSession, conversation: Conversation
) -> None:
    """They are of its own rows, not of those of its base."""
    toolset = Toolset([Hall, Cellar])
    made = {"table": "cellars", "data": {"depth": 3}}

    [draft] = toolset.call(session, "db_create", {**made, "draft": True})["rows"]
    [row] = saved(toolset, session, "cellars", "gen_cellar_1")["rows"]
    heard = Context(conversation, toolset=toolset).heard(session, "@[low](cellar:1)")

    assert (draft["id"], draft["depth"]) == ("gen_cellar_1", 3)
    assert row == {"id": "cellar_1", "depth": 3}
    assert heard == "cellar_1"


def test_a_draft_of_a_class_that_is_not_listed_is_not_saved(
    toolset: Toolset, session: RefSession, conversation: Conversation
) -> None:
    """What the application has said in it is not for the model to mend."""
    ref = conversation.draft(Safe, {}).ref
    one = {"table": "items", "filters": [{"field": "id", "op": "=", "value": ref}]}

    answers = [
        saved(toolset, session, "items", ref),
        toolset.call(session, "db_update", one | {"data": {"guest_id": None}}),
    ]

    told = {(each["error"]["code"], each["error"]["message"]) for each in answers}
    assert told == {("invalid_content", f"a draft of 'items' is of a kind {NOT_YOURS}")}


# drafts that name each other


class Node(Base):
    """Has others of its kind, by foreign keys and relationships."""

    __tablename__ = "nodes"

    id: Mapped[Key]
    name: Mapped[str | None]
    parent_id: Mapped[Any] = mapped_column(ForeignKey("nodes.id"), nullable=True)
    other_id: Mapped[Any] = mapped_column(ForeignKey("nodes.id"), nullable=True)
    leaf_id: Mapped[Any] = mapped_column(
        ForeignKey("leaves.id", use_alter=True, name="of_leaf"), nullable=True
    )

    parent: Mapped[Any] = relationship(
        "Node", foreign_keys=[parent_id], remote_side="Node.id", back_populates="children"
    )
    children: Mapped[list[Node]] = relationship(foreign_keys=[parent_id], back_populates="parent")
    leaf: Mapped[Any] = relationship("Leaf", foreign_keys=[leaf_id])


class Leaf(Base):
    """Has a node, which may have it."""

    __tablename__ = "leaves"

    id: Mapped[Key]
    node_id: Mapped[Any] = mapped_column(ForeignKey("nodes.id"), nullable=True)
    node: Mapped[Any] = relationship("Node", foreign_keys=[node_id])


ONE, TWO, LEAF = "gen_node_1", "gen_node_2", "gen_leaf_1"
EMPTY: dict[str, Content] = {ONE: {}, TWO: {}, LEAF: {}}

# what two nodes and a leaf hold that cannot be saved, by their refs
CIRCLES: list[dict[str, Content]] = [
    {ONE: {"parent_id": TWO}, TWO: {"parent_id": ONE}},
    {ONE: {"parent": TWO}, TWO: {"parent": ONE}},
    {ONE: {"children": [TWO]}, TWO: {"children": [ONE]}},
    {ONE: {"parent": TWO}, TWO: {"parent_id": ONE}},
    {ONE: {"parent_id": TWO}, TWO: {"other_id": ONE}},
    {ONE: {"other_id": TWO}, TWO: {"parent": ONE}},
    {ONE: {"other_id": TWO}, TWO: {"children": [ONE], "other_id": ONE}},
    {ONE: {"children": [TWO]}, TWO: {"children": [{"children": [ONE]}]}},
    {ONE: {"children": [{"other_id": TWO}], "parent": TWO}, TWO: {"parent_id": ONE}},
    {ONE: {"leaf": LEAF}, LEAF: {"node": ONE}},
    {ONE: {"leaf": LEAF}, LEAF: {"node_id": ONE}},
    {ONE: {"leaf_id": LEAF}, LEAF: {"node_id": ONE}},
    {ONE: {"leaf": {"node": ONE}}},
    {ONE: {"leaf": {"node_id": ONE}}},
    {ONE: {"children": [ONE]}},
    {ONE: {"children": [{"children": [ONE]}]}},
]


@pytest.fixture
def drafts(tables: Engine, conversation: Conversation) -> Iterator[Conversation]:
    """A conversation with drafts of two nodes and a leaf, in which nothing is yet."""
    Base.metadata.create_all(tables)
    for model in (Node, Node, Leaf):
        conversation.draft(model, {})
    yield conversation
    Base.metadata.drop_all(tables)


def held(conversation: Conversation) -> dict[str, Content]:
    """Return what pending drafts hold, as far as that is something."""
    return {draft.ref: draft.content for draft in conversation.drafts() if draft.content}


@pytest.mark.slow
def test_a_model_is_told_of_a_circle(session: RefSession, drafts: Conversation) -> None:
    """With the drafts that are in it, all of which are drafts as they were."""
    for circle in CIRCLES:
        drafts.edit_drafts(EMPTY | circle)
        nodes = [ref for ref in circle if "node" in ref]
        also = [{"table": "leaves", "from_draft": LEAF}] if LEAF in circle else []
        arguments = {"table": "nodes", "from_draft": nodes, "also": also}
        for _ in range(2):
            answer = Toolset([Node, Leaf]).call(session, "db_create", arguments)
            assert answer["error"]["code"] == "circular_reference", circle
            assert answer["error"]["known"] == list(circle)
            assert "name each other, so none can be saved first" in answer["error"]["message"]
        assert held(drafts) == circle

    drafts.edit_drafts(EMPTY)
    also = [{"table": "leaves", "from_draft": LEAF}]
    arguments = {"table": "nodes", "from_draft": [ONE, TWO], "also": also}
    answer = Toolset([Node, Leaf]).call(session, "db_create", arguments)
    assert list(answer["saved"]) == [ONE, TWO, LEAF]


def test_a_session_tells_of_a_circle(
    sessions: sessionmaker[RefSession], drafts: Conversation
) -> None:
    """As `CircularDraftsError`; the drafts are drafts as they were."""
    for circle in CIRCLES:
        drafts.edit_drafts(EMPTY | circle)
        with sessions(conversation=drafts) as session:
            session.add_all(session.get(Node if "node" in ref else Leaf, ref) for ref in circle)
            with pytest.raises(CircularDraftsError) as caught:
                session.commit()

        assert caught.value.refs == tuple(circle)
        assert held(drafts) == circle


def test_a_node_that_is_its_own_is_no_circle(session: RefSession, drafts: Conversation) -> None:
    """One row can name itself."""
    drafts.edit_drafts({ONE: {"parent_id": ONE}, TWO: {"parent": TWO}})
    arguments = {"table": "nodes", "from_draft": [ONE, TWO]}
    rows = Toolset([Node, Leaf]).call(session, "db_create", arguments)["rows"]

    assert [row["parent_id"] for row in rows] == [row["id"] for row in rows]
