"""What rows are called after a rename, whoever has renamed them: the new name, everywhere."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.context import Context, Window
from alfred_refs.tools import Toolset
from tests.context.conftest import is_
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish, Part

Sessions = sessionmaker[RefSession]

MODES: list[Any] = ["inline", "legend", "none"]


class Chat:
    """A conversation, and the calls of a model in it."""

    def __init__(
        self, registry: RefRegistry, sessions: Sessions, mode: Any, policy: RefPolicy | None = None
    ) -> None:
        self.registry = registry
        self.sessions = sessions
        self.toolset = Toolset(MODELS, labels=mode, expect="optional", sql=True, policy=policy)
        self.labels = mode
        self.chat = registry.conversation("names")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, in a session of its own."""
        with self.sessions(conversation=self.chat, by="model") as session:
            return self.toolset.call(session, tool, arguments)

    def names(self, *refs: str) -> list[str]:
        """Return what a reply calls rows, in another process."""
        chat = self.registry.conversation(self.chat.id)
        return "".join(Context(chat).with_names([";".join(refs)])).split(";")


@pytest.fixture(params=MODES)
def chat(request: pytest.FixtureRequest, registry: RefRegistry, sessions: Sessions) -> Chat:
    """A conversation with a toolset that shows labels in each way."""
    return Chat(registry, sessions, request.param)


def rename(chat: Chat, engine: Engine, key: uuid.UUID, way: str) -> None:
    """Rename the first dish in one of the ways, and have the model read what shows it."""
    sessions = partial(chat.sessions, conversation=chat.chat, by="user")
    if way == "by the model":
        chat.call("db_update", table="dishes", filters=is_("dish_1"), data={"name": "Dal"})
    elif way == "by the user":
        with sessions() as session, session.raw_keys():
            session.get_one(Dish, key).name = "Dal"
            session.commit()
    elif way == "in bulk":
        with sessions() as session:
            session.execute(update(Dish).where(Dish.id == "dish_1").values(name="Dal"))
            session.commit()
    else:
        with Session(engine) as plain, plain.begin():
            plain.execute(update(Dish).where(Dish.id == key).values(name="Dal"))
            plain.add(Part(dish_id=key, note="rice"))
    if way in ("in bulk", "elsewhere"):
        chat.call("db_read", table="dishes", filters=is_("dish_1"), columns=["name"])
    elif way == "seen by SQL":
        answer = chat.call("db_query", sql="SELECT id, name FROM dishes WHERE id = 'dish_1'")
        assert answer["rows"] == [["dish_1", "Dal"]]
    elif way == "seen from another row":
        answer = chat.call("db_read", table="parts", columns=["note", "dish_id"])
        assert answer["rows"][0]["dish_id"] == "dish_1"


# these update the label of the registry only where labels are shown
BESIDE = ("seen by SQL", "seen from another row")
RENAMES = ("by the model", "by the user", "in bulk", "elsewhere", *BESIDE)


@pytest.mark.parametrize(
    ("way", "was_draft"), [*((each, True) for each in RENAMES), ("by the model", False)]
)
def test_a_renamed_row_has_its_new_name(
    chat: Chat, tables: Engine, way: str, was_draft: bool
) -> None:
    """In replies, lists, errors and retained rows, also by the ref of the draft that it was."""
    made = {"table": "dishes", "data": {"name": "Soup"}}
    if was_draft:
        chat.call("db_create", **made, draft=True)
        chat.call("db_create", table="dishes", from_draft="gen_dish_1")
    else:
        chat.call("db_create", **made)
    refs = ["dish_1", *(["gen_dish_1"] if was_draft else [])]
    assert chat.names(*refs) == ["Soup"] * len(refs)
    chat.chat.retain(["dish_1"], "liked")
    key = chat.chat.resolve("dish_1")
    assert isinstance(key, uuid.UUID)
    rename(chat, tables, key, way)
    name = "Soup" if chat.labels == "none" and way in BESIDE else "Dal"

    assert chat.names(*refs) == [name] * len(refs)
    assert [each.label for each in chat.chat.entries(Dish)] == [name]
    assert [each.label for each in chat.chat.drafts(states=["saved"])] == [name] * was_draft
    error = chat.call("db_read", table="dishes", filters=is_("dish_9"))["error"]
    assert error["labels"] == {"dish_1": name}
    error = chat.call("db_read", table="dishes", filters=is_(name))["error"]
    assert error["near"] == "dish_1"
    for _ in range(4):
        chat.chat.begin_turn()
    by_name = Context(chat.chat, Window(active=1)).render("think")
    assert f'- dish_1 "{name}"' in by_name
    assert '"liked"' in by_name


