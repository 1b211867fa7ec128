"""Classes that refs name in unusual ways: composite keys of UUIDs, joins, SELECTs, SQLModel."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, ForeignKeyConstraint, create_engine, join, select
from sqlalchemy.ext.declarative import AbstractConcreteBase
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, column_property, mapped_column
from sqlmodel import Field, SQLModel

from alfred_refs import SetupError
from alfred_refs.tools import BoundToolset, Toolset
from tests.tools.conftest import bound


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Tenant(Base):
    """Is a part of the key of documents."""

    __tablename__ = "uuid_tenants"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)


class Pair(Base):
    """Its key has two UUIDs, which defaults give."""

    __tablename__ = "uuid_pairs"

    one: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    two: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class Noted(Pair):
    """A joined subclass, whose table has the same names."""

    __tablename__ = "uuid_noted"

    one: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    two: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    __table_args__ = (ForeignKeyConstraint([one, two], [Pair.one, Pair.two]),)


class Renamed(Pair):
    """A joined subclass, whose table has other names."""

    __tablename__ = "uuid_renamed"

    first: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    second: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    note: Mapped[str | None]

    __table_args__ = (ForeignKeyConstraint([first, second], [Pair.one, Pair.two]),)


class Document(Base):
    """Its key has a UUID that the application gives."""

    __tablename__ = "uuid_documents"

    tenant_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("uuid_tenants.id"), primary_key=True)
    document_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str]


class Page(Base):
    """Belongs to a document, by both parts of its key."""

    __tablename__ = "uuid_pages"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class Joined(Base):
    """A row of two tables."""

    __table__ = join(Page.__table__, Pair.__table__, Page.__table__.c.id == Pair.__table__.c.one)
    id = column_property(Page.__table__.c.id, Pair.__table__.c.one)
    two = Pair.__table__.c.two
    __mapper_args__ = {"exclude_properties": ["name"]}  # noqa: RUF012


class Selected(Base):
    """Rows of a SELECT from the table of another class."""

    __table__ = select(Page.__table__).subquery("selected")
    __mapper_args__ = {"primary_key": [__table__.c.id]}  # noqa: RUF012


class Uncovered(SQLModel, table=True):
    """A table without the mixin."""

    __tablename__ = "uuid_bare"

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class BareKey(SQLModel):
    """A model without the mixin, which has a key."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)


class Inheriting(BareKey, table=True):
    """A table whose key is in a base class."""

    __tablename__ = "uuid_inheriting"


@pytest.fixture
def desk() -> BoundToolset:
    """Tools on a database in memory with one pair and one tenant."""
    engine: Engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Pair(name="first"), Tenant()])
        plain.commit()
    return bound(Toolset([Pair, Tenant, Document, Noted, Renamed], expect="optional"), engine)


