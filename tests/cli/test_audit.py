"""`alfred-refs audit`: keys in logs, by file and line, masked."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from alfred_refs.cli.commands import alfred_refs

KEY = "a508000d-9b55-40f0-8886-dbdd88bd2de2"


def audited(*arguments: str, given: str | None = None) -> tuple[int, str]:
    """Run the command, and return its exit code and what it says."""
    result = CliRunner().invoke(alfred_refs, ["audit", *arguments], input=given)
    return result.exit_code, result.output


def test_keys_are_printed_with_their_line(tmp_path: Path) -> None:
    """The kind is printed, and the key masked."""
    log = tmp_path / "prompts.log"
    log.write_text(f"recipe_1\nsee {KEY} twice {uuid.uuid4().hex}\n\nnow ..c69607bb\n", "utf-8")
    code, said = audited(str(log))
    assert code == 1
    lines = said.splitlines()
    assert lines[0] == f"{log}:2: whole: a508…"
    assert lines[2] == f"{log}:4: cut: c696…"
    assert KEY not in said


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"role": "user", "content": [{"text": f"x{KEY}"}]}),
        '{"content": "\\u0061508000d-9b55-40f0-8886-dbdd88bd2de2"}',
        json.dumps({KEY: 1}),
    ],
)
def test_json_lines_are_read_as_json(line: str) -> None:
    """A key is found even if its characters are escaped."""
    assert audited("-", given=f"{{}}\n{line}\n") == (1, "-:2: whole: a508…\n")


def test_a_log_without_keys_prints_nothing(tmp_path: Path) -> None:
    """Invalid UTF-8 is no error."""
    log = tmp_path / "prompts.log"
    log.write_bytes(b'{"rows": [{"id": "recipe_1"}]}\n\xff\xfe {"\\\\u00e9": 1}\n')
    assert audited(str(log)) == (0, "")


def test_a_missing_file_is_misuse() -> None:
    """Exit code 2, as for every command."""
    assert audited("nothing.log")[0] == 2
    assert audited()[0] == 2
