"""What a model reads of rows and of tools, in tokens: `python -m benchmarks.json_size`.

The rows are the kitchen's, one hundred of a table, read by tools without its hooks; the same
answers are measured with labels beside the refs, with a legend of them, and without any, as JSON
without spaces. For the sides with keys each ref is put back to its key, so that nothing else is
different. Tokens are those of `o200k_base` (OpenAI's of 2024 and later), counted if the extra
`bench` is installed.

Lists that are edited by position stand beside that, in the forms of `list_size`.

The definitions of the tools are those of all tables of the kitchen; beside them stands what they
would be with a schema for each table in place of a text on all.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.mapping.keys import parse_ref
from alfred_refs.tools import Limits, Toolset
from alfred_refs.tools.labels import LabelMode
from benchmarks import report
from benchmarks.list_size import ITEMS, list_forms
from examples.kitchen.load import load
from examples.kitchen.models import Base, Ingredient, MealPlan, Recipe, RecipeIngredient, User
from examples.kitchen.tools import POLICY
from tests.postgres.server import embedded_server

Answer = Mapping[str, Any]

_MODELS = (MealPlan, Recipe, RecipeIngredient, Ingredient)
_DAY = dt.date(2026, 5, 1)
_PLANNED = 30  # recipes that are cooked again and again

_ALL = sorted((each.class_ for each in Base.registry.mappers), key=lambda each: each.__name__)

_TOLD = ("definitions", "bytes", "tokens")

_LISTED = ("list", "what", "form", "bytes", "tokens", "to positions")

_HEAD = ("rows", "form", "bytes", "tokens", "tokens a row", "to keys alone")

# what is asked -> in words
QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "meal plans": {
        "table": "meal_plans",
        "columns": ["recipe_id", "date", "meal_type"],
        "order_by": "date",
    },
    "ingredient lines": {
        "table": "recipe_ingredients",
        "columns": ["recipe_id", "ingredient_id", "name", "quantity", "unit"],
        "filters": [{"field": "ingredient_id", "op": "is_not_null"}],
        "order_by": ["name", "quantity", "unit"],
    },
}

# the form of an answer -> where its labels are, whether keys stand in place of refs
FORMS: Mapping[str, tuple[LabelMode, bool]] = {
    "keys": ("none", True),
    "keys, labels inline": ("inline", True),
    "refs": ("none", False),
    "refs, labels inline": ("inline", False),
    "refs, labels in a legend": ("legend", False),
}


def main(arguments: Sequence[str]) -> int:
    """Measure on a server of our own, print the table and write it."""
    options = _parser().parse_args(arguments)
    with embedded_server() as url:
        engine = create_engine(url)
        Base.metadata.create_all(engine)
        RefRegistry(engine).create_tables()
        with Session(engine) as plain, plain.begin():
            load(plain)
        lines = measured(engine, options.rows, _tokens())
        listed = measured_lists(engine, _tokens())
        engine.dispose()
    title = (
        f"{options.rows} rows of the kitchen, as JSON without spaces; tokens of o200k_base. "
        "Keys are UUIDs."
    )
    told = definitions(_tokens())
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(report.console_table(_HEAD, lines), title)
    console.print(report.console_table(_LISTED, listed), report.console_table(_TOLD, told))
    options.write.parent.mkdir(exist_ok=True)
    options.write.write_text(
        f"# What a model reads\n\n{title}\n\n{report.markdown_table(_HEAD, lines)}\n"
        f"A list of {ITEMS} items by position, and with ids beside the items, "
        "and a call that drops two of them and moves one:\n\n"
        f"{report.markdown_table(_LISTED, listed)}\n"
        f"The definitions of the five tools, for all {len(_ALL)} tables of the kitchen:\n\n"
        f"{report.markdown_table(_TOLD, told)}",
        "utf-8",
    )
    return 0


def measured(
    engine: Engine, rows: int, tokens: Callable[[str], int] | None
) -> list[Sequence[str]]:
    """Return the lines of the table: each question's answers in each form.

    Args:
        engine: of a loaded kitchen.
        rows: to be read for each question.
        tokens: counts a text's tokens, if that can be done.
    """
    _plan(engine, rows)
    lines: list[Sequence[str]] = []
    for what in QUESTIONS:
        texts = {form: compact(answer) for form, answer in answers(engine, what, rows).items()}
        least = None if tokens is None else tokens(texts["keys"])
        for form, text in texts.items():
            cells = ["-", "-", "-"]
            if tokens is not None and least is not None:
                count = tokens(text)
                cells = [f"{count:,}", f"{count / rows:.0f}", f"{count / least:.2f} x"]
            lines.append((what, form, f"{len(text.encode()):,}", *cells))
    return lines


def answers(engine: Engine, what: str, rows: int) -> dict[str, Answer]:
    """Return the answers to a question in each form, of one new conversation."""
    conversation = RefRegistry(engine, policy=POLICY).conversation(f"json-size of {what}")
    question = {**QUESTIONS[what], "limit": rows}
    found: dict[str, Answer] = {}
    for form, (labels, has_keys) in FORMS.items():
        toolset = Toolset(_MODELS, policy=POLICY, labels=labels, limits=Limits(rows=rows))
        with RefSession(engine, conversation=conversation) as session:
            answer = toolset.call(session, "db_read", question)
        # what goes on from here is the same in all forms
        answer.pop("cursor", None)
        found[form] = with_keys(answer, conversation) if has_keys else answer
    return found


def with_keys(value: Any, conversation: Conversation) -> Any:
    """Return a JSON value with keys in place of the refs of a conversation."""
    if isinstance(value, dict):
        return {name: with_keys(each, conversation) for name, each in value.items()}
    if isinstance(value, list):
        return [with_keys(each, conversation) for each in value]
    is_ref = isinstance(value, str) and parse_ref(value) is not None
    return str(conversation.resolve(value)) if is_ref else value


def compact(value: Any) -> str:
    """Return as short a text as JSON has for a value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def measured_lists(engine: Engine, tokens: Callable[[str], int] | None) -> list[Sequence[str]]:
    """Return the lines of the table of lists: what each form shows, and what it is called with.

    Args:
        engine: of a loaded kitchen.
        tokens: counts a text's tokens, if that can be done.
    """
    lines: list[Sequence[str]] = []
    for name, forms in list_forms(engine).items():
        for n, what in enumerate(("shown", "call")):
            texts = {form: compact(pair[n]) for form, pair in forms.items() if pair[n] is not None}
            least = None if tokens is None else tokens(texts["positions"])
            for form, text in texts.items():
                cells = ["-", "-"]
                if tokens is not None and least is not None:
                    count = tokens(text)
                    cells = [f"{count:,}", f"{count / least:.2f} x"]
                lines.append((name, what, form, f"{len(text.encode()):,}", *cells))
    return lines


