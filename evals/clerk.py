"""A scripted model: it does tasks by a program, and knows nothing but what it was shown.

    def program(clerk: Clerk) -> Program:
        soup = yield from clerk.find("recipes", name="Tomato Soup")
        yield from clerk.update(soup, servings=6)
        yield Said("Done.")

A program finds rows by what people say of them, and names them by the ids in the answers; the
clerk copies these through a channel that may corrupt them. A call that is refused is made again,
with the ids copied anew. Where the clerk vouches, it says of each row that it names what it takes
the row to be; when an id slips to that of another row, its belief may slip along.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from alfred_refs.tools import Toolset
from evals.channel import Channel, Id, Ids
from evals.steps import Answer, Call, Copy, GivesUp, Named, Reading, Refused, Row

TRIES: Final = 4  # of a call that is refused, before the clerk gives up

# what the tools say when they ask for what a row is taken to be
ASKED: Final = "; nothing was changed; if you mean"

# columns that tell recipes of one name apart
APART_BY: Final = ("servings", "cook_minutes")

# and where a label is not enough
APART: Final = "that tell them apart"


@dataclass(slots=True)
class _Seen:
    """What is known of an id: the label of its row, its values, and when it was shown last."""

    label: str | None
    turn: int
    values: Mapping[str, Any] = field(default_factory=dict)


class Clerk:
    """Does one task.

    Args:
        toolset: tells which columns have ids; nothing else of it is looked at.
        channel: through which ids are copied.
        chance: decides whether a belief slips along.
        vouches: whether it says of its own accord what rows are.
        along: how often its belief slips along when an id is swapped for that of another row.
        notices: how often it sees in an answer that another row was written than it meant.

    Attributes:
        drafts: by their labels.
        turn: how often the user has spoken.
        refusals: how many calls were refused.
    """

    def __init__(
        self,
        toolset: Toolset,
        channel: Channel,
        chance: random.Random,
        *,
        vouches: bool,
        along: float = 0.0,
        notices: float = 0.0,
    ) -> None:
        self._tables = {table.name: table for table in toolset.tables}
        self._by_entity = {table.entity: table for table in toolset.tables}
        self._channel = channel
        self._chance = chance
        self._vouches = vouches
        self._along = along
        self._notices = notices
        self._tells_apart = False
        # by entity and id
        self._seen: dict[str, dict[Id, _Seen]] = {}
        self.drafts: dict[str, Named] = {}
        self.turn = 0
        self.refusals = 0

    # What programs do

    def read(self, table: str, **arguments: Any) -> Reading:
        """Read rows, and return them."""
        answer = yield from self._do("db_read", {"table": table, **arguments})
        return [Row(table, row["id"], row) for row in answer["rows"]]

    def find(self, table: str, **values: Any) -> Reading:
        """Return the row with these values: the first, if there are several."""
        filters = [{"field": name, "op": "=", "value": value} for name, value in values.items()]
        rows = yield from self.read(table, filters=filters)
        if not rows:
            raise GivesUp
        return rows[0]

    def update(self, *rows: Row, **data: Any) -> Reading:
        """Change rows of one table, in one call."""
        yield from self._do("db_update", {**self._these(rows), "data": data}, rows)

    def delete(self, *rows: Row) -> Reading:
        """Delete rows of one table, in one call."""
        yield from self._do("db_delete", self._these(rows), rows)

    def clear(self, table: str, column: str, row: Row) -> Reading:
        """Delete the rows that refer to a row."""
        clause = {"field": column, "op": "=", "value": self.named(row)}
        yield from self._do("db_delete", {"table": table, "filters": [clause]})

    def create(self, table: str, *data: Mapping[str, Any]) -> Reading:
        """Create rows in one call, and return them."""
        asked = {"table": table, "data": [dict(each) for each in data]}
        answer = yield from self._do("db_create", asked)
        return [Row(table, row["id"], row) for row in answer["rows"]]

    def save(self, table: str, draft: Named) -> Reading:
        """Save a draft, and return its row."""
        answer = yield from self._do("db_create", {"table": table, "from_draft": draft})
        [row] = answer["rows"]
        return Row(table, row["id"], row)

    def named(self, row: Row, column: str | None = None) -> Named:
        """Return the id of a row, or the one in a column, to be copied."""
        table = self._tables[row.table]
        if column is None:
            return Named(table.entity, row.id)
        return Named(str(table.columns[column].entity), row.values[column])

    def label(self, row: Row, column: str) -> Reading:
        """Return the label of the row that a column refers to; read it, if that is not said."""
        named = self.named(row, column)
        seen = self._seen.get(named.entity, {}).get(named.id)
        if seen is None or seen.label is None:
            table = self._by_entity[named.entity].name
            filters = [{"field": "id", "op": "=", "value": named}]
            rows = yield from self.read(table, filters=filters)
            return self._label_of(rows[0].values) if rows else None
        return seen.label

    def tell(self, entity: str, id_: Id, label: str) -> None:
        """Tell it of a draft, as the application does in a prompt."""
        self.drafts[label] = Named(entity, id_)
        self._meet(entity, id_, label)

    # How it does it

    def _these(self, rows: Sequence[Row]) -> dict[str, Any]:
        ids = [self.named(row) for row in rows]
        clause = {"field": "id", "op": "=", "value": ids[0]}
        if len(ids) > 1:
            clause = {"field": "id", "op": "in", "value": ids}
        return {"table": rows[0].table, "filters": [clause]}

    def _do(self, tool: str, template: Mapping[str, Any], rows: Sequence[Row] = ()) -> Reading:
        """Make a call, again with ids copied anew while it is refused, and return the answer."""
        for _ in range(TRIES):
            copies: list[Copy] = []
            arguments = self._copied(template, copies)
            if self._vouches and tool != "db_read":
                self._vouch(arguments, copies, len(rows))
            answer: Answer = yield Call(tool, arguments, copies)
            if isinstance(answer, dict):
                wrong = {} if tool == "db_read" else self._mistaken(answer, copies)
                self._learn(answer)
                if wrong and self._chance.random() < self._notices:
                    yield from self._put_right(tool, template, rows, answer, wrong)
                return answer
            self.refusals += 1
            if isinstance(answer, Refused):
                self._vouches |= ASKED in answer.message
                self._tells_apart |= APART in answer.message
        raise GivesUp

    def _copied(self, value: Any, copies: list[Copy]) -> Any:
        if isinstance(value, Named):
            copies.append(self._copy(value))
            return copies[-1].given
        if isinstance(value, Mapping):
            return {name: self._copied(each, copies) for name, each in value.items()}
        if isinstance(value, list):
            return [self._copied(each, copies) for each in value]
        return value

    def _copy(self, named: Named) -> Copy:
        seen = self._seen.get(named.entity, {})
        others = [
            id_ for entity, ids in self._seen.items() if entity != named.entity for id_ in ids
        ]
        earlier = [id_ for id_, each in seen.items() if each.turn < self.turn]
        slip = self._channel.copy(named.id, Ids(list(seen), earlier, others))
        goes_along = self._chance.random() < self._along
        if slip is None:
            return Copy(named, named.id, None, named.id)
        believed = slip.given if goes_along and slip.kind in ("swap", "stale") else named.id
        return Copy(named, slip.given, slip.kind, believed)

    def _vouch(self, arguments: dict[str, Any], copies: Sequence[Copy], rows: int) -> None:
        """Say what the rows are that are named: in filters, as drafts, then in data."""
        table = self._tables[arguments["table"]]
        labels = [self._said_of(each) for each in copies]
        if "filters" in arguments and not rows:
            arguments["expect"] = {str(copies[0].given): labels[0]}
            return
        rows += "from_draft" in arguments
        if rows and None not in labels[:rows]:
            arguments["expect"] = labels[0] if rows == 1 else labels[:rows]
        in_data = iter(labels[rows:])
        for record in _records(arguments):
            for name in [*record]:
                if table.columns[name].entity is not None:
                    record[f"_{name}_label"] = next(in_data)

    def _said_of(self, copy: Copy) -> str | dict[str, Any] | None:
        """Return the label of a row, or what tells it from others of that label."""
        seen = self._seen[copy.named.entity]
        label, values = seen[copy.believed].label, seen[copy.believed].values
        if self._tells_apart and sum(each.label == label for each in seen.values()) > 1:
            plain = {name: values[name] for name in APART_BY if name in values}
            return plain or label
        return label

    # What it sees in answers

    def _mistaken(
        self, answer: Mapping[str, Any], copies: Sequence[Copy]
    ) -> dict[Id, Mapping[str, Any]]:
        """Return the ids that an answer shows to be of another row than was meant.

        With each goes what was known of its row before.
        """
        shown = self._shown(answer)
        wrong = {}
        for copy in copies:
            entity, seen = copy.named.entity, self._seen[copy.named.entity]
            meant = seen[copy.believed].label
            if copy.given != copy.believed and shown.get((entity, copy.given), meant) != meant:
                known = seen.get(copy.given)
                wrong[copy.given] = {} if known is None else known.values
        return wrong

    def _shown(self, answer: Mapping[str, Any]) -> dict[tuple[str, Id], str | None]:
        """Return the labels that an answer shows, by entity and id."""
        table = self._tables[answer["table"]]
        gone = zip(answer.get("deleted", ()), answer.get("_deleted_labels", ()), strict=False)
        shown = {(table.entity, id_): label for id_, label in gone}
        for row in answer.get("rows", ()):
            shown[table.entity, row["id"]] = self._label_of(row)
            for name, column in table.columns.items():
                if f"_{name}_label" in row:
                    shown[str(column.entity), row[name]] = row[f"_{name}_label"]
        return shown

    def _put_right(
        self,
        tool: str,
        template: Mapping[str, Any],
        rows: Sequence[Row],
        answer: Mapping[str, Any],
        wrong: Mapping[Id, Mapping[str, Any]],
    ) -> Reading:
        """Undo what was done to rows that were not meant, as far as they were seen, and do it."""
        table = self._tables[answer["table"]]
        if tool == "db_create":
            for row, record in zip(answer["rows"], _records(template), strict=False):
                meant = {name: each for name, each in record.items() if isinstance(each, Named)}
                if any(row.get(name) in wrong for name in meant):
                    yield from self.update(Row(table.name, row["id"], row), **meant)
            return
        for id_ in [each for each in wrong if each in self._seen[table.entity]]:
            before = {
                name: Named(str(column.entity), value) if column.entity and value else value
                for name, value in wrong[id_].items()
                if (column := table.columns.get(name)) is not None and column.updatable
            }
            if tool == "db_delete" and before:
                yield from self.create(table.name, before)
            elif undone := {
                name: before[name] for name in template.get("data", ()) if name in before
            }:
                yield from self.update(Row(table.name, id_, before), **undone)
        yield from self._do(tool, template, rows)

    def _learn(self, answer: Mapping[str, Any]) -> None:
        table = self._tables[answer["table"]]
        for row in answer.get("rows", ()):
            self._meet(table.entity, row["id"], self._label_of(row), row)
            for name, value in row.items():
                column = table.columns.get(name)
                if column is not None and column.entity is not None and name != "id" and value:
                    self._meet(column.entity, value, row.get(f"_{name}_label"))
        for also in answer.get("also", ()):
            self._learn(also)

    def _meet(
        self, entity: str, id_: Id, label: str | None, values: Mapping[str, Any] | None = None
    ) -> None:
        known = self._seen.setdefault(entity, {}).get(id_)
        if known is None:
            self._seen[entity][id_] = _Seen(label, self.turn, values or {})
            return
        known.label = label or known.label
        known.turn = self.turn
        known.values = {**known.values, **(values or {})}

    @staticmethod
    def _label_of(row: Mapping[str, Any]) -> str | None:
        if "date" in row and "meal_type" in row:
            return f"{row['date']} {row['meal_type']}"
        return row.get("name")


def _records(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = arguments.get("data", [])
    return data if isinstance(data, list) else [data]
