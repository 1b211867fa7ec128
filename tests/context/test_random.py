"""Any sequence of work and turns, against a plain account of what should be told."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Toolset
from tests.context.conftest import is_
from tests.fix_session import TravelLog
from tests.profiles import examples
from tests.tools.conftest import MODELS
from tests.tools.models import Dish

NAMES = "abc"
WRITTEN = {"created", "updated", "updated by the user"}

TOOLSET = Toolset(MODELS, expect="optional")

# what a model does -> the tool, and what is told of it
CALLS = {
    "read": ("db_read", "read"),
    "change": ("db_update", "updated"),
    "remove": ("db_delete", "deleted"),
}

WORK = st.one_of(
    st.tuples(st.just("turn"), st.just("")),
    *(
        st.tuples(st.just(what), st.sampled_from(NAMES))
        for what in (
            *(*CALLS, "user changes", "user rolls back", "user removes"),
            *("others remove", "retain", "demote"),
        )
    ),
)


@dataclass
class Account:
    """What is told of one dish: nothing, before anything was done with it."""

    done: str = ""
    turn: int = 0
    there: bool = True
    retained: bool = False
    demoted: bool = False

    def note(self, done: str, turn: int) -> None:
        """Something was done."""
        if not (done == "read" and self.done in WRITTEN and self.turn == turn):
            self.done, self.turn = done, turn
        self.demoted = False

    def line(self, ref: str, name: str, now: int) -> str | None:
        """Return what is told of it."""
        if self.demoted or not (self.done or self.retained):
            return None
        if not self.done:
            return f'- {ref} "{name}", kept because "why"' if self.there else None
        done = self.done if self.there else "deleted"
        if self.done == "deleted by the user":
            done = self.done
        told = f'- {ref} "{name}" ({done} in turn {self.turn})'
        told += ', kept because "why"' if self.retained and not done.startswith("deleted") else ""
        return told if self.turn > now - 3 or (self.retained and self.there) else None


class World:
    """Three dishes, a conversation about them, and an account of each."""

    def __init__(self, engine: Engine, store: TravelLog) -> None:
        self.chat = RefRegistry(store=store).conversation(uuid.uuid4().hex)
        self.accounts = {name: Account() for name in NAMES}
        self._engine = engine
        self._servings = 0
        self._sessions = sessionmaker(engine, class_=RefSession, conversation=self.chat)
        with Session(engine) as plain, plain.begin():
            plain.execute(delete(Dish))
            plain.add_all([Dish(name=name) for name in NAMES])
        with self._sessions() as session:
            self.refs = {dish.name: dish.id for dish in session.scalars(select(Dish))}
        self.turn = self.chat.begin_turn()

    def work(self, what: str, name: str) -> None:
        """Do something, and write it down."""
        if what == "turn":
            self.turn = self.chat.begin_turn()
        elif what in CALLS:
            self._call(what, name)
        elif self.accounts[name].there:
            {"user": self._as_user, "others": self._as_others}.get(
                what.split(maxsplit=1)[0], self._curate
            )(what, name)

    def _call(self, what: str, name: str) -> None:
        account, (tool, done) = self.accounts[name], CALLS[what]
        assert self._is_done(tool, name) == account.there
        if account.there:
            account.note(done, self.turn)
            account.there = what != "remove"

    def _is_done(self, tool: str, name: str) -> bool:
        with self._sessions(by="model") as session:
            asked: dict[str, Any] = {"table": "dishes", "filters": is_(self.refs[name])}
            if tool == "db_update":
                self._servings += 10  # another number than the user comes to
                asked["data"] = {"servings": self._servings}
            return "error" not in TOOLSET.call(session, tool, asked)

    def _as_others(self, _: str, name: str) -> None:
        """Delete a row behind the conversation's back, and look for it."""
        with Session(self._engine) as plain, plain.begin():
            plain.execute(delete(Dish).where(Dish.name == name))
        assert not self._is_done("db_update", name)
        self.accounts[name].there = False
        self.accounts[name].note("deleted", self.turn)

    def _as_user(self, what: str, name: str) -> None:
        account = self.accounts[name]
        with self._sessions(by="user") as session:
            dish = session.get_one(Dish, self.refs[name])
            if what == "user removes":
                session.delete(dish)
            else:
                dish.servings = (dish.servings or 0) + 1
            session.flush()
            if what == "user rolls back":
                return
            session.commit()
        account.there = what != "user removes"
        done = "updated" if account.there else "deleted"
        account.note(f"{done} by the user", self.turn)

    def _curate(self, what: str, name: str) -> None:
        account = self.accounts[name]
        if what == "retain":
            self.chat.retain([self.refs[name]], "why")
            account.retained, account.demoted = True, False
        else:
            self.chat.demote([self.refs[name]])
            account.demoted = bool(account.done) or account.retained

    def expected(self) -> set[str]:
        """Return the lines that are to be told."""
        lines = (self.accounts[n].line(self.refs[n], n, self.turn) for n in NAMES)
        return {line for line in lines if line is not None}


@pytest.mark.slow
def test_what_is_told_is_what_was_done(tables: Engine, store: TravelLog) -> None:
    """By the model, by the user, by others, kept or rolled back, over turns."""

    @settings(
        max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(st.lists(WORK, max_size=14))
    @example([("read", "a"), ("others remove", "a"), ("change", "a"), ("turn", ""), ("read", "b")])
    @example([("change", "a"), ("user removes", "a"), ("read", "a"), ("retain", "a")])
    @example([("retain", "a"), ("demote", "a"), ("turn", "")])
    def check(work: list[tuple[str, str]]) -> None:
        world = World(tables, store)
        for what, name in work:
            world.work(what, name)
        told = Context(world.chat).render("think").splitlines()
        assert {line for line in told if line.startswith("-")} == world.expected()

    check()
