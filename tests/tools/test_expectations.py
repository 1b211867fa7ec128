"""Writes give the labels of the rows they name; a wrong ref is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession, SetupError
from alfred_refs.tools import Toolset
from alfred_refs.tools.call import ExpectMode
from alfred_refs.tools.labels import LabelMode
from tests.tools.conftest import MODELS, Call, servings
from tests.tools.models import Cuisine, Dish
from tests.tools.test_class_rules import Base, Box, Thing

pytestmark = pytest.mark.usefixtures("shown")


@pytest.fixture
def toolset() -> Toolset:
    """A toolset that asks what rows are, as all do that are not told otherwise."""
    return Toolset(MODELS)


def these(op: str, value: Any) -> list[dict[str, Any]]:
    """Return a filter on a row's own ref."""
    return [{"field": "id", "op": op, "value": value}]


def test_a_label_beside_a_ref_in_data_is_held_against_the_row(call: Call) -> None:
    """Where rows show it; the ref of another row is refused, and nothing is written."""
    slip = {"name": "Pad Thai", "cuisine_id": "cuisine_1", "_cuisine_id_label": "Thai"}
    error = call("db_create", table="dishes", data=slip)["error"]
    told = (error["code"], error["ref"], error["actual"])
    assert told == ("unexpected_row", "cuisine_1", "Indian")
    data = {**slip, "cuisine_id": "cuisine_2"}
    [row] = call("db_create", table="dishes", data=data)["rows"]
    assert data.items() <= row.items()
    named = {"table": "dishes", "filters": these("=", row["id"]), "expect": "Pad Thai"}
    data = {"cuisine_id": "cuisine_1", "_cuisine_id_label": "Thai"}
    assert call("db_update", **named, data=data)["error"]["code"] == "unexpected_row"


def test_a_list_of_refs_has_a_list_of_labels(call: Call) -> None:
    """In filters and in columns: each is held against its row, and as many are needed."""
    two = {"table": "dishes", "filters": these("in", ["dish_1", "dish_3"])}
    error = call("db_update", **two, data={"servings": 9}, expect=["Curry", "Korma"])["error"]
    assert (error["code"], error["ref"], error["actual"]) == ("unexpected_row", "dish_3", "Soup")
    error = call("db_update", **two, data={"servings": 9}, expect=["Curry"])["error"]
    assert error["code"] == "invalid_value"
    assert call("db_update", **two, data={"servings": 9}, expect=["Curry", "Soup"])["count"] == 2
    alike = {"name": "Stew", "alike": ["dish_1", "dish_2"], "_alike_labels": ["Curry", "Soup"]}
    error = call("db_create", table="dishes", data=alike)["error"]
    assert (error["code"], error["ref"]) == ("unexpected_row", "dish_2")
    alike["_alike_labels"] = ["Curry", "Korma"]
    assert call("db_create", table="dishes", data=alike)["count"] == 1


def test_drafts_of_one_name_are_told_apart_by_values(call: Call) -> None:
    """As rows are, whatever names them; rows and other drafts of the name do not count."""
    for n in (1, 2):
        stew = {"name": "Stew", "servings": n, "cuisine": {"name": f"of {n}"}}
        call("db_create", table="dishes", data=stew, draft=True)
    call("db_create", table="dishes", data={"name": "Soup"}, draft=True)
    save = {"table": "dishes", "from_draft": "gen_dish_2"}
    change = {"table": "dishes", "filters": these("=", "gen_dish_2"), "data": {"code": "x"}}
    part: dict[str, Any] = {"dish_id": "gen_dish_2", "_dish_id_label": "Stew"}
    for answer in (
        call("db_create", **save, expect="Stew"),
        call("db_update", **change, expect="Stew"),
        call("db_create", table="parts", data=part, draft=True),
    ):
        error = answer["error"]
        assert (error["code"], error["refs"]) == ("ambiguous_label", ["gen_dish_2", "gen_dish_1"])
    error = call("db_create", **save, expect={"servings": 1})["error"]
    assert (error["code"], error["ref"], error["actual"]) == ("unexpected_row", "gen_dish_2", 2)
    part["_dish_id_label"] = {"servings": 2}
    assert call("db_create", table="parts", data=part, draft=True)["count"] == 1
    assert call("db_create", **save, expect={"servings": 2})["count"] == 1
    for _ in range(2):  # a call that is repeated saves nothing, and is not refused
        first = call("db_create", table="dishes", from_draft="gen_dish_1", expect="Stew")
        assert first["saved"] == {"gen_dish_1": "dish_5"}
        call("db_create", table="dishes", data={"name": "Stew"}, draft=True)
    assert call("db_create", table="dishes", from_draft="gen_dish_3", expect="Soup")["count"] == 1


