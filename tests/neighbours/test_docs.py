"""The pages of `docs/` that have programs: each is run and prints what the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, Pool, event, select
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel import SQLModel

from alfred_refs import BadRefError, RefRegistry, RefSession
from tests import readme
from tests.integrations.spans import KeptSpan, Provider
from tests.models import MealPlan, Recipe

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "neighbours.md", DOCS / "telemetry.md"]
BLOCKS = re.compile(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```\n\n```\n(.*?)```", re.MULTILINE | re.DOTALL
)


def call(app: Any, method: str, path: str, body: object = None) -> Any:
    """Send a request to an ASGI application, and return its answer."""

    async def send() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.request(method, path, json=body)).json()

    return asyncio.run(send())


def show_span(span: KeptSpan) -> None:
    """Print a span, without what differs each time."""
    print(span.name, span.attributes)  # noqa: T201  # is read


@pytest.fixture
def ended() -> Iterator[None]:
    """A program that has ended: its connections are closed, its SQLModel tables forgotten."""
    opened: list[Any] = []
    tables = set(SQLModel.metadata.tables)

    def note(connection: Any, _: object) -> None:
        opened.append(connection)

    event.listen(Pool, "connect", note)
    yield
    event.remove(Pool, "connect", note)
    for connection in opened:
        connection.close()
    for name in SQLModel.metadata.tables.keys() - tables:
        SQLModel.metadata.remove(SQLModel.metadata.tables[name])


@pytest.mark.usefixtures("ended")
@pytest.mark.whole
@pytest.mark.parametrize(
    ("program", "promised"),
    [
        pytest.param(found[2], found[3], id=f"{page.stem}: {found[1]}")
        for page in PAGES
        for found in BLOCKS.finditer(page.read_text())
    ],
)
def test_the_page_prints_what_it_says(program: str, promised: str, tables: Engine) -> None:
    """Each section has one program, on two recipes of its own, and its output."""
    with Session(tables) as plain:
        plain.add_all([Recipe(name="Salad"), Recipe(name="Soup")])
        plain.commit()

    printed = readme.run(
        program,
        {
            "__name__": __name__,
            "BadRefError": BadRefError,
            "MealPlan": MealPlan,
            "Recipe": Recipe,
            "RefRegistry": RefRegistry,
            "RefSession": RefSession,
            "provider": Provider(on_end=show_span),
            "call": call,
            "engine": tables,
            "registry": RefRegistry(tables),
            "scoped_session": scoped_session,
            "select": select,
            "sessionmaker": sessionmaker,
        },
    )

    assert printed == promised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_every_section_with_a_program_is_run(page: Path) -> None:
    """A program without output, or a second one in a section, would be left out unseen."""
    assert len(BLOCKS.findall(page.read_text())) == page.read_text().count("```python")
