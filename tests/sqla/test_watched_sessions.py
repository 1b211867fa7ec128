"""Sessions whose loads, additions and exceptions are watched, pinned on both series."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.orm import Session, joinedload

from alfred_refs import sqla
from alfred_refs.session.attributes import boundary_of
from tests.models import MealPlan, Recipe


class Taking:
    """Takes in what is loaded: all of it, or none."""

    def __init__(self, *classes: type[Any], refused: bool = False) -> None:
        self.classes = set(classes)
        self.loaded: list[sqla.WeakInstance] = []
        self.chunks: list[int] = []
        self.check_missing: Callable[[], None] | None = None
        self.refused = refused
        self.seen: list[str] = []

    def hide(self, error: BaseException) -> None:
        """Note an exception, by its class's name."""
        self.seen.append(type(error).__name__)

    def flush_ended(self) -> None:
        """Do nothing."""

    def flush_failed(self, error: Exception) -> None:
        """Know nothing better."""

    def identify(self, _: Session, __: Any, identity: Any, ___: Any) -> tuple[Any, Any]:
        """Take an identity as it is."""
        return None, identity

    def not_found(self, *_: Any) -> None:
        """Look for nothing."""

    def enter(self, state: Any) -> None:
        """Take in an instance of another class than the `classes`."""
        assert state.class_ not in self.classes
        if self.refused:
            raise ValueError(state)
        state.alfred_refs = self
        self.loaded.append(state.obj)

    def after_execute(self, result: Any) -> None:
        """Take in what a statement came to."""

    def after_fetch(self, rows: Any) -> None:
        """Note how many instances there are after each chunk."""
        assert len(rows)
        self.chunks.append(len(self.loaded))


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("classes", [(), (Recipe,), (Recipe, MealPlan)])
def test_each_instance_that_a_load_makes_is_taken_in_once(
    tables: Engine, classes: tuple[type[Any], ...]
) -> None:
    """In the order of rows, those of eager loaders too; what is there already is not."""
    with Session(tables) as session:
        first, *others = session.scalars(select(Recipe).order_by(Recipe.name))
        session.add_all(MealPlan(recipe=recipe) for recipe in (first, others[0]))
        session.commit()
        session.expunge(others[0])
        child_columns = Taking(*classes)
        sqla.watch_loading(session, child_columns)
        plans = select(MealPlan).join(MealPlan.recipe).order_by(Recipe.name)
        [one, two] = session.scalars(plans.options(joinedload(MealPlan.recipe)))

        taken = [one, two, two.recipe]
        assert [there() for there in child_columns.loaded] == taken
        belong: list[Any] = [boundary_of(instance) for instance in taken]
        assert belong == [child_columns] * 3
        assert one.recipe is first
        assert boundary_of(first) is None


@pytest.mark.usefixtures("recipes")
def test_what_the_watcher_refuses_is_not_in_the_session(tables: Engine) -> None:
    """Who keeps the error keeps the instance too: the next load must not find it in the map."""
    with Session(tables) as session:
        sqla.watch_loading(session, Taking(refused=True))
        with pytest.raises(ValueError, match="InstanceState"):
            session.scalars(select(Recipe)).all()

        assert list(session.identity_map.values()) == []


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("classes", [(), (Recipe,)])
def test_a_watched_identity_map_is_as_one_that_is_not(
    tables: Engine, classes: tuple[type[Any], ...]
) -> None:
    """What a load puts in it and in the instance's state is the same, and is dropped the same."""
    with Session(tables) as watched, Session(tables) as other:
        sqla.watch_loading(watched, Taking(*classes))
        maps = [watched.identity_map, other.identity_map]
        found = [session.scalars(select(Recipe)).all() for session in (watched, other)]
        for states, instances in zip(maps, found, strict=True):
            assert list(states.values()) == instances
            assert all(sqla.state_of(i)._instance_dict() is states for i in instances)
        assert list(maps[0].keys()) == list(maps[1].keys())
        del found, instances, states
        assert [len(each) for each in maps] == [0, 0]
        watched.expunge_all()
        assert watched.identity_map is not maps[0]


