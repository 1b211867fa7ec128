"""Where the map between refs and keys is kept: in PostgreSQL, or in this process's memory.

`Store` says what every store promises; `PostgresStore` shares the map between processes,
`MemoryStore` is for tests and scripts. Both pass the same tests.

```python
store = MemoryStore()
chat = Address("chat-7", owner="ann")
[entry] = store.refer(chat, [("recipe", 4711)])  # mints recipe_1
store.resolve(chat, [entry.ref])[entry.ref].key  # 4711
```

`protocol` has what a store does, `values` and `activity` what it takes and returns.

A call of `PostgresStore` goes from `postgres` (refs), `postgres_drafts`, `postgres_activity` or
`postgres_conversations`, which read values into parameters and rows into values, to `connections`,
which has a pool of our own and sends one statement alone or a transaction in one trip. The SQL is
in `sql_*`, the types of its parameters in `sql_parameters`; `faults` says what an error of the
driver means. Beside it stand `tables` and `migrate`, which makes them, `alembic` for applications
that do so themselves, `memory`, and `instrumented`, which counts the calls of any store for
`telemetry`.

A process uses one store: each is imported when it is first asked for.
"""

from .protocol import (
    INSIDE as INSIDE,
    KEPT_TURNS as KEPT_TURNS,
    NO_LABELS as NO_LABELS,
    NOTED_EVERY as NOTED_EVERY,
    Action as Action,
    Activity as Activity,
    ActivityEntry as ActivityEntry,
    ActivityRecord as ActivityRecord,
    Actor as Actor,
    Address as Address,
    ConversationInfo as ConversationInfo,
    DraftEdit as DraftEdit,
    DraftEntry as DraftEntry,
    DraftState as DraftState,
    Entry as Entry,
    Exported as Exported,
    Gone as Gone,
    NewDraft as NewDraft,
    RegistryStats as RegistryStats,
    StepEntry as StepEntry,
    Store as Store,
    json_text as json_text,
    owner_text as owner_text,
)

__all__ = [
    "INSIDE",
    "KEPT_TURNS",
    "NOTED_EVERY",
    "Action",
    "Activity",
    "ActivityEntry",
    "ActivityRecord",
    "Actor",
    "Address",
    "ConversationInfo",
    "DraftEdit",
    "DraftEntry",
    "DraftState",
    "Entry",
    "Exported",
    "Gone",
    "NewDraft",
    "RegistryStats",
    "StepEntry",
    "Store",
    "json_text",
    "owner_text",
]
