"""The `alfred-refs` command group, and its commands except `doctor`, `mcp` and `inspect`.

>>> from click.testing import CliRunner
>>> url = engine.url.render_as_string(hide_password=False)
>>> print(CliRunner().invoke(alfred_refs, ["show", "chat-7", "--url", url]).output)
id        chat-7
owner     -
turn      0
begun at  ...
used at   ...
refs      line 2, recipe 2
<BLANKLINE>
ref       label  row
line_1    -      -
line_2    -      -
recipe_1  Soup   -
recipe_2  Toast  -
<BLANKLINE>

| commands | are for |
| --- | --- |
| `migrate`, `current` | the registry's tables |
| `list`, `show`, `activity`, `history`, `resolve`, `stats` | reading conversations |
| `export`, `import`, `fork`, `forget`, `prune` | making and removing conversations |
| `audit` | finding keys in logs |
| `doctor` (`cli.doctor`) | findings on an application's toolset |
| `mcp`, `inspect` (`cli.serving`) | serving a toolset to models, and to people |

They are for operators, who may log in to the registry's database: conversations of all owners are
accessible. Keys are printed only by `show --keys`, `resolve` and `export`.

Commands import modules other than click when they run, so that `--help` is fast.
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

from alfred_refs.cli.console import (
    Printer,
    Row,
    at_url,
    conversation_argument,
    document_of,
    escape,
    older_than_option,
    on_registry,
    open_conversation,
    optional_conversation,
    owner_option,
    parse_limit,
    without_passwords,
)
from alfred_refs.cli.doctor import doctor
from alfred_refs.cli.serving import inspect, mcp

if TYPE_CHECKING:
    from alfred_refs.conversation import Draft, RefEntry, RefRegistry
    from alfred_refs.mapping import Ref
    from alfred_refs.store import CallEntry, ChangeEntry, ConversationInfo

_T = TypeVar("_T")

# name in JSON -> title of the column
_CONVERSATION_COLUMNS = {
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

_CALL_COLUMNS = {
    "number": "call",
    "turn": "turn",
    "tool": "tool",
    "by": "by",
    "state": "state",
    "decided_by": "decided by",
    "changes": "rows",
}

_OWNER_HELP = "All conversations of OWNER; with CONVERSATION, only if it is OWNER's."
_EXPORT_MODE = 0o600  # an export contains keys


class _Commands(click.Group):
    """A group that removes passwords from usage errors, as a URL may be in the wrong place."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            message = without_passwords(error.format_message())
            raise click.UsageError(message, error.ctx) from None


@click.group(
    cls=_Commands,
    epilog="""\b
Exit codes:
  0  success
  1  refused or failed: one line on standard error has the reason
  2  the command was misused
""",
)
@click.version_option(package_name="alfred-refs")
def alfred_refs() -> None:
    """Manage the registry of alfred_refs: its tables, and the conversations in them.

    Pass the database by --url after the command, such as postgresql://user:password@host/database,
    or by ALFRED_REFS_DATABASE_URL, which other users of the machine cannot read. With --json,
    standard output is one JSON document, and errors are JSON documents on standard error.
    """


alfred_refs.add_command(mcp)
alfred_refs.add_command(doctor)
alfred_refs.add_command(inspect)


# The registry's tables


@alfred_refs.command()
@at_url
def migrate(url: str, printer: Printer) -> None:
    """Create the tables, or upgrade them."""
    from alfred_refs.store import schema

    revision = schema.migrate(url)
    printer.print_result(
        {"revision": revision}, f"the registry's tables are at revision {revision}"
    )


@alfred_refs.command()
@at_url
def current(url: str, printer: Printer) -> None:
    """Print the revision of the tables, and what migrates them."""
    from alfred_refs.store import schema

    state = schema.current(url)
    if state is None:
        printer.print_result({"revision": None, "migrated_by": None}, "none")
        return
    migrated_by, sentence = "alfred-refs", state.revision
    if state.is_applications:
        migrated_by = "application"
        sentence = f"{state.revision}, by the application's own Alembic environment"
    printer.print_result({"revision": state.revision, "migrated_by": migrated_by}, sentence)


# Reading conversations


