"""The words of the tools are the application's: nothing in them is of another's tables.

A shop asks for all that a model may be told: definitions in all forms, descriptions, and each kind
of error. Examples in them name its own rows; and no literal of the package names anybody's.
"""

from __future__ import annotations

import ast
import datetime as dt
import enum
import itertools
import json
import re
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Engine,
    ForeignKey,
    Text,
    Uuid,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import alfred_refs
from alfred_refs import Conversation, RefSession
from alfred_refs.errors import CircularDraftsError, ForeignRowError, StaleDraftError
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from alfred_refs.tools.arguments import Operator
from alfred_refs.tools.definitions import Form
from alfred_refs.tools.errors import (
    already_done,
    circular_reference,
    fixed_item,
    hidden_items,
    in_doubt,
    linked_elsewhere,
    not_permitted,
    plan_changed,
    rejected,
    undo_conflict,
    unknown_call,
    unreadable_value,
)
from tests.tools.conftest import by

Named = dict[str, Any]
Told = list[Named]

FORMS: tuple[Form, ...] = get_args(Form)
PACKAGE = Path(alfred_refs.__file__).parent
PAGE = PACKAGE.parent / "docs" / "tool-errors.md"

ENTITIES = {"customer", "order", "line", "shelf", "key"}
REF = re.compile(r"(?<![A-Za-z0-9_])(?:gen_)?([a-z]+(?:_[a-z]+)*)_[0-9]+(?![A-Za-z0-9_])")
OTHERS = re.compile(
    "recipe|dish|chicken|soup|cuisine|ingredient|korma|curry|meal|kitchen|embedding", re.IGNORECASE
)
OF_DRAFTS = re.compile("draft|gen_", re.IGNORECASE)


class Base(DeclarativeBase):
    """Declarative base of the shop."""


class Status(enum.Enum):
    """What has become of an order."""

    OPEN = "open"
    PAID = "paid"


class Customer(Base):
    """Has orders."""

    __tablename__ = "shop_customers"
    __ref_name__ = "customer"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(unique=True)


class Order(Base):
    """Has a column of every kind, and lines in an order."""

    __tablename__ = "shop_orders"
    __ref_name__ = "order"
    __ref_label__ = "title"
    __table_args__ = (CheckConstraint("total > 0", name="shop_orders_paid"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    title: Mapped[str | None]
    total: Mapped[Decimal | None]
    count: Mapped[int | None]
    weight: Mapped[float | None]
    status: Mapped[Status | None]
    is_gift: Mapped[bool | None]
    placed_on: Mapped[dt.date | None]
    seen_at: Mapped[dt.datetime | None]
    opens: Mapped[dt.time | None]
    took: Mapped[dt.timedelta | None]
    device: Mapped[uuid.UUID | None]
    photo: Mapped[bytes | None]
    tags: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True)
    extra: Mapped[Any] = mapped_column(JSONB, nullable=True)
    customer_id: Mapped[Any] = mapped_column(ForeignKey("shop_customers.id"), nullable=True)
    follows_id: Mapped[Any] = mapped_column(ForeignKey("shop_orders.id"), nullable=True)

    customer: Mapped[Customer | None] = relationship()
    lines: Mapped[list[Line]] = relationship(
        cascade="all, delete-orphan", order_by="Line.position", back_populates="order"
    )


class Line(Base):
    """Is in an order."""

    __tablename__ = "shop_lines"
    __ref_name__ = "line"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    order_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("shop_orders.id"))
    position: Mapped[int | None]
    product: Mapped[str]

    order: Mapped[Order] = relationship(back_populates="lines")


class Shelf(Base):
    """Has a key of two columns."""

    __tablename__ = "shop_shelves"
    __ref_name__ = "shelf"

    room: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    order_id: Mapped[Any] = mapped_column(ForeignKey("shop_orders.id"), nullable=True)


KEPT = ("changed", "rejected", "doubt", "undo", "no call", "done")


