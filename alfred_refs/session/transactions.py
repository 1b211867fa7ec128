"""Transaction log: written rows, savepoints, activity on commit.

A ref is durable before its row is. So `Transactions` follows the rows that a session inserts and
deletes, and reports them to the conversation when the transaction has ended: a row that was rolled
back was never saved, one whose deletion was committed was deleted. Errors then give the reason:

>>> session.add(line := Line(recipe_id="recipe_1", position=3, text="salt"))
>>> session.flush()
>>> line.id
'line_3'
>>> session.rollback()
>>> session.get(Line, "line_3")
Traceback (most recent call last):
alfred_refs.errors.GoneRefError: 'line_3' was never saved and cannot be used...

If the session has `by="model"` or `by="user"`, `ActivityLog` also keeps the action on each row,
for prompts. `WrittenRows` finds out which rows a flush or a statement has written:

>>> with sessions(conversation=chat, by="user") as screen:
...     screen.get(Recipe, "recipe_1").servings = 3
...     screen.commit()
>>> [(str(entry.ref), entry.action) for entry in chat.activity().entries]
[('recipe_1', 'updated')]

Each savepoint has a record, which is merged into the one around it when it is released and dropped
when it is rolled back. Records hold keys, not instances, so that instances are collected as in a
plain session. The store is updated after a commit; if that fails, it is logged and not raised.

Limits: rows without a ref of their own, such as those with a composite primary key of data
columns, are kept only if a tool has shown them. Of very many rows, the first `MOST` are kept.
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
from alfred_refs.mapping.keys import EntityKey, Key, key_parts
from alfred_refs.sqla import State
from alfred_refs.store import Action, Activity, Actor, Gone

_log = logging.getLogger("alfred_refs")

MOST = 1_000  # rows whose activity is kept per transaction: no prompt has room for more

ActivityByKey = dict[EntityKey, Activity]
"""The activity on rows, by their keys: of each row the action that counts most."""

_WEIGHTS = {"linked": 0, "read": 1}  # all others write, and weigh more


def add_activity(activity: ActivityByKey, more: Iterable[Activity]) -> None:
    """Add later activity: of each row the last write counts, or else the last read."""
    for each in more:
        known = activity.get(each.key)
        if known is None:
            if len(activity) < MOST:
                activity[each.key] = each
            continue
        last = each if _WEIGHTS.get(each.action, 2) >= _WEIGHTS.get(known.action, 2) else known
        fields = known.fields
        if each.fields is not None:
            fields = [*dict.fromkeys([*(fields or ()), *each.fields])]
        label = each.label or known.label
        shown = each.shown or known.shown
        activity[each.key] = replace(last, fields=fields, label=label, shown=shown)


# The log of a transaction


@dataclass(slots=True)
class _Record:
    """The writes between the begin and the end of a transaction or savepoint.

    Attributes:
        before: whether a row existed before the first write to it.
        after: whether it exists after the last.
        labels: the labels that writes have changed.
        drafts: the drafts that were inserted, with the keys of their rows.
        activity: the activity to store for prompts.
        has_writes: whether any rows were written, even if `activity` does not include them.
        undo: called if it is rolled back.
        is_committed: whether it was committed or released.
    """

    before: dict[EntityKey, bool] = field(default_factory=dict)
    after: dict[EntityKey, bool] = field(default_factory=dict)
    labels: dict[EntityKey, str | None] = field(default_factory=dict)
    drafts: dict[str, EntityKey] = field(default_factory=dict)
    activity: ActivityByKey = field(default_factory=dict)
    has_writes: bool = False
    undo: list[Callable[[], None]] = field(default_factory=list)
    is_committed: bool = False

    def note(self, pair: EntityKey, exists: bool) -> None:
        self.before.setdefault(pair, not exists)
        self.after[pair] = exists

    def merge(self, released: _Record) -> None:
        self.before = released.before | self.before
        self.after |= released.after
        self.labels |= released.labels
        self.drafts |= released.drafts
        add_activity(self.activity, released.activity.values())
        self.has_writes |= released.has_writes
        self.undo += released.undo


class Transactions:
    """The log of one session's transactions: which rows were written, until it is known for good.

    Args:
        conversation: as the session sees it; gets the result when a transaction has ended.
        log: keeps activity for prompts, if wanted.

    Attributes:
        is_foreign: returns whether an instance may be a row of another owner, which is not part of
            the conversation's activity; `None` in a session without owner.
    """

    is_foreign: Callable[[State], bool] | None = None

    def __init__(self, conversation: SessionConversation, log: ActivityLog | None = None) -> None:
        self.log = log
        self._conversation = conversation
        self._entities = conversation.entities
        self._rows = WrittenRows(conversation.entities)
        self._records: list[_Record] = []  # of the open transaction and its savepoints
        self._has_writes = False  # noted before the transaction began
        # of the open transaction; whether its end without commit rolls back, as far as is known
        self._rolls_back = True
        self._autocommits = self._commits = self._aborted = False
        # of the ended transaction and its savepoints, for the conversation
        self._gone: dict[EntityKey, Gone] = {}
        self._labels: dict[EntityKey, str | None] = {}
        self._relabelled: set[EntityKey] = set()  # committed or not
        self._saved: list[str] = []
        self._activity: ActivityByKey = {}

    # Writes

    def note_writing(self) -> None:
        """Note that rows are about to be written; which ones may not be known."""
        if self._records:
            self._records[-1].has_writes = True
        else:
            self._has_writes = True

    def note_inserted(self, state: State) -> None:
        """Note that the row of an instance was inserted."""
        self._note(state, exists=True)

    def note_deleted(self, state: State) -> None:
        """Note that the row of an instance was deleted."""
        self._note(state, exists=False)

    def _note(self, state: State, *, exists: bool) -> None:
        keys = self._entities.of_class(state.class_)
        if self._records and keys.own_entity is not None and state.key is not None:
            self._records[-1].note((keys.own_entity, keys.key_of(state.key[1])), exists)
        self._note_activity("created" if exists else "deleted", [state])

    def note_updated(self, states: Iterable[State]) -> None:
        """Note that the rows of instances were updated."""
        self._note_activity("updated", states)

    def _note_activity(self, action: Action, states: Iterable[State]) -> None:
        if self.log is not None and self._records:
            own = (s for s in states if self.is_foreign is None or not self.is_foreign(s))
            add_activity(self._records[-1].activity, self._rows.of_states(action, own))

    def note_deleted_rows(self, primary: Column[Any], values: Collection[Any]) -> None:
        """Note that a statement has deleted rows.

        A DELETE from the table of a joined subclass leaves the rows of the base class, which the
        refs of its entity name.

        Args:
            primary: the primary key of the table.
            values: of the deleted rows.
        """
        column = self._entities.of_column(primary)
        mapper = sqla.mapper_of_table(primary.table)
        is_root = mapper is None or sqla.root_of(mapper).local_table is primary.table
        if column is None or not is_root or not self._records:
            return
        if column.space == self._entities.name_of(primary.table):
            for value in values:
                self._records[-1].note((column.space, column.to_key(value)), exists=False)

    def note_deleted_pairs(self, pairs: Iterable[EntityKey]) -> None:
        """Note that the database deletes rows, by their keys."""
        if self._records:
            for pair in pairs:
                self._records[-1].note(pair, exists=False)

    def note_labels(self, labels: Mapping[EntityKey, str | None]) -> None:
        """Note labels that a flush has changed."""
        if self._records:
            self._records[-1].labels |= labels
            self._relabelled.update(labels)

    def note_drafts(self, drafts: Mapping[str, EntityKey], undo: Callable[[], None]) -> None:
        """Note that drafts are inserted with the next flush.

        Args:
            drafts: their refs, with the keys of their rows.
            undo: called if they are rolled back.
        """
        if self._records:
            self._records[-1].drafts |= drafts
            self._records[-1].undo.append(undo)

    def about_to_write(self, execution: ORMExecuteState) -> list[Activity]:
        """Return the activity of a statement that is about to write, if activity is kept."""
        return [] if self.log is None else self._rows.about_to_write(execution)

    def note_written(
        self, execution: ORMExecuteState, result: Result[Any], activity: Iterable[Activity]
    ) -> None:
        """Note the activity of a statement that was executed, if activity is kept.

        Args:
            execution: of the statement.
            result: its result, which may have the keys of inserted rows.
            activity: what `about_to_write` has returned.
        """
        if self.log is not None and self._records:
            created = self._rows.created_rows(execution, result)
            add_activity(self._records[-1].activity, [*created, *activity])

    def note_shown(self, activity: Iterable[Activity]) -> None:
        """Note which rows a model was shown.

        If the transaction has written rows, they are kept when it is committed.
        """
        if self.log is None:
            return
        if any(record.activity or record.has_writes for record in self._records):
            add_activity(self._records[-1].activity, activity)
        else:
            self.log.store(activity)

    # Begin and end

    def begin(self) -> None:
        """Begin the record of a transaction or a savepoint."""
        self._records.append(_Record(has_writes=self._has_writes))
        self._has_writes = False

    def on_connect(self, *, is_own: bool, nested: bool, autocommits: bool) -> None:
        """Note that the transaction, or a savepoint in it, has begun on another connection.

        Args:
            is_own: whether the session has taken the connection from an engine. If not, the
                application may commit it after the session has closed.
            nested: whether it is a savepoint.
            autocommits: whether each statement is committed at once.
        """
        self._rolls_back = self._rolls_back and (is_own or nested)
        self._autocommits |= autocommits

    def before_commit(self, *, aborted: bool) -> None:
        """Note that COMMIT is about to be sent.

        Args:
            aborted: whether the transaction has failed. COMMIT rolls it back then, without an
                error.
        """
        self._commits, self._aborted = True, aborted

    def after_rollback(self) -> None:
        """Note that the transaction was rolled back."""
        self._rolls_back = True

    def after_commit(self) -> None:
        """Note that the innermost transaction or savepoint was committed."""
        if self._records and not self._aborted:
            self._records[-1].is_committed = True

    def end(self, *, nested: bool, disconnected: bool) -> None:
        """End the innermost record; report to the conversation if it was the last.

        Rows that were not committed were rolled back, unless that is unknown: the connection may
        have been lost during the commit. Then the next use of a ref checks whether its row exists.

        Args:
            nested: whether it is a savepoint.
            disconnected: whether the connection was lost.
        """
        is_unknown = self._commits and disconnected
        may_stay = self._autocommits or not (self._rolls_back or nested)
        if not nested:
            self._rolls_back, self._autocommits, self._commits = True, False, False
        if not self._records:
            return
        record = self._records.pop()
        if not record.is_committed:
            self._undo(record, is_certain=not (is_unknown or may_stay))
        elif self._records:
            self._records[-1].merge(record)
        else:
            self._settle(record)
        if not self._records:
            self._report()

    def _undo(self, record: _Record, *, is_certain: bool) -> None:
        """Note the rows that were never saved; rows that an outer record has are left to it."""
        for undo in record.undo:
            undo()
        if is_certain:
            outside = {pair for other in self._records for pair in other.before}
            unsaved = {pair for pair, existed in record.before.items() if not existed}
            self._gone |= dict.fromkeys(unsaved - outside, "was never saved")

    def _settle(self, record: _Record) -> None:
        self._labels |= record.labels
        add_activity(self._activity, record.activity.values())
        self._saved += [ref for ref, pair in record.drafts.items() if record.after.get(pair)]
        for pair, exists in record.after.items():
            if exists:
                self._gone.pop(pair, None)
            else:
                self._gone[pair] = "was deleted"

    def _report(self) -> None:
        gone, self._gone = self._gone, {}
        labels, self._labels = self._labels, {}
        saved, self._saved = self._saved, []
        relabelled, self._relabelled = self._relabelled, set()
        try:
            labelled = self._conversation.end_saving(saved, labels)
            for reason in set(gone.values()):
                pairs = [pair for pair in gone if gone[pair] == reason]
                self._conversation.note_gone(pairs, reason)
            changed = {pair: labels[pair] for pair in labels if pair not in labelled}
            self._conversation.store_labels(changed, relabelled)
        except SQLAlchemyError:
            # The transaction has ended. If this is lost, the next use of a ref checks its row.
            count = len(gone) + len(saved)
            _log.warning("could not record whether the rows of %d refs exist", count)
        activity, self._activity = self._activity, {}
        if self.log is not None:
            self.log.store(activity.values())


# Activity


class ActivityLog:
    """Stores the activity of one session, for prompts.

    Args:
        conversation: as the session sees it.
        actor: on whose behalf the session works.
    """

    def __init__(self, conversation: SessionConversation, actor: Actor) -> None:
        self._conversation = conversation
        self._actor = actor
        self._activity: ActivityByKey = {}
        self._batches = 0  # open, inside each other
        conversation.on_deleted = self._note_deleted

    def _note_deleted(self, pairs: Iterable[EntityKey]) -> None:
        """Keep rows that were found to be deleted; stored with the next activity."""
        add_activity(self._activity, [Activity(pair, "deleted") for pair in pairs])

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Store all activity inside the `with` in one round trip when it ends."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            self.store(())

    def store(self, activity: Iterable[Activity]) -> None:
        """Store activity: one round trip, or none for no activity.

        The work itself is done. If the activity cannot be stored, that is logged and not raised.
        """
        add_activity(self._activity, activity)
        if self._batches or not self._activity:
            return
        batch, self._activity = self._activity, {}
        try:
            self._conversation.note_activity([*batch.values()], self._actor)
        except SQLAlchemyError:
            _log.warning("could not record the activity on the rows of %d refs", len(batch))


# Written rows


_UPSERTS = "on_conflict_do_nothing"  # a method of the INSERT constructs that may skip or update


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Finds out which rows a flush or a statement writes.

    Attributes:
        entities: which columns hold keys.
    """

    entities: Entities

    def of_states(self, action: Action, states: Iterable[State]) -> list[Activity]:
        """Return the activity on the rows of instances, with their labels."""
        activity = []
        for state in states:
            # rows of association tables have no refs
            if state.key is not None and not sqla.is_association(state.mapper):
                for each in self._of_rows(action, state.class_, [state.key[1]]):
                    label = self.entities.label_of(each.key[0])
                    text = None if label is None else label.of(state.dict)
                    activity.append(replace(each, label=text))
        return activity

    def about_to_write(self, execution: ORMExecuteState) -> list[Activity]:
        """Return the rows that an UPDATE or DELETE is about to change: one more statement."""
        target = _write_target(execution)
        if target is None or execution.is_insert:
            return []
        parameters: Any = execution.parameters
        if isinstance(parameters, Sequence):  # ORM bulk UPDATE by primary key
            rows: Sequence[Sequence[Any]] = target.identities(parameters)
        else:
            statement: Any = execution.statement
            criterion = true() if statement.whereclause is None else statement.whereclause
            schemas = {"schema_translate_map"} & execution.execution_options.keys()
            options = {name: execution.execution_options[name] for name in schemas}
            rows = execution.session.execute(
                select(*target.columns).where(criterion).limit(MOST),
                parameters,
                execution_options={**options, "raw_keys": True},
                bind_arguments=execution.bind_arguments,
            ).all()
        action: Action = "deleted" if execution.is_delete and target.is_whole else "updated"
        return self._of_rows(action, target.of, rows[:MOST])

    def created_rows(self, execution: ORMExecuteState, result: Result[Any]) -> list[Activity]:
        """Return the rows that an INSERT has created, if it or its result has their keys."""
        target, statement = _write_target(execution), execution.statement
        if not execution.is_insert or target is None:
            return []
        cursor, parameters = sqla.cursor_result_of(result), execution.parameters
        rows: Sequence[Any] = ()
        if cursor is not None:
            with suppress(InvalidRequestError):  # raised if there was no RETURNING
                rows = cursor.inserted_primary_key_rows or ()
        # an upsert does not return which of its records found an existing row
        if hasattr(statement, _UPSERTS):
            return self._of_rows("created", target.of, rows[:MOST])
        if not rows and isinstance(parameters, Sequence):
            rows = target.identities(parameters)
        if cursor is not None and not any(None not in each for each in rows):
            rows = sqla.returned_identities(cursor, target.primary_key)
        return self._of_rows("created", target.of, rows[:MOST])

    def _of_rows(
        self, action: Action, of: type[Any] | Table, identities: Iterable[Sequence[Any]]
    ) -> list[Activity]:
        """Return the activity on rows, which are identified by the values of their primary key."""
        keys = self._keys_of(of)
        entity = keys.own_entity or self._name_of(of)
        if entity is None:
            return []
        rows = (_key_of(keys, each) for each in identities if None not in each)
        # rows without a ref of their own count only if a tool has shown them, which gave them one
        needs_ref = keys.own_entity is None
        return [
            Activity((entity, key), action, shown=needs_ref) for key in rows if key is not None
        ]

    def _keys_of(self, of: type[Any] | Table) -> ClassKeys:
        """Return the keys of a class, or of a table without a class."""
        if not isinstance(of, Table):
            return self.entities.of_class(sqla.root_of(inspect(of).mapper).class_)
        identity = tuple(self.entities.of_column(column) for column in of.primary_key)
        name = self._name_of(of)
        is_own = [None if each is None else each.space for each in identity] == [name]
        return ClassKeys(
            primary={},
            foreign={},
            all={},
            identity=identity,
            own_entity=name if is_own else None,
            alternate={},
            label=None,
            declares_label=False,
            attributes={},
            refused={},
        )

    def _name_of(self, of: type[Any] | Table) -> str | None:
        try:
            return self.entities.name_of(of)
        except (EntityNameError, KeyColumnError):  # then no toolset can have it
            return None


