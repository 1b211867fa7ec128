"""What it costs to open a conversation and resolve one ref, whatever else it has.

One registry, as an application has it, whose connection stays open; each time the conversation is
opened anew, and what was known of it before is forgotten.
"""

from __future__ import annotations

import random

from alfred_refs import RefRegistry
from benchmarks.measure import Figure, Side, side_by_side
from benchmarks.population import IN_SMALL, LARGEST, SMALL
from benchmarks.setting import Setting
from benchmarks.table import Row

_CALLS = 20  # timed together: one is too short to be timed


def opened_large_conversation(setting: Setting) -> Figure:
    """Compare the largest conversation of a full registry with one of ten mappings."""
    registry = RefRegistry(setting.populated.engine)
    return side_by_side(
        _open_and_resolve(registry, LARGEST, setting.populated.largest),
        _open_and_resolve(registry, SMALL, IN_SMALL),
        repetitions=setting.repetitions,
        calls=_CALLS,
    ).by_clock()


FULL_ROWS = (
    Row(
        "open a conversation and resolve one ref: a tenth of the full registry, against 10",
        1.1,
        opened_large_conversation,
    ),
)


def _open_and_resolve(registry: RefRegistry, conversation: str, mappings: int) -> Side:
    """Half of the mappings are of recipes."""
    draw = random.Random(7)  # noqa: S311  # nothing is kept secret by it

    def resolve() -> None:
        number = draw.randint(1, mappings // 2)
        registry.conversation(conversation).resolve(f"recipe_{number}")

    return resolve