def call(desk: BoundToolset, tool: str, table: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool."""
    answer = desk.call("chat", None, tool, {"table": table, **arguments})
    assert not answer.failed, answer.text
    return answer.value


def test_a_row_shows_one_ref_of_its_own(desk: BoundToolset) -> None:
    """By that it is found, changed and deleted; the parts of its key are not shown."""
    [row] = call(desk, "db_read", "uuid_pairs")["rows"]
    assert row == {"_ref": row["_ref"], "name": "first"}

    filters = [{"field": "_ref", "op": "=", "value": row["_ref"]}]
    [changed] = call(desk, "db_update", "uuid_pairs", filters=filters, data={"name": "x"})["rows"]
    assert changed == {"_ref": row["_ref"], "name": "x"}
    assert call(desk, "db_delete", "uuid_pairs", filters=filters)["count"] == 1


def test_tools_make_such_rows(desk: BoundToolset) -> None:
    """By the class's defaults, and by random UUIDs where there are none: two rows are two."""
    [made] = call(desk, "db_create", "uuid_pairs", data={"name": "second"})["rows"]
    assert made["name"] == "second"
    [tenant] = call(desk, "db_read", "uuid_tenants")["rows"]
    records = [{"name": name, "tenant_id": tenant["id"]} for name in ("a", "b")]
    documents = call(desk, "db_create", "uuid_documents", data=records)["rows"]

    assert [{*each} for each in documents] == [{"_ref", "tenant_id", "name"}] * 2
    assert len({each["_ref"] for each in documents}) == 2
    found = call(desk, "db_read", "uuid_documents", order_by="name")["rows"]
    assert found == documents


@pytest.mark.parametrize("table", ["uuid_noted", "uuid_renamed"])
def test_so_do_rows_of_a_joined_subclass(desk: BoundToolset, table: str) -> None:
    """Whatever the parts of the key are called in its table; they are not shown."""
    [made] = call(desk, "db_create", table, data={"name": "second", "note": "n"})["rows"]
    assert made == {"_ref": "pair_1", "name": "second", "note": "n"}

    filters = [{"field": "_ref", "op": "=", "value": "pair_1"}]
    [changed] = call(desk, "db_update", table, filters=filters, data={"note": "x"})["rows"]
    assert call(desk, "db_read", table)["rows"] == [changed] == [{**made, "note": "x"}]


def test_the_description_has_no_rule_about_hidden_parts(desk: BoundToolset) -> None:
    """Several documents may be of one tenant."""
    description = desk.describe()

    assert "document_id" not in description
    assert "unique" not in description


@pytest.mark.parametrize(
    ("models", "verbs"),
    [([Page, Selected], {Selected: []}), ({"pages": Page, "joined": Joined}, {Joined: []})],
)
def test_a_class_that_shares_the_refs_of_another_is_refused(models: Any, verbs: Any) -> None:
    """A ref of it would name a row of the other class; the error says what to do."""
    with pytest.raises(SetupError, match=r"shares refs such as 'page_1' with 'Page'.*list one"):
        Toolset(models, verbs=verbs)


@pytest.mark.parametrize("strict", [False, True])
def test_a_class_that_selects_from_the_tables_of_its_subclasses_is_refused(strict: bool) -> None:
    """Rows of two tables would have one ref, which names one of them."""

    class Zoo(DeclarativeBase):
        pass

    class Animal(AbstractConcreteBase, Zoo):
        strict_attrs = strict
        id: Mapped[int] = mapped_column(primary_key=True)

    class Cat(Animal):
        __tablename__ = "uuid_cats"
        __mapper_args__ = {"polymorphic_identity": "cat", "concrete": True}  # noqa: RUF012
        id: Mapped[int] = mapped_column(primary_key=True)

    class Dog(Animal):
        __tablename__ = "uuid_dogs"
        __mapper_args__ = {"polymorphic_identity": "dog", "concrete": True}  # noqa: RUF012
        id: Mapped[int] = mapped_column(primary_key=True)

    Zoo.registry.configure()
    for models in ({"animals": Animal}, {"animals": Animal, "cats": Cat, "dogs": Dog}):
        with pytest.raises(SetupError, match=r"^rows of .*Animal.*; list the subclasses instead$"):
            Toolset(models, read_only=[Animal])

    assert "dog ref" in Toolset([Cat, Dog]).describe()


@pytest.mark.parametrize("models", [[Selected], {"joined": Joined}])
def test_it_is_read_without_the_other_class(models: Any) -> None:
    """Its refs are clear then."""
    [model] = models.values() if isinstance(models, dict) else models

    assert "page ref" in Toolset(models, verbs={model: []}).describe()


def test_a_join_needs_a_name() -> None:
    """It has none of its own."""
    with pytest.raises(SetupError, match=r"'Joined' is mapped to a join.*name it"):
        Toolset([Joined])


def test_classes_of_sqlmodel_need_the_mixin() -> None:
    """All of them are named at once, each with the class that has the key."""
    with pytest.raises(SetupError) as caught:
        Toolset([Uncovered, Inheriting])

    assert "class Uncovered(alfred_refs.RefModel, ...)" in str(caught.value)
    assert "class BareKey(alfred_refs.RefModel, ...)" in str(caught.value)
