"""For random calls on random schemas: a plan is the effect, and an undo takes all of it back."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, note, settings, strategies as st
from sqlalchemy import Engine, Select, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import load_only, sessionmaker
from sqlalchemy.orm.exc import StaleDataError

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import UnknownConversationError
from alfred_refs.tools import BoundToolset, Toolset
from tests.profiles import examples
from tests.tools.shop.random_shops import Rows, Shop, quoted, random_shop


def difference(before: Rows, after: Rows) -> dict[str, tuple[int, int]]:
    """Return by table how many rows are gone, or have come: those that differ are both."""
    return {
        name: ((before[name] - after[name]).total(), (after[name] - before[name]).total())
        for name in before
        if before[name] != after[name]
    }


def recorded(desk: BoundToolset, number: int) -> dict[str, tuple[int, int]]:
    """Return the same of the changes that are kept of a call."""
    gone, come = Counter[str](), Counter[str]()
    for change in desk.conversation("c").calls.changes([number]):
        gone[change.table] += change.action != "created"
        come[change.table] += change.action != "deleted"
    return {name: (gone[name], come[name]) for name in {**gone, **come}}


def random_call(shop: Shop, desk: BoundToolset) -> tuple[str, Any]:
    """Return a call of a tool."""
    random, tables = shop.random, desk.toolset.tables
    model = random.choice(shop.models)
    table = tables.of_model(model)
    assert table is not None
    rows = desk.call("c", None, "db_read", {"table": table.name, "columns": [table.ref_field]})
    refs = [row[table.ref_field] for row in rows.value.get("rows", [])]
    ref = random.choice(refs) if refs else f"{table.entity}_1"
    named = {"table": table.name, "filters": [{"field": table.ref_field, "op": "=", "value": ref}]}
    kind = random.choice(["create", "update", "delete", "delete", "own", "own"])
    if kind == "create":
        return "db_create", {"table": table.name, "data": _data(shop, desk, model, deep=True)}
    if kind == "update":
        return "db_update", {**named, "data": _data(shop, desk, model)}
    if kind == "delete":
        return "db_delete", named
    return "run", {"seed": random.randint(0, 10**6)}


def _own_data(shop: Shop, model: Any, *, new: bool) -> dict[str, Any]:
    """Return values of columns that refer to nothing."""
    random = shop.random
    data: dict[str, Any] = {"label": random.choice(["new", "other"])}
    for name, column in model.__mapper__.columns.items():
        if column.info.get("given") and random.random() < 0.6:
            data[name] = random.choice(column.info["given"])
        elif new and column.info.get("key") in ("number", "given", "text"):
            number = random.randint(100, 10**6)
            data[name] = str(number) if column.info["key"] == "text" else number
    return data


def _data(shop: Shop, desk: BoundToolset, model: Any, *, deep: bool = False) -> dict[str, Any]:
    random, table = shop.random, desk.toolset.tables.of_model(model)
    assert table is not None
    data = _own_data(shop, model, new=deep)
    for name in ("parent_id", "next_id"):
        column = table.columns.get(name)
        if column is None or column.key is None or (not deep and random.random() < 0.6):
            continue
        entity = column.key.entity
        target = next((t for t in desk.toolset.tables if t.entity == entity), None)
        if target is None:  # the class of the parent is not listed
            continue
        found = desk.call("c", None, "db_read", {"table": target.name}).value.get("rows", [])
        if found and random.random() < 0.8:
            data[name] = random.choice(found)[target.ref_field]
    if deep:
        for name, relation in model.__mapper__.relationships.items():
            target = relation.mapper.class_
            if relation.uselist and target in shop.models and target is not model:
                inside = _own_data(shop, target, new=True)
                inside.pop("parent_id", None)
                if name in table.targets and random.random() < 0.6:
                    data[name] = [inside]
    return data


def work(shop: Shop, session: RefSession, seed: int) -> dict[str, Any]:
    """Change rows as an application does; what the database refuses is not done."""
    random = Random(seed)  # noqa: S311
    mappers = shop.models[0].registry.mappers
    models = sorted((each.class_ for each in mappers), key=lambda class_: class_.__name__)
    for _ in range(random.randint(1, 3)):
        model = random.choice(models)
        step = random.choice([flushed, bulk, by_core, removed, removed_by_core, renamed])
        with suppress(SQLAlchemyError, AssertionError), session.begin_nested():
            step(session, model)
            session.flush()
    return {"done": True}


def labelled(model: Any) -> Select[Any]:
    """Return the SELECT of a class's rows, which are in the same order each time."""
    return select(model).options(load_only(model.label)).order_by(model.label)


def flushed(session: RefSession, model: Any) -> None:
    """Change instances."""
    for row in session.scalars(labelled(model)).all()[:2]:
        row.label = f"{row.label} flushed"


def bulk(session: RefSession, model: Any) -> None:
    """Change all rows of a class."""
    session.execute(update(model).values(label=model.label + "!"))


def by_core(session: RefSession, model: Any) -> None:
    """Change rows of a table."""
    table = model.__table__
    session.execute(table.update().where(table.c.label.like("%1")), [{"label": "core"}])


