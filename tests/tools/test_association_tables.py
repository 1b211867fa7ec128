"""The association table of a many-to-many relationship is a table of its own to a model."""

from __future__ import annotations

import gc
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Integer, Table, func, select, text
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    configure_mappers,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import RefRegistry, RefSession, SetupError
from alfred_refs.context import Context
from alfred_refs.tools import Hooks, Reading, Toolset
from tests.tools.conftest import Watcher


class Base(DeclarativeBase):
    """Tables of this module."""


task_labels = Table(
    "task_labels",
    Base.metadata,
    Column("task_id", ForeignKey("tasks.id"), primary_key=True),
    Column("label_id", ForeignKey("labels.id"), primary_key=True),
    Column("weight", Integer, server_default=text("1")),
)
task_watchers = Table(  # without a primary key, as many applications have it
    "task_watchers",
    Base.metadata,
    Column("task_id", ForeignKey("tasks.id")),
    Column("person_id", ForeignKey("persons.id")),
)
task_blocks = Table(
    "task_blocks",
    Base.metadata,
    Column("blocked_id", ForeignKey("tasks.id"), primary_key=True),
    Column("by_id", ForeignKey("tasks.id"), primary_key=True),
)


class Label(Base):
    """At one end, with the relationship back."""

    __tablename__ = "labels"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    tasks: Mapped[list[Task]] = relationship(secondary=task_labels, back_populates="labels")


class Person(Base):
    """At one end, without a relationship back, and without a label."""

    __tablename__ = "persons"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Task(Base):
    """Has all the relationships."""

    __tablename__ = "tasks"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    labels: Mapped[list[Label]] = relationship(secondary=task_labels, back_populates="tasks")
    watchers: Mapped[list[Person]] = relationship(secondary=task_watchers)
    blocked_by: Mapped[list[Task]] = relationship(
        secondary=task_blocks,
        primaryjoin=lambda: Task.id == task_blocks.c.blocked_id,
        secondaryjoin=lambda: Task.id == task_blocks.c.by_id,
    )


MODELS = [Task, Label, Person]


