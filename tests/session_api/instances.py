"""Uses that add, remove, expire, refresh and inspect instances."""

from __future__ import annotations

from typing import Any

from sqlalchemy import inspect, select, text
from sqlalchemy.orm import (
    close_all_sessions,
    make_transient,
    make_transient_to_detached,
    object_session,
    selectinload,
    was_deleted,
)

from tests.session_api.world import (
    BY_NAME,
    SERIES_2_1,
    THINGS,
    TOKEN,
    Box,
    Plain,
    Thing,
    World,
    covers,
)


@covers("Session.add(instance)", "Session.new", "in", "iter", "Session.flush(objects)")
def _added(s: Any, w: World) -> Any:
    box = Box(name="c")
    s.add(box)
    w.note(box in s, list(s), s.new, box.id)
    s.flush()
    w.note(box in s, list(s), s.new, box.id, len(s.identity_map))
    s.rollback()
    return box in s, list(s), inspect(box).transient


@covers("Session.add_all(instances)")
def _many_added(s: Any, w: World) -> Any:
    box = Box(name="c")
    s.add_all(iter([box, Thing(box=box, note="n"), Thing(box_id=w.a, note="m")]))
    s.commit()
    return s.scalars(BY_NAME).all(), [(t.note, t.box.name) for t in s.scalars(THINGS)]


@covers("Session.delete(instance)", "Session.deleted", "was_deleted(object)")
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


@covers("Session.delete_all(instances)", since=SERIES_2_1)
def _many_deleted(s: Any, w: World) -> Any:
    s.delete_all(s.scalars(THINGS).all())
    w.note(s.deleted)
    try:
        s.delete_all([s.get(Box, w.b), Box(name="new")])
    except Exception as error:  # noqa: BLE001
        w.note(type(error).__name__, str(error))
    s.flush()
    return s.scalars(BY_NAME), s.scalars(THINGS)


@covers(
    "Session.dirty", "Session.is_modified(instance)", "Session.is_modified(include_collections)"
)
def _changed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    box.name = "a"
    w.note(s.dirty, s.is_modified(box))
    box.things.append(Thing(note="z"))
    w.note(s.dirty, s.is_modified(box), s.is_modified(box, include_collections=False))
    box.name = "c"
    return s.dirty, s.is_modified(box), s.is_modified(box, include_collections=False)


@covers("Session.expire(instance)", "Session.expire(attribute_names)", "Session.expire_all()")
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


@covers("Session.refresh(instance)", "Session.refresh(attribute_names)")
def _refreshed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.execute(text("update whole_boxes set name = 'z' where name = 'a'"))
    w.note(box.name)
    s.refresh(box, ["things"])
    w.note(box.name, sorted(inspect(box).unloaded))
    s.refresh(box)
    w.note(box.name, box.id)
    with w.open() as other:
        other.refresh(box)  # of another session


@covers("Session.refresh(with_for_update)")
def _refreshed_and_locked(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    s.refresh(box, with_for_update=True)
    s.refresh(box, with_for_update={"read": True, "nowait": True, "of": Box})
    return box.name, box.id


@covers("Session.expunge(instance)", "Session.expunge_all()")
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


@covers("Session.identity_map")
def _the_identity_map(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    [key] = s.identity_map.keys()
    w.note(key in s.identity_map, s.identity_map.get(key) is box, inspect(box).key == key)
    w.note(s.identity_map.values(), s.identity_map.all_states()[0] is inspect(box))
    del box
    return len(s.identity_map)


@covers(
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


@covers("Session.object_session(instance)", "object_session(instance)")
def _of_an_object(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    w.note(s.object_session(box) is s, object_session(box) is s, object_session(Box()))
    s.object_session(Plain())


@covers("make_transient(instance)")
def _made_transient(s: Any, w: World) -> Any:
    box = s.scalars(BY_NAME.options(selectinload(Box.things))).first()
    make_transient(box)
    w.note(box in s, inspect(box).transient, box.name, inspect(box).key)
    box.id, box.things = None, []
    s.add(box)
    s.flush()
    return box.id, s.scalars(BY_NAME)


@covers("make_transient_to_detached(instance)")
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


@covers("close_all_sessions()", "Session.close_all()")
def _all_closed(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    close_all_sessions()
    w.note(box in s, box.id, box.name)
    s.get(Box, w.a)
    type(s).close_all()
    return s.in_transaction()


@covers("Session.enable_relationship_loading(obj)")
def _relationships_of_what_is_not_saved(s: Any, w: World) -> Any:
    thing = Thing(box_id=w.a)
    s.enable_relationship_loading(thing)
    return thing.box, thing in s, s.new


@covers("Session.no_autoflush", "Session.autoflush")
def _flushed_late(s: Any, w: World) -> Any:
    s.add(Box(name="c"))
    with s.no_autoflush as same:
        w.note(type(same).__name__, s.scalars(BY_NAME).all())
        s.autoflush = True
    return s.scalars(BY_NAME), s.autoflush


@covers("Session.flush(objects)")
def _some_flushed(s: Any, _: World) -> Any:
    first, second = Box(name="c"), Box(name="d")
    s.add_all([first, second])
    s.flush([first])
    return s.new, inspect(first).persistent


# Keys of the identity map


@covers("InstanceState.identity_key")
def _the_identity_of_an_instance(s: Any, w: World) -> Any:
    return inspect(s.get(Box, w.a)).identity_key


@covers("Session.identity_map", "Session.identity_key(instance)")
def _the_keys_of_the_identity_map(s: Any, w: World) -> Any:
    box = s.get(Box, w.a)
    assert [s.identity_key(instance=box)] == list(s.identity_map)
    return list(s.identity_map)
