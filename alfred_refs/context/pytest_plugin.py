"""pytest plugin: a fixture that fails a test if a key reaches a model.

    def test_the_agent_shows_no_key(no_keys):
        prompt = make_prompt()
        no_keys.check(prompt)  # fails and prints the masked key; logs are checked at the end

>>> NoKeys().check("recipe_1", {"rows": [{"id": "recipe_2"}]})

pytest loads it by an entry point of the package, in every run; so it imports nothing at the top
that is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


class NoKeys:
    """Fails a test that shows a key."""

    def check(self, *values: Any) -> None:
        """Fail if text or JSON values contain a key."""
        from alfred_refs.context.auditing import find_keys  # noqa: PLC0415  # every run of pytest imports this module

        found = [each for value in values for each in find_keys(value)]
        if found:
            told = ", ".join(f"{each.masked} ({each.kind})" for each in found[:10])
            pytest.fail(f"{len(found)} keys would reach a model: {told}")


@pytest.fixture
def no_keys(caplog: pytest.LogCaptureFixture) -> Iterator[NoKeys]:
    """Check values for keys, and the logs at the end of the test."""
    checks = NoKeys()
    yield checks
    logged = (record for when in ("setup", "call") for record in caplog.get_records(when))
    checks.check(*(record.getMessage() for record in logged))
