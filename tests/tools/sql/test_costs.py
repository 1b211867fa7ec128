"""No text costs more of Python than it may, whatever it is made of.

`python -m tests.tools.sql --costs 20000` makes more of them.
"""

from __future__ import annotations

import pytest

from tests.tools.sql.costs import MOST_CHARACTERS, costs_of
from tests.tools.sql.world import World

pytestmark = pytest.mark.slow


def test_texts_at_random_cost_little(world: World) -> None:
    """Of the grammar, chains, and constructs inside of each other."""
    costs = costs_of(world, 60, seed=7)

    assert [(each.sql, each.seconds, each.size) for each in costs if each.is_too_much] == []
    assert max(len(each.sql) for each in costs) > MOST_CHARACTERS * 0.9
    assert {each.told for each in costs} > {"rows"}
