"""Tools that a language model calls on mapped classes: `db_read`, `db_create` and four more.

A `Toolset` is made once, from mapped classes. `Toolset.call` takes a tool's name and JSON
arguments, runs SQL through a `RefSession`, and returns JSON in which refs replace keys:

    toolset = Toolset(models=[Recipe, MealPlan], read_only=[Recipe])
    client.chat.completions.create(tools=toolset.schemas("openai"), ...)
    with sessions(conversation="chat-7") as session:
        toolset.call(session, "db_read", {"table": "meal_plans", "limit": 1})
    # {'table': 'meal_plans', 'rows': [{'id': 'meal_plan_1', 'recipe_id': 'recipe_1', ...}], ...}

A call passes through these modules, in this order:

1. `toolset`: `Toolset.call` parses the arguments and opens the transaction (`call`). At the end it
   turns exceptions that the model can correct into error answers (`faults`, `errors`).
2. `arguments`: the JSON is repaired and validated with pydantic models. `decoding`: marks in texts
   (`<recipe_1>`) become keys. `filters`: conditions are bound to columns, values and refs. A call
   that exceeds the limits or has an invalid filter is refused. No SQL has been sent so far.
3. `preconditions`: `expect` and label fields are verified against the database.
4. `reading`, `writing`, `lists` or `drafts` run the verb. They call the application's hooks
   (`hooks`), build statements (`query`), and find the rows that a write changes through foreign
   keys and relationships (`cascades`).
5. `answers` makes JSON of instances and adds labels; `serialization` replaces every remaining key
   in texts.

| module | contents |
| --- | --- |
| `toolset` | `Toolset`: dispatch of calls |
| `bound` | `BoundToolset`: a session for each call; approval, rejection and undo by people |
| `ordering` | locks that order the calls of a process |
| `supervision` | writes that are planned, wait for approval, or are kept in the history |
| `effects` | the values of rows before and after a call |
| `history` | stored calls, for people and for repeated calls |
| `plans` | `Plan`: the effects of a call, in the names that the model uses |
| `undo` | the inverse of the changes of calls |
| `tables` | the tables that a model may use: columns, verbs, lists |
| `catalog` | the catalog of a toolset: its tables, read from the mapping |
| `definitions` | tool definitions for clients: JSON schemas, prompt text |
| `functions` | functions of the application as tools |
| `arguments` | the JSON of a call: repair, pydantic models, shape errors |
| `filters` | the filter language: conditions bound to columns, limits, SQL conditions |
| `matching` | the same filters on drafts |
| `decoding` | texts in arguments that stand for other values: marks of keys, JSON |
| `payload` | values of new and changed rows: NUL characters, marks, types, batches |
| `preconditions` | checks before a write: `expect`, labels, new rows that contradict themselves |
| `call` | one call: transaction, session, resolved refs, activity |
| `reading` | `db_read`, and the rows of prompts |
| `exact` | dates and times outside Python's range, as text |
| `query` | statements of `db_read`: order, cursors, totals |
| `creating` | `db_create` |
| `writing` | `db_update`, `db_delete` |
| `cascades`, `edges` | other rows that a delete or an update changes |
| `lists` | `db_edit_list`: lists edited by position |
| `links` | links that are created and deleted in association tables |
| `drafts` | reads, changes and discards drafts |
| `answers` | rows of an answer: JSON of instances, related rows |
| `labels` | what people call the rows that refs name |
| `serialization` | the answer as JSON without keys: marks, cut texts, depth |
| `visibility` | read hooks for rows that are reached through other rows |
| `hooks` | hooks of the application |
| `rules` | descriptions of the database's constraints |
| `faults` | translation of exceptions into tool errors |
| `errors` | tool errors: code, message, data |
| `sql` | `db_query`: a SELECT written by the model, rebuilt in SQLAlchemy |
"""

from alfred_refs.tools.answers import Limits as Limits
from alfred_refs.tools.arguments import (
    TOOLS as TOOLS,
    DbCreate as DbCreate,
    DbDelete as DbDelete,
    DbEditList as DbEditList,
    DbQuery as DbQuery,
    DbRead as DbRead,
    DbUpdate as DbUpdate,
    Filter as Filter,
    FilterClause as FilterClause,
)
from alfred_refs.tools.hooks import (
    Hooks as Hooks,
    Reading as Reading,
    Writing as Writing,
    is_planned as is_planned,
)

from .bound import (
    AsyncBoundToolset as AsyncBoundToolset,
    BoundToolset as BoundToolset,
    ToolAnswer as ToolAnswer,
    makes_async_sessions as makes_async_sessions,
)
from .errors import ToolError as ToolError
from .functions import Ref as Ref
from .history import Approval as Approval, CallRecord as CallRecord, Journal as Journal
from .plans import Plan as Plan, PlannedRow as PlannedRow
from .reading import CurrentRow as CurrentRow, CurrentRows as CurrentRows, Fields as Fields
from .toolset import Toolset as Toolset

__all__ = [
    "TOOLS",
    "Approval",
    "AsyncBoundToolset",
    "BoundToolset",
    "CallRecord",
    "DbCreate",
    "DbDelete",
    "DbEditList",
    "DbQuery",
    "DbRead",
    "DbUpdate",
    "Filter",
    "FilterClause",
    "Hooks",
    "Journal",
    "Limits",
    "Plan",
    "PlannedRow",
    "Reading",
    "Ref",
    "ToolAnswer",
    "ToolError",
    "Toolset",
    "Writing",
    "is_planned",
]
