"""Where a delete ends that goes from table to table, by rules of the schema and the mapping."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Table, select
from sqlalchemy.orm import Mapped, Session, WriteOnlyMapped, mapped_column, relationship

from alfred_refs import RefPolicy, RefSession
from alfred_refs.tools import Hooks, Reading, Toolset, Writing
from tests.tools.conftest import Watcher, by, counted
from tests.tools.families import (
    FAMILIES,
    Animal,
    Base,
    Bear,
    Den,
    Pair,
    delete,
    made,
    make,
    rows,
)
from tests.tools.models import Cuisine, Dish


class Grand(Base):
    """Refers to a part that goes by a rule of the database."""

    __tablename__ = "grands"

    id: Mapped[int] = mapped_column(primary_key=True)
    part_id: Mapped[int] = mapped_column(ForeignKey("gone_parts.id", ondelete="CASCADE"))


@pytest.mark.parametrize("listed", [True, False])
def test_rules_of_the_database_are_followed_to_their_end(
    tables: Engine, session: RefSession, listed: bool
) -> None:
    """Through rows that no model may use, to such as are not its to change."""
    each = FAMILIES["gone"]
    made(tables, each)
    make(tables, Grand)
    with Session(tables) as plain:
        plain.add_all([Grand(id=5, part_id=1), Grand(id=6, part_id=3)])
        plain.commit()
    models: list[type[Any]] = [each.top, Grand, *([each.part] if listed else [])]

    refused = delete(session, Toolset(models, read_only=[Grand]), each.top, "a")["error"]
    assert (refused["code"], refused["referring"]) == ("still_referenced", "grands")
    assert refused["refs"] == ["grand_1"]
    assert "not yours to change" in refused["message"]
    told = delete(session, Toolset(models), each.top, "a")
    parts = {"gone_part_1", "gone_part_2"} if listed else set()
    assert {*told["deleted_with"]} == {"grand_1", *parts}
    assert [*rows(tables, Grand)[0]] == [(6,)]


class Owner(Base):
    """Goes with the last of what refers to it, as a cascade the other way says."""

    __tablename__ = "owners"

    id: Mapped[int] = mapped_column(primary_key=True)


class Ticket(Base):
    """Takes its owner along."""

    __tablename__ = "tickets"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"))

    owner: Mapped[Owner] = relationship(cascade="all")


def test_a_cascade_to_what_is_referred_to_is_held(tables: Engine, session: RefSession) -> None:
    """A row may take along that which it refers to."""
    make(tables, Owner, Ticket)
    with Session(tables) as plain:
        plain.add(Ticket(id=1, note="a", owner=Owner(id=7)))
        plain.commit()

    toolset = Toolset([Ticket, Owner], read_only=[Owner])
    error = delete(session, toolset, Ticket, "a")["error"]
    assert (error["code"], error["refs"]) == ("still_referenced", ["owner_1"])
    told = delete(session, Toolset([Ticket, Owner]), Ticket, "a")
    assert told["deleted_with"] == ["owner_1"]


class Link(Base):
    """Between two classes; some toolsets list it."""

    __tablename__ = "links"

    left_id: Mapped[int] = mapped_column(ForeignKey("lefts.id"), primary_key=True)
    right_id: Mapped[int] = mapped_column(ForeignKey("rights.id"), primary_key=True)


class Right(Base):
    """What is linked."""

    __tablename__ = "rights"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


class Left(Base):
    """Has links."""

    __tablename__ = "lefts"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    rights: Mapped[list[Right]] = relationship(secondary="links")


def test_links_go_with_their_row(tables: Engine, session: RefSession) -> None:
    """What they lead to stays; where the links are read only they keep their row."""
    make(tables, Left, Right, Link)
    with Session(tables) as plain:
        right = Right(id=1, note="r")
        plain.add_all([Left(id=1, note="a", rights=[right]), Left(id=2, note="b", rights=[right])])
        plain.commit()
    before = rows(tables, Left, Right, Link)

    error = delete(session, Toolset([Left, Right, Link], read_only=[Link]), Left, "a")["error"]
    assert (error["referring"], error["refs"]) == ("links", ["link_1"])
    assert rows(tables, Left, Right, Link) == before
    told = delete(session, Toolset([Left, Right, Link]), Left, "a")
    assert (told["deleted_with"], told.get("unlinked")) == (["link_1"], None)
    told = delete(session, Toolset([Left, Right], read_only=[Right]), Left, "b")
    assert told == {"table": "lefts", "deleted": ["left_2"], "count": 1, "unlinked": ["right_1"]}
    assert [len(each) for each in rows(tables, Left, Right, Link)] == [0, 1, 0]


class Chapter(Base):
    """Goes with a part by a rule of the database, whatever the relationship does."""

    __tablename__ = "chapters"

    id: Mapped[int] = mapped_column(primary_key=True)
    volume_id: Mapped[int | None] = mapped_column(ForeignKey("volumes.id", ondelete="CASCADE"))


class Volume(Base):
    """Goes with a set by a rule of the database: the unit of work is not asked."""

    __tablename__ = "volumes"

    id: Mapped[int] = mapped_column(primary_key=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("sets.id", ondelete="CASCADE"))

    chapters: Mapped[list[Chapter]] = relationship()


class Edition(Base):
    """Has volumes."""

    __tablename__ = "sets"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


def test_what_the_database_takes_along_goes_by_its_rules_alone(
    tables: Engine, session: RefSession
) -> None:
    """A relationship of its class would unlink there, and nobody asks it."""
    make(tables, Edition, Volume, Chapter)
    with Session(tables) as plain:
        plain.add(Edition(id=1, note="a"))
        plain.flush()
        plain.add(Volume(id=1, set_id=1))
        plain.flush()
        plain.add(Chapter(id=1, volume_id=1))
        plain.commit()
    models = [Edition, Volume, Chapter]

    updating = Toolset(models, verbs={Chapter: ["update"]})
    assert delete(session, updating, Edition, "a")["error"]["refs"] == ["chapter_1"]
    told = delete(session, Toolset(models), Edition, "a")
    assert (told["deleted_with"], "unlinked" in told) == (["volume_1", "chapter_1"], False)
    assert rows(tables, *models) == [{}, {}, {}]


class Lamp(Base):
    """Stands on a desk, or nowhere."""

    __tablename__ = "lamps"

    id: Mapped[int] = mapped_column(primary_key=True)
    desk_id: Mapped[int | None] = mapped_column(ForeignKey("desks.id"))


class Desk(Base):
    """Goes with its firm by a rule of the database, and with its room by the unit of work."""

    __tablename__ = "desks"

    id: Mapped[int] = mapped_column(primary_key=True)
    firm_id: Mapped[int] = mapped_column(ForeignKey("firms.id", ondelete="CASCADE"))
    room_id: Mapped[int] = mapped_column(ForeignKey("rooms.id"))

    lamps: Mapped[list[Lamp]] = relationship()


class Room(Base):
    """Goes with its firm."""

    __tablename__ = "rooms"

    id: Mapped[int] = mapped_column(primary_key=True)
    firm_id: Mapped[int] = mapped_column(ForeignKey("firms.id"))

    desks: Mapped[list[Desk]] = relationship(cascade="all, delete-orphan")


class Firm(Base):
    """Has rooms and desks."""

    __tablename__ = "firms"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    rooms: Mapped[list[Room]] = relationship(cascade="all, delete-orphan")


def test_what_the_unit_of_work_deletes_goes_by_the_mapping(
    tables: Engine, session: RefSession
) -> None:
    """Though the database would take it along as well, and is found to by a shorter way."""
    models = [Firm, Room, Desk, Lamp]
    make(tables, *models)
    with Session(tables) as plain:
        plain.add_all([Firm(id=1, note="a"), Room(id=1, firm_id=1)])
        plain.add_all([Desk(id=1, firm_id=1, room_id=1), Lamp(id=1, desk_id=1)])
        plain.commit()

    told = delete(session, Toolset(models), Firm, "a")
    assert {*told["deleted_with"]} == {"room_1", "desk_1"}
    assert told["unlinked"] == ["lamp_1"]
    assert rows(tables, *models) == [{}, {}, {}, {(1,): (1, None)}]


@pytest.mark.parametrize("fixed", [Pair.one_id, Pair.two_id])
def test_all_references_that_a_row_loses_are_held(
    tables: Engine, session: RefSession, fixed: Any
) -> None:
    """Not the first alone; hooks are asked of all of them at once."""
    make(tables, Den, Animal, Bear, Pair)
    with Session(tables) as plain:
        plain.add(Den(id=1, note="a"))
        plain.flush()
        plain.add(Pair(id=1, one_id=1, two_id=1))
        plain.commit()

    error = delete(session, Toolset([Den, Pair], read_only=[fixed]), Den, "a")["error"]
    assert (error["code"], error["refs"]) == ("still_referenced", ["pair_1"])
    hooks = Watcher()
    told = delete(session, Toolset([Den, Pair], hooks={Pair: [hooks]}), Den, "a")
    assert told["unlinked"] == ["pair_1"]
    assert hooks.asked == [("update", ["pair_1"], [{"one_id": None, "two_id": None}])]


@pytest.mark.parametrize("fixed", ["cuisine_id", "second_cuisine_id", None])
def test_a_remedy_is_one_for_all_rows_in_the_way(
    tables: Engine, session: RefSession, fixed: str | None
) -> None:
    """Where one of them may not be changed, none is said to be, though another may."""
    with Session(tables) as plain:
        thai = Cuisine(name="Thai")
        plain.add(thai)
        plain.flush()
        plain.add_all([Dish(cuisine_id=thai.id), Dish(second_cuisine_id=thai.id)])
        plain.commit()
    toolset = Toolset([Dish, Cuisine], read_only=[] if fixed is None else [getattr(Dish, fixed)])
    asked = {"table": "cuisines", "filters": [{"field": "name", "op": "=", "value": "Thai"}]}
    error = counted(toolset, session, "db_delete", asked)["error"]

    assert (error["code"], len(error["refs"])) == ("still_referenced", 2)
    assert ("let those refer to something else" in error["message"]) is (fixed is None)


class Ware(Base):
    """Is had by one stall in two ways."""

    __tablename__ = "wares"

    id: Mapped[int] = mapped_column(primary_key=True)
    stall_id: Mapped[int | None] = mapped_column(ForeignKey("stalls.id"))


class Stall(Base):
    """Takes along by one relationship what it would unlink by others."""

    __tablename__ = "stalls"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    before: Mapped[list[Ware]] = relationship()
    wares: Mapped[list[Ware]] = relationship(cascade="all", overlaps="before")
    after: Mapped[list[Ware]] = relationship(overlaps="before, wares")


def test_a_cascade_goes_before_other_relationships(tables: Engine, session: RefSession) -> None:
    """Whichever is declared first, rows are deleted, and need not be for the model to change."""
    make(tables, Stall, Ware)
    with Session(tables) as plain:
        plain.add(Stall(id=1, note="a", wares=[Ware(id=1)]))
        plain.commit()
    told = delete(session, Toolset([Stall, Ware], verbs={Ware: ["delete"]}), Stall, "a")

    assert told["deleted_with"] == ["ware_1"]
    assert rows(tables, Stall, Ware) == [{}, {}]


class Crumb(Base):
    """Goes with a slice."""

    __tablename__ = "crumbs"

    id: Mapped[int] = mapped_column(primary_key=True)
    slice_id: Mapped[int] = mapped_column(ForeignKey("slices.id"))


class Slice(Base):
    """Goes with a loaf; is always loaded with its crumbs."""

    __tablename__ = "slices"

    id: Mapped[int] = mapped_column(primary_key=True)
    loaf_id: Mapped[int] = mapped_column(ForeignKey("loaves.id"))

    crumbs: Mapped[list[Crumb]] = relationship(cascade="all")
    joined: Mapped[list[Crumb]] = relationship(lazy="joined", viewonly=True)


class Loaf(Base):
    """Has slices, by relationships of each strategy."""

    __tablename__ = "loaves"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    slices: Mapped[list[Slice]] = relationship(cascade="all")
    later: WriteOnlyMapped[Slice] = relationship(
        cascade="all", lazy="write_only", passive_deletes=True, overlaps="slices"
    )
    raised: Mapped[list[Slice]] = relationship(lazy="raise", viewonly=True)


def test_rows_of_any_loading_strategy_are_loaded_together(
    tables: Engine, session: RefSession, sent: list[str]
) -> None:
    """Four slices with their crumbs take no more statements than three."""
    make(tables, Loaf, Slice, Crumb)
    with Session(tables) as plain:
        for loaf, number in ((1, 3), (2, 4)):
            slices = [Slice(id=10 * loaf + n, crumbs=[Crumb(), Crumb()]) for n in range(number)]
            plain.add(Loaf(id=loaf, note="ab"[loaf - 1], slices=slices))
        plain.commit()
    toolset = Toolset([Loaf, Slice, Crumb])
    counts = []
    for note, others in (("a", 9), ("b", 12)):
        session.expunge_all()
        sent.clear()
        assert len(delete(session, toolset, Loaf, note)["deleted_with"]) == others
        counts.append(len(sent))
    assert rows(tables, Loaf, Slice, Crumb) == [{}, {}, {}]
    assert counts[0] == counts[1]


# classes that inherit: which hooks, columns and tables count


class Beast(Base):
    """Has a subclass in a table of its own, and one in the same."""

    __tablename__ = "beasts"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "beast"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    note: Mapped[str | None]
    cage_id: Mapped[int | None] = mapped_column(ForeignKey("cages.id", ondelete="SET NULL"))


class Lion(Beast):
    """In two tables."""

    __tablename__ = "lions"
    __mapper_args__ = {"polymorphic_identity": "lion"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("beasts.id"), primary_key=True)
    roar: Mapped[str | None]


class Mouse(Beast):
    """In the table of its base."""

    __mapper_args__ = {"polymorphic_identity": "mouse"}  # noqa: RUF012


class Cage(Base):
    """What beasts are in."""

    __tablename__ = "cages"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]


ZOO = {"beasts": Beast, "lions": Lion, "mice": Mouse, "cages": Cage}


@pytest.fixture
def zoo(tables: Engine) -> Engine:
    """A beast, a lion and a mouse in a cage each."""
    make(tables, Cage, Beast, Lion)
    with Session(tables) as plain:
        plain.add_all([Cage(id=n, note=f"cage {n}") for n in (1, 2, 3)])
        plain.flush()
        plain.add_all([Beast(id=1, note="a", cage_id=1), Lion(id=2, note="b", cage_id=2)])
        plain.add(Mouse(id=3, note="c", cage_id=3))
        plain.commit()
    return tables


@pytest.mark.parametrize(("kind", "note", "cage"), [(Lion, "b", "cage 2"), (Mouse, "c", "cage 3")])
def test_rows_of_a_read_only_subclass_are_not_written(
    zoo: Engine, session: RefSession, kind: type[Beast], note: str, cage: str
) -> None:
    """Neither by the name of their base, nor because something that they refer to goes."""
    before = rows(zoo, Beast, Lion, Cage)
    toolset = Toolset(ZOO, read_only=[kind])
    filters = [{"field": "note", "op": "in", "value": ["a", note]}]
    changed = {"table": "beasts", "filters": filters, "data": {"note": "x"}}
    answers = [
        counted(toolset, session, "db_update", changed),
        counted(toolset, session, "db_delete", {"table": "beasts", "filters": filters}),
        delete(session, toolset, Cage, cage),
    ]

    codes = [each["error"]["code"] for each in answers]
    assert codes == ["read_only_table", "read_only_table", "still_referenced"]
    assert rows(zoo, Beast, Lion, Cage) == before
    assert delete(session, toolset, Cage, "cage 1")["unlinked"] == ["beast_1"]
    assert delete(session, toolset, Beast, "a")["count"] == 1


def test_a_subclass_has_its_own_hooks_and_columns(zoo: Engine, session: RefSession) -> None:
    """They hold where its rows are written by the name of the base."""
    hooks = Watcher(note="changed by a hook")
    toolset = Toolset(ZOO, hooks={Lion: [hooks]}, read_only=[Mouse.note])
    every = [{"field": "note", "op": "is_not_null"}]
    lions = [{"field": "note", "op": "=", "value": "b"}]
    changed = {"table": "beasts", "data": {"note": "x"}}

    lion: Any = session.scalars(select(Lion.id).where(Lion.note == "b")).one()  # a ref
    session.rollback()
    error = counted(toolset, session, "db_update", {**changed, "filters": every})["error"]
    assert (error["code"], error["table"]) == ("unknown_column", "mice")
    toolset.call(session, "db_update", {**changed, "filters": lions, "expect": {"count": 1}})
    assert [row[2] for row in rows(zoo, Beast)[0].values()] == ["a", "changed by a hook", "c"]
    assert hooks.asked == [("update", [lion], [{"note": "x"}])]
    delete(session, toolset, Beast, "changed by a hook")
    assert hooks.asked[1:] == [("delete", [lion], [])]


def test_what_a_hook_deletes_is_its_own(zoo: Engine, session: RefSession) -> None:
    """It is not taken for what goes along: the model may not do it, and is not told."""

    class Emptying(Hooks):
        def before_write(self, write: Writing) -> None:
            write.session.delete(write.session.scalars(select(Cage).filter_by(note="new")).one())

    with Session(zoo) as plain:
        plain.add(Cage(id=4, note="new"))
        plain.commit()
    toolset = Toolset(ZOO, hooks={Lion: [Emptying()]}, read_only=[Cage])
    answer = delete(session, toolset, Beast, "b")

    assert (answer["count"], "deleted_with" in answer) == (1, False)
    assert [*rows(zoo, Cage)[0]] == [(1,), (2,), (3,)]


class Wing(Base):
    """Has bears that go with it by the unit of work, and so as a whole."""

    __tablename__ = "wings"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    birds: Mapped[list[Bird]] = relationship(cascade="all, delete-orphan")


class Bird(Animal):
    """In two tables."""

    __tablename__ = "birds"
    __mapper_args__ = {"polymorphic_identity": "bird"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("animals.id"), primary_key=True)
    wing_id: Mapped[int | None] = mapped_column(ForeignKey("wings.id", ondelete="CASCADE"))


@pytest.mark.parametrize("listed", [True, False])
def test_the_database_does_not_tear_a_row_of_two_tables(
    tables: Engine, session: RefSession, listed: bool
) -> None:
    """It would take the part of the subclass alone: that keeps what it refers to."""
    make(tables, Den, Animal, Bear, Wing, Bird)
    with Session(tables) as plain:
        plain.add_all([Den(id=1, note="winter"), Den(id=2, note="summer")])
        plain.add(Wing(id=1, note="wing"))
        plain.flush()
        plain.add_all([Bear(id=1, winter_id=1), Bear(id=2, den_id=2), Bird(id=3, wing_id=1)])
        plain.commit()
    before = rows(tables, Den, Animal, Bear)
    toolset = Toolset([Den, Wing, *([Animal, Bear, Bird] if listed else [])])

    error = delete(session, toolset, Den, "winter")["error"]
    assert (error["code"], rows(tables, Den, Animal, Bear)) == ("still_referenced", before)
    referring = ("bears", ["animal_1"]) if listed else (None, [])
    assert (error["referring"], error["refs"]) == referring
    told = [delete(session, toolset, Den, "summer"), delete(session, toolset, Wing, "wing")]
    assert [each["count"] for each in told] == [1, 1]
    assert [len(each.get("deleted_with", [])) for each in told] == ([1, 1] if listed else [0, 0])
    assert [[*each] for each in rows(tables, Animal, Bear, Bird)] == [[(1,)], [(1,)], []]


class Thing(Base):
    """Has a subclass with keys of its own."""

    __tablename__ = "owned_things"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]
    den_id: Mapped[int] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Gadget(Thing):
    """In one table, which is not that of its base."""

    __tablename__ = "gadgets"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]
    den_id: Mapped[int] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


def test_a_concrete_subclass_has_rows_of_its_own(tables: Engine, session: RefSession) -> None:
    """Though they have the keys of the base's."""
    make(tables, Den, Animal, Bear, Pair, Thing, Gadget)
    with Session(tables) as plain:
        plain.add(Den(id=1, note="a"))
        plain.flush()
        plain.add_all([Thing(id=1, den_id=1), Gadget(id=1, den_id=1)])
        plain.commit()

    error = delete(session, Toolset([Den, Thing, Gadget], read_only=[Gadget]), Den, "a")["error"]
    assert error["referring"] == "gadgets"
    policy = RefPolicy(labels={Gadget: "note"})
    other = Toolset([Den, Thing], hidden=[Thing.note], policy=policy)
    assert other.tables.of_model(Gadget) is None
    base = Toolset([Den, Thing, Gadget]).tables.of_model(Thing)
    assert base is not None
    assert [*base.kinds] == [Thing]
    assert len(delete(session, Toolset([Den, Thing, Gadget]), Den, "a")["deleted_with"]) == 2


