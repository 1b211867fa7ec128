"""One call of a tool: transaction, session, resolved refs, activity.

`transaction` makes a call atomic. If the session is in a transaction, the call is a savepoint of
it; otherwise it is a separate transaction that is committed. `statement_timeout` is set during the
call. `preserve_transaction` restores the transaction state of the session, even after an error.

>>> with preserve_transaction(session), transaction(session, seconds=10):
...     session.scalar(select(Recipe.name).where(Recipe.id == "recipe_1"))
'Soup'
>>> session.in_transaction()
False

`Setting` holds the toolset's options, the same for all calls. `Call` adds the session and its
conversation, and the functions that every verb needs: keys of refs (`resolve`), why rows were not
found (`check_existence`), pending drafts (`pending_drafts`), refs of instances (`refs_of`), rows
re-read after a flush (`reload`), JSON (`rendering`), and labels (`finish_answer`).

`activities_in` lists the rows that an answer shows, each with the names of the columns and
relationships shown, for the registry's activity: later prompts read these again.

Limits: hooks must not commit or roll back; that ends the call's transaction and raises
`SetupError`. The time limit only works on PostgreSQL.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any, Literal, Protocol, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Select,
    event,
    inspect,
    or_,
    text as sql_text,
)
from sqlalchemy.exc import InvalidRequestError, ResourceClosedError, SQLAlchemyError
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla
from alfred_refs.conversation import Draft, SessionConversation
from alfred_refs.errors import BadRefError, RefError, SetupError
from alfred_refs.mapping import Key, parse_draft_ref, parse_ref, spells_uuid
from alfred_refs.session import Identity, MissingRows, RefSession
from alfred_refs.store import Action, Activity, Actor
from alfred_refs.tools.answers import (
    Limits,
    Relatives,
    Rendering,
    Room,
    Shape,
    ShownRow,
    composite_key_rows,
    cut_depth,
)
from alfred_refs.tools.arguments import Operator
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.effects import Recorder
from alfred_refs.tools.errors import ToolError, unexpected_row
from alfred_refs.tools.exact import ExactValues, is_exact_on, read_exact, select_exactly
from alfred_refs.tools.filters import BoundFilters, Conditions, Keys, read_conditions
from alfred_refs.tools.hooks import Hooks, Reading, Row
from alfred_refs.tools.labels import (
    ForeignRef,
    LabelMode,
    foreign_refs,
    key_in,
    limit_refs,
    put_labels,
)
from alfred_refs.tools.serialization import limit_depth
from alfred_refs.tools.tables import ToolTable
from alfred_refs.tools.visibility import ReadHooks, Visibility

# Selects the current setting, and sets the smaller of it and our limit (0 means unlimited).
# PostgreSQL evaluates the list from left to right.
_LIMIT = """SELECT current_setting('statement_timeout'), set_config('statement_timeout',
    CASE WHEN current_setting('statement_timeout')::interval
              BETWEEN interval '1 microsecond' AND interval '{0} milliseconds'
         THEN current_setting('statement_timeout') ELSE '{0}ms' END, true)"""
_RESTORE = "SELECT set_config('statement_timeout', '{}', true)"
_USER = sql_text("""SELECT current_setting('alfred.user', true),
    set_config('alfred.user', :name, true)""")
# times without a zone mean UTC, as in all tools
_READ_ONLY = """set_config('transaction_read_only', 'on', true),
    set_config('TimeZone', 'UTC', true)"""

_HAS_CHANGES = "SELECT txid_current_if_assigned() IS NOT NULL"


@contextmanager
def preserve_transaction(session: RefSession) -> Iterator[None]:
    """Leave a session in a transaction only if it was in one before.

    A transaction that was begun inside the `with` and is still open is rolled back. Calls commit
    their own changes, and a later call would otherwise become a savepoint of this transaction.
    """
    was_in_transaction = session.in_transaction()
    try:
        yield
    finally:
        if not was_in_transaction and session.in_transaction():
            with suppress(InvalidRequestError):  # committed already; a listener failed afterwards
                session.rollback()


@contextmanager
def transaction(
    session: RefSession, seconds: float | None, *, writes: bool = False, only_reads: bool = False
) -> Iterator[Sequence[Connection]]:
    """Run the body of a `with` in one transaction; yield the connections that it commits.

    New objects of a failed transaction are expunged; otherwise the next flush would save them.

    Args:
        session: if it is in a transaction, or its connection is in an outer one, this is a
            savepoint.
        seconds: the time limit of one statement; `None` for the application's.
        writes: whether changes must be committed: a connection in AUTOCOMMIT is refused.
        only_reads: whether PostgreSQL refuses writes. A savepoint is then rolled back, because
            only that makes the transaction writable again.

    Raises:
        SetupError: the body has ended the transaction, or none can be started.
    """
    with _join_transaction(session):
        before = session.new
        try:
            begun = _begin_transaction(session, seconds, writes=writes, only_reads=only_reads)
            with begun as connections:
                yield connections
        except BaseException:
            for instance in session.new:
                if instance not in before:
                    session.expunge(instance)
            raise


@contextmanager
def _join_transaction(session: RefSession) -> Iterator[None]:
    """Join the transaction of a session's connection, if the session begins none itself.

    Rolling back a session that has joined one rolls back all of it, so only a savepoint is rolled
    back. Committing only ends its part:
    https://docs.sqlalchemy.org/en/20/orm/session_transaction.html, "Joining a Session into an
    External Transaction".
    """
    bind, mode = session.bind, session.join_transaction_mode
    if (
        session.in_transaction()
        or not (isinstance(bind, Connection) and bind.in_transaction())
        or mode not in ("conditional_savepoint", "rollback_only")
    ):
        yield
        return
    session.begin()
    try:
        yield
    finally:
        session.commit()


@contextmanager
def _begin_transaction(
    session: RefSession, seconds: float | None, *, writes: bool, only_reads: bool
) -> Iterator[Sequence[Connection]]:
    is_part = session.in_transaction()
    with session.begin_nested() if is_part else session.begin() as own:
        limited = _limit_statement_time(
            session, own, seconds, writes=writes, only_reads=only_reads
        )
        with limited as (connections, restore):
            try:
                yield () if is_part else connections
            except InvalidRequestError as error:
                # others have another cause: a mapping, or an earlier flush error
                ended = type(error) in (InvalidRequestError, ResourceClosedError)
                if own.is_active or not ended:
                    raise
                raise _transaction_ended() from error
        if not own.is_active:
            raise _transaction_ended()
        if only_reads and is_part:
            own.rollback()
        elif is_part:  # otherwise the setting ends with the transaction
            restore()
        elif writes:
            # PostgreSQL silently rolls back on COMMIT after an error, which a hook may have caught
            for connection in connections:
                if not sqla.is_intact(connection):
                    _send(session, connection, "SELECT 1")


def _check_one_database(session: RefSession, connections: Sequence[Connection]) -> None:
    """Refuse changes in several databases: they would commit one after another, and one may fail.

    A lock of a row counts as a change. Changes in other databases than PostgreSQL are not seen.

    Raises:
        SetupError: there are changes in several databases, without two-phase commits.
    """
    if len(connections) < 2 or session.twophase:  # noqa: PLR2004
        return
    session.flush()
    asked = [each for each in connections if each.dialect.name == "postgresql"]
    if sum(_send(session, each, _HAS_CHANGES).scalar_one() for each in asked) > 1:
        raise SetupError(
            "a call has changed rows in several databases",
            "give the sessions twophase=True: a call is done or undone as one",
        )


def _transaction_ended() -> SetupError:
    return SetupError(
        "the transaction of a call was committed or rolled back inside it",
        "leave that to the toolset; a hook uses session.begin_nested() for a part, and raises a "
        "ToolError to refuse the call",
    )


@contextmanager
def _limit_statement_time(
    session: RefSession,
    own: SessionTransaction,
    seconds: float | None,
    *,
    writes: bool,
    only_reads: bool,
) -> Iterator[tuple[list[Connection], Callable[[], None]]]:
    """Set `statement_timeout` and the user in a transaction, on each connection when it joins.

    Triggers and policies read the user by `nullif(current_setting('alfred.user', true), '')`: once
    a connection has had a user, the setting is empty, not NULL, without one.

    Yields:
        the connections, and a function that restores the previous limits.
    """
    connections: list[Connection] = []
    before: list[tuple[Connection, str]] = []
    users: list[tuple[Connection, str]] = []

    def join(_: object, joined: SessionTransaction, connection: Connection) -> None:
        # a savepoint's connection joins the outer transaction first, which keeps its limit
        if joined is not own:
            return
        is_needed = writes or only_reads
        # sqlite3 of Python 3.12 has the value -1 for transactions as before
        if is_needed and getattr(connection.connection, "autocommit", False) is True:
            raise SetupError(
                "a call that needs a transaction was begun on a connection in AUTOCOMMIT",
                "give the session an engine with transactions: a call is done or undone as one",
            )
        connections.append(connection)
        if seconds is not None and connection.dialect.name == "postgresql":
            statement = _LIMIT.format(max(1, round(seconds * 1_000)))
            statement += f", {_READ_ONLY}" if only_reads else ""
            before.append((connection, _send(session, connection, statement).one()[0]))
        elif only_reads:
            _send(session, connection, f"SELECT {_READ_ONLY}")
        user = session.info.get("user")
        if user is not None and connection.dialect.name == "postgresql":
            users.append((connection, _set_user(session, connection, str(user))))

    def restore() -> None:
        for connection, value in before:
            _send(session, connection, _RESTORE.format(value))
        for connection, name in users:
            _set_user(session, connection, name)

    event.listen(session, "after_begin", join)
    try:
        yield connections, restore
    finally:
        event.remove(session, "after_begin", join)


def _send(session: RefSession, connection: Connection, statement: str) -> CursorResult[Any]:
    with sqla.unconfined_lookup(session):  # reads no rows
        return connection.exec_driver_sql(statement)


def _set_user(session: RefSession, connection: Connection, name: str) -> str:
    """Set `alfred.user` for the transaction, and return its previous value."""
    with sqla.unconfined_lookup(session):
        before: str | None = connection.execute(_USER, {"name": name}).one()[0]
    return before or ""


_MAX_KEYS = 1_000  # keys that a hook may return: each is a parameter of the statement

_HIDDEN_VALUE = "another value, which is not shown"

ExpectMode = Literal["optional", "required"]
"""Whether a write must identify the rows that it names by refs."""


_OF_ALL_TABLES = ("=", "!=", "neq", "in", "not_in", "is_null", "is_not_null")


def check_hooks(hooks: Mapping[type[Any], Any]) -> dict[type[Any], Sequence[Hooks]]:
    """Check the application's hooks, and return them by class.

    Raises:
        SetupError: a value is not a list of hooks.
    """
    for model, value in hooks.items():
        if not isinstance(value, Sequence) or not all(isinstance(h, Hooks) for h in value):
            raise SetupError(
                f"the hooks of {model.__qualname__!r} are not a list of Hooks",
                "give instances of classes that inherit from Hooks, in a list",
            )
    return dict(hooks)


@dataclass(frozen=True, slots=True)
class Setting:
    """The options of a toolset, shared by all its calls.

    Attributes:
        tables: the tables that a model may use.
        hooks: the application's hooks, by class.
        labels: the mode of labels: `"inline"`, `"legend"` or `"none"`.
        deduplicate: by class, the attributes that identify duplicates among the new rows of a
            call.
        limits: the limits of answers.
        max_written: the maximum number of rows that one call may change.
        drafts: whether a model may create or use drafts.
        expect: whether a write must identify the rows that it names.
        read_hooks: the hooks that filter or change reads.
    """

    tables: ToolTables
    hooks: Mapping[type[Any], Sequence[Hooks]]
    labels: LabelMode
    deduplicate: Mapping[type[Any], Sequence[str]]
    limits: Limits
    max_written: int
    drafts: bool
    expect: ExpectMode
    read_hooks: ReadHooks = field(init=False)

    def __post_init__(self) -> None:
        self._check_hooks()
        object.__setattr__(self, "read_hooks", ReadHooks.of(self.tables, self.hooks))

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            SetupError: an option names a class that is not listed, or has an invalid value.
        """
        models = {table.model for table in self.tables}
        for option, classes in (("hooks", self.hooks), ("deduplicate", self.deduplicate)):
            for model in classes.keys() - models:
                raise SetupError(
                    f"{option} lists {model!r}, which is not among the models", "add it to models"
                )
        if self.expect not in get_args(ExpectMode):
            raise SetupError(f"expect is {self.expect!r}", "choose one of 'optional', 'required'")
        for model, names in self.deduplicate.items():
            for name in names:
                if name not in inspect(model).mapper.column_attrs:
                    raise SetupError(
                        f"deduplicate lists {name!r}, no column of {model.__qualname__!r}",
                        "name the attributes that new rows are told apart by",
                    )
        if self.labels not in ("inline", "legend", "none"):
            raise SetupError(
                f"labels is {self.labels!r}", "choose one of 'inline', 'legend', 'none'"
            )

    def _check_hooks(self) -> None:
        for model, hooks in self.hooks.items():
            for name in (name for each in hooks for name in each.fills):
                if name not in inspect(model).mapper.column_attrs:
                    raise SetupError(
                        f"a hook of {model.__qualname__!r} fills {name!r}, which is not a column",
                        "name attributes in fills, in a list: fills = ['position']",
                    )

    def hooks_of(self, table: ToolTable) -> Sequence[Hooks]:
        """Return the application's hooks for a table, in order."""
        return self.hooks.get(table.model, ())

    def filled_by_hooks(self, table: ToolTable) -> frozenset[str]:
        """Return the attributes that hooks set in new rows."""
        return frozenset(name for each in self.hooks_of(table) for name in each.fills)

    def has_search(self, table: ToolTable) -> bool:
        """Return whether a hook implements semantic search in a table."""
        return any(each.may_search() for each in self.hooks_of(table))

    def operators(self, tool: str) -> list[str]:
        """Return the operators that are allowed in the filters of a tool."""
        columns = [column for table in self.tables for column in table.columns.values()]
        known = {operator for column in columns for operator in column.values.operators}
        known |= {*_OF_ALL_TABLES}
        if tool == "db_read" and any(map(self.has_search, self.tables)):
            known.add("similar")
        return [each for each in get_args(Operator) if each in known]

    def tables_without_sql(self) -> frozenset[str]:
        """Return the names of tables that SQL may not read, because hooks change their reads."""
        return frozenset(
            table.name
            for table in self.tables
            if not all(each.allows_sql() for each in self.read_hooks.all_over(table))
        )


