"""Builder of expressions: operators, conditions, conversions, function calls, windows.

    <Case ifs=[<If true=1>] default=2>        CASE WHEN ... THEN :n0 ELSE :n1 END
    <Sub this=day expression=1>               plans.day - :n0
    <GT this=day expression='2026-01-01'>     plans.day > CAST(:t0 AS DATE)
    <In this=recipe_id query=<Select>>        plans.recipe_id IN (SELECT ...)
    <Anonymous this=count expressions=[..]>   count(DISTINCT recipes.name)
    <Window this=<lag> partition_by=[..]>     lag(...) OVER (PARTITION BY ...)

`CONSTRUCTS` has a line for each node class: the arguments that it may have, what each of them is,
and the function that builds the value of them. `value_of` finds the line of a node and returns a
`Value`; a node without a line, and an argument that is not in it, is refused with its name. What a
function takes and gives, and which may be called at all, is in `scopes.FUNCTIONS`.

>>> from alfred_refs.tools import Toolset
>>> toolset = Toolset([Recipe, Line], sql=True)
>>> sql = "select name, rank() over (order by servings desc) as place from recipes order by place"
>>> toolset.call(session, "db_query", {"sql": sql})["rows"]
[['Soup', 1], ['Toast', 2]]
>>> sql = "select id || 'x' from recipes"
>>> toolset.call(session, "db_query", {"sql": sql})["error"]["message"]
"the statement cannot be answered: '||' is made of a ref ('id'); refs are selected, counted, ..."
>>> toolset.call(session, "db_query", {"sql": "select pg_sleep(9)"})["error"]["code"]
'invalid_sql'

Every value has the type that PostgreSQL gives it, so that a text next to it is read as that type.
Values that are compared must be of one kind: a text next to keys is a ref, and next to data it is
data.

Limits: nothing is computed with keys and keys are not converted; an expression made of a key could
reveal it, piece by piece. An application adds immutable functions with
`Toolset(sql={"similarity": "text text -> double"})`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ARRAY, JSON, Date, DateTime, Double, Float, Integer, Interval, Numeric, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB, aggregate_order_by
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BooleanClauseList,
    False_,
    Grouping,
    Null,
    True_,
    UnaryExpression,
)
from sqlalchemy.types import NullType, TypeEngine
from sqlglot import expressions as exp

from alfred_refs.tools.errors import invalid_sql
from alfred_refs.tools.sql.parsing import (
    MAX_CHARACTERS,
    describe_node,
    number_of,
    parts,
    string_number,
    type_words,
    unknown_name,
    unsupported,
)
from alfred_refs.tools.sql.scopes import (
    FUNCTIONS,
    LONGEST,
    MOST_DIGITS,
    MOST_SHOWN_DIGITS,
    NAMES,
    TYPES,
    Query,
    Scope,
    Value,
    bounded_number,
    declared_size,
    item_key,
    list_key,
    list_type,
    longest_of,
    named_type,
    require_data,
    require_inspectable,
    unify_values,
    widest,
)

_Type = TypeEngine[Any]


@dataclass(frozen=True, slots=True)
class Construct:
    """How the nodes of a class are built.

    Attributes:
        arguments: the names of those that a node may have, each with what it is, as in
            `this:number`: "node", "value", "condition", "rows" of a subquery, "data" or, of a
            certain type, a word of `_KINDS`. "ignored" arguments change nothing. "*" is the node
            itself, whose arguments are read by `make`.
        make: builds an element or a `Value`, of a scope and the arguments.
        called: what it is in errors.
        name: PostgreSQL's for it as a selected column, if it has one.
    """

    arguments: str
    make: Callable[..., Any]
    called: str = ""
    name: str = ""

    def build(self, node: Any, scope: Scope) -> Value:
        """Build the value of a node."""
        if self.arguments == "*":
            return self.make(scope, node)  # type: ignore[no-any-return]
        words = [each.partition(":") for each in self.arguments.split()]
        nodes = parts(node, *(name for name, _, _ in words))
        made = self.make(
            scope,
            *(
                _argument(word, each, scope, self.called)
                for (_, _, word), each in zip(words, nodes, strict=True)
                if word != "ignored"
            ),
        )
        value = made if isinstance(made, Value) else Value(made)
        return replace(value, name=self.name) if self.name else value


def _argument(word: str, node: Any, scope: Scope, called: str) -> Any:
    """Return an argument of a construct."""
    match word:
        case "node":
            return node
        case "condition":
            return condition_of(node, scope)
        case "rows":
            return subquery_of(node, scope)
    value = value_of(node, scope)
    if word != "value":
        _check_argument(word, require_data(value, called), called)
    return value


def value_of(node: Any, scope: Scope) -> Value:
    """Build the value of a node."""
    construct = CONSTRUCTS.get(type(node).__name__)
    if construct is None:
        raise unsupported(describe_node(node))
    budget = scope.building.budget
    before = budget.spent
    budget.spend(1)
    with budget.level():
        value = construct.build(node, scope)
    return replace(value, size=budget.spent - before)


def _limited(value: Value, word: str, scope: Scope) -> Value:
    """Return a value of the size that a word of the table of functions allows."""
    return scope.building.literals.bounded(value, word, scope.building.budget)


def values_of(nodes: Sequence[Any], scope: Scope) -> list[Value]:
    """Build the values of several nodes."""
    return [value_of(each, scope) for each in nodes]


def condition_of(node: Any, scope: Scope) -> Any:
    """Build a condition."""
    value = require_data(value_of(node, scope), "a condition")
    if not (value.is_null or isinstance(value.type, sa.Boolean)):
        raise invalid_sql(
            f"a condition is a value ({value.name!r})", "compare it: = , > or IS NULL"
        )
    return value.element


def element_of(value: Value, scope: Scope) -> Any:
    """Return the SQLAlchemy element of a value; an untyped text becomes text."""
    return scope.building.literals.text(value)


def _compared(values: Sequence[Value], scope: Scope) -> list[Any]:
    """Return the elements of values that are compared with each other."""
    found = unify_values(values, scope.building.literals, "a comparison", by_first=True)
    return [_operand(each.element) for each in found]


def _operand(element: Any) -> Any:
    """Return an element to compare; SQLAlchemy would turn a plain constant into IS."""
    return Grouping(element) if isinstance(element, False_ | Null | True_) else element


# Literals, columns, subqueries


def name_of(node: Any) -> str:
    """Return an identifier as PostgreSQL folds it: in lower case without quotes."""
    return str(parts(node, "this", "quoted")[0])


def literal_of(node: Any) -> tuple[int, str | None]:
    """Return which literal a node is, and the type of a number."""
    if not isinstance(node, exp.Literal):
        raise invalid_sql(
            f"{describe_node(node)} is used where a number or a string is needed", "write it out"
        )
    marker, is_string = parts(node, "this", "is_string")
    return (string_number(marker), None) if is_string else number_of(marker)


def integer_of(node: Any, scope: Scope) -> int:
    """Return an integer that the statement itself depends on."""
    literal, kind = literal_of(node)
    if kind != "integer":
        raise invalid_sql("another value is used where an integer is needed", "write an integer")
    return int(scope.building.literals.fix(literal))


def _column(scope: Scope, this: Any, table: Any) -> Value:
    if isinstance(this, exp.Star):
        raise invalid_sql("'*' is used in an expression", "name the columns that you want")
    value = scope.column(None if table is None else name_of(table), name_of(this))
    scope.building.budget.spend(value.size)
    is_number = isinstance(value.type, Numeric)
    if not (value.key or is_number) and (value.longest or math.inf) > LONGEST["text"]:
        scope.building.budget.read_long(2 if isinstance(value.type, ARRAY | JSON) else 1)
    return value


def _literal(scope: Scope, marker: Any, is_string: Any) -> Value:
    if is_string:
        return Value(None, literal=string_number(marker), most=MAX_CHARACTERS)
    return scope.building.literals.number(*number_of(marker))


def _paren(_: Scope, value: Value) -> Value:
    if not isinstance(value.element, BinaryExpression | BooleanClauseList | UnaryExpression):
        return value
    return replace(value, element=Grouping(value.element))


def subquery_of(node: Any, scope: Scope) -> Query:
    """Build a subquery; equal ones are one object, so that GROUP BY can name what is selected."""
    while isinstance(node, exp.Paren | exp.Subquery) and not any(
        value for name, value in node.args.items() if name != "this"
    ):
        node = node.this
    budget = scope.building.budget
    if node not in scope.subqueries:
        before = budget.spent
        query = scope.building.query(node, scope.inner())
        scope.subqueries[node] = query, budget.spent - before
        return query
    query, cost = scope.subqueries[node]
    budget.spend(cost)
    return query


def _one_column(rows: Query) -> Value:
    """Return the only column of a subquery."""
    if len(rows.values) != 1:
        raise invalid_sql("a subquery for values has several columns", "select one column there")
    return rows.values[0]


def _scalar(scope: Scope, node: Any) -> Value:
    rows = subquery_of(node, scope)
    value = _one_column(rows)
    made = rows.statement.scalar_subquery()
    return Value(made, value.name, value.key, weak=False, most=value.longest)


# Conditions


def _logic(join: Callable[..., Any], kind: type[Any], scope: Scope, node: Any) -> Value:
    found, waiting = [], [node]
    while waiting:  # iterative, because a chain of AND is a deep tree
        each = waiting.pop()
        if isinstance(each, kind):
            waiting += reversed(parts(each, "this", "expression"))
        else:
            found.append(condition_of(each, scope))
    return Value(join(*found))


def _compare(compare: Callable[[Any, Any], Any], scope: Scope, left: Any, right: Any) -> Any:
    quantifier = _quantifier(right)
    if quantifier is not None:
        return _compare_each(left, *quantifier, compare, scope)
    return compare(*_compared(values_of([left, right], scope), scope))


def _quantifier(node: Any) -> tuple[Any, Any] | None:
    """Return ANY or ALL and the list after it; `None` for other nodes."""
    if isinstance(node, exp.Any):
        (inside,) = parts(node, "this")
        return sa.any_, inside.this if isinstance(inside, exp.Paren) else inside
    if isinstance(node, exp.Anonymous) and node.name in ("any", "some", "all"):
        nodes = parts(node, "this", "expressions")[1]
        if len(nodes) == 1:
            return (sa.all_ if node.name == "all" else sa.any_), nodes[0]
    return None


def _compare_each(left: Any, quantifier: Any, inside: Any, compare: Any, scope: Scope) -> Any:
    """Build a comparison with any element of a list, or with all."""
    if isinstance(inside, exp.Query):
        raise unsupported("ANY or ALL with a subquery", "use IN or NOT IN, or EXISTS")
    one = value_of(left, scope)
    many = _list(scope, inside, [one] if one.key is not None else ())
    if many.literal is not None:
        raise unsupported("a list written as a text", "write ARRAY['a', 'b']")
    if not isinstance(many.type, ARRAY):
        raise invalid_sql("ANY or ALL is used on a value that is not a list", "use IN (...)")
    return compare(_compared([one, _item_of(many)], scope)[0], quantifier(many.element))


def _is(scope: Scope, value: Value, what: Any, negate: Any) -> Any:
    if not isinstance(what, exp.Null | exp.Boolean):
        raise unsupported(f"IS {describe_node(what)}", "use IS NULL, IS TRUE or IS DISTINCT FROM")
    if isinstance(what, exp.Boolean):
        require_data(value, "a condition")
    element, constant = element_of(value, scope), value_of(what, scope).element
    return element.is_not(constant) if negate else element.is_(constant)


def _in(scope: Scope, this: Any, nodes: Any, query: Any) -> Any:
    if isinstance(this, exp.Tuple):
        raise unsupported("a row of values", "compare column by column, with AND and OR")
    value = value_of(this, scope)
    if query is not None:
        rows = subquery_of(query, scope)
        return _compared([value, _one_column(rows)], scope)[0].in_(rows.statement)
    one, *others = _compared([value, *values_of(nodes, scope)], scope)
    return one.in_(others)


def _between(scope: Scope, *values: Value) -> Any:
    one, low, high = _compared(values, scope)
    return _typed(one.between(low, high), sa.Boolean())


_PATTERN = 5  # units of the budget


def _like(
    method: str, scope: Scope, left: Value, right: Value, negate: Any, *, escape: str | None = None
) -> Any:
    scope.building.budget.spend(_PATTERN)
    sizes = zip((left, right), ("text", "part"), strict=True)
    bounded = [_limited(each, word, scope) for each, word in sizes]
    element, text = (_operand(element_of(each, scope)) for each in bounded)
    return getattr(element, f"not_{method}" if negate else method)(text, escape=escape)


def _escape(scope: Scope, like: Any, sign: Any) -> Value:
    literal, kind = literal_of(sign)
    text = scope.building.literals.fix(literal)
    if kind is not None or len(text) != 1 or text in "'\\%:":
        raise unsupported("this ESCAPE", "escape with another character")
    if not isinstance(like, exp.Like | exp.ILike):
        raise unsupported("ESCAPE here")
    construct = CONSTRUCTS[type(like).__name__]
    return replace(construct, make=partial(construct.make, escape=text)).build(like, scope)


# Choices and lists


def _case(scope: Scope, this: Any, whens: Any, default: Any) -> Value:
    pairs = [parts(each, "this", "true") for each in whens]
    results = [value_of(result, scope) for _, result in pairs]
    results.append(Value(sa.null()) if default is None else value_of(default, scope))
    chosen = unify_values(results, scope.building.literals, "CASE")
    *elements, last = (each.element for each in chosen)
    conditions = [condition for condition, _ in pairs]
    if this is None:
        tests = [condition_of(each, scope) for each in conditions]
    else:
        first, *rest = _compared(values_of([this, *conditions], scope), scope)
        tests = [first == each for each in rest]
    made = sa.case(*zip(tests, elements, strict=True), else_=last)
    like = widest(chosen)
    is_weak = results[-1].is_weak
    name = "case" if is_weak else results[-1].name
    made = _typed(made, like.type)
    return Value(made, name, like.key, weak=is_weak, most=longest_of(chosen))


def _typed(element: Any, type_: _Type) -> Any:
    """Set the type of an element, if SQLAlchemy knows none or takes that of the first operand."""
    element.type = type_
    return element


def _bracket(scope: Scope, value: Value, indexes: Any) -> Value:
    [index] = indexes
    if not isinstance(value.type, ARRAY) or not isinstance(index, exp.Literal):
        raise unsupported("'[...]' but for one element of a list by its number")
    place = scope.building.literals.number(*number_of(index.this, added=1))
    element: Any = value.element
    if isinstance(element, sa.Case | sa.Cast):  # SQLAlchemy does not add parentheses
        element = Grouping(element)
    return Value(element[place.element], value.name, item_key(value.key))


def _item_of(many: Value) -> Value:
    """Return a value of the type of a list's items."""
    null = sa.cast(sa.null(), many.type.item_type)  # type: ignore[attr-defined]
    return Value(null, many.name, item_key(many.key))


