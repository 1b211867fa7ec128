"""A statement with refs touches the rows that the same statement with keys touches, and no other.

Each shape of criterion is run with keys in a plain session and with refs in a `RefSession`, on
keys of every type, as it is and negated, in a SELECT and in a DELETE.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import (
    Engine,
    ForeignKey,
    Integer,
    String,
    Uuid,
    all_,
    and_,
    any_,
    bindparam,
    case,
    cast,
    create_engine,
    delete,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    tuple_,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, array
from sqlalchemy.exc import ArgumentError, StatementError
from sqlalchemy.orm import DeclarativeBase, Session, aliased, mapped_column

from alfred_refs import RefPolicy, RefRegistry, RefSession, UntranslatableError
from tests.fix_postgres import database_like


class Base(DeclarativeBase):
    """Tables of their own: the same rows under keys of every type."""


def make_class(name: str, type_: Any) -> Any:
    """Return a class with keys of a type, a reference to itself and lists of its own keys."""
    attributes = {
        "__tablename__": name.lower(),
        "id": mapped_column(type_, primary_key=True),
        "parent_id": mapped_column(type_, ForeignKey(f"{name.lower()}.id", ondelete="SET NULL")),
        "label": mapped_column(String),
        "number": mapped_column(Integer),
        "friends": mapped_column(ARRAY(type_), info={"ref": f"{name.lower()}.id"}),
    }
    return type(name, (Base,), attributes)


KINDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "native": (make_class("Native", Uuid()), lambda n: uuid.UUID(int=n)),
    "chars": (make_class("Chars", Uuid(native_uuid=False)), lambda n: uuid.UUID(int=n)),
    "textual": (make_class("Textual", Uuid(as_uuid=False)), lambda n: str(uuid.UUID(int=n))),
    "numbered": (make_class("Numbered", Integer), lambda n: n),
    "named": (make_class("Named", String(40)), lambda n: f"key{n}"),
}

# label, parent, friends; the label of D reads like the ref of A
ROWS = [
    ("A", None, [1, 2]),
    ("B", 1, []),
    ("C", 1, None),
    ("{}_1", 2, [3]),
    ("E", 5, [5, 1, None]),
]


@dataclass
class Side:
    """How one side of the comparison names rows: by key or by ref.

    Attributes:
        T: the class.
        of: what names a row, by its number.
        lit: the same as a literal.
        bare: the same where SQLAlchemy cannot tell its type: a key needs a literal, a ref none.
    """

    T: Any
    of: Callable[[int], Any]
    lit: Callable[[int], Any]
    bare: Callable[[int], Any]


Both = Callable[[str], tuple[tuple[Session, Side], tuple[RefSession, Side]]]
"""Gives a session with keys and one with refs, on five rows with keys of a type."""


@pytest.fixture(scope="module")
def both(administration: Engine) -> Iterator[Both]:
    """The same rows under keys of every type; a test leaves them as they are."""
    policy = RefPolicy(key_types=("uuid", "integer", "string"))
    with database_like(administration) as url, closing_engine(url) as engine:
        Base.metadata.create_all(engine)
        registry = RefRegistry(engine, policy=policy)
        registry.create_tables()
        conversation = registry.conversation("chat-7")
        plain, refs = Session(engine), RefSession(engine, conversation=conversation)
        for kind, (class_, key) in KINDS.items():
            plain.add_all(make_rows(class_, key))
            plain.commit()
            names = conversation.refer_all(class_, [key(n) for n in range(1, 6)])
            assert names == [f"{kind}_{n}" for n in range(1, 6)]

        def give(kind: str) -> tuple[tuple[Session, Side], tuple[RefSession, Side]]:
            (class_, key), ref = KINDS[kind], (kind + "_{}").format

            def typed(n: int) -> Any:
                return literal(key(n), class_.id.type)

            return (
                (plain, Side(class_, key, typed, typed)),
                (refs, Side(class_, ref, lambda n: literal(ref(n)), ref)),
            )

        yield give
        plain.close()
        refs.close()


@contextmanager
def closing_engine(url: str) -> Iterator[Engine]:
    """Make an engine and let go of its connections."""
    engine = create_engine(url)
    yield engine
    engine.dispose()


def make_rows(class_: Any, key: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the rows of a class."""
    for n, (label, parent, friends) in enumerate(ROWS, start=1):
        yield class_(
            id=key(n),
            parent_id=parent and key(parent),
            label=label.format(class_.__tablename__),
            number=n,
            friends=friends and [f and key(f) for f in friends],
        )


