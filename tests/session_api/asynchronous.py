"""Uses of asynchronous sessions, and the adapter that runs all other uses on them."""

from __future__ import annotations

from inspect import isawaitable, isroutine
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    AsyncSessionTransaction,
    async_object_session,
    async_scoped_session,
    async_session,
    close_all_sessions,
)
from sqlalchemy.orm import selectinload
from sqlalchemy.util import await_only

from tests.session_api.world import BY_NAME, IDS, NOTES, SERIES_2_1, Box, Thing, World, covers


class Blocking:
    """An asynchronous session with blocking methods, to be used inside `greenlet_spawn`.

    Attributes that it lacks are those of its sync session.
    """

    def __init__(self, session: Any) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.session, name, None)
        if not hasattr(self.session, name):
            return getattr(self.session.sync_session, name)
        return _blocking(found) if isroutine(found) else found

    def __contains__(self, instance: object) -> bool:
        return instance in self.session

    def __iter__(self) -> Any:
        return iter(self.session)

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *error: object) -> None:
        await_only(self.session.__aexit__(*error))


def _blocking(function: Any) -> Any:
    def called(*arguments: Any, **options: Any) -> Any:
        found = function(*arguments, **options)
        found = await_only(found) if isawaitable(found) else found
        return Blocking(found) if isinstance(found, AsyncSessionTransaction) else found

    return called


def blocking(function: Any) -> Any:
    """Return a use of asynchronous sessions as a blocking function."""

    def tried(session: Blocking, world: World) -> Any:
        found = function(session.session, world)
        return await_only(found) if isawaitable(found) else found

    return tried


@covers("AsyncSession.stream(statement)", "AsyncSession.stream(params)")
async def _streamed(s: Any, w: World) -> Any:
    result = await s.stream(IDS, execution_options={"yield_per": 1})
    w.note([row async for row in result])
    async for some in (await s.stream(BY_NAME)).partitions(1):
        w.note(some)
    result = await s.stream(NOTES, {"x": 1}, bind_arguments={"bind": w.engine.sync_engine})
    w.note(await result.first())
    return await (await s.stream(IDS)).scalars().all()


@covers(
    "AsyncSession.stream(execution_options)",
    "AsyncSession.stream(bind_arguments)",
    *(f"AsyncSession.stream_scalars({each})" for each in ("statement", "params")),
    *(f"AsyncSession.stream_scalars({each})" for each in ("execution_options", "bind_arguments")),
)
async def _values_streamed(s: Any, w: World) -> Any:
    elsewhere = {"bind": w.engine.sync_engine}
    w.note([box.id async for box in await s.stream_scalars(BY_NAME, bind_arguments=elsewhere)])
    w.note(await (await s.stream_scalars(NOTES, {"x": 2})).one())
    options = {"yield_per": 1}
    return await (await s.stream_scalars(IDS, execution_options=options)).first()


@covers("AsyncSession.run_sync(fn)", "AsyncSession.run_sync(arg)")
async def _run_in_step(s: Any, w: World) -> Any:
    def things(session: Any, ident: Any, *, name: str) -> Any:
        box = session.get(Box, ident)
        box.name = name
        return type(session).__name__, box.things, session is s.sync_session

    return await s.run_sync(things, w.a, name="z"), s.dirty


@covers("AsyncAttrs(args)", "AsyncAttrs.awaitable_attrs")
async def _awaitable_attributes(s: Any, w: World) -> Any:
    box = await s.get(Box, w.a)
    w.note(await box.awaitable_attrs.things, await box.awaitable_attrs.id)
    await s.commit()
    w.note(await box.awaitable_attrs.id, await box.awaitable_attrs.name)
    s.expire(box)
    return box.name  # without await


@covers("AsyncSession.begin()", "AsyncSession.begin_nested()", "AsyncSession.get_transaction()")
async def _awaited_transactions(s: Any, w: World) -> Any:
    async with s.begin() as outer:
        s.add(Box(name="c"))
        async with s.begin_nested() as inner:
            s.add(Box(name="d"))
            w.note(inner.nested, inner.is_active, inner.session is s, s.in_nested_transaction())
            w.note(s.get_nested_transaction() is inner, s.get_transaction() is outer)
            await inner.rollback()
        w.note(outer.sync_transaction is s.sync_session.get_transaction())
    w.note(outer.is_active, (await s.scalars(BY_NAME)).all())
    await s.rollback()
    transaction = await s.begin()
    await transaction.commit()
    return s.in_transaction()


