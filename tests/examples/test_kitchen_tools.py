"""Tests for examples.kitchen.tools and its hooks, on the loaded kitchen."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from alfred_refs import AsyncRefSession, Owner, RefRegistry, RefSession
from examples.kitchen import DEMO_USER
from examples.kitchen.checks import keys_in, showing_keys
from examples.kitchen.models import MealPlan, Preferences, Recipe, RecipeIngredient, User
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools

pytest_plugins = ["tests.fix_kitchen"]

Answer = dict[str, Any]
Call = Callable[..., Answer]


@pytest.fixture
def owner(loaded_kitchen: Engine) -> Owner:
    """The user whose agent calls the tools."""
    with Session(loaded_kitchen) as plain:
        return OWNERSHIP.of(plain.scalars(select(User.id).filter_by(name=DEMO_USER)).one())


@pytest.fixture
def session(loaded_kitchen: Engine, owner: Owner) -> Iterator[RefSession]:
    """A session of the user's, in a conversation of its own."""
    chat = RefRegistry(loaded_kitchen, policy=POLICY).conversation("chat-7", owner=owner.value)
    with RefSession(loaded_kitchen, conversation=chat, owner=owner) as session:
        yield session


@pytest.fixture
def call(session: RefSession, loaded_kitchen: Engine) -> Iterator[Call]:
    """Call a tool with its arguments by name; at the end no answer may have shown a key."""
    tools, answers = kitchen_tools(expect="optional"), list[str]()  # the subject is the hooks

    def call(tool: str, /, **arguments: Any) -> Answer:
        answer = tools.call(session, tool, arguments)
        answers.append(json.dumps(answer))
        return answer

    yield call
    assert showing_keys(answers, keys_in(loaded_kitchen)) == []


def _is(field: str, value: Any, op: str = "=") -> dict[str, Any]:
    return {"field": field, "op": op, "value": value}


def _draft(session: RefSession, content: dict[str, Any]) -> str:
    assert session.conversation is not None
    return session.conversation.draft(Recipe, content).ref


def _names(answer: Answer) -> list[str]:
    return [row["name"] for row in answer["rows"]]


def test_recipes_are_searched_by_meaning(call: Call) -> None:
    """The nearest is `recipe_1`, and what is not shown has no number."""
    answer = call(
        "db_read",
        table="recipes",
        filters=[_is("_semantic", "lentil soup", "similar")],
        columns=["name"],
        limit=2,
    )
    assert answer["rows"] == [
        {"id": "recipe_1", "name": "Ham and Lentil Soup"},
        {"id": "recipe_2", "name": "Turkish Red Lentil Soup"},
    ]
    other = call("db_read", table="recipes", filters=[_is("name", "Zopf")], columns=["name"])
    assert other["rows"] == [{"id": "recipe_3", "name": "Zopf"}]


def test_a_search_by_meaning_meets_the_other_filters(call: Call) -> None:
    """What is near is read if it is what else the model asks for."""
    answer = call(
        "db_read",
        table="recipes",
        filters=[_is("_semantic", "lentil soup", "similar"), _is("cuisine", "turkish")],
    )
    assert _names(answer) == ["Turkish Red Lentil Soup"]


def test_nothing_near_is_said(call: Call) -> None:
    """An empty answer tells how else to ask."""
    answer = call("db_read", table="recipes", filters=[_is("_semantic", "unobtainium", "similar")])
    assert answer["rows"] == []
    assert answer["notes"] == ["no recipe is near to that in meaning; filter by name or tags"]


def test_a_name_that_is_nearly_one_finds_it(call: Call) -> None:
    """The rows come with a note that says what was asked and what was found."""
    answer = call("db_read", table="recipes", filters=[_is("name", "Chiken Paprikash")])
    assert _names(answer) == ["Chicken Paprikash"]
    assert answer["notes"] == [
        "no recipe is named 'Chiken Paprikash'; these are nearly: 'Chicken Paprikash'"
    ]


