"""Preconditions of a write: `expect` and labels.

A ref is short, and one wrong digit may make it the ref of another row. So a write repeats the
labels of the rows that it names, in `expect` and in its data next to refs, as rows show them:

    {"table": "meal_plans", "data": {"recipe_id": "recipe_7", "_recipe_id_label": "Soup", ...}}
    {"table": "recipes", "filters": [id in recipe_7, recipe_9], "expect": ["Soup", "Dal"], ...}
    {"table": "lines", "filters": [recipe_id = recipe_7], "expect": {"recipe_7": "Soup"}, ...}

`check_expectations` verifies these against the database and returns the arguments without them. A
ref without a label is refused, and the error shows the label, unless the toolset was made with
`expect="optional"`. Rows without labels are exempt. If another row that the conversation knows has
the same label, the model must give values by column that distinguish the two. Empty values, or the
ref itself, do not count.

A write with filters that can match rows without naming them must state their number, in every
toolset:

    {"table": "recipes", "filters": [servings < 2], "expect": {"count": 3}, ...}

`Reach` compares it with the number of rows locked for the write.

>>> only = {"field": "id", "op": "=", "value": "recipe_1"}
>>> given = {"table": "recipes", "filters": [only], "data": {"servings": 4}, "expect": "Toast"}
>>> toolset.call(session, "db_update", given)["error"]["message"]
"'recipe_1' was expected to have label 'Toast' and has 'Soup'; nothing was changed; read the row
again and call with what it has now"

`differences` compares the values of `expect` with a row that was read for the change. Values are
compared as the column stores them, so equal timestamps in different zones are equal.

Limits: values that are compared may change after the call; the rows are locked until its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from alfred_refs import sqla
from alfred_refs.mapping import clean_label, parse_draft_ref, parse_ref
from alfred_refs.positions.editing import mismatch_of
from alfred_refs.positions.edits import Document, Item
from alfred_refs.tools.answers import Shape
from alfred_refs.tools.arguments import (
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbUpdate,
    NewRows,
)
from alfred_refs.tools.call import Call, ExpectMode
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import (
    ambiguous_label,
    invalid_arguments,
    invalid_value,
    unconfirmed_count,
    unconfirmed_ref,
    unexpected_count,
    unexpected_row,
)
from alfred_refs.tools.exact import is_exact_on
from alfred_refs.tools.filters import BoundFilters
from alfred_refs.tools.matching import DraftRecord
from alfred_refs.tools.serialization import as_shown, limit_depth, replace_keys
from alfred_refs.tools.tables import ToolColumn, ToolTable, list_by_name

Expected = str | Sequence[Any] | Mapping[str, Any] | None
"""A label or values by column; a list of labels for several refs was verified before."""


def expected_names(table: ToolTable, expect: Expected) -> list[str]:
    """Return the attributes of the expected columns and the label.

    Raises:
        ToolError: the model may not use a column.
    """
    label = table.keys.label
    names = [] if label is None or label.attribute is None else [label.attribute]
    if isinstance(expect, Mapping):
        names += [table.column(name).name for name in expect]
    return names


_MAX_DRAFTS = 1_000  # pending drafts of an entity whose labels are compared

COUNT = "count"
"""The member of `expect` with the number of rows that a write reaches."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The number of rows that a write expects to reach.

    Attributes:
        table: the table of the rows.
        count: the number; `None` if it is not stated.
        is_required: whether it must be stated.
    """

    table: ToolTable
    count: int | None
    is_required: bool

    def check(self, actual: int) -> None:
        """Compare the number with the number of rows locked for the write.

        Raises:
            ToolError: the numbers differ, or none is stated for rows that no ref names.
        """
        if self.count is None and self.is_required and actual:
            raise unconfirmed_count(self.table.name, actual)
        if self.count not in (None, actual):
            raise unexpected_count(self.table.name, actual, self.count)


def split_reach(
    write: DbUpdate | DbDelete, bound: BoundFilters, mode: ExpectMode = "required"
) -> tuple[Reach, Expected]:
    """Split `expect` of a write into the number of rows and the expectations for each row.

    In a write that names rows, `count` means a column of that name. A write that does not name
    rows must state the number if `mode` is `"required"`.

    Raises:
        ToolError: `count` is not a number of rows.
    """
    expect, table, by_criteria = write.expect, bound.table, not bound.names_rows()
    is_required = by_criteria and mode == "required"
    is_count = isinstance(expect, Mapping) and (by_criteria or COUNT not in table.columns)
    if not (is_count and isinstance(expect, Mapping) and COUNT in expect):
        return Reach(table, None, is_required), expect
    count = expect[COUNT]
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise invalid_value(f"expect.{COUNT}", "a number of rows")
    others = {name: each for name, each in expect.items() if name != COUNT}
    return Reach(table, count, is_required), others or None


def label_of(table: ToolTable, instance: Any) -> str | None:
    """Return the label of a row, if its attribute is loaded."""
    label = table.keys.label
    return None if label is None else label.of_unredacted(sqla.state_of(instance).dict)


def differences(
    table: ToolTable,
    instance: Any,
    expect: Expected,
    value_in: Callable[[Any, str], Any],
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between a row and `expect`: column, expected, actual, as JSON.

    Args:
        table: the table of the row.
        instance: the row.
        expect: its label, or values by column.
        value_in: returns the value of an attribute of the row.

    Raises:
        ToolError: the rows do not have the column or a label.
    """
    if isinstance(expect, Mapping):

        def value_of(column: ToolColumn) -> Any:
            return value_in(instance, column.name)

        yield from differing_values(table, expect, value_of)
    elif isinstance(expect, str):
        if table.keys.label is None:
            raise invalid_arguments(
                f"rows of {table.name!r} have no label: give values by column", "expect"
            )
        loaded = sqla.state_of(instance).dict
        label = table.keys.label
        # in the form of label fields, columns, or errors
        if expect not in (label.of_unredacted(loaded), label.read(loaded), label.of(loaded)):
            yield "label", expect, label.of_unredacted(loaded)


