"""Find keys in text, JSON values and logs.

>>> find_keys({"rows": [{"id": "a508000d-9b55-40f0-8886-dbdd88bd2de2"}]})
[FoundKey(start=0, end=36, kind='whole')]
>>> [finding.line for finding in audit_log(["recipe_1", "see ..c69607bb"])]
[2]

`find_keys` is for tests of an application, `audit_log` for `alfred-refs audit`. UUIDs are found in
any spelling, also if they are truncated or split by Markdown; integers are not, because any number
may be one. For text that is about to be sent, use `Conversation.scrub`, which also knows the keys
of the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from alfred_refs.mapping import FoundKey, search_keys


class Finding(NamedTuple):
    """A key in a line of a log.

    Attributes:
        line: its number, from 1.
        found: the key.
    """

    line: int
    found: FoundKey


def find_keys(value: Any) -> list[FoundKey]:
    """Return the keys in text or in JSON values of any depth, including names of fields.

    UUIDs are found in any spelling, even split or cut. Integers are not found, nor are UUIDs
    without dashes that have only decimal digits.

    Args:
        value: text, or lists and dictionaries of it.

    Returns:
        each with `start` and `end`, its position in its own text; `kind`, `"whole"`, `"split"` or
        `"cut"`; `text`, as it is written; `masked`, which may be shown; and `key`, the `UUID`, or
        `None` for a cut key. With several texts, the result does not identify the text.

    Example:
        >>> find_keys({"rows": [{"id": "a508000d-9b55-40f0-8886-dbdd88bd2de2"}]})
        [FoundKey(start=0, end=36, kind='whole')]
        >>> find_keys({"rows": [{"id": "recipe_1"}]})
        []
    """
    return [found for text in _texts_in(value) for found in _keys_in(text)]


def _keys_in(text: str) -> list[FoundKey]:
    return [found for found in search_keys(text) if not found.is_number]


def audit_log(lines: Iterable[str]) -> Iterator[Finding]:
    """Yield the keys in a log, of text or of JSON, line by line.

    JSON is parsed, because escapes may hide the letters of a key.
    """
    for number, line in enumerate(lines, start=1):
        value = _decode_line(line) if "\\" in line else None
        for each in _keys_in(line) if value is None else find_keys(value):
            yield Finding(number, each)


def _decode_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        elif not isinstance(each, int | float | None):
            yield str(each)
