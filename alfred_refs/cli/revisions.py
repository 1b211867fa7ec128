"""The registry's tables: made, brought up to date, and told about."""

from __future__ import annotations

import click

from .connecting import at_url
from .printing import Printer


@click.command()
@at_url
def migrate(url: str, printer: Printer) -> None:
    """Create the tables, or bring them up to date."""
    from alfred_refs.store import migrate as schema

    revision = schema.migrate(url)
    printer.say({"revision": revision}, f"the registry's tables are at revision {revision}")


@click.command()
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