class Hides(Hooks):
    """Hides the first row."""

    def before_read(self, read: Reading) -> None:
        """Add a condition."""
        read.conditions.append(read.model.id != 1)


class Masks(Hooks):
    """Removes all rows."""

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Remove them."""
        rows.clear()


@pytest.mark.parametrize(("model", "other"), [(Thing, Gadget), (Gadget, Thing)])
def test_hooks_and_consent_are_not_those_of_a_concrete_subclass(
    tables: Engine, session: RefSession, model: type[Any], other: type[Any]
) -> None:
    """Its rows may have the keys of the base's; neither class has rules of the other."""
    make(tables, Den, Thing, Gadget)
    with Session(tables) as plain:
        plain.add(Den(id=1, note="a"))
        plain.flush()
        plain.add_all([Thing(id=1, den_id=1), Gadget(id=1, den_id=1)])
        plain.commit()
    asked = {"table": other.__tablename__}

    def read(hook: Hooks) -> Any:
        hooked = Toolset([Den, Thing, Gadget], hooks={model: [hook]}, sql=True)
        sql = {"sql": f"select count(*) from {other.__tablename__}"}
        assert hooked.call(session, "db_query", sql)["rows"] == [[1]]
        hidden = hooked.call(session, "db_read", {"table": model.__tablename__})
        assert hidden["count"] == 0
        return hooked.call(session, "db_read", asked)["count"]

    assert [read(Hides()), read(Masks())] == [1, 1]
    careful = Toolset([Den, Thing, Gadget], consent={model: ["delete"]}, expect="optional")
    ref = Toolset([other]).call(session, "db_read", asked)["rows"][0]["id"]
    assert careful.call(session, "db_delete", asked | {"filters": by("id", ref)})["count"] == 1


