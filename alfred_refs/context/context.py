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
| `done` | a step and its decision | the refs of drafts that the decision contained |
| `with_names`, `names` | a reply | the reply with labels in place of refs |

A `Context` keeps no state: the conversation stores which rows were used and which of their fields
were shown, and the rows are read when a prompt is made. So one may be made for each request. Rows
are read in sessions of the conversation's owner, by the code of `db_read`. A conversation that was
opened by `desk.conversation()` has toolset and sessions; others need `toolset=` and `sessions=`.
Without them rows are shown by name alone.

The text of prompts is in `prompts`, the format of rows in `views`, mentions and replies are in
`mentions`. This module makes the lines about earlier steps and calls: a row whose values the
prompt shows is only a ref in them, and long results are shortened.

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
    key_parts,
    node_step,
    plain_lines,
    system_of,
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
from alfred_refs.errors import ContextError, SetupError
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
    """Return the line about an earlier step: its type, how it ended, its summary.

    Args:
        left: the fields that the step left to later ones.
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
        shown: the refs of rows that the prompt shows with their values: in the answer each is its
            ref alone.
        ref_fields: by table, the field in which its rows have their refs.
    """
    answer = called.answer
    if isinstance(answer, dict) and "rows" in answer and answer.get("table") in ref_fields:
        field = ref_fields[answer["table"]]
        answer = {**answer, "rows": [_ref_of(row, field, shown) or row for row in answer["rows"]]}
    params = _short(quote_json(called.params))
    return f"- {inert(called.tool)} {params}\n  answered {_short(quote_json(answer))}"


def _plain(params: Any) -> Any:
    """Return the arguments of a call as the model gave them."""
    if isinstance(params, BaseModel):
        return params.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return params


def _ref_of(row: Any, field: str, shown: Container[str]) -> str | None:
    """Return the ref of a row if the prompt shows its values elsewhere."""
    ref = row.get(field) if isinstance(row, dict) else None
    return ref if isinstance(ref, str) and ref in shown else None


def _short(text: str) -> str:
    """Return a text, shortened before a word: part of a ref would be the ref of another row."""
    if len(text) <= _LONGEST:
        return text
    kept = text[:_LONGEST]
    if _LETTER.match(text, _LONGEST):
        kept = _LAST_WORD.sub("", kept)
    return f"{kept}… ({len(text) - len(kept)} more characters)"


_ONLY_DRAFTS: dict[str, Any] = {"active": [], "retained": [], "others": {}, "calls": []}
_WITH_DATA: tuple[Audience, ...] = ("act",)
_MOST_CALLS = 50  # that wait, and the last ones, among which those decided are
_LONGEST_REF = 300  # characters: names of classes are shorter


