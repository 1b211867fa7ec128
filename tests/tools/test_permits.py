"""What a model may write, by class and attribute, is all that a call writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, ForeignKeyConstraint, UniqueConstraint, event, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.orm.attributes import flag_modified

from alfred_refs import RefSession
from alfred_refs.errors import SetupError
from alfred_refs.tools import Hooks, Toolset, Writing
from tests.tools.conftest import Watcher, by, save


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Human(Base):
    """Has subclasses in its table."""

    __tablename__ = "humans"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "human"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str | None]
    crate_id: Mapped[int | None] = mapped_column(ForeignKey("crates.id"))


class Chief(Human):
    """Is not for every model to make."""

    __mapper_args__ = {"polymorphic_identity": "admin"}  # noqa: RUF012


class Crate(Base):
    """Has things, of which none needs it, and people."""

    __tablename__ = "crates"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    rating: Mapped[int | None]
    rack_id: Mapped[int | None] = mapped_column(ForeignKey("racks.id"))

    things: Mapped[list[Thing]] = relationship(back_populates="crate")
    people: Mapped[list[Human]] = relationship()
    stamps: Mapped[list[Stamp]] = relationship(secondary="crate_stamps", back_populates="crates")
    rack: Mapped[Rack | None] = relationship(back_populates="crates")


class Thing(Base):
    """May be moved from crate to crate."""

    __tablename__ = "things"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    crate_id: Mapped[int | None] = mapped_column(ForeignKey("crates.id"))

    crate: Mapped[Crate | None] = relationship(back_populates="things")


class Rack(Base):
    """What crates stand on."""

    __tablename__ = "racks"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]

    crates: Mapped[list[Crate]] = relationship(back_populates="rack")


class Stamp(Base):
    """What crates are marked with."""

    __tablename__ = "stamps"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]

    crates: Mapped[list[Crate]] = relationship(secondary="crate_stamps", back_populates="stamps")


class CrateStamp(Base):
    """Between the two."""

    __tablename__ = "crate_stamps"

    crate_id: Mapped[int] = mapped_column(ForeignKey("crates.id"), primary_key=True)
    stamp_id: Mapped[int] = mapped_column(ForeignKey("stamps.id"), primary_key=True)


class Seat(Base):
    """Is referred to by two columns, and has room for one."""

    __tablename__ = "seats"
    __table_args__ = (UniqueConstraint("row", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    row: Mapped[int]
    number: Mapped[int]

    rider: Mapped[Rider | None] = relationship(back_populates="seat")


class Rider(Base):
    """Has a seat."""

    __tablename__ = "riders"
    __table_args__ = (
        ForeignKeyConstraint(["seat_row", "seat_number"], ["seats.row", "seats.number"]),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    seat_row: Mapped[int | None] = mapped_column(info={"ref": None})
    seat_number: Mapped[int | None] = mapped_column(info={"ref": None})

    seat: Mapped[Seat | None] = relationship(back_populates="rider")

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Compare as what has values alone, and the same ones."""
        return isinstance(other, Rider)


class Audit(Base):
    """The application's own record, which no model may use."""

    __tablename__ = "audits"

    id: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[str]


PEOPLE = {"humans": Human, "chiefs": Chief, "crates": Crate}
CRATES = [Crate, Thing, Rack, Stamp]

Tell = Callable[..., dict[str, Any]]


@pytest.fixture
def packed(tables: Engine) -> Engine:
    """Two crates, with two things in the first and one in none, and a mark."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        first = Crate(name="crate 1")
        for row in (
            *(first, Crate(name="crate 2"), Chief(name="root"), Stamp(name="fragile"), Rack()),
            *(Thing(crate=first), Thing(crate=first), Thing()),
        ):
            plain.add(row)
            plain.flush()
        plain.commit()
    return tables


@pytest.fixture
def tell(packed: Engine, session: RefSession) -> Tell:  # noqa: ARG001  # its tables
    """Call a tool of a toolset, and forget what the session has loaded."""

    def tell(toolset: Toolset, tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = toolset.call(session, tool, arguments)
        session.expunge_all()
        return answer

    for model in (Crate, Thing, Human, Stamp, Rack):
        session.scalars(select(model)).all()
    assert session.conversation is not None
    session.conversation.refer_all(Thing, [1, 2, 3])
    for model in (Crate, Human, Stamp, Rack):
        session.conversation.refer_all(model, [1])
    session.commit()
    return tell


def rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables but the application's own, as a plain session reads them."""
    with Session(engine) as plain:
        return {
            table.name: [tuple(row) for row in plain.execute(select(table).order_by(*table.c))]
            for table in Base.metadata.sorted_tables
        }