Answer = dict[str, Any]
"""The answer of a call: JSON values."""


class Supervisor(Protocol):
    """Decides at the end of a write whether its changes are committed."""

    def finish(self, call: Call, recorder: Recorder, answer: Answer) -> Answer:
        """Return the answer of a call that is about to be committed.

        Raises:
            HeldBackError: it is rolled back.
        """
        ...

    def settling(self, conversation: SessionConversation) -> AbstractContextManager[None]:
        """Record after the `with` whether the call was committed, if the commit did not do so."""
        ...


class HeldBackError(Exception):
    """End the call with this answer, and roll it back.

    Attributes:
        answer: the answer for the model.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__("roll back and return `answer`")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Attributes:
        setting: the options of the toolset.
        session: runs the statements.
        conversation: the session's view of its conversation.
        supervisor: decides whether a write is committed; `None` to commit every write.
        exact: values of rows that Python cannot represent.
        drafts: the drafts that were read, by ref, so that none is read twice.
        visibility: rows that read hooks hide.
    """

    setting: Setting
    session: RefSession
    conversation: SessionConversation
    supervisor: Supervisor | None = None
    exact: ExactValues = field(default_factory=ExactValues)
    drafts: dict[str, Draft] = field(default_factory=dict)
    visibility: Visibility = field(init=False)

    def __post_init__(self) -> None:
        visibility = Visibility(
            self.setting.read_hooks, self.session, self.resolve, self.statement_keys
        )
        object.__setattr__(self, "visibility", visibility)

    def run(self, act: Callable[[], Answer], *, writes: bool) -> Answer:
        """Call a function in one transaction, and return its answer.

        Raises:
            HeldBackError: the supervisor rolls the call back.
            SetupError: the call has changed rows in several databases.
        """
        self.drafts.clear()  # of an earlier attempt
        seconds, supervisor = self.setting.limits.seconds, self.supervisor
        if supervisor is None or not writes:
            with transaction(self.session, seconds, writes=writes) as connections:
                answer = act()
                if writes:
                    _check_one_database(self.session, connections)
                return answer
        with (
            supervisor.settling(self.conversation),
            Recorder(self.session) as recorder,
            transaction(self.session, seconds, writes=True) as connections,
        ):
            answer = act()
            _check_one_database(self.session, connections)
            return supervisor.finish(self, recorder, answer)

    def conditions(self, keys: Keys, drafts: Collection[str] = ()) -> Conditions:
        """Return a `Conditions` for the filters of this call."""
        return Conditions(keys, drafts, visible=self.visibility.conditions)

    def has_containment(self, table: ToolTable) -> bool:
        """Return whether the table's database supports `contains`; only PostgreSQL does."""
        return self.session.get_bind(table.model).dialect.name == "postgresql"

    def resolve(self, refs: Iterable[tuple[str, str]]) -> Keys:
        """Resolve refs, each with its required entity, to keys; at most one round trip."""
        pairs = list(dict.fromkeys(refs))
        if not pairs:
            return {}
        for text, entity in pairs if not self.setting.drafts else ():
            if parse_draft_ref(text):  # a saved draft, or one of the application's
                raise self.conversation.unknown_error(text, entity)
        keys = self.conversation.resolve_pairs(pairs)
        return dict(zip(pairs, keys, strict=True))

    def check_existence(self, keys: Keys) -> list[str]:
        """Check that rows exist that a statement did not find: one statement per table.

        One more statement tells why a row is missing.

        Args:
            keys: the keys of the rows, by ref and required entity.

        Returns:
            notes on rows that the database may hide (row-level security).

        Raises:
            GoneRefError: a row was deleted.
        """
        keys_by_table: dict[ToolTable, dict[str, Key]] = {}
        for (ref, entity), key in keys.items():
            table = self.setting.tables.of_entity(entity)
            if table is not None and table.key_parts(key):
                keys_by_table.setdefault(table, {})[ref] = key
        notes = []
        missing_rows = MissingRows(self.session, self.conversation)
        for table, keys_by_ref in keys_by_table.items():
            identity = Identity(inspect(table.model).mapper.primary_key, table.keys.identity)
            hidden = missing_rows.check(table.entity, identity, keys_by_ref)
            if hidden:
                notes.append(
                    f"{', '.join(map(repr, hidden))}: the database may hide what these name"
                )
        return notes

    def pending_drafts(self, texts: Iterable[str], entity: str) -> dict[str, Draft]:
        """Return the pending drafts that texts name, by ref: at most one round trip.

        Only texts in the form of a draft's ref are looked up. A saved draft is left out, because
        its ref names a row.

        Raises:
            BadRefError: a ref is unknown, discarded, or of another entity.
        """
        candidates = dict.fromkeys(texts) if self.setting.drafts else ()
        refs = [text for text in candidates if parse_draft_ref(text)]
        return {d.ref: d for d in self.read_drafts(refs, entity) if d.state == "pending"}

    def read_drafts(self, refs: Sequence[str], entity: str) -> list[Draft]:
        """Return drafts of an entity: at most one round trip, none for those read before.

        Raises:
            BadRefError: a ref is unknown, discarded, or of another entity.
        """
        known = [self.drafts[ref] for ref in refs if ref in self.drafts]
        if len(known) < len(refs) or any(draft.entity != entity for draft in known):
            known = self.conversation.read_drafts(refs, entity)
            self.drafts.update({draft.ref: draft for draft in known})
        return known

    def refs_of(self, instances: Sequence[Any], table: ToolTable) -> list[str]:
        """Return the refs of saved rows, minting missing ones: at most one round trip.

        Rows of an association table are named by the refs of the two rows that they link.
        """
        if table.ends:
            return [
                " + ".join(str(getattr(i, name)) for name in table.identity) for i in instances
            ]
        if table.own is not None:
            return [getattr(instance, table.own) for instance in instances]
        return self.conversation.refer_all(table.entity, [_key_of(i, table) for i in instances])

    def statement_keys(self, given: Iterable[Any], table: ToolTable) -> list[Any]:
        """Return keys or refs from a hook, without duplicates, for statements of the session.

        The session would take a text key (or a UUID as text) for a ref, so refs replace such keys.

        Raises:
            SetupError: rows of the table have composite keys.
        """
        if table.own is None:
            raise SetupError(
                f"a hook gave keys of table {table.name!r}, whose rows have several key columns",
                "let the hook set conditions",
            )
        given, column = [*given][:_MAX_KEYS], table.keys.identity[0]
        if column is not None and column.key_type == "uuid":
            given = [
                uuid.UUID(each) if isinstance(each, str) and spells_uuid(each) else each
                for each in given
            ]
        distinct = list(dict.fromkeys(given))
        if column is None or not column.holds(""):
            return distinct
        keys = [each for each in distinct if not isinstance(each, str)]
        refs = dict(zip(keys, self.conversation.refer_all(table.model, keys), strict=True))
        return [refs.get(each, each) for each in distinct]

    def write_conditions(self, table: ToolTable) -> list[ColumnElement[bool]]:
        """Return the conditions for writable rows; empty if all visible rows are writable."""
        owner = self.session.owner
        if table.ends:
            ends = [end for end in table.ends if end.is_writable]
            writable = [] if owner is None else [owner.writable(e.table.model) for e in ends]
            either = (e.exists(table.model, w) for e, w in zip(ends, writable, strict=False))
            return [or_(*either)] if writable else []
        return [] if owner is None else [owner.writable(table.model)]

    def select_rows(self, shape: Shape) -> Select[Any]:
        """Return the SELECT of all rows for a shape, to be executed by `read_rows`."""
        return shape.statement(exactly=is_exact_on(self.session, shape.table.model))

    def read_rows(self, statement: Select[Any], shape: Shape) -> list[Any]:
        """Return the instances of a SELECT; put values that Python cannot represent in `exact`."""
        exactly = is_exact_on(self.session, shape.table.model)
        types = shape.exact_types() if exactly else {}
        return self.exact.instances(self.session.execute(statement).unique(), types)

    def read_values(
        self, statement: Select[Any], model: type[Any], options: Iterable[ExecutableOption] = ()
    ) -> list[Sequence[Any]]:
        """Return the rows of a SELECT of columns; values outside Python's types are texts."""
        types = [each.type for each in statement.selected_columns]
        if is_exact_on(self.session, model):
            statement = select_exactly(statement)
        found = self.session.execute(statement.options(*options))
        return [list(map(read_exact, types, row)) for row in found]

    def reload(self, instances: Sequence[Any], shape: Shape) -> list[Any]:
        """Return instances refreshed from the database: one statement."""
        if not instances:
            return []
        model = shape.table.model
        mapper = inspect(model).mapper
        keys = [mapper.primary_key_from_instance(instance) for instance in instances]
        columns = shape.table.primary_key(model)
        statement = (
            self.select_rows(shape)
            .where(sqla.in_keys(columns, keys))
            # text keys must not be taken for refs
            .execution_options(raw_keys=True)
        )
        rows = {sqla.state_of(each).key: each for each in self.read_rows(statement, shape)}
        states = [sqla.state_of(instance) for instance in instances]
        return [rows[state.key] for state in states if state.key in rows]

    def rendering(
        self, instances: Sequence[Any], shape: Shape, options: Iterable[ExecutableOption] = ()
    ) -> Rendering:
        """Return a `Rendering` for instances: at most one round trip for refs.

        Related rows are loaded: one statement for each relationship of a level.
        """
        limits = self.setting.limits
        relatives = Relatives(
            self.session, limits, self.exact, options, self.visibility.conditions
        )
        relatives.load(instances, shape)
        related = composite_key_rows(instances, shape, relatives.of)
        rows = list(islice(related, 10 * limits.related))
        pairs = [(table.entity, _key_of(instance, table)) for table, instance in rows]
        refs = self.conversation.refer_pairs(pairs)
        refs_by_id = {id(each): ref for (_, each), ref in zip(rows, refs, strict=True)}

        def ref_of(instance: Any, of: ToolTable) -> str:
            known_ref = refs_by_id.get(id(instance))
            return self.refs_of([instance], of)[0] if known_ref is None else known_ref

        return Rendering(limits, ref_of, relatives.of, self.exact)

    def read_conditions(
        self, reading: Reading, bound: BoundFilters, keys: Keys, drafts: Collection[str] = ()
    ) -> list[ColumnElement[bool]]:
        """Return the conditions of a read, including those from hooks of other classes."""
        asked, table = read_conditions(reading, bound, self.conditions(keys, drafts)), bound.table
        return [*asked, *self.visibility.conditions(table, table.model, asked=table)]

    def unexpected_row(
        self, table: ToolTable, ref: str, column: str, actual: Any, expected: Any
    ) -> ToolError:
        """Return the error for a row that does not match `expect`, without hidden values."""
        if self.visibility.hooks.may_mask(table):
            return unexpected_row(ref, column, _HIDDEN_VALUE, expected)
        return unexpected_row(ref, column, actual, expected)

    def mask_rows(self, shown: Sequence[ShownRow]) -> None:
        """Pass the rows of a write to read hooks; rows that they hide keep only their ref."""
        removed = self.visibility.mask(shown)
        for table in {shape.table for _, _, shape in shown}:
            same = [(row, instance) for row, instance, shape in shown if shape.table is table]
            hidden = {*map(id, self.visibility.hidden_among(table, [each for _, each in same]))}
            for row, instance in same:
                if id(row) in removed or id(instance) in hidden:
                    ref = row[table.ref_field]
                    row.clear()
                    row[table.ref_field] = ref

    def room(self) -> Room:
        """Return the space for the rows of an answer."""
        return Room(self.setting.limits.characters)

    def reload_rows(
        self, instances: Sequence[Any], shape: Shape, room: Room
    ) -> tuple[list[Row], Rendering]:
        """Return instances as rows, refreshed from the database, until the space is used."""
        saved = self.reload(instances, shape)
        rendering = self.rendering(saved, shape)
        return rendering.rows(saved, shape, room), rendering

    def finish_answer(
        self,
        answer: dict[str, Any],
        notes: Sequence[str],
        rendering: Rendering | None = None,
        foreign: Sequence[ForeignRef] = (),
    ) -> dict[str, Any]:
        """Add labels, notes and the paths of cut values to an answer."""
        mode, tables = self.setting.labels, self.setting.tables
        shown = [] if rendering is None else rendering.shown
        few = limit_refs([*foreign_refs(shown, tables), *foreign], self.setting.limits.related)
        legend = self.put_labels([*few], mode)
        if mode == "legend":
            answer["labels"] = legend
        notes = [*notes, *(each for each in self.visibility.notes if each not in notes)]
        if notes:
            answer["notes"], _ = limit_depth(notes)
        if rendering is not None and rendering.cut:
            answer["cut"] = rendering.cut
        return answer

    def put_labels(self, refs: Sequence[ForeignRef], mode: LabelMode) -> dict[str, str]:
        """Add labels to rows, or return them by ref; see `labels.put_labels`."""
        return put_labels(self.session, self.visibility.mask_refs(refs), mode)

    def labels(self, tables: Mapping[str, ToolTable]) -> dict[str, str]:
        """Return the labels of rows that the call may see, by ref.

        It takes one statement per table, and at most one round trip for the keys.

        Args:
            tables: the table of each ref.
        """
        labelled = {ref: table for ref, table in tables.items() if table.keys.label is not None}
        keys = self.resolve((ref, table.entity) for ref, table in labelled.items())
        refs = [
            ForeignRef({"": ref}, "", labelled[ref], key_in(labelled[ref], key))
            for (ref, _), key in keys.items()
        ]
        return self.put_labels(refs, "legend")

    def with_visible_labels(self, error: BadRefError) -> BadRefError:
        """Return an error with the labels that read hooks show.

        It takes one statement for each table whose rows they hide or change.
        """
        tables: dict[str, ToolTable] = {}
        for text in error.labels:
            ref = None if parse_draft_ref(text) else parse_ref(text)
            table = None if ref is None else self.setting.tables.of_entity(ref.entity)
            if table is not None and self.visibility.restricts(table):
                tables[text] = table
        if not tables:
            return error
        labels = {ref: label for ref, label in error.labels.items() if ref not in tables}
        with (
            suppress(HeldBackError, RefError, ToolError, SQLAlchemyError),
            transaction(self.session, self.setting.limits.seconds),
        ):
            labels |= self.labels(tables)
            raise HeldBackError({})  # a call that is refused commits nothing
        return error.offering([*error.known, error.near], labels)

    def limit_hook_depth(self, rows: Iterable[Row], shape: Shape, cut: list[str]) -> None:
        """Cut values that hooks have nested too deep, and add their paths to `cut`."""
        if self.setting.hooks_of(shape.table):
            for row in rows:
                _limit_depth(row, shape, str(row.get(shape.table.ref_field)), cut)


