"""What the `alfred-refs` command can do: migrate the registry's tables, and tell where they are.

Errors come out as one line on standard error, without a password and without data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.exc import DBAPIError

from . import schema
from .errors import RegistryUnreachableError, SetupError

_url = click.argument("url", envvar="ALFRED_REFS_DATABASE_URL")


@click.group()
@click.version_option(package_name="alfred-refs")
def alfred_refs() -> None:
    """Keep the tables of alfred_refs' registry up to date.

    URL is the database's, such as postgresql://user:password@host/database; if it is left out,
    ALFRED_REFS_DATABASE_URL is used.
    """


@alfred_refs.command()
@_url
def migrate(url: str) -> None:
    """Create the tables, or bring them up to date."""
    with _errors_on_one_line():
        click.echo(f"the registry's tables are at revision {schema.migrate(url)}")


@alfred_refs.command()
@_url
def current(url: str) -> None:
    """Print the revision that the tables are at."""
    with _errors_on_one_line():
        click.echo(schema.current(url) or "none")


@contextmanager
def _errors_on_one_line() -> Iterator[None]:
    try:
        yield
    except RegistryUnreachableError as error:
        raise click.ClickException(f"{error} ({_said(error.__cause__)})") from error
    except SetupError as error:
        raise click.ClickException(str(error)) from error
    except DBAPIError as error:
        raise click.ClickException(_said(error)) from error


def _said(error: BaseException | None) -> str:
    """Return what the driver said, less the lines that quote the statement or a row."""
    return str(getattr(error, "orig", error)).partition("\n")[0]
