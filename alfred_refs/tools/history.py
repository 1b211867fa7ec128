"""Stored calls: what the registry keeps of the calls of tools, for people and for repeated calls.

A call is stored if it waits for a person, or changes rows of a toolset that is bound with a
`Journal`. `supervision` stores it in the transaction of the call; this module converts it:

| function | from | to |
| --- | --- | --- |
| `change_entries` | the recorded changes of a call | the form of the registry |
| `refused_call` | a call that was answered with an error | the form of the registry |
| `answer_of`, `pending_answer` | a stored call | the answer for the model |
| `approval_of` | a call that waits | an `Approval`, for people |
| `record_of`, `planned_rows` | a stored call and its changes | a `CallRecord`, for people |

>>> kept = toolset.bind(sessions, registry=registry, journal=Journal(refusals=True))
>>> answer = kept.call("chat-7", None, "db_read", {"table": "users"})
>>> [(record.tool, record.state) for record in kept.history("chat-7")]
[('db_read', 'refused')]

What people see has refs and names, and no value of a column that is hidden from the model. The
registry has values as the database writes them, keys included: an undo restores them exactly.

Limits: `Journal(keep=...)` deletes nothing by itself; see `BoundToolset.prune_history`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

from alfred_refs.conversation import Conversation
from alfred_refs.store import Actor, CallEntry, CallState, ChangeEntry, NewCall
from alfred_refs.tools.arguments import TOOLS
from alfred_refs.tools.call import Answer, Request
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.effects import RecordedChange
from alfred_refs.tools.errors import in_doubt, rejected, unknown_call
from alfred_refs.tools.plans import Named, Namer, Plan, PlannedRow, entity_of, visible_plan
from alfred_refs.tools.serialization import replace_keys
from alfred_refs.tools.tables import ToolTable

EDITED: Final = "#arguments:"
"""The suffix of the framework's id for a call with other arguments."""


# codes of errors of calls that waited for a person
_KEPT_ALREADY: Final = frozenset({"rejected", "in_doubt"})


_MOST_OF_A_REFUSAL: Final = 20_000  # characters


# escapes in JSON text: backslashes, characters beyond U+FFFF, and text that cannot be stored
_ESCAPE: Final = re.compile(r"(?P<kept>\\\\|\\ud[89ab]..\\ud[c-f]..)|\\u0000|\\ud[89a-f]..")


@dataclass(frozen=True, slots=True)
class Journal:
    """Retention of the history of calls; see `BoundToolset.history`.

    Attributes:
        keep: how long to keep the values before and after each change, which an undo needs; `None`
            for ever. `BoundToolset.prune_history` deletes them: call it once a day.
        without: attributes whose values are not kept. An undo cannot restore a deleted row that
            has such an attribute.
        refusals: whether to keep refused calls too, including reads. Each is stored in a separate
            transaction.

    Example:
        >>> from datetime import timedelta
        >>> journal = Journal(keep=timedelta(days=30))
        >>> toolset.bind(sessions, registry=registry, journal=journal).journal.keep.days
        30
    """

    keep: timedelta | None = None
    without: Sequence[Any] = ()
    refusals: bool = False


def is_refused(answer: Answer) -> bool:
    """Return whether an answer is an error of a call that was not stored.

    Calls that waited for a person are stored already.
    """
    error = answer.get("error")
    return error is not None and error["code"] not in _KEPT_ALREADY


def refused_call(request: Request, answer: Answer, tool: str | None) -> NewCall:
    """Return a refused call in the form of the history, but with its keys.

    `tool` is its name; `None` for an unknown one.
    """
    return NewCall(
        tool=tool or "unknown tool",
        arguments=_storable(request.json_arguments()),
        state="refused",
        actor=request.actor,
        user=request.user,
        answer=_storable(answer),
        seconds=monotonic() - request.began,
    )


def _storable(value: Any) -> Any:
    """Return a value as JSON that PostgreSQL can store; `None` if it is too long or not JSON.

    Characters that PostgreSQL cannot store are replaced, and NaN becomes a text.
    """
    try:
        text_ = json.dumps(value, default=str)
        is_long = len(text_) > _MOST_OF_A_REFUSAL
        return None if is_long else json.loads(_ESCAPE.sub(_stored, text_), parse_constant=str)
    except (TypeError, ValueError, RecursionError):
        return None


def _stored(escape: re.Match[str]) -> str:
    return escape[0] if escape["kept"] else r"\ufffd"


def change_entries(named: Sequence[Named], without: Sequence[Any] = ()) -> list[ChangeEntry]:
    """Return changes in the form of the registry."""
    hidden = {column for each in without for column in each.property.columns}
    return [
        ChangeEntry(
            call=0,
            place=place,
            table=each.change.table.fullname,
            ref=each.ref,
            label=each.label,
            action=each.change.action,
            key=each.change.key,
            before=_kept(each.change, each.change.before, hidden),
            after=_kept(each.change, each.change.after, hidden),
        )
        for place, each in enumerate(named, 1)
    ]


