"""What the instances of a session show and accept in their key attributes.

>>> recipe = session.scalars(select(Recipe)).first()
>>> recipe.id, recipe.__dict__["id"]
('recipe_1', UUID('a508000d-9b55-40f0-8886-dbdd88bd2de2'))
>>> plan.recipe_id = "recipe_1"             # at once, if the ref is at hand
>>> session.add(MealPlan(recipe_id="recipe_1"))    # at the flush

`attributes` has the descriptors that a mapped class gets, once an application; they ask the
`Boundary` of the session, which keeps what it has shown. `pending` has the refs that wait for a
flush, `tracking` the instances that were loaded and their labels. `collections` and `sqlmodel` are
other ways by which keys leave an instance: dictionaries keyed by an attribute, pydantic's dumps.
"""
