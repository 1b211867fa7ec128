"""Reading pages: what is on them, page by page, and what is not."""

from __future__ import annotations

import re
import uuid
from datetime import date
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from starlette.testclient import TestClient

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.context import Step
from alfred_refs.inspector import Operator, inspector_of, pages
from alfred_refs.store import NewCall
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, Hooks, Journal, Reading, Toolset
from tests.inspector import garden
from tests.inspector.conftest import client_for, text_of
from tests.inspector.garden import ANN, BEN, CHAT, OTHER, ROSES, Bed, Plant

pytestmark = pytest.mark.once


def links(html: str, name: str) -> list[str]:
    """Return the addresses of links with a text."""
    found = re.findall(
        rf'<a href="([^"]*)"[^>]*>{name}<', html.replace("<code>", "").replace("</code>", "")
    )
    return [unescape(each) for each in found]


def test_conversations_are_listed_with_owner_and_refs(
    root: TestClient, desk: BoundToolset
) -> None:
    """The last used is the first."""
    garden.read(desk)
    garden.read(desk, OTHER, BEN)

    page = text_of(root.get("/").text)

    assert page.index(OTHER) < page.index(CHAT)
    assert str(ANN) in page
    assert "bed 1" in page


def test_many_conversations_are_paged(root: TestClient, desk: BoundToolset) -> None:
    """Each is on one page; a search and an owner go along to the next page."""
    for number in range(104):
        desk.conversation(f"talk {number:03}/?&#", ANN if number else BEN).begin_turn()
    seen: list[str] = []
    address = "/"
    while address:
        page = root.get(address).text
        found = re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', page)
        assert len(found) <= 50
        seen += found
        address = next((f"/{each}" for each in links(page, "Next page")), "")
    page = root.post("/search", data={"q": "TALK 0"}).text
    [more] = links(page, "Next page")
    of_ann = root.get(f"/?of={quote('talk 001/?&#')}").text
    [more_of_ann] = links(of_ann, "Next page")
    [last] = links(root.get(f"/{more_of_ann}").text, "Next page")

    assert seen == [f"talk {number:03}/?&amp;#" for number in reversed(range(104))]
    assert text_of(page).count("talk 0") == 50
    assert text_of(root.get(f"/{more}").text).count("talk 0") == 50
    assert links(root.get(f"/{more}").text, "Next page") == []
    assert root.get(f"/{last}").text.count('<th scope="row">') == 3


def test_a_search_finds_an_owner_without_showing_it_in_the_address(
    root: TestClient, desk: BoundToolset
) -> None:
    """The owner is a key: the address has one of the owner's conversations."""
    garden.read(desk)
    garden.read(desk, OTHER, BEN)

    found = root.post("/search", data={"q": str(ANN)})

    assert str(found.url) == f"http://localhost/?of={CHAT}"
    assert OTHER not in found.text
    assert str(root.post("/search", data={"q": ""}).url) == "http://localhost/"


def test_a_conversation_shows_calls_by_turn_with_what_they_changed(
    root: TestClient, desk: BoundToolset
) -> None:
    """The last turn first; each changed field before and after, who and how long."""
    garden.read(desk)
    garden.update(desk, title="Old roses", note="prune")
    garden.read(desk)
    garden.update(desk, note=None)

    html = root.get("/conversation", params={"id": CHAT}).text
    page = text_of(html)

    assert page.index("Turn 2") < page.index("Turn 1")
    assert "Call 1 db_update done by bob" in page
    assert "title Roses Old roses note nothing prune" in page
    assert re.search(r"took \d+ ms", page)
    assert "Fields that the model saw" in page
    assert '"note": "prune"' in page  # the arguments


def test_many_calls_are_paged(root: TestClient, desk: BoundToolset) -> None:
    """A page has 25, and a link to the earlier ones."""
    garden.read(desk)
    for number in range(30):
        garden.update(desk, note=f"note {number}")

    html = root.get("/conversation", params={"id": CHAT}).text

    assert "Call 30" in html
    assert "Call 5 " not in text_of(html)
    [earlier] = links(html, "Earlier calls")
    page = text_of(root.get(f"/{earlier}").text)
    assert [f"Call {number} db" in page for number in (6, 5, 1)] == [False, True, True]


