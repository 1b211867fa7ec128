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
| `registry` | one for each application: opens conversations, and tells operators about all |
| `conversation` | a conversation as a whole: turns, branches, export, end |
| `view` | the same as one session sees it |
| `refmap`, `drafts` | refs of rows; refs of content that is not saved |
| `cache` | the mappings that this process knows, and which of their rows are gone |
| `draft_fields`, `draft_content`, `draft_rows`, `new_keys` | what drafts may hold, and become |
| `ref_errors` | which error a bad ref raises, and what could be used in its place |
| `activity` | what was done with rows, and what steps left |
| `scrubbing` | refs in the place of keys, in whatever is about to reach a model |
| `entries`, `export`, `imports` | a conversation told, and moved |

Nothing is imported here: an operator's command opens no conversation.
"""
