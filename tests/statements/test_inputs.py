"""Refs in places that cannot be translated: refused, never compared as if they were data."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    ColumnElement,
    String,
    Uuid,
    any_,
    bindparam,
    case,
    cast,
    collate,
    column,
    delete,
    exists,
    func,
    insert,
    lambda_stmt,
    literal,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
    update,
    values,
)
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import aliased, selectinload, sessionmaker, with_loader_criteria

from alfred_refs import RefRegistry, RefSession, UntranslatableError
from tests.fix_session import TravelLog
from tests.models import Box, MealPlan, Order, OrderLine, Preference, Recipe

boxes: Any = Box.__table__
lowered = select(func.lower(cast(Box.id, String)).label("x")).subquery()


@pytest.fixture
def ref(session: RefSession) -> str:
    """The ref of the one box that is in another: `box_1`."""
    outer = Box(label="outer")
    session.add(outer)
    session.flush()
    inner = Box(label="inner", inside=outer.id)
    session.add(inner)
    session.commit()
    assert (outer.id, inner.id) == ("box_1", "box_2")
    return "box_1"


class Differs(ColumnElement[bool]):
    """Compares as text, and does not tell SQLAlchemy what."""

    inherit_cache = False
    type = Boolean()

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


@compiles(Differs)
def _compile_differs(element: Differs, compiler: Any, **options: Any) -> str:
    parts = [p if hasattr(p, "compile") else literal(p) for p in map(_clause, element.parts)]
    one, other = (compiler.process(part, **options) for part in parts)
    return f"cast({one} as text) <> {other}"


def _clause(part: Any) -> Any:
    return part.__clause_element__() if hasattr(part, "__clause_element__") else part


CRITERIA: list[Callable[[Any], Any]] = [
    lambda ref: cast(Box.id, String) != ref,
    lambda ref: Differs(Box.id, ref),
    lambda ref: Differs(Box.id, literal(ref)),
    lambda ref: Differs(Box.label, select(Box.label).where(Box.id == ref).scalar_subquery()),
    lambda ref: cast(Box.id, String).not_in([ref]),
    lambda ref: func.concat(Box.id) != ref,
    lambda ref: ~cast(Box.id, String).like(ref),
    lambda ref: collate(cast(Box.id, String), "C") != ref,
    lambda ref: Box.id.op("<>")(ref),  # noqa: PLW0108
    lambda ref: Box.id.startswith(ref),  # noqa: PLW0108
    lambda ref: cast(Box.id, String) + "!" == ref,
    lambda ref: func.lower(cast(select(Box.id).limit(1).scalar_subquery(), String)) != ref,
    lambda ref: lowered.c.x != ref,
    lambda ref: func.starts_with(cast(Box.id, String), ref),
    lambda ref: ~func.starts_with(cast(Box.id, String), ref),
    lambda ref: ~Box.id.contains(ref),
    lambda ref: Box.id != cast(ref, String),
    lambda ref: Box.id != cast(ref, Uuid()),
    lambda ref: Box.id != type_coerce(ref, String),
    lambda ref: Box.id != type_coerce(ref, Uuid(as_uuid=False, native_uuid=False)),
    lambda ref: Box.id != func.lower(ref),
    lambda ref: Box.id != literal(ref) + "",
    lambda ref: func.coalesce(Box.inside, Box.label, ref) != Box.id,
    lambda ref: case((Box.label == "x", Box.label), else_=ref) != Box.id,
    lambda ref: tuple_(Box.id, cast(Box.id, String)).not_in([(ref, ref)]),
    lambda ref: tuple_(Box.id, Box.id) != tuple_(ref, func.lower(ref)),
    lambda ref: tuple_(case((true(), Box.id), else_=func.lower(ref)), func.now()).in_([(ref, 1)]),
    lambda ref: Box.id.not_in(select(func.lower(ref))),
    lambda ref: Box.id.not_in(select(func.lower(ref).label("x")).union(select(Box.inside))),
    lambda ref: ~exists(select(Box.inside).except_(select(func.lower(ref)))),
    lambda ref: Box.id.not_in(
        select(values(column("x", Uuid(native_uuid=False)), name="v").data([(ref,)]).c.x)
    ),
    lambda ref: Box.id.not_in(values(column("x", String)).data([(ref,)]).scalar_values()),
    lambda ref: Box.id != any_(func.string_to_array(ref, ",")),
]


@pytest.mark.filterwarnings(
    "ignore:Type object .* does not include operator", "ignore:SELECT statement has a cartesian"
)
def test_a_string_that_is_not_compared_with_the_key_itself_is_refused(
    session: RefSession, ref: str, sent: list[str], subtests: pytest.Subtests
) -> None:
    """Where keys are text in the database, a ref taken for data would widen the statement."""
    sent.clear()
    for number, criterion in enumerate(CRITERIA):
        for statement in (select(Box), delete(Box), update(Box).values(label="x")):
            refused = pytest.raises(UntranslatableError, match=r"key column boxes\.\w+ other than")
            with subtests.test(number=number), refused:
                session.execute(statement.where(criterion(ref)))
    assert sent == []


def test_what_can_be_translated_selects_the_named_rows(
    session: RefSession, ref: str, subtests: pytest.Subtests
) -> None:
    """In a lambda, and next to a string that has nothing to do with it."""
    cases: list[tuple[Any, list[str]]] = [
        (lambda ref: lambda: Box.id != ref, ["inner"]),
        (
            lambda ref: (
                select(func.count(Box.id))
                .where(Box.inside == ref, Box.label == "inner")
                .scalar_subquery()
                == 1
            ),
            ["inner", "outer"],
        ),
    ]
    for number, (criterion, labels) in enumerate(cases):
        statement = select(Box.label).where(criterion(ref)).order_by(Box.label)
        with subtests.test(number=number):
            assert session.scalars(statement).all() == labels


def test_a_statement_given_as_a_lambda_is_translated(session: RefSession, ref: str) -> None:
    """Its values are taken each time it is executed."""
    for wanted, label in ((ref, "outer"), ("box_2", "inner")):
        statement = lambda_stmt(lambda: select(Box))
        statement += lambda s: s.where(Box.id == wanted)  # noqa: B023
        assert session.scalars(statement).one().label == label


@pytest.mark.parametrize(
    "option",
    [
        lambda ref: with_loader_criteria(Box, Box.id != ref),
        lambda ref: with_loader_criteria(Recipe, Recipe.id != ref),
        lambda ref: selectinload(Recipe.plans.and_(MealPlan.recipe_id == ref)),
    ],
)
def test_a_ref_in_a_loader_option_is_refused(
    session: RefSession, ref: str, option: Callable[[Any], Any]
) -> None:
    """The criteria of options are out of reach: they are never run with a ref as data."""
    with pytest.raises(UntranslatableError, match="other than by comparison"):
        session.scalars(select(Recipe).options(option(ref))).all()


def test_an_option_without_refs_is_not_touched(session: RefSession, ref: str) -> None:
    """Criteria on plain columns go on working."""
    found = session.scalars(select(Box).options(with_loader_criteria(Box, Box.label == "outer")))

    assert [box.id for box in found] == [ref]


def test_a_string_is_not_written_into_a_key_column(
    session: RefSession, ref: str, sent: list[str], subtests: pytest.Subtests
) -> None:
    """What is computed from a ref would be stored as it is; a ref out of reach would be too."""
    writes: list[Callable[[str], Any]] = [
        lambda ref: update(Box).values(inside=func.lower(ref)),
        lambda ref: update(Box).values(inside=case((Box.label == "x", Box.label), else_=ref)),
        lambda ref: insert(Box).from_select(
            ["id", "inside"], select(literal("box_2"), func.lower(ref))
        ),
        lambda ref: insert(Box).values([{"inside": func.lower(ref)}]),
        lambda ref: (
            pg_insert(Box)
            .values(label="x")
            .on_conflict_do_update(index_elements=["id"], set_={"inside": func.lower(ref)})
        ),
        lambda ref: (
            pg_insert(Box)
            .values(label="x")
            .on_conflict_do_update(
                index_elements=["id"], set_={"label": "y"}, where=cast(Box.id, String) != ref
            )
        ),
        lambda ref: select(insert(boxes).values([{"inside": ref}]).returning(boxes.c.id).cte()),
    ]
    sent.clear()
    for number, write in enumerate(writes):
        with subtests.test(number=number), pytest.raises(UntranslatableError):
            session.execute(write(ref))
    assert sent == []


def test_refs_are_written_as_keys_wherever_a_value_may_be(
    session: RefSession, ref: str, subtests: pytest.Subtests
) -> None:
    """Also in an update inside a CTE, and in the SET of an upsert."""
    writes: list[Callable[[str], Any]] = [
        lambda ref: update(Box).where(Box.label == "outer").values(inside=ref),
        lambda ref: select(
            update(Box).where(Box.label == "outer").values(inside=ref).returning(Box.id).cte()
        ),
        lambda ref: (
            pg_insert(Box)
            .from_select(["id", "label"], select(Box.id, Box.label).where(Box.label == "outer"))
            .on_conflict_do_update(index_elements=["id"], set_={"inside": ref})
        ),
        lambda ref: (
            pg_insert(boxes)
            .from_select(["id", "label"], select(Box.id, Box.label).where(Box.label == "outer"))
            .on_conflict_do_update(index_elements=["id"], set_={boxes.c.inside: ref})
        ),
        lambda ref: update(Box).values(inside=case((Box.label == "outer", ref), else_=None)),
        lambda ref: update(Box).where(Box.label == "outer").values(inside=func.coalesce(ref)),
        lambda ref: update(Box).where(Box.label == "outer").values(inside=literal(ref)),
        lambda ref: update(Box).values(inside=select(literal(ref)).scalar_subquery()),
        lambda ref: (
            pg_insert(Box)
            .from_select(
                ["id", "inside", "label"], select(literal(ref), literal(ref), literal("outer"))
            )
            .on_conflict_do_update(index_elements=["id"], set_={"inside": func.coalesce(ref)})
        ),
        lambda ref: (
            pg_insert(Box)
            .from_select(["id", "label"], select(Box.id, Box.label))
            .on_conflict_do_update(
                index_elements=["id"], set_={"inside": literal(ref)}, where=Box.id == ref
            )
        ),
    ]
    for number, write in enumerate(writes):
        session.execute(write(ref))
        rows = session.execute(select(Box.id, Box.inside).where(Box.label == "outer")).all()
        session.rollback()
        with subtests.test(number=number):
            assert [tuple(row) for row in rows] == [(ref, ref)]


def test_records_given_in_order_are_translated_by_their_place(
    session: RefSession, ref: str
) -> None:
    """A tuple has one value for each column of the table, and refs among them are keys."""
    key = uuid.uuid4()
    session.execute(insert(boxes).values([(key, ref, "third")]))

    assert session.scalars(select(Box.inside).where(Box.label == "third")).all() == [ref]


def test_a_parameter_has_one_meaning(session: RefSession, ref: str) -> None:
    """A name that stands for a key and for other data, or for two entities, is refused."""
    name: Any = bindparam("p")
    for criteria in (
        or_(Box.id == name, Box.label == name),
        or_(MealPlan.id == name, MealPlan.recipe_id == name),
    ):
        with pytest.raises(UntranslatableError, match="parameter 'p' is used for a key and for"):
            session.execute(select(Box.label).where(criteria), {"p": ref})


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        (cast(Box.id, String) != bindparam("x"), "box_1"),
        (cast(Box.id, String).not_in(bindparam("x")), ["box_1"]),
        (func.concat(Box.id, "") != bindparam("x"), "box_1"),
    ],
)
def test_a_text_given_at_execution_is_refused_as_one_in_the_statement(
    session: RefSession, ref: str, sent: list[str], criterion: Any, value: Any
) -> None:
    """Whether it comes beside the statement, in `params()`, or in a list of records."""
    assert ref == "box_1"
    sent.clear()
    for statement, parameters in (
        (select(Box).where(criterion), {"x": value}),
        (select(Box).where(criterion).params(x=value), None),
        (delete(boxes).where(criterion), [{"x": value}]),
    ):
        with pytest.raises(UntranslatableError, match=r"key column boxes\.id other than"):
            session.execute(statement, parameters)
    assert sent == []


ANONYMOUS: list[tuple[Any, str]] = [
    (Box.id == "box_1", "id_1"),
    (Box.id == uuid.UUID(int=7), "id_1"),
    (Box.id.in_(["box_1"]), "id_1"),
    ((Box.inside == "box_1") | (Box.id == "box_1"), "id_1"),
    ((Box.id == "box_1") | (Box.id == "box_2"), "id_2"),
    (Box.id == literal("box_1"), "param_1"),
    (Box.id == bindparam("x", "box_1", unique=True), "x_1"),
    (cast(Box.id, String) != "box_1", "id_1"),
]


@pytest.mark.usefixtures("ref")
def test_a_string_under_an_anonymous_name_is_refused(
    session: RefSession, sent: list[str], subtests: pytest.Subtests
) -> None:
    """SQLAlchemy would use it instead of the statement's own value, untranslated."""
    sent.clear()
    for (criterion, name), value in itertools.product(
        ANONYMOUS, ("box_2", ["box_2"], str(uuid.UUID(int=7)))
    ):
        for statement, parameters in (
            (select(Box), {name: value}),
            (delete(boxes), [{name: value}]),
            (update(boxes).values(label="x"), {name: value}),
        ):
            refused = pytest.raises(UntranslatableError, match=r"parameter '|other than by")
            with subtests.test(criterion=str(criterion), value=value):
                with refused as caught:
                    session.execute(statement.where(criterion), parameters)
                assert "0000" not in str(caught.value)
    assert sent == []


