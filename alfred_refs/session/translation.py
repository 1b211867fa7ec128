"""Translation of one statement: prepare, execute, finish.

`translate`, the `do_orm_execute` hook of `session.session`, runs these three steps:

    prepare   put keys in place of the refs in a statement and its parameters; at most one round
              trip, for refs that this process has not cached
    execute   SQLAlchemy's own, on keys
    finish    put refs in place of the keys in the rows, and in attributes of the result such as
              `inserted_primary_key`; new refs of a chunk of rows are minted in one round trip

Where refs are in a statement, and keys in its rows, is decided once for all statements of its
shape and cached (`statements.plans`). So a statement is executed as follows:

>>> statement = select(Line.id).where(Line.recipe_id == "recipe_1").order_by(Line.position)
>>> translation = session._translation
>>> _, plan, parameters = translation.plans.of(statement)
>>> [column.name for column in plan.inputs.positions.values()]    # prepare: refs of recipes
['lines.recipe_id']
>>> [column.name for column in plan.outputs.columns.values()]     # finish: keys of lines
['lines.id']
>>> session.scalars(statement).all()
['line_1', 'line_2']

`Translation` holds all that a session with a conversation has in addition to a plain one:

| attribute | purpose | module |
| --- | --- | --- |
| `conversation` | the conversation as the session sees it | `conversation.view` |
| `boundary` | refs that instances show and accept | `instances` |
| `transactions` | log of rows that were written, until the transaction ends | `transactions` |
| `draft_objects`, `draft_saving` | drafts that `get` returns, and their INSERT | `drafts` |
| `redaction` | refs in place of keys in errors | `redaction` |
| `plans` | cache of statement shapes | `statements.plans` |

Limits: if a ref cannot be used, or a statement cannot be translated, it raises before anything is
sent. A statement is never sent without the criteria that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast
from weakref import ref

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    Column,
    CursorResult,
    Executable,
    Result,
    inspect,
    update,
)
from sqlalchemy.exc import CircularDependencyError, IntegrityError
from sqlalchemy.orm import Mapper, ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, holds_texts
from alfred_refs.mapping.keys import (
    DRAFT,
    EntityKey,
    Key,
    parse_ref,
    shown_refs_in,
    token_of,
    with_shown_keys,
)
from alfred_refs.session.drafts import DraftObjects, DraftSaving
from alfred_refs.session.instances import Boundary, holds_key
from alfred_refs.session.lookups import Identity, MissingRows
from alfred_refs.session.redaction import ErrorRedaction
from alfred_refs.session.transactions import ActivityLog, Transactions
from alfred_refs.sqla import State
from alfred_refs.statements import (
    DataRefs,
    InputTarget,
    Single,
    StatementPlan,
    StatementPlans,
    check_data,
    check_loaded,
    origins,
    parameter_texts,
    results,
    swap_refs,
    takes_keys,
)
from alfred_refs.store import Activity, Actor

_P = ParamSpec("_P")
_R = TypeVar("_R")
_E = TypeVar("_E", bound=Executable)


class Translation:
    """The state that a session with a conversation has in addition to a plain one.

    Args:
        conversation: in which refs are valid.
        session: not kept alive.
        by: on whose behalf the session works; without it no activity is kept.

    Attributes:
        check_missing: checks that the rows exist whose refs are in the statement that is being
            executed; `HookedSession` clears it for each statement.
        boundary, conversation, draft_objects, draft_saving, plans, redaction, transactions: see
            the module.
    """

    __slots__ = (
        "after_fetch",
        "boundary",
        "check_missing",
        "conversation",
        "draft_objects",
        "draft_saving",
        "flush_ended",
        "hide",
        "plans",
        "redaction",
        "transactions",
    )

    def __init__(
        self, conversation: Conversation, session: Session, by: Actor | None = None
    ) -> None:
        self.boundary = Boundary(conversation, session)
        self.conversation = self.boundary.conversation
        self.conversation.find_rows = partial(_restored_rows, ref(session))
        self.conversation.use_schemas(sqla.schemas_of_session(session))
        log = None if by is None else ActivityLog(self.conversation, by)
        self.transactions = Transactions(self.conversation, log)
        self.draft_objects = DraftObjects(session, self.conversation)
        self.draft_saving = DraftSaving(session, self.boundary, self.transactions)
        self.redaction = ErrorRedaction(self.boundary)
        self.plans = self.conversation.entities.memo(StatementPlans)
        self.check_missing: Callable[[], None] | None = None
        # bound methods, not methods: they run for each chunk of rows and each exception
        self.after_fetch = self.boundary.after_fetch
        self.hide = self.redaction.hide
        self.flush_ended = self.boundary.end_flush

    def watch_identities(self, session: Session) -> None:
        """Watch the identity map of a session, which `expunge_all()` replaces by another one."""
        sqla.watch_loading(session, self.boundary)
        sqla.watch_adding(session, self.hide)

    # Statements

    def begin(self, execution: ORMExecuteState) -> None:
        """Begin a statement: drop cached look-ups that it may change, and trim caches.

        Raises:
            SetupError: it has another `schema_translate_map` than the session.
        """
        if not execution.is_select:
            self.conversation.alternates.forget()
            if execution.is_insert or execution.is_update or execution.is_delete:
                self.transactions.note_writing()
        self.boundary.make_room()
        self.check_schemas()
        if "schema_translate_map" in execution.execution_options:
            self.conversation.check_schemas(sqla.schemas_in(execution.execution_options))

    def check_schemas(self) -> None:
        """Check the `schema_translate_map` of the connections that the session works on.

        Raises:
            SetupError: one has another than the session.
        """
        for connection in self.redaction.connections:
            self._check_schemas(connection.get_execution_options())

    def after_execute(self, result: CursorResult[Any]) -> None:
        """Check the schemas that a statement was sent for, and the rows that it matched.

        Listeners may have changed its execution options.

        Raises:
            SetupError: it was sent with another `schema_translate_map` than the session's.
            GoneRefError: it matched no row, and a row that it names by a ref does not exist.
        """
        self._check_schemas(result.context.execution_options)
        if self.check_missing is not None and result.rowcount == 0:
            self.check_missing()

    def _check_schemas(self, options: Mapping[str, Any]) -> None:
        if "schema_translate_map" in options or self.conversation.schemas:
            self.conversation.check_schemas(sqla.schemas_in(options))

    # Session.get

    def identify(
        self, session: Session, entity: Any, identity: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the object of a draft, or `None`, and the identity with keys in place of refs.

        The object of a draft is not in the session: adding it saves the draft. It is the same
        object each time, as long as the program keeps it and the draft is not edited.

        Raises:
            BadRefError: a ref in the identity cannot be used.
            DraftContentError: a draft is of another class, or its content is no longer valid.
        """
        mapper = getattr(inspect(entity, raiseerr=False), "mapper", None)
        execution_options = {
            **getattr(session, "execution_options", {}),  # since SQLAlchemy 2.1
            **options.get("execution_options", {}),
        }
        if self.boundary.raw or mapper is None or execution_options.get("raw_keys"):
            return None, identity
        draft = self.draft_objects.get(mapper.class_, identity, options)
        if draft is not None:
            return draft, identity
        keys = self.boundary.pending.identity(mapper.class_, identity)
        loader_options = options.get("options")
        self.plans.check(loader_options if isinstance(loader_options, Iterable) else ())
        return None, keys

    def not_found(
        self, session: Session, entity: Any, ident: Any, identity: Any, options: Mapping[str, Any]
    ) -> None:
        """Check that the row exists for which `get` returned nothing.

        Args:
            session: the session.
            entity: as passed to `Session.get`.
            ident: the identity as passed to `Session.get`.
            identity: the same with keys in place of refs.
            options: as passed to `Session.get`.

        Raises:
            GoneRefError: it does not, and the identity is a ref.
        """
        refs, values = _parts_of(ident), _parts_of(identity)
        if ident is identity or len(refs) != 1 or not isinstance(refs[0], str):
            return
        entities = self.conversation.entities
        mapper = sqla.root_of(inspect(entity).mapper)
        keys = entities.of_class(mapper.class_)
        if keys.own_entity is None and len(values) == 1:
            return  # a foreign key: the ref is of another entity
        primary = Identity(cast("Sequence[Column[Any]]", mapper.primary_key), keys.identity)
        rows = MissingRows(session, self.conversation, options.get("bind_arguments"))
        rows.check(entities.name_of(mapper.class_), primary, {refs[0]: primary.key_of(values)})

    # Data

    def keys_of_shown(self, refs: Iterable[str]) -> Mapping[str, Key]:
        """Return the keys of refs that the program has copied into data: at most one round trip.

        Raises:
            BadRefError: one is of another conversation.
        """
        wanted: list[ExpectedRef] = [(each[:], None) for each in dict.fromkeys(refs)]
        keys = self.conversation.resolve_pairs(wanted)
        return {text: key for (text, _), key in zip(wanted, keys, strict=True)}

    def resolve_copied(self, states: Iterable[State]) -> None:
        """Put keys in place of refs that the program has copied into columns of data.

        They are values of attributes, or leaves of documents and lists.

        Raises:
            BadRefError: one is of another conversation.
        """
        copied = [
            (state, name, value)
            for state in states
            for name, value in _changed_data(state, self.conversation.entities)
            if any(shown_refs_in(value))
        ]
        if copied:
            keys = self.keys_of_shown(ref for *_, value in copied for ref in shown_refs_in(value))
            for state, name, value in copied:
                of_texts = holds_texts(state.mapper.column_attrs[name].columns[0].type)
                stored = with_shown_keys(value, keys, of_texts=of_texts)
                sqla.replace_value(state, name, stored)

    def with_copied_keys(
        self, mapper: Mapper[Any], records: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return records of a class with keys in place of refs that were copied into data.

        Raises:
            BadRefError: one is of another conversation.
        """
        refs = [*shown_refs_in(records)]
        if not refs:
            return records
        keys = self.keys_of_shown(refs)
        texts = {each.key for each in mapper.column_attrs if holds_texts(each.columns[0].type)}
        return [
            {
                name: with_shown_keys(value, keys, of_texts=name in texts)
                for name, value in record.items()
            }
            for record in records
        ]

    # Errors

    def flush_failed(self, error: Exception) -> None:
        """Raise a more specific error for a failed flush, if drafts caused it.

        Raises:
            SavedDraftError: another session has saved one of the drafts in the meantime.
            CircularDraftsError: drafts reference each other by relationships.
        """
        if isinstance(error, IntegrityError):
            saved = self.draft_saving.saved_elsewhere(error)
            if saved is not None:
                raise saved from error
        if isinstance(error, CircularDependencyError):
            circle = self.draft_saving.cycle(error)
            if circle is not None:
                raise circle from None

    def ref_of_value(self, column: Any, value: Any) -> str | None:
        """Return the ref of a value of a column if this process has cached it."""
        key_column = self.conversation.entities.of_column(column)
        if key_column is None or key_column.array or key_column.alternate is not None:
            return None
        token = token_of(key_column.to_key(value))
        return self.conversation.refs_of(key_column.entity).get(token)


def _restored_rows(
    session: ref[Session], conversation: SessionConversation, pairs: Collection[EntityKey]
) -> Mapping[EntityKey, bool]:
    """See `conversation.view.FindRows`."""
    alive = session()
    return {} if alive is None else MissingRows(alive, conversation).find_restored(pairs)


def _parts_of(ident: Any) -> list[Any]:
    """Return the parts of an identity in any of the forms that `Session.get` accepts."""
    if isinstance(ident, Mapping):
        return [*ident.values()]
    is_whole = isinstance(ident, str) or not isinstance(ident, Sequence)
    return [ident] if is_whole else [*ident]


# Prepare


ColumnKeys = Iterable[tuple[KeyColumn, Any]]
"""The keys that refs in a statement became, each with the column that it is compared with."""


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement with keys in place of its refs, and what `finish` needs.

    Attributes:
        plan: where keys are in its rows.
        values: its parameters before refs were replaced.
        column_keys: the keys that its refs became.
        activity: the rows that it is about to change, if activity is kept.
    """

    plan: StatementPlan
    values: Sequence[BindParameter[Any]]
    column_keys: ColumnKeys
    activity: Sequence[Activity] = ()


def prepare(execution: ORMExecuteState, translation: Translation) -> PreparedStatement | None:
    """Put keys in place of the refs in a statement and its parameters.

    Returns:
        what `finish` needs; `None` if the result needs no change.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: the statement combines refs or keys in a way that has no translation.
    """
    boundary = translation.boundary
    execution.statement, plan, values = translation.plans.of(execution.statement)
    column_keys = None
    if plan.single is not None and not execution.parameters:
        column_keys = _resolve_single(execution, plan.single, values, boundary)
    if column_keys is None:
        column_keys = _resolve_all(execution, plan, values, boundary)
    if plan.has_data or execution.parameters:
        _resolve_data(execution, plan, values, translation)
    if column_keys and not execution.is_insert:
        translation.check_missing = partial(_check_rows, execution, column_keys, translation)
    is_write = execution.is_insert or execution.is_update or execution.is_delete
    # a sequence or DDL loads no instances
    loads = execution.is_select or isinstance(execution.statement, ClauseElement)
    needs_finish = is_write or (boundary.looks_ahead and loads)
    if plan.rewrites_rows or needs_finish or (column_keys and execution.parameters):
        activity = translation.transactions.about_to_write(execution)
        return PreparedStatement(plan, values, column_keys, activity)
    return None


def _resolve_single(
    execution: ORMExecuteState, single: Single, values: Sequence[Any], boundary: Boundary
) -> ColumnKeys | None:
    """Put a key in place of the only ref, the common case; return `None` if there may be more."""
    statement = execution.statement
    text = single.text_in(statement, values)
    if text is None:
        return None
    if text.startswith(DRAFT):
        _flush_pending(execution)
    column = single.column
    [key] = boundary.conversation.resolve_pairs([(text, column.entity)])
    value = column.from_key(key)
    execution.statement = sqla.with_values_in_where(
        statement, {values[single.position].key: value}
    )
    return [(column, value)]


def _resolve_all(
    execution: ORMExecuteState, plan: StatementPlan, values: Sequence[Any], boundary: Boundary
) -> ColumnKeys:
    """Put keys in place of all refs in a statement and its parameters."""
    if execution.parameters:
        sqla.check_parameters(execution.parameters)
    unresolved = execution.statement, values, execution.parameters
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    # the value of a callable is known when SQLAlchemy executes the statement, after autoflush
    late = {i: slot for i, slot in inputs.positions.items() if values[i].callable is not None}
    inputs = inputs.without(late)
    texts = inputs.texts(*unresolved)
    if not texts and not late:
        return ()
    if any(column.alternate or text.startswith(DRAFT) for text, column in texts):
        _flush_pending(execution)
    conversation = boundary.conversation
    keys = ResolvedKeys(_on_own_bind(execution, conversation, conversation.resolve_pairs))
    keys.resolve(texts)
    in_where = plan.in_where and all(map(takes_keys, late.values()))
    execution.statement, execution.parameters = inputs.with_keys(
        *unresolved,
        keys.key,
        late={values[i].key: keys.late(values[i], slot) for i, slot in late.items()},
        in_where=in_where,
    )
    return keys


def _resolve_data(
    execution: ORMExecuteState,
    plan: StatementPlan,
    values: Sequence[Any],
    translation: Translation,
) -> None:
    """Put keys in place of refs that the program has copied into data."""
    data = DataRefs.of(execution.statement, values, plan.inputs, execution.parameters)
    if data.refs:
        keys = translation.keys_of_shown(data.refs)
        execution.statement, execution.parameters = data.with_keys(execution.statement, keys)


class ResolvedKeys:
    """The keys of the refs in one execution; refs from callables are added when these are called.

    Args:
        resolve: returns the keys of refs.
    """

    def __init__(self, resolve: Callable[[Sequence[ExpectedRef]], list[Key]]) -> None:
        self._resolve = resolve
        self._keys: dict[tuple[str, KeyColumn], Any] = {}

    def __iter__(self) -> Iterator[tuple[KeyColumn, Any]]:
        """Yield the keys, each with the column that it is compared with."""
        return ((column, value) for (_, column), value in self._keys.items())

    def __bool__(self) -> bool:
        return bool(self._keys)

    def key(self, text: str, column: KeyColumn) -> Any:
        """Return the key of a ref, as a value of the column."""
        return self._keys[text, column]

    def resolve(self, texts: Sequence[tuple[str, KeyColumn]]) -> None:
        """Resolve refs: at most one round trip.

        Raises:
            BadRefError: one cannot be used.
        """
        if texts:
            keys = self._resolve([(text, column.space) for text, column in texts])
            for (text, column), key in zip(texts, keys, strict=True):
                self._keys[text, column] = column.from_key(key)

    def late(self, parameter: BindParameter[Any], slot: InputTarget) -> sqla.LateKey:
        """Return a callable for a parameter that resolves the refs in what its own returns."""

        def as_key(value: Any) -> Any:
            if holds_key(parameter):  # of an instance that was flushed in the meantime
                return value
            self.resolve(parameter_texts(parameter, value, slot))
            return swap_refs(value, slot, self.key)

        return sqla.LateKey(cast("Callable[[], Any]", parameter.callable), as_key)


def _flush_pending(execution: ORMExecuteState) -> None:
    """Flush before refs are resolved that may belong to pending instances."""
    if execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)


