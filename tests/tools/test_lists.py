"""Lists that a model edits by position: rows, arrays, documents and drafts, and what it may do."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import ARRAY, Engine, ForeignKey, Integer, event, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Conversation, Ownership, RefRegistry, RefSession, SetupError
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Hooks, Toolset, Writing
from tests.positions.models import Base as ListBase, Exercise, Note, Week, Workout
from tests.tools.conftest import MODELS, Call, Watcher, bound
from tests.tools.models import Cuisine, Dish, Part


class Base(DeclarativeBase):
    """Declarative base of these tests."""


def remove(*path: int, **more: Any) -> dict[str, Any]:
    """An edit."""
    return {"action": "remove", "path": [*path], **more}


def move(*path: int, to: Any) -> dict[str, Any]:
    """An edit."""
    return {"action": "move", "path": [*path], "to": to}


def add(*path: int, data: Any) -> dict[str, Any]:
    """An edit."""
    return {"action": "add", "path": [*path], "data": data}


def modify(*path: int, data: Any, **more: Any) -> dict[str, Any]:
    """An edit."""
    return {"action": "modify", "path": [*path], "data": data, **more}


@pytest.fixture
def korma(dishes: dict[str, uuid.UUID], call: Call) -> str:
    """The ref of a dish with two parts, rice and sauce, and two tags, mild and hot."""
    rows = call("db_read", table="dishes", order_by="name", order_dir="desc")["rows"]
    assert dishes
    return next(str(row["id"]) for row in rows if row["name"] == "Korma")


@pytest.fixture
def edit(call: Call, korma: str) -> Callable[..., dict[str, Any]]:
    """Edit a list of the dish."""

    def edit(name: str, *edits: Any, **more: Any) -> dict[str, Any]:
        return call("db_edit_list", table="dishes", row=korma, list=name, edits=[*edits], **more)

    return edit


Editing = Callable[..., dict[str, Any]]


def notes(answer: Mapping[str, Any]) -> list[str]:
    """Return what the items of an answer say, in order."""
    return [item["note"] for item in answer["items"].values()]


def parts(tables: Engine) -> list[tuple[int, str | None]]:
    """Return the positions and notes of all parts, as the database has them."""
    with Session(tables) as plain:
        found = plain.execute(select(Part.position, Part.note).order_by(Part.position))
        return [(position, note) for position, note in found]


def test_rows_are_edited_by_position(edit: Editing, korma: str, tables: Engine) -> None:
    """Each item is answered under its position, with its ref, and without what its place says."""
    cuisine = {"cuisine_id": "cuisine_1"}
    answer = edit("parts", move(2, to=1), add(3, data={"note": "salt"} | cuisine))

    assert (answer["table"], answer["row"]) == ("dishes", korma)
    assert answer["items"] == {
        "1": {"id": "part_2", "note": "sauce", "cuisine_id": None},
        "2": {"id": "part_1", "note": "rice", "cuisine_id": None},
        "3": {"id": "part_3", "note": "salt", "_cuisine_id_label": "Indian", **cuisine},
    }
    assert (answer["count"], answer["list"]) == (3, "parts")
    assert parts(tables) == [(1, "sauce"), (2, "rice"), (3, "salt")]


def test_a_row_of_the_list_may_be_named_by_its_ref(edit: Editing) -> None:
    """Where the model knows it."""
    edit("parts", preview=True)
    answer = edit("parts", {"action": "move", "ref": "part_2", "to": 1})
    assert notes(answer) == ["sauce", "rice"]
    wrong = edit("parts", {"action": "remove", "ref": "dish_1"})
    [conflict] = wrong["error"]["conflicts"]
    fact = "'dish_1' names no item of 'parts'"
    assert conflict == {"code": "unknown_item", "edits": [1], "fact": fact}


def test_an_array_and_a_document_are_edited(edit: Editing, tables: Engine) -> None:
    """The column is written once, as a whole."""
    assert edit("tags", remove(1), add(1, data="new"))["items"] == {"1": "new", "2": "hot"}
    made = edit("extra.days", add(1, data={"soup": 1}), add(1, data={"soup": 2}))
    assert made["items"] == {"days": {"1": {"soup": 1}, "2": {"soup": 2}}}
    with Session(tables) as plain:
        dish = plain.scalars(select(Dish).where(Dish.name == "Korma")).one()
    assert (dish.tags, dish.extra) == (["new", "hot"], {"days": [{"soup": 1}, {"soup": 2}]})


def test_a_list_of_refs_is_edited_in_refs(edit: Editing, korma: str, tables: Engine) -> None:
    """Keys are stored, and a ref that names nothing is refused."""
    answer = edit("alike", add(1, data=korma), add(2, data="dish_2"))
    assert answer["items"] == {"1": korma, "2": "dish_2"}
    assert edit("alike", add(1, data="dish_77"))["error"]["code"] == "unknown_ref"
    with Session(tables) as plain:
        [stored] = plain.scalars(select(Dish.alike).where(Dish.alike.is_not(None)))
        assert all(isinstance(key, uuid.UUID) for key in stored)


def test_keys_in_items_are_shown_as_marks_and_stored_as_keys(
    edit: Editing, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """What was shown may be given back."""
    with Session(tables) as plain:
        plain.execute(update(Dish).values(tags=[f"see {dishes['Soup']}", "x"]))
        plain.commit()
    shown = edit("tags", preview=True)["items"]["1"]
    assert shown.startswith("see <dish_")
    edited = edit("tags", remove(1), add(2, data=f"again {shown}"))
    assert edited["items"] == {"1": "x", "2": f"again {shown}"}
    with Session(tables) as plain:
        tags = plain.scalar(select(Dish.tags).where(Dish.name == "Korma"))
    assert tags == ["x", f"again see {dishes['Soup']}"]


# previews and tokens


def test_a_preview_changes_nothing(edit: Editing, tables: Engine) -> None:
    """It shows what edits come to; without any it shows the list."""
    before = parts(tables)
    now = edit("parts", preview=True)
    brown = modify(1, data={"note": "brown", "cuisine_id": "cuisine_2"})
    answer = edit("parts", brown, add(1, data={"note": "n"}), preview=True)

    assert notes(now) == ["rice", "sauce"]
    assert answer["items"] == {
        "1": {"note": "n"},
        "2": {"id": "part_1", "note": "brown", "cuisine_id": "cuisine_2"},
        "3": {"id": "part_2", "note": "sauce", "cuisine_id": None},
    }
    assert answer["token"] == now["token"]
    assert answer["preview"] is True
    assert parts(tables) == before


def test_a_list_that_has_changed_is_told(edit: Editing, tables: Engine) -> None:
    """A token is good until anything in the list is another."""
    token = edit("parts", preview=True)["token"]
    after = edit("parts", move(2, to=1), token=token)
    again = edit("parts", move(2, to=1), token=token)

    assert again["error"]["code"] == "list_changed"
    assert notes(edit("parts", move(2, to=1), token=after["token"])) == ["rice", "sauce"]
    assert parts(tables) == [(1, "rice"), (2, "sauce")]


def test_positions_that_are_doubled_are_seen_first(edit: Editing, tables: Engine) -> None:
    """Edits are refused until the model has seen in which order such rows are taken."""
    with Session(tables) as plain:
        plain.execute(update(Part).values(position=5))
        plain.commit()
    refused = edit("parts", remove(1))
    assert refused["error"]["code"] == "unordered_list"
    seen = edit("parts", preview=True)
    answer = edit("parts", remove(1), token=seen["token"])
    assert notes(answer) == notes(seen)[1:]
    assert [position for position, _ in parts(tables)] == [1]


# what is refused

OUT, UNEXPECTED = "of 'parts' is out of range", "is not the expected item, but"
NO_TEXT = "position 1 cannot be given this: the value given for 'note' does not fit; it takes text"
NO_COLUMN = (
    "position 1 cannot be given this: table 'parts' has no column 'nope' to use here; "
    "use one of 'dish_id', 'position', 'note', 'cuisine_id'"
)


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (
            [remove(3), remove(1), modify(1, data={"note": "x"}), move(2, to=9)],
            [
                ("edited_twice", [2, 3], "position 1 is removed and modified"),
                ("out_of_range", [1], f"position 3 {OUT}: the list has 2 items"),
                ("out_of_range", [4], f"position 9 {OUT}: the list will have 1"),
            ],
        ),
        (
            [modify(1, data={"note": 5}), add(1, data={"nope": 1}), add(1, data="text")],
            [
                ("invalid_edit", [1], NO_TEXT),
                ("invalid_edit", [2], NO_COLUMN),
                ("invalid_edit", [3], "position 1 is a row: give an object of its fields"),
            ],
        ),
        (
            [modify(1, data={"position": 2}), modify(2, data={"dish_id": "dish_1"})],
            [
                ("invalid_edit", [1], "position 1 has 'position' by its place: move it"),
                ("invalid_edit", [2], "position 2 has 'dish_id' by its place: move it"),
            ],
        ),
        (
            [remove(1, expect="sauce"), remove(2, expect={"note": "rice"})],
            [
                ("unexpected_item", [1], f"position 1 {UNEXPECTED} another row"),
                ("unexpected_item", [2], f"position 2 {UNEXPECTED} {{'note': 'sauce'}}"),
            ],
        ),
        ([remove(1, 2)], [("no_list", [1], "position 1 of 'parts' has no list inside")]),
    ],
)
def test_all_that_is_wrong_is_told_at_once(
    edit: Editing, tables: Engine, edits: Sequence[Any], told: Sequence[Any]
) -> None:
    """By position, and nothing is done."""
    before = parts(tables)
    error = edit("parts", *edits)["error"]

    conflicts = [(each["code"], each["edits"], each["fact"]) for each in error["conflicts"]]
    assert sorted(conflicts) == sorted(told)
    assert error["code"] == "conflicting_edits"
    assert parts(tables) == before


def test_edits_of_another_shape_are_refused(edit: Editing) -> None:
    """With the place of the mistake."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"path": [0]}, "edits.0.path.0"),
        ({"path": [-1]}, "edits.0.path.0"),
        ({"path": [True]}, "edits.0.path.0"),
        ({"path": [1.0]}, "edits.0.path.0"),
        ({"path": []}, "edits.0.path"),
        ({"path": None}, "edits.0"),
        ({"path": [1], "ref": "part_1"}, "edits.0"),
        ({"path": [1], "to": 1}, "edits.0"),
        ({"path": [1], "action": "move"}, "edits.0"),
        ({"path": [1], "action": "move", "to": None}, "edits.0"),
        ({"path": [1], "action": "move", "to": 0}, "edits.0.to"),
        ({"path": [1], "action": "add"}, "edits.0"),
        ({"ref": "part_1", "action": "add", "data": {}}, "edits.0"),
        ({"path": [1], "action": "swap"}, "edits.0.action"),
        ({"path": [1], "at": 1}, "edits.0.at"),
    ]
    for given, field in cases:
        error = edit("parts", {"action": "remove", **given})["error"]
        assert error["code"] == "invalid_arguments"
        assert error["field"].startswith(field)


