"""What stands between two owners where a program takes a way round the session.

Connections that it gets hold of, what listeners write, tables and names that are alike.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    Column,
    ColumnDefault,
    Engine,
    ForeignKey,
    Function,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    and_,
    cast,
    collate,
    column,
    create_engine,
    delete,
    event,
    exists,
    func,
    insert,
    literal,
    literal_column,
    quoted_name,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import INTERVAL, insert as upsert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, mapped_column, relationship
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.orm.exc import StaleDataError

from alfred_refs import (
    ForeignRowError,
    Ownership,
    OwnershipError,
    RefSession,
    UnconfinedError,
    sqla,
)
from alfred_refs.owners.belongings import belongings_of
from alfred_refs.sqla.froms import settled
from tests.fix_owned import World
from tests.owned import (
    Animal,
    Dog,
    Ingredient,
    Line,
    Plan,
    Recipe,
    recipe_links,
    recipe_tags,
)

RAW = text("SELECT name FROM recipes")


# Connections


@pytest.mark.parametrize(
    "connection_of",
    [
        lambda s: s.get_transaction().connection(Recipe),
        lambda s: s.execute(select(Recipe.__table__)).connection,
    ],
    ids=["transaction", "result"],
)
@pytest.mark.usefixtures("world")
def test_a_connection_of_the_session_is_confined(
    ann: RefSession, connection_of: Callable[[RefSession], Any]
) -> None:
    """Whoever gets hold of it, for as long as the session has it."""
    ann.scalars(select(Recipe)).all()
    connection = connection_of(ann)
    with pytest.raises(UnconfinedError, match="text"):
        connection.execute(RAW)
    with pytest.raises(UnconfinedError):
        connection.exec_driver_sql("SELECT name FROM recipes")
    assert sorted(connection.scalars(select(Recipe.__table__.c.name))) == ["all", "ann"]
    with ann.unconfined():
        assert len(connection.execute(RAW).all()) == 3
    with pytest.raises(UnconfinedError):
        connection.execute(RAW)
    with ann.begin_nested(), pytest.raises(UnconfinedError):
        connection.execute(RAW)


def test_a_connection_is_as_it_was_when_the_session_is_done(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """The next who takes it from the pool is nobody's."""
    engine = create_engine(owned_engine.url, pool_size=1, max_overflow=0)
    for end in (RefSession.commit, RefSession.rollback, RefSession.close):
        session = RefSession(engine, owner=ownership.of(world.users["ann"]))
        session.scalars(select(Recipe)).all()
        end(session)
        with engine.connect() as connection:
            assert len(connection.execute(RAW).all()) == 3
    engine.dispose()


