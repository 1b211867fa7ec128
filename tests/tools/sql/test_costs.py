"""No text takes more of Python's memory than it may, whatever it is made of.

`python -m tests.tools.sql --costs 20000` makes more of them, and measures their time too.
"""

from __future__ import annotations

import pytest

from tests.profiles import examples
from tests.tools.sql.costs import MOST_BYTES, MOST_CHARACTERS, costs_of
from tests.tools.sql.world import World

pytestmark = pytest.mark.slow


def test_texts_at_random_cost_little(world: World) -> None:
    """Of the grammar, chains, and constructs inside of each other."""
    costs = costs_of(world, examples(60), seed=7)

    assert [(each.sql, each.size) for each in costs if each.size > MOST_BYTES] == []
    assert max(len(each.sql) for each in costs) > MOST_CHARACTERS * 0.9
    assert {each.told for each in costs} > {"rows"}
