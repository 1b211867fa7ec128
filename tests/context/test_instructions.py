"""Prompts describe their toolset: each feature if the toolset has it, and only then."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from alfred_refs import Conversation, RefRegistry
from alfred_refs.context import (
    Context,
    Exchange,
    Item,
    Prompt,
    Step,
    decision_type,
    think_type,
    understand_type,
)
from alfred_refs.context.decisions import STEP_TYPES
from alfred_refs.context.instructions import instructions_for, write_type
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Hooks, Reading, Ref, Toolset
from alfred_refs.tools.tables import Verb
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish, Part, Serving


class Meaning(Hooks):
    """Answers searches by meaning."""

    def before_read(self, reading: Reading) -> None:
        """Change nothing: that it could is enough."""


# feature -> the words that speak of it, and the types of steps whose prompts do, by first letters
FEATURES: Mapping[str, tuple[str, str]] = {
    "drafts": (r"(?i)draft|\bgen_", "RWAGUT"),
    "new drafts": (r'"drafts"\?|in `drafts`', "G"),
    "tables of drafts": (r"the columns of a new row", "G"),
    "expect": (r"\bexpect\b", "W"),
    "labels needed": (r"repeats the label|needed for rows|abel 1|'_<column>_label'", "W"),
    "number of rows": (r"\{'count': n\}|\"count\": 3", "W"),
    "label of a ref": (r'A column of refs: .*"_\w+_label"', "W"),
    "label in a draft": (r'beside it, such as .*"_\w+_label"', "G"),
    "create": (r"\bdb_create\b|`also\b|from_draft", "W"),
    "update": (r"\bdb_update\b", "W"),
    "delete": (r"\bdb_delete\b", "W"),
    "lists": (r"\bdb_edit_list\b|  lists: ", "RWT"),
    "approval": (r"may wait for a person", "W"),
    "changes": (r"Make the changes|`write` step", "WT"),
    "sql": (r"\bdb_query\b|\bSELECT\b", "RW"),
    "search": (r"_semantic|\bsimilar\b", "RW"),
    "dates": (r"range of dates", "R"),
    "contains": (r"\bcontains\b", "RW"),
    "related rows": (r"With related rows|  related: .*\(many", "RWT"),
    "reading tool": (r"\bweigh\b", "RW"),
    "writing tool": (r"\bserve\b", "W"),
}

EVERYTHING = {"hooks": {Dish: [Meaning()]}, "sql": True, "consent": {Cuisine: ["delete"]}}
WRITING = {"update", "delete", "expect", "number of rows", "label of a ref", "labels needed"}
QUICK = {"goal": "x", "read_only": True, "in_database": True}
NO_NEW = {"new drafts", "tables of drafts", "label in a draft"}
READ_ONLY = {"create", "lists", *NO_NEW, *WRITING}
OF_REFS = {"label of a ref", "label in a draft"}
OF_DISHES = {"dates", "lists", "contains", "related rows", "search", *OF_REFS}


def only(verbs: list[Verb]) -> dict[type[Any], list[Verb]]:
    """Return that a model may write only so, by class."""
    return dict.fromkeys(MODELS, verbs)


# an option -> the toolset's arguments beside or in place of EVERYTHING, and what it then lacks
OPTIONS: Mapping[str, tuple[dict[str, Any], set[str]]] = {
    "everything": ({}, set()),
    "no drafts": ({"drafts": False}, {"drafts", *NO_NEW}),
    "labels optional": ({"expect": "optional"}, {"labels needed", *OF_REFS}),
    "no sql": ({"sql": False}, {"sql"}),
    "no hooks": ({"hooks": {}}, {"search"}),
    "no approval": ({"consent": None}, {"approval"}),
    "read only": (
        {"read_only": MODELS, "own": "read"},
        {"approval", "changes", "writing tool", *READ_ONLY},
    ),
    "read only but for a tool": ({"read_only": MODELS}, READ_ONLY),
    "only new rows": (
        {"verbs": only(["create"])},
        {"update", "delete", "lists", "number of rows"},
    ),
    "only new rows, no drafts": (
        {"verbs": only(["create"]), "drafts": False},
        {"update", "delete", "lists", "expect", "number of rows", "drafts", *NO_NEW},
    ),
    "only changes": ({"verbs": only(["update"])}, {"create", "delete", *NO_NEW}),
    "only deletions": (
        {"verbs": only(["delete"])},
        {"create", "update", "lists", "label of a ref", *NO_NEW},
    ),
    "plain tables": ({"models": [Cuisine], "hooks": {}}, OF_DISHES),
    "no tools of its own": ({"own": ""}, {"reading tool", "writing tool"}),
}


class Guest(BaseModel):
    """Who comes."""

    name: str
    vegan: bool = False


@cache
def made(option: str) -> Toolset:
    """Return the toolset of an option."""
    given, _ = OPTIONS[option]
    arguments: dict[str, Any] = {"models": MODELS, "own": "read write", **EVERYTHING, **given}
    own = arguments.pop("own")
    toolset = Toolset(**arguments)

    def weigh(cuisine: Ref[Cuisine]) -> float:
        """Weigh what is there of a cuisine."""
        raise NotImplementedError

    def serve(cuisine: Ref[Cuisine], table: int) -> None:
        """Serve what is there of a cuisine."""

    if "read" in own:
        toolset.tool(read_only=True)(weigh)
    if "write" in own:
        toolset.tool(serve)
    return toolset


CHAT = RefRegistry(store=MemoryStore()).conversation("chat-8")


@pytest.fixture
def conversation() -> Conversation:
    """A conversation with a pending draft, and one that was discarded."""
    chat = RefRegistry(store=MemoryStore()).conversation("chat-7")
    chat.begin_turn()
    chat.draft(Dish, {"name": "Stew"})
    chat.draft(Cuisine, {"name": "Thai"})
    gone = chat.draft(Cuisine, {"name": "Greek"}).ref
    chat.discard_drafts([gone])
    return chat


def prompt_of(context: Context, name: str) -> Prompt[Any]:
    """Return the prompt of a step of a type, or of what comes before the steps."""
    if name == "understand":
        return context.understand([Exchange("x")])
    if name == "think":
        return context.think([Exchange("x")])
    type_: Any = name
    return context.prompt(Step(type_, "x", batch=[Item("y")]))


@pytest.mark.parametrize("name", [*STEP_TYPES, "understand", "think"])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_feature_is_in_a_prompt_if_the_toolset_has_it(
    conversation: Conversation, option: str, name: str
) -> None:
    """In the instructions, the tables, the rows and the decision, and not a word otherwise."""
    end = {"action": "step_complete", "type": "generate", "result_summary": "made"}
    conversation.add_step({**end, "drafts": [conversation.draft(Cuisine, {"name": "Soup"}).ref]})
    prompt = prompt_of(Context(conversation, toolset=made(option)), name)
    text = f"{prompt.system}\n\n{prompt.user}"
    letter, (_, missing) = name[0].upper(), OPTIONS[option]
    found = {feature for feature, (words, _) in FEATURES.items() if re.search(words, text)}
    assert found == {
        feature
        for feature, (_, steps) in FEATURES.items()
        if letter in steps and feature not in missing
    }


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_every_tool_and_argument_that_a_step_may_use_is_explained(option: str) -> None:
    """By the names that the decision accepts."""
    toolset = made(option)
    for type_ in STEP_TYPES:
        prompt = Context(CHAT, toolset=toolset).prompt(Step(type_, "x"))
        for choice in decision_type(type_, toolset).choices:
            if "tool" not in choice.model_fields:
                continue
            tool = choice.model_fields["tool"].annotation.__args__[0]  # type: ignore[union-attr]
            definition = next(
                each for each in toolset.schemas("mcp", describe=False) if each["name"] == tool
            )
            part = prompt.system.partition(f"\n`{tool}`: ")[2].partition("\n\n")[0]
            assert part.startswith(definition["description"])
            names = re.findall(r"^- `(\w+)\??`", part, re.MULTILINE)
            assert names == list(definition["inputSchema"]["properties"])


def test_a_toolset_without_tables_has_prompts_of_its_tools_alone() -> None:
    """No patterns, tables and quick turns."""
    toolset = Toolset([])

    @toolset.tool
    def greet(name: str) -> str:
        """Greet somebody."""
        raise NotImplementedError

    context = Context(CHAT, toolset=toolset)
    for name in (*STEP_TYPES, "understand", "think"):
        prompt = prompt_of(context, name)
        text = f"{prompt.system}\n\n{prompt.user}"
        assert ("`greet`: Greet somebody.\n- `name` (text)" in text) is (name == "write")
        assert not re.search(r'Patterns|`quick`|"quick"\?: \{|`tables`|A filter', text)
    for decided in ({"steps": [{"type": "write", "goal": "x"}]}, {"constraints": ["x"]}):
        type_ = think_type(toolset) if "steps" in decided else understand_type(toolset)
        type_.model_validate(decided)
    for quick in ("x", ""):
        with pytest.raises(ValidationError):
            understand_type(toolset).model_validate({"quick": {**QUICK, "table": quick}})
        with pytest.raises(ValidationError):
            think_type(toolset).model_validate(
                {"steps": [{"type": "write", "goal": "x", "tables": [quick]}]}
            )


def test_a_read_only_toolset_says_that_nothing_can_be_changed() -> None:
    """A plan that asks for it is wrong."""
    prompt = Context(CHAT, toolset=made("read only")).prompt(Step("write", "x"))
    assert "None of your tools changes anything. Answer `blocked`" in prompt.system


def test_without_drafts_content_is_given_as_data() -> None:
    """The form of the decision has no other place for it."""
    for option in ("no drafts", "read only"):
        prompt = Context(CHAT, toolset=made(option)).prompt(Step("generate", "x"))
        assert "Give it in `data`" in prompt.system
        assert "drafts" not in prompt.decision.choices[0].model_fields


def test_examples_are_of_the_toolset() -> None:
    """Columns and relationships that a model may use, other tables before a table itself."""
    examples = instructions_for(made("everything")).examples
    assert (examples.own.name, examples.own.entity) == ("id", "dish")
    assert (examples.text and examples.text.name) == "name"
    assert (examples.time and examples.time.name) == "cooked_on"
    assert (examples.elements and examples.elements.name) == "tags"
    assert (examples.related and examples.related.name) == "parts"
    assert (examples.parent and examples.parent[1:3]) == ("cuisine_id", "cuisine")


def test_a_range_of_times_begins_at_midnight() -> None:
    """Where there is no column of dates."""
    toolset = Toolset([Dish, Part, Cuisine], hidden=[Dish.cooked_on])
    prompt = Context(CHAT, toolset=toolset).prompt(Step("read", "x"))
    [range_] = [line for line in prompt.system.splitlines() if "range of dates" in line]
    clauses = re.findall(r'"field": "(\w+)", "op": "(..?)", "value": "([^"]+)"', range_)
    assert clauses == [
        ("seen_at", ">=", "2026-03-02T00:00:00Z"),
        ("seen_at", "<", "2026-03-09T00:00:00Z"),
    ]


def test_rows_without_a_column_of_their_own_are_named_by_the_field_that_they_have() -> None:
    """A key of several columns has no ref in a column."""
    prompt = Context(CHAT, toolset=Toolset([Serving])).prompt(Step("read", "x"))
    assert '{"field": "_ref", "op": "in", "value": ["serving_1", "serving_2"]}' in prompt.system


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "any"),
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "boolean"}, "true | false"),
        ({"type": ["integer", "null"]}, "integer"),
        ({"anyOf": [{"type": "null"}, {"type": "number"}, {"const": "all"}]}, 'number | "all"'),
        ({"type": "array"}, "[any]"),
        ({"type": "object"}, "object"),
        ({"type": "array", "items": {"$ref": "#/$defs/Size"}}, '["s" | "l"]'),
        ({"$ref": "#/$defs/Tree"}, '{"left"?: tree, "size": "s" | "l"}'),
        ({"$ref": "#/$defs/Filter"}, "filter"),
    ],
)
def test_a_schema_is_written_in_few_words(schema: dict[str, Any], written: str) -> None:
    """Null is left out, and a type inside of itself is its name."""
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/Tree"}, "size": {"$ref": "#/$defs/Size"}},
        "required": ["size"],
    }
    kinds: dict[str, Any] = {"Size": {"enum": ["s", "l"]}, "Tree": tree, "Filter": tree}
    assert write_type(schema, kinds) == written


def test_a_tool_of_the_application_is_written_with_its_types() -> None:
    """Nested ones too, and what the application says of them."""
    toolset = Toolset(MODELS)

    @toolset.tool
    def invite(dish: Ref[Dish], guests: list[Guest], on: dt.date | None = None) -> None:
        """Invite guests to a dish."""

    [tool] = instructions_for(toolset, ("invite",)).tools
    assert tool.arguments == [
        "- `dish` (text): dish ref, such as 'dish_1'",
        "- `_dish_label?` (text): the label of 'dish', as rows show it",
        '- `guests` ([{"name": text, "vegan"?: true | false}])',
        "- `on?` (date)",
    ]


def test_the_date_is_told_in_each_prompt(conversation: Conversation) -> None:
    """Of the application's clock, or today's."""
    context = Context(conversation, today=lambda: dt.date(2024, 2, 29))
    for name in (*STEP_TYPES, "understand", "think"):
        status = prompt_of(context, name).parts["status"]
        assert "Today is Thursday, 2024-02-29. Turn 1 of the conversation" in status
    before = dt.date.today()  # noqa: DTZ011  # as the default does
    status = Context(conversation).prompt(Step("read", "x")).parts["status"]
    days = (before, dt.date.today())  # noqa: DTZ011  # it may be midnight in between
    assert any(str(day) in status for day in days)
