"""Classes mapped in ways that a model knows nothing of: what it may do with their rows."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    REAL,
    Boolean,
    Date,
    DateTime,
    Engine,
    Enum,
    Float,
    ForeignKey,
    Identity,
    Interval,
    LargeBinary,
    Numeric,
    String,
    Time,
    TypeDecorator,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    WriteOnlyMapped,
    mapped_column,
    relationship,
)

from alfred_refs import RefPolicy, RefSession, SetupError
from alfred_refs.tools import Toolset
from tests.fix_session import TravelLog
from tests.models import Cook, Guest, Key, MealPlan, Person, Recipe
from tests.tools.conftest import Call, by, counted, save
from tests.tools.models import Dish, Part


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Counted(Base):
    """Has a version, and a number that the database alone may give."""

    __tablename__ = "counted"

    id: Mapped[Key]
    version: Mapped[int] = mapped_column()
    number: Mapped[int] = mapped_column(Identity(always=True))
    note: Mapped[str | None]

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Node(Base):
    """Refers to its like, which the ORM deletes one after the other."""

    __tablename__ = "nodes"

    id: Mapped[Key]
    parent_id: Mapped[Any] = mapped_column(ForeignKey("nodes.id"), nullable=True)
    weight: Mapped[float | None] = mapped_column(REAL)
    seen_at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))
    story: Mapped[str | None] = mapped_column(deferred=True, deferred_raiseload=True)

    parent: Mapped[Node | None] = relationship(remote_side="Node.id", back_populates="children")
    children: Mapped[list[Node]] = relationship(back_populates="parent")


class Whole(Base):
    """Has parts whose keys have its own in them."""

    __tablename__ = "wholes"

    id: Mapped[Key]

    pieces: Mapped[list[Piece]] = relationship()
    asked: WriteOnlyMapped[Piece] = relationship(viewonly=True)


class Piece(Base):
    """A part of a whole."""

    __tablename__ = "pieces"

    whole_id: Mapped[Any] = mapped_column(ForeignKey("wholes.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Animal(Base):
    """Is read together with the tables of its subclasses."""

    __tablename__ = "animals"
    __mapper_args__ = {  # noqa: RUF012
        "polymorphic_on": "kind",
        "polymorphic_identity": "animal",
        "with_polymorphic": "*",
    }

    id: Mapped[Key]
    kind: Mapped[str]
    note: Mapped[str | None]


class Cat(Animal):
    """A joined subclass."""

    __tablename__ = "cats"
    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(ForeignKey("animals.id"), primary_key=True)


class Unit(Base):
    """The base of classes whose tables name its key otherwise."""

    __tablename__ = "units"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "unit"}  # noqa: RUF012

    unit_id: Mapped[Key]
    kind: Mapped[str]


class Shop(Unit):
    """Has lines that refer to its own table, and a relationship by its key."""

    __tablename__ = "shops"
    __mapper_args__ = {"polymorphic_identity": "shop"}  # noqa: RUF012

    shop_id: Mapped[Any] = mapped_column(ForeignKey("units.unit_id"), primary_key=True)
    city: Mapped[str | None]

    shelves: Mapped[list[Shelf]] = relationship(back_populates="shop")
    unit: Mapped[Unit | None] = relationship(foreign_keys=[shop_id], viewonly=True)


class Stall(Shop):
    """Inherits by a chain of keys."""

    __tablename__ = "stalls"
    __mapper_args__ = {"polymorphic_identity": "stall"}  # noqa: RUF012

    stall_id: Mapped[Any] = mapped_column(ForeignKey("shops.shop_id"), primary_key=True)
    floor: Mapped[int]


class Shelf(Base):
    """Is in a shop."""

    __tablename__ = "shelves"

    id: Mapped[Key]
    shop_id: Mapped[Any] = mapped_column(ForeignKey("shops.shop_id"))
    shop: Mapped[Shop] = relationship(back_populates="shelves")


class Colour(enum.Enum):
    """Has a member of two names."""

    RED = "r"
    SCARLET = "r"  # noqa: PIE796  # its other name
    BLUE = "b"


class Short(TypeDecorator[str]):
    """A type that changes no values, as SQLModel has for text."""

    impl = String(3)
    cache_ok = True


class Paint(Base):
    """Has columns of types that are made of others."""

    __tablename__ = "paints"

    id: Mapped[Key]
    colour: Mapped[Any] = mapped_column(Enum(Colour, native_enum=False, omit_aliases=False))
    other: Mapped[Any] = mapped_column(Enum(Colour, native_enum=False), nullable=True)
    short: Mapped[str | None] = mapped_column(Short)


class Card(MappedAsDataclass, Base):
    """A dataclass: its `__init__` needs some attributes, and does not know others."""

    __tablename__ = "cards"

    id: Mapped[Key] = mapped_column(init=False)
    title: Mapped[str]
    note: Mapped[str | None]
    above_id: Mapped[Any] = mapped_column(ForeignKey("cards.id"), nullable=True)
    below: Mapped[list[Card]] = relationship()
    size: Mapped[int] = mapped_column(default=5)
    colour: Mapped[str | None] = mapped_column(init=False, default=None)


class Shout(Base):
    """Has an `__init__` of its own."""

    __tablename__ = "shouts"

    id: Mapped[Key]
    text: Mapped[str]
    note: Mapped[str | None]

    def __init__(self, text: str) -> None:
        self.text = text.upper()


class Memo(MappedAsDataclass, Base):
    """A dataclass whose `__init__` does not take all attributes."""

    __tablename__ = "memos"

    id: Mapped[Key] = mapped_column(init=False)
    title: Mapped[str]
    note: Mapped[str | None] = mapped_column(init=False, default=None)


class Shouted(Memo, init=False):
    """Hands on what it is given."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class Served(Base):
    """Needs more than attributes to be made."""

    __tablename__ = "served"

    id: Mapped[Key]

    def __init__(self, service: object) -> None:
        del service


