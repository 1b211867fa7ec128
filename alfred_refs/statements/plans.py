"""Statement plans: where refs go in and keys come out, cached per statement shape.

What a statement puts into attributes and columns: refuses keys where data belong.

A key that is cast to text, and loaded under the name of a data column or stored in one, is data
from then on, and would be shown. What a statement fills comes in, and its lineage; nothing goes
out, or an error. Pure.

    select(Recipe).from_statement(select(Recipe.id, cast(Recipe.id, String).label("name")))
    update(Recipe).values(name=cast(Recipe.id, String))

Where refs may stand in a statement: read once for all statements of its shape.

A statement comes in; which of its parameters are compared with key columns or stored in them goes
out, and which are mixed with key columns in a way that cannot be translated: those are refused if
they turn out to be text, because the database might compare a ref as if it were data, and find
more rows than were meant. Pure.

Refs in: the values of one execution that are refs, and the same statement with keys in place.

`texts` lists the refs that an execution brings, and `with_keys` puts keys in their place; where to
look is read once by `inputs`. Pure: resolving is the caller's part. A value is never dropped and a
criterion never changed: what cannot be translated raises.

Where values come from that the statement does not tell of: `text()` and literal columns.

The outputs of a result that has such values come in, and go out with what the server says of
them. PostgreSQL describes each column of a result by the table and the column that its values are
read from, through joins, aliases and CTEs; psycopg and psycopg2 hand that on, asyncpg does not.
What an expression computes has no such origin, and neither has a view that is not mapped: those
values are looked at one by one.

Which table a number stands for is asked of the catalogue once for each connection of the driver,
on that connection: numbers mean nothing in another database, and one behind the same URL may be
another tomorrow. Nothing is sent for tables that were met before.

Where refs go into a statement and keys come out of its rows: looked for once a shape.

Statements that differ in values alone have one shape, as in SQLAlchemy's compiled cache.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, cast

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    Column,
    Connection,
    Executable,
    Insert,
    Result,
    Table,
    text,
)
from sqlalchemy.orm import Session, object_session
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.mapping.lineage import (
    UNKNOWN,
    UNTYPED,
    KeyShape,
    Lineage,
    Unknown,
    as_json,
    columns_in,
    common_shape,
    with_other_spelling,
)
from alfred_refs.statements.dataflow import (
    Comparisons,
    Flows,
    InputTarget,
    Swap,
    check_one,
    columns_of,
    stored_by,
    swap_refs,
    takes_keys,
    target_of,
)
from alfred_refs.statements.results import Outputs, outputs_from, outputs_of

_REMEDY = (
    "give it another name, or use session.raw_keys() or execution_options(raw_keys=True) in "
    "trusted code"
)


def check_filled(statement: Executable, lineage: Lineage, entities: Entities) -> None:
    """Check that no key is loaded or stored as data.

    Raises:
        UntranslatableError: one is.
    """
    check_options(sqla.options_of(statement), lineage)
    for mapper, name, expression in sqla.populated_attributes(statement):
        key = entities.of_class(mapper.class_).all.get(name)
        check_shape(lineage.of(expression), key, f"{mapper.class_.__name__}.{name}")
    for write in sqla.elements_of(statement):
        if isinstance(write, UpdateBase):
            table, _ = sqla.write_target(write)
            stored = Lineage(entities.of_column, written=table)
            for column, value in stored_by(write):
                is_data = isinstance(value, ClauseElement) and entities.of_column(column) is None
                if is_data and any(columns_in(stored.of(value))):
                    raise _key_as_data(str(column))


def check_options(options: Iterable[Any], lineage: Lineage) -> None:
    """Check that no key is loaded as data by `with_expression()`.

    Raises:
        UntranslatableError: one is.
    """
    for expression in sqla.query_expressions(options):
        check_shape(lineage.of(expression), None, "an attribute filled by with_expression()")


def check_loaded(rows: Sequence[Any], keys: Container[int], entities: Entities) -> Sequence[Any]:
    """Return rows that were loaded by text: nobody knows what that has selected.

    Args:
        rows: of instances and values.
        keys: the positions of values that refs are shown for.
        entities: say which attributes hold keys.

    Raises:
        UntranslatableError: data may be a key; an instance that has it is expired.
    """
    for row in rows:
        for place, value in enumerate(row):
            if sqla.is_instance(value):
                _check_instance(value, entities)
            elif place not in keys and _may_be_key(value):
                raise _key_as_data("a value loaded by text")
    return rows


def _check_instance(instance: Any, entities: Entities) -> None:
    state = sqla.state_of(instance)
    keys = entities.of_class(state.class_).all
    for name, value in state.dict.items():
        if name not in keys and _may_be_key(value):
            cast(Session, object_session(instance)).expire(instance)
            raise _key_as_data(f"{state.class_.__name__}.{name}")


def _may_be_key(value: Any) -> bool:
    return isinstance(value, str) and spells_uuid(value)


def check_shape(shape: KeyShape, key: KeyColumn | None, what: str) -> None:
    """Check what an attribute is filled with, which holds keys of its own or none.

    Raises:
        UntranslatableError: others are in it.
    """
    if shape in (None, UNTYPED) or (key is not None and isinstance(shape, Unknown)):
        return
    if key is None or common_shape(with_other_spelling(shape), with_other_spelling(key)) is None:
        raise _key_as_data(what)


def _key_as_data(what: str) -> UntranslatableError:
    return UntranslatableError(f"{what} would have keys that no ref stands for", _REMEDY)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where refs may stand in all statements of one shape.

    Attributes:
        positions: what each parameter of the statement is compared with or stored in, by the
            parameter's place in `sqla.cache_key_of`.
        types: the SQL types of the parameters that are not sent as what they meet.
        named: what each value is stored in or compared with that comes by name: with the
            execution, or in a record.
        ordered: the same of values that come in order, in an insert's lists of tuples.
        keys: the parameters that stand for keys, by name: what they show is a key as well.
        unnamed: the same as `positions` of those parameters that the program gave no name, by
            what SQLAlchemy makes their names of: their values may come with the execution too.
        names: those that the program gave itself: of parameters, and of columns that are written.
        single: those of parameters that stand for one value, and no list of such.
    """

    positions: Mapping[int, InputTarget]
    types: Mapping[int, TypeEngine[Any]]
    named: Mapping[str, InputTarget]
    ordered: Sequence[InputTarget | None]
    keys: Mapping[str, KeyColumn]
    unnamed: Sequence[tuple[str, InputTarget]]
    names: Collection[str]
    single: Collection[str] = frozenset()

    def without(self, places: Collection[int]) -> Inputs:
        """Return the inputs of one execution: in these places of the statement are no refs."""
        if not places:
            return self
        left = {i: target for i, target in self.positions.items() if i not in places}
        return replace(self, positions=left)


