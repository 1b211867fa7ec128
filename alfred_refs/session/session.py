"""`RefSession` and its event hooks.

A `RefSession` is a `Session` that accepts refs wherever it accepts keys, and shows refs wherever
it would show keys. Refs become keys before SQLAlchemy executes a statement, keys in its rows
become refs afterwards. In between everything works on keys: identity map, unit of work, cascades
and lazy loading are SQLAlchemy's own.

>>> with sessions(conversation=registry.conversation("chat-7")) as session:
...     recipe = session.get(Recipe, "recipe_1")
...     recipe.id, recipe.lines[0].recipe_id
('recipe_1', 'recipe_1')

Each hook below is a function named after its event:

| hook | purpose | calls |
| --- | --- | --- |
| `do_orm_execute` | refs in a statement to keys, keys in its rows to refs | `translation` |
| `do_orm_execute` | with an owner: restrict writes to its rows | `WriteGuard` |
| `before_attach` | find refs in the key attributes of a new instance | `Boundary` |
| `before_flush` | resolve the refs of new instances, reserve keys for drafts | `DraftSaving` |
| `before_flush` | with an owner: check that all pending rows are its own | `WriteGuard` |
| `after_flush` | convert keys that defaults wrote as text | `Boundary` |
| `after_flush` | note changed labels, check `schema_translate_map` | `Transactions` |
| `after_flush_postexec` | mint refs of new rows, if attributes may do no I/O | `Boundary` |
| `pending_to_persistent` | log inserted rows | `Transactions` |
| `persistent_to_deleted` | log deleted rows | `Transactions` |
| `..._to_transient` | note that an instance has no row any more | `Boundary` |
| `after_begin` | hide keys in the errors of the connection | `ErrorRedaction` |
| `after_begin` | with an owner: restrict all that the connection sends | `Confinement` |
| `after_transaction_create`, `before_commit`, `after_commit`, `after_rollback`, \
`after_transaction_end` | find out which rows were saved or deleted for good | `Transactions` |

Four more hooks are not session events:

- `sqla.HookedSession` overrides private methods of `Session`, such as `_execute_internal`.
- `sqla.watch_loading` and `sqla.watch_adding` replace two methods of the identity map.
- `session.attributes` replaces the descriptors of key attributes, once per mapped class.
- `session.redaction` listens to `handle_error` on the connections of the session.

Limits: a ref is translated where its value is compared with a key column or stored in one. It
raises if it is combined with a key in any other way. A key is shown as a ref where it is returned
unchanged: as a column, as text, or in a list, a JSON document or a bundle. Expressions computed
from keys raise, and so do values that may be keys if neither the statement nor the server names
their column. Without conversation there is no translation, without owner no confinement: each hook
then returns at once, and the session behaves as a plain `Session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args
from weakref import proxy, ref

from sqlalchemy import Connection, Executable, Result, event, inspect
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
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.owners import Confinement, Owner, Ownership, WriteGuard, check_sent
from alfred_refs.session.instances import Boundary
from alfred_refs.session.lookups import VisibleRefs
from alfred_refs.session.translation import (
    Translation,
    finish,
    mint_on_fetch,
    prepare,
    resolve_assigned_expressions,
    statement_with_keys,
)
from alfred_refs.sqla import State
from alfred_refs.store import Activity, Actor

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Executable)


class RefSession(sqla.HookedSession):
    """A `Session` that accepts and shows short refs in place of keys.

    Args:
        bind: as for `Session`.
        conversation: the conversation in which refs are valid; its id suffices with a `registry`.
            Without one this is a plain `Session`.
        registry: opens a conversation passed by its id; usually an argument of `sessionmaker`.
        owner: the tenant or user whose rows the session is restricted to, from `Ownership.of`;
            without one there is no restriction. A conversation passed by its id is opened for this
            owner.
        ownership: makes `owner` required, and lets it be the owner's key; usually an argument of
            `sessionmaker`.
        by: `"model"` or `"user"`, on whose behalf the session works: its actions on rows are kept
            in the conversation for prompts.
        session_arguments: as for `Session`.

    Raises:
        SetupError: a conversation is passed by its id, without a registry.
        OwnershipError: `owner` is not an `Owner`, or is missing where it is required; or the
            conversation belongs to another owner or to none.

    Example:
        >>> with sessions(conversation=registry.conversation("chat-7")) as session:
        ...     session.get(Recipe, "recipe_1").name
        ...     session.scalars(select(Line.id).where(Line.recipe_id == "recipe_1")).all()
        'Soup'
        ['line_1', 'line_2']
    """

    _translation: Translation | None = None
    _confinement: Confinement | None = None
    _write_guard: WriteGuard | None = None

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        owner: Owner | Any = None,
        ownership: Ownership | None = None,
        by: Actor | None = None,
        **session_arguments: Any,
    ) -> None:
        # by keyword: another base class in the MRO may have other positional arguments
        super().__init__(bind=bind, **session_arguments)
        if ownership is not None and owner is None:
            raise OwnershipError(
                "a session was opened without owner=, which ownership= requires",
                "pass the owner's key; trusted code uses sessions without ownership=",
            )
        if ownership is not None and not isinstance(owner, Owner):
            owner = ownership.of(owner)
        if not isinstance(owner, Owner | None):
            raise OwnershipError(
                f"owner= is a {type(owner).__name__}, not an Owner",
                "pass ownership.of(key), or pass ownership= too",
            )
        if isinstance(conversation, str):
            if registry is None:
                raise SetupError(
                    "a session without registry got a conversation by its id",
                    "pass registry.conversation(id), or registry=... to the sessionmaker",
                )
            of_owner = None if owner is None else str(owner.value)
            conversation = registry.conversation(conversation, owner=of_owner)
        if by not in (None, *get_args(Actor)):
            raise SetupError(f"by={by!r} is invalid", "pass 'model', 'user' or nothing")
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
            of_owner = translation.conversation.owner
            if of_owner != str(owner.value):
                whose = "no owner" if of_owner is None else "another owner"
                raise OwnershipError(
                    f"a session with an owner got a conversation that belongs to {whose}",
                    "pass its id and registry=..., or open it with "
                    "registry.conversation(id, owner=...)",
                )
            self._confinement = Confinement(owner, translation.ref_of_value)
            translation.conversation.select_suggestions = VisibleRefs(self, self._confinement)
            is_foreign = partial(self._confinement.may_be_foreign, proxy(self))
            translation.boundary.labelled_classes.is_foreign = is_foreign
            translation.transactions.is_foreign = is_foreign
        # on this session only, after `translate`: each listener costs time in every statement
        event.listen(self, "do_orm_execute", confine)

    @property
    def _boundary(self) -> Boundary | None:
        return None if self._translation is None else self._translation.boundary

    @property
    def conversation(self) -> Conversation | None:
        """The conversation in which the session's refs are valid."""
        return self._conversation

    @property
    def own_view(self) -> SessionConversation | None:
        """The conversation as this session sees it.

        A draft that the session's transaction has saved is a row here, and a draft everywhere else
        until the transaction is committed.
        """
        return None if self._translation is None else self._translation.conversation

    @contextmanager
    def activity(self) -> Iterator[list[Activity] | None]:
        """Store the activity inside the `with` in one round trip when it ends.

        Yields:
            a list to which the caller adds the rows that a model was shown; `None` if the session
                has no `by`, and keeps no activity.
        """
        translation = self._translation
        log = None if translation is None else translation.transactions.log
        if translation is None or log is None:
            yield None
            return
        shown: list[Activity] = []
        with log.batch():
            yield shown
            translation.transactions.note_shown(shown)

    @property
    def owner(self) -> Owner | None:
        """The owner whose rows the session is restricted to."""
        return None if self._confinement is None else self._confinement.owner

    @property
    def mint_when_fetched(self) -> bool:
        """Whether refs are minted when rows are fetched or flushed, not when attributes are read.

        `AsyncRefSession` sets it: its attributes cannot do I/O.
        """
        return self._boundary is not None and self._boundary.eager

    @mint_when_fetched.setter
    def mint_when_fetched(self, eager: bool) -> None:
        if self._boundary is not None:
            self._boundary.mint_when_fetched(eager)

    @contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Show and accept keys unchanged inside the `with`: for trusted application code."""
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
                # PendingRollbackError quotes the error of a failed flush until the rollback
                sqla.replace_flush_error(self, translation.redaction.redact_again)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Allow rows of all owners inside the `with`: for trusted application code.

        Changes made inside must be flushed inside. Changes that are pending when the `with` begins
        stay restricted, whenever they are flushed.
        """
        if self._confinement is None:
            yield
            return
        with self._confinement.lift_for_application(self):
            yield

    def connection(self, *args: Any, **options: Any) -> Connection:
        """See `Session.connection`; not available in a session with an owner.

        Raises:
            UnconfinedError: the session has an owner. Statements executed on the connection cannot
                be restricted to its rows.
        """
        if self._confinement is not None and not self._confinement.is_lifted:
            raise UnconfinedError("session.connection()")
        return super().connection(*args, **options)

    def expunge_all(self) -> None:
        """See `Session.expunge_all`."""
        super().expunge_all()
        if self._translation is not None:
            self._translation.watch_identities(self)

    def hide_keys(self, error: Exception) -> None:
        """Put refs in place of keys in an exception, its causes and its context.

        Exceptions raised by the session are redacted already. This is for exceptions that
        application code raises while it works with keys.

        Args:
            error: the exception, which is changed in place.

        Example:
            >>> key = chat.resolve("recipe_1")
            >>> error = ValueError(f"no stock for {key}")
            >>> session.hide_keys(error)
            >>> str(error)
            'no stock for recipe_1'
        """
        if self._translation is not None:
            self._translation.hide(error)

    if TYPE_CHECKING:

        def get(self, entity: Any, ident: Any, **options: Any) -> Any:
            """See `Session.get`; typed as `Any`, as mapped key attributes show refs."""

    def enable_relationship_loading(self, obj: object) -> None:
        """See `Session.enable_relationship_loading`; foreign keys of the object may be refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        super().enable_relationship_loading(obj)
        if self._boundary is not None:
            self._boundary.resolve_at_once(sqla.state_of(obj))

    def merge(self, instance: _T, **options: Any) -> _T:
        """See `Session.merge`; key attributes of the instance may have refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        with self._merging([instance]):
            return super().merge(instance, **options)

    if hasattr(Session, "merge_all"):  # since SQLAlchemy 2.1

        def merge_all(self, instances: Iterable[_T], **options: Any) -> Sequence[_T]:
            """See `Session.merge_all`; key attributes of the instances may have refs.

            Raises:
                BadRefError: one of them cannot be used.
            """
            instances = list(instances)
            with self._merging(instances):
                return super().merge_all(instances, **options)

    @contextmanager
    def _merging(self, instances: Iterable[object]) -> Iterator[None]:
        """Put keys in place of refs in instances, and all that a merge reaches, inside the `with`.

        `Session.merge` copies attribute by attribute, and looks rows up by the attributes of the
        primary key.
        """
        translation = self._translation
        if translation is None or translation.boundary.raw:
            yield
            return
        inspected = (inspect(instance, raiseerr=False) for instance in instances)
        states = [state for state in inspected if isinstance(state, InstanceState)]
        cascades = (state.mapper.cascade_iterator("merge", state) for state in states)
        reached = dict.fromkeys(
            [*states, *(state for each in cascades for _, _, state, _ in each)]
        )
        keys = translation.boundary.pending.keys_during_merge(reached)
        with translation.redaction.redacting(), keys, self.raw_keys():
            yield

    def bulk_save_objects(self, objects: Iterable[object], *args: Any, **options: Any) -> None:
        """See `Session.bulk_save_objects`; key attributes of the objects may have refs."""
        objects = list(objects)
        if self._translation is not None:
            self._translation.transactions.note_writing()
            states = [*map(sqla.state_of, objects)]
            self._translation.boundary.adopt(states)
            self._translation.resolve_copied(states)
        if self._confinement is not None and not self._confinement.is_lifted:
            WriteGuard(self._confinement, self).check_objects(objects)
        super().bulk_save_objects(objects, *args, **options)

    def bulk_insert_mappings(
        self, mapper: Any, mappings: Iterable[dict[str, Any]], *args: Any, **options: Any
    ) -> None:
        """See `Session.bulk_insert_mappings`; values of key columns may be refs."""
        given = list(mappings)
        records = self._records(mapper, given, new=True)
        super().bulk_insert_mappings(mapper, records, *args, **options)
        for mapping, record in zip(given, records, strict=True):
            # SQLAlchemy adds defaults and, with return_defaults, primary keys to the dictionaries
            added = {name: record[name] for name in record.keys() - mapping.keys()}
            if self._boundary is not None:
                added = self._boundary.with_refs(inspect(mapper).class_, added)
            mapping.update(added)

    def bulk_update_mappings(self, mapper: Any, mappings: Iterable[dict[str, Any]]) -> None:
        """See `Session.bulk_update_mappings`; values of key columns may be refs."""
        super().bulk_update_mappings(mapper, self._records(mapper, list(mappings), new=False))

    def _records(
        self, mapper: Any, mappings: list[dict[str, Any]], *, new: bool
    ) -> list[dict[str, Any]]:
        """Return mappings with keys in place of refs, checked to be rows of the owner."""
        mapped = getattr(inspect(mapper, raiseerr=False), "mapper", None)
        if mapped is None:
            return mappings
        if self._translation is not None:
            self._translation.transactions.note_writing()
            if not self._translation.boundary.raw:
                mappings = self._translation.boundary.pending.records(mapped.class_, mappings)
                mappings = self._translation.with_copied_keys(mapped, mappings)
        if self._confinement is not None and not self._confinement.is_lifted:
            guard = WriteGuard(self._confinement, self)
            mappings = guard.confine_records(mapped, mappings, new=new)
        return mappings