def test_a_connection_of_the_program_is_confined_while_the_session_works(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """In between it is the program's."""
    with owned_engine.connect() as connection:
        session = RefSession(connection, owner=ownership.of(world.users["ann"]))
        assert len(session.scalars(select(Recipe)).all()) == 2
        assert len(connection.execute(RAW).all()) == 3
        assert len(session.scalars(select(Recipe)).all()) == 2
        session.close()


def test_a_connection_of_the_program_is_its_own_again_after_a_rollback_in_between(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A listener ends the transaction while the session works."""
    with owned_engine.connect() as connection:
        session = RefSession(connection, owner=ownership.of(world.users["ann"]))
        session.scalars(select(Recipe)).all()

        @event.listens_for(session, "do_orm_execute")
        def end(execution: Any) -> None:
            execution.session.rollback()

        assert len(session.scalars(select(Recipe)).all()) == 2
        session.close()
        assert len(connection.execute(RAW).all()) == 3


# What listeners write


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[Any], None]], None]]:
    """Have something done on the connection of each flush that inserts a recipe."""
    listeners = list[Any]()

    def listen(do: Callable[[Any], None]) -> None:
        def before_insert(_: Any, connection: Any, __: Any) -> None:
            do(connection)

        listeners.append(before_insert)
        event.listen(Recipe, "before_insert", before_insert)

    yield listen
    for each in listeners:
        event.remove(Recipe, "before_insert", each)


WAYS = ["values", "many", "class", "update"]


def line_of(world: World, who: str, way: str) -> Any:
    """Return a statement that has a line name a recipe."""
    recipe = world.recipes[who]
    row = {"id": uuid.uuid4(), "recipe_id": recipe, "text": "x"}
    found = select(Recipe.id).where(Recipe.id == recipe).scalar_subquery()
    table: Any = Line.__table__
    match way:
        case "values":
            return insert(table).values(**row)
        case "many":
            return insert(table).values([row, {**row, "id": uuid.uuid4()}])
        case "class":
            return insert(Line).values(**row)
        case "select":
            return insert(table).values(**{**row, "recipe_id": found})
        case _:
            mine = table.c.id == world.lines["ann"]
            return update(table).where(mine).values(recipe_id=recipe)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_listener_writes_names_what_the_owner_sees(
    ann: RefSession,
    world: World,
    listening: Callable[[Callable[[Any], None]], None],
    plainly: Callable[[Any], list[Any]],
    way: str,
) -> None:
    """On the connection that it is given, as SQLAlchemy has it done in events of mappers."""
    whose = ["ann"]
    listening(lambda connection: connection.execute(line_of(world, whose[0], way)))
    ann.add(Recipe(name="mine"))
    ann.commit()
    before = plainly(select(Line.recipe_id))
    for whose[0] in ("bob", "all"):
        ann.add(Recipe(name="other"))
        with pytest.raises(ForeignRowError):
            ann.flush()
        ann.rollback()
    assert sorted(plainly(select(Line.recipe_id))) == sorted(before)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_on_the_connection_names_what_the_owner_sees(
    ann: RefSession, world: World, way: str
) -> None:
    """Outside of a flush, too."""
    ann.scalars(select(Recipe)).all()
    connection = ann.get_transaction().connection(None)  # type: ignore[union-attr]
    connection.execute(line_of(world, "ann", way))
    with pytest.raises(ForeignRowError):
        connection.execute(line_of(world, "bob", way))


def test_what_is_no_plain_value_is_refused_of_a_listener(
    ann: RefSession, world: World, listening: Callable[[Callable[[Any], None]], None]
) -> None:
    """It cannot be looked at before it is written."""
    listening(lambda connection: connection.execute(line_of(world, "bob", "select")))
    ann.add(Recipe(name="mine"))
    with pytest.raises(UnconfinedError, match=r"lines\.recipe_id"):
        ann.flush()


def test_an_association_names_what_the_owner_sees(
    ann: RefSession, world: World, plainly: Callable[[Any], list[Any]]
) -> None:
    """Written by a statement or by a flush, with rows that are new or there."""
    mine = ann.get_one(Recipe, world.recipes["ann"])
    mine.links.append(Recipe(name="new"))
    mine.tags.append(ann.get_one(Ingredient, world.salt))
    ann.commit()
    assert len(plainly(select(recipe_links.c.to_id))) == 1
    assert plainly(select(recipe_tags.c.ingredient_id)) == [world.salt]
    with ann.unconfined():
        foreign = ann.get_one(Recipe, world.recipes["bob"])
    mine.links.append(foreign)
    with pytest.raises(ForeignRowError):
        ann.flush()


# Tables of a test's own


@pytest.fixture
def schemas(owned_engine: Engine) -> Iterator[Engine]:
    """An engine with two schemas beside the usual one."""
    with owned_engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA one; CREATE SCHEMA two"))
    yield owned_engine
    with owned_engine.begin() as connection:
        connection.execute(text("DROP SCHEMA one CASCADE; DROP SCHEMA two CASCADE"))


class Things(DeclarativeBase):
    """Declarative base of three classes whose tables have one name, in three schemas."""


class Top(Things):
    """Has an owner."""

    __tablename__ = "things"
    __table_args__ = {"schema": "one"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]


class Middle(Things):
    """Belongs to whom its top does."""

    __tablename__ = "things"
    __table_args__ = {"schema": "two"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    top_id: Mapped[int] = mapped_column(ForeignKey("one.things.id"))

    top: Mapped[Top] = relationship()


class Low(Things):
    """Belongs to whom its middle does or to whom its top does: its own column says otherwise."""

    __tablename__ = "things"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int]
    middle_id: Mapped[int] = mapped_column(ForeignKey("two.things.id"))
    top_id: Mapped[int] = mapped_column(ForeignKey("one.things.id"))

    middle: Mapped[Middle] = relationship()
    top: Mapped[Top] = relationship()


@pytest.fixture
def things(schemas: Engine) -> Iterator[Engine]:
    """The engine, with a thing of each of two owners in each table: the keys are others' above."""
    Things.metadata.create_all(schemas)
    with Session(schemas) as plain:
        plain.add_all([Top(id=1, owner=1), Top(id=2, owner=2)])
        plain.flush()
        plain.add_all([Middle(id=1, top_id=2), Middle(id=2, top_id=1)])
        plain.flush()
        plain.add_all(Low(id=key, owner=3 - key, middle_id=key, top_id=key) for key in (1, 2))
        plain.commit()
    yield schemas
    Things.metadata.drop_all(schemas)


def test_tables_of_one_name_are_told_apart(things: Engine) -> None:
    """Each row by its own parents, though they are called the same."""
    ownership = Ownership({Top: "owner", Middle: "top", Low: "middle"})
    for owner, keys in ((1, (1, 2, 2)), (2, (2, 1, 1))):
        with RefSession(things, owner=ownership.of(owner)) as session:
            found = tuple(session.scalars(select(each.id)).all() for each in (Top, Middle, Low))
            assert found == tuple([key] for key in keys)
            low = aliased(Low)
            joined = select(low.id).join(low.middle).join(Middle.top)
            assert session.scalars(joined).all() == [keys[2]]


@pytest.mark.usefixtures("world")
def test_nobody_may_call_an_alias_as_ours_are(ann: RefSession) -> None:
    """It would stand for the criterion's own."""
    name = settled(Recipe.__table__).name
    for asked in (
        select(aliased(Recipe, name=quoted_name(name.upper(), quote=False))),
        select(aliased(Recipe, name=name)),
        select(Line).join(aliased(Recipe, name=name)),
        select(select(Recipe).subquery(name)),
        select(select(Recipe.id).cte(name)),
    ):
        with pytest.raises(UnconfinedError, match="alias by the name"):
            ann.execute(asked)


def test_an_upsert_names_columns_by_their_keys(schemas: Engine) -> None:
    """SQLAlchemy renders any other name as it is: it may be that of the owner's column."""
    metadata = MetaData()
    notes = Table(
        "notes",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("owner", Integer, key="whose"),
        Column("note", Integer),
    )

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Note(Local):
        __table__ = notes

    metadata.create_all(schemas)
    with Session(schemas) as plain:
        plain.add_all([Note(id=1, whose=1, note=1)])
        plain.commit()
    ownership = Ownership({Note: "whose"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        made = upsert(notes).values(id=1, note=2)
        for named in ({"owner": 2}, {"whose": 2}, {notes.c.whose: 2}):
            with pytest.raises(UnconfinedError):
                session.execute(made.on_conflict_do_update(index_elements=["id"], set_=named))
        session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"note": 3}))
        session.commit()
    with Session(schemas) as plain:
        assert plain.execute(select(notes.c.whose, notes.c.note)).all() == [(1, 3)]
    metadata.drop_all(schemas)


def test_attributes_called_as_other_columns_are_no_way_round(schemas: Engine) -> None:
    """`set_=` goes by columns, whatever attributes are called."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Box(Local):
        __tablename__ = "boxes"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[int]

    class Item(Local):
        __tablename__ = "items"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[int]
        box: Mapped[int | None] = mapped_column("count")
        count: Mapped[int | None] = mapped_column("box", ForeignKey("boxes.id"))

    Local.metadata.create_all(schemas)
    with Session(schemas) as plain:
        plain.add_all([Box(id=1, whose=1), Box(id=2, whose=2)])
        plain.flush()
        plain.add(Item(id=1, whose=1))
        plain.commit()
    ownership = Ownership({Box: "whose", Item: "whose"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        made = upsert(Item).values(id=1)
        with pytest.raises(ForeignRowError):
            session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"box": 2}))
        session.execute(made.on_conflict_do_update(index_elements=["id"], set_={"count": 2}))
    Local.metadata.drop_all(schemas)


class Pages(DeclarativeBase):
    """Declarative base of two classes between which there is no foreign key."""


class Page(Pages):
    """Has an owner."""

    __tablename__ = "pages"

    id: Mapped[int] = mapped_column(primary_key=True)
    whose: Mapped[int]


class Word(Pages):
    """Belongs to whom its page does."""

    __tablename__ = "words"

    id: Mapped[int] = mapped_column(primary_key=True)
    page_id: Mapped[int | None]

    page: Mapped[Page | None] = relationship(
        primaryjoin="foreign(Word.page_id) == Page.id", backref="words"
    )


@pytest.fixture
def written(schemas: Engine) -> Iterator[RefSession]:
    """A session of owner 1, with a page of each of two owners."""
    Pages.metadata.create_all(schemas)
    with Session(schemas) as plain:
        plain.add_all([Page(id=1, whose=1), Page(id=2, whose=2)])
        plain.commit()
    ownership = Ownership({Page: "whose", Word: "page"})
    with RefSession(schemas, owner=ownership.of(1)) as session:
        yield session
    with Session(schemas) as plain:
        assert set(plain.scalars(select(Word.page_id))) == {1}
    Pages.metadata.drop_all(schemas)


def flushed(session: Session, word: Word) -> None:
    """Save a word."""
    session.add(word)
    session.flush()


@pytest.mark.parametrize(
    "write",
    [
        lambda s, page: flushed(s, Word(page_id=page)),
        lambda s, page: s.execute(insert(Word).values(page_id=page)),
        lambda s, page: s.execute(insert(Word), [{"page_id": page}]),
        lambda s, page: s.bulk_insert_mappings(Word, [{"page_id": page}]),
        lambda s, page: s.bulk_save_objects([Word(page_id=page)]),
    ],
    ids=["flush", "values", "many", "mappings", "objects"],
)
def test_what_decides_need_have_no_foreign_key(
    written: RefSession, write: Callable[[Session, int | None], Any]
) -> None:
    """A relationship that the database does not know of is looked at like one that it knows."""
    write(written, 1)
    written.commit()
    for page in (2, 3, None):
        with pytest.raises(ForeignRowError):
            write(written, page)
        written.rollback()
    with pytest.raises(ForeignRowError):
        written.execute(update(Word).values(page_id=2))
    written.rollback()
    written.scalars(select(Word)).all()[0].page_id = 2
    with pytest.raises(ForeignRowError):
        written.flush()


@pytest.mark.parametrize(
    ("unique", "args"),
    [(False, ()), (True, ()), (False, (UniqueConstraint("code"),))],
    ids=["several", "unique column", "constraint"],
)
def test_one_row_decides(unique: bool, args: tuple[Any, ...]) -> None:
    """Where several could, the row would be everybody's whose row is among them."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Group(Local):
        __tablename__ = "groups"
        __table_args__ = args
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str] = mapped_column(unique=unique)
        whose: Mapped[int]

    class Member(Local):
        __tablename__ = "members"
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str]
        group: Mapped[Group] = relationship(primaryjoin="foreign(Member.code) == Group.code")

    owned = {Group: "whose", Member: "group"}
    if unique or args:
        assert len(belongings_of(owned, ())) == 2
        return
    with pytest.raises(OwnershipError, match="may lead to several rows"):
        belongings_of(owned, ())