def inputs_of(
    statement: Executable, parameters: Sequence[BindParameter[Any]], entities: Entities
) -> Inputs:
    """Tell where refs may stand in a statement.

    Args:
        statement: any; one without key columns has no inputs.
        parameters: its parameters, as `sqla.cache_key_of` lists them.
        entities: which columns hold keys.

    Raises:
        UntranslatableError: one parameter stands for a key and for something else.
    """
    flows = Flows(entities.of_column)
    comparisons = Comparisons(flows, statement)
    for element in sqla.elements_of(statement):
        comparisons.read(element)
        comparisons.read_opaque(element)
    for part in sqla.unreachable_parts(statement):
        comparisons.refuse_in(part)
    for parameter in sqla.unreachable_parameters(statement, parameters):
        comparisons.refuse(parameter)
    comparisons.check(parameters)
    targets, types = comparisons.targets, comparisons.types
    columns, ordered = columns_of(statement)
    by_name = {name: target for name, c in columns.items() if (target := target_of(flows.of(c)))}
    named = [p.key for p in parameters if not p.unique]
    stems = [(stem, p.key) for p in parameters if (stem := sqla.anonymous_stem(p)) is not None]
    return Inputs(
        {i: targets[p.key] for i, p in enumerate(parameters) if p.key in targets},
        {i: types[p.key] for i, p in enumerate(parameters) if p.key in types},
        by_name | {name: targets[name] for name in named if name in targets},
        [target_of(flows.of(column)) for column in ordered],
        {p.key: target for p in parameters if isinstance(target := targets.get(p.key), KeyColumn)},
        [(stem, targets[key]) for stem, key in stems if key in targets],
        frozenset(named).union(columns),
        frozenset(p.key for p in parameters if not p.unique and not sqla.takes_list(p)),
    )


Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What is given to `Session.execute` beside the statement."""


_NONE: Mapping[str, sqla.LateKey] = {}


@dataclass(frozen=True, slots=True)
class Single:
    """The one place for a ref in statements such as `select(Recipe).where(Recipe.id == ref)`.

    Attributes:
        place: of the parameter.
        column: what it is compared with.
    """

    place: int
    column: KeyColumn

    def text_in(self, statement: Executable, values: Sequence[BindParameter[Any]]) -> str | None:
        """Return the ref of one execution that brings no parameters, if its value is text."""
        # none where it is read when the statement is executed, which an instance's own key is
        value = values[self.place].value
        return value if type(value) is str and not sqla.params_of(statement) else None


def single_of(inputs: Inputs) -> Single | None:
    """Return the one place for a ref, of inputs that all stand in the WHERE of a statement."""
    if len(inputs.positions) != 1:
        return None
    [(place, target)] = inputs.positions.items()
    is_plain = isinstance(target, KeyColumn) and not target.array and target.alternate is None
    return Single(place, target) if is_plain else None  # type: ignore[arg-type]


def texts(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
) -> list[tuple[str, KeyColumn]]:
    """Return the texts that stand for keys in one execution, each with its column.

    Raises:
        UntranslatableError: a text is combined with a key column other than by comparison, or
            given by a name that SQLAlchemy made.
    """
    found: list[tuple[str, KeyColumn]] = []
    for place, target in inputs.positions.items():
        found += texts_in(values[place], sqla.parameter_value(values[place]), target)
    for record in _records(statement, parameters):
        _note_record(record, inputs, lambda *text: found.append(text))
    if inputs.unnamed:
        for record in _bound_values(statement, parameters):
            _refuse_made_names(record, inputs)
    return found


def texts_in(
    parameter: BindParameter[Any], value: Any, target: InputTarget
) -> list[tuple[str, KeyColumn]]:
    """Return the texts that stand for keys in the value of a parameter, each with its column.

    Raises:
        UntranslatableError: see `texts`.
    """
    found: list[tuple[str, KeyColumn]] = []
    if not sqla.takes_list(parameter):
        check_one(value, target)
    swap_refs(value, target, lambda *text: found.append(text))
    return found


def with_keys(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
    swap: Swap,
    *,
    late: Mapping[str, sqla.LateKey] = _NONE,
    in_where: bool = False,
) -> tuple[Executable, Parameters]:
    """Return the statement and its parameters with keys in place of the texts found in them.

    That is quick where all that is replaced stands `in_where`, as `sqla.all_in_where` tells.

    Args:
        inputs: where texts may be.
        statement: stays as it is.
        values: its parameters.
        parameters: what comes with the execution.
        swap: gives the key for a text.
        late: what gives the values of parameters that are not read yet, by their keys.
        in_where: see above.
    """
    replaced: dict[str, Any] = {
        values[place].key: swap_refs(sqla.parameter_value(values[place]), target, swap)
        for place, target in inputs.positions.items()
        if takes_keys(target)
    }
    replaced |= late
    params = sqla.params_of(statement)
    if in_where and replaced:
        statement = sqla.with_values_in_where(statement, replaced)
        if not params and not parameters:
            return statement, parameters
    types = {values[place].key: type_ for place, type_ in inputs.types.items()}
    swapping = _Swapping(inputs, swap, replaced, types)
    if not in_where:
        statement = swapping.expression(statement)
    if isinstance(statement, Insert):
        statement = swapping.records_of(statement)
    if params:
        statement = sqla.with_params(statement, swapping.record(params))
    if not parameters:
        return statement, parameters
    if isinstance(parameters, Mapping):
        return statement, swapping.record(parameters)
    return statement, list(map(swapping.record, parameters))


@dataclass(frozen=True, slots=True)
class _Swapping:
    """What takes the place of the refs of one execution: values and SQL types, by parameter."""

    inputs: Inputs
    swap: Swap
    values: Mapping[str, Any]
    types: Mapping[str, TypeEngine[Any]]

    def expression(self, expression: Any) -> Any:
        """Return a statement, or an expression in a record, with keys in place of refs."""
        if not self.values:
            return expression
        return sqla.with_values(expression, self.values, self.types)

    def records_of(self, statement: Executable) -> Executable:
        """Return an insert with keys in place of the refs in its lists and in its upsert."""
        conflict = dict(sqla.conflict_values_of(statement))
        if conflict:
            conflict = self.record(conflict)
            statement = sqla.with_conflict_values(statement, conflict, self.expression)
        many = sqla.many_values_of(statement)
        if many:
            lists = tuple(list(map(self.record, each)) for each in many)
            statement = sqla.with_many_values(statement, lists)
        return statement

    def record(self, record: Any) -> Any:
        """Return a record, by name or column or in order, with keys in place of its refs."""
        if isinstance(record, Mapping):
            targets = [self.inputs.named.get(_name(name)) for name in record]
            return dict(zip(record, self._values(record.values(), targets), strict=True))
        return list(self._values(record, self.inputs.ordered))

    def _values(
        self, values: Iterable[Any], targets: Sequence[InputTarget | None]
    ) -> Iterator[Any]:
        for value, target in zip(values, targets, strict=True):
            if isinstance(value, ClauseElement):
                yield self.expression(value)
            else:
                yield swap_refs(value, target, self.swap)


def _note_record(record: Any, inputs: Inputs, note: Swap) -> None:
    if isinstance(record, Mapping):
        for name, value in record.items():
            target = inputs.named.get(_name(name))
            if _name(name) in inputs.single:
                check_one(value, target)
            swap_refs(value, target, note)
    else:
        for value, target in zip(record, inputs.ordered, strict=True):
            swap_refs(value, target, note)


def _records(statement: Executable, parameters: Parameters) -> Iterator[Any]:
    if isinstance(statement, Insert):
        for each in sqla.many_values_of(statement):
            yield from each
        yield dict(sqla.conflict_values_of(statement))
    yield from _bound_values(statement, parameters)


def _bound_values(statement: Executable, parameters: Parameters) -> Iterator[Mapping[str, Any]]:
    """Yield what values are given beside the statement, by the names of parameters."""
    params = sqla.params_of(statement)
    if params:
        yield params
    if parameters:
        yield from [parameters] if isinstance(parameters, Mapping) else parameters


def _refuse_made_names(record: Mapping[str, Any], inputs: Inputs) -> None:
    """Refuse a text that would take the place of one in the statement, by a name such as `id_1`.

    Which of several is the first is decided when the statement is compiled.
    """
    for name in map(_name, record):
        for stem, target in () if name in inputs.names else inputs.unnamed:
            if sqla.may_set_anonymous(name, stem):
                swap_refs(record[name], target, partial(_refuse_name, name))


def _refuse_name(name: str, *_: object) -> NoReturn:
    raise UntranslatableError(
        f"a text is given as parameter {name!r}, a name that SQLAlchemy makes",
        "put the value into the statement, or give the parameter a name by bindparam()",
    )


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key.key)


_TABLES = """
    select c.oid, n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid),
        a.attnum, a.attname
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid = c.oid
    where c.oid in ({}) and a.attnum > 0 and not a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table as the database knows it.

    Attributes:
        schema: where it is.
        name: what it is called there.
        visible: whether its name alone finds it.
        columns: their names by number.
    """

    schema: str
    name: str
    visible: bool
    columns: Mapping[int, str]


def trace_origins(outputs: Outputs, result: Result[Any], entities: Entities) -> Outputs:
    """Return the outputs of a result with what is known of its values of unknown origin."""
    cursor = sqla.cursor_result_of(result)
    places = [] if cursor is None else sqla.column_origins(cursor)
    if cursor is not None and places and outputs.width != len(places):
        if sqla.is_chunked(result):  # an entity or a bundle has several columns of the cursor
            places = []
        else:
            outputs = outputs_from([UNKNOWN] * len(places))
    if cursor is not None and any(oid for oid, _ in places):
        outputs = _query_origins(outputs, places, cursor.connection, entities)
    return outputs.limited(entities.key_types_in_use()) if outputs.unknown else outputs


def check_filled_by_text(result: Result[Any], statement: Executable, entities: Entities) -> None:
    """Check that a text loads no key into an attribute that is none's, or another's.

    Raises:
        UntranslatableError: it does, as far as the server tells.
    """
    cursor = sqla.cursor_result_of(result)
    places = [] if cursor is None else sqla.column_origins(cursor)
    if cursor is None or cursor.rowcount == 0 or not any(oid for oid, _ in places):
        return
    told = _query_origins(
        outputs_from([UNKNOWN] * len(places)), places, cursor.connection, entities
    )
    found = {name: told.made.get(i) for i, name in enumerate(cursor.keys())}
    for mapper, attribute, names in sqla.names_of_attributes(statement):
        own = entities.of_class(mapper.class_).all.get(attribute)
        for shape in map(found.get, names):
            if any(columns_in(shape)):  # what is computed the server does not tell
                check_shape(shape, own, f"{mapper.class_.__name__}.{attribute}")


def _query_origins(
    outputs: Outputs,
    places: Sequence[tuple[int, int]],
    connection: Connection,
    entities: Entities,
) -> Outputs:
    asked = {i for i, shape in outputs.made.items() if isinstance(shape, Unknown)}
    relations = _relations({places[i][0] for i in asked}, connection)
    tables = {oid: _table(found, connection, entities) for oid, found in relations.items()}
    made: dict[int, KeyShape] = dict(outputs.made)
    for i in asked:
        oid, number = places[i]
        name = relations[oid].columns.get(number) if oid in relations else None
        column = _column(tables.get(oid), name)
        if column is not None:
            made[i] = as_json(entities.of_column(column))
    return replace(outputs, made={i: shape for i, shape in made.items() if shape is not None})


def _relations(oids: Collection[int], connection: Connection) -> Mapping[int, _Relation]:
    """Return tables by their numbers: one query for those that this connection has not met."""
    known: dict[int, _Relation | None] = sqla.connection_cache(connection)
    new = [oid for oid in oids if oid and oid not in known]
    if new:
        known |= dict.fromkeys(new)
        found: dict[int, tuple[str, str, bool, dict[int, str]]] = {}
        query = text(_TABLES.format(", ".join(map(str, new))))
        for oid, schema, name, visible, number, column in connection.execute(query):
            found.setdefault(oid, (schema, name, visible, {}))[3][number] = column
        known |= {oid: _Relation(*facts) for oid, facts in found.items()}
    asked = {oid: known.get(oid) for oid in oids}
    return {oid: relation for oid, relation in asked.items() if relation is not None}


def _table(relation: _Relation, connection: Connection, entities: Entities) -> Table | None:
    """Return the table of the application's metadata, `None` if there is not exactly one."""
    schemas = _schemas(relation, connection)
    tables = [t for t in sqla.tables() if t.name == relation.name and t.schema in schemas]
    if len(tables) > 1:
        tables = [table for table in tables if entities.is_used(table)]
    return tables[0] if len(tables) == 1 else None


