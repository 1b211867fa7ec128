"""Show the demo on a console: two sides, field by field, and what the checks found.

In go turns and findings, out comes text, at most as wide as the console.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.kitchen.contrast import TOOLS, USER, Call, Contrast, answer
from examples.kitchen.person import Review
from examples.kitchen.transcript import Exchange, Turn

WIDTH: Final = 100  # where there is no terminal to ask
KEY_WIDTH: Final = 36  # a UUID
REF_WIDTH: Final = 19  # a long ref: recipe_ingredient_1
BORDERS: Final = 10  # three columns' lines and padding
LONGEST: Final = 300  # characters of a row: a recipe has more than a page


def wide_console() -> Console:
    """Return a console on standard output, wide enough for two sides in a pipe too."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def show_turn(console: Console, turn: Turn) -> None:
    """Print a turn: who worked and what for, what the user said, and each exchange."""
    show_heading(console, f"turn {turn.number}, process {turn.process}: {turn.point}")
    console.print(Text.assemble(("the user: ", "dim"), turn.user))
    for exchange in turn.exchanges:
        console.print()
        console.print(Text.assemble(("the model: ", "dim"), exchange.asked))
        console.print(_table(exchange, console.width))


def show_in_keys(console: Console, contrast: Contrast) -> None:
    """Print what becomes of the contrast's turn where the model is given keys."""
    show_heading(console, "without it: the model reads, writes and mistypes keys")
    console.print(Text.assemble(("the user: ", "dim"), USER))
    for call in contrast.calls[:2]:
        row = {name: call.answer["rows"][-1][name] for name in ("id", *_named_in(call))}
        in_keys = {name: contrast.keys.get(value, value) for name, value in row.items()}
        console.print(Text.assemble(("  row: ", "dim"), _json(in_keys)))
    wrong = Text.assemble(contrast.mistyped[:-1], (contrast.mistyped[-1], "bold red"))
    console.print(Text.assemble(("  UPDATE meal_plans … WHERE id = ", "dim"), wrong))
    lost = f"{_rows(contrast.moved)} changed, no error: the meal is still on {contrast.day}"
    console.print(Text(f"    {lost}", "yellow"))
    console.print(
        Text("  UPDATE preferences SET assumed_staples = …, one digit wrong again", "dim")
    )
    stored = f"{_rows(contrast.staples)} changed, no error: it names {contrast.named} ingredients"
    console.print(Text(f"    {stored}", "yellow"))
    show_size(console, "the same turn", contrast.size, contrast.size_with_keys, contrast.unit)


def show_in_refs(console: Console, contrast: Contrast) -> None:
    """Print what an application ships, and the contrast's turn with it."""
    definitions = TOOLS.schemas("anthropic")
    show_heading(console, "with it: what an application ships, and what the model calls")
    named = ", ".join(each["name"] for each in definitions)
    told = f"{named}, on {len([*TOOLS.tables])} tables; a call is answered by"
    console.print(Text.assemble((told, "dim")))
    console.print(Text(_body_of_answer(), "cyan"))
    for call in contrast.calls:
        show_call(console, call.tool, call.arguments, call.answer)


def show_turn_briefly(console: Console, turn: Turn) -> None:
    """Print a turn in two lines: what it shows, and what the user said."""
    title = f"turn {turn.number}, process {turn.process}: {turn.point}"
    console.print(Text(title), overflow="ellipsis", no_wrap=True)
    said = Text.assemble(("  the user: ", "dim"), turn.user)
    console.print(said, overflow="ellipsis", no_wrap=True)


def show_size(console: Console, what: str, size: int, with_keys: int, unit: str) -> None:
    """Print how much longer something is with keys than with refs."""
    more = f"{with_keys / size - 1:.0%} more"
    console.print(f"{what}: {with_keys:,} {unit} with keys, {size:,} with refs: {more} with keys")


