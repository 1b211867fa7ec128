"""`list`, `show`, `resolve` and `stats`: what they print, for people and for programs."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, text

from alfred_refs import RefRegistry
from alfred_refs.store import Address, ChangeEntry, NewCall
from tests.cli.seed import KEYS, run, seed

pytestmark = pytest.mark.tables

HOSTILE = "\x1b[31mred\x1b[0m\r\n\x7f\u202e[bold]x[/bold]"


@pytest.fixture(autouse=True)
def registry(engine: Engine) -> RefRegistry:
    """A registry of three conversations."""
    return seed(engine)


def document(engine: Engine, *arguments: str) -> Any:
    """Return what a command prints with `--json`."""
    result = run(engine, *arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.slow
def test_conversations_of_all_owners_are_listed(engine: Engine) -> None:
    """With the owner, and the number of refs per entity."""
    found = document(engine, "list")["conversations"]

    assert {(each["id"], each["owner"], each["turn"]) for each in found} == {
        ("chat-7", "ann", 1),
        ("chat-8", None, 0),
        ("chat-1", "bob", 1),
    }
    assert {each["id"]: each["refs"] for each in found} == {
        "chat-7": {"order_line": 1, "recipe": 3},
        "chat-8": {"recipe": 2},
        "chat-1": {},
    }


@pytest.mark.slow
def test_an_age_selects_by_last_use(engine: Engine) -> None:
    """Not by when the conversation began."""
    found = document(engine, "list", "--older-than", "14w")["conversations"]

    assert [each["id"] for each in found] == ["chat-1"]
    assert document(engine, "list", "--older-than", "15w") == {"total": 0, "conversations": []}


def test_an_owner_selects_its_conversations(engine: Engine, registry: RefRegistry) -> None:
    """By the text of the owner; combined with an age, both apply."""
    registry.conversation("chat-2", owner="ann")
    registry.conversation("chat-3", owner=7).begin_turn()

    def listed(*arguments: str) -> list[str]:
        return [each["id"] for each in document(engine, "list", *arguments)["conversations"]]

    assert listed("--owner", "ann") == ["chat-7"]
    assert listed("--owner", "7") == ["chat-3"]
    assert listed("--owner", "bob", "--older-than", "90d") == ["chat-1"]
    assert listed("--owner", "ann", "--older-than", "90d") == []
    assert listed("--owner", "nobody") == []
    wrong = run(engine, "list", "--owner", "")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        "Error: a conversation's owner is empty, too long or has control characters; use 1 to 255 "
        "printable characters\n"
    )


def test_the_last_used_are_listed_first_up_to_a_limit(
    engine: Engine, registry: RefRegistry
) -> None:
    """Fifty by default; a note has the number of the others, and `total` that of all."""
    chats = [f"c{number:02}" for number in range(60)]
    for id_ in chats:
        registry.conversation(id_, owner="eve").begin_turn()
    registry.conversation("c07", owner="eve").begin_turn()
    latest = [
        "c07",
        *(id_ for id_ in reversed(chats) if id_ != "c07"),
        "chat-8",
        "chat-7",
        "chat-1",
    ]

    def listed(*arguments: str) -> tuple[list[str], str]:
        lines = run(engine, "list", *arguments).stdout.splitlines()[1:]
        rows, _, rest = "\n".join(lines).partition("\n\n")
        return [line.split()[0] for line in rows.splitlines()], rest

    assert listed() == (latest[:50], "13 more; --limit all lists all 63")
    assert listed("--limit", "2") == (latest[:2], "61 more; --limit all lists all 63")
    assert listed("--limit", "62") == (latest[:62], "1 more; --limit all lists all 63")
    for limit in ("63", "64", "999999999", "all"):
        assert listed("--limit", limit) == (latest, "")
    assert listed("--owner", "eve", "--limit", "1") == (
        ["c07"],
        "59 more; --limit all lists all 60",
    )
    cut = document(engine, "list", "--limit", "2", "--older-than", "1h")
    assert (cut["total"], [each["id"] for each in cut["conversations"]]) == (1, ["chat-1"])
    cut = document(engine, "list", "--limit", "2")
    assert (cut["total"], [each["id"] for each in cut["conversations"]]) == (63, latest[:2])


def test_an_invalid_limit_is_misuse(engine: Engine) -> None:
    """Nothing is listed."""
    for limit in ("0", "-1", "", "x", "1.5", "All", "9" * 99, "\u0661"):
        result = run(engine, "list", f"--limit={limit}")
        assert (limit, result.exit_code, result.stdout) == (limit, 2, "")
        assert "is not a limit; write a number from 1, or all." in result.stderr


def test_nothing_to_list_is_an_empty_table(engine: Engine) -> None:
    """It has the titles of its columns."""
    result = run(engine, "list", "--older-than", "100w")

    assert (result.exit_code, result.stdout.split()) == (
        0,
        ["conversation", "owner", "turn", "refs", "begun", "used"],
    )


def test_keys_are_printed_on_request_only(engine: Engine) -> None:
    """Without `--keys`, no form of output has them."""
    for arguments in (["show", "chat-7"], ["show", "chat-7", "--json"], ["list"], ["stats"]):
        assert "a508000d" not in run(engine, *arguments).output
    entries = document(engine, "show", "chat-7", "--keys")["entries"]

    assert [(each["ref"], each["gone"], each["key"]) for each in entries] == [
        ("order_line_1", None, ["int:12", "int:2"]),
        ("recipe_1", None, f"uuid:{KEYS[0]}"),
        ("recipe_2", "was deleted", f"uuid:{KEYS[1]}"),
        ("recipe_3", None, f"uuid:{KEYS[2]}"),
    ]


def test_labels_are_printed_with_refs(engine: Engine) -> None:
    """As a dash, or null in JSON, where there is none."""
    lines = run(engine, "show", "chat-7").stdout.splitlines()
    entries = document(engine, "show", "chat-7")["entries"]

    assert [line.split() for line in lines if line.startswith("recipe")] == [
        ["recipe_1", "Butter", "Chicken", "-"],
        ["recipe_2", "-", "was", "deleted"],
        ["recipe_3", "Garlic", "Naan", "-"],
    ]
    assert [(each["ref"], each["label"]) for each in entries] == [
        ("order_line_1", None),
        ("recipe_1", "Butter Chicken"),
        ("recipe_2", None),
        ("recipe_3", "Garlic Naan"),
    ]


@pytest.mark.usefixtures("one_base")
def test_drafts_are_printed_below_the_refs(engine: Engine, registry: RefRegistry) -> None:
    """With their state and without their content; with keys on request."""
    chat = registry.conversation("chat-7", owner="ann")
    for label in ("Soup", "a\nb", None):
        chat.draft("recipe", {"name": "hidden"}, label=label)
    chat.reserve_keys({"gen_recipe_1": KEYS[0], "gen_recipe_3": KEYS[1]})
    chat.confirm_drafts(["gen_recipe_1"])
    chat.discard_drafts(["gen_recipe_2"])

    lines = run(engine, "show", "chat-7").stdout.splitlines()[-3:]
    entries = document(engine, "show", "chat-7")["entries"][-3:]
    with_keys = document(engine, "show", "chat-7", "--keys")["entries"][-3:]

    assert [line.split(maxsplit=1) for line in lines] == [
        ["gen_recipe_1", "Butter Chicken  saved as recipe_1"],
        ["gen_recipe_2", "a b             discarded"],
        ["gen_recipe_3", "-               pending"],
    ]
    assert entries[0] == {
        "ref": "gen_recipe_1",
        "entity": "recipe",
        "number": 1,
        "label": "Butter Chicken",
        "gone": None,
        "draft": "saved",
        "saved": "recipe_1",
    }
    assert [each["key"] for each in with_keys] == [f"uuid:{KEYS[0]}", None, f"uuid:{KEYS[1]}"]


def test_a_long_conversation_is_printed_completely_and_in_order(
    engine: Engine, registry: RefRegistry
) -> None:
    """Tables are printed in parts; only the first has titles."""
    registry.conversation("long").refer_all("recipe", [uuid.uuid4() for _ in range(1_201)])

    lines = run(engine, "show", "long").stdout.splitlines()

    refs = [line.split()[0] for line in lines[lines.index("") + 2 :]]
    assert refs == [f"recipe_{n}" for n in range(1, 1_202)]
    assert [line.split() for line in lines].count(["ref", "label", "row"]) == 1
    assert len(document(engine, "show", "long")["entries"]) == 1_201


def test_keys_are_resolved_in_the_order_of_their_refs(engine: Engine) -> None:
    """One per line; the conversation's owner is not needed."""
    result = run(engine, "resolve", "chat-7", "recipe_3", "order_line_1", "recipe_3")

    assert result.stdout.splitlines() == [str(KEYS[2]), "(12, 2)", str(KEYS[2])]


