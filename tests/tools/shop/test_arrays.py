"""Arrays in plans, in the history and in the inspector's fields: as answers show them."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Date, ForeignKey, Integer, Numeric, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, DOMAIN, JSONB
from sqlalchemy.engine import Engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from alfred_refs.tools.exact import split_array
from tests.tools.conftest import by, save


class FolderBase(DeclarativeBase):
    """The base of the tables."""


class FolderReader(FolderBase):
    """Who reads folders."""

    __tablename__ = "folder_readers"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class Folder(FolderBase):
    """A row with an array of each kind."""

    __tablename__ = "folders"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    first_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("folder_readers.id"))
    readers: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": FolderReader})
    words: Mapped[Any] = mapped_column(ARRAY(Text))
    counts: Mapped[Any] = mapped_column(ARRAY(Integer, dimensions=2))
    prices: Mapped[Any] = mapped_column(ARRAY(Numeric))
    days: Mapped[Any] = mapped_column(ARRAY(Date))
    documents: Mapped[Any] = mapped_column(ARRAY(JSONB))
    names: Mapped[Any] = mapped_column(ARRAY(DOMAIN("folder_name", Text(), create_type=False)))


VALUES: dict[str, Any] = {
    "words": ["a, b", 'say "no"', "back\\slash", "", "NULL", None, "{x}"],
    "counts": [[1, 2], [3, -4]],
    "prices": [Decimal("1.50")],
    "days": [dt.date(2026, 5, 1)],
    "documents": [{"k": [1, "a"]}],
    "names": ["one", "two words"],
}


@pytest.fixture
def desk(engine: Engine) -> BoundToolset:
    """Make a desk; `folder_1` and both readers have refs."""
    with engine.begin() as connection:
        connection.execute(text("CREATE DOMAIN folder_name AS text"))
    FolderBase.metadata.create_all(engine)
    ann, bob = uuid.uuid4(), uuid.uuid4()
    readers = [FolderReader(id=ann, name="Ann"), FolderReader(id=bob, name='"Bob", (x)')]
    save(engine, *readers, Folder(readers=[ann, bob], **VALUES))
    toolset = Toolset([Folder, FolderReader], expect="optional")
    sessions = sessionmaker(engine, class_=RefSession)
    desk = toolset.bind(sessions, registry=RefRegistry(engine), journal=True)
    for table in ("folder_readers", "folders"):
        desk.call("chat-8", None, "db_read", {"table": table})
    return desk


def test_arrays_are_shown_as_answers_show_them(desk: BoundToolset) -> None:
    """The same JSON as `db_read`; refs by name."""
    [row] = desk.call("chat-8", None, "db_read", {"table": "folders"}).value["rows"]
    remove = {"table": "folders", "filters": by("id", "folder_1")}
    [planned] = desk.plan("chat-8", None, "db_delete", remove).rows
    texts = {"prices": ["1.50"], "days": ["2026-05-01"]}  # of numbers that JSON would round
    assert {name: planned.fields[name] for name in VALUES} == {
        name: texts.get(name, row[name]) for name in VALUES
    }
    names = ['"Ann"', '"\\"Bob\\", (x)"']
    assert planned.fields["readers"] == [
        f"{name} ({ref})" for name, ref in zip(names, row["readers"], strict=True)
    ]


def test_a_changed_array_of_refs_is_named(desk: BoundToolset) -> None:
    """In the plan's text and in the history; an undo restores the array."""
    refs = {r["name"]: r["id"] for r in read(desk, "folder_readers")}
    before = read(desk, "folders")
    ann = refs["Ann"]
    change = {
        "table": "folders",
        "filters": by("id", "folder_1"),
        "data": {"readers": [ann], "words": []},
    }
    line = desk.plan("chat-8", None, "db_update", change).rows[0].line
    assert line.endswith(f'-> ["Ann" ({ann})]') or f'-> ["Ann" ({ann})]; ' in line
    assert f'"\\"Bob\\", (x)" ({refs[chr(34) + "Bob" + chr(34) + ", (x)"]})' in line
    assert not desk.call("chat-8", None, "db_update", change).failed
    [record] = desk.history("chat-8", limit=1)
    assert record.changes[0].fields["readers"]["after"] == [f'"Ann" ({ann})']
    assert desk.undo("chat-8", None, call=record.call, by="bob").refusal is None
    assert read(desk, "folders") == before


def read(desk: BoundToolset, table: str) -> list[Any]:
    """Return the rows of a table as the model sees them."""
    rows: list[Any] = desk.call("chat-8", None, "db_read", {"table": table}).value["rows"]
    return rows


@pytest.mark.parametrize("type_", ["text[]", "int[]", "text[][]"])
def test_every_array_of_postgresql_is_split(engine: Engine, type_: str) -> None:
    """Quotes, braces, nulls, bounds and dimensions."""
    given: dict[str, list[Any]] = {
        "text[]": [*VALUES["words"], "a\nb", " ", "nul", "a=b", "[0:1]"],
        "int[]": [1, None, -3],
        "text[][]": [["a", None], ["", "}"]],
    }
    with engine.connect() as connection:
        sent = {"given": given[type_]}
        printed = connection.execute(
            text(f"SELECT CAST(:given AS {type_})::text"), sent
        ).scalar_one()
        bounds = connection.execute(text("SELECT '[2:3]={a,b}'::text[]::text")).scalar_one()
        assert connection.execute(text("SELECT '{}'::text[]::text")).scalar_one() == "{}"
    as_text = [None if x is None else str(x) for x in given[type_]]
    assert split_array(printed) == (given[type_] if type_ == "text[][]" else as_text)
    assert split_array(bounds) == ["a", "b"]
    assert split_array("{}") == []
