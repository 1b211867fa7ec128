"""RefSession and its event hooks.

Where the package hooks into SQLAlchemy: what a session tells on its way, and who is asked.

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

`RefSession`: a `Session` that accepts refs wherever it accepts keys, and shows refs.

Its methods are here; what it does on its way is in `events`, hook by hook. A statement's refs
become keys, SQLAlchemy executes it, and keys in its rows become refs (`path`). Instances belong to
the session's `Boundary`: they keep their keys, their attributes show refs (`instances`). Between
the two everything works on keys: identity map, unit of work, cascades and lazy loading are
SQLAlchemy's own, untouched.

    sessions = sessionmaker(engine, class_=RefSession)
    with sessions(conversation=registry.conversation("chat-7")) as session:
        session.get(Recipe, "recipe_1")

Limits: a ref is translated where its value meets a key unchanged, compared with it or stored in
its column, and refused wherever else it would meet a key. A key is shown as its ref where it
stands as it is: by itself, as text, or in a list, a JSON document or a bundle. What is computed
from keys is refused, and so is a value that may be a key where neither the statement nor the
server tells its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args
from weakref import ref

from sqlalchemy import Connection, Result, event, inspect
from sqlalchemy.orm import (
    InstanceState,
    ORMExecuteState,
    Session,
    SessionTransaction,
    UOWTransaction,
)

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import OwnershipError, SetupError, UnconfinedError
from alfred_refs.owners import (
    Confinement,
    OwnedFlush,
    Owner,
    check_sent,
    confine_write,
    confined_records,
)
from alfred_refs.session.instances import Boundary
from alfred_refs.session.lookups import VisibleRefs
from alfred_refs.session.translation import (
    Translation,
    finish,
    mint_on_fetch,
    prepare,
    put_keys_in_assigned,
)
from alfred_refs.sqla import State
from alfred_refs.store import Activity, Actor


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
        or sqla.is_internal_load(execution)  # by keys, for the session itself
        or execution.execution_options.get("raw_keys")
    ):
        sqla.drop_loader_yield_per(execution)
        is_met = boundary.looks_ahead
        return (
            mint_on_fetch(execution, sqla.invoke_statement(execution), translation)
            if is_met
            else None
        )
    prepared = prepare(execution, translation)
    if prepared is None:
        return None
    result = sqla.invoke_statement(execution, watched=boundary.looks_ahead)
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
    return None if execution.parameters is given else sqla.invoke_statement(execution)


# Instances


@event.listens_for(TranslatedSession, "before_attach", raw=True)
def _on_attach(session: TranslatedSession, state: State) -> None:
    if session._confinement is not None and state.key is not None:
        session._confinement.doubtful = True
        session._confinement.outlive([state])  # nobody knows who has loaded it
    if session._translation is not None:
        boundary = session._translation.boundary
        held = boundary.enter_new(state, flushing=sqla.is_flushing(session))
        if held:
            session._translation.saving.resolved(held)


@event.listens_for(TranslatedSession, "pending_to_persistent", raw=True)
def _on_insert(session: TranslatedSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.enter(state)
        session._translation.transactions.inserted(state)


@event.listens_for(TranslatedSession, "pending_to_transient", raw=True)
@event.listens_for(TranslatedSession, "persistent_to_transient", raw=True)
def _taken_back(session: TranslatedSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.leave(state)


@event.listens_for(TranslatedSession, "persistent_to_deleted", raw=True)
def _on_delete(session: TranslatedSession, state: State) -> None:
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
def _on_change(session: TranslatedSession, flush: UOWTransaction) -> None:
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
def _on_flush(session: TranslatedSession, *_: object) -> None:
    if session._translation is not None and session._translation.boundary.looks_ahead:
        session._translation.conversation.alternates.forget()
        session._translation.boundary.look_ahead()


# Transactions


@event.listens_for(TranslatedSession, "after_transaction_create")
def _on_begin(session: TranslatedSession, transaction: SessionTransaction) -> None:
    # a flush begins one inside another, which is neither of these
    if session._translation is not None and (transaction.nested or transaction.parent is None):
        session._translation.transactions.begun()


@event.listens_for(TranslatedSession, "after_begin")
def _on_connect(
    session: TranslatedSession, transaction: SessionTransaction, connection: Connection
) -> None:
    translation, nested = session._translation, transaction.nested
    is_own = sqla.is_own_connection(transaction, connection)
    if translation is not None:
        translation.failures.watch(connection)
        autocommits = sqla.autocommits(connection)
        translation.transactions.on_connect(is_own=is_own, nested=nested, autocommits=autocommits)
        options = connection.get_execution_options()
        if "schema_translate_map" in options or translation.conversation.schemas:
            translation.conversation.use_schemas(sqla.schemas_in(options))
    if session._confinement is not None:
        session._confinement.on_connect(
            connection, partial(_check_sent, ref(session)), outermost=not nested, is_own=is_own
        )


def _check_sent(session: ref[TranslatedSession], *sent: Any) -> None:
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
def _on_commit(session: TranslatedSession) -> None:
    if session._translation is not None:
        session._translation.boundary.learn_labels()
        session._translation.transactions.committed()


@event.listens_for(TranslatedSession, "after_transaction_end")
def _on_end(session: TranslatedSession, transaction: SessionTransaction) -> None:
    is_outermost = transaction.parent is None
    if session._confinement is not None and is_outermost:
        session._confinement.on_disconnect()
        if not session.expire_on_commit:
            session._confinement.outlive(session.identity_map.all_states())
    translation = session._translation
    if translation is None:
        return
    if transaction.nested or is_outermost:
        translation.boundary.learn_labels()
        translation.transactions.on_end(nested=transaction.nested, cut=translation.failures.cut)
    translation.conversation.alternates.forget()
    if is_outermost:
        translation.failures.unwatch()
        translation.saving.on_end()
        translation.boundary.forget_classes()


T = TypeVar("T")


class RefSession(TranslatedSession):
    """A `Session` in which a language model's refs stand for keys.

    Args:
        bind: as for `Session`.
        conversation: what the refs are valid in, or, where `registry` is given, its id. Without
            one this is a plain `Session`.
        registry: opens the conversation named by an id; usually an argument of `sessionmaker`.
        owner: to whose rows the session keeps; without one it confines nothing. A conversation
            named by its id is held for this owner.
        by: on whose behalf it works, `"model"` or `"user"`: what it does with rows is then kept
            in the conversation, for prompts.
        session_arguments: as for `Session`.

    Raises:
        SetupError: a conversation is named by its id and there is no registry.
        OwnershipError: `owner` is none, or the conversation is held for another, or for nobody.

    Example:
        >>> with sessions(conversation=registry.conversation("chat-7")) as session:
        ...     session.get(Recipe, "recipe_1").name
        ...     session.scalars(select(Line.id).where(Line.recipe_id == "recipe_1")).all()
        'Soup'
        ['line_1', 'line_2']
    """

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        owner: Owner | None = None,
        by: Actor | None = None,
        **session_arguments: Any,
    ) -> None:
        # by its name: a session class beside ours may take something else first
        super().__init__(bind=bind, **session_arguments)
        if not isinstance(owner, Owner | None):
            raise OwnershipError(
                f"the owner of a session is given as {type(owner).__name__}",
                "give ownership.of(...), which says whose rows are whose too",
            )
        if isinstance(conversation, str):
            if registry is None:
                raise SetupError(
                    "a conversation was given by its id to a session without registry",
                    "give registry.conversation(id), or registry=... to the sessionmaker",
                )
            held_for = None if owner is None else str(owner.value)
            conversation = registry.conversation(conversation, owner=held_for)
        if by not in (None, *get_args(Actor)):
            raise SetupError(f"a session works by {by!r}", "give 'model', 'user' or nothing")
        self._conversation = conversation
        if conversation is not None:
            self._translation = Translation(conversation, self, by)
            self._translation.watch_identities(self)
        if owner is not None:
            self._confine(owner)

    def _confine(self, owner: Owner) -> None:
        translation = self._translation
        if translation is None:
            self._confinement = Confinement(owner)
        else:
            held_for = translation.conversation.owner
            if held_for != str(owner.value):
                whose = "nobody in particular" if held_for is None else "another owner"
                raise OwnershipError(
                    f"the conversation of a session that has an owner is held for {whose}",
                    "give its id and registry=..., which holds it for that owner, or open it with "
                    "registry.conversation(id, owner=...)",
                )
            self._confinement = Confinement(owner, translation.named)
            translation.conversation.select_suggestions = VisibleRefs(self, self._confinement)
        event.listen(self, "do_orm_execute", confine)

    @property
    def _boundary(self) -> Boundary | None:
        return None if self._translation is None else self._translation.boundary

    @property
    def conversation(self) -> Conversation | None:
        """What the session's refs are valid in, chosen when the session is made."""
        return self._conversation

    @property
    def own_view(self) -> SessionConversation | None:
        """The conversation as the session itself sees it.

        The refs of drafts that its transaction has saved name their rows here, and nowhere else
        before it is committed.
        """
        return None if self._translation is None else self._translation.conversation

    @contextmanager
    def activity(self) -> Iterator[list[Activity] | None]:
        """Keep what is done inside the `with` at once, and what a model was shown of it.

        Yields:
            a list, to which is added what the model was shown; `None` where nothing is kept,
                as nobody said by whom the session works.
        """
        translation = self._translation
        log = None if translation is None else translation.transactions.log
        if translation is None or log is None:
            yield None
            return
        seen: list[Activity] = []
        with log.together():
            yield seen
            translation.transactions.showed(seen)

    @property
    def owner(self) -> Owner | None:
        """To whose rows the session keeps."""
        return None if self._confinement is None else self._confinement.owner

    @property
    def mint_when_fetched(self) -> bool:
        """Whether keys are minted as they are fetched or flushed, and not when looked at.

        `AsyncRefSession` sets it: there an attribute can be read only without I/O.
        """
        return self._boundary is not None and self._boundary.eager

    @mint_when_fetched.setter
    def mint_when_fetched(self, eager: bool) -> None:
        if self._boundary is not None:
            self._boundary.mint_when_fetched(eager)

    @contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Show and accept keys as they are inside the `with`: for trusted application code."""
        translation = self._translation
        if translation is None:
            yield
            return
        before = translation.boundary.raw
        translation.boundary.show_keys(True)
        try:
            yield
        finally:
            translation.boundary.show_keys(before)
            if not before:
                # SQLAlchemy tells the error of a flush again, to whoever goes on without rollback
                sqla.replace_flush_error(self, translation.failures.redact_again)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Confine nothing to the owner's rows inside the `with`: for trusted application code.

        What is changed inside must be flushed inside. What waits for a flush by then is the
        owner's as before, whenever it is flushed.
        """
        if self._confinement is None:
            yield
            return
        with self._confinement.suspend(self):
            yield

    def connection(self, *args: Any, **options: Any) -> Connection:
        """See `Session.connection`; not for a session that has an owner.

        Raises:
            UnconfinedError: what is executed on the connection itself cannot be confined.
        """
        if self._confinement is not None and not self._confinement.lifted:
            raise UnconfinedError("what is executed on session.connection()")
        return super().connection(*args, **options)

    def expunge_all(self) -> None:
        """See `Session.expunge_all`."""
        super().expunge_all()
        if self._translation is not None:
            self._translation.watch_identities(self)

    def hide_keys(self, error: Exception) -> None:
        """Put refs in place of keys in an exception, and in all that hangs on it.

        What leaves the session by itself is worded so already; this is for code around it.

        >>> session.hide_keys(error)  # ValueError("no stock for 1f0b…")
        >>> str(error)
        'no stock for recipe_1'
        """
        if self._translation is not None:
            self._translation.hide(error)

    if TYPE_CHECKING:

        def get(self, entity: Any, ident: Any, **options: Any) -> Any:
            """See `Session.get`: for a type checker, key attributes are those of the mapping."""

    def enable_relationship_loading(self, obj: object) -> None:
        """See `Session.enable_relationship_loading`; foreign keys of the object may be refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        super().enable_relationship_loading(obj)
        if self._boundary is not None:
            self._boundary.resolve_at_once(sqla.state_of(obj))

    def merge(self, instance: T, **options: Any) -> T:
        """See `Session.merge`; key attributes of the instance may have refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        with self._merging([instance]):
            return super().merge(instance, **options)

    if hasattr(Session, "merge_all"):  # since SQLAlchemy 2.1

        def merge_all(self, instances: Iterable[T], **options: Any) -> Sequence[T]:
            """See `Session.merge_all`; key attributes of the instances may have refs.

            Raises:
                BadRefError: one of them cannot be used.
            """
            instances = list(instances)
            with self._merging(instances):
                return super().merge_all(instances, **options)

    def _merging(self, instances: Iterable[object]) -> AbstractContextManager[None]:
        """Have key attributes of instances, and of what they lead to, hold keys meanwhile."""
        translation = self._translation
        if translation is None or translation.boundary.raw:
            return nullcontext()
        found = (inspect(instance, raiseerr=False) for instance in instances)
        states = [state for state in found if isinstance(state, InstanceState)]
        cascaded = (s.mapper.cascade_iterator("merge", s) for s in states)
        every = dict.fromkeys([*states, *(each[2] for some in cascaded for each in some)])
        return self._merging_keys(translation, every)

    @contextmanager
    def _merging_keys(
        self, translation: Translation, states: Iterable[InstanceState[Any]]
    ) -> Iterator[None]:
        lent = translation.boundary.pending.lent_keys(states)
        with translation.failures.hidden(), lent, self.raw_keys():
            yield

    def bulk_save_objects(self, objects: Iterable[object], *args: Any, **options: Any) -> None:
        """See `Session.bulk_save_objects`; key attributes of the objects may have refs."""
        objects = list(objects)
        if self._translation is not None:
            self._translation.transactions.writing()
            self._translation.boundary.adopt(map(sqla.state_of, objects))
        if self._confinement is not None and not self._confinement.lifted:
            OwnedFlush(self._confinement, self).save(objects)
        super().bulk_save_objects(objects, *args, **options)

    def bulk_insert_mappings(
        self, mapper: Any, mappings: Iterable[dict[str, Any]], *args: Any, **options: Any
    ) -> None:
        """See `Session.bulk_insert_mappings`; values of key columns may be refs."""
        given = list(mappings)
        records = self._records(mapper, given, new=True)
        super().bulk_insert_mappings(mapper, records, *args, **options)
        for mapping, record in zip(given, records, strict=True):
            new = {name: record[name] for name in record.keys() - mapping.keys()}
            shown = self._boundary and self._boundary.with_refs(inspect(mapper).class_, new)
            mapping.update(shown or new)

    def bulk_update_mappings(self, mapper: Any, mappings: Iterable[dict[str, Any]]) -> None:
        """See `Session.bulk_update_mappings`; values of key columns may be refs."""
        super().bulk_update_mappings(mapper, self._records(mapper, list(mappings), new=False))

    def _records(
        self, mapper: Any, given: list[dict[str, Any]], *, new: bool
    ) -> list[dict[str, Any]]:
        mapped = getattr(inspect(mapper, raiseerr=False), "mapper", None)
        if mapped is None:
            return given
        if self._translation is not None:
            self._translation.transactions.writing()
            if not self._translation.boundary.raw:
                given = self._translation.boundary.pending.records(mapped.class_, given)
        if self._confinement is not None and not self._confinement.lifted:
            given = confined_records(self._confinement, self, mapped, given, new=new)
        return given