BAD_REFS = {
    "recipe_9": "UnknownRefError",
    "recipe_2": "GoneRefError",
    "gen_recipe_1": "UnknownDraftError",
    str(KEYS[0]): "RawKeyError",
    "": "UnknownRefError",
    "\x1b[31m": "UnknownRefError",
    "x" * 10_000: "UnknownRefError",
}


@pytest.mark.slow
def test_one_bad_ref_refuses_all(engine: Engine) -> None:
    """The error has neither keys of the other refs nor control characters."""
    for ref, code in BAD_REFS.items():
        text_ = run(engine, "resolve", "chat-7", "recipe_1", ref)
        json_ = run(engine, "resolve", "chat-7", "recipe_1", ref, "--json")

        assert (text_.exit_code, text_.stdout, json_.exit_code, json_.stdout) == (1, "", 1, "")
        assert text_.stderr.startswith("Error: ")
        assert text_.stderr.removesuffix("\n").isprintable()
        assert (ref, json.loads(json_.stderr)["error"]["code"]) == (ref, code)
        assert "a508000d" not in text_.output + json_.output


@pytest.mark.parametrize("command", ["show", "resolve", "export", "fork", "forget"])
def test_an_unknown_conversation_is_one_line(engine: Engine, command: str) -> None:
    """Whatever its id, and also in JSON."""
    rest = {"resolve": ["recipe_1"], "fork": ["new"], "forget": ["--yes"]}.get(command, [])
    for id_ in ("nonesuch", "", "x" * 10_000, "a\x1b[31mb", "\udcff"):
        text_ = run(engine, command, id_, *rest)
        json_ = run(engine, command, id_, *rest, "--json")

        assert (id_, text_.exit_code, text_.stdout) == (id_, 1, "")
        assert text_.stderr.count("\n") == 1
        assert len(text_.stderr) < 300
        assert text_.stderr.removesuffix("\n").isprintable()
        code = "UnknownConversationError" if id_ == "nonesuch" else "ConversationIdError"
        assert json.loads(json_.stderr)["error"]["code"] == code