def test_what_an_edit_does_not_take_may_be_null(edit: Editing) -> None:
    """Clients that hold to a strict schema send every field."""
    empty = {"ref": None, "to": None, "data": None, "expect": None}
    assert notes(edit("parts", {"action": "remove", "path": [1], **empty})) == ["sauce"]


@pytest.mark.parametrize("name", ["alike", "parts"])
def test_a_preview_refuses_refs_that_name_nothing(edit: Editing, name: str) -> None:
    """As the edits themselves are refused, and what a model may not do."""
    data = {"alike": "dish_77", "parts": {"cuisine_id": "cuisine_77"}}[name]
    refused = edit(name, add(1, data=data), preview=True)
    assert refused["error"]["code"] == "unknown_ref"


def test_too_many_and_too_deep_are_refused(edit: Editing) -> None:
    """Before a row is read."""
    many = edit("parts", *[remove(1)] * 101)["error"]
    assert many["code"] == "too_many_rows"
    deep = edit("parts", remove(*[1] * 45))["error"]
    assert "a path of 45 levels" in deep["message"]


@pytest.mark.parametrize("name", ["name", "cuisine", "", "parts.note", "nope", "photo", "parent"])
def test_what_is_no_list_is_refused(edit: Editing, name: str) -> None:
    """With the names of those that there are."""
    error = edit(name, remove(1))["error"]
    assert error["code"] == "unknown_list"
    assert error["lists"] == ["parts", "tags", "extra", "alike"]


