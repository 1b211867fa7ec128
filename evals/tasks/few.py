"""Tasks that write one row: by what was looked up, by its name, among others of its name."""

from __future__ import annotations

from evals.clerk import Clerk
from evals.ends import End
from evals.steps import Program, Reading, Said
from evals.tasks.pool import Made, Pool, only


def lookup(pool: Pool) -> Made:
    """Look something up in two turns, and use it in the third."""
    [(recipe_key, recipe)] = pool.recipes(1)
    plan_key, plan = pool.planned()
    day, meal, planned = plan["date"], plan["meal_type"], pool.name_of(plan)
    by_name = pool.is_alone(plan_key) and pool.chance.choice([True, False])
    tags = recipe["tags"][:1]
    filters = [{"field": "tags", "op": "contains", "value": tags}] if tags else []
    turns = [
        f"Which recipes are tagged '{tags[0]}'?" if tags else "Which recipes are there?",
        f"And what is planned on {day}?",
        f"Put '{recipe['name']}' in place of {planned if by_name else meal} that day.",
    ]

    def program(clerk: Clerk) -> Program:
        recipes = yield from clerk.read("recipes", filters=filters, columns=["name"])
        yield Said("These are the recipes.")
        on_day = [{"field": "date", "op": "=", "value": day}]
        plans = yield from clerk.read("meal_plans", filters=on_day)
        yield Said("These are the plans.")
        old = only(plans, meal_type=meal)
        for each in plans if by_name else ():
            name = yield from clerk.label(each, "recipe_id")
            if name == planned:
                old = each
                break
        new = only(recipes, name=recipe["name"])
        yield from clerk.update(old, recipe_id=clerk.named(new))
        yield Said("Done.")

    changed = {"meal_plans": {plan_key: {"recipe_id": str(recipe_key)}}}
    return Made(turns, program, End(changed=changed))


def writing(pool: Pool) -> Made:
    """Change or delete one row."""
    return pool.chance.choice((_corrected, _cancelled, _bought))(pool)


def _corrected(pool: Pool) -> Made:
    [(key, recipe)] = pool.recipes(1)
    servings = recipe["servings"] + pool.chance.randint(1, 9)

    def program(clerk: Clerk) -> Program:
        row = yield from clerk.find("recipes", name=recipe["name"])
        yield from clerk.update(row, servings=servings)
        yield Said("Done.")

    turns = [f"'{recipe['name']}' serves {servings}. Please put that right."]
    return Made(turns, program, End(changed={"recipes": {key: {"servings": servings}}}))


def _cancelled(pool: Pool) -> Made:
    key, plan = pool.planned()
    day, meal = plan["date"], plan["meal_type"]

    def program(clerk: Clerk) -> Program:
        on_day = [{"field": "date", "op": "=", "value": day}]
        plans = yield from clerk.read("meal_plans", filters=on_day)
        yield from clerk.delete(only(plans, meal_type=meal))
        yield Said("Done.")

    turns = [f"Cancel {meal} on {day}: take it off the plan."]
    return Made(turns, program, End(removed={"meal_plans": [key]}))


def _bought(pool: Pool) -> Made:
    [(key, item)] = pool.items(1)

    def program(clerk: Clerk) -> Program:
        items = yield from clerk.read("shopping_list")
        yield from clerk.update(only(items, name=item["name"]), bought=True)
        yield Said("Done.")

    turns = [f"I have bought the {item['name']}."]
    return Made(turns, program, End(changed={"shopping_list": {key: {"bought": True}}}))


def like_names(pool: Pool) -> Made:
    """Tell rows apart that have one name."""
    [(key, recipe)] = pool.recipes(1, twins=True)
    told = f"the '{recipe['name']}' that serves {recipe['servings']}"

    def found(clerk: Clerk) -> Reading:
        named = [{"field": "name", "op": "=", "value": recipe["name"]}]
        rows = yield from clerk.read("recipes", filters=named)
        return only(rows, servings=recipe["servings"])

    def change(clerk: Clerk) -> Program:
        row = yield from found(clerk)
        yield from clerk.update(row, cook_minutes=minutes)
        yield Said("Done.")

    def plan(clerk: Clerk) -> Program:
        yield from clerk.read("recipes", columns=["name", "servings"], order_by="name")
        yield Said("Several.")
        row = yield from found(clerk)
        planned = {"recipe_id": clerk.named(row), "date": day, "meal_type": "lunch"}
        yield from clerk.create("meal_plans", planned)
        yield Said("Done.")

    minutes = recipe["cook_minutes"] + pool.chance.randint(1, 30)
    [day] = pool.free_days(1)
    if pool.chance.choice([True, False]):
        changed = {"recipes": {key: {"cook_minutes": minutes}}}
        turns = [f"For {told}: it takes {minutes} minutes to cook."]
        return Made(turns, change, End(changed=changed))
    turns = ["Which recipes do I have more than once?", f"Plan {told} for lunch on {day}."]
    return Made(turns, plan, End(created=[pool.plan(key, day, "lunch")]))
