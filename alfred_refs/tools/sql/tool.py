"""The tool `db_query`: plan cache, call, JSON, labels.

`QueryTool` has the attributes of a function tool: name, description, schema, `call`.

1. `Plans.of` returns the statement for a text. Texts that differ only in literals share one: a
   known shape is tokenized and looked up, neither parser nor builder runs, and SQLAlchemy finds
   its compiled form.
2. The literals become parameters. One statement reads the rows, and one row more than is shown, in
   a read-only transaction.
3. Values become JSON, and the labels of refs are read: one statement for each table. A label that
   is in the same row already is left out.

>>> plans = Plans(toolset.tables)
>>> plan, literals = plans.of("select name from recipes where servings > 1", fenced=False)
>>> literals, list(plan.parameters)
(['1'], ['n0'])
>>> plans.of("select name from recipes where servings > 5", fenced=False)[0] is plan
True
>>> from alfred_refs.tools import Toolset
>>> toolset = Toolset([Recipe, Line], sql=True)
>>> asked = {"sql": "select recipe_id, text from lines order by position limit 1"}
>>> toolset.call(session, "db_query", asked)
{'columns': ['recipe_id', 'text'], 'rows': [['recipe_1', '4 tomatoes']], 'count': 1, 'more': False,
'labels': {'recipe_1': 'Soup'}}

Limits: PostgreSQL only. Tables whose hooks change reads cannot be queried unless the hook says so
(`Hooks.sql`), because hooks are not called.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from time import monotonic
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from sqlalchemy import Enum, Integer, bindparam
from sqlalchemy.exc import DBAPIError
from sqlglot import expressions as exp

from alfred_refs.errors import SetupError, UntranslatableError
from alfred_refs.mapping.columns import values_of
from alfred_refs.tools.answers import ForeignRef, put_labels, size_of
from alfred_refs.tools.arguments import DbQuery, first_shape_error
from alfred_refs.tools.call import Call, RowView, Setting, activities_of, transaction
from alfred_refs.tools.errors import invalid_arguments
from alfred_refs.tools.serialization import CutText, Verbatim, limit_depth, shorten_text
from alfred_refs.tools.sql.parsing import (
    Shape,
    fault_in,
    no_refs,
    parse_shape,
    shape_of,
    too_deep,
    type_words,
)
from alfred_refs.tools.sql.scopes import (
    FUNCTIONS,
    Building,
    Function,
    Literals,
    Parameter,
    Scope,
    Value,
    with_own,
)
from alfred_refs.tools.sql.selects import BUILDERS, query_of
from alfred_refs.tools.tables import ToolTables

MOST = "most"
"""The parameter that says how many rows are read."""

_CAPACITY = 500  # as many as SQLAlchemy's compiled cache


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement that is ready to be run.

    Attributes:
        statement: of SQLAlchemy's.
        values: what its columns are.
        parameters: what the literals are sent as, by name.
        limit: the literal that says how many rows are wanted.
        names: what is sent for a name, with the name.
    """

    statement: Any
    values: Sequence[Value]
    parameters: Mapping[str, Parameter]
    limit: int | None
    names: Mapping[str, str]


@dataclass(slots=True)
class Plans:
    """The plans of one toolset; the oldest give way.

    Attributes:
        tables: what a model may use.
        functions: that it may call.
        closed: names of tables that it may not ask for by SQL.
    """

    tables: ToolTables
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)
    closed: Collection[str] = ()
    _plans: dict[Hashable, Plan] = field(default_factory=dict)
    _fixed: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, text: str, *, fenced: bool) -> tuple[Plan, Sequence[str]]:
        """Return the plan of a text, and its literals.

        Args:
            text: as a model wrote it.
            fenced: whether rows of others are in the tables.

        Raises:
            ToolError: it is none that can be answered.
        """
        shape = shape_of(text, type_words())
        key = shape.text, fenced
        fixed = self._fixed.get(key, ())
        plan = self._plans.get((key, *(shape.literals[n] for n in fixed)))
        return plan or self._made(shape, key, fenced=fenced), shape.literals

    def _made(self, shape: Shape, key: Hashable, *, fenced: bool) -> Plan:
        try:
            plan, literals = self._built(shape, fenced=fenced)
        except RecursionError:
            raise too_deep() from None
        with self._lock:
            fixed = tuple(sorted({*literals.fixed, *self._fixed.get(key, ())}))
            if len(self._plans) >= _CAPACITY:
                self._plans.clear()
                self._fixed.clear()
            self._fixed[key] = fixed
            self._plans[key, *(shape.literals[n] for n in fixed)] = plan
        return plan

    def _built(self, shape: Shape, *, fenced: bool) -> tuple[Plan, Literals]:
        tree = parse_shape(shape)
        literals = Literals(shape.literals)
        has_star = _has_star(tree)
        names = None if has_star else {e.name.lower() for e in tree.find_all(exp.Identifier)}
        building = Building(
            self.tables, self.closed, literals, names, fenced, query_of, BUILDERS, self.functions
        )
        query = query_of(tree, Scope(building))
        statement = query.statement.limit(bindparam(MOST, type_=Integer()))
        plan = Plan(statement, query.values, literals.parameters, query.limit, building.names)
        return plan, literals


