"""`alfred-refs inspect`: served on this machine, for the one who has the printed address."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from alfred_refs.cli.commands import alfred_refs

PROGRAM = """
import uuid
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker
from alfred_refs import Ownership, RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset

class Base(DeclarativeBase):
    pass

class Lamp(Base):
    __tablename__ = "lamps"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    keeper: Mapped[int]

registry = RefRegistry(store=MemoryStore())
sessions = sessionmaker(create_engine("sqlite://"), class_=RefSession)
toolset = Toolset([Lamp], owner=Ownership({Lamp: "keeper"}))
desk = toolset.bind(sessions, registry=registry)
desk.conversation("of-seven", 7).begin_turn()
desk.conversation("of-eight", 8).begin_turn()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with a desk, in the current directory; its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lamp_program.py").write_text(PROGRAM)
    yield "lamp_program"
    sys.modules.pop("lamp_program", None)


def run(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(alfred_refs, ["inspect", *arguments])


def test_the_printed_address_opens_the_pages(program: str, tmp_path: Path) -> None:
    """For the one who has it; of one owner's conversations if that is asked for."""
    command = [sys.executable, "-m", "alfred_refs.cli", "inspect", f"{program}:desk"]
    options: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--port", "0", "--owner", "7"], **options) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("open ").strip()
            without_token = httpx.get(address.partition("?")[0])
            with httpx.Client(follow_redirects=True) as client:
                page = client.get(address)
        finally:
            process.terminate()

    assert address.startswith("http://127.0.0.1:")
    assert without_token.status_code == 403
    assert (page.status_code, "token" in str(page.url)) == (200, False)
    assert ("of-seven" in page.text, "of-eight" in page.text) == (True, False)
    assert "server" not in page.headers


def test_what_is_no_desk_is_refused(program: str) -> None:
    """With a line that says what to name."""
    result = run(f"{program}:toolset")

    assert result.exit_code == 1
    assert "name the result of Toolset.bind(...)" in result.stderr


def test_a_port_that_is_in_use_is_refused(program: str) -> None:
    """With the system's reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run(f"{program}:desk", "--port", port)

    assert result.exit_code == 1
    assert f"port {port} cannot be served" in result.stderr
