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

Each action is a separate pydantic model with exactly its fields, and the parameters of a call are
validated by the tool's arguments. So an invalid decision fails immediately, not one step later.
Agent frameworks accept the type as an output type: as a whole, or its `choices`, one model per
action.

The prompts before the steps have their own decisions. An `UnderstandDecision` contains the rows of
the user's message, the rows to retain, and the user's requirements; a `ThinkDecision` contains the
steps of a plan. Only tables of the toolset and texts in the form of refs are valid:

>>> answer = {"referenced": ["recipe_1"], "quick": None, "constraints": ["for eight"]}
>>> understand_type(toolset).model_validate(answer).constraints
['for eight']
>>> step = {"type": "read", "goal": "find the soups", "tables": ["recipes"]}
>>> think_type(toolset).model_validate({"steps": [step]}).steps[0].goal
'find the soups'

Refs are not looked up in the conversation here; tools do that when they are called, and
`Context.curate` does for an `UnderstandDecision`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    StringConstraints,
    create_model,
    model_validator,
)

from alfred_refs.errors import ContextError
from alfred_refs.mapping import is_storable, parse_draft_ref, parse_ref
from alfred_refs.tools import TOOLS, Toolset

StepType = Literal["read", "write", "analyze", "generate"]
"""The kinds of steps: look rows up, change them, analyze them, or generate content."""

STEP_TYPES: tuple[StepType, ...] = get_args(StepType)


class ReasonCode(StrEnum):
    """The reason why a step cannot be done.

    Example:
        >>> ReasonCode("PLAN_INVALID").name
        'PLAN_INVALID'
    """

    INSUFFICIENT_INFO = "INSUFFICIENT_INFO"
    PLAN_INVALID = "PLAN_INVALID"
    TOOL_FAILURE = "TOOL_FAILURE"


class SuggestedNext(StrEnum):
    """The suggestion of a blocked step: a question to the user, a new plan, or giving up.

    Example:
        >>> [each.value for each in SuggestedNext]
        ['ask_user', 'replan', 'fail']
    """

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
    """Content that is kept as a draft until it is saved; it gets a ref of its own.

    Attributes:
        table: the table in which it will be a row.
        data: its content, by column.
        label: its label.
    """

    table: str
    data: dict[str, JsonValue]
    label: str | None = None


class Generated(StepComplete):
    """The step is done, with new content."""

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
    """The step has failed, and should not be repeated."""

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
        """The arguments for the tool: the parameters that were set, as JSON."""
        return self.params.model_dump(mode="json", by_alias=True, exclude_unset=True)


Action = ToolCall | StepComplete | AskUser | Blocked | Fail
"""The actions of all kinds of steps."""

# type of step -> the tools that it may call
_CALLING: Mapping[StepType, Container[str]] = {"read": ("db_read",), "write": TOOLS}

if TYPE_CHECKING:
    _Root = RootModel[Action]
else:
    _Root = RootModel


