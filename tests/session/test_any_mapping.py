"""Any mapping: a session with refs reads what a plain one reads, and differs in keys alone."""

from __future__ import annotations

import copy
import itertools
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import (
    CHAR,
    Column,
    Dialect,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    Uuid,
    case,
    cast,
    create_engine,
    inspect,
    select,
)
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    attribute_keyed_dict,
    column_property,
    composite,
    mapped_column,
    registry,
    relationship,
    synonym,
)
from sqlalchemy.orm.exc import UnmappedClassError
from sqlalchemy.pool import StaticPool

from alfred_refs import (
    KeyColumnError,
    RefRegistry,
    RefSession,
)
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset


@dataclass
class Pair:
    """The value of a composite attribute."""

    one: Any
    two: Any


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Event(Base):
    """Has attributes that show keys, beside plain ones."""

    __tablename__ = "events"

    key: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    number: Mapped[int] = mapped_column(Integer, default=3)
    text: Mapped[str | None] = mapped_column(nullable=True)
    double: Mapped[int] = column_property(number + number)
    who: Mapped[str] = column_property(case((text.is_(None), cast(key, String)), else_=text))
    shown: Mapped[str] = column_property(
        case((text.is_(None), cast(key, String)), else_=text), info={"ref": None}
    )
    pair: Mapped[Pair] = composite(key, number)
    plain: Mapped[Pair] = composite(number, text)


class Price(Base):
    """Has its class from an expression."""

    __tablename__ = "prices"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    kind: Mapped[str] = mapped_column(default="fixed")

    __mapper_args__ = {  # noqa: RUF012
        "polymorphic_on": case((kind == "fixed", "fixed"), else_="other"),
        "polymorphic_identity": "other",
    }


class Fixed(Price):
    """A price of one kind."""

    __mapper_args__ = {"polymorphic_identity": "fixed"}  # noqa: RUF012


def database(base: type[DeclarativeBase]) -> Engine:
    """Return a database in memory with the tables of a base."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    base.metadata.create_all(engine)
    return engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A database with one event and one price."""
    engine = database(Base)
    with Session(engine) as plain:
        plain.add_all([Event(), Fixed()])
        plain.commit()
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[RefSession]:
    """A session with refs."""
    refs = RefRegistry(store=MemoryStore())
    with RefSession(engine, conversation=refs.conversation("chat")) as session:
        yield session


def test_an_attribute_that_shows_keys_is_refused_without_its_class(session: RefSession) -> None:
    """The others work; with raw keys, all do."""
    event = session.scalars(select(Event)).one()

    assert (event.key, event.double, event.plain) == ("event_1", 6, Pair(3, None))
    for name in ("who", "pair"):
        with pytest.raises(KeyColumnError, match=rf"Event\.{name} .*info="):
            getattr(event, name)
    with session.raw_keys():
        assert (event.who, event.pair) == (event.key.hex, Pair(event.key, 3))
    event.number = 4
    session.commit()
    assert session.scalars(select(Event.number)).one() == 4


def test_an_attribute_that_shows_keys_stays_refused_in_copies(session: RefSession) -> None:
    """They are outside of the session."""
    event = session.scalars(select(Event)).one()

    for other in (copy.deepcopy(event), pickle.loads(pickle.dumps(event))):  # noqa: S301  # ours
        assert (other.key, other.double) == ("event_1", 6)
        with pytest.raises(Exception, match=r"Event\.who"):
            _ = other.who


def test_an_attribute_that_shows_keys_is_not_set(session: RefSession) -> None:
    """The value would not be translated."""
    event = session.scalars(select(Event)).one()

    with pytest.raises(KeyColumnError, match=r"Event\.who"):
        event.who = "event_1"
    with pytest.raises(KeyColumnError, match=r"Event\.who"):
        session.add(Event(who="event_1"))


def test_an_expression_that_is_declared_data_is_selected(session: RefSession) -> None:
    """As instances show it: by itself, of an alias and in criteria."""
    event = session.scalars(select(Event)).one()
    [shown] = session.scalars(select(Event.shown))

    assert shown == event.shown
    assert shown == session.connection().scalar(select(cast(Event.__table__.c.key, String)))
    assert session.scalars(select(aliased(Event).shown)).all() == [shown]
    assert session.scalars(select(Event.key).where(Event.shown == shown)).all() == ["event_1"]


def test_a_model_sees_the_other_attributes_of_a_class(session: RefSession) -> None:
    """One that shows keys is left out; it may be hidden by name as well."""
    for hidden in ([], [Event.who]):
        tools = Toolset([Event], hidden=hidden)
        [row] = tools.call(session, "db_read", {"table": "events"})["rows"]
        assert row.keys() == {"key", "double", "shown", "number", "text"}
        assert "who" not in tools.describe()


