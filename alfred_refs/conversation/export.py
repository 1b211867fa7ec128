"""A conversation as JSON: what `Conversation.export()` returns and `import_conversation()` takes.

Nothing but JSON's own values is in it, and any JSON library carries it without loss: keys are
text, so that no number is rounded. It holds keys: it is for trusted code, never for a model.

    {"format": "alfred_refs.conversation", "version": 4,
     "id": "chat-7", "owner": "ann", "turn": 3, "begun_at": "2026-11-22T10:00:00+00:00",
     "last": {"recipe": 2},
     "refs": [{"ref": "recipe_1", "key": "uuid:a508000d-9b55-40f0-8886-dbdd88bd2de2",
               "label": "Butter Chicken"},
              {"ref": "recipe_2", "key": ["int:12", "str:b"], "gone": "was deleted"}],
     "last_drafts": {"recipe": 1},
     "tables": {"recipe": "recipes"},
     "drafts": [{"ref": "gen_recipe_1", "content": {"name": "Soup"}, "label": "Soup", "turn": 1,
                 "edited": 3, "version": 2, "state": "pending"}],
     "activity": [{"ref": "recipe_1", "action": "read", "actor": "model", "first_turn": 1,
                   "last_turn": 2, "seen_turn": 2, "seen": {"name": "Butter Chicken"}}],
     "steps": [{"turn": 2, "number": 1, "content": {"action": "step_complete"}}]}

A draft has the key that is reserved for its row, too, where one is. Version 1 has no drafts,
version 2 no `tables`: whose rows the refs are of; before version 4 there is no activity. `imports`
reads it back.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC
from typing import Any

from alfred_refs.mapping.keys import Key
from alfred_refs.store import ActivityEntry, DraftEntry, Entry, Exported

FORMAT = "alfred_refs.conversation"
VERSION = 4


def to_json(exported: Exported) -> dict[str, Any]:
    """Return a conversation as JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": exported.id,
        "owner": exported.owner,
        "turn": exported.turn,
        "begun_at": exported.begun_at.astimezone(UTC).isoformat(),
        "last": dict(sorted(exported.last.items())),
        "refs": [_ref_to_json(entry) for entry in exported.entries],
        "last_drafts": dict(sorted(exported.last_drafts.items())),
        "tables": dict(sorted(exported.tables.items())),
        "drafts": [_draft_to_json(draft) for draft in exported.drafts],
        "activity": [_activity_to_json(entry) for entry in exported.activity],
        "steps": [
            {"turn": step.turn, "number": step.number, "content": json.loads(step.content)}
            for step in exported.steps
        ],
    }


def key_to_json(key: Key) -> Any:
    """Return a key as text that tells its type, or a list of such texts."""
    match key:
        case uuid.UUID():
            return f"uuid:{key}"
        case int():
            return f"int:{key}"
        case str():
            return f"str:{key}"
        case _:
            return [key_to_json(part) for part in key]


def _ref_to_json(entry: Entry) -> dict[str, Any]:
    value = {"ref": str(entry.ref), "key": key_to_json(entry.key)}
    beside = {"gone": entry.gone, "label": entry.label}
    return value | {name: said for name, said in beside.items() if said is not None}


def _draft_to_json(draft: DraftEntry) -> dict[str, Any]:
    value = {
        "ref": str(draft.ref),
        "content": json.loads(draft.content),
        "turn": draft.turn,
        "edited": draft.edited,
        "version": draft.version,
        "state": draft.state,
    }
    key = None if draft.key is None else key_to_json(draft.key)
    beside = {"label": draft.label, "key": key}
    return value | {name: said for name, said in beside.items() if said is not None}


def _activity_to_json(entry: ActivityEntry) -> dict[str, Any]:
    value = {
        "ref": str(entry.ref),
        "action": entry.action,
        "actor": entry.actor,
        "first_turn": entry.first_turn,
        "last_turn": entry.last_turn,
    }
    beside = {
        "reason": entry.reason,
        "demoted": entry.demoted or None,
        "seen_turn": entry.seen_turn,
        "seen": entry.seen,
    }
    return value | {name: said for name, said in beside.items() if said is not None}
