"""What a statement puts into attributes and columns: refuses keys where data belong.

A key that is cast to text, and loaded under the name of a data column or stored in one, is data
from then on, and would be shown. What a statement fills comes in, and its lineage; nothing goes
out, or an error. Pure.

    select(Recipe).from_statement(select(Recipe.id, cast(Recipe.id, String).label("name")))
    update(Recipe).values(name=cast(Recipe.id, String))
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, cast

from sqlalchemy import ClauseElement, Executable
from sqlalchemy.orm import Session, object_session
from sqlalchemy.sql.dml import UpdateBase

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.mapping.lineage import Lineage
from alfred_refs.mapping.shapes import UNTYPED, KeyShape, Unknown, alike, columns_in, spelled

from .comparisons import stored_by

_REMEDY = (
    "give it another name, or use session.raw_keys() or execution_options(raw_keys=True) in "
    "trusted code"
)


def check_filled(statement: Executable, lineage: Lineage, entities: Entities) -> None:
    """Check that no key is loaded or stored as data.

    Raises:
        UntranslatableError: one is.
    """
    check_options(sqla.options_of(statement), lineage)
    for mapper, name, expression in sqla.attributes_filled(statement):
        key = entities.of_class(mapper.class_).all.get(name)
        check_shape(lineage.of(expression), key, f"{mapper.class_.__name__}.{name}")
    for write in sqla.elements_of(statement):
        if isinstance(write, UpdateBase):
            table, _ = sqla.written_by(write)
            stored = Lineage(entities.of_column, written=table)
            for column, value in stored_by(write):
                is_data = isinstance(value, ClauseElement) and entities.of_column(column) is None
                if is_data and any(columns_in(stored.of(value))):
                    raise _refused(str(column))


def check_options(options: Iterable[Any], lineage: Lineage) -> None:
    """Check that no key is loaded as data by `with_expression()`.

    Raises:
        UntranslatableError: one is.
    """
    for expression in sqla.expressions_of(options):
        check_shape(lineage.of(expression), None, "an attribute filled by with_expression()")


def check_loaded(rows: Sequence[Any], keys: Container[int], entities: Entities) -> Sequence[Any]:
    """Return rows that were loaded by text: nobody knows what that has selected.

    Args:
        rows: of instances and values.
        keys: the positions of values that refs are shown for.
        entities: say which attributes hold keys.

    Raises:
        UntranslatableError: data may be a key; an instance that has it is expired.
    """
    for row in rows:
        for place, value in enumerate(row):
            if sqla.is_instance(value):
                _check_instance(value, entities)
            elif place not in keys and _may_be_key(value):
                raise _refused("a value loaded by text")
    return rows


def _check_instance(instance: Any, entities: Entities) -> None:
    state = sqla.state_of(instance)
    keys = entities.of_class(state.class_).all
    for name, value in state.dict.items():
        if name not in keys and _may_be_key(value):
            cast(Session, object_session(instance)).expire(instance)
            raise _refused(f"{state.class_.__name__}.{name}")


def _may_be_key(value: Any) -> bool:
    return isinstance(value, str) and spells_uuid(value)


def check_shape(shape: KeyShape, key: KeyColumn | None, what: str) -> None:
    """Check what an attribute is filled with, which holds keys of its own or none.

    Raises:
        UntranslatableError: others are in it.
    """
    if shape in (None, UNTYPED) or (key is not None and isinstance(shape, Unknown)):
        return
    if key is None or alike(spelled(shape), spelled(key)) is None:
        raise _refused(what)


def _refused(what: str) -> UntranslatableError:
    return UntranslatableError(f"{what} would have keys that no ref stands for", _REMEDY)
