"""Calls as models may make them, right and wrong: whatever is asked, no promise is broken.

`python3 run.py fuzz --calls 100000` makes more of them.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry
from alfred_refs.tools import Toolset
from tests.models import Recipe
from tests.owned import Remark
from tests.profiles import examples
from tests.tools.fuzz.campaign import ROUND, Campaign
from tests.tools.fuzz.drafts import is_touched, meant, wrongs
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.judge import Done, Judge
from tests.tools.fuzz.owned import OwnedRound
from tests.tools.fuzz.world import HUSH, Rows, World


@pytest.fixture
def campaign(tables: Engine, registry: RefRegistry) -> Campaign:
    """Calls of one seed."""
    return Campaign(World(tables), registry, seed=1)


@pytest.mark.slow
def test_nothing_comes_of_a_call_that_must_not(campaign: Campaign) -> None:
    """Answers or typed errors, no key, no row that was not meant, one transaction a call."""
    found = campaign.run(examples(4 * ROUND))

    assert found.wrong == []
    answered = [what for what in found.done if what.endswith("answered")]
    assert len(answered) == 5
    assert len(found.done) > 30


@pytest.mark.slow
def test_nothing_of_another_owners_is_shown_or_changed(owned_engine: Engine) -> None:
    """Though the model knows refs of the other's rows, and names them."""
    found = Found()
    OwnedRound(owned_engine, 1, found).run(examples(200))

    assert found.wrong == []
    assert found.done["owned db_create: foreign_row"] > 0


@pytest.mark.slow
def test_a_change_of_another_owners_rows_is_found(owned_engine: Engine) -> None:
    """Whoever made it: all rows that are not the owner's are looked at after each call."""
    found = Found()
    calls = OwnedRound(owned_engine, 1, found)
    with Session(owned_engine) as plain:
        plain.execute(update(Remark).where(Remark.text == "bob remark 1").values(text="mine"))
        plain.commit()
    calls.run(1)

    [wrong] = found.wrong
    assert wrong.split(": ")[1] == "rows of another owner's have changed"


@pytest.mark.slow
def test_a_seed_makes_the_same_calls_again(campaign: Campaign) -> None:
    """So that what was found can be looked at."""
    once = campaign.run(20).done.copy()
    twice = campaign.run(20).done

    assert twice == once + once


ROW = ("recipes", ("1",))
OTHER = ("recipes", ("2",))
KEY = "0123456789abcdef0123456789abcdef"
UNTOLD = "rows changed by a read or an error"
OTHERS = "a write tells of other rows"


@pytest.mark.parametrize(
    ("tool", "answer", "after", "wrong"),
    [
        ("db_read", {"table": "recipes", "rows": []}, {ROW: "a"}, []),
        ("db_read", {"table": "recipes", "rows": []}, {}, [UNTOLD]),
        ("db_update", {"error": {"code": "x"}}, {ROW: "b"}, [UNTOLD]),
        ("db_update", {"table": "recipes", "rows": []}, {ROW: "b"}, [OTHERS]),
        ("db_delete", {"table": "recipes", "deleted": []}, {}, [OTHERS]),
        (
            "db_create",
            {"table": "recipes", "rows": []},
            {ROW: "b", OTHER: "c"},
            ["a write did more than that", OTHERS],
        ),
        ("db_read", {"table": "recipes", "rows": [float("nan")]}, {ROW: "a"}, ["no plain JSON"]),
        ("db_read", {"rows": []}, {ROW: "a"}, ["neither an answer nor an error"]),
        ("db_read", {"error": {}}, {ROW: "a"}, ["an error without code"]),
        ("db_read", {"table": KEY.upper(), "rows": []}, {ROW: "a"}, ["a key is shown"]),
        ("db_read", {"table": f"x{UUID(KEY)}", "rows": []}, {ROW: "a"}, ["a key is shown"]),
        ("db_read", {"table": HUSH, "rows": []}, {ROW: "a"}, ["a secret is shown"]),
    ],
)
def test_a_broken_promise_is_found(
    conversation: Conversation, tool: str, answer: Any, after: Rows, wrong: list[str]
) -> None:
    """Whatever an answer tells too much, or rows tell of more than it does."""
    [table] = Toolset([Recipe]).tables
    done = Done(tool, {}, table, answer, {ROW: "a"}, after, {}, cut=False)

    found = Judge(conversation, {KEY}).wrongs(done)

    assert [each.partition(":")[0] for each in found] == wrong


