"""Options of the commands, and the registry they open (imports neither rich nor SQLAlchemy).

What commands are given: a registry, a printer, conversations and ages.

An error becomes one line in its own words, less the lines of a driver that quote a statement or a
row; no password and no key is in it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from alfred_refs.cli.printing import Printer, inert

if TYPE_CHECKING:
    from alfred_refs.conversation.conversation import Conversation
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.store import ConversationInfo


VARIABLE = "ALFRED_REFS_DATABASE_URL"
"""The environment variable that stands in for a URL which is not given."""

_AGE = re.compile(r"([0-9]{1,6})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_OLDEST = timedelta(days=36_500)  # PostgreSQL's clock does not go back for ever

# A URL up to its last @, whatever a password has in it that is not encoded; and one that follows.
_PASSWORD = re.compile(r"([\w+.-]+://).*@[^\s')?]*|(password=)[^\s&')]+", re.DOTALL)

_C = TypeVar("_C", bound=Callable[..., Any])


class Failure(click.ClickException):
    """A command was refused or failed: exit code 1."""

    def __init__(self, code: str, message: str, *, as_json: bool) -> None:
        super().__init__(inert(message))
        self._document = {"error": {"code": code, "message": message}} if as_json else None

    def show(self, file: Any = None) -> None:
        """Write one line on standard error."""
        if self._document is None:
            super().show(file)
        else:
            click.echo(Printer.line(self._document), err=True)


def without_passwords(text: str) -> str:
    """Return what a command line was refused for, which may be a URL in the wrong place."""
    return _PASSWORD.sub(r"\1\2…", text)


_url = click.option("--url", envvar=VARIABLE, metavar="URL", help=f"Default: ${VARIABLE}.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def at_url(command: Callable[..., object]) -> Callable[..., None]:
    """Give a command the URL, as an argument or by `--url`, and a printer."""

    @click.argument("argument", metavar="[URL]", required=False)
    @_url
    @_json
    @functools.wraps(command)
    def run(argument: str | None, url: str | None, *, as_json: bool) -> None:
        source = click.get_current_context().get_parameter_source("url")
        if argument is not None and source is ParameterSource.COMMANDLINE:
            raise click.UsageError("The URL is given twice.")
        with errors_on_one_line(as_json=as_json):
            command(_require_url(argument or url), Printer(as_json=as_json))

    return run


def on_registry(command: Callable[..., object]) -> Callable[..., None]:
    """Give a command the registry at `--url`, and a printer, before its own parameters."""

    @_url
    @_json
    @functools.wraps(command)
    def run(url: str | None, *, as_json: bool, **parameters: Any) -> None:
        with errors_on_one_line(as_json=as_json), registry_at(_require_url(url)) as registry:
            command(registry, Printer(as_json=as_json), **parameters)

    return run


def _require_url(url: str | None) -> str:
    if not url:
        raise click.UsageError(f"Give the database's URL by --url, or set {VARIABLE}.")
    return url


@contextmanager
def registry_at(url: str) -> Iterator[RefRegistry]:
    """Open the registry in the database at `url` for as long as the `with` lasts.

    Tables of another version are told at once, whatever a command reads of them.
    """
    from alfred_refs.conversation.registry import RefRegistry
    from alfred_refs.store import schema
    from alfred_refs.store.postgres import PostgresStore

    engine = schema.engine_for(url, pool_size=1)
    store = PostgresStore(engine)
    try:
        store.check_tables()
        yield RefRegistry(store=store)
    finally:
        engine.dispose()


@contextmanager
def errors_on_one_line(*, as_json: bool) -> Iterator[None]:
    """Make a `Failure` of what is raised inside the `with`."""
    from sqlalchemy.exc import DBAPIError

    from alfred_refs.errors import RefError, RegistryUnreachableError, SetupError

    try:
        yield
    except (RefError, DBAPIError) as error:
        if isinstance(error, RegistryUnreachableError):
            message = f"{error} ({_first_line(error.__cause__)})"
        elif isinstance(error, DBAPIError):
            message = _first_line(error)
        else:
            is_ours = isinstance(error, SetupError)
            message = str(error) if is_ours else without_passwords(str(error))
        raise Failure(type(error).__name__, message, as_json=as_json) from error


def _first_line(error: BaseException | None) -> str:
    """Return the driver's message, less the lines that quote the statement or a row."""
    return str(getattr(error, "orig", error)).partition("\n")[0]


conversation_argument = click.argument("conversation", metavar="CONVERSATION")
"""The id of a conversation."""

conversation_or_owner = click.argument("conversation", metavar="[CONVERSATION]", required=False)
"""The id of a conversation, or none where an owner is given."""


def of_owner(help_: str) -> Callable[[_C], _C]:
    """Return an option that names an owner."""
    return click.option("--owner", metavar="OWNER", help=help_)


def at_most(_: click.Context, __: click.Parameter, text: str) -> int | None:
    """Return how many `--limit` says to print; `None` is all."""
    if text == "all":
        return None
    if re.fullmatch("[0-9]{1,9}", text) is None or int(text) == 0:
        raise click.BadParameter(f"{text!r} is no limit; write a number from 1, or all.")
    return int(text)


def older_than(*, required: bool) -> Callable[[_C], _C]:
    """Return an option that chooses conversations by how long they were not used."""
    return click.option(
        "--older-than",
        metavar="AGE",
        required=required,
        callback=_age,
        help="Those not used for so long: a number of hours, days or weeks, as 12h, 90d or 2w.",
    )


def _age(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    """Return how long that is; anything but more than nothing is misuse."""
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    age = int(found[1]) * _UNITS[found[2]] if found else timedelta()
    if not timedelta() < age <= _OLDEST:
        raise click.BadParameter(f"{text!r} is no age; write 12h, 90d or 2w, up to 36500d.")
    return age


def open_conversation(registry: RefRegistry, info: ConversationInfo) -> Conversation:
    """Return a conversation, on behalf of whoever has it."""
    return registry.conversation(info.id, owner=info.owner)
