"""Lists of rows, arrays and JSON, edited by position in a database."""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.exc import NoResultFound, OperationalError
from sqlalchemy.orm import Session

from alfred_refs import Ownership, RefSession
from alfred_refs.errors import DriftError, ListError, PositionError
from alfred_refs.positions import Add, Edit, EditableList, Modify, Move, Remove
from tests.positions.models import Board, Card, Exercise, Note, Part, Week, Workout
from tests.threads import at_once

SESSIONS = EditableList(Week, "sessions.exercises.sets")
EXERCISES = EditableList(Week, "sessions.exercises")
NOTES = EditableList(Week, "notes")
TAGS = EditableList(Week, "tags")
MEALS = EditableList(Week, "meals.days.meals")


def sessions_of(gym: Engine) -> list[tuple[int, str | None]]:
    """Return positions and names of the sessions."""
    with Session(gym) as plain:
        rows = plain.execute(select(Workout.position, Workout.name).order_by(Workout.position))
        return [(position, name) for position, name in rows]


def test_an_array_is_edited(session: RefSession, week: uuid.UUID, gym: Engine) -> None:
    """Drop 3 and 5; what was second comes first."""
    TAGS.apply(session, week, [Remove([3]), Remove([5]), Move([2], 1), Add([4], "new")])
    session.commit()
    with Session(gym) as plain:
        assert plain.scalar(select(Week.tags)) == ["b", "a", "d", "new"]


def test_lists_in_json_are_edited(session: RefSession, week: uuid.UUID, gym: Engine) -> None:
    """At two levels at once, and what stands beside them stays."""
    done = MEALS.apply(
        session,
        week,
        [
            Modify([1, 2], "noodles"),
            Add([2], {"name": "Tuesday"}),
            Modify([1], {"name": "Monday"}),
        ],
    )
    assert done.after == [{"name": "Monday", "meals": ["soup", "noodles"]}, {"name": "Tuesday"}]
    session.commit()
    with Session(gym) as plain:
        assert plain.scalar(select(Week.meals)) == {"days": done.after}


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (1, True, True),
        (1, 1.0, 1.0),
        ({"meals": ["soup"]}, "closed", "closed"),
        (["a", "b"], ["d"], ["d"]),
        (["a"], {"name": "Monday"}, {"name": "Monday"}),
        ({"meals": ["soup"]}, {"name": 1}, {"meals": ["soup"], "name": 1}),
    ],
)
def test_what_a_document_is_given_is_stored(
    gym: Engine, week: uuid.UUID, before: Any, value: Any, after: Any
) -> None:
    """Also what Python holds for equal, and what takes the place of an item with a list."""
    with Session(gym) as plain, plain.begin():
        plain.execute(update(Week).values(meals={"days": [before, 2]}))
        done = MEALS.apply(plain, week, [Modify([1], value)])
    with Session(gym) as plain:
        stored = plain.scalars(select(Week.meals["days"])).one()
    told = [json.dumps(each, sort_keys=True) for each in (stored, done.after, [after, 2])]
    assert told == [told[-1]] * 3


def test_nothing_is_edited_inside_of_what_is_replaced(
    session: RefSession, week: uuid.UUID
) -> None:
    """It would be lost."""
    with pytest.raises(PositionError, match="is inside position 1, which is replaced"):
        MEALS.apply(session, week, [Modify([1], "closed"), Remove([1, 2])])


