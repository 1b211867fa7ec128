"""What happens to a session's instances, rows and connections, on behalf of its conversation.

Events of the session come in. Instances enter its `Boundary`, the fate of rows goes to its
`Outcome`, connections to its `Failures`; nothing that SQLAlchemy does is changed. A session
without a conversation has no interpreter, one without owner no confinement, and each listener
ends where it asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

from sqlalchemy import Connection, event
from sqlalchemy.exc import CircularDependencyError, IntegrityError
from sqlalchemy.orm import InstanceState, SessionTransaction, UOWTransaction

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.errors import OwnershipError
from alfred_refs.mapping.keys import token_of
from alfred_refs.owners import ConfinedSession, Confinement, OwnedFlush, Owner, check_sent
from alfred_refs.session.instances.boundary import Boundary
from alfred_refs.session.redaction.errors import Failures

from .drafts import DraftObjects, DraftSaving
from .transactions import Outcome
from .visible_refs import Offered

State = InstanceState[Any]


class Interpreter:
    """What a session in a conversation has beside a plain one.

    Args:
        conversation: what its refs are valid in.
        session: stays unchanged.

    Attributes:
        boundary: what the instances of the session show and accept.
        outcome: the fate of its rows.
        objects: of drafts, which it has given.
        saving: of drafts, with new objects.
        failures: words its errors anew.
    """

    __slots__ = ("boundary", "failures", "objects", "outcome", "saving")

    def __init__(self, conversation: Conversation, session: InterpretedSession) -> None:
        self.boundary = Boundary(conversation, session)
        self.outcome = Outcome(self.boundary.conversation)
        self.objects = DraftObjects(session, self.boundary.conversation)
        self.saving = DraftSaving(session, self.boundary, self.outcome)
        self.failures = Failures(self.boundary)

    def named(self, column: Any, value: Any) -> str | None:
        """Return the ref of the row that a value of a column names, if this process knows it."""
        conversation = self.boundary.conversation
        found = conversation.plans.entities.of_column(column)
        if found is None or found.array or found.by is not None:
            return None
        return conversation.refs_of(found.entity).get(token_of(found.to_key(value)))


class InterpretedSession(ConfinedSession):
    """A `Session` whose events are heard on behalf of a conversation, if it is in one."""

    _interpreter: Interpreter | None = None
    _owned_flush: OwnedFlush | None = None
    # whether what the transaction does not commit is rolled back, as far as is known
    _undone = True
    _autocommits = False
    _commits = False

    def _interpret(self, conversation: Conversation | None) -> None:
        """Work in a conversation from now on."""
        if conversation is not None:
            self._interpreter = Interpreter(conversation, self)
            schemas = sqla.schemas_of_session(self)
            self._interpreter.boundary.conversation.work_under(schemas)
            self._see = self._interpreter.failures.hide
            self._intake = self._interpreter.boundary
            self._watch_identities()

    def _confine(self, owner: Owner) -> None:
        """Keep to the rows of an owner from now on.

        Raises:
            OwnershipError: the conversation is not held for that owner: others would be told of
                the owner's refs, labels and drafts.
        """
        if self._interpreter is not None:
            held_for = self._interpreter.boundary.conversation.owner
            if held_for != str(owner.value):
                whose = "nobody in particular" if held_for is None else "another owner"
                raise OwnershipError(
                    f"the conversation of a session that has an owner is held for {whose}",
                    "give its id and registry=..., which holds it for that owner, or open it with "
                    "registry.conversation(id, owner=...)",
                )
        self._confinement = Confinement(owner)
        if self._interpreter is not None:
            self._confinement.named = self._interpreter.named
            self._interpreter.boundary.conversation.offers = Offered(self, self._confinement)

    def _flush(self, objects: Sequence[Any] | None = None) -> None:
        try:
            super()._flush(objects)
        except IntegrityError as error:
            if self._interpreter is not None:
                saved = self._interpreter.saving.saved_meanwhile(error)
                if saved is not None:
                    raise saved from error
            raise
        except CircularDependencyError as error:
            if self._interpreter is not None:
                circle = self._interpreter.saving.circle(error)
                if circle is not None:
                    raise circle from None
            raise

    def expunge_all(self) -> None:
        """See `Session.expunge_all`."""
        super().expunge_all()
        self._watch_identities()

    def _watch_identities(self) -> None:
        if self._interpreter is not None:
            sqla.watch_loading(self, self._interpreter.boundary)
            sqla.watch_adding(self, self._interpreter.failures.hide)

    def _watch_rows(self) -> None:
        """Note of each instance that is loaded from now on that its row is there."""
        event.listen(self, "loaded_as_persistent", _loaded, raw=True)


def _loaded(session: InterpretedSession, state: State) -> None:
    if session._interpreter is not None:
        session._interpreter.outcome.loaded(state)


@event.listens_for(InterpretedSession, "before_attach", raw=True)
def _attached(session: InterpretedSession, state: State) -> None:
    if session._confinement is not None and state.key is not None:
        session._confinement.doubtful = True
        session._confinement.outlive([state])  # nobody knows who has loaded it
    if session._interpreter is not None:
        boundary = session._interpreter.boundary
        held = boundary.enter_new(state, flushing=sqla.is_flushing(session))
        if held:
            session._interpreter.saving.resolved(held)


@event.listens_for(InterpretedSession, "before_flush")
def _flushing(session: InterpretedSession, flush: UOWTransaction, _: object) -> None:
    if session._interpreter is not None:
        boundary = session._interpreter.boundary
        session._interpreter.saving.resolve_new(flush)
        if boundary.looks_ahead:
            boundary.enter_all(session.dirty)
    session._owned_flush = None  # of a flush that was refused
    confinement = session._confinement
    if confinement is not None and (confinement.waiting or not confinement.lifted):
        only = confinement.waiting if confinement.lifted else None
        session._owned_flush = OwnedFlush(confinement, session, only)
        session._owned_flush.begin()


@event.listens_for(InterpretedSession, "after_flush")
def _changed(session: InterpretedSession, flush: UOWTransaction) -> None:
    owned, session._owned_flush = session._owned_flush, None
    if owned is not None:
        owned.finish(flush)
    if session._interpreter is not None:
        session._interpreter.failures.check_schemas()
    if session._interpreter is not None and session._interpreter.boundary.labelled:
        changed = session._interpreter.boundary.changed_labels(session.dirty)
        session._interpreter.outcome.labelled(changed)


@event.listens_for(InterpretedSession, "after_flush_postexec")
def _flushed(session: InterpretedSession, *_: object) -> None:
    if session._interpreter is not None and session._interpreter.boundary.looks_ahead:
        session._interpreter.boundary.alternates.forget()
        session._interpreter.boundary.look_ahead()


@event.listens_for(InterpretedSession, "pending_to_persistent", raw=True)
def _inserted(session: InterpretedSession, state: State) -> None:
    if session._interpreter is not None:
        session._interpreter.boundary.enter(state)
        session._interpreter.outcome.inserted(state)


@event.listens_for(InterpretedSession, "pending_to_transient", raw=True)
@event.listens_for(InterpretedSession, "persistent_to_transient", raw=True)
def _undone(session: InterpretedSession, state: State) -> None:
    if session._interpreter is not None:
        session._interpreter.boundary.leave(state)


@event.listens_for(InterpretedSession, "persistent_to_deleted", raw=True)
def _deleted(session: InterpretedSession, state: State) -> None:
    # else it was not found, or would meet the criteria of a DELETE as it was loaded: both are told
    # where its ref is used, if the row is gone
    if session._interpreter is not None and sqla.is_flushing(session):
        session._interpreter.outcome.deleted(state)


def _sent(session: ref[InterpretedSession], *sent: Any) -> None:
    """Look at what is written on the connection of a session."""
    found = session()
    if found is not None and found._confinement is not None:
        check_sent(found._confinement, found, *sent)


@event.listens_for(InterpretedSession, "after_begin")
def _connected(
    session: InterpretedSession, transaction: SessionTransaction, connection: Connection
) -> None:
    if session._interpreter is not None:
        session._interpreter.failures.watch(connection)
        if not (sqla.is_own_connection(transaction, connection) or transaction.nested):
            session._undone = False
        session._autocommits |= sqla.autocommits(connection)
        session._interpreter.boundary.conversation.work_under(sqla.schemas_of(connection))
    if session._confinement is not None:
        session._confinement.connected(
            connection,
            partial(_sent, ref(session)),
            outermost=not transaction.nested,
            is_own=sqla.is_own_connection(transaction, connection),
        )


@event.listens_for(InterpretedSession, "after_transaction_create")
def _begun(session: InterpretedSession, transaction: SessionTransaction) -> None:
    if session._interpreter is not None and _is_boundary(transaction):
        session._interpreter.outcome.begun()


@event.listens_for(InterpretedSession, "before_commit")
def _committing(session: InterpretedSession) -> None:
    session._commits = True


@event.listens_for(InterpretedSession, "after_rollback")
def _rolled_back(session: InterpretedSession) -> None:
    session._undone = True


@event.listens_for(InterpretedSession, "after_commit")
def _committed(session: InterpretedSession) -> None:
    if session._interpreter is not None:
        session._interpreter.boundary.learn_labels()
        session._interpreter.outcome.committed()


@event.listens_for(InterpretedSession, "after_transaction_end")
def _ended(session: InterpretedSession, transaction: SessionTransaction) -> None:
    if session._confinement is not None and transaction.parent is None:
        session._confinement.disconnected()
        if not session.expire_on_commit:
            session._confinement.outlive(session.identity_map.all_states())
    if session._interpreter is None:
        return
    boundary, outcome = session._interpreter.boundary, session._interpreter.outcome
    if _is_boundary(transaction):
        boundary.learn_labels()
        is_lost = session._commits and session._interpreter.failures.cut
        may_stay = session._autocommits or not (session._undone or transaction.nested)
        outcome.ended(undone=not (is_lost or may_stay))
    boundary.alternates.forget()
    if transaction.parent is None:
        session._interpreter.failures.unwatch()
        session._undone, session._autocommits, session._commits = True, False, False
        session._interpreter.saving.ended()
        boundary.forget_classes()


def _is_boundary(transaction: SessionTransaction) -> bool:
    """Tell a transaction or savepoint from what a flush begins inside it."""
    return transaction.nested or transaction.parent is None
