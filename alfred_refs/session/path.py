"""The refs that one execution brings become keys: at most one round trip.

An execution comes in with its statement's plan and leaves with keys in the statement and in its
parameters; what the refs named goes out. Where a ref cannot be used, nothing has been changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, update
from sqlalchemy.orm import InstanceState, ORMExecuteState

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.refs import DRAFT
from alfred_refs.session.instances.boundary import Boundary, holds_key
from alfred_refs.statements import criteria
from alfred_refs.statements.criteria import Single
from alfred_refs.statements.plans import Plan
from alfred_refs.statements.targets import InputTarget, swapped, takes_keys

from .alternate_keys import Alternates

Named = Iterable[tuple[KeyColumn, Any]]
"""The keys that the refs in a statement name, each with the column that it meets."""


def put_keys(
    execution: ORMExecuteState, plan: Plan, values: Sequence[Any], boundary: Boundary
) -> Named:
    """Put keys in place of the refs of one execution, and return them.

    Raises:
        BadRefError: a ref cannot be used.
    """
    named = None
    if plan.single is not None:
        named = _put_one(execution, plan.single, values, boundary.conversation)
    return _put_all(execution, plan, values, boundary) if named is None else named


def _put_one(
    execution: ORMExecuteState,
    single: Single,
    values: Sequence[Any],
    conversation: SessionConversation,
) -> Named | None:
    """Put a key in place of the only ref, the common way; `None` if there is more to look at."""
    statement = execution.statement
    text = None if execution.parameters else single.text_in(statement, values)
    if text is None:
        return None
    if text.startswith(DRAFT):
        _flush(execution)
    [key] = conversation.resolve_wanted([(text, single.column.entity)])
    value = single.column.from_key(key)
    execution.statement = single.with_key(statement, values, value)
    return [(single.column, value)]


def _put_all(
    execution: ORMExecuteState, plan: Plan, values: Sequence[Any], boundary: Boundary
) -> Named:
    """Put keys in place of all refs of one execution, wherever they stand."""
    if execution.parameters:
        sqla.check_parameters(execution.parameters)
    given = execution.statement, values, execution.parameters
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    late = {i: slot for i, slot in inputs.positions.items() if values[i].callable is not None}
    inputs = inputs.without(late)
    texts = criteria.texts(inputs, *given)
    if not texts and not late:
        return ()
    if any(column.by or text.startswith(DRAFT) for text, column in texts):
        _flush(execution)
    keys = _Keys(alternates_of(execution, boundary))
    keys.resolve(texts)
    in_where = plan.in_where and all(map(takes_keys, late.values()))
    execution.statement, execution.parameters = criteria.with_keys(
        inputs,
        *given,
        keys.key,
        late={values[i].key: keys.late(values[i], slot) for i, slot in late.items()},
        in_where=in_where,
    )
    return keys


def put_keys_in_assigned(states: Iterable[InstanceState[Any]], boundary: Boundary) -> None:
    """Put keys in place of the refs in SQL expressions that are assigned to attributes.

    They are looked at as an UPDATE with the same values is.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: an expression would show keys, or cannot be translated.
    """
    for state in states:
        # what is not new in a row that is there is not sent
        for name in [*(state.dict if state.key is None else state.committed_state)]:
            value = state.dict.get(name)
            if not (isinstance(value, ClauseElement) or hasattr(value, "__clause_element__")):
                continue
            if name in state.mapper.column_attrs:
                column = state.mapper.column_attrs[name].columns[0]
                state.dict[name] = _with_keys(column, value, boundary)


def _with_keys(column: Any, value: Any, boundary: Boundary) -> Any:
    """Return an SQL expression for a column with keys in place of its refs."""
    statement, plan, values = boundary.conversation.plans.of(
        update(column.table).values({column: value})
    )
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    texts = criteria.texts(inputs, statement, values, None)
    if not texts:
        return value
    keys = _Keys(boundary.alternates)
    keys.resolve(texts)
    statement, _ = criteria.with_keys(inputs, statement, values, None, keys.key)
    return next(expression for _, expression in sqla.values_of(statement))


class _Keys:
    """The keys that the refs of one execution name: of those that are read late, later."""

    def __init__(self, alternates: Alternates) -> None:
        self._alternates = alternates
        self._known: dict[tuple[str, KeyColumn], Any] = {}

    def __iter__(self) -> Iterator[tuple[KeyColumn, Any]]:
        """Yield the keys, each with the column that it meets."""
        return ((column, value) for (_, column), value in self._known.items())

    def __bool__(self) -> bool:
        return bool(self._known)

    def key(self, text: str, column: KeyColumn) -> Any:
        """Return the key for a text, as the column has it."""
        return self._known[text, column]

    def resolve(self, texts: Sequence[tuple[str, KeyColumn]]) -> None:
        """Resolve texts: at most one round trip.

        Raises:
            BadRefError: one cannot be used.
        """
        if texts:
            keys = self._alternates.resolve_wanted([(text, c.space) for text, c in texts])
            for (text, column), key in zip(texts, keys, strict=True):
                self._known[text, column] = column.from_key(key)

    def late(self, parameter: BindParameter[Any], slot: InputTarget) -> sqla.LateKey:
        """Return what reads a parameter when SQLAlchemy does, and resolves what it is then."""

        def as_key(value: Any) -> Any:
            if holds_key(parameter):  # an instance's, which was flushed meanwhile
                return value
            self.resolve(criteria.texts_in(parameter, value, slot))
            return swapped(value, slot, self.key)

        return sqla.LateKey(cast("Callable[[], Any]", parameter.callable), as_key)


def _flush(execution: ORMExecuteState) -> None:
    """Send what waits for a flush, where a ref may name what is among it."""
    if execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)


def alternates_of(execution: ORMExecuteState, boundary: Boundary) -> Alternates:
    """Return the conversation in which a statement's alternate keys are keys like others."""
    return boundary.alternates.at(execution.bind_arguments)
