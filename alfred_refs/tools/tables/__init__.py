"""What a model may use: read from the mapped classes once, when a toolset is made.

`ToolTables` has a `ToolTable` for each class, with a `ToolColumn` for each attribute that is not
hidden. What is not there is refused in the words for what does not exist.

>>> table = toolset.tables.named("recipes")
>>> [column.name for column in table.columns.values() if column.creatable]
['name', 'servings']

| module | what it has |
| --- | --- |
| `tables` | `ToolTables`: mapped classes to tables, by the names that models use |
| `table` | `ToolTable` and `ToolColumn` |
| `permits` | which verbs a model may use on a class, and which attributes it never writes |
| `rules`, `conditions` | constraints of the database, in words for models |
| `describing` | the tables in a few lines, for a prompt |
| `hooks` | `Hooks`, `Reading`, `Writing`: what the application adds |
"""
