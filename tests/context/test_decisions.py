"""What a step may answer: checked where the model made it."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from alfred_refs import ContextError
from alfred_refs.context import UnderstandDecision, decision_type
from alfred_refs.context.decisions import STEP_TYPES, ReasonCode, StepType
from alfred_refs.tools import DbDelete, Ref, Toolset
from tests.tools.conftest import MODELS
from tests.tools.models import Dish

TOOLSET = Toolset(
    MODELS, read_only=[each for each in MODELS if each is not Dish], expect="optional"
)
READ = {"action": "tool_call", "tool": "db_read", "params": {"table": "cuisines"}}
WRITE = {
    "action": "tool_call",
    "tool": "db_create",
    "params": {"table": "dishes", "data": {"name": "x"}},
}
ENDS: list[dict[str, Any]] = [
    {"action": "step_complete", "result_summary": "done", "data": {"a": ["recipe_1"]}},
    {"action": "ask_user", "question": "which?"},
    {
        "action": "blocked",
        "reason_code": "PLAN_INVALID",
        "details": "no",
        "suggested_next": "replan",
    },
    {"action": "fail", "reason_code": "TOOL_FAILURE", "details": "no"},
]


def is_valid(step: StepType, answer: dict[str, Any]) -> bool:
    """Tell whether a step may answer so."""
    try:
        decision_type(step, TOOLSET).model_validate(answer)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("step", STEP_TYPES)
def test_which_tools_a_step_may_call_depends_on_its_type(step: StepType) -> None:
    """A step that thinks or makes content calls none; one that reads writes nothing."""
    assert is_valid(step, READ) == (step in ("read", "write"))
    assert is_valid(step, WRITE) == (step == "write")
    assert all(is_valid(step, end) for end in ENDS)


@pytest.mark.parametrize(
    "answer",
    [
        {**READ, "params": {"table": "nothing"}},
        {**READ, "params": {"table": "dishes", "unknown": 1}},
        {**READ, "tool": "db_drop"},
        {"action": "tool_call", "tool": "db_delete", "params": {"table": "dishes"}},
        {**WRITE, "params": {"table": "cuisines", "data": {"name": "x"}}},
        {**ENDS[1], "data": 1},
        {**ENDS[2], "reason_code": "TIRED"},
        {**ENDS[2], "suggested_next": "sleep"},
        {"action": "ask_user", "question": ""},
        {"action": "dance"},
        {},
    ],
)
def test_what_cannot_be_done_is_refused(answer: dict[str, Any]) -> None:
    """Other tables, fields, tools, actions and reasons; a delete without filters."""
    assert not is_valid("write", answer)


def test_a_call_has_the_arguments_of_the_tool() -> None:
    """As the tool itself takes them."""
    call = {"field": "name", "op": "=", "value": "x"}
    answer = {
        "action": "tool_call",
        "tool": "db_delete",
        "params": {"table": "dishes", "filters": [call]},
    }
    decision = decision_type("write", TOOLSET).model_validate(answer)
    made: Any = decision.root
    assert isinstance(made.params, DbDelete)
    assert made.arguments == answer["params"]


def test_a_step_that_makes_content_gives_drafts() -> None:
    """Of tables that can be written, and of no others."""
    made = {"table": "dishes", "data": {"name": "Soup"}, "label": "Soup"}
    end = {**ENDS[0], "drafts": [made]}
    assert is_valid("generate", end)
    assert not is_valid("analyze", end)
    assert not is_valid("generate", {**end, "drafts": [{**made, "table": "cuisines"}]})


def test_reasons_are_those_that_there_are() -> None:
    """An enumeration."""
    assert [code.value for code in ReasonCode] == [
        "INSUFFICIENT_INFO",
        "PLAN_INVALID",
        "TOOL_FAILURE",
    ]


def test_without_a_toolset_no_tool_is_called() -> None:
    """The other answers stay."""
    assert len(decision_type("write").choices) == len(ENDS)


def test_an_unknown_type_of_step_is_refused() -> None:
    """With those that there are."""
    unknown: Any = "dance"
    with pytest.raises(ContextError, match="'read', 'write', 'analyze', 'generate'"):
        decision_type(unknown)


def test_its_schema_can_be_given_to_a_client() -> None:
    """One of the actions, told apart by a field."""
    schema = decision_type("read", TOOLSET).model_json_schema()
    assert schema["discriminator"]["propertyName"] == "action"
    assert get_args(StepType) == STEP_TYPES


def test_the_type_for_a_toolset_is_made_once() -> None:
    """A prompt is made for each step; pydantic takes ten milliseconds for a type."""
    assert decision_type("write", TOOLSET) is decision_type("write", TOOLSET)
    assert decision_type("write", TOOLSET) is not decision_type("write", Toolset(MODELS))


def test_tools_of_the_application_are_called_too() -> None:
    """Those that change nothing in steps that read; their types are told, with refs."""
    toolset = Toolset(MODELS)
    before = decision_type("read", toolset)

    @toolset.tool(read_only=True)
    def look(dish: Ref[Dish], often: int = 1) -> None:
        """Look at a dish."""

    @toolset.tool
    def serve(dish: Ref[Dish]) -> None:
        """Serve a dish."""

    asked = {"action": "tool_call", "tool": "look", "params": {"dish": "dish_1"}}
    made: Any = decision_type("read", toolset).model_validate(asked).root
    assert made.arguments == {"dish": "dish_1"}
    schema = json.dumps(decision_type("read", toolset).model_json_schema())
    assert "ref of a Dish" in schema
    assert "serve" not in schema
    assert "serve" in json.dumps(decision_type("write", toolset).model_json_schema())
    assert "look" not in json.dumps(decision_type("generate", toolset).model_json_schema())
    with pytest.raises(ValidationError):
        before.model_validate(asked)


def test_lines_can_be_stored() -> None:
    """A reason or constraint with NUL is refused before it comes to the registry."""
    for given in ({"retain": [{"ref": "recipe_1", "reason": "a\0b"}]}, {"constraints": ["a\0b"]}):
        with pytest.raises(ValidationError, match="cannot be stored"):
            UnderstandDecision.model_validate(given)
