"""Try the installed wheel: `python -I tests/smoke_wheel.py`, in an environment with nothing else.

`python3 run.py wheel` makes that environment, and gives an empty database in `DATABASE_URL`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import sys

import alfred_refs


def main() -> None:
    """Check that the wheel holds what its users need, and say so."""
    package = importlib.resources.files(alfred_refs)
    assert str(package).startswith(sys.prefix), f"{package} is not what was installed"
    assert (package / "py.typed").is_file(), "type checkers will not see the annotations"
    assert (package / "migrations").is_dir(), "nothing to migrate with"
    sys.stdout.write(f"the wheel of {importlib.metadata.version('alfred-refs')} works\n")


if __name__ == "__main__":
    main()