@pytest.fixture
def seen() -> list[str]:
    """The exceptions that were seen, by their class's name."""
    return []


@pytest.fixture
def child_columns() -> Taking:
    """What takes in recipes."""
    return Taking(Recipe)


@pytest.fixture
def watched(
    tables: Engine, recipes: list[Recipe], seen: list[str], child_columns: Taking
) -> Iterator[Session]:
    """A session whose exceptions and chunks are seen, on a database with recipes in it."""
    assert recipes
    child_columns.seen = seen
    with sqla.HookedSession(tables) as session:
        session._translation = child_columns
        sqla.watch_adding(session, child_columns.hide)
        sqla.watch_loading(session, child_columns)
        yield session


def raise_lookup_error(*_: object) -> None:
    """Stand for a listener that fails."""
    raise LookupError


def test_what_is_raised_while_a_session_executes_is_seen(
    watched: Session, seen: list[str]
) -> None:
    """The statement is refused by the database."""
    with pytest.raises(DBAPIError):
        watched.execute(text("no statement"))

    assert seen == ["ProgrammingError"]


def test_what_is_raised_while_a_session_flushes_is_seen(watched: Session, seen: list[str]) -> None:
    """A listener fails."""
    event.listen(watched, "before_flush", raise_lookup_error)
    watched.add(Recipe(name="F"))
    with pytest.raises(LookupError):
        watched.flush()

    assert seen == ["LookupError"]


def test_a_flush_without_work_is_not_gone_through(
    watched: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy asks for one before each statement, and for `_flush` only if there is work."""
    with monkeypatch.context() as patched:
        patched.setattr(watched, "_flush", raise_lookup_error)
        watched.flush()
        watched.add(Recipe(name="F"))
        with pytest.raises(LookupError):
            watched.flush()


@pytest.mark.parametrize(("size", "chunks"), [(None, [5]), (2, [2, 4, 5])])
def test_each_chunk_of_rows_is_told_of_once_it_is_made(
    watched: Session, child_columns: Taking, size: int | None, chunks: list[int]
) -> None:
    """All at once, or as the program streams them; before the program has the first of them."""
    result = watched.scalars(select(Recipe), execution_options={"yield_per": size})
    told = [list(child_columns.chunks) for _ in result]

    assert child_columns.chunks == chunks
    assert told[0] == chunks[:1]


def test_what_is_raised_while_rows_are_loaded_is_seen(watched: Session, seen: list[str]) -> None:
    """The statement was executed, and nothing was wrong with it."""
    event.listen(Recipe, "load", raise_lookup_error)
    try:
        result = watched.execute(select(Recipe))
        with pytest.raises(LookupError):
            result.all()
    finally:
        event.remove(Recipe, "load", raise_lookup_error)

    assert seen == ["LookupError"]


def test_what_is_raised_while_an_instance_is_added_is_seen(
    watched: Session, recipes: list[Recipe], seen: list[str]
) -> None:
    """Another one has its identity: be it added itself or by way of a relationship."""
    mine = watched.get(Recipe, recipes[0].id)
    plan = MealPlan()
    watched.add(plan)
    with watched.no_autoflush, pytest.raises(InvalidRequestError):
        watched.add(recipes[0])
    with watched.no_autoflush, pytest.raises(InvalidRequestError):
        plan.recipe = recipes[0]

    assert mine in watched
    assert seen == ["InvalidRequestError"] * 2


def test_an_identity_map_that_is_watched_is_not_kept_alive() -> None:
    """It goes with its session, without the garbage collector."""
    session = Session()
    sqla.watch_adding(session, lambda _: None)
    gone = weakref.ref(session.identity_map)
    session.expunge_all()

    assert gone() is None
