"""Filters, order and pages of rows: from checked arguments to one SQL statement.

>>> filters = [FilterClause(field="servings", op=">", value=2)]
>>> [condition] = Conditions(keys={}).all_of(filters, toolset.tables.named("recipes"))
>>> str(condition)
'recipes.servings > :servings_1'

| module | what it does |
| --- | --- |
| `budget` | refuses what asks for more than a database answers in a moment |
| `grammar` | refuses conditions that cannot be decided, before anything is looked for |
| `operands` | what a condition compares with: a JSON value to what the column has in Python |
| `filters` | conditions to a SQLAlchemy expression, with keys in the place of refs |
| `statement` | the order of rows, and what comes after the last one that was shown |
| `cursors` | where a read stopped, as a text that the model gives back |
| `patterns` | ILIKE in Python, for drafts |
"""
