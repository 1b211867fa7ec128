"""`Plan`: the effects of a call, with names, for a person.

A plan is made from the recorded effects (`effects`) of a call that is executed and rolled back:

>>> plan = desk.plan("chat-7", None, "db_delete", {
...     "table": "recipes",
...     "filters": [{"field": "id", "op": "=", "value": "recipe_1"}],
...     "expect": "Soup",
... })
>>> print(plan.text)
Delete 1 recipe. With it: 2 lines deleted.
- recipe "Soup" (recipe_1)
With it:
- line (line_1): deleted: recipe_id: "Soup" (recipe_1); position: 1; text: 4 tomatoes
- line (line_2): deleted: recipe_id: "Soup" (recipe_1); position: 2; text: 1 onion

Its `token` is a digest of the effect: two plans have the same token if they change the same rows
in the same way. Values that differ in each execution are left out: keys of new rows, computed
defaults, and the current time.

Limits: hidden columns are only counted, and rows of unlisted tables are only counted by table.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ARRAY, Column, DateTime, Enum, String, Table
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.conversation import Conversation, SessionConversation
from alfred_refs.mapping import (
    EntityKey,
    Key,
    KeyColumn,
    escape_invisible,
    items_of,
    undecorated_type,
)
from alfred_refs.mapping.columns import Values, stored_type
from alfred_refs.session import RefSession
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.effects import Image, RecordedChange, images_of
from alfred_refs.tools.exact import is_text_needed, map_items, read_exact, split_array
from alfred_refs.tools.faults import is_unreadable
from alfred_refs.tools.labels import ForeignRef, key_in, labels_of
from alfred_refs.tools.serialization import as_shown, replace_keys
from alfred_refs.tools.tables import ToolColumn, ToolTable

Action = Literal["created", "updated", "deleted"]

_ACTIONS: Final[tuple[Action, ...]] = ("created", "updated", "deleted")
_VERBS: Final[Mapping[str, Action]] = {
    "db_create": "created",
    "db_update": "updated",
    "db_delete": "deleted",
}
_WORDS: Final[Mapping[Action, str]] = {
    "created": "Create",
    "updated": "Change",
    "deleted": "Delete",
}
_POSTGRESQL: Final = PGDialect()  # type: ignore[no-untyped-call]  # SQLAlchemy's

REFUSED: Final = "refused"
"""The token of a call that would be refused."""

_MOST_ROWS: Final = 10  # rows of a group in the text of a plan
_MOST_TEXT: Final = 200  # characters of a value in that text
# text that could be mistaken for another field, the end of a label, or a missing value
_AMBIGUOUS: Final = re.compile(r'[";]|->|^\s*(nothing)?\s*$')
# the name of a row that a column refers to: `"red" (label_1)`, `"red" (label)` without a ref
_ROW: Final = re.compile(r'("([^"\\]|\\.)*"|a row) \(\w+\)')
_MOMENT: Final = 60.0  # seconds: a time within this distance is the time of the call


class PlannedRow(BaseModel):
    """One row that a call changes.

    Attributes:
        ref: its ref; `new_recipe_1` for a row that the call creates; `None` if it has none.
        entity: its entity, such as `recipe`.
        label: its label.
        action: `created`, `updated` or `deleted`.
        fields: the values of a new or deleted row; the values of a changed row before and after.
        hidden: the number of changed columns that the model does not see.
        is_named: whether the call requests the change; otherwise it is a side effect.
        updates: the entities that a link is an update of, if both of its rows exist before and
            after the call.

    Example:
        >>> asked = {"table": "recipes", "data": {"name": "Curry"}}
        >>> [row] = desk.plan("chat-7", None, "db_create", asked).rows
        >>> row.line
        '- recipe "Curry" (new_recipe_1): name: Curry'
    """

    model_config = ConfigDict(frozen=True)

    ref: str | None
    entity: str
    label: str | None = None
    action: Action
    fields: dict[str, Any] = Field(default_factory=dict)
    hidden: int = 0
    is_named: bool = True
    updates: list[str] = Field(default_factory=list)

    def merged_with(self, other: PlannedRow | None) -> PlannedRow:
        """Return the row with the values of another table of its class, if there is one."""
        if other is None:
            return self
        update = {
            "label": self.label or other.label,
            "fields": {**other.fields, **self.fields},
            "hidden": self.hidden + other.hidden,
        }
        return self.model_copy(update=update)

    @property
    def name(self) -> str:
        """Its entity, label and ref, for a person."""
        label = "" if self.label is None else f" {quoted(self.label)}"
        ref = "" if self.ref is None else f" ({self.ref})"
        return f"{_words(self.entity)}{label}{ref}"

    @property
    def line(self) -> str:
        """The change in one line."""
        is_known = self.action == "deleted" and self.label is not None
        shown = {} if is_known else self.fields
        said = [f"{name}: {_field(value, self.action)}" for name, value in shown.items()]
        said += [f"{_count(self.hidden, 'field')} not shown"] if self.hidden else []
        before = "" if self.is_named and self.action == "deleted" else f": {self.action}"
        before = "" if self.is_named and said else before
        return f"- {self.name}{before}{': ' if said else ''}{'; '.join(said)}"


class Plan(BaseModel):
    """The changes that a call makes, or would make.

    Attributes:
        tool: its name.
        table: the table of the call, if it has one.
        rows: the rows; requested changes come first.
        others: the number of changed rows in unlisted tables, by action.
        notes: the notes of the application's hooks.
        lasting: descriptions of effects that an undo cannot revert.
        unseen: descriptions of statements that may change rows outside the plan, such as SQL as
            text.
        token: a digest of the effect; empty for calls that only read.
        refusal: the error that the model gets instead of an answer; nothing is changed then.

    Example:
        >>> asked = {"table": "recipes", "data": {"name": "Curry"}}
        >>> plan = desk.plan("chat-7", None, "db_create", asked)
        >>> plan.rows[0].ref, plan.rows[0].fields
        ('new_recipe_1', {'name': 'Curry'})
    """

    model_config = ConfigDict(frozen=True)

    tool: str
    table: str | None = None
    rows: list[PlannedRow] = Field(default_factory=list)
    others: dict[Action, int] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    lasting: list[str] = Field(default_factory=list)
    unseen: list[str] = Field(default_factory=list)
    token: str = ""
    refusal: dict[str, Any] | None = None

    @property
    def summary(self) -> str:
        """The first line: the number of rows by action."""
        if self.refusal is not None:
            return f"Refused: {self.refusal.get('message', '')}"
        if not self.rows and not self.others:
            return "Change nothing."
        named = [row for row in self.rows if row.is_named]
        main = [
            f"{_WORDS[action]} {_counts(row.entity for row in named if row.action == action)}"
            for action in _ACTIONS
            if any(row.action == action for row in named)
        ]
        along = [
            f"{_counts(row.entity for row in self.rows if not row.is_named and row.action == a)} "
            f"{a}"
            for a in _ACTIONS
            if any(not row.is_named and row.action == a for row in self.rows)
        ]
        along += [f"{_count(n, 'row')} of other tables {a}" for a, n in self.others.items()]
        text = ", ".join([main[0], *(each.lower() for each in main[1:])]) if main else "Change"
        return f"{text}." + (f" With it: {', '.join(along)}." if along else "")

    @property
    def asked(self) -> str:
        """The summary of the requested rows only, as a model may not see the others."""
        rows = [row for row in self.rows if row.is_named]
        return Plan(tool=self.tool, rows=rows).summary

    @property
    def text(self) -> str:
        """The plan for a person: the counts, then each row by name."""
        lines = [self.summary]
        for rows, title in (
            ([row for row in self.rows if row.is_named], None),
            ([row for row in self.rows if not row.is_named], "With it:"),
        ):
            lines += [title] if rows and title else []
            lines += [row.line for row in rows[:_MOST_ROWS]]
            lines += [f"- and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
        lines += [f"Note: {note}" for note in self.notes]
        lines += [f"Cannot be undone: {each}" for each in self.lasting]
        lines += [f"Not seen: what {each} does" for each in self.unseen]
        return "\n".join(lines)

    def differences_from(self, earlier: Plan) -> list[str]:
        """Return the differences from an earlier plan of the same call, as lines.

        Args:
            earlier: the earlier plan.
        """
        before, now = _by_name(earlier), _by_name(self)
        refs = {before[name].ref: row.ref for name, row in now.items() if name in before}
        said = []
        for name, row in now.items():
            was = before.pop(name, None)
            if was is None:
                said.append(f"{row.name} is {row.action} too")
                continue
            names = [
                each
                for each in row.fields
                if not _is_same(was.fields.get(each), row.fields[each], refs)
            ]
            if was.label != row.label:
                label = _value(None) if was.label is None else quoted(was.label)
                said.append(f"{row.name}: label was {label}")
            said += [
                f"{row.name}: {each} was {_field(was.fields.get(each), was.action)} in the plan, "
                f"and is {_field(row.fields[each], row.action)} now"
                for each in names
            ]
        return said + [f"{row.name} is not {row.action} any more" for row in before.values()]


def _is_same(was: Any, now: Any, refs: Mapping[str | None, str | None]) -> bool:
    """Return whether two values are equal, except that rows in them have got refs meanwhile.

    Args:
        was: the value of the earlier plan.
        now: the value of the later plan.
        refs: the later plan's refs of the rows of the earlier plan, by their refs there.
    """
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return all(_is_same(*pair, refs) for pair in zip(was, now, strict=True))
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        return all(_is_same(was[name], now[name], refs) for name in was)
    if was == now or not (isinstance(was, str) and isinstance(now, str)):
        return bool(was == now)
    given = refs.get(was)
    if given is not None and (now == given or now.endswith(f" ({given})")):
        return True
    label, _, ref = now.removesuffix(")").rpartition("(")
    entity = ref.rpartition("_")[0]
    is_row = _ROW.fullmatch(was) is not None
    return is_row and was in (f"{label}({entity})", _row_name(None, entity))


def _row_name(label: str | None, ref: str) -> str:
    """Return the name of a row; `ref` is its entity if it has no ref."""
    return f"{'a row' if label is None else quoted(label)} ({ref})"


def _by_name(plan: Plan) -> dict[tuple[str, str, int], PlannedRow]:
    """Return the rows of a plan by entity, action and place, as rows may get refs meanwhile."""
    places: Counter[tuple[str, str]] = Counter()
    rows: dict[tuple[str, str, int], PlannedRow] = {}
    for row in plan.rows:
        places[row.entity, row.action] += 1
        rows[row.entity, row.action, places[row.entity, row.action]] = row
    return rows


def _words(name: str) -> str:
    return name.replace("_", " ")


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    if re.search(r"[^aeiou]y$", noun):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if re.search(r'(s|x|z|ch|sh)$', noun) else 's'}"


def _counts(entities: Iterable[str]) -> str:
    return ", ".join(_count(n, _words(entity)) for entity, n in Counter(entities).items())


def _field(value: Any, action: Action) -> str:
    if action == "updated" and isinstance(value, dict):
        return f"{_value(value.get('before'))} -> {_value(value.get('after'))}"
    return _value(value)


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list) and all(isinstance(x, str) and _ROW.fullmatch(x) for x in value):
        return _line(f"[{', '.join(map(_value, value))}]")
    if not isinstance(value, str):
        return escape_invisible(_line(json.dumps(value, ensure_ascii=False)))
    is_clear = _ROW.fullmatch(value) or not _AMBIGUOUS.search(value)
    return escape_invisible(_line(value)) if is_clear else quoted(value)


def quoted(text: str) -> str:
    """Quote text of users in one line, and escape quotes in it."""
    return escape_invisible('"' + _line(text).replace("\\", "\\\\").replace('"', '\\"') + '"')


def _line(text: str) -> str:
    """Return text in one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 1]}…"


