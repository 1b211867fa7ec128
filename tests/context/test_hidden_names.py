"""Names of rows that are hidden from a model: the registry knows them, and nothing shows them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from sqlalchemy import Engine, ForeignKey, select, text
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
    with_loader_criteria,
)

from alfred_refs import BadRefError, Ownership, RefRegistry, RefSession
from alfred_refs.context import Audience, Called, Context, Step, understand_type
from alfred_refs.integrations.mcp import server_of
from alfred_refs.tools import BoundToolset, Hooks, Reading, Toolset

mcp = pytest.importorskip("mcp")

CHAT = ("c", None)
AUDIENCES = get_args(Audience)


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Shelf(Base):
    """What memos are on."""

    __tablename__ = "hidden_shelves"
    __ref_label__ = "title"
    __ref_name__ = "shelf"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str]

    memos: Mapped[list[Memo]] = relationship(back_populates="shelf")


class Memo(Base):
    """A memo of a tenant."""

    __tablename__ = "hidden_memos"
    __ref_label__ = "title"
    __ref_name__ = "memo"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    tenant: Mapped[str] = mapped_column(default="ann")
    title: Mapped[str | None]
    private: Mapped[bool] = mapped_column(default=False)
    shelf_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("hidden_shelves.id"))

    shelf: Mapped[Shelf | None] = relationship(back_populates="memos")


class Hide(Hooks):
    """Hide private memos."""

    def before_read(self, read: Reading) -> None:
        """Leave them out."""
        read.conditions.append(Memo.private.is_(False))


class Mask(Hooks):
    """Mask the titles of memos."""

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:
        """Replace them."""
        del read
        for row in rows:
            row["title"] = "***"


class Search(Hooks):
    """Hide nothing: only answer searches."""

    def before_read(self, read: Reading) -> None:
        """Search nothing."""
        if read.semantic is not None:
            read.empty = True


@pytest.fixture
def bases(engine: Engine) -> Iterator[Engine]:
    """A database with the tables, and those of the registry."""
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    yield engine
    Base.metadata.drop_all(engine)


def desk_on(engine: Engine, *models: type[Any], **options: Any) -> BoundToolset:
    """Return tools on the models."""
    ownership = options.get("owner")
    sessions = sessionmaker(engine, class_=RefSession, ownership=ownership)
    return Toolset(models, **options).bind(sessions, registry=RefRegistry(engine))


def add(desk: BoundToolset, *rows: Any) -> None:
    """Add rows, as a user does on a screen of the application."""
    with desk.sessions(conversation=desk.conversation(*CHAT), by="user") as session:
        session.add_all(rows)
        session.commit()


def prompts(desk: BoundToolset, *chat: Any) -> str:
    """Return what all audiences see of the conversation."""
    context = desk.context(*(chat or CHAT))
    return "\n".join(context.render(each) for each in AUDIENCES)


def by_ref(ref: str) -> dict[str, Any]:
    """Return the arguments of a read by ref."""
    return {"table": "hidden_memos", "filters": [{"field": "id", "op": "=", "value": ref}]}


async def entries(desk: BoundToolset, chat: str, owner: Any) -> str:
    """Return the MCP resource with the refs of a conversation."""
    async with mcp.Client(server_of(desk, name="s", whose=lambda _: (chat, owner))) as client:
        return str((await client.read_resource("refs://conversation")).contents[0].text)


@pytest.mark.parametrize("hooks", [Hide(), Mask()])
async def test_names_that_hooks_hide_are_in_no_error_and_no_resource(
    bases: Engine, hooks: Hooks
) -> None:
    """Errors suggest refs, without their names; so do prompts with these errors."""
    desk = desk_on(bases, Memo, hooks={Memo: [hooks]})
    add(desk, Memo(title="Dismissal", private=True))
    for given in ("memo_9", "shelf_1", str(uuid.uuid4())):
        answer = desk.call(*CHAT, "db_read", by_ref(given))
        assert answer.failed
        assert "Dismissal" not in answer.text
        called = [Called("db_read", {}, answer.value)]
        prompt = desk.context(*CHAT).prompt(Step("read", "x"), calls=called)
        assert "Dismissal" not in prompt.user
    decision = understand_type(desk.toolset).model_validate(
        {"retain": [{"ref": "memo_9", "reason": "x"}]}
    )
    for sessions in (desk.sessions, None):
        chat = desk.registry.conversation("c")
        context = Context(chat, toolset=desk.toolset, sessions=sessions)
        with pytest.raises(BadRefError) as error:
            context.curate(decision)
        assert "memo_1" in str(error.value)
        assert "Dismissal" not in str(error.value)
    assert "Dismissal" not in await entries(desk, "c", None)


def test_errors_name_rows_that_hooks_show(bases: Engine) -> None:
    """By the names that hooks leave."""
    desk = desk_on(bases, Memo, hooks={Memo: [Hide()]})
    add(desk, Memo(title="Dismissal", private=True), Memo(title="Lunch"))
    error = desk.call(*CHAT, "db_read", by_ref("memo_9")).value["error"]
    assert [*error["labels"].values()] == ["Lunch"]
    masked = desk_on(bases, Memo, hooks={Memo: [Mask()]})
    error = masked.call(*CHAT, "db_read", by_ref("memo_9")).value["error"]
    assert {*error["labels"].values()} == {"***"}


@pytest.mark.parametrize("hooks", [Hide(), Mask()])
def test_a_deleted_row_that_hooks_would_hide_has_no_name(bases: Engine, hooks: Hooks) -> None:
    """Nobody can say whether they would still."""
    desk = desk_on(bases, Memo, hooks={Memo: [hooks]})
    add(desk, Memo(title="Dismissal", private=True))
    assert "Dismissal" not in prompts(desk)
    with bases.begin() as connection:
        connection.execute(text("delete from hidden_memos"))
    shown = prompts(desk)
    assert "memo_1 (deleted since turn 0)" in shown
    unread = Context(desk.registry.conversation("c"), toolset=desk.toolset).render("think")
    assert "memo_1" in unread
    assert "Dismissal" not in shown + unread


def test_a_deleted_row_has_its_name_if_hooks_hide_nothing(bases: Engine) -> None:
    """A hook for searches is no filter."""
    desk = desk_on(bases, Memo, hooks={Memo: [Search()]})
    add(desk, Memo(title="Lunch"))
    with bases.begin() as connection:
        connection.execute(text("delete from hidden_memos"))
    assert 'memo_1 "Lunch" (deleted since turn 0)' in prompts(desk)


def test_a_row_that_is_hidden_now_does_not_show_its_new_name(bases: Engine) -> None:
    """The model has read another name before."""
    desk = desk_on(bases, Memo, hooks={Memo: [Hide()]}, consent={Memo: ["delete"]})
    add(desk, Memo(title="Plan"))
    desk.call(*CHAT, "db_read", {"table": "hidden_memos"})
    assert desk.call(*CHAT, "db_delete", by_ref("memo_1") | {"expect": "Plan"}).pending
    with desk.sessions(conversation=desk.conversation(*CHAT), by="user") as session:
        memo = session.get(Memo, "memo_1")
        memo.title, memo.private = "Dismissal", True
        session.commit()
    shown = prompts(desk)
    assert "memo_1 (not visible)" in shown
    assert '"Delete 1 memo." (memo_1): waits' in shown
    assert "Dismissal" not in shown


def test_waiting_calls_have_the_present_names(bases: Engine) -> None:
    """Also if the registry does not know them yet; a name may be null by now."""
    desk = desk_on(bases, Memo, consent={Memo: ["delete"]})
    add(desk, Memo(title="Plan"), Memo(title="Note"))
    desk.call(*CHAT, "db_read", {"table": "hidden_memos", "order_by": "title"})
    for given in map(by_ref, ("memo_1", "memo_2")):
        title = desk.call(*CHAT, "db_read", given).value["rows"][0]["title"]
        assert desk.call(*CHAT, "db_delete", given | {"expect": title}).pending
    with bases.begin() as connection:
        connection.execute(text("update hidden_memos set title = null where title = 'Note'"))
        connection.execute(text("update hidden_memos set title = 'Stew' where title = 'Plan'"))
    calls = [line for line in prompts(desk).splitlines() if line.startswith("- call")]
    assert any('"Stew"' in line for line in calls)
    assert not [line for line in calls if "Plan" in line or "Note" in line]


def test_a_deleted_row_of_a_table_that_is_not_listed_has_no_name(bases: Engine) -> None:
    """A listed table refers to it."""
    desk = desk_on(bases, Memo)
    add(desk, Shelf(title="Confidential"))
    with desk.sessions(conversation=desk.conversation(*CHAT), by="user") as session:
        session.delete(session.scalars(select(Shelf)).one())
        session.commit()
    shown = prompts(desk)
    assert "shelf_1 (deleted by the user in turn 0)" in shown
    assert "Confidential" not in shown


async def test_trusted_code_leaves_no_names_of_other_tenants(bases: Engine) -> None:
    """Neither what it reads nor what it writes; the tenant's own rows have their names."""
    ownership = Ownership({Memo: "tenant"})
    desk = desk_on(bases, Memo, owner=ownership)
    chat = desk.conversation("t", "ann")
    with Session(bases) as plain, plain.begin():
        plain.add_all([Memo(tenant="bob", title="Secret"), Memo(title="Mine")])
    own = {"conversation": chat, "owner": ownership.of("ann"), "by": "user"}
    with desk.sessions(**own) as session, session.unconfined():
        memos = session.scalars(select(Memo)).all()
        for memo in memos:
            memo.private = True
        session.flush()
        refs = {memo.title: memo.id for memo in memos}
        session.commit()

    context = desk.context("t", "ann")
    assert '"Mine"' in prompts(desk, "t", "ann")
    names = "".join(context.with_names([f"{refs['Mine']}, {refs['Secret']}"]))
    assert names.startswith("Mine, memo ")
    decision = understand_type(desk.toolset).model_validate(
        {"retain": [{"ref": "memo_9", "reason": "x"}]}
    )
    with pytest.raises(BadRefError) as error:
        context.curate(decision)
    assert "Secret" not in str(error.value)
    with bases.begin() as connection:
        connection.execute(text("delete from hidden_memos where tenant = 'bob'"))
    for shown in (prompts(desk, "t", "ann"), await entries(desk, "t", "ann")):
        assert "Secret" not in shown
        assert "Mine" in shown


