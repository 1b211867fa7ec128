"""`docs/inspector.md`: its program runs, and the application that it makes asks who is there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from alfred_refs.tools import BoundToolset
from tests.inspector import garden
from tests.inspector.garden import ANN

pytestmark = pytest.mark.once

PAGE = Path(__file__).parents[2] / "docs" / "inspector.md"


def signed_in(app: ASGIApp, user: Any) -> ASGIApp:
    """Return an application whose requests have a user."""

    async def with_user(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "user": user}, receive, send)

    return with_user


def test_the_program_of_the_page_runs(desk: BoundToolset) -> None:
    """An operator sees the conversations of their tenant, and nobody else does."""
    garden.read(desk)
    names: dict[str, Any] = {"desk": desk}
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(program, "<page>", "exec", dont_inherit=True), names)  # noqa: S102  # our own
    users = [SimpleNamespace(name="eve", tenant_id=ANN, is_staff=is_staff) for is_staff in (1, 0)]

    pages = [
        TestClient(signed_in(names["app"], user), "https://admin.example.com").get("/inspector/")
        for user in (*users, None)
    ]

    assert [page.status_code for page in pages] == [200, 403, 403]
    assert garden.CHAT in pages[0].text
