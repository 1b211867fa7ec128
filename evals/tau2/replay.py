"""Replay the gold actions of the retail tasks by refs, and compare what they leave.

    replayed(Path("tau2-bench"), engine)      # [Replay(task='0', is_same=True, actions=5, …), …]

The data says ids of the shop's; a ref stands in the place of each, as a model would have been
shown it. Reads are `db_read`; what is read is counted in tokens, with refs and with keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset
from benchmarks.json_size import compact, with_keys
from evals.tau2.models import Base, Item, Order, PaymentMethod, Product, User
from evals.tau2.shop import Shop, State, dumped, fill, key_of
from evals.tau2.tools import shop_tools
from evals.tokens import tokenizer

# what an argument names: the kind of its code, the class, and what it is called in our tools
_NAMED: Final[Mapping[str, tuple[str, type[Any], str]]] = {
    "order_id": ("order", Order, "order"),
    "user_id": ("user", User, "user"),
    "product_id": ("product", Product, "product"),
    "item_id": ("item", Item, "item"),
    "item_ids": ("item", Item, "items"),
    "new_item_ids": ("item", Item, "new_items"),
    "payment_method_id": ("payment_method", PaymentMethod, "payment_method"),
}

_ADDRESS: Final = ("address1", "address2", "city", "country", "state", "zip")

# of a read: the table, and what is shown inside of its rows
_READS: Final[Mapping[str, tuple[str, list[str]]]] = {
    "get_order_details": ("orders", ["items", "payment_history", "fulfillments"]),
    "get_user_details": ("users", ["payment_methods", "orders.number"]),
    "get_product_details": ("products", ["items"]),
    "get_item_details": ("items", []),
    "find_user_id_by_email": ("users", []),
    "find_user_id_by_name_zip": ("users", []),
}

_WRITES: Final = ("cancel", "exchange", "modify", "return")


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of one task.

    Attributes:
        task: its id.
        is_same: whether all objects are as the shop's own tools leave them.
        actions: that were replayed.
        with_refs: tokens of the answers.
        with_keys: tokens of the same with UUIDs.
    """

    task: str
    is_same: bool
    actions: int
    with_refs: int
    with_keys: int


def replayed(checkout: Path, engine: Engine) -> list[Replay]:
    """Replay all tasks, in an empty database.

    Raises:
        FileNotFoundError: there is no such checkout.
    """
    shop = Shop(checkout)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        fill(session, shop.data)
    sessions = sessionmaker(class_=RefSession, join_transaction_mode="create_savepoint")
    registry = RefRegistry(store=MemoryStore())
    desk = shop_tools(shop).bind(sessions, registry=registry, by=None)
    made = []
    for task in track(shop.tasks, "replaying", console=Console(stderr=True)):
        with engine.connect() as connection:
            sessions.configure(bind=connection)
            transaction = connection.begin()
            made.append(_Replayer(shop, desk, task).replay(Session(connection)))
            transaction.rollback()
    return made


class _Replayer:
    def __init__(self, shop: Shop, desk: BoundToolset, task: Mapping[str, Any]) -> None:
        self._shop = shop
        self._desk = desk
        self._id = str(task["id"])
        self._actions = task["evaluation_criteria"]["actions"] or []
        self._conversation: Conversation = desk.conversation(f"tau2-{self._id}", None)
        self._tokens = [0, 0]

    def replay(self, plain: Session) -> Replay:
        """Do all actions, and look what they leave."""
        state = self._shop.data
        for action in self._actions:
            name, arguments = action["name"], action["arguments"]
            if name in _READS:
                self._call("db_read", self._read(name, arguments))
            elif name.startswith(_WRITES):
                state, is_refused = _done(self._shop, state, name, arguments)
                answer = self._call(name, self._ours(arguments))
                if ("error" in answer) is not is_refused:
                    return Replay(self._id, False, len(self._actions), *self._tokens)
        with plain:
            is_same = dumped(plain) == state
        return Replay(self._id, is_same, len(self._actions), *self._tokens)

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self._desk.call(self._conversation.id, None, tool, arguments).value
        # some gold actions name what is not there
        if "error" not in answer:
            count = tokenizer()
            self._tokens[0] += count(compact(answer))
            self._tokens[1] += count(compact(with_keys(answer, self._conversation)))
        return answer

    def _read(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        table, inside = _READS[name]
        columns = [
            each.name
            for each in self._desk.toolset.tables.by_name(table).columns.values()
            if each.shown
        ]
        given = dict(arguments)
        given.pop("zip", None)  # it is inside of the address; names do
        filters = [
            {"field": "id", "op": "=", "value": value}
            if field not in given
            else {"field": field, "op": "ilike", "value": value}
            for field, value in self._named(given).items()
        ]
        return {"table": table, "columns": [*columns, *inside], "filters": filters}

    def _named(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with refs in place of the shop's ids, as our tools call them."""
        named: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in _NAMED:
                named[name] = value
                continue
            kind, model, ours = _NAMED[name]
            codes = value if isinstance(value, list) else [value]
            refs = self._conversation.refer_all(model, [key_of(kind, code) for code in codes])
            named[ours] = refs if isinstance(value, list) else refs[0]
        return named

    def _ours(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        named = self._named(arguments)
        address = {name: named.pop(name) for name in _ADDRESS if name in named}
        return named | ({"address": address} if address else {})


def _done(shop: Shop, state: State, tool: str, arguments: Mapping[str, Any]) -> tuple[State, bool]:
    """Return the state that the shop's own tool leaves, and whether it has refused."""
    order = state["orders"].get(arguments.get("order_id"))
    user = order["user_id"] if order else arguments.get("user_id")
    part = {
        "products": state["products"],
        "users": {user: state["users"][user]} if user in state["users"] else {},
        "orders": {n: each for n, each in state["orders"].items() if each["user_id"] == user},
    }
    try:
        changed = shop.do(part, tool, arguments)
    except ValueError:
        return state, True
    return {kind: state[kind] | changed[kind] for kind in state}, False


def lines(made: list[Replay]) -> Iterator[str]:
    """Yield what replays come to, in words."""
    same = sum(each.is_same for each in made)
    actions = sum(each.actions for each in made)
    refs, keys = sum(each.with_refs for each in made), sum(each.with_keys for each in made)
    yield f"{same} of {len(made)} tasks leave the shop as its own tools do; {actions} gold actions"
    yield f"tokens of answers (o200k_base): {refs:,} with refs, {keys:,} with UUIDs"
    for each in made:
        if not each.is_same:
            yield f"task {each.task} leaves another shop"