class Supplied(Base):
    """Needs more than attributes, and takes all of these."""

    __tablename__ = "supplied"

    id: Mapped[Key]

    def __init__(self, *, factor: int, **values: Any) -> None:
        super().__init__(**values)
        del factor


class Branch(Base):
    """Refers to a card, and is read together with its leaves."""

    __tablename__ = "branches"

    id: Mapped[Key]
    card_id: Mapped[Any] = mapped_column(ForeignKey("cards.id"))
    leaves: Mapped[list[Leaf]] = relationship(lazy="joined")


class Leaf(Base):
    """Is read together with its branch."""

    __tablename__ = "leaves"

    id: Mapped[Key]
    branch_id: Mapped[Any] = mapped_column(ForeignKey("branches.id"))


MakeCall = Callable[..., Call]


@pytest.fixture
def made(tables: Engine, session: RefSession) -> MakeCall:
    """Make what calls a tool on some classes, with its arguments by name."""
    Base.metadata.create_all(tables)

    def make(*models: type[Any], **named: type[Any]) -> Call:
        toolset = Toolset(named or models)
        return lambda tool, /, **arguments: counted(toolset, session, tool, arguments)

    return make


def codes(*answers: dict[str, Any]) -> list[str]:
    """Return the codes of errors."""
    return [answer["error"]["code"] for answer in answers]


def test_rows_of_a_subclass_are_made_read_changed_and_deleted(made: MakeCall) -> None:
    """In both tables of joined inheritance, and in their base's too."""
    call = made(Person, Cook)
    [row] = call("db_create", table="cooks", data={"stars": 2})["rows"]
    assert (row["id"], row["kind"], row["stars"]) == ("person_1", "cook", 2)
    this = by("id", "person_1")

    [row] = call("db_update", table="cooks", filters=this, data={"stars": 3})["rows"]
    assert row["stars"] == 3
    assert call("db_read", table="people")["rows"] == [
        {"id": "person_1", "kind": "cook", "mentor_id": None}
    ]
    assert call("db_delete", table="people", filters=this)["deleted"] == ["person_1"]
    assert call("db_read", table="cooks")["rows"] == []


