"""The definitions of the tools: what clients take, and what the tools accept."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, get_args

import pytest
from anthropic.types import ToolParam
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator
from mcp.types import Tool
from openai.types.chat import ChatCompletionToolParam
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from alfred_refs.errors import SetupError
from alfred_refs.tools import Hooks, Reading, Toolset
from alfred_refs.tools.arguments import TOOLS, Operator, Repair, arguments_type
from alfred_refs.tools.definitions import Form
from examples.kitchen.tools import kitchen_tools
from tests.profiles import examples
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish, Part

FORMS: list[Form] = ["openai", "anthropic", "mcp", "json_schema"]
WRITES = ("db_create", "db_update", "db_delete")
OPERATORS = [each for each in get_args(Operator) if each != "similar"]

IS_SOUP = {"field": "name", "op": "=", "value": "Soup"}
IS_OLD = {"field": "seen_at", "op": "<", "value": "2026-01-01T00:00:00Z"}

LIST = {"table": "dishes", "row": "dish_1", "list": "tags"}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("db_read", {"table": "dishes"}),
    ("db_read", {"table": "dishes", "columns": None, "order_by": None, "limit": None}),
    ("db_read", {"table": "dishes", "columns": ["name", "parts.note"], "limit": 0}),
    ("db_read", {"table": "dishes", "order_by": ["name", "id"], "order_dir": "desc"}),
    ("db_read", {"table": "dishes", "order_by": ["name", "id"], "order_dir": ["desc", "asc"]}),
    ("db_read", {"table": "dishes", "order_by": "name", "cursor": "abc"}),
    ("db_read", {"table": "dishes", "filters": [IS_SOUP], "or_filters": [IS_OLD, IS_SOUP]}),
    ("db_read", {"table": "dishes", "filters": [{"field": "name", "op": "is_null"}]}),
    ("db_read", {"table": "dishes", "filters": [{"not": {"or": [IS_SOUP, {"and": [IS_OLD]}]}}]}),
    ("db_create", {"table": "dishes", "data": {"name": "A", "tags": ["hot"], "extra": {}}}),
    ("db_create", {"table": "dishes", "data": [{"name": "A"}, {"cuisine_id": "cuisine_1"}]}),
    ("db_update", {"table": "dishes", "filters": [IS_SOUP], "data": {"code": None}}),
    ("db_update", {"table": "dishes", "filters": [IS_SOUP], "data": {"a": 1}, "expect": "Soup"}),
    ("db_delete", {"table": "dishes", "filters": [IS_SOUP], "expect": {"name": "Soup"}}),
    ("db_edit_list", LIST),
    ("db_edit_list", {**LIST, "edits": [], "preview": True, "token": None}),
    ("db_edit_list", {**LIST, "edits": [{"action": "remove", "path": [1], "expect": "Soup"}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "add", "path": [1, 2], "data": None}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "modify", "ref": "a", "data": {"a": 1}}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "move", "path": [1], "to": 2}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "move", "path": [1, 1], "to": [2, 1]}]}),
]

MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("db_edit_list", {"table": "dishes", "list": "tags"}),
    ("db_edit_list", {**LIST, "name": "tags"}),
    ("db_edit_list", {**LIST, "preview": 1}),
    ("db_edit_list", {**LIST, "edits": {}}),
    ("db_edit_list", {**LIST, "edits": [{"path": [1]}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "remove", "path": [0]}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "remove", "path": []}]}),
    ("db_edit_list", {**LIST, "edits": [{"action": "move", "path": [1], "to": -1}]}),
    ("db_read", {}),
    ("db_read", {"table": "secrets"}),
    ("db_read", {"table": "dishes", "where": []}),
    ("db_read", {"table": "dishes", "limit": -1}),
    ("db_read", {"table": "dishes", "limit": True}),
    ("db_read", {"table": "dishes", "limit": 1.5}),
    ("db_read", {"table": "dishes", "columns": "name"}),
    ("db_read", {"table": "dishes", "order_dir": "up"}),
    ("db_read", {"table": "dishes", "order_dir": ["asc", "up"]}),
    ("db_read", {"table": "dishes", "filters": IS_SOUP}),
    ("db_read", {"table": "dishes", "filters": [{"field": "name", "value": "Soup"}]}),
    ("db_read", {"table": "dishes", "filters": [{"field": "name", "op": "like"}]}),
    ("db_read", {"table": "dishes", "filters": [{**IS_SOUP, "and": [IS_SOUP]}]}),
    ("db_read", {"table": "dishes", "filters": [{"and": []}]}),
    ("db_read", {"table": "dishes", "filters": [{"not": [IS_SOUP]}]}),
    ("db_create", {"table": "dishes", "data": 5}),
    ("db_create", {"table": "dishes", "data": []}),
    ("db_create", {"table": "dishes", "data": "Soup"}),
    ("db_update", {"table": "dishes", "data": {"name": "A"}}),
    ("db_update", {"table": "dishes", "filters": [], "data": {"name": "A"}}),
    ("db_update", {"table": "dishes", "filters": [IS_SOUP], "data": {}}),
    ("db_delete", {"table": "dishes", "filters": [IS_SOUP], "data": {"name": "A"}}),
    ("db_delete", {"table": "dishes", "filters": [IS_SOUP], "expect": 1}),
]


def _schemas(toolset: Toolset) -> dict[str, Any]:
    return {each["title"]: each for each in toolset.schemas("json_schema")}


def _is_accepted(tool: str, arguments: Any) -> bool:
    try:
        checked = TOOLS[tool].model_validate(arguments)
    except ValidationError:
        return False
    assert isinstance(checked, TOOLS[tool])
    return True


# the forms of clients


def test_openai_takes_them(toolset: Toolset) -> None:
    """The client's own type has all of each definition, and names and descriptions fit the API."""
    definitions = toolset.schemas("openai")

    assert TypeAdapter(list[ChatCompletionToolParam]).validate_python(definitions) == definitions
    for each in definitions:
        function = each["function"]
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", function["name"])
        assert len(function["description"]) <= 1024
        assert function["strict"] is False


