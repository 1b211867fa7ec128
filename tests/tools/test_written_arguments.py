"""Arguments as models and clients write them: null, JSON text, one object, numbers as text."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Ref, Toolset
from tests.tools.conftest import MODELS, by
from tests.tools.models import Dish

KINDS = ("absent", "null", '""', "JSON text", "one object", "number as text")

KORMA = {"field": "name", "op": "=", "value": "Korma"}
BY_REF = by("id", ["dish_2"], "in")
UNCONFIRMED = {"table": "dishes", "row": "dish_2", "list": "parts"}
SOUP = by("id", ["dish_3"], "in")
LIST = {"table": "dishes", "row": "dish_2", "expect": "Korma", "list": "parts"}
NOTE = {"action": "modify", "path": [1], "data": {"note": "more rice"}}

# tool, argument, the other arguments, its value
CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("db_read", "table", {}, "dishes"),
    ("db_read", "filters", {"table": "dishes"}, [KORMA]),
    ("db_read", "or_filters", {"table": "dishes"}, [KORMA]),
    ("db_read", "columns", {"table": "dishes", "order_by": "name"}, ["name"]),
    ("db_read", "limit", {"table": "dishes", "order_by": "name"}, 1),
    ("db_read", "order_by", {"table": "dishes", "order_dir": "desc"}, ["name"]),
    ("db_read", "order_dir", {"table": "dishes", "order_by": ["name"]}, ["desc"]),
    ("db_read", "cursor", {"table": "dishes", "order_by": "name", "limit": 1}, None),
    ("db_read", "drafts", {"table": "dishes"}, True),
    ("db_create", "table", {"data": {"name": "Dal"}}, "dishes"),
    ("db_create", "data", {"table": "dishes"}, [{"name": "Dal"}]),
    ("db_create", "from_draft", {"table": "dishes", "expect": ["Dal"]}, ["gen_dish_1"]),
    ("db_create", "expect", {"table": "dishes", "from_draft": "gen_dish_1"}, ["Dal"]),
    (
        "db_create",
        "also",
        {"table": "dishes", "data": {"name": "Dal"}},
        [{"table": "cuisines", "data": {"name": "Tamil"}}],
    ),
    ("db_create", "draft", {"table": "dishes", "data": {"name": "Dal"}}, True),
    (
        "db_update",
        "table",
        {"filters": BY_REF, "data": {"servings": 3}, "expect": "Korma"},
        "dishes",
    ),
    ("db_update", "filters", {"table": "dishes", "data": {"spice": 3}, "expect": "Korma"}, BY_REF),
    ("db_update", "data", {"table": "dishes", "filters": BY_REF, "expect": "Korma"}, {"spice": 3}),
    (
        "db_update",
        "expect",
        {"table": "dishes", "filters": BY_REF, "data": {"spice": 3}},
        [{"name": "Korma"}],
    ),
    ("db_delete", "table", {"filters": SOUP, "expect": "Soup"}, "dishes"),
    ("db_delete", "filters", {"table": "dishes", "expect": "Soup"}, SOUP),
    ("db_delete", "expect", {"table": "dishes", "filters": SOUP}, ["Soup"]),
    *(("db_edit_list", name, {**LIST, "edits": [NOTE]}, value) for name, value in LIST.items()),
    ("db_edit_list", "edits", LIST, [NOTE]),
    ("db_edit_list", "preview", {**LIST, "edits": [NOTE]}, True),
    ("db_edit_list", "token", {**UNCONFIRMED, "edits": [NOTE]}, None),
    ("db_query", "sql", {}, "SELECT name FROM dishes ORDER BY name"),
    ("db_query", "limit", {"sql": "SELECT name FROM dishes ORDER BY name"}, 1),
    ("plan_meal", "dish", {"guests": []}, "dish_2"),
    ("plan_meal", "guests", {"dish": "dish_2"}, [{"name": "Ann"}]),
    ("plan_meal", "courses", {"dish": "dish_2", "guests": []}, 2),
]


class Guest(BaseModel):
    """A model of the application's own."""

    name: str
    likes: list[str] = []