def differing_values(
    table: ToolTable,
    expect: Mapping[str, Any],
    value_of: Callable[[ToolColumn], Any],
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the columns whose value differs from the expected one, with both as JSON."""
    for name, json_value in expect.items():
        column = table.column(name)
        expected, (actual, _) = column.accept(json_value), limit_depth(value_of(column))
        pair = column.show(expected), column.show(actual)
        if as_shown(pair[0]) != as_shown(pair[1]) and not _are_equal(expected, actual):
            yield name, *pair


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; arrays with several elements never are."""
    try:
        return bool(one == other)
    except ValueError:
        return False


def item_mismatch(item: Item, expect: Any) -> str | None:
    """Describe an item of a list that differs from its expectation; see `mismatch_of`."""
    if isinstance(item.value, Document):
        item = replace(item, value=Document(as_shown(item.value.value)))
    return mismatch_of(item, as_shown(expect))


_Rows = TypeVar("_Rows", bound=NewRows)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A named row of a write, and its expected label or values.

    Attributes:
        ref: the ref of the row.
        table: the table of the row.
        field: the field that contains the expectation.
        value: the label, or values by column; `None` if nothing is stated.
        is_of_locked_row: whether the verb compares the value after it has locked the row.
    """

    ref: str
    table: ToolTable
    field: str
    value: str | Mapping[str, Any] | None
    is_of_locked_row: bool = False

    @property
    def is_statement(self) -> bool:
        """Whether the value distinguishes the row from others."""
        return _is_statement(self.table, self.value)


def _is_statement(table: ToolTable, value: Any) -> bool:
    """Return whether a value distinguishes a row from others; the row's own ref does not."""
    if isinstance(value, Mapping):
        own = {column.name for column in table.columns.values() if column.own}
        return not value.keys() <= own
    return value is not None


def check_expectations(call: Call, arguments: Arguments, bound: BoundFilters) -> Arguments:
    """Verify `expect` and label fields against the database; return the arguments without them.

    Args:
        call: the call.
        arguments: its arguments.
        bound: its filters.

    Raises:
        BadRefError: a ref does not name a row.
        ToolError: a row differs from its expectation, or an expectation is missing.
    """
    expectations: list[Expectation] = []
    reader = _ExpectationReader(call.setting.tables, bound, expectations)
    checked = reader.without_labels(arguments)
    verify_expectations(call, expectations)
    return checked


def verify_expectations(call: Call, expectations: Sequence[Expectation]) -> None:
    """Verify expectations, and check that required expectations are not missing.

    Raises:
        BadRefError: a ref does not name a row.
        ToolError: a row differs from its expectation, or an expectation is missing.
    """
    is_required = call.setting.expect == "required"
    if not is_required:
        expectations = [each for each in expectations if each.value is not None]
    first = [each for each in expectations if not each.is_of_locked_row]
    labels = _labels(call, first) if first else {}
    for each in first:
        if each.value is not None:
            _check_expectation(call, each, each.value, labels.get(each.ref))
    if is_required:
        unconfirmed = {
            each.ref: (labels[each.ref], each.field)
            for each in expectations
            if not each.is_statement and each.ref in labels
        }
        if unconfirmed:
            raise unconfirmed_ref(unconfirmed)
        stated = {
            each: labels.get(each.ref, each.value if each.is_of_locked_row else "")
            for each in expectations
            if isinstance(each.value, str)
        }
        _check_unambiguous(call, stated)


def _check_expectation(
    call: Call, expectation: Expectation, value: str | Mapping[str, Any], label: str | None
) -> None:
    """Check that a row has the expected label or values."""
    if isinstance(value, str) and label is not None:
        if not _matches_label(label, value, call):
            raise unexpected_row(expectation.ref, "label", label, value)
        return
    if parse_draft_ref(expectation.ref):
        # a draft may be saved by now, with other values as a row
        if isinstance(value, Mapping):
            _check_draft(call, expectation, value)
        return
    # the verbs refuse rows that the session cannot see
    rows = _rows_named(call, expectation)
    if call.visibility.hidden_among(expectation.table, rows):
        return
    for row in rows:
        for column, expected, actual in differences(expectation.table, row, value, call.exact.of):
            raise call.unexpected_row(expectation.table, expectation.ref, column, actual, expected)


def _check_draft(call: Call, expectation: Expectation, values: Mapping[str, Any]) -> None:
    """Check that a pending draft has the expected values."""
    table, ref = expectation.table, expectation.ref
    for draft in call.pending_drafts([ref], table.entity).values():
        record = DraftRecord(table, draft.content, ref, ref)
        for column, expected, actual in differing_values(table, values, record.value):
            raise unexpected_row(ref, column, actual, expected)


def _rows_named(call: Call, expectation: Expectation) -> Sequence[Any]:
    """Return a list with the row that a ref names, or an empty list."""
    table, expect = expectation.table, expectation.value
    columns = [*map(table.column, expect)] if isinstance(expect, Mapping) else []
    shape = Shape(table, columns)
    if table.own is not None and shape.exact_types() and is_exact_on(call.session, table.model):
        is_named = getattr(table.model, table.own) == expectation.ref
        return call.read_rows(call.select_rows(shape).where(is_named), shape)
    row = call.session.get(table.model, expectation.ref)
    return [] if row is None else [row]


def _check_unambiguous(call: Call, labels: Mapping[Expectation, str]) -> None:
    """Check that no other row known to the conversation has the same label.

    Pending drafts, at most a thousand of an entity, are compared with each other: the ref of a
    draft is not mistaken for a row's.
    """
    stated = {
        each: (each.table.entity, label)
        for each, text in labels.items()
        if (label := clean_label(text)) is not None
    }
    drafts = {each: pair for each, pair in stated.items() if parse_draft_ref(each.ref)}
    rows = {*(pair for each, pair in stated.items() if each not in drafts)}
    namesakes = call.conversation.namesakes(rows) if rows else {}
    pending: dict[tuple[str, str | None], list[str]] = {}
    for entity in {entity for entity, _ in drafts.values()}:
        for draft in islice(call.conversation.drafts(entity), _MAX_DRAFTS):
            pending.setdefault((entity, draft.label), []).append(draft.ref)
    for each, pair in stated.items():
        refs = (pending if each in drafts else namesakes).get(pair, ())
        others = [ref for ref in refs if ref != each.ref]
        is_saved = each in drafts and each.ref not in refs  # by an earlier call of the same kind
        if not others or is_saved:
            continue
        actual = _labels(call, [each]).get(each.ref) if each.is_of_locked_row else pair[1]
        if actual is not None and not _matches_label(actual, str(each.value or ""), call):
            raise unexpected_row(each.ref, "label", actual, each.value)
        if actual is not None:  # otherwise the verb finds that the row is gone, or not visible
            raise ambiguous_label(each.ref, others[0], pair[1], each.field)


def _labels(call: Call, expectations: Iterable[Expectation]) -> dict[str, str]:
    """Return the labels of visible rows and pending drafts, by ref."""
    by_table: dict[ToolTable, list[str]] = {}
    for each in expectations:
        by_table.setdefault(each.table, []).append(each.ref)
    labels: dict[str, str] = {}
    rows: dict[str, ToolTable] = {}
    for table, refs in by_table.items():
        drafts = call.pending_drafts(refs, table.entity)
        labels |= {ref: draft.label for ref, draft in drafts.items() if draft.label is not None}
        # the row of a saved draft may have another label, and a call may be repeated
        rows |= {ref: table for ref in refs if parse_draft_ref(ref) is None}
    return labels | call.labels(rows)


def _matches_label(label: str, value: str, call: Call) -> bool:
    """Return whether a text equals a label: as stored, without keys, or as shown in rows."""
    spellings = (
        label,
        clean_label(label),
        replace_keys(label, call.conversation, call.setting.tables.shown),
    )
    return value in spellings or clean_label(value) in spellings


def _label_or_values(table: ToolTable, value: Any) -> Any:
    """Return the label in place of values that only repeat it: they distinguish no better."""
    label = table.keys.label
    if label is None or not isinstance(value, Mapping) or [*value] != [label.attribute]:
        return value
    text = value[label.attribute]
    return text if isinstance(text, str) and text else value


def _split_expectations(
    expect: Any, table: ToolTable, refs: Collection[str]
) -> tuple[Mapping[str, Any], Any]:
    """Split `expect` into expectations by ref and all others."""
    if not isinstance(expect, Mapping):
        return {}, expect
    by_ref = {name: value for name, value in expect.items() if name in refs}
    for name in expect.keys() - by_ref.keys() - table.columns.keys():
        if parse_ref(name) is not None:
            raise invalid_value(f"expect.{name}", "about a ref that filters name")
    return by_ref, {name: each for name, each in expect.items() if name not in by_ref} or None


def expectations_of(
    table: ToolTable, refs: Sequence[Any], expect: Any, field: str
) -> list[Expectation]:
    """Return the expectations of rows: none, the same for all, or one for each.

    Args:
        table: the table of the rows.
        refs: the refs of the rows; values that are not text are refused later.
        expect: labels or values by column, or a list of them.
        field: the field that contains them.

    Raises:
        ToolError: `expect` has another form, or not one element per ref.
    """
    values = expect if isinstance(expect, list) else [expect] * len(refs)
    is_valid = all(each is None or isinstance(each, str | dict) for each in values)
    if len(values) != len(refs) or not is_valid:
        raise invalid_value(field, f"labels as rows show them, of {len(refs)} refs")
    return [
        Expectation(ref, table, field, _label_or_values(table, each))
        for ref, each in zip(refs, values, strict=True)
        if isinstance(ref, str) and ref
    ]


def _selects_drafts(bound: BoundFilters) -> bool:
    """Return whether filters select drafts, and not rows."""
    return any(map(parse_draft_ref, bound.row_refs()))


def _check_names(bound: BoundFilters, update: DbUpdate) -> None:
    """Check that data of rows contains no relationships, which only drafts may have.

    Raises:
        ToolError: the data contains a relationship.
    """
    table = bound.table
    if not _selects_drafts(bound):
        for name in update.data.keys() & table.targets.keys() - table.columns.keys():
            raise table.unwritable_column(name, table.updatable)


class _ExpectationReader:
    """Removes expectations from arguments, and collects them.

    Args:
        tables: the tables that a model may use.
        bound: the filters of the call.
        expectations: the list to add to.
    """

    def __init__(
        self, tables: ToolTables, bound: BoundFilters, expectations: list[Expectation]
    ) -> None:
        self._tables = tables
        self._bound = bound
        self._expectations = expectations
        self._drafts: Collection[str] | None = None  # drafts that data may name; `None` for all

    def without_labels(self, arguments: Arguments) -> Arguments:
        """Return arguments without labels."""
        match arguments:
            case DbUpdate() | DbDelete():
                self._drafts = None if _selects_drafts(self._bound) else ()
                # read-only columns are refused first, as no label would help
                self._bound.table.check("update" if isinstance(arguments, DbUpdate) else "delete")
                return self._write(self._bound.table, arguments)
            case DbCreate():
                saved = [ref for new in (arguments, *arguments.also) for ref in new.drafts]
                self._drafts = None if arguments.draft else saved
                also = [self._new_rows(each) for each in arguments.also]
                return self._new_rows(arguments).model_copy(update={"also": also})
            case DbEditList():
                self._drafts = None if parse_draft_ref(arguments.row) else ()
                return self._edit_list(self._tables.by_name(arguments.table), arguments)
        return arguments

    def _new_rows(self, new: _Rows) -> _Rows:
        table = self._tables.by_name(new.table, "create")
        self._add(table, new.drafts, new.expect)
        return new.model_copy(update={"data": self._rows(table, new.data)})

    def _write(self, table: ToolTable, write: DbUpdate | DbDelete) -> DbUpdate | DbDelete:
        update = {"expect": self._selected(table, write)}
        if isinstance(write, DbUpdate):
            _check_names(self._bound, write)
            update["data"] = self._rows(table, write.data)
        return write.model_copy(update=update)

    def _selected(self, table: ToolTable, write: DbUpdate | DbDelete) -> Any:
        """Collect the expectations for rows that filters name, and return the others."""
        selected = self._bound.row_refs()
        others = {ref: entity for ref, entity in self._bound.refs() if ref not in selected}
        reach, of_rows = split_reach(write, self._bound)
        by_ref, expect = _split_expectations(of_rows, table, {*selected, *others})
        if reach.count is None:
            expect = _label_or_values(table, expect)
        if by_ref or others:
            for ref, entity in {**dict.fromkeys(selected, table.entity), **others}.items():
                if (target := self._tables.of_entity(entity)) is not None:
                    self._add(target, [ref], by_ref.get(ref), f"expect.{ref}")
        elif isinstance(expect, str):
            self._add(table, selected, expect, is_of_locked_row=True)
        elif not isinstance(expect, Mapping):
            self._add(table, selected, expect)
        elif not _is_statement(table, expect):
            self._add(table, selected, None)
        return expect if reach.count is None else {**(expect or {}), COUNT: reach.count}

    def _edit_list(self, table: ToolTable, arguments: DbEditList) -> DbEditList:
        # a token belongs to the list of one row, so it identifies the row
        is_needed = arguments.edits and not arguments.preview and arguments.token is None
        if is_needed or arguments.expect is not None:
            self._add(table, [arguments.row], arguments.expect)
        listed, edits = list_by_name(table, arguments.name), []
        for edit in arguments.edits:
            target, data = listed.item_table(edit.path, edit.ref), edit.data
            if target is not None:
                data = self._rows(target, data)
                if edit.ref is not None and not _is_statement(target, edit.expect):
                    self._add(target, [edit.ref], None)
            edits.append(edit.model_copy(update={"data": data}))
        return arguments.model_copy(update={"edits": edits})

    def _add(
        self,
        table: ToolTable,
        refs: Sequence[Any],
        expect: Any,
        field: str = "expect",
        *,
        is_of_locked_row: bool = False,
    ) -> None:
        """Add expectations of rows: none, the same for all, or one for each."""
        found = expectations_of(table, refs, expect, field)
        self._expectations += [replace(each, is_of_locked_row=is_of_locked_row) for each in found]

    def _rows(self, table: ToolTable, data: Any) -> Any:
        """Return one row or several without the labels of refs."""
        if isinstance(data, list):
            return [self._rows(table, each) for each in data]
        if not isinstance(data, dict):
            return data
        row = dict(data)
        for name, value in data.items():
            if name in table.targets:
                self._take_label(table, table.targets[name], name, row)
                row[name] = self._rows(table.targets[name], value)
            elif name in table.columns and (entity := table.columns[name].entity) is not None:
                self._take_label(table, self._tables.of_entity(entity), name, row)
        return row

    def _take_label(
        self, table: ToolTable, target: ToolTable | None, name: str, row: dict[str, Any]
    ) -> None:
        """Move the label field of a column of refs from a row to the expectations."""
        is_list = isinstance(row[name], list)
        field = f"_{name}_label{'s' * is_list}"
        if target is not None and field not in table.columns:
            refs = row[name] if is_list else [row[name]]
            refs = [each if self._may_be_named(each) else None for each in refs]
            self._add(target, refs, row.pop(field, None), field)

    def _may_be_named(self, ref: Any) -> bool:
        """Return whether data may name a ref; forbidden drafts are refused later."""
        is_row = not isinstance(ref, str) or parse_draft_ref(ref) is None
        return is_row or self._drafts is None or ref in self._drafts
