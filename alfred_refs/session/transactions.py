"""What becomes of the rows that a session inserts, deletes and reads, so that their refs say so.

A ref is durable before its row is: a row that is rolled back was never saved, one whose deletion
is committed was deleted. Session events come in; the conversation is told when the transaction
has ended, and nothing here changes what the transaction did. Only keys are kept, so that an
object which the program drops is collected as in a plain session.

Each savepoint has a record of its own, which becomes part of the one around it when it is
released and counts for nothing when it is rolled back. That holds for what statements delete too,
and needs no word from the instances, which may be gone by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, Result
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ORMExecuteState

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.naming import root_of
from alfred_refs.sqla import State
from alfred_refs.store import Action, Activity, Gone

from .activity import ActivityLog, Done, add
from .written_rows import WrittenRows

_log = logging.getLogger("alfred_refs")


@dataclass(slots=True)
class _Record:
    """What was done between the begin and the end of a transaction or savepoint.

    Attributes:
        before: whether a row was there before the first thing done to it.
        after: whether it is there after the last.
        labels: what rows are called that were written, where that has changed.
        drafts: those that were to be saved, with the keys of their rows.
        done: what is to be kept of it for prompts.
        wrote: whether rows were written besides, of which that is not kept.
        undo: what is to be called if it comes to nothing.
        committed: whether all this came to stay, as far as the transaction around it does.
    """

    before: dict[EntityKey, bool] = field(default_factory=dict)
    after: dict[EntityKey, bool] = field(default_factory=dict)
    labels: dict[EntityKey, str] = field(default_factory=dict)
    drafts: dict[str, EntityKey] = field(default_factory=dict)
    done: Done = field(default_factory=dict)
    wrote: bool = False
    undo: list[Callable[[], None]] = field(default_factory=list)
    committed: bool = False

    def note(self, pair: EntityKey, there: bool) -> None:
        self.before.setdefault(pair, not there)
        self.after[pair] = there

    def add(self, released: _Record) -> None:
        self.before = released.before | self.before
        self.after |= released.after
        self.labels |= released.labels
        self.drafts |= released.drafts
        add(self.done, released.done.values())
        self.wrote |= released.wrote
        self.undo += released.undo


class Transactions:
    """The log of one session's transactions: what becomes of its rows, from flush to their end."""

    def __init__(self, conversation: SessionConversation, log: ActivityLog | None = None) -> None:
        self._conversation = conversation
        self.log = log
        self._done: Done = {}
        self._entities = conversation.entities
        self._rows = WrittenRows(conversation.entities)
        # whether what the transaction does not commit is rolled back, as far as is known
        self._undone = True
        self._autocommits = False
        self._commits = self._aborted = False
        self._open: list[_Record] = []
        self._writing = False  # in the transaction that begins with it
        self._gone: dict[EntityKey, Gone] = {}
        self._labels: dict[EntityKey, str] = {}
        self._relabelled: set[EntityKey] = set()  # for good or not
        self._saved: list[str] = []

    def begun(self) -> None:
        """Note that a transaction or a savepoint begins."""
        self._open.append(_Record(wrote=self._writing))
        self._writing = False

    def writing(self) -> None:
        """Note that rows are about to be written, in a way that may not be kept."""
        if self._open:
            self._open[-1].wrote = True
        else:
            self._writing = True

    def saving(self, drafts: Mapping[str, EntityKey], undo: Callable[[], None]) -> None:
        """Note that drafts are to be saved, with the keys of their rows.

        Where it comes to nothing, `undo` is called.
        """
        if self._open:
            self._open[-1].drafts |= drafts
            self._open[-1].undo.append(undo)

    def inserted(self, state: State) -> None:
        """Note that a row was inserted."""
        self._note(state, there=True)

    def deleted(self, state: State) -> None:
        """Note that a row was deleted."""
        self._note(state, there=False)

    def labelled(self, labels: Mapping[EntityKey, str]) -> None:
        """Note what rows are called that were written, where that has changed."""
        if self._open:
            self._open[-1].labels |= labels
            self._relabelled.update(labels)

    def _note(self, state: State, *, there: bool) -> None:
        pair = self._own_key(state)
        if pair is not None and self._open:
            self._open[-1].note(pair, there)
        self._did_to("created" if there else "deleted", [state])

    def updated(self, states: Iterable[State]) -> None:
        """Note that rows were changed."""
        self._did_to("updated", states)

    def _did_to(self, action: Action, states: Iterable[State]) -> None:
        if self.log is not None and self._open:
            add(self._open[-1].done, self._rows.of_states(action, states))

    def reached(self, execution: ORMExecuteState) -> list[Activity]:
        """Return what a statement is about to do with rows, where that is to be kept."""
        return [] if self.log is None else self._rows.reached(execution)

    def wrote_by(
        self, execution: ORMExecuteState, result: Result[Any], reached: Iterable[Activity]
    ) -> None:
        """Note what a statement did with rows, for prompts, if it comes to stay."""
        if self.log is not None and self._open:
            add(self._open[-1].done, [*self._rows.created(execution, result), *reached])

    def showed(self, seen: Iterable[Activity]) -> None:
        """Note what a model was shown.

        What is shown by a transaction that has written is known once that is committed.
        """
        if self.log is None:
            return
        if any(record.done or record.wrote for record in self._open):
            add(self._open[-1].done, seen)
        else:
            self.log.tell(seen)

    def _own_key(self, state: State) -> EntityKey | None:
        keys = self._entities.of_class(state.class_)
        if keys.own is None or state.key is None:
            return None
        return keys.own, keys.key_of(state.key[1])

    def deleted_rows(self, primary: Column[Any], values: Collection[Any]) -> None:
        """Note that a statement deleted rows.

        The table of a joined subclass is not where its entity's rows are: those of the base stay.
        """
        column = self._entities.of_column(primary)
        mapper = sqla.mapper_of_table(primary.table)
        is_root = mapper is None or root_of(mapper).local_table is primary.table
        if column is None or not is_root or not self._open:
            return
        if column.space == self._entities.name_of(primary.table):
            for value in values:
                pair = column.space, column.to_key(value)
                self._open[-1].note(pair, there=False)

    def connected(self, *, is_own: bool, nested: bool, autocommits: bool) -> None:
        """Note that the transaction, or a savepoint in it, goes on on another connection."""
        # one that the session has not taken from an engine may be committed by somebody else
        self._undone = self._undone and (is_own or nested)
        self._autocommits |= autocommits

    def committing(self, *, aborted: bool) -> None:
        """Note that the transaction is about to be committed, which rolls back an aborted one."""
        self._commits, self._aborted = True, aborted

    def rolled_back(self) -> None:
        """Note that the transaction is rolled back."""
        self._undone = True

    def committed(self) -> None:
        """Note that the innermost transaction or savepoint is committed."""
        if self._open and not self._aborted:
            self._open[-1].committed = True

    def ended(self, *, nested: bool, cut: bool) -> None:
        """Note that the innermost transaction or savepoint is over, and tell the conversation.

        What was not committed by then was rolled back, unless nobody knows, as where the
        connection was cut: then whoever uses a ref of it next has to look.
        """
        is_lost = self._commits and cut
        may_stay = self._autocommits or not (self._undone or nested)
        if not nested:
            self._undone, self._autocommits, self._commits = True, False, False
        if not self._open:
            return
        record = self._open.pop()
        if not record.committed:
            self._undo(record, told=not (is_lost or may_stay))
        elif self._open:
            self._open[-1].add(record)
        else:
            self._settle(record)
        if not self._open:
            self._tell()

    def _undo(self, record: _Record, *, told: bool) -> None:
        """Note what was never saved; a row met further out has its fate decided there."""
        for undo in record.undo:
            undo()
        if not told:
            return
        outside = {pair for other in self._open for pair in other.before}
        unsaved = {pair for pair, there in record.before.items() if not there}
        self._gone |= dict.fromkeys(unsaved - outside, "was never saved")

    def _settle(self, record: _Record) -> None:
        self._labels |= record.labels
        add(self._done, record.done.values())
        self._saved += [ref for ref, pair in record.drafts.items() if record.after.get(pair)]
        for pair, there in record.after.items():
            if there:
                self._gone.pop(pair, None)
            else:
                self._gone[pair] = "was deleted"

    def _tell(self) -> None:
        gone, self._gone = self._gone, {}
        labels, self._labels = self._labels, {}
        saved, self._saved = self._saved, []
        unsure, self._relabelled = self._relabelled, set()
        try:
            told = self._conversation.end_saving(saved, labels)
            for reason in set(gone.values()):
                pairs = [pair for pair in gone if gone[pair] == reason]
                self._conversation.note_gone(pairs, reason)
            changed = {pair: labels[pair] for pair in labels if pair not in told}
            self._conversation.tell_labels(changed, unsure)
        except SQLAlchemyError:
            # The transaction has ended well or badly on its own account; this is only a note.
            count = len(gone) + len(saved)
            _log.warning("could not note what became of the rows of %d refs", count)
        done, self._done = self._done, {}
        if self.log is not None:
            self.log.tell(done.values())