class Desk:
    """Calls tools in one conversation; a call that is tried is undone."""

    def __init__(self, engine: Engine) -> None:
        registry = RefRegistry(store=MemoryStore())
        self.toolset = Toolset(MODELS, sql=True)
        self.bound = self.toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry)
        self.engine = engine
        self.chat = registry.conversation("chat-7")

        @self.toolset.tool(read_only=True)
        def plan_meal(dish: Ref[Dish], guests: list[Guest], courses: int | None = 1) -> str:
            """Plan a meal."""
            return f"{dish} for {', '.join(each.name for each in guests)}: {courses}"

    def try_call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Return the answer of a call that is undone."""
        with RefSession(self.engine, conversation=self.chat) as session, session.begin() as undone:
            answer = self.toolset.call(session, tool, arguments)
            undone.rollback()
        return answer

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Return the answer of a call."""
        return self.bound.call("chat-7", None, tool, arguments).value


@pytest.fixture
def desk(tables: Engine, dishes: dict[str, uuid.UUID]) -> Desk:
    """Tools, when the rows have been read: Curry, Korma and Soup."""
    assert dishes
    desk = Desk(tables)
    desk.call("db_read", {"table": "dishes", "order_by": "name"})
    desk.call("db_create", {"table": "dishes", "data": {"name": "Dal"}, "draft": True})
    return desk


def _variant(kind: str, argument: str, value: Any) -> dict[str, Any] | None:
    """Return an argument in another form; None if the value does not have it."""
    variants: dict[str, Any] = {"null": None, '""': ""}
    if not isinstance(value, str):
        variants["JSON text"] = json.dumps(value)
    if isinstance(value, list) and isinstance(value[0], dict):
        variants["one object"] = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        variants["number as text"] = str(value)
    if kind == "absent":
        return {}
    return {argument: variants[kind]} if kind in variants else None


def _outcome(answer: Mapping[str, Any]) -> str:
    """Return an answer without new refs and tokens."""
    shown = {name: each for name, each in answer.items() if name not in ("token", "cursor")}
    return re.sub(r"_\d+", "_n", json.dumps(shown))


def _cells(desk: Desk, tool: str, argument: str, others: dict[str, Any], value: Any) -> list[str]:
    """Return what becomes of an argument in each form."""
    if value is None:  # only an earlier answer has it
        first = {**others, "preview": True} if tool == "db_edit_list" else others
        value = desk.call(tool, first)[argument]
    others = {name: each for name, each in others.items() if name != argument}
    as_given = _outcome(desk.try_call(tool, {**others, argument: value}))
    left_out = _outcome(desk.try_call(tool, others))
    assert "error" not in json.loads(as_given)
    assert as_given != left_out
    cells = []
    for kind in KINDS:
        changed = _variant(kind, argument, value)
        answer = {} if changed is None else desk.try_call(tool, {**others, **changed})
        if changed is None:
            cells.append("")
        elif _outcome(answer) == as_given:
            cells.append("taken")
        elif "error" in answer:
            cells.append(answer["error"]["code"])
        else:
            assert _outcome(answer) == left_out
            cells.append("left out")
    return cells


