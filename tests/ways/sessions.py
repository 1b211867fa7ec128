"""Ways of using a session and what makes one: each method, parameter and attribute."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import (
    Engine,
    bindparam,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.orm import (
    Query,
    Session,
    close_all_sessions,
    joinedload,
    make_transient,
    make_transient_to_detached,
    object_session,
    scoped_session,
    selectinload,
    was_deleted,
)

from tests.ways.listed import SERIES_2_1, way
from tests.ways.world import Box, Plain, Thing, World

BY_NAME = select(Box).order_by(Box.name)
THINGS = select(Thing).order_by(Thing.id)
NOTES = text("select note from whole_things where id = :x").columns(Thing.note)
IDS = select(Box.id).order_by(Box.name)


TOKEN = "a shard"  # noqa: S105  # of an identity


class OwnQuery(Query[Any]):
    """A query class of the application's."""

    def named(self, name: str) -> Any:
        """Keep to the boxes of a name."""
        return self.filter(Box.name == name)


# Making one


@way("Session(bind)", "Session.bind")
def _no_bind_but_later(_: Any, w: World) -> Any:
    session = w.made(None)
    w.heard(session).bind = w.sync_engine
    return session.scalars(BY_NAME)


@way("Session(bind)")
def _bound_to_a_connection(_: Any, w: World) -> Any:
    with w.engine.connect() as connection, w.made(connection) as session:
        session.add(Box(name="c"))
        session.commit()
        w.note(connection.in_transaction())
        connection.rollback()
        return session.scalars(BY_NAME).all()


@way("Session(autoflush)")
def _no_autoflush_at_all(_: Any, w: World) -> Any:
    session = w.made(autoflush=False)
    session.add(Box(name="c"))
    return session.autoflush, session.scalars(BY_NAME).all(), session.new


@way("Session(future)", "Session(autocommit)")
def _options_of_old(_: Any, w: World) -> Any:
    w.made(future=True, autocommit=False)
    for wrong in ({"future": False}, {"autocommit": True}):
        try:
            w.made(**wrong)
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))


@way("Session(expire_on_commit)")
def _no_expiry(_: Any, w: World) -> Any:
    session = w.made(expire_on_commit=False)
    box = session.get(Box, w.a)
    box.name = "z"
    session.commit()
    return box.name, box.id, session.expire_on_commit, inspect(box).expired


@way("Session(autobegin)")
def _no_autobegin(_: Any, w: World) -> Any:
    session = w.made(autobegin=False)
    tries: list[Any] = [lambda: session.get(Box, w.a), lambda: session.add(Box(name="c"))]
    for tried in tries:
        try:
            tried()
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))
    with session.begin():
        w.note(session.get(Box, w.a), session.in_transaction())
    return session.in_transaction(), session.autobegin


@way("Session(twophase)", "Session.prepare()")
def _two_phases(_: Any, w: World) -> Any:
    session = w.made(twophase=True)
    session.get(Box, w.a).name = "z"
    session.prepare()
    session.commit()
    return session.twophase, session.scalars(BY_NAME)


@way("Session.prepare()")
def _prepared_for_nothing(s: Any, _: World) -> Any:
    s.begin()
    s.prepare()


@way("Session(binds)", "Session.binds", "Session.bind_mapper(mapper)", "Session.bind_mapper(bind)")
def _binds_of_classes(_: Any, w: World) -> Any:
    session = w.made(None, binds={Box: w.engine})
    w.note(session.scalars(BY_NAME))
    try:
        session.scalars(THINGS)
    except Exception as error:  # noqa: BLE001
        w.note(type(error).__name__, str(error))
    w.heard(session).bind_mapper(Thing, w.sync_engine)
    return session.scalars(THINGS), session.get_bind(Thing)


@way("Session.bind_table(table)", "Session.bind_table(bind)")
def _binds_of_tables(_: Any, w: World) -> Any:
    session = w.made(None)
    w.heard(session).bind_table(Box.__table__, w.sync_engine)
    w.note(session.execute(select(Box.__table__.c.name).order_by("name")).all())
    return session.scalars(IDS), session.get_bind(clause=Box.__table__)


