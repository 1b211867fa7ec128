"""Labels of rows, in the registry and in errors."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, Text, Uuid, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    defer,
    joinedload,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import (
    AsyncRefSession,
    BadRefError,
    Conversation,
    LabelError,
    RefPolicy,
    RefRegistry,
    RefSession,
    UnknownRefError,
)
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.labels import LONGEST, Label, clean_label
from tests.fix_session import TravelLog
from tests.models import Guest, MealPlan, Order, Person, Recipe

KEY = "a508000d-9b55-40f0-8886-dbdd88bd2de2"


def day_and_recipe(plan: Any) -> str:
    """Label a meal plan by its day and its recipe."""
    return f"{plan.day}: {plan.recipe.name}"


POLICY = RefPolicy(labels={Recipe: "name", MealPlan: day_and_recipe, Order: "number"})


@pytest.fixture
def registry(store: TravelLog) -> RefRegistry:
    """A registry whose recipes, meal plans and orders have labels."""
    return RefRegistry(store=store, policy=POLICY)


def labels(session: RefSession) -> dict[str, str | None]:
    """Return the labels in the registry by ref."""
    assert session.conversation is not None
    return {entry.ref: entry.label for entry in session.conversation.entries()}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Butter Chicken", "Butter Chicken"),
        ("  Soup\r\n\tof\u2028the\xa0day ", "Soup of the day"),
        ("a\0b\x1b[31mc\u202ed\ud800e", "ab[31mcde"),
        ("Crème brûlée 🍮", "Crème brûlée 🍮"),
        ("'; drop table -- `x` | # y", "'; drop table -- `x` | # y"),
        (f"Soup {KEY}", "Soup <key>"),
        (" " * 1_980 + f"Soup {KEY}", "Soup"),
        (f"Soup {KEY[:8]}\u200b{KEY[8:]}", "Soup <key>"),
        ("", None),
        (" \n\0 ", None),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * 100_000, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_a_label_is_one_short_line_without_keys(text: str, label: str | None) -> None:
    """Whatever text the attribute holds."""
    assert clean_label(text) == label


def test_an_unredacted_label_has_its_keys_whole_or_not_at_all() -> None:
    """The tools put marks in their place."""
    label = Label(lambda loaded: loaded["name"])
    short, long = f"Soup\n{KEY}", "x" * 190 + f" {KEY} of it"

    assert [label.of_unredacted({"name": text}) for text in (short, long, None)] == [
        *(f"Soup {KEY}", "x" * 190 + " …", None)
    ]


class Base(DeclarativeBase):
    """Declarative base of classes with labels of their own."""


class Dish(Base):
    """Its label is the name of an attribute, which a subclass inherits."""

    __tablename__ = "dishes"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "dish"}  # noqa: RUF012
    __ref_label__ = "name"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    twin: Mapped[uuid.UUID | None]
    cook_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("cooks.id"), info={"ref": None})


class Soup(Dish):
    """Inherits the label."""

    __mapper_args__ = {"polymorphic_identity": "soup"}  # noqa: RUF012


class Stew(Dish):
    """Overrides it by a method."""

    __mapper_args__ = {"polymorphic_identity": "stew"}  # noqa: RUF012

    def __ref_label__(self) -> str:  # type: ignore[override]
        """Return the label."""
        return f"stew of {self.name}"


class Cook(Base):
    """Has no label unless the policy declares one."""

    __tablename__ = "cooks"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    dishes: Mapped[list[Dish]] = relationship()

    @property
    def title(self) -> str:
        """Read an attribute that may not be loaded."""
        return self.name


def label_of(class_: type[Any], loaded: dict[str, Any], policy: RefPolicy | None = None) -> Any:
    """Return the label of an instance that has these attributes loaded."""
    label = Entities(policy or RefPolicy()).of_class(class_).label
    return None if label is None else label.of(loaded)


@pytest.mark.parametrize("class_", [Dish, Soup])
def test_a_class_declares_the_attribute_of_its_label(class_: type[Any]) -> None:
    """A subclass inherits the declaration unless it overrides it."""
    assert label_of(class_, {"name": "Goulash"}) == "Goulash"
    assert label_of(class_, {"name": None}) is None
    assert label_of(class_, {}) is None
    assert label_of(Stew, {"name": "Goulash"}) == "stew of Goulash"
    assert label_of(Cook, {"name": "Ann"}) is None


def test_the_policy_overrides_the_class() -> None:
    """For a class and its subclasses; `None` removes the label."""
    assert label_of(Soup, {"name": "x"}, RefPolicy(labels={Dish: lambda _: "D"})) == "D"
    assert label_of(Soup, {"name": "x"}, RefPolicy(labels={Soup: "kind"})) is None
    assert label_of(Soup, {"name": "x"}, RefPolicy(labels={Dish: None})) is None
    assert label_of(Cook, {"name": "Ann"}, RefPolicy(labels={Cook: "name"})) == "Ann"


@pytest.mark.parametrize(
    ("class_", "given", "fact"),
    [
        (Dish, "nmae", "'Dish' is 'nmae', which is not an attribute with a column"),
        (Cook, "dishes", "'Cook' is 'dishes', which is not an attribute with a column"),
        (Cook, "title", "'Cook' is 'title', which is not an attribute with a column"),
        (Dish, "id", "'Dish' is 'id', which may hold keys"),
        (Dish, "cook_id", "'Dish' is 'cook_id', which may hold keys"),
        (Dish, "twin", "'Dish' is 'twin', which may hold keys"),
        (Dish, 7, "'Dish' is a int"),
        (Dish, Dish.name, "'Dish' is a InstrumentedAttribute"),
    ],
)
def test_an_invalid_declaration_is_refused(class_: type[Any], given: Any, fact: str) -> None:
    """The error names the class, and what can be declared."""
    with pytest.raises(LabelError) as caught:
        label_of(class_, {}, RefPolicy(labels={class_: given}))
    assert str(caught.value) == (
        f"the label of class {fact}; name an attribute with a plain column, or give a function of "
        "loaded attributes that returns text, in __ref_label__ or RefPolicy(labels={...})"
    )


@pytest.mark.parametrize(
    ("function", "fact"),
    [
        (lambda dish: f"{dish.id}", "of 'id', which may hold keys"),
        (lambda dish: dish.cook_id, "of 'cook_id', which may hold keys"),
        (lambda dish: dish.nmae, "of 'nmae', which is not a mapped attribute"),
        (lambda dish: dish.name + 1, "that raised TypeError"),
        (lambda _: 7, "that returned a int"),
    ],
)
def test_a_function_sees_no_key_and_returns_text(
    function: Callable[[Any], str | None], fact: str
) -> None:
    """Its mistakes raise when it is first called."""
    loaded = {"id": uuid.UUID(KEY), "cook_id": uuid.UUID(KEY), "name": "Soup"}
    with pytest.raises(LabelError, match=f"'Dish' is a function {fact}; ") as caught:
        label_of(Dish, loaded, RefPolicy(labels={Dish: function}))
    assert KEY not in str(caught.value)


def test_a_function_sees_only_loaded_attributes() -> None:
    """Of related instances as well: it receives nothing that could emit SQL."""
    dish = Dish(id=uuid.uuid4(), name="Soup")
    policy = RefPolicy(labels={Cook: lambda cook: "; ".join(dish.name for dish in cook.dishes)})
    by_key = RefPolicy(labels={Cook: lambda cook: str(cook.dishes[0].id)})

    assert label_of(Cook, {"dishes": [dish, dish]}, policy) == "Soup; Soup"
    assert label_of(Cook, {}, policy) is None
    assert label_of(Cook, {"dishes": [Dish()]}, policy) is None
    with pytest.raises(LabelError, match="label of class 'Dish' is a function of 'id', which may"):
        label_of(Cook, {"dishes": [dish]}, by_key)


def test_labels_are_stored_when_keys_are_minted(
    session: RefSession, recipes: list[Recipe], store: TravelLog, sent: list[str]
) -> None:
    """In the same round trip, without a statement on the application's connection."""
    found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    before = list(sent)
    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]
    session.rollback()

    assert store.trips == ["refer"]
    assert sent == before
    assert labels(session) == {f"recipe_{n}": name for n, name in enumerate("ABCDE", start=1)}
    assert len(recipes) == 5


