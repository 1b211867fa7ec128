"""What the other processes of the tests do: one call, approval or undo, up to a step.

The steps are the statements and commits of the process. A process that is told one kills itself
when it comes to it, as `kill -9` does.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from tests.tools.shop.conftest import MODELS


def bound(url: str, consent: Any = None, *, dies_at: int = 0) -> BoundToolset:
    """Return a desk with a journal, as each process makes it.

    Args:
        url: of the database.
        consent: as for `Toolset`.
        dies_at: the number of the step that is not done any more; 0 for none.
    """
    engine = create_engine(url, poolclass=NullPool)
    left = [dies_at]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if dies_at:
        for name in ("before_cursor_execute", "commit", "checkin"):
            event.listen(engine.pool if name == "checkin" else engine, name, step)
    toolset = Toolset(MODELS, expect="optional", consent=consent)
    sessions = sessionmaker(engine, class_=RefSession)
    return toolset.bind(sessions, registry=RefRegistry(engine), journal=True)


def call(url: str, dies_at: int, tool: str, given: Any, call_id: str) -> None:
    """Call a tool."""
    bound(url, dies_at=dies_at).call("chat-7", None, tool, given, call_id=call_id)


def approve(url: str, dies_at: int, number: int) -> None:
    """Approve a call."""
    bound(url, lambda _: True, dies_at=dies_at).approve("chat-7", None, number, by="ann")


def undo(url: str, dies_at: int, number: int) -> None:
    """Undo a call."""
    bound(url, dies_at=dies_at).undo("chat-7", None, call=number, by="ann")


def approve_together(url: str, barrier: Any, answers: Any, number: int) -> None:
    """Approve a call at the same moment as others do, and send the answer."""
    desk = bound(url, lambda _: True)
    desk.approvals("chat-7")  # connects
    barrier.wait(60)
    answers.put(desk.approve("chat-7", None, number, by=f"process {os.getpid()}").text)