def test_a_model_reads_rows_whose_class_is_an_expression(session: RefSession) -> None:
    """The expression is not an attribute."""
    tools = Toolset([Price])
    row = {"id": "price_1", "kind": "fixed"}

    assert "polymorphic" not in tools.describe()
    assert tools.call(session, "db_read", {"table": "prices"})["rows"] == [row]
    made = tools.call(session, "db_create", {"table": "prices", "data": {"kind": "x"}})
    assert made["rows"] == [{"id": "price_2", "kind": "x"}]


# Generated mappings

_LAZY = [
    "select",
    "joined",
    "subquery",
    "selectin",
    "immediate",
    "dynamic",
    "write_only",
    "noload",
]
_COLLECTIONS: dict[str, Any] = {
    "list": list,
    "set": set,
    "dict": attribute_keyed_dict("name"),
    "dict_by_key": attribute_keyed_dict("id"),
}
_KEYS: dict[str, tuple[Any, Any]] = {"uuid": (Uuid, uuid.uuid4), "integer": (Integer, None)}
_INHERITANCE = ("none", "single", "joined", "other key", "expression")


def generated() -> Iterator[tuple[Any, ...]]:
    """Yield mappings: strategy, collection, one or many, type of key, kind of inheritance."""
    for lazy, collection, uselist in itertools.product(_LAZY, _COLLECTIONS, (None, False)):
        if uselist is None or lazy not in ("dynamic", "write_only"):
            yield lazy, collection, uselist, "uuid", "none"
    for key, inheritance in itertools.product(_KEYS, _INHERITANCE):
        for lazy in ("select", "joined", "write_only"):
            yield lazy, "list", None, key, inheritance


def mapped(
    lazy: Any, collection: str, uselist: bool | None, key: str, inheritance: str
) -> tuple[type[Any], type[Any], type[Any]]:
    """Return a declarative base and two classes of it, of which one has a collection."""
    type_, default = _KEYS[key]
    with_options: dict[str, Any] = {"uselist": False} if uselist is False else {}

    class Local(DeclarativeBase):
        """Of one mapping."""

    class Dish(Local):
        """The parent."""

        __tablename__ = "dishes"

        key: Mapped[Any] = mapped_column(type_, primary_key=True, default=default)
        kind: Mapped[str] = mapped_column(default="pie")
        size: Mapped[int] = mapped_column(Integer, default=2)
        twice: Mapped[int] = column_property(size * 2)
        pair: Mapped[Pair] = composite(size, kind)
        other_size: Mapped[int] = synonym("size")
        lines: Mapped[Any] = relationship(
            "Line", lazy=lazy, collection_class=_COLLECTIONS[collection], **with_options
        )
        names = association_proxy("lines", "name")

        @hybrid_property
        def larger(self) -> int:
            return self.size + 1

        if inheritance != "none":
            on_expression = inheritance == "expression"
            __mapper_args__ = {
                "polymorphic_on": case((kind == "pie", "pie"), else_="dish")
                if on_expression
                else "kind",
                "polymorphic_identity": "dish",
            }

    class Line(Local):
        """The child."""

        __tablename__ = "lines"

        id: Mapped[Any] = mapped_column(type_, primary_key=True, default=default)
        name: Mapped[str]
        dish_id: Mapped[Any] = mapped_column(type_, ForeignKey("dishes.key"))

    if inheritance == "none":
        return Local, Dish, Line
    namespace: dict[str, Any] = {"__mapper_args__": {"polymorphic_identity": "pie"}}
    if inheritance in ("joined", "other key"):
        name = "key" if inheritance == "joined" else "pie_id"
        namespace["__tablename__"] = "pies"
        namespace[name] = mapped_column(ForeignKey("dishes.key"), primary_key=True)
    return Local, type("Pie", (Dish,), namespace), Line


def seen(instance: Any) -> dict[str, Any]:
    """Return what the attributes of an instance show, keys by their type alone."""
    found: dict[str, Any] = {}
    mapper = inspect(type(instance)).mapper
    for name in [*mapper.column_attrs.keys(), *mapper.composites.keys(), "other_size", "larger"]:
        if hasattr(type(instance), name):
            value = getattr(instance, name)
            is_key = name in ("key", "pie_id")
            found[name] = "key" if is_key else value
    return found


def related(session: Session, instance: Any, lazy: str) -> Any:
    """Return the names of related rows."""
    if lazy == "write_only":
        return [each.name for each in session.scalars(instance.lines.select())]
    if lazy == "dynamic":
        return [each.name for each in instance.lines]
    lines = instance.lines
    if lines is None:
        return None
    many = lines.values() if isinstance(lines, dict) else lines
    return [each.name for each in many] if hasattr(many, "__iter__") else lines.name


