"""`alfred-refs doctor`: what a toolset makes of an application's classes."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text

from alfred_refs.cli.commands import alfred_refs

PROGRAM = """
import uuid
from sqlalchemy import JSON, Column, ForeignKey, Table, UUID, String, case, cast, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column, relationship
from sqlalchemy.orm import sessionmaker
from sqlalchemy.types import UserDefinedType
from alfred_refs import Ownership, RefPolicy, RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset

class Point(UserDefinedType):
    cache_ok = True
    def get_col_spec(self, **_): return "POINT"

class Base(DeclarativeBase):
    pass

tagged = Table("tagged", Base.metadata,
    Column("shop_id", ForeignKey("shops.id"), primary_key=True),
    Column("tag_id", ForeignKey("tags.id"), primary_key=True))

class Tag(Base):
    __tablename__ = "tags"
    __ref_label__ = "name"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]

class Shop(Base):
    __tablename__ = "shops"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str] = mapped_column()
    parent_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("shops.id"))
    sent_by: Mapped[uuid.UUID | None]
    batch: Mapped[uuid.UUID | None] = mapped_column(info={"ref": None})
    place: Mapped[str | None] = mapped_column(Point)
    secret: Mapped[str | None] = mapped_column(Point)
    title: Mapped[str] = column_property(case((owner == "", cast(id, String)), else_=owner))
    tags: Mapped[list[Tag]] = relationship(secondary=tagged)

class Line(Base):
    __tablename__ = "lines"
    __ref_label__ = None
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)

class Pin(Base):
    __tablename__ = "pins"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)

unlabelled = Toolset([Line, Pin], policy=RefPolicy(labels={Pin: None}))
toolset = Toolset([Shop], hidden=[Shop.secret])
owned = Toolset([Shop, Tag], owner=Ownership({Shop: "owner"}, open=[Tag, tagged]))
engine = create_engine("sqlite://")
desk = toolset.bind(sessionmaker(engine, class_=RefSession),
    registry=RefRegistry(store=MemoryStore()))
nothing = 7

def broken():
    class Event(Base):
        __tablename__ = "events"
        at: Mapped[dict] = mapped_column(JSON, primary_key=True)
    class Pulse(Base):
        __tablename__ = "pulses"
        at: Mapped[dict] = mapped_column(JSON, primary_key=True)
    return Toolset([Event, Pulse])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with toolsets, in the current directory."""
    name = f"shop_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    (tmp_path / f"{name}_broken.py").write_text(f"import {name}\ndesk = {name}.broken()\n")
    monkeypatch.chdir(tmp_path)
    before = [*sys.path]
    yield name
    sys.path[:] = before
    sys.modules.pop(name, None)
    sys.modules.pop(f"{name}_broken", None)


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(alfred_refs, ["doctor", *arguments])


def findings(*arguments: str) -> list[tuple[str, Any, str]]:
    """Return what the command finds."""
    document = json.loads(run(*arguments, "--json").stdout)
    return [(each["table"], each["name"], each["finding"]) for each in document["findings"]]


def test_each_kind_of_finding_is_printed(module: str) -> None:
    """Of attributes that are shown and not declared otherwise; keys are listed first."""
    assert findings(f"{module}:toolset") == [
        ("shops", "id", "key: refs of shop"),
        ("shops", "parent_id", "key: refs of shop"),
        ("shops", "sent_by", "UUIDs of an undeclared kind"),
        ("shops", "place", "not shown: nothing is known of Point"),
        ("shops", "title", "cannot be translated: it shows keys"),
        ("shops", None, "no label: a wrong ref cannot be noticed"),
        ("shops", "tags", "association table 'tagged' is reached by no tool"),
        ("shops", None, "no owner rule: every conversation sees all rows"),
    ]


def test_a_class_that_needs_no_label_is_not_named(module: str) -> None:
    """By the class, or by the policy."""
    found = [each for each in findings(f"{module}:unlabelled") if "label" in each[2]]
    assert found == []


def test_a_bound_toolset_is_examined_as_its_toolset(module: str) -> None:
    """It is what applications have at hand."""
    assert findings(f"{module}:desk") == findings(f"{module}:toolset")


def test_open_classes_are_named_and_reached_tables_are_not(module: str) -> None:
    """With an owner, and with both ends of the association table listed."""
    found = findings(f"{module}:owned")

    assert ("tags", None, "open: every owner sees all rows") in found
    assert [each for each in found if "association" in each[2] or "no owner" in each[2]] == []


def test_people_read_a_table_with_remedies(module: str) -> None:
    """Each finding that may need a correction says how."""
    output = run(f"{module}:toolset").output

    assert "to correct  6" in output
    assert "sent_by    UUIDs of an undeclared kind" in output
    assert 'info={"ref": Class}' in output
    assert "__ref_label__" in output


@pytest.mark.parametrize(("target", "code"), [("toolset", 1), ("desk", 1)])
def test_strict_fails_a_test_of_the_application(module: str, target: str, code: int) -> None:
    """Without it the command succeeds, whatever is found."""
    assert run(f"{module}:{target}").exit_code == 0
    assert run(f"{module}:{target}", "--strict").exit_code == code


def test_errors_of_the_set_up_are_printed_for_all_classes(module: str) -> None:
    """They are raised as the module is imported."""
    result = run(f"{module}_broken:desk")

    assert result.exit_code == 1
    assert "2 classes cannot be used" in result.stderr
    assert "Event' are" in result.stderr
    assert "Pulse' are" in result.stderr


def test_another_object_is_refused(module: str) -> None:
    """With what to name in its place."""
    result = run(f"{module}:nothing")

    assert result.exit_code == 1
    assert "name a Toolset" in result.stderr


def test_row_level_security_is_checked(module: str, engine: Engine) -> None:
    """Of the tables that have owners, as the role of the URL."""
    url = engine.url.render_as_string(hide_password=False)
    absent = run(f"{module}:owned", "--policies", "--strict", "--url", url)
    with engine.begin() as connection:
        connection.execute(text("create table shops (id uuid primary key, owner text)"))
        connection.execute(text("create table tags (id uuid primary key)"))
    result = run(f"{module}:owned", "--policies", "--strict", "--url", url)

    assert absent.exit_code == result.exit_code == 1
    assert "the table is not in this database" in absent.stdout
    assert "alter table shops enable row level security" in result.stdout
    assert "alter table tags" not in result.stdout  # it has no owner
    assert "has no Ownership" in run(f"{module}:toolset", "--policies", "--url", url).stderr
    assert run(f"{module}:owned", "--policies").exit_code == 2
