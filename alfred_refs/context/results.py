"""What steps and calls have left, as lines of a prompt.

What was kept of a step comes in, or a call with its answer; a line goes out. Rows of an answer
that the prompt tells of anyhow stand there as their refs alone: nothing is said twice.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from alfred_refs.store import StepEntry

from .prompts import Called
from .rendering import quoted
from .views import ContextView

_LONGEST = 4_000  # characters of what a step or a call left

_ENDED = {
    "step_complete": "result_summary",
    "ask_user": "question",
    "blocked": "details",
    "fail": "details",
}


def left_by(step: StepEntry) -> dict[str, Any]:
    """Return what a step left, by field."""
    left: dict[str, Any] = json.loads(step.content)
    return left


def result_of(step: StepEntry, name: str, *, whole: bool = False) -> str:
    """Return what a step left, in a line.

    Args:
        step: which one.
        name: what it is called.
        whole: with its data.
    """
    left = left_by(step)
    action = left.get("action", "")
    said = left.get(_ENDED.get(action, ""), "")
    line = f"- {name} ({left.get('type')}, {action.replace('_', ' ')}): {quoted(said)}"
    if left.get("drafts"):
        line += f", drafts {', '.join(left['drafts'])}"
    if whole and left.get("data") is not None:
        line += f"\n  {_short(quoted(left['data']))}"
    return line


def call_of(called: Called, view: ContextView) -> str:
    """Return a call of this step and its answer, in two lines."""
    params = called.params
    if isinstance(params, BaseModel):
        params = params.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    told = {each.ref for each in view.active if each.data is not None}
    answer = called.answer
    if isinstance(answer, dict) and "rows" in answer:
        rows = [_ref_in(row, told) for row in answer["rows"]]
        answer = {**answer, "rows": rows}
    return f"- {called.tool} {_short(quoted(params))}\n  answered {_short(quoted(answer))}"


def _ref_in(row: Any, told: set[str]) -> Any:
    """Return the ref of a row that is told of, which its first value is; else the row."""
    ref = next(iter(row.values()), None) if isinstance(row, dict) else None
    return ref if isinstance(ref, str) and ref in told else row


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more characters)"
