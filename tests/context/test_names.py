"""What rows are called after a rename, whoever has renamed them: the new name, everywhere."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.context import Context, Window
from alfred_refs.tools import Toolset
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


def rename_by_model(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Call `db_update`."""
    assert engine is not None
    assert key is not None
    chat.call("db_update", table="dishes", filters=own("dish_1"), data={"name": "Dal"})


def rename_by_user(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Write in a session of the user's."""
    assert engine is not None
    with chat.sessions(conversation=chat.chat, by="user") as session, session.raw_keys():
        session.get_one(Dish, key).name = "Dal"
        session.commit()


def rename_in_bulk(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Write by a statement, in a session of the user's, and read the row."""
    assert engine is not None
    assert key is not None
    with chat.sessions(conversation=chat.chat, by="user") as session:
        session.execute(update(Dish).where(Dish.id == "dish_1").values(name="Dal"))
        session.commit()
    read(chat, engine, key)


def rename_elsewhere(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Write in a plain session, and read the row."""
    with Session(engine) as plain:
        plain.execute(update(Dish).where(Dish.id == key).values(name="Dal"))
        plain.commit()
    read(chat, engine, key)


def read(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Read the row with a tool."""
    assert engine is not None
    assert key is not None
    chat.call("db_read", table="dishes", filters=own("dish_1"), columns=["name"])


def rename_and_query(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Write in a plain session, and read the row by SQL."""
    with Session(engine) as plain:
        plain.execute(update(Dish).where(Dish.id == key).values(name="Dal"))
        plain.commit()
    answer = chat.call("db_query", sql="SELECT id, name FROM dishes WHERE id = 'dish_1'")
    assert answer["rows"] == [["dish_1", "Dal"]]


def rename_and_refer(chat: Chat, engine: Engine, key: uuid.UUID) -> None:
    """Write in a plain session, and read a row that refers to it."""
    with Session(engine) as plain:
        plain.execute(update(Dish).where(Dish.id == key).values(name="Dal"))
        plain.add(Part(dish_id=key, note="rice"))
        plain.commit()
    answer = chat.call("db_read", table="parts", columns=["note", "dish_id"])
    assert answer["rows"][0]["dish_id"] == "dish_1"


RENAMES = [
    *(rename_by_model, rename_by_user, rename_in_bulk, rename_elsewhere),
    *(rename_and_query, rename_and_refer),
]


def own(ref: str) -> list[dict[str, Any]]:
    """Return filters on a row's own ref."""
    return [{"field": "id", "op": "=", "value": ref}]


@pytest.mark.parametrize(
    ("rename", "was_draft"), [*((each, True) for each in RENAMES), (rename_by_model, False)]
)
def test_a_renamed_row_has_its_new_name(
    chat: Chat,
    tables: Engine,
    rename: Callable[[Chat, Engine, uuid.UUID], None],
    was_draft: bool,
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
    rename(chat, tables, key)
    unread = chat.labels == "none" and rename in (rename_and_query, rename_and_refer)
    name = "Soup" if unread else "Dal"

    assert chat.names(*refs) == [name] * len(refs)
    assert [each.label for each in chat.chat.entries(Dish)] == [name]
    assert [each.label for each in chat.chat.drafts(states=["saved"])] == [name] * was_draft
    error = chat.call("db_read", table="dishes", filters=own("dish_9"))["error"]
    assert error["labels"] == {"dish_1": name}
    error = chat.call("db_read", table="dishes", filters=own(name))["error"]
    assert error["near"] == "dish_1"
    for _ in range(4):
        chat.chat.begin_turn()
    by_name = Context(chat.chat, Window(active=1)).render("think")
    assert f'- dish_1 "{name}"' in by_name
    assert '"liked"' in by_name


def test_a_linked_row_has_the_name_that_was_shown(chat: Chat, tables: Engine) -> None:
    """A reply, an error and a retained row use it, whichever way labels are shown."""
    with Session(tables) as plain:
        cuisine = Cuisine(name="Thai")
        plain.add(Dish(name="Curry", cuisine=cuisine, parts=[Part(note="rice")]))
        plain.commit()
    chat.call("db_read", table="dishes", columns=["name", "cuisine_id"])
    name = "cuisine 1" if chat.labels == "none" else "Thai"
    assert chat.names("cuisine_1") == [name]
    with Session(tables) as plain:
        plain.execute(update(Cuisine).values(name="Siam"))
        plain.commit()
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
    with Session(tables) as plain:
        plain.add(Dish(name="Korma", parts=[Part(position=1, note="rice")]))
        plain.commit()
    chat.call("db_read", table="dishes", columns=["name", "parts"])
    assert chat.names("part_1") == ["rice"]
    edit = {"action": "modify", "path": [1], "data": {"note": "basmati"}}
    edited = chat.call("db_edit_list", table="dishes", row="dish_1", list="parts", edits=[edit])
    assert "error" not in edited
    assert chat.names("part_1") == ["basmati"]
    error = chat.call("db_read", table="parts", filters=own("part_9"))["error"]
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
    with Session(tables) as plain:
        plain.add(Dish(name="Korma", parts=[Part(position=1, note="rice")]))
        plain.commit()
    desk = toolset.bind(sessions, registry=registry)

    def call(tool: str, **arguments: Any) -> Any:
        return desk.call(chat.id, None, tool, arguments).value

    context = Context(chat, toolset=toolset, sessions=sessions)
    call("db_read", table="parts", columns=columns)
    for audience in ("act", "think", "understand"):
        assert '- part_1 "1. rice" (read' in context.render(audience)
    change = {"filters": own("part_1"), "data": {"note": "basmati"}, "expect": "1. rice"}
    assert call("db_update", table="parts", **change)["count"] == 1
    call("db_read", table="dishes", columns=["name", "parts.position"])
    assert '  - part_1 "1. basmati" (updated' in context.render("act")
