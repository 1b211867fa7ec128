"""Who may see what: hosts, origins, tokens, headers, and owners that must not see each other."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.testclient import TestClient

from alfred_refs import SetupError
from alfred_refs.inspector import Authenticate, LocalAccess, Operator, inspector_of
from alfred_refs.tools import BoundToolset
from tests.inspector import garden
from tests.inspector.conftest import SAME_ORIGIN, client_for
from tests.inspector.garden import ANN, BEN, CHAT, OTHER, Bed

pytestmark = pytest.mark.once

POSTS = ("search", "refs", "approve", "reject", "undo")
GETS = ("", "approvals", "conversation", "call", "prompt", "refs", "drafts")


@pytest.fixture
def local(desk: BoundToolset) -> LocalAccess:
    """Access for one person."""
    garden.ask_to_delete(desk)
    return LocalAccess("ann")


def local_client(desk: BoundToolset, access: LocalAccess, **options: Any) -> TestClient:
    """Return a client of an inspector with a token."""
    return TestClient(inspector_of(desk, authenticate=access), "http://127.0.0.1:8765", **options)


def test_the_token_is_exchanged_for_a_cookie(desk: BoundToolset, local: LocalAccess) -> None:
    """The address that follows has no token, and the cookie is for this site's pages alone."""
    client = local_client(desk, local)
    first = client.get(f"/approvals{local.query}&x=1", follow_redirects=False)

    assert (first.status_code, first.headers["location"]) == (303, "?x=1")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert local.token not in cookie
    assert "db_delete" in client.get("/approvals").text
    assert client.get(f"/{local.query}", follow_redirects=False).headers["location"] == "."


def test_nothing_is_shown_or_done_without_the_token(
    desk: BoundToolset, local: LocalAccess, garden_engine: Engine
) -> None:
    """Whatever the address, and whatever stands in place of the token."""
    client = local_client(desk, local)
    token = desk.approvals(CHAT, ANN)[0].plan.token
    values = {"id": CHAT, "call": "1", "plan": token}
    answers = [
        *(client.get(f"/{each}", params=values) for each in GETS),
        *(client.get("/", params={"token": each}) for each in ("", "é", local.token[:-1])),
        *(client.get("/", headers={"cookie": f"{local._cookie}={each}"}) for each in ("", "x")),
        *(
            client.post(f"/{each}", data=values, headers={"origin": "http://127.0.0.1:8765"})
            for each in POSTS
        ),
    ]

    assert {answer.status_code for answer in answers} == {403}
    assert not any("db_delete" in answer.text for answer in answers)
    assert len(garden.titles(garden_engine)) == 2


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.7"])
def test_another_host_is_refused(desk: BoundToolset, local: LocalAccess, host: str) -> None:
    """An address of this machine by a name of somebody else's is DNS rebinding."""
    client = local_client(desk, local)

    refused = client.get(f"/{local.query}", headers={"host": host}, follow_redirects=False)

    assert refused.status_code == 400
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({}, False),
        ({"origin": "http://localhost"}, True),
        ({"origin": "https://localhost"}, True),  # behind a proxy with TLS
        ({"origin": "http://localhost:9000"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://["}, False),
        ({"origin": "http://ann@localhost"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://localhost", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, False),
    ],
)
def test_only_pages_of_the_inspector_decide(
    desk: BoundToolset, garden_engine: Engine, headers: dict[str, str], is_allowed: bool
) -> None:
    """A form of another site, in the browser of an operator, is refused."""
    number = garden.ask_to_delete(desk)
    token = desk.approvals(CHAT, ANN)[0].plan.token
    app = inspector_of(desk, authenticate=lambda _: Operator("root", ...))
    client = TestClient(app, "http://localhost", headers=headers)

    answer = client.post("/approve", data={"id": CHAT, "call": number, "plan": token})

    assert answer.status_code == (200 if is_allowed else 403)
    assert len(garden.titles(garden_engine)) == (1 if is_allowed else 2)


@pytest.mark.parametrize("name", POSTS)
def test_each_form_is_checked(desk: BoundToolset, name: str) -> None:
    """None of the addresses that take a form does so for another site."""
    garden.ask_to_delete(desk)
    app = inspector_of(desk, authenticate=lambda _: Operator("root", ...))

    assert TestClient(app, "http://localhost").post(f"/{name}", data={}).status_code == 403
    assert TestClient(app, "http://localhost").get(f"/{name}x").status_code == 404


def test_all_responses_forbid_scripts_frames_and_copies(root: TestClient) -> None:
    """Pages, errors, redirects, the style sheet, and what is refused."""
    responses = [
        root.get("/"),
        root.get("/style.css"),
        root.get("/nothing"),
        root.post("/search", data={"q": ""}, follow_redirects=False),
        root.get("/", headers={"host": "evil.example"}),
        root.post("/search", data={}, headers={"origin": "null"}),
        root.delete("/"),
    ]

    assert [each.status_code for each in responses] == [200, 200, 404, 303, 400, 403, 405]
    for response in responses:
        policy = response.headers["content-security-policy"]
        assert "default-src 'self'; script-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "same-origin"
        assert response.headers["cache-control"] == "no-store"


def test_pages_have_neither_scripts_nor_inline_styles(
    root: TestClient, desk: BoundToolset
) -> None:
    """What the policy forbids is not there."""
    garden.ask_to_delete(desk)

    for name in GETS:
        page = root.get(f"/{name}", params={"id": CHAT, "call": 1}).text
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=|javascript:", page)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"q=%ff", "application/x-www-form-urlencoded", 400),
        (b"q=" + b"x" * 70_000, "application/x-www-form-urlencoded", 413),
    ],
)
def test_a_body_that_is_no_form_is_refused(
    root: TestClient, body: bytes, content_type: str, status: int
) -> None:
    """It is read up to a limit."""
    answer = root.post("/search", content=body, headers={"content-type": content_type})

    assert answer.status_code == status


