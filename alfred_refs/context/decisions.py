"""Decision types: pydantic models for the structured output of a step.

>>> Decision = decision_type("read", toolset)
>>> call = {"action": "tool_call", "tool": "db_read", "params": {"table": "recipes"}}
>>> Decision.model_validate(call).root.tool
'db_read'
>>> Decision.model_validate({"action": "ask_user", "question": "which week?"}).root.question
'which week?'

Which actions a decision may have depends on the type of the step:

| step | actions |
| --- | --- |
| `read` | `tool_call` of `db_read` and of the toolset's own tools that only read |
| `write` | `tool_call` of all tools |
| `generate` | `step_complete` with drafts |
| all | `step_complete`, `ask_user`, `blocked`, `fail` |

Each action is a model of its own with exactly its fields, and the parameters of a call are
validated by the tool's arguments. So an invalid decision fails where the model made it, not one
step later. Agent frameworks accept the type as an output type: as a whole, or its `choices`, one
model per action.

Refs in a decision are not resolved here; a tool does that when it is called.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel, create_model

from alfred_refs.errors import ContextError
from alfred_refs.tools import TOOLS, Toolset

StepType = Literal["read", "write", "analyze", "generate"]
"""What a step does: look rows up, change them, think about them, or make content."""

STEP_TYPES: tuple[StepType, ...] = get_args(StepType)


class ReasonCode(StrEnum):
    """Why a step cannot be done."""

    INSUFFICIENT_INFO = "INSUFFICIENT_INFO"
    PLAN_INVALID = "PLAN_INVALID"
    TOOL_FAILURE = "TOOL_FAILURE"


class SuggestedNext(StrEnum):
    """What a step that is blocked suggests: to ask the user, to plan anew, or to give up."""

    ASK_USER = "ask_user"
    REPLAN = "replan"
    FAIL = "fail"


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepComplete(_Action):
    """The step is done."""

    action: Literal["step_complete"]
    result_summary: str = Field(min_length=1, description="what was done, in a sentence or two")
    data: JsonValue = Field(default=None, description="what later steps need of it, in refs")
    note_for_next_step: str | None = Field(default=None, description="what the next must know")


class NewDraft(_Action):
    """Content that is to be kept until it is saved; it gets a ref of its own.

    Attributes:
        table: what it is to become a row of.
        data: its content, by column.
        label: what people are to call it.
    """

    table: str
    data: dict[str, JsonValue]
    label: str | None = None


class Generated(StepComplete):
    """The step is done, and has made content."""

    drafts: list[NewDraft] = Field(default=[], description="what was made, without refs")


class AskUser(_Action):
    """The user must be asked first."""

    action: Literal["ask_user"]
    question: str = Field(min_length=1)


class Blocked(_Action):
    """The step cannot be done as things are."""

    action: Literal["blocked"]
    reason_code: ReasonCode
    details: str = Field(min_length=1)
    suggested_next: SuggestedNext | None = None


class Fail(_Action):
    """The step went wrong, and should not be tried again."""

    action: Literal["fail"]
    reason_code: ReasonCode
    details: str = Field(min_length=1)


class ToolCall(_Action):
    """A tool is to be called, and the step goes on with its answer.

    Attributes:
        tool: its name.
        params: its arguments, checked.
    """

    action: Literal["tool_call"]
    tool: str
    params: BaseModel

    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool is to be called with: the parameters that were given, as JSON."""
        return self.params.model_dump(mode="json", by_alias=True, exclude_unset=True)


Action = ToolCall | StepComplete | AskUser | Blocked | Fail
"""What a step may answer, whatever it is."""

# the steps that may call tools, and which they may call
_CALLING: Mapping[StepType, Container[str]] = {"read": ("db_read",), "write": TOOLS}

if TYPE_CHECKING:
    _Root = RootModel[Action]
else:
    _Root = RootModel


class ActDecision(_Root):
    """What a step answers; `decision_type` returns the subclass for a step.

    Attributes:
        root: the action.
        step: the type of the step.
        choices: the actions that there are.

    Example:
        >>> answer = '{"action": "ask_user", "question": "Which week?"}'
        >>> decision = decision_type("read", toolset).model_validate_json(answer)
        >>> isinstance(decision, ActDecision), decision.step, decision.root.question
        (True, 'read', 'Which week?')
    """

    step: ClassVar[StepType]
    choices: ClassVar[tuple[type[BaseModel], ...]]


