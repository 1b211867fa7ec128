"""Programs that write: inserts, upserts, updates and deletes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.isolation.programs import TEXTS, Program, Source, columns_of
from tests.isolation.selects import Selects

# class -> its columns that are not keys
PLAIN = {
    "Recipe": ("minutes", "name"),
    "Line": ("position", "text"),
    "Remark": ("text",),
    "Plan": ("day",),
    "User": ("name",),
    "Tag": ("name",),
    "OldPlan": ("code",),
    "OldLine": ("text",),
    "Animal": ("name",),
    "Dog": ("tricks", "name"),
    "Cat": ("name",),
    "Shelf": ("label",),
    "Jar": ("label",),
}
NUMBERS = ("minutes", "position", "day", "tricks")
# class -> foreign key column -> the class that it refers to
NAMING = {
    "Recipe": {"parent_id": "Recipe"},
    "Line": {"recipe_id": "Recipe", "tag_id": "Tag"},
    "Remark": {"line_id": "Line"},
    "Plan": {"recipe_id": "Recipe"},
    "OldPlan": {"plan_id": "Plan"},
    "OldLine": {"old_id": "OldPlan"},
    "Dog": {"recipe_id": "Recipe"},
}
OWNERS = {"Recipe": "user_id", "Plan": "user_id", "OldPlan": "whose", "Animal": "user_id",
           "Dog": "user_id", "Cat": "user_id", "Shelf": "user_id", "Jar": "user_id"}  # fmt: skip
# class -> the other columns that a new row needs
NEEDED = {
    "Recipe": {"name": "'new'"},
    "Line": {"text": "'new'"},
    "Remark": {"text": "'new'"},
    "Plan": {},
    "Tag": {"name": "'new'"},
    "OldPlan": {"code": "'new'"},
    "OldLine": {"text": "'new'"},
    "Dog": {"name": "'new'"},
    "Cat": {"name": "'new'"},
    "Jar": {"label": "'new'"},
}
SHARED = ("Recipe", "Line", "Remark")
DECIDES = {"Line": "recipe_id", "Remark": "line_id", "OldLine": "old_id"}


class Writing:
    """Generates the parts of writes.

    Args:
        chance: makes all random choices.
    """

    def __init__(self, chance: random.Random) -> None:
        self.selects = Selects(chance)
        self.script = self.selects.script
        self._chance = chance

    def program(self, code: str, *arguments: str, options: str = "") -> Program:
        """Return a program that executes a statement."""
        every = ", ".join(filter(None, ("statement", *arguments, options)))
        run = f"result = session.execute({every})"
        lines = [*self.script.lines, f"statement = {code}"]
        return Program(lines, [run], list(self.script.kinds), writes=True)

    def name(self) -> str:
        """Return the name of a class."""
        return self._chance.choice([*PLAIN])

    def plain(self, key: str) -> str:
        """Return a value for a column."""
        return str(self._chance.randrange(6)) if key in NUMBERS else "'given'"

    def value(self, name: str, key: str, prefix: str) -> str:
        """Return a new value for a column: a literal or an expression."""
        if key not in NUMBERS:
            code = f"{prefix}{key}"
            return self._chance.choice(
                [repr(self._chance.choice(TEXTS)), f"{code} + 'x'", f"func.upper({code})"]
            )
        number = str(self._chance.randrange(6))
        if self.script.often(0.3):
            columns = columns_of(name, prefix.removesuffix("."), core=prefix.endswith("c."))
            return self.selects.conditions.scalar([Source(name, columns, (), name)], "int")
        return self._chance.choice([number, f"{prefix}{key} + 1"])

    def values(self, name: str, prefix: str) -> dict[str, str]:
        """Return new values by column, sometimes for a foreign key, the key or the owner."""
        key = self._chance.choice(PLAIN[name])
        found = {key: self.value(name, key, prefix)}
        if name in NAMING and self.script.often(0.35):
            column, target = self._chance.choice([*NAMING[name].items()])
            found[column] = f"K({target!r}, {self._chance.randrange(1, 14)})"
            if self.script.often(0.1):
                found[column] = "None"
        if self.script.often(0.04) and name not in ("Dog", "Shelf"):
            found["id"] = f"{prefix}id + 100"
        if name in OWNERS and self.script.often(0.06):
            found[OWNERS[name]] = f"K('User', {self._chance.randrange(1, 4)})"
        return found

    def own(self, name: str) -> Source:
        """Return a class with the columns of its own table."""
        source = self.selects.sources.mapped(name)
        if name == "Dog":
            columns = [c for c in source.columns if c.code in ("Dog.tricks", "Dog.recipe_id")]
            return Source(name, columns, (), name)
        columns = [c for c in source.columns if not c.code.endswith("line_count")]
        return Source(name, columns, (), name, has_entity=source.has_entity)

    def where(self, source: Source) -> tuple[str, bool]:
        """Return a WHERE clause, and whether it adds a second table."""
        conditions = self.selects.conditions
        if self.script.often(0.3):
            other = self.selects.sources.any()
            met = self.selects.on(other, [source])
            beside = conditions.any([other]) if self.script.often(0.5) else "true()"
            self.script.kinds.append("beside")
            return f".where({met}, {beside})", True
        if self.script.often(0.85):
            return f".where({conditions.any([source])})", False
        return "", False

    def returning(self, name: str, source: Source, *, whole: bool) -> str:
        """Return a RETURNING clause, or nothing half of the time."""
        if not self.script.often(0.5):
            return ""
        columns = [c for c in source.columns if not c.code.endswith("line_count")]
        codes = [c.code for c in self._chance.sample(columns, min(2, len(columns)))]
        if whole and self.script.often(0.3):
            codes = [name]
        elif self.script.often(0.15):
            codes.append(self.selects.conditions.scalar([source], "int"))
        return f".returning({', '.join(codes)})"

    def way(self, name: str) -> str:
        """Return a `synchronize_session`; for shared rows, `judge.run()` replaces it."""
        way = self._chance.choice(["'auto'", "'evaluate'", "'fetch'"])
        return f"way({way})" if name in SHARED else way

    def synchronized(self, name: str) -> str:
        """Return the `synchronize_session` option, or nothing."""
        way = self._chance.choice([self.way(name), self.way(name), "False", None])
        if name == "Dog":  # the ORM would return columns of the base table too
            return ""
        return "" if way is None else f"execution_options={{'synchronize_session': {way}}}"

    def record(self, name: str, number: int) -> dict[str, str]:
        """Return the values of a new row."""
        found = {"id": str(number), **NEEDED[name]}
        for column, target in NAMING.get(name, {}).items():
            if column == DECIDES.get(name) or self.script.often(0.5):
                found[column] = f"K({target!r}, {self._chance.randrange(1, 13)})"
        if name in OWNERS and self.script.often(0.4):
            found[OWNERS[name]] = f"K('User', {self._chance.randrange(1, 4)})"
        if name in DECIDES and self.script.often(0.08):
            del found[DECIDES[name]]
        return found

    def mapping(self, record: dict[str, str]) -> str:
        """Return a dictionary of values as Python source."""
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in record.items())}}}"


class Writer:
    """Generates programs that write.

    Args:
        chance: makes all random choices.
    """

    def __init__(self, chance: random.Random) -> None:
        self._writing = Writing(chance)
        self._selects = self._writing.selects
        self._script = self._selects.script
        self._chance = chance


# Updates and deletes


class Writes(Writer):
    """Generates updates and deletes."""

    def program(self) -> Program:
        """Return a write."""
        return self._script.program_of({
            self.update: 6, self.delete: 4, self.core_update: 3, self.core_delete: 2,
            self.by_keys: 2, self.parameters: 3, self.legacy: 2, self.synchronized: 3,
        })  # fmt: skip

    def update(self) -> Program:
        """Return an UPDATE of a class."""
        name = self._writing.name()
        source = self._writing.own(name)
        values = self._writing.values(name, f"{name}.")
        if name == "Dog":
            values = {"tricks": ("tricks" in values and values["tricks"]) or "3"}
        where, _ = self._writing.where(source)
        pairs = ", ".join(f"{key}={value}" for key, value in values.items())
        setting = f"{{{', '.join(f'{name}.{k}: {v}' for k, v in values.items())}}}"
        values_of = pairs if self._script.often() else setting
        if self._script.often(0.1):
            ordered = ", ".join(f"({name}.{k}, {v})" for k, v in values.items())
            code = f"update({name}){where}.ordered_values({ordered})"
        else:
            code = f"update({name}){where}.values({values_of})"
        code += self._writing.returning(name, source, whole=name != "Dog")
        return self._writing.program(code, options=self._writing.synchronized(name))

    def delete(self) -> Program:
        """Return a DELETE of a class, mostly of rows without references to them."""
        name = self._chance.choice(["Remark", "Plan", "OldLine", "Jar", "Dog", "Remark", "Line"])
        source = self._writing.own(name)
        where, _ = self._writing.where(source)
        code = f"delete({name}){where}{self._writing.returning(name, source, whole=name != 'Dog')}"
        return self._writing.program(code, options=self._writing.synchronized(name))

    def _table(self, name: str) -> tuple[str, Source]:
        code = f"{name}.__table__"
        if self._script.often(0.6):
            code = self._script.put(f"{code}.alias()", "t")
        columns = columns_of(name, f"{code}.c", core=True)
        return code, Source(code, columns)

    def core_update(self) -> Program:
        """Return an UPDATE of a table or its alias."""
        name = self._chance.choice([each for each in PLAIN if each not in ("Dog", "Cat")])
        code, source = self._table(name)
        values = self._writing.values(name, f"{code}.c.")
        pairs = ", ".join(f"{key}={value}" for key, value in values.items())
        where, _ = self._writing.where(source)
        made = f"update({code}){where}.values({pairs})"
        return self._writing.program(made + self._writing.returning(name, source, whole=False))

    def core_delete(self) -> Program:
        """Return a DELETE from a table or its alias."""
        name = self._chance.choice(["Remark", "Plan", "OldLine", "Jar"])
        code, source = self._table(name)
        where, _ = self._writing.where(source)
        return self._writing.program(
            f"delete({code}){where}{self._writing.returning(name, source, whole=False)}"
        )

    def by_keys(self) -> Program:
        """Return an ORM bulk UPDATE by primary key."""
        name = self._chance.choice(
            ["Recipe", "Line", "Plan", "Remark", "Dog", "Dog", "Cat", "Shelf"]
        )
        key = self._chance.choice(PLAIN[name])
        rows = []
        mine = self._chance.randrange(1, 4)
        for number in self._chance.sample(range(1, 10), 2):
            # mostly rows of one owner: rows cycle over four or three owners
            step = 4 if name in ("Recipe", "Line", "Remark") else 3
            chosen = mine + step * (number % 2) if self._script.often(0.8) else number
            primary = (
                f"'room': {chosen % 2}, 'place': {chosen}"
                if name == "Shelf"
                else f"'id': K({name!r}, {chosen})"
            )
            value = str(number) if key in NUMBERS else repr(f"set {number}")
            rows.append(f"{{{primary}, {key!r}: {value}}}")
        if self._script.often(0.3):
            lines = [f"session.bulk_update_mappings({name}, [{', '.join(rows)}])", "result = None"]
            return Program([], lines, [*self._script.kinds], writes=True)
        return self._writing.program(f"update({name})", f"[{', '.join(rows)}]")

    def parameters(self) -> Program:
        """Return an UPDATE whose values are execution parameters."""
        name = self._chance.choice([each for each in PLAIN if each not in ("Dog", "Cat", "Shelf")])
        table = f"{name}.__table__"
        if self._script.often(0.4):
            table = self._script.put(f"{table}.alias()", "t")
        values = {key: self._writing.plain(key) for key in self._chance.sample(PLAIN[name], 1)}
        naming = {**NAMING.get(name, {}), **({OWNERS[name]: "User"} if name in OWNERS else {})}
        if naming and self._script.often(0.5):
            column, target = self._chance.choice([*naming.items()])
            values[column] = (
                f"K({target!r}, {self._chance.randrange(1, 13 if target != 'User' else 4)})"
            )
        where = f"{table}.c.id == bindparam('b')"
        rows = [
            {"b": f"K({name!r}, {self._chance.randrange(1, 10)})", **values}
            for _ in range(self._chance.choice([1, 1, 2]))
        ]
        if self._script.often(0.4):
            setting = ", ".join(f"{key}=bindparam('v_{key}')" for key in values)
            rows = [{k if k == "b" else f"v_{k}": v for k, v in row.items()} for row in rows]
            code = f"update({table}).where({where}).values({setting})"
        else:
            code = f"update({table}).where({where})"
        mappings = [self._writing.mapping(row) for row in rows]
        return self._writing.program(
            code, mappings[0] if len(mappings) == 1 else f"[{', '.join(mappings)}]"
        )

    def legacy(self) -> Program:
        """Return a write by `session.query()`."""
        name = self._chance.choice([each for each in PLAIN if each not in ("Dog", "Cat")])
        source = self._writing.own(name)
        condition = self._selects.conditions.any([source])
        way = self._chance.choice([self._writing.way(name), self._writing.way(name), "False"])
        if self._script.often(0.6):
            values = self._writing.values(name, f"{name}.")
            end = f".update({self._writing.mapping(values)}, synchronize_session={way})"
        else:
            end = f".delete(synchronize_session={way})"
        run = f"result = session.query({name}).filter({condition}){end}"
        return Program([*self._script.lines], [run], [*self._script.kinds], writes=True)

    def synchronized(self) -> Program:
        """Return a write, followed by a read of the instances loaded before it."""
        name = self._chance.choice(["Recipe", "Line", "Plan", "Remark", "Cat", "Jar"])
        source = self._writing.own(name)
        condition = self._selects.conditions.comparison(
            self._chance.choice(source.columns), [source]
        )
        values = self._writing.mapping(self._writing.values(name, f"{name}."))
        code = f"update({name}).where({condition}).values({values})"
        if name in ("Plan", "Remark", "Jar") and self._script.often(0.4):
            code = f"delete({name}).where({condition})"
        way = self._writing.way(name)
        run = [
            f"found = session.scalars(select({name}).order_by({name}.id)).all()",
            f"session.execute({code}, execution_options={{'synchronize_session': {way}}})",
            f"result = [(each, each.{PLAIN[name][0]}) for each in found if each in session]",
        ]
        return Program([*self._script.lines], run, [*self._script.kinds], writes=True)


# Inserts and upserts


class Inserts(Writer):
    """Generates inserts and upserts."""

    def program(self) -> Program:
        """Return a write."""
        return self._script.program_of({
            self.insert: 4, self.insert_many: 3, self.insert_select: 1.5, self.upsert: 4,
            self.links: 2,
        })  # fmt: skip

    def insert(self) -> Program:
        """Return an INSERT of one row, by values or parameters, into a class or its table."""
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
        """Return an INSERT of several rows: multi-VALUES, executemany or bulk."""
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
        """Return three rows with the same columns, some with foreign keys."""
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
        """Return INSERT ... SELECT into a table without an owner; other tables are refused."""
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
        """Return an upsert that may conflict with a row of any owner."""
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
        """Return a row, and the columns of the unique constraint that it may violate."""
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
        """Return the SET clause of an upsert, which sometimes changes the owner."""
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
        """Return a write to an association table, which has no owner column of its own."""
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
