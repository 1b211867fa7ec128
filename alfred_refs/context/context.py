"""`Context`: build prompts from a conversation, read users' text, and complete replies.

>>> context = Context(chat, toolset=toolset)
>>> text = context.heard(session, "double recipe_1, please")
>>> prompt = context.prompt(Step("read", "find the recipe"), exchanges=[Exchange(text)])
>>> "recipe_1" in prompt.user
True
>>> "".join(context.with_names(["Today there is recipe_1."]))
'Today there is Soup.'

| method | input | output |
| --- | --- | --- |
| `heard` | a user's text with mentions | the text with refs; the mentions become activity |
| `view`, `render` | an audience and a budget | the rows as they are now, as data or as Markdown |
| `understand`, `think` | exchanges | a `Prompt`, with the type of the decision |
| `curate` | an `UnderstandDecision` | rows are retained, demoted and dropped |
| `prompt` | a `Step`, exchanges, calls | a `Prompt`, with the type of the decision |
| `done` | a step and its decision | the refs of drafts in the decision |
| `with_names`, `names` | a reply | the reply with labels in place of refs |

A `Context` keeps no state: the conversation stores which rows were used and which of their fields
were shown, and the rows are read when a prompt is made. So one may be made for each request. Rows
are read in sessions of the conversation's owner, by the code of `db_read`. A conversation that was
opened by `desk.conversation()` has toolset and sessions; others need `toolset=` and `sessions=`.
Without them rows are shown by name alone.

The text of prompts is in `prompts`, the format of rows in `views`, mentions and replies are in
`mentions`. This module makes the lines about earlier steps and calls: a row with values elsewhere
in the prompt is only a ref in them, and long results are shortened.

It calls no model. Keys in exchanges, calls and results are replaced before they are in a prompt.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from alfred_refs.context.decisions import (
    ActDecision,
    NewDraft,
    ThinkDecision,
    ToolCall,
    UnderstandDecision,
    decision_type,
    think_type,
    tool_names,
    understand_type,
)
from alfred_refs.context.instructions import instructions_for
from alfred_refs.context.mentions import MentionedRows, Names, mentions_in
from alfred_refs.context.prompts import (
    DRAFTS,
    ROWS,
    Called,
    Decision,
    Exchange,
    Material,
    Node,
    Prompt,
    Step,
    Templates,
    form_of,
    forms_of,
    node_step,
    plain_lines,
    prompt_of,
    titled,
)
from alfred_refs.context.views import (
    Audience,
    CallView,
    ContextView,
    Count,
    Selection,
    Window,
    among,
    calls_of,
    check_audience,
    fit_view,
    inert,
    name_of,
    quote_json,
    render_view,
    select_entries,
    shown_refs,
    tokens,
    view_of,
)
from alfred_refs.conversation import Conversation, mask_keys
from alfred_refs.errors import BadRefError, ContextError, GoneRefError, SetupError
from alfred_refs.mapping import parse_ref
from alfred_refs.owners import Owner
from alfred_refs.session import RefSession
from alfred_refs.sqla import AsyncFacade, async_method, in_greenlet
from alfred_refs.store import ActivityRecord
from alfred_refs.tools import CurrentRows, Fields, Toolset, makes_async_sessions

if TYPE_CHECKING:
    from alfred_refs.session.asyncio import AsyncRefSession
    from alfred_refs.tools.bound import Sessions


_LONGEST = 4_000  # characters of the data of a step, and of a call's arguments or answer

_LETTER = re.compile(r"[A-Za-z0-9_]")
_LAST_WORD = re.compile(r"[A-Za-z0-9_]{1,200}\Z")

_ENDED = {
    "step_complete": "result_summary",
    "ask_user": "question",
    "blocked": "details",
    "fail": "details",
}


def result_of(
    left: Mapping[str, Any], name: str, *, whole: bool = False, drafts: bool = True
) -> str:
    """Return the line about an earlier step: its type, result and summary.

    Args:
        left: the fields that the step has stored for later steps.
        name: the name of the step in the prompt.
        whole: whether its data is included.
        drafts: whether its drafts are listed.
    """
    action = left.get("action", "")
    summary = left.get(_ENDED.get(action, ""), "")
    ended = inert(f"{left.get('type')}, {action.replace('_', ' ')}")
    line = f"- {name} ({ended}): {quote_json(summary)}"
    if drafts and left.get("drafts"):
        line += f", drafts {inert(', '.join(left['drafts']))}"
    if whole and left.get("data") is not None:
        line += f"\n  {_short(quote_json(left['data']))}"
    return line


def call_of(called: Called, shown: Container[str], ref_fields: Mapping[str, str]) -> str:
    """Return the two lines about a call of this step: its arguments, and its answer.

    Args:
        called: the call.
        shown: the refs of rows with values in the prompt; the answer shows only their refs.
        ref_fields: by table, the field that contains the row's ref.
    """
    answer = called.answer
    if isinstance(answer, dict) and isinstance(answer.get("rows"), list):
        field = ref_fields.get(str(answer.get("table")), "")
        answer = {**answer, "rows": [_ref_of(row, field, shown) or row for row in answer["rows"]]}
    params = _short(quote_json(called.params))
    return f"- {inert(called.tool)} {params}\n  answered {_short(quote_json(answer))}"


def _plain(params: Any) -> Any:
    """Return the arguments of a call as plain JSON values."""
    if isinstance(params, BaseModel):
        return params.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return params


def _ref_of(row: Any, field: str, shown: Container[str]) -> str | None:
    """Return the ref of a row if the prompt shows its values elsewhere."""
    ref = row.get(field) if isinstance(row, dict) else None
    return ref if isinstance(ref, str) and ref in shown else None


def _short(text: str) -> str:
    """Shorten a text at a word boundary, because part of a ref could be another ref."""
    if len(text) <= _LONGEST:
        return text
    kept = text[:_LONGEST]
    if _LETTER.match(text, _LONGEST):
        kept = _LAST_WORD.sub("", kept)
    return f"{kept}… ({len(text) - len(kept)} more characters)"


_MOST_CALLS = 100  # calls read: all that wait, and the latest, which include decided calls
_LONGEST_REF = 300  # characters; names of classes are shorter


class Context:
    """Prompts and replies of one conversation.

    Args:
        conversation: the conversation.
        window: the number of turns, exchanges and steps that prompts include.
        toolset: the tables to describe and to show rows of, and the tools that decisions may call.
        sessions: makes the sessions that read rows, as for `Toolset.bind`. Without them, rows are
            shown by name alone. A conversation opened by a bound toolset provides both.
        templates: a directory whose files replace the texts of prompts, one by one.
        count: measures texts for budgets; by default it estimates tokens.
        today: returns the date for prompts; the default is the server's date, which may differ in
            the user's time zone.

    Raises:
        SetupError: the toolset has an `Ownership`, and the conversation no owner; or `sessions`
            does not make a `RefSession` for each prompt.

    Example:
        >>> asked = {"table": "recipes", "columns": ["name"]}
        >>> answer = desk.call("chat-7", None, "db_read", asked)
        >>> context = Context(chat, toolset=toolset)
        >>> print(context.render("reply"))
        - "Soup": recipe, read
        - "Toast": recipe, read
        >>> "".join(context.with_names(["Today there is recipe_1."]))
        'Today there is Soup.'
    """

    def __init__(
        self,
        conversation: Conversation,
        window: Window | None = None,
        *,
        toolset: Toolset | None = None,
        sessions: Sessions | None = None,
        templates: str | Path | None = None,
        count: Count = tokens,
        today: Callable[[], dt.date] = dt.date.today,
    ) -> None:
        self.conversation = conversation
        self.window = window or Window()
        desk = conversation.desk
        if desk is not None:
            toolset = toolset or desk.toolset
            sessions = sessions or desk.sessions
        self._toolset = toolset
        self._sessions: Any = sessions
        self._has_async_sessions = sessions is not None and makes_async_sessions(sessions)
        self._owner: Owner | None = None
        if toolset is not None and toolset.ownership is not None and sessions is not None:
            if conversation.owner is None:
                raise SetupError(
                    "a Context was made for a conversation without owner and a toolset with an "
                    "Ownership",
                    "open the conversation with its owner",
                )
            self._owner = toolset.ownership.of(conversation.owner)
        self._templates = Templates(templates)
        self._count = count
        self._today = today

    @property
    def aio(self) -> AsyncContext:
        """The same methods as coroutines: `await context.aio.prompt(step)`."""
        is_async = self.conversation.aio.is_async or self._has_async_sessions
        return AsyncContext(self, is_async=is_async)

    def view(self, audience: Audience = "act") -> ContextView:
        """Return the content of a prompt as data.

        It takes two round trips to the registry, five if the toolset has `consent`, and more if
        over a hundred calls wait; one statement for each table with rows, one for each of their
        relationships, and one for the labels of each table that refs lead to, or whose labels are
        made by a function.

        Args:
            audience: `"act"` for a step that works with rows, which is shown their values;
                `"think"` for a planner, `"reply"` for the author of the answer to the user,
                `"understand"` for a curator, who chooses which rows are retained.

        Raises:
            ContextError: the audience is unknown, or the sessions are asynchronous (await the
                method of `aio`).
        """
        check_audience(audience)
        record = self.conversation.activity(self.window.active)
        if self._toolset is None:
            drafts = [*self.conversation.drafts()]
        else:
            tables = self._toolset.tables
            masked = tables.shown - tables.entities
            if self._sessions is None:
                masked |= self._toolset.masked
            record = among(record, tables.shown, masked=masked)
            drafts = self._toolset.drafts_of(self.conversation)
        selection = select_entries(record, self.window)
        data = audience == "act"
        calls = self._decided(record.turn)
        rows = self._read_rows(selection, record, calls, data=data)
        view = view_of(selection, drafts, rows, self._with_labels(calls, rows), data=data)
        if more := self._more_waiting(calls):
            view = view.model_copy(update={"more_calls": {"waiting": more}})
        # the toolset has replaced keys by refs, and masked cut keys
        cover = self._scrub if self._toolset is None else mask_keys
        return ContextView.model_validate(cover(view))

    def _decided(self, turn: int) -> list[CallView]:
        """Return the calls that need a person: three round trips, if the toolset has `consent`."""
        if self._toolset is None or self._toolset.consent is None:
            return []
        select = self.conversation.calls.select
        # waiting calls may be older than the latest calls
        found = [*select(states=["waiting"], limit=_MOST_CALLS), *select(limit=_MOST_CALLS)]
        entries = {entry.number: entry for entry in found}
        since, entities = turn - self.window.active, self._toolset.tables.entities

        def is_shown(ref: str) -> bool:
            parsed = parse_ref(ref)
            return parsed is not None and parsed.entity in entities

        calls = calls_of([entries[each] for each in sorted(entries)], since)
        return [
            call.model_copy(update={"rows": {r: None for r in call.rows if is_shown(r)}})
            for call in calls
        ]

    def _with_labels(self, calls: list[CallView], rows: CurrentRows | None) -> list[CallView]:
        """Return calls with the labels of their rows; stored ones, if a row is not visible."""
        if self._toolset is None or not any(call.rows for call in calls):
            return calls
        masked = self._toolset.masked if rows is None else rows.masked
        stored = self.conversation.labels_of({ref: None for call in calls for ref in call.rows})

        def label_of(ref: str) -> str | None:
            if rows is not None and ref in rows.rows:
                return rows.rows[ref].label
            parsed = parse_ref(ref)
            return None if parsed is None or parsed.entity in masked else stored.get(ref)

        return [
            call.model_copy(update={"rows": {r: label_of(r) for r in call.rows if r in stored}})
            for call in calls
        ]

    def _more_waiting(self, calls: Sequence[CallView]) -> int:
        """Return the number of waiting calls before those that were read."""
        waiting = [each.call for each in calls if each.state == "waiting"]
        if len(waiting) < _MOST_CALLS:
            return 0
        number, first = 0, min(waiting)
        while page := self.conversation.calls.select(states=["waiting"], before=first):
            number, first = number + len(page), page[0].number
        return number

    def _read_rows(
        self,
        selection: Selection,
        record: ActivityRecord,
        calls: Iterable[CallView],
        *,
        data: bool,
    ) -> CurrentRows | None:
        """Return the rows of a selection as they are now; `None` if they cannot be read."""
        if self._toolset is None or self._sessions is None:
            return None
        wanted: dict[str, Fields] = {ref: () for call in calls for ref in call.rows}
        wanted |= {str(entry.ref): () for entry in selection.retained}
        for entry in selection.active:
            if entry.gone != "was never saved":  # a deleted row may exist again
                wanted[str(entry.ref)] = entry.fields if data else ()
        if not wanted:
            return CurrentRows({})
        nested = {str(entry.ref): entry.fields for entry in record.entries}
        with self._session() as session:
            return self._toolset.reread(session, wanted, nested)

    @contextmanager
    def _session(self) -> Iterator[RefSession]:
        """Open a session of the conversation's owner, which records no activity."""
        if self._has_async_sessions and not in_greenlet():
            raise ContextError(
                "a Context with asynchronous sessions was used without await",
                "await the same method of context.aio",
            )
        session = self._sessions(conversation=self.conversation, owner=self._owner, by=None)
        session = getattr(session, "sync_session", session)
        try:
            yield session
        finally:
            session.close()

    def render(self, audience: Audience = "act", budget: int | None = None) -> str:
        """Return the content of a prompt as Markdown, with the statements of `view`.

        Args:
            audience: the audience, as for `view`.
            budget: the maximum length, in the unit of `count`; `None` for no limit.

        Raises:
            ContextError: as for `view`, or the budget is too small even for the numbers of
                rows and calls.
        """
        return render_view(self.view(audience), audience, budget, self._count)

    def heard(self, session: RefSession, text: str) -> str:
        """Return a user's text with refs in place of mentions, and record the mentions.

        Rows are looked up in the session, so only rows that are visible to its owner are found. A
        row without a ref gets one. Other keys in the text are replaced by refs, or masked.

        Args:
            session: a session in the same conversation.
            text: the user's text, with mentions such as `@[Soup](recipe:<its key>)`.

        Raises:
            MentionError: a mention is not closed, or names no visible row.
            SetupError: the session is of another conversation.
        """
        refs, pieces, end = MentionedRows(self.conversation, session, self._toolset), [], 0
        found = mentions_in(text, refs)
        for mention, ref in zip(found, refs.of(found), strict=True):
            pieces += [text[end : mention.start], ref]
            end = mention.end
        return str(self._scrub("".join([*pieces, text[end:]])))

    def prompt(
        self,
        step: Step,
        *,
        exchanges: Sequence[Exchange] = (),
        calls: Sequence[Called] = (),
        budget: int | None = None,
    ) -> Prompt[ActDecision]:
        """Return the prompt of a step, with the statements of `view` and one more to the registry.

        Args:
            step: the step.
            exchanges: the conversation so far; the prompt repeats the last ones, without keys.
            calls: the tool calls of this step so far, with their answers.
            budget: the maximum length of the parts about rows and drafts, with their headings.

        Raises:
            ContextError: as for `render`.
            TemplateError: a template of the application is invalid.
        """
        has_conversation = bool(exchanges)
        step, exchanges, calls = self._without_keys(step, exchanges, calls)
        view = self.view("act")
        note, results = self._results(view.turn)
        decision = decision_type(step.type, self._toolset)
        apart = step.type == "write"  # its prompt has a part with drafts and their content
        if not apart:
            names = [each.model_copy(update={"data": None}) for each in view.drafts]
            view = view.model_copy(update={"drafts": names})
        entities, drafts, shown = self._rows_and_drafts(view, budget, apart=apart)
        material = Material(
            step,
            view.turn,
            self._today(),
            note=note,
            results=[*results, *(call_of(each, shown, self._ref_fields()) for each in calls)],
            schema=self._schema(step),
            entities=entities,
            drafts=drafts,
            exchanges=exchanges,
            has_conversation=has_conversation,
            forms=forms_of(decision),
            instructions=instructions_for(self._toolset, tuple(tool_names(decision))),
            templates=self._templates,
        )
        return prompt_of(material, decision)

    def _rows_and_drafts(
        self, view: ContextView, budget: int | None, *, apart: bool
    ) -> tuple[str, str, set[str]]:
        """Return the part about rows, the part with drafts, and the refs shown with values.

        Args:
            view: the rows and drafts.
            budget: the maximum length of both parts, with their headings.
            apart: whether drafts have a part of their own.
        """

        def parts_of(fitted: ContextView) -> list[str]:
            if not (apart and view.drafts):
                return [render_view(fitted, "act")]
            return [render_view(each, "act") for each in fitted.split_drafts(view)]

        def layout(fitted: ContextView) -> str:
            parts = zip((ROWS, DRAFTS), parts_of(fitted), strict=False)
            return "\n\n".join(titled(heading, text) for heading, text in parts)

        fitted = fit_view(view, "act", budget, self._count, layout)
        entities, *drafts = parts_of(fitted)
        return entities, "".join(drafts), shown_refs(fitted)

    def understand(
        self, exchanges: Sequence[Exchange], *, guidance: str = "", budget: int | None = None
    ) -> Prompt[UnderstandDecision]:
        """Return the prompt in which a model interprets the user's last message.

        Args:
            exchanges: the conversation; the last one contains the message, and no answer yet.
            guidance: instructions of the application.
            budget: the maximum length of the part about rows, with its heading.

        Raises:
            ContextError: as for `render`.
            TemplateError: a template of the application is invalid.

        Example:
            >>> asked = desk.call("chat-7", None, "db_read", {"table": "recipes"})
            >>> prompt = Context(chat, toolset=toolset).understand([Exchange("Double the soup.")])
            >>> answer = '{"referenced": ["recipe_1"], "constraints": ["twice as much"]}'
            >>> prompt.decision.model_validate_json(answer).referenced
            ['recipe_1']
        """
        decision = understand_type(self._toolset)
        step = node_step(guidance=guidance)
        return self._node_prompt("understand", step, exchanges, decision, budget)

    def think(
        self,
        exchanges: Sequence[Exchange],
        understood: UnderstandDecision | None = None,
        *,
        guidance: str = "",
        profile: str = "",
        budget: int | None = None,
    ) -> Prompt[ThinkDecision]:
        """Return the prompt in which a model plans the steps of a turn.

        Args:
            exchanges: as for `understand`.
            understood: the decision for the prompt of `understand`.
            guidance: instructions of the application.
            profile: facts about the user.
            budget: the maximum length of the part about rows, with its heading.

        Raises:
            ContextError: as for `render`.
            TemplateError: a template of the application is invalid.

        Example:
            >>> prompt = Context(chat, toolset=toolset).think([Exchange("Which soups are there?")])
            >>> step = '{"type": "read", "goal": "find soups", "tables": ["recipes"]}'
            >>> plan = prompt.decision.model_validate_json(f'{{"steps": [{step}]}}')
            >>> Step.planned(plan)[0].tables
            ['recipes']
        """
        more: dict[str, Sequence[str]] = {}
        if understood is not None:
            more = {"refs": understood.referenced, "constraints": understood.constraints}
        step = node_step(guidance=guidance, profile=profile, **more)
        return self._node_prompt("think", step, exchanges, think_type(self._toolset), budget)

    def _node_prompt(
        self,
        node: Node,
        step: Step,
        exchanges: Sequence[Exchange],
        decision: type[Decision],
        budget: int | None,
    ) -> Prompt[Decision]:
        # the last exchange has the message that the prompt is about
        step, exchanges, _ = self._without_keys(step, exchanges, (), least=1)
        view = self.view(node)
        fitted = fit_view(
            view, node, budget, self._count, lambda each: titled(ROWS, render_view(each, node))
        )
        _, results = self._results(view.turn)
        material = Material(
            step,
            view.turn,
            self._today(),
            results=results,
            schema="" if self._toolset is None else self._toolset.describe(),
            entities=render_view(fitted, node),
            exchanges=exchanges,
            forms=[form_of(decision)],
            instructions=instructions_for(self._toolset),
            templates=self._templates,
        )
        return prompt_of(material, decision, node)

    def curate(self, understood: UnderstandDecision) -> None:
        """Retain, demote and drop rows by a model's decision: all of them, or none on an error.

        Args:
            understood: the decision for the prompt of `understand`.

        Raises:
            BadRefError: the conversation does not know a ref, or a row to retain does not exist.

        Example:
            >>> asked = desk.call("chat-7", None, "db_read", {"table": "recipes"})
            >>> context = Context(chat, toolset=toolset)
            >>> kept = {"retain": [{"ref": "recipe_1", "reason": "a favourite"}]}
            >>> context.curate(understand_type(toolset).model_validate(kept))
            >>> context.view("understand").active[0].reason
            'a favourite'
        """
        chat, retained = self.conversation, [each.ref for each in understood.retain]
        left_out = [each.ref for each in (*understood.demote, *understood.drop)]
        refs = [*understood.referenced, *left_out]
        known = chat.labels_of(refs)
        try:
            chat.resolve_all([*retained, *(ref for ref in refs if ref not in known)])
        except BadRefError as error:
            raise self._visible_error(error) from None
        if deleted := self._deleted_among(retained):
            raise GoneRefError(min(deleted), None, (), None, "was deleted")
        for each in understood.retain:
            chat.retain([each.ref], each.reason)
        chat.demote(each.ref for each in understood.demote)
        chat.drop(each.ref for each in understood.drop)

    def _deleted_among(self, refs: Sequence[str]) -> frozenset[str]:
        """Return the refs of rows that others have deleted, which the registry may not know."""
        if not refs or self._toolset is None or self._sessions is None:
            return frozenset()
        with self._session() as session:
            return self._toolset.reread(session, dict.fromkeys(refs, ()), {}).deleted

    def _visible_error(self, error: BadRefError) -> BadRefError:
        """Return an error with the labels that tools would show."""
        if self._toolset is None:
            return error
        if self._sessions is None:
            return error.offering([*error.known, error.near], {})
        with self._session() as session:
            return self._toolset.visible_error(session, error)

    def _results(self, turn: int) -> tuple[str, list[str]]:
        """Return the note of a turn's last step, and lines about its steps and earlier steps."""
        steps = [each for each in self.conversation.steps(2) if each.turn <= turn]
        before = sum(each.turn < turn for each in steps)
        steps = steps[max(before - self.window.steps, 0) :]
        contents = self._scrub([json.loads(each.content) for each in steps])
        lines, note = [], ""
        drafts = self._toolset is None or self._toolset.drafts
        for step, left in zip(steps, contents, strict=True):
            now, name = step.turn == turn, f"step {step.number}"
            name = name if now else f"turn {step.turn}, {name}"
            lines.append(result_of(left, name, whole=now, drafts=drafts))
            note = left.get("note", "") if now else ""
        return note, lines

    def _scrub(self, value: Any) -> Any:
        """Remove keys and hidden columns from values of the application or a model."""
        if self._toolset is None:
            return self.conversation.scrub(value)
        tables = self._toolset.tables
        return self.conversation.scrub(tables.without_hidden(value), entities=tables.shown)

    def _ref_fields(self) -> dict[str, str]:
        tables = () if self._toolset is None else self._toolset.tables
        return {table.name: table.ref_field for table in tables}

    def _schema(self, step: Step) -> str:
        """Return the tables of a step; of one that generates, those that may have drafts."""
        if self._toolset is None or step.type == "analyze":
            return ""
        if step.type != "generate":
            return self._toolset.describe(step.tables)
        # a plan may name only the tables that the content refers to
        drafted = self._toolset.draft_tables
        named = [name for name in drafted if step.tables is None or name in step.tables]
        return self._toolset.describe(named or drafted, drafts=True)

    def _without_keys(
        self,
        step: Step,
        exchanges: Sequence[Exchange],
        calls: Sequence[Called],
        *,
        least: int = 0,
    ) -> tuple[Step, list[Exchange], list[Called]]:
        """Remove keys from a step, the last exchanges and the calls: at most one round trip.

        Calls are included, because a call may have been refused for a key in its arguments.
        """
        most = max(self.window.exchanges, least)
        last = exchanges[len(exchanges) - min(len(exchanges), most) :]
        texts, constraints, items, said, called = self._scrub(
            [
                [step.goal, step.guidance, step.step_guidance, step.profile],
                step.constraints,
                [item.text for item in step.batch],
                [(each.user, each.assistant) for each in last],
                [(call.tool, _plain(call.params), call.answer) for call in calls],
            ]
        )
        names = ("goal", "guidance", "step_guidance", "profile")
        batch = [replace(item, text=text) for item, text in zip(step.batch, items, strict=True)]
        covered = replace(
            step, constraints=constraints, batch=batch, **dict(zip(names, texts, strict=True))
        )
        return covered, [Exchange(*each) for each in said], [Called(*each) for each in called]

    def done(self, step: Step, decision: ActDecision) -> list[str]:
        """Store the result of a step for later steps, and return the refs of its drafts.

        Nothing is stored for a tool call, because the step continues.

        Args:
            step: the step that has ended.
            decision: its last decision.

        Raises:
            ContextError: the decision belongs to another type of step, or has drafts without
                `sessions`.
            ToolError: the content cannot be a draft; the text is for the model.
        """
        made = decision.root
        if step.type != decision.step:
            raise ContextError(
                f"a step of type {step.type!r} ended in a {type(decision).__name__}",
                "give the decision that its own prompt asked for",
            )
        if isinstance(made, ToolCall):
            return []
        refs = self._keep_drafts(getattr(made, "drafts", ()))
        left = made.model_dump(mode="json", exclude_none=True, exclude={"drafts"})
        left |= {"type": step.type, "goal": step.goal}
        if "note_for_next_step" in left:
            left["note"] = left.pop("note_for_next_step")
        if refs:
            left["drafts"] = refs
        self.conversation.add_step(left)
        return refs

    def _keep_drafts(self, new: Sequence[NewDraft]) -> list[str]:
        """Keep drafts; the given labels are for those whose class makes none."""
        if not new or self._toolset is None:
            return []
        if self._sessions is None:
            raise ContextError(
                "a step made drafts, and the Context has no sessions to keep them",
                "give it sessions=, or use desk.context(...)",
            )
        with self._session() as session:
            refs = self._toolset.keep_drafts(session, [(each.table, each.data) for each in new])
        labels = {ref: each.label for ref, each in zip(refs, new, strict=True) if each.label}
        unnamed = {
            draft.ref: draft.content
            for draft in (self.conversation.read_drafts([*labels]) if labels else ())
            if draft.label is None
        }
        if unnamed:
            self.conversation.edit_drafts(unnamed, labels={ref: labels[ref] for ref in unnamed})
        return refs

    def with_names(
        self, chunks: Iterable[str], unknown: Callable[[str], str] = str
    ) -> Iterator[str]:
        """Yield the chunks of a reply with labels in place of refs, as they arrive.

        Labels are read from the registry, once for each new ref. Refs in addresses are not
        replaced: in paths, link targets and HTML attributes.

        Args:
            chunks: the reply, cut anywhere; a list with one text for a complete reply.
            unknown: returns the text for an unknown ref; by default the ref.
        """
        return self.names(unknown).of(chunks)

    def names(self, unknown: Callable[[str], str] = str) -> Names:
        """Return an object that replaces refs in one reply, for callers that push its chunks.

        `names.add(chunk)` returns the text that is complete so far, `names.end()` the rest.

        Args:
            unknown: as for `with_names`.
        """
        return Names(self._names_of, _LONGEST_REF, unknown)

    def _names_of(self, refs: Sequence[str]) -> dict[str, str]:
        """Return the labels of rows and drafts; for those without one, entity and number."""
        found = self.conversation.labels_of(refs)
        return {
            ref: str(mask_keys(plain_lines(name_of(ref, each)))) for ref, each in found.items()
        }


class AsyncContext(AsyncFacade[Context]):
    """The methods of a `Context` as coroutines.

    Example:
        >>> import asyncio
        >>> asyncio.run(Context(chat).aio.render("think"))
        'Not listed, and some may be deleted: line (2), recipe (2).'
    """

    view = async_method(Context.view)
    render = async_method(Context.render)
    prompt = async_method(Context.prompt)
    understand = async_method(Context.understand)
    think = async_method(Context.think)
    curate = async_method(Context.curate)
    done = async_method(Context.done)

    async def heard(self, session: AsyncRefSession, text: str) -> str:
        """Return a user's text with refs in place of mentions; see `Context.heard`."""
        return await session.run_sync(lambda _: self.sync.heard(session.sync_session, text))

    async def with_names(
        self, chunks: AsyncIterable[str], unknown: Callable[[str], str] = str
    ) -> AsyncIterator[str]:
        """Yield a reply with labels in place of refs; see `Context.with_names`."""
        names = self.sync.names(unknown)
        async for chunk in chunks:
            if text := await self.run(names.add, chunk):
                yield text
        if text := await self.run(names.end):
            yield text
