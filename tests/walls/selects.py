"""Sources that are joined, and selects of columns of them, as subqueries take them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.walls.conditions import Conditions
from tests.walls.script import Column, Script, Source
from tests.walls.sources import Sources

_TYPES = {"int": "Integer", "str": "String"}


class Selects:
    """Makes what selects are made of: sources that are joined, and columns of subqueries.

    Args:
        chance: what all choices are made by.
    """

    def __init__(self, chance: random.Random) -> None:
        self.script = Script(chance)
        self.sources = Sources(self.script, self.select)
        self.conditions = Conditions(self.script, self.select, self.sources)

    # Columns of a subquery

    def select(
        self, kinds: Sequence[str] | None = None, outer: Sequence[Source] = ()
    ) -> tuple[str, list[Column]]:
        """Return a select, and the labels and kinds of its columns.

        Args:
            kinds: of the columns that are wanted; `None`: some.
            outer: what it may refer to though it stands outside.
        """
        script = self.script
        script.depth += 1
        froms, joined = self.froms()
        wanted = kinds or script.chance.choice([["int"], ["int", "str"], ["int", "int", "str"]])
        found = []
        codes = []
        for kind in wanted:
            column = self.conditions.column(froms, kind)
            code = column.code if column.kind == kind else f"cast({column.code}, {_TYPES[kind]})"
            label = script.label()
            found.append(Column(label, kind, column.entity if column.kind == kind else None))
            codes.append(f"{code}.label({label!r})")
        code = f"select({', '.join(codes)}){joined}"
        if script.often(0.5) or outer:
            code += f".where({self.conditions.any([*froms, *outer])})"
        if script.often(0.1):
            code += ".distinct()"
        if outer and script.often(0.3):
            names = ", ".join(s.code for s in outer if s.code.isidentifier())
            code += f".correlate({names})" if names else ""
        if script.often(0.1) and kinds is None:
            order = ", ".join(column.code for source in froms for column in source.columns)
            code += f".order_by({order}).limit({script.chance.randrange(1, 5)})"
        script.depth -= 1
        return code, found

    # FROM

    def froms(self) -> tuple[list[Source], str]:
        """Return sources, and what puts them into the FROM of a select."""
        script = self.script
        first = self.sources.any() if script.depth or script.often(0.6) else self.sources.mapped()
        froms, joined = self.joined(first)
        return froms, f".select_from({first.code}){joined}"

    def joined(self, first: Source) -> tuple[list[Source], str]:
        """Return a source and those that are joined to it, none for the most part, and how."""
        froms, code = [first], ""
        for _ in range(self.script.chance.choices([0, 1, 2], [5, 4, 1])[0]):
            source, joined = self.join(froms)
            froms.append(source)
            code += joined
        return froms, code

    def join(self, froms: Sequence[Source]) -> tuple[Source, str]:
        """Return another source, and how it is joined to these."""
        script = self.script
        related = [source for source in froms if source.relationships]
        if related and script.often(0.45):
            return self._related(script.chance.choice(related))
        if script.often(0.15):
            return self._nested(froms)
        source = self.sources.any(froms)
        option = script.chance.choice(["", "", ", isouter=True", ", isouter=True", ", full=True"])
        on = self.on(source, froms)
        if "full" not in option and script.often(0.3):
            on = f"and_({on}, {self.conditions.any([source, *froms])})"
        if source.code.startswith("l") and script.often(0.5):
            on, option = "true()", option.replace(", full=True", "")
        script.kinds.append("full join" if "full" in option else "join")
        return source, f".join({source.code}, {on}{option})"

    def on(self, source: Source, froms: Sequence[Source]) -> str:
        """Return how a source is met with those before it."""
        ours = self.conditions.column([source])
        theirs = self.conditions.column(froms, ours.kind)
        if theirs.kind != ours.kind:
            return f"cast({ours.code}, String) == cast({theirs.code}, String)"
        return f"{ours.code} == {theirs.code}"

    def _related(self, source: Source) -> tuple[Source, str]:
        """Join along a relationship."""
        script = self.script
        found = script.chance.choice(source.relationships)
        target = self.sources.alias(found.mapper.class_.__name__)
        outer = script.chance.choice(["", ", isouter=True", ", full=True"])
        attribute = f"{source.code}.{found.key}.of_type({target.code})"
        if script.often(0.2):
            attribute += (
                f".and_({self.conditions.comparison(self.conditions.column([target]), [target])})"
            )
        script.kinds.append("relationship join")
        if script.often(0.2):
            return target, f".join({target.code}, {source.code}.{found.key}{outer})"
        return target, f".join({attribute}{outer})"

    def _nested(self, froms: Sequence[Source]) -> tuple[Source, str]:
        """Join a join."""
        script = self.script
        one, other = self.sources.any(), self.sources.any()
        inner = script.chance.choice(["", ", isouter=True", ", full=True"])
        made = script.put(
            f"orm_join({one.code}, {other.code}, {self.on(other, [one])}{inner})", "j"
        )
        outer = script.chance.choice(["", ", isouter=True", ", full=True"])
        both = Source(made, [*one.columns, *other.columns], [*one.order, *other.order])
        script.kinds.append("nested join")
        return both, f".join({made}, {self.on(both, froms)}{outer})"

    def locked(self, froms: Sequence[Source]) -> str:
        """Return what locks their rows, or, for the most part, nothing."""
        script = self.script
        if not script.often(0.12):
            return ""
        script.kinds.append("for update")
        of = f"of={script.chance.choice(froms).code}" if script.often(0.4) else ""
        option = script.chance.choice(["", "read=True", "key_share=True", "nowait=True"])
        return f".with_for_update({', '.join(filter(None, (of, option)))})"


class Reader:
    """Makes programs that read.

    Args:
        chance: what all choices are made by.
    """

    def __init__(self, chance: random.Random) -> None:
        self._selects = Selects(chance)
        self._script = self._selects.script