def test_a_near_name_meets_the_other_filters(call: Call) -> None:
    """The name is replaced, and nothing else is widened."""
    filters = [_is("name", "Chiken Paprikash"), _is("cuisine", "thai")]
    assert call("db_read", table="recipes", filters=filters)["rows"] == []


@pytest.mark.parametrize("name", ["Zopf", "Quokka crumble"])
def test_an_exact_name_and_a_strange_one_are_left(call: Call, name: str) -> None:
    """Where a recipe has the name, or none is near, the question is as it was."""
    assert "notes" not in call("db_read", table="recipes", filters=[_is("name", name)])


def test_one_recipe_comes_with_its_lines(call: Call) -> None:
    """Lines are in their order, in refs, with the catalogue's word and the parent's name."""
    [recipe] = call("db_read", table="recipes", filters=[_is("name", "Cacio e Pepe")])["rows"]
    [read] = call("db_read", table="recipes", filters=[_is("id", recipe["id"])])["rows"]
    assert "ingredients" not in recipe
    assert [line["position"] for line in read["ingredients"]] == [0, 1, 2]
    assert {line["recipe_id"] for line in read["ingredients"]} == {"recipe_1"}
    assert read["ingredients"][0]["id"] == "recipe_ingredient_1"
    assert read["ingredients"][0]["_ingredient_id_label"] == "spaghetti"


def test_columns_that_are_named_are_all_that_is_shown(call: Call) -> None:
    """Who says what to show gets no lines beside it."""
    call("db_read", table="recipes", limit=1)
    one = {"table": "recipes", "filters": [_is("id", "recipe_1")], "columns": ["servings"]}
    [row] = call("db_read", **one)["rows"]
    assert row.keys() == {"id", "servings"}


def test_times_are_added_up(call: Call) -> None:
    """Where both parts are known, and are shown."""
    filters = [_is("prep_minutes", None, "is_not_null"), _is("cook_minutes", None, "is_not_null")]
    [row] = call("db_read", table="recipes", filters=filters, limit=1)["rows"]
    assert row["total_minutes"] == row["prep_minutes"] + row["cook_minutes"]
    [row] = call("db_read", table="recipes", columns=["name", "prep_minutes"], limit=1)["rows"]
    assert "total_minutes" not in row


def test_recipes_are_asked_for_by_what_is_in_them(call: Call) -> None:
    """An ingredient in people's words is found under the catalogue's word."""
    asked = call(
        "db_read",
        table="recipes",
        filters=[_is("ingredients.ingredient.name", "chopped Onions")],
        limit=1,
    )
    assert asked["count"] == 1
    assert asked["notes"] == ["'chopped Onions' is 'onion' in the catalogue"]


def test_an_ingredient_has_other_names(call: Call) -> None:
    """An alias finds the row of the catalogue, with its own name."""
    assert _names(call("db_read", table="ingredients", filters=[_is("name", "Onions")])) == [
        "onion"
    ]


def test_an_alias_does_not_widen_other_filters(call: Call) -> None:
    """A row that has the alias and not the rest stays out."""
    filters = [_is("name", "Onions"), _is("category", "fruit")]
    assert call("db_read", table="ingredients", filters=filters)["rows"] == []


@pytest.fixture
def own(call: Call) -> str:
    """The ref of a recipe that is the user's own, without lines."""
    [row] = call("db_create", table="recipes", data={"name": "My soup"})["rows"]
    ref: str = row["id"]
    return ref


