"""A server of the Model Context Protocol: the tools of a bound toolset, for any host.

    desk = toolset.bind(sessions, registry=registry)
    server = server_of(desk, lambda ctx: ("chat-7", user.id), name="shop")

    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

It stands on the low-level server of the official SDK, which has the transports, access tokens, and
both eras of the protocol. `server` has the tools, `resources` what a host may read beside them,
`principals` whose a request is, and `work` does it: so many at a time, in threads or not.
"""

from .principals import CONVERSATION as CONVERSATION
from .server import server_of as server_of

__all__ = ["CONVERSATION", "server_of"]
