"""What the application's tables say of keys: which columns hold them, of which entity.

    entities = Entities(RefPolicy())
    entities.of_column(MealPlan.recipe_id)      KeyColumn("meal_plans.recipe_id", entity="recipe")
    entities.of_column(Recipe.name)             None: plain data
    Lineage(entities.of_column).of(func.array_agg(Recipe.id))       Listed(...): a list of keys

Read from SQLAlchemy's metadata once and kept; nothing here asks a database or decides for a row.
From the words to the tables, each standing on those above it:

| module | what is in it |
| --- | --- |
| `keys` | refs and keys: types, policy, keys in text and the marks that replace them |
| `columns` | column types: JSON values to Python and stored values |
| `key_columns` | key columns: which column holds keys of which entity; entity names, foreign |
| `entities` | entities of one application: look-up by class, table, column, cached |
| `lineage` | column lineage: which keys a SQL expression returns |

Nothing is imported here: the store needs `keys` alone, and must not load the ORM for it.
"""
