"""One unit of work: a `Session` that accepts and shows refs in place of keys.

    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        session.scalars(select(Recipe).where(Recipe.id == "recipe_1")).one().id    # 'recipe_1'

A statement takes this path:

    session.translate ─▶ translation.prepare ─▶ SQLAlchemy, on keys ─▶ translation.finish ─▶ caller
                              │                                             │
                  statements.plans, conversation.view               statements.results

| module | contents |
| --- | --- |
| `session` | `RefSession` and its event hooks |
| `asyncio` | `AsyncRefSession` (needs greenlet) |
| `translation` | one statement: prepare, execute, finish |
| `instances` | what key attributes show and accept; refs that wait for the flush; labels |
| `attributes` | the descriptors of key attributes; dictionary collections, pickles, `RefModel` |
| `drafts` | drafts as instances: `Session.get`, and saving with the flush |
| `transactions` | log of written rows, per savepoint; activity for prompts |
| `lookups` | rows that were not found; refs that errors may suggest |
| `redaction` | keys in exceptions of the driver and the ORM |

Packages above the plugin use the names below, and import `asyncio` directly, because it needs
greenlet.
"""

from .attributes import refuse_pydantic_without_mixin as refuse_pydantic_without_mixin
from .drafts import Builder as Builder, Link as Link, check_init as check_init
from .lookups import Identity as Identity, MissingRows as MissingRows
from .session import RefSession as RefSession, note_deleted as note_deleted, with_keys as with_keys
