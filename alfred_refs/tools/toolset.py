"""`Toolset`: dispatch of calls.

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

`bind` returns the same tools with a session of their own for each call: see `bound`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy.exc import DBAPIError, IntegrityError

from alfred_refs.conversation import (
    Conversation,
    Draft,
    DryRunDraftError,
    RefRegistry,
    SessionConversation,
    check_draftable,
    mask_keys,
)
from alfred_refs.errors import BadRefError, DraftRefError, RefError, SavedDraftError, SetupError
from alfred_refs.mapping import Entities, RefPolicy
from alfred_refs.owners import Ownership
from alfred_refs.session import RefSession
from alfred_refs.sqla import driver_error_fields
from alfred_refs.store import Actor, NewCall
from alfred_refs.store.telemetry import StartedCall
from alfred_refs.tools.answers import Limits
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
    arguments_type,
    misplaced_nul,
    validate_arguments,
)
from alfred_refs.tools.bound import BoundToolset
from alfred_refs.tools.call import (
    Answer,
    Call,
    ExpectMode,
    HeldBackError,
    Request,
    RowActivity,
    Setting,
    Supervisor,
    activities_in,
    activities_of,
    check_hooks,
    preserve_transaction,
    transaction,
)
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.creating import Creator
from alfred_refs.tools.decoding import bare_refs, decode_arguments, read_documents
from alfred_refs.tools.definitions import (
    Form,
    description_of,
    description_of_drafts,
    filter_kinds,
    hints_of,
    names_of,
    schemas_of,
)
from alfred_refs.tools.drafts import visible_content
from alfred_refs.tools.errors import ToolError, plan_changed, undo_conflict
from alfred_refs.tools.faults import fault_of, without_unlisted
from alfred_refs.tools.filters import BoundFilters, bind_filters, check_budget
from alfred_refs.tools.functions import FunctionTool, function_tool
from alfred_refs.tools.history import Journal, answer_of, pending_answer, table_named
from alfred_refs.tools.hooks import Hooks, planning
from alfred_refs.tools.labels import LabelMode
from alfred_refs.tools.lists import ListEditor
from alfred_refs.tools.payload import check_content, notes_of
from alfred_refs.tools.plans import REFUSED, Plan, token_of
from alfred_refs.tools.preconditions import check_expectations
from alfred_refs.tools.reading import CurrentRows, Fields, Reader, RowReader
from alfred_refs.tools.serialization import replace_keys
from alfred_refs.tools.supervision import (
    Approver,
    Consent,
    ConsentRules,
    Keeper,
    Planner,
    Undoer,
    call_status_tool,
    known_call,
)
from alfred_refs.tools.tables import ToolTable, Verb
from alfred_refs.tools.writing import Writer

if TYPE_CHECKING:
    from alfred_refs.session.asyncio import AsyncRefSession
    from alfred_refs.tools.bound import Sessions
    from alfred_refs.tools.sql.tool import QueryTool

_ATTEMPTS = 3  # attempts to execute a plan while others change the rows
_LONGEST = 2_000  # characters of a text in an error, which may quote the model's arguments

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])


def _code_of(answer: Answer) -> str | None:
    """Return the code of the error in an answer; `None` without an error."""
    error = answer.get("error")
    return error.get("code") if isinstance(error, dict) else None


def _rows_in(answer: Answer) -> int | None:
    """Return the number of rows of an answer; `None` for an answer without rows."""
    count, rows = answer.get("count"), answer.get("rows")
    if isinstance(count, int):
        return count
    return len(rows) if isinstance(rows, list) else None


class Toolset:
    """The tools that a model may call on mapped classes.

    Args:
        models: the classes, or a mapping of names to classes; the default name is the table's.
        owner: the ownership of rows. Sessions that call the tools must have an owner of it, and no
            model sees or names the owner.
        policy: the policy of the registry, if it is not the default.
        hooks: hooks of the application, by class.
        read_only: classes and attributes that a model may only read; a many-to-many relationship
            includes its reverse.
        verbs: by class, which of `"create"`, `"update"` and `"delete"` a model may use; all of
            them by default.
        hidden: mapped attributes that a model never sees.
        labels: whether refs to other rows come with the labels of these rows: next to each
            (`"inline"`), once in each answer (`"legend"`), or not at all (`"none"`).
        deduplicate: by class, the attributes that identify duplicates among the new rows of one
            call: the last duplicate wins, and `merged` in the answer reports it.
        limits: the limits of answers.
        max_written: the maximum number of rows that one call may change. Rows that only move in a
            list are not counted.
        expect: whether a write must (`"required"`) or may (`"optional"`) repeat the labels of the
            rows that it names by refs, in `expect` and next to refs in data. One wrong digit in a
            ref may otherwise change another row.
        drafts: whether a model may keep rows as drafts, and use drafts of the application;
            otherwise drafts are invisible to it.
        sql: whether a model may use SELECT (`db_query`), which needs the extra `sql`; or the
            immutable functions that it may call in addition: `{"similarity": "text text ->
            double"}`.
        consent: the writes that a person must approve: by class, verbs or `"all"`, including side
            effects on rows that the call does not name; or a function of the `Plan`.
        consent_expires: how long calls wait for approval; `None` for ever.

    Attributes:
        tables: the tables that a model may use.
        ownership: the ownership of rows.
        drafts: whether a model may keep and use drafts.
        expect: whether a write must or may repeat labels.
        functions: `db_query`, `db_call_status`, and the application's own tools, by name.
        consent: the writes that a person must approve; `None` for no writes.

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
        consent: ConsentRules | None = None,
        consent_expires: timedelta | None = timedelta(days=7),
    ) -> None:
        self._policy = policy or RefPolicy()
        self.ownership = owner
        self.drafts = drafts
        self.expect = expect
        by_class = check_hooks(hooks or {})
        self._entities = Entities(self._policy)
        self.tables = ToolTables(
            models,
            self._entities,
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
        self.consent = None if consent is None else Consent(consent, self.tables)
        self.consent_expires = consent_expires
        self._memos: dict[Hashable, Any] = {}
        self.functions: dict[str, FunctionTool | QueryTool] = {}
        if sql is not False:
            own = {} if sql is True else sql
            self.functions["db_query"] = _query_tool(self._setting, own)
        if consent is not None:
            self.tool(read_only=True)(call_status_tool(self.tables))

    def memo(self, name: Hashable, make: Callable[[], _T]) -> _T:
        """Return a value derived from these tools, cached by name."""
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
        in by the call, and no model sees them. Null for a parameter with a default means that the
        argument is omitted.

        Args:
            function: a function with annotations; `async def` for asynchronous sessions.
            name: the tool's name; the function's by default.
            read_only: whether the function only reads.

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
            can correct, `{"error": {"code", "message", ...}}`; nothing was changed then. A call
            that needs a person returns `{"pending": {"call", ...}}` and has changed nothing yet.

        Raises:
            SetupError: the session has no conversation, a conversation of a registry with another
                policy, or not the owner that the toolset requires.
        """
        return self.run(session, Request(str(tool), arguments))

    def run(self, session: RefSession, request: Request, journal: Journal | None = None) -> Answer:
        """Call a tool like `call`, with details of the caller and the history."""
        if not isinstance(session, RefSession):
            raise SetupError(
                f"a tool was called on a {type(session).__name__}",
                "give a RefSession, or await call_async() with an AsyncRefSession",
            )
        chat, tool = self._view_of(session), request.tool  # clients may pass any value
        if session.in_transaction():
            # errors of the application's pending changes are not the model's mistakes
            session.flush()
        with self._calling(chat, request) as answered:
            with session.activity() as seen, preserve_transaction(session):
                watched = journal is not None or self.consent is not None or request.plan
                if self.reads(tool) or not watched:
                    answer = self.supervise(session, request, None)
                else:
                    answer = self._write(session, chat, request, journal)
                if seen is not None:
                    seen.extend(activities_in(answer, self.tables, chat))
            answered(answer)
            return answer

    def approve(self, session: RefSession, approver: Approver) -> Answer:
        """Execute a call that a person has approved; see `BoundToolset.approve`."""
        with self._calling(self._view_of(session), approver.request) as answered:
            answer = self.supervise(session, approver.request, approver)
            answered(answer)
            return answer

    def known(self, tool: str) -> str | None:
        """Return the name of a tool; `None` if no tool has the name, which may be any text."""
        return tool if tool in TOOLS or tool in self.functions else None

    @contextmanager
    def _calling(
        self, chat: SessionConversation, request: Request
    ) -> Iterator[Callable[[Answer], None]]:
        """Record a call in the telemetry; yield a function to call with its answer."""
        tool = self.known(request.tool)
        arguments = request.json_arguments() if chat.telemetry.has_call_listeners else None
        table = table_named(self.tables, arguments)
        name = None if table is None else table.name  # a model's text may contain a key
        user, call_id, turn = request.user, request.call_id, chat.known_turn
        started = StartedCall(tool, chat.id, name, user, call_id, turn)
        with chat.telemetry.calling(started) as answered:
            yield lambda answer: answered(_code_of(answer), _rows_in(answer))

    def _write(
        self,
        session: RefSession,
        chat: SessionConversation,
        request: Request,
        journal: Journal | None,
    ) -> Answer:
        """Execute a write that is kept in the history, or may need a person."""
        entry, request = known_call(chat, request)
        if entry is not None:
            return answer_of(entry, self.tables)
        for _ in range(_ATTEMPTS):
            token = request.plan
            if self.consent is not None:
                plan = self.plan(session, request)
                if plan.refusal is None and self.consent.is_needed(plan):
                    return self._ask(chat, request, plan)
                if token and plan.refusal is None and plan.token != token:
                    return plan_changed(plan.summary).to_json()
                # a dry run mints no refs: execute a refused call once more, for its error message
                token = plan.token
            keeper = Keeper(request, journal, token)
            answer = self.supervise(session, request, keeper)
            if request.plan or _code_of(answer) != "plan_changed":
                break
        return answer

    def ask(self, session: RefSession, request: Request) -> Answer | None:
        """Store a call that needs approval, and return its pending answer, or `None`.

        Args:
            session: a session in the conversation.
            request: the call; see `BoundToolset.ask`.
        """
        if self.consent is None or self.reads(request.tool):
            return None
        chat = self._view_of(session)
        entry, request = known_call(chat, request)
        if entry is not None:
            return answer_of(entry, self.tables)
        plan = self.plan(session, request)
        if plan.refusal is not None or not self.consent.is_needed(plan):
            return None
        return self._ask(chat, request, plan)

    def _ask(self, chat: SessionConversation, request: Request, plan: Plan) -> Answer:
        """Store a call that needs a person, and return its answer.

        If the same call of the same user is already waiting, only its plan is replaced. The answer
        says if a person has rejected the same call before.
        """
        arguments, plan_json = request.json_arguments(), plan.model_dump(mode="json")
        rejection = None
        for each in chat.calls.select(states=["waiting", "rejected"]):
            same = (each.tool, each.arguments, each.user)
            if same != (request.tool, arguments, request.user):
                continue
            if each.state == "rejected":
                rejection = each
                continue
            if each.token != plan.token:
                chat.calls.update(each.number, "waiting", plan=plan_json, token=plan.token)
            return answer_of(chat.calls.get(each.number), self.tables, each.number)
        stored = NewCall(
            tool=request.tool,
            arguments=arguments,
            state="waiting",
            actor=request.actor,
            user=request.user,
            call_id=request.call_id,
            plan=plan_json,
            token=plan.token,
            expires_in=self.consent_expires,
        )
        return pending_answer(chat.calls.add(stored).number, plan, rejection)

    def plan(self, session: RefSession, request: Request) -> Plan:
        """Return the plan of a call; see `BoundToolset.plan`."""
        planner, chat = Planner(request), self._view_of(session)
        try:
            with planning(session), preserve_transaction(session), chat.dry_run():
                answer = self.supervise(session, request, planner)
        except DryRunDraftError:
            notes = ["changes drafts only, which are not rows yet"]
            return Plan(tool=request.tool, notes=notes, token=token_of(()))
        if "error" in answer:
            refusal = chat.without_dry_run_refs(answer["error"])
            return Plan(tool=request.tool, refusal=refusal, token=REFUSED)
        return planner.plan or Plan(tool=request.tool)

    def undo(self, session: RefSession, undoer: Undoer) -> Plan:
        """Undo the changes of calls; see `BoundToolset.undo`.

        Raises:
            ToolError: they cannot be undone.
        """
        chat, started_at = self._view_of(session), monotonic()
        call = Call(self._setting, session, chat, undoer)
        planned = planning(session) if undoer.only_plan else nullcontext()
        with planned, session.activity() as seen, preserve_transaction(session):
            try:
                call.run(dict, writes=True)
            except HeldBackError as held:
                if undoer.plan is None or not undoer.only_plan:
                    return Plan(tool="undo", refusal=held.answer["error"])
            except DBAPIError as error:
                limit = self._exceeded_limit(started_at)
                if limit is None or fault_of(error, "undo", None, (), time_limit=limit) is None:
                    raise
                fact = f"a statement took longer than {limit:g} seconds, perhaps for a lock"
                raise undo_conflict([fact]) from None
            if seen is not None and undoer.plan is not None:  # its SQL is not that of the session
                rows: list[RowActivity] = [
                    (row.ref, row.action, None) for row in undoer.plan.rows if row.ref
                ]
                seen.extend(activities_of(rows, chat))
        return undoer.plan or Plan(tool="undo")

    def supervise(
        self, session: RefSession, request: Request, supervisor: Supervisor | None
    ) -> Answer:
        """Execute a call under a supervisor, which decides before the commit."""
        call = Call(self._setting, session, self._view_of(session), supervisor)
        return self._answer(call, request.tool, request.arguments)

    def reread(
        self, session: RefSession, wanted: Mapping[str, Fields], nested: Mapping[str, Fields]
    ) -> CurrentRows:
        """Return rows as `db_read` would show them now, for prompts.

        It takes one statement per table, plus one per table whose labels are needed. Nothing is
        recorded as activity.

        If an error that `db_read` would answer ends the read, such as a value that its type cannot
        read, the transaction is rolled back, and all is read again without the table.

        Args:
            session: a session in the conversation.
            wanted: the names of the columns and relationships to show, by ref.
            nested: the same for rows that may be nested in others.

        Raises:
            SetupError: as for `call`.
        """
        modes: dict[LabelMode, LabelMode] = {"legend": "inline"}
        setting = replace(
            self._setting, labels=modes.get(self._setting.labels, self._setting.labels)
        )
        seconds, failures = setting.limits.seconds, Counter[ToolTable]()
        while True:
            call = Call(setting, session, self._view_of(session))
            reader = RowReader(call, wanted, nested, failures)
            try:
                with preserve_transaction(session), transaction(session, seconds):
                    return reader.read()
            except Exception as error:
                table = reader.reading
                is_slow = seconds is not None and monotonic() - reader.started_at >= seconds
                if table is None or not self._is_answered(error, table, is_slow=is_slow):
                    session.hide_keys(error)  # an exception of a hook may contain keys
                    raise
                failures[table] += 1

    def _is_answered(self, error: Exception, table: ToolTable, *, is_slow: bool) -> bool:
        """Return whether an error is the fault of a row or its table, which `db_read` answers."""
        if isinstance(error, RefError):  # of a hook: no model has given a ref
            return False
        limit = self._setting.limits.seconds if is_slow else None
        entities = self.tables.entities
        return fault_of(error, "db_read", table, entities, time_limit=limit) is not None

    def visible_error(self, session: RefSession, error: BadRefError) -> BadRefError:
        """Return an error about a ref with labels that a model may see.

        Args:
            session: a session in the conversation.
            error: an error with labels of the registry.
        """
        call = Call(self._setting, session, self._view_of(session))
        return without_unlisted(call.with_visible_labels(error), self.tables.entities)

    @property
    def masked(self) -> frozenset[str]:
        """The entities of rows that read hooks may hide or change.

        The registry stores their labels unchanged, so these are not shown where rows are not read.
        """
        over = self._setting.read_hooks.over
        return self.memo(
            "masked", lambda: frozenset(each.entity for each in self.tables if over(each))
        )

    def drafts_of(
        self, conversation: Conversation, drafts: Iterable[Draft] | None = None
    ) -> list[Draft]:
        """Return drafts for a model, without hidden columns and keys.

        The result is empty if the toolset does not use drafts. Otherwise this takes at most three
        round trips to the registry.

        Args:
            conversation: the conversation.
            drafts: drafts of the conversation; by default, all pending ones.
        """
        if not self.drafts:
            return []
        found = [
            (draft, table)
            for draft in (conversation.drafts() if drafts is None else drafts)
            for table in (self.tables.of_entity(draft.entity),)
            if table is not None
        ]
        shown = [
            (draft.label, visible_content(table, draft.content, self.tables))
            for draft, table in found
        ]
        plain = replace_keys(shown, conversation, self.tables.shown, self._setting.limits.text)
        return [
            replace(draft, label=label, content=content)
            for (draft, _), (label, content) in zip(found, plain, strict=True)
        ]

    @property
    def _tool_names(self) -> list[str]:
        return self.memo("offered", lambda: [*names_of(self.tables), *self.functions])

    def keep_drafts(
        self, session: RefSession, new: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[str]:
        """Keep new rows as drafts, as `db_create` does, and return their refs.

        Unlike `db_create`, this checks that all required values are present, except refs and
        values that hooks set.

        Args:
            session: a session in the conversation.
            new: the name of the table and the values of each row.

        Raises:
            ToolError: a mistake of the model; none of the drafts is kept.
        """
        for name, content in new:
            check_content(self.tables.by_name(name), content, self._setting.filled_by_hooks)
        first, *also = ({"table": name, "data": content} for name, content in new)
        request = Request("db_create", {**first, "also": also, "draft": True})
        with preserve_transaction(session):
            answer = self.supervise(session, request, None)
        if "error" in answer:
            raise ToolError(**mask_keys(answer["error"]))  # may quote the model's cut keys
        return [
            row[self.tables.by_name(part["table"]).ref_field]
            for part in (answer, *answer.get("also", ()))
            for row in part["rows"]
        ]

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
            if tool != "db_read" and self.tables.has_documents:
                notes += bare_refs(checked, self.tables, call.conversation)
            if repair.may_have_marks or repair.may_have_documents or self.tables.has_key_numbers:
                checked = decode_arguments(checked, self.tables, call.conversation, drafts=drafts)
            has_search = tool == "db_read" and self._setting.has_search(table)
            bound = bind_filters(
                checked,
                table,
                has_search=has_search,
                can_contain=partial(call.has_containment, table),
            )
            answer = _run_call(call, checked, bound)
            return {**answer, "notes": [*notes, *answer.get("notes", [])]} if notes else answer
        except HeldBackError as held:
            return held.answer
        except DryRunDraftError:
            raise
        except Exception as error:
            of = self._table_of_error(error, checked) or table
            refusal = self._refusal(call, error, tool, of, self._exceeded_limit(started_at))
            if refusal is None:
                call.session.hide_keys(error)  # an exception of a hook may contain keys
                raise
            return refusal

    def _exceeded_limit(self, started_at: float) -> float | None:
        """Return the time limit in seconds, if what began at a time has taken longer."""
        limit = self._setting.limits.seconds
        return limit if limit is not None and monotonic() - started_at >= limit else None

    def _refusal(
        self,
        call: Call,
        error: Exception,
        tool: str,
        table: ToolTable | None,
        slow: float | None,
    ) -> Answer | None:
        """Return the answer for an exception; `None` if the model cannot correct it."""
        if isinstance(error, DraftRefError) and error.ref and not self._setting.drafts:
            error = call.conversation.unknown_error(error.ref, error.expected)
        if isinstance(error, BadRefError):
            error = call.with_visible_labels(error)
        fault = fault_of(error, tool, table, self.tables.entities, time_limit=slow)
        if fault is None:
            return None
        refusal: Answer = replace_keys(
            fault.to_json(), call.conversation, self.tables.shown, _LONGEST
        )
        return refusal

    def _type_of(self, tool: str) -> ArgumentType:
        """Return the type of a tool's arguments; any type for an unknown tool."""

        def make() -> ArgumentType:
            return argument_type_of(self.functions[tool].parameters)

        if tool in self.functions:
            return self.memo(("arguments", tool), make)
        return arguments_type(tool) if tool in TOOLS else ArgumentType()

    def _call_function(
        self, call: Call, function: FunctionTool | QueryTool, given: Any, repair: Repair
    ) -> Answer:
        """Call a function tool, and return its answer as JSON without keys."""
        for path in repair.removed:
            raise misplaced_nul(path)
        answer: Answer = function.call(call, given)
        return answer

    def _table_of_error(self, error: Exception, arguments: Arguments | None) -> ToolTable | None:
        """Return the table that a database error names, if the call writes several tables."""
        if not isinstance(error, DBAPIError) or not isinstance(arguments, DbCreate | None):
            return None
        of = driver_error_fields(error).get("table_name")
        return next((table for table in self.tables if of in table.database_names), None)

    async def call_async(self, session: AsyncRefSession, tool: str, arguments: Any) -> Answer:
        """Call a tool like `call`, with an asynchronous session.

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
        journal: Journal | bool | None = None,
    ) -> BoundToolset:
        """Return the same tools with a separate session for each call.

            desk = toolset.bind(sessions, registry=registry)
            desk.call("chat-7", user.id, "db_read", {"table": "orders"}).text

        Args:
            sessions: a `sessionmaker` of `RefSession`, or an `async_sessionmaker` of
                `AsyncRefSession`.
            registry: opens the conversations.
            by: the party that calls, for the activity, which is then kept for prompts. `None`
                keeps no activity, and saves a round trip per call.
            journal: whether, and how long, to keep writes and their changes for `history` and
                `undo`.

        Raises:
            SetupError: `sessions` makes sessions of another class.
        """
        return BoundToolset(self, sessions, registry, by=by, journal=journal)

    def reads(self, tool: str) -> bool:
        """Return whether a tool only reads.

        Args:
            tool: its name.
        """
        own = self.functions.get(tool)
        return tool == "db_read" if own is None else own.reads

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools, for a model's client.

        Args:
            form: the client's format: `"openai"` (chat completions), `"anthropic"` (messages),
                `"mcp"` (a server's list), or `"json_schema"` (a document for each tool).
            describe: whether to describe the tables in them; not needed if the prompt contains the
                text of `describe`.

        Returns:
            one definition per usable tool: without a writable table, only `db_read`.

        Raises:
            SetupError: the format is unknown.
        """
        own = [
            (each.name, each.description, each.schema(self.tables), hints_of(reads=each.reads))
            for each in self.functions.values()
        ]
        return schemas_of(self._setting, form, own, describe=describe)

    def filter_kinds(self, tool: str = "db_read") -> list[dict[str, Any]]:
        """Return a JSON schema for each kind of filter of a tool, for a prompt.

        Args:
            tool: its name.
        """
        return filter_kinds(tool, self._setting)

    def describe(self, tables: Iterable[str] | None = None, *, drafts: bool = False) -> str:
        """Return a description of tables for a prompt: lines of text.

        Args:
            tables: the model's names of the tables; `None` for all.
            drafts: whether to describe only what drafts may contain. Tables that cannot have
                drafts are left out; those of rows inside drafts are added.

        Raises:
            ToolError: a table does not exist.
        """
        names = [table.name for table in self.tables] if tables is None else [*tables]
        named = [self.tables.by_name(name) for name in names]
        if drafts:
            named = [table for table in named if table.name in self.draft_tables]
            return description_of_drafts(named, self._setting.filled_by_hooks)
        return description_of(named, self._setting.filled_by_hooks)

    @property
    def draft_tables(self) -> Sequence[str]:
        """The names of the tables whose rows a model may keep as drafts."""
        return self.memo("draft_tables", self._find_draft_tables)

    def _find_draft_tables(self) -> list[str]:
        found = []
        for table in self.tables if self.drafts else ():
            with suppress(SetupError):
                check_draftable(table.model, self._entities)
                found += [table.name] if "create" in table.verbs else []
        return found

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
                "the toolset and the session do not have the same Ownership",
                "make both with one: Toolset(..., owner=ownership), and "
                "sessions(..., owner=ownership.of(user_id)); or neither",
            )
        return conversation


