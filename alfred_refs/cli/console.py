r"""Shared by the commands: their options, errors on one line, and output as tables or JSON.

A command is decorated with `on_registry` or `at_url`. It is then called with the registry or the
URL, and with a `Printer`, which prints one document: JSON for programs with `--json`, otherwise
text for people.

    @click.command()
    @on_registry
    def count(registry: RefRegistry, printer: Printer) -> None:
        number = registry.count_conversations()
        printer.print_result({"conversations": number}, f"{number} conversations")

Text from ids, labels and owners is untrusted. Control characters are printed as escapes, so that
they cannot act on a terminal:

>>> print(escape("chat\x1b[2J"))
chat\x1b[2J
>>> Printer(as_json=True).print_result({"id": "chat\x1b[2J"}, "")
{"id": "chat\u001b[2J"}

Errors are one line on standard error: the first line of the driver's message, because the others
quote the statement or a row. URLs are cut, as they may have passwords:

>>> print(without_passwords("no such command 'postgresql://ann:secret@host/shop'"))
no such command 'postgresql://…'

Rows are printed as they are read, in parts of 500, so that tables and JSON of any length need
little memory. In a part the columns are aligned; a later part may be wider.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from rich.cells import cell_len  # `rich.console` takes long to import

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from alfred_refs.conversation import Conversation, RefRegistry
    from alfred_refs.mapping import Key
    from alfred_refs.store import ConversationInfo

URL_VARIABLE = "ALFRED_REFS_DATABASE_URL"
"""The environment variable with the default of `--url`."""

_AGE = re.compile(r"([0-9]{1,6})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_MAX_AGE = timedelta(days=36_500)  # timestamps of PostgreSQL have a lower limit

# a URL up to its last @, because a password may contain an unencoded @; a password parameter
_PASSWORD = re.compile(r"([\w+.-]+://).*@[^\s')?]*|(password=)[^\s&')]+", re.DOTALL)

_ROWS_PER_PART = 500
_MAX_MIN_WIDTH = 24  # up to this width, a column is as wide in all parts on a terminal

Row = Mapping[str, Any]
"""The values of a row, by their names in JSON."""

_CommandT = TypeVar("_CommandT", bound=Callable[..., Any])


# Options


url_option = click.option(
    "--url", envvar=URL_VARIABLE, metavar="URL", help=f"Database. Default: ${URL_VARIABLE}."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def at_url(command: Callable[..., object]) -> Callable[..., None]:
    """Decorate a command that gets the URL, from an argument or `--url`, and a printer."""

    @click.argument("argument", metavar="[URL]", required=False)
    @url_option
    @_json
    @functools.wraps(command)
    def run(argument: str | None, url: str | None, *, as_json: bool) -> None:
        source = click.get_current_context().get_parameter_source("url")
        if argument is not None and source is ParameterSource.COMMANDLINE:
            raise click.UsageError("The URL is given twice.")
        with errors_on_one_line(as_json=as_json):
            command(require_url(argument or url), Printer(as_json=as_json))

    return run


def on_registry(command: Callable[..., object]) -> Callable[..., None]:
    """Decorate a command that gets the registry at `--url`, a printer, and its own parameters."""

    @url_option
    @_json
    @functools.wraps(command)
    def run(url: str | None, *, as_json: bool, **parameters: Any) -> None:
        with errors_on_one_line(as_json=as_json), _registry_at(require_url(url)) as registry:
            command(registry, Printer(as_json=as_json), **parameters)

    return run


def require_url(url: str | None) -> str:
    """Return the URL of `--url` or of the environment; it is a usage error to have none."""
    if not url:
        raise click.UsageError(f"Pass the database's URL by --url, or set {URL_VARIABLE}.")
    return url


@contextmanager
def _registry_at(url: str) -> Iterator[RefRegistry]:
    """Open the registry in a database; raise at once if its tables have another version."""
    from alfred_refs.conversation import RefRegistry
    from alfred_refs.store import schema
    from alfred_refs.store.postgres import PostgresStore

    engine = schema.engine_for(url, pool_size=1)
    store = PostgresStore(engine)
    try:
        store.check_tables()
        yield RefRegistry(store=store)
    finally:
        engine.dispose()


conversation_argument = click.argument("conversation", metavar="CONVERSATION")

optional_conversation = click.argument("conversation", metavar="[CONVERSATION]", required=False)


def owner_option(help_: str) -> Callable[[_CommandT], _CommandT]:
    """Return the option `--owner`."""
    return click.option("--owner", metavar="OWNER", help=help_)


def older_than_option(*, required: bool) -> Callable[[_CommandT], _CommandT]:
    """Return the option `--older-than`, which selects conversations by their last use."""
    return click.option(
        "--older-than",
        metavar="AGE",
        required=required,
        callback=_parse_age,
        help="Conversations unused for this time: hours, days or weeks, as 12h, 90d or 2w.",
    )


def _parse_age(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    age = int(match[1]) * _UNITS[match[2]] if match else timedelta()
    if not timedelta() < age <= _MAX_AGE:
        raise click.BadParameter(f"{text!r} is not an age; write 12h, 90d or 2w, up to 36500d.")
    return age


def parse_limit(_: click.Context, __: click.Parameter, text: str) -> int | None:
    """Parse `--limit`; None means no limit."""
    if text == "all":
        return None
    if re.fullmatch("[0-9]{1,9}", text) is None or int(text) == 0:
        raise click.BadParameter(f"{text!r} is not a limit; write a number from 1, or all.")
    return int(text)


def open_conversation(registry: RefRegistry, info: ConversationInfo) -> Conversation:
    """Open a conversation with its own owner: operators may open all."""
    return registry.conversation(info.id, owner=info.owner)


# Errors


class Failure(click.ClickException):
    """A command failed: exit code 1, and one line on standard error."""

    def __init__(self, code: str, message: str, *, as_json: bool) -> None:
        super().__init__(escape(message))
        self._document = {"error": {"code": code, "message": message}} if as_json else None

    def show(self, file: Any = None) -> None:
        """Write the line."""
        if self._document is None:
            super().show(file)
        else:
            click.echo(_json_line(self._document), err=True)


@contextmanager
def errors_on_one_line(*, as_json: bool) -> Iterator[None]:
    """Turn errors of this package and of the database into a `Failure`."""
    from sqlalchemy.exc import DBAPIError

    from alfred_refs.errors import RefError, RegistryUnreachableError, SetupError

    try:
        yield
    except (RefError, DBAPIError) as error:
        if isinstance(error, RegistryUnreachableError):
            message = f"{error} ({_first_line(error.__cause__)})"
        elif isinstance(error, DBAPIError):
            message = _first_line(error)
        elif isinstance(error, SetupError):  # contains no password, and may name an unusable URL
            message = str(error)
        else:
            message = without_passwords(str(error))
        raise Failure(type(error).__name__, message, as_json=as_json) from error


def _first_line(error: BaseException | None) -> str:
    """Return the driver's message without the lines that quote the statement or a row."""
    return str(getattr(error, "orig", error)).partition("\n")[0]


