"""The public surface is what the documentation says, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

import alfred_refs
from alfred_refs import testing


def test_the_public_names_are_exact_and_sorted() -> None:
    """`__all__` lists every public name, once, in order."""
    public = {
        name
        for name, value in vars(alfred_refs).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("alfred_refs")
    }

    assert set(alfred_refs.__all__) == public | {"AsyncRefSession"}
    assert issubclass(alfred_refs.AsyncRefSession, AsyncSession)
    with pytest.raises(AttributeError, match="'alfred_refs' has no attribute 'Nothing'"):
        _ = alfred_refs.Nothing
    assert alfred_refs.__all__ == sorted(alfred_refs.__all__)
    assert testing.__all__ == ["MemoryStore"]


def test_importing_is_quiet_and_needs_no_extra() -> None:
    """Without the extras' libraries the package imports, and prints nothing."""
    program = (
        "import sys\n"
        "absent = ('click', 'inflect', 'rich', 'greenlet', 'asyncpg')\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "import alfred_refs, alfred_refs.testing\n"
        "print(sorted(m for m in sys.modules if m.startswith('alembic')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")