def removed(session: RefSession, model: Any) -> None:
    """Delete an instance."""
    for row in session.scalars(labelled(model)).all()[:1]:
        session.delete(row)


def removed_by_core(session: RefSession, model: Any) -> None:
    """Delete rows of a table."""
    table = model.__table__
    session.execute(table.delete().where(table.c.label.like("%2")))


def renamed(session: RefSession, model: Any) -> None:
    """Give a row another primary key."""
    table = model.__table__
    for key in table.primary_key:
        new = {"text": "renamed", "given": 77, "number": 78}.get(key.info.get("key", ""))
        if new is not None:
            session.execute(table.update().where(table.c.label.like("%0")).values({key: new}))


def bound(shop: Shop, engine: Engine, registry: RefRegistry, **options: Any) -> BoundToolset:
    """Return a desk on the tables of a schema."""
    toolset = Toolset(shop.models, expect="optional", **options)

    @toolset.tool
    def run(session: RefSession, seed: int) -> dict[str, Any]:
        """Change something."""
        return work(shop, session, seed)

    return toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry, journal=True)


def disturb(shop: Shop, engine: Engine) -> None:
    """Change a row, as somebody else may meanwhile."""
    with engine.begin() as connection:
        table = shop.random.choice(shop.metadata.sorted_tables)
        name = quoted(table)
        with suppress(SQLAlchemyError), connection.begin_nested():
            if "label" in table.columns and shop.random.random() < 0.5:
                connection.exec_driver_sql(f"UPDATE {name} SET label = label || '?'")
            else:
                connection.exec_driver_sql(
                    f"DELETE FROM {name} WHERE ctid = (SELECT min(ctid) FROM {name})"
                )


@pytest.fixture
def registry(engine: Engine) -> RefRegistry:
    """A registry in the same database."""
    return RefRegistry(engine)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # keys that a call leaves out
@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")  # DOMAIN
@settings(
    deadline=None,
    max_examples=examples(int(os.environ.get("RANDOM_EFFECTS", "30"))),
    phases=[Phase.explicit, Phase.generate],  # a smaller seed is not a smaller schema
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**48))
@example(seed=106)  # links without primary key block a delete
@example(seed=80_780_599_053)  # the class of a parent is not listed
def test_a_plan_is_the_effect_and_an_undo_takes_it_back(
    engine: Engine, registry: RefRegistry, seed: int
) -> None:
    """Plan, approval, history, undo and redo agree with the bytes of all tables."""
    random = Random(seed)  # noqa: S311
    shop = random_shop(random)
    note("\n".join(shop.described))
    shop.create(engine)
    try:
        for _ in range(3):
            check(shop, engine, registry)
    finally:
        shop.drop(engine)
        with suppress(UnknownConversationError):  # nothing was read in it
            registry.conversation("c").forget()


def check(shop: Shop, engine: Engine, registry: RefRegistry) -> None:
    """Check one random call."""
    asks = shop.random.random() < 0.6
    desk = bound(shop, engine, registry, **({"consent": lambda _: True} if asks else {}))
    tool, given = random_call(shop, desk)
    note(f"{tool} {given}")
    before = shop.stored(engine)

    try:
        plan = desk.plan("c", None, tool, given)
    except StaleDataError:  # the mapping deletes rows that the database has deleted along
        event("stale")
        assert shop.stored(engine) == before
        return
    note(plan.text)
    assert shop.stored(engine) == before

    if asks and plan.refusal is None:
        answer = desk.call("c", None, tool, given)
        assert shop.stored(engine) == before
        number = answer.pending
        assert number is not None, answer.value
        is_disturbed = shop.random.random() < 0.3
        if is_disturbed:
            disturb(shop, engine)
            before = shop.stored(engine)
        answer = desk.approve("c", None, number, by="ann")
        if answer.failed:
            event(f"approved: {answer.value['error']['code']}")
            assert is_disturbed, answer.value
            assert shop.stored(engine) == before
            return
    else:
        answer = desk.call("c", None, tool, given)
        assert answer.failed == (plan.refusal is not None), answer.value
    after = shop.stored(engine)
    if answer.failed:
        event(f"{tool} refused: {answer.value['error']['code']}")
        note(answer.text)
        assert after == before
        return
    records = desk.history("c")
    if not records or (not plan.rows and not plan.others):
        event(f"{tool} does nothing")
        assert after == before
        return
    event(f"{tool} done")
    number = records[-1].call
    assert recorded(desk, number) == difference(before, after)

    check_undo(shop, engine, desk, number, before)


def check_undo(shop: Shop, engine: Engine, desk: BoundToolset, number: int, before: Rows) -> None:
    """Check that a call is undone and done again, or the undo is refused."""
    after = shop.stored(engine)
    undone = desk.undo("c", call=number, by="ann")
    if undone.refusal is not None:
        event(f"undo refused: {undone.refusal['message'][-60:]}")
        note(str(undone.refusal))
        assert shop.stored(engine) == after
        return
    assert shop.stored(engine) == before
    event("undone")
    redone = desk.undo("c", call=number + 1, by="ann")
    assert redone.refusal is None, redone.refusal
    assert shop.stored(engine) == after
    event("redone")
