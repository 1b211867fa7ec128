"""One conversation, tables of one name in several schemas: no ref names another one's row."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import pytest
from sqlalchemy import (
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    event,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import (
    EntityTableError,
    GoneRefError,
    RefRegistry,
    RefSession,
    SavedDraftError,
    SetupError,
    UnknownRefError,
)
from alfred_refs.session.asyncio import AsyncRefSession

pytestmark = pytest.mark.tables

TENANTS = ("tenant_a", "tenant_b")


class Base(DeclarativeBase):
    """Tables of which each tenant has its own."""


class Shop(Base):
    """Orders refer to it."""

    __tablename__ = "tenant_shops"
    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    name: Mapped[str]
    orders: Mapped[list[Order]] = relationship(back_populates="shop")


class Order(Base):
    """Each tenant has one, and all of them have the same key."""

    __tablename__ = "tenant_orders"
    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    note: Mapped[str]
    shop_id: Mapped[Any] = mapped_column(ForeignKey(Shop.id), nullable=True)
    shop: Mapped[Shop | None] = relationship(back_populates="orders")


def stock_orders() -> type[Any]:
    """Return a class of another service, whose entity name is `order` too."""

    class Elsewhere(DeclarativeBase):
        metadata = MetaData(schema="tenant_b")

    class Order(Elsewhere):
        __tablename__ = "tenant_orders"
        id: Mapped[int] = mapped_column(primary_key=True)
        note: Mapped[str]

    return Order


def engine_of(engine: Engine, tenant: str) -> Engine:
    """Return the engine as a tenant's."""
    return engine.execution_options(schema_translate_map={None: tenant})


@pytest.fixture
def tenants(engine: Engine) -> Engine:
    """An engine on a database with the tables of two tenants, and those of nobody."""
    with engine.begin() as connection:
        for schema in TENANTS:
            connection.execute(text(f"create schema {schema}"))
    for where in (engine, *(engine_of(engine, tenant) for tenant in TENANTS)):
        Base.metadata.create_all(where)
        its = where.get_execution_options().get("schema_translate_map", {None: "nobody"})
        name = its[None]
        with Session(where) as session:
            session.add(Order(id=5, note=f"of {name}", shop=Shop(id=1, name=name)))
            session.commit()
    RefRegistry(engine).create_tables()
    return engine


@pytest.fixture
def registry(tenants: Engine) -> RefRegistry:
    """A registry whose tables are nobody's."""
    return RefRegistry(tenants)


def by_engine(engine: Engine, tenant: str, **parameters: Any) -> RefSession:
    """Open a session on a tenant's engine."""
    return RefSession(engine_of(engine, tenant), **parameters)


def by_connection(engine: Engine, tenant: str, **parameters: Any) -> RefSession:
    """Open a session, and begin it on a connection of the tenant's, as SQLAlchemy's manual has."""
    session = RefSession(engine, **parameters)
    session.connection(execution_options={"schema_translate_map": {None: tenant}})
    return session


def by_binds(engine: Engine, tenant: str, **parameters: Any) -> RefSession:
    """Open a session with a bind for each class."""
    its = engine_of(engine, tenant)
    return RefSession(binds={Order: its, Shop: its}, **parameters)


def by_option(engine: Engine, tenant: str, **parameters: Any) -> RefSession:
    """Open a session with an option, as SQLAlchemy 2.1 can."""
    options: Any = {"execution_options": {"schema_translate_map": {None: tenant}}}
    return RefSession(engine, **options, **parameters)


OPENED = [by_engine, by_connection, by_binds]
if "execution_options" in signature(Session).parameters:
    OPENED.append(by_option)


@pytest.mark.parametrize("opened", OPENED)
def test_a_tenants_conversation_is_refused_for_another_tenants_rows(
    tenants: Engine, registry: RefRegistry, opened: Callable[..., RefSession]
) -> None:
    """Whatever the session is asked for first, in this process and in another."""
    with opened(tenants, "tenant_a", conversation=registry.conversation("chat-7")) as session:
        assert session.get_one(Order, "order_1" if _mint(session) else "").note == "of tenant_a"
        assert session.scalars(select(Order.shop_id)).all() == ["shop_1"]

    for process in (registry, RefRegistry(tenants)):
        for use in USES:
            conversation = process.conversation("chat-7")
            with (
                opened(tenants, "tenant_b", conversation=conversation) as session,
                pytest.raises(EntityTableError, match=r"'tenant_a\.tenant_.*'tenant_b\.tenant_"),
            ):
                use(session)
    with by_engine(tenants, "tenant_a", conversation=registry.conversation("chat-7")) as session:
        assert session.get_one(Order, "order_1").note == "of tenant_a"
    with Session(engine_of(tenants, "tenant_b")) as plain:
        assert plain.scalars(select(Order.note)).all() == ["of tenant_b"]


def _mint(session: RefSession) -> bool:
    return session.scalars(select(Order.id)).all() == ["order_1"]


def _add(session: RefSession, order: Order) -> None:
    session.add(order)
    session.flush()


