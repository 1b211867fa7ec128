"""A model that does to the letter what the instructions say is never refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from alfred_refs import Conversation
from alfred_refs.context import Context, Step
from alfred_refs.context.decisions import StepType
from alfred_refs.tools import Hooks, Reading, Toolset
from tests.context.conftest import Call
from tests.tools.conftest import MODELS
from tests.tools.models import Dish


class Meaning(Hooks):
    """Finds nothing by meaning."""

    def before_read(self, reading: Reading) -> None:
        """Answer a search by meaning, and nothing else."""
        if reading.semantic is not None:
            reading.answer_empty("nothing is near to that")


@pytest.fixture
def toolset() -> Toolset:
    """A toolset whose writes must give labels, as is the default."""
    return Toolset(MODELS, hooks={Dish: [Meaning()]})


def patterns(context: Context, type_: StepType) -> list[dict[str, Any]]:
    """Return the arguments in the patterns of a type of step, in order."""
    system = context.prompt(Step(type_, "x")).system
    text = system.partition("\nPatterns, ")[2]
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        codes = re.findall(r"`([^`]*)`", line)
        clauses = [json.loads(_filled(code)) for code in codes if code.startswith('{"field"')]
        members = [json.loads(f"{{{_filled(code)}}}") for code in codes if code.startswith('"')]
        found += [{"filters": clauses}] if clauses else members
    return found


def _filled(code: str) -> str:
    """Return a pattern with values in the place of dots."""
    return code.replace("[..., ", '["name", ').replace("[...]", '["hot"]').replace("{...}", "{}")


@pytest.mark.usefixtures("keys")
def test_every_pattern_of_a_read_step_is_accepted(context: Context, call: Call) -> None:
    """On the tables of its example."""
    refs = [row["id"] for row in call("db_read", table="dishes")["rows"]]
    asked = patterns(context, "read")
    assert [*asked[0]["filters"][0]["value"]] == refs[:2]
    answers = [call("db_read", table="dishes", **arguments) for arguments in asked]
    assert [answer for answer in answers if "error" in answer] == []
    assert [(*arguments,) for arguments in asked] == [
        *[("filters",)] * 5,
        *[("columns",)] * 2,
        ("drafts",),
    ]
    by_ref, related, total = answers[0], answers[5], answers[6]
    assert [row["id"] for row in by_ref["rows"]] == refs[:2]
    assert "parts" in related["rows"][0]
    assert total["totals"] == [{"count(*)": 3}]


@pytest.mark.usefixtures("keys")
def test_every_pattern_of_a_write_step_is_accepted(
    context: Context, call: Call, conversation: Conversation
) -> None:
    """With the labels that are shown: without them each would be refused."""
    cuisine = call("db_read", table="cuisines")["rows"][0]
    labels = {row["id"]: row["name"] for row in call("db_read", table="dishes")["rows"]}
    labels |= {cuisine["id"]: cuisine["name"]}
    conversation.draft(Dish, {"name": "Stew"})
    inside, parent, by_ref, by_value, by_parent, draft = patterns(context, "write")
    assert (*inside,) == ("parts",)
    by_ref["expect"] = [labels[ref] for ref in by_ref["filters"][0]["value"]]
    by_parent["expect"] = {ref: labels[ref] for ref in by_parent["expect"]}
    parent["_cuisine_id_label"] = labels[parent["cuisine_id"]]
    by_value |= {"filters": [{"field": "name", "op": "in", "value": ["Curry", "Korma", "Soup"]}]}
    draft["expect"] = "Stew"
    new = {"name": "Pie", "servings": 1}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("db_create", {"data": {**new, **inside}}),
        ("db_create", {"data": {**new, **parent}}),
        ("db_update", {**by_ref, "data": {"servings": 3}}),
        ("db_update", {**by_parent, "data": {"servings": 3}}),
        ("db_update", {**by_value, "data": {"servings": 4}}),
        ("db_create", draft),
        ("db_delete", by_ref),
    ]
    for tool, arguments in calls:
        answer = call(tool, table="dishes", **arguments)
        assert "error" not in answer, (tool, arguments, answer)


@pytest.mark.usefixtures("keys")
def test_without_the_label_a_write_is_refused(context: Context, call: Call) -> None:
    """So the patterns have to name it."""
    call("db_read", table="dishes")
    [by_ref] = [
        each for each in patterns(context, "write") if isinstance(each.get("expect"), list)
    ]
    del by_ref["expect"]
    answer = call("db_update", table="dishes", data={"servings": 3}, **by_ref)
    assert answer["error"]["code"] == "unconfirmed_ref"
