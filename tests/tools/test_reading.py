"""Reading: columns, order, pages, related rows, and how much is shown."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, ToolError, Toolset
from tests.tools.conftest import MODELS, Call, by
from tests.tools.models import Dish, Part
from tests.tools.test_filters import Kitchen, kitchen

__all__ = ["kitchen"]


def names(answer: dict[str, Any]) -> list[Any]:
    """Return the names of the rows that were read."""
    return [row["name"] for row in answer["rows"]]


# Which rows, in which order


def test_a_cursor_has_no_key(kitchen: Kitchen) -> None:
    """Only what the last row shows: its ref, and its values in the order."""
    answer = kitchen.call("db_read", table="dishes", order_by=["name", "code"], limit=2)
    cursor = json.loads(base64.urlsafe_b64decode(answer["cursor"] + "=="))
    last = answer["rows"][-1]

    assert cursor.pop("question").isalnum()
    assert cursor == {"after": [last["name"], last["code"]], "ref": last["id"]}


@pytest.mark.parametrize(
    "direction", ["asc", "desc", ["asc", "desc", "asc"], ["desc", "asc", "desc"]]
)
@pytest.mark.parametrize("text", ["like {}", "{} " + "x" * 300])
def test_what_is_not_for_a_cursor_is_looked_up(
    kitchen: Kitchen, text: str, direction: Any
) -> None:
    """A text with a key in it, or a long one: pages are the whole all the same, nulls included."""
    with Session(kitchen.engine) as plain:
        for n, dish in enumerate(plain.scalars(select(Dish).order_by(Dish.code))):
            dish.name = None if n % 3 == 0 else text.format(uuid.UUID(int=n // 2))
        plain.commit()
    order = ["name", "spice", "servings"]
    asked = {"table": "dishes", "order_by": order, "order_dir": direction}
    whole = kitchen.call("db_read", **asked)["rows"]
    pages: list[Any] = []
    cursor = None
    while cursor is not None or not pages:
        answer = kitchen.call("db_read", **asked, limit=5, cursor=cursor)
        pages += answer["rows"]
        cursor = answer.get("cursor")
        sent = base64.urlsafe_b64decode(f"{cursor or ''}==")
        assert b"00000000-0000" not in sent
        assert len(sent) < 300

    assert pages == whole


@pytest.mark.usefixtures("dishes")
def test_a_cursor_belongs_to_its_question(call: Call) -> None:
    """With another filter, order or table, or altered, it is refused."""
    asked: dict[str, Any] = {"table": "dishes", "order_by": "name", "limit": 1}
    cursor = call("db_read", **asked)["cursor"]

    for other in (
        {"table": "cuisines", "order_by": "name"},
        {"table": "dishes", "order_by": "servings"},
        {"table": "dishes", "order_by": "name", "order_dir": "desc"},
        {**asked, "filters": [{"field": "name", "op": "is_not_null"}]},
        {**asked, "cursor": cursor[:-3]},
        {**asked, "cursor": "é"},
        {**asked, "cursor": ""},
    ):
        error = call("db_read", **{"cursor": cursor, **other})["error"]
        assert error["code"] == "invalid_cursor"
    assert names(call("db_read", **{**asked, "limit": 5}, cursor=cursor)) == ["Korma", "Soup"]


@pytest.mark.usefixtures("dishes")
def test_a_limit_of_nothing_shows_nothing(call: Call) -> None:
    """And tells whether there would be rows."""
    assert call("db_read", table="dishes", limit=0) == {
        "table": "dishes",
        "rows": [],
        "count": 0,
        "more": True,
    }


@pytest.mark.parametrize(("column", "fact"), [("cuisine_id", "refs"), ("tags", "order")])
def test_what_has_no_order_is_refused(call: Call, column: str, fact: str) -> None:
    """Refs and lists: the message names columns that have one."""
    error = call("db_read", table="dishes", order_by=column)["error"]

    assert error["code"] == "invalid_order"
    assert fact in error["message"]
    assert "name" in error["columns"]


# What is shown of them


@pytest.mark.usefixtures("dishes")
def test_a_row_read_without_its_key_has_its_ref(call: Call) -> None:
    """Columns are what a model names, and the ref."""
    answer = call("db_read", table="dishes", columns=["servings"], filters=by("name", "Korma"))

    assert answer["rows"] == [{"id": "dish_1", "servings": 4}]


@pytest.mark.usefixtures("dishes")
def test_a_row_with_several_key_columns_has_a_ref_of_its_own(call: Call) -> None:
    """By which it is found, changed and deleted."""
    [row] = call("db_read", table="servings")["rows"]
    assert row == {
        "_ref": "serving_1",
        "dish_id": "dish_1",
        "_dish_id_label": "Korma",
        "place": 1,
        "note": "first",
    }
    by_ref = by("_ref", "serving_1")

    assert call("db_read", table="servings", filters=by_ref)["rows"] == [row]
    assert call("db_update", table="servings", filters=by_ref, data={"note": "x"})["count"] == 1
    others = [{"not": by_ref[0]}]
    assert call("db_read", table="servings", filters=others)["rows"] == []
    assert call("db_delete", table="servings", filters=by_ref)["deleted"] == ["serving_1"]


@pytest.mark.usefixtures("dishes")
def test_related_rows_are_shown_inside(call: Call) -> None:
    """With their refs and labels, at every level, and only the columns that are named."""
    korma = by("name", "Curry")
    [row] = call(
        "db_read",
        table="dishes",
        columns=["name", "parent", "parent.parts.note", "parent.name"],
        filters=korma,
    )["rows"]

    assert row == {
        "id": "dish_1",
        "name": "Curry",
        "parent": {
            "id": "dish_2",
            "name": "Korma",
            "parts": [{"id": "part_1", "note": "rice"}, {"id": "part_2", "note": "sauce"}],
        },
    }


@pytest.mark.usefixtures("dishes")
def test_what_is_binary_is_shown_where_it_is_named(call: Call, tables: Engine) -> None:
    """In base64."""
    with Session(tables) as plain:
        for dish in plain.scalars(select(Dish)):
            dish.photo = b"\x00\xff"
        plain.commit()

    assert all("photo" not in row for row in call("db_read", table="dishes")["rows"])
    named = call("db_read", table="dishes", columns=["photo"])
    assert {row["photo"] for row in named["rows"]} == {"AP8="}


def test_keys_in_texts_and_documents_are_hidden(
    call: Call, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """A known one by its ref, any other by a mark, in columns of UUIDs without a target too."""
    device = uuid.uuid4()
    with Session(tables) as plain:
        soup = plain.get_one(Dish, dishes["Soup"])
        soup.name = f"like {dishes['Korma']}"
        soup.extra = {str(dishes["Korma"]): [dishes["Korma"].hex, 7], "by": f"{uuid.uuid4()}"}
        soup.device = device
        plain.commit()
    call("db_read", table="dishes", filters=by("name", "Korma"))
    [row] = call("db_read", table="dishes", filters=by("device", str(device)))["rows"]

    assert row["name"] == "like <dish_1>"
    assert row["extra"] == {"<dish_1>": ["<dish_1:hex>", 7], "by": "<key_1>"}
    assert row["device"] == "<key_2>"


def test_results_are_capped_and_say_so(
    session: RefSession, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """Rows, characters, the length of a text, and related rows: each with how to go on."""
    with Session(tables) as plain:
        korma = plain.get_one(Dish, dishes["Korma"])
        korma.parts += [Part(position=n, note="more") for n in range(3, 6)]
        korma.name = "Korma " + "x" * 50
        plain.commit()
    toolset = Toolset(MODELS, limits=Limits(rows=2, characters=10_000, text=10))
    answer = toolset.call(
        session, "db_read", {"table": "dishes", "columns": ["name", "parts"], "order_by": "name"}
    )

    assert names(answer) == ["Curry", "Korma xxxx…<cut: 46 more characters>"]
    assert answer["more"]
    assert answer["cut"] == ["dish_2.name: 46 more characters", "dish_2.parts: 3 more rows"]
    short = Toolset(MODELS, limits=Limits(characters=10))
    first = short.call(session, "db_read", {"table": "dishes", "order_by": "servings"})
    assert (first["count"], first["more"]) == (1, True)
    again = {"table": "dishes", "order_by": "servings", "cursor": first["cursor"]}
    assert short.call(session, "db_read", again)["rows"] != first["rows"]


# Labels


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize("mode", ["legend", "none"])
def test_labels_come_once_or_not_at_all(session: RefSession, mode: Any) -> None:
    """A legend has each label once for the whole answer."""
    toolset = Toolset(MODELS, labels=mode)
    answer = toolset.call(
        session, "db_read", {"table": "dishes", "columns": ["cuisine_id"], "order_by": "name"}
    )

    assert answer["rows"][0] == {"id": "dish_1", "cuisine_id": "cuisine_1"}
    expected = {"cuisine_1": "Thai", "cuisine_2": "Indian"} if mode == "legend" else None
    assert answer.get("labels") == expected


@pytest.mark.usefixtures("dishes")
def test_what_a_model_may_not_use_has_no_label(session: RefSession) -> None:
    """The ref is shown, and no more."""
    toolset = Toolset([Dish])
    asked = {"table": "dishes", "filters": by("name", "Korma")}
    [row] = toolset.call(session, "db_read", asked)["rows"]

    assert row["cuisine_id"] == "cuisine_1"
    assert "_cuisine_id_label" not in row


# Hooks


class Found(Hooks):
    """Answers a search by meaning with rows in an order of its own."""

    def __init__(self, refs: list[Any]) -> None:
        self.refs = refs

    def before_read(self, read: Reading) -> None:
        """Give the rows."""
        if read.semantic == "nothing":
            read.answer_empty("nothing is like that")
        elif read.semantic is not None:
            read.keys = self.refs
        read.include.append("parts")

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Add something."""
        for place, row in enumerate(rows):
            row["place"] = place


