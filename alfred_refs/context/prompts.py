"""The prompt of one step: its parts, their order, and the templates of fixed text.

    prompt = context.prompt(Step("write", "save the menu", number=2, of=4), exchanges=[...])
    answer = model(system=prompt.system, user=prompt.user)
    decision = prompt.decision.model_validate_json(answer)

The application passes a `Step`, and `Exchange`, `Called` and `Item` objects. `Material` contains
the input of a prompt, and `Prompt` is the result. The table `PARTS` defines the order of the
parts, and the types of step that have them. Parts that never change come first and those that
change in every step last, because providers cache prompts by their prefix.

>>> [part.name for part in PARTS][:3]
['header', 'guidance', 'status']

`Templates` reads the fixed texts, Markdown rendered by Jinja (`pip install alfred_refs[prompts]`).
An application replaces any of them by a file of the same name in its own directory:

>>> Templates().text("read") != ""
True

An unknown variable in a template is an error, not an empty string.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel

from alfred_refs.context.decisions import (
    ActDecision,
    StepType,
    ThinkDecision,
    ToolCall,
    UnderstandDecision,
    check_step_type,
    tool_names,
)
from alfred_refs.context.instructions import Instructions, write_type
from alfred_refs.context.views import inert, quote_json
from alfred_refs.errors import ContextError, TemplateError
from alfred_refs.mapping import parse_ref, redact_keys

if TYPE_CHECKING:
    from jinja2 import Environment


NAMES = (
    *("base", "crud", "read", "write", "analyze", "generate", "decision"),
    *("understand", "think"),
)
"""The names of all templates, each a file with the suffix `.md`."""


def _jinja() -> Any:
    """Return the module `jinja2`, which is in an extra.

    Raises:
        ContextError: it is not installed.
    """
    try:
        return import_module("jinja2")
    except ModuleNotFoundError as error:
        raise ContextError(
            f"prompts need {error.name}", "run `pip install 'alfred-refs[prompts]'`"
        ) from error


@cache
def _environment(directory: Path | None) -> Environment:
    """Return the Jinja environment for a directory's templates and ours.

    Contexts share it, because compiling a template takes longer than rendering it ten times.
    """
    jinja2 = _jinja()
    own = [] if directory is None else [jinja2.FileSystemLoader(directory)]
    ours = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment: Environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*own, ours]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown for a model; users' text is quoted
    )
    return environment


class Templates:
    """The templates of one application.

    Args:
        directory: the directory of files that replace ours, one by one; `None` for ours alone.

    Raises:
        ContextError: the directory does not exist, or has a file that replaces nothing.
        TemplateError: one of its files is invalid.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = None if directory is None else Path(directory)
        if self._directory is not None:
            self._check(self._directory)

    def _check(self, directory: Path) -> None:
        if not directory.is_dir():
            raise ContextError(
                f"the directory of templates {str(directory)!r} is not there",
                "give one with files such as base.md, or none",
            )
        for file in sorted(directory.glob("*.md")):
            if file.stem not in NAMES:
                known = ", ".join(f"{name}.md" for name in NAMES)
                raise ContextError(
                    f"{file.name!r} replaces no template", f"name it one of {known}"
                )
            self._template(file.stem)

    def _template(self, name: str) -> Any:
        jinja2 = _jinja()
        try:
            return _environment(self._directory).get_template(f"{name}.md")
        except (jinja2.TemplateSyntaxError, UnicodeDecodeError) as error:
            raise TemplateError(name, f"is broken: {error}", "correct it") from error

    def text(self, name: str, instructions: Instructions | None = None, **values: Any) -> str:
        """Render a template.

        Args:
            name: the name of the template.
            instructions: its variables for the toolset; none by default.
            values: its other variables.

        Raises:
            TemplateError: the template is invalid, or uses an undefined variable.
        """
        values |= (instructions or Instructions()).values()
        template = self._template(name)
        try:
            return str(template.render(**values)).strip()
        except _jinja().TemplateError as error:
            given = ", ".join(values) or "nothing"
            raise TemplateError(name, f"fails: {error}", f"it is given {given}") from error


_SHOWN = 60  # characters of a value in an error


