"""A delete takes along, unlinks or refuses what refers to it, and tells; judged by all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Integer, Table, Text, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Hooks, ToolError, Toolset, Writing
from tests.tools.models import Cuisine, Dish


class Base(DeclarativeBase):
    """Declarative base of these tests."""


@dataclass(frozen=True)
class Family:
    """A class, and one whose rows refer to it in one way.

    Attributes:
        top: the class.
        part: the one that refers.
        nullable: whether the reference may be null.
        effect: what becomes of referring rows, if all may be done.
    """

    top: type[Any]
    part: type[Any]
    effect: str


def family(
    name: str,
    effect: str,
    rule: str | None = None,
    *,
    nullable: bool = False,
    **options: Any,
) -> Family:
    """Declare two classes; without options of a relationship there is none."""
    key = Column(
        f"{name}_top_id", Integer, ForeignKey(f"{name}_tops.id", ondelete=rule), nullable=nullable
    )
    part = type(
        f"{name.title()}Part",
        (Base,),
        {
            "__tablename__": f"{name}_parts",
            "__ref_name__": f"{name}_part",
            "__ref_label__": "note",
            "id": Column(Integer, primary_key=True),
            "note": Column(Text),
            "top_id": key,
        },
    )
    top = type(
        f"{name.title()}Top",
        (Base,),
        {
            "__tablename__": f"{name}_tops",
            "__ref_name__": f"{name}_top",
            "id": Column(Integer, primary_key=True),
            "note": Column(Text),
            **({"parts": relationship(part, **options)} if options else {}),
        },
    )
    return Family(top, part, effect)


FAMILIES = {
    each.top.__tablename__.removesuffix("_tops"): each
    for each in (
        family("cascade", "delete", cascade="all, delete-orphan"),
        family("plain", "unlink by default", nullable=True, lazy="select"),
        family("needed", "stay", lazy="select"),
        family("nulled", "unlink", "SET NULL", nullable=True, lazy="select"),
        family("passive", "delete", "CASCADE", passive_deletes=True),
        family("both", "delete", "CASCADE", cascade="all, delete", passive_deletes=True),
        family("left", "unlink", "SET NULL", nullable=True, passive_deletes="all"),
        family("kept", "stay", passive_deletes="all"),
        family("bare", "stay"),
        family("barenull", "stay", nullable=True),
        family("gone", "delete", "CASCADE"),
        family("unset", "unlink", "SET NULL", nullable=True),
        family("reset", "unlink", "SET DEFAULT", nullable=True),
        family("unsettable", "stay", "SET NULL"),
        family("strict", "stay", "RESTRICT", nullable=True),
        family("firm", "unlink", "CASCADE", nullable=True, lazy="select"),
    )
}

ACCESS: Mapping[str, Callable[[Family], dict[str, Any]]] = {
    "writable": lambda f: {"models": [f.top, f.part]},
    "read only": lambda f: {"models": [f.top, f.part], "read_only": [f.part]},
    "unlisted": lambda f: {"models": [f.top]},
    "no delete": lambda f: {"models": [f.top, f.part], "verbs": {f.part: ["create", "update"]}},
    "no update": lambda f: {"models": [f.top, f.part], "verbs": {f.part: ["delete"]}},
    "hidden key": lambda f: {"models": [f.top, f.part], "hidden": [f.part.top_id]},
    "fixed key": lambda f: {"models": [f.top, f.part], "read_only": [f.part.top_id]},
}

# what a model may do to the referring rows -> what it may have done to them
DONE = {
    "writable": {"delete", "unlink", "unlink by default"},
    "read only": set[str](),
    "unlisted": {"delete", "unlink"},
    "no delete": {"unlink", "unlink by default"},
    "no update": {"delete"},
    "hidden key": {"delete"},
    "fixed key": {"delete"},
}


def made(engine: Engine, each: Family) -> None:
    """Make the tables of a family, with two rows, of two parts and one."""
    make(engine, each.top, each.part)
    with Session(engine) as plain:
        plain.add_all([each.top(id=1, note="a"), each.top(id=2, note="b")])
        plain.flush()
        parts = [(1, 1), (2, 1), (3, 2)]
        plain.add_all([each.part(id=n, note=f"part {n}", top_id=top) for n, top in parts])
        plain.commit()


def make(engine: Engine, *models: type[Any]) -> None:
    """Make the tables of classes."""
    Base.metadata.create_all(engine, [cast(Table, model.__table__) for model in models])


def rows(engine: Engine, *models: type[Any]) -> list[dict[Any, Any]]:
    """Return all rows of some tables, by their keys."""
    tables = [cast(Table, model.__table__) for model in models]
    with Session(engine) as plain:
        return [
            {
                tuple(row)[: len(t.primary_key)]: tuple(row)
                for row in plain.execute(select(t).order_by(*t.primary_key))
            }
            for t in tables
        ]


def changes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> tuple[set[int], set[int]]:
    """Return the keys of rows that are gone, and of those that are not as they were."""
    there = before.keys() & after.keys()
    assert there == after.keys()
    gone = {key[0] for key in before.keys() - there}
    return gone, {key[0] for key in there if before[key] != after[key]}


def refs_of(session: RefSession, model: type[Any], keys: set[int]) -> set[str]:
    """Return the refs of rows, which may be gone."""
    assert session.conversation is not None
    return {*session.conversation.refer_all(model, sorted(keys))}


def delete(session: RefSession, toolset: Toolset, model: type[Any], note: str) -> dict[str, Any]:
    """Delete rows by their note."""
    asked = {
        "table": model.__tablename__,
        "filters": [{"field": "note", "op": "=", "value": note}],
    }
    return toolset.call(session, "db_delete", asked)


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_refers_is_told_or_refused(
    tables: Engine, session: RefSession, name: str, access: str
) -> None:
    """Whatever the mapping and the schema say, nothing is changed that is not the model's to."""
    each = FAMILIES[name]
    made(tables, each)
    before = rows(tables, each.top, each.part)
    answer = delete(session, Toolset(**ACCESS[access](each)), each.top, "a")
    after = rows(tables, each.top, each.part)
    gone, changed = changes(before[1], after[1])

    if each.effect not in DONE[access]:
        error = answer["error"]
        assert (error["code"], before == after) == ("still_referenced", True)
        if access == "unlisted":
            assert (error["referring"], error["refs"]) == (None, [])
        else:
            assert error["referring"] == f"{name}_parts"
            assert {*error["refs"]} == refs_of(session, each.part, {1, 2})
            assert sorted(error["labels"].values()) == ["part 1", "part 2"]
        return
    assert answer["count"] == 1
    assert changes(before[0], after[0]) == ({1}, set())
    assert (gone, changed) == (({1, 2}, set()) if each.effect == "delete" else (set(), {1, 2}))
    told = (gone, changed) if access != "unlisted" else (set(), set())
    assert {*answer.get("deleted_with", [])} == refs_of(session, each.part, told[0])
    assert {*answer.get("unlinked", [])} == refs_of(session, each.part, told[1])


