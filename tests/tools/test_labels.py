"""Labels of rows: read by one statement for all keys of a table, in any database, and shown."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Engine,
    ForeignKey,
    Integer,
    String,
    Text,
    Uuid,
    create_engine,
    select,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    column_property,
    mapped_column,
    relationship,
    sessionmaker,
)
from sqlalchemy.types import TypeEngine

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset, Hooks, Limits, Reading, Ref, Toolset
from alfred_refs.tools.labels import LabelMode
from tests.tools.conftest import MODELS, Call, bound
from tests.tools.models import Dish, custom


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Country(Base):
    """Is referred to by its code, an alternate key in an order of its own."""

    __tablename__ = "label_countries"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(String(2, collation="C"), unique=True)
    name: Mapped[str]


class City(Base):
    """Names its country."""

    __tablename__ = "label_cities"

    id: Mapped[int] = mapped_column(primary_key=True)
    country_code: Mapped[str] = mapped_column(
        ForeignKey("label_countries.code"), info={"ref": "label_countries.code"}
    )
    country: Mapped[str] = column_property(
        select(Country.name).where(Country.code == country_code).scalar_subquery()
    )


@pytest.fixture
def cities(engine: Engine) -> Iterator[Engine]:
    """Both tables, in PostgreSQL."""
    Base.metadata.create_all(engine)
    yield engine
    Base.metadata.drop_all(engine)


def _labels(engine: Engine) -> list[str]:
    with Session(engine) as plain:
        austria, portugal = Country(code="at", name="Austria"), Country(code="pt", name="Portugal")
        plain.add_all([austria, portugal])
        plain.flush()
        plain.add_all([City(id=1, country_code="pt"), City(id=2, country_code="at")])
        plain.commit()
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    with RefSession(engine, conversation=conversation) as session:
        answer = Toolset([City, Country]).call(session, "db_read", {"table": "label_cities"})
    return [row["_country_code_label"] for row in answer["rows"]]


def test_labels_are_read_by_keys_that_have_a_collation(cities: Engine) -> None:
    """Which no cast to an array can name."""
    assert _labels(cities) == ["Portugal", "Austria"]


def test_labels_are_read_from_a_database_without_arrays() -> None:
    """By a list of the keys."""
    engine = create_engine("sqlite://")
    # a collation of PostgreSQL's
    with engine.connect() as connection:
        connection.connection.create_collation(
            "C", lambda one, other: (one > other) - (one < other)
        )
        both = [Base.metadata.tables[name] for name in ("label_countries", "label_cities")]
        Base.metadata.create_all(connection, both)
        connection.commit()

    assert _labels(engine) == ["Portugal", "Austria"]
    engine.dispose()


def test_a_label_reads_a_column_property_of_a_related_row(cities: Engine) -> None:
    """A write confirms a row by it."""
    _labels(cities)
    policy = RefPolicy(labels={City: lambda city: f"a city of {city.country}"})
    desk = Toolset([City, Country], policy=policy).bind(
        sessionmaker(cities, class_=RefSession),
        registry=RefRegistry(store=MemoryStore(), policy=policy),
    )

    def call(tool: str, **arguments: object) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, {"table": "label_cities", **arguments}).value

    rows = call("db_read", order_by=["country"])["rows"]
    assert [row["country"] for row in rows] == ["Austria", "Portugal"]
    last = [{"field": "id", "op": "=", "value": rows[1]["id"]}]
    wrong = call("db_delete", filters=last, expect="a city of Spain")
    assert wrong["error"]["code"] == "unexpected_row"
    assert call("db_delete", filters=last, expect="a city of Portugal")["count"] == 1


# keys of another Python type than the registry's


# UUIDs that are stored as text without dashes
Spelled = custom(String(32), lambda value: uuid.UUID(str(value)).hex, uuid.UUID)

# the type of the column -> what its values are in Python
TYPES: dict[str, tuple[TypeEngine[Any], Any]] = {
    "uuid": (Uuid(), uuid.uuid4),
    "text of a uuid": (Uuid(as_uuid=False), lambda: str(uuid.uuid4())),
    "custom": (Spelled(), uuid.uuid4),
}


@pytest.fixture(params=[(each, name) for each in TYPES for name in ("postgresql", "sqlite")])
def desk(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[BoundToolset]:
    """Tools on two pots, one of which has a plant, in a conversation that has read them."""
    kind, backend = request.param
    type_, new = TYPES[kind]

    class Base(DeclarativeBase):
        pass

    class Pot(Base):
        __tablename__ = "pots"
        __ref_label__ = "name"

        id: Mapped[Any] = mapped_column(type_, primary_key=True, default=new)
        name: Mapped[str]
        size: Mapped[int | None]

    class Plant(Base):
        __tablename__ = "plants"

        id: Mapped[Any] = mapped_column(type_, primary_key=True, default=new)
        pot_id: Mapped[Any] = mapped_column(ForeignKey("pots.id"))

    engine: Engine = (
        request.getfixturevalue("engine")
        if backend == "postgresql"
        else create_engine(f"sqlite:///{tmp_path / 'pots.db'}")
    )
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        large, small = Pot(name="large"), Pot(name="small")
        session.add_all([large, small])
        session.flush()
        session.add(Plant(pot_id=large.id))
    toolset = Toolset([Pot, Plant], sql=backend == "postgresql")

    def water(pot: Any) -> str:
        """Water a pot."""
        return f"watered {type(pot).__name__}"

    water.__annotations__["pot"] = Ref[Pot]  # a class of this function
    toolset.tool(water)
    made = bound(toolset, engine)
    made.call("chat-7", None, "db_read", {"table": "pots", "order_by": ["name"]})
    yield made
    Base.metadata.drop_all(engine)
    engine.dispose()


BY_REF = [{"field": "id", "op": "=", "value": "pot_1"}]
UPDATE = {"table": "pots", "filters": BY_REF, "data": {"size": 3}}
CREATE = {"table": "plants", "data": {"pot_id": "pot_1"}}


@pytest.mark.parametrize(
    ("tool", "given", "label"),
    [
        ("db_update", UPDATE, {"expect": "large"}),
        ("db_delete", {"table": "pots", "filters": BY_REF}, {"expect": "large"}),
        ("db_create", CREATE, {"data": {"pot_id": "pot_1", "_pot_id_label": "large"}}),
        ("water", {"pot": "pot_1"}, {"_pot_label": "large"}),
    ],
)
def test_a_row_is_confirmed_by_its_label(
    desk: BoundToolset, tool: str, given: dict[str, Any], label: dict[str, Any]
) -> None:
    """A call without the label, or with a wrong one, does nothing and gets the label."""

    def answer(**changes: Any) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, {**given, **changes}).value

    error = answer()["error"]
    assert (error["code"], error["labels"]) == ("unconfirmed_ref", {"pot_1": "large"})
    wrong = {
        name: "small" if isinstance(value, str) else {**value, "_pot_id_label": "small"}
        for name, value in label.items()
    }
    assert answer(**wrong)["error"]["code"] == "unexpected_row"
    right = answer(**label)
    # the plant refers to the pot
    assert right.get("error", {}).get("code") in (None, "still_referenced")


def test_labels_of_refs_are_shown(desk: BoundToolset) -> None:
    """In rows, in groups, and in the answers of SELECTs."""

    def answer(tool: str, **given: Any) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, given).value

    [row] = answer("db_read", table="plants")["rows"]
    assert row["_pot_id_label"] == "large"
    [group] = answer("db_read", table="plants", columns=["pot_id", "count(*)"])["totals"]
    assert group["_pot_id_label"] == "large"
    if "db_query" in {each["name"] for each in desk.toolset.schemas("anthropic")}:
        labels = answer("db_query", sql="select pot_id from plants")["labels"]
        assert labels == {"pot_1": "large"}


# labels of refs in lists: beside them in the same order, or in the legend


BY_NAME = {"table": "dishes", "columns": ["name", "alike"], "order_by": "name"}
KORMA = [{"field": "name", "op": "=", "value": "Korma"}]


class Tag(Base):
    """Is named by its key, and by its code."""

    __tablename__ = "tags"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]


class Post(Base):
    """Names tags in lists, of either kind."""

    __tablename__ = "listed_posts"

    id: Mapped[int] = mapped_column(primary_key=True)
    first_tag: Mapped[int | None] = mapped_column(ForeignKey("tags.id"))
    tag_ids: Mapped[Any] = mapped_column(ARRAY(Integer), info={"ref": "tags.id"})
    codes: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True, info={"ref": "tags.code"})
    before_id: Mapped[int | None] = mapped_column(ForeignKey("listed_posts.id"))

    before: Mapped[Post | None] = relationship(remote_side="Post.id")


@pytest.fixture
def alike(tables: Engine, dishes: dict[str, uuid.UUID]) -> list[uuid.UUID | None]:
    """What the korma is alike: the curry, nothing, a dish without name and the curry again."""
    with Session(tables) as plain:
        nameless = Dish()
        plain.add(nameless)
        plain.flush()
        keys = [dishes["Curry"], None, nameless.id, dishes["Curry"]]
        plain.get_one(Dish, dishes["Korma"]).alike = keys
        plain.commit()
    return keys


@pytest.mark.usefixtures("alike")
def test_labels_stand_beside_a_list(call: Call) -> None:
    """In its order, with null where there is none."""
    [row] = call("db_read", **BY_NAME, filters=KORMA)["rows"]

    assert list(row) == ["id", "name", "alike", "_alike_labels"]
    assert row["alike"] == ["dish_2", None, "dish_3", "dish_2"]
    assert row["_alike_labels"] == ["Curry", None, None, "Curry"]


def test_a_list_without_labels_has_none_beside_it(
    call: Call, tables: Engine, dishes: dict[str, uuid.UUID]
) -> None:
    """Nor has an empty one, nor none."""
    with Session(tables) as plain:
        nameless = Dish()
        plain.add(nameless)
        plain.flush()
        for name, keys in (("Korma", [nameless.id]), ("Curry", [])):
            plain.get_one(Dish, dishes[name]).alike = keys
        plain.commit()

    rows = call("db_read", **BY_NAME)["rows"]
    assert [row["alike"] for row in rows] == [[], ["dish_4"], None, None]
    assert not [row for row in rows if "_alike_labels" in row]


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize("mode", ["legend", "none"])
def test_labels_of_lists_stand_in_the_legend(session: RefSession, mode: LabelMode) -> None:
    """Each once; and nowhere where none are wanted."""
    toolset = Toolset(MODELS, labels=mode)
    answer = toolset.call(session, "db_read", {**BY_NAME, "filters": KORMA})

    assert list(answer["rows"][0]) == ["id", "name", "alike"]
    assert answer.get("labels") == ({"dish_2": "Curry"} if mode == "legend" else None)


@pytest.mark.usefixtures("alike")
def test_rows_inside_rows_have_them(call: Call) -> None:
    """As those outside have."""
    asked = {"table": "parts", "columns": ["dish.alike"], "limit": 1}
    [row] = call("db_read", **asked)["rows"]

    assert row["dish"]["_alike_labels"] == ["Curry", None, None, "Curry"]


@pytest.mark.usefixtures("alike")
def test_writes_answer_them(call: Call) -> None:
    """A row that was changed is shown as one that is read."""
    found = call("db_read", **BY_NAME, filters=KORMA)["rows"][0]
    data = {"alike": [*found["alike"], found["id"]]}
    [row] = call("db_update", table="dishes", filters=KORMA, data=data)["rows"]

    assert row["_alike_labels"] == ["Curry", None, None, "Curry", "Korma"]


def test_drafts_have_them(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Of rows and of other drafts."""
    assert dishes
    call("db_read", **BY_NAME)
    conversation.draft(Dish, {"name": "Dal"})
    content = {"name": "Naan", "alike": ["dish_1", "gen_dish_1", "dish_3"]}
    conversation.draft(Dish, content)
    named = [{"field": "id", "op": "=", "value": "gen_dish_2"}]

    [row] = call("db_read", table="dishes", filters=named)["rows"]
    legend = call("db_read", table="dishes", filters=named, columns=["alike"])

    assert row["alike"] == content["alike"]
    assert row["_alike_labels"] == ["Curry", "Dal", "Soup"]
    assert legend["rows"][0]["_alike_labels"] == ["Curry", "Dal", "Soup"]