class Raises(Hooks):
    """Raises what tools raise where two work at the same time, or what takes too long."""

    def before_read(self, read: Reading) -> None:
        """Do what the search by meaning says."""
        errors: dict[str, Exception] = {
            "stale": StaleDraftError("gen_order_1", 1, 2),
            "circle": CircularDraftsError(["gen_order_1", "gen_order_2"]),
            "foreign": ForeignRowError("Order", "order_1"),
            "deep": RecursionError(),
            "fixed": fixed_item("lines"),
            "rows": circular_reference(["orders"]),
            "hidden": hidden_items("lines"),
            "changed": plan_changed("Delete 1 order."),
            "rejected": rejected(3, "not paid yet"),
            "doubt": in_doubt(3),
            "undo": undo_conflict(["order_1: count was changed since"]),
            "no call": unknown_call(9),
            "done": already_done(3, "Ann"),
            "denied": not_permitted("orders", "db_read"),
            "unreadable": unreadable_value("orders"),
            "linked": linked_elsewhere("orders", "tags", "order_tags"),
        }
        if read.semantic in errors:
            raise errors[read.semantic]
        if read.semantic == "slow":
            read.session.scalar(select(func.pg_sleep(2)))

    def after_read(self, read: Reading, rows: list[Named]) -> None:
        """Look at rows, so that they are not counted."""


MODELS = {"orders": Order, "customers": Customer, "lines": Line, "shelves": Shelf}

UPDATE: Named = {"table": "orders", "data": {"count": 1}}
EDIT: Named = {"table": "orders", "row": "order_1", "list": "lines"}
TITLED: Named = {"field": "title", "op": "=", "value": "First"}
BY_NAME: Named = {"field": "name", "op": "=", "value": "Ann"}
JUNK = [True, 1.5, "x", "", "2026-13-45", [], ["x"], {}, {"a": [1]}, 10**30, None]


def named(*refs: str, **more: Any) -> Named:
    """Return a filter on orders by their refs."""
    return {"table": "orders", "filters": by("id", [*refs], "in"), **more}


def semantic(word: str) -> Named:
    """Return a search by meaning, at which the hook does something."""
    return {"table": "orders", "filters": by("_semantic", word, "similar")}


def edits(*given: Named, **more: Any) -> Named:
    """Return edits of the lines of an order."""
    return {**EDIT, "edits": [*given], **more}


# what needs no draft
CALLS: list[tuple[str, Named]] = [
    ("db_count", {}),
    ("db_update", {**UPDATE, "filters": [TITLED], "expect": {"count": 9}}),
    ("db_read", {"table": "invoices"}),
    ("db_read", {"tabel": "orders"}),
    ("db_read", {"table": "shelves", "filters": by("_ref", ["x"])}),
    ("db_read", {"table": "shelves", "filters": by("_ref", "x", ">")}),
    ("db_read", {"table": "orders", "columns": ["lines.order.lines.order.lines.order"]}),
    ("db_read", {"table": "orders", "filters": [{"field": "lines", "op": "is_null"}]}),
    ("db_read", {"table": "orders", "filters": [{"field": "title.x", "op": "is_null"}]}),
    ("db_read", {"table": "orders", "filters": [{"field": "lines.x", "op": "is_null"}]}),
    ("db_read", {"table": "orders", "columns": ["nothing"], "order_by": "nothing"}),
    ("db_read", {"table": "orders", "cursor": "abc"}),
    ("db_read", {"table": "lines", "columns": ["count(*)", "order.title"]}),
    ("db_read", {"table": "orders", "columns": ["count(*)"]}),
    (
        "db_read",
        {"table": "customers", **{k: v for k, v in semantic("x").items() if k != "table"}},
    ),
    ("db_read", semantic("foreign")),
    ("db_read", semantic("deep")),
    ("db_read", semantic("slow")),
    ("db_read", semantic("fixed")),
    ("db_read", semantic("rows")),
    ("db_read", semantic("hidden")),
    *[("db_read", semantic(each)) for each in KEPT],
    ("db_read", semantic("linked")),
    ("db_read", semantic("denied")),
    ("db_read", semantic("unreadable")),
    ("db_read", named("order_9")),
    ("db_read", named("customer_1")),
    ("db_read", named("line_1", "first order")),
    ("db_read", named(str(uuid.uuid4()))),
    ("db_read", named("order_3")),
    ("db_create", {"table": "orders"}),
    ("db_create", {"table": "shelves", "data": {"place": 1}}),
    ("db_create", {"table": "shelves", "data": {"room": 1, "place": 1, "order_id": "order_4"}}),
    ("db_create", {"table": "customers", "data": [{"name": "Ann"}, {"name": "Ann"}]}),
    ("db_create", {"table": "orders", "data": {"total": -1}}),
    ("db_create", {"table": "orders", "data": [{}] * 30}),
    (
        "db_create",
        {"table": "orders", "data": {"lines": [{"product": "a", "order_id": "order_1"}]}},
    ),
    ("db_create", {"table": "orders", "data": {"lines": ["line_1", "line_1"]}}),
    ("db_create", {"table": "orders", "data": {"title": "<order_7>"}}),
    ("db_update", {**UPDATE, "filters": []}),
    ("db_update", {"table": "customers", "filters": [BY_NAME], "data": {"name": "Eve"}}),
    ("db_update", {**named("order_1"), "data": {"count": 1}, "expect": "Second"}),
    ("db_delete", {"table": "orders", "filters": [{"field": "id", "op": "is_not_null"}]}),
    ("db_delete", named("order_1", "order_2")),
    ("db_delete", {"table": "customers", "filters": by("name", "Ann")}),
    ("db_edit_list", {**EDIT, "list": "pages"}),
    ("db_edit_list", {**EDIT, "row": "order_2", "edits": [{"action": "remove", "path": [1]}]}),
    ("db_edit_list", edits({"action": "remove", "path": [9]})),
    ("db_edit_list", edits({"action": "remove", "path": [1], "expect": "nothing"})),
    (
        "db_edit_list",
        edits({"action": "remove", "ref": "line_9"}, {"action": "move", "path": [1]}),
    ),
    ("db_edit_list", edits({"action": "remove", "path": [1]}) | {"token": "abcdefghijkl"}),
    ("db_edit_list", edits({"action": "add", "path": [1], "data": {"product": 5}})),
    ("db_edit_list", {**EDIT, "list": "tags", "edits": [{"action": "modify", "path": [1]}]}),
]