@covers("AsyncSession(bind)", "AsyncSession(binds)", "AsyncSession(sync_session_class)")
async def _bound_otherwise(s: Any, w: World) -> Any:
    async with w.kind(binds={Box: w.engine}, **w.options) as session:
        w.note((await session.scalars(BY_NAME)).all(), session.bind, session.binds)
    async with w.engine.connect() as connection, w.kind(connection, **w.options) as session:
        session.add(Box(name="c"))
        await session.commit()
        w.note((await session.scalars(BY_NAME)).all())
        await connection.rollback()
    w.note((await s.scalars(BY_NAME)).all(), s.bind is w.engine)

    class Own(w.kind.sync_session_class):  # type: ignore[misc,name-defined]
        pass

    async with w.kind(w.engine, sync_session_class=Own, **w.options) as session:
        return type(session.sync_session).__name__, (await session.get(Box, w.a)).id


@covers(
    "AsyncSession.sync_session_class",
    "AsyncSession.aclose()",
    "AsyncSession.close_all()",
    "AsyncSession.bind",
    "AsyncSession.binds",
)
async def _closed_in_ways(s: Any, w: World) -> Any:
    box = await s.get(Box, w.a)
    await s.aclose()
    w.note(box.name, box in s, s.in_transaction())
    box = await s.get(Box, w.a)
    await close_all_sessions()
    w.note(box in s, async_session(s.sync_session) is s, async_object_session(box))
    await type(s).close_all()
    return issubclass(type(s.sync_session), s.sync_session_class), isinstance(s, AsyncSession)


@covers(
    "AsyncSession.get_async_bind(mapper)",
    "AsyncSession.get_async_bind(clause)",
    "AsyncSession.get_async_bind(bind)",
    since=SERIES_2_1,
)
async def _asynchronous_binds(s: Any, w: World) -> Any:
    w.note(s.get_async_bind(Box) is w.engine, s.get_async_bind(clause=IDS) is w.engine)
    return s.get_async_bind(bind=w.engine.sync_engine)


@covers(
    *(f"async_sessionmaker({each})" for each in ("bind", "class_", "autoflush", "info")),
    "async_sessionmaker(expire_on_commit)",
    "async_sessionmaker.begin()",
    "async_sessionmaker.configure()",
)
async def _an_asynchronous_maker(_: Any, w: World) -> Any:
    maker = w.maker(autoflush=False, info={"x": 1}, expire_on_commit=False)
    maker.configure(info={"y": 2})
    async with maker.begin() as session:
        (await session.get(Box, w.a)).name = "z"
    async with maker(info={"z": 3}) as session:
        box = await session.get(Box, w.a, options=[selectinload(Box.things)])
        w.note(session.info, session.autoflush, box.things)
        session.add(Box(name="c"))
        await session.commit()
        return box.name, box.id, [each.box_id for each in box.things]


@covers("async_scoped_session(session_factory)", "async_scoped_session(scopefunc)")
async def _an_asynchronous_scope(_: Any, w: World) -> Any:
    scope: Any = async_scoped_session(w.maker(), scopefunc=lambda: "one")
    try:
        box = await scope.get(Box, w.a)
        w.note(scope() is scope(), box.id, box in scope, scope.is_active, scope.info)
        scope.add(Box(name="c"))
        w.note(scope.new, (await scope.scalars(BY_NAME)).all(), list(scope))
        result = await scope.stream(IDS)
        w.note(await result.all(), await scope.scalar(text("select 'a'::text")))
        await scope.rollback()
        return (await scope.refresh(box)), box.name
    finally:
        await scope.remove()


@covers("AsyncSession.get(entity)")
async def _an_attribute_not_loaded(s: Any, w: World) -> Any:
    thing = await s.get(Thing, 1)
    w.note(thing.box_id)
    return thing.box
