"""A proxy that drops the answers to commits, or falls silent.

In: a server's URL. Out: the URL of the proxy, which listens on the loopback address only. It
cannot read encrypted connections.
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
    """Forwards both directions, and closes connections instead of answering some commits.

    Attributes:
        loses: number of next commits whose answers are lost with the connection.
        is_silent: whether what clients send is dropped.
    """

    def __init__(self, server: URL) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.loses = 0
        self.is_silent = False
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> URL:
        """The URL for clients."""
        host, port = self._listener.getsockname()
        return self._server.set(host=host, port=port, query={})

    def cut(self) -> None:
        """Cut all connections."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening; open connections end with their clients."""
        # close() alone would not wake the thread
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                self._ends += (client, server)
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    def _connect(self) -> socket.socket:
        directory = self._server.query.get("host")
        if directory is None:
            return socket.create_connection((str(self._server.host), self._server.port or 5432))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{directory}/.s.PGSQL.{self._server.query['port']}")
        return server

    def _hand_on(self, source: socket.socket, target: socket.socket, from_server: bool) -> None:
        with contextlib.suppress(OSError), source, target:
            while said := source.recv(65536):
                if self.loses and COMMITTED in said:
                    self.loses -= 1
                    break
                if self.is_silent and not from_server:
                    continue
                target.sendall(said)
            # ends the thread of the other direction, which waits on the same sockets
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(server: URL) -> Iterator[Proxy]:
    """Run a proxy inside the context."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