def test_lines_find_their_ingredients(call: Call, own: str) -> None:
    """Lines that are sure have their ingredient, with its name; of the other a note tells."""
    answer = call(
        "db_create",
        table="recipe_ingredients",
        data=[
            {"recipe_id": own, "name": "Lentils", "quantity": "2", "unit": "cup"},
            {"recipe_id": own, "name": "tomatos"},
            {"recipe_id": own, "name": "mystery sauce"},
        ],
    )
    lines = answer["rows"]
    assert [line.get("_ingredient_id_label") for line in lines] == ["lentil", "tomato", None]
    assert [line["position"] for line in lines] == [0, 1, 2]
    [note] = answer["notes"]
    assert note == (
        "'mystery sauce' is not for sure in the catalogue; if 'oyster sauce' is meant, update "
        "ingredient_id to 'ingredient_2'"
    )


def test_the_ingredient_that_a_note_names_can_be_set(call: Call, own: str) -> None:
    """The ref in a note is one like any other."""
    line = {"recipe_id": own, "name": "mystery sauce"}
    created = call("db_create", table="recipe_ingredients", data=line)
    assert "'ingredient_1'" in created["notes"][0]
    [row] = call(
        "db_update",
        table="recipe_ingredients",
        filters=[_is("id", "recipe_ingredient_1")],
        data={"ingredient_id": "ingredient_1"},
    )["rows"]
    assert row["_ingredient_id_label"] == "oyster sauce"


def test_an_ingredient_that_is_given_is_kept(call: Call, own: str) -> None:
    """What a model says outright is not looked up."""
    call("db_read", table="ingredients", filters=[_is("name", "salt")])
    line = {"recipe_id": own, "name": "pepper", "ingredient_id": "ingredient_1"}
    [row] = call("db_create", table="recipe_ingredients", data=line)["rows"]
    assert row["_ingredient_id_label"] == "salt"


def test_lines_go_to_the_end(call: Call, own: str) -> None:
    """A line without a place comes after those that are there; a given place is kept."""
    for name in ("salt", "onion"):
        call("db_create", table="recipe_ingredients", data={"recipe_id": own, "name": name})
    [line] = call(
        "db_create",
        table="recipe_ingredients",
        data={"recipe_id": own, "name": "milk", "position": 7},
    )["rows"]
    assert line["position"] == 7
    [read] = call("db_read", table="recipes", filters=[_is("id", own)])["rows"]
    assert [(each["position"], each["name"]) for each in read["ingredients"]] == [
        (0, "salt"),
        (1, "onion"),
        (7, "milk"),
    ]


def test_one_ingredient_twice_in_a_batch_is_one_line(call: Call, own: str) -> None:
    """The last wins, and the answer says which became one; lines of nobody knows what stay."""
    answer = call(
        "db_create",
        table="recipe_ingredients",
        data=[
            {"recipe_id": own, "name": "onion", "quantity": "1"},
            {"recipe_id": own, "name": "unobtainium"},
            {"recipe_id": own, "name": "Onions", "quantity": "2"},
            {"recipe_id": own, "name": "kryptonite"},
        ],
    )
    assert [(row["name"], row["quantity"]) for row in answer["rows"]] == [
        ("Onions", "2"),
        ("unobtainium", None),
        ("kryptonite", None),
    ]
    assert answer["merged"] == [[1, 3]]


@pytest.mark.parametrize("also_first", [False, True])
def test_a_draft_is_saved_with_the_kitchens_words(
    call: Call, session: RefSession, also_first: bool
) -> None:
    """Lines inside it and lines that name it have their ingredients and places, in one call."""
    inside = [{"name": "paneer"}, {"name": "chopped Onions", "position": 3}]
    content = {"name": "Quokka", "ingredients": inside}
    ref = _draft(session, content)
    new = [{"recipe_id": ref, "name": "Tomatoes"}, {"recipe_id": ref, "name": "mystery sauce"}]
    main: Answer = {"table": "recipes", "from_draft": ref}
    also: Answer = {"table": "recipe_ingredients", "data": new}
    if also_first:
        main, also = also, main
    answer = call("db_create", **main, also=[also])

    notes = [*answer.get("notes", ()), *answer["also"][0].get("notes", ())]
    assert [note.partition("; ")[0] for note in notes] == [
        "'mystery sauce' is not for sure in the catalogue"
    ]
    [read] = call("db_read", table="recipes", filters=[_is("id", ref)])["rows"]
    assert [
        (line["position"], line["name"], line.get("_ingredient_id_label"))
        for line in read["ingredients"]
    ] == [
        (0, "paneer", "paneer"),
        (3, "chopped Onions", "onion"),
        (4, "Tomatoes", "tomato"),
        (5, "mystery sauce", None),
    ]
    near = call("db_read", table="recipes", filters=[_is("_semantic", "quokkas", "similar")])
    assert [row["id"] for row in near["rows"]] == ["recipe_1"]


