"""Which keys an expression shows."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Enum,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    UnaryExpression,
    Uuid,
    bindparam,
    case,
    cast,
    column,
    distinct,
    exists,
    func,
    literal,
    literal_column,
    null,
    select,
    table,
    text,
    type_coerce,
    union,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by, array
from sqlalchemy.orm import Bundle, aliased
from sqlalchemy.sql import operators

from alfred_refs import RefPolicy, UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.lineage import (
    UNKNOWN,
    UNTYPED,
    ArrayShape,
    JsonObject,
    JsonPairs,
    Lineage,
    ParameterName,
    Series,
    SpelledKey,
    Unknown,
    choices_of,
    columns_in,
    is_document,
)
from alfred_refs.sqla import cache_key_of
from tests.models import MealPlan, Order, OrderLine, Person, Preference, Recipe, RecipeNote

countries = Table("countries", MetaData(), Column("code", String(2), primary_key=True))
recipes: Any = Recipe.__table__
other = aliased(Recipe)
by_count = select(func.count(MealPlan.id)).where(MealPlan.recipe_id == Recipe.id).scalar_subquery()
notes: Any = RecipeNote.__table__
NOTE = KeyColumn("recipe_notes.recipe_id", "recipe", "uuid")
computed = select((Order.id + 1).label("next"), func.max(Order.id).label("last")).subquery()
either = union(select(Recipe.id), select(MealPlan.recipe_id)).subquery()


class OwnBundle(Bundle[Any]):
    """Computes its own value of each row."""

    inherit_cache = True

    def create_row_processor(self, _query: Any, procs: Any, _labels: Any) -> Any:
        """Join the values."""
        return lambda row: "".join(str(proc(row)) for proc in procs)


class Opaque(ColumnElement[Any]):
    """An element that does not show SQLAlchemy its operands."""

    inherit_cache = False

    def __init__(self, part: Any) -> None:
        self.part = part
        self.type = String()


@pytest.fixture(scope="module")
def entities() -> Entities:
    """All types of key become refs."""
    return Entities(RefPolicy(key_types=("uuid", "integer", "string")))


def shown(element: Any, entities: Entities) -> str | Unknown | None:
    """Return the entity whose keys an expression shows."""
    column = getattr(element, "__clause_element__", lambda: element)()
    found = Lineage(entities.of_column).of_any([column])
    assert found is None or isinstance(found, KeyColumn | SpelledKey | Unknown)
    match found:
        case KeyColumn() | SpelledKey():
            return next(columns_in(found)).entity
        case _:
            return found


@pytest.mark.parametrize(
    ("element", "entity"),
    [
        (Recipe.id, "recipe"),
        (other.parent_recipe_id.label("x"), "recipe"),
        (Recipe.name, None),
        (Preference.favourites, "recipe"),
        (Preference.device, None),
        (OrderLine.position, None),
        (countries.c.code, "country"),
        (func.max(Recipe.id), "recipe"),
        (func.max(Order.id), "order"),
        (func.coalesce(Recipe.parent_recipe_id, Recipe.id), "recipe"),
        (func.first_value(Order.id).over(order_by=Order.number), "order"),
        (func.max(Order.id).filter(Order.number > 1), "order"),
        (func.count(Recipe.id), None),
        (func.count(), None),
        (func.count(Recipe.id.distinct()), None),
        (func.row_number().over(partition_by=Order.id, order_by=Order.id), UNTYPED),
        (func.length(Recipe.name), UNTYPED),
        (func.gen_random_uuid(type_=Uuid), UNTYPED),
        (text("id"), UNKNOWN),
        (func.lower(text("id")), UNKNOWN),
        (func.row_to_json(OrderLine.__table__.c.note), None),
        (func.now(), None),
        (Recipe.id == Recipe.parent_recipe_id, None),
        (Recipe.id.is_(None), None),
        (exists().where(Recipe.id == MealPlan.recipe_id), None),
        (by_count, None),
        (select(func.max(Order.id)).scalar_subquery(), "order"),
        (select(MealPlan.recipe_id).scalar_subquery().label("r"), "recipe"),
        (computed.c.last, "order"),
        (either.c.id, "recipe"),
        (case((Recipe.name == "x", Recipe.id), else_=None), "recipe"),
        (case((Order.number == 1, Order.id)), "order"),
        (case((Recipe.id.is_(None), Recipe.name)), None),
        (type_coerce(Recipe.id, Uuid), "recipe"),
        (cast(Recipe.id, Uuid), "recipe"),
        (func.any_value(Person.id), "person"),
        (func.nullif(Recipe.id, bindparam("x")), "recipe"),
        (func.lag(Order.id, 1).over(order_by=Order.number), "order"),
        (func.lag(Order.id, 1, null()).over(order_by=Order.number), "order"),
        (func.coalesce(Order.id, null()), "order"),
        (func.max(Recipe.id.distinct()), "recipe"),
        (literal("x"), None),
        (null(), None),
        (bindparam("x"), None),
        (literal_column("id"), UNKNOWN),
        (column("id"), UNKNOWN),
        (table("recipes", column("id")).c.id, UNKNOWN),
        (func.coalesce(literal_column("id"), Recipe.id), UNKNOWN),
        # declared `Boolean`, or inside an element of the program's own
        (type_coerce(Order.id, Boolean), UNKNOWN),
        (
            UnaryExpression(
                type_coerce(Order.id, Boolean), operator=operators.neg, type_=Boolean()
            ),
            UNKNOWN,
        ),
        (func.max(Order.id, type_=Boolean).over(), UNKNOWN),
        (select(func.md5(cast(Recipe.id, String), type_=Boolean)).scalar_subquery(), UNKNOWN),
        (cast(Recipe.id, String).op("||", return_type=Boolean)(Recipe.name), UNKNOWN),
        (Opaque(Recipe.id), UNKNOWN),
        (Opaque(Recipe.name), UNKNOWN),
        # conditions
        (Recipe.id.is_(None) | (Recipe.name == "A"), None),
        (cast(Order.id, Boolean), None),
        (func.starts_with(Recipe.name, "A", type_=Boolean), None),
        (case((Recipe.id == MealPlan.recipe_id, True), else_=False), None),
        (~exists().where(Recipe.id == MealPlan.recipe_id), None),
    ],
)
def test_a_value_is_a_key_of_the_column_it_comes_from(
    element: Any, entity: str | None, entities: Entities
) -> None:
    """Functions that choose among keys show keys; conditions and counts do not."""
    assert shown(element, entities) == entity


@pytest.mark.parametrize(
    "element",
    [
        func.lower(cast(Recipe.id, String)),
        cast(Recipe.id, String) + "!",
        func.concat("x", Recipe.id),
        recipes.table_valued(),
        func.string_agg(cast(Recipe.id, String), ","),
        func.coalesce(Recipe.id, MealPlan.id),
        func.coalesce(Order.id, 0),
        func.coalesce(Recipe.id, Preference.device),
        case((Order.number == 1, Order.id), else_=Order.number),
        func.lag(Order.id, 1, 0).over(order_by=Order.number),
        func.sum(Order.id),
        func.avg(Order.id),
        Order.id + 1,
        -Order.id,
        Order.id % 10,
        computed.c.next,
        func.lower(countries.c.code),
        countries.c.code + "!",
        func.array_to_string(Preference.favourites, ","),
        case((Order.number == 1, cast(Order.id, String)), else_="none"),
        func.row_to_json(literal(1), Recipe.id),
        func.percentile_disc(0.5).within_group(Order.id),
        cast(Recipe.id, String(8)),
        cast(Recipe.id, CHAR(36)),
        cast(Order.id, String(3)),
        cast(Recipe.id, Enum("a")),
        cast(countries.c.code, String(1)),
        cast(countries.c.code, CHAR(2)),
        cast(Order.id, Numeric),
        cast(Recipe.id, JSON),
        cast(Preference.favourites, String),
        cast(Preference.favourites, ARRAY(String(8))),
        cast(func.json_agg(Recipe.id), String),
        func.to_json(countries.c.code),
        func.json_agg(Recipe.id, type_=JSON)[0],
        func.array_agg(Recipe.id, MealPlan.id),
        func.json_object_agg(Recipe.id),
        func.json_object_agg(Preference.favourites, Recipe.name),
        func.json_build_object(Recipe.id, Recipe.name),
        func.json_build_object(func.lower("x"), Recipe.id),
        func.json_build_object("id", Recipe.id, "name"),
        func.json_build_object("text", func.concat(Recipe.id, "!")),
        func.json_agg(select(func.max(Recipe.id)).subquery().table_valued()),
        func.array_cat(Preference.favourites, array([MealPlan.id])),
        func.array_append(Preference.favourites, bindparam("x")),
        array([Recipe.id, MealPlan.id]),
        array([Recipe.id, bindparam("x")]),
        func.app.max(Recipe.id),
        func.app.array_agg(Recipe.id),
        func.coalesce(func.json_agg(Recipe.id), func.json_agg(Recipe.name)),
        func.coalesce(func.json_agg(Recipe.id), func.json_agg(MealPlan.id)),
        func.coalesce(func.max(cast(Recipe.id, String)), literal("none")),
        func.json_each(func.to_json(Preference.favourites)).table_valued("k", "v").c.k,
        OwnBundle("keys", Recipe.id, Recipe.name),
        Bundle("keys", Recipe.name, Order.id + 1),
        func.jsonb_pretty(func.jsonb_agg(Recipe.id)),
    ],
)
def test_a_computation_with_a_key_is_refused_by_the_name_of_the_column(
    element: Any, entities: Entities
) -> None:
    """A value that is not a key any more, but reveals one, cannot be shown."""
    with pytest.raises(UntranslatableError, match=r"shows keys of \w+\.\w+.*raw_keys\(\)"):
        shown(element, entities)


RECIPE = KeyColumn("recipes.id", "recipe", "uuid")
FAVOURITE = KeyColumn("preferences.favourites", "recipe", "uuid", array=True)
ORDER = KeyColumn("orders.id", "order", "integer")


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (cast(Recipe.id, String), SpelledKey(RECIPE)),
        (cast(Recipe.id, String(36)), SpelledKey(RECIPE)),
        (cast(cast(Recipe.id, Text), Uuid), SpelledKey(RECIPE)),
        (cast(Order.id, Text), SpelledKey(ORDER)),
        (type_coerce(Recipe.id, String), SpelledKey(RECIPE)),
        (func.max(cast(Recipe.id, Text)), SpelledKey(RECIPE)),
        (func.array_agg(Recipe.id), ArrayShape(SpelledKey(RECIPE))),
        (func.array_agg(Recipe.id.distinct()), ArrayShape(SpelledKey(RECIPE))),
        (func.array_agg(Recipe.id).filter(Recipe.name == "x"), ArrayShape(SpelledKey(RECIPE))),
        (
            func.array_agg(aggregate_order_by(Recipe.id, Recipe.name)),
            ArrayShape(SpelledKey(RECIPE)),
        ),
        (func.array_agg(Preference.favourites), ArrayShape(SpelledKey(FAVOURITE))),
        (func.array_agg(Recipe.name), None),
        (func.array_agg(text("id")), UNKNOWN),
        (array([Recipe.id, Recipe.parent_recipe_id]), ArrayShape(SpelledKey(RECIPE))),
        (array([Recipe.name]), None),
        (func.unnest(Preference.favourites), SpelledKey(FAVOURITE)),
        (func.unnest(Preference.favourites).column_valued("f"), SpelledKey(FAVOURITE)),
        (func.unnest(Preference.favourites).table_valued("f").c.f, SpelledKey(FAVOURITE)),
        (func.unnest(Preference.favourites).table_valued("f", with_ordinality="n").c.n, None),
        (Preference.favourites[1], SpelledKey(FAVOURITE)),
        (Preference.favourites[1:2], ArrayShape(SpelledKey(FAVOURITE))),
        (
            func.array_remove(Preference.favourites, bindparam("x")),
            ArrayShape(SpelledKey(FAVOURITE)),
        ),
        (func.array_append(Preference.favourites, Recipe.id), ArrayShape(SpelledKey(FAVOURITE))),
        (Preference.favourites.concat(Preference.favourites), ArrayShape(SpelledKey(FAVOURITE))),
        (func.array_length(Preference.favourites, 1), None),
        (func.cardinality(Preference.favourites), None),
        (cast(Preference.favourites, ARRAY(Text)), ArrayShape(SpelledKey(FAVOURITE))),
        (
            func.json_build_object("id", Recipe.id, "name", Recipe.name),
            JsonObject(((ParameterName(0), SpelledKey(RECIPE)), (ParameterName(1), None))),
        ),
        (
            func.jsonb_build_object(text("'id'"), Order.id),
            JsonObject((("id", SpelledKey(ORDER)),)),
        ),
        (func.json_build_object("name", Recipe.name), None),
        (
            func.json_agg(func.json_build_array(Recipe.id, Recipe.name)),
            ArrayShape(Series((SpelledKey(RECIPE), None))),
        ),
        (
            func.coalesce(func.json_agg(Recipe.id), text("'[]'::json")),
            ArrayShape(SpelledKey(RECIPE)),
        ),
        (
            func.coalesce(func.json_agg(Recipe.id), cast("[]", JSON)),
            ArrayShape(SpelledKey(RECIPE)),
        ),
        (cast(func.json_agg(Recipe.id), JSONB), ArrayShape(SpelledKey(RECIPE))),
        (func.json_object_agg(Recipe.id, Recipe.name), JsonPairs(SpelledKey(RECIPE), None)),
        (func.jsonb_object_agg(Recipe.name, Recipe.id), JsonPairs(None, SpelledKey(RECIPE))),
        (func.to_jsonb(Recipe.id), SpelledKey(RECIPE)),
        (func.to_json(Preference.favourites), ArrayShape(SpelledKey(FAVOURITE))),
        (func.jsonb_array_elements(func.jsonb_agg(Recipe.id)), SpelledKey(RECIPE)),
        (
            func.row_to_json(notes.table_valued()),
            JsonObject((("recipe_id", SpelledKey(NOTE)), ("note", None)), UNKNOWN),
        ),
        (
            func.json_agg(select(RecipeNote).subquery().table_valued()),
            ArrayShape(JsonObject((("recipe_id", SpelledKey(NOTE)), ("note", None)))),
        ),
        (Bundle("b", Recipe.id, Recipe.name), Series((RECIPE, None))),
        (Bundle("b", Bundle("c", Recipe.id), Recipe.name), Series((Series((RECIPE,)), None))),
        (OwnBundle("b", Recipe.name), None),
        (text("1"), None),
        (text("'x'::text"), None),
        (literal_column("null"), None),
        (text("'x' || id"), UNKNOWN),
    ],
)
def test_the_shape_of_a_value_shows_where_its_keys_are(
    element: Any, expected: Any, entities: Entities
) -> None:
    """Lists, objects and texts of keys, nested to any depth."""
    element = getattr(element, "__clause_element__", lambda: element)()
    _, parameters = (
        cache_key_of(select(element)) if not isinstance(element, Bundle) else (None, [])
    )
    lineage = Lineage(entities.of_column, None, [p.key for p in parameters])

    assert lineage.of_any([element]) == expected


def test_a_union_shows_keys_of_one_entity(entities: Entities) -> None:
    """The selects of a union are compared position by position."""
    lineage = Lineage(entities.of_column)
    found = lineage.of_any([recipes.c.id, MealPlan.__table__.c.recipe_id])

    assert isinstance(found, KeyColumn)
    assert found.entity == "recipe"
    assert lineage.of_any([notes.c.note, null()]) is None
    for other_column in (MealPlan.__table__.c.id, Preference.__table__.c.device):
        with pytest.raises(UntranslatableError):
            lineage.of_any([recipes.c.id, other_column])


# Kinds of expression

ids: list[Any] = [Recipe.__table__.c.id, MealPlan.__table__.c.id]
key, plan_key = ids
name: Any = Recipe.__table__.c.name
document = func.json_build_object("id", key)


@pytest.mark.parametrize(
    ("element", "choices"),
    [
        (case((name == "a", key), else_=plan_key), ids),
        (case({"a": key}, value=name, else_=null()), [key, null()]),
        (func.coalesce(*ids), ids),
        (func.COALESCE(*ids), ids),
        (func.pg_catalog.coalesce(*ids), ids),
        (func.elsewhere.coalesce(*ids), []),
        (func.nullif(*ids), [key]),
        (func.lag(key, 1, plan_key), ids),
        (func.lower(name), []),
        (key.label("k"), [key]),
        (distinct(key), [key]),
        (aggregate_order_by(key, name), [key]),
        (key, []),
        (name == "a", []),
        (None, []),
    ],
)
def test_the_choices_of_an_expression_are_values_it_passes_on(
    element: Any, choices: list[Any]
) -> None:
    """One of several, or the one inside a wrapper; a computation has none."""
    actual = choices_of(element)

    assert len(actual) == len(choices)
    assert all(a.compare(b) for a, b in zip(actual, choices, strict=True))


def test_windows_and_filters_pass_a_value_on() -> None:
    """They select the rows of an aggregate, not another value."""
    largest = func.max(key)

    assert list(choices_of(largest.over())) == [largest]
    assert list(choices_of(largest.filter(name == "a"))) == [largest]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (document, True),
        (document.label("d"), True),
        (cast(document, JSON), True),
        (func.coalesce(null(), document), True),
        (case((name == "a", document)), True),
        (func.elsewhere.json_build_object("id", key), False),
        (cast(name, JSON), False),
        (func.lower(name), False),
    ],
)
def test_a_document_is_recognised_by_its_function(element: Any, expected: bool) -> None:
    """Through wrappers and choices."""
    assert is_document(element) is expected
