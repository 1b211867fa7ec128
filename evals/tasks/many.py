"""Tasks that write several rows: in one call, of drafts, and long after they were shown."""

from __future__ import annotations

from collections.abc import Sequence

from evals.clerk import Clerk
from evals.ends import End
from evals.steps import Program, Reading, Row, Said
from evals.tasks.pool import Found, Made, Pool, only


def batch(pool: Pool) -> Made:
    """Write several rows in one call."""
    return pool.chance.choice((_planned, _all_bought, _struck_off, _off_the_plan))(pool)


def _planned(pool: Pool) -> Made:
    days = sorted(pool.free_days(5))
    pairs = list(zip(pool.recipes(5), days, strict=True))

    def program(clerk: Clerk) -> Program:
        rows = yield from clerk.read("recipes", columns=["name"])
        these = [(only(rows, name=row["name"]), day) for (_, row), day in pairs]
        dinners = [
            {"recipe_id": clerk.named(row), "date": day, "meal_type": "dinner"}
            for row, day in these
        ]
        yield from clerk.create("meal_plans", *dinners)
        yield Said("Done.")

    listed = ", ".join(f"'{row['name']}' on {day}" for (_, row), day in pairs)
    created = [pool.plan(key, day, "dinner") for (key, _), day in pairs]
    return Made([f"Plan these dinners for me: {listed}."], program, End(created=created))


def _all_bought(pool: Pool) -> Made:
    items = pool.items(4)

    def program(clerk: Clerk) -> Program:
        rows = yield from clerk.read("shopping_list")
        yield from clerk.update(*_these(rows, items), bought=True)
        yield Said("Done.")

    changed = {"shopping_list": {key: {"bought": True} for key, _ in items}}
    return Made([f"I have bought {_names(items)}."], program, End(changed=changed))


def _struck_off(pool: Pool) -> Made:
    items = pool.items(4)

    def program(clerk: Clerk) -> Program:
        rows = yield from clerk.read("shopping_list")
        yield from clerk.delete(*_these(rows, items))
        yield Said("Done.")

    removed = {"shopping_list": [key for key, _ in items]}
    turns = [f"Take off my shopping list: {_names(items)}."]
    return Made(turns, program, End(removed=removed))


def _off_the_plan(pool: Pool) -> Made:
    name, plans = pool.planned_alike()

    def program(clerk: Clerk) -> Program:
        row = yield from clerk.find("recipes", name=name)
        yield from clerk.clear("meal_plans", "recipe_id", row)
        yield Said("Done.")

    turns = [f"Take '{name}' off the plan, wherever it stands."]
    return Made(turns, program, End(removed={"meal_plans": plans}))


def _these(rows: Sequence[Row], items: Sequence[Found]) -> list[Row]:
    return [only(rows, name=row["name"]) for _, row in items]


def _names(items: Sequence[Found]) -> str:
    return ", ".join(row["name"] for _, row in items)


def drafts(pool: Pool) -> Made:
    """Save one of several drafts, and give the new row lines and a day."""
    parents = pool.recipes(3)
    contents = [
        {"name": f"{row['name']}, my way {n}", "servings": n}
        for n, (_, row) in enumerate(parents, start=2)
    ]
    kept = pool.chance.choice(contents)
    name, ingredients = str(kept["name"]), pool.ingredients(2)
    [day] = pool.free_days(1)

    def program(clerk: Clerk) -> Program:
        recipe = yield from clerk.save("recipes", clerk.drafts[name])
        wanted = [{"field": "name", "op": "in", "value": [each for _, each in ingredients]}]
        found = yield from clerk.read("ingredients", filters=wanted)
        lines = [
            {
                "recipe_id": clerk.named(recipe),
                "ingredient_id": clerk.named(only(found, name=each)),
                "name": each,
                "position": position,
            }
            for position, (_, each) in enumerate(ingredients)
        ]
        yield from clerk.create("recipe_ingredients", *lines)
        yield Said("It is saved.")
        planned = {"recipe_id": clerk.named(recipe), "date": day, "meal_type": "lunch"}
        yield from clerk.create("meal_plans", planned)
        yield Said("Done.")

    new = f"new: {name}"
    lines = [
        ("recipe_ingredients", {"ingredient_id": str(key), "name": each, "position": position})
        for position, (key, each) in enumerate(ingredients)
    ]
    created = [
        ("recipes", {**kept, "user_id": pool.user}),
        *((table, {**values, "recipe_id": new}) for table, values in lines),
        pool.plan(new, day, "lunch"),
    ]
    listed = " and ".join(each for _, each in ingredients)
    turns = [
        f"Save the draft '{name}', and put {listed} into it.",
        f"I will cook it for lunch on {day}; plan that.",
    ]
    return Made(turns, program, End(created=created), contents)


def long(pool: Pool) -> Made:
    """Work with 200 ids and more at hand, turns after they were shown."""
    (recipe_key, recipe), (other_key, other) = pool.recipes(2)
    [(ingredient_key, ingredient)] = pool.ingredients(1)
    plan_key, plan = pool.planned()
    minutes = other["cook_minutes"] + pool.chance.randint(1, 30)
    line = {"name": ingredient, "quantity": "2", "unit": "cup", "position": 9}
    when = {"date": plan["date"], "meal_type": plan["meal_type"]}

    def program(clerk: Clerk) -> Program:
        recipes, ingredients, plans = yield from _all_shown(clerk, ingredient[0])
        row, other_row = (only(recipes, name=each["name"]) for each in (recipe, other))
        refers = {
            "recipe_id": clerk.named(row),
            "ingredient_id": clerk.named(only(ingredients, name=ingredient)),
        }
        yield from clerk.create("recipe_ingredients", {**refers, **line})
        yield Said("Done.")
        yield from clerk.update(only(plans, **when), recipe_id=clerk.named(row))
        yield from clerk.update(other_row, cook_minutes=minutes)
        yield Said("Done.")

    last = (
        f"Cook '{recipe['name']}' for {when['meal_type']} on {when['date']}, in place of what is "
        f"planned. And '{other['name']}' takes {minutes} minutes."
    )
    turns = [
        "Show me my recipes, by name.",
        f"And the ingredients from '{ingredient[0]}' on, by name.",
        "Now the plan of all meals.",
        f"Put 2 cups of {ingredient} into '{recipe['name']}', at its end: place 9.",
        last,
    ]
    keys = {"recipe_id": str(recipe_key), "ingredient_id": str(ingredient_key)}
    changed = {
        "meal_plans": {plan_key: {"recipe_id": str(recipe_key)}},
        "recipes": {other_key: {"cook_minutes": minutes}},
    }
    created = [("recipe_ingredients", {**keys, **line})]
    return Made(turns, program, End(changed=changed, created=created))


def _all_shown(clerk: Clerk, letter: str) -> Reading:
    """Read recipes, ingredients from a letter on, and plans, in a turn each."""
    by_name = {"columns": ["name"], "order_by": "name"}
    recipes = yield from clerk.read("recipes", **by_name)
    yield Said("These.")
    since = [{"field": "name", "op": ">=", "value": letter}]
    ingredients = yield from clerk.read("ingredients", filters=since, **by_name)
    yield Said("These.")
    plans = yield from clerk.read("meal_plans", order_by=["date", "meal_type"])
    yield Said("These.")
    return recipes, ingredients, plans
