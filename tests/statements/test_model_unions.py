"""Classes whose rows come from several tables: concrete inheritance, and unions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, String, Uuid, select, text, union_all
from sqlalchemy.ext.declarative import AbstractConcreteBase, ConcreteBase
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column

from alfred_refs import RefSession, UnknownRefError, UntranslatableError


class Base(DeclarativeBase):
    """Declarative base of these shapes."""


def key() -> Any:
    """A primary key that the database makes."""
    return mapped_column(Uuid, primary_key=True, server_default=text("gen_random_uuid()"))


class Vehicle(ConcreteBase, Base):
    """Has rows of its own, and subclasses with tables of theirs."""

    __tablename__ = "vehicles"
    __mapper_args__ = {"polymorphic_identity": "vehicle", "concrete": True}  # noqa: RUF012

    id: Mapped[Any] = key()
    name: Mapped[str | None] = mapped_column(String)


class Truck(Vehicle):
    """Shares no key with its base: it is an entity of its own."""

    __tablename__ = "trucks"
    __mapper_args__ = {"polymorphic_identity": "truck", "concrete": True}  # noqa: RUF012

    id: Mapped[Any] = key()
    name: Mapped[str | None] = mapped_column(String)
    tows: Mapped[Any] = mapped_column(Uuid, ForeignKey("vehicles.id"), nullable=True)


class Animal(AbstractConcreteBase, Base):
    """Has no table: its rows are those of its subclasses."""


class Cat(Animal):
    """One of the tables."""

    __tablename__ = "cats"
    __mapper_args__ = {"polymorphic_identity": "cat", "concrete": True}  # noqa: RUF012

    id: Mapped[Any] = key()


class Dog(Animal):
    """Another."""

    __tablename__ = "dogs"
    __mapper_args__ = {"polymorphic_identity": "dog", "concrete": True}  # noqa: RUF012

    id: Mapped[Any] = key()


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """The engine, with these tables in its database."""
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def vehicles(session: RefSession) -> None:
    """`vehicle_1`, and `truck_1` that tows it."""
    vehicle = Vehicle(name="car")
    session.add(vehicle)
    session.flush()
    truck = Truck(name="tow", tows=vehicle.id)
    session.add(truck)
    session.commit()
    assert (vehicle.id, truck.id) == ("vehicle_1", "truck_1")


@pytest.mark.usefixtures("vehicles")
def test_rows_of_a_concrete_hierarchy_show_refs_of_their_own_tables(session: RefSession) -> None:
    """A query for the base gives each instance as its own class, with its own keys."""
    found = session.scalars(select(Vehicle)).all()

    assert {(type(v).__name__, v.id) for v in found} == {
        ("Vehicle", "vehicle_1"),
        ("Truck", "truck_1"),
    }
    assert session.scalars(select(Truck.tows).where(Truck.id == "truck_1")).all() == ["vehicle_1"]
    assert session.get_one(Vehicle, "vehicle_1").name == "car"


vehicles_, trucks_ = Vehicle.__table__.c, Truck.__table__.c
every = union_all(
    select(vehicles_.id, vehicles_.name), select(trucks_.id, trucks_.name)
).subquery()

REFUSED: list[Callable[[], Any]] = [
    lambda: select(Vehicle.id),
    lambda: select(aliased(Vehicle).id),
    lambda: select(Vehicle).where(Vehicle.id == "vehicle_1"),
    lambda: select(Vehicle).where(Vehicle.id.in_(["truck_1"])),
    lambda: select(aliased(Vehicle, name="v")).where(text("v.id = v.id"), every.c.id == "truck_1"),
    lambda: select(every.c.name).where(every.c.id == "vehicle_1"),
    lambda: select(every.c.id),
]


@pytest.mark.parametrize("statement", REFUSED)
@pytest.mark.usefixtures("vehicles")
def test_a_column_with_keys_of_two_tables_is_refused(
    session: RefSession, statement: Callable[[], Any]
) -> None:
    """Shown or compared as keys of one of them, it would name rows of the other."""
    with pytest.raises(UntranslatableError, match="key"):
        session.execute(statement()).all()


@pytest.mark.usefixtures("vehicles")
def test_the_other_columns_of_a_union_are_data(session: RefSession) -> None:
    """Only what would be mistaken is refused, and raw keys are left to trusted code."""
    names = session.scalars(select(Vehicle.name).order_by(Vehicle.name)).all()
    with session.raw_keys():
        keys = session.scalars(select(Vehicle.id)).all()
    found = session.scalars(select(Vehicle.name).where(Vehicle.id.in_(keys))).all()

    assert names == ["car", "tow"]
    assert sorted(map(str, found)) == names


@pytest.mark.usefixtures("vehicles")
def test_a_union_of_keys_of_one_entity_is_translated(session: RefSession) -> None:
    """Whatever the columns are called, they name rows of one table."""
    truck, vehicle = Truck.__table__.c, Vehicle.__table__.c
    both = union_all(select(truck.tows.label("x")), select(vehicle.id)).subquery()
    statement = select(both.c.x).where(both.c.x == "vehicle_1")

    assert session.scalars(statement).all() == ["vehicle_1", "vehicle_1"]


def test_a_base_without_table_shows_its_rows_and_gets_them_by_their_refs(
    session: RefSession,
) -> None:
    """The entity of a ref decides in which table its row is."""
    session.add_all([Cat(), Dog()])
    session.commit()

    animals: list[Any] = list(session.scalars(select(Animal)))
    shown = {animal.id for animal in animals}

    assert shown == {"cat_1", "dog_1"}
    assert session.get(Cat, "cat_1") in session
    for animal in animals:
        assert session.get(Animal, animal.id) is animal
        assert session.get(Animal, str(animal.id)) is animal
    with pytest.raises(UnknownRefError, match="dog_9"):
        session.get(Animal, "dog_9")
    with pytest.raises(UntranslatableError, match="order_1"):
        session.get(Animal, "order_1")