@pytest.fixture
def world(tables: Engine) -> Engine:
    """Buy (urgent), Fix (later, urgent), watched by Ann and blocked by Buy; home has no task."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain, plain.begin():
        urgent, later, home = (Label(name=name) for name in ("urgent", "later", "home"))
        buy = Task(name="Buy", labels=[urgent])
        fix = Task(name="Fix", labels=[urgent, later], blocked_by=[buy])
        fix.watchers = [Person(id=1, name="Ann")]
        plain.add_all([fix, home])
    return tables


@pytest.fixture
def session(world: Engine, registry: RefRegistry) -> Iterator[RefSession]:
    """A session that was shown all: Buy is task_1, Fix task_2; home label_1, urgent label_3."""
    with RefSession(world, conversation=registry.conversation("links")) as session:
        toolset = Toolset(MODELS)
        for table in ("tasks", "labels", "persons"):
            toolset.call(session, "db_read", {"table": table, "order_by": "name"})
        yield session


@pytest.fixture
def toolset() -> Toolset:
    """A toolset on all classes."""
    return Toolset(MODELS, sql=True)


def named(**refs: str) -> list[dict[str, Any]]:
    """Return filters on columns of refs."""
    return [{"field": name, "op": "=", "value": ref} for name, ref in refs.items()]


def stored(session: RefSession, table: Table) -> int:
    """Return how many rows a table has."""
    with Session(session.get_bind()) as plain:
        return plain.scalar(select(func.count()).select_from(table)) or 0


HOME = {
    "task_id": "task_1",
    "_task_id_label": "Buy",
    "label_id": "label_1",
    "_label_id_label": "home",
}
URGENT = named(task_id="task_1", label_id="label_3")
IS_URGENT = {"task_1": "Buy", "label_3": "urgent"}


def test_links_are_read_and_counted(session: RefSession, toolset: Toolset) -> None:
    """By the refs of both ends, which have their labels; a link has no ref of its own."""
    read = {"table": "task_labels", "filters": named(task_id="task_2"), "columns": ["label_id"]}
    answer = toolset.call(session, "db_read", read)
    assert sorted(row["_label_id_label"] for row in answer["rows"]) == ["later", "urgent"]
    assert {*answer["rows"][0]} == {"task_id", "label_id", "_task_id_label", "_label_id_label"}
    read = {"table": "task_labels", "columns": ["label_id", "count(*)"]}
    totals = toolset.call(session, "db_read", read)["totals"]
    by_label = {each["_label_id_label"]: each["count(*)"] for each in totals}
    assert by_label == {"urgent": 2, "later": 1}
    sql = (
        "select l.name, count(*) from task_labels t join labels l on l.id = t.label_id group by 1"
    )
    rows = toolset.call(session, "db_query", {"sql": sql})["rows"]
    assert sorted(rows) == [["later", 1], ["urgent", 2]]


@pytest.mark.parametrize("order", [{}, {"order_by": "weight", "order_dir": "desc"}])
def test_links_are_read_page_by_page(
    session: RefSession, toolset: Toolset, order: dict[str, str]
) -> None:
    """The cursor has the refs of both ends; one of another table is refused."""
    read: dict[str, Any] = {"table": "task_labels", "limit": 1, **order}
    seen = []
    for _ in range(3):
        answer = toolset.call(session, "db_read", read)
        seen += [(row["task_id"], row["label_id"]) for row in answer["rows"]]
        read["cursor"] = answer.get("cursor")
    assert read["cursor"] is None
    assert len({*seen}) == 3
    first = toolset.call(session, "db_read", {"table": "tasks", "limit": 1})["cursor"]
    error = toolset.call(session, "db_read", {**read, "cursor": first})["error"]
    assert error["code"] == "invalid_cursor"


def test_a_link_is_added_and_removed(session: RefSession, toolset: Toolset) -> None:
    """The answer has what was linked or unlinked; both ends need their labels."""
    create = {"table": "task_labels", "data": HOME}
    bare = {name: value for name, value in HOME.items() if name[0] != "_"}
    error = toolset.call(session, "db_create", {**create, "data": bare})["error"]
    assert error["labels"] == {"task_1": "Buy", "label_1": "home"}
    [row] = toolset.call(session, "db_create", create)["rows"]
    assert row == {**HOME, "weight": 1}
    assert toolset.call(session, "db_create", create)["error"]["code"] == "conflict"
    delete: dict[str, Any] = {"table": "task_labels", "filters": URGENT}
    error = toolset.call(session, "db_delete", delete)["error"]
    assert error["labels"] == IS_URGENT
    wrong = {**delete, "expect": {**IS_URGENT, "weight": 2}}
    error = toolset.call(session, "db_delete", wrong)["error"]
    assert (error["code"], error["ref"]) == ("unexpected_row", "task_1 + label_3")
    answer = toolset.call(session, "db_delete", {**delete, "expect": IS_URGENT})
    gone = {"task_id": "task_1", "label_id": "label_3", "weight": 1}
    gone |= {"_task_id_label": "Buy", "_label_id_label": "urgent"}
    assert (answer["deleted"], answer["count"]) == ([gone], 1)
    assert toolset.call(session, "db_delete", {**delete, "expect": IS_URGENT})["count"] == 0
    assert stored(session, task_labels) == 3
    every = {"table": "task_labels", "filters": [{"field": "weight", "op": "=", "value": 1}]}
    assert toolset.call(session, "db_delete", every)["error"]["count"] == 3


def test_loaded_relationships_are_read_again(session: RefSession, toolset: Toolset) -> None:
    """From both ends, in the application's own session."""
    buy = session.scalars(select(Task).where(Task.name == "Buy")).one()
    home = session.scalars(select(Label).where(Label.name == "home")).one()
    assert [each.name for each in buy.labels] == ["urgent"]
    assert home.tasks == []
    toolset.call(session, "db_create", {"table": "task_labels", "data": HOME})
    assert {each.name for each in buy.labels} == {"home", "urgent"}
    assert home.tasks == [buy]
    delete = {"table": "task_labels", "filters": URGENT, "expect": IS_URGENT}
    toolset.call(session, "db_delete", delete)
    assert [each.name for each in buy.labels] == ["home"]


