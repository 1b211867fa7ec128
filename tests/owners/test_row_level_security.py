"""The second wall: the policies of `docs/owner.md`, run as written, stop what passes the first."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, func, select, text, update
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from alfred_refs import (
    Ownership,
    PostgresStore,
    RefRegistry,
    RefSession,
    RegistryFailedError,
    RegistryTablesError,
)
from alfred_refs.cli.doctor import policy_findings
from alfred_refs.store import Address, NewDraft
from tests import owned
from tests.owned import Ingredient, Line, Plan, Recipe, User

PAGE = Path(__file__).parents[2] / "docs" / "owner.md"
ANN, BOB = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def app(engine: Engine) -> Iterator[Engine]:
    """An engine on owned tables with policies, of a role that they hold for."""
    owned.Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all([User(id=ANN, name="ann"), User(id=BOB, name="bob")])
        session.flush()
        for name, person in (("ann", ANN), ("bob", BOB), ("all", None)):
            recipe = Recipe(name=name, user_id=person, lines=[Line(text=name)])
            session.add(recipe)
            if person:
                session.add(Plan(user_id=person, code=name))
    role = f"app_{uuid.uuid4().hex}"
    with engine.begin() as connection:
        for program in re.findall(r"```sql\n(create .*?)```", PAGE.read_text(), re.DOTALL):
            renamed = re.sub(r"\b(role|to) app\b", rf"\1 {role}", program)
            connection.exec_driver_sql(renamed)
        connection.exec_driver_sql(f"alter role {role} password '{role}'")
        connection.exec_driver_sql(f"grant select on recipe_tags, recipe_links to {role}")
    app = create_engine(engine.url.set(username=role, password=role))
    yield app
    app.dispose()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"drop owned by {role}")
        connection.exec_driver_sql(f"drop role {role}")


@pytest.fixture
def ownership() -> Ownership:
    """How rows belong, with the setting that the policies go by."""
    return owned.ownership(setting="app.owner")


RAW = text("select name from recipes order by name")


def test_policies_and_session_agree(app: Engine, ownership: Ownership) -> None:
    """An owned session works behind the second wall as it does without."""
    with RefSession(app, owner=ownership.of(ANN)) as session:
        assert sorted(session.scalars(select(Recipe.name))) == ["all", "ann"]
        assert sorted(session.scalars(select(Line.text))) == ["all", "ann"]
        session.add(Recipe(name="new", lines=[Line(text="new")]))
        session.execute(update(Plan).values(day=3))
        session.commit()
        assert session.scalars(select(Plan.day)).all() == [3]
        session.delete(session.scalars(select(Recipe).where(Recipe.name == "new")).one())
        session.commit()


def test_what_bypasses_the_session_meets_the_policies(app: Engine, ownership: Ownership) -> None:
    """Raw SQL on the connection, by the option and by unconfined code."""
    with RefSession(app, owner=ownership.of(ANN)) as session:
        with session.unconfined():
            connection = session.connection()
            assert connection.scalars(RAW).all() == ["all", "ann"]
            changed = connection.execute(text("update recipes set name = 'x' where name <> 'y'"))
            assert changed.rowcount == 1
            assert session.scalar(select(func.count()).select_from(Plan)) == 1
        unconfined = {"unconfined": True}
        assert session.scalars(RAW, execution_options=unconfined).all() == ["all", "x"]
        session.rollback()
        assert session.scalars(RAW, execution_options=unconfined).all() == ["all", "ann"]


FAULTS = [
    "row-level security is not enabled",
    "its owner is this role, or one whose rights it has",
    "there is no policy",
    "this role is a superuser, or has BYPASSRLS",
]


def test_the_policies_of_the_page_are_checked(app: Engine, engine: Engine) -> None:
    """The application's role has no finding; a superuser that owns a bare table has all four."""
    tables: list[Any] = [each.__table__ for each in (Recipe, Line, Plan)]
    with app.connect() as connection:
        assert [*policy_findings(connection, tables)] == []
    other: Any = Ingredient.__table__
    with engine.connect() as connection:
        found = [each.finding for each in policy_findings(connection, [other])]
        connection.execute(text("alter table recipes force row level security"))
        forced = [each.finding for each in policy_findings(connection, tables[:1])]
    assert found == FAULTS
    assert forced == FAULTS[-1:]


