"""Programs of the unit of work: get, refresh, merge, lazy load and flush."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.isolation.programs import Program, keys_of

_READ = ("Recipe", "Recipe", "Line", "Remark", "Plan", "Plan", "Animal", "Dog", "Cat", "OldPlan")
_LAZY = {
    "Recipe": ("user", "parent", "children", "lines", "plans", "tags", "links"),
    "Line": ("recipe", "tag", "remarks"),
    "Remark": ("line",),
    "Plan": ("recipe",),
    "OldPlan": ("plan", "lines"),
    "Dog": ("recipe",),
    "Jar": ("shelf",),
}


class Instances:
    """Generates programs of the unit of work.

    Args:
        chance: makes all random choices.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def program(self) -> Program:
        """Return a program of one kind."""
        chance = self._chance
        kinds: dict[str, Callable[[], list[str]]] = {
            "get": self._get, "lazy": self._lazy, "refresh": self._refresh, "merge": self._merge,
            "changed": self._changed, "deleted": self._deleted, "added": self._added,
            "related": self._related, "attached": self._attached,
        }  # fmt: skip
        kind = chance.choices([*kinds], [4, 6, 2, 2, 4, 2, 4, 3, 1])[0]
        lines = kinds[kind]()
        writes = kind not in ("get", "lazy", "refresh")
        return Program([], lines, [kind], ordered=False, writes=writes)

    def _number(self) -> int:
        return self._chance.randrange(1, 13)

    def _key(self, name: str) -> str:
        return f"K({name!r}, {self._number()})"

    def _get(self) -> list[str]:
        name, chance = self._chance.choice(_READ), self._chance
        first = f"session.get({name}, {self._key(name)}"
        if chance.random() < 0.2:
            options = [f"joinedload({name}.{each})" for each in _LAZY.get(name, ())[:2]]
            first += f", options=[{', '.join(options)}]"
        if chance.random() < 0.15:
            first += f", with_for_update={chance.choice(['True', {'read': True}])}"
        if chance.random() < 0.15:
            first += ", populate_existing=True"
        return [f"result = [{first}), session.get({name}, {self._key(name)})]"]

    def _lazy(self) -> list[str]:
        name = self._chance.choice([*_LAZY])
        order = ", ".join(keys_of(name, name))
        lines = [f"found = session.scalars(select({name}).order_by({order})).all()"]
        attribute = self._chance.choice(_LAZY[name])
        if self._chance.random() < 0.2:
            lines.append("session.expire_all()")
        lines.append(f"result = [[each.{attribute}] for each in found]")
        if self._chance.random() < 0.3:
            lines.append("result = [found, result, session.scalars(select(Recipe)).all()]")
        return lines

    def _refresh(self) -> list[str]:
        name = self._chance.choice(_READ)
        names = self._chance.choice(["", ", attribute_names=['id']", ", with_for_update=True"])
        return [
            f"found = session.get({name}, {self._key(name)})",
            f"found is not None and session.refresh(found{names})",
            "result = [found]",
        ]

    def _set(self, name: str) -> str:
        """Return an attribute and its new value."""
        chance = self._chance
        return chance.choice({
            "Recipe": ["minutes = 7", "name = 'set'", f"parent_id = {self._key('Recipe')}",
                       f"user_id = {self._owner()}",
                       "parent_id = select(func.max(Plan.recipe_id)).scalar_subquery()",
                       "minutes = select(func.max(aliased(Recipe).id)).scalar_subquery()"],
            "Line": ["text = 'set'", f"recipe_id = {self._key('Recipe')}", "recipe_id = None",
                     f"recipe_id = literal({self._number()})", "id = 99"],
            "Remark": ["text = 'set'", f"line_id = {self._key('Line')}"],
            "Plan": ["day = 7", f"recipe_id = {self._key('Recipe')}",
                     f"user_id = {self._owner()}"],
            "Dog": ["tricks = 7", f"recipe_id = {self._key('Recipe')}", "name = 'set'"],
            "Cat": ["name = 'set'", f"user_id = {self._owner()}",
                    "name = func.upper(literal('a'))", "user_id = literal(2)"],
        }[name])  # fmt: skip

    def _owner(self) -> str:
        return f"K('User', {self._chance.randrange(1, 4)})"

    def _all(self, name: str) -> str:
        return f"found = session.scalars(select({name}).order_by({name}.id)).all()"

    def _changed(self) -> list[str]:
        name = self._chance.choice(["Recipe", "Line", "Remark", "Plan", "Dog", "Cat"])
        n = self._chance.randrange(4)
        return [
            self._all(name),
            f"each = found[{n} % len(found)]",
            f"each.{self._set(name)}",
            "session.flush()",
            "result = None",
        ]

    def _deleted(self) -> list[str]:
        name = self._chance.choice(["Plan", "Remark", "Dog", "Line", "Recipe", "Jar"])
        n = self._chance.randrange(4)
        return [
            self._all(name),
            f"session.delete(found[{n} % len(found)])",
            "session.flush()",
            "result = None",
        ]

    def _new(self) -> str:
        chance = self._chance
        owner = chance.choice(["", "", f", user_id={self._owner()}"])
        line = "Line(id=50, text='new')"
        return chance.choice([
            f"Recipe(id=50, name='new'{owner})",
            f"Recipe(id=50, name='new'{owner}, lines=[{line}])",
            f"Recipe(id=50, name='new', parent_id={self._key('Recipe')})",
            f"Line(id=50, text='new', recipe_id={self._key('Recipe')})",
            "Line(id=50, text='new')",
            f"Remark(id=50, text='new', line_id={self._key('Line')})",
            f"Remark(id=50, text='new', line={line})",
            f"Plan(id=50, recipe_id={self._key('Recipe')}{owner})",
            f"Plan(id=50, code={chance.choice(['ann1', 'bob2', 'new'])!r})",
            f"Plan(id=50, recipe=Recipe(id=50, name='new'{owner}))",
            f"Dog(id=50, name='new', tricks=2, recipe_id={self._key('Recipe')}{owner})",
            f"Cat(id={chance.choice([50, 1, 2, 3])}, name='new'{owner})",
            f"Recipe(id={chance.choice([1, 2, 4])}, name='new')",
            f"OldPlan(id=50, code='new', plan_id={self._number() % 9 + 1})",
            f"Jar(id=50, label='new', room=1, place={chance.choice([1, 3, 5])}{owner})",
        ])  # fmt: skip

    def _added(self) -> list[str]:
        return [f"session.add({self._new()})", "session.flush()", "result = None"]

    def _merge(self) -> list[str]:
        name = self._chance.choice(["Recipe", "Plan", "Line", "Remark"])
        key = self._chance.choice([self._key(name), "50"])
        return [
            f"new = {name}(id={key})",
            f"new.{self._set(name)}",
            "session.merge(new)",
            "session.flush()",
            "result = None",
        ]

    def _related(self) -> list[str]:
        """Change the related rows of a recipe, to existing or new ones."""
        chance, n, m = self._chance, self._chance.randrange(4), self._chance.randrange(4)
        lines = [
            self._all("Recipe"),
            f"one, other = found[{n} % len(found)], found[{m} % len(found)]",
        ]
        lines += chance.choice([
            ["one.links.append(other)"],
            ["one.links.clear()"],
            ["one.parent = other"],
            ["one.children.append(other)"],
            ["one.children.clear()"],
            ["one.lines.append(Line(id=50, text='new'))"],
            ["one.lines[:] = []"],
            [f"one.tags.append(session.get(Tag, {chance.randrange(1, 4)}))"],
            ["one.tags.clear()"],
            ["one.plans.append(Plan(id=50))"],
            ["one.plans.clear()"],
            ["one.links.append(Recipe(id=50, name='new'))"],
            ["other.lines.extend(one.lines)"],
        ])  # fmt: skip
        return [*lines, "session.flush()", "result = None"]

    def _attached(self) -> list[str]:
        """Attach an instance of a row that the session has not read."""
        name = self._chance.choice(["Recipe", "Plan", "Remark"])
        return [
            f"each = {name}(id={self._number()})",
            "make_transient_to_detached(each)",
            "session.add(each)",
            self._chance.choice([f"each.{self._set(name)}", "session.delete(each)", "each.id"]),
            "session.flush()",
            "result = None",
        ]