def test_a_list_that_is_not_there_yet_is_empty(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """An array or a document that is null, and a member that is missing; unedited ones stay so."""
    with Session(gym) as plain, plain.begin():
        plain.execute(text("update weeks set tags = null, meals = null"))
        plain.execute(text("update exercises set sets = null"))
    assert SESSIONS.items(session, week)[0]["exercises"][0]["sets"] is None
    TAGS.apply(session, week, [Add([1], "a")])
    for day in ({"meals": ["soup"]}, {"name": "fast"}, {"meals": ["rice"]}):
        MEALS.apply(session, week, [Add([1], day)])
    SESSIONS.apply(session, week, [Add([1, 1, 1], {"reps": 3})])
    session.commit()
    with Session(gym) as plain:
        assert plain.execute(select(Week.tags, Week.meals)).one() == (
            ["a"],
            {"days": [{"meals": ["rice"]}, {"name": "fast"}, {"meals": ["soup"]}]},
        )
        first = plain.scalars(select(Exercise).where(Exercise.name == "push 1")).one()
        assert first.sets == [{"reps": 3}]


def test_rows_are_edited_and_keep_their_keys(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """Though no two may have the same position at any moment."""
    refs = {row.name: row.id for row in session.scalars(select(Workout))}
    SESSIONS.apply(
        session,
        week,
        [Move([3], 1), Remove([2]), Add([2], {"name": "rest"}), Modify([1], {"name": "PUSH"})],
    )
    session.commit()
    assert sessions_of(gym) == [(1, "legs"), (2, "rest"), (3, "PUSH")]
    now = {row.name: row.id for row in session.scalars(select(Workout))}
    assert (now["legs"], now["PUSH"]) == (refs["legs"], refs["push"])
    assert [each.name for each in session.get_one(Week, week).sessions] == ["legs", "rest", "PUSH"]


def test_three_levels_are_one_batch(session: RefSession, week: uuid.UUID) -> None:
    """Rows, rows in them, and JSON in those."""
    edits: list[Edit] = [
        Move([2], 1),
        Modify([1, 2], {"name": "squat"}),
        Remove([3, 1, 1]),
        Modify([1, 1, 2], {"reps": 12}),
        Move([1, 1], 2),
    ]
    preview = SESSIONS.preview(session, week, edits)
    done = SESSIONS.apply(session, week, edits, expect=preview)
    assert done == preview
    assert SESSIONS.items(session, week) == done.after
    session.commit()
    assert [(each["name"], [e["name"] for e in each["exercises"]]) for each in done.after] == [
        ("pull", ["pull 1", "pull 2"]),
        ("push", ["squat", "push 1"]),
        ("legs", ["legs 1", "legs 2"]),
    ]
    assert done.after[1]["exercises"][1]["sets"] == [{"reps": 5}, {"reps": 12}]
    assert done.after[2]["exercises"][0]["sets"] == [{"reps": 8}]
    assert [each["name"] for each in done.before] == ["push", "pull", "legs"]


def test_a_row_goes_to_the_list_of_another(session: RefSession, week: uuid.UUID) -> None:
    """And stays the same row."""
    ref = session.scalars(select(Exercise.id).where(Exercise.name == "push 1")).one()
    EXERCISES.apply(session, week, [Move([1, 1], [2, 2])])
    session.commit()
    moved = session.get_one(Exercise, ref)
    assert (moved.position, moved.name) == (2, "push 1")
    assert [
        [(each.position, each.name) for each in workout.exercises]
        for workout in session.scalars(select(Workout).order_by(Workout.position))
    ] == [
        [(1, "push 2")],
        [(1, "pull 1"), (2, "push 1"), (3, "pull 2")],
        [(1, "legs 1"), (2, "legs 2")],
    ]


def test_rows_that_change_lists_make_room_for_others(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """At the same position, in whatever order they are written."""
    for _ in range(6):
        EXERCISES.apply(session, week, [Move([1, 1], [2, 1]), Move([2, 1], [1, 1])])
        EXERCISES.apply(session, week, [Move([1, 1], [2, 1]), Move([2, 2], [3, 2])])
        EXERCISES.apply(session, week, [Move([3, 2], [1, 2])])
    session.commit()
    with Session(gym) as plain:
        assert sorted(plain.scalars(select(Exercise.position))) == [1, 1, 1, 2, 2, 2]


def test_rows_from_0_stay_so_and_those_that_are_kept_are_unlinked(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """As SQLAlchemy does where there is no cascade."""
    NOTES.apply(session, week, [Remove([2]), Move([5], 1), Add([5], {"body": "x"})])
    session.commit()
    with Session(gym) as plain:
        rows = plain.execute(select(Note.place, Note.body, Note.week_id).order_by(Note.place))
        found = [(place, body) for place, body, of in rows if of is not None]
        assert found == [(0, "e"), (1, "a"), (2, "c"), (3, "d"), (4, "x")]
        assert plain.scalar(select(Note.body).where(Note.week_id.is_(None))) == "b"


def test_a_plain_list_that_counts_from_0_goes_on_so(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """Without SQLAlchemy's collection too."""
    with Session(gym) as plain, plain.begin():
        for workout in plain.scalars(select(Workout).order_by(Workout.position)):
            workout.position -= 1
            plain.flush()
    SESSIONS.apply(session, week, [Move([3], 1), Add([4], {"name": "x"})])
    session.commit()
    assert sessions_of(gym) == [(0, "legs"), (1, "push"), (2, "pull"), (3, "x")]


def test_an_empty_list_begins_as_its_collection_counts(session: RefSession, gym: Engine) -> None:
    """From 0 by SQLAlchemy's list, from 1 without."""
    with Session(gym) as plain:
        week = Week()
        plain.add(week)
        plain.commit()
        key = week.id
    NOTES.apply(session, key, [Add([1], {"body": "x"})])
    SESSIONS.apply(session, key, [Add([1], {"name": "x"})])
    session.commit()
    with Session(gym) as plain:
        assert plain.scalar(select(Note.place)) == 0
        assert plain.scalar(select(Workout.position)) == 1


def test_a_row_is_named_by_its_ref(session: RefSession, week: uuid.UUID, gym: Engine) -> None:
    """What stands there now counts, as with positions."""
    ref = session.scalars(select(Workout.id).where(Workout.name == "pull")).one()
    SESSIONS.apply(session, week, [Remove([1]), Move(ref, 2), Modify(ref, {"name": "PULL"})])
    session.commit()
    assert sessions_of(gym) == [(1, "legs"), (2, "PULL")]
    with pytest.raises(PositionError, match="'workout_9' names no item"):
        SESSIONS.apply(session, week, [Remove("workout_9")])


def test_what_is_expected_must_stand_there(session: RefSession, week: uuid.UUID) -> None:
    """By its text, or by fields; what is there instead is told."""
    SESSIONS.preview(session, week, [Remove([1], expect="push"), Remove([2], {"name": "pull"})])
    with pytest.raises(PositionError) as caught:
        SESSIONS.apply(session, week, [Remove([1], "pull"), Remove([2], {"name": "legs"})])
    assert "position 2 is not the expected item, but {'name': 'pull'}" in str(caught.value)
    with pytest.raises(PositionError, match="but 'c'"):
        TAGS.apply(session, week, [Remove([3], expect="d")])
    for edit in (Move([3], to=1, expect="d"), Modify([3], "x", expect="d")):
        with pytest.raises(PositionError, match="but 'c'"):
            TAGS.apply(session, week, [edit])
    with pytest.raises(PositionError, match="position 1 is not the expected item"):
        SESSIONS.preview(session, week, [Remove([1], "pus")])
    with pytest.raises(PositionError, match="colour"):
        SESSIONS.preview(session, week, [Remove([1], {"name": "push", "colour": "red"})])


@pytest.mark.parametrize(
    ("edit", "fact"),
    [
        (Add([1], "x"), "is a row: give an object"),
        (Modify([1], {"position": 2}), "has no writable field 'position'"),
        (Modify([1], {"id": "workout_2"}), "has no writable field 'id'"),
        (Modify([1], {"week_id": "week_2"}), "has no writable field 'week_id'"),
        (Add([1], {"exercises": []}), "has no writable field 'exercises'"),
        (Remove([1, 1, 3]), "out of range: the list has 2 items"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    session: RefSession, week: uuid.UUID, edit: Any, fact: str
) -> None:
    """With what there is."""
    with pytest.raises(PositionError, match=fact):
        SESSIONS.apply(session, week, [edit])
    assert not session.dirty


def test_a_list_inside_is_edited_by_its_own_positions(
    session: RefSession, week: uuid.UUID
) -> None:
    """Not as a value of what it is inside of."""
    with pytest.raises(PositionError, match="has a list 'meals': edit it by its own positions"):
        MEALS.apply(session, week, [Modify([1], {"meals": []})])


def test_a_preview_changes_nothing(session: RefSession, week: uuid.UUID, gym: Engine) -> None:
    """And has no keys."""
    preview = SESSIONS.preview(session, week, [Remove([1]), Modify([2], {"name": "x"})])
    assert not session.dirty
    assert not session.deleted
    session.commit()
    assert sessions_of(gym) == [(1, "push"), (2, "pull"), (3, "legs")]
    assert str(week) not in repr(preview)
    assert "workout_" not in repr(preview)


@pytest.mark.parametrize(
    "drift",
    [
        "update workouts set name = 'x' where position = 2",
        "update exercises set sets = '[]' where name = 'pull 2'",
    ],
)
def test_a_list_that_has_changed_is_told(
    session: RefSession, week: uuid.UUID, gym: Engine, drift: str
) -> None:
    """With the positions, if the preview is at hand; nothing is done."""
    preview = SESSIONS.preview(session, week, [Remove([1])])
    session.rollback()
    with gym.begin() as connection:
        connection.execute(text(drift))
    with pytest.raises(DriftError) as caught:
        SESSIONS.apply(session, week, [Remove([1])], expect=preview)
    assert caught.value.changed == (2,)
    with pytest.raises(DriftError, match="read it again"):
        SESSIONS.apply(session, week, [Remove([1])], expect=preview.token)
    session.rollback()
    assert len(sessions_of(gym)) == 3


def test_positions_that_are_doubled_are_refused_or_repaired(
    session: RefSession, week: uuid.UUID, gym: Engine
) -> None:
    """And so are those that are null."""
    with gym.begin() as connection:
        connection.execute(text("update week_notes set place = 1 where body = 'a'"))
        connection.execute(text("update week_notes set place = null where body = 'c'"))
    with pytest.raises(ListError, match="the same position, or none; pass repair=True"):
        NOTES.apply(session, week, [Remove([1])])
    repairing = EditableList(Week, "notes", repair=True)
    done = repairing.apply(session, week, [Add([6], {"body": "x"})])
    session.commit()
    assert sorted(each["body"] for each in done.before[:2]) == ["a", "b"]
    # SQLAlchemy's list gives a row without position one as it loads it: that of the last
    rest = [each["body"] for each in done.after[2:]]
    assert (rest[0], sorted(rest[1:3]), rest[3]) == ("d", ["c", "e"], "x")
    with Session(gym) as plain:
        assert [*plain.scalars(select(Note.place).order_by(Note.place))] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("model", "name", "fact"),
    [
        (Week, "nothing", "has no list 'nothing'; its lists: "),
        (Week, "title", "neither an array nor JSON"),
        (Week, "tags.x", "neither an array nor JSON"),
        (Week, "unordered", "not a writable one-to-many"),
        (Workout, "week", "not a writable one-to-many"),
        (dict, "x", "not a mapped class"),
    ],
)
def test_what_is_no_list_is_refused(model: Any, name: str, fact: str) -> None:
    """When it is named, not when it is edited."""
    with pytest.raises(ListError, match=fact):
        EditableList(model, name)


@pytest.fixture
def written(gym: Engine) -> list[str]:
    """The statements that write, as they are sent."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if statement.startswith(("UPDATE", "INSERT", "DELETE")) and "alfred" not in statement:
            sent.extend([statement] * (len(parameters) if many else 1))

    event.listen(gym, "before_cursor_execute", note)
    return sent


def test_as_few_rows_are_written_as_the_numbering_allows(
    session: RefSession, gym: Engine, written: list[str]
) -> None:
    """Those between where one was and where it goes."""
    with Session(gym) as plain:
        week = Week()
        week.notes = [Note(body=str(n)) for n in range(1_000)]
        plain.add(week)
        plain.commit()
        key = week.id
    written.clear()
    NOTES.apply(session, key, [Move([500], 510)])
    session.commit()
    assert len(written) == 11
    written.clear()
    NOTES.apply(session, key, [Modify([3], {"body": "x"}), Add([1_001], {"body": "last"})])
    session.commit()
    assert len(written) == 2


def test_a_document_is_written_once(
    session: RefSession, week: uuid.UUID, written: list[str]
) -> None:
    """However many edits it has."""
    TAGS.apply(session, week, [Remove([1]), Move([5], 1), Add([2], "x"), Modify([2], "B")])
    session.commit()
    assert len(written) == 1


def test_a_tree_of_one_class_is_edited_at_each_level(session: RefSession, gym: Engine) -> None:
    """With the documents of what is deepest."""
    with Session(gym) as plain:
        leaves = [Part(position=n, name=f"leaf {n}", notes=["a", "b"]) for n in (1, 2)]
        others = [Part(position=1, name="one", parts=leaves), Part(position=2, name="two")]
        root = Part(position=1, name="root", parts=others)
        plain.add(root)
        plain.commit()
        key = root.id
    tree = EditableList(Part, "parts.parts.notes")
    edits: list[Edit] = [
        Remove([1, 1, 1]),
        Move([1, 2], [2, 1]),
        Modify([1, 2, 2], "B"),
        Move([2], 1),
    ]
    done = tree.apply(session, key, edits)
    session.commit()
    assert tree.items(session, key) == done.after
    assert [(each["name"], each["parts"]) for each in done.after] == [
        ("two", [{"name": "leaf 2", "notes": ["a", "B"]}]),
        ("one", [{"name": "leaf 1", "notes": ["b"]}]),
    ]


def test_what_was_not_sent_yet_is_not_lost(gym: Engine, week: uuid.UUID) -> None:
    """Though the session flushes when it is told alone; an object of another is refused."""
    with Session(gym, autoflush=False) as plain:
        own = plain.get_one(Week, week)
        own.title = "changed"
        own.sessions[0].name = "PUSH"
        done = SESSIONS.apply(plain, own, [Move([1], 2)])
        plain.commit()
        assert (own.title, done.after[1]["name"]) == ("changed", "PUSH")
        new = Week(sessions=[Workout(position=1, name="x")])
        plain.add(new)
        SESSIONS.apply(plain, new, [Add([1], {"name": "first"})])
        assert [each.name for each in new.sessions] == ["first", "x"]
    with Session(gym) as plain, pytest.raises(ListError, match="is not in the session"):
        SESSIONS.preview(plain, own, [])


CARDS = EditableList(Board, "cards")
OWNERSHIP = Ownership({Board: "owner", Card: "owner"}, shared=[Board])


def board(gym: Engine, owner: str | None, *owners: str) -> Any:
    """Return the key of a board with a card for each of some owners."""
    with Session(gym) as plain:
        cards = [Card(owner=each, position=n, title=each) for n, each in enumerate(owners, 1)]
        made = Board(owner=owner, cards=cards)
        plain.add(made)
        plain.commit()
        return made.id


def test_an_owner_edits_lists_that_are_all_theirs(gym: Engine) -> None:
    """New rows are theirs; one of another among them, or of the row that has the list, is told."""
    anns = RefSession(gym, owner=OWNERSHIP.of("ann"))
    own = board(gym, "ann", "ann", "ann")
    CARDS.apply(anns, own, [Add([1], {"title": "new"}), Remove([2])])
    anns.commit()
    with Session(gym) as plain:
        rows = select(Card.owner, Card.title).order_by(Card.position)
        assert [tuple(row) for row in plain.execute(rows)] == [("ann", "new"), ("ann", "ann")]

    mixed = board(gym, "ann", "ann", "bob", "ann")
    for work in (CARDS.preview, CARDS.apply):
        with pytest.raises(ListError, match="has rows that its owner may not see") as caught:
            work(anns, mixed, [Remove([2])])
        assert "bob" not in str(caught.value)
    shared = board(gym, None, "ann")
    with pytest.raises(ListError, match="or this session may not write it"):
        CARDS.apply(anns, shared, [Remove([1])])
    with pytest.raises(NoResultFound):
        CARDS.apply(anns, board(gym, "bob", "bob"), [Remove([1])])
    anns.close()


@pytest.mark.parametrize("meals", [{"days": "none"}, {"days": {"meals": []}}, "none", 5])
def test_what_has_no_list_is_told(
    session: RefSession, week: uuid.UUID, gym: Engine, meals: Any
) -> None:
    """Where a document has something else in the place of one."""
    with Session(gym) as plain, plain.begin():
        plain.execute(update(Week).values(meals=meals))
    days = EditableList(Week, "meals.days")
    with pytest.raises(PositionError, match=r"the value of 'meals\.days' has no list inside"):
        days.apply(session, week, [Remove([1])])


def test_a_row_that_is_gone_is_told(session: RefSession, gym: Engine) -> None:
    """Though the session has it still."""
    own = Week(tags=[*"abc"])
    session.add(own)
    session.commit()
    assert own.tags == [*"abc"]
    with gym.begin() as connection:
        connection.execute(text("delete from weeks"))
    for work in (TAGS.preview, TAGS.apply):
        with pytest.raises(ListError, match="the Week that has the list does not exist"):
            work(session, own, [])


def test_a_token_is_of_one_list(session: RefSession, week: uuid.UUID, gym: Engine) -> None:
    """Another with the same items has another one."""
    with Session(gym) as plain:
        other = Week(tags=[*"abcde"], meals={"days": [*"abcde"], "nights": [*"abcde"]})
        plain.add(other)
        plain.commit()
        key = other.id
    days, nights = EditableList(Week, "meals.days"), EditableList(Week, "meals.nights")
    lists = [(TAGS, week), (TAGS, key), (days, key), (nights, key), (NOTES, key), (SESSIONS, key)]
    tokens = {each.preview(session, of, []).token for each, of in lists}
    assert len(tokens) == len(lists)


@pytest.mark.parametrize("table", ["weeks", "workouts", "exercises"])
def test_a_list_is_locked_at_all_levels(
    session: RefSession, week: uuid.UUID, gym: Engine, table: str
) -> None:
    """So that whoever comes to a part of it by another row waits too, and loses nothing."""
    SESSIONS.apply(session, week, [])
    locking = text(f"select 1 from {table} for update nowait")
    with gym.connect() as other, pytest.raises(OperationalError, match="could not obtain lock"):
        other.execute(locking)


def test_of_batches_with_one_preview_one_is_applied(gym: Engine, week: uuid.UUID) -> None:
    """The others are told."""
    with Session(gym) as plain:
        token = SESSIONS.preview(plain, week, []).token

    def once(number: int) -> str:
        with Session(gym) as plain:
            edits = [Add([1], {"name": f"n{number}"})]
            SESSIONS.apply(plain, week, edits, expect=token)
            plain.commit()
            return "applied"

    results = at_once(*(partial(once, number) for number in range(4)))
    assert "applied" in results
    assert sum(isinstance(each, DriftError) for each in results) == 3
    assert len(sessions_of(gym)) == 4


def test_of_many_that_edit_one_list_none_loses_an_item(gym: Engine, week: uuid.UUID) -> None:
    """Whoever is told that it has changed looks again; nothing is doubled."""

    def until_done(number: int) -> int:
        for attempt in range(1, 50):
            with Session(gym) as plain:
                new = Add([2], {"name": f"m{number}"})
                edits: list[Edit] = [new, Move([1], 2)]
                preview = SESSIONS.preview(plain, week, edits)
                try:
                    SESSIONS.apply(plain, week, edits, expect=preview)
                    plain.commit()
                except DriftError:
                    continue
                return attempt
        return 0

    done = at_once(*(partial(until_done, number) for number in range(8)))
    assert all(isinstance(each, int) and each for each in done)
    found = sessions_of(gym)
    assert [position for position, _ in found] == list(range(1, 12))
    assert len({name for _, name in found}) == 11
