"""Related rows inside of rows: the same that SQLAlchemy loads, and no more than may be shown."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    String,
    Table,
    TypeDecorator,
    Uuid,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    attribute_keyed_dict,
    mapped_column,
    relationship,
    selectinload,
    with_loader_criteria,
)
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import Conversation, Ownership, RefRegistry, RefSession
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from tests import owned
from tests.fix_owned import World
from tests.models import Key
from tests.tools.conftest import MODELS, by
from tests.tools.models import Dish, Part


class Base(DeclarativeBase):
    """Declarative base of these tests."""


tagged = Table(
    "tagged",
    Base.metadata,
    Column("book_id", ForeignKey("books.id")),
    Column("tag", ForeignKey("tags.tag")),
    Column("rank", String),
)

follows = Table(
    "follows",
    Base.metadata,
    Column("one", ForeignKey("books.id")),
    Column("next", ForeignKey("books.id")),
    Column("rank", String),
)


class Person(Base):
    """Is of two tables, if it writes."""

    __tablename__ = "persons"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]


class Author(Person):
    """Has books."""

    __tablename__ = "authors"
    __mapper_args__ = {"polymorphic_identity": "author"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(ForeignKey("persons.id"), primary_key=True)

    books: Mapped[list[Book]] = relationship(
        order_by="desc(Book.name)", back_populates="author", foreign_keys="Book.author_id"
    )
    readers: Mapped[list[Person]] = relationship(
        secondary="books", viewonly=True, primaryjoin="Author.id == Book.author_id",
        secondaryjoin="Book.reader_id == Person.id",
    )  # fmt: skip


class Book(Base):
    """Is related in all ways."""

    __tablename__ = "books"

    id: Mapped[Key]
    name: Mapped[str]
    author_id: Mapped[Any] = mapped_column(ForeignKey("authors.id"), nullable=True)
    reader_id: Mapped[Any] = mapped_column(ForeignKey("persons.id"), nullable=True)
    after_id: Mapped[Any] = mapped_column(ForeignKey("books.id"), nullable=True)

    author: Mapped[Author | None] = relationship(back_populates="books", foreign_keys=[author_id])
    reader: Mapped[Person | None] = relationship(foreign_keys=[reader_id])
    after: Mapped[Book | None] = relationship(remote_side="Book.id", back_populates="before")
    before: Mapped[list[Book]] = relationship(back_populates="after", order_by="Book.name")
    pages: Mapped[list[Page]] = relationship(back_populates="book")
    by_place: Mapped[dict[int, Page]] = relationship(
        collection_class=attribute_keyed_dict("place"), order_by="Page.name", viewonly=True
    )
    as_set: Mapped[set[Page]] = relationship(viewonly=True)
    odd: Mapped[list[Page]] = relationship(
        viewonly=True, primaryjoin="and_(Book.id == Page.book_id, Page.place % 2 == 1)",
        order_by="[Page.title.desc(), Page.place]",
    )  # fmt: skip
    cover: Mapped[Cover | None] = relationship()
    tags: Mapped[list[Tag]] = relationship(secondary=tagged, order_by=tagged.c.rank)
    next: Mapped[list[Book]] = relationship(
        secondary=follows, primaryjoin=lambda: Book.id == follows.c.one,
        secondaryjoin=lambda: Book.id == follows.c.next,
        order_by=lambda: [follows.c.rank.desc(), Book.name],
    )  # fmt: skip


class Page(Base):
    """Has a key of two columns."""

    __tablename__ = "pages"

    book_id: Mapped[Any] = mapped_column(ForeignKey("books.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    title: Mapped[str | None]

    book: Mapped[Book] = relationship(back_populates="pages")
    notes: Mapped[list[Memo]] = relationship(order_by="Memo.name")


class Memo(Base):
    """Refers to two columns."""

    __tablename__ = "notes"
    __table_args__ = (
        ForeignKeyConstraint(["book_id", "place"], ["pages.book_id", "pages.place"]),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    book_id: Mapped[Any] = mapped_column(Uuid)
    place: Mapped[int]
    name: Mapped[str]


class Cover(Base):
    """Is one for each book."""

    __tablename__ = "covers"

    book_id: Mapped[Any] = mapped_column(ForeignKey("books.id"), primary_key=True)
    name: Mapped[str]


class Tag(Base):
    """Has a key of text, in an order of its own."""

    __tablename__ = "tags"

    tag: Mapped[str] = mapped_column(String(20, collation="C"), primary_key=True)
    name: Mapped[str]

    books: Mapped[list[Book]] = relationship(secondary=tagged, viewonly=True)


numbered = select(
    Page, func.row_number().over(partition_by=Page.book_id, order_by=Page.place.desc()).label("n")
).subquery()
LastPage = aliased(Page, numbered)
Book.last = relationship(
    LastPage,
    primaryjoin=(Book.id == LastPage.book_id) & (numbered.c.n <= 2),
    viewonly=True,
    order_by=LastPage.name.desc(),
)

CLASSES = [Person, Author, Book, Page, Memo, Cover, Tag]
RELATED: dict[Any, list[str]] = {
    class_: [each.key for each in inspect(class_).relationships]
    for class_ in cast(list[type[Any]], [Author, Book, Page, Tag])
}


@pytest.fixture
def library(tables: Engine) -> Engine:
    """Books that are related in all ways, saved by a plain session."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        ann, bob = Author(name="Ann"), Author(name="Bob")
        cid = Person(name="Cid", kind="person")
        books = [Book(name=name, author=ann, reader=cid) for name in "ABCDE"]
        books += [Book(name="F", author=bob, reader=ann), Book(name="G")]
        tags = [Tag(tag=f"{n} Tag", name=f"tag {n}") for n in "bAdc"]
        plain.add_all([ann, bob, cid, *books, *tags])
        plain.flush()
        for n, book in enumerate(books[:4]):
            book.after = books[4 + n % 3]
            for place in range(n + 2):
                title = None if place % 3 else f"t{place % 2}"
                book.pages.append(Page(place=place, name=f"{book.name}{9 - place}", title=title))
            plain.add(Cover(book_id=book.id, name=f"of {book.name}"))
        plain.flush()
        for n, page in enumerate([*books[0].pages, *books[1].pages] * 2):
            page.notes.append(Memo(name=f"note {n * 7 % 5}"))
        for n in range(12):
            book, other, tag = books[n % 4], books[n * 5 % 7], tags[n * n % 4]
            plain.execute(insert(tagged).values(book_id=book.id, tag=tag.tag, rank=f"{n * 7 % 5}"))
            plain.execute(insert(follows).values(one=book.id, next=other.id, rank=f"{n % 3}"))
        plain.commit()
    return tables