@alfred_refs.command("list")
@older_than_option(required=False)
@owner_option("Conversations of this owner.")
@click.option(
    "--limit",
    metavar="N",
    default="50",
    callback=parse_limit,
    help="Maximum number, or all. Default: 50.",
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

    All owners are included unless --owner is passed. If no ref was minted since, a conversation
    may have been used up to an hour later than printed. A line below the table has the number of
    conversations that were left out.
    """
    whose = ... if owner is None else owner
    total = registry.count_conversations(unused_for=older_than, owner=whose)
    infos = registry.conversations(unused_for=older_than, owner=whose, limit=limit)
    head = {"total": total} if printer.as_json else {}
    printer.print_rows(head, "conversations", map(document_of, infos), _CONVERSATION_COLUMNS)
    if limit is not None and limit < total:
        printer.print_note(f"{total - limit:,} more; --limit all lists all {total:,}")


@alfred_refs.command()
@conversation_argument
@click.option("--keys", is_flag=True, help="Include keys.")
@on_registry
def show(registry: RefRegistry, printer: Printer, conversation: str, *, keys: bool) -> None:
    """Show a conversation with its refs and drafts.

    Refs are shown with the labels of their rows, if known, and with deleted rows marked. Keys are
    included with --keys only. Drafts are shown with their state.
    """
    from alfred_refs.store import DraftState

    info = registry.describe(conversation)
    chat = open_conversation(registry, info)
    rows = chain(
        _ref_rows(chat.entries(keys=keys), printer, keys=keys),
        _draft_rows(chat.drafts(states=get_args(DraftState), keys=keys), printer, keys=keys),
    )
    columns = _REF_COLUMNS | ({"key": "key"} if keys else {})
    printer.print_rows(document_of(info), "entries", rows, columns)


def _ref_rows(entries: Iterator[RefEntry], printer: Printer, *, keys: bool) -> Iterator[Row]:
    for entry in entries:
        row = {n: getattr(entry, n) for n in ("ref", "entity", "number", "label", "gone")}
        if keys and entry.key is not None:
            row["key"] = printer.format_key(entry.key)
        yield row


def _draft_rows(drafts: Iterator[Draft], printer: Printer, *, keys: bool) -> Iterator[Row]:
    """Yield drafts as rows of the table of refs, without content, which may be long."""
    from alfred_refs.mapping import parse_ref

    for draft in drafts:
        if printer.as_json:
            state = {"gone": None, "draft": draft.state, "saved": draft.saved}
        else:
            state = {"gone": draft.state if draft.saved is None else f"saved as {draft.saved}"}
        key = None if draft.key is None else printer.format_key(draft.key)
        yield {
            "ref": draft.ref,
            "entity": draft.entity,
            "number": cast("Ref", parse_ref(draft.ref)).number,
            "label": draft.label,
            **state,
            **({"key": key} if keys else {}),
        }


@alfred_refs.command()
@conversation_argument
@click.option("--turns", default=10, show_default=True, help="Number of turns, the last ones.")
@on_registry
def activity(registry: RefRegistry, printer: Printer, conversation: str, turns: int) -> None:
    """Show what was done with a conversation's rows, as prompts show it.

    Retained rows are shown whenever they were used last. The columns that models have seen are
    included in JSON only.
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
    printer.print_rows({"turn": record.turn}, "activity", rows, _ACTIVITY_COLUMNS)


@alfred_refs.command()
@conversation_argument
@click.option("--turn", type=int, help="Calls of this turn only.")
@click.option("--ref", metavar="REF", help="Calls that changed this row only.")
@click.option("--limit", default=50, show_default=True, help="Number of calls, the last ones.")
@click.option("--values", is_flag=True, help="Include values before and after, in JSON.")
@on_registry
def history(
    registry: RefRegistry,
    printer: Printer,
    conversation: str,
    *,
    turn: int | None,
    ref: str | None,
    limit: int,
    values: bool,
) -> None:
    """Show the calls of a conversation that are kept, with the rows that they changed.

    Values are included in JSON, and with --values only: they may have keys, such as integers, that
    are not recognized here.
    """
    chat = open_conversation(registry, registry.describe(conversation))
    entries = chat.calls.select(turn=turn, ref=ref, limit=limit)
    changes: dict[int, list[ChangeEntry]] = {}
    for change in chat.calls.changes([entry.number for entry in entries]):
        changes.setdefault(change.call, []).append(change)
    rows = (
        _history_row(entry, changes.get(entry.number, []), printer, values=values)
        for entry in entries
    )
    printer.print_rows({}, "calls", map(chat.scrub, rows), _CALL_COLUMNS)


def _history_row(
    entry: CallEntry, changes: Iterable[ChangeEntry], printer: Printer, *, values: bool
) -> Row:
    row = {
        name: getattr(entry, name)
        for name in ("number", "turn", "tool", "state", "actor", "user", "decided_by", "reason")
    }
    if printer.as_json:
        names = ["table", "ref", "label", "action", *(["before", "after"] if values else [])]
        said = [{name: getattr(change, name) for name in names} for change in changes]
        return {**row, "asked_at": entry.asked_at.isoformat(), "changes": said}
    named = (f"{change.ref or change.table} {change.action}" for change in changes)
    return {**row, "by": entry.user or entry.actor, "changes": ", ".join(named)}


@alfred_refs.command()
@conversation_argument
@click.argument("refs", metavar="REF...", nargs=-1, required=True)
@on_registry
def resolve(
    registry: RefRegistry, printer: Printer, conversation: str, refs: Sequence[str]
) -> None:
    """Print the keys of refs, one per line, in the order of the refs.

    If a ref cannot be resolved, no key is printed. `show --keys` also prints the keys of deleted
    rows.
    """
    keys = open_conversation(registry, registry.describe(conversation)).resolve_all(refs)
    rows = [
        {"ref": ref, "key": printer.format_key(key)} for ref, key in zip(refs, keys, strict=True)
    ]
    printer.print_column("keys", rows, "key")


@alfred_refs.command()
@on_registry
def stats(registry: RefRegistry, printer: Printer) -> None:
    """Print the size of the registry.

    All refs are counted, which may take a while.
    """
    from rich.filesize import decimal

    document = document_of(registry.stats())
    on_disk = {"table_bytes": "tables", "index_bytes": "indexes"}
    facts = {on_disk.get(name, name): value for name, value in document.items()}
    sizes = {name: decimal(facts[name]) for name in on_disk.values() if facts[name] is not None}
    printer.print_facts(document, facts | sizes)


# Making and removing conversations


@alfred_refs.command()
@optional_conversation
@owner_option(_OWNER_HELP)
@click.option("-o", "--output", metavar="FILE", default="-", help="Default: standard output.")
@on_registry
def export(
    registry: RefRegistry,
    printer: Printer,
    conversation: str | None,
    owner: str | None,
    output: str,
) -> None:
    """Write a conversation, or all of an owner, as JSON with keys.

    Each conversation is one line; `import` reads them. A new FILE is readable by its owner only;
    with --json, a summary is printed.
    """
    infos = _select(registry, conversation, owner)
    exports = _each_existing(infos, partial(_export, registry))
    # export the first one before the file is created, because it may fail
    exports = chain(list(islice(exports, 1)), exports)
    if output == "-":
        for _, data in exports:
            _write_json_line(sys.stdout, data)
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(output, flags, _EXPORT_MODE), "w", encoding="ascii") as file:
            written = []
            for info, data in exports:
                _write_json_line(file, data)
                written.append(info)
    except OSError as error:
        raise click.FileError(output, error.strerror) from error
    _print_summaries(printer, "exported", written, as_list=conversation is None)


