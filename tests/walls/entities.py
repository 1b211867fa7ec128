"""Reads of instances, with what is loaded beside them, and by `session.query()`."""

from __future__ import annotations

from sqlalchemy import inspect

from tests.walls import models
from tests.walls.script import Program, Source, columns_of, keys_of
from tests.walls.selects import Reader


class Entities(Reader):
    """Makes reads of instances."""

    def program(self) -> Program:
        """Return a read."""
        return self._script.program_of({self.entities: 8, self.legacy: 2})

    def entities(self) -> Program:
        """Return a read of instances, with what is loaded beside them."""
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
        """Return an option that loads what a relationship leads to, and perhaps further."""
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
