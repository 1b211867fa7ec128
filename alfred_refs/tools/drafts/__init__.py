"""Drafts in the tools: rows that are generated and not saved, named like `gen_recipe_1`.

They are in the conversation and in no table, so what a read does in SQL is done here in Python:

>>> toolset.call(session, "db_read", {"table": "recipes", "filters": [
...     {"field": "id", "op": "in", "value": ["recipe_1", "gen_recipe_1"]}],
...     "columns": ["name"]})["rows"]
[{'id': 'recipe_1', 'name': 'Soup'}, {'id': 'gen_recipe_1', 'name': 'Stew', '_draft': 'pending'}]

| module | what it does |
| --- | --- |
| `matching` | decides filters of a draft's content, as SQL decides them of rows |
| `rows` | a draft to the row that a model is shown |
| `writing` | makes, changes and discards drafts |

A draft is saved as a row by `creating`.
"""
