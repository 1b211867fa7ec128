"""In which schemas of the database a session or an engine works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

Schemas = frozenset[tuple[str | None, str | None]]
"""A `schema_translate_map`, by its items."""


def schemas_in(options: Mapping[str, Any]) -> Schemas:
    """Return what execution options say of schemas.

    Leans on `_none`, under which the compiler notes what stands for `None`.
    """
    given: Mapping[str | None, str | None] = options.get("schema_translate_map") or {}
    return frozenset(item for item in given.items() if item[0] not in (item[1], "_none"))


def schemas_of(bind: Any) -> Schemas:
    """Return what an engine or a connection says of schemas, an asynchronous one too."""
    bind = getattr(bind, "sync_engine", getattr(bind, "sync_connection", bind))
    return frozenset() if bind is None else schemas_in(bind.get_execution_options())


def schemas_of_session(session: Session) -> Schemas:
    """Return what a session says of schemas, or else what its binds do, if all say the same.

    Leans on `Session.__binds`, which is public in SQLAlchemy 2.1, as is what its options say.
    """
    own = schemas_in(getattr(session, "execution_options", {}))
    if own:
        return own
    its = vars(session)
    several = its.get("binds", its.get("_Session__binds", {})).values()
    said = set(map(schemas_of, several if session.bind is None else [session.bind]))
    return said.pop() if len(said) == 1 else frozenset()
