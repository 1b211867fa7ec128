"""Give a command a server: `python -m tests.postgres COMMAND [ARGUMENT ...]`.

The command finds the URL of an empty database in `DATABASE_URL`; its exit code is ours; the server
is gone when it ends. A `DATABASE_URL` that was there before is not looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.postgres.server import embedded_server


def main(command: Sequence[str]) -> int:
    """Run `command` against a server of its own, and return its exit code."""
    if not command:
        sys.exit("usage: python -m tests.postgres COMMAND [ARGUMENT ...]")
    with embedded_server() as url:
        environ = {**os.environ, "DATABASE_URL": url.render_as_string(hide_password=False)}
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