def definitions(tokens: Callable[[str], int] | None) -> list[Sequence[str]]:
    """Return the lines of the table of what a model is told of the tools.

    Args:
        tokens: counts a text's tokens, if that can be done.
    """
    toolset = Toolset(_ALL, policy=POLICY)
    bare = toolset.schemas("anthropic", describe=False)
    texts = {
        "with a text on the tables": compact(toolset.schemas("anthropic")),
        "without it": compact(bare),
        "that text alone": toolset.describe(),
        "with a schema for each table": compact([by_table(each, toolset) for each in bare]),
    }
    return [
        (what, f"{len(text.encode()):,}", "-" if tokens is None else f"{tokens(text):,}")
        for what, text in texts.items()
    ]


def by_table(definition: Answer, toolset: Toolset) -> Answer:
    """Return a definition in which each table has arguments of its own, by `oneOf`."""
    schema = definition["input_schema"]
    choices = []
    named = schema["properties"]["table"]["enum"]
    for table in (each for each in toolset.tables if each.name in named):
        properties = {**schema["properties"], "table": {"const": table.name}}
        columns = [each for each in table.columns.values() if each.creatable or each.updatable]
        record = {"type": "object", "properties": {c.name: c.values.schema for c in columns}}
        if "data" in properties:
            properties["data"] = record
        if "columns" in properties:
            properties["columns"] = {"type": "array", "items": {"enum": table.fields}}
        choices.append({"properties": properties, "required": schema["required"]})
    parameters = {"type": "object", "oneOf": choices, "$defs": schema.get("$defs", {})}
    return {**definition, "input_schema": parameters}


def _plan(engine: Engine, rows: int) -> None:
    """Plan so many meals, of a few recipes."""
    with Session(engine) as plain, plain.begin():
        user = plain.scalars(select(User.id)).first()
        recipes = plain.scalars(select(Recipe.id).order_by(Recipe.name).limit(_PLANNED)).all()
        plain.add_all(
            MealPlan(
                user_id=user, recipe_id=recipe, date=_DAY + dt.timedelta(n), meal_type="dinner"
            )
            for n, recipe in enumerate(islice(cycle(recipes), rows))
        )


def _tokens() -> Callable[[str], int] | None:
    """Return what counts tokens, if it is installed."""
    if find_spec("bpe_openai") is None:
        return None
    from bpe_openai import get_encoding  # noqa: PLC0415  # of the extra `bench`

    encode = get_encoding("o200k_base").encode_ordinary
    return lambda text: len(encode(text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.json_size", description=__doc__)
    parser.add_argument("--rows", type=int, default=100, help="of each table")
    parser.add_argument("--write", type=Path, default=report.RESULTS / "json-size.md")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