def _list(scope: Scope, node: Any, like: Sequence[Value] = ()) -> Value:
    """Build a list; for `ARRAY[...]`, next to values that its items are compared with."""
    if not isinstance(node, exp.Array):
        return value_of(node, scope)
    (nodes,) = parts(node, "expressions")
    if not nodes:
        raise unsupported("an empty ARRAY[]", "write '{}'")
    items = unify_values([*values_of(nodes, scope), *like], scope.building.literals, "ARRAY[]")
    first = widest(items)
    type_: ARRAY[Any] = ARRAY(Text()) if first.is_open else list_type(first.type)
    elements = [each.element for each in items[: len(nodes)]]
    made: Any = postgresql.array(elements, type_=type_.item_type)
    # SQLAlchemy sends texts as VARCHAR, and PostgreSQL has no operators of text[] and varchar[]
    is_text = isinstance(type_.item_type, sa.String)
    key = list_key(first.key)
    return Value(sa.cast(made, type_) if is_text and key is None else made, "array", key)


_PAIR_DIGITS = 6
_FEW_ITEMS = 20  # are looked for in a list of any length
_CONTAINED = {"@>": 1, "<@": 0}  # which operand has the items that are looked for


def _of_lists(sign: str, scope: Scope, *nodes: Any) -> Any:
    """Build a comparison of the items of two lists, or documents.

    PostgreSQL compares each item with each, and cannot be interrupted; so the number of pairs is
    bounded, unless the statement lists a few items.
    """
    scope.building.budget.spend(_SEARCH)
    found = [None if isinstance(each, exp.Array) else value_of(each, scope) for each in nodes]
    like = [_item_of(each) for each in found if each and each.key and each.key.array]
    pair = [each or _list(scope, n, like) for n, each in zip(nodes, found, strict=True)]
    if any(each.key is not None and each.literal is None and not each.key.array for each in pair):
        raise invalid_sql(f"{sign!r} is used on a ref", "use = or IN (...)")
    if any(each.key for each in pair) and any(each.literal is not None for each in pair):
        raise invalid_sql("refs are written as one text", "write ARRAY[...] with a text for each")
    is_list = any(isinstance(each.type, ARRAY) for each in pair)
    if not is_list and sign in _CONTAINED:
        pair = unify_values(pair, scope.building.literals, repr(sign), by_first=True)
        place = _CONTAINED[sign]
        pair[place] = _limited(pair[place], "part", scope)
    left, right = _compared(pair, scope)
    made = left.op(sign, return_type=sa.Boolean(), is_comparison=True)(right)
    counts = [_listed(each) for each in nodes]
    if not is_list or any(each is not None and each <= _FEW_ITEMS for each in counts):
        return made
    scope.building.budget.spend(sum(each.size for each in pair))
    one, other = (  # with their types: without, they might return a key
        sa.func.cardinality(each, type_=Integer()) if count is None else sa.literal(count)
        for each, count in zip((left, right), counts, strict=True)
    )
    pairs = sa.cast(one, sa.BigInteger) * other
    return sa.case((sa.cast(pairs, Numeric(_PAIR_DIGITS, 0)).is_not(None), made))


