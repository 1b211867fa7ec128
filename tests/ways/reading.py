"""Ways of reading: by a key, by a statement and by a query, over whichever connection."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Engine,
    bindparam,
    delete,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.orm import (
    joinedload,
    selectinload,
)

from tests.ways.listed import way
from tests.ways.world import BY_NAME, IDS, NOTES, TOKEN, Box, Thing, World


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
