"""What must not come of a call: told from the answer, and from the rows before and after it.

What filters mean is read anew, by `tests.tools.oracle`. Where a value is written so that its
meaning is for the tools to say, such as a number in a text, that check is left out and counted.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect

from alfred_refs import Conversation
from alfred_refs.store import DraftState
from alfred_refs.tools.tables import ROW_REF, ToolTable
from tests.tools.fuzz.world import HUSH, Place, Rows, plain, spelt
from tests.tools.models import Course
from tests.tools.oracle import holds

# table -> tables whose rows go with its rows
CASCADES: Mapping[str, frozenset[str]] = {
    "dishes": frozenset({"parts"}),
    "recipes": frozenset({"meal_plans"}),
    "people": frozenset({"cooks"}),
}

# column -> the type of what is surely understood, and what the column has for it; others are text
_DATA: Mapping[str, tuple[type[Any], Callable[[Any], Any] | None]] = {
    **dict.fromkeys(("servings", "spice", "position", "place", "number", "stars"), (int, None)),
    "rating": (float, None),
    "price": (float, lambda given: decimal.Decimal(str(given))),
    "is_vegan": (bool, None),
    "extra": (object, None),
    "course": (str, Course.__getitem__),
    "cooked_on": (str, dt.date.fromisoformat),
    "seen_at": (str, dt.datetime.fromisoformat),
    "device": (str, lambda given: str(uuid.UUID(given))),
    "legacy_recipe_id": (str, lambda given: str(uuid.UUID(given))),
}
_REFS = {"id", "alike", "favourites", "inside", "last_seen", "instead_of"}
WITHOUT_FILTERS = ("db_create", "db_edit_list")
"""Tools that take no filters."""

_DIGITS = re.compile(r"[0-9a-f]{32,}")


class UnsureError(Exception):
    """What a filter means cannot be told independently."""


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made.

    Attributes:
        tool: its name.
        arguments: as they were given.
        table: that they name, `None` if there is none of that name.
        answer: what the model was told.
        before: all rows before it.
        after: and after it.
        instances: the rows before it, as objects.
        cut: whether a cursor leaves rows out.
    """

    tool: str
    arguments: Any
    table: ToolTable | None
    answer: Any
    before: Rows
    after: Rows
    instances: Mapping[Place, Any]
    cut: bool

    @property
    def changed(self) -> set[Place]:
        """The rows that are there before and after, and not the same."""
        both = self.before.keys() & self.after.keys()
        return {place for place in both if self.before[place] != self.after[place]}

    @property
    def added(self) -> set[Place]:
        """The rows that are there only after."""
        return self.after.keys() - self.before.keys()

    @property
    def removed(self) -> set[Place]:
        """The rows that are there only before."""
        return self.before.keys() - self.after.keys()


