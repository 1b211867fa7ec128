"""Values that a column gets where a statement gives none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, ColumnDefault


def put_default(column: Column[Any], make: Callable[[], Any]) -> None:
    """Have new rows get what a function makes, of a column that is made already.

    Leans on `SchemaItem._set_parent_with_dispatch`, by which `Column` takes its `default`.
    """
    ColumnDefault(make)._set_parent_with_dispatch(column)
