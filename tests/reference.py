"""The public names of the package, and the entries of `docs/reference`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "reference"

DOORS = (
    "alfred_refs",
    "alfred_refs.context",
    "alfred_refs.inspector",
    "alfred_refs.integrations.anthropic",
    "alfred_refs.integrations.langchain",
    "alfred_refs.integrations.mcp",
    "alfred_refs.integrations.openai_agents",
    "alfred_refs.integrations.opentelemetry",
    "alfred_refs.integrations.pydantic_ai",
    "alfred_refs.integrations.reflect",
    "alfred_refs.positions",
    "alfred_refs.store",
    "alfred_refs.store.alembic",
    "alfred_refs.store.telemetry",
    "alfred_refs.testing",
    "alfred_refs.tools",
)
"""The modules from which applications import."""

_ENTRY = re.compile(r"^\.\. (?:auto(?!module)\w+|py:data):: ([\w.]+)$", re.MULTILINE)


def public() -> Iterator[str]:
    """Yield each public name once, with the module to import it from."""
    names = set(import_module(DOORS[0]).__all__)
    for door in DOORS:
        own = import_module(door).__all__
        yield from (f"{door}.{name}" for name in own if door == DOORS[0] or name not in names)


def entries() -> list[str]:
    """Return the names with an entry in the pages."""
    found = [_ENTRY.findall(page.read_text("utf-8")) for page in sorted(PAGES.glob("*.md"))]
    return [name for names in found for name in names]
