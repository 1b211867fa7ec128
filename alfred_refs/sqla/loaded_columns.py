"""What the ORM fills the attributes of instances with, where that is no column of their table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sqlalchemy import Executable, Table, TextClause
from sqlalchemy.orm import FromStatement, Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql.selectable import Alias, FromClause

from .clauses import options_of

Filled = tuple[Mapper[Any], str, Any]
"""A mapper, the name of one of its attributes, and the expression that it is filled with."""


def attributes_filled(statement: Executable) -> Iterator[Filled]:
    """Yield what attributes are filled with by `from_statement()`, and by aliases of subqueries.

    Both go by names, too: an expression called as a column fills its attribute.
    """
    if isinstance(statement, FromStatement):
        yield from _by_name(statement)
    elements = getattr(statement, "_raw_columns", ())
    entities = [each for each in elements if isinstance(each, FromClause)]
    found = [each._annotations.get("parententity") for each in entities]
    for option in options_of(statement):
        for load in getattr(option, "context", ()):
            found += load.path.path
    for alias in dict.fromkeys(each for each in found if isinstance(each, AliasedInsp)):
        yield from _by_alias(alias)


def loads_by_text(statement: Executable) -> bool:
    """Tell whether instances are loaded by text that does not say what its columns are."""
    return isinstance(statement, FromStatement) and isinstance(statement.element, TextClause)


def names_filled(statement: Executable) -> Iterator[tuple[Mapper[Any], str, set[str]]]:
    """Yield the attributes that `from_statement()` fills, with the names that it goes by."""
    for entity in cast(Any, statement)._raw_columns:
        inspected: Any = entity._annotations.get("parententity")
        if inspected is None:
            continue
        for mapper in inspected.mapper.self_and_descendants:
            for attribute in mapper.column_attrs:
                names = {name for c in attribute.columns for name in (c.key, c.name)}
                yield mapper, attribute.key, names


def _by_name(statement: FromStatement[Any]) -> Iterator[Filled]:
    element: Any = statement.element
    columns = list(getattr(element, "exported_columns", ()))
    for mapper, key, names in names_filled(statement):
        for column in columns:
            if not names.isdisjoint((column.key, column.name)):
                yield mapper, key, column


def _by_alias(alias: AliasedInsp[Any]) -> Iterator[Filled]:
    selectable: Any = alias.selectable
    if isinstance(selectable, Alias) and isinstance(selectable.element, Table):
        return
    for attribute in alias.mapper.column_attrs:
        column = attribute.columns[0]
        filled = selectable.corresponding_column(column)
        if filled is None and alias._adapt_on_names:
            filled = selectable.exported_columns.get(column.key)
        if filled is not None:
            yield alias.mapper, attribute.key, filled
