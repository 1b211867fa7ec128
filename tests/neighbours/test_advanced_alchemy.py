"""advanced-alchemy: its repositories and services, on sessions with refs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
from advanced_alchemy.base import UUIDAuditBase, UUIDBase
from advanced_alchemy.exceptions import RepositoryError
from advanced_alchemy.filters import CollectionFilter, LimitOffset, NotInCollectionFilter, OrderBy
from advanced_alchemy.repository import SQLAlchemyAsyncRepository, SQLAlchemySyncRepository
from advanced_alchemy.service import (
    SQLAlchemyAsyncRepositoryService,
    SQLAlchemySyncRepositoryService,
)
from pydantic import BaseModel
from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship

from alfred_refs import AsyncRefSession, BadRefError, RefRegistry, RefSession


class Author(UUIDAuditBase):
    """Has a key that Python makes, and the times of its changes."""

    __tablename__ = "authors"

    name: Mapped[str]
    books: Mapped[list[Book]] = relationship(back_populates="author", lazy="selectin")


class Book(UUIDBase):
    """Belongs to an author."""

    __tablename__ = "books"

    title: Mapped[str]
    author_id: Mapped[Any] = mapped_column(ForeignKey("authors.id"))
    author: Mapped[Author] = relationship(back_populates="books")


class PublicAuthor(BaseModel):
    """What an application shows of an author."""

    id: str
    name: str


class Authors(SQLAlchemySyncRepository[Author]):
    """The authors."""

    model_type = Author


class Books(SQLAlchemySyncRepository[Book]):
    """The books."""

    model_type = Book


class AuthorService(SQLAlchemySyncRepositoryService[Author, Authors]):
    """A service for the authors."""

    repository_type = Authors


class AsyncAuthors(SQLAlchemyAsyncRepository[Author]):
    """The authors, awaited."""

    model_type = Author


class AsyncAuthorService(SQLAlchemyAsyncRepositoryService[Author, AsyncAuthors]):
    """A service for the authors, awaited."""

    repository_type = AsyncAuthors


@pytest.fixture
def registry(engine: Engine) -> RefRegistry:
    """A registry in a database with four authors, A to D."""
    UUIDBase.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Author(name=name) for name in "ABCD"])
        plain.commit()
    registry = RefRegistry(engine)
    registry.create_tables()
    return registry


@pytest.fixture
def session(engine: Engine, registry: RefRegistry) -> Iterator[RefSession]:
    """A session that has shown the authors as `author_1` to `author_4`."""
    with RefSession(engine, conversation="chat-7", registry=registry) as session:
        authors = session.scalars(select(Author).order_by(Author.name))
        assert refs(authors) == ["author_1", "author_2", "author_3", "author_4"]
        yield session


@pytest.fixture
async def aio(engine: Engine, session: RefSession) -> AsyncIterator[AsyncRefSession]:
    """An asynchronous session in the same conversation."""
    session.commit()
    async_engine = create_async_engine(engine.url)
    conversation = RefRegistry(async_engine).conversation("chat-7")
    async with AsyncRefSession(async_engine, conversation=conversation) as aio:
        yield aio
    await async_engine.dispose()


def refs(rows: Iterable[Author | Book]) -> list[object]:
    """What the rows show for their keys: text, whatever the static type says."""
    return [row.id for row in rows]


def test_a_repository_reads_by_refs(session: RefSession) -> None:
    """One row by its ref, many by a filter, and counts."""
    authors = Authors(session=session)

    assert authors.get("author_3").name == "C"
    assert authors.get_one(id="author_2").name == "B"
    assert authors.exists(id="author_1")
    assert authors.count(CollectionFilter("id", ["author_1", "author_4"])) == 2
    chosen = authors.get_many(CollectionFilter("id", ["author_1", "author_4"]), OrderBy("name"))
    others = authors.get_many(
        NotInCollectionFilter("id", ["author_1", "author_4"]), OrderBy("name")
    )
    assert [author.name for author in [*chosen, *others]] == ["A", "D", "B", "C"]


@pytest.mark.parametrize("window", [True, False])
def test_a_repository_lists_and_counts(window: bool, session: RefSession) -> None:
    """A page shows refs, whether the count comes with it or by itself."""
    page, count = Authors(session=session).get_many_and_count(
        LimitOffset(2, 0), OrderBy("name"), count_with_window_function=window
    )

    assert refs(page) == ["author_1", "author_2"]
    assert count == 4


def test_a_repository_writes_by_refs(session: RefSession) -> None:
    """What is added, updated and deleted is what the refs name."""
    books = Books(session=session)
    added = books.add_many([Book(title="T", author_id="author_1")])
    assert [*refs(added), added[0].author_id] == ["book_1", "author_1"]

    changed = books.update(Book(id="book_1", author_id="author_2", title="V"))
    assert [*refs([changed]), changed.author_id, changed.author.name] == [
        "book_1",
        "author_2",
        "B",
    ]
    assert books.upsert(Book(id="book_1", author_id="author_3", title="W")) is changed
    assert [book.author_id for book in books.delete_where(Book.author_id == "author_3")] == [
        "author_3"
    ]
    session.commit()
    assert books.get_many() == []


def test_rows_are_upserted_and_deleted_by_ref(session: RefSession) -> None:
    """An author that is there is changed; deleting takes refs."""
    authors = Authors(session=session)

    assert authors.upsert(Author(id="author_1", name="A2")).id == "author_1"
    changed = authors.update_many([Author(id="author_2", name="B2")])
    assert [*refs(changed), changed[0].name] == ["author_2", "B2"]
    matched = authors.upsert_many([Author(name="C")], match_fields=["name"])
    assert refs(matched) == ["author_3"]
    assert authors.delete("author_4").name == "D"
    assert refs(authors.delete_many(["author_3"])) == ["author_3"]
    session.commit()
    assert [author.name for author in authors.get_many(OrderBy("name"))] == ["A2", "B2"]


def test_a_service_takes_and_shows_refs(session: RefSession) -> None:
    """Payloads of dicts go in, schemas come out."""
    service = AuthorService(session=session)

    assert service.update({"name": "B2"}, item_id="author_2").id == "author_2"
    assert service.upsert({"name": "C2"}, item_id="author_3").id == "author_3"
    shown = service.to_schema(
        *service.get_many_and_count(OrderBy("name")), schema_type=PublicAuthor
    )
    assert [author.model_dump() for author in shown.items] == [
        {"id": "author_1", "name": "A"},
        {"id": "author_2", "name": "B2"},
        {"id": "author_3", "name": "C2"},
        {"id": "author_4", "name": "D"},
    ]
    assert service.get("author_1").to_dict()["id"] == "author_1"


@pytest.mark.parametrize(
    "use",
    [
        lambda session: Authors(session=session).get("author_9"),
        lambda session: Authors(session=session).get_many(
            CollectionFilter("id", ["author_1", "author_9"])
        ),
        lambda session: Authors(session=session).delete("author_9"),
        lambda session: Books(session=session).add(Book(title="T", author_id="author_9")),
    ],
)
def test_a_bad_ref_is_the_cause_of_the_repositorys_error(
    use: Callable[[RefSession], object], session: RefSession
) -> None:
    """advanced-alchemy wraps what a session raises; the message for the model is its cause."""
    with pytest.raises(RepositoryError) as caught:
        use(session)

    assert isinstance(caught.value.__cause__, BadRefError)
    assert caught.value.__cause__.ref == "author_9"


async def test_the_asynchronous_repository_and_service_do_the_same(aio: AsyncRefSession) -> None:
    """Reading, writing and schemas, awaited."""
    authors, service = AsyncAuthors(session=aio), AsyncAuthorService(session=aio)

    assert (await authors.get("author_3")).name == "C"
    found = await authors.get_many(
        CollectionFilter("id", ["author_1", "author_4"]), OrderBy("name")
    )
    assert refs(found) == ["author_1", "author_4"]
    assert (await authors.add(Author(name="E"))).id == "author_5"
    assert (await service.update({"name": "B2"}, item_id="author_2")).id == "author_2"
    assert (await authors.delete("author_5")).name == "E"
    items, count = await service.get_many_and_count(OrderBy("name"))
    shown = service.to_schema(items, count, schema_type=PublicAuthor)
    assert [author.id for author in shown.items] == [f"author_{n}" for n in range(1, 5)]