def _check_ref(ref: str, what: str) -> None:
    """Check that a text is a ref, because prompts show it unquoted.

    Raises:
        ContextError: it is not.
    """
    if parse_ref(ref) is None:
        raise ContextError(
            f"{what} was given {redact_keys(ref)[:_SHOWN]!r} as its ref",
            "give the ref of a row or draft",
        )


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the batch of a write step.

    Attributes:
        text: the item in words.
        done: whether it is written.
        ref: the ref of its row or draft, if it has one.

    Example:
        >>> batch = [Item("Soup", done=True, ref="recipe_1"), Item("Curry")]
        >>> prompt = Context(chat).prompt(Step("write", "save the menu", batch=batch))
        >>> print(prompt.parts["batch manifest"])
        ## To be written
        <BLANKLINE>
        - [x] "Soup" (recipe_1)
        - [ ] "Curry"
    """

    text: str
    done: bool = False
    ref: str | None = None

    def __post_init__(self) -> None:
        """Check the ref, because prompts show it unquoted."""
        if self.ref is not None:
            _check_ref(self.ref, "an item of a batch")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of the user, and the answer.

    Attributes:
        user: the user's text.
        assistant: the answer; empty if it is not known yet.

    Example:
        >>> said = [Exchange("What is for dinner?", "recipe_1, if you like.")]
        >>> prompt = Context(chat).prompt(Step("analyze", "plan"), exchanges=said)
        >>> print(prompt.parts["conversation"])
        ## Conversation
        <BLANKLINE>
        User:
        > What is for dinner?
        You:
        > recipe_1, if you like.
    """

    user: str
    assistant: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a tool in the current step, and its answer.

    Attributes:
        tool: the name of the tool.
        params: the model's arguments: JSON values.
        answer: the answer of the tool: JSON values; dates, times and decimals become text.

    Example:
        >>> called = Called("db_read", {"table": "recipes"}, {"rows": [{"id": "recipe_1"}]})
        >>> step = Step("read", "find a soup")
        >>> print(Context(chat, toolset=toolset).prompt(step, calls=[called]).parts["data"])
        ## Data
        <BLANKLINE>
        - db_read {"table": "recipes"}
          answered {"rows": [{"id": "recipe_1"}]}
    """

    tool: str
    params: Any
    answer: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan.

    A prompt quotes the goal and the profile line by line. Guidance is shown as Markdown, in which
    headings and fences are escaped. Keys in all texts are replaced.

    Attributes:
        type: the type of the step.
        goal: its goal, from the plan.
        number: its number in the turn, from 1.
        of: the number of steps of the plan.
        guidance: instructions of the application for this type of step.
        step_guidance: instructions of the application for this step.
        profile: facts about the user, for steps that analyze or generate.
        batch: the items to write, for a write step.
        tables: the tables to describe; `None` for all.
        refs: the refs of the rows and drafts that the step is about.
        constraints: the user's requirements, in the words of a model.

    Raises:
        ContextError: the type of step is unknown, the numbers do not fit, or a ref is invalid.

    Example:
        >>> step = Step("write", "save the menu", number=2, of=4, guidance="Keep it short.")
        >>> prompt = Context(chat, toolset=toolset).prompt(step)
        >>> prompt.parts["header"]
        '# Write step 2 of 4'
        >>> print(prompt.parts["guidance"])
        ## Guidance
        <BLANKLINE>
        Keep it short.
    """

    type: StepType
    goal: str
    number: int = 1
    of: int = 1
    guidance: str = ""
    step_guidance: str = ""
    profile: str = ""
    batch: Sequence[Item] = ()
    tables: Sequence[str] | None = None
    refs: Sequence[str] = ()
    constraints: Sequence[str] = ()

    @classmethod
    def planned(
        cls, plan: ThinkDecision, understood: UnderstandDecision | None = None, profile: str = ""
    ) -> list[Step]:
        """Return the steps of a plan, with the constraints of the user.

        Args:
            plan: the plan of the model.
            understood: the understanding that the plan is based on.
            profile: facts about the user.

        Example:
            >>> step = {"type": "write", "goal": "save it", "refs": ["gen_recipe_1"]}
            >>> plan = think_type(toolset).model_validate({"steps": [step]})
            >>> [save] = Step.planned(plan)
            >>> print(Context(chat, toolset=toolset).prompt(save).parts["task"])
            ## Task
            <BLANKLINE>
            > save it
            <BLANKLINE>
            About: gen_recipe_1
        """
        constraints = () if understood is None else understood.constraints
        return [
            cls(
                each.type,
                each.goal,
                number=number,
                of=len(plan.steps),
                tables=each.tables or None,
                refs=each.refs,
                constraints=constraints,
                profile=profile,
            )
            for number, each in enumerate(plan.steps, start=1)
        ]

    @classmethod
    def quick(cls, understood: UnderstandDecision) -> Step | None:
        """Return the only step of a turn that needs no plan, or None if it needs one.

        A turn is quick if one read of one table answers it: nothing is changed or generated, and
        the answer is in the database. Its prompt is made like the prompt of any step.

        Args:
            understood: the model's understanding of the message.

        Example:
            >>> question = {"table": "recipes", "goal": "how many are there?"}
            >>> question |= {"read_only": True, "in_database": True}
            >>> understood = understand_type(toolset).model_validate({"quick": question})
            >>> Step.quick(understood).tables
            ['recipes']
        """
        quick = understood.quick
        if quick is None or not (quick.read_only and quick.in_database):
            return None
        return cls(
            "read",
            quick.goal,
            tables=[quick.table],
            refs=understood.referenced,
            constraints=understood.constraints,
        )

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_step_type(self.type)
        for ref in self.refs:
            _check_ref(ref, "a step")
        if not 1 <= self.number <= self.of:
            raise ContextError(
                f"step {self.number!r} of {self.of!r}", "count from 1, up to the number of steps"
            )