def _column(table: Table | None, name: str | None) -> Column[Any] | None:
    columns = () if table is None else table.columns
    return next((column for column in columns if column.name == name), None)


def _schemas(relation: _Relation, connection: Connection) -> set[str | None]:
    """Return by which schemas the metadata may name a table."""
    translated = connection.get_execution_options().get("schema_translate_map") or {}
    schemas: set[str | None] = {name for name, to in translated.items() if to == relation.schema}
    # a temporary table may hide one of the metadata's, and have other things in its columns
    visible = relation.visible and not relation.schema.startswith("pg_temp")
    return schemas | {relation.schema} | ({None} if visible else set())


_CAPACITY = 500  # shapes kept: as many as SQLAlchemy's own compiled cache


@dataclass(frozen=True, slots=True)
class Plan:
    """Where refs go into statements of one shape, and where they come out of its rows.

    Attributes:
        inputs: where refs go in.
        in_where: whether all parameters among them are plain comparisons of the WHERE.
        single: the one place where a ref goes in, if that is all there is.
        outputs: where refs come out.
        by_text: whether instances are loaded that are to be looked at.
        answers: whether there is anything to show, or to look at.
    """

    inputs: Inputs
    in_where: bool
    single: Single | None
    outputs: Outputs
    by_text: bool
    answers: bool