def test_a_row_that_is_not_there_is_told(
    call: Call, edit: Editing, korma: str, tables: Engine
) -> None:
    """As other tools tell it."""
    asked = {"table": "dishes", "list": "parts", "edits": [remove(1)]}
    assert call("db_edit_list", row="dish_99", **asked)["error"]["code"] == "unknown_ref"
    assert call("db_edit_list", row="cuisine_1", **asked)["error"]["code"] == "wrong_entity"
    assert call("db_edit_list", row="gen_dish_7", **asked)["error"]["code"] == "unknown_draft"
    with Session(tables) as plain:
        plain.delete(plain.scalars(select(Dish).where(Dish.name == "Soup")).one())
        plain.commit()
    codes = {
        call("db_edit_list", row=f"dish_{n}", **asked).get("error", {}).get("code")
        for n in (1, 2, 3)
    }
    assert "gone_ref" in codes
    assert edit("parts", preview=True)["row"] == korma


# what a model may do


def permitted(session: RefSession, **given: Any) -> Editing:
    """Return what edits the list of the parts of a dish in a toolset that permits less."""
    toolset = Toolset(MODELS, **given, expect="optional")
    ref = next(
        row["id"]
        for row in toolset.call(session, "db_read", {"table": "dishes"})["rows"]
        if row["name"] == "Korma"
    )

    def edit(name: str, *edits: Any, **more: Any) -> dict[str, Any]:
        asked = {"table": "dishes", "row": ref, "list": name, "edits": [*edits], **more}
        return toolset.call(session, "db_edit_list", asked)

    return edit


