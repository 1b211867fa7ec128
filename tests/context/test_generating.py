"""Steps that make content: the tables they see, and the drafts that are kept."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import ContextError, Conversation, Ownership, RefRegistry, RefSession
from alfred_refs.context import Context, Step, decision_type
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Hooks, ToolError, Toolset
from tests.context.conftest import Call
from tests.fix_owned import World
from tests.owned import Recipe
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Part

Sessions = sessionmaker[RefSession]
GENERATE = Step("generate", "invent something")


def made(context: Context, *drafts: dict[str, Any]) -> list[str]:
    """End a step with drafts, and return their refs."""
    end = {"action": "step_complete", "result_summary": "made", "drafts": [*drafts]}
    return context.done(GENERATE, context.prompt(GENERATE).decision.model_validate(end))


def tables_of(context: Context, *tables: str) -> list[str]:
    """Return the names of the tables that the prompt describes."""
    step = Step("generate", "x", tables=tables or None)
    lines = context.prompt(step).parts["schema"].splitlines()[3:]
    return [line for line in lines if not line.startswith(" ")]


def test_a_step_sees_the_tables_of_what_it_may_make(context: Context) -> None:
    """With the tables of rows inside; those it only refers to do not take the place of others."""
    assert tables_of(context) == ["dishes", "parts", "cuisines"]
    assert tables_of(context, "cuisines") == ["cuisines"]
    assert tables_of(context, "dishes") == ["dishes", "parts"]
    told = context.prompt(GENERATE).parts["schema"]
    assert "  servings?: integer, > 0" in told.splitlines()
    assert "  inside: parts (many parts)" in told.splitlines()
    assert "read only" not in told
    assert "lists" not in told


def test_tables_without_drafts_are_left_out(conversation: Conversation) -> None:
    """Those that a model may not create, and those whose keys cannot be decided."""
    context = Context(conversation, toolset=Toolset([*MODELS], read_only=[Part]))
    assert tables_of(context) == ["dishes", "cuisines"]
    assert tables_of(context, "parts") == ["dishes", "cuisines"]
    for toolset in (Toolset(MODELS, drafts=False), Toolset(MODELS, read_only=MODELS)):
        assert "schema" not in Context(conversation, toolset=toolset).prompt(GENERATE).parts
        assert decision_type("generate", toolset).choices[0].__name__ == "StepComplete"


def test_hooks_fill_columns_of_drafts(conversation: Conversation, sessions: Sessions) -> None:
    """A model is neither asked for them nor refused without them."""

    class Fill(Hooks):
        fills = ("name",)

    toolset = Toolset(MODELS, hooks={Cuisine: [Fill()]})
    context = Context(conversation, toolset=toolset, sessions=sessions)
    assert "  name: text, unique" in context.prompt(GENERATE).parts["schema"].splitlines()
    assert made(context, {"table": "cuisines", "data": {}}) == ["gen_cuisine_1"]


@pytest.mark.parametrize(
    ("draft", "code", "said"),
    [
        ({"table": "cuisines", "data": {}}, "missing_value", "needs a value for 'name'"),
        (
            {"table": "dishes", "data": {"cuisine": {"name": None}}},
            "missing_value",
            "a row of 'cuisines' needs a value for 'name'",
        ),
        ({"table": "dishes", "data": {"servings": "x"}}, "invalid_value", "'servings'"),
        ({"table": "dishes", "data": {"nmae": "x"}}, "unknown_column", "'nmae'"),
        ({"table": "dishes", "data": {"cuisine_id": "cuisine_9"}}, "unknown_ref", "'cuisine_9'"),
        ({"table": "parts", "data": {"dish_id": "gen_dish_9"}}, "unknown_draft", "'gen_dish_9'"),
    ],
)
def test_what_can_never_be_saved_is_refused(
    context: Context, conversation: Conversation, draft: dict[str, Any], code: str, said: str
) -> None:
    """Neither drafts nor the end of the step are stored."""
    with pytest.raises(ToolError) as error:
        made(context, {"table": "dishes", "data": {"name": "Stew"}}, draft)
    assert error.value.code == code
    assert said in str(error.value)
    assert [*conversation.drafts()] == []
    assert conversation.steps() == []


def test_errors_have_no_keys_that_a_model_wrote(context: Context) -> None:
    """They go into its next prompt as they are."""
    key = "a508000d-9b55-40f0-8886-dbdd88bd2de2"
    for field in (key, "..88bd2de2"):
        with pytest.raises(ToolError, match=r"has no column '<key(_1)?>'"):
            made(context, {"table": "dishes", "data": {field: "x"}})


def test_a_draft_may_lack_the_ref_of_its_parent(context: Context) -> None:
    """They may be saved together."""
    drafts = ({"table": "dishes", "data": {"name": "x"}}, {"table": "parts", "data": {}})
    assert made(context, *drafts) == ["gen_dish_1", "gen_part_1"]


@pytest.mark.usefixtures("keys")
def test_labels_beside_refs_are_checked(
    conversation: Conversation, sessions: Sessions, call: Call
) -> None:
    """As in a write: a wrong digit names another row."""
    cuisine = call("db_read", table="cuisines")["rows"][0]["id"]
    context = Context(conversation, toolset=Toolset(MODELS), sessions=sessions)
    assert '"_cuisine_id_label": "Its label"' in context.prompt(GENERATE).system
    content = {"name": "Stew", "cuisine_id": cuisine}
    for label, code in (({}, "unconfirmed_ref"), ({"_cuisine_id_label": "x"}, "unexpected_row")):
        with pytest.raises(ToolError) as error:
            made(context, {"table": "dishes", "data": {**content, **label}})
        assert error.value.code == code
    named = {**content, "_cuisine_id_label": "Thai"}
    assert made(context, {"table": "dishes", "data": named}) == ["gen_dish_1"]
    [draft] = conversation.drafts()
    assert draft.content == content


def test_the_mark_of_a_key_in_a_text_is_the_key_again(
    context: Context, conversation: Conversation, tables: Engine, call: Call
) -> None:
    """Whatever is shown can be written."""
    with Session(tables) as plain:
        cuisine = Cuisine(name="Thai")
        plain.add(cuisine)
        plain.commit()
        key = str(cuisine.id)
    call("db_read", table="cuisines")
    made(context, {"table": "dishes", "data": {"name": "like <cuisine_1>"}})
    [draft] = conversation.drafts()
    assert draft.content == {"name": f"like {key}"}
    assert key not in context.prompt(Step("write", "save it")).user


def test_a_label_is_for_rows_without_a_name(context: Context, conversation: Conversation) -> None:
    """A class with a label ignores the model's."""
    part = {"table": "parts", "data": {"note": "rice"}, "label": "the rice"}
    dish = {"table": "dishes", "data": {"name": "Stew"}, "label": "a stew"}
    assert made(context, part, dish) == ["gen_part_1", "gen_dish_1"]
    labels = {draft.ref: draft.label for draft in conversation.drafts()}
    assert labels == {"gen_part_1": "the rice", "gen_dish_1": "Stew"}


def test_drafts_need_sessions(conversation: Conversation, toolset: Toolset) -> None:
    """They look up the rows that drafts refer to."""
    with pytest.raises(ContextError, match="no sessions to keep them"):
        made(Context(conversation, toolset=toolset), {"table": "dishes", "data": {}})


def test_errors_do_not_name_the_column_of_the_owner(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A model does not know it, nor any other that is hidden."""
    chat = RefRegistry(store=MemoryStore()).conversation("chat-7", owner=world.users["ann"])
    toolset = Toolset([Recipe], owner=ownership, hidden=[Recipe.parent_id])
    sessions = sessionmaker(owned_engine, class_=RefSession)
    context = Context(chat, toolset=toolset, sessions=sessions)
    for wrong in ("nmae", "user_id", "parent_id"):
        with pytest.raises(ToolError, match="has no column") as error:
            made(context, {"table": "recipes", "data": {"name": "x", wrong: "x"}})
        assert {"user_id", "parent_id"} - {wrong} & {*str(error.value).split("'")} == set()
    assert made(context, {"table": "recipes", "data": {"name": "x"}}) == ["gen_recipe_1"]