def draft(session: RefSession, model: type[Any], content: dict[str, Any]) -> str:
    """Draft something as the application does, which may draft anything."""
    assert session.conversation is not None
    return session.conversation.draft(model, content).ref


# Set-up


def test_verbs_are_given_by_class(tell: Tell, packed: Engine) -> None:
    """What may be done is done; the rest is refused with what may be done."""
    toolset = Toolset(CRATES, verbs={Crate: ["create"], Thing: ["create", "update"], Stamp: []})
    tell(toolset, "db_create", table="crates", data={"name": "new"})
    tell(toolset, "db_update", table="things", filters=by("id", "thing_1"), data={"name": "x"})
    before = rows(packed)
    assert (before["crates"][-1][1], before["things"][0][1]) == ("new", "x")

    errors = [
        tell(
            toolset, "db_update", table="crates", filters=by("id", "crate_1"), data={"name": "x"}
        ),
        tell(toolset, "db_delete", table="crates", filters=by("id", "crate_1")),
        tell(toolset, "db_delete", table="things", filters=by("id", "thing_1")),
        tell(toolset, "db_create", table="stamps", data={}),
    ]
    assert [each["error"]["code"] for each in errors] == ["read_only_table"] * 4
    assert [each["error"]["verbs"] for each in errors] == [
        ["create"],
        ["create"],
        ["create", "update"],
        [],
    ]
    assert errors[2]["error"]["message"] == (
        "rows of table 'things' can be read, created and updated only; do that, or change another "
        "table"
    )
    assert rows(packed) == before


def test_verbs_are_told() -> None:
    """In the description, and by the tables that each tool offers."""
    toolset = Toolset(CRATES, verbs={Crate: ["create"], Thing: ["create", "update"], Stamp: []})
    text = toolset.describe()
    offered = {
        each["title"]: each["properties"]["table"]["enum"]
        for each in toolset.schemas("json_schema")
    }

    lines = [line for line in text.split("\n")[1:] if not line.startswith(" ")]
    assert lines == [
        "crates (no update, no delete)",
        "things (no delete)",
        "racks",
        "stamps (read only)",
    ]
    assert offered == {
        "db_read": ["crates", "things", "racks", "stamps"],
        "db_create": ["crates", "things", "racks"],
        "db_update": ["things", "racks"],
        "db_delete": ["racks"],
    }


def test_attributes_may_be_shown_and_not_written(
    tell: Tell, packed: Engine, session: RefSession
) -> None:
    """They are in rows, filters and the description, and in no write; nor in one by a draft."""
    toolset = Toolset(CRATES, read_only=[Crate.rating, Crate.rack, Crate.things])
    ref = draft(session, Crate, {"name": "a"})
    before = rows(packed)
    for data in ({"rating": 5}, {"rack_id": "rack_1"}):
        for error in (
            tell(toolset, "db_create", table="crates", data=data),
            tell(toolset, "db_update", table="crates", filters=by("id", "crate_1"), data=data),
            tell(toolset, "db_update", table="crates", filters=by("id", ref), data=data),
            tell(toolset, "db_create", table="crates", from_draft=ref, data=data),
        ):
            assert error["error"]["code"] == "unknown_column"
            assert "can be read, and is not written here" in error["error"]["message"]
    nested: Any
    for nested in ({"rack": "rack_1"}, {"rack": {"name": "new"}}, {"things": ["thing_1"]}):
        answer = tell(toolset, "db_update", table="crates", filters=by("id", ref), data=nested)
        assert answer["error"]["code"] == "unknown_column"

    assert rows(packed) == before
    [row] = tell(toolset, "db_read", table="crates", filters=by("id", "crate_1"))["rows"]
    assert (row["rating"], row["rack_id"]) == (None, None)
    assert "  rating?: integer, read only\n  rack_id?: rack ref, read only" in toolset.describe()