def _export(
    registry: RefRegistry, info: ConversationInfo
) -> tuple[ConversationInfo, Mapping[str, Any]]:
    """Return an export, and the info of the conversation as it is in the export."""
    data = open_conversation(registry, info).export()
    refs = Counter(each["ref"].rpartition("_")[0] for each in data["refs"])
    return replace(info, turn=data["turn"], refs=dict(refs)), data


def _write_json_line(file: TextIO, data: Mapping[str, Any]) -> None:
    file.writelines(JSONEncoder().iterencode(data))
    file.write("\n")


@alfred_refs.command("import")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--as", "new_id", metavar="ID", help="Import with this id, not the one in FILE.")
@on_registry
def import_(registry: RefRegistry, printer: Printer, file: BinaryIO, new_id: str | None) -> None:
    """Create the conversations that `export` wrote, with their owners.

    FILE is - for standard input. All are checked before the first is created. If one cannot be
    created then, the command stops, and those before it stay.
    """
    from alfred_refs.conversation.export import from_json

    documents = _read_export(file)
    if new_id is not None and len(documents) > 1:
        raise click.UsageError("--as is for one conversation, and FILE has several.")
    for each in documents if len(documents) > 1 else ():  # one is checked when it is created
        from_json(each)
    conversations = (registry.import_conversation(each, id=new_id) for each in documents)
    infos = (registry.describe(each.id) for each in conversations)
    _print_summaries(printer, "imported", infos, as_list=True)


def _read_export(file: BinaryIO) -> list[Any]:
    """Parse a file of one JSON document, or of one per line; errors do not quote it."""
    from alfred_refs.errors import ExportFormatError

    data = file.read()
    try:
        try:
            return [json.loads(data)]
        except JSONDecodeError:
            if documents := [json.loads(line) for line in data.splitlines() if line.strip()]:
                return documents
            raise
    except (ValueError, RecursionError) as error:
        raise ExportFormatError(
            "the file is not JSON", "pass the file that `alfred-refs export` wrote, unchanged"
        ) from error


@alfred_refs.command()
@conversation_argument
@click.argument("new_id", metavar="NEW_ID")
@on_registry
def fork(registry: RefRegistry, printer: Printer, conversation: str, new_id: str) -> None:
    """Create a branch of a conversation.

    It has the same owner and refs; refs minted later are independent.
    """
    branch = open_conversation(registry, registry.describe(conversation)).fork(new_id)
    _print_summaries(printer, "made", [registry.describe(branch.id)], as_list=False)