# Recorded changes with names


@dataclass(frozen=True, slots=True)
class Named:
    """A recorded change with its names for people.

    Attributes:
        change: the change of the row.
        table: the tool table; `None` for unlisted tables.
        pair: the entity and key of the row; `None` if it has no ref.
        ref: its ref, if it has one.
        label: its label.
    """

    change: RecordedChange
    table: ToolTable | None
    pair: EntityKey | None
    ref: str | None
    label: str | None


@dataclass(frozen=True, slots=True)
class Namer:
    """Adds names for people to recorded changes.

    Attributes:
        tables: the tables that the model may use.
        conversation: provides refs and labels.
        session: reads the labels of referenced rows if the registry has none; `None` to leave
            them out.
        dialect: the dialect of the database; PostgreSQL's for changes that are stored.
        refs: cached refs, by entity and key.
        labels: cached labels, by ref.
        labels_without_ref: cached labels of rows without ref.
        attributes: for each table, cached attribute names by column name.
    """

    tables: ToolTables
    conversation: Conversation | SessionConversation
    session: RefSession | None = None
    dialect: Dialect = _POSTGRESQL
    labels_without_ref: dict[EntityKey, str] = field(default_factory=dict)
    refs: dict[EntityKey, str] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    attributes: dict[Table, Mapping[str, str]] = field(default_factory=dict)

    def attributes_of(self, table: Table) -> Mapping[str, str]:
        """Return the attribute names of a table by column name."""
        if table not in self.attributes:
            self.attributes[table] = attributes_of(table)
        return self.attributes[table]

    def name(self, changes: Sequence[RecordedChange], *, referred: bool = True) -> list[Named]:
        """Return changes with their names.

        This asks the registry twice at most, and reads labels that it does not have by one
        statement for each table.

        Args:
            changes: the changes of rows.
            referred: whether to name the referenced rows too; if not, only labels that are not in
                a column are looked up.
        """
        known = [(change, *self._row_of(change)) for change in changes]
        pairs = [pair for _, _, pair in known if pair is not None]
        if referred:
            pairs += [pair for change, table, _ in known for pair in self.referred(change, table)]
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self.refs]
        self.refs.update(self.conversation.refs_of_pairs(missing) if missing else {})
        own = [self._label(change, table) for change, table, _ in known]
        if referred:
            for (_, _, pair), label in zip(known, own, strict=True):
                if pair is not None and label is not None:
                    self.labels_without_ref[pair] = label
        shown = self.refs.values() if referred else self._without_label(known, own)
        asked = [ref for ref in dict.fromkeys(shown) if ref not in self.labels]
        self.labels.update(self.conversation.labels_of(asked) if asked else {})
        if referred:
            named_already = self.labels_without_ref.keys() | {
                pair for pair, ref in self.refs.items() if self.labels.get(ref) is not None
            }
            self._read_labels(pair for pair in missing if pair not in named_already)
        named = []
        for (change, table, pair), label in zip(known, own, strict=True):
            ref = None if pair is None else self.refs.get(pair)
            named.append(Named(change, table, pair, ref, label or self.labels.get(ref or "")))
        return named

    def _read_labels(self, pairs: Iterable[EntityKey]) -> None:
        """Read the labels of rows that the owner may see: one statement for each table."""
        if self.session is None:
            return
        refs = {
            (entity, key): ForeignRef({}, "", table, key_in(table, key))
            for entity, key in pairs
            for table in (self.tables.of_entity(entity),)
            if table is not None and table.keys.label is not None
        }
        try:
            labels = labels_of(self.session, refs.values())
        except Exception as error:
            if not is_unreadable(error):
                raise
            return  # the call itself does not read these rows
        for pair, each in refs.items():
            label, ref = labels.get((each.target.name, False, each.key)), self.refs.get(pair)
            if label is not None and ref is not None:
                self.labels[ref] = label
            elif label is not None:
                self.labels_without_ref[pair] = label

    def _without_label(
        self,
        known: Sequence[tuple[RecordedChange, ToolTable | None, EntityKey | None]],
        labels: Sequence[str | None],
    ) -> Iterator[str]:
        """Yield the refs of rows whose labels only the registry may have."""
        for (_, table, pair), label in zip(known, labels, strict=True):
            if table is not None and table.keys.label is not None and pair in self.refs:
                yield from () if label or pair is None else (self.refs[pair],)

    def _row_of(self, change: RecordedChange) -> tuple[ToolTable | None, EntityKey | None]:
        table = self.tables.of_table(change.table)
        if table is None or table.ends:
            return table, None
        columns = [*change.table.primary_key]
        if len(columns) != len(table.identity) or len(columns) != len(change.identity):
            return table, None
        return table, (table.entity, table.keys.key_of(change.identity))

    def _label(self, change: RecordedChange, table: ToolTable | None) -> str | None:
        label = None if table is None else table.keys.label
        if label is None or label.attribute is None or table is None:
            return None
        image = change.after or change.before or {}
        names = self.attributes_of(change.table)
        return label.of({names[name]: value for name, value in image.items() if name in names})

    def referred(
        self,
        change: RecordedChange,
        table: ToolTable | None,
        names: Collection[str] | None = None,
    ) -> Iterator[EntityKey]:
        """Yield the rows that a row refers to, before and after the change.

        Args:
            change: the change of the row.
            table: its table.
            names: the attributes that refer to them; all by default.
        """
        columns = {} if table is None else table.columns
        wanted = columns if names is None else names
        for name, attribute in self.attributes_of(change.table).items():
            column = columns.get(attribute) if attribute in wanted else None
            for image in (change.before, change.after):
                text = None if image is None else image.get(name)
                if column is not None and column.key is not None and text is not None:
                    yield from _referred_pairs(column.key, text)

    def fields(self, named: Named) -> tuple[dict[str, Any], int]:
        """Return the fields of a change to show, and the number of hidden columns."""
        change, table, shown, hidden = named.change, named.table, dict[str, Any](), 0
        after = change.after or change.before or {}
        is_link = table is not None and bool(table.ends)
        names: Collection[str] = [*change.changed] if change.action == "updated" else [*after]
        attributes = self.attributes_of(change.table)
        for name in names:
            column = None if table is None else table.columns.get(attributes.get(name, ""))
            if column is None or name in change.left_out:
                hidden += change.action == "updated"
            elif change.action == "updated":
                before = self.shown(column, change, name, (change.before or {})[name])
                value = self.shown(column, change, name, after[name])
                shown[column.name] = {"before": before, "after": value}
            elif after[name] is not None and (is_link or not column.own):
                shown[column.name] = self.shown(column, change, name, after[name])
        return shown, hidden

    def shown(
        self, column: ToolColumn, change: RecordedChange, name: str, text: str | None
    ) -> Any:
        """Format a stored value for a person."""
        if text is None:
            return None
        try:
            if column.key is not None:
                keys = split_array(text) if column.key.array else text
                return map_items(partial(self._row, column.key), keys)
            return as_shown(self._value(column, change.table.columns[name].type, text))
        except (ValueError, TypeError, LookupError, ArithmeticError):
            return text

    def _value(self, column: ToolColumn, type_: TypeEngine[Any], text: str) -> Any:
        array, item = undecorated_type(type_), column.values
        if isinstance(array, ARRAY) and item.item is not None:
            while item.item is not None:
                item = item.item
            return map_items(partial(self._scalar, item, array.item_type), split_array(text))
        if item.family == "json":
            return column.document(json.loads(text))
        return self._scalar(item, type_, text)

    def _scalar(self, values: Values, type_: TypeEngine[Any], text: str) -> Any:
        if values.family == "json":
            return json.loads(text)
        if values.family == "boolean":
            return text in ("true", "t", "1")
        if values.family == "number":
            return int(text) if re.fullmatch(r"-?\d+", text) else text
        if is_text_needed(type_):
            value = read_exact(type_, text)
            return value if isinstance(value, str) else values.show_one(value)
        if isinstance(stored_type(type_), String | Enum):
            process = type_.result_processor(self.dialect, None)
            return values.show_one(process(text) if process else text)
        return text

    def _row(self, key: KeyColumn, text: str) -> str:
        """Return the name of the row that a stored key names."""
        pair = _referred_pair(key, text)
        ref = None if pair is None else self.refs.get(pair)
        if ref is None:
            return _row_name(pair and self.labels_without_ref.get(pair), key.entity)
        label = self.labels.get(ref)
        return ref if label is None else _row_name(label, ref)


