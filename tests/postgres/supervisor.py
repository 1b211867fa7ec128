"""The process that owns a server and its directory, and ends with its parent.

In: a JSON object as the only argument, `{"binaries": str, "settings": {str: str}}`, and a pipe as
standard input. Out: a JSON line on standard output, `{"directory": str}` when the server accepts
connections on the socket in that directory, or `{"error": str}`.

The line `crash` or `start` on standard input stops the server without a checkpoint, or starts it
again; the answer is a line as above.

When the pipe closes, which the kernel does even if the parent is killed, the supervisor stops the
server and removes the directory. Standard library only.
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

# a socket's path is limited to 103 bytes, and TMPDIR may be long
PARENT = "/tmp"  # noqa: S108 - the name below it is made by mkdtemp


def main(argument: str) -> None:
    """Run a server until standard input closes."""
    # Ctrl-C reaches the whole process group, but only the pipe ends the supervisor
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
    # the parent may be dead; standard input is closed then too
    with suppress(BrokenPipeError):
        # not by sys.stdout, which would retry a failed write at exit
        os.write(sys.stdout.fileno(), f"{json.dumps(line)}\n".encode())


def _leave(_signal: int, _frame: FrameType | None) -> None:
    # a second signal must not interrupt the cleanup
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
