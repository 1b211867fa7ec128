"""A statement on its way through a session: prepared, executed, finished.

    prepare   refs in the statement and in its parameters become keys: at most one round trip
    execute   is SQLAlchemy's, on keys alone
    finish    keys in its rows, and in what else it tells, are shown as refs

`plans` says where refs go into statements of one shape and where they come out, `criteria` puts
keys into one, `rows` puts refs into its rows.
Where a ref cannot be used, nothing has been changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, Result
from sqlalchemy.orm import ORMExecuteState

from alfred_refs import sqla
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import DRAFT
from alfred_refs.statements import (
    Plan,
    check_loaded,
    criteria,
    origins,
    rows,
    takes_keys,
    write_results,
)
from alfred_refs.store import Activity

from .alternate_keys import Alternates
from .instances.boundary import Boundary, holds_key
from .missing_rows import Fates, Identity
from .named_keys import Named, NamedKeys
from .translation import Translation


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement with keys in place of its refs, and what is to be done with what it answers.

    Attributes:
        plan: where refs come out.
        values: the statement's parameters as they were given.
        named: the keys that its refs name.
        reached: what it does with which rows, where that is to be kept.
    """

    plan: Plan
    values: Sequence[BindParameter[Any]]
    named: Named
    reached: Sequence[Activity] = ()


def prepare(execution: ORMExecuteState, translation: Translation) -> Prepared | None:
    """Put keys in place of the refs of one execution.

    Returns:
        what `finish` needs; `None` if nothing is to be done once it is executed.

    Raises:
        BadRefError: a ref cannot be used.
        UntranslatableError: the statement would show keys in a way that cannot be rewritten.
    """
    boundary = translation.boundary
    execution.statement, plan, values = translation.plans.of(execution.statement)
    named = None
    if plan.single is not None and not execution.parameters:
        named = _put_one(execution, plan.single, values, boundary)
    if named is None:
        named = _put_all(execution, plan, values, boundary)
    if named and not execution.is_insert:
        translation.sought = partial(_look_for, execution, named, translation)
    is_write = execution.is_insert or execution.is_update or execution.is_delete
    # a sequence or DDL loads no instances
    loads = execution.is_select or isinstance(execution.statement, ClauseElement)
    is_awaited = is_write or (boundary.looks_ahead and loads)
    if plan.answers or is_awaited or (named and execution.parameters):
        return Prepared(plan, values, named, translation.transactions.reached(execution))
    return None


def finish(
    execution: ORMExecuteState, result: Result[Any], prepared: Prepared, translation: Translation
) -> Result[Any]:
    """Return the result of an execution with refs in place of keys, whoever reads it and when."""
    if not execution.is_select:
        translation.transactions.wrote_by(execution, result, prepared.reached)
        _wrote(execution, result, prepared.named, translation)
    return met(execution, _shown(execution, result, prepared, translation.boundary), translation)


def met(execution: ORMExecuteState, result: Result[Any], translation: Translation) -> Result[Any]:
    """Have the keys of a result minted as its rows are fetched, if the session wants that."""
    boundary = translation.boundary
    if not boundary.looks_ahead or not sqla.yields_chunks(result):
        return result
    now = bool(execution.execution_options.get("prebuffer_rows"))
    look = partial(boundary.met, alternates=_alternates_of(execution, boundary))
    return sqla.rewrite_rows(result, look, now=now)


# Refs in


def _put_one(
    execution: ORMExecuteState, single: criteria.Single, values: Sequence[Any], boundary: Boundary
) -> Named | None:
    """Put a key in place of the only ref, the common way; `None` if there is more to look at."""
    statement = execution.statement
    text = single.text_in(statement, values)
    if text is None:
        return None
    if text.startswith(DRAFT):
        _flush(execution)
    column = single.column
    [key] = boundary.conversation.resolve_wanted([(text, column.entity)])
    value = column.from_key(key)
    execution.statement = sqla.with_values_in_where(statement, {values[single.place].key: value})
    return [(column, value)]


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
    keys = NamedKeys(_alternates_of(execution, boundary))
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


