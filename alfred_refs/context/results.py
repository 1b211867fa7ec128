"""What steps and calls have left, as lines of a prompt.

What was kept of a step comes in, or a call with its answer; a line goes out. Rows of an answer
that the prompt tells of anyhow stand there as their refs alone: nothing is said twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any

from pydantic import BaseModel

from alfred_refs.store import StepEntry

from .prompts import Called
from .rendering import quoted

_LONGEST = 4_000  # characters of what a step or a call left

_LETTER = re.compile(r"[A-Za-z0-9_]")
_LAST_WORD = re.compile(r"[A-Za-z0-9_]{1,200}\Z")

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


def call_of(called: Called, told: Container[str], ref_fields: Mapping[str, str]) -> str:
    """Return a call of this step and its answer, in two lines.

    Args:
        called: with what, and what was answered.
        told: the refs of rows that the prompt tells of with their data.
        ref_fields: in which the rows of each table show their refs.
    """
    params = called.params
    if isinstance(params, BaseModel):
        params = params.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    answer = called.answer
    if isinstance(answer, dict) and "rows" in answer and answer.get("table") in ref_fields:
        field = ref_fields[answer["table"]]
        answer = {**answer, "rows": [_ref_of(row, field, told) or row for row in answer["rows"]]}
    return f"- {called.tool} {_short(quoted(params))}\n  answered {_short(quoted(answer))}"


def _ref_of(row: Any, field: str, told: Container[str]) -> str | None:
    """Return the ref of a row that the prompt tells of."""
    ref = row.get(field) if isinstance(row, dict) else None
    return ref if isinstance(ref, str) and ref in told else None


def _short(text: str) -> str:
    """Return as much as there is room for: no part of a ref, which would be another row's."""
    if len(text) <= _LONGEST:
        return text
    kept = text[:_LONGEST]
    if _LETTER.match(text, _LONGEST):
        kept = _LAST_WORD.sub("", kept)
    return f"{kept}… ({len(text) - len(kept)} more characters)"