def _check_rows(
    execution: ORMExecuteState, column_keys: ColumnKeys, translation: Translation
) -> None:
    """Check that the rows exist whose refs are in a statement that matched nothing.

    Raises:
        GoneRefError: one does not.
    """
    rows = MissingRows(execution.session, translation.conversation, execution.bind_arguments)
    rows.check_column_keys(column_keys)


def resolve_assigned_expressions(states: Iterable[State], translation: Translation) -> None:
    """Put keys in place of the refs in SQL expressions that are assigned to attributes.

    They are checked as an UPDATE with the same values is, and so are refs that are assigned to
    attributes of plain UUIDs or integers.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: an expression has no translation.
    """
    for state in states:
        # of a persistent instance only the changed attributes are sent
        for name in [*(state.dict if state.key is None else state.committed_state)]:
            value = state.dict.get(name)
            if isinstance(value, str) and parse_ref(value) is not None:
                _check_data(state, name, value, translation)
            if not (isinstance(value, ClauseElement) or hasattr(value, "__clause_element__")):
                continue
            if name in state.mapper.column_attrs:
                column = state.mapper.column_attrs[name].columns[0]
                state.dict[name] = _resolve_expression(column, value, translation)


def _changed_data(state: State, entities: Entities) -> Iterator[tuple[str, Any]]:
    """Yield the values of an instance that a flush sends for columns of data."""
    keys = entities.of_class(state.class_).all
    for name in [*(state.dict if state.key is None else state.committed_state)]:
        value = state.dict.get(name)
        is_text = isinstance(value, str | Mapping | list | tuple | set | frozenset)
        if is_text and name not in keys and name in state.mapper.column_attrs:
            yield name, value


