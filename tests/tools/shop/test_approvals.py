"""Calls that a person must approve: decided once, and done as they were planned."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.errors import SetupError, UnknownRefError
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.tools import BoundToolset, Hooks, Journal, Plan, Ref, Toolset, is_planned
from tests.threads import at_once
from tests.tools.shop.conftest import (
    CHAT,
    CREATE,
    DELETE,
    MODELS,
    UPDATE,
    Rows,
    execute,
    lost_commits,
    refusal_of,
)
from tests.tools.shop.models import StallLabel, StallLine, StallOrder, StallParcel, StallRemark

Desks = Callable[..., BoundToolset]
Stored = Callable[[], Rows]

RULES: Any = {StallOrder: ["delete"]}


def code_of(answer: Any) -> Any:
    """The code of an answer's error; `None` if it has none."""
    return answer.value.get("error", {}).get("code")


def test_a_call_waits_for_a_person(desk_of: Desks, stored: Stored) -> None:
    """A call waits for a person."""
    desk, before = desk_of(consent=RULES), stored()

    answer = desk.call(*CHAT, "db_delete", DELETE, user="bob")

    assert answer.pending == 1
    assert not answer.failed
    assert answer.value["pending"]["would"] == "Delete 1 stall order."
    assert stored() == before
    [waiting] = desk.approvals("chat-7")
    assert (waiting.call, waiting.tool, waiting.user) == (1, "db_delete", "bob")
    assert waiting.arguments == DELETE
    assert waiting.plan == desk.plan(*CHAT, "db_delete", DELETE)


def test_approving_does_it_once(desk_of: Desks, stored: Stored) -> None:
    """Approving does it once."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)

    answer = desk.approve(*CHAT, 1, by="ann")
    after = stored()
    again = desk.approve(*CHAT, 1, by="eve")

    assert answer.value["deleted"] == ["stall_order_1"]
    assert after["stall_orders"] == []
    assert again.value == answer.value
    assert stored() == after
    [record] = desk.history("chat-7")
    assert (record.state, record.decided_by) == ("done", "ann")
    assert desk.approvals("chat-7") == []


def test_rejecting_tells_the_model_why(
    desk_of: Desks, stored: Stored, shop: Engine, registry: RefRegistry
) -> None:
    """In any words: keys and NUL are replaced, and the end of a long reason is left out."""
    desk, before = desk_of(consent=RULES), stored()
    desk.call(*CHAT, "db_delete", DELETE)
    with shop.connect() as connection:
        key = connection.execute(text("SELECT id FROM stall_orders")).scalar_one()

    answer = desk.reject(*CHAT, 1, by="ann", reason=f"{key} is not\0 paid" + "!" * 20_000)
    registry.import_conversation(desk.conversation(*CHAT).export(), id="chat-8")

    assert code_of(answer) == "rejected"
    assert "stall_order_1 is not paid" in answer.text
    assert desk.approve(*CHAT, 1, by="eve").value == answer.value
    assert desk.reject(*CHAT, 1, by="eve").value == answer.value
    assert stored() == before


def test_calls_that_need_nobody_are_done(desk_of: Desks) -> None:
    """Calls that need nobody are done."""
    desk = desk_of(consent=RULES)

    assert desk.call(*CHAT, "db_update", UPDATE).value["rows"][0]["status"] == "PAID"
    assert desk.call(*CHAT, "db_create", CREATE).pending is None
    assert desk.call(*CHAT, "db_read", {"table": "stall_orders"}).value["count"] == 2


UNLINK = {
    "table": "stall_order_labels",
    "filters": [{"field": "order_id", "op": "=", "value": "stall_order_1"}],
}


def _deletes_an_order(plan: Plan) -> bool:
    return any(row.entity == "stall_order" and row.action == "deleted" for row in plan.rows)


@pytest.mark.parametrize(
    ("rules", "tool", "given", "needed"),
    [
        ({StallLine: ["delete"]}, "db_delete", DELETE, True),  # they go along
        ({StallLine: "all"}, "db_create", CREATE, True),
        ({StallLine: ["update"]}, "db_create", CREATE, False),
        ({StallLabel: "all"}, "db_delete", DELETE, False),
        ({StallOrder: ["update"]}, "db_delete", UNLINK, True),
        ({StallOrder: ["create", "delete"]}, "db_delete", UNLINK, False),
        ({StallLabel: "all"}, "db_delete", UNLINK, False),  # it has no relationship
        (lambda plan: len(plan.rows) > 1, "db_delete", DELETE, True),
        (lambda plan: len(plan.rows) > 1, "db_update", UPDATE, False),
        (_deletes_an_order, "db_delete", DELETE, True),
        (_deletes_an_order, "db_update", UPDATE, False),
        (lambda plan: bool(plan.unseen), "db_delete", DELETE, False),
    ],
)
def test_rules(desk_of: Desks, rules: Any, tool: str, given: Any, needed: bool) -> None:
    """Rules."""
    answer = desk_of(consent=rules).call(*CHAT, tool, given)

    assert (answer.pending is not None) is needed


@pytest.mark.parametrize(
    "rules",
    [
        {StallRemark: "all"},
        {StallOrder: ["drop"]},
        {StallOrder: "delete"},
        {StallOrder: len},
        {"stall_orders": "all"},
        [StallOrder],
        "all",
    ],
)
def test_rules_that_mean_nothing(rules: Any) -> None:
    """Rules that mean nothing."""
    with pytest.raises(SetupError, match="consent"):
        Toolset(MODELS, consent=rules)


def test_a_draft_is_kept_once(desk_of: Desks) -> None:
    """It is approved as it was planned, although it is written outside the call's transaction."""
    desk = desk_of(consent=lambda _: True)
    draft = {"table": "stall_orders", "data": {"title": "Chair"}, "draft": True}
    assert desk.call(*CHAT, "db_create", draft).pending == 1
    answers = [desk.approve(*CHAT, 1, by="ann") for _ in range(2)]
    kept = [each.ref for each in desk.conversation("chat-7").drafts()]
    assert kept == [answers[0].value["rows"][0]["id"]]
    assert answers[0] == answers[1]