class Plans:
    """The plans of one application, by the shape of their statements; the oldest give way.

    Of classes that the application drops nothing is kept alive: their plans are never met again.

    Attributes:
        entities: which columns hold keys.
    """

    def __init__(self, entities: Entities) -> None:
        self.entities = entities
        self._plans: dict[Hashable, Plan] = {}
        self._lock = threading.Lock()

    def of(self, statement: Executable) -> tuple[Executable, Plan, Sequence[BindParameter[Any]]]:
        """Return a statement without lambdas, its plan, and its parameters as the plan knows them.

        Raises:
            UntranslatableError: the statement would show keys in a way that cannot be rewritten.
        """
        shape, parameters = sqla.cache_key_of(statement)
        try:
            plan = self._plans.get(shape)
        except ReferenceError:  # a class has come to the place of one that is gone
            with self._lock:
                self._plans.clear()
            plan = None
        if plan is None:
            if sqla.has_lambdas(statement):
                return self.of(sqla.without_lambdas(statement))
            check_filled(statement, Lineage(self.entities.of_column), self.entities)
            inputs = inputs_of(statement, parameters, self.entities)
            replaced = [
                parameters[i] for i, target in inputs.positions.items() if takes_keys(target)
            ]
            in_where = not inputs.types and sqla.all_in_where(statement, replaced)
            outputs = outputs_of(statement, parameters, self.entities, inputs.keys)
            by_text = sqla.is_from_text(statement)
            plan = Plan(
                inputs,
                in_where,
                single_of(inputs) if in_where else None,
                outputs,
                by_text,
                answers=bool(outputs) or by_text,
            )
            if shape is not None:
                self._keep(shape, plan)
        return statement, plan, parameters

    def check(self, options: Iterable[Any]) -> None:
        """Refuse loader options that would put keys into attributes without translation.

        Raises:
            UntranslatableError: a `with_expression()` shows keys, or what is not known.
        """
        check_options(options, Lineage(self.entities.of_column))

    def _keep(self, shape: Hashable, plan: Plan) -> None:
        with self._lock:
            if len(self._plans) >= _CAPACITY:
                del self._plans[next(iter(self._plans))]
            self._plans[sqla.WeakCacheKey(shape)] = plan