def test_only_recipes_without_lines_are_reminded_of(call: Call, session: RefSession) -> None:
    """Of two drafts that are saved together, the one with nothing in it."""
    drafts = {"name": "Wraps", "ingredients": [{"name": "paneer"}]}, {"name": "Quokka crumble"}
    refs = [_draft(session, each) for each in drafts]
    answer = call("db_create", table="recipes", from_draft=refs)
    assert answer["notes"] == ["no ingredients yet: create recipe_ingredients for 'recipe_2'"]


def test_many_lines_cost_one_look_up(call: Call, own: str, loaded_kitchen: Engine) -> None:
    """The catalogue is read once for a batch, however many lines it has."""
    sent: list[str] = []
    event.listen(loaded_kitchen, "before_cursor_execute", lambda *given: sent.append(given[2]))
    lines = [{"recipe_id": own, "name": name} for name in ("onion", "salt", "milk", "leek")]
    call("db_create", table="recipe_ingredients", data=lines)
    assert len([each for each in sent if "unnest" in each and "similarity" in each]) == 1


def test_a_shared_recipe_is_not_changed(call: Call, session: RefSession) -> None:
    """The refusal says what can be done instead, in words and as data."""
    call("db_read", table="recipes", filters=[_is("name", "Zopf")])
    for tool, more in (("db_update", {"data": {"name": "Mine"}}), ("db_delete", {})):
        error = call(tool, table="recipes", filters=[_is("id", "recipe_1")], **more)["error"]
        assert error == {
            "code": "shared_recipe",
            "message": "'recipe_1' is shared by all and cannot be changed; create a recipe of "
            "the user's own with parent_recipe_id 'recipe_1', and change that",
            "ref": "recipe_1",
            "create": {"parent_recipe_id": "recipe_1"},
        }
    assert session.get_one(Recipe, "recipe_1").name == "Zopf"


def test_a_change_of_a_recipe_is_found_by_its_new_name(call: Call, own: str) -> None:
    """The tools write through the unit of work, which keeps the vector in step."""
    call("db_update", table="recipes", filters=[_is("id", own)], data={"name": "Quokka"})
    answer = call("db_read", table="recipes", filters=[_is("_semantic", "quokkas", "similar")])
    assert [row["id"] for row in answer["rows"]] == [own]


def test_a_vector_is_no_column_to_a_model(call: Call) -> None:
    """It cannot be shown, filtered by or written, as if it were not there."""
    asked = {"table": "recipes", "columns": ["embedding"]}
    assert call("db_read", **asked)["error"]["code"] == "unknown_column"


def test_what_is_bought_is_left_out(call: Call) -> None:
    """Unless a filter is on it, inside a group too."""
    items = [{"name": "milk"}, {"name": "salt", "bought": True}]
    call("db_create", table="shopping_list", data=items)
    bought = _is("bought", False, "!=")
    answers = [
        call("db_read", table="shopping_list", filters=filters, order_by="name")
        for filters in ([], [bought], [{"or": [bought, _is("name", "milk")]}])
    ]
    assert [_names(answer) for answer in answers] == [["milk"], ["salt"], ["milk", "salt"]]
    assert ["notes" in answer for answer in answers] == [True, False, False]