def test_the_key_of_a_subclass_is_the_key_of_the_row_under_any_name(made: MakeCall) -> None:
    """It is not needed for a new row, and shows the row's ref, in drafts too."""
    call = made(Unit, Shop, Stall, Shelf)
    [row] = call("db_create", table="stalls", data={"floor": 1, "shelves": [{}]})["rows"]
    assert row["shelves"] == [{"id": "shelf_1", "shop_id": "unit_1"}]
    own = ("unit_id", "shop_id", "stall_id")
    assert [row[name] for name in own] == ["unit_1"] * 3

    drafts = call("db_create", table="stalls", data={"floor": 2, "shelves": [{}]}, draft=True)
    assert [drafts["rows"][0][name] for name in own] == ["gen_unit_1"] * 3
    saved = call("db_create", table="stalls", from_draft="gen_unit_1")
    assert [saved["rows"][0][name] for name in own] == ["unit_2"] * 3
    assert call("db_read", table="shelves", filters=named("shelf_2"))["rows"] == [
        {"id": "shelf_2", "shop_id": "unit_2"}
    ]


def test_no_half_of_a_row_gets_another_key(made: MakeCall) -> None:
    """The rows of the tables of one class would belong to two rows."""
    call = made(Unit, Shop, Stall)
    call("db_create", table="units", data={})
    call("db_create", table="stalls", data={"floor": 1, "city": "Rome"})
    this = by("shop_id", "unit_2")

    assert (
        codes(
            call("db_update", table="stalls", filters=this, data={"stall_id": "unit_1"}),
            call("db_update", table="shops", filters=this, data={"shop_id": "unit_1"}),
            call("db_create", table="shops", data={"shop_id": "unit_1"}),
            call("db_create", table="shops", data={"shop_id": "unit_1"}, draft=True),
            call("db_create", table="shops", data={"unit": "unit_1"}, draft=True),
        )
        == ["unknown_column"] * 5
    )
    [row] = call("db_read", table="stalls", filters=this)["rows"]
    assert (row["unit_id"], row["city"], row["floor"]) == ("unit_2", "Rome", 1)


def test_of_which_class_a_row_is_cannot_be_given(made: MakeCall) -> None:
    """A row of a class that there is none of could not be read again, nor those beside it."""
    call = made(people=Person, guests=Guest)
    this = [{"field": "id", "op": "is_not_null"}]

    assert (
        codes(
            call("db_create", table="people", data={"kind": "cook"}),
            call("db_create", table="guests", data={"kind": "nobody"}),
            call("db_update", table="people", filters=this, data={"kind": "guest"}),
        )
        == ["unknown_column"] * 3
    )
    assert call("db_create", table="guests", data={})["rows"][0]["kind"] == "guest"
    guests = by("kind", "guest")
    assert call("db_read", table="people", filters=guests)["count"] == 1


def test_what_the_mapping_or_the_database_counts_cannot_be_given(made: MakeCall) -> None:
    """The version of a row, and numbers that are always generated."""
    call = made(Counted)
    [row] = call("db_create", table="counted", data={"note": "a"})["rows"]
    this = by("id", row["id"])

    assert (row["version"], row["number"]) == (1, 1)
    assert (
        codes(
            call("db_create", table="counted", data={"version": 5}),
            call("db_create", table="counted", data={"number": 5}),
            call("db_update", table="counted", filters=this, data={"version": 7}),
        )
        == ["unknown_column"] * 3
    )
    [row] = call("db_update", table="counted", filters=this, data={"note": "b"})["rows"]
    assert (row["version"], row["number"]) == (2, 1)


def named(*refs: str) -> list[dict[str, Any]]:
    """Return filters on rows by their refs."""
    return by("id", list(refs), "in")


@pytest.mark.parametrize("rows", [("node_1",), ("node_2", "node_3")])
def test_rows_that_refer_to_each_other_are_not_deleted(
    made: MakeCall, rows: tuple[str, ...]
) -> None:
    """Nor is one that refers to itself; once a reference is taken away they are."""
    call = made(Node)
    call("db_create", table="nodes", data=[{}, {}, {}])
    for child, parent in (("node_1", "node_1"), ("node_2", "node_3"), ("node_3", "node_2")):
        call("db_update", table="nodes", filters=named(child), data={"parent_id": parent})

    assert codes(call("db_delete", table="nodes", filters=named(*rows))) == ["circular_reference"]
    call("db_update", table="nodes", filters=named(rows[0]), data={"parent_id": None})
    deleted = call("db_delete", table="nodes", filters=named(*rows))
    assert sorted(deleted["deleted"]) == list(rows)