# Owners


@pytest.fixture
def ann(desk: BoundToolset) -> TestClient:
    """A client whose operator sees Ann's conversations, where Ben's has a call that waits."""
    garden.ask_to_delete(desk)
    garden.ask_to_delete(desk, OTHER, BEN)
    desk.conversation(OTHER, BEN).draft(Bed, {"title": "Ben's draft"}, label="Ben's draft")
    return client_for(desk, "ann", ANN)


def test_an_operator_of_one_owner_sees_nothing_of_others(ann: TestClient) -> None:
    """On no page, by no search, and not by the address of a conversation that is there."""
    pages = [
        ann.get("/"),
        ann.get("/", params={"q": OTHER}),
        ann.get("/approvals"),
        ann.post("/search", data={"q": str(BEN)}),
        ann.get("/", params={"used": "2100-01-01T00:00:00+00:00", "after": OTHER}),
        ann.get("/approvals", params={"asked": "2000-01-01", "after": OTHER, "number": 1}),
    ]

    assert {page.status_code for page in pages} == {200}
    for page in pages:
        assert "Herbs" not in page.text
        assert "bed" not in page.text or CHAT in page.text
        assert f"id={OTHER}" not in page.text
    assert CHAT in pages[0].text
    assert "Roses" in pages[2].text


@pytest.mark.parametrize("name", [name for name in GETS if name not in ("", "approvals")])
def test_a_conversation_of_another_owner_is_as_one_that_is_not_there(
    ann: TestClient, name: str
) -> None:
    """The same page, so that nobody finds out which ids there are."""
    theirs = ann.get(f"/{name}", params={"id": OTHER, "call": 1})
    nobodys = ann.get(f"/{name}", params={"id": "chat-x", "call": 1})

    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert theirs.text == nobodys.text
    assert ann.get("/", params={"of": OTHER}).status_code == 404


