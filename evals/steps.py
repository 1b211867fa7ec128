"""The steps of a program that the scripted model does: what it asks tools for, and is told.

Call("db_update", {"table": "recipes", "filters": [...], "data": {"servings": 6}}, copies)
Said("Done.")
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.channel import Id


@dataclass(frozen=True, slots=True)
class Row:
    """A row as the clerk was shown it."""

    table: str
    id: Id
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Named:
    """An id that is to be copied into a call."""

    entity: str
    id: Id


@dataclass(frozen=True, slots=True)
class Copy:
    """An id that was copied.

    Attributes:
        named: what was meant.
        given: what was written.
        kind: how it went wrong, if it did.
        believed: the id of the row that the clerk takes it to be.
    """

    named: Named
    given: Id
    kind: str | None
    believed: Id


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, with what was copied for it."""

    tool: str
    arguments: dict[str, Any]
    copies: Sequence[Copy]


@dataclass(frozen=True, slots=True)
class Said:
    """What the clerk tells the user at the end of a turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """What a tool told in place of an answer."""

    message: str


Answer = dict[str, Any] | Refused | None
"""What comes of a step: an answer; why there is none; or nothing, when the user spoke."""

Program = Generator[Call | Said, Answer, None]

Reading = Generator[Call | Said, Answer, Any]


class GivesUp(Exception):  # noqa: N818  # as StopIteration
    """The clerk was refused too often."""