@pytest.mark.parametrize("labels", ["inline", "legend", "none"])
def test_rows_that_are_shown_can_be_written_back(session: RefSession, labels: LabelMode) -> None:
    """With the labels in them, whatever a toolset shows of its own."""
    read = {"table": "dishes", "filters": these("=", "dish_1")}
    [row] = Toolset(MODELS).call(session, "db_read", read)["rows"]
    row = {name: value for name, value in row.items() if name not in ("id", "code", "price_to")}
    data = {name: row[name] for name in row if "cuisine_id" in name or "parent_id" in name}
    assert {"_cuisine_id_label", "_parent_id_label"} <= data.keys()
    toolset = Toolset(MODELS, labels=labels)
    update = {**read, "data": data, "expect": "Curry"}
    answer = toolset.call(session, "db_update", update)
    assert answer["rows"][0]["parent_id"] == "dish_2"


ONE, TWO = these("=", "dish_1"), these("in", ["dish_1", "dish_3"])
REMOVE = {"edits": [{"action": "remove", "path": [1]}]}


@pytest.mark.parametrize(
    ("tool", "arguments", "labels"),
    [
        ("db_update", {"filters": ONE, "data": {"servings": 9}}, {"dish_1": "Curry"}),
        ("db_delete", {"filters": TWO}, {"dish_1": "Curry", "dish_3": "Soup"}),
        ("db_create", {"data": [{"cuisine_id": "cuisine_2"}]}, {"cuisine_2": "Thai"}),
        ("db_edit_list", {"row": "dish_2", "list": "tags", **REMOVE}, {"dish_2": "Korma"}),
    ],
)
def test_a_toolset_asks_what_rows_are(
    session: RefSession, call: Call, tool: str, arguments: dict[str, Any], labels: dict[str, str]
) -> None:
    """A write that names rows and does not say it is told what they are, and done once it does."""
    error = call(tool, table="dishes", **arguments)["error"]
    field = "_cuisine_id_label" if tool == "db_create" else "expect"
    assert (error["code"], error["labels"]) == ("unconfirmed_ref", labels)
    assert error["fields"] == [field]
    assert servings(session) == [2, 4, None]
    said = dict(arguments)
    if field == "expect":
        listed = [*labels.values()]
        said["expect"] = listed if len(listed) > 1 else listed[0]
    else:
        said["data"] = [{**arguments["data"][0], "_cuisine_id_label": "Thai"}]
    assert "error" not in call(tool, table="dishes", **said)


