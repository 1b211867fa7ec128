"""`export`, `import`, `fork`, `forget` and `prune`: what they make, what they leave."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, text

from alfred_refs import RefRegistry
from alfred_refs.cli.commands import alfred_refs
from tests.cli.seed import KEYS, UNUSED, run, seed

pytestmark = pytest.mark.tables


@pytest.fixture(autouse=True)
def registry(engine: Engine) -> RefRegistry:
    """A registry of three conversations."""
    return seed(engine)


def ids(registry: RefRegistry) -> list[str]:
    """Return the ids of all conversations, sorted."""
    return sorted(info.id for info in registry.conversations())


def test_an_export_can_be_imported(engine: Engine, registry: RefRegistry) -> None:
    """By pipe or by file, with the owner, and optionally under another id."""
    exported = run(engine, "export", "chat-7")
    assert json.loads(exported.stdout) == registry.conversation("chat-7", owner="ann").export()

    made = run(engine, "import", "--as", "copy", "--json", input=exported.stdout)

    assert (made.exit_code, made.stderr) == (0, "")
    [told] = json.loads(made.stdout)["conversations"]
    assert (told["id"], told["owner"], told["refs"]) == (
        "copy",
        "ann",
        {"order_line": 1, "recipe": 3},
    )
    copy = registry.conversation("copy", owner="ann")
    assert copy.resolve_all(["recipe_1", "order_line_1"]) == [KEYS[0], (12, 2)]


def test_an_export_file_is_private(engine: Engine, tmp_path: Path) -> None:
    """It has keys, so only its owner may read it; standard output has a summary."""
    file = tmp_path / "chat-7.json"

    result = run(engine, "export", "chat-7", "-o", str(file))

    assert result.stdout == "exported 'chat-7' of owner 'ann', with 4 refs\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(engine, "import", str(file), "--as", "copy").exit_code == 0


def test_a_file_that_cannot_be_written_is_an_error(engine: Engine, tmp_path: Path) -> None:
    """Exit code 1, with the name of the file."""
    result = run(engine, "export", "chat-7", "-o", str(tmp_path / "no" / "such"))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "No such file or directory" in result.stderr
    assert result.stderr.count("\n") == 1


def changed(**values: Any) -> str:
    """Return an export with some fields changed."""
    export = {"format": "alfred_refs.conversation", "version": 1, "id": "new", "owner": None}
    export |= {"turn": 0, "begun_at": "2026-11-22T10:00:00+00:00", "last": {"recipe": 1}}
    return json.dumps(export | {"refs": [{"ref": "recipe_1", "key": "int:7"}]} | values)


NOT_AN_EXPORT = {
    "": "the file is not JSON",
    "{'format'": "the file is not JSON",
    "[" * 100_000: "the file is not JSON",
    "9" * 10_000: "the file is not JSON",
    "\udcff": "the file is not JSON",
    "[]": "this is not a conversation that alfred_refs exported",
    '{"format": "theirs"}': "this is not a conversation that alfred_refs exported",
    changed(version=7): "the conversation was exported in version 7 of the format",
    changed(turn="a508000d"): "the export has a value that cannot be read: turn",
    changed(a508000d=1): "the export has a field that is not known: (unnamed)",
    changed(id="\x1b"): "a conversation's id is empty, too long or has control characters",
    changed(id=""): "a conversation's id is empty, too long or has control characters",
    changed(id="chat-8"): "conversation 'chat-8' cannot be created, because its id is taken",
}


def test_invalid_exports_are_refused(engine: Engine, registry: RefRegistry) -> None:
    """The error is one line without a possible key, and nothing is created."""
    url = engine.url.render_as_string(hide_password=False)
    arguments = ["import", "--url", url]
    for content, message in NOT_AN_EXPORT.items():
        data = content.encode("utf-8", "surrogateescape")
        text_ = CliRunner().invoke(alfred_refs, arguments, input=data)
        json_ = CliRunner().invoke(alfred_refs, [*arguments, "--json"], input=data)

        assert (text_.exit_code, text_.stdout, json_.exit_code, json_.stdout) == (1, "", 1, "")
        assert text_.stderr.startswith(f"Error: {message}")
        assert text_.stderr.count("\n") == 1
        assert "a508000d" not in text_.stderr
        assert json.loads(json_.stderr)["error"]["message"].startswith(message)
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_a_missing_file_is_misuse(engine: Engine) -> None:
    """Exit code 2, as for every command that reads a file."""
    result = run(engine, "import", "nonesuch.json")

    assert result.exit_code == 2
    assert "'nonesuch.json': No such file or directory" in result.stderr


def test_a_fork_has_the_owner_and_refs_of_its_source(
    engine: Engine, registry: RefRegistry
) -> None:
    """New refs are independent."""
    result = run(engine, "fork", "chat-7", "branch")

    assert result.stdout == "made 'branch' of owner 'ann', with 4 refs\n"
    assert registry.conversation("branch", owner="ann").refer("recipe", KEYS[2]) == "recipe_3"
    assert run(engine, "fork", "chat-8", "other").stdout == (
        "made 'other' without owner, with 2 refs\n"
    )


def test_a_fork_needs_an_id_of_its_own(engine: Engine, registry: RefRegistry) -> None:
    """One that is taken or invalid is refused on one line, and nothing is created."""
    for id_ in ("chat-8", "", "x" * 10_000, "a\x1bb"):
        result = run(engine, "fork", "chat-7", id_)
        assert (id_, result.exit_code, result.stdout) == (id_, 1, "")
        assert result.stderr.count("\n") == 1
        assert result.stderr.removesuffix("\n").isprintable()
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_forgetting_needs_a_confirmation(engine: Engine, registry: RefRegistry) -> None:
    """The question is on standard error, and only yes is a confirmation."""
    for answer, exit_code in (("n\n", 1), ("\n", 1), ("", 1), ("y\n", 0)):
        assert ids(registry) == ["chat-1", "chat-7", "chat-8"]
        result = run(engine, "forget", "chat-7", "--json", input=answer)
        assert (answer, result.exit_code) == (answer, exit_code)
        assert result.stderr.startswith("Forget 'chat-7' of owner 'ann', with 4 refs? [y/N]: ")
    assert json.loads(result.stdout)["id"] == "chat-7"
    assert ids(registry) == ["chat-1", "chat-8"]


def test_a_forgotten_conversation_can_be_imported_again(
    engine: Engine, registry: RefRegistry, tmp_path: Path
) -> None:
    """Each command counts the refs at that time, and no number is used twice."""
    file = str(tmp_path / "chat-7.json")
    said = [run(engine, "export", "chat-7", "-o", file).stdout]
    registry.conversation("chat-7", owner="ann").refer("recipe", KEYS[0].int)
    said.append(run(engine, "forget", "chat-7", "--yes").stdout)
    assert ids(registry) == ["chat-1", "chat-8"]
    assert (registry.stats().refs, registry.stats().left_counters) == ({"recipe": 2}, 2)

    said.append(run(engine, "import", file).stdout)

    assert said == [
        "exported 'chat-7' of owner 'ann', with 4 refs\n",
        "forgot 'chat-7' of owner 'ann', with 5 refs\n",
        "imported 'chat-7' of owner 'ann', with 4 refs\n",
    ]
    assert registry.describe("chat-7").refs == {"order_line": 1, "recipe": 3}
    assert registry.stats().refs == {"order_line": 1, "recipe": 5}
    assert (registry.stats().gone, registry.stats().left_counters) == (1, 0)
    chat = registry.conversation("chat-7", owner="ann")
    assert chat.refer("recipe", KEYS[1].int) == "recipe_5"
    assert run(engine, "forget", "chat-7", "--yes").stdout == said[1]


def test_refs_are_counted_when_the_conversation_is_forgotten(
    engine: Engine, registry: RefRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the question is asked: the application may mint refs meanwhile."""

    def think(question: str, **_: object) -> None:
        assert question == "Forget 'chat-8' without owner, with 2 refs?"
        registry.conversation("chat-8").refer("recipe", KEYS[2])

    monkeypatch.setattr("click.confirm", think)

    assert run(engine, "forget", "chat-8").stdout == "forgot 'chat-8' without owner, with 3 refs\n"


