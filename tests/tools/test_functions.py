"""Tools of an application's own: what they take, what they are told, and what they answer."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from sqlalchemy import Engine, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import Session

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    Ownership,
    RefRegistry,
    RefSession,
    SetupError,
)
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset, Ref, ToolError, Toolset
from tests.fix_owned import World
from tests.owned import Line as OwnedLine, Plan, Recipe as OwnedRecipe
from tests.tools.conftest import MODELS, bound
from tests.tools.models import Cuisine, Dish, Part, Secret, Serving

Told = Callable[..., Any]


class Size(StrEnum):
    """How much."""

    SMALL = "small"
    LARGE = "large"


class Guest(BaseModel):
    """A model of the application's own, with refs inside."""

    name: str
    likes: list[Ref[Dish]] = []


def read_all(desk: BoundToolset) -> None:
    """Read all rows: Curry, Korma and Soup, and their cuisines."""
    for table in ("dishes", "cuisines", "parts", "servings"):
        by = "name" if table in ("dishes", "cuisines") else "note"
        desk.call("chat-7", None, "db_read", {"table": table, "order_by": by})


@pytest.fixture
def desk(tables: Engine) -> BoundToolset:
    """A toolset that is bound."""
    return bound(Toolset(MODELS, expect="optional"), tables)


@pytest.fixture
def told(desk: BoundToolset, dishes: dict[str, uuid.UUID]) -> Told:
    """Call a tool, when all rows have been read."""
    assert dishes
    read_all(desk)

    def told(tool: str, /, **arguments: Any) -> dict[str, Any]:
        [schema] = [s for s in desk.schemas("json_schema") if s["title"] == tool]
        answer = desk.call("chat-7", None, tool, arguments)
        if not answer.failed:
            Draft202012Validator(schema).validate(arguments)
        return answer.value

    return told


def test_a_function_is_a_tool(desk: BoundToolset, told: Told, tables: Engine) -> None:
    """It is called with what the model gives and the session; what it returns is shown as rows."""

    @desk.tool
    def serve(session: RefSession, dish: Ref[Dish], guests: int, on: dt.date) -> Dish:
        """Serve a dish.

        What stands here is for people who read the program.
        """
        found: Dish = session.get_one(Dish, dish)
        found.servings, found.cooked_on = guests, on
        return found

    answer = told("serve", dish="dish_2", guests=7, on="2026-11-24")
    [row] = answer["rows"]
    assert (answer["table"], answer["count"]) == ("dishes", 1)
    assert (row["id"], row["servings"], row["cooked_on"]) == ("dish_2", 7, "2026-11-24")
    assert (row["cuisine_id"], row["_cuisine_id_label"]) == ("cuisine_2", "Indian")
    with Session(tables) as plain:
        assert plain.scalars(select(Dish.servings).where(Dish.name == "Korma")).one() == 7


def test_its_schema_tells_what_a_model_needs(desk: BoundToolset) -> None:
    """Names, types and refs by the names of the tables; not what the call gives."""

    @desk.tool(name="book_table", read_only=True)
    def book(  # noqa: PLR0917
        session: RefSession,
        chat: Conversation,
        dish: Ref[Dish],
        others: list[Ref[Dish]],
        size: Size,
        json: Annotated[int, Field(ge=1, description="how many")] = 2,
        guest: Guest | None = None,
    ) -> None:
        """Book a table for a dish."""

    [told] = [each for each in desk.schemas("mcp") if each["name"] == "book_table"]
    schema = told["inputSchema"]
    ref = {"type": "string", "description": "dish ref, such as 'dish_1'"}
    assert told["description"] == "Book a table for a dish."
    assert told["annotations"] == {"readOnlyHint": True}
    assert list(schema["properties"]) == ["dish", "others", "size", "json", "guest"]
    assert schema["properties"]["dish"] == ref
    assert schema["properties"]["others"] == {"type": "array", "items": ref}
    many = {"type": "integer", "minimum": 1, "description": "how many"}
    assert schema["properties"]["json"] == many
    assert schema["required"] == ["dish", "others", "size"]
    assert schema["additionalProperties"] is False
    Draft202012Validator.check_schema(schema)
    names = [each["function"]["name"] for each in desk.schemas("openai")]
    assert names[-1] == "book_table"
    assert desk.reads("book_table")


