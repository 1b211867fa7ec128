"""`Toolset`: dispatch of calls. `BoundToolset`: a session for each call.

    arguments ──repair, check──▶ refs ──resolve: ≤ 1 query──▶ hooks ──▶ statement ──▶ session
                                  │ drafts: ≤ 2 queries, to the registry                 │
    answer ◀──labels: ≤ 1 query a table──◀ rows with refs ◀──────────────────────────────┘

A call is a tool's name and JSON; the answer is JSON. A `RefSession` runs the statements, with keys
in place of refs and refs in place of keys. A call is one transaction. If the model can correct an
error, the answer has it and nothing was changed; any other exception is raised.

>>> toolset.call(session, "db_read", {"table": "recipes", "columns": ["name"], "limit": 1})["rows"]
[{'id': 'recipe_1', 'name': 'Soup'}]
>>> toolset.call(session, "db_read", {"table": "users"})["error"]["message"]
"there is no table 'users'; use one of 'recipes', 'lines'"

`BoundToolset` is for code above sessions, such as an agent framework or a server. It is given the
conversation, the owner and the model's call, and opens one session for each call:

>>> desk = toolset.bind(sessions, registry=registry)
>>> desk.call("chat-7", None, "db_read", {"table": "lines", "columns": ["count(*)"]}).text
'{"table":"lines","totals":[{"count(*)":2}],"more":false}'

Calls may run at the same time, in threads or tasks. Writes in one conversation run one after
another, in the order in which they were made, because a model relies on that order.

Limits: the order of writes is kept within one process. There is no rate limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from weakref import WeakValueDictionary

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from alfred_refs.conversation import Conversation, Draft, RefRegistry, SessionConversation
from alfred_refs.errors import DraftRefError, RegistryBusyError, SavedDraftError, SetupError
from alfred_refs.mapping import Entities, RefPolicy
from alfred_refs.owners import Ownership
from alfred_refs.session import RefSession
from alfred_refs.sqla import driver_error_fields, max_connections
from alfred_refs.store import Actor
from alfred_refs.tools.answers import LabelMode, Limits
from alfred_refs.tools.arguments import (
    TOOLS,
    Arguments,
    ArgumentType,
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    Repair,
    argument_type_of,
    misplaced_nul,
    validate_arguments,
)
from alfred_refs.tools.call import (
    Call,
    ExpectMode,
    Setting,
    activities_in,
    check_hooks,
    preserve_transaction,
    transaction,
)
from alfred_refs.tools.definitions import (
    Form,
    FunctionTool,
    description_of,
    filter_kinds,
    function_tool,
    hints_of,
    names_of,
    schemas_of,
)
from alfred_refs.tools.drafts import visible_content
from alfred_refs.tools.faults import fault_of
from alfred_refs.tools.filters import check_budget, check_dialect, check_filters
from alfred_refs.tools.lists import ListEditor
from alfred_refs.tools.payload import decode_arguments, notes_of, read_documents
from alfred_refs.tools.preconditions import check_expectations
from alfred_refs.tools.reading import CurrentRows, Fields, Reader, RowReader
from alfred_refs.tools.rules import Hooks
from alfred_refs.tools.serialization import replace_keys
from alfred_refs.tools.tables import ToolTable, ToolTables, Verb
from alfred_refs.tools.writing import Creator, Writer

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import async_sessionmaker

    from alfred_refs.context import Context
    from alfred_refs.session.asyncio import AsyncRefSession
    from alfred_refs.tools.sql.tool import QueryTool


if TYPE_CHECKING:
    Sessions = sessionmaker[RefSession] | async_sessionmaker[AsyncRefSession]

_log = logging.getLogger(__name__)

_Lock = TypeVar("_Lock")

# serialization failure and deadlock: the call may be repeated
_ROLLED_BACK = ("40001", "40P01")

# for how long calls run one after another: then one round of them may block each other again
_SERIAL_SECONDS = 60.0

_CACHE_SIZE = 256
_CACHE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a call.

    Attributes:
        value: JSON values: `{"error": {"code", "message", ...}}` for an error that the model can
            correct.

    Example:
        >>> answer = desk.call("chat-7", None, "db_delete", {"table": "lines", "filters": []})
        >>> answer.failed, answer.value["error"]["code"]
        (True, 'missing_filter')
        >>> asked = {"table": "lines", "columns": ["count(*)"]}
        >>> answer = desk.call("chat-7", None, "db_read", asked)
        >>> answer.failed, answer.text
        (False, '{"table":"lines","totals":[{"count(*)":2}],"more":false}')
    """

    value: Answer

    @property
    def text(self) -> str:
        """The same as compact JSON text, not ASCII-escaped."""
        return json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))

    @property
    def failed(self) -> bool:
        """Whether nothing was done, because of an error that the model can correct."""
        error = self.value.get("error")
        return isinstance(error, dict) and "code" in error