Use = Callable[[RefSession], object]
USES: list[Use] = [
    lambda session: session.get(Order, "order_1"),
    lambda session: session.scalars(select(Order).where(Order.id == "order_1")).all(),
    lambda session: session.scalars(select(Order.id)).all(),
    lambda session: session.scalars(select(Order)).one().id,
    lambda session: session.scalars(select(Order)).one().shop_id,
    lambda session: session.execute(
        update(Order).where(Order.id == "order_1").values(note="written")
    ),
    lambda session: _add(session, Order(id=6, note="new", shop_id="shop_1")),
    lambda session: session.own_view and session.own_view.draft(Order, {"note": "new"}),
    lambda session: session.own_view and session.own_view.resolve("order_1", Order),
]


def test_nobodys_tables_are_not_a_tenants(tenants: Engine, registry: RefRegistry) -> None:
    """A session without a map reads the default schema."""
    with RefSession(tenants, conversation="chat-7", registry=registry) as session:
        assert session.scalars(select(Order.id)).all() == ["order_1"]

    with (
        by_engine(tenants, "tenant_a", conversation="chat-7", registry=registry) as session,
        pytest.raises(EntityTableError, match=r"'tenant_orders'.*'tenant_a\.tenant_orders'"),
    ):
        session.get(Order, "order_1")


def test_each_tenant_has_conversations(tenants: Engine, registry: RefRegistry) -> None:
    """As many as it likes, at one time, through one registry."""
    for tenant in TENANTS:
        with by_engine(tenants, tenant, conversation=tenant, registry=registry) as session:
            order = session.scalars(select(Order)).one()
            assert (order.id, order.shop_id, order.note) == ("order_1", "shop_1", f"of {tenant}")
            order.note = "changed"
            session.commit()
            assert session.get_one(Order, "order_1").note == "changed"


def test_a_registry_of_a_tenant_resolves_for_it(tenants: Engine) -> None:
    """Without a session it is the registry's engine that says whose the tables are."""
    of_a, of_b = (RefRegistry(engine_of(tenants, tenant)) for tenant in TENANTS)
    assert of_a.conversation("chat-7").refer(Order, 5) == "order_1"
    with by_engine(tenants, "tenant_a", conversation="chat-7", registry=of_b) as session:
        assert session.get_one(Order, "order_1").note == "of tenant_a"

    with pytest.raises(EntityTableError):
        of_b.conversation("chat-7").resolve("order_1", Order)


def test_two_services_with_one_entity_name(tenants: Engine) -> None:
    """The ref of one names no row of the other."""
    ours, theirs = RefRegistry(tenants), RefRegistry(tenants)
    with RefSession(tenants, conversation="chat-7", registry=ours) as session:
        assert session.scalars(select(Order.id)).all() == ["order_1"]

    with (
        RefSession(tenants, conversation="chat-7", registry=theirs) as session,
        pytest.raises(EntityTableError, match=r"give one entity another name by RefPolicy"),
    ):
        session.get(stock_orders(), "order_1")


def test_the_schemas_of_a_session_do_not_change(tenants: Engine, registry: RefRegistry) -> None:
    """The rows that it has are of the schemas that it began with."""
    with by_connection(tenants, "tenant_a", conversation="chat-7", registry=registry) as session:
        order = session.scalars(select(Order)).one()
        session.commit()
        options = {"schema_translate_map": {None: "tenant_b"}}
        with pytest.raises(SetupError, match="has changed its schema_translate_map; open a"):
            session.connection(execution_options=options)
        session.rollback()
        with pytest.raises(SetupError, match="has changed its schema_translate_map"):
            _ = order.note
        session.rollback()
        session.connection(execution_options={"schema_translate_map": {None: "tenant_a"}})
        assert (order.id, order.note) == ("order_1", "of tenant_a")


def _by_listener_of_begin(session: RefSession, options: dict[str, Any]) -> None:
    def begun(_: Any, __: Any, connection: Connection) -> None:
        connection.execution_options(**options)

    event.listen(session, "after_begin", begun)


def _by_listener_of_statements(session: RefSession, options: dict[str, Any]) -> None:
    def execute(execution: Any) -> None:
        execution.update_execution_options(**options)

    event.listen(session, "do_orm_execute", execute)


def _by_connection(session: RefSession, options: dict[str, Any]) -> None:
    session.connection().execution_options(**options)


def _by_connection_refused(session: RefSession, options: dict[str, Any]) -> None:
    session.commit()
    with pytest.raises(SetupError, match="has changed its schema_translate_map"):
        session.connection(execution_options=options)


CHANGES = [_by_listener_of_begin, _by_connection, _by_connection_refused]
EXECUTED: list[Use] = [
    *USES[:6],
    lambda session: session.scalar(select(Order.note).where(Order.id == "order_1")),
]
FLUSHED: list[Use] = [
    lambda session: _add(session, Order(id=9, note="new")),
    lambda session: _add(session, Order(id=9, note="new", shop_id="shop_1")),
]


