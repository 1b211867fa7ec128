"""`BoundToolset`: tools above sessions, for agent frameworks, servers and people.

It is given the conversation, the owner and the model's call, and opens one session for each call:

>>> desk = toolset.bind(sessions, registry=registry)
>>> desk.call("chat-7", None, "db_read", {"table": "lines", "columns": ["count(*)"]}).text
'{"table":"lines","totals":[{"count(*)":2}],"more":false}'

Calls may run at the same time, in threads or tasks. Writes in one conversation run one after
another, in the order in which they were made, because a model relies on that order.

A person sees what a call would do (`plan`), decides calls that wait (`approvals`, `approve`,
`reject`), reads what was done (`history`, `changes`), and takes it back (`undo`). No tool leads a
model there. `desk.aio` has the same methods as coroutines.

Limits: the order of writes is kept within one process. There is no rate limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from alfred_refs.conversation import Conversation, RefRegistry
from alfred_refs.conversation.export import LONGEST_TEXT
from alfred_refs.errors import RegistryBusyError, SetupError
from alfred_refs.mapping import head, is_storable, parse_ref
from alfred_refs.session import RefSession
from alfred_refs.sqla import (
    AsyncFacade,
    async_method,
    driver_error_fields,
    in_greenlet,
    max_connections,
)
from alfred_refs.store import Actor, CallEntry
from alfred_refs.tools.arguments import TOOLS
from alfred_refs.tools.call import Answer, Request
from alfred_refs.tools.definitions import Form
from alfred_refs.tools.errors import (
    ToolError,
    already_done,
    plan_changed,
    undo_conflict,
    unknown_call,
)
from alfred_refs.tools.history import (
    Approval,
    CallRecord,
    Journal,
    answer_of,
    approval_of,
    is_refused,
    planned_rows,
    record_of,
    refused_call,
)
from alfred_refs.tools.ordering import Attempt, Counter, Locks
from alfred_refs.tools.plans import Plan, PlannedRow
from alfred_refs.tools.supervision import Approver, Undoer

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import async_sessionmaker

    from alfred_refs.context import Context
    from alfred_refs.session.asyncio import AsyncRefSession
    from alfred_refs.tools.toolset import Toolset

    Sessions = sessionmaker[RefSession] | async_sessionmaker[AsyncRefSession]

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# serialization failure and deadlock: the call may be repeated
_ROLLED_BACK = ("40001", "40P01")

# seconds for which calls run one at a time; after that they run in parallel again
_SERIAL_SECONDS = 60.0

# error codes that do not depend on the call, so it may succeed later
_MAY_SUCCEED_LATER = ("too_slow",)

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

    @property
    def pending(self) -> int | None:
        """The number of the call, if it waits for a person: see `BoundToolset.approve`."""
        pending = self.value.get("pending")
        return pending.get("call") if isinstance(pending, dict) else None


class BoundToolset:
    """A toolset that opens a session for each call; made by `Toolset.bind`.

    Attributes:
        toolset: the toolset.
        tool: adds a function of the application to the tools; see `Toolset.tool`.
        sessions: makes the sessions.
        registry: opens the conversations.
        is_async: whether the sessions are asynchronous.
        journal: what is kept of calls; `None` if only those are that wait for a person.
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
        journal: Journal | bool | None = None,
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
        bind = getattr(sessions, "kw", {}).get("bind")
        self.connections = max_connections(bind)
        self.sessions: Any = sessions
        self.journal = Journal() if journal is True else journal or None
        self._by = by
        self._conversations = _ConversationCache(registry, bind)
        self._threads = Locks(threading.Lock)
        self._tasks = Locks(asyncio.Lock)
        self._serial_until = 0.0
        self._parallel = Counter()

    @property
    def aio(self) -> AsyncBoundToolset:
        """The methods for approval, history and undo as coroutines: `await desk.aio.undo(...)`."""
        return AsyncBoundToolset(self, is_async=self.is_async)

    def call(
        self,
        conversation: str,
        owner: Any = None,
        tool: str = "",
        arguments: Any = None,
        *,
        begin_turn: bool = False,
        user: Any = None,
        call_id: str | None = None,
        plan: str | None = None,
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
            user: who acts, beside the tenant that owns the rows: hooks read it as `write.user`,
                triggers and policies as `nullif(current_setting('alfred.user', true), '')`; it is
                in the history as text.
            call_id: the framework's id of the call. A write that waits for a person, or is in the
                history, is found by it: a call that is repeated returns the same answer and does
                nothing.
            plan: the `token` of a plan of this call: exactly that is done, or nothing, and the
                answer has the code `plan_changed`. A call that needs a person still waits.

        Raises:
            SetupError: the sessions are asynchronous, an owner is missing or not expected, or
                `user` or `call_id` has no text that can be stored.
        """
        if self.is_async:
            raise SetupError(
                "call() was used on a toolset that is bound to asynchronous sessions",
                "await call_async()",
            )
        given = self._session_arguments(conversation, owner, user)
        request = self._request(tool, arguments, user, call_id, plan)

        with self._write_lock(self._threads, tool, conversation, owner):
            if begin_turn:
                given["conversation"].begin_turn()
            for attempt in self._attempts(self._threads):
                try:
                    with attempt, self.sessions(**given) as session:
                        answer = self.toolset.run(session, request, self.journal)
                    if self._keeps_refusals and is_refused(answer):
                        self._keep_refused(given["conversation"], request, answer)
                    return ToolAnswer(answer)
                except (DBAPIError, RegistryBusyError) as error:
                    if not self._is_repeatable(error, tool, attempt):
                        raise
        raise AssertionError("attempts do not end")

    async def call_async(
        self,
        conversation: str,
        owner: Any = None,
        tool: str = "",
        arguments: Any = None,
        *,
        begin_turn: bool = False,
        user: Any = None,
        call_id: str | None = None,
        plan: str | None = None,
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
            user: as for `call`.
            call_id: as for `call`.
            plan: as for `call`.

        Raises:
            SetupError: an owner is missing or not expected.
        """
        order = self._write_lock(
            self._tasks, tool, conversation, owner, asyncio.get_running_loop()
        )
        async with order:
            if not self.is_async:
                return await asyncio.to_thread(
                    self.call,
                    *(conversation, owner, tool, arguments),
                    begin_turn=begin_turn,
                    user=user,
                    call_id=call_id,
                    plan=plan,
                )
            given = self._session_arguments(conversation, owner, user)
            request = self._request(tool, arguments, user, call_id, plan)
            if begin_turn:
                await given["conversation"].aio.begin_turn()

            for attempt in self._attempts(self._tasks, asyncio.get_running_loop()):
                try:
                    async with attempt, self.sessions(**given) as session:
                        answer: Answer = await session.run_sync(
                            lambda _, sync=session.sync_session: self.toolset.run(
                                sync, request, self.journal
                            )
                        )
                    if self._keeps_refusals and is_refused(answer):
                        chat = given["conversation"]
                        await self.aio.run(self._keep_refused, chat, request, answer)
                    return ToolAnswer(answer)
                except (DBAPIError, RegistryBusyError) as error:
                    if not self._is_repeatable(error, tool, attempt):
                        raise
        raise AssertionError("attempts do not end")

    # For people

    def plan(
        self,
        conversation: str,
        owner: Any = None,
        tool: str = "",
        arguments: Any = None,
        *,
        user: Any = None,
    ) -> Plan:
        """Return the plan of a call, by executing it and rolling it back.

        No ref is minted, and nothing is recorded. Hooks run, with `write.planned` true, so that
        they send nothing; a number of a sequence may be spent, and the rows are locked meanwhile.

        Args:
            conversation: as for `call`.
            owner: as for `call`.
            tool: as for `call`.
            arguments: as for `call`.
            user: as for `call`.

        Returns:
            the plan; one with a `refusal` if the call would be refused.

        Raises:
            SetupError: as for `call`.
        """
        given = self._session_arguments(conversation, owner, user)
        given["by"] = None
        with self._session(given) as session:
            return self.toolset.plan(session, self._request(tool, arguments, user, None))

    def ask(
        self,
        conversation: str,
        owner: Any = None,
        tool: str = "",
        arguments: Any = None,
        *,
        user: Any = None,
        call_id: str | None = None,
    ) -> ToolAnswer | None:
        """Store a call if it needs a person, and do nothing otherwise.

        For programs that ask before they call: `call` with the same `call_id` returns what became
        of it.

        Args:
            conversation: as for `call`.
            owner: as for `call`.
            tool: as for `call`.
            arguments: as for `call`.
            user: as for `call`.
            call_id: as for `call`.

        Returns:
            the pending answer, or what became of a call with this id; `None` if nobody needs to
            approve the call, or it would be refused.

        Raises:
            SetupError: as for `call`.
        """
        given = self._session_arguments(conversation, owner, user)
        with self._session(given) as session:
            answer = self.toolset.ask(session, self._request(tool, arguments, user, call_id))
        return None if answer is None else ToolAnswer(answer)

    def approvals(
        self,
        conversation: str | None = None,
        owner: Any = None,
        *,
        limit: int | None = None,
        after: tuple[datetime, str, int] | None = None,
    ) -> list[Approval]:
        """Return the calls that wait for a person, the oldest first.

        Args:
            conversation: the id of one conversation; `None` for all of the owner's or, without an
                owner, for those of all owners (for operators only).
            owner: as for `call`.
            limit: the largest number to return; `None` for all.
            after: `asked_at`, conversation and number of the last one of a page of all
                conversations, to read the next page.
        """
        if conversation is not None:
            chat = self.conversation(conversation, owner)
            entries = chat.calls.select(states=["waiting"])
            found = [(chat.id, chat.owner, each) for each in entries[:limit]]
            return [approval_of(*each, self.toolset.tables) for each in found]
        ownership = self.toolset.ownership
        of: Any = ...  # of all owners
        if ownership is None:
            of = None  # it opens no others
        elif owner is not None:
            of = str(ownership.of(owner).value)
        waiting = self.registry.waiting_calls(owner=of, limit=limit, after=after)
        return [approval_of(*each, self.toolset.tables) for each in waiting]

    def approve(
        self,
        conversation: str,
        owner: Any = None,
        call: int = 0,
        *,
        by: str,
        plan: str | None = None,
    ) -> ToolAnswer:
        """Execute a waiting call, if it still makes the changes of its plan.

        A call is decided once. A second approval, in any process, returns the first answer. If the
        rows have changed so that the call would do something else, nothing is done, the answer has
        the code `plan_changed` and says what differs, and the call waits with its new plan. If the
        call is refused, for example because its row was deleted, it no longer waits.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            call: its number.
            by: who approves it, as text.
            plan: the `token` of the plan that the person has seen. Without it, the plan is the one
                that is stored, which may be newer.

        Returns:
            the answer for the model.

        Raises:
            SetupError: as for `call`, or `by` has no text that can be stored.
        """
        by = _name_of("by", by)
        return _repeated(lambda: self._approve(conversation, owner, call, by, plan))

    def _approve(
        self, conversation: str, owner: Any, call: int, by: str, plan: str | None
    ) -> ToolAnswer:
        chat = self.conversation(conversation, owner)
        entry = chat.calls.get(call)
        if entry is None:
            return ToolAnswer(unknown_call(call).to_json())
        if entry.state != "waiting":
            return ToolAnswer(answer_of(entry, self.toolset.tables, call))
        stored = Plan.model_validate(entry.plan)
        if plan is not None and plan != entry.token:
            return ToolAnswer(plan_changed(stored.summary, call).to_json())
        given = self._session_arguments(conversation, owner, entry.user)
        approver = Approver(entry, by, self.journal)
        with self._session(given) as session:
            answer = self.toolset.approve(session, approver)
            seen = approver.plan
            code = answer.get("error", {}).get("code")
            if code == "plan_changed" and seen is not None:
                differences = seen.differences_from(stored)
                answer = plan_changed(seen.summary, call, differences).to_json()
                stored_plan = seen.model_dump(mode="json")
                chat.calls.update(call, "waiting", plan=stored_plan, token=seen.token)
            elif code is not None:
                answer = self._close(chat, call, answer, by)
        return ToolAnswer(answer)

    def _close(self, chat: Conversation, call: int, answer: Answer, by: str) -> Answer:
        """Return the answer of a call that was refused when it was approved.

        The call is closed, except after a timeout or if another person decided it first.
        """
        entry = chat.calls.get(call)
        if entry is None or entry.state != "waiting":
            return answer_of(entry, self.toolset.tables, call)
        if answer["error"]["code"] not in _MAY_SUCCEED_LATER:
            chat.calls.update(call, "waiting", state="refused", decided_by=by, answer=answer)
        return answer

    def reject(
        self,
        conversation: str,
        owner: Any = None,
        call: int = 0,
        *,
        by: str,
        reason: str | None = None,
    ) -> ToolAnswer:
        """Refuse a call that waits for a person, and return the answer for the model.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            call: its number.
            by: who rejects it, as text.
            reason: why, for the model; keys in it are replaced, and a long one is cut.

        Raises:
            SetupError: as for `call`, or `by` has no text that can be stored.
        """
        by = _name_of("by", by)
        chat = self.conversation(conversation, owner)
        if reason is not None:  # a person may type anything, and the decision must be stored
            reason = head(str(chat.scrub(reason.replace("\0", ""))), LONGEST_TEXT)
        if chat.calls.get(call) is None:
            return ToolAnswer(unknown_call(call).to_json())
        entry = chat.calls.update(call, "waiting", state="rejected", decided_by=by, reason=reason)
        entry = entry or chat.calls.get(call)
        if entry is not None and entry.state == "done":
            return ToolAnswer(already_done(call, entry.decided_by).to_json())
        return ToolAnswer(answer_of(entry, self.toolset.tables, call))

    def answer(self, conversation: str, owner: Any = None, call: int = 0) -> ToolAnswer:
        """Return the current answer of a call that waits, or has waited.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            call: its number.
        """
        entry = self.conversation(conversation, owner).calls.get(call)
        return ToolAnswer(answer_of(entry, self.toolset.tables, call))

    def history(
        self,
        conversation: str,
        owner: Any = None,
        *,
        turn: int | None = None,
        ref: str | None = None,
        call: int | None = None,
        before: int | None = None,
        limit: int = 100,
        rows: range | None = None,
    ) -> list[CallRecord]:
        """Return the last calls of a conversation that are kept, the oldest first.

        Those are the writes of a toolset that is bound with a `journal`, and the calls that wait
        or have waited for a person.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            turn: only those of one turn.
            ref: only those that have changed this row.
            call: only the one of this number.
            before: only those of lower numbers, to read on.
            limit: the largest number to return.
            rows: a range of the rows that each call has changed, counted from 0; `None` for all.
                `is_complete` is false if later rows are left out.

        Raises:
            UnknownRefError: `ref` does not have the form of a ref.
        """
        chat = self.conversation(conversation, owner)
        if ref is not None and parse_ref(ref) is None:
            raise chat.unknown_error(ref, None)
        entries = chat.calls.select(
            numbers=None if call is None else [call],
            turn=turn,
            ref=ref,
            before=before,
            limit=limit,
        )
        numbers = [each.number for each in entries]
        if rows is None:
            changes, last = chat.calls.changes(numbers), None
        else:  # and one more, to see whether there is one
            changes, last = chat.calls.changes(numbers, rows.start, len(rows) + 1), rows.stop
        more = {each.call for each in changes if last is not None and each.place > last}
        kept = [each for each in changes if last is None or each.place <= last]
        tables = self.toolset.tables
        shown = planned_rows(kept, tables, chat)
        return [
            record_of(
                *(each, shown.get(each.number, ()), tables), is_complete=each.number not in more
            )
            for each in entries
        ]

    def changes(
        self,
        conversation: str,
        owner: Any = None,
        *,
        turn: int | None = None,
        ref: str | None = None,
        limit: int = 100,
    ) -> list[PlannedRow]:
        """Return the changes of the last calls, in order.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            turn: only changes of this turn.
            ref: only changes of this row.
            limit: the number of calls to read, the last ones.

        Raises:
            UnknownRefError: as of `history`.
        """
        records = self.history(conversation, owner, turn=turn, ref=ref, limit=limit)
        return [
            row for record in records for row in record.changes if ref is None or row.ref == ref
        ]

    def prune_history(self) -> int:
        """Delete values that are older than `Journal(keep=...)`, and return the number of calls.

        They are those of all conversations and toolsets of the registry. For operators: nothing
        does this automatically. See `RefRegistry.prune_history`.

        Raises:
            SetupError: there is no `Journal(keep=...)`.
        """
        if self.journal is None or self.journal.keep is None:
            raise SetupError(
                "the journal keeps values for ever",
                "bind the toolset with journal=Journal(keep=timedelta(days=30))",
            )
        return self.registry.prune_history(self.journal.keep)

    def undo(
        self,
        conversation: str,
        owner: Any = None,
        *,
        by: str,
        call: int | None = None,
        turn: int | None = None,
        plan: str | None = None,
        only_plan: bool = False,
    ) -> Plan:
        """Undo the changes of a call, or of all calls of a turn; the undo is a call too.

        Rows that were deleted come back with their keys, so that their refs work again. If a later
        change would be lost, or a row cannot come back, nothing is undone. To undo an undo is to
        do it again. A draft that was saved stays saved, with a row that is deleted; `lasting` of
        the plan names it.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            by: who undoes it, as text.
            call: the number of the call.
            turn: the number of the turn, in place of a call.
            plan: the `token` of a plan: exactly that is done, or nothing.
            only_plan: whether it is only planned, and rolled back.

        Returns:
            what was done; with a `refusal` of the code `undo_conflict` if nothing was.

        Raises:
            SetupError: as for `call`, or neither or both of `call` and `turn` are given.
        """
        by = _name_of("by", by)
        if (call is None) is (turn is None):
            raise SetupError("undo() was not told what to undo", "give one of call= and turn=")
        given = self._session_arguments(conversation, owner, by)
        given["by"] = None if only_plan else "user"
        chat = given["conversation"]
        numbers = None if call is None else [call]
        found = (
            []
            if call is not None and chat.calls.get(call) is None
            else (chat.calls.select(numbers=numbers, turn=turn))
        )
        entries = [each for each in found if each.state == "done"]
        asked = {"call": call} if turn is None else {"turn": turn}
        if not entries:
            said = " ".join(f"{name} {number}" for name, number in asked.items())
            return Plan(tool="undo", refusal=_nothing_to_undo(said, found))
        request = Request("undo", asked, "user", by, undoes=entries[-1].number)
        for each in entries:
            if each.plan and each.plan.get("unseen"):
                fact = f"call {each.number} has run {each.plan['unseen'][0]}"
                refusal = undo_conflict([f"{fact}, whose changes are not known"])
                return Plan(tool="undo", refusal=refusal.to_json()["error"])
        changes = chat.calls.changes([each.number for each in entries])
        undoer = Undoer(request, self.journal or Journal(), plan, changes, only_plan=only_plan)

        def act() -> Plan:
            with self._session(given) as session:
                try:
                    return self.toolset.undo(session, undoer)
                except ToolError as error:
                    refusal = chat.scrub(error.to_json()["error"])
                    return Plan(tool="undo", refusal=refusal)

        undone = _repeated(act)
        deleted = {row.ref for row in undone.rows if row.action == "deleted" and row.ref}
        saved = chat.drafts(states=["saved"]) if deleted else ()
        lasting = [f"the saving of draft {each.ref}" for each in saved if each.saved in deleted]
        return undone.model_copy(update={"lasting": [*undone.lasting, *lasting]})

    @property
    def _keeps_refusals(self) -> bool:
        return self.journal is not None and self.journal.refusals

    def _keep_refused(self, chat: Conversation, request: Request, answer: Answer) -> None:
        """Store a call that was refused, without the keys in it."""
        call = refused_call(request, answer, self.toolset.known(request.tool))
        shown = self.toolset.tables.shown
        arguments, told = chat.scrub([call.arguments, call.answer], entities=shown)
        chat.calls.add(replace(call, arguments=arguments, answer=told))

    @contextmanager
    def _session(self, given: dict[str, Any]) -> Iterator[RefSession]:
        """Open a session for blocking code, in a greenlet if it is asynchronous."""
        if not self.is_async:
            with self.sessions(**given) as session:
                yield session
            return
        if not in_greenlet():
            raise SetupError(
                "a toolset with asynchronous sessions was called outside an awaited call",
                "await the same method of desk.aio",
            )
        session = self.sessions(**given)  # kept alive: tools that are coroutines receive it
        with session.sync_session as sync:
            yield sync

    def _request(
        self,
        tool: str,
        arguments: Any,
        user: Any,
        call_id: str | None,
        plan: str | None = None,
    ) -> Request:
        who = None if user is None else _name_of("user", user)
        # some providers send an empty id with each call
        id_ = _name_of("call_id", call_id) if call_id else None
        return Request(tool, arguments, self._by or "model", who, id_, plan=plan)

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools.

        Args:
            form: as for `Toolset.schemas`.
            describe: as for `Toolset.schemas`.
        """
        return self.toolset.schemas(form, describe=describe)

    def describe(self, tables: Iterable[str] | None = None) -> str:
        """Return a description of tables for a prompt.

        Args:
            tables: as for `Toolset.describe`.
        """
        return self.toolset.describe(tables)

    def reads(self, tool: str) -> bool:
        """Return whether a tool changes nothing.

        Args:
            tool: its name.
        """
        return self.toolset.reads(tool)

    def conversation(self, conversation: str, owner: Any = None) -> Conversation:
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

    def context(self, conversation: str, owner: Any = None, **options: Any) -> Context:
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

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            value: text or JSON values.
        """
        chat = self.conversation(conversation, owner)
        return chat.scrub(value, entities=self.toolset.tables.shown)

    async def cover_async(self, conversation: str, owner: Any, value: Any) -> Any:
        """Do the same as `cover` without blocking the event loop.

        Args:
            conversation: the id of the conversation.
            owner: as for `call`.
            value: text or JSON values.
        """
        chat = self.conversation(conversation, owner)
        return await chat.aio.scrub(value, entities=self.toolset.tables.shown)

    def _session_arguments(
        self, conversation: str, owner: Any, user: Any = None
    ) -> dict[str, Any]:
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
        given = {"conversation": chat, "owner": whose, "by": self._by}
        return given if user is None else {**given, "info": {"user": user}}

    def _write_lock(self, locks: Locks[Any], tool: str, *of: Hashable) -> Any:
        """Return a context manager that waits for earlier writes of the same conversation."""
        return nullcontext() if self.reads(tool) else locks.of(of)

    def _attempts(self, locks: Locks[Any], *of: Hashable) -> Iterator[Attempt]:
        """Yield attempts at a call: they wait for all others if calls have blocked each other."""
        for number in count(1):
            is_serial = monotonic() < self._serial_until
            yield Attempt(number, self._parallel, locks.of(of) if is_serial else None)

    def _is_repeatable(
        self, error: DBAPIError | RegistryBusyError, tool: str, attempt: Attempt
    ) -> bool:
        """Return whether a call that failed has changed nothing, and may succeed now."""
        if isinstance(error, DBAPIError):
            return _was_rolled_back(error) and attempt.number == 1
        if error.seconds is None or attempt.was_alone:
            return False
        if monotonic() >= self._serial_until:
            _log.warning("calls run one after another for a while: %s", error)
        self._serial_until = monotonic() + _SERIAL_SECONDS
        # a function of the application may have done more than its transaction
        return tool in TOOLS or self.reads(tool)


class AsyncBoundToolset(AsyncFacade[BoundToolset]):
    """The methods of a `BoundToolset` for people, as coroutines.

    Example:
        >>> import asyncio
        >>> asyncio.run(desk.aio.history("chat-7"))
        []
    """

    plan = async_method(BoundToolset.plan)
    ask = async_method(BoundToolset.ask)
    approvals = async_method(BoundToolset.approvals)
    approve = async_method(BoundToolset.approve)
    reject = async_method(BoundToolset.reject)
    answer = async_method(BoundToolset.answer)
    history = async_method(BoundToolset.history)
    changes = async_method(BoundToolset.changes)
    prune_history = async_method(BoundToolset.prune_history)
    undo = async_method(BoundToolset.undo)


def _repeated(act: Callable[[], _Result]) -> _Result:
    """Call a function, once more if another transaction has had its own rolled back."""
    try:
        return act()
    except DBAPIError as error:
        if not _was_rolled_back(error):
            raise
        return act()


def _was_rolled_back(error: DBAPIError) -> bool:
    return driver_error_fields(error)["sqlstate"] in _ROLLED_BACK


def _name_of(argument: str, given: Any) -> str:
    """Return the name of a person, or the id of a call, as text.

    Raises:
        SetupError: it has no text, or text that PostgreSQL cannot store.
    """
    text = "" if given is None else str(given)
    if not text or text == object.__repr__(given) or not is_storable(text):
        raise SetupError(
            f"{argument}= has no text, or has a character that PostgreSQL cannot store",
            "give an id, such as str(user.id)",
        )
    return text


def _nothing_to_undo(asked: str, found: Sequence[CallEntry]) -> dict[str, Any]:
    message = f"{asked} has changed nothing that is in the history; look at history()"
    if found:  # none of them was done
        message = f"{asked} is {found[-1].state}, and has changed nothing"
    return {"code": "undo_conflict", "message": message, "conflicts": []}


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


class _ConversationCache:
    """Recently used conversations, kept open so that their cached refs are not looked up again."""

    def __init__(self, registry: RefRegistry, bind: Any) -> None:
        self._registry = registry
        self._bind = bind  # of the sessions; `None` if they have none, or several
        self._entries: OrderedDict[tuple[str, str | None], tuple[float, Conversation]] = (
            OrderedDict()
        )
        self._guard = threading.Lock()

    def conversation(self, id_: str, owner: str | None) -> Conversation:
        """Open a conversation, which shares the cached refs of others with its id."""
        opened = self._registry.conversation(id_, owner=owner)
        if self._bind is not None:
            opened = opened.for_bind(self._bind)
        now = monotonic()
        with self._guard:
            self._entries[id_, owner] = now, opened
            self._entries.move_to_end((id_, owner))
            for key, (used, _) in list(self._entries.items()):
                if len(self._entries) <= _CACHE_SIZE and now - used <= _CACHE_SECONDS:
                    break
                del self._entries[key]
        return opened