class Judge:
    """Judges calls.

    Args:
        conversation: in which refs are valid.
        keys: what of keys must not be seen; grows as there are more.
        is_hidden: tells whether a hook hides a row.
    """

    def __init__(
        self,
        conversation: Conversation,
        keys: set[str],
        is_hidden: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        self._is_hidden = is_hidden
        self._conversation = conversation
        self._keys = keys
        self._known: dict[str, Any] = {}  # ref -> key, gone or not

    def wrongs(self, done: Done) -> Iterator[str]:
        """Yield what must not have come of a call."""
        yield from self._shape(done)
        if not isinstance(done.answer, dict):
            return
        if "error" in done.answer or done.tool == "db_read":
            if done.added or done.removed or done.changed:
                yield "rows changed by a read or an error"
        elif done.table is not None and done.tool != "db_edit_list":
            yield from self._written(done, done.table)

    def _shape(self, done: Done) -> Iterator[str]:
        try:
            text = json.dumps(done.answer, allow_nan=False, ensure_ascii=False)
            text.encode()
        except (TypeError, ValueError) as error:
            yield f"no plain JSON: {error}"
            return
        if not isinstance(done.answer, dict) or not done.answer.keys() & {"error", "table"}:
            yield "neither an answer nor an error"
        elif not isinstance(done.answer.get("error", {"code": ""}).get("code"), str):
            yield "an error without code"
        if self._shows_key(json.dumps(done.answer, ensure_ascii=False)):
            yield "a key is shown"
        if HUSH in text:
            yield "a secret is shown"

    def _shows_key(self, text: str) -> bool:
        digits = re.sub(r"[-_{}]|urn:uuid:", "", text.lower())
        for run in _DIGITS.findall(digits):
            if any(run[n : n + 32] in self._keys for n in range(len(run) - 31)):
                return True
        return any(number in self._keys for number in re.findall(r"\b77[0-9]{5}\b", text))

    def _written(self, done: Done, table: ToolTable) -> Iterator[str]:
        own = {each.name for each in inspect(table.model).mapper.tables}
        told, cascades = self._places(done, table), CASCADES.get(table.name, frozenset())
        # tool -> which rows of its table it may have changed, and where else rows may have
        touched, others, tables = {
            "db_create": (done.added, done.removed | done.changed, own),
            "db_update": (done.changed, done.added | done.removed, own),
            "db_delete": (done.removed, done.added | done.changed, own | cascades),
        }[done.tool]
        if others or not {place[0] for place in touched} <= tables:
            yield "a write did more than that"
        hit = {place for place in touched if place[0] == _main(table)}
        # an update may change nothing of a row
        if not hit <= told or (done.tool != "db_update" and hit != told):
            yield "a write tells of other rows"

    def meant(self, done: Done) -> Iterator[str]:
        """Yield what is wrong with the rows that a call found.

        Raises:
            UnsureError: what its filters mean cannot be told.
        """
        if done.table is None or "error" in done.answer or done.tool in WITHOUT_FILTERS:
            return
        shown = self._places(done, done.table)
        meant = set(self._meant(done, done.table))
        if done.tool == "db_read":
            if not shown <= meant:
                yield "a read shows what its filters do not mean"
            if not (done.cut or done.answer.get("more")) and shown != meant:
                yield "a read leaves out what its filters mean"
        elif not shown <= meant or (shown != meant and not done.cut):
            yield "a write hit what its filters do not mean"

    def _meant(self, done: Done, table: ToolTable) -> Iterator[Place]:
        filters = filters_of(done.arguments)
        for place, row in done.instances.items():
            if place[0] != _main(table) or self._is_hidden(row):
                continue
            if all(self.holds(each, row) for each in filters):
                yield place

    def holds(self, given: Any, row: Any) -> bool:
        """Tell whether a filter holds of a row.

        Raises:
            UnsureError: what it means cannot be told.
        """
        try:
            return holds(given, row, self.value_of, self._is_hidden) is True
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            raise UnsureError from error

    def _places(self, done: Done, table: ToolTable) -> set[Place]:
        """Return the rows that an answer tells of."""
        name = table.own or ROW_REF
        refs = done.answer.get("deleted", [row[name] for row in done.answer.get("rows", [])])
        return {self.place(ref, table) for ref in refs if not ref.startswith("gen_")}

    def place(self, ref: str, table: ToolTable) -> Place:
        """Return which row of a table a ref names, or named."""
        key = self.key_of(ref)
        return (_main(table), spelt(key if isinstance(key, tuple) else (key,)))

    def key_of(self, ref: str) -> Any:
        """Return the key that a ref names or named."""
        if ref not in self._known:
            entries = self._conversation.entries(keys=True)
            self._known = {entry.ref: plain(entry.key) for entry in entries}
            states: list[DraftState] = ["pending", "saved", "discarded"]
            for draft in self._conversation.drafts(states=states, keys=True):
                # one that is not saved is no row's, whatever a row has
                is_row = draft.state == "saved"
                self._known[draft.ref] = plain(draft.key) if is_row else draft.ref
        return self._known[ref]

    def value_of(self, name: str, given: Any) -> Any:
        """Return what a column has for what a model writes."""
        if isinstance(given, list):
            return [self.value_of(name, each) for each in given]
        if given is None:
            return None
        if name in _REFS or name == ROW_REF or (name.endswith("_id") and name[0] != "l"):
            return self._key(name, given)
        return _data(name, given)

    def _key(self, name: str, given: Any) -> Any:
        if given == "":
            return None
        key = self.key_of(given)
        return (key,) if name == ROW_REF and not isinstance(key, tuple) else key


def filters_of(arguments: Mapping[str, Any]) -> list[Any]:
    """Return the filters of a call that must all hold; a list may be given as JSON text."""
    filters = [_with_lists(each) for each in arguments.get("filters") or ()]
    if arguments.get("or_filters"):
        filters.append({"or": [_with_lists(each) for each in arguments["or_filters"]]})
    return filters


def _with_lists(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    groups = {n: [_with_lists(each) for each in given[n]] for n in ("and", "or") if n in given}
    if "not" in given:
        groups["not"] = _with_lists(given["not"])
    value = given.get("value")
    if given.get("op") in ("in", "not_in") and isinstance(value, str) and value[:1] == "[":
        groups["value"] = json.loads(value)
    return {**given, **groups}


def _data(name: str, given: Any) -> Any:
    """Return what a column without keys has for what a model writes."""
    types, made = _DATA.get(name, (str, None))
    if type(given) not in ((int, float) if types is float else (types,)):
        raise UnsureError
    if isinstance(given, str) and not given.isascii():
        raise UnsureError
    return given if made is None else made(given)


def _main(table: ToolTable) -> str:
    return str(inspect(table.model).mapper.local_table)
