"""The refs that one execution brings become keys: at most one round trip.

An execution comes in with its statement's plan and leaves with keys in the statement and in its
parameters; what the refs named goes out. Where a ref cannot be used, nothing has been changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import ORMExecuteState

from . import criteria, sqla
from .alternates import Alternates
from .boundary import Boundary, holds_key
from .columns import KeyColumn
from .criteria import Single
from .plans import Plan
from .refs import DRAFT
from .session_conversation import SessionConversation

Named = Sequence[tuple[KeyColumn, Any]]
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
    if named is None:
        named = _put_all(execution, plan, values, boundary)
    # of a write, the ORM may look up the rows by a statement of its own, which has the keys
    if named and not execution.is_select:
        execution.update_execution_options(raw_keys=True)
    return named


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
    texts = criteria.texts(inputs, *given)
    if not texts:
        return []
    if any(column.by or text.startswith(DRAFT) for text, column in texts):
        _flush(execution)
    wanted = [(text, column.space) for text, column in texts]
    keys = alternates_of(execution, boundary).resolve_wanted(wanted)
    swapped = {
        (text, column): column.from_key(key)
        for (text, column), key in zip(texts, keys, strict=True)
    }
    execution.statement, execution.parameters = criteria.with_keys(
        inputs, *given, lambda text, col: swapped[text, col], in_where=plan.in_where
    )
    return [(column, value) for (_, column), value in swapped.items()]


def _flush(execution: ORMExecuteState) -> None:
    """Send what waits for a flush, where a ref may name what is among it."""
    if execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)


def alternates_of(execution: ORMExecuteState, boundary: Boundary) -> Alternates:
    """Return the conversation in which a statement's alternate keys are keys like others."""
    return boundary.alternates.at(execution.bind_arguments)
