"""The map between refs and keys: in PostgreSQL, or in the memory of this process.

`Store` is the protocol that every store implements. `PostgresStore` shares the map between
processes, `MemoryStore` is for tests and scripts; both pass the same tests.

```python
store = MemoryStore()
chat = Address("chat-7", owner="ann")
[entry] = store.refer(chat, [("recipe", 4711)])  # mints recipe_1
store.resolve(chat, [entry.ref])[entry.ref].key  # 4711
```

| module | contents |
| --- | --- |
| `values` | the values that stores take and return |
| `protocol` | `Store` |
| `memory` | `MemoryStore` |
| `schema` | the tables, and `migrate` |
| `alembic` | for applications that migrate the tables themselves |
| `sql` | typed SQL text, and the conditions that statements share |
| `connections` | pool, transactions, errors and time limits of the PostgreSQL store |
| `postgres_refs`, `postgres_drafts` | its operations on refs and on drafts, each with its SQL |
| `postgres_activity`, `postgres_calls` | those on activity, and on calls of tools |
| `postgres` | `PostgresStore`: those together, tables, whole conversations, queries of operators |
| `telemetry` | counts, events and log lines, and the wrapper that measures a store |

A process uses one store: `memory` and `postgres` are imported when they are first used.
"""

from .protocol import Store as Store
from .values import (
    KEPT_TURNS as KEPT_TURNS,
    NO_LABELS as NO_LABELS,
    NOTED_EVERY as NOTED_EVERY,
    Action as Action,
    Activity as Activity,
    ActivityEntry as ActivityEntry,
    ActivityRecord as ActivityRecord,
    Actor as Actor,
    Address as Address,
    CallEntry as CallEntry,
    CallState as CallState,
    CallValues as CallValues,
    ChangeAction as ChangeAction,
    ChangeEntry as ChangeEntry,
    ConversationInfo as ConversationInfo,
    DraftEdit as DraftEdit,
    DraftEntry as DraftEntry,
    DraftState as DraftState,
    Entry as Entry,
    Exported as Exported,
    Gone as Gone,
    NewCall as NewCall,
    NewDraft as NewDraft,
    RegistryStats as RegistryStats,
    StepEntry as StepEntry,
    json_text as json_text,
    owner_text as owner_text,
)

__all__ = [
    "KEPT_TURNS",
    "NOTED_EVERY",
    "Action",
    "Activity",
    "ActivityEntry",
    "ActivityRecord",
    "Actor",
    "Address",
    "CallEntry",
    "CallState",
    "CallValues",
    "ChangeAction",
    "ChangeEntry",
    "ConversationInfo",
    "DraftEdit",
    "DraftEntry",
    "DraftState",
    "Entry",
    "Exported",
    "Gone",
    "NewCall",
    "NewDraft",
    "RegistryStats",
    "StepEntry",
    "Store",
    "json_text",
    "owner_text",
]