def test_a_search_by_meaning_keeps_its_order(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """Of refs and keys alike, page by page, within the other filters."""
    hooks = Found([dishes["Soup"], dishes["Korma"], dishes["Curry"]])
    toolset = Toolset(MODELS, hooks={Dish: [hooks]})
    asked = {"table": "dishes", "columns": ["name"], "filters": by("_semantic", "warm", "similar")}
    first = toolset.call(session, "db_read", {**asked, "limit": 2})
    rest = toolset.call(session, "db_read", {**asked, "cursor": first["cursor"]})
    assert (names(first), names(rest)) == (["Soup", "Korma"], ["Curry"])
    assert [row["place"] for row in first["rows"]] == [0, 1]
    assert [len(row["parts"]) for row in first["rows"]] == [0, 2]

    hooks.refs = [first["rows"][1]["id"], dishes["Soup"]]
    narrow = {"field": "servings", "op": "is_not_null"}
    both = toolset.call(session, "db_read", {**asked, "filters": [*asked["filters"], narrow]})
    assert names(both) == ["Korma"]


def test_a_hook_may_answer_without_rows(session: RefSession, sent: list[str]) -> None:
    """No statement is executed, and the model reads why."""
    toolset = Toolset(MODELS, hooks={Dish: [Found([])]})
    similar = {"field": "_semantic", "op": "similar", "value": "nothing"}
    answer = toolset.call(session, "db_read", {"table": "dishes", "filters": [similar]})

    assert (answer["rows"], answer["notes"]) == ([], ["nothing is like that"])
    assert sent == []


@pytest.mark.usefixtures("dishes")
def test_a_hook_widens_by_its_own_conditions_only(session: RefSession) -> None:
    """Rows that meet the filters or its condition, within what it demands besides."""

    class Nearly(Hooks):
        def before_read(self, read: Reading) -> None:
            read.or_conditions.append(func.lower(Dish.name) == "soup")
            read.conditions.append(Dish.name != "Curry")

    toolset = Toolset(MODELS, hooks={Dish: [Nearly()]})
    spelled = by("name", ["Curry", "Korma"], "in")
    answer = toolset.call(
        session, "db_read", {"table": "dishes", "filters": spelled, "order_by": "name"}
    )
    assert names(answer) == ["Korma", "Soup"]


@pytest.mark.usefixtures("dishes")
def test_a_hook_sees_conditions_at_any_depth(session: RefSession) -> None:
    """Those in groups too, and those of both lists, in the order they are given."""
    seen: list[str] = []

    class Seeing(Hooks):
        def before_read(self, read: Reading) -> None:
            seen.extend(clause.field for clause in read.clauses())

    name, servings, spice = (
        {"field": field, "op": "is_null"} for field in ("name", "servings", "spice")
    )
    filters = [name, {"not": {"or": [servings, {"and": [spice]}]}}]
    asked = {"table": "dishes", "filters": filters, "or_filters": [name]}
    Toolset(MODELS, hooks={Dish: [Seeing()]}).call(session, "db_read", asked)

    assert seen == ["name", "servings", "spice", "name"]


def test_a_hook_refuses(session: RefSession) -> None:
    """By an error of its own, which the model reads."""

    class Closed(Hooks):
        def before_read(self, _: Reading) -> None:
            raise ToolError("closed", "the kitchen is closed; come back at six", opens="18:00")

    toolset = Toolset(MODELS, hooks={Dish: [Closed()]})
    assert toolset.call(session, "db_read", {"table": "dishes"}) == {
        "error": {
            "code": "closed",
            "message": "the kitchen is closed; come back at six",
            "opens": "18:00",
        }
    }


@pytest.mark.usefixtures("dishes")
def test_no_search_by_meaning_without_a_hook(call: Call) -> None:
    """It is refused, not left out; nor inside a group; and no error offers it."""
    similar = {"field": "_semantic", "op": "similar", "value": "warm"}
    assert call("db_read", table="dishes", filters=[similar])["error"]["code"] == (
        "no_semantic_search"
    )
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("db_read", {"filters": [{"not": similar}]}, "unknown_column"),
        ("db_read", {"or_filters": [similar]}, "unknown_column"),
        ("db_read", {"filters": [{**similar, "field": "name"}]}, "invalid_filter"),
        ("db_read", {"filters": [{**similar, "field": "parts.note"}]}, "invalid_filter"),
        ("db_read", {"filters": [{**similar, "op": "like"}]}, "invalid_arguments"),
        ("db_read", {"filters": by("_semantic", "a")}, "unknown_column"),
        ("db_delete", {"filters": [similar]}, "unknown_column"),
    ]
    for tool, arguments, code in asked:
        error = call(tool, table="dishes", **arguments)["error"]
        assert error["code"] == code, arguments
        offered = error["message"].replace("cannot be 'similar'", "")
        assert "similar" not in offered
        assert "_semantic" not in offered.replace("no column '_semantic'", "")