def without_passwords(text: str) -> str:
    """Remove passwords, and everything in a URL after its scheme."""
    return _PASSWORD.sub(r"\1\2…", text)


# Output


def escape(text: str) -> str:
    """Escape control characters, and those that standard output cannot encode."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    encoding = sys.stdout.encoding or "ascii"
    return "".join(escaped).encode(encoding, "backslashreplace").decode(encoding)


def document_of(value: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a dataclass by name; `asdict` would copy their values."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


class Printer:
    """Prints one document on standard output, as JSON or as text for people.

    Attributes:
        as_json: whether `--json` was passed.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def print_result(self, document: Row, sentence: str) -> None:
        """Print a document, or a sentence for people."""
        sys.stdout.write((_json_line(document) if self.as_json else escape(sentence)) + "\n")

    def print_facts(self, document: Row, facts: Row) -> None:
        """Print a document, or facts for people, one per line."""
        if self.as_json:
            self.print_result(document, "")
        else:
            _write_facts(facts)

    def print_rows(
        self, head: Row, name: str, rows: Iterable[Row], columns: Mapping[str, str]
    ) -> None:
        """Print facts and a table, row by row as they are read.

        Args:
            head: the facts.
            name: the name of the list of rows in JSON.
            rows: the rows, with all values for JSON.
            columns: the names of the values in the table -> the titles of its columns.
        """
        if self.as_json:
            self._print_json(head, name, rows)
        else:
            if head:
                _write_facts(head)
                sys.stdout.write("\n")
            _write_table(rows, columns)

    def print_column(self, name: str, rows: Iterable[Row], column: str) -> None:
        """Print rows as JSON, or as text with one value per line, without wrapping."""
        if self.as_json:
            self._print_json({}, name, rows)
        else:
            sys.stdout.writelines(_format(row[column]) + "\n" for row in rows)

    def print_note(self, sentence: str) -> None:
        """Print a sentence below a table, for people only."""
        if not self.as_json:
            sys.stdout.write(f"\n{escape(sentence)}\n")

    def format_key(self, key: Key) -> Any:
        """Return a key as exports write it in JSON, or as plain text for people."""
        if self.as_json:
            from alfred_refs.conversation.export import key_to_json

            return key_to_json(key)
        return tuple(map(self.format_key, key)) if isinstance(key, tuple) else str(key)

    @contextmanager
    def progress(self, unit: str) -> Iterator[Callable[[int], object]]:
        """Show a count on standard error, if that is a terminal; yield a function that adds."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        text = TextColumn("{task.completed:.0f} {task.description}")
        columns = (SpinnerColumn(), text, TimeElapsedColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task(unit, total=None)
            yield lambda number: progress.advance(task, number)

    def _print_json(self, head: Row, name: str, rows: Iterable[Row]) -> None:
        lines = map(_json_line, rows)
        # read the first row before anything is printed: the query may fail
        first = list(itertools.islice(lines, 1))
        sys.stdout.write(_json_line({**head, name: []}).removesuffix("]}"))
        sys.stdout.writelines("\n" + line for line in first)
        sys.stdout.writelines(",\n" + line for line in lines)
        sys.stdout.write("]}\n")


def _json_line(document: Row) -> str:
    """Return a document as one line of ASCII."""
    return json.dumps(document, default=_to_json)


def _to_json(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _write_table(rows: Iterable[Row], columns: Mapping[str, str]) -> None:
    lines = ([_format(row[name]) for name in columns] for row in rows)
    titles: list[str] | None = list(columns.values())
    widths = [cell_len(title) for title in columns.values()]
    while (part := list(itertools.islice(lines, _ROWS_PER_PART))) or titles:
        for line in part:
            widths = [max(pair) for pair in zip(widths, map(cell_len, line), strict=True)]
        _write_lines(part, widths, titles)
        titles = None


def _write_facts(facts: Row) -> None:
    lines = [[escape(name.replace("_", " ")), _format(value)] for name, value in facts.items()]
    _write_lines(lines, [max(cell_len(name) for name, _ in lines), 0])


def _write_lines(
    lines: Iterable[Sequence[str]], widths: Sequence[int], titles: Sequence[str] | None = None
) -> None:
    """Write aligned lines; on a terminal, cells that are too wide are folded in their column."""
    if not sys.stdout.isatty():
        for line in lines if titles is None else itertools.chain([titles], lines):
            cells = zip(line, widths, strict=True)
            padded = [text + " " * (width - cell_len(text)) for text, width in cells]
            sys.stdout.write("  ".join(padded).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=titles is not None)
    for title, width in itertools.zip_longest(titles or (), widths):
        table.add_column(title or "", min_width=min(width, _MAX_MIN_WIDTH), overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))  # `Text`, because a str may have markup
    Console(highlight=False).print(table)


def _format(value: Any) -> str:
    if value is None or value == {}:
        return "-"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_format, value)) + ")"
    if isinstance(value, Mapping):
        return ", ".join(f"{escape(name)} {number}" for name, number in value.items())
    return escape(str(value))