# Doubt, and what is looked at late


@pytest.mark.parametrize("quietly", [True, False])
def test_what_an_option_has_lifted_is_doubted(
    ann: RefSession, world: World, quietly: bool
) -> None:
    """As what `unconfined()` has: a later look-up of our own does not clear it."""
    unconfined = {"unconfined": True}
    foreign = ann.scalars(
        select(Recipe).where(Recipe.id == world.recipes["bob"]), execution_options=unconfined
    ).one()
    if quietly:
        with sqla.lifted(ann):
            pass
    assert ann.get(Recipe, world.recipes["bob"]) is None
    foreign.name = "changed"
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_a_quiet_look_raises_no_doubt(ann: RefSession, world: World) -> None:
    """It loads no instance: nothing is to be asked about those that are there."""
    mine = ann.get_one(Recipe, world.recipes["ann"])
    with sqla.lifted(ann):
        ann.execute(select(Recipe.__table__.c.id)).all()
    assert ann._confinement is not None
    assert not ann._confinement.doubtful
    assert ann.get(Recipe, world.recipes["ann"]) is mine


@pytest.mark.usefixtures("world")
def test_functions_that_execute_are_known_in_any_letters(ann: RefSession) -> None:
    """PostgreSQL folds their names."""
    executing = ("QUERY_TO_XML", "Table_To_Xml", "DBLINK_exec", "Set_Config", "crosstab5")
    for name in (*executing, "pg_stat_get_backend_activity", "PG_Read_File", "pg_anything_new"):
        with pytest.raises(UnconfinedError, match=name):
            ann.execute(select(getattr(func, name)("recipes")))
    assert ann.scalar(select(func.pg_typeof(1))) == "integer"


