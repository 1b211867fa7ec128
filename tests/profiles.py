"""Hypothesis profiles: `small` makes a fifth of the examples that `all`, the default, makes.

`run.py test` loads `small`; pytest's own `--hypothesis-profile` takes either. A test that needs
another number than the profile's scales it, so that the small run makes a fifth of that too:

    @settings(deadline=None, max_examples=examples(500))
"""

from __future__ import annotations

from hypothesis import settings

_ALL, _SMALL = 100, 20


def register() -> None:
    """Register the profiles; both keep what Hypothesis sets otherwise, as where `CI` is set."""
    settings.register_profile("all", max_examples=_ALL)
    settings.register_profile("small", max_examples=_SMALL)


def examples(number: int) -> int:
    """Return how many examples the loaded profile makes where `all` makes `number`."""
    return max(1, number * settings().max_examples // _ALL)
