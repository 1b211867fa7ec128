"""What a model is told of an error of the database's, in a statement of its own.

Of mistakes in the statement the primary message is repeated, with the names that the model knows;
of values nothing is, for they may be those of a row that it does not see. All else is ours, and
raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlalchemy.exc import DBAPIError

from alfred_refs.sqla import said
from alfred_refs.tools.errors import ToolError, too_slow

from .refusing import refused

_CANCELED = "57014"
_LONGEST = 300

# SQLSTATEs of statements that are wrong in themselves, whatever rows there are: of class 42 those
# that are no matter of tables, columns or rights, which are ours
_MISTAKES = (
    *("42601", "42702", "42703", "42725", "42803", "42804", "42846", "42883", "42P08", "42P10"),
    *("42P18", "42P19", "42P20", "42P21", "42P22", "42P09", "42P11", "42P13", "42P14", "42P15"),
)

# SQLSTATE -> the fact, and what to do
_FACTS: Mapping[str, tuple[str, str]] = {
    "0A000": ("PostgreSQL has not what it asks for", "ask in another way"),
    "21000": (
        "a subquery that stands for a value has several rows",
        "use IN, an aggregate, or LIMIT 1",
    ),
    "22003": ("a number is out of range", "compute with numeric, or with smaller numbers"),
    "22007": ("a text is no date or time of its type", "write dates as '2026-05-01'"),
    "22008": ("a date or time is out of range", "write dates as '2026-05-01'"),
    "2200F": ("a text is empty where it may not be", "use nullif(x, '')"),
    "2201E": ("a logarithm is of what has none", "leave such rows out"),
    "2201F": ("a power is of what has none", "leave such rows out"),
    "22012": ("there is a division by zero", "divide by nullif(x, 0)"),
    "22025": ("a pattern ends in its escape character", "end it otherwise"),
    "22P02": ("a text cannot be converted to its type", "convert only texts that fit it"),
    "54001": ("it is nested too deep", "use WITH for parts of the question"),
    "54011": ("it selects too many columns", "name the columns that you want"),
    "54023": ("a function has too many arguments", "call it with fewer"),
}
_VALUE = "a value does not fit where it is used", "convert or leave out such values"
_TOO_MUCH = "it is more than the database can do at once", "ask for less"

_SENT = re.compile(r"\b_[tqn]\d+(?:\.c\d+)?\b")
_LESS = "fewer tables, joins that say ON which rows belong together, or conditions on more columns"


def fault_in(error: DBAPIError, names: Mapping[str, str], slow: float | None) -> ToolError | None:
    """Return what a model is told of an error; `None` if it is no fault of its statement.

    Args:
        error: that the database raised.
        names: what was sent for a name, with the name.
        slow: how many seconds the statement may take, if it took as long.
    """
    fields = said(error)
    state = str(fields["sqlstate"])
    if state == _CANCELED:
        return None if slow is None else too_slow(slow, _LESS)
    if state in _MISTAKES:
        return refused(_message(error, names), "correct it and call again")
    if state in _FACTS:
        return refused(*_FACTS[state])
    if state.startswith("22"):
        return refused(*_VALUE)
    return refused(*_TOO_MUCH) if state.startswith(("53", "54")) else None


def _message(error: DBAPIError, names: Mapping[str, str]) -> str:
    """Return the primary message, with the model's own names."""
    original = error.orig
    text = getattr(getattr(original, "diag", None), "message_primary", None)
    text = str(text or getattr(original, "message", None) or "PostgreSQL refuses it")
    told = _SENT.sub(lambda found: names.get(found[0], "a column"), text.splitlines()[0])
    return told[:_LONGEST]
