"""What the `alfred-refs` command can do: migrate the registry's tables, and look after them.

For operators, whom the database lets in: an owner is shown, and not asked for. Keys come out only
of the commands that are there for that. What goes to a terminal is inert, whatever ids and labels
hold.

What a command needs beside click is imported when it runs: `--help` is to be there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from .audit import audit
from .lifetimes import export, forget, fork, import_, prune
from .mcp import mcp
from .parameters import (
    at_most,
    at_url,
    conversation_argument,
    of_owner,
    older_than,
    on_registry,
    opened,
    without_passwords,
)
from .printing import Printer, Row, document_of

if TYPE_CHECKING:
    from alfred_refs.conversation.entries import Draft, RefEntry
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.mapping.refs import Ref

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
    from alfred_refs.store import migrate as schema

    revision = schema.migrate(url)
    printer.say({"revision": revision}, f"the registry's tables are at revision {revision}")


@alfred_refs.command()
@at_url
def current(url: str, printer: Printer) -> None:
    """Print the revision that the tables are at, and who migrates them."""
    from alfred_refs.store import migrate as schema

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
    chat = opened(registry, info)
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
    from alfred_refs.mapping.refs import parse_ref

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
    record = opened(registry, registry.describe(conversation)).activity(turns)
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
    keys = opened(registry, registry.describe(conversation)).resolve_all(refs)
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
