"""Uses with listeners: which events are emitted, in which order, with which arguments."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import delete, event, insert, select, text, update
from sqlalchemy.orm import (
    DeclarativeBase,
    InstanceEvents,
    Mapped,
    Mapper,
    MapperEvents,
    ORMExecuteState,
    QueryEvents,
    SessionEvents,
    configure_mappers,
    mapped_column,
    selectinload,
    with_loader_criteria,
)
from sqlalchemy.orm.attributes import flag_modified
from sqlalchemy.orm.events import AttributeEvents

from tests.session_api.world import BY_NAME, IDS, THINGS, Base, Box, Thing, World, covers


def events_of(class_: type[Any]) -> list[str]:
    """Return the names of the events of an event class."""
    return [each for each in vars(class_) if not each.startswith("_") and each != "dispatch"]


@contextmanager
def listening(w: World, target: Any, names: list[str], **options: Any) -> Iterator[None]:
    """Log all events of these names inside the `with`."""
    every = [(name, _noting(w, name)) for name in names]
    for name, listener in every:
        event.listen(target, name, listener, **options)
    try:
        yield
    finally:
        for name, listener in every:
            event.remove(target, name, listener)


def _noting(w: World, name: str) -> Callable[..., Any]:
    def note(*arguments: Any) -> Any:
        w.note(name, [_kind(each) for each in arguments])
        return arguments[0] if name == "init_scalar" else None

    return note


def _kind(value: Any) -> Any:
    """Return the type of an argument; instances and strings as they are."""
    plain = isinstance(value, Base | str | int | None)
    return value if plain else sorted(map(str, value)) if isinstance(value, set) else _name(value)


def _name(value: Any) -> str:
    return type(value).__name__


def work(s: Any, w: World) -> None:
    """Cause every event of sessions, mappers and instances."""
    box = s.get(Box, w.a)
    w.note(box.things)
    _save_and_delete(s, Box(name="c"))
    _add_and_let_go(s, Box(name="e"))
    s.execute(update(Box).where(Box.name == "b").values(name="y"))
    s.execute(delete(Thing).where(Thing.note == "y"))
    s.query(Box).filter(Box.name == "y").update({"name": "b"})
    s.query(Thing).filter(Thing.note == "nope").delete()
    s.expire(box)
    w.note(box.name)
    flag_modified(box, "name")
    s.refresh(box)
    s.scalars(BY_NAME.options(selectinload(Box.things))).all()
    s.expunge_all()


def _save_and_delete(s: Any, new: Box) -> None:
    s.add(new)
    new.things.append(Thing(note="z"))
    s.flush()
    s.expunge(new)
    s.add(new)
    new.name = "d"
    s.commit()
    s.delete(new)
    s.flush()
    s.rollback()
    s.delete(new)
    s.commit()


def _add_and_let_go(s: Any, new: Box) -> None:
    s.add(new)
    s.expunge(new)
    s.add(new)
    s.flush()
    with s.begin_nested() as inner:
        s.add(Box(name="f"))
        inner.rollback()
    s.rollback()


@covers(*(f"SessionEvents.{name}" for name in events_of(SessionEvents)))
def _a_session_listened_to(s: Any, w: World) -> None:
    with listening(w, w.sync(s), events_of(SessionEvents)):
        work(s, w)
    # the order of events for several instances in one flush is undefined
    alike = itertools.groupby(w.log, lambda each: each[0])
    w.log[:] = [told for _, some in alike for told in sorted(some, key=str)]


_OF_ROWS = [name for name in events_of(MapperEvents) if name.startswith(("before_", "after_"))]


@covers(
    *(f"MapperEvents.{name}" for name in ("before_insert", "after_insert", "before_update")),
    *(f"MapperEvents.{name}" for name in ("after_update", "before_delete", "after_delete")),
)
def _mappers_listened_to(s: Any, w: World) -> None:
    names = [name for name in _OF_ROWS if name.endswith(("_insert", "_update", "_delete"))]
    with listening(w, Box, names), listening(w, Thing, names):
        work(s, w)


@covers(
    *(f"MapperEvents.{name}" for name in events_of(MapperEvents) if "_configured" in name),
    "MapperEvents.instrument_class",
    "MapperEvents.after_mapper_constructed",
    "InstanceEvents.first_init",
)
def _a_class_made_meanwhile(s: Any, w: World) -> Any:
    configure_mappers()
    names = ["instrument_class", "after_mapper_constructed", "mapper_configured"]
    with listening(w, Mapper, [*names, "before_configured", "after_configured"]):

        class Own(DeclarativeBase):
            pass

        class Late(Own):
            __tablename__ = "whole_late"

            id: Mapped[int] = mapped_column(primary_key=True)

        first = [name for name in events_of(InstanceEvents) if name == "first_init"]
        with listening(w, Late, ["before_mapper_configured"]), listening(w, Late, first, raw=True):
            s.execute(text("create temporary table whole_late (id serial)"))
            s.add(Late())
            configure_mappers()
            s.flush()
            return len(s.scalars(select(Late)).all())


@covers(*(f"InstanceEvents.{name}" for name in events_of(InstanceEvents) if name != "first_init"))
def _instances_listened_to(s: Any, w: World) -> Any:
    with listening(w, Box, [n for n in events_of(InstanceEvents) if n != "first_init"]):
        work(s, w)
        try:
            Box(nope=1)
        except TypeError as error:
            w.note(str(error))
        return pickle.loads(pickle.dumps(s.get(Box, w.a))).name  # noqa: S301  # our own


@covers(*(f"AttributeEvents.{name}" for name in events_of(AttributeEvents)))
def _attributes_listened_to(s: Any, w: World) -> Any:
    of_values = ["set", "init_scalar", "modified"]
    of_lists = ["append", "remove", "bulk_replace", "init_collection", "dispose_collection"]
    with (
        listening(w, Box.name, of_values),
        listening(w, Box.things, [*of_lists, "append_wo_mutation"]),
    ):
        work(s, w)
        box = s.get(Box, w.a)
        box.things = [Thing(note="new"), *box.things]
        box.things.remove(box.things[0])
        w.note(Box().name)
        return box.things


@covers("AttributeEvents.set")
def _a_key_attribute_listened_to(s: Any, w: World) -> Any:
    thing = s.get(Thing, 1)
    with listening(w, Thing.box_id, ["set"]):
        event.listen(Thing.box_id, "set", seen := lambda *arguments: w.note(arguments[1]))
        try:
            thing.box_id = w.b
        finally:
            event.remove(Thing.box_id, "set", seen)
    return thing.box.name, thing.box_id


@covers(*(f"QueryEvents.{name}" for name in events_of(QueryEvents)))
def _queries_listened_to(s: Any, w: World) -> Any:
    from sqlalchemy.orm import Query  # noqa: PLC0415  # as the events have it

    with listening(w, Query, events_of(QueryEvents)):
        w.note(s.query(Box).filter(Box.id == w.a).all())
        w.note(s.query(Box).filter(Box.id == w.a).update({"name": "z"}))
        return s.query(Thing).filter(Thing.box_id == w.a).delete()


_SEEN = [
    *("is_select", "is_insert", "is_update", "is_delete", "is_executemany", "is_from_statement"),
    *("is_orm_statement", "is_column_load", "is_relationship_load", "identity_token"),
    *("bind_mapper", "all_mappers", "user_defined_options", "bind_arguments"),
]


@covers(
    *(f"ORMExecuteState.{name}" for name in [*_SEEN, "lazy_loaded_from", "loader_strategy_path"]),
    "ORMExecuteState.parameters",
    "ORMExecuteState.execution_options",
    "ORMExecuteState.local_execution_options",
    "ORMExecuteState.load_options",
    "ORMExecuteState.update_delete_options",
    "ORMExecuteState.session",
    "ORMExecuteState.statement",
)
def _statements_listened_to(s: Any, w: World) -> None:
    def see(execution: ORMExecuteState) -> None:
        for name in _SEEN:
            w.note(name, _of_mappers(getattr(execution, name, None)))
        w.note(_name(execution.statement), execution.session is w.sync(s))
        # their values are keys, as the unit of work needs them
        w.note("parameters", len(execution.parameters or ()))
        w.note(sorted(execution.execution_options), sorted(execution.local_execution_options))
        if execution.is_select and execution.is_orm_statement:
            w.note(_name(execution.load_options), str(execution.loader_strategy_path))
            w.note(execution.lazy_loaded_from and execution.lazy_loaded_from.obj())
        elif execution.is_update or execution.is_delete:
            w.note(_name(execution.update_delete_options))

    event.listen(w.sync(s), "do_orm_execute", see)
    work(s, w)
    s.execute(insert(Box), [{"name": "m"}, {"name": "n"}])
    s.execute(select(Box).where(Box.id == w.a), execution_options={"x": 1})
    s.execute(update(Box).where(Box.id == w.a), {"name": "z"})
    fetched = {"synchronize_session": "fetch"}
    s.execute(update(Box).where(Box.id == w.b).values(name="z"), execution_options=fetched)
    s.execute(delete(Thing).where(Thing.box_id == w.a), execution_options=fetched)
    s.execute(select(Box).from_statement(text("select * from whole_boxes where false")))


def _of_mappers(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else str(value)


@covers(
    "ORMExecuteState.invoke_statement(statement)",
    "ORMExecuteState.invoke_statement(params)",
    "ORMExecuteState.invoke_statement(execution_options)",
    "ORMExecuteState.invoke_statement(bind_arguments)",
    "ORMExecuteState.update_execution_options()",
)
def _a_listener_that_invokes(s: Any, w: World) -> Any:
    @event.listens_for(w.sync(s), "do_orm_execute")
    def invoke(execution: ORMExecuteState) -> Any:
        execution.update_execution_options(y=1)
        found = execution.invoke_statement(
            statement=execution.statement, execution_options={"x": 1}, bind_arguments={}
        )
        return found.freeze()() if execution.is_select else found

    event.listen(w.sync(s), "do_orm_execute", lambda each: w.note(sorted(each.execution_options)))
    w.note(s.scalars(BY_NAME).all(), s.execute(IDS).all(), s.get(Box, w.a).things)
    w.note(s.scalar(select(Box.name).where(Box.id == w.a)))
    s.execute(update(Box).where(Box.id == w.a), {"name": "z"})
    return s.scalars(select(Box).where(Box.id == w.a)).one().name


@covers("ORMExecuteState.statement")
def _a_listener_that_adds_criteria(s: Any, w: World) -> Any:
    @event.listens_for(w.sync(s), "do_orm_execute")
    def only_one(execution: ORMExecuteState) -> None:
        if execution.is_select and not execution.is_column_load:
            only = with_loader_criteria(Box, lambda each: each.name != "b", include_aliases=True)
            execution.statement = execution.statement.options(only)

    w.note(s.get(Box, w.b), s.get(Box, w.a), s.scalars(THINGS).first().box)
    return s.scalars(BY_NAME).all(), s.execute(IDS).all()