class ActDecision(_Root):
    """The decision of a model in a step; `decision_type` returns the subclass for a step.

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


def _check_ref(text: str) -> str:
    if parse_ref(text) is None:
        raise ValueError("give a ref exactly as it is shown")
    return text


def _check_row_ref(text: str) -> str:
    if parse_ref(text) is None or parse_draft_ref(text) is not None:
        raise ValueError("give the ref of a row exactly as it is shown")
    return text


def _check_line(text: str) -> str:
    if not is_storable(text):
        raise ValueError("leave out the characters that cannot be stored")
    return text


AnyRef = Annotated[str, AfterValidator(_check_ref)]
RowRef = Annotated[str, AfterValidator(_check_row_ref)]
# line ends inside are kept, because a key split by a line end is found and one split by a space is
# not
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_check_line)
]


class Curated(_Action):
    """A row that is to be shown longer, or no longer.

    Attributes:
        ref: the ref of the row; drafts are shown for as long as they are pending.
        reason: the reason.
    """

    ref: RowRef
    reason: Line


class Quick(_Action):
    """The user's question, if one read of one table answers it, with the criteria for that.

    Attributes:
        table: the only table that is read.
        goal: what is to be found.
        read_only: nothing is changed and nothing is made.
        in_database: rows have the answer: no general knowledge, advice or opinion is needed.
    """

    table: str
    goal: Line
    read_only: bool
    in_database: bool


class UnderstandDecision(_Action):
    """The meaning of a user's message; `understand_type` returns the subclass for a toolset.

    Attributes:
        referenced: the refs of the rows and drafts that the message is about.
        retain: rows that later turns need.
        demote: rows that are no longer of interest.
        drop: rows whose activity is deleted.
        constraints: the user's requirements for the result.
        quick: the question, if one read answers it.

    Example:
        >>> answer = '{"referenced": ["recipe_1"], "retain": [{"ref": "recipe_1", "reason": "x"}]}'
        >>> decision = understand_type(toolset).model_validate_json(answer)
        >>> decision.referenced, decision.retain[0].ref, decision.quick
        (['recipe_1'], 'recipe_1', None)
    """

    referenced: list[AnyRef] = []
    retain: list[Curated] = []
    demote: list[Curated] = []
    drop: list[Curated] = []
    constraints: list[Line] = []
    quick: Quick | None = None

    @model_validator(mode="after")
    def _check_once(self) -> UnderstandDecision:
        refs = Counter(each.ref for each in (*self.retain, *self.demote, *self.drop))
        twice = [ref for ref, count in refs.items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} is in more than one of retain, demote and drop")
        return self


class PlannedStep(_Action):
    """One step of a plan.

    Attributes:
        type: the type of the step.
        goal: its goal.
        tables: the tables that it reads or changes.
        refs: the refs of the rows and drafts that it is about.
    """

    type: StepType
    goal: Line
    tables: list[str] = []
    refs: list[AnyRef] = []


class ThinkDecision(_Action):
    """The plan of a turn; `think_type` returns the subclass for a toolset.

    Attributes:
        steps: in order; `Step.planned` makes steps of them.

    Example:
        >>> answer = '{"steps": [{"type": "write", "goal": "save it", "refs": ["gen_recipe_1"]}]}'
        >>> think_type(toolset).model_validate_json(answer).steps[0].refs
        ['gen_recipe_1']
    """

    steps: list[PlannedStep] = Field(min_length=1)


def understand_type(toolset: Toolset | None = None) -> type[UnderstandDecision]:
    """Return the decision type for understanding a message, cached per toolset.

    Args:
        toolset: names of tables and entities of refs must be in it; `None` for no check.

    Example:
        >>> table = {"table": "users", "goal": "x", "read_only": True, "in_database": True}
        >>> understand_type(toolset).model_validate({"quick": table})
        Traceback (most recent call last):
            ...
        pydantic_core._pydantic_core.ValidationError: 1 validation error for ...
    """
    if toolset is None:
        return UnderstandDecision
    return toolset.memo("understand", lambda: _understand_type(toolset))


def _understand_type(toolset: Toolset) -> type[UnderstandDecision]:
    row, ref_list = _ref_types(toolset)
    tables: Any = _table_type(toolset)
    curated: Any = create_model("Curated", __base__=Curated, ref=(row, ...))
    quick: Any = create_model("Quick", __base__=Quick, table=(tables, ...))
    made: type[UnderstandDecision] = create_model(
        "UnderstandDecision",
        __base__=UnderstandDecision,
        __doc__=UnderstandDecision.__doc__,
        referenced=(ref_list, []),
        retain=(list[curated], []),
        demote=(list[curated], []),
        drop=(list[curated], []),
        quick=(quick | None if toolset.tables.names else None, None),
    )
    return made


def think_type(toolset: Toolset | None = None) -> type[ThinkDecision]:
    """Return the decision type for planning a turn, cached per toolset.

    Args:
        toolset: names of tables and entities of refs must be in it, and steps of type `write` need
            a tool that writes; `None` for no check.

    Example:
        >>> step = {"type": "read", "goal": "find my soups", "tables": ["users"]}
        >>> think_type(toolset).model_validate({"steps": [step]})
        Traceback (most recent call last):
            ...
        pydantic_core._pydantic_core.ValidationError: 1 validation error for ...
    """
    if toolset is None:
        return ThinkDecision
    return toolset.memo("think", lambda: _think_type(toolset))


def _think_type(toolset: Toolset) -> type[ThinkDecision]:
    _, ref_list = _ref_types(toolset)
    tables: Any = _table_type(toolset)
    writes = any(not toolset.reads(name) for name in tool_names(decision_type("write", toolset)))
    types: Any = Literal[tuple(each for each in STEP_TYPES if writes or each != "write")]
    step: Any = create_model(
        "PlannedStep",
        __base__=PlannedStep,
        type=(types, ...),
        tables=(list[tables], []),
        refs=(ref_list, []),
    )
    return create_model(
        "ThinkDecision",
        __base__=ThinkDecision,
        __doc__=ThinkDecision.__doc__,
        steps=(list[step], Field(min_length=1)),
    )


def _table_type(toolset: Toolset) -> Any:
    """Return the type of table names; without tables, no value is valid."""
    names = tuple(toolset.tables.names)
    return Literal[names] if names else Annotated[str, Field(min_length=1, max_length=0)]


def _ref_types(toolset: Toolset) -> tuple[Any, Any]:
    """Return the types of a row's ref, and of a list of refs including drafts."""
    known = toolset.tables.shown

    def check(text: str) -> str:
        ref = parse_ref(text)
        if ref is None or ref.entity not in known:
            raise ValueError("there are no rows of that kind; give a ref exactly as it is shown")
        return text

    row: Any = Annotated[RowRef, AfterValidator(check)]
    ref: Any = Annotated[AnyRef, AfterValidator(check)] if toolset.drafts else row
    return row, list[ref]


