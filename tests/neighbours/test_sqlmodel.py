"""SQLModel: its session, its queries, and classes that are tables and pydantic models at once."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sqlmodel
from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import Field, SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession

from alfred_refs import (
    AsyncRefSession,
    KeyColumnError,
    RefModel,
    RefRegistry,
    RefSession,
    UnknownRefError,
)


class DishFields(RefModel, SQLModel):
    """What a dish and the payload for one share: as SQLModel's tutorial does it."""

    name: str
    variant_of: uuid.UUID | None = Field(
        default=None, foreign_key="dish.id", serialization_alias="variantOf"
    )


class Dish(DishFields, table=True):
    """A table with a self-reference."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class PublicDish(SQLModel):
    """What an application shows of a dish."""

    id: str
    variant_of: str | None
    name: str


class Menu(BaseModel):
    """A plain pydantic model with dishes in it, one of them as its base class."""

    dishes: list[Dish]
    best: DishFields


class Wrapped(RefModel, SQLModel, table=True):
    """A table that has a serializer of its own."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)

    @model_serializer(mode="wrap")
    def wrap(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Put everything one level down."""
        return {"wrapped": dump(self)}


class Bare(SQLModel, table=True):
    """A table without the mixin."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class LateMixin(SQLModel, RefModel, table=True):
    """A table whose mixin comes too late to do anything."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class BareFields(SQLModel):
    """A base class without the mixin, which has a key."""

    dish_id: uuid.UUID | None = Field(default=None, foreign_key="dish.id")


class HalfBare(RefModel, BareFields, table=True):
    """A table with the mixin, on top of a base class without it."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class Session(RefSession, sqlmodel.Session):
    """SQLModel's session, with refs."""


class AsyncSqlmodelSession(AsyncRefSession, AsyncSession):
    """SQLModel's asynchronous session, with refs."""

    sync_session_class = Session
    sync_session: Session


@pytest.fixture
def registry(engine: Engine) -> RefRegistry:
    """A registry in the database of the dishes."""
    SQLModel.metadata.create_all(engine)
    registry = RefRegistry(engine)
    registry.create_tables()
    return registry


@pytest.fixture
def session(engine: Engine, registry: RefRegistry) -> Iterator[Session]:
    """A session in a conversation."""
    with Session(engine, conversation="chat-7", registry=registry) as session:
        yield session


@pytest.fixture
async def aio(engine: Engine) -> AsyncIterator[AsyncSqlmodelSession]:
    """An asynchronous session in the same conversation."""
    async_engine = create_async_engine(engine.url)
    conversation = RefRegistry(async_engine).conversation("chat-7")
    async with AsyncSqlmodelSession(async_engine, conversation=conversation) as session:
        yield session
    await async_engine.dispose()


@pytest.fixture
def curry(session: Session) -> Dish:
    """`dish_2`, a variant of `dish_1`."""
    session.add(Dish(name="Butter Chicken"))
    session.commit()
    original = session.exec(select(Dish)).one()
    session.add(Dish(name="Paneer", variant_of=original.id))
    session.commit()
    dishes = session.exec(select(Dish).order_by(Dish.name)).all()
    assert [str(dish.id) for dish in dishes] == ["dish_1", "dish_2"]
    return dishes[1]


PANEER = {"id": "dish_2", "name": "Paneer", "variant_of": "dish_1"}


def test_exec_takes_and_shows_refs(session: Session, curry: Dish) -> None:
    """`session.exec` goes the same way as `execute`, for entities and for columns."""
    assert session.exec(select(Dish).where(Dish.id == curry.id)).all() == [curry]
    rows: list[Any] = [*session.exec(select(Dish.id, Dish.variant_of).order_by(Dish.name))]
    assert rows == [("dish_1", None), ("dish_2", "dish_1")]
    assert session.exec(select(Dish.id).where(Dish.variant_of == "dish_1")).one() == "dish_2"


def test_dumps_show_refs(curry: Dish) -> None:
    """Python, JSON, chosen fields, aliases, iteration and `repr()`: none shows a key."""
    assert curry.model_dump() == PANEER
    assert json.loads(curry.model_dump_json()) == PANEER
    assert curry.model_dump(mode="json", include={"id"}) == {"id": "dish_2"}
    assert curry.model_dump(exclude={"id", "name"}, by_alias=True) == {"variantOf": "dish_1"}
    assert dict(curry) == PANEER
    assert sorted(map(str, curry.__repr_args__())) == [
        "('id', 'dish_2')",
        "('name', 'Paneer')",
        "('variant_of', 'dish_1')",
    ]
    assert "'dish_2'" in str(curry)
    assert jsonable_encoder([curry], by_alias=False) == [PANEER]


def test_dumps_of_nested_models_show_refs(curry: Dish) -> None:
    """A model compiled before any session was made dumps its dishes with refs."""
    dumped = {"dishes": [PANEER], "best": {"name": "Paneer", "variant_of": "dish_1"}}
    menu = Menu(dishes=[curry], best=curry)

    assert menu.model_dump() == dumped
    assert json.loads(menu.model_dump_json()) == dumped
    assert "UUID" not in repr(menu)


def test_a_serializer_of_the_class_gets_refs(session: Session) -> None:
    """The mixin's part is done before what the class itself does."""
    wrapped = Wrapped()
    session.add(wrapped)
    session.flush()

    assert wrapped.model_dump() == {"wrapped": {"id": "wrapped_1"}}


def test_a_public_model_reads_refs(curry: Dish) -> None:
    """`model_validate` reads attributes, so a field for a ref is a `str`."""
    assert PublicDish.model_validate(curry).model_dump() == PANEER


def test_attributes_take_refs(session: Session, curry: Dish) -> None:
    """SQLModel sets attributes past their descriptors; a ref becomes a key all the same."""
    curry.variant_of = "dish_2"  # type: ignore[assignment]
    with pytest.raises(UnknownRefError):
        curry.variant_of = "dish_9"  # type: ignore[assignment]
    session.commit()
    session.refresh(curry)

    assert curry.model_dump() == {**PANEER, "variant_of": "dish_2"}


def test_an_update_from_a_payload_takes_refs(session: Session, curry: Dish) -> None:
    """`sqlmodel_update`, which sets many attributes, and a payload of the shared fields."""
    curry.sqlmodel_update({"variant_of": "dish_2", "name": "Saag"})
    session.commit()
    session.refresh(curry)

    assert curry.model_dump() == {"id": "dish_2", "name": "Saag", "variant_of": "dish_2"}


def test_a_plain_session_dumps_keys(engine: Engine, curry: Dish) -> None:
    """The mixin changes nothing for instances of other sessions, nor for payloads."""
    with sqlmodel.Session(engine) as plain:
        dish = plain.exec(select(Dish).where(Dish.name == "Paneer")).one()
        key = dish.id

        assert isinstance(key, uuid.UUID)
        assert dish.model_dump()["id"] == key
        assert json.loads(dish.model_dump_json())["id"] == str(key)
        assert dict(dish)["id"] == key
        dish.variant_of = key
        assert dish.model_dump()["variant_of"] == key
    assert DishFields(name="Soup", variant_of=key).model_dump()["variant_of"] == key
    assert curry.id == "dish_2"


@pytest.mark.parametrize(
    ("class_", "named"), [(Bare, "Bare"), (LateMixin, "LateMixin"), (HalfBare, "BareFields")]
)
def test_a_class_that_would_dump_keys_is_refused(
    class_: type[Any], named: str, engine: Engine, session: Session
) -> None:
    """Read or added: the error names the class that lacks the mixin, and nothing comes out."""
    with sqlmodel.Session(engine) as plain:
        plain.add(class_())
        plain.commit()

    with pytest.raises(KeyColumnError, match=f"^{named} is a pydantic model.*RefModel") as first:
        session.exec(select(class_)).all()
    # the first error keeps what it was raised for; that must not be found again
    with pytest.raises(KeyColumnError) as second:
        session.exec(select(class_)).all()
    with pytest.raises(KeyColumnError):
        session.add(class_())
    assert str(first.value) == str(second.value)
    assert list(session.identity_map.values()) == []


@pytest.mark.usefixtures("curry")
async def test_the_asynchronous_session_shows_refs(aio: AsyncSqlmodelSession) -> None:
    """Both of SQLModel's sessions can be combined with ours; dumping does no I/O."""
    dishes = (await aio.exec(select(Dish).order_by(Dish.name))).all()

    assert [dish.model_dump()["id"] for dish in dishes] == ["dish_1", "dish_2"]