@pytest.fixture
def careful(tables: Engine, dishes: dict[str, uuid.UUID]) -> BoundToolset:
    """Tools that write only with labels, in a conversation that has read the rows."""
    assert dishes
    desk = bound(Toolset(MODELS), tables)
    read_all(desk)

    @desk.tool
    def cook(  # noqa: PLR0917
        dish: Ref[Dish],
        sides: list[Ref[Dish]],
        guest: Guest | None = None,
        serving: Ref[Serving] | None = None,
        cuisine: Annotated[Ref[Cuisine], Field(description="which")] | None = None,
        by: dict[str, Ref[Dish]] | None = None,
    ) -> list[Any]:
        """Cook a dish."""
        likes = [] if guest is None else guest.likes
        return [dish, *sides, *likes, serving, cuisine, *(by or {}).values()]

    return desk


def test_labels_stand_next_to_refs_in_the_schema(careful: BoundToolset) -> None:
    """Also inside of models; where rows have none, refs are read only, or names are free, none."""

    @careful.tool(read_only=True)
    def look(dish: Ref[Dish]) -> None:
        """Look."""

    @careful.tool
    def rename(dish: Ref[Dish], _dish_label: int = 1) -> None:
        """Has a parameter of that name."""

    [cook, looked, renamed] = [each["inputSchema"] for each in careful.schemas("mcp")][-3:]
    assert [*cook["properties"]] == [
        *("dish", "_dish_label", "sides", "_sides_labels", "guest", "serving"),
        *("cuisine", "_cuisine_label", "by"),
    ]
    [guest, _] = cook["properties"]["guest"]["anyOf"]
    assert [*guest["properties"]] == ["name", "likes", "_likes_labels"]
    assert cook["properties"]["_dish_label"]["type"] == "string"
    assert cook["properties"]["_sides_labels"]["items"] == {"type": "string"}
    assert cook["required"] == ["dish", "sides"]
    assert "x-" not in json.dumps(cook)
    assert [*looked["properties"]] == ["dish"]
    assert renamed["properties"]["_dish_label"] == {"type": "integer"}


COOKED: dict[str, Any] = {
    "dish": "dish_1",
    "_dish_label": "Curry",
    "sides": ["dish_2", "dish_3"],
    "_sides_labels": ["Korma", {"name": "Soup"}],
    "guest": {"name": "Ann", "likes": ["dish_2"], "_likes_labels": ["Korma"]},
    "serving": "serving_1",
    "cuisine": "cuisine_1",
    "_cuisine_label": "Thai",
    "by": {"me": "dish_3"},
}


def test_labels_are_checked_and_not_passed_on(careful: BoundToolset) -> None:
    """The function is given refs; labels may be JSON text as all lists may."""
    expected = ["dish_1", "dish_2", "dish_3", "dish_2", "serving_1", "cuisine_1", "dish_3"]
    for given in (COOKED, {**COOKED, "_sides_labels": '["Korma", "Soup"]'}):
        answer = careful.call("chat-7", None, "cook", given)
        assert answer.value == {"result": expected}


@pytest.mark.parametrize(
    ("changed", "code", "named"),
    [
        ({"_dish_label": None}, "unconfirmed_ref", ["_dish_label"]),
        ({"_dish_label": "Korma"}, "unexpected_row", "dish_1"),
        ({"_sides_labels": ["Korma", "Curry"]}, "unexpected_row", "dish_3"),
        ({"_sides_labels": ["Korma"]}, "invalid_value", "_sides_labels"),
        ({"_sides_labels": None}, "unconfirmed_ref", ["_sides_labels"]),
        ({"guest": {"name": "Ann", "likes": ["dish_2"]}}, "unconfirmed_ref", ["_likes_labels"]),
        ({"_cuisine_label": {}}, "unconfirmed_ref", ["_cuisine_label"]),
        ({"_serving_label": "x"}, "invalid_arguments", "_serving_label"),
        ({"cuisine": None}, "invalid_arguments", "_cuisine_label"),
        ({"dish": "dish_9"}, "unknown_ref", "dish_9"),
    ],
)
def test_a_tool_that_writes_needs_labels(
    careful: BoundToolset, changed: dict[str, Any], code: str, named: Any
) -> None:
    """Of each ref, of the row that it names; nothing is done otherwise."""
    error = careful.call("chat-7", None, "cook", {**COOKED, **changed}).value["error"]
    assert error["code"] == code
    assert named in (error.get("fields"), error.get("ref"), error.get("field"))