def _check_data(state: State, name: str, text: str, translation: Translation) -> None:
    """Refuse a ref for an attribute of plain UUIDs or integers."""
    keys = translation.conversation.entities.of_class(state.class_).all
    if name in state.mapper.column_attrs and name not in keys:
        check_data(text, state.mapper.column_attrs[name].columns[0])


def _resolve_expression(column: Any, value: Any, translation: Translation) -> Any:
    """Return an SQL expression for a column with keys in place of its refs."""
    given = update(column.table).values({column: value})
    statement = statement_with_keys(given, translation)
    if statement is given:
        return value
    return next(expression for _, expression in sqla.values_of(statement))


def statement_with_keys(given: _E, translation: Translation) -> _E:
    """Return a statement with keys in place of its refs, or the same object without refs.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: the statement has no translation.
    """
    statement, plan, values = translation.plans.of(given)
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    texts = inputs.texts(statement, values, None)
    if not texts:
        return given
    keys = ResolvedKeys(translation.conversation.resolve_pairs)
    keys.resolve(texts)
    return cast(_E, inputs.with_keys(statement, values, None, keys.key)[0])


# Finish


def finish(
    execution: ORMExecuteState,
    result: Result[Any],
    prepared: PreparedStatement,
    translation: Translation,
) -> Result[Any]:
    """Return the result of a statement with refs in place of keys, whenever it is read."""
    if not execution.is_select:
        translation.transactions.note_written(execution, result, prepared.activity)
        _finish_write(execution, result, prepared.column_keys, translation)
    shown = _result_with_refs(execution, result, prepared, translation.boundary)
    return mint_on_fetch(execution, shown, translation)