@pytest.mark.usefixtures("recipes")
def test_nothing_is_loaded_for_a_label(session: RefSession, sent: list[str]) -> None:
    """A deferred attribute, a relationship and an expired instance stay as they are."""
    recipe = session.scalars(select(Recipe).options(defer(Recipe.name)).limit(1)).one()
    plan = MealPlan(recipe_id=recipe.id, day=dt.date(2026, 11, 22))
    session.add(plan)
    session.flush()
    before = list(sent)
    assert (plan.id, recipe.id) == ("meal_plan_1", "recipe_1")

    assert sent == before
    assert labels(session) == {"meal_plan_1": None, "recipe_1": None}


def test_an_inserted_row_has_its_label(session: RefSession, store: TravelLog) -> None:
    """A function reads a loaded relationship as well."""
    recipe = Recipe(name="Butter Chicken")
    plan = MealPlan(recipe=recipe, day=dt.date(2026, 11, 22))
    order = Order(number=5)
    session.add_all([plan, order])
    session.flush()
    assert (plan.id, order.id) == ("meal_plan_1", "order_1")
    session.commit()

    assert store.trips == ["refer"]
    assert labels(session) == {
        "meal_plan_1": "2026-11-22: Butter Chicken",
        "order_1": "5",
        "recipe_1": "Butter Chicken",
    }


