"""A draft becomes one row, whatever processes save it at once or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from sqlalchemy import Engine

from alfred_refs import Conversation, RefRegistry
from tests.session.drafts.rows_and_drafts import names, pending

pytestmark = [pytest.mark.usefixtures("one_base"), pytest.mark.slow]
SAVE = """
import os, signal, sys
from sqlalchemy import create_engine, event
from alfred_refs import RefRegistry, RefSession, SavedDraftError
from tests.models import Recipe

url, die = sys.argv[1:]
engine = create_engine(url)
registry = RefRegistry(engine)
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with RefSession(engine, registry=registry, conversation="chat-7") as session:
    recipe = session.get(Recipe, "gen_recipe_1")
    sys.stdin.readline()
    match die:
        case "reserved":
            event.listen(engine, "before_cursor_execute", kill)
        case "inserted":
            event.listen(session, "after_flush", kill)
        case "flushed":
            event.listen(session, "before_commit", lambda s: (s.flush(), kill()))
        case "committed":
            event.listen(session, "after_commit", kill)
    if recipe not in session:
        session.add(recipe)
    try:
        session.commit()
    except SavedDraftError:
        session.rollback()
    if die == "confirmed":
        kill()
    print(session.get(Recipe, "gen_recipe_1").id)
"""


def saving(engine: Engine, *dying: str) -> list[str]:
    """Save a draft in processes that start together, some dying; return what they say."""
    url = engine.url.render_as_string(hide_password=False)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE, url, die],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for die in dying
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate()[0] for process in processes]
    expected = [-signal.SIGKILL if die else 0 for die in dying]
    assert [process.returncode for process in processes] == expected
    return [line.strip() for line in said if line]


@pytest.mark.usefixtures("soup")
@pytest.mark.once
def test_eight_processes_save_one_draft_as_one_row(
    tables: Engine, conversation: Conversation
) -> None:
    """All are told of the same row."""
    assert saving(tables, *8 * [""]) == 8 * ["recipe_1"]
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