def test_a_text_given_by_the_key_of_a_parameter_is_refused(
    session: RefSession, ref: str, sent: list[str]
) -> None:
    """SQLAlchemy takes it by that too, and `params()` by nothing else in 2.0."""
    criterion: Any = Box.id == ref
    sent.clear()

    with pytest.raises(UntranslatableError, match="whose name SQLAlchemy generated"):
        session.execute(select(Box).where(criterion), {criterion.right.key: "box_2"})

    assert sent == []


def test_what_is_named_by_the_program_is_not_taken_for_a_made_name(
    session: RefSession, ref: str
) -> None:
    """Parameters with a name, columns, values that are no text, and what no parameter has."""
    named = select(Box.label).where(Box.id == ref, Box.label == bindparam("id_2"))
    assert session.scalars(named, {"id_2": "outer", "label_1": "x", "i": "x"}).all() == ["outer"]
    with session.raw_keys():
        inner = session.scalars(select(Box.id).where(Box.label == "inner")).one()
    found = session.scalars(select(Box.label).where(Box.id == ref), {"id_1": inner})
    assert found.all() == ["inner"]
    by_label = select(Box.label).where(Box.id != ref, Box.label == "outer")
    assert session.scalars(by_label, {"label_1": "inner"}).all() == ["inner"]


