"""Translation of one statement: prepare, execute, finish.

What a session in a conversation has beside a plain one: refs for its keys, keys for its refs.

    boundary       what its instances show, and what they accept        (`instances`)
    transactions   what becomes of the rows that it writes              (`transactions`)
    objects        of drafts, which `get` has given                     (`drafts`)
    saving         of drafts, by new objects                            (`drafts`)
    failures       its errors, with refs in place of keys               (`redaction`)

`path` translates its statements, and `events` says when each of these is asked. A plain session
has none: `session._translation` is `None`.

The keys that the refs in one statement name, and in SQL expressions that are assigned.

Texts come in with the columns that they meet, and are resolved together. Some parameters are read
late, when SQLAlchemy executes the statement: their refs are resolved then.

A statement on its way through a session: prepared, executed, finished.

    prepare   refs in the statement and in its parameters become keys: at most one round trip
    execute   is SQLAlchemy's, on keys alone
    finish    keys in its rows, and in what else it tells, are shown as refs

`plans` says where refs go into statements of one shape and where they come out, `criteria` puts
keys into one, `rows` puts refs into its rows.
Where a ref cannot be used, nothing has been changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast
from weakref import ref

from sqlalchemy import BindParameter, ClauseElement, Column, CursorResult, Result, inspect, update
from sqlalchemy.exc import CircularDependencyError, IntegrityError
from sqlalchemy.orm import InstanceState, ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.key_columns import KeyColumn, root_of
from alfred_refs.mapping.keys import DRAFT, EntityKey, Key, token_of
from alfred_refs.session.drafts import DraftObjects, DraftSaving
from alfred_refs.session.instances import Boundary, holds_key
from alfred_refs.session.lookups import Identity, MissingRows
from alfred_refs.session.redaction import ErrorRedaction
from alfred_refs.session.transactions import ActivityLog, Transactions
from alfred_refs.statements import (
    InputTarget,
    Plan,
    Plans,
    check_loaded,
    plans,
    results,
    swap_refs,
    takes_keys,
)
from alfred_refs.store import Activity, Actor


class Translation:
    """The refs and keys of one session.

    Args:
        conversation: what its refs are valid in.
        session: not kept alive.
        by: on whose behalf it works, if that is to be kept.

    Attributes:
        conversation: the same, as the session sees it.
        plans: what is decided of the application's statements.
        check_missing: checks whether the rows exist that the executing statement names.
        after_fetch: see `Boundary.after_fetch`.
        hide: see `Failures.hide`.
    """

    __slots__ = (
        *("boundary", "conversation", "failures", "after_fetch", "hide"),
        *("objects", "plans", "saving", "check_missing", "transactions"),
    )

    def __init__(
        self, conversation: Conversation, session: Session, by: Actor | None = None
    ) -> None:
        self.boundary = Boundary(conversation, session)
        self.conversation = self.boundary.conversation
        self.conversation.find_rows = partial(_look_for, ref(session))
        self.conversation.use_schemas(sqla.schemas_of_session(session))
        log = None if by is None else ActivityLog(self.conversation, by)
        self.transactions = Transactions(self.conversation, log)
        self.objects = DraftObjects(session, self.conversation)
        self.saving = DraftSaving(session, self.boundary, self.transactions)
        self.failures = ErrorRedaction(self.boundary)
        self.plans = self.conversation.entities.memo(Plans)
        self.check_missing: Callable[[], None] | None = None
        # no calls of their own: they are asked for each chunk of rows, and each exception
        self.after_fetch = self.boundary.after_fetch
        self.hide = self.failures.hide

    def watch_identities(self, session: Session) -> None:
        """Take in what the session loads, and word why it refuses an instance.

        A session that is emptied has another identity map, and is to be watched anew.
        """
        sqla.watch_loading(session, self.boundary)
        sqla.watch_adding(session, self.hide)

    # Statements

    def begin(self, execution: ORMExecuteState) -> None:
        """Begin a statement: what it may change is forgotten, and there is room for what it shows.

        Raises:
            SetupError: it is for another schema than those in which the session's refs name rows.
        """
        boundary = self.boundary
        if not execution.is_select:
            self.conversation.alternates.forget()
            if execution.is_insert or execution.is_update or execution.is_delete:
                self.transactions.writing()
        boundary.make_room()
        for connection in self.failures.connections:
            self._check_schemas(connection.get_execution_options())
        if "schema_translate_map" in execution.execution_options:  # else the connection says
            self._check_schemas(execution.execution_options)

    def after_execute(self, result: CursorResult[Any]) -> None:
        """Look at what a statement came to: for which schemas it was sent, and what it found.

        A listener may have said for which.

        Raises:
            SetupError: for others than those in which the session's refs name rows.
            GoneRefError: it found none of the rows that it names by their refs.
        """
        options = result.context.execution_options
        if "schema_translate_map" in options or self.conversation.schemas:
            self.conversation.check_schemas(sqla.schemas_in(options))
        if self.check_missing is not None and result.rowcount == 0:
            self.check_missing()

    def _check_schemas(self, options: Mapping[str, Any]) -> None:
        if "schema_translate_map" in options or self.conversation.schemas:
            self.conversation.check_schemas(sqla.schemas_in(options))

    def check_schemas(self) -> None:
        """Check in which schemas the session's connections work by now.

        Raises:
            SetupError: in others than those in which the session's refs name rows.
        """
        for connection in self.failures.connections:
            self._check_schemas(connection.get_execution_options())

    # Identities

    def identify(
        self, session: Session, entity: Any, identity: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Have refs in an identity stand for keys; that of a draft gives an object of its content.

        The object is in no session yet: adding it saves the draft. Until then it is the same
        object each time, as long as the program keeps it and nobody edits the draft.

        Raises:
            BadRefError: a ref in the identity cannot be used.
            DraftContentError: a draft is of another class, or what it has does not fit any more.
        """
        mapper = getattr(inspect(entity, raiseerr=False), "mapper", None)
        asked = {
            **getattr(session, "execution_options", {}),
            **options.get("execution_options", {}),
        }
        if self.boundary.raw or mapper is None or asked.get("raw_keys"):
            return None, identity
        made = self.objects.get(mapper.class_, identity, options)
        if made is not None:
            return made, identity
        keys = self.boundary.pending.identity(mapper.class_, identity)
        given = options.get("options")
        self.plans.check(given if isinstance(given, Iterable) else ())
        return None, keys

    def not_found(
        self, session: Session, entity: Any, given: Any, identity: Any, options: Mapping[str, Any]
    ) -> None:
        """Look whether the row of a ref is there, of which nothing was found.

        Raises:
            GoneRefError: it is not.
        """
        named, values = _parts_of(given), _parts_of(identity)
        if given is identity or len(named) != 1 or not isinstance(named[0], str):
            return
        entities = self.conversation.entities
        mapper = root_of(inspect(entity).mapper)
        keys = entities.of_class(mapper.class_)
        if keys.own is None and len(values) == 1:  # the key of another entity's row
            return
        primary = Identity(cast("Sequence[Column[Any]]", mapper.primary_key), keys.identity)
        fates = MissingRows(session, self.conversation, options.get("bind_arguments"))
        fates.check(entities.name_of(mapper.class_), primary, {named[0]: primary.key_of(values)})

    # Errors

    def flush_failed(self, error: Exception) -> None:
        """Raise what a flush has failed by, where drafts tell more of it than the database.

        Raises:
            SavedDraftError: somebody else has saved a draft meanwhile.
            CircularDraftsError: drafts name each other by relationships.
        """
        if isinstance(error, IntegrityError):
            saved = self.saving.saved_meanwhile(error)
            if saved is not None:
                raise saved from error
        if isinstance(error, CircularDependencyError):
            circle = self.saving.circle(error)
            if circle is not None:
                raise circle from None

    def named(self, column: Any, value: Any) -> str | None:
        """Return the ref of the row that a value of a column names, if this process knows it."""
        found = self.conversation.entities.of_column(column)
        if found is None or found.array or found.by is not None:
            return None
        return self.conversation.refs_of(found.entity).get(token_of(found.to_key(value)))


