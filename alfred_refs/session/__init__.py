"""One unit of work: a `Session` in which refs stand for keys.

    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        session.scalars(select(Recipe).where(Recipe.id == "recipe_1")).one().id    # 'recipe_1'

`session` has `RefSession`, and `asyncio` its asynchronous twin. A statement passes five modules:

    events.translate ─▶ path.prepare ─▶ SQLAlchemy, on keys ─▶ path.finish ─▶ the program
                          │                                       │
                          statements.plans, conversation.view     statements.rows

| module | what is in it |
| --- | --- |
| `events` | every hook into SQLAlchemy, in a table, and who is asked there |
| `path` | a statement: prepared, executed, finished |
| `named_keys` | the keys that the refs in a statement name |
| `translation` | what a session in a conversation has beside a plain one |
| `instances/` | what instances show and accept: attributes, pending refs, pickles |
| `transactions` | what becomes of rows: a ref is durable before its row is |
| `activity`, `written_rows` | what is kept of it for prompts, where it is said by whom |
| `drafts/` | drafts as objects, saved with their rows |
| `redaction/` | errors with refs in place of keys |
| `alternate_keys` | values of a unique column that stand where others have primary keys |
| `missing_rows` | whether the row of a ref is there, of which nothing was found |
| `visible_refs` | which refs an error may name in a session that has an owner |

Others import `session`, `asyncio`, `missing_rows`, `drafts` and `instances.sqlmodel`. Nothing is
imported here: a class of SQLModel's needs its mixin, and no session.
"""
