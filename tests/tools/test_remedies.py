"""What an answer says to do can be done, by a model, with the tools that it has."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey
from sqlalchemy.ext.declarative import ConcreteBase
from sqlalchemy.orm import DeclarativeBase, Mapped, configure_mappers, mapped_column, relationship

from alfred_refs import Conversation, RefPolicy, RefRegistry, RefSession, SetupError
from alfred_refs.tools import Toolset
from alfred_refs.tools.tables import Verb
from tests.tools.conftest import Call, by, save


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Box(Base):
    """What items are in."""

    __tablename__ = "crates"

    id: Mapped[int] = mapped_column(primary_key=True)


class Part(Base):
    """Has a key that people chose, and that a model sees as a ref."""

    __tablename__ = "crate_parts"

    code: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(server_default="")


class Tag(Base):
    """Refers to a box by a value of it, twice by one column."""

    __tablename__ = "crate_tags"

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str | None] = mapped_column(ForeignKey("crate_labels.text"))

    of: Mapped[Text | None] = relationship(foreign_keys=label)
    also_of: Mapped[Text | None] = relationship(foreign_keys=label, overlaps="of")


class Text(Base):
    """Is referred to by its text."""

    __tablename__ = "crate_labels"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str | None] = mapped_column(unique=True)


class Shape(ConcreteBase, Base):
    """Is read together with its subclasses."""

    __tablename__ = "crate_shapes"

    id: Mapped[int] = mapped_column(primary_key=True)

    __mapper_args__ = {"polymorphic_identity": "shape", "concrete": True}  # noqa: RUF012


class Disc(Shape):
    """Has a table of its own."""

    __tablename__ = "crate_discs"

    id: Mapped[int] = mapped_column(primary_key=True)

    __mapper_args__ = {"polymorphic_identity": "disc", "concrete": True}  # noqa: RUF012


class Item(Base):
    """Refers to a box by its key, so that it cannot be moved."""

    __tablename__ = "crate_items"

    box_id: Mapped[int] = mapped_column(ForeignKey("crates.id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Slip(Base):
    """Refers to a box by a column that can be changed."""

    __tablename__ = "crate_notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    box_id: Mapped[int] = mapped_column(ForeignKey("crates.id"))

    box: Mapped[Box] = relationship(foreign_keys=box_id)
    also_box: Mapped[Box] = relationship(foreign_keys=box_id, overlaps="box")


IS = {"field": "name", "op": "=", "value": "Dal"}
MOVE = "let those refer to something else"


@pytest.mark.parametrize(
    ("model", "verbs", "remedy"),
    [
        (Item, ["create", "update", "delete"], "delete those, first"),
        (Item, ["create", "update"], "those are not yours to change, so leave the row as it is"),
        (Slip, ["create", "update", "delete"], f"delete those, or {MOVE}, first"),
        (Slip, ["update"], f"{MOVE}, first"),
        (Slip, ["create", "delete"], "delete those, first"),
    ],
)
def test_the_remedy_for_rows_in_the_way_is_one_that_the_model_has(
    session: RefSession, tables: Engine, model: type[Any], verbs: list[Verb], remedy: str
) -> None:
    """By what it may do to them, and by whether it may write what they refer to."""
    Base.metadata.create_all(tables)
    save(tables, Box(id=1), Item(box_id=1, place=1) if model is Item else Slip(id=1, box_id=1))
    toolset = Toolset([Box, model], verbs={model: verbs}, expect="optional")
    row = toolset.call(session, "db_read", {"table": "crates"})["rows"][0]
    filters = by("id", row["id"])
    asked = {"table": "crates", "filters": filters}
    error = toolset.call(session, "db_delete", asked)["error"]

    assert (error["code"], error["referring"]) == ("still_referenced", model.__tablename__)
    assert error["message"].endswith(f"; {remedy}")


@pytest.mark.parametrize("given", ["DESC", ["asc", "DESC"], 3])
def test_a_field_of_another_shape_has_the_name_that_was_given(call: Call, given: object) -> None:
    """And none of the types that it may have."""
    error = call("db_read", table="dishes", order_by=["name", "id"], order_dir=given)["error"]

    assert error["code"] == "invalid_arguments"
    assert error["field"].split(".")[0] == "order_dir"
    assert "literal" not in error["field"]


@pytest.mark.parametrize(
    ("path", "column"), [("tags.title", "tags"), ("cuisine_id.name", "cuisine_id")]
)
def test_a_path_that_begins_with_a_column_is_told_so(call: Call, path: str, column: str) -> None:
    """The column is there, and is not said to be unknown."""
    error = call("db_read", table="dishes", columns=[path])["error"]

    assert error["field"] == "columns"
    assert f"{column!r} is a column and leads to no rows" in error["message"]


def test_an_unknown_draft_is_to_be_created_with_data(call: Call) -> None:
    """No tool reads drafts by themselves, or generates one."""
    error = call("db_create", table="dishes", from_draft="gen_dish_9")["error"]

    assert error["code"] == "unknown_draft"
    assert error["message"].endswith("create the row with data instead")


def test_an_unknown_column_of_an_order_offers_such_as_have_one(call: Call) -> None:
    """Not those of refs or documents."""
    error = call("db_read", table="dishes", order_by="nam")["error"]

    assert error["code"] == "unknown_column"
    assert "name" in error["columns"]
    assert not {"extra", "cuisine_id", "id"} & {*error["columns"]}


@pytest.mark.parametrize("name", ["unknown", ["db_read"], {}, None])
@pytest.mark.usefixtures("dishes")
def test_whatever_is_called_that_is_no_tool_is_told(
    toolset: Toolset, session: RefSession, name: Any
) -> None:
    """With those that are."""
    error = toolset.call(session, name, {})["error"]
    assert error["code"] == "unknown_tool"
    assert "db_read" in error["message"]


@pytest.mark.parametrize(
    "filter_",
    [{"and": [IS], "or": [IS]}, {"not": IS, **IS}, {"or": [{"and": [IS], "field": "name"}]}],
)
def test_two_filters_in_one_object_are_told(call: Call, filter_: Any) -> None:
    """There is such a field, and it stands in the wrong place."""
    error = call("db_read", table="dishes", filters=[filter_])["error"]
    assert error["code"] == "invalid_arguments"
    assert "one object has two filters; put each into one of its own" in error["message"]


def test_the_row_that_is_wrong_is_told(call: Call) -> None:
    """Of several; of one there is no need."""
    rows = [{"name": "Dal"}, {"name": "Naan", "servings": "many"}, {"servings": "few"}]
    several = call("db_create", table="dishes", data=rows)["error"]
    assert (several["row"], several["field"]) == (2, "servings")
    assert several["message"].startswith("row 2: ")
    assert "row" not in call("db_create", table="dishes", data=rows[1:2])["error"]
    missing = call("db_create", table="cuisines", data=[{"name": "Thai"}, {}])["error"]
    assert (missing["code"], missing["row"]) == ("missing_value", 2)


@pytest.mark.filterwarnings("ignore:Column 'crate_parts.code'")
def test_what_a_model_cannot_give_is_not_asked_for(tables: Engine) -> None:
    """Of a key that it sees as a ref alone, it cannot say what it is to be."""
    Base.metadata.create_all(tables)
    policy = RefPolicy(key_types=("uuid", "integer", "string"))
    conversation = RefRegistry(tables, policy=policy).conversation("parts")
    with RefSession(tables, conversation=conversation) as session:
        toolset = Toolset([Part], policy=policy, expect="optional")
        asked = {"table": "crate_parts", "data": {"name": "lid"}}
        error = toolset.call(session, "db_create", asked)["error"]
    assert (error["code"], error["columns"]) == ("missing_value", ["code"])
    assert error["message"].endswith("such rows cannot be written with this tool")


def test_a_draft_that_nobody_knows_is_no_row(call: Call) -> None:
    """Where rows are asked for, nothing is to be created."""
    error = call("db_read", table="dishes", filters=[{**IS, "field": "id", "value": "gen_dish_9"}])
    assert error["error"]["message"].endswith("use the ref of a row instead")


def test_a_value_that_others_refer_to_is_still_referenced(
    session: RefSession, tables: Engine
) -> None:
    """By an update, too: it is not the row that refers to what is not there."""
    Base.metadata.create_all(tables)
    save(tables, Text(text="x"), Tag(label="x"))
    toolset = Toolset([Text, Tag], expect="optional")
    row = toolset.call(session, "db_read", {"table": "crate_labels"})["rows"][0]
    by_id = by("id", row["id"])
    asked = {"table": "crate_labels", "filters": by_id, "data": {"text": "y"}}
    assert toolset.call(session, "db_update", asked)["error"]["code"] == "still_referenced"


def test_two_relationships_on_one_column_say_the_same(
    session: RefSession, tables: Engine, conversation: Conversation
) -> None:
    """Else one of them would be dropped."""
    Base.metadata.create_all(tables)
    save(tables, Text(text="x"), Text(text="y"), Box(id=1), Box(id=2))
    toolset = Toolset([Text, Tag, Box, Slip], expect="optional")
    toolset.call(session, "db_read", {"table": "crate_labels"})
    toolset.call(session, "db_read", {"table": "crates"})
    for number, is_stored in ((2, False), (1, True), (None, True)):
        for model, entity, one, other in (
            (Tag, "text", "of", "also_of"),
            (Slip, "box", "box", "also_box"),
        ):
            also = None if number is None else f"{entity}_{number}"
            draft = conversation.draft(model, {one: f"{entity}_1", other: also})
            asked = {"table": model.__tablename__, "from_draft": draft.ref}
            assert ("error" not in toolset.call(session, "db_create", asked)) is is_stored


def test_a_concrete_class_that_is_read_from_a_union() -> None:
    """The error says what to do: other rows have equal keys, and no row can be locked."""
    configure_mappers()
    for models in ([Shape], [Shape, Disc]):
        with pytest.raises(SetupError, match=r"^rows of 'Shape' .* list the subclasses instead$"):
            Toolset(models, read_only=models, expect="optional")
    with pytest.raises(SetupError, match="cannot be locked"):
        Toolset([Disc], expect="optional")
    Toolset([Disc], verbs={Disc: ["create"]}, expect="optional")


def test_rows_of_a_union_are_counted_by_their_conditions(
    session: RefSession, tables: Engine
) -> None:
    """SQLAlchemy alone would count the rows of a cartesian product."""
    Base.metadata.create_all(tables)
    save(tables, Disc(id=1), Disc(id=2), Disc(id=3))
    toolset = Toolset([Disc], read_only=[Disc])
    toolset.call(session, "db_read", {"table": "crate_discs"})
    filters = [{"field": "id", "op": "!=", "value": "disc_1"}]
    asked = {"table": "crate_discs", "columns": ["count(*)"], "filters": filters}

    assert toolset.call(session, "db_read", asked)["totals"] == [{"count(*)": 2}]


def test_a_total_that_no_column_has_is_left_out(call: Call) -> None:
    """Paths lead to no totals: where the table itself has no such column, none is offered."""
    columns = ["sum(dishes.price)", "count(*)"]
    error = call("db_read", table="cuisines", columns=columns)["error"]
    assert (error["code"], error["columns"]) == ("unknown_column", [])
    assert error["message"].endswith("; leave it out: it has none")
    assert "error" not in call("db_read", table="cuisines", columns=columns[1:])
