"""`python -m tests.project.reference_gaps`: what the docstrings of public names lack.

For each entry of `docs/reference`, and each public method and property of it: a summary line, a
description and a type for each parameter, `Raises` where the body raises an error of the package,
and a runnable `Example` of the entry. Summary lines with a turn of `wording.TURNS` are listed too.
It is a report, not a gate.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

from alfred_refs import Store
from tests import reference
from tests.project.wording import TURNS

_ENTRY = re.compile(
    r"^\.\. auto(?:class|function|exception):: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE
)
_EXCLUDED = re.compile(r":exclude-members: (.*)")


def main() -> int:
    """Print each gap with the name that has it, and their number."""
    gaps = [gap for name, excluded in entries() for gap in gaps_of(name, excluded)]
    for gap in gaps:
        print(gap)  # noqa: T201
    print(f"{len(gaps)} gaps in {len(list(entries()))} entries")  # noqa: T201
    return 0


def entries() -> Iterator[tuple[str, set[str]]]:
    """Yield the classes and functions of the reference, with members that are excluded."""
    for page in sorted(reference.PAGES.glob("*.md")):
        for name, options in _ENTRY.findall(page.read_text("utf-8") + "\n"):
            excluded = _EXCLUDED.search(options)
            yield name, set(re.split(r"[,\s]+", excluded[1])) if excluded else set()


def gaps_of(name: str, excluded: set[str]) -> Iterator[str]:
    """Yield the gaps of an entry and its members.

    A parameter may be described by the docstring of the class. Members that override those of
    another library have their parameters from there; methods of stores are described by `Store`.
    """
    door, _, own = name.rpartition(".")
    value = getattr(import_module(door), own)
    text = inspect.getdoc(value) or ""
    yield from _gaps_of_text(name, text)
    if ">>> " not in text:
        yield f"{name}: no example"
    if not inspect.isclass(value):
        yield from _gaps_of_function(name, value, text)
        return
    is_described = issubclass(value, Exception) or is_dataclass(value) or value is Store
    is_described |= bool(re.search(r"\b(?:opened|made) by `", text))  # not by applications
    if isinstance(vars(value).get("__init__"), FunctionType) and not is_described:
        yield from _gaps_of_function(name, value.__init__, text)
    for member, found in vars(value).items():
        if not member.startswith("_") and member not in excluded:
            yield from _gaps_of_member(f"{name}.{member}", value, found, text)


def _gaps_of_member(name: str, class_: type[Any], found: Any, class_text: str) -> Iterator[str]:
    function = getattr(found, "fget", None) or getattr(found, "__func__", found)
    if not isinstance(function, FunctionType):
        return
    text = inspect.getdoc(function) or ""
    if not text and hasattr(Store, function.__name__) and class_ is not Store:
        return
    yield from _gaps_of_text(name, text)
    if not isinstance(found, property) and not _overrides_another_library(class_, function):
        yield from _gaps_of_function(name, function, f"{text}\n{class_text}")


def _overrides_another_library(class_: type[Any], function: FunctionType) -> bool:
    foreign = (base for base in class_.__mro__ if not base.__module__.startswith("alfred_refs"))
    return any(function.__name__ in vars(base) for base in foreign)


def _gaps_of_text(name: str, text: str) -> Iterator[str]:
    if not text:
        yield f"{name}: no docstring"
        return
    summary = text.partition("\n\n")[0]
    found = [turn for turn, pattern in TURNS.items() if re.search(pattern, summary, re.IGNORECASE)]
    if found:
        yield f"{name}: {', '.join(found)}: {summary!r}"


def _gaps_of_function(name: str, function: Callable[..., Any], text: str) -> Iterator[str]:
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls") and not each.name.startswith("_")
    ]
    described = re.findall(r"^ +\*{0,2}(\w+):", text, re.MULTILINE)
    for each in parameters:
        if each.name not in described and f"`{each.name}`" not in text:
            yield f"{name}: parameter {each.name!r} is not described"
        if each.annotation is inspect.Parameter.empty:
            yield f"{name}: parameter {each.name!r} has no type"
    raised = sorted(_raised_by(function))
    missing = [error for error in raised if error not in text]
    if missing:
        yield f"{name}: raises {', '.join(missing)}, which its docstring does not name"


def _raised_by(function: Callable[..., Any]) -> set[str]:
    """Return the names of the package's errors that the body itself raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    calls = (exc.func for exc in raised if isinstance(exc, ast.Call))
    return {
        func.id for func in calls if isinstance(func, ast.Name) and func.id.endswith("Error")
    } - {"AssertionError"}


if __name__ == "__main__":
    sys.exit(main())
