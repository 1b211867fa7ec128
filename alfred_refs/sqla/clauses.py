"""What a statement is made of: its shape, parameters, values, results and options."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Executable,
    Insert,
    Select,
    Values,
    tuple_,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Bundle, Mapper
from sqlalchemy.orm.util import AliasedInsp, LoaderCriteriaOption
from sqlalchemy.sql import elements, visitors
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, FromClause, ScalarValues, TableClause


def shape_of(statement: Executable) -> tuple[Hashable | None, Sequence[BindParameter[Any]]]:
    """Return what is the same for all statements of one shape, and the values that are not.

    Leans on `_generate_cache_key`, which the statement memoizes and execution uses again, so
    asking costs nothing. Two statements of one shape list their parameters in the same order.
    The shape is `None` for a statement that SQLAlchemy does not cache: then all parameters are
    listed that `with_values` and its kin can replace.
    """
    if not isinstance(statement, ClauseElement):  # a Sequence, DDL
        return None, []
    cache_key = cast(Any, statement)._generate_cache_key()
    if cache_key is None:
        own = (statement, getattr(statement, "_post_values_clause", None))
        passed_over = itertools.chain.from_iterable(map(_passed_over_in, own))
        elements = itertools.chain(
            visitors.iterate(statement), *(elements_of(expression) for expression in passed_over)
        )
        return None, [e for e in elements if isinstance(e, BindParameter)]
    return cache_key.key, cache_key.bindparams


def elements_of(statement: Executable | ClauseElement) -> Iterator[Any]:
    """Yield every element of a statement, those of its subqueries and CTEs included.

    SQLAlchemy's own traversal does not look into lists of records, in 2.0 not into the end of an
    upsert, and in writes not into what they read from by a column alone.
    """
    if not isinstance(statement, ClauseElement):
        return
    seen: dict[int, Any] = {}
    waiting: list[ClauseElement] = [statement]
    while waiting:
        for element in visitors.iterate(waiting.pop()):
            yield element
            seen[id(element)] = element
            waiting += _passed_over_in(element)
            table = getattr(element, "table", None)
            if isinstance(table, FromClause) and not isinstance(table, TableClause):
                waiting.append(table)
        waiting = [each for each in waiting if id(each) not in seen]


def is_opaque(element: Any) -> bool:
    """Tell whether an element is of the program's own making and does not tell its parts."""
    if not isinstance(element, ClauseElement) or type(element).__module__.startswith(
        "sqlalchemy."
    ):
        return False
    return not list(element.get_children())


def hidden_in(element: Any) -> list[ClauseElement]:
    """Return the expressions that an opaque element has in its attributes, its texts included."""
    found: list[ClauseElement] = []
    for name, value in vars(element).items() if is_opaque(element) else ():
        if not name.startswith("_"):
            for each in value if isinstance(value, list | tuple) else [value]:
                part = each.__clause_element__() if hasattr(each, "__clause_element__") else each
                if isinstance(part, ClauseElement) and part is not element:
                    found.append(part)
                elif isinstance(part, str):
                    found.append(unlisted(part))
    return found


def _passed_over_in(element: Any) -> Iterator[ClauseElement]:
    """Yield the expressions in an element that its `get_children()` leaves out."""
    if isinstance(element, Values | ScalarValues):
        items = itertools.chain.from_iterable(records_of(element))
    elif isinstance(element, Insert):
        records = itertools.chain.from_iterable(many_values_of(element))
        items = itertools.chain.from_iterable(
            record.values() if isinstance(record, Mapping) else record for record in records
        )
    elif type(element).__name__ == "OnConflictDoUpdate" and not list(element.get_children()):
        sets = (value for _, value in element.update_values_to_set)
        criteria = (element.update_whereclause, element.inferred_target_whereclause)
        items = itertools.chain(sets, criteria)
    else:
        return
    yield from (item for item in items if isinstance(item, ClauseElement))


def has_lambdas(statement: Executable) -> bool:
    """Tell whether a statement, or any part of it, is given as a lambda."""
    return any(isinstance(element, LambdaElement) for element in elements_of(statement))


def written_by(statement: UpdateBase) -> tuple[Any, Mapper[Any] | None]:
    """Return the table that a write is to, and the mapper of the class that it names, if any.

    The public `entity_description` fails for a table where criteria name a class.
    """
    table = statement.table
    return table, table._annotations.get("parentmapper")


def values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an insert's or update's `values()`.

    A column is as it was given: an attribute, a `Column` or a name.
    """
    single = getattr(statement, "_values", None) or {}
    ordered = getattr(statement, "_ordered_values", None) or ()
    return itertools.chain(single.items(), ordered)


def many_values_of(statement: Executable) -> tuple[Sequence[Any], ...]:
    """Return the lists of records given to an insert's `values([...])`, as they were given."""
    return cast("tuple[Sequence[Any], ...]", getattr(statement, "_multi_values", ()))


def records_of(values: Values | ScalarValues) -> list[Sequence[Any]]:
    """Return the rows of a `values()` construct, or of one that stands in an IN."""
    return list(itertools.chain.from_iterable(values._data))


def places_of(values: Values | ScalarValues) -> list[list[Any]]:
    """Return the expressions at each position of the rows of a `values()` construct."""
    places = [
        [record[i] for record in records_of(values)] for i in range(len(values._column_args))
    ]
    return [
        [value if isinstance(value, ClauseElement) else unlisted(value) for value in place]
        for place in places
    ]


def unlisted(value: Any) -> BindParameter[Any]:
    """Return a parameter for a value that becomes one only when its statement is compiled."""
    return BindParameter(None, value, unique=True)


