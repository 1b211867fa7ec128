"""Alternate keys: a foreign key to a unique column shows the ref of the row that it names."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    UniqueConstraint,
    Uuid,
    delete,
    func,
    insert,
    null,
    select,
    text,
    union,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    GoneRefError,
    RefPolicy,
    RefRegistry,
    RefSession,
    UnknownRefError,
    UntranslatableError,
    WrongEntityError,
)
from alfred_refs.errors import KeyColumnError
from alfred_refs.mapping.entities import Entities
from tests.fix_asyncio import AsyncSessions
from tests.fix_session import TravelLog


class Base(DeclarativeBase):
    """Declarative base of these shapes."""


class Member(Base):
    """Has a handle and a number beside its primary key; either is unique."""

    __tablename__ = "members"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    handle_id: Mapped[Any] = mapped_column(Uuid, unique=True, nullable=True, default=uuid.uuid4)
    number: Mapped[Any] = mapped_column(Integer, unique=True, nullable=True)


class Post(Base):
    """References its author by the handle, and its editor by the number."""

    __tablename__ = "posts"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    author: Mapped[Any] = mapped_column(
        Uuid,
        ForeignKey("members.handle_id", deferrable=True, initially="DEFERRED"),
        nullable=True,
    )
    editor: Mapped[Any] = mapped_column(Integer, ForeignKey("members.number"), nullable=True)
    member: Mapped[Member] = relationship(foreign_keys=[author])


class Series(Base):
    """Lists the handles of members, without a constraint."""

    __tablename__ = "serieses"
    __ref_name__ = "series"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    host: Mapped[Any] = mapped_column(Uuid, nullable=True, info={"ref": "members.handle_id"})


@pytest.fixture
def shapes(tables: Engine) -> Iterator[Engine]:
    """The engine, with the tables of these shapes in its database."""
    Base.metadata.create_all(tables)
    yield tables
    Base.metadata.drop_all(tables)


@pytest.fixture
def members(shapes: Engine) -> list[Member]:
    """Three members, the first of which has one post for each, as a plain session has them."""
    with Session(shapes, expire_on_commit=False) as plain:
        members = [Member(name=name, number=n) for n, name in enumerate("ABC", 7)]
        plain.add_all(members)
        plain.flush()
        plain.add_all(Post(title=m.name, author=m.handle_id, editor=m.number) for m in members)
        plain.commit()
    return members


def _titles(session: Session, criterion: Any) -> list[str]:
    return list(session.scalars(select(Post.title).where(criterion).order_by(Post.title)))


def _known(session: RefSession) -> list[str]:
    return [member.id for member in session.scalars(select(Member).order_by(Member.name))]


@pytest.mark.usefixtures("members")
def test_an_attribute_shows_the_ref_of_the_row_whose_unique_value_it_has(
    session: RefSession,
) -> None:
    """`post.author` is the ref that `member.id` is, and so is the one by an integer."""
    ids = _known(session)
    posts = session.scalars(select(Post).order_by(Post.title)).all()

    assert [post.author for post in posts] == ids == ["member_1", "member_2", "member_3"]
    assert [post.editor for post in posts] == ids


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


@pytest.mark.usefixtures("members")
def test_a_criterion_takes_the_ref_of_the_row(session: RefSession) -> None:
    """==, !=, IN, NOT IN and NULL select what they select with the unique values."""
    _known(session)
    found = [
        _titles(session, Post.author == "member_1"),
        _titles(session, Post.author != "member_1"),
        _titles(session, Post.author.in_(["member_1", "member_3"])),
        _titles(session, Post.author.not_in(["member_1", "member_3"])),
        _titles(session, Post.editor == "member_2"),
        _titles(session, Post.author.is_(None)),
        _titles(session, Post.author.in_([])),
    ]

    assert found == [["A"], ["B", "C"], ["A", "C"], ["B"], ["B"], [], []]


@pytest.mark.usefixtures("members")
def test_a_criterion_costs_one_query_and_none_in_a_transaction_that_knows_it(
    session: RefSession, sent: list[str]
) -> None:
    """Two refs are looked up at once, and not again."""
    _known(session)
    del sent[:]
    _titles(session, Post.author.in_(["member_1", "member_3"]))
    first = len(sent)
    _titles(session, Post.author == "member_3")

    assert [first, len(sent)] == [2, 3]


@pytest.mark.usefixtures("members")
def test_a_delete_with_a_ref_never_widens(session: RefSession) -> None:
    """!= and NOT IN delete the others only, and a bad ref deletes nothing."""
    _known(session)
    with pytest.raises(UnknownRefError):
        session.execute(delete(Post).where(Post.author.not_in(["member_1", "member_9"])))
    posts = [post.id for post in session.scalars(select(Post))]
    with pytest.raises(WrongEntityError):
        session.execute(delete(Post).where(Post.author != posts[0]))
    before = _titles(session, Post.title.is_not(None))
    session.execute(delete(Post).where(Post.author != "member_1"))

    assert [before, _titles(session, Post.title.is_not(None))] == [["A", "B", "C"], ["A"]]


def test_a_ref_goes_in_by_constructor_attribute_and_every_kind_of_write(
    members: list[Member], session: RefSession, shapes: Engine
) -> None:
    """The database has the unique value of the row that each ref names."""
    _known(session)
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
    _known(session)
    statement = insert(Post).values(title="D", author="member_2").returning(Post.author)
    row = session.execute(statement).one()
    statement = update(Post).where(Post.author == "member_1").values(author="member_3")  # type: ignore[assignment]
    updated = session.scalars(statement.returning(Post.author)).all()

    assert (row.author, updated) == ("member_2", ["member_3"])


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
    _known(session)
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
    assert _titles(session, Post.author == "member_1") == ["B"]
    again = session.scalars(select(Post).order_by(Post.title)).all()
    assert [each.author for each in again] == ["member_2", "member_1", "member_3"]


@pytest.mark.parametrize("way", ["refresh", "expire", "populate"])
def test_an_instance_that_is_loaded_anew_shows_what_its_value_names_then(
    members: list[Member], session: RefSession, way: str
) -> None:
    """The same value of a reloaded instance may name another row by now, in one transaction."""
    _known(session)
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
    ids = _known(session)
    rows = session.execute(select(Post.author).order_by(Post.title)).scalars().all()

    assert ids == ["member_1", "member_2", "member_3", "member_4"]
    assert rows == ["member_1", "member_2", "member_3", "member_4"]
    assert _titles(session, Post.author == "member_4") == ["D"]
    assert [post.author for post in session.scalars(select(Post).order_by(Post.title))] == ids


@pytest.mark.usefixtures("members")
def test_a_ref_of_another_conversation_is_unknown(
    session: RefSession, registry: RefRegistry, shapes: Engine
) -> None:
    """Refs by alternate keys are valid in their conversation only."""
    with RefSession(shapes, conversation=registry.conversation("other")) as other:
        assert other.scalars(select(Post.author).order_by(Post.title)).first() == "member_1"
    with pytest.raises(UnknownRefError):
        _titles(session, Post.author == "member_1")


@pytest.mark.usefixtures("members")
def test_null_stays_null(session: RefSession, shapes: Engine) -> None:
    """A post without an author shows None, and a member without a handle is refused in words."""
    with Session(shapes) as plain:
        plain.add_all([Post(title="N"), Member(name="N", handle_id=null())])
        plain.commit()
    ids = _known(session)
    post = session.scalars(select(Post).where(Post.title == "N")).one()

    assert (post.author, session.scalar(select(Post.author).where(Post.title == "N"))) == (
        None,
        None,
    )
    with pytest.raises(UntranslatableError, match=r"'member_4' has no value in members.handle_id"):
        _titles(session, Post.author == ids[-1])


@pytest.mark.usefixtures("members")
def test_a_ref_whose_row_is_gone_is_refused_and_nothing_is_executed(
    session: RefSession, shapes: Engine
) -> None:
    """The row was deleted by somebody else: there is no value to compare with."""
    _known(session)
    with Session(shapes) as plain:
        plain.execute(delete(Post))
        plain.execute(delete(Member).where(Member.name == "C"))
        plain.commit()

    with pytest.raises(GoneRefError, match=r"'member_3' was deleted .* 'member_1', 'member_2'$"):
        session.execute(delete(Post).where(Post.author != "member_3"))


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
    ids = _known(session)
    listed = session.scalar(select(func.array_agg(Post.author))) or []
    document = session.scalar(
        select(func.json_build_object("by", Post.author)).where(Post.title == "A")
    )

    assert sorted(listed) == ids
    assert document == {"by": "member_1"}
    with pytest.raises(UntranslatableError):
        session.execute(union(select(Post.author), select(Member.id))).all()
    with pytest.raises(UntranslatableError):
        _titles(session, func.coalesce(Post.author, Member.id) == "member_1")
    with pytest.raises(UntranslatableError):
        session.execute(select(func.concat(Post.author, "x"))).all()


@pytest.mark.usefixtures("members")
def test_a_text_shows_refs_for_it(session: RefSession) -> None:
    """PostgreSQL tells which column a value is read from."""
    _known(session)
    assert session.scalars(text("select author from posts order by title")).all() == [
        "member_1",
        "member_2",
        "member_3",
    ]


def test_an_error_does_not_show_it(members: list[Member], session: RefSession) -> None:
    """A value that is another row's primary key does not get that row's ref either."""
    _known(session)
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


@pytest.mark.usefixtures("members")
def test_a_change_of_the_value_in_the_transaction_is_seen(session: RefSession) -> None:
    """A criterion is resolved after the flush of what would change its value."""
    _known(session)
    session.execute(delete(Post))
    assert _titles(session, Post.author == "member_1") == []
    member = session.get(Member, "member_1")
    assert member is not None
    member.handle_id = uuid.uuid4()
    session.execute(insert(Post).values(title="X", author="member_1"))

    assert _titles(session, Post.author == "member_1") == ["X"]
    session.commit()


@pytest.mark.usefixtures("members")
def test_a_statement_for_another_database_is_refused(session: RefSession, shapes: Engine) -> None:
    """The look-up would find the row of another tenant."""
    _known(session)
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


def test_a_column_left_raw_or_excluded_is_data() -> None:
    """The policy leaves it as it is."""
    column: Any = Post.__table__.c.author

    assert Entities(RefPolicy(exclude=("posts.author",))).of_column(column) is None
    assert Entities(RefPolicy(key_types=("integer",))).of_column(column) is None


def test_values_that_may_name_several_rows_are_refused() -> None:
    """A part of a unique pair is not unique, and one ref would be given to two rows."""

    class Local(DeclarativeBase):
        pass

    class Seat(Local):
        __tablename__ = "seats"
        __table_args__ = (UniqueConstraint("hall", "code"),)
        id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        hall: Mapped[int]
        code: Mapped[Any] = mapped_column(Uuid)

    class Ticket(Local):
        __tablename__ = "tickets"
        __table_args__ = (ForeignKeyConstraint(["hall", "seat"], ["seats.hall", "seats.code"]),)
        id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        hall: Mapped[int]
        seat: Mapped[Any] = mapped_column(Uuid)

    seat: Any = Ticket.__table__.c.seat
    with pytest.raises(KeyColumnError, match=r"tickets.seat references seats.code.*info="):
        Entities(RefPolicy()).of_column(seat)
    assert Seat.__tablename__ == "seats"


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


def test_a_plain_session_reads_the_values(members: list[Member], shapes: Engine) -> None:
    """It is untouched by sessions with a conversation in the same process."""
    sessions = sessionmaker(shapes, class_=RefSession)
    with sessions() as plain:
        authors = {post.author for post in plain.scalars(select(Post))}

    assert authors == {member.handle_id for member in members}


class Other(DeclarativeBase):
    """Declarative base of rarer shapes."""


class Person(Other):
    """Has an address that is unique text."""

    __tablename__ = "persons"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    kind: Mapped[str] = mapped_column(default="person")
    email: Mapped[str] = mapped_column(unique=True)

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012


class Guard(Person):
    """Has a badge in a table of its own."""

    __tablename__ = "guards"

    id: Mapped[Any] = mapped_column(ForeignKey("persons.id"), primary_key=True)
    badge: Mapped[Any] = mapped_column(Uuid(as_uuid=False), unique=True)

    __mapper_args__ = {"polymorphic_identity": "guard"}  # noqa: RUF012


class Badge(Other):
    """Is known by the badge of its guard alone: its primary key is that foreign key."""

    __tablename__ = "badges"

    badge: Mapped[Any] = mapped_column(ForeignKey("guards.badge"), primary_key=True)
    colour: Mapped[str] = mapped_column(default="red")


class Device(Other):
    """Has a serial number that is declared to be an alternate key, and shown as one."""

    __tablename__ = "gadgets"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    serial: Mapped[Any] = mapped_column(
        Uuid, unique=True, default=uuid.uuid4, info={"ref": "gadgets.serial"}
    )


class Letter(Other):
    """References its sender by the address, and lists the badges of those who read it."""

    __tablename__ = "letters"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    sender: Mapped[Any] = mapped_column(ForeignKey("persons.email"))
    readers: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": "guards.badge"}, default=list)


@pytest.fixture
def guard(tables: Engine) -> Iterator[Guard]:
    """A guard, as a plain session has it, in tables of these shapes."""
    Other.metadata.create_all(tables)
    with Session(tables, expire_on_commit=False) as plain:
        guard = Guard(email="person_1", badge=str(uuid.uuid4()))
        plain.add_all([guard, Person(email="b@x")])
        plain.commit()
    yield guard
    Other.metadata.drop_all(tables)


@pytest.fixture
def strings(tables: Engine, store: TravelLog) -> Iterator[RefSession]:
    """A session in a conversation in which text is a key too."""
    policy = RefPolicy(key_types=("uuid", "string"))
    conversation = RefRegistry(store=store, policy=policy).conversation("chat-8")
    with RefSession(tables, conversation=conversation) as session:
        yield session


def test_text_is_an_alternate_key_only_where_strings_are_keys(
    guard: Guard, strings: RefSession, session: RefSession
) -> None:
    """An address may look like a ref: it is never taken for one, nor a ref for an address."""
    people = strings.scalars(select(Person).order_by(Person.email)).all()
    other, own = (person.id for person in people)
    strings.add_all([Letter(sender=own), Letter(sender=other)])
    strings.commit()
    letters = strings.scalars(select(Letter).order_by(Letter.sender)).all()

    assert (other, own) == ("person_1", "person_2")
    assert [letter.sender for letter in letters] == [other, own]
    assert strings.scalars(select(Letter.sender).where(Letter.sender == own)).all() == [own]
    assert session.scalars(select(Letter.sender).order_by(Letter.sender)).all() == [
        "b@x",
        guard.email,
    ]


def test_a_subclass_s_unique_column_names_rows_of_the_base(
    guard: Guard, session: RefSession
) -> None:
    """A primary key may be an alternate key: `get()` takes the ref of the row it names."""
    [person] = [p.id for p in session.scalars(select(Guard))]
    session.add(Badge(badge=person))
    session.commit()
    badge = session.get(Badge, person)

    assert badge is not None
    assert (badge.badge, badge.colour) == (person, "red")
    assert session.scalars(select(Badge.badge).where(Badge.badge == person)).all() == [person]
    with session.raw_keys():
        assert badge.badge == guard.badge
    session.delete(badge)
    session.commit()
    assert session.get(Person, person) is not None


def test_a_list_of_alternate_keys_is_translated_element_by_element(
    guard: Guard, session: RefSession, tables: Engine
) -> None:
    """In and out, as attributes, rows and criteria."""
    [person] = [p.id for p in session.scalars(select(Guard))]
    letter = Letter(sender="b@x", readers=[person])
    session.add(letter)
    session.commit()
    found = session.scalars(select(Letter).where(Letter.readers.any_() == person)).one()
    rows = session.scalars(select(Letter.readers)).all()
    session.close()

    assert (found.readers, rows) == ([person], [[person]])
    with Session(tables) as plain:
        assert plain.scalars(select(Letter.readers)).all() == [[uuid.UUID(guard.badge)]]


def test_objects_saved_in_bulk_read_as_refs_after_the_session(
    members: list[Member], session: RefSession
) -> None:
    """They are no part of the session, and keep what their refs were."""
    _known(session)
    post = Post(title="D", author="member_2")
    session.bulk_save_objects([post])
    session.commit()
    session.close()

    assert post.author == "member_2"
    assert _titles(session, Post.author == "member_2") == [members[1].name, "D"]


@pytest.mark.usefixtures("guard")
def test_a_unique_column_that_is_declared_shows_the_ref_of_its_own_row(
    session: RefSession,
) -> None:
    """It is then no data any more, and is compared with refs."""
    session.add_all([Device(), Device()])
    session.commit()
    shown = [(device.id, device.serial) for device in session.scalars(select(Device))]

    assert shown == [("device_1", "device_1"), ("device_2", "device_2")]
    assert session.scalars(select(Device.id).where(Device.serial == "device_2")).all() == [
        "device_2"
    ]


def test_a_savepoint_that_is_rolled_back_takes_what_was_looked_up_along(
    members: list[Member], session: RefSession
) -> None:
    """The value that a row had inside is another's afterwards."""
    _known(session)
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
    ids = _known(session)
    written = select(Post.id).where(Post.author == ids[0])
    session.execute(
        update(Member)
        .where(Member.id == ids[0], written.exists())
        .values(handle_id=uuid.uuid4())
        .execution_options(synchronize_session=False)
    )

    assert _titles(session, Post.author == ids[0]) == []
    session.rollback()


@pytest.mark.usefixtures("members")
def test_a_flush_looks_up_each_ref_once(session: RefSession, sent: list[str]) -> None:
    """What a ref was resolved to needs not be looked up for the attribute to show it."""
    ids = _known(session)
    posts = [Post(title="D", author=ids[0]), Post(title="E", author=ids[1])]
    session.add_all(posts)
    del sent[:]
    session.flush()
    flushed = len(sent)

    assert [post.author for post in posts] == ids[:2]
    assert [flushed, len(sent)] == [2, 2]


@pytest.mark.usefixtures("members")
def test_a_flush_that_hands_a_value_on_shows_the_row_that_has_it_then(
    session: RefSession,
) -> None:
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