def test_a_table_without_a_key_has_links_too(session: RefSession, toolset: Toolset) -> None:
    """A link is created once; equal rows that others insert are removed together."""
    data = {"task_id": "task_1", "_task_id_label": "Buy", "person_id": "person_1"}
    create = {"table": "task_watchers", "data": data}
    twice = toolset.call(session, "db_create", {**create, "data": [data, data]})
    assert toolset.call(session, "db_create", create)["rows"] == [data]
    session.expunge_all()
    again = toolset.call(session, "db_create", create)
    assert [each["error"]["code"] for each in (twice, again)] == ["conflict", "conflict"]
    with Session(session.get_bind()) as plain, plain.begin():
        buy = plain.scalars(select(Task.id).where(Task.name == "Buy")).one()
        plain.execute(task_watchers.insert(), {"task_id": buy, "person_id": 1})
    both = named(task_id="task_1", person_id="person_1")
    delete = {"table": "task_watchers", "filters": both, "expect": {"task_1": "Buy"}}
    described = toolset.describe(["task_watchers"])
    assert "'task ref': a text such as 'task_1'" in described
    assert "task_id*: task ref" in described
    assert toolset.call(session, "db_delete", delete)["count"] == 2
    assert stored(session, task_watchers) == 1


@pytest.mark.parametrize("given", [{}, {"read_only": [Task.watchers]}])
def test_a_link_that_is_there_twice_is_deleted_before_the_rows_at_its_ends(
    session: RefSession, given: dict[str, Any]
) -> None:
    """The unit of work expects one; the answer has the remedy, if the model has one."""
    toolset = Toolset(MODELS, **given)
    with Session(session.get_bind()) as plain, plain.begin():
        links = plain.execute(select(task_watchers)).mappings().all()
        plain.execute(task_watchers.insert(), [dict(link) for link in links])
    delete = {"table": "tasks", "filters": named(id="task_2"), "expect": "Fix"}
    error = toolset.call(session, "db_delete", delete)["error"]
    named_links = None if given else "task_watchers"
    assert (error["code"], error["referring"]) == ("still_referenced", named_links)
    assert ("delete the links of the row in table 'task_watchers' first" in error["message"]) is (
        not given
    )
    assert stored(session, task_watchers) == 2
    assert stored(session, Task.__table__) == 2  # type: ignore[arg-type]
    if not given:
        filters = named(task_id="task_2", person_id="person_1")
        unlink = {"table": "task_watchers", "filters": filters, "expect": {"task_2": "Fix"}}
        assert toolset.call(session, "db_delete", unlink)["count"] == 2
        assert toolset.call(session, "db_delete", delete)["deleted"] == ["task_2"]


def test_a_class_may_be_at_both_ends(session: RefSession, toolset: Toolset) -> None:
    """Each end has its column."""
    data = {"blocked_id": "task_1", "by_id": "task_2"}
    labels = {"_blocked_id_label": "Buy", "_by_id_label": "Fix"}
    create = {"table": "task_blocks", "data": data | labels}
    assert toolset.call(session, "db_create", create)["rows"] == [data | labels]
    read = {"table": "task_blocks", "filters": named(by_id="task_1")}
    [row] = toolset.call(session, "db_read", read)["rows"]
    assert row["blocked_id"] == "task_2"


def test_links_of_drafts_and_new_rows(session: RefSession, toolset: Toolset) -> None:
    """They are made in the call that saves these, and are no drafts themselves."""
    new = {"table": "tasks", "data": {"name": "Sell"}, "draft": True}
    assert toolset.call(session, "db_create", new)["rows"][0]["id"] == "gen_task_1"
    link = {**HOME, "task_id": "gen_task_1", "_task_id_label": "Sell"}
    also = [{"table": "task_labels", "data": link}]
    save = {"table": "tasks", "from_draft": "gen_task_1", "expect": "Sell", "also": also}
    answer = toolset.call(session, "db_create", save)
    assert answer["also"][0]["rows"][0]["task_id"] == answer["rows"][0]["id"] == "task_3"
    draft = {"table": "task_labels", "data": HOME, "draft": True}
    assert toolset.call(session, "db_create", draft)["error"]["code"] == "invalid_content"
    assert toolset.call(session, "db_read", {"table": "task_labels", "drafts": True})["count"] == 0
    nested = {"name": "Rent", "labels": ["label_1"], "_labels_labels": ["home"]}
    assert toolset.call(session, "db_create", {"table": "tasks", "data": nested})["count"] == 1
    assert stored(session, task_labels) == 5


