"""What was done, in the transaction in which it was done; and how it is undone."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import SetupError
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, Hooks, Journal, Limits, Plan, Toolset
from tests.tools.conftest import by, save
from tests.tools.shop.conftest import (
    CHAT,
    CREATE,
    DELETE,
    MODELS,
    UPDATE,
    WRITES,
    Rows,
    execute,
    lost_commits,
    refusal_of,
)
from tests.tools.shop.models import StallLabel, StallLine, StallOrder, StallPhoto

Desks = Callable[..., BoundToolset]
Stored = Callable[[], Rows]


def lines_of(desk: BoundToolset, **which: Any) -> list[str]:
    """What the history says, line by line."""
    return [row.line for row in desk.changes(*CHAT, **which)]


def test_history_by_turn_and_by_row(desk_of: Desks) -> None:
    """History by turn and by row."""
    desk = desk_of()
    chat = desk.conversation("chat-7")
    chat.begin_turn()
    desk.call(*CHAT, "db_update", UPDATE, user="bob")
    chat.begin_turn()
    desk.call(*CHAT, "db_create", CREATE)

    first, second = desk.history("chat-7")
    assert (first.call, first.turn, first.tool, first.user) == (1, 1, "db_update", "bob")
    assert (first.by, first.state, first.arguments) == ("model", "done", UPDATE)
    assert first.seconds is not None
    assert (second.call, second.turn) == (2, 2)
    changed = (
        '- stall order "Desk" (stall_order_1): updated: status: OPEN -> PAID; '
        "total: 1.50 -> 3.45; doubled: 3.00 -> 6.90"
    )
    assert lines_of(desk, turn=1) == [changed]
    assert lines_of(desk, ref="stall_order_1") == [changed]
    assert [record.call for record in desk.history("chat-7", ref="stall_line_1")] == [2]
    assert desk.history("chat-7", turn=3) == []


def test_reads_and_refused_calls_are_not_kept(desk_of: Desks) -> None:
    """Reads and refused calls are not kept."""
    desk = desk_of()
    desk.call(*CHAT, "db_read", {"table": "stall_lines"})
    for tool, given in (
        ("db_delete", {**DELETE, "filters": by("id", "stall_order_9")}),
        ("db_read", {"table": "nowhere"}),
    ):
        assert desk.call(*CHAT, tool, given).failed

    assert desk.history("chat-7") == []


def test_what_is_rolled_back_is_not_kept(desk_of: Desks, shop: Engine) -> None:
    """What is rolled back is not kept."""
    desk = desk_of()
    with lost_commits(shop):
        desk.call(*CHAT, "db_update", UPDATE)

    assert desk.history("chat-7") == []


def test_hidden_columns_are_kept_and_not_shown(desk_of: Desks, stored: Stored) -> None:
    """Hidden columns are kept and not shown."""
    before = stored()
    desk = desk_of(hidden=[StallOrder.status, StallOrder.made_at])
    desk.call(*CHAT, "db_delete", DELETE)

    assert "OPEN" not in str(desk.history("chat-7"))
    assert desk.undo("chat-7", call=1, by="ann").refusal is None
    assert stored() == before


def test_columns_that_are_not_kept(desk_of: Desks, stored: Stored) -> None:
    """Nothing of an update or a delete is undone without them; the history has no value."""
    desk = desk_of(journal=Journal(without=[StallOrder.status]))
    desk.conversation("chat-7").begin_turn()
    for call, (tool, given) in enumerate([("db_update", UPDATE), ("db_delete", DELETE)], start=1):
        desk.call(*CHAT, tool, given)
        after = stored()
        for which in ({"turn": 1}, {"call": call}):
            assert "status, which is not kept" in refusal_of(desk, **which)["message"]
            assert stored() == after
    assert "PAID" not in str(desk.history("chat-7"))


@WRITES
def test_undo_and_redo(desk_of: Desks, stored: Stored, tool: str, given: dict[str, Any]) -> None:
    """All rows are as before, to the byte, with their keys, also generated ones."""
    desk, before = desk_of(), stored()
    desk.call(*CHAT, tool, given)
    after = stored()
    assert after != before

    planned = desk.undo("chat-7", call=1, by="ann", only_plan=True)
    assert stored() == after
    undone = desk.undo("chat-7", call=1, by="ann", plan=planned.token)
    assert undone.text == planned.text
    assert stored() == before
    record = desk.history("chat-7")[-1]
    assert (record.tool, record.by, record.user, record.undoes) == ("undo", "user", "ann", 1)

    assert desk.undo("chat-7", call=2, by="ann").refusal is None
    assert stored() == after


def test_refs_work_again(desk_of: Desks) -> None:
    """Refs work again."""
    desk = desk_of()
    shown = {"table": "stall_lines", "columns": ["text"], "order_by": "text"}
    rows = desk.call(*CHAT, "db_read", shown).value["rows"]
    desk.call(*CHAT, "db_delete", DELETE)
    assert desk.call(*CHAT, "db_update", UPDATE).failed

    desk.undo("chat-7", call=1, by="ann")

    assert desk.call(*CHAT, "db_read", shown).value["rows"] == rows
    assert not desk.call(*CHAT, "db_update", UPDATE).failed


def test_a_turn_is_undone_as_a_whole(desk_of: Desks, stored: Stored) -> None:
    """A turn is undone as a whole."""
    desk, before = desk_of(), stored()
    desk.conversation("chat-7").begin_turn()
    desk.call(*CHAT, "db_update", UPDATE)
    desk.call(*CHAT, "db_create", CREATE)
    new = {**UPDATE, "filters": by("id", "stall_order_2")}
    assert not desk.call(*CHAT, "db_update", new).failed
    desk.call(*CHAT, "db_update", {**UPDATE, "data": {"title": "Table"}})
    desk.call(*CHAT, "db_delete", DELETE)

    undone = desk.undo("chat-7", turn=1, by="ann")

    assert undone.refusal is None
    assert stored() == before


def test_a_later_change_is_not_lost(desk_of: Desks, shop: Engine, stored: Stored) -> None:
    """A later change is not lost."""
    desk = desk_of()
    desk.call(*CHAT, "db_update", UPDATE)
    execute(shop, "UPDATE stall_orders SET status = 'lost'")
    before = stored()

    refused = refusal_of(desk, call=1)
    assert refused["code"] == "undo_conflict"
    assert refused["conflicts"] == ['stall_order_1 "Desk": status was changed since']
    assert stored() == before


def test_a_change_of_another_column_stays(desk_of: Desks, shop: Engine) -> None:
    """A change of another column stays."""
    desk = desk_of()
    desk.call(*CHAT, "db_update", UPDATE)
    execute(shop, "UPDATE stall_orders SET title = 'Table'")

    assert desk.undo("chat-7", call=1, by="ann").refusal is None
    with Session(shop) as session:
        order = session.scalars(select(StallOrder)).one()
        assert (order.title, order.status) == ("Table", "OPEN")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO stall_lines (text, order_id) SELECT 'arm', id FROM stall_orders",
        "INSERT INTO stall_remarks (number, text, order_id) SELECT 2, '', id FROM stall_orders",
        "INSERT INTO stall_parcels (id, code, order_id) SELECT gen_random_uuid(), '', id "  # noqa: ISC004
        "FROM stall_orders",
    ],
)
def test_a_new_row_that_others_refer_to(
    desk_of: Desks, shop: Engine, stored: Stored, statement: str
) -> None:
    """A foreign key may block the delete, or delete or change the rows of others along."""
    desk = desk_of()
    desk.call(*CHAT, "db_create", CREATE)
    with shop.begin() as connection:
        connection.execute(text(f"{statement} WHERE title = 'Chair'"))
    before = stored()

    assert 'refers to stall_order_2 "Chair"' in refusal_of(desk, call=1)["message"]
    assert stored() == before


def test_a_row_that_came_back_otherwise_and_one_that_is_gone(desk_of: Desks, shop: Engine) -> None:
    """A row that came back otherwise and one that is gone."""
    desk = desk_of()
    desk.call(*CHAT, "db_update", UPDATE)
    with Session(shop) as session, session.begin():
        key = session.scalars(select(StallOrder.id)).one()
    desk.call(*CHAT, "db_delete", DELETE)

    assert "does not exist any more" in refusal_of(desk, call=1)["message"]

    save(shop, StallOrder(id=key, title="Other"))
    assert "exists again" in refusal_of(desk, call=2)["message"]


@pytest.mark.usefixtures("photo")
@pytest.mark.parametrize(("tool", "given"), [("db_delete", DELETE), ("redo_photos", {})])
def test_bytes_are_not_kept(desk_of: Desks, stored: Stored, tool: str, given: Any) -> None:
    """Only a digest, which shows that they were changed: the plan says so, an undo is refused."""
    desk = desk_of()

    @desk.tool
    def redo_photos(session: RefSession) -> str:
        """Change all photos."""
        session.execute(update(StallPhoto).values(content=b"new"))
        return "done"

    assert desk.plan(*CHAT, tool, given).lasting == ["content of 1 row in stall_photos"]
    desk.call(*CHAT, tool, given)
    before = stored()

    assert "content, which is not kept" in refusal_of(desk, call=1)["message"]
    assert stored() == before


def test_a_row_with_another_key(desk_of: Desks, stored: Stored, shop: Engine) -> None:
    """It is one row that is deleted and one that is created."""
    save(shop, StallLabel(id=11, name="blue"))
    desk, before = desk_of(), stored()

    @desk.tool
    def renumber(session: RefSession) -> str:
        """Give a label another key."""
        blue = StallLabel.name == "blue"
        session.execute(update(StallLabel).where(blue).values(id=12))
        return "done"

    desk.call(*CHAT, "renumber", {})
    after = stored()
    assert [row.action for row in desk.changes("chat-7")] == ["deleted", "created"]
    assert desk.undo("chat-7", call=1, by="ann").refusal is None
    assert stored() == before
    assert desk.undo("chat-7", call=2, by="ann").refusal is None
    assert stored() == after


def test_references_in_a_circle_and_unique_values(
    desk_of: Desks, shop: Engine, stored: Stored
) -> None:
    """Rows refer to each other, and a new row has taken a name that was free meanwhile."""
    execute(shop, "UPDATE stall_orders SET after_id = id")
    save(shop, StallLabel(id=7, name="new"))
    desk, before = desk_of(), stored()
    desk.call(*CHAT, "db_read", {"table": "stall_labels"})
    desk.conversation("chat-7").begin_turn()
    label = {"table": "stall_labels", "filters": by("name", "new")}
    given = {**label, "expect": {"count": 1}}
    assert not desk.call(*CHAT, "db_delete", given).failed
    assert not desk.call(
        *CHAT, "db_create", {"table": "stall_labels", "data": {"name": "new"}}
    ).failed
    desk.call(*CHAT, "db_delete", DELETE)

    assert desk.undo("chat-7", turn=1, by="ann").refusal is None
    assert stored() == before


REFUSING = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
        AS $$BEGIN RAISE EXCEPTION 'no' {state}; END$$;
    CREATE TRIGGER refuse BEFORE INSERT ON stall_orders FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize(
    ("change", "conflict"),
    [
        (REFUSING.format(state=""), "a trigger of the database forbids it"),
        (REFUSING.format(state="USING ERRCODE = '42501'"), "the database does not permit it"),
        (
            "ALTER TABLE stall_lines ALTER text TYPE int USING 0",
            "a value does not fit its column any more",
        ),
    ],
)
def test_a_database_that_refuses_an_undo(
    desk_of: Desks, shop: Engine, stored: Stored, change: str, conflict: str
) -> None:
    """A row cannot come back: nothing is undone, and the person is told why."""
    desk = desk_of()
    desk.call("chat-7", None, "db_delete", DELETE)
    with shop.begin() as connection:
        connection.exec_driver_sql(change)
    before = stored()

    async def undo(driver: str) -> Plan:
        other = create_async_engine(shop.url.set(drivername=f"postgresql+{driver}"))
        sessions = async_sessionmaker(other, class_=AsyncRefSession)
        people: Any = desk.toolset.bind(sessions, registry=RefRegistry(other)).aio
        plan: Plan = await people.undo("chat-7", call=1, by="ann")
        await other.dispose()
        return plan

    for driver in ("psycopg", "asyncpg"):
        refusal = asyncio.run(undo(driver)).refusal or {}
        assert refusal.get("conflicts") == [conflict]
    assert stored() == before


def test_an_undo_that_waits_too_long(desk_of: Desks, shop: Engine, stored: Stored) -> None:
    """For a row that somebody else has locked: nothing is undone, and it can be repeated."""
    before = stored()
    desk = desk_of(limits=Limits(seconds=0.2))
    desk.call(*CHAT, "db_update", UPDATE)
    with shop.begin() as connection:
        connection.exec_driver_sql("SELECT FROM stall_orders FOR UPDATE")
        refusal = refusal_of(desk, call=1)
    assert refusal["code"] == "undo_conflict"
    assert "longer than 0.2 seconds" in refusal["message"]
    assert desk.undo("chat-7", call=1, by="ann").refusal is None
    assert stored() == before


def test_an_undo_of_what_was_undone(desk_of: Desks, stored: Stored) -> None:
    """An undo of what was undone."""
    desk = desk_of()
    desk.call(*CHAT, "db_update", UPDATE)
    desk.undo("chat-7", call=1, by="ann")
    before = stored()

    assert desk.undo("chat-7", call=1, by="ann").refusal is not None
    assert desk.undo("chat-7", call=9, by="ann").refusal is not None
    assert stored() == before


def test_a_plan_that_is_not_true_any_more(desk_of: Desks, shop: Engine, stored: Stored) -> None:
    """A plan that is not true any more."""
    desk = desk_of()
    desk.call(*CHAT, "db_delete", DELETE)
    planned = desk.undo("chat-7", call=1, by="ann", only_plan=True)
    execute(shop, "DELETE FROM stall_parcels")
    before = stored()

    assert desk.undo("chat-7", call=1, by="ann", plan=planned.token).refusal is not None
    assert stored() == before


def test_values_are_deleted_by_age(desk_of: Desks) -> None:
    """Those that are older than the journal keeps them, and no others."""
    with pytest.raises(SetupError, match="for ever"):
        desk_of().prune_history()
    assert desk_of(journal=Journal(keep=timedelta(hours=1))).prune_history() == 0
    desk = desk_of(journal=Journal(keep=timedelta(0)))
    desk.call(*CHAT, "db_update", UPDATE)
    assert desk.prune_history() == 1

    [record] = desk.history("chat-7")
    assert (record.tool, record.arguments) == ("db_update", None)
    assert "PAID" not in str(record.changes)
    assert "not kept any more" in refusal_of(desk, call=1)["message"]


def test_values_of_a_row_are_erased(desk_of: Desks, shop: Engine, registry: RefRegistry) -> None:
    """Values of a row are erased."""
    desk = desk_of()
    with Session(shop) as session:
        key = session.scalars(select(StallOrder.id)).one()
    desk.call(*CHAT, "db_delete", DELETE)
    registry.erase(StallOrder, key)

    assert "Desk" not in str([row.model_dump() for row in desk.changes("chat-7")])
    assert desk.undo("chat-7", call=1, by="ann").refusal is not None


def test_what_hooks_change_is_undone_too(desk_of: Desks, stored: Stored) -> None:
    """What hooks change is undone too."""

    class Touch(Hooks):
        def after_write(self, write: Any, rows: Any) -> None:  # noqa: ARG002
            for line in write.session.scalars(select(StallLine)):
                line.text += "!"

    desk, before = desk_of(hooks={StallOrder: [Touch()]}), stored()
    desk.call(*CHAT, "db_update", UPDATE)
    assert any("top!" in row for row in stored()["stall_lines"])

    assert desk.undo("chat-7", call=1, by="ann").refusal is None
    assert stored() == before


def test_hooks_are_asked_before_an_undo(desk_of: Desks, stored: Stored) -> None:
    """For a link, as for an update of the row with its relationship; also of a plan."""
    asked: list[Any] = []

    class Ask(Hooks):
        def before_write(self, write: Any) -> None:
            asked.append((write.verb, write.undoes, write.refs, write.planned))

    desk, before = desk_of(hooks={StallOrder: [Ask()]}), stored()
    links = [{"field": "order_id", "op": "=", "value": "stall_order_1"}]
    calls = [
        ("update", "db_update", UPDATE),
        ("update", "db_delete", {"table": "stall_order_labels", "filters": links}),
        ("create", "db_delete", DELETE),
    ]
    for number, (verb, tool, arguments) in enumerate(calls):
        call = 2 * number + 1
        assert not desk.call(*CHAT, tool, arguments).failed
        asked.clear()
        for only_plan in (True, False):
            desk.undo("chat-7", call=call, by="ann", only_plan=only_plan)
        assert asked == [(verb, call, ["stall_order_1"], planned) for planned in (True, False)]
    assert stored() == before


def test_who_and_what_must_be_said(desk_of: Desks) -> None:
    """Who and what must be said."""
    desk = desk_of()
    for number in (None, 1):
        with pytest.raises(SetupError, match="one of call= and turn="):
            desk.undo("chat-7", by="ann", call=number, turn=number)
    with pytest.raises(SetupError, match="by="):
        desk.undo("chat-7", by="", call=1)


def test_a_forgotten_conversation_has_no_history(desk_of: Desks, shop: Engine) -> None:
    """A forgotten conversation has no history."""
    desk = desk_of()
    desk.call(*CHAT, "db_update", UPDATE)
    desk.conversation("chat-7").forget()

    assert desk.history("chat-7") == []
    with shop.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM alfred_refs_change")) == 0


def test_keys_are_in_no_history(desk_of: Desks, shop: Engine) -> None:
    """Keys are in no history."""
    desk = desk_of()
    with shop.connect() as connection:
        keys = [
            str(key) for key in connection.execute(text("SELECT id FROM stall_orders")).scalars()
        ]
    desk.call(*CHAT, "db_delete", DELETE)
    desk.call(*CHAT, "db_create", CREATE)
    said = str([row.model_dump() for row in desk.changes("chat-7")])

    assert not any(key in said or uuid.UUID(key).hex in said for key in keys)


@WRITES
def test_a_call_that_is_repeated_by_its_id_gets_the_same_answer(
    desk_of: Desks, stored: Stored, tool: str, given: dict[str, Any]
) -> None:
    """It is done once, and other arguments under the same id are another call."""
    desk = desk_of()

    first = desk.call(*CHAT, tool, given, call_id="call_1")
    after = stored()

    assert not first.failed
    assert desk.call(*CHAT, tool, given, call_id="call_1") == first
    assert stored() == after
    assert len(desk.history("chat-7")) == 1


def test_the_number_of_statements_does_not_grow_with_the_rows(
    desk_of: Desks, shop: Engine
) -> None:
    """Cascades are loaded together, and rows are changed back and brought back together."""

    def sent(number: int) -> tuple[int, int, int]:
        for n in range(number):
            lines = [StallLine(text="a"), StallLine(text="b")]
            label = StallLabel(id=1_000 * number + n, name=f"{number}-{n}")
            save(shop, StallOrder(title=f"Many {number}", lines=lines, labels=[label]))
        desk.call(*CHAT, "db_read", {"table": "stall_orders"})
        which = by("title", f"Many {number}")
        counts = []
        for act in (
            lambda: desk.call(*CHAT, "db_delete", {**DELETE, "filters": which}),
            lambda: desk.undo("chat-7", call=desk.history("chat-7")[-1].call, by="ann"),
            lambda: desk.undo("chat-7", call=desk.history("chat-7")[-1].call, by="ann"),
        ):
            statements.clear()
            result = act()
            assert not getattr(result, "failed", False), result
            assert getattr(result, "refusal", None) is None
            counts.append(len(statements))
        return counts[0], counts[1], counts[2]

    desk, statements = desk_of(), list[str]()
    event.listen(shop, "before_cursor_execute", lambda *args: statements.append(args[2]))
    sent(5)  # what is asked of the database once
    assert sent(6) == sent(20)


HOSTILE = [
    {"table": "nowhere"},
    {"table": "stall_orders", "filters": by("id", "\x00\ud800")},
    {"table": "stall_orders", "filters": by("id", "x" * 30_000)},
    {"table": {"a", "b"}, ("no", "JSON"): 1},
    {"table": "\\\\u0000 \N{GRINNING FACE}", "filters": ["\\ud800"]},
    '{"table": "stall_orders", "cursor": NaN}',
]


@pytest.mark.parametrize("arguments", HOSTILE)
def test_refusals_are_kept_if_the_journal_says_so(
    desk_of: Callable[..., BoundToolset], arguments: Any
) -> None:
    """With their arguments, as far as they can be stored, and their errors."""
    desk = desk_of(journal=Journal(refusals=True))
    refused = desk.call(*CHAT, "db_read", arguments, user="bob")
    assert refused.failed
    [record] = desk.history("chat-7")
    assert (record.state, record.tool, record.user) == ("refused", "db_read", "bob")
    assert not record.changes
    assert record.answer["error"]["code"] == refused.value["error"]["code"]
    assert desk.answer("chat-7", call=record.call).value == record.answer
    assert desk.approve(*CHAT, record.call, by="ann").value == record.answer
    assert (record.arguments is None) is any(each in str(arguments) for each in ("xxx", "JSON"))
    if arguments in (HOSTILE[0], HOSTILE[4]):
        assert record.arguments == arguments
    undone = desk.undo("chat-7", call=record.call, by="ann")
    assert undone.refusal is not None
    assert "is refused" in undone.refusal["message"]
    assert desk_of().history("chat-8") == []


def test_a_refusal_is_kept_without_keys(
    desk_of: Callable[..., BoundToolset], shop: Engine
) -> None:
    """In its arguments, in its answer and in the name of the tool."""
    with shop.connect() as connection:
        key = str(connection.exec_driver_sql("SELECT id FROM stall_orders").scalar_one())
    desk = desk_of(journal=Journal(refusals=True))
    update = {**UPDATE, "filters": by("id", key)}
    assert desk.call(*CHAT, "db_update", update).failed
    assert desk.call(*CHAT, key, {}).failed
    records = desk.history("chat-7")
    assert [record.tool for record in records] == ["db_update", "unknown tool"]
    assert key not in str([(record.arguments, record.answer) for record in records])
    assert records[0].arguments["data"] == UPDATE["data"]


def test_refusals_are_kept_in_memory_and_exported(shop: Engine) -> None:
    """By the store for tests, and by an export that another registry imports."""
    registry, other = RefRegistry(store=MemoryStore()), RefRegistry(store=MemoryStore())
    sessions = sessionmaker(shop, class_=RefSession)
    toolset, journal = Toolset(MODELS, expect="optional"), Journal(refusals=True)
    desk = toolset.bind(sessions, registry=registry, journal=journal)
    assert desk.call(*CHAT, "db_read", {"table": "nowhere"}).failed
    [record] = desk.history("chat-7")
    assert record.state == "refused"

    other.import_conversation(json.loads(json.dumps(registry.conversation("chat-7").export())))
    [copy] = toolset.bind(sessions, registry=other).history("chat-7")
    assert (copy.state, copy.answer) == ("refused", record.answer)


def test_a_rejected_call_is_kept_once(desk_of: Callable[..., BoundToolset]) -> None:
    """Its repetition is told the reason, and is no call of its own."""
    desk = desk_of(journal=Journal(refusals=True), consent=lambda _: True)
    number = desk.call(*CHAT, "db_update", UPDATE, call_id="a").pending or 0
    desk.reject(*CHAT, number, by="ann", reason="no")
    assert desk.call(*CHAT, "db_update", UPDATE, call_id="a").failed
    assert [record.state for record in desk.history("chat-7")] == ["rejected"]
