"""Which refs errors of a session that has an owner may name: those of rows that the owner sees.

A conversation has refs of other rows, too: of what trusted code has loaded, and of what foreign
keys name. An error would offer them, with their labels, to a model that may use none of them. Refs
come in, and those go out whose rows the owner may read: one query for each entity, where something
is wrong already.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.refs import parse_ref
from alfred_refs.owners import Confinement

from .missing_rows import identity_of


class Offered:
    """Chooses what may be named.

    Args:
        session: which has an owner; not kept alive.
        confinement: keeps it to the owner's rows.
    """

    def __init__(self, session: Session, confinement: Confinement) -> None:
        self._session = weakref.ref(session)
        self._confinement = confinement

    def __call__(self, conversation: SessionConversation, refs: Collection[str]) -> list[str]:
        """Return those refs whose rows the owner sees; none if that cannot be asked now."""
        groups: dict[str, dict[str, Key]] = {}
        for ref, key in conversation.keys_held(refs).items():
            parsed = parse_ref(ref)
            if parsed is not None:
                groups.setdefault(parsed.entity, {})[ref] = key
        entities = conversation.entities
        try:
            return [ref for of in groups.items() for ref in self._readable(*of, entities)]
        except SQLAlchemyError:  # as in a transaction that has failed
            return []

    def _readable(self, entity: str, keys: Mapping[str, Key], entities: Entities) -> Iterator[str]:
        session, identity = self._session(), identity_of(entity, entities)
        if session is None or identity is None:
            return
        mapper = sqla.mapper_of_table(identity.columns[0].table)
        if mapper is None or not sqla.can_wait(session.get_bind(mapper).engine):
            return
        values = {r: tuple(identity.values_of(k)) for r, k in keys.items() if identity.fits(k)}
        there = self._confinement.ask(session, identity.columns, values.values(), writing=False)
        yield from (ref for ref, value in values.items() if value in there)
