"""What the application's tables and classes say about keys.

| module | contents |
| --- | --- |
| `keys` | refs and keys as values: grammar, encoding, `RefPolicy` |
| `text` | keys in text: search, redaction, marks |
| `key_columns` | which column holds keys of which entity; entity names; foreign keys |
| `columns` | the values of a column: JSON to Python and back, what PostgreSQL stores |
| `labels` | what people call a row |
| `lineage` | column lineage: which keys a SQL expression returns |
| `entities` | look-up by class, table or column, cached; the other modules as one object |

The rest of the package goes through `Entities`, one per registry:

    entities = Entities(RefPolicy())
    entities.of_column(MealPlan.recipe_id)      # KeyColumn("meal_plans.recipe_id", "recipe", ...)
    entities.of_column(Recipe.name)             # None: plain data
    entities.of_class(MealPlan).primary         # {"id": KeyColumn("meal_plans.id", ...)}

Everything is read from SQLAlchemy's metadata once and cached; nothing here emits SQL. This module
imports nothing, because the store needs `keys` alone and must not load the ORM for it.
"""