def test_a_row_that_was_given_away_does_not_show_its_new_name(bases: Engine) -> None:
    """Though trusted code reads it in the conversation."""
    ownership = Ownership({Memo: "tenant"})
    desk = desk_on(bases, Memo, owner=ownership)
    with Session(bases) as plain, plain.begin():
        plain.add(Memo(title="Mine"))
    desk.call("t", "ann", "db_read", {"table": "hidden_memos"})
    with bases.begin() as connection:
        connection.execute(text("update hidden_memos set tenant = 'bob', title = 'Secret'"))
    own = {"conversation": desk.conversation("t", "ann"), "owner": ownership.of("ann")}
    with desk.sessions(**own) as session, session.unconfined():
        assert [memo.title for memo in session.scalars(select(Memo))] == ["Secret"]
    shown = prompts(desk, "t", "ann")
    assert "Secret" not in shown
    assert "not visible" in shown


def test_a_row_that_was_deleted_by_others_is_not_retained(bases: Engine) -> None:
    """Though the registry does not know that yet."""
    desk = desk_on(bases, Memo)
    add(desk, Memo(title="Plan"))
    with bases.begin() as connection:
        connection.execute(text("delete from hidden_memos"))
    kept = {"retain": [{"ref": "memo_1", "reason": "x"}]}
    with pytest.raises(BadRefError, match="memo_1"):
        desk.context(*CHAT).curate(understand_type(desk.toolset).model_validate(kept))


