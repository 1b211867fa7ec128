"""`alfred-refs inspect`: serve the inspector of a toolset on this machine.

    $ alfred-refs inspect app.agent:desk
    open http://127.0.0.1:8765/?token=...

>>> print(inspect.get_short_help_str(100))
Serve web pages with conversations, and with calls that wait for a person.

Only programs of this machine can connect, and only a browser that has opened the address with the
token sees a page: the token is exchanged for a cookie. To serve it to others, mount
`alfred_refs.inspector.inspector_of` in an application, with its own authentication.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
from typing import TYPE_CHECKING, Any

import click

from alfred_refs.cli.console import Failure, errors_on_one_line
from alfred_refs.cli.mcp import Address, load_object

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

_HOST = "127.0.0.1"
_PORT = 8765
_MAX_PORT = 65_535
_SHUTDOWN_SECONDS = 1
_NEEDED = ("jinja2", "starlette", "uvicorn")


@click.command("inspect")
@click.argument("desk", metavar="MODULE:DESK")
@click.option(
    "--port",
    type=click.IntRange(0, _MAX_PORT),
    default=_PORT,
    show_default=True,
    help="0 for any free one.",
)
@click.option("--owner", metavar="OWNER", help="Only conversations of OWNER.")
@click.option("--by", metavar="NAME", help="Who decides. Default: your login.")
def inspect(desk: str, *, port: int, owner: str | None, by: str | None) -> None:
    """Serve web pages with conversations, and with calls that wait for a person.

    MODULE:DESK is the result of Toolset.bind(...), imported from the current directory, as in
    app.agent:desk. The pages are for a browser of this machine, which opens the printed address.
    """
    try:
        import uvicorn as _  # noqa: F401  # an extra may be missing

        from alfred_refs.inspector import LocalAccess, inspector_of
        from alfred_refs.inspector.pages import Pages
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _NEEDED:
            raise
        needed = "`alfred-refs inspect` needs `pip install alfred-refs[inspect]`"
        raise click.UsageError(needed) from None
    from alfred_refs.errors import SetupError
    from alfred_refs.tools import BoundToolset

    with errors_on_one_line(as_json=False):
        found = load_object(desk)
        if not isinstance(found, BoundToolset):
            raise SetupError(
                f"{desk!r} is a {type(found).__name__}", "name the result of Toolset.bind(...)"
            )
        access = LocalAccess(by or getpass.getuser(), ... if owner is None else owner)
        Pages(found, access.operator)  # an invalid owner is refused here, not at the first request
        app = inspector_of(found, authenticate=access)
        try:
            listener = Address(_HOST, port).listen()
        except OSError as error:
            message = f"port {port} cannot be served: {error.strerror}"
            raise Failure("OSError", message, as_json=False) from None
        with listener:
            address = Address(_HOST, listener.getsockname()[1])
            click.echo(f"open http://{address}/{access.query}")
            _serve(app, listener)


def _serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until a signal ends the process."""
    import uvicorn

    logging.basicConfig()
    options: dict[str, Any] = {"log_level": "warning", "server_header": False}  # no URLs in logs
    config = uvicorn.Config(app, timeout_graceful_shutdown=_SHUTDOWN_SECONDS, **options)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