def test_control_characters_in_the_tables_are_escaped(
    engine: Engine, registry: RefRegistry
) -> None:
    """Markup is printed as it is; JSON contains the original text."""
    registry.conversation("hostile", owner="eve").refer("recipe", 7)
    registry.conversation("labelled").refer("recipe", 7)
    owned = "update alfred_refs_conversation set owner = :text where id = 'hostile'"
    labelled = (
        "update alfred_refs_mapping set label = :text where conversation = "
        "(select conversation from alfred_refs_conversation where id = 'labelled')"
    )
    with engine.begin() as connection:
        for change in (owned, labelled):
            connection.execute(text(change), {"text": HOSTILE})

    owners = [each["owner"] for each in document(engine, "list")["conversations"]]
    [entry] = document(engine, "show", "labelled")["entries"]

    assert HOSTILE in owners
    assert entry["label"] == HOSTILE
    for command in (["list"], ["show", "labelled"]):
        shown = run(engine, *command).stdout
        assert shown.replace("\n", "").isprintable()
        assert r"\x1b[31mred\x1b[0m\r\n\x7f\u202e[bold]x[/bold]" in shown
        assert run(engine, *command, "--json").stdout.replace("\n", "").isprintable()


def test_control_characters_in_text_keys_are_escaped(
    engine: Engine, registry: RefRegistry
) -> None:
    """A key is one line; JSON contains it exactly."""
    registry.conversation("text").refer("recipe", HOSTILE)

    for command in (["resolve", "text", "recipe_1"], ["show", "text", "--keys"]):
        assert run(engine, *command).stdout.replace("\n", "").isprintable()
    assert run(engine, "resolve", "text", "recipe_1").stdout.count("\n") == 1
    [found] = document(engine, "resolve", "text", "recipe_1")["keys"]
    assert found == {"ref": "recipe_1", "key": f"str:{HOSTILE}"}


def test_stats_are_those_of_the_registry(engine: Engine, registry: RefRegistry) -> None:
    """The command prints the same numbers."""
    found = document(engine, "stats")

    kept = registry.stats()
    assert {name: found[name] for name in ("conversations", "refs", "gone")} == {
        "conversations": 3,
        "refs": {"order_line": 1, "recipe": 5},
        "gone": 1,
    }
    assert found["table_bytes"] == kept.table_bytes


def test_the_history_has_values_only_where_they_are_asked_for(
    engine: Engine, registry: RefRegistry
) -> None:
    """For people it has the refs; keys are replaced."""
    change = ChangeEntry(
        *(0, 1, "recipes", "recipe_1", "Butter Chicken", "updated"),
        key={"id": str(KEYS[0])},
        before={"name": f"like {KEYS[0]}"},
        after={"name": "Butter Chicken"},
    )
    new = NewCall("db_update", {"table": "recipes"}, "done", "model", user="bob")
    registry._store.add_call(Address("chat-7", "ann"), new, [change])

    assert "recipe_1 updated" in run(engine, "history", "chat-7").stdout
    [call] = document(engine, "history", "chat-7")["calls"]
    assert (call["number"], call["user"], call["state"]) == (1, "bob", "done")
    assert call["changes"][0].keys() == {"table", "ref", "label", "action"}
    [call] = document(engine, "history", "chat-7", "--values")["calls"]
    assert call["changes"][0]["before"] == {"name": "like recipe_1"}
    assert document(engine, "history", "chat-7", "--turn", "7") == {"calls": []}
    assert document(engine, "history", "chat-7", "--ref", "recipe_2") == {"calls": []}
