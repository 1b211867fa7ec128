"""Drafts by the tools alone: rows are kept as drafts, listed, changed, discarded and saved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, Toolset, Writing
from tests.fix_session import TravelLog
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Cuisine, Dish, Part

Named = dict[str, Any]
FORMS: Any = ("openai", "anthropic", "mcp", "json_schema")

SOUP: Named = {
    "name": "Soup",
    "servings": 2,
    "parts": [{"note": "leek", "position": 1}, {"note": "salt", "position": 2}],
}


def by_ref(*refs: str) -> list[Named]:
    """Return a filter on the refs of rows."""
    return [{"field": "id", "op": "in", "value": [*refs]}]


def listed(call: Call, **asked: Any) -> list[str]:
    """Return the refs of the drafts that a read lists."""
    answer = call("db_read", table="dishes", drafts=True, columns=["name"], **asked)
    return [row["id"] for row in answer["rows"]]


def test_a_model_needs_no_program_for_drafts(call: Call, conversation: Conversation) -> None:
    """It proposes, lists, changes, discards and saves; nothing is in the table before."""
    made = call("db_create", table="dishes", data=[SOUP, {"name": "Tea"}], draft=True)
    assert [(row["id"], row["name"], row["_draft"]) for row in made["rows"]] == [
        ("gen_dish_1", "Soup", "pending"),
        ("gen_dish_2", "Tea", "pending"),
    ]
    assert [each["note"] for each in made["rows"][0]["parts"]] == ["leek", "salt"]
    assert call("db_read", table="dishes")["count"] == 0

    assert listed(call) == ["gen_dish_1", "gen_dish_2"]
    call("db_update", table="dishes", filters=by_ref("gen_dish_1"), data={"servings": 4})
    assert call("db_delete", table="dishes", filters=by_ref("gen_dish_2"))["count"] == 1
    assert listed(call) == ["gen_dish_1"]

    saved = call("db_create", table="dishes", from_draft="gen_dish_1")
    assert (saved["saved"], saved["rows"][0]["servings"]) == ({"gen_dish_1": "dish_1"}, 4)
    assert call("db_read", table="parts")["count"] == 2
    assert listed(call) == []
    assert [draft.label for draft in conversation.drafts(states=["saved"])] == ["Soup"]


def test_drafts_are_kept_all_or_none(call: Call, store: TravelLog) -> None:
    """Of several tables in one round trip; one that is refused says which it is."""
    store.trips.clear()
    also = [{"table": "cuisines", "data": {"name": "Thai"}}]
    made = call("db_create", table="dishes", data=[SOUP, {}], also=also, draft=True)
    assert (made["count"], made["also"][0]["rows"][0]["id"]) == (2, "gen_cuisine_1")

    for wrong, code in (
        ({"nme": "x"}, "unknown_column"),
        ({"servings": "x"}, "invalid_value"),
        ({"cuisine_id": "cuisine_7"}, "unknown_ref"),
        ({"cuisine_id": "gen_dish_1"}, "wrong_entity"),
        ({"parts": [{"nte": "x"}]}, "unknown_column"),
    ):
        data = [SOUP, wrong]
        error = call("db_create", table="dishes", data=data, draft=True)["error"]
        assert error["code"] == code
    assert listed(call) == ["gen_dish_1", "gen_dish_2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": "dishes", "from_draft": "gen_dish_1"}, "'draft' keeps new rows as drafts"),
        ({"table": "dishes"}, "give data"),
        ({"table": "servings", "data": {}}, "rows of 'servings' cannot be drafts of their own"),
        ({"table": "dishes", "data": {}, "draft": 1}, "input should be a valid boolean"),
    ],
)
def test_what_cannot_be_drafted_is_told(call: Call, arguments: Named, said: str) -> None:
    """With what to do instead."""
    error = call("db_create", **{"draft": True, **arguments})["error"]
    assert said in error["message"]


def test_what_may_not_be_created_is_not_drafted(session: RefSession) -> None:
    """Nor inside of what may."""
    toolset = Toolset(MODELS, read_only=[Part], expect="optional")
    for table, data in (("parts", {}), ("dishes", SOUP)):
        asked = {"table": table, "data": data, "draft": True}
        answer = toolset.call(session, "db_create", asked)
        assert answer["error"]["code"] == "read_only_table"


# which drafts there are


def test_drafts_are_listed_as_rows_are(call: Call, store: TravelLog, sent: list[str]) -> None:
    """Those that meet the filters, page by page, without a statement to their table."""
    data = [{"name": name, "servings": n} for n, name in enumerate("abcde")]
    call("db_create", table="dishes", data=data, draft=True)
    sent.clear()
    store.trips.clear()
    few = {"field": "servings", "op": "<", "value": 4}
    asked: Named = {"table": "dishes", "drafts": True, "columns": ["name"], "limit": 2}
    names = []
    for filters in ([], [few]):
        cursor = None
        while True:
            answer = call("db_read", **asked, filters=filters, cursor=cursor)
            names += [row["name"] for row in answer["rows"]]
            cursor = answer.get("cursor")
            if not answer["more"]:
                break
    assert names == [*"abcde", *"abcd"]
    assert [each for each in sent if "dishes" in each] == []
    either = [{"field": "name", "op": "=", "value": name} for name in "ae"]
    assert listed(call, or_filters=either) == ["gen_dish_1", "gen_dish_5"]
    refused = call("db_read", table="dishes", drafts=True, columns=["count(*)"])
    assert "drafts are not counted" in refused["error"]["message"]
    with_rows = call("db_read", table="dishes", limit=2, cursor=answer.get("cursor"))
    assert with_rows["rows"] == []


def test_a_cursor_of_drafts_is_none_of_rows(call: Call) -> None:
    """Nor does a hook that changes the question stand in its way."""
    call("db_create", table="dishes", data=[{}, {}], draft=True)
    first = call("db_read", table="dishes", drafts=True, limit=1)
    answer = call("db_read", table="dishes", limit=1, cursor=first["cursor"])

    assert answer["error"]["code"] == "invalid_cursor"


def test_hooks_may_change_which_drafts_are_listed(session: RefSession) -> None:
    """By the filters of the question, on every page."""

    class Few(Hooks):
        def before_read(self, read: Reading) -> None:
            """Ask for less."""
            few = {"field": "servings", "op": ">", "value": 1}
            given = read.arguments.model_dump(by_alias=True)
            read.arguments = type(read.arguments).model_validate({**given, "filters": [few]})

    toolset = Toolset(MODELS, hooks={Dish: [Few()]}, limits=Limits(rows=1), expect="optional")
    data = [{"servings": n} for n in (2, 1, 3)]
    toolset.call(session, "db_create", {"table": "dishes", "data": data, "draft": True})
    asked: Named = {"table": "dishes", "drafts": True}
    first = toolset.call(session, "db_read", asked)
    second = toolset.call(session, "db_read", {**asked, "cursor": first["cursor"]})

    assert [row["id"] for row in first["rows"] + second["rows"]] == ["gen_dish_1", "gen_dish_3"]
    assert second["more"] is False


# rows inside of new rows


def test_children_are_created_with_their_parent(call: Call) -> None:
    """In one call, by relationship, as deep as need be; they are shown inside with their refs."""
    data = [{**SOUP, "cuisine": {"name": "French"}}, {"name": "Tea"}]
    answer = call("db_create", table="dishes", data=data)

    soup, tea = answer["rows"]
    assert [(each["id"], each["note"], each["dish_id"]) for each in soup["parts"]] == [
        ("part_1", "leek", "dish_1"),
        ("part_2", "salt", "dish_1"),
    ]
    assert soup["cuisine"] == {"id": "cuisine_1", "name": "French"}
    assert soup["cuisine_id"] == "cuisine_1"
    assert tea["parts"] == []


def test_rows_that_are_there_may_be_put_inside(call: Call) -> None:
    """By their refs: that is an update of them."""
    call("db_create", table="dishes", data={**SOUP, "name": "Old"})
    answer = call("db_create", table="dishes", data={"name": "New", "parts": ["part_2"]})

    assert [each["id"] for each in answer["rows"][0]["parts"]] == ["part_2"]
    [old] = call("db_read", table="dishes", filters=by_ref("dish_1"), columns=["parts"])["rows"]
    assert [each["id"] for each in old["parts"]] == ["part_1"]


@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        ({"parts": {"note": "x"}}, "invalid_value", "row 2: the value given for 'parts'"),
        ({"parts": [{"nte": "x"}]}, "unknown_column", "row 2: table 'parts' has no column 'nte'"),
        ({"parts": [{"position": "x"}]}, "invalid_value", "'position'"),
        (
            {"parts": [{"dish_id": "dish_1"}]},
            "invalid_value",
            "belong to the row that they are in",
        ),
        ({"parts": ["part_7"]}, "unknown_ref", "'part_7' is not a known part"),
        ({"cuisine": {}}, "missing_value", "a row of 'cuisines' needs a value for 'name'"),
        ({"parts": [{"note": "cut \u2026<cut: 9 more characters>"}]}, "invalid_value", "a cut"),
    ],
)
def test_what_is_wrong_inside_is_told(call: Call, row: Named, code: str, said: str) -> None:
    """And nothing is created."""
    answer = call("db_create", table="dishes", data=[{"name": "Tea"}, row])

    assert answer["error"]["code"] == code
    assert said in answer["error"]["message"]
    assert call("db_read", table="dishes")["count"] == 0


def test_hooks_enrich_rows_inside(session: RefSession) -> None:
    """Each by its own table; a row with others inside is not lost by one that replaces it."""

    class Enrich(Hooks):
        def before_write(self, write: Writing) -> None:
            """Put others in their place."""
            name = "note" if write.model is Part else "code"
            write.records = [{**record, name: "new"} for record in write.records][::-1][::-1]

    toolset = Toolset(MODELS, hooks={Dish: [Enrich()], Part: [Enrich()]}, expect="optional")
    answer = toolset.call(session, "db_create", {"table": "dishes", "data": SOUP})

    [row] = answer["rows"]
    assert (row["code"], [each["note"] for each in row["parts"]]) == ("new", ["new", "new"])


def test_rows_inside_count_and_go_with_what_is_merged(
    session: RefSession, conversation: Conversation
) -> None:
    """As many as a call may write; of several that are the same the last one has its own."""
    toolset = Toolset(MODELS, max_written=3, deduplicate={Dish: ["name"]}, expect="optional")
    few = {**SOUP, "parts": [{"note": "last"}]}
    answer = toolset.call(session, "db_create", {"table": "dishes", "data": [SOUP, few]})
    many = {**SOUP, "parts": [{}] * 3}
    draft = conversation.draft(Dish, many).ref

    assert [[each["note"] for each in row["parts"]] for row in answer["rows"]] == [["last"]]
    assert answer["merged"] == [[1, 2]]
    for given in ({"data": many}, {"from_draft": draft}):
        refused = toolset.call(session, "db_create", {"table": "dishes", **given})
        assert refused["error"]["code"] == "too_many_rows"


# without drafts


ALSO = {"table": "dishes", "from_draft": 5}


@pytest.fixture
def without(session: RefSession) -> Call:
    """Call a tool of a toolset without drafts."""
    toolset = Toolset(MODELS, drafts=False, expect="optional")
    return lambda tool, /, **arguments: toolset.call(session, tool, arguments)


def test_without_drafts_a_model_never_hears_of_them() -> None:
    """In no form of its definitions, and not in the description."""
    toolset = Toolset(MODELS, drafts=False, expect="optional")
    told = [toolset.describe(), *(json.dumps(toolset.schemas(form)) for form in FORMS)]

    for text in told:
        assert "draft" not in text.replace("json-schema.org/draft/", "").lower()
        assert "gen_" not in text
    [create] = [each for each in toolset.schemas("json_schema") if each["title"] == "db_create"]
    assert create["required"] == ["table", "data"]


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("db_read", {"drafts": True}, "drafts"),
        ("db_create", {"draft": True, "data": {}}, "draft"),
        ("db_create", {"from_draft": 5}, "from_draft"),
        ("db_create", {"data": {}, "also": [ALSO]}, "also.0.from_draft"),
    ],
)
def test_without_drafts_there_are_no_fields_for_them(
    without: Call, tool: str, arguments: Named, field: str
) -> None:
    """They are told as any other that is not there."""
    answer = without(tool, table="dishes", **arguments)
    unknown = without("db_read", table="dishes", nothing=1)
    assert answer["error"] == json.loads(
        json.dumps(unknown["error"]).replace("'nothing'", repr(field)).replace("nothing", field)
    )


def test_without_drafts_their_refs_are_unknown(
    without: Call, call: Call, conversation: Conversation
) -> None:
    """In the words of unknown ones, wherever they stand: though the application has drafts."""
    without("db_create", table="dishes", data={"name": "Tea", "parts": [{"note": "x"}]})
    for name in ("Soup", "Saved", "Gone"):
        conversation.draft(Dish, {"name": name})
    conversation.draft(Cuisine, {"name": "Thai"})
    call("db_create", table="dishes", from_draft="gen_dish_2")
    conversation.discard_drafts(["gen_dish_3"])
    named = by_ref("{ref}")
    of_parent = {**named[0], "field": "parent_id"}
    asked: list[tuple[str, Named]] = [
        ("db_read", {"table": "dishes", "filters": named}),
        ("db_read", {"table": "dishes", "filters": named, "columns": ["count(*)"]}),
        ("db_read", {"table": "dishes", "filters": [of_parent]}),
        ("db_update", {"table": "dishes", "filters": named, "data": {"servings": 1}}),
        ("db_delete", {"table": "dishes", "filters": named}),
        ("db_create", {"table": "parts", "data": {"dish_id": "{ref}"}}),
        ("db_create", {"table": "parts", "data": {"dish": "{ref}"}}),
        ("db_edit_list", {"table": "dishes", "row": "{ref}", "list": "tags"}),
    ]
    for tool, arguments in asked:
        answers = []
        for ref in (*(f"gen_dish_{n}" for n in (1, 2, 3, 9)), "GEN_dish_1", "gun_dish_9"):
            given = json.loads(json.dumps(arguments).replace("{ref}", ref))
            answer = without(tool, **given)
            assert "error" in answer, (tool, given)
            answer["error"].pop("near", None)
            told = json.dumps(answer).replace(ref, "REF").replace("did you mean 'dish_1'", "")
            answers.append(told)
            assert "draft" not in told
            assert answer["error"]["code"] == "unknown_ref"
        assert "gen_" not in str(answers)
    text = {"table": "dishes", "data": {"name": "<gen_dish_2>"}}
    marked = without("db_create", **text)["error"]
    assert (marked["code"], "draft" in marked["message"]) == ("invalid_value", False)
    assert without("db_create", **{**text, "data": None})["error"]["field"] == "data"
