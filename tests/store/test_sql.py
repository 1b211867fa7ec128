"""The server runs the registry's statements by indexes, and reads only the requested rows."""

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

PLANS = get_args(Plan)

# writes parameters as psycopg takes them
BY_NAME: Dialect = make_url("postgresql+psycopg://").get_dialect()()

OF_ONE = sorted(statements().keys() - OF_ALL_CONVERSATIONS)

# statement -> why it may read more rows than were requested
READS_MORE = {
    "mark": "an update is a join, and the server may choose to read one side whole",
    "label": "the same",
    **dict.fromkeys(
        ["edit_drafts", "discard_drafts", "reserve_keys", "confirm_drafts", "bring_back"],
        "the same",
    ),
    **dict.fromkeys(["demote", "drop", "retain"], "the same"),
    "activity": "without statistics the server sorts what was done in the last turns",
    "calls": "a generic plan cannot know which of the conditions are given",
    "forget_call": "the conversation is deleted",
    "forget_change": "the conversation is deleted",
    "fork_mapping": "the conversation is copied",
    "forget_mapping": "the conversation is deleted",
    "fork_draft": "the conversation is copied",
    "forget_draft": "the conversation is deleted",
    "fork_activity": "the conversation is copied",
    "forget_activity": "the conversation is deleted",
}


@pytest.fixture(scope="module", params=["analyze"])
def registry(
    request: pytest.FixtureRequest, administration: Engine
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with a registry in use for long, or filled a moment ago."""
    with database_like(administration) as url, client(url) as registry:
        schema.migrate(url)
        for table in ("mapping", "draft", "activity", "call", "change"):
            registry.execute(f"alter table alfred_refs_{table} set (autovacuum_enabled = off)")
        registry.execute(FILL)
        registry.execute(request.param)
        yield registry


# Large changes come last: though they are rolled back, their dead rows make the table look larger
# to a server without statistics, which may then read a conversation whole.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("registry", "plan"),
    [*(("analyze", plan) for plan in PLANS), ("-- no statistics yet", PLANS[0])],
    indirect=["registry"],
    scope="module",
)
@pytest.mark.parametrize("name", sorted(OF_ONE, key=lambda name: name in READS_MORE))
def test_a_statement_reads_only_the_requested_rows_by_indexes(
    registry: psycopg.Connection[Any], name: str, plan: Plan
) -> None:
    """In a conversation of 20,000 refs, and whatever the server expects of the values."""
    done = run(registry, name, plan)

    assert [scan for scan in done.scans if scan.how == "Seq Scan"] == []
    if name not in READS_MORE:
        assert max(rows_read(done.scans).values(), default=0) <= 2 * VALUES["p_limit"]


def test_an_upsert_calls_no_function_where_a_row_exists() -> None:
    """Citus allows only immutable functions there: the time is that of the row not inserted."""
    for name, statement in statements().items():
        sql = str(cast(Any, statement).compile(dialect=NUMBERED))
        assert "now()" not in sql.partition("DO UPDATE SET")[2], name


@pytest.mark.slow
def test_columns_have_the_names_that_the_server_gives_them(
    registry: psycopg.Connection[Any],
) -> None:
    """They are listed with the statement, and read by position."""
    for name, statement in statements().items():
        if isinstance(statement, TextualSelect):
            compiled = statement.compile(dialect=BY_NAME)
            with registry.transaction(force_rollback=True):
                cursor = registry.execute(
                    str(compiled).encode(), compiled.construct_params(VALUES)
                )
            columns = [column.name for column in cursor.description or ()]
            assert columns == [column.name for column in statement.column_args], name
