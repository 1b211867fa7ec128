"""Processes that edit one list by position: no item is lost, none is doubled, each is told."""

from __future__ import annotations

import uuid
from threading import Barrier

import pytest
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session

from alfred_refs import DriftError
from alfred_refs.positions import Add, Edit, EditableList, Move
from tests.forks import together
from tests.positions.models import Week, Workout

pytestmark = pytest.mark.slow

PROCESSES = 4


def edit(begin: Barrier, url: str, week: str, name: str) -> int:
    """Edit the list in a process, and return how often it had changed since the preview."""
    engine, edited, drifts = create_engine(url), EditableList(Week, "sessions.exercises.sets"), 0
    begin.wait()
    batches: list[list[Edit]] = [
        [Add([1], {"name": name}), Move([1], to=3)],
        [Add([2], {"name": f"{name}b"}), Add([1, 1], {"name": f"{name}c"})],
        [Move([2], to=1)],
    ]
    for edits in batches:
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
    return drifts


def test_processes_with_previews_lose_no_item(gym: Engine, week: uuid.UUID) -> None:
    """Whoever is told that the list has changed looks again."""
    url = gym.url.render_as_string(hide_password=False)
    ended = together(edit, [(url, str(week), f"n{number}") for number in range(PROCESSES)])

    assert [each.code for each in ended] == [0] * PROCESSES
    assert sum(each.result for each in ended) > 0  # they met each other
    with Session(gym) as plain:
        rows = plain.execute(select(Workout.position, Workout.name).order_by(Workout.position))
        found = [tuple(row) for row in rows]
    assert [position for position, _ in found] == [*range(1, 1 + 3 + 2 * PROCESSES)]
    new = {f"n{number}{more}" for number in range(PROCESSES) for more in ("", "b")}
    assert {name for _, name in found} == {"push", "pull", "legs"} | new
