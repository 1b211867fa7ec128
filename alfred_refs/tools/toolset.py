"""`Toolset`: what a model may call. One path for all verbs.

    arguments ──repair, check──▶ refs ──resolve: ≤ 1 query──▶ hooks ──▶ statement ──▶ session
                                  │ drafts: ≤ 2 queries, to the registry                 │
    answer ◀──labels: ≤ 1 query a table──◀ rows with refs ◀──────────────────────────────┘

A call comes in as a tool's name and JSON; an answer goes out as JSON. A `RefSession` runs the
statements, and puts keys in place of refs and refs in place of keys; a call is one transaction.
A fault of the model's comes back as an answer with an error in it, from which it can go on; any
other is raised, and nothing was changed.

    toolset = Toolset(models=[Recipe, MealPlan])
    with sessions(conversation="chat-7") as session:
        toolset.call(session, "db_read", {"table": "recipes", "limit": 3})
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy.exc import DBAPIError, IntegrityError

from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import DraftRefError, SavedDraftError, SetupError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.policy import RefPolicy
from alfred_refs.owners import Ownership
from alfred_refs.session.session import RefSession
from alfred_refs.sqla import said
from alfred_refs.tools.answers.label_lookup import Mode
from alfred_refs.tools.answers.results import Limits
from alfred_refs.tools.payload.intake import decoded
from alfred_refs.tools.payload.removals import notes_of
from alfred_refs.tools.query.budget import check_budget
from alfred_refs.tools.query.grammar import check_filters
from alfred_refs.tools.tables.describing import description_of
from alfred_refs.tools.tables.hooks import Hooks
from alfred_refs.tools.tables.permits import Verb
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import (
    TOOLS,
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    validated,
)
from alfred_refs.tools.wire.repair import Repair, misplaced_nul, parsed
from alfred_refs.tools.wire.texts import without_keys

from .bound import BoundToolset
from .call import Call, Setting
from .creating import Creator
from .faults import fault_of
from .functions import FunctionTool, function_tool
from .lists import ListEditor
from .reading import Reader
from .schemas import Form, hints_of, schemas_of
from .seen import seen_in
from .transactions import left_as_found, transaction
from .writing import Writer

if TYPE_CHECKING:
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.session.asyncio import AsyncRefSession
    from alfred_refs.store import Actor

    from .bound import Sessions
    from .sql.tool import QueryTool

_LONGEST = 2_000  # characters of a text in an error: it may repeat what the model gave

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

Answer = dict[str, Any]
"""What a model is told: JSON values."""


class Toolset:
    """The tools that a model may call on some mapped classes.

    Args:
        models: the classes, or such by the name that models are to use; otherwise that is the name
            of the table.
        owner: whose rows are whose; the sessions that call are then owned by it, and no model sees
            or names the owner.
        policy: the registry's, if it has one of its own.
        hooks: what the application adds, by class.
        read_only: classes that a model may only read, and attributes that are shown and not
            written.
        verbs: by class, which of `"create"`, `"update"` and `"delete"` a model may do to its
            rows; all of them where nothing is said.
        hidden: mapped attributes that a model never sees.
        labels: whether refs to other rows come with these rows' labels beside them, once for each
            answer, or not at all.
        deduplicate: by class, the attributes that tell new rows of one call apart: of several that
            are the same, the last wins.
        limits: how much an answer shows.
        max_written: how many rows one call may change.
        drafts: whether a model may keep rows as drafts, and use those of the application; without
            them it is never told that there are any.
        sql: whether a model may ask by SELECT (`db_query`), which needs the extra `sql`; or what
            immutable functions it may call besides: `{"similarity": "text text -> double"}`.

    Attributes:
        tables: what a model may use.
        ownership: whose rows are whose.
        functions: `db_query` and the tools of the application's own, by name.

    Raises:
        SetupError: what is given does not go together.
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
        labels: Mode = "inline",
        deduplicate: Mapping[type[Any], Sequence[str]] | None = None,
        limits: Limits | None = None,
        max_written: int = 100,
        drafts: bool = True,
        sql: bool | Mapping[str, str] = False,
    ) -> None:
        self._policy = policy or RefPolicy()
        self.ownership = owner
        self.tables = ToolTables(
            models,
            Entities(self._policy),
            read_only=read_only,
            verbs=verbs,
            hidden=hidden,
            ownership=owner,
        )
        self._setting = Setting(
            self.tables,
            dict(hooks or {}),
            labels,
            dict(deduplicate or {}),
            limits or Limits(),
            max_written,
            drafts,
        )
        self._setting.check()
        self._memos: dict[Hashable, Any] = {}
        self.functions: dict[str, FunctionTool | QueryTool] = {}
        if sql is not False:
            own = {} if sql is True else sql
            self.functions["db_query"] = _query_tool(self._setting, own)

    def memo(self, name: Hashable, make: Callable[[], _T]) -> _T:
        """Return what is made of these tools, once for all who ask for it by its name."""
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

        A model is told its name, the first paragraph of its docstring, and the types of its
        parameters; those of a session's class or of `Conversation` are the call's own, and no
        model sees them.

        Args:
            function: with types; `async def` for asynchronous sessions.
            name: what a model calls it; otherwise that is its own name.
            read_only: whether it changes nothing.

        Raises:
            SetupError: the name is taken, or a model could not be told how to call it.
        """

        def add(function: _F) -> _F:
            made = function_tool(function, self.tables, self.functions, name=name, reads=read_only)
            self.functions[made.name] = made
            self._memos.clear()  # what is made of the tools has one more
            return function

        return add if function is None else add(function)

    def call(self, session: RefSession, tool: str, arguments: Any) -> Answer:
        """Do what a model asks for, in one transaction, and return what it is told.

        Args:
            session: a session in a conversation. If it is in a transaction, the call is a
                savepoint of that; otherwise it is a transaction, and is committed.
            tool: the name of the tool.
            arguments: JSON values, or their text.

        Raises:
            SetupError: the session is in no conversation, of a registry with another policy, or
                has not the owner that the toolset asks for.
        """
        if not isinstance(session, RefSession):
            raise SetupError(
                f"a tool was called on a {type(session).__name__}",
                "give a RefSession, or await call_async() with an AsyncRefSession",
            )
        call = Call(self._setting, session, self._view_of(session))
        if session.in_transaction():
            # what the application has left to be flushed is its own, and so are its mistakes
            session.flush()
        chat, tool = call.conversation, str(tool)  # a client hands over anything
        known = tool if tool in TOOLS or tool in self.functions else None
        with chat.telemetry.calling(known, chat.id) as refused:
            with session.activity() as seen, left_as_found(session):
                answer = self._answer(call, tool, arguments)
                if seen is not None:
                    seen.extend(seen_in(answer, self.tables, chat))
            if "error" in answer:
                refused(answer["error"]["code"])
            return answer

    def _answer(self, call: Call, tool: str, arguments: Any) -> Answer:
        """Return what a model is told: an answer, or what it did wrong."""
        table, checked, begun = None, None, monotonic()
        try:
            repair = Repair()
            given = repair.value(parsed(arguments))
            if tool in self.functions:
                return self._of_function(call, self.functions[tool], given, repair)
            drafts = self._setting.drafts
            checked = validated(tool, given, self.functions, drafts=drafts)
            table = self.tables.named(checked.table)
            check_budget(checked, table, self._setting.max_written)
            check_filters(checked, table)
            notes = notes_of(repair.removed, checked, self.tables)
            checked = decoded(checked, self.tables, call.conversation, drafts=drafts)
            answer = _done(call, checked)
            return {**answer, "notes": [*notes, *answer.get("notes", [])]} if notes else answer
        except Exception as error:
            most = self._setting.limits.seconds
            slow = most if most is not None and monotonic() - begun >= most else None
            of = self._refusing(error, checked) or table
            if isinstance(error, DraftRefError) and error.ref and not self._setting.drafts:
                error = call.conversation.unknown_ref(error.ref, error.expected)
            fault = fault_of(error, tool, of, self.tables.entities, slow=slow)
            if fault is None:
                call.session.hide_keys(error)  # a hook may have raised it
                raise
            refusal: Answer = without_keys(fault.to_json(), call.conversation, _LONGEST)
            return refusal

    @staticmethod
    def _of_function(
        call: Call, function: FunctionTool | QueryTool, given: Any, repair: Repair
    ) -> Answer:
        """Return what a function of the application answers: JSON without keys."""
        for path in repair.removed:
            raise misplaced_nul(path)
        answer: Answer = without_keys(function.call(call, given), call.conversation)
        return answer

    def _refusing(self, error: Exception, arguments: Arguments | None) -> ToolTable | None:
        """Return the table that the database says an error is of, where a call has several."""
        if not isinstance(error, DBAPIError) or not isinstance(arguments, DbCreate | None):
            return None
        of = said(error).get("table_name")
        return next((table for table in self.tables if of in table.database_names), None)

    async def call_async(self, session: AsyncRefSession, tool: str, arguments: Any) -> Answer:
        """Do what `call` does, with an asynchronous session."""
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
            by: on whose behalf calls are made; what they do is then kept for prompts. `None` keeps
                nothing, and saves a round trip a call.

        Raises:
            SetupError: `sessions` makes no such session.
        """
        return BoundToolset(self, sessions, registry, by=by)

    def reads(self, tool: str) -> bool:
        """Tell whether a tool changes nothing."""
        own = self.functions.get(tool)
        return tool == "db_read" if own is None else own.reads

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools, for a model's client.

        Args:
            form: the client's: `"openai"` (chat completions), `"anthropic"` (messages), `"mcp"`
                (what a server lists), or `"json_schema"` (a document for each tool).
            describe: whether the tables are described in them; not needed where a prompt has what
                `describe` says.

        Returns:
            one for each tool that may be used: without a table to write, `db_read` alone.

        Raises:
            SetupError: there is no such form.
        """
        own = [
            (each.name, each.description, each.schema(self.tables), hints_of(reads=each.reads))
            for each in self.functions.values()
        ]
        return schemas_of(self._setting, form, own, describe=describe)

    def describe(self, tables: Iterable[str] | None = None) -> str:
        """Return what a model needs to know of tables, or of all, for a prompt: lines of text.

        Raises:
            ToolError: a name is none of a table.
        """
        if tables is None:
            return description_of(self.tables)
        return description_of([self.tables.named(name) for name in tables])

    def _view_of(self, session: RefSession) -> SessionConversation:
        """Return the conversation of a session that goes with the toolset, as it sees it."""
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
        from .sql.tool import QueryTool  # noqa: PLC0415  # it is loaded only where it is wanted
    except ModuleNotFoundError as error:
        raise SetupError(
            f"sql=True needs a parser ({error.name})", "install alfred-refs[sql]"
        ) from error
    return QueryTool(setting, functions)


def _done(call: Call, arguments: Arguments) -> Answer:
    """Do what arguments ask for, in one transaction, and return the answer.

    Drafts that somebody else has saved meanwhile are looked at once more: they are rows now.
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
            if not _were_saved(call, arguments):
                raise
    with begin():
        return _answer(call, arguments)


def _were_saved(call: Call, arguments: DbCreate) -> bool:
    """Tell whether drafts that could not be saved are rows by now: somebody else was first."""
    refs = [ref for each in (arguments, *arguments.also) for ref in each.drafts]
    drafts = call.conversation.read_drafts(refs) if refs else []
    return any(draft.saved is not None for draft in drafts)


def _answer(call: Call, arguments: Arguments) -> Answer:
    """Return what the model is told: JSON without keys."""
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
    plain: Answer = without_keys(answer, call.conversation)
    return plain
