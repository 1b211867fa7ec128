"""From the JSON that a model gives to the arguments of a tool: their shape, and no more.

A tool's name and JSON values come in, and arguments go out. What has another shape raises, in
words of our own: pydantic's name Python's types, and each of those that a field may have. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from alfred_refs.tools.errors import (
    ToolError,
    invalid_arguments,
    missing_filter,
    unknown_tool,
)

from .arguments import KINDS, TOOLS, Arguments

# a mistake in the shape, as pydantic calls it -> what is wanted, where its own words are Python's
_WANTED: Mapping[str, str] = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "text",
}

_OF_FILTERS = ("field", "op", "value", "and", "or", "not")
_TWO_FILTERS = "one object has two filters"

_PLURAL = ("dict[", "list[")


def validated(tool: Any, given: Any) -> Arguments:
    """Return the arguments of a call.

    Raises:
        ToolError: there is no such tool, or they have not its shape.
    """
    model = TOOLS.get(tool) if isinstance(tool, str) else None
    if model is None:
        raise unknown_tool(str(tool), [*TOOLS])
    if not isinstance(given, dict):
        raise invalid_arguments("they are no object")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise _misshapen(tool, error) from None


def _misshapen(tool: str, error: ValidationError) -> ToolError:
    """Return the first mistake in the shape of arguments, in words of our own."""
    found = error.errors(include_url=False)
    first = next((each for each in found if _is_meant(each)), found[0])
    place = _place(first)
    field = ".".join(str(part) for part in place) or None
    match first["type"]:
        case "missing" | "too_short" if place == ["filters"]:
            return missing_filter(tool)
        case "extra_forbidden" if set(KINDS) & {*first["loc"]} and place[-1] in _OF_FILTERS:
            return invalid_arguments(_TWO_FILTERS, field, "put each into one of its own")
        case "missing":
            fact = "it is missing"
        case "extra_forbidden":
            fact = "there is no such field"
        case "dict_type" | "list_type" if "data" in place:
            fact = "a row is an object: its values by column"
        case "too_short":
            fact = "it is empty"
        case type_:
            wanted = _WANTED.get(type_)
            fact = first["msg"] if wanted is None else f"input should be {wanted}"
    return invalid_arguments(fact[:1].lower() + fact[1:], field)


def _is_branch(part: int | str) -> bool:
    """Tell whether a part of a path is pydantic's name for one of several types."""
    return isinstance(part, str) and ("[" in part or part in KINDS)


def _place(mistake: Any) -> list[int | str]:
    """Return where a mistake is, by the names that the model has given."""
    *outer, last = mistake["loc"]
    given = [last] if mistake["type"] == "extra_forbidden" or not _is_branch(last) else []
    path = [*(each for each in outer if not _is_branch(each)), *given]
    # one of the types again: no text that is checked is in a field of that name
    return path[:-1] if mistake["type"] == "string_type" and path[-1] == "str" else path


def _is_meant(mistake: Any) -> bool:
    """Tell whether a mistake is of the type that was given: a list is no row, nor the reverse."""
    branches = [p for p in mistake["loc"] if isinstance(p, str) and p.startswith(_PLURAL)]
    is_list = isinstance(mistake["input"], list)
    if len(mistake["loc"]) > len(branches) + 1:  # of an element
        return bool(branches) and "list" in branches[0]
    return not branches or (("list" in branches[0]) is is_list)
