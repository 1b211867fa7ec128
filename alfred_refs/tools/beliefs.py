"""What a model takes rows to be whose refs it writes: held against what they are.

A ref is short, and one wrong digit may make it the ref of another row; a label beside it tells. A
write comes in, with labels in `expect` and in its data beside refs, where rows show them; it goes
on without these, once the rows that it names have them now:

    {"table": "meal_plans", "data": {"recipe_id": "recipe_7", "_recipe_id_label": "Soup", ...}}

A write that names a row without saying what it is, is refused and told what that is, unless the
toolset does not ask (`Toolset(expect="optional")`). Rows without a label are not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from alfred_refs.mapping.labels import clean
from alfred_refs.mapping.refs import draft_named
from alfred_refs.tools.answers.label_lookup import Foreign, put_labels
from alfred_refs.tools.payload.intake import table_of
from alfred_refs.tools.query.filters import chosen_refs
from alfred_refs.tools.tables.lists import list_named
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import (
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbUpdate,
    NewRows,
)
from alfred_refs.tools.wire.texts import without_keys

from .call import Call
from .errors import invalid_value, unconfirmed_ref, unexpected_row

_Rows = TypeVar("_Rows", bound=NewRows)


@dataclass(frozen=True, slots=True)
class Belief:
    """A row that a write names, and what the model takes it to be.

    Attributes:
        ref: of the row.
        table: of which it is.
        field: where the model says what it is.
        label: what it says; `None` if it does not.
    """

    ref: str
    table: ToolTable
    field: str
    label: str | None


def held(call: Call, arguments: Arguments) -> Arguments:
    """Return a write without what it says of the rows that it names, once that holds.

    Raises:
        BadRefError: it names no row.
        ToolError: a row is another than the model thinks, or it does not say what it thinks.
    """
    beliefs: list[Belief] = []
    plain = _Taking(call.setting.tables, beliefs).plain(arguments)
    if call.setting.expect == "optional":
        beliefs = [each for each in beliefs if each.label is not None]
    labels = _labels(call, beliefs) if beliefs else {}
    unsaid = {}
    for each in beliefs:
        label = labels.get(each.ref)
        if label is not None and each.label is None:
            unsaid[each.ref] = label, each.field
        elif label is not None and each.label not in _spelt(label, call):
            raise unexpected_row(each.ref, "label", label, each.label)
    if unsaid:
        raise unconfirmed_ref(unsaid)
    return plain


def _labels(call: Call, beliefs: Iterable[Belief]) -> dict[str, str]:
    """Return the labels of rows and pending drafts, by ref, as far as the session sees them."""
    by_table: dict[ToolTable, list[str]] = {}
    for each in beliefs:
        by_table.setdefault(each.table, []).append(each.ref)
    labels: dict[str, str] = {}
    found: list[Foreign] = []
    for table, refs in by_table.items():
        drafts = call.drafts_named(refs, table.entity)
        labels |= {ref: draft.label for ref, draft in drafts.items() if draft.label is not None}
        # a draft that is saved may be called otherwise as a row, and its call be made again
        rows = [ref for ref in refs if draft_named(ref) is None]
        keys = call.resolved((ref, table.entity) for ref in rows)
        if table.keys.label is not None:
            found += [Foreign({"": ref}, "", table, key) for (ref, _), key in keys.items()]
    return labels | put_labels(call.session, found, "legend")


def _spelt(label: str, call: Call) -> tuple[Any, ...]:
    """Return how a label may be given: as it is, without keys, and as rows show it."""
    return label, clean(label), without_keys(label, call.conversation)


class _Taking:
    """Takes out of arguments what they say of rows.

    Args:
        tables: that a model may use.
        beliefs: is added to.
    """

    def __init__(self, tables: ToolTables, beliefs: list[Belief]) -> None:
        self._tables = tables
        self._beliefs = beliefs

    def plain(self, arguments: Arguments) -> Arguments:
        """Return arguments as they are without labels."""
        table = self._tables.named(arguments.table)
        match arguments:
            case DbCreate():
                also = [self._new_rows(each) for each in arguments.also]
                return self._new_rows(arguments).model_copy(update={"also": also})
            case DbUpdate() | DbDelete():
                return self._written(table, arguments)
            case DbEditList():
                return self._edited(table, arguments)
        return arguments

    def _new_rows(self, given: _Rows) -> _Rows:
        table = self._tables.named(given.table)
        self._say(table, given.drafts, given.expect)
        return given.model_copy(update={"data": self._rows(table, given.data)})

    def _written(self, table: ToolTable, given: DbUpdate | DbDelete) -> DbUpdate | DbDelete:
        if given.expect is None or isinstance(given.expect, list):
            self._say(table, chosen_refs(given.filters, table), given.expect)
        if isinstance(given, DbDelete):
            return given
        return given.model_copy(update={"data": self._rows(table, given.data)})

    def _edited(self, table: ToolTable, given: DbEditList) -> DbEditList:
        # a token was shown with the list, and is of no other row's
        if given.edits and not given.preview and given.token is None:
            self._say(table, [given.row], given.expect)
        listed, edits = list_named(table, given.name), []
        for edit in given.edits:
            target, data = table_of(edit, listed), edit.data
            if target is not None:
                data = self._rows(target, data)
                if edit.ref is not None and edit.expect is None:
                    self._say(target, [edit.ref], None)
            edits.append(edit.model_copy(update={"data": data}))
        return given.model_copy(update={"edits": edits})

    def _say(
        self, table: ToolTable, refs: Sequence[Any], given: Any, field: str = "expect"
    ) -> None:
        """Note what is said of rows: nothing, the label of all, or one for each."""
        labels = given if isinstance(given, list) else [given] * len(refs)
        are_texts = all(each is None or isinstance(each, str) for each in labels)
        if len(labels) != len(refs) or not are_texts:
            raise invalid_value(field, f"labels as rows show them, of {len(refs)} refs")
        for ref, label in zip(refs, labels, strict=True):
            if isinstance(ref, str) and ref:  # what else it is, is refused as a value
                self._beliefs.append(Belief(ref, table, field, label))

    def _rows(self, table: ToolTable, given: Any) -> Any:
        """Return values by column, of a row or of several, without the labels of refs."""
        if isinstance(given, list):
            return [self._rows(table, each) for each in given]
        if not isinstance(given, dict):
            return given
        row = dict(given)
        for name, value in given.items():
            if name in table.targets:
                row[name] = self._rows(table.targets[name], value)
            elif name in table.columns:
                self._take(table, name, row)
        return row

    def _take(self, table: ToolTable, name: str, row: dict[str, Any]) -> None:
        """Take out of a row what it says of those that one of its columns refers to."""
        entity, value = table.columns[name].entity, row[name]
        target = None if entity is None else self._tables.of_entity(entity)
        is_list = isinstance(value, list)
        field = f"_{name}_label{'s' * is_list}"
        if target is None or field in table.columns:
            return
        refs = value if is_list else [value]
        self._say(target, refs, row.pop(field, None), field)
