"""Where the package hooks into SQLAlchemy: what a session tells on its way, and who is asked.

| hook | why | asks |
| --- | --- | --- |
| `do_orm_execute` | a statement's refs become keys, keys in its rows become refs | `path` |
| the same, with an owner | what a statement writes keeps to the owner | `owners.confine_write` |
| `before_attach` | an instance comes in: its key attributes may have refs | `Boundary.enter_new` |
| `before_flush` | refs that wait in new objects become keys; drafts get theirs | `DraftSaving` |
| the same, with an owner | what is about to be written is the owner's | `OwnedFlush` |
| `after_flush` | labels that have changed are noted; all was in one schema | `Boundary` |
| `after_flush_postexec` | new keys are minted, where no attribute may do I/O | `Boundary` |
| `pending_to_persistent`, `persistent_to_deleted` | rows come and go | `Transactions` |
| `pending_to_transient`, `persistent_to_transient` | instances are of no row, as are those \
that are deleted | `Boundary.leave` |
| `after_begin` | its connection hides keys in errors, and confines | `Failures`, `Confinement` |
| `after_transaction_create`, `_end`, `before_commit`, `after_commit`, `after_rollback` | what is \
rolled back was never saved | `Transactions` |

Beside these listeners there are: five private steps of `Session`, overridden in
`sqla.HookedSession`; two methods of the identity map, by which instances are taken in as they are
loaded (`sqla.watch_loading`) and errors of adding one are seen (`sqla.watch_adding`); and on the
mapped classes, once an application, attributes that show refs, and pickling
(`instances.attributes`), and dictionary collections (`instances.collections`). A connection's
errors are heard by `redaction.errors.hide_keys`; that of an owner compiles by a dialect that
confines (`sqla.dialects`).

A session without conversation has no translation, one without owner no confinement; each listener
ends where it asks for them, and nothing that SQLAlchemy does is changed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast
from weakref import ref

from sqlalchemy import Connection, Result, event
from sqlalchemy.orm import ORMExecuteState, SessionTransaction, UOWTransaction

from alfred_refs import sqla
from alfred_refs.owners import Confinement, OwnedFlush, check_sent, confine_write
from alfred_refs.sqla import State

from .named_keys import put_keys_in_assigned
from .path import finish, met, prepare
from .translation import Translation


class TranslatedSession(sqla.HookedSession):
    """A `Session` whose events are heard, if it is in a conversation or has an owner."""

    _translation: Translation | None = None
    _confinement: Confinement | None = None
    _owned_flush: OwnedFlush | None = None


# Statements


@event.listens_for(TranslatedSession, "do_orm_execute")
def translate(execution: ORMExecuteState) -> Result[Any] | None:
    """Execute a statement with keys in place of its refs, and return rows with refs for keys."""
    translation = cast(TranslatedSession, execution.session)._translation
    if translation is None:
        return None
    translation.begin(execution)
    boundary = translation.boundary
    if (
        boundary.raw
        or sqla.loads_by_itself(execution)  # by keys, for the session itself
        or execution.execution_options.get("raw_keys")
    ):
        sqla.load_whole(execution)
        is_met = boundary.looks_ahead
        return met(execution, sqla.invoked(execution), translation) if is_met else None
    prepared = prepare(execution, translation)
    if prepared is None:
        return None
    result = sqla.invoked(execution, watched=boundary.looks_ahead)
    return finish(execution, result, prepared, translation)


def confine(execution: ORMExecuteState) -> Result[Any] | None:
    """Have what is written keep to the owner, once its refs are keys.

    Which rows a statement reaches is seen to as it is compiled. Of sessions that have an owner
    only, after `translate`: each listener costs each statement.
    """
    confinement = cast(TranslatedSession, execution.session)._confinement
    if confinement is None or execution.is_select or not confinement.holds(execution):
        return None
    given = execution.parameters
    confine_write(confinement, execution)
    # other parameters are heeded by SQLAlchemy 2.1 alone
    return None if execution.parameters is given else sqla.invoked(execution)


# Instances


@event.listens_for(TranslatedSession, "before_attach", raw=True)
def _attached(session: TranslatedSession, state: State) -> None:
    if session._confinement is not None and state.key is not None:
        session._confinement.doubtful = True
        session._confinement.outlive([state])  # nobody knows who has loaded it
    if session._translation is not None:
        boundary = session._translation.boundary
        held = boundary.enter_new(state, flushing=sqla.is_flushing(session))
        if held:
            session._translation.saving.resolved(held)


@event.listens_for(TranslatedSession, "pending_to_persistent", raw=True)
def _inserted(session: TranslatedSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.enter(state)
        session._translation.transactions.inserted(state)


@event.listens_for(TranslatedSession, "pending_to_transient", raw=True)
@event.listens_for(TranslatedSession, "persistent_to_transient", raw=True)
def _taken_back(session: TranslatedSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.leave(state)


@event.listens_for(TranslatedSession, "persistent_to_deleted", raw=True)
def _deleted(session: TranslatedSession, state: State) -> None:
    # else it was not found, or would meet the criteria of a DELETE as it was loaded: both are told
    # where its ref is used, if the row is gone
    if session._translation is not None and sqla.is_flushing(session):
        session._translation.boundary.leave(state)
        session._translation.transactions.deleted(state)


# Flushes


@event.listens_for(TranslatedSession, "before_flush")
def _flushing(session: TranslatedSession, flush: UOWTransaction, _: object) -> None:
    translation, confinement = session._translation, session._confinement
    if translation is not None:
        boundary = translation.boundary
        if not boundary.raw:
            changed = map(sqla.state_of, (*session.new, *session.dirty))
            put_keys_in_assigned(changed, translation)
        translation.saving.resolve_new(flush)
        if boundary.looks_ahead:
            for instance in session.dirty:  # may have new keys
                boundary.enter(sqla.state_of(instance))
    session._owned_flush = None  # of a flush that was refused
    if confinement is not None and (confinement.waiting or not confinement.lifted):
        only = confinement.waiting if confinement.lifted else None
        session._owned_flush = OwnedFlush(confinement, session, only)
        session._owned_flush.begin()


@event.listens_for(TranslatedSession, "after_flush")
def _changed(session: TranslatedSession, flush: UOWTransaction) -> None:
    owned, session._owned_flush = session._owned_flush, None
    if owned is not None:
        owned.finish(flush)
    if session._translation is not None:
        boundary = session._translation.boundary
        session._translation.check_schemas()
        if session._translation.transactions.log is not None:
            changed = [each for each in session.dirty if session.is_modified(each)]
            session._translation.transactions.updated(map(sqla.state_of, changed))
        if boundary.labelled:
            labels = boundary.labelled.changed(session.dirty)
            session._translation.transactions.labelled(labels)


@event.listens_for(TranslatedSession, "after_flush_postexec")
def _flushed(session: TranslatedSession, *_: object) -> None:
    if session._translation is not None and session._translation.boundary.looks_ahead:
        session._translation.boundary.alternates.forget()
        session._translation.boundary.look_ahead()


# Transactions


@event.listens_for(TranslatedSession, "after_transaction_create")
def _begun(session: TranslatedSession, transaction: SessionTransaction) -> None:
    # a flush begins one inside another, which is neither of these
    if session._translation is not None and (transaction.nested or transaction.parent is None):
        session._translation.transactions.begun()


@event.listens_for(TranslatedSession, "after_begin")
def _connected(
    session: TranslatedSession, transaction: SessionTransaction, connection: Connection
) -> None:
    translation, nested = session._translation, transaction.nested
    is_own = sqla.is_own_connection(transaction, connection)
    if translation is not None:
        translation.failures.watch(connection)
        autocommits = sqla.autocommits(connection)
        translation.transactions.connected(is_own=is_own, nested=nested, autocommits=autocommits)
        options = connection.get_execution_options()
        if "schema_translate_map" in options or translation.conversation.schemas:
            translation.conversation.work_under(sqla.schemas_in(options))
    if session._confinement is not None:
        session._confinement.connected(
            connection, partial(_sent, ref(session)), outermost=not nested, is_own=is_own
        )


def _sent(session: ref[TranslatedSession], *sent: Any) -> None:
    """Look at what is written on the connection of a session."""
    found = session()
    if found is not None and found._confinement is not None:
        check_sent(found._confinement, found, *sent)


@event.listens_for(TranslatedSession, "before_commit")
def _committing(session: TranslatedSession) -> None:
    if session._translation is not None:
        translation = session._translation
        translation.transactions.committing(
            aborted=translation.failures.heard and translation.failures.aborted()
        )


@event.listens_for(TranslatedSession, "after_rollback")
def _rolled_back(session: TranslatedSession) -> None:
    if session._translation is not None:
        session._translation.transactions.rolled_back()


@event.listens_for(TranslatedSession, "after_commit")
def _committed(session: TranslatedSession) -> None:
    if session._translation is not None:
        session._translation.boundary.learn_labels()
        session._translation.transactions.committed()


@event.listens_for(TranslatedSession, "after_transaction_end")
def _ended(session: TranslatedSession, transaction: SessionTransaction) -> None:
    is_outermost = transaction.parent is None
    if session._confinement is not None and is_outermost:
        session._confinement.disconnected()
        if not session.expire_on_commit:
            session._confinement.outlive(session.identity_map.all_states())
    translation = session._translation
    if translation is None:
        return
    if transaction.nested or is_outermost:
        translation.boundary.learn_labels()
        translation.transactions.ended(nested=transaction.nested, cut=translation.failures.cut)
    translation.boundary.alternates.forget()
    if is_outermost:
        translation.failures.unwatch()
        translation.saving.ended()
        translation.boundary.forget_classes()