def update_on_conflict(statement: Executable) -> Any:
    """Return what an upsert does to rows that are there; `None` where it does nothing to them."""
    clause = getattr(statement, "_post_values_clause", None)
    return clause if hasattr(clause, "update_values_to_set") else None


def conflict_values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an upsert's `set_`: a list in 2.0, a mapping in 2.1."""
    pairs = getattr(update_on_conflict(statement), "update_values_to_set", ())
    return iter(pairs.items() if isinstance(pairs, Mapping) else pairs)


def selected_into(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, expression) pairs of an insert from a select."""
    names = getattr(statement, "_select_names", None)
    if not names:
        return iter(())
    return zip(names, cast(Any, statement).select.selected_columns, strict=True)


def out_of_reach(statement: Executable) -> Iterator[ClauseElement]:
    """Yield the parts of a statement in which `with_values` replaces nothing.

    That is the criteria that loader options carry (`with_loader_criteria()`, `.and_()`), those of
    a relationship that is joined along (`.and_()`), and the subquery that an alias of a class
    stands for: the ORM takes it from the alias, which is no part of the statement.
    """
    yield from _criteria_of_options(statement)
    selectables: dict[int, ClauseElement] = {}
    for element in elements_of(statement):
        yield from hidden_in(element)
        for target, on, *_ in getattr(element, "_setup_joins", ()):
            for joined in (target, on):
                yield from getattr(joined, "_extra_criteria", ())
        entity = getattr(element, "_annotations", {}).get("parententity")
        if isinstance(entity, AliasedInsp):
            selectables[id(entity.selectable)] = entity.selectable
    yield from selectables.values()


def _criteria_of_options(statement: Executable) -> Iterator[ClauseElement]:
    for option in options_of(statement):
        if isinstance(option, LoaderCriteriaOption):
            criterion = option.where_criteria
            yield criterion._resolved if isinstance(criterion, LambdaElement) else criterion
        for load in getattr(option, "context", ()):
            yield from getattr(load, "_extra_criteria", ())


def params_of(statement: Executable) -> Mapping[str, Any]:
    """Return what SQLAlchemy 2.1 keeps of a statement's `params()`; 2.0 puts it in at once."""
    return getattr(statement, "_params", {})


def expressions_of(options: Iterable[Any]) -> Iterator[Any]:
    """Yield the expressions that loader options put into attributes: `with_expression()`."""
    for option in options:
        for load in getattr(option, "context", ()):
            if ("query_expression", True) in (getattr(load, "strategy", None) or ()):
                yield from load._extra_criteria


def options_of(statement: Executable) -> Iterable[Any]:
    """Return the options of a statement."""
    return cast("Iterable[Any]", getattr(statement, "_with_options", ()))


def returned_by(statement: Executable) -> Iterator[Sequence[Any]]:
    """Yield what stands at each position of the rows: a list of one column, empty for an entity.

    The statement is a select or an insert, update or delete. Its public descriptions cannot be
    asked: they fail where RETURNING names an entity, or a select is of text alone.
    """
    elements = getattr(statement, "_raw_columns", None)
    for element in cast(Any, statement)._returning if elements is None else elements:
        if isinstance(element, ColumnElement) or not isinstance(element, FromClause):
            yield [element]
        elif "parententity" in element._annotations:
            yield []
        else:
            yield from ([column] for column in element.c)


def selected_from_union(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column that an attribute of a class stands for in a statement.

    It is the attribute's own column, but for a base class of concrete inheritance: its rows come
    from a union of several tables, and the ORM puts the union's column in the place of the
    attribute's, which it tells by an annotation.
    """
    mapper = element._annotations.get("parententity")
    if not isinstance(mapper, Mapper):
        return element
    mapper.registry.configure(cascade=True)  # which is when the union is put together
    selectable = mapper.selectable
    if not isinstance(selectable, AliasedReturnsRows):
        return element
    column = selectable.corresponding_column(cast("Column[Any]", element._deannotate()))
    return element if column is None else column


def ordered_aggregate(element: Any) -> Any:
    """Return the aggregate inside SQLAlchemy 2.1's `aggregate_order_by()`, `None` for another.

    `within_group()` is a subclass of it, whose value comes from its ORDER BY.
    """
    kind = getattr(elements, "AggregateOrderBy", None)
    return element.element if type(element) is kind else None


def bundle_of(element: Any) -> Bundle[Any] | None:
    """Return the bundle that an element of a select stands for, `None` for another."""
    if isinstance(element, Bundle):
        return element
    return cast("Bundle[Any] | None", getattr(element, "_annotations", {}).get("bundle"))


def is_unnamed(column: ColumnElement[Any]) -> bool:
    """Tell whether a column gets its name only when the statement is compiled."""
    return isinstance(cast(Any, column).name, elements._anonymous_label)


def is_false(condition: ColumnElement[bool]) -> bool:
    """Tell whether no row meets a condition because of how it is made.

    Leans on `and_` and `or_`, which keep nothing but `false()`, in an `AsBoolean`, where that is
    what decides.
    """
    element: Any = condition
    return isinstance(getattr(element, "element", element), elements.False_)


def distinct_on(statement: Select[Any], elements: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Return a SELECT DISTINCT ON; 2.1 has an extension for it, and deprecates the old way."""
    make = getattr(postgresql, "distinct_on", None)
    return statement.distinct(*elements) if make is None else statement.ext(make(*elements))


def among(columns: Sequence[Any], keys: Iterable[Sequence[Any]]) -> ColumnElement[bool]:
    """Return the condition that the columns of a key have one of some keys."""
    met: ColumnElement[bool]
    if len(columns) == 1:
        met = columns[0].in_([key[0] for key in keys])
    else:
        met = tuple_(*columns).in_([tuple(key) for key in keys])
    return met
