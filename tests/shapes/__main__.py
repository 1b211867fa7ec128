"""`python -m tests.shapes`: run all shapes on a server of its own; print the outcomes."""

from __future__ import annotations

import sys
import warnings

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from alfred_refs import RefError, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from tests.models import Base
from tests.postgres.server import embedded_server
from tests.shapes import report, world
from tests.shapes.run import run, with_keys
from tests.shapes.table import Shape


def main() -> int:
    """Print the page, and return 1 if an outcome is not the expected one."""
    warnings.simplefilter("ignore")  # SQLAlchemy warns about some operators in the shapes
    with embedded_server() as url:
        engine = create_engine(url)
        Base.metadata.create_all(engine)
        world.fill(engine)
        conversation = RefRegistry(store=MemoryStore()).conversation("shapes")
        world.mint(conversation)
        with Session(engine) as plain, RefSession(engine, conversation=conversation) as session:
            page = report.page(lambda shape: outcome(shape, plain, session))
        engine.dispose()
    sys.stdout.write(page)
    return int(page != report.page())


def outcome(shape: Shape, plain: Session, session: RefSession) -> str:
    """Run a shape with refs and with keys, and return the outcome."""
    try:
        found = run(shape, session, str, world.as_it_is)
    except RefError as error:
        return f"raises {type(error).__name__}"
    return "translated" if found == run(shape, plain, with_keys, world.shown) else "DIFFERENT"


if __name__ == "__main__":
    sys.exit(main())