def test_labels_are_not_needed_where_they_are_optional(desk: BoundToolset, told: Told) -> None:
    """And are checked where they are given."""

    @desk.tool
    def cook(dish: Ref[Dish]) -> str:
        """Cook a dish."""
        return dish

    assert told("cook", dish="dish_1") == told("cook", dish="dish_1", _dish_label="Curry")
    assert told("cook", dish="dish_1", _dish_label="Soup")["error"]["code"] == "unexpected_row"


@pytest.fixture
def tried(desk: BoundToolset, told: Told) -> Told:
    """Call a tool that returns the ref that it was given."""

    @desk.tool
    def look(session: RefSession, dish: Ref[Dish], n: int = 0) -> str:
        """Look at a dish."""
        return (session.get_one(Dish, dish).name or "") + "!" * n

    return lambda **given: told("look", **given)


def test_a_ref_is_looked_up_before_the_function_is_called(
    tried: Told, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """One that names no row of the class is told as by all tools; so is a key."""
    key = dishes["Soup"]
    with Session(tables) as plain:
        plain.delete(plain.get_one(Dish, dishes["Soup"]))
        plain.commit()
    wrong = {
        "dish_9": "unknown_ref",
        "cuisine_1": "wrong_entity",
        "gen_dish_1": "unknown_draft",
        "dish_3": "gone_ref",
        str(key): "raw_key",
        key.hex.upper(): "raw_key",
        "": "unknown_ref",
    }
    told = {ref: tried(dish=ref).get("error", {}).get("code") for ref in wrong}
    assert told == wrong
    assert tried(dish="dish_1") == {"result": "Curry"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "dish"),
        ({"dish": 1}, "dish"),
        ({"dish": None}, "dish"),
        ({"dish": ["dish_1"]}, "dish"),
        ({"dish": {"id": 1}}, "dish"),
        ({"dish": "dish_1", "n": "many"}, "n"),
        ({"dish": "dish_1", "session": 1}, "session"),
        ({"dish": "dish_1", "given_0": 1}, "given_0"),
    ],
)
def test_what_does_not_fit_is_told(tried: Told, given: dict[str, Any], field: str) -> None:
    """With the name of the parameter, and nothing of what was given."""
    error = tried(**given)["error"]
    assert (error["code"], error["field"]) == ("invalid_arguments", field)


def test_other_arguments_than_an_object_are_told(desk: BoundToolset, tried: Told) -> None:
    """As for all tools."""
    assert tried(dish="dish_1")
    wrong: list[Any] = [[], "[]", "dish_1", 7]
    for given in wrong:
        error = desk.call("chat-7", None, "look", given).value["error"]
        assert error["code"] == "invalid_arguments"


def test_refs_inside_of_others_are_looked_up_together(
    desk: BoundToolset, told: Told, sent: list[str]
) -> None:
    """One statement for each table, however many there are."""

    @desk.tool
    def invite(guest: Guest, to: Ref[Dish], by: dict[str, list[Ref[Cuisine]]]) -> list[str]:
        """Invite a guest."""
        return [*guest.likes, to, *by["all"]]

    sent.clear()
    guest = {"name": "Ann", "likes": ["dish_1", "dish_2"]}
    answer = told("invite", guest=guest, to="dish_3", by={"all": ["cuisine_1", "cuisine_2"]})
    assert answer == {"result": ["dish_1", "dish_2", "dish_3", "cuisine_1", "cuisine_2"]}
    assert len([each for each in sent if "FROM" in each]) == 2
    bad = {**guest, "likes": ["dish_1", "dish_9"]}
    error = told("invite", guest=bad, to="dish_3", by={"all": []})["error"]
    assert (error["code"], error["ref"]) == ("unknown_ref", "dish_9")


def test_a_row_of_several_key_columns_is_named_by_its_ref(desk: BoundToolset, told: Told) -> None:
    """Which `Conversation.resolve` makes a key of."""

    @desk.tool
    def note(chat: Conversation, serving: Ref[Serving]) -> int:
        """Tell the place of a serving."""
        key: Any = chat.resolve(serving)
        return int(key[1])

    assert told("note", serving="serving_1") == {"result": 1}