def test_values_put_in_by_params_are_translated(session: RefSession, ref: str) -> None:
    """SQLAlchemy 2.1 keeps them beside the statement, 2.0 puts them in."""
    statement = select(Box.label).where(Box.id != bindparam("x"))

    assert session.scalars(statement.params(x=ref)).all() == ["inner"]
    assert session.scalars(statement.params(x="box_2")).all() == ["outer"]


other = aliased(Box, select(Box).where(Box.id != "box_1").subquery())
chosen = aliased(Box, select(Box).where(Box.id != bindparam("x")).subquery())
literals = aliased(
    Box,
    select(literal("box_1").label("id"), Box.label, Box.inside).subquery(),
    adapt_on_names=True,
)


UNREACHABLE: list[tuple[Any, Any]] = [
    (select(Recipe).join(Recipe.plans.and_(MealPlan.id != "meal_plan_1")), None),
    (select(select(Recipe.name).join(Recipe.plans.and_(MealPlan.id == "x")).subquery()), None),
    (select(other.label).where(other.id != "box_2"), None),
    (select(other.label), None),
    (select(chosen.label), {"x": "box_1"}),
    (select(literals.label).where(Box.id != literals.id), None),
]


@pytest.mark.usefixtures("ref")
@pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian")
def test_a_ref_in_a_part_out_of_reach_is_refused(
    session: RefSession, sent: list[str], subtests: pytest.Subtests
) -> None:
    """The ORM would use it as it was: criteria of a joined relationship, the query of an alias."""
    sent.clear()
    for statement, parameters in UNREACHABLE:
        with subtests.test(statement=str(statement)), pytest.raises(UntranslatableError):
            session.execute(statement, parameters)
    assert sent == []


