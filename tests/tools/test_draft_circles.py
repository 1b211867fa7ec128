"""Drafts that name each other: told as such, however they do it, and drafts as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, sessionmaker

from alfred_refs import CircularDraftsError, Conversation, RefSession
from alfred_refs.tools import Toolset

Content = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Node(Base):
    """Has others of its kind, by foreign keys and relationships."""

    __tablename__ = "nodes"

    id: Mapped[Any] = mapped_column(
        Uuid, primary_key=True, server_default=text("gen_random_uuid()")
    )
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

    id: Mapped[Any] = mapped_column(
        Uuid, primary_key=True, server_default=text("gen_random_uuid()")
    )
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