@pytest.mark.slow
def test_a_label_that_another_row_has_too_is_not_enough(session: RefSession, call: Call) -> None:
    """Values by column are, in expect and beside refs, if the row has them."""
    with Session(session.get_bind()) as plain, plain.begin():
        plain.add(Dish(name="Curry", servings=8))
    call("db_read", table="dishes", order_by=["name", "servings"])  # dish_4
    named = {"table": "dishes", "filters": these("=", "dish_4"), "data": {"rating": 1.5}}
    for label in ("Curry", {"name": "Curry"}, {"dish_4": {"name": "Curry"}}, [{"name": "Curry"}]):
        error = call("db_update", **named, expect=label)["error"]
        assert (error["code"], error["refs"]) == ("ambiguous_label", ["dish_4", "dish_1"])
    other = {**named, "filters": these("=", "dish_3")}  # a label of two rows, and not of this one
    assert call("db_update", **other, expect="Curry")["error"]["code"] == "unexpected_row"
    assert call("db_update", **named, expect={"servings": 2})["error"]["code"] == "unexpected_row"
    assert call("db_update", **named, expect={"servings": 8})["count"] == 1
    assert call("db_update", **named, expect=[{"servings": 8}])["count"] == 1
    data = {"name": "Thali", "parent_id": "dish_4", "_parent_id_label": "Curry"}
    assert call("db_create", table="dishes", data=data)["error"]["code"] == "ambiguous_label"
    data["_parent_id_label"] = {"name": "Curry"}  # type: ignore[assignment]
    assert call("db_create", table="dishes", data=data)["error"]["code"] == "ambiguous_label"
    data["_parent_id_label"] = {"servings": 2}  # type: ignore[assignment]
    assert call("db_create", table="dishes", data=data)["error"]["code"] == "unexpected_row"
    data["_parent_id_label"] = {"servings": 8}  # type: ignore[assignment]
    assert call("db_create", table="dishes", data=data)["count"] == 1


@pytest.mark.slow
def test_a_label_is_enough_where_the_conversation_knows_no_other(
    session: RefSession, call: Call
) -> None:
    """Of that name: another row has it that was not shown, and one that is gone."""
    with Session(session.get_bind()) as plain, plain.begin():
        plain.add_all([Dish(name="Soup", servings=7), Dish(name="Soup", servings=8)])
    named = {"table": "dishes", "filters": these("=", "dish_3"), "data": {"rating": 1.5}}
    assert call("db_update", **named, expect="Soup")["count"] == 1
    shown = call("db_read", table="dishes", filters=[{"field": "servings", "op": "=", "value": 7}])
    assert call("db_update", **named, expect="Soup")["error"]["code"] == "ambiguous_label"
    gone = these("=", shown["rows"][0]["id"])
    assert call("db_delete", table="dishes", filters=gone, expect={"servings": 7})["count"] == 1
    session.commit()
    assert call("db_update", **named, expect="Soup")["count"] == 1


def test_what_has_no_label_is_not_asked_for(call: Call) -> None:
    """Nor are rows that filters find by something else, nor those that cannot be seen."""
    parts = call("db_read", table="parts", order_by="position")["rows"]
    first = these("=", parts[0]["id"])
    assert call("db_update", table="parts", filters=first, data={"note": "x"})["count"] == 1
    by_name = [{"field": "name", "op": "=", "value": "Soup"}]
    assert call("db_update", table="dishes", filters=by_name, data={"servings": 1})["count"] == 1
    told = call("db_delete", table="dishes", filters=these("=", "dish_9"))["error"]
    assert told["code"] == "unknown_ref"


def test_drafts_are_asked_for_too(conversation: Conversation, call: Call) -> None:
    """When they are saved, changed or discarded."""
    for name in ("Dal", "Raita"):
        conversation.draft(Dish, {"name": name})
    slip = {"table": "dishes", "from_draft": "gen_dish_2"}
    error = call("db_create", **slip)["error"]
    assert (error["code"], error["labels"]) == ("unconfirmed_ref", {"gen_dish_2": "Raita"})
    error = call("db_create", **slip, expect="Dal")["error"]
    assert (error["code"], error["actual"]) == ("unexpected_row", "Raita")
    save = {**slip, "data": {"name": "Boondi"}, "expect": "Raita"}
    for _ in range(2):  # made again, it is answered with the row
        assert call("db_create", **save)["saved"] == {"gen_dish_2": "dish_4"}
    named = {"table": "dishes", "filters": these("=", "gen_dish_1")}
    assert call("db_delete", **named)["error"]["code"] == "unconfirmed_ref"
    answer = call("db_delete", **named, expect="Dal")
    assert answer["_deleted_labels"] == ["Dal"]