# what is about drafts
OF_DRAFT: list[tuple[str, Named]] = [
    ("db_read", named("gen_order_9")),
    ("db_read", named("gen_order_2")),
    ("db_read", {"table": "orders", "drafts": True, "columns": ["count(*)"]}),
    ("db_read", semantic("stale")),
    ("db_read", semantic("circle")),
    ("db_create", {"table": "orders", "from_draft": ["gen_order_1", "gen_order_2"]}),
    ("db_create", {"table": "orders", "from_draft": ["gen_order_3", "gen_order_1"]}),
    ("db_create", {"table": "lines", "data": {"order_id": "gen_order_1", "product": "a"}}),
    ("db_create", {"table": "shelves", "data": {}, "draft": True}),
    ("db_create", {"table": "orders", "from_draft": "gen_order_1", "draft": True}),
    ("db_update", {**named("gen_order_1", "order_1"), "data": {"count": 1}}),
    ("db_update", {**named("gen_order_1"), "data": {"extra": "x" * 300_000}}),
    ("db_update", {**named("gen_order_1"), "data": {"count": 1}, "expect": "Other"}),
    ("db_edit_list", {**EDIT, "row": "gen_order_1", "edits": [{"action": "remove", "path": [9]}]}),
]


# what is asked for with refs: each row's label, or what tells it from another of that label
ASKED: list[tuple[str, Named]] = [
    ("db_read", {"table": "orders", "columns": ["title"]}),
    ("db_update", {**named("order_1"), "data": {"count": 1}}),
    ("db_update", {**named("order_1"), "data": {"count": 1}, "expect": "First"}),
    ("db_update", {**UPDATE, "filters": by("title", "First")}),
    (
        "db_update",
        {**UPDATE, "filters": [{"field": "title", "op": "is_null"}], "expect": {"count": 9}},
    ),
]


def campaign() -> Iterator[tuple[str, Named]]:
    """Yield bad calls of every kind, and each column with what it does not take."""
    yield from CALLS
    yield "db_query", {"sql": "select 1; select 2"}
    yield "db_query", {"sql": "select id from orders"}
    columns = [
        (name, each.key) for name, model in MODELS.items() for each in inspect(model).column_attrs
    ]
    for (table, column), value in itertools.product(columns, JUNK):
        yield "db_create", {"table": table, "data": {column: value}}
        yield ("db_update", {"table": table, "filters": by(column, value), "data": {"x": 1}})
    for (table, column), op in itertools.product(columns, get_args(Operator)):
        yield ("db_read", {"table": table, "limit": 0, "filters": by(column, {}, op)})
    for (table, column), function in itertools.product(columns, ("sum", "min", "median", "count")):
        asked = {"table": table, "columns": [f"{function}({column})", column], "order_by": column}
        yield "db_read", {**asked, "limit": 0}
    yield from (("db_read", {"table": t, "limit": 0, "order_by": c}) for t, c in columns)