def _flush(execution: ORMExecuteState) -> None:
    """Send what waits for a flush, where a ref may name what is among it."""
    if execution.execution_options.get("autoflush", True):
        sqla.autoflush(execution.session)


def _alternates_of(execution: ORMExecuteState, boundary: Boundary) -> Alternates:
    """Return the conversation in which a statement's alternate keys are keys like others."""
    return boundary.alternates.at(execution.bind_arguments)


# Refs out


def _shown(
    execution: ORMExecuteState, result: Result[Any], prepared: Prepared, boundary: Boundary
) -> Result[Any]:
    """Return a result that shows refs in place of keys."""
    plan, entities = prepared.plan, boundary.conversation.entities
    if plan.by_text:
        origins.check_filled_by_text(result, execution.statement, entities)
        keys = {*plan.outputs.columns, *plan.outputs.made}
        look = partial(check_loaded, keys=keys, entities=entities)
        result = sqla.rewrite_rows(result, partial(map, look))
    if not plan.outputs or not getattr(result, "returns_rows", True):
        return result
    alternates = _alternates_of(execution, boundary)
    outputs = plan.outputs.named(prepared.values)
    if outputs.unknown:
        outputs = origins.traced(outputs, result, entities)
    seen = _MetTogether(alternates, boundary) if boundary.eager else alternates
    rewrite = partial(rows.with_refs, outputs=outputs, conversation=seen)
    return sqla.rewrite_rows(result, partial(map, rewrite))


def _wrote(
    execution: ORMExecuteState, result: Result[Any], named: Named, translation: Translation
) -> None:
    """Cover what a write tells beside its rows, and note which rows it deleted."""
    boundary = translation.boundary
    boundary.alternates.forget()
    entities = boundary.conversation.entities
    alternates = _alternates_of(execution, boundary)
    write_results.cover(result, execution.statement, entities, alternates, now=boundary.eager)
    cursor = sqla.cursor_result_of(result)
    if named and execution.is_delete and (cursor is None or cursor.rowcount):
        _note_deleted(execution, named, translation)


def _note_deleted(execution: ORMExecuteState, named: Named, translation: Translation) -> None:
    """Note which of the rows that a DELETE names by their refs are gone: one more statement.

    Other criteria may have spared some, and a row that was not found may be hidden.
    """
    primary = list(cast(Any, execution.statement).table.primary_key)
    names = [str(column) for column in primary]
    pairs = [(column, value) for column, value in named if [column.name] == names]
    if not pairs:
        return
    identity = Identity(primary, [pairs[0][0]])
    fates = Fates(execution.session, translation.conversation, execution.bind_arguments)
    gone = fates.deleted(identity, {column.to_key(value) for column, value in pairs})
    values = [value for key in gone for value in identity.values_of(key)]
    translation.transactions.deleted_rows(primary[0], values)


def _look_for(execution: ORMExecuteState, named: Named, translation: Translation) -> None:
    """Look whether the rows are there that a statement names by their refs: it has found none.

    Raises:
        GoneRefError: one is not.
    """
    fates = Fates(execution.session, translation.conversation, execution.bind_arguments)
    fates.check_named(named)


@dataclass(frozen=True, slots=True)
class _MetTogether:
    """A conversation in which the keys of rows are met with those of the instances before them.

    Attributes:
        conversation: where the keys have refs.
        boundary: of the instances.
    """

    conversation: Alternates
    boundary: Boundary

    def make_room(self) -> bool:
        """See `SessionConversation.make_room`."""
        return self.conversation.make_room()

    def meet(self, pairs: Collection[EntityKey]) -> None:
        """See `SessionConversation.meet`: one round trip for all."""
        self.conversation.meet([*self.boundary.new_keys(self.conversation), *pairs])

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """See `SessionConversation.refs_of`."""
        return self.conversation.refs_of(entity)

    def refs_met(self, key: Key) -> Collection[str]:
        """See `SessionConversation.refs_met`."""
        return self.conversation.refs_met(key)
