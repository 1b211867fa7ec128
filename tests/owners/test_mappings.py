"""Mappings that lead past no owner: tables of one name, odd columns, no foreign key."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, mapped_column, relationship

from alfred_refs import ForeignRowError, Ownership, OwnershipError, RefSession, UnconfinedError
from alfred_refs.owners.ownership import belongings_of


@pytest.fixture
def schemas(owned_engine: Engine) -> Iterator[Engine]:
    """An engine with two schemas beside the usual one."""
    with owned_engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA one; CREATE SCHEMA two"))
    yield owned_engine
    with owned_engine.begin() as connection:
        connection.execute(text("DROP SCHEMA one CASCADE; DROP SCHEMA two CASCADE"))


class Things(DeclarativeBase):
    """Declarative base of three classes whose tables have one name, in three schemas."""


class Top(Things):
    """Has an owner."""

    __tablename__ = "things"
    __table_args__ = {"schema": "one"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]


class Middle(Things):
    """Belongs to whom its top does."""

    __tablename__ = "things"
    __table_args__ = {"schema": "two"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    top_id: Mapped[int] = mapped_column(ForeignKey("one.things.id"))

    top: Mapped[Top] = relationship()


class Low(Things):
    """Belongs to whom its middle does or to whom its top does: its own column says otherwise."""

    __tablename__ = "things"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]
    middle_id: Mapped[int] = mapped_column(ForeignKey("two.things.id"))
    top_id: Mapped[int] = mapped_column(ForeignKey("one.things.id"))

    middle: Mapped[Middle] = relationship()
    top: Mapped[Top] = relationship()


@pytest.fixture
def things(schemas: Engine) -> Iterator[Engine]:
    """The engine, with a thing of each of two owners in each table: the keys are others' above."""
    Things.metadata.create_all(schemas)
    with Session(schemas) as plain, plain.begin():
        plain.add_all([Top(id=1, owner=1), Top(id=2, owner=2)])
        plain.flush()
        plain.add_all([Middle(id=1, top_id=2), Middle(id=2, top_id=1)])
        plain.flush()
        plain.add_all(Low(id=key, owner=3 - key, middle_id=key, top_id=key) for key in (1, 2))
    yield schemas
    Things.metadata.drop_all(schemas)


def test_tables_of_one_name_are_told_apart(things: Engine) -> None:
    """Each row by its own parents, though they are called the same."""
    ownership = Ownership({Top: "owner", Middle: "top", Low: "middle"})
    for owner, keys in ((1, (1, 2, 2)), (2, (2, 1, 1))):
        with RefSession(things, owner=ownership.of(owner)) as session:
            found = tuple(session.scalars(select(each.id)).all() for each in (Top, Middle, Low))
            assert found == tuple([key] for key in keys)
            low = aliased(Low)
            joined = select(low.id).join(low.middle).join(Middle.top)
            assert session.scalars(joined).all() == [keys[2]]


def test_an_upsert_names_columns_by_their_keys(schemas: Engine) -> None:
    """SQLAlchemy renders any other name as it is: it may be that of the owner's column."""
    metadata = MetaData()
    notes = Table(
        "notes",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("owner", Integer, key="whose"),
        Column("note", Integer),
    )

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Note(Local):
        __table__ = notes

    metadata.create_all(schemas)
    with Session(schemas) as plain, plain.begin():
        plain.add_all([Note(id=1, whose=1, note=1)])
    ownership = Ownership({Note: "whose"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        made = upsert(notes).values(id=1, note=2)
        for named in ({"owner": 2}, {"whose": 2}, {notes.c.whose: 2}):
            with pytest.raises(UnconfinedError):
                session.execute(made.on_conflict_do_update(index_elements=["id"], set_=named))
        session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"note": 3}))
        session.commit()
    with Session(schemas) as plain:
        assert plain.execute(select(notes.c.whose, notes.c.note)).all() == [(1, 3)]
    metadata.drop_all(schemas)


