"""Changing and discarding drafts: in the registry, all or none, and never in their table."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from alfred_refs import AsyncRefSession, Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS, Call, Watcher, servings
from tests.tools.models import Cuisine, Dish
from tests.tools.test_draft_reading import FIRST, SECOND, by_id, save, shown

DAL = {"name": "Dal", "servings": 2, "tags": ["hot"], "parts": [{"note": "rice", "position": 1}]}


@pytest.fixture
def drafts(conversation: Conversation) -> Conversation:
    """A conversation with two drafts of dishes and one of a cuisine."""
    conversation.draft(Dish, DAL)
    conversation.draft(Dish, {"name": "Naan"})
    conversation.draft(Cuisine, {"name": "Greek"})
    return conversation


@pytest.fixture
def meanwhile(
    session: RefSession, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], Any]], None]:
    """Have something done after the next call has read drafts, and before it writes them."""
    view: Any = session.own_view
    before = view.read_drafts

    def do_meanwhile(act: Callable[[], Any]) -> None:
        def read(refs: Any, entity: Any = None) -> Any:
            found = before(refs, entity)
            monkeypatch.undo()
            act()
            return found

        monkeypatch.setattr(view, "read_drafts", read)

    return do_meanwhile


def contents(conversation: Conversation) -> dict[str, Any]:
    """Return what the drafts of dishes hold that are pending."""
    return {draft.ref: draft.content for draft in conversation.drafts(Dish)}


# Changing


def test_an_update_changes_what_a_draft_holds(call: Call, drafts: Conversation) -> None:
    """What is given, as it was given; the rest stays, and the answer shows the whole."""
    data = {"name": "Tarka Dal", "cooked_on": "2026-05-01", "price": "2.50", "cuisine_id": ""}
    answer = call("db_update", table="dishes", filters=[by_id(FIRST)], data=data)

    assert contents(drafts)[FIRST] == {**DAL, **data, "cuisine_id": None}
    assert contents(drafts)[SECOND] == {"name": "Naan"}
    [row] = answer["rows"]
    assert (row["id"], row["_draft"], row["name"]) == (FIRST, "pending", "Tarka Dal")
    assert (row["servings"], row["parts"][0]["note"]) == (2, "rice")
    assert answer["count"] == 1
    assert [draft.label for draft in drafts.drafts(Dish)] == ["Tarka Dal", "Naan"]


def test_what_is_nested_is_replaced_as_a_whole(
    call: Call, drafts: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """By a list of new rows and refs, by one, or by nothing."""
    thai = drafts.refer(Cuisine, dishes["Thai"])
    part = call("db_read", table="parts")["rows"][0]["id"]
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}

    for data in (
        {"parts": [{"note": "lentils", "position": 2}, part]},
        {"cuisine": {"name": "Indian"}, "parts": []},
        {"cuisine": thai},
        {"cuisine": None},
    ):
        [row] = call("db_update", **asked, data=data)["rows"]
        assert {name: contents(drafts)[FIRST][name] for name in data} == data
    assert row["parts"] == []


def test_a_reference_is_said_once(
    call: Call, drafts: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """In a column or by the relationship: the last is meant."""
    thai, indian = (drafts.refer(Cuisine, dishes[name]) for name in ("Thai", "Indian"))
    asked = {"table": "dishes", "filters": [by_id(SECOND)]}

    call("db_update", **asked, data={"cuisine": thai})
    [row] = call("db_update", **asked, data={"cuisine_id": indian})["rows"]
    assert contents(drafts)[SECOND] == {"name": "Naan", "cuisine_id": indian}
    assert (row["cuisine_id"], row["_cuisine_id_label"]) == (indian, "Indian")
    call("db_update", **asked, data={"cuisine": {"name": "Greek"}})
    assert contents(drafts)[SECOND] == {"name": "Naan", "cuisine": {"name": "Greek"}}


def test_drafts_refer_to_each_other(call: Call, drafts: Conversation) -> None:
    """By refs of drafts that are pending."""
    data = {"parent_id": SECOND, "cuisine_id": "gen_cuisine_1"}
    [row] = call("db_update", table="dishes", filters=[by_id(FIRST)], data=data)["rows"]

    assert (row["_parent_id_label"], row["_cuisine_id_label"]) == ("Naan", "Greek")
    assert contents(drafts)[FIRST] == {**DAL, **data}


def test_what_could_not_be_saved_is_refused(session: RefSession, drafts: Conversation) -> None:
    """As of rows, and nothing is changed; the value is not repeated."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"nothing": 1}, "unknown_column"),
        ({"id": "dish_1"}, "unknown_column"),
        ({"price": 1}, "unknown_column"),
        ({"parts": [{"nothing": 1}]}, "unknown_column"),
        ({"parts": [{"secret": 1}]}, "unknown_column"),
        ({"servings": "many"}, "invalid_value"),
        ({"code": "too long"}, "invalid_value"),
        ({"name": "a <key_1> in it"}, "invalid_value"),
        ({"parts": [{"note": "a <key_1> in it"}]}, "invalid_value"),
        ({"parts": [{"note": "so…<cut: 5 more characters>"}]}, "invalid_value"),
        ({"name": "a <gen_dish_2> in it"}, "draft_ref"),
        ({"parts": {"note": "rice"}}, "invalid_value"),
        ({"parts": [5]}, "invalid_value"),
        ({"parts": [{"position": "first"}]}, "invalid_value"),
        ({"parts": ["<key>"]}, "unknown_ref"),
        ({"parent": [{}]}, "invalid_value"),
        ({"parts": [{"position": None}]}, "missing_value"),
        ({"cuisine": {"name": "Greek"}}, "read_only_table"),
        ({"cuisine_id": "cuisine_9"}, "unknown_ref"),
        ({"cuisine_id": "gen_cuisine_9"}, "unknown_draft"),
        ({"parent_id": "gen_cuisine_1"}, "wrong_entity"),
        ({"parts": ["part_9"]}, "unknown_ref"),
        ({"cuisine_id": str(uuid.UUID(int=5))}, "raw_key"),
        ({"extra": "x" * 300_000}, "invalid_content"),
    ]
    before = contents(drafts)
    toolset = Toolset(MODELS, hidden=[Dish.price], read_only=[Cuisine], expect="optional")
    for data, code in cases:
        asked = {"table": "dishes", "filters": [by_id(FIRST, SECOND)], "data": data}
        error = toolset.call(session, "db_update", asked)["error"]

        assert error["code"] == code, data
        assert "00000000-0000" not in str(error)
        assert contents(drafts) == before


