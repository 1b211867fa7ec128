"""Output: tables and JSON (rich: loaded when used).

What commands print: tables for people, JSON for programs, a part at a time.

Values come in as they are, an iterator of rows of any length with them. In a table each character
that acts on a terminal is written as its escape; JSON is ASCII, and escapes them by itself.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from alfred_refs.mapping.keys import Key


_PART = 500  # rows that are laid out together
_ALIGNED = 24  # up to this width a column of a terminal is as wide in each part

Row = Mapping[str, Any]
"""The values of a row, by the names that they have in JSON."""


def inert(text: str) -> str:
    """Return text that does nothing but show, in the encoding of standard output."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    encoding = sys.stdout.encoding or "ascii"
    return "".join(escaped).encode(encoding, "backslashreplace").decode(encoding)


def document_of(value: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a value by their names; `asdict` would copy each moment."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


class Printer:
    """Prints one document on standard output, in JSON or for people."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @staticmethod
    def line(document: Row) -> str:
        """Return a document as one line of JSON."""
        return json.dumps(document, default=_json_of)

    def key(self, key: Key) -> Any:
        """Return what is printed of a key: as an export writes it, or plainly for people."""
        if self.as_json:
            from alfred_refs.conversation.export import key_to_json

            return key_to_json(key)
        return tuple(map(self.key, key)) if isinstance(key, tuple) else str(key)

    def say(self, document: Row, sentence: str) -> None:
        """Print what was done: the document, or the sentence for people."""
        sys.stdout.write((self.line(document) if self.as_json else inert(sentence)) + "\n")

    def tell(self, document: Row, facts: Row) -> None:
        """Print one document, or its facts for people."""
        if self.as_json:
            self.say(document, "")
        else:
            _print_facts(facts)

    def remark(self, sentence: str) -> None:
        """Print a sentence beneath a table; a document says the same in its own way."""
        if not self.as_json:
            sys.stdout.write(f"\n{inert(sentence)}\n")

    def lines(self, name: str, rows: Iterable[Row], column: str) -> None:
        """Print one value a line, whole, or the rows that have them."""
        if self.as_json:
            self._print_json({}, name, rows)
        else:
            sys.stdout.writelines(_text_of(row[column]) + "\n" for row in rows)

    @contextmanager
    def progress(self, of_what: str) -> Iterator[Callable[[int], object]]:
        """Show on a terminal how far something has come, by what is given to the function."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        done = TextColumn("{task.completed:.0f} {task.description}")
        columns = (SpinnerColumn(), done, TimeElapsedColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task(of_what, total=None)
            yield lambda number: progress.advance(task, number)

    def print(self, head: Row, name: str, rows: Iterable[Row], columns: Mapping[str, str]) -> None:
        """Print facts and rows, read as they are printed.

        Args:
            head: the facts.
            name: what the rows are called in JSON.
            rows: what is known of each.
            columns: what to show of a row in a table, and what its columns are called.
        """
        if self.as_json:
            self._print_json(head, name, rows)
        else:
            if head:
                _print_facts(head)
                sys.stdout.write("\n")
            _print_table(rows, columns)

    def _print_json(self, head: Row, name: str, rows: Iterable[Row]) -> None:
        lines = map(self.line, rows)
        first = list(itertools.islice(lines, 1))  # before anything is printed: it may fail
        sys.stdout.write(self.line({**head, name: []}).removesuffix("]}"))
        sys.stdout.writelines("\n" + line for line in first)
        sys.stdout.writelines(",\n" + line for line in lines)
        sys.stdout.write("]}\n")


def _print_table(rows: Iterable[Row], columns: Mapping[str, str]) -> None:
    """Print a table part by part, each at least as wide as those before."""
    lines = ([_text_of(row[name]) for name in columns] for row in rows)
    title: list[str] | None = list(columns.values())
    widths = [cell_len(text) for text in columns.values()]
    while (part := list(itertools.islice(lines, _PART))) or title:
        for line in part:
            widths = [max(pair) for pair in zip(widths, map(cell_len, line), strict=True)]
        _write(part, widths, title)
        title = None


def _print_facts(facts: Row) -> None:
    lines = [[inert(name.replace("_", " ")), _text_of(value)] for name, value in facts.items()]
    _write(lines, [max(cell_len(name) for name, _ in lines), 0])


def _write(
    lines: Iterable[Sequence[str]], widths: Sequence[int], title: Sequence[str] | None = None
) -> None:
    """Lay out lines in columns; on a terminal what is too wide is folded in its column."""
    if not sys.stdout.isatty():
        for line in lines if title is None else itertools.chain([title], lines):
            cells = zip(line, widths, strict=True)
            padded = [text + " " * (width - cell_len(text)) for text, width in cells]
            sys.stdout.write("  ".join(padded).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=title is not None)
    for text, width in itertools.zip_longest(title or (), widths):
        table.add_column(text or "", min_width=min(width, _ALIGNED), overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    Console(highlight=False).print(table)


def _text_of(value: Any) -> str:
    """Return what a table shows of a value."""
    if value is None or value == {}:
        return "-"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_text_of, value)) + ")"
    if isinstance(value, Mapping):
        return ", ".join(f"{inert(name)} {number}" for name, number in value.items())
    return inert(str(value))


def _json_of(value: Any) -> str:
    """Return a moment as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
