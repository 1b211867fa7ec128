"""Scopes, types, the table of functions and typed values of the query builder.

- `named_type` returns the SQLAlchemy type of a name, from a fixed table: nothing is looked up in a
  catalogue, as `regclass` would. `plain` returns the type that a text next to a column is read as.
- `FUNCTIONS` are the functions that a statement may call. Each is immutable or stable, changes
  nothing, reads no table and does not produce large results from small ones.
- `Value` is an expression in the statement: its SQLAlchemy element, its name, and the keys that it
  holds, if any. `require_data` refuses keys where something is computed; `unify_values` checks
  that values next to each other are of one kind. `Literals` turns literals into parameters.
- `Scope` resolves names: `relation` a table of the toolset or a part of WITH, `column` a column,
  in this SELECT or in one around it.

>>> named_type("DECIMAL", [10, 2])
(Numeric(precision=10, scale=2), 'numeric')
>>> plain(String(50))
Text()
>>> FUNCTIONS["lower"].takes, FUNCTIONS["lower"].gives
(('text',), 'text')
>>> with_own({"similarity": "text text -> double"})["similarity"].gives
'double'

A table is a subquery of the columns that a model may see; no other column can be named, and no
name of the model's is sent. If the session has an owner, the subquery is a fence (OFFSET 0):
PostgreSQL evaluates the model's expressions only on the owner's rows. Otherwise it may compute an
expression on a row before it filters the row out, and an error would reveal the row.

Limits: there are no set-returning functions but `unnest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    DateTime,
    Float,
    FromClause,
    Integer,
    Interval,
    Numeric,
    String,
    Text,
)
from sqlalchemy.dialects.postgresql import DOMAIN, INTERVAL, JSONB, REAL
from sqlalchemy.sql.elements import Null
from sqlalchemy.types import NullType, TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping import KeyColumn, undecorated_type
from alfred_refs.mapping.columns import values_of
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import invalid_sql, no_sql
from alfred_refs.tools.sql.parsing import (
    MAX_CHARACTERS,
    MOST_LITERAL_DIGITS,
    CostBudget,
    raw_key,
    unknown_name,
)
from alfred_refs.tools.tables import ToolColumn, ToolTable, accept_value

_Type = TypeEngine[Any]
_T = TypeVar("_T", "Value", ToolTable)

# sqlglot's name -> the word in the table of functions, if they may give it; PostgreSQL's name; how
# many sizes it takes; and the type
_TYPES_BY_NAME: Mapping[str, tuple[str, str, int, Callable[..., _Type]]] = {
    "BOOLEAN": ("bool", "bool", 0, sa.Boolean),
    "SMALLINT": ("", "int2", 0, sa.SmallInteger),
    "INT": ("int", "int4", 0, Integer),
    "BIGINT": ("bigint", "int8", 0, sa.BigInteger),
    "DECIMAL": ("numeric", "numeric", 2, Numeric),
    "FLOAT": ("", "float4", 0, REAL),
    "DOUBLE": ("double", "float8", 0, sa.Double),
    "TEXT": ("text", "text", 0, Text),
    "VARCHAR": ("", "varchar", 1, String),
    "DATE": ("date", "date", 0, sa.Date),
    "TIME": ("", "time", 0, sa.Time),
    "TIMESTAMP": ("timestamp", "timestamp", 0, DateTime),
    "TIMESTAMPTZ": ("timestamptz", "timestamptz", 0, partial(DateTime, timezone=True)),
    "INTERVAL": ("interval", "interval", 0, INTERVAL),
    "UUID": ("", "uuid", 0, sa.Uuid),
    "JSON": ("json", "json", 0, sa.JSON),
    "JSONB": ("jsonb", "jsonb", 0, JSONB),
}

TYPES: Mapping[str, _Type] = {
    **{word: make() for word, _, _, make in _TYPES_BY_NAME.values() if word},
    "texts": ARRAY(Text()),
}
"""Types by the words of the function table."""

NAMES = (
    "boolean, smallint, integer, bigint, numeric, real, double precision, text, varchar, date, "
    "time, timestamp, timestamptz, interval, uuid, json, jsonb, or one of these with []"
)
"""The types, as errors list them."""

# from narrow to wide: BIGINT, NUMERIC, FLOAT; DATE, TIMESTAMP
_WIDTHS = (sa.BigInteger, DateTime, Numeric, Float)

# the first class that matches -> the type of a text next to such a column
_PLAIN_TYPES: Sequence[tuple[type[_Type], Callable[[Any], _Type]]] = (
    (sa.Enum, lambda type_: type_ if type_.native_enum else Text()),
    (String, lambda _: Text()),
    (Float, lambda type_: type_),
    (Numeric, lambda _: Numeric()),
    (DateTime, lambda type_: DateTime(timezone=type_.timezone)),
    (sa.Time, lambda type_: sa.Time(timezone=type_.timezone)),
    (Interval, lambda _: INTERVAL()),
    (ARRAY, lambda type_: ARRAY(plain(type_.item_type))),
)


def named_type(name: str, sizes: Sequence[int]) -> tuple[_Type, str] | None:
    """Return the type of a name, and PostgreSQL's name for it; `None` if there is none to use."""
    _, called, most, make = _TYPES_BY_NAME.get(name, ("", "", 0, None))
    return None if make is None or len(sizes) > most else (make(*sizes), called)