def test_rows_that_take_others_along_are_deleted_in_one_flush(made: MakeCall) -> None:
    """The first is in a circle, which is not found while what goes with the next is loaded."""
    call = made(Recipe, MealPlan)
    call("db_create", table="recipes", data=[{"name": "a"}, {"name": "b"}])
    for ref in ("recipe_1", "recipe_2"):
        circle = {"parent_recipe_id": ref}
        call("db_update", table="recipes", filters=named(ref), data=circle)
    call("db_create", table="meal_plans", data={"recipe_id": "recipe_2"})
    both = named("recipe_1", "recipe_2")

    error = call("db_delete", table="recipes", filters=both)["error"]
    assert (error["code"], error["tables"]) == ("circular_reference", ["recipes"])
    assert call("db_read", table="meal_plans")["count"] == 1


def test_a_row_whose_key_is_a_part_of_others_is_not_deleted(made: MakeCall) -> None:
    """As long as these are there, which only the ORM notices: the database is not asked."""
    call = made(Whole, Piece)
    call("db_create", table="wholes", data={})
    call("db_create", table="pieces", data={"whole_id": "whole_1", "place": 1})

    assert codes(call("db_delete", table="wholes", filters=named("whole_1"))) == [
        "still_referenced"
    ]
    here = by("place", 1)
    assert call("db_delete", table="pieces", filters=here)["deleted"] == ["piece_1"]
    assert call("db_delete", table="wholes", filters=named("whole_1"))["deleted"] == ["whole_1"]


def test_rows_read_with_tables_of_subclasses_are_changed(made: MakeCall) -> None:
    """Though these are joined in a way in which no row can be locked."""
    call = made(Animal, Cat)
    call("db_create", table="animals", data={})
    call("db_create", table="cats", data={})
    both = named("animal_1", "animal_2")

    changed = call("db_update", table="animals", filters=both, data={"note": "x"})
    assert [row["note"] for row in changed["rows"]] == ["x", "x"]
    assert call("db_delete", table="animals", filters=both)["count"] == 2


def test_what_is_expected_of_a_row_is_compared_as_its_column_has_it(made: MakeCall) -> None:
    """A moment in another zone, and a column that is not loaded by itself."""
    call = made(Node)
    given = {"seen_at": "2026-05-01T18:30:00+02:00", "story": "long", "weight": 0.1}
    call("db_create", table="nodes", data=given)

    changed = call(
        "db_update", table="nodes", filters=named("node_1"), data={"weight": 1}, expect=given
    )
    assert [row["weight"] for row in changed["rows"]] == [1.0]
    refused = call("db_delete", table="nodes", filters=named("node_1"), expect={"story": "short"})
    assert codes(refused) == ["unexpected_row"]


def test_rows_of_what_is_not_loaded_as_a_whole_are_not_shown_inside(made: MakeCall) -> None:
    """A model may filter by them, and read them in their own table."""
    call = made(Whole, Piece)
    call("db_create", table="wholes", data=[{}, {}])
    call("db_create", table="pieces", data={"whole_id": "whole_1", "place": 1})

    refused = call("db_read", table="wholes", columns=["asked"])
    assert refused["error"]["code"] == "unknown_column"
    assert refused["error"]["columns"] == ["id", "pieces"]
    by_them = by("asked.place", 1)
    assert call("db_read", table="wholes", filters=by_them)["rows"] == [{"id": "whole_1"}]


def test_refs_of_rows_inside_of_others_are_minted_together(
    made: MakeCall, tables: Engine, store: TravelLog
) -> None:
    """Though none of their columns has them: one round trip for all."""
    call = made(Whole, Piece)
    save(tables, Whole(pieces=[Piece(place=n) for n in range(5)]))

    [row] = call("db_read", table="wholes", columns=["pieces"])["rows"]

    assert [piece["_ref"] for piece in row["pieces"]] == [f"piece_{n}" for n in range(1, 6)]
    assert store.trips == ["refer", "refer"]