def test_what_a_draft_must_have_is_not_taken_from_it(call: Call, drafts: Conversation) -> None:
    """The columns are named."""
    asked = {"table": "cuisines", "filters": [by_id("gen_cuisine_1")], "data": {"name": None}}
    error = call("db_update", **asked)["error"]

    assert (error["code"], error["columns"]) == ("missing_value", ["name"])
    [draft] = drafts.drafts(Cuisine)
    assert draft.content == {"name": "Greek"}


def test_drafts_are_changed_all_or_none(
    call: Call, drafts: Conversation, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    """One that somebody else has edited meanwhile is in the way of all."""
    meanwhile(lambda: drafts.edit_draft(SECOND, {"name": "Garlic Naan"}))
    asked = {"table": "dishes", "filters": [by_id(FIRST, SECOND)], "data": {"servings": 6}}
    error = call("db_update", **asked)["error"]

    assert (error["code"], error["ref"]) == ("stale_draft", SECOND)
    assert contents(drafts) == {FIRST: DAL, SECOND: {"name": "Garlic Naan"}}
    assert shown(call("db_update", **asked), "servings") == [6, 6]


# Discarding


@pytest.mark.parametrize(
    "own", [by_id(FIRST, SECOND), {"or": [by_id(FIRST), by_id(SECOND)]}], ids=["in", "or"]
)
def test_a_delete_discards(call: Call, drafts: Conversation, own: Any) -> None:
    """What the filters mean, and no other draft."""
    named = [own, {"field": "parts.note", "op": "=", "value": "rice"}]
    answer = call("db_delete", table="dishes", filters=named)

    told = {"table": "dishes", "deleted": [FIRST], "count": 1}
    assert answer == {**told, "_deleted_labels": ["Dal"]}
    assert list(contents(drafts)) == [SECOND]
    again = call("db_delete", table="dishes", filters=[by_id(SECOND, FIRST)])["error"]
    assert (again["code"], again["known"]) == ("discarded_draft", [SECOND])
    assert list(contents(drafts)) == [SECOND]


# Which


@pytest.mark.parametrize("tool", ["db_update", "db_delete"])
@pytest.mark.usefixtures("dishes")
def test_drafts_and_rows_are_not_written_together(
    call: Call, drafts: Conversation, session: RefSession, tool: str
) -> None:
    """Whether or not a row is hit: a call is for the one or the other."""
    call("db_read", table="dishes")
    data = {"data": {"servings": 9}} if tool == "db_update" else {}
    named = {"field": "name", "op": "=", "value": "no dish of this name"}
    for filters in ([by_id(FIRST, "dish_1")], [{"or": [by_id(FIRST), named]}]):
        error = call(tool, table="dishes", filters=filters, **data)["error"]
        assert (error["code"], error["drafts"]) == ("mixed_drafts", [FIRST])

    assert contents(drafts)[FIRST] == DAL
    assert servings(session) == [2, 4, None]


@pytest.mark.usefixtures("dishes")
def test_a_write_leaves_out_no_draft(
    call: Call, drafts: Conversation, session: RefSession
) -> None:
    """It is no row: what is not it is every row there is."""
    cases: list[list[Any]] = [
        [{"field": "id", "op": "!=", "value": FIRST}],
        [{"field": "id", "op": "neq", "value": FIRST}],
        [{"field": "id", "op": "not_in", "value": [FIRST, "dish_1"]}],
        [{"not": by_id(FIRST)}],
        [{"not": {"or": [by_id(FIRST), {"field": "name", "op": "=", "value": "x"}]}}],
        [{"not": {"not": {"field": "id", "op": "!=", "value": FIRST}}}],
        [by_id(FIRST), {"field": "id", "op": "!=", "value": FIRST}],
        [by_id(FIRST), {"field": "parent_id", "op": "!=", "value": SECOND}],
        [{"field": "parent_id", "op": "!=", "value": FIRST}],
        [{"field": "parent.id", "op": "!=", "value": FIRST}],
        [{"field": "alike", "op": "!=", "value": [FIRST]}],
        [{"not": {"field": "alike", "op": "contains", "value": FIRST}}],
    ]
    call("db_read", table="dishes")
    for tool in ["db_update", "db_delete"]:
        for filters in cases:
            data = {"data": {"servings": 9}} if tool == "db_update" else {}
            error = call(tool, table="dishes", filters=filters, **data)["error"]

            assert error["code"] == "draft_ref", filters
            assert contents(drafts)[FIRST] == DAL
            assert servings(session) == [2, 4, None]


def test_a_draft_that_is_saved_is_its_row(
    call: Call, drafts: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """A change by the draft's ref is one of the row."""
    save(drafts, FIRST, dishes["Soup"])
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}
    [row] = call("db_update", **asked, data={"spice": 1})["rows"]

    assert (row["name"], row["spice"], "_draft" in row) == ("Soup", 1, False)
    assert call("db_delete", **asked)["deleted"] == [row["id"]]


@pytest.mark.parametrize("tool", ["db_update", "db_delete"])
def test_a_draft_that_is_saved_meanwhile_is_told(
    call: Call, drafts: Conversation, meanwhile: Callable[[Callable[[], Any]], None], tool: str
) -> None:
    """With the ref of its row; the others are as they were."""
    key = uuid.uuid4()
    meanwhile(lambda: save(drafts, SECOND, key))
    data = {"data": {"spice": 1}} if tool == "db_update" else {}
    error = call(tool, table="dishes", filters=[by_id(FIRST, SECOND)], **data)["error"]

    row = drafts.refer(Dish, key)
    assert (error["code"], error["ref"], error["saved"]) == ("saved_draft", SECOND, row)
    assert contents(drafts) == {FIRST: DAL}


def test_expectations_are_of_the_content(call: Call, drafts: Conversation) -> None:
    """A label, or values as columns have them."""
    for tool, data in (("db_update", {"data": {"name": "Daal"}}), ("db_delete", {})):
        asked = {"table": "dishes", "filters": [by_id(FIRST)], **data}
        for expect, column, actual in (
            ("Naan", "label", "Dal"),
            ({"servings": 2, "spice": 1}, "spice", None),
            ({"servings": 3}, "servings", 2),
            ({"name": "Dal", "tags": ["mild"]}, "tags", ["hot"]),
        ):
            error = call(tool, **asked, expect=expect)["error"]
            told = (error["code"], error["ref"], error["column"], error["actual"])
            assert told == ("unexpected_row", FIRST, column, actual)
        assert contents(drafts)[FIRST] == DAL
    asked["expect"] = {"servings": "2", "spice": None, "tags": ["hot"]}
    assert call("db_delete", **asked)["deleted"] == [FIRST]
    last = {"table": "dishes", "filters": [by_id(SECOND)], "expect": "Naan"}
    assert call("db_delete", **last)["deleted"] == [SECOND]


def test_no_match_is_told(call: Call, drafts: Conversation) -> None:
    """It is not an error, and changes nothing."""
    other = {"field": "name", "op": "=", "value": "Korma"}
    asked = {"table": "dishes", "filters": [by_id(FIRST), other]}
    notes = ["no draft matches the filters; nothing was changed"]

    updated = call("db_update", **asked, data={"spice": 1})
    deleted = call("db_delete", **asked)

    assert updated == {"table": "dishes", "rows": [], "count": 0, "notes": notes}
    assert deleted == {"table": "dishes", "deleted": [], "count": 0, "notes": notes}
    assert contents(drafts)[FIRST] == DAL


@pytest.mark.parametrize(
    ("options", "code"),
    [({"max_written": 1}, "too_many_rows"), ({"read_only": [Dish]}, "read_only_table")],
)
def test_a_toolset_limits_writes_of_drafts_as_of_rows(
    session: RefSession, drafts: Conversation, options: dict[str, Any], code: str
) -> None:
    """By their number and their table, whether they are changed or discarded."""
    toolset = Toolset(MODELS, **options, expect="optional")
    asked = {"table": "dishes", "filters": [by_id(FIRST, SECOND)]}
    for tool, more in (("db_update", {"data": {"spice": 1}}), ("db_delete", {})):
        assert toolset.call(session, tool, {**asked, **more})["error"]["code"] == code
    assert contents(drafts) == {FIRST: DAL, SECOND: {"name": "Naan"}}


# What it costs


@pytest.mark.usefixtures("drafts", "dishes")
def test_no_statement_is_sent_for_drafts(call: Call, sent: list[str]) -> None:
    """Neither to their table nor to another."""
    sent.clear()
    asked = {"table": "dishes", "filters": [by_id(FIRST, SECOND)]}
    call("db_update", **asked, data={"servings": 3}, expect={"spice": None})
    call("db_delete", **asked)

    assert [each for each in sent if "dishes" in each or "parts" in each] == []


@pytest.mark.usefixtures("drafts")
def test_hooks_are_asked_of_a_draft_when_it_is_saved(session: RefSession) -> None:
    """Not when it is made, changed or discarded: nothing is written."""
    hooks = Watcher()
    toolset = Toolset(MODELS, hooks={Dish: [hooks]}, expect="optional")
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}
    for tool, given in (
        ("db_create", {"table": "dishes", "data": DAL, "draft": True}),
        ("db_update", {**asked, "data": {"servings": 3}}),
        ("db_delete", asked),
    ):
        assert toolset.call(session, tool, given)["count"] == 1
    assert (hooks.asked, hooks.told) == ([], [])
    toolset.call(session, "db_create", {"table": "dishes", "from_draft": SECOND})
    assert [verb for verb, *_ in hooks.asked] == ["create"]
    assert [(verb, len(rows)) for verb, rows in hooks.told] == [("create", 1)]


