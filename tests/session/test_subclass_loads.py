"""Loads of subclasses by `selectin`, where keys are text and could be taken for refs."""

from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy import ForeignKey, bindparam, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, selectin_polymorphic
from sqlalchemy.pool import StaticPool

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.testing import MemoryStore


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Animal(Base):
    """Has keys that are text."""

    __tablename__ = "selectin_animals"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]


class Dog(Animal):
    """Is loaded by a statement of its own."""

    __tablename__ = "selectin_dogs"
    __mapper_args__ = {  # noqa: RUF012
        "polymorphic_identity": "dog",
        "polymorphic_load": "selectin",
    }

    id: Mapped[str] = mapped_column(ForeignKey("selectin_animals.id"), primary_key=True)
    name: Mapped[str]


class Cat(Animal):
    """Is loaded so if a statement wants it."""

    __tablename__ = "selectin_cats"
    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012

    id: Mapped[str] = mapped_column(ForeignKey("selectin_animals.id"), primary_key=True)
    name: Mapped[str]


@pytest.mark.parametrize("wanted", [[], [Dog, Cat]])
def test_subclasses_are_loaded_by_keys_that_are_text(wanted: list[type[Any]]) -> None:
    """The ORM gives keys; a program that calls its own parameter so gives refs."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Dog(id="dog-1", name="Rex"), Cat(id="animal_1", name="Tom")])
        plain.commit()
    registry = RefRegistry(store=MemoryStore(), policy=RefPolicy(key_types=("string",)))
    options = [selectin_polymorphic(Animal, wanted)] if wanted else []
    with RefSession(engine, conversation=registry.conversation("c")) as session:
        statement = select(Animal).options(*options).order_by(Animal.kind.desc())
        dog, cat = cast(list[Any], session.scalars(statement).all())
        assert (dog.id, dog.name, cat.id, cat.name) == ("animal_1", "Rex", "animal_2", "Tom")
        named = select(Animal.kind).where(Animal.id.in_(bindparam("primary_keys", expanding=True)))
        kinds = session.scalars(named, {"primary_keys": [dog.id]}).all()
        assert kinds == ["dog"]
