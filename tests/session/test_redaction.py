"""No error out of a session in a conversation shows a key; a plain session's are as they were."""

from __future__ import annotations

import asyncio
import gc
import pickle
import traceback
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    NullPool,
    String,
    Table,
    TypeDecorator,
    Uuid,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import (
    DBAPIError,
    IntegrityError,
    InvalidRequestError,
    PendingRollbackError,
    SAWarning,
    StatementError,
)
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)
from sqlalchemy.orm.exc import ObjectDeletedError, StaleDataError
from sqlalchemy.schema import CreateTable

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession
from alfred_refs.mapping import naming
from alfred_refs.session.redaction.errors import hide_keys
from alfred_refs.testing import MemoryStore
from tests.fix_postgres import PreparedDatabases, connected, databases_prepared
from tests.fix_session import TravelLog
from tests.models import Recipe, devices

KNOWN = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")  # platter_1
UNKNOWN = uuid.UUID("c69607bb-1f55-4d1e-9d6c-0f4c2f9d7a11")
CHEF = 918273645  # chef_1
NO_CHEF = 777000111
KEYS = (KNOWN, UNKNOWN, CHEF, NO_CHEF)


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Chef(Base):
    """Has integer keys."""

    __tablename__ = "chefs"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    name: Mapped[str | None]


class Platter(Base):
    """Can be wrong in every way."""

    __tablename__ = "platters"
    __table_args__ = (CheckConstraint("grade < 10"),)

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str | None]
    grade: Mapped[int | None]
    parent_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("platters.id"), nullable=True)
    chef_id: Mapped[Any] = mapped_column(
        Integer, ForeignKey("chefs.id", deferrable=True, initially="deferred"), nullable=True
    )
    sides: Mapped[Any] = mapped_column(ARRAY(Uuid), info={"ref": "platters.id"}, nullable=True)

    courses: Mapped[list[Course]] = relationship(back_populates="dish")


class Course(Base):
    """Has a composite key, and text that must be there."""

    __tablename__ = "courses"

    dish_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("platters.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]

    dish: Mapped[Platter] = relationship(back_populates="courses")


class Tool(Base):
    """The base of an inheritance whose rows can contradict themselves."""

    __tablename__ = "tools"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "tool"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str]


class Knife(Tool):
    """A joined subclass."""

    __tablename__ = "knives"
    __mapper_args__ = {"polymorphic_identity": "knife"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Integer, ForeignKey("tools.id"), primary_key=True)


class Spoon(Tool):
    """Another."""

    __mapper_args__ = {"polymorphic_identity": "spoon"}  # noqa: RUF012


platters, tools, knives = (Base.metadata.tables[name] for name in ("platters", "tools", "knives"))

REFUSE = """
create function refuse(id uuid, chef integer) returns boolean language plpgsql as $$
begin
  raise exception 'dish % is closed', id using
    detail = 'its chef is ' || chef, hint = 'ask ' || chef;
end $$
"""
TRIGGER = """
create function check_dish() returns trigger language plpgsql as $$
begin
  if new.name = 'refuse' then
    execute format('select refuse(%L, %s)', new.id, new.chef_id);
  elsif new.name = 'misspell' then
    execute format('select misspelt from platters where chef_id = %s', new.chef_id);
  end if;
  return new;
end $$;
create trigger check_dish before insert or update on platters
for each row execute function check_dish()
"""