def test_an_association_is_not_filled_by_a_select(ann: RefSession, world: World) -> None:
    """Its rows name others that cannot be looked at before."""
    rows = select(Recipe.id, literal(world.recipes["bob"]))
    with pytest.raises(UnconfinedError, match="INSERT from a SELECT"):
        ann.execute(insert(recipe_links).from_select(["from_id", "to_id"], rows))
    given = {"from_id": world.recipes["ann"], "to_id": world.recipes["bob"]}
    with pytest.raises(ForeignRowError):
        ann.execute(insert(recipe_links), [given])


@pytest.mark.usefixtures("world")
def test_a_row_in_bulk_without_what_decides_is_nobodys(ann: RefSession) -> None:
    """Refused, though its column may be null."""
    for write in (
        lambda: ann.bulk_insert_mappings(Line, [{"text": "x"}]),
        lambda: ann.bulk_save_objects([Line(text="x")]),
        lambda: ann.execute(insert(Line), [{"text": "x"}]),
    ):
        with pytest.raises(ForeignRowError):
            write()
        ann.rollback()


@pytest.mark.parametrize("way", ["auto", "evaluate", "fetch"])
def test_a_shared_instance_stays_as_its_row_does(ann: RefSession, world: World, way: str) -> None:
    """An update that may not change the row does not change the instance either."""
    shared = ann.get_one(Recipe, world.recipes["all"])
    mine = ann.get_one(Recipe, world.recipes["ann"])
    ann.execute(update(Recipe).values(name="x"), execution_options={"synchronize_session": way})
    assert (shared.name, mine.name) == ("all", "x")


@pytest.mark.filterwarnings("ignore:DELETE statement on table 'plans'")
def test_a_late_delete_of_a_foreign_row_is_seen(ann: RefSession, world: World) -> None:
    """A listener marks it once the flush has been looked at."""
    with ann.unconfined():
        foreign = ann.get_one(Plan, world.plans["bob"])

    def late(session: Session, *_: object) -> None:
        session.delete(foreign)

    event.listen(ann, "before_flush", late)
    ann.add(Recipe(name="new"))
    with pytest.raises(ForeignRowError):
        ann.flush()
    event.remove(ann, "before_flush", late)