def test_parts_that_cannot_be_replaced_work_without_refs(session: RefSession, ref: str) -> None:
    """And a ref beside them is translated."""
    named = aliased(Box, select(Box).where(Box.label != "x").subquery())

    found = session.scalars(select(named.label).where(named.id != ref)).all()
    assert found == ["inner"]


WITHOUT_KEYS = [
    select(Preference).where(Preference.legacy_recipe_id == "recipe_1"),
    select(Preference).where(Preference.device != "recipe_1"),
    select(OrderLine).where(OrderLine.position.in_([1, "order_1"])),
    select(OrderLine).where(tuple_(OrderLine.note, OrderLine.position).in_([("x", "order_1")])),
    select(OrderLine).where(OrderLine.position == func.coalesce("order_1", 1)),
    insert(Preference).values(legacy_recipe_id="recipe_1"),
    insert(Preference).values([{"device": "recipe_1"}]),
    update(Preference).values(device=literal("recipe_1")),
]


def test_a_ref_in_a_column_without_keys_is_refused(
    session: RefSession, sent: list[str], subtests: pytest.Subtests
) -> None:
    """A UUID or integer column that is left raw, or holds other data, has no string like it."""
    for statement in WITHOUT_KEYS:
        message = r"'\w+_1' is given for column \w+\.\w+, whose"
        refused = pytest.raises(UntranslatableError, match=message)
        with subtests.test(statement=str(statement)), refused:
            session.execute(statement)
    assert sent == []


