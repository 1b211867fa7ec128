"""The tool `db_query`: plan cache, call, JSON, labels.

`QueryTool` has the attributes of a function tool: name, description, schema, `call`.

1. `PreparedQueries.of` returns the statement for a text. Texts that differ only in literals share
   one: a known shape is tokenized and looked up, neither parser nor builder runs, and SQLAlchemy
   finds its compiled form.
2. The literals become parameters. One statement reads the rows, and one row more than is shown, in
   a read-only transaction.
3. Values become JSON, and the labels of refs are read: one statement for each table. A label that
   is in the same row already is left out.

>>> plans = PreparedQueries(toolset.tables)
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
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

from pydantic import ValidationError
from sqlalchemy import (
    ARRAY,
    Enum,
    Integer,
    String,
    Text,
    bindparam,
    case,
    cast,
    func,
    select,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError
from sqlglot import expressions as exp

from alfred_refs.errors import SetupError, UntranslatableError
from alfred_refs.mapping import KEY_MARGIN, has_marks
from alfred_refs.mapping.columns import plain_value, values_of
from alfred_refs.tools.answers import Room, cut_depth, shorten_texts
from alfred_refs.tools.arguments import DbQuery, first_shape_error
from alfred_refs.tools.call import Call, RowActivity, Setting, activities_of, transaction
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.decoding import decode_values
from alfred_refs.tools.errors import invalid_arguments, invalid_sql
from alfred_refs.tools.exact import is_text_needed, read_exact, select_exact
from alfred_refs.tools.serialization import CutText, replace_keys, shorten_text
from alfred_refs.tools.sql.parsing import (
    CostBudget,
    QueryShape,
    fault_in,
    no_refs,
    parse_shape,
    query_shape,
    too_deep,
)
from alfred_refs.tools.sql.scopes import (
    FUNCTIONS,
    MOST_SHOWN_DIGITS,
    Building,
    Function,
    Literals,
    Parameter,
    Scope,
    Value,
    labelled,
    with_own,
)
from alfred_refs.tools.sql.selects import query_of
from alfred_refs.tools.tables import ToolTable

ROW_LIMIT = "most"
"""The name of the parameter with the number of rows to read."""

TEXT_LIMIT = "most_text"
"""The name of the parameter with the number of characters to read of each text."""

LIST_LIMIT = "most_items"
"""The name of the parameter with the number of elements to read of each list."""

LARGE_LIMIT = "most_large"
"""The name of the parameter with the number of characters of a value that is read or not."""

_CUT_COST = 10  # units of the budget, for a column whose texts are cut
_LENGTH_COST = 12  # units of the budget, for a column of values whose length must be found
_MOST_COUNTED = 100_000  # bytes; the length of longer texts is shown in bytes
_MIN_TEXT = 1_000  # characters of a text that are shown, however many columns there are

_CAPACITY = 500  # the size of SQLAlchemy's compiled cache


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A statement that is ready to run.

    Attributes:
        statement: SQLAlchemy's.
        values: its columns.
        parameters: of the literals, by name.
        limit: which literal is the LIMIT.
        names: the aliases that are sent -> the model's names.
        texts: how many columns have texts that are cut by PostgreSQL.
        large: which columns have values that PostgreSQL leaves out if they are large; the lengths
            of those follow the columns.
        models: the classes whose tables it reads.
    """

    statement: Any
    values: Sequence[Value]
    parameters: Mapping[str, Parameter]
    limit: int | None
    names: Mapping[str, str]
    texts: int
    large: Sequence[int]
    models: Sequence[type[Any]]


@dataclass(slots=True)
class PreparedQueries:
    """The plans of one toolset, cached by shape.

    Attributes:
        tables: what a model may use.
        functions: that it may call.
        closed: names of tables that SQL may not read.
    """

    tables: ToolTables
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)
    closed: Collection[str] = ()
    _plans: dict[Hashable, PreparedQuery] = field(default_factory=dict)
    _fixed: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(
        self, text: str, *, fenced: bool, seconds: float | None = None
    ) -> tuple[PreparedQuery, Sequence[str]]:
        """Return the plan for a text, and its literals.

        Args:
            text: as the model wrote it.
            fenced: whether the tables contain rows of other owners.
            seconds: how long parsing and building may take.

        Raises:
            ToolError: it cannot be answered.
        """
        budget = CostBudget(seconds)
        shape = query_shape(text)
        key = shape.text, fenced
        fixed = self._fixed.get(key, ())
        plan = self._plans.get((key, *(shape.literals[n] for n in fixed)))
        return plan or self._make(shape, key, budget, fenced=fenced), shape.literals

    def _make(
        self, shape: QueryShape, key: Hashable, budget: CostBudget, *, fenced: bool
    ) -> PreparedQuery:
        try:
            plan, literals = self._build(shape, budget, fenced=fenced)
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

    def _build(
        self, shape: QueryShape, budget: CostBudget, *, fenced: bool
    ) -> tuple[PreparedQuery, Literals]:
        tree = parse_shape(shape, budget)
        literals = Literals(shape.literals)
        has_star = _has_star(tree)
        names = None if has_star else {e.name.lower() for e in tree.find_all(exp.Identifier)}
        building = Building(
            self.tables,
            self.closed,
            literals,
            names,
            fenced,
            query_of,
            self.functions,
            budget,
        )
        query = query_of(tree, Scope(building))
        limited = query.statement.limit(bindparam(ROW_LIMIT, type_=Integer()))
        plan = PreparedQuery(
            _select_shown(limited, query.values, building),
            query.values,
            literals.parameters,
            query.limit,
            building.names,
            sum(map(_is_cut, query.values)),
            [n for n, each in enumerate(query.values) if _is_large(each)],
            [*building.models],
        )
        return plan, literals