def test_deleted_rows_are_told_with_their_labels(session: RefSession) -> None:
    """Inline or in the legend, so that a model sees which they were; without labels not."""
    for labels, told in (
        ("inline", {"_deleted_labels": ["Soup"]}),
        ("legend", {"labels": {"dish_3": "Soup"}}),
        ("none", {}),
    ):
        with session.begin_nested() as savepoint:
            delete = {"table": "dishes", "filters": these("=", "dish_3"), "expect": "Soup"}
            toolset = Toolset(MODELS, labels=labels)  # type: ignore[arg-type]
            answer = toolset.call(session, "db_delete", delete)
            savepoint.rollback()
        assert answer == {"table": "dishes", "deleted": ["dish_3"], "count": 1, **told}


def test_nothing_is_asked_of_the_database_where_nothing_is_said(
    session: RefSession, sent: list[str]
) -> None:
    """Labels cost one statement a table where they are given, and none where not."""
    update = {"table": "dishes", "filters": these("=", "dish_1"), "data": {"servings": 3}}
    toolset = Toolset(MODELS, expect="optional")
    toolset.call(session, "db_update", update)
    plain = len(sent)
    said = {**update, "data": {"servings": 5}, "expect": ["Curry"]}
    toolset.call(session, "db_update", said)
    assert len(sent) - plain == plain + 1


def test_a_schema_says_that_labels_are_needed() -> None:
    """Where they are, and nowhere else."""
    optional, required = (
        {each["title"]: each["properties"] for each in toolset.schemas("json_schema")}
        for toolset in (Toolset(MODELS, expect="optional"), Toolset(MODELS))
    )
    for tool in ("db_create", "db_update", "db_delete", "db_edit_list"):
        assert "needed" in required[tool]["expect"]["description"]
        assert "needed" not in optional[tool]["expect"]["description"]
    assert optional["db_read"] == required["db_read"]


def test_a_word_that_is_none_of_them_is_refused() -> None:
    """When the toolset is made."""
    with pytest.raises(SetupError, match="'optional', 'required'"):
        Toolset(MODELS, expect="always")  # type: ignore[arg-type]


def test_labels_may_be_spelt_as_rows_show_them(session: RefSession, call: Call) -> None:
    """With the refs that stand in them for keys."""
    with Session(session.get_bind()) as plain, plain.begin():
        key = plain.query(Dish.id).filter_by(name="Curry").scalar()
        assert isinstance(key, uuid.UUID)
        plain.add(Dish(name=f"like {key}"))
    like = {"field": "name", "op": "ilike", "value": "like%"}
    [row] = call("db_read", table="dishes", filters=[like])["rows"]
    assert row["name"] == "like <dish_1>"
    data = {"parent_id": row["id"], "_parent_id_label": "like <dish_1>"}
    named = {"table": "dishes", "filters": these("=", "dish_3"), "expect": "Soup"}
    assert call("db_update", **named, data=data)["count"] == 1


def test_rows_that_other_columns_name_are_asked_for_too(call: Call) -> None:
    """A filter by a reference hits the rows of another one, if it slips; labels go by ref."""
    of_indian = [{"field": "cuisine_id", "op": "=", "value": "cuisine_1"}]
    update = {"table": "dishes", "filters": of_indian, "data": {"servings": 9}}
    error = call("db_update", **update)["error"]
    assert (error["code"], error["labels"]) == ("unconfirmed_ref", {"cuisine_1": "Indian"})
    assert error["fields"] == ["expect.cuisine_1"]
    assert error["message"].endswith("""call again with {"cuisine_1": "Indian"} in 'expect'""")
    error = call("db_update", **update, expect={"cuisine_1": "Thai"})["error"]
    assert (error["code"], error["ref"]) == ("unexpected_row", "cuisine_1")
    error = call("db_update", **update, expect={"cuisine_2": "Thai"})["error"]
    assert (error["code"], error["field"]) == ("invalid_value", "expect.cuisine_2")
    assert call("db_update", **update, expect={"cuisine_1": "Indian"})["count"] == 1
    named = {**update, "filters": [*of_indian, *these("in", ["dish_2", "dish_3"])]}
    said = {"cuisine_1": "Indian", "dish_2": "Korma", "dish_3": {"servings": None}}
    error = call("db_update", **named, expect={"cuisine_1": "Indian"})["error"]
    assert error["fields"] == ["expect.dish_2", "expect.dish_3"]
    both = call("db_update", **named, expect={**said, "servings": 4})["error"]
    assert (both["code"], both["column"], both["actual"]) == ("unexpected_row", "servings", 9)
    assert call("db_update", **named, expect={**said, "servings": 9})["count"] == 1
    other = [{"not": of_indian[0]}, {"field": "cuisine.id", "op": "!=", "value": "cuisine_1"}]
    for clause in other:
        delete = {"table": "dishes", "filters": [clause]}
        assert call("db_delete", **delete)["error"]["fields"] == ["expect.cuisine_1"]
    assert call("db_delete", table="dishes", filters=other, expect={"cuisine_1": "Indian"})