@pytest.fixture(scope="module")
def kitchens(administration: Engine) -> Iterator[PreparedDatabases]:
    """Databases with these tables."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            Base.metadata.create_all(connection)
            for statement in (REFUSE, TRIGGER):
                connection.execute(text(statement))

    with databases_prepared(administration, prepare) as databases:
        yield databases


@pytest.fixture
def kitchen(kitchens: PreparedDatabases) -> Iterator[Engine]:
    """An engine on a database with these tables, a chef and two platters of theirs."""
    with kitchens.lent() as url:
        engine = create_engine(url)
        with Session(engine) as plain:
            plain.add(Chef(id=CHEF))
            plain.flush()
            plain.add_all([Platter(id=KNOWN, chef_id=CHEF, grade=1), Platter(name="B", grade=2)])
            plain.commit()
        yield engine
        engine.dispose()


@pytest.fixture
def conversation() -> Conversation:
    """A conversation that knows the chef and the first dish."""
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    conversation.refer(Platter, KNOWN)
    conversation.refer(Chef, CHEF)
    return conversation


Work = Callable[[Any], object]
Raised = Callable[[Work], Exception]


def run_sync(engine: Engine, conversation: Conversation, work: Work) -> None:
    """Do work in a session of a synchronous driver."""
    with RefSession(engine, conversation=conversation) as session:
        work(session)


async def run_async(url: Any, conversation: Conversation, work: Work, **options: Any) -> None:
    """Do work in a session under an asynchronous one."""
    engine = create_async_engine(url, poolclass=NullPool, **options)
    session = AsyncSession(engine, sync_session_class=RefSession, conversation=conversation)
    try:
        await session.run_sync(work)
    finally:
        await session.close()
        await engine.dispose()


@pytest.fixture(params=["psycopg", "psycopg2", "asyncpg"])
def driver(request: pytest.FixtureRequest) -> str:
    """Each of the drivers."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["shown", "hidden"])
def raised(
    request: pytest.FixtureRequest, driver: str, kitchen: Engine, conversation: Conversation
) -> Raised:
    """Does work in a session of each driver, parameters hidden or not; returns what it raises."""
    url = kitchen.url.set(drivername=f"postgresql+{driver}")
    options = {"hide_parameters": request.param}

    def raised(work: Work) -> Exception:
        try:
            if driver == "asyncpg":
                asyncio.run(run_async(url, conversation, work, **options))
            else:
                other = create_engine(url, poolclass=NullPool, **options)
                run_sync(other, conversation, work)
        except Exception as error:  # noqa: BLE001  # what it is the test asserts
            return error
        pytest.fail("nothing was raised")

    return raised


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def everything(error: BaseException) -> str:
    """Return all that an exception says: what a log or a model might be shown."""
    said = traceback.format_exception(error)
    for one in chain(error):
        said += [str(one), repr(one), repr(vars(one)), str(getattr(one, "params", ""))]
        said += [str(getattr(one, "pgerror", ""))]
        if "_info" in vars(one):
            said += [repr(getattr(one.diag, n)) for n in dir(one.diag)]  # type: ignore[attr-defined]
    if isinstance(error, DBAPIError) and not type(error.orig).__module__.startswith("sqlalchemy"):
        said += [str(pickle.loads(pickle.dumps(error)))]  # noqa: S301
    # the one thing that is no text: numbers of lines and objects
    return "\n".join(said)


def shows_no_key(error: BaseException) -> bool:
    """Tell whether no key, nor the beginning of one, is anywhere in an exception."""
    said = everything(error).lower()
    shown = [key for key in KEYS if str(key)[:8] in said]
    assert shown == []
    return True


def sqlstate(error: Any) -> str | None:
    """Return the code of an error."""
    driver = getattr(error, "orig", error)
    return getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)


def flush(session: RefSession, *objects: Any) -> None:
    """Flush new objects."""
    session.add_all(objects)
    session.flush()


def add_twice(session: RefSession) -> None:
    """Flush two objects with one composite key."""
    for note in "ab":
        flush(session, Course(dish_id="platter_1", position=3, note=note))
        session.expunge_all()


