"""The public API is what the documentation lists, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

import alfred_refs
from alfred_refs import errors, store, testing


def test_the_public_names_are_exact_and_sorted() -> None:
    """`__all__` lists every public name once, sorted."""
    typed = _imported_for_type_checkers(alfred_refs)

    assert alfred_refs.__all__ == sorted(typed)
    assert {name for name in alfred_refs.__all__ if name.endswith("Error")} == {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.RefError)
    }
    assert testing.__all__ == ["MemoryStore"]


def test_each_name_is_the_object_that_type_checkers_see() -> None:
    """A lazy import finds the same object as the import under TYPE_CHECKING, and is cached."""
    for name, home in _imported_for_type_checkers(alfred_refs).items():
        value = getattr(alfred_refs, name)
        assert value is getattr(import_module(f".{home}", alfred_refs.__name__), name)
        assert vars(alfred_refs)[name] is value
        assert name in dir(alfred_refs)
    assert issubclass(alfred_refs.AsyncRefSession, AsyncSession)


def test_an_unknown_name_is_an_error() -> None:
    """By an AttributeError, and by type checkers: mypy would report an unused ignore."""
    with pytest.raises(AttributeError, match=r"^module 'alfred_refs' has no attribute 'Nothing'$"):
        _ = alfred_refs.Nothing  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"^module 'alfred_refs\.store' has no attribute 'No'$"
    ):
        _ = store.No  # type: ignore[attr-defined]


def _imported_for_type_checkers(module: ModuleType) -> dict[str, str]:
    """Return the public names that a package imports under TYPE_CHECKING."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))  # TYPE_CHECKING
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_importing_is_quiet_and_needs_no_extra() -> None:
    """The package imports without the extras' libraries, and prints nothing."""
    program = (
        "import sys\n"
        "absent = ('click', 'inflect', 'rich', 'greenlet', 'asyncpg')\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "import alfred_refs, alfred_refs.testing\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("", "")


# import -> packages and modules that it must not load
LOADS = {
    "import alfred_refs": ["alembic", "pydantic", "psycopg", "sqlalchemy", "alfred_refs.store"],
    "from alfred_refs import RefRegistry, RefSession, Ownership, Draft, BadRefError": [
        *("alembic", "pydantic", "pydantic_core", "psycopg"),
        *("alfred_refs.store.memory", "alfred_refs.store.postgres"),
    ],
    "from alfred_refs.testing import MemoryStore": ["pydantic", "alfred_refs.store.postgres"],
    "from alfred_refs.conversation import conversation": ["alembic", "pydantic"],
    "from alfred_refs import PostgresStore": ["alembic", "pydantic", "alfred_refs.store.memory"],
    "from alfred_refs.store import schema": ["alembic", "pydantic"],
    "from alfred_refs.cli.commands import alfred_refs": [
        *("alembic", "pydantic", "psycopg", "sqlalchemy", "rich.console")
    ],
    "import sys; sys.argv[1:] = ['--help']\n"
    "from alfred_refs.cli import main\n"
    "try: main()\n"
    "except SystemExit: pass": [*("alembic", "pydantic", "psycopg", "sqlalchemy")],
}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("program", LOADS)
def test_unused_modules_are_not_loaded(program: str) -> None:
    """Modules of drafts, tools, imports, migrations and the other store are loaded on use."""
    told = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert set(LOADS[program]).isdisjoint(done.stdout.split())
