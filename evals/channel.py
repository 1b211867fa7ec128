"""What becomes of an id between being read and being written: a channel that corrupts copies.

>>> channel = Channel(rates("edit=0.1"), random.Random(7))
>>> channel.copy("recipe_12", Ids(alike=["recipe_7"], earlier=[], others=["meal_plan_3"]))
Slip(kind='edit', given='recipe_13')

| kind | what is written |
| --- | --- |
| `edit` | one character wrong, missing or too many, of those that tell rows apart |
| `invent` | how the id begins, and the rest made up |
| `swap` | another id of the same kind that the model was shown |
| `stale` | one that it was shown before the user spoke last |
| `kind` | one of another kind |

The rates are for each id that is copied, and the same in every arm: what differs is what becomes
of a slip, not how many there are. A model may well slip more often on longer ids, which would be
for refs; no more than that is assumed.

`RATES` are after the published counts of one small model: in 20 tasks with UUIDs, 4 with an id
that there was not, and 5 with that of another row (https://cstanton.net/posts/
uuids-are-not-great-for-agent-use, gpt-5.4-nano; another 24 to 26 % of wrong rows in
arXiv:2606.30531). Tasks here copy about four ids, so that about as many of them have such a slip.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Id = str | int

RATES: Final[Mapping[str, float]] = {
    "edit": 0.03,
    "invent": 0.03,
    "swap": 0.04,
    "stale": 0.02,
    "kind": 0.01,
}

KINDS: Final = tuple(RATES)

NONE: Final[Mapping[str, float]] = dict.fromkeys(KINDS, 0.0)

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGITS = "0123456789"
_HEX = f"{_DIGITS}abcdef"
_LEFT_OF_UUID = 18  # characters that an invented one keeps


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids that a model has been shown, beside the one that it copies.

    Attributes:
        alike: of the same kind.
        earlier: of these, those shown before the user spoke last.
        others: of other kinds.
    """

    alike: Sequence[Id]
    earlier: Sequence[Id]
    others: Sequence[Id]


@dataclass(frozen=True, slots=True)
class Slip:
    """What was written in place of an id.

    Attributes:
        kind: how it went wrong.
        given: what was written.
    """

    kind: str
    given: Id


def rates(text: str) -> dict[str, float]:
    """Return rates as they are given on a command line: `edit=0.1,swap=0.05`; others are 0.

    Raises:
        ValueError: it is no kind, or no rate.
    """
    given = dict(NONE)
    for part in filter(None, text.split(",")):
        kind, _, rate = part.partition("=")
        if kind not in given or not 0 <= float(rate or "nan") <= 1:
            raise ValueError(f"{part!r} is no rate of {', '.join(KINDS)}: give such as edit=0.05")
        given[kind] = float(rate)
    if sum(given.values()) > 1:
        raise ValueError(f"the rates {text!r} are more than 1 in all")
    return given


class Channel:
    """Copies ids, and slips at given rates.

    Args:
        rates: by kind.
        chance: decides.
    """

    def __init__(self, rates: Mapping[str, float], chance: random.Random) -> None:
        self._rates = rates
        self._chance = chance

    def copy(self, given: Id, shown: Ids) -> Slip | None:
        """Return what is written in place of an id, if that is not the id itself."""
        draw = self._chance.random()
        # drawn from in any case, so that arms have the same luck as far as they do the same
        choice = random.Random(self._chance.random())  # noqa: S311  # no secret
        for kind, rate in self._rates.items():
            if draw < rate:
                made = _written(kind, given, shown, choice)
                return None if made is None or made == given else Slip(kind, made)
            draw -= rate
        return None


def _written(kind: str, given: Id, shown: Ids, chance: random.Random) -> Id | None:
    """Return what is written; nothing if the kind needs another id and there is none."""
    among = {"swap": shown.alike, "stale": shown.earlier, "kind": shown.others}
    if kind in among:
        others = [each for each in among[kind] if each != given]
        return chance.choice(others) if others else None
    head, tail, letters = _parts(given)
    made = (_edited if kind == "edit" else _invented)(tail, letters, chance)
    if isinstance(given, int):
        return int(made)
    return head + made


def _parts(given: Id) -> tuple[str, str, str]:
    """Return what all ids of a kind begin with, the rest, and what that is written in."""
    text = str(given)
    if _UUID.fullmatch(text):
        return "", text, _HEX
    head = text.rstrip(_DIGITS)
    return head, text[len(head) :], _DIGITS


def _edited(text: str, letters: str, chance: random.Random) -> str:
    """Return a text with one character wrong, missing or too many."""
    places = [n for n, letter in enumerate(text) if letter in letters]
    while True:
        place, letter = chance.choice(places), chance.choice(letters)
        how = chance.choice(("wrong", "missing", "more"))
        rest = text[place + (how != "more") :]
        made = text[:place] + ("" if how == "missing" else letter) + rest
        if made and made != text and _may_begin(made, letters):
            return made


def _invented(text: str, letters: str, chance: random.Random) -> str:
    """Return a text of the same length that begins as another one."""
    kept = _LEFT_OF_UUID if letters == _HEX else len(text) // 2
    while True:
        made = text[:kept] + "".join(
            letter if letter == "-" else chance.choice(letters) for letter in text[kept:]
        )
        if made != text and _may_begin(made, letters):
            return made


def _may_begin(text: str, letters: str) -> bool:
    """Tell whether a text is no number that begins with a zero."""
    return letters == _HEX or text[0] != "0"