def _kept(
    change: RecordedChange, image: Mapping[str, str | None] | None, without: Iterable[Any]
) -> dict[str, str | None] | None:
    """Return the values of a row to keep; of an updated row, only the changed values.

    A value that is not kept is null in `before` and missing in `after`, which shows `undo` that it
    has changed.
    """
    if image is None:
        return None
    left_out = {column.name for column in without if column.table is change.table}
    if change.action != "updated":
        return {name: value for name, value in image.items() if name not in left_out}
    if image is change.before:  # undo must know that a value changed which is not kept
        return {n: None if n in left_out else image[n] for n in change.changed}
    return {name: image[name] for name in change.changed if name not in left_out}


def pending_answer(number: int, plan: Plan, rejection: CallEntry | None = None) -> Answer:
    """Return the answer for a call that waits for a person.

    Args:
        number: its number.
        plan: its plan.
        rejection: the same call, rejected before.
    """
    before = ""
    if rejection is not None:
        because = f" ({rejection.reason})" if rejection.reason else ""
        before = f"the same call was rejected before{because}, and is asked for again; "
    return {
        "pending": {
            "call": number,
            "would": plan.asked,
            "message": f"{before}a person must approve this call; nothing is changed before that. "
            "Do not repeat it: go on with something else, or tell the user what you wait for; "
            f"db_call_status with call {number} returns later what became of it",
        }
    }


def table_named(tables: ToolTables, arguments: Any) -> ToolTable | None:
    """Return the table in the arguments of a call, or `None`."""
    name = arguments.get("table") if isinstance(arguments, Mapping) else None
    return next((table for table in tables if table.name == name), None)


def answer_of(entry: CallEntry | None, tables: ToolTables, number: int | None = None) -> Answer:
    """Return the answer of an earlier call, as a model may see it now.

    Args:
        entry: the call; `None` if it is not there, or its conversation was forgotten.
        tables: the tables that a model may use.
        number: of a call that may not be there.
    """
    if entry is None:
        return unknown_call(number).to_json()
    match entry.state:
        case "done" | "refused":
            return _visible_answer(entry, tables) or {entry.state: {"call": entry.number}}
        case "waiting":
            return pending_answer(entry.number, Plan.model_validate(entry.plan))
        case "doing":
            return in_doubt(entry.number).to_json()
        case "rejected":
            return rejected(entry.number, entry.reason).to_json()
        case "expired":
            return rejected(entry.number, "nobody has decided it in time").to_json()


def _visible_answer(entry: CallEntry, tables: ToolTables) -> Answer | None:
    """Return a stored answer without columns that are now hidden from the model.

    `None` if no answer is kept, it shows rows of a table that is not listed any more, or it is an
    error with the value of a hidden column.
    """
    answer: Answer | None = tables.without_hidden(entry.answer)
    if answer is None or entry.tool not in TOOLS:  # the application's own may have any "table"
        return answer
    error, table = answer.get("error", {}), table_named(tables, entry.arguments)
    if table is not None and "actual" in error and error.get("column") in table.hidden:
        return None
    shown = {part.get("table") for part in (answer, *answer.get("also", ()))} - {None}
    return answer if shown <= {*tables.names} else None


