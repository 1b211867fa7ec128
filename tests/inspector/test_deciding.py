"""Approve, reject and undo: by the forms of the pages, as a browser sends them."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from alfred_refs.tools import BoundToolset
from tests.inspector import garden
from tests.inspector.conftest import client_for, hidden_values, text_of
from tests.inspector.garden import ANN, CHAT, ROSES, Bed
from tests.threads import at_once

pytestmark = pytest.mark.once


def test_a_call_is_approved_with_the_plan_that_was_seen(
    root: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """The operator is the one who has decided; the page afterwards can be reloaded."""
    garden.ask_to_delete(desk)

    page = root.get("/approvals").text
    assert "Delete 1 bed. With it: 1 plant deleted." in page
    assert "would be deleted bed Roses bed_1" in text_of(page)
    done = root.post("/approve", data=hidden_values(page, "approve"))

    assert garden.titles(garden_engine) == ["Herbs"]
    assert str(done.url) == f"http://localhost/call?id={CHAT}&call=1&note=approved"
    assert "decided by root" in text_of(done.text)
    assert "deleted bed Roses bed_1" in text_of(done.text)
    assert "would be" not in text_of(done.text)
    assert "No call waits." in root.get("/approvals").text


def test_a_call_is_not_approved_without_a_plan(
    root: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """Nobody approves what they have not seen."""
    number = garden.ask_to_delete(desk)

    refused = root.post("/approve", data={"id": CHAT, "call": number})

    assert refused.status_code == 400
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]


def test_a_call_whose_plan_has_changed_waits_with_the_new_one(
    root: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """The page says what differs, and has a form with the new plan."""
    garden.ask_to_delete(desk)
    values = hidden_values(root.get("/approvals").text, "approve")
    with Session(garden_engine) as session, session.begin():
        session.add(garden.Plant(bed_id=ROSES, name="Moss rose"))

    refused = root.post("/approve", data=values)

    assert refused.status_code == 409
    assert "Nothing was done" in refused.text
    assert "Moss rose" in refused.text
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]
    assert root.post("/approve", data=values).status_code == 409  # the old page, once more
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]
    assert root.post("/approve", data=hidden_values(refused.text, "approve")).status_code == 200
    assert garden.titles(garden_engine) == ["Herbs"]


def test_a_call_is_rejected_with_a_reason(
    root: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """The reason is for the model, without keys."""
    number = garden.ask_to_delete(desk)
    values = hidden_values(root.get("/conversation", params={"id": CHAT}).text, "reject")

    done = root.post("/reject", data={**values, "reason": f"not {ROSES}, é"})

    assert "rejected" in text_of(done.text)
    error = desk.answer(CHAT, ANN, number).value["error"]
    assert (error["code"], "not bed_1, é" in error["message"]) == ("rejected", True)
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]
    approved = root.post("/approve", data={**values, "plan": "t"})
    assert approved.status_code == 409


def test_what_was_done_cannot_be_rejected(root: TestClient, desk: BoundToolset) -> None:
    """The page says who has approved it."""
    number = garden.ask_to_delete(desk)
    token = desk.approvals(CHAT, ANN)[0].plan.token
    desk.approve(CHAT, ANN, number, by="ben", plan=token)

    refused = root.post("/reject", data={"id": CHAT, "call": number})

    assert refused.status_code == 409
    assert "ben" in refused.text


def test_two_operators_who_approve_at_once_delete_once(
    desk: BoundToolset, another_desk: BoundToolset, garden_engine: Engine
) -> None:
    """In two processes: both see that it is done, and one of them has decided it."""
    garden.ask_to_delete(desk)
    clients = [client_for(desk, "ann"), client_for(another_desk, "ben")]
    forms = [hidden_values(each.get("/approvals").text, "approve") for each in clients]
    both = zip(clients, forms, strict=True)
    posts = (partial(client.post, "/approve", data=form) for client, form in both)
    pages = [text_of(answer.text) for answer in at_once(*posts)]

    assert garden.titles(garden_engine) == ["Herbs"]
    [record] = desk.history(CHAT, ANN)
    assert record.decided_by in ("ann", "ben")
    assert all(f"decided by {record.decided_by}" in page for page in pages)


@pytest.mark.parametrize("what", [{"call": 1}, {"turn": 1}])
def test_an_undo_is_planned_before_it_is_done(
    root: TestClient, desk: BoundToolset, garden_engine: Engine, what: dict[str, int]
) -> None:
    """The first form shows the plan and changes nothing; that of the plan does it."""
    garden.read(desk)
    garden.update(desk, title="Old roses")

    planned = root.post("/undo", data={"id": CHAT, **what}).text

    assert "title Old roses Roses" in text_of(planned)
    assert garden.titles(garden_engine) == ["Herbs", "Old roses"]
    done = root.post("/undo", data=hidden_values(planned, "undo"))
    assert "The undo was done." in done.text
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]
    last = desk.history(CHAT, ANN)[-1]
    assert (last.tool, last.by, last.user) == ("undo", "user", "root")


def test_an_undo_that_would_lose_a_later_change_is_refused(
    root: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """With the names of the rows; also if the change came after the plan."""
    garden.read(desk)
    garden.update(desk, title="Old roses")
    planned = root.post("/undo", data={"id": CHAT, "call": 1}).text
    with Session(garden_engine) as session, session.begin():
        session.get_one(Bed, ROSES).title = "New roses"

    for values in ({"id": CHAT, "call": 1}, hidden_values(planned, "undo")):
        refused = root.post("/undo", data=values)
        assert refused.status_code == 409
        assert "title was changed since" in refused.text
    assert garden.titles(garden_engine) == ["Herbs", "New roses"]


def test_an_undo_is_of_a_call_or_a_turn(root: TestClient, desk: BoundToolset) -> None:
    """Of one of them."""
    garden.read(desk)

    assert root.post("/undo", data={"id": CHAT}).status_code == 400
    assert root.post("/undo", data={"id": CHAT, "call": 1, "turn": 1}).status_code == 400
    assert root.post("/undo", data={"id": CHAT, "call": 7}).status_code == 409
