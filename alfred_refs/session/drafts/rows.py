"""Whether the row of a draft is there, as one session sees it."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Mapper, Session

from alfred_refs import sqla
from alfred_refs.conversation.draft_rows import by_entity
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import EntityKey, Key


class SessionRows:
    """Looks for rows on a session's own connection, whoever they belong to.

    Args:
        session: not kept alive.
        entities: say which tables the rows are in.
    """

    def __init__(self, session: Session, entities: Entities) -> None:
        self._session = weakref.ref(session)
        self._entities = entities

    def committed(self, pairs: Iterable[EntityKey]) -> bool:
        """See `Rows.committed`: no outer transaction may yet undo it."""
        session = self._session()
        mappers = [self._mapper(entity) for entity in by_entity(pairs)]
        binds = [session.get_bind(m) for m in mappers if session is not None and m is not None]
        return not any(isinstance(bind, Connection) and bind.in_transaction() for bind in binds)

    def _mapper(self, entity: str) -> Mapper[Any] | None:
        column = self._entities.primary_of(entity)
        return None if column is None else sqla.mapper_of_table(column.table)

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """Return those of these keys that rows have: one query for each entity."""
        found = by_entity(pairs).items()
        return [(entity, key) for entity, keys in found for key in self._there(entity, keys)]

    def _there(self, entity: str, keys: Sequence[Key]) -> list[Key]:
        session, column = self._session(), self._entities.primary_of(entity)
        held = None if column is None else self._entities.of_column(column)
        mapper = self._mapper(entity)
        if session is None or column is None or held is None or mapper is None:
            return []
        if not sqla.can_wait(session.get_bind(mapper).engine):
            return []
        values = [held.from_key(key) for key in keys]
        with sqla.lifted(session):
            connection = session.connection(bind_arguments={"mapper": mapper})
            there = connection.scalars(select(column).where(column.in_(values))).all()
        return [held.to_key(value) for value in there]
