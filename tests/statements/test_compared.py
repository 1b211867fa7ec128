"""Instances compared with a relationship: they stand for their own keys, which may be text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, Executable, ForeignKey, MetaData, Uuid, delete, select, update
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    WriteOnlyMapped,
    mapped_column,
    relationship,
    with_parent,
)

from alfred_refs import RefPolicy, RefRegistry, RefSession


class Base(DeclarativeBase):
    """Declarative base of these tables."""

    metadata = MetaData()


class Country(Base):
    """Has keys that are text."""

    __tablename__ = "countries"

    code: Mapped[Any] = mapped_column(primary_key=True, type_=Uuid(as_uuid=False))
    name: Mapped[str]
    cities: Mapped[list[City]] = relationship(viewonly=True)
    written: WriteOnlyMapped[City] = relationship(viewonly=True)


class City(Base):
    """Belongs to a country."""

    __tablename__ = "cities"

    name: Mapped[str]
    code: Mapped[str] = mapped_column(primary_key=True)
    country_code: Mapped[Any] = mapped_column(ForeignKey("countries.code"), nullable=True)
    capital_of: Mapped[Any] = mapped_column(ForeignKey("cities.code"), nullable=True)
    country: Mapped[Country | None] = relationship(viewonly=True)
    seat: Mapped[City | None] = relationship(remote_side=[code], viewonly=True)
    served: Mapped[list[City]] = relationship(viewonly=True)


A, B = "fe1d0001-0000-4000-8000-000000000001", "fe1d0002-0000-4000-8000-000000000002"

STATEMENTS: dict[str, Callable[[Country, City], Executable]] = {
    "==": lambda country, _: select(City.name).where(City.country == country),
    "!=": lambda country, _: select(City.name).where(City.country != country),
    "with_parent": lambda country, _: select(City.name).where(
        with_parent(country, Country.cities)
    ),
    "write-only": lambda country, _: country.written.select().with_only_columns(City.name),
    "update": lambda country, _: update(City).where(City.country == country).values(name="x"),
    "== by text": lambda _, city: select(City.name).where(City.seat == city),
    "!= by text": lambda _, city: select(City.name).where(City.seat != city),
    "contains by text": lambda _, city: select(City.name).where(City.served.contains(city)),
    "delete by text": lambda _, city: (
        delete(City).where(City.seat != city, City.name == "c4").returning(City.name)
    ),
}


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """Cities whose keys are the refs of one another."""
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Country(code=A, name="A"), Country(code=B, name="B")])
        plain.flush()
        plain.add_all([City(code=f"city_{n}", name=f"c{n}", country_code=A) for n in (2, 1)])
        plain.flush()
        plain.execute(update(City).where(City.name == "c2").values(capital_of="city_1"))
        plain.add(City(code="x", name="c3", country_code=B, capital_of="city_2"))
        plain.add(City(code="y", name="c4", country_code=B, capital_of="city_1"))
        plain.commit()
    return engine


@pytest.fixture
def registry(tables: Engine) -> RefRegistry:
    """A registry in which text can be a key."""
    return RefRegistry(tables, policy=RefPolicy(key_types=("uuid", "string")))


def compared(session: Session) -> tuple[Country, City]:
    """Return the country and the city that statements compare with."""
    cities = session.scalars(select(City).order_by(City.country_code, City.code.desc())).all()
    _ = [city.code for city in cities]
    assert cities[0].name == "c2"
    return session.scalars(select(Country).where(Country.name == "A")).one(), cities[0]


def outcome(result: Any) -> Any:
    """Return the names in a result, or how many rows were changed."""
    return sorted(result.scalars()) if getattr(result, "returns_rows", True) else result.rowcount


@pytest.mark.parametrize("make", STATEMENTS.values(), ids=list(STATEMENTS))
def test_a_statement_finds_the_rows_that_it_finds_on_a_plain_session(
    make: Callable[[Country, City], Executable], tables: Engine, session: RefSession
) -> None:
    """Text that is an instance's key is no ref, though it reads like another row's."""
    with Session(tables) as plain:
        expected = outcome(plain.execute(make(*compared(plain))))
    country, city = compared(session)
    assert (country.code, city.code) == ("country_1", "city_1")

    assert outcome(session.execute(make(country, city))) == expected


def test_what_the_program_has_set_on_an_instance_is_a_ref(session: RefSession) -> None:
    """Before the flush as well, and without any."""
    compared(session)
    with session.no_autoflush:
        pending = City(code="z", name="c5", capital_of="city_1")
        session.add(pending)
        named = session.scalars(select(City.name).where(with_parent(pending, City.seat))).all()
        session.expunge(pending)
        transient = City(code="city_1")
        served = session.scalars(select(City.name).where(City.seat == transient)).all()

    assert (named, served) == (["c2"], ["c3"])


def test_rows_to_synchronize_are_fetched_by_keys(session: RefSession) -> None:
    """The ORM's own statement for them has keys already, and text among them."""
    country, _ = compared(session)
    statement = update(City).where(City.country_code == "country_1").values(name="x")

    changed: Any = session.execute(statement, execution_options={"synchronize_session": "fetch"})

    assert (country.code, changed.rowcount) == ("country_1", 2)
    assert sorted(session.scalars(select(City.name))) == ["c3", "c4", "x", "x"]


def test_what_is_compiled_for_one_instance_serves_others(session: RefSession) -> None:
    """Whether what is compared holds a ref, as a new one does, or a key, as one that was read."""
    country, _ = compared(session)
    by_ref = Country(code=country.code, name="new")

    found = [
        session.scalars(select(City.name).where(City.country == each).order_by(City.name)).all()
        for each in (by_ref, country, by_ref)
    ]

    assert found == 3 * [["c1", "c2"]]