def _look_for(
    session: ref[Session], conversation: SessionConversation, pairs: Collection[EntityKey]
) -> Mapping[EntityKey, bool]:
    """See `conversation.view.Tables`."""
    found = session()
    return {} if found is None else MissingRows(found, conversation).back(pairs)


def _parts_of(ident: Any) -> list[Any]:
    """Return the parts of an identity as `Session.get` takes it."""
    if isinstance(ident, Mapping):
        return [*ident.values()]
    is_whole = isinstance(ident, str) or not isinstance(ident, Sequence)
    return [ident] if is_whole else [*ident]


P = ParamSpec("P")
R = TypeVar("R")

Named = Iterable[tuple[KeyColumn, Any]]
"""The keys that the refs in a statement name, each with the column that it meets."""


class NamedKeys:
    """The keys that the refs of one execution name: of those that are read late, later."""

    def __init__(self, resolve: Callable[[Sequence[ExpectedRef]], list[Key]]) -> None:
        self._resolve = resolve
        self._known: dict[tuple[str, KeyColumn], Any] = {}

    def __iter__(self) -> Iterator[tuple[KeyColumn, Any]]:
        """Yield the keys, each with the column that it meets."""
        return ((column, value) for (_, column), value in self._known.items())

    def __bool__(self) -> bool:
        return bool(self._known)

    def key(self, text: str, column: KeyColumn) -> Any:
        """Return the key for a text, as the column has it."""
        return self._known[text, column]

    def resolve(self, texts: Sequence[tuple[str, KeyColumn]]) -> None:
        """Resolve texts: at most one round trip.

        Raises:
            BadRefError: one cannot be used.
        """
        if texts:
            keys = self._resolve([(text, c.space) for text, c in texts])
            for (text, column), key in zip(texts, keys, strict=True):
                self._known[text, column] = column.from_key(key)

    def late(self, parameter: BindParameter[Any], slot: InputTarget) -> sqla.LateKey:
        """Return what reads a parameter when SQLAlchemy does, and resolves what it is then."""

        def as_key(value: Any) -> Any:
            if holds_key(parameter):  # an instance's, which was flushed meanwhile
                return value
            self.resolve(plans.texts_in(parameter, value, slot))
            return swap_refs(value, slot, self.key)

        return sqla.LateKey(cast("Callable[[], Any]", parameter.callable), as_key)


