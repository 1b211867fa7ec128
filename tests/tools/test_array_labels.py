"""The labels of refs in lists: beside them in the same order, or in the legend."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import ARRAY, Engine, ForeignKey, Integer, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from alfred_refs.tools.labels import LabelMode
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish

BY_NAME = {"table": "dishes", "columns": ["name", "alike"], "order_by": "name"}
KORMA = [{"field": "name", "op": "=", "value": "Korma"}]


class Base(DeclarativeBase):
    """Declarative base of tables whose keys are numbers and texts."""


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
        korma = plain.get(Dish, dishes["Korma"])
        assert korma is not None
        korma.alike = keys
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
            dish = plain.get(Dish, dishes[name])
            assert dish is not None
            dish.alike = keys
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