def test_attributes_called_as_other_columns_are_no_way_round(schemas: Engine) -> None:
    """`set_=` goes by columns, whatever attributes are called."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Box(Local):
        __tablename__ = "boxes"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[int]

    class Item(Local):
        __tablename__ = "items"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[int]
        box: Mapped[int | None] = mapped_column("count")
        count: Mapped[int | None] = mapped_column("box", ForeignKey("boxes.id"))

    Local.metadata.create_all(schemas)
    with Session(schemas) as plain, plain.begin():
        plain.add_all([Box(id=1, whose=1), Box(id=2, whose=2)])
        plain.flush()
        plain.add(Item(id=1, whose=1))
    ownership = Ownership({Box: "whose", Item: "whose"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        made = upsert(Item).values(id=1)
        with pytest.raises(ForeignRowError):
            session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"box": 2}))
        session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"count": 2}))
    Local.metadata.drop_all(schemas)


class Pages(DeclarativeBase):
    """Declarative base of two classes between which there is no foreign key."""


class Page(Pages):
    """Has an owner."""

    __tablename__ = "pages"

    id: Mapped[int] = mapped_column(primary_key=True)
    whose: Mapped[int]


class Word(Pages):
    """Belongs to whom its page does."""

    __tablename__ = "words"

    id: Mapped[int] = mapped_column(primary_key=True)
    page_id: Mapped[int | None]

    page: Mapped[Page | None] = relationship(
        primaryjoin="foreign(Word.page_id) == Page.id", backref="words"
    )


@pytest.fixture
def written(schemas: Engine) -> Iterator[RefSession]:
    """A session of owner 1, with a page of each of two owners."""
    Pages.metadata.create_all(schemas)
    with Session(schemas) as plain, plain.begin():
        plain.add_all([Page(id=1, whose=1), Page(id=2, whose=2)])
    ownership = Ownership({Page: "whose", Word: "page"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        yield session
    with Session(schemas) as plain:
        assert set(plain.scalars(select(Word.page_id))) == {1}
    Pages.metadata.drop_all(schemas)


def flushed(session: Session, word: Word) -> None:
    """Save a word."""
    session.add(word)
    session.flush()


@pytest.mark.parametrize(
    "write",
    [
        lambda s, page: flushed(s, Word(page_id=page)),
        lambda s, page: s.execute(insert(Word).values(page_id=page)),
        lambda s, page: s.execute(insert(Word), [{"page_id": page}]),
        lambda s, page: s.bulk_insert_mappings(Word, [{"page_id": page}]),
        lambda s, page: s.bulk_save_objects([Word(page_id=page)]),
    ],
    ids=["flush", "values", "many", "mappings", "objects"],
)
def test_what_decides_need_have_no_foreign_key(
    written: RefSession, write: Callable[[Session, int | None], Any]
) -> None:
    """A relationship that the database does not know of is looked at like one that it knows."""
    write(written, 1)
    written.commit()
    for page in (2, 3, None):
        with pytest.raises(ForeignRowError):
            write(written, page)
        written.rollback()
    with pytest.raises(ForeignRowError):
        written.execute(update(Word).values(page_id=2))
    written.rollback()
    written.scalars(select(Word)).all()[0].page_id = 2
    with pytest.raises(ForeignRowError):
        written.flush()


@pytest.mark.parametrize(
    ("unique", "args"),
    [(False, ()), (True, ()), (False, (UniqueConstraint("code"),))],
    ids=["several", "unique column", "constraint"],
)
def test_one_row_decides(unique: bool, args: tuple[Any, ...]) -> None:
    """Where several could, the row would be everybody's whose row is among them."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Group(Local):
        __tablename__ = "groups"
        __table_args__ = args
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str] = mapped_column(unique=unique)
        whose: Mapped[int]

    class Member(Local):
        __tablename__ = "members"
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str]
        group: Mapped[Group] = relationship(primaryjoin="foreign(Member.code) == Group.code")

    owned = {Group: "whose", Member: "group"}
    if unique or args:
        assert len(belongings_of(owned, ())) == 2
        return
    with pytest.raises(OwnershipError, match="may lead to several rows"):
        belongings_of(owned, ())


