"""Commands that make and end conversations: copies, exports, and what is forgotten."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from json import JSONDecodeError, JSONEncoder
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar

import click

from .parameters import (
    conversation_argument,
    conversation_or_owner,
    of_owner,
    older_than,
    on_registry,
    opened,
    without_passwords,
)
from .printing import Printer, document_of, inert

if TYPE_CHECKING:
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.store import ConversationInfo

_T = TypeVar("_T")

_OWNER_ONLY = 0o600  # an export has keys


@click.command()
@conversation_or_owner
@of_owner("All of this owner's, or CONVERSATION only if it is.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Default: standard output.")
@on_registry
def export(
    registry: RefRegistry,
    printer: Printer,
    conversation: str | None,
    owner: str | None,
    output: str,
) -> None:
    """Write a conversation as JSON with its keys, or all of an owner's, one a line.

    `import` reads both. A new FILE can be read by its owner alone; with --json, what it has is
    told.
    """
    infos = _select(registry, conversation, owner)
    exports = _each(infos, partial(_export, registry))
    exports = chain(list(islice(exports, 1)), exports)  # before a file is made: it may fail
    if output == "-":
        for _, data in exports:
            _write(sys.stdout, data)
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(output, flags, _OWNER_ONLY), "w", encoding="ascii") as file:
            written = []
            for info, data in exports:
                _write(file, data)
                written.append(info)
    except OSError as error:
        raise click.FileError(output, error.strerror) from error
    _tell_all(printer, "exported", written, together=conversation is None)


@click.command("import")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--as", "new_id", metavar="ID", help="Another id than the one in FILE.")
@on_registry
def import_(registry: RefRegistry, printer: Printer, file: BinaryIO, new_id: str | None) -> None:
    """Make the conversations that `export` wrote.

    FILE is - for standard input. Each has the owner that it had. All are checked before the first
    is made; one that cannot be made then ends the command, and those before it stay.
    """
    from alfred_refs.conversation.imports import from_json

    documents = _read(file)
    if new_id is not None and len(documents) > 1:
        raise click.UsageError("--as is for one conversation, and FILE has several.")
    for each in documents if len(documents) > 1 else ():  # one is checked as it is made
        from_json(each)
    made = (registry.import_conversation(each, id=new_id) for each in documents)
    infos = (registry.describe(each.id) for each in made)
    _tell_all(printer, "imported", infos, together=True)


@click.command()
@conversation_argument
@click.argument("new_id", metavar="NEW_ID")
@on_registry
def fork(registry: RefRegistry, printer: Printer, conversation: str, new_id: str) -> None:
    """Make a branch of a conversation.

    It has the same owner and refs, and goes on with numbers of its own.
    """
    made = opened(registry, registry.describe(conversation)).fork(new_id)
    _tell_all(printer, "made", [registry.describe(made.id)], together=False)


@click.command()
@conversation_or_owner
@of_owner("All of this owner's, or CONVERSATION only if it is.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@on_registry
def forget(
    registry: RefRegistry,
    printer: Printer,
    conversation: str | None,
    owner: str | None,
    *,
    yes: bool,
) -> None:
    """Remove a conversation and its refs, for good; or all of an owner's.

    If one is begun again, its numbers go on: none is given to another row.
    """
    infos = _select(registry, conversation, owner)
    if not yes:
        click.confirm(inert(f"Forget {_summary(*infos)}?"), abort=True, err=True)
    forgotten = _each(infos, partial(_forget, registry))
    _tell_all(printer, "forgot", forgotten, together=conversation is None)


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
            number = registry.count_conversations(unused_for=older_than)
        else:
            number = registry.prune(older_than, progress=advance)
    document = {"conversations": number, "dry_run": dry_run}
    verb = "would forget" if dry_run else "forgot"
    printer.say(document, f"{verb} {_plural(number, 'conversation')}")


def _select(
    registry: RefRegistry, conversation: str | None, owner: str | None
) -> list[ConversationInfo]:
    """Return a conversation, which must be the owner's if one is given, or all of an owner's."""
    from alfred_refs.errors import SetupError, UnknownConversationError

    if conversation is not None:
        info = registry.describe(conversation)
        if owner not in (None, info.owner):
            raise UnknownConversationError(conversation)
        return [info]
    if owner is None:
        raise click.UsageError("Give a CONVERSATION, or by --owner whose.")
    infos = list(registry.conversations(owner=owner))
    if not infos:
        raise SetupError(
            f"owner {without_passwords(repr(owner))} has no conversations",
            "look for the owner in what `alfred-refs list` prints",
        )
    return infos


def _export(
    registry: RefRegistry, info: ConversationInfo
) -> tuple[ConversationInfo, Mapping[str, Any]]:
    """Return an export, and what to print of it: as many refs as are in it."""
    data = opened(registry, info).export()
    refs = Counter(each["ref"].rpartition("_")[0] for each in data["refs"])
    return replace(info, turn=data["turn"], refs=dict(refs)), data


def _forget(registry: RefRegistry, info: ConversationInfo) -> ConversationInfo:
    """Forget a conversation, and return what it was by then: to be asked takes time."""
    last = registry.describe(info.id)
    opened(registry, info).forget()
    return last


def _each(
    infos: Sequence[ConversationInfo], work: Callable[[ConversationInfo], _T]
) -> Iterator[_T]:
    """Do work on conversations one by one; of several, one that is gone by then is left out."""
    from alfred_refs.errors import UnknownConversationError

    for info in infos:
        try:
            done = work(info)
        except UnknownConversationError:
            if len(infos) == 1:
                raise
        else:
            yield done


def _tell_all(
    printer: Printer, verb: str, infos: Iterable[ConversationInfo], *, together: bool
) -> None:
    """Tell of each conversation as it is done; in JSON of one, or `together` in a list."""
    if together and printer.as_json:
        printer.print({}, "conversations", map(document_of, infos), {})
    else:
        for info in infos:
            printer.say(document_of(info), f"{verb} {_summary(info)}")


def _summary(*infos: ConversationInfo) -> str:
    """Return what is said of one conversation, or of several of one owner."""
    owner = infos[0].owner
    whose = "without owner" if owner is None else f"of owner {owner!r}"
    what = repr(infos[0].id) if len(infos) == 1 else _plural(len(infos), "conversation")
    refs = sum(sum(info.refs.values()) for info in infos)
    return f"{what} {whose}, with {_plural(refs, 'ref')}"


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _write(file: TextIO, data: Mapping[str, Any]) -> None:
    file.writelines(JSONEncoder().iterencode(data))
    file.write("\n")


def _read(file: BinaryIO) -> list[Any]:
    """Return what a file has as JSON: one document, or one a line; errors do not repeat it."""
    from alfred_refs.errors import ExportFormatError

    data = file.read()
    try:
        try:
            return [json.loads(data)]
        except JSONDecodeError:
            if found := [json.loads(line) for line in data.splitlines() if line.strip()]:
                return found
            raise
    except (ValueError, RecursionError) as error:
        raise ExportFormatError(
            "the file is not JSON", "give what `alfred-refs export` wrote, unchanged"
        ) from error
