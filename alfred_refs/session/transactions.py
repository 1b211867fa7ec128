"""Transaction log: written rows, savepoints, activity on commit.

What is done in a session that says by whom, kept for prompts: `RefSession(by="model")`.

What tools have shown and what transactions have written comes in; the conversation is told once,
after a call or a commit and in the way of neither. What was rolled back was never done. A session
that does not say by whom has none of this.

```python
with sessions(conversation=chat, by="user") as session:  # a screen of the application's own
    session.get(Recipe, "recipe_1").minutes = 25
    session.commit()
chat.activity().entries[0].action  # 'updated', by the user
```

Which rows a session writes, to be kept for prompts: by objects, and by statements.

An object that was flushed comes in, or a statement with what it came to; out goes what was done
with each row, under the key that its ref names. Rows that have no ref of their own in a session,
as those whose primary key has several columns, are kept where a tool has shown theirs.

What becomes of the rows that a session inserts, deletes and reads, so that their refs say so.

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
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Column, Result, Table, inspect, select, true
from sqlalchemy.exc import InvalidRequestError, SQLAlchemyError
from sqlalchemy.orm import Mapper, ORMExecuteState

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import EntityNameError, KeyColumnError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.key_columns import root_of
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.sqla import State
from alfred_refs.store import Action, Activity, Actor, Gone

_log = logging.getLogger("alfred_refs")

Done = dict[EntityKey, Activity]
"""What was done with rows, by their keys: the last thing that counts, of each."""

MOST = 1_000
"""Of so many rows a transaction at most: nobody prompts a model with more."""

_WEIGHTS = {"linked": 0, "read": 1}  # what is written weighs more


def add(done: Done, more: Iterable[Activity]) -> None:
    """Add what was done later: what was written counts for more than what was read.

    Of very many rows the first are kept.
    """
    for each in more:
        known = done.get(each.key)
        if known is None:
            if len(done) < MOST:
                done[each.key] = each
            continue
        last = each if _WEIGHTS.get(each.action, 2) >= _WEIGHTS.get(known.action, 2) else known
        seen = {**(known.seen or {}), **(each.seen or {})} or None
        heads = {**(known.heads or {}), **(each.heads or {})} or None
        label = each.label or known.label
        shown = each.shown or known.shown
        done[each.key] = replace(last, seen=seen, heads=heads, label=label, shown=shown)


class ActivityLog:
    """What is done in one session.

    Args:
        conversation: which is told.
        actor: on whose behalf.
    """

    def __init__(self, conversation: SessionConversation, actor: Actor) -> None:
        self._conversation = conversation
        self._actor = actor
        self._done: Done = {}
        self._calls = 0
        conversation.on_deleted = self._note_deleted

    def _note_deleted(self, pairs: Iterable[EntityKey]) -> None:
        """Keep that rows are gone, to be told with what is done next or when that is over."""
        add(self._done, [Activity(pair, "deleted") for pair in pairs])

    @contextmanager
    def together(self) -> Iterator[None]:
        """Tell once of all that is done inside the `with`, when it is over."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self.tell(())

    def tell(self, done: Iterable[Activity]) -> None:
        """Tell what was done: one round trip, or none where nothing was.

        What has been done is done: where it cannot be noted, that is logged and not raised.
        """
        add(self._done, done)
        if self._calls or not self._done:
            return
        told, self._done = self._done, {}
        try:
            self._conversation.note_activity([*told.values()], self._actor)
        except SQLAlchemyError:
            _log.warning("could not note what was done with the rows of %d refs", len(told))


