"""What SQLAlchemy's mappers, tables and instances tell, pinned on both series."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from sqlalchemy import Boolean, CheckConstraint, Column, Enum, MetaData, Table, inspect
from sqlalchemy.ext.declarative import AbstractConcreteBase
from sqlalchemy.orm import (
    DeclarativeBase,
    InstrumentedAttribute,
    Mapped,
    configure_mappers,
    mapped_column,
)

from alfred_refs import sqla
from tests.models import Base, Cook, Guest, MealPlan, Person, Recipe, devices
from tests.session.test_collections import Drawer, Thing


def test_the_class_of_a_table_is_found_whatever_its_base() -> None:
    """Of an inheritance hierarchy on one table it is the topmost."""
    assert sqla.mapper_of_table(Base.metadata.tables["people"]) is Person.__mapper__
    assert sqla.mapper_of_table(Base.metadata.tables["cooks"]) is Cook.__mapper__
    assert sqla.mapper_of_table(devices) is None
    assert Guest.__mapper__.local_table is Person.__table__


def test_a_class_that_is_mapped_later_is_left_out() -> None:
    """The base of concrete classes has no mapper until all mappers are configured."""

    class Later(DeclarativeBase):
        pass

    class Animal(AbstractConcreteBase, Later):
        pass

    class Dog(Animal):
        __tablename__ = "dogs"
        id: Mapped[int] = mapped_column(primary_key=True)

    assert {mapper.class_ for mapper in sqla.mappers_of(Later.registry)} == {Dog}
    assert sqla.mapper_of_table(Base.metadata.tables["recipes"]) is Recipe.__mapper__
    configure_mappers()
    assert {mapper.class_ for mapper in sqla.mappers_of(Later.registry)} == {Animal, Dog}


def test_a_state_keeps_what_is_put_beside_the_row() -> None:
    """What stands in the state's dictionary is neither in the row nor pickled with it."""
    recipe = Recipe(name="x")
    state = sqla.state_of(recipe)
    state.alfred_refs_test = 1  # type: ignore[attr-defined]

    assert vars(recipe).keys() == {"_sa_instance_state", "name"}
    assert "alfred_refs_test" not in state.__getstate__()


def test_an_attribute_can_change_its_class_and_stay_itself() -> None:
    """SQLAlchemy's descriptor accepts a subclass without slots of its own."""

    class Other(InstrumentedAttribute[Any]):
        __slots__ = ()
        inherit_cache = True

    attribute: Any = Recipe.name
    before = type(attribute)
    attribute.__class__ = Other
    try:
        assert Recipe.name is attribute
        assert isinstance(Recipe.__dict__["name"], Other)
    finally:
        attribute.__class__ = before


def test_a_dictionary_collection_tells_what_its_keys_are_made_of() -> None:
    """Columns or an attribute are named; of any other function nothing is known."""
    configure_mappers()
    by_column, by_key, by_name, by_function = (
        sqla.new_collection(getattr(Drawer, name)).keyfunc
        for name in ("by_column", "by_key", "by_name", "by_function")
    )
    columns, mapper = Thing.__table__.c, Thing.__mapper__
    thing: Any = Thing(name="x")

    assert list(sqla.columns_of_keys(by_column, mapper) or []) == [columns["id"]]
    assert list(sqla.columns_of_keys(by_key, mapper) or []) == [columns["id"]]
    assert list(sqla.columns_of_keys(by_name, mapper) or []) == [columns["name"]]
    assert sqla.columns_of_keys(by_function, mapper) is None
    assert list(sqla.columns_by_getter(by_column, mapper) or []) == [columns["id"]]
    assert sqla.columns_by_getter(by_key, mapper) is None
    assert sqla.is_unpopulated(by_key(thing))
    assert sqla.is_unpopulated(by_column(thing))
    assert not sqla.is_unpopulated(by_name(thing))


def test_the_tables_of_all_bases_are_found() -> None:
    """Those of classes and those beside them."""
    found = list(sqla.tables())

    assert Recipe.__table__ in found
    assert devices in found


def test_classes_are_found_by_what_their_repr_shows() -> None:
    """Which is all that an error says of them."""
    assert sqla.classes_at_path("tests.models.Recipe") == [Recipe]
    assert sqla.classes_at_path("tests.models.NoRecipe") == []


def test_constraints_of_types_are_known() -> None:
    """Those that an `Enum` or a `Boolean` makes; not one that somebody wrote."""
    made: Column[Any] = Column("made", Enum("a", native_enum=False, create_constraint=True))
    either: Column[Any] = Column("either", Boolean(create_constraint=True))
    table = Table("t", MetaData(), made, either, CheckConstraint("either", name="own"))

    checks = [each for each in table.constraints if isinstance(each, CheckConstraint)]
    assert sorted(map(sqla.is_type_bound, checks)) == [False, True, True]
    assert [each.name for each in checks if not sqla.is_type_bound(each)] == ["own"]


def test_a_relationship_knows_what_changes_along() -> None:
    """The one of the other class, in both directions; there may be none."""
    of_recipe, of_plan = inspect(Recipe).relationships, inspect(MealPlan).relationships
    every = (of_recipe["plans"], of_plan["recipe"], of_recipe["parent"])

    assert [sqla.reverse_of(each) for each in every] == [["recipe"], ["plans"], []]


@pytest.mark.slow
def test_what_is_kept_with_a_class_goes_with_it_or_with_who_keeps_it() -> None:
    """It may lead to the class, and one keeper's is not another's."""

    class Keeper:
        pass

    class Own(DeclarativeBase):
        pass

    class Thing(Own):
        __tablename__ = "things"

        id: Mapped[int] = mapped_column(primary_key=True)

    one, other = Keeper(), Keeper()
    sqla.class_cache(Thing, one)["value"] = Thing
    value = sqla.class_cache(Thing, other)["value"] = Keeper()
    there = [weakref.ref(each) for each in (value, Thing)]
    assert sqla.class_cache(Thing, one) == {"value": Thing}

    del other, value
    assert there[0]() is None
    del Thing
    gc.collect()
    assert there[1]() is None