def _listed(node: Any) -> int | None:
    """Return how many items a statement lists; `None` if it lists none."""
    return len(node.expressions) if isinstance(node, exp.Array | exp.Null) else None


# Computations


_LONG_NUMBERS = 10  # units of the budget, for a computation of 20 ms


def _arithmetic(sign: str, scope: Scope, left: Value, right: Value) -> Any:
    if left.is_open or right.is_open:
        raise invalid_sql(
            "a text or NULL is computed with",
            "write its type: DATE '2026-05-01', INTERVAL '1 day', or a number without quotes",
        )
    type_ = _computed_type(sign, left.type, right.type)
    elements = [left.element, right.element]
    digits = _digits_of((left, right), scope) if isinstance(type_, Numeric) else None
    if sign == "^" and not isinstance(type_, Float):
        scope.building.budget.spend(_SEARCH)
        digits = None
        elements = [
            bounded_number(each, MOST_DIGITS[word])
            for each, word in zip(elements, ("base", "power"), strict=True)
        ]
    return Value(elements[0].op(sign, return_type=type_)(elements[1]), most=digits)


def _negated(_: Scope, value: Value) -> Value:
    return Value(-value.element, most=value.most)


def _digits_of(values: Sequence[Value], scope: Scope) -> int | None:
    """Return how many digits a number has at most that is computed of others."""
    found = [each.longest for each in values if each.longest is not None]
    digits = sum(found) if len(found) == len(values) else None
    if digits is None or digits > MOST_SHOWN_DIGITS:
        scope.building.budget.spend(_LONG_NUMBERS)
    return digits