def test_a_linked_row_has_the_name_that_was_shown(chat: Chat, tables: Engine) -> None:
    """A reply, an error and a retained row use it, whichever way labels are shown."""
    with Session(tables) as plain, plain.begin():
        cuisine = Cuisine(name="Thai")
        plain.add(Dish(name="Curry", cuisine=cuisine, parts=[Part(note="rice")]))
    chat.call("db_read", table="dishes", columns=["name", "cuisine_id"])
    name = "cuisine 1" if chat.labels == "none" else "Thai"
    assert chat.names("cuisine_1") == [name]
    with Session(tables) as plain, plain.begin():
        plain.execute(update(Cuisine).values(name="Siam"))
    chat.call("db_query", sql="SELECT id, cuisine_id FROM dishes")
    chat.call("db_read", table="dishes", columns=["name", "cuisine_id"])
    name = "cuisine 1" if chat.labels == "none" else "Siam"
    assert chat.names("cuisine_1") == [name]
    chat.chat.retain(["cuisine_1"], "liked")
    kept = Context(chat.chat).render("reply")
    assert f'- "{name}": cuisine' in kept


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_is_renamed_in_a_list_has_its_new_name(
    tables: Engine, sessions: Sessions, mode: Any
) -> None:
    """By `db_edit_list`, which names it by its position."""
    policy = RefPolicy(labels={Part: "note"})
    registry = RefRegistry(tables, policy=policy)
    registry.create_tables()
    chat = Chat(registry, sessions, mode, policy)
    with Session(tables) as plain, plain.begin():
        plain.add(Dish(name="Korma", parts=[Part(position=1, note="rice")]))
    chat.call("db_read", table="dishes", columns=["name", "parts"])
    assert chat.names("part_1") == ["rice"]
    edit = {"action": "modify", "path": [1], "data": {"note": "basmati"}}
    edited = chat.call("db_edit_list", table="dishes", row="dish_1", list="parts", edits=[edit])
    assert "error" not in edited
    assert chat.names("part_1") == ["basmati"]
    error = chat.call("db_read", table="parts", filters=is_("part_9"))["error"]
    assert error["labels"] == {"part_1": "basmati"}


@pytest.mark.parametrize("columns", [["position"], ["position", "note"], ["dish_id"]])
def test_prompts_show_labels_that_a_function_makes(
    tables: Engine, sessions: Sessions, columns: list[str]
) -> None:
    """Whatever columns were read: a write has to repeat them. It takes one statement more."""
    policy = RefPolicy(labels={Part: lambda part: f"{part.position}. {part.note}"})
    registry = RefRegistry(tables, policy=policy)
    registry.create_tables()
    chat = registry.conversation("named by a function")
    toolset = Toolset(MODELS, policy=policy)
    with Session(tables) as plain, plain.begin():
        plain.add(Dish(name="Korma", parts=[Part(position=1, note="rice")]))
    desk = toolset.bind(sessions, registry=registry)

    def call(tool: str, **arguments: Any) -> Any:
        return desk.call(chat.id, None, tool, arguments).value

    context = Context(chat, toolset=toolset, sessions=sessions)
    call("db_read", table="parts", columns=columns)
    for audience in ("act", "think", "understand"):
        assert '- part_1 "1. rice" (read' in context.render(audience)
    change = {"filters": is_("part_1"), "data": {"note": "basmati"}, "expect": "1. rice"}
    assert call("db_update", table="parts", **change)["count"] == 1
    call("db_read", table="dishes", columns=["name", "parts.position"])
    assert '  - part_1 "1. basmati" (updated' in context.render("act")
