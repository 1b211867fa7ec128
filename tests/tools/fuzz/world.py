"""The tables that calls are made on: filled for each round, and read behind the session's back."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, Table, inspect, select, text
from sqlalchemy.orm import Session

from tests import models as shapes
from tests.models import Base
from tests.tools.models import Course, Cuisine, Dish, Part, Secret, Serving

MODELS: list[type[Any]] = [
    Dish,
    Part,
    Cuisine,
    Serving,
    shapes.Recipe,
    shapes.RecipeNote,
    shapes.Preference,
    shapes.Order,
    shapes.OrderLine,
    shapes.Person,
    shapes.Cook,
    shapes.Box,
]

HUSH = "hush-hush"
"""What stands in the table that no model may use."""

FIRST_NUMBER = 7_700_000
"""Keys that are integers begin here, so that they are told from other numbers."""

Place = tuple[str, tuple[Any, ...]]
"""A table, and the primary key of one of its rows."""

Rows = Mapping[Place, str]
"""What each row holds, as a digest."""

_DIGITS = 32  # of a UUID

# the number of the next transaction that writes
_WRITTEN = text("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")

_TEXTS = ["Korma", "korma", "50%_off", "a\\b", "", "é漢", "recipe_1", "O'Brien", "x, y", None]


class World:
    """The tables in one database.

    Args:
        engine: of the database; the tables are there.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tables = sorted(Base.metadata.tables.values(), key=lambda table: table.name)
        self.keys: set[str] = set()
        self._outside = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._digests = text(" UNION ALL ".join(map(_digest, self.tables)))
        self._seen = 0
        self._count_keys()

    def _count_keys(self) -> None:
        """Have the database make its keys in order: by chance, no round could be repeated."""
        with self._outside.connect() as connection:
            connection.exec_driver_sql("CREATE SEQUENCE IF NOT EXISTS fuzz_keys")
            for table in self.tables:
                for column in table.columns:
                    if "gen_random_uuid" in str(getattr(column.server_default, "arg", "")):
                        connection.exec_driver_sql(
                            f"ALTER TABLE {table.name} ALTER COLUMN {column.name} "
                            "SET DEFAULT md5(nextval('fuzz_keys')::text)::uuid"
                        )

    def fill(self, seed: str) -> None:
        """Empty the tables, and fill them anew."""
        names = ", ".join(table.name for table in self.tables)
        with self._outside.connect() as connection:
            connection.exec_driver_sql(f"TRUNCATE {names} RESTART IDENTITY CASCADE")
            connection.exec_driver_sql("ALTER SEQUENCE fuzz_keys RESTART")
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('orders', 'id'), {FIRST_NUMBER})"
            )
        self.keys.clear()
        with Session(self.engine) as plain:
            _fill(plain, random.Random(seed))  # noqa: S311  # choices, not secrets
            plain.commit()

    def rows(self) -> Rows:
        """Return what is in all tables now: the keys are remembered."""
        with self._outside.connect() as connection:
            self._seen = connection.execute(_WRITTEN).scalar_one()
            found = connection.execute(self._digests).all()
        rows = {(name, spelt(key)): digest for name, key, digest in found}
        self.keys.update(part for _, key in rows for part in key if _tells(part))
        return rows

    def is_same(self) -> bool:
        """Tell whether nobody has written anything to the server since rows were read.

        The server is asked, which numbers every transaction that writes: what the package sends,
        and by which connection, is not for it to say.
        """
        with self._outside.connect() as connection:
            return bool(self._seen == connection.execute(_WRITTEN).scalar_one())

    def stop_others(self) -> None:
        """Have the server stop what it does for others: whoever asked has given up."""
        with self._outside.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND state <> 'idle'"
            )

    def instances(self) -> dict[Place, Any]:
        """Return all rows of the mapped tables, related to each other, without a session."""
        with Session(self.engine) as plain:
            found: dict[Any, SimpleNamespace] = {}
            placed: dict[Place, Any] = {}
            for model in MODELS:
                for instance in plain.scalars(select(model)):
                    mapper = inspect(model).mapper
                    table = mapper.local_table
                    key = mapper.primary_key_from_instance(instance)
                    place = (table.name, spelt(key))
                    placed[place] = found.setdefault(instance, SimpleNamespace())
            for instance, copy in list(found.items()):
                _copy(instance, copy, found)
        return placed


