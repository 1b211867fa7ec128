"""Values in a statement that is being built: what SQL has of them, and whether they are keys.

    Value(recipes.c.id, "id", key=<keys of recipes>)     a key: compared, counted, shown as a ref
    Value(recipes.c.name, "name")                        data: computed with
    Value(None, literal=2)                               a text that is of no type yet

A key is never computed with: an expression made of one could tell it, piece by piece. So whatever
reads a value asks for what it can take: `data` for anything, `alike` for several that are of one
kind. Literals become parameters; a text gets the type of what it stands beside. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Numeric,
    Text,
    TypeDecorator,
    bindparam,
    cast,
)
from sqlalchemy.sql.elements import Null
from sqlalchemy.types import NullType, TypeEngine

from alfred_refs.mapping.column_types import values_of
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.tools.tables.table import ToolColumn, accepted

from .refusing import raw_key, refused
from .types import plain, width

UNNAMED = "?column?"
"""What PostgreSQL calls what has no name."""

_NUMBERS: dict[str, tuple[TypeEngine[Any], Callable[[str], Any]]] = {
    "integer": (Integer(), int),
    "bigint": (BigInteger(), int),
    "numeric": (Numeric(), Decimal),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value.

    Attributes:
        element: what SQLAlchemy has of it; `None` for a text of no type yet.
        name: what PostgreSQL calls it where it is selected.
        key: whose keys it has; `None` for data.
        column: of a table, where it is that and nothing else.
        literal: which text it is, if it is one of no type yet.
        number: which number it is, if it is one.
        weak: whether a conversion or a CASE around it has a name of its own; `None` for those
            that have no name.
    """

    element: Any
    name: str = UNNAMED
    key: KeyColumn | None = None
    column: ToolColumn | None = None
    literal: int | None = None
    number: int | None = None
    weak: bool | None = None

    @property
    def is_weak(self) -> bool:
        """Whether a conversion or a CASE around it has a name of its own, as in PostgreSQL."""
        return self.name == UNNAMED if self.weak is None else self.weak

    @property
    def is_null(self) -> bool:
        """Whether it is NULL, written out."""
        return isinstance(self.element, Null)

    @property
    def is_open(self) -> bool:
        """Whether it takes the type of what it stands beside."""
        return self.literal is not None or self.is_null

    @property
    def type(self) -> TypeEngine[Any]:
        """Its SQL type."""
        return NullType() if self.element is None else self.element.type

    @property
    def is_sealed(self) -> bool:
        """Whether it is shown as a whole or not at all: it may have keys inside, or is raw."""
        if self.column is None:
            return False
        return bool(self.column.places) or self.column.values.family == "opaque"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a literal is sent as.

    Attributes:
        literal: which one.
        convert: makes a value of its text.
        is_key: whether it names rows.
    """

    literal: int
    convert: Callable[[str], Any]
    is_key: bool = False


@dataclass(slots=True)
class Literals:
    """The literals of one statement, and what became of each.

    Attributes:
        texts: what they are.
        parameters: by name, those that are sent.
        fixed: those that the statement itself depends on.
    """

    texts: Sequence[str]
    parameters: dict[str, Parameter] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)

    def fix(self, literal: int) -> str:
        """Return a literal that the statement is made by."""
        self.fixed.add(literal)
        return self.texts[literal]

    def number(self, literal: int, kind: str) -> Value:
        """Return a number."""
        type_, convert = _NUMBERS[kind]
        return Value(self._sent("n", literal, type_, convert), number=literal)

    def text(self, value: Value, type_: TypeEngine[Any] | None = None) -> ColumnElement[Any]:
        """Return a value, as a text of a type where it has none."""
        if value.literal is None:
            return value.element  # type: ignore[no-any-return]
        if isinstance(type_, TypeDecorator):
            accept = values_of(type_, None).accept
            convert = lambda text: accepted(accept, "a text in the statement", text)  # noqa: E731
            name = f"d{len(self.parameters)}_"
            return self._sent(name, value.literal, type_, convert)
        sent = self._sent("t", value.literal, Text(), str)
        cast_to = plain(type_) if type_ is not None else None
        return sent if cast_to is None or isinstance(cast_to, Text) else cast(sent, cast_to)

    def ref(self, value: Value, like: Value) -> ColumnElement[Any]:
        """Return a text as a ref: the session knows which key it names."""
        if value.literal is None:
            return value.element  # type: ignore[no-any-return]
        key = like.key
        # one name wherever it stands beside such keys: PostgreSQL compares expressions by it
        space = "" if key is None else re.sub(r"\W", "_", key.space)
        name = f"k_{space}_{type(like.type).__name__}_"
        return self._sent(name, value.literal, like.type, str, is_key=True)

    def _sent(
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
        return bindparam(name, type_=type_)


def data(value: Value, what: str) -> Value:
    """Return a value that is computed with.

    Raises:
        ToolError: it is a key, or may have keys in it.
    """
    if value.key is not None:
        raise refused(
            f"{what} is made of a ref ({value.name!r})",
            "refs are selected, counted, grouped by and compared with refs of their table; for a "
            "list of them use array_agg",
        )
    return unsealed(value, what)


def unsealed(value: Value, what: str) -> Value:
    """Return a value that is looked into, if only to compare it.

    Raises:
        ToolError: it may have keys in it.
    """
    if value.is_sealed:
        raise refused(
            f"{what} is made of {value.name!r}, which is shown as a whole only",
            "select it as it is, or leave it out",
        )
    return value


def alike(
    values: Sequence[Value], literals: Literals, what: str, *, by_first: bool = False
) -> list[Value]:
    """Return values that are compared or chosen from: of one type, and keys of one table.

    Args:
        values: of which texts get the type of the others.
        literals: of the statement.
        what: is done with them, for errors.
        by_first: whether that is the type of the first, which the others are compared with.

    Raises:
        ToolError: they are of several.
    """
    typed = [each for each in values if not each.is_open]
    keys = [each for each in typed if each.key is not None]
    if keys:
        _check_keys(typed, keys[0], what)
        like = keys[0]
        return [
            replace(each, element=literals.ref(each, like), key=like.key, literal=None)
            if each.literal is not None
            else each
            for each in values
        ]
    for each in values:
        unsealed(each, what)
    types = [each.type for each in typed if not isinstance(each.type, NullType)]
    type_ = (types[0] if by_first else max(types, key=width)) if types else None
    return [
        each
        if each.literal is None
        else replace(each, element=literals.text(each, type_), literal=None)
        for each in values
    ]


def widest(values: Sequence[Value]) -> Value:
    """Return which of several values that are alike has the type that PostgreSQL gives to all."""
    typed = [each for each in values if not each.is_open]
    return max(typed or values, key=lambda each: width(each.type))


def _check_keys(typed: Sequence[Value], like: Value, what: str) -> None:
    entity = "" if like.key is None else like.key.entity
    for each in typed:
        if each.number is not None and like.key is not None:
            raise raw_key(like.key.entity)
        if each.key is None:
            raise refused(
                f"{what} has a ref ({like.name!r}) beside data ({each.name!r})",
                f"compare refs with refs, as '{entity}_1' in quotes, and data with data",
            )
        if like.key is not None and (each.key.space, each.key.array) != (
            like.key.space,
            like.key.array,
        ):
            raise refused(
                f"{what} has refs of {like.key.entity!r} beside refs of {each.key.entity!r}",
                "join tables by the columns that refer to each other",
            )


def item_key(key: KeyColumn | None) -> KeyColumn | None:
    """Return the keys of a list, one by one."""
    return None if key is None else replace(key, array=False)


def list_key(key: KeyColumn | None) -> KeyColumn | None:
    """Return lists of keys."""
    return None if key is None else replace(key, array=True)


def list_type(type_: TypeEngine[Any]) -> ARRAY[Any]:
    """Return the type of lists of a type."""
    return ARRAY(type_.item_type) if isinstance(type_, ARRAY) else ARRAY(type_)
