"""Doing one task in one arm: an agent, its tools in the arm's spelling, and what came of it.

    with kitchen.day() as day:
        trial = done(task, arm, day, ...)

The agent is pydantic-ai's, with the same toolset that applications use; between the two stands the
spelling. After each call that is not refused the kitchen is looked at: what has changed that the
task does not mean is a stray, and of the kinds of slip that are in the call.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from pydantic_ai import Agent, RunContext, ToolDefinition, UsageLimits, capture_run_messages
from pydantic_ai.exceptions import ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from alfred_refs import RefRegistry
from alfred_refs.integrations.pydantic_ai import RefToolset
from alfred_refs.store.memory import MemoryStore
from evals.arms import Arm
from evals.boundary import Id, Spelling
from evals.channel import NONE, Channel
from evals.clerk import Clerk
from evals.kitchen import POLICY, Changes, Day, Kitchen
from evals.scripted import scripted
from evals.spelling import SPELLINGS
from evals.steps import Call
from evals.tasks import Task
from evals.tokens import counted, tokenizer
from evals.trials import Trial
from examples.kitchen.models import Recipe

MOST_REQUESTS: Final = 40  # of one task: a model that goes round in circles is stopped

RULES: Final = (
    "You keep the kitchen of a household: its recipes, meal plans and shopping list. Do what the "
    "user asks with the tools. Name rows by the ids that the tools show, exactly as they stand. "
    "Do no more than is asked, and ask nothing back."
)


@dataclass
class Hands:
    """What the tools of one trial work with: the agent's dependencies.

    Attributes:
        chat: the id of the conversation.
        kitchen: whose rows there are.
        day: in whose transaction they are written.
        task: which is to be done.
        spelling: of ids.
    """

    chat: str
    kitchen: Kitchen
    day: Day
    task: Task
    spelling: Spelling
    now: Changes = field(default_factory=dict)
    slips: Counter[str] = field(default_factory=Counter)
    # of the call that is made
    slipped: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    refused: int = 0
    calls: int = 0

    def note(self, call: Call) -> None:
        """Note what slips are in the call that is made now."""
        self.slipped = [copy.kind for copy in call.copies if copy.kind]
        self.slips.update(self.slipped)

    def look(self) -> None:
        """Look at what the last call has written."""
        then, self.now = self.now, self.day.changes()
        if self.task.end.strays(self.kitchen.rows, then, self.now):
            self.strays += self.slipped or ["later" if self.slips else "other"]


@dataclass
class SpeltToolset(WrapperToolset[Hands]):
    """Tools that a model calls in the spelling of its arm."""

    async def get_tools(self, ctx: RunContext[Hands]) -> dict[str, ToolsetTool[Hands]]:
        """Return the tools, whose examples are spelt too."""
        return {
            name: replace(tool, tool_def=_spelt(type(ctx.deps.spelling), tool.tool_def))
            for name, tool in (await super().get_tools(ctx)).items()
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Hands],
        tool: ToolsetTool[Hands],
    ) -> Any:
        """Do what the model asks for, and look what it has done."""
        hands = ctx.deps
        hands.calls += 1
        read = tool_args
        if type(tool_args) is dict:  # otherwise it is no JSON, which the tools say
            read = hands.spelling.read(tool_args)
        try:
            answer = await super().call_tool(name, read, ctx, tool)
        except ToolFailed as error:
            hands.refused += 1
            raise ToolFailed(hands.spelling.text(error.message)) from None
        if name != "db_read":
            hands.look()
        return hands.spelling.shown(answer)


@dataclass(frozen=True, slots=True)
class Noise:
    """How the scripted model errs.

    Attributes:
        rates: of slips, by kind.
        along: how often what it believes slips along with an id.
        notices: how often it sees in an answer that it has written another row than it meant.
        seed: of all chance.
    """

    rates: Mapping[str, float] = field(default_factory=lambda: dict(NONE))
    along: float = 0.0
    notices: float = 0.0
    seed: int = 0


class Doing:
    """Does tasks in arms.

    Args:
        kitchen: where.
        noise: of the scripted model.
        model: a real one; without one the scripted model does them.
        prices: of its tokens, in US dollars a million: read, and written.
    """

    def __init__(
        self,
        kitchen: Kitchen,
        noise: Noise,
        model: Model | None = None,
        prices: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._kitchen = kitchen
        self._noise = noise
        self._model = model
        self._prices = prices
        self._registry = RefRegistry(store=MemoryStore(), policy=POLICY)
        self._agents: dict[str, tuple[Agent[Hands], int]] = {}

    async def trial(
        self, task: Task, arm: Arm, number: int
    ) -> tuple[Trial, Sequence[ModelMessage]]:
        """Do a task, and return what came of it, and all messages."""
        chat = f"{arm.name} {task.name} {number}"
        conversation = self._registry.conversation(chat, owner=str(self._kitchen.user))
        spelling = SPELLINGS[arm.spelling](self._kitchen, conversation, arm.toolset)
        with self._kitchen.day() as day:
            hands = Hands(chat, self._kitchen, day, task, spelling)
            drafts = [(conversation.draft(Recipe, dict(each)).ref, each) for each in task.drafts]
            labels = {spelling.one(ref): str(content["name"]) for ref, content in drafts}
            model = self._model or self._scripted(task, arm, number, labels, hands)
            messages, stopped = await self._talk(model, arm, hands, labels)
            met = task.end.is_met(self._kitchen.rows, day.changes())
        conversation.forget()
        tokens = counted(messages, self._agent(arm)[1], tokenizer())
        trial = Trial(
            task.name,
            task.family,
            arm.name,
            number,
            met=met,
            strays=hands.strays,
            slips=dict(hands.slips),
            refused=hands.refused,
            calls=hands.calls,
            requests=sum(isinstance(each, ModelResponse) for each in messages),
            tokens_in=tokens.read,
            tokens_out=tokens.written,
            tokens_new=tokens.new,
            cost=self._cost(messages),
            stopped=stopped,
        )
        return trial, messages

    def _cost(self, messages: Sequence[ModelMessage]) -> float:
        usages = [each.usage for each in messages if isinstance(each, ModelResponse)]
        read, written = self._prices
        return sum(u.input_tokens * read + u.output_tokens * written for u in usages) / 1_000_000

    async def _talk(
        self, model: Model, arm: Arm, hands: Hands, drafts: Mapping[Id, str]
    ) -> tuple[Sequence[ModelMessage], bool]:
        """Say what the user says, turn by turn; tell whether the model had to be stopped."""
        agent, _ = self._agent(arm)
        messages: list[ModelMessage] = []
        for number, said in enumerate(hands.task.turns):
            if number == 0 and drafts:
                listed = ", ".join(f"{id_!r} ({label})" for id_, label in drafts.items())
                told = f"{said}\n\nDrafts of recipes: {listed}."
            else:
                told = said
            try:
                with capture_run_messages() as captured:
                    await agent.run(
                        told,
                        model=model,
                        deps=hands,
                        message_history=messages,
                        usage_limits=UsageLimits(request_limit=MOST_REQUESTS),
                    )
            except UsageLimitExceeded:
                return captured, True
            messages = list(captured)
        return messages, False

    def _scripted(
        self, task: Task, arm: Arm, number: int, drafts: Mapping[Id, str], hands: Hands
    ) -> Model:
        noise = self._noise
        seed = f"{noise.seed} {task.name} {number}"
        clerk = Clerk(
            arm.toolset,
            Channel(noise.rates, random.Random(seed)),  # noqa: S311  # no secret
            random.Random(f"{seed} along"),  # noqa: S311
            vouches=arm.vouches,
            along=noise.along,
            notices=noise.notices,
        )
        for id_, label in drafts.items():
            clerk.tell("recipe", id_, label)
        return scripted(task.program(clerk), clerk, hands.note)

    def _agent(self, arm: Arm) -> tuple[Agent[Hands], int]:
        """Return the agent of an arm, and the tokens of its tools and rules."""
        if arm.name not in self._agents:
            desk = arm.toolset.bind(self._kitchen.sessions, registry=self._registry, by=None)
            tools = RefToolset[Hands](desk, lambda ctx: (ctx.deps.chat, ctx.deps.kitchen.user))
            agent = Agent(deps_type=Hands, toolsets=[SpeltToolset(tools)], instructions=RULES)
            told = [_told(SPELLINGS[arm.spelling], each) for each in desk.schemas("openai")]
            self._agents[arm.name] = agent, tokenizer()(RULES + json.dumps(told))
        return self._agents[arm.name]


@cache
def _texts(spelling: type[Spelling], definition: str) -> str:
    return _EXAMPLE.sub(lambda found: spelling.example(found[1]), definition)


_EXAMPLE = re.compile(r"'((?:gen_)?[a-z_]+_1)'")


def _told(spelling: type[Spelling], definition: Any) -> Any:
    """Return a definition with examples of ids in a spelling."""
    return json.loads(_texts(spelling, json.dumps(definition, ensure_ascii=False)))


def _spelt(spelling: type[Spelling], tool: ToolDefinition) -> ToolDefinition:
    schema = _told(spelling, tool.parameters_json_schema)
    description = _texts(spelling, tool.description or "")
    return replace(tool, parameters_json_schema=schema, description=description)
