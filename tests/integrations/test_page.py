"""`docs/integrations.md`: its programs run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
from agents import Runner
from pydantic_ai.models.function import FunctionModel
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from tests.integrations import shop, test_anthropic, test_langchain, test_openai_agents
from tests.integrations.contract import ORDERS, READ_ORDERS, Played, Turn
from tests.integrations.test_anthropic import MODEL
from tests.integrations.test_pydantic_ai import Script

ROOT = Path(__file__).parents[2]
SECTIONS = {
    title: re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    for title, text in re.findall(
        r"^## ([^\n]+)\n(.*?)(?=^## |\Z)",
        "## set-up\n" + (ROOT / "docs" / "integrations.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}
Fake = tuple[dict[str, Any], Callable[[], Played]]
"""What a program has in the place of a model, and what that was sent."""


def fake_pydantic_ai(script: Sequence[Turn]) -> Fake:
    """Return a function that pydantic-ai takes for a model."""
    model = Script(script)
    return {"model": FunctionModel(model)}, lambda: model.played


def fake_openai_agents(script: Sequence[Turn]) -> Fake:
    """Return the SDK's own fake."""
    model = test_openai_agents.scripted(script)
    return {"model": model, "Runner": Runner}, lambda: test_openai_agents.sent_to(model)


def fake_langchain(script: Sequence[Turn]) -> Fake:
    """Return LangChain's own fake."""
    model = test_langchain.FakeModel(messages=test_langchain.answers(script))
    return {"model": model}, lambda: test_langchain.sent_to(model)


def fake_anthropic(script: Sequence[Turn]) -> Fake:
    """Return a client whose requests go nowhere."""
    server = test_anthropic.Server(script)
    return {"model": MODEL, "client": server.client()}, lambda: server.played


# section -> module of the example, and what stands in the place of a model
FRAMEWORKS = {
    "pydantic-ai": ("pydantic_ai", fake_pydantic_ai),
    "OpenAI Agents": ("openai_agents", fake_openai_agents),
    "LangChain": ("langchain", fake_langchain),
    "Anthropic": ("anthropic", fake_anthropic),
}


async def run(program: str, names: dict[str, Any]) -> None:
    """Run a program that may await."""
    code = compile(program, "<page>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if isawaitable(done := eval(code, names)):  # noqa: S307  # our own text
        await done


@pytest.mark.parametrize("section", FRAMEWORKS)
def test_the_agents_to_copy_are_short(section: str) -> None:
    """At most 25 lines of code in each file of the folder that the page links to."""
    text = (ROOT / "examples" / "agents" / f"{FRAMEWORKS[section][0]}.py").read_text("utf-8")
    shown = text.partition("from __future__ import annotations\n\n")[2]
    docstrings = re.findall(r'^ *""".*"""\n', shown, re.MULTILINE)
    code = [line for line in shown.splitlines() if line.strip() and "#" not in line.split()[0]]
    assert 0 < len(code) - len(docstrings) <= 25


@pytest.mark.whole
@pytest.mark.parametrize("section", FRAMEWORKS)
async def test_the_programs_run(section: str, shop_engine: Engine) -> None:
    """With a fake model each: it calls a tool, and is told what there is."""
    in_its_place, played = FRAMEWORKS[section][1]([[READ_ORDERS]])
    names: dict[str, Any] = {
        **vars(shop),
        "__name__": __name__,
        "Toolset": Toolset,
        "RefSession": RefSession,
        "sessionmaker": sessionmaker,
        "engine": shop_engine,
        "registry": RefRegistry(shop_engine),
        "ownership": shop.ownership(),
        "user_id": shop.ADA,
        **in_its_place,
    }
    for kind, program in [*SECTIONS["set-up"], *SECTIONS[section]]:
        assert kind == "python"
        await run(program, names)

    assert played().texts() == [[ORDERS]]
    with Session(shop_engine) as session:
        assert shop.keys_in(session, played().received) == []


async def test_a_person_approves(
    shop_desk: BoundToolset, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program shows the plan, and deletes the order once it is resumed."""
    bound = shop_desk
    toolset = Toolset(
        shop.MODELS, owner=shop.ownership(), expect="optional", consent={shop.Order: ["delete"]}
    )
    desk = toolset.bind(bound.sessions, registry=bound.registry)
    desk.call("chat-7", shop.ADA, "db_read", {"table": "orders"})
    [(_, program)] = SECTIONS["Asking a person"]
    only = [{"field": "id", "op": "=", "value": "order_1"}]
    names, _ = fake_pydantic_ai([[("db_delete", {"table": "orders", "filters": only})]])
    await run(program, {**names, "desk": desk, "user_id": shop.ADA})
    assert "Delete 1 order. With it: 1 order line deleted." in capsys.readouterr().out
    [record] = desk.history("chat-7", shop.ADA)
    assert (record.state, record.user, record.decided_by) == ("done", "bob", "ann")
