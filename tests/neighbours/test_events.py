"""Listeners of the application's own: what they see is below the session, or an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, ForeignKey, FrozenResult, event, insert, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    ORMExecuteState,
    Query,
    Session,
    mapped_column,
    sessionmaker,
    with_loader_criteria,
)

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    RefPolicy,
    RefRegistry,
    RefSession,
    UnknownRefError,
)
from tests.models import MealPlan, Recipe

pytestmark = pytest.mark.tables


class ListenedSession(RefSession):
    """A session class of its own for listeners that stay on it."""


@contextmanager
def listening(
    target: Any, name: str, listener: Callable[..., Any], **options: Any
) -> Iterator[None]:
    """Have a listener called inside the `with`."""
    event.listen(target, name, listener, **options)
    try:
        yield
    finally:
        event.remove(target, name, listener)


@pytest.fixture
def shown(session: RefSession, recipes: list[Recipe]) -> list[Recipe]:
    """Five recipes, read in the session and shown as `recipe_1` to `recipe_5`."""
    shown = list(session.scalars(select(Recipe).order_by(Recipe.name)))
    assert len(shown) == len(recipes)
    assert [recipe.id for recipe in shown] == [f"recipe_{n}" for n in range(1, 6)]
    return shown


@pytest.mark.parametrize("target", [Session, RefSession, None])
@pytest.mark.parametrize("insert", [False, True])
def test_a_statement_listener_may_add_criteria(
    target: Any, insert: bool, session: RefSession, shown: list[Recipe]
) -> None:
    """A filter for all statements, such as a soft delete or a tenant's, is in force with refs."""

    def only_early(execution: ORMExecuteState) -> None:
        early = with_loader_criteria(Recipe, lambda cls: cls.name < "C", include_aliases=True)
        execution.statement = execution.statement.options(early)

    some = select(Recipe.id).where(Recipe.id.in_(["recipe_2", "recipe_4"]))
    with listening(target or session, "do_orm_execute", only_early, insert=insert):
        assert session.scalars(some).all() == ["recipe_2"]
        assert session.scalars(select(Recipe).order_by(Recipe.name)).all() == shown[:2]


def test_a_statement_listener_sees_keys_and_may_keep_results(
    session: RefSession,
    shown: list[Recipe],
    sessions: sessionmaker[RefSession],
    registry: RefRegistry,
) -> None:
    """It is below the session: a cache has keys, and each conversation shows its own refs."""
    kept: dict[Any, FrozenResult[Any]] = {}

    def from_cache(execution: ORMExecuteState) -> Any:
        statement: Any = execution.statement
        [value] = statement.compile().params.values()
        if value not in kept:
            kept[value] = execution.invoke_statement().freeze()
        return kept[value]()

    keys = [recipe.__dict__["id"] for recipe in shown]
    other = registry.conversation("chat-8")
    with listening(RefSession, "do_orm_execute", from_cache), sessions(conversation=other) as two:
        found = [session.scalars(select(Recipe.id).where(Recipe.id == "recipe_2")).one()]
        found += session.scalars(select(Recipe.id).where(Recipe.id == "recipe_2")).all()
        found += two.scalars(select(Recipe.id).where(Recipe.id == keys[1])).all()

    assert found == ["recipe_2", "recipe_2", "recipe_1"]
    assert list(kept) == [keys[1]]


def test_an_attribute_listener_sees_the_key_that_a_ref_names(
    session: RefSession, shown: list[Recipe]
) -> None:
    """Of a new instance, which belongs to no session yet, it sees the ref as it was given."""
    seen: list[Any] = []
    key = shown[0].__dict__["id"]

    def note(_: object, value: Any, *__: object) -> Any:
        seen.append(value)
        return value

    with listening(Recipe.parent_recipe_id, "set", note, retval=True):
        shown[1].parent_recipe_id = "recipe_1"
        new = Recipe(name="F", parent_recipe_id="recipe_2")
        session.add(new)
        session.commit()

    assert seen == [key, "recipe_2"]
    assert [shown[1].parent_recipe_id, new.parent_recipe_id] == ["recipe_1", "recipe_2"]


