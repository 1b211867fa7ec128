"""The shop's own code and data, out of a checkout, and its objects as rows and back.

shop = Shop(Path("tau2-bench"))
fill(session, shop.data)                      # rows of its objects
state = dumped(session)                       # the same objects out of the rows
shop.do(state, "cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
put(session, state)                           # what has changed, into the rows
"""

from __future__ import annotations

import importlib.util
import json
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from evals.tau2.models import (
    Fulfillment,
    Item,
    Order,
    OrderItem,
    Payment,
    PaymentMethod,
    Product,
    User,
)

State = dict[str, Any]
"""The shop's objects as it has them in JSON: products, users and orders, by their ids."""

_SPACE: Final = uuid.UUID("7a020000-0000-4000-a000-000000000000")

# of an order, by our names, those fields that name an item or a payment method
_LISTS: Final = ("exchange_items", "exchange_new_items", "return_items")
_METHODS: Final = ("exchange_payment_method_id", "return_payment_method_id")
_PLAIN: Final = ("address", "status", "cancel_reason", "exchange_price_difference")


def key_of(kind: str, code: str) -> uuid.UUID:
    """Return the key of one of the shop's objects."""
    return uuid.uuid5(_SPACE, f"{kind} {code}")


class Shop:
    """The retail domain of a checkout.

    Args:
        checkout: of tau2-bench.

    Raises:
        FileNotFoundError: it is none.
    """

    def __init__(self, checkout: Path) -> None:
        data = checkout / "data" / "tau2" / "domains" / "retail"
        code = checkout / "src" / "tau2" / "domains" / "retail"
        self.data: State = json.loads((data / "db.json").read_text("utf-8"))
        self.tasks: list[Any] = json.loads((data / "tasks.json").read_text("utf-8"))
        with _framework():
            self._model: Any = _module("tau2.domains.retail.data_model", code / "data_model.py")
            self._tools: Any = _module("tau2.domains.retail.tools", code / "tools.py")

    def do(self, state: State, tool: str, arguments: Mapping[str, Any]) -> State:
        """Return what objects are once one of the shop's own tools was called on them.

        Raises:
            ValueError: the shop refuses it.
        """
        database = self._model.RetailDB.model_validate(state)
        getattr(self._tools.RetailTools(database), tool)(**arguments)
        return plain(database.model_dump(mode="json"))


def plain(state: State) -> State:
    """Return objects without fields that have no value, which the data leaves out."""
    orders = {
        number: {name: value for name, value in order.items() if value is not None}
        for number, order in state["orders"].items()
    }
    return {**state, "orders": orders}


@contextmanager
def _framework() -> Iterator[None]:
    """Stand in for what the shop's two modules import of its framework, which they do not use."""
    names = ["tau2", "tau2.environment", "tau2.domains", "tau2.domains.retail"]
    made = {name: ModuleType(name) for name in names}
    made |= {
        "tau2.environment.db": _with(DB=BaseModel),
        "tau2.environment.toolkit": _with(
            ToolKitBase=_ToolKit,
            ToolType=SimpleNamespace(READ="", WRITE="", THINK="", GENERIC=""),
            is_tool=lambda *_, **__: lambda function: function,
        ),
        "tau2.domains.retail.utils": _with(RETAIL_DB_PATH=None),
        "tau2.domains.retail.data_model": ModuleType("data_model"),
        "tau2.domains.retail.tools": ModuleType("tools"),
    }
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


class _ToolKit:
    def __init__(self, db: Any) -> None:
        self.db = db


def _with(**values: Any) -> ModuleType:
    module = ModuleType("stand_in")
    vars(module).update(values)
    return module


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(session: Session, state: State) -> None:
    """Write the shop's objects into empty tables."""
    for code, product in state["products"].items():
        key = key_of("product", code)
        session.add(Product(id=key, code=code, name=product["name"]))
        for item in product["variants"].values():
            values = {name: item[name] for name in ("options", "available", "price")}
            item_key = key_of("item", item["item_id"])
            session.add(Item(id=item_key, code=item["item_id"], product_id=key, **values))
    session.flush()
    places = {number: n for u in state["users"].values() for n, number in enumerate(u["orders"])}
    for code, user in state["users"].items():
        key = key_of("user", code)
        given = {**user["name"], "email": user["email"], "address": user["address"]}
        session.add(User(id=key, code=code, **given))
        for method in user["payment_methods"].values():
            values = {name: value for name, value in method.items() if name != "id"}
            method_key = key_of("payment_method", method["id"])
            session.add(PaymentMethod(id=method_key, code=method["id"], user_id=key, **values))
    session.flush()
    for number, order in state["orders"].items():
        key, user_key = key_of("order", number), key_of("user", order["user_id"])
        made = Order(id=key, number=number, user_id=user_key, place=places[number])
        session.add(made)
        _put_order(made, order)
        made.fulfillments = [
            Fulfillment(
                place=place,
                tracking_id=each["tracking_id"],
                item_ids=[key_of("item", code) for code in each["item_ids"]],
            )
            for place, each in enumerate(order["fulfillments"])
        ]
    session.flush()