def width(type_: _Type) -> int:
    """Return the rank of a type among those that PostgreSQL resolves to a common one.

    Of integers and numeric it chooses numeric, of dates and timestamps timestamp.
    """
    found = (n for n, class_ in enumerate(_WIDTHS, start=1) if isinstance(type_, class_))
    has_zone = isinstance(type_, DateTime) and type_.timezone
    return max(found, default=0) + has_zone


def plain(type_: _Type) -> _Type:
    """Return the type that a text next to values of a type is read as."""
    for class_, make in _PLAIN_TYPES:
        if isinstance(type_, class_):
            return make(type_)
    return type_


def base_type(type_: _Type) -> _Type:
    """Return the type below domains, also of the items of an array; a custom type is kept."""
    while isinstance(type_, DOMAIN):
        type_ = type_.data_type
    if isinstance(type_, ARRAY) and isinstance(type_.item_type, DOMAIN):
        item: _Type = base_type(type_.item_type)
        return ARRAY(item, dimensions=type_.dimensions)
    return type_


def without_domain(column: Any) -> Any:
    """Return a column in the type below its domain, whose functions and operators it has.

    The cast has no size, so that PostgreSQL computes nothing and may use an index.
    """
    base = base_type(column.type)
    if base is column.type or isinstance(base, NullType):
        return column
    is_padded = isinstance(base.item_type if isinstance(base, ARRAY) else base, sa.CHAR | sa.NCHAR)
    return sa.type_coerce(sa.cast(column, base if is_padded else plain(base)), base)


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of a function.

    Attributes:
        takes: a word for each argument: one of `TYPES`, "any", "number", "time", "array", or
            "same" for arguments that have a common type. Of bounded size are "text", "part" and
            "long" (`LONGEST`), "base" and "power" (`MOST_DIGITS`); "whole" is a text of any size.
        fewest: how many arguments are required.
        gives: a word of `TYPES`; "common": the common type of all arguments; or relative to the
            first argument: "same", "item", "array", "sum", "avg", "round", "trunc".
        repeats: whether the last argument may be repeated.
        keys: whether it passes keys on, or counts them.
        kind: "plain", "aggregate", "ordered", "window" or "rows": where it may be used.
    """

    takes: tuple[str, ...]
    fewest: int
    gives: str
    repeats: bool = False
    keys: bool = False
    kind: str = "plain"

    def __str__(self) -> str:
        """Return the arguments for an error."""
        sizes = {"whole": "text", "base": "number", "power": "number", "same": "value"}
        words = ["text" if each in LONGEST else sizes.get(each, each) for each in self.takes]
        required, optional = words[: self.fewest], words[self.fewest :]
        listed = ", ".join([*required, *(f"[{each}]" for each in optional)])
        return f"{listed}, ..." if self.repeats else listed


def _parse_signature(line: str, kind: str = "plain", *, keys: bool = False) -> dict[str, Function]:
    """Parse a line of the table: `name, name: takes takes? takes... -> gives`."""
    names, _, rest = line.partition(":")
    taken, _, gives = rest.partition("->")
    words = taken.split()
    repeats = bool(words) and words[-1].endswith("...")
    fewest = sum(not word.endswith("?") for word in words)
    takes = tuple(word.rstrip("?.") for word in words)
    made = Function(takes, fewest, gives.strip(), repeats, keys, kind)
    return {name.strip(): made for name in names.split(",")}


# PostgreSQL checks for cancellation between rows, not inside these functions. So each is
# linear in what it is given (a text of 10 MB takes 0.1 to 0.5 s), or what it searches for is a
# "part", and both are bounded. Unbounded, with 10 MB and 1,000 characters, they took: strpos
# 13 s, split_part 14 s, btrim 82 s, translate 297 s, and a result of replace had 500 MB.
_SIGNATURES: Mapping[tuple[str, bool], Sequence[str]] = {
    # the kind of the functions, and whether they may be given keys -> the lines
    ("plain", False): (
        "lower, upper, initcap, reverse: text -> text",
        "btrim, ltrim, rtrim: text part? -> text",
        "length, char_length, character_length, octet_length, ascii: long -> int",
        "substr: long int int? -> text",
        "left: whole int -> text",
        "right: long int -> text",
        "replace, translate: text part part -> text",
        "concat: long long... -> text",
        "concat_ws: part long... -> text",
        "split_part: text part int -> text",
        "strpos: text part -> int",
        "starts_with: text text -> bool",
        "to_char: any part -> text",
        "abs: number -> same",
        "round, trunc: number int? -> round",
        "ceil, ceiling, floor, sign: number -> round",
        "sqrt: number -> round",
        "exp: power -> round",
        "ln: number -> round",
        "log: number number? -> round",
        "power, pow: base power -> round",
        "mod: number number -> same",
        "div: number number -> numeric",
        "date_trunc: part time -> trunc",
        "date_part: part time -> double",
        "age: time time? -> interval",
        "to_date: part part -> date",
        "to_timestamp: part part -> timestamptz",
        "to_number: part part -> numeric",
        "make_date: int int int -> date",
        "now: -> timestamptz",
        "array_to_string: array part part? -> text",
        "string_to_array: text part -> texts",
        "jsonb_array_length: jsonb -> int",
        "json_array_length: json -> int",
        "jsonb_typeof: jsonb -> text",
        "json_typeof: json -> text",
        "jsonb_extract_path_text: jsonb part... -> text",
        "json_extract_path_text: json part... -> text",
    ),
    ("plain", True): (
        "coalesce: same... -> common",
        "nullif: same same -> same",
        "cardinality: array -> int",
        "array_length: array int -> int",
        "greatest, least: same... -> common",
    ),
    ("aggregate", False): (
        "sum: number -> sum",
        "avg: number -> avg",
        "stddev, stddev_pop, stddev_samp, variance, var_pop, var_samp: number -> avg",
        "corr: number number -> double",
        "string_agg: text part -> text",
        "bool_and, bool_or, every: bool -> bool",
    ),
    ("aggregate", True): (
        "count: any? -> bigint",
        "min, max: any -> same",
        "array_agg: text -> array",
    ),
    ("ordered", False): (
        "percentile_cont, percentile_disc: numeric -> ordered",
        "mode: -> ordered",
    ),
    ("window", False): (
        "row_number, rank, dense_rank: -> bigint",
        "ntile: int -> int",
        "percent_rank, cume_dist: -> double",
    ),
    ("window", True): (
        "lag, lead: same int? same? -> common",
        "first_value, last_value: any -> same",
        "nth_value: any int -> same",
    ),
    ("rows", True): ("unnest: array -> item",),
}

FUNCTIONS: Mapping[str, Function] = {
    name: function
    for (kind, keys), lines in _SIGNATURES.items()
    for line in lines
    for name, function in _parse_signature(line, kind, keys=keys).items()
}
"""The functions that a statement may call, by name."""

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_ARGUMENT_TYPES = {*TYPES, "any", "number", "time", "array"}


def with_own(own: Mapping[str, str]) -> Mapping[str, Function]:
    """Return the functions with those of an application added.

    They take and return data, never keys. The application guarantees that each is immutable and
    does not return much more than it is given.

    Raises:
        SetupError: a name is taken or invalid, or a signature cannot be parsed.
    """
    found = dict(FUNCTIONS)
    for name, signature in own.items():
        if not _NAME.fullmatch(name) or name in FUNCTIONS:
            raise SetupError(
                f"a function of SQL cannot be called {name!r}",
                "give the name of a function in the database, in small letters, that is not known",
            )
        made = _parse_signature(f"{name}: {signature}")[name]
        if (
            "->" not in signature
            or made.gives not in TYPES
            or not {*made.takes} <= _ARGUMENT_TYPES
        ):
            raise SetupError(
                f"the function {name!r} of SQL is said to be {signature!r}",
                f"say what it takes and gives, as 'text text -> double': {', '.join(TYPES)}; it "
                "may take any, number, time and array, too",
            )
        found[name] = made
    return found


LONGEST: Mapping[str, int] = {"text": 20_000, "part": 200, "long": 1_000_000}
"""How many characters an argument of a function may have, by its word in the table."""

MOST_DIGITS: Mapping[str, int] = {"base": 30, "power": 3}
"""How many digits before the point a number may have that a power is made of, by its word."""


MOST_SHOWN_DIGITS = 1_000
"""How many digits a number may have that is shown without a look at its size."""


def bounded_number(element: Any, digits: int) -> Any:
    """Return a number; PostgreSQL raises an error (22003) if it has more digits than these."""
    return sa.case((sa.cast(element, Numeric(digits, 0)).is_not(None), element))


def limited_text(element: Any, most: int) -> Any:
    """Return a text; PostgreSQL raises an error (22001) if it has more characters than these.

    `varchar()` is the conversion of a value that is stored in a column: a CAST would cut it.
    """
    limit = sa.bindparam(f"longest_{most}", most + 4, type_=Integer())  # 4: the size of a header
    return sa.func.pg_catalog.varchar(element, limit, sa.false(), type_=Text())


_SMALL_SIZE = 64  # of any date, interval or integer, as text

# types whose values have a size of their own
_SMALL = (
    *(sa.Enum, Integer, Float, sa.Boolean, sa.Uuid, sa.Date, DateTime, sa.Time, Interval),
    INTERVAL,
)


def declared_size(type_: _Type) -> int | None:
    """Return how many characters or digits a column of a type has at most; `None` for any."""
    type_ = undecorated_type(type_)
    if isinstance(type_, String):
        return type_.length
    return type_.precision if isinstance(type_, Numeric) else None


UNNAMED = "?column?"
"""PostgreSQL's name for an expression without one."""


