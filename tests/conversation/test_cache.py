"""One cache: what it gives, what it takes, and what it shows while others change it."""

from __future__ import annotations

import gc
import tracemalloc
import uuid

import pytest

from alfred_refs.conversation.caches import RefCache
from alfred_refs.mapping.keys import Ref
from alfred_refs.store import Entry

KEY = uuid.UUID(int=7)


@pytest.mark.slow
@pytest.mark.once
def test_a_mapping_takes_less_than_400_bytes() -> None:
    """A UUID, its number, its ref and their places in two dictionaries: all that is kept."""
    gc.collect()
    tracemalloc.start()
    cache = RefCache()
    for number in range(1, 100_001):
        cache.keep(Entry(Ref("recipe", number), uuid.uuid4()))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(cache) == 100_000
    assert taken / len(cache) < 400


def test_a_row_that_goes_is_shown_and_not_resolved() -> None:
    """Its mapping stays where it is, so whoever shows its key finds its ref at every step."""
    gone: set[str] = set()
    cache = RefCache(gone)
    cache.put("recipe", KEY, "recipe_1")
    refs = cache.refs_of("recipe")
    for is_gone in (False, True, False):
        (gone.add if is_gone else gone.discard)("recipe_1")

        assert (refs[KEY.int], cache.refs_by_entity(KEY)) == ("recipe_1", {"recipe": "recipe_1"})
        keys, missing = cache.look_up([("recipe_1", "recipe")])
        assert [*keys.values(), *missing] == [("recipe_1", "recipe") if is_gone else KEY]
