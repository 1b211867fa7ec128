"""Uses of the constructor's arguments, of factories, and of transactions."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import func, inspect, select
from sqlalchemy.orm import Query, Session, scoped_session

from tests.session_api.world import BY_NAME, IDS, SERIES_2_1, THINGS, Box, Thing, World, covers


class OwnQuery(Query[Any]):
    """A custom query class."""

    def named(self, name: str) -> Any:
        """Filter boxes by name."""
        return self.filter(Box.name == name)


# Constructors and factories


@covers("Session(bind)", "Session.bind")
def _no_bind_but_later(_: Any, w: World) -> Any:
    session = w.open(None)
    w.sync(session).bind = w.sync_engine
    return session.scalars(BY_NAME)


@covers("Session(bind)")
def _bound_to_a_connection(_: Any, w: World) -> Any:
    with w.engine.connect() as connection, w.open(connection) as session:
        session.add(Box(name="c"))
        session.commit()
        w.note(connection.in_transaction())
        connection.rollback()
        return session.scalars(BY_NAME).all()


@covers("Session(autoflush)")
def _no_autoflush_at_all(_: Any, w: World) -> Any:
    session = w.open(autoflush=False)
    session.add(Box(name="c"))
    return session.autoflush, session.scalars(BY_NAME).all(), session.new


@covers("Session(future)", "Session(autocommit)")
def _options_of_old(_: Any, w: World) -> Any:
    w.open(future=True, autocommit=False)
    for wrong in ({"future": False}, {"autocommit": True}):
        try:
            w.open(**wrong)
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))


@covers("Session(expire_on_commit)")
def _no_expiry(_: Any, w: World) -> Any:
    session = w.open(expire_on_commit=False)
    box = session.get(Box, w.a)
    box.name = "z"
    session.commit()
    return box.name, box.id, session.expire_on_commit, inspect(box).expired


@covers("Session(autobegin)")
def _no_autobegin(_: Any, w: World) -> Any:
    session = w.open(autobegin=False)
    tries: list[Any] = [lambda: session.get(Box, w.a), lambda: session.add(Box(name="c"))]
    for tried in tries:
        try:
            tried()
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))
    with session.begin():
        w.note(session.get(Box, w.a), session.in_transaction())
    return session.in_transaction(), session.autobegin


@covers("Session(twophase)", "Session.prepare()")
def _two_phases(_: Any, w: World) -> Any:
    session = w.open(twophase=True)
    session.get(Box, w.a).name = "z"
    session.prepare()
    session.commit()
    return session.twophase, session.scalars(BY_NAME)


@covers("Session.prepare()")
def _prepared_for_nothing(s: Any, _: World) -> Any:
    s.begin()
    s.prepare()


@covers(
    "Session(binds)", "Session.binds", "Session.bind_mapper(mapper)", "Session.bind_mapper(bind)"
)
def _binds_of_classes(_: Any, w: World) -> Any:
    session = w.open(None, binds={Box: w.engine})
    w.note(session.scalars(BY_NAME))
    try:
        session.scalars(THINGS)
    except Exception as error:  # noqa: BLE001
        w.note(type(error).__name__, str(error))
    w.sync(session).bind_mapper(Thing, w.sync_engine)
    return session.scalars(THINGS), session.get_bind(Thing)


@covers("Session.bind_table(table)", "Session.bind_table(bind)")
def _binds_of_tables(_: Any, w: World) -> Any:
    session = w.open(None)
    w.sync(session).bind_table(Box.__table__, w.sync_engine)
    w.note(session.execute(select(Box.__table__.c.name).order_by("name")).all())
    return session.scalars(IDS), session.get_bind(clause=Box.__table__)


@covers("Session(enable_baked_queries)", "Session.enable_baked_queries")
def _baked(_: Any, w: World) -> Any:
    session = w.open(enable_baked_queries=False)
    return session.enable_baked_queries, session.scalars(BY_NAME).first().things


@covers("Session(info)", "Session.info")
def _info(s: Any, w: World) -> Any:
    session = w.open(info={"x": 1})
    session.info["y"] = 2
    return session.info, s.info, session.scalars(BY_NAME).first(), session.info, s.info


@covers("Session(query_cls)", "Session.query(entities)")
def _a_query_class(_: Any, w: World) -> Any:
    session = w.open(query_cls=OwnQuery)
    return type(session.query(Box)).__name__, cast(Any, session.query(Box)).named("a").all()


@covers("Session(join_transaction_mode)", "Session.join_transaction_mode")
def _modes(_: Any, w: World) -> Any:
    modes = ("conditional_savepoint", "rollback_only", "control_fully", "create_savepoint")
    for mode in modes:
        for savepoint in (False, True):
            with w.engine.connect() as connection:
                outer = connection.begin()
                inner = connection.begin_nested() if savepoint else None
                with w.open(connection, join_transaction_mode=mode) as session:
                    session.add(Box(name=mode))
                    session.commit()
                    session.add(Box(name=f"{mode}, undone"))
                    session.flush()
                    session.rollback()
                w.note(mode, outer.is_active, inner is not None and inner.is_active)
                if outer.is_active:
                    names = select(func.array_agg(Box.name.distinct()))
                    w.note(sorted(connection.scalar(names) or ()))
                    outer.rollback()


@covers("Session(close_resets_only)", "Session.close()", "Session.reset()")
def _closed_for_good(_: Any, w: World) -> Any:
    session = w.open(close_resets_only=False)
    session.add(Box(name="c"))
    session.reset()
    w.note(session.new, session.scalars(BY_NAME))
    session.close()
    for tried in (lambda: session.get(Box, w.a), session.begin, lambda: session.add(Box())):
        try:
            tried()
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))


@covers("Session(execution_options)", "Session.execution_options", since=SERIES_2_1)
def _options_of_a_session(_: Any, w: World) -> Any:
    session = w.open(execution_options={"populate_existing": True, "x": 1})
    box = session.get(Box, w.a)
    box.name = "changed"
    with session.no_autoflush:
        return session.execution_options, session.scalars(BY_NAME).all(), session.get(Box, w.a)


@covers("sessionmaker(class_)", "sessionmaker.configure()", "sessionmaker.begin()")
def _a_maker(_: Any, w: World) -> Any:
    maker = w.maker(expire_on_commit=False, info={"x": 1})
    maker.configure(info={"y": 2})
    with maker.begin() as session:
        session.get(Box, w.a).name = "z"
    with maker(info={"z": 3}, autoflush=False) as session:
        w.note(session.info, session.autoflush, session.expire_on_commit, maker.kw["info"])
        return session.scalars(BY_NAME).all(), type(session).__mro__[1:].count(Session)


@covers("scoped_session()")
def _a_scope(_: Any, w: World) -> Any:
    scope = scoped_session(w.maker())
    try:
        w.note(scope() is scope(), scope.registry.has(), scope.get(Box, w.a), scope.info)
        scope.add(Box(name="c"))
        w.note(scope.new, scope.scalars(BY_NAME).all(), next(iter(scope)), scope.dirty)
        query_property: Any = scope.query_property
        w.note(query_property().__get__(None, Box).count(), scope.is_active)
        scope.rollback()
        scope.remove()
        return scope.registry.has(), scope.object_session(scope.get(Box, w.a)) is scope()
    finally:
        scope.remove()


# Transactions


@covers(
    "Session.begin(nested)",
    "Session.begin_nested()",
    "Session.in_transaction()",
    "Session.in_nested_transaction()",
    "Session.get_transaction()",
    "Session.get_nested_transaction()",
    "Session.is_active",
)
def _transactions(s: Any, w: World) -> Any:
    def seen() -> Any:
        inner = s.get_nested_transaction()
        now = (s.in_transaction(), s.in_nested_transaction(), s.is_active)
        return (*now, s.get_transaction() is None, inner is None)

    w.note(seen())
    outer = s.begin()
    w.note(seen(), s.get_transaction() is outer, outer.nested, outer.is_active, outer.parent)
    inner = s.begin_nested()
    w.note(seen(), s.get_nested_transaction() is inner, inner.parent is outer)
    s.add(Box(name="c"))
    inner.rollback()
    w.note(seen(), s.scalars(BY_NAME).all())
    with s.begin(nested=True):
        s.add(Box(name="d"))
    w.note(seen(), s.new, s.scalars(BY_NAME).all())
    outer.commit()
    return seen()


@covers("Session.commit()", "Session.rollback()", "with")
def _ended(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    box.name = "z"
    s.commit()
    w.note(inspect(box).expired, box.name, box.id)
    box.name = "y"
    s.rollback()
    w.note(box.name, box.id)
    with w.open() as other, other.begin():
        other.get(Box, w.b).name = "x"
    with w.open() as other:
        other.get(Box, w.b).name = "never"
    return s.scalars(BY_NAME)


@covers("Session.invalidate()")
def _invalidated(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.invalidate()
    return s.in_transaction(), box in s, s.get(Box, w.a).name


@covers("Session.dispatch")
def _told_by_events(s: Any, _: World) -> Any:
    return sorted(name for name in dir(s.dispatch) if not name.startswith("_"))
