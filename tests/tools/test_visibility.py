"""What read hooks hide comes out nowhere: not in other rows, lists, labels, writes or prompts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import JSON, Engine, ForeignKey
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Hooks, Limits, Reading, Ref, Toolset
from alfred_refs.tools.arguments import FilterClause
from tests.tools.conftest import by

SECRET = "the secret"  # noqa: S105


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Book(Base):
    """Has notes, and one of them on its cover."""

    __tablename__ = "books"
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    tags: Mapped[Any] = mapped_column(JSON, nullable=True, deferred=True)
    cover_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("notes.id", name="cover", use_alter=True)
    )
    notes: Mapped[list[Note]] = relationship(
        order_by="Note.position", foreign_keys="Note.book_id", cascade="all, delete-orphan"
    )
    cover: Mapped[Note | None] = relationship(foreign_keys=[cover_id], post_update=True)


class Note(Base):
    """A note, of two tables if it is a task."""

    __tablename__ = "notes"
    __ref_label__ = "text"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "note"}  # noqa: RUF012

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    book_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("books.id"))
    position: Mapped[int]
    kind: Mapped[str] = mapped_column(default="note")
    text: Mapped[str]


class Task(Note):
    """A note with an hour."""

    __tablename__ = "tasks"
    __mapper_args__ = {"polymorphic_identity": "task"}  # noqa: RUF012

    id: Mapped[uuid.UUID] = mapped_column(ForeignKey("notes.id"), primary_key=True)
    hour: Mapped[int] = mapped_column(default=8)


class Conditions(Hooks):
    """Hides by a condition."""

    def before_read(self, read: Reading) -> None:
        """Add it."""
        read.conditions.append(read.model.text != SECRET)


class ByRef(Hooks):
    """Hides the row of a ref."""

    def before_read(self, read: Reading) -> None:
        """Add a condition with a ref."""
        read.conditions.append(read.model.id != "note_2")


class Filters(Hooks):
    """Hides by a filter."""

    def before_read(self, read: Reading) -> None:
        """Replace the arguments."""
        only = FilterClause(field="text", op="!=", value=SECRET)
        filters = [*read.arguments.filters, only]
        read.arguments = read.arguments.model_copy(update={"filters": filters})


class Keys(Hooks):
    """Allows only the rows that it names."""

    def before_read(self, read: Reading) -> None:
        """Name one."""
        read.keys = ["note_1"]


class Empty(Hooks):
    """Answers nothing."""

    def before_read(self, read: Reading) -> None:
        """Answer without rows."""
        read.answer_empty("notes are closed")


class Masks(Hooks):
    """Puts stars in the place of the secret."""

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Put them there."""
        for row in rows:
            if row.get("text") == SECRET:
                row["text"] = "***"


class Removes(Hooks):
    """Removes the rows from answers."""

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Remove them."""
        rows[:] = [row for row in rows if row.get("text") != SECRET]


def cover_of(session: RefSession, book: Ref[Book]) -> Note:
    """Return the note on a book's cover."""
    return session.get_one(Note, session.get_one(Book, book).cover_id)


HIDING = [Conditions, ByRef, Filters, Keys]
CHANGING = [Masks, Removes]