def labels(session: Session, statement: Any, parameters: Any = None) -> list[str]:
    """Return what a statement selects, sorted; the session stays as it was."""
    try:
        return sorted(session.scalars(statement, parameters))
    finally:
        session.rollback()


def touched(session: Session, side: Side, criterion: Any, parameters: Any = None) -> list[Any]:
    """Return the rows that a criterion and its opposite select and delete."""
    T = side.T  # noqa: N806
    found = []
    for where in (criterion, not_(criterion)):
        found += [labels(session, select(T.label).where(where), parameters)]
        statement = delete(T).where(where).returning(T.label)
        found += [
            labels(session, statement.execution_options(synchronize_session=False), parameters)
        ]
    return found


# each takes a `Side`; `None` in place of a list of parameters
SHAPES: list[Callable[[Side], Any]] = [
    # comparisons
    lambda s: s.T.id == s.of(1),
    lambda s: s.T.id != s.of(1),
    lambda s: s.T.parent_id != s.of(1),
    lambda s: s.T.id.in_([s.of(1), s.of(3)]),
    lambda s: s.T.id.not_in([s.of(1), s.of(3)]),
    lambda s: s.T.parent_id.in_([s.of(1), None]),
    lambda s: s.T.id.in_([s.T.parent_id, s.of(1)]),
    lambda s: s.T.id.in_({s.of(1), s.of(3)}),
    lambda s: s.T.id.in_(s.of(n) for n in (1, 3)),
    lambda s: s.T.id.not_in([]),
    lambda s: s.T.parent_id.is_distinct_from(s.of(1)),
    lambda s: s.T.parent_id.is_not_distinct_from(s.of(1)),
    lambda s: s.T.id.between(s.of(2), s.of(4)),
    lambda s: s.T.id == any_(bindparam(None, [s.of(1), s.of(2)], ARRAY(s.T.id.type))),
    lambda s: s.T.id != all_(bindparam(None, [s.of(1), s.of(2)], ARRAY(s.T.id.type))),
    lambda s: s.T.id == any_(array([s.lit(1), s.lit(2)])),
    lambda s: s.T.id != all_(array([s.lit(1), s.T.parent_id])),
    lambda s: s.T.id == any_(select(s.lit(1)).scalar_subquery()),
    # literals
    lambda s: s.T.id == s.lit(1),
    lambda s: s.T.id != s.lit(1),
    lambda s: s.lit(1) != s.T.parent_id,
    lambda s: s.lit(1).in_([s.T.id, s.T.parent_id]),
    lambda s: s.lit(1).not_in([s.T.id, s.T.parent_id]),
    lambda s: s.lit(3).between(s.T.parent_id, s.T.id),
    lambda s: s.T.id == type_coerce(s.of(1), s.T.id.type),
    lambda s: type_coerce(s.T.id, s.T.id.type) != s.of(1),
    lambda s: s.T.id.is_distinct_from(s.lit(1).label("x")),
    lambda s: s.T.id != select(s.lit(1)).scalar_subquery(),
    lambda s: s.T.id.not_in(select(s.lit(1))),
    lambda s: s.T.id.not_in(select(s.lit(1)).union(select(s.lit(2)))),
    lambda s: s.T.id.not_in(
        union_all(select(s.lit(1)), select(s.T.parent_id)).subquery().select()
    ),
    lambda s: s.T.id.not_in(select(select(s.lit(1).label("x")).cte().c.x)),
    lambda s: exists(select(s.T.id).correlate(None).except_(select(s.lit(1)))),
    lambda s: ~exists(select(s.T.id).correlate(s.T).intersect(select(s.lit(1)))),
    # tuples
    lambda s: tuple_(s.T.id, s.T.number).in_([(s.of(1), 1), (s.of(2), 1)]),
    lambda s: tuple_(s.T.id, s.T.label).not_in([(s.of(1), "A"), (s.of(2), "x")]),
    lambda s: tuple_(s.T.number, s.T.id).not_in([(1, s.of(1))]),
    lambda s: tuple_(s.T.label, s.T.id).not_in([(f"{s.T.__tablename__}_1", s.of(4))]),
    lambda s: tuple_(s.T.id, s.T.parent_id).in_([(s.of(2), s.of(1)), (s.of(5), s.of(5))]),
    lambda s: tuple_(s.T.id, s.T.number) == tuple_(s.lit(1), 1),
    lambda s: tuple_(s.T.id, s.T.number) != tuple_(s.lit(1), 1),
    lambda s: tuple_(s.T.id, s.T.number) != (s.of(1), 1),
    lambda s: tuple_(s.T.id, s.T.number).not_in([tuple_(s.lit(1), 1), tuple_(s.lit(2), 2)]),
    lambda s: tuple_(s.T.id, s.T.number).not_in(select(s.lit(1), literal(1))),
    lambda s: tuple_(s.lit(1), 1).in_(select(s.T.id, s.T.number).correlate(None)),
    # what is chosen from several values
    lambda s: case((s.T.number == 1, s.lit(1)), else_=s.lit(2)) == s.T.id,
    lambda s: case((s.T.number == 1, s.lit(1)), else_=s.lit(2)) != s.T.id,
    lambda s: case((s.T.number == 1, s.T.id), else_=s.lit(2)) != s.T.id,
    lambda s: s.T.id == case((s.T.number < 3, s.lit(1)), else_=None),
    lambda s: case({s.bare(1): 1, s.bare(2): 2}, value=s.T.id, else_=3) == 1,
    lambda s: case({s.bare(1): 1, s.bare(2): 2}, value=s.T.id, else_=3) != 1,
    lambda s: func.coalesce(s.T.parent_id, s.bare(1)) == s.T.id,
    lambda s: func.coalesce(s.T.parent_id, s.bare(1)) != s.bare(1),
    lambda s: func.coalesce(s.lit(1), s.T.parent_id) != s.T.id,
    lambda s: func.nullif(s.T.id, s.bare(1)).is_(None),
    lambda s: func.nullif(s.T.id, s.bare(1)) != s.lit(2),
    lambda s: func.greatest(s.T.parent_id, s.bare(2)) == s.T.id,
    lambda s: func.least(s.T.id, s.bare(2)) != s.bare(2),
    lambda s: select(s.T.id).where(s.T.number == 5).correlate(None).scalar_subquery() != s.of(5),
    lambda s: cast(s.of(1), s.T.id.type) == s.T.id,
    lambda s: cast(s.of(1), s.T.id.type) != s.T.id,
    lambda s: s.T.id.not_in([cast(s.of(1), s.T.id.type), s.lit(2)]),
    # lists
    lambda s: s.T.friends.contains([s.of(1)]),
    lambda s: s.T.friends.contained_by([s.of(1), s.of(2)]),
    lambda s: s.T.friends.overlap([s.of(1), s.of(3)]),
    lambda s: s.T.friends.any(s.of(1)),
    lambda s: s.T.friends.all(s.of(3)),
    lambda s: s.of(1) == any_(s.T.friends),
    lambda s: s.lit(1) != all_(s.T.friends),
    lambda s: s.T.friends == [s.of(1), s.of(2)],
    lambda s: s.T.friends != [s.of(1), s.of(2)],
    lambda s: s.T.friends.in_([[s.of(1), s.of(2)], [s.of(3)]]),
    lambda s: s.T.friends[1] == s.of(1),
    lambda s: s.T.friends[1] != s.of(1),
    lambda s: s.T.friends[1:2] == [s.of(1), s.of(2)],
    lambda s: func.array_position(s.T.friends, s.lit(1)).is_(None),
    lambda s: func.array_remove(s.T.friends, s.bare(1)) == cast([s.of(2)], s.T.friends.type),
    lambda s: (
        func.array_append(s.T.friends, s.bare(1)) != cast(array([s.lit(1)]), s.T.friends.type)
    ),
    lambda s: s.T.friends.concat([s.of(1)])[2] != s.of(1),
    lambda s: s.T.friends.contains(cast(array([s.lit(1)]), s.T.friends.type)),
    lambda s: s.lit(1).in_(select(func.unnest(s.T.friends)).correlate(s.T)),
    lambda s: s.T.id.not_in(
        select(func.unnest(s.T.friends).column_valued("f"))
        .correlate(None)
        .where(s.T.id == s.of(4))
    ),
    # in other places
    lambda s: exists().where(s.T.id == s.of(1), s.T.number == 1),
    lambda s: or_(s.T.id == s.of(1), s.T.label == f"{s.T.__tablename__}_1"),
    lambda s: and_(s.T.id != s.of(1), s.T.label != f"{s.T.__tablename__}_1"),
]


