"""Which columns hold keys, and of which entity."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    func,
    literal_column,
    select,
)
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, column_property, mapped_column

from alfred_refs import KeyColumnError, RefPolicy
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from tests.models import (
    Cook,
    Guest,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Preference,
    Recipe,
    RecipeNote,
    devices,
    recipe_tags,
)

plan, line = aliased(MealPlan), MealPlan.__table__.alias()
sub, cte = select(MealPlan).subquery(), select(MealPlan.recipe_id.label("r")).cte()


@pytest.fixture
def entities() -> Entities:
    """The entities under the default policy."""
    return Entities(RefPolicy())


@pytest.mark.parametrize(
    ("column", "entity"),
    [
        (Recipe.id, "recipe"),
        (Recipe.parent_recipe_id, "recipe"),
        (Recipe.name, None),
        (MealPlan.recipe_id, "recipe"),
        (MealPlan.instead_of, "recipe"),
        (MealPlan.day, None),
        (Preference.favourites, "recipe"),
        (Preference.device, None),
        (Preference.legacy_recipe_id, None),
        (Preference.last_seen, "recipe"),
        (Order.id, "order"),
        (Order.number, None),
        (OrderLine.order_id, "order"),
        (OrderLine.position, None),
        (RecipeNote.recipe_id, "recipe"),
        (Person.id, "person"),
        (Cook.__table__.c.id, "person"),
        (Guest.id, "person"),
        (recipe_tags.c.recipe_id, "recipe"),
        (recipe_tags.c.tag, None),
        (devices.c.id, "device"),
        (plan.instead_of, "recipe"),
        (line.c.recipe_id, "recipe"),
        (sub.c.instead_of, "recipe"),
        (cte.c.r, "recipe"),
        (select(sub.c.id.label("x")).subquery().c.x, "meal_plan"),
        (Recipe.id.label("anything"), "recipe"),
        (func.lower(Recipe.name), None),
    ],
)
def test_the_entity_of_a_column_is_read_from_the_metadata(
    column: Any, entity: str | None, entities: Entities
) -> None:
    """From what the column references, whatever its name, through any alias."""
    element: ColumnElement[Any] = getattr(column, "__clause_element__", lambda: column)()
    found = entities.of_column(element)

    assert (found and found.entity) == entity


@pytest.mark.parametrize(
    ("class_", "name"),
    [(MealPlan, "meal_plan"), (Cook, "person"), (Guest, "person"), ("anything", "anything")],
)
def test_the_entity_is_named_by_the_class_at_the_root(
    class_: Any, name: str, entities: Entities
) -> None:
    """Inheriting classes share the entity of their base."""
    assert entities.name_of(class_) == name


def test_a_column_knows_its_python_type(entities: Entities) -> None:
    """Keys are converted to the column's own type: UUID, text, integer, list."""
    key = uuid.uuid4()
    person = entities.of_class(Person).primary["id"]

    assert person == KeyColumn("people.id", "person", "uuid", as_text=True)
    assert (person.to_key(str(key)), person.from_key(key)) == (key, str(key))
    assert entities.of_class(Recipe).primary["id"].from_key(key) is key
    assert entities.of_class(Preference).foreign["favourites"].array


@pytest.mark.parametrize(
    ("class_", "primary", "foreign", "own"),
    [
        (MealPlan, ["id"], ["recipe_id", "instead_of"], "meal_plan"),
        (OrderLine, ["order_id"], [], None),
        (RecipeNote, ["recipe_id"], [], None),
        (Cook, ["id"], ["mentor_id"], "person"),
    ],
)
def test_the_key_attributes_of_a_class(
    class_: type[Any], primary: list[str], foreign: list[str], own: str | None, entities: Entities
) -> None:
    """Rows have refs of their own unless their key is composite or another entity's."""
    keys = entities.of_class(class_)

    assert (list(keys.primary), list(keys.foreign), keys.own_entity) == (primary, foreign, own)


def test_a_policy_chooses_key_types() -> None:
    """Integers are data if only UUIDs become refs; strings become refs on request."""
    table = Table("countries", MetaData(), Column("code", String(2), primary_key=True))
    uuids, strings = Entities(RefPolicy(key_types=("uuid",))), Entities(RefPolicy(("string",)))

    assert uuids.of_column(Order.__table__.c.id) is None
    assert uuids.of_column(table.c.code) is None
    assert strings.of_column(table.c.code) == KeyColumn("countries.code", "country", "string")


@pytest.mark.parametrize(
    "excluded", [Recipe, "recipes", MealPlan.recipe_id, "meal_plans.recipe_id"]
)
def test_a_policy_excludes_classes_and_columns(excluded: Any) -> None:
    """A foreign key to an excluded class is data as well."""
    entities = Entities(RefPolicy(exclude=(excluded,)))

    assert entities.of_column(MealPlan.__table__.c.recipe_id) is None
    assert entities.of_column(MealPlan.__table__.c.id) is not None


def test_each_column_of_a_composite_key_is_read_separately(entities: Entities) -> None:
    """A UUID in a composite key is a key; a number in one is data."""
    metadata = MetaData()
    tenants = Table("tenants", metadata, Column("id", Integer, primary_key=True))
    documents = Table(
        "documents",
        metadata,
        Column("tenant_id", Integer, ForeignKey(tenants.c.id), primary_key=True),
        Column("id", Uuid, primary_key=True),
        Column("version", Integer, primary_key=True),
    )
    found = [entities.of_column(column) for column in documents.c]

    assert [column and column.entity for column in found] == ["tenant", "document", None]