@way("Session(enable_baked_queries)", "Session.enable_baked_queries")
def _baked(_: Any, w: World) -> Any:
    session = w.made(enable_baked_queries=False)
    return session.enable_baked_queries, session.scalars(BY_NAME).first().things


@way("Session(info)", "Session.info")
def _info(s: Any, w: World) -> Any:
    session = w.made(info={"x": 1})
    session.info["y"] = 2
    return session.info, s.info, session.scalars(BY_NAME).first(), session.info, s.info


@way("Session(query_cls)", "Session.query(entities)")
def _a_query_class(_: Any, w: World) -> Any:
    session = w.made(query_cls=OwnQuery)
    return type(session.query(Box)).__name__, cast(Any, session.query(Box)).named("a").all()


@way("Session(join_transaction_mode)", "Session.join_transaction_mode")
def _modes(_: Any, w: World) -> Any:
    modes = ("conditional_savepoint", "rollback_only", "control_fully", "create_savepoint")
    for mode in modes:
        for savepoint in (False, True):
            with w.engine.connect() as connection:
                outer = connection.begin()
                inner = connection.begin_nested() if savepoint else None
                with w.made(connection, join_transaction_mode=mode) as session:
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


@way("Session(close_resets_only)", "Session.close()", "Session.reset()")
def _closed_for_good(_: Any, w: World) -> Any:
    session = w.made(close_resets_only=False)
    session.add(Box(name="c"))
    session.reset()
    w.note(session.new, session.scalars(BY_NAME))
    session.close()
    for tried in (lambda: session.get(Box, w.a), session.begin, lambda: session.add(Box())):
        try:
            tried()
        except Exception as error:  # noqa: BLE001
            w.note(type(error).__name__, str(error))


@way("Session(execution_options)", "Session.execution_options", since=SERIES_2_1)
def _options_of_a_session(_: Any, w: World) -> Any:
    session = w.made(execution_options={"populate_existing": True, "x": 1})
    box = session.get(Box, w.a)
    box.name = "changed"
    with session.no_autoflush:
        return session.execution_options, session.scalars(BY_NAME).all(), session.get(Box, w.a)


@way("sessionmaker(class_)", "sessionmaker.configure()", "sessionmaker.begin()")
def _a_maker(_: Any, w: World) -> Any:
    maker = w.maker(expire_on_commit=False, info={"x": 1})
    maker.configure(info={"y": 2})
    with maker.begin() as session:
        session.get(Box, w.a).name = "z"
    with maker(info={"z": 3}, autoflush=False) as session:
        w.note(session.info, session.autoflush, session.expire_on_commit, maker.kw["info"])
        return session.scalars(BY_NAME).all(), type(session).__mro__[1:].count(Session)


@way("scoped_session()")
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


# What is in it


@way("Session.add(instance)", "Session.new", "in", "iter", "Session.flush(objects)")
def _added(s: Any, w: World) -> Any:
    box = Box(name="c")
    s.add(box)
    w.note(box in s, list(s), s.new, box.id)
    s.flush()
    w.note(box in s, list(s), s.new, box.id, len(s.identity_map))
    s.rollback()
    return box in s, list(s), inspect(box).transient


@way("Session.add_all(instances)")
def _many_added(s: Any, w: World) -> Any:
    box = Box(name="c")
    s.add_all(iter([box, Thing(box=box, note="n"), Thing(box_id=w.a, note="m")]))
    s.commit()
    return s.scalars(BY_NAME).all(), [(t.note, t.box.name) for t in s.scalars(THINGS)]