# What is further away


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


def test_what_goes_along_counts(tables: Engine, session: RefSession) -> None:
    """One call changes so many rows, those that it takes along among them."""
    each = FAMILIES["cascade"]
    made(tables, each)
    models = [each.top, each.part]

    error = delete(session, Toolset(models, max_written=2), each.top, "a")["error"]
    assert (error["code"], error["most"]) == ("too_many_rows", 2)
    assert "with those that refer to them" in error["message"]
    assert delete(session, Toolset(models, max_written=3), each.top, "a")["count"] == 1
    assert delete(session, Toolset([each.top], max_written=1), each.top, "b")["count"] == 1


def test_what_is_owned_and_unseen_is_not_read(
    tables: Engine, session: RefSession, sent: list[str]
) -> None:
    """Rows of no toolset that go with others cost no statement; nor where nothing refers."""
    each = FAMILIES["cascade"]
    made(tables, each)
    part = [{"field": "note", "op": "=", "value": "part 3"}]
    toolset = Toolset([each.part])
    sent.clear()
    toolset.call(session, "db_delete", {"table": "cascade_parts", "filters": part})
    assert len(sent) == 4  # rows are found, and deleted; the first and the last are any write's

    sent.clear()
    delete(session, Toolset([each.top]), each.top, "b")
    words = [s.split()[0] for s in sent[1:-1]]
    assert words == ["SELECT", "SELECT", "DELETE"]  # one by the ORM


