"""What may stand in a FROM: each is Python to write down, with the columns that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.walls.script import (
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


class Sources:
    """Makes elements of a FROM.

    Args:
        script: what they are written in.
        select: writes a SELECT of columns of the kinds that are wanted; returns its code, and the
            labels and kinds of its columns.
    """

    def __init__(
        self, script: Script, select: Callable[..., tuple[str, Sequence[Column]]]
    ) -> None:
        self._script = script
        self._select = select

    def any(self, outer: Sequence[Source] = ()) -> Source:
        """Return an element of any kind.

        Args:
            outer: the sources that a lateral one may refer to.
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
        """Return an alias by a name that may be another's too."""
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
        """Return a sample of all rows."""
        name, code = self._core()
        alias = self._script.put(f"{code}.tablesample(func.bernoulli(100))", "t")
        return self._of_table(name, alias)

    def polymorphic(self) -> Source:
        """Return animals with what their subclasses have."""
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
        """Return a subquery that refers to what stands before it."""
        code, columns = self._select(outer=outer)
        return self._of(f"{code}.lateral()", columns, "l")

    def union(self) -> Source:
        """Return a union of two selects, or another of both."""
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
        """Return a CTE by the name of a table, of rows that are not in it."""
        script = self._script
        # of recipes and lines is asked whose others are
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
        """Return a recursive CTE up or down the recipes, as classes or as tables."""
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
        """Return what a DELETE gives back, or, which is refused, an UPDATE or INSERT."""
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
        """Return rows that are written down."""
        chance = self._script.chance
        rows = [(chance.randrange(13), chance.choice(TEXTS)) for _ in range(3)]
        lateral = ".lateral()" if self._script.often(0.1) else ""
        code = (
            "values(column('n', Integer), column('t', String), name='v')"
            f".data({rows}).alias({self._script.label()!r}){lateral}"
        )
        return self._of(code, [Column("n", "int"), Column("t", "str")], "v")

    def function(self) -> Source:
        """Return what a function makes."""
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
        """Return the keys and values of rows that were made JSON of."""
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
        """Return a class that is read from a subquery, by its columns or their names."""
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
        """Return a table of which no more is known than its name."""
        name = self._script.chance.choice(["recipes", "plans", "tags"])
        code = self._script.put(f"table({name!r}, column('id', Integer))", "b")
        return Source(code, [Column(f"{code}.c.id", "int")], [f"{code}.c.id"])

    def textual(self) -> Source:
        """Return a text that selects."""
        return self._of(
            "text('select id, name from recipes').columns(id=Integer, name=String).subquery()",
            [Column("id", "int"), Column("name", "str")],
            "r",
        )

    def raw(self) -> Source:
        """Return a text that names a table."""
        named = self._script.chance.choice(["recipes", "plans as x", "(table recipes) as x"])
        return Source(f"text({named!r})", [Column("column('id', Integer)", "int")])

    def unknown(self) -> Source:
        """Return a table that the ownership does not know."""
        return Source("Secret", columns_of("Secret", "Secret"), ["Secret.id"], "Secret", True)
