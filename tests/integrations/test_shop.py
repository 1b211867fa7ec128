"""The shop itself: it works without any integration, and its scan for keys finds them."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Ownership, RefRegistry, RefSession
from tests.integrations import shop


def test_each_customer_sees_their_own(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry, shop_ownership: Ownership
) -> None:
    """Orders are their owner's, goods are everybody's."""
    tools = shop.toolset(shop_ownership)
    told = {}
    for who in (shop.ADA, shop.BOB):
        owner = shop_ownership.of(who)
        with shop_sessions(
            conversation=f"chat of {who}", owner=owner, registry=shop_registry
        ) as session:
            for table in ("orders", "products"):
                answer = tools.call(session, "db_read", {"table": table})
                told[who, table] = [row.get("note", row.get("name")) for row in answer["rows"]]

    assert told == {
        (shop.ADA, "orders"): ["for Ada"],
        (shop.ADA, "products"): ["Gyokuro 玉露", "Großer Becher"],
        (shop.BOB, "orders"): ["for Bob"],
        (shop.BOB, "products"): ["Gyokuro 玉露", "Großer Becher"],
    }


def test_a_key_in_a_text_is_found(shop_engine: Engine) -> None:
    """Of either type, and a UUID without its dashes."""
    said = json.dumps({"who": shop.ADA.hex.upper(), "what": shop.FIRST_KEY + 11, "price": "24.90"})
    with Session(shop_engine) as session:
        assert shop.keys_in(session, said) == sorted([shop.ADA.hex, str(shop.FIRST_KEY + 11)])
        assert shop.keys_in(session, "customer_1", "24.90") == []


def test_a_crash_tells_a_key(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry, shop_ownership: Ownership
) -> None:
    """Unless somebody covers it, which the tests of integrations are about."""
    owner = shop_ownership.of(shop.ADA)
    order = {"table": "orders", "data": {"placed": "2026-11-25", "note": shop.CRASH}}
    with (
        shop_sessions(conversation="chat", owner=owner, registry=shop_registry) as session,
        pytest.raises(RuntimeError, match="could not reach the warehouse"),
    ):
        shop.toolset(shop_ownership).call(session, "db_create", order)