def test_a_preview_waits_for_nobody(desk_of: Desks) -> None:
    """It changes nothing, whatever the rules say."""
    desk = desk_of(consent=lambda _: True)
    look = {"table": "stall_orders", "row": "stall_order_1", "list": "marks", "preview": True}
    assert desk.call(*CHAT, "db_edit_list", look).value["count"] == 1
    assert desk.ask(*CHAT, "db_edit_list", look) is None
    assert desk.approvals("chat-7") == []


def test_a_change_meanwhile(desk_of: Desks, shop: Engine, stored: Stored) -> None:
    """A change meanwhile."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)
    [seen] = desk.approvals("chat-7")
    execute(shop, "UPDATE stall_lines SET text = 'board' WHERE text = 'top'")
    before = stored()

    assert code_of(desk.approve(*CHAT, 1, by="ann", plan=seen.plan.token)) == "plan_changed"
    assert stored() == before
    assert code_of(desk.approve(*CHAT, 1, by="ann", plan=seen.plan.token)) == "plan_changed"
    [waiting] = desk.approvals("chat-7")
    assert '"board"' in waiting.plan.text
    answer = desk.approve(*CHAT, 1, by="ann", plan=waiting.plan.token)
    assert answer.value["deleted"] == ["stall_order_1"]


def test_a_change_elsewhere_does_not_matter(desk_of: Desks, shop: Engine) -> None:
    """A change elsewhere does not matter."""
    desk = desk_of(consent={StallOrder: "all"})
    desk.call(*CHAT, "db_update", UPDATE)
    execute(shop, "UPDATE stall_orders SET title = 'Table'")

    assert code_of(desk.approve(*CHAT, 1, by="ann")) is None


def test_it_expires(desk_of: Desks, stored: Stored) -> None:
    """It expires."""
    desk, before = desk_of(consent=RULES, consent_expires=timedelta(0)), stored()
    desk.call(*CHAT, "db_delete", DELETE)

    answer = desk.approve(*CHAT, 1, by="ann")

    assert code_of(answer) == "rejected"
    assert "in time" in answer.text
    assert stored() == before
    assert desk.approvals("chat-7") == []
    assert desk.history("chat-7")[0].state == "expired"


def test_a_call_that_is_repeated(desk_of: Desks, stored: Stored) -> None:
    """A framework repeats calls after a crash: it has stored the answer, or it has not."""
    desk = desk_of(consent=RULES)

    waiting = desk.call(*CHAT, "db_delete", DELETE, call_id="call_1")
    assert desk.call(*CHAT, "db_delete", DELETE, call_id="call_1") == waiting
    done = desk.approve(*CHAT, 1, by="ann")
    after = stored()
    assert desk.call(*CHAT, "db_delete", DELETE, call_id="call_1") == done
    assert stored() == after


@pytest.mark.parametrize("decision", ["waits", "approved", "rejected", "expired", "refused"])
def test_the_model_learns_what_became_of_a_call(
    desk_of: Desks, shop: Engine, decision: str
) -> None:
    """As often as it calls `db_call_status`, also for an answer with marks of keys."""
    expires = {"consent_expires": timedelta(0)} if decision == "expired" else {}
    desk = desk_of(consent={StallOrder: "all"}, **expires)
    execute(shop, "UPDATE stall_orders SET title = id || ' <key_1>'")
    pending = desk.call(*CHAT, "db_update", UPDATE)
    assert "db_call_status with call 1" in pending.text
    status = partial(desk.call, *CHAT, "db_call_status", {"call": 1})
    match decision:
        case "waits":
            expected = pending
        case "approved":
            expected = desk.approve(*CHAT, 1, by="ann")
            assert "<stall_order_1>" in expected.text
        case "rejected":
            expected = desk.reject(*CHAT, 1, by="ann", reason="not yet")
        case "expired":
            expected = desk.answer(*CHAT, 1)
            assert "in time" in expected.text
        case _:
            execute(shop, "TRUNCATE stall_orders CASCADE")
            expected = desk.approve(*CHAT, 1, by="ann")
            assert code_of(expected) == "gone_ref"
    assert [status(), status()] == [expected, expected]


def test_a_tool_of_the_application_is_answered_without_keys(desk_of: Desks, shop: Engine) -> None:
    """When it is approved, and whenever the model asks later; values are JSON in both."""
    desk, day = desk_of(consent=lambda _: True), dt.date(2026, 11, 27)
    with Session(shop) as session:
        key = session.scalars(select(StallParcel.id)).one()

    @desk.tool
    def send(parcel: Ref[StallParcel]) -> dict[str, Any]:
        """Send a parcel."""
        return {"of": parcel, "key": key, "text": f"sent {key}", "day": day}

    desk.call(*CHAT, "db_read", {"table": "stall_parcels"})
    given = {"parcel": "stall_parcel_1", "_parcel_label": "P1"}
    assert desk.call(*CHAT, "send", given, call_id="call_1").pending == 1

    done = desk.approve(*CHAT, 1, by="ann")

    ref = "stall_parcel_1"
    assert done.value == {"of": ref, "key": ref, "text": f"sent <{ref}>", "day": "2026-11-27"}
    status = desk.call(*CHAT, "db_call_status", {"call": 1})
    again = desk.call(*CHAT, "send", given, call_id="call_1")
    assert [status, again, desk.answer(*CHAT, 1)] == [done] * 3
    assert desk.history(*CHAT)[0].answer == done.value


@pytest.mark.parametrize(
    "given",
    [
        {"error": "sold out"},
        {"error": None, "sent": 1},
        {"error": {"code": "plan_changed", "message": "?"}},
        {"pending": {"call": 99}},
    ],
)
def test_a_result_of_the_application_is_no_error(
    desk_of: Desks, stored: Stored, given: dict[str, Any]
) -> None:
    """Whatever its names are: it waits, is done, and is neither an error nor a waiting call."""
    desk = desk_of(consent=lambda _: True, journal=Journal(refusals=True))

    @desk.tool
    def close(session: RefSession, order: Ref[StallOrder]) -> dict[str, Any]:
        """Close an order."""
        session.get_one(StallOrder, order).status = "closed"
        return given

    asked = {"order": "stall_order_1", "_order_label": "Desk"}
    assert desk.call(*CHAT, "close", asked).pending == 1
    done = desk.approve(*CHAT, 1, by="ann")
    assert (done.value, done.failed, done.pending) == ({"result": given}, False, None)
    assert "CLOSED" in str(stored())


def test_a_tool_of_the_application_knows_that_it_is_planned(desk_of: Desks) -> None:
    """It runs for the plan and when it is approved; a draft is made at once, so only then."""
    desk = desk_of(consent=lambda _: True)

    @desk.tool
    def close(session: RefSession, chat: Conversation, order: Ref[StallOrder]) -> str:
        """Close an order, and draft another."""
        session.get_one(StallOrder, order).status = "closed"
        if not is_planned(session):
            chat.draft(StallOrder, {"title": "Chair"})
        return "closed"

    desk.call(*CHAT, "close", {"order": "stall_order_1", "_order_label": "Desk"})
    assert [*desk.conversation(*CHAT).drafts()] == []
    assert desk.approve(*CHAT, 1, by="ann").value == {"result": "closed"}
    assert len([*desk.conversation(*CHAT).drafts()]) == 1


def test_answers_have_nothing_that_is_hidden_by_now(desk_of: Desks) -> None:
    """Neither for the model, as often as it asks, nor for people; of an unlisted table nothing."""
    desk, chat = desk_of(consent={StallOrder: "all", StallLine: "all"}), ("chat-7", None)
    line = {"table": "stall_lines", "data": {"order_id": "stall_order_1", "text": "PAID"}}
    late = {**UPDATE, "expect": {"status": "OPEN"}}
    calls = [("db_update", UPDATE), ("db_create", line), ("db_update", late)]
    for number, call in enumerate(calls, 1):
        assert desk.call(*chat, *call, call_id=str(number)).pending == number
    for number in (1, 2, 3):
        assert "PAID" in desk.approve(*chat, number, by="ann").text

    rules = {StallOrder: "all"}
    later = desk_of([StallOrder], hidden=[StallOrder.status], consent=rules, journal=None)
    status = [later.call(*chat, "db_call_status", {"call": each}) for each in (1, 2, 3)]
    again = later.call(*chat, "db_update", UPDATE, call_id="1")
    decided = later.approve(*chat, 1, by="bob")
    assert [again, decided, later.answer(*chat, 1)] == [status[0]] * 3
    assert status[0].value["count"] == 1
    assert [each.value for each in status[1:]] == [{"done": {"call": 2}}, {"refused": {"call": 3}}]
    assert "PAID" not in status[0].text + str([each.answer for each in later.history(*chat)])


@pytest.mark.parametrize("call", [0, 1, 2, 10**30, -1, True, "x"])
def test_a_call_that_did_not_wait_has_no_status(desk_of: Desks, call: Any) -> None:
    """Not even one of the history."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_update", UPDATE)
    answer = desk.call(*CHAT, "db_call_status", {"call": call})
    expected = "invalid_arguments" if call == "x" else "unknown_call"
    assert code_of(answer) == expected