def test_an_owner_is_compared_as_each_column_has_it(schemas: Engine) -> None:
    """A UUID beside text: the same owner is kept apart in one and in the other."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Paper(Local):
        __tablename__ = "papers"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[uuid.UUID]

    class Card(Local):
        __tablename__ = "cards"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[str]

    Local.metadata.create_all(schemas)
    one, two = uuid.uuid4(), uuid.uuid4()
    with Session(schemas) as plain, plain.begin():
        for who in (one, two):
            plain.add_all([Paper(whose=who), Card(whose=str(who))])
    ownership = Ownership({Paper: "whose", Card: "whose"})
    for given in (one, str(one)):
        with RefSession(schemas, owner=ownership.of(given)) as session:
            assert session.scalars(select(Paper.whose)).all() == [one]
            assert session.scalars(select(Card.whose)).all() == [str(one)]
            session.add_all([Paper(), Card()])
            session.flush()
            assert set(session.scalars(select(Card.whose))) == {str(one)}
            with pytest.raises(ForeignRowError):
                session.execute(insert(Card).values(whose=str(two)))
    Local.metadata.drop_all(schemas)


def test_a_table_is_told_from_one_of_its_name_in_a_schema(things: Engine) -> None:
    """Where SQLAlchemy gives it another name beside that, and where it leaves out the schema."""
    ownership = Ownership({Top: "owner", Low: "top"})
    met = Top.id == Low.top_id
    with RefSession(things, owner=ownership.of(1)) as session:
        for asked in (select(Top.id).join(Low, met), select(Top.id).join(Low, met, full=True)):
            with pytest.raises(UnconfinedError, match="table 'things' without alias"):
                session.execute(asked)
        low = aliased(Low)
        assert session.scalars(select(low.id).join(low.top)).all() == [1]
        found = select(func.max(Top.__table__.c.id)).scalar_subquery()
        made = upsert(Top).values(id=1)
        for upserted in (
            made.on_conflict_do_update(
                index_elements=["id"], set_={"id": 1}, where=Top.id == found
            ),
            made.on_conflict_do_update(index_elements=["id"], set_={"id": found}),
        ):
            with pytest.raises(UnconfinedError, match=r"table 'one\.things' in this place"):
                session.execute(upserted)


class Wide(DeclarativeBase):
    """Declarative base of classes that are read with their subclasses' columns."""


class Animal(Wide):
    """Is selected from a join, and written to its own table."""

    __tablename__ = "wide_animals"
    __mapper_args__ = {  # noqa: RUF012
        "polymorphic_on": "sort",
        "polymorphic_identity": "animal",
        "with_polymorphic": "*",
    }

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]
    sort: Mapped[str]
    name: Mapped[str]


class Cat(Animal):
    """Has a table of its own."""

    __tablename__ = "wide_cats"
    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("wide_animals.id"), primary_key=True)


@pytest.mark.parametrize("synchronize", ["auto", "fetch", False])
def test_a_write_to_a_class_with_polymorphic_columns_is_confined(
    owned_engine: Engine, synchronize: Any
) -> None:
    """UPDATE and DELETE of a class whose rows are selected from a join."""
    Wide.metadata.create_all(owned_engine)
    with Session(owned_engine) as plain, plain.begin():
        plain.add_all([Cat(owner=1, name="a"), Animal(owner=1, name="b")])
        plain.add_all([Animal(owner=2, name="c")])
    options = {"synchronize_session": synchronize}
    try:
        with RefSession(owned_engine, owner=Ownership({Animal: "owner"}).of(1)) as session:
            changed = update(Animal).where(Animal.name != "a").values(name="z")
            session.execute(changed, execution_options=options)
            with pytest.raises(UnconfinedError):
                session.execute(update(Animal).values(owner=2), execution_options=options)
            session.execute(
                delete(Animal).where(Animal.sort == "animal"), execution_options=options
            )
            session.commit()
        with Session(owned_engine) as plain:
            found = plain.execute(select(Animal.owner, Animal.name).order_by(Animal.name)).all()
        assert found == [(1, "a"), (2, "c")]
    finally:
        Wide.metadata.drop_all(owned_engine)


class Fleet(DeclarativeBase):
    """Declarative base of a class with a concrete subclass."""


class Vehicle(Fleet):
    """Rows that are open to all."""

    __tablename__ = "fleet_vehicles"

    id: Mapped[int] = mapped_column(primary_key=True)


class Truck(Vehicle):
    """Has rows and owners of its own."""

    __tablename__ = "fleet_trucks"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]
    name: Mapped[str]


@pytest.mark.parametrize(
    "ownership",
    [Ownership({Truck: "owner"}, open=[Vehicle]), Ownership({Truck: "owner", Vehicle: "id"})],
)
def test_rows_of_a_concrete_subclass_are_owned_by_its_own_table(
    owned_engine: Engine, ownership: Ownership
) -> None:
    """Whatever the table of its base is: the owner's are written, and others are refused."""
    Fleet.metadata.create_all(owned_engine)
    with Session(owned_engine) as plain, plain.begin():
        plain.add_all([Truck(id=key, owner=key, name="a") for key in (1, 2)])
    with Session(owned_engine) as plain:
        foreign = plain.get_one(Truck, 2)
    try:
        with RefSession(owned_engine, owner=ownership.of(1)) as session:
            session.scalars(select(Truck)).one().name = "b"
            session.commit()
            session.add(foreign)
            foreign.name = "c"
            with pytest.raises(ForeignRowError):
                session.flush()
        with Session(owned_engine) as plain:
            assert plain.scalars(select(Truck.name).order_by(Truck.id)).all() == ["b", "a"]
    finally:
        Fleet.metadata.drop_all(owned_engine)