async def test_an_async_session_does_the_same(aio: AsyncRefSession, toolset: Toolset) -> None:
    """Reading, changing and discarding, with either driver."""
    conversation = aio.sync_session.conversation
    assert conversation is not None
    await aio.run_sync(lambda _: conversation.draft(Dish, DAL))
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}

    changed = await toolset.call_async(aio, "db_update", {**asked, "data": {"spice": 2}})
    read = await toolset.call_async(aio, "db_read", asked)
    discarded = await toolset.call_async(aio, "db_delete", asked)

    assert changed["rows"] == read["rows"]
    assert (shown(read, "spice"), discarded["deleted"]) == ([2], [FIRST])


# To which row a nested one belongs


def to_another(field: str, stored: bool) -> dict[str, Any]:
    """Return changes by which a part in a draft would belong to another dish, or to that draft."""
    return {"parts": [{"note": "rice"}, {"note": "sauce", field: "dish_1" if stored else FIRST}]}


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize("field", ["dish_id", "dish"])
def test_a_row_in_a_draft_belongs_to_no_other_row(
    call: Call, drafts: Conversation, field: str
) -> None:
    """It would be shown with the other, and saved to the draft's own row."""
    call("db_read", table="dishes")
    before = contents(drafts)
    asked: dict[str, Any] = {"table": "dishes", "filters": [by_id(FIRST)]}
    error = call("db_update", **asked, data=to_another(field, stored=True))["error"]

    assert (error["code"], error["field"]) == ("invalid_value", field)
    assert contents(drafts) == before
    asked["data"] = to_another(field, stored=False)  # says of its own row that it belongs to it
    assert "error" not in call("db_update", **asked)
    saved = call("db_create", table="dishes", from_draft=FIRST)
    assert saved["saved"] == {FIRST: saved["rows"][0]["id"]}


@pytest.mark.usefixtures("dishes")
def test_a_row_in_a_draft_of_the_application_belongs_to_no_other_row(
    call: Call, conversation: Conversation
) -> None:
    """Nothing is saved."""
    call("db_read", table="dishes")
    conversation.draft(Dish, {"name": "Dal", **to_another("dish_id", stored=True)})
    error = call("db_create", table="dishes", from_draft="gen_dish_1")["error"]

    assert (error["code"], error["field"]) == ("invalid_value", "dish_id")
    assert [draft.ref for draft in conversation.drafts(Dish)] == ["gen_dish_1"]
