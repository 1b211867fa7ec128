"""The process that owns a server and its directory, and outlives nobody.

In: one JSON object as the only argument, `{"binaries": str, "settings": {str: str}}`, and a pipe
as standard input. Out: one JSON line on standard output, `{"directory": str}` when the server
accepts connections on the socket in it, or `{"error": str}`.

A line `crash` or `start` on standard input stops the server as a crash does, or starts it again,
and is answered by a line like the first.

It waits for the pipe to close, which the kernel does however the process at the other end came to
die; then it stops the server and removes the directory. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tests.postgres.account import server_account
from tests.postgres.cluster import Cluster, ClusterError

# a socket's path has 103 bytes at most, and TMPDIR may be long
PARENT = "/tmp"  # noqa: S108 - the name below it is made by mkdtemp


def main(argument: str) -> None:
    """Own one server for as long as standard input is open."""
    # a terminal's Ctrl-C reaches the whole group; what ends us is the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    wanted = json.loads(argument)
    directory = Path(tempfile.mkdtemp(prefix="alfred-refs-", dir=PARENT))
    try:
        _serve(Path(wanted["binaries"]), directory, wanted["settings"])
    finally:
        shutil.rmtree(directory)


def _serve(binaries: Path, directory: Path, settings: Mapping[str, str]) -> None:
    cluster = Cluster(binaries, directory, server_account(), settings)
    try:
        cluster.start()
        _announce(directory=str(directory))
        for order in sys.stdin:
            {"crash": cluster.crash, "start": cluster.start_again}[order.strip()]()
            _announce(directory=str(directory))
    except (ClusterError, OSError) as error:
        _announce(error=str(error))
    finally:
        cluster.stop()


def _announce(**line: str) -> None:
    # nobody may be left to tell; standard input is at its end then too
    with suppress(BrokenPipeError):
        # not through sys.stdout, which would try again at exit what it could not write
        os.write(sys.stdout.fileno(), f"{json.dumps(line)}\n".encode())


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # a second one must not interrupt the clearing up
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
