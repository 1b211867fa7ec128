"""Run a command with a server of its own: `python -m tests.postgres COMMAND [ARGUMENT ...]`.

`DATABASE_URL` has the URL of an empty database, whatever it was before. The exit code is that of
the command. The server ends with the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.postgres.server import embedded_server


def main(command: Sequence[str]) -> int:
    """Run `command` with a server of its own, and return its exit code."""
    if not command:
        sys.exit("usage: python -m tests.postgres COMMAND [ARGUMENT ...]")
    with embedded_server() as url:
        environ = {**os.environ, "DATABASE_URL": url.render_as_string(hide_password=False)}
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
