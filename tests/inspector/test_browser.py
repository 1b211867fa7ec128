"""The inspector in a real browser: Debian's Chromium, driven by Playwright.

It is skipped where one of them is missing, unless `ALFRED_REFS_TEST_CHROMIUM` is set.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from sqlalchemy import Engine

from alfred_refs.cli.serving import Address
from alfred_refs.inspector import LocalAccess, inspector_of
from alfred_refs.tools import BoundToolset
from tests.inspector import garden
from tests.inspector.garden import ANN, BEN, CHAT, OTHER, Bed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.once

REQUIRED = "ALFRED_REFS_TEST_CHROMIUM"
MISSING = "Playwright or Chromium is missing: pip install playwright; apt-get install chromium"

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of its own."""
    executable = shutil.which("chromium")
    if executable is None or find_spec("playwright") is None:
        if REQUIRED in os.environ:
            pytest.fail(f"{REQUIRED} is set. {MISSING}")
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # may be missing

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@contextmanager
def served(desk: BoundToolset) -> Iterator[str]:
    """Serve the inspector in a thread; yield its first address."""
    access = LocalAccess("ann")
    with Address("127.0.0.1", 0).listen() as listener:
        config = uvicorn.Config(inspector_of(desk, authenticate=access), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/{access.query}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def open_page(browser: Browser, desk: BoundToolset) -> Iterator[OpenPage]:
    """Open the first address in a new context; no page may ever show a dialog."""
    dialogs: list[str] = []

    def note(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    with served(desk) as address:

        def open_page(**options: Any) -> Page:
            page = browser.new_context(**options).new_page()
            page.on("dialog", note)
            page.goto(address)
            return page

        yield open_page
        for context in browser.contexts:
            context.close()
    assert dialogs == []


@pytest.mark.parametrize("has_scripts", [True, False])
def test_an_operator_searches_rejects_approves_and_undoes(
    open_page: OpenPage, desk: BoundToolset, garden_engine: Engine, *, has_scripts: bool
) -> None:
    """With JavaScript and without; the address shows no token once it was opened."""
    garden.read(desk)
    garden.update(desk, title="Old roses")
    first = garden.ask_to_delete(desk)
    garden.ask_to_delete(desk, OTHER, BEN)
    page = open_page(java_script_enabled=has_scripts)
    assert "token" not in page.url

    page.get_by_label("Id, or owner").fill("ANN")
    page.get_by_role("button", name="Search").click()
    assert page.get_by_role("link", name=OTHER).count() == 0
    page.get_by_role("link", name=CHAT, exact=True).click()
    page.get_by_label("Reason, for the model").fill("not in spring")
    page.keyboard.press("Enter")  # in the reason, it must never approve
    assert "The call was rejected." in page.get_by_role("status").inner_text()
    message = desk.answer(CHAT, ANN, first).value["error"]["message"]
    assert "not in spring" in message

    page.get_by_role("link", name="Waiting for a person").click()
    assert "Delete 1 bed." in page.inner_text("main")
    page.get_by_role("button", name="Approve").click()
    assert "The call was approved." in page.get_by_role("status").inner_text()
    assert garden.titles(garden_engine) == ["Old roses"]

    page.goto(page.url.partition("call?")[0] + f"conversation?id={CHAT}")
    page.get_by_role("button", name="Undo call 1").click()
    assert "Nothing is undone yet" in page.inner_text("main")
    assert garden.titles(garden_engine) == ["Old roses"]
    page.get_by_role("button", name="Undo call 1").click()
    assert "The undo was done." in page.get_by_role("status").inner_text()
    assert garden.titles(garden_engine) == ["Roses"]
    page.reload()
    assert len(desk.history(CHAT, ANN)) == 3


@pytest.mark.parametrize("has_policy", [True, False])
def test_hostile_text_runs_nothing(
    open_page: OpenPage, desk: BoundToolset, *, has_policy: bool
) -> None:
    """Not in a browser without the Content-Security-Policy either: escaping is enough."""
    desk.conversation(garden.HOSTILE, ANN).draft(Bed, {"title": garden.HOSTILE})
    garden.read(desk, garden.HOSTILE, ANN)
    hostile = {**garden.one(), "data": {"title": garden.HOSTILE, "note": garden.HOSTILE}}
    desk.call(garden.HOSTILE, ANN, "db_update", hostile, user=garden.HOSTILE)
    garden.ask_to_delete(desk, garden.HOSTILE, ANN)
    page = open_page(bypass_csp=not has_policy)

    page.get_by_role("link", name=garden.HOSTILE).click()
    for name in ("Prompt", "Refs", "Drafts", "Calls"):
        page.get_by_role("navigation", name="Conversation").get_by_role("link", name=name).click()
        assert garden.HOSTILE in page.inner_text("main")
        assert page.locator("main script, main img").count() == 0
    page.get_by_role("button", name="Undo call 1").click()
    assert garden.HOSTILE in page.inner_text("main")


def test_the_policy_stops_a_script_that_is_in_a_page(
    open_page: OpenPage, desk: BoundToolset
) -> None:
    """If escaping failed, nothing would run."""
    garden.read(desk)
    page = open_page()

    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hacked = 1'>");
    }""")
    page.wait_for_timeout(100)

    assert page.evaluate("window.hacked") is None


def test_a_form_of_another_site_is_refused(
    open_page: OpenPage, desk: BoundToolset, garden_engine: Engine
) -> None:
    """In the browser of an operator who has signed in, with the token of the plan."""
    number = garden.ask_to_delete(desk)
    token = desk.approvals(CHAT, ANN)[0].plan.token
    page = open_page()
    fields = {"id": CHAT, "call": number, "plan": token}
    inputs = "".join(f"<input name={name} value={value}>" for name, value in fields.items())
    form = f"<form method=post action='{page.url}approve'>{inputs}<button>win</button></form>"

    page.goto(f"data:text/html,{form}")
    page.get_by_role("button").click()
    page.wait_for_url("**/approve")

    assert "another site" in page.inner_text("body")
    assert garden.titles(garden_engine) == ["Herbs", "Roses"]


def test_the_keyboard_reaches_the_content_first(open_page: OpenPage, desk: BoundToolset) -> None:
    """By a link to it; and what is in focus is outlined, in light and dark."""
    garden.read(desk)
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)

        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == "Skip to the content"
        assert page.locator(":focus").evaluate("e => getComputedStyle(e).outlineWidth") == "3px"
        page.keyboard.press("Enter")
        page.wait_for_url("**#main")  # the browser follows the link in its own time


def test_a_narrow_screen_needs_no_sideways_scrolling(
    open_page: OpenPage, desk: BoundToolset
) -> None:
    """Of the whole page; wide tables scroll by themselves, so that words are not cut to pieces."""
    garden.read(desk)
    garden.update(desk, note="x" * 300)
    garden.ask_to_delete(desk)
    page = open_page(viewport={"width": 320, "height": 640})

    for name in ("", "approvals", *(f"{n}?id={CHAT}&call=1" for n in ("conversation", "call"))):
        page.goto(page.url.rpartition("/")[0] + "/" + name)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 320
        cells = page.locator(".wide td:not(.number):visible").all()
        assert all(cell.evaluate("cell => cell.clientWidth") >= 100 for cell in cells)
        assert cells or name