def test_an_operator_decides_nothing_of_another_owner(
    ann: TestClient, desk: BoundToolset, garden_engine: Engine
) -> None:
    """Not even with the plan's own token."""
    desk.call(OTHER, BEN, "db_update", {**garden.one(), "data": {"note": "dig"}})
    token = desk.approvals(OTHER, BEN)[0].plan.token
    undo = desk.undo(OTHER, BEN, call=2, by="x", only_plan=True).token
    values: list[tuple[str, dict[str, Any]]] = [
        ("approve", {"call": 1, "plan": token}),
        ("reject", {"call": 1}),
        ("undo", {"call": 2}),
        ("undo", {"call": 2, "plan": undo}),
        ("refs", {"entity": "bed"}),
    ]

    answers = [ann.post(f"/{name}", data={"id": OTHER, **each}) for name, each in values]

    assert [answer.status_code for answer in answers] == [404] * 5
    assert [each.call for each in desk.approvals(OTHER, BEN)] == [1]
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]
    with Session(garden_engine) as session:
        assert session.scalars(select(Bed.note).filter_by(gardener=BEN)).one() == "dig"


def test_an_operator_without_owner_is_refused_where_there_are_owners(desk: BoundToolset) -> None:
    """A user whose tenant is empty by mistake does not see all tenants."""
    with pytest.raises(SetupError, match="'ann' has no owner"):
        client_for(desk, "ann", None).get("/")


def test_a_conversation_without_owner_is_not_opened_where_there_are_owners(
    root: TestClient, desk: BoundToolset
) -> None:
    """The toolset could not open it either."""
    desk.registry.conversation("nobody's").begin_turn()

    assert root.get("/").status_code == 200
    assert root.get("/conversation", params={"id": "nobody's"}).status_code == 404


# Authentication by an application


async def coroutine(request: Request) -> Operator | None:
    """Return an operator by a header, as a coroutine function."""
    name = request.headers.get("x-user")
    return Operator(name, ANN) if name else None


def function(request: Request) -> Operator | Response | None:
    """Return an operator, or a redirect to log in."""
    name = request.headers.get("x-user")
    return Operator(name, ANN) if name else RedirectResponse("/login", 303)


@pytest.mark.parametrize(("authenticate", "status"), [(coroutine, 403), (function, 303)])
def test_an_application_says_who_the_operator_is(
    desk: BoundToolset, authenticate: Authenticate, status: int
) -> None:
    """By a function or a coroutine function, which may also return a response."""
    garden.ask_to_delete(desk)
    app = inspector_of(desk, authenticate=authenticate, hosts=["*"])
    client = TestClient(app, follow_redirects=False)
    refused, seen = client.get("/"), client.get("/", headers={"x-user": "ann"})

    assert (refused.status_code, seen.status_code) == (status, 200)
    assert CHAT not in refused.text
    assert "ann" in seen.text


def test_what_is_no_operator_is_an_error(desk: BoundToolset) -> None:
    """`True` or a name would have no owner."""
    app = inspector_of(desk, authenticate=lambda _: "ann")  # type: ignore[arg-type]  # wrong

    with pytest.raises(SetupError, match="authenticate returned a str"):
        TestClient(app, "http://localhost").get("/")
    with pytest.raises(SetupError, match="no name"):
        Operator("", owner=1)


def test_it_is_mounted_in_an_application(desk: BoundToolset) -> None:
    """All addresses are relative to where it is mounted."""
    garden.ask_to_delete(desk)
    inspector = inspector_of(desk, authenticate=lambda _: Operator("root", ...))
    app = Starlette(routes=[Mount("/admin/agents", inspector)])
    client = TestClient(app, "http://localhost", headers=SAME_ORIGIN)
    page = client.get("/admin/agents/")
    addresses = re.findall(r'(?:href|action)="([^"]*)"', page.text)

    assert not any(each.startswith(("/", "http")) for each in addresses)
    assert client.get("/admin/agents/style.css").status_code == 200
    found = client.post("/admin/agents/search", data={"q": "ann"})
    assert str(found.url) == "http://localhost/admin/agents/?q=ann"
