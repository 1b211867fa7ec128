"""Tools that a model may call on tables: `db_read`, `db_create`, `db_update`, `db_delete`.

A `Toolset` is made once, of mapped classes. `call` takes a tool's name and JSON arguments, works
through a `RefSession`, and returns JSON in which refs stand for keys:

>>> toolset = Toolset(models=[Recipe, MealPlan], read_only=[Recipe])
>>> client.chat.completions.create(tools=toolset.schemas("openai"), ...)
>>> with sessions(conversation="chat-7") as session:
...     toolset.call(session, "db_read", {"table": "meal_plans", "limit": 1})
{'table': 'meal_plans',
 'rows': [{'id': 'meal_plan_1', 'recipe_id': 'recipe_1', 'day': '2026-11-23',
           '_recipe_id_label': 'Soup'}],
 'count': 1, 'more': True, 'cursor': 'eyJxdWVz…'}

One call goes through these modules, in this order:

1. `toolset`: `Toolset.call` opens a transaction (`transactions`), and at the end turns exceptions
   into what the model is told (`faults`, `errors`).
2. `wire`: the arguments are parsed, put right where letters are wrong (`repair`), and checked
   against pydantic models (`arguments`); `query.budget` and `query.grammar` refuse
   what cannot be answered before anything is asked of a database; `payload.intake` puts keys in
   texts where marks stand.
3. `call`: a `Call` is what the verbs share: the session, its conversation, the setting.
4. `reading`, `creating`, or `writing` for updates and deletes, do it. They ask the application's
   hooks, and `changes` and `deleting` of rows that are changed along with those that are named.
5. `answers`: instances become rows of JSON with labels beside refs; `wire.texts` looks at the
   whole answer last, so that no key is left in a text.

| module | what is in it |
| --- | --- |
| `errors` | tool errors: code, data, message |
| `faults` | translation of exceptions into tool errors; rows that were not found |
| `arguments` | tool arguments: JSON repair, pydantic models |
| `serialization` | serialization of answers: JSON, keys replaced, size limits |
| `tables` | tables offered to a model: columns, names, permits, lists |
| `rules` | rules of the application: hooks, row conditions, defaults |
| `filters` | filter language: grammar, limits, SQL criteria |
| `query` | select statements of db_read: order, cursors, totals, counts |
| `payload` | values of new and changed rows: marks to keys, types, removals, batches |
| `preconditions` | preconditions of a write: expect, labels, snapshot of what was seen |
| `answers` | rows of an answer: JSON of instances, related rows, labels |
| `call` | one call: transaction, session, resolved refs, activity |
| `reading` | db_read |
| `cascades` | cascades: rows that a delete or update changes beside the named ones |
| `drafts` | drafts in tools: read, filter in memory, change, discard |
| `writing` | db_create, db_update, db_delete |
| `lists` | db_edit_list: lists edited by position |
| `definitions` | definitions of tools for clients: JSON schemas, prompt text, functions of |
| `toolset` | toolset: dispatch of calls; BoundToolset: a session per call |

`counting` answers what `db_read` is asked of many rows together, by the question that `reading`
has made. `Hooks` are what the application adds, `schemas` has what clients are told of the tools,
`fates` whether rows are there that a call names and has not found. `functions` makes tools of an
application's functions, and `bound` has a session for each call.
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
from alfred_refs.tools.rules import Hooks as Hooks, Reading as Reading, Writing as Writing

from .definitions import Ref as Ref
from .errors import ToolError as ToolError
from .toolset import BoundToolset as BoundToolset, ToolAnswer as ToolAnswer, Toolset as Toolset

__all__ = [
    "TOOLS",
    "BoundToolset",
    "DbCreate",
    "DbDelete",
    "DbEditList",
    "DbQuery",
    "DbRead",
    "DbUpdate",
    "Filter",
    "FilterClause",
    "Hooks",
    "Limits",
    "Reading",
    "Ref",
    "ToolAnswer",
    "ToolError",
    "Toolset",
    "Writing",
]
