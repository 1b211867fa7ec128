"""What the application's tables say of keys: which columns hold them, of which entity.

    entities = Entities(RefPolicy())
    entities.of_column(MealPlan.recipe_id)      KeyColumn("meal_plans.recipe_id", entity="recipe")
    entities.of_column(Recipe.name)             None: plain data
    Lineage(entities.of_column).of(func.array_agg(Recipe.id))       Listed(...): a list of keys

Read from SQLAlchemy's metadata once and kept; nothing here asks a database or decides for a row.
From the words to the tables, each standing on those above it:

| module | what it has |
| --- | --- |
| `refs`, `keys`, `policy` | what a ref, a key and an application's decisions are |
| `guard`, `marks` | keys inside texts, and what stands for them there |
| `key_column` | one column that holds keys |
| `naming`, `foreign_keys`, `labels` | of which entity they are, and what people call its rows |
| `shapes`, `functions`, `expressions`, `lineage` | the keys in what is computed from columns |
| `column_types`, `stored_values` | the values of all other columns, as JSON and as stored |
| `entities` | all of this for one application |

Nothing is imported here: the store needs `keys` alone, and must not load the ORM for it.
"""