def _named_in(call: Call) -> Sequence[str]:
    """Return the fields of a row that a call is about."""
    return [*call.arguments.get("columns", ()), *call.arguments.get("data", ())]


def _rows(number: int) -> str:
    return f"{number} row" + ("" if number == 1 else "s")


def _body_of_answer() -> str:
    """Return the lines of code that answer a call, as they are."""
    lines = inspect.getsource(answer).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("    with "))
    return inspect.cleandoc("\n".join(["", *lines[start:]]))


def show_heading(console: Console, heading: str) -> None:
    """Print a line across, with what comes below it."""
    console.print()
    console.rule(Text(heading, "bold"), align="left")


def show_review(console: Console, done: Review) -> None:
    """Print what a person was shown of the model's deletes, decided and undid."""
    show_heading(console, "a person in the loop: the model wants to delete three recipes")
    for asked, plan, decided in zip(done.asked, done.plans, done.decided, strict=True):
        would = asked.value["pending"]["would"]
        console.print(Text.assemble(("the model is told: ", "dim"), f"pending. {would}"))
        for line in plan.splitlines()[1:]:
            console.print(Text.assemble(("  the person sees: ", "dim"), line))
        error = decided.value.get("error")
        outcome = "approves" if error is None else f"rejects ({error['message'].split(';')[0]})"
        console.print(Text.assemble(("  the person: ", "dim"), (outcome, "yellow")))
    console.print(Text("what changed in that turn?", "dim"))
    for line in done.changes:
        console.print(f"  {line}")
    console.print(Text.assemble(("undo: ", "dim"), done.undone))
    console.print(Text.assemble(("the recipes there are: ", "dim"), ", ".join(done.left)))


def show_command(console: Console, arguments: Sequence[str], said: str) -> None:
    """Print a command of the operator's, and what it said."""
    console.print()
    console.print(Text.assemble(("$ ", "dim"), shlex.join(["alfred-refs", *arguments])))
    console.print(Text(said))


def show_call(
    console: Console, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """Print a call of a tool, and the answer or the error."""
    console.print()
    console.print(Text.assemble(("the model: ", "dim"), tool, " ", (_json(arguments), "green")))
    error = answer.get("error")
    if error is not None:
        console.print(Text.assemble(("  error: ", "dim"), (error["message"], "red")))
        return
    for row in answer.get("rows", ()):
        console.print(Text.assemble(("  row: ", "dim"), _short(_json(row))))
    for name in answer.keys() & {"deleted", "merged"}:
        console.print(Text.assemble((f"  {name}: ", "dim"), _json(answer[name])))
    for note in answer.get("notes", ()):
        console.print(Text.assemble(("  note: ", "dim"), (note, "yellow")))


def show_learnt(console: Console, learnt: str) -> None:
    """Print what a model has learnt from an error."""
    console.print(Text.assemble(("  so: ", "dim"), (learnt, "bold")))


def show_check(console: Console, checked: str, found: Sequence[str]) -> None:
    """Print a check and what it found, which is nothing if all is well."""
    result = Text("none found", "bold green") if not found else Text("FOUND", "bold red")
    console.print(Text.assemble(f"{checked}: ", result))
    for text in found:
        console.print(Text(f"  {text}", "red"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _table(exchange: Exchange, width: int) -> Table:
    fields = {field for record in exchange.model for field in record}
    room = width - BORDERS - max(map(len, fields), default=0)
    held = KEY_WIDTH if room >= REF_WIDTH + KEY_WIDTH else room // 2
    table = Table(box=box.ROUNDED)
    table.add_column(style="dim", no_wrap=True)
    table.add_column("the model sees", style="green", overflow="fold", width=room - held)
    table.add_column("the database holds", style="yellow", overflow="fold", width=held)
    for model, database in zip(exchange.model, exchange.database, strict=True):
        for field, seen in model.items():
            table.add_row(Text(field), Text(seen), Text(database[field]))
        table.add_section()
    return table
