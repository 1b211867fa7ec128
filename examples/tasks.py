"""An assistant for the tasks of firms: a FastAPI application with the whole loop of an agent.

`application(engine, model)` makes it; `model` is a function of a system and a user prompt that
returns text, such as a call of your provider. One conversation has one firm, its tenant; the users
of the firm act in it, and see its rows only.

| request | effect |
| --- | --- |
| `POST /chats/{chat}/messages` | a turn: the model understands, plans, acts and replies |
| `GET /chats/{chat}/calls` | the calls that wait for a person, with their plans |
| `POST /chats/{chat}/calls/{call}` | approves or rejects a call, and lets the model go on |
| `GET /chats/{chat}/history` | the calls of the chat, with their users and approvers |
| `POST /chats/{chat}/undo/{call}` | undoes a call |

Tasks and labels are linked by `secondary=`, tasks and materials by a class with a quantity. Tasks
are deleted only if a person approves. The model of a turn sees what was decided since: the prompt
lists such calls.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from sqlalchemy import Column, Engine, ForeignKey, Table
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import Ownership, RefRegistry, RefSession, UnknownConversationError
from alfred_refs.context import ActDecision, Called, Context, Exchange, Prompt, Step
from alfred_refs.tools import BoundToolset, Toolset

Model = Callable[[str, str], str]
_Decision = TypeVar("_Decision", bound=BaseModel)

_MAX_CALLS = 8  # of a step
_MAX_MISTAKES = 3  # of the form of an answer
_NOT_APPROVED = ["unknown_call", "plan_changed", "rejected"]
_NOT_REJECTED = ["unknown_call", "already_done"]


class Base(DeclarativeBase):
    """Declarative base of the application."""


task_labels = Table(
    "task_labels",
    Base.metadata,
    Column("task_id", ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("label_id", ForeignKey("labels.id", ondelete="CASCADE"), primary_key=True),
)


class Firm(Base):
    """A tenant."""

    __tablename__ = "firms"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)


class User(Base):
    """A person of a firm."""

    __tablename__ = "users"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    firm_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("firms.id"))
    name: Mapped[str]


class Label(Base):
    """A label of tasks."""

    __tablename__ = "labels"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    firm_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("firms.id"))
    name: Mapped[str]


class Material(Base):
    """What tasks need."""

    __tablename__ = "materials"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    firm_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("firms.id"))
    name: Mapped[str]


class Task(Base):
    """A task, for one user."""

    __tablename__ = "tasks"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    firm_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("firms.id"))
    user_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str]

    user: Mapped[User | None] = relationship()
    labels: Mapped[list[Label]] = relationship(secondary=task_labels)
    needs: Mapped[list[Need]] = relationship(back_populates="task", cascade="all, delete-orphan")


class Need(Base):
    """How much of a material a task needs: a link with a value of its own."""

    __tablename__ = "needs"

    task_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    material_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("materials.id"), primary_key=True)
    quantity: Mapped[int]

    task: Mapped[Task] = relationship(back_populates="needs")
    material: Mapped[Material] = relationship()


OWNERSHIP = Ownership(
    {Firm: "id", User: "firm_id", Label: "firm_id", Material: "firm_id", Task: "firm_id"}
    | {Need: "task"},
    open=[task_labels],
)


class Caller(BaseModel):
    """Who sends a request: the user, and the firm whose rows are visible."""

    firm: uuid.UUID
    user: uuid.UUID


class Message(BaseModel):
    """A message of a user."""

    text: str


class Judgement(BaseModel):
    """A person's decision about a call that waits."""

    token: str
    approve: bool
    reason: str | None = None