# what is done, the class and code of the error, and what it says
CASES: dict[str, tuple[Work, type[Exception], str, str]] = {
    "unique": (
        lambda s: flush(s, Platter(id=KNOWN, name="x")),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
    "composite": (
        add_twice,
        IntegrityError,
        "23505",
        'Key (dish_id, "position")=(platter_1, 3) already exists.',
    ),
    "foreign key": (
        lambda s: flush(s, Platter(parent_id=UNKNOWN)),
        IntegrityError,
        "23503",
        'Key (parent_id)=(<key>) is not present in table "platters".',
    ),
    "deferred foreign key": (
        lambda s: (s.add(Platter(chef_id=NO_CHEF)), s.commit()),
        IntegrityError,
        "23503",
        'Key (chef_id)=(<key>) is not present in table "chefs".',
    ),
    "the other side of a foreign key": (
        lambda s: (s.delete(s.get(Chef, "chef_1")), s.commit()),
        IntegrityError,
        "23503",
        'Key (id)=(chef_1) is still referenced from table "platters".',
    ),
    "not null": (
        lambda s: s.execute(insert(Course).values(dish_id="platter_1", position=1, note=None)),
        IntegrityError,
        "23502",
        "Failing row contains (values left out: there may be keys among them)",
    ),
    "check": (
        lambda s: flush(s, Platter(parent_id="platter_1", chef_id="chef_1", grade=12)),
        IntegrityError,
        "23514",
        "Failing row contains (values left out: there may be keys among them)",
    ),
    "update": (
        lambda s: s.execute(update(Platter).where(Platter.id == "platter_1").values(grade=12)),
        IntegrityError,
        "23514",
        "platters_grade_check",
    ),
    "text of SQL": (
        lambda s: s.execute(
            text(f"select '{KNOWN}'::uuid from platters where chef_id / 0 = {CHEF}")
        ),
        DBAPIError,
        "22012",
        "division by zero",
    ),
    "excerpt": (
        lambda s: s.execute(
            text("select no from platters where id = :a or chef_id = :b"), {"a": KNOWN, "b": CHEF}
        ),
        DBAPIError,
        "42703",
        'column "no" does not exist',
    ),
    "trigger": (
        lambda s: flush(s, Platter(id=UNKNOWN, name="refuse", chef_id="chef_1")),
        DBAPIError,
        "P0001",
        "dish <key> is closed",
    ),
    "trigger at an update": (
        lambda s: s.execute(
            update(Platter).where(Platter.id == "platter_1").values(name="refuse")
        ),
        DBAPIError,
        "P0001",
        "dish platter_1 is closed",
    ),
    "a statement that a trigger makes": (
        lambda s: flush(s, Platter(id=UNKNOWN, name="misspell", chef_id="chef_1")),
        DBAPIError,
        "42703",
        'column "misspelt" does not exist',
    ),
    "many": (
        lambda s: s.execute(
            insert(Platter), [{"id": KNOWN, "chef_id": CHEF, "sides": [UNKNOWN]}] * 20
        ),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
    "many without a result": (
        lambda s: s.connection().execute(
            insert(platters), [{"id": UNKNOWN, "chef_id": CHEF, "sides": [KNOWN]}] * 2
        ),
        IntegrityError,
        "23505",
        "Key (id)=(<key>) already exists.",
    ),
    "streaming": (
        lambda s: s.execute(
            select(Platter.name).where(func.refuse(Platter.id, Platter.chef_id)),
            execution_options={"yield_per": 1},
        ).all(),
        Exception,  # asyncpg's own
        "P0001",
        "dish platter_1 is closed",
    ),
    "the session's connection": (
        lambda s: s.connection().execute(insert(Platter).values(id=KNOWN, chef_id=CHEF)),
        IntegrityError,
        "23505",
        "Key (id)=(platter_1) already exists.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_of_the_database_shows_no_key(raised: Raised, case: str) -> None:
    """It keeps its class and code, and says by refs what it said by keys."""
    work, class_, code, said = CASES[case]

    error = raised(work)

    assert isinstance(error, class_)
    assert sqlstate(error) == code
    assert said in everything(error)
    assert shows_no_key(error)


def test_a_commit_by_a_with_shows_no_key(kitchen: Engine, conversation: Conversation) -> None:
    """The transaction commits there, and not the session."""
    session = RefSession(kitchen, conversation=conversation)
    with pytest.raises(IntegrityError) as caught, session, session.begin():
        session.add(Platter(chef_id=NO_CHEF))

    assert "Key (chef_id)=(<key>) is not present" in str(caught.value)
    assert shows_no_key(caught.value)


@pytest.fixture
def session(kitchen: Engine, conversation: Conversation) -> Iterator[RefSession]:
    """A session in the conversation."""
    with RefSession(kitchen, conversation=conversation) as session:
        yield session


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        # stored in columns, by name
        (
            {"id": KNOWN, "chef_id": CHEF, "parent_id": UNKNOWN, "grade": 3, "sides": [KNOWN]},
            {
                "id": "platter_1",
                "chef_id": "chef_1",
                "parent_id": "<key>",
                "grade": 3,
                "sides": ["platter_1"],
            },
        ),
        # data that spells keys
        (
            {"name": f"after {KNOWN.hex} and {UNKNOWN}"},
            {"name": "after platter_1 and <key>"},
        ),
    ],
)
def test_parameters_are_shown_by_what_they_are_stored_in(
    session: RefSession, parameters: dict[str, Any], shown: dict[str, Any]
) -> None:
    """Data stays what it is, and so does an integer beside an integer key."""
    given = dict(parameters)
    with pytest.raises(IntegrityError) as refused:
        session.connection().execute(insert(platters), {"id": KNOWN, "name": None, **parameters})
    seen: Any = refused.value.params

    assert {name: seen[name] for name in shown} == shown
    assert parameters == given
    assert shows_no_key(refused.value)


def test_a_parameter_whose_name_tells_nothing_is_hidden(session: RefSession) -> None:
    """It may be a key, if the application has keys of its type."""
    query = text("select 1 / :zero from platters where chef_id = :a and id = :b and name = :c")
    with pytest.raises(DBAPIError) as caught:
        session.connection().execute(query, {"zero": 0, "a": CHEF, "b": KNOWN, "c": "x"}).all()

    assert caught.value.params == {"zero": "<key>", "a": "<key>", "b": "platter_1", "c": "x"}


def test_a_value_that_cannot_be_bound_shows_no_key(session: RefSession) -> None:
    """The error is the statement's, and nothing is sent."""
    query = select(Platter.name).where(
        Platter.id == bindparam("id"), Platter.chef_id == bindparam("chef")
    )
    with pytest.raises(StatementError, match="required for bind parameter 'chef'") as caught:
        session.execute(query, {"id": "platter_1", "other": CHEF})

    assert type(caught.value) is StatementError
    assert shows_no_key(caught.value)


def test_objects_among_parameters_are_shown_by_their_type(session: RefSession) -> None:
    """What they print cannot be told: a JSON document has keys, or pieces of them."""

    class Opaque:
        def __repr__(self) -> str:
            return str(KNOWN)[:18]

    with pytest.raises(StatementError) as caught:
        session.connection().execute(insert(Platter), {"id": KNOWN, "name": Opaque()})

    assert "<Opaque>" in str(caught.value)
    assert shows_no_key(caught.value)


def test_psycopg_keeps_its_diagnosis(session: RefSession) -> None:
    """Names and codes are what they were, sentences have refs."""
    with pytest.raises(IntegrityError) as caught:
        flush(session, Platter(id=KNOWN))
    diagnosis = caught.value.orig.diag  # type: ignore[union-attr]

    assert diagnosis.sqlstate == "23505"
    assert diagnosis.constraint_name == "platters_pkey"
    assert diagnosis.message_detail == "Key (id)=(platter_1) already exists."
    assert shows_no_key(pickle.loads(pickle.dumps(caught.value)))  # noqa: S301


def test_what_is_raised_after_a_failed_flush_shows_no_key(session: RefSession) -> None:
    """It has the first error's text in its own."""
    with pytest.raises(IntegrityError):
        flush(session, Platter(id=KNOWN))
    with pytest.raises(PendingRollbackError) as caught:
        session.execute(select(Platter.name))

    assert "Key (id)=(platter_1) already exists." in str(caught.value)
    assert shows_no_key(caught.value)


def test_an_error_that_is_wrapped_shows_no_key(session: RefSession) -> None:
    """Whatever the program makes of it while it handles it."""

    def wrap() -> None:
        try:
            flush(session, Platter(id=KNOWN))
        except IntegrityError as error:
            raise RuntimeError(f"no luck: {error}") from error

    with pytest.raises(RuntimeError, match="no luck") as caught:
        wrap()

    assert shows_no_key(caught.value)


def test_a_listener_of_the_program_is_told_without_keys(
    kitchen: Engine, session: RefSession
) -> None:
    """What it makes of an error is raised in place of it."""

    class KitchenError(Exception):
        pass

    @event.listens_for(kitchen, "handle_error")
    def replace(context: Any) -> None:
        raise KitchenError(str(context.original_exception))

    with pytest.raises(KitchenError) as caught:
        session.execute(insert(Platter).values(grade=12, parent_id="platter_1"))
    assert shows_no_key(caught.value)

    session.rollback()
    with pytest.raises(KitchenError) as caught, session.begin():
        session.add(Platter(chef_id=NO_CHEF))
    assert shows_no_key(caught.value)


def test_what_listeners_of_the_session_raise_shows_no_key(session: RefSession) -> None:
    """They are below the session, where there are keys."""

    def refuse(_: Any, __: Any, dish: Platter) -> None:
        raise ValueError(f"not {vars(dish)['id']}", {"id": vars(dish)["id"]}, [UNKNOWN.hex])

    event.listen(Platter, "before_insert", refuse)
    try:
        with pytest.raises(ValueError, match="not platter_1") as caught:
            flush(session, Platter(id=KNOWN))
    finally:
        event.remove(Platter, "before_insert", refuse)

    assert caught.value.args == ("not platter_1", {"id": "platter_1"}, ["<key>"])
    assert shows_no_key(caught.value)


def test_members_of_a_group_show_no_key(session: RefSession) -> None:
    """They are worded as if each had been raised alone."""

    def refuse(*_: Any) -> None:
        raise ExceptionGroup("two", [KeyError(KNOWN), ExceptionGroup("", [OSError(f"{CHEF}")])])

    event.listen(session, "before_flush", refuse)
    with pytest.raises(ExceptionGroup) as caught:
        flush(session, Platter())

    assert str(KNOWN) not in everything(caught.value)
    assert caught.value.exceptions[0].args == ("platter_1",)


# SQLAlchemy's own


def test_a_second_instance_of_a_row_is_refused_by_its_ref(session: RefSession) -> None:
    """Be it added itself or by way of a relationship."""
    mine = session.get(Platter, "platter_1")
    with RefSession(session.bind, conversation=session.conversation) as other:
        theirs = other.get(Platter, "platter_1")
        other.expunge_all()
    course = Course(position=1, note="")
    session.add(course)

    adds: list[Callable[[], object]] = [
        lambda: session.add(theirs),
        lambda: setattr(course, "dish", theirs),
    ]
    for add in adds:
        with pytest.raises(
            InvalidRequestError, match=r"key .*Platter, .platter_1.* is already"
        ) as caught:
            add()
        assert shows_no_key(caught.value)
    assert mine in session
    session.close()
    again = session.get(Platter, "platter_1")
    with pytest.raises(
        InvalidRequestError, match=r"key .*Platter, .platter_1.* is already"
    ) as caught:
        session.add(mine)
    assert again in session
    assert shows_no_key(caught.value)


@pytest.mark.parametrize("of", [Chef, Platter])
def test_a_warning_made_an_error_shows_no_key(session: RefSession, of: Any) -> None:
    """A new object has the key of one that is there."""
    key, ref = {Chef: (CHEF, "chef_1"), Platter: (KNOWN, "platter_1")}[of]
    there = session.get(of, ref)
    session.add(of(id=key))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            SAWarning, match=f"identity key .*{of.__name__}, .{ref}.* conflicts"
        ) as caught:
            session.flush()

    assert there in session
    assert shows_no_key(caught.value)


@pytest.mark.parametrize("load", ["all", "scalars", "get", "lazily", "query"])
def test_a_row_that_contradicts_itself_shows_no_key(
    kitchen: Engine, session: RefSession, load: str
) -> None:
    """It is found while the rows of a result are loaded."""
    with Session(kitchen) as plain:
        plain.execute(insert(tools).values(id=CHEF, kind="spoon"))
        plain.execute(insert(knives).values(id=CHEF))
        plain.commit()
    assert session.conversation is not None
    session.conversation.refer(Tool, CHEF)
    loads: dict[str, Callable[[], Any]] = {
        "all": lambda: session.execute(select(Knife)).all(),
        "scalars": lambda: session.scalars(select(Knife)).first(),
        "get": lambda: session.get(Knife, "tool_1"),
        "lazily": lambda: [*session.scalars(select(Knife)).partitions(1)],
        "query": lambda: session.query(Knife).all(),
    }

    with pytest.raises(InvalidRequestError, match=r"Tool, \(tool_1\)") as caught:
        loads[load]()
    assert shows_no_key(caught.value)


def test_rows_returned_that_match_no_record_show_no_key(session: RefSession) -> None:
    """SQLAlchemy looks each up by the key that was sent, and says which it missed."""

    class Shifted(TypeDecorator[int]):
        impl = Integer
        cache_ok = True

        @property
        def python_type(self) -> type[Any]:
            return int

        def process_result_value(self, value: Any, _: Any) -> Any:
            return value + 1

    knobs = Table("knobs", MetaData(), Column("id", Shifted, primary_key=True))
    session.connection().execute(CreateTable(knobs))
    with pytest.raises(InvalidRequestError, match="key <key> was not found") as caught:
        session.execute(
            insert(knobs).returning(knobs.c.id, sort_by_parameter_order=True),
            [{"id": NO_CHEF}, {"id": NO_CHEF + 2}],
        ).all()

    assert shows_no_key(caught.value)


FETCHES: list[Callable[[Any], Any]] = [
    lambda result: result.all(),
    lambda result: result.first(),
    lambda result: result.scalars().all(),
    lambda result: result.mappings().one(),
    lambda result: list(result.partitions(1)),
    lambda result: [*result],
]


@pytest.mark.parametrize("fetch", FETCHES)
@pytest.mark.parametrize("size", [None, 1])
def test_a_type_that_cannot_read_a_key_does_not_show_it(
    session: RefSession, fetch: Callable[[Any], Any], size: int | None
) -> None:
    """It raises while rows are fetched: of a table, and of a write."""

    class Picky(TypeDecorator[uuid.UUID]):
        impl = Uuid
        cache_ok = True

        @property
        def python_type(self) -> type[Any]:
            return uuid.UUID

        def process_result_value(self, value: Any, _: Any) -> Any:
            raise ValueError(f"{value} is not one of ours")

    knobs = Table("knobs", MetaData(), Column("id", Picky, primary_key=True), Column("n", Integer))
    session.connection().execute(CreateTable(knobs))
    for statement in (insert(knobs).values(id=KNOWN).returning(knobs.c.id), select(knobs.c.id)):
        is_read = statement.is_select
        options: Any = {} if size is None or not is_read else {"yield_per": size}
        result = session.execute(statement, execution_options=options)
        with pytest.raises(ValueError, match="is not one of ours") as caught:
            fetch(result)
        assert shows_no_key(caught.value)
        result.close()


def test_an_update_of_a_row_that_is_gone_says_so(kitchen: Engine, session: RefSession) -> None:
    """Errors without keys say what they always said, numbers included."""
    dish: Any = session.get(Platter, "platter_1")
    assert session.conversation is not None
    session.conversation.refer(Chef, 1)
    with Session(kitchen) as plain:
        plain.execute(delete(Platter).where(Platter.id == KNOWN))
        plain.commit()
    dish.name = "x"
    with pytest.raises(StaleDataError, match="expected to update 1 row") as stale:
        session.flush()
    assert shows_no_key(stale.value)

    session.rollback()
    with pytest.raises(ObjectDeletedError) as deleted:
        _ = dish.name
    assert shows_no_key(deleted.value)


def test_merge_shows_no_key(session: RefSession) -> None:
    """It works on keys, and what it raises has refs."""
    session.add(Platter(id=KNOWN))
    with pytest.raises(IntegrityError, match=r"Key .id.=.platter_1.") as caught:
        session.merge(Platter(id="platter_1", name="x"))

    assert shows_no_key(caught.value)


# who else is there


def test_raw_keys_leaves_errors_as_they_are(session: RefSession) -> None:
    """Trusted code sees what it asked for."""
    with session.raw_keys(), pytest.raises(IntegrityError) as caught:
        flush(session, Platter(id=KNOWN))

    assert f"Key (id)=({KNOWN}) already exists." in str(caught.value)


def test_an_error_of_a_plain_session_is_as_it_was(
    kitchen: Engine, conversation: Conversation
) -> None:
    """On the same engine and, once the other is done, on the same connection."""
    with kitchen.connect() as connection:
        for bind in (kitchen, connection):
            with RefSession(bind, conversation=conversation) as session:
                with pytest.raises(IntegrityError) as caught:
                    flush(session, Platter(id=KNOWN))
                assert shows_no_key(caught.value)
            for plain in (Session(bind), RefSession(bind)):
                with plain, pytest.raises(IntegrityError) as caught:
                    plain.execute(insert(Platter), {"id": KNOWN, "chef_id": CHEF})
                assert f"Key (id)=({KNOWN}) already exists." in str(caught.value)
                assert caught.value.params["chef_id"] == CHEF  # type: ignore[index, call-overload]


def test_an_engine_is_listened_to_once(kitchen: Engine, conversation: Conversation) -> None:
    """Before listeners of the program, which would be told of keys."""
    event.listen(kitchen, "handle_error", lambda _: None)
    for _ in range(3):
        with RefSession(kitchen, conversation=conversation) as session:
            session.connection()
    first, *others = kitchen.dialect.dispatch.handle_error

    assert first is hide_keys
    assert hide_keys not in others


def test_two_conversations_on_one_connection_name_no_key(
    kitchen: Engine, conversation: Conversation
) -> None:
    """It cannot be told whose the error is, so neither's refs are shown."""
    other = RefRegistry(store=MemoryStore()).conversation("chat-8")
    with (
        kitchen.connect() as connection,
        RefSession(connection, conversation=conversation) as first,
        RefSession(connection, conversation=other) as second,
    ):
        for session in (first, second):
            session.connection()
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists") as caught:
            first.connection().execute(insert(Platter).values(id=KNOWN))
        assert shows_no_key(caught.value)
        first.rollback()
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists"):
            second.connection().execute(insert(Platter).values(id=KNOWN))


def test_a_session_keeps_no_connection(kitchen: Engine, conversation: Conversation) -> None:
    """What it has noted of one goes with the transaction."""
    with RefSession(kitchen, conversation=conversation) as session:
        connection = weakref.ref(session.connection())
        session.rollback()
        gc.collect()

        assert connection() is None


def test_an_error_asks_the_registry_for_nothing(kitchen: Engine, store: TravelLog) -> None:
    """What this process has not met has no name in it."""
    conversation = RefRegistry(store=store).conversation("chat-7")
    with RefSession(kitchen, conversation=conversation) as session:
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists"):
            flush(session, Platter(id=KNOWN))
        session.rollback()

    assert "refer" not in store.trips


def test_text_keys_are_hidden_on_request(kitchen: Engine) -> None:
    """They are known by their columns, and by having been met."""

    class Country(Base):
        __tablename__ = "countries"
        code: Mapped[Any] = mapped_column(String, primary_key=True)

    try:
        Base.metadata.create_all(kitchen)
        policy = RefPolicy(key_types=("uuid", "integer", "string"))
        conversation = RefRegistry(store=MemoryStore(), policy=policy).conversation("chat-7")
        conversation.refer(Country, "Zubrowka")
        with RefSession(kitchen, conversation=conversation) as session, session.raw_keys():
            flush(session, Country(code="Zubrowka"), Country(code="Genovia"))
            session.commit()
        with RefSession(kitchen, conversation=conversation) as session:
            for code, shown in (("Zubrowka", "country_1"), ("Genovia", "<key>")):
                with pytest.raises(IntegrityError) as caught:
                    session.connection().execute(insert(Country).values(code=code))
                assert f"Key (code)=({shown}) already exists." in str(caught.value)
                assert caught.value.params == {"code": shown}
                assert code not in everything(caught.value)
                session.rollback()
    finally:
        Base.metadata.remove(Base.metadata.tables["countries"])
        Base.registry._dispose_cls(Country)


def test_an_error_imports_nothing(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    recipes: list[Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What would have to be named by a library first is hidden: an import here may fail."""
    key = recipes[0].id
    with sessions(conversation=conversation) as session:
        assert session.scalars(select(Recipe)).first() is not None
        monkeypatch.setattr(naming, "_singular", pytest.fail)
        connection = session.connection()
        connection.execute(insert(devices).values(id=key))

        with pytest.raises(IntegrityError, match=r"Key \(id\)=\(<key>\) already exists"):
            connection.execute(insert(devices).values(id=key))