def test_a_call_made_again_waits_once(desk_of: Desks, shop: Engine) -> None:
    """With the plan of the last time, if the rows have changed meanwhile."""
    desk = desk_of(consent=RULES)
    for _ in range(2):
        assert desk.call(*CHAT, "db_delete", DELETE).pending == 1
    assert len(desk.approvals("chat-7")) == 1
    execute(shop, "UPDATE stall_lines SET text = 'board' WHERE text = 'top'")
    assert desk.call(*CHAT, "db_delete", DELETE).pending == 1
    [waiting] = desk.approvals("chat-7")
    assert '"board"' in waiting.plan.text
    assert not desk.approve(*CHAT, 1, by="ann", plan=waiting.plan.token).failed


@pytest.mark.parametrize("tool", ["db_delete", "db_create"])
def test_simultaneous_approvals(desk_of: Desks, stored: Stored, tool: str) -> None:
    """Simultaneous approvals."""
    given = {"db_delete": DELETE, "db_create": CREATE}[tool]
    desk = desk_of(consent={StallOrder: "all"})
    desk.call(*CHAT, tool, given)
    # as other processes would make them
    desks = {
        person: desk_of(consent={StallOrder: "all"}) for person in ("ann", "bob", "cid", "dan")
    }
    answers = at_once(*(partial(other.approve, *CHAT, 1, by=by) for by, other in desks.items()))

    assert len({answer.text for answer in answers}) == 1
    assert not answers[0].failed
    assert len(stored()["stall_orders"]) == (0 if tool == "db_delete" else 2)
    assert len([r for r in desk.history("chat-7") if r.state == "done"]) == 1


