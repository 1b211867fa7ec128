"""Statement plans: where refs go into a statement and keys come out of its rows.

A `StatementPlan` is made once for all statements of one cache key, which differ in values alone,
as SQLAlchemy's compiled form is. `StatementPlans.of` returns it, with the statement and its
parameters:

1. lambdas in a statement are replaced by their expressions, whose parameters can be replaced;
2. `check_filled` checks that no key is loaded or stored as data;
3. `inputs` finds where refs may be in the statement, `results` where keys are in its rows.

Each execution then goes by the plan, without looking at the statement's clauses again.

>>> from alfred_refs import RefPolicy
>>> plans = StatementPlans(Entities(RefPolicy()))
>>> statement, plan, parameters = plans.of(select(Line.id).where(Line.recipe_id == "recipe_1"))
>>> plan.single.column.name, plan.outputs.columns[0].name
('lines.recipe_id', 'lines.id')
>>> plans.of(select(Line.id).where(Line.recipe_id == "recipe_2"))[1] is plan
True

Keys as data are refused, because they would be shown without a ref from then on. A statement may
populate an attribute, or set a column, with an expression that is made of keys:

    select(Recipe).from_statement(select(Recipe.id, cast(Recipe.id, String).label("name")))
    select(Recipe).options(with_expression(Recipe.note, cast(Recipe.id, String)))
    update(Recipe).values(name=cast(Recipe.id, String))

For `text()`, whose columns are unknown or bare names, `check_loaded` looks at each loaded value.

>>> from sqlalchemy import String, cast, update
>>> plans.of(update(Recipe).values(name=cast(Recipe.id, String)))
Traceback (most recent call last):
alfred_refs.errors.UntranslatableError: recipes.name would hold keys without refs; ...

Limits:

- At most 500 plans are kept, and the oldest is dropped for a new one.
- A plan keeps no class of the application alive, and is not shared between applications with other
  policies.
- Keys that were stored as data before, by SQL that this package does not see, are not found.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, Executable, Insert
from sqlalchemy.orm import Session, object_session
from sqlalchemy.sql.dml import UpdateBase

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.mapping.lineage import (
    UNTYPED,
    KeyShape,
    Lineage,
    Unknown,
    columns_in,
    common_shape,
    with_other_spelling,
)
from alfred_refs.statements.dataflow import assignments_of
from alfred_refs.statements.inputs import Inputs, Single, inputs_of, single_of, takes_keys
from alfred_refs.statements.results import Outputs, outputs_of

_CAPACITY = 500  # the default size of SQLAlchemy's compiled cache


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """Where refs go into statements of one cache key, and keys come out of their rows.

    Attributes:
        inputs: where refs go in.
        in_where: whether `sqla.all_in_where` holds for the parameters among them.
        single: the only place for a ref, if `in_where` and there is just one.
        has_data: whether there are values for columns of data, in which a program may copy refs.
        outputs: where keys come out.
        by_text: whether instances are loaded by a `text()`, so that `check_loaded` must see them.
        rewrites_rows: whether the rows of the result must be rewritten or checked.
    """

    inputs: Inputs
    in_where: bool
    single: Single | None
    has_data: bool
    outputs: Outputs
    by_text: bool
    rewrites_rows: bool


class StatementPlans:
    """The plans of one application, by the cache key of their statements.

    Attributes:
        entities: the application's entities, for the keys of a column.
    """

    def __init__(self, entities: Entities) -> None:
        self.entities = entities
        self._plans: dict[Hashable, StatementPlan] = {}
        self._lock = threading.Lock()

    def of(
        self, statement: Executable
    ) -> tuple[Executable, StatementPlan, Sequence[BindParameter[Any]]]:
        """Return a statement without lambdas, its plan, and its parameters as the plan has them.

        Raises:
            UntranslatableError: the statement cannot be translated, for any values.
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

    def _plan(
        self, statement: Executable, parameters: Sequence[BindParameter[Any]]
    ) -> StatementPlan:
        check_filled(statement, Lineage(self.entities.of_column), self.entities)
        inputs = inputs_of(statement, parameters, self.entities)
        refs = [parameters[i] for i, target in inputs.positions.items() if takes_keys(target)]
        in_where = not inputs.types and sqla.all_in_where(statement, refs)
        outputs = outputs_of(statement, parameters, self.entities, inputs.keys)
        by_text = sqla.is_from_text(statement)
        return StatementPlan(
            inputs=inputs,
            in_where=in_where,
            single=single_of(inputs) if in_where else None,
            has_data=len(inputs.positions) < len(parameters) or isinstance(statement, Insert),
            outputs=outputs,
            by_text=by_text,
            rewrites_rows=bool(outputs) or by_text,
        )

    def check(self, options: Iterable[Any]) -> None:
        """Check the loader options of `Session.get`, which has no statement to plan.

        Raises:
            UntranslatableError: a `with_expression()` would load keys as data.
        """
        check_options(options, Lineage(self.entities.of_column))