def _has_star(tree: exp.Expression) -> bool:
    """Tell whether columns are wanted that are not named: `count(*)` wants none."""
    return any(
        not isinstance(each.parent, exp.Anonymous) for each in tree.find_all(exp.Star)
    ) or any(each.args.get("method") for each in tree.find_all(exp.Join))


class Querying:
    """Answers statements of a model's for one call."""

    def __init__(self, call: Call, plans: Plans) -> None:
        self._call = call
        self._plans = plans
        self._limits = call.setting.limits
        self._cut: list[str] = []

    def answer(self, arguments: DbQuery) -> dict[str, Any]:
        """Return the answer to a statement."""
        session = self._call.session
        plan, literals = self._plans.of(arguments.sql, fenced=session.owner is not None)
        asked = self._limits.rows if arguments.limit is None else arguments.limit
        most = min(asked, self._limits.rows)
        with transaction(session, self._limits.seconds, only_reads=True):
            try:
                found = self._rows(plan, literals, most)
            except RecursionError:  # of SQLAlchemy's, which goes through it by itself
                raise too_deep() from None
            rows = self._rows_to_json(plan.values, found[:most])
            answer: dict[str, Any] = {
                "columns": [each.name for each in plan.values],
                "rows": rows,
                "count": len(rows),
                "more": len(rows) < len(found),
            }
            labels = self._labels(plan.values, rows)
        self._keep(plan.values, rows)
        if labels:
            answer["labels"] = labels
        if self._cut:
            answer["cut"] = self._cut
        return answer

    def _rows(self, plan: Plan, literals: Sequence[str], most: int) -> list[Any]:
        wanted = most + 1
        if plan.limit is not None:
            wanted = min(wanted, int(literals[plan.limit]))
        sent = {
            name: each.convert(literals[each.literal]) for name, each in plan.parameters.items()
        }
        begun = monotonic()
        try:
            return list(self._call.session.execute(plan.statement, {**sent, MOST: wanted}).all())
        except UntranslatableError:
            raise no_refs() from None
        except DBAPIError as error:
            seconds = self._limits.seconds
            slow = seconds if seconds is not None and monotonic() - begun >= seconds else None
            fault = fault_in(error, plan.names, slow)
            if fault is None:
                raise
            raise fault from None

    def _rows_to_json(self, values: Sequence[Value], found: Sequence[Any]) -> list[list[Any]]:
        """Return rows as JSON, as far as there is room, and one at least."""
        shown: list[list[Any]] = []
        room = self._limits.characters
        for n, row in enumerate(found, start=1):
            made = [
                self._value(value, each, f"row {n}, {value.name}")
                for value, each in zip(values, row, strict=True)
            ]
            room -= size_of(made)
            if room < 0 and shown:
                break
            shown.append(made)
        return shown

    def _value(self, value: Value, given: Any, place: str) -> Any:
        if given is None:
            return None
        if value.key is not None:
            if not all(isinstance(each, str | None) for each in _items(given)):
                raise no_refs()
            return given
        column = value.column
        if column is not None:
            if isinstance(given, list | dict):
                given, is_cut = limit_depth(given)
                self._note(place, "levels", is_cut=is_cut)
            given = column.show(given)
            if column.values.family == "uuid":
                return Verbatim(given)
        elif isinstance(value.type, Enum):
            given = values_of(value.type, None).show(given)
        else:
            given, is_cut = limit_depth(given)
            self._note(place, "levels", is_cut=is_cut)
            given = _plain(given)
        return self._short(given, place)

    def _note(self, place: str, what: str, *, is_cut: bool) -> None:
        if is_cut:
            self._cut.append(f"{place}: more {what}")

    def _short(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            short = shorten_text(value, self._limits.text)
            if isinstance(short, CutText):
                self._cut.append(f"{place}: {short.more} more characters")
            return short
        if isinstance(value, list):
            return [self._short(each, place) for each in value]
        if isinstance(value, dict):
            return {name: self._short(each, place) for name, each in value.items()}
        return value

    def _keep(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> None:
        """Keep for prompts which rows were shown: those of a table, and others beside them."""
        own = [t.columns[t.own] for t in self._call.setting.tables if t.own is not None]
        with self._call.session.activity() as seen:
            if seen is None:
                return
            shown: list[RowView] = [
                (ref, "read" if value.column in own else "linked", None, {})
                for place, value in enumerate(values)
                if value.key is not None
                for row in rows
                for ref in _items(row[place])
                if ref is not None
            ]
            seen.extend(activities_of(shown, self._call.conversation))

    def _labels(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
        """Return labels of the refs in rows, but of those that have them beside them."""
        if self._call.setting.labels == "none":
            return {}
        refs: dict[str, str] = {}
        for place, value in enumerate(values):
            key = value.key
            target = None if key is None else self._call.setting.tables.of_entity(key.entity)
            if key is None or target is None or target.keys.label is None:
                continue
            for row in rows:
                refs |= dict.fromkeys((each for each in _items(row[place]) if each), key.entity)
        if not refs:
            return {}
        few = list(refs.items())[: self._limits.related]
        keys = self._call.resolve(few)
        tables = self._call.setting.tables
        found = []
        for ref, entity in few:
            target = tables.of_entity(entity)
            if target is not None:
                found.append(ForeignRef({"ref": ref}, "ref", target, keys[ref, entity]))
        labels = put_labels(self._call.session, found, "legend")
        return {ref: label for ref, label in labels.items() if not _is_beside(ref, label, rows)}


def _is_beside(ref: str, label: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Tell whether each row with a ref has its label too."""
    return all(label in row for row in rows if any(ref in _items(each) for each in row))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> Any:
    """Return a computed value as JSON."""
    match value:
        case bool() | int() | str() | None:
            return value
        case Decimal() if value.is_finite():
            near = float(value)
            return near if Decimal(repr(near)) == value else str(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return to_jsonable_python(value, fallback=str)


_PURPOSE = (
    "Answer a question with one SELECT: joins, WITH, windows, aggregates, of the tables that "
    "db_read describes{but}, at most {rows} rows. Refs are compared as texts ('{entity}_1') with "
    "columns of refs alone. Answers with 'columns' and 'rows', a list of values each."
)


class QueryTool:
    """The tool that answers SQL of a model's.

    Args:
        setting: what all calls of the toolset share.
        functions: of the application's own, by name, with what each takes and gives.

    Raises:
        SetupError: one of these is no such function.

    Attributes:
        name: what it is called.
        description: what it does.
        reads: that it changes nothing.
        arguments: what a model gives, as a pydantic model.
        own: what the call gives beside that: nothing.
    """

    name = "db_query"
    reads = True
    arguments: type[DbQuery] = DbQuery
    own: Mapping[str, type[Any]] = {}  # never changed

    def __init__(self, setting: Setting, functions: Mapping[str, str]) -> None:
        closed = setting.tables_without_sql()
        entity = next((each.entity for each in setting.tables if each.name not in closed), "row")
        but = f" but {', '.join(map(repr, sorted(closed)))}" if closed else ""
        self.description = _PURPOSE.format(but=but, rows=setting.limits.rows, entity=entity)
        self._plans = Plans(setting.tables, with_own(functions), closed)

    def schema(self, _: ToolTables) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema: dict[str, Any] = DbQuery.model_json_schema()
        del schema["description"]
        return schema

    def call(self, call: Call, given: Any) -> dict[str, Any]:
        """Answer a statement, in a transaction that reads only.

        Raises:
            ToolError: it is none that can be answered.
            BadRefError: a ref cannot be used.
        """
        if not isinstance(given, dict):
            raise invalid_arguments("they are no object")
        try:
            arguments = DbQuery.model_validate(given)
        except ValidationError as error:
            raise first_shape_error(self.name, error) from None
        if call.session.get_bind().dialect.name != "postgresql":
            raise SetupError("db_query was called on another database", "use PostgreSQL")
        return Querying(call, self._plans).answer(arguments)
