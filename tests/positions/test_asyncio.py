"""Lists edited by position in an asynchronous session, with each driver."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import create_async_engine

from alfred_refs import AsyncRefSession, RefRegistry
from alfred_refs.errors import DriftError
from alfred_refs.positions import Edit, EditableList, Modify, Move, Remove
from tests.positions.models import Week

PLAN = EditableList(Week, "sessions.exercises.sets")


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_run_sync_previews_and_applies(gym: Engine, week: uuid.UUID, driver: str) -> None:
    """It gives a list the session that the asynchronous one has; and waits for it."""
    engine = create_async_engine(gym.url.set(drivername=f"postgresql+{driver}"))
    registry = RefRegistry(engine)
    edits: list[Edit] = [Remove([3]), Move([1, 2], [2, 1]), Modify([2, 1, 1], {"reps": 12})]
    chat = registry.conversation("gym")
    async with AsyncRefSession(engine, conversation=chat, expire_on_commit=False) as session:
        ref = (await session.get_one(Week, week)).id
        preview = await session.run_sync(PLAN.preview, ref, edits)
        done = await session.run_sync(lambda each: PLAN.apply(each, ref, edits, expect=preview))
        await session.commit()
        with pytest.raises(DriftError):
            await session.run_sync(lambda each: PLAN.apply(each, ref, edits, expect=preview))
        now = await session.run_sync(PLAN.items, ref)
    await engine.dispose()

    assert ref == "week_1"
    assert now == done.after == preview.after
    assert [[each["name"] for each in workout["exercises"]] for workout in now] == [
        ["push 1"],
        ["push 2", "pull 1", "pull 2"],
    ]
    assert now[1]["exercises"][1]["sets"] == [{"reps": 12}, {"reps": 8}]
