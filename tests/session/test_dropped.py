"""A mapped class that the application drops is collected: nothing of the package keeps it."""

from __future__ import annotations

import gc
import pickle
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, bindparam, delete, func, select, text, update
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    attribute_keyed_dict,
    mapped_column,
    relationship,
    selectinload,
)

from alfred_refs import Ownership, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests.models import Recipe

pytestmark = [pytest.mark.once, pytest.mark.slow]

Models = tuple[Any, ...]
Work = Callable[[Any, Models], Any]
WORK: list[Any] = []
PLAIN, ACTIVE, EAGER = "plain", "active", "eager"


def declared() -> Models:
    """Return classes of a declarative base that nobody else has, filled with some rows."""

    class Base(DeclarativeBase):
        pass

    class Crate(Base):
        __tablename__ = "crates"
        __ref_label__ = staticmethod(lambda loaded: loaded.name and Crate.__name__)

        id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
        code: Mapped[uuid.UUID] = mapped_column(unique=True, default=uuid.uuid4)
        name: Mapped[str]
        items: Mapped[dict[Any, Any]] = relationship(
            "Item",
            collection_class=attribute_keyed_dict("id"),
            foreign_keys="Item.crate_id",
            cascade="all",
        )

    class Item(Base):
        __tablename__ = "items"

        id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
        crate_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("crates.id"))
        code: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("crates.code"))
        # declared by the class itself, which the table then leads to
        also: Mapped[uuid.UUID | None] = mapped_column(info={"ref": Crate})

    return Base, Crate, Item


def work(*kinds: str) -> Callable[[Work], Work]:
    """Note some work that sessions of these kinds can do."""

    def noted(done: Work) -> Work:
        name = done.__name__[1:].replace("_", " ")
        WORK.extend(pytest.param(done, kind, id=f"{name}-{kind}") for kind in kinds)
        return done

    return noted


@work(PLAIN, ACTIVE, EAGER)
def _instances(session: Session, models: Models) -> None:
    _, crate, item = models
    made = crate(name="a")
    session.add(made)
    session.flush()
    session.add(item(crate_id=made.id, code=made.code, also=made.id))
    session.commit()
    [found] = session.scalars(select(crate).options(selectinload(crate.items)))
    assert len(found.items) == 1
    assert [each.crate_id for each in session.scalars(select(item))] == [found.id]
    session.merge(item(crate_id=found.id))
    session.expunge(found)
    session.commit()
    session.delete(session.get(crate, found.id))
    session.rollback()


@work(PLAIN, ACTIVE, EAGER)
def _statements(session: Session, models: Models) -> None:
    _, crate, item = models
    joined = select(crate.id, item.code).join(item, item.crate_id == crate.id)
    session.execute(joined.where(crate.id == bindparam("x")), {"x": None}).all()
    session.execute(select(func.json_build_object("id", crate.id))).all()
    session.execute(select(crate.__table__).where(crate.__table__.c.name == "a")).all()
    # the shape is of a class that stays, too
    session.execute(select(Recipe).join(crate, crate.id == Recipe.id)).all()
    session.execute(update(item).values(also=None).where(item.crate_id.in_([])))
    session.execute(delete(item))
    session.execute(text("select 'a'")).all()
    session.query(crate).filter_by(name="a").count()


@work(PLAIN, ACTIVE, EAGER)
def _errors(session: Session, models: Models) -> None:
    _, crate, item = models
    for incomplete in (crate(), item(crate_id=None)):
        session.add(incomplete)
        with pytest.raises(Exception, match="not-null constraint"):
            session.flush()
        session.rollback()


@work(PLAIN, ACTIVE, EAGER)
def _a_pickle(session: Session, models: Models) -> None:
    _, crate, _ = models
    session.add(crate(name="a"))
    session.commit()
    found = session.scalars(select(crate)).first()
    # a class of a function cannot be found again: what the instance takes along is made
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(found)


@work(ACTIVE, EAGER)
def _tools(session: RefSession, models: Models) -> None:
    _, crate, item = models
    toolset = Toolset(models=[crate, item])
    by_name = {"field": "name", "op": "=", "value": "a"}
    toolset.schemas("openai")
    toolset.describe()
    for verb, asked in {
        "db_create": {"table": "crates", "data": {"name": "a"}},
        "db_read": {"table": "items", "filters": []},
        "db_delete": {"table": "crates", "filters": [by_name], "expect": {"count": 1}},
    }.items():
        answer = toolset.call(session, verb, asked)
        assert "error" not in answer, answer


@work(ACTIVE, EAGER)
def _drafts(session: RefSession, models: Models) -> None:
    _, crate, _ = models
    assert session.conversation is not None
    draft = session.conversation.draft(crate, {"name": "a"})
    session.add(session.get(crate, draft.ref))
    session.commit()


@work(ACTIVE, EAGER)
def _an_owner(session: RefSession, models: Models) -> None:
    _, crate, item = models
    owner = Ownership({crate: "id", item: "crate_id"}).of(uuid.uuid4())
    chat = RefRegistry(store=MemoryStore()).conversation("chat-8", owner=str(owner.value))
    with RefSession(session.bind, conversation=chat, owner=owner) as owned:
        assert owned.scalars(select(item).join(crate, item.crate_id == crate.id)).all() == []


def worked(engine: Engine, done: Work, session: Session, *, disposed: bool) -> dict[str, Any]:
    """Work with classes, drop them, and return weak references to what they were."""
    models = declared()
    base = models[0]
    base.metadata.create_all(engine)
    try:
        done(session, models)
    finally:
        session.rollback()
        with engine.begin() as connection:
            base.metadata.drop_all(connection)
    there = [*models, base.registry, base.metadata, *(each.__mapper__ for each in models[1:])]
    if disposed:
        base.registry.dispose()
    return {repr(each): weakref.ref(each) for each in there}


@pytest.mark.parametrize(("done", "kind"), WORK)
def test_a_dropped_class_is_collected(tables: Engine, done: Work, kind: str) -> None:
    """As with a plain session, once the engine's compiled statements are cleared.

    Session, conversation and registry stay, and accept other classes of the same names, dropped
    with and without `registry.dispose()`.
    """
    chat = RefRegistry(store=MemoryStore()).conversation("chat-7")
    session = Session(tables) if kind == PLAIN else RefSession(tables, conversation=chat)
    if isinstance(session, RefSession):
        session.mint_when_fetched = kind == EAGER
    with session:
        for disposed in (False, True):
            watched = worked(tables, done, session, disposed=disposed)
            tables.clear_compiled_cache()
            gc.collect()
            assert [name for name, there in watched.items() if there() is not None] == []


def test_a_registry_that_is_dropped_is_forgotten_by_the_classes(tables: Engine) -> None:
    """What it knew of them is kept with them, and does not lead back."""
    registry = RefRegistry(store=MemoryStore())
    with RefSession(tables, conversation=registry.conversation("chat-7")) as session:
        session.scalars(select(Recipe)).all()
        session.add(Recipe(name="a"))
        session.flush()
    entities = weakref.ref(registry._entities)
    del registry, session
    gc.collect()

    assert entities() is None
