"""What a driver's exception says of a violated constraint, whichever driver it is of. Pure."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DBAPIError


def said(error: DBAPIError) -> dict[str, Any]:
    """Return what an exception says, field by field: in the driver's `diag`, or by itself.

    Returns:
        `sqlstate`, and as far as they are told `table_name`, `column_name`, `constraint_name`.
    """
    found: dict[str, Any] = {"sqlstate": None}
    each: BaseException | None = error.orig
    while each is not None:
        diagnosis: Any = getattr(each, "diag", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        found["sqlstate"] = found["sqlstate"] or state
        for name in ("table_name", "column_name", "constraint_name"):
            value = getattr(diagnosis, name, None)
            if value is not None:
                found.setdefault(name, value)
        each = each.__cause__
    return found
