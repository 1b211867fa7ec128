"""For any statement: an owned session answers as if other owners' rows were not there.

The same statement runs in an owned session on all rows, and in a plain one on a database that has
the visible rows alone. Writes change what they change there, and nothing of anybody else's.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, create_engine, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from alfred_refs import Ownership, RefSession
from tests import owned
from tests.fix_postgres import PreparedDatabases
from tests.owned import Animal, Cat, Dog, Ingredient, Line, Plan, Recipe, Remark, User
from tests.profiles import examples

ANN, BOB = uuid.UUID(int=1), uuid.UUID(int=2)
KINDS: list[Any] = [Recipe, Line, Plan, Remark, Animal, Dog, Cat, User, Ingredient]
WRITTEN: list[Any] = [Recipe, Line, Plan, Remark, Animal]


@dataclass(frozen=True)
class Worlds:
    """All rows, and those that ann may see alone."""

    all: Engine
    seen: Engine


@pytest.fixture(scope="module")
def worlds(owned_databases: PreparedDatabases) -> Iterator[Worlds]:
    """Two databases: of everybody's rows, and without bob's."""
    with owned_databases.lent() as everything, owned_databases.lent() as part:
        found = Worlds(create_engine(everything), create_engine(part))
        _fill(found.all, [ANN, BOB, None])
        _fill(found.seen, [ANN, None])
        yield found
        found.all.dispose()
        found.seen.dispose()


def _fill(engine: Engine, people: list[uuid.UUID | None]) -> None:
    """Make two recipes of each, the second a variant of the first, and what hangs on them."""
    with Session(engine) as session:
        session.add_all(User(id=person, name=str(person)) for person in people if person)
        session.add(Ingredient(id=uuid.UUID(int=5), name="salt"))
        session.flush()
        for person in people:
            _add(session, person)
        session.commit()


def _add(session: Session, person: uuid.UUID | None) -> None:
    numbers = itertools.count(100 * (person.int if person else 3))
    parent = None
    for name in "ab":
        minutes = next(numbers) % 3
        recipe = Recipe(id=_key(numbers), user_id=person, name=name, minutes=minutes)
        recipe.parent_id, parent = parent, recipe.id
        session.add(recipe)
        session.flush()
        line = Line(id=_key(numbers), recipe_id=parent, text=name, position=next(numbers) % 3)
        session.add(line)
        session.flush()
        session.add(Remark(id=_key(numbers), line_id=line.id, text=name))
        if person is not None:
            session.add(Plan(id=_key(numbers), user_id=person, recipe_id=parent))
            session.add(Dog(id=_key(numbers), user_id=person, name=name))
            session.add(Cat(id=_key(numbers), user_id=person, name=name))
        session.flush()


def _key(numbers: Iterator[int]) -> uuid.UUID:
    return uuid.UUID(int=next(numbers))


# Statements


def keys_of(entity: Any) -> list[Any]:
    """Return the attributes of an entity that are keys, all comparable with each other."""
    names = ("id", "user_id", "recipe_id", "parent_id", "line_id")
    return [getattr(entity, name) for name in names if hasattr(entity, name)]


@st.composite
def criteria(draw: Any, entities: list[Any], depth: int = 2) -> Any:
    """A criterion on some entities, with subqueries on others."""
    entity = draw(st.sampled_from(entities))
    key = draw(st.sampled_from(keys_of(entity)))
    other = draw(entity_of(KINDS, ("alias", "subquery")))  # a class may be correlated away
    other_key = draw(st.sampled_from(keys_of(other)))
    simple = [
        key.is_not(None),
        key == uuid.UUID(int=draw(st.integers(1, 320))),
        key > uuid.UUID(int=draw(st.integers(1, 320))),
        key.in_(select(other_key)),
        key.not_in(select(other_key).where(other_key.is_not(None))),
        exists().where(other_key == key),
        select(func.count()).select_from(other).scalar_subquery() > draw(st.integers(0, 8)),
    ]
    found = draw(st.sampled_from(simple))
    if depth and draw(st.booleans()):
        more = draw(criteria(entities, depth - 1))
        found = draw(st.sampled_from([found & more, or_(found, more), ~found]))
    return found


@st.composite
def entity_of(
    draw: Any, kinds: list[Any], forms: tuple[str, ...] = ("class", "alias", "subquery")
) -> Any:
    """A class, or an alias of one, or of a subquery of one."""
    kind = draw(st.sampled_from(kinds))
    form = draw(st.sampled_from(forms))
    if form == "subquery":
        return aliased(kind, select(kind).subquery())
    return aliased(kind) if form == "alias" else kind


@st.composite
def reads(draw: Any, depth: int = 2) -> Any:
    """A select of two keys."""
    first = draw(entity_of(KINDS))
    entities, statement = [first], None
    key = draw(st.sampled_from(keys_of(first)))
    joined = draw(st.sampled_from(["no", "inner", "outer", "full", "where"]))
    if joined == "no":
        statement = select(key.label("x"), first.id.label("y")).select_from(first)
    else:
        second = aliased(draw(st.sampled_from(KINDS)))
        on = key == draw(st.sampled_from(keys_of(second)))
        columns = select(key.label("x"), second.id.label("y")).select_from(first)
        entities.append(second)
        statement = {
            "inner": lambda: columns.join(second, on),
            "outer": lambda: columns.outerjoin(second, on),
            "full": lambda: columns.join(second, on, full=True),
            "where": lambda: columns.where(on),
        }[joined]()
    if draw(st.booleans()):
        statement = statement.where(draw(criteria(entities)))
    return draw(wrapped(statement, depth))


@st.composite
def wrapped(draw: Any, statement: Any, depth: int) -> Any:
    """A select, or something made of it."""
    form = draw(st.sampled_from(["plain", "plain", "cte", "subquery", "union", "except", "count"]))
    if form == "plain" or not depth:
        return statement
    if form in ("union", "except"):
        other = draw(reads(depth - 1))
        combined = statement.union_all(other) if form == "union" else statement.except_(other)
        part = combined.subquery()
    else:
        part = statement.cte() if form == "cte" else statement.subquery()
    if form == "count":
        few = func.count() > draw(st.integers(0, 2))
        return select(part.c.x, part.c.y).group_by(part.c.x, part.c.y).having(few)
    return select(part.c.x, part.c.y)


@st.composite
def writes(draw: Any) -> tuple[Any, Any]:
    """An update or delete, and the class that it writes."""
    kind = draw(st.sampled_from(WRITTEN))
    if kind is Remark and draw(st.booleans()):
        statement: Any = delete(Remark)
    else:
        name = {Recipe: "minutes", Line: "position", Plan: "day"}.get(kind)
        values: dict[str, Any] = {name: 77} if name else {}
        statement = update(kind).values(values or {"text" if kind is Remark else "name": "77"})
    if draw(st.booleans()):
        statement = statement.where(draw(criteria([kind])))
    return statement, kind


# Properties


def owner() -> Any:
    """Return ann, as sessions are given her."""
    return OWNERSHIP.of(ANN)


OWNERSHIP: Ownership = owned.ownership()
SETTINGS = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SETTINGS
@given(statement=reads())
@pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian product")
def test_reads_are_as_if_no_other_rows_were_there(worlds: Worlds, statement: Any) -> None:
    """Not a row more, and not a row less."""
    with RefSession(worlds.all, owner=owner()) as session, Session(worlds.seen) as plain:
        found = Counter(map(tuple, session.execute(statement)))
        assert found == Counter(map(tuple, plain.execute(statement)))


@SETTINGS
@given(written=writes())
def test_writes_are_as_if_no_other_rows_were_there(worlds: Worlds, written: Any) -> None:
    """What is the owner's changes as it would alone; nothing else changes."""
    statement, kind = written
    mine = owner().writable(kind)
    with (
        RefSession(worlds.all, owner=owner()) as session,
        Session(worlds.seen) as plain,
        session.no_autoflush,
    ):
        before = _rows(session, kind)
        session.execute(statement)
        plain.execute(statement.where(mine).execution_options(synchronize_session=False))
        after = _rows(session, kind)
        changed = {key for key in before if before[key] != after.get(key)}
        expected = _rows(plain, kind)
        assert {key: after.get(key) for key in expected} == expected
        assert changed <= {key for key in before if 100 <= key.int < 200}
        session.rollback()
        plain.rollback()


def _rows(session: Session, kind: Any) -> dict[Any, Any]:
    """Return all rows of a class's table, whosever they are, by their keys."""
    table = kind.__table__
    found = session.execute(select(table), execution_options={"unconfined": True})
    return {row.id: tuple(row) for row in found}