_UPSERTS = "on_conflict_do_nothing"  # a method of those inserts that may meet rows


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Tells what was done with rows.

    Attributes:
        entities: which the rows are of.
    """

    entities: Entities

    def of_states(self, action: Action, states: Iterable[State]) -> list[Activity]:
        """Return what was done with the rows of objects, which are called by their labels."""
        done = []
        for state in states:
            if state.key is not None:
                for each in self._done(action, state.class_, [state.key[1]]):
                    label = self.entities.label_of(each.key[0])
                    text = None if label is None else label.of(state.dict)
                    done.append(replace(each, label=text))
        return done

    def reached(self, execution: ORMExecuteState) -> list[Activity]:
        """Return the rows that a statement is about to change or delete: one more statement.

        Of very many rows the first.
        """
        written = _written_by(execution)
        if written is None or not (execution.is_update or execution.is_delete):
            return []
        given: Any = execution.parameters
        if isinstance(given, Sequence):  # by primary key
            found: Sequence[Sequence[Any]] = written.identities(given)
        else:
            statement: Any = execution.statement
            criterion = true() if statement.whereclause is None else statement.whereclause
            schemas = {"schema_translate_map"} & execution.execution_options.keys()
            options = {name: execution.execution_options[name] for name in schemas}
            found = execution.session.execute(
                select(*written.columns).where(criterion).limit(MOST),
                given,
                execution_options={**options, "raw_keys": True},
                bind_arguments=execution.bind_arguments,
            ).all()
        action: Action = "deleted" if execution.is_delete and written.is_whole else "updated"
        return self._done(action, written.of, found[:MOST])

    def created(self, execution: ORMExecuteState, result: Result[Any]) -> list[Activity]:
        """Return the rows that a statement has inserted, where it or the database tells which."""
        written, statement = _written_by(execution), execution.statement
        if not execution.is_insert or written is None:
            return []
        cursor, given = sqla.cursor_result_of(result), execution.parameters
        rows: Sequence[Any] = ()
        if cursor is not None:
            with suppress(InvalidRequestError):  # the database was not asked for them
                rows = cursor.inserted_primary_key_rows or ()
        # of the records of an upsert it is not told which have met a row
        if not rows and isinstance(given, Sequence) and not hasattr(statement, _UPSERTS):
            rows = written.identities(given)
        return self._done("created", written.of, rows[:MOST])

    def _done(
        self, action: Action, of: type[Any] | Table, identities: Iterable[Sequence[Any]]
    ) -> list[Activity]:
        """Return what was done with rows, by the values of their primary key."""
        keys = self._keys_of(of)
        entity = keys.own or self._name_of(of)
        if entity is None:
            return []
        known = (_key_of(keys, each) for each in identities if None not in each)
        is_met = keys.own is None  # by a tool, or it has no ref
        return [Activity((entity, key), action, shown=is_met) for key in known if key is not None]

    def _keys_of(self, of: type[Any] | Table) -> ClassKeys:
        """Return the keys of rows: those of a table alone are its own if its refs name them."""
        if not isinstance(of, Table):
            return self.entities.of_class(root_of(inspect(of).mapper).class_)
        held = tuple(self.entities.of_column(column) for column in of.primary_key)
        name = self._name_of(of)
        is_own = [None if each is None else each.space for each in held] == [name]
        return ClassKeys({}, {}, {}, held, name if is_own else None, {}, None)

    def _name_of(self, of: type[Any] | Table) -> str | None:
        try:
            return self.entities.name_of(of)
        except (EntityNameError, KeyColumnError):  # no toolset has it
            return None


@dataclass(frozen=True, slots=True)
class _WriteTarget:
    """What a statement writes to.

    Attributes:
        of: whose rows: of a class, or of a table without one.
        columns: their primary key.
        names: what records call it.
        is_whole: whether a row goes with what is deleted: from the table of a joined subclass
            goes a part of it, and the base's stays.
    """

    of: type[Any] | Table
    columns: Sequence[Any]
    names: Sequence[str]
    is_whole: bool = True

    def identities(self, records: Iterable[Mapping[str, Any]]) -> list[Sequence[Any]]:
        """Return the primary keys that records have, of those that have one."""
        names = self.names
        return [[each[name] for name in names] for each in records if {*names} <= each.keys()]


def _written_by(execution: ORMExecuteState) -> _WriteTarget | None:
    """Return what a statement writes to, be it a class or a table."""
    table, mapper = getattr(execution.statement, "table", None), execution.bind_mapper
    names = None if mapper is None else _attributes(mapper)
    if isinstance(table, Table) and mapper is None:
        names = [column.key for column in table.primary_key]
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            return _WriteTarget(table, [*table.primary_key], names)
    if mapper is None or names is None:
        return None
    # of the class, not of its table: which kinds of rows there are is asked too
    columns = [getattr(mapper.class_, name) for name in _attributes(mapper)]
    return _WriteTarget(
        mapper.class_, columns, names, mapper.local_table is root_of(mapper).local_table
    )


def _attributes(mapper: Mapper[Any]) -> list[str]:
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _key_of(keys: ClassKeys, identity: Sequence[Any]) -> Key | None:
    """Return the key of a row; `None` where no ref can stand for it."""
    key = keys.key_of(identity)
    parts = key if isinstance(key, tuple) else (key,)
    return key if all(isinstance(part, uuid.UUID | int | str) for part in parts) else None


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

    def on_connect(self, *, is_own: bool, nested: bool, autocommits: bool) -> None:
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

    def on_end(self, *, nested: bool, cut: bool) -> None:
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
            self._conversation.store_labels(changed, unsure)
        except SQLAlchemyError:
            # The transaction has ended well or badly on its own account; this is only a note.
            count = len(gone) + len(saved)
            _log.warning("could not note what became of the rows of %d refs", count)
        done, self._done = self._done, {}
        if self.log is not None:
            self.log.tell(done.values())