def decision_type(step: StepType, toolset: Toolset | None = None) -> type[ActDecision]:
    """Return the decision type for a type of step, cached per toolset.

    Args:
        step: the type of the step.
        toolset: the tools and tables that a decision may use; `None` for no calls.

    Raises:
        ContextError: the type of step is unknown.

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
    """Return the union of several types, with a field as discriminator."""
    if len(types) == 1:
        return types[0]
    return Annotated[reduce(or_, types), Field(discriminator=field)]


def check_step_type(step: str) -> None:
    """Check that a type of step exists.

    Raises:
        ContextError: it does not exist.
    """
    if step not in STEP_TYPES:
        known = ", ".join(map(repr, STEP_TYPES))
        raise ContextError(f"a step of type {step!r}", f"choose one of {known}")


def _tables(toolset: Toolset) -> dict[str, tuple[str, ...]]:
    """Return the tables for each tool on tables."""
    return {
        each["name"]: tuple(each["inputSchema"]["properties"]["table"]["enum"])
        for each in toolset.schemas("mcp", describe=False)
        if each["name"] in TOOLS
    }


def _completion_type(toolset: Toolset) -> type[StepComplete]:
    """Return the completion type of a step that may make drafts for a toolset."""
    if not toolset.draft_tables:
        return StepComplete
    names: Any = Literal[tuple(toolset.draft_tables)]
    draft: Any = create_model("NewDraft", __base__=NewDraft, table=(names, ...))
    return create_model(
        "Generated",
        __base__=Generated,
        __doc__=Generated.__doc__,
        drafts=(list[draft], Field(default=[], description="what was made, without refs")),
    )


def _calls(step: StepType, toolset: Toolset) -> list[type[ToolCall]]:
    """Return the types of the tool calls that a step may make."""
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
