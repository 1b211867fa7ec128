"""The table of shapes: one expression each, with refs as a model would write them.

The tests run each shape with keys on a plain session and with refs on a `RefSession`: both must
return the same rows and leave the same tables, or the second raises the expected error.
`docs/reference/shapes.md` is generated from it, without the shapes that show nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of statement.

    Attributes:
        code: an expression for the statement, with refs in double quotes and text in single ones.
            Names are those of SQLAlchemy and of the tests' models; `session` is the session.
        parameters: code of the parameters for `execute()`.
        refused: the class of the error, where the shape is refused.
        is_listed: whether the documentation lists the shape, or another one that shows the same.
    """

    code: str
    parameters: str = ""
    refused: str = ""
    is_listed: bool = True


def refused(code: str, parameters: str = "", by: str = "UntranslatableError") -> Shape:
    """Return a shape that is refused."""
    return Shape(code, parameters, by)


def unlisted(code: str, parameters: str = "", by: str = "") -> Shape:
    """Return a shape that is tested, and not listed in the documentation."""
    return Shape(code, parameters, by, is_listed=False)


# title of a group -> its shapes
TABLE: Mapping[str, Sequence[Shape]] = {
    "Comparisons with a key column": [
        Shape('select(Recipe).where(Recipe.id == "recipe_1")'),
        unlisted('select(Recipe).where("recipe_1" == Recipe.id)'),
        Shape('select(Recipe).where(Recipe.id != "recipe_1")'),
        unlisted('select(Recipe).where(not_(Recipe.id == "recipe_1"))'),
        Shape('select(Recipe).filter_by(id="recipe_1")'),
        Shape('select(Recipe).where(Recipe.id.in_(["recipe_1", "recipe_3"]))'),
        unlisted('select(Recipe).where(Recipe.id.not_in(["recipe_1", "recipe_3"]))'),
        unlisted('select(Recipe).where(~Recipe.id.in_(("recipe_1",)))'),
        unlisted("select(Recipe).where(Recipe.id.in_([]))"),
        unlisted("select(Recipe).where(Recipe.id.not_in([]))"),
        unlisted('select(Recipe).where(Recipe.parent_recipe_id.is_distinct_from("recipe_1"))'),
        unlisted('select(Recipe).where(Recipe.parent_recipe_id.is_not_distinct_from("recipe_1"))'),
        unlisted("select(Recipe).where(Recipe.parent_recipe_id.is_(None))"),
        unlisted("select(Recipe).where(Recipe.parent_recipe_id != None)"),
        unlisted('select(Recipe).where(or_(Recipe.id == "recipe_1", Recipe.name == "E"))'),
        unlisted('select(Order).where(Order.id == "order_2")'),
        Shape('select(Order).where(Order.id.between("order_1", "order_2"))'),
        unlisted('select(Order).where(Order.id > "order_1").order_by(Order.id)'),
        unlisted('select(Box).where(Box.id != "box_1")'),
        unlisted('select(Person).where(Person.mentor_id == "person_1")'),
        unlisted('select(Cook).where(Cook.id == "person_1")'),
        unlisted('select(OrderLine).where(OrderLine.order_id == "order_1")'),
        unlisted('select(RecipeNote).where(RecipeNote.recipe_id == "recipe_1")'),
        unlisted('select(Recipe).where(Recipe.id == literal("recipe_1"))'),
        unlisted('select(Recipe).where(Recipe.id == type_coerce("recipe_1", Uuid))'),
        Shape(
            "select(OrderLine).where(tuple_(OrderLine.order_id, OrderLine.position)"
            '.in_([("order_1", 2), ("order_2", 1)]))'
        ),
        unlisted(
            'select(Recipe).where(Recipe.id == case((Recipe.name == "A", "recipe_1"), '
            'else_="recipe_2"))'
        ),
        unlisted(
            'select(Recipe).where(func.coalesce(Recipe.parent_recipe_id, "recipe_5") == '
            '"recipe_5")'
        ),
    ],
    "Text that is not a ref": [
        Shape("select(Recipe).where(Recipe.name == 'recipe_1')"),
        unlisted("select(Recipe).where(Recipe.name.in_(['recipe_1', 'A']))"),
        unlisted("select(Box).where(Box.label == 'box_1')"),
        unlisted("select(OrderLine).where(OrderLine.note == 'order_1')"),
        unlisted("select(recipe_tags.c.tag).where(recipe_tags.c.tag == 'recipe_1')"),
        Shape("select(Recipe).where(Recipe.name.like('recipe_%'))"),
    ],
    "Refs that cannot be used": [
        refused('select(Recipe).where(Recipe.id == "hello")', by="UnknownRefError"),
        refused('select(Recipe).where(Recipe.id != "recipe_99")', by="UnknownRefError"),
        refused(
            'select(Recipe).where(Recipe.id.not_in(["recipe_1", "order_1"]))',
            by="WrongEntityError",
        ),
        refused('delete(Recipe).where(Recipe.id != "recipe_99")', by="UnknownRefError"),
        refused('select(Recipe).where(Recipe.id.like("recipe_1"))'),
        refused('select(Recipe).where(cast(Recipe.id, String) == "recipe_1")'),
        refused('select(Order).where(Order.id + 1 == "order_1")'),
        unlisted(
            'select(Box).where(func.lower(cast(Box.id, String)) != "box_1")',
            by="UntranslatableError",
        ),
    ],
    "Joins, subqueries, unions": [
        Shape('select(Recipe).join(Recipe.plans).where(MealPlan.id == "meal_plan_1")'),
        unlisted('select(Recipe.name).join(MealPlan, MealPlan.recipe_id == "recipe_1")'),
        unlisted('select(other).where(other.id == "recipe_2")'),
        unlisted("select(other.id, other.parent_recipe_id)"),
        Shape('select(Recipe, other).join(other, Recipe.parent).where(other.id == "recipe_1")'),
        Shape(
            "select(Recipe).where(Recipe.id.in_(select(MealPlan.recipe_id)"
            '.where(MealPlan.instead_of == "recipe_1")))'
        ),
        Shape('select(Recipe).where(Recipe.plans.any(MealPlan.instead_of == "recipe_5"))'),
        unlisted('select(MealPlan).where(MealPlan.recipe.has(Recipe.id == "recipe_2"))'),
        unlisted(
            "select(Recipe.name).where(exists().where(MealPlan.recipe_id == Recipe.id, "
            'MealPlan.instead_of == "recipe_1"))'
        ),
        unlisted(
            "select(Recipe).where(Recipe.id == select(MealPlan.recipe_id)"
            '.where(MealPlan.id == "meal_plan_2").scalar_subquery())'
        ),
        unlisted('select(select(Recipe.id).where(Recipe.id != "recipe_1").subquery())'),
        Shape('select(select(Recipe.id.label("x")).where(Recipe.id == "recipe_1").cte().c.x)'),
        refused(
            'select(aliased(Recipe, select(Recipe).where(Recipe.id != "recipe_1").subquery()))'
        ),
        unlisted(
            'select(aliased(Recipe, select(Recipe).filter_by(id="recipe_1").subquery()).name)',
            by="UntranslatableError",
        ),
        unlisted("select(aliased(Recipe, select(Recipe).limit(3).subquery()).id)"),
        Shape(
            "union_all(select(MealPlan.recipe_id), select(MealPlan.instead_of)"
            '.where(MealPlan.instead_of != "recipe_1"))'
        ),
        unlisted(
            'select(Recipe).from_statement(union(select(Recipe).where(Recipe.id == "recipe_1"), '
            'select(Recipe).where(Recipe.id == "recipe_2")))'
        ),
        unlisted('ancestors_of("recipe_4")'),
        unlisted('select(Recipe).where(Recipe.parent == session.get(Recipe, "recipe_1"))'),
        unlisted(
            'select(Recipe).where(Recipe.plans.contains(session.get(MealPlan, "meal_plan_2")))'
        ),
        unlisted(
            'select(MealPlan).where(with_parent(session.get(Recipe, "recipe_1"), Recipe.plans))'
        ),
    ],
    "Parameters": [
        Shape('select(Recipe).where(Recipe.id == bindparam("x"))', '{"x": "recipe_1"}'),
        Shape(
            'select(Recipe).where(Recipe.id.in_(bindparam("x", expanding=True)))',
            '{"x": ["recipe_1", "recipe_2"]}',
        ),
        unlisted('select(Recipe).where(Recipe.id == bindparam("x", "recipe_2"))'),
        unlisted('select(Recipe).where(Recipe.name == bindparam("x"))', "{'x': 'recipe_1'}"),
        unlisted(
            '(lambda x: lambda_stmt(lambda: select(Recipe).where(Recipe.id == x)))("recipe_1")'
        ),
        unlisted(
            "select(Recipe).options(with_loader_criteria(Recipe, Recipe.name != 'recipe_1'))"
        ),
        refused('select(Recipe).options(with_loader_criteria(Recipe, Recipe.id != "recipe_1"))'),
    ],
    "Arrays of keys": [
        Shape('select(Preference).where("recipe_1" == any_(Preference.favourites))'),
        Shape('select(Preference).where(Preference.favourites == ["recipe_1", "recipe_2"])'),
        unlisted('select(Preference).where(Preference.last_seen == "recipe_3")'),
        unlisted("select(Preference.id, Preference.favourites)"),
        unlisted("select(func.unnest(Preference.favourites))"),
        unlisted("select(Preference.favourites[1])"),
        Shape('update(Preference).values(favourites=["recipe_5"])'),
    ],
    "Rows": [
        unlisted("select(MealPlan.id, MealPlan.recipe_id, MealPlan.instead_of)"),
        Shape('select(MealPlan.recipe_id.label("r"))'),
        unlisted("select(MealPlan.__table__)"),
        unlisted("select(Recipe.name, MealPlan).join(MealPlan.recipe)"),
        unlisted("select(Preference.device, Preference.legacy_recipe_id)"),
        unlisted("select(Order.id, Order.number)"),
        unlisted("select(Person.id, Person.mentor_id)"),
        unlisted("select(Box.id, Box.inside)"),
        unlisted("select(OrderLine.order_id, OrderLine.position)"),
        unlisted('select(recipe_tags).where(recipe_tags.c.recipe_id == "recipe_2")'),
        Shape('select(Bundle("row", MealPlan.id, Bundle("nested", MealPlan.recipe_id)))'),
        Shape("select(func.count(Recipe.id))"),
        Shape('select(Recipe.id == "recipe_1", Recipe.name)'),
        unlisted("select(Recipe.id).distinct().order_by(Recipe.id).limit(2)"),
        Shape("select(Recipe).options(selectinload(Recipe.plans), joinedload(Recipe.parent))"),
        unlisted(
            "select(Recipe.parent_recipe_id, func.count()).group_by(Recipe.parent_recipe_id)"
        ),
    ],
    "Expressions over keys": [
        Shape("select(func.max(Order.id))"),
        Shape("select(func.coalesce(MealPlan.instead_of, MealPlan.recipe_id))"),
        unlisted(
            "select(case((MealPlan.day == None, MealPlan.recipe_id), else_=MealPlan.instead_of))"
        ),
        unlisted("select(func.first_value(Recipe.id).over(order_by=Recipe.name))"),
        unlisted("select(func.lag(Recipe.id).over(order_by=Recipe.name))"),
        Shape("select(func.array_agg(aggregate_order_by(Recipe.id, Recipe.name)))"),
        unlisted("select(cast(Recipe.id, String))"),
        unlisted("select(cast(Order.id, Text))"),
        Shape('select(func.json_build_object("id", Recipe.id, "name", Recipe.name))'),
        unlisted("select(func.json_agg(Recipe.id))"),
        unlisted("select(select(MealPlan.recipe_id).limit(1).scalar_subquery())"),
        refused("select(func.concat(Recipe.id, '!'))"),
        unlisted("select(func.lower(cast(Recipe.id, String)))", by="UntranslatableError"),
        unlisted("select(Order.id + 1)", by="UntranslatableError"),
        unlisted("select(func.sum(Order.id))", by="UntranslatableError"),
        unlisted("select(func.md5(cast(Recipe.id, String)))", by="UntranslatableError"),
        refused("select(func.coalesce(MealPlan.recipe_id, MealPlan.id))"),
        refused("union_all(select(Recipe.id), select(MealPlan.id))"),
        unlisted(
            "union_all(union_all(select(Preference.device), select(Recipe.id)), "
            "select(Preference.device))",
            by="UntranslatableError",
        ),
        unlisted("select(func.gen_random_uuid())", by="UntranslatableError"),
        unlisted(
            "select(Recipe).from_statement("
            'select(Recipe.id, cast(Recipe.id, String).label("name")))',
            by="UntranslatableError",
        ),
        refused("update(Recipe).values(name=cast(Recipe.id, String))"),
    ],
    "Text": [
        Shape('text("select name from recipes order by name")'),
        Shape('text("select recipe_id from meal_plans").columns(MealPlan.recipe_id)'),
        unlisted('select(Recipe).from_statement(text("select * from recipes"))'),
        unlisted('text("select id, name from recipes")'),
        Shape('text("select p.id, r.id from meal_plans p join recipes r on r.id = p.recipe_id")'),
        unlisted('select(text("recipes.id")).select_from(Recipe)'),
        unlisted('select(literal_column("id")).select_from(Recipe.__table__)'),
    ],
    "Text with computed values": [
        Shape('text("select id::text from recipes")'),
        unlisted('text("select array_agg(id) from recipes")'),
        Shape("text(\"select json_build_object('id', id) from recipes\")"),
        refused('text("select gen_random_uuid()")'),
        unlisted('text("select max(id) from orders")', by="UntranslatableError"),
    ],
    "Writes": [
        unlisted('insert(MealPlan).values(id=new, recipe_id="recipe_1")'),
        unlisted('insert(MealPlan).values({MealPlan.id: new, MealPlan.recipe_id: "recipe_1"})'),
        unlisted('insert(MealPlan).values([{"id": new, "recipe_id": "recipe_1"}])'),
        Shape("insert(MealPlan)", '[{"id": new, "recipe_id": "recipe_1"}]'),
        Shape("insert(recipe_tags).values(recipe_id=\"recipe_3\", tag='recipe_3')"),
        unlisted(
            'insert(MealPlan).values([{MealPlan.id: new, MealPlan.recipe_id: "recipe_1"}])'
            ".returning(MealPlan.id, MealPlan.recipe_id)"
        ),
        unlisted("insert(recipe_tags)", '[{"recipe_id": "recipe_3", "tag": \'recipe_3\'}]'),
        unlisted(
            'insert(recipe_tags).values(recipe_id="recipe_3", tag="x").returning(recipe_tags)'
        ),
        unlisted(
            "insert(MealPlan).returning(MealPlan.recipe_id)",
            '[{"id": new, "recipe_id": "recipe_1"}]',
        ),
        unlisted(
            'insert(recipe_tags).from_select(["recipe_id", "tag"], '
            'select(Recipe.id, Recipe.name).where(Recipe.id == "recipe_5"))'
        ),
        unlisted(
            'insert(recipe_tags).from_select(["recipe_id", "tag"], '
            'select(literal("recipe_5"), Recipe.name).where(Recipe.id == "recipe_4"))'
        ),
        Shape(
            'pg_insert(recipe_tags).values(recipe_id="recipe_1", tag="quick")'
            '.on_conflict_do_update(index_elements=["recipe_id", "tag"], '
            'set_={"recipe_id": "recipe_4"})'
        ),
        unlisted(
            'pg_insert(recipe_tags).values(recipe_id="recipe_1", tag="quick")'
            ".on_conflict_do_nothing().returning(recipe_tags.c.recipe_id)"
        ),
        Shape('update(MealPlan).filter_by(id="meal_plan_1").values(recipe_id="recipe_2")'),
        Shape(
            'update(MealPlan).where(MealPlan.recipe_id != "recipe_1")'
            '.values(instead_of="recipe_2").returning(MealPlan.id, MealPlan.instead_of)'
        ),
        unlisted("update(MealPlan).values({MealPlan.instead_of: None})"),
        Shape("update(MealPlan)", '[{"id": "meal_plan_1", "recipe_id": "recipe_3"}]'),
        unlisted(
            'update(MealPlan.__table__).where(MealPlan.__table__.c.id == bindparam("x"))'
            '.values(recipe_id=bindparam("y"))',
            '[{"x": "meal_plan_1", "y": "recipe_3"}]',
        ),
        unlisted(
            'update(MealPlan).values(recipe_id=case((MealPlan.day == None, "recipe_3"), '
            'else_="recipe_4"))'
        ),
        unlisted(
            "update(MealPlan).where(MealPlan.recipe_id == Recipe.id, "
            'Recipe.parent_recipe_id == "recipe_1").values(instead_of=Recipe.parent_recipe_id)'
        ),
        Shape('delete(MealPlan).where(MealPlan.recipe_id != "recipe_1")'),
        unlisted(
            'delete(MealPlan).where(MealPlan.id.in_(["meal_plan_1"])).returning(MealPlan.id)'
        ),
        unlisted(
            "delete(recipe_tags).where(recipe_tags.c.recipe_id == Recipe.id, "
            'Recipe.id != "recipe_1")'
        ),
        refused('update(MealPlan).values(recipe_id="recipe_99")', by="UnknownRefError"),
        unlisted(
            'delete(MealPlan).where(func.concat(MealPlan.recipe_id) != "recipe_1")',
            by="UntranslatableError",
        ),
    ],
    "Legacy": [
        unlisted('session.query(Recipe).filter_by(id="recipe_1")'),
        unlisted('session.query(Recipe.id, Recipe.name).filter(Recipe.id.in_(["recipe_1"]))'),
        Shape('session.query(Recipe).filter(Recipe.id == "recipe_1").with_entities(Recipe.id)'),
    ],
}