class Asked(Hooks):
    """Writes down what it is asked of, refuses some of it, and adds to the rest."""

    def __init__(self, refused: str = "") -> None:
        self.seen: list[tuple[str, list[str], list[dict[str, Any]]]] = []
        self.after: list[Any] = []
        self._refused = refused

    def before_write(self, write: Writing) -> None:
        """Note it."""
        self.seen.append((write.verb, sorted(write.refs), [dict(r) for r in write.records]))
        if write.verb == self._refused:
            raise ToolError("locked", "these rows are locked; leave them")
        for record in write.records:
            record["note"] = "changed by a hook"
        write.notes.append("asked")

    def after_write(self, _: Writing, rows: list[dict[str, Any]]) -> None:
        """Note the rows."""
        self.after.append([row.get("note") for row in rows])


@pytest.mark.parametrize("name", ["cascade", "gone", "plain", "unset"])
def test_hooks_are_asked_of_what_is_reached(
    tables: Engine, session: RefSession, name: str
) -> None:
    """They know the rows by their refs, may refuse, and may change what loses its reference."""
    each, verb = FAMILIES[name], "delete" if name in ("cascade", "gone") else "update"
    made(tables, each)
    before = rows(tables, each.top, each.part)
    hooks = Asked(refused=verb)
    toolset = Toolset([each.top, each.part], hooks={each.part: [hooks]})
    assert delete(session, toolset, each.top, "a")["error"]["code"] == "locked"
    assert rows(tables, each.top, each.part) == before

    hooks = Asked()
    toolset = Toolset([each.top, each.part], hooks={each.part: [hooks]})
    answer = delete(session, toolset, each.top, "a")
    refs = [f"{name}_part_1", f"{name}_part_2"]
    assert hooks.seen == [(verb, refs, [{"top_id": None}] if verb == "update" else [])]
    assert answer["notes"] == ["asked"]
    notes = [note for _, note, top in rows(tables, each.part)[0].values() if top is None]
    assert notes == (["changed by a hook"] * 2 if verb == "update" else [])
    assert hooks.after == [notes]


# Other mappings


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
        plain.add_all(
            [
                Beast(id=1, note="a", cage_id=1),
                Lion(id=2, note="b", cage_id=2),
                Mouse(id=3, note="c", cage_id=3),
            ]
        )
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
    codes = [
        toolset.call(session, "db_update", changed),
        toolset.call(session, "db_delete", {"table": "beasts", "filters": filters}),
        delete(session, toolset, Cage, cage),
    ]

    assert [each["error"]["code"] for each in codes] == [
        "read_only_table",
        "read_only_table",
        "still_referenced",
    ]
    assert rows(zoo, Beast, Lion, Cage) == before
    assert delete(session, toolset, Cage, "cage 1")["unlinked"] == ["beast_1"]
    assert delete(session, toolset, Beast, "a")["count"] == 1


def test_a_subclass_has_its_own_hooks_and_columns(zoo: Engine, session: RefSession) -> None:
    """They hold where its rows are written by the name of the base."""
    hooks = Asked()
    toolset = Toolset(ZOO, hooks={Lion: [hooks]}, read_only=[Mouse.note])
    every = [{"field": "note", "op": "is_not_null"}]
    lions = [{"field": "note", "op": "=", "value": "b"}]
    changed = {"table": "beasts", "data": {"note": "x"}}

    lion: Any = session.scalars(select(Lion.id).where(Lion.note == "b")).one()  # a ref
    session.rollback()
    error = toolset.call(session, "db_update", {**changed, "filters": every})["error"]
    assert (error["code"], error["table"]) == ("unknown_column", "mice")
    toolset.call(session, "db_update", {**changed, "filters": lions})
    assert [row[2] for row in rows(zoo, Beast)[0].values()] == ["a", "changed by a hook", "c"]
    assert hooks.seen == [("update", [lion], [{"note": "x"}])]
    delete(session, toolset, Beast, "changed by a hook")
    assert hooks.seen[1:] == [("delete", [lion], [])]


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
    assert told == {
        "table": "lefts",
        "deleted": ["left_2"],
        "count": 1,
        "unlinked": ["right_1"],
    }
    assert [len(each) for each in rows(tables, Left, Right, Link)] == [0, 1, 0]


