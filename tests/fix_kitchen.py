"""Fixtures: the example's tables, loaded once into a template that tests copy.

Test modules of the example list this module in `pytest_plugins`.
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
    """The server's extensions that the example needs; without them, its tests are skipped."""
    with administration.connect() as connection:
        if missing := missing_extensions(connection):
            pytest.skip(missing)


@pytest.fixture(scope="session")
def kitchen_template(administration: Engine, extensions: None) -> Iterator[str]:  # noqa: ARG001
    """The name of a database with the example's rows and the registry's tables."""
    with database_like(administration) as url:
        engine = create_engine(url, poolclass=NullPool)  # an open connection would prevent copies
        Base.metadata.create_all(engine)
        RefRegistry(engine).create_tables()
        with Session(engine) as session, session.begin():
            load(session)
        yield str(make_url(url).database)


@pytest.fixture
def loaded_kitchen(administration: Engine, kitchen_template: str) -> Iterator[Engine]:
    """An engine on the test's own copy of the loaded kitchen."""
    with database_like(administration, kitchen_template) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()