def test_numbers_of_single_precision_are_found_again(made: MakeCall) -> None:
    """By what a model was shown of them, and page by page."""
    call = made(Node)
    call("db_create", table="nodes", data=[{"weight": 0.1}, {"weight": 0.1}, {"weight": 0.7}])

    for op, value in (("=", 0.1), ("in", [0.1]), ("<", 0.7), ("not_in", [0.7])):
        light = by("weight", value, op)
        assert call("db_read", table="nodes", filters=light)["count"] == 2
    asked = {"table": "nodes", "order_by": "weight", "columns": ["weight"], "limit": 1}
    pages = [call("db_read", **asked)]
    while pages[-1]["more"]:
        assert len(pages) < 3
        pages.append(call("db_read", **asked, cursor=pages[-1]["cursor"]))
    assert [page["rows"][0]["weight"] for page in pages] == [0.1, 0.1, 0.7]


def test_a_row_is_made_by_the_init_of_its_class(made: MakeCall) -> None:
    """It is given what it takes, and nothing for what it needs; the rest is set."""
    call = made(Card, Shout, Shouted)

    cards = call(
        "db_create", table="cards", data=[{"title": "a"}, {"title": "b", "colour": "red"}]
    )
    assert [(row["title"], row["size"], row["colour"]) for row in cards["rows"]] == [
        ("a", 5, None),
        ("b", 5, "red"),
    ]
    [shout] = call("db_create", table="shouts", data={"text": "hey", "note": "x"})["rows"]
    assert (shout["text"], shout["note"]) == ("HEY", "x")
    [memo] = call("db_create", table="memos", data={"title": "a", "note": "x"})["rows"]
    assert (memo["title"], memo["note"]) == ("a", "x")


def test_rows_that_are_read_with_a_collection_are_named_in_errors(made: MakeCall) -> None:
    """A join for their collection repeats each."""
    call = made(Card, Branch, Leaf)
    call("db_create", table="cards", data={"title": "a"})
    data = {"card_id": "card_1", "leaves": [{}, {}]}
    assert "error" not in call("db_create", table="branches", data=data)

    this = by("id", "card_1")
    answer = call("db_delete", table="cards", filters=this)
    assert answer["error"]["code"] == "still_referenced"
    assert answer["error"]["refs"] == ["branch_1"]


def test_an_init_that_needs_more_than_attributes_is_a_mistake_in_the_set_up(
    made: MakeCall,
) -> None:
    """No model can give what it needs."""
    with pytest.raises(SetupError, match=r"its __init__ needs 'service'.*verbs=\{Served: "):
        made(Served)
    with pytest.raises(SetupError, match=r"^2 classes cannot be used"):
        Toolset([Served, Supplied])
    Toolset([Served, Supplied], read_only=[Served], verbs={Supplied: ["update"]})


def test_what_the_application_left_to_be_flushed_is_its_own_mistake(
    made: MakeCall, session: RefSession
) -> None:
    """It is raised, and not told to the model, whose call has not begun."""
    call = made(Shout)
    nameless: Any = None
    session.add(Card(title=nameless, note=None, above_id=None, below=[]))

    with pytest.raises(IntegrityError):
        call("db_read", table="shouts")


def test_what_is_hidden_of_a_class_is_hidden_of_its_subclasses(session: RefSession) -> None:
    """They have it from there."""
    toolset = Toolset([Person, Cook], hidden=[Person.mentor_id])

    for table in ("people", "cooks"):
        by_it = [{"field": "mentor_id", "op": "is_null"}]
        answer = toolset.call(session, "db_read", {"table": table, "filters": by_it})
        assert answer["error"]["code"] == "unknown_column"


def test_what_rows_are_called_by_cannot_be_hidden() -> None:
    """Labels are next to refs and in errors; rows of a subclass are rows of its base."""
    policy = RefPolicy(labels={Cook: "stars"})
    for refused in (
        partial(Toolset, [Dish], hidden=[Dish.name]),
        partial(Toolset, [Person], hidden=[Cook.stars], policy=policy),
    ):
        with pytest.raises(SetupError, match="of which the label of its rows is made"):
            refused()


