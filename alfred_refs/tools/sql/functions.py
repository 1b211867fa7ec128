"""Functions that a statement may call, by name: what they take and what they give.

    FUNCTIONS["lower"]     takes a text, gives a text
    FUNCTIONS["lag"]       takes a value, a number and a value; gives a value, a ref if that is one

Each always gives the same for the same within a statement, changes nothing, reads no table, and
makes little of much; what is in no table here is not called. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Integer,
    Numeric,
    Text,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.types import TypeEngine

from alfred_refs.errors import SetupError

TYPES: Mapping[str, TypeEngine[Any]] = {
    "text": Text(),
    "int": Integer(),
    "bigint": BigInteger(),
    "numeric": Numeric(),
    "double": Double(),
    "bool": Boolean(),
    "date": Date(),
    "timestamp": DateTime(),
    "timestamptz": DateTime(timezone=True),
    "interval": INTERVAL(),
    "json": JSON(),
    "jsonb": JSONB(),
    "texts": ARRAY(Text()),
}
"""Types by the words of the tables below."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    Attributes:
        takes: of each argument a word: of `TYPES`, "any", "number", "time", "array", or "same" for
            those that are of one type with each other.
        fewest: how many are needed.
        gives: a word of `TYPES`; or of all arguments the widest type ("common"); or of the first
            its type ("same"), that of an item of
            it, that of a list of it, or that of a sum, a mean or a part of it.
        repeats: whether the last argument may stand any number of times.
        keys: whether it hands keys on, or counts them.
        kind: "plain", "aggregate", "ordered", "window" or "rows": where it may stand.
    """

    takes: tuple[str, ...]
    fewest: int
    gives: str
    repeats: bool = False
    keys: bool = False
    kind: str = "plain"


def _of(line: str, kind: str = "plain", *, keys: bool = False) -> dict[str, Function]:
    """Return functions by a line: `name, name: takes takes? takes... -> gives`."""
    names, _, rest = line.partition(":")
    taken, _, gives = rest.partition("->")
    words = taken.split()
    repeats = bool(words) and words[-1].endswith("...")
    fewest = sum(not word.endswith("?") for word in words)
    takes = tuple(word.rstrip("?.") for word in words)
    made = Function(takes, fewest, gives.strip(), repeats, keys, kind)
    return {name.strip(): made for name in names.split(",")}


def _table() -> dict[str, Function]:
    found: dict[str, Function] = {}
    for line in (
        "lower, upper, initcap, reverse: text -> text",
        "btrim, ltrim, rtrim: text text? -> text",
        "length, char_length, character_length, octet_length, ascii: text -> int",
        "substr: text int int? -> text",
        "left, right: text int -> text",
        "replace, translate: text text text -> text",
        "concat: any any... -> text",
        "concat_ws: text any... -> text",
        "split_part: text text int -> text",
        "strpos: text text -> int",
        "starts_with: text text -> bool",
        "to_char: any text -> text",
        "abs: number -> same",
        "round, trunc: number int? -> round",
        "ceil, ceiling, floor, sign: number -> round",
        "sqrt, exp, ln: number -> round",
        "log: number number? -> round",
        "power, pow: number number -> round",
        "mod: number number -> same",
        "div: number number -> numeric",
        "date_trunc: text time -> trunc",
        "date_part: text time -> double",
        "age: time time? -> interval",
        "to_date: text text -> date",
        "to_timestamp: text text -> timestamptz",
        "to_number: text text -> numeric",
        "make_date: int int int -> date",
        "now: -> timestamptz",
        "array_to_string: array text text? -> text",
        "string_to_array: text text -> texts",
        "jsonb_array_length: jsonb -> int",
        "json_array_length: json -> int",
        "jsonb_typeof: jsonb -> text",
        "json_typeof: json -> text",
        "jsonb_extract_path_text: jsonb text... -> text",
        "json_extract_path_text: json text... -> text",
    ):
        found |= _of(line)
    for line in (
        "coalesce: same... -> common",
        "nullif: same same -> same",
        "cardinality: array -> int",
        "array_length: array int -> int",
        "greatest, least: same... -> common",
    ):
        found |= _of(line, keys=True)
    for line in (
        "sum: number -> sum",
        "avg: number -> avg",
        "stddev, stddev_pop, stddev_samp, variance, var_pop, var_samp: number -> avg",
        "corr: number number -> double",
        "string_agg: text text -> text",
        "bool_and, bool_or, every: bool -> bool",
    ):
        found |= _of(line, "aggregate")
    found |= _of("percentile_cont, percentile_disc: numeric -> ordered", "ordered")
    found |= _of("mode: -> ordered", "ordered")
    for line in ("count: any? -> bigint", "min, max: any -> same", "array_agg: any -> array"):
        found |= _of(line, "aggregate", keys=True)
    for line in ("row_number, rank, dense_rank: -> bigint", "ntile: int -> int"):
        found |= _of(line, "window")
    found |= _of("percent_rank, cume_dist: -> double", "window")
    for line in (
        "lag, lead: same int? same? -> common",
        "first_value, last_value: any -> same",
        "nth_value: any int -> same",
    ):
        found |= _of(line, "window", keys=True)
    found |= _of("unnest: array -> item", "rows", keys=True)
    return found


FUNCTIONS: Mapping[str, Function] = _table()
"""The functions, by name."""

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TAKEN = {*TYPES, "any", "number", "time", "array"}


def with_own(own: Mapping[str, str]) -> Mapping[str, Function]:
    """Return all functions, those of an application among them.

    They take data, and give data: no key goes in. That each is immutable, and makes little of
    much, is the application's word.

    >>> with_own({"similarity": "text text -> double"})["similarity"].gives
    'double'

    Raises:
        SetupError: a name is taken or is none, or it is not said what it takes and gives.
    """
    found = dict(FUNCTIONS)
    for name, signature in own.items():
        if not _NAME.fullmatch(name) or name in FUNCTIONS:
            raise SetupError(
                f"a function of SQL cannot be called {name!r}",
                "give the name of a function in the database, in small letters, that is not known",
            )
        made = _of(f"{name}: {signature}")[name]
        if "->" not in signature or made.gives not in TYPES or not {*made.takes} <= _TAKEN:
            raise SetupError(
                f"the function {name!r} of SQL is said to be {signature!r}",
                f"say what it takes and gives, as 'text text -> double': {', '.join(TYPES)}; it "
                "may take any, number, time and array, too",
            )
        found[name] = made
    return found
