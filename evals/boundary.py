"""A thin mapping at the boundary of the tools: ids as a model sees them, and refs.

    spelling = Keys(kitchen, conversation, toolset)
    spelling.shown({"id": "recipe_3"})      # {'id': '0f5c2a9e-…'}
    spelling.read(arguments)                # refs in place of what a model wrote

The tools below it work with refs in every arm, so that texts, errors and what is done are the
same. What a database with such ids would find is found: a key, or a number, of a row that the
conversation has not met too. What it would not find is a ref that is not known, and errors about
it name what the model wrote.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from typing import Any, Final

from alfred_refs import Conversation, GoneRefError
from alfred_refs.mapping.keys import DRAFT, Key, Ref
from alfred_refs.tools import Toolset
from alfred_refs.tools.tables import ToolTable
from evals.kitchen import Kitchen

Id = str | int
"""An id as a model sees it."""

_NOWHERE: Final = 900_000_000  # numbers from here on are of no row


class Spelling(ABC):
    """How ids are spelt in one conversation.

    Args:
        kitchen: whose rows there are.
        conversation: in which the refs are.
        toolset: whose tables they are of.
    """

    def __init__(self, kitchen: Kitchen, conversation: Conversation, toolset: Toolset) -> None:
        self._conversation = conversation
        self._tables = {table.name: table for table in toolset.tables}
        self._by_entity = {table.entity: table for table in toolset.tables}
        names = "|".join(sorted(self._by_entity, key=len, reverse=True))
        self._ref = re.compile(rf"\b(?:gen_)?(?:{names})_[1-9][0-9]*\b")
        self._quoted = re.compile(rf"'({self._ref.pattern})'|{self._ref.pattern}")
        self._keys = kitchen.keys
        self._shown: dict[str, Id] = {}
        self._refs: dict[tuple[str, Id], str] = {}
        self._unknowns = 0

    @staticmethod
    def example(ref: str) -> str:
        """Return how a ref is spelt where a tool's description has one, with its quotes."""
        return repr(ref)

    @abstractmethod
    def _spelt(self, ref: Ref) -> Id:
        """Return how a ref is spelt that is shown for the first time."""

    @abstractmethod
    def _met(self, entity: str, given: Id) -> str | None:
        """Return the ref of a row that was not shown, if there is one with this id."""

    def _place(self, entity: str) -> str:  # noqa: ARG002  # of those that need it
        """Return among which ids one of an entity is told from others."""
        return ""

    # Out

    def one(self, ref: str) -> Id:
        """Return a ref as a model sees it."""
        if ref not in self._shown:
            entity, _, number = ref.removeprefix(DRAFT).rpartition("_")
            spelt = self._spelt(Ref(entity, int(number), draft=ref.startswith(DRAFT)))
            self._shown[ref] = spelt
            self._refs[self._place(entity), spelt] = ref
        return self._shown[ref]

    def shown(self, value: Any) -> Any:
        """Return JSON with ids in place of refs, in texts too."""
        if isinstance(value, dict):
            return {self.text(name): self.shown(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.shown(each) for each in value]
        if not isinstance(value, str):
            return value
        return self.one(value) if self._ref.fullmatch(value) else self.text(value)

    def text(self, text: str) -> str:
        """Return a text with ids in place of refs."""
        return self._quoted.sub(self._within, text)

    def _within(self, found: re.Match[str]) -> str:
        spelt = self.one(found[1] or found[0])
        return repr(spelt) if found[1] else str(spelt)

    # In

    def read(self, arguments: Any) -> Any:
        """Return the arguments of a call with refs in place of ids."""
        if isinstance(arguments, list):
            return [self.read(each) for each in arguments]
        table = self._tables.get(str(arguments.get("table"))) if arguments else None
        if table is None:
            return arguments
        read = {name: self._argument(table, name, each) for name, each in arguments.items()}
        if isinstance(read.get("expect"), dict):
            read["expect"] = self._by_ref(read["expect"])
        return read

    def _argument(self, table: ToolTable, name: str, value: Any) -> Any:
        match name:
            case "filters" | "or_filters":
                return self._filter(table, value)
            case "data" | "expect":
                return self._values(table, value)
            case "from_draft" | "row":
                return self._id(table.entity, value)
            case "also":
                return self.read(value)
        return value

    def _by_ref(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return what is said by the ids in filters, which were read before it, by ref."""
        refs = {str(id_): ref for (_, id_), ref in self._refs.items()}
        return {refs.get(name, name): each for name, each in said.items()}

    def _filter(self, table: ToolTable, given: Any) -> Any:
        if isinstance(given, list):
            return [self._filter(table, each) for each in given]
        if not isinstance(given, dict):
            return given
        groups = ("and", "or", "not")
        read = {
            name: self._filter(table, each) if name in groups else each
            for name, each in given.items()
        }
        entity = self._entity_at(table, str(read.get("field")).split("."))
        if entity is not None and "value" in read:
            read["value"] = self._id(entity, read["value"])
        return read

    def _entity_at(self, table: ToolTable, path: list[str]) -> str | None:
        for name in path[:-1]:
            if name not in table.targets:
                return None
            table = table.targets[name]
        column = table.columns.get(path[-1])
        return None if column is None else column.entity

    def _values(self, table: ToolTable, given: Any) -> Any:
        """Return values by column, of one row or of several, with refs in them."""
        if isinstance(given, list):
            return [self._values(table, each) for each in given]
        if not isinstance(given, dict):
            return given
        read = {}
        for name, value in given.items():
            entity = self._entity_at(table, [name])
            if entity is not None:
                read[name] = self._id(entity, value)
            else:
                target = table.targets.get(name)
                read[name] = value if target is None else self._values(target, value)
        return read

    def _id(self, entity: str, given: Any) -> Any:
        if isinstance(given, list):
            return [self._id(entity, each) for each in given]
        if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
            return given
        place = self._place(entity), given
        ref = self._refs.get(place) or self._met(entity, given) or self._unknown(entity, given)
        self._refs[place] = ref
        self._shown.setdefault(ref, given)
        return ref

    def _unknown(self, entity: str, given: Id) -> str:
        self._unknowns += 1
        self._shown[ref := f"{entity}_{_NOWHERE + self._unknowns}"] = given
        return ref

    def _key(self, ref: Ref) -> Key:
        """Return the key of a row, though it be gone."""
        try:
            return self._conversation.resolve(str(ref))
        except GoneRefError:
            entries = self._conversation.entries(ref.entity, keys=True)
            return next(each.key for each in entries if each.ref == str(ref) and each.key)

    def _mint(self, entity: str, key: uuid.UUID) -> str:
        """Return the ref of a row's key."""
        model: type[Any] = self._by_entity[entity].model
        ref: str = self._conversation.refer(model, key)
        return ref

    def _named(self, entity: str) -> str:
        name: str = self._by_entity[entity].name
        return name