@pytest.mark.usefixtures("alike")
def test_a_target_is_asked_once(call: Call, sent: list[str]) -> None:
    """For all lists and references of an answer together."""
    call("db_read", table="dishes")
    sent.clear()
    call("db_read", table="dishes", columns=["parent_id", "alike"])

    assert len([each for each in sent if "FROM dishes" in each]) == 2


@pytest.mark.usefixtures("alike")
def test_few_are_looked_up(session: RefSession, tables: Engine) -> None:
    """As many different rows as there may be related ones; references are not counted."""
    with Session(tables) as plain:
        more = [Dish(name=f"D{n}") for n in range(4)]
        plain.add_all(more)
        plain.flush()
        many = Dish(name="Many", alike=[each.id for each in [*more, *more]], parent=more[3])
        plain.add(many)
        plain.commit()
    asked = {"table": "dishes", "filters": [{"field": "name", "op": "=", "value": "Many"}]}
    toolset = Toolset(MODELS, limits=Limits(related=2))
    [row] = toolset.call(session, "db_read", asked)["rows"]

    assert row["_alike_labels"] == ["D0", "D1", None, None, "D0", "D1", None, None]
    assert row["_parent_id_label"] == "D3"


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize(
    ("changed", "labels"),
    [
        (lambda row: row.update(alike=["dish_2"]), None),
        (lambda row: row.update(alike="many"), None),
        (lambda row: row.pop("alike"), None),
        (lambda row: row.update(_alike_labels="mine"), ["Curry", None, None, "Curry"]),
    ],
)
def test_a_hook_may_change_a_list(
    session: RefSession, changed: Callable[[Any], Any], labels: list[str] | None
) -> None:
    """No label stands beside what it is not of."""

    class Changing(Hooks):
        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            """Change them."""
            for row in rows:
                changed(row)

    toolset = Toolset(MODELS, hooks={Dish: [Changing()]})
    [row] = toolset.call(session, "db_read", {**BY_NAME, "filters": KORMA})["rows"]

    assert row.get("_alike_labels") == labels


def test_keys_of_any_type_have_labels(tables: Engine, session: RefSession) -> None:
    """Numbers, and texts that are no primary keys; nested rows of them too."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        plain.add_all([Tag(id=n, code=f"c{n}", name=f"T{n}") for n in (1, 2, 3)])
        plain.add(Post(id=1, tag_ids=[2, 1], codes=["c3", "c2"], first_tag=None))
        plain.flush()
        plain.add(Post(id=2, tag_ids=[], codes=None, before_id=1, first_tag=3))
        plain.commit()
    toolset = Toolset([Post, Tag])
    asked = {"table": "listed_posts", "columns": ["tag_ids", "codes", "first_tag", "before"]}
    first, second = toolset.call(session, "db_read", asked)["rows"]

    for row in (first, second["before"]):
        assert (row["_tag_ids_labels"], row["_codes_labels"]) == (["T2", "T1"], ["T3", "T2"])
    assert second["_first_tag_label"] == "T3"
    assert "_tag_ids_labels" not in second
    # of rows that the model may not read there are refs alone
    [row] = Toolset([Post]).call(session, "db_read", {**asked, "limit": 1})["rows"]
    assert row["tag_ids"] == first["tag_ids"]
    assert "_tag_ids_labels" not in row
