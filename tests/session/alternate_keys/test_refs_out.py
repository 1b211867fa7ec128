"""Attributes and rows show the ref of the row whose unique value they have."""

from __future__ import annotations

import copy
import uuid

import pytest
from sqlalchemy import Engine, func, insert, null, select, text, union, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefSession, UntranslatableError
from tests.fix_session import TravelLog
from tests.session.alternate_keys.models import Member, Post, Series, refs_of_members, titles


@pytest.mark.usefixtures("members")
def test_a_result_is_looked_up_by_one_query_for_each_unique_column(
    session: RefSession, sent: list[str], store: TravelLog
) -> None:
    """Three posts cost one look-up a column, and nothing once they are known."""
    rows = session.execute(select(Post.author).order_by(Post.title)).all()
    first = len(sent)
    again = session.execute(select(Post.author, Post.id).order_by(Post.title)).all()

    assert [row.author for row in rows] == [row.author for row in again]
    assert [first, len(sent)] == [2, 3]
    assert store.trips == ["refer", "refer"]


@pytest.mark.usefixtures("members")
def test_instances_are_looked_up_together_and_read_after_the_session_is_closed(
    session: RefSession, sent: list[str]
) -> None:
    """One look-up a column for all instances of a result, none when an attribute is read."""
    posts = session.scalars(select(Post).order_by(Post.title)).all()
    asked = len(sent)
    session.close()

    assert [post.author for post in posts] == ["member_1", "member_2", "member_3"]
    assert [post.editor for post in posts] == ["member_1", "member_2", "member_3"]
    assert [asked, len(sent)] == [3, 3]


@pytest.mark.parametrize("way", ["refresh", "expire", "populate"])
def test_an_instance_that_is_loaded_anew_shows_what_its_value_names_then(
    members: list[Member], session: RefSession, way: str
) -> None:
    """The same value of a reloaded instance may name another row by now, in one transaction."""
    refs_of_members(session)
    post = session.scalars(select(Post).where(Post.title == "A")).one()
    before = post.author
    a, b, _ = members
    keys = (a.id, None), (b.id, a.handle_id)
    with session.raw_keys():
        for id_, handle in keys:
            session.execute(update(Member).where(Member.id == id_).values(handle_id=handle))
    if way == "refresh":
        session.refresh(post)
    elif way == "expire":
        session.expire(post)
    else:
        statement = select(Post).where(Post.title == "A")
        session.scalars(statement, execution_options={"populate_existing": True}).one()

    assert (before, post.author) == ("member_1", "member_2")
    session.rollback()


def test_a_value_is_never_taken_for_a_primary_key(
    members: list[Member], session: RefSession, shapes: Engine
) -> None:
    """A handle that is another member's primary key names the row that has the handle."""
    a, *_ = members
    with Session(shapes) as plain:
        plain.add(Member(id=a.handle_id, name="D", handle_id=a.id))
        plain.flush()
        plain.add(Post(title="D", author=a.id))
        plain.commit()
    ids = refs_of_members(session)
    rows = session.execute(select(Post.author).order_by(Post.title)).scalars().all()

    assert ids == ["member_1", "member_2", "member_3", "member_4"]
    assert rows == ["member_1", "member_2", "member_3", "member_4"]
    assert titles(session, Post.author == "member_4") == ["D"]
    assert [post.author for post in session.scalars(select(Post).order_by(Post.title))] == ids


@pytest.mark.usefixtures("members")
def test_null_stays_null(session: RefSession, shapes: Engine) -> None:
    """A post without an author shows None, and a member without a handle is refused in words."""
    with Session(shapes) as plain:
        plain.add_all([Post(title="N"), Member(name="N", handle_id=null())])
        plain.commit()
    ids = refs_of_members(session)
    post = session.scalars(select(Post).where(Post.title == "N")).one()

    assert (post.author, session.scalar(select(Post.author).where(Post.title == "N"))) == (
        None,
        None,
    )
    with pytest.raises(UntranslatableError, match=r"'member_4' has no value in members.handle_id"):
        titles(session, Post.author == ids[-1])


