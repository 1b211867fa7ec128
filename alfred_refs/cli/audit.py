"""`alfred-refs audit`: look for keys in logs of what models were told."""

from __future__ import annotations

from collections.abc import Sequence

import click


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
    from alfred_refs.context.auditing import audited

    count = 0
    for name in files:
        try:
            file = click.open_file(name, encoding="utf-8", errors="replace")
        except OSError as error:
            raise click.BadParameter(f"{name!r} cannot be read: {error.strerror}") from None
        with file:
            for line, found in audited(file):
                click.echo(f"{name}:{line}: {found.kind}: {found.masked}")
                count += 1
    if count:
        click.get_current_context().exit(1)
