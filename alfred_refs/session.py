"""`RefSession`: a `Session` that accepts refs wherever it accepts keys, and shows refs.

The whole path is on this page. Statements pass through `translate`: refs in it become keys
(`criteria`), SQLAlchemy executes it, keys in its rows become refs (`rows`). Instances belong to
the session's `Boundary`: they keep their keys, their attributes show refs (`instances`). Between
the two everything works on keys: identity map, unit of work, cascades and lazy loading are
SQLAlchemy's own, untouched. Errors that pass out are worded anew (`failures`).

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
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy import ClauseElement, Connection, Result, event, inspect, select
from sqlalchemy.orm import InstanceState, ORMExecuteState, SessionTransaction

from . import criteria, origins, rows, sqla, written
from .alternates import Alternates
from .boundary import Boundary, holds_key
from .columns import KeyColumn
from .conversation import Conversation
from .criteria import Single
from .errors import SetupError
from .failures import Failures
from .outcome import Outcome, reading
from .plans import Plan
from .registry import RefRegistry

T = TypeVar("T")

Named = Sequence[tuple[KeyColumn, Any]]
"""The keys that the refs in a statement name, each with the column that it meets."""


class RefSession(sqla.WatchedSession):
    """A `Session` in which a language model's refs stand for keys.

    Args:
        bind: as for `Session`.
        conversation: what the refs are valid in, or, where `registry` is given, its id. Without
            one this is a plain `Session`.
        registry: opens the conversation named by an id; usually an argument of `sessionmaker`.
        session_arguments: as for `Session`.

    Raises:
        SetupError: a conversation is named by its id and there is no registry.
    """

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        **session_arguments: Any,
    ) -> None:
        # by its name: a session class beside ours may take something else first
        super().__init__(bind=bind, **session_arguments)
        if isinstance(conversation, str):
            if registry is None:
                raise SetupError(
                    "a conversation was given by its id to a session without registry",
                    "give registry.conversation(id), or registry=... to the sessionmaker",
                )
            conversation = registry.conversation(conversation)
        self._conversation = conversation
        self._boundary = None if conversation is None else Boundary(conversation, self)
        self._outcome = None if self._boundary is None else Outcome(self._boundary.conversation)
        self._failures = None if self._boundary is None else Failures(self._boundary)
        self._see = None if self._failures is None else self._failures.hide
        self._intake = self._boundary
        self._watch_identities()

    def expunge_all(self) -> None:
        """See `Session.expunge_all`."""
        super().expunge_all()
        self._watch_identities()

    def _watch_identities(self) -> None:
        if self._boundary is not None and self._see is not None:
            sqla.watch_loading(self, self._boundary)
            sqla.watch_adding(self, self._see)

    @property
    def conversation(self) -> Conversation | None:
        """What the session's refs are valid in: chosen when the session is made."""
        return self._conversation

    @property
    def mint_when_fetched(self) -> bool:
        """Whether keys are minted as they are fetched or flushed, and not when looked at.

        `AsyncRefSession` sets it: there an attribute can be read only without I/O.
        """
        return self._boundary is not None and self._boundary.eager

    @mint_when_fetched.setter
    def mint_when_fetched(self, eager: bool) -> None:
        if self._boundary is not None:
            self._boundary.eager = eager

    @contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Show and accept keys as they are inside the `with`: for trusted application code."""
        if self._boundary is None:
            yield
            return
        before, self._boundary.raw = self._boundary.raw, True
        try:
            yield
        finally:
            self._boundary.raw = before

    def get(self, entity: Any, ident: Any, **options: Any) -> Any:
        """See `Session.get`; the identity may be a ref, or have refs in it.

        Raises:
            BadRefError: a ref in the identity cannot be used.
        """
        if self._boundary is None:
            return super().get(entity, ident, **options)
        asked = options.pop("execution_options", None) or {}
        if not self._boundary.raw and not asked.get("raw_keys"):
            ident = self._boundary.identity(inspect(entity).mapper.class_, ident)
            self._boundary.conversation.plans.check(options.get("options") or ())
        # SQLAlchemy loads by the key, which may be text: it is not to be taken for a ref
        raw = {**asked, "raw_keys": True}
        return super().get(entity, ident, execution_options=raw, **options)

    def merge(self, instance: T, **options: Any) -> T:
        """See `Session.merge`; key attributes of the instance may have refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        if self._boundary is None or self._failures is None or self._boundary.raw:
            return super().merge(instance, **options)
        state = sqla.state_of(instance)
        states = [state, *(r[2] for r in state.mapper.cascade_iterator("merge", state))]
        with self._failures.hidden(), self._boundary.lent_keys(states), self.raw_keys():
            return super().merge(instance, **options)

    def merge_all(self, instances: Iterable[T], **options: Any) -> Sequence[T]:
        """See `Session.merge_all` of SQLAlchemy 2.1."""
        return [self.merge(instance, **options) for instance in instances]

    def bulk_save_objects(self, objects: Iterable[object], *args: Any, **options: Any) -> None:
        """See `Session.bulk_save_objects`; key attributes of the objects may have refs."""
        objects = list(objects)
        if self._boundary is not None:
            self._boundary.take_in(map(sqla.state_of, objects))
        super().bulk_save_objects(objects, *args, **options)

    def bulk_insert_mappings(
        self, mapper: Any, mappings: Iterable[dict[str, Any]], *args: Any, **options: Any
    ) -> None:
        """See `Session.bulk_insert_mappings`; values of key columns may be refs."""
        given = list(mappings)
        records = self._records(mapper, given)
        super().bulk_insert_mappings(mapper, records, *args, **options)
        for mapping, record in zip(given, records, strict=True):
            new = {name: record[name] for name in record.keys() - mapping.keys()}
            shown = self._boundary and self._boundary.with_refs(inspect(mapper).class_, new)
            mapping.update(shown or new)

    def bulk_update_mappings(self, mapper: Any, mappings: Iterable[dict[str, Any]]) -> None:
        """See `Session.bulk_update_mappings`; values of key columns may be refs."""
        super().bulk_update_mappings(mapper, self._records(mapper, list(mappings)))

    def _records(self, mapper: Any, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._boundary is None or self._boundary.raw:
            return given
        return self._boundary.with_keys(inspect(mapper).class_, given)


@event.listens_for(RefSession, "do_orm_execute")
def translate(execution: ORMExecuteState) -> Result[Any] | None:
    """Execute a statement with keys in place of its refs, and return rows with refs for keys."""
    session = cast(RefSession, execution.session)
    boundary, outcome = session._boundary, session._outcome
    if boundary is None or outcome is None:
        return None
    if outcome.must_watch():
        event.listen(session, "loaded_as_persistent", _loaded, raw=True)
    boundary.alternates.begin(reads=execution.is_select)
    boundary.make_room()
    if _is_raw(execution):
        sqla.load_whole(execution)
        return _met(execution, execution.invoke_statement()) if boundary.looks_ahead else None
    execution.statement, plan, values = boundary.conversation.plans.of(execution.statement)
    named = _put_keys(execution, plan, values)
    if not (plan.outputs or _is_watched(execution) or (named and execution.parameters)):
        return None
    result = execution.invoke_statement()
    if not execution.is_select:
        _wrote(execution, result, named)
    if not plan.outputs or not getattr(result, "returns_rows", True):
        return _met(execution, result)
    alternates = _alternates(execution)
    also = partial(boundary.new_keys, alternates) if boundary.eager else tuple
    outputs = plan.outputs.named(values)
    if outputs.unknown:
        outputs = origins.traced(outputs, result, boundary.conversation.plans.entities)
    seen = reading(alternates, outputs.key_columns(), also)
    rewrite = partial(rows.with_refs, outputs=outputs, conversation=seen)
    return _met(execution, sqla.rewrite_rows(result, partial(map, rewrite)))


def _is_watched(execution: ORMExecuteState) -> bool:
    """Tell whether something is to be done once a statement is executed, whatever it returns."""
    boundary = cast(Boundary, cast(RefSession, execution.session)._boundary)
    if execution.is_select:  # the common way
        return boundary.looks_ahead
    is_write = execution.is_insert or execution.is_update or execution.is_delete
    # a sequence or DDL loads no instances
    return is_write or (boundary.looks_ahead and isinstance(execution.statement, ClauseElement))


def _wrote(execution: ORMExecuteState, result: Result[Any], named: Named) -> None:
    """Cover what a write tells beside its rows, and note which rows it deleted."""
    session = cast(RefSession, execution.session)
    boundary = cast(Boundary, session._boundary)
    boundary.alternates.forget()
    entities, seen = boundary.conversation.plans.entities, reading(_alternates(execution), [])
    written.cover(result, execution.statement, entities, seen, now=boundary.eager)
    if named and execution.is_delete:
        _note_deleted(execution, named)


def _met(execution: ORMExecuteState, result: Result[Any]) -> Result[Any]:
    """Have the keys of a result minted as its rows are fetched, if the session wants that."""
    boundary = cast(Boundary, cast(RefSession, execution.session)._boundary)
    if not boundary.looks_ahead or not sqla.yields_chunks(result):
        return result
    now = bool(execution.execution_options.get("prebuffer_rows"))
    met = partial(boundary.met, alternates=_alternates(execution))
    return sqla.rewrite_rows(result, met, now=now)


def _alternates(execution: ORMExecuteState) -> Alternates:
    """Return the conversation in which a statement's alternate keys are keys like others."""
    boundary = cast(Boundary, cast(RefSession, execution.session)._boundary)
    return boundary.alternates.at(execution.execution_options, execution.bind_arguments)


def _put_keys(execution: ORMExecuteState, plan: Plan, values: Sequence[Any]) -> Named:
    """Put keys in place of the refs of one execution, and return them."""
    named = _put_one(execution, plan.single, values) if plan.single is not None else None
    named = _put_all(execution, plan, values) if named is None else named
    # of a write, the ORM may look up the rows by a statement of its own, which has the keys
    if named and not execution.is_select:
        execution.update_execution_options(raw_keys=True)
    return named


def _put_one(execution: ORMExecuteState, single: Single, values: Sequence[Any]) -> Named | None:
    """Put a key in place of the only ref, the common way; `None` if there is more to look at."""
    statement = execution.statement
    text = None if execution.parameters else single.text_in(statement, values)
    if text is None:
        return None
    conversation = cast(Boundary, cast(RefSession, execution.session)._boundary).conversation
    [key] = conversation.resolve_wanted([(text, single.column.entity)])
    value = single.column.from_key(key)
    execution.statement = single.with_key(statement, values, value)
    return [(single.column, value)]


def _put_all(execution: ORMExecuteState, plan: Plan, values: Sequence[Any]) -> Named:
    """Put keys in place of all refs of one execution, wherever they stand."""
    given = execution.statement, values, execution.parameters
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    texts = criteria.texts(inputs, *given)
    if not texts:
        return []
    has_alternates = any(column.by for _, column in texts)
    if has_alternates and execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)
    wanted = [(text, column.space) for text, column in texts]
    keys = _alternates(execution).resolve_wanted(wanted)
    swapped = {
        (text, column): column.from_key(key)
        for (text, column), key in zip(texts, keys, strict=True)
    }
    execution.statement, execution.parameters = criteria.with_keys(
        inputs, *given, lambda text, col: swapped[text, col], in_where=plan.in_where
    )
    return [(column, value) for (_, column), value in swapped.items()]


