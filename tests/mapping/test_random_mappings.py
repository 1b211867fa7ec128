"""Random mappings: programs with refs do what they do with keys, and tools answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from tests.mapping.random_mappings import mapping_of
from tests.mapping.random_programs import differences, faults

SEEDS = range(4)


@pytest.fixture
def memory() -> Iterator[Engine]:
    """A database in memory."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_does_with_refs_what_it_does_with_keys(memory: Engine, seed: int) -> None:
    """What it reads and stores is equal, but for refs and attributes that would show keys."""
    mapping = mapping_of(seed, postgres=False)

    assert differences(memory, mapping) == [], mapping.chosen


@pytest.mark.parametrize("seed", SEEDS)
def test_tools_answer(memory: Engine, seed: int) -> None:
    """Without keys, and with errors that have a reason; no exception is raised."""
    mapping = mapping_of(seed, postgres=False)

    assert faults(memory, mapping) == [], mapping.chosen


def test_a_mapping_of_postgresql(engine: Engine) -> None:
    """Its domains, arrays and keys that the server makes."""
    features = ["domain", "domains", "tags_text", "dot.ted", "loose", "shaded"]
    mapping = mapping_of(1, key="server uuid", style="declarative", features=features)

    assert differences(engine, mapping) == []
    assert faults(engine, mapping) == []