def named(related: Any) -> Any:
    """Return the names of what stands in a row, as it stands there."""
    if isinstance(related, list):
        return [each["name"] for each in related]
    return None if related is None else related["name"]


def loaded(engine: Engine, class_: Any, name: str) -> list[Any]:
    """Return the names of what SQLAlchemy loads, for each row in the order of keys.

    Rows without an order of their own are in that of their keys, and each is there once.
    """
    mapper = inspect(class_).mapper
    relation = mapper.relationships[name]

    def key_of(row: Any) -> Any:
        return inspect(row).identity

    found = []
    with Session(engine) as plain:
        for row in plain.scalars(select(class_).order_by(*mapper.primary_key)):
            value = getattr(row, name)
            if not relation.uselist:
                found.append(None if value is None else value.name)
                continue
            rows = list(value.values() if isinstance(value, dict) else value)
            rows = rows if relation.order_by else sorted(rows, key=key_of)
            found.append([each.name for each in dict.fromkeys(rows)])
    return found


@pytest.mark.parametrize("class_", RELATED)
def test_related_rows_are_those_that_sqlalchemy_loads(
    library: Engine, session: RefSession, sent: list[str], class_: Any
) -> None:
    """Of every kind of relationship, in its order, by one statement; else in that of keys."""
    toolset, shown = Toolset(CLASSES), {}
    key = inspect(class_).mapper.primary_key[0].key
    for name in RELATED[class_]:
        asked = {"table": class_.__table__.name, "columns": [key, f"{name}.name"]}
        answer = toolset.call(session, "db_read", asked)
        sent.clear()
        answer = toolset.call(session, "db_read", asked)
        assert len(of_tables(sent)) == 2
        assert "cut" not in answer
        shown[name] = [named(row[name]) for row in answer["rows"]]

    assert shown == {name: loaded(library, class_, name) for name in RELATED[class_]}


