"""NUL characters at random places of calls that fit: told or refused, and never a wider call."""

from __future__ import annotations

import copy
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.tables import ROW_REF, ToolTable
from tests.tools.fuzz.calls import Arguments, Caller
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.judge import WITHOUT_FILTERS
from tests.tools.fuzz.world import MODELS, World

NUL = "\x00"


Path = Sequence[tuple[Any, Any]]
"""Where something stands: the objects and lists on the way there, each with the name in it."""


@dataclass(frozen=True, slots=True)
class Spoilt:
    """Arguments with a NUL in them.

    Attributes:
        arguments: what is called with.
        refused: whether they cannot mean what they meant before.
        same: whether they can mean nothing else.
    """

    arguments: Arguments
    refused: bool = False
    same: bool = True


class NulRound:
    """Calls on one filling of the tables.

    Args:
        world: the tables.
        registry: what refs are kept in.
        name: of the round; all choices follow from it.
        found: what calls came to; grows.
    """

    def __init__(self, world: World, registry: RefRegistry, name: str, found: Found) -> None:
        self._name = f"nuls {name}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._world = world
        self._found = found
        world.fill(self._name)
        self._conversation = registry.conversation(f"{self._name} {uuid.uuid4()}")
        self._toolset = Toolset(MODELS, expect="optional")
        self._tables = {table.name: table for table in self._toolset.tables}
        self._caller = Caller(self._chance, [*self._toolset.tables], self._living)
        self._refs: dict[str, list[str]] = {}
        for table in self._toolset.tables:
            by = [c.name for c in table.columns.values() if c.values.ordered]
            self._call("db_read", {"table": table.name, "order_by": by})

    def run(self, calls: int) -> None:
        """Make calls."""
        for number in range(calls):
            if number % 10 == 0:
                self._look()
            tool, base = self._caller.call()
            table = self._tables[base["table"]]
            spoilt = self._spoilt(base, table)
            if spoilt is None:
                continue
            meant = self._meant(tool, base, table)
            answer = self._call(tool, spoilt.arguments)
            self._found.count("nul", tool, answer)
            for wrong in wrongs(answer, spoilt, meant, table.own or ROW_REF):
                call = f"{self._name} #{number}"
                self._found.tell(call, wrong, tool, spoilt.arguments)

    def _call(self, tool: str, arguments: Arguments) -> dict[str, Any]:
        with RefSession(self._world.engine, conversation=self._conversation) as session:
            return self._toolset.call(session, tool, arguments)

    def _meant(self, tool: str, base: Arguments, table: ToolTable) -> set[str] | None:
        """Return the rows that a call would hit or show, none if it would be refused.

        `None` is for calls that find no rows.
        """
        if tool in WITHOUT_FILTERS:
            return None
        asked = base if tool == "db_read" else {"table": table.name, "filters": base["filters"]}
        return _refs(self._call("db_read", asked), table.own or ROW_REF)

    def _spoilt(self, base: Arguments, table: ToolTable) -> Spoilt | None:
        """Return a call with a NUL at some place, `None` if there is no place for it."""
        made = copy.deepcopy(base)
        path = self._chance.choice([*_paths(made)])
        holder, name = path[-1]
        value, way = holder[name], self._chance.randrange(4)
        if way < 2 and isinstance(holder, dict):
            at = self._chance.randrange(len(name) + 1)
            spelt = f"{name[:at]}{NUL}{name[at:]}"
            if way == 0:
                holder[spelt] = holder.pop(name)
                return Spoilt(made)
            holder[spelt] = self._other(value)
            return Spoilt(made, refused=True)
        if not isinstance(value, str) or not value:
            return None
        if way == 2:
            at = self._chance.randrange(len(value) + 1)
            holder[name] = f"{value[:at]}{NUL}{value[at:]}"
            return Spoilt(made)
        holder[name] = NUL
        return Spoilt(made, refused=not _is_data(path, table), same=False)

    def _other(self, value: Any) -> Any:
        """Return something else than a value, and wider."""
        if isinstance(value, list):
            return self._chance.choice([[], [{"field": "id", "op": "is_not_null"}]])
        return self._chance.choice([None, NUL, "x"])

    def _look(self) -> None:
        self._refs = {}
        for entry in self._conversation.entries():
            if entry.gone is None:
                self._refs.setdefault(entry.entity, []).append(entry.ref)

    def _living(self, entity: str) -> Sequence[str]:
        return self._refs.get(entity, [])


def wrongs(answer: Any, spoilt: Spoilt, meant: set[str] | None, own: str) -> Iterator[str]:
    """Yield what must not come of a call with a NUL in it.

    Args:
        answer: what the model was told.
        spoilt: what it called with.
        meant: what it would have hit or read without the NUL; `None` if that is not known.
        own: what the answer's rows have their refs in.
    """
    if "error" in answer:
        return
    if not answer.get("notes"):
        yield "a NUL has gone without a word"
    if spoilt.refused:
        yield "a call is answered in which a NUL has changed what is meant"
    elif spoilt.same and meant is not None and _refs(answer, own) - meant:
        yield "a NUL has made a call wider"


def _refs(answer: Any, own: str) -> set[str]:
    return {*answer.get("deleted", ()), *(row[own] for row in answer.get("rows", ()))}


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where anything stands in arguments."""
    for name in value.keys() if isinstance(value, dict) else range(len(value)):
        here = [*path, (value, name)]
        yield here
        if isinstance(value[name], dict | list):
            yield from _paths(value[name], here)


def _is_data(path: Path, table: ToolTable) -> bool:
    """Tell whether what stands somewhere is data, which may be an empty text."""
    names = [name for _, name in path]
    if "expect" in names:
        return True
    if "data" in names:
        within = names[names.index("data") + 1 :]
        column = next((table.columns.get(n) for n in within if isinstance(n, str)), None)
        return column is not None and column.values.family in ("text", "json", "list")
    if "value" not in names:
        return False
    holder = path[names.index("value")][0]
    last = str(holder.get("field")).rpartition(".")[2]
    return last not in ("id", ROW_REF, "alike", "favourites", "inside") and last[-3:] != "_id"
