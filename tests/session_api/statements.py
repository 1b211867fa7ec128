"""Calls that bypass the unit of work: by key, statement, query, in bulk; and merges."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, bindparam, delete, event, insert, inspect, select, text, update
from sqlalchemy.orm import joinedload, selectinload

from tests.session_api.world import (
    BY_NAME,
    IDS,
    NOTES,
    SERIES_2_1,
    THINGS,
    TOKEN,
    Box,
    Plain,
    Thing,
    World,
    covers,
)

# Reads


@covers("Session.get(entity)", "Session.get(ident)", "Session.get_one(entity)")
def _got(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    w.note(box, s.get(Box, (w.a,)) is box, s.get(Box, {"id": w.a}) is box)
    w.note(s.get_one(Box, w.a) is box, s.get(inspect(Box), w.a) is box, s.get(Thing, 1))
    w.note(s.get(Thing, 99))
    s.get_one(Thing, 99)


@covers("Session.get(options)", "Session.get_one(options)", "Session.get_one(ident)")
def _got_with_options(s: Any, w: World) -> Any:
    box = s.get(Box, w.a, options=[joinedload(Box.things)])
    w.note("things" in box.__dict__)
    box = s.get_one(Box, w.b, options=(selectinload(Box.things),))
    return "things" in box.__dict__


@covers("Session.get(populate_existing)", "Session.get_one(populate_existing)")
def _got_again(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.execute(update(Box).values(name="z"), execution_options={"synchronize_session": False})
    w.note(s.get(Box, w.a).name, s.get(Box, w.a, populate_existing=True).name)
    box.name = "changed"
    with s.no_autoflush:
        return s.get_one(Box, w.a, populate_existing=True).name, s.dirty


@covers("Session.get(with_for_update)", "Session.get_one(with_for_update)")
def _got_and_locked(s: Any, w: World) -> Any:
    w.note(s.get(Box, w.a, with_for_update=True))
    w.note(s.get(Box, w.a, with_for_update={"skip_locked": True, "key_share": True}))
    return s.get_one(Box, w.a, with_for_update=False)


@covers("Session.get(identity_token)", "Session.get_one(identity_token)")
def _got_by_token(s: Any, w: World) -> Any:
    box = s.get(Box, w.a, identity_token=TOKEN)
    w.note(inspect(box).identity_token, s.get(Box, w.a) is box)
    return s.get_one(Box, w.a, identity_token=TOKEN) is box, len(s.identity_map)


@covers("Session.get(execution_options)", "Session.get_one(execution_options)")
def _got_with_execution_options(s: Any, w: World) -> Any:
    s.get(Box, w.a, execution_options={"x": 1})
    return s.get_one(Box, w.b, execution_options={"y": 1, "populate_existing": True})


@covers("Session.get(bind_arguments)", "Session.get_one(bind_arguments)")
def _got_from_elsewhere(_: Any, w: World) -> Any:
    session = w.open(None)
    w.note(session.get(Box, w.a, bind_arguments={"bind": w.sync_engine}))
    w.note(session.get_one(Box, w.a, bind_arguments={"bind": w.sync_engine}))
    session.expunge_all()
    session.get(Box, w.a)


@covers(
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
    with w.open(None) as other:
        return other.execute(IDS, bind_arguments={"bind": w.sync_engine}).all()


@covers(
    "Session.scalar(statement)",
    "Session.scalar(params)",
    "Session.scalar(execution_options)",
    "Session.scalar(bind_arguments)",
)
def _one_value(_: Any, w: World) -> Any:
    session = w.open(None)
    options: dict[str, Any] = {
        "execution_options": {"x": 1},
        "bind_arguments": {"bind": w.sync_engine},
    }
    w.note(session.scalar(IDS, **options), session.scalar(BY_NAME, **options))
    w.note(session.scalar(text("select :x"), {"x": "y"}, **options))
    return session.scalar(select(Box).where(Box.name == "nope"), **options)


@covers(
    "Session.scalars(statement)",
    "Session.scalars(params)",
    "Session.scalars(execution_options)",
    "Session.scalars(bind_arguments)",
)
def _many_values(_: Any, w: World) -> Any:
    session = w.open(None)
    options: dict[str, Any] = {"bind_arguments": {"bind": w.sync_engine}}
    for size in (None, 1):
        options["execution_options"] = {"yield_per": size} if size else {}
        w.note([*session.scalars(IDS, **options).partitions(1)])
        w.note([*session.scalars(BY_NAME, **options)], session.scalars(IDS, **options).first())
    return session.scalars(NOTES, {"x": 1}, **options).one()


@covers("Session.execute(statement)")
def _a_text_without_columns(s: Any, _: World) -> Any:
    return s.execute(text("select note from whole_things order by id")).all()


@covers("Session.execute(statement)")
def _rows_deleted_by_their_keys(s: Any, w: World) -> Any:
    return s.execute(delete(Thing).where(Thing.box_id == w.a)).rowcount


@covers("Session.execute(statement)")
def _a_row_deleted_by_its_key(s: Any, w: World) -> Any:
    return s.execute(delete(Box).where(Box.id == w.b)).rowcount


@covers("Session.execute(statement)")
def _values_that_are_read_late(s: Any, w: World) -> Any:
    def late(value: Any) -> Any:
        w.note("read", value)
        return value

    s.add(Box(name="c"))
    event.listen(w.sync(s), "after_flush", lambda *_: w.note("flushed"))
    event.listen(w.sync(s), "do_orm_execute", lambda _: w.note("executes"))
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


@covers("Session.query(entities)")
def _queries(s: Any, w: World) -> Any:
    w.note(s.query(Box).order_by(Box.name).all(), s.query(Box.id).order_by(Box.name).all())
    w.note(s.query(Box).get(w.a), s.query(Box).filter_by(id=w.a).one(), s.query(Thing).count())
    w.note(s.query(Box, Thing).join(Box.things).order_by(Thing.id).all())
    w.note(s.query(Box).filter(Box.id == w.b).update({"name": "z"}))
    w.note(s.query(Thing).filter(Thing.box_id == w.a).delete("fetch"))
    return s.query(Box).order_by(Box.name).populate_existing().with_for_update().first()


@covers("Session.connection(bind_arguments)", "Session.connection(execution_options)")
def _the_connection(s: Any, w: World) -> Any:
    connection = s.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    w.note(connection.get_execution_options(), connection is s.connection(), connection.info)
    w.note(connection.scalar(text("show transaction_isolation")))
    with w.open(None) as other:
        w.note(other.connection({"bind": w.sync_engine}).engine is w.sync_engine)
        return other.connection()


@covers(
    "Session.get_bind(mapper)",
    "Session.get_bind(clause)",
    "Session.get_bind(bind)",
    "Session.connection_callable",
)
def _binds(s: Any, w: World) -> Any:
    w.note(s.get_bind(), s.get_bind(Box), s.get_bind(mapper=inspect(Box)), s.get_bind(clause=IDS))
    w.note(s.get_bind(bind="whatever"), s.connection_callable)
    with w.open(None) as other:
        w.note(other.get_bind(bind=w.sync_engine))
        other.get_bind(Box)


@covers("get_bind of the application's")
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


# Writes in bulk, and merges


@covers(
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


@covers(
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


@covers("Session.bulk_update_mappings(mapper)", "Session.bulk_update_mappings(mappings)")
def _mappings_updated(s: Any, w: World) -> Any:
    s.bulk_update_mappings(Box, [{"id": w.a, "name": "z"}, {"id": w.b, "name": "y"}])
    s.bulk_update_mappings(Thing, ({"id": n, "box_id": w.b} for n in (1, 2)))
    return s.scalars(BY_NAME), [each.box.name for each in s.scalars(THINGS)]


@covers("Session.merge(instance)", "Session.merge(options)")
def _merged(s: Any, w: World) -> Any:
    merged = s.merge(Box(id=w.a, name="z", things=[Thing(id=1, note="x", box_id=w.a)]))
    w.note(merged, merged.id, merged.things, s.dirty, s.deleted, s.new)
    again = s.merge(Box(id=w.b, name="y"), options=[joinedload(Box.things)])
    w.note("things" in again.__dict__, s.merge(again) is again)
    s.flush()
    return s.scalars(BY_NAME), s.scalars(THINGS)


@covers("Session.merge(load)")
def _merged_without_loading(s: Any, w: World) -> Any:
    with w.open() as other:
        box = other.get(Box, w.a)
        w.note(len(box.things))
    merged = s.merge(box, load=False)
    w.note(merged is box, merged.id, merged.things, s.dirty, sorted(inspect(merged).unloaded))
    s.merge(Box(id=w.b, name="new"), load=False)


@covers(
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
    with w.open() as other:
        boxes = other.scalars(BY_NAME).all()
    w.note([each.name for each in s.merge_all(boxes, load=False)])
    s.merge_all([Box(name="c"), Plain()])


@covers("Session.merge_all(instances)")
def _many_merged_where_there_is_none(s: Any, _: World) -> Any:
    return hasattr(s, "merge_all"), hasattr(s, "delete_all")