def of_tables(sent: list[str]) -> list[str]:
    """Return the statements that read tables, without the one that limits the time."""
    return [each for each in sent if each.startswith("SELECT") and "_timeout" not in each]


@pytest.mark.slow
@pytest.mark.parametrize("class_", RELATED)
@pytest.mark.parametrize("most", [1, 2])
def test_the_first_are_shown_and_the_others_counted(
    library: Engine, session: RefSession, class_: Any, most: int
) -> None:
    """Of every kind of relationship: as many as may be in a row, and it is said how many more."""
    toolset = Toolset(CLASSES, limits=Limits(rows=most))
    for name in RELATED[class_]:
        asked: dict[str, Any] = {"table": class_.__table__.name, "columns": [name]}
        rows, cut, cursor = list[Any](), list[str](), None
        while cursor is not None or not rows:
            answer = toolset.call(session, "db_read", {**asked, "cursor": cursor})
            rows += [named(row[name]) for row in answer["rows"]]
            cut += answer.get("cut", [])
            cursor = answer.get("cursor")
        whole = loaded(library, class_, name)

        assert rows == [each[:most] if isinstance(each, list) else each for each in whole]
        more = [len(each) - most for each in whole if isinstance(each, list) and len(each) > most]
        assert [each.partition(": ")[2] for each in cut] == [f"{n} more rows" for n in more]


class Doubled(TypeDecorator[int]):
    """Has other values in the database."""

    impl = Integer
    cache_ok = True
    python_type = int

    def process_bind_param(self, value: int | None, _: object) -> int | None:
        """Double it."""
        return None if value is None else 2 * value

    def process_result_value(self, value: int | None, _: object) -> int | None:
        """Take the half."""
        return None if value is None else value // 2


KEYS: list[tuple[Any, list[Any]]] = [
    (Uuid(as_uuid=False), [str(uuid.UUID(int=n)) for n in range(3)]),
    (Uuid(), [uuid.UUID(int=n) for n in range(3)]),
    (String(3), ["a", "B", "'c"]),
    (String(3, collation="C"), ["a", "B", "{c"]),
    (BigInteger(), [1, 2**40, -3]),
    (Enum("a", "b", "c", native_enum=False), ["b", "c", "a"]),
    (Enum("x", "y", "z", name="letters"), ["x", "z", "y"]),
    (Doubled(), [1, 2, 3]),
]


@pytest.fixture(params=KEYS, ids=lambda each: repr(each[0]))
def parents(tables: Engine, request: pytest.FixtureRequest) -> list[type[Any]]:
    """A class whose keys are of some type, and one that refers to it, with rows of both."""

    class Own(DeclarativeBase):
        pass

    type_, keys = request.param

    class Parent(Own):
        __tablename__ = "parents"
        id = mapped_column(type_, primary_key=True)
        name = mapped_column(String)
        children: Mapped[list[Any]] = relationship(lambda: Child, order_by=lambda: Child.id)

    class Child(Own):
        __tablename__ = "children"
        id: Mapped[int] = mapped_column(primary_key=True)
        parent_id = mapped_column(ForeignKey("parents.id"))
        parent: Mapped[Any] = relationship(Parent, viewonly=True)

    Own.metadata.create_all(tables)
    with Session(tables) as plain:
        plain.add_all(
            Parent(id=key, name=f"{n}", children=[Child(id=10 * n + m) for m in range(n)])
            for n, key in enumerate(keys)
        )
        plain.commit()
    return [Parent, Child]