def _limit_depth(row: Row, shape: Shape, path: str, cut: list[str]) -> None:
    for name, value in row.items():
        within, child = f"{path}.{name}", shape.children.get(name)
        inside = value if isinstance(value, list) else [value]
        if child is not None and all(isinstance(each, dict) for each in inside):
            for each in inside:
                _limit_depth(each, child, within, cut)
        else:
            row[name] = cut_depth(value, within, cut)


def _key_of(instance: Any, table: ToolTable) -> Key:
    """Return the key of a saved row; a tuple if its table has a composite key."""
    return table.keys.key_of(inspect(table.model).mapper.primary_key_from_instance(instance))


RowActivity = tuple[str, Action, Sequence[str] | None]
"""The activity on a row in an answer: its ref, the action, the shown columns and relationships."""


def activities_in(
    answer: Mapping[str, Any], tables: ToolTables, conversation: SessionConversation
) -> list[Activity]:
    """Return the activity entries for the rows of an answer; a row may occur twice.

    The answer of a function of the application may have other values in the fields for rows.
    """
    by_name = {table.name: table for table in tables}
    shown = [
        each
        for part in (answer, *_list_in(answer, "also"))
        if isinstance(part, dict) and str(part.get("table")) in by_name
        for table, row in _table_rows(part, by_name[part["table"]])
        for each in _shown_rows(row, table, "read")
    ]
    return activities_of(shown, conversation)


