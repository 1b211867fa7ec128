"""Statements ready to be run: made once for all texts that differ in their literals.

    plan, literals = plans.of("select name from recipes where id = 'recipe_1'", fenced=True)
    plan.statement      with a parameter for each literal, and one for how many rows are read

A text that is met again, or one of its shape, is split into words and looked up; neither parser
nor builder runs, and SQLAlchemy finds its compiled form.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Integer, bindparam
from sqlglot import expressions as exp

from alfred_refs.tools.tables.tables import ToolTables

from .functions import FUNCTIONS, Function
from .lexing import Shape, shape_of
from .parsing import parsed, type_words
from .refusing import too_deep
from .scopes import Building, Scope
from .selects import MAKERS, query_of
from .values import Literals, Parameter, Value

MOST = "most"
"""The parameter that says how many rows are read."""

_CAPACITY = 500  # as many as SQLAlchemy's compiled cache


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement that is ready to be run.

    Attributes:
        statement: of SQLAlchemy's.
        values: what its columns are.
        parameters: what the literals are sent as, by name.
        limit: the literal that says how many rows are wanted.
        names: what is sent for a name, with the name.
    """

    statement: Any
    values: Sequence[Value]
    parameters: Mapping[str, Parameter]
    limit: int | None
    names: Mapping[str, str]


@dataclass(slots=True)
class Plans:
    """The plans of one toolset; the oldest give way.

    Attributes:
        tables: what a model may use.
        functions: that it may call.
        closed: names of tables that it may not ask for by SQL.
    """

    tables: ToolTables
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)
    closed: Collection[str] = ()
    _plans: dict[Hashable, Plan] = field(default_factory=dict)
    _fixed: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, text: str, *, fenced: bool) -> tuple[Plan, Sequence[str]]:
        """Return the plan of a text, and its literals.

        Args:
            text: as a model wrote it.
            fenced: whether rows of others are in the tables.

        Raises:
            ToolError: it is none that can be answered.
        """
        shape = shape_of(text, type_words())
        key = shape.text, fenced
        fixed = self._fixed.get(key, ())
        plan = self._plans.get((key, *(shape.literals[n] for n in fixed)))
        return plan or self._made(shape, key, fenced=fenced), shape.literals

    def _made(self, shape: Shape, key: Hashable, *, fenced: bool) -> Plan:
        try:
            plan, literals = self._built(shape, fenced=fenced)
        except RecursionError:
            raise too_deep() from None
        with self._lock:
            fixed = tuple(sorted({*literals.fixed, *self._fixed.get(key, ())}))
            if len(self._plans) >= _CAPACITY:
                self._plans.clear()
                self._fixed.clear()
            self._fixed[key] = fixed
            self._plans[key, *(shape.literals[n] for n in fixed)] = plan
        return plan

    def _built(self, shape: Shape, *, fenced: bool) -> tuple[Plan, Literals]:
        tree = parsed(shape)
        literals = Literals(shape.literals)
        has_star = _has_star(tree)
        names = None if has_star else {e.name.lower() for e in tree.find_all(exp.Identifier)}
        building = Building(
            self.tables, self.closed, literals, names, fenced, query_of, MAKERS, self.functions
        )
        query = query_of(tree, Scope(building))
        statement = query.statement.limit(bindparam(MOST, type_=Integer()))
        plan = Plan(statement, query.values, literals.parameters, query.limit, building.names)
        return plan, literals


def _has_star(tree: exp.Expression) -> bool:
    """Tell whether columns are wanted that are not named: `count(*)` wants none."""
    return any(
        not isinstance(each.parent, exp.Anonymous) for each in tree.find_all(exp.Star)
    ) or any(each.args.get("method") for each in tree.find_all(exp.Join))