def _note_deleted(execution: ORMExecuteState, named: Named) -> None:
    """Note which of the rows that a DELETE names by their refs are gone: one more statement."""
    session = cast(RefSession, execution.session)
    primary = list(cast(Any, execution.statement).table.primary_key)
    names = [str(column) for column in primary]
    values = [value for column, value in named if [column.name] == names]
    if not values or session._outcome is None:
        return
    left = session.scalars(
        select(*primary).where(primary[0].in_(values)),
        execution_options={"raw_keys": True},
        bind_arguments=execution.bind_arguments,
    )
    session._outcome.deleted_rows(primary[0], set(values).difference(left))


def _is_raw(execution: ORMExecuteState) -> bool:
    """Tell whether keys are wanted, or the ORM loads by keys on its own account."""
    boundary = cast(RefSession, execution.session)._boundary
    return (
        (boundary is not None and boundary.raw)
        or sqla.loads_by_itself(execution)
        or bool(execution.execution_options.get("raw_keys"))
    )


def _loaded(session: RefSession, state: InstanceState[Any]) -> None:
    """Note that a row is there: heard by the sessions that know of one which is gone."""
    if session._outcome is not None:
        session._outcome.loaded(state)


@event.listens_for(RefSession, "before_attach", raw=True)
def _attached(session: RefSession, state: InstanceState[Any]) -> None:
    if session._boundary is not None:
        session._boundary.enter_new(state, flushing=sqla.is_flushing(session))


