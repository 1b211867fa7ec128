"""A draft to begin with."""

from __future__ import annotations

import pytest

from alfred_refs import Conversation
from tests.models import Recipe


@pytest.fixture
def soup(conversation: Conversation) -> str:
    """A draft of a recipe with one plan."""
    return conversation.draft(Recipe, {"name": "Soup", "plans": [{"day": "2026-05-01"}]}).ref