def decision_type(step: StepType, toolset: Toolset | None = None) -> type[ActDecision]:
    """Return the type of what a step of this type may answer: made once for a toolset.

    Args:
        step: its type.
        toolset: whose tools and tables may be used; without one no tool is called.

    Raises:
        ContextError: there is no such type of step.

    Example:
        >>> call = {"action": "tool_call", "tool": "db_read", "params": {"table": "recipes"}}
        >>> decision_type("read", toolset).model_validate(call).root.params.table
        'recipes'
        >>> [choice.__name__ for choice in decision_type("analyze").choices]
        ['StepComplete', 'AskUser', 'Blocked', 'Fail']
    """
    check_step_type(step)
    if toolset is None:
        return _make_decision(step, None)
    return toolset.memo(("decision", step), lambda: _make_decision(step, toolset))


def tool_names(decision: type[ActDecision]) -> list[str]:
    """Return the names of the tools that a decision may call."""
    calls = (each for each in decision.choices if issubclass(each, ToolCall))
    return [name for call in calls for name in get_args(call.model_fields["tool"].annotation)]


def _make_decision(step: StepType, toolset: Toolset | None) -> type[ActDecision]:
    calls = [] if toolset is None else _calls(step, toolset)
    done = StepComplete if toolset is None or step != "generate" else _completion_type(toolset)
    ends = (done, AskUser, Blocked, Fail)
    made = create_model(
        f"{step.capitalize()}Decision",
        __base__=ActDecision,
        __doc__=f"What a step of type {step!r} answers.",
        root=(_one_of("action", [*([_one_of("tool", calls)] if calls else []), *ends]), ...),
    )
    made.step, made.choices = step, (*calls, *ends)
    return made


def _one_of(field: str, types: Sequence[Any]) -> Any:
    """Return the type of what is one of several, told apart by a field."""
    if len(types) == 1:
        return types[0]
    return Annotated[reduce(or_, types), Field(discriminator=field)]


def check_step_type(step: str) -> None:
    """Check that there are steps of this type.

    Raises:
        ContextError: there are none.
    """
    if step not in STEP_TYPES:
        known = ", ".join(map(repr, STEP_TYPES))
        raise ContextError(f"a step of type {step!r}", f"choose one of {known}")


def _tables(toolset: Toolset) -> dict[str, tuple[str, ...]]:
    """Return the tables that each tool on tables may be called with."""
    return {
        each["name"]: tuple(each["inputSchema"]["properties"]["table"]["enum"])
        for each in toolset.schemas("mcp", describe=False)
        if each["name"] in TOOLS
    }


def _completion_type(toolset: Toolset) -> type[StepComplete]:
    """Return the type of the end of a step that may make drafts of a toolset's rows."""
    tables = _tables(toolset).get("db_create", ())
    if not tables or not toolset.drafts:
        return StepComplete
    names: Any = Literal[tables]
    draft: Any = create_model("NewDraft", __base__=NewDraft, table=(names, ...))
    return create_model(
        "Generated",
        __base__=Generated,
        __doc__=Generated.__doc__,
        drafts=(list[draft], Field(default=[], description="what was made, without refs")),
    )


def _calls(step: StepType, toolset: Toolset) -> list[type[ToolCall]]:
    """Return the types of the calls of a toolset's tools that a step may make."""
    tables = _tables(toolset)
    made = []
    for tool, arguments in TOOLS.items():
        if tool in _CALLING.get(step, ()) and tool in tables:
            names: Any = Literal[tables[tool]]
            made.append(
                _call(
                    tool, create_model(arguments.__name__, __base__=arguments, table=(names, ...))
                )
            )
    own = toolset.functions.values() if step in _CALLING else ()
    made += [_call(each.name, each.arguments) for each in own if each.reads or step == "write"]
    return made


def _call(tool: str, params: type[BaseModel]) -> type[ToolCall]:
    name: Any = Literal[tool]
    return create_model(
        f"Call{params.__name__}",
        __base__=ToolCall,
        __doc__=f"A call of {tool}.",
        tool=(name, ...),
        params=(params, ...),
    )