# "taken": as if the value had been given plainly
OUTCOMES = """
| tool | argument | absent | null | "" | JSON text | one object | number as text |
| --- | --- | --- | --- | --- | --- | --- | --- |
| db_read | table | invalid_arguments | invalid_arguments | unknown_table | | | |
| db_read | filters | left out | left out | invalid_arguments | taken | taken | |
| db_read | or_filters | left out | left out | invalid_arguments | taken | taken | |
| db_read | columns | left out | left out | invalid_arguments | taken | | |
| db_read | limit | left out | left out | invalid_arguments | taken | | taken |
| db_read | order_by | left out | left out | left out | taken | | |
| db_read | order_dir | left out | left out | invalid_arguments | taken | | |
| db_read | cursor | left out | left out | invalid_cursor | | | |
| db_read | drafts | left out | left out | invalid_arguments | taken | | |
| db_create | table | invalid_arguments | invalid_arguments | unknown_table | | | |
| db_create | data | invalid_arguments | invalid_arguments | invalid_arguments | taken | taken | |
| db_create | from_draft | invalid_value | invalid_value | invalid_value | taken | | |
| db_create | expect | unconfirmed_ref | unconfirmed_ref | unexpected_row | taken | | |
| db_create | also | left out | left out | invalid_arguments | taken | taken | |
| db_create | draft | left out | left out | invalid_arguments | taken | | |
| db_update | table | invalid_arguments | invalid_arguments | unknown_table | | | |
| db_update | filters | missing_filter | missing_filter | invalid_arguments | taken | taken | |
| db_update | data | invalid_arguments | invalid_arguments | invalid_arguments | taken | | |
| db_update | expect | unconfirmed_ref | unconfirmed_ref | unexpected_row | taken | taken | |
| db_delete | table | invalid_arguments | invalid_arguments | unknown_table | | | |
| db_delete | filters | missing_filter | missing_filter | invalid_arguments | taken | taken | |
| db_delete | expect | unconfirmed_ref | unconfirmed_ref | unexpected_row | taken | | |
| db_edit_list | table | invalid_arguments | invalid_arguments | unknown_table | | | |
| db_edit_list | row | invalid_arguments | invalid_arguments | unknown_ref | | | |
| db_edit_list | expect | unconfirmed_ref | unconfirmed_ref | unexpected_row | | | |
| db_edit_list | list | invalid_arguments | invalid_arguments | unknown_list | | | |
| db_edit_list | edits | left out | left out | invalid_arguments | taken | taken | |
| db_edit_list | preview | left out | left out | invalid_arguments | taken | | |
| db_edit_list | token | unconfirmed_ref | unconfirmed_ref | list_changed | | | |
| db_query | sql | invalid_arguments | invalid_arguments | invalid_sql | | | |
| db_query | limit | left out | left out | invalid_arguments | taken | | taken |
| plan_meal | dish | invalid_arguments | invalid_arguments | unknown_ref | | | |
| plan_meal | guests | invalid_arguments | invalid_arguments | invalid_arguments | taken | taken | |
| plan_meal | courses | left out | left out | invalid_arguments | taken | | taken |
"""  # noqa: E501


def _expected() -> Iterator[tuple[str, str]]:
    """Yield the rows of the table."""
    for line in OUTCOMES.strip().splitlines()[2:]:
        tool, argument, cells = re.fullmatch(r"\| (\w+) \| (\w+) (\|.*\|)", line).groups()  # type: ignore[union-attr]
        yield f"{tool}.{argument}", cells


def test_the_table_has_each_argument() -> None:
    """Of each tool, in the order of its schema."""
    toolset = Toolset(MODELS, sql=True)
    names = [
        f"{each['name']}.{argument}"
        for each in toolset.schemas("mcp")
        for argument in each["inputSchema"]["properties"]
    ]
    own = [f"{tool}.{argument}" for tool, argument, _, _ in CASES if tool == "plan_meal"]
    assert [*dict(_expected())] == [*names, *own]


@pytest.mark.parametrize(
    ("tool", "argument", "others", "value"), CASES, ids=[f"{each[0]}.{each[1]}" for each in CASES]
)
def test_each_argument_may_be_written_as_the_table_has_it(
    desk: Desk, tool: str, argument: str, others: dict[str, Any], value: Any
) -> None:
    """Taken as if it had been given plainly, left out, or refused with a code."""
    with Session(desk.engine) as plain:  # so many that their keys are not in the order of names
        plain.add_all(Dish(name=f"Dish {n}") for n in range(9))
        plain.commit()
    cells = " | ".join(_cells(desk, tool, argument, others, value))
    assert " ".join(f"| {cells} |".split()) == dict(_expected()).get(f"{tool}.{argument}")


@pytest.mark.parametrize("empty", [None, "", " \n", "null", "{}", {}, b""])
def test_no_arguments_are_an_empty_object(desk: Desk, empty: Any) -> None:
    """However a client says so, to a toolset that is bound or not, in threads or not."""

    @desk.toolset.tool(read_only=True)
    def health(note: str = "fine") -> str:
        """Say whether all is well."""
        return note

    assert desk.call("health", empty) == {"result": "fine"}
    assert desk.try_call("health", empty) == {"result": "fine"}
    assert desk.call("db_read", empty)["error"]["field"] == "table"