def test_the_catalogue_is_not_written(call: Call) -> None:
    """A model reads it only."""
    error = call("db_create", table="ingredients", data={"name": "quokka"})["error"]
    assert error["code"] == "read_only_table"


def test_meals_say_their_weekday(call: Call, loaded_kitchen: Engine) -> None:
    """In what is read, and in what is written."""
    with Session(loaded_kitchen) as plain, plain.begin():
        user = plain.scalars(select(User)).one()
        plain.add(MealPlan(user=user, date=dt.date(2026, 3, 2), meal_type="dinner"))
    [read] = call("db_read", table="meal_plans")["rows"]
    [written] = call(
        "db_update",
        table="meal_plans",
        filters=[_is("id", "meal_plan_1")],
        data={"date": "2026-03-03"},
    )["rows"]
    assert (read["weekday"], written["weekday"]) == ("Monday", "Tuesday")


def test_a_new_recipe_says_what_it_lacks(call: Call) -> None:
    """A note names the table of its lines and the ref to put there."""
    answer = call("db_create", table="recipes", data={"name": "My soup"})
    assert answer["notes"] == ["no ingredients yet: create recipe_ingredients for 'recipe_1'"]


@pytest.fixture
def secret(loaded_kitchen: Engine) -> str:
    """The name of somebody else's recipe, which has a line."""
    with Session(loaded_kitchen) as plain, plain.begin():
        line = RecipeIngredient(name="secret spice")
        plain.add(Recipe(name="Secret soup", user=User(name="Ada"), ingredients=[line]))
    return "Secret soup"


def test_rows_of_somebody_else_are_not_there(call: Call, secret: str) -> None:
    """A recipe and its lines are found by no question: by name, nearly so, by meaning, by path."""
    for filters in (
        [_is("name", secret)],
        [_is("name", "Sekret soup")],
        [_is("_semantic", secret, "similar")],
        [_is("ingredients.name", "secret spice")],
    ):
        answer = call("db_read", table="recipes", filters=filters)
        assert secret not in json.dumps(answer["rows"])
    assert (
        call("db_read", table="recipe_ingredients", filters=[_is("name", "secret spice")])["rows"]
        == []
    )


def test_new_rows_are_the_users(call: Call, own: str, session: RefSession, owner: Owner) -> None:
    """The model does not say whose they are, and cannot."""
    error = call("db_create", table="recipes", data={"name": "X", "user_id": "user_1"})["error"]
    assert (error["code"], error["column"]) == ("unknown_column", "user_id")
    with session.raw_keys():
        user_id = session.scalars(select(Recipe.user_id).where(Recipe.name == "My soup")).one()
    assert user_id == owner.value
    assert own == "recipe_1"


def test_lines_of_a_shared_recipe_are_not_written(call: Call) -> None:
    """What belongs to a shared row is shared too: read by all, and written by none."""
    call("db_read", table="recipes", filters=[_is("name", "Zopf")])
    line = {"recipe_id": "recipe_1", "name": "salt"}
    error = call("db_create", table="recipe_ingredients", data=line)["error"]
    assert error["code"] == "foreign_row"


async def test_hooks_work_in_async_sessions(loaded_kitchen: Engine, owner: Owner) -> None:
    """They are the same functions, and may read: nearly the name, the catalogue, the lines."""
    tools, engine = kitchen_tools(), create_async_engine(loaded_kitchen.url)
    chat = RefRegistry(engine, policy=POLICY).conversation("chat-7", owner=owner.value)
    async with AsyncRefSession(engine, conversation=chat, owner=owner) as session:

        async def names(**filter_: Any) -> list[str]:
            asked = {"table": "recipes", "filters": [filter_], "limit": 1}
            return _names(await tools.call_async(session, "db_read", asked))

        near = await names(field="_semantic", op="similar", value="lentil soup")
        nearly = await names(field="name", op="=", value="Chiken Paprikash")
        [row] = (
            await tools.call_async(
                session, "db_read", {"table": "recipes", "filters": [_is("id", "recipe_1")]}
            )
        )["rows"]
    await engine.dispose()
    assert (near, nearly) == (["Ham and Lentil Soup"], ["Chicken Paprikash"])
    assert row["ingredients"][0]["_ingredient_id_label"] == "lentil"