def attributes_of(table: Table) -> Mapping[str, str]:
    """Return the attribute names of a table by column name."""
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        return {column.name: column.key for column in table.columns}
    names = sqla.attributes_of(mapper, table.columns)
    return {column.name: name for column, name in names.items()}


def _referred_pairs(key: KeyColumn, text: str) -> Iterator[EntityKey]:
    """Yield the rows with the stored key of a column: several for an array."""
    for each in items_of(split_array(text)) if key.array else [text]:
        pair = None if each is None else _referred_pair(key, each)
        yield from () if pair is None else (pair,)


def _referred_pair(key: KeyColumn, text: str) -> EntityKey | None:
    """Return the row with a stored key."""
    if key.alternate is not None:
        return None
    try:
        return key.entity, _key(key, text)
    except ValueError:
        return None


def _key(column: KeyColumn, text: str) -> Key:
    if column.key_type == "uuid":
        return uuid.UUID(text)
    return int(text) if column.key_type == "integer" else text


def make_plan(
    tool: str,
    table: ToolTable | None,
    named: Sequence[Named],
    namer: Namer,
    *,
    notes: Sequence[str] = (),
    unseen: Iterable[str] = (),
) -> Plan:
    """Make the plan of a call from its effect.

    Args:
        tool: the name of the tool.
        table: the table in its arguments.
        named: its changes of rows, with names.
        namer: the namer of these changes.
        notes: the notes of the application's hooks.
        unseen: descriptions of statements that may have changed unrecorded rows.
    """
    asked = _VERBS.get(tool)
    new = _new_refs(named)
    namer.refs.update(new)
    rows: dict[Any, PlannedRow] = {}
    others: Counter[Action] = Counter()
    passing = {each.pair for each in named if each.change.action != "updated"}
    for each in named:
        if each.table is None:
            others[each.change.action] += 1
            continue
        key = each.pair or (each.table.name, each.change.identity)
        fields, hidden = namer.fields(each)
        row = PlannedRow(
            ref=each.ref if each.pair is None else new.get(each.pair, each.ref),
            entity=entity_of(each.table),
            label=each.label,
            action=each.change.action,
            fields=fields,
            hidden=hidden,
            is_named=asked is None or (each.table is table and each.change.action == asked),
            updates=_updated_entities(each.table, each.change, namer, passing),
        )
        rows[key] = row.merged_with(rows.get(key))
    shown: dict[str, Any] = replace_keys(
        {"rows": [row.model_dump() for row in rows.values()], "notes": list(notes)},
        namer.conversation,
        namer.tables.shown,
    )
    found = [PlannedRow.model_validate(row) for row in shown["rows"]]
    return Plan(
        tool=tool,
        table=None if table is None else table.name,
        rows=sorted(found, key=lambda row: not row.is_named),
        others=dict(others),
        notes=shown["notes"],
        lasting=[*lasting_effects(each.change for each in named)],
        unseen=[*unseen],
        token=token_of(each.change for each in named),
    )