def test_ten_thousand_refs_are_resolved_in_one_trip(
    sessions: sessionmaker[RefSession], store: TravelLog
) -> None:
    """A long list costs one question to the store, and one statement."""
    numbers = range(1, 10_001)
    RefRegistry(store=store).conversation("chat-7").refer_all(Order, numbers)
    store.trips.clear()
    refs = [f"order_{n}" for n in numbers]
    with sessions(conversation=RefRegistry(store=store).conversation("chat-7")) as session:
        session.execute(insert(Order), [{"id": n, "number": n} for n in (1, 10_000)])
        found = session.scalars(select(Order.number).where(Order.id.in_(refs)))
        assert sorted(found) == [1, 10_000]

    assert store.trips == ["resolve"]


def test_a_document_is_chosen_by_ref(session: RefSession, ref: str) -> None:
    """The values of a `case()` are compared whatever it results in."""
    chosen: Any = case(
        {ref: func.json_build_object("name", Box.label)},
        value=Box.id,
        else_=func.json_build_object("name", "another"),
    )

    found = session.scalars(select(chosen).order_by(Box.label))
    assert found.all() == [{"name": "another"}, {"name": "outer"}]


def test_a_parameter_that_is_also_changed_and_compared_with_data_is_refused(
    session: RefSession, ref: str
) -> None:
    """Its key would be changed and compared with the data."""
    value = literal(ref)
    with pytest.raises(
        UntranslatableError, match="a parameter is used for a key and for something"
    ):
        session.scalars(select(Box).where(Box.id == value, func.lower(value) != Box.label)).all()


def test_what_a_translated_parameter_shows_is_a_ref_or_is_refused(
    session: RefSession, ref: str
) -> None:
    """It is sent as a key, so it is shown as one, unless it would be read as text."""
    shown = select(func.coalesce(Box.inside, ref)).order_by(Box.label)
    assert session.scalars(shown).all() == [ref, ref]

    read_as_text: list[Any] = [
        select(case((Box.label == "outer", ref), else_=Box.id)),
        select(literal(ref).label("x")).where(Box.id == literal(ref)).union(select(Box.id)),
    ]
    for statement in read_as_text:
        with pytest.raises(UntranslatableError, match=r"keys of boxes\.id and is declared as an"):
            session.execute(statement)
