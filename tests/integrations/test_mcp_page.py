"""The page on MCP: its programs print what it says."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from tests import readme
from tests.integrations import shop

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"


def test_the_programs_print_what_the_page_says(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry
) -> None:
    """Run from top to bottom on the shop of two customers."""
    names = {
        name: getattr(shop, name) for name in ("Product", "Category", "Order", "Customer", "ADA")
    }
    names |= {"sessions": shop_sessions, "registry": shop_registry, "ownership": shop.ownership()}
    printed, promised = readme.page(PAGE, names)

    assert printed == promised
    assert len(printed) == 2