def planned_rows(
    changes: Sequence[ChangeEntry], tables: ToolTables, conversation: Conversation
) -> dict[int, list[PlannedRow]]:
    """Return stored changes as rows for people, by the number of the call.

    Rows of unlisted tables are left out.
    """
    known = tables.database_tables
    found = [(each, known.get(each.table)) for each in changes]
    namer = Namer(tables, conversation)
    recorded = [
        RecordedChange(table, (), each.before, each.after)
        for each, table in found
        if table is not None
    ]
    namer.name(recorded)
    rows: dict[int, dict[Any, PlannedRow]] = {}
    for each, table in found:
        shown = None if table is None else tables.of_table(table)
        if table is None or shown is None:
            continue
        change = RecordedChange(table, (), each.before, each.after)
        fields, hidden = namer.fields(Named(change, shown, None, each.ref, each.label))
        row = PlannedRow(
            ref=each.ref,
            entity=entity_of(shown),
            label=each.label,
            action=each.action,
            fields=fields,
            hidden=hidden,
            is_named=False,  # the history does not store which rows the call named
        )
        of_call = rows.setdefault(each.call, {})
        identity = each.ref or (each.table, *each.key.items())
        of_call[identity] = row.merged_with(of_call.get(identity))
    plain = replace_keys(
        {number: [row.model_dump() for row in of.values()] for number, of in rows.items()},
        conversation,
        tables.shown,
    )
    return {
        int(number): [PlannedRow.model_validate(row) for row in of] for number, of in plain.items()
    }


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person.

    Attributes:
        conversation: the id of the conversation.
        owner: the owner of the conversation, as text; `None` without one.
        call: its number in the conversation.
        tool: the name of the tool.
        arguments: the model's arguments.
        plan: its plan, as of the model's call or the last review.
        user: the id of the acting user, as text; `None` if unknown.
        call_id: the framework's id of the call, if any.
        is_edited: whether another call with this id had other arguments before.
        asked_at: the time of the model's call.
        expires_at: the time at which it expires; `None` for never.

    Example:
        >>> rules = {Recipe: ["delete"]}
        >>> careful = Toolset([Recipe, Line], consent=rules, hidden=[Recipe.user_id])
        >>> asking = careful.bind(sessions, registry=registry)
        >>> only = [{"field": "id", "op": "=", "value": "recipe_1"}]
        >>> delete = {"table": "recipes", "filters": only, "expect": "Soup"}
        >>> asking.call("chat-7", None, "db_delete", delete).pending
        1
        >>> [waiting] = asking.approvals("chat-7")
        >>> waiting.plan.summary
        'Delete 1 recipe. With it: 2 lines deleted.'
    """

    conversation: str
    owner: str | None
    call: int
    tool: str
    arguments: Any = field(repr=False)
    plan: Plan = field(repr=False)
    user: str | None
    call_id: str | None
    is_edited: bool
    asked_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call in the history of a conversation.

    Attributes:
        call: its number in the conversation.
        turn: its turn.
        tool: the name of the tool; `undo` for an undo by a person.
        arguments: its arguments; `None` once they are not kept any more.
        state: its state, such as `done` or `rejected`.
        by: `"model"` or `"user"`.
        user: the id of the acting user, as text; `None` if unknown.
        decided_by: the person who approved or rejected it.
        reason: the reason of a rejection.
        undoes: the number of the call that it has undone.
        at: the time of the call.
        seconds: its duration; `None` if it was not executed.
        changes: its changes to rows that the model may use.
        is_complete: whether `changes` includes the last of them; see `BoundToolset.history`.
        plan: the plan that a person was shown; `None` without approval.
        answer: the answer to the model, as JSON values; `None` if it is not kept. It is kept for
            calls that waited for a person, or have a `call_id`.

    Example:
        >>> kept = toolset.bind(sessions, registry=registry, journal=True)
        >>> only = [{"field": "id", "op": "=", "value": "recipe_1"}]
        >>> data = {"table": "recipes", "filters": only, "data": {"servings": 4}, "expect": "Soup"}
        >>> kept.call("chat-7", None, "db_update", data).failed
        False
        >>> [record] = kept.history("chat-7")
        >>> record.call, record.tool, [row.line for row in record.changes]
        (1, 'db_update', ['- recipe "Soup" (recipe_1): updated: servings: 2 -> 4'])
    """

    call: int
    turn: int
    tool: str
    arguments: Any = field(repr=False)
    state: CallState
    by: Actor
    user: str | None
    decided_by: str | None
    reason: str | None
    undoes: int | None
    at: datetime
    seconds: float | None
    changes: Sequence[PlannedRow] = ()
    is_complete: bool = True
    plan: Plan | None = field(default=None, repr=False)
    answer: Any = field(default=None, repr=False)


def approval_of(
    conversation: str, owner: str | None, entry: CallEntry, tables: ToolTables
) -> Approval:
    """Return a stored call that waits, for people."""
    call_id, edited, _ = (entry.call_id or "").partition(EDITED)
    return Approval(
        conversation=conversation,
        owner=owner,
        call=entry.number,
        tool=entry.tool,
        arguments=entry.arguments,
        plan=visible_plan(entry.plan, tables),
        user=entry.user,
        call_id=call_id or None,
        is_edited=bool(edited),
        asked_at=entry.asked_at,
        expires_at=entry.expires_at,
    )


def record_of(
    entry: CallEntry, rows: Sequence[PlannedRow], tables: ToolTables, *, is_complete: bool = True
) -> CallRecord:
    """Return a stored call with its changes, for people."""
    has_plan = entry.plan is not None and "tool" in entry.plan
    return CallRecord(
        call=entry.number,
        turn=entry.turn,
        tool=entry.tool,
        arguments=entry.arguments,
        state=entry.state,
        by=entry.actor,
        user=entry.user,
        decided_by=entry.decided_by,
        reason=entry.reason,
        undoes=entry.undoes,
        at=entry.asked_at,
        seconds=entry.seconds,
        changes=rows,
        is_complete=is_complete,
        plan=visible_plan(entry.plan, tables) if has_plan else None,
        answer=_visible_answer(entry, tables),
    )
