"""The shop's tools as functions of an application: what is named, is named by refs.

A tool resolves its refs, and leaves what it does to the shop's own code, on objects made of the
rows of one customer; what has changed of these goes into the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from alfred_refs import RefSession
from alfred_refs.tools import Ref, ToolError, Toolset
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
from evals.tau2.shop import Shop, dumped, put

MODELS = (Product, Item, User, PaymentMethod, Order, OrderItem, Payment, Fulfillment)


def shop_tools(shop: Shop) -> Toolset:
    """Return the tools of a shop: rows are read, and written by its own tools alone."""
    hidden = [each.code for each in (Product, Item, User, PaymentMethod)]
    # the calls that are replayed have no labels
    toolset = Toolset(MODELS, read_only=MODELS, hidden=[*hidden, Order.place], expect="optional")

    @toolset.tool
    def cancel_pending_order(session: RefSession, order: Ref[Order], reason: str) -> Order:
        """Cancel a pending order and refund what was paid."""
        return _ordered(shop, session, "cancel_pending_order", order, reason=reason)

    @toolset.tool
    def exchange_delivered_order_items(
        session: RefSession,
        order: Ref[Order],
        items: list[Ref[Item]],
        new_items: list[Ref[Item]],
        payment_method: Ref[PaymentMethod],
    ) -> Order:
        """Exchange items of a delivered order, each for another of its product."""
        given = {"item_ids": items, "new_item_ids": new_items, "payment_method_id": payment_method}
        return _ordered(shop, session, "exchange_delivered_order_items", order, **given)

    @toolset.tool
    def modify_pending_order_items(
        session: RefSession,
        order: Ref[Order],
        items: list[Ref[Item]],
        new_items: list[Ref[Item]],
        payment_method: Ref[PaymentMethod],
    ) -> Order:
        """Put other items of the same products into a pending order."""
        given = {"item_ids": items, "new_item_ids": new_items, "payment_method_id": payment_method}
        return _ordered(shop, session, "modify_pending_order_items", order, **given)

    @toolset.tool
    def modify_pending_order_payment(
        session: RefSession, order: Ref[Order], payment_method: Ref[PaymentMethod]
    ) -> Order:
        """Have a pending order paid by another method."""
        given = {"payment_method_id": payment_method}
        return _ordered(shop, session, "modify_pending_order_payment", order, **given)

    @toolset.tool
    def modify_pending_order_address(
        session: RefSession, order: Ref[Order], address: dict[str, str]
    ) -> Order:
        """Send a pending order elsewhere."""
        return _ordered(shop, session, "modify_pending_order_address", order, **address)

    @toolset.tool
    def return_delivered_order_items(
        session: RefSession,
        order: Ref[Order],
        items: list[Ref[Item]],
        payment_method: Ref[PaymentMethod],
    ) -> Order:
        """Take items of a delivered order back."""
        given = {"item_ids": items, "payment_method_id": payment_method}
        return _ordered(shop, session, "return_delivered_order_items", order, **given)

    @toolset.tool
    def modify_user_address(session: RefSession, user: Ref[User], address: dict[str, str]) -> User:
        """Change the address of a customer."""
        key = _key(session, user)
        with _rows(session) as plain:
            code = plain.get_one(User, key).code
            _change(shop, plain, key, "modify_user_address", {"user_id": code, **address})
        return session.get_one(User, user, populate_existing=True)

    return toolset


def _ordered(
    shop: Shop, session: RefSession, tool: str, order: str, **given: str | Sequence[str]
) -> Order:
    """Have the shop do something to an order; texts in fields of ids are refs."""
    kinds: Mapping[str, type[Any]] = {
        "item_ids": Item,
        "new_item_ids": Item,
        "payment_method_id": PaymentMethod,
    }
    key = _key(session, order)
    with _rows(session) as plain:
        row = plain.get_one(Order, key)
        arguments: dict[str, Any] = {"order_id": row.number}
        for name, value in given.items():
            if name not in kinds:
                arguments[name] = value
            elif isinstance(value, str):
                arguments[name] = plain.get_one(kinds[name], _key(session, value)).code
            else:
                keys = [_key(session, each) for each in value]
                arguments[name] = [plain.get_one(kinds[name], each).code for each in keys]
        _change(shop, plain, row.user_id, tool, arguments)
    return session.get_one(Order, order, populate_existing=True)


def _rows(session: RefSession) -> Session:
    """Return a plain session in the transaction of another, to work with keys."""
    return Session(session.connection(), join_transaction_mode="create_savepoint")


def _key(session: RefSession, ref: str) -> Any:
    conversation: Any = session.conversation  # calls of tools are in one
    return conversation.resolve(ref)


def _change(
    shop: Shop, plain: Session, user: uuid.UUID, tool: str, arguments: Mapping[str, Any]
) -> None:
    try:
        changed = shop.do(dumped(plain, user), tool, arguments)
    except ValueError as error:
        raise ToolError("refused_by_the_shop", f"{error}; nothing was changed") from None
    put(plain, changed)
    plain.commit()