class Context:
    """Prompts and replies of one conversation.

    Args:
        conversation: the conversation.
        window: how far back prompts look.
        toolset: the tables that are described, whose rows are shown, and the tools that decisions
            may call.
        sessions: makes the sessions that read rows, as for `Toolset.bind`. Without, rows are shown
            by name alone. A conversation that a bound toolset has opened has both by default.
        templates: a directory whose files replace the texts of prompts, one by one.
        count: measures texts for budgets; by default it estimates tokens.
        today: returns the date that prompts show; give one that knows the user's time zone, or
            the date is the server's.

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
        """The same for those who await, as in `await context.aio.prompt(step)`."""
        is_async = self.conversation.aio.is_async or self._has_async_sessions
        return AsyncContext(self, is_async=is_async)

    def view(self, audience: Audience = "act") -> ContextView:
        """Return the content of a prompt as data.

        That is two round trips to the registry, four if the toolset has `consent`; one statement
        for each table with rows, one for each of their relationships, and one for the labels of
        each table that refs lead to.

        Args:
            audience: `"act"` for a step that works with rows, which is shown their values;
                `"think"` for a planner, `"reply"` for the author of the answer to the user,
                `"understand"` for a curator, who chooses which rows are retained.

        Raises:
            ContextError: there is no such audience, or the sessions are asynchronous: await the
                method of `aio`.
        """
        check_audience(audience)
        record = self.conversation.activity(self.window.active)
        if self._toolset is None:
            drafts = [*self.conversation.drafts()]
        else:
            record = among(record, self._toolset.tables.shown, masked=self._toolset.masked)
            drafts = self._toolset.drafts_of(self.conversation)
        selection = select_entries(record, self.window)
        data = audience in _WITH_DATA
        rows = self._read_rows(selection, record, data=data)
        view = view_of(selection, drafts, rows, self._decided(record.turn), data=data)
        # the toolset has put refs in place of keys, and masks those that are cut
        cover = self._scrub if self._toolset is None else mask_keys
        return ContextView.model_validate(cover(view))

    def _decided(self, turn: int) -> list[CallView]:
        """Return the calls that need a person: two round trips, if the toolset may ask one."""
        if self._toolset is None or self._toolset.consent is None:
            return []
        select = self.conversation.calls.select
        # a call waits though many others were done since
        found = [*select(states=["waiting"], limit=_MOST_CALLS), *select(limit=_MOST_CALLS)]
        entries = {entry.number: entry for entry in found}
        return calls_of([entries[each] for each in sorted(entries)], turn - self.window.active)

    def _read_rows(
        self, selection: Selection, record: ActivityRecord, *, data: bool
    ) -> CurrentRows | None:
        """Return the rows of a selection as they are now; `None` if they cannot be read."""
        if self._toolset is None or self._sessions is None:
            return None
        wanted: dict[str, Fields] = {str(entry.ref): () for entry in selection.retained}
        for entry in selection.active:
            if entry.gone != "was never saved":  # a row that was deleted may be there again
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
            audience: who reads it, as for `view`.
            budget: the maximum length, in the unit of `count`; `None` for no limit.

        Raises:
            ContextError: as of `view`, or the budget has no room even for the number of rows.
        """
        return render_view(self.view(audience), audience, budget, self._count)

    def heard(self, session: RefSession, text: str) -> str:
        """Return a user's text with refs in place of mentions, and record the mentions.

        Rows are looked up in the session, so only rows that its owner can see are found. A row
        without a ref gets one. Other keys in the text are replaced by refs, or masked.

        Args:
            session: a session in the same conversation.
            text: the user's text, with mentions such as `@[Soup](recipe:<its key>)`.

        Raises:
            MentionError: a mention is not closed, or names no row that can be seen.
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
        """Return the prompt of a step; statements as of `view`, and one more to the registry.

        Args:
            step: the step.
            exchanges: the conversation so far; the last ones are repeated, without keys.
            calls: the calls of tools in this step so far, with their answers.
            budget: the maximum length of the part about rows.

        Raises:
            ContextError: as of `render`.
            TemplateError: a template of the application is broken.
        """
        step, exchanges, calls = self._without_keys(step, exchanges, calls)
        view = self.view("act")
        note, results = self._results(view.turn)
        decision = decision_type(step.type, self._toolset)
        instructions = instructions_for(self._toolset, tuple(tool_names(decision)))
        apart = step.type == "write"  # which has a part for drafts, with their content
        names = [each.model_copy(update={"data": None}) for each in view.drafts]
        rows = view.model_copy(update={"drafts": [] if apart else names})
        rows = fit_view(rows, "act", budget, self._count)
        shown = shown_refs(rows)
        material = Material(
            step,
            view.turn,
            self._today(),
            note=note,
            results=[*results, *(call_of(each, shown, self._ref_fields()) for each in calls)],
            schema=self._schema(step),
            entities=render_view(rows, "act"),
            drafts=render_view(view.model_copy(update=_ONLY_DRAFTS), "act") if view.drafts else "",
            exchanges=exchanges,
            forms=forms_of(decision),
            instructions=instructions,
            templates=self._templates,
        )
        parts = key_parts(material)
        system = system_of(step.type, self._templates, instructions)
        return Prompt(system, "\n\n".join(parts.values()), parts, decision)

    def understand(
        self, exchanges: Sequence[Exchange], *, guidance: str = "", budget: int | None = None
    ) -> Prompt[UnderstandDecision]:
        """Return the prompt that has a model understand the user's last message.

        Args:
            exchanges: the conversation; the last one has the message, and no answer yet.
            guidance: instructions of the application.
            budget: the maximum length of the part about rows.

        Raises:
            ContextError: as of `render`.
            TemplateError: a template of the application is broken.

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
        """Return the prompt that has a model plan the steps of a turn.

        Args:
            exchanges: as for `understand`.
            understood: the answer to the prompt of `understand`.
            guidance: instructions of the application.
            profile: facts about the user.
            budget: the maximum length of the part about rows.

        Raises:
            ContextError: as of `render`.
            TemplateError: a template of the application is broken.

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
        step, exchanges, _ = self._without_keys(step, exchanges, ())
        view = self.view(node)
        _, results = self._results(view.turn)
        instructions = instructions_for(self._toolset)
        material = Material(
            step,
            view.turn,
            self._today(),
            results=results,
            schema="" if self._toolset is None else self._toolset.describe(),
            entities=render_view(view, node, budget, self._count),
            exchanges=exchanges,
            forms=[form_of(decision)],
            instructions=instructions,
            templates=self._templates,
        )
        parts = key_parts(material, node)
        system = system_of(node, self._templates, instructions)
        return Prompt(system, "\n\n".join(parts.values()), parts, decision)

    def curate(self, understood: UnderstandDecision) -> None:
        """Retain, demote and drop rows as a model has decided: all of them, or none on an error.

        Args:
            understood: the answer to the prompt of `understand`.

        Raises:
            BadRefError: the conversation does not know a ref, or a row to retain is gone.

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
        chat.resolve_all([*retained, *(ref for ref in refs if ref not in known)])
        for each in understood.retain:
            chat.retain([each.ref], each.reason)
        chat.demote(each.ref for each in understood.demote)
        chat.drop(each.ref for each in understood.drop)

    def _results(self, turn: int) -> tuple[str, list[str]]:
        """Return the note of a turn's last step, and lines about its steps and some before."""
        steps = [each for each in self.conversation.steps(2) if each.turn <= turn]
        before = sum(each.turn < turn for each in steps)
        steps = steps[max(before - self.window.steps, 0) :]
        contents = self._scrub([json.loads(each.content) for each in steps])
        lines, note = [], ""
        for step, left in zip(steps, contents, strict=True):
            now, name = step.turn == turn, f"step {step.number}"
            name = name if now else f"turn {step.turn}, {name}"
            lines.append(result_of(left, name, whole=now, drafts=self._has_drafts))
            note = left.get("note", "") if now else ""
        return note, lines

    @property
    def _visible_entities(self) -> Container[str] | None:
        """The entities that a model may see; `None` for all."""
        return None if self._toolset is None else self._toolset.tables.shown

    @property
    def _has_drafts(self) -> bool:
        return self._toolset is None or self._toolset.drafts

    def _scrub(self, value: Any) -> Any:
        """Return what the application or a model has written without keys and hidden columns."""
        if self._toolset is not None:
            value = self._toolset.tables.without_hidden(value)
        return self.conversation.scrub(value, entities=self._visible_entities)

    def _ref_fields(self) -> dict[str, str]:
        tables = () if self._toolset is None else self._toolset.tables
        return {table.name: table.ref_field for table in tables}

    def _schema(self, step: Step) -> str:
        if self._toolset is None or step.type not in ("read", "write"):
            return ""
        return self._toolset.describe(step.tables)

    def _without_keys(
        self, step: Step, exchanges: Sequence[Exchange], calls: Sequence[Called]
    ) -> tuple[Step, list[Exchange], list[Called]]:
        """Return a step, the last exchanges and calls without keys: one round trip, or none.

        A call of a tool is no exception: its arguments are the model's, and may have been refused
        because of a key.
        """
        last = exchanges[len(exchanges) - min(len(exchanges), self.window.exchanges) :]
        said = [text for each in last for text in (each.user, each.assistant)]
        own = [step.goal, step.guidance, step.step_guidance, step.profile]
        given = [each for call in calls for each in (call.tool, _plain(call.params), call.answer)]
        items = [*(item.text for item in step.batch), *step.constraints]
        texts = iter(self._scrub([*own, *items, *said, *given]))
        goal, guidance, step_guidance, profile = (next(texts) for _ in own)
        covered = replace(
            step,
            goal=goal,
            guidance=guidance,
            step_guidance=step_guidance,
            profile=profile,
            batch=[replace(item, text=next(texts)) for item in step.batch],
            constraints=[next(texts) for _ in step.constraints],
        )
        covered_exchanges = [Exchange(next(texts), next(texts)) for _ in last]
        covered_calls = [Called(next(texts), next(texts), next(texts)) for _ in calls]
        return covered, covered_exchanges, covered_calls

    def done(self, step: Step, decision: ActDecision) -> list[str]:
        """Store the result of a step for later steps, and return the refs of its drafts.

        Nothing is stored for a call of a tool, because the step goes on.

        Args:
            step: the step that has ended.
            decision: its last decision.

        Raises:
            ContextError: the decision belongs to another type of step.
        """
        made = decision.root
        if step.type != decision.step:
            raise ContextError(
                f"a step of type {step.type!r} ended in a {type(decision).__name__}",
                "give the decision that its own prompt asked for",
            )
        if isinstance(made, ToolCall):
            return []
        refs = [
            self.conversation.draft(table.model, each.data, label=each.label).ref
            for each in getattr(made, "drafts", ())
            if self._toolset is not None
            for table in (self._toolset.tables.by_name(each.table, "create"),)
        ]
        left = made.model_dump(mode="json", exclude_none=True, exclude={"drafts"})
        left |= {"type": step.type, "goal": step.goal}
        if "note_for_next_step" in left:
            left["note"] = left.pop("note_for_next_step")
        if refs:
            left["drafts"] = refs
        self.conversation.add_step(left)
        return refs

    def with_names(
        self, chunks: Iterable[str], unknown: Callable[[str], str] = str
    ) -> Iterator[str]:
        """Yield the chunks of a reply with labels in place of refs, as they arrive.

        Labels are read from the registry, once for each new ref. Refs in addresses stay: in paths,
        targets of links, attributes of HTML.

        Args:
            chunks: the reply, cut anywhere; a list with one text for a complete reply.
            unknown: returns the text for a ref that is not known; by default the ref.
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
        """Return what people call rows and drafts, or else what they are."""
        found = self.conversation.labels_of(refs)
        return {
            ref: str(mask_keys(plain_lines(name_of(ref, each)))) for ref, each in found.items()
        }


class AsyncContext(AsyncFacade[Context]):
    """The methods of a `Context` as coroutines."""

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