def _computed_type(sign: str, left: _Type, right: _Type) -> _Type:
    """Return the type of a computation in PostgreSQL; `NullType` if it has no such operator."""
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        return Double() if sign == "^" and isinstance(left, Float) else _wider(left, right)
    if isinstance(left, Date) and isinstance(right, Date):
        return Integer() if sign == "-" else NullType()
    if isinstance(left, DateTime) and isinstance(right, DateTime | Date):
        return INTERVAL()
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Date) and isinstance(other, _SPANS):
            return DateTime()
        if isinstance(one, Date | DateTime | sa.Time):
            return one
    return INTERVAL() if isinstance(left, _SPANS) or isinstance(right, _SPANS) else NullType()


def _wider(left: _Type, right: _Type) -> _Type:
    for class_, made in (
        (Float, Double()),
        (Numeric, Numeric()),
        (sa.BigInteger, sa.BigInteger()),
    ):
        if isinstance(left, class_) or isinstance(right, class_):
            return made
    return Integer()


def _concatenate(scope: Scope, left: Value, right: Value) -> Any:
    types = [each.type for each in (left, right)]
    special = next((each for each in types if isinstance(each, ARRAY | JSONB)), None)
    if special is not None and (left.literal is not None or right.literal is not None):
        raise invalid_sql(
            "a text is joined to a list", "write ARRAY['a', 'b'], or a document::jsonb"
        )
    type_ = Text() if special is None else special
    # the result may be long, but not what it is made of
    pair = [
        _limited(each, "text" if each.longest is None else "long", scope) for each in (left, right)
    ]
    one, other = (element_of(each, scope) for each in pair)
    most = sum(each.longest or 0 for each in pair)
    return Value(one.op("||", return_type=type_)(other), most=most)