def test_a_ref_minted_without_a_label_gets_it_when_its_row_is_read(
    sessions: sessionmaker[RefSession], registry: RefRegistry, recipes: list[Recipe]
) -> None:
    """At the end of the transaction, in one round trip for all; and only once."""
    with sessions() as plain:
        plain.add_all([MealPlan(recipe_id=recipe.id) for recipe in recipes[:2]])
        plain.commit()
    store = registry._store
    assert isinstance(store, TravelLog)
    chat = registry.conversation("chat-7")
    with sessions(conversation=chat) as session:
        plans = session.scalars(select(MealPlan)).all()
        assert {plan.recipe_id for plan in plans} == {"recipe_1", "recipe_2"}
        assert set(labels(session).values()) == {None}
        store.trips.clear()
    for trips in (["label"], []):
        with sessions(conversation=registry.conversation("chat-7")) as session:
            found = session.scalars(select(Recipe).where(Recipe.name.in_(["A", "B"]))).all()
            assert {recipe.id for recipe in found} == {"recipe_1", "recipe_2"}
        assert store.trips == trips
        store.trips.clear()

    shown = {entry.label for entry in chat.entries(Recipe)}
    assert shown == {"A", "B"}


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("ends", ["commit", "close"])
def test_a_label_changed_elsewhere_is_stored_when_its_row_is_read(
    sessions: sessionmaker[RefSession],
    registry: RefRegistry,
    recipes: list[Recipe],
    store: TravelLog,
    ends: str,
    *,
    elsewhere: bool,
) -> None:
    """By a statement or another client: at the end of the transaction, in one round trip."""
    chat = registry.conversation("chat-7")
    renamed = {"A": "Soup", "B": "Stew"}
    for process in (chat, RefRegistry(store=store, policy=POLICY).conversation("chat-7")):
        with sessions(conversation=process) as session:
            found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
            refs = [recipe.id for recipe in found]
    with sessions() as plain:
        for name, other in renamed.items():
            plain.execute(update(Recipe).where(Recipe.name == name).values(name=other))
        plain.commit()
    if elsewhere:
        chat = RefRegistry(store=store, policy=POLICY).conversation("chat-7")
    for trips in (["label"], []):
        store.trips.clear()
        with sessions(conversation=chat) as session:
            # the program drops them
            assert {each.id for each in session.scalars(select(Recipe))} == set(refs)
            assert "label" not in store.trips
            getattr(session, ends)()
        assert [trip for trip in store.trips if trip == "label"] == trips
    assert labels(session) == dict(zip(refs, ["Soup", "Stew", *"CDE"], strict=True))
    assert len(recipes) == 5