def _edited(answer: Answer) -> list[str]:
    return [item["name"] for item in answer["items"].values()]


def test_lines_are_edited_by_position(call: Call, own: str, loaded_kitchen: Engine) -> None:
    """New ones find their ingredients as all do, and places are counted from 0 as before."""
    lines = [{"recipe_id": own, "name": name} for name in ("onion", "salt", "milk", "mint")]
    call("db_create", table="recipe_ingredients", data=lines)
    edits = [
        {"action": "remove", "path": [3], "expect": "milk"},
        {"action": "move", "path": [4], "to": 1},
        {"action": "add", "path": [2], "data": {"name": "Lentils", "quantity": "2"}},
    ]
    answer = call("db_edit_list", table="recipes", row=own, list="ingredients", edits=edits)
    assert _edited(answer) == ["mint", "Lentils", "onion", "salt"]
    assert answer["items"]["2"]["_ingredient_id_label"] == "lentil"
    with Session(loaded_kitchen) as plain:
        recipe = plain.scalars(select(Recipe).filter_by(name="My soup")).one()
        assert [line.position for line in recipe.ingredients] == [0, 1, 2, 3]


def test_a_week_of_meals_is_edited_by_position(call: Call, loaded_kitchen: Engine) -> None:
    """It is JSON in the user's preferences, in which a recipe is named by its mark."""
    call("db_read", table="recipes", filters=[_is("name", "Zopf")], columns=["name"])
    call("db_read", table="preferences")
    week = {"table": "preferences", "row": "preferences_1", "list": "settings.week.meals"}
    days = [
        {"day": "Monday", "meals": ["<recipe_1>", "soup"]},
        {"day": "Tuesday", "meals": ["wraps"]},
    ]
    edits = [{"action": "add", "path": [n], "data": day} for n, day in enumerate(days, start=1)]
    call("db_edit_list", **week, edits=edits)
    edits = [
        {"action": "move", "path": [1, 1], "to": [2, 2]},
        {"action": "remove", "path": [1, 2], "expect": "soup"},
    ]
    answer = call("db_edit_list", **week, edits=edits)
    assert answer["items"]["week"] == {
        "1": {"day": "Monday", "meals": {}},
        "2": {"day": "Tuesday", "meals": {"1": "wraps", "2": "<recipe_1>"}},
    }
    with Session(loaded_kitchen) as plain:
        zopf = plain.scalars(select(Recipe.id).filter_by(name="Zopf")).one()
        [settings] = plain.scalars(select(Preferences.settings))
    assert settings["week"][1]["meals"] == ["wraps", str(zopf)]


@pytest.mark.parametrize("name", ["instructions", "ingredients"])
def test_lists_of_a_shared_recipe_are_not_edited(
    call: Call, name: str, loaded_kitchen: Engine
) -> None:
    """Neither its steps nor its lines, nor are they deleted on the way."""
    call("db_read", table="recipes", filters=[_is("name", "Zopf")], columns=["name"])
    with Session(loaded_kitchen) as plain:
        recipe = plain.scalars(select(Recipe).filter_by(name="Zopf")).one()
        before = recipe.instructions, [line.id for line in recipe.ingredients]
    edits = [{"action": "remove", "path": [1]}]
    answer = call("db_edit_list", table="recipes", row="recipe_1", list=name, edits=edits)
    assert answer["error"]["code"] == "foreign_row"
    with Session(loaded_kitchen) as plain:
        recipe = plain.scalars(select(Recipe).filter_by(name="Zopf")).one()
        assert (recipe.instructions, [line.id for line in recipe.ingredients]) == before
        assert all(before)
