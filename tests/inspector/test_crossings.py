"""The inspector with owners of several types, composite keys, and tables in another schema."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Integer, String, Uuid, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from starlette.testclient import TestClient

from alfred_refs import Ownership, RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Journal, Toolset
from tests.fix_postgres import DatabasePool
from tests.inspector.conftest import client_for, hidden_values, text_of

CHAT, OTHER = "fields", "others"


def plot_of(owner: Any) -> type[Any]:
    """Return a class with a composite key, whose owner's column has a type."""

    class Base(DeclarativeBase):
        """The base of one class."""

    class FieldPlot(Base):
        """Where a crop grows."""

        __tablename__ = "field_plots"
        __ref_label__ = "crop"

        row: Mapped[Any] = mapped_column(Integer, primary_key=True, autoincrement=False)
        column: Mapped[Any] = mapped_column(Integer, primary_key=True, autoincrement=False)
        farm: Mapped[Any] = mapped_column(owner)
        crop: Mapped[str]

    return FieldPlot


OWNERS: dict[str, tuple[Any, Any, Any]] = {
    "integer": (Integer(), 7, 70),
    "text": (String(), "O'Neill & <b>Söhne</b>?id=1", "o'neill"),
    "digits": (String(), "7", "07"),
    "uuid": (Uuid(), uuid.UUID(int=7), uuid.UUID(int=70)),
}
SCHEMAS = ["public", "estate", "public", "estate"]


@pytest.mark.parametrize(
    ("type_", "schema"), [(type_, schema) for type_, schema in zip(OWNERS, SCHEMAS, strict=True)]
)
def test_owners_of_any_type_and_tables_anywhere(
    garden_databases: DatabasePool, type_: str, schema: str | None
) -> None:
    """An operator sees and decides what is the owner's, in the schema of the desk's sessions."""
    column, owner, other = OWNERS[type_]
    plot = plot_of(column)
    with garden_databases.engine() as engine:
        there = engine.execution_options(schema_translate_map={None: schema})
        with engine.begin() as connection:
            connection.execute(text(f"create schema if not exists {schema}"))
        plot.metadata.create_all(there)
        with Session(there) as session, session.begin():
            session.add(plot(row=12, column=34, farm=owner, crop="Barley"))
            session.add(plot(row=56, column=78, farm=other, crop="Hops"))
        owned = Ownership({plot: "farm"})
        toolset = Toolset([plot], owner=owned, consent={plot: "all"}, expect="optional")
        sessions = sessionmaker(there, class_=RefSession)
        desk = toolset.bind(sessions, registry=RefRegistry(engine), journal=Journal())
        ask_to_delete(desk, CHAT, owner)
        ask_to_delete(desk, OTHER, other)

        ann = client_for(desk, "ann", owner)
        listed, waiting = ann.get("/").text, ann.get("/approvals").text
        assert (f"id={CHAT}" in listed, OTHER in listed) == (True, False)
        assert ("Barley" in waiting, "Hops" in waiting) == (True, False)
        assert ann.get("/conversation", params={"id": OTHER}).status_code == 404
        approve_and_undo(ann, CHAT, "(12, 34)")
        # the owner's text in the registry is all that is known
        root = client_for(desk, "root", ...)
        assert f"id={OTHER}" in root.post("/search", data={"q": str(other)}).text
        approve_and_undo(root, OTHER, "(56, 78)")
        with Session(there) as session:
            assert sorted(session.scalars(select(plot.crop))) == ["Barley", "Hops"]


def ask_to_delete(desk: BoundToolset, chat: str, owner: Any) -> None:
    """Have the model delete the only plot that it sees."""
    desk.call(chat, owner, "db_read", {"table": "field_plots"}, begin_turn=True)
    only = [{"field": "_ref", "op": "=", "value": "field_plot_1"}]
    answer = desk.call(chat, owner, "db_delete", {"table": "field_plots", "filters": only})
    assert answer.pending == 1, answer.text


def approve_and_undo(client: TestClient, chat: str, key: str) -> None:
    """Have the deletion done and undone; look at the row."""
    values = hidden_values(client.get("/call", params={"id": chat, "call": 1}).text, "approve")
    assert "The call was approved." in client.post("/approve", data=values).text
    planned = client.post("/undo", data={"id": chat, "call": 1}).text
    assert "The undo was done." in client.post("/undo", data=hidden_values(planned, "undo")).text
    assert key in text_of(client.post("/refs", data={"id": chat}).text)
    assert client.get("/prompt", params={"id": chat}).status_code == 200
