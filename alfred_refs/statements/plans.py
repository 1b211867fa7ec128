"""Where refs go into a statement and keys come out of its rows: looked for once a shape.

Statements that differ in values alone have one shape, as in SQLAlchemy's compiled cache.
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

from .assignments import check_filled, check_options
from .criteria import Single, single_of
from .inputs import Inputs, inputs_of
from .rows import Outputs, outputs_of
from .targets import takes_keys

_CAPACITY = 500  # shapes kept: as many as SQLAlchemy's own compiled cache


@dataclass(frozen=True, slots=True)
class Plan:
    """Where refs go into statements of one shape, and where they come out of its rows.

    Attributes:
        inputs: where refs go in.
        in_where: whether all parameters among them are plain comparisons of the WHERE.
        single: the one place where a ref goes in, if that is all there is.
        outputs: where refs come out.
        by_text: whether instances are loaded that are to be looked at.
        answers: whether there is anything to show, or to look at.
    """

    inputs: Inputs
    in_where: bool
    single: Single | None
    outputs: Outputs
    by_text: bool
    answers: bool


class Plans:
    """The plans of one application, by the shape of their statements; the oldest give way.

    Of classes that the application drops nothing is kept alive: their plans are never met again.

    Attributes:
        entities: which columns hold keys.
    """

    def __init__(self, entities: Entities) -> None:
        self.entities = entities
        self._plans: dict[Hashable, Plan] = {}
        self._lock = threading.Lock()

    def of(self, statement: Executable) -> tuple[Executable, Plan, Sequence[BindParameter[Any]]]:
        """Return a statement without lambdas, its plan, and its parameters as the plan knows them.

        Raises:
            UntranslatableError: the statement would show keys in a way that cannot be rewritten.
        """
        shape, parameters = sqla.shape_of(statement)
        try:
            plan = self._plans.get(shape)
        except ReferenceError:  # a class has come to the place of one that is gone
            with self._lock:
                self._plans.clear()
            plan = None
        if plan is None:
            if sqla.has_lambdas(statement):
                return self.of(sqla.without_lambdas(statement))
            check_filled(statement, Lineage(self.entities.of_column), self.entities)
            inputs = inputs_of(statement, parameters, self.entities)
            replaced = [
                parameters[i] for i, target in inputs.positions.items() if takes_keys(target)
            ]
            in_where = not inputs.types and sqla.stand_in_where(statement, replaced)
            outputs = outputs_of(statement, parameters, self.entities, inputs.keys)
            by_text = sqla.loads_by_text(statement)
            plan = Plan(
                inputs,
                in_where,
                single_of(inputs) if in_where else None,
                outputs,
                by_text,
                answers=bool(outputs) or by_text,
            )
            if shape is not None:
                self._keep(shape, plan)
        return statement, plan, parameters

    def check(self, options: Iterable[Any]) -> None:
        """Refuse loader options that would put keys into attributes without translation.

        Raises:
            UntranslatableError: a `with_expression()` shows keys, or what is not known.
        """
        check_options(options, Lineage(self.entities.of_column))

    def _keep(self, shape: Hashable, plan: Plan) -> None:
        with self._lock:
            if len(self._plans) >= _CAPACITY:
                del self._plans[next(iter(self._plans))]
            self._plans[sqla.WeakShape(shape)] = plan