@pytest.fixture
def hers(registry: RefRegistry) -> list[str]:
    """A second conversation of an owner, the first of which was used later."""
    registry.conversation("chat-2", owner="ann").refer("recipe", KEYS[0])
    registry.conversation("chat-7", owner="ann").begin_turn()
    return ["chat-7", "chat-2"]


def test_an_owners_conversations_are_exported_and_imported(
    engine: Engine, registry: RefRegistry, hers: list[str], tmp_path: Path
) -> None:
    """One per line, the last used first, by pipe or by file."""
    file = tmp_path / "ann.jsonl"
    exports = [registry.conversation(id_, owner="ann").export() for id_ in hers]

    piped = run(engine, "export", "--owner", "ann").stdout
    told = run(engine, "export", "--owner", "ann", "-o", str(file))
    coded = run(engine, "export", "--owner", "ann", "-o", str(file), "--json")

    assert [json.loads(line) for line in piped.splitlines()] == exports
    assert file.read_text("ascii") == piped
    assert told.stdout.splitlines() == [
        "exported 'chat-7' of owner 'ann', with 4 refs",
        "exported 'chat-2' of owner 'ann', with 1 ref",
    ]
    assert [each["id"] for each in json.loads(coded.stdout)["conversations"]] == hers
    for id_ in hers:
        registry.conversation(id_, owner="ann").forget()
    assert run(engine, "import", str(file)).stdout == told.stdout.replace("exported", "imported")
    assert [registry.conversation(id_, owner="ann").export() for id_ in hers] == exports


