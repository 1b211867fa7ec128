"""Lists by unusual mappings: other collections, composite keys, expressions, filters."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ARRAY, Computed, Engine, ForeignKey, Text, Uuid, func, select
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    WriteOnlyMapped,
    attribute_keyed_dict,
    column_property,
    mapped_column,
    relationship,
)

from alfred_refs import Ownership, RefSession
from alfred_refs.errors import ListError, PositionError
from alfred_refs.positions import Add, EditableList, Modify, Move, Remove


class Base(DeclarativeBase):
    """Of these tables alone."""


class Shelf(Base):
    """Has boxes, in collections of all kinds."""

    __tablename__ = "shelves"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None] = mapped_column()
    upper: Mapped[Any] = column_property(func.string_to_array(owner, ",", type_=ARRAY(Text)))

    boxes: Mapped[list[Box]] = relationship(
        order_by="Box.position",
        cascade="all, delete-orphan",
        primaryjoin="and_(Shelf.id == Box.shelf_id, Box.is_gone == False)",
    )
    tens: Mapped[list[Box]] = relationship(
        order_by="Box.position",
        collection_class=ordering_list(
            "position", ordering_func=lambda number, _: 10 * number + 10
        ),
        overlaps="boxes",
    )
    slots: Mapped[list[Slot]] = relationship(
        order_by="Slot.position", cascade="all, delete-orphan"
    )
    all_boxes: Mapped[set[Box]] = relationship(order_by="Box.position", overlaps="boxes,tens")
    by_name: Mapped[dict[str, Box]] = relationship(
        order_by="Box.position",
        collection_class=attribute_keyed_dict("name"),
        overlaps="boxes,tens,all_boxes",
    )
    unloaded: WriteOnlyMapped[Box] = relationship(
        order_by="Box.position", overlaps="boxes,tens,all_boxes,by_name"
    )


class Box(Base):
    """Has a position, a name and what follows from that, and things with keys of two columns."""

    __tablename__ = "boxes"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    owner: Mapped[str | None]
    shelf_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("shelves.id"))
    position: Mapped[int]
    is_gone: Mapped[bool] = mapped_column(default=False)
    name: Mapped[str | None] = mapped_column()
    computed: Mapped[str | None] = mapped_column(Computed("lower(name)"))
    lower: Mapped[str | None] = column_property(func.lower(name))

    things: Mapped[list[Thing]] = relationship(
        order_by="Thing.position", cascade="all, delete-orphan"
    )


class Thing(Base):
    """Its key says which box it is in."""

    __tablename__ = "things"

    box_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("boxes.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int]


class Slot(Base):
    """Its position is in its key."""

    __tablename__ = "slots"

    shelf_id: Mapped[uuid.UUID] = mapped_column(Uuid, ForeignKey("shelves.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class _Tagged:
    id: Mapped[int] = mapped_column(primary_key=True)
    tags: Mapped[Any] = mapped_column(ARRAY(Text))


class Sack(_Tagged, Base):
    """Has tags."""

    __tablename__ = "sacks"


class Bag(_Tagged, Base):
    """Has tags too."""

    __tablename__ = "bags"


@pytest.fixture
def shelf(engine: Engine) -> uuid.UUID:
    """The key of a shelf of Ann's with three boxes, of which one is gone, and things in them."""
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        boxes = [
            Box(
                owner="ann",
                position=n,
                name=name,
                is_gone=name == "gone",
                things=[Thing(number=m, position=m) for m in (1, 2)],
            )
            for n, name in enumerate(("A", "gone", "B"), start=1)
        ]
        shelf = Shelf(owner="ann", boxes=boxes)
        plain.add(shelf)
        plain.commit()
        return shelf.id


@pytest.fixture
def plain(engine: Engine) -> Iterator[Session]:
    """A session."""
    with Session(engine) as plain:
        yield plain


def positions(plain: Session) -> list[tuple[int, str | None]]:
    """Return the positions and names of all boxes."""
    return [(n, name) for n, name in plain.execute(select(Box.position, Box.name)).fetchall()]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("all_boxes", "does not load its rows into a list"),
        ("by_name", "does not load its rows into a list"),
        ("unloaded", "does not load its rows into a list"),
        ("slots", "has its position column in the primary key"),
        ("upper", "is neither an array nor JSON"),
    ],
)
def test_what_cannot_be_kept_in_order_is_refused(name: str, fact: str) -> None:
    """When it is named: other collections, positions in keys, and what is no column."""
    with pytest.raises(ListError, match=fact):
        EditableList(Shelf, name)


def test_positions_are_as_the_collection_counts(plain: Session, shelf: uuid.UUID) -> None:
    """Each of them, and not the first alone."""
    EditableList(Shelf, "tens").apply(plain, shelf, [Move([3], 1), Add([4], {"name": "C"})])
    plain.commit()
    assert sorted(positions(plain)) == [(10, "B"), (20, "A"), (30, "gone"), (40, "C")]


def test_a_row_whose_key_has_its_list_stays_in_it(plain: Session, shelf: uuid.UUID) -> None:
    """It would be another row; in its own list it moves."""
    things = EditableList(Shelf, "boxes.things")
    done = things.apply(plain, shelf, [Move([1, 2], 1), Remove([2, 1])])
    assert [len(box["things"]) for box in done.after] == [2, 1]
    with pytest.raises(PositionError, match="would have another key in the list of another"):
        things.apply(plain, shelf, [Move([1, 1], [2, 1])])


@pytest.mark.parametrize("field", ["lower", "computed"])
def test_what_follows_from_other_columns_is_not_given(
    plain: Session, shelf: uuid.UUID, field: str
) -> None:
    """It would not be stored."""
    with pytest.raises(PositionError, match=f"has no writable field '{field}'"):
        EditableList(Shelf, "boxes").apply(plain, shelf, [Modify([1], {field: "x"})])


def test_an_owner_edits_a_list_that_leaves_rows_out(engine: Engine, shelf: uuid.UUID) -> None:
    """By what the relationship says, and not because they are another owner's."""
    ownership = Ownership({Shelf: "owner", Box: "owner"})
    with RefSession(engine, owner=ownership.of("ann")) as session:
        EditableList(Shelf, "boxes").apply(session, shelf, [Move([2], 1)])
        session.commit()
    with Session(engine) as plain:
        assert sorted(positions(plain)) == [(1, "B"), (2, "A"), (2, "gone")]


@pytest.mark.usefixtures("shelf")
def test_a_token_is_of_one_class(plain: Session) -> None:
    """Though a row of another has the same key and the same list."""
    plain.add_all([Sack(id=1, tags=["x"]), Bag(id=1, tags=["x"])])
    first, second = (EditableList(each, "tags").preview(plain, 1, []) for each in (Sack, Bag))
    assert (first.before, first.token != second.token) == (second.before, True)
