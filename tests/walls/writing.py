"""What is written to columns: values, expressions, foreign keys, now and then another owner."""

from __future__ import annotations

import random

from tests.walls.script import TEXTS, Program, Source, columns_of
from tests.walls.selects import Selects

# by class: what may be set beside its key, and to what
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
# by class: the foreign keys that name rows, by whose class
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
# what a row must have beside
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
    """Makes the parts of writes.

    Args:
        chance: what all choices are made by.
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
        """Return what a column is set to: a value, or an expression."""
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
        """Return what columns are set to: now and then a foreign key, a key, the owner."""
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
        """Return conditions, and whether another table stands beside by them."""
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
        """Return what is returned, or, half of the time, nothing."""
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
        """Return how instances are synchronized: of shared rows, `judge.run()` has a say in it."""
        way = self._chance.choice(["'auto'", "'evaluate'", "'fetch'"])
        return f"way({way})" if name in SHARED else way

    def synchronized(self, name: str) -> str:
        """Return the option that says how instances are synchronized, if any does."""
        way = self._chance.choice([self.way(name), self.way(name), "False", None])
        if name == "Dog":  # the ORM returns columns of the base, which are not there
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
        """Return a dictionary of values, as Python writes it."""
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in record.items())}}}"


class Writer:
    """Makes programs that write.

    Args:
        chance: what all choices are made by.
    """

    def __init__(self, chance: random.Random) -> None:
        self._writing = Writing(chance)
        self._selects = self._writing.selects
        self._script = self._selects.script
        self._chance = chance
