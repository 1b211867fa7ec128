"""Fixtures: a shop that is only read, and so is one for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine

from tests.fix_postgres import database_like
from tests.tools.sql.world import World


@pytest.fixture(scope="session")
def world(administration: Engine) -> Iterator[World]:
    """The shop, its owners' views, and whoever asks it."""
    with database_like(administration) as url:
        engine = create_engine(url)
        yield World(engine)
        engine.dispose()