def test_a_foreign_key_to_another_unique_column_holds_alternate_keys(entities: Entities) -> None:
    """In a name space of their own; the unique column itself is data."""
    metadata = MetaData()
    target = Table(
        "badges",
        metadata,
        Column("id", Uuid, primary_key=True),
        Column("serial", Uuid, unique=True),
    )
    source = Table("doors", metadata, Column("serial", Uuid, ForeignKey(target.c.serial)))

    found = entities.of_column(source.c.serial)

    assert found is not None
    assert found.alternate is not None
    assert (found.entity, found.space) == ("badge", "badge by badges.serial")
    assert (found.alternate.column, found.alternate.primary) == (target.c.serial, target.c.id)
    assert entities.of_column(target.c.serial) is None


@pytest.mark.parametrize(
    ("type_", "declared", "message"),
    [
        (Uuid(), "nowhere.id", "'nowhere.id', which is not a column of its metadata"),
        (Uuid(), "id", "'id', which is not a column of its metadata"),
        (ARRAY(Text()), "self.id", None),
        (func.now().type, "self.id", "has the type DateTime"),
    ],
)
def test_a_declaration_must_name_a_table_and_a_type_of_key(
    type_: Any, declared: str, message: str | None, entities: Entities
) -> None:
    """`info={"ref": ...}` is checked at the first use of the column."""
    table = Table(
        "self",
        MetaData(),
        Column("id", Uuid, primary_key=True),
        Column("other", type_, info={"ref": declared}),
    )
    if message is None:
        assert entities.of_column(table.c.other) is not None
        return
    with pytest.raises(KeyColumnError, match=message):
        entities.of_column(table.c.other)


def test_rows_without_primary_key_cannot_be_named(entities: Entities) -> None:
    """SQLAlchemy refuses to map such a class, and the policy to name such a table."""
    mapped, bare = (Table("log", MetaData(), Column("line", Text)) for _ in range(2))
    base = type("Base", (DeclarativeBase,), {})

    with pytest.raises(ArgumentError, match="could not assemble any primary key columns"):
        type("Log", (base,), {"__table__": mapped})
    with pytest.raises(KeyColumnError, match=r"'log' has no primary key.*__mapper_args__"):
        entities.name_of(bare)


def test_a_view_has_the_primary_key_that_its_class_declares(entities: Entities) -> None:
    """The table of a view has no constraints."""
    table = Table("popular", MetaData(), Column("recipe", Uuid), Column("times", Integer))
    base = type("Base", (DeclarativeBase,), {})
    options = {"primary_key": [table.c.recipe]}
    view = type("Popular", (base,), {"__table__": table, "__mapper_args__": options})

    assert entities.name_of(view) == "popular"
    assert list(entities.of_class(view).primary) == ["recipe"]


def test_a_class_that_is_mapped_later_is_read_at_its_first_use(entities: Entities) -> None:
    """Of another base as well: no class has to be registered."""
    entities.of_class(Recipe)

    class Base(DeclarativeBase):
        pass

    class Drink(Base):
        __tablename__ = "drinks"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True)

    assert entities.of_class(Drink).own_entity == "drink"


def test_keys_of_a_python_type_of_the_applications_own_are_data(entities: Entities) -> None:
    """Only UUIDs, integers and strings become refs."""

    class Token(TypeDecorator[Any]):
        impl = Integer
        cache_ok = True
        python_type = dict

        def process_result_value(self, value: Any, _: Any) -> Any:
            return {"token": value}

    table = Table("tokens", MetaData(), Column("id", Token, primary_key=True))

    assert entities.of_column(table.c.id) is None


def test_an_attribute_of_unknown_origin_is_refused_unless_declared(entities: Entities) -> None:
    """SQL text in a `column_property()` may show a key, and instances are not examined."""

    class Local(DeclarativeBase):
        """Of this test."""

    class Odd(Local):
        __tablename__ = "odd"
        key: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        other: Mapped[Any] = column_property(literal_column("key"))

    class Fine(Local):
        __tablename__ = "fine"
        key: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        one: Mapped[Any] = column_property(literal_column("1"))
        other: Mapped[Any] = column_property(literal_column("key"), info={"ref": None})

    with pytest.raises(KeyColumnError, match=r"Odd\.other .*unknown origin.*info="):
        entities.of_class(Odd).check_readable("other")
    assert list(entities.of_class(Odd).attributes) == ["key"]
    assert list(entities.of_class(Fine).all) == ["key"]


@pytest.mark.parametrize("primary", [["num"], ["num", "id"]])
def test_a_class_has_the_primary_key_of_its_table(primary: list[str]) -> None:
    """By another, a ref would name one row to the session, and another to the database."""

    class Base(DeclarativeBase):
        """Of this test."""

    table = Table(
        *("badges", Base.metadata, Column("id", Integer, primary_key=True)),
        Column("num", Integer, unique=True),
    )
    namespace = {
        "__table__": table,
        "__mapper_args__": {"primary_key": [table.c[name] for name in primary]},
    }
    badge = type("Badge", (Base,), namespace)

    with pytest.raises(KeyColumnError, match="class 'Badge' has another primary key than its tab"):
        Entities(RefPolicy()).of_class(badge)