def mint_on_fetch(
    execution: ORMExecuteState, result: Result[Any], translation: Translation
) -> Result[Any]:
    """Mint refs while rows are fetched, if enabled."""
    boundary = translation.boundary
    if not boundary.looks_ahead or not sqla.is_chunked(result):
        return result
    now = bool(execution.execution_options.get("prebuffer_rows"))
    mint = partial(boundary.mint_chunks, other_bind="bind" in execution.bind_arguments)
    return sqla.rewrite_rows(result, mint, now=now)


def _result_with_refs(
    execution: ORMExecuteState,
    result: Result[Any],
    prepared: PreparedStatement,
    boundary: Boundary,
) -> Result[Any]:
    """Return a result whose rows have refs in place of keys."""
    plan, conversation = prepared.plan, boundary.conversation
    entities = conversation.entities
    if plan.by_text:
        origins.check_filled_by_text(result, execution.statement, entities)
        keys = {*plan.outputs.columns, *plan.outputs.shapes}
        check = partial(check_loaded, keys=keys, entities=entities)
        result = sqla.rewrite_rows(result, partial(map, check))
    if not plan.outputs or not getattr(result, "returns_rows", True):
        return result
    outputs = plan.outputs.with_field_names(prepared.values)
    if outputs.has_unknown:
        outputs = origins.trace_origins(outputs, result, entities)
    rewrite: Callable[..., Any]
    rewrite = partial(results.with_refs, outputs=outputs, conversation=conversation)
    if boundary.eager:  # mint the keys of instances in the same round trip
        other_bind = "bind" in execution.bind_arguments
        rewrite = partial(rewrite, more=partial(boundary.new_keys, other_bind=other_bind))
    if "bind" in execution.bind_arguments:
        rewrite = conversation.alternates.without_lookups(rewrite)
    return sqla.rewrite_rows(result, partial(map, rewrite))


