"""What the rows, relationships and labels of tables are called that no program has mapped.

    entity_names("order_lines")     # ["order_line", "order_lines", ...]: the best first
    row_names(foreign_key, "user")  # of a column author_id: ["author", "author_id_row"]
    label_columns(columns, "user")  # ["first_name", "last_name"]

Names that are wrong are names all the same. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import chain, count
from typing import Any

from sqlalchemy import Column, Enum, ForeignKeyConstraint, String

from alfred_refs.mapping.naming import singular

# columns with what people call a row, the best first; `{}` is the entity
_LABELS = (
    *("name", "title", "label", "display_name", "full_name", "{}_name", "{}_title"),
    *("username", "user_name", "login", "email", "email_address", "{}_email", "slug", "subject"),
    *("code", "{}_code", "sku", "number", "{}_number", "isbn"),
)
_FIRST_AND_LAST = (
    ("first_name", "last_name"),
    ("firstname", "lastname"),
    ("given_name", "surname"),
)

# a column of a foreign key -> what the row that it names is called
_NAMES_A_ROW = re.compile(r"(.+?)_?(?:id|ID|Id|uuid|UUID|fk)")


def label_columns(columns: Iterable[Column[Any]], entity: str) -> list[str]:
    """Return the columns with what people call rows of a table; none if none has such a name."""
    texts = {column.key.lower(): column.key for column in columns if _is_text(column)}
    wanted = chain(
        ([name.format(entity)] for name in _LABELS[:5]),
        _FIRST_AND_LAST,
        ([name.format(entity)] for name in _LABELS[5:]),
    )
    for names in wanted:
        if all(name in texts for name in names):
            return [texts[name] for name in names]
    return []


def _is_text(column: Column[Any]) -> bool:
    is_key = column.primary_key or column.foreign_keys
    return not is_key and isinstance(column.type, String) and not isinstance(column.type, Enum)


def joined(columns: Iterable[str]) -> Callable[[Any], str]:
    """Return what makes a label of what a row has in several columns."""
    return lambda row: " ".join(filter(None, (getattr(row, name) for name in columns)))


def entity_names(table: str) -> list[str]:
    """Return what the rows of a table may be called in refs, the best first."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", table).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_").removeprefix("gen_") or "row"
    return [singular(plain), plain, f"{plain}_row", f"table_{plain}_row"]


def row_names(key: ForeignKeyConstraint, entity: str) -> list[str]:
    """Return what the row may be called that a foreign key names, the best first."""
    if len(key.column_keys) > 1:
        return [entity]
    (column,) = key.column_keys
    found = _NAMES_A_ROW.fullmatch(column)
    return [found[1] if found else column, f"{column}_row"]


def free(
    names: Iterable[str],
    taken: Collection[str],
    fits: Callable[[str], bool] = bool,
) -> str:
    """Return the first of some names that is free, or else the last one with letters behind it."""
    last = ""
    for name in names:
        last = name
        if name not in taken and fits(name):
            return name
    return next(n for n in (f"{last}{'_x' * k}" for k in count(1)) if n not in taken and fits(n))
