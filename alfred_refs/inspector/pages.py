"""The data of the inspector's pages, for one operator: the toolset's answers as plain data.

Only `Pages` opens conversations: `Pages.open` raises the same error for a conversation that the
operator may not see as for one that does not exist, and all other methods use its result. The data
contains no keys, except with `Pages.refs(keys=True)`.

>>> from alfred_refs.inspector import Operator
>>> from alfred_refs.inspector.pages import Pages
>>> pages = Pages(desk, Operator("ann", owner=None))
>>> [info.id for info in pages.conversations()["conversations"]]
['chat-7']
>>> [str(ref.ref) for ref in pages.refs("chat-7", "recipe")["refs"]]
['recipe_1', 'recipe_2']

Lists are read page by page from the registry, each page starts where the last one ended.

Limits: the methods block. For asynchronous toolsets they are called in a greenlet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from types import EllipsisType
from typing import Any, Final, TypeVar, get_args

from alfred_refs.context import Context, Exchange, Step
from alfred_refs.conversation import Conversation
from alfred_refs.errors import SetupError, UnknownConversationError
from alfred_refs.inspector.access import Operator
from alfred_refs.store import ConversationInfo, DraftState
from alfred_refs.tools import Approval, BoundToolset, CallRecord, PlannedRow, ToolAnswer

ContextOf = Callable[[str, Any], Context]
"""Makes the `Context` of a conversation, for its owner: `BoundToolset.context`, or another."""

_T = TypeVar("_T")

_CONVERSATIONS: Final = 50  # of one page
_CALLS: Final = 25
_APPROVALS: Final = 20
_REFS: Final = 100
_DRAFTS: Final = 25
_FEW_ROWS: Final = 10  # rows of a call in a list of calls
_ROWS: Final = 200  # rows of a call on its own page
_TURNS: Final = 10  # turns for which fields and steps are kept

_GOAL: Final = "(the goal of the step)"
_MESSAGE: Final = "(the message of the user)"

PROMPTS: Final[Mapping[str, Callable[[Context], tuple[str, str]]]] = {
    "read": lambda context: _texts(context.prompt(Step("read", _GOAL))),
    "write": lambda context: _texts(context.prompt(Step("write", _GOAL))),
    "analyze": lambda context: _texts(context.prompt(Step("analyze", _GOAL))),
    "generate": lambda context: _texts(context.prompt(Step("generate", _GOAL))),
    "understand": lambda context: _texts(context.understand([Exchange(_MESSAGE)])),
    "think": lambda context: _texts(context.think([Exchange(_MESSAGE)])),
    "reply": lambda context: ("", context.render("reply")),
}
"""The prompts that are shown, by name: the system and user part of each."""


def _texts(prompt: Any) -> tuple[str, str]:
    return prompt.system, prompt.user


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation that the operator may see.

    Attributes:
        info: facts about it.
        owner: its owner, for the methods of the toolset.
        chat: the conversation.
    """

    info: ConversationInfo
    owner: Any
    chat: Conversation


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a row in a plan or a change: its values as text, `None` for null."""

    name: str
    before: str | None
    after: str | None


class Pages:
    """The data of all pages for one operator.

    Args:
        desk: the bound toolset.
        operator: the person who uses the pages.
        context_of: makes contexts.

    Raises:
        SetupError: the operator has no owner, and the toolset has an `Ownership`, or vice versa.
    """

    def __init__(
        self, desk: BoundToolset, operator: Operator, context_of: ContextOf | None = None
    ) -> None:
        self._desk = desk
        self._operator = operator
        self._context_of = context_of or desk.context
        self._tables = desk.toolset.tables
        self._whose: str | EllipsisType | None = _owner_of(desk, operator)

    def open(self, id_: str) -> Opened:
        """Open a conversation.

        Raises:
            UnknownConversationError: it does not exist, or the operator may not see it.
        """
        info = self._desk.registry.describe(id_)
        if not self._opens(info.owner):
            raise UnknownConversationError(id_)
        return Opened(info, info.owner, self._desk.conversation(id_, info.owner))

    def _opens(self, owner: str | None) -> bool:
        """Return whether the operator and the toolset can open conversations of an owner."""
        has_owners = self._desk.toolset.ownership is not None
        return self._whose in (..., owner) and (owner is not None) is has_owners

    # Reading

    def conversations(
        self,
        search: str | None = None,
        same_owner_as: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> dict[str, Any]:
        """Return a page of conversations, the last used first.

        Args:
            search: a part of the id of the conversations.
            same_owner_as: a conversation of the same owner.
            after: the last conversation of the previous page: time of last use, and id.
        """
        whose = self._whose if same_owner_as is None else self.open(same_owner_as).info.owner
        found = self._desk.registry.conversations(
            owner=whose, search=search, after=after, limit=_CONVERSATIONS + 1
        )
        infos, more = _page(found, _CONVERSATIONS)
        return {"conversations": infos, "more": more, "owner": whose}

    def one_of_owner(self, owner: str) -> str | None:
        """Return a conversation of an owner that the operator may see, or None."""
        if self._whose not in (..., owner):
            return None
        found = self._desk.registry.conversations(owner=owner, limit=1)
        return next((info.id for info in found), None)

    def approvals(self, after: tuple[datetime, str, int] | None = None) -> dict[str, Any]:
        """Return a page of the calls that wait for a person, the oldest first.

        Args:
            after: the last call of the previous page: time of the request, conversation and
                number.
        """
        owner = None if self._operator.owner is ... else self._operator.owner
        found = self._desk.approvals(None, owner, limit=_APPROVALS + 1, after=after)
        waiting, more = _page(found, _APPROVALS)
        last = waiting[-1] if more else None
        return {
            "approvals": [self._approval(each) for each in waiting if self._opens(each.owner)],
            "after": None if last is None else (last.asked_at, last.conversation, last.call),
        }

    def conversation(
        self, id_: str, before: int | None = None, ref: str | None = None
    ) -> dict[str, Any]:
        """Return a page of a conversation's calls, by turn, the last first.

        Args:
            id_: the id of the conversation.
            before: the number of the first call on the previous page.
            ref: only calls that have changed this row.
        """
        opened = self.open(id_)
        found = self._history(
            opened, ref=ref, before=before, limit=_CALLS + 1, rows=range(_FEW_ROWS)
        )
        records, more = _page(reversed(found), _CALLS)
        turns: dict[int, dict[str, Any]] = {}

        def turn_of(number: int) -> dict[str, Any]:
            return turns.setdefault(number, {"calls": [], "steps": [], "rows": []})

        for record in records:
            turn_of(record.turn)["calls"].append(record)
        if before is None and ref is None:
            active = opened.chat.activity(_TURNS).entries
            entries = [each for each in active if each.ref.entity in self._tables.shown]
            labels = self._labels(opened, [(each.ref.entity, each.label) for each in entries])
            for entry, label in zip(entries, labels, strict=True):
                turn_of(entry.last_turn)["rows"].append(replace(entry, label=label))
            for step in opened.chat.steps(_TURNS):
                turn_of(step.turn)["steps"].append((step.number, pretty(json.loads(step.content))))
        waiting = [] if before or ref else self._desk.approvals(id_, opened.owner, limit=_CALLS)
        return {
            "opened": opened,
            "turns": sorted(turns.items(), reverse=True),
            "before": records[-1].call if more else None,
            "ref": ref,
            "waiting": [each.call for each in waiting],
        }

    def call(self, id_: str, number: int, first_row: int = 0) -> dict[str, Any]:
        """Return one call with a page of its rows.

        Raises:
            UnknownConversationError: the call does not exist.
        """
        opened = self.open(id_)
        rows = range(first_row, first_row + _ROWS)
        found = self._history(opened, call=number, rows=rows)
        if not found:
            raise UnknownConversationError(id_)
        [record] = found
        in_plan = 0 if record.plan is None else len(record.plan.rows)
        has_more = not record.is_complete or in_plan > rows.stop
        return {
            "opened": opened,
            "record": record,
            "rows": rows,
            "next_row": rows.stop if has_more else None,
        }

    def prompt(self, id_: str, name: str) -> dict[str, Any]:
        """Return the current prompt for a model; see `PROMPTS`."""
        opened = self.open(id_)
        problem, system, user = None, "", ""
        try:
            system, user = PROMPTS[name](self._context_of(id_, opened.owner))
        except SetupError as error:  # raised by the application's own context
            problem = str(error)
        return {
            "opened": opened,
            "name": name,
            "names": [*PROMPTS],
            "system": system,
            "user": user,
            "problem": problem,
        }

    def refs(
        self, id_: str, entity: str | None = None, after: str | None = None, *, keys: bool = False
    ) -> dict[str, Any]:
        """Return a page of the refs of one entity.

        Args:
            id_: the id of the conversation.
            entity: the entity; by default, the first one.
            after: the last ref of the previous page.
            keys: whether to show the keys too.
        """
        opened = self.open(id_)
        counts = {
            name: count for name, count in opened.info.refs.items() if name in self._tables.shown
        }
        entity = entity if entity in counts else next(iter(counts), None)
        found = (
            []
            if entity is None
            else opened.chat.entries(entity, keys=keys, after=after, limit=_REFS + 1)
        )
        refs, more = _page(found, _REFS)
        labels = self._labels(opened, [(each.entity, each.label) for each in refs])
        return {
            "opened": opened,
            "entity": entity,
            "counts": counts,
            "refs": [replace(ref, label=label) for ref, label in zip(refs, labels, strict=True)],
            "after": refs[-1].ref if more else None,
            "here": after,
            "keys": keys,
        }

    def drafts(self, id_: str, after: str | None = None) -> dict[str, Any]:
        """Return a page of the drafts, in any state."""
        opened = self.open(id_)
        all_drafts = opened.chat.drafts(states=get_args(DraftState), after=after)
        found, more = _page(islice(all_drafts, _DRAFTS + 1), _DRAFTS)
        shown = self._desk.toolset.drafts_of(opened.chat, found)
        return {
            "opened": opened,
            "drafts": [(draft, pretty(draft.content)) for draft in shown],
            "after": found[-1].ref if more else None,
        }

    # Deciding

    def approve(self, id_: str, number: int, plan: str) -> ToolAnswer:
        """Approve a call with the plan that the operator has seen."""
        owner = self.open(id_).owner
        return self._desk.approve(id_, owner, number, by=self._operator.by, plan=plan)

    def reject(self, id_: str, number: int, reason: str | None) -> ToolAnswer:
        """Reject a call."""
        owner = self.open(id_).owner
        return self._desk.reject(id_, owner, number, by=self._operator.by, reason=reason)

    def undo(
        self, id_: str, *, call: int | None, turn: int | None, plan: str | None
    ) -> dict[str, Any]:
        """Plan or execute an undo.

        Args:
            id_: the id of the conversation.
            call: the call to undo.
            turn: the turn to undo, instead of a call.
            plan: the token of the plan that the operator has seen; `None` only plans.
        """
        opened = self.open(id_)
        found = self._desk.undo(
            *(id_, opened.owner),
            by=self._operator.by,
            call=call,
            turn=turn,
            plan=plan,
            only_plan=plan is None,
        )
        return {
            "opened": opened,
            "call": call,
            "turn": turn,
            "plan": found,
        }

    # As the model sees it

    def _history(self, opened: Opened, **which: Any) -> list[CallRecord]:
        """Return calls: without keys in plans and changes, with cleaned arguments and answers."""
        id_ = opened.info.id
        records = self._desk.history(id_, opened.owner, **which)
        contents = [(self._tables.without_hidden(each.arguments), each.answer) for each in records]
        shown = self._desk.cover(id_, opened.owner, contents)
        return [
            replace(record, arguments=arguments, answer=answer)
            for record, (arguments, answer) in zip(records, shown, strict=True)
        ]

    def _approval(self, waiting: Approval) -> Approval:
        """Return a waiting call: without keys in its plan, with cleaned arguments."""
        id_, owner = waiting.conversation, waiting.owner
        arguments = self._desk.cover(id_, owner, self._tables.without_hidden(waiting.arguments))
        return replace(waiting, arguments=arguments)

    def _labels(
        self, opened: Opened, labels: Sequence[tuple[str, str | None]]
    ) -> Sequence[str | None]:
        """Return the labels that the model may see, by entity."""
        masked = self._desk.toolset.masked
        shown = [None if entity in masked else label for entity, label in labels]
        cleaned: list[str | None] = self._desk.cover(opened.info.id, opened.owner, shown)
        return cleaned


def _owner_of(desk: BoundToolset, operator: Operator) -> str | EllipsisType | None:
    """Return the owner by which the registry selects an operator's conversations."""
    ownership, owner = desk.toolset.ownership, operator.owner
    if ownership is None:
        if owner in (None, ...):
            return None
        raise SetupError(
            f"the operator {operator.by!r} has an owner, and the toolset has no Ownership",
            "give the toolset an Ownership, or Operator(..., owner=None)",
        )
    if owner is None:
        raise SetupError(
            f"the operator {operator.by!r} has no owner, and the toolset has an Ownership",
            "pass owner= with the key of an owner, or a literal ... for all owners; for a person "
            "who may see nothing, return None from authenticate",
        )
    return ... if owner is ... else str(ownership.of(owner).value)


def _page(found: Iterable[_T], size: int) -> tuple[list[_T], bool]:
    """Return the items of a page, and whether there is a next one."""
    items = [*found]
    return items[:size], len(items) > size


# For templates


def pretty(value: Any) -> str:
    """Return JSON values as text of several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def row_fields(row: PlannedRow) -> list[Field]:
    """Return the fields of a row, with the texts of their values."""
    fields = []
    for name, value in row.fields.items():
        is_pair = row.action == "updated" and isinstance(value, Mapping)
        before = value.get("before") if is_pair else value
        after = value.get("after") if is_pair else value
        fields.append(Field(name, _text(before), _text(after)))
    return fields


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def error_of(answer: ToolAnswer) -> Mapping[str, Any] | None:
    """Return the error of an answer, or None."""
    return answer.value["error"] if answer.failed else None
