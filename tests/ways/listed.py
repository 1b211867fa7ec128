"""The list of ways, and what of SQLAlchemy's surface each of them tries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy

from tests.ways.world import Way

SERIES_2_1 = sqlalchemy.__version__ >= "2.1"

WAYS: dict[str, Way] = {}
AWAITED: dict[str, Way] = {}
TRIED: set[str] = set()


def way(*tried: str, since: bool = True) -> Callable[[Way], Way]:
    """Note a way by its name: an `async` one is of asynchronous sessions.

    Args:
        tried: what it tries, as `surface` names it.
        since: whether this series of SQLAlchemy has that.
    """

    def noted(function: Way) -> Way:
        if since:
            ways = AWAITED if inspect.iscoroutinefunction(function) else WAYS
            name = function.__name__[1:].replace("_", " ")
            assert name not in ways
            ways[name] = function
            TRIED.update(tried)
        return function

    return noted


def surface(class_: type[Any], name: str | None = None) -> Iterator[str]:
    """Yield what is public of a class: `Class.method(parameter)`, `Class.attribute`."""
    name = name or class_.__name__
    yield from _parameters(name, class_.__init__)
    for attribute in (each for each in dir(class_) if not each.startswith("_")):
        found = getattr(class_, attribute)
        if inspect.isfunction(found) or inspect.ismethod(found):
            yield from _parameters(f"{name}.{attribute}", found)
        else:
            yield f"{name}.{attribute}"


def _parameters(name: str, function: Any) -> Iterator[str]:
    every = inspect.signature(function).parameters.values()
    named = [
        each.name
        for each in every
        if each.kind is not each.VAR_KEYWORD and not each.name.startswith("_")
    ]
    named = [each for each in named if each != "self"]
    yield from (f"{name}({each})" for each in named) if named else [f"{name}()"]
