"""Wrong and borderline uses: invalid arguments, states and statements."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from sqlalchemy import bindparam, delete, event, func, insert, select, text, update
from sqlalchemy.orm import joinedload, make_transient, object_session, raiseload, sessionmaker

from tests.session_api.world import Box, Plain, Thing, Use, World

MISTAKES: dict[str, Use] = {}
REDACTED = "(3, null, q)", "(values left out: there may be keys among them)"
"""The row in PostgreSQL's error message, and its replacement: it may contain keys."""


def mistake(use: Use) -> Use:
    """Register a use by its name."""
    MISTAKES[use.__name__[1:].replace("_", " ")] = use
    return use


def boom() -> Any:
    """Raise an error of the application's own."""
    raise ValueError("boom")


def calls(method: str, *arguments: Any, **options: Any) -> Use:
    """Return a use that calls a method of the session."""
    return lambda session, _: getattr(session, method)(*arguments, **options)


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
        MISTAKES[f"{name} {what}"] = calls(name, given)
    for name in ("add_all", "bulk_save_objects"):
        MISTAKES[f"{name} {what}"] = calls(name, [given])
for what, given in CLASSES.items():
    for name in ("get", "get_one"):
        MISTAKES[f"{name} {what}"] = calls(name, given, 1)
    for name in ("bulk_insert_mappings", "bulk_update_mappings"):
        MISTAKES[f"{name} {what}"] = calls(name, given, [{"a": 1}])
    for name in ("query", "execute", "scalars"):
        MISTAKES[f"{name} {what}"] = calls(name, given)
for name in OF_INSTANCES[2:]:
    MISTAKES[f"{name} transient"] = calls(name, Box(name="q"))
for what, identity in IDENTITIES.items():
    MISTAKES[f"get {what}"] = calls("get", *identity)
    MISTAKES[f"get_one {what}"] = calls("get_one", *identity)
for what, options in OPTIONS.items():
    MISTAKES[f"get with {what}"] = calls("get", Thing, 1, **options)

