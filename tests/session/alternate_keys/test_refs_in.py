"""Criteria, attributes and writes take refs for unique values, and refuse wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.orm import Session

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    GoneRefError,
    RefRegistry,
    RefSession,
    UnknownRefError,
    UntranslatableError,
    WrongEntityError,
)
from tests.fix_asyncio import AsyncSessions
from tests.session.alternate_keys.models import Member, Post, refs_of_members, titles


@pytest.mark.usefixtures("members")
def test_a_criterion_takes_the_ref_of_the_row(session: RefSession) -> None:
    """==, !=, IN, NOT IN and NULL select what they select with the unique values."""
    refs_of_members(session)
    found = [
        titles(session, Post.author == "member_1"),
        titles(session, Post.author != "member_1"),
        titles(session, Post.author.in_(["member_1", "member_3"])),
        titles(session, Post.author.not_in(["member_1", "member_3"])),
        titles(session, Post.editor == "member_2"),
        titles(session, Post.author.is_(None)),
        titles(session, Post.author.in_([])),
    ]

    assert found == [["A"], ["B", "C"], ["A", "C"], ["B"], ["B"], [], []]


@pytest.mark.usefixtures("members")
def test_a_criterion_costs_one_query_and_none_in_a_transaction_that_knows_it(
    session: RefSession, sent: list[str]
) -> None:
    """Two refs are looked up at once, and not again."""
    refs_of_members(session)
    del sent[:]
    titles(session, Post.author.in_(["member_1", "member_3"]))
    first = len(sent)
    titles(session, Post.author == "member_3")

    assert [first, len(sent)] == [2, 3]


@pytest.mark.usefixtures("members")
def test_a_delete_with_a_ref_never_widens(session: RefSession) -> None:
    """!= and NOT IN delete the others only, and a bad ref deletes nothing."""
    refs_of_members(session)
    with pytest.raises(UnknownRefError):
        session.execute(delete(Post).where(Post.author.not_in(["member_1", "member_9"])))
    posts = [post.id for post in session.scalars(select(Post))]
    with pytest.raises(WrongEntityError):
        session.execute(delete(Post).where(Post.author != posts[0]))
    before = titles(session, Post.title.is_not(None))
    session.execute(delete(Post).where(Post.author != "member_1"))

    assert [before, titles(session, Post.title.is_not(None))] == [["A", "B", "C"], ["A"]]


def test_a_ref_goes_in_by_constructor_attribute_and_every_kind_of_write(
    members: list[Member], session: RefSession, shapes: Engine
) -> None:
    """The database has the unique value of the row that each ref names."""
    refs_of_members(session)
    post = Post(title="D", author="member_1", editor="member_2")
    session.add(post)
    session.flush()
    post.author = "member_3"
    session.execute(insert(Post), [{"title": "E", "author": "member_1"}])
    session.execute(insert(Post).values(title="F", author="member_2"))
    session.execute(update(Post).where(Post.title == "A").values(author="member_3"))
    session.bulk_insert_mappings(Post, [{"title": "G", "author": "member_1"}])
    session.merge(Post(title="H", author="member_2"))
    shown = post.author, post.editor
    session.commit()

    a, b, c = (member.handle_id for member in members)
    with Session(shapes) as plain:
        stored = {row.title: row.author for row in plain.execute(select(Post.title, Post.author))}
        assert stored == {"A": c, "B": b, "C": c, "D": c, "E": a, "F": b, "G": a, "H": b}
        assert plain.scalar(select(Post.editor).where(Post.title == "D")) == 8
    assert shown == ("member_3", "member_2")


@pytest.mark.usefixtures("members")
def test_returning_shows_refs(session: RefSession) -> None:
    """Rows of a write show what rows of a select show."""
    refs_of_members(session)
    statement = insert(Post).values(title="D", author="member_2").returning(Post.author)
    row = session.execute(statement).one()
    statement = update(Post).where(Post.author == "member_1").values(author="member_3")  # type: ignore[assignment]
    updated = session.scalars(statement.returning(Post.author)).all()

    assert (row.author, updated) == ("member_2", ["member_3"])


@pytest.mark.usefixtures("members")
def test_a_ref_of_another_conversation_is_unknown(
    session: RefSession, registry: RefRegistry, shapes: Engine
) -> None:
    """Refs by alternate keys are valid in their conversation only."""
    with RefSession(shapes, conversation=registry.conversation("other")) as other:
        assert other.scalars(select(Post.author).order_by(Post.title)).first() == "member_1"
    with pytest.raises(UnknownRefError):
        titles(session, Post.author == "member_1")


@pytest.mark.usefixtures("members")
def test_a_ref_whose_row_is_gone_is_refused_and_nothing_is_executed(
    session: RefSession, shapes: Engine
) -> None:
    """The row was deleted by somebody else: there is no value to compare with."""
    refs_of_members(session)
    with Session(shapes) as plain:
        plain.execute(delete(Post))
        plain.execute(delete(Member).where(Member.name == "C"))
        plain.commit()

    with pytest.raises(GoneRefError, match=r"'member_3' was deleted .* 'member_1', 'member_2'$"):
        session.execute(delete(Post).where(Post.author != "member_3"))


@pytest.mark.usefixtures("members")
def test_a_statement_for_another_database_is_refused(session: RefSession, shapes: Engine) -> None:
    """The look-up would find the row of another tenant."""
    refs_of_members(session)
    options: dict[str, Any] = {"bind_arguments": {"bind": shapes}}
    posts = session.scalars(select(Post), **options).all()

    with pytest.raises(UntranslatableError):
        session.execute(select(Post.author), **options).all()
    with pytest.raises(UntranslatableError):
        session.execute(delete(Post).where(Post.author == "member_1"), **options)
    with pytest.raises(UntranslatableError):
        _ = posts[0].author
    assert posts[0].title in "ABC"


@pytest.mark.usefixtures("members")
async def test_awaited_sessions_look_up_inside_the_fetch_and_the_flush(
    async_sessions: AsyncSessions, chat: Conversation
) -> None:
    """No attribute does I/O, whether it was loaded, set by a ref, or saved."""
    async with async_sessions(conversation=chat) as session:
        posts = (await session.scalars(select(Post).order_by(Post.title))).all()
        assert [post.author for post in posts] == [post.editor for post in posts]
        posts[0].author = posts[1].author
        new = Post(title="D", author=posts[2].author)
        session.add(new)
        await session.commit()
        await session.refresh(posts[1])
        refs = [posts[0].author, posts[1].author, new.author]
        rows = await session.execute(select(Post.author).order_by(Post.title))
        assert [row.author for row in rows] == [*refs[:2], new.author, new.author]
    assert isinstance(session, AsyncRefSession)
    assert refs == ["member_2", "member_2", "member_3"]
