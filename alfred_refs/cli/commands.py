"""Commands: migrate, show, export, prune, audit.

`alfred-refs audit`: look for keys in logs of what models were told.

Commands that make and end conversations: copies, exports, and what is forgotten.

What the `alfred-refs` command can do: migrate the registry's tables, and look after them.

For operators, whom the database lets in: an owner is shown, and not asked for. Keys come out only
of the commands that are there for that. What goes to a terminal is inert, whatever ids and labels
hold.

What a command needs beside click is imported when it runs: `--help` is to be there at once.
"""

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
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar, cast, get_args

import click

from alfred_refs.cli.mcp import mcp
from alfred_refs.cli.parameters import (
    at_most,
    at_url,
    conversation_argument,
    conversation_or_owner,
    of_owner,
    older_than,
    on_registry,
    open_conversation,
    without_passwords,
)
from alfred_refs.cli.printing import Printer, Row, document_of, inert

if TYPE_CHECKING:
    from alfred_refs.conversation.drafts import Draft
    from alfred_refs.conversation.refs import RefEntry
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.mapping.keys import Ref
    from alfred_refs.store import ConversationInfo


@click.command(
    epilog="""\b
Exit codes:
  0  no key was found
  1  there are keys: one line for each on standard output
  2  a file cannot be read, or the command was misused
"""
)
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
def audit(files: Sequence[str]) -> None:
    """Look for keys in FILES, text or JSON lines; - is standard input.

    Found are UUIDs in any spelling, such as are split by Markdown, and such as were cut. They are
    shown masked.
    """
    from alfred_refs.context.auditing import audit_log

    count = 0
    for name in files:
        try:
            file = click.open_file(name, encoding="utf-8", errors="replace")
        except OSError as error:
            raise click.BadParameter(f"{name!r} cannot be read: {error.strerror}") from None
        with file:
            for line, found in audit_log(file):
                click.echo(f"{name}:{line}: {found.kind}: {found.masked}")
                count += 1
    if count:
        click.get_current_context().exit(1)


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
    from alfred_refs.conversation.export import from_json

    documents = _read_export(file)
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
    made = open_conversation(registry, registry.describe(conversation)).fork(new_id)
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
    data = open_conversation(registry, info).export()
    refs = Counter(each["ref"].rpartition("_")[0] for each in data["refs"])
    return replace(info, turn=data["turn"], refs=dict(refs)), data


def _forget(registry: RefRegistry, info: ConversationInfo) -> ConversationInfo:
    """Forget a conversation, and return what it was by then: to be asked takes time."""
    last = registry.describe(info.id)
    open_conversation(registry, info).forget()
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


def _read_export(file: BinaryIO) -> list[Any]:
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


_COLUMNS = {
    "id": "conversation",
    "owner": "owner",
    "turn": "turn",
    "refs": "refs",
    "begun_at": "begun",
    "used_at": "used",
}
_REF_COLUMNS = {"ref": "ref", "label": "label", "gone": "row"}

_ACTIVITY_COLUMNS = {
    "ref": "ref",
    "label": "label",
    "action": "last action",
    "actor": "by",
    "turns": "turns",
    "reason": "retained",
}

_EXIT_CODES = """\b
Exit codes:
  0  it is done
  1  it was refused, or failed: one line on standard error says why
  2  the command was misused
"""