def test_without_a_journal(desk_of: Desks) -> None:
    """Without a journal."""
    desk = desk_of(consent=RULES, journal=None)
    desk.call(*CHAT, "db_update", UPDATE)
    desk.call(*CHAT, "db_delete", DELETE)

    assert not desk.approve(*CHAT, 1, by="ann").failed
    [record] = desk.history("chat-7")
    assert record.changes == ()


def test_calls_of_all_conversations(desk_of: Desks) -> None:
    """Calls of all conversations."""
    desk = desk_of(consent=RULES)
    desk.call("chat-8", None, "db_read", {"table": "stall_orders"})
    for chat in ("chat-8", "chat-7"):
        desk.call(chat, None, "db_delete", DELETE)

    assert [each.conversation for each in desk.approvals()] == ["chat-8", "chat-7"]
    assert len(desk.approvals(limit=1)) == 1


def test_a_call_in_a_transaction_of_the_application(
    desk_of: Desks, shop: Engine, registry: RefRegistry
) -> None:
    """A call in a transaction of the application."""
    desk = desk_of(consent=RULES)
    with RefSession(shop, conversation=registry.conversation("chat-7")) as session:
        with session.begin():
            order = session.get(StallOrder, "stall_order_1")
            order.title = "Table"
            answer = desk.toolset.call(session, "db_delete", DELETE)
            assert "pending" in answer
        assert session.get(StallOrder, "stall_order_1").title == "Table"

    [waiting] = desk.approvals("chat-7")
    assert '"Table"' in waiting.plan.text