def test_an_owner_is_compared_as_each_column_has_it(schemas: Engine) -> None:
    """A UUID beside text: the same owner is kept apart in one and in the other."""

    class Local(DeclarativeBase):
        """Declarative base of this test."""

    class Paper(Local):
        __tablename__ = "papers"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[uuid.UUID]

    class Card(Local):
        __tablename__ = "cards"
        id: Mapped[int] = mapped_column(primary_key=True)
        whose: Mapped[str]

    Local.metadata.create_all(schemas)
    one, two = uuid.uuid4(), uuid.uuid4()
    with Session(schemas) as plain:
        for who in (one, two):
            plain.add_all([Paper(whose=who), Card(whose=str(who))])
        plain.commit()
    ownership = Ownership({Paper: "whose", Card: "whose"})
    for given in (one, str(one)):
        with RefSession(schemas, owner=ownership.of(given)) as session:
            assert session.scalars(select(Paper.whose)).all() == [one]
            assert session.scalars(select(Card.whose)).all() == [str(one)]
            session.add_all([Paper(), Card()])
            session.flush()
            assert set(session.scalars(select(Card.whose))) == {str(one)}
            with pytest.raises(ForeignRowError):
                session.execute(insert(Card).values(whose=str(two)))
    Local.metadata.drop_all(schemas)


# What a statement writes, and by which table


def test_a_subclass_is_updated_by_keys_in_each_of_its_tables(
    ann: RefSession, world: World, plainly: Callable[[Any], list[Any]]
) -> None:
    """The ORM makes one statement of the class and has it write the table of its base too."""
    mine, bobs = world.dogs["ann"], world.dogs["bob"]
    with pytest.raises(StaleDataError):
        ann.execute(update(Dog), [{"id": bobs, "name": "stolen"}])
    ann.rollback()
    with pytest.raises(UnconfinedError, match=r"owner's column animals\.user_id"):
        ann.execute(update(Dog), [{"id": mine, "user_id": world.users["bob"]}])
    ann.rollback()
    ann.execute(update(Dog), [{"id": mine, "name": "mine", "tricks": 3}])
    ann.commit()
    assert sorted(plainly(select(Animal.name).where(Animal.kind == "dog"))) == [
        "bob's dog",
        "mine",
    ]


def test_an_alias_is_written_as_its_table_is(
    ann: RefSession, world: World, plainly: Callable[[Any], list[Any]]
) -> None:
    """Confined to the owner's rows, and naming what the owner sees."""
    plans: Any = Plan.__table__.alias()
    ann.execute(update(plans).values(day=5))
    foreign = {"recipe_id": world.recipes["bob"]}
    for naming, parameters in ((update(plans).values(foreign), None), (update(plans), foreign)):
        with pytest.raises(ForeignRowError, match=r"plans\.recipe_id"):
            ann.execute(naming, parameters)
    with pytest.raises(UnconfinedError, match="owner's column"):
        ann.execute(update(plans).values(user_id=world.users["bob"]))
    connection = ann.get_transaction().connection(None)  # type: ignore[union-attr]
    with pytest.raises(ForeignRowError):
        connection.execute(update(plans).values(foreign))
    ann.commit()
    assert sorted(plainly(select(Plan.day))) == [1, 5]
    ann.execute(delete(plans))
    ann.commit()
    assert plainly(select(Plan.id)) == [world.plans["bob"]]


@pytest.mark.parametrize("name", ["user_id", "recipe_id"])
def test_an_attribute_that_is_set_to_an_expression_is_refused(
    ann: RefSession, world: World, name: str
) -> None:
    """It would say whose a row is, or name another, and cannot be checked."""
    plan = ann.get_one(Plan, world.plans["ann"])
    setattr(plan, name, select(Recipe.__table__.c.id).scalar_subquery())
    with pytest.raises(UnconfinedError, match=rf"what Plan\.{name} is to"):
        ann.flush()


def test_what_is_evaluated_stays_so_where_nothing_is_shared(
    ann: RefSession, world: World, sent_owned: list[str]
) -> None:
    """The session may write all its instances of such a class: nothing need be fetched."""
    dog = ann.get_one(Dog, world.dogs["ann"])
    assert ann.execute(update(Dog).values(tricks=4).returning(Dog.tricks)).scalars().all() == [4]
    assert dog.tricks == 4
    ann.execute(update(Plan).values(day=3))
    assert "RETURNING" not in sent_owned[-1]
    ann.execute(update(Recipe).values(minutes=3))
    assert "RETURNING" in sent_owned[-1]


# What a statement reads besides