@pytest.mark.filterwarnings("ignore")  # of SQLAlchemy, about the strategies
@pytest.mark.parametrize("shape", list(generated()), ids=lambda s: "-".join(map(str, s)))
def test_a_mapping_reads_as_in_a_plain_session(shape: tuple[Any, ...]) -> None:
    """Its attributes and relationships, whatever the class is made of; and the tools read it."""
    lazy, *_ = shape
    base, dish, line = mapped(*shape)
    engine = database(base)
    with Session(engine) as plain:
        plain.add(one := dish())
        plain.flush()
        plain.add(line(name="a", dish_id=one.key))
        plain.commit()
        expected = seen(one), related(plain, one, lazy)
    refs = RefRegistry(store=MemoryStore())
    with RefSession(engine, conversation=refs.conversation("chat")) as session:
        instance: Any = session.scalars(select(dish)).unique().one()
        assert (seen(instance), related(session, instance, lazy)) == expected
        assert instance.key == "dish_1"
        tools = Toolset([dish, line])
        [row] = tools.call(session, "db_read", {"table": inspect(dish).local_table.name})["rows"]
        assert (row["key"], row["size"], row["twice"]) == ("dish_1", 2, 4)
    engine.dispose()


def test_an_unmapped_subclass_is_refused_as_in_a_plain_session(session: RefSession) -> None:
    """Its instances are instrumented, as those of its base are, but belong to no mapper."""

    class Tool:
        """Is mapped."""

    class Hammer(Tool):
        """Is not."""

    tools = Table("tools", MetaData(), Column("id", Uuid, primary_key=True))
    registry().map_imperatively(Tool, tools)
    with pytest.raises(UnmappedClassError, match="Hammer"):
        session.add(Hammer())


class Guid(TypeDecorator[Any]):
    """The recipe for UUIDs of SQLAlchemy's manual, which does not declare a Python type."""

    impl, cache_ok = CHAR, True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Return the type of the database."""
        of_postgresql = dialect.name == "postgresql"
        return dialect.type_descriptor(Uuid() if of_postgresql else CHAR(32))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return a UUID where the database has them, and its digits elsewhere."""
        return value if value is None or dialect.name == "postgresql" else value.hex

    def process_result_value(self, value: Any, _: object) -> Any:
        """Return a UUID."""
        return value if value is None or isinstance(value, uuid.UUID) else uuid.UUID(value)


class Counted(TypeDecorator[Any]):
    """Integers, as they are."""

    impl, cache_ok = Integer, True

    def process_result_value(self, value: Any, _: object) -> Any:
        """Return the value."""
        return value


class Coded(TypeDecorator[Any]):
    """Integers that are other texts in Python."""

    impl, cache_ok = Integer, True

    def process_bind_param(self, value: Any, _: object) -> Any:
        """Return the number in a text."""
        return value and int(value[1:])

    def process_result_value(self, value: Any, _: object) -> Any:
        """Return a text."""
        return value and f"h{value}"


@pytest.mark.parametrize(
    ("type_", "value"), [(Guid, uuid.UUID(int=7)), (Counted, 7_001), (Coded, "h7")]
)
def test_keys_of_a_type_that_declares_no_python_type(type_: Any, value: Any) -> None:
    """They are refs if the type loads what it stores; otherwise the attribute is refused."""

    class Own(DeclarativeBase):
        pass

    class Parcel(Own):
        __tablename__ = "parcels"
        key: Mapped[Any] = mapped_column(type_, primary_key=True)
        within_key: Mapped[Any] = mapped_column(type_, ForeignKey("parcels.key"), nullable=True)
        name: Mapped[str]
        parcels: Mapped[list[Any]] = relationship("Parcel")

    engine = database(Own)
    with Session(engine) as plain:
        plain.add(Parcel(key=value, within_key=value, name="a"))
        plain.commit()
    refs = RefRegistry(store=MemoryStore())
    with RefSession(engine, conversation=refs.conversation("chat")) as session:
        parcel = session.scalars(select(Parcel)).one()
        parcel.name = "b"
        session.commit()
        assert (session.scalars(select(Parcel.name)).all(), parcel.parcels) == (["b"], [parcel])
        if type_ is Coded:
            for name in ("key", "within_key"):
                with pytest.raises(KeyColumnError, match="python_type"):
                    getattr(parcel, name)
                with pytest.raises(KeyColumnError, match="python_type"):
                    setattr(parcel, name, "parcel_1")
            session.add(Parcel(key="h8", within_key="h7", name="c"))
        else:
            assert (parcel.key, parcel.within_key) == ("parcel_1", "parcel_1")
            assert session.scalars(select(Parcel).where(Parcel.key == "parcel_1")).one() is parcel
            assert session.get(Parcel, "parcel_1") is parcel
        session.commit()
        tools = Toolset([Parcel])
        rows = tools.call(session, "db_read", {"table": "parcels"})["rows"]
        own = "_ref" if type_ is Coded else "key"
        assert (rows[0][own], rows[0]["name"]) == ("parcel_1", "b")
    engine.dispose()