def test_a_call_is_one_transaction(desk: BoundToolset, told: Told, tables: Engine) -> None:
    """What fails leaves nothing; a mistake that the function finds is told."""

    @desk.tool
    def rename(session: RefSession, dish: Ref[Dish], name: str) -> Dish:
        """Rename a dish."""
        found: Dish = session.get_one(Dish, dish)
        found.name = name
        session.flush()
        if name == "Mud":
            raise ToolError("bad_name", "nobody eats that; choose another name", name=name)
        if name == "Fire":
            raise RuntimeError(f"the kitchen burns at {session.connection().engine.url}")
        return found

    error = told("rename", dish="dish_1", name="Mud")["error"]
    message = "nobody eats that; choose another name"
    assert error == {"code": "bad_name", "message": message, "name": "Mud"}
    with pytest.raises(RuntimeError, match="the kitchen burns"):
        told("rename", dish="dish_1", name="Fire")
    told("rename", dish="dish_2", name="Biryani")
    with Session(tables) as plain:
        names = sorted(filter(None, plain.scalars(select(Dish.name))))
    assert names == ["Biryani", "Curry", "Soup"]


def test_what_the_database_refuses_is_told(desk: BoundToolset, told: Told) -> None:
    """In the words of all tools, of a table that the model may use."""

    @desk.tool
    def put(session: RefSession, code: str) -> None:
        """Make two dishes of one code."""
        session.add_all([Dish(name="A", code=code), Dish(name="B", code=code)])

    error = told("put", code="x")["error"]
    assert (error["code"], error["columns"]) == ("conflict", ["code"])


def test_no_key_leaves(desk: BoundToolset, told: Told, dishes: dict[str, uuid.UUID]) -> None:
    """Whatever a function returns or raises; what texts are shown with may be given back."""

    @desk.tool
    def leak(note: str = "") -> dict[str, Any]:
        """Return keys."""
        return {
            "key": dishes["Soup"],
            "text": f"see {dishes['Curry']}",
            str(dishes["Korma"]): [Decimal("1.50"), dt.date(2026, 11, 24)],
            "unknown": uuid.UUID(int=7),
            "note_has_key": str(dishes["Curry"]) in note,
        }

    @desk.tool
    def crash() -> None:
        """Raise a key."""
        raise ValueError(f"no stock of {dishes['Soup']}")

    first = told("leak")
    assert first["key"] == "dish_3"
    assert first["text"] == "see <dish_1>"
    assert first["<dish_2>"] == [1.5, "2026-11-24"]
    assert first["unknown"] == "<key_1>"
    assert told("leak", note=first["text"])["note_has_key"] is True
    with pytest.raises(ValueError, match="no stock of dish_3"):
        told("crash")


def test_what_is_returned_is_an_object(desk: BoundToolset, told: Told) -> None:
    """Rows of one table as reads show them, an object as it is, and all else as its result."""
    similar = [  # to answers with rows
        {"table": "dishes", "rows": 2, "also": [3]},
        {"table": "dishes", "rows": None, "totals": {}, "also": None},
        {"table": "dishes", "list": "parts", "items": ["rice"]},
        {"table": ["dishes"], "rows": ["rice"]},
    ]

    @desk.tool
    def give(session: RefSession, what: str) -> Any:
        """Return something."""
        parts = session.scalars(select(Part).order_by(Part.position)).all()
        return {
            "rows": parts,
            "none": None,
            "empty": [],
            "object": {"a": 1},
            "numbers": {"price": Decimal("12.50"), "exact": Decimal("0.1234567890123456789")},
            "new": Dish(name="New"),
            "news": [*parts, Part(note="new")],
            "mixed": [parts[0].id, 1],
            **{f"similar {number}": each for number, each in enumerate(similar)},
        }[what]

    assert [row["id"] for row in told("give", what="rows")["rows"]] == ["part_1", "part_2"]
    assert told("give", what="none") == {"result": None}
    assert told("give", what="empty") == {"result": []}
    assert told("give", what="object") == {"a": 1}
    assert told("give", what="numbers") == {"price": 12.5, "exact": "0.1234567890123456789"}
    assert told("give", what="mixed") == {"result": ["part_1", 1]}
    assert [told("give", what=f"similar {number}") for number in range(4)] == similar
    for new in ("new", "news"):
        with pytest.raises(SetupError, match="not in its session"):
            told("give", what=new)


def test_nul_characters_are_refused(tried: Told) -> None:
    """No text of a function's is changed in silence."""
    error = tried(dish="dish_1", data={"x": "a\x00"})["error"]
    assert error["code"] == "invalid_arguments"