def test_anthropic_takes_them(toolset: Toolset) -> None:
    """The client's own type has all of each definition."""
    definitions = toolset.schemas("anthropic")

    assert TypeAdapter(list[ToolParam]).validate_python(definitions) == definitions


def test_servers_of_the_model_context_protocol_take_them(toolset: Toolset) -> None:
    """The protocol's own type has all of each definition, and says which tools destroy."""
    definitions = toolset.schemas("mcp")
    tools = [Tool.model_validate(each) for each in definitions]

    dumped = [each.model_dump(by_alias=True, exclude_none=True) for each in tools]
    assert dumped == definitions
    assert [each.annotations and each.annotations.read_only_hint for each in tools] == [
        each == "db_read" for each in TOOLS
    ]


@pytest.mark.parametrize("form", FORMS)
def test_they_are_plain_schemas(toolset: Toolset, form: Form) -> None:
    """Each is JSON, and its parameters are an object by draft 2020-12 in every form."""
    for each in toolset.schemas(form):
        found = each.get("function", each)
        found = found.get("parameters") or found.get("input_schema") or found.get("inputSchema")
        schema = found or each
        assert json.loads(json.dumps(each)) == each
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"


def test_an_unknown_form_is_refused(toolset: Toolset) -> None:
    """The error names those there are."""
    with pytest.raises(SetupError, match="'openai', 'anthropic', 'mcp', 'json_schema'"):
        toolset.schemas("gemini")  # type: ignore[arg-type]


# what they say


def test_tables_that_are_only_read_are_not_offered_to_write() -> None:
    """They are in the schema of reads alone."""
    schemas = _schemas(Toolset(MODELS, read_only=[Cuisine]))

    tables = {name: each["properties"]["table"]["enum"] for name, each in schemas.items()}
    assert tables == {
        "db_read": ["dishes", "parts", "cuisines", "servings"],
        **{name: ["dishes", "parts", "servings"] for name in WRITES},
        "db_edit_list": ["dishes"],
    }


def test_tools_that_can_do_nothing_are_not_offered() -> None:
    """A toolset that writes no table has one tool."""
    assert list(_schemas(Toolset([Cuisine], read_only=[Cuisine]))) == ["db_read"]


def test_hidden_columns_are_in_no_form() -> None:
    """Their names are nowhere, with the tables described or not."""
    toolset = Toolset(MODELS, hidden=[Dish.price, Dish.second_cuisine_id])

    for form in FORMS:
        text = json.dumps(toolset.schemas(form))
        assert "servings" in text
        assert "price" not in text
        assert "second_cuisine_id" not in text


def test_tables_are_described_once(toolset: Toolset) -> None:
    """In the schema of reads, and not at all where a prompt has them."""
    text = json.dumps(toolset.schemas("anthropic"))
    bare = json.dumps(toolset.schemas("anthropic", describe=False))

    assert text.count("second_cuisine_id") == 1
    assert json.dumps(toolset.describe())[1:-1] in text
    assert "second_cuisine_id" not in bare