def _finish_write(
    execution: ORMExecuteState,
    result: Result[Any],
    column_keys: ColumnKeys,
    translation: Translation,
) -> None:
    """Put refs in place of keys in the attributes of a cursor's result; note deleted rows."""
    conversation, is_eager = translation.conversation, translation.boundary.eager
    conversation.alternates.forget()
    cursor = sqla.cursor_result_of(result)
    if cursor is not None:
        entities = conversation.entities
        show = partial(results.write_info_with_refs, execution.statement, conversation, entities)
        sqla.rewrite_write_info(cursor, _on_own_bind(execution, conversation, show))
        if is_eager:
            sqla.read_inserted_keys(cursor)
    if column_keys and execution.is_delete and (cursor is None or cursor.rowcount):
        _note_deleted(execution, column_keys, translation)


def _note_deleted(
    execution: ORMExecuteState, column_keys: ColumnKeys, translation: Translation
) -> None:
    """Find out which of the rows that a DELETE names by refs are deleted: one more statement.

    Other criteria may have excluded some of them, or row-level security may hide them.
    """
    primary = list(cast(Any, execution.statement).table.primary_key)
    names = [str(column) for column in primary]
    pairs = [(column, value) for column, value in column_keys if [column.name] == names]
    if not pairs:
        return
    identity = Identity(primary, [pairs[0][0]])
    rows = MissingRows(execution.session, translation.conversation, execution.bind_arguments)
    deleted = rows.find_deleted(identity, {column.to_key(value) for column, value in pairs})
    values = [value for key in deleted for value in identity.values_of(key)]
    translation.transactions.note_deleted_rows(primary[0], values)


def _on_own_bind(
    execution: ORMExecuteState, conversation: SessionConversation, work: Callable[_P, _R]
) -> Callable[_P, _R]:
    """Return `work`, or for a statement with a `bind` argument, `work` without look-ups.

    Such a statement is sent to another database than its tables are bound to. Rows of alternate
    keys cannot be looked up there: the session's connection shows the rows of its own database.
    """
    other_bind = "bind" in execution.bind_arguments
    return conversation.alternates.without_lookups(work) if other_bind else work
