"""What alternate keys name after a write, a rollback, and in the next transaction."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from tests.session.alternate_keys.models import Member, Post, refs_of_members, titles


@pytest.mark.usefixtures("members")
def test_what_is_flushed_reads_as_refs_after_the_commit(
    shapes: Engine, conversation: Conversation, sent: list[str]
) -> None:
    """A post that was given its author by a ref or a relationship asks for nothing later."""
    with RefSession(shapes, conversation=conversation, expire_on_commit=False) as session:
        first = session.scalars(select(Member).order_by(Member.name)).first()
        assert first is not None
        posts = [Post(title="D", author=first.id), Post(title="E", member=first)]
        session.add_all(posts)
        session.commit()
        asked = len(sent)

    assert [post.author for post in posts] == ["member_1", "member_1"]
    assert len(sent) == asked


def test_swapped_values_name_the_other_row_in_the_next_transaction(
    members: list[Member], session: RefSession, shapes: Engine
) -> None:
    """What a value names is not kept longer than a transaction; loaded instances keep theirs."""
    refs_of_members(session)
    post = session.scalars(select(Post).where(Post.author == "member_1")).one()
    session.expunge(post)
    session.commit()
    a, b, _ = members
    with Session(shapes) as plain:
        handles = {a.id: b.handle_id, b.id: a.handle_id}
        for id_ in handles:
            plain.execute(update(Member).where(Member.id == id_).values(handle_id=None))
        for id_, handle in handles.items():
            plain.execute(update(Member).where(Member.id == id_).values(handle_id=handle))
        plain.commit()

    assert post.author == "member_1"
    assert titles(session, Post.author == "member_1") == ["B"]
    again = session.scalars(select(Post).order_by(Post.title)).all()
    assert [each.author for each in again] == ["member_2", "member_1", "member_3"]


@pytest.mark.usefixtures("members")
def test_a_change_of_the_value_in_the_transaction_is_seen(session: RefSession) -> None:
    """A criterion is resolved after the flush of what would change its value."""
    refs_of_members(session)
    session.execute(delete(Post))
    assert titles(session, Post.author == "member_1") == []
    member = session.get(Member, "member_1")
    assert member is not None
    member.handle_id = uuid.uuid4()
    session.execute(insert(Post).values(title="X", author="member_1"))

    assert titles(session, Post.author == "member_1") == ["X"]
    session.commit()


def test_objects_saved_in_bulk_read_as_refs_after_the_session(
    members: list[Member], session: RefSession
) -> None:
    """They are no part of the session, and keep what their refs were."""
    refs_of_members(session)
    post = Post(title="D", author="member_2")
    session.bulk_save_objects([post])
    session.commit()
    session.close()

    assert post.author == "member_2"
    assert titles(session, Post.author == "member_2") == [members[1].name, "D"]


def test_a_savepoint_that_is_rolled_back_takes_what_was_looked_up_along(
    members: list[Member], session: RefSession
) -> None:
    """The value that a row had inside is another's afterwards."""
    refs_of_members(session)
    a, b, _ = members
    savepoint = session.begin_nested()
    _swap(session, a, b)
    inside = session.scalars(select(Post.author).order_by(Post.title)).all()
    savepoint.rollback()
    outside = session.scalars(select(Post.author).order_by(Post.title)).all()

    assert inside == ["member_2", "member_1", "member_3"]
    assert outside == ["member_1", "member_2", "member_3"]


def _swap(session: RefSession, one: Member, other: Member) -> None:
    """Let two members have each other's handle."""
    new = [(one.id, None), (other.id, one.handle_id), (one.id, other.handle_id)]
    with session.raw_keys():
        for id_, handle in new:
            session.execute(update(Member).where(Member.id == id_).values(handle_id=handle))


@pytest.mark.usefixtures("members")
def test_a_write_forgets_what_it_looked_up_itself(session: RefSession) -> None:
    """An update may change the very value that its criterion was resolved to."""
    ids = refs_of_members(session)
    written = select(Post.id).where(Post.author == ids[0])
    session.execute(
        update(Member)
        .where(Member.id == ids[0], written.exists())
        .values(handle_id=uuid.uuid4())
        .execution_options(synchronize_session=False)
    )

    assert titles(session, Post.author == ids[0]) == []
    session.rollback()


@pytest.mark.usefixtures("members")
def test_a_flush_looks_up_each_ref_once(session: RefSession, sent: list[str]) -> None:
    """What a ref was resolved to needs not be looked up for the attribute to show it."""
    ids = refs_of_members(session)
    posts = [Post(title="D", author=ids[0]), Post(title="E", author=ids[1])]
    session.add_all(posts)
    del sent[:]
    session.flush()
    flushed = len(sent)

    assert [post.author for post in posts] == ids[:2]
    assert [flushed, len(sent)] == [2, 2]


@pytest.mark.usefixtures("members")
def test_a_flush_that_hands_a_value_on_shows_the_row_that_has_it_then(session: RefSession) -> None:
    """The transaction knew it as another's; the instance is of the flush that changed it."""
    session.execute(delete(Post))
    first = session.scalars(select(Member).order_by(Member.name)).first()
    assert first is not None
    session.add(Post(title="D", author=first.id))
    session.flush()
    session.scalars(select(Post.author)).all()
    handle, first.handle_id = first.handle_id, uuid.uuid4()
    heir = Member(name="H", handle_id=handle)
    post = Post(title="E", member=heir)
    session.add_all([heir, post])
    session.flush()

    assert post.author == heir.id
    session.rollback()
