"""Which version of somebody else's package a module needs: said before anything of it is imported.

>>> needs("pydantic-ai-slim", "2.60", extra="pydantic-ai")
ImportError: pydantic-ai-slim 2.60 or newer is needed, and 2.41.0 is installed; run `pip install …`
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version


def needs(package: str, floor: str, *, extra: str) -> None:
    """Check that a package is installed, and not older than what its adapter was tried with.

    Args:
        package: the name that pip knows.
        floor: the oldest version that will do.
        extra: of ours, which brings it.

    Raises:
        ImportError: it is not there, or too old.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        found = ""
    if _numbers(found) < _numbers(floor):
        raise ImportError(
            f"{package} {floor} or newer is needed, and {found or 'none'} is installed; "
            f"run `pip install 'alfred-refs[{extra}]'`",
            name=package,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """Return what a version begins with: of 2.60.0rc1 that is 2, 60, 0."""
    begins = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, begins[0].split("."))) if begins else ()
