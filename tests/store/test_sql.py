"""How the server runs the registry's statements: by indexes, and for what was asked alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast, get_args

import psycopg
import pytest
from sqlalchemy import Dialect, Engine, make_url
from sqlalchemy.sql.selectable import TextualSelect

from alfred_refs.store import schema
from tests.explain import (
    FILL,
    NUMBERED,
    OF_ALL_CONVERSATIONS,
    VALUES,
    Plan,
    client,
    rows_read,
    run,
    statements,
)
from tests.fix_postgres import database_like

pytestmark = pytest.mark.once  # our own SQL and Alembic: sent by either series alike

PLANS = get_args(Plan)

# writes parameters as psycopg takes them
BY_NAME: Dialect = make_url("postgresql+psycopg://").get_dialect()()

OF_ONE = sorted(statements().keys() - OF_ALL_CONVERSATIONS)

# why a statement may look at more rows than it was asked for
LOOKS_AT_MORE = {
    "mark": "an update is a join, and the server may choose to read one side whole",
    "label": "the same",
    **dict.fromkeys(
        ["edit_drafts", "discard_drafts", "reserve_keys", "confirm_drafts", "bring_back"],
        "the same",
    ),
    **dict.fromkeys(["demote", "drop", "retain"], "the same"),
    "activity": "without statistics the server sorts what was done in the last turns",
    "fork_mapping": "the conversation is copied",
    "forget_mapping": "the conversation is deleted",
    "fork_draft": "the conversation is copied",
    "forget_draft": "the conversation is deleted",
    "fork_activity": "the conversation is copied",
    "forget_activity": "the conversation is deleted",
}


@pytest.fixture(scope="module", params=["analyze", "-- no statistics yet"])
def registry(
    request: pytest.FixtureRequest, administration: Engine
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with a registry in use for long, or filled a moment ago."""
    with database_like(administration) as url, client(url) as registry:
        schema.migrate(url)
        for table in ("mapping", "draft", "activity"):
            registry.execute(f"alter table alfred_refs_{table} set (autovacuum_enabled = off)")
        registry.execute(FILL)
        registry.execute(request.param)
        yield registry


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(set(OF_ONE) - LOOKS_AT_MORE.keys()))
def test_a_statement_looks_only_at_what_it_was_asked_for(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """In a conversation of 20,000 refs, rows are found one by one, whatever the server expects."""
    done = run(registry, name, plan)

    assert max(rows_read(done.scans).values(), default=0) <= 2 * VALUES["p_limit"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", OF_ONE)
def test_no_statement_reads_a_table_through(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """Each uses an index for each of the tables."""
    done = run(registry, name, plan)

    assert [scan for scan in done.scans if scan.how == "Seq Scan"] == []


@pytest.mark.parametrize("name", sorted(statements()))
def test_an_upsert_calls_no_function_where_a_row_exists(name: str) -> None:
    """Citus refuses what is not immutable there; the time comes with the row not inserted."""
    sql = str(cast(Any, statements()[name]).compile(dialect=NUMBERED))

    assert "now()" not in sql.partition("DO UPDATE SET")[2]


NAMED = {name: each for name, each in statements().items() if isinstance(each, TextualSelect)}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_columns_have_the_names_that_the_server_gives_them(
    registry: psycopg.Connection[Any], name: str
) -> None:
    """They are listed beside the statement, and taken by their position."""
    compiled = NAMED[name].compile(dialect=BY_NAME)
    with registry.transaction(force_rollback=True):
        given = registry.execute(str(compiled).encode(), compiled.construct_params(VALUES))

    names = [column.name for column in given.description or ()]
    assert names == [column.name for column in NAMED[name].column_args]