class Searching(Hooks):
    """May answer a search by meaning."""

    def before_read(self, read: Reading) -> None:
        """Find nothing."""


@pytest.mark.usefixtures("dishes")
def test_a_search_by_meaning_has_its_place(session: RefSession) -> None:
    """Where a hook may answer it, errors say where it is given."""
    toolset = Toolset(MODELS, hooks={Dish: [Searching()]})
    similar = {"field": "_semantic", "op": "similar", "value": "warm"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("db_read", {**similar, "op": "="}, "cannot be '='; use 'similar' with a text"),
        ("db_read", {**similar, "field": "name"}, "use field '_semantic', or 'ilike' on a text"),
        ("db_read", {"or": [similar]}, "inside a group or a path, or in a write"),
        ("db_read", {**similar, "op": "like"}, "'contains', 'similar'"),
        ("db_delete", {**similar, "op": "like"}, "'contains'; look"),
    ]
    for tool, filter_, message in cases:
        asked = {"table": "dishes", "filters": [filter_]}
        assert message in toolset.call(session, tool, asked)["error"]["message"]
    other = {"table": "cuisines", "filters": [{**similar, "field": "name"}]}
    assert "_semantic" not in toolset.call(session, "db_read", other)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"or_filters": [{"filters": by("name", "Korma")}]},
        {"or_filters": {"filters": {"field": "name", "op": "=", "value": "Korma"}}},
        {"filters": [{"or_filters": []}]},
        {"filters": [{"column": "name", "op": "=", "value": "Korma"}]},
        {"filters": [{"not": {"name": "Korma"}}]},
    ],
)
def test_what_a_filter_is_is_said_where_it_is_something_else(
    call: Call, arguments: dict[str, Any]
) -> None:
    """With the place of the one that is not."""
    error = call("db_read", table="dishes", **arguments)["error"]
    assert error["code"] == "invalid_arguments"
    assert (
        "a filter has 'field', 'op' and 'value', or it has 'and', 'or' or 'not'"
        in (error["message"])
    )
    assert error["field"] in ("or_filters.0", "filters.0", "filters.0.not")


# What it counts


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (by("id", "dish_1"), 1),
        (by("id", ["dish_1", "dish_2"], "in"), 2),
        (by("id", ["dish_1"], "not_in"), 1),
        (by("parent.id", "dish_1", "!="), 1),
        (by("alike", ["dish_1"], "contains"), 1),
        ([], 0),
    ],
)
@pytest.mark.usefixtures("dishes")
def test_each_ref_of_a_read_counts_once(
    call: Call, registry: RefRegistry, filters: list[Any], count: int
) -> None:
    """It is resolved before hooks are asked, and not once more by the statement."""
    call("db_read", table="dishes", columns=["id"])
    before = registry.counts.resolved

    assert "error" not in call("db_read", table="dishes", filters=filters)

    assert registry.counts.resolved == before + count
