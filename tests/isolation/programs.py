"""Programs, and the script that generates their source line by line."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Integer, String, Table, inspect
from sqlalchemy.orm import RelationshipProperty

from tests.isolation import models

T = TypeVar("T")

CLASSES = (
    *("Recipe", "Recipe", "Recipe", "Line", "Line", "Remark", "Plan", "Plan", "User", "Tag"),
    *("OldPlan", "OldLine", "Animal", "Dog", "Cat", "Shelf", "Jar"),
)
LINKS = ("recipe_tags", "recipe_links")
TEXTS = ("ann", "bob", "cid", "all", "ann 1", "all 4", "bob5", "on all", "%")
# names that may clash with those of tables, classes or SQLAlchemy
NAMES = ("x", "recipes", "lines", "plans", "counted", "t", "Recipes", "anon_1", "users", "param_1")


@dataclass(frozen=True, slots=True)
class Column:
    """A column, as Python source.

    Attributes:
        code: the expression.
        kind: `int` or `str`.
        entity: the class whose keys it holds, if any.
    """

    code: str
    kind: str
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """An element of a FROM, as Python source.

    Attributes:
        code: the expression.
        columns: its columns.
        order: the columns of a total order of its rows; empty where none is known.
        class_: the class that is mapped to it, if any.
        has_entity: whether it can be selected as an entity.
    """

    code: str
    columns: Sequence[Column]
    order: Sequence[str] = ()
    class_: str | None = None
    has_entity: bool = False

    @property
    def relationships(self) -> Sequence[RelationshipProperty[Any]]:
        """The relationships of its class."""
        if self.class_ is None or not self.has_entity:
            return ()
        return list(inspect(getattr(models, self.class_)).relationships)


@dataclass(frozen=True, slots=True)
class Program:
    """Python to run in a session.

    Attributes:
        lines: build a statement, without a session.
        run: execute it in `session` and assign the outcome to `result`.
        kinds: the features that it uses, to be counted.
        ordered: whether the order of its rows is defined.
        writes: whether it may change rows.
    """

    lines: Sequence[str]
    run: Sequence[str]
    kinds: Sequence[str] = ()
    ordered: bool = False
    writes: bool = False

    @property
    def source(self) -> str:
        """All lines as one string, for a message."""
        return "; ".join((*self.lines, *self.run))


@dataclass(slots=True)
class Script:
    """The Python source generated so far.

    Attributes:
        chance: makes all random choices.
        lines: the assignments at the beginning of a program.
        kinds: the features that it uses, to be counted.
        depth: of the current subquery.
    """

    chance: random.Random
    lines: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    depth: int = 0
    _last: int = 0

    def put(self, code: str, stem: str = "x") -> str:
        """Add a line that assigns `code` to a new name, and return the name."""
        self._last += 1
        name = f"{stem}{self._last}"
        self.lines.append(f"{name} = {code}")
        return name

    def label(self) -> str:
        """Return a new label."""
        self._last += 1
        return f"c{self._last}"

    def often(self, part: float = 0.7) -> bool:
        """Return true with this probability."""
        return self.chance.random() < part

    def any(self, *makers: Callable[[], T]) -> T:
        """Call a random maker."""
        return self._count(self.chance.choice(makers))

    def program_of(self, makers: Mapping[Callable[[], Program], float]) -> Program:
        """Call a random maker, by weight."""
        [maker] = self.chance.choices([*makers], [*makers.values()])
        return self._count(maker)

    def _count(self, maker: Callable[[], T]) -> T:
        self.kinds.append(getattr(maker, "__name__", "?").strip("_"))
        return maker()

    def program(self, code: str, run: str, *, ordered: bool = False) -> Program:
        """Return a program of the lines so far, which builds a statement and runs it."""
        lines = [*self.lines, f"statement = {code}"]
        return Program(lines, [run], list(self.kinds), ordered)


def columns_of(name: str, prefix: str, *, core: bool = False) -> list[Column]:
    """Return the columns of a class or table, with a prefix."""
    found = getattr(models, name)
    table: Table = found if isinstance(found, Table) else inspect(found).local_table
    if core or isinstance(found, Table):
        return [Column(f"{prefix}.{c.key}", _kind(c), _entity(c)) for c in table.columns]
    return [
        Column(f"{prefix}.{attr.key}", _kind(attr.columns[0]), _entity(attr.columns[0]))
        for attr in inspect(found).column_attrs
        if attr.key != "extra" and isinstance(attr.columns[0].type, Integer | String)
    ]


def _kind(column: Any) -> str:
    return "int" if isinstance(column.type, Integer) else "str"


_BY_TABLE = {inspect(getattr(models, name)).local_table: name for name in CLASSES if name != "Cat"}


def _entity(column: Any) -> str | None:
    table = getattr(column, "table", None)
    if not isinstance(table, Table):
        return None
    for element in column.foreign_keys:
        return _entity(element.column)
    if column.primary_key and len(table.primary_key) == 1:
        return _BY_TABLE.get(table)
    return None


def keys_of(name: str, prefix: str) -> list[str]:
    """Return the primary key columns of a class or table, with a prefix."""
    found = getattr(models, name)
    table = found if isinstance(found, Table) else inspect(found).mapper.base_mapper.local_table
    return [f"{prefix}.{column.key}" for column in table.primary_key]
