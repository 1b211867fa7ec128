"""The `alfred-refs` command, of the extra `cli`: without that it says how to get it."""

from __future__ import annotations

import sys

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command.

    Raises:
        SystemExit: always; 0 if it worked, 1 if it did not, 2 if it was misused or has no extra.
    """
    try:
        from alfred_refs.cli.commands import alfred_refs  # the extra is not a dependency
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _EXTRA:
            raise
        sys.stderr.write(f"alfred-refs needs {package}; run `pip install alfred-refs[cli]`\n")
        sys.exit(2)
    alfred_refs(prog_name="alfred-refs")
