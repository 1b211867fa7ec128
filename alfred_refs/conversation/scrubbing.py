"""Put refs in the place of keys in a value that is about to reach a model.

Text or JSON comes in, of any depth; the same goes out without keys. What the registry knows of a
key decides, and it is asked once for the whole value, or not at all where there is no key in it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

from alfred_refs.errors import KeyShownError
from alfred_refs.mapping.key_search import found_in, replaced
from alfred_refs.mapping.keys import Key

Unknown = Literal["mask", "refuse"]
"""What becomes of a key that has no ref: `<key>` takes its place, or the value is refused."""


def scrubbed(
    value: Any,
    refs_of: Callable[[list[Key]], Mapping[Key, str]],
    texts: list[str],
    unknown: Unknown = "mask",
) -> Any:
    """Return a value without keys.

    Args:
        value: text, JSON values, tuples, dataclasses and models of pydantic.
        refs_of: returns the refs of keys that have one.
        texts: keys that are texts themselves, which nothing else tells from words.
        unknown: what becomes of other keys.

    Raises:
        KeyShownError: there is a key without ref, and it is to be refused.
    """
    plain = _plain(value)
    found = [(path, key) for path, text in _texts_in(plain, "") for key in found_in(text)]
    keys = dict.fromkeys(each.key for _, each in found if each.key is not None)
    words = [text for text in texts if any(text in inside for _, inside in _texts_in(plain, ""))]
    if not found and not words:
        return plain
    refs = refs_of([*keys, *words])
    if unknown == "refuse":
        for path, each in found:
            if each.key is None or each.key not in refs:
                raise KeyShownError(path or "the text", each.kind, each.masked)
    known = [key for key in refs if isinstance(key, uuid.UUID)]

    def clean(text: str) -> str:
        text = replaced(text, refs.get, iter(known))
        for word in words:
            if word in refs:
                text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", refs[word], text)
        return text

    return _rewritten(plain, clean)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        return {
            str(name) if isinstance(name, uuid.UUID) else name: _plain(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, uuid.UUID) else value


def _texts_in(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value, names of fields among them, each with the way to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(name, str):
                yield f"{path}.(a name)".lstrip("."), name
            shown = "(a name)" if isinstance(name, str) and found_in(name) else name
            yield from _texts_in(each, f"{path}.{shown}".lstrip("."))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts_in(each, f"{path}[{number}]")


def _rewritten(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {
            clean(name) if isinstance(name, str) else name: _rewritten(each, clean)
            for name, each in value.items()
        }
    return [_rewritten(each, clean) for each in value] if isinstance(value, list) else value