class Bare(Base):
    """Is mapped to the table of a concrete subclass."""

    __table__ = Gadget.__table__
    __ref_name__ = "gadget"


def test_rows_of_a_concrete_subclass_are_known_by_their_table(
    tables: Engine, session: RefSession
) -> None:
    """Though another class is mapped to it, which no model may use."""
    make(tables, Den, Animal, Bear, Pair, Thing, Gadget)
    with Session(tables) as plain:
        plain.add(Den(id=1, note="a"))
        plain.flush()
        plain.add(Gadget(id=1, den_id=1))
        plain.commit()

    error = delete(session, Toolset([Den, Gadget], read_only=[Gadget]), Den, "a")["error"]
    assert error["referring"] == "gadgets"
    assert delete(session, Toolset([Den, Gadget]), Den, "a")["deleted_with"] == ["gadget_1"]


class Label(Base):
    """Is on things."""

    __tablename__ = "thing_labels"

    id: Mapped[int] = mapped_column(primary_key=True)


labelled = Table(
    "labelled_things",
    Base.metadata,
    Column("thing_id", ForeignKey("marked_things.id"), primary_key=True),
    Column("label_id", ForeignKey("thing_labels.id"), primary_key=True),
)


class Marked(Base):
    """Has labels."""

    __tablename__ = "marked_things"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]
    labels: Mapped[list[Label]] = relationship(secondary=labelled)


class Extra(Marked):
    """Has a table of its own, whose key refers to the base's."""

    __tablename__ = "extra_things"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(
        ForeignKey("marked_things.id", ondelete="CASCADE"), primary_key=True
    )
    note: Mapped[str]
    labels = None  # type: ignore[assignment]


def test_a_concrete_subclass_has_links_and_cascades_of_its_own(
    tables: Engine, session: RefSession
) -> None:
    """Its row is not linked with what the row of the base is, and is deleted with that."""
    make(tables, Label, Marked, Extra)
    labelled.create(tables)
    with Session(tables) as plain:
        plain.add(Marked(id=1, note="a", labels=[Label(id=1)]))
        plain.flush()
        plain.add(Extra(id=1, note="a"))
        plain.commit()
    models = [Marked, Extra, Label]

    error = delete(session, Toolset(models, read_only=[Extra]), Marked, "a")["error"]
    assert error["referring"] == "extra_things"
    told = delete(session, Toolset(models), Extra, "a")
    assert (told["count"], told.keys() & {"unlinked", "deleted_with"}) == (1, set())