@event.listens_for(RefSession, "before_flush")
def _flushing(session: RefSession, *_: object) -> None:
    if session._boundary is not None:
        session._boundary.resolve_new()
        if session._boundary.looks_ahead:
            session._boundary.enter_all(session.dirty)


@event.listens_for(RefSession, "after_flush")
def _changed(session: RefSession, *_: object) -> None:
    if (
        session._boundary is not None
        and session._outcome is not None
        and session._boundary.labelled
    ):
        session._outcome.labelled(session._boundary.changed_labels(session.dirty))


@event.listens_for(RefSession, "after_flush_postexec")
def _flushed(session: RefSession, *_: object) -> None:
    if session._boundary is not None and session._boundary.looks_ahead:
        session._boundary.alternates.forget()
        session._boundary.look_ahead()


@event.listens_for(RefSession, "pending_to_persistent", raw=True)
def _inserted(session: RefSession, state: InstanceState[Any]) -> None:
    if session._boundary is not None and session._outcome is not None:
        session._boundary.enter(state)
        session._outcome.inserted(state)


@event.listens_for(RefSession, "persistent_to_deleted", raw=True)
def _deleted(session: RefSession, state: InstanceState[Any]) -> None:
    if session._outcome is not None:
        session._outcome.deleted(state)


@event.listens_for(RefSession, "after_begin")
def _connected(session: RefSession, _: SessionTransaction, connection: Connection) -> None:
    if session._failures is not None:
        session._failures.watch(connection)


@event.listens_for(RefSession, "after_transaction_create")
def _begun(session: RefSession, transaction: SessionTransaction) -> None:
    if session._outcome is not None and _is_boundary(transaction):
        session._outcome.begun()


@event.listens_for(RefSession, "after_commit")
def _committed(session: RefSession) -> None:
    if session._boundary is not None and session._outcome is not None:
        session._boundary.learn_labels()
        session._outcome.committed()


@event.listens_for(RefSession, "after_transaction_end")
def _ended(session: RefSession, transaction: SessionTransaction) -> None:
    if session._boundary is not None and session._outcome is not None:
        if _is_boundary(transaction):
            session._boundary.learn_labels()
            session._outcome.ended()
        session._boundary.alternates.forget()
    if session._failures is not None and transaction.parent is None:
        session._failures.unwatch()


def _is_boundary(transaction: SessionTransaction) -> bool:
    """Tell a transaction or savepoint from what a flush begins inside it."""
    return transaction.nested or transaction.parent is None
