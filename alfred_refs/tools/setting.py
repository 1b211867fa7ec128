"""What all calls of one toolset share, and what is said before any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect

from alfred_refs.errors import SetupError
from alfred_refs.tools.answers.label_lookup import Mode
from alfred_refs.tools.answers.results import Limits
from alfred_refs.tools.tables.hooks import Hooks
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables


@dataclass(frozen=True, slots=True)
class Setting:
    """What all calls of one toolset share.

    Attributes:
        tables: what a model may use.
        hooks: what the application adds, by class.
        labels: where the labels of refs go.
        deduplicate: by class, what tells new rows of one call apart.
        limits: how much an answer shows.
        max_written: how many rows one call may change.
    """

    tables: ToolTables
    hooks: Mapping[type[Any], Sequence[Hooks]]
    labels: Mode
    deduplicate: Mapping[type[Any], Sequence[str]]
    limits: Limits
    max_written: int

    def check(self) -> None:
        """Check that what is given goes together.

        Raises:
            SetupError: something is said of a class that no model may use, or cannot be used.
        """
        models = {table.model for table in self.tables}
        for said, classes in (("hooks", self.hooks), ("deduplicate", self.deduplicate)):
            for other in classes.keys() - models:
                raise SetupError(
                    f"{said} lists {other!r}, which is not among the models", "add it to models"
                )
        self._check_hooks()
        for model, names in self.deduplicate.items():
            for name in names:
                if name not in inspect(model).mapper.column_attrs:
                    raise SetupError(
                        f"deduplicate lists {name!r}, no column of {model.__qualname__!r}",
                        "name the attributes that new rows are told apart by",
                    )
        if self.labels not in ("inline", "legend", "none"):
            raise SetupError(
                f"labels is {self.labels!r}", "choose one of 'inline', 'legend', 'none'"
            )

    def _check_hooks(self) -> None:
        for model, hooks in self.hooks.items():
            given: Any = hooks  # whatever it is declared to be
            if not isinstance(given, Sequence) or not all(isinstance(h, Hooks) for h in given):
                raise SetupError(
                    f"the hooks of {model.__qualname__!r} are no list of Hooks",
                    "give instances of classes that inherit from Hooks, in a list",
                )

    def hooks_of(self, table: ToolTable) -> Sequence[Hooks]:
        """Return what the application adds to a table, in order."""
        return self.hooks.get(table.model, ())