def _updated_entities(
    table: ToolTable,
    change: RecordedChange,
    namer: Namer,
    passing: Collection[EntityKey | None],
) -> list[str]:
    """Return the entities that a link is an update of: those of rows with its relationship.

    Args:
        table: the table of the change; other tables than of links return none.
        change: the change of the link.
        namer: finds the rows that it links.
        passing: the rows that the call creates or deletes, which take their links along.
    """
    ends = [end.table.entity for end in table.ends if end.is_writable]
    is_own = ends and not any(pair in passing for pair in namer.referred(change, table))
    return ends if is_own else []


def entity_of(table: ToolTable) -> str:
    """Return the name of one row of a table, for people."""
    if not table.ends:
        return table.entity
    return f"{' '.join(end.table.entity for end in table.ends)} link"


def visible_plan(stored: Any, tables: ToolTables) -> Plan:
    """Return a stored plan without columns and tables that are now hidden from the model.

    Args:
        stored: the plan as JSON values; another toolset may have made it.
        tables: the tables that a model may use.
    """
    plan = Plan.model_validate(stored)
    hidden_names: dict[str, set[str]] = {}  # classes of one entity may hide different columns
    for table in tables:
        hidden_names.setdefault(entity_of(table), set()).update(table.hidden)
    rows, others = [], Counter(plan.others)
    for row in plan.rows:
        if row.entity not in hidden_names:
            others[row.action] += 1
            continue
        names = hidden_names[row.entity]
        shown = {name: each for name, each in row.fields.items() if name not in names}
        hidden = row.hidden + len(row.fields) - len(shown)
        rows.append(row.model_copy(update={"fields": shown, "hidden": hidden}))
    return plan.model_copy(update={"rows": rows, "others": dict(others)})


