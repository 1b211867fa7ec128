"""Conversations: the scope in which refs are valid.

    registry = RefRegistry(engine)
    chat = registry.conversation("chat-7", owner="ann")
    chat.refer(Recipe, key)                                # 'recipe_1', minted once
    chat.resolve("recipe_1")                               # the key again
    chat.draft(Recipe, {"name": "Soup"}).ref               # 'gen_recipe_1': not a row yet

| module | contents |
| --- | --- |
| `registry` | `RefRegistry`: opens conversations; methods for operators |
| `conversation` | `Conversation`: turns, activity, calls, scrubbing, forks, exports |
| `view` | `SessionConversation`: a session's view of its conversation |
| `drafts` | `DraftMap`: create, edit and discard drafts |
| `draft_content` | the content of drafts: JSON checked against a mapped class |
| `draft_rows` | the rows of drafts: keys decided before the insert, look-ups |
| `refs` | `RefMap`: resolve and refer; errors for bad refs, with suggestions |
| `caches` | what this process knows of a conversation |
| `alternates` | rows of alternate keys, looked up by a unique column |
| `scrub` | refs in place of keys in text and JSON |
| `export` | the JSON format of exports (loads pydantic: import it when used) |

A look-up goes from `refs` to `caches`, and to the store only for refs and keys that are not
cached.

Packages above the plugin use the names below, and import `export` directly, because it loads
pydantic.
"""

from .conversation import Conversation as Conversation
from .draft_content import (
    NewRow as NewRow,
    class_of as class_of,
    explicit_class as explicit_class,
    parse_content as parse_content,
    unknown_class_error as unknown_class_error,
)
from .draft_rows import check_draftable as check_draftable
from .drafts import Draft as Draft
from .refs import RefEntry as RefEntry
from .registry import RefRegistry as RefRegistry
from .scrub import mask_keys as mask_keys
from .view import DryRunDraftError as DryRunDraftError, SessionConversation as SessionConversation
