"""The rows of three owners and shared rows, with policies that separate them.

Every table has a policy that states who owns its rows. Triggers, for the role only, do what a
policy cannot: they stamp new rows, and refuse a foreign key to a row that the role does not see.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Table, insert, text
from sqlalchemy.orm import Session

from tests.isolation import models
from tests.isolation.models import Base

OWNERS = {"ann": 1, "bob": 2, "cid": 3}
ROLE = f"isolated_{uuid.uuid4().hex}"  # roles belong to the server: each process makes its own

_OWN = "{} = app_owner()"
_RECIPE = "select from recipes r where r.id = recipe_id and r.user_id {}"
_LINE = "select from lines l join recipes r on r.id = l.recipe_id where l.id = line_id and {}"

_POLICIES: Mapping[str, tuple[str, str | None]] = {
    # table -> condition of the owner's rows, and of the shared rows that all may read
    "users": (_OWN.format("id"), None),
    "recipes": (_OWN.format("user_id"), "user_id is null"),
    "lines": (
        f"exists ({_RECIPE.format('= app_owner()')})",
        f"exists ({_RECIPE.format('is null')})",
    ),
    "remarks": (
        f"exists ({_LINE.format('r.user_id = app_owner()')})",
        f"exists ({_LINE.format('r.user_id is null')})",
    ),
    "plans": (_OWN.format("user_id"), None),
    "other.plans": (_OWN.format("whose"), None),
    "other.lines": (
        "exists (select from other.plans o where o.id = old_id and o.whose = app_owner())",
        None,
    ),
    "animals": (_OWN.format("user_id"), None),
    "dogs": (
        "exists (select from animals a where a.id = dogs.id and a.user_id = app_owner())",
        None,
    ),
    "shelves": (_OWN.format("user_id"), None),
    "jars": (_OWN.format("user_id"), None),
}

_SEEN = "exists (select from recipes r where r.id = {})"
_OWNED = "exists (select from recipes r where r.id = {} and r.user_id = app_owner())"

_LINKS: Mapping[str, tuple[str, str]] = {
    # association table -> condition of the links that are read, and of those that are written
    "recipe_tags": (_SEEN.format("recipe_id"), _OWNED.format("recipe_id")),
    "recipe_links": (
        f"{_SEEN.format('from_id')} and {_SEEN.format('to_id')}",
        f"({_OWNED.format('from_id')} or {_OWNED.format('to_id')})",
    ),
}

# table, its foreign key that does not decide ownership, the target and its columns
_NAMING = [
    ("recipes", ["parent_id"], "recipes", ["id"]),
    ("plans", ["recipe_id"], "recipes", ["id"]),
    ("other.plans", ["plan_id"], "plans", ["id"]),
    ("dogs", ["recipe_id"], "recipes", ["id"]),
    ("jars", ["room", "place"], "shelves", ["room", "place"]),
    ("recipe_tags", ["recipe_id"], "recipes", ["id"]),
    ("recipe_links", ["from_id"], "recipes", ["id"]),
    ("recipe_links", ["to_id"], "recipes", ["id"]),
]

_STAMPED = {
    "recipes": "user_id",
    "plans": "user_id",
    "other.plans": "whose",
    "animals": "user_id",
    "shelves": "user_id",
    "jars": "user_id",
}

_OWNER = """
create function app_owner() returns int stable language sql
    return nullif(current_setting('app.owner', true), '')::int