def test_a_row_without_a_label_is_none_that_has_one(session: RefSession, call: Call) -> None:
    """A slip to it is told as to any other row, and so is a label where a table has none."""
    with Session(session.get_bind()) as plain, plain.begin():
        plain.add(Dish(name=None, servings=77))
    unnamed = [{"field": "servings", "op": "=", "value": 77}]
    [row] = call("db_read", table="dishes", filters=unnamed)["rows"]
    data = {"name": "Thali", "parent_id": row["id"]}
    error = call("db_create", table="dishes", data={**data, "_parent_id_label": "Soup"})["error"]
    assert (error["code"], error["ref"], error["actual"]) == ("unexpected_row", row["id"], None)
    assert call("db_create", table="dishes", data=data)["count"] == 1
    [part, *_] = call("db_read", table="parts", order_by="position")["rows"]
    update = {"table": "parts", "filters": these("in", [part["id"]]), "data": {"note": "x"}}
    assert call("db_update", **update, expect=["rice"])["error"]["code"] == "invalid_arguments"


EMPTY: list[Any] = [{}, {"id": "dish_1"}, {"dish_1": {}}, {"dish_1": {"id": "dish_1"}}, [{}], ""]
UPDATE, IN_PARTS = {"filters": ONE, "data": {"servings": 9}}, {"row": "dish_2", "list": "parts"}
CUISINE = {"cuisine_id": "cuisine_1"}
NOTHING: list[tuple[str, dict[str, Any]]] = [
    *(("db_update", {**UPDATE, "expect": said}) for said in EMPTY),
    *(
        ("db_create", {"data": {**CUISINE, "_cuisine_id_label": said}})
        for said in ({}, {"id": "cuisine_1"}, "")
    ),
    ("db_delete", {"filters": these("=", "dish_3"), "expect": {"id": "dish_3"}}),
    ("db_create", {"data": {"alike": ["dish_1"], "_alike_labels": [{}]}}),
    *(
        ("db_edit_list", {**IN_PARTS, **REMOVE, "expect": said})
        for said in ({}, {"id": "dish_2"}, "")
    ),
]


@pytest.mark.parametrize(("tool", "arguments"), NOTHING)
def test_the_ref_itself_does_not_say_which_row_it_is(
    call: Call, tool: str, arguments: dict[str, Any]
) -> None:
    """Nor does an object without values: such a write is asked as one that says nothing."""
    error = call(tool, table="dishes", **arguments)["error"]
    empty = "" in (arguments.get("expect"), arguments.get("data", {}).get("_cuisine_id_label"))
    assert error["code"] == ("unexpected_row" if empty else "unconfirmed_ref")


def test_values_may_have_the_ref_too(call: Call) -> None:
    """If they have others, and it is that of the row."""
    update = {"table": "dishes", "filters": these("=", "dish_1"), "data": {"servings": 9}}
    other = {"id": "dish_2", "name": "Curry"}
    assert call("db_update", **update, expect=other)["error"]["code"] == "unexpected_row"
    assert call("db_update", **update, expect={**other, "id": "dish_1"})["count"] == 1


