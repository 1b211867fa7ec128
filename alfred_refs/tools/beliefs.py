"""What a model takes rows to be whose refs it writes: held against what they are.

A ref is short, and one wrong digit may make it the ref of another row; a label beside it tells. A
write comes in, with labels in `expect` and in its data beside refs, where rows show them; it goes
on without these, once the rows that it names have them now:

    {"table": "meal_plans", "data": {"recipe_id": "recipe_7", "_recipe_id_label": "Soup", ...}}
    {"table": "recipes", "filters": [id in recipe_7, recipe_9], "expect": ["Soup", "Dal"], ...}
    {"table": "lines", "filters": [recipe_id = recipe_7], "expect": {"recipe_7": "Soup"}, ...}

A write that names a row without saying what it is, is refused and told what that is, unless the
toolset does not ask (`Toolset(expect="optional")`). Rows without a label are not asked for. Where
another row that the conversation knows has the same label, values by column have to tell the two
apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from alfred_refs.mapping.labels import clean
from alfred_refs.mapping.refs import draft_named, parse_ref
from alfred_refs.tools.answers.label_lookup import Foreign, put_labels
from alfred_refs.tools.payload.expected import differences
from alfred_refs.tools.payload.intake import table_of
from alfred_refs.tools.query.filters import chosen_refs, refs_of
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
from .errors import ambiguous_label, invalid_value, unconfirmed_ref, unexpected_row

_Rows = TypeVar("_Rows", bound=NewRows)


@dataclass(frozen=True, slots=True)
class Belief:
    """A row that a write names, and what the model takes it to be.

    Attributes:
        ref: of the row.
        table: of which it is.
        field: where the model says what it is.
        said: the label, or values by column; `None` where it says nothing.
    """

    ref: str
    table: ToolTable
    field: str
    said: str | Mapping[str, Any] | None


def held(call: Call, arguments: Arguments) -> Arguments:
    """Return a write without what it says of the rows that it names, once that holds.

    Raises:
        BadRefError: it names no row.
        ToolError: a row is another than the model thinks, or it does not say what it thinks.
    """
    beliefs: list[Belief] = []
    plain = _Taking(call.setting.tables, beliefs).plain(arguments)
    is_asked = call.setting.expect == "required"
    if not is_asked:
        beliefs = [each for each in beliefs if each.said is not None]
    labels = _labels(call, beliefs) if beliefs else {}
    for each in beliefs:
        if each.said is not None:
            _check_said(call, each, each.said, labels.get(each.ref))
    unsaid = {
        each.ref: (labels[each.ref], each.field)
        for each in beliefs
        if each.said is None and each.ref in labels
    }
    if unsaid:
        raise unconfirmed_ref(unsaid)
    if is_asked:
        _check_apart(call, [each for each in beliefs if isinstance(each.said, str)], labels)
    return plain


def _check_said(
    call: Call, belief: Belief, said: str | Mapping[str, Any], label: str | None
) -> None:
    """Check that a row has the label that a model says, or the values."""
    if isinstance(said, str) and label is not None:
        if not _is_said(label, said, call):
            raise unexpected_row(belief.ref, "label", label, said)
        return
    if draft_named(belief.ref):
        if isinstance(said, str):  # it may be saved by now, and be called otherwise as a row
            return
        raise invalid_value(belief.field, "the label of a draft")
    row = call.session.get(belief.table.model, belief.ref)
    # one that is not to be seen, the verbs refuse
    for column, expected, actual in () if row is None else differences(belief.table, row, said):
        raise unexpected_row(belief.ref, column, actual, expected)


def _check_apart(call: Call, beliefs: Iterable[Belief], labels: Mapping[str, str]) -> None:
    """Check that labels tell rows from all others that the conversation knows."""
    rows = {
        each: (each.table.entity, label)
        for each in beliefs
        if not draft_named(each.ref) and (label := clean(labels.get(each.ref, ""))) is not None
    }
    namesakes = call.conversation.namesakes({*rows.values()}) if rows else {}
    for each, pair in rows.items():
        others = [ref for ref in namesakes.get(pair, ()) if ref != each.ref]
        if others:
            raise ambiguous_label(each.ref, others[0], pair[1], each.field)


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


def _is_said(label: str, said: str, call: Call) -> bool:
    """Tell whether a text is a label: as it is, without keys, or as rows show it."""
    spelt = (
        label,
        clean(label),
        without_keys(label, call.conversation, call.setting.tables.shown),
    )
    return said in spelt or clean(said) in spelt


def _parted(given: Any, table: ToolTable, refs: Collection[str]) -> tuple[Mapping[str, Any], Any]:
    """Return what `expect` says by ref, and what else it says."""
    if not isinstance(given, Mapping):
        return {}, given
    by_ref = {name: said for name, said in given.items() if name in refs}
    for name in given.keys() - by_ref.keys() - table.columns.keys():
        if parse_ref(name) is not None:
            raise invalid_value(f"expect.{name}", "about a ref that filters name")
    return by_ref, {name: each for name, each in given.items() if name not in by_ref} or None


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
        plain = {"expect": self._chosen(table, given)}
        if isinstance(given, DbUpdate):
            plain["data"] = self._rows(table, given.data)
        return given.model_copy(update=plain)

    def _chosen(self, table: ToolTable, given: DbUpdate | DbDelete) -> Any:
        """Note what is said of the rows that filters name; return what is said by column."""
        chosen = chosen_refs(given.filters, table)
        others = {
            ref: entity for ref, entity in refs_of(given.filters, table) if ref not in chosen
        }
        by_ref, expect = _parted(given.expect, table, {*chosen, *others})
        if by_ref or others:
            for ref, entity in {**dict.fromkeys(chosen, table.entity), **others}.items():
                if (target := self._tables.of_entity(entity)) is not None:
                    self._say(target, [ref], by_ref.get(ref), f"expect.{ref}")
        elif not isinstance(expect, Mapping):
            self._say(table, chosen, expect)
        return expect

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
        """Note what is said of rows: nothing, the same of all, or something of each."""
        said = given if isinstance(given, list) else [given] * len(refs)
        are_words = all(each is None or isinstance(each, str | dict) for each in said)
        if len(said) != len(refs) or not are_words:
            raise invalid_value(field, f"labels as rows show them, of {len(refs)} refs")
        for ref, each in zip(refs, said, strict=True):
            if isinstance(ref, str) and ref:  # what else it is, is refused as a value
                self._beliefs.append(Belief(ref, table, field, each))

    def _rows(self, table: ToolTable, given: Any) -> Any:
        """Return values by column, of a row or of several, without the labels of refs."""
        if isinstance(given, list):
            return [self._rows(table, each) for each in given]
        if not isinstance(given, dict):
            return given
        row = dict(given)
        for name, value in given.items():
            if name in table.targets:
                self._take(table, table.targets[name], name, row)
                row[name] = self._rows(table.targets[name], value)
            elif name in table.columns and (entity := table.columns[name].entity) is not None:
                self._take(table, self._tables.of_entity(entity), name, row)
        return row

    def _take(
        self, table: ToolTable, target: ToolTable | None, name: str, row: dict[str, Any]
    ) -> None:
        """Take out of a row what it says of those that one of its fields names by refs."""
        is_list = isinstance(row[name], list)
        field = f"_{name}_label{'s' * is_list}"
        if target is not None and field not in table.columns:
            refs = row[name] if is_list else [row[name]]
            self._say(target, refs, row.pop(field, None), field)
