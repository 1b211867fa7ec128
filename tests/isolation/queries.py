"""Programs that read: columns and expressions, and instances with their relationships."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import inspect

from tests.isolation import models
from tests.isolation.programs import Program, Source, columns_of, keys_of
from tests.isolation.selects import Reader

# Columns and expressions


class Queries(Reader):
    """Generates reads of columns."""

    def program(self) -> Program:
        """Return a read."""
        return self._script.program_of(
            {self.rows: 8, self.aggregates: 3, self.compound: 3, self.refused: 0.6}
        )

    def rows(self) -> Program:
        """Return a read of columns and expressions."""
        script = self._script
        froms, joined = self._selects.froms()
        codes = [
            self._selects.conditions.column(froms).code
            for _ in range(script.chance.randrange(1, 4))
        ]
        codes += [self._expression(froms)] if script.often(0.4) else []
        whole = [source for source in froms if source.code.isidentifier()]
        if whole and script.often(0.2):
            codes = [script.chance.choice(whole).code]
        code = f"select({', '.join(codes)}){joined}"
        code += f".where({self._selects.conditions.any(froms)})" if script.often(0.6) else ""
        code, ordered = self._end(code, froms)
        code += self._selects.locked(froms)
        return self._script.program(code, "result = session.execute(statement)", ordered=ordered)

    def _end(self, code: str, froms: Sequence[Source]) -> tuple[str, bool]:
        """Add ORDER BY, LIMIT and OFFSET where the sources have a total order."""
        script = self._script
        order = [column for source in froms for column in source.order]
        if not order or any(not source.order for source in froms) or script.often(0.5):
            return (code + ".distinct()" if script.often(0.1) else code), False
        if script.often(0.1):
            code += f".distinct({order[0]})"
        else:
            script.chance.shuffle(order)
        code += f".order_by({', '.join(order)})"
        if script.often(0.3):
            code += f".limit({script.chance.randrange(1, 6)})"
            code += f".offset({script.chance.randrange(3)})" if script.often(0.3) else ""
        return code, True

    def _expression(self, froms: Sequence[Source]) -> str:
        script = self._script
        column, number = (
            self._selects.conditions.column(froms),
            self._selects.conditions.column(froms, "int"),
        )
        order = [c for source in froms for c in source.order] or [column.code]
        over = f"partition_by={number.code}, order_by=[{', '.join(order)}]"
        tables = [
            s.code for s in froms if s.columns and s.columns[0].code.startswith(f"{s.code}.c.")
        ]
        choices = [
            f"func.row_number().over({over})",
            f"func.lag({column.code}).over({over})",
            f"func.count({column.code}).over(partition_by={number.code})",
            f"case(({self._selects.conditions.any(froms)}, {column.code}), else_=None)",
            f"func.coalesce({column.code}, {column.code})",
            self._selects.conditions.scalar(froms, "int"),
            f"exists(select(1).where({self._selects.conditions.any(froms)}))",
            f"tuple_({number.code}, {column.code}) == tuple_({number.code}, {column.code})",
            f"Bundle('both', {column.code}, {number.code})",
            f"func.array(select({self._related()}).scalar_subquery())",
            *(f"func.to_jsonb({name}.table_valued())" for name in tables),
            *(f"func.row_to_json({name}.table_valued())" for name in tables),
        ]
        return script.chance.choice(choices)

    def _related(self) -> str:
        source = self._selects.sources.alias()
        return f"func.max({self._selects.conditions.column([source]).code})"

    def aggregates(self) -> Program:
        """Return a read with GROUP BY and HAVING."""
        script = self._script
        froms, joined = self._selects.froms()
        by, column = self._selects.conditions.column(froms), self._selects.conditions.column(froms)
        number = self._selects.conditions.column(froms, "int")
        function = script.chance.choice([
            "func.count()", f"func.count({column.code}.distinct())", f"func.max({column.code})",
            f"func.sum({number.code})",
            f"func.count({column.code}).filter({self._selects.conditions.any(froms)})",
            f"func.array_agg(postgresql.aggregate_order_by({column.code}, {column.code}))",
            f"func.percentile_disc(0.5).within_group({number.code})",
            "func.count(1)",
        ])  # fmt: skip
        code = f"select({by.code}, {function}){joined}"
        code += f".where({self._selects.conditions.any(froms)})" if script.often(0.4) else ""
        grouping = script.chance.choice([by.code, by.code, f"func.rollup({by.code})"])
        code += f".group_by({grouping})"
        if script.often(0.3):
            code += f".having(func.count({column.code}) >= {script.chance.randrange(3)})"
        return self._script.program(code, "result = session.execute(statement)")

    def refused(self) -> Program:
        """Return textual SQL, or SQL in a string that the server executes."""
        script = self._script
        name = script.chance.choice([
            "text('select id, name from recipes')",
            "select(Recipe).from_statement(text('select * from recipes'))",
            "select(text('name')).select_from(text('recipes'))",
            "select(text('(select max(name) from recipes)'))",
            "select(literal_column('name')).select_from(Recipe)",
            "select(func.query_to_xml('select * from recipes', True, True, ''))",
            "select(Recipe.id, Recipe.name.label(quoted_name('x, (select 1)', quote=False)))",
            "select(column(quoted_name('(select max(name) from recipes)', quote=False)))",
            "select(aliased(Recipe, name=quoted_name('r, recipes as r2', quote=False)).id)",
            "select(Recipe.id).prefix_with(text('all (select max(name) from recipes),'))",
            "select(Recipe.id).with_statement_hint('union select id from recipes')",
            "select(Recipe.id).suffix_with('union select id from recipes')",
            "select(collate(Recipe.name, quoted_name('\"C\", (select 1)', quote=False)))",
            "select(Recipe.id).where(Recipe.name.op(') or (')('x'))",
            "select(cast('recipes', postgresql.REGCLASS))",
            "select(extract('year from now()), (select 1', func.now()))",
            "select(Secret)",
            "select(literal('1', postgresql.INTERVAL(fields='second from recipes')))",
            "select(getattr(func, 'x(1), (select 2')(1))",
            "select(Function(quoted_name('pg_sleep(0), query_to_xml', quote=False), 1))",
            "update(Recipe.__table__.join(Line.__table__)).values(minutes=1)",
            "schema.CreateTable(Secret.__table__)",
            "select(Recipe.id).with_hint(Recipe, 'ONLY')",
            "select(func.set_config('app.owner', '2', True))",
            "update(aliased(Plan)).values(recipe_id=2)",
        ])  # fmt: skip
        return self._script.program(name, "result = session.execute(statement)")

    def compound(self) -> Program:
        """Return a set operation: of classes, of columns, or mapped back to a class."""
        script = self._script
        op = script.chance.choice(["union", "union_all", "intersect", "except_"])
        if script.often(0.5):
            name = script.chance.choice(["Recipe", "Plan", "Line", "Dog"])
            one, other = self._selects.sources.mapped(name), self._selects.sources.alias(name)
            some = [
                f"select({s.code}).where({self._selects.conditions.any([s])})"
                for s in (one, other)
            ]
            made = script.put(f"{op}({', '.join(some)})", "u")
            if script.often(0.5):
                code = f"select({name}).from_statement({made})"
            else:
                alias = script.put(f"aliased({name}, {made}.subquery())", "e")
                code = f"select({alias})"
            return self._script.program(code, "result = session.scalars(statement).unique()")
        kinds = script.chance.choice([["int"], ["int", "str"]])
        both = [self._selects.select(kinds=kinds) for _ in range(3)]
        columns = both[0][1]
        code = f"{op}({both[0][0]}, {both[1][0]})"
        if script.often(0.3):
            code = f"union_all({code}, {both[2][0]})"
        ordered = script.often(0.4)
        if ordered:
            places = ", ".join(f"text('{n}')" for n, _ in enumerate(columns, start=1))
            code += f".order_by({places})"
        return self._script.program(code, "result = session.execute(statement)", ordered=ordered)


# Instances


class Entities(Reader):
    """Generates reads of instances."""

    def program(self) -> Program:
        """Return a read."""
        return self._script.program_of({self.entities: 8, self.legacy: 2})

    def entities(self) -> Program:
        """Return a read of instances, with loader options."""
        script = self._script
        name = self._selects.sources.class_name()
        kind = script.chance.random()
        if kind < 0.6:
            first = self._selects.sources.mapped(name)
        elif kind < 0.85:
            first = self._selects.sources.alias(name)
        else:
            first = script.any(
                self._selects.sources.polymorphic, self._selects.sources.entity_of_subquery
            )
        froms, joined = self._selects.joined(first)
        code = f"select({first.code}){joined}"
        if script.often(0.6):
            code += f".where({self._selects.conditions.any(froms)})"
        code += "".join(self._options(first))
        ordered = len(froms) == 1 and script.often(0.4)
        if ordered:
            code += f".order_by({', '.join(first.order)})"
            code += f".limit({script.chance.randrange(1, 6)})" if script.often(0.4) else ""
        code += self._selects.locked(froms) if "joinedload" not in code else ""
        run = "result = session.scalars(statement).unique()"
        return self._script.program(code, run, ordered=ordered)

    def _options(self, first: Source) -> list[str]:
        script, found = self._script, []
        if first.relationships and script.often(0.6):
            found.append(f".options({self._loader(first)})")
        if script.often(0.12):
            inner = self._selects.sources.class_name()
            condition = self._comparison(inner)
            found.append(
                f".options(with_loader_criteria({inner}, {condition}, include_aliases=True))"
            )
            script.kinds.append("with_loader_criteria")
        if first.class_ == "Recipe" and script.often(0.2):
            made = self._selects.conditions.scalar([first], "int")
            found.append(f".options(with_expression({first.code}.extra, {made}))")
            script.kinds.append("with_expression")
        if first.class_ == "Animal" and first.code == "Animal" and script.often(0.4):
            found.append(".options(selectin_polymorphic(Animal, [Dog, Cat]))")
        return found

    def _comparison(self, name: str) -> str:
        """Return a condition on one column of a class."""
        source = Source(name, columns_of(name, name), (), name, has_entity=True)
        column = self._selects.conditions.column([source])
        return self._selects.conditions.comparison(column, [source])

    def _loader(self, first: Source) -> str:
        """Return a loader option for a relationship, possibly nested."""
        script = self._script
        prop = script.chance.choice(first.relationships)
        attribute = f"{first.code}.{prop.key}"
        loader = script.chance.choice([
            "joinedload", "joinedload", "selectinload", "subqueryload", "immediateload",
        ])  # fmt: skip
        inner = prop.mapper.class_.__name__
        if script.often(0.2):
            attribute += f".and_({self._comparison(inner)})"
        option = f"{loader}({attribute}"
        option += ", innerjoin=True)" if loader == "joinedload" and script.often(0.2) else ")"
        further = list(inspect(getattr(models, inner)).relationships)
        if further and script.often(0.4):
            other = script.chance.choice(["joinedload", "selectinload", "subqueryload"])
            option += f".{other}({inner}.{script.chance.choice(further).key})"
        script.kinds.append(loader)
        return option

    def legacy(self) -> Program:
        """Return a read by `session.query()`."""
        script = self._script
        name = self._selects.sources.class_name()
        first = self._selects.sources.mapped(name)
        condition = self._selects.conditions.any([first])
        code = f"session.query({name}).filter({condition})"
        relationships = first.relationships
        if relationships and script.often(0.5):
            prop = script.chance.choice(relationships)
            how = script.chance.choice(["join", "outerjoin"])
            if prop.mapper.class_.__name__ not in ("Recipe", name):
                code += f".{how}({name}.{prop.key})"
            if script.often(0.5):
                loader = script.chance.choice(["joinedload", "subqueryload", "selectinload"])
                code += f".options({loader}({name}.{prop.key}))"
        keys = keys_of(name, name)
        order = f".order_by({', '.join(keys)})"
        end = script.chance.choice([
            ".all()", ".all()", ".count()", f".with_entities({keys[0]}).all()", ".exists()",
            f".union(session.query({name})).all()", ".distinct().count()",
            f"{order}.first()",
            f"{order}[1:3]",
        ])  # fmt: skip
        run = (
            f"result = session.query({code}{end}).all()"
            if "exists" in end
            else f"result = {code}{end}"
        )
        return Program(list(script.lines), [run], list(script.kinds))