# shapes whose values come with the execution, by the name of their parameter
GIVEN: list[tuple[Callable[[Side], Any], Callable[[Side], Any]]] = [
    (lambda s: s.T.id != bindparam("x"), lambda s: {"x": s.of(1)}),
    (lambda s: s.T.id.in_(bindparam("x", expanding=True)), lambda s: {"x": [s.of(1), s.of(2)]}),
    (lambda s: s.T.id.not_in(bindparam("x")), lambda s: {"x": (s.of(1), s.of(2))}),
    (lambda s: bindparam("x", type_=s.T.id.type) != s.T.parent_id, lambda s: {"x": s.of(1)}),
    (
        lambda s: tuple_(s.T.id, s.T.number).in_(bindparam("x", expanding=True)),
        lambda s: {"x": [(s.of(1), 1), (s.of(2), 1)]},
    ),
    (
        lambda s: tuple_(s.T.id, s.T.label).not_in(bindparam("x")),
        lambda s: {"x": [(s.of(4), f"{s.T.__tablename__}_1")]},
    ),
    (lambda s: s.T.friends.contains(bindparam("x")), lambda s: {"x": [s.of(1)]}),
    (
        lambda s: or_(cast(bindparam("x"), String).is_(None), s.T.id == bindparam("x")),
        lambda s: {"x": s.of(1)},
    ),
]


