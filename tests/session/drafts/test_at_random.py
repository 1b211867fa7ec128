"""Drafts under any sequence of events: a model tells which rows and which drafts there must be.

One process works in a session, with flushes, savepoints and rollbacks. Another drafts, edits,
discards and saves in the same conversation meanwhile, and may die before the registry is told of
a row. What a third process finds is compared with the model after every event.
"""

from __future__ import annotations

import gc
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, SessionTransaction

from alfred_refs import (
    BadRefError,
    Conversation,
    GoneRefError,
    PostgresStore,
    RefRegistry,
    RefSession,
)
from tests.models import Recipe
from tests.profiles import examples

pytestmark = [pytest.mark.usefixtures("one_base"), pytest.mark.once]

# those of the session are the more likely ones
EVENTS = [
    *("draft", "edit", "discard", "save_elsewhere", "die_elsewhere"),
    *("add", "add_all", "rename", "flush", "delete", "commit", "commit", "roll_back"),
    *("begin_savepoint", "undo_savepoint", "release_savepoint", "try_in_savepoint"),
]

Event = tuple[str, int, int]


@dataclass(frozen=True)
class Kept:
    """What a draft holds, or the row that has become of it."""

    number: int
    parent: str | None


class Model:
    """A conversation, and what must have become of its drafts.

    Attributes:
        held: what drafts hold, or held before they were discarded or saved, by their refs.
        saved: what the rows hold that were drafts.
        discarded: the drafts that were.
        added: the objects that wait for a flush, with what they hold.
        flushed: what the rows hold that are not committed, by savepoint.
        deleted: the drafts whose rows were made and deleted again, by savepoint.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.id = uuid.uuid4().hex
        self.session = RefSession(engine, conversation=self.begun(), autoflush=False)
        self.other = self.begun()
        self.held: dict[str, Kept] = {}
        self.saved: dict[str, Kept] = {}
        self.discarded: set[str] = set()
        self.added: dict[str, tuple[Recipe, Kept]] = {}
        self.flushed: list[dict[str, tuple[Recipe, Kept]]] = [{}]
        self.deleted: list[set[str]] = [set()]
        self.savepoints: list[SessionTransaction] = []

    def begun(self) -> Conversation:
        """Return the conversation as a process has it that has just begun."""
        return RefRegistry(self.engine).conversation(self.id)

    def ref(self, n: int) -> str:
        """Return one of the drafts."""
        return [*self.held][n % len(self.held)]

    def content(self, kept: Kept) -> dict[str, Any]:
        """Return the content of a draft."""
        return {"name": self.name(kept), "parent_recipe_id": kept.parent}

    def name(self, kept: Kept) -> str:
        """Return the name of a row: of two drafts it may be the same."""
        return f"{self.id} {kept.number}"

    def is_pending(self, ref: str) -> bool:
        """Tell whether a draft is one for others than the session's transaction."""
        return ref not in self.saved and ref not in self.discarded

    def row(self, ref: str) -> Kept | None:
        """Return what the row of a draft holds, as the session sees it."""
        if self.is_deleted(ref):
            return None
        made = next((rows[ref] for rows in self.flushed if ref in rows), None)
        return self.saved.get(ref) if made is None else made[1]

    def is_deleted(self, ref: str) -> bool:
        """Tell whether the session's transaction has made the row of a draft, and deleted it."""
        return any(ref in refs for refs in self.deleted)

    # What others do

    def draft(self, n: int, m: int) -> None:
        """Draft a recipe, which may be a variant of one that is a draft or was."""
        kept = Kept(n, self.ref(m) if self.held and m else None)
        with refused(kept.parent in self.discarded):
            self.held[self.other.draft(Recipe, self.content(kept)).ref] = kept

    def edit(self, n: int, m: int) -> None:
        """Edit a draft: what the session has made of it is not another for that."""
        ref = self.ref(n)
        kept = replace(self.held[ref], number=m)
        with refused(not self.is_pending(ref) or kept.parent in self.discarded):
            self.other.edit_draft(ref, self.content(kept))
            self.held[ref] = kept

    def discard(self, n: int, _: int) -> None:
        """Discard a draft: a row that is committed later has the last word."""
        ref = self.ref(n)
        with refused(ref in self.saved):
            self.other.discard_drafts([ref])
            self.discarded.add(ref)

    def save_elsewhere(self, n: int, _: int) -> None:
        """Save a draft."""
        ref = self.ref(n)
        if any(ref in rows for rows in self.flushed) or ref in self.saved:
            return  # it would wait for the session's transaction; or there is nothing to save
        kept = self.held[ref]
        is_bad = ref in self.discarded or kept.parent not in {None, *self.saved}
        with RefSession(self.engine, conversation=self.other) as other, refused(is_bad):
            other.add(other.get(Recipe, ref))
            other.commit()
            self.saved[ref] = kept

    def die_elsewhere(self, n: int, m: int) -> None:
        """Save a draft, and die between the commit and the note of it."""
        with patch.object(PostgresStore, "confirm_drafts"):
            self.save_elsewhere(n, m)
        self.other = self.begun()

    # What the session does

    def add(self, n: int, _: int) -> None:
        """Add the object of a draft, or find its row."""
        ref = self.ref(n)
        if self.is_deleted(ref):
            with pytest.raises(GoneRefError):
                self.session.get(Recipe, ref)
            return
        if row := self.row(ref):
            assert self.session.get_one(Recipe, ref).name == self.name(row)
            return
        with refused(ref in self.discarded):
            recipe = self.session.get_one(Recipe, ref)
            known, kept = self.added.setdefault(ref, (recipe, self.held[ref]))
            assert recipe is known
            assert (recipe.id, recipe.name) == (ref, self.name(kept))
            assert recipe.parent_recipe_id == kept.parent
            self.session.add(recipe)

    def add_all(self, *_: int) -> None:
        """Add the objects of all that can be saved, the last first."""
        for n, ref in reversed([*enumerate(self.held)]):
            if self.is_pending(ref) and self.held[ref].parent not in self.discarded:
                self.add(n, 0)

    def rename(self, n: int, m: int) -> None:
        """Change an object that waits to be saved."""
        if self.added:
            ref = [*self.added][n % len(self.added)]
            recipe, kept = self.added[ref]
            self.added[ref] = recipe, replace(kept, number=m)
            recipe.name = self.name(self.added[ref][1])

    def flush(self, n: int, _: int) -> None:
        """Add the object of a draft, and flush."""
        self.add(n, 0)
        self.flushing(self.session.flush)

    def delete(self, n: int, _: int) -> None:
        """Delete a row that the transaction has made of a draft, and that no other names."""
        rows = {ref: self.row(ref) for ref in self.held}
        named = {row.parent for row in rows.values() if row is not None}
        named |= {kept.parent for _, kept in self.added.values()}
        mine = [ref for made in self.flushed for ref in made if rows[ref] and ref not in named]
        if mine:
            ref = mine[n % len(mine)]
            self.session.delete(self.session.get_one(Recipe, ref))
            if self.flushing(self.session.flush):
                self.deleted[-1].add(ref)

    def commit(self, *_: int) -> None:
        """Commit: what was flushed is there, whatever was said of the drafts meanwhile."""
        if self.flushing(self.session.commit):
            for rows in self.flushed:
                made = {ref: kept for ref, (_, kept) in rows.items() if not self.is_deleted(ref)}
                self.saved |= made
                self.discarded -= made.keys()
            self.start()

    def roll_back(self, *_: int) -> None:
        """Undo the whole transaction."""
        self.session.rollback()
        undone = {ref: made for rows in self.flushed for ref, made in rows.items()}
        self.undone(undone)
        self.start()

    def begin_savepoint(self, n: int, m: int) -> None:
        """Flush, begin a savepoint, and save a draft in it."""
        if self.flushing(lambda: self.savepoints.append(self.session.begin_nested())):
            self.flushed.append({})
            self.deleted.append(set())
            self.flush(n, m)

    def release_savepoint(self, *_: int) -> None:
        """Flush, and keep what was done since the last savepoint."""
        if self.savepoints and self.flushing(self.savepoints[-1].commit):
            self.savepoints.pop()
            kept, deleted = self.flushed.pop(), self.deleted.pop()
            self.flushed[-1] |= kept
            self.deleted[-1] |= deleted

    def undo_savepoint(self, *_: int) -> None:
        """Undo what was done since the last savepoint."""
        if self.savepoints:
            self.savepoints.pop().rollback()
            self.undone(self.flushed.pop())
            self.deleted.pop()
            self.forget()

    def try_in_savepoint(self, n: int, m: int) -> None:
        """Save a draft in a savepoint, and undo it at once."""
        self.begin_savepoint(n, m)
        self.undo_savepoint()

    def undone(self, rows: Mapping[str, tuple[Recipe, Kept]]) -> None:
        """Look at the objects of rows that were rolled back: they are those of drafts again."""
        for ref, (recipe, kept) in rows.items():
            if not self.is_deleted(ref):
                assert (recipe.id, recipe.name) == (ref, self.name(kept))

    def flushing(self, work: Callable[[], object]) -> bool:
        """Do what flushes, if all that waits can be saved; otherwise have all rolled back."""
        can_be_done = all(map(self.can_be_saved, self.added))
        # to the session a row that it has deleted is known until it commits, as ever
        names_deleted = any(self.is_deleted(str(kept.parent)) for _, kept in self.added.values())
        with refused(not can_be_done, IntegrityError if names_deleted else BadRefError):
            work()
        if not can_be_done:
            self.roll_back()
            return False
        self.flushed[-1] |= self.added
        self.added.clear()
        return True

    def can_be_saved(self, ref: str) -> bool:
        """Tell whether an object that waits can become a row."""
        parent = self.added[ref][1].parent
        is_there = parent is None or parent in self.added or self.row(parent) is not None
        return self.is_pending(ref) and is_there

    def start(self) -> None:
        """Go to a transaction in which nothing is done yet."""
        self.flushed, self.deleted, self.savepoints = [{}], [set()], []
        self.forget()

    def forget(self) -> None:
        """Forget the objects that were not saved: those that are dropped are made anew."""
        self.added.clear()
        gc.collect()

    # What there must be

    def check(self) -> None:
        """Compare all with what a process finds that knows nothing yet."""
        chat = self.begun()
        found = {each.ref: each for each in chat.drafts(states=["pending", "saved", "discarded"])}
        assert [*found] == [*self.held]
        for ref, draft in found.items():
            ended = "saved" if ref in self.saved else "discarded"
            assert draft.state == ("pending" if self.is_pending(ref) else ended)
            assert ref in self.saved or draft.content == self.content(self.held[ref])
        with Session(self.engine) as plain:
            rows = plain.scalars(select(Recipe).where(Recipe.name.startswith(self.id))).all()
            there = [(row.id, row.name, row.parent_recipe_id) for row in rows]
        keys = dict(zip(self.saved, chat.resolve_all([*self.saved]), strict=True))
        assert Counter(there) == Counter(
            (keys[ref], self.name(kept), keys.get(str(kept.parent)))
            for ref, kept in self.saved.items()
        )


def refused(expected: bool, error: type[Exception] = BadRefError) -> Any:
    """Expect a bad ref, or another error, or none."""
    return pytest.raises((BadRefError, error)) if expected else nullcontext()


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 5), st.integers(0, 5)),
        min_size=10,
        max_size=30,
    )
)
def test_rows_and_drafts_are_those_of_the_model(tables: Engine, events: Sequence[Event]) -> None:
    """After every event, for every process."""
    model = Model(tables)
    for number in range(3):
        model.draft(number, number)
    for name, n, m in events:
        getattr(model, name)(n, m)
        model.check()
    model.session.close()
    model.start()
    model.check()