def test_rows_are_locked_that_may_be_written(ann: RefSession, world: World) -> None:
    """What is shared may be read by all: nobody keeps it from others. So with policies."""
    inner = select(Recipe.id, Recipe.name).subquery()
    alias = aliased(Recipe)
    for asked, found in {
        select(Recipe.name).with_for_update(): ["ann"],
        select(Recipe.name).with_for_update(read=True): ["ann"],
        select(inner.c.name).with_for_update(): ["ann"],
        select(inner.c.name, Line.id).join(Line).with_for_update(of=inner): ["ann"],
        select(Recipe.name).join(Line).with_for_update(of=Line): ["ann"],
        select(Recipe.name).outerjoin(Plan).with_for_update(of=Recipe): ["ann"],
        select(alias.name).join(Plan, true()).with_for_update(of=Plan): ["all", "ann"],
        select(alias.name)
        .join(Plan, Plan.day == alias.minutes, full=True)
        .where(alias.name.is_not(None))
        .with_for_update(of=alias): ["ann"],
        select(Recipe.name).where(exists(select(inner).where(inner.c.name == "all"))): [
            "all",
            "ann",
        ],
    }.items():
        assert sorted(ann.scalars(asked)) == found
    assert ann.get(Recipe, world.recipes["all"], with_for_update=True) is None
    assert ann.get(Recipe, world.recipes["all"]) is not None


def test_no_cte_stands_for_a_table(ann: RefSession, world: World) -> None:
    """The rows of some tables decide whose others are: a CTE would make all the owner's."""
    mine = {"user_id": literal(world.users["ann"]).label("user_id")}
    made = select(literal(world.recipes["bob"]).label("id"), mine["user_id"]).cte("recipes")
    for asked in (
        select(Line.text).add_cte(made),
        select(Line.text, made.c.id),
        update(Line).values(text="x").add_cte(made),
    ):
        with pytest.raises(UnconfinedError, match="a CTE by the name of table 'recipes'"):
            ann.execute(asked)
    folded = select(literal(world.recipes["bob"]).label("id"), mine["user_id"]).cte(
        quoted_name("RECIPES", quote=False)
    )
    with pytest.raises(UnconfinedError, match="'RECIPES' cannot be confined"):
        ann.execute(select(Line.text, folded.c.id))
    other = select(literal(1).label("id")).cte("ingredients")  # of no owner
    assert ann.scalars(select(other.c.id)).all() == [1]


RAW_NAME = "(SELECT max(name) FROM recipes)"


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "asked",
    [
        lambda name: select(column(name)),
        lambda name: select(Recipe.name.label(name)),
        lambda name: select(aliased(Recipe, name=name).id),
        lambda name: select(select(Recipe.id).cte(name).c.id),
        lambda name: select(collate(Recipe.name, name)),
        lambda name: select(Function(name, 1)),
        lambda _: select(Function(quoted_name("pg_catalog.query_to_xml", quote=False), "x")),
        lambda _: select(literal("1", INTERVAL(fields="second FROM recipes"))),
        lambda _: select(cast(Recipe.name, INTERVAL(fields="second), (SELECT 1"))),
    ],
    ids=["column", "label", "alias", "cte", "collation", "function", "path", "bind", "cast"],
)
def test_what_is_rendered_as_it_is_names_no_tables(
    ann: RefSession, asked: Callable[[Any], Any]
) -> None:
    """Names that must not be quoted and arguments of types are text as any other."""
    with pytest.raises(UnconfinedError, match=r"with more than a (name|type) in it"):
        ann.execute(asked(quoted_name(RAW_NAME, quote=False)))


@pytest.mark.usefixtures("world")
def test_names_and_types_are_rendered_as_ever(ann: RefSession) -> None:
    """Those with nothing more in them."""
    ann.execute(
        select(
            Recipe.name.label(quoted_name("Name", quote=False)),
            Recipe.name.label('a "b" (c), d'),
            cast(Recipe.minutes, Numeric(8, 2)),
            cast("1", INTERVAL(fields="DAY TO SECOND", precision=3)),
            cast(func.now(), TIMESTAMP(timezone=True)),
            cast([1], ARRAY(Integer, dimensions=1)),
            cast(Recipe.name, String(5, collation="C")),
            collate(Recipe.name, "C"),
        )
    ).all()


@pytest.mark.usefixtures("world")
def test_a_sample_is_of_the_rows_that_may_be_read(ann: RefSession) -> None:
    """Where no criterion can stand beside it, it is refused."""
    sample = Recipe.__table__.tablesample(func.bernoulli(100))
    assert sorted(ann.scalars(select(sample.c.name))) == ["all", "ann"]
    with pytest.raises(UnconfinedError, match="a TABLESAMPLE in this place"):
        ann.execute(select(sample.c.name).join(Line, Line.recipe_id == sample.c.id, full=True))


def test_a_table_is_told_from_one_of_its_name_in_a_schema(things: Engine) -> None:
    """Where SQLAlchemy gives it another name beside that, and where it leaves out the schema."""
    ownership = Ownership({Top: "owner", Low: "top"})
    met = Top.id == Low.top_id
    with RefSession(things, owner=ownership.of(1)) as session:
        for asked in (select(Top.id).join(Low, met), select(Top.id).join(Low, met, full=True)):
            with pytest.raises(UnconfinedError, match="table 'things' without alias"):
                session.execute(asked)
        low = aliased(Low)
        assert session.scalars(select(low.id).join(low.top)).all() == [1]
        found = select(func.max(Top.__table__.c.id)).scalar_subquery()
        made = upsert(Top).values(id=1)
        for upserted in (
            made.on_conflict_do_update(
                index_elements=["id"], set_={"id": 1}, where=Top.id == found
            ),
            made.on_conflict_do_update(index_elements=["id"], set_={"id": found}),
        ):
            with pytest.raises(UnconfinedError, match=r"table 'one\.things' in this place"):
                session.execute(upserted)