_NUMBERS: dict[str, tuple[TypeEngine[Any], Callable[[str], Any]]] = {
    "integer": (Integer(), int),
    "bigint": (sa.BigInteger(), int),
    "numeric": (Numeric(), Decimal),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One typed expression.

    Attributes:
        element: SQLAlchemy's; `None` for a text without a type yet.
        name: PostgreSQL's name for it as a selected column.
        key: the keys that it holds; `None` for data.
        column: the column of a table, if it is just that.
        literal: which literal it is, if it is a text without a type yet.
        number: which literal it is, if it is a number.
        weak: whether a CAST or a CASE around it gets its own name; `None`: only if this value has
            no name.
        size: what it costs to compute it in one row, in units of `CostBudget`.
        most: how many characters or digits it has at most; `None` for any number. See `longest`.
    """

    element: Any
    name: str = UNNAMED
    key: KeyColumn | None = None
    column: ToolColumn | None = None
    literal: int | None = None
    number: int | None = None
    weak: bool | None = None
    size: int = 1
    most: int | None = None

    @property
    def longest(self) -> int | None:
        """How many characters or digits it has at most; `None` for any number."""
        is_small = self.is_null or isinstance(undecorated_type(self.type), _SMALL)
        return _SMALL_SIZE if is_small else self.most

    @property
    def is_weak(self) -> bool:
        """Whether a CAST or a CASE around it gets a name of its own, as in PostgreSQL."""
        return self.name == UNNAMED if self.weak is None else self.weak

    @property
    def is_null(self) -> bool:
        """Whether it is a literal NULL."""
        return isinstance(self.element, Null)

    @property
    def is_open(self) -> bool:
        """Whether it takes the type of the values next to it."""
        return self.literal is not None or self.is_null

    @property
    def type(self) -> TypeEngine[Any]:
        """Its SQLAlchemy type."""
        return NullType() if self.element is None else self.element.type

    @property
    def is_sealed(self) -> bool:
        """Whether it can only be selected as a whole: it may contain keys, or is raw data."""
        if self.column is None:
            return False
        return bool(self.column.places) or self.column.values.family == "opaque"


def longest_of(values: Iterable[Value]) -> int | None:
    """Return the largest number of characters or digits of the values; `None` if unlimited."""
    found = [each.longest for each in values]
    return None if None in found else max(filter(None, found), default=_SMALL_SIZE)


@dataclass(frozen=True, slots=True)
class Parameter:
    """The parameter that a literal is sent as.

    Attributes:
        literal: which one.
        convert: makes its value from the literal's text.
        is_key: whether it is a ref.
    """

    literal: int
    convert: Callable[[str], Any]
    is_key: bool = False


@dataclass(slots=True)
class Literals:
    """The literals of one statement and their parameters.

    Attributes:
        texts: of the literals.
        parameters: by name, those that are sent.
        fixed: the literals that the statement itself depends on.
    """

    texts: Sequence[str]
    parameters: dict[str, Parameter] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)

    def fix(self, literal: int) -> str:
        """Return the text of a literal, and make the statement depend on it."""
        self.fixed.add(literal)
        return self.texts[literal]

    def number(self, literal: int, kind: str) -> Value:
        """Return a number as a parameter."""
        type_, convert = _NUMBERS[kind]
        sent = self._parameter("n", literal, type_, convert)
        return Value(sent, number=literal, most=MOST_LITERAL_DIGITS)

    def count(self, value: Value) -> Value:
        """Return a number of characters; one that the statement has is small."""
        if value.number is None or not isinstance(value.type, Integer):
            return value
        return replace(value, element=self._parameter("c", value.number, value.type, _short_count))

    def text(self, value: Value, type_: TypeEngine[Any] | None = None) -> ColumnElement[Any]:
        """Return the element of a value; an untyped text becomes a parameter of a type."""
        if value.literal is None:
            return value.element  # type: ignore[no-any-return]
        if isinstance(type_, sa.TypeDecorator):
            accept = values_of(type_, None).accept
            convert = lambda text: accept_value(accept, "a text in the statement", text)  # noqa: E731
            name = f"d{len(self.parameters)}_"
            return self._parameter(name, value.literal, type_, convert)
        sent = self._parameter("t", value.literal, Text(), str)
        cast_to = plain(type_) if type_ is not None else None
        return sent if cast_to is None or isinstance(cast_to, Text) else sa.cast(sent, cast_to)

    def bounded(self, value: Value, word: str, budget: CostBudget) -> Value:
        """Return a value of the size that a word of the table of functions allows.

        PostgreSQL raises an error if it is longer: as text, if it is a list, a document or a
        number.
        """
        most = LONGEST[word]
        if value.literal is not None:
            if most >= MAX_CHARACTERS:
                return value
            sent = self._parameter("p", value.literal, Text(), partial(_check_length, most))
            return replace(value, element=sent, literal=None, most=most)
        if value.longest is not None and value.longest <= most:
            return value
        if isinstance(value.type, String):
            return replace(value, element=limited_text(value.element, most), most=most)
        budget.spend(value.size)  # it is twice in the statement
        text = limited_text(sa.cast(value.element, Text()), most)
        limited = sa.case((text.is_not(None), value.element))
        limited.type = value.type
        return replace(value, element=limited, most=most)

    def ref(self, literal: int, like: Value) -> ColumnElement[Any]:
        """Return a parameter for a literal that is combined with keys; the session resolves it.

        `like` is one of these keys; it determines the type.
        """
        key = like.key
        # the same name for the same keys: PostgreSQL compares GROUP BY expressions by parameter
        space = "" if key is None else re.sub(r"\W", "_", key.space)
        name = f"k_{space}_{type(like.type).__name__}_"
        return self._parameter(name, literal, like.type, str, is_key=True)

    def _parameter(
        self,
        name: str,
        literal: int,
        type_: TypeEngine[Any],
        convert: Callable[[str], Any],
        *,
        is_key: bool = False,
    ) -> ColumnElement[Any]:
        name = f"{name}{literal}"
        self.parameters[name] = Parameter(literal, convert, is_key)
        return sa.bindparam(name, type_=type_)


def _check_length(most: int, text: str) -> str:
    if len(text) > most:
        raise invalid_sql(
            f"a text of {len(text)} characters is given to a function", f"give at most {most:,}"
        )
    return text


def _short_count(text: str) -> int:
    if int(text) > LONGEST["long"]:
        raise invalid_sql(f"left() of {text} characters", f"take at most {LONGEST['long']:,}")
    return int(text)


def require_data(value: Value, what: str) -> Value:
    """Return a value to compute with: not a key, nor what may contain keys."""
    if value.key is not None:
        raise invalid_sql(
            f"{what} is made of a ref ({value.name!r})",
            "refs are selected, counted, grouped by and compared with refs of their table; for a "
            "list of them use array_agg",
        )
    return require_inspectable(value, what)


def require_inspectable(value: Value, what: str) -> Value:
    """Return a value to compare or sort by: not what may contain keys."""
    if value.is_sealed:
        raise invalid_sql(
            f"{what} is made of {value.name!r}, which is shown as a whole only",
            "select it as it is, or leave it out",
        )
    return value


def unify_values(
    values: Sequence[Value], literals: Literals, what: str, *, by_first: bool = False
) -> list[Value]:
    """Return values of one type, or keys of one table: to compare or choose from.

    Args:
        values: untyped texts among them get the type of the others.
        literals: of the statement.
        what: the construct, for errors.
        by_first: whether the first value decides the type; otherwise the widest does.
    """
    typed = [each for each in values if not each.is_open]
    keys = [each for each in typed if each.key is not None]
    if keys:
        _check_keys(typed, keys[0], what)
        like = keys[0]
        return [
            each
            if each.literal is None
            else replace(
                each, element=literals.ref(each.literal, like), key=like.key, literal=None
            )
            for each in values
        ]
    for each in values:
        require_inspectable(each, what)
    types = [each.type for each in typed if not isinstance(each.type, NullType)]
    type_ = (types[0] if by_first else max(types, key=width)) if types else None
    return [
        each
        if each.literal is None
        else replace(each, element=literals.text(each, type_), literal=None)
        for each in values
    ]


def widest(values: Sequence[Value]) -> Value:
    """Return the value whose type PostgreSQL chooses for all."""
    typed = [each for each in values if not each.is_open]
    return max(typed or values, key=lambda each: width(each.type))


def _check_keys(typed: Sequence[Value], like: Value, what: str) -> None:
    entity = "" if like.key is None else like.key.entity
    for each in typed:
        if each.number is not None and like.key is not None:
            raise raw_key(like.key.entity)
        if each.key is None:
            raise invalid_sql(
                f"{what} has a ref ({like.name!r}) beside data ({each.name!r})",
                f"compare refs with refs, as '{entity}_1' in quotes, and data with data",
            )
        if like.key is not None and (each.key.space, each.key.array) != (
            like.key.space,
            like.key.array,
        ):
            raise invalid_sql(
                f"{what} has refs of {like.key.entity!r} beside refs of {each.key.entity!r}",
                "join tables by the columns that refer to each other",
            )


def item_key(key: KeyColumn | None) -> KeyColumn | None:
    """Return the keys of a list's items."""
    return None if key is None else replace(key, array=False)


def list_key(key: KeyColumn | None) -> KeyColumn | None:
    """Return lists of keys, but no lists of those: they could show any number of refs."""
    if key is not None and key.array:
        raise invalid_sql("it has lists of lists of refs", "use unnest(), or join their table")
    return None if key is None else replace(key, array=True)


def list_type(type_: TypeEngine[Any]) -> ARRAY[Any]:
    """Return the type of lists of a type."""
    return ARRAY(type_.item_type) if isinstance(type_, ARRAY) else ARRAY(type_)


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT or a union that was built.

    Attributes:
        statement: SQLAlchemy's, with columns c1, c2 and so on.
        values: its columns, with the model's names.
        is_ended: whether it has an ORDER BY, LIMIT or OFFSET.
        limit: which literal is its LIMIT.
    """

    statement: Any
    values: Sequence[Value]
    is_ended: bool = False
    limit: int | None = None

    def evaluated(self) -> Query:
        """Return the same rows, whose values are computed once, however often they are used.

        PostgreSQL merges a subquery into the SELECT around it, and computes an expression in each
        place that names its column, unless the subquery groups, sorts out or counts rows.
        """
        return replace(self, values=[replace(each, size=1) for each in self.values])

    def with_names(self, names: Sequence[str], name: str) -> Query:
        """Return the same rows, with other names for the first columns."""
        if len(names) > len(self.values):
            raise invalid_sql(f"{name!r} has more names than columns", "give each column one name")
        first = [
            replace(value, name=each) for value, each in zip(self.values, names, strict=False)
        ]
        return replace(self, values=[*first, *self.values[len(names) :]])

    def columns_in(self, from_: FromClause) -> list[Value]:
        """Return its columns where it stands in a FROM."""
        return [
            replace(each, element=from_.c[f"c{n}"], literal=None, number=None, weak=False)
            for n, each in enumerate(self.values, start=1)
        ]

    def inside(self, alias: str, change: Callable[[Value], Value] = lambda value: value) -> Query:
        """Return a SELECT of its rows, which gives each column the type of its value.

        Args:
            alias: of the subquery.
            change: is applied to each column.
        """
        rows = self.statement.subquery(alias)
        columns = [
            replace(each, element=sa.type_coerce(column, each.type))
            if width(each.type) > width(column.type) or (each.key and column.type is not each.type)
            else replace(each, element=column)
            for each, column in zip(self.values, rows.c, strict=True)
        ]
        values = [change(each) for each in columns]
        return Query(sa.select(*labelled(each.element for each in values)), values)


def labelled(elements: Iterable[Any]) -> list[Any]:
    """Return elements with the names of columns: c1, c2 and so on."""
    return [each.label(f"c{n}") for n, each in enumerate(elements, start=1)]


_TABLE = 15  # a table is a subquery with the criteria of its owner, in units of the budget


@dataclass(slots=True)
class Building:
    """The state of one statement that is being built.

    Attributes:
        tables: what a model may use.
        closed: names of tables that SQL may not read.
        literals: of the text.
        named: all names in the text; `None` if `*` selects all columns.
        is_fenced: whether the tables contain rows of other owners.
        query: builds a SELECT from a node, in a scope.
        functions: that may be called, by name.
        budget: what the statement may cost.
        names: the aliases that are sent -> the model's names.
        models: the classes whose tables are in it.
    """

    tables: ToolTables
    closed: Collection[str]
    literals: Literals
    named: Collection[str] | None
    is_fenced: bool
    query: Callable[[Any, Scope], Query]
    functions: Mapping[str, Function]
    budget: CostBudget
    names: dict[str, str] = field(default_factory=dict)
    models: dict[type[Any], None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def alias(self, prefix: str, name: str) -> str:
        """Return an alias to send for a name of the model's."""
        sent = f"_{prefix}{next(self._numbers)}"
        self.names[sent] = name
        return sent

    def table(self, table: ToolTable, name: str) -> Source:
        """Return a table in FROM."""
        columns = [
            each
            for each in table.columns.values()
            if self.named is None or each.name.lower() in self.named
        ] or list(table.columns.values())[:1]
        self.budget.spend(_TABLE + len(columns))
        self.models[table.model] = None
        attributes = labelled(
            attribute if each.key or each.places else without_domain(attribute)
            for each in columns
            for attribute in (getattr(table.model, each.name),)
        )
        rows = sqla.with_compile_options(sa.select(*attributes).where(*table.visible()))
        if self.is_fenced:  # PostgreSQL evaluates it before conditions on its rows
            rows = rows.offset(0)
        alias = rows.subquery(self.alias("t", name))
        values = [
            Value(element, each.name, each.key, each, most=declared_size(element.type))
            for element, each in zip(alias.c, columns, strict=True)
        ]
        return Source(name, values, alias, list(table.columns))


@dataclass(frozen=True, slots=True)
class Source:
    """A named item of FROM.

    Attributes:
        name: the model's.
        values: its columns.
        from_: SQLAlchemy's.
        others: all column names of a table, also those that the statement does not use.
    """

    name: str
    values: Sequence[Value]
    from_: FromClause
    others: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [*self.others] or [value.name for value in self.values]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of WITH.

    Attributes:
        query: its SELECT.
        cte: SQLAlchemy's CTE.
        cost: what each use of it costs.
    """

    query: Query
    cte: Any
    cost: int = 0


@dataclass(slots=True)
class Scope:
    """The names in one SELECT.

    Attributes:
        building: the statement.
        outer: the scope of the outer SELECT.
        parts: of WITH, by name.
        sources: in FROM, in order.
        columns: that may be named without their table.
        subqueries: in its expressions, by node, each with its cost.
    """

    building: Building
    outer: Scope | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    columns: Sequence[Value] = ()
    subqueries: dict[Any, tuple[Query, int]] = field(default_factory=dict)

    def add(self, source: Source) -> None:
        """Add an item of FROM."""
        if source.name in (each.name for each in self.sources):
            raise invalid_sql(f"{source.name!r} is twice in FROM", "give each a name, with AS")
        self.sources.append(source)
        alias: Any = source.from_
        for n, each in enumerate(source.values, start=1):
            self.building.names[f"{alias.name}.c{n}"] = f"{source.name}.{each.name}"

    def inner(self) -> Scope:
        """Return the scope of a subquery."""
        return Scope(self.building, self)

    def around(self) -> Scope:
        """Return the scope of a subquery in FROM, which does not see the other items there."""
        return Scope(self.building, self.outer, dict(self.all_parts()))

    def all_parts(self) -> Mapping[str, Part]:
        """Return the parts of WITH that may be named here."""
        return {**(self.outer.all_parts() if self.outer else {}), **self.parts}

    def relation(self, name: str, alias: str) -> Source:
        """Return what a name in FROM means."""
        part = self.all_parts().get(name)
        if part is not None:
            self.building.budget.spend(part.cost)
            from_ = part.cte.alias(self.building.alias("t", alias))
            return Source(alias, part.query.columns_in(from_), from_)
        found = _named(self.building.tables, name)
        if len(found) != 1:
            known = [e.name for e in self.building.tables if e.name not in self.building.closed]
            raise unknown_name("table", name, [*self.all_parts(), *known])
        if found[0].name in self.building.closed:
            raise no_sql(found[0].name)
        return self.building.table(found[0], alias)

    def column(self, table: str | None, name: str) -> Value:
        """Return the column that a name means, in this scope or the nearest outer one."""
        for scope in self._scopes():
            found = _named(scope._columns(table), name)  # noqa: SLF001
            if len(found) > 1:
                raise invalid_sql(
                    f"{name!r} is in several tables", "put the table's name before it"
                )
            if found:
                return found[0]
            if table is not None and table in (each.name for each in scope.sources):
                break
        raise self._unknown(table, name)

    def _columns(self, table: str | None) -> Sequence[Value]:
        if table is None:
            return self.columns
        return [each for s in self.sources if s.name == table for each in s.values]

    def star(self, table: str | None) -> list[Value]:
        """Return the columns that `*` selects."""
        if not any(table in (None, each.name) for each in self.sources):
            raise self._unknown_table(table)
        return [e for e in self._columns(table) if e.column is None or e.column.shown]

    def _unknown(self, table: str | None, name: str) -> Exception:
        sources = [s for scope in self._scopes() for s in scope.sources]
        if table is not None:
            named = [each for each in sources if each.name == table]
            if not named:
                return self._unknown_table(table)
            return unknown_name("column", f"{table}.{name}", named[0].names)
        if name in (each.name for each in sources):
            return invalid_sql(f"{name!r} is a whole row", "name the columns that you want")
        return unknown_name("column", name, (each for source in sources for each in source.names))

    def _unknown_table(self, table: str | None) -> Exception:
        if table is None:
            return invalid_sql("'*' is selected without FROM", "name a table in FROM")
        names = [source.name for scope in self._scopes() for source in scope.sources]
        return unknown_name("table in FROM by the name", table, names)

    def _scopes(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


def _named(things: Iterable[_T], name: str) -> list[_T]:
    """Return the things of a name, or those whose name PostgreSQL would fold to it."""
    things = list(things)
    same = [each for each in things if each.name == name]
    return same or [each for each in things if each.name.lower() == name]
