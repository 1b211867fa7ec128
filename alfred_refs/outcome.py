"""What becomes of the rows that a session inserts and deletes, so that their refs say so.

A ref is durable before its row is: a row that is rolled back was never saved, one whose deletion
is committed was deleted. Session events come in, `Conversation.note_gone` is called when the
transaction has ended, and never changes what the transaction did.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from sqlalchemy import Column
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstanceState

from .conversation import Conversation
from .store import EntityKey, Gone

_log = logging.getLogger("alfred_refs")

State = InstanceState[Any]


class Outcome:
    """The fate of one session's rows, from flush to the end of the transaction."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._inserted: dict[State, EntityKey] = {}
        self._deleted: dict[State, EntityKey] = {}
        self._deleted_in_bulk: set[EntityKey] = set()
        self._gone: dict[EntityKey, Gone] = {}

    def inserted(self, state: State) -> None:
        """Note that a row was inserted in this transaction."""
        self._note(self._inserted, state)

    def deleted(self, state: State) -> None:
        """Note that a row was deleted in this transaction."""
        self._note(self._deleted, state)

    def _note(self, rows: dict[State, EntityKey], state: State) -> None:
        keys = self._conversation.plans.entities.of_class(state.class_)
        if keys.own is not None and state.key is not None:
            [column] = keys.primary.values()
            rows[state] = keys.own, column.to_key(state.key[1][0])

    def deleted_rows(self, primary: Column[Any], values: Collection[Any]) -> None:
        """Note that a statement deleted rows in this transaction.

        Args:
            primary: their primary key's one column.
            values: what it held.
        """
        entities = self._conversation.plans.entities
        column = entities.of_column(primary)
        if column is not None and column.entity == entities.name_of(primary.table):
            self._deleted_in_bulk |= {(column.entity, column.to_key(value)) for value in values}

    def rolled_back(self) -> None:
        """Forget what statements deleted: a savepoint or all of it was rolled back.

        Which statements came after the savepoint is not known, and a row wrongly called gone
        would be worse than one that is found missing when it is used.
        """
        self._deleted_in_bulk.clear()

    def insert_undone(self, state: State) -> None:
        """Note that the insertion of a row was rolled back, to a savepoint or altogether."""
        if state in self._inserted:
            self._gone[self._inserted.pop(state)] = "was never saved"

    def delete_undone(self, state: State) -> None:
        """Note that a deleted row is back."""
        self._deleted.pop(state, None)

    def committed(self) -> None:
        """Note that what was inserted is saved and what was deleted is gone."""
        for pair in self._inserted.values():
            self._gone.pop(pair, None)
        deleted = self._deleted_in_bulk | set(self._deleted.values())
        self._gone |= dict.fromkeys(deleted, "was deleted")
        self._forget()

    def ended(self) -> None:
        """Tell the conversation. What is still open was not committed."""
        self._gone |= dict.fromkeys(self._inserted.values(), "was never saved")
        self._forget()
        gone, self._gone = self._gone, {}
        for reason in set(gone.values()):
            self._tell([pair for pair in gone if gone[pair] == reason], reason)

    def _forget(self) -> None:
        self._inserted.clear()
        self._deleted.clear()
        self._deleted_in_bulk.clear()

    def _tell(self, pairs: list[EntityKey], reason: Gone) -> None:
        try:
            self._conversation.note_gone(pairs, reason)
        except SQLAlchemyError:
            # The transaction has ended well or badly on its own account; this is only a note.
            _log.warning("could not note that %d refs have no row any more", len(pairs))
