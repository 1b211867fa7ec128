"""Which columns are alternate keys: unique, declared, text, of subclasses, in lists."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    MetaData,
    Table,
    UniqueConstraint,
    Uuid,
    create_engine,
    select,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.mapping.entities import Entities
from alfred_refs.testing import MemoryStore
from tests.session.alternate_keys.models import (
    Badge,
    Device,
    Guard,
    Letter,
    Member,
    Person,
    Post,
)


def test_a_column_left_raw_or_excluded_is_data() -> None:
    """By its declaration, or by the policy."""
    column: Any = Post.__table__.c.author
    to_handle = ForeignKey(Member.__table__.c.handle_id)
    raw = Table("raw", MetaData(), Column("author", Uuid, to_handle, info={"ref": None}))

    assert Entities(RefPolicy()).of_column(raw.c.author) is None
    assert Entities(RefPolicy(exclude=("posts.author",))).of_column(column) is None
    assert Entities(RefPolicy(key_types=("integer",))).of_column(column) is None


def test_a_column_that_a_foreign_key_has_beside_the_primary_key_is_data() -> None:
    """The row is named without it; in the other table it is data too."""

    class Local(DeclarativeBase):
        pass

    class Block(Local):
        __tablename__ = "beside_blocks"
        __table_args__ = (UniqueConstraint("id", "label"), UniqueConstraint("id", "edition"))
        id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
        label: Mapped[int]
        edition: Mapped[Any] = mapped_column(Uuid, default=uuid.uuid4)

    class Use(Local):
        __tablename__ = "beside_uses"
        __table_args__ = (
            ForeignKeyConstraint(
                ["block_id", "label"], ["beside_blocks.id", "beside_blocks.label"]
            ),
            ForeignKeyConstraint(
                ["block_id", "edition"], ["beside_blocks.id", "beside_blocks.edition"]
            ),
        )
        block_id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        label: Mapped[int] = mapped_column(primary_key=True)
        edition: Mapped[Any] = mapped_column(Uuid)

    engine = create_engine("sqlite://", poolclass=StaticPool)
    Local.metadata.create_all(engine)
    conversation = RefRegistry(store=MemoryStore()).conversation("c")
    with RefSession(engine, conversation=conversation) as session:
        session.add(block := Block(label=3))
        session.flush()
        session.add(Use(block_id=block.id, label=3, edition=block.edition))
        session.flush()
        session.expunge_all()
        use = session.scalars(select(Use)).one()
        assert (use.block_id, use.label, use.edition) == ("block_1", 3, block.edition)
        assert session.get(Use, ("block_1", 3)) is use
        assert session.execute(select(Use.block_id, Use.label)).all() == [("block_1", 3)]


def test_text_is_an_alternate_key_only_where_strings_are_keys(
    guard: Guard, strings: RefSession, session: RefSession
) -> None:
    """An address may look like a ref: it is never taken for one, nor a ref for an address."""
    people = strings.scalars(select(Person).order_by(Person.email)).all()
    other, own = (person.id for person in people)
    strings.add_all([Letter(sender=own), Letter(sender=other)])
    strings.commit()
    letters = strings.scalars(select(Letter).order_by(Letter.sender)).all()

    assert (other, own) == ("person_1", "person_2")
    assert [letter.sender for letter in letters] == [other, own]
    assert strings.scalars(select(Letter.sender).where(Letter.sender == own)).all() == [own]
    assert session.scalars(select(Letter.sender).order_by(Letter.sender)).all() == [
        "b@x",
        guard.email,
    ]


def test_a_subclass_s_unique_column_names_rows_of_the_base(
    guard: Guard, session: RefSession
) -> None:
    """A primary key may be an alternate key: `get()` takes the ref of the row it names."""
    [person] = [p.id for p in session.scalars(select(Guard))]
    session.add(Badge(badge=person))
    session.commit()
    badge = session.get(Badge, person)

    assert badge is not None
    assert (badge.badge, badge.colour) == (person, "red")
    assert session.scalars(select(Badge.badge).where(Badge.badge == person)).all() == [person]
    with session.raw_keys():
        assert badge.badge == guard.badge
    session.delete(badge)
    session.commit()
    assert session.get(Person, person) is not None


def test_a_list_of_alternate_keys_is_translated_element_by_element(
    guard: Guard, session: RefSession, tables: Engine
) -> None:
    """In and out, as attributes, rows and criteria."""
    [person] = [p.id for p in session.scalars(select(Guard))]
    letter = Letter(sender="b@x", readers=[person])
    session.add(letter)
    session.commit()
    found = session.scalars(select(Letter).where(Letter.readers.any_() == person)).one()
    rows = session.scalars(select(Letter.readers)).all()
    session.close()

    assert (found.readers, rows) == ([person], [[person]])
    with Session(tables) as plain:
        assert plain.scalars(select(Letter.readers)).all() == [[uuid.UUID(guard.badge)]]


@pytest.mark.usefixtures("guard")
def test_a_unique_column_that_is_declared_shows_the_ref_of_its_own_row(
    session: RefSession,
) -> None:
    """It is then no data any more, and is compared with refs."""
    session.add_all([Device(), Device()])
    session.commit()
    shown = [(device.id, device.serial) for device in session.scalars(select(Device))]

    assert shown == [("device_1", "device_1"), ("device_2", "device_2")]
    assert session.scalars(select(Device.id).where(Device.serial == "device_2")).all() == [
        "device_2"
    ]
