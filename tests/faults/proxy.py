"""A way to a server on which answers can get lost.

In: a server's URL. Out: a URL that leads to the same server, through this process. It listens on
the loopback address only, and does not look into encrypted connections.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL

# https://www.postgresql.org/docs/current/protocol-message-formats.html: CommandComplete
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"


class Proxy:
    """Hands on what client and server say, until told to lose something.

    Attributes:
        loses: how many commits from now on are made, and their answers lost with the connection.
    """

    def __init__(self, server: URL) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.loses = 0
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> URL:
        """Where clients connect to."""
        host, port = self._listener.getsockname()
        return self._server.set(host=host, port=port, query={})

    def close(self) -> None:
        """Take no more connections; those that are open end with their clients."""
        # closing alone would not wake the thread
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    def _connect(self) -> socket.socket:
        directory = self._server.query.get("host")
        if directory is None:
            return socket.create_connection((str(self._server.host), self._server.port or 5432))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{directory}/.s.PGSQL.{self._server.query['port']}")
        return server

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError), source, target:
            while said := source.recv(65536):
                if self.loses and COMMITTED in said:
                    self.loses -= 1
                    break
                target.sendall(said)
            # the other direction waits on the same sockets
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(server: URL) -> Iterator[Proxy]:
    """Listen for as long as the context lasts."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