# Statements


def note_deleted(session: RefSession, pairs: Iterable[EntityKey]) -> None:
    """Note rows that the transaction deletes without a statement of its own, such as a cascade."""
    if session._translation is not None:
        session._translation.transactions.note_deleted_pairs(pairs)


def with_keys(session: RefSession, statement: _E) -> _E:
    """Return a statement with keys in place of its refs, as a part of one with `raw_keys`.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: the statement has no translation.
    """
    translation = session._translation
    return statement if translation is None else statement_with_keys(statement, translation)


@event.listens_for(RefSession, "do_orm_execute")
def translate(execution: ORMExecuteState) -> Result[Any] | None:
    """Execute a statement with keys in place of its refs, and return rows with refs for keys."""
    translation = cast(RefSession, execution.session)._translation
    if translation is None:
        return None
    translation.begin(execution)
    boundary = translation.boundary
    if (
        boundary.raw
        or sqla.is_internal_load(execution)  # of SQLAlchemy, which knows keys only
        or execution.execution_options.get("raw_keys")
    ):
        sqla.drop_loader_yield_per(execution)
        if not boundary.looks_ahead:
            return None
        return mint_on_fetch(execution, sqla.invoke_statement(execution), translation)
    prepared = prepare(execution, translation)
    if prepared is None:
        return None
    result = sqla.invoke_statement(execution, watched=boundary.looks_ahead)
    return finish(execution, result, prepared, translation)


