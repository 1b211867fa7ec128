"""What a model is told of a statement that is not rebuilt: the fact, then the way that works.

>>> refused("LATERAL is not known here", "use a window, or a subquery in WITH").to_json()
{'error': {'code': 'invalid_sql', 'message': 'the statement cannot be answered: LATERAL is not ...
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from alfred_refs.tools.errors import ToolError, invalid_sql

refused = invalid_sql
"""Return the error: what is in the statement, and what to write in its place."""


def raw_key(entity: str) -> ToolError:
    """Return that a key stands where a ref is needed."""
    return ToolError(
        "raw_key", f"a database key cannot be used here; give a ref, such as '{entity}_1'"
    )


def unknown_name(what: str, name: str, known: Iterable[str]) -> ToolError:
    """Return that there is no table, column or function of a name, or none for a model."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, 3)
    listed = ", ".join(map(repr, near or names[:40]))
    remedy = f"use one of {listed}" if listed else "leave it out"
    return refused(f"there is no {what} {name!r}", remedy)


def no_refs() -> ToolError:
    """Return that keys would be shown in a form in which no ref can stand for them."""
    return refused("it shows refs inside of an expression", "select the column of refs itself")


def too_deep() -> ToolError:
    """Return that a statement is nested deeper than any code goes through."""
    return refused("it is nested too deep, or too long", "use WITH for parts of the question")


def unsupported(what: str, remedy: str = "ask in another way") -> ToolError:
    """Return that a construct of SQL is not known here."""
    return refused(f"{what} is not known here", remedy)
