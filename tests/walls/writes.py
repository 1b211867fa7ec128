"""Updates and deletes of every kind, as programs."""

from __future__ import annotations

from tests.walls.script import Program, Source, columns_of
from tests.walls.writing import NAMING, NUMBERS, OWNERS, PLAIN, Writer


class Writes(Writer):
    """Makes updates and deletes."""

    def program(self) -> Program:
        """Return a write."""
        return self._script.program_of({
            self.update: 6, self.delete: 4, self.core_update: 3, self.core_delete: 2,
            self.by_keys: 2, self.parameters: 3, self.legacy: 2, self.synchronized: 3,
        })  # fmt: skip

    def update(self) -> Program:
        """Return an update of a class."""
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
        """Return a deletion of a class, of rows that nothing refers to for the most part."""
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
        """Return an update of a table, or of an alias of one."""
        name = self._chance.choice([each for each in PLAIN if each not in ("Dog", "Cat")])
        code, source = self._table(name)
        values = self._writing.values(name, f"{code}.c.")
        pairs = ", ".join(f"{key}={value}" for key, value in values.items())
        where, _ = self._writing.where(source)
        made = f"update({code}){where}.values({pairs})"
        return self._writing.program(made + self._writing.returning(name, source, whole=False))

    def core_delete(self) -> Program:
        """Return a deletion from a table, or from an alias of one."""
        name = self._chance.choice(["Remark", "Plan", "OldLine", "Jar"])
        code, source = self._table(name)
        where, _ = self._writing.where(source)
        return self._writing.program(
            f"delete({code}){where}{self._writing.returning(name, source, whole=False)}"
        )

    def by_keys(self) -> Program:
        """Return an update of several rows, each by its primary key."""
        name = self._chance.choice(
            ["Recipe", "Line", "Plan", "Remark", "Dog", "Dog", "Cat", "Shelf"]
        )
        key = self._chance.choice(PLAIN[name])
        rows = []
        mine = self._chance.randrange(1, 4)
        for number in self._chance.sample(range(1, 10), 2):
            # one owner's rows, for the most part: by fours or threes
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
        """Return an update whose values are parameters of the execution."""
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
        """Return a write, and a read of the instances that the session had before it."""
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