def test_a_lost_commit_in_one_database_leaves_it_waiting(
    desk_of: Desks, shop: Engine, stored: Stored
) -> None:
    """A lost commit in one database leaves it waiting."""
    desk, before = desk_of(consent=RULES), stored()
    desk.call(*CHAT, "db_delete", DELETE)
    with lost_commits(shop):
        desk.approve(*CHAT, 1, by="ann")

    assert stored() == before
    assert not desk.approve(*CHAT, 1, by="ann").failed


def test_who_acts_is_known_to_hooks_and_to_the_database(desk_of: Desks) -> None:
    """Who acts is known to hooks and to the database."""
    users = []

    class Note(Hooks):
        def before_write(self, write: Any) -> None:
            now = text("SELECT nullif(current_setting('alfred.user', true), '')")
            users.append((write.user, write.session.scalar(now)))

    desk = desk_of(hooks={StallOrder: [Note()]}, consent=RULES)
    desk.call(*CHAT, "db_update", UPDATE, user="bob")
    desk.call(*CHAT, "db_update", UPDATE)
    assert users[0] == users[1] == ("bob", "bob")  # planned, and done
    assert users[2] == (None, None)

    users.clear()
    desk.call(*CHAT, "db_delete", DELETE, user="bob")
    desk.approve(*CHAT, 1 + len(desk.history("chat-7")) - 1, by="ann")
    assert {user for user, _ in users} == {"bob"}