def _new_refs(named: Sequence[Named]) -> dict[EntityKey, str]:
    """Return `new_recipe_1` and so on for created rows."""
    numbers, refs = Counter[str](), dict[EntityKey, str]()
    for each in named:
        if each.ref is None and each.pair is not None and each.change.action == "created":
            numbers[each.pair[0]] += 1
            refs[each.pair] = f"new_{each.pair[0]}_{numbers[each.pair[0]]}"
    return refs


def lasting_effects(changes: Iterable[RecordedChange]) -> Iterator[str]:
    """Yield descriptions of effects that an undo cannot revert."""
    lost = Counter(
        (change.table.name, name)
        for change in changes
        for name in change.left_out
        if (change.before or {}).get(name) is not None
        if change.action == "deleted" or name in change.changed
    )
    for (table, name), count in lost.items():
        yield f"{name} of {_count(count, 'row')} in {table}"


# The digest


def token_of(changes: Iterable[RecordedChange]) -> str:
    """Return a digest of an effect, equal for executions that make the same changes."""
    changes = sorted(changes, key=lambda change: json.dumps(_said(change, {})))
    numbers: Counter[Table] = Counter()
    keys: dict[tuple[Table, str, str | None], str] = {}
    for change in changes:
        if change.action == "created" and len(change.key) == 1:
            [(name, text)] = change.key.items()
            numbers[change.table] += 1
            keys[change.table, name, text] = f"new {numbers[change.table]}"
    said = sorted(json.dumps(_said(change, keys)) for change in changes)
    return sha256("\n".join(said).encode()).hexdigest()[:32]