def test_filters_are_taken_as_text_at_any_depth(desk: Desk) -> None:
    """A group, a clause and a list of values, text inside of text included."""
    clause = {"field": "name", "op": "in", "value": json.dumps(["Korma", "Soup"])}
    inner = json.dumps({"not": json.dumps(clause), "and": None})
    group = json.dumps([{"or": json.dumps([inner]), "field": None}])
    rows = desk.call("db_read", {"table": "dishes", "filters": group})["rows"]

    assert [each["name"] for each in rows] == ["Curry"]


def test_edits_are_taken_as_text(desk: Desk) -> None:
    """Each edit, its path, and the fields of a row."""
    edit = {"action": "modify", "path": '["1"]', "data": '{"note": "more"}', "to": None}
    rows = desk.call("db_edit_list", {**LIST, "edits": [json.dumps(edit)]})["items"]

    assert rows["1"]["note"] == "more"


def test_nested_rows_and_lists_are_taken_as_text(desk: Desk) -> None:
    """In new rows and in drafts; what is inside is read as if it were given plainly."""
    row = {
        "name": "Dal",
        "tags": '["hot"]',
        "parts": '[{"note": "le\\u0000ntils", "position": 1}]',
    }
    for extra in ({}, {"draft": True}):
        refused = desk.call("db_create", {"table": "dishes", "data": row, **extra})
        assert refused["error"]["code"] == "invalid_arguments"  # a NUL
        plain = {**row, "parts": row["parts"].replace("\\u0000", "")}
        made = desk.call("db_create", {"table": "dishes", "data": json.dumps([plain]), **extra})
        assert (made["rows"][0]["tags"], made["count"]) == (["hot"], 1)


def test_nuls_in_text_are_noted_as_elsewhere(desk: Desk) -> None:
    """Text that is an argument is repaired as the argument itself is."""
    made = desk.call("db_create", {"table": "dishes", "data": '{"name": "D\\u0000al"}'})
    assert made["rows"][0]["name"] == "Dal"
    assert made["notes"] == ["1 NUL character was left out of 'name'"]
    error = desk.call("db_read", {"table": "dishes", "columns": '["na\\u0000me"]'})["error"]
    assert (error["code"], error["field"]) == ("invalid_arguments", "columns.0")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ('[{"a": 1, "a": 2}]', "has a name twice"),
        ("[" + "[]," * 50_001 + "[]]", "more than 50,000 values"),
        ("[" * 24_000 + "]" * 24_000, "nested more than 50 levels"),
        ('["' + "a" * 600_000 + '"]', "more than 1,000,000 characters"),
        ("[1", "input should be a list"),
    ],
)
def test_text_inside_has_the_limits_of_the_whole(desk: Desk, columns: str, words: str) -> None:
    """It is counted with the rest of the call."""
    error = desk.call("db_read", {"table": "dishes", "columns": columns})["error"]
    assert error["code"] == "invalid_arguments"
    assert words in error["message"]


def test_drafts_are_refused_in_text_too() -> None:
    """Where there are none, their fields are not known in whatever form they come."""
    toolset = Toolset(MODELS, drafts=False)
    registry = RefRegistry(store=MemoryStore())
    with RefSession(conversation=registry.conversation("chat-7")) as session:
        also = json.dumps([{"table": "dishes", "from_draft": "gen_dish_1"}])
        asked = {"table": "dishes", "data": "{}", "also": also}
        error = toolset.call(session, "db_create", asked)["error"]
    assert error["field"] == "also.0.from_draft"


# documents

# a JSON value, and a text that is taken for it
DOCUMENTS: list[tuple[str, Any]] = [
    ('{"a": {"b": 2}}', {"a": {"b": 2}}),
    (' [1, "two", null]', [1, "two", None]),
    ('"text"', "text"),
    ('"{\\"a\\": 1}"', '{"a": 1}'),
    ("text", "text"),
    ("5", "5"),
    ("null", "null"),
    ('{"a": ', '{"a": '),
    ('"text" and more', '"text" and more'),
]


