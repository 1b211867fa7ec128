"""`export`, `import`, `fork`, `forget` and `prune`: what they make, what they leave."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, text

from alfred_refs import RefRegistry, UnknownConversationError
from alfred_refs.commands import alfred_refs
from tests.commands.seed import KEYS, UNUSED, run, seed

pytestmark = [pytest.mark.tables, pytest.mark.once]


@pytest.fixture(autouse=True)
def registry(engine: Engine) -> RefRegistry:
    """A registry of three conversations."""
    return seed(engine)


def ids(registry: RefRegistry) -> list[str]:
    """Return the ids of all conversations, sorted."""
    return sorted(info.id for info in registry.conversations())


def test_what_was_exported_is_imported(engine: Engine, registry: RefRegistry) -> None:
    """By pipe or by file, with the owner, and under another id if one is given."""
    exported = run(engine, "export", "chat-7")
    assert json.loads(exported.stdout) == registry.conversation("chat-7", owner="ann").export()

    made = run(engine, "import", "--as", "copy", "--json", input=exported.stdout)

    assert (made.exit_code, made.stderr) == (0, "")
    assert json.loads(made.stdout)["owner"] == "ann"
    copy = registry.conversation("copy", owner="ann")
    assert copy.resolve_all(["recipe_1", "order_line_1"]) == [KEYS[0], (12, 2)]


def test_an_export_is_for_its_owners_eyes(engine: Engine, tmp_path: Path) -> None:
    """The file has keys: nobody else may read it; standard output tells only what it is."""
    file = tmp_path / "chat-7.json"

    result = run(engine, "export", "chat-7", "-o", str(file))

    assert result.stdout == "exported 'chat-7' of owner 'ann', with 4 refs\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(engine, "import", str(file), "--as", "copy").exit_code == 0


def test_a_file_that_cannot_be_written_is_told(engine: Engine, tmp_path: Path) -> None:
    """It is exit code 1, by its name."""
    result = run(engine, "export", "chat-7", "-o", str(tmp_path / "no" / "such"))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "No such file or directory" in result.stderr
    assert result.stderr.count("\n") == 1


def changed(**values: Any) -> str:
    """Return an export with some fields changed."""
    export = {"format": "alfred_refs.conversation", "version": 1, "id": "new", "owner": None}
    export |= {"turn": 0, "begun_at": "2026-11-22T10:00:00+00:00", "last": {"recipe": 1}}
    return json.dumps(export | {"refs": [{"ref": "recipe_1", "key": "int:7"}]} | values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "the file is not JSON"),
        ("{'format'", "the file is not JSON"),
        ("[" * 100_000, "the file is not JSON"),
        ("9" * 10_000, "the file is not JSON"),
        ("\udcff", "the file is not JSON"),
        ("[]", "this is not a conversation that alfred_refs exported"),
        ('{"format": "theirs"}', "this is not a conversation that alfred_refs exported"),
        (changed(version=4), "the conversation was exported in version 4 of the format"),
        (changed(turn="a508000d"), "the export has a value that cannot be read: turn"),
        (changed(a508000d=1), "the export has a field that is not known: (unnamed)"),
        (changed(id="\x1b"), "a conversation's id is empty, too long or has control characters"),
        (changed(id=""), "a conversation's id is empty, too long or has control characters"),
        (changed(id="chat-8"), "conversation 'chat-8' cannot be made, because its id is taken"),
    ],
)
def test_what_is_no_export_is_refused(
    engine: Engine, registry: RefRegistry, given: str, said: str
) -> None:
    """On one line, without what may be a key, and nothing is made."""
    url = engine.url.render_as_string(hide_password=False)
    arguments = ["import", "--url", url]
    data = given.encode("utf-8", "surrogateescape")

    told = CliRunner().invoke(alfred_refs, arguments, input=data)
    coded = CliRunner().invoke(alfred_refs, [*arguments, "--json"], input=data)

    assert (told.exit_code, told.stdout, coded.exit_code, coded.stdout) == (1, "", 1, "")
    assert told.stderr.startswith(f"Error: {said}")
    assert told.stderr.count("\n") == 1
    assert "a508000d" not in told.stderr
    assert json.loads(coded.stderr)["error"]["message"].startswith(said)
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_a_file_that_is_not_there_is_misuse(engine: Engine) -> None:
    """As for every command that reads a file."""
    result = run(engine, "import", "nonesuch.json")

    assert result.exit_code == 2
    assert "'nonesuch.json': No such file or directory" in result.stderr


def test_a_fork_goes_on_by_itself(engine: Engine, registry: RefRegistry) -> None:
    """It has the refs and the owner of the other."""
    result = run(engine, "fork", "chat-7", "branch")

    assert result.stdout == "made 'branch' of owner 'ann', with 4 refs\n"
    assert registry.conversation("branch", owner="ann").refer("recipe", KEYS[2]) == "recipe_3"
    assert run(engine, "fork", "chat-8", "other").stdout == (
        "made 'other' without owner, with 2 refs\n"
    )


@pytest.mark.parametrize("id_", ["chat-8", "", "x" * 10_000, "a\x1bb"])
def test_a_fork_needs_an_id_of_its_own(engine: Engine, registry: RefRegistry, id_: str) -> None:
    """One that is taken, or none at all, is refused on one line, and nothing is made."""
    result = run(engine, "fork", "chat-7", id_)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.removesuffix("\n").isprintable()
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


@pytest.mark.parametrize(
    ("answer", "exit_code", "left"),
    [("y\n", 0, ["chat-1", "chat-8"]), ("n\n", 1, None), ("\n", 1, None), ("", 1, None)],
)
def test_forgetting_is_asked_for(
    engine: Engine, registry: RefRegistry, answer: str, exit_code: int, left: list[str] | None
) -> None:
    """On standard error, and only a yes will do."""
    result = run(engine, "forget", "chat-7", "--json", input=answer)

    assert result.exit_code == exit_code
    assert result.stderr.startswith("Forget 'chat-7' of owner 'ann', with 4 refs? [y/N]: ")
    assert ids(registry) == (left or ["chat-1", "chat-7", "chat-8"])
    if exit_code == 0:
        assert json.loads(result.stdout)["id"] == "chat-7"


def test_what_is_forgotten_is_not_there(engine: Engine, registry: RefRegistry) -> None:
    """With `--yes` nothing is asked."""
    result = run(engine, "forget", "chat-7", "--yes")

    assert (result.output, result.exit_code) == (
        "forgot 'chat-7' of owner 'ann', with 4 refs\n",
        0,
    )
    with pytest.raises(UnknownConversationError):
        registry.describe("chat-7")


def test_what_is_unused_is_pruned(engine: Engine, registry: RefRegistry) -> None:
    """First counted, then forgotten, and the rest is left."""
    with engine.begin() as connection:
        connection.execute(text(UNUSED), {"id": "chat-8"})

    counted = run(engine, "prune", "--older-than", "99d", "--dry-run", "--json")
    assert json.loads(counted.stdout) == {"conversations": 2, "dry_run": True}
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]

    pruned = run(engine, "prune", "--older-than", "99d")
    assert (pruned.stdout, pruned.stderr) == ("forgot 2 conversations\n", "")
    assert ids(registry) == ["chat-7"]


@pytest.mark.parametrize(
    "age", ["0d", "-1d", "+1d", "90", "d", "90m", "1.5d", "90 days", "", "36501d", "9" * 99 + "d"]
)
@pytest.mark.parametrize("command", ["prune", "list"])
def test_what_is_no_age_is_misuse(
    engine: Engine, registry: RefRegistry, command: str, age: str
) -> None:
    """Nothing is forgotten for want of a unit, or of a minus sign too many."""
    result = run(engine, command, f"--older-than={age}")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no age; write 12h, 90d or 2w" in result.stderr
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_the_greatest_age_is_not_too_much_for_the_server(engine: Engine) -> None:
    """PostgreSQL's clock goes back that far."""
    assert run(engine, "prune", "--older-than", "36500d").stdout == "forgot 0 conversations\n"


def test_pruning_needs_an_age(engine: Engine) -> None:
    """There is no default for what is lost for good."""
    assert run(engine, "prune").exit_code == 2
