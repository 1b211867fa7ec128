"""What a statement puts into attributes and columns: refuses keys where data belong.

A key that is cast to text, and loaded under the name of a data column or stored in one, is data
from then on, and would be shown. What a statement fills comes in, and `Exposure` tells what the
expressions show; nothing goes out, or an error. Pure.

    select(Recipe).from_statement(select(Recipe.id, cast(Recipe.id, String).label("name")))
    update(Recipe).values(name=cast(Recipe.id, String))
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import ClauseElement, Column, Executable
from sqlalchemy.orm import Session, object_session

from . import sqla
from .columns import KeyColumn
from .entities import Entities
from .errors import UntranslatableError
from .exposure import Exposure
from .keys import spells_uuid
from .meetings import columns_of, element_of
from .shown import UNTYPED, Shown, alike, columns_in, spelled

_REMEDY = (
    "give it another name, or use session.raw_keys() or execution_options(raw_keys=True) in "
    "trusted code"
)


def check_filled(statement: Executable, exposure: Exposure, entities: Entities) -> None:
    """Check that no key is loaded or stored as data.

    Raises:
        UntranslatableError: one is.
    """
    check_options(sqla.options_of(statement), exposure)
    for mapper, name, expression in sqla.attributes_filled(statement):
        key = entities.of_class(mapper.class_).all.get(name)
        _check(exposure.of(expression), key, f"{mapper.class_.__name__}.{name}")
    for column, expression in _columns_filled(statement):
        if entities.of_column(column) is None and any(columns_in(exposure.of(expression))):
            raise _refused(str(column))


def check_options(options: Iterable[Any], exposure: Exposure) -> None:
    """Check that no key is loaded as data by `with_expression()`.

    Raises:
        UntranslatableError: one is.
    """
    for expression in sqla.expressions_of(options):
        _check(exposure.of(expression), None, "an attribute filled by with_expression()")


def _columns_filled(statement: Executable) -> Iterator[tuple[Column[Any], ClauseElement]]:
    """Yield what inserts and updates store, where it is an expression, with the columns."""
    for write in sqla.elements_of(statement):
        columns, ordered = columns_of(write)
        pairs = [*sqla.values_of(write), *sqla.conflict_values_of(write)] if columns else []
        for record in itertools.chain.from_iterable(sqla.many_values_of(write)):
            named = isinstance(record, Mapping)
            pairs += record.items() if named else zip(ordered, record, strict=False)
        for name, value in [*pairs, *sqla.selected_into(write)] if columns else ():
            column = columns.get(name) if isinstance(name, str) else element_of(name)
            stored = element_of(value)
            if isinstance(column, Column) and isinstance(stored, ClauseElement):
                yield column, stored


def check_instances(rows: Sequence[Any], entities: Entities) -> Sequence[Any]:
    """Return rows, whose instances were loaded by text: nobody knows what that has selected.

    Raises:
        UntranslatableError: an attribute of data has what may be a key; its instance is expired.
    """
    loaded = itertools.chain.from_iterable(rows)
    for instance in (each for each in loaded if hasattr(each, "_sa_instance_state")):
        state = sqla.state_of(instance)
        keys = entities.of_class(state.class_).all
        for name, value in state.dict.items():
            if name not in keys and isinstance(value, str) and spells_uuid(value):
                cast(Session, object_session(instance)).expire(instance)
                raise _refused(f"{state.class_.__name__}.{name}")
    return rows


def _check(shown: Shown, key: KeyColumn | None, what: str) -> None:
    if shown in (None, UNTYPED):
        return
    if key is None or alike(spelled(shown), spelled(key)) is None:
        raise _refused(what)


def _refused(what: str) -> UntranslatableError:
    return UntranslatableError(f"{what} would have keys that no ref stands for", _REMEDY)
