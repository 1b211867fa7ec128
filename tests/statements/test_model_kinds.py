"""Mapped classes however they come to be: versioned, reflected, in schemas, on views, late."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    CHAR,
    Column,
    Engine,
    FetchedValue,
    ForeignKey,
    Integer,
    MetaData,
    Sequence,
    String,
    Table,
    TypeDecorator,
    Uuid,
    delete,
    insert,
    select,
    text,
)
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.ext.declarative import DeferredReflection
from sqlalchemy.orm import (
    DeclarativeBase,
    DynamicMapped,
    Mapped,
    declarative_base,
    joinedload,
    mapped_column,
    raiseload,
    relationship,
    selectinload,
    sessionmaker,
    with_parent,
    with_polymorphic,
)
from sqlalchemy.orm.exc import StaleDataError

from alfred_refs import RefPolicy, RefRegistry, RefSession, UntranslatableError
from alfred_refs.mapping.key_columns import is_text_uuid, key_type_of
from alfred_refs.store.memory import MemoryStore
from tests.models import Cook, Guest, Person, Recipe
from tests.owned import key

Sessions = sessionmaker[RefSession]


class Base(DeclarativeBase):
    """Declarative base of these kinds."""

    metadata = MetaData()


links = Table(
    "links",
    Base.metadata,
    Column("city_id", ForeignKey("cities.id"), primary_key=True),
    Column("club_id", ForeignKey("clubs.id"), primary_key=True),
)


class City(Base):
    """Has a version, a tree, and collections by association and by query."""

    __tablename__ = "cities"

    id: Mapped[Any] = key()
    part_of: Mapped[Any] = mapped_column(ForeignKey("cities.id"), nullable=True)
    version: Mapped[int] = mapped_column()
    name: Mapped[str] = mapped_column(default="")

    whole: Mapped[City | None] = relationship(remote_side="City.id", join_depth=2)
    clubs: Mapped[list[Club]] = relationship(secondary=links)
    streets: DynamicMapped[Street] = relationship(foreign_keys="Street.city_id")

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Club(Base):
    """Is in a city by an association table."""

    __tablename__ = "clubs"

    id: Mapped[Any] = key()


class Street(Base):
    """Has a key from a sequence, and a default that the server makes."""

    __tablename__ = "streets"
    __mapper_args__ = {"eager_defaults": True}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Integer, Sequence("street_ids", start=500), primary_key=True)
    city_id: Mapped[Any] = mapped_column(ForeignKey("cities.id"))
    twin_of: Mapped[Any] = mapped_column(
        ForeignKey("cities.id"), nullable=True, server_default=FetchedValue()
    )


class Country(Base):
    """Has a code of characters for its key."""

    __tablename__ = "countries"

    code: Mapped[Any] = mapped_column(String(20), primary_key=True)


class Parcel(Base):
    """Has a UUID for its key that is text, and a code of characters beside it."""

    __tablename__ = "parcels"

    id: Mapped[Any] = mapped_column(CHAR(36), primary_key=True)
    country: Mapped[Any] = mapped_column(ForeignKey("countries.code"), nullable=True)


@pytest.fixture
def made(tables: Engine) -> Engine:
    """The engine, with the tables of these kinds as well."""
    Base.metadata.create_all(tables)
    return tables


@pytest.fixture
def cities(made: Engine, session: RefSession) -> list[City]:
    """A city and one that is a part of it."""
    whole, part = City(name="whole"), City(name="part")
    session.add(whole)
    session.flush()
    assert whole.id == "city_1"
    part.part_of = "city_1"
    session.add(part)
    session.commit()
    assert (part.id, part.part_of) == ("city_2", "city_1")
    assert made.dialect.name == "postgresql"
    return [whole, part]


@pytest.mark.usefixtures("cities")
def test_versions_are_counted_under_refs(session: RefSession, made: Engine) -> None:
    """An update that somebody else came before is refused, as without refs."""
    city = session.get_one(City, "city_1")
    city.name = "new"
    session.commit()
    assert city.version == 2
    with made.begin() as connection:
        connection.execute(text("update cities set version = 7"))
    city.name = "late"
    with pytest.raises(StaleDataError):
        session.flush()


@pytest.mark.usefixtures("cities")
def test_a_tree_is_loaded_by_joins(session: RefSession) -> None:
    """A self-reference shows refs at each depth, and what must not be loaded raises."""
    session.expunge_all()
    found = session.scalars(
        select(City).where(City.id == "city_2").options(joinedload(City.whole))
    ).one()
    assert (found.id, found.whole and found.whole.id) == ("city_2", "city_1")
    session.expunge_all()
    bare = session.scalars(select(City).where(City.id == "city_2").options(raiseload("*"))).one()
    with pytest.raises(InvalidRequestError):
        _ = bare.whole
    assert bare.part_of == "city_1"


def test_association_tables_are_filled_and_read(session: RefSession, cities: list[City]) -> None:
    """`secondary=` goes by keys underneath; the table itself takes and shows refs."""
    club = Club()
    cities[0].clubs.append(club)
    session.commit()
    assert club.id == "club_1"
    session.execute(insert(links).values(city_id="city_2", club_id="club_1"))
    session.commit()

    rows = session.execute(select(links).order_by(links.c.city_id))
    assert sorted(map(tuple, rows)) == [("city_1", "club_1"), ("city_2", "club_1")]
    found = session.scalars(select(City).where(City.clubs.any(Club.id == "club_1")))
    assert sorted(city.id for city in found) == ["city_1", "city_2"]
    [loaded] = session.scalars(
        select(City).where(City.id == "city_2").options(selectinload(City.clubs))
    )
    assert [each.id for each in loaded.clubs] == ["club_1"]


def test_keys_that_the_server_makes_are_shown(session: RefSession, cities: list[City]) -> None:
    """From a sequence, by a dynamic collection, and fetched at once."""
    street = Street(city_id="city_1")
    cities[0].streets.append(street)
    session.flush()

    assert (street.id, street.city_id, street.twin_of) == ("street_1", "city_1", None)
    assert [s.id for s in cities[0].streets.filter(Street.id == "street_1")] == ["street_1"]
    assert session.scalars(
        select(Street.id).where(with_parent(cities[0], City.streets))
    ).all() == ["street_1"]


@pytest.mark.usefixtures("made")
def test_text_keys_are_data_until_they_are_asked_for(
    sessions: Sessions, session: RefSession
) -> None:
    """Under a policy with strings, codes and UUIDs in text are refs; without, they are data."""
    parcel = str(uuid.uuid4())
    # in this order by any collation
    session.add_all([Country(code="AT"), Country(code="country_1")])
    session.flush()
    session.add(Parcel(id=parcel, country="country_1"))
    session.commit()
    assert session.execute(select(Parcel.id, Parcel.country)).all() == [(parcel, "country_1")]

    policy = RefPolicy(key_types=("uuid", "integer", "string"))
    chat = RefRegistry(store=MemoryStore(), policy=policy).conversation("text")
    with sessions(conversation=chat) as asked:
        countries = asked.scalars(select(Country).order_by(Country.code)).all()
        assert [country.code for country in countries] == ["country_1", "country_2"]
        found = asked.scalars(select(Parcel)).one()
        assert (found.id, found.country) == ("parcel_1", "country_2")
        assert asked.scalars(select(Parcel.id).where(Parcel.country == "country_2")).all() == [
            "parcel_1"
        ]
        asked.execute(delete(Parcel).where(Parcel.country != "country_2"))
        with pytest.raises(UntranslatableError, match="whose name SQLAlchemy generated"):
            asked.execute(
                delete(Parcel).where(Parcel.country != "country_2"), {"country_1": "country_1"}
            )
        assert asked.get(Parcel, "parcel_1") is found


def test_subclasses_load_at_once(session: RefSession) -> None:
    """`with_polymorphic` shows the refs of all, joined or in one table."""
    people = [Person(), Cook(stars=1), Guest()]
    session.add_all(people)
    session.commit()
    refs = {type(person).__name__: person.id for person in people}
    every: Any = with_polymorphic(Person, [Cook, Guest])

    found = session.scalars(select(every).where(every.id.in_(list(refs.values()))))

    assert {type(person).__name__: person.id for person in found} == refs


def reflected_by_automap(engine: Engine) -> Any:
    """Map a table as it is found."""
    base: Any = automap_base()
    base.prepare(autoload_with=engine, reflection_options={"only": ["clubs"]})
    return base.classes.clubs


def reflected_later(engine: Engine) -> Any:
    """Map a class that is told its columns by the database."""

    class Later(DeferredReflection, DeclarativeBase):
        __abstract__ = True

    class Association(Later):
        __tablename__ = "clubs"

    Later.prepare(engine)
    return Association


def mapped_to_a_view(engine: Engine) -> Any:
    """Map a class to a view, whose primary key the class declares."""
    with engine.begin() as connection:
        connection.execute(text("create view clubs_seen as select id from clubs"))
    base: Any = declarative_base()
    view = Table("clubs_seen", base.metadata, Column("id", Uuid))
    return type(
        "Seen", (base,), {"__table__": view, "__mapper_args__": {"primary_key": [view.c.id]}}
    )


@pytest.mark.parametrize("mapped", [reflected_by_automap, reflected_later, mapped_to_a_view])
def test_classes_that_are_mapped_from_the_database_show_refs(
    session: RefSession, made: Engine, mapped: Callable[[Engine], Any]
) -> None:
    """Mapped after the session was made; named by themselves."""
    with made.begin() as connection:
        connection.execute(insert(Club.__table__), [{"id": uuid.uuid4()}])  # type: ignore[arg-type]
    class_ = mapped(made)

    found = session.scalars(select(class_)).one()

    assert found.id.endswith("_1")
    assert session.get(class_, found.id) is found
    assert session.scalars(select(class_.id).where(class_.id == found.id)).all() == [found.id]


def test_tables_of_one_name_in_two_schemas_are_told_apart(
    session: RefSession, tables: Engine
) -> None:
    """Once their classes have names of their own."""
    base: Any = declarative_base()
    with tables.begin() as connection:
        connection.execute(text("create schema north"))
        connection.execute(text("create schema south"))

    def port(schema: str, name: str) -> Any:
        class_body = {
            "__tablename__": "ports",
            "__table_args__": {"schema": schema},
            "__module__": schema,
            "__ref_name__": name,
            "id": Column(Uuid, primary_key=True, default=uuid.uuid4),
        }
        return type("Port", (base,), class_body)

    north, south = port("north", "north_port"), port("south", "south_port")
    base.metadata.create_all(tables)
    session.add_all(added := [north(), south()])
    session.commit()
    assert [each.id for each in added] == ["north_port_1", "south_port_1"]


@pytest.mark.usefixtures("recipes")
def test_a_class_of_another_base_references_one_of_ours(
    session: RefSession, tables: Engine
) -> None:
    """By the column itself: the metadata of the two know nothing of each other."""
    base: Any = declarative_base()
    columns = {
        "__tablename__": "visits",
        "id": Column(Uuid, primary_key=True, default=uuid.uuid4),
        "recipe_id": Column(Uuid, ForeignKey(Recipe.__table__.c.id)),
    }
    visit_class: Any = type("Visit", (base,), columns)
    base.metadata.create_all(tables)
    recipe = session.scalars(select(Recipe)).first()
    assert recipe is not None
    assert recipe.id == "recipe_1"

    visit = visit_class(recipe_id="recipe_1")
    session.add(visit)
    session.commit()

    assert (visit.id, visit.recipe_id) == ("visit_1", "recipe_1")


class PlainUuid(TypeDecorator[uuid.UUID]):
    """A custom type that changes no values, and does not say what they are."""

    impl = Uuid
    cache_ok = True


def test_keys_of_a_type_that_only_decorates_are_refs() -> None:
    """They are those of the type it decorates, as text too."""
    assert key_type_of(PlainUuid()) == "uuid"
    assert is_text_uuid(PlainUuid(as_uuid=False))
    assert not is_text_uuid(PlainUuid())