class Agent:
    """The loop: it understands a message, plans steps, and takes them one after another.

    Args:
        desk: the tools.
        model: answers prompts.
    """

    def __init__(self, desk: BoundToolset, model: Model) -> None:
        self._desk = desk
        self._model = model
        # your application stores what was said; the rows and calls are in the registry
        self._said: dict[tuple[str, uuid.UUID], list[Exchange]] = defaultdict(list)

    def turn(self, chat: str, caller: Caller, text: str) -> str:
        """Take one turn, and return the reply with names in place of refs."""
        conversation = self._desk.conversation(chat, caller.firm)
        conversation.begin_turn()
        context = self._desk.context(chat, caller.firm)
        said = self._said[chat, caller.firm]
        exchanges = [*said, Exchange(str(conversation.scrub(text)))]
        understood = self._ask(context.understand(exchanges))
        context.curate(understood)
        quick = Step.quick(understood)
        if quick is None:
            steps = Step.planned(self._ask(context.think(exchanges, understood)), understood)
        else:
            steps = [quick]
        reply = "There was nothing to do."
        for step in steps:
            decision = self._take(context, step, exchanges, chat, caller)
            reply = _reply_of(decision)
            if decision.root.action != "step_complete":
                break
        said.append(Exchange(exchanges[-1].user, reply))
        return "".join(context.with_names([reply]))

    def decide(self, chat: str, caller: Caller, call: int, judgement: Judgement) -> str:
        """Approve or reject a call that waits, and take a turn in which the model goes on."""
        by, desk = str(caller.user), self._desk
        if judgement.approve:
            answer = desk.approve(chat, caller.firm, call, by=by, plan=judgement.token)
            conflicts = _NOT_APPROVED
        else:
            answer = desk.reject(chat, caller.firm, call, by=by, reason=judgement.reason)
            conflicts = _NOT_REJECTED
        error = answer.value.get("error")
        if error is not None and error["code"] in conflicts:
            raise HTTPException(409, error["message"])
        return self.turn(chat, caller, f"(Call {call} is decided: go on.)")

    def _take(
        self,
        context: Context,
        step: Step,
        exchanges: Sequence[Exchange],
        chat: str,
        caller: Caller,
    ) -> ActDecision:
        """Take a step: the model calls tools until it completes the step, or cannot."""
        calls: list[Called] = []
        while True:
            decision = self._ask(context.prompt(step, exchanges=exchanges, calls=calls))
            made = decision.root
            if made.action != "tool_call" or len(calls) == _MAX_CALLS:
                context.done(step, decision)
                return decision
            # a call that waits is answered as pending: the model completes the step without it
            answer = self._desk.call(
                chat, caller.firm, made.tool, made.arguments, user=caller.user
            )
            calls.append(Called(made.tool, made.arguments, answer.value))

    def _ask(self, prompt: Prompt[_Decision]) -> _Decision:
        """Return the model's decision; an invalid one is sent back to it."""
        wrong = ""
        for _ in range(_MAX_MISTAKES):
            try:
                answer = self._model(prompt.system, prompt.user + wrong)
                return prompt.decision.model_validate_json(answer)
            except ValidationError as error:
                wrong = f"\n\nYour last answer was invalid: {error}"
        raise HTTPException(502, "the model did not answer as it should")


def _reply_of(decision: ActDecision) -> str:
    made = decision.root
    match made.action:
        case "step_complete":
            return made.result_summary
        case "ask_user":
            return made.question
        case "blocked" | "fail":
            return made.details
        case "tool_call":
            return "I could not finish: it takes too many calls."


def caller_of(request: Request, authorization: Annotated[str, Header()]) -> Caller:
    """Return the sender of a request; put your own authentication here."""
    with Session(request.app.state.engine) as plain:
        user = plain.get(User, uuid.UUID(authorization.removeprefix("Bearer ")))
        if user is None:
            raise HTTPException(401)
        return Caller(firm=user.firm_id, user=user.id)


Sender = Annotated[Caller, Depends(caller_of)]


def application(engine: Engine, model: Model) -> FastAPI:
    """Return the application, on a database with its tables and those of the registry."""
    toolset = Toolset(
        [Task, Need, Label, Material, User],
        owner=OWNERSHIP,
        read_only=[User],
        consent={Task: ["delete"]},
        drafts=False,
    )
    sessions, registry = sessionmaker(engine, class_=RefSession), RefRegistry(engine)
    desk = toolset.bind(sessions, registry=registry, journal=True)
    agent, app = Agent(desk, model), FastAPI()

    app.state.engine = engine

    @app.exception_handler(UnknownConversationError)
    def unknown(_: Request, __: Exception) -> JSONResponse:  # of another firm
        return JSONResponse({"detail": "there is no such chat"}, status_code=404)

    @app.post("/chats/{chat}/messages")
    def messages(chat: str, message: Message, sender: Sender) -> dict[str, str]:
        return {"reply": agent.turn(chat, sender, message.text)}

    @app.get("/chats/{chat}/calls")
    def calls(chat: str, sender: Sender) -> list[dict[str, Any]]:
        return [
            {"call": each.call, "plan": each.plan.text, "token": each.plan.token}
            for each in desk.approvals(chat, sender.firm)
        ]

    @app.post("/chats/{chat}/calls/{call}")
    def decide(chat: str, call: int, judgement: Judgement, sender: Sender) -> dict[str, str]:
        return {"reply": agent.decide(chat, sender, call, judgement)}

    @app.get("/chats/{chat}/history")
    def history(chat: str, sender: Sender) -> list[dict[str, Any]]:
        return [
            {"call": each.call, "state": each.state, "user": each.user, "by": each.decided_by}
            | {"changes": [row.line for row in each.changes]}
            for each in desk.history(chat, sender.firm)
        ]

    @app.post("/chats/{chat}/undo/{call}")
    def undo(chat: str, call: int, sender: Sender) -> dict[str, str]:
        undone = desk.undo(chat, sender.firm, call=call, by=str(sender.user))
        if undone.refusal is not None:
            raise HTTPException(409, undone.refusal["message"])
        return {"undone": undone.text}

    return app