def _member(sign: str, scope: Scope, document: Value, path: Any) -> Any:
    """Build `->` and `->>`: a member or an element of a document."""
    steps = path.expressions[1:] if isinstance(path, exp.JSONPath) else []
    marker = steps[0].this if len(steps) == 1 else None
    literals = scope.building.literals
    if isinstance(marker, str) and isinstance(steps[0], exp.JSONPathKey):
        key = literals.text(Value(None, literal=string_number(marker)))
    elif isinstance(marker, int) and isinstance(steps[0], exp.JSONPathSubscript):
        key = literals.number(*number_of(marker)).element
    else:
        raise unsupported("this path into a document", "write -> 'name' ->> 'name'")
    type_ = Text() if sign == "->>" else document.type
    scope.building.budget.spend(_DOCUMENT)
    document = _quick(document, scope)
    return document.element.op(sign, return_type=type_)(key)


def _quick(document: Value, scope: Scope) -> Value:
    """Return a document of a bounded size, if PostgreSQL has to parse it for each member."""
    return document if isinstance(document.type, JSONB) else _limited(document, "long", scope)


def _at_zone(scope: Scope, value: Value, zone: Value) -> Any:
    type_ = DateTime(timezone=not value.type.timezone)  # type: ignore[attr-defined]
    return sa.Function("timezone", element_of(zone, scope), value.element, type_=type_)


# Conversions


_PRINTED = 4  # reads of a text of the same size
_MOST_DIGITS = 1_000  # PostgreSQL's limit for numeric


def _cast(scope: Scope, value: Value, to: Any) -> Value:
    type_, called = _type_of(to, scope)
    name = called if value.is_weak else value.name
    if value.key is not None:
        if isinstance(type_, sa.Uuid) and isinstance(value.type, sa.Uuid):
            return value
        raise invalid_sql(
            f"the ref {value.name!r} is converted", "refs are texts; leave the cast out"
        )
    if value.literal is not None and isinstance(type_, sa.Uuid):
        return replace(value, name=name, weak=True)  # a ref, next to refs
    require_data(value, "a conversion")
    is_text = value.literal is not None or isinstance(value.type, sa.String)
    most = declared_size(type_)
    if is_text and not isinstance(type_, sa.String):
        is_large = isinstance(type_, ARRAY | JSON)
        value = _limited(value, "text" if is_large else "part", scope)
    elif most is None:
        most = value.longest
    _print([value], scope)
    return Value(sa.cast(element_of(value, scope), type_), name, weak=value.is_weak, most=most)


def _print(values: Sequence[Value], scope: Scope) -> None:
    """Count lists and documents whose text is made, which takes longer than to read them."""
    if any(isinstance(each.type, ARRAY | JSON) for each in values):
        scope.building.budget.read_long(_PRINTED)


def _type_of(node: Any, scope: Scope) -> tuple[_Type, str]:
    """Return the type that a node names, and PostgreSQL's name for it, without its `[]`."""
    found = None
    if isinstance(node, exp.DataType) and not node.args.get("kind"):
        parts(node, "this", "expressions", "nested")
        kind, inside = getattr(node.this, "name", ""), node.expressions
        if kind == "ARRAY" and len(inside) == 1:
            item, called = _type_of(inside[0], scope)
            return ARRAY(item), called
        sizes = [integer_of(parts(each, "this")[0], scope) for each in inside]
        if all(1 <= size <= _MOST_DIGITS for size in sizes[:1]):
            found = named_type(kind, sizes)
    if found is None:
        raise invalid_sql(f"there is no type {describe_node(node)} to use", f"use {NAMES}")
    return found


def _interval(scope: Scope, this: Any) -> Value:
    literal, kind = literal_of(this)
    if kind is not None:
        raise invalid_sql("an interval is made of a number", "write INTERVAL '3 days'")
    made = scope.building.literals.text(Value(None, literal=literal), INTERVAL())
    return Value(made, "interval", weak=True)


# Function calls


_FIELDS = frozenset(
    (
        *("century", "day", "decade", "dow", "doy", "epoch", "hour", "isodow", "isoyear"),
        *("microseconds", "millennium", "milliseconds", "minute", "month", "quarter", "second"),
        *("week", "year"),
    )
)
_NUMBERS = Integer, Numeric, Float
_SPANS = Interval, INTERVAL
_DOCUMENT = 5  # units of the budget: to find a member in a document
_SEARCH = 20  # units of the budget: a search in a text takes 7 ms at most, a power 40 ms
# may return more than the longest of their arguments
_GROWING = frozenset(
    (
        *("replace", "concat", "concat_ws", "array_to_string", "string_agg", "array_agg"),
        *("power", "pow"),
    )
)

# the word for an argument -> SQLAlchemy's types, their name and the remedy for errors
_KINDS: Mapping[str, tuple[Any, str, str]] = {
    "array": (ARRAY, "list", "use it on a list"),
    **dict.fromkeys(
        ("number", "base", "power"), ((*_NUMBERS, *_SPANS), "number", "convert it first")
    ),
    **dict.fromkeys(("json", "jsonb"), (JSON, "document", "use it on a json column")),
    "negated": (_NUMBERS, "number", "write INTERVAL '-1 day'"),
    "timestamp": (DateTime, "timestamp", "convert it first"),
    "date": ((Date, DateTime, *_SPANS), "date, timestamp or interval", "convert it first"),
    "string": (sa.String, "text", "use CAST(x AS text)"),
}