@pytest.mark.usefixtures("hers")
def test_an_owners_conversations_are_forgotten(engine: Engine, registry: RefRegistry) -> None:
    """The question has their number, each is printed, and those of others stay."""
    refused = run(engine, "forget", "--owner", "ann", input="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Forget 2 conversations of owner 'ann', with 5 refs? [y/N]: ")
    assert ids(registry) == ["chat-1", "chat-2", "chat-7", "chat-8"]

    done = run(engine, "forget", "--owner", "ann", "--yes")

    assert done.stdout.splitlines() == [
        "forgot 'chat-7' of owner 'ann', with 4 refs",
        "forgot 'chat-2' of owner 'ann', with 1 ref",
    ]
    assert ids(registry) == ["chat-1", "chat-8"]
    coded = run(engine, "forget", "--owner", "bob", "--yes", "--json")
    assert [each["id"] for each in json.loads(coded.stdout)["conversations"]] == ["chat-1"]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something done by somebody else while the user is asked, who says yes."""

    def meanwhile(do: Callable[[], object]) -> None:
        monkeypatch.setattr("click.confirm", lambda *_, **__: do())

    return meanwhile


@pytest.mark.usefixtures("hers")
def test_conversations_forgotten_meanwhile_are_skipped(
    engine: Engine, registry: RefRegistry, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    """If there are several; a single one is an error."""
    meanwhile(registry.conversation("chat-7", owner="ann").forget)

    assert run(engine, "forget", "--owner", "ann").stdout == (
        "forgot 'chat-2' of owner 'ann', with 1 ref\n"
    )
    registry.conversation("chat-7", owner="ann").begin_turn()
    gone = run(engine, "forget", "chat-7")
    assert (gone.exit_code, gone.stdout) == (1, "")
    assert gone.stderr.startswith("Error: conversation 'chat-7' is not known here; ")


@pytest.mark.usefixtures("hers")
def test_conversations_begun_meanwhile_are_not_forgotten(
    engine: Engine, registry: RefRegistry, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    """The question did not include them."""
    meanwhile(registry.conversation("chat-9", owner="ann").begin_turn)

    assert "chat-9" not in run(engine, "forget", "--owner", "ann").stdout
    assert ids(registry) == ["chat-1", "chat-8", "chat-9"]


@pytest.mark.parametrize("command", ["export", "forget"])
def test_the_owner_of_a_conversation_is_checked(
    engine: Engine, registry: RefRegistry, command: str
) -> None:
    """Another owner's conversation is reported like a missing one."""
    yes = ["--yes"] if command == "forget" else []

    for conversation, owner in (("chat-7", "bob"), ("chat-8", "ann"), ("nonesuch", "ann")):
        result = run(engine, command, conversation, "--owner", owner, *yes)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"Error: conversation {conversation!r} is not known here; check its id, and the "
            "owner that it is opened for, if it has one\n"
        )
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]
    assert run(engine, command, "chat-7", "--owner", "ann", *yes).exit_code == 0