# Statements, with wrong parameters and options
MISTAKES |= {
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
MISTAKES |= {
    "a missing parameter": lambda s, _: s.execute(text("select :x")),
    "a parameter not given": lambda s, _: s.scalars(
        select(Thing).where(Thing.id == bindparam("z"))
    ),
    "a key not given": lambda s, _: s.scalars(select(Box).where(Box.id == bindparam("z"))),
    "a value that raises": lambda s, _: s.scalars(
        select(Thing).where(Thing.note == bindparam("x", callable_=boom))
    ),
    "a key that raises": lambda s, _: s.scalars(
        select(Box).where(Box.id == bindparam("x", callable_=boom))
    ),
    "a new instance compared": lambda s, _: s.scalars(
        select(Thing).where(Thing.box == Box())
    ).all(),
    "a number out of range": lambda s, _: s.execute(select(Thing).where(Thing.id == 2**70)),
    "no such column": lambda s, _: s.execute(text("select nothing")),
    "no such attribute": lambda s, _: s.execute(select(Thing).where(Thing.foo == 1)),  # type: ignore[attr-defined]
    "values of no column": lambda s, _: s.execute(insert(Box).values(nope=1)),
    "an update of no column": lambda s, _: s.execute(update(Thing).values(nope=1)),
    "an update by no key": lambda s, _: s.execute(update(Thing), [{"note": "z"}]),
    "bulk_update by no key": lambda s, _: s.bulk_update_mappings(Thing, [{"note": "z"}]),
    "bulk_insert of nothing": lambda s, _: s.bulk_insert_mappings(Box, None),
    "an unknown synchronization": lambda s, _: s.execute(
        update(Thing).values(note="z").execution_options(synchronize_session="foo")
    ),
    "what cannot be evaluated": lambda s, _: s.execute(
        update(Thing)
        .where(func.random() > 1)
        .values(note="z")
        .execution_options(synchronize_session="evaluate")
    ),
    "rows of collections": lambda s, _: s.execute(
        select(Box).options(joinedload(Box.things))
    ).all(),
    "chunks of collections": lambda s, _: s.execute(
        select(Box).options(joinedload(Box.things)).execution_options(yield_per=1)
    ).all(),
    "an option of another class": lambda s, _: s.execute(
        select(Box).options(joinedload(Thing.box))
    ),
    "none of one": lambda s, _: s.scalars(select(Thing).where(Thing.note == "nope")).one(),
    "many of one": lambda s, _: s.scalars(select(Thing)).one(),
    "scalar_one": lambda s, _: s.execute(select(Thing)).scalar_one(),
    "a column that is not there": lambda s, _: s.execute(select(Thing.note)).first().foo,
    "raiseload": lambda s, _: s.scalars(select(Box).options(raiseload(Box.things))).first().things,
    "scalar of text": lambda s, _: s.scalar(text("select 'a'::text || 1")),
}

# Transactions and the session itself
MISTAKES |= {
    "begin twice": lambda s, _: (s.begin(), s.begin()),
    "begin late": lambda s, _: (s.execute(select(Thing)), s.begin()),
    "commit twice": lambda s, _: (s.commit(), s.commit()),
    "rollback": lambda s, _: s.rollback(),
    "prepare": lambda s, _: s.prepare(),
    "isolation late": lambda s, _: (
        s.execute(select(Thing)),
        s.connection(execution_options={"isolation_level": "SERIALIZABLE"}),
    ),
    "options of the connection": lambda s, _: dict(s.connection().get_execution_options()),
    "identity_key": lambda s, _: s.identity_key(Thing, 1),
    "identity_key of nothing": lambda s, _: s.identity_key(),
    "object_session": lambda *_: object_session(Plain()),
    "no bind": lambda s, _: type(s)().execute(text("select 1")),
    "no bind for a class": lambda s, _: type(s)().scalars(select(Box)),
    "an unknown argument": lambda s, _: type(s)(s.bind, foo=1),
    "an unknown mode": lambda s, _: type(s)(s.bind, join_transaction_mode="x"),
    "an unknown configuration": lambda s, _: sessionmaker(s.bind, class_=type(s), foo=1)(),
}


def gone(s: Any) -> Thing:
    """Return a loaded instance whose row the session does not know to be deleted."""
    thing: Thing = s.get(Thing, 1)
    s.execute(delete(Thing), execution_options={"synchronize_session": False})
    return thing


# Instances
MISTAKES |= {
    "a row that is gone": lambda s, _: (s.expire(thing := gone(s)), thing.note),
    "a row that is gone refreshed": lambda s, _: s.refresh(gone(s)),
    "a row that is gone deleted": lambda s, _: (s.delete(gone(s)), s.flush()),
    "refresh of no attribute": lambda s, _: s.refresh(s.scalars(select(Thing)).first(), ["zz"]),
    "merge of what is changed": lambda s, _: s.merge(Thing(id=1, note="q"), load=False),
    "merge of a new row": lambda s, _: s.merge(Thing(id=7, note="q")).note,
    "a wrong parent": lambda s, _: setattr(s.get(Thing, 1), "box", "x"),
    "a list that is none": lambda s, _: setattr(s.scalars(select(Box)).first(), "things", None),
    "an unknown attribute": lambda *_: Box(foo=1),
    "a pickled instance": lambda s, _: pickle.loads(pickle.dumps(s.get(Thing, 1))).note,  # noqa: S301
}


@mistake
def _commit_in_a_block(s: Any, _: World) -> None:
    with s.begin():
        s.commit()
        s.execute(select(Thing))


@mistake
def _close_for_good(s: Any, _: World) -> None:
    closed = type(s)(s.bind, close_resets_only=False)
    closed.close()
    closed.execute(select(Thing))


@mistake
def _after_a_failed_flush(s: Any, _: World) -> Any:
    s.add(Thing(note="q"))
    with pytest.raises(Exception, match="box_id"):
        s.flush()
    return s.scalars(select(Thing)).all()


@mistake
def _flush_in_a_flush(s: Any, _: World) -> None:
    event.listen(s, "before_flush", lambda *_: s.flush())
    s.add(Box(name="z"))
    s.flush()


@mistake
def _a_lazy_load_when_detached(s: Any, _: World) -> None:
    thing = s.scalars(select(Thing)).first()
    s.expunge(thing)
    thing.box.name  # noqa: B018


@mistake
def _an_expired_attribute_when_detached(s: Any, _: World) -> None:
    thing = s.scalars(select(Thing)).first()
    s.expire(thing)
    s.expunge(thing)
    thing.note  # noqa: B018


@mistake
def _a_deleted_instance_added(s: Any, _: World) -> None:
    thing = s.scalars(select(Thing)).first()
    s.delete(thing)
    s.flush()
    s.add(thing)


@mistake
def _a_row_that_is_gone_written(s: Any, _: World) -> None:
    gone(s).note = "q"
    s.flush()


@mistake
def _an_instance_of_another_session(s: Any, _: World) -> None:
    with type(s)(s.bind) as other:
        s.add(other.get(Thing, 1))


@mistake
def _two_instances_of_one_row(s: Any, _: World) -> None:
    with type(s)(s.bind) as other:
        thing = other.get(Thing, 1)
    s.get(Thing, 1)
    s.add(thing)


@mistake
def _a_made_transient_instance(s: Any, _: World) -> Any:
    thing = s.get(Thing, 1)
    make_transient(thing)
    thing.id = None
    s.add(thing)
    s.flush()
    return thing.id is not None


@mistake
def _a_wrong_member(s: Any, _: World) -> None:
    box = s.scalars(select(Box)).first()
    box.things.append(box)
    s.flush()


@mistake
def _a_result_that_is_closed(s: Any, _: World) -> None:
    result = s.execute(select(Thing))
    result.close()
    result.all()
