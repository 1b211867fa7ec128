"""The shop's scan for keys finds them."""

from __future__ import annotations

import json

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from tests.integrations import shop


def test_a_key_in_a_text_is_found(shop_engine: Engine) -> None:
    """Of either type, and a UUID without its dashes."""
    said = json.dumps({"who": shop.ADA.hex.upper(), "what": shop.FIRST_KEY + 11, "price": "24.90"})
    with Session(shop_engine) as session:
        assert shop.keys_in(session, said) == sorted([shop.ADA.hex, str(shop.FIRST_KEY + 11)])
        assert shop.keys_in(session, "customer_1", "24.90") == []
