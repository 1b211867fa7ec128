"""One statement, whatever its shape: refs in it become keys, keys in its rows become refs.

    statement, plan, parameters = Plans(entities).of(
        select(MealPlan.id, Recipe.name).where(MealPlan.recipe_id == "recipe_1")
    )
    plan.inputs.positions       {0: KeyColumn("meal_plans.recipe_id", entity="recipe")}
    plan.outputs.columns        {0: KeyColumn("meal_plans.id", entity="meal_plan")}

A plan is made once for all statements of a shape, and each execution goes by it:

| step | module |
| --- | --- |
| plan: where refs go in | `inputs`, by `comparisons`, `dataflow` and `targets` |
| plan: where keys come out | `rows.outputs_of`, by `mapping.lineage` |
| plan: what would make data of keys | `assignments` refuses it |
| before: refs become keys | `criteria` |
| after: keys become refs | `rows.with_refs`, by `rendering`; `write_results` beside the rows |
| after: text that says nothing of its columns | `origins`: the server knows |

All but `origins` is pure: who resolves and mints is the caller.
"""

from .assignments import check_loaded as check_loaded
from .criteria import Single as Single
from .plans import Plan as Plan, Plans as Plans
from .rendering import Referring as Referring, Show as Show, shower as shower
from .targets import InputTarget as InputTarget, swapped as swapped, takes_keys as takes_keys