def _list_in(answer: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list in an answer; an empty one for another value."""
    value = answer.get(name)
    return value if isinstance(value, list) else []


def activities_of(
    shown: Collection[RowActivity], conversation: SessionConversation
) -> list[Activity]:
    """Return the activity entries of rows by key; drafts have no entry."""
    keys = conversation.known_keys(ref for ref, *_ in shown)
    return [
        Activity((parsed.entity, keys[ref]), action, fields, shown=True)
        for ref, action, fields in shown
        for parsed in (parse_ref(ref),)
        if parsed is not None and ref in keys
    ]


def _table_rows(answer: Mapping[str, Any], table: ToolTable) -> Iterator[tuple[ToolTable, Any]]:
    """Yield the rows of an answer with their tables, including groups and items of a list."""
    yield from ((table, row) for name in ("rows", "totals") for row in _list_in(answer, name))
    items, (name, *rest) = answer.get("items"), str(answer.get("list", "")).split(".")
    if name in table.targets and isinstance(items, dict):
        target = table.targets[name]
        for row in items.values():
            within = row.get(rest[0]) if rest and isinstance(row, dict) else None
            if isinstance(within, dict):
                yield from _table_rows({"list": ".".join(rest), "items": within}, target)
                yield target, {field: each for field, each in row.items() if field != rest[0]}
            else:
                yield target, row


def _shown_rows(row: Any, table: ToolTable, action: Action) -> Iterator[RowActivity]:
    """Yield the shown fields of a row, of its nested rows, and of the rows that it refers to."""
    if not isinstance(row, dict):
        return
    ref = row.get(table.ref_field)
    for name, value in row.items():
        column, target = table.columns.get(name), table.targets.get(name)
        inside = value if isinstance(value, list) else [value]
        if column is None and target is not None:
            for each in inside:
                yield from _shown_rows(each, target, "linked")
        elif column is not None and column.key is not None and name != table.ref_field:
            yield from ((each, "linked", ()) for each in inside if isinstance(each, str))
    if isinstance(ref, str):  # groups have no ref
        yield ref, action, [name for name in row if name in table.columns or name in table.targets]


@dataclass(slots=True)
class Request:
    """A call, as the caller made it.

    Attributes:
        tool: its name.
        arguments: the arguments, unchanged.
        actor: the party that acts: the model or the user.
        user: the id of the acting user, as text.
        call_id: the framework's id of the call.
        undoes: the number of the call that it undoes.
        plan: the token of the plan that the effect must equal; `None` or empty for any effect.
        began: its start, by `time.monotonic()`.
    """

    tool: str
    arguments: Any
    actor: Actor = "model"
    user: str | None = None
    call_id: str | None = None
    undoes: int | None = None
    plan: str | None = None
    began: float = field(default_factory=monotonic)

    def json_arguments(self) -> Any:
        """Return the arguments as JSON values; text that is not JSON stays text."""
        if isinstance(self.arguments, str):
            with suppress(ValueError, RecursionError):
                return json.loads(self.arguments)
        return self.arguments