async def test_asynchronous_sessions(shop: Engine) -> None:
    """What people do is awaited, too."""
    engine = create_async_engine(shop.url.set(drivername="postgresql+psycopg_async"))
    desk = Toolset(MODELS, expect="optional", consent=RULES).bind(
        async_sessionmaker(engine, class_=AsyncRefSession),
        registry=RefRegistry(engine),
        journal=Journal(refusals=True),
    )
    await desk.call_async(*CHAT, "db_read", {"table": "stall_orders"})
    with pytest.raises(SetupError, match="aio"):
        desk.plan(*CHAT, "db_delete", DELETE)
    with pytest.raises(SetupError, match=r"desk\.aio"):
        desk.history("chat-7")
    plan = await desk.aio.plan(*CHAT, "db_delete", DELETE)
    answer = await desk.call_async(*CHAT, "db_delete", DELETE, user="bob")
    [waiting] = await desk.aio.approvals("chat-7")
    assert waiting.plan == plan
    assert answer.pending == waiting.call
    await desk.aio.approve(*CHAT, waiting.call, by="ann")
    undone = await desk.aio.undo("chat-7", call=waiting.call, by="ann")
    assert undone.refusal is None

    @desk.tool
    async def clear(session: AsyncRefSession) -> int:
        """Delete all orders."""
        found = (await session.scalars(select(StallOrder))).all()
        for each in found:
            await session.delete(each)
        return len(found)

    assert (await desk.call_async(*CHAT, "clear", {})).pending == 3
    assert (await desk.aio.approve(*CHAT, 3, by="ann")).value == {"result": 1}
    assert (await desk.call_async(*CHAT, "db_read", {"table": "none"})).failed
    records = await desk.aio.history("chat-7")
    assert [record.state for record in records] == ["done", "done", "done", "refused"]
    await engine.dispose()


def test_the_model_has_no_way_to_approve(desk_of: Desks) -> None:
    """The model has no way to approve."""
    desk = desk_of(consent=RULES)
    names = {tool["function"]["name"] for tool in desk.schemas("openai")}

    tools = {"db_read", "db_create", "db_update", "db_delete", "db_edit_list"}
    assert names == {*tools, "db_call_status"}
    for tool in ("approve", "undo", "plan", "reject"):
        assert code_of(desk.call(*CHAT, tool, {"call": 1})) == "unknown_tool"


def test_what_is_not_seen_needs_a_person_and_is_not_undone(desk_of: Desks) -> None:
    """SQL as text may do what the rules are about."""

    class Log(Hooks):
        def before_write(self, write: Any) -> None:
            write.session.execute(text("DELETE FROM stall_parcels"))

    hooks = {StallOrder: [Log()]}
    waiting = desk_of(hooks=hooks, consent={StallParcel: ["delete"]})
    assert waiting.call(*CHAT, "db_update", UPDATE).pending == 1
    assert not waiting.approve(*CHAT, 1, by="ann").failed

    free = desk_of(hooks=hooks)
    free.call(*CHAT, "db_update", {**UPDATE, "data": {"title": "Table"}})
    for call in (1, 2):
        message = refusal_of(free, call=call)["message"]
        assert "SQL as text, whose changes are not known" in message