def _is_cut(value: Value) -> bool:
    """Return whether a value is a text that PostgreSQL cuts."""
    is_text = isinstance(value.type, String) and not isinstance(value.type, Enum)
    return is_text and value.key is None


def _is_large(value: Value) -> bool:
    """Return whether a value may be large but is not text: a list, a document, a long number."""
    if value.key is not None or isinstance(value.type, String):
        return False
    return value.longest is None or value.longest > MOST_SHOWN_DIGITS


def _is_changed(value: Value) -> bool:
    """Return whether something else than a value is selected to show it."""
    is_list = isinstance(value.type, ARRAY)
    return is_list or _is_large(value) or _is_cut(value) or is_text_needed(value.type)


def _select_shown(limited: Any, values: Sequence[Value], building: Building) -> Any:
    """Return a SELECT of the rows of another, with as much of each value as is shown.

    The sizes of values that may be too large to be shown follow the columns.
    """
    if not any(map(_is_changed, values)):
        return limited
    building.budget.spend(_CUT_COST * sum(map(_is_cut, values)))
    building.budget.spend(_LENGTH_COST * sum(map(_is_large, values)))
    columns = limited.subquery(building.alias("q", "the answer")).c
    shown = list(map(_shown, values, columns))
    large = [n for n, each in enumerate(values) if _is_large(each)]
    if not large:
        return select(*labelled(shown))
    most = bindparam(LARGE_LIMIT, type_=Integer())
    sizes = [_size_of(shown[n], most) for n in large]
    # a fence: PostgreSQL would compute a size in each place that names it
    measured = select(*labelled([*shown, *sizes])).offset(0)
    rows: list[Any] = list(measured.subquery(building.alias("q", "the answer with sizes")).c)
    for n, place in zip(large, range(len(shown), len(rows)), strict=True):
        size = rows[place]
        rows[n] = type_coerce(case((size <= most, rows[n])), shown[n].type)
        rows[place] = case((size > most, size))
    return select(*labelled(rows))


def _size_of(value: Any, most: Any) -> Any:
    """Return how many characters a value has as text, or items, if they are many."""
    length: Any = func.length(cast(value, Text()), type_=Integer())
    if not isinstance(value.type, ARRAY):
        return length
    # converting a list of millions of items to text is too slow
    items = func.cardinality(value, type_=Integer())
    return case((items > most, items), else_=length)


def _shown(value: Value, column: Any) -> Any:
    """Return what is selected to show a value."""
    if _is_cut(value):
        most = bindparam(TEXT_LIMIT, type_=Integer())
        # of a stored text, without reading it; without type it might return a key
        size = func.octet_length(column, type_=Integer())
        length = case((size > _MOST_COUNTED, size), else_=func.length(column, type_=Integer()))
        cut = func.left(column, most, type_=Text()).op("||")(cast(length, Text()))
        return case((length > most, cut), else_=column)
    if isinstance(value.type, ARRAY):
        column = column[1 : bindparam(LIST_LIMIT, type_=Integer())]
    return select_exact(column) if value.key is None and is_text_needed(value.type) else column


def _has_star(tree: exp.Expression) -> bool:
    """Return whether columns are selected without being named; `count(*)` selects none."""
    return any(
        not isinstance(each.parent, exp.Anonymous) for each in tree.find_all(exp.Star)
    ) or any(each.args.get("method") for each in tree.find_all(exp.Join))


