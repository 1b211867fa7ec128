"""The `alfred-refs` command, of the extra `cli`: without click it says how to get it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command.

    Raises:
        SystemExit: always; 0 if it worked, 1 if it did not, 2 if it was misused or lacks click.
    """
    try:
        from .commands import alfred_refs  # noqa: PLC0415  # click is not a dependency
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("alfred-refs needs click; run `pip install alfred-refs[cli]`\n")
        sys.exit(2)
    alfred_refs(prog_name="alfred-refs")
