"""Calls that fit the tables: made of a toolset's own tables, and of refs that are living."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alfred_refs.tools.tables import ROW_REF, ToolColumn, ToolTable, lists_of
from tests.tools.fuzz.lists import Lister

TOOLS = ["db_read"] * 5 + ["db_create"] * 2 + ["db_update"] * 2 + ["db_delete"] + ["db_edit_list"]

Arguments = dict[str, Any]

# family of values, or the format of their schema -> what a model may give
_POOLS: Mapping[str, Sequence[Any]] = {
    "text": ["Korma", "korma", "50%_off", "a\\b", "é漢", "recipe_1", "O'Brien", "rice", "x"],
    "integer": [0, 1, 2, 3, -1, 100],
    "number": [0, 0.5, 1, 2.25, -3],
    "boolean": [True, False],
    "date": ["2026-01-01", "2026-05-31"],
    "date-time": ["2026-01-01T10:00:00Z", "2026-05-31T23:59:59.5+02:00"],
    "time": ["18:30:00"],
    "duration": ["PT45M"],
    "uuid": ["00000000-0000-0000-0000-000000000007"],
    "json": [{"kcal": 1}, [1, 2], "text", 5, {"a": {"b": [None]}}],
    "choice": ["STARTER", "MAIN"],
    "opaque": ["AA=="],
}


class Caller:
    """Makes calls.

    Args:
        chance: what all choices are made by.
        tables: of the toolset.
        refs: gives the refs of an entity that are living.
        drafts: gives those of its drafts.
    """

    def __init__(
        self,
        chance: random.Random,
        tables: Sequence[ToolTable],
        refs: Callable[[str], Sequence[str]],
        drafts: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        self._chance = chance
        self._tables = tables
        self._refs = refs
        self._drafts = drafts
        self._listed = [each for each in tables if lists_of(each)]
        self._lister = Lister(chance, self.record, self.value_of)

    def call(self) -> tuple[str, Arguments]:
        """Return the name of a tool, and arguments that it may take."""
        tool = self._chance.choice(TOOLS if self._listed else TOOLS[:-1])
        if tool == "db_edit_list":
            return self.edit_list()
        table = self._chance.choice(self._tables[:4] if self._often() else self._tables)
        make = {
            "db_read": self._read,
            "db_create": self._create,
            "db_update": self._update,
            "db_delete": self._delete,
        }
        made = make[tool](table)
        if tool != "db_create" and self._drafts(table.entity) and self._seldom():
            self._name_drafts(made, table)
        return tool, {"table": table.name, **made}

    def edit_list(self) -> tuple[str, Arguments]:
        """Return a call that edits a list, of a row for the most part."""
        table = self._chance.choice(self._listed)
        refs = [*self._refs(table.entity)]
        some = self._drafts(table.entity) if self._chance.random() < 0.1 else ()
        row = self._chance.choice([*some] or refs or [f"{table.entity}_1"])
        return "db_edit_list", self._lister.call(table, row)

    def see(self, tool: str, answer: Mapping[str, Any]) -> None:
        """Take in what a call was answered: later edits are of lists as they were seen."""
        if tool == "db_edit_list" and "error" not in answer:
            self._lister.see(answer)

    def _name_drafts(self, made: Arguments, table: ToolTable) -> None:
        """Have filters name drafts, alone or among rows, and data what is nested in them."""
        drafts = self._chance.choices(self._drafts(table.entity), k=2)
        some = [*drafts, *self._refs(table.entity)[:1]] if self._seldom() else drafts
        one = {"field": table.own, "op": "=", "value": drafts[0]}
        op = self._chance.choice(["in", "in", "in", "not_in"])
        named = self._chance.choice([one, {"field": table.own, "op": op, "value": some}])
        others = made["filters"] if self._seldom() else []
        made["filters"] = [{"or": [named, *others]}] if self._seldom() else [named, *others]
        if "data" in made and table.targets and self._often():
            name = self._chance.choice([*table.targets])
            rows = [self.record(table.targets[name]) for _ in range(2)]
            made["data"][name] = rows if table.relationship(name).uselist else rows[0]

    def _often(self) -> bool:
        return self._chance.random() < 0.7

    def _seldom(self) -> bool:
        return self._chance.random() < 0.3

    def _read(self, table: ToolTable) -> Arguments:
        made: Arguments = {"filters": self._filters(table, self._chance.randrange(3))}
        if self._seldom():
            made["or_filters"] = self._filters(table, self._chance.randrange(3))
        if self._seldom():
            names = [*table.fields, *(self._path(table) for _ in range(2))]
            made["columns"] = self._chance.sample(names, self._chance.randrange(1, 4))
        if self._seldom():
            made["limit"] = self._chance.choice([0, 1, 2, 5, 1000])
        if self._often():
            ordered = [c.name for c in table.columns.values() if c.values.ordered]
            made["order_by"] = self._chance.choice([*ordered, ordered[:2], table.own or ordered])
            made["order_dir"] = self._chance.choice(["asc", "desc"])
        return made

    def _create(self, table: ToolTable) -> Arguments:
        records = [self.record(table) for _ in range(self._chance.randrange(1, 4))]
        return {"data": records[0] if len(records) == 1 else records}

    def record(self, table: ToolTable, without: Sequence[str] = ()) -> Arguments:
        """Return a new row of a table, without some of its columns."""
        columns = [c for c in table.columns.values() if c.creatable and c.name not in without]
        return {
            c.name: self.value(c, null=not c.required)
            for c in columns
            if c.required or self._seldom()
        }

    def _update(self, table: ToolTable) -> Arguments:
        columns = [c for c in table.columns.values() if c.updatable]
        some = self._chance.sample(columns, min(len(columns), self._chance.randrange(1, 4)))
        made: Arguments = {
            "filters": self._filters(table, self._chance.randrange(1, 3)),
            "data": {column.name: self.value(column) for column in some},
        }
        if self._seldom():
            column = self._chance.choice([*table.columns.values()])
            made["expect"] = self._chance.choice(["Korma", {column.name: self.value(column)}])
        return made

    def _delete(self, table: ToolTable) -> Arguments:
        living = self._refs(table.entity)
        named = {"field": table.own or ROW_REF, "op": "in", "value": list(living)[-2:] or ["x_1"]}
        often = [named, *self._filters(table, self._chance.randrange(2))]
        return {"filters": often if self._often() else self._filters(table, 1)}

    def _filters(self, table: ToolTable, count: int) -> list[Arguments]:
        return [self._filter(table, 0) for _ in range(count)]

    def _filter(self, table: ToolTable, depth: int) -> Arguments:
        if depth < 3 and self._seldom():
            group = self._chance.choice(["and", "or", "not"])
            if group == "not":
                return {"not": self._filter(table, depth + 1)}
            inner = range(self._chance.randrange(1, 3))
            return {group: [self._filter(table, depth + 1) for _ in inner]}
        field, found, path = "", table, 0
        while found.targets and path < 3 and self._chance.random() < 0.2:
            name = self._chance.choice([*found.targets])
            field, found, path = f"{field}{name}.", found.targets[name], path + 1
        if found.own is None and not found.ends and self._seldom():
            return self._row(found, field)
        column = self._chance.choice([*found.columns.values()])
        return self._clause(column, field + column.name)

    def _row(self, table: ToolTable, path: str) -> Arguments:
        refs = list(self._refs(table.entity)) or [f"{table.entity}_1"]
        op = self._chance.choice(["=", "!=", "in", "not_in"])
        value = refs[:2] if "in" in op else self._chance.choice(refs)
        return {"field": path + ROW_REF, "op": op, "value": value}

    def _clause(self, column: ToolColumn, field: str) -> Arguments:
        op = self._chance.choice(column.values.operators)
        if op in ("is_null", "is_not_null"):
            return {"field": field, "op": op}
        if op in ("in", "not_in"):
            values = [self.value(column, null=self._seldom()) for _ in range(2)]
            return {"field": field, "op": op, "value": values}
        if op == "ilike":
            pattern = self._chance.choice(["%o%", "Korma", "_orma", "50\\%%", "%", ""])
            return {"field": field, "op": op, "value": pattern}
        return {"field": field, "op": op, "value": self.value(column, null=op in ("=", "!="))}

    def value(self, column: ToolColumn, *, null: bool = False) -> Any:
        """Return a value that a column takes."""
        if null and self._seldom() and self._seldom():
            return None
        values = column.values
        if values.family == "list":
            return [self.value_of(values.item, column) for _ in range(self._chance.randrange(3))]
        return self.value_of(values, column)

    def value_of(self, values: Any, column: ToolColumn) -> Any:
        """Return one of the values that a column, or its items, may have."""
        if values.family == "ref":
            entity = column.key.entity if column.key is not None else ""
            refs = self._drafts(entity) if self._chance.random() < 0.05 else ()
            return self._chance.choice([*refs] or [*self._refs(entity)] or [f"{entity}_1"])
        if values.longest is not None:
            return f"c{self._chance.randrange(10_000)}"
        kind = values.schema.get("format") or values.schema.get("type")
        pool = _POOLS.get(values.family) or _POOLS[kind]
        if column.name == "name" and self._seldom():
            return f"name {self._chance.randrange(1000)}"
        return self._chance.choice(pool)

    def _path(self, table: ToolTable) -> str:
        if not table.targets:
            return self._chance.choice([*table.columns])
        name = self._chance.choice([*table.targets])
        further = table.targets[name]
        return f"{name}.{self._path(further)}" if self._seldom() else name
