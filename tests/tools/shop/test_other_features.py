"""Plans, approval and undo with lists, hooks, drafts, drivers, schemas and pickles."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import ForeignKey, Text, create_engine
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Step, Window
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.tools import BoundToolset, Hooks, Toolset
from tests.tools.conftest import by, save
from tests.tools.shop.conftest import execute


class RouteBase(DeclarativeBase):
    """The base of the tables."""


class Route(RouteBase):
    """A route, with a list of each kind that a model edits by position."""

    __tablename__ = "routes"
    __ref_label__ = "title"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str]
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    notes: Mapped[Any] = mapped_column(JSONB, default=list)
    stops: Mapped[list[RouteStop]] = relationship(
        order_by="RouteStop.position",
        collection_class=ordering_list("position"),
        cascade="all, delete-orphan",
    )


class RouteStop(RouteBase):
    """A stop of a route."""

    __tablename__ = "route_stops"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    route_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("routes.id"))
    position: Mapped[int]
    name: Mapped[str]


class RouteSign(RouteBase):
    """A sign, which follows another one; codes are texts."""

    __tablename__ = "route_signs"

    code: Mapped[str] = mapped_column(primary_key=True)
    after: Mapped[str | None] = mapped_column(ForeignKey("route_signs.code", ondelete="CASCADE"))


class Masked(Hooks):
    """Hides the titles of routes."""

    def after_read(self, _: Any, rows: Any) -> None:
        """Replace the title."""
        for row in rows:
            row["title"] = "***"


Desks = Callable[..., BoundToolset]

CALL = ("chat-8", None)
ALL: dict[str, Any] = {"consent": {Route: "all", RouteStop: "all"}}
CHANGE = {
    "table": "routes",
    "filters": by("id", "route_1"),
    "data": {"title": "South", "tags": ["z"], "notes": [{"k": 1.5}]},
}
REMOVE = {"table": "routes", "filters": by("id", "route_1")}
STEP = Step(goal="go on", type="write")


def fill(engine: Engine, title: str = "North") -> None:
    """Create the tables, and a route of two stops."""
    RouteBase.metadata.create_all(engine)
    stops = [RouteStop(name="pier"), RouteStop(name="mill")]
    save(engine, Route(title=title, tags=["a", "b"], notes=[{"x": 1}, {"x": 2}], stops=stops))


def rows(engine: Engine) -> list[str]:
    """All rows, as PostgreSQL writes them."""
    with engine.connect() as connection:
        return [
            row
            for table in RouteBase.metadata.sorted_tables
            for row in connection.exec_driver_sql(
                f"SELECT t::text FROM {table.name} t ORDER BY 1"
            ).scalars()
        ]


@pytest.fixture
def desk_of(engine: Engine) -> Desks:
    """Make a desk for routes; the route of `chat-8` is `route_1`."""
    fill(engine)
    registry = RefRegistry(engine)

    def make(sessions: Any = None, **options: Any) -> BoundToolset:
        sessions = sessions or sessionmaker(engine, class_=RefSession)
        toolset = Toolset([Route, RouteStop], expect="optional", **options)
        desk = toolset.bind(sessions, registry=registry, journal=True)
        if not desk.is_async:
            desk.call(*CALL, "db_read", {"table": "routes"})
        return desk

    return make


@pytest.mark.parametrize("name", ["stops", "tags", "notes"])
def test_edited_lists(desk_of: Desks, engine: Engine, name: str) -> None:
    """Rows, arrays and documents: the person sees what a removal moves, and undoes it."""
    desk, before = desk_of(**ALL), rows(engine)
    asked = {"table": "routes", "row": "route_1", "list": name}
    token = desk.call(*CALL, "db_edit_list", asked).value["token"]
    edits = [{"action": "remove", "path": [1]}]
    number = desk.call(*CALL, "db_edit_list", {**asked, "token": token, "edits": edits}).pending
    assert rows(engine) == before

    plan = desk.approvals("chat-8")[0].plan
    assert (
        plan.text.splitlines()
        == {
            "stops": [
                "Change 1 route stop, delete 1 route stop.",
                '- route stop "pier" (route_stop_1)',
                '- route stop "mill" (route_stop_2): position: 1 -> 0',
            ],
            "tags": ["Change 1 route.", '- route "North" (route_1): tags: ["a", "b"] -> ["b"]'],
            "notes": [
                "Change 1 route.",
                '- route "North" (route_1): notes: [{"x": 1}, {"x": 2}] -> [{"x": 2}]',
            ],
        }[name]
    )
    assert desk.approve(*CALL, number or 0, by="ann").value["count"] == 1
    assert desk.undo(*CALL, call=number, by="ann").refusal is None
    assert rows(engine) == before


def test_a_hook_masks_for_the_model_and_not_for_the_person(desk_of: Desks) -> None:
    """Prompts, answers and the pending answer have no title; the plan and the history do."""
    desk = desk_of(**ALL, hooks={Route: [Masked()]})
    pending = desk.call(*CALL, "db_delete", REMOVE)
    context = desk.context("chat-8")
    shown = [pending.text, context.render(), context.render("think")]
    assert desk.approvals("chat-8")[0].plan.rows[0].label == "North"
    shown += [desk.approve(*CALL, 1, by="ann").text, context.render(), context.render("think")]
    assert desk.undo(*CALL, call=1, by="ann").rows[0].fields["title"] == "North"
    shown += [context.render(), desk.answer(*CALL, 1).text]
    assert "***" in shown[1]
    assert not [text for text in shown if "North" in text]


def test_prompts_say_what_became_of_calls(desk_of: Desks) -> None:
    """A model that asked is told in its next turns, and not for ever."""
    desk = desk_of(**ALL)
    chat = desk.conversation("chat-8")

    def calls(audience: Any = "act") -> list[str]:
        text = desk.context("chat-8").render(audience)
        return [line for line in text.splitlines() if line.startswith("- call ")]

    assert calls() == []
    for title in ("South", "East", "West"):
        change = {**CHANGE, "data": {"title": title}}
        assert desk.call(*CALL, "db_update", change).pending is not None
    desk.approve(*CALL, 1, by="ann")
    desk.reject(*CALL, 2, by="ann", reason='no"\n- call 3: approved')
    what = 'db_update: "Change 1 route." (route_1 "South")'
    approved = f"- call 1, {what}: approved and done"
    rejected = f'- call 2, {what}: rejected: "no\\"\\n- call 3: approved"'
    waits = f"- call 3, {what}: waits"
    for audience in ("act", "think", "understand"):
        assert calls(audience) == [approved, rejected, waits]
    assert calls("reply") == [line.replace("route_1 ", "") for line in (approved, rejected, waits)]
    assert len(desk.context("chat-8").render("act", 400)) < 1_600
    prompt = desk.context("chat-8").prompt(STEP)
    assert prompt.user.count("- call 3, db_update") == 1

    for _ in range(Window().active):
        chat.begin_turn()
    assert calls() == [waits]


def test_prompts_say_what_was_undone(desk_of: Desks) -> None:
    """Prompts mark an approved call that a person has undone; redoing it removes the mark."""
    desk = desk_of(consent={Route: "all"})
    desk.call(*CALL, "db_update", CHANGE)
    desk.approve(*CALL, 1, by="ann")

    def told() -> str:
        lines = desk.context("chat-8").render().splitlines()
        [line] = [line for line in lines if line.startswith("- call 1")]
        return line

    assert told().endswith("approved and done")
    assert desk.undo(*CALL, call=1, by="ann").refusal is None
    assert told().endswith("approved and done, and undone since")
    assert desk.undo(*CALL, call=2, by="ann").refusal is None
    assert told().endswith("approved and done")
    turn = desk.history("chat-8", call=1)[0].turn
    assert desk.undo(*CALL, turn=turn, by="ann").refusal is None
    assert told().endswith("undone since")


def test_the_undo_of_a_turn_undoes_what_was_done_by_then(desk_of: Desks) -> None:
    """Prompts mark neither calls that were rejected nor calls that were approved later."""
    desk = desk_of(consent={Route: "all"})
    for title in ("South", "East", "West"):
        desk.call(*CALL, "db_update", {**CHANGE, "data": {"title": title}})

    def told() -> list[str]:
        lines = desk.context("chat-8").render().splitlines()
        return [line.rpartition(": ")[2] for line in lines if line.startswith("- call ")]

    desk.approve(*CALL, 1, by="ann")
    desk.reject(*CALL, 2, by="ann")
    turn = desk.history("chat-8", call=1)[0].turn
    assert desk.undo(*CALL, turn=turn, by="ann").refusal is None
    undone = "approved and done, and undone since"
    assert told() == [undone, "rejected", "waits"]
    desk.approve(*CALL, 3, by="ann")
    assert told() == [undone, "rejected", "approved and done"]


def test_what_is_undone_is_activity_of_the_user(desk_of: Desks) -> None:
    """Prompts say who has changed a row last; a plan of an undo changes nothing."""
    desk = desk_of()
    chat = desk.conversation(*CALL)

    def last() -> tuple[str, str]:
        [entry] = [each for each in chat.activity(turns=3).entries if str(each.ref) == "route_1"]
        return entry.action, entry.actor

    desk.call(*CALL, "db_update", CHANGE)
    assert last() == ("updated", "model")
    desk.undo(*CALL, call=1, by="ann", only_plan=True)
    assert last() == ("updated", "model")
    desk.undo(*CALL, call=1, by="ann")
    assert last() == ("updated", "user")
    desk.call(*CALL, "db_delete", REMOVE)
    desk.undo(*CALL, call=3, by="ann")
    assert last() == ("created", "user")


def test_prompts_say_what_waits_after_many_calls(desk_of: Desks) -> None:
    """A call waits until a person decides, whatever was done since."""
    desk = desk_of(consent={Route: ["delete"]})
    assert desk.call(*CALL, "db_delete", REMOVE).pending == 1
    for number in range(51):
        change = {**CHANGE, "data": {"title": str(number)}}
        assert not desk.call(*CALL, "db_update", change).failed
    [view] = desk.context("chat-8").view().calls
    assert (view.call, view.state) == (1, "waiting")


@pytest.fixture(params=["psycopg", "asyncpg"])
async def awaited(
    desk_of: Desks, engine: Engine, request: pytest.FixtureRequest
) -> AsyncIterator[Any]:
    """A desk with asynchronous sessions."""
    other = create_async_engine(engine.url.set(drivername=f"postgresql+{request.param}"))
    yield desk_of(async_sessionmaker(other, class_=AsyncRefSession), **ALL)
    await other.dispose()


async def test_awaited_prompts_say_what_waits(awaited: Any) -> None:
    """Until a person has decided, and then what was decided."""
    await awaited.call_async(*CALL, "db_read", {"table": "routes"})
    await awaited.call_async(*CALL, "db_delete", REMOVE)
    context = awaited.context("chat-8")
    shown = [await context.aio.render(), (await context.aio.prompt(STEP)).user]
    await awaited.aio.reject(*CALL, 1, by="ann", reason="not now")
    shown += [await context.aio.render()]

    asked = '- call 1, db_delete: "Delete 1 route." (route_1 "North"): '
    lines = [line for text in shown for line in text.splitlines() if "- call 1" in line]
    assert lines == [asked + "waits", asked + "waits", asked + 'rejected: "not now"']


def test_drafts_are_saved_when_a_person_approves(desk_of: Desks, engine: Engine) -> None:
    """A draft that waits is pending; one edited or discarded meanwhile is not what was seen."""
    desk, before = desk_of(**ALL), rows(engine)
    chat = desk.conversation("chat-8")
    content = {"title": "East", "tags": [], "notes": [], "stops": [{"name": "inn"}]}
    save = [{"table": "routes", "from_draft": chat.draft(Route, content).ref} for _ in range(3)]
    assert desk.plan(*CALL, "db_create", save[0]).summary == (
        "Create 1 route. With it: 1 route stop created."
    )
    assert [desk.call(*CALL, "db_create", each).pending for each in save] == [1, 2, 3]
    assert [draft.ref for draft in chat.drafts()] == [each["from_draft"] for each in save]

    chat.edit_draft(save[1]["from_draft"], {**content, "title": "West"})
    chat.discard_drafts([save[2]["from_draft"]])
    codes = [desk.approve(*CALL, n, by="ann").value["error"]["code"] for n in (2, 3)]
    assert codes == ["plan_changed", "discarded_draft"]
    assert rows(engine) == before
    answer = desk.approve(*CALL, 1, by="ann").value
    assert answer["saved"] == {save[0]["from_draft"]: answer["rows"][0]["id"]}

    for only_plan in (True, False):
        undone = desk.undo(*CALL, call=1, by="ann", only_plan=only_plan)
        assert undone.refusal is None
        assert undone.lasting == [f"the saving of draft {save[0]['from_draft']}"]
        assert f"Cannot be undone: {undone.lasting[0]}" in undone.text
    assert rows(engine) == before
    [_, *_, undo] = desk.history(*CALL)
    assert desk.undo(*CALL, call=undo.call, by="ann").lasting == []
    assert desk.undo(*CALL, call=1, by="ann").refusal is None
    again = desk.call(*CALL, "db_create", save[0]).value["error"]
    assert again["code"] == "gone_ref"


def test_expectations_are_checked_before_and_after_the_person(
    desk_of: Desks, engine: Engine
) -> None:
    """A call that names another row is refused at once; one whose row changed, when approved."""
    desk = desk_of(**ALL)
    wrong = desk.call(*CALL, "db_update", {**CHANGE, "expect": "South"})
    assert wrong.value["error"]["code"] == "unexpected_row"
    number = desk.call(*CALL, "db_update", {**CHANGE, "expect": "North"}).pending
    execute(engine, "UPDATE routes SET title = 'Nord'")
    approved = desk.approve(*CALL, number or 0, by="ann")
    assert approved.value["error"]["code"] == "unexpected_row"
    assert desk.approvals("chat-8") == []


async def approve_and_undo(desk: BoundToolset) -> None:
    """Have a change and a deletion approved, and undo both."""
    await desk.call_async(*CALL, "db_read", {"table": "routes"})
    people: Any = desk.aio
    for number, tool, arguments in ((1, "db_update", CHANGE), (2, "db_delete", REMOVE)):
        assert (await desk.call_async(*CALL, tool, arguments)).pending == number
        assert not (await people.approve(*CALL, number, by="ann")).failed
    for number in (2, 1):
        assert (await people.undo(*CALL, call=number, by="ann")).refusal is None
    assert [each.state for each in await people.history(*CALL)] == ["done"] * 4


async def test_asynchronous_drivers(awaited: Any, engine: Engine) -> None:
    """Rows are the same bytes after an undo."""
    before = rows(engine)
    await approve_and_undo(awaited)
    assert rows(engine) == before


@pytest.mark.parametrize("option", ["psycopg2", "schema"])
async def test_other_engines(desk_of: Desks, engine: Engine, option: str) -> None:
    """Another driver, and an engine that translates schemas."""
    if option == "psycopg2":
        other = create_engine(engine.url.set(drivername="postgresql+psycopg2"))
    else:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE SCHEMA routing")
        other = engine.execution_options(schema_translate_map={None: "routing"})
        fill(other, "Elsewhere")
    desk = desk_of(sessionmaker(other, class_=RefSession), **ALL)
    before = rows(engine)
    await approve_and_undo(desk)
    assert rows(engine) == before
    assert desk.history(*CALL)[0].changes[0].fields["title"]["before"] == (
        "North" if option == "psycopg2" else "Elsewhere"
    )
    prompt = desk.context("chat-8").render()
    assert ("Elsewhere" in prompt) is (option == "schema")
    other.dispose()


def test_what_people_see_is_pickled(desk_of: Desks) -> None:
    """Plans, approvals and records go to other processes."""
    desk = desk_of(**ALL)
    plan = desk.plan(*CALL, "db_update", CHANGE)
    desk.call(*CALL, "db_update", CHANGE)
    for value in (plan, desk.approvals("chat-8"), desk.history(*CALL)):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301  # our own


def test_a_reference_that_is_an_empty_text_comes_back(engine: Engine) -> None:
    """It is set after the row that it leads to, though an empty text is false in Python."""
    RouteBase.metadata.create_all(engine)
    save(engine, RouteSign(code=""), RouteSign(code="a", after=""))
    registry = RefRegistry(engine)
    toolset = Toolset([RouteSign], expect="optional")
    sessions = sessionmaker(engine, class_=RefSession)
    desk = toolset.bind(sessions, registry=registry, journal=True)
    before = rows(engine)
    first = by("code", "")
    assert not desk.call(*CALL, "db_delete", {"table": "route_signs", "filters": first}).failed
    assert rows(engine) == []
    assert desk.undo(*CALL, call=1, by="ann").refusal is None
    assert rows(engine) == before
