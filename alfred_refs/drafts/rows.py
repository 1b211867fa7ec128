"""Whether the row of a draft is there, as one session sees it."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.entities import Entities
from alfred_refs.keys import Key
from alfred_refs.settling import by_entity
from alfred_refs.store import EntityKey


class SessionRows:
    """Looks for rows on a session's own connection, whoever they belong to.

    Args:
        session: not kept alive.
        entities: say which tables the rows are in.
    """

    def __init__(self, session: Session, entities: Entities) -> None:
        self._session = weakref.ref(session)
        self._entities = entities

    @property
    def committed(self) -> bool:
        """Whether what is there has come to stay: no outer transaction may yet undo it."""
        session = self._session()
        bind = None if session is None else session.bind
        return not (isinstance(bind, Connection) and bind.in_transaction())

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """Return those of these keys that rows have: one query for each entity."""
        found = by_entity(pairs).items()
        return [(entity, key) for entity, keys in found for key in self._there(entity, keys)]

    def _there(self, entity: str, keys: Sequence[Key]) -> list[Key]:
        session, column = self._session(), self._entities.primary_of(entity)
        held = None if column is None else self._entities.of_column(column)
        mapper = None if column is None else sqla.mapper_of_table(column.table)
        if session is None or column is None or held is None or mapper is None:
            return []
        if not sqla.can_wait(session.get_bind(mapper).engine):
            return []
        values = [held.from_key(key) for key in keys]
        with sqla.lifted(session):
            connection = session.connection(bind_arguments={"mapper": mapper})
            there = connection.scalars(select(column).where(column.in_(values))).all()
        return [held.to_key(value) for value in there]
