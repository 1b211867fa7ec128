"""What `Session` does with what it is given, right and wrong: plain and active sessions compared.

Each way is tried on both, with UUID keys that are shown as refs and integer keys that are not.
What comes of it must be the same: the value or the exception, its class and its text to the
letter, and the warnings. `OTHERWISE` has what cannot be the same, and why.
"""

from __future__ import annotations

import pickle
import re
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    ForeignKey,
    bindparam,
    delete,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    joinedload,
    make_transient,
    mapped_column,
    object_session,
    raiseload,
    relationship,
    sessionmaker,
)

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore

Way = Callable[[Any], Any]
WAYS: dict[str, Way] = {}


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Box(Base):
    """Has keys that are refs."""

    __tablename__ = "way_boxes"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    things: Mapped[list[Thing]] = relationship(back_populates="box", cascade="all, delete-orphan")


class Thing(Base):
    """Has keys that are not."""

    __tablename__ = "way_things"

    id: Mapped[int] = mapped_column(primary_key=True, info={"ref": None})
    box_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("way_boxes.id"))
    note: Mapped[str]
    box: Mapped[Box] = relationship(back_populates="things")


class Plain:
    """Is not mapped."""


def way(tried: Way) -> Way:
    """Note a way, by its name."""
    WAYS[tried.__name__[1:].replace("_", " ")] = tried
    return tried


def boom() -> Any:
    """Raise what a program's own callable may."""
    raise ValueError("boom")


def calls(method: str, *arguments: Any, **options: Any) -> Way:
    """Return a way that calls a method of the session."""
    return lambda session: getattr(session, method)(*arguments, **options)


UNMAPPED: dict[str, Any] = {"an object": Plain(), "nothing": None, "a class": Box, "a text": "x"}
CLASSES: dict[str, Any] = {**UNMAPPED, "a class": Plain, "a table": Box.__table__}
OF_INSTANCES = ["add", "merge", "delete", "refresh", "expire", "expunge", "is_modified"]
IDENTITIES: dict[str, tuple[Any, ...]] = {
    "too many": (Thing, (1, 2)),
    "by a wrong name": (Thing, {"x": 1}),
    "by none": (Thing, {}),
    "nothing": (Thing, None),
    "nothing of a box": (Box, None),
    "of no row": (Thing, 99),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "options of text": {"options": ["x"]},
    "a number of options": {"options": 3},
    "an unknown argument": {"foo": 1},
    "an unknown lock": {"with_for_update": {"foo": 1}},
    "a lock of text": {"with_for_update": "x"},
    "an identity token": {"identity_token": "x"},
}
for what, given in UNMAPPED.items():
    for name in (*OF_INSTANCES, "__contains__"):
        WAYS[f"{name} {what}"] = calls(name, given)
    for name in ("add_all", "bulk_save_objects"):
        WAYS[f"{name} {what}"] = calls(name, [given])
for what, given in CLASSES.items():
    for name in ("get", "get_one"):
        WAYS[f"{name} {what}"] = calls(name, given, 1)
    for name in ("bulk_insert_mappings", "bulk_update_mappings"):
        WAYS[f"{name} {what}"] = calls(name, given, [{"a": 1}])
    for name in ("query", "execute", "scalars"):
        WAYS[f"{name} {what}"] = calls(name, given)
for name in OF_INSTANCES[2:]:
    WAYS[f"{name} transient"] = calls(name, Box(name="q"))
for what, identity in IDENTITIES.items():
    WAYS[f"get {what}"] = calls("get", *identity)
    WAYS[f"get_one {what}"] = calls("get_one", *identity)
for what, options in OPTIONS.items():
    WAYS[f"get with {what}"] = calls("get", Thing, 1, **options)

