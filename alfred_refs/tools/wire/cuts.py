"""What is left out of values on their way to a model, and the mark that stands in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .repair import DEEPEST
from .texts import Verbatim

DEEPEST_SHOWN = DEEPEST - 3
"""Levels of a value that are shown: a new row among others is given with as many."""

MARK = Verbatim("…<cut: nested deeper>")
"""Stands in place of what is nested too deep to be shown."""


def shallow(value: Any, levels: int = DEEPEST_SHOWN) -> tuple[Any, bool]:
    """Return a value without what is nested too deep, and whether something was.

    Documents come as their driver loads them, which may be deeper than any code goes through.
    """
    if not isinstance(value, Mapping | list | tuple):
        return value, False
    if not levels:
        return MARK, True
    if isinstance(value, Mapping):
        inside = {name: shallow(each, levels - 1) for name, each in value.items()}
        is_cut = any(cut for _, cut in inside.values())
        return ({name: each for name, (each, _) in inside.items()} if is_cut else value), is_cut
    elements = [shallow(each, levels - 1) for each in value]
    is_cut = any(cut for _, cut in elements)
    return ([each for each, _ in elements] if is_cut else value), is_cut
