"""What commands print: aligned for programs, folded on a terminal, inert on both."""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from rich.text import Text

from alfred_refs.cli.console import Printer, Row, escape

TABLE = {"name": "name", "what": "what it is"}


class Terminal(io.StringIO):
    """What a terminal is to a program."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Say so."""
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal of forty columns in place of standard output."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    return terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("recipe_1", "recipe_1"),
        ("Käse 乳酪", "Käse 乳酪"),
        ("a\tb\nc\r\0", r"a\tb\nc\r\x00"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m\x7f\u200f\u2028\ue000", r"\x9b31m\x7f\u200f\u2028\ue000"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters of all languages stay."""
    a_terminal(monkeypatch)

    assert escape(text) == shown


def test_characters_outside_the_encoding_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII terminal causes no error."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert escape("Käse") == r"K\xe4se"


def test_columns_are_aligned_without_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    """By display width, not by number of characters; nothing is truncated."""
    rows: list[Row] = [{"name": "乳酪", "what": None}, {"name": "soup", "what": "x" * 300}]

    Printer(as_json=False).print_rows({"owner": None, "used_at": "now"}, "rows", rows, TABLE)

    assert capsys.readouterr().out.splitlines() == [
        "owner    -",
        "used at  now",
        "",
        "name  what it is",
        "乳酪  -",
        "soup  " + "x" * 300,
    ]


def test_wide_cells_are_folded_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No character is lost, and markup of rich is plain text."""
    terminal = a_terminal(monkeypatch)
    rows: list[Row] = [{"name": "[red]soup", "what": "x" * 50}]

    Printer(as_json=False).print_rows({}, "rows", rows, TABLE)

    assert [line.rstrip() for line in Text.from_ansi(terminal.getvalue()).plain.splitlines()] == [
        "name       what it is",
        "[red]soup  " + "x" * 29,
        " " * 11 + "x" * 21,
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_rows_are_printed_while_they_are_read(
    as_json: bool,  # as pytest calls it
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A million rows are never in memory at once."""
    waiting = 0

    def rows() -> Iterator[Row]:
        nonlocal waiting
        for number in range(2_000):
            waiting += 1
            waiting -= len(capsys.readouterr().out.splitlines())
            assert waiting < 600
            yield {"name": f"soup {number}", "what": ""}

    Printer(as_json=as_json).print_rows({}, "rows", rows(), TABLE)


def test_json_is_one_document_of_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    """It parses to the original values; timestamps are in UTC."""
    moment = datetime(2026, 11, 22, 12, tzinfo=timezone(timedelta(hours=2)))
    hostile = "".join(map(chr, [*range(0x20), 0x7F, 0x9B, 0x202E, 0xD800]))

    Printer(as_json=True).print_rows({"at": moment}, "rows", [{"a": hostile}, {"a": 1}], TABLE)

    said = capsys.readouterr().out
    assert said.replace("\n", "").isascii()
    assert said.replace("\n", "").isprintable()
    assert json.loads(said) == {
        "at": datetime(2026, 11, 22, 10, tzinfo=UTC).isoformat(),
        "rows": [{"a": hostile}, {"a": 1}],
    }


@pytest.mark.parametrize(
    ("key", "plain", "exact"),
    [
        (uuid.UUID(int=7), f"{uuid.UUID(int=7)}", f"uuid:{uuid.UUID(int=7)}"),
        (2**63, "9223372036854775808", "int:9223372036854775808"),
        ("a, b", "a, b", "str:a, b"),
        ((1, ("x", 2)), "(1, (x, 2))", ["int:1", ["str:x", "int:2"]]),
    ],
)
def test_a_key_is_plain_for_people_and_exact_for_programs(
    key: object, plain: str, exact: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """No number is rounded, and text is distinguished from numbers."""
    for as_json in (False, True):
        printer = Printer(as_json=as_json)
        printer.print_column("keys", [{"key": printer.format_key(key)}], "key")  # type: ignore[arg-type]

    first, _, second = capsys.readouterr().out.partition("\n")
    assert (first, json.loads(second)) == (plain, {"keys": [{"key": exact}]})


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, as a count."""
    with Printer(as_json=False).progress("conversations") as advance:
        advance(1_000)
    assert capsys.readouterr() == ("", "")

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Printer(as_json=False).progress("conversations") as advance:
        advance(1_000)
        advance(500)
    assert "1500 conversations" in terminal.getvalue()