# Statements, with wrong parameters and options
WAYS |= {
    f"{what} as parameters": calls("execute", select(Thing.note), given)
    for what, given in {
        "a text": "x",
        "a number": 3,
        "texts": ["x"],
        "pairs": [("a", 1)],
        "a mapping": {"a": 1},
        "nothing": None,
        "no mappings": [],
    }.items()
}
WAYS |= {
    "a missing parameter": lambda s: s.execute(text("select :x")),
    "a parameter not given": lambda s: s.scalars(select(Thing).where(Thing.id == bindparam("z"))),
    "a key not given": lambda s: s.scalars(select(Box).where(Box.id == bindparam("z"))),
    "a value that raises": lambda s: s.scalars(
        select(Thing).where(Thing.note == bindparam("x", callable_=boom))
    ),
    "a key that raises": lambda s: s.scalars(
        select(Box).where(Box.id == bindparam("x", callable_=boom))
    ),
    "a new instance compared": lambda s: s.scalars(select(Thing).where(Thing.box == Box())).all(),
    "a number out of range": lambda s: s.execute(select(Thing).where(Thing.id == 2**70)),
    "no such column": lambda s: s.execute(text("select nothing")),
    "no such attribute": lambda s: s.execute(select(Thing).where(Thing.foo == 1)),  # type: ignore[attr-defined]
    "values of no column": lambda s: s.execute(insert(Box).values(nope=1)),
    "an update of no column": lambda s: s.execute(update(Thing).values(nope=1)),
    "an update by no key": lambda s: s.execute(update(Thing), [{"note": "z"}]),
    "bulk_update by no key": lambda s: s.bulk_update_mappings(Thing, [{"note": "z"}]),
    "bulk_insert of nothing": lambda s: s.bulk_insert_mappings(Box, None),
    "an unknown synchronization": lambda s: s.execute(
        update(Thing).values(note="z").execution_options(synchronize_session="foo")
    ),
    "what cannot be evaluated": lambda s: s.execute(
        update(Thing)
        .where(func.random() > 1)
        .values(note="z")
        .execution_options(synchronize_session="evaluate")
    ),
    "rows of collections": lambda s: s.execute(select(Box).options(joinedload(Box.things))).all(),
    "chunks of collections": lambda s: s.execute(
        select(Box).options(joinedload(Box.things)).execution_options(yield_per=1)
    ).all(),
    "an option of another class": lambda s: s.execute(select(Box).options(joinedload(Thing.box))),
    "none of one": lambda s: s.scalars(select(Thing).where(Thing.note == "nope")).one(),
    "many of one": lambda s: s.scalars(select(Thing)).one(),
    "scalar_one": lambda s: s.execute(select(Thing)).scalar_one(),
    "a column that is not there": lambda s: s.execute(select(Thing.note)).first().foo,
    "raiseload": lambda s: s.scalars(select(Box).options(raiseload(Box.things))).first().things,
    "scalar of text": lambda s: s.scalar(text("select 'a'::text || 1")),
}

# Transactions and the session itself
WAYS |= {
    "begin twice": lambda s: (s.begin(), s.begin()),
    "begin late": lambda s: (s.execute(select(Thing)), s.begin()),
    "commit twice": lambda s: (s.commit(), s.commit()),
    "rollback": lambda s: s.rollback(),
    "prepare": lambda s: s.prepare(),
    "isolation late": lambda s: (
        s.execute(select(Thing)),
        s.connection(execution_options={"isolation_level": "SERIALIZABLE"}),
    ),
    "options of the connection": lambda s: dict(s.connection().get_execution_options()),
    "info": lambda s: s.info,
    "identity_key": lambda s: s.identity_key(Thing, 1),
    "identity_key of nothing": lambda s: s.identity_key(),
    "object_session": lambda _: object_session(Plain()),
    "no bind": lambda s: type(s)().execute(text("select 1")),
    "no bind for a class": lambda s: type(s)().scalars(select(Box)),
    "an unknown argument": lambda s: type(s)(s.bind, foo=1),
    "an unknown mode": lambda s: type(s)(s.bind, join_transaction_mode="x"),
    "an unknown configuration": lambda s: sessionmaker(s.bind, class_=type(s), foo=1)(),
}


@way
def _commit_in_a_block(s: Any) -> None:
    with s.begin():
        s.commit()
        s.execute(select(Thing))


@way
def _close_for_good(s: Any) -> None:
    closed = type(s)(s.bind, close_resets_only=False)
    closed.close()
    closed.execute(select(Thing))


@way
def _after_a_failed_flush(s: Any) -> Any:
    s.add(Thing(note="q"))
    with pytest.raises(Exception, match="box_id"):
        s.flush()
    return s.scalars(select(Thing)).all()


@way
def _flush_in_a_flush(s: Any) -> None:
    event.listen(s, "before_flush", lambda *_: s.flush())
    s.add(Box(name="z"))
    s.flush()


@way
def _a_lazy_load_when_detached(s: Any) -> None:
    thing = s.scalars(select(Thing)).first()
    s.expunge(thing)
    thing.box.name  # noqa: B018


@way
def _an_expired_attribute_when_detached(s: Any) -> None:
    thing = s.scalars(select(Thing)).first()
    s.expire(thing)
    s.expunge(thing)
    thing.note  # noqa: B018