@pytest.mark.parametrize(
    ("change", "use"),
    [
        *itertools.product(CHANGES, [*EXECUTED, *FLUSHED]),
        *itertools.product([_by_listener_of_statements], EXECUTED),
    ],
)
def test_whoever_changes_them_nothing_is_read_or_saved(
    tenants: Engine,
    registry: RefRegistry,
    change: Callable[[RefSession, dict[str, Any]], None],
    use: Use,
) -> None:
    """The schemas are compared before a statement is sent, and again afterwards."""
    with by_engine(tenants, "tenant_a", conversation="chat-7", registry=registry) as session:
        assert _mint(session)
        assert session.scalars(select(Order.shop_id)).all() == ["shop_1"]
        session.rollback()
        change(session, {"schema_translate_map": {None: "tenant_b"}})

        with pytest.raises(SetupError, match="schema_translate_map"):
            use(session)
        session.rollback()
    with Session(engine_of(tenants, "tenant_b")) as plain:
        assert plain.scalars(select(Order.note)).all() == ["of tenant_b"]


def test_they_do_not_change_once_a_ref_was_used(tenants: Engine, registry: RefRegistry) -> None:
    """The ref was resolved for the schemas that the session had then."""
    options = {"schema_translate_map": {None: "tenant_a"}}
    registry.conversation("chat-7").refer(Order, 5)
    with RefSession(tenants, conversation="chat-7", registry=registry) as session:
        assert session.own_view is not None
        assert session.own_view.resolve("order_1", Order) == 5
        with pytest.raises(SetupError, match="has changed its schema_translate_map"):
            session.connection(execution_options=options)


def test_what_is_forgotten_is_forgotten_for_each_tenant(
    tenants: Engine, registry: RefRegistry
) -> None:
    """This process resolves none of its refs any more, whatever session had met them."""
    with by_engine(tenants, "tenant_a", conversation="chat-7", registry=registry) as session:
        assert _mint(session)

        registry.conversation("chat-7").forget()

        with pytest.raises(UnknownRefError):
            session.get(Order, "order_1")


def test_a_draft_is_saved_once_for_a_tenant(tenants: Engine, registry: RefRegistry) -> None:
    """Another session, which has it in hand too, is told so."""
    its = {"conversation": "chat-7", "registry": registry}
    with (
        by_engine(tenants, "tenant_a", **its) as one,
        by_engine(tenants, "tenant_a", **its) as other,
    ):
        assert one.own_view is not None
        ref = one.own_view.draft(Order, {"note": "new"}).ref
        for session in (one, other):
            session.add(session.get_one(Order, ref))
        one.commit()

        with pytest.raises(SavedDraftError, match=f"{ref!r} was saved as 'order_1'"):
            other.commit()
        other.rollback()
        assert other.own_view is not None
        assert other.own_view.outside().resolve(ref, Order) == 1


def test_a_row_of_a_tenants_that_went_says_so(tenants: Engine, registry: RefRegistry) -> None:
    """It is looked for where the tenant's tables are."""
    with by_engine(tenants, "tenant_a", conversation="chat-7", registry=registry) as session:
        assert _mint(session)
        session.rollback()
        with tables_of_nobody_dropped(tenants) as connection:
            connection.execute(text("delete from tenant_a.tenant_orders"))

        with pytest.raises(GoneRefError):
            session.get(Order, "order_1")


@contextmanager
def tables_of_nobody_dropped(engine: Engine) -> Iterator[Connection]:
    """Drop the tables that are in no tenant's schema, and yield a connection."""
    Base.metadata.drop_all(engine)
    with engine.begin() as connection:
        yield connection


def test_those_of_a_statement_are_its_sessions(tenants: Engine, registry: RefRegistry) -> None:
    """One with the session's own is taken, one with another is refused before it is sent."""
    sent: list[str] = []
    options = {"schema_translate_map": {None: "tenant_a"}}
    with RefSession(tenants, conversation="chat-7", registry=registry) as session:
        event.listen(
            tenants, "before_cursor_execute", lambda *arguments: sent.append(arguments[2])
        )
        with pytest.raises(SetupError, match="a statement has another schema_translate_map"):
            session.scalars(select(Order), execution_options=options)
        assert sent == []
    with by_engine(tenants, "tenant_a", conversation="chat-7", registry=registry) as session:
        assert session.scalars(select(Order.note), execution_options=options).all() == [
            "of tenant_a"
        ]


def test_a_session_that_is_awaited_keeps_to_its_tenant(tenants: Engine) -> None:
    """An asynchronous engine has its options on the engine behind it."""

    async def notes(tenant: str) -> list[Any]:
        engine = create_async_engine(
            tenants.url, execution_options={"schema_translate_map": {None: tenant}}
        )
        registry = RefRegistry(engine)
        try:
            async with AsyncRefSession(
                engine, conversation="chat-7", registry=registry
            ) as session:
                found = (await session.scalars(select(Order))).all()
                return [(each.id, each.note) for each in found]
        finally:
            await engine.dispose()

    assert asyncio.run(notes("tenant_a")) == [("order_1", "of tenant_a")]
    with pytest.raises(EntityTableError):
        asyncio.run(notes("tenant_b"))