class BoundToolset:
    """A toolset that opens a session for each call; made by `Toolset.bind`.

    Attributes:
        toolset: the toolset.
        tool: adds a function of the application to the tools; see `Toolset.tool`.
        sessions: makes the sessions.
        registry: opens the conversations.
        is_async: whether the sessions are asynchronous.
        connections: how many calls can have a connection at a time; `None` if not known.

    Example:
        >>> desk = toolset.bind(sessions, registry=registry)
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "lines", "columns": ["text"]})
        >>> answer.value["rows"]
        [{'id': 'line_1', 'text': '4 tomatoes'}, {'id': 'line_2', 'text': '1 onion'}]
    """

    def __init__(
        self,
        toolset: Toolset,
        sessions: Sessions,
        registry: RefRegistry,
        *,
        by: Actor | None = "model",
    ) -> None:
        self.is_async = makes_async_sessions(sessions)
        if not isinstance(registry, RefRegistry):
            raise SetupError(
                f"a toolset was bound to the registry {type(registry).__name__}",
                "give the application's RefRegistry: toolset.bind(sessions, registry=registry)",
            )
        self.toolset = toolset
        self.tool = toolset.tool
        self.registry = registry
        self.connections = max_connections(getattr(sessions, "kw", {}).get("bind"))
        self.sessions: Any = sessions
        self._by = by
        self._conversations = _ConversationCache(registry)
        self._threads = _Locks(threading.Lock)
        self._tasks = _Locks(asyncio.Lock)
        self._serial_until = 0.0
        self._parallel = _Counter()

    def call(
        self,
        conversation: str,
        owner: Any,
        tool: str,
        arguments: Any,
        *,
        begin_turn: bool = False,
    ) -> ToolAnswer:
        """Call a tool in a session of its own, and return the answer.

        A call that PostgreSQL rolled back because of another transaction (SQLSTATE 40001, 40P01)
        is repeated once. One for which the registry got no answer in time (`RegistryBusyError`) is
        repeated until it was the only one: calls with open transactions may hold all connections
        of a pooler. Calls run one after another for a minute from then on.

        Args:
            conversation: the id of the conversation.
            owner: the owner, as `Ownership.of` takes it; `None` if the toolset has no `Ownership`.
            tool: the name of the tool.
            arguments: JSON values, or JSON text; `None` or `""` for no arguments.
            begin_turn: whether the call is a turn of its own. Turns of users begin by
                `Conversation.begin_turn`; a server whose clients have none numbers calls so.

        Raises:
            SetupError: the sessions are asynchronous, or an owner is missing or not expected.
        """
        if self.is_async:
            raise SetupError(
                "call() was used on a toolset that is bound to asynchronous sessions",
                "await call_async()",
            )
        given = self._session_arguments(conversation, owner)

        with self._write_lock(self._threads, tool, conversation, owner):
            if begin_turn:
                given["conversation"].begin_turn()
            for attempt in self._attempts(self._threads):
                try:
                    with attempt, self.sessions(**given) as session:
                        return ToolAnswer(self.toolset.call(session, tool, arguments))
                except (DBAPIError, RegistryBusyError) as error:
                    if not self._is_repeatable(error, tool, attempt):
                        raise
        raise AssertionError("attempts do not end")

    async def call_async(
        self,
        conversation: str,
        owner: Any,
        tool: str,
        arguments: Any,
        *,
        begin_turn: bool = False,
    ) -> ToolAnswer:
        """Call a tool without blocking the event loop.

        Asynchronous sessions are awaited, and a call that is cancelled is rolled back. Other
        sessions run in a thread: a call that is cancelled continues there and is committed.

        Args:
            conversation: as for `call`.
            owner: as for `call`.
            tool: as for `call`.
            arguments: as for `call`.
            begin_turn: as for `call`.

        Raises:
            SetupError: an owner is missing or not expected.
        """
        order = self._write_lock(
            self._tasks, tool, conversation, owner, asyncio.get_running_loop()
        )
        async with order:
            if not self.is_async:
                return await asyncio.to_thread(
                    self.call, conversation, owner, tool, arguments, begin_turn=begin_turn
                )
            given = self._session_arguments(conversation, owner)
            if begin_turn:
                await given["conversation"].aio.begin_turn()

            for attempt in self._attempts(self._tasks, asyncio.get_running_loop()):
                try:
                    async with attempt, self.sessions(**given) as session:
                        return ToolAnswer(await self.toolset.call_async(session, tool, arguments))
                except (DBAPIError, RegistryBusyError) as error:
                    if not self._is_repeatable(error, tool, attempt):
                        raise
        raise AssertionError("attempts do not end")

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools; see `Toolset.schemas`."""
        return self.toolset.schemas(form, describe=describe)

    def describe(self, tables: Iterable[str] | None = None) -> str:
        """Return a description of tables; see `Toolset.describe`."""
        return self.toolset.describe(tables)

    def reads(self, tool: str) -> bool:
        """Return whether a tool changes nothing."""
        return self.toolset.reads(tool)

    def conversation(self, conversation: str, owner: Any) -> Conversation:
        """Open a conversation for its owner.

        Args:
            conversation: its id.
            owner: as for `call`.

        Raises:
            SetupError: an owner is missing, or not expected.
        """
        opened: Conversation = self._session_arguments(conversation, owner)["conversation"]
        opened.desk = self
        return opened

    def context(self, conversation: str, owner: Any, **options: Any) -> Context:
        """Return the `Context` of a conversation, whose prompts read rows in sessions like these.

        Args:
            conversation: its id.
            owner: as for `call`.
            options: of `Context`, such as `window` and `templates`.

        Raises:
            SetupError: an owner is missing, or not expected.
        """
        from alfred_refs.context import Context  # noqa: PLC0415  # it is built on the tools

        chat = self.conversation(conversation, owner)
        return Context(chat, **options)

    def cover(self, conversation: str, owner: Any, value: Any) -> Any:
        """Return a value from another source with refs in place of keys; see `Conversation.scrub`.

        desk.cover("chat-7", user.id, search.find("invoice"))   # keys of rows become refs
        """
        chat = self.conversation(conversation, owner)
        return chat.scrub(value, entities=self.toolset.tables.shown)

    async def cover_async(self, conversation: str, owner: Any, value: Any) -> Any:
        """Do what `cover` does without blocking the event loop."""
        chat = self.conversation(conversation, owner)
        return await chat.aio.scrub(value, entities=self.toolset.tables.shown)

    def _session_arguments(self, conversation: str, owner: Any) -> dict[str, Any]:
        """Return the arguments of the sessionmaker."""
        ownership = self.toolset.ownership
        if (owner is None) is not (ownership is None):
            raise SetupError(
                f"an owner {'is missing' if owner is None else 'was given'} in a call of tools "
                f"that have {'no' if ownership is None else 'an'} Ownership",
                "give Toolset(..., owner=Ownership(...)) and the owner with each call, or neither",
            )
        whose = None if ownership is None else ownership.of(owner)
        owner_id = None if whose is None else str(whose.value)
        chat = self._conversations.conversation(conversation, owner_id)
        return {"conversation": chat, "owner": whose, "by": self._by}

    def _write_lock(self, locks: _Locks[Any], tool: str, *of: Hashable) -> Any:
        """Return a context manager that waits for earlier writes of the same conversation."""
        return _NoLock() if self.reads(tool) else locks.of(of)

    def _attempts(self, locks: _Locks[Any], *of: Hashable) -> Iterator[_Attempt]:
        """Yield attempts at a call: they wait for all others if calls have blocked each other."""
        for number in count(1):
            is_serial = monotonic() < self._serial_until
            yield _Attempt(number, self._parallel, locks.of(of) if is_serial else None)

    def _is_repeatable(
        self, error: DBAPIError | RegistryBusyError, tool: str, attempt: _Attempt
    ) -> bool:
        """Return whether a call that failed has changed nothing, and may succeed now."""
        if isinstance(error, DBAPIError):
            state = driver_error_fields(error)["sqlstate"]
            return state in _ROLLED_BACK and attempt.number == 1
        if error.seconds is None or attempt.was_alone:
            return False
        if monotonic() >= self._serial_until:
            _log.warning("calls run one after another for a while: %s", error)
        self._serial_until = monotonic() + _SERIAL_SECONDS
        # the answer of an application's own tool is made after its transaction
        return tool in TOOLS or self.reads(tool)


def makes_async_sessions(sessions: Any) -> bool:
    """Return whether a session factory makes asynchronous sessions.

    Raises:
        SetupError: it does not make a `RefSession` for each call.
    """
    if isinstance(sessions, scoped_session):
        raise SetupError(
            "a scoped_session was given to make sessions, which calls of one thread would share",
            "give what it makes sessions with: scoped.session_factory",
        )
    if isinstance(sessions, Session) or hasattr(sessions, "sync_session"):
        raise SetupError(
            f"a {type(sessions).__name__} was given to make sessions, and each call needs its own",
            "give what makes sessions: sessionmaker(engine, class_=RefSession)",
        )
    made = getattr(sessions, "class_", None)
    if isinstance(made, type):
        if issubclass(made, RefSession):
            return False
        if issubclass(getattr(made, "sync_session_class", type), RefSession):
            return True
    raise SetupError(
        f"{type(sessions).__name__} was given to make sessions, and makes no RefSession",
        "give sessionmaker(engine, class_=RefSession) or "
        "async_sessionmaker(engine, class_=AsyncRefSession)",
    )


class _NoLock(AbstractContextManager["_NoLock"]):
    """A context manager that does nothing, in threads and in tasks."""

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


class _Counter:
    """A number that threads change."""

    def __init__(self) -> None:
        self.value = 0
        self._guard = threading.Lock()

    def add(self, number: int) -> None:
        """Add a number."""
        with self._guard:
            self.value += number


class _Attempt:
    """A context manager round one attempt at a call, in threads and in tasks.

    Attributes:
        number: of the attempt at the same call, from 1.
        was_alone: whether no other call of this process was running when it began.
    """

    def __init__(self, number: int, parallel: _Counter, lock: Any) -> None:
        self.number = number
        self.was_alone = False
        self._parallel = parallel
        self._lock = lock  # None for a call that waits for no other

    def _begin(self) -> None:
        if self._lock is None:
            self._parallel.add(1)
        else:
            self.was_alone = self._parallel.value == 0

    def __enter__(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
        self._begin()

    async def __aenter__(self) -> None:
        if self._lock is not None:
            await self._lock.acquire()
        self._begin()

    def __exit__(self, *_: object) -> None:
        if self._lock is None:
            self._parallel.add(-1)
        else:
            self._lock.release()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


class _Locks(Generic[_Lock]):
    """A lock for each conversation, kept while a caller holds it or waits for it."""

    def __init__(self, make: Callable[[], _Lock]) -> None:
        self._make = make
        self._locks: WeakValueDictionary[Hashable, _Lock] = WeakValueDictionary()
        self._guard = threading.Lock()

    def of(self, key: Hashable) -> _Lock:
        """Return the lock of a conversation."""
        with self._guard:
            return self._locks.setdefault(key, self._make())


class _ConversationCache:
    """Recently used conversations, kept open so that their cached refs are not looked up again."""

    def __init__(self, registry: RefRegistry) -> None:
        self._registry = registry
        self._entries: OrderedDict[tuple[str, str | None], tuple[float, Conversation]] = (
            OrderedDict()
        )
        self._guard = threading.Lock()

    def conversation(self, id_: str, owner: str | None) -> Conversation:
        """Open a conversation, which shares the cached refs of others with its id."""
        opened = self._registry.conversation(id_, owner=owner)
        now = monotonic()
        with self._guard:
            self._entries[id_, owner] = now, opened
            self._entries.move_to_end((id_, owner))
            for key, (used, _) in list(self._entries.items()):
                if len(self._entries) <= _CACHE_SIZE and now - used <= _CACHE_SECONDS:
                    break
                del self._entries[key]
        return opened


_LONGEST = 2_000  # characters of a text in an error, which may repeat the model's arguments

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

Answer = dict[str, Any]
"""The answer of a call: JSON values."""


class Toolset:
    """The tools that a model may call on mapped classes.

    Args:
        models: the classes, or a mapping of names to classes; the default name is the table's.
        owner: whose rows are whose. Sessions that call the tools must have an owner of it, and no
            model sees or names the owner.
        policy: the registry's, if it has one of its own.
        hooks: hooks of the application, by class.
        read_only: classes that a model may only read, and attributes that are shown and not
            written.
        verbs: by class, which of `"create"`, `"update"` and `"delete"` a model may use; all of
            them by default.
        hidden: mapped attributes that a model never sees.
        labels: whether refs to other rows come with the labels of these rows: next to each
            (`"inline"`), once in each answer (`"legend"`), or not at all (`"none"`).
        deduplicate: by class, the attributes that identify new rows of one call: of several equal
            ones the last wins.
        limits: how much an answer shows.
        max_written: how many rows one call may change.
        expect: whether a write must (`"required"`) or may (`"optional"`) give the labels of the
            rows that it names by refs, in `expect` and next to refs in data. One wrong digit in a
            ref may otherwise change another row.
        drafts: whether a model may keep rows as drafts, and use those of the application; without
            them it never learns that there are any.
        sql: whether a model may use SELECT (`db_query`), which needs the extra `sql`; or the
            immutable functions that it may call in addition: `{"similarity": "text text ->
            double"}`.

    Attributes:
        tables: what a model may use.
        ownership: whose rows are whose.
        drafts: whether a model may keep and use drafts.
        expect: whether a write must or may give labels.
        functions: `db_query` and the application's own tools, by name.

    Raises:
        SetupError: the arguments contradict each other.

    Example:
        >>> toolset = Toolset([Recipe, Line], hidden=[Recipe.user_id])
        >>> [tool["name"] for tool in toolset.schemas("anthropic")]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
        >>> asked = {"table": "lines", "columns": ["text"], "order_by": "position", "limit": 1}
        >>> toolset.call(session, "db_read", asked)["rows"]
        [{'id': 'line_1', 'text': '4 tomatoes'}]
    """

    def __init__(
        self,
        models: Iterable[type[Any]] | Mapping[str, type[Any]],
        *,
        owner: Ownership | None = None,
        policy: RefPolicy | None = None,
        hooks: Mapping[type[Any], Sequence[Hooks]] | None = None,
        read_only: Iterable[Any] = (),
        verbs: Mapping[type[Any], Iterable[Verb]] | None = None,
        hidden: Iterable[Any] = (),
        labels: LabelMode = "inline",
        deduplicate: Mapping[type[Any], Sequence[str]] | None = None,
        limits: Limits | None = None,
        max_written: int = 100,
        expect: ExpectMode = "required",
        drafts: bool = True,
        sql: bool | Mapping[str, str] = False,
    ) -> None:
        self._policy = policy or RefPolicy()
        self.ownership = owner
        self.drafts = drafts
        self.expect = expect
        by_class = check_hooks(hooks or {})
        self.tables = ToolTables(
            models,
            Entities(self._policy),
            read_only=read_only,
            verbs=verbs,
            hidden=hidden,
            ownership=owner,
            watched=[
                model
                for model, listed in by_class.items()
                if not all(each.allows_totals() for each in listed)
            ],
        )
        self._setting = Setting(
            self.tables,
            by_class,
            labels,
            dict(deduplicate or {}),
            limits or Limits(),
            max_written,
            drafts,
            expect,
        )
        self._setting.check()
        self._memos: dict[Hashable, Any] = {}
        self.functions: dict[str, FunctionTool | QueryTool] = {}
        if sql is not False:
            own = {} if sql is True else sql
            self.functions["db_query"] = _query_tool(self._setting, own)

    def memo(self, name: Hashable, make: Callable[[], _T]) -> _T:
        """Return a value derived from these tools; it is made once and cached by name."""
        if name not in self._memos:
            self._memos[name] = make()
        made: _T = self._memos[name]
        return made

    @overload
    def tool(self, function: _F, /) -> _F: ...

    @overload
    def tool(self, *, name: str | None = None, read_only: bool = False) -> Callable[[_F], _F]: ...

    def tool(
        self, function: Any = None, *, name: str | None = None, read_only: bool = False
    ) -> Any:
        """Add a function of the application to the tools, as a decorator.

            @toolset.tool
            def ship(session: RefSession, order: Ref[Order], on: date) -> Order: ...

        The model's definition of the tool has its name, the first paragraph of its docstring, and
        the types of its parameters. Parameters of a session class or of `Conversation` are filled
        in by the call, and no model sees them. A model that gives null for a parameter with a
        default leaves it out.

        Args:
            function: with types; `async def` for asynchronous sessions.
            name: the tool's name; the function's by default.
            read_only: whether it changes nothing.

        Raises:
            SetupError: the name is taken, or the function lacks a docstring or a type.
        """

        def add(function: _F) -> _F:
            made = function_tool(function, self.tables, self.functions, name=name, reads=read_only)
            self.functions[made.name] = made
            self._memos.clear()  # cached definitions lack the new tool
            return function

        return add if function is None else add(function)

    def call(self, session: RefSession, tool: str, arguments: Any) -> Answer:
        """Call a tool in one transaction, and return the answer.

        Args:
            session: a session in a conversation. If it is in a transaction, the call is a
                savepoint of it; otherwise it is a transaction, and is committed.
            tool: the name of the tool.
            arguments: JSON values, or JSON text.

        Returns:
            JSON values: rows as `{"table", "rows", "count", ...}`, or, for an error that the model
            can correct, `{"error": {"code", "message", ...}}`; nothing was changed then.

        Raises:
            SetupError: the session is in no conversation, in one of a registry with another
                policy, or does not have the owner that the toolset requires.
        """
        if not isinstance(session, RefSession):
            raise SetupError(
                f"a tool was called on a {type(session).__name__}",
                "give a RefSession, or await call_async() with an AsyncRefSession",
            )
        call = Call(self._setting, session, self._view_of(session))
        if session.in_transaction():
            # errors of the application's pending changes are not the model's
            session.flush()
        chat, tool = call.conversation, str(tool)  # clients pass any value
        known = tool if tool in TOOLS or tool in self.functions else None
        with chat.telemetry.calling(known, chat.id) as refused:
            with session.activity() as seen, preserve_transaction(session):
                answer = self._answer(call, tool, arguments)
                if seen is not None:
                    seen.extend(activities_in(answer, self.tables, chat))
            if "error" in answer:
                refused(answer["error"]["code"])
            return answer

    def reread(
        self, session: RefSession, wanted: Mapping[str, Fields], nested: Mapping[str, Fields]
    ) -> CurrentRows:
        """Return rows as `db_read` would show them now; prompts are made of them.

        One statement for each table, and one for the labels of each table that refs lead to.
        Nothing is recorded as activity.

        Args:
            session: a session in the conversation.
            wanted: by ref, the names of the columns and relationships to show.
            nested: the same of rows that may stand inside of others.

        Raises:
            SetupError: as for `call`.
        """
        modes: dict[LabelMode, LabelMode] = {"legend": "inline"}
        setting = replace(
            self._setting, labels=modes.get(self._setting.labels, self._setting.labels)
        )
        call = Call(setting, session, self._view_of(session))
        try:
            with (
                preserve_transaction(session),
                transaction(session, setting.limits.seconds),
            ):
                return RowReader(call, wanted, nested).read()
        except Exception as error:
            session.hide_keys(error)  # a hook's exception may contain keys
            raise

    def drafts_of(self, conversation: Conversation) -> list[Draft]:
        """Return the pending drafts as a model sees them, without hidden columns and keys.

        At most three round trips to the registry; empty if the tools have no drafts.
        """
        if not self.drafts:
            return []
        drafts = [
            (draft, table)
            for draft in conversation.drafts()
            for table in (self.tables.of_entity(draft.entity),)
            if table is not None
        ]
        shown = [
            (draft.label, visible_content(table, draft.content, self.tables))
            for draft, table in drafts
        ]
        plain = replace_keys(shown, conversation, self.tables.shown, self._setting.limits.text)
        return [
            replace(draft, label=label, content=content)
            for (draft, _), (label, content) in zip(drafts, plain, strict=True)
        ]

    @property
    def _tool_names(self) -> list[str]:
        return self.memo("offered", lambda: [*names_of(self.tables), *self.functions])

    def _answer(self, call: Call, tool: str, arguments: Any) -> Answer:
        """Return the answer of a call: its result or an error."""
        table, checked, started_at = None, None, monotonic()
        try:
            repair = Repair()
            given = repair.arguments(arguments, self._type_of(tool))
            if tool in self.functions:
                return self._call_function(call, self.functions[tool], given, repair)
            drafts = self._setting.drafts
            operators = self.memo(("operators", tool), partial(self._setting.operators, tool))
            checked = validate_arguments(
                tool, given, self._tool_names, drafts=drafts, operators=operators
            )
            table = self.tables.by_name(checked.table)
            if repair.may_have_documents:
                checked = read_documents(checked, self.tables)
            check_budget(checked, table, self._setting.max_written)
            notes = notes_of(repair.removed, checked, self.tables)
            checked = decode_arguments(checked, self.tables, call.conversation, drafts=drafts)
            has_search = tool == "db_read" and self._setting.has_search(table)
            check_filters(checked, table, has_search=has_search)
            check_dialect(checked, call.session.get_bind(table.model).dialect.name)
            answer = _run_call(call, checked)
            return {**answer, "notes": [*notes, *answer.get("notes", [])]} if notes else answer
        except Exception as error:
            most = self._setting.limits.seconds
            slow = most if most is not None and monotonic() - started_at >= most else None
            of = self._table_of_error(error, checked) or table
            if isinstance(error, DraftRefError) and error.ref and not self._setting.drafts:
                error = call.conversation.unknown_error(error.ref, error.expected)
            fault = fault_of(error, tool, of, self.tables.entities, time_limit=slow)
            if fault is None:
                call.session.hide_keys(error)  # a hook's exception may contain keys
                raise
            refusal: Answer = replace_keys(
                fault.to_json(), call.conversation, self.tables.shown, _LONGEST
            )
            return refusal

    def _type_of(self, tool: str) -> ArgumentType:
        """Return the type of a tool's arguments; of an unknown tool, any."""

        def make() -> ArgumentType:
            function, model = self.functions.get(tool), TOOLS.get(tool)
            if function is not None:
                return argument_type_of(function.parameters)
            return ArgumentType() if model is None else argument_type_of(model.model_json_schema())

        is_known = tool in self.functions or tool in TOOLS
        return self.memo(("arguments", tool), make) if is_known else ArgumentType()

    def _call_function(
        self, call: Call, function: FunctionTool | QueryTool, given: Any, repair: Repair
    ) -> Answer:
        """Return the answer of a function tool: JSON without keys."""
        for path in repair.removed:
            raise misplaced_nul(path)
        answer: Answer = replace_keys(
            function.call(call, given), call.conversation, self.tables.shown
        )
        return answer

    def _table_of_error(self, error: Exception, arguments: Arguments | None) -> ToolTable | None:
        """Return the table that an error of the database names, if the call writes several."""
        if not isinstance(error, DBAPIError) or not isinstance(arguments, DbCreate | None):
            return None
        of = driver_error_fields(error).get("table_name")
        return next((table for table in self.tables if of in table.database_names), None)

    async def call_async(self, session: AsyncRefSession, tool: str, arguments: Any) -> Answer:
        """Do what `call` does, with an asynchronous session.

        Args:
            session: as for `call`.
            tool: as for `call`.
            arguments: as for `call`.

        Raises:
            SetupError: the session is not asynchronous, or as for `call`.
        """
        if not hasattr(session, "run_sync"):
            raise SetupError(
                f"call_async() was given a {type(session).__name__}",
                "give an AsyncRefSession, or use call() with a RefSession",
            )
        return await session.run_sync(lambda _: self.call(session.sync_session, tool, arguments))

    def bind(
        self,
        sessions: Sessions,
        *,
        registry: RefRegistry,
        by: Actor | None = "model",
    ) -> BoundToolset:
        """Return the same tools with a session of its own for each call.

            desk = toolset.bind(sessions, registry=registry)
            desk.call("chat-7", user.id, "db_read", {"table": "orders"}).text

        Args:
            sessions: a `sessionmaker` of `RefSession`, or an `async_sessionmaker` of
                `AsyncRefSession`.
            registry: opens the conversations.
            by: on whose behalf calls are made; their activity is then kept for prompts. `None`
                keeps nothing, and saves a round trip a call.

        Raises:
            SetupError: `sessions` makes other sessions.
        """
        return BoundToolset(self, sessions, registry, by=by)

    def reads(self, tool: str) -> bool:
        """Return whether a tool changes nothing."""
        own = self.functions.get(tool)
        return tool == "db_read" if own is None else own.reads

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools, for a model's client.

        Args:
            form: the client's format: `"openai"` (chat completions), `"anthropic"` (messages),
                `"mcp"` (a server's list), or `"json_schema"` (a document for each tool).
            describe: whether the tables are described in them; not needed if the prompt has the
                text of `describe`.

        Returns:
            one for each tool that may be used: without a writable table, only `db_read`.

        Raises:
            SetupError: there is no such format.
        """
        own = [
            (each.name, each.description, each.schema(self.tables), hints_of(reads=each.reads))
            for each in self.functions.values()
        ]
        return schemas_of(self._setting, form, own, describe=describe)

    def filter_kinds(self, tool: str = "db_read") -> list[dict[str, Any]]:
        """Return a JSON schema for each kind of filter that a tool takes, for a prompt."""
        return filter_kinds(tool, self._setting)

    def describe(self, tables: Iterable[str] | None = None) -> str:
        """Return a description of tables for a prompt: lines of text.

        Args:
            tables: their names, as a model knows them; `None` for all.

        Raises:
            ToolError: there is no table of one of the names.
        """
        if tables is None:
            return description_of(self.tables, self._setting.filled_by_hooks)
        named = [self.tables.by_name(name) for name in tables]
        return description_of(named, self._setting.filled_by_hooks)

    def _view_of(self, session: RefSession) -> SessionConversation:
        """Return the session's view of its conversation, checked against the toolset."""
        conversation = session.own_view
        if conversation is None:
            raise SetupError(
                "a tool was called on a session without conversation",
                "make the session with conversation=...",
            )
        if conversation.entities.policy != self._policy:
            raise SetupError(
                "the toolset and the session's registry have different policies",
                "give Toolset the registry's: Toolset(..., policy=policy)",
            )
        owner = session.owner
        if self.ownership is not (None if owner is None else owner.ownership):
            raise SetupError(
                "the toolset and the session do not go by the same Ownership",
                "make both with one: Toolset(..., owner=ownership), and "
                "sessions(..., owner=ownership.of(user_id)); or neither",
            )
        return conversation


def _query_tool(setting: Setting, functions: Mapping[str, str]) -> QueryTool:
    try:
        from alfred_refs.tools.sql.tool import QueryTool  # noqa: PLC0415  # it is loaded only where it is wanted
    except ModuleNotFoundError as error:
        raise SetupError(
            f"sql=True needs a parser ({error.name})", "install alfred-refs[sql]"
        ) from error
    return QueryTool(setting, functions)


def _run_call(call: Call, arguments: Arguments) -> Answer:
    """Run a verb in one transaction, and return the answer.

    If another call has saved the same drafts meanwhile, it is run once more: they are rows now.
    """
    begin = partial(
        transaction,
        call.session,
        call.setting.limits.seconds,
        writes=not (isinstance(arguments, DbRead) or getattr(arguments, "preview", False)),
    )
    try:
        with begin():
            return _answer(call, arguments)
    except (SavedDraftError, IntegrityError):
        if not isinstance(arguments, DbCreate):
            raise
        with begin():
            if not _any_saved(call, arguments):
                raise
    with begin():
        return _answer(call, arguments)


def _any_saved(call: Call, arguments: DbCreate) -> bool:
    """Return whether drafts that could not be saved are rows by now: another call was first."""
    refs = [ref for each in (arguments, *arguments.also) for ref in each.drafts]
    drafts = call.conversation.read_drafts(refs) if refs else []
    return any(draft.saved is not None for draft in drafts)


def _answer(call: Call, arguments: Arguments) -> Answer:
    """Return the answer of a verb: JSON without keys."""
    arguments = check_expectations(call, arguments)
    match arguments:
        case DbRead():
            answer = Reader(call).read(arguments)
        case DbCreate():
            answer = Creator(call).create(arguments)
        case DbUpdate():
            answer = Writer(call).update(arguments)
        case DbDelete():
            answer = Writer(call).delete(arguments)
        case DbEditList():
            answer = ListEditor(call, arguments).edit()
    plain: Answer = replace_keys(answer, call.conversation, call.setting.tables.shown)
    return plain
