"""Half of a surrogate pair has no UTF-8 form: answers have an escape for it, arguments none.

PostgreSQL keeps it as an escape in `json`, and in no other type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import JSON, Engine, create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.mapping import escape_surrogates
from alfred_refs.tools import BoundToolset, Hooks, Toolset, Writing
from alfred_refs.tools.serialization import is_plain
from tests.tools.conftest import by, save

LONE = "\ud800"


class Base(DeclarativeBase):
    """Declarative base of the posts."""


class Post(Base):
    """Has a document of type `json`."""

    __tablename__ = "surrogate_posts"
    __ref_label__ = "title"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    document: Mapped[Any] = mapped_column(JSON)


STORED = {"half": f"é{LONE}<post_1>", "more": ["x" * 40 + LONE, {LONE: 1}]}
SHOWN = {"half": "é\\ud800<\\post_1>", "more": ["x" * 40 + "\\ud800", {"\\ud800": 1}]}


class Notes(Hooks):
    """Adds a note with half of a pair."""

    def after_write(self, writing: Writing, rows: list[dict[str, Any]]) -> None:
        """Add it to the answer and to a row."""
        writing.notes.append(f"written {LONE}")
        rows[0]["extra"] = LONE


@pytest.fixture
def posts(database_url: str) -> Iterator[Engine]:
    """A database with one post, and half of a pair in its document."""
    engine = create_engine(database_url)
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    save(engine, Post(id=1, title="One", document=STORED))
    yield engine
    engine.dispose()


@pytest.fixture
def desk(posts: Engine) -> BoundToolset:
    """The toolset of the posts, with a tool of the application."""
    toolset = Toolset([Post], hooks={Post: [Notes()]}, sql=True)

    @toolset.tool
    def echo(word: str) -> dict[str, str]:
        """Return a word with half of a pair."""
        return {word: LONE}

    sessions = sessionmaker(posts, class_=RefSession)
    return toolset.bind(sessions, registry=RefRegistry(posts))


def answer_of(desk: BoundToolset, tool: str, arguments: Any) -> Any:
    """Return an answer as a client receives it."""
    answer = desk.call("chat-7", None, tool, arguments)
    assert json.loads(answer.text.encode()) == answer.value
    return answer.value


ASKED = {"table": "surrogate_posts", "filters": by("id", "post_1")}


def test_documents_are_shown_with_escapes(desk: BoundToolset) -> None:
    """In texts, short or long, and in names; prompts and previews of lists too."""
    assert answer_of(desk, "db_read", {"table": "surrogate_posts"})["rows"][0]["document"] == SHOWN

    prompt = Context(desk.conversation("chat-7", None)).render("act")
    assert "\\\\ud800" in prompt
    assert escape_surrogates(prompt) == prompt


def test_what_was_shown_is_kept_where_it_is_written_back(
    desk: BoundToolset, posts: Engine
) -> None:
    """The half of the pair stays, as `expect` says; what was not there is a text."""
    answer_of(desk, "db_read", {"table": "surrogate_posts"})
    document = {"half": SHOWN["half"], "new": "\\ud801"}
    changed = {**ASKED, "data": {"document": document}, "expect": {"document": SHOWN}}
    answer = answer_of(desk, "db_update", changed)

    assert answer["rows"][0]["document"] == document
    assert (answer["rows"][0]["extra"], answer["notes"]) == ("\\ud800", ["written \\ud800"])
    with Session(posts) as plain:
        stored = plain.scalar(text("select document::text from surrogate_posts"))
    assert json.loads(stored or "") == {"half": STORED["half"], "new": "\\ud801"}


def test_tools_of_the_application_are_escaped_too(desk: BoundToolset) -> None:
    """Whatever they return."""
    assert answer_of(desk, "echo", {"word": "é"}) == {"é": "\\ud800"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("db_read", {"table": LONE}),
        ("db_read", {"table": "surrogate_posts", LONE: 1}),
        ("db_read", {**ASKED, "filters": by("title", LONE)}),
        ("db_create", {"table": "surrogate_posts", "data": {"title": LONE, "document": {}}}),
        ("db_create", '{"table": "surrogate_posts", "data": {"title": "\\ud800"}, "draft": true}'),
        ("db_update", {**ASKED, "data": {"document": {"x": [LONE]}}, "expect": "One"}),
        ("db_update", {**ASKED, "data": {"title": "x"}, "expect": LONE}),
        ("db_query", {"sql": f"select '{LONE}' as x"}),
        ("echo", {"word": LONE}),
    ],
)
def test_halves_of_pairs_from_a_model_are_refused(
    desk: BoundToolset, tool: str, arguments: Any
) -> None:
    """PostgreSQL cannot store them as text; the refusal says what is wrong."""
    error = answer_of(desk, tool, arguments)["error"]

    assert error["code"] == "invalid_arguments"
    assert "a text has half of a surrogate pair" in error["message"]


def test_an_unknown_tool_is_named_with_an_escape(desk: BoundToolset) -> None:
    """Errors repeat what a model has given."""
    error = answer_of(desk, f"db_{LONE}", {})["error"]

    assert (error["code"], error["tool"]) == ("unknown_tool", "db_\\ud800")


@pytest.mark.parametrize("text", ["", "é", "😀", "日本語" * 20, "\\ud800"])
def test_other_texts_are_not_changed(text: str) -> None:
    """A pair that is whole is one character of Python."""
    assert escape_surrogates(text) is text
    assert is_plain("é")
    assert not is_plain(f"é{LONE}")
