"""Keys stored or loaded as data: refused, because they would be shown without a ref from then on.

A statement may populate an attribute, or set a column, with an expression that is made of keys:

    select(Recipe).from_statement(select(Recipe.id, cast(Recipe.id, String).label("name")))
    select(Recipe).options(with_expression(Recipe.note, cast(Recipe.id, String)))
    update(Recipe).values(name=cast(Recipe.id, String))

The attribute or column is plain data, so its value would be shown as it is. `check_filled` and
`check_options` refuse this from the statement alone, before it executes. For `text()`, whose
columns are unknown or bare names, `check_loaded` looks at each loaded value.

Example:
    >>> from sqlalchemy import String, cast, update
    >>> from alfred_refs import RefPolicy
    >>> entities = Entities(RefPolicy())
    >>> statement = update(Recipe).values(name=cast(Recipe.id, String))
    >>> check_filled(statement, Lineage(entities.of_column), entities)
    Traceback (most recent call last):
    alfred_refs.errors.UntranslatableError: recipes.name would hold keys without refs; ...

Keys that were stored as data before, by SQL that this package does not see, are not found.
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


def check_filled(statement: Executable, lineage: Lineage, entities: Entities) -> None:
    """Check that a statement loads and stores no key as data.

    Args:
        statement: any.
        lineage: that of its expressions.
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
        rows: of instances and values.
        keys: the positions of values that are shown as refs.
        entities: the application's entities, for the key attributes of instances.

    Raises:
        UntranslatableError: data may be a key. An instance that has it is expired.
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