"""


def make(engine: Engine) -> None:
    """Make the tables, the rows and the policies in an empty database."""
    with engine.begin() as connection:
        connection.execute(text("create schema other"))
        Base.metadata.create_all(connection)
        _fill(connection)
        for statement in _policies():
            connection.exec_driver_sql(statement)


def drop(engine: Engine) -> None:
    """Drop the role, with all that it may do in the database."""
    with engine.begin() as connection:
        connection.exec_driver_sql(f"drop owned by {ROLE}")
        connection.exec_driver_sql(f"drop role {ROLE}")


def become(session: Session, owner: int) -> None:
    """Make a plain session act as the role, for one owner, until the transaction ends."""
    connection = session.connection()
    connection.exec_driver_sql(f"set local role {ROLE}")
    connection.exec_driver_sql(f"set local app.owner = '{owner}'")


_ALL = " union all ".join(
    f"select '{name}' as name, to_jsonb(t)::text as row from {name} t"
    for name in sorted(table.fullname for table in Base.metadata.tables.values())
)


def contents(connection: Connection) -> list[tuple[str, str]]:
    """Return all rows of all tables, without policies."""
    connection.exec_driver_sql("reset role")
    rows = connection.exec_driver_sql(f"select name, row from ({_ALL}) as every order by 1, 2")
    return [(name, row) for name, row in rows]


def _policies() -> Iterable[str]:
    yield f"create role {ROLE}"
    yield f"grant usage on schema public, other to {ROLE}"
    yield _OWNER
    for table in Base.metadata.tables.values():
        if table.name != "secrets":
            yield f"grant select, insert, update, delete on {table.fullname} to {ROLE}"
    for name, (own, shared) in _POLICIES.items():
        yield f"alter table {name} enable row level security, force row level security"
        yield f"create policy own on {name} using ({own})"
        if shared is not None:
            yield f"create policy shared on {name} for select using ({shared})"
    for name, (seen, owned) in _LINKS.items():
        yield f"alter table {name} enable row level security, force row level security"
        yield f"create policy seen on {name} for select using ({seen})"
        yield f"create policy made on {name} for insert with check (true)"
        written = f"using ({seen} and {owned})"
        yield f"create policy changed on {name} for update {written} with check (true)"
        yield f"create policy deleted on {name} for delete {written}"
    # "a_" sorts before "b_": PostgreSQL fires triggers by name, and the others need the stamp
    for name, column in _STAMPED.items():
        yield from _trigger(
            name,
            "a_stamp",
            "insert",
            f"if new.{column} is null then new.{column} := app_owner(); end if;",
        )
    for name, columns, target, keys in _NAMING:
        pairs = list(zip(columns, keys, strict=True))
        is_set = " and ".join(f"new.{column} is not null" for column in columns)
        same = " and ".join(f"t.{key} = new.{column}" for column, key in pairs)
        # a row that refers to itself does not exist yet
        itself = " and ".join(f"new.{column} = new.{key}" for column, key in pairs)
        there = f"exists (select from {target} t where {same})"
        if name == target:
            there += f" or ({itself})"
        yield from _trigger(
            name,
            f"b_name_{columns[0]}",
            f"insert or update of {', '.join(columns)}",
            f"if {is_set} and not ({there}) then raise exception 'names what is not seen' "
            "using errcode = 'insufficient_privilege'; end if;",
        )


def _trigger(table: str, name: str, when: str, do: str) -> Iterable[str]:
    function = f"{name}_{table.replace('.', '_')}"
    yield (
        f"create function {function}() returns trigger language plpgsql as $$ begin "
        f"if current_user = '{ROLE}' then {do} end if; return new; end $$"
    )
    yield (
        f"create trigger {name} before {when} on {table} "
        f"for each row execute function {function}()"
    )


Rows = dict[Table, list[dict[str, Any]]]


def _fill(connection: Connection) -> None:
    """Insert rows that cycle over ann, bob, cid and, where possible, nobody or everybody."""
    rows: Rows = {}
    for name, key in OWNERS.items():
        _add(rows, models.User, id=key, name=name)
    for key, name in enumerate(("hot", "cold", "ann"), start=1):
        _add(rows, models.Tag, id=key, name=name)
    turns: list[tuple[str, int | None]] = [*OWNERS.items(), ("all", None)]
    for key, (who, user) in zip(range(1, 13), itertools.cycle(turns), strict=False):
        _add_recipe(rows, key, who, user)
    for key, (who, owner) in zip(range(1, 10), itertools.cycle(OWNERS.items()), strict=False):
        _add_others(rows, key, who, owner)
    nobody = {"recipe_id": None, "tag_id": None}
    _add(rows, models.Line, id=13, **nobody, position=1, text="nobody")
    _add(rows, models.Plan, id=10, user_id=None, recipe_id=4, day=1, code="nobody")
    _add(rows, models.Secret, id=1, text="secret")
    for table in Base.metadata.sorted_tables:
        connection.execute(insert(table), rows[table])


def _add(rows: Rows, model: Any, **values: Any) -> None:
    rows.setdefault(getattr(model, "__table__", model), []).append(values)


def _add_recipe(rows: Rows, key: int, who: str, user: int | None) -> None:
    """Add a recipe, mostly with a parent of another owner, and its dependent rows."""
    parent = None if key == 1 else key - 1 if key % 3 else max(key - 4, 1)
    named = {"name": f"{who} {key % 5}", "minutes": key % 4}
    _add(rows, models.Recipe, id=key, user_id=user, parent_id=parent, **named)
    tag = key % 3 + 1
    _add(rows, models.Line, id=key, recipe_id=key, tag_id=tag, position=key % 3, text=who)
    _add(rows, models.Remark, id=key, line_id=(key * 5) % 12 + 1, text=f"on {who}")
    _add(rows, models.recipe_tags, recipe_id=key, tag_id=tag)
    _add(rows, models.recipe_links, from_id=key, to_id=key % 12 + 1)
    _add(rows, models.recipe_links, from_id=key, to_id=(key + 3) % 12 + 1)


def _add_others(rows: Rows, key: int, who: str, user: int) -> None:
    """Add rows that refer to a row of the same owner, of another, or to a shared one."""
    recipe = [user, user % 3 + 1, 4][key // 3 % 3]
    mine = {"id": key, "user_id": user}
    _add(rows, models.Plan, **mine, recipe_id=recipe, day=key % 4, code=f"{who}{key}")
    _add(rows, models.OldPlan, id=key, whose=user, plan_id=(key * 2) % 9 + 1, code=f"old {who}")
    _add(rows, models.OldLine, id=key, old_id=(key + 4) % 9 + 1, text=who)
    kind = ("dog", "cat", "animal")[key // 3 % 3]
    _add(rows, models.Animal, **mine, kind=kind, name=f"{who} {kind}")
    if kind == "dog":
        _add(rows, models.Dog, id=key, tricks=key % 3, recipe_id=recipe)
    _add(rows, models.Shelf, room=key % 2, place=key, user_id=user, label=who)
    place = (key + 1) % 9 + 1 if key % 2 else None
    room = None if place is None else place % 2
    _add(rows, models.Jar, **mine, room=room, place=place, label=who)
