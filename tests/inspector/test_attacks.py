"""Requests that no page of the inspector makes, and a database that is not there."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Journal
from tests.inspector import garden
from tests.inspector.conftest import client_for
from tests.inspector.garden import ANN, BEN, CHAT, HERBS, OTHER, ROSES
from tests.threads import at_once

# address → values that it reads
VALUES = {
    "GET /": ["q", "of", "used", "after", "note"],
    "GET /approvals": ["asked", "after", "number"],
    "GET /conversation": ["id", "before", "ref"],
    "GET /call": ["call", "row"],
    "GET /prompt": ["name"],
    "GET /refs": ["entity", "after"],
    "GET /drafts": ["after"],
    "POST /search": ["q"],
    "POST /refs": ["entity", "after"],
    "POST /approve": ["call", "plan"],
    "POST /reject": ["call", "reason"],
    "POST /undo": ["call", "turn", "plan"],
}
# values that are read together
WITH = {
    "used": {"after": OTHER},
    "asked": {"after": OTHER, "number": "1"},
    "row": {"call": "1"},
    "reason": {"call": "1"},
    "plan": {"call": "1"},
}
HOSTILE = [
    "",
    "a\0b",
    b"\xed\xa0\x80",
    b"\xff",
    "-1",
    "0",
    "9" * 400,
    "2147483647",
    "2147483648",
    "bed_99999999999999999999",
    "gen_bed_9",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999-23:59",
    "x" * 20_000,
    "' OR true --",
    "{{ 7*7 }}\r\nSet-Cookie: a=b",
    OTHER,
    str(HERBS),
]


@pytest.mark.whole
@pytest.mark.parametrize("address", VALUES)
def test_no_value_is_an_error_of_the_server(desk: BoundToolset, address: str) -> None:
    """It is refused, or selects nothing; nothing of another owner is shown."""
    garden.ask_to_delete(desk)
    garden.ask_to_delete(desk, OTHER, BEN)
    client = client_for(desk, "ann", ANN)
    method, path = address.split()
    form = {"content-type": "application/x-www-form-urlencoded"}
    for name in VALUES[address]:
        for value in HOSTILE:
            sent = urlencode({"id": CHAT, **WITH.get(name, {}), name: value})
            if method == "GET":
                answer = client.get(f"{path}?{sent}", follow_redirects=False)
            else:
                answer = client.post(path, content=sent, headers=form, follow_redirects=False)
            assert answer.status_code < 500, (name, value)
            assert "Herbs" not in answer.text
            assert str(BEN) not in answer.text
            assert not answer.cookies
            if address != "POST /refs":
                assert str(ROSES) not in answer.text
    assert [each.call for each in desk.approvals(OTHER, BEN)] == [1]


def test_what_a_person_approves_is_what_is_shown(desk: BoundToolset) -> None:
    """Characters that reverse a text, or are invisible, are escaped."""
    garden.read(desk)
    garden.update(desk, note="pay \u202e001\u202c \x1b[8mmore", title="\u2067Ro\u200bses")
    garden.ask_to_delete(desk)

    root = client_for(desk)
    pages = [root.get("/approvals").text, root.get(f"/call?id={CHAT}&call=1").text]
    assert all(r"pay \u202e001\u202c \x1b[8mmore" in page for page in pages)
    assert not set("".join(pages)) & {*"\u202e\u2067\x1b\u200b"}


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
def test_other_methods_do_nothing(desk: BoundToolset, method: str) -> None:
    """Not even for pages of the inspector, with all values of a form."""
    number = garden.ask_to_delete(desk)
    plan = desk.approvals(CHAT, ANN)[0].plan.token
    values: dict[str, Any] = {"id": CHAT, "call": number, "plan": plan}
    client = client_for(desk)

    answers = [client.request(method, f"/{each}", params=values) for each in ("", "approve")]
    answers.append(client.head("/approve", params=values))

    assert {answer.status_code for answer in answers} == {405}
    assert len(desk.approvals(CHAT, ANN)) == 1


def test_of_two_operators_who_decide_at_once_one_does(
    desk: BoundToolset, another_desk: BoundToolset
) -> None:
    """In two processes: the other changes nothing, and is shown the call as it is."""
    number = garden.ask_to_delete(desk)
    plan = desk.approvals(CHAT, ANN)[0].plan.token
    ann, bob = client_for(desk, "ann"), client_for(another_desk, "bob")
    form = {"id": CHAT, "call": number, "plan": plan}
    posts = (partial(ann.post, "/approve", data=form), partial(bob.post, "/reject", data=form))
    status = [answer.status_code for answer in at_once(*posts)]

    [record] = desk.history(CHAT, ANN, call=number)
    assert (record.state, record.decided_by, status) in [
        ("done", "ann", [200, 409]),
        ("rejected", "bob", [409, 200]),
    ]


@pytest.mark.parametrize("which", ["registry", "rows", "rows, asynchronous"])
def test_a_database_that_is_not_there(
    garden_engine: Engine, desk: BoundToolset, which: str
) -> None:
    """The page has neither keys nor the password, and the headers of all pages."""
    garden.ask_to_delete(desk)
    plan = desk.approvals(CHAT, ANN)[0].plan.token
    nowhere = "postgresql+psycopg://ann:hunter2@127.0.0.1:1/garden"
    sessions: Any = sessionmaker(create_engine(nowhere), class_=RefSession)
    refs = garden_engine
    if which == "registry":
        sessions, refs = sessionmaker(garden_engine, class_=RefSession), create_engine(nowhere)
    elif which == "rows, asynchronous":
        engine = create_async_engine(nowhere.replace("psycopg", "asyncpg"))
        sessions = async_sessionmaker(engine, class_=AsyncRefSession)
    broken = garden.toolset().bind(sessions, registry=RefRegistry(refs), journal=Journal())
    client = client_for(broken)

    answers = [
        client.get("/prompt", params={"id": CHAT}),
        client.post("/approve", data={"id": CHAT, "call": 1, "plan": plan}),
    ]

    assert [answer.status_code for answer in answers] == [503, 503]
    for answer in answers:
        assert "hunter2" not in answer.text
        assert str(ROSES) not in answer.text
        assert answer.headers["cache-control"] == "no-store"