@pytest.mark.parametrize(
    "wrong",
    [
        {"read_only": [Rack]},
        {"read_only": ["rating"]},
        {"read_only": [Rack.name]},
        {"verbs": {Rack: []}},
        {"verbs": {Crate: ["destroy"]}},
        {"verbs": {Crate: "create"}},
        {"verbs": {Crate: ["create"]}, "read_only": [Crate]},
    ],
)
def test_what_does_not_go_together_is_refused(wrong: dict[str, Any]) -> None:
    """When the toolset is made."""
    with pytest.raises(SetupError):
        Toolset([Crate], **wrong)


def test_a_class_may_be_said_to_be_read_only_twice() -> None:
    """Because both say the same."""
    toolset = Toolset([Crate], verbs={Crate: []}, read_only=[Crate])
    assert [each["name"] for each in toolset.schemas("mcp")] == ["db_read"]


# The class of a draft


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"models": [Human, Crate]}, "invalid_content"),
        ({"models": PEOPLE, "read_only": [Chief]}, "read_only_table"),
        ({"models": PEOPLE, "verbs": {Chief: ["update"]}}, "read_only_table"),
    ],
)
def test_a_draft_is_of_no_class_that_a_model_may_not_make(
    tell: Tell, packed: Engine, session: RefSession, options: dict[str, Any], code: str
) -> None:
    """However that is said: by the application, in an edit, on saving, or of a row inside."""
    toolset, before = Toolset(**options), rows(packed)
    human, crate = draft(session, Human, {"name": "a"}), draft(session, Crate, {"name": "b"})
    theirs = draft(session, Chief, {"name": "c"})
    inside = draft(session, Crate, {"people": [{"kind": "admin", "name": "d"}]})
    evil = {"kind": "admin"}

    errors = [
        tell(toolset, "db_create", table="humans", from_draft=theirs),
        tell(toolset, "db_create", table="crates", from_draft=inside),
        tell(toolset, "db_update", table="humans", filters=by("id", human), data=evil),
        tell(toolset, "db_create", table="humans", from_draft=human, data=evil),
        tell(
            toolset, "db_update", table="crates", filters=by("id", crate), data={"people": [evil]}
        ),
        tell(toolset, "db_create", table="crates", from_draft=crate, data={"people": [evil]}),
    ]
    assert [each["error"]["code"] for each in errors] == [code] * 6
    assert rows(packed) == before


def test_a_class_that_is_not_listed_reads_as_one_that_is_not_there(
    tell: Tell, session: RefSession
) -> None:
    """A model is told nothing of it."""
    toolset, human = Toolset([Human]), draft(session, Human, {"name": "a"})
    said = [
        tell(toolset, "db_update", table="humans", filters=by("id", human), data={"kind": kind})
        for kind in ("admin", "nobody")
    ]
    assert said[0] == said[1]


def test_a_class_that_is_listed_may_be_chosen(
    tell: Tell, packed: Engine, session: RefSession
) -> None:
    """Unless the attribute that says it is hidden, or not to be written; the application may."""
    human, theirs = draft(session, Human, {"name": "a"}), draft(session, Chief, {"name": "b"})
    hiding, fixing = Toolset(PEOPLE, hidden=[Human.kind]), Toolset(PEOPLE, read_only=[Human.kind])
    for toolset in (hiding, fixing):
        for ask in (
            {"tool": "db_update", "filters": by("id", human)},
            {"tool": "db_create", "from_draft": human},
        ):
            tool = ask.pop("tool")
            error = tell(toolset, tool, table="humans", data={"kind": "admin"}, **ask)["error"]
            assert error["code"] == "unknown_column"

    hooks = Watcher()
    toolset = Toolset(PEOPLE, hooks={Chief: [hooks]}, hidden=[Human.kind])
    tell(toolset, "db_create", table="humans", from_draft=theirs)
    toolset = Toolset(PEOPLE, hooks={Chief: [hooks]})
    data = {"kind": "admin"}
    tell(toolset, "db_create", table="humans", from_draft=human, data=data)
    assert [row[1:3] for row in rows(packed)["humans"]] == [
        ("admin", "root"),
        ("admin", "b"),
        ("admin", "a"),
    ]
    assert [verb for verb, _, _ in hooks.asked] == ["create", "create"]