def test_an_id_with_other_arguments_is_another_call(desk_of: Desks, stored: Stored) -> None:
    """Some models number their calls anew in each turn, and people edit arguments."""
    desk, before = desk_of(consent={StallOrder: "all"}), stored()
    delete = desk.call(*CHAT, "db_delete", DELETE, call_id="call_1")
    create = desk.call(*CHAT, "db_create", CREATE, call_id="call_1")
    again = desk.call(*CHAT, "db_create", CREATE, call_id="call_1")

    assert (delete.pending, create.pending, again.pending) == (1, 2, 2)
    assert [(each.call_id, each.is_edited) for each in desk.approvals("chat-7")] == [
        ("call_1", False),
        ("call_1", True),
    ]
    desk.approve(*CHAT, 2, by="ann")
    assert desk.call(*CHAT, "db_delete", DELETE, call_id="call_1") == delete
    assert len(stored()["stall_orders"]) == len(before["stall_orders"]) + 1


def test_asking_before_a_call(desk_of: Desks, stored: Stored) -> None:
    """It is stored if it needs a person, and nothing is done in any case."""
    desk, before = desk_of(consent=RULES), stored()
    nobody = desk_of()

    assert desk.ask(*CHAT, "db_update", UPDATE) is None
    assert desk.ask(*CHAT, "db_read", {"table": "stall_orders"}) is None
    assert desk.ask(*CHAT, "db_delete", {"table": "chairs"}) is None
    assert nobody.ask(*CHAT, "db_delete", DELETE) is None
    asked = desk.ask(*CHAT, "db_delete", DELETE, user="bob", call_id="call_1")
    again = desk.ask(*CHAT, "db_delete", DELETE, user="bob", call_id="call_1")

    assert asked is not None
    assert asked == again == desk.answer(*CHAT, 1)
    assert asked.pending == 1
    assert stored() == before
    [waiting] = desk.approvals("chat-7")
    assert waiting.user == "bob"
    done = desk.approve(*CHAT, 1, by="ann")
    assert desk.call(*CHAT, "db_delete", DELETE, call_id="call_1") == done
    assert desk.answer(*CHAT, 1) == done
    assert code_of(desk.answer(*CHAT, 9)) == "unknown_call"


def test_a_call_that_cannot_be_done_any_more_waits_no_longer(desk_of: Desks, shop: Engine) -> None:
    """The model is told why, and can call again."""
    desk = desk_of(consent=RULES)
    delete = {**DELETE, "expect": "Desk"}
    desk.call(*CHAT, "db_delete", delete, call_id="call_1")
    execute(shop, "UPDATE stall_orders SET title = 'Table'")

    assert code_of(desk.approve(*CHAT, 1, by="ann")) == "unexpected_row"
    assert desk.approvals("chat-7") == []
    told = desk.call(*CHAT, "db_delete", delete, call_id="call_1")
    assert code_of(told) == "unexpected_row"
    [record] = desk.history("chat-7")
    assert (record.state, record.decided_by, record.reason) == ("refused", "ann", None)


def test_a_change_is_said(desk_of: Desks, shop: Engine) -> None:
    """A person sees what differs from the plan, also of rows that go along."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)
    execute(shop, "UPDATE stall_orders SET status = 'paid'")

    answer = desk.approve(*CHAT, 1, by="ann")

    assert "status was OPEN in the plan, and is PAID now" in answer.value["error"]["message"]


def test_a_conversation_is_forgotten_while_a_call_is_approved(
    desk_of: Desks, shop: Engine, stored: Stored
) -> None:
    """Nothing is done; and nobody has rejected the call, as the answer would say."""
    desk, before = desk_of(consent=RULES), stored()
    desk.call(*CHAT, "db_delete", DELETE)

    @event.listens_for(shop, "before_cursor_execute")
    def forget(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("DELETE FROM stall_orders"):
            desk.conversation("chat-7").forget()

    assert code_of(desk.approve(*CHAT, 1, by="ann")) == "unknown_call"
    assert stored() == before


@pytest.mark.parametrize("call", [9, 0, -1, 2**40, None, "1"])
def test_a_call_that_there_is_not(desk_of: Desks, call: Any) -> None:
    """It is said in words for people."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)

    assert code_of(desk.approve(*CHAT, call, by="ann")) == "unknown_call"
    assert code_of(desk.reject(*CHAT, call, by="ann")) == "unknown_call"
    refused = desk.undo("chat-7", call=call, turn=7 if call is None else None, by="ann").refusal
    assert refused is not None