BY_REF = {"field": "id", "op": "=", "value": "note_2"}
IN_NOTES = {"field": "notes.text", "op": "=", "value": SECRET}
LISTED = {"table": "books", "row": "book_1", "list": "notes"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "rows": ("db_read", {"table": "notes"}),
    "by ref": ("db_read", {"table": "notes", "filters": [BY_REF]}),
    "subclass": ("db_read", {"table": "tasks"}),
    "list": ("db_read", {"table": "books", "columns": ["title", "notes"]}),
    "one": ("db_read", {"table": "books", "columns": ["title", "cover"]}),
    "label": ("db_read", {"table": "books"}),
    "preview": ("db_edit_list", {**LISTED, "preview": True}),
    "edit": (
        "db_edit_list",
        {**LISTED, "edits": [{"action": "move", "path": [1], "to": 2}], "expect": "A"},
    ),
    "update": ("db_update", {"table": "notes", "filters": [BY_REF], "data": {"position": 7}}),
    "update of a list's row": (
        "db_update",
        {"table": "books", "filters": by("id", "book_1"), "data": {"title": "B"}},
    ),
    "unexpected": (
        "db_update",
        {"table": "notes", "filters": [BY_REF], "data": {"position": 7}, "expect": {"text": "x"}},
    ),
    "unexpected label": (
        "db_update",
        {"table": "notes", "filters": [BY_REF], "data": {"position": 7}, "expect": "x"},
    ),
    "create": ("db_create", {"table": "books", "data": {"title": "C", "cover_id": "note_2"}}),
    "sql": ("db_query", {"sql": "select * from notes"}),
    "sql label": ("db_query", {"sql": "select cover_id from books"}),
    "function": ("cover_of", {"book": "book_1"}),
}


MASKED = {
    *("rows", "by ref", "subclass", "list", "one", "label", "preview", "edit"),
    *("update", "update of a list's row", "create", "prompt", "function"),
}


@pytest.fixture
def world(tables: Engine) -> Iterator[RefSession]:
    """A session whose conversation knows a book and two notes, one a secret task."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        book = Book(title="A")
        book.notes = [Note(position=1, text="plain"), Task(position=2, text=SECRET)]
        book.cover = book.notes[1]
        plain.add(book)
        plain.commit()
        keys = [each.id for each in book.notes]
        own = book.id
    chat = RefRegistry(tables).conversation("c")
    chat.refer_all(Note, keys)
    chat.refer(Book, own)
    with RefSession(tables, conversation=chat, by="model") as session:
        yield session
    Base.metadata.drop_all(tables)


def tools(hooks: type[Hooks], of: type[Any] = Note, **options: Any) -> Toolset:
    """Return a toolset of all classes with a hook of one of them."""
    toolset = Toolset([Book, Note, Task], hooks={of: [hooks()]}, expect="optional", **options)
    toolset.tool(cover_of)
    return toolset


@pytest.mark.parametrize("of", [Note, Task])
@pytest.mark.parametrize("hooks", [*HIDING, Empty, *CHANGING])
def test_what_a_hook_hides_comes_out_nowhere(
    world: RefSession, tables: Engine, hooks: type[Hooks], of: type[Any]
) -> None:
    """Whatever the tool, and whether the hook is of the class, a base class or a subclass."""
    toolset = tools(hooks, of)
    answers = {way: json.dumps(toolset.call(world, *asked)) for way, asked in WAYS.items()}
    sessions = sessionmaker(tables, class_=RefSession)
    assert world.conversation is not None
    context = Context(world.conversation, toolset=toolset, sessions=sessions)
    answers["prompt"] = context.render("act")

    assert [way for way, answer in answers.items() if SECRET in answer] == []
    assert {way for way, answer in answers.items() if "***" in answer} == (
        MASKED if hooks is Masks else set()
    )


@pytest.mark.parametrize("hooks", HIDING)
def test_other_rows_are_shown_and_counted_without_it(
    world: RefSession, hooks: type[Hooks]
) -> None:
    """A list has the rows left, one that a row no more names is none, and paths find no row."""
    toolset = tools(hooks, limits=Limits(rows=1))
    columns = ["notes.text", "cover.text"]
    [row] = toolset.call(world, "db_read", {"table": "books", "columns": columns})["rows"]
    asked = {"table": "books", "columns": ["count(*)"], "filters": [IN_NOTES]}

    assert ([each["text"] for each in row.get("notes", ())], row["cover"]) == (["plain"], None)
    assert toolset.call(world, "db_read", asked)["totals"] == [{"count(*)": 0}]


@pytest.mark.parametrize(
    ("hooks", "of"), [*((each, Note) for each in HIDING), (Conditions, Task), (ByRef, Task)]
)
def test_a_row_that_is_hidden_is_not_written(
    world: RefSession, tables: Engine, hooks: type[Hooks], of: type[Any]
) -> None:
    """Neither by its ref, nor by criteria, nor as an item of a list."""
    toolset = tools(hooks, of)
    both = {"field": "id", "op": "in", "value": ["note_1", "note_2"]}
    asked = {"table": "notes", "filters": [both], "data": {"position": 9}}
    by_ref = toolset.call(world, *WAYS["update"])
    listed = toolset.call(world, *WAYS["edit"])
    gone = toolset.call(world, "db_delete", {"table": "notes", "filters": [BY_REF]})

    assert (by_ref["count"], gone["count"], listed["error"]["code"]) == (0, 0, "hidden_items")
    assert toolset.call(world, "db_update", asked)["count"] == 1
    with Session(tables) as plain:
        assert [each.position for each in plain.query(Note).order_by(Note.text)] == [9, 2]


def test_a_hook_is_asked_once_a_call(world: RefSession) -> None:
    """With what the call has not asked for, and its notes are in the answer."""
    asked: list[tuple[bool, str]] = []

    class Counting(Conditions):
        def before_read(self, read: Reading) -> None:
            super().before_read(read)
            asked.append((read.nested, read.arguments.table))
            read.notes.append("without secrets")

    columns = ["notes.text", "cover.text", "cover_id"]
    answer = tools(Counting).call(world, "db_read", {"table": "books", "columns": columns})

    assert (asked, answer["notes"]) == ([(True, "notes")], ["without secrets"])


def test_conditions_of_hooks_are_in_the_statement_that_reads(
    world: RefSession, sent: list[str]
) -> None:
    """A hook of a table adds no statement to reads of others."""
    counts = set()
    for toolset in (Toolset([Book, Note, Task]), tools(Conditions)):
        sent.clear()
        toolset.call(world, "db_read", {"table": "books", "columns": ["notes.text"]})
        counts.add(len(sent))

    assert len(counts) == 1


def test_a_label_that_a_function_makes_is_shown_if_the_hook_leaves_the_row(
    world: RefSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the function read cannot be known."""
    monkeypatch.setattr(Note, "__ref_label__", lambda note: f"<{note.text}>", raising=False)
    shown = []
    for hooks in (Masks, Hooks):
        answer = tools(hooks).call(world, "db_read", {"table": "books"})
        shown.append(answer["rows"][0].get("_cover_id_label"))

    assert shown == [None, f"<{SECRET}>"]


