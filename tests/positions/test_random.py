"""Any list, any batch, in a database: rows, rows of rows and JSON, held to plain trees."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from alfred_refs.errors import PositionError
from alfred_refs.positions import Add, Edit, EditableList, Modify, Move, Remove
from alfred_refs.positions.edits import Item
from tests.positions.models import Exercise, Week, Workout
from tests.positions.test_executor import tried

ROWS = EditableList(Week, "sessions.exercises.sets")
JSON = EditableList(Week, "meals.list.list.list")
NUMBERS = itertools.count()

# for each session, for each exercise, how many sets
SHAPES = st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=4)
PATHS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def label() -> dict[str, Any]:
    """Return a value that there is once."""
    return {"name": f"n{next(NUMBERS)}"}


EDITS = st.one_of(
    st.builds(Remove, PATHS),
    st.builds(lambda path: Modify(path, label()), PATHS),
    st.builds(lambda path: Add(path, label()), PATHS),
    st.builds(Move, PATHS, st.integers(1, 4)),
    st.builds(lambda path, to: Move(path, [*to, 1][: len(path)]), PATHS, PATHS),
)


def plain(items: list[Any], inside: tuple[str, ...]) -> list[Any]:
    """Return items as names with those inside of them."""
    first, *rest = inside or ("",)
    return [[each["name"], plain(each.get(first) or [], tuple(rest))] for each in items]


def tree(items: list[Any], depth: int) -> Item:
    """Return the same as a plain tree; what is deepest has no lists."""
    found = [
        Item(name, tree(inside, depth - 1).items if depth else None) for name, inside in items
    ]
    return Item(None, found)


def names(root: Item, modified: Any) -> list[Any]:
    """Return a tree as names, with what became of them."""
    return [
        [
            modified.get(each, {}).get("name")
            or (each.value["name"] if isinstance(each.value, dict) else each.value),
            names(each, modified),
        ]
        for each in root.items or ()
    ]


def check(
    gym: Engine, edited: EditableList, key: Any, edits: list[Edit], inside: tuple[str, ...]
) -> None:
    """Do edits in a database and on a plain tree; the outcome must be the same."""
    with Session(gym) as session:
        before = plain(edited.items(session, key), inside)
        root = tree(before, 2)
        outcome = tried(root, edits)
        if isinstance(outcome, PositionError):
            with pytest.raises(PositionError) as caught:
                edited.apply(session, key, edits)
            found = {each.edits for each in caught.value.conflicts}
            assert found == {each.edits for each in outcome.conflicts}
            session.commit()
            assert plain(edited.items(session, key), inside) == before
            return
        known = {each.id for each in session.scalars(select(Workout))}
        done = edited.apply(session, key, edits)
        session.commit()
        assert plain(edited.items(session, key), inside) == names(root, outcome.modified)
        assert plain([*done.after], inside) == names(root, outcome.modified)
        assert plain([*done.before], inside) == before
        new = {each.id for each in session.scalars(select(Workout))} - known
        assert len(new) <= sum(isinstance(each, Add) for each in edits)
        for statement in (
            select(Workout.week_id, Workout.position),
            select(Exercise.workout_id, Exercise.position),
        ):
            numbers: dict[Any, list[int]] = {}
            for parent, position in session.execute(statement):
                numbers.setdefault(parent, []).append(position)
            for found_numbers in numbers.values():
                assert sorted(found_numbers) == [*range(1, 1 + len(found_numbers))]


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=SHAPES, edits=st.lists(EDITS, min_size=1, max_size=5))
def test_rows_of_rows_with_json_are_edited_as_a_plain_tree(
    gym: Engine, shape: list[list[int]], edits: list[Edit]
) -> None:
    """And numbered from 1, whatever was moved where."""
    with Session(gym) as session:
        for model in (Exercise, Workout, Week):
            session.execute(delete(model))
        week = Week()
        for n, exercises in enumerate(shape, start=1):
            workout = Workout(position=n, **label())
            for m, sets in enumerate(exercises, start=1):
                values = [label() for _ in range(sets)]
                workout.exercises.append(Exercise(position=m, sets=values, **label()))
            week.sessions.append(workout)
        session.add(week)
        session.commit()
        key = week.id
    check(gym, ROWS, key, edits, ("exercises", "sets"))


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=SHAPES, edits=st.lists(EDITS, min_size=1, max_size=5), order=st.randoms())
def test_lists_in_json_are_edited_as_a_plain_tree(
    gym: Engine, shape: list[list[int]], edits: list[Edit], order: random.Random
) -> None:
    """At three levels, in any order of the edits that leaves ties as they are."""
    document = {
        "list": [
            {
                **label(),
                "list": [
                    {**label(), "list": [label() for _ in range(sets)]} for sets in exercises
                ],
            }
            for exercises in shape
        ]
    }
    with Session(gym) as session:
        week = Week(meals=document)
        session.add(week)
        session.commit()
        key = week.id
    check(gym, JSON, key, order.sample(edits, len(edits)), ("list", "list"))