RENAMES: dict[str, Callable[[RefSession], object]] = {
    "an attribute": lambda session: session.scalars(select(Recipe)).one().name,
    "a refresh": lambda session: session.refresh(session.scalars(select(Recipe)).one()),
    "a select": lambda session: session.scalars(
        select(Recipe).execution_options(populate_existing=True)
    ).all(),
    "get": lambda session: session.get(Recipe, "recipe_1", populate_existing=True),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("read", RENAMES.values(), ids=list(RENAMES))
def test_a_label_changed_elsewhere_is_stored_when_its_instance_is_refreshed(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    tables: Engine,
    read: Callable[[RefSession], object],
    *,
    own: bool,
) -> None:
    """Whether this session or another client has updated the row."""
    with sessions(conversation=conversation) as session:
        session.add(recipe := Recipe(name="Soup"))
        session.commit()
        assert recipe.id == "recipe_1"
        session.commit()
        rename = update(Recipe).values(name="Stew")
        if own:
            session.execute(rename)
        else:
            with Session(tables) as plain:
                plain.execute(rename)
                plain.commit()
        session.commit()
        read(session)
        session.commit()
        assert labels(session) == {"recipe_1": "Stew"}


@pytest.mark.usefixtures("soup")
async def test_a_rollback_keeps_the_label(
    tables: Engine, conversation: Conversation, store: TravelLog, session: RefSession
) -> None:
    """Although the session has read the new one, as an async session does at the flush."""
    engine = create_async_engine(tables.url)
    async with AsyncRefSession(engine, conversation=conversation) as other:
        recipe = await other.get_one(Recipe, "recipe_1")
        recipe.name = "Stew"
        await other.flush()
        assert recipe.id == "recipe_1"
        await other.rollback()
    await engine.dispose()

    assert (store.trips, labels(session)) == ([], {"recipe_1": "Soup"})


@pytest.fixture
def soup(session: RefSession, store: TravelLog) -> Recipe:
    """A saved recipe, `recipe_1`, with the label Soup."""
    soup = Recipe(name="Soup")
    session.add(soup)
    session.commit()
    assert soup.id == "recipe_1"
    store.trips.clear()
    return soup


def test_a_changed_label_is_stored_at_the_commit(
    session: RefSession, soup: Recipe, store: TravelLog
) -> None:
    """In one round trip, however often it was flushed."""
    for name in ("Stew", "Salad"):
        soup.name = name
        session.flush()
    assert (store.trips, labels(session)) == ([], {"recipe_1": "Soup"})
    session.commit()

    assert (store.trips, labels(session)) == (["label"], {"recipe_1": "Salad"})


def test_a_label_that_is_rolled_back_is_not_stored(
    session: RefSession, soup: Recipe, store: TravelLog
) -> None:
    """With its transaction, or with its savepoint."""
    soup.name = "Stew"
    session.flush()
    session.rollback()
    with session.begin_nested() as savepoint:
        soup.name = "Salad"
        session.flush()
        savepoint.rollback()
    with session.begin_nested():
        soup.name = "Curry"
    session.commit()

    assert (store.trips, labels(session)) == (["label"], {"recipe_1": "Curry"})


@pytest.mark.parametrize(
    "change",
    [
        lambda soup: setattr(soup, "name", "Soup"),
        lambda soup: setattr(soup, "parent_recipe_id", "recipe_1"),
        lambda soup: setattr(soup, "name", "\n"),
    ],
)
def test_nothing_is_sent_if_no_label_changed(
    session: RefSession, soup: Recipe, store: TravelLog, change: Callable[[Recipe], None]
) -> None:
    """Nor if the new label is empty: it does not replace the old one."""
    change(soup)
    session.commit()

    assert (store.trips, labels(session)) == ([], {"recipe_1": "Soup"})


def test_a_changed_relationship_changes_the_label_of_a_function(
    session: RefSession, soup: Recipe, store: TravelLog
) -> None:
    """The labels before and after are computed from what was loaded before and after."""
    plan = MealPlan(recipe=soup, day=dt.date(2026, 11, 22))
    session.add(plan)
    session.commit()
    assert plan.id == "meal_plan_1"
    [plan] = session.scalars(select(MealPlan).options(joinedload(MealPlan.recipe))).all()
    plan.recipe = Recipe(name="Stew")
    session.commit()

    assert store.trips == ["refer", "label"]
    assert labels(session)["meal_plan_1"] == "2026-11-22: Stew"


@pytest.mark.usefixtures("soup")
def test_a_key_in_a_label_is_not_stored(session: RefSession) -> None:
    """It is replaced by `<key>`."""
    stew = Recipe(name=f"Stew {KEY}")
    session.add(stew)
    session.commit()
    assert stew.id == "recipe_2"
    assert labels(session)["recipe_2"] == "Stew <key>"


def test_a_class_without_a_label_costs_nothing(
    session: RefSession, soup: Recipe, store: TravelLog
) -> None:
    """Its rows are written and read without a round trip for labels."""
    guest = Guest(mentor_id=None)
    session.add(guest)
    session.commit()
    assert guest.id == "person_1"
    assert session.get(Person, "person_1") is guest
    session.commit()

    assert (soup.name, store.trips) == ("Soup", ["refer"])
    assert session._boundary is not None
    assert set(session._boundary.labelled_classes) == {Recipe}


@pytest.fixture
def cooked(session: RefSession) -> RefSession:
    """A session in which some recipes are known by name."""
    names = ("Butter Chicken", "Pad Thai", "Soup", "soup", "Say 'hi', \"you\"")
    session.add_all([Recipe(name=name) for name in names])
    session.commit()
    found = session.scalars(select(Recipe).order_by(Recipe.name.collate("C").desc())).all()
    assert [recipe.id for recipe in found][-1] == "recipe_5"
    return session


def error_of(session: RefSession, text: str) -> BadRefError:
    """Return the error of a look-up by a wrong ref."""
    with pytest.raises(BadRefError) as caught:
        session.get(Recipe, text)
    return caught.value


def test_the_error_of_an_unknown_ref_shows_refs_and_labels(cooked: RefSession) -> None:
    """The labels are escaped."""
    error = error_of(cooked, "recipe_9")

    assert str(error) == (
        "'recipe_9' is not a known recipe; known: 'recipe_1' (\"soup\"), 'recipe_2' (\"Soup\"), "
        "'recipe_3' (\"Say \\'hi\\', \\\"you\\\"\"), 'recipe_4' (\"Pad Thai\"), "
        "'recipe_5' (\"Butter Chicken\")"
    )
    assert error.labels["recipe_5"] == "Butter Chicken"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("Butter Chicken", "recipe_5"),
        ("butter  CHICKEN", "recipe_5"),
        ("buttr chiken", "recipe_5"),
        ("pad-thai", "recipe_4"),
        ("soup", None),  # there are two
        ("Ravioli", None),
        ("recipe_9", None),
        ("recipe 4", "recipe_4"),
    ],
)
def test_the_error_of_a_label_in_place_of_a_ref_suggests_the_ref(
    cooked: RefSession, text: str, near: str | None
) -> None:
    """If exactly one row has the label, or a similar one; the label is not resolved."""
    error = error_of(cooked, text)

    assert isinstance(error, UnknownRefError)
    assert error.near == near
    if near == "recipe_5":
        assert "; did you mean 'recipe_5' (\"Butter Chicken\")? known: " in str(error)


