"""An application with its own Alembic environment, set up as the site says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from textwrap import indent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "registry.md", DOCS / "reference" / "alembic.md"]

BY_THE_COMMAND = "By the command"
BY_ITSELF = "By your own environment"
BETWEEN = "From one to the other"
IN_A_SCHEMA = "In a schema of their own"


def programs(section: str) -> list[str]:
    """Return the programs in a section of the pages, completed if they belong in `env.py`."""
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    text = pages.partition(f"# {section}\n")[2].partition("\n##")[0]
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [_environment(each) if "context.configure(" in each else each for each in found]


def _environment(program: str) -> str:
    """Return an `env.py` that configures its context by a program."""
    return f"""from alembic import context
from myapp import *

with engine.connect() as connection:
{indent(program, "    ")}
    with context.begin_transaction():
        context.run_migrations()
"""


class Application:
    """An Alembic environment made by `alembic init`, with the application's module `myapp`.

    Args:
        directory: of the environment.
        engine: on its database.
        monkeypatch: removes the module `myapp` after the test.
        template: of `alembic init`.
    """

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        template: str = "generic",
    ) -> None:
        class Base(DeclarativeBase):
            pass

        class Recipe(Base):
            __tablename__ = "recipe"

            id: Mapped[int] = mapped_column(primary_key=True)
            title: Mapped[str] = mapped_column(Text, index=True)

        self.module: Any = ModuleType("myapp")
        vars(self.module).update(Base=Base, engine=engine)
        monkeypatch.setitem(sys.modules, "myapp", self.module)
        self.config = Config(directory / "alembic.ini")
        self.config.set_main_option("script_location", str(directory / "migrations"))
        self.directory = directory / "migrations"
        command.init(self.config, str(self.directory), template=template)
        self.config.config_file_name = None  # the file would disable existing loggers

    def environment(self, program: str) -> None:
        """Replace `env.py` by a program."""
        (self.directory / "env.py").write_text(program)

    def lists(self, metadata: MetaData, program: str = programs(BY_ITSELF)[0]) -> None:
        """Add the registry's tables, as of some version, to the environment's metadata."""
        self.module.registry = SimpleNamespace(metadata=metadata)
        self.environment(program)

    def autogenerate(self, upgrade: bool = True) -> list[str]:
        """Run `alembic revision --autogenerate`, and return the operations with their tables."""
        script = command.revision(self.config, autogenerate=True)
        path = Path(getattr(script, "path"))  # noqa: B009  # one, or a list of them
        if upgrade:
            command.upgrade(self.config, "head")
        steps = path.read_text().partition("def downgrade")[0]
        return [" ".join(step) for step in re.findall(r"op\.(\w\w+)\((?:op\.f\()?'(\w+)'", steps)]

    def revision(self, program: str) -> None:
        """Run `alembic revision`, and add a program with its functions."""
        script = command.revision(self.config)
        path = Path(getattr(script, "path"))  # noqa: B009  # one, or a list of them
        path.write_text(f"{path.read_text()}\n\n{program}")

    def check(self) -> None:
        """Run `alembic check`."""
        command.check(self.config)