@pytest.mark.usefixtures("members")
def test_a_value_without_a_row_is_refused_in_words(session: RefSession) -> None:
    """A deferred constraint lets a value dangle: it is never shown, and stops nothing else."""
    lost = uuid.uuid4()
    with session.raw_keys():
        session.execute(insert(Post).values(title="L", author=lost))
    post = session.scalars(select(Post).where(Post.title == "L")).one()

    assert post.title == "L"
    with pytest.raises(UntranslatableError) as by_attribute:
        _ = post.author
    with pytest.raises(UntranslatableError) as by_row:
        session.execute(select(Post.author)).all()
    assert str(lost) not in f"{by_attribute.value} {by_row.value}"
    session.rollback()


@pytest.mark.usefixtures("members")
def test_expressions_over_it_show_refs_or_are_refused(session: RefSession) -> None:
    """Lists and JSON show refs; a union with primary keys, whose values differ, is refused."""
    ids = refs_of_members(session)
    listed = session.scalar(select(func.array_agg(Post.author))) or []
    document = session.scalar(
        select(func.json_build_object("by", Post.author)).where(Post.title == "A")
    )

    assert sorted(listed) == ids
    assert document == {"by": "member_1"}
    with pytest.raises(UntranslatableError):
        session.execute(union(select(Post.author), select(Member.id))).all()
    with pytest.raises(UntranslatableError):
        titles(session, func.coalesce(Post.author, Member.id) == "member_1")
    with pytest.raises(UntranslatableError):
        session.execute(select(func.concat(Post.author, "x"))).all()


@pytest.mark.usefixtures("members")
def test_a_text_shows_refs_for_it(session: RefSession) -> None:
    """PostgreSQL tells which column a value is read from."""
    ids = refs_of_members(session)
    assert session.scalars(text("select author from posts order by title")).all() == ids


def test_an_error_does_not_show_it(members: list[Member], session: RefSession) -> None:
    """A value that is another row's primary key does not get that row's ref either."""
    refs_of_members(session)
    session.execute(insert(Post).values(title="X", author=members[0].id))
    with pytest.raises(IntegrityError) as caught:
        session.commit()

    assert "(author)=(<key>)" in str(caught.value)
    assert str(members[0].id) not in str(caught.value)
    assert "member_1" not in str(caught.value)


@pytest.mark.usefixtures("members")
def test_a_copy_takes_its_refs_along(session: RefSession) -> None:
    """What a post shows by its alternate keys it shows in a deep copy, as in a pickle."""
    post = session.scalars(select(Post).where(Post.title == "B")).one()
    arrived = copy.deepcopy(post)

    assert (arrived.author, arrived.editor) == (post.author, post.editor)


def test_raw_keys_are_the_unique_values(members: list[Member], session: RefSession) -> None:
    """Trusted code sees and compares the values themselves."""
    with session.raw_keys():
        post = session.scalars(select(Post).where(Post.author == members[1].handle_id)).one()
        assert post.author == members[1].handle_id

    assert post.author == "member_1"


def test_the_unique_column_itself_is_data_unless_it_is_declared(
    members: list[Member], session: RefSession
) -> None:
    """`member.handle_id` is no foreign key; a column declared to hold handles shows refs."""
    member = session.scalars(select(Member).order_by(Member.name)).first()
    assert member is not None
    assert member.handle_id == members[0].handle_id
    series = Series(host=member.id)
    session.add(series)
    session.flush()
    stored = session.scalar(select(Series.host), execution_options={"raw_keys": True})

    assert (series.host, stored) == ("member_1", members[0].handle_id)


@pytest.mark.slow
@pytest.mark.usefixtures("members")
def test_a_long_list_is_looked_up_in_parts(session: RefSession, shapes: Engine) -> None:
    """More values than a driver takes in one statement."""
    many = 35_000
    with Session(shapes) as plain:
        plain.execute(
            text(
                "insert into members (id, name, handle_id) select gen_random_uuid(), 'M', "
                "gen_random_uuid() from generate_series(1, :many)"
            ),
            {"many": many},
        )
        plain.execute(
            text(
                "insert into posts (id, title, author) select gen_random_uuid(), 'M', handle_id "
                "from members where name = 'M'"
            )
        )
        plain.commit()
    authors = session.scalars(select(Post.author).where(Post.title == "M")).all()

    assert len(set(authors)) == many


def test_a_plain_session_reads_the_values(members: list[Member], shapes: Engine) -> None:
    """It is untouched by sessions with a conversation in the same process."""
    sessions = sessionmaker(shapes, class_=RefSession)
    with sessions() as plain:
        authors = {post.author for post in plain.scalars(select(Post))}

    assert authors == {member.handle_id for member in members}