def test_filters_are_explained_once(toolset: Toolset) -> None:
    """In the schema of reads; those of writes refer to it."""
    schemas = _schemas(toolset)
    read = schemas["db_read"]["properties"]["filters"]

    assert [*read["items"]["properties"]] == ["field", "op", "value", "and", "or", "not"]
    assert read["items"]["properties"]["op"]["enum"] == OPERATORS
    assert all(read["items"]["properties"][each]["description"] for each in ("field", "value"))
    for name in ("db_update", "db_delete"):
        written = schemas[name]["properties"]["filters"]
        assert written["items"] == {"type": "object"}
        assert "as in db_read" in written["description"]


def test_what_the_kitchen_costs() -> None:
    """Five tools on six tables, with the tables described: 2,000 tokens with each request."""
    encode = pytest.importorskip("bpe_openai").get_encoding("o200k_base").encode_ordinary
    kitchen = kitchen_tools()
    for definitions in (kitchen.schemas("openai"), kitchen.schemas("anthropic")):
        assert len(definitions) == 5
        assert json.dumps(kitchen.describe())[1:-1] in json.dumps(definitions)
        text = json.dumps(definitions, ensure_ascii=False, separators=(",", ":"))
        assert len(encode(text)) <= 2_000


class Leaf(BaseModel):
    """A part of a tree."""

    name: str


class Boiled(BaseModel):
    """One way to cook."""

    by: Literal["water"]


class Fried(BaseModel):
    """Another."""

    by: Literal["oil"]


class Tree(BaseModel):
    """A model of an application that refers to another, and to itself."""

    leaf: Leaf
    inside: list[Tree] = []


def test_no_definition_has_references(toolset: Toolset) -> None:
    """LangChain follows none; where a definition refers to itself it is any object."""

    @toolset.tool
    def plant(tree: Tree, one: Annotated[Leaf | int, Field(description="which")] = 0) -> None:
        """Plant a tree."""

    for form in FORMS:
        definitions = toolset.schemas(form)
        assert "$ref" not in json.dumps(definitions)
        assert "$defs" not in json.dumps(definitions)
    tree = _schemas(toolset)["plant"]["properties"]["tree"]
    assert tree["properties"]["leaf"]["properties"]["name"] == {"type": "string"}
    assert tree["properties"]["inside"]["items"]["type"] == "object"
    assert "properties" not in tree["properties"]["inside"]["items"]


def test_an_own_tool_of_several_kinds_keeps_them(toolset: Toolset) -> None:
    """A union with a discriminator is no filter."""

    @toolset.tool
    def cook(way: Annotated[Boiled | Fried, Field(discriminator="by")]) -> None:
        """Cook in a way."""

    way = _schemas(toolset)["cook"]["properties"]["way"]
    assert [each["properties"]["by"]["const"] for each in way["oneOf"]] == ["water", "oil"]


def test_a_search_by_meaning_is_offered_where_one_may_be_answered() -> None:
    """With a hook for reads, and for reads alone; no token is spent on it otherwise."""

    class Searched(Hooks):
        def before_read(self, read: Reading) -> None:
            """Answer it."""

    def offering(hooks: Hooks) -> list[str]:
        schemas = _schemas(Toolset(MODELS, hooks={Dish: [hooks]}))
        return [name for name, each in schemas.items() if "similar" in json.dumps(each)]

    assert offering(Searched()) == ["db_read"]
    assert offering(Hooks()) == []


QUOTED = re.compile(r"'([^' ]+)'")


@pytest.mark.parametrize("models", [[Cuisine], [Part, Cuisine], MODELS])
def test_examples_are_of_the_application_s_own_tables(models: list[type[Any]]) -> None:
    """Refs and paths that are named exist; all else in quotes is a word of the tools."""
    toolset = Toolset(models)
    words = {
        *get_args(Operator),
        *("more", "cursor", "columns", "related", "name.column", "*", "?"),
        *("lists", "add", "modify", "move", "_<column>_label"),
        *("and", "or", "not", "asc", "desc"),
        *("count", "count(*)", "sum(x)", "avg(x)", "min(x)", "max(x)"),
    }
    refs = {f"{table.entity}_1" for table in toolset.tables}
    paths = {
        f"{name}.{column}"
        for table in toolset.tables
        for name, target in table.targets.items()
        for column in target.columns
    }
    text = json.dumps(toolset.schemas("json_schema"))
    quoted = {each for each in QUOTED.findall(text) if not each.endswith(":")}

    assert quoted <= words | refs | {f"gen_{ref}" for ref in refs} | paths
    assert bool(quoted & paths) is bool(paths)


def test_asking_twice_gives_the_same(toolset: Toolset) -> None:
    """What a client does to its definitions changes no other's."""
    first = toolset.schemas("openai")
    first[0]["function"]["parameters"]["properties"].clear()

    assert toolset.schemas("openai")[0]["function"]["parameters"]["properties"]


