"""What SQLAlchemy's results take and tell, pinned on both series."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, insert, select, text
from sqlalchemy.orm import Bundle, Session

from alfred_refs import sqla
from tests.models import Recipe


@pytest.mark.parametrize("table", [Recipe, Recipe.__table__])
@pytest.mark.usefixtures("recipes")
def test_rows_can_be_rewritten_in_chunks(tables: Engine, table: Any) -> None:
    """Results of the ORM and of Core go through the function, whole or in chunks of a size."""
    column = Recipe.name if table is Recipe else table.c.name
    statement = select(column).order_by(column)
    seen: list[int] = []

    def lower(rows: Any) -> list[tuple[Any, ...]]:
        seen.append(len(rows))
        return [(name.lower(),) for (name,) in rows]

    with Session(tables) as plain:
        whole = sqla.rewrite_rows(plain.execute(statement), partial(map, lower))
        assert [row._mapping[column] for row in whole] == list("abcde")
        parts = sqla.rewrite_rows(
            plain.execute(statement, execution_options={"yield_per": 2}), partial(map, lower)
        )
        chunks = [[row.name for row in part] for part in parts.partitions(2)]
        assert chunks == [["a", "b"], ["c", "d"], ["e"]]
    assert seen == [5, 2, 2, 1]


@pytest.mark.usefixtures("recipes")
def test_the_row_of_a_bundle_can_have_other_values(tables: Engine) -> None:
    """It keeps its names; of a single-entity bundle the rows come without a tuple around them."""
    bundle: Any = Bundle("own", Recipe.name, single_entity=True)
    seen: list[Any] = []

    def lower(rows: Any) -> list[tuple[Any, ...]]:
        seen.extend(rows)
        return [(sqla.row_like(row, [row.name.lower()]),) for (row,) in rows]

    with Session(tables) as plain:
        statement = select(bundle).where(Recipe.name == "A")
        result = sqla.rewrite_rows(plain.execute(statement), partial(map, lower))
        assert [row.name for row in result.scalars()] == ["a"]
    assert [[row.name for row in each] for each in seen] == [["A"]]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_the_place_of_each_value_is_told_by_the_driver(tables: Engine, driver: str) -> None:
    """Table and column by their numbers, zeros for what is computed."""
    engine = create_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    with engine.connect() as connection:
        [table] = connection.scalars(text("select 'recipes'::regclass::oid::int"))
        result = connection.execute(text("select name, id, 1 from recipes"))
        assert sqla.column_origins(result) == [(table, 2), (table, 1), (0, 0)]
        assert sqla.cursor_result_of(result) is result
    engine.dispose()
    lite = create_engine("sqlite://")
    with lite.connect() as connection:
        assert sqla.column_origins(connection.execute(text("select 1"))) == [(0, 0)]
    lite.dispose()


def test_the_exits_of_a_result_can_be_covered(tables: Engine) -> None:
    """The result stays the same object; what another statement lacks is no exit of its own."""
    with tables.connect() as connection:
        written = connection.execute(insert(Recipe).values(name="x"))
        sqla.rewrite_write_info(written, lambda name, value: (name, len(value)))
        assert written.inserted_primary_key == "inserted_primary_key_rows"
        read = connection.execute(select(Recipe.name))
        sqla.rewrite_write_info(read, lambda *_: pytest.fail("nothing was asked"))
        sqla.read_inserted_keys(read)
        assert read.scalars().all() == ["x"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_returned_rows_can_be_read_beforehand(tables: Engine, driver: str) -> None:
    """And are fetched afterwards as if nobody had, by a Core and an ORM result."""
    table: Any = Recipe.__table__
    made = insert(Recipe).values(name="x")
    engine = create_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    with Session(engine) as plain:
        result: Any = plain.execute(made.returning(Recipe))
        [[key]] = sqla.returned_identities(result.raw, [table.c.id])
        assert result.scalars().one().id == key
        core: Any = plain.connection().execute(made.returning(Recipe.name, Recipe.id))
        [[key, name]] = sqla.returned_identities(core, [table.c.id, table.c.name])
        assert (core.keys(), core.one(), name) == (["name", "id"], ("x", key), "x")
        core = plain.connection().execute(made.returning(Recipe.name))
        assert sqla.returned_identities(core, [table.c.id]) == []
        assert core.scalar_one() == "x"
        core = plain.connection().execute(made)
        assert sqla.returned_identities(core, [table.c.id]) == []
    engine.dispose()
