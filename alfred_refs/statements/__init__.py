"""One statement, whatever its shape: refs in it become keys, keys in its rows become refs.

    statement, plan, parameters = Plans(entities).of(
        select(MealPlan.id, Recipe.name).where(MealPlan.recipe_id == "recipe_1")
    )
    plan.inputs.positions       {0: KeyColumn("meal_plans.recipe_id", entity="recipe")}
    plan.outputs.columns        {0: KeyColumn("meal_plans.id", entity="meal_plan")}

A plan is made once for all statements of a shape, and each execution goes by it:

| module | what is in it |
| --- | --- |
| `dataflow` | data flow of bind parameters: what each is compared with or assigned to, and |
| `results` | result rows: keys to refs, in rows and RETURNING |
| `plans` | statement plans: where refs go in and keys come out, cached per statement shape |

All but `origins` is pure: who resolves and mints is the caller.
"""

from .dataflow import InputTarget as InputTarget, swap_refs as swap_refs, takes_keys as takes_keys
from .plans import Plan as Plan, Plans as Plans, Single as Single, check_loaded as check_loaded
from .results import (
    Referring as Referring,
    Show as Show,
    shower as shower,
    shower_of_column as shower_of_column,
)
