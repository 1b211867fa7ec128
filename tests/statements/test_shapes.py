"""Every shape of statement: with refs on a `RefSession` as with keys on a plain session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

import alfred_refs
from alfred_refs import AsyncRefSession, Conversation, RefSession
from tests.shapes import report, world
from tests.shapes.run import run, run_awaited, with_keys
from tests.shapes.table import TABLE

SHAPES = [shape for shapes in TABLE.values() for shape in shapes]
CODES = [" ".join(filter(None, (shape.code, shape.parameters))) for shape in SHAPES]


@pytest.fixture
def plain(tables: Engine) -> Iterator[Session]:
    """A plain session on the rows of the shapes."""
    world.fill(tables)
    with Session(tables) as session:
        yield session


@pytest.fixture
def translating(
    plain: Session,  # noqa: ARG001  # it has the rows
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
) -> Iterator[RefSession]:
    """A `RefSession` on the same rows, which all have refs."""
    world.mint(conversation)
    with sessions(conversation=conversation) as session:
        yield session


@pytest.mark.parametrize("group", TABLE)
def test_refs_and_keys_select_and_write_the_same(
    group: str, plain: Session, translating: RefSession, subtests: pytest.Subtests
) -> None:
    """The same rows, with refs where keys were, and the same tables afterwards."""
    for shape in (shape for shape in TABLE[group] if not shape.refused):
        with subtests.test(shape=shape.code):
            expected = run(shape, plain, with_keys, world.shown)
            plain.rollback()
            assert run(shape, translating, str, world.as_it_is) == expected


@pytest.mark.slow
async def test_the_same_holds_in_an_asynchronous_session(
    plain: Session, aio: AsyncRefSession
) -> None:
    """All shapes, with each driver: what they return is looked at without I/O."""
    conversation = cast(Conversation, aio.conversation)
    await aio.run_sync(lambda _: world.mint(conversation))
    different = []
    for shape in (shape for shape in SHAPES if not shape.refused):
        expected = run(shape, plain, with_keys, world.shown)
        plain.rollback()
        if await run_awaited(shape, aio, world.as_it_is) != expected:
            different.append(shape.code)

    assert different == []


@pytest.mark.filterwarnings("ignore:Type object .* does not include operator")
def test_what_is_not_translated_is_refused(
    translating: RefSession, sent: list[str], subtests: pytest.Subtests
) -> None:
    """In words, and nothing that could change a row is executed."""
    for shape in (shape for shape in SHAPES if shape.refused):
        sent.clear()
        with subtests.test(shape=shape.code):
            with pytest.raises(getattr(alfred_refs, shape.refused)) as caught:
                run(shape, translating, str, world.as_it_is)
            assert [s for s in sent if not s.startswith(("SELECT", "select"))] == []
            assert not any(str(key)[:8] in str(caught.value) for key in world.KEYS.values())


def test_no_shape_is_listed_twice() -> None:
    """A line that stands twice proves nothing more."""
    assert len(set(CODES)) == len(CODES)


def test_the_documentation_has_the_table_as_it_is() -> None:
    """`python -m tests.shapes > docs/reference/shapes.md` writes it anew."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "shapes.md"

    assert page.read_text() == report.page()
