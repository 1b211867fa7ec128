"""alfred-refs mcp: serve a toolset by stdio, TCP or a socket.

What `alfred-refs mcp` serves on: standard input and output, or HTTP.

    address = Address.parsed("127.0.0.1:8000")      # ValueError: it is none
    with address.bound() as socket:                 # OSError: it is in use
        over_http(server, socket, address, None)

Without tokens only this machine is served, and no page of a browser: requests must name a host
that is this machine. With tokens, whoever has one is.

`alfred-refs mcp`: serve a toolset by the Model Context Protocol.

    $ alfred-refs mcp app.agent:desk --conversation desk-1 --owner 7
    $ alfred-refs mcp app.agent:desk --http 127.0.0.1:8000 --token-verifier app.auth:verifier
    $ alfred-refs mcp postgresql://localhost/shop --reflect

A flag that would mean nothing beside the others is misuse: whoever writes one relies on it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from alfred_refs.cli.parameters import VARIABLE, Failure, errors_on_one_line
from alfred_refs.cli.printing import inert

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.auth.provider import TokenVerifier

    from alfred_refs.tools import BoundToolset


_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]/@\s]+)):(?P<port>[0-9]{1,5})"
)
_PORTS = 65_535
_SECONDS = 5  # that requests have left when the server is to end


@dataclass(frozen=True, slots=True)
class Address:
    """Where HTTP is served.

    Attributes:
        host: a name or an address.
        port: 0 is any that is free.
    """

    host: str
    port: int

    @classmethod
    def parsed(cls, text: str) -> Address:
        """Return the address that a text is.

        Raises:
            ValueError: it is none.
        """
        found = _ADDRESS.fullmatch(text)
        if found is None or int(found["port"]) > _PORTS:
            raise ValueError(text)
        return cls(found["v6"] or found["host"], int(found["port"]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def in_url(self) -> str:
        """The host as URLs have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.in_url}:{self.port}"

    def bound(self) -> socket.socket:
        """Return a socket that has the address.

        Raises:
            OSError: somebody else has it, or there is no such host.
        """
        family, kind, protocol, _, address = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen()  # whoever comes before it is served waits
        except OSError:
            made.close()
            raise
        return made


