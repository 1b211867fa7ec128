"""Run `examples/partitions.sql`, which partitions the registry's tables."""

from __future__ import annotations

import re
from pathlib import Path

from alfred_refs.store.schema import metadata
from tests.explain import client

# revision -> the tables that it added
ADDED = {
    "0004": ["alfred_refs_draft"],
    "0006": ["alfred_refs_activity", "alfred_refs_step"],
    "0008": ["alfred_refs_call", "alfred_refs_change"],
}

SCRIPT = Path(__file__).parents[1] / "examples" / "partitions.sql"


def recipe(partitions: int = 16) -> str:
    """Return the script, with a number of partitions."""
    sql = SCRIPT.read_text("utf-8")
    edited, found = re.subn(r"(partitions constant int := )\d+;", rf"\g<1>{partitions};", sql)
    assert found == 1
    return edited


def recipe_of(revision: str) -> str:
    """Return the SQL for the tables of an older revision."""
    later = {name for added, names in ADDED.items() if revision < added for name in names}
    tables = sorted(metadata.tables.keys() - later)
    listed = ", ".join(tables)
    sql = re.sub(r"^lock .* in access", f"lock {listed} in access", recipe(), flags=re.MULTILINE)
    sql = re.sub(r"^analyze .*;", f"analyze {listed};", sql, flags=re.MULTILINE)
    quoted = ", ".join(f"'{name}'" for name in tables)
    return re.sub(r"array array\[.*?\]", f"array array[{quoted}]", sql, flags=re.DOTALL)


def partition(url: str, sql: str | None = None) -> None:
    """Run the recipe on a database in autocommit mode, as `psql -f` does."""
    with client(url) as connection:
        connection.execute((sql or recipe()).encode())
