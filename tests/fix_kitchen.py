"""Fixtures: the example's tables, loaded once and copied for each test that asks for them.

Test modules of the example name this one in `pytest_plugins`; no others need to import it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, NullPool, create_engine, make_url
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry
from examples.kitchen.load import load
from examples.kitchen.models import Base
from examples.kitchen.server import missing_extensions
from tests.fix_postgres import database_like


@pytest.fixture(scope="session")
def extensions(administration: Engine) -> None:
    """What the example needs of the server: without it, its tests are skipped, and say why."""
    with administration.connect() as connection:
        if missing := missing_extensions(connection):
            pytest.skip(missing)


@pytest.fixture(scope="session")
def kitchen_template(administration: Engine, extensions: None) -> Iterator[str]:  # noqa: ARG001
    """The name of a database with the example's rows and the registry's tables."""
    with database_like(administration) as url:
        engine = create_engine(url, poolclass=NullPool)  # connected to, it cannot be copied
        Base.metadata.create_all(engine)
        RefRegistry(engine).create_tables()
        with Session(engine) as session, session.begin():
            load(session)
        yield str(make_url(url).database)


@pytest.fixture
def loaded_kitchen(administration: Engine, kitchen_template: str) -> Iterator[Engine]:
    """An engine on a loaded kitchen that is the test's own."""
    with database_like(administration, kitchen_template) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()
