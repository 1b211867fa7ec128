"""Filters, order and pages of rows: from checked arguments to one SQL statement.

>>> filters = [FilterClause(field="servings", op=">", value=2)]
>>> [condition] = Conditions(keys={}).all_of(filters, toolset.tables.named("recipes"))
>>> str(condition)
'recipes.servings > :servings_1'

| module | what it does |
| --- | --- |
| `budget` | refuses what asks for more than a database answers in a moment |
| `grammar` | refuses what cannot be decided, and gives what a column is compared with |
| `filters` | conditions to a SQLAlchemy expression, with keys in the place of refs |
| `totals` | how many rows there are, and what their columns come to, in place of rows |
| `statement` | the order of rows, and cursors: what comes after the last one that was shown |
| `patterns` | ILIKE in Python, for drafts |
"""