class Deciding(Hooks):
    """Hide private memos after they are read, and add a value to all others."""

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:
        """Decide by a column that few readers ask for."""
        del read
        rows[:] = [row | {"cost": 12345} for row in rows if not row["private"]]


def test_a_hook_decides_by_columns_that_are_not_shown(bases: Engine) -> None:
    """Audiences without values see neither the row's name nor what the hook adds."""
    desk = desk_on(bases, Memo, hooks={Memo: [Deciding()]})
    add(desk, Memo(title="Dismissal", private=True), Memo(title="Lunch"))
    context = desk.context(*CHAT)
    for audience in AUDIENCES:
        shown = context.render(audience)
        assert [row.status for row in context.view(audience).active if row.label is None] == [
            "not visible"
        ]
        assert "Dismissal" not in shown
        assert "Lunch" in shown
        assert ("12345" in shown) is (audience == "act")


class Criteria(Hooks):
    """Hide private memos by a loader option."""

    def before_read(self, read: Reading) -> None:
        """Leave them out."""
        read.options.append(with_loader_criteria(Memo, Memo.private.is_(False)))


def test_criteria_of_loader_options_hide_rows_that_others_lead_to(bases: Engine) -> None:
    """In rows, filters, labels and prompts."""
    desk = desk_on(bases, Memo, Shelf, hooks={Memo: [Criteria()]})
    shelf = Shelf(title="top")
    add(desk, shelf, Memo(title="Dismissal", private=True, shelf=shelf), Memo(shelf=shelf))
    columns = ["title", "memos.private"]
    [row] = desk.call(*CHAT, "db_read", {"table": "hidden_shelves", "columns": columns}).value[
        "rows"
    ]
    assert [memo["private"] for memo in row["memos"]] == [False]
    by_path = [{"field": "memos.private", "op": "=", "value": True}]
    given = {"table": "hidden_shelves", "filters": by_path}
    assert desk.call(*CHAT, "db_read", given).value["rows"] == []
    assert "Dismissal" not in prompts(desk)


