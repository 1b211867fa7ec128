"""One unit of work: a `Session` in which refs stand for keys.

    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        session.scalars(select(Recipe).where(Recipe.id == "recipe_1")).one().id    # 'recipe_1'

`session` has `RefSession`, and `asyncio` its asynchronous twin. A statement passes five modules:

    events.translate ─▶ path.prepare ─▶ SQLAlchemy, on keys ─▶ path.finish ─▶ the program
                          │                                       │
                          statements.plans, conversation.view     statements.rows

| module | what is in it |
| --- | --- |
| `session` | refSession and its event hooks |
| `asyncio` | asyncRefSession (needs greenlet) |
| `translation` | translation of one statement: prepare, execute, finish |
| `lookups` | look-ups of rows beside the statement: alternate keys, missing rows, suggestions |
| `attributes` | instrumented key attributes and collections of mapped classes; RefModel for |
| `instances` | identity of instances: refs shown, refs pending for the flush |
| `drafts` | drafts as instances: build, add, save with the flush |
| `redaction` | redaction of keys in exceptions of the driver and the ORM |
| `transactions` | transaction log: written rows, savepoints, activity on commit |

Others import `session`, `asyncio`, `missing_rows`, `drafts` and `instances.sqlmodel`. Nothing is
imported here: a class of SQLModel's needs its mixin, and no session.
"""