@pytest.mark.usefixtures("dishes")
def test_what_a_model_may_not_write_stays(session: RefSession, tables: Engine) -> None:
    """By whatever a toolset forbids it; a preview does not show what comes to nothing."""
    noted = modify(1, data={"note": "x"})
    cases: list[tuple[dict[str, Any], str, Sequence[Any], str]] = [
        ({"read_only": [Part]}, "parts", [move(2, to=1)], "unknown_list"),
        ({"read_only": [Part.position]}, "parts", [move(2, to=1)], "unknown_list"),
        ({"read_only": [Dish.parts]}, "parts", [move(2, to=1)], "unknown_list"),
        ({"hidden": [Dish.parts]}, "parts", [move(2, to=1)], "unknown_list"),
        ({"read_only": [Dish.tags]}, "tags", [remove(1)], "unknown_list"),
        ({"hidden": [Dish.tags]}, "tags", [remove(1)], "unknown_list"),
        ({"verbs": {Dish: ["create"]}}, "tags", [remove(1)], "unknown_list"),
        ({"verbs": {Part: ["update"]}}, "parts", [remove(1)], "read_only_table"),
        ({"verbs": {Part: ["update"]}}, "parts", [add(1, data={})], "read_only_table"),
        ({"verbs": {Part: ["create", "delete"]}}, "parts", [remove(1)], "unknown_list"),
        ({"read_only": [Part.note]}, "parts", [noted], "conflicting_edits"),
        ({"hidden": [Part.note]}, "parts", [noted], "conflicting_edits"),
        ({"read_only": [Part.dish_id]}, "parts", [add(1, data={})], "unknown_column"),
        ({"read_only": [Part.dish]}, "parts", [add(1, data={})], "unknown_column"),
    ]
    for given, name, edits, code in cases:
        before, edit = parts(tables), permitted(session, **given)
        for preview in (True, False):
            assert edit(name, *edits, preview=preview)["error"]["code"] == code, (given, preview)
        assert parts(tables) == before


class Seat(Base):
    """A seat in a hall."""

    __tablename__ = "seats"

    id: Mapped[int] = mapped_column(primary_key=True)
    hall_id: Mapped[int] = mapped_column(ForeignKey("halls.id"))
    position: Mapped[int]
    kind: Mapped[str]

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "seat"}  # noqa: RUF012


class Box(Seat):
    """A seat whose place is not for a model to change."""

    __mapper_args__ = {"polymorphic_identity": "box"}  # noqa: RUF012


class Hall(Base):
    """Has seats, and numbers in rows."""

    __tablename__ = "halls"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    grid: Mapped[Any] = mapped_column(ARRAY(Integer, dimensions=2), nullable=True)
    bookings: Mapped[Any] = mapped_column(JSONB, nullable=True, info={"ref": {"seat_id": Seat}})

    seats: Mapped[list[Seat]] = relationship(
        order_by="Seat.position", cascade="all, delete-orphan"
    )

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "hall"}  # noqa: RUF012


class Arena(Hall):
    """A hall that a model makes and does not change."""

    __mapper_args__ = {"polymorphic_identity": "arena"}  # noqa: RUF012


