"""The recipe of `docs/registry.md` that partitions the registry's tables, to be run by tests."""

from __future__ import annotations

import re
from pathlib import Path

from tests.explained import client

PAGE = Path(__file__).parents[1] / "docs" / "registry.md"


def recipe(partitions: int = 16) -> str:
    """Return the SQL of the page's section, as it is or with another number of partitions."""
    section = PAGE.read_text("utf-8").partition("\n## Partitions\n")[2].partition("\n## ")[0]
    [sql] = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    edited, found = re.subn(r"(partitions constant int := )\d+;", rf"\g<1>{partitions};", str(sql))
    assert found == 1
    return edited


def recipe_of(revision: str) -> str:
    """Return the SQL as the page had it when the tables were at a revision."""
    before_drafts = re.sub(r" alfred_refs_draft,|'alfred_refs_draft', ", "", recipe())
    return recipe() if revision >= "0004" else before_drafts


def partition(url: str, sql: str | None = None) -> None:
    """Run the recipe on a database, as `psql -f` does: each statement by itself."""
    with client(url) as connection:
        connection.execute((sql or recipe()).encode())