@pytest.mark.parametrize("command", ["export", "forget"])
def test_an_owner_without_conversations_is_an_error(engine: Engine, command: str) -> None:
    """A mistyped name must not look like success; passwords of URLs are hidden."""
    for owner, shown in (
        ("anne", "'anne'"),
        ("postgresql://me:hunter2@db/app", "'postgresql://…'"),
    ):
        result = run(engine, command, "--owner", owner)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"Error: owner {shown} has no conversations; "
            "look for the owner in what `alfred-refs list` prints\n"
        )
    wrong = run(engine, command, "--owner", "a\x00b", "--json")
    assert json.loads(wrong.stderr)["error"]["code"] == "ConversationIdError"


@pytest.mark.parametrize("command", ["export", "forget"])
def test_a_conversation_or_an_owner_is_required(
    engine: Engine, registry: RefRegistry, command: str
) -> None:
    """Without both it is misuse, and not all conversations."""
    result = run(engine, command)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "Pass a CONVERSATION, or --owner." in result.stderr
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_all_documents_are_checked_before_the_first_is_imported(
    engine: Engine, registry: RefRegistry
) -> None:
    """One invalid line prevents all; one id for several is misuse."""
    good, bad = changed(), changed(id="other", turn="x")

    for data in (f"{good}\n{bad}\n", f"{bad}\n\n{good}"):
        result = run(engine, "import", input=data)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: the export has a value that cannot be read: turn")
    together = run(engine, "import", "--as", "new", input=f"{good}\n{changed(id='other')}")
    assert (together.exit_code, together.stdout) == (2, "")
    assert "--as is for one conversation, and FILE has several." in together.stderr
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_documents_before_a_taken_id_are_imported(engine: Engine, registry: RefRegistry) -> None:
    """They are printed, so that the user can import the rest."""
    data = "\n".join(changed(id=id_) for id_ in ("new", "chat-8", "newer"))

    result = run(engine, "import", input=data)

    assert (result.exit_code, result.stdout) == (1, "imported 'new' without owner, with 1 ref\n")
    assert result.stderr.startswith(
        "Error: conversation 'chat-8' cannot be created, because its id"
    )
    assert ids(registry) == ["chat-1", "chat-7", "chat-8", "new"]


def test_unused_conversations_are_pruned(engine: Engine, registry: RefRegistry) -> None:
    """`--dry-run` only counts them."""
    with engine.begin() as connection:
        connection.execute(text(UNUSED), {"id": "chat-8"})

    counted = run(engine, "prune", "--older-than", "99d", "--dry-run", "--json")
    assert json.loads(counted.stdout) == {"conversations": 2, "dry_run": True}
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]

    pruned = run(engine, "prune", "--older-than", "99d")
    assert (pruned.stdout, pruned.stderr) == ("forgot 2 conversations\n", "")
    assert ids(registry) == ["chat-7"]


INVALID_AGES = [
    *["0d", "-1d", "+1d", "90", "d", "90m", "1.5d", "36501d"],
    "90 days",
    "",
    "9" * 99 + "d",
]


def test_an_invalid_age_is_misuse(engine: Engine, registry: RefRegistry) -> None:
    """Nothing is forgotten because of a missing unit or a wrong sign."""
    for command, age in product(("prune", "list"), INVALID_AGES):
        result = run(engine, command, f"--older-than={age}")
        assert (age, result.exit_code, result.stdout) == (age, 2, "")
        assert "is not an age; write 12h, 90d or 2w" in result.stderr
    assert ids(registry) == ["chat-1", "chat-7", "chat-8"]


def test_the_maximum_age_is_valid_for_postgresql(engine: Engine) -> None:
    """Its timestamps reach back that far."""
    assert run(engine, "prune", "--older-than", "36500d").stdout == "forgot 0 conversations\n"


def test_prune_requires_an_age(engine: Engine) -> None:
    """There is no default for a permanent deletion."""
    assert run(engine, "prune").exit_code == 2