# what they accept


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_calls_fit(toolset: Toolset, tool: str, arguments: dict[str, Any]) -> None:
    """What a tool accepts, its schema does; null is left out of both."""
    taken = Repair().arguments(arguments, arguments_type(tool))
    Draft202012Validator(_schemas(toolset)[tool]).validate(taken)

    assert _is_accepted(tool, arguments)


@pytest.mark.parametrize(("tool", "arguments"), MISTAKES)
def test_mistakes_do_not_fit(tool: str, arguments: dict[str, Any]) -> None:
    """They are refused by the tool, though its short schema does not say all that it checks."""
    assert arguments.get("table") == "secrets" or not _is_accepted(tool, arguments)


NAMES = st.sampled_from(["field", "op", "value", "and", "or", "not", "all_of", "negated", "table"])
PLAIN = st.sampled_from([None, True, False, 0, 3, -1, 2.0, 0.5, "", "name", "dishes", "="])
JUNK = st.recursive(
    PLAIN,
    lambda each: st.lists(each, max_size=2) | st.dictionaries(NAMES, each, max_size=3),
    max_leaves=4,
)


def _mostly(valid: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(valid, valid, valid, JUNK)


def _object(
    required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """An object of arguments, sometimes with a field too many or one too few."""
    right = st.fixed_dictionaries(
        {name: _mostly(each) for name, each in required.items()},
        optional={name: _mostly(each) for name, each in optional.items()},
    )
    more = st.dictionaries(NAMES, JUNK, min_size=1, max_size=1)
    fewer = st.tuples(right, st.sampled_from([*required])).map(
        lambda drawn: {name: each for name, each in drawn[0].items() if name != drawn[1]}
    )
    return st.one_of(right, right, fewer, st.builds(lambda a, b: {**a, **b}, right, more))


TEXTS = st.sampled_from(["", "name", "parts.note", "5x"])
FILTERS: st.SearchStrategy[Any] = st.deferred(lambda: st.lists(_mostly(FILTER), max_size=2))
FILTER: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        _object({"field": TEXTS, "op": st.sampled_from(OPERATORS)}, {"value": JUNK}),
        _object({"field": TEXTS, "op": st.sampled_from(OPERATORS)}, {"value": JUNK}),
        _object({"and": FILTERS}, {}),
        _object({"or": FILTERS}, {}),
        _object({"not": FILTER}, {}),
    )
)
TABLES = st.sampled_from(["dishes", "parts", "cuisines", "secrets"])
RECORD = st.dictionaries(TEXTS, JUNK, max_size=2)
EXPECT = st.one_of(st.none(), TEXTS, RECORD)
ARGUMENTS = st.one_of(
    st.tuples(
        st.just("db_read"),
        _object(
            {"table": TABLES},
            {
                "filters": FILTERS,
                "or_filters": FILTERS,
                "columns": st.none() | st.lists(TEXTS, max_size=2),
                "limit": st.sampled_from([None, 0, 1, 7.0, -1, 10**30]),
                "order_by": st.one_of(st.none(), TEXTS, st.lists(TEXTS, max_size=2)),
                "order_dir": st.sampled_from(["asc", "desc", ["asc", "desc"], [], ["up"]]),
                "cursor": st.none() | TEXTS,
            },
        ),
    ),
    st.tuples(
        st.just("db_create"),
        _object({"table": TABLES, "data": RECORD | st.lists(RECORD, max_size=2)}, {}),
    ),
    st.tuples(
        st.just("db_update"),
        _object({"table": TABLES, "filters": FILTERS, "data": RECORD}, {"expect": EXPECT}),
    ),
    st.tuples(
        st.just("db_delete"), _object({"table": TABLES, "filters": FILTERS}, {"expect": EXPECT})
    ),
)

TOOLSET = Toolset(MODELS, read_only=[Cuisine])
VALIDATORS = {name: Draft202012Validator(each) for name, each in _schemas(TOOLSET).items()}
OFFERED = {name: each["properties"]["table"]["enum"] for name, each in _schemas(TOOLSET).items()}


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(500))
@given(ARGUMENTS)
def test_schemas_and_tools_agree(call: tuple[str, Any]) -> None:
    """What a tool accepts, its schema does: a client that validates holds back no valid call."""
    tool, arguments = call
    taken = Repair().arguments(arguments, arguments_type(tool))
    accepted = _is_accepted(tool, taken)

    offered = isinstance(taken, dict) and taken.get("table") in OFFERED[tool]
    assert VALIDATORS[tool].is_valid(taken) or not (accepted and offered)
