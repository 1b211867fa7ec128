"""Tests for examples.kitchen.search, on the loaded kitchen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, delete, event, insert, select
from sqlalchemy.orm import Session

from examples.kitchen.models import Ingredient, Recipe
from examples.kitchen.search import SURE, by_meaning, by_name, look_up
from tests.fix_postgres import database_like

pytest_plugins = ["tests.fix_kitchen"]


@pytest.fixture(scope="module")
def engine(administration: Engine, kitchen_template: str) -> Iterator[Engine]:
    """A loaded kitchen for the whole module, of which each test rolls back what it writes."""
    with database_like(administration, kitchen_template) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """A plain session on it."""
    with Session(engine) as session:
        yield session


def _meant(session: Session, text: str) -> list[str]:
    """Return the names of the recipes nearest to a text."""
    statement = by_meaning(text, most=3)
    assert statement is not None
    return [session.get_one(Recipe, key).name for key in session.scalars(statement)]


def test_recipes_are_found_by_meaning(session: Session) -> None:
    """The nearest come first: words may stand apart, and what all recipes have does not count."""
    assert _meant(session, "I want some SOUP with lentil in it") == [
        "Ham and Lentil Soup",
        "Turkish Red Lentil Soup",
        "Lebanese Lentil Soup",
    ]


def test_what_is_not_near_is_not_found(session: Session) -> None:
    """A text that no recipe is near to finds none, however many there are."""
    assert _meant(session, "unobtainium") == []


def test_a_text_without_words_has_no_statement() -> None:
    """There is nothing to be near to."""
    assert by_meaning("?") is None


def test_a_new_recipe_is_found_by_meaning(session: Session) -> None:
    """It has its vector as soon as it is flushed, and another one when it is changed."""
    recipe = Recipe(name="Quokka")
    session.add(recipe)
    session.flush()
    assert _meant(session, "quokkas") == ["Quokka"]
    recipe.name = "Wombat"
    session.flush()
    assert _meant(session, "quokkas") == []
    assert _meant(session, "wombats") == ["Wombat"]


def test_a_recipe_inserted_in_bulk_is_found_by_meaning(session: Session) -> None:
    """The vector is the column's default, not something that only the ORM does."""
    session.execute(insert(Recipe), [{"name": "Quokka"}, {"name": "Wombat"}])
    assert _meant(session, "wombats") == ["Wombat"]


def test_a_change_of_something_else_leaves_the_vector(session: Session) -> None:
    """Nothing is computed or loaded for it: one statement, which does not name the vector."""
    recipe = session.scalars(select(Recipe).limit(1)).one()
    recipe.servings = 7
    sent: list[str] = []
    connection = session.connection()
    event.listen(connection, "before_cursor_execute", lambda *given: sent.append(given[2]))
    session.flush()
    [statement] = sent
    assert "embedding" not in statement


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Chiken Paprikash", "Chicken Paprikash"),
        ("chicken paprikash", "Chicken Paprikash"),
        ("butter chicken", "Butter Chicken Masala Curry"),
        ("Tiramisu", "Tiramisù"),
        ("Shepards Pie", "Shepherd's Pie"),
        ("risotto", "Winter Risotto"),
    ],
)
def test_recipes_are_found_by_nearly_their_names(
    session: Session, name: str, nearest: str
) -> None:
    """Slips of the pen, case, accents and words left out do not hide a name."""
    assert session.scalars(by_name(name)).first() == nearest


def test_names_that_are_not_near_are_not_found(session: Session) -> None:
    """Letters in common are not enough."""
    assert session.scalars(by_name("Quokka crumble")).all() == []


def test_a_name_of_two_recipes_is_found_once(session: Session) -> None:
    """Names are found, not rows."""
    names = session.scalars(by_name("Hamburger Pattys")).all()
    assert names.count("Hamburger Patties") == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("2 cups (200 g) Onions, chopped", "onion"),
        ("3 tomatos", "tomato"),
        ("1 tsp cummin", "cumin"),
        ("500 g spagetti", "spaghetti"),
        ("a pinch of salt", "salt"),
        ("2 tbsp extra-virgin olive oil", "extra virgin olive oil"),
    ],
)
def test_a_line_finds_its_row_of_the_catalogue(session: Session, line: str, name: str) -> None:
    """Amounts, remarks, plurals and slips of the pen do not hide what is meant."""
    [found] = look_up(session, [line])
    assert found is not None
    assert found.name == name
    assert found.confidence >= SURE


@pytest.mark.parametrize("line", ["3 quokka fillets", "1 l unobtainium", "2 tbsp mystery sauce"])
def test_a_line_of_something_else_is_not_sure(session: Session, line: str) -> None:
    """What is not in the catalogue has a likeliest row, with little confidence."""
    [found] = look_up(session, [line])
    assert found is not None
    assert found.confidence < SURE


def test_exact_names_and_aliases_are_certain(session: Session) -> None:
    """The confidence is 1 where the catalogue has the very word."""
    session.add(Ingredient(name="samphire", aliases=["sea bean"]))
    found = look_up(session, ["200 g sea beans", "onion"])
    assert [row and (row.name, row.confidence) for row in found] == [
        ("samphire", 1),
        ("onion", 1),
    ]


def test_many_lines_are_one_statement(session: Session) -> None:
    """Answers keep the order of the lines, headings have none, and the catalogue is read once."""
    sent: list[str] = []
    event.listen(
        session.connection(), "before_cursor_execute", lambda *given: sent.append(given[2])
    )
    found = look_up(session, ["1 onion", "For the sauce:", "salt", "2 onions"])
    assert [row and row.name for row in found] == ["onion", None, "salt", "onion"]
    assert len(sent) == 1


def test_lines_without_a_name_ask_nothing(session: Session) -> None:
    """Nothing is sent where there is nothing to look up."""
    sent: list[str] = []
    event.listen(
        session.connection(), "before_cursor_execute", lambda *given: sent.append(given[2])
    )
    assert look_up(session, ["Spices:", "..."]) == [None, None]
    assert sent == []


def test_an_empty_catalogue_answers_nothing(session: Session) -> None:
    """A line has no row where there are none."""
    session.execute(delete(Ingredient))
    assert look_up(session, ["1 onion"]) == [None]
