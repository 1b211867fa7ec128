"""What a delete unlinks by way of a table between two classes is told, as far as it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Table, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Toolset, Writing, cascades as reach
from alfred_refs.tools.hooks import Hooks
from tests.tools.families import delete


class Base(DeclarativeBase):
    """Declarative base of these tests."""


tagged = Table(
    "tagged",
    Base.metadata,
    Column("meal_id", ForeignKey("meals.id", ondelete="CASCADE"), primary_key=True),
    Column("tag_id", ForeignKey("tags.id"), primary_key=True),
)
likes = Table(
    "likes",
    Base.metadata,
    Column("meal_id", ForeignKey("meals.id"), primary_key=True),
    Column("other_id", ForeignKey("meals.id"), primary_key=True),
)
cooked = Table(
    "cooked",
    Base.metadata,
    Column("meal_id", ForeignKey("meals.id", ondelete="CASCADE"), primary_key=True),
    Column("chef_id", ForeignKey("chefs.id"), primary_key=True),
)


class Tag(Base):
    """Has meals."""

    __tablename__ = "tags"
    __ref_name__ = "tag"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    meals: Mapped[list[Meal]] = relationship(secondary=tagged, back_populates="tags")


class Meal(Base):
    """Has tags and meals that are like it; a class of its own that refers to it goes with it."""

    __tablename__ = "meals"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]
    menu_id: Mapped[int | None] = mapped_column(ForeignKey("menus.id", ondelete="CASCADE"))

    tags: Mapped[list[Tag]] = relationship(secondary=tagged, back_populates="meals")
    alike: Mapped[list[Meal]] = relationship(
        secondary="likes",
        primaryjoin="Meal.id == likes.c.meal_id",
        secondaryjoin="Meal.id == likes.c.other_id",
        back_populates="liked",
    )
    liked: Mapped[list[Meal]] = relationship(
        secondary="likes",
        primaryjoin="Meal.id == likes.c.other_id",
        secondaryjoin="Meal.id == likes.c.meal_id",
        back_populates="alike",
    )


class Chef(Base):
    """Knows meals, which do not know it."""

    __tablename__ = "chefs"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    meals: Mapped[list[Meal]] = relationship(secondary=cooked)


class Menu(Base):
    """Takes its meals along."""

    __tablename__ = "menus"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


class Drink(Base):
    """Has tags, and a subclass in its table."""

    __tablename__ = "drinks"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "drink"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    note: Mapped[str]

    tags: Mapped[list[Tag]] = relationship(secondary="labelled")


class Wine(Drink):
    """Inherits its tags."""

    __mapper_args__ = {"polymorphic_identity": "wine"}  # noqa: RUF012


Table(
    "labelled",
    Base.metadata,
    Column("drink_id", ForeignKey("drinks.id"), primary_key=True),
    Column("tag_id", ForeignKey("tags.id"), primary_key=True),
)


ALL: list[type[Any]] = [Menu, Meal, Tag, Chef]


@pytest.fixture
def kitchen(tables: Engine) -> Engine:
    """Two meals of one menu with three tags, like each other and a third, and known by a cook."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        menu = Menu(id=1, note="menu")
        plain.add(menu)
        plain.flush()
        red, hot, new = (Tag(id=n, note=f"tag {n}") for n in (1, 2, 3))
        soup = Meal(id=1, note="soup", menu_id=1, tags=[red, hot])
        stew = Meal(id=2, note="stew", menu_id=1, tags=[hot, new], alike=[soup])
        cake = Meal(id=3, note="cake", alike=[stew])
        plain.add_all([soup, stew, cake, Chef(id=1, note="chef", meals=[soup])])
        plain.commit()
    return tables


def told(session: RefSession, answer: dict[str, Any]) -> dict[str, set[str]]:
    """Return the rows that are told beside those asked for, by their tables and keys."""
    assert session.conversation is not None
    refs = {
        ref: f"{model.__tablename__} {key}"
        for model in (Meal, Tag, Chef)
        for key, ref in enumerate(session.conversation.refer_all(model, [1, 2, 3]), start=1)
    }
    fields = ("deleted_with", "unlinked")
    return {field: {refs[ref] for ref in answer[field]} for field in fields if field in answer}


