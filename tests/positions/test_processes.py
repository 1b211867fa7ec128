"""Processes that edit one list by position: no item is lost, none is doubled, each is told."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from tests.positions.models import Workout

pytestmark = pytest.mark.slow

PROCESSES = 8

PROGRAM = """
import sys
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from alfred_refs import DriftError
from alfred_refs.positions import Add, EditableList, Move, Remove
from tests.positions.models import Week

url, week, name = sys.argv[1:]
engine, edited, drifts = create_engine(url), EditableList(Week, "sessions.exercises.sets"), 0
sys.stdin.readline()  # all begin at once
for edits in (
    [Add([1], {"name": name}), Move([1], to=3)],
    [Add([2], {"name": name + "b"}), Add([1, 1], {"name": name + "c"})],
    [Move([2], to=1)],
):
    while True:
        with Session(engine) as session:
            preview = edited.preview(session, week, edits)
            session.rollback()
            try:
                edited.apply(session, week, edits, expect=preview)
            except DriftError:
                drifts += 1
                continue
            session.commit()
            break
print(drifts)
"""


def test_processes_with_previews_lose_no_item(gym: Engine, week: uuid.UUID) -> None:
    """Whoever is told that the list has changed looks again."""
    url = gym.url.render_as_string(hide_password=False)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, str(week), f"n{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [each.communicate(timeout=300)[0] for each in running]

    assert [each.returncode for each in running] == [0] * PROCESSES
    assert sum(map(int, told)) > 0  # they met each other
    with Session(gym) as plain:
        rows = plain.execute(select(Workout.position, Workout.name).order_by(Workout.position))
        found = [tuple(row) for row in rows]
    assert [position for position, _ in found] == [*range(1, 1 + 3 + 2 * PROCESSES)]
    new = {f"n{number}{more}" for number in range(PROCESSES) for more in ("", "b")}
    assert {name for _, name in found} == {"push", "pull", "legs"} | new
