"""Ways of writing without a unit of work, and of merging into one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    inspect,
)
from sqlalchemy.orm import (
    joinedload,
)

from tests.ways.listed import SERIES_2_1, way
from tests.ways.world import BY_NAME, THINGS, Box, Plain, Thing, World


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