def test_refusals_lead_to_what_is_done(session: RefSession, toolset: Toolset) -> None:
    """A relationship is not written by an update, nor counted by its path; its table is."""
    update = {"table": "tasks", "filters": named(id="task_1"), "data": {"labels": ["label_1"]}}
    error = toolset.call(session, "db_update", update)["error"]
    assert (error["code"], error["links"]) == ("linked_elsewhere", "task_labels")
    read = {"table": "tasks", "columns": ["labels.name", "count(*)"]}
    message = toolset.call(session, "db_read", read)["error"]["message"]
    assert "count in table 'task_labels'" in message
    update = {"table": "task_labels", "filters": URGENT, "data": {"label_id": "label_1"}}
    error = toolset.call(session, "db_update", update)["error"]
    assert (error["code"], error["verbs"]) == ("read_only_table", ["create", "delete"])
    by_ref = {"table": "task_labels", "filters": named(_ref="task_label_1")}
    assert toolset.call(session, "db_read", by_ref)["error"]["code"] == "unknown_column"


def test_what_a_row_was_linked_to_is_named_when_it_goes(
    session: RefSession, toolset: Toolset
) -> None:
    """As without the table: its links are not rows of their own in the answer."""
    delete = {"table": "tasks", "filters": named(id="task_2"), "expect": "Fix"}
    answer = toolset.call(session, "db_delete", delete)
    assert {*answer["unlinked"]} == {"label_2", "label_3", "person_1", "task_1"}
    assert "deleted_with" not in answer


READ, WRITE = "links tasks and labels, read only", "links tasks and labels)"


@pytest.mark.parametrize(
    ("given", "described"),
    [
        ({}, WRITE),
        ({"read_only": [Label]}, WRITE),  # Task has the relationship too
        ({"verbs": {Task: ["update"], Label: []}}, WRITE),
        ({"read_only": [Task, Label]}, READ),
        ({"verbs": {Task: ["create", "delete"], Label: ["create"]}}, READ),
        ({"read_only": [Task.labels]}, READ),
        ({"hidden": [Label.tasks]}, READ),
        ({"hidden": [Task.labels, Label.tasks]}, None),
        ({"models": [Task, Person]}, None),
    ],
)
def test_links_are_written_where_a_class_that_has_them_is_updated(
    session: RefSession, given: dict[str, Any], described: str | None
) -> None:
    """The table is not there if no relationship is shown, or a class is not listed."""
    toolset = Toolset(given.pop("models", MODELS), **given)
    lines = [each for each in toolset.describe().split("\n") if each.startswith("task_labels")]
    assert [str(described) in each for each in lines] == ([] if described is None else [True])
    answer = toolset.call(session, "db_create", {"table": "task_labels", "data": HOME})
    code = answer.get("error", {}).get("code")
    assert code == {WRITE: None, READ: "read_only_table", None: "unknown_table"}[described]
    assert stored(session, task_labels) == 3 + (described == WRITE)


def test_hooks_of_a_class_that_has_the_links_are_called(session: RefSession) -> None:
    """For an update of its rows; they may refuse it."""
    hooks = Watcher()
    toolset = Toolset(MODELS, hooks={Task: [hooks]})
    delete = {"table": "task_labels", "filters": URGENT, "expect": IS_URGENT}
    toolset.call(session, "db_create", {"table": "task_labels", "data": HOME})
    toolset.call(session, "db_delete", delete)
    assert [(verb, refs) for verb, refs, _ in hooks.asked] == [("update", ["task_1"])] * 2
    told = [(verb, [row["name"] for row in rows]) for verb, rows in hooks.told]
    assert told == [("update", ["Buy"])] * 2
    refusing = Toolset(MODELS, hooks={Task: [Watcher("update")]})
    data = {**HOME, "task_id": "task_2", "_task_id_label": "Fix"}
    create = {"table": "task_labels", "data": data}
    fix = named(task_id="task_2")
    later = {"table": "task_labels", "filters": fix, "expect": {"task_2": "Fix"}}
    for tool, asked in (("db_create", create), ("db_delete", later)):
        assert refusing.call(session, tool, asked)["error"]["code"] == "locked"
    assert stored(session, task_labels) == 3