def test_what_was_done_is_not_rejected(desk_of: Desks) -> None:
    """Who rejects it is told."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)
    desk.approve(*CHAT, 1, by="ann")

    answer = desk.reject(*CHAT, 1, by="eve")

    assert code_of(answer) == "already_done"
    assert "ann has approved it" in answer.text


def test_what_waits_is_not_undone(desk_of: Desks) -> None:
    """The refusal says that it waits."""
    desk = desk_of(consent=RULES)
    desk.call(*CHAT, "db_delete", DELETE)

    assert "call 1 is waiting" in refusal_of(desk, call=1)["message"]


@pytest.mark.parametrize("name", ["", "a\0b", "a\ud800", object(), None])
def test_people_have_names_that_can_be_stored(desk_of: Desks, stored: Stored, name: Any) -> None:
    """The user of a call, if it has one, and people who approve, reject or undo."""
    desk, before = desk_of(consent=RULES), stored()
    desk.call(*CHAT, "db_delete", DELETE)
    acts: list[Callable[[], object]] = [
        lambda: desk.call(*CHAT, "db_update", UPDATE, user=name or ""),
        lambda: desk.plan(*CHAT, "db_update", UPDATE, user=name or ""),
        lambda: desk.approve(*CHAT, 1, by=name),
        lambda: desk.reject(*CHAT, 1, by=name),
        lambda: desk.undo(*CHAT, call=1, by=name),
    ]
    for act in acts:
        with pytest.raises(SetupError, match="has no text"):
            act()
    assert stored() == before
    assert [each.call for each in desk.approvals("chat-7")] == [1]


def test_a_rejected_call_that_is_repeated_says_so(desk_of: Desks) -> None:
    """A person is asked again, as the user may want it by now; the model is reminded."""
    desk = desk_of(consent=RULES)
    first = desk.call(*CHAT, "db_delete", DELETE)
    assert "rejected" not in first.text
    desk.reject(*CHAT, 1, by="ann", reason="not yet")
    again = desk.call(*CHAT, "db_delete", DELETE)
    assert again.pending == 2
    assert "rejected before (not yet)" in again.text


def test_each_user_has_a_call_of_their_own(desk_of: Desks) -> None:
    """Two users ask for the same: each waits, is decided, and is done for that user."""
    desk = desk_of(consent=RULES)
    numbers = [
        desk.call(*CHAT, "db_delete", DELETE, user=user, call_id=user).pending
        for user in ("ann", "bob", "ann", None)
    ]
    assert numbers == [1, 2, 1, 3]
    assert [each.user for each in desk.approvals("chat-7")] == ["ann", "bob", None]

    desk.reject(*CHAT, 1, by="eve")
    again = desk.call(*CHAT, "db_delete", DELETE, user="bob")
    assert "rejected before" not in again.value["pending"]["message"]
    desk.approve(*CHAT, 2, by="eve")
    assert [(each.user, each.state) for each in desk.history("chat-7")][:2] == [
        ("ann", "rejected"),
        ("bob", "done"),
    ]


def test_an_empty_id_names_no_call(desk_of: Desks) -> None:
    """Some providers send one with each call: the second is not a repetition of the first."""
    desk = desk_of()
    made = [desk.call(*CHAT, "db_create", CREATE, call_id="") for _ in range(2)]
    first, second = (answer.value["rows"][0]["id"] for answer in made)
    assert first != second


def test_the_history_is_asked_for_by_refs(desk_of: Desks) -> None:
    """A text that is no ref is an error, and a call that there is not has an answer."""
    desk = desk_of()
    for read in (desk.history, desk.changes):
        with pytest.raises(UnknownRefError, match="'order 1' is not a known ref"):
            read("chat-7", ref="order 1")
        assert read("chat-7", ref="stall_order_9") == []
    assert desk.answer(*CHAT, 10**30).failed