def test_a_call_with_many_rows_is_paged(
    root: TestClient, desk: BoundToolset, garden_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a list it has ten, on a page of its own more: of a plan and of what was done."""
    monkeypatch.setattr(pages, "_ROWS", 20)
    with Session(garden_engine) as session, session.begin():
        session.add_all([Plant(bed_id=ROSES, name=f"plant {number}") for number in range(43)])
    number = garden.ask_to_delete(desk)

    def counts() -> list[int]:
        in_list = root.get("/conversation", params={"id": CHAT}).text
        own = [root.get("/call", params={"id": CHAT, "call": number}).text]
        while more := links(own[-1], "Next rows"):
            own.append(root.get(f"/{more[0]}").text)
        return [each.count('<table class="row ') for each in [in_list, *own]]

    assert counts() == [10, 20, 20, 5]
    assert "and 35 more rows" in root.get("/conversation", params={"id": CHAT}).text
    [waiting] = desk.approvals(CHAT, ANN)
    assert not desk.approve(CHAT, ANN, number, by="ann", plan=waiting.plan.token).failed
    assert counts() == [10, 20, 20, 5]
    assert links(root.get("/conversation", params={"id": CHAT}).text, f"All rows of call {number}")


def test_calls_of_one_row_are_found_by_its_ref(root: TestClient, desk: BoundToolset) -> None:
    """The refs of rows are links to what has changed them."""
    garden.read(desk)
    garden.update(desk, note="prune")
    garden.call(desk, "db_create", {"table": "garden_beds", "data": {"title": "New"}})

    [link] = links(root.get("/refs", params={"id": CHAT}).text, "bed_1")
    page = text_of(root.get(f"/{link}").text)

    assert "Call 1 db_update" in page
    assert "db_create" not in page


def test_refs_are_listed_with_label_and_whether_their_row_is_there(
    root: TestClient, desk: BoundToolset
) -> None:
    """By kind, a hundred on a page."""
    garden.read(desk)
    chat = desk.conversation(CHAT, ANN)
    chat.refer_all(Bed, [uuid.uuid4() for _ in range(120)])
    with desk.sessions(conversation=chat, owner=desk.toolset.ownership.of(ANN)) as session:  # type: ignore[union-attr]  # it has one
        session.delete(session.get(Bed, "bed_1"))
        session.commit()

    html = root.get("/refs", params={"id": CHAT, "entity": "bed"}).text

    assert "bed_1 Roses was deleted" in text_of(html)
    assert "bed_100" in html
    assert "bed_101" not in html
    [more] = links(html, "Next page")
    second = root.get(f"/{more}").text
    assert "bed_121" in second
    assert links(second, "Next page") == []


def test_keys_are_shown_on_request_only(root: TestClient, desk: BoundToolset) -> None:
    """No page and no address has one, unless a form asks for them."""
    garden.read(desk)
    garden.update(desk, note=f"see {ROSES}", title=f"Roses {ROSES}")
    garden.ask_to_delete(desk)
    found = [
        root.get(f"/{each}", params={"id": CHAT, "call": 1})
        for each in ("conversation", "call", "prompt", "refs", "drafts", "approvals")
    ]

    found += [root.get("/call", params={"id": CHAT, "call": 2})]
    found += [root.post("/undo", data={"id": CHAT, "call": 1})]

    assert [page.status_code for page in found] == [200] * 8
    assert all(str(ROSES) not in page.text for page in found)
    of_root = pages.Pages(desk, Operator("root", ...))
    assert {ref.key for ref in of_root.refs(CHAT, "bed")["refs"]} == {None}
    shown = root.post("/refs", data={"id": CHAT, "entity": "bed"})
    assert str(ROSES) in shown.text
    assert str(ROSES) not in str(shown.url)
    assert shown.headers["cache-control"] == "no-store"


def test_hidden_columns_stay_hidden(root: TestClient, desk: BoundToolset) -> None:
    """In changes and plans they are counted; no value is shown."""
    garden.ask_to_delete(desk)
    waiting = root.get("/approvals").text
    garden.call(desk, "db_create", {"table": "garden_beds", "data": {"title": "New"}})
    pages = [root.get(f"/{each}", params={"id": CHAT}).text for each in ("conversation", "refs")]

    assert "treasure" not in "".join([waiting, *pages])
    assert "Roses" in waiting


def test_columns_that_are_hidden_by_now_are_hidden_in_old_calls_and_plans(
    garden_engine: Engine, desk: BoundToolset
) -> None:
    """A toolset that hides a column hides it in what was done before, too."""
    garden.read(desk)
    garden.update(desk, note="a note to hide")
    garden.ask_to_delete(desk)
    stricter = Toolset(
        [Bed],
        owner=desk.toolset.ownership,
        hidden=[Bed.note, Bed.secret],
        consent={Bed: ["delete"]},
    ).bind(sessionmaker(garden_engine, class_=RefSession), registry=RefRegistry(garden_engine))
    client = client_for(stricter)

    pages = [
        client.get("/approvals"),
        client.get("/conversation", params={"id": CHAT}),
        client.get("/call", params={"id": CHAT, "call": 1}),
        client.get("/call", params={"id": CHAT, "call": 2}),
    ]

    assert [page.status_code for page in pages] == [200] * 4
    assert "a note to hide" not in "".join(page.text for page in pages)
    assert "Dog rose" not in pages[0].text
    assert "1 row of other tables deleted" in pages[0].text


class Discreet(Hooks):
    """Shows no model the title of a bed."""

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
        """Replace the titles."""
        for row in rows:
            row["title"] = "a bed"


def test_labels_that_hooks_may_hide_are_not_shown(
    garden_engine: Engine, desk: BoundToolset
) -> None:
    """The registry has them as they are in the rows."""
    garden.read(desk)
    discreet = Toolset(
        [Bed], owner=desk.toolset.ownership, hidden=[Bed.secret], hooks={Bed: [Discreet()]}
    ).bind(sessionmaker(garden_engine, class_=RefSession), registry=RefRegistry(garden_engine))
    client = client_for(discreet)

    for name in ("refs", "conversation", "prompt"):
        page = client.get(f"/{name}", params={"id": CHAT}).text
        assert "bed_1" in page
        assert "Roses" not in page


@pytest.mark.parametrize(
    "name", ["read", "write", "analyze", "generate", "understand", "think", "reply"]
)
def test_a_prompt_is_that_of_the_context(root: TestClient, desk: BoundToolset, name: str) -> None:
    """Made by the code that models are given prompts by, with rows as they are now."""
    garden.read(desk)

    page = root.get("/prompt", params={"id": CHAT, "name": name})

    assert "Roses" in page.text
    if name == "read":
        prompt = desk.context(CHAT, ANN).prompt(Step("read", "(the goal of the step)"))
        assert " ".join(prompt.user.split()) in text_of(page.text)


def test_the_prompts_of_an_application_are_shown(desk: BoundToolset) -> None:
    """Its contexts are made by its own function; an error of theirs is shown."""
    app = inspector_of(
        desk,
        authenticate=lambda _: Operator("root", ...),
        context=lambda id_, owner: desk.context(id_, owner, today=lambda: date(1999, 1, 2)),
    )
    garden.read(desk)

    page = TestClient(app, "http://localhost").get("/prompt", params={"id": CHAT})

    assert "1999-01-02" in page.text


def test_drafts_are_listed_in_any_state(root: TestClient, desk: BoundToolset) -> None:
    """Twenty-five on a page, each with its content."""
    chat = desk.conversation(CHAT, ANN)
    for number in range(30):
        chat.draft(Bed, {"title": f"draft {number}", "secret": "x marks"}, label=f"No. {number}")
    chat.discard_drafts(["gen_bed_2"])

    html = root.get("/drafts", params={"id": CHAT}).text

    assert "gen_bed_2 No. 1 discarded" in text_of(html)
    assert "x marks" not in html
    [more] = links(html, "Next page")
    assert "draft 29" in root.get(f"/{more}").text


def test_calls_that_wait_are_paged(root: TestClient, desk: BoundToolset) -> None:
    """Twenty on a page, the oldest first, over all conversations."""
    number = garden.ask_to_delete(desk, "talk 0", ANN)
    entry = desk.conversation("talk 0", ANN).calls.get(number)
    assert entry is not None
    for other in range(1, 22):
        new = NewCall(entry.tool, entry.arguments, "waiting", "model", plan=entry.plan, token="t")
        desk.conversation(f"talk {other}", ANN).calls.add(new)

    first = root.get("/approvals").text
    [more] = links(first, "Next page")
    second = root.get(f"/{more}").text

    assert "talk 19<" in first
    assert "talk 20<" not in first
    found = [f"talk {each}<" in second for each in (19, 20, 21)]
    assert found == [False, True, True]
    garden.ask_to_delete(desk, OTHER, BEN)
    assert "Herbs" in client_for(desk, "ben", BEN).get("/approvals").text  # on the first page


def test_what_is_not_there_is_not_found(root: TestClient, desk: BoundToolset) -> None:
    """Whether it is a conversation, a call, a prompt or an address."""
    garden.read(desk)
    addresses = [
        f"/conversation?id={OTHER}",
        f"/call?id={CHAT}&call=9",
        f"/prompt?id={CHAT}&name=x",
        "/nothing",
    ]

    assert [root.get(each).status_code for each in addresses] == [404] * 4


@pytest.mark.parametrize(
    "address",
    [
        "conversation",
        "conversation?id=%00",
        "call?id=chat-ann&call=x",
        "call?id=chat-ann&call=99999999999999999999",
        "conversation?id=chat-ann&before=-1",
        "?used=yesterday&after=x",
        "approvals?asked=2026-01-01T00:00:00Z",
    ],
)
def test_a_malformed_address_is_refused(
    root: TestClient, desk: BoundToolset, address: str
) -> None:
    """With a page, not with an error of the server."""
    garden.read(desk)

    assert root.get(f"/{address}").status_code == 400


def test_hostile_text_is_only_text(root: TestClient, desk: BoundToolset) -> None:
    """Labels, values, ids, users, tools, drafts, steps, arguments and reasons are escaped."""
    id_ = garden.HOSTILE
    chat = desk.conversation(id_, ANN)
    chat.begin_turn()
    desk.call(id_, ANN, "db_read", {"table": "garden_beds"})
    hostile = {**garden.one(), "data": {"title": garden.HOSTILE, "note": garden.HOSTILE}}
    desk.call(id_, ANN, "db_update", hostile, user=garden.HOSTILE, call_id=garden.HOSTILE)
    chat.draft(Bed, {"title": garden.HOSTILE}, label=garden.HOSTILE)
    chat.add_step({"type": garden.HOSTILE, "note": garden.HOSTILE})
    chat.retain(["bed_1"], garden.HOSTILE)
    number = garden.ask_to_delete(desk, id_, ANN)
    desk.reject(id_, ANN, number, by=garden.HOSTILE, reason=garden.HOSTILE)
    garden.ask_to_delete(desk, id_, ANN)
    calls = [{"id": id_, "call": number} for number in (1, 2, 3)]

    pages = [
        root.get("/"),
        root.get("/", params={"q": garden.HOSTILE}),
        root.get("/", params={"of": id_}),
        root.get("/approvals"),
        root.get("/conversation", params={"id": id_, "ref": "bed_1"}),
        *(root.get(f"/{each}", params={"id": id_}) for each in ("conversation", "refs", "drafts")),
        *(root.get("/call", params=each) for each in calls),
        *(root.get("/prompt", params={"id": id_, "name": name}) for name in ("write", "reply")),
        root.post("/undo", data={"id": id_, "call": 1}),
        root.post("/refs", data={"id": id_}),
    ]

    assert [page.status_code for page in pages] == [200] * len(pages)
    for page in pages:
        assert "<script" not in page.text
        assert "<img" not in page.text
        assert "22962963" not in page.text  # of the expression in braces
        assert "&lt;script&gt;" in page.text


def test_refused_calls_are_shown_with_the_reason(garden_engine: Engine) -> None:
    """If the journal keeps them: the call, what it asked for, and what the model was told."""
    sessions = sessionmaker(garden_engine, class_=RefSession)
    registry, journal = RefRegistry(garden_engine), Journal(refusals=True)
    desk = garden.toolset().bind(sessions, registry=registry, journal=journal)
    refused = desk.call(CHAT, ANN, "db_read", {"table": "<b>fields</b>"})
    page = client_for(desk).get("/conversation", params={"id": CHAT})
    shown = text_of(page.text)

    assert "Call 1 db_read refused" in shown
    assert str(refused.value["error"]["code"]) in shown
    assert "<b>fields" not in page.text
    assert 'action="undo"' not in page.text


def test_an_asynchronous_toolset_is_inspected(garden_engine: Engine) -> None:
    """All pages and decisions work in a greenlet."""
    engine = create_async_engine(garden_engine.url)
    sessions = async_sessionmaker(engine, class_=AsyncRefSession)
    desk = garden.toolset().bind(sessions, registry=RefRegistry(engine), journal=Journal())
    plain = garden.toolset().bind(
        sessionmaker(garden_engine, class_=RefSession), registry=RefRegistry(garden_engine)
    )
    number = garden.ask_to_delete(plain)
    with client_for(desk) as client:  # one event loop for all requests
        pages = [
            client.get(f"/{each}", params={"id": CHAT, "call": number})
            for each in ("", "approvals", "conversation", "call", "prompt", "refs", "drafts")
        ]
        token = plain.approvals(CHAT, ANN)[0].plan.token
        done = client.post("/approve", data={"id": CHAT, "call": number, "plan": token})
        assert client.portal is not None
        client.portal.call(engine.dispose)

    assert [page.status_code for page in pages] == [200] * 7
    assert "The call was approved." in done.text


def test_a_toolset_without_ownership_shows_conversations_without_owner(
    garden_engine: Engine,
) -> None:
    """Those of owners belong to other toolsets."""
    registry = RefRegistry(store=MemoryStore())
    desk = Toolset([Bed]).bind(sessionmaker(garden_engine, class_=RefSession), registry=registry)
    registry.conversation("mine").begin_turn()
    asked = NewCall("db_delete", {}, "waiting", "model", plan={"tool": "db_delete"}, token="t")
    registry.conversation("ann's", owner=ANN).calls.add(asked)
    client = client_for(desk, owner=None)

    page = client.get("/").text

    assert "mine" in page
    assert "ann&#39;s" not in page
    assert desk.approvals() == []
    assert client.get("/conversation?id=mine").status_code == 200
    assert client.get("/conversation", params={"id": "ann's"}).status_code == 404


def test_pages_send_few_statements(root: TestClient, desk: BoundToolset) -> None:
    """However many calls there are: the registry is asked a fixed number of times."""
    garden.read(desk)
    for number in range(3):
        garden.update(desk, note=f"note {number}")
    before = desk.registry.counts.round_trips
    root.get("/conversation", params={"id": CHAT})
    few = desk.registry.counts.round_trips - before
    for number in range(20):
        garden.update(desk, note=f"more {number}")
    for number in range(5):
        garden.ask_to_delete(desk, f"talk {number}", ANN)
    before = desk.registry.counts.round_trips
    root.get("/approvals")
    of_approvals = desk.registry.counts.round_trips - before
    before = desk.registry.counts.round_trips
    root.get("/conversation", params={"id": CHAT})

    assert of_approvals == 0  # the list itself is of all conversations, and is not counted
    assert desk.registry.counts.round_trips - before == few