# Keys stored or loaded as data


def check_filled(statement: Executable, lineage: Lineage, entities: Entities) -> None:
    """Check that a statement loads and stores no key as data.

    Args:
        statement: any.
        lineage: of its expressions.
        entities: the application's entities, for the keys of attributes and columns.

    Raises:
        UntranslatableError: it does.
    """
    check_options(sqla.options_of(statement), lineage)
    by_text = sqla.is_from_text(statement)
    for mapper, name, expression in sqla.populated_attributes(statement):
        key = entities.of_class(mapper.class_).all.get(name)
        shape = lineage.of(expression)
        if not (by_text and isinstance(shape, Unknown)):  # `check_loaded` looks at the values
            check_shape(shape, key, f"{mapper.class_.__name__}.{name}")
    for write in sqla.elements_of(statement):
        if isinstance(write, UpdateBase):
            table, _ = sqla.write_target(write)
            own_lineage = Lineage(entities.of_column, written=table)
            for column, value in assignments_of(write):
                is_data = isinstance(value, ClauseElement) and entities.of_column(column) is None
                if is_data and any(columns_in(own_lineage.of(value))):
                    raise _key_as_data(str(column))


def check_options(options: Iterable[Any], lineage: Lineage) -> None:
    """Check that `with_expression()` loads no key as data.

    Raises:
        UntranslatableError: it does.
    """
    for expression in sqla.query_expressions(options):
        check_shape(lineage.of(expression), None, "an attribute filled by with_expression()")


def check_shape(shape: KeyShape, key: KeyColumn | None, name: str) -> None:
    """Check the expression that populates an attribute.

    Args:
        shape: the keys in its values.
        key: the keys of the attribute itself; `None` for plain data.
        name: `Class.attribute`, for the message.

    Raises:
        UntranslatableError: the expression has other keys than the attribute.
    """
    if shape in (None, UNTYPED) or (key is not None and isinstance(shape, Unknown)):
        return
    if key is None or common_shape(with_other_spelling(shape), with_other_spelling(key)) is None:
        raise _key_as_data(name)


def check_loaded(rows: Sequence[Any], keys: Container[int], entities: Entities) -> Sequence[Any]:
    """Check rows that a `text()` has loaded, and return them.

    Args:
        rows: rows of instances and values.
        keys: the positions of the values that are shown as refs.
        entities: the application's entities, for the key attributes of instances.

    Raises:
        UntranslatableError: a value outside key columns looks like a UUID. If it is an
            attribute of an instance, that instance is expired first.
    """
    for row in rows:
        for position, value in enumerate(row):
            if sqla.is_instance(value):
                _check_instance(value, entities)
            elif position not in keys and _may_be_key(value):
                raise _key_as_data("a value loaded by text")
    return rows


def _check_instance(instance: Any, entities: Entities) -> None:
    state = sqla.state_of(instance)
    keys = entities.of_class(state.class_).all
    for name, value in state.dict.items():
        if name not in keys and _may_be_key(value):
            cast(Session, object_session(instance)).expire(instance)
            raise _key_as_data(f"{state.class_.__name__}.{name}")


def _may_be_key(value: Any) -> bool:
    return isinstance(value, str) and spells_uuid(value)


def _key_as_data(name: str) -> UntranslatableError:
    return UntranslatableError(
        f"{name} would hold keys without refs",
        "give it another name, or use session.raw_keys() or execution_options(raw_keys=True) in "
        "trusted code",
    )