@pytest.mark.parametrize(("shape", "values"), [*((s, lambda _: None) for s in SHAPES), *GIVEN])
@pytest.mark.filterwarnings("ignore:The ARRAY.Comparator.any", "ignore:SELECT statement has a car")
def test_a_ref_touches_the_rows_that_its_key_touches(
    both: Both, shape: Callable[[Side], Any], values: Callable[[Side], Any]
) -> None:
    """Whatever the shape, the type of key and the verb, in the statement or given with it."""
    for kind in KINDS:
        (plain, keys), (session, refs) = both(kind)
        assert touched(session, refs, shape(refs), values(refs)) == touched(
            plain, keys, shape(keys), values(keys)
        )


def test_a_parameter_declared_as_text_is_sent_as_a_key(both: Both) -> None:
    """`bindparam("x", type_=String)`, as a generic builder of filters has it."""
    for kind in KINDS:
        _, (session, s) = both(kind)
        statement = select(s.T.label).where(s.T.id != bindparam("x", type_=String))
        assert labels(session, statement, {"x": s.of(1)}) == ["B", "C", "E", f"{kind}_1"]


# Random criteria

Criterion = Callable[[Side], Any]
"""Builds the same criterion for each side."""

numbers = st.integers(1, 5)


def operands() -> st.SearchStrategy[Criterion]:
    """Expressions with keys in them, and values that stand for keys."""
    return st.one_of(
        st.just(lambda s: s.T.id),
        st.just(lambda s: s.T.parent_id),
        st.just(lambda s: s.T.friends[1]),
        st.builds(lambda n: lambda s: s.bare(n), numbers),
        st.builds(lambda n: lambda s: s.lit(n), numbers),
        st.just(lambda _: null()),
        st.builds(lambda n: lambda s: func.coalesce(s.T.parent_id, s.bare(n)), numbers),
        st.builds(lambda n: lambda s: func.nullif(s.T.id, s.bare(n)), numbers),
        st.builds(
            lambda n, m: lambda s: case((s.T.number < n, s.lit(m)), else_=s.T.parent_id),
            *(numbers, numbers),
        ),
        st.builds(lambda n: lambda s: select(s.lit(n)).scalar_subquery(), numbers),
        st.builds(lambda n: lambda s: cast(s.bare(n), s.T.id.type), numbers),
        st.just(lambda s: cast(s.T.id, String)),
        # data: "0" is no key, and sorts before all keys and refs
        st.just(lambda s: cast(s.T.number * 0, String)),
        st.builds(lambda n: lambda s: func.lower(cast(s.lit(n), String)), numbers),
    )


