"""The scripted model as a model of pydantic-ai: it reads messages, and answers by its program.

    await agent.run("'Beef Goulash' serves 8.", model=scripted(task.program(clerk), clerk))

It sees what any model sees: what tools answered comes out of the messages, and goes into the
program as it is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from evals.clerk import Clerk
from evals.steps import Answer, Call, GivesUp, Program, Refused, Said

Calling = Callable[[Call], None]


def scripted(program: Program, clerk: Clerk, calling: Calling) -> FunctionModel:
    """Return a model that does a program.

    Args:
        program: its steps.
        clerk: who does them.
        calling: is told of each call that it makes.
    """
    begun = False

    async def step(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        nonlocal begun
        answer = _answered(messages)
        clerk.turn += answer is None
        try:
            wanted = program.send(answer) if begun else next(program)
        except (GivesUp, StopIteration):
            wanted = Said("That cannot be done.")
        begun = True
        if isinstance(wanted, Said):
            return ModelResponse([TextPart(wanted.text)])
        calling(wanted)
        text = json.dumps(wanted.arguments, ensure_ascii=False, separators=(",", ":"))
        return ModelResponse([ToolCallPart(wanted.tool, text)])

    return FunctionModel(step, model_name="scripted")


def _answered(messages: list[ModelMessage]) -> Answer:
    """Return what came last: what a tool told, or nothing where the user spoke."""
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart):
        return None
    if not isinstance(last, ToolReturnPart):
        return Refused(str(last))
    if last.outcome != "success":
        return Refused(str(last.content))
    content: Any = last.content
    answer: dict[str, Any] = json.loads(content) if isinstance(content, str) else content
    return answer