@pytest.fixture
def shop(tables: Engine, session: RefSession, conversation: Conversation) -> RefSession:
    """A session in a conversation that has met the shop's rows, some of them gone, and drafts."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        ann = Customer(name="Ann")
        first = Order(title="First", customer=ann, tags=["a"])
        first.lines = [Line(position=n, product=f"item {n}") for n in (1, 2)]
        second = Order(title="Second", customer=ann)
        second.lines = [Line(product="a"), Line(product="b")]
        gone, lost, twin = (Order(title=title) for title in ("Gone", "Lost", "First"))
        plain.add_all([first, second, gone, lost, twin])
        plain.flush()
        first.follows_id, second.follows_id = second.id, first.id
        plain.commit()
        refs = conversation.refer_all(
            Order, [each.id for each in (first, second, gone, lost, twin)]
        )
        conversation.refer_all(Line, [each.id for each in (*first.lines, *second.lines)])
        conversation.refer(Customer, ann.id)
        assert refs == ["order_1", "order_2", "order_3", "order_4", "order_5"]
        plain.delete(gone)
        plain.execute(text("delete from shop_orders where title = 'Lost'"))
        plain.commit()
    for title in ("First draft", "Second", "Third"):
        conversation.draft(Order, {"title": title, "lines": [{"product": "a"}]})
    conversation.discard_drafts(["gen_order_2"])
    session.add(session.get_one(Order, "gen_order_3"))
    session.commit()
    return session


def told(session: RefSession, calls: Iterator[tuple[str, Named]], **options: Any) -> Told:
    """Return the errors that bad calls are answered with."""
    toolset = Toolset(
        MODELS,
        hooks={Order: [Raises()]},
        verbs={Customer: ["create", "delete"]},
        max_written=20,
        limits=Limits(seconds=0.5),
        sql=True,
        **options,
    )
    answers = (toolset.call(session, tool, given) for tool, given in calls)
    return [answer["error"] for answer in answers if "error" in answer]


def codes_of_page() -> set[str]:
    """Return the codes of errors that the page lists."""
    part = PAGE.read_text().split("\n## Codes\n")[1]
    return set(re.findall(r"^\| `([a-z_]+)` \|", part, re.MULTILINE))


def others_in(text: str) -> list[str]:
    """Return what is of other tables than the shop's in a text that a model reads."""
    refs = [found[0] for found in REF.finditer(text) if found[1] not in ENTITIES]
    return refs + OTHERS.findall(text)


@pytest.mark.parametrize("options", [{}, {"drafts": False}])
def test_definitions_and_descriptions_are_in_the_words_of_the_shop(options: Named) -> None:
    """In all forms, with whatever may be done to which tables."""
    for models in (MODELS, {"customers": Customer}, {"shelves": Shelf}):
        for read_only in ([], list(models.values())):
            toolset = Toolset(models, read_only=read_only, **options)
            texts = [toolset.describe(), *(json.dumps(toolset.schemas(form)) for form in FORMS)]
            for each in texts:
                assert others_in(each) == []
                own = each.replace("json-schema.org/draft", "")
                assert not (options and OF_DRAFTS.search(own))


@pytest.mark.slow
def test_errors_are_in_the_words_of_the_shop(shop: RefSession) -> None:
    """Of every kind that there is."""
    errors = told(shop, itertools.chain(campaign(), OF_DRAFT), expect="optional")
    errors += told(shop, iter(ASKED))

    assert {each["code"] for each in errors} == codes_of_page()
    assert [each for each in errors if others_in(json.dumps(each))] == []


@pytest.mark.slow
def test_errors_without_drafts_have_no_word_of_them(shop: RefSession) -> None:
    """Of every kind that there is then."""
    errors = told(shop, campaign(), drafts=False, expect="optional")
    errors += told(shop, iter(ASKED), drafts=False)

    assert [each for each in errors if OF_DRAFTS.search(json.dumps(each))] == []
    ours = {each for each in codes_of_page() if "draft" not in each}
    assert ours - {each["code"] for each in errors} == set()


@pytest.mark.slow
def test_no_literal_of_the_package_names_a_row_of_anybody() -> None:
    """Examples in messages are made of the application's names; docstrings alone have others."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {literal!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, literal in _literals(ast.parse(path.read_text()))
        if OTHERS.search(literal) or REF.search(literal)
    ]
    assert found == []


def _literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts in a module that are no docstrings, with the lines that they are in."""
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in loose
        ):
            yield node.lineno, node.value
