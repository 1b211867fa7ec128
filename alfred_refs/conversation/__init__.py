"""The map of one conversation: what a ref is valid in, for as long as anybody uses it.

    registry = RefRegistry(engine)
    chat = registry.conversation("chat-7", owner="ann")
    chat.refer(Recipe, key)                                # 'recipe_1', minted once
    chat.resolve("recipe_1")                               # the key again
    chat.draft(Recipe, {"name": "Soup"}).ref               # 'gen_recipe_1': content, not a row yet

A look-up goes from `refmap`, which raises the error that `ref_errors` chooses, to `cache`, what
this process knows, and to the store only for what it does not.

| module | what is in it |
| --- | --- |
| `refs` | ref map: resolve and refer, with cache and error selection |
| `draft_fields` | draft content: JSON to column values, keys reserved for new rows |
| `drafts` | drafts: create, edit, discard |
| `conversation` | conversation: turns, activity, scrubbing of text, export |
| `view` | A session's view of its conversation |
| `imports` | import of exported conversations (pydantic: loaded when used) |
| `registry` | registry: opens conversations |

Nothing is imported here: an operator's command opens no conversation.
"""
