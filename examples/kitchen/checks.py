"""Check a conversation: no key on the model's side, one key for each ref, one row for each draft.

In go the turns, and the keys of the database; out come the texts that show a key, the keys that
each ref named, and the rows that drafts became. A key counts as shown in any spelling of a UUID,
and by its beginning, which is how an abbreviation would show it. A UUID that is no key counts too.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set as AbstractSet
from typing import Final

from sqlalchemy import ARRAY, Engine, Uuid, func, select
from sqlalchemy.orm import Session

from examples.kitchen.models import Base
from examples.kitchen.transcript import Turn

BEGINNING: Final = 8  # what a UUID has before its first hyphen
ANY_UUID: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)


def keys_in(engine: Engine) -> set[uuid.UUID]:
    """Return every key in the kitchen's tables, those in arrays included."""
    keys: set[uuid.UUID] = set()
    with Session(engine) as session:
        for column in (column for table in Base.metadata.sorted_tables for column in table.c):
            if isinstance(column.type, Uuid):
                keys.update(session.scalars(select(column).where(column.is_not(None)).distinct()))
            elif isinstance(column.type, ARRAY) and isinstance(column.type.item_type, Uuid):
                keys.update(session.scalars(select(func.unnest(column)).distinct()))
    return keys


def showing_keys(texts: Iterable[str], keys: Iterable[uuid.UUID]) -> list[str]:
    """Return the texts that show one of the keys, or any UUID."""
    beginnings = {key.hex[:BEGINNING] for key in keys}
    return [text for text in texts if ANY_UUID.search(text) or _pieces(text) & beginnings]


def _pieces(text: str) -> AbstractSet[str]:
    """Return every part of a text that is as long as the beginning of a key."""
    lower = text.lower()
    return {lower[start : start + BEGINNING] for start in range(len(lower) - BEGINNING + 1)}


def keys_by_ref(turns: Iterable[Turn]) -> Mapping[str, AbstractSet[str]]:
    """Return what the database had wherever the model saw a ref: one key, if all is well."""
    named = defaultdict(set)
    for exchange in (exchange for turn in turns for exchange in turn.exchanges):
        for model, database in zip(exchange.model, exchange.database, strict=True):
            for field in model.keys() & database.keys():
                if ANY_UUID.fullmatch(database[field]):
                    named[model[field]].add(database[field])
    return named


def with_keys(texts: Iterable[str], named: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return texts with a key in place of each ref that one is known of."""
    refs = re.compile(r"\b[a-z_]+_[0-9]+\b")
    return [refs.sub(lambda m: min(named.get(m[0], {m[0]})), text) for text in texts]


def wrongly_saved(turns: Iterable[Turn], new: int) -> list[str]:
    """Return what drafts became, where that is not one new row for each that was saved.

    Args:
        turns: in whose answers it is told which row a draft became.
        new: how many rows there are more than before.
    """
    became = defaultdict[str, set[str]](set)
    for exchange in (exchange for turn in turns for exchange in turn.exchanges):
        for draft, row in exchange.answer.get("saved", {}).items():
            became[draft].add(row)
    if all(len(rows) == 1 for rows in became.values()) and len(became) == new:
        return []
    told = [f"{draft}: {', '.join(sorted(rows))}" for draft, rows in became.items()]
    return [f"new rows: {new}", *told]
