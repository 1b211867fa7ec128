"""From instances to the rows that a model is shown.

A `Shape` says which columns and related rows are shown; `Rendering` makes JSON of them within the
`Limits`; labels of what refs name are put beside them at the end.

>>> shape = shape_of(toolset.tables.named("meal_plans"), ["day", "recipe.name"])
>>> call.rendering(instances, shape).rows(instances, shape, call.room())
[{'id': 'meal_plan_1', 'day': '2026-11-23', 'recipe': {'id': 'recipe_1', 'name': 'Soup'}}]

| module | what it does |
| --- | --- |
| `results` | `Shape`, `Limits`, `Rendering`: instances to JSON |
| `relatives` | loads the related rows that are shown inside: one statement a relationship |
| `label_lookup` | the labels of what refs name: one statement a table |
"""
