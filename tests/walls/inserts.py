"""Inserts and upserts of every kind, as programs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.walls.script import Program, Source
from tests.walls.writing import NAMING, NEEDED, NUMBERS, OWNERS, PLAIN, Writer


class Inserts(Writer):
    """Makes inserts and upserts."""

    def program(self) -> Program:
        """Return a write."""
        return self._script.program_of({
            self.insert: 4, self.insert_many: 3, self.insert_select: 1.5, self.upsert: 4,
            self.links: 2,
        })  # fmt: skip

    def insert(self) -> Program:
        """Return an insert of one row, by values or parameters, into a class or its table."""
        name = self._chance.choice([*NEEDED])
        record = self._writing.record(name, 50)
        target = name
        if self._script.often(0.05):
            number = self._chance.randrange(1, 10)
            return self._writing.program(
                f"insert(Dog.__table__).values(id=K('Animal', {number}), tricks=1)"
            )
        if name in NAMING and self._script.often(0.07):
            column = self._chance.choice([*NAMING[name]])
            record[column] = "select(func.max(Recipe.__table__.c.id)).scalar_subquery()"
        if name not in ("Dog", "Cat") and self._script.often(0.4):
            target = f"{name}.__table__"
        if name in ("Dog", "Cat"):
            run = f"session.execute(insert({name}), [{self._writing.mapping(record)}])"
            return Program([], [run, "result = None"], [*self._script.kinds], writes=True)
        if self._script.often(0.15) and name in PLAIN and PLAIN[name][0] in NUMBERS:
            record[PLAIN[name][0]] = self._selects.conditions.scalar(
                [Source("literal(1)", [])], "int"
            )
        code = f"insert({target})"
        returning = f".returning({target if target == name else f'{target}.c.id'})"
        returning = returning if self._script.often(0.4) else ""
        if self._script.often(0.3):
            return self._writing.program(code + returning, self._writing.mapping(record))
        return self._writing.program(f"{code}.values({self._writing.mapping(record)}){returning}")

    def insert_many(self) -> Program:
        """Return an insert of several rows, in one VALUES, by parameters or in bulk."""
        name = self._chance.choice([*NEEDED])
        records = self._records(name)
        rows = f"[{', '.join(map(self._writing.mapping, records))}]"
        ways = ["execute", "mappings", "objects"]
        ways += [] if name in ("Dog", "Cat") else ["values", "table"]
        match self._chance.choice(ways):
            case "values":
                return self._writing.program(f"insert({name}).values({rows})")
            case "table":
                return self._writing.program(f"insert({name}.__table__)", rows)
            case "execute":
                return self._writing.program(f"insert({name})", rows)
            case "mappings":
                run = f"session.bulk_insert_mappings({name}, {rows})"
            case _:
                made = (f"{name}({', '.join(f'{k}={v}' for k, v in r.items())})" for r in records)
                run = f"session.bulk_save_objects([{', '.join(made)}])"
        return Program([], [run, "result = None"], [*self._script.kinds], writes=True)

    def _records(self, name: str) -> list[dict[str, str]]:
        """Return three rows with values for the same columns, which may name others."""
        records = [self._writing.record(name, 50)]
        for number in (51, 52):
            again = {**records[0], "id": str(number)}
            if self._script.often(0.3):
                for column, target in NAMING.get(name, {}).items():
                    if column in again:
                        again[column] = f"K({target!r}, {self._chance.randrange(1, 13)})"
            records.append(again)
        return records

    def insert_select(self) -> Program:
        """Return an insert from a SELECT: into a table of no owner, others are refused."""
        code, columns = self._selects.select(kinds=["int", "str"])
        label = columns[0].code
        target = self._chance.choice(["Tag", "Tag", "Tag", "Recipe"])
        inner = self._script.put(f"{code}.distinct().subquery()", "s")
        made = (
            f"insert({target}).from_select(['id', 'name'], select({inner}.c.{label} + 100, "
            f"func.min({inner}.c.{columns[1].code})).where({inner}.c.{label}.is_not(None))"
            f".group_by({inner}.c.{label} + 100))"
        )
        return self._writing.program(made)

    def upsert(self) -> Program:
        """Return an upsert that may conflict with a row, whosever it is."""
        name = self._chance.choice(["Plan", "Plan", "Recipe", "Shelf", "Tag", "Line"])
        values, keys = self._conflicting(name)
        code = f"upsert({name}).values({self._writing.mapping(values)})"
        if self._script.often(0.2):
            return self._writing.program(f"{code}.on_conflict_do_nothing()")
        statement = self._script.put(code, "i")
        named = self._writing.mapping(self._setting(name, statement))
        where = ""
        if self._script.often(0.3):
            where = f", where={self._selects.conditions.any([self._writing.own(name)])}"
        code = f"{statement}.on_conflict_do_update(index_elements={keys}, set_={named}{where})"
        code += f".returning({name}.{keys[0]})" if self._script.often(0.4) else ""
        return self._writing.program(code)

    def _conflicting(self, name: str) -> tuple[dict[str, str], list[str]]:
        """Return a row, and the columns by which it may conflict with one that is there."""
        number = self._chance.randrange(1, 13)
        if name == "Shelf":
            place = {"room": str(number % 2), "place": str(number)}
            return {**place, "label": "'new'"}, [*place]
        if name == "Plan" and self._script.often(0.5):
            owner = ("ann", "bob", "cid")[(number - 1) % 3]
            return {"id": "60", "code": repr(f"{owner}{number}")}, ["code"]
        values = {"id": str(number), **NEEDED[name]}
        if name == "Line":
            values["recipe_id"] = f"K('Recipe', {number})"
        return values, ["id"]

    def _setting(self, name: str, statement: str) -> dict[str, str]:
        """Return what is set in a row that is there: now and then its owner too."""
        key = PLAIN[name][0]
        setting = {key: self._writing.value(name, key, f"{name}.")}
        if self._script.often(0.3):
            setting = {key: f"{statement}.excluded.{key}"}
        if name in NAMING and self._script.often(0.3):
            column, target = self._chance.choice([*NAMING[name].items()])
            setting[column] = f"K({target!r}, {self._chance.randrange(1, 13)})"
        if name in OWNERS and self._script.often(0.1):
            setting[OWNERS[name]] = self._chance.choice([
                f"K('User', {self._chance.randrange(1, 4)})", f"{statement}.excluded.user_id",
            ])  # fmt: skip
        return setting

    def links(self) -> Program:
        """Return a write of an association table, which has no owner and names rows that have."""
        table, columns = self._chance.choice([
            ("recipe_tags", {"recipe_id": "Recipe", "tag_id": "Tag"}),
            ("recipe_links", {"from_id": "Recipe", "to_id": "Recipe"}),
        ])  # fmt: skip
        rows: Sequence[str] = [
            self._writing.mapping({
                column: f"K({target!r}, {self._chance.randrange(1, 4 if target == 'Tag' else 13)})"
                for column, target in columns.items()
            })
            for _ in range(2)
        ]  # fmt: skip
        way = self._chance.choice(["values", "many", "update", "nothing"])
        if way == "values":
            return self._writing.program(f"insert({table}).values({rows[0]})")
        if way == "many":
            return self._writing.program(f"insert({table})", f"[{rows[0]}]")
        if way == "nothing":
            return self._writing.program(
                f"upsert({table}).values({rows[0]}).on_conflict_do_nothing()"
            )
        return self._writing.program(
            f"update({table}).where({table}.c.{next(iter(columns))} == "
            f"K('Recipe', {self._chance.randrange(1, 13)})).values({rows[0]})"
        )