def _check_argument(word: str, value: Value, called: str) -> None:
    """Check the type of an argument of a function or an operator."""
    if word in ("any", "data", "whole", *LONGEST) or (word == "string" and value.is_open):
        return
    if value.literal is not None and word != "array":
        is_time = word in ("date", "time", "timestamp")
        wanted = "DATE '2026-05-01'" if is_time else f"a value of type {word}"
        raise invalid_sql(f"{called} is used on a text", f"write {wanted}")
    types, kind, remedy = _KINDS.get(word, (object, "", ""))
    if not isinstance(value.type, types):
        raise invalid_sql(f"{called} is used on {value.name!r}, which is not a {kind}", remedy)


def _call(scope: Scope, this: Any, nodes: Any) -> Value:
    name = (this if isinstance(this, str) else this.name).lower()
    function = scope.building.functions.get(name)
    if function is None and name in type_words():
        raise invalid_sql(f"{name!r} is a type and no function", "convert with CAST(x AS type)")
    if function is None:
        raise unknown_name("function", name, scope.building.functions)
    nodes, is_distinct, order = _arguments(list(nodes or ()), name)
    if name == "count" and not is_distinct and len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        parts(nodes[0])
        return Value(sa.func.count(), name)
    most = None if function.repeats else len(function.takes)
    if len(nodes) < function.fewest or (most is not None and len(nodes) > most):
        raise invalid_sql(
            f"{name}() is called with {len(nodes)} arguments",
            f"write {name}({function})",
        )
    if (is_distinct or order) and function.kind != "aggregate":
        raise invalid_sql(f"{name}() has DISTINCT or ORDER BY", "use that in aggregates alone")
    values = _coerced(name, values_of(nodes, scope), scope)
    elements = [element_of(each, scope) for each in values]
    # with DISTINCT, ORDER BY must repeat the argument expressions exactly
    find = dict(zip(nodes, elements, strict=True)).get if is_distinct else None
    if is_distinct:
        elements[0] = sa.distinct(elements[0])
    if order is not None:
        elements[-1] = aggregate_order_by(elements[-1], *order_elements(order, scope, find))
    first = next((each for each in values if not each.is_null), values[0] if values else None)
    if function.gives == "common":  # the second argument of `lag` is a number
        first = widest(values[::2] if function.kind == "window" else values)
    type_, key = _result(function.gives, first)
    most = None if name in _GROWING or name not in FUNCTIONS else longest_of(values)
    return Value(sa.Function(name, *elements, type_=type_), name, key, most=most)


def _special_call(name: str, scope: Scope, *nodes: Any) -> Value:
    """Build a call with a syntax of its own."""
    return _call(scope, name, [each for each in nodes if each is not None])


def _trim(scope: Scope, this: Any, signs: Any, position: Any) -> Value:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(position).upper(), "btrim")
    return _special_call(name, scope, this, signs)


def _arguments(nodes: list[Any], name: str) -> tuple[list[Any], bool, Sequence[Any] | None]:
    """Return arguments without the DISTINCT and ORDER BY among them."""
    is_distinct, order = False, None
    if nodes and isinstance(nodes[-1], exp.Order):
        last, order = parts(nodes[-1], "this", "expressions")
        nodes = [*nodes[:-1], last]
    if nodes and isinstance(nodes[0], exp.Distinct):
        (inside,) = parts(nodes[0], "expressions")
        nodes, is_distinct = [*inside, *nodes[1:]], True
    if any(isinstance(each, exp.Distinct | exp.Order) for each in nodes):
        raise unsupported(f"DISTINCT or ORDER BY in this place of {name}()")
    return nodes, is_distinct, order


def _coerced(name: str, values: list[Value], scope: Scope) -> list[Value]:
    """Return arguments with the types that a function takes."""
    takes = scope.building.functions[name].takes
    words = [takes[min(n, len(takes) - 1)] for n in range(len(values))]
    if "whole" in words:  # so many characters are read, and no more
        words[0] = "long" if values[1].number is None else "whole"
        values[1] = scope.building.literals.count(values[1])
    if "part" in words or "power" in words:
        scope.building.budget.spend(_SEARCH)
    if scope.building.functions[name].gives == "text":
        _print(values, scope)
    if any(isinstance(each.type, JSON) for each in values):
        scope.building.budget.spend(_DOCUMENT)
    if any(isinstance(each.type, Numeric) for each in values):
        _digits_of(values, scope)
    same = [value for word, value in zip(words, values, strict=True) if word == "same"]
    unified = iter(unify_values(same, scope.building.literals, f"{name}()") if same else ())
    return [
        next(unified) if word == "same" else _bounded(word, value, name, scope)
        for word, value in zip(words, values, strict=True)
    ]


def _bounded(word: str, value: Value, name: str, scope: Scope) -> Value:
    """Return an argument of the size that PostgreSQL computes in little time."""
    if name != "count":
        may_be_key = scope.building.functions[name].keys and word in ("any", "array", "text")
        (require_inspectable if may_be_key else require_data)(value, f"{name}()")
    _check_argument(word, value, f"{name}()")
    if word in LONGEST:
        return value if value.key is not None else _limited(value, word, scope)
    if word == "json":
        return _quick(value, scope)
    if word in MOST_DIGITS and not isinstance(value.type, Float):
        return replace(value, element=bounded_number(value.element, MOST_DIGITS[word]))
    return value


