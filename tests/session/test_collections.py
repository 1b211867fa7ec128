"""Dictionary collections: their keys are refs wherever attributes show refs."""

from __future__ import annotations

import pickle
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, Uuid, select
from sqlalchemy.exc import InvalidRequestError, SAWarning
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    attribute_keyed_dict,
    column_keyed_dict,
    joinedload,
    keyfunc_mapping,
    mapped_column,
    relationship,
    selectinload,
)
from sqlalchemy.orm.collections import collection_adapter

from alfred_refs import RefSession
from alfred_refs.session.attributes import DictAttribute
from tests.fix_session import TravelLog


class Base(DeclarativeBase):
    """Declarative base of these shapes."""


class Thing(Base):
    """Is in a drawer."""

    __tablename__ = "things"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str]
    drawer_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("drawers.id"), nullable=True)


_of_things: Any = Thing.__table__.c
_id_and_name: Any = [_of_things.id, _of_things.name]


class Drawer(Base):
    """Has things in it, by what they are called, by their key, and by a function of it."""

    __tablename__ = "drawers"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)

    by_key: Mapped[dict[Any, Thing]] = relationship(
        collection_class=attribute_keyed_dict("id"), cascade="all, delete-orphan"
    )
    by_column: Mapped[dict[Any, Thing]] = relationship(
        collection_class=column_keyed_dict(_of_things.id), viewonly=True
    )
    by_columns: Mapped[dict[Any, Thing]] = relationship(
        collection_class=column_keyed_dict(_id_and_name), viewonly=True
    )
    by_function: Mapped[dict[Any, Thing]] = relationship(
        collection_class=keyfunc_mapping(lambda thing: f"the {thing.id}"), viewonly=True
    )
    by_name: Mapped[dict[str, Thing]] = relationship(
        collection_class=attribute_keyed_dict("name"), viewonly=True
    )


class Jar(Base):
    """Stands on a shelf."""

    __tablename__ = "jars"

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str]
    shelf_id: Mapped[int] = mapped_column(ForeignKey("shelves.id"))


class Shelf(Base):
    """Has at most one jar of each label."""

    __tablename__ = "shelves"

    id: Mapped[int] = mapped_column(primary_key=True)
    jars: Mapped[dict[str, Jar]] = relationship(
        collection_class=keyfunc_mapping(lambda jar: jar.label), cascade="all, delete-orphan"
    )


EVERY = {
    Drawer.by_key: ["thing_1", "thing_2", "thing_3"],
    Drawer.by_column: ["thing_1", "thing_2", "thing_3"],
    Drawer.by_columns: [("thing_1", "a"), ("thing_2", "b"), ("thing_3", "c")],
    Drawer.by_function: ["the thing_1", "the thing_2", "the thing_3"],
    Drawer.by_name: ["a", "b", "c"],
}
LOADED = [joinedload, selectinload, None]


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """The engine, with a drawer of three things in its database."""
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        things = [Thing(id=uuid.UUID(int=n), name=name) for n, name in enumerate("abc")]
        plain.add(Drawer(by_key={thing.id: thing for thing in things}))
        plain.commit()
    return engine


@pytest.fixture
def drawer(session: RefSession) -> Drawer:
    """The drawer, whose things are `thing_1` to `thing_3`."""
    things = session.scalars(select(Thing).order_by(Thing.name)).all()
    assert [thing.id for thing in things] == ["thing_1", "thing_2", "thing_3"]
    return session.scalars(select(Drawer)).one()


@pytest.mark.parametrize("load", LOADED)
@pytest.mark.parametrize("collection", EVERY)
@pytest.mark.usefixtures("drawer")
def test_keys_of_a_dictionary_are_what_attributes_show(
    session: RefSession, collection: Any, load: Any
) -> None:
    """However the dictionary is declared and however it is loaded."""
    options = [load(collection)] if load else []
    found: Any = session.scalars(select(Drawer).options(*options)).unique().one()
    things = getattr(found, collection.key)

    assert sorted(things) == EVERY[collection]
    assert [things[key].name for key in sorted(things)] == ["a", "b", "c"]


@pytest.mark.parametrize("load", LOADED)
@pytest.mark.parametrize("collection", EVERY)
def test_a_dictionary_of_new_keys_is_one_round_trip(
    session: RefSession, store: TravelLog, collection: Any, load: Any
) -> None:
    """Its children get their refs together, not each as it is put in."""
    options = [load(collection)] if load else []
    found: Any = session.scalars(select(Drawer).options(*options)).unique().one()

    assert len(getattr(found, collection.key)) == 3
    assert store.trips == ([] if collection is Drawer.by_name else ["refer"])


def test_a_child_that_joins_is_found_by_its_ref(session: RefSession, drawer: Drawer) -> None:
    """Before its flush it has none of the old ones, and afterwards the same as its attribute."""
    new: Any = Thing(id=uuid.uuid4(), name="d")
    things: Any = drawer.by_key
    things.set(new)
    assert new.id not in {key for key in things if isinstance(key, uuid.UUID)}
    assert not any(isinstance(key, uuid.UUID) for key in things)
    assert drawer.by_key["thing_4"] is new
    session.commit()
    assert sorted(drawer.by_key) == ["thing_1", "thing_2", "thing_3", "thing_4"]

    del drawer.by_key["thing_4"]
    session.delete(drawer.by_key["thing_1"])
    session.commit()
    assert sorted(drawer.by_key) == ["thing_2", "thing_3"]
    assert session.scalars(select(Thing.name).order_by(Thing.name)).all() == ["b", "c"]