@dataclass(frozen=True, slots=True)
class _WriteTarget:
    """The class or table that a statement writes to.

    Attributes:
        of: the class, or a table without one.
        columns: its primary key.
        names: their names in the statement's parameters.
        is_whole: whether a DELETE deletes whole rows. From the table of a joined subclass it
            deletes a part, and the row of the base class stays.
    """

    of: type[Any] | Table
    columns: Sequence[Any]
    names: Sequence[str]
    is_whole: bool = True

    @property
    def primary_key(self) -> Sequence[Column[Any]]:
        """The primary key's columns in the table."""
        return [*(self.of if isinstance(self.of, Table) else inspect(self.of).mapper).primary_key]

    def identities(self, records: Iterable[Mapping[str, Any]]) -> list[Sequence[Any]]:
        """Return the primary keys of those records that have one."""
        names = self.names
        return [[each[name] for name in names] for each in records if {*names} <= each.keys()]


def _write_target(execution: ORMExecuteState) -> _WriteTarget | None:
    """Return the class or table that a statement writes to; `None` if it only reads."""
    if not (execution.is_insert or execution.is_update or execution.is_delete):
        return None
    # the bind arguments of a Core statement are the application's, and may name any class
    mapper = execution.bind_mapper if execution.is_orm_statement else None
    table = getattr(execution.statement, "table", None)
    names = None if mapper is None else _primary_attributes(mapper)
    if isinstance(table, Table) and mapper is None:
        names = [column.key for column in table.primary_key]
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            return _WriteTarget(table, [*table.primary_key], names)
    if mapper is None or names is None:
        return None
    # attributes, not columns of the table: a single-table subclass adds its discriminator
    # criterion
    columns = [getattr(mapper.class_, name) for name in _primary_attributes(mapper)]
    is_whole = mapper.local_table is sqla.root_of(mapper).local_table
    return _WriteTarget(mapper.class_, columns, names, is_whole)


def _primary_attributes(mapper: Mapper[Any]) -> list[str]:
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _key_of(keys: ClassKeys, identity: Sequence[Any]) -> Key | None:
    """Return the key of a row; `None` if its type cannot have refs."""
    key = keys.key_of(identity)
    can_have_ref = all(isinstance(part, uuid.UUID | int | str) for part in key_parts(key))
    return key if can_have_ref else None