ASKED = {"table": "parents", "columns": ["name", "children.parent.name"], "order_by": "name"}


def names_inside(answer: dict[str, Any]) -> list[list[str]]:
    """Return the names of the parents of the children in each row."""
    return [[each["parent"]["name"] for each in row["children"]] for row in answer["rows"]]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_keys_are_of_any_type(
    driver: str, tables: Engine, parents: list[type[Any]], conversation: Conversation
) -> None:
    """As the database has them, those of text too."""
    engine = create_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    with RefSession(engine, conversation=conversation) as session:
        answer = Toolset(parents).call(session, "db_read", ASKED)
    engine.dispose()

    assert names_inside(answer) == [[], ["1"], ["2", "2"]]


async def test_keys_are_of_any_type_with_asyncpg(
    aio: AsyncRefSession, parents: list[type[Any]]
) -> None:
    """Whose arrays are not told apart by what is in them."""
    answer = await Toolset(parents).call_async(aio, "db_read", ASKED)

    assert names_inside(answer) == [[], ["1"], ["2", "2"]]


@contextmanager
def instances_made(class_: type[Any]) -> Iterator[list[Any]]:
    """Collect the instances of a class that are loaded."""
    made: list[Any] = []

    def note(target: Any, _: Any) -> None:
        made.append(target)

    event.listen(class_, "load", note)
    yield made
    event.remove(class_, "load", note)


@pytest.fixture
def crowd(tables: Engine) -> Engine:
    """Ten dishes of 300 parts each, saved by a plain session."""
    with Session(tables) as plain:
        dishes = [Dish(code=f"c{n}", name=f"dish {n}") for n in range(10)]
        plain.add_all(dishes)
        plain.flush()
        rows = [
            {"dish_id": d.id, "position": n, "note": f"{n}"} for d in dishes for n in range(300)
        ]
        plain.execute(insert(Part), rows)
        plain.commit()
    return tables


@pytest.mark.slow
@pytest.mark.usefixtures("crowd")
def test_no_more_is_loaded_than_is_shown(session: RefSession) -> None:
    """In each row, and in all of them: the first rows have theirs, and the others are counted."""
    toolset = Toolset(MODELS, limits=Limits(related=250))
    with instances_made(Part) as made:
        answer = toolset.call(session, "db_read", {"table": "dishes", "columns": ["parts"]})

    shown = [len(row["parts"]) for row in answer["rows"]]
    assert shown == [100, 100, 50, *[0] * 7]
    assert len(made) == 250
    rest = ["200", "200", "250", *["300"] * 7]
    assert answer["cut"] == [f"dish_{n}.parts: {m} more rows" for n, m in enumerate(rest, 1)]
    assert [part["note"] for part in answer["rows"][0]["parts"]] == [f"{n}" for n in range(100)]


@pytest.mark.usefixtures("crowd")
def test_each_level_loads_no_more_than_is_shown(session: RefSession) -> None:
    """Through two tables in turn, whose rows come back again and again: one statement a level."""
    toolset = Toolset(MODELS, limits=Limits(related=120))
    asked = {"table": "dishes", "columns": ["parts.dish.parts.dish"], "limit": 3}
    with instances_made(Part) as made:
        answer = toolset.call(session, "db_read", asked)

    assert len(made) <= 120
    [first, *_] = answer["rows"]
    [part] = first["parts"]
    assert len(part["dish"]["parts"]) == 59  # and as many dishes
    assert answer["cut"] == [
        "dish_1.parts[1].dish.parts: 241 more rows",
        "dish_1.parts: 299 more rows",
        "dish_2.parts: 300 more rows",
        "dish_3.parts: 300 more rows",
    ]