def put(session: Session, state: State) -> None:
    """Put into rows what a tool may change: addresses, balances, and orders."""
    for code, user in state["users"].items():
        row = session.get_one(User, key_of("user", code))
        row.address = user["address"]
        for method in row.payment_methods:
            method.balance = user["payment_methods"][method.code].get("balance")
    for number, order in state["orders"].items():
        _put_order(session.get_one(Order, key_of("order", number)), order)
    session.flush()


def _put_order(row: Order, order: State) -> None:
    for name in _PLAIN:
        setattr(row, name, order.get(name))
    for name in _LISTS:
        codes = order.get(name)
        setattr(row, name, None if codes is None else [key_of("item", code) for code in codes])
    for name in _METHODS:
        code = order.get(name)
        setattr(row, name, None if code is None else key_of("payment_method", code))
    for place, item in enumerate(order["items"]):
        if place == len(row.items):
            row.items.append(OrderItem(place=place))
        line = row.items[place]
        line.name, line.price, line.options = item["name"], item["price"], item["options"]
        line.product_id = key_of("product", item["product_id"])
        line.item_id = key_of("item", item["item_id"])
    for place, payment in enumerate(order["payment_history"]):
        if place == len(row.payment_history):
            row.payment_history.append(Payment(place=place))
        paid = row.payment_history[place]
        paid.transaction_type, paid.amount = payment["transaction_type"], payment["amount"]
        paid.payment_method_id = key_of("payment_method", payment["payment_method_id"])


def dumped(session: Session, user: uuid.UUID | None = None) -> State:
    """Return the shop's objects out of the rows: all, or one user's and the products."""
    products = session.scalars(select(Product).options(selectinload(Product.items))).all()
    codes = {each.id: each.code for each in products}
    codes |= {item.id: item.code for each in products for item in each.items}
    loaded = [
        selectinload(User.payment_methods),
        *(
            selectinload(User.orders).selectinload(each)
            for each in (Order.items, Order.payment_history, Order.fulfillments)
        ),
    ]
    chosen = select(User).options(*loaded)
    users = session.scalars(chosen if user is None else chosen.where(User.id == user)).all()
    codes |= {m.id: m.code for each in users for m in each.payment_methods}
    return {
        "products": {each.code: _product(each) for each in products},
        "users": {each.code: _user(each) for each in users},
        "orders": {o.number: _order(o, each.code, codes) for each in users for o in each.orders},
    }


def _product(row: Product) -> State:
    variants = {
        item.code: {
            "item_id": item.code,
            "options": item.options,
            "available": item.available,
            "price": item.price,
        }
        for item in row.items
    }
    return {"name": row.name, "product_id": row.code, "variants": variants}


def _user(row: User) -> State:
    methods = {
        each.code: {"id": each.code}
        | {
            name: value
            for name in ("source", "brand", "last_four", "balance")
            if (value := getattr(each, name)) is not None
        }
        for each in row.payment_methods
    }
    return {
        "user_id": row.code,
        "name": {"first_name": row.first_name, "last_name": row.last_name},
        "address": row.address,
        "email": row.email,
        "payment_methods": methods,
        "orders": [each.number for each in row.orders],
    }


def _order(row: Order, user: str, codes: Mapping[uuid.UUID, str]) -> State:
    named = {name: getattr(row, name) for name in (*_PLAIN, *_LISTS, *_METHODS)}
    fields = {
        name: [codes[key] for key in value]
        if name in _LISTS
        else codes[value]
        if name in _METHODS
        else value
        for name, value in named.items()
        if value is not None
    }
    return fields | {
        "order_id": row.number,
        "user_id": user,
        "items": [
            {
                "name": each.name,
                "product_id": codes[each.product_id],
                "item_id": codes[each.item_id],
                "price": each.price,
                "options": each.options,
            }
            for each in row.items
        ],
        "fulfillments": [
            {
                "tracking_id": each.tracking_id,
                "item_ids": [codes[key] for key in each.item_ids or ()],
            }
            for each in row.fulfillments
        ],
        "payment_history": [
            {
                "transaction_type": each.transaction_type,
                "amount": each.amount,
                "payment_method_id": codes[each.payment_method_id],
            }
            for each in row.payment_history
        ],
    }
