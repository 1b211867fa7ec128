"""The keys that the refs in one statement name, and in SQL expressions that are assigned.

Texts come in with the columns that they meet, and are resolved together. Some parameters are read
late, when SQLAlchemy executes the statement: their refs are resolved then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, update
from sqlalchemy.orm import InstanceState

from alfred_refs import sqla
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.statements import InputTarget, criteria, swapped

from .alternate_keys import Alternates
from .instances.boundary import holds_key
from .translation import Translation

Named = Iterable[tuple[KeyColumn, Any]]
"""The keys that the refs in a statement name, each with the column that it meets."""


class NamedKeys:
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


def put_keys_in_assigned(states: Iterable[InstanceState[Any]], translation: Translation) -> None:
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
                state.dict[name] = _with_keys(column, value, translation)


def _with_keys(column: Any, value: Any, translation: Translation) -> Any:
    """Return an SQL expression for a column with keys in place of its refs."""
    statement, plan, values = translation.plans.of(update(column.table).values({column: value}))
    inputs = plan.inputs.without([i for i in plan.inputs.positions if holds_key(values[i])])
    texts = criteria.texts(inputs, statement, values, None)
    if not texts:
        return value
    keys = NamedKeys(translation.boundary.alternates)
    keys.resolve(texts)
    statement, _ = criteria.with_keys(inputs, statement, values, None, keys.key)
    return next(expression for _, expression in sqla.values_of(statement))