def over_stdio(server: Server[Any]) -> None:
    """Serve the one client that has started this process, until it ends its input."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(serve)


def over_http(
    server: Server[Any], bound: socket.socket, address: Address, verifier: TokenVerifier | None
) -> None:
    """Serve HTTP at `/mcp` until this process is to end."""
    import uvicorn
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.transport_security import TransportSecuritySettings

    # The issuer is told to nobody, for there is no resource server's URL; the verifier decides.
    unused: Any = "http://localhost"
    auth = AuthSettings(issuer_url=unused, resource_server_url=None)
    hosts = {"127.0.0.1", "localhost", "[::1]", address.in_url}
    app = server.streamable_http_app(
        stateless_http=True,
        auth=auth if verifier else None,
        token_verifier=verifier,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=verifier is None,
            allowed_hosts=[f"{each}:*" for each in hosts],
            allowed_origins=[f"http://{each}:*" for each in hosts],
        ),
    )
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[bound])


def _address(_: click.Context, __: click.Parameter, text: str | None) -> Address | None:
    """Return the address that `--http` gives."""
    try:
        return None if text is None else Address.parsed(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no address; write HOST:PORT, as 127.0.0.1:8000."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """What the command was given."""

    target: str | None
    conversation: str | None
    owner: str | None
    read_only: bool
    http: Address | None
    token_verifier: str | None
    reflect: bool
    write: bool
    table: Sequence[str]
    hide: Sequence[str]

    def mistakes(self) -> Iterator[str]:
        """Yield what is missing, and which flags mean nothing beside the others."""
        is_url = self.target is not None and "://" in self.target
        http, has_tokens = self.http, self.token_verifier is not None
        is_of_one = (self.owner, self.conversation) != (None, None)
        told = [
            (self.target is None, f"Give an object, or --reflect and a URL or {VARIABLE}."),
            (is_url and not self.reflect, "A URL is for --reflect, which makes tools for it."),
            (self.reflect and not is_url, "--reflect is for the URL of a database."),
            (
                not self.reflect and bool(self.write or self.table or self.hide),
                "--write, --table and --hide are for --reflect.",
            ),
            (self.read_only and self.write, "--read-only and --write contradict each other."),
            (
                self.reflect and self.owner is not None,
                "--owner is for a program that says whose rows are whose, not for --reflect.",
            ),
            (has_tokens and http is None, "--token-verifier is for --http."),
            (
                has_tokens and is_of_one,
                "--owner and --conversation are for one user, and --token-verifier for many.",
            ),
            (
                not has_tokens and http is not None and not http.is_loopback,
                "Another host than this machine itself is served with --token-verifier only.",
            ),
        ]
        return (mistake for is_made, mistake in told if is_made)


@click.command()
@click.argument("target", metavar="[APP|URL]", required=False)
@click.option("--conversation", metavar="ID", help="All requests are in this one.")
@click.option("--owner", metavar="OWNER", help="On behalf of this owner.")
@click.option("--read-only", is_flag=True, help="Without tools that change anything.")
@click.option("--http", metavar="HOST:PORT", callback=_address, help="HTTP at /mcp, not stdio.")
@click.option("--token-verifier", metavar="MODULE:OBJECT", help="Who checks access tokens.")
@click.option("--reflect", is_flag=True, help="Make tools of the tables at URL; read only.")
@click.option("--write", is_flag=True, help="With --reflect: rows may be changed.")
@click.option("--table", metavar="TABLE", multiple=True, help="With --reflect: this; repeatable.")
@click.option("--hide", metavar="TABLE.COLUMN", multiple=True, help="With --reflect: not this.")
def mcp(target: str | None, **given: Any) -> None:
    """Serve tools by the Model Context Protocol, on standard input and output.

    APP is what Toolset.bind(...) has returned, in a program that can be imported from here:
    app.agent:desk. With --reflect tools are made of the tables of a database, without a program:
    URL is its, or ALFRED_REFS_DATABASE_URL.

    A request is in the conversation that its client names, or else in one for each principal.
    """
    if target is None and given["reflect"]:
        target = os.environ.get(VARIABLE)
    flags = _Flags(target=target, **given)
    for mistake in flags.mistakes():
        raise click.UsageError(mistake)
    try:
        from alfred_refs.integrations import mcp as _  # noqa: F401  # the extra is no dependency
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise click.UsageError("`alfred-refs mcp` needs `pip install alfred-refs[mcp]`") from None
    with errors_on_one_line(as_json=False), _desk(flags) as (desk, instructions):
        _serve(_server(flags, desk, instructions), flags)


@contextmanager
def _desk(flags: _Flags) -> Iterator[tuple[BoundToolset, str | None]]:
    """Yield the tools that are to be served, and what models are told of them."""
    from alfred_refs.cli.desks import load_object, reflect_desk
    from alfred_refs.errors import SetupError
    from alfred_refs.tools import BoundToolset

    target = str(flags.target)
    if not flags.reflect:
        desk = load_object(target)
        if not isinstance(desk, BoundToolset):
            raise SetupError(
                f"{target!r} is a {type(desk).__name__}", "name what Toolset.bind(...) returned"
            )
        yield desk, None
        return
    with reflect_desk(target, write=flags.write, tables=flags.table, hidden=flags.hide) as found:
        for remark in found.remarks:
            click.echo(inert(remark), err=True)
        yield found.desk, found.instructions


def _server(flags: _Flags, desk: BoundToolset, instructions: str | None) -> Server[Any]:
    """Return the server, for the user that is named, or for those that tokens are of.

    Raises:
        SetupError: there are no tools, an owner is missing or not expected, or there can be no
            such owner or conversation.
    """
    from alfred_refs.integrations.mcp import server_of

    conversation, owner = flags.conversation, flags.owner
    if flags.token_verifier is None:
        desk.conversation(conversation or "mcp", owner)  # raises if there can be none
    options: dict[str, Any] = {}
    if conversation is not None:
        options["whose"] = lambda _: (conversation, owner)
    elif owner is not None:
        options["owner_of"] = lambda _: owner
    return server_of(
        desk,
        **options,
        name="alfred-refs",
        version=version("alfred-refs"),
        instructions=instructions,
        read_only=flags.read_only,
    )


def _serve(server: Server[Any], flags: _Flags) -> None:
    """Serve until the client, or whoever started this, ends it."""
    logging.basicConfig()  # unless the program has: what a client is not told of goes there
    if flags.http is None:
        over_stdio(server)
        return
    from alfred_refs.cli.desks import load_object

    verifier: Any = None
    if flags.token_verifier is not None:
        verifier = load_object(flags.token_verifier)
        if isinstance(verifier, type) or not hasattr(verifier, "verify_token"):
            raise Failure(
                "SetupError",
                f"{flags.token_verifier!r} verifies no tokens; name an object that has an "
                "asynchronous method verify_token",
                as_json=False,
            )
    try:
        bound = flags.http.bound()
    except OSError as error:
        message = f"{flags.http} cannot be served: {error.strerror}"
        raise Failure("OSError", message, as_json=False) from None
    with bound:
        address = Address(flags.http.host, bound.getsockname()[1])
        click.echo(f"serving http://{address}/mcp", err=True)
        over_http(server, bound, address, verifier)