@pytest.mark.parametrize("way", ["a tool", "a session", "another client"])
def test_a_name_that_is_null_now_is_used_no_more(bases: Engine, way: str) -> None:
    """In replies, prompts and errors; a rollback leaves it."""
    desk = desk_on(bases, Memo)
    add(desk, Memo(title="Plan"))
    context, chat = desk.context(*CHAT), desk.conversation(*CHAT)
    with desk.sessions(conversation=chat) as session:
        session.get_one(Memo, "memo_1").title = None
        session.flush()
        session.rollback()
    assert "".join(context.with_names(["memo_1"])) == "Plan"
    if way == "a tool":
        given = by_ref("memo_1") | {"expect": "Plan", "data": {"title": None}}
        assert not desk.call(*CHAT, "db_update", given).failed
    elif way == "a session":
        with desk.sessions(conversation=chat) as session:
            session.get_one(Memo, "memo_1").title = None
            session.commit()
    else:
        with bases.begin() as connection:
            connection.execute(text("update hidden_memos set title = null"))
        desk.call(*CHAT, "db_read", {"table": "hidden_memos"})
    for registry in (desk.registry, RefRegistry(bases)):
        fresh = Context(registry.conversation("c"), toolset=desk.toolset, sessions=desk.sessions)
        assert "".join(fresh.with_names(["memo_1"])) == "memo 1"
    assert "Plan" not in prompts(desk)
    assert "labels" not in desk.call(*CHAT, "db_read", by_ref("memo_9")).value["error"]