PENDING = {"gen_recipe_1": ("pending", '{"name": "A"}'), "gen_recipe_2": ("pending", "{}")}
EDITED = {**PENDING, "gen_recipe_1": ("pending", "{}")}
DISCARDED = {**PENDING, "gen_recipe_1": ("discarded", '{"name": "A"}')}
DRAFT = {"id": "gen_recipe_1", "_draft": "pending"}
BY_ERROR = "drafts changed by a read or an error"
OF_OTHERS = "a write tells of other drafts"
ELSE = "a draft has become something else"


@pytest.mark.parametrize(
    ("tool", "answer", "after", "wrong"),
    [
        ("db_read", {"rows": [DRAFT], "count": 1}, PENDING, []),
        ("db_read", {"rows": [DRAFT], "count": 1}, EDITED, [BY_ERROR]),
        ("db_update", {"error": {}}, EDITED, [BY_ERROR]),
        ("db_update", {"rows": [DRAFT], "count": 1}, EDITED, []),
        ("db_update", {"rows": [], "count": 0}, EDITED, [OF_OTHERS]),
        ("db_update", {"rows": [DRAFT], "count": 1}, DISCARDED, [ELSE]),
        ("db_update", {"rows": [DRAFT, {}], "count": 2}, EDITED, ["a write hit drafts and rows"]),
        ("db_delete", {"deleted": ["gen_recipe_1"], "count": 1}, DISCARDED, []),
        ("db_delete", {"deleted": ["gen_recipe_1"], "count": 1}, EDITED, [ELSE]),
        ("db_delete", {"deleted": ["gen_recipe_1"], "count": 1}, PENDING, [OF_OTHERS]),
        ("db_delete", {"deleted": ["gen_recipe_2"], "count": 1}, DISCARDED, [OF_OTHERS]),
    ],
)
def test_what_becomes_of_a_draft_is_found(
    tool: str, answer: dict[str, Any], after: dict[str, tuple[str, str]], wrong: list[str]
) -> None:
    """Whatever is changed that an answer does not tell of."""
    assert list(wrongs(tool, answer, PENDING, after)) == wrong


def test_a_statement_to_the_table_of_drafts_is_found() -> None:
    """Unless it may be for the labels of what they refer to, or for rows."""
    [table] = Toolset([Recipe]).tables
    answer = {"rows": [DRAFT], "count": 1}
    sent = ["SELECT name FROM recipes"]
    referring = {"gen_recipe_1": ("pending", '{"parent_recipe_id": "recipe_1"}')}

    assert is_touched(table, answer, PENDING, sent)
    assert not is_touched(table, answer, PENDING, ["SELECT 1 FROM recipes_of_others"])
    assert not is_touched(table, answer, referring, sent)
    assert not is_touched(table, {"rows": [DRAFT, {}], "count": 2}, PENDING, sent)
    assert not is_touched(table, {"rows": [], "count": 0}, PENDING, sent)


def test_what_filters_mean_of_drafts_is_told_anew(conversation: Conversation) -> None:
    """Of those that they name, and that are pending."""
    [table] = Toolset([Recipe]).tables
    for content in ({"name": "A"}, {"name": "B"}, {"name": "A"}, {"name": "A"}):
        conversation.draft(Recipe, content)
    conversation.discard_drafts(["gen_recipe_4"])
    held = {
        each.ref: (each.state, json.dumps(each.content))
        for each in conversation.drafts(states=["pending", "discarded"])
    }
    refs = ["gen_recipe_1", "gen_recipe_2", "gen_recipe_4"]
    named = {"not": {"not": {"field": "id", "op": "in", "value": refs}}}
    called = {"field": "name", "op": "=", "value": "A"}

    judge = Judge(conversation, set())
    assert meant(judge, table, {"filters": [named, called]}, held) == {"gen_recipe_1"}
    as_text = {"not": {"not": {"field": "id", "op": "in", "value": json.dumps(refs)}}}
    assert meant(judge, table, {"filters": [as_text, called]}, held) == {"gen_recipe_1"}
    either = {"filters": [named], "or_filters": [called]}
    assert meant(judge, table, either, held) == {"gen_recipe_1"}
    assert meant(judge, table, {"filters": [called]}, held) == set()