def _said(change: RecordedChange, keys: Mapping[tuple[Table, str, str | None], str]) -> list[Any]:
    """Return the parts of a change that are the same in each execution."""
    table, fixed = change.table, {*change.changed} if change.action == "updated" else None
    targets = {
        element.parent.name: (element.column.table, element.column.name)
        for constraint in table.foreign_key_constraints
        for element in constraint.elements
    }
    own = {column.name for column in images_of(table).key}

    def values(image: Image | None) -> Image | None:
        return image and {
            name: keys.get((*targets.get(name, (table, name)), text), text)
            for name, text in image.items()
            if fixed is None or name in fixed
        }

    after = change.after and {
        name: "now" if _is_now(table.columns[name], text) else text
        for name, text in change.after.items()
        if change.action != "created" or not (name in own or _is_computed(table.columns[name]))
    }
    key = None if change.action == "created" and table.primary_key else values(change.key)
    return [table.fullname, change.action, key, values(change.before), values(after)]


def _is_computed(column: Column[Any]) -> bool:
    """Return whether a new row may get another value in each execution."""
    if column.foreign_keys:
        return False
    given = column.default is not None and not column.default.is_scalar
    return given or column.server_default is not None or column.computed is not None


def _is_now(column: Column[Any], text: str | None) -> bool:
    """Return whether a value is the time of the call."""
    if text is None or not isinstance(stored_type(column.type), DateTime):
        return False
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return False
    if value.tzinfo is not None:
        return abs(datetime.now(UTC) - value).total_seconds() < _MOMENT
    # a column without time zone may contain local time
    times = (datetime.now(UTC).replace(tzinfo=None), datetime.now())  # noqa: DTZ005
    return any(abs(now - value).total_seconds() < _MOMENT for now in times)