@alfred_refs.command()
@optional_conversation
@owner_option(_OWNER_HELP)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@on_registry
def forget(
    registry: RefRegistry,
    printer: Printer,
    conversation: str | None,
    owner: str | None,
    *,
    yes: bool,
) -> None:
    """Delete a conversation and its refs permanently, or all of an owner.

    If its id is used again, numbers continue: no ref is ever reused for another row.
    """
    infos = _select(registry, conversation, owner)
    if not yes:
        click.confirm(escape(f"Forget {_summary(*infos)}?"), abort=True, err=True)
    forgotten = _each_existing(infos, partial(_forget, registry))
    _print_summaries(printer, "forgot", forgotten, as_list=conversation is None)


def _forget(registry: RefRegistry, info: ConversationInfo) -> ConversationInfo:
    """Forget a conversation, and return its latest info, which may have changed meanwhile."""
    last = registry.describe(info.id)
    open_conversation(registry, info).forget()
    return last


@alfred_refs.command()
@older_than_option(required=True)
@click.option("--dry-run", is_flag=True, help="Count the conversations only.")
@on_registry
def prune(
    registry: RefRegistry, printer: Printer, older_than: timedelta, *, dry_run: bool
) -> None:
    """Delete the conversations that are not used any more.

    It uses short transactions and does not block the application. It may be interrupted and run
    again.
    """
    with printer.progress("conversations") as advance:
        if dry_run:
            number = registry.count_conversations(unused_for=older_than)
        else:
            number = registry.prune(older_than, progress=advance)
    document = {"conversations": number, "dry_run": dry_run}
    verb = "would forget" if dry_run else "forgot"
    printer.print_result(document, f"{verb} {_plural(number, 'conversation')}")


def _select(
    registry: RefRegistry, conversation: str | None, owner: str | None
) -> list[ConversationInfo]:
    """Return a conversation, if it belongs to the owner, or all conversations of an owner."""
    from alfred_refs.errors import SetupError, UnknownConversationError

    if conversation is not None:
        info = registry.describe(conversation)
        if owner not in (None, info.owner):
            raise UnknownConversationError(conversation)
        return [info]
    if owner is None:
        raise click.UsageError("Pass a CONVERSATION, or --owner.")
    infos = list(registry.conversations(owner=owner))
    if not infos:
        raise SetupError(
            f"owner {without_passwords(repr(owner))} has no conversations",
            "look for the owner in what `alfred-refs list` prints",
        )
    return infos


def _each_existing(
    infos: Sequence[ConversationInfo], function: Callable[[ConversationInfo], _T]
) -> Iterator[_T]:
    """Call a function for each conversation; if there are several, skip deleted ones."""
    from alfred_refs.errors import UnknownConversationError

    for info in infos:
        try:
            result = function(info)
        except UnknownConversationError:
            if len(infos) == 1:
                raise
        else:
            yield result


def _print_summaries(
    printer: Printer, verb: str, infos: Iterable[ConversationInfo], *, as_list: bool
) -> None:
    """Print a line for each conversation when it is done; in JSON, a document or one list."""
    if as_list and printer.as_json:
        printer.print_rows({}, "conversations", map(document_of, infos), {})
    else:
        for info in infos:
            printer.print_result(document_of(info), f"{verb} {_summary(info)}")


def _summary(*infos: ConversationInfo) -> str:
    """Describe one conversation, or several of one owner."""
    owner = infos[0].owner
    whose = "without owner" if owner is None else f"of owner {owner!r}"
    what = repr(infos[0].id) if len(infos) == 1 else _plural(len(infos), "conversation")
    refs = sum(sum(info.refs.values()) for info in infos)
    return f"{what} {whose}, with {_plural(refs, 'ref')}"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# Logs


@alfred_refs.command(
    epilog="""\b
Exit codes:
  0  no key was found
  1  keys were found: one line for each on standard output
  2  a file cannot be read, or the command was misused
"""
)
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
def audit(files: Sequence[str]) -> None:
    """Find keys in FILES of text or JSON lines; - is standard input.

    UUIDs are found in any spelling, also if they are truncated or split by Markdown, and are
    printed masked.
    """
    from alfred_refs.context.auditing import audit_log

    count = 0
    for name in files:
        try:
            file = click.open_file(name, encoding="utf-8", errors="replace")
        except OSError as error:
            raise click.BadParameter(f"{name!r} cannot be read: {error.strerror}") from None
        with file:
            for line, key in audit_log(file):
                click.echo(f"{name}:{line}: {key.kind}: {key.masked}")
                count += 1
    if count:
        click.get_current_context().exit(1)