@dataclass(frozen=True, slots=True)
class Material:
    """The input of the parts of a prompt.

    Attributes:
        step: the step of the prompt.
        turn: the number of the current turn.
        today: the date for the user.
        note: the note of the previous step.
        results: lines about earlier steps, and the calls of this step.
        schema: the tables, as the toolset describes them.
        entities: the rows of the conversation.
        drafts: the pending drafts.
        exchanges: the last exchanges.
        has_conversation: whether there are exchanges, even if none is repeated.
        forms: the JSON forms of valid decisions.
        instructions: the variables for the toolset.
        templates: the fixed texts.
    """

    step: Step
    turn: int
    today: dt.date
    note: str = ""
    results: Sequence[str] = ()
    schema: str = ""
    entities: str = ""
    drafts: str = ""
    exchanges: Sequence[Exchange] = ()
    has_conversation: bool = False
    forms: Sequence[str] = ()
    instructions: Instructions = field(default_factory=Instructions)
    templates: Templates = field(default_factory=Templates)


Decision = TypeVar("Decision", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Decision]):
    """A prompt for a model, in two parts.

    Attributes:
        system: its instructions, the same for each step of a type.
        user: the step.
        parts: the parts of `user` that are not empty, by name, in order.
        decision: the type of the model's answer.

    Example:
        >>> prompt = Context(chat, toolset=toolset).prompt(Step("read", "find a soup"))
        >>> [*prompt.parts]
        ['header', 'status', 'task', 'data', 'schema', 'entities', 'conversation', 'decision']
        >>> answer = '{"action": "ask_user", "question": "Hot or cold?"}'
        >>> prompt.decision.model_validate_json(answer).root.question
        'Hot or cold?'
    """

    system: str
    user: str
    parts: Mapping[str, str]
    decision: type[Decision]


def _header(material: Material) -> str:
    step = material.step
    return f"# {step.type.capitalize()} step {step.number} of {step.of}"


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _status(material: Material) -> str:
    done = material.step.number - 1
    turn = f"Turn {material.turn} of the conversation; {done or 'none'} of its steps done."
    return f"{_date(material)} {turn}"


def _turn(material: Material) -> str:
    return f"{_date(material)} Turn {material.turn} of the conversation."


def _date(material: Material) -> str:
    return f"Today is {_WEEKDAYS[material.today.weekday()]}, {material.today}."


def _task(material: Material) -> str:
    step = material.step
    constraints = "\n".join(f"- {quote_json(each)}" for each in step.constraints)
    parts = (
        _quote_block(step.goal),
        f"About: {', '.join(step.refs)}" if step.refs else "",
        f"The user requires:\n{constraints}" if constraints else "",
    )
    return "\n\n".join(part for part in parts if part)


def _batch(material: Material) -> str:
    return "\n".join(
        f"- [{'x' if item.done else ' '}] {quote_json(item.text)}"
        + ("" if item.ref is None else f" ({item.ref})")
        for item in material.step.batch
    )


def _results(material: Material) -> str:
    return "\n".join(material.results) or "No step has left anything yet."


def _conversation(material: Material) -> str:
    said = [
        f"{who}:\n{_quote_block(text)}"
        for exchange in material.exchanges
        for who, text in (("User", exchange.user), ("You", exchange.assistant))
        if text
    ]
    nothing = "Not repeated here." if material.has_conversation else "Nothing was said yet."
    return "\n".join(said) or nothing


def _quote_block(text: str) -> str:
    """Return a text as a quotation, so that no line is a heading or a fence of the prompt."""
    return "\n".join(f"> {inert(line)}" for line in text.splitlines())


# the beginning of a Markdown heading or fence, or of a line that makes the line above a heading
_STRUCTURE = re.compile(r"^[^\S\n]*+(?=#{1,6}(?:\s|$)|```|~~~|(?:=+|-+)[^\S\n]*$)", re.MULTILINE)


