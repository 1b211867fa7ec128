"""Conditions on the columns of sources, with subqueries in them of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.walls.script import TEXTS, Column, Script, Source, columns_of
from tests.walls.sources import Sources


class Conditions:
    """Makes conditions.

    Args:
        script: what they are written in.
        select: as `Sources` takes it.
        sources: make what subqueries are of.
    """

    def __init__(self, script: Script, select: Callable[..., Any], sources: Sources) -> None:
        self._script = script
        self._select = select
        self._sources = sources

    def any(self, sources: Sequence[Source]) -> str:
        """Return a condition on rows of these, which may be put together of several."""
        script = self._script
        if script.often(0.15):
            op = script.chance.choice(["and_", "or_"])
            return f"{op}({self._one(sources)}, {self._one(sources)})"
        if script.often(0.07):
            return f"not_({self._one(sources)})"
        return self._one(sources)

    def _one(self, sources: Sequence[Source]) -> str:
        script = self._script
        column = self.column(sources)
        compare = lambda: self.comparison(column, sources)  # noqa: E731
        makers: list[Callable[[], str]] = [compare] * 8
        if script.depth < 3:
            makers += [
                lambda: self._exists(sources),
                lambda: self._exists(sources),
                lambda: self._in_subquery(column),
                lambda: f"{column.code} {self._op()} {self.scalar(sources, column.kind)}",
                lambda: self._quantified(column),
            ]
        related = [source for source in sources if source.relationships]
        if related and script.depth < 3:
            source = script.chance.choice(related)
            makers += [lambda: self.related(source)] * 4
        if script.often(0.05):
            makers = [lambda: self._text(column)]
        maker = script.chance.choice(makers)
        return maker()

    def _op(self) -> str:
        return self._script.chance.choice(["==", "!=", "<", ">", "<=", ">="])

    def column(self, sources: Sequence[Source], kind: str | None = None) -> Column:
        """Return one of the columns of sources, of a kind if there is such."""
        every = [column for source in sources for column in source.columns]
        fit = [column for column in every if kind in (None, column.kind)]
        return self._script.chance.choice(fit or [Column("literal(1)", kind or "int")])

    def value(self, column: Column) -> str:
        """Return a value that a column may have."""
        chance = self._script.chance
        if column.kind == "str":
            return repr(chance.choice(TEXTS))
        if column.entity is not None:
            return f"K({column.entity!r}, {chance.randrange(1, 13)})"
        return str(chance.randrange(6))

    def comparison(self, column: Column, sources: Sequence[Source]) -> str:
        """Return what a column is compared with: values, or another column."""
        script, chance = self._script, self._script.chance
        values = ", ".join(self.value(column) for _ in range(3))
        if script.often(0.12):
            return f"{column.code}.is_({chance.choice(['None', 'not None'])})".replace(
                "is_(not None)", "is_not(None)"
            )
        if script.often(0.2):
            return f"{column.code}.{chance.choice(['in_', 'in_', 'not_in'])}([{values}])"
        if script.often(0.2):
            return f"{column.code} {self._op()} {self.column(sources, column.kind).code}"
        if column.kind == "str" and script.often(0.4):
            return f"{column.code}.like({chance.choice(['%a%', 'ann%', '%1', 'b%'])!r})"
        if column.entity is not None:
            return f"{column.code} {chance.choice(['==', '!='])} {self.value(column)}"
        return f"{column.code} {self._op()} {self.value(column)}"

    def _in_subquery(self, column: Column) -> str:
        code, _ = self._select(kinds=[column.kind])
        return f"{column.code}.{self._script.chance.choice(['in_', 'not_in'])}({code})"

    def _quantified(self, column: Column) -> str:
        code, _ = self._select(kinds=[column.kind])
        which = self._script.chance.choice(["any_", "all_"])
        return f"{column.code} {self._op()} {which}({code}.scalar_subquery())"

    def scalar(self, sources: Sequence[Source], kind: str) -> str:
        """Return a subquery of one value: an aggregate, which may be of related rows."""
        script = self._script
        script.depth += 1
        inner = self._sources.any()
        column = self.column([inner], kind)
        made = f"select(func.{script.chance.choice(['max', 'min'])}({column.code}))"
        made += f".select_from({inner.code})"
        if script.often(0.6):
            made += f".where({self._met(inner, sources)})"
        made += self._correlation(sources)
        script.depth -= 1
        code = f"{made}.scalar_subquery()"
        return code if column.kind == kind else f"cast({code}, {_type(kind)})"

    def _exists(self, sources: Sequence[Source]) -> str:
        script = self._script
        script.depth += 1
        inner = self._sources.any()
        where = self._met(inner, sources)
        if script.often(0.4):
            where += f", {self.any([inner])}"
        script.depth -= 1
        correlation = self._correlation(sources)
        if script.often(0.3):
            return f"select({inner.columns[0].code}).where({where}){correlation}.exists()"
        return f"exists(select(1).select_from({inner.code}).where({where}){correlation})"

    def _correlation(self, sources: Sequence[Source]) -> str:
        """Leave it to SQLAlchemy what a subquery is correlated with, or say it."""
        script = self._script
        if script.often(0.8):
            return ""
        names = ", ".join(s.code for s in sources if s.code.isidentifier())
        return f".correlate({names})" if names else ""

    def _met(self, inner: Source, sources: Sequence[Source]) -> str:
        """Return how rows of a subquery are met with those outside."""
        ours = self.column([inner])
        theirs = self.column(sources, ours.kind)
        if theirs.kind != ours.kind:
            return self.comparison(ours, [inner])
        return f"{ours.code} == {theirs.code}"

    def related(self, source: Source) -> str:
        """Return a condition on what a relationship leads to."""
        script = self._script
        found = script.chance.choice(source.relationships)
        target = found.mapper.class_.__name__
        attribute = f"{source.code}.{found.key}"
        script.depth += 1
        inner = Source(target, columns_of(target, target), (), target, has_entity=True)
        condition = self.any([inner]) if script.often(0.6) else ""
        if script.often(0.2):
            alias = self._sources.alias(target)
            attribute += f".of_type({alias.code})"
            condition = self.any([alias]) if script.often(0.6) else ""
        script.depth -= 1
        if not found.uselist and script.often(0.3):
            return f"{source.code}.{found.key} {script.chance.choice(['==', '!='])} None"
        negated = "~" if script.often(0.2) else ""
        return f"{negated}{attribute}.{'any' if found.uselist else 'has'}({condition})"

    def _text(self, column: Column) -> str:
        """Return a condition with text in it, harmless or not."""
        return self._script.chance.choice([
            f"{column.code}.op('IS DISTINCT FROM')(None)",
            f"{column.code}.op('=')({self.value(column)})",
            *["text('1 = 1 or 2 > 3')"] * 3,
            "text('true or exists (select from recipes)')",
            "literal_column('1') == 1",
            "literal_column('(select max(id) from recipes)') > 1",
            "column(quoted_name('(select count(*) from recipes)', quote=False)) > 4",
            f"func.length(cast({column.code}, String)) > 1",
        ])  # fmt: skip


def _type(kind: str) -> str:
    return "Integer" if kind == "int" else "String"
