"""Translate one statement: refs in it become keys, keys in its rows become refs.

    statement, plan, parameters = StatementPlans(entities).of(
        select(MealPlan.id, Recipe.name).where(MealPlan.recipe_id == "recipe_1")
    )
    plan.inputs.positions       {0: KeyColumn("meal_plans.recipe_id", entity="recipe")}
    plan.outputs.columns        {0: KeyColumn("meal_plans.id", entity="meal_plan")}

A plan is made once for all statements of one cache key, and each execution goes by it:

| module | contents |
| --- | --- |
| `dataflow` | which columns each bind parameter is compared with or stored in |
| `inputs` | refs in: the refs of an execution, and the statement with keys in their place |
| `results` | refs out: rows, and information about written rows, with refs in place of keys |
| `origins` | the columns that the server reads the values of a `text()` from |
| `plans` | all of this for one cache key, cached; keys as data refused |

All but `origins` is pure: the caller resolves and mints.
"""

from .dataflow import InputTarget as InputTarget
from .inputs import (
    DataRefs as DataRefs,
    Single as Single,
    check_data as check_data,
    parameter_texts as parameter_texts,
    swap_refs as swap_refs,
    takes_keys as takes_keys,
)
from .plans import (
    StatementPlan as StatementPlan,
    StatementPlans as StatementPlans,
    check_loaded as check_loaded,
)
from .results import (
    Renderer as Renderer,
    renderer as renderer,
    renderer_of_column as renderer_of_column,
)
