"""`RefSession`: a `Session` that accepts refs wherever it accepts keys, and shows refs.

The whole path is on this page. Statements pass through `translate`: refs in it become keys
(`criteria`), SQLAlchemy executes it, keys in its rows become refs (`rows`). Instances belong to
the session's `Boundary`: they keep their keys, their attributes show refs (`instances`). Between
the two everything works on keys: identity map, unit of work, cascades and lazy loading are
SQLAlchemy's own, untouched. Errors that pass out are worded anew (`failures`). What happens to
instances and transactions besides is in `lifecycle`.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import ClauseElement, Column, Result, event, inspect
from sqlalchemy.orm import InstanceState, ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import OwnershipError, SetupError
from alfred_refs.mapping.naming import root_of
from alfred_refs.owners import OwnedFlush, Owner, confine_write, confined_records
from alfred_refs.session.instances.boundary import Boundary
from alfred_refs.statements import origins, rows, write_results as written
from alfred_refs.statements.assignments import check_loaded
from alfred_refs.statements.plans import Plan

from .events import InterpretedSession, Interpreter
from .missing_rows import Fates, Identity
from .path import Named, alternates_of, put_keys, put_keys_in_assigned
from .transactions import reading

T = TypeVar("T")


class RefSession(InterpretedSession):
    """A `Session` in which a language model's refs stand for keys.

    Args:
        bind: as for `Session`.
        conversation: what the refs are valid in, or, where `registry` is given, its id. Without
            one this is a plain `Session`.
        registry: opens the conversation named by an id; usually an argument of `sessionmaker`.
        owner: to whose rows the session keeps; without one it confines nothing. A conversation
            named by its id is held for this owner.
        session_arguments: as for `Session`.

    Raises:
        SetupError: a conversation is named by its id and there is no registry.
        OwnershipError: `owner` is none, or the conversation is held for another, or for nobody.
    """

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        owner: Owner | None = None,
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
        self._conversation = conversation
        self._interpret(conversation)
        if owner is not None:
            self._confine(owner)
            # after `translate`; of this session only, because each listener costs each statement
            event.listen(self, "do_orm_execute", confine)

    @property
    def _boundary(self) -> Boundary | None:
        return None if self._interpreter is None else self._interpreter.boundary

    @property
    def conversation(self) -> Conversation | None:
        """What the session's refs are valid in: chosen when the session is made."""
        return self._conversation

    @property
    def own_view(self) -> SessionConversation | None:
        """The conversation as the session itself sees it.

        The refs of drafts that its transaction has saved name their rows here, and nowhere else
        before it is committed.
        """
        return None if self._boundary is None else self._boundary.conversation

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
            self._boundary.eager = eager

    @contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Show and accept keys as they are inside the `with`: for trusted application code."""
        interpreter = self._interpreter
        if interpreter is None:
            yield
            return
        boundary = interpreter.boundary
        before, boundary.raw = boundary.raw, True
        try:
            yield
        finally:
            boundary.raw = before
            if not before:
                # SQLAlchemy tells the error of a flush again, to whoever goes on without rollback
                sqla.replace_flush_error(self, interpreter.failures.retold)

    def hide_keys(self, error: Exception) -> None:
        """Put refs in place of keys in an exception, and in all that hangs on it.

        What leaves the session by itself is worded so already; this is for code around it.

        >>> session.hide_keys(error)  # ValueError("no stock for 1f0b…")
        >>> str(error)
        'no stock for recipe_1'
        """
        if self._interpreter is not None:
            self._interpreter.failures.hide(error)

    if TYPE_CHECKING:

        def get(self, entity: Any, ident: Any, **options: Any) -> Any:
            """See `Session.get`: for a type checker, key attributes are those of the mapping."""

    def _identify(self, entity: Any, identity: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
        """Have refs in an identity stand for keys; that of a draft gives an object of its content.

        The object is in no session yet: adding it saves the draft. Until then it is the same
        object each time, as long as the program keeps it and nobody edits the draft.

        Raises:
            BadRefError: a ref in the identity cannot be used.
            DraftContentError: a draft is of another class, or what it has does not fit any more.
        """
        mapper = getattr(inspect(entity, raiseerr=False), "mapper", None)
        asked = {**getattr(self, "execution_options", {}), **options.get("execution_options", {})}
        if self._interpreter is None or mapper is None or asked.get("raw_keys"):
            return None, identity
        boundary = self._interpreter.boundary
        if boundary.raw:
            return None, identity
        made = self._interpreter.objects.get(mapper.class_, identity, options)
        if made is not None:
            return made, identity
        keys = boundary.identity(mapper.class_, identity)
        given = options.get("options")
        boundary.conversation.plans.check(given if isinstance(given, Iterable) else ())
        return None, keys

    def _missed(self, entity: Any, given: Any, identity: Any, options: Mapping[str, Any]) -> None:
        """Look whether the row of a ref is there, of which nothing was found.

        Raises:
            GoneRefError: it is not.
        """
        named, values = _parts_of(given), _parts_of(identity)
        if given is identity or len(named) != 1 or not isinstance(named[0], str):
            return
        conversation = cast(Boundary, self._boundary).conversation
        entities = conversation.plans.entities
        mapper = root_of(inspect(entity).mapper)
        keys = entities.of_class(mapper.class_)
        if keys.own is None and len(values) == 1:  # the key of another entity's row
            return
        primary = Identity(cast("Sequence[Column[Any]]", mapper.primary_key), keys.identity)
        fates = Fates(self, conversation, options.get("bind_arguments"))
        fates.check(entities.name_of(mapper.class_), primary, {named[0]: primary.key_of(values)})

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
        interpreter = self._interpreter
        if interpreter is None or interpreter.boundary.raw:
            return nullcontext()
        found = (inspect(instance, raiseerr=False) for instance in instances)
        states = [state for state in found if isinstance(state, InstanceState)]
        cascaded = (s.mapper.cascade_iterator("merge", s) for s in states)
        every = dict.fromkeys([*states, *(each[2] for some in cascaded for each in some)])
        return self._merging_keys(interpreter, every)

    @contextmanager
    def _merging_keys(
        self, interpreter: Interpreter, states: Iterable[InstanceState[Any]]
    ) -> Iterator[None]:
        lent = interpreter.boundary.lent_keys(states)
        with interpreter.failures.hidden(), lent, self.raw_keys():
            yield

    def bulk_save_objects(self, objects: Iterable[object], *args: Any, **options: Any) -> None:
        """See `Session.bulk_save_objects`; key attributes of the objects may have refs."""
        objects = list(objects)
        if self._boundary is not None:
            self._boundary.take_in(map(sqla.state_of, objects))
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
        if self._boundary is not None and not self._boundary.raw:
            given = self._boundary.with_keys(mapped.class_, given)
        if self._confinement is not None and not self._confinement.lifted:
            given = confined_records(self._confinement, self, mapped, given, new=new)
        return given


@event.listens_for(RefSession, "before_flush")
def translate_assigned(session: RefSession, *_: object) -> None:
    """Put keys in place of the refs in SQL expressions that are assigned to attributes."""
    boundary = session._boundary
    if boundary is not None and not boundary.raw:
        put_keys_in_assigned(map(sqla.state_of, (*session.new, *session.dirty)), boundary)


@event.listens_for(RefSession, "do_orm_execute")
def translate(execution: ORMExecuteState) -> Result[Any] | None:
    """Execute a statement with keys in place of its refs, and return rows with refs for keys."""
    session = cast(RefSession, execution.session)
    if session._interpreter is None:
        return None
    boundary = session._interpreter.boundary
    if session._interpreter.outcome.must_watch():
        session._watch_rows()
    boundary.alternates.begin(reads=execution.is_select)
    boundary.make_room()
    session._interpreter.failures.check_schemas()
    if "schema_translate_map" in execution.execution_options:  # else the connection says
        boundary.check_schemas(execution.execution_options)
    if _is_raw(execution):
        sqla.load_whole(execution)
        return _met(execution, sqla.invoked(execution)) if boundary.looks_ahead else None
    execution.statement, plan, values = boundary.conversation.plans.of(execution.statement)
    named = put_keys(execution, plan, values, boundary)
    if named and not execution.is_insert:
        boundary.sought = partial(_look_for, execution, named)
    is_looked_at = plan.outputs or plan.by_text or _is_watched(execution)
    if not (is_looked_at or (named and execution.parameters)):
        return None
    result = sqla.invoked(execution)
    if not execution.is_select:
        _wrote(execution, result, named)
    return _met(execution, _shown(execution, result, plan, values))


def _look_for(execution: ORMExecuteState, named: Named) -> None:
    """Look whether the rows are there that a statement names by their refs: it has found none.

    Raises:
        GoneRefError: one is not.
    """
    conversation = _interpreter(execution).boundary.conversation
    Fates(execution.session, conversation, execution.bind_arguments).check_named(named)


def _shown(
    execution: ORMExecuteState, result: Result[Any], plan: Plan, values: Sequence[Any]
) -> Result[Any]:
    """Return a result that shows refs in place of keys."""
    boundary = _interpreter(execution).boundary
    entities = boundary.conversation.plans.entities
    if plan.by_text:
        origins.check_filled_by_text(result, execution.statement, entities)
        keys = {*plan.outputs.columns, *plan.outputs.made}
        look = partial(check_loaded, keys=keys, entities=entities)
        result = sqla.rewrite_rows(result, partial(map, look))
    if not plan.outputs or not getattr(result, "returns_rows", True):
        return result
    alternates = alternates_of(execution, boundary)
    also = partial(boundary.new_keys, alternates) if boundary.eager else tuple
    outputs = plan.outputs.named(values)
    if outputs.unknown:
        outputs = origins.traced(outputs, result, entities)
    seen = reading(alternates, outputs.key_columns(), also)
    rewrite = partial(rows.with_refs, outputs=outputs, conversation=seen)
    return sqla.rewrite_rows(result, partial(map, rewrite))


def confine(execution: ORMExecuteState) -> Result[Any] | None:
    """Have what is written keep to the owner, once its refs are keys.

    Which rows a statement reaches is seen to as it is compiled.
    """
    confinement = cast(RefSession, execution.session)._confinement
    if confinement is None or execution.is_select or not confinement.holds(execution):
        return None
    given = execution.parameters
    confine_write(confinement, execution)
    # other parameters are heeded by SQLAlchemy 2.1 alone
    return None if execution.parameters is given else sqla.invoked(execution)


def _parts_of(ident: Any) -> list[Any]:
    """Return the parts of an identity as `Session.get` takes it."""
    if isinstance(ident, Mapping):
        return [*ident.values()]
    is_whole = isinstance(ident, str) or not isinstance(ident, Sequence)
    return [ident] if is_whole else [*ident]


def _interpreter(execution: ORMExecuteState) -> Interpreter:
    """Return what interprets for the session of an execution, which is in a conversation."""
    return cast(Interpreter, cast(RefSession, execution.session)._interpreter)


def _is_watched(execution: ORMExecuteState) -> bool:
    """Tell whether something is to be done once a statement is executed, whatever it returns."""
    boundary = _interpreter(execution).boundary
    if execution.is_select:  # the common way
        return boundary.looks_ahead
    is_write = execution.is_insert or execution.is_update or execution.is_delete
    # a sequence or DDL loads no instances
    return is_write or (boundary.looks_ahead and isinstance(execution.statement, ClauseElement))


def _wrote(execution: ORMExecuteState, result: Result[Any], named: Named) -> None:
    """Cover what a write tells beside its rows, and note which rows it deleted."""
    boundary = _interpreter(execution).boundary
    boundary.alternates.forget()
    entities = boundary.conversation.plans.entities
    seen = reading(alternates_of(execution, boundary), [])
    written.cover(result, execution.statement, entities, seen, now=boundary.eager)
    cursor = sqla.cursor_result_of(result)
    if named and execution.is_delete and (cursor is None or cursor.rowcount):
        _note_deleted(execution, named)


def _met(execution: ORMExecuteState, result: Result[Any]) -> Result[Any]:
    """Have the keys of a result minted as its rows are fetched, if the session wants that."""
    boundary = _interpreter(execution).boundary
    if not boundary.looks_ahead or not sqla.yields_chunks(result):
        return result
    now = bool(execution.execution_options.get("prebuffer_rows"))
    met = partial(boundary.met, alternates=alternates_of(execution, boundary))
    return sqla.rewrite_rows(result, met, now=now)


def _note_deleted(execution: ORMExecuteState, named: Named) -> None:
    """Note which of the rows that a DELETE names by their refs are gone: one more statement.

    Not all that it names need be, nor those that it does not find.
    """
    interpreter = _interpreter(execution)
    primary = list(cast(Any, execution.statement).table.primary_key)
    names = [str(column) for column in primary]
    pairs = [(column, value) for column, value in named if [column.name] == names]
    if not pairs:
        return
    identity = Identity(primary, [pairs[0][0]])
    fates = Fates(execution.session, interpreter.boundary.conversation, execution.bind_arguments)
    gone = fates.deleted(identity, {column.to_key(value) for column, value in pairs})
    values = [value for key in gone for value in identity.values_of(key)]
    interpreter.outcome.deleted_rows(primary[0], values)


def _is_raw(execution: ORMExecuteState) -> bool:
    """Tell whether keys are wanted, or the ORM loads by keys on its own account."""
    return (
        _interpreter(execution).boundary.raw
        or sqla.loads_by_itself(execution)
        or bool(execution.execution_options.get("raw_keys"))
    )