def test_lifecycle_listeners_read_refs(
    conversation: Conversation, tables: Engine, shown: list[Recipe]
) -> None:
    """Whatever the event, but those in a flush: their connection takes keys, so they read them."""
    keys = [recipe.__dict__["id"] for recipe in shown]
    seen: list[tuple[str, Any]] = []

    def noting(name: str) -> Callable[..., None]:
        def note(*given: object) -> None:
            [plan] = [each for each in given if isinstance(each, MealPlan)]
            seen.append((name, plan.recipe_id))

        return note

    of_session = ["before_attach", "after_attach", "pending_to_persistent", "loaded_as_persistent"]
    of_class = ["load", "refresh", "before_insert", "after_insert", "before_update"]
    for name in of_session:
        event.listen(ListenedSession, name, noting(name))
    listeners = [(name, noting(name)) for name in of_class]
    for name, listener in listeners:
        event.listen(MealPlan, name, listener)
    try:
        with ListenedSession(tables, conversation=conversation) as session:
            plan = MealPlan(recipe_id="recipe_1")
            session.add(plan)
            session.flush()
            plan.recipe_id = "recipe_2"
            session.flush()
            session.refresh(plan)
            session.expunge_all()
            session.scalars(select(MealPlan)).one()
    finally:
        for name, listener in listeners:
            event.remove(MealPlan, name, listener)

    assert seen == [
        *((name, "recipe_1") for name in ("before_attach", "after_attach")),
        *((name, keys[0]) for name in ("before_insert", "after_insert")),
        ("pending_to_persistent", "recipe_1"),
        ("before_update", keys[1]),
        ("refresh", "recipe_2"),
        ("load", "recipe_2"),
        ("loaded_as_persistent", "recipe_2"),
    ]


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("of_session", [False, True])
def test_a_listener_writes_keys_on_the_connection_of_a_flush(
    session: RefSession, tables: Engine, of_session: bool
) -> None:
    """As in SQLAlchemy's manual: an audit row by the connection, or by a session bound to it."""

    def audit(_: object, connection: Connection, plan: MealPlan) -> None:
        values = {"name": str(plan.recipe_id), "parent_recipe_id": plan.recipe_id}
        connection.execute(insert(Recipe), values)

    def audit_all(flushed: Session, _: object) -> None:
        with Session(bind=flushed.connection(), join_transaction_mode="rollback_only") as plain:
            for plan in flushed.new:
                parent = plan.recipe_id
                plain.add(Recipe(name=str(parent), parent_recipe_id=parent))
            plain.commit()

    target: Any = session if of_session else MealPlan
    name = "after_flush" if of_session else "after_insert"
    recipe = session.scalars(select(Recipe).where(Recipe.name == "A")).one()
    plan = MealPlan(recipe_id=recipe.id)
    session.add(plan)
    with listening(target, name, audit_all if of_session else audit):
        session.commit()

    assert plan.recipe_id == recipe.id == "recipe_1"
    key = recipe.__dict__["id"]
    with Session(tables) as plain:
        audited = plain.scalars(select(Recipe).where(Recipe.parent_recipe_id == key)).one()
        assert audited.name == str(key)


@pytest.mark.parametrize("name", ["before_insert", "after_flush"])
def test_refs_are_shown_again_after_a_flush_that_failed(
    session: RefSession, shown: list[Recipe], name: str
) -> None:
    """In the session that goes on, and while the error is on its way."""

    def fail(*_: object) -> None:
        seen.append(shown[0].id)
        raise RuntimeError

    seen: list[Any] = []
    key = shown[0].__dict__["id"]
    session.add(MealPlan(recipe_id="recipe_1"))
    with (
        listening(session if name == "after_flush" else MealPlan, name, fail),
        pytest.raises(RuntimeError),
    ):
        session.flush()
    session.rollback()

    assert seen == [key]
    assert [recipe.id for recipe in shown] == [f"recipe_{n}" for n in range(1, 6)]


def test_a_listener_sets_a_key_that_is_text(tables: Engine) -> None:
    """What it reads of one row and sets on another is the key, though it could be a ref."""

    class Base(DeclarativeBase):
        pass

    class Product(Base):
        __tablename__ = "products"

        sku: Mapped[str] = mapped_column(primary_key=True)

    class Entry(Base):
        __tablename__ = "entries"

        number: Mapped[int] = mapped_column(primary_key=True)
        product: Mapped[str | None] = mapped_column(ForeignKey("products.sku"))
        spare: Mapped[str | None] = mapped_column(ForeignKey("products.sku"))

    def follow(_: object, __: object, entry: Entry) -> None:
        entry.product = entry.spare

    Base.metadata.create_all(tables)
    registry = RefRegistry(tables, policy=RefPolicy(key_types=("string",)))
    with Session(tables) as plain:
        plain.add(Product(sku="SKU-1"))
        plain.commit()
    with RefSession(tables, conversation=registry.conversation("c")) as session:
        entry = Entry(spare=session.scalars(select(Product)).one().sku)
        session.add(entry)
        with listening(Entry, "before_insert", follow):
            session.commit()

        assert (entry.product, entry.__dict__["product"]) == ("product_1", "SKU-1")
    Base.metadata.drop_all(tables)


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("insert", [False, True])
def test_a_flush_listener_may_set_refs_and_add_objects_with_them(
    insert: bool, session: RefSession
) -> None:
    """It comes after the refs of the flush were resolved, or before: its own are resolved too."""

    def complete(session: Session, *_: object) -> None:
        for plan in list(session.new):
            plan.instead_of = "recipe_2"
            session.add(Recipe(name="note", parent_recipe_id="recipe_3"))

    plan = MealPlan(recipe_id="recipe_1")
    session.add(plan)
    with listening(session, "before_flush", complete, insert=insert):
        session.flush()

    assert (plan.recipe_id, plan.instead_of) == ("recipe_1", "recipe_2")
    notes = select(Recipe.parent_recipe_id).where(Recipe.name == "note")
    assert session.scalars(notes).all() == ["recipe_3"]


