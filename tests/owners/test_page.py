"""The programs of the page on owners do what it says they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from tests import owned, readme
from tests.fix_owned import World

PAGE = Path(__file__).parents[2] / "docs" / "owner.md"


def test_the_programs_of_the_page_run(owned_engine: Engine, world: World) -> None:
    """An owned session reads its own and shared rows, and trusted code reads all of them."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    names: dict[str, Any] = {
        **{name: value for name, value in vars(owned).items() if isinstance(value, type)},
        "RefSession": RefSession,
        "engine": owned_engine,
        "registry": registry,
        "select": select,
        "sessionmaker": sessionmaker,
        "ann": world.users["ann"],
        "bobs_recipe": world.recipes["bob"],
        "text": text,
    }
    printed, expected = readme.page(PAGE, names)

    assert printed == expected
    assert len(printed) == 2