def test_the_suggested_ref_is_among_the_known_ones(cooked: RefSession) -> None:
    """Although only refs with near numbers are shown."""
    cooked.add_all([Recipe(name=f"Bread No. {number}") for number in range(20)])
    cooked.commit()
    loaves = cooked.scalars(select(Recipe).where(Recipe.name.like("Bread%"))).all()
    assert {loaf.id for loaf in loaves} == {f"recipe_{number}" for number in range(6, 26)}

    error = error_of(cooked, "butter chicken 24")
    assert (error.near, len(error.known)) == ("recipe_5", 10)
    assert error.labels["recipe_5"] == "Butter Chicken"


def test_labels_of_another_conversation_are_not_suggested(
    cooked: RefSession, sessions: sessionmaker[RefSession], registry: RefRegistry
) -> None:
    """The error does not reveal that they exist."""
    assert error_of(cooked, "butter chicken").known
    with sessions(conversation=registry.conversation("chat-8")) as other:
        error = error_of(other, "butter chicken")

    assert (error.near, error.known, error.labels) == (None, (), {})


async def test_an_async_session_stores_labels(
    async_engine: AsyncEngine, recipes: list[Recipe]
) -> None:
    """New and changed ones, inside awaited calls."""
    registry = RefRegistry(async_engine, policy=POLICY)
    chat = registry.conversation("chat-7")
    async with AsyncRefSession(async_engine, conversation=chat) as session:
        found = (await session.scalars(select(Recipe).order_by(Recipe.name))).all()
        found[0].name = "Soup"
        await session.commit()

    async with async_engine.connect() as connection:
        entries = await connection.run_sync(lambda _: list(chat.entries()))
    assert [entry.label for entry in entries] == ["Soup", "B", "C", "D", "E"]
    assert len(recipes) == 5


def test_a_plain_session_stores_no_labels(tables: Any, recipes: list[Recipe]) -> None:
    """Only sessions with a conversation do."""
    with Session(tables) as plain:
        plain.merge(recipes[0]).name = "Soup"
        plain.commit()
        assert list(RefRegistry(tables).conversation("chat-7").entries()) == []
