"""What `alfred-refs mcp` serves on: standard input and output, or HTTP.

    address = Address.parsed("127.0.0.1:8000")      # ValueError: it is none
    with address.bound() as socket:                 # OSError: it is in use
        over_http(server, socket, address, None)

Without tokens only this machine is served, and no page of a browser: requests must name a host
that is this machine. With tokens, whoever has one is.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.auth.provider import TokenVerifier

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