OF_MENU = {
    "deleted_with": {"meals 1", "meals 2"},
    "unlinked": {"tags 1", "tags 2", "tags 3", "chefs 1"},
}
CASES: list[tuple[list[type[Any]], type[Any], str, dict[str, set[str]]]] = [
    (ALL, Meal, "soup", {"unlinked": {"tags 1", "tags 2", "meals 2", "chefs 1"}}),
    (ALL, Tag, "tag 2", {"unlinked": {"meals 1", "meals 2"}}),
    (ALL, Menu, "menu", OF_MENU),
    ([Meal], Meal, "soup", {"unlinked": {"meals 2"}}),
    ([Menu, Tag], Tag, "tag 1", {}),
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_unlinked_by_way_of_a_table_is_told(
    kitchen: Engine, session: RefSession, case: tuple[Any, ...]
) -> None:
    """From both ends, of what goes along too; no row of a class that the model may not use."""
    models, model, note, expected = case
    if model is Menu:  # nobody says that those links go, and they keep their rows
        with Session(kitchen) as plain:
            plain.execute(likes.delete())
            plain.commit()
    answer = delete(session, Toolset(models), model, note)
    assert answer.get("count") == 1, answer
    assert told(session, answer) == expected


def test_all_rows_are_looked_at(
    kitchen: Engine, session: RefSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond as many as one statement has, too."""
    monkeypatch.setattr(reach, "_CHUNK", 1)
    with Session(kitchen) as plain:
        plain.execute(likes.delete())
        plain.commit()
    answer = delete(session, Toolset(ALL), Menu, "menu")

    assert told(session, answer) == OF_MENU


def test_a_row_of_a_subclass_has_the_links_of_its_base(
    kitchen: Engine, session: RefSession
) -> None:
    """Also where the base alone is for the model to use."""
    with Session(kitchen) as plain:
        plain.add(Wine(note="port", tags=[*plain.scalars(select(Tag).where(Tag.id < 3))]))
        plain.commit()
    answer = delete(session, Toolset([Drink, Tag]), Drink, "port")

    assert told(session, answer) == {"unlinked": {"tags 1", "tags 2"}}


def test_a_link_is_no_change_of_the_row_at_its_other_end(
    kitchen: Engine, session: RefSession
) -> None:
    """Which may be read only; its hooks are not asked. What is hidden is not told."""

    class Refusing(Hooks):
        def before_write(self, write: Writing) -> None:
            raise AssertionError(write)

    with Session(kitchen) as plain:
        before = plain.execute(select(Tag.__table__)).all()
    toolset = Toolset(
        ALL, read_only=[Tag, Meal.tags], hooks={Tag: [Refusing()]}, hidden=[Meal.alike, Meal.liked]
    )
    answer = delete(session, toolset, Meal, "soup")
    assert told(session, answer) == {"unlinked": {"tags 1", "tags 2", "chefs 1"}}
    with Session(kitchen) as plain:
        assert plain.execute(select(Tag.__table__)).all() == before
        assert plain.scalar(select(func.count()).select_from(tagged)) == 2


def test_what_is_unlinked_counts_once(
    kitchen: Engine, session: RefSession, sent: list[str]
) -> None:
    """Whatever ways lead to it; a relationship that both classes have is one statement."""
    toolset = Toolset(ALL, max_written=4)
    assert delete(session, toolset, Meal, "soup")["error"]["code"] == "too_many_rows"
    sent.clear()
    assert delete(session, Toolset(ALL, max_written=5), Meal, "soup")["count"] == 1
    assert sum(" JOIN tagged" in statement for statement in sent) == 1
    with Session(kitchen) as plain:
        assert plain.scalar(select(func.count()).select_from(Tag)) == 3