def _query_tool(setting: Setting, functions: Mapping[str, str]) -> QueryTool:
    try:
        from alfred_refs.tools.sql.tool import QueryTool  # noqa: PLC0415  # imported only if enabled
    except ModuleNotFoundError as error:
        raise SetupError(
            f"sql=True needs a parser ({error.name})", "install alfred-refs[sql]"
        ) from error
    return QueryTool(setting, functions)


def _run_call(call: Call, arguments: Arguments, bound: BoundFilters) -> Answer:
    """Run a verb in one transaction, and return the answer.

    If another call has saved the same drafts meanwhile, run the verb again: the drafts are rows
    now.
    """
    act = partial(_answer, call, arguments, bound)
    writes = not (isinstance(arguments, DbRead) or getattr(arguments, "preview", False))
    try:
        return call.run(act, writes=writes)
    except (SavedDraftError, IntegrityError):
        if not isinstance(arguments, DbCreate):
            raise
        with transaction(call.session, call.setting.limits.seconds, writes=writes):
            if not _any_saved(call, arguments):
                raise
    return call.run(act, writes=writes)


def _any_saved(call: Call, arguments: DbCreate) -> bool:
    """Return whether another call has saved one of the drafts first."""
    refs = [ref for each in (arguments, *arguments.also) for ref in each.drafts]
    drafts = call.conversation.read_drafts(refs) if refs else []
    return any(draft.saved is not None for draft in drafts)


def _answer(call: Call, arguments: Arguments, bound: BoundFilters) -> Answer:
    """Run a verb, and return its answer as JSON without keys."""
    arguments = check_expectations(call, arguments, bound)
    match arguments:
        case DbRead():
            answer = Reader(call).read(arguments, bound)
        case DbCreate():
            answer = Creator(call).create(arguments)
        case DbUpdate():
            answer = Writer(call).update(arguments, bound)
        case DbDelete():
            answer = Writer(call).delete(arguments, bound)
        case DbEditList():
            answer = ListEditor(call, arguments).edit()
    plain: Answer = replace_keys(answer, call.conversation, call.setting.tables.shown)
    return plain
