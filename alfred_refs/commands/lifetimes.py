"""Commands that make and end conversations: copies, exports, and what is forgotten."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from .connecting import on_registry
from .parameters import conversation_argument, older_than, opened
from .printing import Printer, document_of, inert

if TYPE_CHECKING:
    from alfred_refs.registry import RefRegistry
    from alfred_refs.store import ConversationInfo

_OWNER_ONLY = 0o600  # an export has keys


@click.command()
@conversation_argument
@click.option("-o", "--output", metavar="FILE", default="-", help="Default: standard output.")
@on_registry
def export(registry: RefRegistry, printer: Printer, conversation: str, output: str) -> None:
    """Write a conversation as JSON, with its keys.

    `import` reads it. A new FILE can be read by its owner alone; with --json, what it has is told.
    """
    info = registry.describe(conversation)
    data = opened(registry, info).export()
    if output == "-":
        _write(sys.stdout, data)
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(output, flags, _OWNER_ONLY), "w", encoding="ascii") as file:
            _write(file, data)
    except OSError as error:
        raise click.FileError(output, error.strerror) from error
    _tell(printer, "exported", info)


@click.command("import")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--as", "new_id", metavar="ID", help="Another id than the one in FILE.")
@on_registry
def import_(registry: RefRegistry, printer: Printer, file: BinaryIO, new_id: str | None) -> None:
    """Make a conversation of what `export` wrote.

    FILE is - for standard input. The conversation has the owner that it had.
    """
    made = registry.import_conversation(_read(file), id=new_id)
    _tell(printer, "imported", registry.describe(made.id))


@click.command()
@conversation_argument
@click.argument("new_id", metavar="NEW_ID")
@on_registry
def fork(registry: RefRegistry, printer: Printer, conversation: str, new_id: str) -> None:
    """Make a branch of a conversation.

    It has the same owner and refs, and goes on with numbers of its own.
    """
    made = opened(registry, registry.describe(conversation)).fork(new_id)
    _tell(printer, "made", registry.describe(made.id))


@click.command()
@conversation_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@on_registry
def forget(registry: RefRegistry, printer: Printer, conversation: str, *, yes: bool) -> None:
    """Remove a conversation and its refs, for good.

    If it is begun again, its numbers go on: none is given to another row.
    """
    info = registry.describe(conversation)
    if not yes:
        click.confirm(inert(f"Forget {_named(info)}?"), abort=True, err=True)
    opened(registry, info).forget()
    _tell(printer, "forgot", info)


@click.command()
@older_than(required=True)
@click.option("--dry-run", is_flag=True, help="Count them, and forget none.")
@on_registry
def prune(
    registry: RefRegistry, printer: Printer, older_than: timedelta, *, dry_run: bool
) -> None:
    """Forget the conversations that are not used.

    It works in short transactions, beside the application, and may be stopped and run again.
    """
    with printer.progress("conversations") as advance:
        if dry_run:
            number = sum(1 for _ in registry.conversations(unused_for=older_than))
        else:
            number = registry.prune(older_than, progress=advance)
    document = {"conversations": number, "dry_run": dry_run}
    verb = "would forget" if dry_run else "forgot"
    printer.say(document, f"{verb} {_counted(number, 'conversation')}")


def _tell(printer: Printer, verb: str, info: ConversationInfo) -> None:
    printer.say(document_of(info), f"{verb} {_named(info)}")


def _named(info: ConversationInfo) -> str:
    whose = "without owner" if info.owner is None else f"of owner {info.owner!r}"
    return f"{info.id!r} {whose}, with {_counted(sum(info.refs.values()), 'ref')}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _write(file: TextIO, data: Mapping[str, Any]) -> None:
    file.writelines(JSONEncoder().iterencode(data))
    file.write("\n")


def _read(file: BinaryIO) -> Any:
    """Return what a file has as JSON.

    Raises:
        ExportFormatError: it is none; the message does not repeat it.
    """
    from alfred_refs.errors import ExportFormatError

    try:
        return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise ExportFormatError(
            "the file is not JSON", "give what `alfred-refs export` wrote, unchanged"
        ) from error