@pytest.mark.parametrize("how", ["set", "append_with_event"])
def test_a_new_child_replaces_the_one_under_its_key(
    tables: Engine, session: RefSession, how: str
) -> None:
    """The old one is removed, and deleted as an orphan, as in a plain session."""
    left = []
    with Session(tables) as plain:
        for each in (plain, session):
            shelf = Shelf(jars={"jam": Jar(label="jam"), "tea": Jar(label="tea")})
            each.add(shelf)
            each.commit()
            jars: Any = shelf.jars
            put = jars.set if how == "set" else collection_adapter(jars).append_with_event
            put(Jar(label="jam"))
            each.commit()
            left.append(each.scalars(select(Jar.label).where(Jar.shelf_id == shelf.id)).all())
            assert sorted(shelf.jars) == ["jam", "tea"]
    assert left == [["tea", "jam"]] * 2


def test_a_new_owner_may_bring_its_dictionary(session: RefSession) -> None:
    """What it was made with shows refs as soon as it has joined."""
    things = [Thing(id=uuid.uuid4(), name=name) for name in "xy"]
    drawer = Drawer(by_key={thing.id: thing for thing in things})
    session.add(drawer)
    assert sorted(drawer.by_key) == ["thing_1", "thing_2"]
    session.commit()

    assert [drawer.by_key[f"thing_{n}"].name for n in (1, 2)] == ["x", "y"]
    with pytest.raises(InvalidRequestError, match="not populated"):
        drawer.by_key.set(Thing(name="no key"))  # type: ignore[attr-defined]


def test_raw_keys_shows_keys_and_no_longer(session: RefSession, drawer: Drawer) -> None:
    """Inside the `with` the dictionary has keys; what was put in there has a ref afterwards."""
    assert "thing_1" in drawer.by_key
    with session.raw_keys():
        assert sorted(drawer.by_key) == [uuid.UUID(int=n) for n in range(3)]
        drawer.by_key[uuid.UUID(int=7)] = Thing(id=uuid.UUID(int=7), name="d")
    assert sorted(drawer.by_key) == ["thing_1", "thing_2", "thing_3", "thing_4"]
    merged = session.merge(Drawer(id=drawer.id, by_key={}))
    session.commit()

    assert merged.by_key == {}


def test_an_unpickled_dictionary_has_refs(session: RefSession, drawer: Drawer) -> None:
    """Also one that was not read before it was pickled."""
    options = [joinedload(Drawer.by_key), joinedload(Drawer.by_column)]
    session.expunge_all()
    found = session.scalars(select(Drawer).options(*options)).unique().one()
    sent = pickle.loads(pickle.dumps(found))  # noqa: S301

    assert sorted(sent.by_key) == sorted(sent.by_column) == ["thing_1", "thing_2", "thing_3"]
    assert drawer.id == sent.id


@pytest.mark.usefixtures("drawer")
def test_dictionaries_of_plain_sessions_are_left_alone(tables: Engine) -> None:
    """The class is the same; the keys are keys, and functions are the mapping's own."""
    assert type(Drawer.__dict__["by_key"]) is DictAttribute
    assert type(Drawer.__dict__["by_name"]) is not DictAttribute
    with Session(tables) as plain:
        things: Any = plain.scalars(select(Drawer)).one().by_column
        assert sorted(things) == [uuid.UUID(int=n) for n in range(3)]
        assert not type(things.keyfunc).__module__.startswith("alfred_refs")


class Spot(Base):
    """Is on a map under what a property returns, which is nothing for some."""

    __tablename__ = "spots"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str | None] = mapped_column(default=None)
    map_id: Mapped[int] = mapped_column(ForeignKey("maps.id"))

    @property
    def name(self) -> str | None:
        """Return the text."""
        return self.text


class Map(Base):
    """Has spots by name; those without are left out, or under `None`."""

    __tablename__ = "maps"

    id: Mapped[int] = mapped_column(primary_key=True)
    named: Mapped[dict[Any, Spot]] = relationship(
        collection_class=attribute_keyed_dict("name", ignore_unpopulated_attribute=True)
    )
    every: Mapped[dict[Any, Spot]] = relationship(
        collection_class=attribute_keyed_dict("name"), viewonly=True
    )


def test_a_loaded_child_without_a_key_is_handled_as_by_sqlalchemy(
    tables: Engine, session: RefSession
) -> None:
    """It is left out, or kept with a warning."""
    with Session(tables) as plain:
        plain.add(Map(id=7001))
        plain.flush()
        plain.add_all([Spot(map_id=7001, text="a"), Spot(map_id=7001)])
        plain.commit()

    found = []
    for one in (Session(tables), session):
        loaded = one.scalars(select(Map)).one()
        with pytest.warns(SAWarning, match="dictionary value for attribute .* was None"):
            every = set(loaded.every)
        found.append((set(loaded.named), every))
        one.close()

    assert found == [({"a"}, {"a", None})] * 2
