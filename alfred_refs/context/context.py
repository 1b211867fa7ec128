"""What a conversation remembers, for a model that is asked the next thing.

A `Context` is made for each piece of work in a conversation; it keeps nothing itself. Refs stand
for keys wherever it tells of rows.

```python
context = Context(chat, toolset=toolset)
said = context.heard(session, "cook @[Thai Curry](recipe:a508000d-9b55-40f0-8886-dbdd88bd2de2)")
step = Step("read", "find what goes with it")
prompt = context.prompt(step, exchanges=[Exchange(said)])
decision = prompt.decision.model_validate_json(model(prompt.system, prompt.user))
context.done(step, decision)
"".join(context.with_names(reply))
```
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alfred_refs.conversation.conversation import Conversation
from alfred_refs.errors import ContextError
from alfred_refs.session.session import RefSession
from alfred_refs.sqla import Awaited, awaited
from alfred_refs.tools import TOOLS, Toolset

from .decisions import ActDecision, ToolCall, decision_type
from .mention_rows import MentionedRows
from .mentions import mentions_in
from .prompts import (
    Called,
    Exchange,
    Material,
    Prompt,
    Step,
    forms_of,
    parts_of,
    system_of,
)
from .rendering import Count, fitted, rendered, tokens
from .replies import Names
from .results import call_of, left_by, result_of
from .templating import Templates
from .views import Audience, ContextView, check_audience, name_of, view_of
from .windows import Window, selected

_ONLY_DRAFTS: dict[str, Any] = {"active": [], "retained": [], "others": {}}
_WITH_DATA: tuple[Audience, ...] = ("act",)
_LONGEST_REF = 300  # characters: names of classes are shorter


class Context:
    """What a conversation tells a model, a planner and its user.

    Args:
        conversation: that is told of.
        window: how far back.
        toolset: whose tables are described, and whose tools decisions may call.
        templates: a directory whose files replace the texts of prompts, one by one.
        count: what budgets are in; estimates tokens, where nothing else is given.
    """

    def __init__(
        self,
        conversation: Conversation,
        window: Window | None = None,
        *,
        toolset: Toolset | None = None,
        templates: str | Path | None = None,
        count: Count = tokens,
    ) -> None:
        self.conversation = conversation
        self.window = window or Window()
        self._toolset = toolset
        self._templates = Templates(templates)
        self._count = count

    @property
    def aio(self) -> AsyncContext:
        """The same for those who await, as in `await context.aio.prompt(step)`."""
        return AsyncContext(self, is_async=self.conversation.aio.is_async)

    def view(self, audience: Audience = "act") -> ContextView:
        """Return what an audience is told, as data: two round trips.

        Raises:
            ContextError: there is no such audience.
        """
        check_audience(audience)
        record = self.conversation.activity(self.window.active)
        drafts = list(self.conversation.drafts())
        return view_of(selected(record, self.window), drafts, data=audience in _WITH_DATA)

    def render(self, audience: Audience = "act", budget: int | None = None) -> str:
        """Return what an audience is told, as Markdown: two round trips.

        Args:
            audience: who reads it.
            budget: how long it may be, by what the context counts; `None` for as long as it is.

        Raises:
            ContextError: there is no such audience, or the budget is too small for what must be
                said.
        """
        return rendered(self.view(audience), audience, budget, self._count)

    def heard(self, session: RefSession, text: str) -> str:
        """Return what a user wrote with refs in place of mentions, and note that they were made.

        A row is looked up in the session, hence among those that its owner can see; it gets a ref
        if it has none. Other keys in the text are covered.

        Raises:
            MentionError: a mention is not closed, or names no row that can be seen.
            SetupError: the session is of another conversation.
        """
        refs, pieces, end = MentionedRows(self.conversation, session, self._toolset), [], 0
        found = mentions_in(text, refs)
        for mention, ref in zip(found, refs.of(found), strict=True):
            pieces += [text[end : mention.start], ref]
            end = mention.end
        return str(self.conversation.scrub("".join([*pieces, text[end:]])))

    def prompt(
        self,
        step: Step,
        *,
        exchanges: Sequence[Exchange] = (),
        calls: Sequence[Called] = (),
        budget: int | None = None,
    ) -> Prompt:
        """Return what a model is asked for a step: three round trips, however many rows there are.

        Args:
            step: which one.
            exchanges: of the conversation; the last ones are repeated, and no key in them.
            calls: the tools that were called in this step already, with their answers.
            budget: how long the part about rows may be.

        Raises:
            ContextError: the budget is too small for what must be said.
            TemplateError: a text of the application's is broken.
        """
        step, exchanges, calls = self._covered(step, exchanges, calls)
        view = self.view("act")
        steps = [*self.conversation.steps(2)]
        now = [each for each in steps if each.turn == view.turn]
        before = [each for each in steps if each.turn < view.turn]
        last = before[len(before) - min(len(before), self.window.steps) :]
        decision = decision_type(step.type, self._toolset)
        apart = step.type == "write"  # which has a part for drafts, with their content
        names = [each.model_copy(update={"data": None}) for each in view.drafts]
        rows = view.model_copy(update={"drafts": [] if apart else names})
        rows = fitted(rows, "act", budget, self._count)
        told = {each.ref for each in rows.active if each.data is not None}
        material = Material(
            step,
            view.turn,
            note=left_by(now[-1]).get("note", "") if now else "",
            results=[
                *(result_of(each, f"turn {each.turn}, step {each.number}") for each in last),
                *(result_of(each, f"step {each.number}", whole=True) for each in now),
                *(call_of(each, told, self._ref_fields()) for each in calls),
            ],
            schema=self._schema(step),
            entities=rendered(rows, "act"),
            drafts=rendered(view.model_copy(update=_ONLY_DRAFTS), "act") if view.drafts else "",
            exchanges=exchanges,
            forms=forms_of(decision),
            templates=self._templates,
        )
        parts = parts_of(material)
        system = system_of(step.type, self._templates)
        return Prompt(system, "\n\n".join(parts.values()), parts, decision)

    def _ref_fields(self) -> dict[str, str]:
        tables = () if self._toolset is None else self._toolset.tables
        return {table.name: table.ref_field for table in tables}

    def _schema(self, step: Step) -> str:
        if self._toolset is None or step.type not in ("read", "write"):
            return ""
        return self._toolset.describe(step.tables)

    def _covered(
        self, step: Step, exchanges: Sequence[Exchange], calls: Sequence[Called]
    ) -> tuple[Step, list[Exchange], list[Called]]:
        """Return a step, the last exchanges and calls without keys: one round trip, or none.

        What the toolset answered has none, and may have UUIDs that are data.
        """
        last = exchanges[len(exchanges) - min(len(exchanges), self.window.exchanges) :]
        said = [text for each in last for text in (each.user, each.assistant)]
        own = [step.goal, step.guidance, step.step_guidance, step.profile]
        ours = () if self._toolset is None else {*TOOLS, *self._toolset.functions}
        other = [call for call in calls if call.tool not in ours]
        given = [value for call in other for value in (call.params, call.answer)]
        items = [item.text for item in step.batch]
        texts = iter(self.conversation.scrub([*own, *items, *said, *given]))
        goal, guidance, step_guidance, profile = (next(texts) for _ in own)
        covered = replace(
            step,
            goal=goal,
            guidance=guidance,
            step_guidance=step_guidance,
            profile=profile,
            batch=[replace(item, text=next(texts)) for item in step.batch],
        )
        told = [Exchange(next(texts), next(texts)) for _ in last]
        covers = {
            id(call): replace(call, params=next(texts), answer=next(texts)) for call in other
        }
        return covered, told, [covers.get(id(call), call) for call in calls]

    def done(self, step: Step, decision: ActDecision) -> list[str]:
        """Keep what a step leaves to the next ones, and return the refs of drafts that it made.

        A call of a tool leaves nothing: the step goes on.

        Args:
            step: that is over.
            decision: how it ended.

        Raises:
            ContextError: the decision is of no such step.
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
            for table in (self._toolset.tables.named(each.table, "create"),)
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
        """Yield a reply with names in place of refs, as it comes: a look-up for new refs alone.

        Args:
            chunks: the reply, cut anywhere; a list of one for all of it.
            unknown: what is shown for a ref that is not known; as it is, by default.
        """
        return self.names(unknown).of(chunks)

    def names(self, unknown: Callable[[str], str] = str) -> Names:
        """Return what puts names into one reply, for who has its chunks one by one."""
        return Names(self._names_of, _LONGEST_REF, unknown)

    def _names_of(self, refs: Sequence[str]) -> dict[str, str]:
        """Return what people call rows and drafts, or else what they are."""
        found = self.conversation.labels_of(refs)
        return {ref: name_of(ref, label) for ref, label in found.items()}


class AsyncContext(Awaited[Context]):
    """What a `Context` does, awaited.

    What takes a session is for `await session.run_sync(context.heard, text)`.
    """

    view = awaited(Context.view)
    render = awaited(Context.render)
    prompt = awaited(Context.prompt)
    done = awaited(Context.done)

    async def with_names(
        self, chunks: AsyncIterable[str], unknown: Callable[[str], str] = str
    ) -> AsyncIterator[str]:
        """Yield a reply with names in place of refs; see `Context.with_names`."""
        names = self.sync.names(unknown)
        async for chunk in chunks:
            if text := await self.run(names.add, chunk):
                yield text
        if text := await self.run(names.end):
            yield text
