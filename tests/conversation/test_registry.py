"""The application's registry."""

from __future__ import annotations

import gc

import pytest
from sqlalchemy import Engine, create_engine

from alfred_refs import PostgresStore, RefPolicy, RefRegistry, SetupError
from alfred_refs.store.memory import MemoryStore
from alfred_refs.store.schema import metadata
from tests.fix_session import TravelLog


def test_it_keeps_its_map_in_the_engines_database(engine: Engine) -> None:
    """An engine is all it takes; its tables can be listed for migrations."""
    registry = RefRegistry(engine)
    registry.create_tables()

    assert registry.metadata is metadata
    assert registry.conversation("chat-7").refer("recipe", 1) == "recipe_1"


def test_it_takes_any_store() -> None:
    """A store in memory has no tables to list."""
    registry = RefRegistry(store=MemoryStore())
    registry.create_tables()

    assert registry.conversation("chat-7").refer("recipe", 1) == "recipe_1"
    with pytest.raises(SetupError, match="MemoryStore has no tables"):
        _ = registry.metadata


@pytest.mark.parametrize("bind", [create_engine("sqlite://"), None, "postgresql://"])
def test_other_databases_are_told_the_two_choices(bind: object) -> None:
    """No default is made up where there is no PostgreSQL."""
    with pytest.raises(SetupError, match=r"give a PostgreSQL engine as bind, or.*MemoryStore"):
        RefRegistry(bind)  # type: ignore[arg-type]


def test_bind_and_store_are_not_given_together(engine: Engine) -> None:
    """One of them would be silently ignored."""
    with pytest.raises(SetupError, match="both bind and store"):
        RefRegistry(engine, store=PostgresStore(engine))


def test_opening_a_conversation_asks_nothing(engine: Engine) -> None:
    """Not even the tables have to be there before the first ref is used."""
    conversation = RefRegistry(engine).conversation("chat-7", owner="ann")

    assert (conversation.id, conversation.owner) == ("chat-7", "ann")


def test_what_a_process_has_met_is_shared_while_somebody_uses_it(store: TravelLog) -> None:
    """Two openings of one conversation ask the store once; owners share nothing."""
    registry = RefRegistry(store=store)
    first = registry.conversation("chat-7")
    first.refer("recipe", 1)
    second = registry.conversation("chat-7")

    assert second.resolve("recipe_1") == 1
    assert store.trips == ["refer"]
    del first, second
    gc.collect()
    registry.conversation("chat-7").resolve("recipe_1")
    assert store.trips == ["refer", "resolve"]


def test_a_policy_is_a_plain_value() -> None:
    """Two policies with the same decisions are equal, and none can be changed."""
    assert RefPolicy() == RefPolicy(key_types=("uuid", "integer"), exclude=(), names={})
    with pytest.raises(AttributeError):
        RefPolicy().exclude = ("users",)  # type: ignore[misc]