def put_keys_in_assigned(states: Iterable[InstanceState[Any]], translation: Translation) -> None:
    """Put keys in place of the refs in SQL expressions that are assigned to attributes.

    They are looked at as an UPDATE with the same values is.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: an expression would show keys, or cannot be translated.
    """
    for state in states:
        # what is not new in a row that is there is not sent
        for name in [*(state.dict if state.key is None else state.committed_state)]:
            value = state.dict.get(name)
            if not (isinstance(value, ClauseElement) or hasattr(value, "__clause_element__")):
                continue
            if name in state.mapper.column_attrs:
                column = state.mapper.column_attrs[name].columns[0]
                state.dict[name] = _with_keys(column, value, translation)


def _with_keys(column: Any, value: Any, translation: Translation) -> Any:
    """Return an SQL expression for a column with keys in place of its refs."""
    statement, plan, values = translation.plans.of(update(column.table).values({column: value}))
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    texts = plans.texts(inputs, statement, values, None)
    if not texts:
        return value
    keys = NamedKeys(translation.conversation.resolve_pairs)
    keys.resolve(texts)
    statement, _ = plans.with_keys(inputs, statement, values, None, keys.key)
    return next(expression for _, expression in sqla.values_of(statement))


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement with keys in place of its refs, and what is to be done with what it answers.

    Attributes:
        plan: where refs come out.
        values: the statement's parameters as they were given.
        named: the keys that its refs name.
        reached: what it does with which rows, where that is to be kept.
    """

    plan: Plan
    values: Sequence[BindParameter[Any]]
    named: Named
    reached: Sequence[Activity] = ()


def prepare(execution: ORMExecuteState, translation: Translation) -> PreparedStatement | None:
    """Put keys in place of the refs of one execution.

    Returns:
        what `finish` needs; `None` if nothing is to be done once it is executed.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: the statement would show keys in a way that cannot be rewritten.
    """
    boundary = translation.boundary
    execution.statement, plan, values = translation.plans.of(execution.statement)
    named = None
    if plan.single is not None and not execution.parameters:
        named = _put_one(execution, plan.single, values, boundary)
    if named is None:
        named = _put_all(execution, plan, values, boundary)
    if named and not execution.is_insert:
        translation.check_missing = partial(_look_for_missing, execution, named, translation)
    is_write = execution.is_insert or execution.is_update or execution.is_delete
    # a sequence or DDL loads no instances
    loads = execution.is_select or isinstance(execution.statement, ClauseElement)
    is_awaited = is_write or (boundary.looks_ahead and loads)
    if plan.answers or is_awaited or (named and execution.parameters):
        return PreparedStatement(plan, values, named, translation.transactions.reached(execution))
    return None


def finish(
    execution: ORMExecuteState,
    result: Result[Any],
    prepared: PreparedStatement,
    translation: Translation,
) -> Result[Any]:
    """Return the result of an execution with refs in place of keys, whoever reads it and when."""
    if not execution.is_select:
        translation.transactions.wrote_by(execution, result, prepared.reached)
        _wrote(execution, result, prepared.named, translation)
    return mint_on_fetch(
        execution,
        _result_with_refs(execution, result, prepared, translation.boundary),
        translation,
    )


def mint_on_fetch(
    execution: ORMExecuteState, result: Result[Any], translation: Translation
) -> Result[Any]:
    """Have the keys of a result minted as its rows are fetched, if the session wants that."""
    boundary = translation.boundary
    if not boundary.looks_ahead or not sqla.is_chunked(result):
        return result
    now = bool(execution.execution_options.get("prebuffer_rows"))
    look = partial(boundary.met, other_bind="bind" in execution.bind_arguments)
    return sqla.rewrite_rows(result, look, now=now)


# Refs in


def _put_one(
    execution: ORMExecuteState, single: plans.Single, values: Sequence[Any], boundary: Boundary
) -> Named | None:
    """Put a key in place of the only ref, the common way; `None` if there is more to look at."""
    statement = execution.statement
    text = single.text_in(statement, values)
    if text is None:
        return None
    if text.startswith(DRAFT):
        _flush(execution)
    column = single.column
    [key] = boundary.conversation.resolve_pairs([(text, column.entity)])
    value = column.from_key(key)
    execution.statement = sqla.with_values_in_where(statement, {values[single.place].key: value})
    return [(column, value)]


def _put_all(
    execution: ORMExecuteState, plan: Plan, values: Sequence[Any], boundary: Boundary
) -> Named:
    """Put keys in place of all refs of one execution, wherever they stand."""
    if execution.parameters:
        sqla.check_parameters(execution.parameters)
    given = execution.statement, values, execution.parameters
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    late = {i: slot for i, slot in inputs.positions.items() if values[i].callable is not None}
    inputs = inputs.without(late)
    texts = plans.texts(inputs, *given)
    if not texts and not late:
        return ()
    if any(column.by or text.startswith(DRAFT) for text, column in texts):
        _flush(execution)
    conversation = boundary.conversation
    keys = NamedKeys(_on_its_bind(execution, conversation, conversation.resolve_pairs))
    keys.resolve(texts)
    in_where = plan.in_where and all(map(takes_keys, late.values()))
    execution.statement, execution.parameters = plans.with_keys(
        inputs,
        *given,
        keys.key,
        late={values[i].key: keys.late(values[i], slot) for i, slot in late.items()},
        in_where=in_where,
    )
    return keys


def _flush(execution: ORMExecuteState) -> None:
    """Send what waits for a flush, where a ref may name what is among it."""
    if execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)


def _on_its_bind(
    execution: ORMExecuteState, conversation: SessionConversation, work: Callable[P, R]
) -> Callable[P, R]:
    """Return a function that does its work for a statement, without look-ups on another bind.

    A `bind` argument sends a statement to another database than its tables are bound to. Rows of
    alternate keys cannot be looked up there: the session's connection shows its own.
    """
    other_bind = "bind" in execution.bind_arguments
    return conversation.alternates.without_lookups(work) if other_bind else work


# Refs out


def _result_with_refs(
    execution: ORMExecuteState,
    result: Result[Any],
    prepared: PreparedStatement,
    boundary: Boundary,
) -> Result[Any]:
    """Return a result that shows refs in place of keys."""
    plan, entities = prepared.plan, boundary.conversation.entities
    if plan.by_text:
        plans.check_filled_by_text(result, execution.statement, entities)
        keys = {*plan.outputs.columns, *plan.outputs.made}
        look = partial(check_loaded, keys=keys, entities=entities)
        result = sqla.rewrite_rows(result, partial(map, look))
    if not plan.outputs or not getattr(result, "returns_rows", True):
        return result
    outputs = plan.outputs.named(prepared.values)
    if outputs.unknown:
        outputs = plans.trace_origins(outputs, result, entities)
    rewrite = partial(results.with_refs, outputs=outputs, conversation=boundary.conversation)
    if boundary.eager:
        other_bind = "bind" in execution.bind_arguments
        rewrite = partial(rewrite, more=partial(boundary.new_keys, other_bind=other_bind))
    show = _on_its_bind(execution, boundary.conversation, rewrite)
    return sqla.rewrite_rows(result, partial(map, show))


def _wrote(
    execution: ORMExecuteState, result: Result[Any], named: Named, translation: Translation
) -> None:
    """Cover what a write tells beside its rows, and note which rows it deleted."""
    boundary = translation.boundary
    conversation = boundary.conversation
    conversation.alternates.forget()
    cursor = sqla.cursor_result_of(result)
    if cursor is not None:
        entities = conversation.entities
        show = partial(results.exit_with_refs, execution.statement, conversation, entities)
        sqla.rewrite_write_info(cursor, _on_its_bind(execution, conversation, show))
        if boundary.eager:
            sqla.read_inserted_keys(cursor)
    if named and execution.is_delete and (cursor is None or cursor.rowcount):
        _note_deleted(execution, named, translation)


def _note_deleted(execution: ORMExecuteState, named: Named, translation: Translation) -> None:
    """Note which of the rows that a DELETE names by their refs are gone: one more statement.

    Other criteria may have spared some, and a row that was not found may be hidden.
    """
    primary = list(cast(Any, execution.statement).table.primary_key)
    names = [str(column) for column in primary]
    pairs = [(column, value) for column, value in named if [column.name] == names]
    if not pairs:
        return
    identity = Identity(primary, [pairs[0][0]])
    fates = MissingRows(execution.session, translation.conversation, execution.bind_arguments)
    gone = fates.deleted(identity, {column.to_key(value) for column, value in pairs})
    values = [value for key in gone for value in identity.values_of(key)]
    translation.transactions.deleted_rows(primary[0], values)


def _look_for_missing(execution: ORMExecuteState, named: Named, translation: Translation) -> None:
    """Look whether the rows are there that a statement names by their refs: it has found none.

    Raises:
        GoneRefError: one is not.
    """
    fates = MissingRows(execution.session, translation.conversation, execution.bind_arguments)
    fates.check_named(named)