@pytest.mark.usefixtures("shown")
def test_a_bad_ref_of_a_flush_listener_stops_the_flush(session: RefSession) -> None:
    """It reads as any other, and the session goes on."""

    def spoil(session: Session, *_: object) -> None:
        session.add(Recipe(name="note", parent_recipe_id="recipe_9"))

    session.add(MealPlan(recipe_id="recipe_1"))
    with (
        listening(session, "before_flush", spoil),
        pytest.raises(UnknownRefError, match="'recipe_9' is not a known recipe"),
    ):
        session.flush()
    session.flush()
    assert session.scalars(select(MealPlan.id)).all() == ["meal_plan_1"]


async def test_a_flush_listener_may_use_refs_that_this_process_has_not_met(
    aio: AsyncRefSession, chat: Conversation, recipes: list[Recipe]
) -> None:
    """In an asynchronous session too: a flush is awaited, and may ask the store."""
    await aio.run_sync(lambda _: chat.refer_all(Recipe, [r.id for r in recipes]))
    chat._caches.forget()  # as in another process

    def complete(session: Session, *_: object) -> None:
        for plan in list(session.new):
            plan.instead_of = "recipe_2"
            session.add(Recipe(name="note", parent_recipe_id="recipe_3"))

    plan = MealPlan(recipe_id="recipe_1")
    aio.add(plan)
    with listening(aio.sync_session, "before_flush", complete):
        await aio.flush()

    assert (plan.recipe_id, plan.instead_of) == ("recipe_1", "recipe_2")
    assert plan.__dict__["instead_of"] == recipes[1].id


@pytest.mark.parametrize("as_ref", [False, True])
def test_a_mapper_listener_may_set_keys_and_refs(
    as_ref: bool, session: RefSession, shown: list[Recipe]
) -> None:
    """`before_insert` sets attributes while the flush is on: either is stored as the key."""
    key = shown[1].__dict__["id"]

    def complete(_: object, __: object, plan: MealPlan) -> None:
        plan.instead_of = "recipe_2" if as_ref else key

    plan = MealPlan(recipe_id="recipe_1")
    session.add(plan)
    with listening(MealPlan, "before_insert", complete):
        session.flush()
    session.refresh(plan)

    assert (plan.instead_of, plan.__dict__["instead_of"]) == ("recipe_2", key)


@pytest.mark.usefixtures("shown")
def test_listeners_of_the_legacy_query_may_add_refs(session: RefSession) -> None:
    """They are above the session: what they see and add is refs, for queries and updates."""

    def only_two(query: Query[Any], *_: object) -> Query[Any]:
        return query.filter(Recipe.id == "recipe_2")

    with listening(Query, "before_compile", only_two, retval=True):
        assert [recipe.id for recipe in session.query(Recipe)] == ["recipe_2"]
    with listening(Query, "before_compile_update", only_two, retval=True):
        assert session.query(Recipe).update({"parent_recipe_id": "recipe_3"}) == 1
    parents = select(Recipe.parent_recipe_id).where(Recipe.id == "recipe_2")
    assert session.scalars(parents).one() == "recipe_3"


def test_a_cursor_listener_sees_keys(
    tables: Engine, session: RefSession, shown: list[Recipe]
) -> None:
    """What is sent are keys, so a listener that logs parameters logs keys."""
    sent: list[Any] = []

    def note(*arguments: Any) -> None:
        sent.append(arguments[3])

    with listening(tables, "before_cursor_execute", note):
        session.scalars(select(Recipe.name).where(Recipe.id == "recipe_2")).one()

    assert [list(parameters.values()) for parameters in sent] == [[shown[1].__dict__["id"]]]