@way
def _refresh_of_no_attribute(s: Any) -> None:
    s.refresh(s.scalars(select(Thing)).first(), ["zz"])


@way
def _a_deleted_instance_added(s: Any) -> None:
    thing = s.scalars(select(Thing)).first()
    s.delete(thing)
    s.flush()
    s.add(thing)


@way
def _a_row_that_is_gone(s: Any) -> None:
    thing = s.get(Thing, 1)
    s.execute(delete(Thing), execution_options={"synchronize_session": False})
    s.expire(thing)
    thing.note  # noqa: B018


@way
def _a_row_that_is_gone_refreshed(s: Any) -> None:
    thing = s.get(Thing, 1)
    s.execute(delete(Thing), execution_options={"synchronize_session": False})
    s.refresh(thing)


@way
def _a_row_that_is_gone_written(s: Any) -> None:
    thing = s.get(Thing, 1)
    s.execute(delete(Thing), execution_options={"synchronize_session": False})
    thing.note = "q"
    s.flush()


@way
def _a_row_that_is_gone_deleted(s: Any) -> None:
    thing = s.get(Thing, 1)
    s.execute(delete(Thing), execution_options={"synchronize_session": False})
    s.delete(thing)
    s.flush()


@way
def _an_instance_of_another_session(s: Any) -> None:
    with type(s)(s.bind) as other:
        s.add(other.get(Thing, 1))


@way
def _two_instances_of_one_row(s: Any) -> None:
    with type(s)(s.bind) as other:
        thing = other.get(Thing, 1)
    s.get(Thing, 1)
    s.add(thing)


@way
def _merge_of_what_is_changed(s: Any) -> None:
    s.merge(Thing(id=1, note="q"), load=False)


@way
def _merge_of_a_new_row(s: Any) -> Any:
    return s.merge(Thing(id=7, note="q")).note


@way
def _a_made_transient_instance(s: Any) -> Any:
    thing = s.get(Thing, 1)
    make_transient(thing)
    thing.id = None
    s.add(thing)
    s.flush()
    return thing.id is not None


@way
def _a_wrong_member(s: Any) -> None:
    box = s.scalars(select(Box)).first()
    box.things.append(box)
    s.flush()


@way
def _a_wrong_parent(s: Any) -> None:
    s.get(Thing, 1).box = "x"


@way
def _a_list_that_is_none(s: Any) -> None:
    s.scalars(select(Box)).first().things = None


@way
def _an_unknown_attribute(_: Any) -> None:
    Box(foo=1)


@way
def _a_result_that_is_closed(s: Any) -> None:
    result = s.execute(select(Thing))
    result.close()
    result.all()


@way
def _a_pickled_instance(s: Any) -> Any:
    return pickle.loads(pickle.dumps(s.get(Thing, 1))).note  # noqa: S301  # our own


# What is not the same in a text, and why it must be so
OTHERWISE: dict[str, tuple[str, str]] = {
    # the database repeats the row, which may have keys in it
    "after a failed flush": (
        "(3, null, q)",
        "(values left out: there may be keys among them)",
    ),
}

_ADDRESS = re.compile(r"0x[0-9a-f]+|session '[0-9]+'|this is '[0-9]+'")


def outcome(session: Any, tried: Way) -> tuple[str, str, list[str]]:
    """Return what comes of a way: the class of an exception, the text, and the warnings."""
    with session, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind, said = "", repr(tried(session))
        except Exception as error:  # noqa: BLE001  # whatever comes of it
            kind, said = f"{type(error).__module__}.{type(error).__qualname__}", str(error)
    said = _ADDRESS.sub("…", said.replace("RefSession", "Session"))
    return kind, said, [_ADDRESS.sub("…", str(each.message)) for each in caught]


def test_a_session_has_the_ways_of_a_plain_one(tables: Engine) -> None:
    """Whatever it is given: values, classes and texts of errors, and warnings."""
    Base.metadata.create_all(tables)
    with Session(tables) as filling:
        filling.add(Box(name="a", things=[Thing(note="x"), Thing(note="y")]))
        filling.commit()
    registry = RefRegistry(store=MemoryStore())
    different = {}
    for name, tried in WAYS.items():
        plain = outcome(Session(tables), tried)
        active = outcome(RefSession(tables, conversation=registry.conversation(name)), tried)
        if plain != active:
            different[name] = plain, active

    for name, (word, becomes) in OTHERWISE.items():
        (kind, said, warned), active = different.pop(name)
        assert (kind, said.replace(word, becomes), warned) == active
    assert different == {}
