"""What a draft may hold: a JSON object, as it came, within limits.

Values of Python come in and text goes out, which `json.loads` reads as the same values. Nothing is
left out or changed to make it fit: what is no JSON is refused, and no error repeats it. Whether
the values suit the columns of a class is not asked here, but by those who know what columns take.
Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from alfred_refs.errors import DraftContentError
from alfred_refs.mapping.guard import scrub

LONGEST = 256 * 1024
"""Bytes of JSON. A model that writes for an hour writes less, and a page of drafts must fit into
the memory of a process many times."""

DEEPEST = 50
"""Levels of objects and lists, far below those at which JSON libraries give up."""

_NAMED = 60  # characters of a field's name in an error


def to_text(content: Any) -> str:
    """Return content as JSON.

    Raises:
        DraftContentError: it is no JSON object, or too large.
    """
    if not isinstance(content, Mapping):
        raise DraftContentError(
            f"the content of a draft is of type {type(content).__name__}",
            "give an object: the names of fields, and their values",
        )
    plain = {_name(name): _plain(value, name, 2) for name, value in content.items()}
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise DraftContentError(
            "the content of a draft has an integer of thousands of digits", "give it as text"
        ) from None
    size = len(text.encode())
    if size > LONGEST:
        raise DraftContentError(
            f"the content of a draft has {size:,} bytes, and there is room for {LONGEST:,}",
            "make several drafts of it, or leave out what is no part of it",
        )
    return text


def _plain(value: Any, field: str, depth: int) -> Any:
    """Return a value of JSON's own types, all the way down."""
    if depth > DEEPEST:
        raise _refused(field, f"values nested more than {DEEPEST} levels deep", "nest it less")
    match value:
        case None | bool() | int():
            return value
        case str():
            return _text(value, field)
        case float():
            if not math.isfinite(value):
                raise _refused(field, "a number that is not finite", "give null in its place")
            return value
        case Mapping():
            items = value.items()
            return {_name(name, field): _plain(each, field, depth + 1) for name, each in items}
        case list() | tuple():
            return [_plain(each, field, depth + 1) for each in value]
        case _:
            kind = type(value).__name__
            remedy = "give it as text, as its column takes it from a model, and a ref for a key"
            raise _refused(field, f"a value of type {kind}, which JSON has not", remedy)


def _name(name: Any, field: str | None = None) -> str:
    if isinstance(name, str):
        return _text(name, name if field is None else field)
    raise DraftContentError(
        f"the content of a draft has a field whose name is of type {type(name).__name__}",
        "name fields by text",
    )


def _text(text: str, field: str) -> str:
    if "\0" in text:
        remedy = "take it out: no text of PostgreSQL can have one"
        raise _refused(field, "a text with a NUL character", remedy)
    try:
        text.encode()
    except UnicodeEncodeError:
        remedy = "write the whole character"
        raise _refused(field, "a text with half of a surrogate pair", remedy) from None
    return text


def _refused(field: str, fact: str, remedy: str) -> DraftContentError:
    name = scrub(field[:_NAMED])
    return DraftContentError(f"field {name!r} of a draft has {fact}", remedy)
