"""Supervision of executed writes: plan them, hold them for a person, or keep them in the history.

A supervisor runs inside the transaction of a call, after the verb and before the commit:

| supervisor | effect |
| --- | --- |
| `Planner` | makes a plan of the effect, and rolls the call back |
| `Keeper` | stores the call and its changes in the transaction |
| `Approver` | compares the effect with the approved plan, and stores the answer |
| `Undoer` | undoes the changes of other calls, and stores the undo as a call |

`Consent` decides which calls need a person:

>>> consent = Consent({Recipe: ["delete"]}, toolset.tables)
>>> plan = desk.plan("chat-7", None, "db_create", {"table": "recipes", "data": {"name": "Curry"}})
>>> consent.is_needed(plan)
False

If the registry's tables are in the database of the session, a call and its journal are one
transaction. Otherwise the entry is stored as `doing` before the commit, and as `done` after it. If
the commit fails, the entry is removed, or waits again; if its result is unknown, the entry remains
`doing`, and the call is never repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from time import monotonic
from typing import Any, Final, Literal, cast

from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from alfred_refs import sqla
from alfred_refs.conversation import Conversation, SessionConversation
from alfred_refs.errors import SetupError
from alfred_refs.store import CallEntry, CallValues, ChangeEntry, NewCall
from alfred_refs.tools.arguments import DbDelete
from alfred_refs.tools.call import Answer, Call, HeldBackError, Request
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.effects import RecordedChange, Recorder
from alfred_refs.tools.errors import plan_changed, unknown_call
from alfred_refs.tools.history import EDITED, Journal, answer_of, change_entries, table_named
from alfred_refs.tools.hooks import Writing
from alfred_refs.tools.plans import Named, Namer, Plan, entity_of, make_plan
from alfred_refs.tools.tables import ToolTable, Verb
from alfred_refs.tools.undo import ChangedRow, Undo, fold

ConsentRules = Mapping[type[Any], Iterable[Verb] | Literal["all"]] | Callable[[Plan], bool]
"""The verbs that need a person, by class; or a function of the plan."""

_ACTIONS: Final[Mapping[str, str]] = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
}


_DIGEST_DIGITS: Final = 16


# SQLSTATEs after which a COMMIT may have succeeded: of the connection, of the server's resources,
# of a shutdown, of the system, internal ones, and "statement completion unknown"
_UNCERTAIN: Final = ("08", "53", "57P", "58", "XX", "40003")


@dataclass(frozen=True, slots=True)
class Consent:
    """The calls that need a person.

    Attributes:
        rules: verbs by class, or a function of the plan.
        tables: the tables that a model may use.

    Raises:
        SetupError: a class is not among the models, or a verb does not exist.
    """

    rules: ConsentRules
    tables: ToolTables

    def __post_init__(self) -> None:
        if callable(self.rules):
            return
        if not isinstance(self.rules, Mapping):
            raise SetupError(
                f"consent is {self.rules!r}",
                "give verbs by class, consent={Order: ['delete']}, or a function of the plan",
            )
        for model, verbs in self.rules.items():
            is_class: bool = isinstance(model, type)
            if not is_class or self.tables.of_model(model) is None:
                raise SetupError(
                    f"consent lists {model!r}, which is not among the models", "add it to models"
                )
            is_list = isinstance(verbs, Collection) and not isinstance(verbs, str)
            if verbs != "all" and not (is_list and {*verbs} <= _ACTIONS.keys()):
                raise SetupError(
                    f"consent gives {verbs!r} to {model.__qualname__!r}",
                    "give a list of some of 'create', 'update', 'delete', or 'all'",
                )

    def is_needed(self, plan: Plan) -> bool:
        """Return whether a person must approve a call with this plan.

        A call that only reads, such as a preview, needs none. With rules by class, a plan that may
        lack rows needs approval too.
        """
        if not plan.token:
            return False
        if callable(self.rules):
            return self.rules(plan)
        if plan.unseen:
            return True
        for model, verbs in self.rules.items():
            mapper = inspect(model).mapper
            kinds = (t for t in self.tables if sqla.is_kind_of(inspect(t.model).mapper, mapper))
            entities = {*map(entity_of, kinds)}
            entities.add(entity_of(cast("ToolTable", self.tables.of_model(model))))
            actions = {*_ACTIONS.values()} if verbs == "all" else {_ACTIONS[v] for v in verbs}
            for row in plan.rows:
                updated = entities.intersection(row.updates) if "updated" in actions else ()
                if updated or (row.entity in entities and row.action in actions):
                    return True
        return False


def known_call(chat: SessionConversation, request: Request) -> tuple[CallEntry | None, Request]:
    """Return the stored call with the framework's id of a call, and the call.

    The same id with other arguments is another call, and gets another id: some models restart the
    numbers of calls in each turn, and a person may edit arguments.
    """
    if request.call_id is None:
        return None, request
    given = (request.tool, request.json_arguments())
    entry = chat.calls.find(request.call_id)
    if entry is None or (entry.tool, entry.arguments) == given:
        return entry, request
    digest = sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
    request = replace(request, call_id=f"{request.call_id}{EDITED}{digest[:_DIGEST_DIGITS]}")
    return chat.calls.find(str(request.call_id)), request


class _Supervisor:
    """The base class of supervisors.

    Args:
        request: the call.
        journal: the retention of its changes; `None` keeps no changes.
    """

    def __init__(self, request: Request, journal: Journal | None = None) -> None:
        self.request = request
        self.plan: Plan | None = None
        self._journal = journal
        # with the registry in another database: the call's number, and its values once committed
        self._doing: tuple[int, CallValues] | None = None

    @contextmanager
    def settling(self, conversation: SessionConversation) -> Iterator[None]:
        """Record after the `with` whether the call was committed, if the commit did not do so.

        If that is not certain, as after a lost connection, the call remains `"doing"`.
        """
        try:
            yield
        except (DBAPIError, HeldBackError) as error:
            if self._doing is not None and _was_rolled_back(error):
                conversation.calls.revert(self._doing[0])
                self._doing = None
            raise
        if self._doing is not None:
            number, values = self._doing
            conversation.calls.update(number, "doing", **values)

    def _make_plan(
        self, call: Call, recorder: Recorder, answer: Answer
    ) -> tuple[Plan, list[Named]]:
        """Return the plan of a call that was executed, and its changes with their names."""
        changes, namer = self._effect(call, recorder)
        named = namer.name(changes)
        table = table_named(call.setting.tables, self.request.json_arguments())
        notes = [str(each) for each in answer.get("notes", ())]
        plan = make_plan(
            self.request.tool, table, named, namer, notes=notes, unseen=recorder.unseen
        )
        return plan, named

    @staticmethod
    def _effect(call: Call, recorder: Recorder) -> tuple[list[RecordedChange], Namer]:
        """Return the changes of a call, and a namer for them."""
        call.session.flush()  # the last changes of hooks
        namer = Namer(call.setting.tables, call.conversation, call.session)
        if recorder.connections:  # without a connection nothing has changed
            first, *_ = recorder.connections
            namer = replace(namer, dialect=first.engine.dialect)
        return recorder.changes(), namer

    def _entries(self, named: Sequence[Named]) -> list[ChangeEntry]:
        """Return the changes that the journal keeps."""
        return [] if self._journal is None else change_entries(named, self._journal.without)


class Planner(_Supervisor):
    """Makes a plan of a call, and rolls the call back."""

    def finish(self, call: Call, recorder: Recorder, answer: Answer) -> Answer:
        """See `Supervisor.finish`; deferred constraints are checked now."""
        call.session.flush()
        for connection in recorder.connections:
            if connection.dialect.name == "postgresql":
                with sqla.unconfined_lookup(call.session):
                    connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        self.plan, _ = self._make_plan(call, recorder, answer)
        raise HeldBackError(answer)


class Keeper(_Supervisor):
    """Stores a call and its changes in the transaction of the call.

    Args:
        request: the call.
        journal: the retention of its changes; `None` only compares the plan.
        token: the token of the approved plan; `None` or empty without one.

    Attributes:
        plans: whether to make a plan in any case.
    """

    plans = False

    def __init__(self, request: Request, journal: Journal | None, token: str | None) -> None:
        super().__init__(request, journal)
        self._token = token

    def finish(self, call: Call, recorder: Recorder, answer: Answer) -> Answer:
        """See `Supervisor.finish`."""
        if not self._token and not self.plans:
            changes, namer = self._effect(call, recorder)
            named = namer.name(changes, referred=False)
        else:
            self.plan, named = self._make_plan(call, recorder, answer)
            if self._token and self.plan.token != self._token:
                raise HeldBackError(plan_changed(self.plan.summary).to_json())
        if self._journal is not None and (named or recorder.unseen):
            with sqla.unconfined_lookup(call.session):  # reads the registry, not rows of the owner
                new = self._new(recorder.unseen, answer)
                number = store_call(call, recorder, new, self._entries(named))
            self._doing = None if number is None else (number, {"state": "done"})
        return answer

    def _new(self, unseen: Collection[str], answer: Answer) -> NewCall:
        request = self.request
        return NewCall(
            tool=request.tool,
            arguments=request.json_arguments(),
            state="done",
            actor=request.actor,
            user=request.user,
            call_id=request.call_id,
            plan={"unseen": [*unseen]} if unseen else None,
            answer=None if request.call_id is None else answer,
            undoes=request.undoes,
            seconds=monotonic() - request.began,
        )


class Approver(_Supervisor):
    """Executes an approved call if its effect equals the plan.

    Args:
        entry: the call that waits.
        by: the person who has approved it.
        journal: the retention of its changes.
    """

    def __init__(self, entry: CallEntry, by: str, journal: Journal | None) -> None:
        request = Request(entry.tool, entry.arguments, entry.actor, entry.user, entry.call_id)
        super().__init__(request, journal)
        self._entry = entry
        self._by = by

    def finish(self, call: Call, recorder: Recorder, answer: Answer) -> Answer:
        """See `Supervisor.finish`; simultaneous approvals wait for each other here."""
        self.plan, named = self._make_plan(call, recorder, answer)
        with sqla.unconfined_lookup(call.session):  # reads the registry, not rows of the owner
            return self._decide(call, recorder, self.plan, named, answer)

    def _decide(
        self,
        call: Call,
        recorder: Recorder,
        plan: Plan,
        named: Sequence[Named],
        answer: Answer,
    ) -> Answer:
        calls, number = call.conversation.calls, self._entry.number
        connection, doing = calls.shared_connection(recorder.connections), None
        waiting = calls.lock(number, connection)
        if waiting is None or waiting.state != "waiting":
            raise HeldBackError(answer_of(waiting, call.setting.tables, number))
        if plan.token != waiting.token:
            raise HeldBackError(plan_changed(plan.summary, number).to_json())
        changes = self._entries(named)
        values: CallValues = {
            "state": "done",
            "answer": answer,
            "decided_by": self._by,
            "seconds": monotonic() - self.request.began,
        }
        if connection is None:
            doing, values = (number, values), {"state": "doing", "decided_by": self._by}
        if calls.update(number, "waiting", changes, connection, **values) is None:
            raise HeldBackError(answer_of(calls.get(number), call.setting.tables, number))
        self._doing = doing
        return answer


def _was_rolled_back(error: DBAPIError | HeldBackError) -> bool:
    """Return whether it is certain that an exception has rolled back a transaction."""
    state = sqla.driver_error_fields(error)["sqlstate"]
    is_certain = state is not None and not state.startswith(_UNCERTAIN)
    return isinstance(error, HeldBackError) or is_certain


def store_call(
    call: Call, recorder: Recorder, new: NewCall, changes: Sequence[ChangeEntry]
) -> int | None:
    """Store a call in its own transaction; return its number, if in another database."""
    calls = call.conversation.calls
    connection = calls.shared_connection(recorder.connections)
    if connection is not None:
        calls.add(new, changes, connection)
        return None
    return calls.add(replace(new, state="doing"), changes).number


def call_status_tool(tables: ToolTables) -> Callable[[Conversation, int], Answer]:
    """Return the function of the tool `db_call_status`.

    Args:
        tables: the tables that a model may use.
    """

    def db_call_status(conversation: Conversation, call: int) -> Answer:
        """Return what became of a call that waits for a person, by the number in its answer: that
        it still waits, its answer if it was approved, or why it was rejected. Changes nothing.
        """  # noqa: D205  # the description of a tool is one paragraph
        entry = conversation.calls.get(call)
        if entry is None or entry.token is None:  # it never waited
            raise unknown_call(call)
        raise HeldBackError(answer_of(entry, tables))  # a stored answer has no keys

    return db_call_status


class Undoer(Keeper):
    """Undoes the changes of calls, as a separate call.

    Args:
        request: the call.
        journal: the retention of its changes.
        token: the token of the plan that a person has seen; `None` without one.
        changes: the changes to undo, in order.
        only_plan: whether to roll the undo back.
    """

    plans = True

    def __init__(
        self,
        request: Request,
        journal: Journal,
        token: str | None,
        changes: Sequence[ChangeEntry],
        *,
        only_plan: bool,
    ) -> None:
        super().__init__(request, journal, token)
        self.only_plan = only_plan
        self._changes = changes

    def finish(self, call: Call, recorder: Recorder, answer: Answer) -> Answer:
        """See `Supervisor.finish`."""
        rows = [*fold(self._changes, call.setting.tables.database_tables)]
        self._ask_hooks(call, rows)
        Undo(call.session, recorder, rows).run()
        if self.only_plan:
            self.plan, _ = self._make_plan(call, recorder, answer)
            raise HeldBackError(answer)
        return super().finish(call, recorder, answer)

    def _ask_hooks(self, call: Call, rows: Sequence[ChangedRow]) -> None:
        """Call `before_write` of the hooks of each table with rows or links to undo."""
        groups: dict[tuple[ToolTable, Verb], list[str]] = {}
        for row in rows:
            table = call.setting.tables.of_table(row.table)
            if table is not None and call.setting.hooks_of(table):
                verb: Verb = "update"
                if row.before is None:
                    verb = "delete"
                elif row.after is None:
                    verb = "create"
                groups.setdefault((table, verb), []).append(row.ref or "")
        for table, ref in self._updated_by_links(call, rows):
            groups.setdefault((table, "update"), []).append(ref)
        for (table, verb), refs in groups.items():
            arguments = DbDelete.model_construct(table=table.name, filters=[])
            writing = Writing(call.session, table.model, verb, arguments)
            writing.refs, writing.undoes = refs, self.request.undoes
            for hooks in call.setting.hooks_of(table):
                hooks.before_write(writing)

    @staticmethod
    def _updated_by_links(
        call: Call, rows: Sequence[ChangedRow]
    ) -> Iterator[tuple[ToolTable, str]]:
        """Yield the rows with hooks and with the relationship of a link, which it updates.

        A link that comes or goes with one of its rows is no update of the other.
        """
        tables, chat = call.setting.tables, call.conversation
        ends = {
            table: [e for e in table.ends if e.is_writable and call.setting.hooks_of(e.table)]
            for table in tables
        }
        links = [
            (table, RecordedChange(row.table, (), row.before, row.after))
            for row in rows
            for table in (tables.of_table(row.table),)
            if table is not None and ends[table]
        ]
        if not links:
            return
        namer = Namer(tables, chat)
        pairs = {pair for table, change in links for pair in namer.referred(change, table)}
        refs = chat.refs_of_pairs([*pairs])
        passing = {row.ref for row in rows if row.before is None or row.after is None} - {None}
        for table, change in links:
            if passing.isdisjoint(refs.get(each) for each in namer.referred(change, table)):
                for end in ends[table]:
                    named = namer.referred(change, table, end.columns)
                    yield from ((end.table, refs.get(pair, "")) for pair in named)
