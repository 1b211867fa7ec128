"""A draft becomes one row, whatever processes save it at once or are killed."""

from __future__ import annotations

import os
import signal
from threading import Barrier

import pytest
from sqlalchemy import Engine, create_engine, event

from alfred_refs import Conversation, RefRegistry, RefSession, SavedDraftError
from tests.forks import together
from tests.models import Recipe
from tests.session.drafts.rows_and_drafts import names, pending

pytestmark = [pytest.mark.usefixtures("one_base"), pytest.mark.slow]


def save(begin: Barrier, url: str, dying: str) -> str:
    """Save the draft in a process, which may die at a step; return the ref of the row."""
    engine = create_engine(url)
    registry = RefRegistry(engine)
    with RefSession(engine, registry=registry, conversation="chat-7") as session:
        recipe = session.get(Recipe, "gen_recipe_1")
        assert recipe is not None
        begin.wait()
        match dying:
            case "reserved":
                event.listen(engine, "before_cursor_execute", die)
            case "inserted":
                event.listen(session, "after_flush", die)
            case "flushed":
                event.listen(session, "before_commit", RefSession.flush)
                event.listen(session, "before_commit", die)
            case "committed":
                event.listen(session, "after_commit", die)
        if recipe not in session:
            session.add(recipe)
        try:
            session.commit()
        except SavedDraftError:
            session.rollback()
        if dying == "confirmed":
            die()
        return str(session.get_one(Recipe, "gen_recipe_1").id)


def die(*_: object) -> None:
    """Die as by `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def saving(engine: Engine, *dying: str) -> list[str]:
    """Save a draft in processes that start together, some dying; return what the others read."""
    url = engine.url.render_as_string(hide_password=False)
    ended = together(save, [(url, each) for each in dying])
    assert [each.code for each in ended] == [-signal.SIGKILL if each else 0 for each in dying]
    return [each.result for each in ended if each.code == 0]


@pytest.mark.usefixtures("soup")
@pytest.mark.once
def test_processes_save_one_draft_as_one_row(tables: Engine, conversation: Conversation) -> None:
    """All are told of the same row."""
    assert saving(tables, *4 * [""]) == 4 * ["recipe_1"]
    assert (names(tables), pending(conversation)) == (["Soup"], [])


@pytest.mark.parametrize(
    ("died", "there"),
    [("reserved", 0), ("inserted", 0), ("flushed", 0), ("committed", 1), ("confirmed", 1)],
)
@pytest.mark.once
def test_a_process_that_is_killed_leaves_a_draft_or_a_row(
    tables: Engine, soup: str, died: str, there: int
) -> None:
    """At whatever step: a row that is there is not offered again, and none is made twice."""
    assert saving(tables, died) == []
    left = RefRegistry(tables).conversation("chat-7")

    assert names(tables) == there * ["Soup"]
    assert [draft.ref for draft in left.drafts()] == ([] if there else [soup])
    assert [draft.ref for draft in left.drafts(states=["saved"])] == ([soup] if there else [])
    assert saving(tables, "") == ["recipe_1"]
    assert (names(tables), [*left.drafts()]) == (["Soup"], [])
