"""The values that a model gives for rows: checked by column, before they are stored.

>>> changes(toolset.tables.named("recipes"), {"servings": "four"})
ToolError: the value given for 'servings' does not fit; it takes an integer of 32 bits

| module | what it does |
| --- | --- |
| `intake` | puts keys in the place of the marks that texts were shown with |
| `payloads` | JSON objects to values by attribute, of new and changed rows and of drafts |
| `removals` | tells in which texts NUL characters were left out |
| `expected` | compares rows with what a model expects them to be (`expect`) |
| `claims` | compares new rows with what was said of them, before they are flushed |
"""