def test_an_item_that_is_named_by_its_ref_is_asked_for(tables: Engine) -> None:
    """As a row is: its ref, refs in it and nothing are no answer; its label or a value is."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain, plain.begin():
        things = [Thing(position=n, name=name) for n, name in ((1, "rice"), (2, "oats"))]
        plain.add(Box("Pantry", None, things=things))
    toolset = Toolset([Box, Thing])
    conversation = RefRegistry(tables).conversation("chests")
    with RefSession(tables, conversation=conversation) as session:
        toolset.call(session, "db_read", {"table": "chests"})
        toolset.call(session, "db_read", {"table": "items", "order_by": "position"})

        def removed(expect: Any) -> Any:
            edit = {"action": "remove", "ref": "thing_2"}
            edit |= {} if expect is None else {"expect": expect}
            asked = {"table": "chests", "row": "box_1", "list": "things", "edits": [edit]}
            with session.begin_nested() as savepoint:
                answer = toolset.call(session, "db_edit_list", {**asked, "expect": "Pantry"})
                savepoint.rollback()
            return answer.get("error", answer)

        said: Any
        for said in (None, {}, {"id": "thing_2"}):
            error = removed(said)
            assert (error["code"], error["labels"]) == ("unconfirmed_ref", {"thing_2": "oats"})
        for said in ("thing_2", "box_1", "rice", {"name": "rice"}):
            assert removed(said)["code"] == "conflicting_edits", said
        for said in ("oats", {"name": "oats"}, {"position": 2}):
            assert removed(said)["count"] == 1, said


def test_labels_in_nested_rows_are_held_against_their_rows(call: Call) -> None:
    """As those in outer rows are; they are asked for, too."""

    def made(**part: Any) -> dict[str, Any]:
        data = {"name": "Thali", "parts": [{"note": "rice"}, {"cuisine_id": "cuisine_1", **part}]}
        return call("db_create", table="dishes", data=data)

    assert made(_cuisine_id_label="Thai")["error"]["actual"] == "Indian"
    assert made()["error"]["labels"] == {"cuisine_1": "Indian"}
    assert made(_cuisine_id_label="Indian")["count"] == 1


@pytest.mark.parametrize("part", ["Ind", "ndian", "I", "", "Indian Indian", "Thai, Indian"])
def test_a_part_of_a_label_is_another_label(call: Call, part: str) -> None:
    """In data as in `expect`; letters count in their case, spaces around do not."""
    data = {"name": "Thali", "cuisine_id": "cuisine_1", "_cuisine_id_label": part}
    assert call("db_create", table="dishes", data=data)["error"]["code"] == "unexpected_row"
    named = {"table": "cuisines", "filters": these("=", "cuisine_1"), "data": {"name": "x"}}
    assert call("db_update", **named, expect=part)["error"]["code"] == "unexpected_row"
    assert call("db_create", table="dishes", data={**data, "_cuisine_id_label": "indian"})["error"]
    assert call("db_create", table="dishes", data={**data, "_cuisine_id_label": " Indian"})["rows"]


def test_each_label_of_a_ref_is_held_against_its_row(call: Call) -> None:
    """A second one that contradicts it is refused, wherever it is, and one that is missing."""
    both = {"cuisine_id": "cuisine_1", "second_cuisine_id": "cuisine_1"}
    labels = {"_cuisine_id_label": "Indian", "_second_cuisine_id_label": "Thai"}
    for data in ({**both, **labels}, [{**both, **labels}], {**both, "_cuisine_id_label": "Thai"}):
        error = call("db_create", table="dishes", data=data)["error"]
        assert (error["code"], error["actual"]) == ("unexpected_row", "Indian")
    one = {**both, "_cuisine_id_label": "Indian"}
    error = call("db_create", table="dishes", data=one)["error"]
    assert (error["code"], error["fields"]) == ("unconfirmed_ref", ["_second_cuisine_id_label"])
    twice = {"alike": ["dish_1", "dish_1"], "_alike_labels": ["Curry", "Korma"]}
    assert call("db_create", table="dishes", data=twice)["error"]["code"] == "unexpected_row"
    parent = {"parent_id": "dish_1", "_parent_id_label": "Korma"}
    update = {"table": "dishes", "filters": these("=", "dish_1"), "data": parent}
    assert call("db_update", **update, expect="Curry")["error"]["code"] == "unexpected_row"


@pytest.mark.parametrize("expect", ["required", "optional"])
def test_a_draft_of_another_entity_is_refused_as_such(
    session: RefSession, conversation: Conversation, expect: ExpectMode
) -> None:
    """Whatever is said of it, in whichever place: to save it would not help."""
    conversation.draft(Cuisine, {"name": "Greek"})
    toolset, wrong = Toolset(MODELS, expect=expect), "gen_cuisine_1"
    change = {"data": {"servings": 1}}
    edit = {"action": "remove", "path": [1]}
    for label in (None, "Greek", {"name": "Greek"}):
        said, beside = {"expect": label}, {"_parent_id_label": label}
        every: list[tuple[str, dict[str, Any]]] = [
            ("db_update", {"filters": these("=", wrong), **change, **said}),
            ("db_delete", {"filters": these("=", wrong), **said}),
            ("db_edit_list", {"row": wrong, "list": "tags", "edits": [edit], **said}),
            ("db_create", {"data": {"parent_id": wrong, **beside}}),
            ("db_create", {"from_draft": wrong, "expect": label if label != {} else None}),
            ("db_update", {"filters": [{**these("=", wrong)[0], "field": "parent_id"}], **change}),
            ("db_read", {"filters": [{**these("=", wrong)[0], "field": "parent_id"}]}),
        ]
        for tool, asked in every:
            if tool == "db_create" and "from_draft" in asked and isinstance(label, dict):
                continue  # labels of drafts are texts
            error = toolset.call(session, tool, {"table": "dishes", **asked})["error"]
            assert (error["code"], error["ref"]) == ("wrong_entity", wrong), (tool, asked)


def test_no_label_is_asked_for_of_a_draft_that_cannot_be_named(
    conversation: Conversation, call: Call
) -> None:
    """It is to be saved first; the label would be asked for in vain."""
    conversation.draft(Dish, {"name": "Dal"})
    data = {"name": "Thali", "parent_id": "gen_dish_1"}
    assert call("db_create", table="dishes", data=data)["error"]["code"] == "draft_ref"
    update = {"table": "dishes", "filters": these("=", "dish_3"), "expect": "Soup"}
    refused = call("db_update", **update, data={"parent_id": "gen_dish_1"})
    assert refused["error"]["code"] == "draft_ref"
    saved = {"from_draft": "gen_dish_1", "expect": "Dal"}
    together = call("db_create", table="dishes", **saved, also=[{"table": "dishes", "data": data}])
    assert together["error"]["labels"] == {"gen_dish_1": "Dal"}
    draft = call("db_create", table="dishes", data=data, draft=True)
    assert draft["error"]["labels"] == {"gen_dish_1": "Dal"}


@pytest.mark.parametrize("how", ["read", "preview", "token", "edit"])
def test_a_wrong_label_of_a_list_s_row_is_refused_however_it_is_edited(
    call: Call, how: str
) -> None:
    """A token makes the label unnecessary, but a wrong label means another row."""
    asked = {"table": "dishes", "row": "dish_1", "list": "tags"}
    before = call("db_edit_list", **asked)
    more: dict[str, Any] = {
        "read": {},
        "preview": {**REMOVE, "preview": True},
        "token": {**REMOVE, "token": before["token"]},
        "edit": REMOVE,
    }[how]
    error = call("db_edit_list", **asked, **more, expect="Soup")["error"]
    assert (error["code"], error["ref"], error["actual"]) == ("unexpected_row", "dish_1", "Curry")
    assert call("db_edit_list", **asked)["items"] == before["items"]
    assert "error" not in call("db_edit_list", **asked, **more, expect="Curry")