def test_outer_hooks_see_rows_inside_as_the_inner_hooks_leave_them(world: RefSession) -> None:
    """So a hook that copies what is inside of its rows copies no more than is shown."""

    class Copies(Hooks):
        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            for row in rows:
                row["first"] = [each["text"] for each in row.get("notes", ())]

    toolset = Toolset([Book, Note, Task], hooks={Book: [Copies()], Note: [Masks()]})
    [row] = toolset.call(world, "db_read", {"table": "books", "columns": ["notes"]})["rows"]

    assert row["first"] == ["plain", "***"]


def test_a_list_in_a_document_is_closed_if_a_hook_may_hide_values(
    tables: Engine, world: RefSession
) -> None:
    """The answer has the document's items, and no row that a hook could look at."""

    class Hides(Hooks):
        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            for row in rows:
                row.pop("tags", None)

    with Session(tables) as plain:
        plain.query(Book).update({"tags": [SECRET]})
        plain.commit()
    asked = {"table": "books", "row": "book_1", "list": "tags", "preview": True}
    error = tools(Hides, Book).call(world, "db_edit_list", asked)["error"]

    assert (error["code"], SECRET in json.dumps(error)) == ("hidden_items", False)
    assert tools(Conditions).call(world, "db_edit_list", asked)["items"] == {"1": SECRET}