@way("Session.delete(instance)", "Session.deleted", "was_deleted(object)")
def _deleted(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.delete(box)
    w.note(s.deleted, box in s, was_deleted(box))
    s.flush()
    w.note(s.deleted, was_deleted(box), inspect(box).deleted)
    s.rollback()
    w.note(was_deleted(box), box.name)
    s.delete(box)
    s.commit()
    return s.scalars(BY_NAME), s.scalars(THINGS), inspect(box).detached


@way("Session.delete_all(instances)", since=SERIES_2_1)
def _many_deleted(s: Any, w: World) -> Any:
    s.delete_all(s.scalars(THINGS).all())
    w.note(s.deleted)
    try:
        s.delete_all([s.get(Box, w.b), Box(name="new")])
    except Exception as error:  # noqa: BLE001
        w.note(type(error).__name__, str(error))
    s.flush()
    return s.scalars(BY_NAME), s.scalars(THINGS)


@way("Session.dirty", "Session.is_modified(instance)", "Session.is_modified(include_collections)")
def _changed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    box.name = "a"
    w.note(s.dirty, s.is_modified(box))
    box.things.append(Thing(note="z"))
    w.note(s.dirty, s.is_modified(box), s.is_modified(box, include_collections=False))
    box.name = "c"
    return s.dirty, s.is_modified(box), s.is_modified(box, include_collections=False)


@way("Session.expire(instance)", "Session.expire(attribute_names)", "Session.expire_all()")
def _expired(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.expire(box, ["name"])
    w.note(sorted(inspect(box).expired_attributes), box.name, sorted(inspect(box).unloaded))
    s.expire(box)
    w.note(sorted(inspect(box).expired_attributes), box.id, box.name)
    s.expire_all()
    w.note(inspect(box).expired, box.things, s.dirty)
    s.expire(box, ["things", "nope"])
    return sorted(inspect(box).unloaded)


@way("Session.refresh(instance)", "Session.refresh(attribute_names)")
def _refreshed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.execute(text("update whole_boxes set name = 'z' where name = 'a'"))
    w.note(box.name)
    s.refresh(box, ["things"])
    w.note(box.name, sorted(inspect(box).unloaded))
    s.refresh(box)
    w.note(box.name, box.id)
    with w.made() as other:
        other.refresh(box)  # of another session


@way("Session.refresh(with_for_update)")
def _refreshed_and_locked(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.refresh(box, with_for_update=True)
    s.refresh(box, with_for_update={"read": True, "nowait": True, "of": Box})
    return box.name, box.id


@way("Session.expunge(instance)", "Session.expunge_all()")
def _expunged(s: Any, w: World) -> Any:
    box, new = s.get(Box, w.a), Box(name="c")
    w.note(len(box.things))
    s.add(new)
    s.expunge(box)
    s.expunge(new)
    w.note(list(s), box.id, box.things[0].box_id, inspect(new).transient, object_session(box))
    s.add(box)
    w.note(sorted(each.__class__.__name__ for each in s))
    s.expunge_all()
    return list(s), box.id, box.name, s.scalars(BY_NAME).all()[0] is box


@way("Session.identity_map")
def _the_identity_map(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    [key] = s.identity_map.keys()
    w.note(key in s.identity_map, s.identity_map.get(key) is box, inspect(box).key == key)
    w.note(s.identity_map.values(), s.identity_map.all_states()[0] is inspect(box))
    del box
    return len(s.identity_map)


@way(
    "Session.identity_key(class_)",
    "Session.identity_key(ident)",
    "Session.identity_key(instance)",
    "Session.identity_key(row)",
    "Session.identity_key(identity_token)",
)
def _identity_keys(s: Any, w: World) -> Any:
    w.note(s.identity_key(Thing, 1), s.identity_key(Thing, (1,), identity_token=TOKEN))
    w.note(s.identity_key(class_=Box, ident=w.a))
    w.note(s.identity_key(instance=s.get(Thing, 1)))
    row = s.execute(select(Thing.__table__)).first()
    return s.identity_key(Thing, row=row), s.identity_key(Thing, row=row._mapping)


@way("Session.object_session(instance)", "object_session(instance)")
def _of_an_object(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    w.note(s.object_session(box) is s, object_session(box) is s, object_session(Box()))
    s.object_session(Plain())


@way("make_transient(instance)")
def _made_transient(s: Any, w: World) -> Any:
    box = s.scalars(BY_NAME.options(selectinload(Box.things))).first()
    make_transient(box)
    w.note(box in s, inspect(box).transient, box.name, inspect(box).key)
    box.id, box.things = None, []
    s.add(box)
    s.flush()
    return box.id, s.scalars(BY_NAME)


@way("make_transient_to_detached(instance)")
def _made_detached(s: Any, w: World) -> Any:
    thing = Thing(id=1)
    make_transient_to_detached(thing)
    w.note(inspect(thing).detached, sorted(inspect(thing).unloaded))
    s.add(thing)
    w.note(thing.note, thing.box_id)
    box = Box(id=s.get(Box, w.a).__dict__["id"])
    s.expunge_all()
    make_transient_to_detached(box)
    s.add(box)
    return box.name, box.id


@way("close_all_sessions()", "Session.close_all()")
def _all_closed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    close_all_sessions()
    w.note(box in s, box.id, box.name)
    s.get(Box, w.a)
    type(s).close_all()
    return s.in_transaction()


@way("Session.enable_relationship_loading(obj)")
def _relationships_of_what_is_not_saved(s: Any, w: World) -> Any:
    thing = Thing(box_id=w.a)
    s.enable_relationship_loading(thing)
    return thing.box, thing in s, s.new


@way("Session.no_autoflush", "Session.autoflush")
def _flushed_late(s: Any, w: World) -> Any:
    s.add(Box(name="c"))
    with s.no_autoflush as same:
        w.note(type(same).__name__, s.scalars(BY_NAME).all())
        s.autoflush = True
    return s.scalars(BY_NAME), s.autoflush


@way("Session.flush(objects)")
def _some_flushed(s: Any, _: World) -> Any:
    first, second = Box(name="c"), Box(name="d")
    s.add_all([first, second])
    s.flush([first])
    return s.new, inspect(first).persistent


# Below the attributes


@way("InstanceState.identity_key")
def _the_identity_of_an_instance(s: Any, w: World) -> Any:
    return inspect(s.get(Box, w.a)).identity_key


@way("Session.identity_map", "Session.identity_key(instance)")
def _the_keys_of_the_identity_map(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    assert [s.identity_key(instance=box)] == list(s.identity_map)
    return list(s.identity_map)


# Reading


@way("Session.get(entity)", "Session.get(ident)", "Session.get_one(entity)")
def _got(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    w.note(box, s.get(Box, (w.a,)) is box, s.get(Box, {"id": w.a}) is box)
    w.note(s.get_one(Box, w.a) is box, s.get(inspect(Box), w.a) is box, s.get(Thing, 1))
    w.note(s.get(Thing, 99))
    s.get_one(Thing, 99)


@way("Session.get(options)", "Session.get_one(options)", "Session.get_one(ident)")
def _got_with_options(s: Any, w: World) -> Any:
    box = s.get(Box, w.a, options=[joinedload(Box.things)])
    w.note("things" in box.__dict__)
    box = s.get_one(Box, w.b, options=(selectinload(Box.things),))
    return "things" in box.__dict__


@way("Session.get(populate_existing)", "Session.get_one(populate_existing)")
def _got_again(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.execute(update(Box).values(name="z"), execution_options={"synchronize_session": False})
    w.note(s.get(Box, w.a).name, s.get(Box, w.a, populate_existing=True).name)
    box.name = "changed"
    with s.no_autoflush:
        return s.get_one(Box, w.a, populate_existing=True).name, s.dirty


@way("Session.get(with_for_update)", "Session.get_one(with_for_update)")
def _got_and_locked(s: Any, w: World) -> Any:
    w.note(s.get(Box, w.a, with_for_update=True))
    w.note(s.get(Box, w.a, with_for_update={"skip_locked": True, "key_share": True}))
    return s.get_one(Box, w.a, with_for_update=False)


@way("Session.get(identity_token)", "Session.get_one(identity_token)")
def _got_by_token(s: Any, w: World) -> Any:
    box = s.get(Box, w.a, identity_token=TOKEN)
    w.note(inspect(box).identity_token, s.get(Box, w.a) is box)
    return s.get_one(Box, w.a, identity_token=TOKEN) is box, len(s.identity_map)


@way("Session.get(execution_options)", "Session.get_one(execution_options)")
def _got_with_execution_options(s: Any, w: World) -> Any:
    s.get(Box, w.a, execution_options={"x": 1})
    return s.get_one(Box, w.b, execution_options={"y": 1, "populate_existing": True})


@way("Session.get(bind_arguments)", "Session.get_one(bind_arguments)")
def _got_from_elsewhere(_: Any, w: World) -> Any:
    session = w.made(None)
    w.note(session.get(Box, w.a, bind_arguments={"bind": w.sync_engine}))
    w.note(session.get_one(Box, w.a, bind_arguments={"bind": w.sync_engine}))
    session.expunge_all()
    session.get(Box, w.a)


@way(
    "Session.execute(statement)",
    "Session.execute(params)",
    "Session.execute(execution_options)",
    "Session.execute(bind_arguments)",
)
def _executed(s: Any, w: World) -> Any:
    w.note(s.execute(BY_NAME).all(), s.execute(IDS).all())
    result = s.execute(NOTES, {"x": 1})
    w.note(result.keys(), result.all())
    new = [{"name": "c"}, {"name": "d"}]
    w.note(s.execute(insert(Box).returning(Box.name), new).all())
    options = {"x": 1, "yield_per": 1}
    w.note(
        [each for some in s.execute(IDS, execution_options=options).partitions() for each in some]
    )
    with w.made(None) as other:
        return other.execute(IDS, bind_arguments={"bind": w.sync_engine}).all()


@way(
    "Session.scalar(statement)",
    "Session.scalar(params)",
    "Session.scalar(execution_options)",
    "Session.scalar(bind_arguments)",
)
def _one_value(_: Any, w: World) -> Any:
    session = w.made(None)
    options: dict[str, Any] = {
        "execution_options": {"x": 1},
        "bind_arguments": {"bind": w.sync_engine},
    }
    w.note(session.scalar(IDS, **options), session.scalar(BY_NAME, **options))
    w.note(session.scalar(text("select :x"), {"x": "y"}, **options))
    return session.scalar(select(Box).where(Box.name == "nope"), **options)


@way(
    "Session.scalars(statement)",
    "Session.scalars(params)",
    "Session.scalars(execution_options)",
    "Session.scalars(bind_arguments)",
)
def _many_values(_: Any, w: World) -> Any:
    session = w.made(None)
    options: dict[str, Any] = {"bind_arguments": {"bind": w.sync_engine}}
    for size in (None, 1):
        options["execution_options"] = {"yield_per": size} if size else {}
        w.note([*session.scalars(IDS, **options).partitions(1)])
        w.note([*session.scalars(BY_NAME, **options)], session.scalars(IDS, **options).first())
    return session.scalars(NOTES, {"x": 1}, **options).one()


@way("Session.execute(statement)")
def _a_text_without_columns(s: Any, _: World) -> Any:
    return s.execute(text("select note from whole_things order by id")).all()


@way("Session.execute(statement)")
def _rows_deleted_by_their_keys(s: Any, w: World) -> Any:
    return s.execute(delete(Thing).where(Thing.box_id == w.a)).rowcount


@way("Session.execute(statement)")
def _a_row_deleted_by_its_key(s: Any, w: World) -> Any:
    return s.execute(delete(Box).where(Box.id == w.b)).rowcount


@way("Session.execute(statement)")
def _values_that_are_read_late(s: Any, w: World) -> Any:
    def late(value: Any) -> Any:
        w.note("read", value)
        return value

    s.add(Box(name="c"))
    event.listen(w.heard(s), "after_flush", lambda *_: w.note("flushed"))
    event.listen(w.heard(s), "do_orm_execute", lambda _: w.note("executes"))
    event.listen(w.sync_engine, "before_cursor_execute", sent := lambda *_: w.note("sent"))
    by_note = select(Thing.note).where(Thing.note == bindparam(None, callable_=lambda: late("x")))
    by_key = select(Box).where(Box.id == bindparam("late", callable_=lambda: late(w.a)))
    renamed = update(Box).where(Box.id == bindparam(None, callable_=lambda: late(w.b)))
    try:
        for _ in "ab":
            w.note(s.execute(by_note).all())
            w.note(s.scalars(by_key).all(), s.scalars(by_key, {"late": w.b}).all())
        s.execute(renamed.values(name=bindparam("new", callable_=lambda: late("z"))))
        s.execute(insert(Box).values(name=bindparam("new", callable_=lambda: late("y"))))
    finally:
        event.remove(w.sync_engine, "before_cursor_execute", sent)
    return s.scalars(BY_NAME).all()


@way("Session.query(entities)")
def _queries(s: Any, w: World) -> Any:
    w.note(s.query(Box).order_by(Box.name).all(), s.query(Box.id).order_by(Box.name).all())
    w.note(s.query(Box).get(w.a), s.query(Box).filter_by(id=w.a).one(), s.query(Thing).count())
    w.note(s.query(Box, Thing).join(Box.things).order_by(Thing.id).all())
    w.note(s.query(Box).filter(Box.id == w.b).update({"name": "z"}))
    w.note(s.query(Thing).filter(Thing.box_id == w.a).delete("fetch"))
    return s.query(Box).order_by(Box.name).populate_existing().with_for_update().first()


@way("Session.connection(bind_arguments)", "Session.connection(execution_options)")
def _the_connection(s: Any, w: World) -> Any:
    connection = s.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    w.note(connection.get_execution_options(), connection is s.connection(), connection.info)
    w.note(connection.scalar(text("show transaction_isolation")))
    with w.made(None) as other:
        w.note(other.connection({"bind": w.sync_engine}).engine is w.sync_engine)
        return other.connection()


@way(
    "Session.get_bind(mapper)",
    "Session.get_bind(clause)",
    "Session.get_bind(bind)",
    "Session.connection_callable",
)
def _binds(s: Any, w: World) -> Any:
    w.note(s.get_bind(), s.get_bind(Box), s.get_bind(mapper=inspect(Box)), s.get_bind(clause=IDS))
    w.note(s.get_bind(bind="whatever"), s.connection_callable)
    with w.made(None) as other:
        w.note(other.get_bind(bind=w.sync_engine))
        other.get_bind(Box)


@way("get_bind of the application's")
def _a_bind_by_statement(_: Any, w: World) -> Any:
    class Routing(w.kind):  # type: ignore[misc,name-defined]
        def get_bind(self, mapper: Any = None, clause: Any = None) -> Engine:
            w.note(mapper, type(clause).__name__)
            return w.sync_engine

    with Routing(**w.options) as session:
        session.add(Box(name="c"))
        w.note(session.scalars(BY_NAME).all(), session.get(Box, w.a).things)
        session.execute(update(Box).where(Box.id == w.a).values(name="z"))
        return session.execute(text("select 'a'")).all()


# Writing without a unit of work


@way(
    "Session.bulk_save_objects(objects)",
    "Session.bulk_save_objects(return_defaults)",
    "Session.bulk_save_objects(update_changed_only)",
    "Session.bulk_save_objects(preserve_order)",
)
def _saved_in_bulk(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    box.name = "z"
    new = [Box(name="c"), Box(name="d")]
    s.bulk_save_objects([*new, box], return_defaults=True, preserve_order=False)
    w.note([each.id for each in new], s.new, s.dirty)
    s.bulk_save_objects([Thing(box_id=w.a, note="n")], update_changed_only=False)
    s.expire_all()
    return s.scalars(BY_NAME), s.scalars(THINGS)


@way(
    "Session.bulk_insert_mappings(mapper)",
    "Session.bulk_insert_mappings(mappings)",
    "Session.bulk_insert_mappings(return_defaults)",
    "Session.bulk_insert_mappings(render_nulls)",
)
def _mappings_inserted(s: Any, w: World) -> Any:
    new: list[dict[str, Any]] = [{"name": "c"}, {"name": "d"}]
    s.bulk_insert_mappings(Box, iter(new), return_defaults=True)
    w.note([sorted(each) for each in new], [each.get("id") for each in new])
    s.bulk_insert_mappings(inspect(Thing), [{"note": "n", "box_id": w.a}], render_nulls=True)
    return s.scalars(BY_NAME), s.scalars(THINGS)


@way("Session.bulk_update_mappings(mapper)", "Session.bulk_update_mappings(mappings)")
def _mappings_updated(s: Any, w: World) -> Any:
    s.bulk_update_mappings(Box, [{"id": w.a, "name": "z"}, {"id": w.b, "name": "y"}])
    s.bulk_update_mappings(Thing, ({"id": n, "box_id": w.b} for n in (1, 2)))
    return s.scalars(BY_NAME), [each.box.name for each in s.scalars(THINGS)]


@way("Session.merge(instance)", "Session.merge(options)")
def _merged(s: Any, w: World) -> Any:
    merged = s.merge(Box(id=w.a, name="z", things=[Thing(id=1, note="x", box_id=w.a)]))
    w.note(merged, merged.id, merged.things, s.dirty, s.deleted, s.new)
    again = s.merge(Box(id=w.b, name="y"), options=[joinedload(Box.things)])
    w.note("things" in again.__dict__, s.merge(again) is again)
    s.flush()
    return s.scalars(BY_NAME), s.scalars(THINGS)


@way("Session.merge(load)")
def _merged_without_loading(s: Any, w: World) -> Any:
    with w.made() as other:
        box = other.get(Box, w.a)
        w.note(len(box.things))
    merged = s.merge(box, load=False)
    w.note(merged is box, merged.id, merged.things, s.dirty, sorted(inspect(merged).unloaded))
    s.merge(Box(id=w.b, name="new"), load=False)


@way(
    "Session.merge_all(instances)",
    "Session.merge_all(load)",
    "Session.merge_all(options)",
    since=SERIES_2_1,
)
def _many_merged(s: Any, w: World) -> Any:
    s.add(Box(name="pending"))
    options = [joinedload(Box.things)]
    found = s.merge_all((Box(id=each, name="z") for each in (w.a, w.b)), options=options)
    w.note(type(found).__name__, found, [each.id for each in found], s.dirty, s.new)
    s.flush()
    with w.made() as other:
        boxes = other.scalars(BY_NAME).all()
    w.note([each.name for each in s.merge_all(boxes, load=False)])
    s.merge_all([Box(name="c"), Plain()])


@way("Session.merge_all(instances)")
def _many_merged_where_there_is_none(s: Any, _: World) -> Any:
    return hasattr(s, "merge_all"), hasattr(s, "delete_all")


# Transactions


@way(
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


@way("Session.commit()", "Session.rollback()", "with")
def _ended(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    box.name = "z"
    s.commit()
    w.note(inspect(box).expired, box.name, box.id)
    box.name = "y"
    s.rollback()
    w.note(box.name, box.id)
    with w.made() as other, other.begin():
        other.get(Box, w.b).name = "x"
    with w.made() as other:
        other.get(Box, w.b).name = "never"
    return s.scalars(BY_NAME)


@way("Session.invalidate()")
def _invalidated(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.invalidate()
    return s.in_transaction(), box in s, s.get(Box, w.a).name


@way("Session.dispatch")
def _told_by_events(s: Any, _: World) -> Any:
    return sorted(name for name in dir(s.dispatch) if not name.startswith("_"))
