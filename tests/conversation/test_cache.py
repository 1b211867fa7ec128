"""One cache: what it gives, what it takes, and what it shows while others change it."""

from __future__ import annotations

import gc
import tracemalloc
import uuid
from collections.abc import Callable

import pytest

from alfred_refs.conversation.cache import RefCache
from alfred_refs.conversation.tombstones import GoneRows
from alfred_refs.mapping.refs import Ref
from alfred_refs.store import Entry

KEY = uuid.UUID(int=7)


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


def test_a_ref_that_leaves_one_place_is_in_the_next() -> None:
    """While a row goes, is read and is back, whoever shows its key finds its ref at every step."""
    gone = GoneRows()
    cache = RefCache(gone)
    cache.put("recipe", KEY, "recipe_1")
    refs = cache.refs_of("recipe")
    shown = []

    steps: list[Callable[[], object]] = [
        lambda: gone.lose("recipe", KEY, "recipe_1", "was deleted"),
        lambda: cache.lose("recipe", KEY, "recipe_1"),
        lambda: gone.find("recipe", KEY),
        lambda: cache.put("recipe", KEY, "recipe_1"),
        lambda: gone.remove("recipe", KEY),
    ]
    for step in steps:
        step()
        shown.append(refs[KEY.int])

    assert shown == ["recipe_1"] * 5
    assert (gone.items(), cache.key_of("recipe", "recipe_1")) == ([], KEY)


def test_a_key_that_was_never_met_is_not_shown_and_not_repeated() -> None:
    """The error of the dictionary has the entity in it, and no key."""
    with pytest.raises(KeyError) as caught:
        RefCache().refs_of("recipe")[KEY.int]
    assert caught.value.args == ("recipe",)