@pytest.fixture
def hall(session: RefSession, tables: Engine) -> Callable[..., dict[str, Any]]:
    """Edit a list of a hall with a seat of key 4711, in which is a booking of it."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        seats = [Seat(id=4711, position=1), Box(position=2)]
        plain.add(Hall(seats=seats, grid=[[1, 2], [3, 4]], bookings=[{"seat_id": 4711}]))
        plain.commit()
    toolset = Toolset(
        {"halls": Hall, "arenas": Arena, "seats": Seat, "boxes": Box},
        read_only=[Box.position],
        verbs={Arena: ["create"]},
    )
    toolset.call(session, "db_read", {"table": "halls"})

    def edit(name: str, *edits: Any, **more: Any) -> dict[str, Any]:
        asked = {"table": "halls", "row": "hall_1", "list": name, "edits": [*edits], **more}
        return toolset.call(session, "db_edit_list", asked)

    return edit


def test_no_key_in_a_document_is_told(hall: Editing) -> None:
    """Where an item is another than is expected."""
    shown = hall("bookings", remove(1, expect={"seat_id": "<seat_1>"}), preview=True)
    assert shown["items"] == {}
    for expect in ({"seat_id": "<seat_2>"}, {"x": 1}, "x"):
        assert "4711" not in str(hall("bookings", remove(1, expect=expect)))


def test_arrays_in_an_array_are_edited(hall: Editing) -> None:
    """Where all stay of one length."""
    answer = hall("grid", modify(1, 2, data="7"), move(2, 1, to=2), remove(1, 1, expect=1))
    assert answer["error"]["code"] == "invalid_value"
    answer = hall("grid", modify(1, 2, data="7"), move(2, 1, to=2), modify(1, 1, data=0))
    assert answer["items"] == {"1": [0, 7], "2": [4, 3]}
    told = hall("grid", remove(2, 2, expect=9))["error"]["conflicts"][0]["fact"]
    assert told == "position [2, 2] is not the expected item, but 3"


def test_a_draft_of_a_class_that_is_not_changed_stays(
    hall: Editing, conversation: Conversation
) -> None:
    """Though those of the class that it inherits from may be."""
    for kind, code in (("hall", None), ("arena", "read_only_table")):
        draft = conversation.draft(Hall, {"kind": kind, "grid": [[1], [2]]}).ref
        answer = hall("grid", row=draft, edits=[remove(1)])
        assert answer.get("error", {}).get("code") == code


def test_a_position_that_is_fixed_in_a_subclass_is_fixed(hall: Editing) -> None:
    """There is no list with such rows, for they would be numbered anew."""
    assert hall("seats", move(2, to=1))["error"]["code"] == "unknown_list"


@pytest.mark.usefixtures("dishes")
def test_a_hidden_position_may_be_edited(session: RefSession, tables: Engine) -> None:
    """A list needs no column that a model sees; nor what says which row has it."""
    edit = permitted(session, hidden=[Part.position, Part.dish_id, Part.dish])
    answer = edit("parts", move(2, to=1), add(3, data={"note": "salt"}))
    assert answer["items"]["1"] == {"id": "part_2", "note": "sauce", "cuisine_id": None}
    assert parts(tables) == [(1, "sauce"), (2, "rice"), (3, "salt")]


@pytest.mark.usefixtures("dishes")
def test_hooks_are_asked_of_each_row_that_is_written(session: RefSession) -> None:
    """Before anything is, with what it is given; of those that only move, once."""
    watcher = Watcher(note="by hook")
    edit = permitted(session, hooks={Part: [watcher]})
    edit("parts", preview=True)
    assert watcher.asked == []
    modified = modify(1, data={"cuisine_id": "cuisine_1"})
    answer = edit("parts", modified, move(2, to=1), add(1, data={}))
    assert watcher.asked == [
        ("update", ["part_1"], [{"cuisine_id": "cuisine_1"}]),
        ("update", ["part_2"], [{}]),
        ("create", [], [{"dish_id": answer["row"], "position": 2}]),
    ]
    told = sorted((verb, len(rows)) for verb, rows in watcher.told)
    assert told == [("create", 1), ("update", 1), ("update", 1)]
    assert notes(answer) == ["by hook"] * 3
    assert answer["notes"] == ["asked", "told"] * 3
    watcher.asked.clear()
    edit("parts", remove(1))
    assert watcher.asked[0] == ("delete", ["part_2"], [])


@pytest.mark.usefixtures("dishes")
def test_a_hook_that_refuses_leaves_all_as_it_is(session: RefSession, tables: Engine) -> None:
    """Also what was done before it."""

    class Adding(Hooks):
        def before_write(self, write: Writing) -> None:
            if write.verb == "create":
                write.records.append({})

    before = parts(tables)
    edit = permitted(session, hooks={Part: [Adding()]})
    with pytest.raises(SetupError, match="changed how many records"):
        edit("parts", remove(1), add(1, data={}))
    assert parts(tables) == before


@pytest.fixture
def weeks(session: RefSession, tables: Engine) -> Any:
    """A week with two sessions and three notes, and its tables."""
    ListBase.metadata.create_all(tables)
    with Session(tables) as plain:
        week = Week(title="first")
        week.sessions = [Workout(position=n, name=str(n), version=1) for n in (1, 2)]
        week.notes = [Note(body=body) for body in "abc"]
        plain.add(week)
        plain.commit()
    yield session
    session.rollback()
    session.close()
    ListBase.metadata.drop_all(tables)


def test_rows_that_are_not_deleted_are_unlinked(weeks: RefSession, tables: Engine) -> None:
    """Where their foreign key may be null; if the model may write that."""
    asked = {"table": "weeks", "row": "week_1", "list": "notes", "edits": [remove(2)]}
    toolset = Toolset([Week, Note], read_only=[Note.week_id], expect="optional")
    toolset.call(weeks, "db_read", {"table": "weeks"})
    assert toolset.call(weeks, "db_edit_list", asked)["error"]["code"] == "fixed_item"
    watcher = Watcher()
    toolset = Toolset([Week, Note], hooks={Note: [watcher]}, expect="optional")
    answer = toolset.call(weeks, "db_edit_list", asked)
    assert [item["body"] for item in answer["items"].values()] == ["a", "c"]
    assert watcher.asked == [("update", ["note_2", "note_3"], [{}])]
    with Session(tables) as plain:
        stored = plain.execute(select(Note.body, Note.place, Note.week_id.is_(None)))
        assert sorted(map(tuple, stored)) == [("a", 0, False), ("b", 1, True), ("c", 1, False)]


def test_edits_are_of_one_list_in_any_order(weeks: RefSession) -> None:
    """The answers are the same, whatever the order of the edits."""
    toolset = Toolset([Week, Workout], expect="optional")
    toolset.call(weeks, "db_read", {"table": "weeks"})
    one, three = modify(1, data={"name": "one"}), add(3, data={"name": "three"})
    edits = [one, move(2, to=1), three, move(1, to=2)]
    answers = set()
    for batch in itertools.permutations(edits):
        asked = {"table": "weeks", "row": "week_1", "list": "sessions", "edits": [*batch]}
        answer = toolset.call(weeks, "db_edit_list", {**asked, "preview": True})
        answers.add(str(answer))
    assert len(answers) == 1


@pytest.mark.usefixtures("dishes")
def test_a_long_list_is_cut_and_says_so(session: RefSession) -> None:
    """The answer has no more rows than others, of those that changed; the count is of all."""
    edit = permitted(session, max_written=200)
    answer = edit("parts", *[add(n, data={"note": str(n)}) for n in range(3, 153)])
    assert (answer["count"], len(answer["items"])) == (152, 100)
    assert answer["cut"] == ["parts: items from 102 to 152"]
    assert [*answer["items"]][:3] == ["2", "3", "4"]


def test_a_move_writes_what_it_must(edit: Editing, tables: Engine) -> None:
    """Rows whose position stays are not written."""
    edit("parts", *[add(n, data={"note": str(n)}) for n in range(3, 43)])
    written: list[str] = []

    @event.listens_for(tables, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.startswith("UPDATE parts"):
            written.extend(parameters if isinstance(parameters, list) else [parameters])

    edit("parts", move(40, to=42))
    assert len(written) == 3


# drafts


@pytest.fixture
def draft(conversation: Conversation) -> str:
    """The ref of a draft of a dish with three tags and two parts."""
    parts = [{"note": "leek", "position": 1}, {"note": "bean", "position": 2}]
    return conversation.draft(Dish, {"name": "Stew", "tags": [*"abc"], "parts": parts}).ref


def test_a_list_in_a_draft_is_edited(call: Call, draft: str, conversation: Conversation) -> None:
    """In its content, by the same rules; positions that it has are those of the list."""
    asked = {"table": "dishes", "row": draft}
    tags = call("db_edit_list", list="tags", edits=[remove(1), move(3, to=1)], **asked)
    assert tags["items"] == {"1": "c", "2": "b"}
    preview = call("db_edit_list", list="parts", edits=[remove(1)], preview=True, **asked)
    edits = [move(2, to=1), add(2, data={"note": "salt"})]
    changed = call("db_edit_list", list="parts", edits=edits, token=preview["token"], **asked)
    told = [(item["note"], item["position"]) for item in changed["items"].values()]
    assert told == [("bean", 1), ("salt", 2), ("leek", 3)]
    [read] = conversation.read_drafts([draft])
    assert [part["note"] for part in read.content["parts"]] == ["bean", "salt", "leek"]
    late = call("db_edit_list", list="parts", edits=[remove(1)], token=preview["token"], **asked)
    assert late["error"]["code"] == "list_changed"


def test_a_document_in_a_draft_begins_as_that_of_a_row(
    weeks: RefSession, conversation: Conversation
) -> None:
    """By the name of the list, where the column has nothing yet."""
    sessions = [{"exercises": [{"name": "a"}, {"name": "b", "sets": {"x": 1}}]}]
    draft = conversation.draft(Week, {"sessions": sessions}).ref
    edits = [add(1, n, 1, data="x") for n in (1, 2)]
    asked = {"table": "weeks", "row": draft, "list": "sessions.exercises.sets.done"}
    Toolset([Week, Workout, Exercise]).call(weeks, "db_edit_list", asked | {"edits": edits})
    [kept] = conversation.read_drafts([draft])
    sets = [each["sets"] for each in kept.content["sessions"][0]["exercises"]]
    assert sets == [{"done": ["x"]}, {"x": 1, "done": ["x"]}]


def test_a_position_in_a_draft_is_not_given(call: Call, draft: str) -> None:
    """It would be numbered anew."""
    asked = {"table": "dishes", "row": draft, "list": "parts"}
    edits = [add(1, data={"position": 9}), modify(1, data={"position": 2})]
    conflicts = call("db_edit_list", edits=edits, **asked)["error"]["conflicts"]
    told = "position 1 has 'position' by its place: move it"
    assert [each["fact"] for each in conflicts] == [told, told]


def test_a_token_is_of_one_draft(call: Call, draft: str, conversation: Conversation) -> None:
    """Another with the same items has another one."""
    [read] = conversation.read_drafts([draft])
    other = conversation.draft(Dish, read.content).ref
    asked = {"table": "dishes", "list": "tags"}
    token = call("db_edit_list", row=draft, **asked)["token"]
    wrong = call("db_edit_list", row=other, edits=[remove(1)], token=token, **asked)
    assert wrong["error"]["code"] == "list_changed"


def test_a_draft_is_given_what_a_row_could_have(call: Call, draft: str) -> None:
    """All else is refused, and the draft is as it was."""
    asked = {"table": "dishes", "row": draft}
    for name, edit, code in (
        ("parts", add(1, data={"nope": 1}), "unknown_column"),
        ("tags", add(1, data=5), "invalid_value"),
        ("tags", remove(4, expect="x"), "conflicting_edits"),
    ):
        wrong = call("db_edit_list", list=name, edits=[edit], **asked)
        assert wrong["error"]["code"] == code
    shown = call("db_edit_list", list="tags", **asked)
    assert shown["items"] == {"1": "a", "2": "b", "3": "c"}


def test_lists_are_in_the_description(toolset: Toolset) -> None:
    """And the tool is offered on tables that have some."""
    assert "  lists: parts, tags, extra, alike\n" in toolset.describe()
    offered = {each["name"]: each for each in toolset.schemas("mcp")}
    assert offered["db_edit_list"]["inputSchema"]["properties"]["table"]["enum"] == ["dishes"]
    assert "db_edit_list" not in {each["name"] for each in Toolset([Cuisine]).schemas("mcp")}


@pytest.mark.usefixtures("dishes")
def test_what_is_done_with_items_is_kept_for_prompts(tables: Engine) -> None:
    """Those that are changed, made and deleted, and those that are shown; of each once."""
    desk = bound(Toolset(MODELS, expect="optional"), tables)
    rows = desk.call("chat-7", None, "db_read", {"table": "dishes", "columns": ["name"]}).value
    korma = next(row["id"] for row in rows["rows"] if row["name"] == "Korma")
    asked = {"table": "dishes", "row": korma, "list": "parts"}
    desk.call("chat-7", None, "db_edit_list", asked)
    edits = [remove(1), modify(2, data={"note": "gravy"}), add(2, data={"note": "salt"})]
    desk.call("chat-7", None, "db_edit_list", {**asked, "edits": edits})
    entries = desk.conversation("chat-7", None).activity().entries
    kept = {str(each.ref): each.action for each in entries if each.ref.entity == "part"}
    assert kept == {"part_1": "deleted", "part_2": "updated", "part_3": "created"}


# what is answered: the items that changed, and those next to them


NOTES = [*"abcdefghi"]
LIST = {"table": "dishes", "row": "dish_1"}


CASES: list[tuple[list[dict[str, Any]], list[int]]] = [
    ([modify(4, data="D")], [3, 4, 5]),
    ([modify(1, data="A")], [1, 2]),
    ([modify(9, data="I")], [8, 9]),
    ([remove(5)], [4, 5]),
    ([remove(1)], [1]),
    ([remove(9)], [8]),
    ([add(4, data="new")], [3, 4, 5]),
    ([move(8, to=2)], [1, 2, 3, 8, 9]),
    ([modify(2, data="B"), remove(8)], [1, 2, 3, 7, 8]),
]


@pytest.fixture
def listed(tables: Engine) -> None:
    """A dish with nine parts, tags, and items of a document with lists inside."""
    with Session(tables) as plain, plain.begin():
        extra = [{"days": [*NOTES]}, {"days": [*NOTES]}, {"days": ["x"]}, {"days": ["y"]}]
        parts = [Part(position=n, note=note) for n, note in enumerate(NOTES, start=1)]
        plain.add(Dish(name="Dal", tags=[*NOTES], extra=extra, parts=parts))


def texts(items: dict[str, Any]) -> dict[str, str]:
    """Return items by position, rows by their notes."""
    return {n: each["note"] if isinstance(each, dict) else each for n, each in items.items()}


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(("edits", "shown"), CASES)
@pytest.mark.parametrize("name", ["tags", "parts"])
def test_changed_items_are_shown_with_their_neighbours(
    call: Call, edits: list[dict[str, Any]], shown: list[int], name: str
) -> None:
    """Each under its position as it is then; the length and the token are of the whole list."""
    call("db_read", table="dishes")
    if name == "parts":
        edits = [{**e, "data": {"note": e["data"]}} if "data" in e else e for e in edits]
    preview, answer = (
        call("db_edit_list", **LIST, list=name, edits=edits, preview=each)
        for each in (True, False)
    )
    whole = call("db_edit_list", **LIST, list=name, preview=True)
    assert [*preview["items"]] == [*answer["items"]] == [str(n) for n in shown]
    assert (len(whole["items"]), whole["token"]) == (answer["count"], answer["token"])
    assert texts(answer["items"]).items() <= texts(whole["items"]).items()


@pytest.mark.usefixtures("listed")
def test_a_list_inside_of_an_item_is_shown_with_what_it_is_in(
    call: Call, conversation: Conversation
) -> None:
    """Of what is around it the one item; also in a draft."""
    call("db_read", table="dishes")
    edits = [modify(2, 5, data="E")]
    items = call("db_edit_list", **LIST, list="extra.days", edits=edits)["items"]
    assert items == {"2": {"days": {"4": "d", "5": "E", "6": "f"}}}

    edits = [remove(3, 1)]
    items = call("db_edit_list", **LIST, list="extra.days", edits=edits)["items"]
    assert items == {"3": {"days": {}}}

    conversation.draft(Dish, {"name": "Dal", "tags": NOTES, "parts": [{"note": n} for n in NOTES]})
    draft = {"table": "dishes", "row": "gen_dish_1"}
    removed = call("db_edit_list", **draft, list="tags", edits=[remove(5)])
    assert removed["items"] == {"4": "d", "5": "f"}
    parts = call("db_edit_list", **draft, list="parts", edits=[remove(5)])
    assert texts(parts["items"]) == {"4": "d", "5": "f"}


# lists in a session that has an owner


class Album(Base):
    """Has songs of several owners; those of nobody are shared."""

    __tablename__ = "albums"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None]

    songs: Mapped[list[Song]] = relationship(
        order_by="Song.position", cascade="all, delete-orphan"
    )


class Song(Base):
    """A song of an album."""

    __tablename__ = "songs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None]
    album_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("albums.id"))
    position: Mapped[int]


OWNERSHIP = Ownership({Album: "owner", Song: "owner"}, shared=[Album, Song])
TOOLSET = Toolset([Album, Song], owner=OWNERSHIP)


@pytest.fixture
def edit_owned(engine: Engine) -> Iterator[Editing]:
    """Make an album with a song of each of some owners, and edit its list in Ann's session."""
    Base.metadata.create_all(engine)
    conversation = RefRegistry(store=MemoryStore()).conversation("chat", owner="ann")
    with RefSession(engine, conversation=conversation, owner=OWNERSHIP.of("ann")) as session:

        def edit(whose: str | None, songs: list[str | None], **asked: Any) -> dict[str, Any]:
            made = [Song(owner=each, position=n) for n, each in enumerate(songs, start=1)]
            with Session(engine) as plain:
                album = Album(owner=whose, songs=made)
                plain.add(album)
                plain.commit()
                ref = conversation.refer(Album, album.id)
            given = {"table": "albums", "row": ref, "list": "songs", **asked}
            return TOOLSET.call(session, "db_edit_list", given)

        yield edit


