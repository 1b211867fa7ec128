"""Statement plans: where refs go into a statement and keys come out of its rows.

A `Plan` is made once for all statements of one cache key, which differ in values alone, as
SQLAlchemy's compiled form is. `Plans.of` returns it, with the statement and its parameters:

1. lambdas in a statement are replaced by their expressions, whose parameters can be replaced;
2. `assignments` checks that no key is loaded or stored as data;
3. `inputs` finds where refs may be in the statement, `results` where keys are in its rows.

Each execution then goes by the plan, without looking at the statement's clauses again.

Example:
    >>> from alfred_refs import RefPolicy
    >>> plans = Plans(Entities(RefPolicy()))
    >>> statement, plan, parameters = plans.of(select(Line.id).where(Line.recipe_id == "recipe_1"))
    >>> plan.single.column.name, plan.outputs.columns[0].name
    ('lines.recipe_id', 'lines.id')
    >>> plans.of(select(Line.id).where(Line.recipe_id == "recipe_2"))[1] is plan
    True

At most 500 plans are kept, and the oldest is dropped for a new one. A plan keeps no class of the
application alive, and is not shared between applications with other policies.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Executable

from alfred_refs import sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.lineage import Lineage
from alfred_refs.statements.assignments import check_filled, check_options
from alfred_refs.statements.inputs import Inputs, Single, inputs_of, single_of, takes_keys
from alfred_refs.statements.results import Outputs, outputs_of

_CAPACITY = 500  # the default size of SQLAlchemy's compiled cache


@dataclass(frozen=True, slots=True)
class Plan:
    """Where refs go into statements of one cache key, and keys come out of their rows.

    Attributes:
        inputs: where refs go in.
        in_where: whether `sqla.all_in_where` holds for the parameters among them.
        single: the only place for a ref, if `in_where` and there is just one.
        outputs: where keys come out.
        by_text: whether instances are loaded by a `text()`, so that `check_loaded` must see them.
        rewrites_rows: whether the rows of the result must be rewritten or checked.
    """

    inputs: Inputs
    in_where: bool
    single: Single | None
    outputs: Outputs
    by_text: bool
    rewrites_rows: bool


class Plans:
    """The plans of one application, by the cache key of their statements.

    Attributes:
        entities: the application's entities, for the keys of a column.
    """

    def __init__(self, entities: Entities) -> None:
        self.entities = entities
        self._plans: dict[Hashable, Plan] = {}
        self._lock = threading.Lock()

    def of(self, statement: Executable) -> tuple[Executable, Plan, Sequence[BindParameter[Any]]]:
        """Return a statement without lambdas, its plan, and its parameters as the plan has them.

        Raises:
            UntranslatableError: the statement cannot be translated, whatever its values.
        """
        cache_key, parameters = sqla.cache_key_of(statement)
        try:
            plan = self._plans.get(cache_key)
        except ReferenceError:  # a new class has the address of a deleted one
            with self._lock:
                self._plans.clear()
            plan = None
        if plan is None:
            if sqla.has_lambdas(statement):
                return self.of(sqla.without_lambdas(statement))
            plan = self._plan(statement, parameters)
            if cache_key is not None:
                with self._lock:
                    if len(self._plans) >= _CAPACITY:
                        del self._plans[next(iter(self._plans))]
                    self._plans[sqla.WeakCacheKey(cache_key)] = plan
        return statement, plan, parameters

    def _plan(self, statement: Executable, parameters: Sequence[BindParameter[Any]]) -> Plan:
        check_filled(statement, Lineage(self.entities.of_column), self.entities)
        inputs = inputs_of(statement, parameters, self.entities)
        refs = [parameters[i] for i, target in inputs.positions.items() if takes_keys(target)]
        in_where = not inputs.types and sqla.all_in_where(statement, refs)
        outputs = outputs_of(statement, parameters, self.entities, inputs.keys)
        by_text = sqla.is_from_text(statement)
        return Plan(
            inputs,
            in_where,
            single_of(inputs) if in_where else None,
            outputs,
            by_text,
            rewrites_rows=bool(outputs) or by_text,
        )

    def check(self, options: Iterable[Any]) -> None:
        """Check the loader options of `Session.get`, which has no statement to plan.

        Raises:
            UntranslatableError: a `with_expression()` would load keys as data.
        """
        check_options(options, Lineage(self.entities.of_column))
