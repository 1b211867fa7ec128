"""How a registry grows: many conversations at once, each by what is new in one result.

What indexes weigh depends on the order in which rows come. A load in the order of an index fills
its pages; conversations that take turns leave them about two thirds full, as splits in the middle
do.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence

from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Address

ENTITIES = ("recipe", "ingredient", "meal_plan")

_AT_ONCE = 50  # conversations that take turns
_IN_A_CONVERSATION = 300  # mappings, on average
_IN_A_RESULT = 25  # new keys, on average

GROWN = (
    f"{_AT_ONCE} conversations at once, {_IN_A_CONVERSATION} mappings in each and "
    f"{_IN_A_RESULT} in each result on average"
)


def results(
    mappings: int, entities: Sequence[str] = ENTITIES
) -> Iterator[tuple[Address, list[EntityKey]]]:
    """Yield what makes a registry of so many mappings; the same each time, but for the keys.

    A result is a conversation and the keys that it meets for the first time, of two entities, as
    rows with a foreign key have them. Sizes are distributed exponentially.
    """
    draw = random.Random(7)  # noqa: S311  # nothing is kept secret by it
    opened = 0
    live: list[tuple[Address, int]] = []
    while mappings:
        while len(live) < _AT_ONCE:
            live.append((Address(f"grown-{opened}"), _size(draw, _IN_A_CONVERSATION)))
            opened += 1
        address, left = live.pop(draw.randrange(_AT_ONCE))
        size = min(_size(draw, _IN_A_RESULT), left, mappings)
        pair = draw.sample(entities, 2)
        yield address, [(pair[n % 2], uuid.uuid4()) for n in range(size)]
        mappings -= size
        if left > size:
            live.append((address, left - size))


def _size(draw: random.Random, mean: int) -> int:
    return 1 + int(draw.expovariate(1 / (mean - 1)))