@pytest.mark.usefixtures("dishes")
def test_rows_shown_twice_are_not_read_column_by_column(
    session: RefSession, sent: list[str]
) -> None:
    """With other columns in each place: each is loaded with the row there, and stays."""
    asked = {"table": "dishes", "columns": ["name", "parent.servings", "parent.parent.code"]}
    Toolset(MODELS).call(session, "db_read", asked)
    sent.clear()
    answer = Toolset(MODELS).call(session, "db_read", asked)

    parents = [row["parent"] for row in answer["rows"] if row["name"] == "Curry"]
    assert [parent["servings"] for parent in parents] == [4]
    assert len(of_tables(sent)) == 3


def test_instances_of_the_session_are_not_touched(
    session: RefSession, dishes: dict[str, Any], tables: Engine
) -> None:
    """A collection that the program has is its own, and whole, when it is asked for."""
    korma = session.scalars(select(Dish).where(Dish.name == "Korma")).one()
    assert len(korma.parts) == 2
    session.rollback()
    toolset = Toolset(MODELS, limits=Limits(rows=1))
    asked = {"table": "dishes", "columns": ["parts"], "filters": by("name", "Korma")}

    answer = toolset.call(session, "db_read", asked)
    assert answer["cut"] == ["dish_1.parts: 1 more rows"]
    assert len(korma.parts) == 2
    session.commit()
    with Session(tables) as plain:
        assert len(plain.get_one(Dish, dishes["Korma"]).parts) == 2


# What the application adds


class Loading(Hooks):
    """Gives options to a read, and shows parts."""

    def __init__(self, *options: ExecutableOption) -> None:
        self.options = options

    def before_read(self, read: Reading) -> None:
        """Give them."""
        read.options.extend(self.options)
        read.include.append("parts")


@pytest.mark.parametrize(
    "option",
    [
        lambda: with_loader_criteria(Part, Part.note != "rice"),
        lambda: selectinload(Dish.parts.and_(Part.note != "rice")),
    ],
    ids=["everywhere", "path"],
)
@pytest.mark.usefixtures("dishes")
def test_related_rows_are_those_that_options_of_a_hook_leave(
    session: RefSession, option: Callable[[], ExecutableOption]
) -> None:
    """Those of a relationship, and those that hold wherever a class is read."""
    toolset = Toolset(MODELS, hooks={Dish: [Loading(option())]})
    korma = by("name", "Korma")
    answer = toolset.call(session, "db_read", {"table": "dishes", "filters": korma})

    [row] = answer["rows"]
    assert [part["note"] for part in row["parts"]] == ["sauce"]
    assert "cut" not in answer


def test_related_rows_are_those_of_the_owner(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """Nor is it told how many another has."""
    with Session(owned_engine) as plain:
        of_ann = plain.get_one(owned.Recipe, world.recipes["ann"])
        of_ann.links = list(plain.scalars(select(owned.Recipe)))
        plain.commit()
    registry = RefRegistry(store=MemoryStore())
    conversation = registry.conversation("chat-7", owner=world.users["ann"])
    toolset = Toolset([owned.Recipe], owner=ownership, limits=Limits(rows=1))
    owner = ownership.of(world.users["ann"])
    asked = {"table": "recipes", "columns": ["name", "links.name"], "filters": by("name", "ann")}
    with RefSession(owned_engine, conversation=conversation, owner=owner) as session:
        answer = toolset.call(session, "db_read", asked)

    [row] = answer["rows"]
    assert {each["name"] for each in row["links"]} < {"ann", "all"}
    assert answer["cut"] == ["recipe_1.links: 1 more rows"]