def plain(value: Any) -> Any:
    """Return a value in the form in which values are compared: UUIDs as text."""
    if isinstance(value, tuple | list):
        return type(value)(map(plain, value))
    return str(value) if isinstance(value, uuid.UUID) else value


def _copy(instance: Any, copy: SimpleNamespace, found: dict[Any, SimpleNamespace]) -> None:
    mapper = inspect(instance).mapper
    for attribute in mapper.column_attrs:
        setattr(copy, attribute.key, plain(getattr(instance, attribute.key)))
    copy._ref = tuple(map(plain, mapper.primary_key_from_instance(instance)))
    for relationship in mapper.relationships:
        related = getattr(instance, relationship.key)
        if isinstance(related, list):
            setattr(copy, relationship.key, [found[each] for each in related])
        else:
            setattr(copy, relationship.key, None if related is None else found[related])


def _digest(table: Table) -> str:
    key = ", ".join(f"{column.name}::text" for column in table.primary_key)
    return f"SELECT '{table.name}', ARRAY[{key}], md5(t::text) FROM {table.name} AS t"


def spelt(key: Iterable[Any]) -> tuple[str, ...]:
    """Return the parts of a key as texts, which are the same however a column keeps them."""
    texts = map(str, key)
    return tuple(each.replace("-", "") if len(each) > _DIGITS else each for each in texts)


def _tells(part: str) -> bool:
    """Tell whether a part of a key must not be seen: small numbers are data, such as a line's."""
    return int(part) > FIRST_NUMBER if part.isdigit() else len(part) == _DIGITS


def _fill(plain: Session, chance: random.Random) -> None:
    cuisines = [Cuisine(name=name) for name in ("Indian", "Thai", "Greek")]
    plain.add_all([*cuisines, Secret(text=HUSH)])
    plain.flush()
    dishes: list[Dish] = []
    for n in range(8):
        dish = Dish(
            name=chance.choice(_TEXTS),
            code=f"c{n}",
            servings=chance.choice([1, 2, 3, None]),
            rating=chance.choice([0.5, 4.0, None]),
            price=chance.choice([1, 2, None]),
            is_vegan=chance.choice([True, False, None]),
            course=chance.choice([*Course, None]),
            spice=chance.choice([-1, 0, 1, None]),
            tags=chance.choice([["hot"], ["hot", "mild"], [], None]),
            extra=chance.choice([{"kcal": 1}, [1, {"a": None}], None]),
            photo=chance.choice([b"\x00\xff", None]),
            cuisine=chance.choice([*cuisines, None]),
            parent=chance.choice([*dishes, None]),
            parts=[
                Part(position=p, note=chance.choice(_TEXTS)) for p in range(chance.randrange(3))
            ],
        )
        plain.add(dish)
        plain.flush()
        dish.alike = [other.id for other in dishes[:2]] or None
        dishes.append(dish)
    # a key inside of data
    dishes[0].name = f"like {dishes[1].id}"
    dishes[1].extra = {str(dishes[0].id): dishes[2].id.hex.upper(), "n": 1}
    plain.add_all(Serving(dish_id=d.id, place=n, note=f"n{n}") for n, d in enumerate(dishes[:4]))
    _fill_shapes(plain)


def _fill_shapes(plain: Session) -> None:
    recipe = shapes.Recipe(name="A")
    # its key would be made by chance: no round could be repeated that calls with it
    box = shapes.Box(id=uuid.uuid5(uuid.NAMESPACE_OID, "box"), label="box")
    plain.add_all([recipe, shapes.Recipe(name="B", parent=recipe), box])
    orders = [shapes.Order(number=n) for n in range(3)]
    plain.add_all([*orders, shapes.Person(), shapes.Cook(stars=2), shapes.Guest()])
    plain.flush()
    plain.add_all(
        [
            shapes.RecipeNote(recipe_id=recipe.id, note="x"),
            shapes.Preference(
                favourites=[recipe.id], last_seen=recipe.id, device=uuid.UUID(int=7)
            ),
            *(shapes.OrderLine(order_id=o.id, position=p) for o in orders for p in (1, 2)),
        ]
    )
