"""Column lineage: the key columns from which the value of an expression comes.

    Recipe.id, coalesce(Recipe.id, x)    a key of recipes.id
    array_agg(Recipe.id)                 a list of them
    Recipe.name                          `None`: plain data
    Recipe.id.concat("!")                raises: no ref can stand for what comes out

An expression comes in, the shape of its values goes out, as `shapes` has it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    JSON,
    BindParameter,
    Boolean,
    Cast,
    Column,
    ColumnClause,
    ColumnElement,
    FunctionElement,
    Table,
    TextClause,
    TypeCoerce,
    UnaryExpression,
    Uuid,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Bundle
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseList,
    Slice,
    TableValuedColumn,
)
from sqlalchemy.sql.functions import next_value
from sqlalchemy.sql.selectable import FromClause, ScalarSelect, TableValuedAlias
from sqlalchemy.types import NullType

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError

from .expressions import (
    arguments_of,
    cast_to,
    choices_of,
    function_name,
    is_constant,
    is_declared_boolean,
    is_null,
    parts_of,
    retyped,
    untranslatable,
    wrapped_in,
)
from .functions import ARRAYS, JSON_MAKERS, RECORDS, is_taught, shape_by
from .key_column import KeyColumn
from .shapes import (
    UNKNOWN,
    UNTYPED,
    JsonObject,
    KeyShape,
    Listed,
    ParameterName,
    Series,
    Unknown,
    alike,
    as_json,
    columns_in,
    is_array,
    is_container,
    item_of,
    listed,
    unknowns_in,
)

# A constant written out in SQL, with or without a cast.
_CONSTANT = re.compile(
    r"\s*('[^']*'|-?\d+(\.\d+)?|null|true|false)\s*(::\s*\w+\s*(\[\])?)?\s*", re.IGNORECASE
)


class Lineage:
    """From which key columns the values of expressions come.

    Args:
        key_column: tells what keys a column of a table holds.
        key_parameters: those that stand for keys, by name.
        parameters: the names of the statement's parameters, in the order of its shape.
        written: the table that a write is of, which a bare `column("id")` in it names.
    """

    def __init__(
        self,
        key_column: Callable[[Column[Any]], KeyColumn | None],
        key_parameters: Mapping[str, KeyColumn] | None = None,
        parameters: Sequence[str] = (),
        written: FromClause | None = None,
    ) -> None:
        self._key_column = key_column
        self._key_parameters = key_parameters or {}
        self._parameters = parameters
        self._bare = {} if written is None else {column.name: column for column in written.c}

    def of_any(self, elements: Sequence[Any]) -> KeyShape:
        """Return what a value shows that comes from one of several expressions.

        Raises:
            UntranslatableError: keys are mixed with other values, or are not shown as they are.
        """
        others = [element for element in elements if not is_null(element)]
        return _either([self.of(element) for element in others], others)

    def of(self, element: Any) -> KeyShape:  # noqa: C901, PLR0911, PLR0912  # one case a construct
        """Return what one expression shows."""
        match element:
            case _ if (bundle := sqla.bundle_of(element)) is not None:
                return self._of_bundle(bundle)
            case ColumnClause():
                return self._of_column(element)
            case BindParameter():
                return self._key_parameters.get(element.key)
            case TypeCoerce(type=Boolean()) | FunctionElement(type=Boolean()):
                return self._of_claim(element)
            case BinaryExpression() | UnaryExpression() if is_declared_boolean(element):
                return self._of_claim(element)
            case Cast(type=Boolean()):
                return None
            case Cast() | TypeCoerce():
                return cast_to(self.of(element.clause), element.type)
            case _ if choices := choices_of(element):
                shape = self.of_any(choices)
                is_function = isinstance(element, FunctionElement)
                return retyped(shape, element.type) if is_function else shape
            case FunctionElement():
                return self._of_function(element)
            case ScalarSelect():
                return self.of(element.element.selected_columns[0])
            case BinaryExpression(operator=operators.getitem | operators.concat_op):
                return self._of_operator(element)
            case postgresql.array():
                return listed(self.of_any(list(element.clauses)))
            case TableValuedColumn():
                return self._of_scalar_alias(element.scalar_alias)
            case FromClause():
                return self._of_whole_row(element)
            case ColumnElement(type=Boolean()):
                return None
            case TextClause():
                return None if _CONSTANT.fullmatch(element.text) else UNKNOWN
            case ColumnElement() if sqla.is_opaque(element):
                return UNKNOWN
            case _:
                return self._of_made(element)

    def _of_column(self, element: ColumnClause[Any]) -> KeyShape:
        """Follow a column through subqueries and aliases to where its values come from."""
        if element.table is None and not element.is_literal:
            element = self._bare.get(element.name, cast(Any, element))
        meant = sqla.selected_from_union(element)
        bases = [base for base in meant.base_columns if base is not meant]
        if isinstance(meant, Column) and isinstance(meant.table, Table):
            return self._key_column(meant)
        if isinstance(element.table, TableValuedAlias):
            return self._of_table_function(element.table, element)
        if bases:
            return self.of_any(bases)
        is_constant = element.is_literal and _CONSTANT.fullmatch(element.name)
        return None if is_constant else UNKNOWN  # literal_column(), a lightweight table()

    def _of_scalar_alias(self, table: FromClause) -> KeyShape:
        """Return what `column_valued()` shows; `table_valued()` of a table is a row of it."""
        if isinstance(table, TableValuedAlias) and len(table.c) == 1:
            return self._of_table_function(table, table.c[0])
        return self._of_whole_row(table)

    def _of_table_function(self, table: TableValuedAlias, column: Any) -> KeyShape:
        """Return what a column shows of the rows that a function makes, such as `unnest()`."""
        shape = self.of(table.element)
        is_first = column is list(table.c)[0]  # noqa: RUF015  # next() would not tell it is there
        return shape if is_first or isinstance(shape, Unknown) else None

    def _of_function(self, element: FunctionElement[Any]) -> KeyShape:
        if isinstance(element, next_value):  # a new number is nobody's key yet
            return None
        name, arguments = function_name(element), arguments_of(element)
        if name in ARRAYS:
            parts = arguments[ARRAYS[name]]
            return listed(_either([item_of(self.of(part)) for part in parts], parts))
        if name in RECORDS:
            return self._of_record(arguments)
        part = self._of_json_part if name in JSON_MAKERS else self.of
        if name == "count":
            return None
        if not is_taught(name):
            return self._of_made(element)
        known = shape_by(name, [part(argument) for argument in arguments])
        return self._of_made(element) if known is NotImplemented else known

    def _of_json_part(self, element: Any) -> KeyShape:
        """Return what a part of a JSON document shows; a whole row is a record in it."""
        match element:
            case TableValuedColumn() if not isinstance(element.scalar_alias, TableValuedAlias):
                return self._of_row(element.scalar_alias)
            case FromClause() if not isinstance(element, FunctionElement | ColumnElement):
                return self._of_row(element)
            case _:
                inner = wrapped_in(element)
                return self.of(element) if inner is None else self._of_json_part(inner)

    def _of_row(self, table: FromClause) -> KeyShape:
        """Return what a whole row shows as JSON: the database may have more columns of a table."""
        fields = [(column, as_json(self.of(column))) for column in table.c]
        rest = None if sqla.table_behind(table) is None else UNKNOWN
        if rest is None and not any(shape for _, shape in fields):
            return None
        if any(shape and sqla.is_unnamed(column) for column, shape in fields):
            raise untranslatable(c for _, shape in fields for c in columns_in(shape))
        return JsonObject(tuple((str(column.name), shape) for column, shape in fields), rest)

    def _of_record(self, arguments: Sequence[Any]) -> KeyShape:
        names, values = arguments[::2], arguments[1::2]
        shapes = [as_json(self._of_json_part(value)) for value in values]
        named = [self._name(name) for name in names]
        if not any(shapes) and None not in named:
            return None
        if None in named or len(names) != len(values):
            # a name that is computed may be a key itself
            shapes += [self.of(name) for name in names]
            columns = [column for part in shapes for column in columns_in(part)]
            if columns:
                raise untranslatable(columns)
            return _strongest(shapes)
        return JsonObject(tuple(zip(named, shapes, strict=True)))  # type: ignore[arg-type]

    def _name(self, element: Any) -> ParameterName | str | None:
        """Return a field's name: a parameter's value differs from execution to execution."""
        if isinstance(element, BindParameter) and element.key in self._parameters:
            return ParameterName(self._parameters.index(element.key))
        text = getattr(element, "text", None) or (
            element.name if isinstance(element, ColumnClause) and element.is_literal else ""
        )
        is_text = _CONSTANT.fullmatch(text) and text.strip()[0] == "'"
        return text.strip()[1:].partition("'")[0] if is_text else None

    def _of_claim(self, element: Any) -> KeyShape:
        """Return what is shown by what the program declares to be true or false.

        The database goes by the expression, and may return a key: the values are looked at.
        """
        try:
            shapes = [self.of(part) for part in parts_of(element)]
        except UntranslatableError:
            return UNKNOWN
        has_keys = UNKNOWN in shapes or any(True for part in shapes for _ in columns_in(part))
        return UNKNOWN if has_keys else None

    def _of_operator(self, element: BinaryExpression[Any]) -> KeyShape:
        """Return what an item or a slice of an array shows, or two arrays joined."""
        left = self.of(element.left)
        is_list = (is_array(left) or isinstance(left, Listed)) and not isinstance(
            element.left.type, JSON
        )
        if element.operator is operators.getitem and is_list:
            return listed(item_of(left)) if isinstance(element.right, Slice) else item_of(left)
        right = self.of(element.right)
        if element.operator is operators.concat_op and isinstance(element.type, ARRAY):
            parts = [item_of(part) for part in (left, right)]
            return listed(_either(parts, [element.left, element.right]))
        return self._of_made(element)

    def _of_bundle(self, bundle: Bundle[Any]) -> KeyShape:
        """Return what a bundle shows: it becomes a row inside the row."""
        items = tuple(map(self.of, bundle.exprs))
        if not any(items):
            return None
        if type(bundle).create_row_processor is not Bundle.create_row_processor:
            raise untranslatable([c for item in items for c in columns_in(item)])
        return Series(items)

    def _of_made(self, element: Any) -> KeyShape:
        """Refuse what is made from keys: only plain data can be computed with."""
        parts = [self.of(part) for part in parts_of(element)]
        columns = [column for part in parts for column in columns_in(part)]
        if columns:
            raise untranslatable(columns)
        untyped = isinstance(element, FunctionElement) and isinstance(
            element.type, NullType | Uuid
        )
        return _strongest(parts) or (UNTYPED if untyped else None)

    def _of_whole_row(self, table: FromClause) -> KeyShape:
        """Refuse a row as one value, which drivers return as text, if it has keys."""
        return self._of_made(ClauseList(*table.c))


def _either(shapes: Sequence[KeyShape], elements: Sequence[Any]) -> KeyShape:
    """Return what a value shows that is one of several; an empty JSON list may be one of them."""
    found = [part for part in shapes if not (part is None or isinstance(part, Unknown))]
    if UNKNOWN in shapes or not found:
        return _strongest(shapes)
    one: KeyShape = found[0]
    for other in found[1:]:
        one = alike(one, other)
    others = [e for part, e in zip(shapes, elements, strict=True) if part not in found]
    if one is None or (others and not (is_container(one) and all(map(is_constant, others)))):
        raise untranslatable([column for part in found for column in columns_in(part)])
    return one


def _strongest(parts: Iterable[KeyShape]) -> Unknown | None:
    """Return how little is known of a value that these are parts of."""
    unknown = {each for part in parts for each in unknowns_in(part)}
    return UNKNOWN if UNKNOWN in unknown else next(iter(unknown), None)
