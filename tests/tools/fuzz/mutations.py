"""What is done to a call that fits, so that it does not: by models, and by attackers."""

from __future__ import annotations

import copy
import datetime as dt
import json
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any


def nested(depth: int, leaf: Any = None) -> Any:
    """Return lists in objects in lists."""
    for n in range(depth):
        leaf = [leaf] if n % 2 else {"and": leaf}
    return leaf


JUNK: Sequence[Any] = [
    *[None, True, False, 0, -1, 1, 1.5, "", " ", [], {}, [[]], {"a": {}}, [None], ["", None]],
    *[2**31, 2**63, -(2**63) - 1, 10**20, 10**400, 10**5000, 1e308, 5e-324, -0.0],
    *[float("nan"), float("inf"), float("-inf"), "NaN", "Infinity", "-inf", "1e400", "1e-400"],
    *["\x00", "a\x00b", "\ud800", "é", "\N{COOKING}", "%", "_", "\\", "'", '"', "\u202e", "\r\n"],
    *["null", "[]", "{}", "[1]", "true", "1", "0x10", "1_000", "\u0661", "-", "*", "id", "_ref"],
    *["'; DROP TABLE dishes; --", "1 OR 1=1", "$1", ":id", "%(id)s", "%s", "{0}", "${x}"],
    *["dish_1", "dish_0", "dish_01", "DISH_1", " dish_1", "dish_1\n", "dish_\u0661", "dish_-1"],
    *["dish_99", "dish_2147483648", "dish_" + "9" * 400, "gen_dish_1", "gen_cuisine_1"],
    *["secret_1", "secrets", "parts.dish.parts.dish.name", "parts.", ".", "..", "parent.id"],
    *["parent." * 2000 + "name", "parts.dish." * 8 + "name", "__class__", "metadata", "registry"],
    *["0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"],
    *["infinity", "today", "24:00:00", "P999999999D", "2026-13-01", "0", "epoch"],
    *["x" * 30_000, "_" * 60_000, "a-" * 30_000, "9" * 5000, list(range(3000)), ["x"] * 70_000],
    *[nested(20, {"field": "name", "op": "=", "value": 1}), nested(49), nested(60), nested(3000)],
    *[{"": ""}, {"\x00": 1}, {"\ud800": 1}, {"field": "name"}, {1: 2}, {None: None}, (1, 2)],
    *[b"bytes", uuid.UUID(int=5), dt.date(2026, 1, 1), {1, 2}, object(), 1j],
    *["_semantic", "similar", "in", "not_in", "is_null", "contains", "ilike", ">", "table"],
]


class Mutator:
    """Spoils calls.

    Args:
        chance: what all choices are made by.
        bad: gives texts that must not be taken for refs: keys, refs of other rows, gone refs.
    """

    def __init__(self, chance: random.Random, bad: Callable[[], Sequence[str]]) -> None:
        self._chance = chance
        self._bad = bad

    def mutated(self, arguments: Any) -> Any:
        """Return arguments with one to three things done to them."""
        made: Any = _copied(arguments)
        for _ in range(self._chance.choice([1, 1, 1, 2, 3])):
            made = self._once(made)
        if self._chance.random() < 0.02:
            return self._as_text(made)
        return made

    def _once(self, made: Any) -> Any:
        nodes = list(_nodes(made))
        if not nodes:
            return _copied(self._chance.choice(JUNK))
        holder, name = self._chance.choice(nodes)
        ways = [self._drop, self._junk, self._junk, self._bad_ref, self._bad_ref, self._add]
        ways += [self._wrap, self._text, self._swap, self._letters, self._path, self._double]
        self._chance.choice(ways)(holder, name, nodes)
        return made

    def _drop(self, holder: Any, name: Any, _: Any) -> None:
        del holder[name]

    def _junk(self, holder: Any, name: Any, _: Any) -> None:
        holder[name] = _copied(self._chance.choice(JUNK))

    def _bad_ref(self, holder: Any, name: Any, _: Any) -> None:
        texts = [*self._bad()] or [""]
        if isinstance(holder[name], list) and self._chance.random() < 0.7:
            holder[name].append(self._chance.choice(texts))
        else:
            holder[name] = self._chance.choice(texts)

    def _add(self, holder: Any, name: Any, nodes: Sequence[Any]) -> None:
        other, its = self._chance.choice(nodes)
        value = self._chance.choice([other[its], self._chance.choice(JUNK)])
        if isinstance(holder, list):
            holder.insert(name, _copied(value))
        else:
            unknown = ["x", "owner", "user_id", "id", "filters", "", "and", "or", "value", "field"]
            holder[self._chance.choice([*unknown, its])] = _copied(value)

    def _wrap(self, holder: Any, name: Any, _: Any) -> None:
        value = holder[name]
        ways: list[Any] = [[value], {"not": value}, {"and": [value]}, {"value": value}]
        holder[name] = self._chance.choice([*ways, nested(self._chance.randrange(60), value)])

    def _text(self, holder: Any, name: Any, _: Any) -> None:
        holder[name] = self._as_text(holder[name])

    def _swap(self, holder: Any, name: Any, nodes: Sequence[Any]) -> None:
        other, its = self._chance.choice(nodes)
        holder[name] = _copied(other[its])

    def _letters(self, holder: Any, name: Any, _: Any) -> None:
        text = _brief(holder[name])
        place = self._chance.randrange(len(text) + 1)
        piece = self._chance.choice(["", "\x00", "\ud83d", "\u00e9", "A", " ", "%", "."])
        holder[name] = text[:place] + piece + text[place + self._chance.randrange(3) :]

    def _path(self, holder: Any, name: Any, _: Any) -> None:
        path = self._chance.choice(["parts.", "parent.", "dish.", "cuisine.", "recipe.", "plans."])
        holder[name] = f"{path}{_brief(holder[name])}"

    def _double(self, holder: Any, name: Any, _: Any) -> None:
        value = holder[name]
        holder[name] = value * 2 if isinstance(value, list | str) else value

    def _as_text(self, value: Any) -> str:
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return repr(type(value))


def _brief(value: Any) -> str:
    return value[:100] if isinstance(value, str) else type(value).__name__


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except RecursionError:
        return nested(3000)


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Return where something stands in lists and objects: the holder, and its name there."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 500:
        each = waiting.pop()
        if isinstance(each, dict):
            found += [(each, name) for name in each]
            waiting += each.values()
        elif isinstance(each, list):
            found += [(each, n) for n in range(min(len(each), 20))]
            waiting += each[:20]
    return found
