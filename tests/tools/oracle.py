"""What filters mean, told again in Python: three-valued logic over rows that are in memory.

Written from the documentation and not from the code: of a filter and a row it says `True`, `False`
or, where SQL would not know, `None`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Filter = Mapping[str, Any]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "neq": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def holds(
    given: Filter,
    row: Any,
    value_of: Callable[[str, Any], Any],
    is_hidden: Callable[[Any], bool] = lambda _: False,
) -> bool | None:
    """Tell whether a filter holds of a row.

    Args:
        given: the filter, as a model writes it.
        row: an instance that a plain session has loaded.
        value_of: turns what a model writes for a column into what the column has.
        is_hidden: tells whether a related row is as if it were not there.
    """
    if "and" in given:
        return _all([holds(each, row, value_of, is_hidden) for each in given["and"]])
    if "or" in given:
        return _not(_all([_not(holds(each, row, value_of, is_hidden)) for each in given["or"]]))
    if "not" in given:
        return _not(holds(given["not"], row, value_of, is_hidden))
    first, _, rest = given["field"].partition(".")
    if rest:
        related = getattr(row, first)
        rows = related if isinstance(related, list) else [each for each in [related] if each]
        inner = {**given, "field": rest}
        return any(
            holds(inner, each, value_of, is_hidden) is True for each in rows if not is_hidden(each)
        )
    return _compared(given, getattr(row, first), lambda given: value_of(first, given))


def _all(parts: list[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _compared(given: Filter, has: Any, accept: Callable[[Any], Any]) -> bool | None:
    op, value = given["op"], given["value"]
    if op in ("is_null", "is_not_null"):
        return bool((has is None) == ((op == "is_null") == (value is not False)))
    if op in ("in", "not_in"):
        found = _is_in(has, [accept(each) for each in value])
        return found if op == "in" else _not(found)
    wanted = accept(value)
    if wanted is None:
        return bool((has is None) == (op == "="))
    return None if has is None else _met(op, has, wanted)


def _met(op: str, has: Any, wanted: Any) -> bool:
    if op == "contains":
        return set(wanted) <= set(has)
    if op == "ilike":
        return re.fullmatch(_regex(wanted), has, re.IGNORECASE | re.DOTALL) is not None
    return _COMPARISONS[op](has, wanted)


def _is_in(has: Any, values: list[Any]) -> bool | None:
    """Null in a list is a value like others; a row without value is in no other list."""
    if has is None:
        if None in values:
            return True
        return None
    return has in values


def _regex(pattern: str) -> str:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
