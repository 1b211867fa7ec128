"""A small registry for the commands' tests and their page."""

from __future__ import annotations

import uuid

from click.testing import CliRunner, Result
from sqlalchemy import Engine, text

from alfred_refs import RefRegistry
from alfred_refs.cli.commands import alfred_refs
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Activity, Address

KEYS = [uuid.UUID(int=0xA508000D9B5540F08886DBDD88BD2DE2 + n) for n in range(3)]

UNUSED = """
    update alfred_refs_conversation
    set begun_at = now() - interval '101 days', used_at = now() - interval '100 days'
    where id = :id
"""


def seed(engine: Engine) -> RefRegistry:
    """Fill the registry's tables: one conversation with an owner, one without, one long unused."""
    registry = RefRegistry(engine)
    chat = registry.conversation("chat-7", owner="ann")
    chat.begin_turn()
    chat.refer_all("recipe", KEYS)
    chat.refer("order_line", (12, 2))
    labels: dict[EntityKey, str] = {
        ("recipe", KEYS[0]): "Butter Chicken",
        ("recipe", KEYS[2]): "Garlic Naan",
    }
    registry._store.label(Address("chat-7", "ann"), labels)
    chat.note_gone([("recipe", KEYS[1])], "was deleted")
    done = [Activity(("recipe", KEYS[0]), "read"), Activity(("recipe", KEYS[2]), "created")]
    chat.note_activity(done, "model")
    chat.retain(["recipe_1"], "the favourite")
    registry.conversation("chat-8").refer_all("recipe", KEYS[:2])
    registry.conversation("chat-1", owner="bob").begin_turn()
    with engine.begin() as connection:
        connection.execute(text(UNUSED), {"id": "chat-1"})
    return registry


def run(engine: Engine, *arguments: str, **options: str | None) -> Result:
    """Run a command on the engine's database."""
    url = engine.url.render_as_string(hide_password=False)
    environ = {"ALFRED_REFS_DATABASE_URL": url, "COLUMNS": "80"}
    return CliRunner().invoke(alfred_refs, arguments, env=environ, **options)  # type: ignore[arg-type]