class _Commands(click.Group):
    """Commands whose misuse is told without passwords: a URL may be in the wrong place."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the words name."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            message = without_passwords(error.format_message())
            raise click.UsageError(message, error.ctx) from None


@click.group(cls=_Commands, epilog=_EXIT_CODES)
@click.version_option(package_name="alfred-refs")
def alfred_refs() -> None:
    """Look after alfred_refs' registry: its tables, and the conversations in them.

    The database is given by --url, such as postgresql://user:password@host/database, or by
    ALFRED_REFS_DATABASE_URL, which other users of the machine cannot read. With --json, standard
    output is one JSON document, and an error is one on standard error.
    """


@alfred_refs.command()
@at_url
def migrate(url: str, printer: Printer) -> None:
    """Create the tables, or bring them up to date."""
    from alfred_refs.store import schema

    revision = schema.migrate(url)
    printer.say({"revision": revision}, f"the registry's tables are at revision {revision}")


@alfred_refs.command()
@at_url
def current(url: str, printer: Printer) -> None:
    """Print the revision that the tables are at, and who migrates them."""
    from alfred_refs.store import schema

    found = schema.current(url)
    if found is None:
        printer.say({"revision": None, "migrated_by": None}, "none")
    elif found.is_applications:
        document = {"revision": found.revision, "migrated_by": "application"}
        printer.say(document, f"{found.revision}, by the application's own Alembic environment")
    else:
        printer.say({"revision": found.revision, "migrated_by": "alfred-refs"}, found.revision)


@alfred_refs.command("list")
@older_than(required=False)
@of_owner("Those of this owner.")
@click.option(
    "--limit",
    metavar="N",
    default="50",
    callback=at_most,
    help="At most so many, or all. Default: 50.",
)
@on_registry
def list_(
    registry: RefRegistry,
    printer: Printer,
    older_than: timedelta | None,
    owner: str | None,
    limit: int | None,
) -> None:
    """List conversations, the last used first.

    They have any owner, unless one is given. One in which nothing is new may have been used up to
    an hour later than it says. How many are left out is told beneath them.
    """
    whose = ... if owner is None else owner
    total = registry.count_conversations(unused_for=older_than, owner=whose)
    infos = registry.conversations(unused_for=older_than, owner=whose, limit=limit)
    head = {"total": total} if printer.as_json else {}
    printer.print(head, "conversations", map(document_of, infos), _COLUMNS)
    if limit is not None and limit < total:
        printer.remark(f"{total - limit:,} more; --limit all lists all {total:,}")


@alfred_refs.command()
@conversation_argument
@click.option("--keys", is_flag=True, help="With their keys.")
@on_registry
def show(registry: RefRegistry, printer: Printer, conversation: str, *, keys: bool) -> None:
    """Show a conversation with its refs and drafts.

    Of each ref it tells what people call its row, as far as that is known, and whether the row is
    gone; only with --keys its key. Of each draft, what has become of it.
    """
    from alfred_refs.store import DraftState

    info = registry.describe(conversation)
    chat = open_conversation(registry, info)
    rows = chain(
        _rows(chat.entries(keys=keys), printer, keys=keys),
        _draft_rows(chat.drafts(states=get_args(DraftState), keys=keys), printer, keys=keys),
    )
    columns = _REF_COLUMNS | ({"key": "key"} if keys else {})
    printer.print(document_of(info), "entries", rows, columns)


def _rows(entries: Iterator[RefEntry], printer: Printer, *, keys: bool) -> Iterator[Row]:
    for entry in entries:
        row = {n: getattr(entry, n) for n in ("ref", "entity", "number", "label", "gone")}
        if keys and entry.key is not None:
            row["key"] = printer.key(entry.key)
        yield row


def _draft_rows(drafts: Iterator[Draft], printer: Printer, *, keys: bool) -> Iterator[Row]:
    """Yield drafts as rows beside those of refs; what they hold may be long, and is not chat."""
    from alfred_refs.mapping.keys import parse_ref

    for draft in drafts:
        became = draft.state if draft.saved is None else f"saved as {draft.saved}"
        state = {"gone": None, "draft": draft.state, "saved": draft.saved}
        yield {
            "ref": draft.ref,
            "entity": draft.entity,
            "number": cast("Ref", parse_ref(draft.ref)).number,
            "label": draft.label,
            **(state if printer.as_json else {"gone": became}),
            **({"key": None if draft.key is None else printer.key(draft.key)} if keys else {}),
        }


@alfred_refs.command()
@conversation_argument
@click.option("--turns", default=10, show_default=True, help="Of so many turns, the last.")
@on_registry
def activity(registry: RefRegistry, printer: Printer, conversation: str, turns: int) -> None:
    """Show what was done with a conversation's rows, as prompts are told it.

    What is retained is shown whenever it was used last. What models saw of the rows is in JSON
    alone.
    """
    record = open_conversation(registry, registry.describe(conversation)).activity(turns)
    rows = (
        {
            **document_of(entry),
            "ref": str(entry.ref),
            **({} if printer.as_json else {"turns": f"{entry.first_turn}-{entry.last_turn}"}),
        }
        for entry in record.entries
    )
    printer.print({"turn": record.turn}, "activity", rows, _ACTIVITY_COLUMNS)


@alfred_refs.command()
@conversation_argument
@click.argument("refs", metavar="REF...", nargs=-1, required=True)
@on_registry
def resolve(
    registry: RefRegistry, printer: Printer, conversation: str, refs: Sequence[str]
) -> None:
    """Print the keys of refs, one a line.

    They come in the order of the refs. One that cannot be used refuses them all; `show --keys`
    has the keys of rows that are gone too.
    """
    keys = open_conversation(registry, registry.describe(conversation)).resolve_all(refs)
    rows = [{"ref": ref, "key": printer.key(key)} for ref, key in zip(refs, keys, strict=True)]
    printer.lines("keys", rows, "key")


@alfred_refs.command()
@on_registry
def stats(registry: RefRegistry, printer: Printer) -> None:
    """Tell how much is kept for all conversations.

    All refs are looked at, which may take a while.
    """
    from rich.filesize import decimal

    document = document_of(registry.stats())
    on_disk = {"table_bytes": "tables", "index_bytes": "indexes"}
    facts = {on_disk.get(name, name): value for name, value in document.items()}
    sizes = {name: decimal(facts[name]) for name in on_disk.values() if facts[name] is not None}
    printer.tell(document, facts | sizes)


for _command in (export, import_, fork, forget, prune, audit, mcp):
    alfred_refs.add_command(_command)
