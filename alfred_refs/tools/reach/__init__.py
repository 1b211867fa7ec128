"""What a delete or an update changes beside the rows that it names: found before anything is sent.

A foreign key with ON DELETE CASCADE takes rows along, another one is in the way; a cascade of the
unit of work does either. `Searcher.search` follows all of them from the rows of a call, and
returns a `Reach`; `ReachReport` refuses what the model may not change, and tells the rest by refs:

>>> toolset.call(session, "db_delete", {"table": "recipes", "filters": [...]})
{'table': 'recipes', 'deleted': ['recipe_1'], 'count': 1, 'deleted_with': ['meal_plan_1']}

| module | what it has |
| --- | --- |
| `edges` | the ways in which rows refer to others, and what becomes of each |
| `links` | relationships by way of a table between two |
| `search` | `Searcher`, `Reach`: the rows |
| `telling` | `ReachReport`: asks hooks, refuses, and tells the model |
"""