@pytest.mark.usefixtures("world")
@pytest.mark.filterwarnings("ignore:.* cartesian product")
@pytest.mark.parametrize("harmless", [text("true OR true"), literal_column("true OR true")])
def test_a_text_with_or_undoes_no_criterion(
    ann: RefSession, plainly: Callable[[Any], list[Any]], harmless: Any
) -> None:
    """Alone or beside others, wherever criteria are added to what a statement demands."""
    for demanded in (harmless, and_(true() == true(), harmless)):
        for asked in (
            select(Plan.code).where(demanded),
            select(Plan.code).where(Plan.day > 0, demanded),
            select(Plan.code).select_from(Ingredient).outerjoin(Plan, demanded),
            select(Plan.code).select_from(Ingredient).join(Plan, demanded),
            select(Plan.code).select_from(Ingredient).join(Plan, demanded, full=True),
            update(Plan).where(demanded).values(day=7).returning(Plan.code),
            update(Plan).where(Ingredient.id.is_not(None), demanded).values(day=7)
            .returning(Plan.code),
        ):  # fmt: skip
            assert {"ann"} <= set(ann.scalars(asked)) <= {"ann", None}
        made = upsert(Plan).values(code="bob")
        ann.execute(
            made.on_conflict_do_update(
                index_elements=["code"], set_={"day": 9}, where=and_(Plan.day > 0, demanded)
            )
        )
        ann.commit()
        assert sorted(plainly(select(Plan.day))) == [1, 7]


# What is sent in the end

PLANS: Any = Plan.__table__
LINES: Any = Line.__table__
OVERRIDDEN: dict[str, Callable[[uuid.UUID, uuid.UUID], tuple[Any, Any]]] = {
    "insert": lambda a, b: (
        insert(Line).values(recipe_id=a, text="x"),
        {"id": uuid.uuid4(), "recipe_id": b},
    ),
    "of a table": lambda a, b: (
        insert(PLANS).values(recipe_id=a),
        {"id": uuid.uuid4(), "recipe_id": b},
    ),
    "of several": lambda a, b: (
        insert(Line).values(recipe_id=a, text="x"),
        [{"recipe_id": b}] * 2,
    ),
    "of a list": lambda a, b: (
        insert(PLANS).values([{"id": uuid.uuid4(), "recipe_id": a} for _ in range(2)]),
        {"recipe_id_m1": b},
    ),
    "an association": lambda a, b: (
        insert(recipe_links).values(to_id=a),
        {"from_id": a, "to_id": b},
    ),
    "update": lambda a, b: (update(LINES).values(recipe_id=a), {"recipe_id": b}),
}


@pytest.mark.parametrize("made", OVERRIDDEN.values(), ids=list(OVERRIDDEN))
def test_parameters_that_go_before_values_are_looked_at(
    ann: RefSession, world: World, made: Callable[..., tuple[Any, Any]], plainly: Any
) -> None:
    """SQLAlchemy lets them win: what is sent in the end names a row that the owner may name."""
    before = plainly(select(Line.recipe_id).order_by(Line.id))
    statement, parameters = made(world.recipes["ann"], world.recipes["bob"])

    with pytest.raises(ForeignRowError):
        ann.execute(statement, parameters)
    ann.commit()
    assert plainly(select(Line.recipe_id).order_by(Line.id)) == before
    own, parameters = made(world.recipes["ann"], world.recipes["ann"])
    ann.execute(own, parameters)


def _insert(session: RefSession, _: Plan) -> None:
    session.execute(insert(Plan))


def _insert_many(session: RefSession, _: Plan) -> None:
    session.execute(insert(Plan).values([{"day": 7}, {"day": 8}]))


def _upsert_one(session: RefSession, _: Plan) -> None:
    session.execute(upsert(PLANS).values([{"day": 7}]).on_conflict_do_nothing())


def _update(session: RefSession, _: Plan) -> None:
    session.execute(update(Plan).values(day=7))


def _flush(session: RefSession, plan: Plan) -> None:
    plan.day = 7
    session.flush()


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (_insert, "recipe_id"),
        (_insert_many, "recipe_id"),
        (_upsert_one, "recipe_id"),
        (_update, "recipe_id"),
        (_update, "user_id"),
        (_flush, "recipe_id"),
        (_flush, "user_id"),
    ],
)
def test_what_defaults_fill_in_is_looked_at(
    ann: RefSession, world: World, write: Callable[[RefSession, Plan], None], what: str
) -> None:
    """By `default` or `onupdate`: another's row is not named, and no row is given away."""
    ann.add(plan := Plan(code="mine", recipe_id=world.recipes["ann"]))
    ann.commit()
    bobs = {"recipe_id": world.recipes["bob"], "user_id": world.users["bob"]}[what]
    column = PLANS.c[what]
    is_update = write in (_update, _flush)
    ColumnDefault(lambda: bobs, for_update=is_update)._set_parent(column)
    try:
        with pytest.raises((ForeignRowError, UnconfinedError)):
            write(ann, plan)
    finally:
        column.default = column.onupdate = None