def test_links_of_rows_that_hooks_look_at_are_not_shown(session: RefSession) -> None:
    """A hook may hide a row, and its links would name it."""

    class Hiding(Hooks):
        def after_read(self, read: Any, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
            rows[:] = []

    toolset = Toolset(MODELS, hooks={Label: [Hiding()]})
    answer = toolset.call(session, "db_read", {"table": "task_labels"})
    assert answer["error"]["code"] == "unknown_table"
    assert "task_watchers" in toolset.tables.names


def test_links_of_rows_that_conditions_hide_are_not_there(session: RefSession) -> None:
    """In reads, totals and writes; SQL may not read them at all."""

    class Public(Hooks):
        def before_read(self, read: Reading) -> None:
            read.conditions.append(Label.name != "urgent")

    toolset = Toolset(MODELS, hooks={Label: [Public()]}, sql=True)
    [row] = toolset.call(session, "db_read", {"table": "task_labels"})["rows"]
    assert row["_label_id_label"] == "later"
    count = {"table": "task_labels", "columns": ["count(*)"]}
    assert toolset.call(session, "db_read", count)["totals"] == [{"count(*)": 1}]
    error = toolset.call(session, "db_query", {"sql": "select 1 from task_labels"})["error"]
    assert error["code"] == "no_sql"
    every = {"table": "task_labels", "filters": [{"field": "weight", "op": "=", "value": 1}]}
    assert toolset.call(session, "db_delete", every)["error"]["count"] == 1
    link = {**HOME, "label_id": "label_3", "_label_id_label": "urgent", "task_id": "task_1"}
    assert "error" in toolset.call(session, "db_create", {"table": "task_labels", "data": link})
    assert stored(session, task_labels) == 3


def test_a_table_that_has_a_class_is_not_there_twice() -> None:
    """The application lists the class, or does not."""

    class Own(DeclarativeBase):
        pass

    class Left(Own):
        __tablename__ = "lefts"
        id: Mapped[int] = mapped_column(primary_key=True)
        rights: Mapped[list[Right]] = relationship(secondary="joins", viewonly=True)

    class Right(Own):
        __tablename__ = "rights"
        id: Mapped[int] = mapped_column(primary_key=True)
        lefts: Mapped[list[Left]] = relationship(secondary="joins", viewonly=True)

    class Join(Own):
        __tablename__ = "joins"
        left_id: Mapped[int] = mapped_column(ForeignKey("lefts.id"), primary_key=True)
        right_id: Mapped[int] = mapped_column(ForeignKey("rights.id"), primary_key=True)

    Left.__annotations__["rights"] = None
    assert Toolset([Left, Right]).tables.names == ["lefts", "rights"]
    assert Toolset([Left, Right, Join]).tables.names == ["lefts", "rights", "joins"]
    with pytest.raises(SetupError, match="the association table 'task_labels' has the name of"):
        Toolset({"tasks": Task, "labels": Label, "task_labels": Person})


def test_an_association_table_is_mapped_without_a_warning() -> None:
    """By each toolset for itself, and no longer than that lives; warnings are errors here."""
    toolset = Toolset(MODELS)
    configure_mappers()
    model = weakref.ref(toolset.tables.by_name("task_labels").model)
    assert toolset.tables.of_model(model()) is toolset.tables.by_name("task_labels")  # type: ignore[arg-type]
    del toolset
    gc.collect()
    assert model() is None


def test_prompts_have_rows_and_no_links(session: RefSession, registry: RefRegistry) -> None:
    """What is linked is in the conversation; a link has no ref there."""
    toolset = Toolset(MODELS)
    desk = toolset.bind(sessionmaker(session.get_bind(), class_=RefSession), registry=registry)
    create = {"table": "task_labels", "data": HOME}
    assert desk.call("links", None, "db_create", create).value["count"] == 1
    delete = {"table": "task_labels", "filters": URGENT, "expect": IS_URGENT}
    assert desk.call("links", None, "db_delete", delete).value["count"] == 1
    conversation = registry.conversation("links")
    view = Context(conversation, toolset=toolset).view()
    assert {each.entity for each in view.active} <= {"task", "label", "person"}


def test_a_plain_session_does_not_notice(world: Engine, toolset: Toolset) -> None:
    """Of the class that the toolset has: relationships are written as ever."""
    assert "task_labels" in toolset.tables.names
    with Session(world) as plain, plain.begin():
        fix = plain.scalars(select(Task).where(Task.name == "Fix")).one()
        fix.labels.clear()
        fix.labels.append(Label(name="new"))
    with Session(world) as plain:
        assert plain.scalar(select(func.count()).select_from(task_labels)) == 2