@pytest.fixture
def granted(app: Engine, engine: Engine) -> Engine:
    """The same, with the rights on the registry's tables that the page gives."""
    RefRegistry(engine).create_tables()
    with pytest.raises(RegistryFailedError, match=r"permission denied .*42501.* grant"):
        RefRegistry(app).conversation("chat-7").refer("recipe", 1)
    [grants] = re.findall(r"```sql\n(grant usage .*?)```", PAGE.read_text(), re.DOTALL)
    with engine.begin() as connection:
        connection.exec_driver_sql(re.sub(r"\bto app\b", f"to {app.url.username}", grants))
    return app


def test_the_page_gives_the_role_what_the_registry_needs(granted: Engine) -> None:
    """Whatever a registry does works with these rights."""
    registry = RefRegistry(granted)
    registry.create_tables()
    chat = registry.conversation("chat-7", owner="ann")
    chat.begin_turn()
    assert chat.refer_all("recipe", [1, 2]) == ["recipe_1", "recipe_2"]
    chat.retain(["recipe_1"], "liked")
    chat.add_step({"note": "x"})
    PostgresStore(granted).draft(Address("chat-7", "ann"), [NewDraft("recipe", "{}")])
    chat.fork("chat-8").forget()
    assert registry.erase("recipe", 1) == 1
    assert registry.prune(timedelta()) == 1


def test_tables_in_a_schema_that_the_role_may_not_use_are_told_so(
    granted: Engine, engine: Engine
) -> None:
    """PostgreSQL says of them what it says of tables that are not there."""
    with engine.begin() as connection:
        connection.exec_driver_sql("create schema refs")
        for name in RefRegistry(engine).metadata.tables:
            connection.exec_driver_sql(f"alter table {name} set schema refs")
    query = {**granted.url.query, "options": "-csearch_path=refs"}
    hidden = create_engine(granted.url.set(query=query))
    with pytest.raises(RegistryTablesError, match="the role needs USAGE on their schema"):
        RefRegistry(hidden).conversation("chat-7").refer("recipe", 1)
    hidden.dispose()


@pytest.mark.parametrize("owner", [BOB, None])
def test_rows_of_others_are_not_made(app: Engine, ownership: Ownership, owner: object) -> None:
    """Not even by what the session does not look at."""
    with RefSession(app, owner=ownership.of(ANN)) as session, session.unconfined():
        session.add(Recipe(name="x", user_id=owner))
        with pytest.raises(ProgrammingError, match="row-level security"):
            session.commit()


def test_the_setting_ends_with_the_transaction(app: Engine, ownership: Ownership) -> None:
    """The next user of the connection is nobody, until it says otherwise."""
    with RefSession(app, owner=ownership.of(ANN)) as session:
        session.scalars(select(Recipe)).all()
        session.commit()
    with app.connect() as connection:
        assert connection.scalars(RAW).all() == ["all"]
    with RefSession(app, owner=ownership.of(BOB)) as session, session.unconfined():
        assert session.connection().scalars(RAW).all() == ["all", "bob"]


def test_the_setting_costs_a_statement_a_transaction(app: Engine, ownership: Ownership) -> None:
    """One at its begin, and none beside the statements after."""
    sent: list[str] = []

    event.listen(app, "before_cursor_execute", lambda *given: sent.append(given[2].split("(")[0]))
    with RefSession(app, owner=ownership.of(ANN)) as session:
        session.scalars(select(Plan.code)).all()
        with session.begin_nested():
            session.scalars(select(Plan.code)).all()
    assert [each for each in sent if "set_config" in each] == ["SELECT set_config"]