# What outlives its transaction, and what waits


@pytest.mark.parametrize("expire", [True, False])
@pytest.mark.parametrize("made", [Plan, lambda **values: Line(text="x", **values)])
def test_a_row_that_was_given_away_since_is_no_more_the_owners(
    owned_engine: Engine, world: World, ownership: Ownership, made: Any, *, expire: bool
) -> None:
    """Though the session has loaded it in an earlier transaction."""
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, owner=owner, expire_on_commit=expire) as session:
        recipe = session.get_one(Recipe, world.recipes["ann"])
        session.commit()
        with Session(owned_engine) as plain:
            plain.execute(
                update(Recipe)
                .where(Recipe.id == world.recipes["ann"])
                .values(user_id=world.users["bob"])
            )
            plain.commit()
        session.add(made(recipe_id=world.recipes["ann"]))
        with pytest.raises(ForeignRowError):
            session.flush()
        del recipe  # it was in the session until here


GIVES_AWAY = text("update recipes set user_id = :bob where user_id = :ann")


def _by_option(session: RefSession, people: dict[str, Any]) -> Recipe:
    recipe = session.scalars(select(Recipe).where(Recipe.user_id == people["ann"])).one()
    session.execute(GIVES_AWAY, people, execution_options={"unconfined": True})
    return recipe


def _in_a_block(session: RefSession, people: dict[str, Any]) -> Recipe:
    recipe = session.scalars(select(Recipe).where(Recipe.user_id == people["ann"])).one()
    with session.unconfined():
        session.execute(GIVES_AWAY, people)
    return recipe


def _forged(session: RefSession, people: dict[str, Any]) -> Recipe:
    with Session(session.get_bind()) as plain:
        recipe = plain.scalars(select(Recipe).where(Recipe.user_id == people["bob"])).one()
    set_committed_value(recipe, "user_id", people["ann"])
    session.add(recipe)
    return recipe


@pytest.mark.parametrize("got", [_by_option, _in_a_block, _forged])
@pytest.mark.parametrize("made", [Plan, lambda **values: Line(text="x", **values)])
def test_an_instance_does_not_vouch_for_its_row(
    ann: RefSession, world: World, got: Callable[..., Recipe], made: Any
) -> None:
    """Trusted code may have given its row away, and nobody knows who has loaded it."""
    recipe = got(ann, {who: world.users[who] for who in ("ann", "bob")})
    ann.add(made(recipe=recipe))
    with pytest.raises(ForeignRowError):
        ann.flush()


def test_what_waits_when_trusted_code_begins_is_the_owners(
    ann: RefSession, world: World, plainly: Any
) -> None:
    """A query of trusted code flushes it, stamped and checked as ever."""
    ann.add(Recipe(name="private"))
    with ann.unconfined():
        assert ann.get(Recipe, world.recipes["bob"]) is not None
    ann.commit()
    assert plainly(select(Recipe.user_id).where(Recipe.name == "private")) == [world.users["ann"]]

    ann.add(Line(text="x", recipe_id=world.recipes["bob"]))
    with ann.unconfined(), pytest.raises(ForeignRowError):
        ann.scalars(select(Recipe)).all()
    ann.rollback()
    ann.add(Recipe(name="beside it"))
    with ann.unconfined():
        ann.add(Line(text="trusted", recipe_id=world.recipes["bob"]))
        ann.flush()
    ann.commit()
    assert plainly(select(Line.recipe_id).where(Line.text == "trusted")) == [world.recipes["bob"]]


@pytest.mark.parametrize(
    "statement",
    [
        select(Recipe.name).with_statement_hint("or true"),
        select(Recipe.name).suffix_with("or 1 = 1"),
        select(Recipe.name).suffix_with("for update"),
        select(select(Recipe.name).suffix_with("or true").subquery("x")),
        select(select(Recipe.name).cte("x").suffix_with("or true")),
    ],
)
@pytest.mark.usefixtures("world")
def test_what_would_follow_the_criteria_is_refused(ann: RefSession, statement: Any) -> None:
    """They stand outside of all parentheses: a word is enough to undo the criteria."""
    with pytest.raises(UnconfinedError, match=r"a hint|suffix_with\(\)"):
        ann.execute(statement)


def test_schemas_may_be_translated(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """SQLAlchemy writes them as names that are not quoted, which no program has chosen."""
    engine = owned_engine.execution_options(schema_translate_map={None: "public"})
    with RefSession(engine, owner=ownership.of(world.users["ann"])) as session:
        assert sorted(session.scalars(select(Recipe.name))) == ["all", "ann"]