@pytest.mark.parametrize("preview", [True, False])
def test_rows_that_are_only_read_are_named(
    edit_owned: Editing, engine: Engine, preview: bool
) -> None:
    """Where they would be numbered anew; a preview does not show what comes to nothing."""
    whose = ["ann", "ann", None, None]
    error = edit_owned("ann", whose, edits=[remove(1)], preview=preview)["error"]
    assert (error["code"], error["refs"]) == ("foreign_row", ["song_3", "song_4"])
    with Session(engine) as plain:
        assert sorted(plain.scalars(select(Song.position))) == [1, 2, 3, 4]
    assert edit_owned("ann", [None, "ann"], edits=[remove(2)])["count"] == 1


def test_a_list_with_rows_that_are_not_seen_is_left(edit_owned: Editing) -> None:
    """A model is not told to look at it again once it has."""
    for asked in ({"preview": True}, {"edits": [remove(1)], "token": "x"}):
        error = edit_owned("ann", ["ann", "bob"], **asked)["error"]
        assert error["message"] == (
            "the list 'songs' has rows that its owner may not see; change its rows by their refs"
        )


@pytest.mark.parametrize("whose", ["bob", None])
def test_the_list_of_a_row_of_another_is_not_edited(
    edit_owned: Editing, whose: str | None
) -> None:
    """Nor that of a shared one."""
    assert edit_owned(whose, ["ann"], edits=[remove(1)])["error"]["code"] == "foreign_row"


@pytest.mark.usefixtures("listed")
def test_a_stricter_toolset_hides_columns_in_answers(call: Call) -> None:
    """Of items under their positions, of a list that is hidden itself, and in totals."""
    tables = Toolset(MODELS, hidden=[Part.note, Part.position, Dish.tags]).tables
    call("db_read", table="dishes")
    parts, tags = (
        call("db_edit_list", **LIST, list=name, preview=True) for name in ("parts", "tags")
    )
    totals = call("db_read", table="parts", columns=["dish_id", "max(position)"])

    assert parts["items"]["1"]["note"] == "a"
    assert "note" not in tables.without_hidden(parts)["items"]["1"]
    assert tables.without_hidden(tags) == {n: v for n, v in tags.items() if n != "items"}
    assert {*tables.without_hidden(totals)["totals"][0]} == {"dish_id", "_dish_id_label"}