COMPARE: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a.is_distinct_from(b),
    lambda a, b: a.is_not_distinct_from(b),
    lambda a, b: a.in_([b]),
    lambda a, b: a.not_in([b]),
    lambda a, b: a.not_in(select(literal(b) if isinstance(b, str) else b)),
    lambda a, b: tuple_(a, 1) == tuple_(b, 1),
    lambda a, b: tuple_(a, 1).not_in([tuple_(b, 1)]),
]


def compared(operator: Any, a: Criterion, b: Criterion) -> Criterion:
    """Return a comparison; the left side must be an expression of SQL."""

    def build(s: Side) -> Any:
        left, right = a(s), b(s)
        if isinstance(left, str):
            left = literal(left)
        return operator(left, right)

    return build


def elsewhere(inner: Criterion, of: str) -> Criterion:
    """Return a criterion on other rows: in an EXISTS, an alias, or a subquery."""

    def build(s: Side) -> Any:
        other = aliased(s.T)
        there = Side(other, s.of, s.lit, s.bare)
        if of == "exists":
            return exists().where(inner(there), other.parent_id == s.T.id)
        if of == "in":
            return s.T.id.in_(select(other.parent_id).where(inner(there)))
        return (
            s.T.id
            == select(func.coalesce(other.parent_id, s.bare(1)))
            .where(inner(there), other.number == s.T.number)
            .scalar_subquery()
        )

    return build


simple = st.one_of(
    st.builds(compared, st.sampled_from(COMPARE), operands(), operands()),
    st.builds(lambda ns: lambda s: s.T.id.in_([s.of(n) for n in ns]), st.lists(numbers)),
    st.builds(lambda ns: lambda s: s.T.id.not_in([s.of(n) for n in ns]), st.lists(numbers)),
    st.builds(
        lambda ns: lambda s: tuple_(s.T.id, s.T.number).not_in([(s.of(n), 1) for n in ns]),
        st.lists(numbers, min_size=1),
    ),
    st.builds(
        lambda n: lambda s: s.T.label == f"{s.T.label.class_.__name__.lower()}_{n}", numbers
    ),
)

criteria = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda c: lambda s: not_(c(s)), inner),
        st.builds(lambda a, b: lambda s: and_(a(s), b(s)), inner, inner),
        st.builds(lambda a, b: lambda s: or_(a(s), b(s)), inner, inner),
        st.builds(elsewhere, inner, st.sampled_from(["exists", "in", "scalar"])),
        st.builds(lambda c: lambda s: case((c(s), 1), else_=0) == 1, inner),
    ),
    max_leaves=5,
)


@pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian")
@settings(deadline=None)
@given(criterion=criteria, kind=st.sampled_from(list(KINDS)))
def test_any_criterion_selects_the_same_rows_or_is_refused(
    both: Both, criterion: Criterion, kind: str
) -> None:
    """What cannot be translated is refused; another set of rows is never an outcome."""
    (plain, keys), (session, refs) = both(kind)
    try:
        expected = labels(plain, select(keys.T.label).where(criterion(keys)))
    except (ArgumentError, StatementError):
        return  # these cannot be compared
    try:
        found = labels(session, select(refs.T.label).where(criterion(refs)))
    except (UntranslatableError, StatementError):
        return
    assert found == expected
