"""The status of a row in the registry, as another process reads it; rows hidden by policies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine, event

from alfred_refs import Conversation, RefRegistry


def elsewhere(conversation: Conversation) -> Conversation:
    """Return the conversation as another process opens it."""
    return RefRegistry(store=conversation._store).conversation(conversation.id)


def status_of(conversation: Conversation, ref: str) -> str | None:
    """Return the status of a row in the registry: None if it exists."""
    [entry] = [each for each in elsewhere(conversation).entries() if each.ref == ref]
    return entry.gone


@contextmanager
def hiding(engine: Engine, table: str, condition: str) -> Iterator[Engine]:
    """Yield an engine of a role that sees only some rows of a table, by row-level security.

    Args:
        engine: of a superuser, on the same database.
        table: gets the policy; the role may read and write all others.
        condition: of the visible rows, in SQL.
    """
    role = f"reader_{uuid.uuid4().hex}"
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"create role {role}; grant usage on schema public to {role};"
            f"grant select, update, delete on all tables in schema public to {role};"
            f"alter table {table} enable row level security;"
            f"create policy few on {table} to {role} using ({condition})"
        )
    shown = create_engine(engine.url)

    @event.listens_for(shown, "begin")
    def become(connection: Connection) -> None:
        connection.exec_driver_sql(f"set local role {role}")

    try:
        yield shown
    finally:
        shown.dispose()
        with engine.begin() as connection:
            connection.exec_driver_sql(f"drop owned by {role}; drop role {role}")
