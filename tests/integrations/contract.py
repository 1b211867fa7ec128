"""What every adapter of an agents' framework must do; the tests of each inherit from it.

An agent is played: its model is the framework's own fake, which makes the calls of a script, a
turn after the other, and says "done". What it was sent is compared letter by letter, and searched
for every key of the shop.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session

from alfred_refs import SetupError
from alfred_refs.tools import BoundToolset
from tests.integrations import shop

Turn = Sequence[tuple[str, Any]]
"""Calls that a model makes at once: names of tools, and arguments."""


@dataclass
class Visit:
    """What a framework hands on to tools, where it hands on anything."""

    chat_id: str
    user_id: Any


@dataclass
class Played:
    """What a model was sent.

    Attributes:
        told: by turn, the result of each call, and whether it was marked as failed.
        tools: the schemas of the tools, by name.
        received: all of it as one text.
        raised: what ended the run.
    """

    told: list[list[tuple[str, bool]]] = field(default_factory=list)
    tools: dict[str, Any] = field(default_factory=dict)
    received: str = ""
    raised: Exception | None = None

    def texts(self) -> list[list[str]]:
        """Return the results alone."""
        return [[text for text, _ in turn] for turn in self.told]


Play = Callable[..., Any]

PRODUCTS = (
    '{"table":"products","rows":['
    '{"id":"product_1","category_id":"category_1","name":"Gyokuro 玉露","price":24.9,'
    '"_category_id_label":"tea"},'
    '{"id":"product_2","category_id":"category_2","name":"Großer Becher","price":8.0,'
    '"_category_id_label":"cups"}],"count":2,"more":false}'
)
ORDERS = (
    '{"table":"orders","rows":[{"id":"order_1","placed":"2026-11-24","note":"for Ada"}],'
    '"count":1,"more":false}'
)
NO_TABLE = {
    "code": "unknown_table",
    "message": "there is no table 'goods'; use one of 'customers', 'addresses', 'categories', "
    "'products', 'orders', 'order_lines'",
    "table": "goods",
    "tables": ["customers", "addresses", "categories", "products", "orders", "order_lines"],
}
_FITS = "the arguments do not fit the tool"
_LOOK = "look at its schema and call again"
NOT_JSON = {"code": "invalid_arguments", "message": f"{_FITS}: they are not valid JSON; {_LOOK}"}
NO_OBJECT = {"code": "invalid_arguments", "message": f"{_FITS}: they are not an object; {_LOOK}"}
NO_TABLE_GIVEN = {
    "code": "invalid_arguments",
    "message": f"{_FITS} at 'table': it is missing; {_LOOK}",
    "field": "table",
}
READ_PRODUCTS = ("db_read", {"table": "products"})
READ_ORDERS = ("db_read", {"table": "orders"})
READ_GOODS = ("db_read", {"table": "goods"})


class AdapterContract:
    """What an adapter must do, with synchronous and with asynchronous sessions.

    Attributes:
        side_by_side: whether the framework makes the calls of a turn at once.
    """

    side_by_side = True

    async def played(
        self, desk: BoundToolset, script: Sequence[Turn], visit: Visit, whose: Any = None
    ) -> Played:
        """Play an agent: the example's, if the sessions are synchronous.

        Args:
            desk: the tools.
            script: what the model calls.
            visit: who asks.
            whose: tells it, in the place of what the example has.
        """
        raise NotImplementedError

    def error(self, error: dict[str, Any]) -> str:
        """Return what the model is told of a mistake."""
        return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":"))

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema as the framework shows it to a model."""
        return schema

    @pytest.fixture(params=["shop_desk", "shop_async_desk"])
    def desk(self, request: pytest.FixtureRequest) -> BoundToolset:
        """The shop's tools, with both kinds of sessions."""
        desk: BoundToolset = request.getfixturevalue(request.param)
        return desk

    @pytest.fixture
    def play(self, desk: BoundToolset, shop_engine: Engine) -> Play:
        """Play a script for Ada or somebody else, and look for keys in what the model was sent."""

        async def play(
            script: Sequence[Turn], who: Any = shop.ADA, whose: Any = None, *, fails: bool = False
        ) -> Played:
            played = await self.played(desk, script, Visit(f"chat of {who}", who), whose)
            if played.raised is not None and not fails:
                raise played.raised
            with Session(shop_engine) as session:
                assert shop.keys_in(session, played.received) == []
            return played

        return play

    async def test_results_arrive_letter_by_letter(self, play: Play) -> None:
        """Text in any language, decimals and dates, as the tools' own JSON."""
        played = await play([[READ_PRODUCTS], [READ_ORDERS]])
        assert played.told == [[(PRODUCTS, False)], [(ORDERS, False)]]

    async def test_mistakes_do_not_end_a_run(self, play: Play) -> None:
        """The model is told each, however many there are, and goes on."""
        played = await play([*[[READ_GOODS]] * 6, [READ_ORDERS]])
        mistake = (self.error(NO_TABLE), True)
        assert played.told == [*[[mistake]] * 6, [(ORDERS, False)]]

    async def test_reads_of_one_turn_are_made_at_once(
        self, play: Play, shop_engine: Engine, desk: BoundToolset
    ) -> None:
        """If the framework makes them so; each has its result."""
        if self.side_by_side and not desk.is_async:  # a barrier would stop the event loop
            let_two_reads_meet(shop_engine)
        played = await play([[READ_PRODUCTS, READ_PRODUCTS]])
        assert played.told == [[(PRODUCTS, False)] * 2]

    async def test_writes_of_one_turn_are_made_in_order(
        self, play: Play, shop_engine: Engine
    ) -> None:
        """A later one may name what an earlier one has made, and the last value stays."""
        notes = [f"note {n}" for n in range(6)]
        one = [{"field": "id", "op": "=", "value": "order_1"}]
        create = {"table": "orders", "data": {"placed": "2026-11-25", "note": "new"}}
        updates = [{"table": "orders", "filters": one, "data": {"note": each}} for each in notes]
        turn = [("db_create", create), *(("db_update", each) for each in updates)]
        played = await play([turn])
        [answers] = played.texts()
        rows = [json.loads(each)["rows"][0] for each in answers]
        assert [(row["id"], row["note"]) for row in rows] == [
            ("order_1", note) for note in ["new", *notes]
        ]
        with Session(shop_engine) as session:
            stored = session.scalars(select(shop.Order.note).order_by(shop.Order.note)).all()
        assert stored == ["for Ada", "for Bob", notes[-1]]

    async def test_each_owner_is_told_of_their_own(self, play: Play) -> None:
        """Two at once, by one set of tools."""
        ada, bob = await asyncio.gather(play([[READ_ORDERS]]), play([[READ_ORDERS]], shop.BOB))
        assert ada.texts() == [[ORDERS]]
        assert bob.texts() == [[ORDERS.replace("Ada", "Bob")]]
        assert "Ada" not in bob.received

    async def test_a_crash_tells_the_model_nothing(self, play: Play, shop_engine: Engine) -> None:
        """A fault of the program's is none that a model could mend; nothing was written."""
        data = {"placed": "2026-11-25", "note": shop.CRASH}
        crash = ("db_create", {"table": "orders", "data": data})
        played = await play([[crash], [READ_ORDERS]], fails=True)
        for word in ("warehouse", "RuntimeError", "Traceback", "could not"):
            assert word not in played.received
        self.on_end(played)
        with Session(shop_engine) as session:
            assert shop.CRASH not in session.scalars(select(shop.Order.note)).all()

    def on_end(self, played: Played) -> None:
        """Check how a run ended in which something failed: by the exception."""
        assert played.told == []
        assert "could not reach the warehouse" in str(played.raised)
        assert str(shop.ADA) not in str(played.raised)

    async def test_schemas_arrive_as_they_are(self, play: Play, desk: BoundToolset) -> None:
        """No framework makes them strict, which would leave no room for the data of a row."""
        played = await play([[READ_ORDERS]])
        schemas = desk.schemas("mcp")
        assert played.tools == {each["name"]: self.schema(each["inputSchema"]) for each in schemas}
        assert list(played.tools["db_create"]["properties"]["data"]) != []

    async def test_whose_a_call_is_must_be_a_pair(self, play: Play) -> None:
        """Anything else is a mistake in the set-up, and ends the run."""
        played = await play([[READ_ORDERS]], whose=lambda _: "chat-7", fails=True)
        assert isinstance(root_of(played.raised), SetupError)
        assert "returned a str that is not a pair" in str(played.raised)


def let_two_reads_meet(engine: Engine) -> list[int]:
    """Let the first two reads of products wait for each other; return those that have met."""
    both = threading.Barrier(2)
    met: list[int] = []

    @event.listens_for(engine, "before_cursor_execute")
    def meet(*arguments: Any) -> None:
        if "FROM products" in arguments[2] and len(met) < 2:
            met.append(both.wait(10))

    return met


def root_of(error: BaseException | None) -> BaseException | None:
    """Return what an exception was raised from."""
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    return error
