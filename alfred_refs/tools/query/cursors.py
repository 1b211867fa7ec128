"""How a read goes on after its last row: a text that the model gives back, and that has no key.

The order of a read and the last row shown come in; a cursor goes out, and comes back as what the
next rows are beyond. It belongs to one question: a digest tells whether it comes with another one.
It is no secret, and is checked like any other value of a model's.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alfred_refs.mapping.column_types import UnfitValueError, Values
from alfred_refs.mapping.guard import find_keys
from alfred_refs.tools.errors import ToolError, invalid_cursor
from alfred_refs.tools.wire.arguments import DbRead
from alfred_refs.tools.wire.repair import repaired

_LONGEST = 200  # characters of one value: a model repeats the cursor letter by letter


class Cursor(BaseModel):
    """Where a read stopped.

    Attributes:
        question: a digest of what was asked.
        after: what the last row had in the columns of the order, as JSON; `None` where one of
            these is not to be `may_carry`: they are looked up then.
        seen: a digest of what the last row had, where that is looked up.
        ref: the last row's ref.
        shown: how many rows were shown, where a hook gave the order.
        drafts: the numbers of the drafts that were shown; the other fields are of rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    after: list[Any] | None = []
    seen: str | None = None
    ref: str | None = None
    shown: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    drafts: list[int] = []
    version: Literal[1] = 1

    def __str__(self) -> str:
        text = self.model_dump_json(exclude_defaults=True)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def may_carry(values: Values, value: Any) -> bool:
    """Tell whether a cursor may have a value, and gives it back as the database has it.

    It may be short, and have no key in it. Of days at the ends of the calendar nobody knows: some
    drivers have infinity there, and in another time zone they are none; and psycopg has no time at
    all for an infinite one.
    """
    shown = values.show(value)
    if isinstance(shown, str) and (len(shown) > _LONGEST or find_keys(shown)):
        return False
    if not values.exact or getattr(value, "year", None) in (dt.MINYEAR, dt.MAXYEAR):
        return value is None
    if value == dt.timedelta():
        return False
    try:
        return bool(values.accept(shown) == value)
    except UnfitValueError:  # as infinity, and what is not a number
        return False


def question_of(read: DbRead) -> str:
    """Return a digest of what a cursor belongs to: all but how much is shown of it."""
    return digest_of(read.model_dump(exclude={"cursor", "limit", "columns"}, mode="json"))


def digest_of(value: Any) -> str:
    """Return a digest of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def cursor_of(read: DbRead) -> Cursor | None:
    """Return the cursor that a read goes on from.

    Raises:
        ToolError: it is none, or belongs to another question.
    """
    if read.cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(read.cursor + "=" * (-len(read.cursor) % 4))
        cursor = Cursor.model_validate(repaired(json.loads(text)))
    except (ValueError, RecursionError, ToolError):
        raise invalid_cursor() from None
    if cursor.question != question_of(read):
        raise invalid_cursor()
    return cursor