@pytest.fixture
def owned(owned_engine: Engine, world: World, ownership: Ownership) -> Told:
    """Call a tool for ann or bob, who each have refs of all rows."""
    desk = bound(Toolset([OwnedRecipe, OwnedLine, Plan], owner=ownership), owned_engine)

    @desk.tool
    def plan(session: RefSession, recipe: Ref[OwnedRecipe]) -> str:
        """Tell a recipe's name."""
        return str(session.get_one(OwnedRecipe, recipe).name)

    for who in ("ann", "bob"):
        chat = desk.conversation(who, world.users[who])
        chat.refer_all(OwnedRecipe, [world.recipes[each] for each in ("ann", "bob", "all")])
    return lambda who, ref: desk.call(who, world.users[who], "plan", {"recipe": ref}).value


def test_a_ref_of_somebody_else_s_row_is_refused(owned: Told) -> None:
    """Before the function is called, in the words of a row that is not there."""
    assert owned("ann", "recipe_1") == {"result": "ann"}
    assert owned("ann", "recipe_3") == {"result": "all"}
    error = owned("ann", "recipe_2")["error"]
    assert error["code"] == "foreign_row"
    assert error["message"] == (
        "'recipe_2' cannot be used here; nothing was done; read rows, and use one"
    )
    assert owned("bob", "recipe_2") == {"result": "bob"}


async def test_asynchronous_functions_are_awaited(
    async_engine: AsyncEngine, dishes: dict[str, uuid.UUID]
) -> None:
    """With the asynchronous session; a plain function has the one below."""
    sessions = async_sessionmaker(async_engine, class_=AsyncRefSession)
    toolset = Toolset(MODELS, expect="optional")
    desk = toolset.bind(sessions, registry=RefRegistry(store=MemoryStore()))

    @desk.tool
    async def look(session: AsyncRefSession, dish: Ref[Dish]) -> Dish:
        """Look at a dish."""
        found: Dish = (await session.scalars(select(Dish).where(Dish.id == dish))).one()
        found.servings = 9
        return found

    @desk.tool
    def count(session: RefSession, dish: Ref[Dish]) -> int | None:
        """Count its servings."""
        return session.get_one(Dish, dish).servings

    await desk.call_async("chat-7", None, "db_read", {"table": "dishes", "order_by": "name"})
    shown = await desk.call_async("chat-7", None, "look", {"dish": "dish_1"})
    assert shown.value["rows"][0]["servings"] == 9
    counted = await desk.call_async("chat-7", None, "count", {"dish": "dish_1"})
    assert counted.value == {"result": 9}
    wrong = await desk.call_async("chat-7", None, "look", {"dish": "dish_9"})
    assert wrong.value["error"]["code"] == "unknown_ref"
    assert dishes


def test_an_asynchronous_function_needs_an_asynchronous_session(
    desk: BoundToolset, told: Told
) -> None:
    """It is told where it is called."""

    @desk.tool
    async def look() -> None:
        """Look."""

    with pytest.raises(SetupError, match="async_sessionmaker"):
        told("look")


def test_what_no_model_could_call_is_refused(desk: BoundToolset) -> None:
    """When it is added, with what to do."""

    def plain(dish: Ref[Dish]) -> None:
        """Say what it does."""

    def untold(dish: Ref[Dish]) -> None:
        pass

    def untyped(dish) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """Say what it does."""

    def many(*dishes: Ref[Dish]) -> None:
        """Say what it does."""

    def secret(row: list[Ref[Secret]]) -> None:
        """Say what it does."""

    def local(dish: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Say what it does."""

    desk.tool(plain)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (plain, {}, "cannot be called 'plain'"),
        (plain, {"name": "db_read"}, "cannot be called 'db_read'"),
        (plain, {"name": "two words"}, "cannot be called 'two words'"),
        (lambda: None, {}, "cannot be called '<lambda>'"),
        (untold, {}, "give the function a docstring"),
        (untyped, {}, "has a parameter 'dish'"),
        (many, {}, "has a parameter 'dishes'"),
        (secret, {}, "takes a ref of 'Secret', which is not listed"),
        (local, {}, "the types of the tool 'local' cannot be read"),
    ]
    for function, given, told in wrong:
        with pytest.raises(SetupError, match=told):
            desk.tool(**given)(function)
