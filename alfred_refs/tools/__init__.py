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

| folder | what is in it |
| --- | --- |
| `wire` | JSON in and out: argument models, repair, checks of shape, keys in texts |
| `tables` | what a model may use: tables, columns, permits, rules; hooks; text for prompts |
| `query` | filters, order, cursors and totals as SQL; how much one call may ask for |
| `payload` | the values of new and changed rows, checked; what a model expects them to be |
| `answers` | instances to JSON: rows, related rows inside of them, labels |
| `reach` | what a delete or update changes beside the rows that it names |
| `lists` | lists that are edited by position |
| `drafts` | rows that are generated and not saved: made, read, filtered, changed, discarded |

`counting` answers what `db_read` is asked of many rows together, by the question that `reading`
has made. `Hooks` are what the application adds, `schemas` has what clients are told of the tools,
`fates` whether rows are there that a call names and has not found. `functions` makes tools of an
application's functions, and `bound` has a session for each call.
"""

from alfred_refs.tools.answers.results import Limits as Limits
from alfred_refs.tools.tables.hooks import Hooks as Hooks, Reading as Reading, Writing as Writing
from alfred_refs.tools.wire.arguments import (
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

from .bound import BoundToolset as BoundToolset, ToolAnswer as ToolAnswer
from .errors import ToolError as ToolError
from .functions import Ref as Ref
from .toolset import Toolset as Toolset

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
