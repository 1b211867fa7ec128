"""Tests for `examples.tasks`: a scripted model, two users of a firm, and one of another."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry
from alfred_refs.context import find_keys
from examples.tasks import Base, Firm, Label, Material, Need, Task, User, application

ENDED = {"action": "step_complete"}
BLOCKED = {"action": "blocked", "reason_code": "PLAN_INVALID"}
WRITE = {"type": "write", "goal": "do it"}
READ = {"quick": {"table": "tasks", "goal": "list", "read_only": True, "in_database": True}}
SHELF = [{"field": "id", "op": "=", "value": "task_1"}]


def called(tool: str, **params: Any) -> dict[str, Any]:
    """Return the decision to call a tool."""
    return {"action": "tool_call", "tool": tool, "params": params}


@dataclass
class Script:
    """A model that gives answers in order, and keeps its prompts."""

    answers: list[Any] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def __call__(self, system: str, user: str) -> str:
        """Return the next answer."""
        self.prompts.append(f"{system}\n\n{user}")
        return json.dumps(self.answers.pop(0))


@pytest.fixture
def tokens(engine: Engine) -> list[dict[str, str]]:
    """The headers of Ann and Bob of one firm, which has a task, and of Eve of another."""
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    with Session(engine) as session, session.begin():
        firms = [Firm(), Firm()]
        session.add_all(firms)
        session.flush()
        own: Any = {"firm_id": firms[0].id}
        users = [User(name="Ann", **own), User(name="Bob", **own)]
        users.append(User(name="Eve", firm_id=firms[1].id))
        task = Task(name="Shelf", **own)
        task.needs.append(Need(material=Material(name="Wood", **own), quantity=3))
        session.add_all([*users, task, Label(name="urgent", **own)])
        session.flush()
        return [{"authorization": f"Bearer {each.id}"} for each in users]


@pytest.fixture
def model() -> Script:
    """A model without answers yet."""
    return Script()


@pytest.fixture
def client(engine: Engine, tokens: list[dict[str, str]], model: Script) -> TestClient:
    """A client of the application, as Ann."""
    return TestClient(application(engine, model), headers=tokens[0])


def test_a_firm_talks_to_its_assistant(engine: Engine, tokens: list[dict[str, str]]) -> None:
    """It links, asks a person, learns the decision, and is undone; nobody else sees it."""
    anns, bobs, eves = tokens
    model = Script()
    client = TestClient(application(engine, model))

    def say(text: str, *answers: Any, headers: dict[str, str] = anns) -> str:
        model.answers = [*answers]
        said = {"text": text}
        reply: str = client.post("/chats/c/messages", json=said, headers=headers).json()["reply"]
        assert model.answers == []
        return reply

    quick = {"table": "tasks", "goal": "list them", "read_only": True, "in_database": True}
    needs = {"table": "tasks", "columns": ["id", "name", "needs.quantity", "needs.material_id"]}
    reply = say(
        "What is to do?",
        {"quick": quick},
        called("db_read", **needs),
        called("db_read", table="labels"),
        {**ENDED, "result_summary": "task_1 is to do"},
    )
    assert reply == "Shelf is to do"
    link = {"task_id": "task_1", "_task_id_label": "Shelf", "label_id": "label_1"}
    say(
        "It is urgent.",
        {},
        {"steps": [WRITE]},
        called("db_create", table="task_labels", data={**link, "_label_id_label": "urgent"}),
        {"action": "step_finished"},  # which is sent back
        {**ENDED, "result_summary": "task_1 is label_1"},
        headers=bobs,
    )
    delete = called("db_delete", table="tasks", filters=SHELF, expect="Shelf")
    waits = {**ENDED, "result_summary": "I wait for a person"}
    assert say("Delete it.", {}, {"steps": [WRITE]}, delete, waits) == "I wait for a person"
    assert "Your last answer was invalid" in "".join(model.prompts)

    [call] = client.get("/chats/c/calls", headers=anns).json()
    assert "Delete 1 task." in call["plan"]
    assert 'material_id: "Wood" (material_1); quantity: 3' in call["plan"]
    model.answers = [{}, {"steps": [WRITE]}, {**ENDED, "result_summary": "it is gone"}]
    place = f"/chats/c/calls/{call['call']}"
    stale = {"token": "x", "approve": True}
    assert client.post(place, json=stale, headers=bobs).status_code == 409
    decided = client.post(place, json={**call, "approve": True}, headers=bobs).json()
    assert decided == {"reply": "it is gone"}
    assert "approved and done" in model.prompts[-1]

    history = client.get("/chats/c/history", headers=anns).json()
    assert [each["call"] for each in history] == [1, 2]
    undo = f"/chats/c/undo/{call['call']}"
    assert "Create 1 task" in client.post(undo, headers=anns).json()["undone"]
    assert client.post(undo, headers=anns).status_code == 409
    with Session(engine) as session:
        task = session.scalars(select(Task)).one()
        assert [(each.quantity, each.material.name) for each in task.needs] == [(3, "Wood")]
        assert [label.name for label in task.labels] == ["urgent"]
    say("And?", {}, {"steps": [WRITE]}, {**ENDED, "result_summary": "it is back"})
    assert "undone since" in model.prompts[-1]

    assert find_keys(model.prompts) == []
    for headers, code in ((eves, 404), ({"authorization": f"Bearer {uuid.uuid4()}"}, 401)):
        assert client.get("/chats/c/history", headers=headers).status_code == code


def test_a_rejected_call_is_not_done(client: TestClient, model: Script) -> None:
    """The model learns why; a call that is decided or unknown is no longer to be decided."""
    model.answers = [
        *(READ, called("db_read", table="tasks"), {**ENDED, "result_summary": "read"}),
        *({}, {"steps": [WRITE]}),
        called("db_delete", table="tasks", filters=SHELF, expect="Shelf"),
        {**ENDED, "result_summary": "I wait"},
        *({}, {"steps": [WRITE]}, {**ENDED, "result_summary": "it stays"}),
    ]
    for text in ("List them.", "Delete it."):
        client.post("/chats/c/messages", json={"text": text})
    [call] = client.get("/chats/c/calls").json()
    place, approval = f"/chats/c/calls/{call['call']}", {**call, "approve": True}
    rejection = {**call, "approve": False, "reason": "It is in use."}

    assert client.post(place, json=rejection).json() == {"reply": "it stays"}
    assert "It is in use." in model.prompts[-1]
    assert client.get("/chats/c/calls").json() == []
    asked = len(model.prompts)
    for elsewhere, judgement in ((place, approval), (f"{place}9", rejection)):
        assert client.post(elsewhere, json=judgement).status_code == 409
    assert len(model.prompts) == asked


@pytest.mark.parametrize(
    ("answers", "reply"),
    [
        ([{"action": "ask_user", "question": "Which?"}], "Which?"),
        ([{**BLOCKED, "details": "It is gone."}], "It is gone."),
        ([called("db_read", table="tasks")] * 9, "I could not finish: it takes too many calls."),
    ],
)
def test_a_step_ends_otherwise(
    client: TestClient, model: Script, answers: list[Any], reply: str
) -> None:
    """The user gets a question, a reason, or the end of a loop."""
    model.answers = [READ, *answers]
    said = client.post("/chats/c/messages", json={"text": "List them."})
    assert said.json() == {"reply": reply}
    assert model.answers == []


def test_a_model_without_a_valid_answer_is_an_error(client: TestClient, model: Script) -> None:
    """It is asked three times."""
    model.answers = ["nothing"] * 3
    assert client.post("/chats/c/messages", json={"text": "List them."}).status_code == 502
