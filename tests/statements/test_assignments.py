"""Keys are no data: neither loaded under the name of a data column, nor stored in one."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    String,
    Uuid,
    case,
    cast,
    column,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.orm import Session, aliased, contains_eager

from alfred_refs import RefSession, UntranslatableError
from tests.models import MealPlan, Order, Recipe

AS_NAME = cast(Recipe.id, String).label("name")


def as_names(name: Any = AS_NAME) -> Any:
    """Return a select of recipes with something in the place of their names."""
    return select(Recipe.id, name)


@pytest.fixture
def key(tables: Engine) -> uuid.UUID:
    """The key of a recipe that is there."""
    with Session(tables) as plain:
        recipe = Recipe(name="soup")
        plain.add(recipe)
        plain.commit()
        return recipe.id  # type: ignore[no-any-return]


FROM_STATEMENT = [
    as_names(),
    as_names(func.upper(cast(Recipe.id, String)).label("name")),
    as_names(literal_column("recipes.id::text").label("name")),
    as_names().union_all(as_names()),
    select(as_names().subquery()),
    select(as_names().cte()),
    text("select id, id::text as name from recipes"),
    text("select id, upper(id::text) as name from recipes"),
    text("select id, id::text as name from recipes").columns(id=Uuid, name=String),
    update(Recipe).values(name=cast(Recipe.id, String)).returning(Recipe),
]


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("statement", [as_names(), text("select id::text as name from recipes")])
def test_a_key_is_not_loaded_as_a_value(session: RefSession, statement: Any) -> None:
    """Of a column of data by itself."""
    with pytest.raises(UntranslatableError):
        session.scalars(select(Recipe.name).from_statement(statement)).all()


@pytest.mark.parametrize("statement", FROM_STATEMENT)
@pytest.mark.usefixtures("key")
def test_a_key_is_not_loaded_as_data(session: RefSession, statement: Any) -> None:
    """By `from_statement()`, whatever the expression is made of."""
    with pytest.raises(UntranslatableError):
        session.scalars(select(Recipe).from_statement(statement)).all()


@pytest.mark.parametrize(
    "sent",
    [
        "select id, id as number from orders",
        "select o.id, o.id as number from orders o",
        "select r.id, o.id as number from orders o left join recipes r on true",
        "with o as (select id as key from orders) select key as id, key as number from o",
    ],
)
def test_text_loads_no_key_as_data(session: RefSession, sent: str) -> None:
    """The server tells of which column a value is, whatever it is called: of a number, too."""
    session.add(Order(number=5))
    session.commit()
    loading = select(Order).from_statement(text(sent))

    with pytest.raises(UntranslatableError, match=r"Order\.(id|number) would hold keys"):
        session.scalars(loading).all()
    plain = select(Order).from_statement(text("select id, number from orders"))
    assert [(each.id, each.number) for each in session.scalars(plain)] == [("order_1", 5)]


@pytest.mark.usefixtures("key")
def test_an_instance_that_was_refused_has_no_key(session: RefSession) -> None:
    """It stays in the session, and is loaded anew."""
    recipe = session.scalars(select(Recipe)).one()
    by_text = select(Recipe).from_statement(text("select id, id::text as name from recipes"))
    with pytest.raises(UntranslatableError, match=r"Recipe\.name"):
        session.scalars(by_text, execution_options={"populate_existing": True}).all()
    assert recipe.name == "soup"


@pytest.mark.parametrize(
    "statement",
    [
        as_names(Recipe.name),
        as_names(func.upper(Recipe.name).label("name")),
        text("select id, upper(name) as name from recipes"),
        text("select id, name from recipes").columns(id=Uuid, name=String),
        text("select id, name from recipes").columns(Recipe.id, Recipe.name),
        select(as_names(Recipe.name).subquery()),
        select(literal_column("recipes.id").label("id"), Recipe.name),
        update(Recipe).values(name="SOUP").returning(Recipe),
    ],
)
def test_data_are_loaded_from_whatever_statement(
    session: RefSession, key: uuid.UUID, statement: Any
) -> None:
    """With refs where the keys are."""
    found = session.scalars(select(Recipe).from_statement(statement)).one()
    assert found.name.lower() == "soup"
    assert session.conversation is not None
    assert session.conversation.resolve(found.id) == key


@pytest.mark.usefixtures("key")
def test_an_alias_goes_by_names_too(session: RefSession) -> None:
    """Where it is loaded; its column by itself is a key like others."""
    alias: Any = aliased(Recipe, as_names().subquery(), adapt_on_names=True)
    with pytest.raises(UntranslatableError, match=r"Recipe\.name"):
        session.scalars(select(alias)).all()
    plans = select(MealPlan).join(MealPlan.recipe.of_type(alias))
    with pytest.raises(UntranslatableError, match=r"Recipe\.name"):
        session.scalars(plans.options(contains_eager(MealPlan.recipe.of_type(alias)))).all()
    assert session.scalars(select(alias.name)).one() == session.scalars(select(Recipe.id)).one()
    plain: Any = aliased(Recipe, as_names(Recipe.name).subquery(), adapt_on_names=True)
    assert session.scalars(select(plain)).one().name == "soup"


STORED = [
    update(Recipe).values(name=cast(Recipe.id, String)),
    update(Recipe).values(name=cast(column("id"), String)).returning(Recipe.name),
    update(Recipe).values(name=func.lower(cast(Recipe.id, String))).returning(Recipe.name),
    update(Recipe).ordered_values((Recipe.name, cast(Recipe.id, String))),
    insert(Recipe).values(name=select(cast(Recipe.id, String)).limit(1).scalar_subquery()),
    insert(Recipe).values([{"name": select(cast(Recipe.id, String)).limit(1).scalar_subquery()}]),
    insert(Recipe).from_select(["name"], select(cast(Recipe.id, String))),
    upsert(Recipe)
    .values(id=uuid.uuid4(), name="x")
    .on_conflict_do_update(index_elements=["id"], set_={"name": cast(Recipe.id, String)}),
    select(update(Recipe).values(name=cast(Recipe.id, String)).returning(Recipe.name).cte()),
]


@pytest.mark.parametrize("statement", STORED)
def test_a_key_is_not_stored_as_data(
    session: RefSession, key: uuid.UUID, tables: Engine, statement: Any
) -> None:
    """It would be data from then on; trusted code may do it."""
    with pytest.raises(UntranslatableError):
        session.execute(statement)
    session.rollback()
    session.execute(statement, execution_options={"raw_keys": True})
    session.commit()
    with Session(tables) as plain:
        names = plain.scalars(select(Recipe.name)).all()
    assert str(key) in names or sorted(names) == ["soup", "x"]


@pytest.mark.parametrize(
    "value",
    [
        func.lower(column("name", String)),
        case((column("id", Uuid) == Recipe.id, "soup"), else_=column("name", String)),
    ],
)
def test_a_bare_name_of_a_data_column_is_stored(
    session: RefSession, key: uuid.UUID, value: Any
) -> None:
    """It is the column of the table that is written; one of keys may decide what is stored."""
    assert (
        session.scalars(update(Recipe).values(name=value).returning(Recipe.name)).one() == "soup"
    )
    del key


def test_what_is_computed_from_keys_is_stored(session: RefSession, key: uuid.UUID) -> None:
    """As long as no key is in it."""
    count = select(cast(func.count(Recipe.id), String)).scalar_subquery()
    assert session.scalars(update(Recipe).values(name=count).returning(Recipe.name)).one() == "1"
    del key


def test_an_error_among_raw_keys_is_told_again_without_them(
    session: RefSession, key: uuid.UUID
) -> None:
    """By everything that needs a transaction, until that is rolled back."""
    with session.raw_keys():
        session.add(Recipe(id=key, name="another"))
        with pytest.raises(Exception, match=str(key)):
            session.flush()
        with pytest.raises(PendingRollbackError, match=str(key)):
            session.execute(select(Recipe))
    for again in (
        session.commit,
        session.begin_nested,
        session.connection,
        lambda: session.execute(select(Recipe)),
    ):
        with pytest.raises(PendingRollbackError, match="duplicate key value") as caught:
            again()
        assert str(key) not in str(caught.value)
    session.rollback()
    assert session.scalars(select(Recipe.name)).one() == "soup"
