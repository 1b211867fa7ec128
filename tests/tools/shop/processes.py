"""What the other processes of the tests do: one call, approval or undo, up to a step.

The steps are the statements and commits of the process. A process that is told one kills itself
when it comes to it, as `kill -9` does.
"""

from __future__ import annotations

import os
import signal
from threading import Barrier
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from tests.tools.shop.conftest import CHAT, MODELS


def bound(engine: Engine, consent: Any = None) -> BoundToolset:
    """Return a toolset with a journal, as each process binds it."""
    toolset = Toolset(MODELS, expect="optional", consent=consent)
    sessions = sessionmaker(engine, class_=RefSession)
    return toolset.bind(sessions, registry=RefRegistry(engine), journal=True)


def mortal(url: str, dies_at: int) -> Engine:
    """Return an engine whose process dies instead of a step, by its number."""
    engine = create_engine(url)
    left = [dies_at]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit", "checkin"):
        event.listen(engine.pool if name == "checkin" else engine, name, step)
    return engine


def call(url: str, dies_at: int, tool: str, given: Any, call_id: str) -> None:
    """Call a tool."""
    bound(mortal(url, dies_at)).call(*CHAT, tool, given, call_id=call_id)


def approve(url: str, dies_at: int, number: int) -> None:
    """Approve a call."""
    bound(mortal(url, dies_at), lambda _: True).approve(*CHAT, number, by="ann")


def undo(url: str, dies_at: int, number: int) -> None:
    """Undo a call."""
    bound(mortal(url, dies_at)).undo(*CHAT, call=number, by="ann")


def approve_together(begin: Barrier, url: str, number: int) -> str:
    """Approve a call at the same moment as others do, and return the answer."""
    toolset = bound(create_engine(url), lambda _: True)
    toolset.approvals("chat-7")  # connects
    begin.wait()
    return toolset.approve(*CHAT, number, by=f"process {os.getpid()}").text