# What the database takes along, and what it would tear


class Den(Base):
    """Takes the part of a subclass along, or that of the base."""

    __tablename__ = "dens"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]


class Animal(Base):
    """Has a subclass in a table of its own."""

    __tablename__ = "animals"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    note: Mapped[str | None]
    den_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Bear(Animal):
    """In two tables, each of which refers to a den."""

    __tablename__ = "bears"
    __mapper_args__ = {"polymorphic_identity": "bear"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("animals.id", ondelete="CASCADE"), primary_key=True)
    winter_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


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
        plain.add_all(
            [Den(id=1, note="winter"), Den(id=2, note="summer"), Wing(id=1, note="wing")]
        )
        plain.flush()
        plain.add_all([Bear(id=1, winter_id=1), Bear(id=2, den_id=2), Bird(id=3, wing_id=1)])
        plain.commit()
    before = rows(tables, Den, Animal, Bear)
    toolset = Toolset([Den, Wing, *([Animal, Bear, Bird] if listed else [])])

    error = delete(session, toolset, Den, "winter")["error"]
    assert (error["code"], rows(tables, Den, Animal, Bear)) == ("still_referenced", before)
    assert (error["referring"], error["refs"]) == (
        ("bears", ["animal_1"]) if listed else (None, [])
    )
    told = [delete(session, toolset, Den, "summer"), delete(session, toolset, Wing, "wing")]
    assert [each["count"] for each in told] == [1, 1]
    assert [len(each.get("deleted_with", [])) for each in told] == ([1, 1] if listed else [0, 0])
    assert [[*each] for each in rows(tables, Animal, Bear, Bird)] == [[(1,)], [(1,)], []]


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
        for row in (
            Firm(id=1, note="a"),
            Room(id=1, firm_id=1),
            Desk(id=1, firm_id=1, room_id=1),
            Lamp(id=1, desk_id=1),
        ):
            plain.add(row)
            plain.flush()
        plain.commit()

    told = delete(session, Toolset(models), Firm, "a")
    assert {*told["deleted_with"]} == {"room_1", "desk_1"}
    assert told["unlinked"] == ["lamp_1"]
    assert rows(tables, *models) == [{}, {}, {}, {(1,): (1, None)}]


class Pair(Base):
    """Refers to one class twice."""

    __tablename__ = "pairs"

    id: Mapped[int] = mapped_column(primary_key=True)
    one_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="SET NULL"))
    two_id: Mapped[int | None] = mapped_column(ForeignKey("dens.id", ondelete="SET NULL"))


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
    hooks = SeenBy()
    told = delete(session, Toolset([Den, Pair], hooks={Pair: [hooks]}), Den, "a")
    assert told["unlinked"] == ["pair_1"]
    assert hooks.seen == [(["pair_1"], {"one_id": None, "two_id": None})]


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
    filters = [{"field": "name", "op": "=", "value": "Thai"}]
    asked = {"table": "cuisines", "filters": filters}
    error = toolset.call(session, "db_delete", asked)["error"]

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


class SeenBy(Hooks):
    """Writes down what it is asked of."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[str], dict[str, Any]]] = []

    def before_write(self, write: Writing) -> None:
        """Note it."""
        self.seen += [([*write.refs], dict(each)) for each in write.records]


class Thing(Base):
    """Has a subclass with keys of its own."""

    __tablename__ = "owned_things"

    id: Mapped[int] = mapped_column(primary_key=True)
    den_id: Mapped[int] = mapped_column(ForeignKey("dens.id", ondelete="CASCADE"))


class Gadget(Thing):
    """In one table, which is not that of its base."""

    __tablename__ = "gadgets"
    __mapper_args__ = {"concrete": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
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
    assert len(delete(session, Toolset([Den, Thing, Gadget]), Den, "a")["deleted_with"]) == 2