KEY_VALUES: dict[str, tuple[Any, Any]] = {
    "date": (Date, dt.date(2026, 5, 1)),
    "datetime": (DateTime, dt.datetime(2026, 5, 1, 10, 30, 0, 5)),  # noqa: DTZ001  # without
    "moment": (DateTime(timezone=True), dt.datetime(2026, 5, 1, 10, 30, tzinfo=dt.UTC)),
    "time": (Time, dt.time(10, 30)),
    "numeric": (Numeric, Decimal("1.50")),
    "float": (Float, 0.1),
    "boolean": (Boolean, False),
    "bytes": (LargeBinary, b"\x01\xff"),
    "interval": (Interval, dt.timedelta(days=1, microseconds=3)),
    "member": (Enum(Colour, native_enum=False), Colour.BLUE),
}


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", KEY_VALUES)
def test_rows_with_a_key_of_any_type_have_refs(
    kind: str, columns: int, tables: Engine, session: RefSession
) -> None:
    """By which they are read, changed and deleted, alone and in a key of several columns."""
    type_, value = KEY_VALUES[kind]

    class Plain(DeclarativeBase):
        """Of this test."""

    class Reading(Plain):
        __tablename__ = "readings_by_key"
        read: Mapped[Any] = mapped_column(type_, primary_key=True)
        sensor: Mapped[str] = mapped_column(primary_key=columns > 1)
        note: Mapped[str | None]

    Plain.metadata.create_all(tables)
    save(tables, Reading(read=value, sensor="a"))
    toolset = Toolset([Reading], expect="optional")
    table = {"table": "readings_by_key"}

    [row] = toolset.call(session, "db_read", table)["rows"]
    assert (row["_ref"], row["sensor"]) == ("reading_1", "a")
    this = {**table, "filters": by("_ref", "reading_1")}
    assert toolset.call(session, "db_read", this)["rows"] == [row]
    [changed] = toolset.call(session, "db_update", {**this, "data": {"note": "x"}})["rows"]
    assert changed == {**row, "note": "x"}
    if columns > 1:
        assert session.get_one(Reading, "reading_1").read == value
    assert toolset.call(session, "db_delete", this)["deleted"] == ["reading_1"]
    again = toolset.call(session, "db_read", this)
    assert again["error"]["code"] == "gone_ref"


def test_rows_are_named_by_keys_that_refs_can_name() -> None:
    """Others are refused before a model is told of them: in a key of several columns, too."""

    class Plain(DeclarativeBase):
        """Of this test."""

    class Reading(Plain):
        __tablename__ = "readings"
        sensor: Mapped[str] = mapped_column(primary_key=True)
        read: Mapped[Any] = mapped_column(ARRAY(Date), primary_key=True)

    message = "rows of '.*Reading' are told apart by 'read', a list, by which refs cannot name"
    with pytest.raises(SetupError, match=message):
        Toolset([Reading])


def test_all_classes_that_cannot_be_used_are_in_one_error() -> None:
    """Each with its fact and its remedy."""

    class Plain(DeclarativeBase):
        """Of this test."""

    classes = [
        type(
            f"Reading{name}",
            (Plain,),
            {
                "__tablename__": f"readings_{name}",
                "at": mapped_column(ARRAY(Date), primary_key=True),
            },
        )
        for name in ("A", "B")
    ]

    with pytest.raises(SetupError) as raised:
        Toolset([classes[0], Dish, classes[1]])
    assert str(raised.value).startswith("2 classes cannot be used:\n- rows of 'ReadingA' are")
    assert "\n- rows of 'ReadingB' are told apart by 'at', a list" in str(raised.value)
    assert str(raised.value).count("leave the class out of models") == 2


def test_new_rows_are_told_apart_by_columns_alone() -> None:
    """By a relationship, which no record has, none ever would be."""
    with pytest.raises(SetupError, match="deduplicate lists 'dish', no column"):
        Toolset([Part], deduplicate={Part: ("dish", "position")})


def test_types_made_of_others_take_what_these_do(made: MakeCall) -> None:
    """An enum with all names of its members, and a decorated text as long as it may be."""
    call = made(Paint)
    given = {"colour": "SCARLET", "other": "RED", "short": "abc"}

    assert codes(
        call("db_create", table="paints", data={**given, "other": "SCARLET"}),
        call("db_create", table="paints", data={**given, "short": "abcd"}),
    ) == ["invalid_value", "invalid_value"]
    [row] = call("db_create", table="paints", data=given)["rows"]
    assert (row["other"], row["short"]) == ("RED", "abc")
    scarlet = by("colour", row["colour"])
    short = by("short", "A%", "ilike")
    assert call("db_read", table="paints", filters=[*scarlet, *short])["count"] == 1