def confine(execution: ORMExecuteState) -> Result[Any] | None:
    """Restrict the values that a statement writes to the owner, once its refs are keys.

    The rows that a statement reaches are restricted when it is compiled (`owners.confinement`).
    """
    confinement = cast(RefSession, execution.session)._confinement
    if confinement is None or execution.is_select or not confinement.applies_to(execution):
        return None
    parameters = execution.parameters
    WriteGuard(confinement, execution.session).confine(execution)
    # a listener that replaces `execution.parameters` has an effect only since SQLAlchemy 2.1
    return None if execution.parameters is parameters else sqla.invoke_statement(execution)


# Instances


@event.listens_for(RefSession, "before_attach", raw=True)
def _before_attach(session: RefSession, state: State) -> None:
    if session._confinement is not None and state.key is not None:
        session._confinement.may_have_foreign = True
        # loaded elsewhere: its row may be of another owner
        session._confinement.mark_stale([state])
    if session._translation is not None:
        boundary = session._translation.boundary
        resolved = boundary.enter_new(state, flushing=sqla.is_flushing(session))
        if resolved:
            session._translation.draft_saving.note_resolved(resolved)


@event.listens_for(RefSession, "pending_to_persistent", raw=True)
def _pending_to_persistent(session: RefSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.end_flush()
        session._translation.boundary.enter(state)
        session._translation.transactions.note_inserted(state)


@event.listens_for(RefSession, "pending_to_transient", raw=True)
@event.listens_for(RefSession, "persistent_to_transient", raw=True)
def _to_transient(session: RefSession, state: State) -> None:
    if session._translation is not None:
        session._translation.boundary.leave(state)


@event.listens_for(RefSession, "persistent_to_deleted", raw=True)
def _persistent_to_deleted(session: RefSession, state: State) -> None:
    # Outside of a flush SQLAlchemy has not found the row, or a bulk DELETE with
    # synchronize_session matched it. Then the next use of the ref checks whether the row exists.
    if session._translation is not None and sqla.is_flushing(session):
        session._translation.boundary.end_flush()
        session._translation.boundary.leave(state)
        session._translation.transactions.note_deleted(state)


# Flushes


@event.listens_for(RefSession, "before_flush")
def _before_flush(session: RefSession, flush: UOWTransaction, _: object) -> None:
    translation, confinement = session._translation, session._confinement
    if translation is not None:
        boundary = translation.boundary
        if not boundary.raw:
            changed = [*map(sqla.state_of, (*session.new, *session.dirty))]
            resolve_assigned_expressions(changed, translation)
            translation.resolve_copied(changed)
        translation.draft_saving.resolve_new(flush)
        if boundary.looks_ahead:
            for instance in session.dirty:  # may have new keys
                boundary.enter(sqla.state_of(instance))
    session._write_guard = None  # left from a flush that failed
    if confinement is not None and (confinement.owned_pending or not confinement.is_lifted):
        only = confinement.owned_pending if confinement.is_lifted else None
        session._write_guard = WriteGuard(confinement, session, only)
        session._write_guard.before_flush()


@event.listens_for(RefSession, "after_flush")
def _after_flush(session: RefSession, flush: UOWTransaction) -> None:
    guard, session._write_guard = session._write_guard, None
    if guard is not None:
        guard.after_flush(flush)
    translation = session._translation
    if translation is not None:
        translation.check_schemas()
        dirty = session.dirty
        translation.boundary.convert_written(map(sqla.state_of, (*session.new, *dirty)))
        if translation.transactions.log is not None:
            changed = [each for each in dirty if session.is_modified(each)]
            translation.transactions.note_updated(map(sqla.state_of, changed))
        if translation.boundary.labelled_classes:
            labels = translation.boundary.labelled_classes.changed_labels(dirty)
            translation.transactions.note_labels(labels)


@event.listens_for(RefSession, "after_flush_postexec")
def _after_flush_postexec(session: RefSession, *_: object) -> None:
    if session._translation is None:
        return
    boundary = session._translation.boundary
    boundary.end_flush()
    if boundary.looks_ahead:
        session._translation.conversation.alternates.forget()
        boundary.look_ahead()


# Transactions


@event.listens_for(RefSession, "after_transaction_create")
def _after_transaction_create(session: RefSession, transaction: SessionTransaction) -> None:
    if session._translation is None:
        return
    # a flush creates a subtransaction, which has a parent and is not nested, after `before_flush`
    if transaction.nested or transaction.parent is None:
        session._translation.transactions.begin()
    elif sqla.is_flushing(session):
        if not session._translation.boundary.raw:
            # an application's `before_flush` may have copied refs since ours
            changed = map(sqla.state_of, (*session.new, *session.dirty))
            session._translation.resolve_copied(changed)
        session._translation.boundary.begin_flush()


@event.listens_for(RefSession, "after_begin")
def _after_begin(
    session: RefSession, transaction: SessionTransaction, connection: Connection
) -> None:
    translation, nested = session._translation, transaction.nested
    is_own = sqla.is_own_connection(transaction, connection)
    if translation is not None:
        translation.redaction.watch(connection)
        autocommits = sqla.autocommits(connection)
        translation.transactions.on_connect(is_own=is_own, nested=nested, autocommits=autocommits)
        options = connection.get_execution_options()
        if "schema_translate_map" in options or translation.conversation.schemas:
            translation.conversation.use_schemas(sqla.schemas_in(options))
    if session._confinement is not None:
        check = partial(_check_write, ref(session))
        session._confinement.on_connect(connection, check, outermost=not nested, is_own=is_own)


def _check_write(session: ref[RefSession], *statement: Any) -> None:
    """Check a write on a connection, which may outlive the session."""
    owned = session()
    if owned is not None and owned._confinement is not None:
        check_sent(owned._confinement, owned, *statement)


@event.listens_for(RefSession, "before_commit")
def _before_commit(session: RefSession) -> None:
    if session._translation is not None:
        redaction = session._translation.redaction
        aborted = redaction.has_errors and redaction.is_aborted()
        session._translation.transactions.before_commit(aborted=aborted)


@event.listens_for(RefSession, "after_rollback")
def _after_rollback(session: RefSession) -> None:
    if session._translation is not None:
        session._translation.transactions.after_rollback()


@event.listens_for(RefSession, "after_commit")
def _after_commit(session: RefSession) -> None:
    if session._translation is not None:
        session._translation.boundary.note_labels()
        session._translation.transactions.after_commit()


@event.listens_for(RefSession, "after_transaction_end")
def _after_transaction_end(session: RefSession, transaction: SessionTransaction) -> None:
    is_outermost = transaction.parent is None
    if session._confinement is not None and is_outermost:
        session._confinement.on_disconnect()
        if not session.expire_on_commit:
            session._confinement.mark_stale(session.identity_map.all_states())
    translation = session._translation
    if translation is None:
        return
    if transaction.nested or is_outermost:
        translation.boundary.note_labels()
        is_disconnected = translation.redaction.is_disconnected
        translation.transactions.end(nested=transaction.nested, disconnected=is_disconnected)
    translation.conversation.alternates.forget()
    if is_outermost:
        translation.redaction.unwatch()
        translation.draft_saving.forget_flush()
        translation.boundary.forget_classes()
