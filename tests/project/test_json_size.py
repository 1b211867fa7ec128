"""Tests for `benchmarks.json_size`: that like is held against like, never what is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs.tools import Toolset
from benchmarks import json_size
from benchmarks.list_size import ITEMS, list_forms
from examples.kitchen.models import MealPlan, Recipe, RecipeIngredient

pytest_plugins = ["tests.fix_kitchen"]


@pytest.mark.slow
@pytest.mark.parametrize("what", json_size.QUESTIONS)
def test_all_forms_are_of_the_same_rows(loaded_kitchen: Engine, what: str) -> None:
    """They differ in nothing but keys or refs, and where the labels are."""
    json_size.measured(loaded_kitchen, 5, None)

    forms = json_size.answers(loaded_kitchen, what, 5)

    assert list(forms) == list(json_size.FORMS)
    assert {form["count"] for form in forms.values()} == {5}
    bare = [
        [{k: v for k, v in row.items() if not k.endswith("_label")} for row in form["rows"]]
        for name, form in forms.items()
        if name.startswith("refs")
    ]
    assert bare[1:] == bare[:-1]
    beside = forms["refs, labels inline"]["rows"]
    legend = forms["refs, labels in a legend"]["labels"]
    assert {(row["recipe_id"], row["_recipe_id_label"]) for row in beside} <= legend.items()


@pytest.mark.slow
def test_the_sides_with_keys_have_keys_alone(loaded_kitchen: Engine) -> None:
    """Those of the database, where the others have refs."""
    json_size.measured(loaded_kitchen, 5, None)
    with Session(loaded_kitchen) as plain:
        keys = {
            str(key)
            for column in (MealPlan.id, MealPlan.recipe_id, RecipeIngredient.id, Recipe.id)
            for key in plain.scalars(select(column))
        }

    for what in json_size.QUESTIONS:
        forms = json_size.answers(loaded_kitchen, what, 5)
        for name, form in forms.items():
            shown = {row[column] for row in form["rows"] for column in ("id", "recipe_id")}
            assert (shown <= keys) == name.startswith("keys")
            assert any(key in json.dumps(form) for key in keys) == name.startswith("keys")


@pytest.mark.slow
def test_each_form_of_a_list_says_the_same(loaded_kitchen: Engine) -> None:
    """All items are in it, and a call edits the third, the fifth and the twelfth."""
    shown = {name: [*forms.values()] for name, forms in list_forms(loaded_kitchen).items()}

    for name, forms in shown.items():
        items = [each if isinstance(each, list) else [*each.values()] for each, _ in forms]
        assert [len(each) for each in items] == [ITEMS] * len(forms)
        named = [
            [each.get("path") or each["ref"] for each in call["edits"]]
            for _, call in forms
            if "edits" in call
        ]
        assert named[0] == [[3], [5], [12]]
        assert named[1:3] == [[each[n]["id"] for n in (2, 4, 11)] for each in items[1:3]]
        assert len({*named[1], *named[2]}) == 6, name
    steps, anew = shown["instructions"][-1]
    left = [steps[11], *(text for n, text in enumerate(steps) if n not in (2, 4, 11))]
    assert anew["data"] == {"instructions": left}


@pytest.mark.slow
def test_tokens_are_counted_if_they_can_be(loaded_kitchen: Engine) -> None:
    """A line has what a tokeniser says, beside the bytes, or nothing."""
    [first, *_] = json_size.measured(loaded_kitchen, 5, lambda text: 10 * text.count('"id"'))
    assert first[3:] == ("50", "10", "1.00 x")

    [first, *_] = json_size.measured(loaded_kitchen, 5, None)
    assert first[3:] == ("-", "-", "-")


@pytest.mark.slow
def test_the_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program runs on a server of its own, and writes what it prints."""
    monkeypatch.setattr(json_size, "measured", lambda *_: [("a", "b", "1", "2", "3", "4 x")])
    monkeypatch.setattr(json_size, "measured_lists", lambda *_: [("c", "d", "e", "1", "2", "x")])
    written = tmp_path / "results" / "table.md"

    assert json_size.main(["--rows", "5", "--write", str(written)]) == 0

    text = written.read_text("utf-8")
    assert "| a | b | 1 | 2 | 3 | 4 x |" in text
    assert "| c | d | e | 1 | 2 | x |" in text
    assert "| without it | " in text
    assert "4 x" in capsys.readouterr().out


def test_definitions_are_held_against_a_schema_for_each_table() -> None:
    """All tables are in both, with the same columns to write."""
    toolset = Toolset([Recipe, MealPlan])

    for definition in toolset.schemas("anthropic", describe=False):
        schema = json_size.by_table(definition, toolset)["input_schema"]
        Draft202012Validator.check_schema(schema)
        tables = [each["properties"]["table"]["const"] for each in schema["oneOf"]]
        assert tables == definition["input_schema"]["properties"]["table"]["enum"]
        if definition["name"] == "db_create":
            plan = schema["oneOf"][1]["properties"]["data"]["properties"]
            assert sorted(plan) == ["date", "meal_type", "notes", "recipe_id", "user_id"]
