"""How the server runs the registry's statements: by indexes, and for what was asked alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import psycopg
import pytest
from sqlalchemy import Engine, make_url

from alfred_refs import PostgresStore
from tests.explained import FILL, VALUES, Plan, rows_read, scans, statements
from tests.fix_postgres import connected, database_like

PLANS = get_args(Plan)

# why a statement may look at more rows than it was asked for
LOOKS_AT_MORE = {"mark": "an update is a join, and the server may choose to read one side whole"}


@pytest.fixture(scope="module", params=["analyze", "-- no statistics yet"])
def registry(
    request: pytest.FixtureRequest, administration: Engine
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with a registry in use for long, or filled a moment ago."""
    with database_like(administration) as url, connected(url) as connection:
        PostgresStore(connection.engine).create_tables()
        with psycopg.connect(
            make_url(url).set(drivername="postgresql").render_as_string(hide_password=False),
            autocommit=True,
            cursor_factory=psycopg.ClientCursor,
        ) as registry:
            registry.execute("alter table alfred_refs_mapping set (autovacuum_enabled = off)")
            registry.execute(FILL)
            registry.execute(request.param)
            yield registry


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(statements().keys() - LOOKS_AT_MORE.keys()))
def test_a_statement_looks_only_at_what_it_was_asked_for(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """In a conversation of 20,000 refs, rows are found one by one, whatever the server expects."""
    found = scans(registry, statements()[name], plan)

    assert max(rows_read(found).values(), default=0) <= 2 * VALUES["p_limit"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_reads_a_table_through(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """Each uses an index for each of the three tables."""
    found = scans(registry, statements()[name], plan)

    assert [scan for scan in found if scan.how == "Seq Scan"] == []