@pytest.mark.parametrize(("given", "stored"), DOCUMENTS)
@pytest.mark.parametrize("is_draft", [False, True])
def test_a_document_as_text_is_the_document(
    desk: Desk, given: str, stored: Any, *, is_draft: bool
) -> None:
    """A text that spells JSON is given in quotes, and shown so; what is shown is taken back."""
    row = {"name": "Raita", "extra": given}
    made = desk.call("db_create", {"table": "dishes", "data": row, "draft": is_draft})
    if is_draft:
        draft = {"table": "dishes", "from_draft": made["rows"][0]["id"], "expect": "Raita"}
        assert desk.call("db_read", _by_ref(made["rows"][0]["id"]))["rows"][0] == made["rows"][0]
        made = desk.call("db_create", draft)
    assert _stored(desk, "Raita") == stored
    assert made["rows"][0]["extra"] == (
        given.strip() if isinstance(stored, str) and '"{' in given else stored
    )

    again = {**_by_ref(made["rows"][0]["id"]), "expect": "Raita"}
    changed = desk.call("db_update", {**again, "data": {"extra": made["rows"][0]["extra"]}})
    assert changed["rows"] == made["rows"]
    assert _stored(desk, "Raita") == stored


def _by_ref(ref: str) -> dict[str, Any]:
    return {"table": "dishes", "filters": by("id", ref)}


def _stored(desk: Desk, name: str = "Dal") -> Any:
    with Session(desk.engine) as plain:
        return plain.scalars(select(Dish.extra).where(Dish.name == name)).one()


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("extra", '{"kcal": 100}', ["Soup"]),
        ("extra", {"kcal": 100}, ["Soup"]),
        ("tags", '["hot", "mild"]', ["Korma"]),
        ("tags", "hot", ["Curry", "Korma"]),
    ],
)
def test_contains_takes_text(desk: Desk, field: str, value: Any, found: list[str]) -> None:
    """Of a document, and of a list; of drafts too."""
    clause = {"field": field, "op": "contains", "value": value}
    asked = {"table": "dishes", "filters": [clause], "order_by": "name", "columns": ["name"]}
    assert [each["name"] for each in desk.call("db_read", asked)["rows"]] == found

    row = {"name": "Dal", "extra": {"kcal": 100}, "tags": ["hot", "mild"]}
    draft = desk.call("db_create", {"table": "dishes", "data": row, "draft": True})["rows"][0]
    among = {**_by_ref(draft["id"])}
    among["filters"] = [*among["filters"], clause]
    assert desk.call("db_read", among)["count"] == 1


def test_a_document_in_text_must_be_one_that_arguments_may_have(desk: Desk) -> None:
    """No name twice, no NUL, not nested without end: none of it is stored as a text."""
    for given in ('{"a": 1, "a": 2}', '{"a": "\\u0000"}', "[" * 60 + "]" * 60, "[1e999]"):
        asked = {"table": "dishes", "data": {"name": "Dal", "extra": given}}
        assert desk.call("db_create", asked)["error"]["code"] in (
            "invalid_arguments",
            "invalid_value",
        )


def test_items_of_documents_are_taken_as_text(desk: Desk) -> None:
    """As the whole document is; a text that spells one is shown and taken in quotes."""
    row = {"name": "Dal", "extra": ["a", '{"b": 1}', '"c"']}
    made = desk.call("db_create", {"table": "dishes", "data": row})
    assert made["rows"][0]["extra"] == row["extra"]
    asked = {"table": "dishes", "row": made["rows"][0]["id"], "list": "extra", "expect": "Dal"}
    shown = desk.call("db_edit_list", {**asked, "preview": True})["items"]
    edits = [{"action": "modify", "path": [int(at)], "data": each} for at, each in shown.items()]
    desk.call("db_edit_list", {**asked, "edits": edits})
    assert _stored(desk) == row["extra"]

    edits = [{"action": "modify", "path": [1], "data": '{"a": 1}'}]
    desk.call("db_edit_list", {**asked, "edits": edits})
    assert _stored(desk)[0] == {"a": 1}


def test_a_mark_that_json_text_escapes_stands_for_its_key(
    desk: Desk, dishes: dict[str, uuid.UUID]
) -> None:
    """As some clients escape what they send in a text."""
    escaped = r'{"same as": "\u003cdish_1\u003e"}'
    desk.call("db_create", {"table": "dishes", "data": {"name": "Raita", "extra": escaped}})
    assert _stored(desk, "Raita")["same as"] in map(str, dishes.values())