@pytest.mark.parametrize("verbs", [["create"], []], ids=["only made", "only read"])
def test_a_draft_is_of_its_class_whatever_table_it_is_reached_by(
    tell: Tell, packed: Engine, session: RefSession, verbs: list[Any]
) -> None:
    """It is changed, into one of another class too, and discarded as that class may be."""
    before, ref = rows(packed), draft(session, Chief, {"name": "c"})
    toolset = Toolset(PEOPLE, verbs={Chief: verbs})

    for tool, arguments in (
        ("db_update", {"data": {"kind": "human"}}),
        ("db_update", {"data": {"name": "d"}}),
        ("db_delete", {}),
    ):
        answer = tell(toolset, tool, table="humans", filters=by("id", ref), **arguments)
        assert answer["error"]["code"] == "read_only_table"
    if not verbs:
        evil = {"kind": "human"}
        answer = tell(toolset, "db_create", table="humans", from_draft=ref, data=evil)
        assert answer["error"]["code"] == "read_only_table"

    assert session.conversation is not None
    [kept] = session.conversation.read_drafts([ref], Chief)
    assert (kept.state, kept.content) == ("pending", {"kind": "admin", "name": "c"})
    assert rows(packed) == before


# Rows that a draft takes from where they are


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"read_only": [Thing]}, "read_only_table"),
        ({"verbs": {Thing: ["create", "delete"]}}, "read_only_table"),
        ({"hidden": [Thing.crate_id]}, "invalid_value"),
        ({"read_only": [Thing.crate_id]}, "invalid_value"),
        ({"read_only": [Thing.crate]}, "invalid_value"),
        ({"max_written": 2}, "too_many_rows"),
        ({"hooks": {Thing: [Watcher("update")]}}, "locked"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_rows_are_moved_to_a_draft_only_as_a_model_may(
    tell: Tell,
    packed: Engine,
    session: RefSession,
    *,
    options: dict[str, Any],
    code: str,
    nested: bool,
) -> None:
    """Refused on saving, whoever put them there; in an edit too, where it can be told by then."""
    toolset, before = Toolset(CRATES, **options), rows(packed)
    model: Any = Rack if nested else Crate
    things = {"things": ["thing_1", "thing_2"]}
    taken = {"crates": [things]} if nested else things
    table = model.__tablename__
    ref, empty = draft(session, model, taken), draft(session, model, {})

    saved = tell(toolset, "db_create", table=table, from_draft=ref)
    edited = tell(toolset, "db_update", table=table, filters=by("id", empty), data=taken)
    assert saved["error"]["code"] == code
    assert ("error" in edited) is (code not in ("too_many_rows", "locked"))
    assert rows(packed) == before


def test_rows_are_moved_to_a_draft(tell: Tell, packed: Engine, session: RefSession) -> None:
    """Their hooks are asked, by their refs, and may change them."""
    hooks = Watcher(name="moved")
    toolset = Toolset(CRATES, hooks={Thing: [hooks]}, max_written=4)
    ref = draft(session, Crate, {"things": ["thing_1", "thing_3", {"name": "new"}]})
    answer = tell(toolset, "db_create", table="crates", from_draft=ref)

    assert answer["saved"] == {ref: "crate_2"}
    assert rows(packed)["things"] == [
        (1, "moved", 3),
        (2, None, 1),
        (3, "moved", 3),
        (4, "moved", 3),
    ]
    assert sorted(hooks.asked, key=str) == [
        ("create", [], [{"name": "new"}]),
        ("update", ["thing_1"], [{"crate_id": ref}]),
        ("update", ["thing_3"], [{"crate_id": ref}]),
    ]
    assert {row["crate_id"] for _, told in hooks.told for row in told} == {"crate_2"}


def test_rows_inside_a_row_inside_are_moved(
    tell: Tell, packed: Engine, session: RefSession
) -> None:
    """What they are moved to has no ref yet."""
    hooks = Watcher()
    toolset = Toolset(CRATES, hooks={Thing: [hooks]})
    ref = draft(session, Rack, {"crates": [{"things": ["thing_1"]}]})
    tell(toolset, "db_create", table="racks", from_draft=ref)

    assert hooks.asked == [("update", ["thing_1"], [{"crate_id": None}])]
    assert rows(packed)["things"][0] == (1, None, 3)


class Looking(Hooks):
    """Reads rows, and changes those that it is asked of."""

    def __init__(self, sent: list[str]) -> None:
        self.written: list[str] = []
        self._sent = sent

    def before_write(self, write: Writing) -> None:
        """Note what the call has written so far."""
        write.session.scalars(select(Stamp)).all()
        words = ("UPDATE things", "INSERT INTO things", "INSERT INTO crates")
        self.written += [each for each in self._sent if each.startswith(words)]
        for record in write.records:
            record["name"] = "moved"


def test_a_hook_that_reads_has_nothing_sent(
    tell: Tell, packed: Engine, session: RefSession, sent: list[str]
) -> None:
    """What is changed is sent once all of it was held, whatever hooks ask the database."""
    hooks = Looking(sent)
    ref = draft(session, Crate, {"things": ["thing_1", "thing_3"]})
    toolset = Toolset(CRATES, hooks={Thing: [hooks]})
    assert "error" not in tell(toolset, "db_create", table="crates", from_draft=ref)

    assert hooks.written == []
    assert [name for _, name, _ in rows(packed)["things"]] == ["moved", None, "moved"]


class Touching(Hooks):
    """Changes a row that equals another."""

    def before_write(self, write: Writing) -> None:
        """Do it."""
        flag_modified(write.session.scalars(select(Rider).filter_by(seat=None)).one(), "seat_row")


@pytest.mark.parametrize("hooks", [{}, {Rider: [Touching()]}])
def test_a_row_that_loses_its_place_to_a_draft_is_held(
    packed: Engine, session: RefSession, hooks: dict[type[Any], list[Hooks]]
) -> None:
    """Where one row alone may have a place, the mapping takes it from whoever has it.

    What a hook changes is not held: that very row, and no other that equals it.
    """
    save(packed, Seat(row=1, number=1, rider=Rider()), Rider())
    assert session.conversation is not None
    seat = session.conversation.refer(Seat, 1)
    before, ref = rows(packed), draft(session, Rider, {"seat": seat})
    loaded = session.scalars(select(Seat)).one().rider

    toolset = Toolset([Seat, Rider], verbs={Rider: ["create"]}, hooks=hooks)
    answer = toolset.call(session, "db_create", {"table": "riders", "from_draft": ref})
    assert loaded is not None
    assert answer["error"]["code"] == "read_only_table"
    session.rollback()
    assert rows(packed) == before


def test_a_row_that_loses_its_place_is_changed_as_its_hooks_say(
    packed: Engine, session: RefSession
) -> None:
    """They are asked of it by its ref, and what they add is stored with it."""
    save(packed, Seat(row=1, number=1, rider=Rider()))
    assert session.conversation is not None
    ref = draft(session, Rider, {"seat": session.conversation.refer(Seat, 1)})
    seat = session.scalars(select(Seat)).one()
    assert seat.rider is not None

    hooks = Watcher(name="moved")
    toolset = Toolset([Seat, Rider], hooks={Rider: [hooks]})
    answer = toolset.call(session, "db_create", {"table": "riders", "from_draft": ref})
    session.commit()
    assert answer.get("count") == 1, answer
    nothing = {"seat_row": None, "seat_number": None}
    assert hooks.asked == [("create", [], [{}]), ("update", ["rider_1"], [nothing])]
    assert rows(packed)["riders"] == [(1, "moved", None, None), (2, "moved", 1, 1)]


def test_a_link_changes_no_row_that_it_leads_to(
    tell: Tell, packed: Engine, session: RefSession
) -> None:
    """It is a row of the table between the two: where that is listed, rows are written there."""
    ref = draft(session, Crate, {"stamps": ["stamp_1"]})
    refused = tell(Toolset([*CRATES, CrateStamp]), "db_create", table="crates", from_draft=ref)
    assert refused["error"]["code"] == "unknown_column"
    assert rows(packed)["crate_stamps"] == []

    tell(Toolset(CRATES, read_only=[Stamp]), "db_create", table="crates", from_draft=ref)
    assert rows(packed)["crate_stamps"] == [(3, 1)]


@pytest.mark.parametrize("options", [{"read_only": [Crate.stamps]}, {"hidden": [Crate.stamps]}])
def test_a_link_that_is_not_written_is_not_written_from_the_other_side(
    tell: Tell, packed: Engine, session: RefSession, options: dict[str, Any]
) -> None:
    """Both relationships are by way of one table; the other one is shown all the same."""
    toolset = Toolset(CRATES, **options)
    linked = draft(session, Stamp, {"crates": ["crate_1"]})
    refused = tell(toolset, "db_create", table="stamps", from_draft=linked)
    assert refused["error"]["code"] == "unknown_column"
    assert rows(packed)["crate_stamps"] == []

    [row] = tell(toolset, "db_read", table="stamps", columns=["id", "crates.name"])["rows"]
    assert row == {"id": "stamp_1", "crates": []}


def test_links_count_as_rows(tell: Tell, packed: Engine, session: RefSession) -> None:
    """They are rows of the table between the two."""
    linked = draft(session, Crate, {"stamps": ["stamp_1", {"name": "new"}]})
    for most, code in ((3, "too_many_rows"), (4, None)):
        answer = tell(
            Toolset(CRATES, max_written=most), "db_create", table="crates", from_draft=linked
        )
        assert answer.get("error", {}).get("code") == code
    assert len(rows(packed)["crate_stamps"]) == 2


# What is the application's


class Audited(Hooks):
    """Writes into a table that no model may use."""

    def before_write(self, write: Writing) -> None:
        """Do it."""
        write.session.add(Audit(what=f"before {write.verb}"))

    def after_write(self, write: Writing, _: list[dict[str, Any]]) -> None:
        """Do it, and change rows of a table that the model only reads."""
        write.session.add(Audit(what=f"after {write.verb}"))
        for rack in write.session.scalars(select(Rack)):
            rack.name = f"after {write.verb}"


@pytest.fixture
def outbox(session: RefSession) -> Iterator[None]:
    """A listener that writes down each flush that has other instances."""

    def note(session: Session, *_: object) -> None:
        changed = [*session.new, *session.dirty, *session.deleted]
        if any(isinstance(each, Crate | Thing) for each in changed):
            session.add(Audit(what="flushed"))

    event.listen(session, "before_flush", note)
    yield
    event.remove(session, "before_flush", note)


@pytest.mark.usefixtures("outbox")
def test_what_hooks_and_listeners_add_is_theirs(
    tell: Tell, packed: Engine, session: RefSession
) -> None:
    """It is not held against what the model may write, nor does it count."""
    hooks = {Crate: [Audited()]}
    toolset = Toolset(CRATES, hooks=hooks, read_only=[Rack], max_written=3)
    ref = draft(session, Crate, {"things": ["thing_1", "thing_2"], "name": "new"})
    tell(toolset, "db_create", table="crates", from_draft=ref)
    tell(toolset, "db_update", table="crates", filters=by("id", "crate_1"), data={"name": "x"})
    answer = tell(toolset, "db_delete", table="crates", filters=by("id", "crate_2"))

    assert answer["unlinked"] == ["thing_1", "thing_2"]
    found = rows(packed)
    assert found["racks"] == [(1, "after delete")]
    assert {what for _, what in found["audits"]} == {
        "flushed",
        *(
            f"{when} {verb}"
            for when in ("before", "after")
            for verb in ("create", "update", "delete")
        ),
    }