def _result(gives: str, first: Value | None) -> tuple[_Type, Any]:
    """Return the type of a function's result, and the keys that it passes on."""
    if gives in TYPES:
        return TYPES[gives], None
    type_ = Text() if first is None or first.element is None else first.type
    key = None if first is None else first.key
    match gives:
        case "same" | "common":
            return type_, key
        case "item":
            return (type_.item_type if isinstance(type_, ARRAY) else type_), item_key(key)
        case "array":
            return list_type(type_), list_key(key)
    return _numeric_type(gives, type_), None


def _numeric_type(gives: str, type_: _Type) -> _Type:
    """Return the type of a sum, an average, or a rounded number or time."""
    if gives == "trunc":
        return type_ if isinstance(type_, (DateTime, *_SPANS)) else DateTime(timezone=True)
    if isinstance(type_, _SPANS):
        return INTERVAL()
    if isinstance(type_, Float) or (gives == "round" and isinstance(type_, Integer)):
        return Double()
    is_small = isinstance(type_, Integer) and not isinstance(type_, sa.BigInteger)
    return sa.BigInteger() if gives == "sum" and is_small else Numeric()


def order_elements(
    nodes: Sequence[Any], scope: Scope, find: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Return the ORDER BY expressions.

    Args:
        nodes: of an ORDER BY.
        scope: of its names.
        find: returns the expression for a node that is not one of the scope's, or `None`.
    """
    found = []
    for each in nodes:
        this, desc, nulls_first = parts(each, "this", "desc", "nulls_first")
        element = None if find is None else find(this)
        if element is None:
            element = element_of(require_inspectable(value_of(this, scope), "ORDER BY"), scope)
        by = element.desc() if desc else element.asc()
        if bool(nulls_first) is not bool(desc):
            by = by.nulls_first() if nulls_first else by.nulls_last()
        found.append(by)
    return found


def _extract(scope: Scope, field: Any, value: Value) -> Any:
    is_text = isinstance(field, exp.Literal)
    name = str(
        scope.building.literals.fix(literal_of(field)[0]) if is_text else field.name
    ).lower()
    if not isinstance(field, exp.Literal | exp.Var) or name not in _FIELDS:
        raise unknown_name("field of a time", name, sorted(_FIELDS))
    return Value(sa.type_coerce(sa.extract(name, value.element), Numeric()), most=value.longest)


# FILTER, OVER and WITHIN GROUP


def _require_kind(node: Any, scope: Scope, kinds: Sequence[str], fact: str, remedy: str) -> None:
    """Check the kind of a function that is called."""
    called = scope.building.functions.get(node.name.lower())
    if not isinstance(node, exp.Anonymous) or called is None or called.kind not in kinds:
        raise invalid_sql(fact, remedy)


def _filter(scope: Scope, this: Any, where: Any) -> Value:
    value = value_of(this, scope)
    fact = "FILTER follows a function that is not an aggregate"
    _require_kind(this, scope, ("aggregate",), fact, "use CASE")
    (condition,) = parts(where, "this")
    return replace(value, element=value.element.filter(condition_of(condition, scope)))


def _within(scope: Scope, this: Any, order: Any) -> Value:
    value = value_of(this, scope)
    fact = "WITHIN GROUP follows a function that does not take it"
    _require_kind(this, scope, ("ordered",), fact, "use percentile_cont")
    (nodes,) = parts(order, "expressions")
    if len(nodes) != 1:
        raise unsupported("WITHIN GROUP by several values")
    by = require_data(value_of(nodes[0].this, scope), "WITHIN GROUP")
    is_continuous = value.name == "percentile_cont" and not isinstance(by.type, _SPANS)
    made: Any = value.element.within_group(*order_elements(nodes, scope))
    type_ = Double() if is_continuous else by.type
    return Value(sa.type_coerce(made, type_), value.name, most=by.longest)


def _window(scope: Scope, *nodes: Any) -> Value:
    this, partition, order, spec, kind = nodes
    if kind != "OVER":
        raise unsupported("this kind of window")
    inner = this.this if isinstance(this, exp.Filter) else this
    fact = "OVER follows a function that is not a window function"
    _require_kind(inner, scope, ("aggregate", "window"), fact, "leave it out")
    value = value_of(this, scope)
    by = values_of(partition or (), scope)
    orders = parts(order, "expressions")[0] if order is not None else []
    frame = _frame(spec, scope)
    if any(frame.get("range_", ())):
        for each in orders:  # a RANGE offset is added to them
            require_data(value_of(each.this, scope), "RANGE")
    made = sa.over(
        value.element,
        partition_by=[element_of(each, scope) for each in by] or None,
        order_by=order_elements(orders, scope) or None,
        **frame,
    )
    return replace(value, element=made)


def _frame(spec: Any, scope: Scope) -> dict[str, Any]:
    """Return the frame arguments of a window."""
    if spec is None:
        return {}
    kind, start, start_side, end, end_side = parts(
        spec, "kind", "start", "start_side", "end", "end_side"
    )
    name = {"ROWS": "rows", "RANGE": "range_", "GROUPS": "groups"}.get(str(kind).upper())
    if name is None:
        raise unsupported("this frame of a window", "use ROWS BETWEEN")
    last = 0 if end is None else _frame_bound(end, end_side, scope)
    return {name: (_frame_bound(start, start_side, scope), last)}


def _frame_bound(bound: Any, side: Any, scope: Scope) -> int | None:
    if bound in ("CURRENT ROW", "UNBOUNDED"):
        return 0 if bound == "CURRENT ROW" else None
    rows = integer_of(bound, scope)
    return -rows if str(side).upper() == "PRECEDING" else rows


_PAIR = "this:node expression:node"
_COMPUTATION = "this:data expression:data typed:ignored safe:ignored"
_MEMBER = "this:json expression:node only_json_types:ignored"
_LIKE = "this:string expression:string negate:node"

CONSTRUCTS: Mapping[str, Construct] = {
    # values
    "Array": Construct("*", _list),
    "Boolean": Construct("this:node", lambda _, this: sa.true() if this else sa.false()),
    "Bracket": Construct("this:value expressions:node offset:ignored", _bracket),
    "Case": Construct("this:node ifs:node default:node", _case),
    "Cast": Construct("this:value to:node _type:ignored", _cast),
    "Column": Construct("this:node table:node", _column),
    "Interval": Construct("this:node", _interval),
    "Literal": Construct("this:node is_string:node", _literal),
    "Null": Construct("", lambda _: sa.null()),
    "Paren": Construct("this:value", _paren),
    **dict.fromkeys(("Select", "Subquery"), Construct("*", _scalar)),
    # conditions
    "And": Construct("*", partial(_logic, sa.and_, exp.And)),
    "Or": Construct("*", partial(_logic, sa.or_, exp.Or)),
    "Not": Construct("this:condition", lambda _, this: sa.not_(this)),
    "Between": Construct("this:value low:value high:value", _between),
    "Exists": Construct("this:rows", lambda _, rows: rows.statement.exists(), name="exists"),
    "In": Construct("this:node expressions:node query:node", _in),
    "Is": Construct("this:value expression:node negate:node", _is),
    "Like": Construct(_LIKE, partial(_like, "like"), "LIKE"),
    "ILike": Construct(_LIKE, partial(_like, "ilike"), "ILIKE"),
    "Escape": Construct(_PAIR, _escape),
    "EQ": Construct(_PAIR, partial(_compare, operator.eq)),
    "NEQ": Construct(_PAIR, partial(_compare, operator.ne)),
    "LT": Construct(_PAIR, partial(_compare, operator.lt)),
    "LTE": Construct(_PAIR, partial(_compare, operator.le)),
    "GT": Construct(_PAIR, partial(_compare, operator.gt)),
    "GTE": Construct(_PAIR, partial(_compare, operator.ge)),
    "NullSafeEQ": Construct(_PAIR, partial(_compare, sa.ColumnElement.is_not_distinct_from)),
    "NullSafeNEQ": Construct(_PAIR, partial(_compare, sa.ColumnElement.is_distinct_from)),
    # operators
    "Add": Construct(_COMPUTATION, partial(_arithmetic, "+"), "a computation"),
    "Sub": Construct(_COMPUTATION, partial(_arithmetic, "-"), "a computation"),
    "Mul": Construct(_COMPUTATION, partial(_arithmetic, "*"), "a computation"),
    "Div": Construct(_COMPUTATION, partial(_arithmetic, "/"), "a computation"),
    "Mod": Construct(_COMPUTATION, partial(_arithmetic, "%"), "a computation"),
    "Pow": Construct(_COMPUTATION, partial(_arithmetic, "^"), "a computation"),
    "Neg": Construct("this:negated", _negated, "a computation"),
    "DPipe": Construct("this:data expression:data safe:ignored", _concatenate, "'||'"),
    "ArrayContainsAll": Construct(_PAIR, partial(_of_lists, "@>")),
    "ArrayContainedBy": Construct(_PAIR, partial(_of_lists, "<@")),
    "ArrayOverlaps": Construct(_PAIR, partial(_of_lists, "&&")),
    "JSONExtract": Construct(_MEMBER, partial(_member, "->"), "'->'"),
    "JSONExtractScalar": Construct(_MEMBER, partial(_member, "->>"), "'->>'"),
    # functions
    "Anonymous": Construct("this:node expressions:node", _call),
    "AtTimeZone": Construct("this:timestamp zone:data", _at_zone, "AT TIME ZONE", "timezone"),
    "CurrentDate": Construct("", lambda _: sa.func.current_date(), name="current_date"),
    "CurrentTimestamp": Construct(
        "",
        lambda _: sa.Function("now", type_=DateTime(timezone=True)),
        name="current_timestamp",
    ),
    "Extract": Construct("this:node expression:date", _extract, "EXTRACT", "extract"),
    "StrPosition": Construct(
        "this:node substr:node", partial(_special_call, "strpos"), name="position"
    ),
    "Substring": Construct(
        "this:node start:node length:node", partial(_special_call, "substr"), name="substring"
    ),
    "Trim": Construct("this:node expression:node position:node", _trim),
    "Filter": Construct("this:node expression:node", _filter),
    "Window": Construct("this:node partition_by:node order:node spec:node over:node", _window),
    "WithinGroup": Construct("this:node expression:node", _within),
}
"""The constructs, by node class."""
