"""SELECTs as Python source: elements of a FROM, conditions on their columns, and joins.

An element of a FROM is a `Source`: its code and its columns. `Sources` and `Conditions` take
subqueries from `Selects`, which combines them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.isolation.programs import (
    CLASSES,
    LINKS,
    NAMES,
    TEXTS,
    Column,
    Script,
    Source,
    columns_of,
    keys_of,
)

_TYPES = {"int": "Integer", "str": "String"}

# Elements of a FROM


class Sources:
    """Generates elements of a FROM.

    Args:
        script: receives the lines that they need.
        select: generates a SELECT of columns of the given kinds; returns its code and columns.
    """

    def __init__(
        self, script: Script, select: Callable[..., tuple[str, Sequence[Column]]]
    ) -> None:
        self._script = script
        self._select = select

    def any(self, outer: Sequence[Source] = ()) -> Source:
        """Return an element of any kind.

        Args:
            outer: the sources that a lateral subquery may refer to.
        """
        script = self._script
        plain = [self.alias, self.table, self.table_alias, self.named]
        if script.depth >= 2:
            return script.any(self.alias, self.table_alias)
        rare: list[Callable[[], Source]] = [
            self.subquery, self.cte, self.cte, self.recursive, self.values, self.function,
            self.entity_of_subquery, self.union, self.polymorphic, self.sampled, self.dml_cte,
            self.named_cte, self.nested_alias, self.lower, self.elements,
        ]  # fmt: skip
        if outer:
            rare += [lambda: self.lateral(outer), lambda: self.lateral(outer)]
        if script.often(0.04):
            rare = [self.textual, self.unknown, self.raw]
        return script.any(*(plain if script.often(0.55) else rare))

    def class_name(self) -> str:
        """Return the name of a class."""
        return self._script.chance.choice(CLASSES)

    def mapped(self, name: str | None = None) -> Source:
        """Return a class itself."""
        name = name or self.class_name()
        return Source(name, columns_of(name, name), keys_of(name, name), name, has_entity=True)

    def alias(self, name: str | None = None) -> Source:
        """Return an alias of a class."""
        name, script = name or self.class_name(), self._script
        flat = ", flat=True" if script.often(0.1) else ""
        code = script.put(f"aliased({name}{flat})", "a")
        return Source(code, columns_of(name, code), keys_of(name, code), name, has_entity=True)

    def named(self) -> Source:
        """Return an alias whose name may clash with another."""
        name, script = self.class_name(), self._script
        called = script.chance.choice(NAMES)
        code = script.put(f"aliased({name}, name={called!r})", "a")
        return Source(code, columns_of(name, code), keys_of(name, code), name, has_entity=True)

    def _core(self) -> tuple[str, str]:
        name = self._script.chance.choice((*CLASSES, *LINKS))
        return name, name if name in LINKS else f"{name}.__table__"

    def table(self) -> Source:
        """Return a table of Core."""
        name, code = self._core()
        return self._of_table(name, code)

    def table_alias(self) -> Source:
        """Return an alias of a table."""
        name, code = self._core()
        called = repr(self._script.chance.choice(NAMES)) if self._script.often(0.2) else ""
        alias = self._script.put(f"{code}.alias({called})", "t")
        return self._of_table(name, alias)

    @staticmethod
    def _of_table(name: str, code: str) -> Source:
        columns = columns_of(name, f"{code}.c", core=True)
        return Source(code, columns, [column.code for column in columns])

    def nested_alias(self) -> Source:
        """Return an alias of an alias."""
        name, code = self._core()
        alias = self._script.put(f"{code}.alias().alias()", "t")
        return self._of_table(name, alias)

    def sampled(self) -> Source:
        """Return a TABLESAMPLE of all rows."""
        name, code = self._core()
        alias = self._script.put(f"{code}.tablesample(func.bernoulli(100))", "t")
        return self._of_table(name, alias)

    def polymorphic(self) -> Source:
        """Return animals with the columns of their subclasses."""
        flat = self._script.chance.choice(["", ", flat=True", ", aliased=True"])
        code = self._script.put(f"with_polymorphic(Animal, '*'{flat})", "p")
        columns = [*columns_of("Animal", code), Column(f"{code}.Dog.tricks", "int")]
        return Source(code, columns, [f"{code}.id"], "Animal", has_entity=True)

    def _of(self, code: str, columns: Sequence[Column], stem: str) -> Source:
        name = self._script.put(code, stem)
        found = [Column(f"{name}.c.{c.code}", c.kind, c.entity) for c in columns]
        return Source(name, found, [c.code for c in found])

    def subquery(self) -> Source:
        """Return a subquery."""
        code, columns = self._select()
        called = repr(self._script.chance.choice(NAMES)) if self._script.often(0.2) else ""
        return self._of(f"{code}.subquery({called})", columns, "s")

    def lateral(self, outer: Sequence[Source]) -> Source:
        """Return a LATERAL subquery that refers to earlier sources."""
        code, columns = self._select(outer=outer)
        return self._of(f"{code}.lateral()", columns, "l")

    def union(self) -> Source:
        """Return a UNION, INTERSECT or EXCEPT of two SELECTs."""
        kinds = self._script.chance.choice([["int"], ["str"], ["int", "str"]])
        one, columns = self._select(kinds=kinds)
        other, _ = self._select(kinds=kinds)
        op = self._script.chance.choice(
            ["union", "union_all", "intersect", "intersect_all", "except_", "except_all"]
        )
        plain = [Column(column.code, column.kind) for column in columns]
        return self._of(f"{op}({one}, {other}).subquery()", plain, "u")

    def cte(self) -> Source:
        """Return a CTE."""
        code, columns = self._select()
        nesting = "nesting=True" if self._script.often(0.2) else ""
        return self._of(f"{code}.cte({nesting})", columns, "w")

    def named_cte(self) -> Source:
        """Return a CTE with the name of a table, but with other rows."""
        script = self._script
        # for recipes and lines, the session also looks up the owner of related rows
        name = script.chance.choice(["recipes", "recipes", "recipes", "lines", "plans", "animals"])
        owner = script.chance.choice([1, 2, 3])
        rows = script.put(
            "func.generate_series(1, 13).table_valued('n', name='g').render_derived()", "g"
        )
        made = (
            f"select({rows}.c.n.label('id'), literal({owner}).label('user_id'), "
            f"{rows}.c.n.label('recipe_id'), {rows}.c.n.label('line_id'), "
            f"literal('made').label('name'), literal('made').label('text')).cte({name!r})"
        )
        columns = [Column("id", "int"), Column("user_id", "int"), Column("name", "str")]
        return self._of(made, columns, "w")

    def recursive(self) -> Source:
        """Return a recursive CTE over parents or children of recipes, by class or table."""
        script = self._script
        code = script.chance.choice(["Recipe", "Recipe.__table__.c"])
        first = script.put(
            f"select({code}.id.label('id'), {code}.parent_id.label('up'), "
            f"{code}.name.label('name')).where({code}.id {script.chance.choice(['<', '>', '=='])} "
            f"{script.chance.randrange(1, 13)}).cte(recursive=True)",
            "w",
        )
        if code == "Recipe":
            alias = script.put("aliased(Recipe)", "a")
        else:
            alias = script.put("Recipe.__table__.alias()", "t") + ".c"
        union = script.chance.choice(["union", "union", "union_all"])
        met = script.chance.choice([
            f"{alias}.id == {first}.c.up", f"{alias}.parent_id == {first}.c.id",
        ])  # fmt: skip
        bound = "" if union == "union" else f", {alias}.id < {first}.c.id"
        name = script.put(
            f"{first}.{union}(select({alias}.id, {alias}.parent_id, {alias}.name)"
            f".where({met}{bound}))",
            "w",
        )
        columns = [
            Column(f"{name}.c.id", "int", "Recipe"),
            Column(f"{name}.c.up", "int", "Recipe"),
            Column(f"{name}.c.name", "str"),
        ]
        return Source(name, columns, [c.code for c in columns])

    def dml_cte(self) -> Source:
        """Return a CTE of DELETE ... RETURNING, or of an UPDATE or INSERT, which is refused."""
        script = self._script
        key = script.chance.randrange(1, 10)
        made = script.chance.choices(
            [
                f"delete(Plan).where(Plan.id >= {key}).returning(Plan.id, Plan.code)",
                f"delete(Remark).where(Remark.id < {key}).returning(Remark.id, Remark.text)",
                "delete(Plan).where(Plan.recipe_id == Recipe.id).returning(Plan.id, Recipe.name)",
                "update(Plan).values(day=5).returning(Plan.id, Plan.code)",
                f"insert(Tag).values(id={key + 50}, name='new').returning(Tag.id, Tag.name)",
            ],
            [3, 3, 3, 1, 1],
        )[0]
        second = "text" if "Remark" in made else "name" if "name" in made else "code"
        columns = [Column("id", "int"), Column(second, "str")]
        return self._of(f"{made}.cte()", columns, "w")

    def values(self) -> Source:
        """Return a VALUES list."""
        chance = self._script.chance
        rows = [(chance.randrange(13), chance.choice(TEXTS)) for _ in range(3)]
        lateral = ".lateral()" if self._script.often(0.1) else ""
        code = (
            "values(column('n', Integer), column('t', String), name='v')"
            f".data({rows}).alias({self._script.label()!r}){lateral}"
        )
        return self._of(code, [Column("n", "int"), Column("t", "str")], "v")

    def function(self) -> Source:
        """Return a set-returning function."""
        script = self._script
        code = script.chance.choice([
            "func.generate_series(1, 12).table_valued('n').render_derived()",
            "func.generate_series(2, 9).table_valued(column('n', Integer)).render_derived()",
            "func.unnest(postgresql.array([1, 2])).table_valued('n').render_derived()",
            "func.unnest(array([3, 5])).table_valued('n', with_ordinality='o').render_derived()",
        ])  # fmt: skip
        name = script.put(code)
        return Source(name, [Column(f"cast({name}.c.n, Integer)", "int")], [f"{name}.c.n"])

    def elements(self) -> Source:
        """Return the keys and values of rows converted to JSON."""
        script = self._script
        code, columns = self._select(kinds=["int", "str"])
        inner = script.put(f"{code}.subquery()", "s")
        whole = script.put(
            f"select(func.jsonb_object_agg(cast({inner}.c.{columns[0].code}, String) + ':' + "
            f"func.coalesce({inner}.c.{columns[1].code}, ''), {inner}.c.{columns[1].code}))"
            f".where({inner}.c.{columns[0].code}.is_not(None)).scalar_subquery()"
        )
        name = script.put(
            f"func.jsonb_each_text({whole})"
            ".table_valued(column('key', String), column('value', String))"
        )
        found = [Column(f"{name}.c.key", "str"), Column(f"{name}.c.value", "str")]
        return Source(name, found, [column.code for column in found])

    def entity_of_subquery(self) -> Source:
        """Return a class that is mapped to a subquery, by its columns or their names."""
        script, name = self._script, self._script.chance.choice(["Recipe", "Plan", "Line"])
        inner = script.put(f"select({name}).where({name}.id < {script.chance.randrange(13)})")
        made = script.chance.choice([f"{inner}.subquery()", f"{inner}.cte()"])
        if script.often(0.3):
            table = f"{name}.__table__"
            made = f"select(*(c.label(c.key) for c in {table}.c)).subquery()"
            adapt = ", adapt_on_names=True"
        else:
            adapt = ""
        code = script.put(f"aliased({name}, {made}{adapt})", "e")
        columns = [c for c in columns_of(name, code) if not c.code.endswith("line_count")]
        return Source(code, columns, [f"{code}.id"], name, has_entity=True)

    def lower(self) -> Source:
        """Return a lightweight `table()` construct."""
        name = self._script.chance.choice(["recipes", "plans", "tags"])
        code = self._script.put(f"table({name!r}, column('id', Integer))", "b")
        return Source(code, [Column(f"{code}.c.id", "int")], [f"{code}.c.id"])

    def textual(self) -> Source:
        """Return a textual SELECT."""
        return self._of(
            "text('select id, name from recipes').columns(id=Integer, name=String).subquery()",
            [Column("id", "int"), Column("name", "str")],
            "r",
        )

    def raw(self) -> Source:
        """Return a textual table name."""
        named = self._script.chance.choice(["recipes", "plans as x", "(table recipes) as x"])
        return Source(f"text({named!r})", [Column("column('id', Integer)", "int")])

    def unknown(self) -> Source:
        """Return a table that the ownership does not list."""
        return Source("Secret", columns_of("Secret", "Secret"), ["Secret.id"], "Secret", True)


# Conditions


class Conditions:
    """Generates conditions.

    Args:
        script: receives the lines that they need.
        select: as for `Sources`.
        sources: generate the FROM of subqueries.
    """

    def __init__(self, script: Script, select: Callable[..., Any], sources: Sources) -> None:
        self._script = script
        self._select = select
        self._sources = sources

    def any(self, sources: Sequence[Source]) -> str:
        """Return a condition on these sources: one, a conjunction, a disjunction or a negation."""
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
        """Return a random column of these sources, of the given kind if one exists."""
        every = [column for source in sources for column in source.columns]
        fit = [column for column in every if kind in (None, column.kind)]
        return self._script.chance.choice(fit or [Column("literal(1)", kind or "int")])

    def value(self, column: Column) -> str:
        """Return a literal for a column."""
        chance = self._script.chance
        if column.kind == "str":
            return repr(chance.choice(TEXTS))
        if column.entity is not None:
            return f"K({column.entity!r}, {chance.randrange(1, 13)})"
        return str(chance.randrange(6))

    def comparison(self, column: Column, sources: Sequence[Source]) -> str:
        """Return a comparison of a column with literals or another column."""
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
        """Return a scalar subquery: an aggregate, often correlated."""
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
        return code if column.kind == kind else f"cast({code}, {_TYPES[kind]})"

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
        """Return an explicit `correlate()`, or mostly nothing, so that SQLAlchemy decides."""
        script = self._script
        if script.often(0.8):
            return ""
        names = ", ".join(s.code for s in sources if s.code.isidentifier())
        return f".correlate({names})" if names else ""

    def _met(self, inner: Source, sources: Sequence[Source]) -> str:
        """Return the condition that correlates a subquery with the outer sources."""
        ours = self.column([inner])
        theirs = self.column(sources, ours.kind)
        if theirs.kind != ours.kind:
            return self.comparison(ours, [inner])
        return f"{ours.code} == {theirs.code}"

    def related(self, source: Source) -> str:
        """Return a condition on related rows: `any()`, `has()`, `contains()` or a comparison."""
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
        """Return a condition with textual SQL, which may be refused."""
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


# Joins and subqueries


class Selects:
    """Generates joins, and SELECTs for subqueries.

    Args:
        chance: makes all random choices.
    """

    def __init__(self, chance: random.Random) -> None:
        self.script = Script(chance)
        self.sources = Sources(self.script, self.select)
        self.conditions = Conditions(self.script, self.select, self.sources)

    # Columns of a subquery

    def select(
        self, kinds: Sequence[str] | None = None, outer: Sequence[Source] = ()
    ) -> tuple[str, list[Column]]:
        """Return a SELECT, and its columns by label and kind.

        Args:
            kinds: of its columns; None for any.
            outer: the outer sources that it may refer to.
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
        """Return sources, and the code that adds them to a SELECT's FROM."""
        script = self.script
        first = self.sources.any() if script.depth or script.often(0.6) else self.sources.mapped()
        froms, joined = self.joined(first)
        return froms, f".select_from({first.code}){joined}"

    def joined(self, first: Source) -> tuple[list[Source], str]:
        """Return a source with those joined to it, mostly none, and the code of the joins."""
        froms, code = [first], ""
        for _ in range(self.script.chance.choices([0, 1, 2], [5, 4, 1])[0]):
            source, joined = self.join(froms)
            froms.append(source)
            code += joined
        return froms, code

    def join(self, froms: Sequence[Source]) -> tuple[Source, str]:
        """Return another source, and the code that joins it to these."""
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
        """Return an ON clause between a source and earlier ones."""
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
        """Return a FOR UPDATE clause, or mostly nothing."""
        script = self.script
        if not script.often(0.12):
            return ""
        script.kinds.append("for update")
        of = f"of={script.chance.choice(froms).code}" if script.often(0.4) else ""
        option = script.chance.choice(["", "read=True", "key_share=True", "nowait=True"])
        return f".with_for_update({', '.join(filter(None, (of, option)))})"


class Reader:
    """Generates programs that read.

    Args:
        chance: makes all random choices.
    """

    def __init__(self, chance: random.Random) -> None:
        self._selects = Selects(chance)
        self._script = self._selects.script
