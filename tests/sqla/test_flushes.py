"""When and in which order SQLAlchemy's unit of work sends rows, pinned on both series."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, UOWTransaction

from alfred_refs import sqla
from tests.models import MealPlan, Recipe


def test_a_session_knows_that_it_is_in_a_flush(tables: Engine) -> None:
    """From `before_flush` to the end, an error included."""
    told: list[bool] = []

    def stop(session: Session, *_: object) -> None:
        told.append(sqla.is_flushing(session))
        raise ValueError("stop")

    with Session(tables) as session:
        event.listen(session, "before_flush", stop)
        session.add(Recipe(name="Soup"))
        with pytest.raises(ValueError, match="stop"):
            session.flush()
        told.append(sqla.is_flushing(session))

    assert told == [True, False]
    assert not sqla.is_flushing(None)


def test_what_waits_for_a_flush_is_sent_where_the_session_flushes_by_itself(
    tables: Engine,
) -> None:
    """As before a statement of the ORM: not inside `no_autoflush`, and not in a flush."""
    told: list[bool] = []

    def again(session: Session, *_: object) -> None:
        sqla.autoflush(session)
        told.append(bool(session.new))

    with Session(tables) as session:
        session.add(Recipe(name="Soup"))
        with session.no_autoflush:
            sqla.autoflush(session)
        told.append(bool(session.new))
        event.listen(session, "before_flush", again)
        sqla.autoflush(session)
        told.append(bool(session.new))

    assert told == [True, True, False]


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_that_name_others_by_value_can_be_saved_after_them(
    tables: Engine, ordered: bool
) -> None:
    """The unit of work does not see to that, and goes by what it is told, cascades included."""
    one, two, three = (Recipe(id=uuid.uuid4(), name=name) for name in ("1", "2", "3"))
    two.parent_recipe_id, three.parent_recipe_id = one.id, two.id
    plan = MealPlan(recipe=three, instead_of=two.id)
    late = MealPlan(recipe_id=three.id)
    with Session(tables) as session:
        session.add_all([late, three, two, one])

        @event.listens_for(session, "before_flush")
        def order(_: Session, flush: UOWTransaction, __: object) -> None:
            named = [(one, two), (two, three), (two, plan), (three, late)]
            pairs = [(sqla.state_of(first), sqla.state_of(then)) for first, then in named]
            deleted = sqla.state_of(Recipe(name="in no session"))
            if ordered:
                sqla.save_in_order(flush, [*pairs, (deleted, pairs[0][0])])

        if ordered:
            session.commit()
            assert len(session.scalars(select(Recipe)).all()) == 3
        else:
            with pytest.raises(IntegrityError):
                session.commit()
