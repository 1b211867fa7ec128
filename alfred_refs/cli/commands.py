"""What the `alfred-refs` command can do: migrate the registry's tables, and look after them.

For operators, whom the database lets in: an owner is shown, and not asked for. Keys come out only
of the commands that are there for that. What goes to a terminal is inert, whatever ids and labels
hold.

What a command needs beside click is imported when it runs: `--help` is to be there at once.
"""

from __future__ import annotations

from typing import Any

import click

from .lifetimes import export, forget, fork, import_, prune
from .parameters import at_url, without_passwords
from .printing import Printer
from .reading import list_, resolve, show, stats

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


for _command in (list_, show, resolve, stats, export, import_, fork, forget, prune):
    alfred_refs.add_command(_command)