class QueryRun:
    """Answers SELECTs of the model's, for one call."""

    def __init__(self, call: Call, plans: PreparedQueries) -> None:
        self._call = call
        self._plans = plans
        self._limits = call.setting.limits
        self._cut: list[str] = []
        self._most_text = self._limits.text

    def answer(self, arguments: DbQuery) -> dict[str, Any]:
        """Return the answer to a SELECT."""
        session = self._call.session
        plan, literals = self._plans.of(
            arguments.sql, fenced=session.owner is not None, seconds=self._limits.seconds
        )
        of_each = self._limits.characters // max(plan.texts, 1)
        self._most_text = min(self._limits.text, max(of_each, _MIN_TEXT))
        limit = self._limits.rows if arguments.limit is None else arguments.limit
        row_limit = min(limit, self._limits.rows)
        bind_arguments = self._bind_arguments(plan)
        with transaction(session, self._limits.seconds, only_reads=True):
            try:
                fetched = self._rows(plan, literals, row_limit, bind_arguments)
            except RecursionError:  # raised by SQLAlchemy's own traversal
                raise too_deep() from None
            numbered = enumerate(fetched[:row_limit], start=1)
            room = Room(self._limits.characters)
            rows = room.take(numbered, partial(self._row, plan), [self._cut])
            answer: dict[str, Any] = {
                "columns": [each.name for each in plan.values],
                "rows": rows,
                "count": len(rows),
                "more": len(rows) < len(fetched),
            }
            labels = self._labels(plan.values, rows)
        self._record_activity(plan.values, rows)
        if labels:
            answer["labels"] = labels
        if self._cut:
            answer["cut"] = self._cut
        return answer

    def _bind_arguments(self, plan: PreparedQuery) -> dict[str, Any]:
        """Return what chooses the database of a statement: its tables, or any table.

        Raises:
            ToolError: its tables are in several databases.
            SetupError: the database is not PostgreSQL.
        """
        session, setting = self._call.session, self._call.setting
        models = plan.models or [table.model for table in setting.tables][:1]
        binds = {model: session.get_bind(model) for model in models}
        if len({*binds.values()}) > 1:
            raise invalid_sql(
                "its tables are in several databases",
                "read them by one statement for each, or by db_read",
            )
        if any(bind.dialect.name != "postgresql" for bind in binds.values()):
            raise SetupError("db_query was called on another database", "use PostgreSQL")
        return {"mapper": models[0]} if models else {}

    def _rows(
        self,
        plan: PreparedQuery,
        literals: Sequence[str],
        most: int,
        bind_arguments: dict[str, Any],
    ) -> list[Any]:
        row_limit = most + 1
        if plan.limit is not None:
            row_limit = min(row_limit, int(literals[plan.limit]))
        texts = {name: literals[each.literal] for name, each in plan.parameters.items()}
        marked = {
            name: text
            for name, text in texts.items()
            if has_marks(text) and not plan.parameters[name].is_key
        }
        if marked:  # stand for keys, as in the values of filters
            texts |= decode_values(marked, self._call.setting.tables, self._call.conversation)
        parameters = {name: each.convert(texts[name]) for name, each in plan.parameters.items()}
        started_at = monotonic()
        try:
            return list(
                self._call.session.execute(
                    plan.statement,
                    {
                        **parameters,
                        ROW_LIMIT: row_limit,
                        TEXT_LIMIT: self._most_text + KEY_MARGIN,
                        LIST_LIMIT: self._limits.related + 1,
                        LARGE_LIMIT: self._most_large(plan, row_limit),
                    },
                    bind_arguments=bind_arguments,
                ).all()
            )
        except UntranslatableError:
            raise no_refs() from None
        except DBAPIError as error:
            seconds = self._limits.seconds
            slow = seconds if seconds is not None and monotonic() - started_at >= seconds else None
            fault = fault_in(error, plan.names, slow)
            if fault is None:
                raise
            raise fault from None

    def _most_large(self, plan: PreparedQuery, rows: int) -> int:
        """Return the largest size, in characters, of a list, document or number that is read.

        Larger values are not read. All values share 20 times the characters of an answer, and each
        may have at least `_MIN_TEXT`. One character of `[[],[],[]]` can take 20 bytes in Python.
        """
        most = self._limits.characters
        return max(min(most, 20 * most // max(rows * len(plan.large), 1)), _MIN_TEXT)

    def _row(self, plan: PreparedQuery, numbered: tuple[int, Any]) -> list[Any]:
        """Return a row as JSON."""
        number, row = numbered
        for place, length in zip(plan.large, row[len(plan.values) :], strict=True):
            if length is not None:
                self._cut.append(
                    f"row {number}, {plan.values[place].name}: {length} characters, which are not "
                    "shown; ask for members of it, or for fewer rows and columns"
                )
        return [
            self._value(value, each, f"row {number}, {value.name}")
            for value, each in zip(plan.values, row, strict=False)
        ]

    def _value(self, value: Value, loaded: Any, place: str) -> Any:
        if loaded is None:
            return None
        if value.key is not None:
            if not all(isinstance(each, str | None) for each in _as_list(loaded)):
                raise no_refs()
            return self._few(loaded, place)
        if _is_cut(value):
            return self._head(loaded, place)
        if is_text_needed(value.type):
            loaded = read_exact(value.type, loaded)
        loaded = cut_depth(self._few(loaded, place), place, self._cut)
        if value.column is not None:
            loaded = value.column.show(loaded)
        elif isinstance(getattr(value.type, "item_type", value.type), Enum):
            loaded = values_of(value.type, None).show(loaded)
        else:
            loaded = plain_value(loaded)
        return shorten_texts(loaded, self._most_text, place, self._cut)

    def _few(self, value: Any, place: str) -> Any:
        """Return a list with as many elements as are shown."""
        most = self._limits.related
        if not isinstance(value, list) or len(value) <= most:
            return value
        self._cut.append(f"{place}: more than {most} elements")
        return value[:most]

    def _head(self, text: str, place: str) -> str:
        """Return the head of a text; PostgreSQL puts the length after one that it has cut."""
        most = self._most_text + KEY_MARGIN
        short = shorten_text(text[:most], self._most_text)
        if isinstance(short, CutText):
            length = int(text[most:]) if len(text) > most else len(text)
            short = CutText(short, length - len(short))
            self._cut.append(f"{place}: {short.more} more characters")
        return short

    def _record_activity(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> None:
        """Record for prompts which rows were shown: rows of a table, and rows that refs name."""
        own = [t.columns[t.own] for t in self._call.setting.tables if t.own is not None]
        with self._call.session.activity() as seen:
            if seen is None:
                return
            shown: list[RowActivity] = [
                (ref, "read" if value.column in own else "linked", ())
                for place, value in enumerate(values)
                if value.key is not None
                for ref in _refs_in(rows, place)
            ]
            seen.extend(activities_of(shown, self._call.conversation))

    def _labels(self, values: Sequence[Value], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
        """Return the labels of the refs in rows, except those that are in the same row."""
        targets: dict[str, ToolTable] = {}
        for place, key in enumerate(each.key for each in values):
            target = None if key is None else self._call.setting.tables.of_entity(key.entity)
            if target is not None and target.keys.label is not None:
                targets |= dict.fromkeys(_refs_in(rows, place), target)
        if self._call.setting.labels == "none" or not targets:
            return {}
        labels = self._call.labels(dict(islice(targets.items(), self._limits.related)))
        return {ref: label for ref, label in labels.items() if not _shows_label(ref, label, rows)}


def _refs_in(rows: Sequence[Sequence[Any]], place: int) -> list[str]:
    """Return the refs in a column."""
    return [ref for row in rows for ref in _as_list(row[place]) if ref is not None]


def _shows_label(ref: str, label: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether each row with a ref contains its label too."""
    return all(label in row for row in rows if any(ref in _as_list(each) for each in row))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_PURPOSE = (
    "Answer a question with one SELECT: joins, WITH, windows, aggregates, of the tables that "
    "db_read describes{but}, at most {rows} rows. Refs are compared as texts ('{entity}_1') with "
    "columns of refs alone. Answers with 'columns' and 'rows', a list of values each."
)


class QueryTool:
    """The tool `db_query`.

    Args:
        setting: of the toolset.
        functions: signatures of the application's functions, by name.

    Raises:
        SetupError: a signature is invalid.

    Attributes:
        name: the tool's.
        description: for the model.
        reads: that it changes nothing.
        arguments: the model's arguments, as a pydantic model.
        parameters: the JSON schema of the arguments.
        own: parameters that the call fills in: none.
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
        self.parameters: dict[str, Any] = DbQuery.model_json_schema()
        del self.parameters["description"]
        self._plans = PreparedQueries(setting.tables, with_own(functions), closed)

    def schema(self, _: ToolTables) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return self.parameters

    def call(self, call: Call, given: Any) -> dict[str, Any]:
        """Answer a SELECT without keys, in a read-only transaction.

        Raises:
            ToolError: it cannot be answered.
            BadRefError: a ref cannot be used.
        """
        if not isinstance(given, dict):
            raise invalid_arguments("they are not an object")
        try:
            arguments = DbQuery.model_validate(given)
        except ValidationError as error:
            raise first_shape_error(self.name, error) from None
        answer = QueryRun(call, self._plans).answer(arguments)
        plain: dict[str, Any] = replace_keys(answer, call.conversation, call.setting.tables.shown)
        return plain
