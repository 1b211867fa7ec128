"""Labels of rows whose key column has another Python type than the registry's keys."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, String, Uuid, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from sqlalchemy.types import TypeDecorator, TypeEngine

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import BoundToolset, Ref, Toolset


class Spelled(TypeDecorator[uuid.UUID]):
    """UUIDs that are stored as text without dashes."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: Any, _: Any) -> Any:
        """Return the text of a UUID."""
        return None if value is None else uuid.UUID(str(value)).hex

    def process_result_value(self, value: Any, _: Any) -> Any:
        """Return the UUID of a text."""
        return None if value is None else uuid.UUID(value)


# the type of the column -> what its values are in Python
TYPES: dict[str, tuple[TypeEngine[Any], Any]] = {
    "uuid": (Uuid(), uuid.uuid4),
    "text of a uuid": (Uuid(as_uuid=False), lambda: str(uuid.uuid4())),
    "custom": (Spelled(), uuid.uuid4),
}


@pytest.fixture(params=[(each, name) for each in TYPES for name in ("postgresql", "sqlite")])
def desk(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[BoundToolset]:
    """Tools on two pots, one of which has a plant, in a conversation that has read them."""
    kind, backend = request.param
    type_, new = TYPES[kind]

    class Base(DeclarativeBase):
        pass

    class Pot(Base):
        __tablename__ = "pots"
        __ref_label__ = "name"

        id: Mapped[Any] = mapped_column(type_, primary_key=True, default=new)
        name: Mapped[str]
        size: Mapped[int | None]

    class Plant(Base):
        __tablename__ = "plants"

        id: Mapped[Any] = mapped_column(type_, primary_key=True, default=new)
        pot_id: Mapped[Any] = mapped_column(ForeignKey("pots.id"))

    engine: Engine = (
        request.getfixturevalue("engine")
        if backend == "postgresql"
        else create_engine(f"sqlite:///{tmp_path / 'pots.db'}")
    )
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        large, small = Pot(name="large"), Pot(name="small")
        session.add_all([large, small])
        session.flush()
        session.add(Plant(pot_id=large.id))
    toolset = Toolset([Pot, Plant], sql=backend == "postgresql")

    def water(pot: Any) -> str:
        """Water a pot."""
        return f"watered {type(pot).__name__}"

    water.__annotations__["pot"] = Ref[Pot]  # a class of this function
    toolset.tool(water)
    made = toolset.bind(
        sessionmaker(engine, class_=RefSession), registry=RefRegistry(store=MemoryStore())
    )
    made.call("chat-7", None, "db_read", {"table": "pots", "order_by": ["name"]})
    yield made
    Base.metadata.drop_all(engine)
    engine.dispose()


BY_REF = [{"field": "id", "op": "=", "value": "pot_1"}]
UPDATE = {"table": "pots", "filters": BY_REF, "data": {"size": 3}}
CREATE = {"table": "plants", "data": {"pot_id": "pot_1"}}


@pytest.mark.parametrize(
    ("tool", "given", "label"),
    [
        ("db_update", UPDATE, {"expect": "large"}),
        ("db_delete", {"table": "pots", "filters": BY_REF}, {"expect": "large"}),
        ("db_create", CREATE, {"data": {"pot_id": "pot_1", "_pot_id_label": "large"}}),
        ("water", {"pot": "pot_1"}, {"_pot_label": "large"}),
    ],
)
def test_a_row_is_confirmed_by_its_label(
    desk: BoundToolset, tool: str, given: dict[str, Any], label: dict[str, Any]
) -> None:
    """A call without the label, or with a wrong one, does nothing and gets the label."""

    def answer(**changes: Any) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, {**given, **changes}).value

    error = answer()["error"]
    assert (error["code"], error["labels"]) == ("unconfirmed_ref", {"pot_1": "large"})
    wrong = {
        name: "small" if isinstance(value, str) else {**value, "_pot_id_label": "small"}
        for name, value in label.items()
    }
    assert answer(**wrong)["error"]["code"] == "unexpected_row"
    right = answer(**label)
    # the plant refers to the pot
    assert right.get("error", {}).get("code") in (None, "still_referenced")


def test_labels_of_refs_are_shown(desk: BoundToolset) -> None:
    """In rows, in groups, and in the answers of SELECTs."""

    def answer(tool: str, **given: Any) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, given).value

    [row] = answer("db_read", table="plants")["rows"]
    assert row["_pot_id_label"] == "large"
    [group] = answer("db_read", table="plants", columns=["pot_id", "count(*)"])["totals"]
    assert group["_pot_id_label"] == "large"
    if "db_query" in {each["name"] for each in desk.toolset.schemas("anthropic")}:
        labels = answer("db_query", sql="select pot_id from plants")["labels"]
        assert labels == {"pot_1": "large"}