def plain_lines(text: str) -> str:
    """Strip a Markdown text, and escape headings, fences and heading underlines in it.

    All whitespace of Unicode is treated alike, though Markdown has headings and fences only after
    spaces: a model may take others for spaces.
    """
    return _STRUCTURE.sub(r"\g<0>\\", "\n".join(map(inert, text.strip().splitlines())))


def _decision(material: Material) -> str:
    return material.templates.text("decision", material.instructions, forms=material.forms)


ROWS: Final = "Rows"
DRAFTS: Final = "Drafts"


def titled(heading: str, text: str) -> str:
    """Return a part of a prompt with its heading."""
    return f"## {heading}\n\n{text}"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a prompt.

    Attributes:
        name: its name.
        steps: the types of steps, or of nodes, that have it, by their first letters.
        heading: its heading; empty if the text has its own or needs none.
        text: returns its text; a part with an empty text is left out.
    """

    name: str
    steps: str
    heading: str
    text: Callable[[Material], str]


# In this order. Entities and conversation are included even if empty.
PARTS: Final[Sequence[Part]] = (
    Part("header", "RWAG", "", _header),
    Part("guidance", "W", "Guidance", lambda m: plain_lines(m.step.guidance)),
    Part("status", "RWAG", "Status", _status),
    Part("previous note", "RW", "Note of the step before", lambda m: _quote_block(m.note)),
    Part("profile", "AG", "The user", lambda m: _quote_block(m.step.profile)),
    Part("guidance", "AG", "Guidance", lambda m: plain_lines(m.step.guidance)),
    Part("task", "RWAG", "Task", _task),
    Part("batch manifest", "W", "To be written", _batch),
    Part("step guidance", "RWAG", "How", lambda m: plain_lines(m.step.step_guidance)),
    Part("data", "RWAG", "Data", _results),
    Part("schema", "RWG", "Tables", lambda m: m.schema),
    Part("entities", "RWAG", ROWS, lambda m: m.entities),
    Part("drafts", "W", DRAFTS, lambda m: m.drafts),
    Part("conversation", "RWAG", "Conversation", _conversation),
    Part("decision", "RWAG", "Decision", _decision),
)


Node = Literal["understand", "think"]
"""The nodes of the loop before the steps of a turn."""

NODE_PARTS: Final[Sequence[Part]] = (
    Part("header", "U", "", lambda _: "# Understand the message"),
    Part("header", "T", "", lambda _: "# Plan the turn"),
    Part("status", "UT", "Status", _turn),
    Part("profile", "T", "The user", lambda m: _quote_block(m.step.profile)),
    Part("guidance", "UT", "Guidance", lambda m: plain_lines(m.step.guidance)),
    Part("task", "T", "The message", _task),
    Part("data", "UT", "Data", _results),
    Part("schema", "T", "Tables", lambda m: m.schema),
    Part("entities", "UT", ROWS, lambda m: m.entities),
    Part("conversation", "UT", "Conversation", _conversation),
    Part("decision", "UT", "Decision", _decision),
)


def node_step(*, guidance: str, profile: str = "", **more: Sequence[str]) -> Step:
    """Return the texts of a node's prompt, like those of a step without tool calls."""
    return Step("analyze", "", guidance=guidance, profile=profile, **more)  # type: ignore[arg-type]


def prompt_of(
    material: Material, decision: type[Decision], node: Node | None = None
) -> Prompt[Decision]:
    """Return the prompt of a step, or of a node before the steps, without empty parts.

    The system prompt has the templates of all types, of tools, and of the type.
    """
    name: Node | StepType = node or material.step.type
    parts = {}
    for part in PARTS if node is None else NODE_PARTS:
        text = part.text(material).strip() if name[0].upper() in part.steps else ""
        if text:
            parts[part.name] = titled(part.heading, text) if part.heading else text
    fixed = ["base", *(["crud"] if name in ("read", "write") else []), name]
    texts = (material.templates.text(each, material.instructions) for each in fixed)
    system = "\n\n".join(text for text in texts if text)
    return Prompt(system, "\n\n".join(parts.values()), parts, decision)


def forms_of(decision: type[ActDecision]) -> list[str]:
    """Return the JSON forms of the decisions of a step, one line each."""
    names = " | ".join(map(json.dumps, tool_names(decision)))
    calls = [f'{{"action": "tool_call", "tool": {names}, "params": object}}'] if names else []
    ends = [each for each in decision.choices if not issubclass(each, ToolCall)]
    return [*calls, *map(form_of, ends)]


def form_of(model: type[BaseModel]) -> str:
    """Return the JSON form of a pydantic model."""
    schema = model.model_json_schema()
    return write_type(schema, schema.get("$defs"))
